/* Golden runs on real traces, from an independent model with the same rules: all requests queued at
 * time 0, every step one time unit, averages over the steps in which somebody waits after
 * admission. Figures are shares of the pool in percent and the mean batch. Steps and preemptions
 * are exact. Traces: $PKV_SHARED/traces (Azure 2023, Vidur, Sarathi-Serve, Mooncake and
 * LLMServingSim repositories). */
#include "common/common.h"
#include "pagedkv/sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define AZURE_CONV "azure2023/AzureLLMInferenceTrace_conv.csv"
#define AZURE_CODE "azure2023/AzureLLMInferenceTrace_code.csv"
#define SHAREGPT "sharegpt_lens/sharegpt_8k_filtered_stats_llama2_tokenizer.csv"
#define MOONCAKE "mooncake/synthetic_trace.jsonl"
#define SERVINGSIM "llmservingsim/sharegpt_llama31_8b_300_blk16.jsonl"
#define ARXIV "vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv"

static int64_t read_file(void *ctx, void *buf, size_t cap)
{
    return (int64_t)fread(buf, 1, cap, ctx);
}

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "# %s\n", text);
}

/* Skips the test if the trace is not there. */
static FILE *open_trace(const char *name)
{
    const char *shared = getenv("PKV_SHARED");
    char path[1024];
    snprintf(path, sizeof(path), "%s/traces/%s", shared ? shared : "../shared", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "SKIPPED: %s is missing\n", path);
        skip();
    }
    return file;
}

static pkv_status read_trace(const char *name, const pkv_sim_trace_config *cfg, pkv_sim_trace *out)
{
    FILE *file = open_trace(name);
    *out = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    const pkv_status status = pkv_sim_trace_read(read_file, file, cfg, out);
    fclose(file);
    return status;
}

static void load(const char *name, int64_t max_requests, pkv_sim_trace *out)
{
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    cfg.log.fn = print_log;
    cfg.max_requests = max_requests;
    assert_int_equal(read_trace(name, &cfg, out), PKV_OK);
}

typedef struct golden {
    const char *policy;
    double token, reservation, internal, external, batch;
    int64_t steps, preemptions; /* steps -1: not stated */
} golden;

static void expect(const char *trace, const golden *g, const char *what, double got, double want,
                   double tolerance)
{
    if (fabs(got - want) > tolerance)
        fail_msg("%s, %s: %s is %.3f, expected %.3f +- %.2f", trace, g->policy, what, got, want,
                 tolerance);
}

static void run_one(const char *name, const pkv_sim_trace *t, pkv_sim_config cfg, const golden *g)
{
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv_sim_policy_parse(g->policy, &cfg.log, &cfg.policy), PKV_OK);
    const double tolerance = 0.06; /* the figures have one decimal */
    assert_int_equal(pkv_sim_run(&cfg, t->reqs, t->n_reqs, &res), PKV_OK);
    expect(name, g, "token", 100 * res.split.token, g->token, tolerance);
    expect(name, g, "reservation", 100 * res.split.reservation, g->reservation, tolerance);
    expect(name, g, "internal", 100 * res.split.internal, g->internal, tolerance);
    expect(name, g, "external", 100 * res.split.external, g->external, tolerance);
    expect(name, g, "batch", res.mean_batch, g->batch, 0.006);
    expect(name, g, "preemptions", (double)res.n_preemptions, (double)g->preemptions, 0);
    expect(name, g, "rejected", (double)res.n_too_long, 0, 0);
    if (g->steps >= 0)
        expect(name, g, "steps", (double)(res.window_ns / 1000000000), (double)g->steps, 0);
}

static void run_all(const char *name, int64_t n, int32_t max_model_len, const golden *rows,
                    size_t n_rows)
{
    pkv_sim_trace t;
    load(name, n, &t);
    assert_int_equal(t.n_reqs, n);
    for (int64_t r = 0; r < n; r++) t.reqs[r].arrival_ns = 0;
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.pool_tokens = 65536;
    cfg.max_model_len = max_model_len;
    cfg.step_base_ns = 1000000000;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.log.fn = print_log;
    for (size_t k = 0; k < n_rows; k++) run_one(name, &t, cfg, &rows[k]);
    pkv_sim_trace_free(&t);
}

