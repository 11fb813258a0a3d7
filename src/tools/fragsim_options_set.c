/* How the value of each option is understood. */
#include "fragsim_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *field_of(fragsim_options *o, const fragsim_option *row)
{
    return (char *)o + row->field;
}

/* The place of `v` among n names; -1: it has complained. */
static int pick(const fragsim_option *row, const char *v, const char *const *names, int n)
{
    char all[256];
    size_t len = 0;
    for (int k = 0; k < n; k++) {
        if (strcmp(v, names[k]) == 0) return k;
        if (len < sizeof(all))
            len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s",
                                    k == 0       ? ""
                                    : k == n - 1 ? " or "
                                                 : ", ",
                                    names[k]);
    }
    fragsim_complain("%s: '%s' is not %s", row->name, v, all);
    return -1;
}

/* ---------------------------------------------------------------- of a kind */

bool fragsim_set_flag(fragsim_options *o, const fragsim_option *row, const char *v)
{
    (void)v;
    *(bool *)field_of(o, row) = true;
    return true;
}

bool fragsim_set_whole64(fragsim_options *o, const fragsim_option *row, const char *v)
{
    if (tool_parse_whole(v, row->low, row->high, field_of(o, row))) return true;
    return fragsim_complain("%s: '%s' is not a whole number from %lld to %lld", row->name, v,
                            (long long)row->low, (long long)row->high);
}

bool fragsim_set_whole32(fragsim_options *o, const fragsim_option *row, const char *v)
{
    int64_t value;
    if (tool_parse_whole(v, row->low, row->high, &value)) {
        *(int32_t *)field_of(o, row) = (int32_t)value;
        return true;
    }
    return fragsim_complain("%s: '%s' is not a whole number from %lld to %lld", row->name, v,
                            (long long)row->low, (long long)row->high);
}

bool fragsim_set_text(fragsim_options *o, const fragsim_option *row, const char *v)
{
    if (*v == '\0') return fragsim_complain("%s: an empty text; give %s", row->name, row->value);
    *(const char **)field_of(o, row) = v;
    return true;
}

static bool set_micro(fragsim_options *o, const fragsim_option *row, const char *v,
                      const char *what)
{
    bool exact;
    int64_t value;
    if (!tool_parse_decimal(v, strlen(v), 6, &value, &exact) || value <= 0)
        return fragsim_complain("%s: '%s' is not %s above 0", row->name, v, what);
    *(int64_t *)field_of(o, row) = value;
    return true;
}

bool fragsim_set_rate(fragsim_options *o, const fragsim_option *row, const char *v)
{
    return set_micro(o, row, v, "a number of requests per second");
}

bool fragsim_set_factor(fragsim_options *o, const fragsim_option *row, const char *v)
{
    return set_micro(o, row, v, "a number");
}

bool fragsim_set_time(fragsim_options *o, const fragsim_option *row, const char *v)
{
    bool exact;
    int64_t value;
    if (!tool_parse_time(v, strlen(v), &value, &exact) || value < row->low)
        return fragsim_complain("%s: '%s' is not a time%s, as in 600, 250ms or 10min", row->name, v,
                                row->low > 0 ? " above 0" : "");
    *(int64_t *)field_of(o, row) = value;
    return true;
}

bool fragsim_set_bytes(fragsim_options *o, const fragsim_option *row, const char *v)
{
    int64_t value;
    if (!tool_parse_bytes(v, &value) || value < row->low)
        return fragsim_complain("%s: '%s' is not a number of bytes%s, as in 12GiB, 40GB or 65536",
                                row->name, v, row->low > 0 ? " above 0" : "");
    *(int64_t *)field_of(o, row) = value;
    return true;
}

bool fragsim_set_speed(fragsim_options *o, const fragsim_option *row, const char *v)
{
    int64_t value = 0; /* infinite */
    if (strcmp(v, "inf") != 0 && (!tool_parse_bytes(v, &value) || value < 1))
        return fragsim_complain("%s: '%s' is not a number of bytes per second above 0, as in 32GB, "
                                "or inf",
                                row->name, v);
    *(int64_t *)field_of(o, row) = value;
    return true;
}

/* ---------------------------------------------------------------- requests */

bool fragsim_set_trace(fragsim_options *o, const fragsim_option *row, const char *v)
{
    if (o->trace_path) return fragsim_complain("%s: one file at a time", row->name);
    if (*v == '\0') return fragsim_complain("%s: an empty file name", row->name);
    o->trace_path = v;
    return true;
}

bool fragsim_set_format(fragsim_options *o, const fragsim_option *row, const char *v)
{
    const char *names[17] = { "auto" };
    int n = 1;
    for (; n < 17 && pkv_sim_trace_format(n - 1); n++) names[n] = pkv_sim_trace_format(n - 1);
    const int k = pick(row, v, names, n);
    if (k < 0) return false;
    o->trace.format = k == 0 ? NULL : names[k];
    return true;
}

