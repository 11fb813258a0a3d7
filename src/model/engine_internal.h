/* Inside the engine: what a request is, who waits where, and the arrays of a step.
 *
 *   any thread     submit: request_check.c, request.c --> job --inbox--+
 *   stepping       +--------------------------------------------------+
 *                  v
 *     arrivals (heap) -> waiting -> running <-> swapped     engine_run.c, request_queues.c
 *                           ^         |
 *                           +---------+ recompute           sched.c, sched_preempt.c
 *     rows of the step -> pass -> commit                    engine_run.c
 *     logits -> tokens, events, forks, ends                 engine_samples.c, engine_beams.c
 *
 * A job computes its prompt in one sequence, the trunk. Then the trunk becomes the sequences of its
 * branches: one branch is one sample, or one live beam. After preemption by recompute it is the
 * same again: prompt by the trunk, then each branch computes the output that it already has.
 *
 * Threads: all belongs to the stepping thread but what is as it was created, the inbox, and the
 * figures under their lock. */
#ifndef PKV_MODEL_ENGINE_INTERNAL_H
#define PKV_MODEL_ENGINE_INTERNAL_H

#include "common/threads.h"
#include "model/beam.h"
#include "model/forward.h"
#include "model/inbox.h"
#include "model/metrics.h"
#include "model/output.h"
#include "model/placement.h"
#include "model/sampler.h"
#include "pagedkv/model.h"

#include <pthread.h>

/* ---------------------------------------------------------------- a request */

/* A sequence of the placement. */
typedef struct pkv__run {
    int32_t seq;        /* -1: none */
    int32_t n_computed; /* tokens whose K and V lie in it */
    int32_t n_reached;  /* the most that n_computed ever was: below it, work is done again */
} pkv__run;

/* One sample, or one live beam. */
typedef struct pkv__branch {
    pkv__run run;     /* none while the trunk computes */
    int32_t n_output; /* tokens drawn; the last is not computed yet */
    int32_t *output;  /* [max_new]; branch 0's lies behind the prompt. Beams: NULL */
    int32_t drawn;    /* in this step: its place in pkv_engine.drawn; -1: nothing */
    bool ended;
    uint64_t last_ns;  /* of the last token */
    uint64_t xorshift; /* state of llama2.c's generator */
    pkv__output text;
} pkv__branch;

typedef enum pkv__job_state {
    PKV__JOB_AHEAD,   /* arrives in the future; in the heap of arrivals */
    PKV__JOB_WAITING, /* in the list of its name, like the two below */
    PKV__JOB_RUNNING,
    PKV__JOB_SWAPPED
} pkv__job_state;

enum { PKV__BY_ARRIVAL, PKV__BY_DEADLINE, PKV__N_ORDERS };

typedef struct pkv__job {
    pkv_request_id id;
    pkv__job_state state;
    struct pkv__job *prev, *next; /* in the list */
    struct pkv__job *chain;       /* in the table by id */
    int32_t place[PKV__N_ORDERS]; /* in the heaps; -1: not in it */
    int64_t order;                /* of arrival: who arrived later is preempted first */
    size_t bytes;                 /* of this block of memory, arrays included */

    /* as it was submitted */
    int32_t *prompt; /* [n_prompt], then the output of branch 0 */
    int32_t n_prompt, max_new;
    pkv_finish at_max; /* LENGTH, or CONTEXT where that is what cut max_new */
    pkv_sampling sampling;
    int32_t *end_ids; /* [n_end_ids] stop ids and, unless ignored, EOS */
    int32_t n_end_ids;
    pkv__stop_texts stops;
    uint64_t deadline_ns; /* 0: none */
    void (*on_token)(void *ctx, const pkv_token_event *event);
    void *ctx;

    /* how far it is */
    bool was_admitted;
    bool has_begun; /* first tokens are drawn */
    int32_t n_live; /* branches that go on; all of them before has_begun */
    pkv__run trunk;
    int32_t longest; /* tokens of the longest ended sample, and its time per token */
    double tpot_ms;
    pkv_request_result result;
    pkv__beams *beams; /* NULL: samples. Else branch i is live beam i, those beyond have ended, and
                          n_live stays the width */
    int32_t n_return;  /* with beams */
    int32_t n_branches;
    pkv__branch branch[]; /* [n_branches] */
} pkv__job;

typedef struct pkv__jobs {
    pkv__job *head, *tail;
    int32_t n;
} pkv__jobs;

typedef struct pkv__job_heap {
    pkv__job **at; /* at[0] is first in order */
    int32_t n;
} pkv__job_heap;

/* ---------------------------------------------------------------- a step */

