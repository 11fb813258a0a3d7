/* Beams through the engine: against a search that is written here and asks a greedy engine for one
 * token's logprobs at a time; preempted, cancelled, beside others. */
#include "engine_rig.h"

#include "common/philox.h"

enum { MAX_NEW = 12, MAX_WIDTH = 6, N_TOP = 20 };

/* ---------------------------------------------------------------- the search by hand */

typedef struct beam {
    int32_t ids[MAX_NEW], n;
    double sum, score;
    bool ended;
} beam;

/* Logprobs of what follows prompt + output, most likely first. */
static void next_logprobs(engine_rig *r, const pkv_request *q, const beam *b, pkv_logprob *out)
{
    int32_t ids[128];
    memcpy(ids, q->ids, (size_t)q->n_ids * sizeof(*ids));
    memcpy(ids + q->n_ids, b->ids, (size_t)b->n * sizeof(*ids));
    pkv_request one = rig_request(ids, q->n_ids + b->n, 1);
    one.sampling.n_logprobs = N_TOP;
    const got *g = rig_submit(r, &one);
    rig_run(r);
    memcpy(out, g->sample[0].tops, N_TOP * sizeof(*out));
}

static int by_sum(const void *a, const void *b)
{
    const double x = ((const beam *)a)->sum, y = ((const beam *)b)->sum;
    return (x < y) - (x > y);
}

static int by_score(const void *a, const void *b)
{
    const double x = ((const beam *)a)->score, y = ((const beam *)b)->score;
    return (x < y) - (x > y);
}

static double score_of(const pkv_request *q, const beam *b)
{
    return b->sum / pow(b->n, (double)q->length_penalty);
}

static bool is_end(const pkv_request *q, int32_t id)
{
    for (int32_t i = 0; i < q->n_stop_ids; i++)
        if (q->stop_ids[i] == id) return true;
    return false;
}

static void keep_candidate(const pkv_request *q, beam *done, int32_t *n_done, const beam *b)
{
    done[*n_done] = *b;
    done[*n_done].score = score_of(q, b);
    qsort(done, (size_t)++ * n_done, sizeof(*done), by_score);
    *n_done = pkv__min_i32(*n_done, q->beams);
}

/* beam.h's definition, step by step; `done` [width + 1]. */
static void search(engine_rig *r, const pkv_request *q, beam *done)
{
    static beam pairs[MAX_WIDTH * N_TOP];
    beam live[MAX_WIDTH] = { { .n = 0 } };
    int32_t n_live = 1, n_done = 0;
    bool is_done = false;
    for (int32_t step = 0; step < q->max_new && !is_done; step++) {
        int32_t n_pairs = 0, n_next = 0;
        for (int32_t i = 0; i < n_live; i++) {
            pkv_logprob top[N_TOP];
            next_logprobs(r, q, &live[i], top);
            for (int32_t k = 0; k < N_TOP; k++) {
                beam *b = &pairs[n_pairs++];
                *b = live[i];
                b->ids[b->n++] = top[k].id;
                b->sum += (double)top[k].logprob;
                b->ended = is_end(q, top[k].id);
            }
        }
        qsort(pairs, (size_t)n_pairs, sizeof(*pairs), by_sum);
        for (int32_t k = 0; k < n_pairs && n_next < q->beams; k++) {
            if (!pairs[k].ended) live[n_next++] = pairs[k];
            else if (k < q->beams) keep_candidate(q, done, &n_done, &pairs[k]);
        }
        n_live = n_next;
        if (n_done == q->beams)
            is_done = q->early_stopping || done[n_done - 1].score >= score_of(q, &pairs[0]);
    }
    for (int32_t i = 0; i < n_live && !is_done; i++) keep_candidate(q, done, &n_done, &live[i]);
}

/* ---------------------------------------------------------------- tests */

static pkv_request beam_request(const int32_t *ids, int32_t n, int32_t beams)
{
    pkv_request q = rig_request(ids, n, MAX_NEW);
    q.beams = q.n = beams;
    return q;
}

static void by_hand(void **state)
{
    (void)state;
    static const float penalties[] = { 1, 0, -1, 2, 0.5f };
    static int32_t ids[40], stops[12];
    static beam want[MAX_WIDTH + 1];
    const uint64_t seed = rig_seed();
    int32_t n_stopped = 0, n_full = 0;
    for (int32_t k = 0; k < 20; k++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.block_tokens = 1 + k % 7;
        rig_open(&r, rig_tiny_model(seed + (uint64_t)k / 4), NULL, &cfg);
        r.check_every = 7;
        rig_draw(seed + (uint64_t)k, 97, ids, 40);
        rig_draw(seed + 50 + (uint64_t)k, 97, stops, 12);
        pkv_request q = beam_request(ids, 1 + 2 * k, 2 + k % 5);
        q.length_penalty = penalties[k % 5];
        q.early_stopping = k % 2 == 1;
        q.stop_ids = stops;
        q.n_stop_ids = 12;
        const got *g = rig_submit(&r, &q);
        rig_run(&r);
        search(&r, &q, want);
        for (int32_t i = 0; i < q.beams; i++) {
            got_ids(g, i, want[i].ids, want[i].n);
            assert_true(fabs((double)g->sample[i].score - want[i].score) <
                        1e-4 * (1 + fabs(want[i].score)));
            assert_int_equal(g->sample[i].finish,
                             want[i].ended ? PKV_FINISH_STOP : PKV_FINISH_LENGTH);
            n_stopped += want[i].ended;
            n_full += !want[i].ended;
        }
        rig_close(&r);
    }
    assert_true(n_stopped > 0 && n_full > 0);
}

