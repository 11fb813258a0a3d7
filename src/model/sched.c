/* Which sequences compute how many tokens in a step.
 *
 *   1. swapped jobs come back, oldest first
 *   2. running jobs in order of arrival: one token for each decoding branch, chunks of the rest
 *      with what the budget leaves when every decoding branch has its token
 *   3. waiting jobs, first come first served, if nobody is swapped out and nobody was preempted
 *
 * Room is reserved job by job. Where there is none, the latest arrival among the running is
 * preempted: it is the last of the list and so has no rows yet, or it is the very job that asks. So
 * the oldest one always gets on, and a decoding branch never gives back what it has computed for
 * nothing: tokens that are drawn stay drawn. */
#include "model/engine_internal.h"

/* ---------------------------------------------------------------- what is left of a job */

int32_t pkv__trunk_tokens(const pkv__job *job)
{
    const bool alone = !job->beams && job->n_live == 1 && !job->branch[0].ended;
    return job->n_prompt + (alone ? job->branch[0].n_output : 0);
}

static bool in_trunk(const pkv__job *job)
{
    return job->trunk.seq >= 0;
}

/* Tokens that a branch with a sequence has not computed, at least 1. */
static int32_t left_of(const pkv__job *job, const pkv__branch *b)
{
    return job->n_prompt + b->n_output - b->run.n_computed;
}

/* Beams take their next token together: not before every one has caught up with its output. */
static bool all_caught_up(const pkv__job *job)
{
    for (int32_t i = 0; i < job->n_branches; i++)
        if (job->branch[i].run.seq >= 0 && left_of(job, &job->branch[i]) > 1) return false;
    return true;
}

static int32_t count_decodes(const pkv__job *job)
{
    int32_t n = 0;
    if (in_trunk(job) || (job->beams && !all_caught_up(job))) return 0;
    for (int32_t i = 0; i < job->n_branches; i++)
        n += job->branch[i].run.seq >= 0 && left_of(job, &job->branch[i]) == 1;
    return n;
}

/* Decoding branches whose next token needs a block. */
static int32_t count_new_blocks(const pkv_engine *e)
{
    int32_t n = 0;
    for (const pkv__job *job = e->running.head; job; job = job->next)
        for (int32_t i = 0; i < job->n_branches && !in_trunk(job); i++)
            n += job->branch[i].run.seq >= 0 &&
                 job->branch[i].run.n_computed % e->place->block_tokens == 0;
    return n;
}

/* Blocks beyond those of its computed tokens, for the next tokens of one that comes back. */
static int32_t blocks_to_go_on(const pkv_engine *e, const pkv__run *run, int32_t more)
{
    const int32_t tokens = e->place->block_tokens, n = pkv__min_i32(more, e->chunk_tokens);
    if (run->seq < 0) return 0;
    return pkv__ceil_div_i32(run->n_computed + n, tokens) -
           pkv__ceil_div_i32(run->n_computed, tokens);
}

static int32_t count_own_blocks(const pkv_engine *e, const pkv__job *job)
{
    int32_t n = blocks_to_go_on(e, &job->trunk, pkv__trunk_tokens(job) - job->trunk.n_computed);
    for (int32_t i = 0; i < job->n_branches; i++)
        n += blocks_to_go_on(e, &job->branch[i].run, left_of(job, &job->branch[i]));
    return n;
}

/* ---------------------------------------------------------------- rows */

static void add_row(pkv_engine *e, pkv__share *share, int32_t branch, int32_t n, bool wants_logits)
{
    pkv__job *job = share->job;
    const pkv__run *run = branch < 0 ? &job->trunk : &job->branch[branch].run;
    e->rows[share->first + share->n++] = (pkv__row){
        .job = job, .branch = branch, .first = run->n_computed, .n = n, .wants_logits = wants_logits
    };
}

/* What a running job would compute now, with `left` tokens for chunks, behind the rows that are
 * there. Returns how many of them it takes. */
