/* Inside the kernels: the table of functions that levels fill, and the unit of work they implement.
 *
 *   attention.c   public entry of attention: validate once, resolve defaults
 *   attn_work.c   cut a call into units, share them among threads, fold chunk states, finish rows
 *   visible.c     which row sees which key
 *   dispatch.c    which function takes a unit; it and backend.c alone ask which levels exist
 *   scalar/       the definition of every operation; fills every slot of the table
 *   vector/       templates over vectors, included by levels
 *   x86/ arm/     one file per level and operation; overwrites slots it is better at
 *
 * Validation happens at the public entry; here everything is asserted. */
#ifndef PKV_KERNELS_INTERNAL_H
#define PKV_KERNELS_INTERNAL_H

#include "common/common.h"
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

#include <math.h>

#define PKV__MAX_DIM 256                   /* elements of a K or V row */
#define PKV__MAX_HEADS (1 << 16)           /* of q, K or V; times a dim it fits int32 */
#define PKV__LOG2E 1.44269504088896340736f /* lse in base 2 = natural lse times this */

/* Keys [c * PKV__CHUNK_TOKENS, (c + 1) * ...) of a sequence are chunk c. Chunk kernels start every
 * chunk afresh and the driver combines chunks in ascending order, always: borders depend on nothing
 * but the key's index, so that neither threads nor the rest of the batch change one bit. */
enum { PKV__CHUNK_TOKENS = 1024 };

/* One call of pkv_attn_run, validated, with defaults filled in. Read-only for kernels, but `bad`.
 * Each task of a call has its own copy, for the sake of `bad`. */
struct pkv__attn_call {
    const pkv_tensor3 *q;
    const pkv_kv_view *k, *v;
    const pkv_attn_batch *batch;
    const pkv_attn_opts *opts;
    pkv_tensor3 *out;
    pkv_lse *lse;  /* NULL: not wanted */
    float scale;   /* opts->scale or its default */
    int32_t group; /* query heads per kv head */
    uint32_t *bad; /* [4] report of this task; never NULL; pkv__note_bad writes it */
};

/* What a chunk kernel leaves behind, per row of the unit and query head of its kv heads:
 *   m  largest visible logit z, in natural units and after softcap and ALiBi; -inf: none
 *   l  sum of e^(z - m), o  sum of e^(z - m) v: unnormalised; 0 without a visible key
 * No sink. A NaN logit makes l and o NaN and leaves m alone. heads = n_kv_heads * group. */
struct pkv__attn_state {
    float *o;     /* [row_hi - row_lo][heads][v dim], 64-byte aligned if v dim % 16 == 0 */
    float *m, *l; /* [row_hi - row_lo][heads] */
};

/* One unit of work: rows [row_lo, row_hi) of one sequence against kv heads that follow each other.
 * The lengths are clamped to what the batch arrays and the views really hold. Which heads, and
 * which rows, lie in one unit changes no bit. */
struct pkv__attn_unit {
    int32_t seq;
    int32_t kv_head, n_kv_heads; /* heads [kv_head, kv_head + n_kv_heads) */
    int32_t row0, q_len;         /* rows of q, out and lse of the whole sequence */
    int32_t row_lo, row_hi;      /* the unit's, 0 <= row_lo < row_hi <= q_len */
    int32_t kv_len;              /* keys that exist: 0 .. what the row of ids can hold */
    int32_t key_lo, key_hi; /* chunk kernels: the keys of one chunk, at least one; else 0, kv_len */
    int32_t pos0;           /* kv_pos0 of the sequence */
    const int32_t *ids;     /* row of the block table; NULL in the contiguous entry */
    struct pkv__attn_state state; /* chunk kernels only */
};

/* `scratch`: pkv__attn_scratch_bytes, 64-byte aligned, of this task alone. */
typedef void (*pkv__attn_fn)(const struct pkv__attn_call *call, const struct pkv__attn_unit *unit,
                             void *scratch);

/* Attention has two entries per dtype of K and V: through a table, and contiguous (reads no table;
 * the baseline of the benchmark). */
enum pkv__attn_place { PKV__PAGED = 0, PKV__CONTIGUOUS = 1, PKV__N_PLACES = 2 };

/* Whole kernels walk all keys of their rows and write out and lse. Chunk kernels see one chunk of
 * keys and leave a state; the driver folds, finishes and writes. */
enum pkv__attn_kind { PKV__WHOLE = 0, PKV__CHUNK = 1 };

struct pkv__attn_kernel {
    pkv__attn_fn fn[PKV__N_PLACES];
    pkv_isa isa; /* level it is written for */
    enum pkv__attn_kind kind;
    int32_t unit_queries; /* whole kernels: rows x group that suit a unit best; 0: any number */
};

