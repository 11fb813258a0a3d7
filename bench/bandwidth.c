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

pkv_isa bandwidth_kernels(pkv_isa ceiling, bandwidth_sum_fn ways[BANDWIDTH_N_WAYS])
{
    pkv_isa isa = pkv_isa_detect();
    if (ceiling != PKV_ISA_BEST && ceiling < isa) isa = ceiling;
    bandwidth_kernels_scalar(ways);
#if BENCH_HAVE_AVX512
    if (isa >= PKV_ISA_AVX512) {
        bandwidth_kernels_avx512(ways);
        return PKV_ISA_AVX512;
    }
#endif
#if BENCH_HAVE_AVX2
    if (isa >= PKV_ISA_AVX2) {
        bandwidth_kernels_avx2(ways);
        return PKV_ISA_AVX2;
    }
#endif
    return PKV_ISA_SCALAR;
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

/* Best GB/s of `passes` reads. Small buffers are read several times per pass, so that a pass lasts
 * long enough for the clock. */
static double read_speed(const struct bench_clock *clock, bandwidth_sum_fn sum, const void *data,
                         size_t bytes, int passes, uint64_t expected, bool *right)
{
    const size_t rounds = bytes < ((size_t)8 << 20) ? ((size_t)8 << 20) / bytes : 1;
    double best = 0;
    for (int pass = 0; pass < passes; pass++) {
        uint64_t total = 0;
        const uint64_t start = clock->now_ns(clock->ctx);
        for (size_t i = 0; i < rounds; i++) total += sum(data, bytes);
        const uint64_t ns = clock->now_ns(clock->ctx) - start;
        const double gbs = (double)bytes * (double)rounds / (double)(ns ? ns : 1);
        if (total != expected * rounds) *right = false;
        if (gbs > best) best = gbs;
    }
    return best;
}

static void copy_speed(const struct bench_clock *clock, char *data, size_t bytes,
                       struct machine_info *info)
{
    const size_t half = bytes / 2;
    for (int pass = 0; pass < PASSES; pass++) {
        const uint64_t start = clock->now_ns(clock->ctx);
        memcpy(data + half, data, half);
        const uint64_t ns = clock->now_ns(clock->ctx) - start;
        const double gbs = (double)half / (double)(ns ? ns : 1);
        if (gbs > info->copy_gbs) info->copy_gbs = gbs;
    }
}

static bool read_curve(const struct bench_clock *clock, bandwidth_sum_fn sum, void *data,
                       size_t max_bytes, struct machine_info *info)
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
            read_speed(clock, sum, data, size, 3, expected, &right);
    }
    return right;
}

bool bandwidth_probe(const struct bench_clock *clock, const struct bandwidth_opts *opts,
                     struct machine_info *info, struct bench_error *err)
{
    bandwidth_sum_fn ways[BANDWIDTH_N_WAYS];
    struct bench_region region;
    size_t bytes = opts->buffer_bytes < opts->max_bytes ? opts->buffer_bytes : opts->max_bytes;
    size_t curve_bytes = (size_t)info->llc_bytes * 8;
    if (curve_bytes > opts->max_bytes) curve_bytes = opts->max_bytes;
    if (!opts->curve) curve_bytes = 0;
    bytes = bytes / ALIGN * ALIGN;
    if (bytes < ALIGN) return bench_fail(err, BENCH_USAGE, "--max-memory is too small to measure");
    const pkv_isa isa = bandwidth_kernels(opts->ceiling, ways);
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
        const double gbs =
            read_speed(clock, ways[way], region.base, bytes, PASSES, expected, &right);
        if (gbs <= info->read_gbs) continue;
        info->read_gbs = gbs;
        best_way = way;
    }
    snprintf(info->read_kernel, sizeof(info->read_kernel), "sum, %s, %s", pkv_isa_name(isa),
             bandwidth_way_name(best_way));
    if (opts->curve && !read_curve(clock, ways[best_way], region.base, curve_bytes, info))
        right = false;
    copy_speed(clock, region.base, bytes, info);
    bench_region_unmap(&region);
    return right || bench_fail(err, BENCH_WRONG, "the bandwidth probe summed wrongly");
}
