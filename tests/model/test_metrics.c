/* Percentiles of buckets against sorted samples, and the text of all figures: JSON read back with
 * Jansson, Prometheus' format with a parser that forgives nothing. */
#include "model_test.h"

#include "common/philox.h"
#include "model/metrics.h"

#include <jansson.h>
#include <locale.h>

/* ---------------------------------------------------------------- delays */

enum { N_LAWS = 6 };
static const char *const law_names[N_LAWS] = { "constant",   "uniform", "exponential",
                                               "log-normal", "Pareto",  "two points" };

/* Nanoseconds, from 1 us on. */
static uint64_t draw(pkv__rng *rng, int law)
{
    const double u = pkv__rng_unit(rng), v = pkv__rng_unit(rng);
    double us = 4711;
    if (law == 1) us = 1e4 * u;
    if (law == 2) us = -2e3 * log(u);
    if (law == 3) us = 5e3 * exp(3 * sqrt(-2 * log(u)) * cos(2 * acos(-1) * v));
    if (law == 4) us = 20 * pow(u, -2);
    if (law == 5) us = u < 0.7 ? 1 : 1e9 + v;
    return (uint64_t)(1e3 * fmax(1, us));
}

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A percentile of sorted ns by nearest rank, in ms. */
static double exact(const uint64_t *ns, int n, int percent)
{
    return (double)ns[(int)ceil(percent * n / 100.0) - 1] / 1e6;
}

static void expect_close(double got, double want, double tolerance, const char *what, int n)
{
    if (!(fabs(got - want) <= tolerance * want))
        fail_msg("%s of %d: %.17g, expected %.17g", what, n, got, want);
}

static void test_percentiles(void **state)
{
    (void)state;
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    const double half = pow(2, 1 / 64.0) - 1 + 1e-12; /* of a bucket: 1.09 % */
    static uint64_t ns[20000];
    static pkv__delays d;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    for (int law = 0; law < N_LAWS; law++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 7, (uint32_t)law);
        for (int n = 1; n <= 20000; n = n < 120 ? n + 1 : n * 3) {
            pkv_delay_stats s;
            double sum = 0;
            memset(&d, 0, sizeof(d));
            for (int k = 0; k < n; k++) {
                ns[k] = draw(&rng, law);
                sum += (double)ns[k] / 1e6;
                pkv__delays_add(&d, ns[k]);
            }
            qsort(ns, (size_t)n, sizeof(ns[0]), by_size);
            pkv__delays_stats(&d, &s);
            assert_int_equal(s.n, n);
            expect_close(s.mean_ms, sum / n, 1e-12 * n, law_names[law], n);
            expect_close(s.max_ms, (double)ns[n - 1] / 1e6, 1e-15, law_names[law], n);
            expect_close(s.p50_ms, exact(ns, n, 50), half, law_names[law], n);
            expect_close(s.p90_ms, exact(ns, n, 90), half, law_names[law], n);
            expect_close(s.p99_ms, exact(ns, n, 99), half, law_names[law], n);
            if (n < 100) assert_true(s.p99_ms == s.max_ms); /* the last rank: no bucket */
            assert_true(s.p50_ms <= s.p90_ms && s.p90_ms <= s.p99_ms && s.p99_ms <= s.max_ms);
        }
    }
}

