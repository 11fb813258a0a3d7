/* Paged placement: the block manager, the store whose bytes it rules, and a host store behind it.
 * What it keeps besides them: placement_paged.h. */
#include "model/placement_paged.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/kv_size.h"
#include "pagedkv/moves.h"

#include <stdio.h>

/* ---------------------------------------------------------------- making */

static void forward_line(void *ctx, pkv_log_level level, const char *text)
{
    const pkv__listener *l = ctx;
    if (l->on && l->log.fn) l->log.fn(l->log.ctx, level, text);
}

/* Where the arrays lie, or with m->base NULL how much they take. */
static void lay_out(pkv__paged *p, pkv__place_memory *m)
{
    const size_t n = (size_t)p->max_seqs, blocks = (size_t)p->n_blocks;
    const size_t host = (size_t)p->n_host_blocks, layers = (size_t)p->shape.n_layers;
    const size_t moves = host < blocks ? host : blocks;
    p->base.k_views = pkv__place_take(m, layers, sizeof(*p->base.k_views));
    p->base.v_views = pkv__place_take(m, layers, sizeof(*p->base.v_views));
    p->listens = pkv__place_take(m, 1, sizeof(*p->listens));
    p->numbers.free = pkv__place_take(m, n, sizeof(*p->numbers.free));
    p->lives = pkv__place_take(m, n, sizeof(*p->lives));
    p->seqs = pkv__place_take(m, n, sizeof(*p->seqs));
    p->committed = pkv__place_take(m, n, sizeof(*p->committed));
    p->before = pkv__place_take(m, n, sizeof(*p->before));
    p->is_given = pkv__place_take(m, n, sizeof(*p->is_given));
    p->handles = pkv__place_take(m, n, sizeof(*p->handles));
    p->reqs = pkv__place_take(m, n, sizeof(*p->reqs));
    p->copies = pkv__place_take(m, n, sizeof(*p->copies));
    p->marks = pkv__place_take(m, blocks, sizeof(*p->marks));
    if (host == 0) return;
    p->parked = pkv__place_take(m, n * (size_t)p->base.table_width, sizeof(*p->parked));
    p->moves = pkv__place_take(m, moves, sizeof(*p->moves));
    p->move_ids = pkv__place_take(m, moves, sizeof(*p->move_ids));
    p->host_of = pkv__place_take(m, blocks, sizeof(*p->host_of));
    p->host_marks = pkv__place_take(m, host, sizeof(*p->host_marks));
}

static pkv_status make_store(const pkv__placement_config *cfg, int32_t n_blocks, pkv_store **store,
                             uint8_t **base)
{
    pkv_store_config sc = PKV_STORE_CONFIG_INIT;
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    sc.shape = cfg->shape;
    sc.n_blocks = n_blocks;
    sc.alloc = cfg->alloc;
    sc.log = cfg->log;
    pkv_status status = pkv_store_create(&sc, store);
    if (status == PKV_OK) status = pkv_store_info(*store, &info);
    *base = info.base;
    return status;
}

static pkv_status make_stores(pkv__paged *p, const pkv__placement_config *cfg)
{
    pkv_status status = make_store(cfg, p->n_blocks, &p->store, &p->pool);
    if (status == PKV_OK && p->n_host_blocks > 0)
        status = make_store(cfg, p->n_host_blocks, &p->host, &p->host_pool);
    return status;
}

static pkv_status take_views(pkv__paged *p)
{
    pkv_status status = PKV_OK;
    for (int32_t k = 0; k < p->shape.n_layers && status == PKV_OK; k++)
        status = pkv_store_views(p->store, k, &p->base.k_views[k], &p->base.v_views[k]);
    return status;
}

