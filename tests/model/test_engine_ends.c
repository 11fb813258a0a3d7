/* How a request ends: EOS, stop ids, stop texts, max_new, the context, cancel, deadline; and when
 * it may begin. */
#include "engine_rig.h"

#include "common/philox.h"

enum { BOS = 1 };

static const pkv_engine_config plain = PKV_ENGINE_CONFIG_INIT;

static void open_tiny(engine_rig *r, const pkv_engine_config *cfg)
{
    rig_open(r, rig_tiny_model(7), NULL, cfg);
}

static void open_stories(engine_rig *r)
{
    rig_open(r, rig_stories("stories260K.bin"), rig_stories_tokenizer(), &plain);
}

static void ends_with(const got *g, int32_t sample, int32_t n, pkv_finish finish)
{
    if (g->sample[sample].n != n || g->sample[sample].finish != finish)
        fail_msg("%d tokens and %s, not %d and %s", g->sample[sample].n,
                 pkv_finish_name(g->sample[sample].finish), n, pkv_finish_name(finish));
}

/* ---------------------------------------------------------------- tokens */

static void eos(void **state)
{
    (void)state;
    engine_rig r;
    const int32_t bos = BOS;
    open_stories(&r);
    /* Both ends that the file format has, and one that it has not. */
    for (int32_t id = 1; id <= 3; id++) {
        const pkv_logit_bias force = { id, 1000 };
        pkv_request request = rig_request(&bos, 1, 5);
        request.sampling.bias = &force;
        request.sampling.n_bias = 1;
        const got *stops = rig_submit(&r, &request);
        request.ignore_eos = true;
        const got *goes_on = rig_submit(&r, &request);
        rig_run(&r);
        if (id == 3) ends_with(stops, 0, 5, PKV_FINISH_LENGTH);
        else ends_with(stops, 0, 1, PKV_FINISH_STOP);
        assert_int_equal(stops->sample[0].ids[0], id);
        ends_with(goes_on, 0, 5, PKV_FINISH_LENGTH);
        if (id != 3) assert_int_equal(stops->sample[0].n_text, 0);
    }
    assert_int_equal(rig_stats(&r).n_finished[PKV_FINISH_STOP], 2);
    assert_int_equal(rig_stats(&r).n_finished[PKV_FINISH_LENGTH], 4);
    rig_close(&r);
}

static void stop_ids(void **state)
{
    (void)state;
    engine_rig r;
    const int32_t bos = BOS, stops[] = { 5, 432, 6 };
    open_stories(&r);
    pkv_request request = rig_request(&bos, 1, 20);
    const got *whole = rig_submit(&r, &request);
    request.stop_ids = stops;
    request.n_stop_ids = 3;
    const got *cut = rig_submit(&r, &request);
    rig_run(&r);
    int32_t at = 0;
    while (whole->sample[0].ids[at] != 432) at++; /* 403 407 261 378 432, a comma */
    assert_int_equal(at, 4);
    got_ids(cut, 0, whole->sample[0].ids, at + 1);
    ends_with(cut, 0, at + 1, PKV_FINISH_STOP);
    /* It has no text. */
    assert_int_equal(
        strncmp(whole->sample[0].text, cut->sample[0].text, (size_t)cut->sample[0].n_text), 0);
    assert_string_equal(cut->sample[0].text, "Once upon a time");
    rig_close(&r);
}

static void stop_texts(void **state)
{
    (void)state;
    static const struct {
        const char *stop[2], *text;
        pkv_finish finish;
    } cases[] = {
        { { "zebra", " time" }, "Once upon a", PKV_FINISH_STOP },
        { { "upon", "zebra" }, "Once ", PKV_FINISH_STOP },
        { { "Once", "zebra" }, "", PKV_FINISH_STOP },
        /* A tail that could have begun one comes with the end. */
        { { "there was a little girx", "zebra" },
          "Once upon a time, there was a little gir",
          PKV_FINISH_LENGTH },
    };
    engine_rig r;
    const int32_t bos = BOS;
    open_stories(&r);
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        pkv_request request = rig_request(&bos, 1, 11);
        request.stop_texts = cases[k].stop;
        request.n_stop_texts = 2;
        const got *g = rig_submit(&r, &request);
        rig_run(&r);
        assert_string_equal(g->sample[0].text, cases[k].text);
        assert_int_equal(g->sample[0].finish, cases[k].finish);
    }
    rig_close(&r);
}

