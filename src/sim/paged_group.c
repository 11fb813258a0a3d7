/* Several sequences per request. The prompt is computed once; before the first token is written the
 * one sequence is forked, and the last block of the prompt, if it is not full, is copied by all but
 * one. Beams are drawn anew before every further token:
 *
 *   step before   b0   b1   b2   b3       b1 ended, b0 and b2 go on twice or once:
 *   this step     b0   b0'  b2   b3       closed: b1; forked: b0
 *
 * Closing comes before forking, so there are never more than n_seqs open. */
#include "common/philox.h"
#include "sim/gen.h"
#include "sim/paged.h"

#define ONE_PPM 1000000u

pkv_status pkv__paged_fork_all(pkv__paged *p, pkv__paged_run *run)
{
    pkv__paged_seq *seqs = pkv__paged_seqs_of(p, run);
    pkv_seq children[PKV__PAGED_MAX_SEQS];
    const pkv_status status = pkv_seq_fork(p->mgr, seqs[0].seq, children, p->n_seqs - 1);
    if (status != PKV_OK) return status;
    for (int32_t k = 1; k < p->n_seqs; k++) {
        seqs[k].seq = children[k - 1];
        if (p->cfg->check) pkv__shadow_fork(&p->shadow, seqs[0].shadow, seqs[k].shadow);
    }
    run->n_open = p->n_seqs;
    run->reserved = run->committed;
    run->n_blocks += pkv__paged_refresh(p);
    return PKV_OK;
}

/* parents[k]: which beam of the step before beam k continues. The draws of a step depend on
 * request and step alone, so a request that is computed again draws the same. */
static void draw_parents(const pkv__paged *p, const pkv__paged_run *run, int32_t u,
                         int32_t *parents)
{
    pkv__rng rng;
    pkv__rng_init(&rng, p->cfg->seed, PKV__STREAM_BEAM, (uint32_t)run->r);
    rng.ctr[1] = (uint32_t)(u - p->reqs[run->r].prompt_tokens);
    for (int32_t k = 0; k < p->n_seqs; k++) {
        parents[k] = k;
        if (pkv__rng_below(&rng, ONE_PPM) >= (uint32_t)p->cfg->policy.switch_ppm) continue;
        const int32_t other = (int32_t)pkv__rng_below(&rng, (uint32_t)p->n_seqs - 1);
        parents[k] = other < k ? other : other + 1;
    }
}

/* Close the beams that nobody continues; free_shadows[] are their numbers in the model. */
static pkv_status close_losers(pkv__paged *p, const pkv__paged_run *run, const int32_t *parents,
                               int32_t *free_shadows)
{
    const pkv__paged_seq *seqs = pkv__paged_seqs_of(p, run);
    bool goes_on[PKV__PAGED_MAX_SEQS] = { false };
    int32_t n_closed = 0;
    for (int32_t k = 0; k < p->n_seqs; k++) goes_on[parents[k]] = true;
    for (int32_t j = 0; j < p->n_seqs; j++) {
        if (goes_on[j]) continue;
        const pkv_status status = pkv_seq_close(p->mgr, seqs[j].seq);
        if (status != PKV_OK) return status;
        if (p->cfg->check) pkv__shadow_close(&p->shadow, seqs[j].shadow);
        free_shadows[n_closed++] = seqs[j].shadow;
    }
    return PKV_OK;
}

/* A beam keeps its own sequence, or is the first to take over its parent's; next[] are those. The
 * others are left to be forked. */
static void hand_over(const pkv__paged_seq *seqs, const int32_t *parents, int32_t n,
                      pkv__paged_seq *next, bool *done)
{
    bool given[PKV__PAGED_MAX_SEQS] = { false };
    for (int32_t k = 0; k < n; k++) {
        done[k] = given[k] = parents[k] == k;
        if (done[k]) next[k] = seqs[k];
    }
    for (int32_t k = 0; k < n; k++) {
        if (done[k] || given[parents[k]]) continue;
        done[k] = given[parents[k]] = true;
        next[k] = seqs[parents[k]];
    }
}

pkv_status pkv__paged_switch_beams(pkv__paged *p, pkv__paged_run *run, int32_t u)
{
    pkv__paged_seq *seqs = pkv__paged_seqs_of(p, run), next[PKV__PAGED_MAX_SEQS];
    int32_t parents[PKV__PAGED_MAX_SEQS], free_shadows[PKV__PAGED_MAX_SEQS], n_forked = 0;
    bool done[PKV__PAGED_MAX_SEQS];
    pkv_status status = pkv__paged_commit(p, run, u);
    if (status != PKV_OK) return status;
    draw_parents(p, run, u, parents);
    status = close_losers(p, run, parents, free_shadows);
    if (status != PKV_OK) return status;
    hand_over(seqs, parents, p->n_seqs, next, done);
    for (int32_t k = 0; k < p->n_seqs; k++) {
        if (done[k]) continue;
        const pkv__paged_seq *parent = &seqs[parents[k]];
        status = pkv_seq_fork(p->mgr, parent->seq, &next[k].seq, 1);
        if (status != PKV_OK) return status;
        next[k].shadow = free_shadows[n_forked++];
        if (p->cfg->check) pkv__shadow_fork(&p->shadow, parent->shadow, next[k].shadow);
    }
    for (int32_t k = 0; k < p->n_seqs; k++) seqs[k] = next[k];
    run->n_blocks += pkv__paged_refresh(p);
    return PKV_OK;
}
