/* Steps: one that fails is undone and the engine goes on; none allocates; what the engine itself
 * takes of one. */
#include "engine_rig.h"

#include "model/engine_internal.h"

#include <malloc.h>

/* ---------------------------------------------------------------- a pass that fails */

/* No memory of the pass's own is at fault, so it is made to fail from outside. */
static pkv_status no_memory(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k,
                            pkv_kv_view *v, float *logits)
{
    (void)fwd, (void)batch, (void)k, (void)v, (void)logits;
    return PKV_E_NO_MEMORY;
}

/* After the writing of K and V: slots are full of what nobody may find. */
static pkv_status late_device(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k,
                              pkv_kv_view *v, float *logits)
{
    assert_int_equal(pkv__forward_run(fwd, batch, k, v, logits), PKV_OK);
    return PKV_E_DEVICE;
}

static pkv_status our_bug(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k,
                          pkv_kv_view *v, float *logits)
{
    (void)fwd, (void)batch, (void)k, (void)v, (void)logits;
    return PKV_E_INVALID_ARG;
}

static void fail_after(int32_t n_steps,
                       pkv_status (*pass)(pkv__forward *, const pkv__batch *, pkv_kv_view *,
                                          pkv_kv_view *, float *),
                       pkv_status want)
{
    static int32_t ids[60];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 4;
    cfg.max_seqs = 5;
    cfg.chunk_tokens = 7;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    rig_draw(9, 97, ids, 60);
    pkv_request q[4];
    got *g[4];
    for (int32_t i = 0; i < 4; i++) {
        q[i] = rig_request(ids, 4 + 15 * i, 12);
        q[i].n = i == 1 ? 2 : 1;
        q[i].sampling.temperature = i == 1;
        g[i] = rig_submit(&r, &q[i]);
    }
    pkv_request waits = rig_request(ids, 5, 6);
    const got *waiting = rig_submit(&r, &waits);
    for (int32_t i = 0; i < n_steps; i++) rig_step(&r);
    int32_t had[4];
    for (int32_t i = 0; i < 4; i++) had[i] = g[i]->sample[0].n;
    r.engine->pass = pass;
    rig_step(&r);
    assert_int_equal(r.status, want);
    assert_int_equal(r.report.n_tokens, 0);
    assert_non_null(strstr(r.log.text, "the pass failed"));
    int32_t n_failed = 0;
    for (int32_t i = 0; i < 4; i++) {
        if (!g[i]->has_result) continue;
        for (int32_t k = 0; k < g[i]->n_samples; k++) {
            assert_int_equal(g[i]->sample[k].finish, PKV_FINISH_ERROR);
            assert_int_equal(g[i]->sample[k].n, had[i]);
        }
        n_failed++;
    }
    assert_int_equal(n_failed, 4);
    assert_false(waiting->has_result);
    assert_int_equal(rig_stats(&r).n_blocks_used, 0);
    /* Those that were not in it, and the same ones again, as if nothing had been. */
    r.engine->pass = pkv__forward_run;
    for (int32_t i = 0; i < 4; i++) g[i] = rig_submit(&r, &q[i]);
    rig_run(&r);
    got_same("waiting", waiting, rig_lone(&r, &waits));
    for (int32_t i = 0; i < 4; i++) got_same("again", g[i], rig_lone(&r, &q[i]));
    assert_int_equal(rig_stats(&r).n_finished[PKV_FINISH_ERROR], 4);
    rig_close(&r);
}

static void failed_steps(void **state)
{
    (void)state;
    for (int32_t n = 0; n < 10; n++) {
        fail_after(n, no_memory, PKV_E_NO_MEMORY);
        fail_after(n, late_device, PKV_E_DEVICE);
        fail_after(n, our_bug, PKV_E_CORRUPT);
    }
}

/* A running request that the budget left out of the step has nothing to do with its failure. */
static void failed_step_of_others(void **state)
{
    (void)state;
    static int32_t ids[3][40];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 4;
    cfg.max_seqs = 6;
    cfg.max_batch_tokens = 8;
    cfg.chunk_tokens = 5;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    pkv_request q[3];
    got *g[3];
    for (int32_t i = 0; i < 3; i++) {
        rig_draw(20 + (uint64_t)i, 97, ids[i], 40);
        q[i] = rig_request(ids[i], i == 0 ? 2 : 40, 6);
        q[i].n = i == 0 ? 3 : 1;
        q[i].sampling.temperature = 1;
        g[i] = rig_submit(&r, &q[i]);
    }
    rig_step(&r); /* 2, 5 and 1 of the prompts */
    assert_int_equal(r.report.n_running, 3);
    r.engine->pass = late_device; /* three decodes, 5 of the second prompt: none are left */
    rig_step(&r);
    assert_int_equal(r.status, PKV_E_DEVICE);
    assert_int_equal(r.report.n_running, 1);
    for (int32_t i = 0; i < 2; i++) {
        assert_true(g[i]->has_result);
        assert_int_equal(g[i]->sample[0].finish, PKV_FINISH_ERROR);
    }
    assert_false(g[2]->has_result);
    r.engine->pass = pkv__forward_run;
    rig_run(&r);
    got_same("left out", g[2], rig_lone(&r, &q[2]));
    assert_int_equal(rig_stats(&r).n_recomputed_tokens, 0);
    rig_close(&r);
}

