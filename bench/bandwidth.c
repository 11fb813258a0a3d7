/* The bandwidth probe. */
#include "bandwidth.h"

#include <stdio.h>
#include <string.h>

#define PASSES 10
#define ALIGN 4096u

#ifndef BENCH_HAVE_AVX2
#define BENCH_HAVE_AVX2 0
#endif
#ifndef BENCH_HAVE_AVX512
#define BENCH_HAVE_AVX512 0
#endif

#ifndef BENCH_HAVE_AVX512BF16
#define BENCH_HAVE_AVX512BF16 0
#endif

/* x86 levels contain each other up to AMX; NEON, of another architecture, runs the scalar loops,
 * which its compiler turns into NEON anyway. */
#define CONTAINS(isa, level) ((isa) < PKV_ISA_NEON && (isa) >= (level))

static pkv_isa not_above(pkv_isa ceiling)
{
    const pkv_isa isa = pkv_isa_detect();
    return ceiling == PKV_ISA_BEST || pkv_isa_check(ceiling, NULL) != PKV_OK ? isa : ceiling;
}

pkv_isa bandwidth_kernels(pkv_isa ceiling, struct bandwidth_loops *loops)
{
    const pkv_isa isa = not_above(ceiling);
    bandwidth_kernels_scalar(loops);
#if BENCH_HAVE_AVX512
    if (CONTAINS(isa, PKV_ISA_AVX512)) {
        bandwidth_kernels_avx512(loops);
        return PKV_ISA_AVX512;
    }
#endif
#if BENCH_HAVE_AVX2
    if (CONTAINS(isa, PKV_ISA_AVX2)) {
        bandwidth_kernels_avx2(loops);
        return PKV_ISA_AVX2;
    }
#endif
    return isa == PKV_ISA_NEON ? PKV_ISA_NEON : PKV_ISA_SCALAR;
}

void bandwidth_peak(pkv_isa ceiling, struct peak_loop *loop)
{
    const pkv_isa isa = not_above(ceiling);
    peak_kernels_scalar(loop);
#if BENCH_HAVE_AVX2
    if (CONTAINS(isa, PKV_ISA_AVX2)) peak_kernels_avx2(loop);
#endif
#if BENCH_HAVE_AVX512
    if (CONTAINS(isa, PKV_ISA_AVX512)) peak_kernels_avx512(loop);
#endif
    (void)isa;
}

void bandwidth_peak_bf16(pkv_isa ceiling, struct peak_loop *loop)
{
    *loop = (struct peak_loop){ NULL, 0, "" };
#if BENCH_HAVE_AVX512BF16
    if (CONTAINS(not_above(ceiling), PKV_ISA_AVX512BF16)) peak_kernels_avx512bf16(loop);
#endif
    (void)ceiling;
}

const char *bandwidth_way_name(int way)
{
    static const char *const names[BANDWIDTH_N_WAYS] = { "plain", "prefetch", "4 streams" };
    return names[way];
}

/* Known content: word i is bench_mix(i). Returns the sum of all words. */
static uint64_t fill_words(void *data, size_t bytes)
{
    uint64_t total = 0;
    uint64_t *words = data;
    for (size_t i = 0; i < bytes / 8; i++) {
        words[i] = bench_mix(i);
        total += words[i];
    }
    return total;
}

/* One pass over a buffer, shared by the threads of a team. */
struct pass {
    bandwidth_sum_fn sum; /* NULL: copy the first half into the second */
    char *data;
    size_t bytes, rounds;
    uint64_t total;
};

static void pass_part(void *ctx, int32_t i, int32_t n)
{
    struct pass *p = ctx;
    const size_t bytes = p->sum ? p->bytes : p->bytes / 2;
    int64_t from, to;
    uint64_t total = 0;
    bench_team_part((int64_t)bytes, 64, i, n, &from, &to);
    for (size_t r = 0; p->sum && r < p->rounds; r++)
        total += p->sum(p->data + from, (size_t)(to - from));
    if (!p->sum) memcpy(p->data + bytes + from, p->data + from, (size_t)(to - from));
    __atomic_fetch_add(&p->total, total, __ATOMIC_RELAXED);
}

