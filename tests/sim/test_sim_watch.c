/* What an observer sees, by hand: events, samples, maps; and the averages that samples explain.
 * Steps last 10 ns, blocks have two slots.
 *
 * A 3 + 2 at 0, B 2 + 3 at 4, pool 8:
 *   step  begins  runs  holds  tokens  free
 *   0     0       A     4      3       4
 *   1     10      A     6      4       2     B is let in with 2 slots; A takes 2; B is put out
 *   2     20      B     4      2       4     A is done, B in again: 2 slots, 2 more
 *   3     30      B     4      3       4
 *   4     40      B     6      4       2     done at 50 */
#include "fake_policy.h"
#include "sim_recorder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const pkv_sim_request two[2] = { { 0, 3, 2 }, { 4, 2, 3 } };

static void expect_close(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-12)) fail_msg("%s is %.17g, expected %.17g", what, got, want);
}

static pkv_sim_config two_config(void)
{
    pkv_sim_config cfg = fake_config(8);
    cfg.policy.block_tokens = 2;
    return cfg;
}

/* Both engines see the same; *rec has it. */
static pkv_sim_result watch(pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                            recorder *rec)
{
    const pkv_sim_observer observer = rec->observer;
    recorder other;
    recorder_init(&other, observer.sample_interval_ns, observer.map_cells, rec->pool_units);
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    for (int k = 0; k < 2; k++) {
        cfg->engine = k == 0 ? PKV_SIM_LEAP : PKV_SIM_NAIVE;
        cfg->observer = k == 0 ? &rec->observer : &other.observer;
        assert_int_equal(pkv__sim_run_policy(cfg, reqs, n, &fake_policy, &res), PKV_OK);
    }
    assert_true(recorder_equal(rec, &other));
    assert_int_equal(rec->n_bad, 0);
    recorder_deinit(&other);
    return res;
}

static void test_events(void **state)
{
    (void)state;
    static const pkv_sim_event want[] = {
        { 0, 0, PKV_SIM_EVENT_ARRIVE, 0, 0, 0, 0 },  { 0, 0, PKV_SIM_EVENT_ADMIT, 0, 3, 1, 4 },
        { 4, 0, PKV_SIM_EVENT_ARRIVE, 1, 0, 0, 0 },  { 10, 1, PKV_SIM_EVENT_ADMIT, 1, 2, 1, 2 },
        { 10, 1, PKV_SIM_EVENT_GROW, 0, 4, 0, 6 },   { 10, 1, PKV_SIM_EVENT_PREEMPT, 1, 2, 0, 0 },
        { 20, 2, PKV_SIM_EVENT_FINISH, 0, 5, 0, 0 }, { 20, 2, PKV_SIM_EVENT_ADMIT, 1, 2, 1, 2 },
        { 20, 2, PKV_SIM_EVENT_GROW, 1, 2, 0, 4 },   { 40, 4, PKV_SIM_EVENT_GROW, 1, 4, 0, 6 },
        { 50, 5, PKV_SIM_EVENT_FINISH, 1, 5, 0, 0 },
    };
    pkv_sim_config cfg = two_config();
    fake.cached = 1;
    recorder rec;
    recorder_init(&rec, 0, 0, 8);
    watch(&cfg, two, 2, &rec);
    assert_int_equal(rec.n_events, PKV_ARRAY_LEN(want));
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        const pkv_sim_event *e = &rec.events[k];
        if (e->t_ns != want[k].t_ns || e->step != want[k].step || e->kind != want[k].kind ||
            e->request != want[k].request || e->tokens != want[k].tokens ||
            e->cached != want[k].cached || e->slots != want[k].slots)
            fail_msg("event %zu: t %lld step %lld kind %d request %lld tokens %lld cached %lld "
                     "slots %lld",
                     k, (long long)e->t_ns, (long long)e->step, (int)e->kind, (long long)e->request,
                     (long long)e->tokens, (long long)e->cached, (long long)e->slots);
    }
    recorder_deinit(&rec);
}

