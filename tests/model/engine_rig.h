/* What tests of the engine share: a small model, an engine whose clock, memory and log are the
 * test's, and everything that its requests were told, checked while it comes in.
 *
 *     engine_rig r;
 *     pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;      pool, budgets, preemption, ...
 *     rig_open(&r, rig_tiny_model(seed), NULL, &cfg);      the rig fills model, clock, log, alloc
 *     got *g = rig_submit(&r, &request);                   any number, also between steps
 *     rig_run(&r);                                         or rig_step(&r), one by one
 *     assert_int_equal(g->sample[0].n, 10);                ids, text, logprobs, finish, result
 *     rig_close(&r);                                       invariants, no block, no byte left
 *
 * What is asserted without being asked for: every event belongs to a sample that goes on; positions
 * rise by one; an end is the last event of its sample, and the last event of the request, and only
 * it, has the result, which agrees with the events; no step allocates; after every step
 * (check_every = 0: only at the end) pkv_engine_check holds; nothing runs for ever (max_steps).
 *
 * To compare schedules: rig_lone gives what the request gets alone in a roomy engine, got_same
 * demands the same ids, texts, logprobs (bits), finishes and scores. Use one pkv_request for both;
 * arrival, deadline, on_token and ctx do not matter to rig_lone. */
#ifndef PKV_TESTS_ENGINE_RIG_H
#define PKV_TESTS_ENGINE_RIG_H

#include "model_test.h"
#include "pagedkv/engine.h"

enum { RIG_MAX_SAMPLES = 16, RIG_MAX_REQUESTS = 1024 };

/* What one sample, or one rank of beams, was told. */
typedef struct got_sample {
    int32_t n;         /* tokens */
    int32_t *ids;      /* [n] */
    float *logprobs;   /* [n] */
    pkv_logprob *tops; /* [n][20] */
    int32_t *n_tops;   /* [n] */
    char *text;        /* [n_text], with a final zero */
    int32_t n_text, cap, cap_text;
    pkv_finish finish; /* NONE: it goes on */
    float score;
} got_sample;

typedef struct got {
    struct engine_rig *rig;
    pkv_request_id id;
    int32_t n_prompt; /* of ids; 0: of text, not known */
    int32_t n_samples, n_events, n_ended;
    bool beams;
    got_sample sample[RIG_MAX_SAMPLES];
    bool has_result;
    pkv_request_result result;
    /* Called for every event after it was noted; may submit and cancel. NULL: nobody. */
    void (*also)(struct got *g, const pkv_token_event *event);
} got;

typedef struct engine_rig {
    pkv_model *model; /* closed by rig_close */
    pkv_tokenizer *tok;
    pkv_engine *engine;
    pkv_engine_config cfg;  /* as it was created */
    pkv_step_report report; /* of the last step */
    pkv_status status;      /* of the last step; rig_run demands OK */
    counted_memory memory;
    last_log log;
    uint64_t now_ns;  /* the engine's clock */
    uint64_t tick_ns; /* it moves on by so much after each step; 1 ms */
    int32_t check_every, max_steps;
    int64_t n_steps;
    int64_t n_preempted;  /* sum over reports */
    bool submits_in_step; /* a callback submits: steps allocate then */
    got *requests[RIG_MAX_REQUESTS];
    int32_t n_requests;
} engine_rig;

/* A random model, 97 tokens, 2 layers, context 512; no BOS, no EOS. */
pkv_model *rig_tiny_model(uint64_t seed);
/* stories260K from one of its files ("stories260K.bin", "", ".gguf" as they are called), and its
 * tokenizer; skipped where the data is missing. */
pkv_model *rig_stories(const char *file);
pkv_tokenizer *rig_stories_tokenizer(void);

/* Takes model and tokenizer (may be NULL) over. Of cfg only what the test sets counts. */
void rig_open(engine_rig *r, pkv_model *model, pkv_tokenizer *tok, const pkv_engine_config *cfg);
/* Engine, requests, model. Expects every request to have ended unless rig_drop was called. */
void rig_close(engine_rig *r);
/* Destroy the engine now, whatever goes on. */
void rig_drop(engine_rig *r);

/* Hand a request in and expect success; on_token and ctx are the rig's. What it gets lives until
 * rig_close. */
got *rig_submit(engine_rig *r, const pkv_request *request);
/* Expect a refusal whose log line contains `says`. */
void rig_refused(engine_rig *r, const pkv_request *request, pkv_status want, const char *says);
/* One step; is anything unfinished? */
bool rig_step(engine_rig *r);
void rig_run(engine_rig *r);
pkv_engine_stats rig_stats(engine_rig *r);

/* A request for ids, greedy; change what you like. */
pkv_request rig_request(const int32_t *ids, int32_t n, int32_t max_new);
/* What it gets alone, with room for all, in one chunk, on the model and dtype of `r`. Freed with
 * r's own. */
got *rig_lone(engine_rig *r, const pkv_request *request);
void got_same(const char *what, const got *is, const got *want);
void got_ids(const got *g, int32_t sample, const int32_t *want, int32_t n);

/* n ids below vocab. */
void rig_draw(uint64_t seed, int32_t vocab, int32_t *out, int32_t n);
/* PKV_SEED or 1, printed. */
uint64_t rig_seed(void);

#endif