/* "in=A,out=B,time=C": the names stay where they are in a copy of the text. */
bool fragsim_set_columns(fragsim_options *o, const fragsim_option *row, const char *v)
{
    if (o->columns) return fragsim_complain("%s: given twice", row->name);
    o->columns = strdup(v);
    if (!o->columns) return fragsim_complain("out of memory");
    const struct {
        const char *key;
        const char **name;
    } keys[] = { { "in=", &o->trace.in_column },
                 { "out=", &o->trace.out_column },
                 { "time=", &o->trace.time_column } };
    for (char *at = o->columns; at;) {
        char *comma = strchr(at, ',');
        bool known = false;
        if (comma) *comma = '\0';
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
            const size_t len = strlen(keys[k].key);
            if (strncmp(at, keys[k].key, len) != 0 || at[len] == '\0' || *keys[k].name) continue;
            *keys[k].name = at + len;
            known = true;
        }
        if (!known)
            return fragsim_complain(
                "%s: '%s' is not in=NAME,out=NAME or in=NAME,out=NAME,time=NAME", row->name, v);
        at = comma ? comma + 1 : NULL;
    }
    if (o->trace.in_column && o->trace.out_column) return true;
    return fragsim_complain("%s: '%s' names no %s column; give in=NAME,out=NAME", row->name, v,
                            o->trace.in_column ? "out" : "in");
}

bool fragsim_set_time_unit(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "ns", "us", "ms", "s", "min", "h" };
    static const int64_t ns[] = {
        1, 1000, 1000000, 1000000000, INT64_C(60000000000), INT64_C(3600000000000)
    };
    const int k = pick(row, v, names, 6);
    if (k < 0) return false;
    o->trace.time_unit_ns = ns[k];
    return true;
}

bool fragsim_set_filter(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "none", "vllm", "artifact", "sglang", "burstgpt-gpt4" };
    const int k = pick(row, v, names, 5);
    if (k < 0) return false;
    o->trace.filter = (pkv_sim_filter)k;
    return true;
}

bool fragsim_set_zero_output(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "drop", "keep" };
    const int k = pick(row, v, names, 2);
    if (k < 0) return false;
    o->trace.keep_zero_output = k == 1;
    return true;
}

static void complain_lengths(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fragsim_complain("--lengths: %s, or a file", text);
}

/* A kind of law, or a file: what is not a kind has to look like a file or be one. */
bool fragsim_set_lengths(fragsim_options *o, const fragsim_option *row, const char *v)
{
    (void)row;
    pkv_sim_lengths law;
    const pkv_logger log = { complain_lengths, NULL };
    const bool kind = pkv_sim_lengths_parse(v, NULL, &law) == PKV_OK;
    const bool file = !kind && *v != '\0' &&
                      (strcmp(v, "-") == 0 || access(v, F_OK) == 0 || strchr(v, '/') ||
                       (strchr(v, '.') && !strchr(v, ':')));
    o->lengths_text = kind ? v : NULL;
    o->lengths_path = file ? v : NULL;
    return kind || file || pkv_sim_lengths_parse(v, &log, &law) == PKV_OK;
}

/* ---------------------------------------------------------------- arrivals */

bool fragsim_set_request_rate(fragsim_options *o, const fragsim_option *row, const char *v)
{
    if (strcmp(v, "inf") != 0) return fragsim_set_rate(o, row, v);
    o->arrivals.rate_micro = 0;
    return true;
}

bool fragsim_set_arrival(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "poisson", "gamma", "constant", "burst", "artifact" };
    const int k = pick(row, v, names, 5);
    if (k < 0) return false;
    o->arrivals.kind = (pkv_sim_arrival)k;
    o->arrival_given = true;
    return true;
}

bool fragsim_set_seed(fragsim_options *o, const fragsim_option *row, const char *v)
{
    int64_t seed;
    if (!tool_parse_whole(v, 0, INT64_MAX, &seed))
        return fragsim_complain("%s: '%s' is not a whole number from 0 to %lld", row->name, v,
                                (long long)INT64_MAX);
    o->arrivals.seed = o->sim.seed = (uint64_t)seed;
    o->seed_given = true;
    return true;
}

/* ---------------------------------------------------------------- pool and policies */

bool fragsim_set_policy(fragsim_options *o, const fragsim_option *row, const char *v)
{
    if (o->n_policies >= FRAGSIM_MAX_POLICIES)
        return fragsim_complain("%s: at most %d of them", row->name, FRAGSIM_MAX_POLICIES);
    o->policy_texts[o->n_policies++] = v;
    return true;
}

/* As vLLM counts: block 0 is part of N, and nobody gets it. */
bool fragsim_set_gpu_blocks(fragsim_options *o, const fragsim_option *row, const char *v)
{
    if (!fragsim_set_whole64(o, row, v)) return false;
    o->num_blocks--;
    return true;
}

bool fragsim_set_model(fragsim_options *o, const fragsim_option *row, const char *v)
{
    const fragsim_model *model = fragsim_model_find(v);
    if (!model) {
        char names[512];
        fragsim_model_names(names, sizeof(names));
        return fragsim_complain("%s: '%s' is not one of %s; others by --layers, --kv-heads and "
                                "--head-dim",
                                row->name, v, names);
    }
    o->model.name = model->name;
    o->model.layers = model->layers;
    o->model.kv_heads = model->kv_heads;
    o->model.head_dim = model->head_dim;
    return true;
}

