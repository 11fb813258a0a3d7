/* An attention problem as mathematics: sequences with queries, keys and values in order, options.
 * Knows nothing of blocks but their size and which first blocks two sequences share. All values and
 * codes are floats that the dtypes hold exactly, so that the oracle and the kernels see the same
 * numbers.
 *
 *   draw it     attn_draw_*      into a struct attn_problem, then attn_fill
 *   lay it out  attn_instance.h  bytes, tables, strides
 *   judge it    attn_judge       against tests/oracle, within docs/numerics.md */
#ifndef PKV_ATTN_PROBLEM_H
#define PKV_ATTN_PROBLEM_H

#include "check_kernels.h"
#include "oracle/oracle_attention.h"

enum { ATTN_MAX_SEQS = 72, ATTN_MAX_HEADS = 256 };

enum attn_values {
    VALUES_NORMAL,   /* unit variance */
    VALUES_SPREAD,   /* logits tens apart: few keys matter */
    VALUES_EQUAL,    /* all keys of a head alike */
    VALUES_HUGE,     /* logits in the thousands, values near the end of the range */
    VALUES_ZERO,     /* many exact zeros, of both signs */
    VALUES_DENORMAL, /* K, V and q below the normal range of their types */
    VALUES_N
};

/* What a scale or zero point depends on. */
enum attn_per {
    PER_NONE, /* there are none */
    PER_TENSOR,
    PER_HEAD,
    PER_BLOCK,
    PER_TOKEN,
    PER_TOKEN_HEAD,
    PER_N
};

enum attn_scale_values {
    SCALE_USUAL, /* values of unit variance, within a factor of 2, one in eight negative */
    SCALE_EXACT, /* powers of two around 1, whole zero points: nothing is rounded */
    SCALE_PRIME, /* prime numbers, no two alike as far as they last */
    SCALE_TINY   /* 2^-60 .. 2^-110 */
};

/* Scales or zero points of K or V. */
struct attn_numbers {
    enum attn_per per;
    float *of[ATTN_MAX_SEQS]; /* [kv_len][n_kv_heads], whatever `per`; NULL with PER_NONE; owned */
};

struct attn_problem {
    pkv_dtype kv_dtype, q_dtype;
    int32_t n_seqs, n_q_heads, n_kv_heads, k_dim, v_dim, block_tokens;
    int32_t q_len[ATTN_MAX_SEQS], kv_len[ATTN_MAX_SEQS], pos0[ATTN_MAX_SEQS];
    int32_t row0[ATTN_MAX_SEQS];
    int32_t shared_with[ATTN_MAX_SEQS];   /* an earlier sequence, or -1 */
    int32_t shared_blocks[ATTN_MAX_SEQS]; /* whole blocks at the start, one content, one id */
    int32_t n_rows;                       /* of all sequences; sequences lie in order */
    bool with_pos0, with_q_indptr, with_lse, base2;
    pkv_attn_opts opts; /* alibi and sink not NULL: on, with the arrays below */
    float alibi[ATTN_MAX_HEADS], sink[ATTN_MAX_HEADS];
    enum attn_values values;
    enum attn_scale_values scale_values;
    bool q_detached;
    int32_t *q_pos;                             /* [n_rows] or NULL; owned */
    uint32_t *mask;                             /* [n_rows][mask_words] or NULL; owned */
    int32_t mask_words;                         /* ceil(longest q_len / 32) */
    float *q;                                   /* [n_rows][n_q_heads][attn_q_dim]; owned */
    float *k[ATTN_MAX_SEQS], *v[ATTN_MAX_SEQS]; /* [kv_len][n_kv_heads][dim] codes; owned */
    struct attn_numbers k_scale, k_zero, v_scale, v_zero;
    /* Latent attention: K are the n_kv_heads parts of the latent, of k_dim each, and V is the
     * rotary key, one head of v_dim, of a dtype of its own. */
    bool is_mla;
    pkv_dtype rope_dtype;
    float *q_rope; /* [n_rows][n_q_heads][v_dim]; owned */
};

static inline int32_t attn_v_heads(const struct attn_problem *p)
{
    return p->is_mla ? 1 : p->n_kv_heads;
}
static inline pkv_dtype attn_v_dtype(const struct attn_problem *p)
{
    return p->is_mla ? p->rope_dtype : p->kv_dtype;
}
static inline int32_t attn_q_dim(const struct attn_problem *p)
{
    return p->is_mla ? p->n_kv_heads * p->k_dim : p->k_dim;
}
static inline int32_t attn_o_dim(const struct attn_problem *p)
{
    return p->is_mla ? p->n_kv_heads * p->k_dim : p->v_dim;
}

static inline bool attn_is_codes(pkv_dtype dtype)
{
    return dtype >= PKV_E4M3;
}

