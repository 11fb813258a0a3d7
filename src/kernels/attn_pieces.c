/* Where the borders between pieces lie. Two walks over the list: one to know how much there is, one
 * to place the borders. */
#include "kernels/attn_pieces.h"
#include "kernels/attn_fold.h"

struct sum {
    uint64_t cost, largest_chunk, largest_tile; /* items of chunk and of whole kernels */
    int64_t n_items;
};

static struct sum sum_up(struct pkv__attn_walk *w)
{
    struct sum s = { 0 };
    pkv__attn_walk_to(w, (struct pkv__attn_mark){ 0 });
    for (; !pkv__attn_walk_done(w); pkv__attn_walk_next(w)) {
        const uint64_t one = pkv__attn_walk_cost(w);
        s.cost += one;
        uint64_t *largest = pkv__attn_walk_folds(w) ? &s.largest_chunk : &s.largest_tile;
        if (one > *largest) *largest = one;
        s.n_items++;
    }
    return s;
}

/* Floats of one state of the current span. */
static size_t slot_floats(const struct pkv__attn_walk *w)
{
    return pkv__state_floats(pkv__attn_walk_states(w), w->call->v->dim);
}

struct cutter {
    struct pkv__attn_piece *pieces;
    int32_t n; /* pieces that have begun */
    size_t slots_left, slots_used;
    struct pkv__attn_mark span; /* the last span that was cut, its part 0 */
    size_t span_slot;           /* where its states begin */
};

static bool same_span(const struct pkv__attn_mark *a, const struct pkv__attn_mark *b)
{
    return a->seq == b->seq && a->kv_head == b->kv_head;
}

/* Can a piece begin here? A span that is cut for the first time needs a slot for what lies before
 * and one for every item behind. */
static bool begin_piece(struct cutter *c, const struct pkv__attn_walk *w)
{
    struct pkv__attn_piece p = { .first = w->at };
    const bool again = c->n > 1 && c->pieces[c->n - 1].cut && same_span(&c->span, &w->at);
    p.cut = pkv__attn_walk_folds(w) && w->at.part > 0;
    p.opens = p.cut && !again;
    if (p.opens) {
        const size_t need = (size_t)(w->n_parts - w->at.part + 1) * slot_floats(w);
        if (need > c->slots_left) return false;
        c->slots_left -= need;
        c->span = w->at;
        c->span_slot = c->slots_used + slot_floats(w);
        c->slots_used += need;
    }
    if (p.cut) p.slot = c->span_slot + (size_t)(w->at.part - c->span.part) * slot_floats(w);
    c->pieces[c->n++] = p;
    return true;
}

static void place_borders(struct cutter *c, struct pkv__attn_walk *w, int32_t n_tasks,
                          uint64_t cost)
{
    const uint64_t n = (uint64_t)n_tasks, least = cost / n / PKV__SMALLEST_SHARE;
    uint64_t left = cost, piece = 0, share = cost / n / 2;
    pkv__attn_walk_to(w, (struct pkv__attn_mark){ 0 });
    begin_piece(c, w);
    for (; !pkv__attn_walk_done(w); pkv__attn_walk_next(w)) {
        const uint64_t one = pkv__attn_walk_cost(w);
        /* Is the share used up before the middle of this item? */
        const bool full = piece > 0 && piece + one / 2 >= share;
        if (full && c->n < n_tasks * PKV__PIECES_PER_TASK && begin_piece(c, w)) {
            left -= piece;
            piece = 0;
            share = left / n / 2 > least ? left / n / 2 : least;
        }
        c->pieces[c->n - 1].n_items++;
        piece += one;
    }
}

/* Spans of all heads are read best: blocks of all heads lie together, and to read 4 of 8 takes 5 %
 * longer (Zen 5, two threads, f16). So only as many groups as it takes to share the list fairly:
 * until an item is a tenth of a share, or all items are alike and there are a few for every task.
 */
static int32_t head_groups(const struct sum *all, int32_t n_tasks, int32_t n_heads)
{
    const uint64_t tasks = (uint64_t)n_tasks, items = (uint64_t)all->n_items;
    const bool alike = all->largest_chunk * items * 20 <= all->cost * 21;
    int32_t groups = 1;
    for (; groups < n_heads; groups++) {
        const uint64_t n = items * (uint64_t)groups, each = (n + tasks - 1) / tasks;
        if (all->largest_chunk * tasks * 10 <= all->cost * (uint64_t)groups) break;
        if (alike && each >= PKV__ITEMS_PER_TASK && each * tasks * 20 <= n * 21) break;
    }
    return groups;
}

int32_t pkv__attn_cut_pieces(struct pkv__attn_walk *w, int32_t n_tasks, size_t slots_floats,
                             struct pkv__attn_piece *pieces)
{
    w->grain = (struct pkv__attn_grain){ 1, 0 };
    pieces[0] = (struct pkv__attn_piece){ .n_items = INT64_MAX };
    if (n_tasks == 1) return 1;
    struct sum all = sum_up(w);
    if (all.n_items == 0) return 1;
    w->grain.head_groups = head_groups(&all, n_tasks, w->call->k->n_heads);
    const uint64_t tile = all.cost / (uint64_t)n_tasks / PKV__TILES_PER_TASK;
    if (all.largest_tile > tile) {
        w->grain.tile_cost = tile + 1;
        all = sum_up(w);
    }
    struct cutter c = { .pieces = pieces, .slots_left = slots_floats };
    place_borders(&c, w, n_tasks, all.cost);
    return c.n;
}
