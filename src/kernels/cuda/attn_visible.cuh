/* Which row sees which key, on the device: what kernels/visible.c says, in every case.
 *
 *      keys   0 ............ plain | ............... kv_len
 *             seen by index: an      the rows' own keys, where they
 *             interval per row       stand at q_pos or have mask bits
 *
 * Positions are relative to the position of key 0 and have 64 bits: no difference of two int32
 * wraps. Without q_pos and mask all keys are plain. Everything here reads q_pos and mask alone, and
 * works in registers; rows count from the first one of the sequence.
 *
 *   once per tile of rows   pkv__sight_hull, pkv__sight_core
 *   once per row            pkv__sight_keys
 *   per tile of keys        pkv__bits_of where pkv__sight_plain says so, else pkv__sight_word */
#ifndef PKV_ATTN_VISIBLE_CUH
#define PKV_ATTN_VISIBLE_CUH

#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/pkv_dev.cuh"

/* Keys [lo, hi). */
struct pkv__keys {
    int32_t lo, hi;
};

/* All that visibility depends on in one sequence, its lengths already cut to what exists. */
struct pkv__sight {
    const int32_t *q_pos; /* of row 0; NULL: rows stand at their indices */
    const uint32_t *mask; /* words of row 0; NULL: none */
    int64_t mask_stride;
    int32_t mask_words; /* of a row that exist and name keys */
    int32_t q_len, kv_len, pos0;
    int32_t left, right; /* the window; causal is a right of 0; -1: no limit */
    int32_t plain;       /* keys below it are seen by index */
    bool own_move;       /* own keys stand at q_pos */
};

PKV_DEV int32_t pkv__clamp_key(int64_t x, int32_t lo, int32_t hi)
{
    return x < lo ? lo : x > hi ? hi : (int32_t)x;
}

PKV_DEV pkv__sight pkv__sight_of(const pkv_attn_batch &batch, const pkv_attn_opts &opts,
                                 int32_t seq, int32_t row0, int32_t q_len, int32_t kv_len)
{
    pkv__sight s;
    s.q_pos = batch.q_pos ? batch.q_pos + row0 : nullptr;
    s.mask = opts.mask ? opts.mask + row0 * opts.mask_stride : nullptr;
    s.mask_stride = opts.mask_stride;
    s.mask_words = pkv__clamp_key(opts.mask_stride, 0, (int32_t)(((int64_t)q_len + 31) / 32));
    s.q_len = q_len;
    s.kv_len = kv_len;
    s.pos0 = batch.kv_pos0 ? batch.kv_pos0[seq] : 0;
    s.left = opts.window_left;
    s.right = opts.causal ? 0 : opts.window_right;
    s.own_move = batch.q_pos && !batch.q_detached;
    s.plain = s.own_move || s.mask ? pkv__clamp_key((int64_t)kv_len - q_len, 0, kv_len) : kv_len;
    return s;
}

PKV_DEV int64_t pkv__sight_row_at(const pkv__sight &s, int32_t i)
{
    return s.q_pos ? (int64_t)s.q_pos[i] - s.pos0 : (int64_t)s.kv_len - s.q_len + i;
}

/* Of all keys, taken to stand at their indices, those that a row at `at` sees. */
PKV_DEV pkv__keys pkv__sight_keys_from(const pkv__sight &s, int64_t at)
{
    pkv__keys keys = { 0, s.kv_len };
    if (s.left >= 0) keys.lo = pkv__clamp_key(at - s.left, 0, s.kv_len);
    if (s.right >= 0) keys.hi = pkv__clamp_key(at + s.right + 1, 0, s.kv_len);
    if (keys.hi < keys.lo) keys.hi = keys.lo;
    return keys;
}
PKV_DEV pkv__keys pkv__sight_keys(const pkv__sight &s, int32_t i)
{
    return pkv__sight_keys_from(s, pkv__sight_row_at(s, i));
}

/* Position of key j minus that of row i, for ALiBi. */
PKV_DEV int64_t pkv__sight_ahead(const pkv__sight &s, int32_t i, int32_t j)
{
    const int64_t own = (int64_t)j - ((int64_t)s.kv_len - s.q_len);
    const int64_t key = s.own_move && own >= 0 ? pkv__sight_row_at(s, (int32_t)own) : j;
    return key - pkv__sight_row_at(s, i);
}

/* ---------------------------------------------------------------- ranges of rows */
PKV_DEV bool pkv__keys_empty(pkv__keys a)
{
    return a.lo >= a.hi;
}
/* The least interval around both; an empty one counts for nothing. */
PKV_DEV pkv__keys pkv__keys_around(pkv__keys a, pkv__keys b)
{
    if (pkv__keys_empty(a)) return b;
    if (pkv__keys_empty(b)) return a;
    return { a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi };
}
PKV_DEV pkv__keys pkv__keys_in_both(pkv__keys a, pkv__keys b)
{
    return { a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi };
}

