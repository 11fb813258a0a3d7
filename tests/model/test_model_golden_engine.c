/* The engine as a program uses it against transformers (golden/, scripts/make_goldens.py): greedy
 * ids of every model, and beam searches, all of a model at once, in a pool with room for them and
 * in one that has to preempt. */
#include "engine_rig.h"
#include "golden_file.h"

#define N_BEAMS 4
#define SCORE 1e-4 /* transformers takes the logarithms in float32 */

static pkv_model *open_golden(const golden *g, golden_layout layout, pkv_dtype dtype)
{
    char folder[512];
    pkv_model *model = NULL;
    last_log log;
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    golden_write(g, layout, folder, sizeof(folder));
    cfg.path = folder;
    cfg.weights_dtype = dtype;
    cfg.log = log_to(&log);
    if (pkv_model_open(&cfg, &model) != PKV_OK) fail_msg("%s: %s", g->name, log.text);
    scratch_remove(folder);
    return model;
}

static pkv_engine_config small_pool(int32_t block_tokens, int32_t n_blocks)
{
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.block_tokens = block_tokens;
    cfg.n_blocks = n_blocks;
    cfg.max_context = 64;
    cfg.max_batch_tokens = 64;
    cfg.chunk_tokens = 5;
    return cfg;
}

static pkv_request ask(const json_t *run, int32_t ids[GOLDEN_MAX_IDS], int32_t max_new)
{
    const int32_t n = golden_ints(json_object_get(run, "prompt"), ids, GOLDEN_MAX_IDS);
    pkv_request request = rig_request(ids, n, max_new);
    request.ignore_eos = true; /* ends of the goldens are their own */
    return request;
}

static void every_model_greedy(void **state)
{
    (void)state;
    for (int k = 0; golden_names[k]; k++) {
        golden g = golden_open(golden_names[k]);
        const json_t *run = json_object_get(g.root, "greedy");
        int32_t prompt[GOLDEN_MAX_IDS], want[GOLDEN_MAX_IDS];
        const int32_t n = golden_ints(json_object_get(run, "ids"), want, GOLDEN_MAX_IDS);
        const pkv_request request = ask(run, prompt, n);
        const pkv_engine_config cfg = small_pool(8, 30);
        const golden_layout layout = k % 2 ? GOLDEN_SHARDS : GOLDEN_BF16;
        engine_rig r;
        rig_open(&r, open_golden(&g, layout, k % 2 ? PKV_F32 : PKV_BF16), NULL, &cfg);
        const got *first = rig_submit(&r, &request), *second = rig_submit(&r, &request);
        rig_run(&r);
        got_ids(first, 0, want, n);
        got_ids(second, 0, want, n);
        assert_int_equal(first->sample[0].finish, PKV_FINISH_LENGTH);
        rig_close(&r);
        golden_close(&g);
    }
}

/* ---------------------------------------------------------------- beams */

static void check_search(const golden *g, const json_t *one, const got *is)
{
    const json_t *all = json_object_get(one, "ids"), *scores = json_object_get(one, "scores");
    for (int32_t rank = 0; rank < N_BEAMS; rank++) {
        int32_t want[GOLDEN_MAX_IDS];
        const int32_t n = golden_ints(json_array_get(all, (size_t)rank), want, GOLDEN_MAX_IDS);
        const double score = json_number_value(json_array_get(scores, (size_t)rank));
        const got_sample *s = &is->sample[rank];
        if (s->n != n || memcmp(s->ids, want, (size_t)n * sizeof(*want)) != 0)
            fail_msg("%s: request %d, rank %d has other ids (%d of them, not %d)", g->name,
                     (int)is->id, rank, s->n, n);
        if (!(fabs(s->score - score) <= SCORE * fabs(score)))
            fail_msg("%s: request %d, rank %d: score %f, not %f", g->name, (int)is->id, rank,
                     (double)s->score, score);
    }
}

static int64_t run_searches(const char *name, int32_t block_tokens, int32_t n_blocks)
{
    golden g = golden_open(name);
    const json_t *beams = json_object_get(g.root, "beams");
    const json_t *searches = json_object_get(beams, "searches");
    const size_t n = json_array_size(searches);
    int32_t prompt[GOLDEN_MAX_IDS], ends[GOLDEN_MAX_IDS];
    const pkv_engine_config cfg = small_pool(block_tokens, n_blocks);
    const got *found[16];
    engine_rig r;
    pkv_request request =
        ask(beams, prompt, (int32_t)json_integer_value(json_object_get(beams, "max_new")));
    request.n = request.beams = N_BEAMS;
    request.stop_ids = ends;
    request.n_stop_ids = golden_ints(json_object_get(beams, "end_ids"), ends, GOLDEN_MAX_IDS);
    assert_in_range(n, 8, 16);
    rig_open(&r, open_golden(&g, GOLDEN_F32, PKV_F32), NULL, &cfg);
    for (size_t k = 0; k < n; k++) {
        const json_t *one = json_array_get(searches, k);
        request.length_penalty = (float)json_number_value(json_object_get(one, "length_penalty"));
        request.early_stopping = json_is_true(json_object_get(one, "early_stopping"));
        found[k] = rig_submit(&r, &request);
    }
    rig_run(&r);
    for (size_t k = 0; k < n; k++) check_search(&g, json_array_get(searches, k), found[k]);
    const int64_t n_preempted = r.n_preempted;
    rig_close(&r);
    golden_close(&g);
    return n_preempted;
}

static void beams_with_room(void **state)
{
    (void)state;
    assert_int_equal(run_searches("llama2", 16, 256), 0);
    assert_int_equal(run_searches("llama3", 16, 256), 0);
}

static void beams_preempted(void **state)
{
    (void)state;
    assert_true(run_searches("llama2", 4, 40) > 0);
    assert_true(run_searches("llama3", 4, 40) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_greedy),
        cmocka_unit_test(beams_with_room),
        cmocka_unit_test(beams_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
