/* Random models of the Llama family against what torch and transformers computed in double
 * precision (golden/, scripts/make_goldens.py): frequencies, states after each layer, logits at
 * positions up to 5003, greedy ids. Each model goes through a file in every layout. */
#include "common/number_format.h"
#include "forward_rig.h"
#include "golden_file.h"

#define BOUND 1e-4 /* of the range of the logits: float32 in any order */
#define N_GREEDY 32
#define MAX_VOCAB 384

static pkv__weights load(const golden *g, golden_layout layout, pkv_dtype dtype)
{
    char folder[512];
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv__model_config c;
    pkv__weights w;
    golden_write(g, layout, folder, sizeof(folder));
    pkv__tensor_file *file = open_good(folder);
    pkv_status status = pkv__model_config_read(folder, file, &logger, NULL, &c);
    if (status == PKV_OK) status = pkv__weights_load(&c, file, dtype, &logger, NULL, &w);
    if (status != PKV_OK || log.n_lines > 0)
        fail_msg("%s, %s: %s", g->name, golden_layout_names[layout], log.text);
    scratch_remove(folder);
    /* Angles are those of the whole context; of the table of them only this much is used. */
    w.config.context = g->positions[g->n_ids - 1] + 1;
    return w;
}

/* Logits of every token of the probe. Keys follow each other in the store, positions do not. */
static void run_probe(const golden *g, const pkv__weights *w, const rig_options *o, float *logits)
{
    rig r;
    int64_t slots[GOLDEN_MAX_IDS];
    int32_t rows[GOLDEN_MAX_IDS];
    const int32_t n = g->n_ids, q_indptr[] = { 0, n };
    rig_make(&r, w, o, n);
    for (int32_t i = 0; i < n; i++) {
        rows[i] = i;
        slots[i] = (int64_t)r.blocks[i / o->block_tokens] * o->block_tokens + i % o->block_tokens;
    }
    const pkv__batch batch = { n,        1,  n,        g->ids,         g->positions, slots,
                               q_indptr, &n, r.blocks, r.n_blocks - 1, rows };
    const pkv_status status = pkv__forward_run(r.fwd, &batch, r.k, r.v, logits);
    if (status != PKV_OK) fail_msg("%s: %s %s", g->name, pkv_status_name(status), r.log.text);
    rig_drop(&r);
}

static const rig_options usual = { PKV_ISA_BEST, 1, 8, PKV_F32, 4, false };

static double range(const double *x, int32_t n)
{
    double low = x[0], high = x[0];
    for (int32_t i = 1; i < n; i++) {
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
    }
    return high - low;
}

/* The first number that is off, by more than a share of the range of its row; *worst is the largest
 * share. */
static bool first_off(const float *got, const double *want, int32_t n, double share, int32_t *at,
                      double *worst)
{
    const double whole = range(want, n);
    for (int32_t i = 0; i < n; i++) {
        const double off = fabs(got[i] - want[i]) / whole;
        if (!(off <= *worst)) *worst = off;
        if (!(off <= share)) {
            *at = i;
            return true;
        }
    }
    return false;
}

/* The largest share of a row's range by which a logit is off, which is an error above `share`. */
static double check_logits(const golden *g, const char *what, const float *logits, double share)
{
    double worst = 0;
    for (int32_t k = 0; k < g->n_rows; k++) {
        const float *got = logits + (int64_t)g->rows[k] * g->vocab;
        const double *want = g->logits + (int64_t)k * g->vocab;
        int32_t at;
        if (first_off(got, want, g->vocab, share, &at, &worst))
            fail_msg("%s, %s: position %d: logit %d is %f, not %f", g->name, what,
                     g->positions[g->rows[k]], at, (double)got[at], want[at]);
    }
    return worst;
}

/* ---------------------------------------------------------------- before any pass */