/* Content of another model, or stored in another form, is other content. */
static pkv_status open_namespace(pkv__paged *p, const pkv__placement_config *cfg)
{
    char format[96];
    pkv_ns_params ns = PKV_NS_PARAMS_INIT;
    const int n = snprintf(format, sizeof(format), "%s; layers %d, kv heads %d, dim %d, block %d",
                           pkv_dtype_name(p->shape.dtype), p->shape.n_layers, p->shape.n_kv_heads,
                           p->shape.head_dim, p->shape.block_tokens);
    memcpy(ns.model_digest, cfg->model_digest, sizeof(ns.model_digest));
    ns.kv_format = format;
    ns.kv_format_bytes = (size_t)n;
    return pkv_ns_open(p->mgr, &ns, &p->ns);
}

static pkv_status make_manager(pkv__paged *p, const pkv__placement_config *cfg)
{
    pkv_blockmgr_config mc = PKV_BLOCKMGR_CONFIG_INIT;
    mc.n_blocks = p->n_blocks;
    mc.block_tokens = p->shape.block_tokens;
    mc.max_seqs = p->max_seqs;
    mc.max_seq_tokens = p->max_context;
    mc.max_namespaces = 2;
    mc.max_steps = 1;
    mc.max_holds = 1;
    mc.n_host_blocks = p->n_host_blocks;
    mc.flags = cfg->prefix_cache ? PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS : 0;
    mc.log = (pkv_logger){ forward_line, p->listens };
    const pkv_status status = pkv_blockmgr_create(&mc, &cfg->alloc, &p->mgr);
    return status == PKV_OK ? open_namespace(p, cfg) : status;
}

static void paged_destroy(pkv__placement *base)
{
    if (!base) return;
    pkv__paged *p = pkv__paged_of(base);
    const pkv_allocator alloc = p->alloc;
    pkv_blockmgr_destroy(p->mgr);
    pkv_store_destroy(p->host);
    pkv_store_destroy(p->store);
    pkv__free(&alloc, p, p->bytes);
}

/* Blocks of the host pool, null block included. */
static pkv_status host_blocks(const pkv__placement_config *cfg, size_t block_bytes, int32_t *n)
{
    const size_t fit = cfg->swap_bytes / block_bytes;
    *n = (int32_t)(fit < INT32_MAX ? fit : INT32_MAX);
    if (cfg->swap_bytes == 0 || *n >= 2) return PKV_OK;
    return pkv__refuse(&cfg->log, PKV_E_NEVER,
                       "placement: %zu bytes for swapping hold no block of %zu bytes beside the "
                       "null block; give at least %zu, or 0 for none",
                       cfg->swap_bytes, block_bytes, 2 * block_bytes);
}

static const pkv__place_ops paged_ops;

static pkv__paged plan_of(const pkv__placement_config *cfg, size_t block_bytes, int32_t n_blocks,
                          int32_t n_host_blocks)
{
    pkv__paged plan = { .backend = cfg->backend,
                        .shape = cfg->shape,
                        .n_blocks = n_blocks,
                        .n_host_blocks = n_host_blocks,
                        .max_seqs = cfg->max_seqs,
                        .max_context = cfg->max_context,
                        .prefix_cache = cfg->prefix_cache,
                        .log = cfg->log,
                        .alloc = cfg->alloc };
    plan.base.ops = &paged_ops;
    plan.base.block_tokens = cfg->shape.block_tokens;
    plan.base.table_width = pkv__ceil_div_i32(cfg->max_context, cfg->shape.block_tokens);
    plan.base.block_bytes = block_bytes;
    plan.base.token_bytes = pkv__place_token_bytes(&cfg->shape);
    return plan;
}

/* The plan, in memory of its own with its tables. */
static pkv_status allocate(const pkv__placement_config *cfg, pkv__paged *plan, pkv__paged **out)
{
    pkv__place_memory m = { NULL, 0 };
    pkv__place_take(&m, 1, sizeof(*plan));
    lay_out(plan, &m);
    plan->bytes = m.used;
    m.base = pkv__alloc(&cfg->alloc, plan->bytes, PKV_CACHE_LINE);
    if (!m.base)
        return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "placement: no %zu bytes for %d sequences",
                           plan->bytes, cfg->max_seqs);
    memset(m.base, 0, plan->bytes);
    m.used = 0;
    pkv__paged *p = pkv__place_take(&m, 1, sizeof(*plan));
    *p = *plan;
    lay_out(p, &m);
    pkv__place_numbers_init(&p->numbers, p->max_seqs);
    *p->listens = (pkv__listener){ cfg->log, true };
    *out = p;
    return PKV_OK;
}