static void test_extremes(void **state)
{
    (void)state;
    static pkv__delays d;
    pkv_delay_stats s;
    memset(&d, 0, sizeof(d));
    pkv__delays_stats(&d, &s);
    assert_int_equal(s.n, 0);
    assert_true(isnan(s.mean_ms) && isnan(s.p50_ms) && isnan(s.p90_ms) && isnan(s.p99_ms));
    assert_true(isnan(s.max_ms));
    for (int k = 0; k < 5; k++) pkv__delays_add(&d, 0);
    pkv__delays_stats(&d, &s);
    assert_true(s.mean_ms == 0 && s.p50_ms == 0 && s.p99_ms == 0 && s.max_ms == 0);
    for (int k = 0; k < 95; k++) pkv__delays_add(&d, 999); /* below 1 us: no more than that */
    pkv__delays_stats(&d, &s);
    assert_true(s.p50_ms > 0 && s.p50_ms <= 0.001 && s.max_ms == 0.000999);
    for (int k = 0; k < 900; k++) pkv__delays_add(&d, UINT64_MAX);
    pkv__delays_stats(&d, &s);
    assert_true(s.p50_ms == s.max_ms && s.max_ms == (double)UINT64_MAX / 1e6);
    /* The first and the last bucket with two ends, from both sides. */
    const double last = 1099511627776e3; /* 2^40 us in ns */
    const uint64_t at[4] = { 1000, 1021, (uint64_t)(last * 0.999), (uint64_t)last };
    for (int k = 0; k < 4; k++) {
        memset(&d, 0, sizeof(d));
        for (int j = 0; j < 2; j++) pkv__delays_add(&d, at[k]);
        pkv__delays_add(&d, UINT64_MAX);
        pkv__delays_stats(&d, &s);
        if (k < 3) expect_close(s.p50_ms, (double)at[k] / 1e6, 0.011, "an edge", k);
        else assert_true(s.p50_ms == s.max_ms);
    }
}

/* ---------------------------------------------------------------- the figures */

/* Every field has a value of its own. */
static pkv_engine_stats some_stats(void)
{
    pkv_engine_stats s = PKV_ENGINE_STATS_INIT;
    s.n_submitted = 1001, s.n_refused = 1002, s.n_steps = 1003, s.n_prompt_tokens = 1004;
    s.n_output_tokens = 1005, s.n_computed_tokens = INT64_MAX, s.n_recomputed_tokens = 1007;
    s.n_cached_tokens = 1008, s.n_preempt_swap = 1009, s.n_preempt_recompute = 1010;
    s.n_swapped_bytes = 1011, s.n_copies = 1012, s.n_evictions = 1013, s.n_good = 1014;
    s.n_blocks = INT32_MAX, s.n_blocks_used = 1016, s.n_blocks_cached = 1017, s.peak_seqs = 1018;
    s.peak_blocks_used = 1019, s.mean_seqs = 20.5, s.slots_filled = 0.9625, s.forward_s = 1e-9;
    s.attention_s = 22.25, s.manager_s = 23.125, s.sampling_s = 1.0 / 3, s.step_s = 25.75;
    s.bytes_moved = 1.25e18, s.flop = 1e300, s.elapsed_s = 28.5, s.n_threads = 29;
    s.block_tokens = 30, s.max_seqs = 31, s.max_batch_tokens = 32, s.max_context = 33;
    s.watermark_blocks = 34, s.pool_bytes = INT64_C(1) << 40;
    for (int k = 0; k < 7; k++) s.n_finished[k] = 2000 + k;
    pkv_delay_stats *d[] = { &s.ttft, &s.tpot, &s.itl, &s.latency, &s.queue };
    for (int k = 0; k < 5; k++)
        *d[k] = (pkv_delay_stats){ 3000 + k, k + 0.5, k + 0.25, k + 0.75, k + 0.875, k + 10.0 };
    strcpy(s.kv_dtype, "e4m3");
    strcpy(s.isa, "avx2");
    strcpy(s.mode, "exact");
    return s;
}

/* The text, in memory of just its size; free(). */
static char *text_of(const pkv_engine_stats *s, pkv_stats_format format)
{
    size_t n = 0, m = 0;
    assert_int_equal(pkv_engine_stats_text(s, format, NULL, 0, &n), PKV_E_LIMIT);
    char *text = malloc(n + 1);
    memset(text, 'x', n + 1);
    assert_int_equal(pkv_engine_stats_text(s, format, text, n, &m), PKV_E_LIMIT);
    for (size_t k = 0; k <= n; k++) assert_int_equal(text[k], 'x');
    assert_int_equal(pkv_engine_stats_text(s, format, text, n + 1, &m), PKV_OK);
    assert_int_equal(m, n);
    assert_int_equal(strlen(text), n);
    return text;
}

