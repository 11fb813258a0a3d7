/* See op_world.h: what the two sides answered, and all that can be asked of them after a call. */
#include "op_world.h"

#include <string.h>

/* Calls that ask only: they leave the digest alone. */
static const bool question[OP_N_FN] = {
    [OP_row] = true,         [OP_slots] = true,      [OP_info] = true,
    [OP_probe] = true,       [OP_need] = true,       [OP_hold_blocks] = true,
    [OP_seqs_common] = true, [OP_view_slots] = true, [OP_view_row] = true,
};

bool op_agree(world *w, enum op_fn fn, pkv_status want, pkv_status got)
{
    op_tell(w, " -> %s\n", pkv_status_name(want));
    if (w->run->cover) w->run->cover->status[fn][want]++;
    if (!w->run->alone && want != got)
        op_fail(w, "status %s, expected %s", pkv_status_name(got), pkv_status_name(want));
    w->same_digest = want != PKV_OK || question[fn];
    return want == PKV_OK && !w->run->alone && w->ok;
}

void op_compare_work(world *w, const lists *lo, const pkv_block_work *wo, const lists *lm,
                     const pkv_block_work *wm, bool ok)
{
    if (w->run->alone) return;
    if (wo->n_zero != wm->n_zero || wo->n_copy != wm->n_copy) {
        op_fail(w, "work: %d zeros and %d copies, expected %d and %d", wm->n_zero, wm->n_copy,
                wo->n_zero, wo->n_copy);
        return;
    }
    size_t nz = ok ? (size_t)wo->n_zero : sizeof lo->zero / sizeof lo->zero[0];
    size_t nc = ok ? (size_t)wo->n_copy : sizeof lo->copy / sizeof lo->copy[0];
    for (size_t i = 0; i < nz; i++)
        if (lo->zero[i] != lm->zero[i])
            op_fail(w, "zero[%zu] is %d, expected %d", i, lm->zero[i], lo->zero[i]);
    for (size_t i = 0; i < nc; i++) {
        const pkv_block_copy *a = &lo->copy[i], *b = &lm->copy[i];
        if (memcmp(a, b, sizeof *a))
            op_fail(w, "copy[%zu] is %d->%d n %d group %d, expected %d->%d n %d group %d", i,
                    b->src, b->dst, b->n_tokens, b->group, a->src, a->dst, a->n_tokens, a->group);
    }
}

void op_compare_match(world *w, const pkv_match *a, const pkv_match *b)
{
    if (w->run->alone) return;
    if (a->claimed != b->claimed || a->claimed_cached != b->claimed_cached ||
        a->copied != b->copied || a->struct_size != b->struct_size)
        op_fail(w, "match: claimed %d cached %d copied %d, expected %d %d %d", b->claimed,
                b->claimed_cached, b->copied, a->claimed, a->claimed_cached, a->copied);
    for (int g = 0; g < w->n_groups; g++)
        if (a->longest[g] != b->longest[g] || a->stop_reason[g] != b->stop_reason[g])
            op_fail(w, "match, group %d: longest %d stop %d, expected %d %d", g, b->longest[g],
                    (int)b->stop_reason[g], a->longest[g], (int)a->stop_reason[g]);
}

void op_compare_ids(world *w, const char *what, const int32_t *a, const int32_t *b, int n)
{
    if (w->run->alone) return;
    for (int i = 0; i < n; i++)
        if (a[i] != b[i]) op_fail(w, "%s: [%d] is %d, expected %d", what, i, b[i], a[i]);
}

/* ---------------------------------------------------------------- everything */

typedef struct table {
    const int32_t *rows;
    int32_t width;
} table;

static void compare_info(world *w, int idx)
{
    pkv_seq h = op_handle_of(w, idx);
    pkv_seq_info_t io = PKV_SEQ_INFO_INIT, im = PKV_SEQ_INFO_INIT;
    if (or_info(w->o, h, &io) != PKV_OK || pkv_seq_info(w->mgr, h, &im) != PKV_OK) {
        op_fail(w, "sequence %d is unknown", idx);
        return;
    }
    if (!memcmp(&io, &im, sizeof io)) return;
    op_fail(w,
            "sequence %d: settled %d committed %d reserved %d row %d blocks %d if_closed %d "
            "indexed %d pending %d state %d epoch %u ns %llx, expected %d %d %d %d %d %d %d %d %d "
            "%u %llx",
            idx, im.settled, im.committed, im.reserved, im.row_idx, im.n_blocks,
            im.blocks_if_closed, im.n_indexed, im.n_pending, (int)im.state, im.epoch,
            (unsigned long long)im.ns.v, io.settled, io.committed, io.reserved, io.row_idx,
            io.n_blocks, io.blocks_if_closed, io.n_indexed, io.n_pending, (int)io.state, io.epoch,
            (unsigned long long)io.ns.v);
}

