/* Fuzz target: the engine. Bytes choose a configuration, then operations: submit, cancel, step,
 * time that passes, memory that fails. Beyond not crashing: statuses are those of the contract, a
 * refusal changes nothing, events have their order, every request ends, the engine's own check
 * holds, a step allocates nothing, and what one request got is what it gets alone, bit for bit. */
#include "fuzz.h"

#include "pagedkv/engine.h"

#include <math.h>
#include <string.h>

enum {
    VOCAB = 17,
    CONTEXT = 32,
    MAX_REQUESTS = 24,
    MAX_SAMPLES = 5,
    MAX_IDS = 24,
    MAX_STEPS = 4000
};

typedef struct input {
    const uint8_t *at, *end;
} input;

static uint8_t byte_of(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* One of the first n. */
static int32_t pick(input *in, int32_t n)
{
    return byte_of(in) % n;
}

/* ---------------------------------------------------------------- the world */

typedef struct memory {
    long n_live, n_allocs, fail_in; /* fail_in: < 0: never */
} memory;

static void *take(void *ctx, size_t n, size_t align)
{
    memory *m = ctx;
    if (m->fail_in >= 0 && m->fail_in-- == 0) return NULL;
    m->n_allocs++;
    m->n_live++;
    if (align < sizeof(void *)) align = sizeof(void *);
    return aligned_alloc(align, (n + align - 1) / align * align);
}

static void give(void *ctx, void *ptr, size_t n)
{
    (void)n;
    ((memory *)ctx)->n_live--;
    free(ptr);
}

/* What a request got. */
typedef struct answer {
    struct world *world;
    pkv_request_id id;
    int32_t n_samples, n_ended, n_ids[MAX_SAMPLES];
    int32_t ids[MAX_SAMPLES][CONTEXT];
    float logprobs[MAX_SAMPLES][CONTEXT], scores[MAX_SAMPLES];
    pkv_finish finish[MAX_SAMPLES];
    bool done, beams;
    uint8_t act; /* in the callback: 1 cancels itself, 2 asks for figures, 4 hands a request in */
} answer;

/* What is asked for; plain, so that it can be asked for again. */
typedef struct question {
    pkv_request req;
    int32_t ids[MAX_IDS], stop_ids[2];
    pkv_logit_bias bias[2];
} question;

typedef struct world {
    pkv_engine *engine;
    uint64_t now_ns;
    memory memory;
    question asked[MAX_REQUESTS];
    answer answers[MAX_REQUESTS];
    int32_t n;
    int32_t n_steps;
    bool submits_inside;
} world;

static uint64_t clock_of(void *ctx)
{
    return ((const world *)ctx)->now_ns;
}

static void check_line(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    (void)ctx;
    FUZZ_REQUIRE(text[0]);
    for (; *text; text++) FUZZ_REQUIRE((unsigned char)*text >= ' ');
}

static pkv_model *the_model(void)
{
    static pkv_model *model; /* made once; the fuzzer's own process */
    pkv_model_shape shape = PKV_MODEL_SHAPE_INIT;
    if (model) return model;
    shape.vocab = VOCAB;
    shape.hidden = 16;
    shape.n_layers = 1;
    shape.n_heads = 2;
    shape.n_kv_heads = 1;
    shape.head_dim = 8;
    shape.ffn = 8;
    shape.context = CONTEXT;
    FUZZ_REQUIRE(pkv_model_random(&shape, 5, PKV_F32, NULL, NULL, &model) == PKV_OK);
    return model;
}

/* ---------------------------------------------------------------- events */

static void submit_copy(world *w, const answer *of);

static void note(answer *a, const pkv_token_event *e)
{
    const int32_t s = e->sample;
    FUZZ_REQUIRE(!a->done && s >= 0 && s < a->n_samples && a->finish[s] == PKV_FINISH_NONE);
    FUZZ_REQUIRE(e->token >= -1 && e->token < VOCAB && e->n_text == 0);
    FUZZ_REQUIRE(e->token >= 0 || e->finish != PKV_FINISH_NONE);
    if (a->id == 0) a->id = e->request;
    FUZZ_REQUIRE(a->id == e->request);
    if (e->token >= 0) {
        FUZZ_REQUIRE(a->n_ids[s] < CONTEXT);
        a->ids[s][a->n_ids[s]] = e->token;
        a->logprobs[s][a->n_ids[s]++] = e->logprob;
    }
    a->finish[s] = e->finish;
    a->scores[s] = e->score;
    a->n_ended += e->finish != PKV_FINISH_NONE;
    FUZZ_REQUIRE((e->result != NULL) == (a->n_ended == a->n_samples));
    a->done = e->result != NULL;
}

static void on_token(void *ctx, const pkv_token_event *e)
{
    answer *a = ctx;
    pkv_engine_stats stats = PKV_ENGINE_STATS_INIT;
    note(a, e);
    if (a->act & 1)
        FUZZ_REQUIRE(pkv_engine_cancel(a->world->engine, e->request) != PKV_E_INVALID_ARG);
    if (a->act & 2) FUZZ_REQUIRE(pkv_engine_get_stats(a->world->engine, &stats) == PKV_OK);
    if ((a->act & 4) && a->done) submit_copy(a->world, a);
}

/* ---------------------------------------------------------------- requests */

static const float odd_floats[] = { 0, 1, 0.5F, 2, 1e-30F, 1e30F, -1, NAN, INFINITY, 0.9F };

static float odd_float(input *in, float usual)
{
    const uint8_t b = byte_of(in);
    return b < 128 ? usual : odd_floats[b % (sizeof(odd_floats) / sizeof(odd_floats[0]))];
}

static void read_sampling(input *in, question *q)
{
    pkv_sampling *s = &q->req.sampling;
    static const float temperatures[] = { 0, 1, 0.7F, 5 };
    const uint8_t odd = byte_of(in);
    s->temperature = temperatures[pick(in, 4)];
    s->seed = byte_of(in);
    s->n_logprobs = pick(in, 5) - 1;
    if (odd & 1) s->top_k = (int8_t)byte_of(in);
    if (odd & 2) s->top_p = odd_float(in, 0.9F);
    if (odd & 4) s->min_p = odd_float(in, 0.1F);
    if (odd & 8) s->repeat_penalty = odd_float(in, 1.2F);
    if (odd & 16) s->presence_penalty = odd_float(in, 0.5F);
    if (odd & 32) s->frequency_penalty = odd_float(in, 0.5F);
    if (odd & 64) s->temperature = odd_float(in, 1);
    if (odd & 128) s->n_bias = pick(in, 3);
    for (int32_t k = 0; k < s->n_bias; k++) {
        q->bias[k].id = pick(in, VOCAB + 1);
        q->bias[k].bias = odd_float(in, -INFINITY);
    }
    s->logprobs_scaled = odd & 2;
}

/* What nobody should write; counts only as far as there is something to count. */
static void spoil(input *in, question *q)
{
    static const int32_t values[] = { -1, 0, INT32_MIN, INT32_MAX, VOCAB };
    int32_t *const fields[] = { &q->req.n_ids, &q->req.n_stop_ids, &q->req.max_new,
                                &q->req.n,     &q->req.beams,      &q->ids[0] };
    const int32_t f = pick(in, 6);
    *fields[f] = values[pick(in, f < 2 ? 3 : 5)];
}

static void read_question(input *in, uint64_t now_ns, question *q)
{
    const uint8_t odd = byte_of(in);
    *q = (question){ .req = PKV_REQUEST_INIT };
    q->req.n_ids = pick(in, MAX_IDS);
    const uint8_t first = byte_of(in); /* few beginnings, so that prefixes are found again */
    for (int32_t k = 0; k < q->req.n_ids; k++)
        q->ids[k] = (k < 9 ? first % 3 : first) * (k + 1) % VOCAB;
    q->req.max_new = 1 + pick(in, 14);
    q->req.n = pick(in, MAX_SAMPLES + 1);
    if (odd & 1) q->req.beams = pick(in, 5);
    if (odd & 2) q->req.arrival_ns = now_ns + (uint64_t)byte_of(in) * 100000;
    if (odd & 4) q->req.deadline_ns = now_ns + (uint64_t)byte_of(in) * 300000;
    if (odd & 8) q->req.n_stop_ids = pick(in, 3);
    for (int32_t k = 0; k < q->req.n_stop_ids; k++) q->stop_ids[k] = pick(in, VOCAB);
    if (odd & 16) read_sampling(in, q);
    if (odd & 32) q->req.early_stopping = true;
    if (odd & 64) q->req.length_penalty = odd_float(in, 0);
    if (odd & 128) spoil(in, q);
}

static pkv_status submit(world *w, pkv_engine *engine, const question *q, answer *a, uint8_t act)
{
    pkv_request req = q->req;
    pkv_request_id id = 99;
    *a = (answer){
        .world = w, .n_samples = req.n > 1 ? req.n : 1, .beams = req.beams > 1, .act = act
    };
    req.ids = q->ids;
    req.stop_ids = q->stop_ids;
    req.sampling.bias = q->bias;
    req.on_token = on_token;
    req.ctx = a;
    const pkv_status status = pkv_engine_submit(engine, &req, &id);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_INVALID_ARG || status == PKV_E_LIMIT ||
                 status == PKV_E_NEVER || status == PKV_E_NO_MEMORY);
    FUZZ_REQUIRE(status == PKV_OK || id == 99);
    if (status == PKV_OK) {
        FUZZ_REQUIRE(a->n_samples <= MAX_SAMPLES && id > 0);
        a->id = id;
    }
    return status;
}

