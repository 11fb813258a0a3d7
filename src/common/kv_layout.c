/* The bytes of one block. */
#include "common/kv_layout.h"
#include "common/common.h"

enum {
    BLOCK_ALIGN = 512, /* every piece of every block starts on a sector and on a line */
    ROW_ALIGN = 16     /* what kernels may load at once; 8- and 4-bit rows are padded to it */
};

static bool shape_valid(const pkv_kv_shape *s)
{
    return (unsigned)s->dtype < PKV_DTYPE_COUNT && s->n_layers >= 1 && s->n_kv_heads >= 1 &&
           s->block_tokens >= 1 && s->block_tokens <= 2048 && s->head_dim >= 8 &&
           s->head_dim <= 256 && s->head_dim % 8 == 0;
}

pkv_status pkv__kv_layout(const pkv_kv_shape *s, struct pkv__kv_layout *out)
{
    if (!shape_valid(s)) return PKV_E_INVALID_ARG;
    /* The scale of e5m2 is always given, never computed, and 1 unless somebody says otherwise. */
    const bool scales = s->dtype == PKV_E4M3 || s->dtype == PKV_I8 || s->dtype == PKV_U4;
    const size_t row_bits = (size_t)(s->head_dim * pkv_dtype_bits(s->dtype));
    struct pkv__kv_layout l = { .block_tokens = (size_t)s->block_tokens };
    l.row_bytes = pkv__align_up(row_bits / 8, ROW_ALIGN);
    l.piece_bytes = l.block_tokens * l.row_bytes;
    const size_t floats = l.block_tokens * sizeof(float); /* scales of one piece */
    const size_t widest = l.piece_bytes + 2 * floats;     /* codes, scales and zeros of a piece */
    size_t bytes;
    if (!pkv__mul_size((size_t)s->n_layers * 2, (size_t)s->n_kv_heads, &l.n_pieces) ||
        !pkv__mul_size(l.n_pieces, widest, &bytes) || bytes > SIZE_MAX - BLOCK_ALIGN)
        return PKV_E_INVALID_ARG;
    bytes = l.n_pieces * l.piece_bytes;
    if (scales) {
        l.scales_at = bytes;
        bytes += l.n_pieces * floats;
    }
    if (s->dtype == PKV_U4) {
        l.zeros_at = bytes;
        bytes += l.n_pieces * floats;
    }
    l.block_bytes = pkv__align_up(bytes, BLOCK_ALIGN);
    *out = l;
    return PKV_OK;
}

pkv_status pkv_kv_block_bytes(const pkv_kv_shape *shape, size_t *block_bytes)
{
    struct pkv__kv_layout layout;
    if (!shape || !block_bytes) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__kv_layout(shape, &layout);
    if (status == PKV_OK) *block_bytes = layout.block_bytes;
    return status;
}