static void weights_and_frequencies(void **state)
{
    (void)state;
    for (int k = 0; golden_names[k]; k++) {
        char hex[65];
        golden g = golden_open(golden_names[k]);
        golden_sha256(&g, hex);
        assert_string_equal(hex, json_string_value(json_object_get(g.root, "weights_sha256")));
        pkv__weights w = load(&g, GOLDEN_F32, PKV_F32), other = load(&g, GOLDEN_ODD, PKV_F32);
        const json_t *inv_freq = json_object_get(g.root, "inv_freq");
        const double amplitude = json_number_value(json_object_get(g.root, "rope_amplitude"));
        assert_int_equal(json_array_size(inv_freq), g.head_dim / 2);
        for (int32_t i = 0; i < g.head_dim / 2; i++) {
            const double want = json_number_value(json_array_get(inv_freq, (size_t)i));
            if (!(fabs(w.inv_freq[i] - want) <= 1e-14 * want) || other.inv_freq[i] != w.inv_freq[i])
                fail_msg("%s: pair %d: %.17g, not %.17g", g.name, i, w.inv_freq[i], want);
        }
        if (!(fabs(w.rope_amplitude - amplitude) <= 1e-14) ||
            other.rope_amplitude != w.rope_amplitude)
            fail_msg("%s: amplitude %.17g, not %.17g", g.name, w.rope_amplitude, amplitude);
        pkv__weights_free(&w);
        pkv__weights_free(&other);
        golden_close(&g);
    }
}

/* Lists of ids in both files: all of them end a text. */
static void ends(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t n, eos[3];
    } known[] = { { "llama2", 1, { 2 } },
                  { "llama2_tied", 3, { 2, 7, 9 } },
                  { "llama3", 3, { 301, 308, 309 } } };
    for (size_t k = 0; k < PKV_ARRAY_LEN(known); k++) {
        golden g = golden_open(known[k].name);
        pkv__weights w = load(&g, k == 0 ? GOLDEN_F32 : GOLDEN_BF16, PKV_F32);
        assert_int_equal(w.config.bos, 1);
        assert_int_equal(w.config.n_eos, known[k].n);
        for (int32_t i = 0; i < known[k].n; i++) assert_int_equal(w.config.eos[i], known[k].eos[i]);
        pkv__weights_free(&w);
        golden_close(&g);
    }
}

/* Of the published model with 1 B parameters; transformers computed the same here. */
static void llama3_pairs(void **state)
{
    (void)state;
    golden g = golden_open("llama3");
    pkv__weights w = load(&g, GOLDEN_F32, PKV_F32);
    for (int32_t i = 0; i < 32; i++) {
        const double slower = pow(500000, -2.0 * i / 64) / w.inv_freq[i];
        if (i <= 14) assert_true(fabs(slower - 1) < 1e-12);
        else if (i <= 17) assert_true(slower > 1.01 && slower < 31.9);
        else assert_true(fabs(slower - 32) < 1e-11);
    }
    pkv__weights_free(&w);
    golden_close(&g);
}

/* ---------------------------------------------------------------- passes */

/* The model of the first n layers whose head shows what comes out of them: the norm without
 * weights, then a unit matrix, so that the first `hidden` logits are the state over its length. */
static void check_states(const golden *g, const pkv__weights *w, float *logits)
{
    const size_t cells = (size_t)g->vocab * (size_t)g->hidden;
    float *unit = calloc(cells, sizeof(float)), *ones = malloc((size_t)g->hidden * sizeof(float));
    double *want = malloc((size_t)g->hidden * sizeof(double)), worst = 0;
    assert_true(unit && ones && want);
    for (int32_t i = 0; i < g->hidden; i++) unit[i * g->hidden + i] = ones[i] = 1;
    for (int32_t n = 1; n <= g->layers; n++) {
        pkv__weights part = *w;
        part.config.n_layers = n;
        part.out_norm = ones;
        part.head = (pkv__matrix){ unit, PKV_F32, g->vocab, g->hidden };
        run_probe(g, &part, &usual, logits);
        for (int32_t k = 0; k < g->n_rows; k++) {
            const double *x = g->states + ((int64_t)n * g->n_rows + k) * g->hidden;
            double sum = 0;
            int32_t at;
            for (int32_t i = 0; i < g->hidden; i++) sum += x[i] * x[i];
            for (int32_t i = 0; i < g->hidden; i++)
                want[i] = x[i] / sqrt(sum / g->hidden + w->config.norm_eps);
            const float *got = logits + (int64_t)g->rows[k] * g->vocab;
            if (first_off(got, want, g->hidden, BOUND, &at, &worst))
                fail_msg("%s: layer %d, position %d: state %d is %f, not %f", g->name, n - 1,
                         g->positions[g->rows[k]], at, (double)got[at], want[at]);
        }
    }
    free(unit);
    free(ones);
    free(want);
}

