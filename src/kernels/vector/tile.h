/* Attention of many rows, by tiles: what all levels share. Prefill, chunked prefill, long verify.
 *
 *                      queries: (row, head of the group), row by row     | a panel's lanes
 *                      panel 0       panel 1       panel 2  ...          |
 *   tile of 64 keys    S [64][lanes] = K Q^T, softmax down each lane, O [v dim][lanes] += V^T P
 *   next 64 keys       ...
 *
 * Every lane of a vector is a query of its own. So the maximum and the sum of a softmax need no
 * work across lanes, K and V are read as they lie, one element for all lanes at a time, and a row's
 * arithmetic cannot depend on the rows beside it. Only q and o are transposed, once per unit.
 *
 * Tiles of keys start at multiples of 64 from key 0, whatever the unit sees, so that the order of a
 * row's sums depends on the row alone. A tile's keys are turned into the form the arithmetic wants
 * once for all queries of the unit; keys that no row of the unit sees are not read, but are zeros
 * there. A panel works on the keys from its first visible one to its last, in whole steps.
 *
 * What a lane does not see has weight 0. V that is not finite would still reach it, as 0 * inf: in
 * tiles that somebody sees in part, such elements are 0 and are added afterwards, where seen. */
#ifndef PKV_VECTOR_TILE_H
#define PKV_VECTOR_TILE_H

#include "common/templates.h"
#include "kernels/kernels_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Largest dim of K and of V; latent attention, whose rows are longer, has its own. */
#ifndef TILE_MAX_DIM
#define TILE_MAX_DIM PKV__MAX_DIM
#endif

enum {
    TILE_KEYS = 64,         /* one word of visibility */
    TILE_QUERIES_MAX = 256, /* most queries that share a tile; levels have their own number */
    TILE_PANEL_MAX = 64,    /* most lanes of a panel */
    /* Floats from key to key of a tile. A power of two would put equal dims of all keys into few
     * sets of L1; a constant keeps the offsets of eight keys out of registers. */
    TILE_STRIDE = TILE_MAX_DIM + 16,
    TILE_DIM_STEP = 32 /* panels of q and o are laid out for dims rounded up to this */
};

/* The small arrays of a unit in flight, by query. At the start of the scratch. */
struct tile_rows {
    float max[TILE_QUERIES_MAX];     /* running maximum of the logits */
    float sum[TILE_QUERIES_MAX];     /* of e^(z - max) */
    float shrink[TILE_QUERIES_MAX];  /* e^(old max - max) of the tile in work */
    float slope[TILE_QUERIES_MAX];   /* ALiBi */
    float ahead[TILE_QUERIES_MAX];   /* position of the tile's first key minus the row's */
    uint64_t bits[TILE_QUERIES_MAX]; /* by row: keys of the tile that it sees */
    struct pkv__key_range range[TILE_QUERIES_MAX]; /* by row: no key outside is visible */
};

/* One unit, one kv head, up to TILE_QUERIES_MAX queries. */
struct tile {
    const struct pkv__attn_call *call;
    const struct pkv__attn_unit *unit;
    int32_t kv_head;
    int32_t n_queries; /* of this round, from head `skip` of row `row` on */
    int32_t row, skip; /* row counts in the sequence, skip in the group */
    int32_t n_rows;    /* rows that the queries belong to */
    int32_t kv_bits;   /* of an element of K and V */
    /* Of the numbers in s: logit = s * natural. Mostly they are bare dot products, and natural is
     * the scale; softcap and ALiBi want logits: then s is multiplied by `scale`. */
    float scale, natural, log2e; /* log2e: that of e^logit, in units of s */
    bool ranges;                 /* a row sees all of its range */
    bool partial;                /* some row does not see all keys of the tile */
    struct pkv__key_range hull;
    int32_t first, n_keys;     /* key tile in work: first key, keys that exist */
    uint64_t seen, wild;       /* its keys that some row sees; those with V that is not finite */
    int64_t row_id[TILE_KEYS]; /* block of each seen key */
    int32_t token[TILE_KEYS];  /* and its place in the block */
    struct tile_rows *rows;
    float *q;     /* [panels][k dim][lanes], or pairs of bf16 */
    float *o;     /* [panels][v dim][lanes] */
    float *k, *v; /* [TILE_KEYS][TILE_STRIDE], or as the level has it */
    float *s;     /* [TILE_KEYS][lanes]: logits, then weights, of the panel in work */
    float *extra; /* [TILE_KEYS][TILE_STRIDE]: of the level */
};

static inline int32_t tile_pad_dim(int32_t dim)
{
    return (dim + TILE_DIM_STEP - 1) / TILE_DIM_STEP * TILE_DIM_STEP;
}

/* Scratch of one task, enough for every level. */
static inline size_t pkv__tile_scratch_bytes(int32_t k_dim, int32_t v_dim)
{
    const size_t per_query = (size_t)(tile_pad_dim(k_dim) + tile_pad_dim(v_dim));
    const size_t floats = per_query * (TILE_QUERIES_MAX + TILE_PANEL_MAX) +
                          3 * (size_t)(TILE_KEYS * TILE_STRIDE) + TILE_KEYS * TILE_PANEL_MAX;
    return pkv__align_up(sizeof(struct tile_rows), PKV_CACHE_LINE) + floats * sizeof(float);
}