static int32_t plan_rows(pkv_engine *e, pkv__share *share, int32_t left)
{
    pkv__job *job = share->job;
    const int32_t before = left;
    if (in_trunk(job)) {
        const int32_t more = pkv__trunk_tokens(job) - job->trunk.n_computed;
        const int32_t n = pkv__min_i32(pkv__min_i32(more, e->chunk_tokens), left);
        /* A trunk that is split among branches with output has nothing to draw. */
        const bool draws = !job->has_begun || pkv__trunk_tokens(job) > job->n_prompt;
        if (n > 0) add_row(e, share, -1, n, n == more && draws);
        return n;
    }
    const bool together = !job->beams || all_caught_up(job);
    for (int32_t i = 0; i < job->n_branches; i++) {
        if (job->branch[i].run.seq < 0) continue;
        const int32_t more = left_of(job, &job->branch[i]);
        if (more == 1) {
            if (together) add_row(e, share, i, 1, true);
            continue;
        }
        const int32_t most = more - (job->beams ? 1 : 0);
        const int32_t n = pkv__min_i32(pkv__min_i32(most, e->chunk_tokens), left);
        if (n > 0) add_row(e, share, i, n, n == more);
        left -= n;
    }
    return before - left;
}

static void keep_rows(pkv_engine *e, const pkv__share *share)
{
    if (share->n == 0) return;
    e->n_rows += share->n;
    e->shares[e->n_shares++] = *share;
}

/* A status that the scheduler has no answer to, for this job alone. */
static void give_up(pkv_engine *e, pkv__job *job, const char *what, pkv_status status)
{
    pkv__log(&e->log, PKV_LOG_ERROR, "request %llu cannot %s: %s", (unsigned long long)job->id,
             what, pkv_status_name(status));
    pkv__job_end(e, job, PKV_FINISH_ERROR);
}

/* ---------------------------------------------------------------- 1. swapped */

static void resume_swapped(pkv_engine *e)
{
    for (pkv__job *job; (job = e->swapped.head);) {
        /* Who comes back to room that the running ones want in this very step, or that does not do
         * for a token of his own, would be put out again at once. */
        const int32_t spare =
            e->running.n == 0 ? 0 : e->watermark + count_new_blocks(e) + count_own_blocks(e, job);
        const int32_t n = pkv__job_seqs(job, e->seqs);
        const pkv_status status = e->place->ops->resume(e->place, e->seqs, n, spare);
        if (status == PKV_E_NO_BLOCKS || status == PKV_E_AGAIN) {
            if (e->running.n > 0) return;
            /* What swapped jobs share with each other may have stayed in the pool. */
            pkv__sched_drop(e, e->swapped.tail);
            continue;
        }
        if (status != PKV_OK) {
            give_up(e, job, "be swapped in", status);
            continue;
        }
        pkv__jobs_remove(&e->swapped, job);
        job->state = PKV__JOB_RUNNING;
        pkv__jobs_insert(&e->running, job);
    }
}

/* ---------------------------------------------------------------- 2. running */

/* Room for the rows of a share. PKV_E_NO_BLOCKS: the job itself was put out; others: it cannot go
 * on. */
static pkv_status make_room(pkv_engine *e, pkv__job *job, const pkv__share *share)
{
    for (;;) {
        if (share->n == 0) return PKV_OK;
        for (int32_t i = 0; i < share->n; i++) {
            const pkv__row *row = &e->rows[share->first + i];
            e->seqs[i] = row->branch < 0 ? job->trunk.seq : job->branch[row->branch].run.seq;
            e->counts[i] = row->n;
        }
        const pkv_status status = e->place->ops->reserve(e->place, e->seqs, e->counts, share->n);
        if (status != PKV_E_NO_BLOCKS && status != PKV_E_AGAIN) return status;
        pkv__job *victim = e->running.tail;
        if (e->running.n == 1 && e->swapped.n > 0) {
            pkv__sched_drop(e, e->swapped.tail); /* see resume_swapped */
            continue;
        }
        pkv__sched_preempt(e, victim);
        if (victim == job) return PKV_E_NO_BLOCKS;
    }
}