/* B goes to the swap space instead; every admission moves a token, which takes 3 ns. */
static void test_events_of_moves(void **state)
{
    (void)state;
    static const struct {
        int64_t t, request, tokens, slots;
        pkv_sim_event_kind kind;
    } want[] = {
        { 0, 0, 0, 0, PKV_SIM_EVENT_ARRIVE },    { 0, 0, 3, 4, PKV_SIM_EVENT_ADMIT },
        { 0, -1, 1, 0, PKV_SIM_EVENT_MOVE },     { 4, 1, 0, 0, PKV_SIM_EVENT_ARRIVE },
        { 13, 1, 2, 2, PKV_SIM_EVENT_ADMIT },    { 13, 0, 4, 6, PKV_SIM_EVENT_GROW },
        { 13, 1, 2, 0, PKV_SIM_EVENT_SWAP_OUT }, { 13, -1, 1, 0, PKV_SIM_EVENT_MOVE },
        { 26, 0, 5, 0, PKV_SIM_EVENT_FINISH },   { 26, 1, 2, 2, PKV_SIM_EVENT_SWAP_IN },
        { 26, 1, 2, 4, PKV_SIM_EVENT_GROW },     { 46, 1, 4, 6, PKV_SIM_EVENT_GROW },
        { 56, 1, 5, 0, PKV_SIM_EVENT_FINISH },
    };
    pkv_sim_config cfg = two_config();
    cfg.policy.swap = true;
    cfg.swap_tokens = 8;
    fake.move_every = 1;
    fake.move_ns = 3;
    recorder rec;
    recorder_init(&rec, 0, 0, 8);
    assert_int_equal(watch(&cfg, two, 2, &rec).move_ns, 6);
    assert_int_equal(rec.n_events, PKV_ARRAY_LEN(want));
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        assert_int_equal(rec.events[k].t_ns, want[k].t);
        assert_int_equal(rec.events[k].kind, want[k].kind);
        assert_int_equal(rec.events[k].request, want[k].request);
        assert_int_equal(rec.events[k].tokens, want[k].tokens);
        assert_int_equal(rec.events[k].slots, want[k].slots);
    }
    recorder_deinit(&rec);
}

/* Every 7 ns from the first arrival on: 0 and 7 see step 0, 14 step 1, 21 and 28 step 2, 35 step 3,
 * 42 and 49 step 4. B waits from the start of step 1 on. Cells of two slots; one token and one slot
 * without are a draw, which the token wins. */
static void test_samples(void **state)
{
    (void)state;
    static const struct {
        int64_t step, token, internal, shortage, idle, waiting;
        const char *map; /* . free, t token, i internal */
    } want[] = {
        { 0, 3, 1, 0, 4, 0, "tt.." }, { 0, 3, 1, 0, 4, 0, "tt.." }, { 1, 4, 2, 2, 0, 1, "tti." },
        { 2, 2, 2, 0, 4, 0, "ti.." }, { 2, 2, 2, 0, 4, 0, "ti.." }, { 3, 3, 1, 0, 4, 0, "tt.." },
        { 4, 4, 2, 0, 2, 0, "tti." }, { 4, 4, 2, 0, 2, 0, "tti." },
    };
    pkv_sim_request shifted[2] = { two[0], two[1] };
    for (int64_t t0 = 0; t0 <= 100; t0 += 100) {
        shifted[0].arrival_ns = t0;
        shifted[1].arrival_ns = t0 + 4;
        pkv_sim_config cfg = two_config();
        recorder rec;
        recorder_init(&rec, 7, 4, 8);
        watch(&cfg, shifted, 2, &rec);
        assert_int_equal(rec.n_samples, PKV_ARRAY_LEN(want));
        for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
            const pkv_sim_sample *s = &rec.samples[k];
            assert_int_equal(s->t_ns, t0 + 7 * (int64_t)k);
            assert_int_equal(s->step, want[k].step);
            assert_int_equal(s->token, want[k].token);
            assert_int_equal(s->logical, want[k].token);
            assert_int_equal(s->internal, want[k].internal);
            assert_int_equal(s->shortage, want[k].shortage);
            assert_int_equal(s->idle, want[k].idle);
            assert_int_equal(s->waiting, want[k].waiting);
            assert_int_equal(s->running, 1);
            assert_int_equal(s->swapped, 0);
            assert_int_equal(s->largest_free, want[k].shortage + want[k].idle);
            for (int c = 0; c < 4; c++) {
                const uint8_t state_of = rec.maps[4 * k + (size_t)c];
                assert_int_equal(".ti"[state_of == PKV_SIM_MAP_INTERNAL ? 2 : state_of],
                                 want[k].map[c]);
            }
        }
        recorder_deinit(&rec);
    }
}

