/* Block tables for devices: what changed in a group's rows since the last delta, what a batch has
 * in common, and how kernels with other block sizes or ranks see a row.
 *
 *   sent 3   row [ 7 12  9  4 ]     lo 2, hi 4: entries 2 and 3 go out
 *   sent 4   row [ 7 12 ]           the row got shorter: entries 2 and 3 go out as zeros
 *
 * Per row it is kept how many entries the copy has (`sent`) and which of them are out of date
 * [lo, hi); a set of bits says in which rows to look. An entry that differs from the copy lies in
 * [lo, hi) or between the old and the new length. */
#include "blockmgr_internal.h"

static struct row_change *change_of(const pkv_blockmgr *m, int32_t g, int32_t seq_idx)
{
    return &all_changes(m)[(size_t)g * (size_t)m->max_seqs + (size_t)seq_idx];
}

static uint64_t *changed_rows(const pkv_blockmgr *m, int32_t g)
{
    return all_changed(m) + (size_t)g * m->seq_words;
}

/* What the copy of one row lacks; n 0: nothing. */
static pkv_table_range lacking(const pkv_blockmgr *m, int32_t g, int32_t seq_idx)
{
    const struct row_change *c = change_of(m, g, seq_idx);
    const int32_t len = pkv__row_len(m, &seqs_of(m)[seq_idx], g);
    int32_t lo = c->lo, hi = c->hi;
    if (len != c->sent) {
        lo = pkv__min_i32(lo, pkv__min_i32(len, c->sent));
        hi = pkv__max_i32(hi, pkv__max_i32(len, c->sent));
    }
    hi = pkv__min_i32(hi, pkv__max_i32(len, c->sent)); /* zeros there, and zeros in the copy */
    return (pkv_table_range){ seq_idx, lo, pkv__max_i32(hi - lo, 0) };
}

/* Row by row: how much there is to send; into `ranges` and `ids` if they are given. */
static pkv_delta collect(const pkv_blockmgr *m, int32_t g, pkv_table_range *ranges, int32_t *ids)
{
    pkv_delta d = PKV_DELTA_INIT;
    for (size_t w = 0; w < m->seq_words; w++) {
        for (uint64_t bits = changed_rows(m, g)[w]; bits != 0; bits &= bits - 1) {
            const int32_t idx = (int32_t)w * 64 + __builtin_ctzll(bits);
            const pkv_table_range r = lacking(m, g, idx);
            if (r.n == 0) continue;
            if (ranges) {
                const int32_t len = pkv__row_len(m, &seqs_of(m)[idx], g);
                const int32_t *row = row_at(m, g, idx);
                for (int32_t i = 0; i < r.n; i++)
                    ids[d.n_ids + i] = r.first + i < len ? row[r.first + i] : 0;
                ranges[d.n_ranges] = r;
            }
            d.n_ranges++;
            d.n_ids = r.n < INT32_MAX - d.n_ids ? d.n_ids + r.n : INT32_MAX; /* never fits */
        }
    }
    return d;
}

/* The copy is as the rows are now. */
static void consume(pkv_blockmgr *m, int32_t g)
{
    for (size_t w = 0; w < m->seq_words; w++) {
        for (uint64_t bits = changed_rows(m, g)[w]; bits != 0; bits &= bits - 1) {
            const int32_t idx = (int32_t)w * 64 + __builtin_ctzll(bits);
            *change_of(m, g, idx) =
                (struct row_change){ pkv__row_len(m, &seqs_of(m)[idx], g), INT32_MAX, 0 };
        }
        changed_rows(m, g)[w] = 0;
    }
}

