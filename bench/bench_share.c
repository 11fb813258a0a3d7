/* Sharing over time: what of a trace's prompts the prefix cache finds, by eviction policy
 * and pool size, beside what a cache without end would find. */
#include "bench_case.h"
#include "share_replay.h"

#include "pagedkv/blockmgr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LOSS 0.5 /* points that the default policy may lie below plain LRU */

struct share_case {
    const char *path;
    bool needed; /* asked for; else a missing file is a row of its own */
};

/* Everything one run of the case needs. */
struct share_run {
    const struct bench_case *c;
    struct bench_run *run;
    struct hash_trace trace;
    struct share_hits bound;
    int32_t pools[OPTIONS_MAX_POOLS], n_pools;
    struct bench_error *err;
};

static const struct policy {
    const char *id, *label;
    uint32_t flags;
} policies[] = {
    { "lru", "LRU", PKV_MGR_PREFIX_CACHE | PKV_MGR_PLAIN_LRU },
    { "default", "default", PKV_MGR_PREFIX_CACHE },
};

static double percent(int64_t part, int64_t whole)
{
    return 100 * (double)part / (double)whole;
}

static struct bench_row *add_row(struct share_run *s, const char *id, const char *label,
                                 const char *pool, const struct share_hits *hits)
{
    const struct share_case *sc = s->c->ctx;
    const struct hash_trace *t = &s->trace;
    struct bench_row *row = bench_report_add(&s->run->report, s->err);
    if (!row) return NULL;
    row->group = GROUP_SHARE;
    snprintf(row->id, sizeof(row->id), "%s/%s", s->c->id, id);
    snprintf(row->case_id, sizeof(row->case_id), "%s", s->c->id);
    snprintf(row->label, sizeof(row->label), "%s", label);
    snprintf(row->repro, sizeof(row->repro), "pkv-bench share --trace %.160s --trace-block %d%s%s",
             sc->path, t->block_tokens, strcmp(pool, "inf") ? " --pool " : "",
             strcmp(pool, "inf") ? pool : "");
    bench_row_param(row, "pool", "%s", pool);
    bench_row_param(row, "block_tokens", "%d", t->block_tokens);
    bench_row_param(row, "requests", "%d", t->n_requests);
    bench_row_param(row, "blocks", "%d", t->n_refs);
    bench_row_param(row, "distinct", "%d", t->n_ids);
    bench_row_value(row, "token_hits", percent(hits->tokens, t->n_tokens) / 100);
    bench_row_value(row, "block_hits", percent(hits->blocks, t->n_refs) / 100);
    bench_row_value(row, "request_mean", hits->request_mean);
    bench_row_value(row, "of_bound",
                    s->bound.tokens ? percent(hits->tokens, s->bound.tokens) / 100 : 1);
    return row;
}

/* The manager can find no more than a cache without end, and no less where nothing is evicted. */
static void check(struct share_run *s, int32_t pool, const struct share_hits *hits,
                  struct bench_row *row)
{
    const bool endless = pool >= share_endless_pool(&s->trace);
    const bool plausible = hits->tokens <= s->bound.tokens && hits->blocks <= s->bound.blocks &&
                           (!endless || hits->blocks == s->bound.blocks);
    struct bench_correct *c = &row->correct;
    c->checked = true;
    c->ok = hits->ok && plausible;
    if (c->ok) return;
    if (hits->ok)
        snprintf(c->text, sizeof(c->text), "%lld blocks found, %lld are in reach",
                 (long long)hits->blocks, (long long)s->bound.blocks);
    else snprintf(c->text, sizeof(c->text), "%s", hits->text);
    s->run->report.wrong = true;
    fprintf(stderr, "WRONG %s: %s\n  again: %s\n", row->id, c->text, row->repro);
}

/* Points that `hits` lies above `lru`, in tokens or in blocks, whichever is worse. */
static double points_above(const struct hash_trace *t, const struct share_hits *hits,
                           const struct share_hits *lru)
{
    const double tokens = percent(hits->tokens - lru->tokens, t->n_tokens);
    const double blocks = percent(hits->blocks - lru->blocks, t->n_refs);
    return tokens < blocks ? tokens : blocks;
}

static void set_goal(struct bench_row *row, double above)
{
    struct bench_goal g;
    memset(&g, 0, sizeof(g));
    g.limit = MAX_LOSS;
    g.value = -above;
    snprintf(g.text, sizeof(g.text), "at most %.1f points below LRU", MAX_LOSS);
    bench_row_goal(row, &g);
    bench_row_value(row, "points_above_lru", above);
}

