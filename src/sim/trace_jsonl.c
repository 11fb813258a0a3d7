/* The reader of JSON lines: an object per line, its members to values by role. */
#include "sim/trace.h"

typedef struct jsonl {
    pkv__lines *lines;
    pkv__rows *rows;
    pkv__json json;
    int guess[PKV__ROLE_COUNT]; /* where the member of a role was in the object before */
} jsonl;

static pkv_status refuse_nested(const jsonl *j)
{
    return pkv__refuse(&j->rows->cfg->log, PKV_E_FORMAT,
                       "line %lld: '" PKV__NESTED_KEY "': several requests that wait for each "
                       "other in one line are not read; write a line per request",
                       (long long)j->lines->number);
}

/* The first object decides the format; its content ids are read now that their key is known. */
static pkv_status recognise(jsonl *j)
{
    pkv__json *js = &j->json;
    const pkv__trace_names names = { js->names, js->n, j->lines->number, true };
    pkv__trace_format format;
    const pkv_status status = pkv__trace_recognise(&names, j->rows->cfg, &format);
    if (status != PKV_OK) return status;
    pkv__rows_set_format(j->rows, &format);
    js->ids_key = format.key[PKV__ROLE_IDS];
    const int ids = js->ids_key ? pkv__trace_find(js->names, js->n, js->ids_key) : -1;
    if (ids >= 0) pkv__json_read_ids(js, js->values[ids]);
    return js->status;
}

/* Objects of a file have their keys in one order, as a rule. */
static pkv__trace_value value_of(jsonl *j, pkv__trace_role role)
{
    const pkv__json *js = &j->json;
    const char *key = j->rows->format.key[role];
    if (!key) return (pkv__trace_value){ { "", 0 }, PKV__VALUE_NONE };
    int at = j->guess[role];
    if (at >= js->n || !pkv__text_is(js->names[at], key))
        at = pkv__trace_find(js->names, js->n, key);
    if (at < 0) return (pkv__trace_value){ { "", 0 }, PKV__VALUE_NONE };
    j->guess[role] = at;
    return js->values[at];
}

static bool is_nested(const jsonl *j)
{
    const pkv__trace_format *f = &j->rows->format;
    if (j->rows->recognised && strcmp(f->name, "llmservingsim") != 0) return false;
    return pkv__trace_find(j->json.names, j->json.n, PKV__NESTED_KEY) >= 0;
}

static pkv_status read_object(jsonl *j)
{
    pkv__rows *rows = j->rows;
    if (is_nested(j)) return refuse_nested(j);
    if (!rows->recognised) {
        const pkv_status status = recognise(j);
        if (status != PKV_OK) return status;
    }
    if (j->json.ids_bad)
        return pkv__rows_drop(rows, j->lines->number, PKV_SIM_DROP_BAD_NUMBER,
                              "%.40s is not a list of whole numbers of 64 bits", j->json.ids_key);
    pkv__trace_value values[PKV__ROLE_COUNT];
    for (int role = 0; role < PKV__ROLE_COUNT; role++)
        values[role] = value_of(j, (pkv__trace_role)role);
    return pkv__rows_add(rows, j->lines->number, values, j->json.n_ids);
}

static pkv_status read_row(jsonl *j, pkv__line line)
{
    const int64_t number = j->lines->number;
    if (line.too_long)
        return pkv__rows_drop(j->rows, number, PKV_SIM_DROP_JUNK, "longer than 16 MiB");
    if (memchr(line.at, '\0', line.len))
        return pkv__rows_drop(j->rows, number, PKV_SIM_DROP_BAD_BYTES,
                              "a NUL byte, text is expected");
    if (pkv__json_read(&j->json, line.at, line.len)) return read_object(j);
    if (j->json.status != PKV_OK) return j->json.status;
    return pkv__rows_drop(j->rows, number, PKV_SIM_DROP_BAD_JSON, "at byte %lld, %s is expected",
                          (long long)j->json.error_byte, j->json.expected);
}

static pkv_status read_rows(jsonl *j)
{
    for (;;) {
        pkv__line line;
        pkv_status status = pkv__lines_next(j->lines, &line);
        if (status != PKV_OK || !line.at) return status;
        if (pkv__line_is_blank(&line)) continue;
        status = read_row(j, line);
        if (status != PKV_OK) return status;
    }
}

pkv_status pkv__trace_read_json(pkv__lines *lines, pkv__rows *rows)
{
    const pkv_allocator *alloc = &rows->cfg->alloc;
    jsonl *j = pkv__alloc(alloc, sizeof(*j), _Alignof(jsonl));
    if (!j) return PKV_E_NO_MEMORY;
    memset(j, 0, sizeof(*j));
    j->lines = lines;
    j->rows = rows;
    j->json.ids = &rows->ids;
    lines->skips_long = true;
    const pkv_status status = read_rows(j);
    pkv__free(alloc, j, sizeof(*j));
    return status;
}
