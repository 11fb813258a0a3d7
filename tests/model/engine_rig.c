#include "engine_rig.h"

#include "common/philox.h"

#include <limits.h>

/* ---------------------------------------------------------------- models */

pkv_model *rig_tiny_model(uint64_t seed)
{
    pkv_model *model = NULL;
    pkv_model_shape shape = PKV_MODEL_SHAPE_INIT;
    shape.vocab = 97;
    shape.hidden = 48;
    shape.n_layers = 2;
    shape.n_heads = 6;
    shape.n_kv_heads = 3;
    shape.head_dim = 8;
    shape.ffn = 70;
    shape.context = 512;
    assert_int_equal(pkv_model_random(&shape, seed, PKV_F32, NULL, NULL, &model), PKV_OK);
    return model;
}

pkv_model *rig_stories(const char *file)
{
    pkv_model *model = NULL;
    char path[1024], name[256];
    last_log log;
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    snprintf(name, sizeof(name), STORIES "%s", file);
    shared_path(name, path, sizeof(path));
    cfg.path = path;
    cfg.log = log_to(&log);
    if (pkv_model_open(&cfg, &model) != PKV_OK) fail_msg("%s", log.text);
    return model;
}

pkv_tokenizer *rig_stories_tokenizer(void)
{
    pkv_tokenizer *tok = NULL;
    char path[1024];
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    shared_path(STORIES "tok512.bin", path, sizeof(path));
    cfg.path = path;
    cfg.vocab_size = 512;
    assert_int_equal(pkv_tokenizer_open(&cfg, &tok), PKV_OK);
    return tok;
}

/* ---------------------------------------------------------------- events */

static void *grown(void *ptr, int32_t n, size_t n_bytes)
{
    void *more = realloc(ptr, (size_t)n * n_bytes);
    assert_non_null(more);
    return more;
}

static void note_token(got_sample *s, const pkv_token_event *event)
{
    if (s->n == s->cap) {
        s->cap = 2 * s->cap + 16;
        s->ids = grown(s->ids, s->cap, sizeof(*s->ids));
        s->logprobs = grown(s->logprobs, s->cap, sizeof(*s->logprobs));
        s->n_tops = grown(s->n_tops, s->cap, sizeof(*s->n_tops));
        s->tops = grown(s->tops, s->cap, 20 * sizeof(*s->tops));
    }
    assert_in_range(event->n_top, 0, 20);
    s->ids[s->n] = event->token;
    s->logprobs[s->n] = event->logprob;
    s->n_tops[s->n] = event->n_top;
    memset(s->tops + 20 * s->n, 0, 20 * sizeof(*s->tops));
    if (event->n_top > 0)
        memcpy(s->tops + 20 * s->n, event->top, (size_t)event->n_top * sizeof(*s->tops));
    s->n++;
}

static void note_text(got_sample *s, const char *text, int32_t n)
{
    if (s->n_text + n + 1 > s->cap_text) {
        s->cap_text = 2 * (s->n_text + n + 1);
        s->text = grown(s->text, s->cap_text, 1);
    }
    if (n > 0) memcpy(s->text + s->n_text, text, (size_t)n);
    s->n_text += n;
    s->text[s->n_text] = 0;
}

static void check_result(const got *g, const pkv_token_event *event)
{
    const pkv_request_result *r = event->result;
    int32_t n_output = 0;
    for (int32_t i = 0; i < g->n_samples; i++) n_output += g->sample[i].n;
    assert_int_equal(r->n_output, n_output);
    if (g->n_prompt > 0) assert_int_equal(r->n_prompt, g->n_prompt);
    assert_in_range(r->n_cached, 0, r->n_prompt - 1);
    assert_int_equal(isnan(r->ttft_ms), n_output == 0);
    if (r->admitted_ns != 0) assert_true(r->admitted_ns >= r->arrival_ns);
    if (r->first_token_ns != 0) assert_true(r->first_token_ns >= r->admitted_ns);
    assert_true(r->finish_ns >= r->first_token_ns);
}

static void on_token(void *ctx, const pkv_token_event *event)
{
    got *g = ctx;
    assert_false(g->has_result);
    if (g->id == 0) g->id = event->request; /* an event may be earlier than submit's answer */
    assert_int_equal(event->request, g->id);
    assert_in_range(event->sample, 0, g->n_samples - 1);
    got_sample *s = &g->sample[event->sample];
    assert_int_equal(s->finish, PKV_FINISH_NONE);
    assert_true(event->token >= 0 || event->finish != PKV_FINISH_NONE || event->n_text > 0);
    assert_true(event->token >= -1 && event->n_text >= 0 && event->text);
    if (event->token < 0) assert_int_equal(event->position, -1);
    else if (g->n_prompt > 0) assert_int_equal(event->position, g->n_prompt + s->n);
    if (event->token >= 0) note_token(s, event);
    note_text(s, event->text, event->n_text);
    g->n_events++;
    s->finish = event->finish;
    s->score = event->score;
    assert_true(isnan(event->score) || (g->beams && event->finish != PKV_FINISH_NONE));
    g->n_ended += event->finish != PKV_FINISH_NONE;
    assert_int_equal(event->result != NULL, g->n_ended == g->n_samples);
    if (event->result) {
        check_result(g, event);
        g->has_result = true;
        g->result = *event->result;
    }
    if (g->also) g->also(g, event);
}

