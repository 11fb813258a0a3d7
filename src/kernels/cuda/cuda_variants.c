/* The table of compiled kernels. */
#include "kernels/cuda/attn_decode.h"
#include "kernels/cuda/attn_mla.h"
#include "kernels/cuda/attn_prefill.h"
#include "kernels/cuda/blocks_copy.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/cuda_rows.h"
#include "kernels/cuda/states_merge.h"

#define ATTN_DECODE(type, DTYPE, bits, D, NT, from, by)                                            \
    { .name = "attention_decode_" #type "_d" #D "_nt" #NT "_by" #by "_cuda",                       \
      .op = PKV_OP_ATTENTION,                                                                      \
      .dtype = PKV_##DTYPE,                                                                        \
      .dim_lo = (from),                                                                            \
      .dim_hi = (D),                                                                               \
      .dim_step = (by),                                                                            \
      .head_tiles = (NT),                                                                          \
      .n_threads = 32 * PKV__DECODE_WARPS(D),                                                      \
      .shared_bytes = PKV__DECODE_SHARED(bits, D, NT),                                             \
      .covers = "few rows; all where no other kernel is; every option",                            \
      .prepare = pkv__attn_decode_##type##_d##D##_nt##NT##_by##by##_prepare,                       \
      .launch = pkv__attn_decode_##type##_d##D##_nt##NT##_by##by##_launch },
#define ATTN_MLA(DTYPE, type, KERNEL, SHARED)                                                      \
    {                                                                                              \
        .name = "attention_mla_" #type "_cuda", .op = PKV_OP_ATTENTION_MLA, .dtype = PKV_##DTYPE,  \
        .dim_lo = 8, .dim_hi = PKV__MLA_LATENT, .n_threads = PKV__MLA_THREADS,                     \
        .shared_bytes = SHARED, .covers = "rope f16 and bf16, all options",                        \
        .prepare = pkv__mla_##KERNEL##_prepare, .launch = pkv__mla_##KERNEL##_launch               \
    }
/* Attention over long rows: dims of K and V up to DIM, the smaller kernel's left out. */
#define ATTN_PREFILL(DTYPE, bits, type, DIM)                                                       \
    {                                                                                              \
        .name = "attention_prefill_" #type "_" #DIM "_cuda", .op = PKV_OP_ATTENTION,               \
        .dtype = PKV_##DTYPE, .dim_lo = (DIM) > 64 ? (DIM) / 2 + 8 : 8, .dim_hi = DIM,             \
        .dim_step = 8, .n_threads = PKV__PREFILL_THREADS,                                          \
        .shared_bytes = PKV__PREFILL_SHARED(DIM, bits),                                            \
        .covers = "many rows, dims up to " #DIM "; all options",                                   \
        .prepare = pkv__prefill_##type##_##DIM##_prepare,                                          \
        .launch = pkv__prefill_##type##_##DIM##_launch                                             \
    }
#define BLOCKS_COPY                                                                                \
    {                                                                                              \
        .name = "blocks_copy_cuda", .op = PKV_OP_BLOCKS_COPY, .dtype = PKV_I8,                     \
        .n_threads = PKV__BLOCKS_COPY_THREADS,                                                     \
        .covers = "whole blocks or their first tokens; gather and scatter",                        \
        .prepare = pkv__blocks_copy_prepare, .launch = pkv__blocks_copy_launch                     \
    }
/* One kernel each, for all types of stores. */
#define KV_GATHER(DTYPE, type)                                                                     \
    {                                                                                              \
        .name = "kv_gather_" type "_cuda", .op = PKV_OP_KV_GATHER, .dtype = PKV_##DTYPE,           \
        .n_threads = PKV__CUDA_ROW_THREADS, .covers = "rows of this type out to f32, f16 or bf16", \
        .prepare = pkv__kv_gather_prepare, .launch = pkv__kv_gather_launch                         \
    }
#define KV_WRITE(DTYPE, type)                                                                      \
    {                                                                                              \
        .name = "kv_write_" type "_cuda", .op = PKV_OP_KV_WRITE, .dtype = PKV_##DTYPE,             \
        .n_threads = PKV__CUDA_ROW_THREADS,                                                        \
        .covers = "rows of f32, f16 or bf16 into this type; norm, rotation",                       \
        .prepare = pkv__kv_write_prepare, .launch = pkv__kv_write_launch                           \
    }
#define STATES_MERGE(DTYPE, type)                                                                  \
    {                                                                                              \
        .name = "states_merge_" #type "_cuda", .op = PKV_OP_STATES_MERGE, .dtype = PKV_##DTYPE,    \
        .n_threads = PKV__STATES_MERGE_THREADS, .covers = "up to 64 states of this type",          \
        .prepare = pkv__states_merge_##type##_prepare, .launch = pkv__states_merge_##type##_launch \
    }

const struct pkv__cuda_variant pkv__cuda_variants[] = {
    PKV__DECODE_KERNELS(ATTN_DECODE) ATTN_MLA(F16, f16, f16, PKV__MLA_SHARED),
    ATTN_MLA(BF16, bf16, bf16, PKV__MLA_SHARED),
    ATTN_MLA(E4M3, e4m3, codes, PKV__MLA_CODES_SHARED),
    ATTN_MLA(E5M2, e5m2, codes, PKV__MLA_CODES_SHARED),
    ATTN_MLA(I8, int8, codes, PKV__MLA_CODES_SHARED),
    ATTN_MLA(U4, int4, codes, PKV__MLA_CODES_SHARED),
    ATTN_PREFILL(F16, 16, f16, 64),
    ATTN_PREFILL(F16, 16, f16, 128),
    ATTN_PREFILL(F16, 16, f16, 256),
    ATTN_PREFILL(BF16, 16, bf16, 64),
    ATTN_PREFILL(BF16, 16, bf16, 128),
    ATTN_PREFILL(BF16, 16, bf16, 256),
    ATTN_PREFILL(E4M3, 8, e4m3, 64),
    ATTN_PREFILL(E4M3, 8, e4m3, 128),
    ATTN_PREFILL(E5M2, 8, e5m2, 64),
    ATTN_PREFILL(E5M2, 8, e5m2, 128),
    ATTN_PREFILL(I8, 8, int8, 64),
    ATTN_PREFILL(I8, 8, int8, 128),
    ATTN_PREFILL(U4, 4, int4, 64),
    ATTN_PREFILL(U4, 4, int4, 128),
    BLOCKS_COPY,
    KV_GATHER(F32, "f32"),
    KV_GATHER(F16, "f16"),
    KV_GATHER(BF16, "bf16"),
    KV_GATHER(E4M3, "e4m3"),
    KV_GATHER(E5M2, "e5m2"),
    KV_GATHER(I8, "int8"),
    KV_GATHER(U4, "int4"),
    KV_WRITE(F32, "f32"),
    KV_WRITE(F16, "f16"),
    KV_WRITE(BF16, "bf16"),
    KV_WRITE(E4M3, "e4m3"),
    KV_WRITE(E5M2, "e5m2"),
    KV_WRITE(I8, "int8"),
    KV_WRITE(U4, "int4"),
    STATES_MERGE(F32, f32),
    STATES_MERGE(F16, f16),
    STATES_MERGE(BF16, bf16),
};
const int32_t pkv__n_cuda_variants = PKV_ARRAY_LEN(pkv__cuda_variants);
_Static_assert(PKV_ARRAY_LEN(pkv__cuda_variants) <= PKV__CUDA_MAX_VARIANTS,
               "a backend keeps the cost of each");

int32_t pkv__cuda_variant_of(const struct pkv__cuda *cuda, pkv_op op, pkv_dtype dtype)
{
    for (int32_t i = 0; i < pkv__n_cuda_variants; i++)
        if (cuda->usable[i] && pkv__cuda_variants[i].op == op &&
            pkv__cuda_variants[i].dtype == dtype)
            return i;
    return -1;
}
