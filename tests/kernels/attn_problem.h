/* An attention problem as mathematics: sequences with queries, keys and values in order, options.
 * Knows nothing of blocks but their size and which first blocks two sequences share. All values are
 * floats that the dtypes hold exactly, so that the oracle and the kernels see the same numbers.
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
    int32_t *q_pos;                             /* [n_rows] or NULL; owned */
    float *q;                                   /* [n_rows][n_q_heads][k_dim]; owned */
    float *k[ATTN_MAX_SEQS], *v[ATTN_MAX_SEQS]; /* [kv_len][n_kv_heads][dim]; owned */
};

/* Sizes that a fresh problem starts from: one sequence, one row, 16 tokens per block, f32 queries
 * turned to the dtype of the case, causal, natural lse wanted. */
struct attn_problem attn_usual(const struct check *c);
/* Ragged batch, random dims, heads, block size, layout of rows. */
struct attn_problem attn_draw_ragged(struct check *c);
/* Options: one at random, or a pair; 0 .. ATTN_N_OPTIONS - 1 names one. */
enum { ATTN_N_OPTIONS = 8 };
void attn_draw_option(struct check *c, struct attn_problem *p, int32_t which);
/* Positions of rows: strictly rising with gaps, or siblings of a tree. */
void attn_draw_q_pos(struct check *c, struct attn_problem *p);
void attn_draw_sharing(struct check *c, struct attn_problem *p);

/* Make the values, and the text of the shape. Called once everything above is set. */
void attn_fill(struct check *c, struct attn_problem *p);
/* The same problem with sequence b alone; `p` must outlive it. Not to be freed. */
struct attn_problem attn_alone(const struct attn_problem *p, int32_t b);
void attn_free(struct attn_problem *p);

/* Sequence b as the oracle wants it. */
struct oracle_seq attn_oracle(const struct attn_problem *p, int32_t b);

/* Compact results: o [n_rows][n_q_heads][v_dim] in the dtype of q, lse [n_rows][n_q_heads]. */
struct attn_result {
    void *o;
    float *lse; /* NULL: not wanted */
    size_t o_bytes, lse_bytes;
};
void attn_result_free(struct attn_result *r);
/* Every element within its bound; empty rows exact; no +inf in lse. `decode[b]`: the kernel that
 * took sequence b was a vector decode kernel. */
void attn_judge(struct check *c, const struct attn_problem *p, const struct attn_result *r,
                const bool *decode);
/* Same bits, but of the sequences in `skip` (NULL: all). `what` names the comparison in the report.
 */
void attn_same_bits(struct check *c, const struct attn_problem *p, const struct attn_result *a,
                    const struct attn_result *b, const bool *skip, const char *what);

#endif
