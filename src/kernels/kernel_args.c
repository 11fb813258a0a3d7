/* Checks of public arguments. Everything behind them relies on what is checked here. */
#include "common/number_format.h"
#include "kernels/attn_cut.h"
#include "kernels/kernels_internal.h"

#define ROW_ALIGN 16 /* bytes; every row of a tensor or view starts on it */

static bool aligned(const void *data, size_t align)
{
    return ((uintptr_t)data & (align - 1)) == 0;
}

/* More elements than any address space has; in bits it still fits int64. Strides that nothing is
 * multiplied by are held to it too, since kernels turn all of them into bytes. */
#define MAX_STRIDE (INT64_MAX / 64)

/* Element (a - 1, b - 1, c - 1) of three strides, plus a row, must have an address. */
static bool fits(const int64_t counts[3], const int64_t strides[3], int64_t row, int32_t elem_bytes)
{
    int64_t total = row;
    for (int i = 0; i < 3; i++) {
        int64_t part;
        if (strides[i] < 0 || strides[i] > MAX_STRIDE) return false;
        if (counts[i] <= 1) continue;
        if (__builtin_mul_overflow(counts[i] - 1, strides[i], &part) ||
            __builtin_add_overflow(total, part, &total))
            return false;
    }
    return total <= PTRDIFF_MAX / elem_bytes;
}

bool pkv__places_differ(const int64_t counts[3], const int64_t strides[3], int64_t row)
{
    int64_t stride[3] = { strides[0], strides[1], strides[2] };
    int64_t count[3] = { counts[0], counts[1], counts[2] };
    bool apart = true;
    int64_t reach = row - 1; /* largest place of the strides so far; fits, it was checked */
    for (int i = 0; i < 3; i++) {
        int least = i;
        for (int j = i + 1; j < 3; j++)
            if (stride[j] < stride[least]) least = j;
        const int64_t st = stride[least], n = count[least];
        stride[least] = stride[i], count[least] = count[i];
        if (n == 0) return true; /* no place at all */
        if (n > 1 && st <= reach) apart = false;
        if (n > 1) reach += (n - 1) * st;
    }
    return apart;
}

static bool all_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

static bool rows_aligned(int64_t stride, pkv_dtype dtype)
{
    return stride % (ROW_ALIGN * 8 / pkv__elem_bits(dtype)) == 0;
}

/* `last`: the types up to it exist here. */
static pkv_status check_type(const pkv_logger *log, const char *name, pkv_dtype dtype,
                             pkv_dtype last, int32_t dim, int32_t max_dim)
{
    if ((unsigned)dtype >= PKV_DTYPE_COUNT || dim < 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: dtype %d, dim %d", name, (int)dtype, dim);
    if (dtype > last)
        return pkv__refuse(log, PKV_E_UNSUPPORTED, "%s: no kernel for dtype %s", name,
                           pkv_dtype_name(dtype));
    if (dim % 8 != 0 || dim > max_dim)
        return pkv__refuse(log, PKV_E_UNSUPPORTED, "%s: dim %d is not a multiple of 8 up to %d",
                           name, dim, max_dim);
    return PKV_OK;
}

pkv_status pkv__check_tensor(const pkv_logger *log, const char *name, const pkv_tensor3 *t,
                             int32_t max_dim)
{
    if (!t) return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: null", name);
    const pkv_status status = check_type(log, name, t->dtype, PKV_BF16, t->dim, max_dim);
    if (status != PKV_OK) return status;
    const int32_t elem = pkv__elem_bytes(t->dtype);
    const int64_t counts[3] = { t->n_rows, t->n_heads, 1 };
    const int64_t strides[3] = { t->row_stride, t->head_stride, 0 };
    if (t->n_rows < 0 || t->n_heads < 1 || (t->n_rows > 0 && !t->data))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: no data, or negative sizes", name);
    if (t->n_heads > PKV__MAX_HEADS)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: %d heads, more than %d", name, t->n_heads,
                           PKV__MAX_HEADS);
    if (!aligned(t->data, ROW_ALIGN) || !rows_aligned(t->row_stride, t->dtype) ||
        !rows_aligned(t->head_stride, t->dtype))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: rows are not 16-byte aligned", name);
    if (!fits(counts, strides, t->dim, elem))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: strides negative or too large", name);
    return PKV_OK;
}