/* Two cells of four slots: in step 1 the second one has two slots in A's last block and two free
 * ones, a draw that free wins. */
static void test_draw_with_free(void **state)
{
    (void)state;
    pkv_sim_config cfg = two_config();
    recorder rec;
    recorder_init(&rec, 10, 2, 8);
    watch(&cfg, two, 2, &rec);
    assert_int_equal(rec.n_samples, 5);
    for (size_t k = 0; k < 5; k++) {
        assert_int_equal(rec.maps[2 * k], PKV_SIM_MAP_TOKEN);
        assert_int_equal(rec.maps[2 * k + 1], PKV_SIM_MAP_FREE);
    }
    recorder_deinit(&rec);
}

/* Between the steps nothing runs, and samples go on; a leap of many steps has one per step. */
static void test_samples_of_gaps_and_leaps(void **state)
{
    (void)state;
    const pkv_sim_request reqs[3] = { { 0, 2, 20 }, { 33, 90, 5 }, { 500, 2, 1 } };
    pkv_sim_config cfg = fake_config(100);
    cfg.policy.block_tokens = 50; /* the second one waits until the first is done */
    recorder rec;
    recorder_init(&rec, 10, 0, 100);
    watch(&cfg, reqs, 3, &rec);
    assert_int_equal(rec.n_samples, 51);
    for (int64_t k = 0; k < rec.n_samples; k++) {
        const pkv_sim_sample *s = &rec.samples[k];
        assert_int_equal(s->t_ns, 10 * k);
        assert_int_equal(s->step, k < 25 ? k : 25);
        assert_int_equal(s->running, k < 25 || k == 50);
        assert_int_equal(s->waiting, k >= 4 && k < 20);
        assert_int_equal(s->token, k < 20 ? 2 + k : k < 25 ? 70 + k : k < 50 ? 0 : 2);
        assert_int_equal(s->shortage, k >= 4 && k < 20 ? 50 : 0);
    }
    recorder_deinit(&rec);
}

/* Longest run: half of what is free, while something is free: 4 of pool 6 in step 0, then nothing.
 * With places, what is free and would suffice is unusable. */
static void test_scatter(void **state)
{
    (void)state;
    const pkv_sim_request one = { 0, 3, 3 };
    pkv_sim_config cfg = two_config();
    cfg.pool_tokens = cfg.max_model_len = 6;
    fake.places = true;
    pkv_sim_result res = fake_run(&cfg, &one, 1);
    expect_close("scatter", res.scatter, 0.5);
    expect_close("idle", res.split.idle, 2 / 18.0);
    cfg = two_config();
    fake.places = true;
    res = fake_run(&cfg, two, 2);
    expect_close("scatter", res.scatter, 0.5);
    expect_close("unusable", res.split.unusable, 2 / 40.0);
    expect_close("idle", res.split.idle, (4 + 4 + 4 + 2) / 40.0);
    expect_close("waste while somebody waited", res.waste_waited, (8 - 4) / 40.0);
}

/* An event is all that is asked for, or nothing at all. */
static void test_partial_observers(void **state)
{
    (void)state;
    pkv_sim_config cfg = two_config();
    recorder rec;
    recorder_init(&rec, 7, 4, 8);
    rec.observer.on_event = NULL;
    cfg.observer = &rec.observer;
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv__sim_run_policy(&cfg, two, 2, &fake_policy, &res), PKV_OK);
    assert_int_equal(rec.n_events, 0);
    assert_int_equal(rec.n_samples, 8);
    rec.observer.on_sample = NULL;
    assert_int_equal(pkv__sim_run_policy(&cfg, two, 2, &fake_policy, &res), PKV_OK);
    assert_int_equal(rec.n_samples, 8);
    recorder_deinit(&rec);
}

/* As long an interval as there is: one sample. */
static void test_longest_interval(void **state)
{
    (void)state;
    pkv_sim_config cfg = two_config();
    recorder rec;
    recorder_init(&rec, INT64_MAX, 0, 8);
    watch(&cfg, two, 2, &rec);
    assert_int_equal(rec.n_samples, 1);
    recorder_deinit(&rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_events_of_moves),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_draw_with_free),
        cmocka_unit_test(test_samples_of_gaps_and_leaps),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_partial_observers),
        cmocka_unit_test(test_longest_interval),
    };
    return cmocka_run_group_tests_name("sim_watch", tests, NULL, NULL);
}
