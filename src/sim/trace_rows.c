/* Values of rows to requests: what is dropped and why, times relative to the first, filters. */
#include "sim/trace.h"

#include <stdio.h>

#define FIRST_CAP 1024
#define LATEST_NS (INT64_C(1) << 61) /* from the first good row, either way */

void pkv__rows_init(pkv__rows *rows, const pkv_sim_trace_config *cfg, pkv_sim_trace *out)
{
    *rows = (pkv__rows){ .cfg = cfg, .out = out };
    rows->ids.alloc = &cfg->alloc;
}

void pkv__rows_deinit(pkv__rows *rows)
{
    pkv__free(&rows->cfg->alloc, rows->at, (size_t)rows->cap * sizeof(pkv__row));
    pkv__free(&rows->cfg->alloc, rows->spans, (size_t)rows->spans_cap * sizeof(pkv__span));
    pkv__ids_deinit(&rows->ids);
}

void pkv__rows_set_format(pkv__rows *rows, const pkv__trace_format *format)
{
    rows->recognised = true;
    rows->format = *format;
    rows->kind = format->time_kind;
}

/* ---------------------------------------------------------------- dropping */

/* Would the text of pkv__rows_drop be kept? */
static bool wants_why(const pkv__rows *rows)
{
    return rows->cfg->strict || rows->why_line == 0;
}

static void count_drop(pkv__rows *rows, int64_t line, pkv_sim_drop reason)
{
    rows->out->rows_read++;
    rows->ids.n = rows->n_ids_kept;
    if (rows->out->dropped[reason]++ == 0) rows->out->first_line[reason] = line;
}

pkv_status pkv__rows_drop(pkv__rows *rows, int64_t line, pkv_sim_drop reason, const char *fmt, ...)
{
    count_drop(rows, line, reason);
    if (!wants_why(rows)) return PKV_OK;
    const int n = snprintf(rows->why, sizeof(rows->why), "%s: ", pkv_sim_drop_name(reason));
    va_list args;
    va_start(args, fmt);
    vsnprintf(rows->why + n, sizeof(rows->why) - (size_t)n, fmt, args);
    va_end(args);
    rows->why_line = line;
    if (!rows->cfg->strict) return PKV_OK;
    return pkv__refuse(&rows->cfg->log, PKV_E_FORMAT,
                       "line %lld: %s; correct the row, or read without strict to drop it",
                       (long long)line, rows->why);
}

static const char *time_expected(const pkv__rows *rows)
{
    if (rows->kind == PKV__TIME_DATE) return "a time as in 2023-11-16 18:15:46.68";
    if (rows->kind == PKV__TIME_EITHER) return "seconds or a time as in 2023-11-16 18:15:46.68";
    switch (rows->format.unit_ns) {
    case 1000000000:
        return "seconds from 0 on, as in 12.5";
    case 1000000:
        return "milliseconds from 0 on";
    case 1:
        return "nanoseconds from 0 on";
    default:
        return "a number from 0 on";
    }
}

/* What is expected of a value. */
static const char *expected(const pkv__rows *rows, pkv_sim_drop reason, pkv__trace_role role)
{
    if (role == PKV__ROLE_TIME) return time_expected(rows);
    if (reason == PKV_SIM_DROP_OVERFLOW) return "at most 2147483647";
    if (role == PKV__ROLE_OUTPUT && rows->cfg->keep_zero_output) return "a whole number from 0 on";
    return "a whole number from 1 on";
}

static pkv_status drop_value(pkv__rows *rows, int64_t line, pkv_sim_drop reason,
                             pkv__trace_role role, pkv__trace_value value)
{
    char shown[40] = "";
    const char *quote = value.kind == PKV__VALUE_STRING ? "\"" : "";
    const char *key = rows->format.key[role];
    if (value.kind == PKV__VALUE_NONE && role != PKV__ROLE_TIME)
        return pkv__rows_drop(rows, line, PKV_SIM_DROP_BAD_JSON, "the key '%.40s' is missing", key);
    if (wants_why(rows)) pkv__trace_printable(value.text, shown, sizeof(shown));
    return pkv__rows_drop(rows, line, reason, "%.40s is '%s%s%s', %s is expected", key, quote,
                          shown, quote, expected(rows, reason, role));
}

/* ---------------------------------------------------------------- times */

typedef struct row_time {
    bool given, zoned;
    pkv__time_kind kind;
    pkv__i128 ns;
} row_time;

