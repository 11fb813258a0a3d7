/* Contiguous regions instead of blocks: the same tokens, another number of requests at a time. */
#include "engine_rig.h"

static const pkv_placement kinds[] = { PKV_PLACE_PAGED, PKV_PLACE_MAX, PKV_PLACE_REQUEST,
                                       PKV_PLACE_POW2 };

/* Samples, beams and single ones in more than the pool holds at a time. */
static void same_bits(void **state)
{
    (void)state;
    static int32_t ids[12][40];
    const uint64_t seed = rig_seed();
    for (size_t k = 0; k < 4 * PKV_ARRAY_LEN(kinds); k++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.placement = kinds[k % 4];
        cfg.block_tokens = 1 + 5 * (int32_t)(k / 4);
        cfg.max_context = 64;
        cfg.n_blocks = 1 + pkv__ceil_div_i32(300, cfg.block_tokens);
        cfg.max_seqs = 10;
        cfg.max_batch_tokens = 20;
        cfg.chunk_tokens = 6;
        cfg.swap_bytes = k % 3 == 0 ? 1 << 20 : 0;
        rig_open(&r, rig_tiny_model(seed), NULL, &cfg);
        pkv_request q[12];
        got *g[12];
        for (int32_t i = 0; i < 12; i++) {
            rig_draw(seed + (uint64_t)i, 97, ids[i], 40);
            q[i] = rig_request(ids[i], 1 + 3 * i, 4 + 2 * i);
            if (i % 3 == 1) {
                q[i].n = 3;
                q[i].sampling.temperature = 1;
                q[i].stop_ids = ids[i];
                q[i].n_stop_ids = 4;
            }
            if (i % 4 == 2) q[i].beams = 2 + i % 3;
            if (i % 4 == 2) q[i].sampling.temperature = 0;
            if (i % 4 == 2) q[i].n = 2;
            g[i] = rig_submit(&r, &q[i]);
        }
        rig_run(&r);
        for (int32_t i = 0; i < 12; i++) got_same("place", g[i], rig_lone(&r, &q[i]));
        if (cfg.placement != PKV_PLACE_PAGED) {
            assert_int_equal(rig_stats(&r).n_preempt_swap, 0);
            assert_int_equal(rig_stats(&r).n_preempt_recompute, 0);
            assert_int_equal(rig_stats(&r).n_cached_tokens, 0);
        }
        rig_close(&r);
    }
}

/* 320 tokens: how many of 16 + 17 - 1 = 32 tokens run at a time, of a context of 100? */
static void how_many(void **state)
{
    (void)state;
    static const struct {
        pkv_placement kind;
        int32_t prompt, max_new, n;
    } cases[] = {
        { PKV_PLACE_MAX, 16, 17, 320 / 100 }, { PKV_PLACE_REQUEST, 16, 17, 320 / 32 },
        { PKV_PLACE_POW2, 16, 17, 320 / 32 }, { PKV_PLACE_REQUEST, 16, 18, 320 / 33 },
        { PKV_PLACE_POW2, 16, 18, 320 / 64 }, { PKV_PLACE_POW2, 16, 60, 320 / 100 },
    };
    static int32_t ids[16];
    rig_draw(1, 97, ids, 16);
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.placement = cases[k].kind;
        cfg.block_tokens = 1;
        cfg.max_context = 100;
        cfg.n_blocks = 1 + 320;
        rig_open(&r, rig_tiny_model(1), NULL, &cfg);
        const pkv_request q = rig_request(ids, cases[k].prompt, cases[k].max_new);
        for (int32_t i = 0; i < 20; i++) rig_submit(&r, &q);
        rig_step(&r);
        assert_int_equal(r.report.n_running, cases[k].n);
        rig_run(&r);
        rig_close(&r);
    }
}

/* Two of three samples end with their first token; their regions are kept with the one that goes
 * on. So max_seqs has room for two more sequences, but the placement only for one: it waits. */
static void regions_of_ended_samples(void **state)
{
    (void)state;
    static int32_t ids[8];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.placement = PKV_PLACE_REQUEST;
    cfg.max_seqs = 4;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    rig_draw(1, 97, ids, 8);
    pkv_request three = rig_request(ids, 8, 20), two = rig_request(ids, 5, 6);
    three.n = 3, two.n = 2;
    three.sampling.temperature = two.sampling.temperature = 2;
    const got *drawn = rig_lone(&r, &three);
    const int32_t stops[2] = { drawn->sample[1].ids[0], drawn->sample[2].ids[0] };
    for (int32_t i = 0; i < drawn->sample[0].n; i++)
        assert_true(drawn->sample[0].ids[i] != stops[0] && drawn->sample[0].ids[i] != stops[1]);
    three.stop_ids = stops;
    three.n_stop_ids = 2;
    const got *a = rig_submit(&r, &three), *b = rig_submit(&r, &two);
    rig_step(&r);
    assert_int_equal(a->n_ended, 2);
    while (a->n_ended < 3) {
        rig_step(&r);
        assert_int_equal(b->n_events, 0);
    }
    rig_run(&r);
    assert_int_equal(a->sample[0].n, 20);
    got_same("three", a, rig_lone(&r, &three));
    got_same("two", b, rig_lone(&r, &two));
    rig_close(&r);
}

static void never(void **state)
{
    (void)state;
    static int32_t ids[16];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.placement = PKV_PLACE_MAX;
    cfg.block_tokens = 4;
    cfg.max_context = 100;
    cfg.n_blocks = 1 + 60;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    rig_draw(1, 97, ids, 16);
    pkv_request q = rig_request(ids, 16, 5);
    q.n = 2;
    rig_submit(&r, &q);
    q.n = 3;
    rig_refused(&r, &q, PKV_E_NEVER, "need 75 blocks, the pool has 60");
    rig_refused(&r, &q, PKV_E_NEVER, "or n at most 2");
    rig_run(&r);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(how_many),
        cmocka_unit_test(regions_of_ended_samples),
        cmocka_unit_test(never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