/* ---------------------------------------------------------------- failing placement */

enum { ADMIT, RESERVE, SUSPEND, RESUME, N_CALLS };
static const pkv__place_ops *real_ops;
static int32_t fails_in[N_CALLS]; /* so many calls are good, the next is not; -1: all are */

static pkv_status failing_admit(pkv__placement *p, const int32_t *ids, int32_t n, int32_t n_longest,
                                int32_t n_seqs, int32_t watermark, int32_t *seq, int32_t *claimed)
{
    if (fails_in[ADMIT] >= 0 && fails_in[ADMIT]-- == 0) return PKV_E_DEVICE;
    return real_ops->admit(p, ids, n, n_longest, n_seqs, watermark, seq, claimed);
}

static pkv_status failing_reserve(pkv__placement *p, const int32_t *seqs, const int32_t *n_tokens,
                                  int32_t n)
{
    if (fails_in[RESERVE] >= 0 && fails_in[RESERVE]-- == 0) return PKV_E_DEVICE;
    return real_ops->reserve(p, seqs, n_tokens, n);
}

static pkv_status failing_suspend(pkv__placement *p, const int32_t *seqs, int32_t n)
{
    if (fails_in[SUSPEND] >= 0 && fails_in[SUSPEND]-- == 0) return PKV_E_DEVICE;
    return real_ops->suspend(p, seqs, n);
}

static pkv_status failing_resume(pkv__placement *p, const int32_t *seqs, int32_t n,
                                 int32_t watermark)
{
    if (fails_in[RESUME] >= 0 && fails_in[RESUME]-- == 0) return PKV_E_DEVICE;
    return real_ops->resume(p, seqs, n, watermark);
}

/* Call number k of one kind fails: whose it was ends with ERROR, and nobody else notices; who
 * cannot be swapped out is computed again. Returns whether there was such a call. */
static bool place_fails(int call, int32_t k)
{
    static int32_t ids[4][12];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 12;
    cfg.watermark_blocks = 0;
    cfg.swap_bytes = 1 << 20;
    cfg.preempt = PKV_PREEMPT_SWAP;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    pkv__place_ops ops = *r.engine->place->ops;
    real_ops = r.engine->place->ops;
    ops.admit = failing_admit;
    ops.reserve = failing_reserve;
    ops.suspend = failing_suspend;
    ops.resume = failing_resume;
    r.engine->place->ops = &ops;
    for (int i = 0; i < N_CALLS; i++) fails_in[i] = i == call ? k : -1;
    pkv_request q[4];
    got *g[4];
    for (int32_t i = 0; i < 4; i++) {
        rig_draw(30 + (uint64_t)i, 97, ids[i], 12);
        q[i] = rig_request(ids[i], 3 * i + 2, 14);
        q[i].n = i == 1 ? 2 : 1;
        q[i].sampling.temperature = 1;
        g[i] = rig_submit(&r, &q[i]);
    }
    rig_run(&r);
    const bool failed = fails_in[call] < 0;
    int32_t n_ended = 0;
    for (int32_t i = 0; i < 4; i++) {
        const bool gone = g[i]->sample[0].finish == PKV_FINISH_ERROR;
        n_ended += gone;
        if (gone) assert_non_null(strstr(r.log.text, "DEVICE"));
        else got_same("place", g[i], rig_lone(&r, &q[i]));
    }
    assert_int_equal(n_ended, failed && call != SUSPEND);
    r.engine->place->ops = real_ops;
    rig_close(&r);
    return failed;
}

static void failing_placement(void **state)
{
    (void)state;
    for (int call = 0; call < N_CALLS; call++) {
        int32_t n = 0;
        while (n < 12 && place_fails(call, n)) n++;
        assert_true(n > 0);
    }
}

/* ---------------------------------------------------------------- time of events */

