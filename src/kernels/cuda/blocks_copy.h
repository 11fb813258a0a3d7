/* What passes from the host to the kernel that moves blocks. Included by C and by .cu files. */
#ifndef PKV_BLOCKS_COPY_H
#define PKV_BLOCKS_COPY_H

#include "kernels/cuda/cuda_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PKV__BLOCKS_COPY_THREADS = 256,
    PKV__CUDA_MAX_MOVES = 200, /* of a launch: its parameters have to fit 4 KiB */
    PKV__CUDA_MAX_SHAPES = 8,  /* likewise, and blocks of more shapes take another launch */
    PKV__CUDA_SLICE_BYTES = 16 << 10
};

/* Where the rows of a shape lie in its block: common/kv_layout.h. */
struct pkv__cuda_pieces {
    int64_t n_pieces, piece_bytes;
    int64_t scales_at, zeros_at; /* bytes; 0: none */
    int32_t row_bytes, block_tokens;
};

/* Blocks dst, dst + 1, .. from src, src + 1, ..; or the first n tokens of block dst. */
struct pkv__cuda_move {
    int32_t dst, src;
    int32_t n;
    int32_t shape; /* -1: whole blocks */
};

struct pkv__cuda_moves {
    char *dst;       /* pool, or the contiguous bytes */
    const char *src; /* likewise; NULL: zeros */
    int64_t block_bytes;
    int64_t n_slices; /* of PKV__CUDA_SLICE_BYTES, that the largest move has */
    int32_t n_moves;
    int32_t wide; /* 1: every block is 16-byte aligned */
    struct pkv__cuda_pieces shapes[PKV__CUDA_MAX_SHAPES];
    struct pkv__cuda_move moves[PKV__CUDA_MAX_MOVES];
};

int pkv__blocks_copy_prepare(struct pkv__kernel_cost *cost);
int pkv__blocks_copy_launch(const void *moves, int64_t n_ctas, void *stream);

#ifdef __cplusplus
}
#endif
#endif
