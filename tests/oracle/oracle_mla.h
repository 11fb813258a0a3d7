/* Latent attention in double: a row of K is the latent and the rotary part one after the other, a
 * row of V is the latent. Parts of the latent have scales of their own. */
#ifndef PKV_ORACLE_MLA_H
#define PKV_ORACLE_MLA_H

#include "oracle/oracle_attention.h"

struct oracle_mla {
    int32_t kv_len, n_parts, part_dim, rope_dim; /* latent dim = n_parts * part_dim */
    const float *latent;                         /* [kv_len][n_parts * part_dim] codes */
    const float *latent_scale;                   /* [kv_len][n_parts] or NULL: 1 */
    const float *latent_zero;                    /* like the scales, or NULL: 0 */
    const float *rope;                           /* [kv_len][rope_dim] codes */
    const float *rope_scale;                     /* [kv_len] or NULL: 1 */
    const float *rope_zero;                      /* [kv_len] or NULL: 0 */
    const float *q_latent;                       /* [q_len][n_q_heads][n_parts * part_dim] */
    const float *q_rope;                         /* [q_len][n_q_heads][rope_dim] */
};

/* Set q, k and v of `s` from `mla`, kv_len and n_kv_heads too; all else (q_len, n_q_heads, options)
 * is the caller's. Owns what it adds: oracle_mla_free. */
void oracle_mla_rows(const struct oracle_mla *mla, struct oracle_seq *s);
void oracle_mla_free(struct oracle_seq *s);

#endif
