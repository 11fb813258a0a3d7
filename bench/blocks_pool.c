/* Taking and giving back blocks: reserve(128 blocks) + close, from a warm and from a cold pool, and
 * table A with the rows and columns of vLLM's benchmark_block_pool. */
#include "blocks_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_SEQ 128
#define BLOCK_BYTES 32768 /* of K and V for 16 tokens of a small model; only malloc looks at it */
#define MALLOC_BLOCKS 512 /* of 32 KiB: more would cost seconds in page faults */

static void call_warm(void *ctx)
{
    struct blocks_case *b = ctx;
    const pkv_seq seq = blocks_open(b, PER_SEQ * b->block_tokens);
    (void)blocks_ok(b, pkv_seq_close(b->mgr, seq));
}

static void call_cold(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t i = 0; i < b->n_seqs; i++) b->seqs[i] = blocks_open(b, PER_SEQ * b->block_tokens);
    for (int32_t i = 0; i < b->n_seqs; i++) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seqs[i]));
}

static void list_turn(struct blocks_case *b, int32_t n)
{
    for (int32_t i = 0; i < n; i++) b->taken[i] = block_list_take(&b->list);
    for (int32_t i = n; i-- > 0;) block_list_release(&b->list, b->taken[i]);
}
static void call_list_warm(void *ctx)
{
    list_turn(ctx, PER_SEQ);
}
static void call_list_cold(void *ctx)
{
    struct blocks_case *b = ctx;
    const int32_t n = b->n_seqs * PER_SEQ;
    for (int32_t i = 0; i < n; i++) b->taken[i] = block_list_take(&b->list);
    /* As the sequences are closed: first opened first, each from its tail. */
    for (int32_t s = 0; s < b->n_seqs; s++)
        for (int32_t i = PER_SEQ; i-- > 0;) block_list_release(&b->list, b->taken[s * PER_SEQ + i]);
}

static void malloc_turn(struct blocks_case *b, int32_t n, size_t bytes, bool shuffled)
{
    for (int32_t i = 0; i < n; i++) {
        b->pointers[i] = malloc(bytes);
        if (!b->pointers[i]) b->surprised = true;
        else *(volatile char *)b->pointers[i] = 1;
    }
    if (!shuffled) {
        for (int32_t i = n; i-- > 0;) free(b->pointers[i]);
        return;
    }
    for (int32_t i = 0; i < b->n_blocks; i++)
        if (b->order[i] < n) free(b->pointers[b->order[i]]);
}
static int32_t malloc_many(const struct blocks_case *b)
{
    const int32_t n = b->n_seqs * PER_SEQ;
    return n < MALLOC_BLOCKS ? n : MALLOC_BLOCKS;
}
static void call_malloc_64(void *ctx)
{
    malloc_turn(ctx, PER_SEQ, 64, false);
}
static void call_malloc_block(void *ctx)
{
    malloc_turn(ctx, PER_SEQ, BLOCK_BYTES, false);
}
static void call_malloc_64_many(void *ctx)
{
    malloc_turn(ctx, ((struct blocks_case *)ctx)->n_seqs * PER_SEQ, 64, true);
}
static void call_malloc_block_many(void *ctx)
{
    malloc_turn(ctx, malloc_many(ctx), BLOCK_BYTES, true);
}

/* Give every sequence its blocks one at a time in a random order, then close all: the free list is
 * now in random order over the whole pool. */
static bool shuffle_pool(struct blocks_case *b, struct bench_error *err)
{
    const int32_t n = b->n_seqs * PER_SEQ;
    (void)err;
    for (int32_t i = 0; i < b->n_seqs; i++) b->seqs[i] = blocks_open(b, 0);
    memset(b->taken, 0, (size_t)b->n_blocks * sizeof(*b->taken));
    for (int32_t i = 0; i < b->n_blocks; i++) {
        const int32_t k = b->order[i];
        if (k >= n) continue;
        const int32_t s = k / PER_SEQ;
        blocks_reserve(b, b->seqs[s], ++b->taken[s] * b->block_tokens);
    }
    for (int32_t i = 0; i < b->n_seqs; i++) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seqs[i]));
    return true;
}

