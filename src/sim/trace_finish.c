/* All rows are in: order them, choose those within the limits, and make one block of memory of
 * them.
 *
 *   block  [ size | requests | where ids begin | number of ids | ids ]
 *
 * Content ids are numbered anew, so that those of the requests used are 0 .. n_distinct-1 in order
 * of their first appearance. */
#include "sim/trace.h"

#include <stdlib.h>

#define LONGEST_GAP_NS INT64_C(1000000000000) /* 1000 s: no service is asked so rarely */
#define SHORTEST_GAP_NS INT64_C(1000)         /* 1 us: nor so often */

typedef struct spanned_row {
    pkv__row row; /* first, so that compare_rows suits */
    pkv__span span;
} spanned_row;

/* By time, equal times in the order of the file. */
static int compare_rows(const void *a, const void *b)
{
    const pkv__row *x = a, *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

/* Spans stand beside their rows: put both into one order. */
static pkv_status sort_with_spans(pkv__rows *rows)
{
    const pkv_allocator *alloc = &rows->cfg->alloc;
    const size_t n = (size_t)rows->n, bytes = n * sizeof(spanned_row);
    spanned_row *both = pkv__alloc(alloc, bytes, _Alignof(spanned_row));
    if (!both) return PKV_E_NO_MEMORY;
    for (size_t k = 0; k < n; k++) both[k] = (spanned_row){ rows->at[k], rows->spans[k] };
    qsort(both, n, sizeof(*both), compare_rows);
    for (size_t k = 0; k < n; k++) {
        rows->at[k] = both[k].row;
        rows->spans[k] = both[k].span;
    }
    pkv__free(alloc, both, bytes);
    return PKV_OK;
}

static pkv_status sort_rows(pkv__rows *rows)
{
    if (rows->out->n_backwards == 0) return PKV_OK;
    if (rows->spans) return sort_with_spans(rows);
    qsort(rows->at, (size_t)rows->n, sizeof(pkv__row), compare_rows);
    return PKV_OK;
}

static pkv_status refuse_unusable(const pkv__rows *rows)
{
    const pkv_logger *log = &rows->cfg->log;
    const char *const *key = rows->format.key;
    const long long n = (long long)rows->out->rows_read, line = (long long)rows->why_line;
    const char *time = key[PKV__ROLE_TIME];
    if (n == 0)
        return pkv__refuse(log, PKV_E_FORMAT,
                           "a header, but no rows; below it, a row with %.40s%s%.40s and %.40s per "
                           "request is expected",
                           time ? time : "", time ? ", " : "", key[PKV__ROLE_INPUT],
                           key[PKV__ROLE_OUTPUT]);
    if (n == 1)
        return pkv__refuse(log, PKV_E_FORMAT, "the only row is not usable; line %lld: %s", line,
                           rows->why);
    return pkv__refuse(log, PKV_E_FORMAT, "none of the %lld rows is usable; line %lld: %s", n, line,
                       rows->why);
}

static pkv_status check_times(const pkv__rows *rows)
{
    const pkv_logger *log = &rows->cfg->log;
    if (rows->n_timed > 0 && rows->n_untimed > 0)
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: no time, while line %lld has one; fill in all or none",
                           (long long)rows->first_untimed_line, (long long)rows->first_timed_line);
    return PKV_OK;
}

/* The rows to use are [*low, *high). */
static void choose(const pkv__rows *rows, int64_t *low, int64_t *high)
{
    const pkv_sim_trace_config *cfg = rows->cfg;
    int64_t from = 0, to = rows->n;
    const int64_t base = rows->earliest_ns;
    const bool timed = rows->n_timed > 0; /* otherwise start and duration choose nothing */
    if (timed)
        while (from < to && rows->at[from].time_ns - base < cfg->start_ns) from++;
    if (timed && cfg->duration_ns > 0)
        while (to > from && rows->at[to - 1].time_ns - base - cfg->start_ns >= cfg->duration_ns)
            to--;
    if (cfg->max_requests > 0 && to - from > cfg->max_requests) to = from + cfg->max_requests;
    *low = from;
    *high = to;
}

static void count_filtered(const pkv__rows *rows, int64_t low, int64_t high)
{
    pkv_sim_trace *t = rows->out;
    int64_t *first = &t->first_line[PKV_SIM_DROP_FILTERED];
    t->dropped[PKV_SIM_DROP_FILTERED] += rows->n - (high - low);
    for (int64_t k = 0; k < rows->n; k++) {
        if (k == low) k = high;
        if (k == rows->n) break;
        if (*first == 0 || rows->at[k].line < *first) *first = rows->at[k].line;
    }
}

/* ---------------------------------------------------------------- memory */

/* First in the block, so that it can be given back. */
typedef union block_size {
    size_t bytes;
    int64_t align;
} block_size;

/* Where the parts of a block begin, for n requests with n_ids content ids; 0 ids: without. */
typedef struct layout {
    size_t first, counts, ids, bytes;
} layout;

static bool layout_of(int64_t n, int64_t n_ids, layout *out)
{
    const size_t per_request = n_ids > 0
                                   ? sizeof(pkv_sim_request) + sizeof(int64_t) + sizeof(int32_t)
                                   : sizeof(pkv_sim_request);
    size_t rows_bytes, ids_bytes;
    if (!pkv__mul_size((size_t)n, per_request, &rows_bytes) ||
        !pkv__mul_size((size_t)n_ids, sizeof(int32_t), &ids_bytes) || rows_bytes > SIZE_MAX / 4 ||
        ids_bytes > SIZE_MAX / 4)
        return false;
    out->first = sizeof(block_size) + (size_t)n * sizeof(pkv_sim_request);
    out->counts = out->first + (size_t)n * sizeof(int64_t);
    out->ids = out->counts + (size_t)n * sizeof(int32_t);
    out->bytes = sizeof(block_size) + rows_bytes + ids_bytes;
    return true;
}