/* The same numbers in the same order have the same bits; GGUF keeps theta and the divisors of pairs
 * in float32, and F16 rounds what is below its normal numbers. */
static void check_layouts(const golden *g, const float *first, float *logits)
{
    static const golden_layout layouts[] = { GOLDEN_BF16, GOLDEN_SHARDS, GOLDEN_ODD,
                                             GOLDEN_GGUF_F32, GOLDEN_GGUF_F16 };
    const size_t size = (size_t)g->n_ids * (size_t)g->vocab * sizeof(float);
    for (size_t k = 0; k < PKV_ARRAY_LEN(layouts); k++) {
        if (!golden_can_write(g, layouts[k])) continue;
        for (int kept = 0; kept < 2; kept++) {
            pkv__weights w = load(g, layouts[k], kept ? PKV_BF16 : PKV_F32);
            run_probe(g, &w, &usual, logits);
            check_logits(g, golden_layout_names[layouts[k]], logits, BOUND);
            if (layouts[k] < GOLDEN_GGUF_F32 && memcmp(first, logits, size) != 0)
                fail_msg("%s: other bits from %s", g->name, golden_layout_names[layouts[k]]);
            pkv__weights_free(&w);
        }
    }
}

static void every_model_in_every_layout(void **state)
{
    (void)state;
    static float first[GOLDEN_MAX_IDS * MAX_VOCAB], logits[GOLDEN_MAX_IDS * MAX_VOCAB];
    for (int k = 0; golden_names[k]; k++) {
        golden g = golden_open(golden_names[k]);
        pkv__weights w = load(&g, GOLDEN_F32, PKV_F32);
        assert_true(g.vocab <= MAX_VOCAB);
        check_states(&g, &w, logits);
        run_probe(&g, &w, &usual, first);
        const double worst = check_logits(&g, "f32", first, BOUND);
        fprintf(stderr, "# %s: logits %.1e of their range apart\n", g.name, worst);
        check_layouts(&g, first, logits);
        pkv__weights_free(&w);
        golden_close(&g);
    }
}

static void every_level(void **state)
{
    (void)state;
    static float logits[GOLDEN_MAX_IDS * MAX_VOCAB];
    pkv_isa levels[8];
    const int32_t n = rig_levels(levels);
    golden g = golden_open("llama3");
    pkv__weights w = load(&g, GOLDEN_F32, PKV_F32);
    for (int32_t l = 0; l < n; l++) {
        for (int fast = 0; fast < 2; fast++) {
            run_probe(&g, &w, &(rig_options){ levels[l], 2, 5, PKV_F32, 9, fast }, logits);
            check_logits(&g, pkv_isa_name(levels[l]), logits, BOUND);
        }
    }
    pkv__weights_free(&w);
    golden_close(&g);
}

/* Every id of the goldens is at least ten bounds ahead of its runner-up. */
static void check_margins(const golden *g, const json_t *run)
{
    const json_t *margins = json_object_get(run, "margins");
    const json_t *ranges = json_object_get(run, "ranges");
    assert_int_equal(json_array_size(margins), N_GREEDY);
    for (size_t i = 0; i < N_GREEDY; i++)
        if (!(json_number_value(json_array_get(margins, i)) >
              10 * BOUND * json_number_value(json_array_get(ranges, i))))
            fail_msg("%s: id %zu proves nothing", g->name, i);
}

static void check_greedy(const golden *g)
{
    static float logits[N_GREEDY * MAX_VOCAB];
    const json_t *run = json_object_get(g->root, "greedy");
    int32_t prompt[N_GREEDY], want[N_GREEDY];
    const int32_t n = golden_ints(json_object_get(run, "prompt"), prompt, N_GREEDY);
    assert_int_equal(golden_ints(json_object_get(run, "ids"), want, N_GREEDY), N_GREEDY);
    check_margins(g, run);
    pkv__weights w = load(g, GOLDEN_F32, PKV_F32);
    rig r;
    rig_seq s = { 0 };
    rig_make(&r, &w, &usual, n + N_GREEDY);
    rig_pass(&r, &(rig_piece){ &s, prompt, n }, 1, logits);
    const float *row = logits + (n - 1) * g->vocab;
    for (int32_t i = 0; i < N_GREEDY; i++) {
        int32_t best = 0;
        for (int32_t v = 1; v < g->vocab; v++)
            if (row[v] > row[best]) best = v;
        if (best != want[i]) fail_msg("%s: id %d is %d, not %d", g->name, i, best, want[i]);
        rig_pass(&r, &(rig_piece){ &s, &best, 1 }, 1, logits);
        row = logits;
    }
    rig_drop(&r);
    pkv__weights_free(&w);
}

