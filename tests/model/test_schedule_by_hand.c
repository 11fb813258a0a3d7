/* A schedule worked out on paper, step by step, and every figure from its formula.
 *
 * Three requests at one moment, 5 blocks of 2 tokens, chunks of 4, 6 tokens per step, a step each
 * millisecond; the step's clock stands still. K and V of a block are written as [..].
 *
 *   A  5 tokens, 3 more: [..] [..] [..] [..] at its longest, 7 tokens
 *   B  3 tokens, 4 more: 6 tokens
 *   C  2 tokens, 2 more: 3 tokens
 *
 *   1  A 0-3, B 0-1       all 5 blocks are taken (A 3, B 2); the budget is used up before C
 *   2  A 4, B 2           both have their first token; C finds no block
 *   3  A 5, B 3
 *   4  A 6                needs a fourth block: B, the latest, gives way; A ends
 *
 * with recompute:                              with a host pool:
 *   5  B 0-3, C 0-1       first token of C       5  B 4, C 0-1
 *   6  B 4, C 2           C ends                 6  B 5, C 2         both end
 *   7  B 5                B ends */
#include "engine_rig.h"

#include "model/engine_internal.h"

enum { MS = 1000000 };

typedef struct step_want {
    int32_t n_prefill, n_running, n_waiting, n_swapped, n_preempted; /* as reported */
    int32_t n_rows, row[2][2];                                       /* first token, tokens */
} step_want;

typedef struct paper {
    engine_rig r;
    int32_t ids[3][8];
    const got *g[3];
} paper;

static void near(double is, double want, double bound)
{
    if (!(fabs(is - want) <= bound)) fail_msg("%.17g, not %.17g", is, want);
}

static void open_paper(paper *p, pkv_preempt preempt, double slo_ttft_ms, double slo_tpot_ms)
{
    static const int32_t n_prompt[] = { 5, 3, 2 }, max_new[] = { 3, 4, 2 };
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 2;
    cfg.n_blocks = 1 + 5;
    cfg.max_seqs = 3;
    cfg.max_batch_tokens = 6;
    cfg.chunk_tokens = 4;
    cfg.watermark_blocks = 0;
    cfg.no_prefix_cache = true;
    cfg.preempt = preempt;
    cfg.swap_bytes = preempt == PKV_PREEMPT_SWAP ? 1 << 20 : 0;
    cfg.slo_ttft_ms = slo_ttft_ms;
    cfg.slo_tpot_ms = slo_tpot_ms;
    rig_open(&p->r, rig_tiny_model(3), NULL, &cfg);
    for (int32_t i = 0; i < 3; i++) {
        rig_draw(40 + (uint64_t)i, 97, p->ids[i], 8);
        const pkv_request request = rig_request(p->ids[i], n_prompt[i], max_new[i]);
        p->g[i] = rig_submit(&p->r, &request);
    }
}

static void expect_steps(paper *p, const step_want *want, int32_t n)
{
    for (int32_t k = 0; k < n; k++, want++) {
        int32_t n_tokens = 0;
        rig_step(&p->r);
        const pkv_step_report *is = &p->r.report;
        const pkv_engine *e = p->r.engine;
        assert_int_equal(p->r.status, PKV_OK);
        assert_int_equal(is->n_rows, want->n_rows);
        for (int32_t i = 0; i < want->n_rows; i++) {
            assert_int_equal(e->rows[i].first, want->row[i][0]);
            assert_int_equal(e->rows[i].n, want->row[i][1]);
            n_tokens += want->row[i][1];
        }
        assert_int_equal(is->n_tokens, n_tokens);
        assert_int_equal(is->n_prefill, want->n_prefill);
        assert_int_equal(is->n_running, want->n_running);
        assert_int_equal(is->n_waiting, want->n_waiting);
        assert_int_equal(is->n_swapped, want->n_swapped);
        assert_int_equal(is->n_preempted, want->n_preempted);
        assert_int_equal(is->n_unfinished, want->n_running + want->n_waiting + want->n_swapped);
    }
    assert_int_equal(p->r.report.n_unfinished, 0);
}

static const step_want common[] = {
    { 6, 2, 1, 0, 0, 2, { { 0, 4 }, { 0, 2 } } },
    { 2, 2, 1, 0, 0, 2, { { 4, 1 }, { 2, 1 } } },
    { 0, 2, 1, 0, 0, 2, { { 5, 1 }, { 3, 1 } } },
};

