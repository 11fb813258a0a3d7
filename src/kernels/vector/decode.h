/* What the short-rows kernels (decode, verify) of every level share: where state lies, which keys
 * are seen, and where they are. Plain C; compiled once into each level with that level's flags.
 *
 *   chunk of 1024 keys       | panel 0: 32 keys | panel 1 | panel 2 | ...  panel 31 |
 *   visible to some row            [.............................................]
 *   a stretch: 1-8 panels    kv head 0: K x 32  V x 32 ..., head 1: K x 32  V x 32 ..., ...
 *   row pointers                           ^ being read       ^ 12 KiB later: being fetched
 *
 * A query vector is one row's query of one head. All vectors of a kv head read its keys together,
 * in tiles of 1, 2, 4 or 8. Every sum has an order of its own that knows nothing of tiles: a dot
 * product runs over its dims in lanes, p over the 32 keys of a panel in a fixed tree, p * V over
 * 16 keys in ascending order, then these sums in ascending order; panels start at multiples of 32
 * from key 0, and a key that a vector does not see adds nothing. So a vector's bits do not depend
 * on what else is in its tile, its unit or its batch.
 *
 * All kv heads of a stretch, about a block long, come before the next stretch: in a block the heads
 * lie side by side, so a block is read in one run, and paging costs what its few jumps cost. Where
 * the heads lie far apart instead (contiguous, head-major), a head's keys come before the next
 * head.
 *
 * Only the filling of the row pointers, a panel at a time, knows whether there is a table, how
 * large a block is and how rows are strided; all arithmetic sees nothing but row pointers. So the
 * paged and the contiguous entry have the same inner loops and the same bits. */
#ifndef PKV_DECODE_H
#define PKV_DECODE_H

#include "common/templates.h"
#include "kernels/kernels_internal.h"
#include "kernels/vector/decode_scratch.h"

#include <string.h>

enum {
    DECODE_PANEL = 32, /* keys between two looks at the running maximum; a bit for each */
    /* Keys that one partial sum of p * v runs over: at most 16 + n / 16 additions in a row. Few, so
     * that the passes over their rows, a part of the dims at a time, keep in step with what is
     * fetched. */
    DECODE_SUM = 16,
    DECODE_PANELS = PKV__CHUNK_TOKENS / DECODE_PANEL,
    DECODE_AHEAD = 12288, /* bytes from what is read to what is fetched; see avx512_decode.c */
    DECODE_STRETCH = 8,   /* most panels of one head that are read before the next head */
    DECODE_LANES = 16,    /* most of any level */
    DECODE_TILE = 8       /* most vectors of a tile */
};

/* Which keys of the chunk the rows of a unit see. Bit k of panel p: key key0 + 32 p + k. */
struct decode_sight {
    int32_t key0, n_panels;
    uint8_t panel[DECODE_PANELS + 1]; /* those that any row sees, ascending, then the next chunk's
                                         first one if it is known to be read, not counted */
    uint32_t any[DECODE_PANELS + 1];  /* seen by some row; nothing else is read */
    uint32_t row[PKV__DECODE_ROWS][DECODE_PANELS];
};

/* Vectors of one kv head that read K and V together. Score vectors hold [LANES / n keys][n
 * vectors]: a lane's vector is lane % n everywhere below, and lanes of one vector are equal. */
struct decode_tile {
    float max[DECODE_LANES];    /* running maximum of the scores */
    float sum[DECODE_LANES];    /* sum of p since `max` */
    float shift[DECODE_LANES];  /* sum of p * scale * zero of V; 0 for floats */
    float q_sum[DECODE_LANES];  /* sum of q, for zero points of K */
    float q_step[DECODE_LANES]; /* what q was divided by to become integers */
    float slope[DECODE_LANES];  /* ALiBi slope; 0: none */
    float ahead[DECODE_LANES];  /* lane's key within its vector of scores, minus the row's */
    int32_t first, n;           /* vectors, counted within the kv head: row * group + head */
    int32_t row0, row1;         /* rows they belong to, [row0, row1) of the unit */
    const float *q;             /* [n][q_stride], in the element order of the dtype */
    float *acc[DECODE_TILE];    /* [v dim] sum of p * v since `max`; the state's o */
};
_Static_assert(sizeof(struct decode_tile) <= PKV__DECODE_TILE_BYTES, "scratch of a tile");