/* Sizes that a fresh problem starts from: one sequence, one row, 16 tokens per block, queries of
 * the dtype of the case (f32 for codes), causal, natural lse wanted; stores of codes with a scale
 * per token and head. */
struct attn_problem attn_usual(const struct check *c);
/* Ragged batch, random dims, heads, block size, scales, layout of rows. */
struct attn_problem attn_draw_ragged(struct check *c);
/* Which scales and zero points there are; nothing for f32, f16, bf16. */
void attn_draw_scales(struct check *c, struct attn_problem *p);
void attn_set_scales(struct attn_problem *p, enum attn_per scales, enum attn_per zeros,
                     enum attn_scale_values values);
/* One option, 0 .. ATTN_N_OPTIONS - 1. Lengths must be set; what is set already stays, so that
 * options can be joined. */
enum attn_option {
    OPTION_NOT_CAUSAL,
    OPTION_WINDOW,
    OPTION_WINDOW_RIGHT,
    OPTION_SOFTCAP,
    OPTION_ALIBI,
    OPTION_SINK,
    OPTION_SCALE,
    OPTION_BASE2,
    OPTION_TREE, /* mask of a tree with equal positions for siblings, not causal */
    OPTION_MASK, /* any bits, no positions */
    OPTION_Q_POS,
    OPTION_DETACHED,
    OPTION_INT8_QK,
    ATTN_N_OPTIONS
};
void attn_draw_option(struct check *c, struct attn_problem *p, enum attn_option which);
void attn_draw_options(struct check *c, struct attn_problem *p, int32_t n);
/* Positions of rows: strictly rising with gaps, or siblings of a tree. */
void attn_draw_q_pos(struct check *c, struct attn_problem *p);
void attn_draw_mask(struct check *c, struct attn_problem *p, bool tree);
void attn_draw_sharing(struct check *c, struct attn_problem *p);
/* Ask for what the CPU does by itself: bits that do not depend on the rest of the batch. */
void attn_make_invariant(struct check *c, struct attn_problem *p);

/* Rows of each sequence in order; attn_fill does it, and whatever needs it before. */
void attn_lay_rows(struct attn_problem *p);
/* Make the values, and the text of the shape. Called once everything above is set. */
void attn_fill(struct check *c, struct attn_problem *p);
/* Scales and zero points of all sequences; part of attn_fill. */
void attn_fill_scales(struct check *c, struct attn_problem *p);
/* The same problem with sequence b alone; `p` must outlive it. Not to be freed. */
struct attn_problem attn_alone(const struct attn_problem *p, int32_t b);
/* Rows and keys of sequence b up to those of row `to`, from row `from`: what a call with these rows
 * alone would see. No mask, no q_pos. Not to be freed. */
struct attn_problem attn_some_rows(const struct attn_problem *p, int32_t b, int32_t from,
                                   int32_t to);
void attn_free(struct attn_problem *p);

/* Sequence b as the oracle wants it; of latent attention without q and rows, see attn_judge. */
struct oracle_seq attn_oracle(const struct attn_problem *p, int32_t b);

/* Who took a sequence. */
struct attn_route {
    pkv_isa isa;
    bool is_short, int8_qk;
};

/* Compact results: o [n_rows][n_q_heads][attn_o_dim] in the dtype of q, lse [n_rows][n_q_heads]. */
struct attn_result {
    void *o;
    float *lse; /* NULL: not wanted */
    size_t o_bytes, lse_bytes;
};
void attn_result_free(struct attn_result *r);
/* How a kernel of this route gets to a result of n visible keys out of kv_len. */
struct oracle_path attn_path(const struct attn_problem *p, const struct attn_route *route,
                             int32_t n, int32_t kv_len);
/* Every element within its bound; empty rows exact; no +inf in lse. Of very long problems some rows
 * are drawn, first and last ones always. */
void attn_judge(struct check *c, const struct attn_problem *p, const struct attn_result *r,
                const struct attn_route *routes);
/* One row and head against `want`; `o` and `lse` (NULL: not wanted) are the row's own. */
struct attn_place {
    int32_t seq, row, head;
};
void attn_judge_row(struct check *c, const struct oracle_seq *s, const struct oracle_row *want,
                    const struct oracle_path *path, const void *o, const float *lse, bool base2,
                    struct attn_place at);
/* Same bits, but of the sequences in `skip` (NULL: all). `what` names the comparison in the report.
 */
void attn_same_bits(struct check *c, const struct attn_problem *p, const struct attn_result *a,
                    const struct attn_result *b, const bool *skip, const char *what);
/* Rows [row, row + n) of `all` have the bits of the first n of `part`. */
void attn_same_part(struct check *c, const struct attn_problem *p, const struct attn_result *all,
                    int32_t row, const struct attn_result *part, int32_t n, const char *what);
/* Results from row `row` on. Not to be freed. */
struct attn_result attn_part(const struct attn_problem *p, const struct attn_result *r,
                             int32_t row);

#endif
