/* Rows: one block table per sequence and group.
 *
 *   FULL     [ 7 | 12 | 3 | 9 ]
 *   SLIDING  [ 4 |  0 | 0 | 8 ]     sinks, then what windows have released, then what a query sees
 *   STATE    [ 5 | 6 ]              state_blocks ids, or none
 *
 * A row has ceil(reserved / block_tokens) entries, zeros behind. While a sequence is suspended its
 * entries may be negative: ids of host blocks. */
#include "blockmgr_internal.h"

enum { PREFETCH_AHEAD = 8 }; /* blocks */

int32_t pkv__first_seen(const struct group_rec *g, int32_t pos)
{
    switch (g->kind) {
    case PKV_GROUP_SLIDING:
        return pkv__max_i32(0, pos - g->window_tokens + 1);
    case PKV_GROUP_CHUNKED:
        return pos - pos % g->window_tokens;
    case PKV_GROUP_STATE:
        return pos;
    case PKV_GROUP_FULL:
        break;
    }
    return 0;
}

int32_t pkv__gap_end(const struct group_rec *g, int32_t settled, int32_t rollback)
{
    if (g->window_tokens == 0) return 0;
    const int32_t from = pkv__max_i32(0, settled - rollback);
    return pkv__max_i32(g->sink_blocks, block_index(g, pkv__first_seen(g, from)));
}

int32_t pkv__group_blocks(const struct group_rec *g, int32_t gap_end, int32_t reserved)
{
    if (g->kind == PKV_GROUP_STATE) return reserved > 0 ? g->n_slots : 0;
    return blocks_for(g, reserved) - pkv__max_i32(0, gap_end - g->sink_blocks);
}

int32_t pkv__blocks_held(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g,
                         int32_t reserved)
{
    const struct group_rec *grp = &m->groups[g];
    return pkv__group_blocks(grp, grp->window_tokens == 0 ? 0 : seq_group(m, s, g)->gap_end,
                             reserved);
}

void pkv__row_changed(pkv_blockmgr *m, int32_t g, int32_t seq_idx, int32_t at)
{
    struct row_change *c = &all_changes(m)[(size_t)g * (size_t)m->max_seqs + (size_t)seq_idx];
    if (at < c->lo) c->lo = at;
    if (at >= c->hi) c->hi = at + 1;
    set_add(all_changed(m) + (size_t)g * m->seq_words, seq_idx);
}

int32_t pkv__row_len(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g)
{
    const struct group_rec *grp = &m->groups[g];
    if (s->life != SEQ_OPEN || s->swap != PKV_SEQ_RUNNING) return 0;
    if (grp->kind == PKV_GROUP_STATE) return row_of(m, s, g)[0] != 0 ? grp->n_slots : 0;
    return blocks_for(grp, s->reserved);
}

/* Cut one row to n_blocks entries, tail first. */
static void cut_row(pkv_blockmgr *m, struct seq_rec *s, int32_t g, int32_t n_blocks)
{
    const struct group_rec *grp = &m->groups[g];
    const struct block_rec *blocks = blocks_of(m);
    const int32_t idx = seq_index(m, s);
    int32_t *row = row_at(m, g, idx);
    const int32_t n = row_entries(grp, s->reserved);
    for (int32_t i = n - 1; i >= n_blocks; i--) {
        if (i >= PREFETCH_AHEAD) PKV_PREFETCH(&blocks[row[i - PREFETCH_AHEAD]]);
        if (row[i] == 0) continue;
        pkv__block_unref(m, row[i]);
        if (s->life == SEQ_OPEN) row[i] = 0; /* a closing one needs the ids of what settles yet */
    }
    if (n <= n_blocks) return;
    pkv__row_changed(m, g, idx, n_blocks);
    pkv__row_changed(m, g, idx, n - 1);
}

void pkv__rows_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        if (grp->kind == PKV_GROUP_STATE) {
            if (n_tokens == 0) cut_row(m, s, g, 0);
            continue;
        }
        const int32_t n_blocks = blocks_for(grp, n_tokens);
        cut_row(m, s, g, n_blocks);
        if (grp->window_tokens == 0) continue;
        struct seq_group *sg = seq_group(m, s, g);
        sg->gap_end = pkv__min_i32(sg->gap_end, n_blocks);
        if (n_tokens <= sg->own_from - block_offset(grp, sg->own_from)) sg->own_from = 0;
        else sg->own_from = pkv__min_i32(sg->own_from, n_tokens);
    }
}

void pkv__windows_slide(pkv_blockmgr *m, struct seq_rec *s)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        if (grp->window_tokens == 0) continue;
        const int32_t end = pkv__gap_end(grp, s->settled, m->rollback_tokens);
        const int32_t idx = seq_index(m, s);
        struct seq_group *sg = seq_group(m, s, g);
        int32_t *row = row_at(m, g, idx);
        for (int32_t i = pkv__max_i32(sg->gap_end, grp->sink_blocks); i < end; i++) {
            if (row[i] == 0) continue;
            pkv__block_unref(m, row[i]);
            row[i] = 0;
            pkv__row_changed(m, g, idx, i);
        }
        sg->gap_end = pkv__max_i32(sg->gap_end, pkv__min_i32(end, blocks_for(grp, s->reserved)));
    }
}

