/* The command capacity: how many requests a memory holds at given lengths, without a simulation. */
#include "fragsim_capacity.h"

#include "fragsim_outputs.h"
#include "fragsim_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool forms_of(const fragsim_capacity_report *rep, int32_t block, int32_t watermark_ppm,
                     pkv_sim_forms *out)
{
    pkv_sim_config cfg = rep->opts->sim;
    cfg.policy = (pkv_sim_policy)PKV_SIM_POLICY_INIT;
    cfg.policy.block_tokens = block;
    cfg.watermark_ppm = watermark_ppm;
    *out = (pkv_sim_forms)PKV_SIM_FORMS_INIT;
    const pkv_status status = pkv_sim_closed_forms(&cfg, rep->input->reqs, rep->input->n, out);
    return status == PKV_OK || fragsim_complain("%s", pkv_status_text(status));
}

static bool block_cost(const fragsim_capacity_report *rep, int32_t block, fragsim_block_cost *out)
{
    const pkv_sim_config *c = &rep->opts->sim;
    *out = (fragsim_block_cost){ .block_tokens = block, .usable = c->pool_tokens / block };
    if (out->usable == 0) return true;
    pkv_sim_forms with, without;
    if (!forms_of(rep, block, c->watermark_ppm, &with) || !forms_of(rep, block, 0, &without))
        return false;
    const int64_t columns = (c->max_model_len + (int64_t)block - 1) / block;
    out->batch = with.paged_batch;
    out->internal = with.paged_internal;
    out->table_bytes = 4 * out->usable;
    out->padded_bytes = 4 * c->max_num_seqs * columns;
    out->table_share = 4.0 / ((double)block * (double)c->kv_bytes_per_token);
    out->watermark_tokens = out->usable * c->watermark_ppm / 1000000 * block;
    out->watermark_batch = without.paged_batch - with.paged_batch;
    return true;
}

static bool work_out(fragsim_capacity_report *rep)
{
    static const int32_t sizes[FRAGSIM_BLOCK_SIZES] = { 1, 8, 16, 32, 64, 128, 256 };
    const fragsim_options *o = rep->opts;
    rep->block_tokens = o->block_tokens >= 0 ? (int32_t)o->block_tokens : 16;
    if (rep->block_tokens > o->sim.pool_tokens) rep->block_tokens = o->sim.pool_tokens;
    if (!forms_of(rep, rep->block_tokens, o->sim.watermark_ppm, &rep->forms)) return false;
    for (int k = 0; k < o->n_policies; k++) {
        pkv_sim_config cfg = o->sim;
        cfg.policy = o->policies[k];
        fragsim_pack(&cfg, rep->input->reqs, rep->input->n, &rep->packings[k]);
    }
    for (int k = 0; k < FRAGSIM_BLOCK_SIZES; k++)
        if (!block_cost(rep, sizes[k], &rep->blocks[k])) return false;
    return block_cost(rep, rep->block_tokens, &rep->blocks[FRAGSIM_BLOCK_SIZES]);
}

/* As run: if the file cannot be written, nothing is printed. */
static bool write_out(const fragsim_capacity_report *rep, const fragsim_report *notes)
{
    const fragsim_options *o = rep->opts;
    const bool on_stdout = o->json_path && strcmp(o->json_path, "-") == 0;
    fragsim_files files = { 0 };
    if (o->json_path) {
        char *text = fragsim_capacity_json(rep, notes);
        if (!text) return fragsim_complain("out of memory for the JSON report");
        const bool ok = fragsim_files_put(&files, o->json_path, text);
        free(text);
        if (!ok) return false;
    }
    if (!o->quiet && !on_stdout) {
        fragsim_capacity_print(stdout, rep);
        if (notes->n_notes > 0) putchar('\n');
        fragsim_print_notes(stdout, notes, 80);
    }
    if (fflush(stdout) == 0 && !ferror(stdout)) return fragsim_files_keep(&files);
    fragsim_complain("stdout: writing failed: %s", strerror(errno));
    fragsim_files_drop(&files);
    return false;
}

static int capacity_loaded(fragsim_capacity_report *rep, fragsim_report *notes)
{
    if (!work_out(rep)) return FRAGSIM_ERROR;
    if (rep->forms.n < rep->input->n)
        fragsim_note(notes,
                     "%lld of %lld requests are longer than --max-model-len %d or have no output; "
                     "the closed forms leave them out",
                     (long long)(rep->input->n - rep->forms.n), (long long)rep->input->n,
                     rep->opts->sim.max_model_len);
    if (!write_out(rep, notes)) return FRAGSIM_ERROR;
    for (int k = 0; k < rep->opts->n_policies; k++)
        if (rep->packings[k].n_packed > 0) return FRAGSIM_OK;
    fragsim_complain("no request fits; see --max-model-len and --kv-memory");
    return FRAGSIM_NOTHING_DONE;
}

int fragsim_capacity(const fragsim_options *opts)
{
    fragsim_input input;
    fragsim_report *notes = calloc(1, sizeof(*notes));
    fragsim_capacity_report *rep = calloc(1, sizeof(*rep));
    int code = FRAGSIM_ERROR;
    if (!notes || !rep) {
        fragsim_complain("out of memory");
    } else {
        rep->opts = notes->opts = opts;
        rep->input = notes->input = &input;
        if (fragsim_input_load(opts, notes, &input)) code = capacity_loaded(rep, notes);
        fragsim_input_free(&input);
    }
    free(rep);
    free(notes);
    return code;
}