/* Keys of one block within a panel: where their scales are. */
struct decode_run {
    int32_t block, token, at, n;
};

/* Row pointers of a panel's 32 keys of K, then of V, of the part's first kv head. Keys that nobody
 * sees have the pointer of a key that is seen, so that reading 32 rows reads nothing else. */
struct decode_panel {
    const char *row[2 * DECODE_PANEL];
    int32_t n_runs; /* filled for dtypes with scales */
    struct decode_run run[DECODE_PANEL];
};

/* A part of a unit in flight: some kv heads, and of each the vectors [vec0, vec0 + n_vecs). */
struct decode {
    const struct pkv__attn_call *call;
    const struct pkv__attn_unit *unit;
    const struct decode_sight *sight;
    const struct decode_fns *fns;                       /* of the dtype; decode_panel.inc */
    int32_t kv_head, n_kv_heads, vec0, n_vecs, n_tiles; /* tiles of one kv head */
    int32_t n_blocks, block_tokens, stretch_panels, q_stride;
    int32_t ahead;               /* rows from what is read to what is fetched */
    const char *k_base, *v_base; /* block 0, token 0 of the part's first kv head */
    int64_t k_block, k_token, k_head, v_block, v_token, v_head; /* strides in bytes */
    struct decode_tile *tile;                                   /* [n_kv_heads][n_tiles] */
    float *q;                                                   /* [n_kv_heads][n_vecs][q_stride] */
};

/* Vectors of the tile that starts when `left` vectors are still to be placed. */
static inline int32_t decode_tile_size(int32_t left, int32_t most)
{
    int32_t n = most;
    while (n > left) n /= 2;
    return n;
}

static inline uint32_t decode_ones(int64_t n) /* the lowest n bits; below 0 none, from 32 on all */
{
    return n >= 32 ? UINT32_MAX : n <= 0 ? 0u : (1u << n) - 1u;
}

static inline int32_t decode_end(uint32_t bits) /* one past the highest bit */
{
    return bits ? 32 - __builtin_clz(bits) : 0;
}

/* Bits of the keys of [first, first + 32) that lie in `keys`. */
static inline uint32_t decode_range_bits(struct pkv__key_range keys, int64_t first)
{
    return decode_ones(keys.hi - first) & ~decode_ones(keys.lo - first);
}

static inline uint32_t decode_row_bits(const struct pkv__attn_call *c,
                                       const struct pkv__attn_unit *u, int32_t i, int32_t first)
{
    const int32_t lo = pkv__max_i32(first, u->key_lo);
    if (lo - first >= DECODE_PANEL || lo >= u->key_hi) return 0;
    const int32_t n = pkv__min_i32(DECODE_PANEL - (lo - first), u->key_hi - lo);
    return (uint32_t)pkv__visible_bits(c, u, i, lo, n) << (lo - first);
}

/* The first keys of the next chunk, which whoever has this chunk probably reads next. */
static inline uint32_t decode_next_chunk(const struct pkv__attn_call *c,
                                         const struct pkv__attn_unit *u, int64_t first)
{
    uint32_t bits = 0;
    if (u->key_hi != first || !pkv__rows_are_ranges(c)) return 0;
    for (int32_t i = u->row_lo; i < u->row_hi; i++)
        bits |= decode_range_bits(pkv__visible_keys(c, u, i), first);
    return bits;
}

