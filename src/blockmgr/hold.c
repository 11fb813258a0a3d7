/* Holds: claims on blocks outside any sequence, and where other threads meet the manager.
 *
 *   word of a hold    generation << 8 | POST_NONE --poster--> POST_OK, POST_FAILED --poll--> closed
 *                                         `-------poll, deadline passed--> POST_CLOSED
 *
 * A poster reads two numbers of the manager that never change after init (max_holds, off_holds) and
 * exchanges this one word; everything else in the arena belongs to the writer. Both sides move the
 * word with compare-and-exchange from "this generation, nothing posted", so exactly one of post and
 * deadline wins. The poster releases and poll acquires: what was written before the post is visible
 * to the writer after the poll that reports it.
 *
 *   ids of a prefix   [ group 0: sinks, then first[0] .. | group 1: sinks, then first[1] .. | ]
 *
 * Entries that a window has released are left out, so the position of an id is known from `first`
 * alone. The blocks of a swap are chained (swap.c). */
#include "blockmgr_internal.h"

enum post_state { POST_CLOSED, POST_NONE, POST_OK, POST_FAILED };
enum { STATE_BITS = 8 };

static uint64_t word_of(uint32_t generation, enum post_state state)
{
    return (uint64_t)generation << STATE_BITS | (uint64_t)state;
}

static enum post_state state_of(uint64_t word)
{
    return (enum post_state)(word & ((1u << STATE_BITS) - 1));
}

static pkv_hold hold_handle(const pkv_blockmgr *m, const struct hold_rec *h)
{
    return (pkv_hold){ (uint64_t)h->generation << 32 | (uint32_t)(h - holds_of(m)) };
}

/* The record of a hold, running or expired; NULL when the handle is stale. Writer only. */
static struct hold_rec *hold_find(const pkv_blockmgr *m, pkv_hold hold)
{
    const uint32_t idx = (uint32_t)hold.v;
    if (idx >= (uint32_t)m->max_holds) return NULL;
    struct hold_rec *h = &holds_of(m)[idx];
    return h->life != HOLD_FREE && h->generation == (uint32_t)(hold.v >> 32) ? h : NULL;
}

void pkv__holds_init(pkv_blockmgr *m)
{
    struct hold_rec *holds = holds_of(m);
    memset(holds, 0, (size_t)m->max_holds * sizeof *holds);
    for (int32_t i = 0; i < m->max_holds; i++) {
        holds[i].generation = 1;
        holds[i].next_free = i + 1 < m->max_holds ? i + 1 : NONE;
        atomic_init(&holds[i].word, word_of(1, POST_CLOSED));
    }
    m->free_hold = 0, m->n_holds = 0;
    atomic_init(&m->late_posts, 0);
    const size_t swaps = m->n_host_blocks > 0 ? (size_t)m->n_blocks : 1;
    memset(swaps_of(m), 0, swaps * sizeof(struct swap_rec));
}

int32_t *pkv__hold_ids(const pkv_blockmgr *m, const struct hold_rec *h)
{
    return all_hold_ids(m) + (size_t)(h - holds_of(m)) * (size_t)m->hold_ids;
}

struct hold_rec *pkv__hold_begin(pkv_blockmgr *m, enum hold_kind kind, uint64_t deadline,
                                 pkv_hold *out)
{
    PKV_ASSERT(m->free_hold != NONE);
    struct hold_rec *h = &holds_of(m)[m->free_hold];
    m->free_hold = h->next_free;
    m->n_holds++;
    h->deadline = deadline;
    h->life = HOLD_RUNNING, h->kind = (uint8_t)kind;
    h->n_tokens = 0, h->last_block = 0, h->first_seq = NONE, h->next_free = NONE;
    memset(h->first, 0, sizeof h->first);
    memset(h->n_blocks, 0, sizeof h->n_blocks);
    atomic_store_explicit(&h->word, word_of(h->generation, POST_NONE), memory_order_release);
    *out = hold_handle(m, h);
    return h;
}

/* The handle is stale from here on. The references are gone. */
static void give_hold(pkv_blockmgr *m, struct hold_rec *h)
{
    if (h->kind != HOLD_PREFIX) pkv__swap_unpair(m, h);
    if (++h->generation == 0) h->generation = 1; /* {0} stays "none" */
    atomic_store_explicit(&h->word, word_of(h->generation, POST_CLOSED), memory_order_relaxed);
    h->life = HOLD_FREE;
    h->next_free = m->free_hold;
    m->free_hold = (int32_t)(h - holds_of(m));
    m->n_holds--;
}

void pkv__hold_each(pkv_blockmgr *m, const struct hold_rec *h,
                    void (*act)(pkv_blockmgr *, int32_t block))
{
    const int32_t *ids = pkv__hold_ids(m, h);
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        if (h->kind == HOLD_PREFIX) {
            for (int32_t i = h->n_blocks[g] - 1; i >= 0; i--) act(m, ids[i]);
            ids += h->n_blocks[g];
            continue;
        }
        for (int32_t b = h->last_block; b != 0 && h->n_blocks[g] > 0; b = swaps_of(m)[b].next) {
            const int32_t slot = blocks_of(m)[b].slot;
            if (slot >= grp->slot && slot < grp->slot + grp->n_slots) act(m, b);
        }
    }
}

