/* The entry to the trace readers: arguments, CSV or JSON lines, cleaning up. */
#include "sim/trace.h"

#define MAX_CSV_LINE ((size_t)1 << 20)
#define MAX_JSON_LINE ((size_t)16 << 20) /* the token ids of a prompt of a million tokens */

static pkv_status check_args(const pkv_sim_trace_config *cfg)
{
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    if (!pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "half an allocator");
    if (cfg->max_requests < 0 || cfg->start_ns < 0 || cfg->duration_ns < 0 ||
        cfg->time_unit_ns < 0 || cfg->hash_block_tokens < 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "max_requests, start_ns, duration_ns, time_unit_ns and "
                           "hash_block_tokens are from 0 on");
    if (cfg->filter < PKV_SIM_FILTER_NONE || cfg->filter > PKV_SIM_FILTER_BURSTGPT_GPT4)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "unknown filter");
    return pkv__trace_check_format(cfg);
}

static pkv_status read_all(pkv__lines *lines, pkv__rows *rows)
{
    char first;
    bool empty;
    lines->max_line = MAX_CSV_LINE;
    pkv_status status = pkv__lines_begin(lines, &first, &empty);
    if (status != PKV_OK) return status;
    if (empty)
        return pkv__refuse(&rows->cfg->log, PKV_E_FORMAT,
                           "the file is empty: a header line with the column names is expected");
    if (first == '[')
        return pkv__refuse(&rows->cfg->log, PKV_E_FORMAT,
                           "line %lld: a JSON list; write one object per line, without [ , ]",
                           (long long)lines->number + 1);
    if (first == '{') lines->max_line = MAX_JSON_LINE;
    status = first == '{' ? pkv__trace_read_json(lines, rows) : pkv__trace_read_csv(lines, rows);
    return status == PKV_OK ? pkv__rows_finish(rows) : status;
}

static void note_bytes(const pkv__lines *lines, const pkv__rows *rows, pkv_sim_trace *out)
{
    out->format = rows->format.name;
    out->bytes_read = lines->bytes_read;
    out->had_bom = lines->had_bom;
    out->had_crlf = lines->had_crlf;
    out->last_row_unterminated = lines->unterminated;
}

pkv_status pkv_sim_trace_read(pkv_sim_read_fn read, void *ctx, const pkv_sim_trace_config *cfg,
                              pkv_sim_trace *out)
{
    if (!read || !cfg || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    pkv_status status = check_args(cfg);
    if (status != PKV_OK) return status;
    pkv_sim_trace trace = PKV_SIM_TRACE_INIT;
    pkv__lines lines;
    pkv__rows rows;
    trace.alloc = cfg->alloc;
    pkv__rows_init(&rows, cfg, &trace);
    status = pkv__lines_init(&lines, read, ctx, cfg);
    if (status == PKV_OK) status = read_all(&lines, &rows);
    if (status == PKV_OK) {
        note_bytes(&lines, &rows, &trace);
        *out = trace;
    } else pkv_sim_trace_free(&trace);
    pkv__rows_deinit(&rows);
    pkv__lines_deinit(&lines);
    return status;
}

const char *pkv_sim_drop_name(pkv_sim_drop reason)
{
    switch (reason) {
#define PKV_SIM_DROP_CASE(name, text)                                                              \
    case PKV_SIM_DROP_##name:                                                                      \
        return text;
        PKV_SIM_DROP_LIST(PKV_SIM_DROP_CASE)
#undef PKV_SIM_DROP_CASE
    case PKV_SIM_DROP_COUNT:
        break;
    }
    return "?";
}
