/* Content ids of 64 bits and a sign to dense indices: an open hash table with linear probing and
 * exact comparison. Four neighbouring ids share a cache line of the table, since traces number
 * their blocks in order of appearance and a prompt repeats what an earlier one brought. */
#include "sim/trace.h"

#define FIRST_CAP 1024
#define GROUP 4 /* entries of 16 bytes in a cache line */

struct pkv__ids_entry {
    uint64_t bits;
    int32_t number; /* index + 1, negative for a negative id; 0: empty */
};

void pkv__ids_deinit(pkv__ids *ids)
{
    pkv__free(ids->alloc, ids->table, (size_t)ids->cap * sizeof(*ids->table));
    pkv__free(ids->alloc, ids->list, (size_t)ids->list_cap * sizeof(*ids->list));
    *ids = (pkv__ids){ .alloc = ids->alloc };
}

/* Every bit of x changes about half of the result's (the finaliser of MurmurHash3). */
static uint64_t mixed(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

static uint64_t first_place(const pkv__ids *ids, uint64_t bits)
{
    return (mixed(bits / GROUP) * GROUP + bits % GROUP) & ((uint64_t)ids->cap - 1);
}

/* Where an id is, or the empty entry where it belongs; k is its first place. */
static struct pkv__ids_entry *find(const pkv__ids *ids, uint64_t k, uint64_t bits, bool negative)
{
    for (;; k = (k + 1) & ((uint64_t)ids->cap - 1)) {
        struct pkv__ids_entry *e = &ids->table[k];
        if (e->number == 0 || (e->bits == bits && (e->number < 0) == negative)) return e;
    }
}

static pkv_status grow_table(pkv__ids *ids)
{
    const int64_t cap = ids->cap ? 2 * ids->cap : FIRST_CAP;
    const size_t bytes = (size_t)cap * sizeof(*ids->table);
    struct pkv__ids_entry *table = pkv__alloc(ids->alloc, bytes, PKV_CACHE_LINE);
    if (!table) return PKV_E_NO_MEMORY;
    memset(table, 0, bytes);
    const pkv__ids old = *ids;
    ids->table = table;
    ids->cap = cap;
    for (int64_t k = 0; k < old.cap; k++) {
        const struct pkv__ids_entry *e = &old.table[k];
        if (e->number == 0) continue;
        *find(ids, first_place(ids, e->bits), e->bits, e->number < 0) = *e;
    }
    pkv__free(ids->alloc, old.table, (size_t)old.cap * sizeof(*old.table));
    return PKV_OK;
}

static pkv_status grow_list(pkv__ids *ids)
{
    const int64_t cap = ids->list_cap ? 2 * ids->list_cap : FIRST_CAP;
    int32_t *list = pkv__alloc(ids->alloc, (size_t)cap * sizeof(*list), _Alignof(int32_t));
    if (!list) return PKV_E_NO_MEMORY;
    if (ids->n > 0) memcpy(list, ids->list, (size_t)ids->n * sizeof(*list));
    pkv__free(ids->alloc, ids->list, (size_t)ids->list_cap * sizeof(*list));
    ids->list = list;
    ids->list_cap = cap;
    return PKV_OK;
}

/* Index of an id, which is new if it is not there. */
static int32_t index_of(pkv__ids *ids, uint64_t k, pkv__id id)
{
    struct pkv__ids_entry *e = find(ids, k, id.bits, id.negative);
    if (e->number == 0) {
        ids->n_distinct++;
        *e = (struct pkv__ids_entry){ id.bits, id.negative ? -ids->n_distinct : ids->n_distinct };
    }
    return (e->number < 0 ? -e->number : e->number) - 1;
}

pkv_status pkv__ids_append(pkv__ids *ids, const pkv__id *from, int n)
{
    uint64_t places[PKV__IDS_AT_ONCE];
    if (ids->n_distinct > INT32_MAX - n) return PKV_E_NO_MEMORY;
    if (2 * ((int64_t)ids->n_distinct + n) > ids->cap) {
        const pkv_status status = grow_table(ids);
        if (status != PKV_OK) return status;
    }
    if (ids->n + n > ids->list_cap) {
        const pkv_status status = grow_list(ids);
        if (status != PKV_OK) return status;
    }
    /* Places of a large table are far apart: ask memory for all of them before looking at one. */
    for (int k = 0; k < n; k++) {
        places[k] = first_place(ids, from[k].bits);
        PKV_PREFETCH(&ids->table[places[k]]);
    }
    for (int k = 0; k < n; k++) ids->list[ids->n++] = index_of(ids, places[k], from[k]);
    return PKV_OK;
}
