/* Small pools: preemption by recompute and by swap, the order in which they come back, the
 * watermark, cached prompts at block borders; nothing of it shows in what requests get. */
#include "engine_rig.h"

#include "common/philox.h"

typedef struct load {
    int32_t ids[24][120];
    pkv_request request[24];
    int32_t n;
} load;

/* Requests of random lengths; some share a prompt, some have several samples, some are drawn. */
static void make_load(load *l, uint64_t seed, int32_t n, int32_t max_n)
{
    pkv__rng rng;
    l->n = n;
    pkv__rng_init(&rng, seed, 11, 0);
    for (int32_t i = 0; i < n; i++) {
        const int32_t n_ids = 1 + (int32_t)pkv__rng_below(&rng, 60);
        const int32_t max_new = 1 + (int32_t)pkv__rng_below(&rng, 40);
        rig_draw(seed + pkv__rng_below(&rng, 4), 97, l->ids[i], 120);
        l->request[i] = rig_request(l->ids[i], n_ids, max_new);
        l->request[i].n = 1 + (int32_t)pkv__rng_below(&rng, (uint32_t)max_n);
        if (l->request[i].n > 1 || pkv__rng_below(&rng, 2)) {
            l->request[i].sampling.temperature = 1.5f;
            l->request[i].sampling.seed = seed + (uint64_t)i;
            l->request[i].sampling.frequency_penalty = 0.3f;
        }
        l->request[i].sampling.n_logprobs = 2;
    }
}

static void run_load(engine_rig *r, const load *l)
{
    const got *g[24];
    for (int32_t i = 0; i < l->n; i++) {
        /* Copies: the engine keeps nothing of the caller's. */
        load *copy = malloc(sizeof(*copy));
        assert_non_null(copy);
        memcpy(copy, l, sizeof(*copy));
        pkv_request request = copy->request[i];
        request.ids = copy->ids[i];
        g[i] = rig_submit(r, &request);
        memset(copy, 0xff, sizeof(*copy));
        free(copy);
    }
    rig_run(r);
    for (int32_t i = 0; i < l->n; i++) got_same("small pool", g[i], rig_lone(r, &l->request[i]));
}

static void preemption(pkv_preempt kind, size_t swap_bytes, bool *swapped, bool *recomputed)
{
    const uint64_t seed = rig_seed();
    for (uint64_t k = 0; k < 6; k++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.block_tokens = 1 + 3 * (int32_t)k;
        cfg.n_blocks = 2 + pkv__ceil_div_i32(300, cfg.block_tokens);
        cfg.swap_bytes = swap_bytes;
        cfg.preempt = kind;
        cfg.max_seqs = 12;
        cfg.max_batch_tokens = 40;
        cfg.chunk_tokens = 8 + (int32_t)k;
        cfg.no_prefix_cache = k % 2 == 1;
        cfg.watermark_blocks = (int32_t)k % 3;
        rig_open(&r, rig_tiny_model(5), NULL, &cfg);
        static load l;
        make_load(&l, seed + k, 24, k < 3 ? 1 : 4);
        run_load(&r, &l);
        const pkv_engine_stats s = rig_stats(&r);
        assert_int_equal(s.n_preempt_swap + s.n_preempt_recompute, r.n_preempted);
        *swapped |= s.n_preempt_swap > 0;
        *recomputed |= s.n_preempt_recompute > 0;
        rig_close(&r);
    }
}

static void recompute(void **state)
{
    (void)state;
    bool swapped = false, recomputed = false;
    preemption(PKV_PREEMPT_RECOMPUTE, 1 << 20, &swapped, &recomputed);
    assert_true(recomputed && !swapped);
}

static void swap(void **state)
{
    (void)state;
    bool swapped = false, recomputed = false;
    preemption(PKV_PREEMPT_SWAP, 4 << 20, &swapped, &recomputed);
    assert_true(swapped && !recomputed);
}

/* A host pool for few: who finds no room there computes again. */
static void swap_as_far_as_it_goes(void **state)
{
    (void)state;
    bool swapped = false, recomputed = false;
    preemption(PKV_PREEMPT_SWAP, 64 << 10, &swapped, &recomputed);
    assert_true(swapped && recomputed);
    swapped = recomputed = false;
    preemption(PKV_PREEMPT_SWAP, 0, &swapped, &recomputed);
    assert_true(!swapped && recomputed);
}

/* Here a byte there and back is cheaper than the arithmetic behind it. */
static void automatic(void **state)
{
    (void)state;
    bool swapped = false, recomputed = false;
    preemption(PKV_PREEMPT_AUTO, 4 << 20, &swapped, &recomputed);
    assert_true(swapped);
}

