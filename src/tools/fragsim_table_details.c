/* Tables of a report that are printed only where they say something: a row per policy that has the
 * values, and no table without rows. */
#include "fragsim_derived.h"
#include "fragsim_table.h"

#define MOST_COLUMNS 6
#define NONE (-1.0)    /* prints as "-" */
#define NOTABLE 0.0005 /* a share that one decimal of a percent shows */

typedef struct details {
    const char *title;
    const char *heads[MOST_COLUMNS]; /* NULL behind the last */
    /* False: this policy has no row. */
    bool (*row)(const fragsim_report *rep, const fragsim_job *job, double *values);
} details;

static bool part_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    (void)rep;
    const pkv_sim_split *s = &job->result.split;
    const bool shares = job->cfg.policy.prefix || job->cfg.policy.n_seqs > 1;
    if (job->result.window_ns == 0) return false;
    v[0] = 100 * s->watermark;
    v[1] = 100 * s->tail;
    v[2] = 100 * s->cached;
    v[3] = 100 * s->dead;
    v[4] = shares ? 100 * s->logical : NONE;
    return s->tail >= NOTABLE || s->cached >= NOTABLE || s->dead >= NOTABLE || shares;
}

static bool cache_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    (void)rep;
    const pkv_sim_hits *h = &job->result.hits;
    fragsim_derived d;
    fragsim_derive(job, &d);
    v[0] = d.hit_rate < 0 ? NONE : 100 * d.hit_rate;
    v[1] = d.block_hit_rate < 0 ? NONE : 100 * d.block_hit_rate;
    v[2] = h->prompt_tokens > 0 ? 100 * h->mean_rate : NONE;
    v[3] = h->again_tokens > 0 ? 100.0 * (double)h->again_cached / (double)h->again_tokens : NONE;
    v[4] = job->result.window_ns > 0 ? 100 * job->result.sharing_saving : NONE;
    return job->cfg.policy.prefix;
}

static bool group_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    v[0] = job->cfg.policy.n_seqs;
    v[1] = job->result.window_ns > 0 ? 100 * job->result.sharing_saving : NONE;
    (void)rep;
    pkv_sim_forms forms = PKV_SIM_FORMS_INIT;
    const bool fork = job->cfg.policy.group == PKV_SIM_GROUP_FORK &&
                      pkv_sim_closed_forms(&job->cfg, job->reqs, job->n, &forms) == PKV_OK;
    v[2] = fork && forms.n > 0 ? 100 * forms.fork_saving : NONE;
    v[3] = (double)job->result.copied_blocks;
    return job->cfg.policy.n_seqs > 1;
}

static bool move_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    (void)rep;
    const pkv_sim_result *r = &job->result;
    fragsim_derived d;
    fragsim_derive(job, &d);
    v[0] = (double)r->n_swaps;
    v[1] = d.swapped_bytes < 0 ? NONE : d.swapped_bytes / 1e9;
    v[2] = (double)r->n_compactions;
    v[3] = d.compacted_bytes < 0 ? NONE : d.compacted_bytes / 1e9;
    v[4] = (double)r->move_ns / 1e9;
    return r->n_swaps > 0 || r->n_compactions > 0;
}

static bool work_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    (void)rep;
    const pkv_sim_result *r = &job->result;
    v[0] = 100.0 * (double)r->n_preempted_requests / (double)r->n_requests;
    v[1] = (double)r->recomputed_tokens;
    v[2] = (double)r->prefill_ns / 1e9;
    return 100 * r->n_preempted_requests >= r->n_requests || r->prefill_ns > 0;
}

static bool goal_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    (void)rep;
    const pkv_sim_config *c = &job->cfg;
    const pkv_sim_result *r = &job->result;
    fragsim_derived d;
    fragsim_derive(job, &d);
    v[0] = (double)r->n_good;
    v[1] = r->n_finished > 0 ? 100.0 * (double)r->n_good / (double)r->n_finished : NONE;
    v[2] = d.good_per_s;
    v[3] = d.requests_per_s;
    return c->slo_ttft_ns > 0 || c->slo_tpot_ns > 0 || c->slo_norm_ns > 0;
}

static bool place_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    (void)rep;
    const pkv_sim_result *r = &job->result;
    v[0] = (double)r->n_failed_takes;
    v[1] = r->n_failed_takes > 0 ? r->frag_index : NONE;
    v[2] = r->window_ns > 0 ? 100 * r->scatter : NONE;
    return r->n_failed_takes > 0;
}

/* Only where the bytes of a token were asked for: otherwise they are those of a default. */
static bool memory_row(const fragsim_report *rep, const fragsim_job *job, double *v)
{
    const double gib = 1024.0 * 1024 * 1024;
    fragsim_derived d;
    fragsim_derive(job, &d);
    v[0] = d.waste_byte_s < 0 ? NONE : d.waste_byte_s / gib;
    v[1] = d.waste_byte_s_per_request < 0 ? NONE : d.waste_byte_s_per_request / gib;
    v[2] = d.waste_waited_byte_s < 0 ? NONE : d.waste_waited_byte_s / gib;
    v[3] = d.table_bytes < 0 ? NONE : d.table_bytes / 1024;
    v[4] = d.padded_bytes < 0 ? NONE : d.padded_bytes / 1024;
    return fragsim_names_bytes(rep->opts) && job->result.window_ns > 0;
}

static const details tables[] = {
    { "parts of these, %",
      { "watermark", "tail", "cached", "dead", "logical" },

      part_row },
    { "prefix cache, %",
      { "tokens", "blocks", "mean/req.", "again", "saving" },

      cache_row },
    { "sequences", { "per req.", "saving %", "expected", "copies" }, group_row },
    { "computed again", { "% of req.", "tokens", "prefill s" }, work_row },
    { "moves", { "swaps", "GB", "compact.", "GB", "time s" }, move_row },
    { "goals met", { "requests", "%", "per s", "all per s" }, goal_row },
    { "places", { "refused", "frag.index", "scatter %" }, place_row },
    { "memory",
      { "waste GiB*s", "per request", "while wait.", "tables KiB", "padded KiB" },

      memory_row },
};

/* Counts in full, everything else with four digits. */
static void print_value(FILE *out, double value)
{
    if (value < 1e11 && value == (double)(int64_t)value) fprintf(out, " %11.0f", value);
    else fprintf(out, " %11.4g", value);
}

void fragsim_print_details(FILE *out, const fragsim_report *rep)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        bool any = false;
        for (int k = 0; k < rep->n_jobs; k++) {
            double values[MOST_COLUMNS];
            if (!tables[t].row(rep, &rep->jobs[k], values)) continue;
            if (!any) fprintf(out, "\n%-*s", FRAGSIM_NAME_COLUMNS, tables[t].title);
            for (int c = 0; !any && tables[t].heads[c]; c++)
                fprintf(out, "%12s", tables[t].heads[c]);
            fputc('\n', out);
            fragsim_print_name(out, &rep->jobs[k]);
            for (int c = 0; tables[t].heads[c]; c++) {
                if (values[c] < 0) fprintf(out, "%12s", "-");
                else print_value(out, values[c]);
            }
            any = true;
        }
        if (any) fputc('\n', out);
    }
}
