/* Random schedules: requests out of a small set whose results are known (plain_run), and everything
 * that may happen to them in an engine: when they come, who runs beside them, how small the pool
 * is, who is preempted, cancelled, too late, or in a pass that fails. */
#ifndef PKV_TESTS_SCHEDULE_RIG_H
#define PKV_TESTS_SCHEDULE_RIG_H

#include "plain_run.h"

#include "common/philox.h"
#include "model/engine_internal.h"

enum { SCHEDULES_PER_SET = 25, SET_REQUESTS = 32, SET_CONTEXT = 56, SCHEDULE_MAX = 14 };

/* A request and all that its pointers point at. */
typedef struct known {
    pkv_request request;
    int32_t ids[SET_CONTEXT], stop_ids[3];
    pkv_logit_bias bias[3];
    char stop_text[2][32];
    const char *stop_texts[2];
    bool is_computed;
    want want;
} known;

/* Requests of one model, KV type and level. */
typedef struct request_set {
    uint64_t number;
    pkv_dtype kv_dtype;
    pkv_isa isa;
    pkv_model *model;
    pkv_tokenizer *tok;
    plain plain;
    int32_t streams[3][SET_CONTEXT]; /* prompts begin like one of these */
    known known[SET_REQUESTS];
} request_set;

void set_open(request_set *set, uint64_t number);
void set_close(request_set *set);

/* What has been reached, over all schedules; a test that reaches less than all of it proves less
 * than it says. */
#define REACHED(X)                                                                                 \
    X(PREEMPT_SWAP), X(PREEMPT_RECOMPUTE), X(PREEMPT_PREFILL), X(PREEMPT_FORKED),                  \
        X(PREEMPT_BEAMS), X(PREEMPT_ONE_OF_MANY_LEFT), X(PREEMPT_TWICE), X(SWAP_FALLS_BACK),       \
        X(RESUME), X(WAIT_FOR_WATERMARK), X(WAIT_FOR_SEQS), X(HIT_PARTIAL), X(HIT_FULL),           \
        X(HIT_WITHIN_BLOCK), X(HIT_AGAIN), X(COPY_ON_WRITE), X(EVICTION), X(BUDGET_USED_UP),       \
        X(CANCEL_UNSEEN), X(CANCEL_AHEAD), X(CANCEL_WAITING), X(CANCEL_PREEMPTED),                 \
        X(CANCEL_PREFILL), X(CANCEL_DECODE), X(CANCEL_SWAPPED), X(CANCEL_BEAMS),                   \
        X(DEADLINE_AHEAD), X(DEADLINE_WAITING), X(DEADLINE_PREEMPTED), X(DEADLINE_PREFILL),        \
        X(DEADLINE_DECODE), X(DEADLINE_SWAPPED), X(STEP_FAILED), X(FAILED_BYSTANDER), X(END_STOP), \
        X(END_LENGTH), X(END_CONTEXT), X(END_STOP_TEXT), X(PLACE_MAX), X(PLACE_REQUEST),           \
        X(PLACE_POW2), X(BEAMS_DONE), X(SAMPLES_DONE), X(DESTROYED_RUNNING), X(DESTROYED_WAITING), \
        X(DESTROYED_SWAPPED), X(THREADS)
#define AS_ENUM(name) REACHED_##name
enum { REACHED(AS_ENUM), REACHED_COUNT };
extern const char *const reached_names[REACHED_COUNT];

/* Schedule `seed` of the set seed / SCHEDULES_PER_SET. */
void schedule_run(request_set *set, uint64_t seed, int64_t reached[REACHED_COUNT]);

#endif