static void test_azure_conv(void **state)
{
    (void)state;
    static const golden rows[] = {
        { "max", 7.6, 1.1, 91.2, 0.0, 4.00, 194342, 0 },
        { "max:alloc=ideal", 7.6, 1.1, 91.2, 0.0, 4.00, -1, 0 },
        { "pow2", 48.3, 7.2, 4.6, 39.8, 25.31, -1, 0 },
        { "oracle", 51.2, 7.7, 0.0, 41.1, 26.83, -1, 0 },
        { "oracle:alloc=first-fit", 70.5, 10.6, 0.0, 19.0, 36.91, -1, 0 },
        { "oracle:alloc=best-fit", 72.0, 10.8, 0.0, 17.2, 37.75, -1, 0 },
        { "oracle:alloc=ideal", 85.6, 12.9, 0.0, 1.6, 44.85, 17178, 0 },
        { "paged:block=16", 97.3, 0.0, 0.7, 2.0, 51.03, 15053, 79 },
    };
    run_all(AZURE_CONV, 3000, 16384, rows, PKV_ARRAY_LEN(rows));
}

static void test_azure_code(void **state)
{
    (void)state;
    static const golden rows[] = {
        { "max", 24.9, 1.2, 73.9, 0.0, 8.00, 10521, 0 },
        { "max:alloc=ideal", 24.9, 1.2, 73.9, 0.0, 8.00, -1, 0 },
        { "pow2", 56.0, 2.7, 1.5, 39.8, 18.11, -1, 0 },
        { "oracle", 56.9, 2.7, 0.0, 40.3, 18.41, -1, 0 },
        { "oracle:alloc=first-fit", 72.8, 3.5, 0.0, 23.7, 23.61, -1, 0 },
        { "oracle:alloc=best-fit", 73.2, 3.5, 0.0, 23.4, 23.76, -1, 0 },
        { "oracle:alloc=ideal", 92.7, 4.3, 0.0, 3.0, 30.17, 2728, 0 },
        { "paged:block=16", 95.8, 0.0, 0.4, 3.8, 31.18, 2636, 0 },
    };
    run_all(AZURE_CODE, 3000, 8192, rows, PKV_ARRAY_LEN(rows));
}

static void test_sharegpt(void **state)
{
    (void)state;
    static const golden rows[] = {
        { "max", 16.5, 1.9, 37.9, 43.8, 4.00, 341476, 0 },
        { "max:alloc=ideal", 28.8, 3.3, 66.3, 1.6, 7.00, -1, 0 },
        { "pow2", 52.4, 6.0, 4.0, 37.6, 12.75, -1, 0 },
        { "oracle", 56.9, 6.5, 0.0, 36.6, 13.85, -1, 0 },
        { "oracle:alloc=first-fit", 72.1, 8.2, 0.0, 19.7, 17.53, -1, 0 },
        { "oracle:alloc=best-fit", 72.2, 8.2, 0.0, 19.6, 17.55, -1, 0 },
        { "oracle:alloc=ideal", 86.8, 9.9, 0.0, 3.3, 21.11, 64394, 0 },
        { "paged:block=16", 96.1, 0.0, 0.3, 3.6, 23.37, 58163, 168 },
    };
    run_all(SHAREGPT, 3000, 9216, rows, PKV_ARRAY_LEN(rows));
}

static void test_arxiv(void **state)
{
    (void)state;
    static const golden rows[] = {
        { "max", 29.0, 8.3, 12.8, 50.0, 8.00, 77115, 0 },
        { "max:alloc=ideal", 54.3, 15.5, 24.0, 6.2, 15.00, -1, 0 },
        { "pow2", 41.7, 11.9, 5.4, 41.0, 11.51, -1, 0 },
        { "oracle", 60.8, 17.3, 0.0, 21.9, 16.80, -1, 0 },
        { "oracle:alloc=first-fit", 65.1, 18.6, 0.0, 16.4, 17.99, -1, 0 },
        { "oracle:alloc=best-fit", 66.0, 18.8, 0.0, 15.2, 18.25, -1, 0 },
        { "oracle:alloc=ideal", 76.0, 21.6, 0.0, 2.4, 21.02, 28811, 0 },
        { "paged:block=16", 96.9, 0.0, 0.3, 2.8, 26.77, 22381, 26 },
    };
    run_all(ARXIV, 2000, 4097, rows, PKV_ARRAY_LEN(rows));
}

