/* Contiguous policies: one chunk per request, taken at admission and held to the end. They differ
 * in what they ask for: max M slots, pow2 the prompt and the output rounded up to a power of two,
 * oracle exactly prompt and output. orca-real, the published Orca, only counts: max_tokens slots
 * per request, wherever they lie.
 *
 * Reservation and internal waste are measured against what was asked (h); what the allocator adds
 * on top (q - h) is rounding, a part of external. Only so has oracle no internal waste, as in the
 * PagedAttention paper.
 *
 * Where a compacting allocator has no place although enough is free, all chunks slide down and the
 * resident tokens of those that moved are paid for. So no free slot is ever in the wrong place. */
#include "sim/sim_internal.h"

#include <stdlib.h>

#define NS_PER_S INT64_C(1000000000)
#define LONGEST_NS (INT64_C(1) << 62) /* no run lasts longer */

typedef struct contig_req {
    pkv__sim_chunk chunk;
    int32_t live_idx;   /* while it runs */
    int64_t refused_at; /* state of the pool that had no place for it; -1: none */
} contig_req;

typedef struct contig {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    const pkv__sim_addr_ops *ops;
    void *addr;
    contig_req *req; /* [n] */
    size_t req_bytes;
    pkv__sim_chunk **live; /* [most that run] first members of the running requests, in any order */
    pkv__sim_chunk **sorted; /* with cfg->check, as many */
    size_t live_bytes;
    int32_t n_live;
    int64_t state; /* counts takes and gives */
    /* over the running requests */
    int64_t sum_final;    /* min(h, f) */
    int64_t sum_internal; /* max(0, h - f) */
    int64_t sum_rounding; /* q - h */

    const void *engine; /* who knows the resident tokens; resident NULL: nobody */
    int32_t (*resident)(const void *engine, int64_t r);
    pkv__sim_refusals refusals;
    int64_t n_compactions, compacted_tokens;
    pkv__sim_costs costs; /* not handed over yet */
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
    switch (c->cfg->policy.kind) {
    case PKV_SIM_ORACLE:
        return req->prompt_tokens + req->output_tokens;
    case PKV_SIM_POW2: {
        const int32_t output = req->output_tokens > 0 ? pow2_at_least(req->output_tokens) : 0;
        const int64_t h = (int64_t)req->prompt_tokens + output;
        return h < limit ? (int32_t)h : limit;
    }
    case PKV_SIM_ORCA_REAL:
        return c->cfg->policy.max_tokens > 0 ? c->cfg->policy.max_tokens : limit;
    default:
        return limit;
    }
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
    const pkv_allocator *alloc = &c->cfg->alloc;
    if (c->addr) c->ops->destroy(c->addr);
    pkv__free(alloc, c->sorted, c->live_bytes);
    pkv__free(alloc, c->live, c->live_bytes);
    pkv__free(alloc, c->req, c->req_bytes);
    pkv__free(alloc, c, sizeof(*c));
}

static pkv_status contig_create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                                void **out)
{
    const pkv_sim_addr addr =
        cfg->policy.kind == PKV_SIM_ORCA_REAL ? PKV_SIM_ADDR_IDEAL : cfg->policy.addr;
    const int32_t most = n < cfg->max_num_seqs ? (int32_t)n : cfg->max_num_seqs; /* that run */
    contig *c = pkv__alloc(&cfg->alloc, sizeof(*c), _Alignof(contig));
    if (!c) return PKV_E_NO_MEMORY;
    *c = (contig){ .cfg = cfg, .reqs = reqs, .ops = pkv__sim_addr_find(addr) };
    c->req_bytes = (size_t)n * sizeof(contig_req);
    c->req = pkv__alloc(&cfg->alloc, c->req_bytes, _Alignof(contig_req));
    c->live_bytes = (size_t)most * sizeof(c->live[0]);
    c->live = pkv__alloc(&cfg->alloc, c->live_bytes, _Alignof(pkv__sim_chunk *));
    if (cfg->check) c->sorted = pkv__alloc(&cfg->alloc, c->live_bytes, _Alignof(pkv__sim_chunk *));
    if (!c->req || !c->live || (cfg->check && !c->sorted)) goto fail;
    if (c->ops->create(cfg->pool_tokens, most, &cfg->alloc, &c->addr) != PKV_OK) goto fail;
    for (int64_t r = 0; r < n; r++) c->req[r] = (contig_req){ .refused_at = -1 };
    *out = c;
    return PKV_OK;

fail:
    contig_destroy(c);
    return PKV_E_NO_MEMORY;
}

