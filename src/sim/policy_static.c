/* Static batches, as FasterTransformer ran them: the earliest waiting requests, as many as there is
 * room for at M slots each, form a batch; nobody joins or leaves until the longest is done.
 *
 *   filling --first step--> sealed --all done--> filling ...
 *
 * The chunk of a request that is done before the others stays: all of its slots count as internal,
 * and as `dead`. The allocator only matters in what it rounds M to. */
#include "sim/sim_internal.h"

typedef struct member {
    int64_t r;
    pkv__sim_chunk chunk;
    bool done;
} member;

typedef struct batch {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    const pkv__sim_addr_ops *ops;
    void *addr;
    member *members; /* [most_members] */
    size_t member_bytes;
    int32_t *place; /* [n] of a request among the members, while its batch lasts */
    size_t place_bytes;
    int32_t most_members, n_members, n_done;
    bool sealed;
    /* over the members that are not done */
    int64_t sum_final;    /* f */
    int64_t sum_internal; /* M - f */
    int64_t sum_rounding; /* q - M */
    int64_t sum_dead;     /* q of those that are */
    pkv__sim_refusals refusals;
} batch;

/* f; only for requests with f <= M. */
static int32_t final_tokens(const batch *b, int64_t r)
{
    return b->reqs[r].prompt_tokens + b->reqs[r].output_tokens;
}

static void static_destroy(void *self)
{
    batch *b = self;
    if (!b) return;
    const pkv_allocator *alloc = &b->cfg->alloc;
    if (b->addr) b->ops->destroy(b->addr);
    pkv__free(alloc, b->place, b->place_bytes);
    pkv__free(alloc, b->members, b->member_bytes);
    pkv__free(alloc, b, sizeof(*b));
}

static pkv_status static_create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                                void **out)
{
    batch *b = pkv__alloc(&cfg->alloc, sizeof(*b), _Alignof(batch));
    if (!b) return PKV_E_NO_MEMORY;
    *b = (batch){ .cfg = cfg, .reqs = reqs, .ops = pkv__sim_addr_find(cfg->policy.addr) };
    b->most_members = n < cfg->max_num_seqs ? (int32_t)n : cfg->max_num_seqs;
    b->member_bytes = (size_t)b->most_members * sizeof(member);
    b->members = pkv__alloc(&cfg->alloc, b->member_bytes, _Alignof(member));
    b->place_bytes = (size_t)n * sizeof(int32_t);
    b->place = pkv__alloc(&cfg->alloc, b->place_bytes, _Alignof(int32_t));
    if (!b->members || !b->place) goto fail;
    if (b->ops->create(cfg->pool_tokens, b->most_members, &cfg->alloc, &b->addr) != PKV_OK)
        goto fail;
    for (int64_t r = 0; r < n; r++) b->place[r] = 0;
    *out = b;
    return PKV_OK;

fail:
    static_destroy(b);
    return PKV_E_NO_MEMORY;
}

static bool static_fits_empty(const void *self, int64_t r)
{
    (void)r;
    const batch *b = self;
    return b->ops->fits_empty(b->addr, b->cfg->max_model_len);
}

static pkv_status static_admit(void *self, int64_t r, int32_t u, bool pool_is_empty,
                               int32_t *cached)
{
    *cached = 0;
    (void)u;
    (void)pool_is_empty;
    batch *b = self;
    const int32_t longest = b->cfg->max_model_len, f = final_tokens(b, r);
    if (b->sealed || b->n_members >= b->most_members) return PKV_E_NO_BLOCKS;
    pkv__sim_chunk chunk;
    if (!b->ops->take(b->addr, longest, &chunk.addr, &chunk.q)) {
        pkv__sim_refusals_add(&b->refusals, b->ops, b->addr, longest);
        return PKV_E_NO_BLOCKS;
    }
    b->place[r] = b->n_members;
    b->members[b->n_members++] = (member){ r, chunk, false };
    b->sum_final += f;
    b->sum_internal += longest - f;
    b->sum_rounding += chunk.q - longest;
    return PKV_OK;
}

static pkv_status static_grow(void *self, int64_t r, int32_t u)
{
    (void)r;
    (void)u;
    ((batch *)self)->sealed = true;
    return PKV_OK;
}

static pkv_status static_release(void *self, int64_t r)
{
    batch *b = self;
    member *m = &b->members[b->place[r]];
    const int32_t longest = b->cfg->max_model_len, f = final_tokens(b, r);
    PKV_ASSERT(m->r == r && !m->done);
    b->sealed = true;
    m->done = true;
    b->n_done++;
    b->sum_final -= f;
    b->sum_internal -= longest - f;
    b->sum_rounding -= m->chunk.q - longest;
    b->sum_dead += m->chunk.q;
    if (b->n_done < b->n_members) return PKV_OK;
    for (int32_t k = 0; k < b->n_members; k++)
        b->ops->give(b->addr, b->members[k].chunk.addr, b->members[k].chunk.q);
    b->n_members = b->n_done = 0;
    b->sum_dead = 0;
    b->sealed = false;
    return PKV_OK;
}

