/* Fold and finish (online softmax over chunks, arXiv 1805.02867). Plain C, compiled once: every
 * level and every thread does the same operations in the same order. */
#include "kernels/attn_fold.h"

static void fold_one(float *o, float *m, float *l, const float *chunk_o, float chunk_m,
                     float chunk_l, int32_t v_dim)
{
    const float top = *m > chunk_m ? *m : chunk_m;
    const float a = expf(*m - top), b = expf(chunk_m - top);
    for (int32_t d = 0; d < v_dim; d++) o[d] = a * o[d] + b * chunk_o[d];
    *m = top;
    *l = a * *l + b * chunk_l;
}

void pkv__state_fold(const struct pkv__attn_state *into, const struct pkv__attn_state *chunk,
                     int32_t lo, int32_t hi, int32_t v_dim)
{
    for (int32_t s = lo; s < hi; s++) {
        float *o = into->o + (size_t)s * (size_t)v_dim;
        const float *chunk_o = chunk->o + (size_t)s * (size_t)v_dim;
        if (chunk->l[s] == 0.f) continue;
        if (into->l[s] == 0.f) { /* the first key that is seen: nothing to weigh against */
            for (int32_t d = 0; d < v_dim; d++) o[d] = chunk_o[d];
            into->m[s] = chunk->m[s];
            into->l[s] = chunk->l[s];
            continue;
        }
        fold_one(o, &into->m[s], &into->l[s], chunk_o, chunk->m[s], chunk->l[s], v_dim);
    }
}

/* A sink is a logit without a value: one more state, with o = 0. */
static void join_sink(float *o, float *m, float *l, float sink, int32_t v_dim)
{
    if (sink == -INFINITY) return;
    if (*l == 0.f) {
        *m = sink;
        *l = 1.f;
        return;
    }
    const float top = *m > sink ? *m : sink;
    const float a = expf(*m - top);
    for (int32_t d = 0; d < v_dim; d++) o[d] *= a;
    *m = top;
    *l = a * *l + expf(sink - top);
}

static void write_lse(const pkv_lse *to, int64_t row, int32_t head, float lse)
{
    to->data[row * to->row_stride + head * to->head_stride] = to->base2 ? lse * PKV__LOG2E : lse;
}

static void write_out(const struct pkv__cpu_kernels *k, const pkv_tensor3 *out, int64_t row,
                      int32_t head, const float *o)
{
    const int64_t at = row * out->row_stride + head * out->head_stride;
    const int64_t bytes = at * (pkv_dtype_bits(out->dtype) / 8);
    k->store_row[out->dtype]((char *)out->data + bytes, o, out->dim);
}

void pkv__state_finish(const struct pkv__cpu_kernels *k, const struct pkv__attn_call *c,
                       const struct pkv__attn_unit *u, const struct pkv__attn_state *state,
                       int32_t lo, int32_t hi)
{
    const int32_t heads = u->n_kv_heads * c->group, v_dim = c->v->dim;
    for (int32_t s = lo; s < hi; s++) {
        float *o = state->o + (size_t)s * (size_t)v_dim, m = state->m[s], l = state->l[s];
        const int32_t head = u->kv_head * c->group + s % heads;
        const int64_t row = (int64_t)u->row0 + u->row_lo + s / heads;
        const bool seen = l != 0.f;
        if (c->opts->sink) join_sink(o, &m, &l, c->opts->sink[head], v_dim);
        for (int32_t d = 0; d < v_dim; d++) o[d] = seen ? o[d] / l : 0.f;
        write_out(k, c->out, row, head, o);
        if (c->lse) write_lse(c->lse, row, head, l != 0.f ? m + logf(l) : -INFINITY);
    }
}