static void compare_row(world *w, int idx, int g, const table *t)
{
    const or_seq *s = &w->o->seq[idx];
    const int32_t *ids;
    int32_t n;
    if (pkv_seq_row(w->mgr, op_handle_of(w, idx), g, &ids, &n) != PKV_OK) {
        op_fail(w, "row of sequence %d, group %d, is refused", idx, g);
        return;
    }
    if (n != s->n_row[g] || ids != t->rows + (ptrdiff_t)idx * t->width)
        op_fail(w, "row of sequence %d, group %d: %d ids, expected %d", idx, g, n, s->n_row[g]);
    for (int i = 0; i < t->width && w->ok; i++)
        if (ids[i] != (i < s->n_row[g] ? s->row[g][i] : 0))
            op_fail(w, "row of sequence %d, group %d: [%d] is %d, expected %d", idx, g, i, ids[i],
                    i < s->n_row[g] ? s->row[g][i] : 0);
}

static void compare_rows(world *w)
{
    table t[PKV_MAX_GROUPS];
    for (int g = 0; g < w->n_groups; g++) {
        const int32_t tokens = w->group[g].block_tokens;
        if (pkv_blockmgr_rows(w->mgr, g, &t[g].rows, &t[g].width) != PKV_OK ||
            t[g].width < w->group[g].state_blocks ||
            (tokens && t[g].width * tokens < w->cfg.max_seq_tokens)) {
            op_fail(w, "rows of group %d", g);
            return;
        }
    }
    for (int i = 0; i < w->cfg.max_seqs && w->ok; i++) {
        if (!w->o->seq[i].open) continue;
        compare_info(w, i);
        bool there = w->o->seq[i].state == PKV_SEQ_RUNNING;
        for (int g = 0; g < w->n_groups && there && w->ok; g++) compare_row(w, i, g, &t[g]);
    }
}

#define COUNTS(X)                                                                                  \
    X(block_tokens)                                                                                \
    X(n_blocks)                                                                                    \
    X(free_blocks)                                                                                 \
    X(active_blocks)                                                                               \
    X(cached_blocks)                                                                               \
    X(limbo_blocks)                                                                                \
    X(quarantine_blocks)                                                                           \
    X(protected_blocks)                                                                            \
    X(open_seqs)                                                                                   \
    X(closing_seqs)                                                                                \
    X(open_namespaces)                                                                             \
    X(open_steps)                                                                                  \
    X(open_holds)                                                                                  \
    X(free_host_blocks)                                                                            \
    X(raw_refs)                                                                                    \
    X(nodes)                                                                                       \
    X(extras)                                                                                      \
    X(epoch)                                                                                       \
    X(late_posts)                                                                                  \
    X(query_tokens)                                                                                \
    X(hit_tokens)                                                                                  \
    X(taken_blocks)                                                                                \
    X(evicted_blocks)                                                                              \
    X(copies)                                                                                      \
    X(withdrawn)                                                                                   \
    X(unindexed_units)

static void compare_stats(world *w)
{
    pkv_blockmgr_stats_t so = PKV_BLOCKMGR_STATS_INIT, sm = PKV_BLOCKMGR_STATS_INIT;
    or_stats(w->o, &so);
    pkv_blockmgr_stats(w->mgr, &sm);
#define COMPARE(name)                                                                              \
    if (so.name != sm.name)                                                                        \
        op_fail(w, "statistics, " #name ": %lld, expected %lld", (long long)sm.name,               \
                (long long)so.name);
    COUNTS(COMPARE)
#undef COMPARE
}

void op_compare_state(world *w)
{
    const char *broken = or_check(w->o);
    if (broken) op_fail(w, "oracle: %s", broken);
    if (w->run->alone || !w->ok) return;
    if (pkv_blockmgr_check(w->mgr, 3) != PKV_OK) op_fail(w, "the manager's check at level 3");
    compare_rows(w);
    if (w->ok) compare_stats(w);
    uint8_t digest[16];
    pkv_blockmgr_digest(w->mgr, digest);
    if (w->same_digest && memcmp(digest, w->digest, 16))
        op_fail(w, "a refusal or a question changed the digest");
    memcpy(w->digest, digest, 16);
    for (int i = 0; i < 16; i++) w->run->digests = (w->run->digests ^ digest[i]) * 0x100000001b3u;
}
