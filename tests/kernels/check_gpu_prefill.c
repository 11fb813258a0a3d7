/* check_gpu, stage prefill: all rows of a sequence at once, causal. */
#include "check_gpu_batch.h"

#include <stdio.h>

static struct gpu_result *one(struct gpu *g, int32_t n, int32_t block, pkv_dtype dtype)
{
    struct gpu_batch b;
    char name[96];
    const struct gpu_shape s = { 1, 32, 8, 128, block, dtype, PKV_BF16, n, &n, 1, false };
    const double flops = 2.0 * n * n * 128 * 32;
    if (g->dry_run && n > 40) return NULL;
    snprintf(name, sizeof(name), "prefill %d, heads 32/8, %s, %s", n, pkv_dtype_name(dtype),
             block ? "blocks of 16" : "in one piece");
    if (gpu_out_of_time(g, name)) return NULL;
    struct gpu_result *r = gpu_add(g, GPU_OK, "%s", name);
    if (gpu_batch_make(g, r, &s, &b) && gpu_measure(g, r, gpu_batch_run, &b, 1, flops, "TFLOP/s")) {
        gpu_batch_finite(&b, r);
        gpu_batch_verify(&b, r, 0, 0, 0);
        gpu_batch_verify(&b, r, 0, n / 2, 17);
        gpu_batch_verify(&b, r, 0, n - 1, 31);
        gpu_judge(g, r, g->gemm_tflops, "", 0);
    }
    gpu_batch_free(&b);
    return r;
}

void gpu_prefill(struct gpu *g)
{
    static const int32_t lengths[] = { 40, 512, 2048, 8192, 32768 };
    static const pkv_dtype types[] = { PKV_BF16, PKV_E4M3 };
    for (int t = 0; t < 2; t++)
        for (int i = g->dry_run ? 0 : 1; i < 5; i++) {
            struct gpu_result *r = one(g, lengths[i], 16, types[t]);
            const double paged = r ? r->rate : 0;
            if (r && lengths[i] == 8192 && types[t] == PKV_BF16 && r->verdict == GPU_MEASURED) {
                snprintf(r->goal, sizeof(r->goal), "G6 >= 330 TFLOP/s");
                r->verdict = paged >= 330 ? GPU_MET : GPU_MISSED;
            }
            if (types[t] != PKV_BF16) continue;
            r = one(g, lengths[i], 0, types[t]);
            if (r && r->rate > 0 && paged > 0)
                gpu_note(r, "paged has %.1f %% of it; G6 wants 98", 100 * paged / r->rate);
        }
}
