/* The device as check_gpu uses it, beside the library: memory, one stream, graphs, a clock, and
 * what the library is measured against. Two of them: check_gpu_cudart.c, and check_gpu_emulated.c,
 * where calls run at once and no time passes.
 *
 * What fails here fails for good: gpu_wait says so from then on. Only memory may be short. */
#ifndef PKV_CHECK_GPU_DEVICE_H
#define PKV_CHECK_GPU_DEVICE_H

#include "pagedkv/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_about {
    char device[128], driver[32], runtime[32], nvcc[32];
    int32_t sm, n_sms; /* 90: compute capability 9.0 */
    size_t memory_bytes, free_bytes, l2_bytes;
    bool is_emulated;
    bool is_absent;             /* if there is no device: that is all that is wrong */
    bool reads_all_host_memory; /* pages of the process need not be registered */
};

/* The current device. False: why there is none. */
bool gpu_open(struct gpu_about *about, char *why, size_t why_bytes);

void *gpu_alloc(size_t bytes); /* NULL if there is not so much */
void gpu_free(void *p);
void *gpu_alloc_host(size_t bytes); /* page-locked */
void gpu_free_host(void *p);
void gpu_upload(void *dst, const void *src, size_t bytes);
void gpu_download(void *dst, const void *src, size_t bytes);
void gpu_fill(void *dst, int byte, size_t bytes);
/* From device to device, on the stream. */
void gpu_copy(void *dst, const void *src, size_t bytes);
/* From now on kernels may touch what device_register (simt/simt_cuda.h) names, memory of the
 * process, and every operation of the library is waited for: what the cases of check_kernels
 * expect. */
void gpu_lend_memory(void);
/* Pages of the process for kernels to read and write, before and after. */
bool gpu_register_pages(void *page, size_t bytes);
void gpu_unregister_pages(void *page);

void *gpu_stream(void);
/* Until everything is done. False: what went wrong, now or before. */
bool gpu_wait(char *why, size_t why_bytes);

/* What fn(ctx) puts on the stream, to be put there again and again. NULL: fn or the device refused,
 * *status is fn's. */
struct gpu_graph;
struct gpu_graph *gpu_record(pkv_status (*fn)(void *ctx), void *ctx, pkv_status *status);
void gpu_replay(struct gpu_graph *graph);
void gpu_graph_free(struct gpu_graph *graph);

/* Microseconds of the device between the two. */
void gpu_clock_start(void);
double gpu_clock_stop(void);

/* Read `bytes` and keep nothing of it, on the stream. */
void gpu_read_stream(const void *data, size_t bytes, uint32_t *sink);
/* Microseconds of a product of two n x n matrices of bf16 by cuBLAS, as often as there is room; 0:
 * cuBLAS is not here. */
int gpu_gemm(int32_t n, double *us, int n_runs);
/* Clock of the SMs and power draw, by NVML; false: it is not here. */
bool gpu_sensors(int *mhz, int *watts);

#endif
