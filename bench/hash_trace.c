/* Reading is two passes: lines into arrays, then ids are renumbered and the chains verified.
 * Renumbering sorts, so that no choice of ids makes it slow. */
#include "hash_trace.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *path;
    FILE *in;
    char *line; /* [HASH_TRACE_MAX_LINE] */
    int32_t line_no;
    double timestamp; /* of the line before */
    int32_t requests_cap, refs_cap;
    int64_t *raw; /* [refs_cap] ids as they stand in the file */
    struct hash_trace *t;
    struct bench_error *err;
};

#define LINE_FAIL(r, ...) line_fail((r)->path, (r)->line_no, (r)->err, __VA_ARGS__)

static bool line_fail(const char *path, int32_t line_no, struct bench_error *err, const char *fmt,
                      ...) BENCH_PRINTF(4, 5);
static bool line_fail(const char *path, int32_t line_no, struct bench_error *err, const char *fmt,
                      ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    return bench_fail(err, BENCH_USAGE, "%.120s: line %d: %s", path, line_no, what);
}

/* Make room for `n` entries in an array that doubles. */
static bool grow(void **array, int32_t *cap, int32_t n, size_t size, struct bench_error *err)
{
    if (n <= *cap) return true;
    int32_t bigger = *cap ? *cap : 4096;
    while (bigger < n) bigger *= 2;
    void *p = realloc(*array, (size_t)bigger * size);
    if (!p) return bench_fail(err, BENCH_USAGE, "no memory for the trace");
    *array = p;
    *cap = bigger;
    return true;
}

/* The next line without its end; *n is -1 at the end of the file. */
static bool read_line(struct reader *r, int32_t *n)
{
    int c = getc(r->in);
    *n = c == EOF ? -1 : 0;
    r->line_no++;
    for (; c != EOF && c != '\n'; c = getc(r->in)) {
        if (*n == HASH_TRACE_MAX_LINE)
            return LINE_FAIL(r, "longer than %d bytes: a line is one request", HASH_TRACE_MAX_LINE);
        r->line[(*n)++] = (char)c;
    }
    return !ferror(r->in) ||
           bench_fail(r->err, BENCH_USAGE, "cannot read %.200s: %s", r->path, strerror(errno));
}

/* An integer key within its range. */
static bool get_int(struct reader *r, const json_t *o, const char *key, int64_t min, int64_t max,
                    int64_t *out)
{
    const json_t *v = json_object_get(o, key);
    if (!v) return LINE_FAIL(r, "the key '%s' is missing", key);
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return LINE_FAIL(r, "'%s' wants an integer from %lld to %lld", key, (long long)min,
                         (long long)max);
    *out = json_integer_value(v);
    return true;
}

static bool check_times(struct reader *r, const json_t *o)
{
    int64_t output;
    const json_t *v = json_object_get(o, "timestamp");
    if (!v) return LINE_FAIL(r, "the key 'timestamp' is missing");
    if (!json_is_number(v)) return LINE_FAIL(r, "'timestamp' wants a number");
    if (r->t->n_requests > 0 && json_number_value(v) < r->timestamp)
        return LINE_FAIL(r,
                         "the timestamp is before that of the line above: sort the file by time");
    r->timestamp = json_number_value(v);
    return get_int(r, o, "output_length", 0, HASH_TRACE_MAX_TOKENS, &output);
}

static bool take_ids(struct reader *r, const json_t *list, int64_t input)
{
    struct hash_trace *t = r->t;
    const size_t n = json_array_size(list);
    const int64_t expected = (input + t->block_tokens - 1) / t->block_tokens;
    if (!json_is_array(list)) return LINE_FAIL(r, "'hash_ids' wants an array of integers");
    if ((int64_t)n != expected)
        return LINE_FAIL(r,
                         "%zu hash_ids, but input_length %lld in blocks of %d tokens makes %lld "
                         "(--trace-block says how many tokens an id stands for)",
                         n, (long long)input, t->block_tokens, (long long)expected);
    if (n > (size_t)(HASH_TRACE_MAX_REFS - t->n_refs))
        return LINE_FAIL(r, "more than %d hash_ids in the file: split it", HASH_TRACE_MAX_REFS);
    if (!grow((void **)&r->raw, &r->refs_cap, t->n_refs + (int32_t)n, sizeof(*r->raw), r->err))
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id)) return LINE_FAIL(r, "'hash_ids' wants integers only");
        r->raw[t->n_refs++] = json_integer_value(id);
    }
    if ((int32_t)n > t->longest) t->longest = (int32_t)n;
    return true;
}

static bool take_request(struct reader *r, const json_t *o)
{
    struct hash_trace *t = r->t;
    int64_t input;
    int32_t cap = r->requests_cap;
    if (!json_is_object(o)) return LINE_FAIL(r, "not a JSON object");
    if (!check_times(r, o) || !get_int(r, o, "input_length", 1, HASH_TRACE_MAX_TOKENS, &input) ||
        !grow((void **)&t->first, &cap, t->n_requests + 2, sizeof(*t->first), r->err) ||
        !grow((void **)&t->tokens, &r->requests_cap, t->n_requests + 2, sizeof(*t->tokens), r->err))
        return false;
    t->first[t->n_requests] = t->n_refs;
    t->tokens[t->n_requests] = (int32_t)input;
    if (!take_ids(r, json_object_get(o, "hash_ids"), input)) return false;
    t->first[++t->n_requests] = t->n_refs;
    t->n_tokens += input;
    return true;
}

