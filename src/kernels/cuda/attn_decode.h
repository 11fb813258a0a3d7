/* The compiled decode kernels: attn_decode_<type>_d<D>.cu. Included by C and by .cu files.
 *
 * A kernel takes dims of K and V up to D; of codes, the plain ones take multiples of 16 bytes, the
 * ragged ones any. Of query columns it has 8 * NT in a tile. */
#ifndef PKV_ATTN_DECODE_H
#define PKV_ATTN_DECODE_H

#include "kernels/cuda/cuda_launch.h"

/* X(type, DTYPE, bits, D, NT, dims from, dims by): best first. 16 bits, D 256 and NT 2 together
 * would need more than 255 registers; codes, D 128 and NT 2 more than 168. */
#define PKV__DECODE_KERNELS(X)                                                                     \
    X(bf16, BF16, 16, 64, 1, 8, 8)                                                                 \
    X(bf16, BF16, 16, 64, 2, 8, 8)                                                                 \
    X(bf16, BF16, 16, 128, 1, 72, 8)                                                               \
    X(bf16, BF16, 16, 128, 2, 72, 8)                                                               \
    X(bf16, BF16, 16, 256, 1, 136, 8)                                                              \
    X(f16, F16, 16, 64, 1, 8, 8)                                                                   \
    X(f16, F16, 16, 64, 2, 8, 8)                                                                   \
    X(f16, F16, 16, 128, 1, 72, 8)                                                                 \
    X(f16, F16, 16, 128, 2, 72, 8)                                                                 \
    X(f16, F16, 16, 256, 1, 136, 8)                                                                \
    X(e4m3, E4M3, 8, 64, 1, 8, 16)                                                                 \
    X(e4m3, E4M3, 8, 64, 1, 8, 8)                                                                  \
    X(e4m3, E4M3, 8, 128, 1, 72, 16)                                                               \
    X(e4m3, E4M3, 8, 128, 1, 72, 8)                                                                \
    X(e4m3, E4M3, 8, 256, 1, 136, 16)                                                              \
    X(e4m3, E4M3, 8, 256, 1, 136, 8)                                                               \
    X(e5m2, E5M2, 8, 64, 1, 8, 16)                                                                 \
    X(e5m2, E5M2, 8, 64, 1, 8, 8)                                                                  \
    X(e5m2, E5M2, 8, 128, 1, 72, 16)                                                               \
    X(e5m2, E5M2, 8, 128, 1, 72, 8)                                                                \
    X(e5m2, E5M2, 8, 256, 1, 136, 16)                                                              \
    X(e5m2, E5M2, 8, 256, 1, 136, 8)                                                               \
    X(int8, I8, 8, 64, 1, 8, 16)                                                                   \
    X(int8, I8, 8, 64, 1, 8, 8)                                                                    \
    X(int8, I8, 8, 128, 1, 72, 16)                                                                 \
    X(int8, I8, 8, 128, 1, 72, 8)                                                                  \
    X(int8, I8, 8, 256, 1, 136, 16)                                                                \
    X(int8, I8, 8, 256, 1, 136, 8)                                                                 \
    X(int4, U4, 4, 64, 1, 8, 32)                                                                   \
    X(int4, U4, 4, 64, 1, 8, 8)                                                                    \
    X(int4, U4, 4, 128, 1, 72, 32)                                                                 \
    X(int4, U4, 4, 128, 1, 72, 8)                                                                  \
    X(int4, U4, 4, 256, 1, 136, 32)                                                                \
    X(int4, U4, 4, 256, 1, 136, 8)

/* What pkv__decode_shape makes of these numbers; the kernel files compare. */
#define PKV__DECODE_WARPS(D) ((D) > 128 ? 2 : 4)
#define PKV__DECODE_ROW(bits, D) ((D) * (bits) / 8)
#define PKV__DECODE_STAGE(bits, D)                                                                 \
    (32 * PKV__DECODE_ROW(bits, D) + ((bits) == 16 ? 0 : (bits) == 8 ? 128 : 256))
#define PKV__DECODE_FIT(bits, D) (64 * 1024 / (PKV__DECODE_WARPS(D) * PKV__DECODE_STAGE(bits, D)))
#define PKV__DECODE_STAGES(bits, D)                                                                \
    (PKV__DECODE_FIT(bits, D) < 2 ? 2 : PKV__DECODE_FIT(bits, D) > 3 ? 3 : PKV__DECODE_FIT(bits, D))
#define PKV__DECODE_RING(bits, D)                                                                  \
    (PKV__DECODE_WARPS(D) * PKV__DECODE_STAGES(bits, D) * PKV__DECODE_STAGE(bits, D))
#define PKV__DECODE_STATES(D, NT) (PKV__DECODE_WARPS(D) * 8 * (NT) * ((D) + 6) * 4)
#define PKV__DECODE_SHARED(bits, D, NT)                                                            \
    ((PKV__DECODE_RING(bits, D) > PKV__DECODE_STATES(D, NT) ? PKV__DECODE_RING(bits, D)            \
                                                            : PKV__DECODE_STATES(D, NT)) +         \
     8 * (NT) * (((D) + 8) * 2 + 20))

#ifdef __cplusplus
extern "C" {
#endif

#define PKV__DECODE_DECLARE(type, DTYPE, bits, D, NT, from, by)                                    \
    int pkv__attn_decode_##type##_d##D##_nt##NT##_by##by##_prepare(struct pkv__kernel_cost *cost); \
    int pkv__attn_decode_##type##_d##D##_nt##NT##_by##by##_launch(const void *attn,                \
                                                                  int64_t n_ctas, void *stream);
PKV__DECODE_KERNELS(PKV__DECODE_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
