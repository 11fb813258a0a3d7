/* Capacity: how many sequences fit into one budget under contiguous and paged policies. The
 * simulator replays generated requests; its paged policies drive the real block manager. */
#include "bench_case.h"

#include "pagedkv/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct capacity_case {
    const char *lengths;
    const char *name;
    int64_t n_requests, rate_micro, step_per_token_ns, step_per_seq_ns;
};

struct policy_row {
    const char *text;
    bool contiguous, in_quick;
};
static const struct policy_row policies[] = {
    { "max", true, true },
    { "max:alloc=ideal", true, false },
    { "pow2", true, true },
    { "oracle", true, true },
    { "oracle:alloc=ideal", true, true },
    { "paged:block=16", false, true },
    { "paged:block=8", false, false },
    { "paged:block=32", false, true },
    { "paged:block=64", false, false },
    { "paged:block=128", false, true },
    { "paged:block=256", false, false },
};

/* OPT-13B on a 40 GB device as in the PagedAttention paper: 15,728 slots of 0.8 MB, 2,048 tokens at
 * most. 8 requests a second keep the queue full under every policy. */
static const struct capacity_case cases[] = {
    { "sharegpt-like", "sharegpt-like", 3000, 8000000, 400, 300000 },
    { "alpaca-like", "alpaca-like", 8000, 30000000, 0, 400000 },
};

struct outcome {
    const struct policy_row *policy;
    pkv_sim_policy parsed;
    pkv_sim_result result;
    struct bench_row *row;
};

static void keep_text(void *ctx, pkv_log_level level, const char *text)
{
    if (level == PKV_LOG_ERROR)
        snprintf(ctx, sizeof(((struct bench_correct *)0)->text), "%s", text);
}

static struct bench_row *add_row(const struct bench_case *c, struct bench_run *run,
                                 const char *label, struct bench_error *err)
{
    const struct bench_options *o = run->options;
    struct bench_row *row = bench_report_add(&run->report, err);
    if (!row) return NULL;
    row->group = GROUP_CAPACITY;
    snprintf(row->id, sizeof(row->id), "%s/%s", c->id, label);
    snprintf(row->case_id, sizeof(row->case_id), "%s", c->id);
    snprintf(row->label, sizeof(row->label), "%s", label);
    snprintf(row->repro, sizeof(row->repro), "pkv-bench %s --profile %s --filter %s --seed %llu",
             bench_command_name(o->command), bench_profile_name(o->profile), c->id,
             (unsigned long long)o->seed);
    return row;
}

static void fill_row(struct bench_row *row, const struct outcome *x, const pkv_sim_config *cfg)
{
    const pkv_sim_result *r = &x->result;
    const double slots = cfg->pool_tokens;
    row->correct.checked = row->correct.ok = true;
    bench_row_param(row, "slots", "%d", cfg->pool_tokens);
    bench_row_param(row, "max_model_len", "%d", cfg->max_model_len);
    bench_row_value(row, "mean_batch", r->mean_batch);
    bench_row_value(row, "max_batch", (double)r->max_batch);
    bench_row_value(row, "resident_tokens", r->split.token * slots);
    bench_row_value(row, "token", r->split.token);
    bench_row_value(row, "reservation", r->split.reservation);
    bench_row_value(row, "internal", r->split.internal);
    bench_row_value(row, "external", r->split.external);
    bench_row_value(row, "rounding", r->split.rounding);
    bench_row_value(row, "unusable", r->split.unusable);
    bench_row_value(row, "shortage", r->split.shortage);
    bench_row_value(row, "idle", r->split.idle);
    bench_row_value(row, "watermark", r->split.watermark);
    bench_row_value(row, "tail", r->split.tail);
    bench_row_value(row, "preemptions", (double)r->n_preemptions);
    bench_row_value(row, "recomputed_tokens", (double)r->recomputed_tokens);
    if (x->policy->contiguous) return;
    /* Ragged tables: one 4-byte id per used block. */
    const double used = (r->split.token + r->split.internal) * slots / x->parsed.block_tokens;
    bench_row_param(row, "block_tokens", "%d", x->parsed.block_tokens);
    bench_row_value(row, "table_bytes", 4 * used);
}

static bool run_policy(const struct bench_case *c, struct bench_run *run, pkv_sim_config *cfg,
                       const pkv_sim_request *reqs, struct outcome *x, struct bench_error *err)
{
    const struct capacity_case *cc = c->ctx;
    x->row = add_row(c, run, x->policy->text, err);
    if (!x->row) return false;
    cfg->log = (pkv_logger){ keep_text, x->row->correct.text };
    cfg->check = true;
    pkv_status status = pkv_sim_policy_parse(x->policy->text, &cfg->log, &x->parsed);
    cfg->policy = x->parsed;
    x->result.struct_size = sizeof(x->result);
    if (status == PKV_OK) status = pkv_sim_run(cfg, reqs, cc->n_requests, &x->result);
    if (status == PKV_OK) {
        fill_row(x->row, x, cfg);
        return true;
    }
    if (status == PKV_E_NO_MEMORY) return bench_fail(err, BENCH_USAGE, "no memory to simulate");
    x->row->correct.checked = true;
    run->report.wrong = true;
    fprintf(stderr, "WRONG %s: %s: %s\n  again: %s\n", x->row->id, pkv_status_name(status),
            x->row->correct.text, x->row->repro);
    return true;
}

