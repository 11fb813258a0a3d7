/* A kernel that reads memory and does nothing else: the ceiling of decode. */
#ifndef PKV_CHECK_GPU_READ_H
#define PKV_CHECK_GPU_READ_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `bytes` from data on, a multiple of 16, by as many blocks as an H200 holds. sink: one word, which
 * keeps the compiler from leaving the loads out. 0 or what the device said. */
int check_gpu_read_launch(const void *data, int64_t bytes, uint32_t *sink, void *stream);
/* Version of the nvcc that has compiled it, and the library's kernels along with it; "": none. */
const char *check_gpu_nvcc(void);

#ifdef __cplusplus
}
#endif
#endif