static void test_refusals(void **state)
{
    (void)state;
    char buf[8];
    size_t n = 0;
    pkv_engine_stats s = some_stats();
    assert_int_equal(pkv_engine_stats_text(NULL, PKV_STATS_JSON, buf, 8, &n), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_stats_text(&s, PKV_STATS_JSON, NULL, 8, &n), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_stats_text(&s, PKV_STATS_JSON, buf, 8, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_stats_text(&s, (pkv_stats_format)2, buf, 8, &n), PKV_E_INVALID_ARG);
    s.struct_size--;
    assert_int_equal(pkv_engine_stats_text(&s, PKV_STATS_JSON, buf, 8, &n), PKV_E_ABI);
    assert_int_equal(n, 0);
}

static void test_finish_names(void **state)
{
    (void)state;
    static const char *const want[] = { "none",   "stop",     "length", "context",
                                        "cancel", "deadline", "error",  "unknown" };
    for (int k = 0; k < 8; k++) assert_string_equal(pkv_finish_name((pkv_finish)k), want[k]);
}

/* ---------------------------------------------------------------- JSON */

static json_t *read_json(const pkv_engine_stats *s)
{
    json_error_t error;
    char *text = text_of(s, PKV_STATS_JSON);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s in %s", error.text, text);
    free(text);
    return root;
}

static void expect_int(json_t *o, const char *key, int64_t want)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) != want)
        fail_msg("%s: %lld, expected %lld", key, (long long)json_integer_value(v), (long long)want);
    json_object_del(o, key);
}

static void expect_real(json_t *o, const char *key, double want)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v) || fabs(json_number_value(v) - want) > 1e-14 * want)
        fail_msg("%s: %.17g, expected %.17g", key, json_number_value(v), want);
    json_object_del(o, key);
}

static void expect_delay(json_t *root, const char *key, const pkv_delay_stats *d)
{
    json_t *o = json_object_get(root, key);
    assert_non_null(o);
    expect_int(o, "n", d->n);
    expect_real(o, "mean_ms", d->mean_ms);
    expect_real(o, "p50_ms", d->p50_ms);
    expect_real(o, "p90_ms", d->p90_ms);
    expect_real(o, "p99_ms", d->p99_ms);
    expect_real(o, "max_ms", d->max_ms);
    assert_int_equal(json_object_size(o), 0);
    json_object_del(root, key);
}

#define INT(field) expect_int(root, #field, s.field)
#define REAL(field) expect_real(root, #field, s.field)
static void test_json(void **state)
{
    (void)state;
    const pkv_engine_stats s = some_stats();
    json_t *root = read_json(&s);
    INT(n_submitted), INT(n_refused), INT(n_steps), INT(n_prompt_tokens), INT(n_output_tokens);
    INT(n_computed_tokens), INT(n_recomputed_tokens), INT(n_cached_tokens), INT(n_preempt_swap);
    INT(n_preempt_recompute), INT(n_swapped_bytes), INT(n_copies), INT(n_evictions), INT(n_good);
    INT(n_blocks), INT(n_blocks_used), INT(n_blocks_cached), INT(peak_seqs), INT(peak_blocks_used);
    INT(n_threads), INT(block_tokens), INT(max_seqs), INT(max_batch_tokens), INT(max_context);
    INT(watermark_blocks), INT(pool_bytes);
    REAL(mean_seqs), REAL(slots_filled), REAL(forward_s), REAL(attention_s), REAL(manager_s);
    REAL(sampling_s), REAL(step_s), REAL(bytes_moved), REAL(flop), REAL(elapsed_s);
    expect_delay(root, "ttft", &s.ttft);
    expect_delay(root, "tpot", &s.tpot);
    expect_delay(root, "itl", &s.itl);
    expect_delay(root, "latency", &s.latency);
    expect_delay(root, "queue", &s.queue);
    assert_string_equal(json_string_value(json_object_get(root, "kv_dtype")), "e4m3");
    assert_string_equal(json_string_value(json_object_get(root, "isa")), "avx2");
    assert_string_equal(json_string_value(json_object_get(root, "mode")), "exact");
    json_t *finished = json_object_get(root, "n_finished");
    for (int k = 1; k < 7; k++) expect_int(finished, pkv_finish_name((pkv_finish)k), 2000 + k);
    assert_int_equal(json_object_size(finished), 0);
    assert_int_equal(json_object_size(root), 4); /* these, and nothing else */
    json_decref(root);
}

