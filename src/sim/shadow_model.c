/* The model that checks the paged policies. Everything is a plain array; what takes long takes
 * long. It knows nothing of the block manager. */
#include "sim/shadow_model.h"

#include <string.h>

#define NONE (-1)

/* ---------------------------------------------------------------- life */

static int32_t *row_of(pkv__sim_shadow *m, int32_t seq)
{
    return m->rows + (size_t)seq * (size_t)m->width;
}

static size_t tails_len(const pkv__sim_shadow *m)
{
    return m->prefix ? (size_t)m->n_seqs * (size_t)m->block_tokens : 1;
}

static void free_keys(pkv__sim_shadow *m)
{
    const size_t cap = (size_t)m->keys_cap;
    pkv__free(&m->alloc, m->buckets, (size_t)m->n_buckets * sizeof(int32_t));
    pkv__free(&m->alloc, m->key_tokens, cap * (size_t)m->block_tokens * sizeof(int32_t));
    pkv__free(&m->alloc, m->keys, cap * sizeof(pkv__shadow_key));
}

void pkv__shadow_deinit(pkv__sim_shadow *m)
{
    if (m->n_blocks == 0) return;
    free_keys(m);
    pkv__free(&m->alloc, m->tails, tails_len(m) * sizeof(int32_t));
    pkv__free(&m->alloc, m->rows, (size_t)m->n_seqs * (size_t)m->width * sizeof(int32_t));
    pkv__free(&m->alloc, m->seqs, (size_t)m->n_seqs * sizeof(pkv__shadow_seq));
    pkv__free(&m->alloc, m->free_blocks, (size_t)m->n_blocks * sizeof(int32_t));
    pkv__free(&m->alloc, m->blocks, (size_t)m->n_blocks * sizeof(pkv__shadow_block));
    *m = (pkv__sim_shadow){ 0 };
}

pkv_status pkv__shadow_init(pkv__sim_shadow *m, int32_t n_blocks, int32_t block_tokens,
                            int32_t n_seqs, int32_t width, bool prefix, const pkv_allocator *alloc)
{
    *m = (pkv__sim_shadow){ .block_tokens = block_tokens,
                            .n_blocks = n_blocks,
                            .n_seqs = n_seqs,
                            .width = width,
                            .prefix = prefix,
                            .n_free = n_blocks,
                            .first = NONE,
                            .last = NONE,
                            .alloc = *alloc };
    const size_t row_len = (size_t)n_seqs * (size_t)width;
    m->blocks = pkv__alloc(alloc, (size_t)n_blocks * sizeof(pkv__shadow_block), _Alignof(int64_t));
    m->free_blocks = pkv__alloc(alloc, (size_t)n_blocks * sizeof(int32_t), _Alignof(int32_t));
    m->seqs = pkv__alloc(alloc, (size_t)n_seqs * sizeof(pkv__shadow_seq), _Alignof(int32_t));
    m->rows = pkv__alloc(alloc, row_len * sizeof(int32_t), _Alignof(int32_t));
    m->tails = pkv__alloc(alloc, tails_len(m) * sizeof(int32_t), _Alignof(int32_t));
    if (!m->blocks || !m->free_blocks || !m->seqs || !m->rows || !m->tails) {
        pkv__shadow_deinit(m);
        return PKV_E_NO_MEMORY;
    }
    for (int32_t b = 0; b < n_blocks; b++) {
        m->blocks[b] = (pkv__shadow_block){ .key = NONE, .prev = NONE, .next = NONE };
        m->free_blocks[b] = b;
    }
    for (int32_t s = 0; s < n_seqs; s++) m->seqs[s] = (pkv__shadow_seq){ .key = NONE };
    return PKV_OK;
}

/* ---------------------------------------------------------------- keys */

static const int32_t *tokens_of(const pkv__sim_shadow *m, int32_t key)
{
    return m->key_tokens + (size_t)key * (size_t)m->block_tokens;
}