/* Rows, spans and lengths as numpy gives them (linear percentiles). */
static void test_anchors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t rows, span_ms;
        double in, in_p50, in_p99, out, out_p50;
    } files[] = {
        { AZURE_CODE, 8819, 3435948, 2047.85, 1469, 7436, 27.88, 13 },
        { AZURE_CONV, 19366, 3501722, 1154.70, 1020, 4142, 211.13, 129 },
        { ARXIV, 28257, 0, 2588.08, 2730, -1, 291.43, 167 },
        { SHAREGPT, 30731, 0, 2340.03, 1730, -1, 438.71, 415 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        pkv_sim_trace t;
        load(files[k].name, 0, &t);
        assert_int_equal(t.rows_read, files[k].rows);
        assert_int_equal(t.n_reqs, files[k].rows);
        assert_int_equal((t.span_ns + 500000) / 1000000, files[k].span_ms);
        assert_int_equal(t.has_times, files[k].span_ms > 0);
        double *v = malloc((size_t)t.n_reqs * sizeof(*v));
        assert_non_null(v);
        pkv_sim_dist d;
        for (int64_t r = 0; r < t.n_reqs; r++) v[r] = t.reqs[r].prompt_tokens;
        pkv_sim_dist_of(v, t.n_reqs, false, &d);
        assert_true(fabs(d.mean - files[k].in) < 0.006 && d.p50 == files[k].in_p50);
        if (files[k].in_p99 >= 0) assert_true(fabs(d.p99 - files[k].in_p99) < 0.51);
        for (int64_t r = 0; r < t.n_reqs; r++) v[r] = t.reqs[r].output_tokens;
        pkv_sim_dist_of(v, t.n_reqs, false, &d);
        assert_true(fabs(d.mean - files[k].out) < 0.006 && d.p50 == files[k].out_p50);
        free(v);
        pkv_sim_trace_free(&t);
    }
}

/* Output lengths of a request that runs at a random moment, and the longest lengths. */
static void test_more_anchors(void **state)
{
    (void)state;
    pkv_sim_trace t;
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    pkv_sim_forms f = PKV_SIM_FORMS_INIT;
    load(SHAREGPT, 0, &t);
    cfg.max_model_len = 1 << 20;
    assert_int_equal(pkv_sim_closed_forms(&cfg, t.reqs, t.n_reqs, &f), PKV_OK);
    assert_true(fabs(f.output_bias - 599.55) < 0.006);
    pkv_sim_trace_free(&t);
    load(AZURE_CONV, 0, &t);
    int32_t in = 0, out = 0;
    for (int64_t r = 0; r < t.n_reqs; r++) {
        if (t.reqs[r].prompt_tokens > in) in = t.reqs[r].prompt_tokens;
        if (t.reqs[r].output_tokens > out) out = t.reqs[r].output_tokens;
    }
    assert_int_equal(in, 14050);
    assert_int_equal(out, 1000);
    pkv_sim_trace_free(&t);
    load(ARXIV, 0, &t);
    for (int64_t r = 0; r < t.n_reqs; r++)
        assert_in_range(t.reqs[r].prompt_tokens + t.reqs[r].output_tokens, 2, 4096);
    pkv_sim_trace_free(&t);
}

/* What a share in percent with two decimals, or one, says. */
static void expect_percent(const char *what, double part, double whole, double want, double half)
{
    const double got = 100 * part / whole;
    if (fabs(got - want) > half) fail_msg("%s is %.4f %%, expected %.2f %%", what, got, want);
}

/* Mooncake: what a cache that never evicts would find; and a block manager that never has to evict
 * finds exactly that in blocks of 16, as a dictionary of prefixes says, one token of each prompt
 * being computed. The dictionary's figures are those of a few lines of Python. */
