/* Walking the list of items. */
#include "kernels/attn_items.h"
#include "kernels/attn_cut.h"

enum {
    /* States of one unit, at most, unless one kv head alone has more: 32 heads of 16 rows, or 256
     * KiB of o at dim 128, which still fits the second level cache. */
    UNIT_STATES = 512,
    /* Rows x group of short sequences of more than one row: pkv__attn_is_short. */
    SHORT_STATES = 32,
    /* Unit of whole kernels that do not mind, in rows x group. */
    ANY_QUERIES = 64,
    /* Tiles may shrink to an eighth of the best one, which reads K and V eight times as often. */
    SMALLEST_TILE = 8,
    /* A product of a row with a key costs 1. To read the key, once for all rows, costs as much as
     * 8, and a call as much as 16 keys: roughly measured, pieces that are taken as threads come
     * free even out the rest. */
    COST_READ = 8,
    COST_CALL = 16
};

/* Rows x group of short sequences, at most. */
static int32_t short_states(int32_t group)
{
    return pkv__max_i32(group, SHORT_STATES);
}

int32_t pkv__attn_unit_states(int32_t n_q_heads, int32_t n_kv_heads)
{
    const int32_t one_head = short_states(n_q_heads / n_kv_heads);
    const int64_t all_heads = (int64_t)one_head * n_kv_heads;
    return all_heads <= UNIT_STATES ? (int32_t)all_heads : pkv__max_i32(one_head, UNIT_STATES);
}

static int32_t first_chunk(const struct pkv__attn_walk *w)
{
    return w->hull.lo / PKV__CHUNK_TOKENS;
}

/* Few heads in a span where the list would be too short to share, and no more than a unit holds. */
static void cut_chunks(struct pkv__attn_walk *w)
{
    const int32_t n_heads = w->call->k->n_heads;
    const int32_t one_head = w->unit.q_len * w->call->group;
    const int32_t most = pkv__max_i32(1, UNIT_STATES / one_head);
    PKV_ASSERT(one_head <= short_states(w->call->group));
    w->span_heads = pkv__min_i32(most, pkv__ceil_div_i32(n_heads, w->grain.head_groups));
    w->hull = pkv__hull_of_rows(w->call, &w->unit, 0, w->unit.q_len);
    w->n_parts = w->hull.lo == w->hull.hi /* one item all the same, to write the rows */
                     ? 1
                     : pkv__ceil_div_i32(w->hull.hi, PKV__CHUNK_TOKENS) - first_chunk(w);
}

/* Of so many keys of one kv head for so many pairs of row and query head. */
static uint64_t cost_of(int64_t n_keys, int64_t n_queries)
{
    return (uint64_t)(n_keys + COST_CALL) * (uint64_t)(n_queries + COST_READ);
}

static void cut_tiles(struct pkv__attn_walk *w)
{
    const int32_t best = w->kernel->unit_queries ? w->kernel->unit_queries : ANY_QUERIES;
    const int32_t least = pkv__max_i32(1, best / SMALLEST_TILE);
    int32_t queries = best;
    while (w->grain.tile_cost && queries > least &&
           cost_of(w->unit.kv_len, queries) > w->grain.tile_cost)
        queries -= least;
    w->span_heads = 1;
    w->part_rows = pkv__min_i32(w->unit.q_len, pkv__max_i32(1, queries / w->call->group));
    w->n_parts = pkv__ceil_div_i32(w->unit.q_len, w->part_rows);
}

static void make_item(struct pkv__attn_walk *w)
{
    struct pkv__attn_unit *u = &w->unit;
    u->kv_head = w->at.kv_head;
    u->n_kv_heads = pkv__min_i32(w->span_heads, w->call->k->n_heads - u->kv_head);
    if (!pkv__attn_walk_folds(w)) {
        u->row_lo = w->at.part * w->part_rows;
        u->row_hi = pkv__min_i32(u->q_len, u->row_lo + w->part_rows);
        return;
    }
    u->row_lo = 0;
    u->row_hi = u->q_len;
    u->key_lo = u->key_hi = 0;
    if (w->hull.lo == w->hull.hi) return;
    u->key_lo = (first_chunk(w) + w->at.part) * PKV__CHUNK_TOKENS;
    u->key_hi =
        u->kv_len - u->key_lo > PKV__CHUNK_TOKENS ? u->key_lo + PKV__CHUNK_TOKENS : u->kv_len;
}

/* Go to sequence at.seq, or the first behind it that has rows. */
static void enter_sequence(struct pkv__attn_walk *w)
{
    for (; !pkv__attn_walk_done(w); w->at.seq++, w->at.next_row = w->after) {
        w->unit = (struct pkv__attn_unit){ 0 };
        w->after = w->at.next_row;
        if (!pkv__cut_sequence(w->call, &w->unit, w->at.seq, &w->after)) continue;
        w->kernel = w->only ? w->only : pkv__attn_choose(w->kernels, w->call, w->unit.q_len, NULL);
        if (pkv__attn_walk_folds(w)) cut_chunks(w);
        else cut_tiles(w);
        make_item(w);
        return;
    }
}

void pkv__attn_walk_to(struct pkv__attn_walk *w, struct pkv__attn_mark at)
{
    w->at = at;
    enter_sequence(w);
}

void pkv__attn_walk_next(struct pkv__attn_walk *w)
{
    if (++w->at.part < w->n_parts) {
        make_item(w);
        return;
    }
    w->at.part = 0;
    w->at.kv_head += w->unit.n_kv_heads;
    if (w->at.kv_head < w->call->k->n_heads) {
        make_item(w);
        return;
    }
    w->at = (struct pkv__attn_mark){ w->at.seq + 1, w->after, 0, 0 };
    enter_sequence(w);
}

uint64_t pkv__attn_walk_cost(const struct pkv__attn_walk *w)
{
    const struct pkv__attn_unit *u = &w->unit;
    const int32_t rows = u->row_hi - u->row_lo;
    struct pkv__key_range keys = w->hull;
    if (!pkv__attn_walk_folds(w)) keys = pkv__hull_of_rows(w->call, u, u->row_lo, u->row_hi);
    else if (keys.lo < u->key_lo) keys.lo = u->key_lo;
    if (keys.hi > u->key_hi) keys.hi = u->key_hi;
    return cost_of(keys.hi - keys.lo, (int64_t)rows * w->call->group) * (uint64_t)u->n_kv_heads;
}