/* A call of pkv_attn_mla_run: `attn.k` and `attn.v` are the latent, `attn.q` its queries. The unit
 * has one kv head whose group is all query heads. */
struct pkv__mla_call {
    struct pkv__attn_call attn;
    const pkv_tensor3 *q_rope;
    const pkv_kv_view *rope;
};
typedef void (*pkv__mla_fn)(const struct pkv__mla_call *call, const struct pkv__attn_unit *unit,
                            void *scratch);

/* The table of a level. scalar/ fills every slot; levels overwrite what they are better at. All
 * take every option and every shape that the public entry accepts. */
struct pkv__cpu_kernels {
    /* Decode and short verify, up to pkv__attn_is_short rows: bound by memory. */
    struct pkv__attn_kernel attn_short[PKV_DTYPE_COUNT];
    /* Longer rows, chunked prefill and prefill: bound by arithmetic. */
    struct pkv__attn_kernel attn_rows[PKV_DTYPE_COUNT];
    /* Keys of PKV_I8 multiplied in integers (opts->int8_qk), short rows; fn NULL: attn_short. */
    struct pkv__attn_kernel attn_short_int8_qk;
    pkv__mla_fn mla[PKV__N_PLACES]; /* whole */
    pkv_isa mla_isa;
    /* Rows of f32, f16, bf16 to float and back (nearest even, NaN stays NaN; bits equal at every
     * level); n a multiple of 8. */
    void (*load_row[PKV_BF16 + 1])(float *dst, const void *src, int32_t n);
    void (*store_row[PKV_BF16 + 1])(void *dst, const float *src, int32_t n);
    pkv_isa row_isa;
    /* One row to and from codes, moves.h: `s` and `z` scale and zero point. quantize returns
     * whether a NaN was met. Indexed by dtype - PKV_E4M3. */
    bool (*quantize_row[PKV_DTYPE_COUNT - PKV_E4M3])(void *dst, const float *src, int32_t n,
                                                     float s, float z);
    void (*dequantize_row[PKV_DTYPE_COUNT - PKV_E4M3])(float *dst, const void *src, int32_t n,
                                                       float s, float z);
    /* Norm and rotation, row_math.h: pairs (d, d + half), or (2d, 2d + 1). */
    void (*norm_row)(float *x, const float *w, int32_t n, float eps);
    void (*rotate_halves)(float *x, const float *turn, int32_t half);
    void (*rotate_neighbours)(float *x, const float *turn, int32_t half);
    /* Smallest and largest finite value of a row, folded into *lo and *hi. */
    void (*extremes_row)(const float *src, int32_t n, float *lo, float *hi);
    pkv_isa quantize_isa;
    void (*copy)(void *dst, const void *src, size_t bytes); /* blocks and rows; never overlapping */
    /* The same past the caches, for much that is not read soon; stream_end after the last of them,
     * before another thread may look. */
    void (*stream)(void *dst, const void *src, size_t bytes);
    void (*stream_end)(void);
    pkv_isa copy_isa;
};

/* Chosen for attn_short rather than attn_rows; of q_len and group alone, so that a sequence's bits
 * do not depend on its company. */
static inline bool pkv__attn_is_short(int32_t q_len, int32_t group)
{
    return q_len == 1 || (int64_t)q_len * group <= 32;
}

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

/* Visibility in full, with q_pos, mask and window: does row i see key j < kv_len? Positions may be
 * in any order, so this is asked key by key where pkv__rows_are_ranges is false. visible.c. */
static inline bool pkv__rows_are_ranges(const struct pkv__attn_call *c)
{
    return !c->batch->q_pos && !c->opts->mask;
}
/* Bits of keys [j, j + n), n <= 64, that row i sees; right in all cases. */
uint64_t pkv__visible_bits(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                           int32_t i, int32_t j, int32_t n);
/* n_j - p_i of the definition, for ALiBi: position of key j minus that of row i. */
int64_t pkv__key_ahead(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                       int32_t j);
/* An interval outside of which row i sees nothing: pkv__visible_keys, or all keys if q_pos. */
struct pkv__key_range pkv__visible_hull(const struct pkv__attn_call *c,
                                        const struct pkv__attn_unit *u, int32_t i);

/* The same for rows [lo, hi), at least one: outside none of them sees anything; lo == hi of the
 * result: none sees anything at all. O(1) where rows stand at their indices and see something. */
struct pkv__key_range pkv__hull_of_rows(const struct pkv__attn_call *c,
                                        const struct pkv__attn_unit *u, int32_t lo, int32_t hi);

