/* The emulated device behind the CUDA backend, and what a test may set of it. */
#ifndef SIMT_CUDA_H
#define SIMT_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Multiprocessors of devices opened from now on; 2 at first. */
void device_set_sms(int32_t n);

/* Whether the NaN codes of e4m3 are NaN to attention: kernels convert as on sm_80 (they are not),
 * or as the PTX that runs was made for. */
int device_e4m3_nan(void);

/* Memory of this process that kernels may touch, as if device_alloc had given it; the race detector
 * looks at it. Unregistering what is not registered is fine. */
void device_register(void *data, size_t bytes);
void device_unregister(void *data);

/* After a signal (or a timer's) that was caught while a kernel ran: the launch never comes back,
 * the next one is not affected. */
void device_abandon(void);

#ifdef __cplusplus
}
#endif
#endif
