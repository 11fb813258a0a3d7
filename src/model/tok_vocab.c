/* Pieces of a tokenizer by id and by their bytes, and pairs that merge. Tables grow with what has
 * been read, never by a number that a file states. */
#include "model/tok_internal.h"

#include <stdio.h>

pkv_status pkv__tok_refuse(const pkv_tokenizer *t, uint64_t at, pkv_status status, const char *fmt,
                           ...)
{
    char why[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return pkv__refuse(&t->log, status, "%.64s: byte %llu: %s", t->name, (unsigned long long)at,
                       why);
}

pkv_status pkv__tok_refuse_line(const pkv_tokenizer *t, int64_t line, const char *fmt, ...)
{
    char why[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return pkv__refuse(&t->log, PKV_E_FORMAT, "%.64s: line %lld: %s", t->name, (long long)line,
                       why);
}

/* ---------------------------------------------------------------- setting */

static pkv_status keep_text(pkv_tokenizer *t, const void *bytes, size_t n)
{
    if (n > INT32_MAX || t->text_bytes + n > UINT32_MAX) return PKV_E_FORMAT;
    if (t->text_bytes + n > t->text_cap) {
        const size_t cap = 2 * (t->text_bytes + n) + 1024;
        uint8_t *more = pkv__alloc(&t->alloc, cap, 1);
        if (!more) return PKV_E_NO_MEMORY;
        if (t->text_bytes > 0) memcpy(more, t->text, t->text_bytes);
        pkv__free(&t->alloc, t->text, t->text_cap);
        t->text = more;
        t->text_cap = cap;
    }
    if (n > 0) memcpy(t->text + t->text_bytes, bytes, n);
    t->text_bytes += n;
    return PKV_OK;
}

static pkv_status reach(pkv_tokenizer *t, size_t id)
{
    while (t->n_pieces <= id) {
        const pkv_status status =
            pkv__table_grow(&t->alloc, &t->pieces, &t->piece_cap, t->n_pieces, sizeof(pkv__piece));
        if (status != PKV_OK) return status;
        t->pieces[t->n_pieces++] = (pkv__piece){ .type = PKV__PIECE_NONE };
    }
    return PKV_OK;
}

pkv_status pkv__tok_set(pkv_tokenizer *t, int32_t id, const void *bytes, size_t n_bytes,
                        float score, pkv__piece_type type)
{
    PKV_ASSERT(id >= 0);
    pkv_status status = reach(t, (size_t)id);
    if (status != PKV_OK) return status;
    if (t->pieces[id].type != PKV__PIECE_NONE) return PKV_E_FORMAT;
    const size_t at = t->text_bytes;
    status = keep_text(t, bytes, n_bytes);
    if (status != PKV_OK) return status;
    t->pieces[id] = (pkv__piece){
        .at = (uint32_t)at,
        .bytes = (int32_t)n_bytes,
        .score = score + 0.0F, /* one zero */
        .type = (uint8_t)type,
    };
    return PKV_OK;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

pkv_status pkv__tok_set_spm(pkv_tokenizer *t, int32_t id, const void *bytes, size_t n_bytes,
                            float score, pkv__piece_type type)
{
    const uint8_t *p = bytes;
    if (type == PKV__PIECE_BYTE) {
        if (n_bytes != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>' || hex_digit(p[3]) < 0 ||
            hex_digit(p[4]) < 0)
            return PKV_E_FORMAT;
        const uint8_t b = (uint8_t)(16 * hex_digit(p[3]) + hex_digit(p[4]));
        if (t->byte_id[b] >= 0) return PKV_E_FORMAT;
        t->byte_id[b] = id;
        return pkv__tok_set(t, id, &b, 1, score, type);
    }
    pkv_status status = pkv__tok_set(t, id, bytes, n_bytes, score, type);
    if (status != PKV_OK || n_bytes == 0) return status;
    uint8_t *text = t->text + t->pieces[id].at;
    size_t n = 0;
    for (size_t k = 0; k < n_bytes;) {
        const bool is_space = n_bytes - k >= 3 && memcmp(p + k, "\xE2\x96\x81", 3) == 0;
        text[n++] = is_space ? ' ' : p[k];
        k += is_space ? 3 : 1;
    }
    t->pieces[id].bytes = (int32_t)n;
    t->text_bytes = t->pieces[id].at + n;
    return PKV_OK;
}

/* ---------------------------------------------------------------- printable bytes */

/* GPT-2 writes a byte as the character of that number if it is printable in Latin-1, and the others
 * in order as U+0100, U+0101 and so on. */
static bool stands_for_itself(int32_t b)
{
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
}

/* -1: no byte. */
static int32_t byte_of(int32_t cp)
{
    if (cp < 0x100) return stands_for_itself(cp) ? cp : -1;
    int32_t left = cp - 0x100; /* 0..32, 127..160, 173: 68 of them */
    if (left <= 32) return left;
    left -= 33;
    if (left <= 160 - 127) return 127 + left;
    return left == 160 - 127 + 1 ? 173 : -1;
}

bool pkv__printable_to_bytes(const uint8_t *text, size_t n_bytes, uint8_t *out, size_t *n)
{
    *n = 0;
    for (size_t k = 0; k < n_bytes;) {
        int32_t cp;
        k += pkv__utf8_next(text + k, n_bytes - k, &cp);
        const int32_t b = byte_of(cp);
        if (b < 0) return false;
        out[(*n)++] = (uint8_t)b;
    }
    return true;
}

pkv_status pkv__tok_set_printable(pkv_tokenizer *t, int32_t id, const void *bytes, size_t n_bytes,
                                  pkv__piece_type type)
{
    pkv_status status = pkv__tok_set(t, id, bytes, n_bytes, 0, type);
    if (status != PKV_OK || type != PKV__PIECE_NORMAL || n_bytes == 0) return status;
    size_t n;
    pkv__piece *p = &t->pieces[id];
    if (pkv__printable_to_bytes(bytes, n_bytes, t->text + p->at, &n)) {
        p->bytes = (int32_t)n;
        t->text_bytes = p->at + n;
    } else {
        memcpy(t->text + p->at, bytes, n_bytes);
        p->type = PKV__PIECE_UNUSED;
    }
    return PKV_OK;
}

/* ---------------------------------------------------------------- maps */

static uint64_t hash_bytes(const uint8_t *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325U; /* FNV-1a, then mixed: its low bits are used */
    for (size_t k = 0; k < n; k++) h = (h ^ bytes[k]) * 0x100000001b3U;
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15U;
    return h ^ (h >> 29);
}

/* The slot that holds these bytes, or the empty one where they belong. */
static int32_t *slot_of(const pkv_tokenizer *t, const pkv__piece_map *map, const void *bytes,
                        size_t n)
{
    size_t k = (size_t)hash_bytes(bytes, n) & (map->n_slots - 1);
    for (;; k = (k + 1) & (map->n_slots - 1)) {
        int32_t *slot = &map->slots[k];
        if (*slot < 0) return slot;
        const pkv__piece *p = &t->pieces[*slot];
        if ((size_t)p->bytes == n && memcmp(t->text + p->at, bytes, n) == 0) return slot;
    }
}

int32_t pkv__tok_lookup(const pkv_tokenizer *t, const pkv__piece_map *map, const void *bytes,
                        size_t n_bytes)
{
    if (map->n_slots == 0 || n_bytes == 0) return -1;
    return *slot_of(t, map, bytes, n_bytes);
}

static size_t slots_for(size_t n)
{
    size_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots;
}

static bool is_added(const pkv__piece *p)
{
    return pkv__piece_special(p) || p->type == PKV__PIECE_USER;
}

static bool is_normal(const pkv__piece *p)
{
    return p->type == PKV__PIECE_NORMAL;
}

/* Of equal pieces the first counts; `first` and `second` tell of such a pair. */
static pkv_status build_map(pkv_tokenizer *t, bool (*belongs)(const pkv__piece *),
                            pkv__piece_map *map, int32_t *first, int32_t *second)
{
    size_t n = 0;
    for (size_t k = 0; k < t->n_pieces; k++) n += belongs(&t->pieces[k]);
    const size_t slots = slots_for(n);
    map->slots = pkv__alloc(&t->alloc, slots * sizeof(*map->slots), sizeof(*map->slots));
    if (!map->slots) return PKV_E_NO_MEMORY;
    map->n_slots = slots;
    memset(map->slots, 0xFF, slots * sizeof(*map->slots));
    *first = -1;
    for (size_t k = 0; k < t->n_pieces; k++) {
        const pkv__piece *p = &t->pieces[k];
        if (!belongs(p) || p->bytes == 0) continue;
        int32_t *slot = slot_of(t, map, t->text + p->at, (size_t)p->bytes);
        if (*slot < 0) {
            *slot = (int32_t)k;
        } else if (*first < 0) {
            *first = *slot;
            *second = (int32_t)k;
        }
    }
    return PKV_OK;
}

static pkv_status check_bytes(pkv_tokenizer *t)
{
    for (int b = 0; b < 256; b++) {
        const uint8_t byte = (uint8_t)b;
        if (!t->is_spm) t->byte_id[b] = pkv__tok_lookup(t, &t->normal, &byte, 1);
        if (t->byte_id[b] < 0 && t->unk < 0)
            return pkv__tok_refuse(t, 0, PKV_E_FORMAT,
                                   "no piece for byte 0x%02X, and none for what is unknown", b);
    }
    return PKV_OK;
}

pkv_status pkv__tok_index(pkv_tokenizer *t)
{
    int32_t first, second = -1;
    for (size_t k = 0; k < t->n_pieces; k++)
        if (is_normal(&t->pieces[k])) t->max_piece = pkv__max_i32(t->max_piece, t->pieces[k].bytes);
    pkv_status status = build_map(t, is_normal, &t->normal, &first, &second);
    if (status != PKV_OK) return status;
    if (first >= 0 && !t->is_spm)
        return pkv__tok_refuse(t, 0, PKV_E_FORMAT, "pieces %d and %d are the same", first, second);
    status = build_map(t, is_added, &t->added, &first, &second);
    if (status == PKV_OK) status = pkv__added_index(t);
    return status == PKV_OK ? check_bytes(t) : status;
}

/* ---------------------------------------------------------------- pairs */

static pkv__pair *pair_slot(pkv__pair *pairs, size_t slots, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15U;
    size_t k = (size_t)(h ^ (h >> 31)) & (slots - 1);
    for (;; k = (k + 1) & (slots - 1)) {
        pkv__pair *p = &pairs[k];
        if (p->left < 0 || (p->left == left && p->right == right)) return p;
    }
}

const pkv__pair *pkv__tok_pair(const pkv_tokenizer *t, int32_t left, int32_t right)
{
    if (t->pair_slots == 0) return NULL;
    const pkv__pair *p = pair_slot(t->pairs, t->pair_slots, left, right);
    return p->left < 0 ? NULL : p;
}

static pkv_status grow_pairs(pkv_tokenizer *t)
{
    if (2 * (t->n_pairs + 1) <= t->pair_slots) return PKV_OK;
    const size_t slots = t->pair_slots ? 2 * t->pair_slots : 64;
    pkv__pair *more = pkv__alloc(&t->alloc, slots * sizeof(*more), sizeof(void *));
    if (!more) return PKV_E_NO_MEMORY;
    memset(more, 0xFF, slots * sizeof(*more));
    for (size_t k = 0; k < t->pair_slots; k++) {
        const pkv__pair *p = &t->pairs[k];
        if (p->left >= 0) *pair_slot(more, slots, p->left, p->right) = *p;
    }
    pkv__free(&t->alloc, t->pairs, t->pair_slots * sizeof(*t->pairs));
    t->pairs = more;
    t->pair_slots = slots;
    return PKV_OK;
}

static pkv_status find_joined(pkv_tokenizer *t, const void *left, size_t n_left, const void *right,
                              size_t n_right, int32_t *id)
{
    uint8_t few[256], *joined = few;
    const size_t n = n_left + n_right;
    *id = -1;
    if (n > (size_t)t->max_piece) return PKV_OK;
    if (n > sizeof(few)) joined = pkv__alloc(&t->alloc, n, 1);
    if (!joined) return PKV_E_NO_MEMORY;
    memcpy(joined, left, n_left);
    memcpy(joined + n_left, right, n_right);
    *id = pkv__tok_lookup(t, &t->normal, joined, n);
    if (joined != few) pkv__free(&t->alloc, joined, n);
    return PKV_OK;
}

pkv_status pkv__tok_add_merge(pkv_tokenizer *t, const void *left, size_t n_left, const void *right,
                              size_t n_right)
{
    pkv__pair pair = {
        .left = pkv__tok_lookup(t, &t->normal, left, n_left),
        .right = pkv__tok_lookup(t, &t->normal, right, n_right),
        .rank = (int32_t)t->n_pairs,
    };
    if (pair.left < 0 || pair.right < 0) return PKV_E_FORMAT;
    pkv_status status = find_joined(t, left, n_left, right, n_right, &pair.id);
    if (status != PKV_OK) return status;
    if (pair.id < 0) return PKV_E_FORMAT;
    status = grow_pairs(t);
    if (status != PKV_OK) return status;
    pkv__pair *slot = pair_slot(t->pairs, t->pair_slots, pair.left, pair.right);
    if (slot->left >= 0) return PKV_E_FORMAT;
    *slot = pair;
    t->n_pairs++;
    return PKV_OK;
}

pkv_status pkv__tok_add_printable_merge(pkv_tokenizer *t, const uint8_t *line, size_t n)
{
    uint8_t few[512], *bytes = few;
    size_t n_left, n_right;
    const uint8_t *space = n > 0 ? memchr(line, ' ', n) : NULL;
    if (!space) return PKV_E_FORMAT;
    if (n > sizeof(few)) bytes = pkv__alloc(&t->alloc, n, 1);
    if (!bytes) return PKV_E_NO_MEMORY;
    pkv_status status = PKV_E_FORMAT;
    const size_t at = (size_t)(space - line);
    if (pkv__printable_to_bytes(line, at, bytes, &n_left) &&
        pkv__printable_to_bytes(space + 1, n - at - 1, bytes + at, &n_right))
        status = pkv__tok_add_merge(t, bytes, n_left, bytes + at, n_right);
    if (bytes != few) pkv__free(&t->alloc, bytes, n);
    return status;
}