static size_t token_bytes(const pkv__sim_shadow *m)
{
    return (size_t)m->block_tokens * sizeof(int32_t);
}

static int32_t *bucket_of(const pkv__sim_shadow *m, int32_t parent, const int32_t *tokens)
{
    uint64_t h = (uint64_t)(uint32_t)parent;
    for (int32_t k = 0; k < m->block_tokens; k++)
        h = (h ^ (uint32_t)tokens[k]) * UINT64_C(0x9E3779B97F4A7C15) + (h >> 29);
    return &m->buckets[h % (uint64_t)m->n_buckets];
}

/* The key of these tokens behind `parent`; NONE if there never was one. */
static int32_t find_key(const pkv__sim_shadow *m, int32_t parent, const int32_t *tokens)
{
    if (m->n_buckets == 0) return NONE;
    int32_t key = *bucket_of(m, parent, tokens);
    while (key != NONE && (m->keys[key].parent != parent ||
                           memcmp(tokens_of(m, key), tokens, token_bytes(m)) != 0))
        key = m->keys[key].next;
    return key;
}

static void link_key(pkv__sim_shadow *m, int32_t key)
{
    int32_t *bucket = bucket_of(m, m->keys[key].parent, tokens_of(m, key));
    m->keys[key].next = *bucket;
    *bucket = key;
}

static pkv_status grow_keys(pkv__sim_shadow *m)
{
    if (m->keys_cap > INT32_MAX / 2) return PKV_E_NO_MEMORY;
    const int32_t cap = m->keys_cap ? 2 * m->keys_cap : 64;
    const size_t n_tokens = (size_t)cap * (size_t)m->block_tokens;
    pkv__shadow_key *keys =
        pkv__alloc(&m->alloc, (size_t)cap * sizeof(*keys), _Alignof(pkv__shadow_key));
    int32_t *tokens = pkv__alloc(&m->alloc, n_tokens * sizeof(int32_t), _Alignof(int32_t));
    int32_t *buckets = pkv__alloc(&m->alloc, (size_t)cap * sizeof(int32_t), _Alignof(int32_t));
    if (!keys || !tokens || !buckets) {
        pkv__free(&m->alloc, buckets, (size_t)cap * sizeof(int32_t));
        pkv__free(&m->alloc, tokens, n_tokens * sizeof(int32_t));
        pkv__free(&m->alloc, keys, (size_t)cap * sizeof(*keys));
        return PKV_E_NO_MEMORY;
    }
    if (m->n_keys > 0) {
        memcpy(keys, m->keys, (size_t)m->n_keys * sizeof(*keys));
        memcpy(tokens, m->key_tokens, (size_t)m->n_keys * token_bytes(m));
    }
    free_keys(m);
    m->keys = keys, m->key_tokens = tokens, m->buckets = buckets;
    m->keys_cap = m->n_buckets = cap;
    for (int32_t k = 0; k < cap; k++) buckets[k] = NONE;
    for (int32_t k = 0; k < m->n_keys; k++) link_key(m, k);
    return PKV_OK;
}

/* The key of these tokens behind `parent`, new or not. */
static pkv_status make_key(pkv__sim_shadow *m, int32_t parent, const int32_t *tokens, int32_t *out)
{
    int32_t key = find_key(m, parent, tokens);
    if (key == NONE) {
        const pkv_status status = m->n_keys == m->keys_cap ? grow_keys(m) : PKV_OK;
        if (status != PKV_OK) return status;
        key = m->n_keys++;
        m->keys[key] = (pkv__shadow_key){ .parent = parent, .block = NONE };
        memcpy(m->key_tokens + (size_t)key * (size_t)m->block_tokens, tokens, token_bytes(m));
        link_key(m, key);
    }
    *out = key;
    return PKV_OK;
}

/* ---------------------------------------------------------------- the list */

