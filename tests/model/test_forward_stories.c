/* The trained test model through a store with block tables: three files, the published ids, logits
 * and likelihood (golden.json, made by an independent forward in double precision). */
#include "forward_rig.h"

#include <jansson.h>

#define N_IDS 256
#define VOCAB 512

typedef struct golden {
    int32_t ids[N_IDS];
    double first[VOCAB], last[VOCAB], nll;
} golden;

static golden read_golden(void)
{
    char path[1024];
    golden g;
    shared_path(STORIES "golden.json", path, sizeof(path));
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *ids = json_object_get(root, "greedy_ids");
    const json_t *first = json_object_get(root, "logits_pos0");
    const json_t *last = json_object_get(root, "logits_last");
    assert_int_equal(json_array_size(ids), N_IDS);
    assert_true(json_array_size(first) == VOCAB && json_array_size(last) == VOCAB);
    for (size_t i = 0; i < N_IDS; i++)
        g.ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    for (size_t i = 0; i < VOCAB; i++) {
        g.first[i] = json_number_value(json_array_get(first, i));
        g.last[i] = json_number_value(json_array_get(last, i));
    }
    g.nll = json_real_value(json_object_get(root, "mean_nll_of_greedy"));
    json_decref(root);
    return g;
}

static pkv__weights load_stories(const char *name, pkv_dtype dtype)
{
    char path[1024];
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv__model_config c;
    pkv__weights w;
    shared_path(name, path, sizeof(path));
    pkv__tensor_file *file = open_good(path);
    assert_int_equal(pkv__model_config_read(path, file, &logger, NULL, &c), PKV_OK);
    const pkv_status status = pkv__weights_load(&c, file, dtype, &logger, NULL, &w);
    if (status != PKV_OK) fail_msg("%s: %s", name, log.text);
    assert_int_equal(log.n_lines, 0);
    return w;
}

static int32_t argmax(const float *row)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

static double nll(const float *row, int32_t id)
{
    double sum = 0;
    for (int32_t i = 0; i < VOCAB; i++) sum += exp((double)row[i] - row[id]);
    return log(sum);
}

static void near(const char *name, const float *got, const double *want, double share)
{
    double low = want[0], high = want[0];
    for (int32_t i = 0; i < VOCAB; i++) {
        low = fmin(low, want[i]);
        high = fmax(high, want[i]);
    }
    for (int32_t i = 0; i < VOCAB; i++)
        if (!(fabs(got[i] - want[i]) <= share * (high - low)))
            fail_msg("%s: logit %d is %f, not %f", name, i, (double)got[i], want[i]);
}

/* Greedy, one token at a time: ids and logits of every step. */
static void generate(const pkv__weights *w, const rig_options *o, int32_t *ids, float *logits)
{
    rig r;
    rig_seq s = { 0 };
    rig_make(&r, w, o, N_IDS);
    ids[0] = w->config.bos;
    for (int32_t i = 0; i < N_IDS; i++) {
        float *row = logits + i * VOCAB;
        rig_pass(&r, &(rig_piece){ &s, &ids[i], 1 }, 1, row);
        if (i + 1 < N_IDS) ids[i + 1] = argmax(row);
    }
    rig_drop(&r);
}

static void check_golden(const char *name, const golden *g, const int32_t *ids, const float *logits)
{
    double sum = 0;
    for (int32_t i = 0; i < N_IDS; i++)
        if (ids[i] != g->ids[i]) fail_msg("%s: id %d is %d, not %d", name, i, ids[i], g->ids[i]);
    for (int32_t i = 0; i + 1 < N_IDS; i++) sum += nll(logits + i * VOCAB, ids[i + 1]);
    near(name, logits, g->first, 1e-4);
    near(name, logits + (N_IDS - 1) * VOCAB, g->last, 1e-4);
    if (!(fabs(sum / (N_IDS - 1) - g->nll) < 1e-6))
        fail_msg("%s: mean NLL %.9f, not %.9f", name, sum / (N_IDS - 1), g->nll);
}

static const char *const names[] = { STORIES "stories260K.bin", STORIES "model.safetensors",
                                     STORIES "stories260K.gguf" };

static void three_formats(void **state)
{
    (void)state;
    static float logits[3][N_IDS * VOCAB];
    const golden g = read_golden();
    const rig_options o = { PKV_ISA_BEST, 1, 16, PKV_F32, first_seed(), false };
    for (size_t k = 0; k < PKV_ARRAY_LEN(names); k++) {
        int32_t ids[N_IDS];
        pkv__weights w = load_stories(names[k], PKV_F32);
        generate(&w, &o, ids, logits[k]);
        check_golden(names[k], &g, ids, logits[k]);
        pkv__weights_free(&w);
    }
    /* The same numbers in the same order: not only near. */
    assert_memory_equal(logits[0], logits[1], sizeof(logits[0]));
    assert_memory_equal(logits[0], logits[2], sizeof(logits[0]));
}

