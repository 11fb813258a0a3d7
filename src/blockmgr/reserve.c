/* Reserve: room for the next tokens of a batch, all or nothing.
 *
 * A call is planned without changing anything but scratch, judged, and then run by the decisions of
 * the plan, which stay in the sequences' records: deciding again while the call runs could come out
 * otherwise, because evictions and withdrawals of the same call remove continuations. `planned` of
 * a block counts the copies away from it that earlier requests of the call have planned: those
 * references go, so a later sibling may find itself alone. */
#include "blockmgr_internal.h"

enum { TAKEN_OVER = INT32_MAX }; /* `planned` of a block that is to be written in place */

struct call_plan {
    int64_t n_taken; /* many requests could each want the whole pool */
    int32_t n_copies;
    int32_t n_freed; /* cached blocks that go with content that is withdrawn */
    bool avoids_copies;
};

/* The part of choose_action that needs a look at what lies on the block and who refers to it. */
static enum tail_action weigh_action(const pkv_blockmgr *m, int32_t block, int32_t at,
                                     int32_t offset, bool avoid_copies)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    int32_t held = 0; /* slots that holds cover */
    const int32_t holds = m->n_holds > 0 ? pkv__holds_on(m, block, at, &held) : 0;
    const bool alone = rec->ref - rec->planned - holds == 1; /* of rows and raw references */
    if (alone && held <= offset && pkv__block_covered(m, block) <= offset) return TAIL_KEEP;
    return avoid_copies && alone && holds == 0 && rec->prepared == NONE ? TAIL_TAKE_OVER
                                                                        : TAIL_COPY;
}

/* May the slots of a block, entry `at` of a row, be written from `offset` on? Where not: copy, or,
 * if copies are to be avoided and nobody else reads the block, take the block over. */
static inline enum tail_action choose_action(const pkv_blockmgr *m, int32_t block, int32_t at,
                                             int32_t offset, bool avoid_copies)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    if (PKV_LIKELY(rec->ref == 1 && rec->node == NONE && rec->prepared == NONE))
        return TAIL_KEEP; /* the only reference is the row's, so there is no hold */
    return weigh_action(m, block, at, offset, avoid_copies);
}

static void set_action(struct seq_rec *s, int32_t slot, enum tail_action action)
{
    s->actions |= (uint64_t)action << (2 * slot);
}

static enum tail_action action_of(const struct seq_rec *s, int32_t slot)
{
    return (enum tail_action)(s->actions >> (2 * slot) & 3);
}

static inline int32_t room_after(const struct seq_rec *s, int32_t n_tokens)
{
    return pkv__max_i32(s->reserved, s->committed + n_tokens);
}

/* Blocks by which `n_tokens` > 0 more tokens lengthen the row. */
static inline int32_t new_blocks(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g,
                                 int32_t n_tokens)
{
    const struct group_rec *grp = &m->groups[g];
    if (PKV_UNLIKELY(grp->kind == PKV_GROUP_STATE))
        return row_of(m, s, g)[0] == 0 ? grp->n_slots : 0;
    return blocks_for(grp, room_after(s, n_tokens)) - blocks_for(grp, s->reserved);
}

/* The blocks of a row that the next token is written to, and the first slot in them that is: the
 * block it falls into, none at a block's start; all blocks of a state. */
struct tail {
    int32_t *ids;
    int32_t at; /* of the first in its row */
    int32_t n, offset;
};
static inline struct tail tail_of(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g)
{
    const struct group_rec *grp = &m->groups[g];
    int32_t *row = row_of(m, s, g);
    if (PKV_UNLIKELY(grp->kind == PKV_GROUP_STATE))
        return (struct tail){ row, 0, row[0] == 0 ? 0 : grp->n_slots, 0 };
    const int32_t at = block_index(grp, s->committed), offset = block_offset(grp, s->committed);
    return (struct tail){ row + at, at, offset != 0, offset };
}

/* Decide what happens to the tails of one request, and count. */
static inline void plan_request(const pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens,
                                bool avoid_copies, struct call_plan *plan)
{
    s->actions = 0; /* TAIL_KEEP everywhere */
    s->grows = false;
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct tail tail = tail_of(m, s, g);
        const int32_t n_new = new_blocks(m, s, g, n_tokens);
        if (n_new > 0) s->grows = true, plan->n_taken += n_new;
        for (int32_t k = 0; k < tail.n; k++) {
            const enum tail_action action =
                choose_action(m, tail.ids[k], tail.at + k, tail.offset, avoid_copies);
            if (PKV_LIKELY(action == TAIL_KEEP)) continue;
            set_action(s, m->groups[g].slot + k, action);
            if (action == TAIL_COPY) blocks_of(m)[tail.ids[k]].planned++, plan->n_copies++;
            else blocks_of(m)[tail.ids[k]].planned = TAKEN_OVER; /* nobody else asks for it */
        }
    }
}

/* Blocks that become free with the content that one request takes over: of nodes that no block of
 * the slot is left to hold. */