static inline void decode_see(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                              struct decode_sight *s)
{
    const bool ranges = pkv__rows_are_ranges(c);
    s->key0 = u->key_lo / PKV__CHUNK_TOKENS * PKV__CHUNK_TOKENS;
    s->n_panels = 0;
    memset(s->any, 0, sizeof s->any);
    for (int32_t i = u->row_lo; i < u->row_hi; i++) {
        struct pkv__key_range keys = pkv__visible_hull(c, u, i);
        keys.lo = pkv__max_i32(keys.lo, u->key_lo);
        keys.hi = pkv__min_i32(keys.hi, u->key_hi);
        uint32_t *row = s->row[i - u->row_lo];
        for (int32_t p = 0; p < DECODE_PANELS; p++) {
            const int32_t first = s->key0 + p * DECODE_PANEL;
            row[p] = ranges ? decode_range_bits(keys, first) : decode_row_bits(c, u, i, first);
            s->any[p] |= row[p];
        }
    }
    for (int32_t p = 0; p < DECODE_PANELS; p++)
        if (s->any[p]) s->panel[s->n_panels++] = (uint8_t)p;
    s->any[DECODE_PANELS] = decode_next_chunk(c, u, (int64_t)s->key0 + PKV__CHUNK_TOKENS);
    s->panel[s->n_panels] = DECODE_PANELS;
}

static inline int64_t decode_bytes(const pkv_kv_view *view, int64_t stride)
{
    return stride * pkv_dtype_bits(view->dtype) / 8;
}

static inline void decode_begin(struct decode *d, const struct pkv__attn_call *call,
                                const struct pkv__attn_unit *unit, const struct decode_sight *sight)
{
    const pkv_kv_view *k = call->k, *v = call->v;
    PKV_ASSERT(k->dtype == v->dtype && k->block_tokens == v->block_tokens);
    PKV_ASSERT(unit->row_hi - unit->row_lo <= PKV__DECODE_ROWS);
    PKV_ASSERT(unit->key_lo < unit->key_hi && unit->key_hi - sight->key0 <= PKV__CHUNK_TOKENS);
    d->call = call;
    d->unit = unit;
    d->sight = sight;
    d->n_blocks = pkv__min_i32(k->n_blocks, v->n_blocks);
    d->block_tokens = k->block_tokens;
    d->stretch_panels =
        pkv__max_i32(1, pkv__min_i32(DECODE_STRETCH, d->block_tokens / DECODE_PANEL));
    d->q_stride = (int32_t)pkv__align_up((size_t)k->dim, DECODE_LANES);
    d->k_block = decode_bytes(k, k->block_stride);
    d->k_token = decode_bytes(k, k->token_stride);
    d->k_head = decode_bytes(k, k->head_stride);
    d->v_block = decode_bytes(v, v->block_stride);
    d->v_token = decode_bytes(v, v->token_stride);
    d->v_head = decode_bytes(v, v->head_stride);
    const int32_t rows = (int32_t)(DECODE_AHEAD / decode_bytes(k, k->dim));
    d->ahead = rows < 2 * DECODE_PANEL ? rows : 2 * DECODE_PANEL;
}

/* Where the vectors of the part's kv head `g` (from 0), and their states, are. */
static inline int64_t decode_state_at(const struct decode *d, int32_t g, int32_t vector)
{
    const int32_t group = d->call->group, head = d->kv_head + g - d->unit->kv_head;
    return ((int64_t)(vector / group) * d->unit->n_kv_heads + head) * group + vector % group;
}

static inline void decode_place_tile(const struct decode *d, struct decode_tile *t, int32_t g,
                                     int32_t first, int32_t n)
{
    const int32_t group = d->call->group, v_dim = d->call->v->dim;
    t->first = first;
    t->n = n;
    t->row0 = first / group;
    t->row1 = (first + n - 1) / group + 1;
    t->q = d->q + ((int64_t)g * d->n_vecs + first - d->vec0) * d->q_stride;
    for (int32_t i = 0; i < n; i++) {
        t->acc[i] = d->unit->state.o + decode_state_at(d, g, first + i) * v_dim;
        memset(t->acc[i], 0, (size_t)v_dim * sizeof(float));
    }
    for (int32_t lane = 0; lane < DECODE_LANES; lane++) {
        const int32_t vector = first + lane % n, row = d->unit->row_lo + vector / group;
        const float *alibi = d->call->opts->alibi;
        t->max[lane] = -INFINITY;
        t->sum[lane] = t->shift[lane] = t->q_sum[lane] = 0.f;
        t->slope[lane] = alibi ? alibi[(d->kv_head + g) * group + vector % group] : 0.f;
        t->ahead[lane] = (float)(lane / n - ((int64_t)d->unit->kv_len - d->unit->q_len + row));
    }
}