/* Both headline ratios on every row: to contiguous maximum regions, and to the best contiguous
 * policy of the table, which knows the future and compacts for free. */
static void add_ratios(struct outcome *outcomes, int n)
{
    double max = 0, best = 0;
    for (int i = 0; i < n; i++) {
        const double batch = outcomes[i].result.mean_batch;
        if (!outcomes[i].policy->contiguous) continue;
        if (strcmp(outcomes[i].policy->text, "max") == 0) max = batch;
        if (batch > best) best = batch;
    }
    for (int i = 0; i < n; i++) {
        if (max <= 0 || !outcomes[i].row->correct.ok) continue;
        bench_row_value(outcomes[i].row, "ratio_to_max", outcomes[i].result.mean_batch / max);
        bench_row_value(outcomes[i].row, "ratio_to_best", outcomes[i].result.mean_batch / best);
    }
}

/* What lengths alone say, without a simulation. */
static bool add_closed_form(const struct bench_case *c, struct bench_run *run,
                            const pkv_sim_config *cfg, const pkv_sim_request *reqs,
                            struct bench_error *err)
{
    const struct capacity_case *cc = c->ctx;
    pkv_sim_forms forms;
    memset(&forms, 0, sizeof(forms));
    forms.struct_size = sizeof(forms);
    if (pkv_sim_closed_forms(cfg, reqs, cc->n_requests, &forms) != PKV_OK)
        return bench_fail(err, BENCH_USAGE, "the closed forms were refused");
    const struct {
        const char *label;
        double batch;
    } rows[] = { { "closed form: max", (double)forms.max_batch_buddy },
                 { "closed form: oracle:alloc=ideal", forms.oracle_ideal_batch },
                 { "closed form: paged:block=16", forms.paged_batch } };
    for (int i = 0; i < BENCH_LEN(rows); i++) {
        struct bench_row *row = add_row(c, run, rows[i].label, err);
        if (!row) return false;
        bench_row_value(row, "mean_batch", rows[i].batch);
        if (i > 0) continue;
        snprintf(row->note, sizeof(row->note),
                 "%s: %lld requests, prompt %.1f, output %.1f tokens on average, E[o^2]/E[o] %.1f",
                 cc->name, (long long)forms.n, forms.mean_prompt, forms.mean_output,
                 forms.output_bias);
    }
    return true;
}

static bool run_capacity(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    const struct capacity_case *cc = c->ctx;
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    struct outcome outcomes[BENCH_LEN(policies)];
    int n = 0;
    pkv_sim_request *reqs = bench_calloc((size_t)cc->n_requests, sizeof(*reqs), err);
    if (!reqs) return false;
    memset(outcomes, 0, sizeof(outcomes));
    cfg.step_per_seq_ns = cc->step_per_seq_ns;
    cfg.step_per_token_ns = cc->step_per_token_ns;
    bool ok = pkv_sim_draw(cc->lengths, run->options->seed, cc->rate_micro, NULL, reqs,
                           cc->n_requests) == PKV_OK ||
              bench_fail(err, BENCH_USAGE, "the generator refused its arguments");
    for (int i = 0; ok && i < BENCH_LEN(policies); i++) {
        if (!policies[i].in_quick && run->options->profile == PROFILE_QUICK) continue;
        outcomes[n].policy = &policies[i];
        ok = run_policy(c, run, &cfg, reqs, &outcomes[n++], err);
    }
    if (ok) {
        add_ratios(outcomes, n);
        cfg.policy = (pkv_sim_policy)PKV_SIM_POLICY_INIT;
        cfg.log = (pkv_logger){ NULL, NULL };
        ok = add_closed_form(c, run, &cfg, reqs, err);
    }
    free(reqs);
    return ok;
}

bool case_list_capacity(const struct bench_options *o, struct case_list *list,
                        struct bench_error *err)
{
    const int n = o->profile == PROFILE_QUICK && o->command == CMD_RUN ? 1 : BENCH_LEN(cases);
    for (int i = 0; i < n; i++) {
        struct bench_case *c = case_list_add(list, err);
        if (!c) return false;
        struct capacity_case *cc = bench_calloc(1, sizeof(*cc), err);
        if (!cc) return false;
        *cc = cases[i];
        c->ctx = cc;
        c->group = GROUP_CAPACITY;
        c->run_untimed = run_capacity;
        snprintf(c->id, sizeof(c->id), "capacity/%s", cc->name);
    }
    return true;
}
