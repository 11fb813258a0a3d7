/* Sets of runs that take turns, and their table. */
#include "kernel_bench.h"
#include "test_levels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void *bench_room(size_t bytes)
{
    const size_t whole = (bytes + (1 << 21)) >> 21 << 21;
    void *p = aligned_alloc(1 << 21, whole);
    if (!p) {
        fprintf(stderr, "bench: no memory for %zu bytes\n", bytes);
        exit(2);
    }
    madvise(p, whole, MADV_HUGEPAGE); /* as stores do; may be refused */
    return p;
}

void bench_must(pkv_status status)
{
    if (status == PKV_OK) return;
    fprintf(stderr, "bench: %s\n", pkv_status_name(status));
    exit(1);
}

bool bench_wanted(const struct bench *b, const char *op)
{
    return !b->options->op || strcmp(b->options->op, op) == 0;
}

void bench_fill(struct rng *r, void *data, size_t bytes, pkv_dtype dtype)
{
    unsigned char *to = data;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t x = rng_next(r);
        if (dtype == PKV_F32) x = (x & UINT64_C(0x807fffff807fffff)) | UINT64_C(0x3f0000003f000000);
        if (dtype == PKV_F16) x = (x & UINT64_C(0x87ff87ff87ff87ff)) | UINT64_C(0x3800380038003800);
        if (dtype == PKV_BF16)
            x = (x & UINT64_C(0x807f807f807f807f)) | UINT64_C(0x3f003f003f003f00);
        if (dtype == PKV_E4M3 || dtype == PKV_E5M2) x &= UINT64_C(0xbfbfbfbfbfbfbfbf);
        memcpy(to + i, &x, sizeof(x));
    }
}

int bench_add(struct bench_set *set, const char *name, const char *how, double work,
              void (*fn)(void *ctx), void *ctx, int base0, int base1)
{
    if (set->n_runs == BENCH_MAX_RUNS) {
        fprintf(stderr, "bench: more than %d runs in a set\n", BENCH_MAX_RUNS);
        exit(2);
    }
    struct bench_run *run = &set->runs[set->n_runs];
    *run = (struct bench_run){ .fn = fn, .ctx = ctx, .work = work, .base = { base0, base1 } };
    snprintf(run->name, sizeof(run->name), "%s", name);
    snprintf(run->how, sizeof(run->how), "%s", how);
    return set->n_runs++;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n values: 0 the smallest, 0.5 the median, 1 the largest. */
static double quantile(const double *values, int n, double q)
{
    double sorted[BENCH_MAX_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_doubles);
    return sorted[(int)(q * (n - 1) + 0.5)];
}

/* Speed of a run over that of a baseline, paired by round. */
static void print_share(const struct bench_set *set, const struct bench_run *run, int base)
{
    double shares[BENCH_MAX_ROUNDS];
    if (base < 0) {
        printf(" %9s", "-");
        return;
    }
    const struct bench_run *b = &set->runs[base];
    for (int i = 0; i < set->n_rounds; i++)
        shares[i] = run->work / run->ns[i] / (b->work / b->ns[i]);
    printf(" %9.2f", quantile(shares, set->n_rounds, 0.5));
}

static double run_all(struct bench_set *set, int round)
{
    const double begin = read_clock(CLOCK_MONOTONIC);
    for (int i = 0; i < set->n_runs; i++) {
        struct bench_run *run = &set->runs[(i + round) % set->n_runs];
        const double t0 = read_clock(set->clock);
        run->fn(run->ctx);
        run->ns[round] = read_clock(set->clock) - t0;
    }
    return (read_clock(CLOCK_MONOTONIC) - begin) * 1e-9;
}

void bench_measure(struct bench_set *set, int32_t threads, const char *unit, const char *share0,
                   const char *share1)
{
    set->clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    const double round = run_all(set, 0); /* warms up, and is overwritten */
    const double n = (set->seconds - round) / round;
    set->n_rounds = n < 3 ? 3 : n > BENCH_MAX_ROUNDS ? BENCH_MAX_ROUNDS : (int)n;
    for (int i = 0; i < set->n_rounds; i++) run_all(set, i);
    printf("%-36s %-11s %11s %7s %8s %9s %9s   %d rounds\n", "kernel", "how", "ns", "spread", unit,
           share0, share1, set->n_rounds);
    for (int i = 0; i < set->n_runs; i++) {
        const struct bench_run *run = &set->runs[i];
        const double ns = quantile(run->ns, set->n_rounds, 0.5);
        printf(
            "%-36s %-11s %11.0f %6.0f%% %8.2f", run->name, run->how, ns,
            100 *
                (quantile(run->ns, set->n_rounds, 0.75) - quantile(run->ns, set->n_rounds, 0.25)) /
                ns,
            run->work / ns);
        print_share(set, run, run->base[0]);
        print_share(set, run, run->base[1]);
        printf("\n");
    }
    fflush(stdout);
}

static void add_level(struct bench *b, pkv_isa isa)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    const char *reason = "?";
    const pkv_isa asked = b->options->isa;
    if (asked != PKV_ISA_BEST && asked != isa) return;
    if (pkv_isa_check(isa, &reason) != PKV_OK) {
        printf("SKIPPED level %s: %s\n", pkv_isa_name(isa), reason);
        return;
    }
    cfg.max_isa = isa;
    cfg.n_threads = b->options->threads;
    bench_must(pkv_backend_create_cpu(&cfg, &b->be[b->n_levels]));
    b->isa[b->n_levels++] = isa;
}

int kernel_bench(const struct bench_options *o)
{
    static const char *const ops[] = { "decode",      "prefill",       "kv_write",    "kv_gather",
                                       "blocks_copy", "blocks_gather", "states_merge" };
    struct bench b = { .options = o };
    bool known = !o->op;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        known |= o->op && strcmp(o->op, ops[i]) == 0;
    if (!known) {
        fprintf(stderr, "bench: --op is one of");
        for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) fprintf(stderr, " %s", ops[i]);
        fprintf(stderr, "\n");
        return 2;
    }
    for (int i = 0; i < TEST_N_LEVELS; i++) add_level(&b, test_levels[i]);
    if (b.n_levels == 0) return 77;
    printf("threads: %d; %s; median, spread between the quarters, shares paired by round\n",
           (int)o->threads, o->threads == 1 ? "CPU time" : "time by the clock");
    bench_attention(&b);
    bench_moves(&b);
    for (int i = 0; i < b.n_levels; i++) pkv_backend_destroy(b.be[i]);
    return 0;
}