static void contig_connect(void *self, const void *engine,
                           int32_t (*resident)(const void *engine, int64_t r))
{
    contig *c = self;
    c->engine = engine;
    c->resident = resident;
}

static bool contig_fits_empty(const void *self, int64_t r)
{
    const contig *c = self;
    const int32_t h = asked(c, r);
    return final_tokens(c, r) <= h && c->ops->fits_empty(c->addr, h);
}

/* ---------------------------------------------------------------- the running ones */

static int64_t request_of(const contig *c, const pkv__sim_chunk *chunk)
{
    return (const contig_req *)(const void *)chunk - c->req;
}

static void add_live(contig *c, contig_req *q)
{
    q->live_idx = c->n_live;
    c->live[c->n_live++] = &q->chunk;
}

static void remove_live(contig *c, const contig_req *q)
{
    pkv__sim_chunk *last = c->live[--c->n_live];
    c->live[q->live_idx] = last;
    c->req[request_of(c, last)].live_idx = q->live_idx;
}

/* After the list was sorted. */
static void renumber_live(contig *c)
{
    for (int32_t k = 0; k < c->n_live; k++) c->req[request_of(c, c->live[k])].live_idx = k;
}

/* ---------------------------------------------------------------- compaction */

static int64_t move_ns(const pkv_sim_config *cfg, int64_t tokens)
{
    if (cfg->compact_bytes_per_s == 0) return 0;
    const pkv__i128 byte_ns = (pkv__i128)tokens * cfg->kv_bytes_per_token * NS_PER_S;
    const pkv__i128 ns = (byte_ns + cfg->compact_bytes_per_s - 1) / cfg->compact_bytes_per_s;
    return ns < LONGEST_NS ? (int64_t)ns : LONGEST_NS;
}

static void slide_down(contig *c)
{
    int64_t left = c->ops->compact(c->addr, c->live, c->n_live);
    int64_t tokens = 0;
    renumber_live(c);
    /* Behind the first that moved all move, and compacting leaves the list in order of address. */
    for (int32_t k = c->n_live - 1; left > 0; k--) {
        const pkv__sim_chunk *chunk = c->live[k];
        left -= chunk->q;
        tokens += c->resident ? c->resident(c->engine, request_of(c, chunk)) : chunk->q;
    }
    c->n_compactions++;
    c->compacted_tokens += tokens;
    c->costs.moved_tokens += tokens;
    const int64_t ns = move_ns(c->cfg, tokens);
    c->costs.ns = ns < LONGEST_NS - c->costs.ns ? c->costs.ns + ns : LONGEST_NS;
}

/* A place for r, if need be after all others have slid down. */
static bool take_place(contig *c, int64_t r, int32_t h)
{
    contig_req *q = &c->req[r];
    if (c->ops->take(c->addr, h, &q->chunk.addr, &q->chunk.q)) return true;
    if (c->ops->compact && c->ops->n_free(c->addr) >= h) {
        slide_down(c);
        return c->ops->take(c->addr, h, &q->chunk.addr, &q->chunk.q);
    }
    /* However often it is asked: one refusal per request and state of the pool. */
    if (q->refused_at != c->state) pkv__sim_refusals_add(&c->refusals, c->ops, c->addr, h);
    q->refused_at = c->state;
    return false;
}

static void contig_take_costs(void *self, pkv__sim_costs *costs)
{
    contig *c = self;
    *costs = c->costs;
    c->costs = (pkv__sim_costs){ 0 };
}

/* ---------------------------------------------------------------- taking and giving */

static pkv_status contig_admit(void *self, int64_t r, int32_t u, bool pool_is_empty,
                               int32_t *cached)
{
    *cached = 0;
    (void)u;
    (void)pool_is_empty;
    contig *c = self;
    const int32_t h = asked(c, r), f = final_tokens(c, r);
    if (!take_place(c, r, h)) return PKV_E_NO_BLOCKS;
    c->state++;
    c->sum_final += pkv__min_i32(h, f);
    c->sum_internal += pkv__max_i32(0, h - f);
    c->sum_rounding += c->req[r].chunk.q - h;
    add_live(c, &c->req[r]);
    return PKV_OK;
}

