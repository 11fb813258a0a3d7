/* Merging neighbours, best first, left-most on ties: the loop of both algorithms. A list of symbols
 * and a heap of what may be merged, O(n log n); an entry whose symbols have changed since is known
 * by its length and dropped. */
#include "model/tok_internal.h"

pkv_status pkv__work_id(pkv__tok_work *w, int32_t id)
{
    const pkv_status status =
        pkv__table_grow(&w->tok->alloc, &w->ids, &w->id_cap, w->n_ids, sizeof(*w->ids));
    if (status == PKV_OK) w->ids[w->n_ids++] = id;
    return status;
}

pkv_status pkv__work_node(pkv__tok_work *w, int32_t bytes, int32_t id)
{
    const pkv_status status =
        pkv__table_grow(&w->tok->alloc, &w->nodes, &w->node_cap, w->n_nodes, sizeof(*w->nodes));
    if (status != PKV_OK) return status;
    const int32_t k = (int32_t)w->n_nodes++;
    const int32_t at = k > 0 ? w->nodes[k - 1].at + w->nodes[k - 1].bytes : 0;
    w->nodes[k] = (pkv__tok_node){ at, bytes, id, k - 1, -1 };
    if (k > 0) w->nodes[k - 1].next = k;
    return PKV_OK;
}

void pkv__work_free(pkv__tok_work *w)
{
    const pkv_allocator *alloc = &w->tok->alloc;
    pkv__free(alloc, w->nodes, w->node_cap * sizeof(*w->nodes));
    pkv__free(alloc, w->heap, w->heap_cap * sizeof(*w->heap));
    pkv__free(alloc, w->ids, w->id_cap * sizeof(*w->ids));
    pkv__free(alloc, w->text, w->text_cap);
}

/* ---------------------------------------------------------------- the heap */

static pkv_status push(pkv__tok_work *w, pkv__tok_merge m)
{
    const pkv_status status =
        pkv__table_grow(&w->tok->alloc, &w->heap, &w->heap_cap, w->n_heap, sizeof(*w->heap));
    if (status != PKV_OK) return status;
    size_t k = w->n_heap++;
    for (; k > 0 && m.key < w->heap[(k - 1) / 2].key; k = (k - 1) / 2)
        w->heap[k] = w->heap[(k - 1) / 2];
    w->heap[k] = m;
    return PKV_OK;
}

static pkv__tok_merge pop(pkv__tok_work *w)
{
    const pkv__tok_merge top = w->heap[0], last = w->heap[--w->n_heap];
    size_t k = 0;
    for (size_t child; (child = 2 * k + 1) < w->n_heap; k = child) {
        if (child + 1 < w->n_heap && w->heap[child + 1].key < w->heap[child].key) child++;
        if (last.key <= w->heap[child].key) break;
        w->heap[k] = w->heap[child];
    }
    w->heap[k] = last;
    return top;
}

/* ---------------------------------------------------------------- the rules */

/* Numbers that rise as scores fall. */
static uint32_t score_order(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof(bits));
    return bits & 0x80000000U ? bits : ~(bits | 0x80000000U);
}

static bool rule_of(const pkv_tokenizer *t, const uint8_t *text, const pkv__tok_node *left,
                    const pkv__tok_node *right, uint32_t *order, int32_t *id)
{
    if (t->rule == PKV__RULE_PAIRS) {
        const pkv__pair *pair =
            left->id < 0 || right->id < 0 ? NULL : pkv__tok_pair(t, left->id, right->id);
        if (!pair) return false;
        *order = (uint32_t)pair->rank;
        *id = pair->id;
        return true;
    }
    const int64_t bytes = (int64_t)left->bytes + right->bytes;
    if (bytes > t->max_piece) return false;
    *id = pkv__tok_lookup(t, &t->normal, text + left->at, (size_t)bytes);
    if (*id < 0) return false;
    *order = t->rule == PKV__RULE_RANKS ? (uint32_t)*id : score_order(t->pieces[*id].score);
    return true;
}

static pkv_status offer(pkv__tok_work *w, const uint8_t *text, int32_t left)
{
    uint32_t order;
    int32_t id;
    if (left < 0 || w->nodes[left].next < 0) return PKV_OK;
    const pkv__tok_node *a = &w->nodes[left], *b = &w->nodes[a->next];
    if (!rule_of(w->tok, text, a, b, &order, &id)) return PKV_OK;
    return push(w, (pkv__tok_merge){ (uint64_t)order << 32 | (uint32_t)left, a->next,
                                     a->bytes + b->bytes, id });
}

pkv_status pkv__merge(pkv__tok_work *w, const uint8_t *text)
{
    pkv_status status = PKV_OK;
    w->n_heap = 0;
    for (size_t k = 0; status == PKV_OK && k + 1 < w->n_nodes; k++)
        status = offer(w, text, (int32_t)k);
    while (status == PKV_OK && w->n_heap > 0) {
        const pkv__tok_merge m = pop(w);
        const int32_t left = (int32_t)(uint32_t)m.key;
        pkv__tok_node *a = &w->nodes[left], *b = &w->nodes[m.right];
        /* A node only grows by taking its neighbour, which then has no bytes; so the two of an
         * entry are what they were if both have bytes and as many together. */
        if (a->bytes == 0 || b->bytes == 0 || a->bytes + b->bytes != m.bytes) continue;
        PKV_ASSERT(a->next == m.right);
        a->bytes += b->bytes;
        a->id = m.id;
        a->next = b->next;
        b->bytes = 0;
        if (a->next >= 0) w->nodes[a->next].prev = left;
        status = offer(w, text, left);
        if (status == PKV_OK) status = offer(w, text, a->prev);
    }
    return status;
}
