/* Parallel sampling: memory that n answers to one prompt save by sharing its full blocks. Requests
 * of the simulator's generators are played with the real block manager, one after another:
 *
 *   prompt i, B = 16   [ full ][ full ][ part ]      shared by all n until the first token:
 *   sample 1                           [ part + .. ][ .. ]    then each has its own copy
 *   sample 2                           [ part + .. ][ .. ]
 *
 * In every step the blocks in use have to be those of the closed form,
 * floor(i/B) + n * (ceil((i+k)/B) - floor(i/B)) after k tokens. */
#include "bench_case.h"

#include "pagedkv/blockmgr.h"
#include "pagedkv/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SAMPLES 6

struct sampling_case {
    const char *lengths;
    const char *name, *published;
};
static const struct sampling_case sampling_cases[] = {
    { "sharegpt-like", "sharegpt-like", "16.2-30.5 % for 2-6 samples (paper, section 6.3)" },
    { "alpaca-like", "alpaca-like", "6.1-9.8 % for 2-6 samples (paper, section 6.3)" },
};

static const struct sampling_kind {
    int32_t n, block_tokens;
    bool in_quick;
} kinds[] = {
    { 2, 16, true },  { 4, 16, true },  { 6, 16, true },   { 4, 8, false },
    { 4, 32, false }, { 4, 64, false }, { 4, 128, false }, { 4, 256, false },
};

struct player {
    const struct sampling_kind *kind;
    pkv_blockmgr *mgr;
    pkv_seq seqs[MOST_SAMPLES]; /* the first is the parent */
    pkv_reserve_req reqs[MOST_SAMPLES];
    pkv_block_copy copies[MOST_SAMPLES];
    pkv_block_work work;
    int64_t used, unshared; /* block-steps: with sharing, and if each sample had all of its own */
    int64_t steps, copied;
    pkv_status status;
    bool unexpected; /* another number of blocks than the closed form's */
};

static bool fine(struct player *p, pkv_status status)
{
    if (p->status == PKV_OK) p->status = status;
    return status == PKV_OK;
}

static int32_t blocks_of(int32_t n_tokens, int32_t block_tokens)
{
    return (n_tokens + block_tokens - 1) / block_tokens;
}

/* One token for every sample; then the blocks in use are counted. */
static void play_step(struct player *p, int32_t prompt, int32_t made)
{
    const int32_t n = p->kind->n, size = p->kind->block_tokens;
    const pkv_tokens token = { NULL, 1, NULL, 0 }; /* no prefix cache: ids are not looked at */
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    if (!fine(p, pkv_seq_reserve(p->mgr, p->reqs, n, &p->work))) return;
    p->copied += p->work.n_copy;
    for (int32_t i = 0; i < n; i++)
        (void)fine(p, pkv_seq_commit(p->mgr, p->seqs[i], &token, PKV_STEP_NONE));
    pkv_blockmgr_stats(p->mgr, &s);
    const int32_t shared = prompt / size, each = blocks_of(prompt + made, size);
    if (s.active_blocks != shared + n * (each - shared)) p->unexpected = true;
    p->used += s.active_blocks;
    p->unshared += (int64_t)n * each;
    p->steps++;
}

static void play(struct player *p, int32_t prompt, int32_t output)
{
    const pkv_ns everyone = { 0 };
    const pkv_tokens whole = { NULL, prompt, NULL, 0 };
    if (!fine(p, pkv_seq_open(p->mgr, everyone, &p->seqs[0]))) return;
    const pkv_reserve_req req = { p->seqs[0], prompt };
    if (!fine(p, pkv_seq_reserve(p->mgr, &req, 1, &p->work)) ||
        !fine(p, pkv_seq_commit(p->mgr, p->seqs[0], &whole, PKV_STEP_NONE)) ||
        !fine(p, pkv_seq_fork(p->mgr, p->seqs[0], p->seqs + 1, p->kind->n - 1)))
        return;
    for (int32_t i = 0; i < p->kind->n; i++) p->reqs[i] = (pkv_reserve_req){ p->seqs[i], 1 };
    for (int32_t made = 1; made <= output && p->status == PKV_OK; made++)
        play_step(p, prompt, made);
    for (int32_t i = 0; i < p->kind->n; i++) (void)fine(p, pkv_seq_close(p->mgr, p->seqs[i]));
}

static pkv_blockmgr_config config_for(const struct sampling_kind *kind, const pkv_sim_request *reqs,
                                      int32_t n_reqs)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    int32_t longest = 1;
    for (int32_t i = 0; i < n_reqs; i++) {
        const int32_t length = reqs[i].prompt_tokens + reqs[i].output_tokens;
        if (length > longest) longest = length;
    }
    cfg.n_blocks = 1 + kind->n * blocks_of(longest, kind->block_tokens);
    cfg.block_tokens = kind->block_tokens;
    cfg.max_seqs = kind->n;
    cfg.max_seq_tokens = longest;
    cfg.flags = 0;
    return cfg;
}

