/* How the value of each option is understood, and what may stand beside what. */
#include "generate_options.h"
#include "tool_values.h"

#include <stdlib.h>
#include <string.h>

static void *field_of(generate_options *o, const generate_option *row)
{
    return (char *)o + row->at;
}

/* The place of `v` among n names; -1: it has complained. */
static int pick(const generate_option *row, const char *v, const char *const *names, int n)
{
    char all[128];
    size_t len = 0;
    for (int k = 0; k < n; k++) {
        if (strcmp(v, names[k]) == 0) return k;
        const char *between = k == 0 ? "" : k == n - 1 ? " or " : ", ";
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", between, names[k]);
    }
    generate_complain("%s: '%.64s' is not %s", row->name, v, all);
    return -1;
}

/* Decimal, with nothing before or behind it: no blanks, no hexadecimal, no "inf". */
static bool parse_real(const char *v, double *out)
{
    char *end;
    if (*v == '\0' || v[strspn(v, "0123456789.eE+-")] != '\0') return false;
    *out = strtod(v, &end);
    return *end == '\0';
}

/* ---------------------------------------------------------------- of a kind */

bool generate_set_flag(generate_options *o, const generate_option *row, const char *v)
{
    (void)v;
    *(bool *)field_of(o, row) = true;
    return true;
}

bool generate_set_any_text(generate_options *o, const generate_option *row, const char *v)
{
    *(const char **)field_of(o, row) = v;
    return true;
}

bool generate_set_text(generate_options *o, const generate_option *row, const char *v)
{
    if (*v == '\0') return generate_complain("%s: an empty text; give %s", row->name, row->value);
    return generate_set_any_text(o, row, v);
}

bool generate_set_whole(generate_options *o, const generate_option *row, const char *v)
{
    int64_t value;
    if (!tool_parse_whole(v, row->low, row->high, &value))
        return generate_complain("%s: '%.64s' is not a whole number from %lld to %lld", row->name,
                                 v, (long long)row->low, (long long)row->high);
    *(int32_t *)field_of(o, row) = (int32_t)value;
    return true;
}

bool generate_set_bytes(generate_options *o, const generate_option *row, const char *v)
{
    int64_t value;
    if (!tool_parse_bytes(v, &value) || value < row->low)
        return generate_complain(
            "%s: '%.64s' is not a number of bytes%s, as in 2GiB, 500MB or 65536", row->name, v,
            row->low > 0 ? " above 0" : "");
    *(int64_t *)field_of(o, row) = value;
    return true;
}

bool generate_set_field(generate_options *o, const generate_option *row, const char *v)
{
    const generate_field *f = generate_field_find(row->field);
    char range[96];
    int64_t whole;
    double real;
    if (f->kind == GENERATE_FLAG) {
        generate_field_set_flag(f, &o->base, true);
        return true;
    }
    if (f->kind == GENERATE_WHOLE
            ? tool_parse_whole(v, 0, INT64_MAX, &whole) &&
                  generate_field_set_whole(f, &o->base, whole)
            : parse_real(v, &real) && generate_field_set_real(f, &o->base, real))
        return true;
    generate_field_range(f, range, sizeof(range));
    return generate_complain("%s: '%.64s' is not %s", row->name, v, range);
}

/* ---------------------------------------------------------------- requests */

/* One id of a list; *at moves behind it and its comma. -1: none there. */
static int64_t next_id(const char **at)
{
    char one[16];
    int64_t id;
    const size_t len = strcspn(*at, ",");
    if (len >= sizeof(one)) return -1;
    memcpy(one, *at, len);
    one[len] = '\0';
    if (!tool_parse_whole(one, 0, INT32_MAX, &id)) return -1;
    *at += len;
    if (**at == ',' && *++*at == '\0') return -1;
    return id;
}

bool generate_set_ids(generate_options *o, const generate_option *row, const char *v)
{
    generate_request *r = &o->base;
    o->ids = v;
    size_t n = 1;
    for (const char *c = v; *c; c++) n += *c == ',';
    r->ids = n > INT32_MAX ? NULL : malloc(n * sizeof(*r->ids));
    if (!r->ids) return generate_complain("out of memory");
    while (*v || r->n_ids == 0) {
        const int64_t id = next_id(&v);
        if (id < 0)
            return generate_complain("%s: '%.64s' is not a list of token ids, as in 1,403,407",
                                     row->name, o->ids);
        r->ids[r->n_ids++] = (int32_t)id;
    }
    return true;
}

bool generate_set_stop(generate_options *o, const generate_option *row, const char *v)
{
    const char *wrong = generate_add_stop(&o->base, v, strlen(v));
    return !wrong || generate_complain("%s: %s", row->name, wrong);
}

bool generate_set_stop_id(generate_options *o, const generate_option *row, const char *v)
{
    const char *all = v;
    do {
        const int64_t id = next_id(&v);
        if (id < 0)
            return generate_complain("%s: '%.64s' is not a token id, or several as in 1,2",
                                     row->name, all);
        const char *wrong = generate_add_stop_id(&o->base, id);
        if (wrong) return generate_complain("%s: %s", row->name, wrong);
    } while (*v);
    return true;
}

bool generate_set_rng(generate_options *o, const generate_option *row, const char *v)
{
    static const char *const names[] = { "philox", "xorshift-llama2" };
    const int k = pick(row, v, names, 2);
    o->base.req.sampling.xorshift_llama2 = k == 1;
    return k >= 0;
}

/* ---------------------------------------------------------------- engine */

bool generate_set_kv_dtype(generate_options *o, const generate_option *row, const char *v)
{
    if (pkv_dtype_from_name(v, &o->engine.kv_dtype) == PKV_OK) return true;
    return generate_complain("%s: '%.64s' is not " TOOL_DTYPES, row->name, v);
}