/* New tokens [first, first + n) of one sequence. */
typedef struct pkv__row {
    pkv__job *job;
    int32_t branch; /* -1: the trunk */
    int32_t first, n;
    bool wants_logits;
    int32_t logit_row; /* of the step; -1 without */
} pkv__row;

/* One job's rows of a step lie side by side. */
typedef struct pkv__share {
    pkv__job *job;
    int32_t first, n;
} pkv__share;

typedef enum pkv__delay_kind {
    PKV__DELAY_TTFT,
    PKV__DELAY_TPOT,
    PKV__DELAY_ITL,
    PKV__DELAY_LATENCY,
    PKV__DELAY_QUEUE,
    PKV__N_DELAYS
} pkv__delay_kind;

typedef struct pkv__delay {
    pkv__delay_kind kind;
    uint64_t ns;
} pkv__delay;

/* What a token costs, for bytes_moved and flop. */
typedef struct pkv__costs {
    double weight_bytes;            /* per step */
    double token_flop, logits_flop; /* products of a token's layers, of a row of logits */
    double key_flop;                /* attention of one token to one key, all layers */
} pkv__costs;

struct pkv_engine {
    pkv_allocator alloc;
    pkv_logger log;
    void *arrays; /* all arrays of this struct lie in it */
    size_t arrays_bytes;

    /* as it was created */
    const pkv__weights *weights;
    const pkv_tokenizer *tokenizer;
    pkv_placement kind;
    pkv_preempt preempt;
    int32_t max_seqs, max_batch_tokens, chunk_tokens, max_context, watermark;
    int32_t n_blocks; /* usable */
    int32_t n_eos, eos[PKV_MODEL_MAX_EOS + 1];
    double slo_ttft_ms, slo_tpot_ms;
    uint64_t (*clock_ns)(void *ctx);
    void *clock_ctx;
    void (*wake)(void *ctx); /* NULL: nobody waits */
    void *wake_ctx;

    struct pkv__threads *threads; /* of products and backend; NULL: one */
    pkv_backend *backend;
    pkv__placement *place;
    pkv__forward *forward;
    pkv__sampler *sampler;
    pkv__inbox *inbox;
    /* pkv__forward_run; tests put one here that fails. */
    pkv_status (*pass)(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k_views,
                       pkv_kv_view *v_views, float *logits);

    /* who is where */
    pkv__jobs waiting, running, swapped; /* each in order of arrival */
    pkv__job_heap heap[PKV__N_ORDERS];
    pkv__job **table; /* [table_mask + 1] chains, by id */
    uint32_t table_mask;
    int32_t n_jobs;            /* in the table: all that are not finished */
    int32_t n_seqs;            /* live branches of running and swapped jobs */
    pkv_request_id last_taken; /* from the inbox */
    int64_t n_ordered;         /* gives pkv__job.order */

    /* of the step under way */
    bool in_step; /* no callback may begin another */
    uint64_t now_ns;
    int32_t n_rows, n_shares, n_tokens, n_logit_rows, n_prefill, n_preempted;
    pkv__row *rows;                          /* [max_seqs] */
    pkv__share *shares;                      /* [max_seqs] */
    int32_t *seqs, *counts, *children;       /* [max_seqs] */
    int32_t *tokens, *positions;             /* [max_batch_tokens] */
    int64_t *slots;                          /* [max_batch_tokens] */
    int32_t *q_indptr, *kv_len, *logit_rows; /* [max_seqs + 1], [max_seqs] x 2 */
    int32_t *tables;                         /* [max_seqs][table_width] */
    float *logits;                           /* [max_seqs][vocab] */
    char *piece; /* [2 * piece_room]: of a token, and of what is flushed behind it */
    int32_t piece_room;
    uint64_t *seen;      /* a bit per block, for pkv_engine_check */
    pkv__sampled *drawn; /* [max_seqs] */
    int32_t n_drawn;

    /* figures: `total` and `delays` under the lock; `step` is what this step adds */
    pthread_mutex_t lock;
    pkv_engine_stats total;
    pkv__delays delays[PKV__N_DELAYS];
    double slots_used, slots_filled; /* sums over steps */
    int64_t n_row_steps;             /* rows over steps */
    pkv_engine_stats step;
    pkv__delay *new_delays; /* [5 * max_seqs]: each kind once per sequence */
    int32_t n_new_delays;
    uint64_t step_began_ns, first_step_ns;
    pkv__costs costs;
};

/* Seconds of the system's clock, for the times of parts. */
double pkv__engine_seconds(void);
static inline uint64_t pkv__engine_now(const pkv_engine *e)
{
    return e->clock_ns(e->clock_ctx);
}

/* ---------------------------------------------------------------- request_check.c, request.c */

/* All that can be said about a request before it is copied: as pkv_engine_submit. `n_prompt` and
 * `ids` are its prompt, encoded. Any thread. */