static engine_rig *slow; /* whose clock the pass below moves on */

static pkv_status slow_pass(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k,
                            pkv_kv_view *v, float *logits)
{
    slow->now_ns += 5000000;
    return pkv__forward_run(fwd, batch, k, v, logits);
}

static pkv_status slow_failure(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k,
                               pkv_kv_view *v, float *logits)
{
    slow->now_ns += 5000000;
    return no_memory(fwd, batch, k, v, logits);
}

/* A token is there when its pass is over: 5 ms for the first, then 1 ms between steps and 5. */
static void time_of_tokens(void **state)
{
    (void)state;
    static const int32_t ids[] = { 4, 5 };
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    slow = &r;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    r.engine->pass = slow_pass;
    const pkv_request q = rig_request(ids, 2, 3);
    const got *g = rig_submit(&r, &q);
    const uint64_t start = r.now_ns;
    rig_run(&r);
    assert_int_equal(g->result.admitted_ns, start);
    assert_true(g->result.ttft_ms == 5 && g->result.tpot_ms == 6);
    assert_int_equal(g->result.finish_ns, start + 17000000);
    assert_true(fabs(rig_stats(&r).elapsed_s - 0.017) < 1e-12);
    r.engine->pass = slow_failure;
    const got *failed = rig_submit(&r, &q);
    const uint64_t again = r.now_ns;
    rig_step(&r);
    assert_int_equal(failed->result.finish_ns, again + 5000000);
    rig_close(&r);
}

/* ---------------------------------------------------------------- memory */

/* Nothing from anywhere, also not behind the allocator's back, once everything has run. */
static void steps_allocate_nothing(void **state)
{
    (void)state;
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    static int32_t ids[60];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 40;
    cfg.swap_bytes = 1 << 20;
    cfg.preempt = PKV_PREEMPT_SWAP;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    r.check_every = 0;
    rig_draw(9, 97, ids, 60);
    for (int32_t i = 0; i < 6; i++) {
        pkv_request q = rig_request(ids + i, 20, 40);
        q.n = 1 + i % 2;
        q.sampling.temperature = 1;
        q.sampling.n_logprobs = 5;
        pkv_request_id id;
        assert_int_equal(pkv_engine_submit(r.engine, &q, &id), PKV_OK);
    }
    for (;;) {
        const size_t before = mallinfo2().uordblks;
        const bool more = rig_step(&r);
        /* A request that has ended is given back. */
        assert_true(mallinfo2().uordblks <= before);
        if (!more) break;
    }
    assert_true(rig_stats(&r).n_preempt_swap > 0);
    rig_close(&r);
#endif
}

/* ---------------------------------------------------------------- time */

/* What no other part takes: the scheduler, the block manager, batches and events. Not asserted
 * tightly, since machines are busy: P7 of the design is 30 us with 64 sequences. */
static void time_of_steps(void **state)
{
    (void)state;
    static int32_t ids[64];
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    r.check_every = 0;
    rig_draw(9, 97, ids, 64);
    for (int32_t i = 0; i < 2000; i++) {
        pkv_request q = rig_request(ids + i % 32, 8, i < 64 ? 200 : 2);
        pkv_request_id id;
        assert_int_equal(pkv_engine_submit(r.engine, &q, &id), PKV_OK);
    }
    for (int32_t i = 0; i < 30; i++) rig_step(&r);
    const pkv_engine_stats a = rig_stats(&r);
    for (int32_t i = 0; i < 150; i++) rig_step(&r);
    const pkv_engine_stats b = rig_stats(&r);
    const double n = (double)(b.n_steps - a.n_steps);
    const double forward = (b.forward_s - a.forward_s) / n * 1e6,
                 sampling = (b.sampling_s - a.sampling_s) / n * 1e6,
                 step = (b.step_s - a.step_s) / n * 1e6,
                 manager = (b.manager_s - a.manager_s) / n * 1e6;
    fprintf(stderr,
            "# %g sequences, us per step: %.1f, pass %.1f, sampling %.1f, the rest %.1f, of "
            "it scheduler and manager %.1f\n",
            b.mean_seqs, step, forward, sampling, step - forward - sampling, manager);
    assert_int_equal(r.report.n_rows, 64);
    assert_int_equal(r.report.n_waiting, 2000 - 64);
    assert_true(manager > 0 && step > forward + sampling);
    assert_true(step - forward - sampling < 3000);
    rig_drop(&r);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failed_steps),   cmocka_unit_test(failed_step_of_others),
        cmocka_unit_test(time_of_tokens), cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(time_of_steps),  cmocka_unit_test(failing_placement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