pkv_status pkv__placement_paged(const pkv__placement_config *cfg, pkv__placement **out)
{
    size_t block_bytes = 0;
    int32_t n_blocks = 0, n_host_blocks = 0;
    pkv__paged *p = NULL;
    pkv_status status = pkv__place_pool(cfg, &block_bytes, &n_blocks);
    if (status == PKV_OK) status = host_blocks(cfg, block_bytes, &n_host_blocks);
    if (status != PKV_OK) return status;
    pkv__paged plan = plan_of(cfg, block_bytes, n_blocks, n_host_blocks);
    /* The pools first: what they have no room for shall not have cost tables by block, written. */
    status = make_stores(&plan, cfg);
    if (status == PKV_OK) status = allocate(cfg, &plan, &p);
    if (status != PKV_OK) {
        pkv_store_destroy(plan.host);
        pkv_store_destroy(plan.store);
        return status;
    }
    status = take_views(p);
    if (status == PKV_OK) status = make_manager(p, cfg);
    p->listens->on = false;
    if (status != PKV_OK) {
        paged_destroy(&p->base);
        return status;
    }
    *out = &p->base;
    return PKV_OK;
}

/* ---------------------------------------------------------------- room */

static pkv_status paged_fits(const pkv__placement *base, int32_t n_prompt, int32_t max_new,
                             int32_t n_samples, int64_t *n_blocks)
{
    const pkv__paged *p = pkv__paged_in(base);
    const int64_t need = pkv_kv_request_blocks(n_prompt, max_new, n_samples, base->block_tokens);
    if (need < 1) return PKV_E_INVALID_ARG;
    if (n_blocks) *n_blocks = need;
    const bool fits = need <= p->n_blocks - 1 && n_samples <= p->max_seqs &&
                      (int64_t)n_prompt + max_new - 1 <= p->max_context;
    return fits ? PKV_OK : PKV_E_NEVER;
}

/* Would `watermark` blocks be left after this admission? A claim of blocks that nobody uses now
 * takes them too; it is looked up only where the answer depends on it. */
static pkv_status leaves_watermark(const pkv__paged *p, const int32_t *ids, int32_t n,
                                   int32_t watermark)
{
    const pkv_blockmgr_stats_t s = pkv__paged_stats(p);
    const int64_t room = (int64_t)s.free_blocks + s.cached_blocks;
    int64_t need = pkv__ceil_div_i32(n, p->base.block_tokens);
    if (watermark == 0 || need + watermark <= room) return PKV_OK;
    if (need > p->n_blocks - 1) return PKV_E_NEVER;
    if (!p->prefix_cache) return PKV_E_NO_BLOCKS;
    pkv_match hit = PKV_MATCH_INIT;
    const pkv_tokens prompt = { ids, n - 1, NULL, 0 };
    const pkv_status status = pkv_blockmgr_probe(p->mgr, p->ns, &prompt, &hit);
    if (status != PKV_OK) return status;
    need += hit.claimed_cached - (hit.claimed - hit.copied) / p->base.block_tokens;
    return need + watermark <= room ? PKV_OK : PKV_E_NO_BLOCKS;
}

/* What the manager planned: n copies, none of which reads what another writes. */
static pkv_status carry_out(pkv__paged *p, const pkv_block_copy *copies, int32_t n)
{
    pkv_status status = PKV_OK;
    for (int32_t i = 0; i < n && status == PKV_OK; i += PKV__MOVES_AT_ONCE)
        status = pkv_blocks_copy(p->backend, p->pool, p->base.block_bytes, p->n_blocks, copies + i,
                                 pkv__min_i32(n - i, PKV__MOVES_AT_ONCE), &p->shape, 1, NULL);
    return status;
}

