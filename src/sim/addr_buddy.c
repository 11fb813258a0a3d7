/* Buddy allocator over a pool of any size, lowest address first, O(log C) per operation.
 *
 *   C = 15728:  | 8192      | 4096  | 2048 |1024|256|64|32|16|   roots, each aligned to its size
 *
 * The buddy of a chunk is at address XOR size; chunks merge only up to the size of their root. Per
 * order there is a tree of bitmaps over the chunk numbers (address >> order): level 0 has a bit per
 * free chunk, level l + 1 a bit per non-zero word of level l, so the lowest free chunk is found by
 * one count-trailing-zeros per level. A list per order, sorted or not, costs a walk per merge or
 * per allocation.
 *
 * A word means something only while its bit one level up is set (the top word always does), so
 * nothing but the top words has to be cleared at the start: a pool of 2^31 slots costs half a GB of
 * addresses and touches a few pages of it. Invariant: no two free buddies below the size of their
 * root. */
#include "sim/sim_internal.h"

#define N_ORDERS 31
#define N_LEVELS 6 /* 64^6 > 2^31 */

typedef struct chunk_set {
    uint64_t *level[N_LEVELS];
    int n_levels;
    int32_t n_free;
} chunk_set;

typedef struct buddy {
    int32_t n_slots, n_free;
    chunk_set order[N_ORDERS];
    uint64_t *words;
    size_t bytes;
    int64_t n_visits; /* words looked at or changed */
    pkv_allocator alloc;
} buddy;

static size_t words_of(int64_t n_bits)
{
    return (size_t)((n_bits + 63) / 64);
}

static void set_add(buddy *b, int order, int64_t chunk)
{
    chunk_set *set = &b->order[order];
    bool valid = true;
    for (int l = set->n_levels - 1; l >= 0; l--) {
        const int64_t at = chunk >> (6 * l);
        const uint64_t bit = 1ULL << (at & 63);
        uint64_t *word = &set->level[l][at >> 6];
        const uint64_t before = valid ? *word : 0;
        valid = (before & bit) != 0;
        *word = before | bit;
        b->n_visits++;
    }
    set->n_free++;
}

static bool set_has(buddy *b, int order, int64_t chunk)
{
    const chunk_set *set = &b->order[order];
    for (int l = set->n_levels - 1; l >= 0; l--) {
        const int64_t at = chunk >> (6 * l);
        b->n_visits++;
        if (!(set->level[l][at >> 6] >> (at & 63) & 1)) return false;
    }
    return true;
}

static void set_remove(buddy *b, int order, int64_t chunk)
{
    chunk_set *set = &b->order[order];
    for (int l = 0; l < set->n_levels; l++) {
        set->level[l][chunk >> 6] &= ~(1ULL << (chunk & 63));
        b->n_visits++;
        if (set->level[l][chunk >> 6] != 0) break;
        chunk >>= 6;
    }
    set->n_free--;
}

static int64_t set_lowest(buddy *b, int order)
{
    const chunk_set *set = &b->order[order];
    PKV_ASSERT(set->n_free > 0);
    int64_t chunk = 0;
    for (int l = set->n_levels - 1; l >= 0; l--) {
        chunk = chunk << 6 | __builtin_ctzll(set->level[l][chunk]);
        b->n_visits++;
    }
    return chunk;
}

/* Lay out the bitmaps of all orders; with words NULL only count. */
static size_t lay_out(buddy *b, uint64_t *words)
{
    size_t used = 0;
    for (int k = 0; k < N_ORDERS; k++) {
        int64_t n_bits = b->n_slots >> k;
        chunk_set *set = &b->order[k];
        set->n_levels = 0;
        while (n_bits > 0) {
            const size_t n_words = words_of(n_bits);
            set->level[set->n_levels++] = words ? words + used : NULL;
            used += n_words;
            if (n_words == 1) break;
            n_bits = (int64_t)n_words;
        }
    }
    return used;
}

static int order_of(int32_t h)
{
    return h <= 1 ? 0 : 32 - __builtin_clz((unsigned)h - 1);
}

