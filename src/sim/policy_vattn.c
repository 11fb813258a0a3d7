/* vAttention: every request has a contiguous range of virtual addresses, behind which physical
 * pages appear on demand. Each of the K and V tensors of each layer has a range of its own and all
 * grow alike, so one tensor stands for all: the pool is its C * b bytes, cut into groups of one
 * page.
 *
 * A page need not hold a whole number of tokens (2 MiB at 10 KiB per token are 204.8), so all is
 * counted in bytes of one tensor. Where it does hold P of them this is paged with blocks of P: the
 * same watermark at admission, the same preemption by recomputing the latest arrival. */
#include "sim/sim_internal.h"

typedef struct vattn {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    int64_t token_bytes, page_bytes;
    int64_t n_groups, n_free, watermark; /* in groups */
    int64_t *groups;                     /* [n] that a request holds */
    size_t group_bytes;
} vattn;

/* Groups for `tokens` tokens: at most 2^31 tokens of 2^31 bytes. */
static int64_t groups_for(const vattn *v, int64_t tokens)
{
    return (tokens * v->token_bytes + v->page_bytes - 1) / v->page_bytes;
}

static void vattn_destroy(void *self)
{
    vattn *v = self;
    if (!v) return;
    pkv__free(&v->cfg->alloc, v->groups, v->group_bytes);
    pkv__free(&v->cfg->alloc, v, sizeof(*v));
}

static pkv_status vattn_create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                               void **out)
{
    vattn *v = pkv__alloc(&cfg->alloc, sizeof(*v), _Alignof(vattn));
    if (!v) return PKV_E_NO_MEMORY;
    *v = (vattn){ .cfg = cfg,
                  .reqs = reqs,
                  .token_bytes = cfg->tensor_token_bytes,
                  .page_bytes = cfg->policy.page_bytes };
    v->n_groups = cfg->pool_tokens * v->token_bytes / v->page_bytes;
    v->n_free = v->n_groups;
    v->watermark = (int64_t)((pkv__i128)v->n_groups * cfg->watermark_ppm / 1000000);
    v->group_bytes = (size_t)n * sizeof(int64_t);
    v->groups = pkv__alloc(&cfg->alloc, v->group_bytes, _Alignof(int64_t));
    if (!v->groups) {
        vattn_destroy(v);
        return PKV_E_NO_MEMORY;
    }
    for (int64_t r = 0; r < n; r++) v->groups[r] = 0;
    *out = v;
    return PKV_OK;
}

static int64_t vattn_units_per_slot(const void *self)
{
    return ((const vattn *)self)->token_bytes;
}

static bool vattn_fits_empty(const void *self, int64_t r)
{
    const vattn *v = self;
    const int64_t f = (int64_t)v->reqs[r].prompt_tokens + v->reqs[r].output_tokens;
    return groups_for(v, f) <= v->n_groups;
}

static pkv_status vattn_admit(void *self, int64_t r, int32_t u, bool pool_is_empty, int32_t *cached)
{
    *cached = 0;
    vattn *v = self;
    const int64_t n = groups_for(v, u);
    if (n > v->n_free - (pool_is_empty ? 0 : v->watermark)) return PKV_E_NO_BLOCKS;
    v->groups[r] = n;
    v->n_free -= n;
    return PKV_OK;
}

static pkv_status vattn_grow(void *self, int64_t r, int32_t u)
{
    vattn *v = self;
    const int64_t more = groups_for(v, (int64_t)u + 1) - v->groups[r];
    if (more > v->n_free) return PKV_E_NO_BLOCKS;
    v->groups[r] += more;
    v->n_free -= more;
    return PKV_OK;
}

static pkv_status vattn_release(void *self, int64_t r)
{
    vattn *v = self;
    v->n_free += v->groups[r];
    v->groups[r] = 0;
    return PKV_OK;
}

static int64_t vattn_held(const void *self, int64_t r)
{
    const vattn *v = self;
    return v->groups[r] * v->page_bytes;
}

/* Until one token more than there is now no longer fits. */
static int64_t vattn_leap_limit(const void *self, int64_t r, int32_t u)
{
    const vattn *v = self;
    return vattn_held(v, r) / v->token_bytes - u;
}

static int64_t vattn_need(const void *self, int64_t r, int32_t u)
{
    (void)r;
    const vattn *v = self;
    return (groups_for(v, u) + v->watermark) * v->page_bytes;
}

static int64_t used_bytes(const vattn *v)
{
    return (v->n_groups - v->n_free) * v->page_bytes;
}

static int64_t pool_bytes(const vattn *v)
{
    return v->cfg->pool_tokens * v->token_bytes;
}

static int64_t vattn_largest_free(const void *self)
{
    const vattn *v = self;
    return pool_bytes(v) - used_bytes(v);
}

static bool vattn_has_places(const void *self)
{
    (void)self;
    return false;
}

static void vattn_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample)
{
    const vattn *v = self;
    sample->part[PKV__PART_LOGICAL] += u * v->token_bytes;
    sample->part[PKV__PART_INTERNAL] += vattn_held(v, r) - u * v->token_bytes;
}

static void vattn_usage(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free)
{
    const vattn *v = self;
    const int64_t kept = v->n_free < v->watermark ? v->n_free : v->watermark;
    *sample = (pkv__sim_sample){ 0 };
    sample->part[PKV__PART_TOKEN] = sample->part[PKV__PART_LOGICAL] = tokens * v->token_bytes;
    sample->part[PKV__PART_INTERNAL] = used_bytes(v) - tokens * v->token_bytes;
    sample->part[PKV__PART_WATERMARK] = kept * v->page_bytes;
    sample->part[PKV__PART_TAIL] = pool_bytes(v) - v->n_groups * v->page_bytes;
    *n_free = pool_bytes(v) - used_bytes(v);
}

static pkv_status vattn_check(void *self)
{
    (void)self; /* the engine compares usage with the sum of usage_of */
    return PKV_OK;
}

const pkv__sim_policy_ops pkv__sim_policy_vattn = {
    .create = vattn_create,
    .destroy = vattn_destroy,
    .units_per_slot = vattn_units_per_slot,
    .fits_empty = vattn_fits_empty,
    .probe = pkv__sim_no_probe,
    .admit = vattn_admit,
    .grow = vattn_grow,
    .release = vattn_release,
    .leap_limit = vattn_leap_limit,
    .need = vattn_need,
    .held = vattn_held,
    .has_places = vattn_has_places,
    .closed = pkv__sim_never_closed,
    .usage_of = vattn_usage_of,
    .usage = vattn_usage,
    .largest_free = vattn_largest_free,
    .take_costs = pkv__sim_no_costs,
    .result = pkv__sim_no_result,
    .map = pkv__sim_no_map,
    .check = vattn_check,
};
