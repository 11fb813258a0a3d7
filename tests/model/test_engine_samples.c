/* Several samples of one prompt: each is what its own stream draws from the model, one prompt is
 * computed, blocks are shared, and every way to end leaves the others alone. Logprobs. */
#include "engine_rig.h"

static pkv_request drawn(const int32_t *ids, int32_t n_ids, int32_t max_new, int32_t n)
{
    pkv_request request = rig_request(ids, n_ids, max_new);
    request.n = n;
    request.sampling.temperature = 1.3f;
    request.sampling.top_k = 40;
    request.sampling.top_p = 0.95f;
    request.sampling.seed = 77;
    return request;
}

/* A draw is keyed by seed, sample and position. So the next token of sample i is also the first one
 * that sample i of a request draws whose prompt is everything so far: no fork is behind that. */
static void every_draw_alone(void **state)
{
    (void)state;
    enum { N = 4, NEW = 9, PROMPT = 21 };
    static int32_t ids[PROMPT + NEW];
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    rig_open(&r, rig_tiny_model(2), NULL, &cfg);
    rig_draw(4, 97, ids, PROMPT);
    const pkv_request request = drawn(ids, PROMPT, NEW, N);
    const got *g = rig_submit(&r, &request);
    rig_run(&r);
    int32_t n_different = 0;
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(g->sample[i].n, NEW);
        for (int32_t t = 0; t < NEW; t++) {
            const pkv_request next = drawn(ids, PROMPT + t, 1, i + 1);
            const got *one = rig_submit(&r, &next);
            rig_run(&r);
            assert_int_equal(g->sample[i].ids[t], one->sample[i].ids[0]);
            ids[PROMPT + t] = g->sample[i].ids[t];
        }
        n_different += g->sample[i].ids[3] != g->sample[0].ids[3];
    }
    assert_true(n_different > 0);
    rig_close(&r);
}

/* The prompt is computed once, and full blocks are held once. */
static void one_prompt(void **state)
{
    (void)state;
    static int32_t ids[50];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 8;
    rig_open(&r, rig_tiny_model(2), NULL, &cfg);
    rig_draw(4, 97, ids, 50);
    const pkv_request request = drawn(ids, 50, 3, 5);
    const got *g = rig_submit(&r, &request);
    rig_step(&r);
    assert_int_equal(r.report.n_tokens, 50);
    for (int32_t i = 0; i < 5; i++) assert_int_equal(g->sample[i].n, 1);
    assert_int_equal(rig_stats(&r).n_blocks_used, 7);
    rig_step(&r);
    assert_int_equal(r.report.n_tokens, 5);
    /* 48 tokens in six blocks of all, and a copy of the seventh for four of the five. */
    assert_int_equal(rig_stats(&r).n_blocks_used, 6 + 5);
    assert_int_equal(rig_stats(&r).n_copies, 4);
    rig_run(&r);
    const pkv_engine_stats s = rig_stats(&r);
    assert_int_equal(s.n_computed_tokens, 50 + 5 * 2);
    assert_int_equal(s.n_prompt_tokens, 50);
    assert_int_equal(s.n_output_tokens, 15);
    assert_int_equal(g->result.n_output, 15);
    assert_int_equal(s.peak_seqs, 5);
    rig_close(&r);
}

/* Samples end one by one, the first sometimes at its first token; what they give does not depend on
 * it. Alone with room, on a small pool, with others beside them. */
static void they_end_alone(void **state)
{
    (void)state;
    static int32_t ids[30], stops[30];
    const uint64_t seed = rig_seed();
    int32_t n_first_at_once = 0;
    for (int32_t k = 0; k < 20; k++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.block_tokens = 4;
        cfg.n_blocks = 1 + 40;
        cfg.max_seqs = 9;
        cfg.swap_bytes = k % 2 ? 1 << 20 : 0;
        cfg.preempt = PKV_PREEMPT_SWAP;
        cfg.chunk_tokens = 5;
        rig_open(&r, rig_tiny_model(2), NULL, &cfg);
        rig_draw(seed + (uint64_t)k, 97, ids, 30);
        rig_draw(seed + 100 + (uint64_t)k, 97, stops, 30);
        got *g[3];
        pkv_request request[3];
        for (int32_t i = 0; i < 3; i++) {
            request[i] = drawn(ids, 10 + 6 * i, 25, 3);
            request[i].sampling.seed = seed + (uint64_t)(k * 3 + i);
            request[i].stop_ids = stops;
            request[i].n_stop_ids = 10;
            g[i] = rig_submit(&r, &request[i]);
        }
        rig_run(&r);
        for (int32_t i = 0; i < 3; i++) {
            got_same("samples", g[i], rig_lone(&r, &request[i]));
            n_first_at_once += g[i]->sample[0].n == 1 && g[i]->sample[1].n > 1;
        }
        rig_close(&r);
    }
    assert_true(n_first_at_once > 0);
}

static void logprobs(void **state)
{
    (void)state;
    static int32_t ids[10];
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    rig_open(&r, rig_tiny_model(2), NULL, &cfg);
    rig_draw(4, 97, ids, 10);
    pkv_request request = rig_request(ids, 10, 8);
    const got *none = rig_submit(&r, &request);
    request.sampling.n_logprobs = 0;
    const got *own = rig_submit(&r, &request);
    request.sampling.n_logprobs = 20;
    const got *many = rig_submit(&r, &request);
    /* Another temperature changes who is drawn, not what the model says. */
    request.sampling.temperature = 2;
    const got *hot = rig_submit(&r, &request);
    request.sampling.logprobs_scaled = true;
    const got *scaled = rig_submit(&r, &request);
    rig_run(&r);
    for (int32_t t = 0; t < 8; t++) {
        const pkv_logprob *top = many->sample[0].tops + 20 * t;
        assert_true(isnan(none->sample[0].logprobs[t]));
        assert_int_equal(none->sample[0].n_tops[t], 0);
        assert_int_equal(own->sample[0].n_tops[t], 0);
        assert_true(own->sample[0].logprobs[t] == many->sample[0].logprobs[t]);
        assert_int_equal(many->sample[0].n_tops[t], 20);
        assert_int_equal(top[0].id, many->sample[0].ids[t]);
        assert_true(top[0].logprob == many->sample[0].logprobs[t]);
        double sum = 0;
        for (int32_t i = 0; i < 20; i++) {
            if (i > 0) assert_true(top[i].logprob <= top[i - 1].logprob);
            sum += exp((double)top[i].logprob);
        }
        assert_true(sum > 0.1 && sum < 1);
    }
    assert_memory_equal(hot->sample[0].tops, many->sample[0].tops, 20 * sizeof(pkv_logprob));
    /* Half as far apart. */
    const pkv_logprob *a = hot->sample[0].tops, *b = scaled->sample[0].tops;
    const double far = (double)a[0].logprob - (double)a[9].logprob;
    assert_true(fabs(((double)b[0].logprob - (double)b[9].logprob) - far / 2) < 1e-5 * far);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_draw_alone),
        cmocka_unit_test(one_prompt),
        cmocka_unit_test(they_end_alone),
        cmocka_unit_test(logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