void pkv_sim_trace_free(pkv_sim_trace *trace)
{
    if (!trace) return;
    const pkv_allocator alloc = trace->alloc;
    if (trace->memory) pkv__free(&alloc, trace->memory, ((block_size *)trace->memory)->bytes);
    *trace = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
}

/* ---------------------------------------------------------------- content */

/* Copy the ids of n spans, numbered anew. */
static pkv_status copy_ids(const pkv__rows *rows, const pkv__span *spans, int64_t n, int64_t *first,
                           int32_t *n_ids, int32_t *ids)
{
    const pkv_allocator *alloc = &rows->cfg->alloc;
    const size_t bytes = (size_t)rows->ids.n_distinct * sizeof(int32_t);
    int32_t *renamed = pkv__alloc(alloc, bytes, _Alignof(int32_t));
    if (!renamed) return PKV_E_NO_MEMORY;
    memset(renamed, 0xff, bytes);
    int32_t n_distinct = 0;
    int64_t at = 0;
    for (int64_t r = 0; r < n; r++) {
        first[r] = at;
        n_ids[r] = spans[r].n;
        for (int32_t k = 0; k < spans[r].n; k++) {
            int32_t *name = &renamed[rows->ids.list[spans[r].first + k]];
            if (*name < 0) *name = n_distinct++;
            ids[at++] = *name;
        }
    }
    pkv__free(alloc, renamed, bytes);
    rows->out->content =
        (pkv_sim_content){ rows->format.block_tokens, n_distinct, first, n_ids, ids };
    return PKV_OK;
}

static void fill_requests(const pkv__rows *rows, const pkv__row *from, int64_t n)
{
    pkv_sim_trace *t = rows->out;
    for (int64_t k = 0; k < n; k++) {
        t->reqs[k].arrival_ns = from[k].time_ns - from[0].time_ns;
        t->reqs[k].prompt_tokens = from[k].prompt;
        t->reqs[k].output_tokens = from[k].output;
        if (k > 0 && t->has_times) t->n_equal_times += from[k].time_ns == from[k - 1].time_ns;
    }
    t->n_reqs = n;
    t->span_ns = t->reqs[n - 1].arrival_ns;
}

/* The rows [low, high) to the trace. */
static pkv_status fill_trace(const pkv__rows *rows, int64_t low, int64_t high)
{
    pkv_sim_trace *t = rows->out;
    const pkv__span *spans = rows->spans ? rows->spans + low : NULL;
    const int64_t n = high - low;
    int64_t n_ids = 0;
    for (int64_t k = 0; spans && k < n; k++) n_ids += spans[k].n;
    layout parts;
    if (!layout_of(n, n_ids, &parts)) return PKV_E_NO_MEMORY;
    char *block = pkv__alloc(&rows->cfg->alloc, parts.bytes, _Alignof(block_size));
    if (!block) return PKV_E_NO_MEMORY;
    t->memory = block;
    ((block_size *)t->memory)->bytes = parts.bytes;
    t->reqs = (pkv_sim_request *)(void *)(block + sizeof(block_size));
    t->has_times = rows->n_timed > 0;
    t->has_history = rows->format.has_history;
    t->time_unit_ns = t->has_times && rows->kind == PKV__TIME_NUMBER ? rows->format.unit_ns : 0;
    fill_requests(rows, rows->at + low, n);
    if (n_ids == 0) return PKV_OK;
    return copy_ids(rows, spans, n, (int64_t *)(void *)(block + parts.first),
                    (int32_t *)(void *)(block + parts.counts),
                    (int32_t *)(void *)(block + parts.ids));
}

/* ---------------------------------------------------------------- warnings */

static void warn(const pkv__rows *rows)
{
    const pkv_logger *log = &rows->cfg->log;
    const pkv_sim_trace *t = rows->out;
    if (t->n_backwards > 0)
        pkv__log(log, PKV_LOG_WARN,
                 "line %lld: arrives before the row in front of it, as do %lld rows in all; sorted",
                 (long long)t->first_backwards_line, (long long)t->n_backwards);
    if (!t->has_times || t->n_reqs < 2) return;
    const int64_t gap_ns = t->span_ns / (t->n_reqs - 1);
    if (gap_ns > LONGEST_GAP_NS)
        pkv__log(log, PKV_LOG_WARN,
                 "requests arrive every %lld s in the mean; is the unit of time right?",
                 (long long)(gap_ns / 1000000000));
    else if (t->span_ns < SHORTEST_GAP_NS * (t->n_reqs - 1))
        pkv__log(log, PKV_LOG_WARN,
                 "requests arrive every %lld ns in the mean; is the unit of time right?",
                 (long long)gap_ns);
}

pkv_status pkv__rows_finish(pkv__rows *rows)
{
    const pkv_sim_trace_config *cfg = rows->cfg;
    int64_t low, high;
    if (rows->n_good == 0) return refuse_unusable(rows);
    pkv_status status = check_times(rows);
    if (status != PKV_OK) return status;
    status = sort_rows(rows);
    if (status != PKV_OK) return status;
    choose(rows, &low, &high);
    count_filtered(rows, low, high);
    if (low == high)
        return pkv__refuse(&cfg->log, PKV_E_FORMAT,
                           "none of the %lld good rows is within filter, start and duration; widen "
                           "them",
                           (long long)rows->n_good);
    status = fill_trace(rows, low, high);
    if (status == PKV_OK) warn(rows);
    return status;
}