/* Tiles of at most `most` vectors. */
static inline void decode_place_part(struct decode *d, void *scratch, int32_t most)
{
    const pkv_kv_view *k = d->call->k, *v = d->call->v;
    d->k_base = (const char *)k->data + d->kv_head * d->k_head;
    d->v_base = (const char *)v->data + d->kv_head * d->v_head;
    d->q = scratch;
    d->tile =
        (struct decode_tile *)(void *)(d->q + (int64_t)d->n_kv_heads * d->n_vecs * d->q_stride);
    d->n_tiles = 0;
    struct decode_tile *t = d->tile;
    for (int32_t g = 0; g < d->n_kv_heads; g++)
        for (int32_t at = 0, n; at < d->n_vecs; at += n, t++) {
            n = decode_tile_size(d->n_vecs - at, most);
            decode_place_tile(d, t, g, d->vec0 + at, n);
        }
    d->n_tiles = (int32_t)(t - d->tile) / d->n_kv_heads;
}

/* Keys [at, at + n) of a panel, which lie one token stride apart in `block`. */
static inline void decode_fill_run(const struct decode *d, struct decode_panel *p, int32_t at,
                                   int32_t n, int64_t block, int32_t token)
{
    const char *k = d->k_base + block * d->k_block + token * d->k_token;
    const char *v = d->v_base + block * d->v_block + token * d->v_token;
    p->run[p->n_runs++] = (struct decode_run){ (int32_t)block, token, at, n };
    for (const int32_t end = at + n; at < end; at++, k += d->k_token, v += d->v_token) {
        p->row[at] = k;
        p->row[at + DECODE_PANEL] = v;
    }
}

static inline void decode_fill_rest(struct decode_panel *p, uint32_t any)
{
    const int32_t seen = decode_end(any) - 1;
    for (uint32_t rest = ~any; rest; rest &= rest - 1) {
        const int32_t i = __builtin_ctz(rest);
        p->row[i] = p->row[seen];
        p->row[i + DECODE_PANEL] = p->row[seen + DECODE_PANEL];
    }
}

/* Row pointers of panel `idx` of the chunk. */
typedef void (*decode_fill_fn)(const struct decode *d, int32_t idx, struct decode_panel *p);

static inline void decode_fill_paged(const struct decode *d, int32_t idx, struct decode_panel *p)
{
    const uint32_t any = d->sight->any[idx];
    const int32_t key0 = d->sight->key0 + idx * DECODE_PANEL, end = decode_end(any);
    int32_t at = __builtin_ctz(any);
    int32_t entry = (key0 + at) / d->block_tokens, token = (key0 + at) % d->block_tokens;
    p->n_runs = 0;
    for (int32_t n; at < end; at += n, entry++, token = 0) {
        n = pkv__min_i32(end - at, d->block_tokens - token);
        if ((any >> at & decode_ones(n)) == 0) continue; /* nothing seen: not looked up */
        decode_fill_run(d, p, at, n, pkv__checked_id(d->call, d->unit, entry, d->n_blocks), token);
    }
    decode_fill_rest(p, any);
}

/* No table: sequence b lies in block b. */
static inline void decode_fill_contiguous(const struct decode *d, int32_t idx,
                                          struct decode_panel *p)
{
    const uint32_t any = d->sight->any[idx];
    const int32_t at = __builtin_ctz(any), n = decode_end(any) - at;
    p->n_runs = 0;
    decode_fill_run(d, p, at, n, d->unit->seq, d->sight->key0 + idx * DECODE_PANEL + at);
    decode_fill_rest(p, any);
}

#endif