static void greedy(void **state)
{
    (void)state;
    for (int k = 0; golden_names[k]; k++) {
        golden g = golden_open(golden_names[k]);
        check_greedy(&g);
        golden_close(&g);
    }
}

/* ---------------------------------------------------------------- what has to be seen */

/* Root of the mean square of what logits are off, in shares of the range of their row. */
static double mean_off(const golden *g, const float *logits)
{
    double sum = 0;
    for (int32_t k = 0; k < g->n_rows; k++) {
        const double *want = g->logits + (int64_t)k * g->vocab, whole = range(want, g->vocab);
        for (int32_t i = 0; i < g->vocab; i++) {
            const double off = logits[(int64_t)g->rows[k] * g->vocab + i] - want[i];
            sum += off / whole * (off / whole);
        }
    }
    return sqrt(sum / (g->n_rows * g->vocab));
}

/* Weights rounded to Q8_0 are those weights, bit by bit. Steps of 1/127 of the largest of a block
 * are off by 1/127/sqrt(12) of it in the mean, 4e-3 of the deviation of these weights; products
 * follow each other and softmax makes more of it. */
static void q8_0(void **state)
{
    (void)state;
    static float logits[GOLDEN_MAX_IDS * MAX_VOCAB], same[GOLDEN_MAX_IDS * MAX_VOCAB];
    for (int k = 0; golden_names[k]; k++) {
        golden g = golden_open(golden_names[k]);
        if (golden_can_write(&g, GOLDEN_GGUF_Q8_0)) {
            pkv__weights w = load(&g, GOLDEN_GGUF_Q8_0, PKV_F32);
            pkv__weights rounded = load(&g, GOLDEN_GGUF_ROUNDED, PKV_F32);
            run_probe(&g, &w, &usual, logits);
            run_probe(&g, &rounded, &usual, same);
            const double off = mean_off(&g, logits);
            fprintf(stderr, "# %s: Q8_0: logits %.1e of their range apart in the mean\n", g.name,
                    off);
            if (!(off <= 1e-2)) fail_msg("%s, Q8_0: logits are %.1e apart", g.name, off);
            assert_memory_equal(logits, same, (size_t)g.n_ids * (size_t)g.vocab * sizeof(float));
            pkv__weights_free(&w);
            pkv__weights_free(&rounded);
        }
        golden_close(&g);
    }
}

/* Pairs mixed up: at position 0 nothing is turned and all is well, from 1 on nothing is. */
static void wrong_rows_are_seen(void **state)
{
    (void)state;
    static float logits[GOLDEN_MAX_IDS * MAX_VOCAB];
    for (int k = 0; golden_names[k]; k++) {
        golden g = golden_open(golden_names[k]);
        if (golden_can_write(&g, GOLDEN_GGUF_WRONG)) {
            pkv__weights w = load(&g, GOLDEN_GGUF_WRONG, PKV_F32);
            run_probe(&g, &w, &usual, logits);
            for (int32_t row = 0; row < g.n_rows; row++) {
                double worst = 0;
                int32_t at;
                const bool off = first_off(logits + (int64_t)g.rows[row] * g.vocab,
                                           g.logits + (int64_t)row * g.vocab, g.vocab,
                                           row == 0 ? BOUND : 100 * BOUND, &at, &worst);
                if (off != (row > 0))
                    fail_msg("%s: position %d: %.1e apart", g.name, g.positions[g.rows[row]],
                             worst);
            }
            pkv__weights_free(&w);
        }
        golden_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_frequencies),
        cmocka_unit_test(ends),
        cmocka_unit_test(llama3_pairs),
        cmocka_unit_test(every_model_in_every_layout),
        cmocka_unit_test(every_level),
        cmocka_unit_test(greedy),
        cmocka_unit_test(q8_0),
        cmocka_unit_test(wrong_rows_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