/* False: BAD_TIMESTAMP. */
static bool read_time(const pkv__rows *rows, pkv__trace_value value, row_time *out)
{
    *out = (row_time){ .kind = rows->kind };
    if (!rows->format.key[PKV__ROLE_TIME] || value.kind == PKV__VALUE_NONE) return true;
    out->given = true;
    if (rows->kind != PKV__TIME_DATE && value.kind == PKV__VALUE_PLAIN) {
        out->kind = PKV__TIME_NUMBER;
        if (pkv__trace_ns(value.text, rows->format.unit_ns, &out->ns)) return true;
    }
    if (rows->kind == PKV__TIME_NUMBER || value.kind == PKV__VALUE_OTHER) return false;
    out->kind = PKV__TIME_DATE;
    return pkv__trace_date(value.text, &out->ns, &out->zoned);
}

static bool out_of_range(const pkv__rows *rows, const row_time *time)
{
    if (!time->given || rows->n_timed == 0) return false;
    return time->ns - rows->first_ns >= LATEST_NS || rows->first_ns - time->ns >= LATEST_NS;
}

/* Count rows with and without a time; refuse a mixture of zoned and unzoned ones. */
static pkv_status note_time(pkv__rows *rows, int64_t line, const row_time *time)
{
    if (!time->given) {
        if (rows->n_untimed++ == 0) rows->first_untimed_line = line;
        return PKV_OK;
    }
    if (rows->n_timed++ == 0) {
        rows->first_timed_line = line;
        rows->first_ns = time->ns;
        rows->zoned = time->zoned;
        rows->kind = time->kind;
    }
    if (time->zoned == rows->zoned) return PKV_OK;
    return pkv__refuse(&rows->cfg->log, PKV_E_FORMAT,
                       "line %lld: a time %s zone, while line %lld has one %s; make them alike",
                       (long long)line, time->zoned ? "with a" : "without",
                       (long long)rows->first_timed_line, time->zoned ? "without" : "with a zone");
}

/* ---------------------------------------------------------------- content ids */

/* Tokens per id such that n ids are floor or ceil of i tokens / it: a power of two if there is one,
 * otherwise the least; 0: none is. */
static int64_t fitting_block(int64_t i, int64_t n)
{
    if (n < 1 || n > i) return 0;
    const int64_t floor_low = i / (n + 1) + 1, floor_high = i / n;
    const int64_t ceil_low = (i + n - 1) / n;
    const int64_t ceil_high = n > 1 ? (i + n - 2) / (n - 1) - 1 : INT32_MAX;
    for (int64_t b = 1; b <= INT32_MAX; b *= 2)
        if ((b >= floor_low && b <= floor_high) || (b >= ceil_low && b <= ceil_high)) return b;
    return floor_low <= floor_high ? floor_low : ceil_low <= ceil_high ? ceil_low : 0;
}

static pkv_status check_ids(const pkv__rows *rows, int64_t line, int32_t prompt, int64_t n_ids)
{
    const int64_t block = rows->format.block_tokens;
    if (n_ids < 0 || n_ids == prompt / block || n_ids == (prompt + block - 1) / block)
        return PKV_OK;
    const int64_t fits = fitting_block(prompt, n_ids);
    char remedy[100];
    if (fits > 0)
        snprintf(remedy, sizeof(remedy), "%lld tokens per id would (hash_block_tokens)",
                 (long long)fits);
    else if (n_ids == 0)
        snprintf(remedy, sizeof(remedy), "only more than %d tokens per id would", prompt);
    else snprintf(remedy, sizeof(remedy), "no other number would either; is the line whole?");
    return pkv__refuse(&rows->cfg->log, PKV_E_FORMAT,
                       "line %lld: %lld %.40s for %d prompt tokens do not suit %lld tokens per id; "
                       "%s",
                       (long long)line, (long long)n_ids, rows->format.key[PKV__ROLE_IDS], prompt,
                       (long long)block, remedy);
}

/* ---------------------------------------------------------------- rows */

static bool passes_filter(const pkv__rows *rows, int32_t i, int32_t o, pkv__trace_value model)
{
    const int64_t f = (int64_t)i + o;
    switch (rows->cfg->filter) {
    case PKV_SIM_FILTER_VLLM:
        return i >= 4 && o >= 4 && i <= 1024 && f <= 2048;
    case PKV_SIM_FILTER_ARTIFACT:
        return f < 2048;
    case PKV_SIM_FILTER_SGLANG:
        return i >= 2 && o >= 2;
    case PKV_SIM_FILTER_BURSTGPT_GPT4:
        return o >= 1 && pkv__text_is(model.text, "GPT-4");
    case PKV_SIM_FILTER_NONE:
        break;
    }
    return true;
}

/* Twice the room for n things of `bytes` each; NULL: no memory. */
static void *grown(const pkv__rows *rows, void *old, int64_t n, int64_t cap, size_t bytes)
{
    const pkv_allocator *alloc = &rows->cfg->alloc;
    void *at = pkv__alloc(alloc, (size_t)cap * bytes, _Alignof(int64_t));
    if (!at) return NULL;
    if (n > 0) memcpy(at, old, (size_t)n * bytes);
    pkv__free(alloc, old, (size_t)n * bytes);
    return at;
}

