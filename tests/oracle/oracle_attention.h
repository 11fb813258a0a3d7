/* Attention and merge in double precision by the formula of include/pagedkv/attention.h: all
 * logits, then the maximum, then the sums. No paging, no online softmax, nothing shared with src/.
 * One sequence at a time, keys in order. */
#ifndef PKV_ORACLE_ATTENTION_H
#define PKV_ORACLE_ATTENTION_H

#include "pagedkv/base.h"

struct oracle_seq {
    int32_t q_len, kv_len, n_q_heads, n_kv_heads, k_dim, v_dim;
    const float *q;       /* [q_len][n_q_heads][k_dim] */
    const float *k;       /* [kv_len][n_kv_heads][k_dim] */
    const float *v;       /* [kv_len][n_kv_heads][v_dim] */
    int64_t pos0;         /* position of key 0 */
    const int32_t *q_pos; /* [q_len] or NULL */
    double scale;         /* 0: 1 / sqrt(k_dim) */
    double softcap;       /* 0: off */
    int32_t window_left, window_right;
    bool causal;
    const float *alibi, *sink; /* [n_q_heads] or NULL */
};

enum { ORACLE_MAX_DIM = 256 };

/* One row of one head: the result, and what its error bounds are made of. */
struct oracle_row {
    double o[ORACLE_MAX_DIM], lse; /* natural */
    double v_bar[ORACLE_MAX_DIM];  /* sum of p |v| */
    double v_max[ORACLE_MAX_DIM];  /* largest |v| */
    double z_abs;                  /* scale * max over visible j of sum |q k| */
    double alibi_abs;              /* largest |ALiBi term| of keys within 25 of the maximum */
    int32_t n_visible;
};

bool oracle_sees(const struct oracle_seq *s, int32_t row, int32_t key);
/* `z_scratch` has room for kv_len doubles. */
void oracle_attention(const struct oracle_seq *s, int32_t row, int32_t head, double *z_scratch,
                      struct oracle_row *out);

/* How a kernel got there: what differs between levels and paths. */
struct oracle_path {
    int32_t terms;     /* T: sequential additions on the longest path */
    double p_roundoff; /* uP: 0 where p stays float32 */
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