static void text_prompts(void **state)
{
    (void)state;
    engine_rig r;
    open_stories(&r);
    pkv_request request = PKV_REQUEST_INIT;
    request.text = "Once upon a time";
    request.n_text = strlen(request.text);
    request.max_new = 12;
    const got *g = rig_submit(&r, &request);
    rig_run(&r);
    assert_int_equal(g->result.n_prompt, 5); /* BOS and 403 407 261 378 */
    assert_memory_equal(g->sample[0].text, ", there was ", 12);
    /* Behind text the space of the next word is text; behind BOS alone it is not. */
    request.text = "Once";
    request.n_text = 4;
    const got *space = rig_submit(&r, &request);
    request.n_text = 0;
    const got *none = rig_submit(&r, &request);
    rig_run(&r);
    assert_int_equal(strncmp(space->sample[0].text, " upon a time", 12), 0);
    assert_int_equal(strncmp(none->sample[0].text, "Once upon a t", 12), 0);
    rig_close(&r);
}

static void length_and_context(void **state)
{
    (void)state;
    static int32_t ids[32];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_context = 20;
    open_tiny(&r, &cfg);
    rig_draw(1, 97, ids, 32);
    for (int32_t n = 1; n < 20; n++)
        for (int32_t max_new = 1; max_new < 25; max_new += 3) {
            const pkv_request request = rig_request(ids, n, max_new);
            const got *g = rig_submit(&r, &request);
            rig_run(&r);
            if (n + max_new <= 20) ends_with(g, 0, max_new, PKV_FINISH_LENGTH);
            else ends_with(g, 0, 20 - n, PKV_FINISH_CONTEXT);
        }
    const pkv_request request = rig_request(ids, 20, 1);
    rig_refused(&r, &request, PKV_E_NEVER, "20 tokens, max_context is 20");
    rig_close(&r);
}

/* ---------------------------------------------------------------- from outside */

static void deadlines(void **state)
{
    (void)state;
    static int32_t ids[8];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_seqs = 1;
    open_tiny(&r, &cfg);
    rig_draw(1, 97, ids, 8);
    pkv_request request = rig_request(ids, 8, 50);
    request.deadline_ns = r.now_ns + 5 * r.tick_ns;
    const got *running = rig_submit(&r, &request);
    request.deadline_ns = r.now_ns + 3 * r.tick_ns;
    const got *waiting = rig_submit(&r, &request);
    request.deadline_ns = r.now_ns + 4 * r.tick_ns;
    request.arrival_ns = r.now_ns + 1000 * r.tick_ns;
    const got *ahead = rig_submit(&r, &request);
    request = rig_request(ids, 8, 3);
    const got *last = rig_submit(&r, &request);
    rig_run(&r);
    ends_with(running, 0, 5, PKV_FINISH_DEADLINE);
    ends_with(waiting, 0, 0, PKV_FINISH_DEADLINE);
    ends_with(ahead, 0, 0, PKV_FINISH_DEADLINE);
    ends_with(last, 0, 3, PKV_FINISH_LENGTH);
    assert_int_equal(running->n_events, 6);
    assert_int_equal(waiting->result.admitted_ns, 0);
    assert_int_equal(rig_stats(&r).n_finished[PKV_FINISH_DEADLINE], 3);
    rig_close(&r);
}