/* The latest arrival gives way, the oldest never; who was swapped out comes back first. */
static void who_gives_way(void **state)
{
    (void)state;
    static int32_t ids[4][16];
    for (int32_t kind = 0; kind < 2; kind++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.block_tokens = 4;
        cfg.n_blocks = 1 + 24;
        cfg.watermark_blocks = 0;
        cfg.swap_bytes = 1 << 20;
        cfg.preempt = kind == 0 ? PKV_PREEMPT_SWAP : PKV_PREEMPT_RECOMPUTE;
        cfg.no_prefix_cache = true;
        rig_open(&r, rig_tiny_model(5), NULL, &cfg);
        const got *g[4];
        for (int32_t i = 0; i < 4; i++) {
            rig_draw(1 + (uint64_t)i, 97, ids[i], 16);
            const pkv_request request = rig_request(ids[i], 16, 40);
            g[i] = rig_submit(&r, &request);
        }
        rig_run(&r);
        assert_int_equal(g[0]->result.n_preempted, 0);
        assert_true(g[3]->result.n_preempted > 0);
        for (int32_t i = 1; i < 4; i++)
            assert_true(g[i]->result.finish_ns >= g[i - 1]->result.finish_ns);
        rig_close(&r);
    }
}

/* Nobody new comes in while somebody is swapped out. */
static void swapped_come_first(void **state)
{
    (void)state;
    static int32_t ids[16];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 16;
    cfg.watermark_blocks = 0;
    cfg.swap_bytes = 1 << 20;
    cfg.preempt = PKV_PREEMPT_SWAP;
    cfg.no_prefix_cache = true;
    rig_open(&r, rig_tiny_model(5), NULL, &cfg);
    rig_draw(1, 97, ids, 16);
    pkv_request request = rig_request(ids, 16, 40);
    rig_submit(&r, &request);
    const got *second = rig_submit(&r, &request);
    while (r.report.n_swapped == 0) rig_step(&r);
    const int32_t n = second->sample[0].n;
    request = rig_request(ids, 2, 2);
    const got *small = rig_submit(&r, &request);
    while (r.report.n_swapped > 0) {
        assert_int_equal(small->sample[0].n, 0);
        assert_int_equal(second->sample[0].n, n);
        rig_step(&r);
    }
    rig_run(&r);
    assert_true(second->result.n_preempted > 0);
    assert_true(small->result.n_preempted == 0);
    rig_close(&r);
}

/* Blocks that two share stay in the pool when both are swapped out. The oldest, alone, needs them:
 * then the latest is computed again instead. */
static void shared_blocks_stay(void **state)
{
    (void)state;
    static int32_t ids[3][32];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 20;
    cfg.watermark_blocks = 0;
    cfg.swap_bytes = 1 << 20;
    cfg.preempt = PKV_PREEMPT_SWAP;
    rig_open(&r, rig_tiny_model(5), NULL, &cfg);
    r.max_steps = 2000;
    for (int32_t i = 0; i < 3; i++) rig_draw(i == 0 ? 1 : 2, 97, ids[i], 32);
    pkv_request q[3] = { rig_request(ids[0], 4, 75), rig_request(ids[1], 32, 30),
                         rig_request(ids[2], 32, 30) };
    const got *g[3];
    for (int32_t i = 0; i < 3; i++) {
        g[i] = rig_submit(&r, &q[i]);
        rig_step(&r); /* so that the third finds the second's prompt */
    }
    rig_run(&r);
    for (int32_t i = 0; i < 3; i++) got_same("shared", g[i], rig_lone(&r, &q[i]));
    assert_true(g[2]->result.n_cached > 0);
    assert_int_equal(g[0]->result.n_preempted, 0);
    assert_true(rig_stats(&r).n_preempt_swap >= 2);
    rig_close(&r);
}

static void watermark(void **state)
{
    (void)state;
    static int32_t ids[64];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 20;
    cfg.watermark_blocks = 5;
    cfg.no_prefix_cache = true;
    rig_open(&r, rig_tiny_model(5), NULL, &cfg);
    rig_draw(1, 97, ids, 64);
    pkv_request request = rig_request(ids, 64, 10); /* 16 of 20 blocks: alone it may */
    const got *first = rig_submit(&r, &request);
    request = rig_request(ids, 4, 2);
    const got *second = rig_submit(&r, &request); /* one block, but five have to stay free */
    rig_step(&r);
    assert_int_equal(first->result.admitted_ns, 0); /* known with the end only */
    assert_int_equal(r.report.n_running, 1);
    assert_int_equal(r.report.n_waiting, 1);
    rig_run(&r);
    assert_true(second->result.admitted_ns > first->result.finish_ns - 1);
    rig_close(&r);
}

