/* The paged policies: no block logic of their own, they drive the block manager through its public
 * headers. Without prefix cache the manager's free list is last in, first out; with it unreferenced
 * blocks with content are evicted in plain LRU order.
 *
 * Room is reserved up to the end of a block, so a request needs the manager only once per block;
 * the tokens written since are committed then. No step is opened: what is committed counts as
 * written. The watermark is kept free at admission and resume only, and not when nothing runs. */
#include "sim/paged.h"

#include <stddef.h>

/* ---------------------------------------------------------------- life */

static void free_array(const pkv__paged *p, void *array, size_t n, size_t bytes)
{
    pkv__free(&p->cfg->alloc, array, (n ? n : 1) * bytes);
}

static void paged_destroy(void *self)
{
    pkv__paged *p = self;
    if (!p) return;
    const size_t n = (size_t)p->n, n_seqs = (size_t)p->n_seqs, n_places = (size_t)p->n_places;
    pkv__shadow_deinit(&p->shadow);
    pkv_blockmgr_destroy(p->mgr);
    free_array(p, p->seen, (size_t)p->usable + 1, 1);
    free_array(p, p->swap_copies, (size_t)p->swap_cap, sizeof(*p->swap_copies));
    free_array(p, p->found, n, sizeof(*p->found));
    free_array(p, p->ids, (size_t)p->longest, sizeof(*p->ids));
    free_array(p, p->memo, 1, sizeof(*p->memo));
    free_array(p, p->free_places, n_places, sizeof(*p->free_places));
    free_array(p, p->seqs, n_places * n_seqs, sizeof(*p->seqs));
    free_array(p, p->runs, n_places, sizeof(*p->runs));
    free_array(p, p->place_of, n, sizeof(*p->place_of));
    pkv__free(&p->cfg->alloc, p, sizeof(*p));
}

/* What the manager refuses because it is full is not news. */
static void manager_log(void *ctx, pkv_log_level level, const char *text)
{
    const pkv__paged *p = ctx;
    if (!p->mute) p->cfg->log.fn(p->cfg->log.ctx, level, text);
}

static pkv_status make_manager(pkv__paged *p)
{
    const pkv_sim_config *cfg = p->cfg;
    const int64_t n_seqs = (int64_t)p->n_places * p->n_seqs;
    if (n_seqs > 1 << 24)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "%d requests of %d sequences at a time are more than 2^24 sequences",
                           p->n_places, p->n_seqs);
    pkv_blockmgr_config mc = PKV_BLOCKMGR_CONFIG_INIT;
    mc.n_blocks = p->usable + 1;
    mc.block_tokens = p->block_tokens;
    mc.max_seqs = (int32_t)n_seqs;
    mc.max_seq_tokens = pkv__ceil_div_i32(p->longest, p->block_tokens) * p->block_tokens;
    mc.flags = p->prefix ? PKV_MGR_PREFIX_CACHE | PKV_MGR_PLAIN_LRU : 0;
    mc.zero_policy = PKV_ZERO_NEVER;
    mc.max_holds = 1;
    mc.n_host_blocks = p->n_host_blocks;
    /* What is swapped out keeps its content nodes, with blocks or without. */
    const int64_t n_nodes = (int64_t)p->usable + p->n_host_blocks + n_seqs;
    if (p->prefix) mc.max_nodes = (int32_t)(n_nodes < 1 << 30 ? n_nodes : 1 << 30);
    if (cfg->log.fn) mc.log = (pkv_logger){ manager_log, p };
    const pkv_allocator *alloc = cfg->alloc.alloc ? &cfg->alloc : NULL;
    return pkv_blockmgr_create(&mc, alloc, &p->mgr);
}

static void *make_array(const pkv__paged *p, size_t n, size_t bytes)
{
    if (n > PTRDIFF_MAX / bytes) return NULL;
    return pkv__alloc(&p->cfg->alloc, (n ? n : 1) * bytes, _Alignof(max_align_t));
}