static void list_block(pkv__sim_shadow *m, int32_t block, int32_t before)
{
    const int32_t prev = before == NONE ? m->last : m->blocks[before].prev;
    m->blocks[block].prev = prev;
    m->blocks[block].next = before;
    if (prev == NONE) m->first = block;
    else m->blocks[prev].next = block;
    if (before == NONE) m->last = block;
    else m->blocks[before].prev = block;
    m->n_cached++;
}

static void unlist_block(pkv__sim_shadow *m, int32_t block)
{
    const int32_t prev = m->blocks[block].prev, next = m->blocks[block].next;
    if (prev == NONE) m->first = next;
    else m->blocks[prev].next = next;
    if (next == NONE) m->last = prev;
    else m->blocks[next].prev = prev;
    m->n_cached--;
}

static bool is_listed(const pkv__sim_shadow *m, int32_t block)
{
    return m->blocks[block].refs == 0 && m->blocks[block].key != NONE;
}

/* ---------------------------------------------------------------- blocks */

static int32_t take_block(pkv__sim_shadow *m)
{
    int32_t block;
    if (m->n_free > 0) {
        block = m->free_blocks[--m->n_free];
    } else {
        block = m->first;
        unlist_block(m, block);
        m->keys[m->blocks[block].key].block = NONE;
        m->blocks[block].key = NONE;
    }
    m->blocks[block].refs = 1;
    m->n_used++;
    return block;
}

static void free_block(pkv__sim_shadow *m, int32_t block)
{
    m->blocks[block].key = NONE;
    m->free_blocks[m->n_free++] = block;
}

static void refer(pkv__sim_shadow *m, int32_t block)
{
    if (m->blocks[block].refs++ > 0) return;
    unlist_block(m, block);
    m->n_used++;
}

/* Of the other blocks with this key the one that joined first. */
static int32_t oldest_spare(const pkv__sim_shadow *m, int32_t key)
{
    int32_t found = NONE;
    for (int32_t b = 0; b < m->n_blocks; b++) {
        if (m->blocks[b].key != key || b == m->keys[key].block) continue;
        if (found == NONE || m->blocks[b].joined < m->blocks[found].joined) found = b;
    }
    return found;
}

static void unrefer(pkv__sim_shadow *m, int32_t block)
{
    pkv__shadow_block *b = &m->blocks[block];
    if (--b->refs > 0) return;
    m->n_used--;
    if (b->key == NONE) {
        free_block(m, block);
        return;
    }
    pkv__shadow_key *key = &m->keys[b->key];
    if (key->n_spares == 0) {
        const int32_t parent = key->parent == NONE ? NONE : m->keys[key->parent].block;
        list_block(m, block, parent != NONE && is_listed(m, parent) ? parent : NONE);
        return;
    }
    if (key->block == block) key->block = oldest_spare(m, b->key);
    key->n_spares--;
    free_block(m, block);
}

/* The block, which is referenced, holds this content from now on. */
static void join(pkv__sim_shadow *m, int32_t key, int32_t block)
{
    pkv__shadow_key *k = &m->keys[key];
    m->blocks[block].key = key;
    m->blocks[block].joined = m->n_joined++;
    if (k->block != NONE && m->blocks[k->block].refs > 0) {
        k->n_spares++;
        return;
    }
    if (k->block != NONE) {
        unlist_block(m, k->block);
        free_block(m, k->block);
    }
    k->block = block;
}

/* Cut a row to `len` entries, tail first. */
static void cut_row(pkv__sim_shadow *m, int32_t seq, int32_t len)
{
    int32_t *row = row_of(m, seq);
    for (int32_t i = m->seqs[seq].len - 1; i >= len; i--)
        if (row[i] >= 0) unrefer(m, row[i]);
    m->seqs[seq].len = len;
}

static int32_t blocks_for(const pkv__sim_shadow *m, int32_t n_tokens)
{
    return pkv__ceil_div_i32(n_tokens, m->block_tokens);
}

/* ---------------------------------------------------------------- calls */