/* ---------------------------------------------------------------- the engine */

static uint64_t rig_clock(void *ctx)
{
    return ((const engine_rig *)ctx)->now_ns;
}

void rig_open(engine_rig *r, pkv_model *model, pkv_tokenizer *tok, const pkv_engine_config *cfg)
{
    memset(r, 0, sizeof(*r));
    r->model = model;
    r->tok = tok;
    r->now_ns = 1000000000;
    r->tick_ns = 1000000;
    r->check_every = 1;
    r->max_steps = 100000;
    r->cfg = *cfg;
    r->cfg.model = model;
    r->cfg.tokenizer = tok;
    r->cfg.clock_ns = rig_clock;
    r->cfg.clock_ctx = r;
    r->cfg.log = log_to(&r->log);
    r->cfg.alloc = count_memory(&r->memory, LONG_MAX);
    const pkv_status status = pkv_engine_create(&r->cfg, &r->engine);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), r->log.text);
}

static void free_got(got *g)
{
    for (int32_t i = 0; i < RIG_MAX_SAMPLES; i++) {
        free(g->sample[i].ids);
        free(g->sample[i].logprobs);
        free(g->sample[i].tops);
        free(g->sample[i].n_tops);
        free(g->sample[i].text);
    }
    free(g);
}

void rig_drop(engine_rig *r)
{
    pkv_engine_destroy(r->engine);
    r->engine = NULL;
    assert_int_equal(r->memory.n_live, 0);
}

void rig_close(engine_rig *r)
{
    if (r->engine) {
        for (int32_t i = 0; i < r->n_requests; i++) assert_true(r->requests[i]->has_result);
        assert_int_equal(pkv_engine_check(r->engine), PKV_OK);
        assert_int_equal(rig_stats(r).n_blocks_used, 0);
        rig_drop(r);
    }
    for (int32_t i = 0; i < r->n_requests; i++) free_got(r->requests[i]);
    pkv_tokenizer_close(r->tok);
    pkv_model_close(r->model);
}

static got *new_got(engine_rig *r, const pkv_request *request)
{
    got *g = calloc(1, sizeof(*g));
    assert_non_null(g);
    assert_true(r->n_requests < RIG_MAX_REQUESTS);
    g->rig = r;
    g->n_prompt = request->n_ids;
    g->n_samples = request->n > 1 ? request->n : 1;
    g->beams = request->beams > 1;
    assert_true(g->n_samples <= RIG_MAX_SAMPLES);
    for (int32_t i = 0; i < g->n_samples; i++) note_text(&g->sample[i], "", 0);
    return g;
}

got *rig_submit(engine_rig *r, const pkv_request *request)
{
    got *g = new_got(r, request);
    pkv_request copy = *request;
    pkv_request_id id = 0;
    copy.on_token = on_token;
    copy.ctx = g;
    const pkv_status status = pkv_engine_submit(r->engine, &copy, &id);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), r->log.text);
    assert_true(id > 0);
    g->id = id;
    r->requests[r->n_requests++] = g;
    return g;
}

void rig_refused(engine_rig *r, const pkv_request *request, pkv_status want, const char *says)
{
    pkv_request_id id = 12345;
    const long n_live = r->memory.n_live;
    const int n_lines = r->log.n_lines;
    const pkv_status status = pkv_engine_submit(r->engine, request, &id);
    if (status != want || !strstr(r->log.text, says))
        fail_msg("%s, not %s: \"%s\" should say \"%s\"", pkv_status_name(status),
                 pkv_status_name(want), r->log.text, says);
    assert_int_equal(r->log.n_lines, n_lines + 1);
    assert_int_equal(id, 12345);
    assert_int_equal(r->memory.n_live, n_live);
}

bool rig_step(engine_rig *r)
{
    const long n_allocs = r->memory.n_allocs;
    r->report = (pkv_step_report)PKV_STEP_REPORT_INIT;
    r->status = pkv_engine_step(r->engine, &r->report);
    if (!r->submits_in_step) assert_int_equal(r->memory.n_allocs, n_allocs);
    r->n_steps++;
    r->n_preempted += r->report.n_preempted;
    r->now_ns += r->tick_ns;
    if (r->check_every > 0 && r->n_steps % r->check_every == 0 &&
        pkv_engine_check(r->engine) != PKV_OK)
        fail_msg("after step %lld: %s", (long long)r->n_steps, r->log.text);
    return r->report.n_unfinished > 0;
}

