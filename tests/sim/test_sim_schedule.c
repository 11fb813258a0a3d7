/* Scheduling by hand, on a policy of counters with one slot per token: who runs in which step, what
 * it costs, how long it takes. Steps last 10 ns. */
#include "fake_policy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define expect_close(got, want, tolerance) close_to(got, want, tolerance, #got, __LINE__)
static void close_to(double got, double want, double tolerance, const char *what, int line)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("line %d: %s is %.17g, expected %.17g +- %g", line, what, got, want, tolerance);
}

/* ---------------------------------------------------------------- swap */

/* Pool 8, swap space 3; a suspend costs 5 ns, a resume 7. A, B and C have 2 + 4 tokens.
 *   step  resumed  room for                           runs         lasts
 *   0              A 3, B 3; C has none: C out (2)    A B          10 + 5
 *   1     C        A 4: full, C out; B 4              A B          10 + 7 + 5
 *   2     -        A 5: full; B holds 4, above 3:     A            10
 *                  its tokens are lost
 *   3     C        A 6, C 3: full, C out              A            10 + 7 + 5   A done
 *   4     C, B in  C 3, B 5                           C B          10 + 7
 *   5              C 4: full, the latest arrival is   B            10 + 5       B done
 *                  C itself, although B came last
 *   6-8   C        C 4, 5, 6                          C            10 + 7, 10, 10
 * In step 3 B (4 tokens) does not fit beside A and C. */
static void test_swap(void **state)
{
    (void)state;
    const pkv_sim_request reqs[3] = { { 0, 2, 4 }, { 0, 2, 4 }, { 0, 2, 4 } };
    pkv_sim_config cfg = fake_config(8);
    cfg.policy.swap = true;
    cfg.swap_tokens = 3;
    fake.suspend_ns = 5;
    fake.resume_ns = 7;
    const pkv_sim_result res = fake_run(&cfg, reqs, 3);
    assert_int_equal(res.n_steps, 9);
    assert_int_equal(res.end_ns, 138);
    assert_int_equal(res.move_ns, 4 * 5 + 4 * 7);
    assert_int_equal(res.n_preemptions, 5);
    assert_int_equal(res.n_swaps, 4);
    assert_int_equal(res.n_preempted_requests, 2);
    assert_int_equal(res.n_admissions, 4);
    assert_int_equal(res.recomputed_tokens, 4);
    assert_int_equal(res.generated_tokens, 12);
    assert_int_equal(res.waited_ns, 15 + 22 + 10 + 22 + 15);
    assert_int_equal(res.max_queue, 3);
    /* A 15 + 22 + 10 + 22, B 15 + 22 + 17 + 15, C 17 + 17 + 10 + 10 */
    expect_close(res.residence_s.mean, (69 + 69 + 54) / 3.0 * 1e-9, 1e-18);
    expect_close(res.residence_s.p50, 69e-9, 1e-18);
    expect_close(res.mean_batch, (69 + 69 + 54) / 138.0, 1e-12);
    /* admitted 4, room taken 4 times by each, out 5, in 4, done 3 */
    assert_int_equal(res.n_events, 4 + 3 * 4 + 5 + 4 + 3);
}

/* Without swap space everybody is recomputed. Pool 7: B is let in with 3 slots beside A and put out
 * when A is at 4 and 5. */
static void test_swap_without_space(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 3, 2 }, { 0, 3, 2 } };
    pkv_sim_config cfg = fake_config(7);
    cfg.policy.swap = true;
    const pkv_sim_result swap = fake_run(&cfg, reqs, 2);
    assert_int_equal(swap.n_preemptions, 2);
    assert_int_equal(swap.n_swaps, 0);
    assert_int_equal(swap.n_admissions, 4);
    assert_int_equal(swap.recomputed_tokens, 6);
    assert_int_equal(swap.n_steps, 4);
    cfg.policy.swap = false; /* nor with space that the policy does not use */
    cfg.swap_tokens = 100;
    assert_int_equal(fake_run(&cfg, reqs, 2).n_swaps, 0);
}

/* With room for all and no costs, swapping generates and computes every token once. */
static void test_free_swap(void **state)
{
    (void)state;
    enum { MANY = 40 };
    pkv_sim_request reqs[MANY];
    for (int r = 0; r < MANY; r++)
        reqs[r] = (pkv_sim_request){ r * 7, 1 + r * 5 % 9, 1 + r * 11 % 23 };
    pkv_sim_config cfg = fake_config(50);
    cfg.policy.swap = true;
    cfg.swap_tokens = 1000;
    const pkv_sim_result res = fake_run(&cfg, reqs, MANY);
    assert_true(res.n_swaps > 10);
    assert_int_equal(res.n_swaps, res.n_preemptions);
    assert_int_equal(res.n_admissions, MANY);
    assert_int_equal(res.recomputed_tokens, 0);
    assert_int_equal(res.move_ns, 0);
}