static void ask(world *w, input *in)
{
    if (w->n == MAX_REQUESTS) return;
    const long n_live = w->memory.n_live;
    const uint8_t act = byte_of(in);
    question *q = &w->asked[w->n];
    read_question(in, w->now_ns, q);
    const pkv_status status = submit(w, w->engine, q, &w->answers[w->n], act > 200 ? act & 7 : 0);
    if (status == PKV_OK) w->n++;
    else FUZZ_REQUIRE(w->memory.n_live == n_live);
    w->memory.fail_in = -1;
}

static void submit_copy(world *w, const answer *of)
{
    if (w->n == MAX_REQUESTS) return;
    w->submits_inside = true;
    w->asked[w->n] = w->asked[of - w->answers];
    w->asked[w->n].req.arrival_ns = w->asked[w->n].req.deadline_ns = 0;
    if (submit(w, w->engine, &w->asked[w->n], &w->answers[w->n], 0) == PKV_OK) w->n++;
}

/* ---------------------------------------------------------------- steps */

static bool step(world *w)
{
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    const long n_allocs = w->memory.n_allocs;
    w->submits_inside = false;
    FUZZ_REQUIRE(pkv_engine_step(w->engine, &report) == PKV_OK);
    FUZZ_REQUIRE(w->submits_inside || w->memory.n_allocs == n_allocs);
    w->now_ns += 1000000;
    if (report.next_arrival_ns > w->now_ns) w->now_ns = report.next_arrival_ns;
    /* As dear as the step itself. */
    if (++w->n_steps % 8 == 0 || report.n_preempted > 0 || report.n_unfinished == 0)
        FUZZ_REQUIRE(pkv_engine_check(w->engine) == PKV_OK);
    return report.n_unfinished > 0;
}

