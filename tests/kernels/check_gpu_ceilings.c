/* check_gpu, stage ceilings: what this GPU can do in these minutes. */
#include "check_gpu.h"

#include <stdio.h>
#include <stdlib.h>

struct piece {
    struct gpu *g;
    size_t bytes;
    uint32_t *sink;
};

static pkv_status copy_half(void *ctx)
{
    const struct piece *p = ctx;
    gpu_copy(p->g->pool + p->bytes, p->g->pool, p->bytes);
    return PKV_OK;
}

static pkv_status read_all(void *ctx)
{
    const struct piece *p = ctx;
    gpu_read_stream(p->g->pool, p->bytes, p->sink);
    return PKV_OK;
}

static void sensors(struct gpu *g, const char *when)
{
    int mhz = 0, watts = 0;
    struct gpu_result *r = gpu_add(g, GPU_OK, "clock and power %s", when);
    if (gpu_sensors(&mhz, &watts)) gpu_note(r, "%d MHz, %d W", mhz, watts);
    else {
        r->verdict = GPU_SKIPPED;
        gpu_note(r, "no NVML");
    }
}

static void gemm(struct gpu *g)
{
    enum { N = 8192, RUNS = 20 };
    double us[RUNS], least = 0;
    struct gpu_result *r = gpu_add(g, GPU_MEASURED, "product of cuBLAS, bf16, %d cubed", N);
    r->n_runs = gpu_gemm(N, us, RUNS);
    if (r->n_runs == 0) {
        r->verdict = GPU_SKIPPED;
        gpu_note(r, "no cuBLAS");
        return;
    }
    for (int i = 0; i < r->n_runs; i++)
        if (i == 0 || us[i] < least) least = us[i];
    double sum = 0;
    for (int i = 0; i < r->n_runs; i++) sum += us[i];
    r->min_us = least;
    r->median_us = sum / r->n_runs;
    gpu_note(r, "mean in place of the median");
    g->gemm_tflops = r->rate = 2.0 * N * N * N / r->median_us * 1e-6;
    r->unit = "TFLOP/s";
}

void gpu_ceilings(struct gpu *g)
{
    const size_t most = (size_t)4 << 30, half = g->pool_bytes / 2 / 4096 * 4096;
    struct piece p = { g, half < most ? half : most, gpu_alloc(256) };
    sensors(g, "before");
    struct gpu_result *r = gpu_add(g, GPU_MEASURED, "copy, read and written bytes");
    if (gpu_measure(g, r, copy_half, &p, 1, 2 * (double)p.bytes, "GB/s")) g->copy_gbs = r->rate;
    r = gpu_add(g, GPU_MEASURED, "reads alone");
    if (gpu_measure(g, r, read_all, &p, 1, (double)p.bytes, "GB/s")) g->read_gbs = r->rate;
    gemm(g);
    sensors(g, "after");
    gpu_free(p.sink);
}