static pkv_status append_span(pkv__rows *rows, pkv__span span)
{
    if (rows->n == rows->spans_cap) {
        const int64_t cap = rows->n ? 2 * rows->n : FIRST_CAP;
        void *spans = grown(rows, rows->spans, rows->n, cap, sizeof(span));
        if (!spans) return PKV_E_NO_MEMORY;
        rows->spans = spans;
        rows->spans_cap = cap;
    }
    rows->spans[rows->n] = span;
    return PKV_OK;
}

/* The content ids appended since the row before are the row's. */
static pkv_status append(pkv__rows *rows, pkv__row r)
{
    if (rows->format.key[PKV__ROLE_IDS]) {
        const pkv__span span = { rows->n_ids_kept, (int32_t)(rows->ids.n - rows->n_ids_kept) };
        const pkv_status status = append_span(rows, span);
        if (status != PKV_OK) return status;
    }
    if (rows->n == rows->cap) {
        const int64_t cap = rows->n ? 2 * rows->n : FIRST_CAP;
        void *at = grown(rows, rows->at, rows->n, cap, sizeof(r));
        if (!at) return PKV_E_NO_MEMORY;
        rows->at = at;
        rows->cap = cap;
    }
    rows->at[rows->n++] = r;
    rows->n_ids_kept = rows->ids.n;
    rows->out->rows_read++;
    return PKV_OK;
}

/* A row without a fault. */
static pkv_status take(pkv__rows *rows, pkv__row r, const row_time *time, pkv__trace_value model)
{
    pkv_sim_trace *out = rows->out;
    pkv_status status = note_time(rows, r.line, time);
    if (status != PKV_OK) return status;
    r.time_ns = time->given ? (int64_t)(time->ns - rows->first_ns) : 0;
    if (rows->n_good++ == 0 || r.time_ns < rows->earliest_ns) rows->earliest_ns = r.time_ns;
    if (!passes_filter(rows, r.prompt, r.output, model)) {
        count_drop(rows, r.line, PKV_SIM_DROP_FILTERED);
        return PKV_OK;
    }
    if (rows->n > 0 && r.time_ns < rows->at[rows->n - 1].time_ns) {
        if (rows->cfg->strict)
            return pkv__refuse(&rows->cfg->log, PKV_E_FORMAT,
                               "line %lld: arrives before the row in front of it; sort the file, "
                               "or read without strict",
                               (long long)r.line);
        if (out->n_backwards++ == 0) out->first_backwards_line = r.line;
    }
    return append(rows, r);
}

pkv_status pkv__rows_add(pkv__rows *rows, int64_t line, const pkv__trace_value *values,
                         int64_t n_ids)
{
    static const pkv__trace_role lengths[] = { PKV__ROLE_INPUT, PKV__ROLE_OUTPUT };
    row_time time;
    int32_t tokens[2];
    if (!read_time(rows, values[PKV__ROLE_TIME], &time))
        return drop_value(rows, line, PKV_SIM_DROP_BAD_TIMESTAMP, PKV__ROLE_TIME,
                          values[PKV__ROLE_TIME]);
    for (int k = 0; k < 2; k++) {
        const pkv__trace_value v = values[lengths[k]];
        pkv_sim_drop reason = PKV_SIM_DROP_BAD_NUMBER;
        if (v.kind != PKV__VALUE_PLAIN || !pkv__trace_tokens(v.text, &tokens[k], &reason))
            return drop_value(rows, line, reason, lengths[k], v);
    }
    if (tokens[0] == 0)
        return drop_value(rows, line, PKV_SIM_DROP_ZERO_INPUT, PKV__ROLE_INPUT,
                          values[PKV__ROLE_INPUT]);
    if (tokens[1] == 0 && !rows->cfg->keep_zero_output)
        return drop_value(rows, line, PKV_SIM_DROP_ZERO_OUTPUT, PKV__ROLE_OUTPUT,
                          values[PKV__ROLE_OUTPUT]);
    if (out_of_range(rows, &time))
        return drop_value(rows, line, PKV_SIM_DROP_BAD_TIMESTAMP, PKV__ROLE_TIME,
                          values[PKV__ROLE_TIME]);
    if (n_ids < 0 && rows->format.key[PKV__ROLE_IDS] && !rows->format.ids_optional)
        return drop_value(rows, line, PKV_SIM_DROP_BAD_JSON, PKV__ROLE_IDS,
                          (pkv__trace_value){ 0 });
    const pkv_status status = check_ids(rows, line, tokens[0], n_ids);
    if (status != PKV_OK) return status;
    const pkv__row r = { .line = line, .prompt = tokens[0], .output = tokens[1] };
    return take(rows, r, &time, values[PKV__ROLE_MODEL]);
}