pkv_status pkv__check_output(const pkv_logger *log, const char *name, const pkv_tensor3 *t,
                             int32_t max_dim)
{
    const pkv_status status = pkv__check_tensor(log, name, t, max_dim);
    if (status != PKV_OK) return status;
    const int64_t counts[3] = { t->n_rows, t->n_heads, 1 };
    const int64_t strides[3] = { t->row_stride, t->head_stride, 0 };
    if (!pkv__places_differ(counts, strides, t->dim))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: rows overlap", name);
    return PKV_OK;
}

static bool floats_valid(const pkv_scales *s, const pkv_kv_view *view)
{
    const int64_t counts[3] = { view->n_blocks, view->block_tokens, view->n_heads };
    const int64_t strides[3] = { s->block_stride, s->token_stride, s->head_stride };
    if (!s->data) return true;
    return aligned(s->data, sizeof(float)) && fits(counts, strides, 1, (int32_t)sizeof(float));
}

static pkv_status check_scales(const pkv_logger *log, const char *name, const pkv_kv_view *view)
{
    if ((view->scales.data && view->dtype <= PKV_BF16) ||
        (view->zeros.data && view->dtype != PKV_U4))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: %s takes no %s", name,
                           pkv_dtype_name(view->dtype), view->zeros.data ? "zeros" : "scales");
    if (!floats_valid(&view->scales, view) || !floats_valid(&view->zeros, view))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: alignment or strides of scales or zeros",
                           name);
    return PKV_OK;
}

pkv_status pkv__check_view(const pkv_logger *log, const char *name, const pkv_kv_view *view,
                           int32_t max_dim)
{
    if (!view) return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: null", name);
    const pkv_status status = check_type(log, name, view->dtype, PKV_U4, view->dim, max_dim);
    if (status != PKV_OK) return status;
    const int32_t elem = pkv__max_i32(1, pkv__elem_bits(view->dtype) / 8);
    const int64_t counts[3] = { view->n_blocks, view->block_tokens, view->n_heads };
    const int64_t strides[3] = { view->block_stride, view->token_stride, view->head_stride };
    if (view->n_blocks < 1 || view->block_tokens < 1 || view->n_heads < 1 || !view->data)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: no data, blocks, tokens or heads", name);
    if (view->n_heads > PKV__MAX_HEADS)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: %d heads, more than %d", name,
                           view->n_heads, PKV__MAX_HEADS);
    if (!aligned(view->data, ROW_ALIGN) || !rows_aligned(view->block_stride, view->dtype) ||
        !rows_aligned(view->token_stride, view->dtype) ||
        !rows_aligned(view->head_stride, view->dtype))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: rows are not 16-byte aligned", name);
    if (!fits(counts, strides, view->dim, elem))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: strides negative or too large", name);
    return check_scales(log, name, view);
}

pkv_status pkv__check_view_pair(const pkv_logger *log, const pkv_kv_view *k, const pkv_kv_view *v)
{
    pkv_status status = pkv__check_view(log, "k", k, PKV__MAX_DIM);
    if (status == PKV_OK) status = pkv__check_view(log, "v", v, PKV__MAX_DIM);
    if (status != PKV_OK) return status;
    if (k->n_blocks != v->n_blocks || k->block_tokens != v->block_tokens ||
        k->n_heads != v->n_heads)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "k and v disagree in blocks, tokens or heads");
    if (k->dtype != v->dtype)
        return pkv__refuse(log, PKV_E_UNSUPPORTED, "k is %s and v is %s: no kernel for that",
                           pkv_dtype_name(k->dtype), pkv_dtype_name(v->dtype));
    return PKV_OK;
}

pkv_status pkv__check_lse(const pkv_logger *log, const pkv_lse *lse, int64_t n_rows,
                          int32_t n_heads)
{
    const int64_t counts[3] = { n_rows, n_heads, 1 };
    const int64_t strides[3] = { lse->row_stride, lse->head_stride, 0 };
    if (!aligned(lse->data, sizeof(float)) || lse->base2 > 1 ||
        !fits(counts, strides, 1, (int32_t)sizeof(float)))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "lse: alignment, strides or base2");
    return PKV_OK;
}

