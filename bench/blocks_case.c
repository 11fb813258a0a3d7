/* Setup, check and teardown of block manager cases. */
#include "blocks_case.h"

#include "bandwidth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int blocks_log10(int32_t n_blocks)
{
    int e = 0;
    for (; n_blocks >= 10; n_blocks /= 10) e++;
    return e;
}

bool blocks_ok(struct blocks_case *b, pkv_status status)
{
    if (b->status == PKV_OK) b->status = status;
    return status == PKV_OK;
}

static int32_t max_seqs(const struct blocks_case *b)
{
    return b->n_seqs + 80;
}

pkv_tokens blocks_tokens(const struct blocks_case *b, int32_t seq, int32_t first, int32_t n)
{
    const uint32_t start = (uint32_t)seq * 40503u + b->epoch * 7919u;
    return (pkv_tokens){ b->tokens + start % BLOCKS_STARTS + first, n, NULL, 0 };
}

void blocks_forget(struct blocks_case *b)
{
    pkv_ns_params params = PKV_NS_PARAMS_INIT;
    char salt[32];
    if (b->ns.v) (void)blocks_ok(b, pkv_ns_close(b->mgr, b->ns));
    snprintf(salt, sizeof(salt), "epoch %u", ++b->epoch);
    params.salt = salt;
    params.salt_bytes = strlen(salt);
    (void)blocks_ok(b, pkv_ns_open(b->mgr, &params, &b->ns));
}

void blocks_reserve(struct blocks_case *b, pkv_seq seq, int32_t n_tokens)
{
    const pkv_reserve_req req = { seq, n_tokens };
    (void)blocks_ok(b, pkv_seq_reserve(b->mgr, &req, 1, &b->work));
}

pkv_seq blocks_open(struct blocks_case *b, int32_t n_tokens)
{
    pkv_seq seq = { 0 };
    if (blocks_ok(b, pkv_seq_open(b->mgr, b->ns, &seq)) && n_tokens > 0)
        blocks_reserve(b, seq, n_tokens);
    return seq;
}

void blocks_commit(struct blocks_case *b, pkv_seq seq, int32_t index, int32_t first, int32_t n)
{
    const pkv_tokens tokens = blocks_tokens(b, index, first, n);
    (void)blocks_ok(b, pkv_seq_commit(b->mgr, seq, &tokens, PKV_STEP_NONE));
}

void blocks_delta(struct blocks_case *b)
{
    b->changed = (pkv_delta)PKV_DELTA_INIT;
    (void)blocks_ok(
        b, pkv_table_delta(b->mgr, 0, b->ranges, max_seqs(b), b->ids, b->ids_cap, &b->changed));
}

void blocks_flush(struct blocks_case *b)
{
    struct bandwidth_loops loops;
    bandwidth_kernels(b->run->options->isa, &loops);
    b->run->sink += loops.sum[BANDWIDTH_PLAIN](b->flush.base, b->flush.bytes);
}

static int32_t longest(const struct blocks_case *b)
{
    const int32_t room = b->n_tokens + 4096;
    return room < 128 * b->block_tokens ? 128 * b->block_tokens : room;
}

static pkv_blockmgr_config config_of(const struct blocks_case *b)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = b->n_blocks + 1; /* the null block */
    cfg.block_tokens = b->block_tokens;
    cfg.max_seqs = max_seqs(b);
    cfg.max_seq_tokens = longest(b);
    cfg.flags = b->prefix_cache ? PKV_MGR_PREFIX_CACHE : 0;
    return cfg;
}

static bool make_manager(struct blocks_case *b, struct bench_error *err)
{
    const pkv_blockmgr_config cfg = config_of(b);
    b->arena_bytes = pkv_blockmgr_bytes(&cfg);
    b->arena = b->arena_bytes ? aligned_alloc(64, (b->arena_bytes + 63) / 64 * 64) : NULL;
    if (!b->arena) return bench_fail(err, BENCH_USAGE, "no memory for the block manager");
    const pkv_status status = pkv_blockmgr_init(b->arena, b->arena_bytes, &cfg, &b->mgr);
    return status == PKV_OK ||
           bench_fail(err, BENCH_USAGE, "the block manager refuses: %s", pkv_status_name(status));
}

static bool make_arrays(struct blocks_case *b, struct bench_error *err)
{
    const size_t n = (size_t)b->n_blocks;
    struct bench_rng rng = { b->run->options->seed };
    b->seqs = bench_calloc((size_t)b->n_seqs, sizeof(*b->seqs), err);
    b->reqs = bench_calloc((size_t)b->n_seqs, sizeof(*b->reqs), err);
    b->tokens = bench_calloc(BLOCKS_STARTS + BLOCKS_LONGEST, sizeof(*b->tokens), err);
    b->taken = bench_calloc(n, sizeof(*b->taken), err);
    b->pointers = bench_calloc(n, sizeof(*b->pointers), err);
    b->order = bench_calloc(n, sizeof(*b->order), err);
    /* A delta names each entry of a row at most once, used or given up since the last one. */
    b->ids_cap = max_seqs(b) * (b->n_tokens / b->block_tokens + 1);
    b->ranges = bench_calloc((size_t)max_seqs(b), sizeof(*b->ranges), err);
    b->ids = bench_calloc((size_t)b->ids_cap, sizeof(*b->ids), err);
    if (!b->seqs || !b->reqs || !b->tokens || !b->taken || !b->pointers || !b->order ||
        !b->ranges || !b->ids)
        return false;
    for (int32_t i = 0; i < BLOCKS_STARTS + BLOCKS_LONGEST; i++)
        b->tokens[i] = (int32_t)bench_rng_below(&rng, 128000);
    for (int32_t i = 0; i < b->n_blocks; i++) b->order[i] = i;
    bench_shuffle(&rng, b->order, b->n_blocks);
    b->work = (pkv_block_work)PKV_BLOCK_WORK_INIT;
    b->work.copy = b->copies;
    b->work.copy_cap = BENCH_LEN(b->copies);
    return block_list_init(&b->list, b->n_blocks, b->cold ? b->run->options->seed | 1 : 0, err);
}