/* No number is no number, and a name cannot break out. */
static void test_json_of_nothing(void **state)
{
    (void)state;
    pkv_engine_stats s = some_stats();
    s.ttft = (pkv_delay_stats){ 0, NAN, NAN, NAN, NAN, NAN };
    s.mean_seqs = NAN, s.flop = INFINITY, s.slots_filled = -INFINITY, s.step_s = -0.5;
    memset(s.isa, 'i', sizeof(s.isa)); /* no end */
    memcpy(s.mode, "\"\\\n\x80", 5);
    json_t *root = read_json(&s);
    json_t *ttft = json_object_get(root, "ttft");
    expect_int(ttft, "n", 0);
    assert_int_equal(json_object_size(ttft), 5);
    const char *key;
    json_t *v;
    json_object_foreach(ttft, key, v) assert_true(json_is_null(v));
    assert_true(json_is_null(json_object_get(root, "mean_seqs")));
    assert_true(json_is_null(json_object_get(root, "flop")));
    assert_true(json_is_null(json_object_get(root, "slots_filled")));
    assert_true(json_real_value(json_object_get(root, "step_s")) == -0.5);
    assert_string_equal(json_string_value(json_object_get(root, "isa")), "iiiiiiiiiiiiiiii");
    assert_string_equal(json_string_value(json_object_get(root, "mode")), "????");
    json_decref(root);
}

/* A locale with a comma changes nothing. */
static void test_locale(void **state)
{
    (void)state;
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8" };
    const pkv_engine_stats s = some_stats();
    const char *comma = NULL;
    char *want[2], *got[2];
    for (int k = 0; k < 2; k++) want[k] = text_of(&s, (pkv_stats_format)k);
    for (size_t k = 0; k < PKV_ARRAY_LEN(names) && !comma; k++)
        comma = setlocale(LC_NUMERIC, names[k]);
    for (int k = 0; k < 2; k++) got[k] = text_of(&s, (pkv_stats_format)k);
    setlocale(LC_NUMERIC, "C");
    for (int k = 0; k < 2; k++) {
        assert_string_equal(got[k], want[k]);
        free(got[k]);
        free(want[k]);
    }
    if (comma) return;
    fprintf(stderr, "SKIPPED: no locale with a decimal comma is installed\n");
    skip();
}

/* ---------------------------------------------------------------- Prometheus */

typedef struct sample {
    char name[80], labels[80]; /* labels as they stand between the braces */
    double value;
} sample;

typedef struct exposition {
    sample samples[100];
    int n;
    char families[60][80]; /* begun, in order */
    int n_families;
    char type[16]; /* of the family that is open */
    bool typed;
} exposition;

static size_t name_bytes(const char *s, bool colon)
{
    size_t n = 0;
    while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') || s[n] == '_' ||
           (colon && s[n] == ':') || (n > 0 && s[n] >= '0' && s[n] <= '9'))
        n++;
    return n;
}