static void cancel_in_event(got *g, const pkv_token_event *event)
{
    if (g->sample[0].n == 2)
        assert_int_equal(pkv_engine_cancel(g->rig->engine, event->request), PKV_OK);
}

static void cancels(void **state)
{
    (void)state;
    static int32_t ids[8];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_seqs = 3;
    open_tiny(&r, &cfg);
    rig_draw(1, 97, ids, 8);
    pkv_request request = rig_request(ids, 8, 50);
    request.n = 2;
    const got *running = rig_submit(&r, &request);
    request.n = 1;
    got *by_itself = rig_submit(&r, &request);
    by_itself->also = cancel_in_event;
    request.n = 3;
    const got *waiting = rig_submit(&r, &request);
    request.n = 1;
    request.arrival_ns = r.now_ns + 1000 * r.tick_ns;
    const got *ahead = rig_submit(&r, &request);
    for (int32_t i = 0; i < 4; i++) rig_step(&r);
    assert_int_equal(pkv_engine_cancel(r.engine, running->id), PKV_OK);
    assert_int_equal(pkv_engine_cancel(r.engine, running->id), PKV_OK);
    assert_int_equal(pkv_engine_cancel(r.engine, waiting->id), PKV_OK);
    assert_int_equal(pkv_engine_cancel(r.engine, ahead->id), PKV_OK);
    assert_int_equal(pkv_engine_cancel(r.engine, 0), PKV_OK);
    assert_int_equal(pkv_engine_cancel(r.engine, 1000), PKV_OK);
    /* One that was handed in and cancelled before any step. */
    request.arrival_ns = 0;
    const got *at_once = rig_submit(&r, &request);
    assert_int_equal(pkv_engine_cancel(r.engine, at_once->id), PKV_OK);
    rig_run(&r);
    ends_with(running, 0, 4, PKV_FINISH_CANCEL);
    ends_with(running, 1, 4, PKV_FINISH_CANCEL);
    ends_with(by_itself, 0, 2, PKV_FINISH_CANCEL);
    for (int32_t i = 0; i < 3; i++) ends_with(waiting, i, 0, PKV_FINISH_CANCEL);
    ends_with(ahead, 0, 0, PKV_FINISH_CANCEL);
    ends_with(at_once, 0, 0, PKV_FINISH_CANCEL);
    assert_int_equal(rig_stats(&r).n_finished[PKV_FINISH_CANCEL], 5);
    assert_int_equal(rig_stats(&r).latency.n, 0);
    assert_int_equal(pkv_engine_cancel(NULL, 1), PKV_E_INVALID_ARG);
    rig_close(&r);
}

/* What was held back comes with the end. */
static void cancel_shows_held_text(void **state)
{
    (void)state;
    engine_rig r;
    const int32_t bos = BOS;
    const char *stop = "there was a little girx";
    open_stories(&r);
    pkv_request request = rig_request(&bos, 1, 50);
    request.stop_texts = &stop;
    request.n_stop_texts = 1;
    const got *g = rig_submit(&r, &request);
    for (int32_t i = 0; i < 10; i++) rig_step(&r);
    assert_string_equal(g->sample[0].text, "Once upon a time, ");
    assert_int_equal(pkv_engine_cancel(r.engine, g->id), PKV_OK);
    rig_run(&r);
    assert_string_equal(g->sample[0].text, "Once upon a time, there was a little g");
    rig_close(&r);
}

/* ---------------------------------------------------------------- arrivals */

