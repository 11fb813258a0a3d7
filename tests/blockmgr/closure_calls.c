/* The repertoire. Every call keeps the world in step with what the manager answered, and proves
 * what can be proved about one call alone: that `need` says what reserve does, and that what waits
 * for steps (PKV_E_AGAIN) succeeds when they have retired. */
#include "closure.h"

#include <stdio.h>

static pkv_block_work *new_work(void)
{
    static int32_t zero[MAX_GROUPS * MAX_TOKENS * MAX_SEQS];
    static pkv_block_copy copy[MAX_GROUPS * MAX_SEQS];
    static pkv_block_work work;
    work =
        (pkv_block_work){ sizeof work, zero, PKV_ARRAY_LEN(zero), 0, copy, PKV_ARRAY_LEN(copy), 0 };
    return &work;
}

static struct seq_rec *rec_of(int s)
{
    return &seqs_of(mgr())[s];
}

static bool runs(int s)
{
    return scratch.ns[s] >= 0 && rec_of(s)->swap == PKV_SEQ_RUNNING;
}

/* Launched slots that a sequence has lost are not committed any more. */
static void forget_launches(int s, int from)
{
    for (int k = 0; k < MAX_STEPS; k++)
        if (scratch.launched[k][s] > from) scratch.launched[k][s] = (uint8_t)from;
}

/* ---- steps */
static void drop_step(int k)
{
    for (; k + 1 < MAX_STEPS; k++) {
        scratch.step[k] = scratch.step[k + 1];
        memcpy(scratch.launched[k], scratch.launched[k + 1], sizeof scratch.launched[k]);
        memcpy(scratch.waiting[k], scratch.waiting[k + 1], sizeof scratch.waiting[k]);
        memcpy(scratch.reads[k], scratch.reads[k + 1], sizeof scratch.reads[k]);
    }
    scratch.step[k] = 0;
    memset(scratch.launched[k], 0, sizeof scratch.launched[k]);
    bytes_aborted(&scratch, k);
}

static pkv_status do_begin(void)
{
    pkv_step step;
    const pkv_status status = pkv_step_begin(mgr(), &step);
    if (status != PKV_OK) return status;
    int k = 0;
    while (scratch.step[k] != 0) k++;
    scratch.step[k] = scratch.newest_step = step.v;
    bytes_launched(&scratch, k);
    return status;
}

static pkv_status do_end(int k, bool abort)
{
    const pkv_step step = { scratch.step[k] };
    if (abort) bytes_aborted(&scratch, k);
    else bytes_retired(&scratch, k);
    const pkv_status status = abort ? pkv_step_abort(mgr(), step) : pkv_step_retire(mgr(), step);
    if (status != PKV_OK) die("an open step that does not end");
    drop_step(k);
    for (int s = 0; s < opt.seqs && abort; s++) {
        if (scratch.ns[s] < 0) continue;
        scratch.n_tokens[s] = (uint8_t)pkv__min_i32(scratch.n_tokens[s], rec_of(s)->committed);
        forget_launches(s, rec_of(s)->reserved);
    }
    return status;
}

static uint64_t waits_for; /* step that `need` names */

void check_again(const struct call *c)
{
    const bool reserve = c->kind == CALL_RESERVE || c->kind == CALL_RESERVE_SOME;
    const uint64_t last = reserve ? waits_for : UINT64_MAX;
    if (c->kind == CALL_SUSPEND) return; /* may find too few host blocks then */
    if (last == 0) die("PKV_E_AGAIN without a step to wait for");
    while (scratch.step[0] != 0 && scratch.step[0] <= last) (void)do_end(0, false);
    const pkv_status status = make_call(c);
    if (status == PKV_OK || (c->kind == CALL_RESUME && status == PKV_E_LIMIT)) return;
    die("PKV_E_AGAIN, and the steps did not help");
}

/* ---- sequences */
static pkv_status do_open(const struct call *c)
{
    pkv_seq seq;
    const pkv_status status = pkv_seq_open(mgr(), namespaces[c->a], &seq);
    if (status != PKV_OK) return status;
    const uint32_t s = (uint32_t)seq.v;
    scratch.seq[s] = seq;
    scratch.ns[s] = c->a, scratch.n_tokens[s] = 0;
    forget_launches((int)s, 0);
    return status;
}