/* Beams that end give room back while others grow: here what each request took on top. Pool 11:
 *   step 0   A 4 + 3; B with 2 + 3 would make 12. Grown, A holds 5
 *   step 1   B makes 10. Grown, A holds 6 and B 3; B is done
 *   step 2   A */
static void test_room_from_beams(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 4, 3 }, { 0, 2, 1 } };
    pkv_sim_config cfg = fake_config(11);
    fake.extra = 3;
    cfg.policy.group = PKV_SIM_GROUP_BEAM;
    const pkv_sim_result beams = fake_run(&cfg, reqs, 2);
    assert_int_equal(beams.n_steps, 3);
    assert_int_equal(beams.n_failed_takes, 1);
    expect_close(beams.mean_batch, 4 / 3.0, 1e-12);
}

/* Who comes back from the swap space uses a token of the step. Pool 9, 4 tokens per step.
 *   step 0   A 2 tokens of its prompt and B 2; they grow to 3
 *   step 1   both grow to 4
 *   step 2   A grows to 5, B is out. C, which has arrived, waits. A is done
 *   step 3   B is back: 1 token. Beside it C may compute 3 tokens, but not 4
 *   step 4   B is done */
static void test_resumed_tokens(void **state)
{
    (void)state;
    pkv_sim_request reqs[3] = { { 0, 2, 3 }, { 0, 2, 4 }, { 15, 3, 1 } };
    pkv_sim_config cfg = fake_config(9);
    cfg.policy.swap = true;
    cfg.swap_tokens = 9;
    cfg.prefill_chunk = 9;
    cfg.max_batched_tokens = 4;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_steps, 5);
    reqs[2].prompt_tokens = 4;
    const pkv_sim_result later = fake_run(&cfg, reqs, 3);
    assert_int_equal(later.n_steps, 6);
    assert_int_equal(later.n_preemptions, 1);
}

/* ---------------------------------------------------------------- order */

/* Pool 10; A 4 + 3, B 8 + 1, C 2 + 2, D 1 + 1.
 * In order: A alone for 3 steps; B with C, which is put out at once, as B needs 9; C and D: 6
 * steps. Skipping: A, C and D pass B; when all are done B runs: 4 steps. B is offered again
 * whenever somebody has left: refused in steps 0, 1 and 2. In order it is refused once, then D
 * once. */
static void test_skip(void **state)
{
    (void)state;
    const pkv_sim_request reqs[4] = { { 0, 4, 3 }, { 0, 8, 1 }, { 0, 2, 2 }, { 0, 1, 1 } };
    pkv_sim_config cfg = fake_config(10);
    const pkv_sim_result order = fake_run(&cfg, reqs, 4);
    assert_int_equal(order.n_steps, 6);
    assert_int_equal(order.n_preemptions, 1);
    assert_int_equal(order.n_failed_takes, 2);
    expect_close(order.mean_batch, (3 + 1 + 2 + 1) / 6.0, 1e-12);
    cfg.admit_skip = true;
    const pkv_sim_result skip = fake_run(&cfg, reqs, 4);
    assert_int_equal(skip.n_steps, 4);
    assert_int_equal(skip.n_preemptions, 0);
    assert_int_equal(skip.n_failed_takes, 3);
    expect_close(skip.mean_batch, (3 + 2 + 1 + 1) / 4.0, 1e-12);
}

/* Who arrives while the head is blocked passes it at the next step, inside what would be a leap. */
static void test_skip_on_arrival(void **state)
{
    (void)state;
    const pkv_sim_request reqs[3] = { { 0, 3, 6 }, { 0, 8, 1 }, { 15, 1, 1 } };
    pkv_sim_config cfg = fake_config(12);
    cfg.policy.block_tokens = 6;
    cfg.admit_skip = true;
    const pkv_sim_result res = fake_run(&cfg, reqs, 3);
    /* A and the newcomer hold 6 each until step 2 ends; A needs 12 from step 3 on. B runs last. */
    assert_int_equal(res.n_steps, 7);
    assert_int_equal(res.n_preemptions, 0);
    expect_close(res.ttft_s.p50, 15e-9, 1e-18); /* 10, 70, and 15 -> 30 */
}

