/* Reserve: room for the next tokens of a batch, all or nothing.
 *
 * A call is planned without changing anything but scratch, judged, and then run by the decisions of
 * the plan, which stay in the sequences' records: deciding again while the call runs could come out
 * otherwise, because evictions and withdrawals of the same call remove continuations. `planned` of
 * a block counts the copies away from it that earlier requests of the call have planned: those
 * references go, so a later sibling may find itself alone. */
#include "blockmgr_internal.h"

struct call_plan {
    int32_t n_taken, n_copies;
};

/* May the next token be written where it falls? Where not: copy, or, if copies are to be avoided
 * and nobody else reads the block or continues its content, take the block over. */
static enum tail_action choose_action(const pkv_blockmgr *m, const struct block_rec *rec,
                                      int32_t offset, bool avoid_copies)
{
    const struct node *node = rec->node != NONE ? node_at(m, rec->node) : NULL;
    const bool alone = rec->ref - rec->planned == 1;
    if (alone && (!node || node->n_tokens <= offset)) return TAIL_KEEP;
    return avoid_copies && alone && node->first_child == NONE ? TAIL_TAKE_OVER : TAIL_COPY;
}

/* Blocks by which `n_tokens` > 0 more tokens lengthen the row. */
static int32_t new_blocks(const pkv_blockmgr *m, const struct seq_rec *s, int32_t n_tokens)
{
    const int32_t want = pkv__max_i32(s->reserved, s->committed + n_tokens);
    return blocks_for(m, want) - blocks_for(m, s->reserved);
}

/* The block that the next token falls into, or NULL at a block's start. */
static struct block_rec *tail_block(const pkv_blockmgr *m, const struct seq_rec *s)
{
    if (block_offset(m, s->committed) == 0) return NULL;
    return &blocks_of(m)[row_of(m, s)[block_index(m, s->committed)]];
}

/* Decide for every request what happens to its tail, and count. Limits have been checked. */
static struct call_plan plan_call(const pkv_blockmgr *m, const pkv_reserve_req *reqs,
                                  int32_t n_reqs, bool avoid_copies)
{
    struct call_plan plan = { 0, 0 };
    int64_t n_taken = 0; /* many requests could each want the whole pool */
    for (int32_t i = 0; i < n_reqs; i++) {
        if (reqs[i].n_tokens == 0) continue;
        struct seq_rec *s = seq_find(m, reqs[i].seq);
        struct block_rec *tail = tail_block(m, s);
        n_taken += new_blocks(m, s, reqs[i].n_tokens);
        s->action = TAIL_KEEP;
        if (!tail) continue;
        s->action = (uint8_t)choose_action(m, tail, block_offset(m, s->committed), avoid_copies);
        if (s->action == TAIL_COPY) tail->planned++, plan.n_copies++;
    }
    n_taken += plan.n_copies;
    plan.n_taken = (int32_t)(n_taken < INT32_MAX ? n_taken : INT32_MAX);
    for (int32_t i = 0; i < n_reqs && plan.n_copies > 0; i++) {
        struct block_rec *tail = tail_block(m, seq_find(m, reqs[i].seq));
        if (tail) tail->planned = 0;
    }
    return plan;
}

/* Number of the running batch call: a sequence that carries it was named before in this call. */
static uint32_t next_batch_no(const pkv_blockmgr *m)
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
    static const uint8_t rank[] = { [PKV_OK] = 9,
                                    [PKV_E_INVALID_ARG] = 0,
                                    [PKV_E_STALE] = 1,
                                    [PKV_E_LIMIT] = 2,
                                    [PKV_E_NEVER] = 3 };
    return rank[a] <= rank[b] ? a : b;
}