static pkv_status reserve(const pkv_reserve_req *reqs, int n)
{
    pkv_block_work *work = new_work();
    pkv_need need = PKV_NEED_INIT;
    int32_t first_ids[MAX_SEQS][MAX_GROUPS][MAX_TOKENS];
    const uint64_t taken = mgr()->taken_blocks, evicted = mgr()->evicted_blocks;
    for (int s = 0; s < opt.seqs; s++)
        for (int g = 0; g < mgr()->n_groups; g++)
            memcpy(first_ids[s][g], row_at(mgr(), g, s),
                   (size_t)mgr()->groups[g].row_width * sizeof(int32_t));
    if (pkv_blockmgr_need(mgr(), reqs, n, &need) != PKV_OK) die("no answer to need");
    const pkv_status status = pkv_seq_reserve(mgr(), reqs, n, work);
    if (need.verdict != status) die("need and reserve disagree");
    waits_for = need.step.v;
    if (status != PKV_OK) return status;
    if (mgr()->taken_blocks - taken != (uint64_t)need.new_blocks || need.copies != work->n_copy ||
        mgr()->evicted_blocks - evicted != (uint64_t)need.evictions)
        die("reserve did something else than need said");
    bytes_copied(&scratch, work);
    for (int s = 0; s < opt.seqs; s++) /* launches wrote to the old block */
        for (int g = 0; g < mgr()->n_groups && scratch.ns[s] >= 0; g++)
            for (int i = 0; i < mgr()->groups[g].row_width; i++)
                if (first_ids[s][g][i] != 0 && first_ids[s][g][i] != row_at(mgr(), g, s)[i])
                    forget_launches(s, 0);
    return status;
}

static pkv_status do_reserve(const struct call *c)
{
    const pkv_reserve_req one = { scratch.seq[c->a], c->b };
    return reserve(&one, 1);
}

/* One token for each of up to four sequences, in the order given; -1: no more. */
static pkv_status do_reserve_some(const struct call *c)
{
    const int8_t named[] = { c->a, c->b, c->c, c->d };
    pkv_reserve_req reqs[4];
    int n = 0;
    for (int i = 0; i < 4 && named[i] >= 0; i++)
        reqs[n++] = (pkv_reserve_req){ scratch.seq[named[i]], 1 };
    return reserve(reqs, n);
}

static pkv_status do_commit(const struct call *c)
{
    const int s = c->a, n = c->b, from = scratch.n_tokens[s];
    const int room = rec_of(s)->reserved - rec_of(s)->committed;
    int32_t ids[MAX_TOKENS];
    for (int i = 0; i < n; i++) ids[i] = c->c;
    const pkv_tokens tokens = { ids, n, NULL, 0 };
    const pkv_step step = { c->d < 0 ? 0 : scratch.step[c->d] };
    if (n <= room && runs(s)) {
        for (int i = from; i < from + n; i++) scratch.tokens[s][i] = (uint8_t)c->c;
        bytes_committed(&scratch, s, from, from + n, c->d);
    }
    const pkv_status status = pkv_seq_commit(mgr(), scratch.seq[s], &tokens, step);
    if (status == PKV_OK) scratch.n_tokens[s] = (uint8_t)(from + n);
    return status;
}

static pkv_status do_truncate(const struct call *c)
{
    const pkv_status status = pkv_seq_truncate(mgr(), scratch.seq[c->a], c->b);
    if (status != PKV_OK) return status;
    if (c->b < scratch.n_tokens[c->a]) scratch.n_tokens[c->a] = (uint8_t)c->b;
    forget_launches(c->a, c->b);
    return status;
}

static pkv_status do_fork(const struct call *c)
{
    pkv_seq child;
    const int s = c->a;
    const pkv_status status = pkv_seq_fork(mgr(), scratch.seq[s], &child, 1);
    if (status != PKV_OK) return status;
    const uint32_t k = (uint32_t)child.v;
    scratch.seq[k] = child;
    scratch.ns[k] = scratch.ns[s];
    scratch.n_tokens[k] = scratch.n_tokens[s];
    memcpy(scratch.tokens[k], scratch.tokens[s], sizeof scratch.tokens[s]);
    forget_launches(s, scratch.n_tokens[s]);
    forget_launches((int)k, 0);
    return status;
}

static pkv_status do_close(const struct call *c)
{
    const pkv_status status = pkv_seq_close(mgr(), scratch.seq[c->a]);
    if (status != PKV_OK) return status;
    scratch.ns[c->a] = -1, scratch.n_tokens[c->a] = 0;
    forget_launches(c->a, 0);
    return status;
}

