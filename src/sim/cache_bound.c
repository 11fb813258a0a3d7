/* What a cache that never evicts would find: a trie of content ids, kept in one hash table.
 *
 *   root --id 7--> node 1 --id 9--> node 2      prompt {7, 9}
 *                     '-----id 4--> node 3      prompt {7, 4}: finds id 7
 *
 * An id may name its own block or its whole prefix; as the trie looks at the path, both give what
 * two prompts have in common. Only the last id of a prompt may cover less than block_tokens, so a
 * node remembers the most tokens any prompt had under it; where that is less than a whole id, the
 * node has no children. */
#include "sim/sim_internal.h"

#define MIN_SLOTS 64

typedef struct trie_edge {
    int32_t parent, id;
    int32_t node;    /* that the edge leads to, from 1 on; 0: the slot is empty */
    int32_t covered; /* tokens under it */
} trie_edge;

typedef struct trie {
    trie_edge *slots; /* [n_slots], a power of two, at most half full */
    int64_t n_slots;
    int32_t n_nodes;
    const pkv_allocator *alloc;
} trie;

static trie_edge *slots_new(const pkv_allocator *alloc, int64_t n)
{
    if ((uint64_t)n > SIZE_MAX / sizeof(trie_edge)) return NULL;
    trie_edge *slots = pkv__alloc(alloc, (size_t)n * sizeof(*slots), _Alignof(trie_edge));
    for (int64_t k = 0; slots && k < n; k++) slots[k] = (trie_edge){ 0 };
    return slots;
}

static void slots_free(const trie *t)
{
    pkv__free(t->alloc, t->slots, (size_t)t->n_slots * sizeof(*t->slots));
}

/* The slot of the edge, or the empty one where it belongs. */
static trie_edge *slot_of(const trie *t, int32_t parent, int32_t id)
{
    const uint64_t key = (uint64_t)(uint32_t)parent << 32 | (uint32_t)id;
    const uint64_t mixed = (key ^ key >> 29) * 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio */
    int64_t at = (int64_t)(mixed >> 32) & (t->n_slots - 1);
    for (;; at = (at + 1) & (t->n_slots - 1)) {
        trie_edge *e = &t->slots[at];
        if (e->node == 0 || (e->parent == parent && e->id == id)) return e;
    }
}

static pkv_status make_room(trie *t)
{
    if (t->n_nodes < t->n_slots / 2) return PKV_OK;
    trie bigger = *t;
    bigger.n_slots = 2 * t->n_slots;
    bigger.slots = slots_new(t->alloc, bigger.n_slots);
    if (!bigger.slots) return PKV_E_NO_MEMORY;
    for (int64_t k = 0; k < t->n_slots; k++)
        if (t->slots[k].node > 0)
            *slot_of(&bigger, t->slots[k].parent, t->slots[k].id) = t->slots[k];
    slots_free(t);
    *t = bigger;
    return PKV_OK;
}

/* Walk and extend the trie along the ids of request r; *found tokens were there, under *n_found
 * ids, the last of which may have been there in part. */
static pkv_status add_prompt(trie *t, const pkv_sim_content *content, int64_t r,
                             int32_t prompt_tokens, int32_t *found, int32_t *n_found)
{
    int32_t node = 0;
    bool on_path = true;
    *found = *n_found = 0;
    for (int32_t k = 0; k < content->n_ids[r]; k++) {
        const int64_t begin = (int64_t)k * content->block_tokens;
        const int64_t left = prompt_tokens - begin;
        const int32_t cover = left < content->block_tokens ? (int32_t)left : content->block_tokens;
        const pkv_status status = make_room(t);
        if (status != PKV_OK) return status;
        const int32_t id = content->ids[content->first[r] + k];
        trie_edge *e = slot_of(t, node, id);
        if (e->node == 0) {
            *e = (trie_edge){ node, id, ++t->n_nodes, 0 };
            on_path = false;
        }
        if (on_path) {
            *found += pkv__min_i32(cover, e->covered);
            *n_found += e->covered >= cover;
        }
        if (e->covered < cover) e->covered = cover;
        node = e->node;
    }
    return PKV_OK;
}

/* Ids that suit the requests: neither more than the prompt has blocks nor outside n_distinct. */
static bool content_valid(const pkv_sim_content *c, const pkv_sim_request *reqs, int64_t n)
{
    int64_t total = 0;
    if (c->block_tokens < 1 || (n > 0 && (!c->first || !c->n_ids))) return false;
    for (int64_t r = 0; r < n; r++) {
        const int32_t prompt = reqs[r].prompt_tokens;
        if (prompt < 1 || pkv__sim_check_ids(c, r, prompt, NULL) != PKV_OK) return false;
        total += c->n_ids[r];
    }
    return total < INT32_MAX / 2;
}

pkv_status pkv_sim_cache_bound(const pkv_sim_content *content, const pkv_sim_request *reqs,
                               int64_t n, int32_t block_tokens, const pkv_allocator *alloc,
                               pkv_sim_cache_forms *out)
{
    if (!content || !out || n < 0 || (n > 0 && !reqs) || block_tokens < 1 ||
        !pkv__allocator_valid(alloc))
        return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    if (!content_valid(content, reqs, n)) return PKV_E_INVALID_ARG;
    trie t = { .n_slots = MIN_SLOTS, .alloc = alloc };
    t.slots = slots_new(alloc, t.n_slots);
    if (!t.slots) return PKV_E_NO_MEMORY;
    pkv_sim_cache_forms f = { .struct_size = sizeof(f) };
    double rates = 0;
    pkv_status status = PKV_OK;
    for (int64_t r = 0; r < n && status == PKV_OK; r++) {
        int32_t found, n_found;
        const int32_t prompt = reqs[r].prompt_tokens;
        status = add_prompt(&t, content, r, prompt, &found, &n_found);
        if (status != PKV_OK) break;
        f.prompt_tokens += prompt;
        f.ids += content->n_ids[r];
        f.found_ids += n_found;
        f.found_tokens += found;
        f.found_block_tokens += found - found % block_tokens;
        rates += (double)found / prompt;
    }
    slots_free(&t);
    if (status != PKV_OK) return status;
    f.below_block = f.found_tokens - f.found_block_tokens;
    f.mean_rate = n > 0 ? rates / (double)n : 0;
    *out = f;
    return PKV_OK;
}