static void run_out(world *w)
{
    int32_t n = 0;
    while (step(w)) FUZZ_REQUIRE(++n < MAX_STEPS);
}

/* ---------------------------------------------------------------- the same alone */

static bool same(const answer *a, const answer *b)
{
    bool same = a->n_samples == b->n_samples;
    for (int32_t s = 0; s < a->n_samples && same; s++) {
        const size_t n = (size_t)a->n_ids[s];
        same = a->n_ids[s] == b->n_ids[s] && a->finish[s] == b->finish[s] &&
               memcmp(a->ids[s], b->ids[s], n * sizeof(int32_t)) == 0 &&
               memcmp(a->logprobs[s], b->logprobs[s], n * sizeof(float)) == 0 &&
               memcmp(&a->scores[s], &b->scores[s], sizeof(float)) == 0;
    }
    return same;
}

/* A roomy engine, everything in one chunk. */
static void compare_alone(const world *w, int32_t which, const pkv_engine_config *of)
{
    const answer *had = &w->answers[which];
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    world *alone = calloc(1, sizeof(*alone));
    question q = w->asked[which];
    for (int32_t s = 0; s < had->n_samples; s++)
        if (had->finish[s] >= PKV_FINISH_CANCEL) q.req.n_ids = 0;
    FUZZ_REQUIRE(alone);
    alone->memory.fail_in = -1;
    cfg.model = of->model;
    cfg.kv_dtype = of->kv_dtype;
    cfg.max_context = of->max_context;
    cfg.kv_bytes = 1 << 20;
    cfg.max_queue = 2;
    cfg.max_seqs = 8;
    cfg.max_batch_tokens = cfg.chunk_tokens = 64;
    cfg.clock_ns = clock_of;
    cfg.clock_ctx = alone;
    if (q.req.n_ids > 0) {
        q.req.arrival_ns = q.req.deadline_ns = 0;
        FUZZ_REQUIRE(pkv_engine_create(&cfg, &alone->engine) == PKV_OK);
        FUZZ_REQUIRE(submit(alone, alone->engine, &q, &alone->answers[0], 0) == PKV_OK);
        run_out(alone);
        FUZZ_REQUIRE(alone->answers[0].done && same(had, &alone->answers[0]));
        pkv_engine_destroy(alone->engine);
    }
    free(alone);
}