static int64_t static_leap_limit(const void *self, int64_t r, int32_t u)
{
    (void)self;
    (void)r;
    (void)u;
    return INT64_MAX; /* the chunk holds all that will come */
}

static int64_t static_need(const void *self, int64_t r, int32_t u)
{
    (void)r;
    (void)u;
    return ((const batch *)self)->cfg->max_model_len;
}

static int64_t static_held(const void *self, int64_t r)
{
    const batch *b = self;
    const member *m = &b->members[b->place[r]]; /* not of r, if its batch has ended */
    return b->place[r] < b->n_members && m->r == r ? m->chunk.q : 0;
}

static bool static_has_places(const void *self)
{
    const pkv__sim_addr_ops *ops = ((const batch *)self)->ops;
    return ops->has_places && !ops->compact; /* chunks of one size leave nothing to compact */
}

static bool static_closed(const void *self)
{
    return ((const batch *)self)->sealed;
}

static void static_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample)
{
    const batch *b = self;
    pkv__sim_chunk_usage(b->cfg->max_model_len, b->members[b->place[r]].chunk.q, final_tokens(b, r),
                         u, sample);
}

static void static_usage(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free)
{
    const batch *b = self;
    *sample = (pkv__sim_sample){ 0 };
    sample->part[PKV__PART_TOKEN] = sample->part[PKV__PART_LOGICAL] = tokens;
    sample->part[PKV__PART_RESERVATION] = b->sum_final - tokens;
    sample->part[PKV__PART_INTERNAL] = b->sum_internal + b->sum_dead;
    sample->part[PKV__PART_ROUNDING] = b->sum_rounding;
    sample->part[PKV__PART_DEAD] = b->sum_dead;
    *n_free = b->ops->n_free(b->addr);
}

static int64_t static_largest_free(const void *self)
{
    const batch *b = self;
    return b->ops->largest_free(b->addr);
}

/* Called after the grow of a step: what is prefilling does not grow, but it runs. */
static void static_take_costs(void *self, pkv__sim_costs *costs)
{
    batch *b = self;
    *costs = (pkv__sim_costs){ 0 };
    if (b->n_members > 0) b->sealed = true;
}

static void static_result(const void *self, pkv_sim_result *out)
{
    pkv__sim_refusals_result(&((const batch *)self)->refusals, out);
}

static bool static_map(const void *self, const pkv__sim_held *running, int32_t n,
                       pkv__sim_cell *cells, int32_t n_cells)
{
    const batch *b = self;
    const int64_t pool = b->cfg->pool_tokens;
    if (!b->ops->has_places) return false;
    for (int32_t k = 0; k < b->n_members; k++) {
        const member *m = &b->members[k];
        const int64_t from = m->chunk.addr, to = from + m->chunk.q;
        if (m->done) pkv__sim_map_add(cells, n_cells, pool, from, to, PKV_SIM_MAP_INTERNAL);
    }
    for (int32_t k = 0; k < n; k++) {
        const int64_t r = running[k].r;
        pkv__sim_chunk_map(b->members[b->place[r]].chunk, b->cfg->max_model_len, final_tokens(b, r),
                           running[k].u, pool, cells, n_cells);
    }
    return true;
}

static pkv_status static_check(void *self)
{
    const batch *b = self;
    int64_t taken = 0;
    int32_t n_done = 0;
    for (int32_t k = 0; k < b->n_members; k++) {
        taken += b->members[k].chunk.q;
        n_done += b->members[k].done;
    }
    const int64_t n_free = b->ops->n_free(b->addr);
    if (taken + n_free == b->cfg->pool_tokens && n_done == b->n_done) return PKV_OK;
    return pkv__refuse(&b->cfg->log, PKV_E_CORRUPT,
                       "static-batch: %lld slots in chunks, %lld free in a pool of %d; %d done of "
                       "%d, %d counted",
                       (long long)taken, (long long)n_free, b->cfg->pool_tokens, n_done,
                       b->n_members, b->n_done);
}

const pkv__sim_policy_ops pkv__sim_policy_static = {
    .create = static_create,
    .destroy = static_destroy,
    .units_per_slot = pkv__sim_unit_is_slot,
    .fits_empty = static_fits_empty,
    .probe = pkv__sim_no_probe,
    .admit = static_admit,
    .grow = static_grow,
    .release = static_release,
    .leap_limit = static_leap_limit,
    .need = static_need,
    .held = static_held,
    .has_places = static_has_places,
    .closed = static_closed,
    .usage_of = static_usage_of,
    .usage = static_usage,
    .largest_free = static_largest_free,
    .take_costs = static_take_costs,
    .result = static_result,
    .map = static_map,
    .check = static_check,
};
