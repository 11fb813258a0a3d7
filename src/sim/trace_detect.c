/* Which format the names of columns or keys belong to. Names decide, never positions. */
#include "sim/trace.h"

#include <stdio.h>

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* In the order of pkv_sim_trace_format. */
static const pkv__trace_format formats[] = {
    { .name = "azure",
      .key = { "TIMESTAMP", "ContextTokens", "GeneratedTokens" },
      .time_kind = PKV__TIME_DATE },
    { .name = "burstgpt",
      .key = { "Timestamp", "Request tokens", "Response tokens" },
      .time_kind = PKV__TIME_NUMBER,
      .unit_ns = NS_PER_S },
    { .name = "vidur",
      .key = { "arrived_at", "num_prefill_tokens", "num_decode_tokens" },
      .time_kind = PKV__TIME_NUMBER,
      .unit_ns = NS_PER_S,
      .time_optional = true },
    { .name = "splitwise",
      .key = { "arrival_timestamp", "prompt_size", "token_size" },
      .time_kind = PKV__TIME_NUMBER,
      .unit_ns = NS_PER_S },
    { .name = "lengths", .key = { NULL, "input", "output" } },
    { .name = "mooncake",
      .key = { "timestamp", "input_length", "output_length", NULL, "hash_ids" },
      .time_kind = PKV__TIME_NUMBER,
      .unit_ns = NS_PER_MS,
      .block_tokens = 512 },
    { .name = "qwen",
      .key = { "timestamp", "input_length", "output_length", NULL, "hash_ids" },
      .mark = "chat_id",
      .time_kind = PKV__TIME_NUMBER,
      .unit_ns = NS_PER_S,
      .block_tokens = 16,
      .has_history = true },
    { .name = "llmservingsim",
      .key = { "arrival_time_ns", "input_toks", "output_toks", NULL, "input_tok_ids" },
      .time_kind = PKV__TIME_NUMBER,
      .unit_ns = 1,
      .block_tokens = 1,
      .ids_optional = true },
};

/* What in_column and out_column make. */
static const pkv__trace_format own_columns = { .name = "columns" };

const char *pkv_sim_trace_format(int k)
{
    return k >= 0 && k < (int)PKV_ARRAY_LEN(formats) ? formats[k].name : NULL;
}

static const pkv__trace_format *by_name(const char *name)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(formats); k++)
        if (strcmp(formats[k].name, name) == 0) return &formats[k];
    return NULL;
}

static void list_formats(char *out, size_t cap)
{
    size_t used = 0;
    for (size_t k = 0; k < PKV_ARRAY_LEN(formats); k++)
        used += (size_t)snprintf(out + used, cap - used, "%s%s", k ? ", " : "", formats[k].name);
}

pkv_status pkv__trace_check_format(const pkv_sim_trace_config *cfg)
{
    char known[100];
    if (!cfg->format || by_name(cfg->format)) return PKV_OK;
    list_formats(known, sizeof(known));
    return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "format '%.40s' is not known; give one of %s",
                       cfg->format, known);
}

/* A format with the names that the config puts in their place. */
static pkv__trace_format as_configured(const pkv__trace_format *format,
                                       const pkv_sim_trace_config *cfg)
{
    pkv__trace_format f = *format;
    if (cfg->in_column) f.key[PKV__ROLE_INPUT] = cfg->in_column;
    if (cfg->out_column) f.key[PKV__ROLE_OUTPUT] = cfg->out_column;
    if (cfg->time_column) {
        f.key[PKV__ROLE_TIME] = cfg->time_column;
        f.time_optional = false;
        if (f.time_kind == PKV__TIME_NONE) {
            f.time_kind = PKV__TIME_EITHER;
            f.unit_ns = NS_PER_S;
        }
    }
    if (cfg->filter == PKV_SIM_FILTER_BURSTGPT_GPT4) f.key[PKV__ROLE_MODEL] = "Model";
    if (cfg->time_unit_ns > 0 && f.time_kind != PKV__TIME_NONE) {
        f.time_kind = PKV__TIME_NUMBER;
        f.unit_ns = cfg->time_unit_ns;
    }
    if (cfg->hash_block_tokens > 0) {
        f.block_tokens = cfg->hash_block_tokens;
        if (!f.key[PKV__ROLE_IDS] && format == &own_columns) f.key[PKV__ROLE_IDS] = "hash_ids";
    }
    return f;
}

/* ---------------------------------------------------------------- names */

int pkv__trace_find(const pkv__text *names, int n, const char *name)
{
    int found = -1;
    for (int k = 0; k < n; k++) {
        if (!pkv__text_is(names[k], name)) continue;
        if (found >= 0) return -2;
        found = k;
    }
    return found;
}

void pkv__trace_printable(pkv__text text, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t k = 0; k < text.len; k++) {
        const unsigned char c = (unsigned char)text.at[k];
        const bool plain = c >= 0x20 && c < 0x7f;
        const size_t left = cap - used, last = k + 1 == text.len ? 0 : 3; /* of "..." */
        if (left < (plain ? 2 : 5) + last) {
            snprintf(out + used, left, "...");
            return;
        }
        used += (size_t)snprintf(out + used, left, plain ? "%c" : "\\x%02x", c);
    }
}

