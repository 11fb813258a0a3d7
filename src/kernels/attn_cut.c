/* Lengths and tables are data from outside: whatever they hold, a unit names only rows that q has
 * and keys for which there is an id, or room in the contiguous block. */
#include "kernels/attn_cut.h"

/* Were a sequence to start below *next_row, it would overwrite rows of one that is right. */
static void cut_rows(const struct pkv__attn_call *c, struct pkv__attn_unit *u, int32_t *next_row)
{
    const int32_t *indptr = c->batch->q_indptr;
    u->row0 = indptr ? indptr[u->seq] : u->seq;
    u->q_len = 1;
    if (!indptr) return;
    const int32_t end = indptr[u->seq + 1];
    if (u->row0 < *next_row || end < u->row0 || end > c->q->n_rows) {
        pkv__note_bad(c, PKV_BAD_Q_INDPTR, u->seq, u->seq + 1, end);
        u->row0 = 0;
        u->q_len = 0;
        return;
    }
    u->q_len = end - u->row0;
    *next_row = end;
}

/* Number of ids in the sequence's row of the table, and where the row starts. */
static int64_t cut_ids(const struct pkv__attn_call *c, struct pkv__attn_unit *u)
{
    const pkv_attn_batch *b = c->batch;
    if (!b->table_indptr) {
        u->ids = b->table + u->seq * b->table_stride;
        return b->table_stride;
    }
    const int64_t start = b->table_indptr[u->seq];
    int64_t end = b->table_indptr[u->seq + 1];
    u->ids = b->table;
    if (end > b->table_stride) end = b->table_stride;
    if (start < 0 || end <= start) return 0;
    u->ids += start;
    return end - start;
}

/* Keys that exist. */
static void cut_keys(const struct pkv__attn_call *c, struct pkv__attn_unit *u)
{
    const int32_t asked = c->batch->kv_len[u->seq], bt = c->k->block_tokens;
    u->ids = NULL;
    u->kv_len = pkv__max_i32(asked, 0);
    if (asked < 0) pkv__note_bad(c, PKV_BAD_LENGTH, u->seq, u->seq, asked);
    if (!c->batch->table) {
        if (u->kv_len <= bt) return;
        pkv__note_bad(c, PKV_BAD_LENGTH, u->seq, u->seq, asked);
        u->kv_len = bt;
        return;
    }
    const int64_t n_ids = cut_ids(c, u);
    if (n_ids >= pkv__ceil_div_i32(u->kv_len, bt)) return;
    pkv__note_bad(c, PKV_BAD_SHORT_ROW, u->seq, (int32_t)n_ids, asked);
    u->kv_len = (int32_t)(n_ids * bt); /* less than kv_len, so it fits */
}

bool pkv__cut_sequence(const struct pkv__attn_call *c, struct pkv__attn_unit *u, int32_t seq,
                       int32_t *next_row)
{
    u->seq = seq;
    cut_rows(c, u, next_row);
    cut_keys(c, u);
    u->pos0 = c->batch->kv_pos0 ? c->batch->kv_pos0[seq] : 0;
    u->row_lo = 0;
    u->row_hi = u->q_len;
    u->key_lo = 0;
    u->key_hi = u->kv_len;
    /* Rows of a mask have mask_stride words; bits beyond them count as 0. */
    if (c->opts->mask && u->q_len > 0 && (u->q_len - 1) / 32 >= c->opts->mask_stride)
        pkv__note_bad(c, PKV_BAD_MASK, seq, (int32_t)(c->opts->mask_stride * 32), u->q_len);
    return u->q_len > 0;
}