void rig_run(engine_rig *r)
{
    for (int32_t i = 0; i < r->max_steps; i++) {
        const bool more = rig_step(r);
        if (r->status != PKV_OK) fail_msg("%s: %s", pkv_status_name(r->status), r->log.text);
        if (!more) return;
        if (r->report.next_arrival_ns > r->now_ns) r->now_ns = r->report.next_arrival_ns;
    }
    fail_msg("%d requests go on after %d steps", r->report.n_unfinished, r->max_steps);
}

pkv_engine_stats rig_stats(engine_rig *r)
{
    pkv_engine_stats stats = PKV_ENGINE_STATS_INIT;
    assert_int_equal(pkv_engine_get_stats(r->engine, &stats), PKV_OK);
    return stats;
}

/* ---------------------------------------------------------------- requests */

pkv_request rig_request(const int32_t *ids, int32_t n, int32_t max_new)
{
    pkv_request request = PKV_REQUEST_INIT;
    request.ids = ids;
    request.n_ids = n;
    request.max_new = max_new;
    return request;
}

got *rig_lone(engine_rig *r, const pkv_request *request)
{
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    pkv_engine *own = r->engine;
    pkv_engine *lone = NULL;
    pkv_request alone = *request;
    const int64_t n_preempted = r->n_preempted, n_steps = r->n_steps;
    alone.arrival_ns = alone.deadline_ns = 0;
    cfg.model = r->model;
    cfg.tokenizer = r->tok;
    cfg.kv_dtype = r->cfg.kv_dtype;
    cfg.max_context = r->cfg.max_context;
    cfg.kv_bytes = (size_t)8 << 20;
    cfg.max_queue = 4;
    cfg.max_seqs = RIG_MAX_SAMPLES;
    cfg.max_batch_tokens = cfg.chunk_tokens = 512;
    cfg.isa = r->cfg.isa;
    cfg.clock_ns = rig_clock;
    cfg.clock_ctx = r;
    assert_int_equal(pkv_engine_create(&cfg, &lone), PKV_OK);
    r->engine = lone;
    got *g = rig_submit(r, &alone);
    rig_run(r);
    assert_true(g->has_result);
    pkv_engine_destroy(lone);
    r->engine = own;
    r->n_preempted = n_preempted;
    r->n_steps = n_steps;
    return g;
}

void got_ids(const got *g, int32_t sample, const int32_t *want, int32_t n)
{
    const got_sample *s = &g->sample[sample];
    for (int32_t i = 0; i < s->n && i < n; i++)
        if (s->ids[i] != want[i])
            fail_msg("request %llu, sample %d: token %d is %d, not %d", (unsigned long long)g->id,
                     sample, i, s->ids[i], want[i]);
    assert_int_equal(s->n, n);
}

void got_same(const char *what, const got *is, const got *want)
{
    assert_int_equal(is->n_samples, want->n_samples);
    for (int32_t i = 0; i < is->n_samples; i++) {
        const got_sample *a = &is->sample[i], *b = &want->sample[i];
        got_ids(is, i, b->ids, b->n);
        if (a->finish != b->finish)
            fail_msg("%s: sample %d ends with %s, not %s", what, i, pkv_finish_name(a->finish),
                     pkv_finish_name(b->finish));
        if (a->n_text != b->n_text || memcmp(a->text, b->text, (size_t)a->n_text) != 0)
            fail_msg("%s: sample %d says \"%s\", not \"%s\"", what, i, a->text, b->text);
        if (memcmp(&a->score, &b->score, sizeof(float)) != 0)
            fail_msg("%s: score %d is %a, not %a", what, i, (double)a->score, (double)b->score);
        for (int32_t t = 0; t < a->n; t++)
            if (memcmp(&a->logprobs[t], &b->logprobs[t], sizeof(float)) != 0 ||
                a->n_tops[t] != b->n_tops[t] ||
                memcmp(a->tops + 20 * t, b->tops + 20 * t, 20 * sizeof(*a->tops)) != 0)
                fail_msg("%s: logprobs of token %d of sample %d differ", what, t, i);
    }
}

void rig_draw(uint64_t seed, int32_t vocab, int32_t *out, int32_t n)
{
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 7, 0);
    for (int32_t i = 0; i < n; i++) out[i] = (int32_t)pkv__rng_below(&rng, (uint32_t)vocab);
}

uint64_t rig_seed(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}
