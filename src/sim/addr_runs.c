/* Allocators over a set of free runs, O(log n) per operation.
 *
 *   by_addr: search tree by address, each node knows the longest run below it
 *            -> first fit, next fit, compact; merging; the longest free run
 *   by_len:  search tree by (length, address) -> best fit
 *
 * Trees are treaps whose priorities are a hash of the key, so their shape depends on what they hold
 * and not on how it came. A pool with k chunks taken has at most k + 1 free runs, which bounds the
 * nodes: every chunk is taken from the front of a run. Invariant: two free runs never touch.
 *
 * Next fit looks first at the runs that begin at or after the end of its last chunk. A run that has
 * grown over this point by merging begins before it, so its turn comes after the others. */
#include "sim/sim_internal.h"

#include <stdlib.h>

#define NONE (-1)

typedef struct run_node {
    uint64_t key;
    uint32_t priority;
    int32_t left, right;
    int32_t addr, len;
    int32_t longest; /* len here and below */
} run_node;

typedef struct run_tree {
    run_node *nodes; /* [cap]; free ones chained by `left` */
    int32_t root, unused, cap;
} run_tree;

typedef struct runs {
    int32_t n_slots, n_free, n_runs;
    int32_t next; /* end of the last chunk taken, for next fit */
    run_tree by_addr;
    run_tree by_len; /* of best fit only: cap 0 otherwise */
    pkv_allocator alloc;
} runs;

/* ---------------------------------------------------------------- the tree */

static uint32_t hash(uint64_t key)
{
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdULL; /* murmur3's finalizer */
    key ^= key >> 33;
    return (uint32_t)(key ^ key >> 17);
}

static int32_t longest_of(const run_tree *t, int32_t at)
{
    return at == NONE ? 0 : t->nodes[at].longest;
}

static void update(run_tree *t, int32_t at)
{
    run_node *n = &t->nodes[at];
    const int32_t below = pkv__max_i32(longest_of(t, n->left), longest_of(t, n->right));
    n->longest = pkv__max_i32(n->len, below);
}

/* Cut the tree at a key: what is below it, and the rest. */
static void split(run_tree *t, int32_t at, uint64_t key, int32_t *low, int32_t *high)
{
    if (at == NONE) {
        *low = *high = NONE;
    } else if (t->nodes[at].key < key) {
        split(t, t->nodes[at].right, key, &t->nodes[at].right, high);
        *low = at;
        update(t, at);
    } else {
        split(t, t->nodes[at].left, key, low, &t->nodes[at].left);
        *high = at;
        update(t, at);
    }
}

static int32_t join(run_tree *t, int32_t low, int32_t high)
{
    if (low == NONE) return high;
    if (high == NONE) return low;
    if (t->nodes[low].priority > t->nodes[high].priority) {
        t->nodes[low].right = join(t, t->nodes[low].right, high);
        update(t, low);
        return low;
    }
    t->nodes[high].left = join(t, low, t->nodes[high].left);
    update(t, high);
    return high;
}

static void tree_add(run_tree *t, uint64_t key, int32_t addr, int32_t len)
{
    const int32_t at = t->unused;
    PKV_ASSERT(at != NONE);
    t->unused = t->nodes[at].left;
    t->nodes[at] = (run_node){ key, hash(key), NONE, NONE, addr, len, len };
    int32_t low, high;
    split(t, t->root, key, &low, &high);
    t->root = join(t, join(t, low, at), high);
}

static void tree_remove(run_tree *t, uint64_t key)
{
    int32_t low, rest, at, high;
    split(t, t->root, key, &low, &rest);
    split(t, rest, key + 1, &at, &high);
    PKV_ASSERT(at != NONE && t->nodes[at].left == NONE && t->nodes[at].right == NONE);
    t->nodes[at].left = t->unused;
    t->unused = at;
    t->root = join(t, low, high);
}

/* The node with the largest key <= `key`, or the smallest one >= it. */
static int32_t tree_floor(const run_tree *t, uint64_t key)
{
    int32_t best = NONE;
    for (int32_t at = t->root; at != NONE;) {
        if (t->nodes[at].key <= key) best = at;
        at = t->nodes[at].key <= key ? t->nodes[at].right : t->nodes[at].left;
    }
    return best;
}
static int32_t tree_ceiling(const run_tree *t, uint64_t key)
{
    int32_t best = NONE;
    for (int32_t at = t->root; at != NONE;) {
        if (t->nodes[at].key >= key) best = at;
        at = t->nodes[at].key >= key ? t->nodes[at].left : t->nodes[at].right;
    }
    return best;
}