pkv_status pkv__request_check(const pkv_engine *e, const pkv_request *r);
pkv_status pkv__request_check_prompt(const pkv_engine *e, const pkv_request *r, const int32_t *ids,
                                     int32_t n_prompt);
/* Sequences of a request; most tokens of one sample. */
int32_t pkv__request_branches(const pkv_request *r);
int32_t pkv__request_max_new(const pkv_engine *e, int32_t n_prompt, int32_t max_new);
/* PKV_E_NO_MEMORY. Any thread. */
pkv_status pkv__job_create(const pkv_engine *e, const pkv_request *r, const int32_t *ids,
                           int32_t n_prompt, pkv__job **out);
void pkv__job_free(const pkv_engine *e, pkv__job *job);

/* ---------------------------------------------------------------- request_queues.c */

void pkv__jobs_append(pkv__jobs *list, pkv__job *job);
/* Before the first of a later order. O(those of a later order). */
void pkv__jobs_insert(pkv__jobs *list, pkv__job *job);
void pkv__jobs_remove(pkv__jobs *list, pkv__job *job);
void pkv__heap_put(pkv_engine *e, int order, pkv__job *job);
void pkv__heap_drop(pkv_engine *e, int order, pkv__job *job); /* one that is not in it, too */
void pkv__table_put(pkv_engine *e, pkv__job *job);
void pkv__table_drop(pkv_engine *e, pkv__job *job);
pkv__job *pkv__table_find(const pkv_engine *e, pkv_request_id id); /* NULL: not there */

/* ---------------------------------------------------------------- sched.c, sched_preempt.c */

/* Fill rows and shares: who computes what in this step. Room for all of it is reserved. */
void pkv__sched_rows(pkv_engine *e);
/* Give the room of a running job up; it is swapped or waits afterwards. */
void pkv__sched_preempt(pkv_engine *e, pkv__job *job);
/* As above, always by recompute; of a swapped one the copy is given up, too. */
void pkv__sched_drop(pkv_engine *e, pkv__job *job);
/* The sequences that a job has open now. */
int32_t pkv__job_seqs(const pkv__job *job, int32_t *seqs);
/* Tokens of the trunk: the prompt, and what the only branch has drawn. */
int32_t pkv__trunk_tokens(const pkv__job *job);
/* The trunk of `job` has computed its tokens: its sequence becomes those of the branches that go
 * on. PKV_E_NO_BLOCKS: there is no room, nothing has changed. */
pkv_status pkv__trunk_split(pkv_engine *e, pkv__job *job);
/* Close its sequence, if it has one. */
void pkv__run_close(pkv_engine *e, pkv__run *run);

/* ---------------------------------------------------------------- engine_samples.c, _beams.c */

/* Tokens [first, first + n) of a row's sequence. */
void pkv__row_tokens(const pkv__row *row, int32_t *out);
/* After a pass: draw a token for every branch whose logits are there, beams excepted. */
void pkv__samples_draw(pkv_engine *e);
/* Then, job by job: tell the listener, split and close sequences. The job may be gone afterwards.
 */
void pkv__job_advance(pkv_engine *e, const pkv__share *share);
void pkv__beams_advance(pkv_engine *e, const pkv__share *share);
/* End all that goes on, from any state, with an event each; the job is gone afterwards. */
void pkv__job_end(pkv_engine *e, pkv__job *job, pkv_finish finish);
void pkv__beams_end(pkv_engine *e, pkv__job *job, pkv_finish finish);
/* An event with nothing in it; hand one out. The request's last one gets the result. */
pkv_token_event pkv__event_of(const pkv__job *job, int32_t sample);
void pkv__job_tell(pkv_engine *e, pkv__job *job, pkv_token_event *event, bool last);
/* Take a job whose last event is out from wherever it is, and free it. */
void pkv__job_retire(pkv_engine *e, pkv__job *job);

/* ---------------------------------------------------------------- engine_stats.c */

/* Takes the lock's resources; costs, names. PKV_E_NO_MEMORY. */
pkv_status pkv__stats_init(pkv_engine *e, const pkv_model_info *info, const pkv_engine_config *cfg);
void pkv__stats_delay(pkv_engine *e, pkv__delay_kind kind, uint64_t from_ns, uint64_t to_ns);
/* A row was computed, of which the tokens below n_reached for another time; the step was, with the
 * pool as it is before anybody leaves it; a request has ended. */
void pkv__stats_row(pkv_engine *e, const pkv__row *row, int32_t n_reached);
void pkv__stats_step(pkv_engine *e, const pkv__place_usage *usage);
void pkv__stats_ended(pkv_engine *e, const pkv__job *job, pkv_finish finish);
/* Add the step to the total. */
void pkv__stats_publish(pkv_engine *e);

#endif
