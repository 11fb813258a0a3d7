/* The registry of cases: what a row id stands for. */
#include "bench_test.h"

#include "bench_case.h"

static struct case_list build_for(enum bench_command command, enum bench_profile profile,
                                  const char *batch, int32_t n_threads, pkv_isa isa)
{
    struct bench_options o;
    struct bench_error err = { 0, "" };
    struct batch_spec_error e;
    struct case_list list;
    memset(&o, 0, sizeof(o));
    o.command = command;
    o.n_threads = n_threads;
    o.isa = isa;
    o.profile = profile;
    o.trace = "trace.jsonl";
    o.h_q = 32;
    o.h_kv = 8;
    o.dim = 128;
    o.dtype = PKV_F16;
    o.n_blocks = OPTIONS_MAX_BLOCKS;
    for (int32_t i = 0; i < o.n_blocks; i++) o.block_tokens[i] = 4 << i;
    o.has_batch = batch != NULL;
    if (batch && !batch_spec_parse(batch, &o.batch, &e)) fail_msg("%s", e.text);
    if (!case_list_build(&o, &list, &err)) fail_msg("%s", err.text);
    return list;
}

static struct case_list build(enum bench_command command, enum bench_profile profile,
                              const char *batch)
{
    return build_for(command, profile, batch, 1, PKV_ISA_BEST);
}

static double limit_of(const struct bench_side *s, enum bench_goal_kind kind)
{
    for (int32_t i = 0; i < s->n_goals; i++)
        if (s->goals[i].kind == kind) return s->goals[i].limit;
    return 0;
}

/* A goal of a row, 0 if it has none; -1: no such row. */
static double goal_of(const struct case_list *list, const char *id, enum bench_goal_kind kind)
{
    char row[160];
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t s = 0; s < list->cases[i].n_sides; s++) {
            snprintf(row, sizeof(row), "%s/%s", list->cases[i].id, list->cases[i].sides[s].id);
            if (strcmp(row, id) == 0) return limit_of(&list->cases[i].sides[s], kind);
        }
    return -1;
}

static double goal(const struct case_list *list, const char *id)
{
    return goal_of(list, id, GOAL_RATIO);
}

/* Rows of `a` that `b` has as well, with the goal they have there. */
static int expect_same_goals(const struct case_list *a, const struct case_list *b)
{
    char row[160];
    int n = 0;
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t s = 0; s < a->cases[i].n_sides; s++) {
            snprintf(row, sizeof(row), "%s/%s", a->cases[i].id, a->cases[i].sides[s].id);
            const double other = goal(b, row), own = limit_of(&a->cases[i].sides[s], GOAL_RATIO);
            if (other < 0) continue;
            if (own > other || own < other) fail_msg("%s: %g and %g", row, own, other);
            n++;
        }
    return n;
}

static void test_goals(void **state)
{
    (void)state;
    struct case_list quick = build(CMD_RUN, PROFILE_QUICK, NULL);
    struct case_list full = build(CMD_RUN, PROFILE_FULL, NULL);
    struct case_list given = build(CMD_KERNEL, PROFILE_QUICK, "32q1s2k");
    struct case_list given8 = build(CMD_KERNEL, PROFILE_QUICK, "8q1s2k");
    assert_true(expect_same_goals(&quick, &full) > 10);
    assert_true(expect_same_goals(&given, &quick) > 3);
    assert_true(expect_same_goals(&given, &full) > 3);
    assert_true(expect_same_goals(&given8, &quick) > 3);
    assert_near(goal(&given, "kernel/32q1s2k/32x8/d128/f16/paged-random/b16"), 1.05, 0);
    assert_near(goal(&given, "kernel/32q1s2k/32x8/d128/f16/paged-random/b8"), 1.10, 0);
    assert_near(goal(&given8, "kernel/8q1s2k/32x8/d128/f16/paged-random/b16"), 1.10, 0);
    /* Each of the eight sizes has its row. */
    assert_near(goal(&given, "kernel/32q1s2k/32x8/d128/f16/paged-random/b4"), 0, 0);
    assert_near(goal(&given, "kernel/32q1s2k/32x8/d128/f16/paged-random/b512"), 1.05, 0);
    case_list_free(&quick);
    case_list_free(&full);
    case_list_free(&given);
    case_list_free(&given8);
}