/* The leftmost run of at least h slots at or below a node. */
static int32_t leftmost(const run_tree *t, int32_t at, int32_t h)
{
    if (longest_of(t, at) < h) return NONE;
    for (;;) {
        const run_node *n = &t->nodes[at];
        if (longest_of(t, n->left) >= h) at = n->left;
        else if (n->len >= h) return at;
        else at = n->right;
    }
}

/* The leftmost of them with a key >= `key`. These keys are, per node on the way to `key` that is
 * not below it, the node and all to its right; the deepest such node has the lowest of them. */
static int32_t leftmost_from(const run_tree *t, uint64_t key, int32_t h)
{
    int32_t found = NONE;
    for (int32_t at = t->root; at != NONE;) {
        const run_node *n = &t->nodes[at];
        if (n->key < key) {
            at = n->right;
            continue;
        }
        if (n->len >= h || longest_of(t, n->right) >= h) found = at;
        at = n->left;
    }
    if (found == NONE || t->nodes[found].len >= h) return found;
    return leftmost(t, t->nodes[found].right, h);
}

static bool tree_init(run_tree *t, int32_t cap, const pkv_allocator *alloc)
{
    *t = (run_tree){ .root = NONE, .unused = 0, .cap = cap };
    t->nodes = pkv__alloc(alloc, (size_t)cap * sizeof(run_node), _Alignof(run_node));
    if (!t->nodes) return false;
    for (int32_t k = 0; k < cap; k++) t->nodes[k].left = k + 1 < cap ? k + 1 : NONE;
    return true;
}

/* ---------------------------------------------------------------- the set of runs */

static uint64_t len_key(int32_t addr, int32_t len)
{
    return (uint64_t)(uint32_t)len << 32 | (uint32_t)addr;
}

static void add_run(runs *a, int32_t addr, int32_t len)
{
    a->n_runs++;
    tree_add(&a->by_addr, (uint64_t)addr, addr, len);
    if (a->by_len.cap > 0) tree_add(&a->by_len, len_key(addr, len), addr, len);
}

static void remove_run(runs *a, int32_t addr, int32_t len)
{
    a->n_runs--;
    tree_remove(&a->by_addr, (uint64_t)addr);
    if (a->by_len.cap > 0) tree_remove(&a->by_len, len_key(addr, len));
}

static void runs_destroy(void *self)
{
    runs *a = self;
    if (!a) return;
    const pkv_allocator alloc = a->alloc;
    pkv__free(&alloc, a->by_len.nodes, (size_t)a->by_len.cap * sizeof(run_node));
    pkv__free(&alloc, a->by_addr.nodes, (size_t)a->by_addr.cap * sizeof(run_node));
    pkv__free(&alloc, a, sizeof(*a));
}

static pkv_status create(int32_t n_slots, int32_t max_chunks, bool best, const pkv_allocator *alloc,
                         void **out)
{
    runs *a = pkv__alloc(alloc, sizeof(*a), _Alignof(runs));
    if (!a) return PKV_E_NO_MEMORY;
    *a = (runs){ .n_slots = n_slots, .n_free = n_slots, .alloc = *alloc };
    const int32_t cap = pkv__min_i32(max_chunks, n_slots) + 1;
    if (!tree_init(&a->by_addr, cap, alloc) || (best && !tree_init(&a->by_len, cap, alloc))) {
        runs_destroy(a);
        return PKV_E_NO_MEMORY;
    }
    add_run(a, 0, n_slots);
    *out = a;
    return PKV_OK;
}

static pkv_status runs_create(int32_t n_slots, int32_t max_chunks, const pkv_allocator *alloc,
                              void **out)
{
    return create(n_slots, max_chunks, false, alloc, out);
}

static pkv_status best_create(int32_t n_slots, int32_t max_chunks, const pkv_allocator *alloc,
                              void **out)
{
    return create(n_slots, max_chunks, true, alloc, out);
}

static bool runs_fits_empty(const void *self, int32_t h)
{
    return h <= ((const runs *)self)->n_slots;
}

/* The front of a run. */
static bool take_from(runs *a, const run_tree *t, int32_t at, int32_t h, int32_t *addr, int32_t *q)
{
    if (at == NONE) return false;
    const int32_t from = t->nodes[at].addr, len = t->nodes[at].len;
    remove_run(a, from, len);
    if (len > h) add_run(a, from + h, len - h);
    a->n_free -= h;
    *addr = from;
    *q = h;
    return true;
}

static bool first_take(void *self, int32_t h, int32_t *addr, int32_t *q)
{
    runs *a = self;
    return take_from(a, &a->by_addr, leftmost(&a->by_addr, a->by_addr.root, h), h, addr, q);
}