/* Times since the arrival, in ms: first token, end, admission. */
static void expect_times(const got *g, uint64_t arrival, int first, int end, int admitted,
                         int n_preempted)
{
    const pkv_request_result *r = &g->result;
    assert_int_equal(r->arrival_ns, arrival);
    assert_int_equal(r->first_token_ns, arrival + (uint64_t)first * MS);
    assert_int_equal(r->finish_ns, arrival + (uint64_t)end * MS);
    assert_int_equal(r->admitted_ns, arrival + (uint64_t)admitted * MS);
    assert_int_equal(r->n_preempted, n_preempted);
    near(r->ttft_ms, first, 1e-9);
    near(r->tpot_ms, (double)(end - first) / (g->sample[0].n - 1), 1e-9);
}

static void expect_law(const pkv_delay_stats *is, int64_t n, double mean_ms, double max_ms)
{
    assert_int_equal(is->n, n);
    near(is->mean_ms, mean_ms, 1e-6);
    near(is->max_ms, max_ms, 1e-6);
}

static void expect_counts(const pkv_engine_stats *s, int64_t n_steps, int64_t n_computed,
                          int64_t n_recomputed)
{
    assert_int_equal(s->n_steps, n_steps);
    assert_int_equal(s->n_prompt_tokens, 5 + 3 + 2);
    assert_int_equal(s->n_output_tokens, 3 + 4 + 2);
    assert_int_equal(s->n_computed_tokens, n_computed);
    assert_int_equal(s->n_recomputed_tokens, n_recomputed);
    assert_int_equal(s->n_cached_tokens, 0);
    assert_int_equal(s->n_submitted, 3);
    assert_int_equal(s->n_finished[PKV_FINISH_LENGTH], 3);
    assert_int_equal(s->peak_seqs, 2);
    assert_int_equal(s->peak_blocks_used, 5);
    assert_int_equal(s->n_copies, 0);
}

static void by_recompute(void **state)
{
    (void)state;
    static const step_want rest[] = {
        { 0, 0, 2, 0, 1, 1, { { 6, 1 } } },
        { 6, 2, 0, 0, 0, 2, { { 0, 4 }, { 0, 2 } } },
        { 0, 1, 0, 0, 0, 2, { { 4, 1 }, { 2, 1 } } },
        { 0, 0, 0, 0, 0, 1, { { 5, 1 } } },
    };
    paper p;
    step_want all[7];
    memcpy(all, common, sizeof(common));
    memcpy(all + 3, rest, sizeof(rest));
    open_paper(&p, PKV_PREEMPT_RECOMPUTE, 3, 1.5);
    const uint64_t t = p.r.now_ns;
    expect_steps(&p, all, 7);
    expect_times(p.g[0], t, 1, 3, 0, 0);
    expect_times(p.g[1], t, 1, 6, 0, 1);
    expect_times(p.g[2], t, 4, 5, 4, 0);
    const pkv_engine_stats s = rig_stats(&p.r);
    expect_counts(&s, 7, 6 + 2 + 2 + 1 + 6 + 2 + 1, 4);
    assert_int_equal(s.n_preempt_recompute, 1);
    assert_int_equal(s.n_preempt_swap, 0);
    assert_int_equal(s.n_good, 1); /* B is slower than 1.5 ms per token, C's first later than 3 */
    near(s.mean_seqs, 12. / 7, 1e-12);
    near(s.slots_filled, 51. / 62, 1e-12); /* 6/10 8/10 10/10 7/8 6/8 8/10 6/6 */
    near(s.elapsed_s, 6e-3, 1e-12);
    expect_law(&s.ttft, 3, (1 + 1 + 4) / 3., 4);
    expect_law(&s.tpot, 3, (1 + 5 / 3. + 1) / 3, 5 / 3.);
    expect_law(&s.itl, 6, (1 + 1 + 1 + 3 + 1 + 1) / 6., 3);
    expect_law(&s.latency, 3, (3 + 6 + 5) / 3., 6);
    expect_law(&s.queue, 3, 4 / 3., 4);
    rig_close(&p.r);
}