/* GB/s of one pass. */
static double pass_speed(const struct bench_clock *clock, struct bench_team *team, struct pass *p)
{
    const double bytes = (double)(p->sum ? p->bytes * p->rounds : p->bytes / 2);
    p->total = 0;
    const uint64_t start = clock->now_ns(clock->ctx);
    bench_team_run(team, pass_part, p);
    const uint64_t ns = clock->now_ns(clock->ctx) - start;
    return bytes / (double)(ns ? ns : 1);
}

/* Best GB/s of `passes` reads. Small buffers are read several times per pass, so that a pass lasts
 * long enough for the clock. */
static double read_speed(const struct bench_clock *clock, struct bench_team *team,
                         bandwidth_sum_fn sum, char *data, size_t bytes, int passes,
                         uint64_t expected, bool *right)
{
    const size_t few = (size_t)8 << 20;
    struct pass p = { sum, data, bytes, bytes < few ? few / bytes : 1, 0 };
    double best = 0;
    for (int i = 0; i < passes; i++) {
        const double gbs = pass_speed(clock, team, &p);
        if (p.total != expected * p.rounds) *right = false;
        if (gbs > best) best = gbs;
    }
    return best;
}

static void copy_speed(const struct bench_clock *clock, struct bench_team *team, char *data,
                       size_t bytes, struct machine_info *info)
{
    struct pass p = { NULL, data, bytes, 1, 0 };
    for (int i = 0; i < PASSES; i++) {
        const double gbs = pass_speed(clock, team, &p);
        if (gbs > info->copy_gbs) info->copy_gbs = gbs;
    }
}

static bool read_curve(const struct bench_clock *clock, struct bench_team *team,
                       bandwidth_sum_fn sum, char *data, size_t max_bytes,
                       struct machine_info *info)
{
    bool right = true;
    info->n_curve = 0;
    for (int64_t bytes = info->llc_bytes / 4; info->n_curve < 6 && bytes <= info->llc_bytes * 8;
         bytes *= 2) {
        const size_t size = (size_t)bytes / ALIGN * ALIGN;
        if (size == 0 || size > max_bytes) break;
        const uint64_t expected = fill_words(data, size);
        info->curve[info->n_curve].bytes = (int64_t)size;
        info->curve[info->n_curve++].read_gbs =
            read_speed(clock, team, sum, data, size, 3, expected, &right);
    }
    return right;
}

bool bandwidth_probe(const struct bench_clock *clock, const struct bandwidth_opts *opts,
                     struct machine_info *info, struct bench_error *err)
{
    struct bandwidth_loops loops;
    struct bench_region region;
    size_t bytes = opts->buffer_bytes < opts->max_bytes ? opts->buffer_bytes : opts->max_bytes;
    size_t curve_bytes = (size_t)info->llc_bytes * 8;
    if (curve_bytes > opts->max_bytes) curve_bytes = opts->max_bytes;
    if (!opts->curve) curve_bytes = 0;
    bytes = bytes / ALIGN * ALIGN;
    if (bytes < ALIGN) return bench_fail(err, BENCH_USAGE, "--max-memory is too small to measure");
    const pkv_isa isa = bandwidth_kernels(opts->ceiling, &loops);
    if (!bench_region_map(&region, bytes > curve_bytes ? bytes : curve_bytes, opts->huge_pages,
                          err))
        return false;

    bool right = true;
    int best_way = 0;
    const uint64_t expected = fill_words(region.base, bytes);
    info->read_gbs = info->copy_gbs = 0;
    info->read_bytes = (int64_t)bytes;
    info->read_in_cache = info->read_bytes < 4 * info->llc_bytes;
    for (int way = 0; way < BANDWIDTH_N_WAYS; way++) {
        const double gbs = read_speed(clock, opts->team, loops.sum[way], region.base, bytes, PASSES,
                                      expected, &right);
        if (gbs <= info->read_gbs) continue;
        info->read_gbs = gbs;
        best_way = way;
    }
    info->read_way = best_way;
    snprintf(info->read_kernel, sizeof(info->read_kernel), "sum, %s, %s", pkv_isa_name(isa),
             bandwidth_way_name(best_way));
    if (opts->curve &&
        !read_curve(clock, opts->team, loops.sum[best_way], region.base, curve_bytes, info))
        right = false;
    copy_speed(clock, opts->team, region.base, bytes, info);
    bench_region_unmap(&region);
    return right || bench_fail(err, BENCH_WRONG, "the bandwidth probe summed wrongly");
}