/* A prompt of n tokens, all equal but the last. */
static pkv_status do_match(const struct call *c)
{
    const int s = c->a, n = c->b;
    int32_t ids[MAX_TOKENS] = { 0 };
    int32_t surplus[MAX_GROUPS][MAX_TOKENS];
    pkv_match match = PKV_MATCH_INIT, probe = PKV_MATCH_INIT;
    pkv_block_work *work = new_work();
    ids[n - 1] = c->c;
    const pkv_tokens prompt = { ids, n, NULL, 0 };
    for (int g = 0; g < mgr()->n_groups; g++)
        memcpy(surplus[g], row_at(mgr(), g, s),
               (size_t)mgr()->groups[g].row_width * sizeof(int32_t));
    if (pkv_blockmgr_probe(mgr(), namespaces[scratch.ns[s]], &prompt, &probe) != PKV_OK)
        die("no answer to probe");
    const pkv_status status = pkv_seq_match(mgr(), scratch.seq[s], &prompt, n, c->d, work, &match);
    if (status != PKV_OK) return status;
    if (match.claimed != probe.claimed && match.stop_reason[0] != PKV_STOP_ROOM)
        die("probe and match disagree");
    bytes_copied(&scratch, work);
    for (int i = 0; i < match.claimed; i++) scratch.tokens[s][i] = (uint8_t)ids[i];
    scratch.n_tokens[s] = (uint8_t)match.claimed;
    forget_launches(s, 0);
    if (scratch.step[0] == 0 || opt.in_order) return status;
    for (int g = 0; g < mgr()->n_groups; g++)
        for (int i = 0; i < mgr()->groups[g].row_width; i++)
            for (int k = 0; k < mgr()->groups[g].row_width; k++)
                if (surplus[g][i] != 0 && surplus[g][i] == row_at(mgr(), g, s)[k])
                    die("a match that took what it gave back, with a step open");
    return status;
}

/* ---- holds and swaps */
static pkv_status do_hold(const struct call *c)
{
    pkv_hold hold;
    const pkv_status status = pkv_hold_open(mgr(), scratch.seq[c->a], c->b, scratch.now, &hold);
    if (status != PKV_OK) return status;
    scratch.hold[(uint32_t)hold.v] = hold;
    bytes_held(&scratch, (int)(uint32_t)hold.v, c->a, c->b);
    return status;
}

static pkv_status do_post(const struct call *c)
{
    if (scratch.swap[c->a].n > 0) bytes_swap_ended(&scratch, c->a, c->b);
    pkv_hold_post(mgr(), scratch.hold[c->a], c->b ? PKV_OK : PKV_E_IO);
    return PKV_OK;
}

static pkv_status do_poll(const struct call *c)
{
    pkv_hold_result done[MAX_HOLDS];
    int32_t n;
    scratch.now += (uint64_t)c->a;
    return pkv_blockmgr_poll(mgr(), scratch.now, done, MAX_HOLDS, &n);
}

static pkv_status do_reclaim(const struct call *c)
{
    if (scratch.swap[c->a].n > 0 && holds_of(mgr())[c->a].life == HOLD_OVERDUE)
        bytes_swap_ended(&scratch, c->a, false);
    return pkv_hold_reclaim(mgr(), scratch.hold[c->a]);
}

static pkv_status do_swap(const struct call *c)
{
    const bool out = c->kind == CALL_SUSPEND;
    pkv_seq seqs[MAX_SEQS];
    pkv_swap_copy copies[MAX_BLOCKS];
    pkv_hold hold = { 0 };
    int32_t n = 0, n_copies = 0;
    for (int s = 0; s < opt.seqs; s++) {
        const bool all =
            scratch.ns[s] >= 0 && rec_of(s)->swap == (out ? PKV_SEQ_RUNNING : PKV_SEQ_SUSPENDED);
        if (c->a < 0 ? all : s == c->a) seqs[n++] = scratch.seq[s];
    }
    const pkv_status status =
        out ? pkv_seqs_suspend(mgr(), seqs, n, scratch.now, copies, MAX_BLOCKS, &n_copies, &hold)
            : pkv_seqs_resume(mgr(), seqs, n, scratch.now, copies, MAX_BLOCKS, &n_copies, &hold);
    if (status != PKV_OK) return status;
    for (int s = 0; s < opt.seqs; s++)
        if (scratch.ns[s] >= 0) forget_launches(s, rec_of(s)->reserved);
    if (n_copies == 0) return status;
    scratch.hold[(uint32_t)hold.v] = hold;
    bytes_swap_planned(&scratch, (int)(uint32_t)hold.v, out ? HOLD_SUSPEND : HOLD_RESUME, copies,
                       n_copies);
    return status;
}

