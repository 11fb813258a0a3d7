/* What a request gets does not depend on the schedule: thousands of random ones, over pools that
 * hold the largest request to the last block and pools that hold all, and every result is that of
 * plain passes over the request alone, tokens and bits of logprobs.
 *
 *     test_schedule_invariance [N]       N schedules from PKV_SEED (0) on */
#include "schedule_rig.h"

static struct {
    uint64_t first, at;
    int32_t n;
} run = { .n = 300 };

static void say_seed(void)
{
    fprintf(stderr, "# schedule %llu; again: PKV_SEED=%llu test_schedule_invariance 1\n",
            (unsigned long long)run.at, (unsigned long long)run.at);
}

static int after(void **state)
{
    (void)state;
    if (run.at < run.first + (uint64_t)run.n) say_seed();
    return 0;
}

static void schedules(void **state)
{
    (void)state;
    int64_t reached[REACHED_COUNT] = { 0 };
    static request_set set;
    bool is_open = false;
    for (run.at = run.first; run.at < run.first + (uint64_t)run.n; run.at++) {
        const uint64_t number = run.at / SCHEDULES_PER_SET;
        if (is_open && set.number != number) {
            set_close(&set);
            is_open = false;
        }
        if (!is_open) set_open(&set, number);
        is_open = true;
        schedule_run(&set, run.at, reached);
    }
    if (is_open) set_close(&set);
    for (int32_t i = 0; i < REACHED_COUNT; i++)
        fprintf(stderr, "# %-24s %lld\n", reached_names[i], (long long)reached[i]);
    for (int32_t i = 0; i < REACHED_COUNT && run.n >= 300; i++)
        if (reached[i] == 0) fail_msg("%d schedules, and none reached %s", run.n, reached_names[i]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(schedules, after) };
    const char *seed = getenv("PKV_SEED");
    if (seed) run.first = strtoull(seed, NULL, 0);
    if (argc > 1) run.n = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