static void every_level(void **state)
{
    (void)state;
    static float logits[N_IDS * VOCAB];
    pkv_isa levels[8];
    const golden g = read_golden();
    pkv__weights w = load_stories(names[0], PKV_F32);
    const int32_t n = rig_levels(levels);
    for (int32_t l = 0; l < n; l++) {
        int32_t ids[N_IDS];
        generate(&w, &(rig_options){ levels[l], 2, 5, PKV_F32, 3, false }, ids, logits);
        check_golden(pkv_isa_name(levels[l]), &g, ids, logits);
    }
    pkv__weights_free(&w);
}

static void prefill_is_decode(void **state)
{
    (void)state;
    static float decoded[N_IDS * VOCAB], prefilled[N_IDS * VOCAB];
    static const int32_t chunks[] = { N_IDS, 100, 7, 3 };
    int32_t ids[N_IDS];
    const rig_options o = { PKV_ISA_BEST, 1, 16, PKV_F32, 5, false };
    pkv__weights w = load_stories(names[0], PKV_F32);
    generate(&w, &o, ids, decoded);
    for (size_t k = 0; k < PKV_ARRAY_LEN(chunks); k++) {
        rig r;
        rig_make(&r, &w, &o, N_IDS);
        rig_run(&r, ids, N_IDS, chunks[k], prefilled);
        assert_memory_equal(decoded, prefilled, sizeof(decoded));
        rig_drop(&r);
    }
    pkv__weights_free(&w);
}

/* Rounded weights and rounded keys: logits near, ids of the published text where they are fed. */
static void rounded(void **state)
{
    (void)state;
    static float logits[N_IDS * VOCAB];
    const golden g = read_golden();
    for (int variant = 0; variant < 2; variant++) {
        rig r;
        pkv__weights w = load_stories(names[variant], variant == 0 ? PKV_BF16 : PKV_F32);
        const pkv_dtype kv = variant == 0 ? PKV_F32 : PKV_BF16;
        rig_make(&r, &w, &(rig_options){ PKV_ISA_BEST, 1, 16, kv, 6, false }, N_IDS);
        rig_run(&r, g.ids, N_IDS, N_IDS, logits);
        near(variant == 0 ? "bf16 weights" : "bf16 keys", logits, g.first, 2e-2);
        near(variant == 0 ? "bf16 weights" : "bf16 keys", logits + (N_IDS - 1) * VOCAB, g.last,
             2e-2);
        rig_drop(&r);
        pkv__weights_free(&w);
    }
}

/* The fast pass in another order of additions: the same bound. */
static void fast(void **state)
{
    (void)state;
    static float logits[N_IDS * VOCAB];
    const golden g = read_golden();
    pkv__weights w = load_stories(names[0], PKV_F32);
    rig r;
    rig_make(&r, &w, &(rig_options){ PKV_ISA_BEST, 2, 16, PKV_F32, 9, true }, N_IDS);
    rig_run(&r, g.ids, N_IDS, N_IDS, logits);
    near("fast", logits, g.first, 1e-4);
    near("fast", logits + (N_IDS - 1) * VOCAB, g.last, 1e-4);
    for (int32_t i = 0; i + 1 < N_IDS; i++)
        assert_int_equal(argmax(logits + i * VOCAB), g.ids[i + 1]);
    rig_drop(&r);
    pkv__weights_free(&w);
}

/* The order of rows in a file shows from position 1 on: at 0 nothing is turned. */
static void wrong_order_of_rows_is_seen(void **state)
{
    (void)state;
    static float right[4 * VOCAB], wrong[4 * VOCAB];
    const golden g = read_golden();
    const rig_options o = { PKV_ISA_BEST, 1, 16, PKV_F32, 7, false };
    pkv__weights w = load_stories(names[0], PKV_F32);
    char path[1024];
    shared_path(names[0], path, sizeof(path));
    pkv__model_config c = w.config;
    pkv__weights other;
    c.interleaved_pairs = false;
    assert_int_equal(pkv__weights_load(&c, open_good(path), PKV_F32, NULL, NULL, &other), PKV_OK);
    const pkv__weights *both[] = { &w, &other };
    for (int k = 0; k < 2; k++) {
        rig r;
        rig_make(&r, both[k], &o, N_IDS);
        rig_run(&r, g.ids, 4, 4, k == 0 ? right : wrong);
        rig_drop(&r);
    }
    double worst = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        assert_true(fabsf(right[i] - wrong[i]) < 1e-3f);
        worst = fmax(worst, fabs((double)right[VOCAB + i] - wrong[VOCAB + i]));
    }
    assert_true(worst > 0.1);
    pkv__weights_free(&w);
    pkv__weights_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_formats),
        cmocka_unit_test(every_level),
        cmocka_unit_test(prefill_is_decode),
        cmocka_unit_test(rounded),
        cmocka_unit_test(fast),
        cmocka_unit_test(wrong_order_of_rows_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
