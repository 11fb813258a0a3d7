/* The report of a run as one page that needs nothing but itself. */
#include "fragsim_html.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- head */

/* 1234567 -> "1,234,567" */
static const char *grouped(int64_t value, char out[32])
{
    char digits[24];
    const int n = snprintf(digits, sizeof(digits), "%lld", (long long)value);
    char *to = out;
    for (int k = 0; k < n; k++) {
        *to++ = digits[k];
        if ((n - k - 1) % 3 == 0 && k < n - 1 && digits[k] != '-') *to++ = ',';
    }
    *to = '\0';
    return out;
}

static void put_what_ran(FILE *out, const fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    const pkv_sim_config *c = &opts->sim;
    const fragsim_input *in = rep->input;
    char a[32], b[32];
    fprintf(out, "<p class=\"lead\">%s request%s, ", grouped(in->n, a), in->n == 1 ? "" : "s");
    if (in->from_trace && opts->trace_path) {
        fputs("from <b>", out);
        fragsim_put_escaped(out, strcmp(opts->trace_path, "-") == 0 ? "stdin" : opts->trace_path);
        fputs("</b>", out);
    } else if (opts->lengths_path) {
        fputs("lengths from <b>", out);
        fragsim_put_escaped(out, opts->lengths_path);
        fputs("</b>", out);
    } else {
        fputs("drawn as <b>", out);
        fragsim_put_escaped(out, opts->lengths_text ? opts->lengths_text : "sharegpt-like");
        fprintf(out, "</b>, seed %llu", (unsigned long long)opts->arrivals.seed);
    }
    fprintf(out, "; in the mean %.1f prompt and %.1f output tokens.<br>\n", in->prompt.mean,
            in->output.mean);
    fprintf(out, "A pool of %s token slots (%.2f GiB of KV), requests of up to %s tokens, at most ",
            grouped(c->pool_tokens, a),
            (double)c->pool_tokens * (double)c->kv_bytes_per_token / (1 << 30),
            grouped(c->max_model_len, b));
    fprintf(out, "%d at a time. <span class=\"whole\">pkv-fragsim %s</span>.</p>\n",
            c->max_num_seqs, pkv_version());
}

/* The name of a policy, which may be broken between its parts. */
static void put_breakable(FILE *out, const char *name)
{
    char part[PKV_SIM_POLICY_NAME_BYTES];
    while (*name) {
        const size_t len = strcspn(name, ":+,") + 1, left = strlen(name);
        const size_t n = len < left ? len : left;
        snprintf(part, sizeof(part), "%.*s", (int)n, name);
        fragsim_put_escaped(out, part);
        if (n < left) fputs("<wbr>", out);
        name += n;
    }
}

static void put_tiles(FILE *out, const fragsim_report *rep)
{
    fputs("<div class=\"tiles\">\n", out);
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        fprintf(out,
                "<label class=\"tile\" style=\"border-left-color:%s\"><input "
                "type=\"checkbox\" checked title=\"show in the charts over time\" "
                "data-policy=\"",
                fragsim_line_colour(k));
        fragsim_put_escaped(out, rep->jobs[k].name);
        fputs("\">", out);
        put_breakable(out, rep->jobs[k].name);
        if (r->window_ns > 0)
            fprintf(out, "<b>%.1f %%</b><span>filled with tokens<br>batch %.2f</span>",
                    100 * r->split.token, r->mean_batch);
        else fputs("<b>-</b><span>nothing was measured</span>", out);
        fputs("</label>\n", out);
    }
    fputs("</div>\n", out);
}

/* Does the policy belong to those that paging is measured against? */
static bool is_rival(const fragsim_job *job)
{
    return job->cfg.policy.kind != PKV_SIM_PAGED && job->result.mean_batch > 0;
}