static void take_name(const char **at, char *out, const char *line)
{
    const size_t n = name_bytes(*at, true);
    if (n == 0 || n >= 80) fail_msg("no name: %s", line);
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n;
}

/* HELP opens a family, TYPE comes right after it. */
static void parse_comment(exposition *e, const char *line)
{
    char name[80];
    const bool is_help = strncmp(line, "# HELP ", 7) == 0;
    if (!is_help && strncmp(line, "# TYPE ", 7) != 0) fail_msg("a comment: %s", line);
    const char *at = line + 7;
    take_name(&at, name, line);
    if (*at++ != ' ') fail_msg("no blank: %s", line);
    if (is_help) {
        if (!*at || strchr(at, '\\')) fail_msg("help text: %s", line);
        for (int k = 0; k < e->n_families; k++)
            if (strcmp(e->families[k], name) == 0) fail_msg("twice: %s", line);
        if (e->n_families > 0 && !e->typed) fail_msg("no type before: %s", line);
        strcpy(e->families[e->n_families++], name);
        e->typed = false;
        return;
    }
    if (e->typed || e->n_families == 0 || strcmp(e->families[e->n_families - 1], name) != 0)
        fail_msg("not behind its help: %s", line);
    if (strcmp(at, "counter") != 0 && strcmp(at, "gauge") != 0 && strcmp(at, "summary") != 0)
        fail_msg("type: %s", line);
    strcpy(e->type, at);
    e->typed = true;
}

/* `name="value",...` up to the brace. */
static void take_labels(const char **at, char *out, const char *line)
{
    const char *from = *at;
    for (;;) {
        const size_t n = name_bytes(*at, false);
        if (n == 0 || (*at)[n] != '=' || (*at)[n + 1] != '"') fail_msg("label: %s", line);
        *at += n + 2;
        while (**at && **at != '"' && **at != '\\') ++*at;
        if (*(*at)++ != '"') fail_msg("label's value: %s", line);
        if (**at != ',') break;
        ++*at;
    }
    if (**at != '}' || *at - from >= 80) fail_msg("labels: %s", line);
    memcpy(out, from, (size_t)(*at - from));
    out[*at - from] = '\0';
    ++*at;
}

static double take_value(const char *at, const char *line)
{
    char *end = NULL;
    if (strcmp(at, "NaN") == 0) return NAN;
    if (strcmp(at, "+Inf") == 0) return INFINITY;
    if (strcmp(at, "-Inf") == 0) return -INFINITY;
    if (!strchr("-0123456789", *at)) fail_msg("value: %s", line);
    const double v = strtod(at, &end);
    if (end == at || *end) fail_msg("value: %s", line);
    return v;
}

/* Does the sample belong to the family, by name, labels and value? */
static void check_member(const exposition *e, const sample *s, const char *line)
{
    const char *family = e->n_families > 0 ? e->families[e->n_families - 1] : "?";
    const size_t n = strlen(family);
    if (strncmp(s->name, family, n) != 0 || !e->typed) fail_msg("stray: %s", line);
    const char *end = s->name + n;
    if (strcmp(e->type, "summary") == 0) {
        const bool quantile = strncmp(s->labels, "quantile=\"", 10) == 0;
        if (!(*end == '\0' && quantile) && strcmp(end, "_sum") != 0 && strcmp(end, "_count") != 0)
            fail_msg("summary: %s", line);
        if (quantile && *end != '\0') fail_msg("summary: %s", line);
    } else if (*end != '\0') {
        fail_msg("stray: %s", line);
    }
    const bool total = n > 6 && strcmp(family + n - 6, "_total") == 0;
    if (total != (strcmp(e->type, "counter") == 0)) fail_msg("counters end in _total: %s", line);
    if (total && !(s->value >= 0)) fail_msg("a negative counter: %s", line);
}