/* Prompts around a multiple of the block, each twice, on a pool that holds little more. */
static void borders(void **state)
{
    (void)state;
    static int32_t ids[40];
    rig_draw(3, 97, ids, 40);
    for (int32_t k = 1; k <= 3; k++)
        for (int32_t d = -1; d <= 1; d++) {
            engine_rig r;
            pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
            const int32_t n = k * 8 + d;
            cfg.block_tokens = 8;
            cfg.n_blocks = 1 + 6;
            cfg.watermark_blocks = 0;
            rig_open(&r, rig_tiny_model(5), NULL, &cfg);
            const pkv_request request = rig_request(ids, n, 9);
            const got *want = rig_lone(&r, &request);
            const got *first = rig_submit(&r, &request);
            rig_run(&r);
            const got *again = rig_submit(&r, &request);
            const got *beside = rig_submit(&r, &request);
            rig_run(&r);
            got_same("first", first, want);
            got_same("again", again, want);
            got_same("beside", beside, want);
            /* One token at least is computed; whole blocks are found. */
            assert_int_equal(first->result.n_cached, 0);
            assert_in_range(again->result.n_cached, (n - 1) / 8 * 8, n - 1);
            rig_close(&r);
        }
}

/* What a preempted request computes again is counted as that, its prompt and output once. */
static void counts(void **state)
{
    (void)state;
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    static int32_t ids[4][16];
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 20;
    cfg.watermark_blocks = 0;
    cfg.no_prefix_cache = true;
    rig_open(&r, rig_tiny_model(5), NULL, &cfg);
    for (int32_t i = 0; i < 4; i++) {
        rig_draw(1 + (uint64_t)i, 97, ids[i], 16);
        const pkv_request request = rig_request(ids[i], 16, 20);
        rig_submit(&r, &request);
    }
    rig_run(&r);
    const pkv_engine_stats s = rig_stats(&r);
    assert_true(s.n_preempt_recompute > 0);
    assert_int_equal(s.n_prompt_tokens, 4 * 16);
    assert_int_equal(s.n_output_tokens, 4 * 20);
    assert_true(s.n_recomputed_tokens > 0);
    /* Each token but the last of each request once, and what was done again. */
    assert_int_equal(s.n_computed_tokens, 4 * (16 + 19) + s.n_recomputed_tokens);
    assert_int_equal(s.n_cached_tokens, 0);
    rig_close(&r);
}

static void never(void **state)
{
    (void)state;
    static int32_t ids[100];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 8;
    cfg.n_blocks = 1 + 10;
    cfg.max_seqs = 4;
    rig_open(&r, rig_tiny_model(5), NULL, &cfg);
    rig_draw(3, 97, ids, 100);
    /* 20 + 61 - 1 = 80 tokens: ten blocks. One more token does not fit. */
    pkv_request request = rig_request(ids, 20, 61);
    rig_submit(&r, &request);
    rig_run(&r);
    request.max_new = 62;
    rig_refused(&r, &request, PKV_E_NEVER, "need 11 blocks, the pool has 10; kv_bytes at least ");
    rig_refused(&r, &request, PKV_E_NEVER, ", or max_new at most 61");
    /* Two full blocks shared, 4 x 2 own. */
    request = rig_request(ids, 20, 13);
    request.n = 4;
    rig_submit(&r, &request);
    rig_run(&r);
    request.max_new = 14;
    rig_refused(&r, &request, PKV_E_NEVER, "need 14 blocks");
    rig_refused(&r, &request, PKV_E_NEVER, "or max_new at most 13, or n at most 2");
    request.n = 5;
    rig_refused(&r, &request, PKV_E_NEVER, "max_seqs is 4; max_seqs at least 5");
    /* One token each forks nothing: the prompt's blocks are all. */
    request.n = 4;
    request.n_ids = 79;
    request.max_new = 1;
    rig_submit(&r, &request);
    rig_run(&r);
    request = rig_request(ids, 90, 5);
    rig_refused(&r, &request, PKV_E_NEVER, "need 12 blocks");
    assert_null(strstr(r.log.text, "max_new at most"));
    assert_int_equal(rig_stats(&r).n_refused, 6);
    assert_int_equal(rig_stats(&r).n_submitted, 3);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recompute),
        cmocka_unit_test(swap),
        cmocka_unit_test(swap_as_far_as_it_goes),
        cmocka_unit_test(automatic),
        cmocka_unit_test(who_gives_way),
        cmocka_unit_test(swapped_come_first),
        cmocka_unit_test(shared_blocks_stay),
        cmocka_unit_test(watermark),
        cmocka_unit_test(borders),
        cmocka_unit_test(counts),
        cmocka_unit_test(never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