static pkv_block_work work_of(pkv__paged *p)
{
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    work.copy = p->copies;
    work.copy_cap = p->max_seqs;
    return work;
}

static void enter(pkv__paged *p, int32_t number, pkv_seq seq, int32_t committed)
{
    p->lives[number] = PKV__LIFE_RUNNING;
    p->seqs[number] = seq;
    p->committed[number] = committed;
    p->before[number] = -1;
}

static pkv_status paged_admit(pkv__placement *base, const int32_t *ids, int32_t n,
                              int32_t n_longest, int32_t n_seqs, int32_t watermark, int32_t *seq,
                              int32_t *claimed)
{
    pkv__paged *p = pkv__paged_of(base);
    pkv_seq handle;
    pkv_match hit = PKV_MATCH_INIT;
    pkv_block_work work = work_of(p);
    (void)n_longest, (void)n_seqs; /* blocks are taken when they are needed */
    if (!ids || n < 1 || watermark < 0) return PKV_E_INVALID_ARG;
    if (n > p->max_context || p->numbers.n_free == 0) return PKV_E_LIMIT;
    pkv_status status = leaves_watermark(p, ids, n, watermark);
    if (status == PKV_OK) status = pkv_seq_open(p->mgr, p->ns, &handle);
    if (status != PKV_OK) return status;
    status = pkv_seq_match(p->mgr, handle, &(pkv_tokens){ ids, n, NULL, 0 }, n - 1, n, &work, &hit);
    if (status == PKV_OK) status = carry_out(p, work.copy, work.n_copy);
    if (status != PKV_OK) {
        const pkv_status closed = pkv_seq_close(p->mgr, handle);
        return closed == PKV_OK ? status : closed;
    }
    *seq = pkv__place_number(&p->numbers);
    *claimed = hit.claimed;
    enter(p, *seq, handle, hit.claimed);
    return PKV_OK;
}

static pkv_status paged_reserve(pkv__placement *base, const int32_t *seqs, const int32_t *n_tokens,
                                int32_t n)
{
    pkv__paged *p = pkv__paged_of(base);
    pkv_block_work work = work_of(p);
    if (n == 0) return PKV_OK;
    if (!seqs || !n_tokens || n < 0 || n > p->max_seqs) return PKV_E_INVALID_ARG;
    for (int32_t i = 0; i < n; i++)
        p->reqs[i] = (pkv_reserve_req){ pkv__handle_of(p, seqs[i]), n_tokens[i] };
    const pkv_status status = pkv_seq_reserve(p->mgr, p->reqs, n, &work);
    return status == PKV_OK ? carry_out(p, work.copy, work.n_copy) : status;
}

/* ---------------------------------------------------------------- sequences */

static pkv_status paged_fork(pkv__placement *base, int32_t parent, int32_t *children, int32_t n)
{
    pkv__paged *p = pkv__paged_of(base);
    if (!children || n < 1) return PKV_E_INVALID_ARG;
    if (n > p->numbers.n_free) return PKV_E_LIMIT;
    const pkv_status status = pkv_seq_fork(p->mgr, pkv__handle_of(p, parent), p->handles, n);
    if (status != PKV_OK) return status;
    for (int32_t i = 0; i < n; i++) {
        children[i] = pkv__place_number(&p->numbers);
        enter(p, children[i], p->handles[i], p->committed[parent]);
        p->before[children[i]] = p->before[parent];
    }
    return PKV_OK;
}

static void paged_close(pkv__placement *base, int32_t seq)
{
    pkv__paged *p = pkv__paged_of(base);
    if (!pkv__is_number(p, seq) || p->lives[seq] == PKV__LIFE_NONE) return;
    const pkv_status status = pkv_seq_close(p->mgr, p->seqs[seq]);
    PKV_ASSERT(status == PKV_OK);
    (void)status;
    p->lives[seq] = PKV__LIFE_NONE;
    p->seqs[seq] = (pkv_seq){ 0 };
    pkv__place_number_back(&p->numbers, seq);
}

