/* Operations on a whole manager: statistics, the invariant checker, making one of a million. */
#include "blocks_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FULL_SEQS 1000 /* tokens per sequence of a manager in use */

/* Half of the pool in sequences with content, a quarter cached, a quarter free. */
static bool prepare_used(struct blocks_case *b, struct bench_error *err)
{
    (void)err;
    for (int32_t i = 0; i < b->n_seqs; i++) {
        b->seqs[i] = blocks_open(b, FULL_SEQS);
        blocks_commit(b, b->seqs[i], i, 0, FULL_SEQS);
        if (i % 3 == 2) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seqs[i]));
    }
    return true;
}

static void call_stats(void *ctx)
{
    struct blocks_case *b = ctx;
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    for (int i = 0; i < 64; i++) {
        pkv_blockmgr_stats(b->mgr, &s);
        b->run->sink += (uint64_t)s.free_blocks;
    }
}

static void call_check(void *ctx)
{
    struct blocks_case *b = ctx;
    (void)blocks_ok(b, pkv_blockmgr_check(b->mgr, b->level));
}

static struct blocks_case used_case(int32_t n_blocks)
{
    struct blocks_case b;
    memset(&b, 0, sizeof(b));
    b.n_blocks = n_blocks;
    b.block_tokens = 16;
    b.n_seqs = n_blocks * 12 / FULL_SEQS; /* 3/4 of the blocks get content */
    b.n_tokens = FULL_SEQS;
    b.prefix_cache = true;
    b.prepare = prepare_used;
    return b;
}

static bool add_whole(const struct bench_options *o, struct case_list *list, int32_t n_blocks,
                      int level, struct bench_error *err)
{
    struct blocks_case b = used_case(n_blocks);
    char id[48], label[64], size[16];
    b.level = level;
    snprintf(size, sizeof(size), "1e%d", blocks_log10(n_blocks));
    if (level) {
        snprintf(id, sizeof(id), "check-%d/%d", level, n_blocks);
        snprintf(label, sizeof(label), "invariant check level %d, %s blocks", level, size);
    } else {
        snprintf(id, sizeof(id), "stats/%d", n_blocks);
        snprintf(label, sizeof(label), "statistics, %s blocks", size);
    }
    return blocks_case_add(o, list, &b, id, label, "call", level ? 1 : 64,
                           level ? call_check : call_stats, NULL, err) != NULL;
}

static void call_epochs(void *ctx)
{
    struct blocks_case *b = ctx;
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(b->mgr, &s);
    const uint32_t epoch = s.epoch;
    for (int i = 0; i < 64; i++) (void)blocks_ok(b, pkv_blockmgr_new_epoch(b->mgr));
    pkv_blockmgr_stats(b->mgr, &s);
    if (s.epoch - epoch != 64) b->surprised = true;
}

static bool add_epoch(const struct bench_options *o, struct case_list *list, int32_t n_blocks,
                      struct bench_error *err)
{
    const struct blocks_case b = used_case(n_blocks);
    char id[48], label[64];
    snprintf(id, sizeof(id), "new-epoch/%d", n_blocks);
    snprintf(label, sizeof(label), "new epoch, 1e%d blocks in use", blocks_log10(n_blocks));
    return blocks_case_add(o, list, &b, id, label, "call", 64, call_epochs, NULL, err) != NULL;
}

/* ---------------------------------------------------------------- a new manager */

static pkv_blockmgr_config new_config(int32_t n_blocks)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = n_blocks;
    cfg.max_seqs = 256;
    cfg.max_seq_tokens = 8192;
    return cfg;
}

/* In the arena of the case, whose pages are there already. */
static void call_init(void *ctx)
{
    struct blocks_case *b = ctx;
    const pkv_blockmgr_config cfg = new_config(b->n_tokens);
    pkv_blockmgr *mgr = NULL;
    (void)blocks_ok(b, pkv_blockmgr_init(b->flush.base, b->flush.bytes, &cfg, &mgr));
}

/* As a user meets it: memory from malloc, fresh pages, given back. */
static void call_create(void *ctx)
{
    struct blocks_case *b = ctx;
    const pkv_blockmgr_config cfg = new_config(b->n_tokens);
    pkv_blockmgr *mgr = NULL;
    (void)blocks_ok(b, pkv_blockmgr_create(&cfg, NULL, &mgr));
    pkv_blockmgr_destroy(mgr);
}

static bool prepare_init(struct blocks_case *b, struct bench_error *err)
{
    const pkv_blockmgr_config cfg = new_config(b->n_tokens);
    bench_region_unmap(&b->flush);
    if (!bench_region_map(&b->flush, pkv_blockmgr_bytes(&cfg), true, err)) return false;
    memset(b->flush.base, 1, b->flush.bytes);
    return true;
}

static bool add_new(const struct bench_options *o, struct case_list *list, int32_t n_blocks,
                    struct bench_error *err)
{
    struct blocks_case b;
    char id[48], label[64];
    const pkv_blockmgr_config cfg = new_config(n_blocks);
    const double bytes = (double)pkv_blockmgr_bytes(&cfg);
    /* The rows of the block tables depend on the longest sequences, not on the pool. */
    const double rows = 4.0 * cfg.max_seqs * (cfg.max_seq_tokens / 16.0);
    const double per_block = (bytes - rows) / n_blocks;
    memset(&b, 0, sizeof(b));
    b.n_blocks = 16; /* of the case's own manager, which only satisfies the check */
    b.block_tokens = 16;
    b.n_seqs = 1;
    b.n_tokens = n_blocks;
    b.prepare = prepare_init;
    snprintf(id, sizeof(id), "init/%d", n_blocks);
    snprintf(label, sizeof(label), "init of %d blocks, memory touched before", n_blocks);
    struct bench_case *c = blocks_case_add(o, list, &b, id, label, "call", 1, call_init, NULL, err);
    if (!c) return false;
    struct bench_side *s = &c->sides[0];
    if (n_blocks == 1000000) bench_side_goal(s, GOAL_NS, 30e6, "");
    s->values[s->n_values++] = (struct bench_value){ "bytes_per_block", per_block };
    s->values[s->n_values++] =
        (struct bench_value){ "row_bytes_per_sequence", rows / cfg.max_seqs };
    snprintf(s->note, sizeof(s->note),
             "%.0f bytes per 16-token block, tokens included (goal 200: %s), and %.0f per sequence",
             per_block, per_block <= 200 ? "met" : "missed", rows / cfg.max_seqs);
    snprintf(label, sizeof(label), "create + destroy of %d blocks, fresh memory", n_blocks);
    s = blocks_side_add(c, "create", label, "call", 1, call_create);
    if (c->sampler.n_samples > 50) c->sampler.n_samples = 50;
    return true;
}

bool blocks_whole_cases(const struct bench_options *o, struct case_list *list,
                        struct bench_error *err)
{
    static const int32_t all[] = { 1000, 100000, 1000000 };
    for (int i = 0; i < BENCH_LEN(all); i++) {
        const bool big = all[i] > 100000;
        if (o->profile != PROFILE_FULL && all[i] != 100000) continue;
        for (int level = 0; level <= 3; level++)
            if (!(big && level == 3) && !add_whole(o, list, all[i], level, err)) return false;
    }
    if (!add_epoch(o, list, 100000, err)) return false;
    return add_new(o, list, o->profile == PROFILE_CI ? 100000 : 1000000, err);
}
