/* cuda_device.h over the CUDA runtime, with a runtime of this file in place of NVIDIA's: what is
 * asked of it, and that no error of it is left for the next call. */
#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct {
    cudaError_t answer;       /* of whatever is asked, unless it is for batches only */
    cudaError_t batch_answer; /* of cudaMemcpyBatchAsync */
    enum cudaStreamCaptureStatus capture;
    int fails_at; /* the number of the call of cudaMemcpyAsync that answers `answer`; 0: none */
    cudaError_t last;
    int n_copies, n_batches;
    int n_set; /* calls of cudaSetDevice */
    bool no_threads;
} rt;
static _Thread_local int current; /* device */

static cudaError_t answer(cudaError_t error)
{
    if (error != cudaSuccess) rt.last = error;
    return error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t last = rt.last;
    rt.last = cudaSuccess;
    return last;
}
const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInsufficientDriver ? "the driver is missing" : NULL;
}
cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return answer(rt.answer);
}
cudaError_t cudaSetDevice(int device)
{
    rt.n_set++;
    if (device > 1) return answer(cudaErrorInvalidDevice);
    current = device;
    return answer(rt.answer);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
    if (device > 1) return answer(cudaErrorInvalidDevice);
    *value = what == cudaDevAttrComputeCapabilityMajor   ? 8 + device
             : what == cudaDevAttrComputeCapabilityMinor ? 6
             : what == cudaDevAttrMultiProcessorCount    ? 132
                                                         : 1000 + (int)what;
    return answer(rt.answer);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof(*properties));
    memset(properties->name, 'x', sizeof(properties->name));
    properties->name[0] = (char)('0' + device);
    return answer(rt.answer);
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)stream;
    assert_int_equal(kind, cudaMemcpyDefault);
    if (++rt.n_copies == rt.fails_at) return answer(rt.answer);
    memcpy(dst, src, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                 size_t count, struct cudaMemcpyAttributes *attrs,
                                 size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream)
{
    assert_non_null(stream);
    assert_int_equal(numAttrs, 1);
    assert_int_equal(attrsIdxs[0], 0);
    assert_int_equal(attrs[0].srcAccessOrder, cudaMemcpySrcAccessOrderStream);
    rt.n_batches++;
    if (rt.batch_answer != cudaSuccess) return answer(rt.batch_answer);
    for (size_t i = 0; i < count; i++) memcpy(dsts[i], srcs[i], sizes[i]);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    assert_non_null(stream);
    *status = rt.capture;
    return answer(rt.answer);
}
cudaError_t cudaMemsetAsync(void *p, int byte, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    if (rt.answer == cudaSuccess) memset(p, byte, bytes);
    return answer(rt.answer);
}

static int begin(void **state)
{
    (void)state;
    memset(&rt, 0, sizeof(rt));
    current = 0;
    return 0;
}

static void properties_are_those_of_the_device(void **state)
{
    (void)state;
    struct pkv__device_caps caps;
    assert_int_equal(pkv__device_open(1, &caps), 0);
    assert_int_equal(caps.ordinal, 1);
    assert_int_equal(caps.sm, 96);
    assert_int_equal(caps.n_sms, 132);
    assert_int_equal(caps.shared_per_block, 1000 + cudaDevAttrMaxSharedMemoryPerBlockOptin);
    assert_int_equal(caps.shared_per_sm, 1000 + cudaDevAttrMaxSharedMemoryPerMultiprocessor);
    assert_int_equal(strlen(caps.name), sizeof(caps.name) - 1);
    assert_int_equal(caps.name[0], '1');
    assert_int_equal(pkv__device_open(-1, &caps), 0);
    assert_int_equal(caps.ordinal, 0);
}

static void without_a_driver(void **state)
{
    (void)state;
    struct pkv__device_caps caps;
    rt.answer = cudaErrorInsufficientDriver;
    for (int ordinal = -1; ordinal < 1; ordinal++) {
        assert_int_equal(pkv__device_open(ordinal, &caps), cudaErrorInsufficientDriver);
        assert_int_equal(rt.last, cudaSuccess);
    }
    assert_string_equal(pkv__device_error_text(cudaErrorInsufficientDriver),
                        "the driver is missing");
    assert_non_null(pkv__device_error_text(12345));
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg)
{
    return rt.no_threads ? EAGAIN : __real_pthread_create(thread, how, run, arg);
}

struct seen {
    int n, device;
    bool here, interrupts;
    pthread_t caller;
};

static int look(void *ctx)
{
    struct seen *s = ctx;
    sigset_t blocked;
    s->n++;
    s->device = current;
    s->here = pthread_equal(pthread_self(), s->caller);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    s->interrupts = !sigismember(&blocked, SIGINT);
    return 41 + current;
}

/* .. and is never set in the caller's thread, where that would make a context. */
static void the_current_device_stays(void **state)
{
    (void)state;
    struct seen seen = { .caller = pthread_self() };
    assert_int_equal(pkv__device_run(0, look, &seen), 41);
    assert_true(seen.here && seen.n == 1 && seen.device == 0 && rt.n_set == 0);
    assert_int_equal(pkv__device_run(1, look, &seen), 42);
    assert_true(!seen.here && seen.n == 2 && seen.device == 1 && rt.n_set == 1);
    assert_false(seen.interrupts);
    assert_int_equal(current, 0);
    assert_int_equal(pkv__device_run(0, look, &seen), 41);
    assert_true(seen.here && seen.interrupts);
}

