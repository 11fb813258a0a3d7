/* Cut a call into units and give each to a kernel.
 *
 * Lengths and tables are data from outside. Here every sequence gets the part of its row of ids and
 * of its rows of q that really exists; kernels then check single ids as they use them. */
#include "kernels/kernels_internal.h"

/* Rows of q. `*next_row` is the first row that no earlier sequence has: were a sequence to start
 * below it, it would overwrite rows of a sequence that is right. */
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

void pkv__attn_cut(const struct pkv__attn_call *c, struct pkv__attn_unit *u, int32_t *next_row)
{
    cut_rows(c, u, next_row);
    cut_keys(c, u);
    u->pos0 = c->batch->kv_pos0 ? c->batch->kv_pos0[u->seq] : 0;
}

void pkv__attn_work(const pkv_backend *be, const struct pkv__attn_call *c, void *workspace)
{
    int32_t next_row = 0;
    for (int32_t b = 0; b < c->batch->n_seqs; b++) {
        struct pkv__attn_unit u = { .seq = b, .n_kv_heads = 1 };
        pkv__attn_cut(c, &u, &next_row);
        if (u.q_len == 0) continue;
        const struct pkv__attn_kernel *kernel = pkv__attn_choose(&be->kernels, c, u.q_len, NULL);
        u.row_hi = u.q_len;
        u.key_hi = u.kv_len;
        for (u.kv_head = 0; u.kv_head < c->k->n_heads; u.kv_head++)
            kernel->fn[c->batch->table ? PKV__PAGED : PKV__CONTIGUOUS](c, &u, workspace);
    }
}