static bool add_floors(struct bench_case *c, const char *what, double ops, bool cold)
{
    const struct blocks_case *b = c->ctx;
    char label[64];
    snprintf(label, sizeof(label), "  bare LIFO list, %s", what);
    struct bench_side *s =
        blocks_side_add(c, "list", label, "block", ops, cold ? call_list_cold : call_list_warm);
    s->baseline = true;
    snprintf(label, sizeof(label), "  malloc(64) + free, %s", what);
    blocks_side_add(c, "malloc-64", label, "block", ops,
                    cold ? call_malloc_64_many : call_malloc_64);
    snprintf(label, sizeof(label), "  malloc(32 KiB) + free, %s", what);
    s = blocks_side_add(c, "malloc-32k", label, "block", cold ? malloc_many(b) : ops,
                        cold ? call_malloc_block_many : call_malloc_block);
    if (cold && malloc_many(b) < ops)
        snprintf(s->note, sizeof(s->note),
                 "%d live chunks; glibc gives freed memory back and faults it in again",
                 malloc_many(b));
    return true;
}

static bool add_turn(const struct bench_options *o, struct case_list *list, int32_t n_blocks,
                     bool cold, struct bench_error *err)
{
    struct blocks_case b;
    char id[48], label[64], what[32];
    memset(&b, 0, sizeof(b));
    b.n_blocks = n_blocks;
    b.block_tokens = 16;
    b.cold = cold;
    b.n_seqs = cold ? n_blocks / PER_SEQ : 1;
    b.prepare = cold ? shuffle_pool : NULL;
    snprintf(what, sizeof(what), "%s, 1e%d", cold ? "random order" : "warm",
             blocks_log10(n_blocks));
    snprintf(id, sizeof(id), "turn-%s/%d", cold ? "cold" : "warm", n_blocks);
    snprintf(label, sizeof(label), "reserve(128)+close, %s", what);
    const double ops = cold ? (double)b.n_seqs * PER_SEQ : PER_SEQ;
    struct bench_case *c = blocks_case_add(o, list, &b, id, label, "block", ops,
                                           cold ? call_cold : call_warm, NULL, err);
    if (!c) return false;
    bench_side_goal(&c->sides[0], GOAL_NS, cold ? 100 : 15, "");
    /* A call turns the whole pool over. */
    if (cold && o->max_time_s <= 0) c->sampler.max_time_ns *= 4;
    return add_floors(c, what, ops, cold);
}

/* ---------------------------------------------------------------- table A */

struct get_free {
    double get_sum, get_max, free_sum, free_max; /* us */
};

static void add_time(double *sum, double *max, uint64_t ns)
{
    const double us = (double)ns / 1e3;
    *sum += us;
    if (us > *max) *max = us;
}

static void time_manager(struct blocks_case *b, int32_t n, struct get_free *t)
{
    const struct bench_clock *clock = &b->run->clock;
    const uint64_t start = clock->now_ns(clock->ctx);
    const pkv_seq seq = blocks_open(b, n * b->block_tokens);
    const uint64_t got = clock->now_ns(clock->ctx);
    (void)blocks_ok(b, pkv_seq_close(b->mgr, seq));
    const uint64_t end = clock->now_ns(clock->ctx);
    add_time(&t->get_sum, &t->get_max, got - start);
    add_time(&t->free_sum, &t->free_max, end - got);
}

static void time_list(struct blocks_case *b, int32_t n, struct get_free *t)
{
    const struct bench_clock *clock = &b->run->clock;
    const uint64_t start = clock->now_ns(clock->ctx);
    for (int32_t i = 0; i < n; i++) b->taken[i] = block_list_take(&b->list);
    const uint64_t got = clock->now_ns(clock->ctx);
    for (int32_t i = n; i-- > 0;) block_list_release(&b->list, b->taken[i]);
    const uint64_t end = clock->now_ns(clock->ctx);
    add_time(&t->get_sum, &t->get_max, got - start);
    add_time(&t->free_sum, &t->free_max, end - got);
}