/* ---------------------------------------------------------------- configurations */

static void read_config(input *in, pkv_engine_config *cfg)
{
    static const pkv_dtype dtypes[] = { PKV_F32, PKV_F32, PKV_F16, PKV_BF16, PKV_E4M3, PKV_I8 };
    const uint8_t how = byte_of(in), odd = byte_of(in);
    cfg->placement = how & 8 ? (pkv_placement)(how >> 4 & 3) : PKV_PLACE_PAGED;
    cfg->preempt = (pkv_preempt)(how % 3);
    cfg->no_prefix_cache = how & 64;
    cfg->kv_dtype = dtypes[pick(in, 6)];
    cfg->block_tokens = 1 + pick(in, 6);
    cfg->max_seqs = 1 + pick(in, 6);
    cfg->max_batch_tokens = cfg->max_seqs + pick(in, 9);
    cfg->chunk_tokens = 1 + pick(in, 8);
    cfg->max_queue = 1 + pick(in, 8);
    cfg->watermark_blocks = pick(in, 4) - 1;
    if (cfg->placement == PKV_PLACE_PAGED) {
        cfg->n_blocks = 2 + pick(in, 24);
        cfg->swap_bytes = (size_t)pick(in, 3) * 4096;
    } else {
        cfg->kv_bytes = 1024 + (size_t)byte_of(in) * 128;
    }
    if (odd & 1) cfg->max_context = 2 + pick(in, CONTEXT);
    if (odd & 2) cfg->n_threads = 1;
    if ((odd & 4) && (odd & 8)) {
        int32_t *const fields[] = { &cfg->block_tokens, &cfg->watermark_blocks, &cfg->chunk_tokens,
                                    &cfg->max_context,  &cfg->max_batch_tokens, &cfg->max_seqs };
        *fields[pick(in, 6)] = -(int32_t)byte_of(in);
    }
}