pkv_status pkv_table_delta(pkv_blockmgr *mgr, int32_t group, pkv_table_range *ranges,
                           int32_t ranges_cap, int32_t *ids, int32_t ids_cap, pkv_delta *out)
{
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    if (!is_group(mgr, group) || ranges_cap < 0 || ids_cap < 0 || (ranges_cap > 0 && !ranges) ||
        (ids_cap > 0 && !ids))
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG,
                           "delta: no group %d, a negative capacity, or a null array", group);
    const pkv_delta d = collect(mgr, group, NULL, NULL);
    *out = d;
    if (d.n_ranges > ranges_cap || d.n_ids > ids_cap || d.n_ids == INT32_MAX)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT,
                           "delta: %d ranges and %d ids, room for %d and %d", d.n_ranges, d.n_ids,
                           ranges_cap, ids_cap);
    if (d.n_ranges > 0) (void)collect(mgr, group, ranges, ids);
    consume(mgr, group);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_table_resync(pkv_blockmgr *mgr, int32_t group)
{
    if (!mgr || !is_group(mgr, group)) return PKV_E_INVALID_ARG;
    for (int32_t i = 0; i < mgr->max_seqs; i++) {
        *change_of(mgr, group, i) = (struct row_change){ 0, INT32_MAX, 0 };
        if (pkv__row_len(mgr, &seqs_of(mgr)[i], group) > 0) set_add(changed_rows(mgr, group), i);
        else set_drop(changed_rows(mgr, group), i);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* ---------------------------------------------------------------- what a batch shares */

pkv_status pkv_seqs_common(const pkv_blockmgr *mgr, const pkv_seq *seqs, int32_t n, int32_t group,
                           int32_t *n_blocks)
{
    struct seq_rec *s = NULL;
    if (!mgr || !n_blocks || n < 0 || (n > 0 && !seqs) || !is_group(mgr, group) ||
        mgr->groups[group].kind == PKV_GROUP_STATE)
        return PKV_E_INVALID_ARG;
    for (int32_t i = 0; i < n; i++)
        if (!seq_find(mgr, seqs[i])) return PKV_E_STALE;
    int32_t limit = n > 0 ? INT32_MAX : 0;
    for (int32_t i = 0; i < n; i++) {
        const pkv_status status = pkv__seq_running(mgr, seqs[i], &s);
        if (status != PKV_OK) return status;
        limit = pkv__min_i32(limit, block_index(&mgr->groups[group], s->committed));
    }
    int32_t same = 0;
    for (; same < limit; same++) {
        const int32_t id = row_of(mgr, seq_find(mgr, seqs[0]), group)[same];
        int32_t i = 1;
        while (i < n && row_of(mgr, seq_find(mgr, seqs[i]), group)[same] == id) i++;
        if (id == 0 || i < n) break;
    }
    *n_blocks = same;
    return PKV_OK;
}

/* ---------------------------------------------------------------- kernel views */

/* A view of one group in numbers. Tokens go round the ranks in cycles of `cycle`. */
struct view {
    int32_t local_tokens; /* slots of a block on one rank */
    int32_t interleave, cycle, rank;
    int32_t sub_blocks; /* kernel blocks per block */
};

static pkv_status read_view(const pkv_blockmgr *m, int32_t group, const pkv_kernel_view *v,
                            struct view *out)
{
    if (v->struct_size != sizeof *v) return PKV_E_ABI;
    if (!is_group(m, group) || m->groups[group].kind == PKV_GROUP_STATE)
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG, "view: no group %d with tokens", group);
    const int32_t tokens = m->groups[group].block_tokens;
    if (v->kernel_tokens < 0 || v->cp_size < 1 || v->cp_rank < 0 || v->cp_rank >= v->cp_size ||
        v->cp_interleave < 1 || tokens % v->cp_size != 0 ||
        tokens % ((int64_t)v->cp_interleave * v->cp_size) != 0)
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG,
                           "view: %d tokens do not divide over rank %d of %d by %d", tokens,
                           v->cp_rank, v->cp_size, v->cp_interleave);
    out->local_tokens = tokens / v->cp_size;
    const int32_t kernel = v->kernel_tokens == 0 ? out->local_tokens : v->kernel_tokens;
    if (out->local_tokens % kernel != 0)
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG, "view: %d slots in blocks of %d",
                           out->local_tokens, kernel);
    out->sub_blocks = out->local_tokens / kernel;
    out->interleave = v->cp_interleave;
    out->cycle = v->cp_interleave * v->cp_size;
    out->rank = v->cp_rank;
    return PKV_OK;
}

/* How many of the first n_tokens of a block, or of a sequence, lie on the rank. */
static int32_t tokens_on_rank(const struct view *v, int32_t n_tokens)
{
    const int32_t rest = n_tokens % v->cycle - v->rank * v->interleave;
    return n_tokens / v->cycle * v->interleave + pkv__min_i32(pkv__max_i32(rest, 0), v->interleave);
}

pkv_status pkv_seq_view_slots(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group,
                              const pkv_kernel_view *view, int32_t first_token, int32_t n_tokens,
                              int64_t *slots)
{
    struct seq_rec *s = NULL;
    struct view v = { 0 };
    if (!mgr || !view || !slots) return PKV_E_INVALID_ARG;
    pkv_status status = read_view(mgr, group, view, &v);
    if (status != PKV_OK) return status;
    if (first_token < 0 || n_tokens < 0) return PKV_E_INVALID_ARG;
    status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    status = pkv__check_span(mgr, s, first_token, n_tokens);
    if (status != PKV_OK) return status;
    const struct group_rec *g = &mgr->groups[group];
    const int32_t *row = row_of(mgr, s, group);
    for (int32_t i = 0; i < n_tokens; i++) {
        const int32_t pos = first_token + i, offset = block_offset(g, pos);
        const int32_t id = row[block_index(g, pos)];
        const bool here = offset / v.interleave % (v.cycle / v.interleave) == v.rank;
        const int32_t local = offset / v.cycle * v.interleave + offset % v.interleave;
        slots[i] = id == 0 || !here ? -1 : (int64_t)id * v.local_tokens + local;
    }
    return PKV_OK;
}

pkv_status pkv_seq_view_row(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group,
                            const pkv_kernel_view *view, int32_t *ids, int32_t cap, int32_t *n,
                            int32_t *n_local)
{
    struct seq_rec *s = NULL;
    struct view v = { 0 };
    if (!mgr || !view || !n || !n_local) return PKV_E_INVALID_ARG;
    pkv_status status = read_view(mgr, group, view, &v);
    if (status != PKV_OK) return status;
    if (cap < 0 || (cap > 0 && !ids)) return PKV_E_INVALID_ARG;
    if ((int64_t)mgr->n_blocks * v.sub_blocks > INT32_MAX)
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG,
                           "view: %d blocks of %d sub-blocks have ids beyond 2^31", mgr->n_blocks,
                           v.sub_blocks);
    status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    const int64_t need = (int64_t)pkv__row_len(mgr, s, group) * v.sub_blocks;
    if (need > INT32_MAX) return PKV_E_INVALID_ARG;
    *n = (int32_t)need;
    if (*n > cap) return pkv__refuse(&mgr->log, PKV_E_LIMIT, "view: %d ids, room for %d", *n, cap);
    const int32_t *row = row_of(mgr, s, group);
    for (int32_t i = 0; i < *n; i++) {
        const int32_t id = row[i / v.sub_blocks];
        ids[i] = id == 0 ? 0 : id * v.sub_blocks + i % v.sub_blocks;
    }
    *n_local = tokens_on_rank(&v, s->committed);
    return PKV_OK;
}
