/* Which format a CSV header belongs to. Names decide, never positions. */
#include "sim/trace.h"

#include <stdio.h>
#include <string.h>

static const pkv__trace_format formats[] = {
    { "azure", "TIMESTAMP", "ContextTokens", "GeneratedTokens", true, false },
    { "burstgpt", "Timestamp", "Request tokens", "Response tokens", false, false },
    { "vidur", "arrived_at", "num_prefill_tokens", "num_decode_tokens", false, true },
    { "splitwise", "arrival_timestamp", "prompt_size", "token_size", false, false },
};

/* Position of a column; -1: not there, -2: there twice. */
static int find(const pkv__text *names, int n, const char *name)
{
    int found = -1;
    for (int k = 0; k < n; k++) {
        if (names[k].len != strlen(name) || memcmp(names[k].at, name, names[k].len) != 0) continue;
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
static void list_names(const pkv__text *names, int n, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (int k = 0; k < n; k++) {
        if (used + 40 > cap) {
            snprintf(out + used, cap - used, ", ...");
            return;
        }
        char name[28];
        pkv__trace_printable(names[k], name, sizeof(name));
        used += (size_t)snprintf(out + used, cap - used, "%s%s", k ? ", " : "", name);
    }
}

static pkv_status refuse(const pkv__text *names, int n, int64_t line, const pkv_logger *log,
                         const pkv__trace_format *nearest, const char *missing)
{
    char found[120];
    list_names(names, n, found, sizeof(found));
    if (nearest)
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: column '%s' of format %s is missing; "
                           "columns found: %s",
                           (long long)line, missing, nearest->name, found);
    if (n == 1 &&
        (memchr(names[0].at, ';', names[0].len) || memchr(names[0].at, '\t', names[0].len)))
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: fields are not separated by commas; use a comma: %s",
                           (long long)line, found);
    return pkv__refuse(log, PKV_E_FORMAT,
                       "line %lld: no known format (azure, burstgpt, vidur, splitwise) has these "
                       "columns: %s",
                       (long long)line, found);
}

pkv_status pkv__trace_recognise(const pkv__text *names, int n, int64_t line, const pkv_logger *log,
                                pkv__trace_columns *out)
{
    const pkv__trace_format *nearest = NULL;
    const char *missing = NULL;
    int most = 0;
    for (size_t k = 0; k < PKV_ARRAY_LEN(formats); k++) {
        const pkv__trace_format *f = &formats[k];
        const int time = find(names, n, f->time), input = find(names, n, f->input),
                  output = find(names, n, f->output);
        if (time == -2 || input == -2 || output == -2)
            return pkv__refuse(
                log, PKV_E_FORMAT, "line %lld: column '%s' is there twice; rename one of them",
                (long long)line, time == -2 ? f->time : (input == -2 ? f->input : f->output));
        const bool time_ok = time >= 0 || f->time_optional;
        if (time_ok && input >= 0 && output >= 0) {
            *out = (pkv__trace_columns){ f, time, input, output, n };
            return PKV_OK;
        }
        const int score = (time >= 0) + (input >= 0) + (output >= 0);
        if (score <= most) continue;
        most = score;
        nearest = f;
        missing = input < 0 ? f->input : (output < 0 ? f->output : f->time);
    }
    return refuse(names, n, line, log, nearest, missing);
}
