/* Inside the kernels: the table of functions that levels fill, and the unit of work they implement.
 *
 *   attention.c   public entries: validate once, resolve defaults, cut a call into units
 *   dispatch.c    which function takes a unit; it and backend.c alone ask which levels exist
 *   scalar/       the definition of every operation; fills every slot of the table
 *   x86/          one file per level and operation; overwrites slots it is better at
 *
 * Validation happens at the public entry; here everything is asserted. */
#ifndef PKV_KERNELS_INTERNAL_H
#define PKV_KERNELS_INTERNAL_H

#include "common/common.h"
#include "pagedkv/attention.h"

#include <math.h>

#define PKV__MAX_DIM 256                   /* elements of a K or V row */
#define PKV__MAX_HEADS (1 << 16)           /* of q, K or V; times a dim it fits int32 */
#define PKV__LOG2E 1.44269504088896340736f /* lse in base 2 = natural lse times this */

/* One call of pkv_attn_run, validated, with defaults filled in. Read-only for kernels, but `bad`.
 */
struct pkv__attn_call {
    const pkv_tensor3 *q;
    const pkv_kv_view *k, *v;
    const pkv_attn_batch *batch;
    const pkv_attn_opts *opts;
    pkv_tensor3 *out;
    pkv_lse *lse;  /* NULL: not wanted */
    float scale;   /* opts->scale or its default */
    int32_t group; /* query heads per kv head */
    uint32_t *bad; /* [4] report of this call; never NULL; OR bits, first offender in 1..3 */
};

/* One unit of work: all query rows of one sequence against kv heads that follow each other: one for
 * `rows` kernels, all of them for `decode` kernels. The lengths are clamped to
 * what the batch arrays and the views really hold. */
struct pkv__attn_unit {
    int32_t seq;
    int32_t kv_head, n_kv_heads; /* heads [kv_head, kv_head + n_kv_heads) */
    int32_t row0, q_len;         /* rows of q, out and lse */
    int32_t kv_len;              /* keys that exist: 0 .. what the row of ids can hold */
    int32_t pos0;                /* kv_pos0 of the sequence */
    const int32_t *ids;          /* row of the block table; NULL in the contiguous entry */
};

typedef void (*pkv__attn_fn)(const struct pkv__attn_call *call, const struct pkv__attn_unit *unit,
                             void *workspace);

/* Attention has two entries per dtype of K and V: through a table, and contiguous (reads no table;
 * the baseline of the benchmark). `decode` entries take units that pkv__attn_decode_covers accepts;
 * `rows` entries take everything. */
enum pkv__attn_place { PKV__PAGED = 0, PKV__CONTIGUOUS = 1, PKV__N_PLACES = 2 };

struct pkv__cpu_kernels {
    pkv__attn_fn attn_rows[PKV_BF16 + 1][PKV__N_PLACES];
    pkv__attn_fn attn_decode[PKV_BF16 + 1][PKV__N_PLACES]; /* scalar: same as attn_rows */
    pkv_isa attn_rows_isa[PKV_BF16 + 1], attn_decode_isa[PKV_BF16 + 1]; /* level of the function */
    void (*copy)(void *dst, const void *src, size_t bytes);             /* one block */
};

/* The visible keys of one row when neither q_pos nor a mask is given: an interval [lo, hi). */
struct pkv__key_range {
    int32_t lo, hi;
};
static inline struct pkv__key_range pkv__visible_keys(const struct pkv__attn_call *c,
                                                      const struct pkv__attn_unit *u, int32_t i)
{
    /* In key indices the row stands at kv_len - q_len + i; pos0 cancels. 64 bit: no wrap. */
    const int64_t at = (int64_t)u->kv_len - u->q_len + i;
    int64_t lo = 0, hi = u->kv_len;
    if (c->opts->causal && hi > at + 1) hi = at + 1;
    if (c->opts->window_right >= 0 && hi > at + c->opts->window_right + 1)
        hi = at + c->opts->window_right + 1;
    if (c->opts->window_left >= 0 && lo < at - c->opts->window_left) lo = at - c->opts->window_left;
    if (hi < lo) hi = lo;
    return (struct pkv__key_range){ (int32_t)(lo < 0 ? 0 : lo), (int32_t)(hi < 0 ? 0 : hi) };
}

