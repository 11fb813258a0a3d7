/* The prefix index: content (parent, tokens, extras) -> node. Open addressing with linear probing
 * over node ids, at most half full, back-shift deletion, so there are no tombstones.
 *
 * Content of older epochs stays in the table until it is evicted, and compares unequal: a first
 * unit by its epoch, the others by their parents.
 *
 * The hash only narrows: a match compares parent, tokens and extras exactly. A node that would lie
 * more than PROBE_MAX slots from home is not indexed, so crafted collisions cost hits and never
 * time or truth. PKV_HASH_BITS (tests only) cuts the hash to that many bits and lifts the bound:
 * everything must still give the same answers. With PKV_PROBE_MAX as well the bound is that; with 0
 * bits it is then the number of nodes that can be had. */
#include "blockmgr_internal.h"

#ifdef PKV_HASH_BITS
#define HASH_MASK ((UINT64_C(1) << PKV_HASH_BITS) - 1)
#else
#define HASH_MASK UINT64_MAX
#endif
#if defined(PKV_PROBE_MAX)
#define PROBE_MAX ((uint32_t)PKV_PROBE_MAX)
#elif defined(PKV_HASH_BITS)
#define PROBE_MAX UINT32_MAX
#else
#define PROBE_MAX 64u /* half full, 2^21 random hashes lie at most 41 slots from home */
#endif

static uint64_t parent_hash(const pkv_blockmgr *m, int32_t parent)
{
    return is_root(parent) ? namespaces_of(m)[ns_of_root(parent)].root_hash
                           : node_at(m, parent)->hash;
}

uint64_t pkv__unit_hash(const pkv_blockmgr *m, const struct unit_key *key)
{
    return pkv__unit_hash_after(m, parent_hash(m, key->parent), key);
}

uint64_t pkv__unit_hash_after(const pkv_blockmgr *m, uint64_t before, const struct unit_key *key)
{
    enum { END_BYTES = 7 };
    const int32_t *ids = key->ids;
    struct pkv__siphash h;
    int32_t i = 0;
    pkv__siphash_init(&h, m->hash_k0, m->hash_k1);
    pkv__siphash_u64(&h, before);
    for (; i + 1 < key->n_tokens; i += 2)
        pkv__siphash_u64(&h, (uint32_t)ids[i] | (uint64_t)(uint32_t)ids[i + 1] << 32);
    if (i < key->n_tokens) pkv__siphash_u64(&h, (uint32_t)ids[i]);
    if (key->extras.array || key->extras.entry != NONE)
        pkv__extras_hash(m, key->extras, key->n_tokens, &h);
    return pkv__siphash_end(&h, (uint64_t)key->n_tokens, END_BYTES) & HASH_MASK;
}

bool pkv__node_holds(const pkv_blockmgr *m, int32_t node, const struct unit_key *key)
{
    const struct node *n = node_at(m, node);
    return n->hash == key->hash && n->parent == key->parent && n->n_tokens == key->n_tokens &&
           n->epoch == m->epoch &&
           memcmp(node_tokens(m, node), key->ids, (size_t)key->n_tokens * sizeof *key->ids) == 0 &&
           ((n->extras == NONE && !key->extras.array && key->extras.entry == NONE) ||
            pkv__extras_equal(m, extra_entries(n->extras), key->extras, key->n_tokens));
}

int32_t pkv__index_find(const pkv_blockmgr *m, const struct unit_key *key)
{
    const int32_t *slots = index_of(m);
    uint32_t at = (uint32_t)key->hash & m->index_mask;
    for (uint32_t i = 0; i <= m->index_mask && i < PROBE_MAX; i++, at = (at + 1) & m->index_mask) {
        if (slots[at] == NONE) return NONE;
        if (pkv__node_holds(m, slots[at], key)) return slots[at];
    }
    return NONE;
}

bool pkv__index_has_room(const pkv_blockmgr *m, uint64_t hash)
{
    const int32_t *slots = index_of(m);
    uint32_t at = (uint32_t)hash & m->index_mask;
    for (uint32_t i = 0; i <= m->index_mask && i < PROBE_MAX; i++, at = (at + 1) & m->index_mask)
        if (slots[at] == NONE) return true;
    return false;
}

void pkv__index_insert(pkv_blockmgr *m, int32_t node)
{
    int32_t *slots = index_of(m);
    uint32_t at = (uint32_t)node_at(m, node)->hash & m->index_mask;
    while (slots[at] != NONE) at = (at + 1) & m->index_mask;
    slots[at] = node;
}

void pkv__index_remove(pkv_blockmgr *m, int32_t node)
{
    int32_t *slots = index_of(m);
    const uint32_t mask = m->index_mask;
    uint32_t hole = (uint32_t)node_at(m, node)->hash & mask;
    while (slots[hole] != node) hole = (hole + 1) & mask;
    /* Move back every follower whose home is not behind the hole. */
    for (uint32_t at = (hole + 1) & mask; slots[at] != NONE; at = (at + 1) & mask) {
        const uint32_t home = (uint32_t)node_at(m, slots[at])->hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        slots[hole] = slots[at];
        hole = at;
    }
    slots[hole] = NONE;
}