static int32_t schedule_running(pkv_engine *e)
{
    int32_t left = e->max_batch_tokens;
    for (const pkv__job *job = e->running.head; job; job = job->next) left -= count_decodes(job);
    for (pkv__job *job = e->running.head, *next; job; job = next) {
        pkv__share share = { .job = job, .first = e->n_rows };
        const int32_t taken = plan_rows(e, &share, left);
        const pkv_status status = make_room(e, job, &share);
        if (status == PKV_E_NO_BLOCKS) break; /* it was the last */
        next = job->next;
        if (status != PKV_OK) {
            give_up(e, job, "go on", status);
            continue;
        }
        left -= taken;
        keep_rows(e, &share);
    }
    return left;
}

/* ---------------------------------------------------------------- 3. waiting */

static pkv_status admit(pkv_engine *e, pkv__job *job)
{
    const int32_t n = pkv__trunk_tokens(job);
    const int32_t longest = job->n_prompt + job->max_new - 1;
    const int32_t watermark = e->running.n == 0 ? 0 : e->watermark;
    int32_t seq, claimed;
    const pkv_status status = e->place->ops->admit(
        e->place, job->prompt, n, pkv__max_i32(longest, n), job->n_live, watermark, &seq, &claimed);
    if (status != PKV_OK) return status;
    job->trunk.seq = seq;
    job->trunk.n_computed = claimed;
    if (n > job->n_prompt)
        job->trunk.n_reached = pkv__max_i32(job->trunk.n_reached, job->branch[0].run.n_reached);
    /* Of the prompt, what it has neither computed nor found before, also at a later admission. */
    const int32_t found = pkv__min_i32(claimed, job->n_prompt) - job->trunk.n_reached;
    e->step.n_cached_tokens += pkv__max_i32(found, 0);
    e->step.n_prompt_tokens += pkv__max_i32(found, 0);
    job->trunk.n_reached = pkv__max_i32(job->trunk.n_reached, claimed);
    pkv__jobs_remove(&e->waiting, job);
    job->state = PKV__JOB_RUNNING;
    pkv__jobs_insert(&e->running, job);
    e->n_seqs += job->n_live;
    if (job->was_admitted) return PKV_OK;
    job->was_admitted = true;
    job->result.admitted_ns = e->now_ns;
    job->result.n_cached = claimed;
    pkv__inbox_left(e->inbox);
    pkv__stats_delay(e, PKV__DELAY_QUEUE, job->result.arrival_ns, e->now_ns);
    return PKV_OK;
}

static void admit_waiting(pkv_engine *e, int32_t left)
{
    for (pkv__job *job; left > 0 && (job = e->waiting.head);) {
        if (e->n_seqs + job->n_live > e->max_seqs) return;
        const pkv_status status = admit(e, job);
        if (status == PKV_E_NO_BLOCKS || status == PKV_E_AGAIN) return;
        /* Regions of samples that have ended are kept with those that go on. */
        if (status == PKV_E_LIMIT && e->running.n > 0) return;
        if (status != PKV_OK) {
            give_up(e, job, "be admitted", status);
            continue;
        }
        pkv__share share = { .job = job, .first = e->n_rows };
        left -= plan_rows(e, &share, left); /* room came with the admission */
        keep_rows(e, &share);
    }
}

void pkv__sched_rows(pkv_engine *e)
{
    e->n_rows = e->n_shares = e->n_preempted = 0;
    resume_swapped(e);
    const int32_t left = schedule_running(e);
    if (e->swapped.n == 0 && e->n_preempted == 0) admit_waiting(e, left);
}