/* The names as one printable text, cut where it gets long. */
static void list_names(const pkv__trace_names *names, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (int k = 0; k < names->n; k++) {
        if (used + 40 > cap) {
            snprintf(out + used, cap - used, ", ...");
            return;
        }
        char name[28];
        pkv__trace_printable(names->at[k], name, sizeof(name));
        used += (size_t)snprintf(out + used, cap - used, "%s%s", k ? ", " : "", name);
    }
}

/* ---------------------------------------------------------------- matching */

/* How well names suit a format. */
typedef struct match {
    int n_found;
    const char *missing; /* the first needed name that is not there; NULL: all are */
    const char *twice;
} match;

static void look_for(const pkv__trace_names *names, const char *name, bool needed, match *m)
{
    if (!name) return;
    const int at = pkv__trace_find(names->at, names->n, name);
    if (at == -2 && !m->twice) m->twice = name;
    if (at != -1) m->n_found++;
    else if (needed && !m->missing) m->missing = name;
}

static match match_of(const pkv__trace_format *f, const pkv__trace_names *names)
{
    match m = { 0 };
    look_for(names, f->key[PKV__ROLE_INPUT], true, &m);
    look_for(names, f->key[PKV__ROLE_OUTPUT], true, &m);
    look_for(names, f->key[PKV__ROLE_TIME], !f->time_optional, &m);
    look_for(names, f->mark, true, &m);
    look_for(names, f->key[PKV__ROLE_IDS], !f->ids_optional, &m);
    look_for(names, f->key[PKV__ROLE_MODEL], true, &m);
    return m;
}

static pkv_status refuse(const pkv__trace_names *names, const pkv_sim_trace_config *cfg,
                         const pkv__trace_format *nearest, const match *m)
{
    const pkv_logger *log = &cfg->log;
    const char *column = names->json ? "key" : "column";
    const long long line = (long long)names->line;
    char found[120], known[100];
    list_names(names, found, sizeof(found));
    const pkv__text first = names->n == 1 ? names->at[0] : (pkv__text){ "", 0 };
    if (!names->json && (memchr(first.at, ';', first.len) || memchr(first.at, '\t', first.len)))
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: fields are not separated by commas; use a comma: %s", line,
                           found);
    if (nearest && nearest->key[PKV__ROLE_MODEL] && m->missing == nearest->key[PKV__ROLE_MODEL])
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: the filter burstgpt-gpt4 needs a %s 'Model'; %ss found: %s",
                           line, column, column, found);
    if (nearest)
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: %s '%.40s' of format %s is missing; %ss found: %s", line,
                           column, m->missing, nearest->name, column, found);
    list_formats(known, sizeof(known));
    list_names(names, found, 96); /* the message has 255 bytes */
    return pkv__refuse(log, PKV_E_FORMAT,
                       "line %lld: no known format (%s) has these %ss: %s; name the input and "
                       "output %s",
                       line, known, column, found, column);
}

/* The formats that may be meant: one, or all. */
static const pkv__trace_format *candidates(const pkv_sim_trace_config *cfg, size_t *n)
{
    *n = 1;
    if (cfg->format) return by_name(cfg->format);
    if (cfg->in_column && cfg->out_column) return &own_columns;
    *n = PKV_ARRAY_LEN(formats);
    return formats;
}

/* Of the formats whose names are all there the one with most of them: qwen has those of mooncake.
 */
pkv_status pkv__trace_recognise(const pkv__trace_names *names, const pkv_sim_trace_config *cfg,
                                pkv__trace_format *out)
{
    size_t n;
    const pkv__trace_format *may_be = candidates(cfg, &n);
    pkv__trace_format best = { 0 }, nearest = { 0 };
    match best_match = { 0 }, nearest_match = { 0 };
    for (size_t k = 0; k < n; k++) {
        const pkv__trace_format f = as_configured(&may_be[k], cfg);
        const match m = match_of(&f, names);
        if (!m.missing && m.n_found > best_match.n_found) {
            best = f;
            best_match = m;
        } else if (m.missing && (n == 1 || (m.n_found > 1 && m.n_found > nearest_match.n_found))) {
            nearest = f;
            nearest_match = m;
        }
    }
    if (!best.name) return refuse(names, cfg, nearest.name ? &nearest : NULL, &nearest_match);
    if (best_match.twice)
        return pkv__refuse(&cfg->log, PKV_E_FORMAT,
                           "line %lld: column '%.40s' is there twice; rename one of them",
                           (long long)names->line, best_match.twice);
    if (!names->json && best.key[PKV__ROLE_IDS] && !best.ids_optional)
        return pkv__refuse(&cfg->log, PKV_E_FORMAT,
                           "line %lld: format %s is read from JSON lines, and this is CSV; convert "
                           "it, or name its columns to read it without content ids",
                           (long long)names->line, best.name);
    *out = best;
    return PKV_OK;
}