/* The share of reads that decode should reach, by level, dtype and heads; prefill; dtypes. */
static void test_share_goals(void **state)
{
    static const struct {
        const char *id;
        enum bench_goal_kind kind;
        double avx512, avx2;
    } rows[] = {
        { "kernel/32q1s2k/32x8/d128/f16/t2/paged-random/b16", GOAL_SHARE, 0.75, 0.60 },
        { "kernel/32q1s2k/32x8/d128/f16/paged-random/b16", GOAL_SHARE, 0, 0 }, /* one thread */
        { "kernel/32q1s2k/32x8/d128/f16/t2/paged-seq/b16", GOAL_SHARE, 0, 0 },
        { "kernel/32q1s2k/32x8/d128/f32/t2/paged-random/b16", GOAL_SHARE, 0.82, 0.75 },
        { "kernel/32q1s2k/64x8/d128/bf16/t2/paged-random/b16", GOAL_SHARE, 0.65, 0 },
        { "kernel/32q1s2k/32x8/d128/int8/t2/paged-random/b16", GOAL_SHARE, 0, 0 },
        { "kernel/1q2k/32x8/d128/bf16/t2/paged-random/b16", GOAL_SHARE, 0.55, 0.55 },
        { "kernel/1q2k/32x8/d128/bf16/t2/paged-random/b16", GOAL_RATE, 150, 0 },
        { "kernel/dtypes/32q1s2k/32x8/d128/t2/int8", GOAL_SPEED, 1.35, 1.35 },
        { "kernel/dtypes/32q1s2k/32x8/d128/t2/int4", GOAL_SPEED, 1.8, 1.8 },
        { "kernel/sweep-batch/s1k/32x8/d128/f16/t2/batch-256", GOAL_LINE, 0.8, 0.8 },
        { "kernel/8q1s2k/32x8/d128/f16/t2/paged-random/b8", GOAL_LINE, 0.8, 0.8 },
        { "kernel/8q1s2k/32x8/d128/f16/t2/paged-random/b4", GOAL_LINE, 0, 0 },
        { "moves/8kv/d128/f16/t2/blocks-copy", GOAL_SHARE, 0.8, 0.8 },
    };
    (void)state;
    struct case_list best = build_for(CMD_KERNEL, PROFILE_FULL, NULL, 2, PKV_ISA_AVX512);
    struct case_list avx2 = build_for(CMD_KERNEL, PROFILE_FULL, NULL, 2, PKV_ISA_AVX2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (goal_of(&best, rows[i].id, rows[i].kind) < 0) fail_msg("no row %s", rows[i].id);
        assert_near(goal_of(&best, rows[i].id, rows[i].kind), rows[i].avx512, 0);
        assert_near(goal_of(&avx2, rows[i].id, rows[i].kind), rows[i].avx2, 0);
    }
    case_list_free(&best);
    case_list_free(&avx2);
}

/* Every id once: it is the key of comparisons. */
static void test_ids(void **state)
{
    static const enum bench_profile profiles[] = { PROFILE_QUICK, PROFILE_FULL, PROFILE_CI };
    (void)state;
    for (int p = 0; p < 3; p++) {
        struct case_list list = build_for(CMD_RUN, profiles[p], NULL, 2, PKV_ISA_BEST);
        for (int32_t i = 0; i < list.n; i++) {
            for (int32_t k = 0; k < i; k++)
                assert_string_not_equal(list.cases[i].id, list.cases[k].id);
            for (int32_t s = 0; s < list.cases[i].n_sides; s++)
                for (int32_t k = 0; k < s; k++)
                    assert_string_not_equal(list.cases[i].sides[s].id, list.cases[i].sides[k].id);
        }
        case_list_free(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_goals),
                                        cmocka_unit_test(test_share_goals),
                                        cmocka_unit_test(test_ids) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