static void operate(world *w, input *in)
{
    const uint8_t op = byte_of(in);
    if (op < 96) ask(w, in);
    else if (op < 192) step(w);
    else if (op < 208)
        for (int32_t k = 0; k < 8; k++) step(w);
    else if (op < 224) w->now_ns += (uint64_t)byte_of(in) * 100000;
    else if (op < 248) { /* one that may be over, or that there never was */
        const pkv_request_id id = (pkv_request_id)byte_of(in) % (MAX_REQUESTS + 2);
        const pkv_status status = pkv_engine_cancel(w->engine, id);
        FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_LIMIT);
    } else w->memory.fail_in = pick(in, 12); /* of the next submit */
}

static void play(world *w, input *in, const pkv_engine_config *cfg, uint8_t last)
{
    pkv_engine_stats stats = PKV_ENGINE_STATS_INIT;
    while (in->at < in->end) operate(w, in);
    w->memory.fail_in = -1;
    if (last == 255) return; /* destroyed in the middle of everything */
    run_out(w);
    FUZZ_REQUIRE(pkv_engine_get_stats(w->engine, &stats) == PKV_OK);
    FUZZ_REQUIRE(stats.n_blocks_used == 0 && stats.n_submitted == w->n);
    for (int32_t k = 0; k < w->n; k++) FUZZ_REQUIRE(w->answers[k].done);
    if (w->n > 0) compare_alone(w, last % w->n, cfg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    if (size < 12 || size > 2048) return 0;
    input in = { data, data + size - 1 };
    world *w = calloc(1, sizeof(*w));
    FUZZ_REQUIRE(w);
    w->now_ns = 1000000000;
    w->memory.fail_in = -1;
    read_config(&in, &cfg);
    cfg.model = the_model();
    cfg.clock_ns = clock_of;
    cfg.clock_ctx = w;
    cfg.log = (pkv_logger){ check_line, NULL };
    cfg.alloc = (pkv_allocator){ take, give, &w->memory };
    const pkv_status status = pkv_engine_create(&cfg, &w->engine);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_INVALID_ARG || status == PKV_E_NEVER ||
                 status == PKV_E_UNSUPPORTED);
    if (status == PKV_OK) play(w, &in, &cfg, data[size - 1]);
    pkv_engine_destroy(w->engine);
    FUZZ_REQUIRE(w->memory.n_live == 0);
    free(w);
    return 0;
}

/* A configuration is 11 or 12 bytes. Characters below '`' submit: act, odd, ids, first, new, n. */
#define PAGED "\0\0\0\3\3\7\7\7\1\14\1"
#define SMALL "\1\0\0\1\4\4\2\7\1\5\2"
#define PLAIN "A\0\0\12\1\6\1"
#define TWO "A\0\0\17\1\11\2"
#define BEAMS "A\0\1\5\2\6\2\3"
#define DRAWN "A\0\20\7\2\7\1\200\1\7\2\1\2"
#define STEP "\140"
#define MANY "\310"
const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED(PAGED PLAIN STEP TWO MANY MANY "\0"),
    FUZZ_SEED(SMALL PLAIN TWO PLAIN STEP STEP TWO MANY MANY MANY "\1"),
    FUZZ_SEED(SMALL BEAMS STEP PLAIN MANY DRAWN MANY MANY "\2"),
    FUZZ_SEED(PAGED DRAWN DRAWN STEP "\341\1" MANY "\1"),
    FUZZ_SEED("\10\0\0\3\3\7\7\7\1\100" PLAIN TWO DRAWN MANY MANY "\0"),
    FUZZ_SEED("\30\0\0\3\3\7\7\7\1\100" PLAIN TWO DRAWN MANY MANY "\1"),
    FUZZ_SEED("\70\0\0\3\3\7\7\7\1\100" PLAIN TWO BEAMS MANY MANY "\2"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);
const char *const fuzz_words[] = { PLAIN,    TWO,      BEAMS,    DRAWN,     STEP,    MANY,
                                   "\341\1", "\341\2", "\370\3", "\320\20", "A\314", "\377" };
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
