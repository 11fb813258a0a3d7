/* Contiguous policies: one chunk per request, taken at admission and held to the end. They differ
 * in what they ask for: max M slots, pow2 the prompt and the output rounded up to a power of two,
 * oracle exactly prompt and output.
 *
 * Reservation and internal waste are measured against what was asked (h); what the allocator adds
 * on top (q - h) is rounding, a part of external. Only so has oracle no internal waste, as in the
 * PagedAttention paper. */
#include "sim/sim_internal.h"

typedef struct contig {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    const pkv__sim_addr_ops *ops;
    void *addr;
    pkv__sim_chunk *chunks; /* [n] */
    size_t chunk_bytes;
    /* over the running requests */
    int64_t sum_final;    /* min(h, f) */
    int64_t sum_internal; /* max(0, h - f) */
    int64_t sum_rounding; /* q - h */
} contig;

static int32_t pow2_at_least(int32_t n)
{
    int64_t p = 1;
    while (p < n) p *= 2;
    return p > INT32_MAX ? INT32_MAX : (int32_t)p;
}

/* h */
static int32_t asked(const contig *c, int64_t r)
{
    const pkv_sim_request *req = &c->reqs[r];
    const int32_t limit = c->cfg->max_model_len;
    if (c->cfg->policy.kind == PKV_SIM_MAX) return limit;
    if (c->cfg->policy.kind == PKV_SIM_ORACLE) return req->prompt_tokens + req->output_tokens;
    const int64_t h = (int64_t)req->prompt_tokens + pow2_at_least(req->output_tokens);
    return h < limit ? (int32_t)h : limit;
}

/* f; only for requests with f <= M. */
static int32_t final_tokens(const contig *c, int64_t r)
{
    return c->reqs[r].prompt_tokens + c->reqs[r].output_tokens;
}

static void contig_destroy(void *self)
{
    contig *c = self;
    if (!c) return;
    if (c->addr) c->ops->destroy(c->addr);
    pkv__free(&c->cfg->alloc, c->chunks, c->chunk_bytes);
    pkv__free(&c->cfg->alloc, c, sizeof(*c));
}

static pkv_status contig_create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                                void **out)
{
    contig *c = pkv__alloc(&cfg->alloc, sizeof(*c), _Alignof(contig));
    if (!c) return PKV_E_NO_MEMORY;
    *c = (contig){ .cfg = cfg, .reqs = reqs, .ops = pkv__sim_addr_find(cfg->policy.addr) };
    c->chunk_bytes = (size_t)(n ? n : 1) * sizeof(pkv__sim_chunk);
    c->chunks = pkv__alloc(&cfg->alloc, c->chunk_bytes, _Alignof(pkv__sim_chunk));
    if (!c->chunks) goto fail;
    if (c->ops->create(cfg->pool_tokens, cfg->max_num_seqs, &cfg->alloc, &c->addr) != PKV_OK)
        goto fail;
    for (int64_t r = 0; r < n; r++) c->chunks[r] = (pkv__sim_chunk){ 0, 0 };
    *out = c;
    return PKV_OK;

fail:
    contig_destroy(c);
    return PKV_E_NO_MEMORY;
}

static bool contig_fits_empty(const void *self, int64_t r)
{
    const contig *c = self;
    return c->ops->fits_empty(c->addr, asked(c, r));
}

static pkv_status contig_admit(void *self, int64_t r, int32_t u, bool pool_is_empty,
                               int32_t *cached)
{
    *cached = 0;
    (void)u;
    (void)pool_is_empty;
    contig *c = self;
    pkv__sim_chunk *k = &c->chunks[r];
    const int32_t h = asked(c, r), f = final_tokens(c, r);
    if (!c->ops->take(c->addr, h, &k->addr, &k->q)) return PKV_E_NO_BLOCKS;
    c->sum_final += pkv__min_i32(h, f);
    c->sum_internal += pkv__max_i32(0, h - f);
    c->sum_rounding += k->q - h;
    return PKV_OK;
}

static pkv_status contig_grow(void *self, int64_t r, int32_t u)
{
    (void)u;
    PKV_ASSERT(((const contig *)self)->chunks[r].q > u);
    (void)self;
    (void)r;
    return PKV_OK;
}

static pkv_status contig_release(void *self, int64_t r)
{
    contig *c = self;
    pkv__sim_chunk *k = &c->chunks[r];
    const int32_t h = asked(c, r), f = final_tokens(c, r);
    c->sum_final -= pkv__min_i32(h, f);
    c->sum_internal -= pkv__max_i32(0, h - f);
    c->sum_rounding -= k->q - h;
    c->ops->give(c->addr, k->addr, k->q);
    *k = (pkv__sim_chunk){ 0, 0 };
    return PKV_OK;
}

static int64_t contig_leap_limit(const void *self, int64_t r, int32_t u)
{
    (void)self;
    (void)r;
    (void)u;
    return INT64_MAX; /* the chunk holds all that will come */
}

static int64_t contig_need(const void *self, int64_t r, int32_t u)
{
    (void)u;
    return asked(self, r);
}

static int64_t contig_held(const void *self, int64_t r)
{
    return ((const contig *)self)->chunks[r].q;
}

static bool contig_has_places(const void *self)
{
    return ((const contig *)self)->ops->has_places;
}

static void contig_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample)
{
    const contig *c = self;
    pkv__sim_chunk_usage(asked(c, r), c->chunks[r].q, final_tokens(c, r), u, sample);
}

static void contig_usage(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free)
{
    const contig *c = self;
    *sample = (pkv__sim_sample){ 0 };
    sample->part[PKV__PART_TOKEN] = sample->part[PKV__PART_LOGICAL] = tokens;
    sample->part[PKV__PART_RESERVATION] = c->sum_final - tokens;
    sample->part[PKV__PART_INTERNAL] = c->sum_internal;
    sample->part[PKV__PART_ROUNDING] = c->sum_rounding;
    *n_free = c->ops->n_free(c->addr);
}

static int64_t contig_largest_free(const void *self)
{
    const contig *c = self;
    return c->ops->n_free(c->addr);
}

static pkv_status contig_check(void *self)
{
    (void)self; /* the engine compares usage with the sum of usage_of */
    return PKV_OK;
}

void pkv__sim_chunk_usage(int32_t h, int32_t q, int32_t f, int32_t u, pkv__sim_sample *sample)
{
    sample->part[PKV__PART_LOGICAL] += u;
    sample->part[PKV__PART_RESERVATION] += pkv__max_i32(0, pkv__min_i32(h, f) - u);
    sample->part[PKV__PART_INTERNAL] += pkv__max_i32(0, h - f);
    sample->part[PKV__PART_ROUNDING] += q - h;
}

const pkv__sim_policy_ops pkv__sim_policy_contig = {
    .create = contig_create,
    .destroy = contig_destroy,
    .units_per_slot = pkv__sim_unit_is_slot,
    .probe = pkv__sim_no_probe,
    .held = contig_held,
    .closed = pkv__sim_never_closed,
    .take_costs = pkv__sim_no_costs,
    .result = pkv__sim_no_result,
    .map = pkv__sim_no_map,
    .largest_free = contig_largest_free,
    .fits_empty = contig_fits_empty,
    .admit = contig_admit,
    .grow = contig_grow,
    .release = contig_release,
    .leap_limit = contig_leap_limit,
    .need = contig_need,
    .has_places = contig_has_places,
    .usage_of = contig_usage_of,
    .usage = contig_usage,
    .check = contig_check,
};