static void by_swap(void **state)
{
    (void)state;
    static const step_want rest[] = {
        { 0, 0, 1, 1, 1, 1, { { 6, 1 } } },
        { 2, 2, 0, 0, 0, 2, { { 4, 1 }, { 0, 2 } } },
        { 0, 0, 0, 0, 0, 2, { { 5, 1 }, { 2, 1 } } },
    };
    paper p;
    step_want all[6];
    memcpy(all, common, sizeof(common));
    memcpy(all + 3, rest, sizeof(rest));
    open_paper(&p, PKV_PREEMPT_SWAP, 4, 5 / 3. + 1e-9);
    const uint64_t t = p.r.now_ns;
    expect_steps(&p, all, 6);
    expect_times(p.g[0], t, 1, 3, 0, 0);
    expect_times(p.g[1], t, 1, 5, 0, 1);
    expect_times(p.g[2], t, 4, 5, 4, 0);
    const pkv_engine_stats s = rig_stats(&p.r);
    expect_counts(&s, 6, 6 + 2 + 2 + 1 + 3 + 2, 0);
    assert_int_equal(s.n_preempt_recompute, 0);
    assert_int_equal(s.n_preempt_swap, 1);
    /* B's two blocks out and in: 2 layers, K and V, 3 heads of 8, 2 tokens, float32; a block is
     * whole pieces of 512 bytes */
    assert_int_equal(s.n_swapped_bytes, 2 * 2 * 1024);
    assert_int_equal(s.n_good, 3);
    near(s.mean_seqs, 11. / 6, 1e-12);
    near(s.slots_filled, 47. / 56, 1e-12); /* 6/10 8/10 10/10 7/8 7/8 9/10 */
    expect_law(&s.tpot, 3, (1 + 4 / 3. + 1) / 3, 4 / 3.);
    expect_law(&s.itl, 6, (1 + 1 + 1 + 2 + 1 + 1) / 6., 2);
    expect_law(&s.latency, 3, (3 + 5 + 5) / 3., 5);
    rig_close(&p.r);
}

/* A's prompt again when A is over: all of it but the last token is there. Then with a tail: its
 * first block and the half of the next that is alike. */
static void by_cache(void **state)
{
    (void)state;
    engine_rig r;
    int32_t ids[6];
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 2;
    cfg.n_blocks = 1 + 8;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    rig_draw(40, 97, ids, 6);
    const pkv_request request = rig_request(ids, 5, 3);
    static const int32_t n_cached[] = { 0, 4, 3 };
    static const int32_t n_computed[] = { 5 + 2, 1 + 2, 2 + 2 };
    int64_t cached = 0, computed = 0;
    for (int32_t k = 0; k < 3; k++) {
        if (k == 2) ids[3] = (ids[3] + 1) % 97;
        const got *g = rig_submit(&r, &request);
        rig_run(&r);
        const pkv_engine_stats s = rig_stats(&r);
        cached += n_cached[k];
        computed += n_computed[k];
        assert_int_equal(g->result.n_cached, n_cached[k]);
        assert_int_equal(s.n_cached_tokens, cached);
        assert_int_equal(s.n_computed_tokens, computed);
        assert_int_equal(s.n_prompt_tokens, 5 * (k + 1));
        assert_int_equal(s.n_recomputed_tokens, 0);
    }
    rig_close(&r);
}

/* Two requests of one block each that take another every second token, in 5 blocks: the second goes
 * when both want a third. The two that it held are free at once, but its next token needs one more:
 * it stays out until the first is over, and its bytes move once. */
static void nobody_comes_back_to_go(void **state)
{
    (void)state;
    paper p;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 2;
    cfg.n_blocks = 1 + 5;
    cfg.watermark_blocks = 3; /* not for the only one */
    cfg.no_prefix_cache = true;
    cfg.preempt = PKV_PREEMPT_SWAP;
    cfg.swap_bytes = 1 << 20;
    rig_open(&p.r, rig_tiny_model(3), NULL, &cfg);
    for (int32_t i = 0; i < 2; i++) {
        rig_draw(40 + (uint64_t)i, 97, p.ids[i], 2);
        const pkv_request request = rig_request(p.ids[i], 2, 9);
        p.g[i] = rig_submit(&p.r, &request);
    }
    while (p.g[0]->n_ended == 0) {
        rig_step(&p.r);
        assert_int_equal(p.r.report.n_swapped,
                         p.r.n_steps >= 4); /* 2 tokens are computed, then 4 */
    }
    assert_int_equal(p.r.n_steps, 9);
    rig_run(&p.r);
    assert_int_equal(p.r.n_steps, 9 + 9 - 3);
    const pkv_engine_stats s = rig_stats(&p.r);
    assert_int_equal(s.n_preempt_swap, 1);
    assert_int_equal(s.n_recomputed_tokens, 0);
    assert_int_equal(s.n_swapped_bytes, 2 * 2 * 1024);
    rig_close(&p.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_recompute),
        cmocka_unit_test(by_swap),
        cmocka_unit_test(by_cache),
        cmocka_unit_test(nobody_comes_back_to_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