static void arrivals(void **state)
{
    (void)state;
    static int32_t ids[8];
    engine_rig r;
    open_tiny(&r, &plain);
    rig_draw(1, 97, ids, 8);
    const uint64_t start = r.now_ns;
    const got *g[4];
    static const uint64_t at_ms[] = { 30, 10, 20, 10 };
    for (int32_t i = 0; i < 4; i++) {
        pkv_request request = rig_request(ids, 4 + i, 2);
        request.arrival_ns = start + at_ms[i] * 1000000;
        g[i] = rig_submit(&r, &request);
    }
    assert_true(rig_step(&r));
    assert_int_equal(r.report.n_tokens, 0);
    assert_int_equal(r.report.next_arrival_ns, start + 10000000);
    assert_int_equal(r.report.n_unfinished, 4);
    rig_run(&r);
    for (int32_t i = 0; i < 4; i++) {
        const pkv_request_result *res = &g[i]->result;
        assert_int_equal(res->arrival_ns, start + at_ms[i] * 1000000);
        assert_int_equal(res->admitted_ns, res->arrival_ns);
        assert_int_equal(res->first_token_ns, res->admitted_ns); /* the clock stands in a step */
        assert_true(res->ttft_ms == 0 && res->tpot_ms == 1);
    }
    /* A stalled engine cannot hide its queue: delays count from the planned arrival. */
    r.now_ns += 50000000;
    pkv_request request = rig_request(ids, 4, 2);
    request.arrival_ns = r.now_ns - 20000000;
    const got *late = rig_submit(&r, &request);
    rig_run(&r);
    assert_true(late->result.ttft_ms == 20);
    assert_int_equal(rig_stats(&r).queue.n, 5);
    assert_true(fabs(rig_stats(&r).queue.max_ms - 20) < 1e-9);
    rig_close(&r);
}

/* First come, first served, whatever is smaller. */
static void order_of_admission(void **state)
{
    (void)state;
    static int32_t ids[100];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_seqs = 2;
    open_tiny(&r, &cfg);
    rig_draw(1, 97, ids, 100);
    static const int32_t lengths[] = { 50, 3, 90, 2, 60 };
    const got *g[5];
    for (int32_t i = 0; i < 5; i++) {
        pkv_request request = rig_request(ids, lengths[i], 3 + i);
        request.n = i == 2 ? 2 : 1; /* both places: those behind it wait */
        g[i] = rig_submit(&r, &request);
    }
    rig_run(&r);
    for (int32_t i = 1; i < 5; i++)
        assert_true(g[i]->result.admitted_ns >= g[i - 1]->result.admitted_ns);
    assert_true(g[3]->result.admitted_ns > g[2]->result.admitted_ns);
    rig_close(&r);
}

static int by_arrival(const void *a, const void *b)
{
    const got *x = *(got *const *)a, *y = *(got *const *)b;
    if (x->result.arrival_ns != y->result.arrival_ns)
        return x->result.arrival_ns < y->result.arrival_ns ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* Many that arrive at random times, of which many are cancelled or too late before it comes to
 * them: the others are served in order of arrival, and of submit where they arrive at once. */
static void random_arrivals(void **state)
{
    (void)state;
    enum { N = 900 };
    static const int32_t ids[] = { 4, 5 };
    static got *g[N];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    const uint64_t seed = rig_seed();
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 3, 0);
    cfg.max_seqs = 1;
    open_tiny(&r, &cfg);
    for (int32_t i = 0; i < N; i++) {
        pkv_request request = rig_request(ids, 2, 1);
        request.arrival_ns = r.now_ns + (1 + pkv__rng_below(&rng, 300)) * UINT64_C(1000000);
        if (pkv__rng_below(&rng, 3) == 0)
            request.deadline_ns =
                request.arrival_ns + pkv__rng_below(&rng, 100) * UINT64_C(1000000);
        g[i] = rig_submit(&r, &request);
    }
    rig_step(&r);
    for (int32_t k = 0; k < N / 3; k++) /* out of the middle of the heaps */
        assert_int_equal(pkv_engine_cancel(r.engine, g[pkv__rng_below(&rng, N)]->id), PKV_OK);
    while (rig_step(&r)) {
        const uint32_t i = pkv__rng_below(&rng, N);
        if (!g[i]->has_result) assert_int_equal(pkv_engine_cancel(r.engine, g[i]->id), PKV_OK);
    }
    int32_t n_served = 0, n_finished[7] = { 0 };
    for (int32_t i = 0; i < N; i++) n_finished[g[i]->sample[0].finish]++;
    assert_true(n_finished[PKV_FINISH_LENGTH] > 20);
    assert_true(n_finished[PKV_FINISH_CANCEL] > 20 && n_finished[PKV_FINISH_DEADLINE] > 20);
    qsort(g, N, sizeof(*g), by_arrival);
    uint64_t last_ns = 0;
    for (int32_t i = 0; i < N; i++) {
        if (g[i]->result.admitted_ns == 0) continue;
        assert_true(last_ns < g[i]->result.admitted_ns);
        last_ns = g[i]->result.admitted_ns;
        n_served++;
    }
    assert_int_equal(n_served, n_finished[PKV_FINISH_LENGTH]);
    rig_close(&r);
}

