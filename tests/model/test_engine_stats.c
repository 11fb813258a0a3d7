/* Figures by hand: tokens, bytes, FLOP, slots, delays on a clock of our own, goodput. */
#include "engine_rig.h"

/* 5 tokens of prompt, 3 of output on the tiny model: passes over 5, 1 and 1 tokens. */
static void work_of_one_request(void **state)
{
    (void)state;
    static const int32_t ids[] = { 3, 1, 4, 1, 5 };
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    assert_int_equal(pkv_model_get_info(r.model, &info), PKV_OK);
    const pkv_request q = rig_request(ids, 5, 3);
    rig_submit(&r, &q);
    rig_run(&r);
    const pkv_engine_stats s = rig_stats(&r);
    assert_int_equal(s.n_steps, 3);
    assert_int_equal(s.n_prompt_tokens, 5);
    assert_int_equal(s.n_output_tokens, 3);
    assert_int_equal(s.n_computed_tokens, 7); /* the last output is never computed */
    assert_int_equal(s.n_recomputed_tokens, 0);
    /* Of a token and layer: q and o 48 x 48, k and v 24 x 48, three matrices of 70 x 48. */
    const double layer = 2 * (2 * 48 * 48 + 2 * 24 * 48 + 3 * 70 * 48);
    /* 1 + 2 + 3 + 4 + 5, then 6 and 7 keys: 48 products and 48 sums each for q k and for p v. */
    const double attention = 28 * 4 * 48;
    const double head = 3 * 2 * 97 * 48;
    assert_true(s.flop == 7 * 2 * layer + 2 * attention + head);
    /* A token has 3 heads of 8 floats for K and for V in 2 layers: 384 bytes. 5, 6 and 7 of them
     * are read, 5, 1 and 1 written. */
    assert_true(s.bytes_moved == 3 * (double)info.weight_bytes + 384 * (18 + 7));
    /* One block of 16 with 5, 6 and 7 tokens. */
    assert_true(fabs(s.slots_filled - 18 / 48.0) < 1e-12);
    assert_int_equal(s.peak_blocks_used, 1);
    assert_int_equal(s.n_blocks_used, 0);
    assert_true(s.mean_seqs == 1);
    assert_int_equal(s.peak_seqs, 1);
    assert_true(fabs(s.elapsed_s - 0.002) < 1e-12);
    assert_true(s.forward_s > 0 && s.attention_s > 0 && s.attention_s < s.forward_s);
    assert_true(s.manager_s > 0 && s.sampling_s > 0);
    assert_true(s.step_s >= s.forward_s + s.manager_s + s.sampling_s);
    assert_string_equal(s.mode, "exact");
    /* The levels above AVX-512 have its products. */
    const pkv_isa best = pkv_isa_detect();
    const bool above = best == PKV_ISA_AVX512BF16 || best == PKV_ISA_AMX;
    assert_string_equal(s.isa, pkv_isa_name(above ? PKV_ISA_AVX512 : best));
    assert_int_equal(s.n_threads, 1);
    rig_close(&r);
}

/* First tokens at 0, later ones 1 ms apart; a request that waits for the others. */
static void delays(void **state)
{
    (void)state;
    static const int32_t ids[] = { 3, 1, 4, 1, 5 };
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_seqs = 2;
    cfg.slo_ttft_ms = 1;
    cfg.slo_tpot_ms = 1.5;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    pkv_request q = rig_request(ids, 5, 4);
    const got *first = rig_submit(&r, &q);
    q.max_new = 1;
    const got *one = rig_submit(&r, &q);
    q.max_new = 3;
    const got *late = rig_submit(&r, &q);  /* when `one` has left: at 1 ms */
    const got *later = rig_submit(&r, &q); /* when `first` has: at 4 ms, and `late`, too */
    rig_run(&r);
    assert_true(first->result.ttft_ms == 0 && first->result.tpot_ms == 1);
    assert_true(one->result.ttft_ms == 0 && isnan(one->result.tpot_ms));
    assert_true(late->result.ttft_ms == 1 && late->result.tpot_ms == 1);
    assert_true(later->result.ttft_ms == 4);
    const pkv_engine_stats s = rig_stats(&r);
    assert_int_equal(s.ttft.n, 4);
    assert_true(fabs(s.ttft.mean_ms - (0 + 0 + 1 + 4) / 4.0) < 1e-9 && s.ttft.max_ms == 4);
    assert_int_equal(s.tpot.n, 3);
    assert_int_equal(s.itl.n, 3 + 0 + 2 + 2);
    assert_true(s.itl.mean_ms == 1);
    assert_int_equal(s.latency.n, 4);
    assert_true(fabs(s.latency.mean_ms - (3 + 0 + 3 + 6) / 4.0) < 1e-9);
    assert_true(s.queue.max_ms == 4);
    assert_int_equal(s.n_good, 3); /* all but `later` */
    rig_close(&r);
    /* Time per token. */
    cfg.slo_tpot_ms = 0.5;
    cfg.slo_ttft_ms = 0;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    rig_submit(&r, &q);
    q.max_new = 1;
    rig_submit(&r, &q);
    rig_run(&r);
    assert_int_equal(rig_stats(&r).n_good, 1);
    rig_close(&r);
}

/* What the prefix cache has is prompt, but not computed. */
static void cached(void **state)
{
    (void)state;
    static int32_t ids[40];
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    rig_draw(1, 97, ids, 40);
    const pkv_request q = rig_request(ids, 40, 2);
    rig_submit(&r, &q);
    rig_run(&r);
    const got *again = rig_submit(&r, &q);
    rig_run(&r);
    const pkv_engine_stats s = rig_stats(&r);
    const int32_t n_cached = again->result.n_cached;
    assert_in_range(n_cached, 32, 39);
    assert_int_equal(s.n_cached_tokens, n_cached);
    assert_int_equal(s.n_prompt_tokens, 80);
    assert_int_equal(s.n_computed_tokens, 80 + 2 - n_cached);
    assert_int_equal(s.n_recomputed_tokens, 0);
    assert_true(s.n_blocks_cached >= 2);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_of_one_request),
        cmocka_unit_test(delays),
        cmocka_unit_test(cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