pkv_status pkv__check_lse_output(const pkv_logger *log, const pkv_lse *lse, int64_t n_rows,
                                 int32_t n_heads)
{
    const int64_t counts[3] = { n_rows, n_heads, 1 };
    const int64_t strides[3] = { lse->row_stride, lse->head_stride, 0 };
    const pkv_status status = pkv__check_lse(log, lse, n_rows, n_heads);
    if (status == PKV_OK && !pkv__places_differ(counts, strides, 1))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "lse: places overlap");
    return status;
}

/* Dense rows of a table have addresses; its CSR values are counted by table_stride, not placed. */
static bool table_fits(const pkv_attn_batch *b)
{
    const int64_t counts[3] = { b->n_seqs, 1, 1 }, strides[3] = { b->table_stride, 0, 0 };
    if (!b->table) return true;
    if (b->table_indptr) return b->table_stride >= 0;
    return fits(counts, strides, 0, (int32_t)sizeof(int32_t));
}

static bool arrays_aligned(const pkv_attn_batch *b)
{
    const int32_t *const arrays[] = { b->table,    b->table_indptr, b->kv_len,
                                      b->q_indptr, b->kv_pos0,      b->q_pos };
    for (size_t i = 0; i < PKV_ARRAY_LEN(arrays); i++)
        if (!aligned(arrays[i], sizeof(int32_t))) return false;
    return true;
}

static pkv_status check_batch(const pkv_logger *log, const pkv_attn_batch *b, int64_t n_rows,
                              int32_t n_blocks)
{
    if (!b) return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: null");
    if (b->struct_size != sizeof(*b))
        return pkv__refuse(log, PKV_E_ABI, "batch: struct_size %u", (unsigned)b->struct_size);
    if (b->n_seqs < 0 || (b->n_seqs > 0 && !b->kv_len))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: n_seqs %d, or no kv_len", b->n_seqs);
    if (!arrays_aligned(b))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: alignment of an array");
    if (!table_fits(b))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: table_stride negative or too large");
    if (!b->table && b->table_indptr)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: table_indptr without table");
    if (!b->table && b->n_seqs > n_blocks)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: %d contiguous sequences in %d blocks",
                           b->n_seqs, n_blocks);
    if (!b->q_indptr && n_rows < b->n_seqs)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: %d sequences of one row, %lld rows of q",
                           b->n_seqs, (long long)n_rows);
    if (b->max_q_len < 0)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: max_q_len is %d", b->max_q_len);
    if (b->q_detached > 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: q_detached is neither 0 nor 1");
    if (b->q_detached && !b->q_pos)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: q_detached needs q_pos");
    if (!all_zero(b->reserved, sizeof(b->reserved)))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "batch: reserved bytes are not 0");
    return PKV_OK;
}

static pkv_status check_opts(const pkv_logger *log, const pkv_attn_opts *o)
{
    if (!o) return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: null");
    if (o->struct_size != sizeof(*o))
        return pkv__refuse(log, PKV_E_ABI, "opts: struct_size %u", (unsigned)o->struct_size);
    if (!isfinite(o->scale) || !isfinite(o->softcap) || o->softcap < 0.f)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: scale or softcap");
    if (o->window_left < -1 || o->window_right < -1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: a window below -1");
    if (o->causal > 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: causal is neither 0 nor 1");
    if (o->int8_qk > 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: int8_qk is neither 0 nor 1");
    if (o->invariant > 1 || !pkv__invariant_chunk_valid(o->invariant_chunk))
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "opts: invariant is neither 0 nor 1, or invariant_chunk, %d, no "
                           "multiple of 64",
                           o->invariant_chunk);
    if (!all_zero(o->reserved, sizeof(o->reserved)))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: reserved bytes are not 0");
    if (!aligned(o->alibi, sizeof(float)) || !aligned(o->sink, sizeof(float)) ||
        !aligned(o->bad, sizeof(uint32_t)))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: alignment of alibi, sink or bad");
    return PKV_OK;
}

static pkv_status check_mask(const pkv_logger *log, const pkv_attn_batch *b, const pkv_attn_opts *o,
                             int64_t n_rows)
{
    const int64_t counts[3] = { n_rows, 1, 1 }, strides[3] = { o->mask_stride, 0, 0 };
    if (!o->mask) return PKV_OK;
    if (b->q_detached)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "opts: mask with q_detached, whose rows have no keys here");
    if (!aligned(o->mask, sizeof(uint32_t)) ||
        !fits(counts, strides, o->mask_stride, (int32_t)sizeof(uint32_t)))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "opts: alignment or stride of mask");
    return PKV_OK;
}