static pkv_status make_arrays(pkv__paged *p)
{
    const size_t n = (size_t)p->n, n_seqs = (size_t)p->n_seqs, n_places = (size_t)p->n_places;
    p->place_of = make_array(p, n, sizeof(*p->place_of));
    p->runs = make_array(p, n_places, sizeof(*p->runs));
    p->seqs = make_array(p, n_places * n_seqs, sizeof(*p->seqs));
    p->free_places = make_array(p, n_places, sizeof(*p->free_places));
    p->memo = make_array(p, 1, sizeof(*p->memo));
    if (!p->place_of || !p->runs || !p->seqs || !p->free_places || !p->memo) return PKV_E_NO_MEMORY;
    if (p->prefix) {
        p->ids = make_array(p, (size_t)p->longest, sizeof(*p->ids));
        p->found = make_array(p, n, sizeof(*p->found));
        if (!p->ids || !p->found) return PKV_E_NO_MEMORY;
    }
    if (p->n_host_blocks > 0) {
        p->swap_cap = pkv__min_i32(p->n_host_blocks, p->usable);
        p->swap_copies = make_array(p, (size_t)p->swap_cap, sizeof(*p->swap_copies));
        if (!p->swap_copies) return PKV_E_NO_MEMORY;
    }
    const pkv_sim_observer *o = p->cfg->observer;
    if (o && o->on_sample && o->map_cells > 0) {
        p->seen = make_array(p, (size_t)p->usable + 1, 1);
        if (!p->seen) return PKV_E_NO_MEMORY;
    }
    for (int64_t r = 0; r < p->n; r++) p->place_of[r] = -1;
    for (int64_t r = 0; p->found && r < p->n; r++) p->found[r] = -1;
    for (int32_t k = 0; k < p->n_places; k++) {
        p->runs[k] = (pkv__paged_run){ .r = -1 };
        p->free_places[k] = p->n_places - 1 - k;
        for (int32_t j = 0; j < p->n_seqs; j++)
            p->seqs[k * p->n_seqs + j] = (pkv__paged_seq){ .shadow = k * p->n_seqs + j };
    }
    p->n_free_places = p->n_places;
    *p->memo = (pkv__paged_memo){ .r = -1 };
    return PKV_OK;
}

/* With shared prompts ceil(u / B) blocks of each are only an upper bound; the peak is at the end.
 */
static bool paged_fits_empty(const void *self, int64_t r)
{
    const pkv__paged *p = self;
    const int64_t f = (int64_t)p->reqs[r].prompt_tokens + p->reqs[r].output_tokens;
    const int64_t last = (f + p->block_tokens - 1) / p->block_tokens;
    const int64_t shared = p->n_seqs > 1 ? p->reqs[r].prompt_tokens / p->block_tokens : 0;
    return shared + p->n_seqs * (last - shared) <= p->usable;
}

static void measure(pkv__paged *p)
{
    p->longest = 1;
    for (int64_t r = 0; r < p->n; r++) {
        const int64_t f = (int64_t)p->reqs[r].prompt_tokens + p->reqs[r].output_tokens;
        if (f <= p->cfg->max_model_len && f > p->longest && paged_fits_empty(p, r))
            p->longest = (int32_t)f;
    }
    int64_t n_places = p->cfg->max_num_seqs < p->n ? p->cfg->max_num_seqs : p->n;
    /* Every running request has a block that it took itself. */
    if (!p->swap && p->usable < n_places) n_places = p->usable;
    p->n_places = n_places > 1 ? (int32_t)n_places : 1;
    const int32_t n_host = p->swap ? p->cfg->swap_tokens / p->block_tokens : 0;
    p->n_host_blocks = n_host > 0 ? pkv__min_i32(n_host, INT32_MAX - 1) + 1 : 0;
}

static pkv_status paged_create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                               void **out)
{
    pkv__paged *p = pkv__alloc(&cfg->alloc, sizeof(*p), _Alignof(pkv__paged));
    if (!p) return PKV_E_NO_MEMORY;
    *p = (pkv__paged){ .cfg = cfg,
                       .reqs = reqs,
                       .n = n,
                       .prefix = cfg->policy.prefix,
                       .swap = cfg->policy.swap,
                       .n_seqs = pkv__sim_n_seqs(&cfg->policy),
                       .block_tokens = cfg->policy.block_tokens };
    if (p->n_seqs < 1 || p->n_seqs > PKV__PAGED_MAX_SEQS) {
        pkv__free(&cfg->alloc, p, sizeof(*p));
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "policy: %d sequences per request, expected 1 .. %d",
                           pkv__sim_n_seqs(&cfg->policy), PKV__PAGED_MAX_SEQS);
    }
    p->usable = cfg->pool_tokens / p->block_tokens;
    if (p->usable == INT32_MAX) p->usable--; /* the manager numbers them from 1, below 2^31 - 1 */
    p->watermark = (int32_t)((int64_t)p->usable * cfg->watermark_ppm / 1000000);
    measure(p);
    pkv_status status = p->prefix ? pkv__paged_check_token_ids(p) : PKV_OK;
    if (status == PKV_OK) status = make_arrays(p);
    if (status == PKV_OK) status = make_manager(p);
    if (status == PKV_OK && cfg->check)
        status = pkv__shadow_init(&p->shadow, p->usable, p->block_tokens, p->n_places * p->n_seqs,
                                  pkv__ceil_div_i32(p->longest, p->block_tokens), p->prefix,
                                  &cfg->alloc);
    if (status != PKV_OK) {
        paged_destroy(p);
        return status;
    }
    pkv__paged_refresh(p);
    *out = p;
    return PKV_OK;
}