bool generate_set_weights(generate_options *o, const generate_option *row, const char *v)
{
    static const char *const names[] = { "f32", "bf16" };
    const int k = pick(row, v, names, 2);
    o->weights = k == 1 ? PKV_BF16 : PKV_F32;
    return k >= 0;
}

bool generate_set_preempt(generate_options *o, const generate_option *row, const char *v)
{
    static const char *const names[] = { "auto", "swap", "recompute" };
    const int k = pick(row, v, names, 3);
    if (k >= 0) o->engine.preempt = (pkv_preempt)k;
    return k >= 0;
}

bool generate_set_placement(generate_options *o, const generate_option *row, const char *v)
{
    static const char *const names[] = { "paged", "max", "request", "pow2" };
    const int k = pick(row, v, names, 4);
    if (k >= 0) o->engine.placement = (pkv_placement)k;
    return k >= 0;
}

bool generate_set_isa(generate_options *o, const generate_option *row, const char *v)
{
    o->isa_by = row->name;
    if (pkv_isa_from_name(v, &o->engine.isa) != PKV_OK)
        return generate_complain("%s: '%.64s' is not " TOOL_LEVELS, row->name, v);
    const char *reason;
    if (o->engine.isa == PKV_ISA_BEST || pkv_isa_check(o->engine.isa, &reason) == PKV_OK)
        return true;
    return generate_complain("%s: %s cannot be used here: %s", row->name, v, reason);
}

/* ---------------------------------------------------------------- output */

bool generate_set_stats(generate_options *o, const generate_option *row, const char *v)
{
    static const char *const names[] = { "table", "json", "prometheus" };
    const int k = pick(row, v, names, 3);
    o->stats = true;
    if (k >= 0) o->stats_format = (generate_stats)k;
    return k >= 0;
}

bool generate_set_peaks(generate_options *o, const generate_option *row, const char *v)
{
    char first[32];
    const size_t len = strcspn(v, ",");
    if (len < sizeof(first) && v[len] == ',') {
        memcpy(first, v, len);
        first[len] = '\0';
        if (parse_real(first, &o->peak_gbs) && parse_real(v + len + 1, &o->peak_gflops) &&
            o->peak_gbs > 0 && o->peak_gflops > 0 && o->peak_gbs < 1e9 && o->peak_gflops < 1e9)
            return true;
    }
    return generate_complain("%s: '%.64s' is not GB/s and GFLOP/s, both above 0, as in 12.5,90",
                             row->name, v);
}

/* ---------------------------------------------------------------- together */

static bool one_prompt(const generate_options *o)
{
    static const char *const names[] = { "--prompt", "--file", "--ids", "--requests" };
    const char *first = NULL;
    for (int k = 0; k < 4; k++) {
        if (!generate_given(o, names[k])) continue;
        if (first)
            return generate_complain("%s and %s: one prompt at a time; more go into --requests",
                                     first, names[k]);
        first = names[k];
    }
    return first || generate_complain("no prompt: give -p TEXT, -f FILE, --ids 1,2,3 or --requests "
                                      "FILE; see pkv-generate --help");
}

/* `only` means something for one request only, or without something else. */
static bool not_with(const generate_options *o, const char *only, const char *other,
                     const char *why)
{
    return !generate_given(o, only) || !generate_given(o, other) ||
           generate_complain("%s with %s: %s", only, other, why);
}

static bool request_alone(const generate_options *o)
{
    if (o->requests) return true; /* lines may say otherwise */
    static const char *const names[] = { "--length-penalty", "--early-stopping" };
    for (int k = 0; k < 2; k++)
        if (generate_given(o, names[k]) && o->base.req.beams < 2)
            return generate_complain("%s means something with --beams 2 or more only", names[k]);
    const char *wrong = generate_request_check(&o->base);
    if (wrong) return generate_complain("%s", wrong);
    return o->json || o->base.req.sampling.n_logprobs < 0 ||
           generate_complain("--logprobs: printed as JSON only; add --json");
}

bool generate_options_check(const generate_options *o)
{
    if (!o->model) return generate_complain("no model: give -m PATH; see pkv-generate --help");
    if (!one_prompt(o) || !request_alone(o)) return false;
    if (o->engine.placement != PKV_PLACE_PAGED &&
        (o->swap_bytes > 0 || o->engine.preempt == PKV_PREEMPT_SWAP))
        return generate_complain("--placement: one region per sequence is never swapped; leave "
                                 "--swap-memory and --preempt swap out");
    if (o->engine.placement == PKV_PLACE_PAGED && o->engine.preempt == PKV_PREEMPT_SWAP &&
        o->swap_bytes == 0)
        return generate_complain("--preempt swap: nowhere to swap to; give --swap-memory SIZE");
    if (o->peak_gbs > 0 && (!o->stats || o->stats_format != GENERATE_TABLE))
        return generate_complain("--peaks: for the table of --stats; ask for that");
    if (o->engine.max_batch_tokens > 0 && o->engine.max_seqs > o->engine.max_batch_tokens)
        return generate_complain(
            "--max-batch-tokens %d: each of the --max-seqs %d sequences needs a "
            "token in a step; change one of them",
            o->engine.max_batch_tokens, o->engine.max_seqs);
    return not_with(o, "--exact", "--fast", "one or the other") &&
           not_with(o, "--kv-memory", "--kv-blocks", "two sizes of one pool") &&
           not_with(o, "--special", "--ids", "ids are tokens already") &&
           not_with(o, "--echo", "--json", "JSON has the prompt") &&
           not_with(o, "--echo", "--requests", "answers are JSON lines");
}
