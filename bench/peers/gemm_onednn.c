/* oneDNN's matmul through its C interface of version 2. */
#include "peer_gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include <omp.h>
#include <stdlib.h>

enum { SRC, WEIGHTS, DST, N_TENSORS };

struct peer_gemm {
    int32_t n_threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t tensors[N_TENSORS];
    void *data[N_TENSORS];
};

/* Small numbers with few bits; their values change no time. */
static void *make_data(int64_t n)
{
    uint16_t *data = aligned_alloc(64, (size_t)n * sizeof(*data));
    for (int64_t i = 0; data && i < n; i++) data[i] = (uint16_t)(0x3f80 + (i * 2654435761u >> 26));
    return data;
}

static bool make_tensors(struct peer_gemm *g, dnnl_memory_desc_t descs[N_TENSORS])
{
    const dnnl_dims_t dims[N_TENSORS] = { { PEER_GEMM_M, PEER_GEMM_K },
                                          { PEER_GEMM_K, PEER_GEMM_N },
                                          { PEER_GEMM_M, PEER_GEMM_N } };
    for (int i = 0; i < N_TENSORS; i++) {
        g->data[i] = make_data(dims[i][0] * dims[i][1]);
        if (!g->data[i] ||
            dnnl_memory_desc_init_by_tag(&descs[i], 2, dims[i], dnnl_bf16, dnnl_ab) !=
                dnnl_success ||
            dnnl_memory_create(&g->tensors[i], &descs[i], g->engine, g->data[i]) != dnnl_success)
            return false;
    }
    return true;
}

static bool make_primitive(struct peer_gemm *g, const dnnl_memory_desc_t descs[N_TENSORS])
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc;
    if (dnnl_matmul_desc_init(&matmul, &descs[SRC], &descs[WEIGHTS], NULL, &descs[DST]) !=
            dnnl_success ||
        dnnl_primitive_desc_create(&desc, &matmul, NULL, g->engine, NULL) != dnnl_success)
        return false;
    const bool ok = dnnl_primitive_create(&g->primitive, desc) == dnnl_success;
    dnnl_primitive_desc_destroy(desc);
    return ok;
}

bool peer_gemm_create(int32_t n_threads, struct peer_gemm **out, struct bench_error *err)
{
    dnnl_memory_desc_t descs[N_TENSORS];
    struct peer_gemm *g = bench_calloc(1, sizeof(*g), err);
    if (!g) return false;
    g->n_threads = n_threads;
    omp_set_num_threads(n_threads);
    if (dnnl_engine_create(&g->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&g->stream, g->engine, dnnl_stream_default_flags) == dnnl_success &&
        make_tensors(g, descs) && make_primitive(g, descs)) {
        *out = g;
        return true;
    }
    peer_gemm_destroy(g);
    return bench_fail(err, BENCH_SKIP, "not measured: oneDNN has no bf16 product here");
}

void peer_gemm_destroy(struct peer_gemm *g)
{
    if (!g) return;
    if (g->primitive) dnnl_primitive_destroy(g->primitive);
    for (int i = 0; i < N_TENSORS; i++) {
        if (g->tensors[i]) dnnl_memory_destroy(g->tensors[i]);
        free(g->data[i]);
    }
    if (g->stream) dnnl_stream_destroy(g->stream);
    if (g->engine) dnnl_engine_destroy(g->engine);
    free(g);
}

void peer_gemm_run(struct peer_gemm *g)
{
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, g->tensors[SRC] },
                                     { DNNL_ARG_WEIGHTS, g->tensors[WEIGHTS] },
                                     { DNNL_ARG_DST, g->tensors[DST] } };
    omp_set_num_threads(g->n_threads);
    dnnl_primitive_execute(g->primitive, g->stream, N_TENSORS, args);
    dnnl_stream_wait(g->stream);
}
