/* Extra keys of a unit: what else than tokens decides its K/V. Kept as exact lists of entries and
 * not as a digest of a list: comparison stays exact, a prefix of a unit can be compared (partial
 * hits), and a truncation into a unit can cut its list. Units without extras pay nothing.
 *
 * An extra that spans units has one entry in each, with the same n and digest and another offset,
 * so that the entry says where in the extra the unit stands. */
#include "blockmgr_internal.h"

struct extra_view {
    int64_t offset;
    int32_t n;
    const uint8_t *digest;
};

static struct extra_view view_entry(const pkv_blockmgr *m, int32_t entry)
{
    const struct extra_entry *e = &extras_of(m)[entry];
    return (struct extra_view){ e->offset, e->n, e->digest };
}

/* The next entry of *list that begins before token n_tokens; false at the end. */
static bool next_extra(const pkv_blockmgr *m, struct extra_list *list, int32_t n_tokens,
                       struct extra_view *out)
{
    if (list->array) {
        if (list->n_array == 0) return false;
        const pkv_extra *x = list->array++;
        list->n_array--;
        *out = (struct extra_view){ x->first + list->shift, x->n, x->digest };
    } else {
        if (list->entry == NONE) return false;
        *out = view_entry(m, list->entry);
        list->entry = extras_of(m)[list->entry].next;
    }
    return out->offset < n_tokens;
}

static bool same_extra(const struct extra_view *a, const struct extra_view *b)
{
    return a->offset == b->offset && a->n == b->n && memcmp(a->digest, b->digest, 32) == 0;
}

bool pkv__extras_valid(const pkv_tokens *t)
{
    int64_t end = INT64_MIN; /* of the extra before */
    if (t->n_extras < 0 || (t->n_extras > 0 && !t->extras)) return false;
    for (int32_t i = 0; i < t->n_extras; i++) {
        const pkv_extra *x = &t->extras[i];
        if (x->n < 1 || (int64_t)x->first + x->n <= 0 || x->first >= t->n || x->first < end)
            return false;
        end = (int64_t)x->first + x->n;
    }
    return true;
}

struct extra_list pkv__extras_at(const pkv_tokens *t, int32_t unit_start, int32_t *cursor)
{
    while (*cursor < t->n_extras &&
           (int64_t)t->extras[*cursor].first + t->extras[*cursor].n <= unit_start)
        (*cursor)++;
    if (*cursor == t->n_extras) return extra_entries(NONE);
    return (struct extra_list){ t->extras + *cursor, t->n_extras - *cursor, -(int64_t)unit_start,
                                NONE };
}

bool pkv__extras_equal(const pkv_blockmgr *m, struct extra_list a, struct extra_list b,
                       int32_t n_tokens)
{
    return pkv__extras_common(m, a, b, n_tokens) == n_tokens;
}

int32_t pkv__extras_common(const pkv_blockmgr *m, struct extra_list a, struct extra_list b,
                           int32_t n_tokens)
{
    for (;;) {
        struct extra_view x = { 0, 0, NULL }, y = x;
        const bool more_a = next_extra(m, &a, n_tokens, &x),
                   more_b = next_extra(m, &b, n_tokens, &y);
        if (!more_a && !more_b) return n_tokens;
        if (more_a && more_b && same_extra(&x, &y)) continue;
        /* They differ from the first token that only one of these entries touches. */
        int64_t common = n_tokens;
        if (more_a && x.offset < common) common = x.offset;
        if (more_b && y.offset < common) common = y.offset;
        return common > 0 ? (int32_t)common : 0;
    }
}

void pkv__extras_hash(const pkv_blockmgr *m, struct extra_list list, int32_t n_tokens,
                      struct pkv__siphash *h)
{
    struct extra_view x = { 0, 0, NULL };
    while (next_extra(m, &list, n_tokens, &x)) {
        pkv__siphash_u64(h, (uint64_t)x.offset);
        pkv__siphash_u64(h, (uint64_t)x.n);
        for (int i = 0; i < 4; i++) {
            uint64_t word = 0;
            for (int j = 0; j < 8; j++) word |= (uint64_t)x.digest[8 * i + j] << (8 * j);
            pkv__siphash_u64(h, word);
        }
    }
}

static int32_t last_entry(const pkv_blockmgr *m, int32_t entry)
{
    while (entry != NONE && extras_of(m)[entry].next != NONE) entry = extras_of(m)[entry].next;
    return entry;
}

bool pkv__extras_follow(const pkv_blockmgr *m, int32_t head, struct extra_list src, int32_t n_tail)
{
    struct extra_view x = { 0, 0, NULL };
    if (n_tail == 0 || !next_extra(m, &src, INT32_MAX, &x) || x.offset >= n_tail) return true;
    if (head == NONE) return false;
    const struct extra_view last = view_entry(m, last_entry(m, head));
    return same_extra(&x, &last);
}

static int32_t take_entry(pkv_blockmgr *m)
{
    int32_t e = m->free_extra;
    if (e != NONE) m->free_extra = extras_of(m)[e].next;
    else if (m->extra_high < m->max_extras) e = m->extra_high++;
    else return NONE;
    m->n_extras++;
    return e;
}

bool pkv__extras_append(pkv_blockmgr *m, int32_t *head, struct extra_list src, int32_t n_tokens)
{
    struct extra_entry *entries = extras_of(m);
    struct extra_view x = { 0, 0, NULL };
    int32_t last = last_entry(m, *head);
    while (next_extra(m, &src, n_tokens, &x)) {
        if (last != NONE) {
            const struct extra_view y = view_entry(m, last);
            if (same_extra(&x, &y)) continue; /* began in an earlier call */
        }
        const int32_t e = take_entry(m);
        if (e == NONE) return false;
        entries[e].offset = x.offset, entries[e].n = x.n, entries[e].next = NONE;
        memcpy(entries[e].digest, x.digest, sizeof entries[e].digest);
        if (last != NONE) entries[last].next = e;
        else *head = e;
        last = e;
    }
    return true;
}

/* Give back the list that begins at *link. */
static void free_entries(pkv_blockmgr *m, int32_t *link)
{
    struct extra_entry *entries = extras_of(m);
    while (*link != NONE) {
        const int32_t e = *link;
        *link = entries[e].next;
        entries[e].next = m->free_extra;
        m->free_extra = e;
        m->n_extras--;
    }
}

void pkv__extras_clip(pkv_blockmgr *m, int32_t *head, int32_t n_tokens)
{
    struct extra_entry *entries = extras_of(m);
    int32_t *link = head;
    while (*link != NONE && entries[*link].offset < n_tokens) link = &entries[*link].next;
    free_entries(m, link);
}

void pkv__extras_drop(pkv_blockmgr *m, int32_t *head)
{
    free_entries(m, head);
}