static void parse_sample(exposition *e, const char *line)
{
    const char *at = line;
    sample *s = &e->samples[e->n];
    assert_true(e->n < (int)PKV_ARRAY_LEN(e->samples));
    memset(s, 0, sizeof(*s));
    take_name(&at, s->name, line);
    if (*at == '{') {
        at++;
        take_labels(&at, s->labels, line);
    }
    if (*at++ != ' ') fail_msg("no blank: %s", line);
    s->value = take_value(at, line);
    check_member(e, s, line);
    for (int k = 0; k < e->n; k++)
        if (strcmp(e->samples[k].name, s->name) == 0 &&
            strcmp(e->samples[k].labels, s->labels) == 0)
            fail_msg("twice: %s", line);
    e->n++;
}

static void parse(const pkv_engine_stats *stats, exposition *e)
{
    char *text = text_of(stats, PKV_STATS_PROMETHEUS);
    memset(e, 0, sizeof(*e));
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        if (!end) fail_msg("the last line has no end: %s", line);
        *end = '\0';
        if (*line == '#') parse_comment(e, line);
        else parse_sample(e, line);
    }
    free(text);
}

static void expect_sample(const exposition *e, const char *name, const char *labels, double want)
{
    for (int k = 0; k < e->n; k++) {
        const sample *s = &e->samples[k];
        if (strcmp(s->name + strlen("pagedkv_"), name) != 0 || strcmp(s->labels, labels) != 0)
            continue;
        const bool same = isnan(want) ? isnan(s->value) : fabs(s->value - want) <= 1e-14 * want;
        if (!same) fail_msg("%s{%s}: %.17g, expected %.17g", name, labels, s->value, want);
        return;
    }
    fail_msg("no %s{%s}", name, labels);
}

static void expect_summary(const exposition *e, const char *base, const pkv_delay_stats *d)
{
    char name[80];
    snprintf(name, sizeof(name), "%s_seconds", base);
    expect_sample(e, name, "quantile=\"0.5\"", d->p50_ms / 1e3);
    expect_sample(e, name, "quantile=\"0.9\"", d->p90_ms / 1e3);
    expect_sample(e, name, "quantile=\"0.99\"", d->p99_ms / 1e3);
    snprintf(name, sizeof(name), "%s_seconds_sum", base);
    expect_sample(e, name, "", d->n > 0 ? d->mean_ms / 1e3 * (double)d->n : 0);
    snprintf(name, sizeof(name), "%s_seconds_count", base);
    expect_sample(e, name, "", (double)d->n);
    snprintf(name, sizeof(name), "%s_max_seconds", base);
    expect_sample(e, name, "", d->max_ms / 1e3);
}

