/* The list of items, cut into pieces of about equal cost. */
#ifndef PKV_ATTN_PIECES_H
#define PKV_ATTN_PIECES_H

#include "kernels/attn_items.h"

/* Tasks take pieces as they come free. A piece is 1 / (2 n_tasks) of what is left, so that the
 * first ones are large and a thread that is held up on a late one delays the end by little; no
 * piece is smaller than 1 / SMALLEST_SHARE of what a task does in all. That makes 2 ln(16) + 2
 * pieces per task, and a border that does not fall between two items moves to the next one. */
enum {
    PKV__SMALLEST_SHARE = 32,
    PKV__PIECES_PER_TASK = 8,
    PKV__ITEMS_PER_TASK = 4, /* at least, where heads can be cut that small */
    PKV__TILES_PER_TASK = 16 /* smaller tiles cost more: they read K and V once each */
};

struct pkv__attn_piece {
    struct pkv__attn_mark first; /* its first item */
    int64_t n_items;
    bool cut;    /* the first item belongs to a span that an earlier piece begins */
    bool opens;  /* cut, and no piece before it is cut within that span */
    size_t slot; /* if cut: where its states go, in floats; if it opens, the state of what lies
                    before goes right before that */
};

/* Cut the list of the walk into pieces[0 .. n), n <= n_tasks * PKV__PIECES_PER_TASK, and set its
 * grain. Spans are cut as long as `slots_floats` has room for their states. Returns n, >= 1;
 * 1 without looking at a single item if n_tasks is 1. */
int32_t pkv__attn_cut_pieces(struct pkv__attn_walk *w, int32_t n_tasks, size_t slots_floats,
                             struct pkv__attn_piece *pieces);

#endif