pkv_status pkv__check_batch_opts(const pkv_logger *log, const pkv_attn_batch *batch,
                                 const pkv_attn_opts *opts, int64_t n_rows, int32_t n_blocks)
{
    pkv_status status = check_batch(log, batch, n_rows, n_blocks);
    if (status == PKV_OK) status = check_opts(log, opts);
    if (status == PKV_OK) status = check_mask(log, batch, opts, n_rows);
    return status;
}

pkv_status pkv__check_attn_inputs(const pkv_logger *log, const pkv_tensor3 *q, const pkv_kv_view *k,
                                  const pkv_kv_view *v, const pkv_attn_batch *batch,
                                  const pkv_attn_opts *opts)
{
    pkv_status status = pkv__check_tensor(log, "q", q, PKV__MAX_DIM);
    if (status == PKV_OK) status = pkv__check_view_pair(log, k, v);
    if (status == PKV_OK) status = pkv__check_batch_opts(log, batch, opts, q->n_rows, k->n_blocks);
    if (status != PKV_OK) return status;
    if (q->n_rows > INT32_MAX)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "q: more than 2^31 - 1 rows");
    if (q->dim != k->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "q has dim %d, k has %d", q->dim, k->dim);
    if (q->n_heads % k->n_heads != 0)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "%d query heads are not a multiple of %d kv heads", q->n_heads,
                           k->n_heads);
    return PKV_OK;
}

/* Sequence, index, value: a total order, so that the tasks of a call may meet in any order. */
static bool before(const uint32_t a[4], const uint32_t b[4])
{
    for (int i = 1; i < 4; i++)
        if (a[i] != b[i]) return a[i] < b[i];
    return false;
}

void pkv__merge_bad(uint32_t into[4], const uint32_t bad[4])
{
    if (bad[0] == 0) return;
    if (into[0] == 0 || before(bad, into))
        for (int i = 1; i < 4; i++) into[i] = bad[i];
    into[0] |= bad[0];
}

void pkv__note_bad(const struct pkv__attn_call *c, uint32_t bit, int32_t seq, int32_t idx,
                   int32_t value)
{
    const uint32_t one[4] = { bit, (uint32_t)seq, (uint32_t)idx, (uint32_t)value };
    pkv__merge_bad(c->bad, one);
}

pkv_status pkv__check_workspace(const pkv_logger *log, const void *workspace, size_t bytes,
                                size_t need)
{
    if (!workspace || !aligned(workspace, PKV_CACHE_LINE) || bytes < need)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "workspace: %zu bytes, 64-byte aligned, are needed; %zu given", need,
                           bytes);
    return PKV_OK;
}

void pkv__report_bad(uint32_t *sticky, const uint32_t bad[4])
{
    if (!sticky || bad[0] == 0) return;
    if (sticky[0] == 0)
        for (int i = 1; i < 4; i++) sticky[i] = bad[i];
    sticky[0] |= bad[0];
}

pkv_status pkv__verdict(const pkv_logger *log, uint32_t *sticky, const uint32_t bad[4])
{
    pkv__report_bad(sticky, bad);
    if (bad[0] == 0) return PKV_OK;
    return pkv__refuse(log, PKV_E_INVALID_ARG,
                       "bad table: bits %#x; first in sequence %u, index %u, value %d",
                       (unsigned)bad[0], (unsigned)bad[1], (unsigned)bad[2], (int)bad[3]);
}
