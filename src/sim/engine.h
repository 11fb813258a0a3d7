/* State of a run, shared by the two ways to advance it. */
#ifndef PKV_SIM_ENGINE_H
#define PKV_SIM_ENGINE_H

#include "sim/sim_internal.h"

typedef enum pkv__req_state {
    PKV__REQ_WAITING, /* or not arrived yet */
    PKV__REQ_RUNNING,
    PKV__REQ_FINISHED,
    PKV__REQ_TOO_LONG
} pkv__req_state;

typedef struct pkv__sim_req {
    int64_t prev, next;     /* running list, -1: none */
    int64_t step_zero;      /* while running: generated = n_steps - step_zero */
    int64_t first_token_ns; /* -1: not yet */
    int64_t finish_ns;
    int32_t generated; /* while not running */
    uint8_t state;     /* pkv__req_state */
    bool was_preempted;
} pkv__sim_req;

typedef struct pkv__sim_engine {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    int64_t n;
    const pkv__sim_policy_ops *ops;
    void *policy;
    pkv__sim_req *req; /* [n] */

    int64_t now_ns, n_steps;
    int64_t next_arrival; /* reqs before it have arrived */
    int64_t next_admit;   /* of the arrived and never admitted, the first */
    int64_t n_arrived;    /* their number, without the rejected */
    int64_t *preempted;   /* [max_num_seqs] stack, the top is the head of the queue */
    int32_t n_preempted;
    int64_t head, tail; /* running list in order of admission, which is order of arrival; -1 */
    int32_t n_running;
    int64_t tokens; /* resident, of all running */
    bool queued;    /* somebody waits after this step's admission */
    int64_t *fresh; /* [max_num_seqs] admitted in this step */
    int32_t n_fresh;
    int64_t *due; /* [max_num_seqs] leap: running requests with a block boundary now, in order */
    int32_t n_due;
    pkv__sim_heap events; /* leap only */

    pkv__sim_account account;
    int64_t n_finished, n_too_long, first_too_long;
    int64_t n_admissions, n_preemptions, n_preempted_requests;
    int64_t generated_tokens, recomputed_tokens, max_queue;
    int32_t max_batch;
} pkv__sim_engine;

pkv_status pkv__engine_run(pkv__sim_engine *e);
/* One step of all running requests (naive), or as many as nothing happens in (leap). At least one
 * request runs; arrivals are taken in and admission is done. */
pkv_status pkv__engine_step(pkv__sim_engine *e);
pkv_status pkv__engine_leap(pkv__sim_engine *e);

int64_t pkv__engine_n_waiting(const pkv__sim_engine *e);
int32_t pkv__engine_resident(const pkv__sim_engine *e, int64_t r); /* u, while running */
void pkv__engine_take_in(pkv__sim_engine *e);
pkv_status pkv__engine_admit(pkv__sim_engine *e);
/* Room for one more token of r; preempts the latest arrivals, in the end r itself. */
pkv_status pkv__engine_make_room(pkv__sim_engine *e, int64_t r);
/* The first step of those just admitted lasts step_ns. */
void pkv__engine_note_first_tokens(pkv__sim_engine *e, int64_t step_ns);
pkv_status pkv__engine_finish(pkv__sim_engine *e, int64_t r);
/* The pool with `tokens` resident tokens. PKV_E_CORRUPT unless the parts sum to C. */
pkv_status pkv__engine_sample(pkv__sim_engine *e, int64_t tokens, pkv__sim_sample *sample);
/* Account a stretch and move the clock to its end. */
pkv_status pkv__engine_pass(pkv__sim_engine *e, const pkv__sim_stretch *s,
                            const pkv__sim_sample *first, const pkv__sim_sample *last);

#endif