static bool run_pool(struct share_run *s, int32_t pool)
{
    struct share_hits hits[BENCH_LEN(policies)];
    const bool endless = pool >= share_endless_pool(&s->trace);
    char id[48], name[16] = "inf";
    if (!endless) snprintf(name, sizeof(name), "%d", pool);
    for (int i = 0; i < BENCH_LEN(policies); i++) {
        if (!share_replay(&s->trace, pool, policies[i].flags, &hits[i], s->err)) return false;
        snprintf(id, sizeof(id), "pool-%s/%s", name, policies[i].id);
        struct bench_row *row = add_row(s, id, policies[i].label, name, &hits[i]);
        if (!row) return false;
        bench_row_value(row, "pool_tokens",
                        (double)(endless ? share_endless_pool(&s->trace) : pool) *
                            s->trace.block_tokens);
        bench_row_value(row, "evicted_blocks", (double)hits[i].evicted);
        check(s, pool, &hits[i], row);
        if (i > 0 && row->correct.ok && hits[0].ok)
            set_goal(row, points_above(&s->trace, &hits[i], &hits[0]));
    }
    return true;
}

/* ---------------------------------------------------------------- pool sizes */

static void add_pool(struct share_run *s, int64_t pool)
{
    if (pool >= share_least_pool(&s->trace) && pool < share_endless_pool(&s->trace) &&
        s->n_pools < OPTIONS_MAX_POOLS - 1)
        s->pools[s->n_pools++] = (int32_t)pool;
}

/* From the smallest pool that serves the trace to the one that never evicts. */
static void choose_pools(struct share_run *s, enum bench_profile profile)
{
    static const int32_t steps[3][7] = { { 10, 20, 50 }, { 10, 15, 20, 30, 50, 70 }, { 10 } };
    add_pool(s, share_least_pool(&s->trace));
    for (int64_t decade = 1; decade < INT32_MAX; decade *= 10)
        for (const int32_t *step = steps[profile]; *step; step++)
            if (decade * *step > share_least_pool(&s->trace)) add_pool(s, decade * *step);
    s->pools[s->n_pools++] = share_endless_pool(&s->trace);
}

static bool take_pools(struct share_run *s)
{
    const struct bench_options *o = s->run->options;
    const int32_t least = share_least_pool(&s->trace);
    bool endless = false;
    if (o->n_pools == 0) choose_pools(s, o->profile);
    for (int32_t i = 0; i < o->n_pools; i++) {
        if (o->pools[i] < least)
            return bench_fail(s->err, BENCH_USAGE,
                              "--pool %d is too small for this trace: its longest prompt and the "
                              "output need %d blocks",
                              o->pools[i], least);
        if (o->pools[i] < share_endless_pool(&s->trace)) s->pools[s->n_pools++] = o->pools[i];
        else endless = true; /* as good as each other: one row, the last */
    }
    if (endless) s->pools[s->n_pools++] = share_endless_pool(&s->trace);
    return true;
}

/* ---------------------------------------------------------------- the case */

/* No file: where it was asked for a mistake, else a case that is skipped. */
static bool no_trace(const struct share_case *sc, const struct bench_case *c, struct bench_run *run,
                     int reason, struct bench_error *err)
{
    char text[144];
    if (sc->needed)
        return bench_fail(err, BENCH_USAGE,
                          "cannot read the trace %.160s: %s; --trace FILE names another", sc->path,
                          strerror(reason));
    snprintf(text, sizeof(text), "%.80s: %s; PKV_SHARED names its folder", sc->path,
             strerror(reason));
    return bench_report_skip(&run->report, c->id, text, err);
}

static bool add_bound(struct share_run *s)
{
    bool *seen = bench_calloc((size_t)s->trace.n_ids, sizeof(*seen), s->err);
    if (!seen) return false;
    share_bound(&s->trace, seen, &s->bound);
    free(seen);
    return add_row(s, "bound", "any: every block seen before", "inf", &s->bound) != NULL;
}

static bool run_share(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    const struct share_case *sc = c->ctx;
    struct share_run s = { .c = c, .run = run, .err = err };
    if (access(sc->path, R_OK) != 0) return no_trace(sc, c, run, errno, err);
    if (!hash_trace_read(sc->path, run->options->trace_block, &s.trace, err)) return false;
    bool ok = take_pools(&s) && add_bound(&s);
    for (int32_t i = 0; ok && i < s.n_pools; i++) ok = run_pool(&s, s.pools[i]);
    hash_trace_free(&s.trace);
    return ok;
}

/* "share/" and the file's name without folder and ending, in characters that need no quotes. */
static void name_case(const char *path, char *id, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const int n = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    snprintf(id, size, "share/%.*s", n < 48 ? n : 48, name);
    for (char *p = id + strlen("share/"); *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *p))
            *p = '_';
}

bool case_list_share(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    struct bench_case *c = case_list_add(list, err);
    struct share_case *sc = bench_calloc(1, sizeof(*sc), err);
    if (!c || !sc) {
        free(sc);
        return false;
    }
    sc->path = o->trace;
    sc->needed = o->has_trace;
    c->ctx = sc;
    c->group = GROUP_SHARE;
    c->run_untimed = run_share;
    name_case(sc->path, c->id, sizeof(c->id));
    return true;
}