/* ---------------------------------------------------------------- parts of the calls */

int32_t pkv__paged_refresh(pkv__paged *p)
{
    pkv_blockmgr_stats_t stats = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(p->mgr, &stats);
    const int32_t more = stats.active_blocks - p->n_active;
    p->n_free = stats.free_blocks;
    p->n_cached = stats.cached_blocks;
    p->n_active = stats.active_blocks;
    p->version++;
    return more;
}

pkv_status pkv__paged_commit_one(pkv__paged *p, const pkv__paged_run *run, int32_t k, int32_t from,
                                 int32_t u)
{
    const pkv__paged_seq *s = &pkv__paged_seqs_of(p, run)[k];
    if (p->prefix) pkv__paged_fill_ids(p, run->r, k, from, u, p->ids);
    const pkv_tokens tokens = { p->ids, u - from, NULL, 0 };
    const pkv_step none = PKV_STEP_NONE;
    const pkv_status status = pkv_seq_commit(p->mgr, s->seq, &tokens, none);
    if (status != PKV_OK || !p->cfg->check) return status;
    return pkv__shadow_commit(&p->shadow, s->shadow, p->ids, u - from);
}

pkv_status pkv__paged_commit(pkv__paged *p, pkv__paged_run *run, int32_t u)
{
    for (int32_t k = 0; k < run->n_open && u > run->committed; k++) {
        const pkv_status status = pkv__paged_commit_one(p, run, k, run->committed, u);
        if (status != PKV_OK) return status;
    }
    run->committed = u;
    return PKV_OK;
}

void pkv__paged_recount(pkv__paged *p, pkv__paged_run *run)
{
    int64_t unshared = 0;
    if (run->n_open > 0 && !run->suspended) {
        const int64_t row =
            (int64_t)pkv__ceil_div_i32(run->reserved, p->block_tokens) * p->block_tokens;
        /* A group that is one sequence yet counts its tokens n times, but has one last block. */
        unshared = run->n_open == p->n_seqs ? row * p->n_seqs
                                            : row + (int64_t)(p->n_seqs - 1) * run->committed;
    }
    p->unshared += unshared - run->unshared;
    run->unshared = unshared;
}

pkv_status pkv__paged_reserve(pkv__paged *p, pkv__paged_run *run, int32_t u)
{
    const pkv__paged_seq *seqs = pkv__paged_seqs_of(p, run);
    const int32_t upto = (u / p->block_tokens + 1) * p->block_tokens;
    pkv_reserve_req requests[PKV__PAGED_MAX_SEQS];
    pkv_block_copy copies[PKV__PAGED_MAX_SEQS];
    int32_t shadows[PKV__PAGED_MAX_SEQS];
    for (int32_t k = 0; k < run->n_open; k++)
        requests[k] = (pkv_reserve_req){ seqs[k].seq, upto - run->committed };
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    work.copy = copies;
    work.copy_cap = PKV__PAGED_MAX_SEQS;
    p->mute = true;
    const pkv_status status = pkv_seq_reserve(p->mgr, requests, run->n_open, &work);
    p->mute = false;
    if (status != PKV_OK) return status;
    run->n_blocks += pkv__paged_refresh(p);
    run->reserved = upto;
    p->n_copied += work.n_copy;
    pkv__paged_recount(p, run);
    if (!p->cfg->check) return PKV_OK;
    for (int32_t k = 0; k < run->n_open; k++) shadows[k] = seqs[k].shadow;
    const int32_t copied = pkv__shadow_reserve(&p->shadow, shadows, run->n_open, upto);
    if (copied == work.n_copy) return PKV_OK;
    return pkv__refuse(&p->cfg->log, PKV_E_CORRUPT, "request %lld: %d blocks copied, model: %d",
                       (long long)run->r, work.n_copy, copied);
}