static void submit_again(got *g, const pkv_token_event *event)
{
    if (!event->result || g->rig->n_requests >= 5) return;
    static const int32_t ids[] = { 1, 2, 3 };
    const pkv_request request = rig_request(ids, 3, 2);
    got *next = rig_submit(g->rig, &request);
    next->also = submit_again;
}

/* Requests that come out of the last event of others are unfinished too. */
static void submit_in_event(void **state)
{
    (void)state;
    engine_rig r;
    open_tiny(&r, &plain);
    r.submits_in_step = true;
    static const int32_t ids[] = { 4, 5 };
    const pkv_request request = rig_request(ids, 2, 2);
    rig_submit(&r, &request)->also = submit_again;
    rig_run(&r);
    assert_int_equal(r.n_requests, 5);
    rig_close(&r);
}

static void step_in_event(got *g, const pkv_token_event *event)
{
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    (void)event;
    assert_int_equal(pkv_engine_step(g->rig->engine, &report), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_check(g->rig->engine), PKV_E_INVALID_ARG);
}

static void no_step_in_a_step(void **state)
{
    (void)state;
    engine_rig r;
    open_tiny(&r, &plain);
    static const int32_t ids[] = { 4, 5 };
    const pkv_request request = rig_request(ids, 2, 2);
    got *g = rig_submit(&r, &request);
    g->also = step_in_event;
    rig_run(&r);
    assert_int_equal(g->sample[0].n, 2);
    assert_non_null(strstr(r.log.text, "called by a callback"));
    rig_close(&r);
}

static void count_wakes(void *ctx)
{
    ++*(int *)ctx;
}

/* Called when there is something to see, and for nothing that was refused. */
static void wakes(void **state)
{
    (void)state;
    int n_wakes = 0;
    const int32_t ids[3] = { 1, 2, 3 };
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.wake = count_wakes;
    cfg.wake_ctx = &n_wakes;
    engine_rig r;
    rig_open(&r, rig_tiny_model(5), NULL, &cfg);
    pkv_request q = rig_request(ids, 3, 8);
    const got *g = rig_submit(&r, &q);
    assert_int_equal(n_wakes, 1);
    assert_int_equal(pkv_engine_cancel(r.engine, g->id), PKV_OK);
    assert_int_equal(n_wakes, 2);
    q.max_new = 0;
    rig_refused(&r, &q, PKV_E_INVALID_ARG, "max_new");
    assert_int_equal(n_wakes, 2);
    rig_run(&r);
    assert_int_equal(g->sample[0].finish, PKV_FINISH_CANCEL);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eos),
        cmocka_unit_test(stop_ids),
        cmocka_unit_test(stop_texts),
        cmocka_unit_test(text_prompts),
        cmocka_unit_test(length_and_context),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(cancels),
        cmocka_unit_test(cancel_shows_held_text),
        cmocka_unit_test(arrivals),
        cmocka_unit_test(order_of_admission),
        cmocka_unit_test(random_arrivals),
        cmocka_unit_test(submit_in_event),
        cmocka_unit_test(no_step_in_a_step),
        cmocka_unit_test(wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