static void test_mooncake(void **state)
{
    (void)state;
    pkv_sim_trace t;
    load(MOONCAKE, 0, &t);
    assert_int_equal(t.rows_read, 3993);
    assert_int_equal(t.n_reqs, 3993);
    assert_int_equal(t.span_ns, INT64_C(1022025) * 1000000);
    pkv_sim_cache_forms f = PKV_SIM_CACHE_FORMS_INIT;
    assert_int_equal(pkv_sim_cache_bound(&t.content, t.reqs, t.n_reqs, 16, NULL, &f), PKV_OK);
    assert_int_equal(f.prompt_tokens, 61194628);
    assert_int_equal(f.found_tokens, 39852661);
    assert_int_equal(f.ids, 121877);
    assert_int_equal(f.found_ids, 77953);
    assert_int_equal(f.found_block_tokens, 39850976);
    expect_percent("tokens found", (double)f.found_tokens, (double)f.prompt_tokens, 65.12, 0.005);
    expect_percent("blocks found", (double)f.found_ids, (double)f.ids, 63.96, 0.005);
    expect_percent("mean per request", f.mean_rate, 1, 43.2, 0.05);
    double in = 0, out = 0;
    for (int64_t r = 0; r < t.n_reqs; r++) {
        in += t.reqs[r].prompt_tokens;
        out += t.reqs[r].output_tokens;
    }
    assert_true(fabs(in / 3993 - 15325) < 0.5 && fabs(out / 3993 - 149) < 0.5);

    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv_sim_policy_parse("paged+prefix:block=16", NULL, &cfg.policy), PKV_OK);
    cfg.pool_tokens = 16 * 4000000;
    cfg.max_model_len = 200000;
    cfg.max_num_seqs = 4000;
    cfg.content = &t.content;
    cfg.log.fn = print_log;
    assert_int_equal(pkv_sim_run(&cfg, t.reqs, t.n_reqs, &res), PKV_OK);
    assert_int_equal(res.hits.prompt_tokens, 61194628);
    assert_int_equal(res.hits.cached_tokens, 39850800);
    pkv_sim_trace_free(&t);
}

typedef struct note {
    char text[400];
} note;

static void keep(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    snprintf(((note *)ctx)->text, sizeof(((note *)ctx)->text), "%s", text);
}

/* LLMServingSim's 300 ShareGPT requests have ids of 16 tokens; by its keys the file is a Mooncake
 * trace, whose ids have 512: refused, naming 16. */
static void test_servingsim(void **state)
{
    (void)state;
    pkv_sim_trace t;
    note said = { "" };
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    cfg.log = (pkv_logger){ keep, &said };
    assert_int_equal(read_trace(SERVINGSIM, &cfg, &t), PKV_E_FORMAT);
    if (!strstr(said.text, "16") || !strstr(said.text, "line 1"))
        fail_msg("the message is '%s'", said.text);
    cfg.hash_block_tokens = 16;
    assert_int_equal(read_trace(SERVINGSIM, &cfg, &t), PKV_OK);
    assert_int_equal(t.n_reqs, 300);
    pkv_sim_cache_forms f = PKV_SIM_CACHE_FORMS_INIT;
    assert_int_equal(pkv_sim_cache_bound(&t.content, t.reqs, t.n_reqs, 16, NULL, &f), PKV_OK);
    assert_int_equal(f.prompt_tokens, 257239);
    assert_int_equal(f.found_tokens, 19520);
    double out = 0;
    for (int64_t r = 0; r < 300; r++) out += t.reqs[r].output_tokens;
    assert_true(fabs(257239 / 300.0 - 857.46) < 0.005 && fabs(out / 300 - 652.51) < 0.005);
    pkv_sim_trace_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anchors),    cmocka_unit_test(test_azure_conv),
        cmocka_unit_test(test_azure_code), cmocka_unit_test(test_sharegpt),
        cmocka_unit_test(test_arxiv),      cmocka_unit_test(test_more_anchors),
        cmocka_unit_test(test_mooncake),   cmocka_unit_test(test_servingsim),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