static int32_t count_freed(const pkv_blockmgr *m, const struct seq_rec *s)
{
    int32_t n = 0;
    for (int32_t g = 0; g < m->n_groups && s->actions != 0; g++) {
        const struct tail tail = tail_of(m, s, g);
        for (int32_t k = 0; k < tail.n; k++) {
            const struct block_rec *rec = &blocks_of(m)[tail.ids[k]];
            if (action_of(s, m->groups[g].slot + k) != TAIL_TAKE_OVER || rec->spare) continue;
            int32_t b = node_at(m, rec->node)->at[rec->slot].oldest_spare;
            while (b != NONE && blocks_of(m)[b].planned == TAKEN_OVER) b = blocks_of(m)[b].next;
            if (b == NONE) n += pkv__cached_below(m, tail.ids[k]);
        }
    }
    return n;
}

/* Decide for every request what happens to its tails, and count. Limits have been checked. */
static struct call_plan plan_call(const pkv_blockmgr *m, const pkv_reserve_req *reqs,
                                  int32_t n_reqs, bool avoid_copies)
{
    struct call_plan plan = { 0, 0, 0, avoid_copies };
    for (int32_t i = 0; i < n_reqs; i++)
        if (reqs[i].n_tokens > 0)
            plan_request(m, seq_find(m, reqs[i].seq), reqs[i].n_tokens, avoid_copies, &plan);
    plan.n_taken += plan.n_copies;
    for (int32_t i = 0; i < n_reqs && avoid_copies; i++)
        if (reqs[i].n_tokens > 0) plan.n_freed += count_freed(m, seq_find(m, reqs[i].seq));
    for (int32_t i = 0; i < n_reqs && (plan.n_copies > 0 || avoid_copies); i++) {
        for (int32_t g = 0; g < m->n_groups; g++) {
            const struct tail tail = tail_of(m, seq_find(m, reqs[i].seq), g);
            for (int32_t k = 0; k < tail.n; k++) blocks_of(m)[tail.ids[k]].planned = 0;
        }
    }
    return plan;
}

uint32_t pkv__batch_begin(const pkv_blockmgr *m)
{
    uint32_t *no = &((pkv_blockmgr *)(uintptr_t)m)->batch_no; /* scratch */
    if (++*no == 0) {
        for (int32_t i = 0; i < m->max_seqs; i++) seqs_of(m)[i].mark = 0;
        *no = 1;
    }
    return *no;
}

/* Statuses in the order in which the contract names them. */
static pkv_status first_of(pkv_status a, pkv_status b)
{
    static const uint8_t rank[] = { [PKV_OK] = 9,      [PKV_E_INVALID_ARG] = 0, [PKV_E_STALE] = 1,
                                    [PKV_E_STATE] = 2, [PKV_E_LIMIT] = 3,       [PKV_E_NEVER] = 4 };
    return rank[a] <= rank[b] ? a : b;
}

/* Would the blocks of all its rows exceed the pool? */
static bool never_fits(const pkv_blockmgr *m, const struct seq_rec *s, int32_t n_tokens)
{
    const int32_t want = room_after(s, n_tokens);
    int64_t n = 0;
    if (PKV_LIKELY(want <= m->always_fits)) return false;
    for (int32_t g = 0; g < m->n_groups; g++) n += pkv__blocks_held(m, s, g, want);
    return n > m->n_blocks - 1;
}

/* Everything that does not depend on what the pool holds. */
static pkv_status check_requests(const pkv_blockmgr *m, const pkv_reserve_req *reqs, int32_t n_reqs)
{
    pkv_status status = PKV_OK;
    if (n_reqs < 0 || (n_reqs > 0 && !reqs)) return PKV_E_INVALID_ARG;
    const uint32_t no = pkv__batch_begin(m);
    for (int32_t i = 0; i < n_reqs; i++) {
        struct seq_rec *s = seq_find(m, reqs[i].seq);
        const int32_t n = reqs[i].n_tokens;
        if (n < 0 || (s && s->mark == no)) {
            status = PKV_E_INVALID_ARG;
        } else if (!s) {
            status = first_of(status, PKV_E_STALE);
        } else if (s->swap != PKV_SEQ_RUNNING) {
            status = first_of(status, PKV_E_STATE);
        } else if (n > m->max_seq_tokens - s->committed) {
            status = first_of(status, PKV_E_LIMIT);
        } else if (never_fits(m, s, n)) {
            status = first_of(status, PKV_E_NEVER);
        }
        if (s) s->mark = no;
    }
    return status;
}

/* The plan that will run, and the verdict about it. */
static pkv_status judge(const pkv_blockmgr *m, const pkv_reserve_req *reqs, int32_t n_reqs,
                        struct call_plan *plan, pkv_step *step)
{
    const int32_t room = m->n_free + m->n_cached;
    *plan = plan_call(m, reqs, n_reqs, false);
    if (plan->n_taken > room && plan->n_copies > 0 && !steps_hold_back(m))
        *plan = plan_call(m, reqs, n_reqs, true);
    return pkv__judge_room(m, plan->n_taken, room, 0, 0, step);
}