/* On pools for two of them, swapped and computed again, beside samples; fewer returned than kept.
 */
static void preempted(void **state)
{
    (void)state;
    static int32_t ids[6][40];
    const uint64_t seed = rig_seed();
    int64_t n_swap = 0, n_recompute = 0;
    for (int32_t k = 0; k < 12; k++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.block_tokens = 1 + k % 4;
        cfg.n_blocks = 1 + pkv__ceil_div_i32(110, cfg.block_tokens);
        cfg.max_seqs = 13;
        cfg.watermark_blocks = 0;
        cfg.swap_bytes = k % 2 ? 1 << 20 : 0;
        cfg.preempt = PKV_PREEMPT_SWAP;
        cfg.chunk_tokens = 3 + k;
        cfg.max_batch_tokens = 16;
        rig_open(&r, rig_tiny_model(seed), NULL, &cfg);
        pkv_request q[6];
        got *g[6];
        for (int32_t i = 0; i < 6; i++) {
            rig_draw(seed + (uint64_t)(k * 6 + i), 97, ids[i], 40);
            q[i] = beam_request(ids[i], 3 + 3 * i, 2 + i % 3);
            q[i].n = 1 + i % 2;
            if (i % 3 == 2) {
                q[i].beams = 0;
                q[i].n = 3;
                q[i].sampling.temperature = 1;
            }
            g[i] = rig_submit(&r, &q[i]);
        }
        rig_run(&r);
        for (int32_t i = 0; i < 6; i++) got_same("preempted", g[i], rig_lone(&r, &q[i]));
        n_swap += rig_stats(&r).n_preempt_swap;
        n_recompute += rig_stats(&r).n_preempt_recompute;
        rig_close(&r);
    }
    assert_true(n_swap > 0 && n_recompute > 0);
}

/* What there is when it is cut off; and one that never began. */
static void cut_off(void **state)
{
    (void)state;
    static int32_t ids[20];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_seqs = 4;
    cfg.max_context = 30;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    rig_draw(1, 97, ids, 20);
    pkv_request q = beam_request(ids, 20, 4);
    q.n = 3;
    const got *cancelled = rig_submit(&r, &q);
    const got *waiting = rig_submit(&r, &q);
    for (int32_t i = 0; i < 5; i++) rig_step(&r);
    assert_int_equal(cancelled->n_events, 0);
    assert_int_equal(pkv_engine_cancel(r.engine, cancelled->id), PKV_OK);
    assert_int_equal(pkv_engine_cancel(r.engine, waiting->id), PKV_OK);
    rig_step(&r);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(cancelled->sample[i].n, 5);
        assert_int_equal(cancelled->sample[i].finish, PKV_FINISH_CANCEL);
        if (i > 0) assert_true(cancelled->sample[i].score <= cancelled->sample[i - 1].score);
        assert_int_equal(waiting->sample[i].n, 0);
        assert_int_equal(waiting->sample[i].finish, PKV_FINISH_CANCEL);
        assert_true(isnan(waiting->sample[i].score));
    }
    q.max_new = 100;
    const got *context = rig_submit(&r, &q);
    rig_run(&r);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(context->sample[i].n, 10);
        assert_int_equal(context->sample[i].finish, PKV_FINISH_CONTEXT);
    }
    assert_int_equal(context->result.n_output, 30);
    rig_close(&r);
}

/* The greedy text is one of those that beams find when EOS is not in sight, and texts come whole.
 */
static void texts(void **state)
{
    (void)state;
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    const int32_t bos = 1;
    rig_open(&r, rig_stories("stories260K.bin"), rig_stories_tokenizer(), &cfg);
    pkv_request q = beam_request(&bos, 1, 4);
    const got *g = rig_submit(&r, &q);
    q = rig_request(&bos, 1, MAX_NEW);
    const got *greedy = rig_submit(&r, &q);
    rig_run(&r);
    bool found = false;
    for (int32_t i = 0; i < 4; i++) {
        found |= strcmp(g->sample[i].text, greedy->sample[0].text) == 0;
        assert_int_equal(strncmp(g->sample[i].text, "Once upon a time", 16), 0);
        assert_int_equal(g->sample[i].n, MAX_NEW);
    }
    assert_true(found);
    assert_int_equal(rig_stats(&r).itl.n, MAX_NEW - 1);
    assert_int_equal(rig_stats(&r).ttft.n, 2);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(preempted),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