/* OR `bit` into the task's report; of several offenders the lowest (seq, idx) is kept. */
void pkv__note_bad(const struct pkv__attn_call *c, uint32_t bit, int32_t seq, int32_t idx,
                   int32_t value);

/* A used id that may be dereferenced: outside [0, n_blocks) it is the null block, and reported. */
static inline int32_t pkv__checked_id(const struct pkv__attn_call *c,
                                      const struct pkv__attn_unit *u, int32_t entry,
                                      int32_t n_blocks)
{
    const int32_t id = u->ids[entry];
    const bool range = (uint32_t)id >= (uint32_t)n_blocks;
    if (PKV_UNLIKELY(range || id == 0)) {
        pkv__note_bad(c, range ? PKV_BAD_RANGE : PKV_BAD_NULL_BLOCK, u->seq, entry, id);
        return 0;
    }
    return id;
}

/* Where the scale or zero point of one (block, token, head) is; s->data is not NULL. */
static inline float *pkv__scale_place(const pkv_scales *s, int64_t block, int64_t token,
                                      int64_t head)
{
    return s->data + block * s->block_stride + token * s->token_stride + head * s->head_stride;
}
static inline float pkv__scale_at(const pkv_scales *s, float absent, int64_t block, int64_t token,
                                  int64_t head)
{
    return s->data ? *pkv__scale_place(s, block, token, head) : absent;
}

/* The definition of every operation that has levels. */
void pkv__scalar_attention(const struct pkv__attn_call *call, const struct pkv__attn_unit *unit,
                           void *scratch);
void pkv__scalar_mla(const struct pkv__mla_call *call, const struct pkv__attn_unit *unit,
                     void *scratch);

/* One init function per level; each is called after the levels below it. */
void pkv__init_scalar(struct pkv__cpu_kernels *k);
void pkv__init_avx2(struct pkv__cpu_kernels *k);
void pkv__init_avx512(struct pkv__cpu_kernels *k);
void pkv__init_avx512bf16(struct pkv__cpu_kernels *k);
void pkv__init_amx(struct pkv__cpu_kernels *k);
void pkv__init_neon(struct pkv__cpu_kernels *k);

/* Fill the table with the best kernels up to `isa`, a level that exists here. */
void pkv__cpu_kernels_init(struct pkv__cpu_kernels *k, pkv_isa isa);
/* The kernel for a sequence of q_len rows of a call; *is_short, if wanted, tells which slot. */
const struct pkv__attn_kernel *pkv__attn_choose(const struct pkv__cpu_kernels *k,
                                                const struct pkv__attn_call *c, int32_t q_len,
                                                bool *is_short);
/* "attention_short_f16_avx2": static, NULL if no such kernel can exist. */
const char *pkv__attn_name(pkv_dtype dtype, pkv_isa isa, bool is_short, bool int8_qk);

/* Carry out a validated call: attn_work.c. */
void pkv__attn_work(const pkv_backend *be, const struct pkv__attn_call *c, void *workspace);
size_t pkv__attn_work_bytes(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                            int32_t k_dim, int32_t v_dim);

/* Bytes of scratch of one task that any level's attention needs for these dims, a multiple of 64:
 * the largest of what the kernels need, each of which says so in its own constant or function. */
size_t pkv__attn_scratch_bytes(int32_t n_q_heads, int32_t n_kv_heads, int32_t k_dim, int32_t v_dim);

/* Keys of a chunk in invariant mode, of opts->invariant_chunk. */
static inline bool pkv__invariant_chunk_valid(int32_t chunk)
{
    return chunk >= 0 && chunk % 64 == 0;
}
static inline int32_t pkv__invariant_chunk(int32_t chunk)
{
    return chunk > 0 ? chunk : 1024;
}

/* Checks of public arguments, shared by the entries. Each logs what it refuses. An output is a
 * tensor, or an lse, whose rows do not overlap. */
pkv_status pkv__check_tensor(const pkv_logger *log, const char *name, const pkv_tensor3 *t,
                             int32_t max_dim);
pkv_status pkv__check_output(const pkv_logger *log, const char *name, const pkv_tensor3 *t,
                             int32_t max_dim);
pkv_status pkv__check_view(const pkv_logger *log, const char *name, const pkv_kv_view *view,
                           int32_t max_dim);
pkv_status pkv__check_view_pair(const pkv_logger *log, const pkv_kv_view *k, const pkv_kv_view *v);
pkv_status pkv__check_lse(const pkv_logger *log, const pkv_lse *lse, int64_t n_rows,
                          int32_t n_heads);
pkv_status pkv__check_lse_output(const pkv_logger *log, const pkv_lse *lse, int64_t n_rows,
                                 int32_t n_heads);