static pkv_status contig_grow(void *self, int64_t r, int32_t u)
{
    (void)u;
    PKV_ASSERT(((const contig *)self)->req[r].chunk.q > u);
    (void)self;
    (void)r;
    return PKV_OK;
}

static pkv_status contig_release(void *self, int64_t r)
{
    contig *c = self;
    contig_req *q = &c->req[r];
    const int32_t h = asked(c, r), f = final_tokens(c, r);
    c->state++;
    c->sum_final -= pkv__min_i32(h, f);
    c->sum_internal -= pkv__max_i32(0, h - f);
    c->sum_rounding -= q->chunk.q - h;
    c->ops->give(c->addr, q->chunk.addr, q->chunk.q);
    remove_live(c, q);
    q->chunk = (pkv__sim_chunk){ 0, 0 };
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
    return ((const contig *)self)->req[r].chunk.q;
}

static bool contig_has_places(const void *self)
{
    const pkv__sim_addr_ops *ops = ((const contig *)self)->ops;
    return ops->has_places && !ops->compact;
}

static void contig_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample)
{
    const contig *c = self;
    pkv__sim_chunk_usage(asked(c, r), c->req[r].chunk.q, final_tokens(c, r), u, sample);
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
    return c->ops->largest_free(c->addr);
}

static void contig_result(const void *self, pkv_sim_result *out)
{
    const contig *c = self;
    pkv__sim_refusals_result(&c->refusals, out);
    out->n_compactions = c->n_compactions;
    out->compacted_tokens = c->compacted_tokens;
}

static bool contig_map(const void *self, const pkv__sim_held *running, int32_t n,
                       pkv__sim_cell *cells, int32_t n_cells)
{
    const contig *c = self;
    if (!c->ops->has_places) return false;
    for (int32_t k = 0; k < n; k++) {
        const int64_t r = running[k].r;
        pkv__sim_chunk_map(c->req[r].chunk, asked(c, r), final_tokens(c, r), running[k].u,
                           c->cfg->pool_tokens, cells, n_cells);
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    const int32_t x = (*(pkv__sim_chunk *const *)a)->addr;
    const int32_t y = (*(pkv__sim_chunk *const *)b)->addr;
    return (x > y) - (x < y);
}

/* Chunks lie in the pool, do not overlap, and with the free slots make it up. Looks on only: a
 * check that sorts the list itself hides mistakes in it. (The engine compares usage with the sum of
 * usage_of.) */
static pkv_status contig_check(void *self)
{
    const contig *c = self;
    int64_t end = 0, taken = 0;
    for (int32_t k = 0; k < c->n_live; k++) {
        c->sorted[k] = c->live[k];
        if (c->req[request_of(c, c->live[k])].live_idx == k) continue;
        return pkv__refuse(&c->cfg->log, PKV_E_CORRUPT,
                           "%s: request %lld is not where it says in the list of the running",
                           c->ops->name, (long long)request_of(c, c->live[k]));
    }
    qsort(c->sorted, (size_t)c->n_live, sizeof(c->sorted[0]), by_address);
    for (int32_t k = 0; k < c->n_live; k++) {
        const pkv__sim_chunk *chunk = c->sorted[k];
        if (c->ops->has_places && (chunk->addr < end || chunk->q < 1))
            return pkv__refuse(&c->cfg->log, PKV_E_CORRUPT,
                               "%s: the chunk of request %lld begins at %d, in the one before it",
                               c->ops->name, (long long)request_of(c, chunk), chunk->addr);
        end = (int64_t)chunk->addr + chunk->q;
        taken += chunk->q;
    }
    const int64_t n_free = c->ops->n_free(c->addr);
    if (taken + n_free == c->cfg->pool_tokens && end <= c->cfg->pool_tokens) return PKV_OK;
    return pkv__refuse(&c->cfg->log, PKV_E_CORRUPT,
                       "%s: %lld slots in chunks and %lld free do not make up the pool of %d",
                       c->ops->name, (long long)taken, (long long)n_free, c->cfg->pool_tokens);
}

const pkv__sim_policy_ops pkv__sim_policy_contig = {
    .create = contig_create,
    .destroy = contig_destroy,
    .units_per_slot = pkv__sim_unit_is_slot,
    .probe = pkv__sim_no_probe,
    .held = contig_held,
    .closed = pkv__sim_never_closed,
    .take_costs = contig_take_costs,
    .result = contig_result,
    .map = contig_map,
    .connect = contig_connect,
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