/* Outside of it row i sees nothing. Own keys that move may be seen wherever they are. */
PKV_DEV pkv__keys pkv__sight_row_hull(const pkv__sight &s, int32_t i)
{
    const pkv__keys keys = pkv__sight_keys(s, i);
    if (!s.own_move || s.plain >= s.kv_len) return keys;
    return { keys.lo < s.plain ? keys.lo : s.plain, s.kv_len };
}

/* Outside of it none of rows [lo, hi), at least one, sees anything. Where rows stand at their
 * indices they see further and further, one key after the other: the ends tell, without q_pos. */
PKV_DEV pkv__keys pkv__sight_hull(const pkv__sight &s, int32_t lo, int32_t hi)
{
    if (!s.q_pos) {
        const pkv__keys first = pkv__sight_keys(s, lo), last = pkv__sight_keys(s, hi - 1);
        return { first.lo < last.hi ? first.lo : last.hi, last.hi };
    }
    pkv__keys all = pkv__sight_row_hull(s, lo);
    for (int32_t i = lo + 1; i < hi; i++) all = pkv__keys_around(all, pkv__sight_row_hull(s, i));
    return all;
}

/* Each of rows [lo, hi), at least one, sees all of these; some may see more, all of them too. */
PKV_DEV pkv__keys pkv__sight_core(const pkv__sight &s, int32_t lo, int32_t hi)
{
    pkv__keys all = pkv__keys_in_both(pkv__sight_keys(s, lo), { 0, s.plain });
    for (int32_t i = s.q_pos ? lo + 1 : hi - 1; i < hi; i++)
        all = pkv__keys_in_both(all, pkv__sight_keys(s, i));
    return all;
}

/* Are keys [j, j + n) all in there? */
PKV_DEV bool pkv__keys_hold(pkv__keys keys, int32_t j, int32_t n)
{
    return keys.lo <= j && keys.hi - j >= n;
}

/* ---------------------------------------------------------------- bits of keys */
/* Ones at [lo, hi), of 32. */
PKV_DEV uint32_t pkv__ones(int32_t lo, int32_t hi)
{
    if (lo < 0) lo = 0;
    if (hi > 32) hi = 32;
    return lo < hi ? (0xffffffffu >> (32 - (hi - lo))) << lo : 0;
}
/* Bit b: is key j + b among them? */
PKV_DEV uint32_t pkv__bits_of(pkv__keys keys, int32_t j)
{
    return pkv__ones(keys.lo - j, keys.hi - j);
}

/* Are all of keys [j, j + n) that exist seen by index? */
PKV_DEV bool pkv__sight_plain(const pkv__sight &s, int32_t j, int32_t n)
{
    return s.plain >= s.kv_len || s.plain - j >= n;
}

/* 32 bits of a mask row from bit `at` on; beyond its words are zeros. */
PKV_DEV uint32_t pkv__mask_word(const uint32_t *row, int32_t n_words, int32_t at)
{
    const int32_t word = at / 32, shift = at % 32;
    uint32_t bits = word < n_words ? row[word] >> shift : 0;
    if (shift > 0 && word + 1 < n_words) bits |= row[word + 1] << (32 - shift);
    return bits;
}

/* Of the own keys among [j, j + 32), those that stand in sight of a row at `at`; `own` is the row
 * of key j, below 0 in front of own keys. Bits of other keys are as they were. */
PKV_DEV uint32_t pkv__moved_bits(const pkv__sight &s, int64_t at, int64_t own, int32_t end,
                                 uint32_t bits)
{
    for (int32_t b = own < 0 ? (int32_t)-own : 0; b < end; b++) {
        const int64_t ahead = pkv__sight_row_at(s, (int32_t)(own + b)) - at;
        const bool seen = (s.left < 0 || -ahead <= s.left) && (s.right < 0 || ahead <= s.right);
        bits = seen ? bits | 1u << b : bits & ~(1u << b);
    }
    return bits;
}

/* Bit b: does row i see key j + b? 0 <= j; keys from kv_len on are not seen. Right in all cases. */
PKV_DEV uint32_t pkv__sight_word(const pkv__sight &s, int32_t i, int32_t j)
{
    const int64_t at = pkv__sight_row_at(s, i);
    uint32_t bits = pkv__bits_of(pkv__sight_keys_from(s, at), j);
    if (pkv__sight_plain(s, j, 32) || j >= s.kv_len) return bits;
    const int64_t own = (int64_t)j - ((int64_t)s.kv_len - s.q_len);
    const int32_t end = s.kv_len - j < 32 ? s.kv_len - j : 32;
    if (s.own_move) bits = pkv__moved_bits(s, at, own, end, bits);
    if (!s.mask) return bits;
    const uint32_t *row = s.mask + i * s.mask_stride;
    if (own >= 0) return bits & pkv__mask_word(row, s.mask_words, (int32_t)own);
    const int32_t others = (int32_t)-own; /* fewer than 32 keys in front of the own ones */
    return bits & (pkv__mask_word(row, s.mask_words, 0) << others | pkv__ones(0, others));
}

#endif