pkv_status pkv__paged_close(pkv__paged *p, pkv__paged_run *run)
{
    const pkv__paged_seq *seqs = pkv__paged_seqs_of(p, run);
    for (int32_t k = 0; k < run->n_open; k++) {
        const pkv_status status = pkv_seq_close(p->mgr, seqs[k].seq);
        if (status != PKV_OK) return status;
        if (p->cfg->check) pkv__shadow_close(&p->shadow, seqs[k].shadow);
    }
    run->n_open = run->n_blocks = run->n_host = 0;
    run->committed = run->reserved = 0;
    pkv__paged_recount(p, run);
    pkv__paged_refresh(p);
    return PKV_OK;
}

/* ---------------------------------------------------------------- what a request needs */

/* A group that has generated already: its sequences share the full blocks of the prompt. */
static bool starts_apart(const pkv__paged *p, int64_t r, int32_t u)
{
    return p->n_seqs > 1 && u > p->reqs[r].prompt_tokens;
}

int32_t pkv__paged_blocks(const pkv__paged *p, int64_t r, int32_t u)
{
    const int32_t row = pkv__ceil_div_i32(u, p->block_tokens);
    if (!starts_apart(p, r, u)) return row;
    const int32_t shared = p->reqs[r].prompt_tokens / p->block_tokens;
    const int64_t n = shared + (int64_t)p->n_seqs * (row - shared);
    return (int32_t)(n < INT32_MAX / 2 ? n : INT32_MAX / 2);
}

int32_t pkv__paged_max_found(const pkv__paged *p, int64_t r, int32_t u)
{
    if (!p->prefix) return 0;
    if (!starts_apart(p, r, u)) return u - 1; /* somebody has to compute the last one */
    return p->reqs[r].prompt_tokens / p->block_tokens * p->block_tokens;
}

/* Look it up, unless nothing has changed since the last time. */
static void look_up(const pkv__paged *p, int64_t r, int32_t u)
{
    pkv__paged_memo *memo = p->memo;
    if (memo->r == r && memo->u == u && memo->version == p->version) return;
    const int32_t most = pkv__paged_max_found(p, r, u);
    pkv_match match = PKV_MATCH_INIT;
    if (most >= p->block_tokens) {
        pkv__paged_fill_ids(p, r, 0, 0, most, p->ids);
        const pkv_tokens tokens = { p->ids, most, NULL, 0 };
        const pkv_ns default_ns = { 0 };
        if (pkv_blockmgr_probe(p->mgr, default_ns, &tokens, &match) != PKV_OK) match.claimed = 0;
    }
    *memo = (pkv__paged_memo){ .r = r, .u = u, .version = p->version, .claims = p->claims };
    memo->cached = match.claimed;
    memo->n_need =
        pkv__paged_blocks(p, r, u) - match.claimed / p->block_tokens + match.claimed_cached;
}

int32_t pkv__paged_need_blocks(const pkv__paged *p, int64_t r, int32_t u)
{
    if (!p->prefix) return pkv__paged_blocks(p, r, u);
    look_up(p, r, u);
    return p->memo->n_need;
}

/* Does a start leave `keep` blocks free? Exact, without a look-up where that is possible: nothing
 * found is the worst, and while nobody else is admitted a request never comes to need less. */
static bool has_room(const pkv__paged *p, int64_t r, int32_t u, int32_t keep)
{
    const pkv__paged_memo *memo = p->memo;
    const int32_t room = pkv__paged_room(p) - keep;
    if (pkv__paged_blocks(p, r, u) <= room) return true;
    if (!p->prefix || room < 1) return false;
    if (memo->r == r && memo->u == u && memo->claims == p->claims && memo->n_need > room)
        return false;
    return pkv__paged_need_blocks(p, r, u) <= room;
}

static int32_t paged_probe(const void *self, int64_t r, int32_t u)
{
    const pkv__paged *p = self;
    if (!p->prefix) return 0;
    look_up(p, r, u);
    return p->memo->cached;
}