/* The shapes that vector decode kernels take: one row, f32/f16/bf16 query, dims of K and V equal, a
 * multiple of 16, at most 256, no q_pos. Groups of any size (a kernel splits them). */
static inline bool pkv__attn_decode_covers(const struct pkv__attn_call *c, int32_t q_len)
{
    return q_len == 1 && !c->batch->q_pos && c->k->dim == c->v->dim && c->k->dim % 16 == 0 &&
           c->k->dim <= 256;
}

/* A used id that may be dereferenced: outside [0, n_blocks) it is the null block, and reported. */
static inline int32_t pkv__checked_id(const struct pkv__attn_call *c,
                                      const struct pkv__attn_unit *u, int32_t entry,
                                      int32_t n_blocks)
{
    const int32_t id = u->ids[entry];
    const bool range = (uint32_t)id >= (uint32_t)n_blocks;
    if (PKV_UNLIKELY(range || id == 0)) {
        if (c->bad[0] == 0) {
            c->bad[1] = (uint32_t)u->seq;
            c->bad[2] = (uint32_t)entry;
            c->bad[3] = (uint32_t)id;
        }
        c->bad[0] |= range ? PKV_BAD_RANGE : PKV_BAD_NULL_BLOCK;
        return 0;
    }
    return id;
}

/* The definition of every operation that has levels. */
void pkv__scalar_attention(const struct pkv__attn_call *call, const struct pkv__attn_unit *unit,
                           void *workspace);

/* One init function per level; each is called after the levels below it. */
void pkv__init_scalar(struct pkv__cpu_kernels *k);
void pkv__init_avx2(struct pkv__cpu_kernels *k);
void pkv__init_avx512(struct pkv__cpu_kernels *k);

/* Fill the table with the best kernels up to `isa`, a level that exists here. */
void pkv__cpu_kernels_init(struct pkv__cpu_kernels *k, pkv_isa isa);
/* The kernel for a sequence of q_len rows of a call; its level is written to *isa, and whether it
 * is a decode kernel to *decode, if these are wanted. */
pkv__attn_fn pkv__attn_choose(const struct pkv__cpu_kernels *k, const struct pkv__attn_call *c,
                              int32_t q_len, pkv_isa *isa, bool *decode);
/* "attention_decode_f16_avx2": static, NULL if no such kernel can exist. */
const char *pkv__attn_name(pkv_dtype dtype, pkv_isa isa, bool decode);

/* Bytes of workspace that any level's attention needs for these dims (one call, one thread).
 * `dim` is the larger of the dims of K and V. A multiple of 64. */
size_t pkv__attn_workspace_bytes(int32_t n_q_heads, int32_t dim);

/* Checks of public arguments, shared by the entries. Each logs what it refuses. */
pkv_status pkv__check_tensor(const pkv_logger *log, const char *name, const pkv_tensor3 *t);
pkv_status pkv__check_view(const pkv_logger *log, const char *name, const pkv_kv_view *view);
pkv_status pkv__check_view_pair(const pkv_logger *log, const pkv_kv_view *k, const pkv_kv_view *v);
pkv_status pkv__check_lse(const pkv_logger *log, const pkv_lse *lse, int64_t n_rows,
                          int32_t n_heads);
pkv_status pkv__check_attn_inputs(const pkv_logger *log, const pkv_tensor3 *q, const pkv_kv_view *k,
                                  const pkv_kv_view *v, const pkv_attn_batch *batch,
                                  const pkv_attn_opts *opts);

/* Hand the report of one call over to the caller's sticky words (NULL: not wanted). */
void pkv__report_bad(uint32_t *sticky, const uint32_t bad[4]);

/* A backend is its configuration and its table; read-only after creation. */
struct pkv_backend {
    pkv_allocator alloc;
    pkv_logger log;
    struct pkv__cpu_kernels kernels;
};

#endif