pkv_status pkv__check_workspace(const pkv_logger *log, const void *workspace, size_t bytes,
                                size_t need);
pkv_status pkv__check_attn_inputs(const pkv_logger *log, const pkv_tensor3 *q, const pkv_kv_view *k,
                                  const pkv_kv_view *v, const pkv_attn_batch *batch,
                                  const pkv_attn_opts *opts);

/* Do the `row` elements at every place of three strides lie apart from those of all others? Taken
 * in ascending order, each stride must lead beyond what the smaller ones reach, as in an array of
 * any order of dimensions, with any padding. */
bool pkv__places_differ(const int64_t counts[3], const int64_t strides[3], int64_t row);

/* Add one task's report to another's, and the report of one call to the caller's sticky words
 * (NULL: not wanted). */
void pkv__merge_bad(uint32_t into[4], const uint32_t bad[4]);
void pkv__report_bad(uint32_t *sticky, const uint32_t bad[4]);
/* The same, and the status that attention answers. */
pkv_status pkv__verdict(const pkv_logger *log, uint32_t *sticky, const uint32_t bad[4]);

/* What a backend other than the CPU's does once the public entry has checked all host values, with
 * the entry's arguments. */
struct pkv__device_ops {
    /* chunk 0: default mode; else invariant, of batches up to max_seqs and max_keys. */
    pkv_status (*attn_workspace)(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                                 int32_t k_dim, int32_t v_dim, int32_t max_seqs, int64_t max_keys,
                                 int32_t chunk, size_t *bytes);
    pkv_status (*mla_workspace)(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                                int32_t rope_dim, size_t *bytes);
    pkv_status (*workspace_init)(pkv_backend *be, void *workspace, size_t bytes, void *stream);
    /* Of the calls `bad` is unset: opts->bad is the device's. */
    pkv_status (*attn)(pkv_backend *be, const struct pkv__attn_call *c, void *workspace,
                       size_t bytes, void *stream);
    pkv_status (*mla)(pkv_backend *be, const struct pkv__mla_call *c, void *workspace, size_t bytes,
                      void *stream);
    pkv_status (*states_merge)(pkv_backend *be, const pkv_tensor3 *o, const pkv_lse *lse,
                               int32_t n_states, void *stream, const pkv_tensor3 *out,
                               const pkv_lse *out_lse);
    pkv_status (*table_check)(pkv_backend *be, const pkv_attn_batch *batch,
                              const pkv_attn_opts *opts, int64_t n_rows, int32_t n_blocks,
                              int32_t block_tokens, uint32_t *bad, void *stream);
    pkv_status (*kv_write)(pkv_backend *be, const pkv_kv_write_args *args, void *stream);
    pkv_status (*kv_gather)(pkv_backend *be, const pkv_kv_view *view, const int64_t *slots,
                            const pkv_tensor3 *out, uint32_t *bad, void *stream);
    pkv_status (*blocks_copy)(pkv_backend *be, void *pool, size_t block_bytes,
                              const pkv_block_copy *copies, int32_t n, const pkv_kv_shape *shapes,
                              void *stream);
    pkv_status (*blocks_zero)(pkv_backend *be, void *pool, size_t block_bytes, const int32_t *ids,
                              int32_t n, void *stream);
    pkv_status (*blocks_fill)(pkv_backend *be, void *pool, size_t block_bytes, int32_t first,
                              int32_t n, uint8_t byte, void *stream);
    pkv_status (*blocks_gather)(pkv_backend *be, const void *pool, size_t block_bytes,
                                const int32_t *ids, int32_t n, void *dst, void *stream);
    pkv_status (*blocks_scatter)(pkv_backend *be, const void *src, const int32_t *ids, int32_t n,
                                 void *pool, size_t block_bytes, void *stream);
    /* NULL: there is no kernel for it. */
    const char *(*attn_name)(const pkv_backend *be, const struct pkv__attn_call *c, int32_t q_len);
    pkv_status (*kernel_info)(const pkv_backend *be, int32_t idx, pkv_kernel_desc *out);
    void (*destroy)(pkv_backend *be);
};

/* A backend is its configuration, its table and its threads; read-only after creation. */
struct pkv_backend {
    const struct pkv__device_ops *device; /* NULL: the CPU; else all below `log` is unused but */
    void *device_state;                   /* this */
    pkv_allocator alloc;
    pkv_logger log;
    struct pkv__cpu_kernels kernels;
    pkv_isa isa;                  /* level of the table */
    int32_t n_tasks;              /* that operations are cut into, >= 1 */
    struct pkv__threads *threads; /* common/threads.h; NULL: everything on the calling thread */
};

#endif