static pkv_status do_snapshot(const struct call *c)
{
    pkv_block_work *work = new_work();
    const pkv_status status = pkv_seq_snapshot(mgr(), scratch.seq[c->a], work);
    if (status == PKV_OK) bytes_copied(&scratch, work);
    return status;
}

static pkv_status do_evict(void)
{
    int32_t n;
    return pkv_blockmgr_evict(mgr(), 1, &n);
}

pkv_status make_call(const struct call *c)
{
    switch ((enum call_kind)c->kind) {
    case CALL_OPEN:
        return do_open(c);
    case CALL_RESERVE:
        return do_reserve(c);
    case CALL_RESERVE_SOME:
        return do_reserve_some(c);
    case CALL_COMMIT:
        return do_commit(c);
    case CALL_TRUNCATE:
        return do_truncate(c);
    case CALL_FORK:
        return do_fork(c);
    case CALL_CLOSE:
        return do_close(c);
    case CALL_MATCH:
        return do_match(c);
    case CALL_BEGIN:
        return do_begin();
    case CALL_RETIRE:
    case CALL_ABORT:
        return do_end(c->a, c->kind == CALL_ABORT);
    case CALL_HOLD:
        return do_hold(c);
    case CALL_POST:
        return do_post(c);
    case CALL_POLL:
        return do_poll(c);
    case CALL_RECLAIM:
        return do_reclaim(c);
    case CALL_SUSPEND:
    case CALL_RESUME:
        return do_swap(c);
    case CALL_SNAPSHOT:
        return do_snapshot(c);
    case CALL_RETAIN:
        return pkv_seq_retain(mgr(), scratch.seq[c->a], 0, rec_of(c->a)->committed, c->b);
    case CALL_DECAY:
        return pkv_blockmgr_decay(mgr());
    case CALL_EVICT:
        return do_evict();
    case CALL_EPOCH:
        return pkv_blockmgr_new_epoch(mgr());
    }
    return PKV_E_INVALID_ARG;
}

/* ---- which calls a state gets */
static struct call *list;
static int n_listed;

static void offer(enum call_kind kind, int a, int b, int c, int d)
{
    if (n_listed == MAX_CALLS) die("too many calls");
    list[n_listed++] = (struct call){ (int8_t)kind, (int8_t)a, (int8_t)b, (int8_t)c, (int8_t)d };
}

static void list_commits(int s)
{
    const struct seq_rec *rec = rec_of(s);
    const int room = rec->reserved - rec->committed;
    for (int v = 0; v < opt.vocab; v++) {
        for (int step = -1; step < MAX_STEPS; step++) {
            if (step >= 0 && scratch.step[step] == 0) continue;
            const int most = step < 0 ? room : scratch.launched[step][s] - rec->committed;
            if (step < 0 || most > 0) offer(CALL_COMMIT, s, 1, v, step);
            if (most > 1) offer(CALL_COMMIT, s, most, v, step);
        }
    }
}

static void list_of_running(int s)
{
    const struct seq_rec *rec = rec_of(s);
    const int T = opt.block_tokens, longest = T * opt.max_blocks;
    offer(CALL_RESERVE, s, 1, 0, 0);
    if (T > 1) offer(CALL_RESERVE, s, T, 0, 0);
    list_commits(s);
    for (int n = 0; n <= rec->reserved; n++) offer(CALL_TRUNCATE, s, n, 0, 0);
    offer(CALL_FORK, s, 0, 0, 0);
    for (int n = 1; n <= longest && rec->committed == 0; n++) {
        for (int v = 0; v < opt.vocab; v++) {
            offer(CALL_MATCH, s, n, v, 0);
            offer(CALL_MATCH, s, n, v, n);
        }
    }
    for (int n = 1; n <= rec->settled && opt.holds > 0; n++) offer(CALL_HOLD, s, n, 0, 0);
    if (mgr()->states) offer(CALL_SNAPSHOT, s, 0, 0, 0);
    if (!opt.policy || rec->committed == 0) return;
    offer(CALL_RETAIN, s, 5, 0, 0);
    offer(CALL_RETAIN, s, 1, 0, 0);
}