static bool next_take(void *self, int32_t h, int32_t *addr, int32_t *q)
{
    runs *a = self;
    const run_tree *t = &a->by_addr;
    int32_t at = leftmost_from(t, (uint64_t)a->next, h);
    if (at == NONE) at = leftmost(t, t->root, h);
    if (!take_from(a, t, at, h, addr, q)) return false;
    a->next = *addr + h; /* at most n_slots, where no run begins */
    return true;
}

/* The shortest run that suffices, the lowest address among equals. */
static bool best_take(void *self, int32_t h, int32_t *addr, int32_t *q)
{
    runs *a = self;
    return take_from(a, &a->by_len, tree_ceiling(&a->by_len, len_key(0, h)), h, addr, q);
}

static void runs_give(void *self, int32_t addr, int32_t q)
{
    runs *a = self;
    const run_tree *t = &a->by_addr;
    int32_t from = addr, len = q;
    a->n_free += q;
    const int32_t left = tree_floor(t, (uint64_t)addr);
    const int32_t right = tree_ceiling(t, (uint64_t)addr);
    const int32_t right_len =
        right != NONE && t->nodes[right].addr == addr + q ? t->nodes[right].len : 0;
    if (left != NONE && t->nodes[left].addr + t->nodes[left].len == addr) {
        from = t->nodes[left].addr;
        len += t->nodes[left].len;
        remove_run(a, from, addr - from);
    }
    if (right_len > 0) remove_run(a, addr + q, right_len);
    add_run(a, from, len + right_len);
}

static int32_t runs_n_free(const void *self)
{
    return ((const runs *)self)->n_free;
}

static int32_t runs_largest_free(const void *self)
{
    const runs *a = self;
    return longest_of(&a->by_addr, a->by_addr.root);
}

static int32_t runs_n_free_chunks(const void *self)
{
    return ((const runs *)self)->n_runs;
}

static int by_address(const void *a, const void *b)
{
    const int32_t x = (*(pkv__sim_chunk *const *)a)->addr;
    const int32_t y = (*(pkv__sim_chunk *const *)b)->addr;
    return (x > y) - (x < y);
}

static int64_t runs_compact(void *self, pkv__sim_chunk **chunks, int32_t n)
{
    runs *a = self;
    int64_t n_moved = 0;
    int32_t end = 0;
    qsort(chunks, (size_t)n, sizeof(chunks[0]), by_address);
    for (int32_t k = 0; k < n; k++) {
        PKV_ASSERT(chunks[k]->addr >= end);
        if (chunks[k]->addr != end) n_moved += chunks[k]->q;
        chunks[k]->addr = end;
        end += chunks[k]->q;
    }
    PKV_ASSERT(end == a->n_slots - a->n_free);
    while (a->by_addr.root != NONE) {
        const run_node run = a->by_addr.nodes[a->by_addr.root];
        remove_run(a, run.addr, run.len);
    }
    if (a->n_free > 0) add_run(a, end, a->n_free);
    return n_moved;
}

const pkv__sim_addr_ops pkv__sim_addr_first_fit = {
    .name = "first-fit",
    .has_places = true,
    .create = runs_create,
    .destroy = runs_destroy,
    .fits_empty = runs_fits_empty,
    .take = first_take,
    .give = runs_give,
    .n_free = runs_n_free,
    .largest_free = runs_largest_free,
    .n_free_chunks = runs_n_free_chunks,
};

const pkv__sim_addr_ops pkv__sim_addr_best_fit = {
    .name = "best-fit",
    .has_places = true,
    .create = best_create,
    .destroy = runs_destroy,
    .fits_empty = runs_fits_empty,
    .take = best_take,
    .give = runs_give,
    .n_free = runs_n_free,
    .largest_free = runs_largest_free,
    .n_free_chunks = runs_n_free_chunks,
};

const pkv__sim_addr_ops pkv__sim_addr_next_fit = {
    .name = "next-fit",
    .has_places = true,
    .create = runs_create,
    .destroy = runs_destroy,
    .fits_empty = runs_fits_empty,
    .take = next_take,
    .give = runs_give,
    .n_free = runs_n_free,
    .largest_free = runs_largest_free,
    .n_free_chunks = runs_n_free_chunks,
};

const pkv__sim_addr_ops pkv__sim_addr_compact = {
    .name = "compact",
    .has_places = true,
    .create = runs_create,
    .destroy = runs_destroy,
    .fits_empty = runs_fits_empty,
    .take = first_take,
    .give = runs_give,
    .n_free = runs_n_free,
    .largest_free = runs_largest_free,
    .n_free_chunks = runs_n_free_chunks,
    .compact = runs_compact,
};
