/* What the vector decode kernels of every level share: where a unit's state lies, and the walk over
 * its visible keys. Plain C; compiled once into each level with that level's flags.
 *
 *   visible keys [lo, hi)    | panel: 32 keys | panel | panel | panel | ...  | tail |
 *   a stretch: 1-8 panels    kv head 0: K x 32  V x 32 ..., head 1: K x 32  V x 32 ..., ...
 *   row pointers                           ^ being read       ^ 48 rows later: being prefetched
 *
 * All kv heads of a stretch, about a block long, come before the next stretch: in a block the heads
 * lie side by side, so a block is read in one run, and paging costs what its few jumps cost. Where
 * the heads lie far apart instead (contiguous, head-major), a head's keys come before the next
 * head.
 *
 * Only the filling of the row pointers, a panel at a time, knows whether there is a table, how
 * large a block is and how rows are strided; all arithmetic sees nothing but row pointers. So the
 * paged and the contiguous entry have the same inner loops, the same grouping of keys and the same
 * bits, whatever the layout. Panels start at lo, never at a block border. */
#ifndef PKV_X86_DECODE_H
#define PKV_X86_DECODE_H

#include "common/number_format.h"
#include "kernels/kernels_internal.h"

#include <math.h>
#include <string.h>

/* Inlined into each variant, so that element type, head tile and dim are constants there. */
#define DECODE_TEMPLATE static inline __attribute__((always_inline))
#if defined(__clang__)
#define DECODE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DECODE_UNROLL _Pragma("GCC unroll 16")
#endif

enum {
    /* Keys between two looks at the running maximum, and the keys that one partial sum of p * v or
     * p runs over: at most 32 + n / 32 additions in a row, which docs/numerics.md allows n keys. */
    DECODE_PANEL = 32,
    DECODE_AHEAD = 48,  /* rows from what is read to what is prefetched; see avx512_decode.c */
    DECODE_STRETCH = 8, /* most panels of one head that are read before the next head */
    DECODE_LANES_MAX = 16,
    DECODE_TILE_HEADS_MAX = 8
};

/* Up to 32 keys in row order. Behind row n - 1 of K and of V stand copies of it: a panel that is
 * not full reads a visible row again, and nothing else. row[i + DECODE_AHEAD] exists for every i.
 */
struct decode_panel {
    int32_t first, n;       /* first key index */
    const char *const *row; /* [32] of K, then [32] of V, then those that are read next */
};

/* A tile: 1, 2, 4 or 8 query heads of the group that read K and V together. Score vectors hold
 * [LANES / n_heads keys][n_heads]; a lane's head is lane % n_heads everywhere below. */
struct decode_tile {
    float max[DECODE_LANES_MAX]; /* running maximum of the scores, base 2; equal for equal heads */
    float sum[DECODE_LANES_MAX]; /* sum of p since `max`; the lanes of one head add up to l */
    float slope[DECODE_LANES_MAX]; /* ALiBi slope * log2(e) of the lane's head; 0: none */
    int32_t head0, n_heads;        /* query heads, from the first one of the unit */
};

/* One unit in flight. The arrays lie in the caller's workspace, in this order, 64-byte aligned;
 * only the scores of the current panel and tile are on the stack. */
struct decode {
    const struct pkv__attn_call *call;
    const struct pkv__attn_unit *unit;
    struct pkv__key_range range;
    int32_t dim, n_blocks, block_tokens;
    int32_t n_q_heads, tiles_per_kv_head, stretch_panels;
    const char *k_base, *v_base; /* block 0, token 0 of the unit's first kv head */
    int64_t k_block, k_token, k_head, v_block, v_token, v_head; /* strides in bytes */
    float softcap2;           /* softcap * log2(e); 0: off. Then q is scaled by scale / softcap */
    struct decode_tile *tile; /* [kv heads][tiles_per_kv_head] */
    float *q;                 /* [n_q_heads][dim] scaled, in base 2 unless softcap */
    float *acc;               /* [n_q_heads][dim] sum of p * v since the tile's max */
    float *score;             /* [DECODE_PANEL][n_heads of the tile] z, then p; not in workspace */
};

