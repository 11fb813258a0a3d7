/* The registry of cases: what a row id stands for. */
#include "bench_test.h"

#include "bench_case.h"

static struct case_list build(enum bench_command command, enum bench_profile profile,
                              const char *batch)
{
    struct bench_options o;
    struct bench_error err = { 0, "" };
    struct batch_spec_error e;
    struct case_list list;
    memset(&o, 0, sizeof(o));
    o.command = command;
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

/* The goal of a row; -1: no such row. */
static double goal(const struct case_list *list, const char *id)
{
    char row[160];
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t s = 0; s < list->cases[i].n_sides; s++) {
            snprintf(row, sizeof(row), "%s/%s", list->cases[i].id, list->cases[i].sides[s].id);
            if (strcmp(row, id) == 0) return list->cases[i].sides[s].goal_ratio;
        }
    return -1;
}

/* Rows of `a` that `b` has as well, with the goal they have there. */
static int expect_same_goals(const struct case_list *a, const struct case_list *b)
{
    char row[160];
    int n = 0;
    for (int32_t i = 0; i < a->n; i++)
        for (int32_t s = 0; s < a->cases[i].n_sides; s++) {
            snprintf(row, sizeof(row), "%s/%s", a->cases[i].id, a->cases[i].sides[s].id);
            const double other = goal(b, row), own = a->cases[i].sides[s].goal_ratio;
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_goals) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