static void blocks_teardown(struct bench_case *c)
{
    struct blocks_case *b = c->ctx;
    bench_region_unmap(&b->flush);
    block_list_deinit(&b->list);
    free(b->seqs);
    free(b->reqs);
    free(b->tokens);
    free(b->taken);
    free(b->pointers);
    free(b->order);
    free(b->ranges);
    free(b->ids);
    free(b->arena);
    b->seqs = NULL;
    b->reqs = NULL;
    b->tokens = b->taken = b->order = NULL;
    b->ids = NULL;
    b->ranges = NULL;
    b->pointers = NULL;
    b->arena = NULL;
}

static bool blocks_setup(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    struct blocks_case *b = c->ctx;
    b->run = run;
    b->status = PKV_OK;
    b->surprised = false;
    b->ns.v = 0;
    b->step = PKV_STEP_NONE;
    bool ok = make_arrays(b, err) && make_manager(b, err) &&
              bench_region_map(&b->flush, 2 * (size_t)run->report.machine.llc_bytes, true, err);
    if (ok) {
        memset(b->flush.base, 1, b->flush.bytes);
        blocks_forget(b);
        ok = !b->prepare || b->prepare(b, err);
    }
    if (!ok) blocks_teardown(c);
    return ok;
}

/* After timing: every call succeeded with the outcome the case is about, the invariants hold, and
 * the kinds of blocks add up. */
static bool blocks_check(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                         struct bench_correct *out, struct bench_error *err)
{
    struct blocks_case *b = c->ctx;
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    (void)run;
    (void)err;
    out->ok = true;
    if (!timed || strcmp(c->sides[side].id, "pagedkv") != 0) return true;
    out->checked = true;
    pkv_blockmgr_stats(b->mgr, &s);
    const pkv_status invariants = pkv_blockmgr_check(b->mgr, 3);
    const bool adds_up =
        s.free_blocks + s.active_blocks + s.cached_blocks + s.limbo_blocks + s.quarantine_blocks ==
        s.n_blocks - 1;
    out->ok = b->status == PKV_OK && !b->surprised && invariants == PKV_OK && adds_up;
    if (!out->ok)
        snprintf(out->text, sizeof(out->text),
                 "first failed call %s, %s outcome, invariants %s, "
                 "blocks %s",
                 pkv_status_name(b->status), b->surprised ? "another" : "expected",
                 pkv_status_name(invariants), adds_up ? "add up" : "do not add up");
    return true;
}

static void set_param(struct bench_side *s, const char *name, const char *value)
{
    struct bench_param *p = &s->params[s->n_params++];
    snprintf(p->name, sizeof(p->name), "%s", name);
    snprintf(p->value, sizeof(p->value), "%s", value);
}

struct bench_side *blocks_side_add(struct bench_case *c, const char *id, const char *label,
                                   const char *per, double ops, void (*call)(void *))
{
    struct bench_side *s = bench_case_side(c);
    snprintf(s->id, sizeof(s->id), "%s", id);
    snprintf(s->label, sizeof(s->label), "%s", label);
    set_param(s, "per", per);
    s->ops = ops;
    s->call = call;
    s->ctx = c->ctx;
    return s;
}

struct bench_case *blocks_case_add(const struct bench_options *o, struct case_list *list,
                                   const struct blocks_case *what, const char *id,
                                   const char *label, const char *per, double ops,
                                   void (*call)(void *), void (*before)(void *),
                                   struct bench_error *err)
{
    struct bench_case *c = case_list_add(list, err);
    struct blocks_case *b = bench_calloc(1, sizeof(*b), err);
    if (!c || !b) {
        free(b);
        return NULL;
    }
    *b = *what;
    c->ctx = b;
    c->group = GROUP_BLOCKMGR;
    snprintf(c->id, sizeof(c->id), "blockmgr/%s", id);
    c->setup = blocks_setup;
    c->check = blocks_check;
    c->teardown = blocks_teardown;
    const bool full = o->profile == PROFILE_FULL, ci = o->profile == PROFILE_CI;
    c->sampler = (struct sampler_opts)SAMPLER_OPTS_INIT;
    c->sampler.n_samples = o->repeats ? o->repeats : full ? 2000 : ci ? 10 : 200;
    c->sampler.min_samples = 5;
    c->sampler.warmup_ns = ci ? 1000000 : 5000000;
    c->sampler.min_sample_ns = 50000;
    c->sampler.max_time_ns = (uint64_t)((o->max_time_s > 0 ? o->max_time_s : full ? 5 : 0.4) * 1e9);
    struct bench_side *s = blocks_side_add(c, "pagedkv", label, per, ops, call);
    s->before = before;
    if (what->n_blocks) {
        char n[24];
        snprintf(n, sizeof(n), "%d", what->n_blocks);
        set_param(s, "blocks", n);
    }
    return c;
}