static void run_group(pkv_blockmgr *m, struct seq_rec *s, int32_t g, int32_t n_tokens,
                      pkv_block_work *work)
{
    const struct group_rec *grp = &m->groups[g];
    const bool state = grp->kind == PKV_GROUP_STATE;
    const struct tail tail = tail_of(m, s, g);
    const int32_t n_new = new_blocks(m, s, g, n_tokens), idx = seq_index(m, s);
    const int32_t first_new = state ? 0 : blocks_for(grp, s->reserved);
    int32_t *row = row_at(m, g, idx);
    for (int32_t k = 0; k < tail.n; k++) {
        if (action_of(s, grp->slot + k) == TAIL_COPY) {
            const int32_t src = tail.ids[k];
            tail.ids[k] = pkv__take_for_work(m, grp->slot + k, work);
            work->copy[work->n_copy++] =
                (pkv_block_copy){ src, tail.ids[k], state ? 0 : tail.offset, g };
            pkv__row_changed(m, g, idx, tail.at + k);
        }
    }
    for (int32_t i = 0; i < n_new; i++)
        row[first_new + i] = pkv__take_for_work(m, grp->slot + (state ? i : 0), work);
    if (n_new == 0) return;
    pkv__row_changed(m, g, idx, first_new);
    pkv__row_changed(m, g, idx, first_new + n_new - 1);
}

/* Blocks to zero, of a plan that fits; what it frees itself is taken first. */
static int32_t zeros_of(const pkv_blockmgr *m, const struct call_plan *plan)
{
    const int32_t n = (int32_t)plan->n_taken;
    return pkv__count_zeros(m, n, pkv__min_i32(n, plan->n_freed));
}

/* Withdraw what is to be written in place: before anything is taken, because it makes room. */
static void withdraw_tails(pkv_blockmgr *m, const pkv_reserve_req *req)
{
    const struct seq_rec *s = seq_find(m, req->seq);
    for (int32_t g = 0; g < m->n_groups && s->actions != 0; g++) {
        const struct tail tail = tail_of(m, s, g);
        for (int32_t k = 0; k < tail.n; k++)
            if (action_of(s, m->groups[g].slot + k) == TAIL_TAKE_OVER)
                pkv__node_withdraw(m, tail.ids[k]);
    }
}

static void run_request(pkv_blockmgr *m, const pkv_reserve_req *req, pkv_block_work *work)
{
    struct seq_rec *s = seq_find(m, req->seq);
    if (s->grows || s->actions != 0)
        for (int32_t g = 0; g < m->n_groups; g++) run_group(m, s, g, req->n_tokens, work);
    s->reserved = room_after(s, req->n_tokens);
}

pkv_status pkv_seq_reserve(pkv_blockmgr *mgr, const pkv_reserve_req *reqs, int32_t n_reqs,
                           pkv_block_work *work)
{
    struct call_plan plan;
    if (!mgr) return PKV_E_INVALID_ARG;
    pkv_status status = pkv__check_work(mgr, work);
    if (status == PKV_OK) status = check_requests(mgr, reqs, n_reqs);
    if (status == PKV_OK) status = judge(mgr, reqs, n_reqs, &plan, NULL);
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status, "reserve of %d sequences: %s", n_reqs,
                           pkv_status_text(status));
    if (plan.n_copies > work->copy_cap || zeros_of(mgr, &plan) > work->zero_cap)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT,
                           "reserve: work has no room for %d copies and %d blocks to zero",
                           plan.n_copies, zeros_of(mgr, &plan));
    work->n_copy = work->n_zero = 0;
    for (int32_t i = 0; i < n_reqs && plan.avoids_copies; i++)
        if (reqs[i].n_tokens > 0) withdraw_tails(mgr, &reqs[i]);
    for (int32_t i = 0; i < n_reqs; i++)
        if (reqs[i].n_tokens > 0) run_request(mgr, &reqs[i], work);
    /* Only now may the sources go: none of them could be handed out by this call. */
    for (int32_t i = 0; i < work->n_copy; i++) pkv__block_unref(mgr, work->copy[i].src);
    mgr->copies += (uint64_t)work->n_copy;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_blockmgr_need(const pkv_blockmgr *mgr, const pkv_reserve_req *reqs, int32_t n_reqs,
                             pkv_need *out)
{
    struct call_plan plan = { 0, 0, 0, false };
    if (!mgr || !out || (n_reqs > 0 && !reqs)) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    pkv_status verdict = check_requests(mgr, reqs, n_reqs);
    pkv_step step = PKV_STEP_NONE;
    if (verdict == PKV_OK) verdict = judge(mgr, reqs, n_reqs, &plan, &step);
    *out = (pkv_need){ .struct_size = sizeof *out,
                       .new_blocks = (int32_t)(plan.n_taken < INT32_MAX ? plan.n_taken : INT32_MAX),
                       .copies = plan.n_copies,
                       .verdict = verdict,
                       .step = step };
    if (verdict != PKV_OK) return PKV_OK;
    out->evictions = pkv__max_i32(plan.n_freed, (int32_t)plan.n_taken - mgr->n_free);
    out->zeros = zeros_of(mgr, &plan);
    return PKV_OK;
}