/* Closed from the first grow until the pool is empty: two batches. */
static void test_closed(void **state)
{
    (void)state;
    const pkv_sim_request reqs[4] = { { 0, 1, 2 }, { 0, 1, 5 }, { 5, 1, 1 }, { 5, 1, 3 } };
    pkv_sim_config cfg = fake_config(100);
    fake.seals = true;
    const pkv_sim_result res = fake_run(&cfg, reqs, 4);
    assert_int_equal(res.n_steps, 5 + 3);
    assert_int_equal(res.waited_ns, 40); /* they arrive during the first step */
    /* held in steps 1-4: 3 + 3, then 4, 5, 6 */
    expect_close(res.split.limited, (94 + 96 + 95 + 94) / 800.0, 1e-12);
}

/* ---------------------------------------------------------------- prefill */

/* 8 tokens per step at most; A 5 + 3, B 4 + 2, C 2 + 2. Step 0 takes the 5 of A, 4 more pass 8.
 * Step 1: 1 of A, 4 of B, 2 of C. All are done after step 2. */
static void test_max_batched_tokens(void **state)
{
    (void)state;
    const pkv_sim_request reqs[3] = { { 0, 5, 3 }, { 0, 4, 2 }, { 0, 2, 2 } };
    pkv_sim_config cfg = fake_config(100);
    cfg.max_model_len = cfg.max_batched_tokens = 8;
    const pkv_sim_result res = fake_run(&cfg, reqs, 3);
    assert_int_equal(res.n_steps, 3);
    expect_close(res.mean_batch, 7 / 3.0, 1e-12);
    /* held 6, 7 + 5 + 3, 8 + 6 + 4 */
    expect_close(res.split.limited, 94 / 300.0, 1e-12);
    expect_close(res.split.idle, (85 + 82) / 300.0, 1e-12);

    fake.cached = 3; /* 2 + 1 + 1 tokens to compute */
    assert_int_equal(fake_run(&cfg, reqs, 3).max_batch, 3);
    expect_close(fake_run(&cfg, reqs, 3).residence_s.mean, (30 + 20 + 20) / 3.0 * 1e-9, 1e-18);
    fake.cached = 2; /* 3 + 2 + 1 */
    assert_int_equal(fake_run(&cfg, reqs, 3).waited_ns, 0);
    fake.cached = 1; /* 4 + 3 + 1 = 8: just so */
    assert_int_equal(fake_run(&cfg, reqs, 3).waited_ns, 0);
}

/* Chunks of 4; A 10 + 2, B 3 + 2. A computes 4, 4 and 2, so it generates in steps 2 and 3.
 *   step       0       1       2   3
 *   tokens     10 + 3  10 + 4  10  11
 *   held       10 + 4  10 + 5  11  12
 *   computed   4 + 3   4       2
 * At 3e8 tokens/s they take 23.3, 13.3 and 6.7 ns. */
static void test_prefill_chunk(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 10, 2 }, { 0, 3, 2 } };
    pkv_sim_config cfg = fake_config(100);
    cfg.prefill_chunk = 4;
    const pkv_sim_result res = fake_run(&cfg, reqs, 2);
    assert_int_equal(res.n_steps, 4);
    assert_int_equal(res.prefill_ns, 0);
    expect_close(res.ttft_s.max, 30e-9, 1e-18);
    expect_close(res.ttft_s.mean, 20e-9, 1e-18);
    expect_close(res.split.token, (13 + 14 + 10 + 11) / 400.0, 1e-12);
    expect_close(res.split.internal, 4 / 400.0, 1e-12);

    cfg.prefill_tokens_per_s = 300000000;
    const pkv_sim_result slow = fake_run(&cfg, reqs, 2);
    assert_int_equal(slow.prefill_ns, 24 + 14 + 7);
    assert_int_equal(slow.end_ns, 40 + 45);
    expect_close(slow.ttft_s.max, (34 + 24 + 17) * 1e-9, 1e-18);
    expect_close(slow.ttft_s.mean, (75 + 34) / 2.0 * 1e-9, 1e-18);

    /* 5 per step: 4 of A and 3 of B are too much until A computes its last 2. */
    cfg.prefill_tokens_per_s = 0;
    cfg.max_batched_tokens = 5;
    const pkv_sim_result thin = fake_run(&cfg, reqs, 2);
    assert_int_equal(thin.n_steps, 4);
    expect_close(thin.ttft_s.mean, 30e-9, 1e-18);
    expect_close(thin.mean_batch, (1 + 1 + 2 + 2) / 4.0, 1e-12);
}

