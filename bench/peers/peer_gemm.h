/* The matrix product that prefill is compared with (C6): bf16, [4096 x 512] x [512 x 4096], of
 * oneDNN where the build found it (-Dpeers=enabled). */
#ifndef PKV_PEER_GEMM_H
#define PKV_PEER_GEMM_H

#include "../bench_base.h"

#define PEER_GEMM_M 4096
#define PEER_GEMM_N 4096
#define PEER_GEMM_K 512
#define PEER_GEMM_FLOPS (2.0 * PEER_GEMM_M * PEER_GEMM_N * PEER_GEMM_K)

struct peer_gemm;

/* BENCH_SKIP where there is no oneDNN, or where it has no bf16 product for this CPU. */
bool peer_gemm_create(int32_t n_threads, struct peer_gemm **out, struct bench_error *err);
void peer_gemm_destroy(struct peer_gemm *gemm); /* NULL is fine */
void peer_gemm_run(struct peer_gemm *gemm);

#endif
