/* Reserve: room for the next tokens of a batch, all or nothing.
 *
 * A call is planned without changing anything but scratch, judged, and then run by the same
 * decisions. `planned` of a block counts the copies away from it that earlier requests of the call
 * have planned: those references go, so a later sibling may find itself alone. */
#include "blockmgr_internal.h"

/* What one request needs. */
enum tail_action { TAIL_KEEP, TAIL_COPY, TAIL_TAKE_OVER };
struct request_plan {
    enum tail_action tail;
    int32_t tail_block; /* block that the next token falls into; NONE at a block's start */
    int32_t first_new;  /* row index of the first block to take */
    int32_t n_new;
};

struct call_plan {
    int32_t n_taken, n_copies;
};

/* May the next token be written where it falls? Where not: copy, or, if copies are to be avoided
 * and nobody else reads the block or continues its content, take the block over. */
static enum tail_action tail_action(const pkv_blockmgr *m, int32_t block, int32_t offset,
                                    bool avoid_copies)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    const struct node *node = rec->node != NONE ? &nodes_of(m)[rec->node] : NULL;
    const bool alone = rec->ref - rec->planned == 1;
    if (alone && (!node || node->n_tokens <= offset)) return TAIL_KEEP;
    return avoid_copies && alone && node->first_child == NONE ? TAIL_TAKE_OVER : TAIL_COPY;
}

/* Plan one request: n_tokens > 0, limits checked. Counts a copy into `planned`. */
static struct request_plan plan_request(const pkv_blockmgr *m, const struct seq_rec *s,
                                        int32_t n_tokens, bool avoid_copies)
{
    const int32_t offset = block_offset(m, s->committed);
    const int32_t want = pkv__max_i32(s->reserved, s->committed + n_tokens);
    struct request_plan p = { TAIL_KEEP, NONE, blocks_for(m, s->reserved), 0 };
    p.n_new = blocks_for(m, want) - p.first_new;
    if (offset == 0) return p;
    p.tail_block = row_of(m, s)[block_index(m, s->committed)];
    p.tail = tail_action(m, p.tail_block, offset, avoid_copies);
    if (p.tail == TAIL_COPY) blocks_of(m)[p.tail_block].planned++;
    return p;
}

/* Take the planned copies back out of the scratch. */
static void unplan(const pkv_blockmgr *m, const pkv_reserve_req *reqs, int32_t n_reqs)
{
    for (int32_t i = 0; i < n_reqs; i++) {
        const struct seq_rec *s = seq_find(m, reqs[i].seq);
        if (reqs[i].n_tokens > 0 && block_offset(m, s->committed) != 0)
            blocks_of(m)[row_of(m, s)[block_index(m, s->committed)]].planned = 0;
    }
}

static struct call_plan plan_call(const pkv_blockmgr *m, const pkv_reserve_req *reqs,
                                  int32_t n_reqs, bool avoid_copies)
{
    struct call_plan plan = { 0, 0 };
    int64_t n_taken = 0; /* many requests could each want the whole pool */
    for (int32_t i = 0; i < n_reqs; i++) {
        if (reqs[i].n_tokens == 0) continue;
        const struct seq_rec *s = seq_find(m, reqs[i].seq);
        const struct request_plan p = plan_request(m, s, reqs[i].n_tokens, avoid_copies);
        plan.n_copies += p.tail == TAIL_COPY;
        n_taken += p.n_new + (p.tail == TAIL_COPY);
    }
    plan.n_taken = (int32_t)(n_taken < INT32_MAX ? n_taken : INT32_MAX);
    if (plan.n_copies > 0) unplan(m, reqs, n_reqs);
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
                        struct call_plan *plan, bool *avoid_copies)
{
    const int32_t room = m->n_free + cached_blocks(m);
    *avoid_copies = false;
    *plan = plan_call(m, reqs, n_reqs, false);
    if (plan->n_taken <= room) return PKV_OK;
    if (plan->n_copies > 0) {
        *avoid_copies = true;
        *plan = plan_call(m, reqs, n_reqs, true);
    }
    return plan->n_taken <= room ? PKV_OK : PKV_E_NO_BLOCKS;
}

static void run_request(pkv_blockmgr *m, const pkv_reserve_req *req, bool avoid_copies,
                        pkv_block_work *work)
{
    struct seq_rec *s = seq_find(m, req->seq);
    const struct request_plan p = plan_request(m, s, req->n_tokens, avoid_copies);
    int32_t *row = row_of(m, s);
    if (p.tail == TAIL_COPY) {
        const int32_t idx = block_index(m, s->committed);
        row[idx] = pkv__take_for_work(m, work);
        work->copy[work->n_copy++] =
            (pkv_block_copy){ p.tail_block, row[idx], block_offset(m, s->committed), 0 };
    } else if (p.tail == TAIL_TAKE_OVER) {
        pkv__node_detach(m, p.tail_block);
        m->withdrawn++;
    }
    for (int32_t i = 0; i < p.n_new; i++) row[p.first_new + i] = pkv__take_for_work(m, work);
    s->reserved = pkv__max_i32(s->reserved, s->committed + req->n_tokens);
}

/* The sources lose the references that the copies replaced, after every block has been taken, so
 * that none of them could be handed out by this call. */
static void release_sources(pkv_blockmgr *m, const pkv_block_work *work)
{
    for (int32_t i = 0; i < work->n_copy; i++) {
        blocks_of(m)[work->copy[i].src].planned = 0;
        pkv__block_unref(m, work->copy[i].src);
    }
}

pkv_status pkv_seq_reserve(pkv_blockmgr *mgr, const pkv_reserve_req *reqs, int32_t n_reqs,
                           pkv_block_work *work)
{
    struct call_plan plan;
    bool avoid_copies;
    if (!mgr) return PKV_E_INVALID_ARG;
    pkv_status status = pkv__check_work(mgr, work);
    if (status == PKV_OK) status = check_requests(mgr, reqs, n_reqs);
    if (status == PKV_OK) status = judge(mgr, reqs, n_reqs, &plan, &avoid_copies);
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status, "reserve of %d sequences: %s", n_reqs,
                           pkv_status_text(status));
    if (plan.n_copies > work->copy_cap || pkv__count_zeros(mgr, plan.n_taken, 0) > work->zero_cap)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT,
                           "reserve: work has no room for %d copies and %d blocks to zero",
                           plan.n_copies, pkv__count_zeros(mgr, plan.n_taken, 0));
    work->n_copy = work->n_zero = 0;
    for (int32_t i = 0; i < n_reqs; i++)
        if (reqs[i].n_tokens > 0) run_request(mgr, &reqs[i], avoid_copies, work);
    release_sources(mgr, work);
    mgr->copies += (uint64_t)work->n_copy;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_blockmgr_need(const pkv_blockmgr *mgr, const pkv_reserve_req *reqs, int32_t n_reqs,
                             pkv_need *out)
{
    struct call_plan plan = { 0, 0 };
    bool avoid_copies;
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    pkv_status verdict = check_requests(mgr, reqs, n_reqs);
    if (verdict == PKV_OK) verdict = judge(mgr, reqs, n_reqs, &plan, &avoid_copies);
    *out = (pkv_need){ .struct_size = sizeof *out,
                       .new_blocks = plan.n_taken,
                       .copies = plan.n_copies,
                       .evictions = pkv__max_i32(0, plan.n_taken - mgr->n_free),
                       .verdict = verdict };
    if (verdict == PKV_OK) out->zeros = pkv__count_zeros(mgr, plan.n_taken, 0);
    return PKV_OK;
}
