/* What host code asks of the device: the few calls of the CUDA runtime that the backend makes.
 * Behind them stands cudart_device.c, or the emulator (tests/simt/simt_cuda.cpp). Kernels are
 * launched by launchers (cuda_launch.h).
 *
 * Every function returns 0 or a code of the runtime, which pkv__device_error_text explains, and
 * leaves no error behind that a later call would find. Streams are cudaStream_t; nothing here waits
 * for the device but pkv__device_open. */
#ifndef PKV_CUDA_DEVICE_H
#define PKV_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pkv__device_caps {
    int32_t ordinal;
    int32_t sm; /* compute capability: 80, 90 .. */
    int32_t n_sms;
    int32_t shared_per_block; /* bytes that a block may opt in to */
    int32_t shared_per_sm;
    char name[64];
};

/* Properties of a device (-1: the current one); may load the driver. */
int pkv__device_open(int32_t ordinal, struct pkv__device_caps *caps);
/* Runs work(ctx) where a device is the current one, and returns what it returns. That is the
 * calling thread if the device is its current one, else a thread of its own: whichever device and
 * context the caller had, or had not yet, stay as they were. */
int pkv__device_run(int32_t ordinal, int (*work)(void *ctx), void *ctx);
/* Static text; never NULL. */
const char *pkv__device_error_text(int code);
/* Does the code say what no second try changes: no driver or too old a one, no such device, no
 * code for it? */
bool pkv__device_unsupported(int code);

/* Between device and device, or host memory that is page-locked. */
int pkv__device_copy(void *dst, const void *src, size_t bytes, void *stream);
/* n copies that do not depend on each other; each reads its source in stream order. */
int pkv__device_copy_batch(void *const *dst, const void *const *src, const size_t *bytes, size_t n,
                           void *stream);
int pkv__device_fill(void *dst, int byte, size_t bytes, void *stream);

#ifdef __cplusplus
}
#endif
#endif
