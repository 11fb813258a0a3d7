/* A CUDA runtime for the test of check_gpu: a device that is the process itself, whose clock goes
 * by events, whose graphs do nothing when launched (what they hold has run when they were
 * recorded), and whose register of pages is strict: a copy does not leave a registration. */
#include "kernels/check_gpu_device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    cudaError_t last;
    int n_events, capturing;
    struct {
        uintptr_t lo, hi;
    } runs[4096]; /* registered */
    int n_runs, n_pages;
} rt;

static cudaError_t answer(cudaError_t error)
{
    if (error != cudaSuccess) rt.last = error;
    return error;
}

/* An environment variable that names a function makes it fail; FAKE_ABSENT: there is no device. */
static cudaError_t unless_told(const char *name)
{
    const char *told = getenv("FAKE_FAILS");
    return answer(told && strcmp(told, name) == 0 ? cudaErrorLaunchFailure : cudaSuccess);
}

/* Memory that is registered in part, or in several pieces. */
static bool leaves_a_run(const void *p, size_t bytes)
{
    const uintptr_t lo = (uintptr_t)p, hi = lo + bytes;
    for (int i = 0; i < rt.n_runs; i++)
        if (rt.runs[i].lo < hi && lo < rt.runs[i].hi)
            return lo < rt.runs[i].lo || hi > rt.runs[i].hi;
    return false;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t last = rt.last;
    rt.last = cudaSuccess;
    return last;
}
const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "a planted error";
}
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return getenv("FAKE_ABSENT") ? answer(cudaErrorNoDevice) : unless_told("cudaGetDevice");
}
cudaError_t cudaSetDevice(int device)
{
    return answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    (void)device;
    *value = what == cudaDevAttrComputeCapabilityMajor             ? 9
             : what == cudaDevAttrMultiProcessorCount              ? 2
             : what == cudaDevAttrMaxSharedMemoryPerBlockOptin     ? 227 * 1024
             : what == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? 228 * 1024
             : what == cudaDevAttrL2CacheSize                      ? 1 << 16
             : what == cudaDevAttrPageableMemoryAccess             ? getenv("FAKE_HMM") != NULL
                                                                   : 0;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    memset(properties, 0, sizeof(*properties));
    snprintf(properties->name, sizeof(properties->name), "no \"GPU\" at all");
    properties->major = 9;
    properties->multiProcessorCount = 2;
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = *total = (size_t)240 << 20;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13020;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    const bool full = getenv("FAKE_FULL") && bytes > strtoull(getenv("FAKE_FULL"), NULL, 10);
    *p = full ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    return answer(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void *p)
{
    free(p);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return cudaMalloc(p, bytes);
}
cudaError_t cudaFreeHost(void *p)
{
    return cudaFree(p);
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind, (void)stream;
    if (leaves_a_run(dst, bytes) || leaves_a_run(src, bytes)) return answer(cudaErrorInvalidValue);
    memcpy(dst, src, bytes);
    return unless_told("cudaMemcpyAsync");
}
cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                 size_t count, struct cudaMemcpyAttributes *attrs,
                                 size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream)
{
    (void)attrs, (void)attrsIdxs, (void)numAttrs, (void)stream;
    for (size_t i = 0; i < count; i++) {
        if (leaves_a_run(dsts[i], sizes[i]) || leaves_a_run(srcs[i], sizes[i]))
            return answer(cudaErrorInvalidValue);
        memcpy(dsts[i], srcs[i], sizes[i]);
    }
    return rt.capturing ? answer(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    if (leaves_a_run(p, bytes)) return answer(cudaErrorInvalidValue);
    memset(p, byte, bytes);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)flags;
    const char *most = getenv("FAKE_PAGES");
    const uintptr_t lo = (uintptr_t)p, hi = lo + bytes;
    if (lo % 4096 != 0 || bytes == 0 || bytes % 4096 != 0) return answer(cudaErrorInvalidValue);
    if (rt.n_runs == (int)(sizeof(rt.runs) / sizeof(rt.runs[0])) ||
        (most && rt.n_pages + (int)(bytes / 4096) > atoi(most)))
        return answer(cudaErrorMemoryAllocation);
    for (int i = 0; i < rt.n_runs; i++)
        if (rt.runs[i].lo < hi && lo < rt.runs[i].hi)
            return answer(cudaErrorHostMemoryAlreadyRegistered);
    rt.runs[rt.n_runs].lo = lo;
    rt.runs[rt.n_runs++].hi = hi;
    rt.n_pages += (int)(bytes / 4096);
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *p)
{
    int i = 0;
    while (i < rt.n_runs && rt.runs[i].lo != (uintptr_t)p) i++;
    if (i == rt.n_runs) return answer(cudaErrorHostMemoryNotRegistered);
    rt.n_pages -= (int)((rt.runs[i].hi - rt.runs[i].lo) / 4096);
    rt.runs[i] = rt.runs[--rt.n_runs];
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = (cudaStream_t)(void *)&rt;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return rt.capturing ? answer(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    if (rt.capturing) return answer(cudaErrorStreamCaptureUnsupported);
    return unless_told("cudaDeviceSynchronize");
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    (void)stream;
    *status = rt.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)stream, (void)mode;
    rt.capturing = 1;
    return unless_told("cudaStreamBeginCapture");
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    (void)stream;
    rt.capturing = 0;
    *graph = (cudaGraph_t)(void *)&rt;
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    *exec = (cudaGraphExec_t)(void *)&rt;
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)exec, (void)stream;
    return unless_told("cudaGraphLaunch");
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    (void)exec;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = (cudaEvent_t)(void *)&rt;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    rt.n_events++;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}
/* 1, 2 or 3 ms, in turn. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    (void)start, (void)end;
    *ms = (float)(rt.n_events / 2 % 3 + 1);
    return cudaSuccess;
}

int gpu_gemm(int32_t n, double *us, int n_runs)
{
    for (int i = 0; i < n_runs; i++) us[i] = 2e-6 * n * n * n; /* a TFLOP/s */
    return n_runs;
}
bool gpu_sensors(int *mhz, int *watts)
{
    *mhz = 1980;
    *watts = 700;
    return true;
}
