/* The verdict on a batch without its K and V: the rows and keys that attention would cut, and the
 * ids that it would look up. */
#include "kernels/attn_cut.h"

static bool row_sees(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                     struct pkv__key_range keys)
{
    for (int32_t j = keys.lo, n; j < keys.hi; j += n) {
        n = pkv__min_i32(64, keys.hi - j);
        if (pkv__visible_bits(c, u, i, j, n)) return true;
    }
    return false;
}

/* Entries that hold a key of `keys` which some row sees. Without rows every key counts. */
static void check_entries(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                          struct pkv__key_range keys)
{
    const int32_t bt = c->k->block_tokens;
    for (int32_t j = keys.lo; j < keys.hi;) {
        const int32_t entry = j / bt, left = bt - j % bt;
        const int32_t end = left < keys.hi - j ? j + left : keys.hi;
        bool seen = u->row_lo == u->row_hi;
        for (int32_t i = u->row_lo; i < u->row_hi && !seen; i++)
            seen = row_sees(c, u, i, (struct pkv__key_range){ j, end });
        if (seen) pkv__checked_id(c, u, entry, c->k->n_blocks);
        j = end;
    }
}

static void check_sequence(const struct pkv__attn_call *c, struct pkv__attn_unit *u, bool all_keys)
{
    struct pkv__key_range keys = { 0, u->kv_len };
    if (!u->ids) return;
    if (!all_keys) keys = pkv__hull_of_rows(c, u, u->row_lo, u->row_hi);
    /* Rows that follow each other see ranges that do: each key of the hull is seen. */
    if (all_keys || pkv__rows_are_ranges(c)) u->row_hi = u->row_lo;
    check_entries(c, u, keys);
}

static pkv_status check_args(const pkv_logger *log, const pkv_attn_batch *batch,
                             const pkv_attn_opts *opts, int64_t n_rows, int32_t n_blocks,
                             int32_t block_tokens, const uint32_t *bad)
{
    if (!bad || (uintptr_t)bad % sizeof(*bad) != 0 || n_blocks < 1 || block_tokens < 1 ||
        n_rows < 0 || n_rows > INT32_MAX)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "table_check: no aligned report, or %d blocks of %d tokens, %lld rows",
                           n_blocks, block_tokens, (long long)n_rows);
    return pkv__check_batch_opts(log, batch, opts, n_rows, n_blocks);
}

pkv_status pkv_table_check(pkv_backend *be, const pkv_attn_batch *batch, const pkv_attn_opts *opts,
                           int64_t n_rows, int32_t n_blocks, int32_t block_tokens, uint32_t *bad,
                           void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_attn_opts none = PKV_ATTN_OPTS_INIT;
    const pkv_status status =
        check_args(&be->log, batch, opts ? opts : &none, n_rows, n_blocks, block_tokens, bad);
    if (status != PKV_OK) return status;

    if (be->device)
        return be->device->table_check(be, batch, opts, n_rows, n_blocks, block_tokens, bad,
                                       stream);
    const pkv_tensor3 q = { .n_rows = n_rows };
    const pkv_kv_view k = { .n_blocks = n_blocks, .block_tokens = block_tokens };
    uint32_t found[4] = { 0, 0, 0, 0 };
    const struct pkv__attn_call call = {
        .q = &q, .k = &k, .v = &k, .batch = batch, .opts = opts ? opts : &none, .bad = found
    };
    int32_t next_row = 0;
    for (int32_t b = 0; b < batch->n_seqs; b++) {
        struct pkv__attn_unit u = { .seq = b };
        if (pkv__cut_sequence(&call, &u, b, &next_row) || !opts) check_sequence(&call, &u, !opts);
    }
    return pkv__verdict(&be->log, bad, found);
}
