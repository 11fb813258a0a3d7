/* The device of check_gpu over the CUDA runtime. */
#include "check_gpu_device.h"
#include "check_gpu_read.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu_graph {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
};

static cudaStream_t stream;
static cudaEvent_t started, stopped;
static cudaError_t first_error;

static bool good(cudaError_t error)
{
    if (error == cudaSuccess) return true;
    (void)cudaGetLastError();
    if (first_error == cudaSuccess) first_error = error;
    return false;
}

static int ask(enum cudaDeviceAttr what, int device)
{
    int value = 0;
    (void)good(cudaDeviceGetAttribute(&value, what, device));
    return value;
}

static void version_text(char *text, size_t bytes, int version)
{
    snprintf(text, bytes, "%d.%d", version / 1000, version % 1000 / 10);
}

bool gpu_open(struct gpu_about *about, char *why, size_t why_bytes)
{
    struct cudaDeviceProp properties;
    int device = 0, driver = 0, runtime = 0;
    *about = (struct gpu_about){ 0 };
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, device);
    if (error == cudaSuccess) error = cudaMemGetInfo(&about->free_bytes, &about->memory_bytes);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaEventCreate(&started);
    if (error == cudaSuccess) error = cudaEventCreate(&stopped);
    if (error != cudaSuccess) {
        snprintf(why, why_bytes, "%s", cudaGetErrorString(error));
        about->is_absent = error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
                           error == cudaErrorStubLibrary;
        return false;
    }
    snprintf(about->device, sizeof(about->device), "%.*s", (int)sizeof(about->device) - 1,
             properties.name);
    (void)good(cudaDriverGetVersion(&driver));
    (void)good(cudaRuntimeGetVersion(&runtime));
    version_text(about->driver, sizeof(about->driver), driver);
    version_text(about->runtime, sizeof(about->runtime), runtime);
    snprintf(about->nvcc, sizeof(about->nvcc), "%s", check_gpu_nvcc());
    about->sm = properties.major * 10 + properties.minor;
    about->n_sms = properties.multiProcessorCount;
    about->l2_bytes = (size_t)ask(cudaDevAttrL2CacheSize, device);
    about->reads_all_host_memory = ask(cudaDevAttrPageableMemoryAccess, device) != 0;
    return true;
}

void *gpu_alloc(size_t bytes)
{
    void *p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess) return p;
    (void)cudaGetLastError();
    return NULL;
}
void gpu_free(void *p)
{
    (void)good(cudaFree(p));
}
void *gpu_alloc_host(size_t bytes)
{
    void *p = NULL;
    if (cudaMallocHost(&p, bytes) == cudaSuccess) return p;
    (void)cudaGetLastError();
    return NULL;
}
void gpu_free_host(void *p)
{
    (void)good(cudaFreeHost(p));
}

/* On the stream, and waited for: memory of the caller's is free again. */
void gpu_upload(void *dst, const void *src, size_t bytes)
{
    (void)good(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
    (void)good(cudaStreamSynchronize(stream));
}
void gpu_download(void *dst, const void *src, size_t bytes)
{
    gpu_upload(dst, src, bytes);
}
void gpu_fill(void *dst, int byte, size_t bytes)
{
    (void)good(cudaMemsetAsync(dst, byte, bytes, stream));
}
void gpu_copy(void *dst, const void *src, size_t bytes)
{
    (void)good(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream));
}
bool gpu_register_pages(void *page, size_t bytes)
{
    if (cudaHostRegister(page, bytes, cudaHostRegisterDefault) == cudaSuccess) return true;
    (void)cudaGetLastError();
    return false;
}
void gpu_unregister_pages(void *page)
{
    (void)good(cudaHostUnregister(page));
}

void *gpu_stream(void)
{
    return stream;
}
bool gpu_wait(char *why, size_t why_bytes)
{
    (void)good(cudaDeviceSynchronize());
    snprintf(why, why_bytes, "%s", cudaGetErrorString(first_error));
    return first_error == cudaSuccess;
}

struct gpu_graph *gpu_record(pkv_status (*fn)(void *ctx), void *ctx, pkv_status *status)
{
    struct gpu_graph *graph = calloc(1, sizeof(*graph));
    bool whole = graph && good(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    if (!whole) {
        free(graph);
        return NULL;
    }
    *status = fn(ctx);
    whole = good(cudaStreamEndCapture(stream, &graph->graph)) && *status == PKV_OK;
    if (whole) whole = good(cudaGraphInstantiate(&graph->exec, graph->graph, 0));
    if (whole) return graph;
    gpu_graph_free(graph);
    return NULL;
}
void gpu_replay(struct gpu_graph *graph)
{
    (void)good(cudaGraphLaunch(graph->exec, stream));
}
void gpu_graph_free(struct gpu_graph *graph)
{
    if (!graph) return;
    if (graph->exec) (void)good(cudaGraphExecDestroy(graph->exec));
    if (graph->graph) (void)good(cudaGraphDestroy(graph->graph));
    free(graph);
}

void gpu_clock_start(void)
{
    (void)good(cudaEventRecord(started, stream));
}
double gpu_clock_stop(void)
{
    float ms = 0;
    (void)good(cudaEventRecord(stopped, stream));
    (void)good(cudaEventSynchronize(stopped));
    (void)good(cudaEventElapsedTime(&ms, started, stopped));
    return (double)ms * 1e3;
}

void gpu_read_stream(const void *data, size_t bytes, uint32_t *sink)
{
    (void)good((cudaError_t)check_gpu_read_launch(data, (int64_t)bytes, sink, stream));
}