static int64_t paged_need(const void *self, int64_t r, int32_t u)
{
    const pkv__paged *p = self;
    const pkv__paged_run *run = pkv__paged_run_of(p, r);
    const int64_t watermark = p->watermark;
    int64_t n_blocks;
    if (run && run->suspended && run->n_open > 0) n_blocks = run->n_host;
    else n_blocks = pkv__paged_need_blocks(p, r, u);
    return (n_blocks + watermark) * p->block_tokens;
}

/* ---------------------------------------------------------------- admit, grow, release */

/* The first sequence, with room for `upto` tokens, and what is found of its first `most`. */
static pkv_status open_first(pkv__paged *p, pkv__paged_run *run, int32_t most, int32_t upto,
                             int32_t *cached)
{
    pkv__paged_seq *s = pkv__paged_seqs_of(p, run);
    const pkv_ns default_ns = { 0 };
    if (p->prefix) pkv__paged_fill_ids(p, run->r, 0, 0, most, p->ids);
    const pkv_tokens tokens = { p->ids, most, NULL, 0 };
    pkv_block_copy copy;
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    work.copy = &copy;
    work.copy_cap = 1;
    pkv_match match = PKV_MATCH_INIT;
    pkv_status status = pkv_seq_open(p->mgr, default_ns, &s->seq);
    if (status != PKV_OK) return status;
    status = pkv_seq_match(p->mgr, s->seq, &tokens, most, upto, &work, &match);
    if (status != PKV_OK) {
        const pkv_status closed = pkv_seq_close(p->mgr, s->seq);
        return closed == PKV_OK ? status : closed;
    }
    run->n_open = 1;
    run->committed = match.claimed;
    run->reserved = pkv__max_i32(upto, match.claimed);
    *cached = match.claimed;
    if (!p->cfg->check) return PKV_OK;
    const int32_t found = pkv__shadow_open(&p->shadow, s->shadow, p->ids, most, upto);
    if (found == match.claimed) return PKV_OK;
    return pkv__refuse(&p->cfg->log, PKV_E_CORRUPT, "request %lld: %d tokens found, model: %d",
                       (long long)run->r, match.claimed, found);
}

/* All sequences of a group that has generated already. */
static pkv_status start_group(pkv__paged *p, pkv__paged_run *run, int32_t u, int32_t *cached)
{
    const int32_t shared = pkv__paged_max_found(p, run->r, u);
    const int32_t base = p->reqs[run->r].prompt_tokens / p->block_tokens * p->block_tokens;
    pkv_status status = open_first(p, run, shared, base, cached);
    if (status == PKV_OK) status = pkv__paged_commit(p, run, base);
    if (status == PKV_OK) status = pkv__paged_fork_all(p, run);
    if (status == PKV_OK) status = pkv__paged_reserve(p, run, u - 1);
    if (status == PKV_OK) status = pkv__paged_commit(p, run, u);
    return status;
}

pkv_status pkv__paged_start(pkv__paged *p, pkv__paged_run *run, int32_t u, int32_t keep,
                            int32_t *cached)
{
    *cached = 0;
    if (!has_room(p, run->r, u, keep)) return PKV_E_NO_BLOCKS;
    pkv_status status;
    if (starts_apart(p, run->r, u)) {
        status = start_group(p, run, u, cached);
    } else {
        const int32_t upto = pkv__ceil_div_i32(u, p->block_tokens) * p->block_tokens;
        status = open_first(p, run, pkv__paged_max_found(p, run->r, u), upto, cached);
        if (status == PKV_OK) status = pkv__paged_commit(p, run, u);
    }
    if (status == PKV_E_NO_BLOCKS)
        return pkv__refuse(&p->cfg->log, PKV_E_CORRUPT,
                           "request %lld: the block manager has less room than it said",
                           (long long)run->r);
    if (status != PKV_OK) return status;
    run->n_blocks = pkv__paged_blocks(p, run->r, u);
    run->drawn = 0;
    pkv__paged_note_found(p, run->r, u, *cached);
    pkv__paged_refresh(p);
    pkv__paged_recount(p, run);
    p->claims++;
    return PKV_OK;
}