static void where_no_work_is_done(void **state)
{
    (void)state;
    struct seen seen = { .n = 0 };
    assert_int_equal(pkv__device_run(7, look, &seen), cudaErrorInvalidDevice);
    assert_int_equal(rt.last, cudaSuccess);
    rt.no_threads = true;
    assert_int_equal(pkv__device_run(1, look, &seen), cudaErrorOperatingSystem);
    rt.answer = cudaErrorInsufficientDriver;
    assert_int_equal(pkv__device_run(0, look, &seen), cudaErrorInsufficientDriver);
    assert_int_equal(rt.last, cudaSuccess);
    assert_int_equal(seen.n, 0);
}

static void what_no_second_try_changes(void **state)
{
    (void)state;
    assert_true(pkv__device_unsupported(cudaErrorInsufficientDriver));
    assert_true(pkv__device_unsupported(cudaErrorNoDevice));
    assert_true(pkv__device_unsupported(cudaErrorInvalidDevice));
    assert_true(pkv__device_unsupported(cudaErrorNoKernelImageForDevice));
    assert_true(pkv__device_unsupported(cudaErrorInvalidDeviceFunction));
    assert_true(pkv__device_unsupported(cudaErrorUnsupportedPtxVersion));
    assert_false(pkv__device_unsupported(cudaSuccess));
    assert_false(pkv__device_unsupported(cudaErrorMemoryAllocation));
    assert_false(pkv__device_unsupported(cudaErrorDevicesUnavailable));
    assert_false(pkv__device_unsupported(cudaErrorInitializationError));
    assert_false(pkv__device_unsupported(cudaErrorOperatingSystem));
    assert_false(pkv__device_unsupported(cudaErrorECCUncorrectable));
}

enum { N = 3 };
static char from[N][4], to[N][4];

static int copy_three(void *stream)
{
    void *dst[N] = { to[0], to[1], to[2] };
    const void *src[N] = { from[0], from[1], from[2] };
    const size_t bytes[N] = { 4, 4, 4 };
    memset(from, 7, sizeof(from));
    memset(to, 0, sizeof(to));
    rt.n_copies = rt.n_batches = 0;
    return pkv__device_copy_batch(dst, src, bytes, N, stream);
}

static void expect_copied(int n_batches, int n_copies)
{
    assert_memory_equal(to, from, sizeof(to));
    assert_int_equal(rt.n_batches, n_batches);
    assert_int_equal(rt.n_copies, n_copies);
    assert_int_equal(rt.last, cudaSuccess);
}

static void batches_where_the_runtime_takes_them(void **state)
{
    (void)state;
    int stream = 0;
    assert_int_equal(copy_three(&stream), 0);
    expect_copied(1, 0);
    assert_int_equal(copy_three(NULL), 0);
    expect_copied(0, N);
    assert_int_equal(copy_three(cudaStreamLegacy), 0);
    expect_copied(0, N);
    assert_int_equal(copy_three(cudaStreamPerThread), 0);
    expect_copied(0, N);
    rt.capture = cudaStreamCaptureStatusActive;
    assert_int_equal(copy_three(&stream), 0);
    expect_copied(0, N);
}

static void a_refused_batch_is_copied_one_by_one(void **state)
{
    (void)state;
    int stream = 0;
    rt.batch_answer = cudaErrorCallRequiresNewerDriver;
    assert_int_equal(copy_three(&stream), 0);
    expect_copied(1, N);
}

static void the_first_failed_copy_ends_it(void **state)
{
    (void)state;
    rt.answer = cudaErrorInvalidValue;
    rt.fails_at = 2;
    assert_int_equal(copy_three(NULL), cudaErrorInvalidValue);
    assert_int_equal(rt.n_copies, 2);
    assert_int_equal(rt.last, cudaSuccess);
    assert_int_equal(pkv__device_fill(to, 1, 1, NULL), cudaErrorInvalidValue);
    assert_int_equal(rt.last, cudaSuccess);
}

static void fills_and_copies(void **state)
{
    (void)state;
    assert_int_equal(pkv__device_fill(to[0], 9, 3, NULL), 0);
    assert_int_equal(pkv__device_copy(to[1], to[0], 3, NULL), 0);
    assert_memory_equal(to[1], "\x09\x09\x09", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(properties_are_those_of_the_device, begin),
        cmocka_unit_test_setup(without_a_driver, begin),
        cmocka_unit_test_setup(the_current_device_stays, begin),
        cmocka_unit_test_setup(where_no_work_is_done, begin),
        cmocka_unit_test_setup(what_no_second_try_changes, begin),
        cmocka_unit_test_setup(batches_where_the_runtime_takes_them, begin),
        cmocka_unit_test_setup(a_refused_batch_is_copied_one_by_one, begin),
        cmocka_unit_test_setup(the_first_failed_copy_ends_it, begin),
        cmocka_unit_test_setup(fills_and_copies, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
