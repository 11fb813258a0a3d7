/* The plan says yes exactly when an empty manager of that pool carries one longest sequence, with
 * one FULL group at once, with several ones in the planned chunks. */
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
    static const int32_t wrong[4] = { 0, -1, INT32_MIN, 2049 };
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
    s = good, s.dtype = (pkv_dtype)PKV_DTYPE_COUNT;
    assert_int_equal(pkv_plan(&s, 1 << 20, &cfg, &r), PKV_E_INVALID_ARG);
    s = shape_of(INT32_MAX, INT32_MAX, 256, 1024, PKV_F32);
    assert_int_equal(pkv_plan(&s, SIZE_MAX, &cfg, &r), PKV_E_INVALID_ARG);
    assert_int_equal(r.n_blocks, 0);
}

/* ---------------------------------------------------------------- several groups */

/* Shapes of equal bytes: 8 layers of the unit, fewer of larger blocks. */
static void shapes_of(const pkv_group *groups, int32_t n, int32_t unit, pkv_kv_shape *shapes)
{
    for (int32_t g = 0; g < n; g++) {
        int32_t ratio = groups[g].block_tokens > 0 ? groups[g].block_tokens / unit : 1;
        shapes[g] = shape_of(8 / ratio, 1, 8, unit * ratio, PKV_F32);
    }
}

/* Windows of 64, chunks of 32, 128 tokens, blocks of 16. When the last chunk is reserved 96 tokens
 * are settled: a sliding window sees from token 33 on (two blocks are gone), a chunk one from 64 on
 * (four are). */
static void groups_by_hand(void **state)
{
    (void)state;
    static const struct {
        pkv_group second;
        int32_t rollback, peak; /* with a FULL group of 8 blocks before it */
    } cases[] = {
        { { PKV_GROUP_SLIDING, 16, 64, 0, 0 }, 0, 8 + 8 - 2 },
        { { PKV_GROUP_SLIDING, 16, 64, 0, 0 }, 16, 8 + 8 - 1 }, /* from token 17 on */
        { { PKV_GROUP_SLIDING, 16, 64, 0, 0 }, 40, 8 + 8 },
        { { PKV_GROUP_SLIDING, 16, 64, 5, 0 }, 0, 8 + 8 - 1 }, /* the first block is a sink */
        { { PKV_GROUP_SLIDING, 16, 64, 1000, 0 }, 0, 8 + 8 },
        { { PKV_GROUP_SLIDING, 32, 64, 0, 0 }, 0, 8 + 4 - 1 },
        { { PKV_GROUP_CHUNKED, 16, 64, 0, 0 }, 0, 8 + 8 - 4 },
        { { PKV_GROUP_STATE, 0, 0, 0, 3 }, 0, 8 + 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pkv_group groups[2] = { { PKV_GROUP_FULL, 16, 0, 0, 0 }, cases[i].second };
        pkv_kv_shape shapes[2];
        pkv_blockmgr_config cfg = config_of(2, 128);
        pkv_plan_result r = PKV_PLAN_RESULT_INIT;
        size_t block;
        shapes_of(groups, 2, 16, shapes);
        assert_ok(pkv_kv_block_bytes(&shapes[0], &block));
        cfg.groups = groups, cfg.n_groups = 2, cfg.rollback_tokens = cases[i].rollback;
        assert_ok(pkv_plan_groups(shapes, 40 * block, 32, &cfg, &r));
        assert_int_equal(r.peak_blocks, cases[i].peak);
        assert_int_equal(r.n_blocks, 40);
        assert_int_equal(r.max_full_seqs, 39 / cases[i].peak);
        assert_int_equal(r.usable_tokens, 39 * 16);
        cfg.n_blocks = 40;
        assert_int_equal(r.mgr_bytes, pkv_blockmgr_bytes(&cfg));
        assert_ok(pkv_plan_groups(shapes, 400 * block, 1000, &cfg, &r)); /* all in one chunk */
        int32_t whole = cases[i].second.block_tokens ? 128 / cases[i].second.block_tokens : 3;
        assert_int_equal(r.peak_blocks, 8 + whole);
    }
}

/* Does an empty manager carry one sequence to the end? */
static pkv_status carry(pkv_blockmgr_config cfg, int32_t n_blocks, int32_t chunk)
{
    cfg.n_blocks = n_blocks;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_open(f);
    pkv_status status = PKV_OK;
    int32_t ids[512];
    for (int32_t at = 0, n; at < cfg.max_seq_tokens && status == PKV_OK; at += n) {
        n = cfg.max_seq_tokens - at < chunk ? cfg.max_seq_tokens - at : chunk;
        for (int32_t i = 0; i < n; i++) ids[i] = at + i;
        pkv_tokens t = { ids, n, NULL, 0 };
        status = fx_try_reserve(f, s, n);
        if (status == PKV_OK) assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    }
    fx_end(f);
    return status;
}

static uint32_t draw(uint64_t *rng, uint32_t n)
{
    *rng = *rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*rng >> 33) % n;
}

static pkv_group random_group(uint64_t *rng, int32_t unit)
{
    int32_t tokens = unit << draw(rng, 3), window = 1 + (int32_t)draw(rng, 40);
    int32_t sinks = draw(rng, 2) ? (int32_t)draw(rng, 20) : 0;
    switch (draw(rng, 4)) {
    case 0:
        return (pkv_group){ PKV_GROUP_FULL, tokens, 0, 0, 0 };
    case 1:
        return (pkv_group){ PKV_GROUP_SLIDING, tokens, window, sinks, 0 };
    case 2:
        return (pkv_group){ PKV_GROUP_CHUNKED, tokens, window, sinks, 0 };
    default:
        return (pkv_group){ PKV_GROUP_STATE, 0, 0, 0, 1 + (int32_t)draw(rng, 3) };
    }
}