static pkv_status paged_admit(void *self, int64_t r, int32_t u, bool pool_is_empty, int32_t *cached)
{
    pkv__paged *p = self;
    if (p->n_free_places == 0) return PKV_E_NO_BLOCKS; /* each running one has a block at least */
    const int32_t place = p->free_places[p->n_free_places - 1];
    pkv__paged_run *run = &p->runs[place];
    *run = (pkv__paged_run){ .r = r };
    const pkv_status status = pkv__paged_start(p, run, u, pool_is_empty ? 0 : p->watermark, cached);
    if (status == PKV_E_NO_BLOCKS) run->r = -1;
    if (status != PKV_OK) return status;
    p->n_free_places--;
    p->place_of[r] = place;
    p->n_running++;
    return PKV_OK;
}

static pkv_status paged_release(void *self, int64_t r)
{
    pkv__paged *p = self;
    pkv__paged_run *run = pkv__paged_run_of(p, r);
    const pkv_status status = pkv__paged_close(p, run);
    if (status != PKV_OK) return status;
    if (run->suspended) p->n_suspended--;
    else p->n_running--;
    p->free_places[p->n_free_places++] = p->place_of[r];
    p->place_of[r] = -1;
    run->r = -1;
    return PKV_OK;
}

/* Last blocks are shared anew before every token. */
static bool is_beams(const pkv__paged *p)
{
    return p->n_seqs > 1 && p->cfg->policy.group == PKV_SIM_GROUP_BEAM;
}

static pkv_status paged_grow(void *self, int64_t r, int32_t u)
{
    pkv__paged *p = self;
    pkv__paged_run *run = pkv__paged_run_of(p, r);
    pkv_status status = PKV_OK;
    const bool beams = is_beams(p);
    if (p->n_seqs > 1) {
        if (run->n_open == 1) status = pkv__paged_fork_all(p, run);
        else if (beams && run->drawn != u) status = pkv__paged_switch_beams(p, run, u);
        if (status != PKV_OK) return status;
        run->drawn = u;
    }
    if (u < run->reserved && !beams) return PKV_OK;
    status = pkv__paged_commit(p, run, u);
    if (status != PKV_OK) return status;
    if (p->n_seqs == 1 && u % p->block_tokens == 0 && pkv__paged_room(p) == 0)
        status = PKV_E_NO_BLOCKS;
    else status = pkv__paged_reserve(p, run, u);
    while (status == PKV_E_NO_BLOCKS && p->n_running == 1 && p->n_suspended > 0) {
        status = pkv__paged_give_up(p, r);
        if (status == PKV_OK) status = pkv__paged_reserve(p, run, u);
        else return status;
    }
    return status;
}

static int64_t paged_leap_limit(const void *self, int64_t r, int32_t u)
{
    const pkv__paged *p = self;
    if (is_beams(p)) return 1;
    return pkv__paged_run_of(p, r)->reserved - u;
}

/* ---------------------------------------------------------------- questions */

static int64_t paged_held(const void *self, int64_t r)
{
    const pkv__paged *p = self;
    const pkv__paged_run *run = pkv__paged_run_of(p, r);
    return run ? (int64_t)run->n_blocks * p->block_tokens : 0;
}

static int64_t paged_largest_free(const void *self)
{
    const pkv__paged *p = self;
    return p->cfg->pool_tokens - (int64_t)p->n_active * p->block_tokens;
}

static bool paged_has_places(const void *self)
{
    (void)self;
    return false;
}

static void paged_result(const void *self, pkv_sim_result *out)
{
    const pkv__paged *p = self;
    pkv__paged_hits(p, &out->hits);
    out->copied_blocks = p->n_copied;
    out->swapped_blocks = p->n_swapped;
}

const pkv__sim_policy_ops pkv__sim_policy_paged = {
    .create = paged_create,
    .destroy = paged_destroy,
    .units_per_slot = pkv__sim_unit_is_slot,
    .fits_empty = paged_fits_empty,
    .probe = paged_probe,
    .admit = paged_admit,
    .grow = paged_grow,
    .release = paged_release,
    .suspend = pkv__paged_suspend,
    .resume = pkv__paged_resume,
    .leap_limit = paged_leap_limit,
    .need = paged_need,
    .held = paged_held,
    .has_places = paged_has_places,
    .closed = pkv__sim_never_closed,
    .usage_of = pkv__paged_usage_of,
    .usage = pkv__paged_usage,
    .largest_free = paged_largest_free,
    .take_costs = pkv__paged_take_costs,
    .result = paged_result,
    .map = pkv__paged_map,
    .check = pkv__paged_check,
};
