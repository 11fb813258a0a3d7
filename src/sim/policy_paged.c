/* The paged policy: no block logic of its own, it drives the block manager through its public
 * header. Without prefix cache the manager's free list is last in, first out.
 *
 * Room is reserved up to the end of a block, so a request needs the manager only once per block;
 * the tokens written since are committed then. No step is opened: what is committed counts as
 * written. The watermark is kept free at admission only, and not when nothing is running. */
#include "pagedkv/blockmgr.h"
#include "sim/sim_internal.h"

typedef struct paged_seq {
    pkv_seq seq; /* {0}: not running */
    int32_t committed, n_blocks;
} paged_seq;

typedef struct paged {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    int64_t n;
    pkv_blockmgr *mgr;
    int32_t block_tokens, usable, watermark; /* the latter two in blocks */
    int32_t n_free;                          /* as the manager says */
    paged_seq *seqs;                         /* [n] */
    size_t seq_bytes;
    pkv__sim_shadow shadow; /* with cfg->check */
} paged;

static void paged_destroy(void *self)
{
    paged *p = self;
    if (!p) return;
    pkv__sim_shadow_deinit(&p->shadow);
    pkv_blockmgr_destroy(p->mgr);
    pkv__free(&p->cfg->alloc, p->seqs, p->seq_bytes);
    pkv__free(&p->cfg->alloc, p, sizeof(*p));
}

static pkv_status make_manager(paged *p)
{
    const pkv_sim_config *cfg = p->cfg;
    pkv_blockmgr_config mc = PKV_BLOCKMGR_CONFIG_INIT;
    const int64_t pool = (int64_t)p->usable * p->block_tokens;
    int64_t longest =
        (int64_t)pkv__ceil_div_i32(cfg->max_model_len, p->block_tokens) * p->block_tokens;
    if (longest > pool) longest = pool;
    mc.n_blocks = p->usable + 1;
    mc.block_tokens = p->block_tokens;
    mc.max_seqs = cfg->max_num_seqs;
    mc.max_seq_tokens = (int32_t)longest;
    mc.flags = 0;
    mc.zero_policy = PKV_ZERO_NEVER;
    mc.log = cfg->log;
    const pkv_allocator *alloc = cfg->alloc.alloc ? &cfg->alloc : NULL;
    return pkv_blockmgr_create(&mc, alloc, &p->mgr);
}

static pkv_status paged_create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                               void **out)
{
    paged *p = pkv__alloc(&cfg->alloc, sizeof(*p), _Alignof(paged));
    if (!p) return PKV_E_NO_MEMORY;
    *p = (paged){ .cfg = cfg, .reqs = reqs, .n = n, .block_tokens = cfg->policy.block_tokens };
    p->usable = cfg->pool_tokens / p->block_tokens;
    p->watermark = (int32_t)((int64_t)p->usable * cfg->watermark_ppm / 1000000);
    p->n_free = p->usable;
    pkv_status status = PKV_E_NO_MEMORY;
    p->seq_bytes = (size_t)(n ? n : 1) * sizeof(paged_seq);
    p->seqs = pkv__alloc(&cfg->alloc, p->seq_bytes, _Alignof(paged_seq));
    if (!p->seqs) goto fail;
    for (int64_t r = 0; r < n; r++) p->seqs[r] = (paged_seq){ { 0 }, 0, 0 };
    if (cfg->check) {
        status =
            pkv__sim_shadow_init(&p->shadow, p->usable, p->block_tokens, n ? n : 1, &cfg->alloc);
        if (status != PKV_OK) goto fail;
    }
    status = make_manager(p);
    if (status != PKV_OK) goto fail;
    *out = p;
    return PKV_OK;

fail:
    paged_destroy(p);
    return status;
}

static bool paged_fits_empty(const void *self, int64_t r)
{
    const paged *p = self;
    const int32_t f = p->reqs[r].prompt_tokens + p->reqs[r].output_tokens;
    return pkv__ceil_div_i32(f, p->block_tokens) <= p->usable;
}

static void read_n_free(paged *p)
{
    pkv_blockmgr_stats_t stats = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(p->mgr, &stats);
    p->n_free = stats.free_blocks;
}

/* Say that the sequence now holds u tokens. */
static pkv_status commit_up_to(paged *p, paged_seq *s, int32_t u)
{
    if (u == s->committed) return PKV_OK;
    const pkv_tokens tokens = { NULL, u - s->committed, NULL, 0 };
    const pkv_step none = PKV_STEP_NONE;
    const pkv_status status = pkv_seq_commit(p->mgr, s->seq, &tokens, none);
    if (status == PKV_OK) s->committed = u;
    return status;
}

static pkv_status paged_admit(void *self, int64_t r, int32_t u, bool pool_is_empty, int32_t *cached)
{
    *cached = 0;
    paged *p = self;
    paged_seq *s = &p->seqs[r];
    const int32_t n_blocks = pkv__ceil_div_i32(u, p->block_tokens);
    const int32_t keep = pool_is_empty ? 0 : p->watermark;
    if (n_blocks > p->n_free - keep) return PKV_E_NO_BLOCKS;

    const pkv_ns default_ns = { 0 };
    const pkv_tokens no_tokens = { NULL, 0, NULL, 0 };
    pkv_block_copy copy;
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    work.copy = &copy;
    work.copy_cap = 1;
    pkv_match match = PKV_MATCH_INIT;
    pkv_seq seq;
    pkv_status status = pkv_seq_open(p->mgr, default_ns, &seq);
    if (status != PKV_OK) return status;
    status = pkv_seq_match(p->mgr, seq, &no_tokens, 0, n_blocks * p->block_tokens, &work, &match);
    if (status != PKV_OK) {
        const pkv_status closed = pkv_seq_close(p->mgr, seq);
        return closed == PKV_OK ? status : closed;
    }
    *s = (paged_seq){ seq, 0, n_blocks };
    read_n_free(p);
    if (p->cfg->check) pkv__sim_shadow_set(&p->shadow, r, u);
    return commit_up_to(p, s, u);
}

