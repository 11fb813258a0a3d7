/* The work of a decode launch as one line, cut into spans of equal cost: one for each block of
 * threads (CTA). Pure functions of numbers.
 *
 *      item 0                item 1         item 2 ...
 *   SSSS tttttttttttttttt SSSS tttttttt SSSS tttttttttttttttt SSSS ...     t: a tile of 16 keys
 *   |------- CTA 0 -------|------- CTA 1 -------|------- CTA 2 -------|    S: start of an item
 *
 * An item is one (sequence, kv head, tile of query columns) over all tiles of keys that its
 * sequence sees. A tile belongs to the CTA in whose span its place lies, so that of the items of a
 * CTA only the first and the last can be shared with others: two places for partial states per CTA
 * suffice, whatever the batch. Flat lists cut evenly: arXiv 2405.10480. */
#ifndef PKV_ATTN_SPANS_CUH
#define PKV_ATTN_SPANS_CUH

#include "kernels/cuda/pkv_dev.cuh"

/* What an item costs besides its tiles, in tiles: queries are loaded, the first keys are waited
 * for, warps are merged. An estimate: nothing of this was measured on a GPU. */
constexpr int32_t PKV__ITEM_START = 4;
/* A CTA gets no less than a start and a tile for each of 4 warps: below, it merges more than it
 * reads. */
constexpr int32_t PKV__LEAST_SPAN = PKV__ITEM_START + 4;

/* An item without keys has something to write all the same: it counts as one tile. */
PKV_DEV int64_t pkv__item_cost(int32_t n_tiles)
{
    return (int64_t)PKV__ITEM_START + (n_tiles > 0 ? n_tiles : 1);
}

struct pkv__line {
    int64_t total;  /* cost of all items */
    int32_t n_ctas; /* that get something: total / n_ctas is at least PKV__LEAST_SPAN, or it is 1 */
};
PKV_DEV pkv__line pkv__line_of(int64_t total, int32_t n_ctas)
{
    const int64_t most = total / PKV__LEAST_SPAN;
    return { total, most < 1 ? 1 : most < n_ctas ? (int32_t)most : n_ctas };
}

/* Span i is [span_begin(i), span_begin(i + 1)); CTAs from n_ctas on have none. */
PKV_DEV int64_t pkv__span_begin(pkv__line line, int32_t i)
{
    const int32_t n = line.n_ctas;
    if (i >= n) return line.total;
    return line.total / n * i + line.total % n * i / n;
}
/* The CTA in whose span place x lies: the last i with floor(i * total / n) <= x. Lines are below
 * 2^50 here: 2^22 sequences of a million keys and 64 kv heads. */
PKV_DEV int32_t pkv__span_owner(pkv__line line, int64_t x)
{
    return (int32_t)((((uint64_t)x + 1) * (uint64_t)line.n_ctas - 1) / (uint64_t)line.total);
}

/* What a CTA has of an item: tiles [lo, hi). lo == hi: nothing. */
struct pkv__part {
    int32_t lo, hi;
    int32_t first_cta, last_cta; /* that have tiles of it; equal: it is not shared */
};
/* Of the item whose start lies at `begin`. */
PKV_DEV pkv__part pkv__part_of(pkv__line line, int32_t cta, int64_t begin, int32_t n_tiles)
{
    const int32_t n = n_tiles > 0 ? n_tiles : 1;
    const int64_t tiles = begin + PKV__ITEM_START;
    const int64_t lo = pkv__span_begin(line, cta) - tiles;
    const int64_t hi = pkv__span_begin(line, cta + 1) - tiles;
    pkv__part part;
    part.lo = lo < 0 ? 0 : lo > n ? n : (int32_t)lo;
    part.hi = hi < 0 ? 0 : hi > n ? n : (int32_t)hi;
    part.first_cta = pkv__span_owner(line, tiles);
    part.last_cta = pkv__span_owner(line, tiles + n - 1);
    return part;
}
/* The same where items are not shared: all of it goes to the CTA in whose span it begins. */
PKV_DEV pkv__part pkv__whole_part(pkv__line line, int32_t cta, int64_t begin, int32_t n_tiles)
{
    const bool own = pkv__span_owner(line, begin) == cta;
    return { 0, own ? (n_tiles > 0 ? n_tiles : 1) : 0, cta, cta };
}

/* Where the CTA leaves its state of an item that it shares: an item ends the span of its first CTA,
 * and begins those of all others. */
PKV_DEV int32_t pkv__part_slot(pkv__part part, int32_t cta)
{
    return 2 * cta + (cta == part.first_cta);
}

/* Items of one cost that follow each other from `begin` on: the first one that reaches into places
 * from x on. */
PKV_DEV int64_t pkv__first_item(int64_t begin, int64_t cost, int64_t x)
{
    return x <= begin ? 0 : (x - begin) / cost;
}

#endif
