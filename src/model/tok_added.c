/* Added tokens are cut out of the text before anything else: left to right, the longest that fits.
 * Special ones only where the caller asks for it. */
#include "model/tok_internal.h"

#include <stdlib.h>
#include <utf8proc.h>

static int longest_first(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x < y) - (x > y);
}

pkv_status pkv__added_index(pkv_tokenizer *t)
{
    for (size_t k = 0; k < t->added.n_slots; k++) {
        if (t->added.slots[k] < 0) continue;
        const pkv__piece *p = &t->pieces[t->added.slots[k]];
        const pkv_status status = pkv__table_grow(&t->alloc, &t->added_bytes, &t->added_bytes_cap,
                                                  t->n_added_bytes, sizeof(int32_t));
        if (status != PKV_OK) return status;
        t->added_bytes[t->n_added_bytes++] = p->bytes;
        t->added_first[t->text[p->at]] = true;
    }
    t->n_added = (int32_t)t->n_added_bytes;
    if (t->n_added == 0) return PKV_OK;
    qsort(t->added_bytes, t->n_added_bytes, sizeof(int32_t), longest_first);
    size_t n = 1;
    for (size_t k = 1; k < t->n_added_bytes; k++)
        if (t->added_bytes[k] != t->added_bytes[n - 1]) t->added_bytes[n++] = t->added_bytes[k];
    t->n_added_bytes = n;
    return PKV_OK;
}

/* The character that ends before `at`. */
static int32_t char_before(const uint8_t *text, size_t at, size_t *begin)
{
    int32_t cp = -1;
    for (size_t back = 1; back <= 4 && back <= at; back++) {
        if ((text[at - back] & 0xC0) == 0x80) continue;
        if (pkv__utf8_next(text + at - back, back, &cp) != back) break;
        *begin = at - back;
        return cp;
    }
    *begin = at - 1;
    return -1;
}

/* Letters, marks, digits, letter-like numbers and connectors, as \w of most expressions. */
static bool is_word(int32_t cp)
{
    if (cp < 0x80) return cp == '_' || pkv__is_letter(cp) || pkv__is_number(cp);
    const utf8proc_category_t c = utf8proc_category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC ||
           cp == 0x200C || cp == 0x200D;
}

static bool stands_alone(const uint8_t *text, size_t n, size_t begin, size_t end)
{
    size_t before;
    int32_t cp;
    if (begin > 0 && is_word(char_before(text, begin, &before))) return false;
    if (end == n) return true;
    pkv__utf8_next(text + end, n - end, &cp);
    return !is_word(cp);
}

static int32_t longest_at(const pkv_tokenizer *t, const uint8_t *text, size_t n, size_t at,
                          bool parse_special)
{
    for (size_t k = 0; k < t->n_added_bytes; k++) {
        const size_t bytes = (size_t)t->added_bytes[k];
        if (bytes > n - at) continue;
        const int32_t id = pkv__tok_lookup(t, &t->added, text + at, bytes);
        if (id < 0 || (!parse_special && pkv__piece_special(&t->pieces[id]))) continue;
        if ((t->pieces[id].flags & PKV__ADDED_WORD) && !stands_alone(text, n, at, at + bytes))
            continue;
        return id;
    }
    return -1;
}

bool pkv__added_next(const pkv_tokenizer *t, const uint8_t *text, size_t n, size_t from,
                     bool parse_special, size_t *begin, size_t *end, int32_t *id)
{
    if (t->n_added == 0) return false;
    for (size_t at = from; at < n; at++) {
        if (!t->added_first[text[at]]) continue;
        const int32_t found = longest_at(t, text, n, at, parse_special);
        if (found < 0) continue;
        const pkv__piece *p = &t->pieces[found];
        size_t before, after = at + (size_t)p->bytes;
        while ((p->flags & PKV__ADDED_LSTRIP) && at > from &&
               pkv__is_space(char_before(text, at, &before)) && before >= from)
            at = before;
        while ((p->flags & PKV__ADDED_RSTRIP) && after < n) {
            int32_t cp;
            const size_t step = pkv__utf8_next(text + after, n - after, &cp);
            if (!pkv__is_space(cp)) break;
            after += step;
        }
        *begin = at;
        *end = after;
        *id = found;
        return true;
    }
    return false;
}