/* ---------------------------------------------------------------- prefixes */

/* Blocks of the first n_tokens in a group that no window releases. */
static int32_t sinks_of(const struct group_rec *g, int32_t n_tokens)
{
    return pkv__min_i32(g->sink_blocks, blocks_for(g, n_tokens));
}

/* First entry behind the sinks that is there, among those of n_tokens. */
static int32_t first_kept(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g,
                          int32_t n_tokens)
{
    const struct group_rec *grp = &m->groups[g];
    return pkv__min_i32(pkv__max_i32(seq_group(m, s, g)->gap_end, sinks_of(grp, n_tokens)),
                        blocks_for(grp, n_tokens));
}

/* Blocks that a hold of n_tokens refers to in a group. */
static int32_t count_prefix(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g,
                            int32_t n_tokens)
{
    const struct group_rec *grp = &m->groups[g];
    if (grp->kind == PKV_GROUP_STATE) return 0;
    return sinks_of(grp, n_tokens) + blocks_for(grp, n_tokens) - first_kept(m, s, g, n_tokens);
}

static void hold_prefix(pkv_blockmgr *m, struct hold_rec *h, const struct seq_rec *s,
                        int32_t n_tokens)
{
    int32_t *ids = pkv__hold_ids(m, h);
    h->n_tokens = n_tokens;
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        const int32_t *row = row_of(m, s, g);
        if (grp->kind == PKV_GROUP_STATE) continue;
        const int32_t sinks = sinks_of(grp, n_tokens);
        h->first[g] = first_kept(m, s, g, n_tokens);
        h->n_blocks[g] = count_prefix(m, s, g, n_tokens);
        for (int32_t i = 0; i < h->n_blocks[g]; i++) {
            *ids = row[i < sinks ? i : h->first[g] + i - sinks];
            PKV_ASSERT(*ids > 0);
            pkv__block_ref(m, *ids++);
        }
    }
}

pkv_status pkv_hold_open(pkv_blockmgr *mgr, pkv_seq seq, int32_t n_tokens, uint64_t deadline,
                         pkv_hold *out)
{
    struct seq_rec *s = NULL;
    if (!mgr || !out || n_tokens < 1) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    if (n_tokens > s->settled)
        return pkv__refuse(&mgr->log, PKV_E_RANGE, "hold of %d tokens, %d have settled", n_tokens,
                           s->settled);
    int64_t n_ids = 0;
    for (int32_t g = 0; g < mgr->n_groups; g++) n_ids += count_prefix(mgr, s, g, n_tokens);
    if (n_ids == 0)
        return pkv__refuse(&mgr->log, PKV_E_RANGE,
                           "hold of %d tokens: windows have released all of it", n_tokens);
    if (mgr->free_hold == NONE)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT, "hold: all %d are open", mgr->max_holds);
    hold_prefix(mgr, pkv__hold_begin(mgr, HOLD_PREFIX, deadline, out), s, n_tokens);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_hold_blocks(const pkv_blockmgr *mgr, pkv_hold hold, int32_t group, int32_t *ids,
                           int32_t cap, int32_t *n)
{
    if (!mgr || !n || cap < 0 || (cap > 0 && !ids) || group < 0 || group >= mgr->n_groups)
        return PKV_E_INVALID_ARG;
    const struct hold_rec *h = hold_find(mgr, hold);
    if (!h) return PKV_E_STALE;
    *n = h->n_blocks[group];
    if (cap < *n) return PKV_E_LIMIT;
    if (h->kind == HOLD_PREFIX) {
        const int32_t *from = pkv__hold_ids(mgr, h);
        for (int32_t g = 0; g < group; g++) from += h->n_blocks[g];
        if (*n > 0) memcpy(ids, from, (size_t)*n * sizeof *ids);
        return PKV_OK;
    }
    const struct group_rec *grp = &mgr->groups[group];
    int32_t at = *n; /* the chain goes backwards */
    for (int32_t b = h->last_block; b != 0 && at > 0; b = swaps_of(mgr)[b].next) {
        const int32_t slot = blocks_of(mgr)[b].slot;
        if (slot >= grp->slot && slot < grp->slot + grp->n_slots) ids[--at] = b;
    }
    return PKV_OK;
}

/* Does the hold of a prefix name the block at this position of a row of group g? */
static bool prefix_names(const pkv_blockmgr *m, const struct hold_rec *h, int32_t g, int32_t block,
                         int32_t at)
{
    const int32_t *ids = pkv__hold_ids(m, h);
    const int32_t sinks = sinks_of(&m->groups[g], h->n_tokens);
    for (int32_t k = 0; k < g; k++) ids += h->n_blocks[k];
    const int32_t i = at < sinks ? at : at - h->first[g] + sinks;
    return (at < sinks || at >= h->first[g]) && i < h->n_blocks[g] && ids[i] == block;
}