/* Random groups, chunks and lengths: exactly at the peak, and one block below it. */
static void plan_of_groups_and_admission_agree(void **state)
{
    (void)state;
    uint64_t rng = 20260212;
    int slid = 0;
    for (int i = 0; i < 4000; i++) {
        int32_t unit = 1 + (int32_t)draw(&rng, 6), n = 1 + (int32_t)draw(&rng, 4);
        int32_t chunk = 1 + (int32_t)draw(&rng, 60), whole = 0;
        pkv_group groups[4];
        pkv_kv_shape shapes[4];
        pkv_blockmgr_config cfg = config_of(1, 1 + (int32_t)draw(&rng, 150));
        pkv_plan_result r = PKV_PLAN_RESULT_INIT;
        size_t block;
        for (int32_t g = 0; g < n; g++) groups[g] = random_group(&rng, unit);
        int32_t at = (int32_t)draw(&rng, (uint32_t)n); /* there is a group of units */
        do groups[at] = random_group(&rng, unit);
        while (groups[at].block_tokens != unit);
        shapes_of(groups, n, unit, shapes);
        assert_ok(pkv_kv_block_bytes(&shapes[at], &block));
        cfg.groups = groups, cfg.n_groups = n;
        cfg.rollback_tokens = draw(&rng, 3) ? 0 : (int32_t)draw(&rng, 30);
        if (draw(&rng, 4) == 0) cfg.flags = 0;
        assert_ok(pkv_plan_groups(shapes, 4000 * block, chunk, &cfg, &r));
        int32_t peak = r.peak_blocks;
        assert_ok(pkv_plan_groups(shapes, (size_t)(peak + 1) * block, chunk, &cfg, &r));
        assert_int_equal(r.max_full_seqs, 1);
        assert_ok(carry(cfg, peak + 1, chunk));
        for (int32_t g = 0; g < n; g++)
            whole += groups[g].block_tokens ? (cfg.max_seq_tokens - 1) / groups[g].block_tokens + 1
                                            : groups[g].state_blocks;
        slid += peak < whole;
        if (peak == 1) continue;
        assert_int_equal(pkv_plan_groups(shapes, (size_t)peak * block, chunk, &cfg, &r),
                         PKV_E_NEVER);
        assert_int_equal(r.n_blocks, peak);
        assert_string_equal(pkv_status_name(carry(cfg, peak, chunk)), "PKV_E_NEVER");
    }
    assert_true(slid > 500);
}

static void bad_groups(void **state)
{
    (void)state;
    pkv_group groups[PKV_MAX_GROUPS + 1], one = { PKV_GROUP_FULL, 16, 0, 0, 0 };
    pkv_kv_shape shapes[PKV_MAX_GROUPS + 1];
    pkv_blockmgr_config cfg = config_of(2, 128), c;
    pkv_plan_result r = PKV_PLAN_RESULT_INIT;
    const size_t bytes = 1 << 20;
    for (int i = 0; i <= PKV_MAX_GROUPS; i++) groups[i] = one;
    shapes_of(groups, PKV_MAX_GROUPS + 1, 16, shapes);
    cfg.groups = groups, cfg.n_groups = PKV_MAX_GROUPS;
    assert_ok(pkv_plan_groups(shapes, bytes, 16, &cfg, &r));
    cfg.n_groups = 2;
    assert_ok(pkv_plan_groups(shapes, bytes, 16, &cfg, &r));
    r = (pkv_plan_result)PKV_PLAN_RESULT_INIT;
    assert_int_equal(pkv_plan_groups(NULL, bytes, 16, &cfg, &r), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, NULL, &r), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &cfg, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan_groups(shapes, bytes, 0, &cfg, &r), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan_groups(shapes, bytes, -1, &cfg, &r), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_plan_groups(shapes, 0, 16, &cfg, &r), PKV_E_INVALID_ARG);
    c = cfg, c.groups = NULL;
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &c, &r), PKV_E_INVALID_ARG);
    static const int32_t wrong[3] = { 0, -1, PKV_MAX_GROUPS + 1 };
    for (int i = 0; i < 3; i++) {
        c = cfg, c.n_groups = wrong[i];
        assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &c, &r), PKV_E_INVALID_ARG);
    }
    shapes[1].block_tokens = 8; /* not the group's */
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &cfg, &r), PKV_E_INVALID_ARG);
    shapes[1].block_tokens = 16, shapes[1].n_layers *= 2; /* other bytes */
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &cfg, &r), PKV_E_INVALID_ARG);
    shapes[1] = shapes[0], groups[1].window_tokens = 5; /* no such group */
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &cfg, &r), PKV_E_INVALID_ARG);
    groups[0] = groups[1] = (pkv_group){ PKV_GROUP_STATE, 0, 0, 0, 2 };
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &cfg, &r), PKV_E_INVALID_ARG);
    assert_int_equal(r.n_blocks, 0);
    groups[0] = groups[1] = one;
    c = cfg, c.struct_size--;
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &c, &r), PKV_E_ABI);
    r.struct_size++;
    assert_int_equal(pkv_plan_groups(shapes, bytes, 16, &cfg, &r), PKV_E_ABI);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_by_hand),
        cmocka_unit_test(the_null_block_is_planned_for),
        cmocka_unit_test(plan_and_admission_agree),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(groups_by_hand),
        cmocka_unit_test(plan_of_groups_and_admission_agree),
        cmocka_unit_test(bad_groups),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
