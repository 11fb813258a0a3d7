/* Where everything lies in one block of the canonical layout: the one place that knows.
 *
 *   codes   [layer][kv_head][K,V][token][row_bytes]   rows padded to 16 bytes
 *   scales  [layer][kv_head][K,V][token] float32      dtypes whose scales kv_write computes
 *   zeros   [layer][kv_head][K,V][token] float32      PKV_U4
 *   padding up to a multiple of 512
 *
 * A piece is what one (layer, kv head) has of K, or of V. */
#ifndef PKV_KV_LAYOUT_H
#define PKV_KV_LAYOUT_H

#include "pagedkv/base.h"

struct pkv__kv_layout {
    size_t n_pieces;     /* 2 * layers * kv heads; piece (layer, head, K or V) is number
                            (layer * kv heads + head) * 2, + 1 for V */
    size_t block_tokens; /* rows, scales and zeros of a piece */
    size_t row_bytes;    /* multiple of 16 */
    size_t piece_bytes;  /* block_tokens * row_bytes */
    size_t scales_at;    /* byte offset in the block; 0: none */
    size_t zeros_at;     /* byte offset in the block; 0: none */
    size_t block_bytes;  /* multiple of 512 */
};

/* Statuses as pkv_kv_block_bytes; *out is written on success only. */
pkv_status pkv__kv_layout(const pkv_kv_shape *shape, struct pkv__kv_layout *out);

#endif