static void expect_all(const exposition *e, const pkv_engine_stats *s)
{
    const struct {
        const char *name, *labels;
        double want;
    } all[] = {
        { "requests_submitted_total", "", (double)s->n_submitted },
        { "requests_refused_total", "", (double)s->n_refused },
        { "requests_good_total", "", (double)s->n_good },
        { "requests_finished_total", "finish=\"stop\"", (double)s->n_finished[1] },
        { "requests_finished_total", "finish=\"length\"", (double)s->n_finished[2] },
        { "requests_finished_total", "finish=\"context\"", (double)s->n_finished[3] },
        { "requests_finished_total", "finish=\"cancel\"", (double)s->n_finished[4] },
        { "requests_finished_total", "finish=\"deadline\"", (double)s->n_finished[5] },
        { "requests_finished_total", "finish=\"error\"", (double)s->n_finished[6] },
        { "steps_total", "", (double)s->n_steps },
        { "prompt_tokens_total", "", (double)s->n_prompt_tokens },
        { "output_tokens_total", "", (double)s->n_output_tokens },
        { "computed_tokens_total", "", (double)s->n_computed_tokens },
        { "recomputed_tokens_total", "", (double)s->n_recomputed_tokens },
        { "cached_tokens_total", "", (double)s->n_cached_tokens },
        { "preemptions_total", "kind=\"swap\"", (double)s->n_preempt_swap },
        { "preemptions_total", "kind=\"recompute\"", (double)s->n_preempt_recompute },
        { "swapped_bytes_total", "", (double)s->n_swapped_bytes },
        { "copied_blocks_total", "", (double)s->n_copies },
        { "evicted_blocks_total", "", (double)s->n_evictions },
        { "blocks", "", s->n_blocks },
        { "used_blocks", "", s->n_blocks_used },
        { "cached_blocks", "", s->n_blocks_cached },
        { "peak_sequences", "", s->peak_seqs },
        { "peak_used_blocks", "", s->peak_blocks_used },
        { "mean_sequences", "", s->mean_seqs },
        { "filled_slots_ratio", "", s->slots_filled },
        { "forward_seconds_total", "", s->forward_s },
        { "attention_seconds_total", "", s->attention_s },
        { "manager_seconds_total", "", s->manager_s },
        { "sampling_seconds_total", "", s->sampling_s },
        { "step_seconds_total", "", s->step_s },
        { "moved_bytes_total", "", s->bytes_moved },
        { "flop_total", "", s->flop },
        { "elapsed_seconds", "", s->elapsed_s },
        { "threads", "", s->n_threads },
        { "block_tokens", "", s->block_tokens },
        { "max_sequences", "", s->max_seqs },
        { "max_batch_tokens", "", s->max_batch_tokens },
        { "max_context_tokens", "", s->max_context },
        { "watermark_blocks", "", s->watermark_blocks },
        { "pool_bytes", "", (double)s->pool_bytes },
        { "engine_info", "kv_dtype=\"e4m3\",isa=\"avx2\",mode=\"exact\"", 1 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(all); k++)
        expect_sample(e, all[k].name, all[k].labels, all[k].want);
    expect_summary(e, "time_to_first_token", &s->ttft);
    expect_summary(e, "time_per_output_token", &s->tpot);
    expect_summary(e, "inter_token_latency", &s->itl);
    expect_summary(e, "request_latency", &s->latency);
    expect_summary(e, "queue_time", &s->queue);
    assert_int_equal(e->n, PKV_ARRAY_LEN(all) + 5 * 6);
}

static void test_prometheus(void **state)
{
    (void)state;
    static exposition e;
    pkv_engine_stats s = some_stats();
    parse(&s, &e);
    expect_all(&e, &s);
    s.ttft = (pkv_delay_stats){ 0, NAN, NAN, NAN, NAN, NAN };
    s.mean_seqs = NAN;
    parse(&s, &e);
    expect_all(&e, &s);
    s.mean_seqs = INFINITY;
    memcpy(s.mode, "\"\\\n}", 5);
    parse(&s, &e);
}

/* Each family stands in the manual with its type, and each JSON key with its row. */
static void test_manual(void **state)
{
    (void)state;
    static exposition e;
    bytes manual = { 0 };
    const pkv_engine_stats s = some_stats();
    read_bytes(PKV_ENGINE_MANUAL, &manual);
    put(&manual, "", 1);
    parse(&s, &e);
    for (int k = 0; k < e.n_families; k++) {
        char want[100];
        snprintf(want, sizeof(want), "`%s`", e.families[k]);
        if (!strstr((const char *)manual.data, want)) fail_msg("not in the manual: %s", want);
    }
    json_t *root = read_json(&s), *v;
    const char *key;
    json_object_foreach(root, key, v)
    {
        char want[100];
        snprintf(want, sizeof(want), "| `%s` |", key);
        if (!strstr((const char *)manual.data, want)) fail_msg("not in the manual: %s", want);
    }
    json_decref(root);
    bytes_free(&manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_finish_names),
        cmocka_unit_test(test_json),        cmocka_unit_test(test_json_of_nothing),
        cmocka_unit_test(test_locale),      cmocka_unit_test(test_prometheus),
        cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