static void extend_row(pkv__sim_shadow *m, int32_t seq, int32_t upto)
{
    const int32_t len = blocks_for(m, upto);
    while (m->seqs[seq].len < len) row_of(m, seq)[m->seqs[seq].len++] = take_block(m);
}

int32_t pkv__shadow_open(pkv__sim_shadow *m, int32_t seq, const int32_t *ids, int32_t max_tokens,
                         int32_t upto)
{
    pkv__shadow_seq *s = &m->seqs[seq];
    *s = (pkv__shadow_seq){ .open = true, .key = NONE };
    while (m->prefix && s->committed + m->block_tokens <= max_tokens) {
        const int32_t key = find_key(m, s->key, ids + s->committed);
        if (key == NONE || m->keys[key].block == NONE) break;
        row_of(m, seq)[s->len++] = m->keys[key].block;
        s->key = key;
        s->committed += m->block_tokens;
    }
    for (int32_t i = 0; i < s->len; i++) refer(m, row_of(m, seq)[i]);
    extend_row(m, seq, upto);
    return s->committed;
}

int32_t pkv__shadow_reserve(pkv__sim_shadow *m, const int32_t *seqs, int32_t n, int32_t upto)
{
    int32_t n_copied = 0;
    for (int32_t k = 0; k < n; k++) {
        const int32_t committed = m->seqs[seqs[k]].committed;
        int32_t *tail = &row_of(m, seqs[k])[committed / m->block_tokens];
        if (committed % m->block_tokens != 0) {
            pkv__shadow_block *b = &m->blocks[*tail];
            if (b->refs - b->planned > 1) {
                b->planned++;
                n_copied++;
                /* The reference goes when all have taken theirs; remember it as a negative. */
                const int32_t source = *tail;
                *tail = take_block(m);
                m->blocks[*tail].planned = -1 - source;
            }
        }
        extend_row(m, seqs[k], upto);
    }
    for (int32_t k = 0; k < n && n_copied > 0; k++) {
        const int32_t committed = m->seqs[seqs[k]].committed;
        if (committed % m->block_tokens == 0) continue;
        pkv__shadow_block *b = &m->blocks[row_of(m, seqs[k])[committed / m->block_tokens]];
        if (b->planned >= 0) continue;
        const int32_t source = -1 - b->planned;
        b->planned = 0;
        m->blocks[source].planned--;
        unrefer(m, source);
    }
    return n_copied;
}

pkv_status pkv__shadow_commit(pkv__sim_shadow *m, int32_t seq, const int32_t *ids, int32_t n)
{
    pkv__shadow_seq *s = &m->seqs[seq];
    if (!m->prefix) {
        s->committed += n;
        return PKV_OK;
    }
    int32_t *tail = m->tails + (size_t)seq * (size_t)m->block_tokens;
    for (int32_t k = 0; k < n; k++) {
        tail[s->committed % m->block_tokens] = ids[k];
        if (++s->committed % m->block_tokens != 0) continue;
        const pkv_status status = make_key(m, s->key, tail, &s->key);
        if (status != PKV_OK) return status;
        join(m, s->key, row_of(m, seq)[s->committed / m->block_tokens - 1]);
    }
    return PKV_OK;
}

void pkv__shadow_fork(pkv__sim_shadow *m, int32_t parent, int32_t child)
{
    cut_row(m, parent, blocks_for(m, m->seqs[parent].committed));
    m->seqs[child] = m->seqs[parent];
    for (int32_t i = 0; i < m->seqs[child].len; i++) {
        row_of(m, child)[i] = row_of(m, parent)[i];
        refer(m, row_of(m, child)[i]);
    }
    if (!m->prefix) return;
    const size_t width = (size_t)m->block_tokens;
    memcpy(m->tails + (size_t)child * width, m->tails + (size_t)parent * width, token_bytes(m));
}

void pkv__shadow_close(pkv__sim_shadow *m, int32_t seq)
{
    cut_row(m, seq, 0);
    m->seqs[seq] = (pkv__shadow_seq){ .key = NONE };
}