/* Order of the root that holds an address: the highest bit in which it differs from C. */
static int root_order(const buddy *b, int32_t addr)
{
    return 31 - __builtin_clz((unsigned)(addr ^ b->n_slots));
}

static pkv_status buddy_create(int32_t n_slots, int32_t max_chunks, const pkv_allocator *alloc,
                               void **out)
{
    (void)max_chunks;
    buddy *b = pkv__alloc(alloc, sizeof(*b), _Alignof(buddy));
    if (!b) return PKV_E_NO_MEMORY;
    *b = (buddy){ .n_slots = n_slots, .n_free = n_slots, .alloc = *alloc };
    b->bytes = lay_out(b, NULL) * sizeof(uint64_t);
    b->words = pkv__alloc(alloc, b->bytes, PKV_CACHE_LINE);
    if (!b->words) {
        pkv__free(alloc, b, sizeof(*b));
        return PKV_E_NO_MEMORY;
    }
    lay_out(b, b->words);
    for (int k = 0; k < N_ORDERS; k++)
        if (b->order[k].n_levels > 0) b->order[k].level[b->order[k].n_levels - 1][0] = 0;
    for (int64_t addr = 0; addr < n_slots;) {
        const int k = root_order(b, (int32_t)addr);
        set_add(b, k, addr >> k);
        addr += 1LL << k;
    }
    *out = b;
    return PKV_OK;
}

static void buddy_destroy(void *self)
{
    buddy *b = self;
    if (!b) return;
    const pkv_allocator alloc = b->alloc;
    pkv__free(&alloc, b->words, b->bytes);
    pkv__free(&alloc, b, sizeof(*b));
}

static bool buddy_fits_empty(const void *self, int32_t h)
{
    const buddy *b = self;
    return order_of(h) <= root_order(b, 0);
}

static bool buddy_take(void *self, int32_t h, int32_t *addr, int32_t *q)
{
    buddy *b = self;
    const int want = order_of(h);
    int k = want;
    while (k < N_ORDERS && b->order[k].n_free == 0) k++;
    if (k >= N_ORDERS) return false;
    int64_t chunk = set_lowest(b, k);
    set_remove(b, k, chunk);
    while (k > want) { /* the upper half goes back, level by level */
        k--;
        chunk <<= 1;
        set_add(b, k, chunk + 1);
    }
    *addr = (int32_t)(chunk << want);
    *q = 1 << want;
    b->n_free -= *q;
    return true;
}

static void buddy_give(void *self, int32_t addr, int32_t q)
{
    buddy *b = self;
    const int top = root_order(b, addr);
    int k = order_of(q);
    int64_t chunk = addr >> k;
    b->n_free += q;
    while (k < top && set_has(b, k, chunk ^ 1)) {
        set_remove(b, k, chunk ^ 1);
        chunk >>= 1;
        k++;
    }
    set_add(b, k, chunk);
}

static int32_t buddy_n_free(const void *self)
{
    return ((const buddy *)self)->n_free;
}

static int32_t buddy_largest_free(const void *self)
{
    const buddy *b = self;
    for (int k = N_ORDERS - 1; k >= 0; k--)
        if (b->order[k].n_free > 0) return 1 << k;
    return 0;
}

static int32_t buddy_n_free_chunks(const void *self)
{
    const buddy *b = self;
    int32_t n = 0;
    for (int k = 0; k < N_ORDERS; k++) n += b->order[k].n_free;
    return n;
}

int64_t pkv__sim_buddy_visits(const void *self)
{
    return ((const buddy *)self)->n_visits;
}

const pkv__sim_addr_ops pkv__sim_addr_buddy = {
    .name = "buddy",
    .has_places = true,
    .create = buddy_create,
    .destroy = buddy_destroy,
    .fits_empty = buddy_fits_empty,
    .take = buddy_take,
    .give = buddy_give,
    .n_free = buddy_n_free,
    .largest_free = buddy_largest_free,
    .n_free_chunks = buddy_n_free_chunks,
};
