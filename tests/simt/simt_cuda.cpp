/* The device of the CUDA backend (kernels/cuda/cuda_device.h), emulated: an SM 9.0 with few
 * multiprocessors, so that few blocks of threads make a grid. Copies and fills happen at once. From
 * the first device opened on, kernels have to be prepared. */
#include "simt_cuda.h"
#include "kernels/cuda/cuda_device.h"
#include "simt_device.h"
#include "simt_state.h"

#include "pkv_dev_numbers.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{
int32_t n_sms = 2;

/* A copy, or without a source a fill. */
struct copy_args {
    void *dst;
    const void *src;
    int byte;
    size_t bytes;
};

int copy(const void *data)
{
    copy_args a;
    memcpy(&a, data, sizeof a);
    if (a.src) memcpy(a.dst, a.src, a.bytes);
    else memset(a.dst, a.byte, a.bytes);
    return 0;
}
} // namespace

extern "C" {

int device_e4m3_nan(void)
{
    if (strcmp(device_build(), "ptx") != 0) return PKV_E4M3_CVT;
    const char *ptx = getenv("PKV_PTX");
    return !ptx || !strstr(ptx, "_sm_80.ptx");
}

void device_set_sms(int32_t n)
{
    n_sms = n;
}

void device_register(void *data, size_t bytes)
{
    if (simt::watcher.global_add) simt::watcher.global_add(data, bytes);
}

void device_unregister(void *data)
{
    if (simt::watcher.global_remove) simt::watcher.global_remove(data);
}

void device_abandon(void)
{
    if (!simt::on_device()) return;
    simt::m.running = nullptr;
    simt::m.failed = true;
    simt::fibers_forget(simt::m.threads);
    if (simt::watcher.block_end) simt::watcher.block_end();
    simt::shared_end();
}

int pkv__device_open(int32_t ordinal, struct pkv__device_caps *caps)
{
    if (ordinal > 0) return 101; /* cudaErrorInvalidDevice */
    simt::m.only_prepared = true;
    *caps = {};
    caps->sm = 90;
    caps->n_sms = n_sms;
    caps->shared_per_block = 227 * 1024;
    caps->shared_per_sm = 228 * 1024;
    snprintf(caps->name, sizeof caps->name, "emulated device (%s)", device_build());
    return 0;
}

int pkv__device_run(int32_t ordinal, int (*work)(void *ctx), void *ctx)
{
    return ordinal == 0 ? work(ctx) : 101;
}

bool pkv__device_unsupported(int code)
{
    return code == 101 || code == DEVICE_NO_CODE;
}

const char *pkv__device_error_text(int code)
{
    return code == 101 ? "invalid device ordinal" : device_last_error();
}

int pkv__device_copy(void *dst, const void *src, size_t bytes, void *)
{
    const copy_args args = { dst, src, 0, bytes };
    return simt::captured(copy, &args, sizeof args) ? 0 : copy(&args);
}

int pkv__device_copy_batch(void *const *dst, const void *const *src, const size_t *bytes, size_t n,
                           void *stream)
{
    for (size_t i = 0; i < n; i++) pkv__device_copy(dst[i], src[i], bytes[i], stream);
    return 0;
}

int pkv__device_fill(void *dst, int byte, size_t bytes, void *)
{
    const copy_args args = { dst, nullptr, byte, bytes };
    return simt::captured(copy, &args, sizeof args) ? 0 : copy(&args);
}

} /* extern "C" */