static void list_of_holds(void)
{
    bool any = false;
    for (int i = 0; i < mgr()->max_holds; i++) {
        const struct hold_rec *h = &holds_of(mgr())[i];
        const uint64_t posted = h->word & 0xff; /* 1: nothing yet */
        if (h->life == HOLD_FREE) continue;
        any = true;
        if (h->life == HOLD_RUNNING && posted == 1) {
            offer(CALL_POST, i, true, 0, 0);
            offer(CALL_POST, i, false, 0, 0);
        }
        offer(CALL_RECLAIM, i, 0, 0, 0);
    }
    if (!any) return;
    offer(CALL_POLL, 0, 0, 0, 0);
    offer(CALL_POLL, 1, 0, 0, 0);
}

static void list_of_steps(void)
{
    if (opt.steps == 0) return;
    if (scratch.step[opt.steps - 1] == 0) offer(CALL_BEGIN, 0, 0, 0, 0);
    for (int k = 0; k < opt.steps && scratch.step[k] != 0; k++) {
        offer(CALL_RETIRE, k, 0, 0, 0);
        offer(CALL_ABORT, k, 0, 0, 0);
    }
}

/* In every order, so that the repertoire does not depend on which sequence has which index: pairs,
 * and all three of three. */
static void list_batches(void)
{
    int some[MAX_SEQS] = { 0 }, n = 0;
    for (int s = 0; s < opt.seqs; s++)
        if (runs(s)) some[n++] = s;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            if (j == i) continue;
            offer(CALL_RESERVE_SOME, some[i], some[j], -1, -1);
            if (n == 3) offer(CALL_RESERVE_SOME, some[i], some[j], some[3 - i - j], -1);
        }
    }
}

int list_calls(struct call *calls)
{
    int running = 0, suspended = 0;
    list = calls, n_listed = 0;
    for (int ns = 0; ns < opt.namespaces; ns++) offer(CALL_OPEN, ns, 0, 0, 0);
    for (int s = 0; s < opt.seqs; s++) {
        if (scratch.ns[s] < 0) continue;
        if (runs(s)) list_of_running(s);
        offer(CALL_CLOSE, s, 0, 0, 0);
        running += runs(s), suspended += rec_of(s)->swap == PKV_SEQ_SUSPENDED;
        if (opt.host > 0) offer(runs(s) ? CALL_SUSPEND : CALL_RESUME, s, 0, 0, 0);
    }
    list_batches();
    if (opt.host > 0 && running > 1) offer(CALL_SUSPEND, -1, 0, 0, 0);
    if (opt.host > 0 && suspended > 1) offer(CALL_RESUME, -1, 0, 0, 0);
    list_of_steps();
    list_of_holds();
    if (!opt.policy) return n_listed;
    offer(CALL_DECAY, 0, 0, 0, 0);
    offer(CALL_EVICT, 0, 0, 0, 0);
    offer(CALL_EPOCH, 0, 0, 0, 0);
    return n_listed;
}

void print_call(const struct call *c)
{
    static const char *const names[] = {
        [CALL_OPEN] = "open(namespace %d)",
        [CALL_RESERVE] = "reserve(seq %d, %d)",
        [CALL_RESERVE_SOME] = "reserve(1 for each of seq %d, %d, %d, %d; -1: no more)",
        [CALL_COMMIT] = "commit(seq %d, %d times token %d, open step %d)",
        [CALL_TRUNCATE] = "truncate(seq %d, %d)",
        [CALL_FORK] = "fork(seq %d)",
        [CALL_CLOSE] = "close(seq %d)",
        [CALL_MATCH] = "match(seq %d, prompt of %d ending with %d, upto %d)",
        [CALL_BEGIN] = "step_begin()",
        [CALL_RETIRE] = "step_retire(open step %d)",
        [CALL_ABORT] = "step_abort(open step %d)",
        [CALL_HOLD] = "hold_open(seq %d, %d, deadline now)",
        [CALL_POST] = "hold_post(hold %d, good %d)",
        [CALL_POLL] = "poll(%d later)",
        [CALL_RECLAIM] = "hold_reclaim(hold %d)",
        [CALL_SUSPEND] = "suspend(seq %d; -1: all running)",
        [CALL_RESUME] = "resume(seq %d; -1: all suspended)",
        [CALL_SNAPSHOT] = "snapshot(seq %d)",
        [CALL_RETAIN] = "retain(seq %d, all, priority %d)",
        [CALL_DECAY] = "decay()",
        [CALL_EVICT] = "evict(1)",
        [CALL_EPOCH] = "new_epoch()",
    };
    fprintf(stderr, names[c->kind], c->a, c->b, c->c, c->d);
    fputc('\n', stderr);
}
