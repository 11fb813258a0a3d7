/* Latent attention as attention over joined rows. */
#include "oracle/oracle_mla.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT = 8 }; /* divides every dim, so that the joined row has a scale per 8 neighbours */

static float *need(int64_t n)
{
    float *a = malloc((size_t)n * sizeof(float) + 1);
    if (!a) abort();
    return a;
}

/* [rows][a_dim] and [rows][b_dim] to [rows][a_dim + b_dim]. */
static float *join(const float *a, int32_t a_dim, const float *b, int32_t b_dim, int64_t rows)
{
    float *r = need(rows * (a_dim + b_dim));
    for (int64_t i = 0; i < rows; i++) {
        memcpy(r + i * (a_dim + b_dim), a + i * a_dim, (size_t)a_dim * sizeof(float));
        memcpy(r + i * (a_dim + b_dim) + a_dim, b + i * b_dim, (size_t)b_dim * sizeof(float));
    }
    return r;
}

/* One number per UNIT dims of a joined row. */
static float *spread(const struct oracle_mla *m, const float *latent, const float *rope,
                     float absent)
{
    const int32_t per_part = m->part_dim / UNIT, n_latent = m->n_parts * per_part;
    const int32_t n = n_latent + m->rope_dim / UNIT;
    float *r = need((int64_t)m->kv_len * n);
    for (int32_t j = 0; j < m->kv_len; j++)
        for (int32_t u = 0; u < n; u++) {
            const float of_latent =
                latent && u < n_latent ? latent[j * m->n_parts + u / per_part] : absent;
            const float of_rope = rope ? rope[j] : absent;
            r[(int64_t)j * n + u] = u < n_latent ? of_latent : of_rope;
        }
    return r;
}

void oracle_mla_rows(const struct oracle_mla *m, struct oracle_seq *s)
{
    const int32_t latent_dim = m->n_parts * m->part_dim;
    s->kv_len = m->kv_len;
    s->n_kv_heads = 1;
    s->q = join(m->q_latent, latent_dim, m->q_rope, m->rope_dim, (int64_t)s->q_len * s->n_q_heads);
    s->k = (struct oracle_rows){
        .codes = join(m->latent, latent_dim, m->rope, m->rope_dim, m->kv_len),
        .scale = spread(m, m->latent_scale, m->rope_scale, 1.f),
        .zero = spread(m, m->latent_zero, m->rope_zero, 0.f),
        .dim = latent_dim + m->rope_dim,
        .scale_dim = UNIT,
    };
    s->v =
        (struct oracle_rows){ m->latent, m->latent_scale, m->latent_zero, latent_dim, m->part_dim };
}

void oracle_mla_free(struct oracle_seq *s)
{
    free((void *)(uintptr_t)s->q);
    free((void *)(uintptr_t)s->k.codes);
    free((void *)(uintptr_t)s->k.scale);
    free((void *)(uintptr_t)s->k.zero);
}