void pkv__unit_blocks(const pkv_blockmgr *m, const struct seq_rec *s, int32_t u, int32_t *blocks)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        if (grp->kind == PKV_GROUP_STATE) {
            for (int32_t k = 0; k < grp->n_slots; k++) blocks[grp->slot + k] = 0;
            continue;
        }
        const int32_t at = grp->ratio == 1 ? u : (u + 1) / grp->ratio - 1;
        bool ends = grp->ratio == 1 || (u + 1) % grp->ratio == 0;
        if (grp->window_tokens > 0) {
            const int32_t own_from = seq_group(m, s, g)->own_from;
            ends = ends && (own_from == 0 || at > block_index(grp, own_from));
        }
        blocks[grp->slot] = ends ? row_of(m, s, g)[at] : 0;
    }
}

pkv_status pkv__seq_running(const pkv_blockmgr *m, pkv_seq seq, struct seq_rec **out)
{
    struct seq_rec *s = seq_find(m, seq);
    if (!s) return PKV_E_STALE;
    if (s->swap != PKV_SEQ_RUNNING)
        return pkv__refuse(&m->log, PKV_E_STATE, "sequence %d is suspended", seq_index(m, s));
    *out = s;
    return PKV_OK;
}

pkv_status pkv_seq_row(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group, const int32_t **ids,
                       int32_t *n_ids)
{
    struct seq_rec *s = NULL;
    if (!mgr || !ids || !n_ids || !is_group(mgr, group)) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    *ids = row_of(mgr, s, group);
    *n_ids = pkv__row_len(mgr, s, group);
    return PKV_OK;
}

pkv_status pkv_blockmgr_rows(const pkv_blockmgr *mgr, int32_t group, const int32_t **rows,
                             int32_t *row_width)
{
    if (!mgr || !rows || !row_width || !is_group(mgr, group)) return PKV_E_INVALID_ARG;
    *rows = row_at(mgr, group, 0);
    *row_width = mgr->groups[group].row_width;
    return PKV_OK;
}

pkv_status pkv__check_span(const pkv_blockmgr *m, const struct seq_rec *s, int32_t first_token,
                           int32_t n_tokens)
{
    if ((int64_t)first_token + n_tokens <= s->reserved) return PKV_OK;
    return pkv__refuse(&m->log, PKV_E_INVALID_ARG, "slots of tokens [%d, %lld), %d are reserved",
                       first_token, (long long)first_token + n_tokens, s->reserved);
}

pkv_status pkv_seq_slots(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group, int32_t first_token,
                         int32_t n_tokens, int64_t *slots)
{
    struct seq_rec *s = NULL;
    if (!mgr || !slots || !is_group(mgr, group) || first_token < 0 || n_tokens < 0 ||
        mgr->groups[group].kind == PKV_GROUP_STATE)
        return PKV_E_INVALID_ARG;
    pkv_status status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    status = pkv__check_span(mgr, s, first_token, n_tokens);
    if (status != PKV_OK) return status;
    const struct group_rec *g = &mgr->groups[group];
    const int32_t *row = row_of(mgr, s, group);
    for (int32_t i = 0; i < n_tokens; i++) {
        const int32_t pos = first_token + i, id = row[block_index(g, pos)];
        slots[i] = id == 0 ? -1 : (int64_t)id * g->block_tokens + block_offset(g, pos);
    }
    return PKV_OK;
}

pkv_status pkv_seq_info(const pkv_blockmgr *mgr, pkv_seq seq, pkv_seq_info_t *out)
{
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    const struct seq_rec *s = seq_find(mgr, seq);
    if (!s) return PKV_E_STALE;
    pkv_seq_info_t info = { .struct_size = sizeof *out,
                            .settled = s->settled,
                            .committed = s->committed,
                            .reserved = s->reserved,
                            .row_idx = seq_index(mgr, s),
                            .n_indexed = s->n_units,
                            .n_pending = s->n_pending,
                            .state = (pkv_seq_state)s->swap,
                            .epoch = s->epoch,
                            .ns = pkv__ns_handle(mgr, s->ns) };
    for (int32_t g = 0; g < mgr->n_groups; g++) {
        const struct group_rec *grp = &mgr->groups[g];
        const int32_t *row = row_of(mgr, s, g);
        const int32_t n = row_entries(grp, s->reserved);
        for (int32_t i = 0; i < n; i++) {
            info.n_blocks += row[i] > 0;
            info.blocks_if_closed += row[i] > 0 && blocks_of(mgr)[row[i]].ref == 1;
        }
    }
    *out = info;
    return PKV_OK;
}
