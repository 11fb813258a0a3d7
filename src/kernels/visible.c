/* Which row sees which key. Positions are taken relative to kv_pos0 of the sequence, in 64 bits, so
 * that no difference of two int32 wraps: key j stands at j, unless its row says otherwise. */
#include "kernels/kernels_internal.h"

/* First of the rows' own keys, the last q_len ones; below 0 where there are fewer keys than rows.
 */
static int64_t first_own_key(const struct pkv__attn_unit *u)
{
    return (int64_t)u->kv_len - u->q_len;
}

static int64_t row_pos(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i)
{
    if (c->batch->q_pos) return (int64_t)c->batch->q_pos[u->row0 + i] - u->pos0;
    return first_own_key(u) + i;
}

/* Do the rows' own keys stand where q_pos says? */
static bool own_keys_move(const struct pkv__attn_call *c)
{
    return c->batch->q_pos && !c->batch->q_detached;
}

static int64_t key_pos(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t j)
{
    const int64_t i = j - first_own_key(u); /* the row that wrote key j */
    return own_keys_move(c) && i >= 0 ? row_pos(c, u, (int32_t)i) : j;
}

/* The positions [lo, hi] that a row at `at` sees. */
struct span {
    int64_t lo, hi;
};
static struct span seen_from(const pkv_attn_opts *o, int64_t at)
{
    struct span s = { INT64_MIN, INT64_MAX };
    if (o->window_left >= 0) s.lo = at - o->window_left;
    if (o->window_right >= 0) s.hi = at + o->window_right;
    if (o->causal && s.hi > at) s.hi = at;
    return s;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Ones at [lo, hi), 0 <= lo, hi <= 64. */
static uint64_t ones(int64_t lo, int64_t hi)
{
    if (lo >= hi) return 0;
    return (~UINT64_C(0) >> (64 - (hi - lo))) << lo;
}

/* Of keys [j, j + n), those that lie at their index and in the span. */
static uint64_t bits_by_index(struct span s, int32_t j, int32_t n)
{
    if (s.hi < s.lo) return 0;
    const int64_t hi = s.hi == INT64_MAX ? n : clamp(s.hi + 1 - j, 0, n);
    return ones(s.lo == INT64_MIN ? 0 : clamp(s.lo - j, 0, n), hi);
}

/* Bit `at` of a mask row, bits beyond its words being 0. */
static bool mask_bit(const uint32_t *row, int64_t n_words, int64_t at)
{
    return at / 32 < n_words && (row[at / 32] >> (at % 32) & 1u);
}

uint64_t pkv__visible_bits(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                           int32_t i, int32_t j, int32_t n)
{
    PKV_ASSERT(n >= 1 && n <= 64 && j >= 0 && n <= u->kv_len - j && i >= 0 && i < u->q_len);
    const struct span seen = seen_from(c->opts, row_pos(c, u, i));
    uint64_t bits = bits_by_index(seen, j, n);
    const int64_t own = first_own_key(u);
    const int32_t own_at = (int32_t)clamp(own - j, 0, n); /* own keys are [j + own_at, j + n) */
    if (own_keys_move(c))
        for (int32_t b = own_at; b < n; b++) {
            const int64_t at = key_pos(c, u, j + b);
            const uint64_t one = UINT64_C(1) << b;
            bits = at >= seen.lo && at <= seen.hi ? bits | one : bits & ~one;
        }
    if (c->opts->mask) {
        const uint32_t *row = c->opts->mask + (u->row0 + i) * c->opts->mask_stride;
        for (int32_t b = own_at; b < n; b++)
            if (!mask_bit(row, c->opts->mask_stride, j + b - own)) bits &= ~(UINT64_C(1) << b);
    }
    return bits;
}

int64_t pkv__key_ahead(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                       int32_t j)
{
    return key_pos(c, u, j) - row_pos(c, u, i);
}

struct pkv__key_range pkv__visible_hull(const struct pkv__attn_call *c,
                                        const struct pkv__attn_unit *u, int32_t i)
{
    const struct span seen = seen_from(c->opts, row_pos(c, u, i));
    const int64_t own = own_keys_move(c) ? clamp(first_own_key(u), 0, u->kv_len) : u->kv_len;
    const int64_t lo = clamp(seen.lo, 0, own);
    /* Own keys that move may be seen, wherever they are. */
    if (own < u->kv_len) return (struct pkv__key_range){ (int32_t)lo, u->kv_len };
    const int64_t hi = seen.hi == INT64_MAX ? own : clamp(seen.hi + 1, lo, own);
    return (struct pkv__key_range){ (int32_t)lo, (int32_t)hi };
}

struct pkv__key_range pkv__hull_of_rows(const struct pkv__attn_call *c,
                                        const struct pkv__attn_unit *u, int32_t lo, int32_t hi)
{
    struct pkv__key_range all = pkv__visible_hull(c, u, lo);
    /* Rows at their indices see further and further: the first and the last one tell. */
    const bool ends_tell = !c->batch->q_pos && all.lo < all.hi;
    for (int32_t i = ends_tell ? hi - 1 : lo + 1; i < hi; i++) {
        const struct pkv__key_range one = pkv__visible_hull(c, u, i);
        if (one.lo == one.hi) continue;
        if (all.lo == all.hi) all = one;
        all.lo = pkv__min_i32(all.lo, one.lo);
        all.hi = pkv__max_i32(all.hi, one.hi);
    }
    return all;
}