static void paged_slots(const pkv__placement *base, int32_t seq, int32_t first, int32_t n,
                        int64_t *slots)
{
    const pkv__paged *p = pkv__paged_in(base);
    const pkv_status status = pkv_seq_slots(p->mgr, pkv__handle_of(p, seq), 0, first, n, slots);
    PKV_ASSERT(status == PKV_OK);
    (void)status;
}

const int32_t *pkv__paged_row(const pkv__placement *base, int32_t seq, int32_t *n_ids)
{
    const pkv__paged *p = pkv__paged_in(base);
    const int32_t *ids = NULL;
    const pkv_status status = pkv_seq_row(p->mgr, pkv__handle_of(p, seq), 0, &ids, n_ids);
    if (status != PKV_OK) *n_ids = 0;
    return ids;
}

static int32_t paged_committed(const pkv__placement *base, int32_t seq)
{
    const pkv__paged *p = pkv__paged_in(base);
    return pkv__is_number(p, seq) && p->lives[seq] != PKV__LIFE_NONE ? p->committed[seq] : 0;
}

/* ---------------------------------------------------------------- steps */

static pkv_status paged_step_begin(pkv__placement *base)
{
    pkv__paged *p = pkv__paged_of(base);
    const pkv_status status = pkv_step_begin(p->mgr, &p->step);
    if (status != PKV_OK) return status;
    for (int32_t i = 0; i < p->max_seqs; i++) p->before[i] = -1;
    return PKV_OK;
}

static pkv_status paged_commit(pkv__placement *base, int32_t seq, const int32_t *ids, int32_t n)
{
    pkv__paged *p = pkv__paged_of(base);
    const pkv_tokens tokens = { ids, n, NULL, 0 };
    const pkv_status status = pkv_seq_commit(p->mgr, pkv__handle_of(p, seq), &tokens, p->step);
    if (status != PKV_OK) return status;
    if (p->before[seq] < 0) p->before[seq] = p->committed[seq];
    p->committed[seq] += n;
    return PKV_OK;
}

static pkv_status paged_step_retire(pkv__placement *base)
{
    pkv__paged *p = pkv__paged_of(base);
    const pkv_status status = pkv_step_retire(p->mgr, p->step);
    if (status == PKV_OK) p->step = PKV_STEP_NONE;
    return status;
}

static void paged_step_abort(pkv__placement *base)
{
    pkv__paged *p = pkv__paged_of(base);
    const pkv_status status = pkv_step_abort(p->mgr, p->step);
    if (status != PKV_OK) return;
    p->step = PKV_STEP_NONE;
    for (int32_t i = 0; i < p->max_seqs; i++)
        if (p->lives[i] != PKV__LIFE_NONE && p->before[i] >= 0) p->committed[i] = p->before[i];
}

/* ---------------------------------------------------------------- figures */

/* Slots without a token in blocks that are referred to: in the block that a sequence's next token
 * would go to, and in those reserved behind it. Only the first can have several owners, siblings
 * that have not written since the fork; they are equally long. */
static int64_t empty_slots(const pkv__paged *p)
{
    const uint32_t mark = pkv__fresh_mark(p->marks, p->n_blocks);
    const int32_t tokens = p->base.block_tokens;
    int64_t n = 0;
    for (int32_t i = 0, left = p->max_seqs - p->numbers.n_free; left > 0; i++) {
        if (p->lives[i] == PKV__LIFE_NONE) continue;
        left--;
        const int32_t at = p->committed[i] / tokens;
        int32_t n_ids = pkv__n_held(p, i);
        const int32_t *row = p->lives[i] == PKV__LIFE_RUNNING ? pkv__paged_row(&p->base, i, &n_ids)
                                                              : pkv__parked_row(p, i);
        if (at >= n_ids || row[at] < 0) continue;
        n += (int64_t)(n_ids - at - 1) * tokens;
        if (p->marks[row[at]] == mark) continue;
        p->marks[row[at]] = mark;
        n += tokens - p->committed[i] % tokens;
    }
    return n;
}