static pkv_status paged_grow(void *self, int64_t r, int32_t u)
{
    paged *p = self;
    paged_seq *s = &p->seqs[r];
    pkv_status status = commit_up_to(p, s, u);
    if (status != PKV_OK || u % p->block_tokens != 0) return status;
    if (p->n_free == 0) return PKV_E_NO_BLOCKS; /* the manager would say so too, and log it */

    pkv_block_copy copy;
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    work.copy = &copy;
    work.copy_cap = 1;
    const pkv_reserve_req req = { s->seq, p->block_tokens };
    status = pkv_seq_reserve(p->mgr, &req, 1, &work);
    if (status != PKV_OK) return status;
    s->n_blocks++;
    read_n_free(p);
    if (p->cfg->check) pkv__sim_shadow_set(&p->shadow, r, u + 1);
    return PKV_OK;
}

static pkv_status paged_release(void *self, int64_t r)
{
    paged *p = self;
    const pkv_status status = pkv_seq_close(p->mgr, p->seqs[r].seq);
    if (status != PKV_OK) return status;
    p->seqs[r] = (paged_seq){ { 0 }, 0, 0 };
    read_n_free(p);
    if (p->cfg->check) pkv__sim_shadow_set(&p->shadow, r, 0);
    return PKV_OK;
}

static int64_t paged_leap_limit(const void *self, int64_t r, int32_t u)
{
    (void)r;
    const paged *p = self;
    return p->block_tokens - u % p->block_tokens;
}

static int64_t paged_need(const void *self, int64_t r, int32_t u)
{
    (void)r;
    const paged *p = self;
    const int64_t n_blocks = pkv__ceil_div_i32(u, p->block_tokens) + (int64_t)p->watermark;
    return n_blocks * p->block_tokens;
}

static int64_t paged_held(const void *self, int64_t r)
{
    const paged *p = self;
    return (int64_t)p->seqs[r].n_blocks * p->block_tokens;
}

static int64_t paged_largest_free(const void *self)
{
    const paged *p = self;
    return p->cfg->pool_tokens - (int64_t)(p->usable - p->n_free) * p->block_tokens;
}

static bool paged_has_places(const void *self)
{
    (void)self;
    return false;
}

static void paged_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample)
{
    const paged *p = self;
    sample->part[PKV__PART_LOGICAL] += u;
    sample->part[PKV__PART_INTERNAL] += (int64_t)p->seqs[r].n_blocks * p->block_tokens - u;
}

static void paged_usage(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free)
{
    const paged *p = self;
    const int64_t used = (int64_t)(p->usable - p->n_free) * p->block_tokens;
    *sample = (pkv__sim_sample){ 0 };
    sample->part[PKV__PART_TOKEN] = sample->part[PKV__PART_LOGICAL] = tokens;
    sample->part[PKV__PART_SHARED_UNITS] = sample->part[PKV__PART_USED_UNITS] = used;
    sample->part[PKV__PART_INTERNAL] = used - tokens;
    sample->part[PKV__PART_WATERMARK] =
        (int64_t)pkv__min_i32(p->n_free, p->watermark) * p->block_tokens;
    sample->part[PKV__PART_TAIL] = p->cfg->pool_tokens % p->block_tokens;
    *n_free = p->cfg->pool_tokens - used;
}

static pkv_status paged_check(void *self)
{
    paged *p = self;
    const pkv_logger *log = &p->cfg->log;
    pkv_blockmgr_stats_t stats = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(p->mgr, &stats);
    if (stats.free_blocks != p->shadow.n_free || stats.active_blocks != p->shadow.n_used)
        return pkv__refuse(log, PKV_E_CORRUPT,
                           "block manager: %d free and %d used blocks, model: %lld and %lld",
                           stats.free_blocks, stats.active_blocks, (long long)p->shadow.n_free,
                           (long long)p->shadow.n_used);
    for (int64_t r = 0; r < p->n; r++) {
        if (p->seqs[r].seq.v == 0 && p->shadow.blocks[r] == 0) continue;
        const int32_t *ids;
        int32_t n_ids;
        const pkv_status status = pkv_seq_row(p->mgr, p->seqs[r].seq, 0, &ids, &n_ids);
        if (status != PKV_OK) return status;
        if (n_ids != p->shadow.blocks[r])
            return pkv__refuse(log, PKV_E_CORRUPT, "request %lld: %d blocks in its row, model: %d",
                               (long long)r, n_ids, p->shadow.blocks[r]);
    }
    return pkv_blockmgr_check(p->mgr, 1);
}

const pkv__sim_policy_ops pkv__sim_policy_paged = {
    .create = paged_create,
    .destroy = paged_destroy,
    .units_per_slot = pkv__sim_unit_is_slot,
    .probe = pkv__sim_no_probe,
    .held = paged_held,
    .largest_free = paged_largest_free,
    .closed = pkv__sim_never_closed,
    .take_costs = pkv__sim_no_costs,
    .result = pkv__sim_no_result,
    .map = pkv__sim_no_map,
    .fits_empty = paged_fits_empty,
    .admit = paged_admit,
    .grow = paged_grow,
    .release = paged_release,
    .leap_limit = paged_leap_limit,
    .need = paged_need,
    .has_places = paged_has_places,
    .usage_of = paged_usage_of,
    .usage = paged_usage,
    .check = paged_check,
};