/* References to a block from rows of these sequences. */
static int32_t count_refs(pkv__sim_shadow *m, const int32_t *seqs, int32_t n, int32_t at,
                          int32_t block)
{
    int32_t refs = 0;
    for (int32_t k = 0; k < n; k++) /* a shared block is at the same place of all rows */
        refs += at < m->seqs[seqs[k]].len && row_of(m, seqs[k])[at] == block;
    return refs;
}

int32_t pkv__shadow_suspend(pkv__sim_shadow *m, const int32_t *seqs, int32_t n)
{
    int32_t n_out = 0;
    for (int32_t k = 0; k < n; k++) cut_row(m, seqs[k], blocks_for(m, m->seqs[seqs[k]].committed));
    /* Who moves is decided for all before the first one goes; `planned` is its number plus one. */
    for (int32_t k = 0; k < n; k++) {
        for (int32_t at = 0; at < m->seqs[seqs[k]].len; at++) {
            const int32_t block = row_of(m, seqs[k])[at];
            pkv__shadow_block *b = &m->blocks[block];
            if (b->planned != 0 || count_refs(m, seqs, n, at, block) != b->refs) continue;
            b->planned = ++m->n_moved;
            n_out++;
        }
    }
    for (int32_t k = 0; k < n; k++) {
        int32_t *row = row_of(m, seqs[k]);
        for (int32_t at = m->seqs[seqs[k]].len - 1; at >= 0; at--) {
            pkv__shadow_block *b = &m->blocks[row[at]];
            if (b->planned == 0) continue;
            const int32_t block = row[at];
            row[at] = -b->planned;
            if (b->refs == 1) b->planned = 0;
            unrefer(m, block);
        }
        m->seqs[seqs[k]].suspended = true;
    }
    return n_out;
}

/* One that moved out is back as `block` in all rows that name it. */
static void bring_back(pkv__sim_shadow *m, const int32_t *seqs, int32_t n, int32_t at,
                       int32_t moved, int32_t block)
{
    m->blocks[block].refs = 0;
    for (int32_t k = 0; k < n; k++) {
        if (at >= m->seqs[seqs[k]].len || row_of(m, seqs[k])[at] != moved) continue;
        row_of(m, seqs[k])[at] = block;
        m->blocks[block].refs++;
    }
    m->blocks[block].planned = 1;
}

/* Full blocks that came back hold their content again, from the front. */
static void join_again(pkv__sim_shadow *m, int32_t seq)
{
    const pkv__shadow_seq *s = &m->seqs[seq];
    const int32_t n_full = m->prefix ? s->committed / m->block_tokens : 0;
    for (int32_t at = 0; at < n_full; at++) {
        const int32_t block = row_of(m, seq)[at];
        if (m->blocks[block].planned == 0 || m->blocks[block].key != NONE) continue;
        int32_t key = s->key;
        for (int32_t k = n_full - 1; k > at; k--) key = m->keys[key].parent;
        join(m, key, block);
    }
}

int32_t pkv__shadow_resume(pkv__sim_shadow *m, const int32_t *seqs, int32_t n)
{
    int32_t n_in = 0;
    for (int32_t k = 0; k < n; k++) {
        for (int32_t at = 0; at < m->seqs[seqs[k]].len; at++) {
            const int32_t moved = row_of(m, seqs[k])[at];
            if (moved >= 0) continue;
            bring_back(m, seqs, n, at, moved, take_block(m));
            n_in++;
        }
        m->seqs[seqs[k]].suspended = false;
    }
    for (int32_t k = 0; k < n; k++) join_again(m, seqs[k]);
    for (int32_t k = 0; k < n; k++)
        for (int32_t at = 0; at < m->seqs[seqs[k]].len; at++)
            m->blocks[row_of(m, seqs[k])[at]].planned = 0;
    return n_in;
}