int32_t pkv__holds_on(const pkv_blockmgr *m, int32_t block, int32_t at, int32_t *covered)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    int32_t n = 0, g = 0;
    *covered = 0;
    if (m->n_holds == 0 || rec->ref <= 1) return 0; /* a row names it: nobody else does */
    if (m->n_host_blocks > 0 && swaps_of(m)[block].host != 0) n++, *covered = INT32_MAX;
    while (rec->slot >= m->groups[g].slot + m->groups[g].n_slots) g++;
    const struct group_rec *grp = &m->groups[g];
    if (grp->kind == PKV_GROUP_STATE) return n;
    for (int32_t i = 0, live = m->n_holds; live > 0; i++) {
        const struct hold_rec *h = &holds_of(m)[i];
        if (h->life == HOLD_FREE) continue;
        live--;
        if (h->kind != HOLD_PREFIX || !prefix_names(m, h, g, block, at)) continue;
        n++;
        *covered = pkv__max_i32(
            *covered, pkv__min_i32(grp->block_tokens, h->n_tokens - at * grp->block_tokens));
    }
    return n;
}

/* ---------------------------------------------------------------- ends */

void pkv_hold_post(pkv_blockmgr *mgr, pkv_hold hold, pkv_status result)
{
    if (!mgr) return;
    const uint32_t idx = (uint32_t)hold.v, generation = (uint32_t)(hold.v >> 32);
    if (idx < (uint32_t)mgr->max_holds) {
        uint64_t open = word_of(generation, POST_NONE);
        const uint64_t posted = word_of(generation, result == PKV_OK ? POST_OK : POST_FAILED);
        if (atomic_compare_exchange_strong_explicit(&holds_of(mgr)[idx].word, &open, posted,
                                                    memory_order_release, memory_order_relaxed))
            return;
    }
    atomic_fetch_add_explicit(&mgr->late_posts, 1, memory_order_relaxed);
}

/* Has the running hold ended, and how? If its deadline has passed, later posts are late. */
static bool has_ended(struct hold_rec *h, uint64_t now, pkv_hold_end *end)
{
    uint64_t seen = word_of(h->generation, POST_NONE);
    if (h->deadline >= now) {
        seen = atomic_load_explicit(&h->word, memory_order_acquire);
    } else if (atomic_compare_exchange_strong_explicit(
                   &h->word, &seen, word_of(h->generation, POST_CLOSED), memory_order_acquire,
                   memory_order_acquire)) {
        *end = PKV_HOLD_EXPIRED;
        return true;
    }
    *end = state_of(seen) == POST_OK ? PKV_HOLD_DONE : PKV_HOLD_FAILED;
    return state_of(seen) != POST_NONE;
}

static void end_hold(pkv_blockmgr *m, struct hold_rec *h, pkv_hold_end end)
{
    if (h->kind == HOLD_RESUME) pkv__swap_ends(m, h, end);
    pkv__hold_each(m, h, end == PKV_HOLD_EXPIRED ? pkv__block_ref_expires : pkv__block_unref);
    if (h->kind == HOLD_SUSPEND) pkv__swap_ends(m, h, end);
    if (end == PKV_HOLD_EXPIRED) h->life = HOLD_OVERDUE;
    else give_hold(m, h);
}

pkv_status pkv_blockmgr_poll(pkv_blockmgr *mgr, uint64_t now, pkv_hold_result *done, int32_t cap,
                             int32_t *n)
{
    int32_t count = 0;
    if (!mgr || !n || cap < 0 || (cap > 0 && !done)) return PKV_E_INVALID_ARG;
    if (now < mgr->now)
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG, "poll: now is %llu, it was %llu before",
                           (unsigned long long)now, (unsigned long long)mgr->now);
    mgr->now = now;
    for (int32_t i = 0, live = mgr->n_holds; live > 0 && count < cap; i++) {
        struct hold_rec *h = &holds_of(mgr)[i];
        pkv_hold_end end;
        live -= h->life != HOLD_FREE;
        if (h->life != HOLD_RUNNING || !has_ended(h, now, &end)) continue;
        done[count].hold = hold_handle(mgr, h);
        done[count++].end = end;
        end_hold(mgr, h, end);
    }
    *n = count;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_hold_reclaim(pkv_blockmgr *mgr, pkv_hold hold)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    struct hold_rec *h = hold_find(mgr, hold);
    if (!h) return PKV_E_STALE;
    if (h->life != HOLD_OVERDUE)
        return pkv__refuse(&mgr->log, PKV_E_STATE, "reclaim: the hold has not expired");
    pkv__hold_each(mgr, h, pkv__block_unref_expired);
    give_hold(mgr, h);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
