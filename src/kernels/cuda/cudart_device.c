/* The device of the CUDA backend (cuda_device.h) over the CUDA runtime, its C interface. */
#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

/* The runtime hands an error out again at the next cudaGetLastError, whoever asks: what is reported
 * here is taken back there. Errors that ended the context stay, whatever one does. */
static int code_of(cudaError_t error)
{
    if (error != cudaSuccess) (void)cudaGetLastError();
    return (int)error;
}

static cudaError_t ask(struct pkv__device_caps *caps, enum cudaDeviceAttr what, int32_t *value)
{
    int n = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&n, what, caps->ordinal);
    *value = n;
    return error;
}

static cudaError_t ask_all(struct pkv__device_caps *caps)
{
    int32_t major = 0, minor = 0;
    cudaError_t error = ask(caps, cudaDevAttrComputeCapabilityMajor, &major);
    if (error == cudaSuccess) error = ask(caps, cudaDevAttrComputeCapabilityMinor, &minor);
    if (error == cudaSuccess) error = ask(caps, cudaDevAttrMultiProcessorCount, &caps->n_sms);
    if (error == cudaSuccess)
        error = ask(caps, cudaDevAttrMaxSharedMemoryPerBlockOptin, &caps->shared_per_block);
    if (error == cudaSuccess)
        error = ask(caps, cudaDevAttrMaxSharedMemoryPerMultiprocessor, &caps->shared_per_sm);
    caps->sm = major * 10 + minor;
    return error;
}

int pkv__device_open(int32_t ordinal, struct pkv__device_caps *caps)
{
    struct cudaDeviceProp properties;
    int current = ordinal;
    cudaError_t error = ordinal < 0 ? cudaGetDevice(&current) : cudaSuccess;
    *caps = (struct pkv__device_caps){ .ordinal = current };
    if (error == cudaSuccess) error = ask_all(caps);
    if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, current);
    if (error == cudaSuccess)
        snprintf(caps->name, sizeof(caps->name), "%.*s", (int)sizeof(caps->name) - 1,
                 properties.name);
    return code_of(error);
}

struct guest {
    int32_t ordinal;
    int (*work)(void *ctx);
    void *ctx;
    int code;
};

static void *run_as_guest(void *arg)
{
    struct guest *g = arg;
    g->code = code_of(cudaSetDevice(g->ordinal));
    if (g->code == 0) g->code = g->work(g->ctx);
    return NULL;
}

/* Signals are for the program's threads. */
static int run_on_a_thread(struct guest *g)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return cudaErrorOperatingSystem;
    const int failed = pthread_create(&thread, NULL, run_as_guest, g);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return cudaErrorOperatingSystem;
    pthread_join(thread, NULL);
    return g->code;
}

/* Not cudaSetDevice there and back: back, it would make a context on a device that the caller may
 * never have used (since CUDA 12), and put it in place of one that the driver's interface made. */
int pkv__device_run(int32_t ordinal, int (*work)(void *ctx), void *ctx)
{
    struct guest guest = { ordinal, work, ctx, 0 };
    int current = 0;
    const int code = code_of(cudaGetDevice(&current));
    if (code != 0) return code;
    return current == ordinal ? work(ctx) : run_on_a_thread(&guest);
}

const char *pkv__device_error_text(int code)
{
    const char *text = cudaGetErrorString((cudaError_t)code);
    return text ? text : "unknown error";
}

bool pkv__device_unsupported(int code)
{
    static const cudaError_t final[] = {
        cudaErrorStubLibrary,
        cudaErrorInsufficientDriver,
        cudaErrorCallRequiresNewerDriver,
        cudaErrorInvalidDeviceFunction,
        cudaErrorNoDevice,
        cudaErrorInvalidDevice,
        cudaErrorInvalidKernelImage,
        cudaErrorNoKernelImageForDevice,
        cudaErrorJitCompilerNotFound,
        cudaErrorUnsupportedPtxVersion,
        cudaErrorSystemDriverMismatch,
        cudaErrorCompatNotSupportedOnDevice,
    };
    for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++)
        if (code == (int) final[i]) return true;
    return false;
}

int pkv__device_copy(void *dst, const void *src, size_t bytes, void *stream)
{
    return code_of(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
}

static int copy_each(void *const *dst, const void *const *src, const size_t *bytes, size_t n,
                     void *stream)
{
    int code = 0;
    for (size_t i = 0; i < n && code == 0; i++)
        code = pkv__device_copy(dst[i], src[i], bytes[i], stream);
    return code;
}

/* Since CUDA 13 (12.8 has it with another signature). */
#if CUDART_VERSION >= 13000
static cudaError_t copy_together(void *const *dst, const void *const *src, const size_t *bytes,
                                 size_t n, cudaStream_t stream)
{
    /* one attribute for all copies, from the first on: sources are read when the stream gets there
     */
    struct cudaMemcpyAttributes how = { .srcAccessOrder = cudaMemcpySrcAccessOrderStream };
    size_t first = 0;
    return cudaMemcpyBatchAsync(dst, src, bytes, n, &how, &first, 1, stream);
}
#else
static cudaError_t copy_together(void *const *dst, const void *const *src, const size_t *bytes,
                                 size_t n, cudaStream_t stream)
{
    (void)dst, (void)src, (void)bytes, (void)n, (void)stream;
    return cudaErrorNotSupported;
}
#endif

/* The runtime refuses batches on the default streams and in a capture. */
static int takes_batches(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return 0;
    return code_of(cudaStreamIsCapturing(stream, &capture)) == 0 &&
           capture == cudaStreamCaptureStatusNone;
}

/* A driver that is older than the runtime refuses batches too. What a refused batch may have copied
 * is copied once more, to the same end. */
int pkv__device_copy_batch(void *const *dst, const void *const *src, const size_t *bytes, size_t n,
                           void *stream)
{
    if (n > 1 && takes_batches(stream) && code_of(copy_together(dst, src, bytes, n, stream)) == 0)
        return 0;
    return copy_each(dst, src, bytes, n, stream);
}

int pkv__device_fill(void *dst, int byte, size_t bytes, void *stream)
{
    return code_of(cudaMemsetAsync(dst, byte, bytes, stream));
}