/* Whole prompts at 4e8 tokens/s: 2.5 ns each. A 10 + 2, B 5 + 1, which finds 4 of its tokens. */
static void test_prefill_rate(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 10, 2 }, { 3, 5, 1 } };
    pkv_sim_config cfg = fake_config(100);
    cfg.prefill_tokens_per_s = 400000000;
    assert_int_equal(fake_run(&cfg, reqs, 2).end_ns, 10 + 25 + 10 + 13);
    fake.cached = 4;
    const pkv_sim_result res = fake_run(&cfg, reqs, 2);
    assert_int_equal(res.prefill_ns, 15 + 3);
    assert_int_equal(res.end_ns, 10 + 15 + 10 + 3);
    fake.cached = 100; /* all but the last token */
    assert_int_equal(fake_run(&cfg, reqs, 2).prefill_ns, 3 + 3);
}

/* Chunks of 2, pool 10. A 4 + 4 computes 2, 2 and generates in steps 1-4, in 5 to 8 slots. B 5 + 1
 * computes 2, 2 and holds 5 until step 2, when A needs 6 and B is out; then it begins again. */
static void test_put_out_in_prefill(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 4, 4 }, { 0, 5, 1 } };
    pkv_sim_config cfg = fake_config(10);
    cfg.prefill_chunk = 2;
    const pkv_sim_result res = fake_run(&cfg, reqs, 2);
    assert_int_equal(res.n_preemptions, 1);
    assert_int_equal(res.recomputed_tokens, 5);
    /* A done after step 4, at 50; B computes in steps 5, 6, 7 */
    assert_int_equal(res.n_steps, 8);
    expect_close(res.ttft_s.max, 80e-9, 1e-18);

    /* Swapped, it goes on where it was: its last token and its output in step 5. */
    cfg.policy.swap = true;
    cfg.swap_tokens = 10;
    const pkv_sim_result swap = fake_run(&cfg, reqs, 2);
    assert_int_equal(swap.n_swaps, 1);
    assert_int_equal(swap.recomputed_tokens, 0);
    assert_int_equal(swap.n_steps, 6);
}

/* A has no output: one step with its prompt, or one per chunk. */
static void test_prefill_only(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 5, 0 }, { 0, 3, 1 } };
    pkv_sim_config cfg = fake_config(100);
    const pkv_sim_result res = fake_run(&cfg, reqs, 2);
    assert_int_equal(res.n_steps, 1);
    assert_int_equal(res.n_finished, 2);
    assert_int_equal(res.generated_tokens, 1);
    assert_int_equal(res.norm_s.n, 1);
    assert_int_equal(res.tpot_s.n, 0);
    assert_int_equal(res.ttft_s.n, 2);
    expect_close(res.e2e_s.max, 10e-9, 1e-18);
    expect_close(res.split.token, 8 / 100.0, 1e-12);
    expect_close(res.split.internal, 1 / 100.0, 1e-12); /* of B */

    cfg.prefill_chunk = 2; /* A 2, 2, 1; B 2, then 1 with its token */
    const pkv_sim_result chunked = fake_run(&cfg, reqs, 2);
    assert_int_equal(chunked.n_steps, 3);
    expect_close(chunked.ttft_s.max, 30e-9, 1e-18);
    expect_close(chunked.ttft_s.mean, 25e-9, 1e-18);
}

/* ---------------------------------------------------------------- several sequences */

/* Three sequences of 4 + 2 tokens: steps of 10 + 3 * 1 + 2 * tokens. */
static void test_sequences(void **state)
{
    (void)state;
    const pkv_sim_request reqs[1] = { { 0, 4, 2 } };
    pkv_sim_config cfg = fake_config(100);
    cfg.policy.group = PKV_SIM_GROUP_FORK;
    cfg.policy.n_seqs = 3;
    cfg.step_per_seq_ns = 1;
    cfg.step_per_token_ns = 2;
    const pkv_sim_result res = fake_run(&cfg, reqs, 1);
    assert_int_equal(res.end_ns, 37 + 43);
    assert_int_equal(res.generated_tokens, 6);
    expect_close(res.mean_batch, 1, 0);
    expect_close(res.split.token, (12 * 37 + 15 * 43) / 8000.0, 1e-12);
    expect_close(res.split.logical, res.split.token, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swap),
        cmocka_unit_test(test_swap_without_space),
        cmocka_unit_test(test_free_swap),
        cmocka_unit_test(test_room_from_beams),
        cmocka_unit_test(test_resumed_tokens),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_skip_on_arrival),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_max_batched_tokens),
        cmocka_unit_test(test_prefill_chunk),
        cmocka_unit_test(test_prefill_rate),
        cmocka_unit_test(test_put_out_in_prefill),
        cmocka_unit_test(test_prefill_only),
        cmocka_unit_test(test_sequences),
    };
    return cmocka_run_group_tests_name("sim_schedule", tests, NULL, NULL);
}
