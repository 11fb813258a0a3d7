/* Attention and merge in double precision by the formula of include/pagedkv/attention.h: all
 * logits, then the maximum, then the sums. No paging, no online softmax, nothing shared with src/.
 * One sequence at a time, keys in order. */
#ifndef PKV_ORACLE_ATTENTION_H
#define PKV_ORACLE_ATTENTION_H

#include "pagedkv/base.h"

/* Stored rows: value = scale * (code - zero). The types without scales store values. */
struct oracle_rows {
    const float *codes; /* [kv_len][n_kv_heads][dim] */
    const float *scale; /* [kv_len][n_kv_heads][dim / scale_dim] or NULL: 1 */
    const float *zero;  /* like scale, or NULL: 0 */
    int32_t dim;
    int32_t scale_dim; /* neighbours that share a scale; 0: all of a row */
};

struct oracle_seq {
    int32_t q_len, kv_len, n_q_heads, n_kv_heads;
    const float *q; /* [q_len][n_q_heads][k.dim] */
    struct oracle_rows k, v;
    int64_t pos0;         /* position of key 0 */
    const int32_t *q_pos; /* [q_len] or NULL */
    bool q_detached;      /* q_pos says nothing of keys */
    double scale;         /* 0: 1 / sqrt(k.dim) */
    double softcap;       /* 0: off */
    int32_t window_left, window_right;
    bool causal;
    const uint32_t *mask; /* [q_len][mask_stride] or NULL */
    int64_t mask_stride;
    const float *alibi, *sink; /* [n_q_heads] or NULL */
};

enum { ORACLE_MAX_DIM = 512 };

/* One row of one head: the result, and what its error bounds are made of. */
struct oracle_row {
    double o[ORACLE_MAX_DIM], lse; /* natural */
    double v_bar[ORACLE_MAX_DIM];  /* sum of p * |scale| * (|code| + |zero|) */
    double v_max[ORACLE_MAX_DIM];  /* largest |scale| * (|code| + |zero|) */
    double code_max;               /* largest |code| + |zero| of V; 0 without scales */
    double z_abs;                  /* scale * max over j of sum |sK| (|q code| + |q zero|) */
    double scale_max;              /* largest |scale| of V */
    double z_step; /* scale * amax(q) * max over j of sum |sK code|: for q rounded to fixed steps */
    double z_flush;   /* scale * (sum |q| + max over j of sum |k|): for flushed subnormals */
    double alibi_abs; /* largest |ALiBi term| of keys within 25 of the maximum */
    int32_t n_visible;
};

bool oracle_sees(const struct oracle_seq *s, int32_t row, int32_t key);
/* `z_scratch` has room for kv_len doubles. */
void oracle_attention(const struct oracle_seq *s, int32_t row, int32_t head, double *z_scratch,
                      struct oracle_row *out);

/* How a kernel got there: what differs between levels and paths, see docs/numerics.md. */
struct oracle_path {
    int32_t terms;     /* T: sequential additions on the longest path */
    double p_roundoff; /* uP: 0 where p stays float32 */
    double p_step;     /* half the smallest step of the type of p; 0 where p stays float32 */
    double q_step;     /* error of an element of q over the largest of its row */
    bool flushes;      /* dot products that take and give subnormals as 0 */
    pkv_dtype out;
};
/* Bounds of docs/numerics.md on |o[d] - o*[d]| and |lse - lse*|, per element, from the data. */
double oracle_bound_o(const struct oracle_seq *s, const struct oracle_row *row,
                      const struct oracle_path *path, int32_t d);
/* The part of bound_o that is arithmetic, without the rounding of the output. */
double oracle_bound_o_sums(const struct oracle_seq *s, const struct oracle_row *row,
                           const struct oracle_path *path, int32_t d);
double oracle_bound_lse(const struct oracle_seq *s, const struct oracle_row *row,
                        const struct oracle_path *path, bool base2);

/* Merge of n states, one element: o[s] and lse[s], natural or base 2. */
struct oracle_merged {
    double o, lse, o_abs; /* o_abs: largest |o_s| that counts */
    bool empty;
};
struct oracle_merged oracle_merge(const double *o, const double *lse, int32_t n, bool base2);

#endif