static bool add_pool_row(struct bench_case *c, struct bench_run *run, const char *label, int32_t n,
                         int iterations, const struct get_free *t, struct bench_error *err)
{
    const struct blocks_case *b = c->ctx;
    struct bench_row *row = bench_report_add(&run->report, err);
    if (!row) return false;
    row->group = GROUP_POOL;
    snprintf(row->id, sizeof(row->id), "%s/%s/%d", c->id, label, n);
    snprintf(row->case_id, sizeof(row->case_id), "%s", c->id);
    snprintf(row->label, sizeof(row->label), "%s", label);
    snprintf(row->repro, sizeof(row->repro), "pkv-bench %s --profile %s --filter %s --seed %llu",
             bench_command_name(run->options->command), bench_profile_name(run->options->profile),
             c->id, (unsigned long long)run->options->seed);
    bench_row_value(row, "iterations", iterations);
    bench_row_value(row, "total_blocks", b->n_blocks);
    bench_row_value(row, "allocated_blocks", n);
    bench_row_value(row, "get_avg_us", t->get_sum / iterations);
    bench_row_value(row, "get_max_us", t->get_max);
    bench_row_value(row, "free_avg_us", t->free_sum / iterations);
    bench_row_value(row, "free_max_us", t->free_max);
    return true;
}

static bool run_pool_table(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    static const int32_t sizes[] = { 10, 50, 100, 500, 1000 };
    struct blocks_case *b = c->ctx;
    const int iterations = run->options->profile == PROFILE_CI ? 100 : 1000;
    if (!c->setup(c, run, err)) return false;
    bool ok = true;
    for (int i = 0; ok && i < BENCH_LEN(sizes); i++) {
        struct get_free ours = { 0, 0, 0, 0 }, list = { 0, 0, 0, 0 };
        for (int k = 0; k < iterations; k++) {
            time_manager(b, sizes[i], &ours);
            time_list(b, sizes[i], &list);
        }
        ok = add_pool_row(c, run, "pagedkv", sizes[i], iterations, &ours, err) &&
             add_pool_row(c, run, "bare LIFO list", sizes[i], iterations, &list, err);
    }
    if (ok && (b->status != PKV_OK || pkv_blockmgr_check(b->mgr, 3) != PKV_OK)) {
        run->report.wrong = true;
        fprintf(stderr, "WRONG %s: first failed call %s\n", c->id, pkv_status_name(b->status));
    }
    c->teardown(c);
    return ok;
}

static bool add_pool_table(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err)
{
    struct blocks_case b;
    memset(&b, 0, sizeof(b));
    b.n_blocks = 100000;
    b.block_tokens = 16;
    b.n_seqs = 1;
    b.n_tokens = 1000 * 16;
    b.prefix_cache = true;
    struct bench_case *c =
        blocks_case_add(o, list, &b, "pool", "get and free", "block", 1, call_warm, NULL, err);
    if (!c) return false;
    c->n_sides = 0; /* it makes its own rows */
    c->group = GROUP_POOL;
    c->run_untimed = run_pool_table;
    return true;
}

bool blocks_pool_cases(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err)
{
    static const int32_t all[] = { 1000, 10000, 100000, 1000000 };
    /* The quick run of everything shows one size each; asked for alone, the manager shows all. */
    const bool one_size = o->profile == PROFILE_QUICK && o->command == CMD_RUN;
    const int first = o->profile == PROFILE_CI || one_size ? 2 : 0;
    if (!add_pool_table(o, list, err)) return false;
    for (int i = first; i < BENCH_LEN(all); i++) {
        if (o->profile == PROFILE_CI && all[i] > 100000) continue;
        const bool warm = !one_size || all[i] == 100000;
        const bool cold = !one_size || all[i] == 1000000;
        if (warm && !add_turn(o, list, all[i], false, err)) return false;
        if (cold && !add_turn(o, list, all[i], true, err)) return false;
    }
    return true;
}