static void paged_usage(const pkv__placement *base, pkv__place_usage *out)
{
    const pkv__paged *p = pkv__paged_in(base);
    const pkv_blockmgr_stats_t s = pkv__paged_stats(p);
    const int32_t n_free = s.free_blocks + s.cached_blocks, n_used = p->n_blocks - 1 - n_free;
    *out = (pkv__place_usage){
        .n_blocks = p->n_blocks - 1,
        .n_free = n_free,
        .n_cached = s.cached_blocks,
        .n_used = n_used,
        .n_slots_used = (int64_t)n_used * base->block_tokens,
        .n_slots_filled = (int64_t)s.active_blocks * base->block_tokens - empty_slots(p),
        .n_copies = (int64_t)s.copies,
        .n_evictions = (int64_t)s.evicted_blocks,
        .n_swapped_bytes = p->n_swapped_bytes,
    };
}

static pkv_status check_seq(const pkv__paged *p, int32_t seq)
{
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    const pkv_seq_state want =
        p->lives[seq] == PKV__LIFE_RUNNING ? PKV_SEQ_RUNNING : PKV_SEQ_SUSPENDED;
    const pkv_status status = pkv_seq_info(p->mgr, p->seqs[seq], &info);
    if (status == PKV_OK && info.committed == p->committed[seq] && info.state == want)
        return PKV_OK;
    return pkv__refuse(&p->log, PKV_E_CORRUPT,
                       "placement: sequence %d has %d tokens in state %d; the manager says %s, %d "
                       "tokens, state %d",
                       seq, p->committed[seq], (int)want, pkv_status_name(status), info.committed,
                       (int)info.state);
}

static pkv_status paged_check(const pkv__placement *base)
{
    const pkv__paged *p = pkv__paged_in(base);
    int32_t n_open = 0;
    p->listens->on = true;
    pkv_status status = pkv_blockmgr_check(p->mgr, 3);
    p->listens->on = false;
    for (int32_t i = 0; i < p->max_seqs && status == PKV_OK; i++) {
        if (p->lives[i] == PKV__LIFE_NONE) continue;
        n_open++;
        status = check_seq(p, i);
    }
    if (status != PKV_OK) return status;
    const pkv_blockmgr_stats_t s = pkv__paged_stats(p);
    const int32_t n_host = p->n_host_blocks > 0 ? p->n_host_blocks - 1 - s.free_host_blocks : 0;
    const int32_t n_parked = pkv__paged_host_blocks(p);
    if (n_open == s.open_seqs && n_open == p->max_seqs - p->numbers.n_free && n_host == n_parked)
        return PKV_OK;
    return pkv__refuse(&p->log, PKV_E_CORRUPT,
                       "placement: %d sequences live, %d are open in the manager, %d numbers are "
                       "free of %d; %d host blocks are used, parked rows have %d",
                       n_open, s.open_seqs, p->numbers.n_free, p->max_seqs, n_host, n_parked);
}

static const pkv__place_ops paged_ops = {
    .destroy = paged_destroy,
    .fits = paged_fits,
    .admit = paged_admit,
    .reserve = paged_reserve,
    .fork = paged_fork,
    .close = paged_close,
    .slots = paged_slots,
    .row = pkv__paged_row,
    .committed = paged_committed,
    .step_begin = paged_step_begin,
    .commit = paged_commit,
    .step_retire = paged_step_retire,
    .step_abort = paged_step_abort,
    .suspend = pkv__placement_swap_out,
    .resume = pkv__placement_swap_in,
    .swap_bytes = pkv__paged_swap_bytes,
    .usage = paged_usage,
    .check = paged_check,
};
