/* The plan says yes exactly when an empty manager of that pool admits one longest sequence. */
#include "mgr_fixture.h"

static pkv_kv_shape shape_of(int32_t layers, int32_t heads, int32_t dim, int32_t tokens,
                             pkv_dtype t)
{
    return (pkv_kv_shape){ layers, heads, dim, tokens, t };
}

static pkv_blockmgr_config config_of(int32_t seqs, int32_t longest)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.max_seqs = seqs;
    cfg.max_seq_tokens = longest;
    return cfg;
}

/* 32 layers, 8 heads of 128, f16, 16 tokens: 32 * 8 * 2 * 16 * 128 * 2 = 2 MiB per block. */
static void numbers_by_hand(void **state)
{
    (void)state;
    pkv_kv_shape shape = shape_of(32, 8, 128, 16, PKV_F16);
    pkv_blockmgr_config cfg = config_of(64, 4096);
    pkv_plan_result r = PKV_PLAN_RESULT_INIT;
    size_t mib = (size_t)1 << 20;
    assert_ok(pkv_plan(&shape, 8192 * mib + 2 * mib - 1, &cfg, &r));
    assert_int_equal(r.block_bytes, 2 * mib);
    assert_int_equal(r.n_blocks, 4096);
    assert_int_equal(r.usable_blocks, 4095);
    assert_int_equal(r.usable_tokens, 4095 * 16);
    assert_int_equal(r.max_full_seqs, 4095 / 256);
    cfg.n_blocks = r.n_blocks;
    cfg.block_tokens = 16;
    assert_int_equal(r.mgr_bytes, pkv_blockmgr_bytes(&cfg));
    assert_ok(pkv_plan(&shape, 8192 * mib - 1, &cfg, &r)); /* one byte less: one block less */
    assert_int_equal(r.n_blocks, 4095);
}

/* The null block counts: exactly the longest sequence, and one block too few. */
static void the_null_block_is_planned_for(void **state)
{
    (void)state;
    pkv_kv_shape shape = shape_of(1, 1, 8, 4, PKV_F32);
    pkv_blockmgr_config cfg = config_of(2, 40);
    pkv_plan_result r = PKV_PLAN_RESULT_INIT;
    size_t block;
    assert_ok(pkv_kv_block_bytes(&shape, &block));
    assert_ok(pkv_plan(&shape, 11 * block, &cfg, &r));
    assert_int_equal(r.n_blocks, 11);
    assert_int_equal(r.usable_blocks, 10);
    assert_int_equal(r.max_full_seqs, 1);
    cfg.n_blocks = r.n_blocks;
    cfg.block_tokens = 4;
    fx *f = fx_from(&cfg);
    fx_reserve(f, fx_open(f), 40);
    fx_end(f);
    r = (pkv_plan_result)PKV_PLAN_RESULT_INIT;
    assert_int_equal(pkv_plan(&shape, 11 * block - 1, &cfg, &r), PKV_E_NEVER);
    assert_int_equal(r.n_blocks, 10); /* filled all the same */
    assert_int_equal(r.max_full_seqs, 0);
    cfg.n_blocks = 10;
    f = fx_from(&cfg);
    pkv_seq s = fx_open(f);
    fx_refused(f, PKV_E_NEVER, fx_try_reserve(f, s, 40));
    fx_reserve(f, s, 36);
    fx_end(f);
}

/* Over many shapes and budgets, on both sides of the edge. */
static void plan_and_admission_agree(void **state)
{
    (void)state;
    uint64_t rng = 20260101;
    int yes = 0, never = 0, bad = 0;
    for (int i = 0; i < 20000; i++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        uint32_t r1 = (uint32_t)(rng >> 33), r2 = (uint32_t)(rng >> 13);
        pkv_kv_shape shape = shape_of(1 + (int32_t)(r1 % 3), 1 + (int32_t)(r1 / 3 % 3), 8,
                                      1 + (int32_t)(r1 / 9 % 20), (pkv_dtype)(r1 / 180 % 3));
        pkv_blockmgr_config cfg = config_of(1, 1 + (int32_t)(r2 % 100));
        pkv_plan_result r = PKV_PLAN_RESULT_INIT;
        size_t block;
        assert_ok(pkv_kv_block_bytes(&shape, &block));
        size_t bytes = block * (r2 / 100 % 60) + r2 / 6000 % 3 - (r2 / 100 % 60 > 0);
        pkv_status st = pkv_plan(&shape, bytes, &cfg, &r);
        if (bytes / block < 2) {
            assert_int_equal(st, PKV_E_INVALID_ARG);
            bad++;
            continue;
        }
        assert_int_equal(r.n_blocks, bytes / block);
        cfg.n_blocks = r.n_blocks;
        cfg.block_tokens = shape.block_tokens;
        fx *f = fx_from(&cfg);
        pkv_status admitted = fx_try_reserve(f, fx_open(f), cfg.max_seq_tokens);
        assert_string_equal(pkv_status_name(st), pkv_status_name(admitted));
        *(st == PKV_OK ? &yes : &never) += 1;
        fx_end(f);
    }
    assert_true(yes > 1000 && never > 1000 && bad > 100);
}

static void bad_arguments(void **state)
{
    (void)state;
    pkv_kv_shape good = shape_of(1, 1, 8, 4, PKV_F32), s;
    pkv_blockmgr_config cfg = config_of(2, 40);
    pkv_plan_result r = PKV_PLAN_RESULT_INIT;
    assert_int_equal(pkv_plan(NULL, 1 << 20, &cfg, &r), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan(&good, 1 << 20, NULL, &r), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan(&good, 1 << 20, &cfg, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan(&good, 0, &cfg, &r), PKV_E_INVALID_ARG);
    static const int32_t wrong[4] = { 0, -1, INT32_MIN, 1025 };
    for (int i = 0; i < 4; i++) {
        s = good, s.block_tokens = wrong[i];
        assert_int_equal(pkv_plan(&s, 1 << 20, &cfg, &r), PKV_E_INVALID_ARG);
        if (wrong[i] > 0) continue;
        s = good, s.n_layers = wrong[i];
        assert_int_equal(pkv_plan(&s, 1 << 20, &cfg, &r), PKV_E_INVALID_ARG);
        s = good, s.n_kv_heads = wrong[i];
        assert_int_equal(pkv_plan(&s, 1 << 20, &cfg, &r), PKV_E_INVALID_ARG);
        s = good, s.head_dim = wrong[i];
        assert_int_equal(pkv_plan(&s, 1 << 20, &cfg, &r), PKV_E_INVALID_ARG);
        pkv_blockmgr_config c = cfg;
        c.max_seqs = wrong[i];
        assert_int_equal(pkv_plan(&good, 1 << 20, &c, &r), PKV_E_INVALID_ARG);
        c = cfg;
        c.max_seq_tokens = wrong[i];
        assert_int_equal(pkv_plan(&good, 1 << 20, &c, &r), PKV_E_INVALID_ARG);
    }
    s = good, s.dtype = PKV_E4M3;
    assert_int_equal(pkv_plan(&s, 1 << 20, &cfg, &r), PKV_E_UNSUPPORTED);
    s = shape_of(INT32_MAX, INT32_MAX, 256, 1024, PKV_F32);
    assert_int_equal(pkv_plan(&s, SIZE_MAX, &cfg, &r), PKV_E_INVALID_ARG);
    assert_int_equal(r.n_blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_by_hand),
        cmocka_unit_test(the_null_block_is_planned_for),
        cmocka_unit_test(plan_and_admission_agree),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