static inline void tile_place(struct tile *t, void *scratch)
{
    const int32_t k_dim = tile_pad_dim(t->call->k->dim), v_dim = tile_pad_dim(t->call->v->dim);
    char *at = scratch;
    t->rows = scratch;
    t->q = (float *)(void *)(at + pkv__align_up(sizeof *t->rows, PKV_CACHE_LINE));
    t->o = t->q + (size_t)k_dim * (TILE_QUERIES_MAX + TILE_PANEL_MAX);
    t->k = t->o + (size_t)v_dim * (TILE_QUERIES_MAX + TILE_PANEL_MAX);
    t->v = t->k + TILE_KEYS * TILE_STRIDE;
    t->extra = t->v + TILE_KEYS * TILE_STRIDE;
    t->s = t->extra + TILE_KEYS * TILE_STRIDE;
}

static inline void tile_choose_units(struct tile *t)
{
    const pkv_attn_opts *opts = t->call->opts;
    const float log2e = t->call->scale * PKV__LOG2E;
    const bool bare = opts->softcap == 0.f && !opts->alibi && log2e > 0.f && isnormal(log2e);
    t->scale = bare ? 1.f : t->call->scale;
    t->natural = bare ? t->call->scale : 1.f;
    t->log2e = bare ? log2e : PKV__LOG2E;
}

/* ---- who sees what --------------------------------------------------------------------------- */

/* Bits [lo, hi) of 64. */
static inline uint64_t tile_ones(int32_t lo, int32_t hi)
{
    if (lo >= hi) return 0;
    const uint64_t below = hi >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << hi) - 1;
    return below & ~((UINT64_C(1) << lo) - 1);
}

static inline void tile_find_hull(struct tile *t)
{
    t->hull = (struct pkv__key_range){ INT32_MAX, 0 };
    for (int32_t i = 0; i < t->n_rows; i++) {
        const struct pkv__key_range r = t->ranges ? pkv__visible_keys(t->call, t->unit, t->row + i)
                                                  : pkv__visible_hull(t->call, t->unit, t->row + i);
        t->rows->range[i] = r;
        if (r.lo >= r.hi) continue;
        t->hull.lo = pkv__min_i32(t->hull.lo, r.lo);
        t->hull.hi = pkv__max_i32(t->hull.hi, r.hi);
    }
}

/* Every row's bits of the tile; false: nobody sees anything. */
static inline bool tile_look(struct tile *t)
{
    uint64_t every = ~UINT64_C(0);
    t->seen = 0;
    t->n_keys = pkv__min_i32(TILE_KEYS, t->unit->kv_len - t->first);
    for (int32_t i = 0; i < t->n_rows; i++) {
        const struct pkv__key_range r = t->rows->range[i];
        const int32_t lo = pkv__max_i32(r.lo - t->first, 0);
        const int32_t hi = pkv__min_i32(r.hi - t->first, t->n_keys);
        uint64_t bits = lo < TILE_KEYS ? tile_ones(lo, hi) : 0;
        if (bits && !t->ranges)
            bits &= pkv__visible_bits(t->call, t->unit, t->row + i, t->first, t->n_keys);
        t->rows->bits[i] = bits;
        t->seen |= bits;
        every &= bits;
    }
    t->partial = every != ~UINT64_C(0);
    return t->seen != 0;
}

/* Row (from t->row) and head of the group of query i. */
static inline int32_t tile_row_of(const struct tile *t, int32_t i)
{
    return (t->skip + i) / t->call->group;
}
static inline int32_t tile_head_of(const struct tile *t, int32_t i)
{
    return t->kv_head * t->call->group + (t->skip + i) % t->call->group;
}

/* What the lanes of a panel see of the tile. */
struct tile_view {
    int32_t query, n;          /* first query, and how many */
    int32_t lo, hi;            /* keys to work on, multiples of the level's step */
    bool masked;               /* not every lane sees all of them */
    uint64_t lanes[TILE_KEYS]; /* by key, if masked: who sees it */
};

/* False: no lane sees a key. */
static inline bool tile_panel_view(const struct tile *t, int32_t step, struct tile_view *w)
{
    const int32_t a = tile_row_of(t, w->query), b = tile_row_of(t, w->query + w->n - 1);
    uint64_t some = 0, every = ~UINT64_C(0);
    for (int32_t i = a; i <= b; i++) {
        some |= t->rows->bits[i];
        every &= t->rows->bits[i];
    }
    if (some == 0) return false;
    w->lo = __builtin_ctzll(some) / step * step;
    w->hi = (64 - __builtin_clzll(some) + step - 1) / step * step;
    w->masked = (tile_ones(w->lo, w->hi) & ~every) != 0;
    if (!w->masked) return true;
    memset(w->lanes, 0, sizeof w->lanes);
    for (int32_t i = a; i <= b; i++) {
        const int32_t from = i * t->call->group - t->skip - w->query;
        const uint64_t who =
            tile_ones(pkv__max_i32(from, 0), pkv__min_i32(from + t->call->group, w->n));
        const uint64_t bits = t->rows->bits[i];
        for (int32_t j = 0; j < TILE_KEYS; j++) w->lanes[j] |= who & (0 - (bits >> j & 1));
    }
    return true;
}

