/* The emulated device behind the CUDA backend, and what a test may set of it. */
#ifndef SIMT_CUDA_H
#define SIMT_CUDA_H

#include "kernels/cuda/cuda_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiprocessors of devices opened from now on; 2 at first. */
void device_set_sms(int32_t n);

#ifdef __cplusplus
}
#endif
#endif