bool fragsim_set_kv_dtype(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "auto", "float16", "bfloat16", "f16",
                                         "bf16", "fp8",     "fp8_e4m3", "fp8_e5m2",
                                         "int8", "int4",    "fp4",      "float32" };
    static const int bits[] = { 16, 16, 16, 16, 16, 8, 8, 8, 8, 4, 4, 32 };
    const int k = pick(row, v, names, (int)(sizeof(bits) / sizeof(bits[0])));
    if (k < 0) return false;
    o->model.dtype_bits = bits[k];
    return true;
}

/* A bare number is GiB, as in vLLM. */
bool fragsim_set_swap_space(fragsim_options *o, const fragsim_option *row, const char *v)
{
    bool exact;
    int64_t micro;
    const bool bare = *v != '\0' && v[strspn(v, "0123456789.")] == '\0';
    const bool ok = bare ? tool_parse_decimal(v, strlen(v), 6, &micro, &exact) && exact &&
                               micro <= INT64_C(1000000000000)
                         : tool_parse_bytes(v, &o->swap_bytes);
    if (!ok)
        return fragsim_complain("%s: '%s' is not a size: GiB as in 4, or with a unit as in 512MiB",
                                row->name, v);
    if (bare)
        o->swap_bytes =
            micro / 1000000 * (INT64_C(1) << 30) + micro % 1000000 * (INT64_C(1) << 30) / 1000000;
    return true;
}

bool fragsim_set_watermark(fragsim_options *o, const fragsim_option *row, const char *v)
{
    bool exact;
    int64_t ppm;
    if (!tool_parse_decimal(v, strlen(v), 6, &ppm, &exact) || !exact || ppm > 1000000)
        return fragsim_complain("%s: '%s' is not a share from 0 to 1 with at most six decimals",
                                row->name, v);
    o->sim.watermark_ppm = (int32_t)ppm;
    return true;
}

/* ---------------------------------------------------------------- scheduling and measuring */

bool fragsim_set_step_time(fragsim_options *o, const fragsim_option *row, const char *v)
{
    (void)row;
    return fragsim_parse_step_time(v, &o->sim);
}

bool fragsim_set_admit(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "fcfs", "skip" };
    const int k = pick(row, v, names, 2);
    if (k < 0) return false;
    o->sim.admit_skip = k == 1;
    return true;
}

/* "ttft=1s,tpot=200ms,norm=0.2" */
bool fragsim_set_slo(fragsim_options *o, const fragsim_option *row, const char *v)
{
    const struct {
        const char *key;
        int64_t *ns;
    } keys[] = { { "ttft=", &o->sim.slo_ttft_ns },
                 { "tpot=", &o->sim.slo_tpot_ns },
                 { "norm=", &o->sim.slo_norm_ns } };
    for (const char *at = v; at;) {
        const size_t len = strcspn(at, ",");
        bool known = false, exact;
        for (size_t k = 0; k < 3; k++) {
            const size_t key = strlen(keys[k].key);
            if (len <= key || strncmp(at, keys[k].key, key) != 0 || *keys[k].ns > 0) continue;
            known = tool_parse_time(at + key, len - key, keys[k].ns, &exact) && *keys[k].ns > 0;
        }
        if (!known)
            return fragsim_complain("%s: '%s' is not a list of ttft=TIME, tpot=TIME and norm=TIME, "
                                    "each once, with times above 0, as in ttft=1s,tpot=200ms",
                                    row->name, v);
        at = at[len] ? at + len + 1 : NULL;
    }
    return true;
}

bool fragsim_set_percentile(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "linear", "nearest" };
    const int k = pick(row, v, names, 2);
    if (k < 0) return false;
    o->sim.percentile_nearest = k == 1;
    return true;
}

static const char *const window_names[] = { "auto", "all", "arrivals", "queued" };
static const char *const engine_names[] = { "leap", "naive" };
const char *fragsim_window_name(pkv_sim_window window)
{
    return window_names[window];
}
const char *fragsim_engine_name(pkv_sim_engine engine)
{
    return engine_names[engine];
}

bool fragsim_set_window(fragsim_options *o, const fragsim_option *row, const char *v)
{
    const int k = pick(row, v, window_names, 4);
    if (k < 0) return false;
    o->sim.window = (pkv_sim_window)k;
    return true;
}

bool fragsim_set_engine(fragsim_options *o, const fragsim_option *row, const char *v)
{
    const int k = pick(row, v, engine_names, 2);
    if (k < 0) return false;
    o->sim.engine = (pkv_sim_engine)k;
    return true;
}

bool fragsim_set_width(fragsim_options *o, const fragsim_option *row, const char *v)
{
    static const char *const names[] = { "80", "120" };
    const int k = pick(row, v, names, 2);
    if (k < 0) return false;
    o->width = k == 0 ? 80 : 120;
    return true;
}