/* Heads of the tile that starts when `left` heads of the group are still to be placed. */
static inline int32_t decode_tile_heads(int32_t left)
{
    return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

static inline void decode_carve(struct decode *d, void *workspace)
{
    const int32_t group = d->call->group;
    int32_t n_tiles = 0;
    d->tile = workspace;
    d->n_q_heads = d->unit->n_kv_heads * group;
    for (int32_t head = 0; head < d->n_q_heads;) {
        struct decode_tile *t = &d->tile[n_tiles++];
        t->head0 = head;
        t->n_heads = decode_tile_heads(group - head % group);
        head += t->n_heads;
    }
    d->tiles_per_kv_head = n_tiles / d->unit->n_kv_heads;
    char *at = (char *)workspace + pkv__align_up((size_t)n_tiles * sizeof *d->tile, 64);
    const size_t floats = (size_t)d->n_q_heads * (size_t)d->dim; /* dim % 16 == 0: stays aligned */
    d->q = (float *)(void *)at;
    d->acc = d->q + floats;
    PKV_ASSERT((size_t)((char *)(d->acc + floats) - (char *)workspace) <=
               pkv__attn_workspace_bytes(d->n_q_heads, d->dim));
    memset(d->acc, 0, floats * sizeof *d->acc);
}

static inline void decode_begin(struct decode *d, const struct pkv__attn_call *call,
                                const struct pkv__attn_unit *unit, void *workspace)
{
    const pkv_kv_view *k = call->k, *v = call->v;
    const int64_t k_size = pkv__elem_bytes(k->dtype), v_size = pkv__elem_bytes(v->dtype);
    PKV_ASSERT(pkv__attn_decode_covers(call, unit->q_len));
    PKV_ASSERT(k->dtype == v->dtype && k->block_tokens == v->block_tokens);
    d->call = call;
    d->unit = unit;
    d->range = pkv__visible_keys(call, unit, 0);
    d->dim = k->dim;
    d->n_blocks = pkv__min_i32(k->n_blocks, v->n_blocks);
    d->block_tokens = k->block_tokens;
    d->k_base = (const char *)k->data + unit->kv_head * k->head_stride * k_size;
    d->v_base = (const char *)v->data + unit->kv_head * v->head_stride * v_size;
    d->k_block = k->block_stride * k_size;
    d->k_token = k->token_stride * k_size;
    d->k_head = k->head_stride * k_size;
    d->v_block = v->block_stride * v_size;
    d->v_token = v->token_stride * v_size;
    d->v_head = v->head_stride * v_size;
    d->stretch_panels =
        pkv__max_i32(1, pkv__min_i32(DECODE_STRETCH, d->block_tokens / DECODE_PANEL));
    d->softcap2 = call->opts->softcap > 0 ? (float)(call->opts->softcap * M_LOG2E) : 0.f;
    decode_carve(d, workspace);
}

/* Rows of keys [i, i + n) of a panel, which lie one token stride apart. */
static inline void decode_fill_run(const struct decode *d, const char **row, int32_t i, int32_t n,
                                   const char *k, const char *v)
{
    for (const int32_t end = i + n; i < end; i++, k += d->k_token, v += d->v_token) {
        row[i] = k;
        row[i + DECODE_PANEL] = v;
    }
}

static inline void decode_fill_pad(const char **row, int32_t n)
{
    for (; n < DECODE_PANEL; n++) {
        row[n] = row[n - 1];
        row[n + DECODE_PANEL] = row[n + DECODE_PANEL - 1];
    }
}

/* The unit's first kv head: rows of the panel of n keys that starts at key `first`. */
typedef void (*decode_fill_fn)(const struct decode *d, int32_t first, int32_t n, const char **row);

/* The first line of every run is fetched here, a panel early: random blocks miss the TLB, and with
 * the walk begun the prefetch of whole rows keeps up better. */
static inline void decode_fill_paged(const struct decode *d, int32_t first, int32_t n,
                                     const char **row)
{
    int32_t entry = first / d->block_tokens, offset = first % d->block_tokens;
    for (int32_t i = 0; i < n; entry++, offset = 0) {
        const int64_t id = pkv__checked_id(d->call, d->unit, entry, d->n_blocks);
        const int32_t run = pkv__min_i32(n - i, d->block_tokens - offset);
        const char *k = d->k_base + id * d->k_block + offset * d->k_token;
        const char *v = d->v_base + id * d->v_block + offset * d->v_token;
        __builtin_prefetch(k, 0, 2);
        __builtin_prefetch(v, 0, 2);
        decode_fill_run(d, row, i, run, k, v);
        i += run;
    }
    decode_fill_pad(row, n);
}

/* The same rows of the kv head `n` heads further on. */
static inline void decode_shift_rows(const struct decode *d, const char *const *row, int32_t n,
                                     const char **to)
{
    const int64_t k = n * d->k_head, v = n * d->v_head;
    for (int32_t i = 0; i < DECODE_PANEL; i++) {
        to[i] = row[i] + k;
        to[i + DECODE_PANEL] = row[i + DECODE_PANEL] + v;
    }
}

/* No table: sequence b lies in block b. */
static inline void decode_fill_contiguous(const struct decode *d, int32_t first, int32_t n,
                                          const char **row)
{
    const int64_t id = d->unit->seq;
    decode_fill_run(d, row, 0, n, d->k_base + id * d->k_block + first * d->k_token,
                    d->v_base + id * d->v_block + first * d->v_token);
    decode_fill_pad(row, n);
}

/* How a head's row ends: out = acc * factor / denom, lse. The sink joins here, once; one of -inf is
 * none, also where every visible score is -inf. */
struct decode_finish {
    float factor, denom, lse;
};
static inline struct decode_finish decode_finish_head(const struct decode *d, float max, float sum,
                                                      int32_t head)
{
    const float *sinks = d->call->opts->sink;
    const float sink = sinks ? sinks[d->unit->kv_head * d->call->group + head] : -INFINITY;
    struct decode_finish f = { 1.f, sum, 0.f };
    double m = max, l = sum;
    if (sink != -INFINITY) {
        const double s = (double)sink * M_LOG2E;
        if (s > m) { /* far above: every key's weight may vanish, and rightly so */
            const double w = exp2(m - s);
            f.factor = (float)w;
            l = l * w + 1.;
            m = s;
        } else {
            l += exp2(s - m);
        }
        f.denom = (float)l;
    } else if (sum == 0.f) { /* every visible score was -inf: as if there were no key */
        f.denom = 1.f;
    }
    const bool base2 = d->call->lse && d->call->lse->base2;
    const double lse = m + log2(l);
    f.lse = (float)(base2 ? lse : lse * M_LN2);
    return f;
}

static inline void decode_write_lse(const struct decode *d, int32_t head, float lse)
{
    const pkv_lse *to = d->call->lse;
    if (!to || !to->data) return;
    to->data[d->unit->row0 * to->row_stride +
             (d->unit->kv_head * d->call->group + head) * to->head_stride] = lse;
}

static inline void decode_write_empty(const struct decode *d)
{
    const pkv_tensor3 *out = d->call->out;
    const int32_t head0 = d->unit->kv_head * d->call->group;
    const int64_t size = pkv__elem_bytes(out->dtype);
    const bool base2 = d->call->lse && d->call->lse->base2;
    for (int32_t r = 0; r < d->n_q_heads; r++) {
        const int64_t at = d->unit->row0 * out->row_stride + (head0 + r) * out->head_stride;
        memset((char *)out->data + at * size, 0, (size_t)(d->dim * size));
        const float *sink = d->call->opts->sink;
        const float lse = !sink   ? -INFINITY
                          : base2 ? (float)(sink[head0 + r] * M_LOG2E)
                                  : sink[head0 + r];
        decode_write_lse(d, r, lse);
    }
}

#endif