/* ---- rows in memory -------------------------------------------------------------------------- */

static inline const void *tile_kv_row(const struct tile *t, const pkv_kv_view *view, int32_t j)
{
    const int64_t at = t->row_id[j] * view->block_stride + t->token[j] * view->token_stride +
                       t->kv_head * view->head_stride;
    return (const char *)view->data + at * t->kv_bits / 8;
}

/* Block of every key that is seen; a block with none is not looked up. */
static inline void tile_find_blocks(struct tile *t)
{
    const struct pkv__attn_unit *u = t->unit;
    const int32_t bt = t->call->k->block_tokens;
    const int32_t n_blocks = pkv__min_i32(t->call->k->n_blocks, t->call->v->n_blocks);
    for (int32_t j = 0; j < t->n_keys;) {
        const int32_t entry = (t->first + j) / bt;
        const int64_t next = ((int64_t)entry + 1) * bt - t->first;
        const int32_t end = next < t->n_keys ? (int32_t)next : t->n_keys;
        if (t->seen & tile_ones(j, end)) {
            const int64_t id = u->ids ? pkv__checked_id(t->call, u, entry, n_blocks) : u->seq;
            for (int32_t i = j; i < end; i++) {
                t->row_id[i] = id;
                t->token[i] = t->first + i - entry * bt;
            }
        }
        j = end;
    }
}

/* Hint at share `part` of `parts` of the rows of the next tile. Ids are not judged here: an entry
 * may be of no use to anybody, or met again when the tile is. A template, since a function that
 * only hints is taken for one without effect. */
PKV_TEMPLATE void tile_hint_next(const struct tile *t, int32_t part, int32_t parts)
{
    const pkv_kv_view *const views[2] = { t->call->k, t->call->v };
    const int32_t bt = views[0]->block_tokens, next = TILE_KEYS * (part + 1) / parts;
    const int32_t end = pkv__min_i32(next, t->hull.hi - TILE_KEYS - t->first);
    int32_t j = TILE_KEYS * part / parts;
    if (j >= end) return;
    int32_t entry = (t->first + TILE_KEYS + j) / bt, token = (t->first + TILE_KEYS + j) % bt;
    for (; j < end; j++) {
        const int64_t id = t->unit->ids ? t->unit->ids[entry] : t->unit->seq;
        for (int i = 0; i < 2 && id >= 0 && id < views[i]->n_blocks; i++) {
            const pkv_kv_view *v = views[i];
            const int64_t at =
                id * v->block_stride + token * v->token_stride + t->kv_head * v->head_stride;
            const char *row = (const char *)v->data + at * t->kv_bits / 8;
            for (int32_t e = 0; e < v->dim * t->kv_bits / 8; e += PKV_CACHE_LINE)
                __builtin_prefetch(row + e, 0, 2);
        }
        if (++token < bt) continue;
        token = 0;
        entry++;
    }
}

/* ---- the end of a row ------------------------------------------------------------------------ */

/* out = o * factor / denom. The sink joins here; one of -inf is none. */
struct tile_finish {
    float factor, denom, lse;
};
static inline struct tile_finish tile_finish_query(const struct tile *t, int32_t i)
{
    const struct pkv__attn_call *c = t->call;
    const float sink = c->opts->sink ? c->opts->sink[tile_head_of(t, i)] : -INFINITY;
    struct tile_finish f = { 1.f, 1.f, 0.f };
    double m = (double)(t->natural * t->rows->max[i]), l = t->rows->sum[i];
    if (sink != -INFINITY && (double)sink > m) { /* far above, all weights vanish, and rightly so */
        const double w = exp(m - (double)sink);
        f.factor = (float)w;
        l = l * w + 1.;
        m = sink;
    } else if (sink != -INFINITY) {
        l += exp((double)sink - m);
    }
    if (l != 0.) f.denom = (float)l; /* 0: no key has weight, o is 0 */
    const double lse = m + log(l);
    f.lse = (float)(c->lse && c->lse->base2 ? lse * M_LOG2E : lse);
    return f;
}

static inline void tile_write_lse(const struct tile *t, int32_t i, float lse)
{
    const pkv_lse *to = t->call->lse;
    if (!to) return;
    const int64_t row = t->unit->row0 + t->row + tile_row_of(t, i);
    to->data[row * to->row_stride + tile_head_of(t, i) * to->head_stride] = lse;
}

static inline int64_t tile_tensor_at(const struct tile *t, const pkv_tensor3 *x, int32_t i)
{
    const int64_t row = t->unit->row0 + t->row + tile_row_of(t, i);
    return row * x->row_stride + tile_head_of(t, i) * x->head_stride;
}

#endif