/* What the JSON library says quotes the file, which may hold anything. */
static bool fail_json(struct reader *r, json_error_t *why)
{
    for (char *c = why->text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return LINE_FAIL(r,
                     "not JSON at byte %d: %.60s; expected one object a line, such as "
                     "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 1, "
                     "\"hash_ids\": [7]}",
                     why->position, why->text);
}

static bool read_lines(struct reader *r)
{
    int32_t n;
    for (;;) {
        json_error_t why;
        if (!read_line(r, &n)) return false;
        if (n < 0) break;
        json_t *o = json_loadb(r->line, (size_t)n, JSON_REJECT_DUPLICATES, &why);
        if (!o) return fail_json(r, &why);
        const bool ok = take_request(r, o);
        json_decref(o);
        if (!ok) return false;
    }
    return r->t->n_requests > 0 ||
           bench_fail(r->err, BENCH_USAGE,
                      "%.200s: no request in it: expected one JSON object a "
                      "line",
                      r->path);
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Ids become ranks among the distinct ones. */
static bool renumber(struct reader *r)
{
    struct hash_trace *t = r->t;
    const size_t n = (size_t)t->n_refs;
    int64_t *sorted = bench_calloc(n, sizeof(*sorted), r->err);
    t->ids = bench_calloc(n, sizeof(*t->ids), r->err);
    if (!sorted || !t->ids) {
        free(sorted);
        return false;
    }
    memcpy(sorted, r->raw, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), compare_ids);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || sorted[i] != sorted[t->n_ids - 1]) sorted[t->n_ids++] = sorted[i];
    for (size_t i = 0; i < n; i++) {
        const int64_t *at =
            bsearch(&r->raw[i], sorted, (size_t)t->n_ids, sizeof(*sorted), compare_ids);
        t->ids[i] = (int32_t)(at - sorted);
    }
    free(sorted);
    return true;
}

/* What an id was when it was seen first. */
struct seen {
    int32_t line, before, tokens;
};

static bool check_id(struct reader *r, struct seen *seen, int32_t i, int32_t k)
{
    const struct hash_trace *t = r->t;
    const int32_t at = t->first[i] + k;
    const struct seen now = { i + 1, k ? t->ids[at - 1] : -1, hash_trace_block(t, i, k) };
    struct seen *s = &seen[t->ids[at]];
    if (s->line == 0) *s = now;
    r->line_no = now.line;
    if (s->before != now.before)
        return LINE_FAIL(r,
                         "hash id %lld follows another id than in line %d: an id has to stand "
                         "for its block and all blocks before it",
                         (long long)r->raw[at], s->line);
    if (s->tokens != now.tokens)
        return LINE_FAIL(r,
                         "hash id %lld covers %d tokens, but %d in line %d: equal ids have to "
                         "mean equal content",
                         (long long)r->raw[at], now.tokens, s->tokens, s->line);
    return true;
}

static bool check_chains(struct reader *r)
{
    const struct hash_trace *t = r->t;
    struct seen *seen = bench_calloc((size_t)t->n_ids, sizeof(*seen), r->err);
    bool ok = seen != NULL;
    for (int32_t i = 0; ok && i < t->n_requests; i++)
        for (int32_t k = 0; ok && k < t->first[i + 1] - t->first[i]; k++)
            ok = check_id(r, seen, i, k);
    free(seen);
    return ok;
}

bool hash_trace_parse(FILE *in, const char *name, int32_t block_tokens, struct hash_trace *out,
                      struct bench_error *err)
{
    struct reader r = { .path = name, .in = in, .t = out, .err = err };
    memset(out, 0, sizeof(*out));
    out->block_tokens = block_tokens;
    r.line = bench_calloc(HASH_TRACE_MAX_LINE, 1, err);
    const bool ok = r.line && read_lines(&r) && renumber(&r) && check_chains(&r);
    free(r.line);
    free(r.raw);
    if (!ok) hash_trace_free(out);
    return ok;
}

bool hash_trace_read(const char *path, int32_t block_tokens, struct hash_trace *out,
                     struct bench_error *err)
{
    FILE *in = fopen(path, "r");
    if (!in)
        return bench_fail(err, BENCH_USAGE, "cannot read the trace %.200s: %s", path,
                          strerror(errno));
    const bool ok = hash_trace_parse(in, path, block_tokens, out, err);
    fclose(in);
    return ok;
}

void hash_trace_free(struct hash_trace *t)
{
    free(t->first);
    free(t->ids);
    free(t->tokens);
    memset(t, 0, sizeof(*t));
}

int32_t hash_trace_block(const struct hash_trace *t, int32_t i, int32_t k)
{
    const int32_t left = t->tokens[i] - k * t->block_tokens;
    return left < t->block_tokens ? left : t->block_tokens;
}
