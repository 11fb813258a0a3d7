/* The command inspect: what a trace contains, and what of it is used. */
#include "fragsim_json_parts.h"
#include "fragsim_outputs.h"
#include "fragsim_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void print_unit(FILE *out, const pkv_sim_trace *t)
{
    static const struct {
        int64_t ns;
        const char *name;
    } units[] = { { 1, "ns" },
                  { 1000, "us" },
                  { 1000000, "ms" },
                  { 1000000000, "s" },
                  { INT64_C(60000000000), "min" },
                  { INT64_C(3600000000000), "h" } };
    if (!t->has_times) {
        fprintf(out, "times      none\n");
        return;
    }
    const char *unit = "dates";
    for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++)
        if (t->time_unit_ns == units[k].ns) unit = units[k].name;
    fprintf(out, "times      %s%s; span %.3f s", t->time_unit_ns > 0 ? "in " : "", unit,
            (double)t->span_ns / 1e9);
    if (t->n_reqs > 1)
        fprintf(out, ", mean gap %.6g s", (double)t->span_ns / 1e9 / (double)(t->n_reqs - 1));
    fprintf(out, ", %lld equal to the one before", (long long)t->n_equal_times);
    if (t->n_backwards > 0)
        fprintf(out, ",\n           %lld backwards (from line %lld), put in order",
                (long long)t->n_backwards, (long long)t->first_backwards_line);
    fputc('\n', out);
}

static void print_bytes(FILE *out, const pkv_sim_trace *t)
{
    fprintf(out, "file       %lld bytes%s%s%s\n", (long long)t->bytes_read,
            t->had_bom ? ", with a byte order mark" : "", t->had_crlf ? ", CRLF" : "",
            t->last_row_unterminated ? ", no newline at the end" : "");
}

static void print_profile(FILE *out, const fragsim_input *in)
{
    double rates[FRAGSIM_TENTHS];
    if (!fragsim_profile(in, rates)) return;
    fprintf(out, "profile    requests per second in each tenth of the span\n          ");
    for (int k = 0; k < FRAGSIM_TENTHS; k++) fprintf(out, " %.4g", rates[k]);
    fputc('\n', out);
}

static void print_shares(FILE *out, const fragsim_report *rep)
{
    const pkv_sim_cache_forms *c = &rep->cache;
    const pkv_sim_content *content = &rep->input->content;
    if (c->struct_size == 0 || c->prompt_tokens == 0) return;
    const double prompts = (double)c->prompt_tokens;
    fprintf(
        out,
        "content    %lld ids of %d tokens, %d different; a cache that never evicts finds\n"
        "           %.2f %% of the prompt tokens, %.2f %% in blocks of %d; %.2f %% of the ids;\n"
        "           %.2f %% as mean per request\n",
        (long long)c->ids, content->block_tokens, content->n_distinct,
        100 * (double)c->found_tokens / prompts, 100 * (double)c->found_block_tokens / prompts,
        rep->cache_block_tokens, c->ids > 0 ? 100 * (double)c->found_ids / (double)c->ids : 0.0,
        100 * c->mean_rate);
    if (c->below_block > 0)
        fprintf(out, "           %lld tokens are shareable but below a block of %d\n",
                (long long)c->below_block, rep->cache_block_tokens);
}

/* Closed forms and cache; false: it has complained. */
static bool work_out(fragsim_report *rep)
{
    const fragsim_input *in = rep->input;
    pkv_sim_config longest = PKV_SIM_CONFIG_INIT;
    longest.pool_tokens = INT32_MAX;
    longest.max_model_len = 1 << 30;
    rep->forms = (pkv_sim_forms)PKV_SIM_FORMS_INIT;
    pkv_status status = pkv_sim_closed_forms(&longest, in->reqs, in->n, &rep->forms);
    if (status == PKV_OK && in->content.ids) {
        pkv_sim_cache_forms cache = PKV_SIM_CACHE_FORMS_INIT;
        rep->cache_block_tokens =
            rep->opts->block_tokens >= 0 ? (int32_t)rep->opts->block_tokens : 16;
        status = pkv_sim_cache_bound(&in->content, in->reqs, in->n, rep->cache_block_tokens, NULL,
                                     &cache);
        rep->cache = cache;
    }
    return status == PKV_OK || fragsim_complain("%s", pkv_status_text(status));
}

static void print_inspection(FILE *out, const fragsim_report *rep)
{
    const fragsim_input *in = rep->input;
    fragsim_print_input(out, in, rep->opts);
    if (rep->forms.n > 0) fprintf(out, "           E[out^2]/E[out] %.1f\n", rep->forms.output_bias);
    print_unit(out, &in->trace);
    print_bytes(out, &in->trace);
    print_profile(out, in);
    print_shares(out, rep);
    fragsim_print_notes(out, rep, 80);
}

static json_t *profile_json(const fragsim_input *in)
{
    double rates[FRAGSIM_TENTHS];
    if (!fragsim_profile(in, rates)) return json_null();
    json_t *a = json_array();
    for (int k = 0; k < FRAGSIM_TENTHS; k++) fragsim_json_append(a, json_real(rates[k]));
    return a;
}

static char *inspection_json(const void *report)
{
    const fragsim_report *rep = report;
    json_t *o = fragsim_json_head("pkv-fragsim/inspect", rep->opts);
    fragsim_json_put(o, "input", fragsim_json_input(rep->opts, rep->input));
    fragsim_json_put(o, "requests", fragsim_json_requests(rep->input));
    fragsim_json_put(o, "output_bias", fragsim_json_real(rep->forms.n > 0, rep->forms.output_bias));
    fragsim_json_put(o, "requests_per_s_by_tenth", profile_json(rep->input));
    fragsim_json_put(o, "infinite_cache", fragsim_json_cache(rep));
    fragsim_json_put(o, "notes", fragsim_json_notes(rep));
    return fragsim_json_text(o);
}

/* As run: if the file cannot be written, nothing is printed. */
static int inspect_loaded(fragsim_report *rep)
{
    const fragsim_output json = { rep->opts->json_path, "the JSON report", inspection_json, false };
    fragsim_files files = { 0 };
    bool on_stdout;
    if (!work_out(rep)) return FRAGSIM_ERROR;
    if (rep->input->trace.has_history)
        fragsim_note(rep, "inputs include history: the prompt of a later turn contains the turns "
                          "before it");
    if (!fragsim_outputs_put(&json, 1, rep, &files, &on_stdout)) return FRAGSIM_ERROR;
    if (!on_stdout) print_inspection(stdout, rep);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return fragsim_files_keep(&files) ? FRAGSIM_OK : FRAGSIM_ERROR;
    fragsim_complain("stdout: writing failed: %s", strerror(errno));
    fragsim_files_drop(&files);
    return FRAGSIM_ERROR;
}

int fragsim_inspect(const fragsim_options *opts)
{
    fragsim_input input;
    fragsim_report *rep = calloc(1, sizeof(*rep));
    if (!rep) {
        fragsim_complain("out of memory");
        return FRAGSIM_ERROR;
    }
    rep->opts = opts;
    rep->input = &input;
    const int code = fragsim_input_load(opts, rep, &input) ? inspect_loaded(rep) : FRAGSIM_ERROR;
    fragsim_input_free(&input);
    free(rep);
    return code;
}