static void fill_row(struct bench_row *row, const struct bench_case *c, struct bench_run *run,
                     const struct player *p, int32_t n_reqs)
{
    const struct sampling_case *sc = c->ctx;
    const struct bench_options *o = run->options;
    row->group = GROUP_SHARE;
    snprintf(row->id, sizeof(row->id), "%s/n%d/b%d", c->id, p->kind->n, p->kind->block_tokens);
    snprintf(row->case_id, sizeof(row->case_id), "%s", c->id);
    snprintf(row->label, sizeof(row->label), "%d samples", p->kind->n);
    snprintf(row->repro, sizeof(row->repro), "pkv-bench %s --profile %s --filter %s --seed %llu",
             bench_command_name(o->command), bench_profile_name(o->profile), c->id,
             (unsigned long long)o->seed);
    if (p->kind->block_tokens == 16)
        snprintf(row->published, sizeof(row->published), "%s", sc->published);
    bench_row_param(row, "samples", "%d", p->kind->n);
    bench_row_param(row, "block_tokens", "%d", p->kind->block_tokens);
    bench_row_param(row, "requests", "%d", n_reqs);
    bench_row_value(row, "saved", 1 - (double)p->used / (double)p->unshared);
    bench_row_value(row, "mean_blocks", (double)p->used / (double)p->steps);
    bench_row_value(row, "mean_blocks_unshared", (double)p->unshared / (double)p->steps);
    bench_row_value(row, "copies_per_request", (double)p->copied / n_reqs);
}

static void judge(struct bench_row *row, struct bench_run *run, const struct player *p,
                  pkv_status invariants)
{
    struct bench_correct *c = &row->correct;
    c->checked = true;
    c->ok = p->status == PKV_OK && !p->unexpected && invariants == PKV_OK;
    if (c->ok) return;
    snprintf(c->text, sizeof(c->text), "first failed call %s, %s blocks, invariants %s",
             pkv_status_name(p->status), p->unexpected ? "unexpected" : "expected",
             pkv_status_name(invariants));
    run->report.wrong = true;
    fprintf(stderr, "WRONG %s: %s\n  again: %s\n", row->id, c->text, row->repro);
}

static bool run_kind(const struct bench_case *c, struct bench_run *run,
                     const struct sampling_kind *kind, const pkv_sim_request *reqs, int32_t n_reqs,
                     struct bench_error *err)
{
    struct player p = { .kind = kind, .work = PKV_BLOCK_WORK_INIT };
    const pkv_blockmgr_config cfg = config_for(kind, reqs, n_reqs);
    struct bench_row *row = bench_report_add(&run->report, err);
    if (!row) return false;
    p.work.copy = p.copies;
    p.work.copy_cap = MOST_SAMPLES;
    if (pkv_blockmgr_create(&cfg, NULL, &p.mgr) != PKV_OK)
        return bench_fail(err, BENCH_USAGE, "no block manager of %d blocks", cfg.n_blocks);
    for (int32_t i = 0; i < n_reqs && p.status == PKV_OK; i++)
        play(&p, reqs[i].prompt_tokens, reqs[i].output_tokens);
    fill_row(row, c, run, &p, n_reqs);
    judge(row, run, &p, pkv_blockmgr_check(p.mgr, 3));
    pkv_blockmgr_destroy(p.mgr);
    return true;
}

static bool run_sampling(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    static const int32_t n_reqs_of[] = { 200, 2000, 50 }; /* by profile */
    const struct sampling_case *sc = c->ctx;
    const bool full = run->options->profile == PROFILE_FULL;
    const int32_t n_reqs = n_reqs_of[run->options->profile];
    pkv_sim_request *reqs = bench_calloc((size_t)n_reqs, sizeof(*reqs), err);
    if (!reqs) return false;
    bool ok =
        pkv_sim_draw(sc->lengths, run->options->seed, 8000000, NULL, reqs, n_reqs) == PKV_OK ||
        bench_fail(err, BENCH_USAGE, "the generator refused its arguments");
    for (int i = 0; ok && i < BENCH_LEN(kinds); i++)
        if (full || kinds[i].in_quick) ok = run_kind(c, run, &kinds[i], reqs, n_reqs, err);
    free(reqs);
    return ok;
}

bool case_list_sampling(struct case_list *list, struct bench_error *err)
{
    for (int i = 0; i < BENCH_LEN(sampling_cases); i++) {
        struct bench_case *c = case_list_add(list, err);
        struct sampling_case *sc = bench_calloc(1, sizeof(*sc), err);
        if (!c || !sc) {
            free(sc);
            return false;
        }
        *sc = sampling_cases[i];
        c->ctx = sc;
        c->group = GROUP_SHARE;
        c->run_untimed = run_sampling;
        snprintf(c->id, sizeof(c->id), "share/sampling/%s", sc->name);
    }
    return true;
}
