/* A build without oneDNN. */
#include "peer_gemm.h"

bool peer_gemm_create(int32_t n_threads, struct peer_gemm **out, struct bench_error *err)
{
    (void)n_threads;
    (void)out;
    return bench_fail(err, BENCH_SKIP, "not measured: no oneDNN in this build (-Dpeers=enabled)");
}

void peer_gemm_destroy(struct peer_gemm *gemm)
{
    (void)gemm;
}

void peer_gemm_run(struct peer_gemm *gemm)
{
    (void)gemm;
}
