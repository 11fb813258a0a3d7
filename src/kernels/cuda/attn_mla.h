/* Latent attention: what passes from cuda_mla.c to the kernels of attn_mla.cu. */
#ifndef PKV_ATTN_MLA_H
#define PKV_ATTN_MLA_H

#include "kernels/cuda/cuda_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PKV__MLA_THREADS = 256,
    PKV__MLA_QUERIES = 64, /* (row, query head) of a CTA */
    PKV__MLA_KEYS = 32,    /* of a tile */
    PKV__MLA_LATENT = 512, /* columns of the latent, and of what lies between its parts */
    PKV__MLA_ROPE = 128,
    PKV__MLA_SCALE_PARTS = 8, /* parts of a latent of codes */
    /* The state of an item: O, maxima and sums of its queries. */
    PKV__MLA_STATE_FLOATS = PKV__MLA_QUERIES * (PKV__MLA_LATENT + 2),
    PKV__MLA_SHARED = 186368,      /* bytes of shared memory */
    PKV__MLA_CODES_SHARED = 222208 /* the same, for stores of codes */
};

/* A call of pkv_attn_mla_run for kernels. */
struct pkv__cuda_mla {
    struct pkv__cuda_attn attn; /* q: of the latent; k: the latent, v: the rotary part */
    pkv_tensor3 q_rope;
    int32_t part_pitch;              /* columns from part to part of the latent: attn_mla.cuh */
    int32_t n_columns, rope_columns; /* multiples of 16 */
    int32_t n_p_copies;              /* of codes: parts whose scales may differ; else 1 */
    struct pkv__divider by_block_tokens, by_heads, by_part_pitch;
};

/* What struct pkv__cuda_variant wants. Stores of f16, of bf16, of codes. */
int pkv__mla_f16_prepare(struct pkv__kernel_cost *cost);
int pkv__mla_bf16_prepare(struct pkv__kernel_cost *cost);
int pkv__mla_codes_prepare(struct pkv__kernel_cost *cost);
int pkv__mla_f16_launch(const void *params, int64_t n_ctas, void *stream);
int pkv__mla_bf16_launch(const void *params, int64_t n_ctas, void *stream);
int pkv__mla_codes_launch(const void *params, int64_t n_ctas, void *stream);

#ifdef __cplusplus
}
#endif
#endif