/* Everything that does not depend on what the pool holds. */
static pkv_status check_requests(const pkv_blockmgr *m, const pkv_reserve_req *reqs, int32_t n_reqs)
{
    pkv_status status = PKV_OK;
    if (n_reqs < 0 || (n_reqs > 0 && !reqs)) return PKV_E_INVALID_ARG;
    const uint32_t no = next_batch_no(m);
    for (int32_t i = 0; i < n_reqs; i++) {
        struct seq_rec *s = seq_find(m, reqs[i].seq);
        const int32_t n = reqs[i].n_tokens;
        if (n < 0 || (s && s->mark == no)) {
            status = PKV_E_INVALID_ARG;
        } else if (!s) {
            status = first_of(status, PKV_E_STALE);
        } else if (n > m->max_seq_tokens - s->committed) {
            status = first_of(status, PKV_E_LIMIT);
        } else if (blocks_for(m, s->committed + n) > m->n_blocks - 1) {
            status = first_of(status, PKV_E_NEVER);
        }
        if (s) s->mark = no;
    }
    return status;
}

/* The plan that will run, and the verdict about it. */
static pkv_status judge(const pkv_blockmgr *m, const pkv_reserve_req *reqs, int32_t n_reqs,
                        struct call_plan *plan)
{
    const int32_t room = m->n_free + cached_blocks(m);
    *plan = plan_call(m, reqs, n_reqs, false);
    if (plan->n_taken > room && plan->n_copies > 0) *plan = plan_call(m, reqs, n_reqs, true);
    return plan->n_taken <= room ? PKV_OK : PKV_E_NO_BLOCKS;
}

static void run_request(pkv_blockmgr *m, const pkv_reserve_req *req, pkv_block_work *work)
{
    struct seq_rec *s = seq_find(m, req->seq);
    const int32_t at = block_index(m, s->committed), first_new = blocks_for(m, s->reserved);
    const int32_t n_new = new_blocks(m, s, req->n_tokens);
    int32_t *row = row_of(m, s);
    if (s->action == TAIL_COPY) {
        const int32_t src = row[at];
        row[at] = pkv__take_for_work(m, work);
        work->copy[work->n_copy++] =
            (pkv_block_copy){ src, row[at], block_offset(m, s->committed), 0 };
    } else if (s->action == TAIL_TAKE_OVER) {
        pkv__node_detach(m, row[at]);
        m->withdrawn++;
    }
    for (int32_t i = 0; i < n_new; i++) row[first_new + i] = pkv__take_for_work(m, work);
    s->reserved = pkv__max_i32(s->reserved, s->committed + req->n_tokens);
}

pkv_status pkv_seq_reserve(pkv_blockmgr *mgr, const pkv_reserve_req *reqs, int32_t n_reqs,
                           pkv_block_work *work)
{
    struct call_plan plan;
    if (!mgr) return PKV_E_INVALID_ARG;
    pkv_status status = pkv__check_work(mgr, work);
    if (status == PKV_OK) status = check_requests(mgr, reqs, n_reqs);
    if (status == PKV_OK) status = judge(mgr, reqs, n_reqs, &plan);
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status, "reserve of %d sequences: %s", n_reqs,
                           pkv_status_text(status));
    if (plan.n_copies > work->copy_cap || pkv__count_zeros(mgr, plan.n_taken, 0) > work->zero_cap)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT,
                           "reserve: work has no room for %d copies and %d blocks to zero",
                           plan.n_copies, pkv__count_zeros(mgr, plan.n_taken, 0));
    work->n_copy = work->n_zero = 0;
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
    struct call_plan plan = { 0, 0 };
    if (!mgr || !out || (n_reqs > 0 && !reqs)) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    pkv_status verdict = check_requests(mgr, reqs, n_reqs);
    if (verdict == PKV_OK) verdict = judge(mgr, reqs, n_reqs, &plan);
    *out = (pkv_need){ .struct_size = sizeof *out,
                       .new_blocks = plan.n_taken,
                       .copies = plan.n_copies,
                       .verdict = verdict };
    if (verdict != PKV_OK) return PKV_OK;
    out->evictions = pkv__max_i32(0, plan.n_taken - mgr->n_free);
    out->zeros = pkv__count_zeros(mgr, plan.n_taken, 0);
    return PKV_OK;
}
