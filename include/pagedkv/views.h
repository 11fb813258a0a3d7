/* Plain views of memory: what kernels read and write, and how a store describes its blocks.
 *
 * A view owns nothing. Strides are element counts; the last dimension has stride 1. A kernel uses
 * only the strides it is given and never rebuilds one from a shape, so pools in block-token-head,
 * block-head-token or any other order are described without a copy. */
#ifndef PAGEDKV_VIEWS_H
#define PAGEDKV_VIEWS_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* [n_rows][n_heads][dim]; dim stride 1, strides in elements, rows (each head's vector) 16-byte
 * aligned. n_heads: 1 .. 2^16, more is PKV_E_INVALID_ARG. dtype PKV_F32, PKV_F16 or PKV_BF16. Rows
 * that are written (an output; a store, by kv_write) must not overlap: PKV_E_INVALID_ARG if they do
 * by their strides. */
typedef struct pkv_tensor3 {
    void *data;
    pkv_dtype dtype;
    int32_t n_heads, dim;
    int64_t n_rows, row_stride, head_stride;
} pkv_tensor3;

/* One float per (block, token, head): data[block * block_stride + token * token_stride + head *
 * head_stride]. A stride of 0 broadcasts, so that one view says per tensor (all 0), per head, per
 * token, or per token and head. data NULL: 1 as a scale, 0 as a zero point. 4-byte aligned. */
typedef struct pkv_scales {
    float *data;
    int64_t block_stride, token_stride, head_stride; /* floats */
} pkv_scales;

/* One layer's K or V over all blocks. Strides in elements (for PKV_U4 in codes, multiples of 32).
 * Every row [dim] is 16-byte aligned. dim: multiple of 8, 8 .. 256 (a latent of pkv_attn_mla_run:
 * .. 512); n_heads: 1 .. 2^16; block_tokens >= 1. `n_blocks` bounds the ids. What a stored code
 * means: value = scale * (code - zero). PKV_F32, F16 and BF16 take neither (data NULL); PKV_E4M3,
 * E5M2 and I8 take scales; PKV_U4 takes scales and zeros. The codes of PKV_I8 are -128 .. 127, of
 * PKV_U4 0 .. 15; PKV_E4M3 is the OCP format without infinity, largest value 448; PKV_E5M2 has
 * infinity, largest finite value 57344 (OCP 8-bit floating point specification, 2023). */
typedef struct pkv_kv_view {
    void *data;
    pkv_dtype dtype;
    int32_t n_blocks, block_tokens, n_heads, dim;
    int64_t block_stride, token_stride, head_stride;
    pkv_scales scales, zeros;
} pkv_kv_view;

/* Bits of bad[0], the report of a call about data from outside; sticky: bits are ORed, the caller
 * clears it. bad[1..3] hold sequence, index and value of one offender (of several, the lowest
 * sequence's, then the lowest index's). For kv_write and kv_gather: 0, token, slot; a slot or token
 * that does not fit is UINT32_MAX. */
#define PKV_BAD_RANGE 1u      /* a used block id outside [0, n_blocks): read as the null block */
#define PKV_BAD_SHORT_ROW 2u  /* the row has too few ids for kv_len: missing keys are masked */
#define PKV_BAD_LENGTH 4u     /* negative kv_len counts as 0; contiguous kv_len beyond capacity */
#define PKV_BAD_NULL_BLOCK 8u /* block 0 inside the visible range: read as it is */
#define PKV_BAD_Q_INDPTR 16u  /* decreasing, beyond n_rows, into earlier rows: counts as no rows */
#define PKV_BAD_SLOT 32u /* kv_write, kv_gather: a slot beyond the store, skipped (< 0: silent) */
#define PKV_BAD_NAN_CODE 64u  /* kv_write: a NaN for an integer type, stored as 0 */
#define PKV_BAD_MASK 128u     /* q_len beyond the bits of a mask row: missing bits count as 0 */
#define PKV_BAD_POSITION 256u /* kv_write: a position outside the rotary table, token skipped */

#ifdef __cplusplus
}
#endif
#endif