static void put_ratios(FILE *out, const fragsim_report *rep)
{
    bool paged = false, rivals = false;
    for (int k = 0; k < rep->n_jobs; k++) {
        paged |= rep->jobs[k].cfg.policy.kind == PKV_SIM_PAGED;
        rivals |= is_rival(&rep->jobs[k]);
    }
    if (!paged || !rivals) return;
    fputs("<p>Batch of the paged policies, as a multiple of that of the others:</p>\n"
          "<div class=\"scroll\"><table id=\"t_ratios\"><thead><tr><th></th>",
          out);
    for (int k = 0; k < rep->n_jobs; k++) {
        if (!is_rival(&rep->jobs[k])) continue;
        fputs("<th>", out);
        put_breakable(out, rep->jobs[k].name);
        fputs("</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int p = 0; p < rep->n_jobs; p++) {
        const fragsim_job *job = &rep->jobs[p];
        if (job->cfg.policy.kind != PKV_SIM_PAGED) continue;
        fputs("<tr>", out);
        fragsim_cell_text(out, job->name);
        for (int k = 0; k < rep->n_jobs; k++)
            if (is_rival(&rep->jobs[k]))
                fragsim_cell_number(out, job->result.window_ns > 0, "%.2f",
                                    job->result.mean_batch / rep->jobs[k].result.mean_batch);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void put_notes(FILE *out, const fragsim_report *rep)
{
    for (int k = 0; k < rep->n_notes; k++) {
        fputs("<p class=\"note\">", out);
        fragsim_put_escaped(out, rep->notes[k]);
        fputs("</p>\n", out);
    }
}

/* ---------------------------------------------------------------- charts */

static const char *const how_waste =
    "Each bar is the whole pool, averaged over the window. <b>Token</b>: slots with a token that "
    "will be read. <b>Reservation</b>: asked for and filled later. <b>Internal</b>: asked for and "
    "never filled; for paged policies the empty rest of blocks. <b>Rounding</b>: granted beyond "
    "what was asked. <b>Unusable</b>: free, and enough for the next request, but in pieces that "
    "are too short. <b>Cached</b>: free, with content that may still be found. <b>Free</b>: all "
    "other free slots. Batch is the mean number of running requests.";

static const char *const how_measure[FRAGSIM_MEASURE_COUNT] = {
    "Share of the pool that holds tokens. The gap to 100 % is waste or free memory.",
    "Share of the pool that is taken: tokens, reservations, internal waste and rounding. Where "
    "this is high and the chart above is low, memory is taken but not filled.",
    "Requests that run at the same time. Under load a larger batch is more throughput.",
    "Requests that have arrived and do not run yet, those swapped out included. A line that "
    "keeps rising means that the policy cannot keep up with the arrivals.",
    "0 %: all free slots are one run. Towards 100 %: they lie in many short pieces. The line "
    "ends where nothing is free. Only policies whose requests need one run of addresses.",
};

static bool put_measure(FILE *out, const fragsim_report *rep, fragsim_measure m,
                        const fragsim_time *time, bool can_draw)
{
    static const char *const ids[] = { "f_tokens", "f_used", "f_batch", "f_queue", "f_scatter" };
    bool matters = false;
    for (int k = 0; k < rep->n_jobs; k++) matters |= fragsim_measure_matters(m, &rep->jobs[k]);
    if (!matters) return true;
    char *svg = can_draw ? fragsim_draw_measure(rep, m, time) : NULL;
    if (can_draw && !svg) return false;
    fragsim_figure_begin(out, ids[m], fragsim_measure_title(m), svg, how_measure[m]);
    fragsim_measure_table(out, rep, m, time);
    fragsim_figure_end(out);
    free(svg);
    return true;
}

static const char *const how_policies =
    "Above: what the pool held over time. Below: the same by address, each cell in the colour of "
    "what most of it held. Under a contiguous policy a request is a rectangle as long as it stays "
    "and as high as what it was granted; it fills with tokens from below, and free gaps between "
    "rectangles that are too low for the next request are external fragmentation. Under a paged "
    "policy a request has no shape: its blocks lie anywhere.";

/* Are there cached blocks that the map does not tell from free ones? */
static bool hides_cached(const fragsim_job *job)
{
    const fragsim_series *s = &job->series;
    bool any = false;
    for (int64_t k = 0; k < s->n && !any; k++) any = s->samples[k].cached > 0;
    return any && !memchr(s->maps, PKV_SIM_MAP_CACHED, (size_t)s->n * (size_t)s->map_cells);
}

static bool put_policy(FILE *out, const fragsim_report *rep, int k, const fragsim_time *time,
                       bool can_draw)
{
    const fragsim_job *job = &rep->jobs[k];
    const bool mapped = can_draw && fragsim_has_map(job);
    char id[32];
    if (fragsim_shown(job, time) < 2) return true;
    char *parts = can_draw ? fragsim_draw_parts(rep, k, time) : NULL;
    char *map = mapped ? fragsim_draw_map(rep, k, time) : NULL;
    const bool ok = (parts || !can_draw) && (map || !mapped);
    if (ok) {
        snprintf(id, sizeof(id), "f_policy%d", k);
        fragsim_figure_begin(out, id, job->name, parts, "What the pool held over time.");
        if (map)
            fprintf(out, "%s<figcaption>What lay at which address%s.</figcaption>\n", map,
                    hides_cached(job) ? "; cached blocks count as free here" : "");
        fragsim_parts_table(out, rep, k, time);
        fragsim_figure_end(out);
    }
    free(parts);
    free(map);
    return ok;
}

static bool put_over_time(FILE *out, const fragsim_report *rep, bool can_draw)
{
    fragsim_time time;
    if (!fragsim_time_of(rep, &time)) return true;
    fragsim_page_section(out, "time", "Over time");
    fputs("<p>Times count from the first arrival.", out);
    if (time.cut)
        fputs(" The averages above end with the last arrival; of what follows, while the queue "
              "runs empty, only the beginning is shown.",
              out);
    fputs(" The boxes in the tiles above switch policies on and off.</p>\n", out);
    for (int m = 0; m < FRAGSIM_MEASURE_COUNT; m++)
        if (!put_measure(out, rep, (fragsim_measure)m, &time, can_draw)) return false;
    fragsim_page_section(out, "policies", "Policy by policy");
    fprintf(out, "<p>%s</p>\n", how_policies);
    for (int k = 0; k < rep->n_jobs; k++)
        if (!put_policy(out, rep, k, &time, can_draw)) return false;
    return true;
}

static bool put_overview(FILE *out, const fragsim_report *rep, bool can_draw)
{
    char *svg = can_draw ? fragsim_draw_waste(rep) : NULL;
    if (can_draw && !svg) return false;
    fragsim_page_section(out, "memory", "Where the memory went");
    if (!can_draw) fragsim_page_no_charts(out);
    fragsim_figure_begin(out, "f_waste", "The pool, a bar per policy", svg, how_waste);
    fragsim_figure_end(out);
    free(svg);
    fragsim_result_tables(out, rep);
    put_ratios(out, rep);
    return true;
}

/* ---------------------------------------------------------------- facts */

static void put_facts(FILE *out, const json_t *report, const char *id, const char *heading,
                      const char *const *keys, const char *text)
{
    fragsim_page_section(out, id, heading);
    fprintf(out, "<p>%s</p>\n<div class=\"beside\">\n", text);
    for (int k = 0; keys[k]; k++) {
        const json_t *object = json_object_get(report, keys[k]);
        char table[48];
        if (!json_is_object(object)) continue;
        snprintf(table, sizeof(table), "j_%s", keys[k]);
        fragsim_json_rows(out, table, object);
    }
    fputs("</div>\n", out);
}

/* What the closed forms say about the batch of a policy; 0: nothing. They are for blocks of the
 * last paged policy. */
static double expected_batch(const fragsim_report *rep, const pkv_sim_policy *p)
{
    const pkv_sim_forms *f = &rep->forms;
    int32_t block_tokens = 0;
    for (int k = 0; k < rep->n_jobs; k++)
        if (rep->jobs[k].cfg.policy.kind == PKV_SIM_PAGED)
            block_tokens = rep->jobs[k].cfg.policy.block_tokens;
    const bool ideal = p->addr == PKV_SIM_ADDR_IDEAL, buddy = p->addr == PKV_SIM_ADDR_BUDDY;
    if (p->kind == PKV_SIM_MAX && ideal) return (double)f->max_batch_ideal;
    if (p->kind == PKV_SIM_MAX && buddy) return (double)f->max_batch_buddy;
    if (p->kind == PKV_SIM_ORACLE && ideal) return f->oracle_ideal_batch;
    const bool plain = p->kind == PKV_SIM_PAGED && !p->prefix && p->n_seqs == 1;
    return plain && p->block_tokens == block_tokens ? f->paged_batch : 0;
}

static void put_forms(FILE *out, const fragsim_report *rep)
{
    bool any = false;
    for (int k = 0; k < rep->n_jobs; k++) {
        const double form = expected_batch(rep, &rep->jobs[k].cfg.policy);
        if (form <= 0) continue;
        if (!any)
            fputs("<div class=\"scroll\"><table id=\"t_forms\"><thead><tr><th>policy</th><th>batch "
                  "expected</th><th>simulated</th></tr></thead>\n<tbody>\n",
                  out);
        any = true;
        fputs("<tr>", out);
        fragsim_cell_text(out, rep->jobs[k].name);
        fragsim_cell_number(out, true, "%.2f", form);
        fragsim_cell_number(out, rep->jobs[k].result.window_ns > 0, "%.2f",
                            rep->jobs[k].result.mean_batch);
        fputs("</tr>\n", out);
    }
    if (any) fputs("</tbody></table></div>\n", out);
}

static void put_record(FILE *out, const fragsim_report *rep, const json_t *json)
{
    static const char *const input[] = { "input", "requests", NULL };
    static const char *const forms[] = { "closed_forms", "infinite_cache", NULL };
    static const char *const config[] = { "config", NULL };
    put_facts(out, json, "input", "Input", input,
              "Where the requests came from, and what became of every row.");
    put_facts(out, json, "forms", "From the lengths alone", forms,
              "What the lengths let expect without a simulation, for a pool that is always "
              "full; beside it what the simulation gave.");
    put_forms(out, rep);
    put_facts(out, json, "config", "Configuration", config, "As used, defaults included.");
    const json_t *each = json_object_get(json_object_get(json, "config"), "policies");
    if (json_is_object(json_array_get(each, 0)))
        fragsim_json_columns(out, "j_config_policies", each, "policy");
    fragsim_page_section(out, "all", "Everything measured");
    fputs("<p>As in the JSON report. Shares are fractions of the pool.</p>\n", out);
    const json_t *policies = json_object_get(json, "policies");
    if (json_array_size(policies) > 0) fragsim_json_columns(out, "j_policies", policies, "policy");
}

/* ---------------------------------------------------------------- the page */

static bool put_page(FILE *out, const fragsim_report *rep, const json_t *json)
{
    const bool can_draw = fragsim_can_draw();
    fragsim_time time;
    fragsim_page_begin(out, "pkv-fragsim: where the KV-cache memory went",
                       "Where the KV-cache memory went");
    put_what_ran(out, rep);
    fprintf(out,
            "<nav><a href=\"#memory\">Memory</a>%s<a href=\"#input\">Input</a><a "
            "href=\"#forms\">Expected</a><a href=\"#config\">Configuration</a><a "
            "href=\"#all\">All figures</a><a href=\"#repeat\">Repeat</a></nav>\n",
            fragsim_time_of(rep, &time)
                ? "<a href=\"#time\">Over time</a><a href=\"#policies\">Policies</a>"
                : "");
    put_tiles(out, rep);
    put_notes(out, rep);
    if (!put_overview(out, rep, can_draw) || !put_over_time(out, rep, can_draw)) return false;
    put_record(out, rep, json);
    fragsim_page_repro(out, rep->opts);
    fragsim_page_end(out);
    return true;
}

char *fragsim_html(const fragsim_report *rep)
{
    char *text = NULL, *json_text = fragsim_json(rep);
    size_t len = 0;
    json_t *json = json_text ? json_loads(json_text, 0, NULL) : NULL;
    FILE *out = json ? open_memstream(&text, &len) : NULL;
    const bool ok = out && put_page(out, rep, json);
    free(json_text);
    json_decref(json);
    if (!out) fragsim_complain("out of memory for the HTML report");
    else if (fclose(out) == 0 && ok) return text;
    free(text);
    return NULL;
}
