/* The yardstick's forward. YARD_FORWARD is its name. */
#include "model_yardstick.h"

#include <math.h>
#include <string.h>

static void times(const float *w, const float *x, int32_t n, int32_t k, float *y)
{
    for (int32_t r = 0; r < n; r++) {
        float sum = 0;
        for (int32_t c = 0; c < k; c++) sum += w[(int64_t)r * k + c] * x[c];
        y[r] = sum;
    }
}

static void norm(const float *x, const float *w, int32_t n, float *out)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++) sum += x[i] * x[i];
    const float scale = 1.f / sqrtf(sum / (float)n + 1e-5f);
    for (int32_t i = 0; i < n; i++) out[i] = w[i] * (scale * x[i]);
}

/* Pairs (2 i, 2 i + 1) of every head. */
static void turn(float *x, int32_t n, int32_t dim, int32_t pos)
{
    for (int32_t i = 0; i < n; i += 2) {
        const float angle = (float)pos / powf(10000.f, (float)(i % dim) / (float)dim);
        const float c = cosf(angle), s = sinf(angle), a = x[i], b = x[i + 1];
        x[i] = a * c - b * s;
        x[i + 1] = a * s + b * c;
    }
}

static void attend(struct yard_model *y, const float *keys, const float *values, int32_t pos)
{
    const struct yard_shape *m = &y->shape;
    const int32_t dim = m->hidden / m->n_heads, width = dim * m->n_kv_heads;
    for (int32_t h = 0; h < m->n_heads; h++) {
        const int32_t at = h / (m->n_heads / m->n_kv_heads) * dim;
        const float *q = y->q + h * dim;
        float *out = y->h + h * dim, top = -INFINITY, total = 0;
        for (int32_t j = 0; j <= pos; j++) {
            float z = 0;
            for (int32_t d = 0; d < dim; d++) z += q[d] * keys[(int64_t)j * width + at + d];
            y->scores[j] = z / sqrtf((float)dim);
            if (y->scores[j] > top) top = y->scores[j];
        }
        for (int32_t j = 0; j <= pos; j++) total += y->scores[j] = expf(y->scores[j] - top);
        memset(out, 0, (size_t)dim * sizeof(*out));
        for (int32_t j = 0; j <= pos; j++)
            for (int32_t d = 0; d < dim; d++)
                out[d] += y->scores[j] / total * values[(int64_t)j * width + at + d];
    }
}

static void run_layer(struct yard_model *y, int32_t l, int32_t pos)
{
    const struct yard_shape *m = &y->shape;
    const struct yard_layer *w = &y->layers[l];
    const int32_t dim = m->hidden / m->n_heads, width = dim * m->n_kv_heads;
    float *keys = y->keys + (int64_t)l * m->context * width;
    float *values = y->values + (int64_t)l * m->context * width;
    float *k = keys + (int64_t)pos * width, *v = values + (int64_t)pos * width;
    norm(y->x, w->attn_norm, m->hidden, y->h);
    times(w->q, y->h, m->hidden, m->hidden, y->q);
    times(w->k, y->h, width, m->hidden, k);
    times(w->v, y->h, width, m->hidden, v);
    turn(y->q, m->hidden, dim, pos);
    turn(k, width, dim, pos);
    attend(y, keys, values, pos);
    times(w->o, y->h, m->hidden, m->hidden, y->q);
    for (int32_t i = 0; i < m->hidden; i++) y->x[i] += y->q[i];
    norm(y->x, w->ffn_norm, m->hidden, y->h);
    times(w->gate, y->h, m->ffn, m->hidden, y->gate);
    times(w->up, y->h, m->ffn, m->hidden, y->up);
    for (int32_t i = 0; i < m->ffn; i++)
        y->gate[i] = y->gate[i] / (1.f + expf(-y->gate[i])) * y->up[i];
    times(w->down, y->gate, m->hidden, m->ffn, y->q);
    for (int32_t i = 0; i < m->hidden; i++) y->x[i] += y->q[i];
}

const float *YARD_FORWARD(struct yard_model *y, int32_t token, int32_t pos)
{
    const struct yard_shape *m = &y->shape;
    memcpy(y->x, y->embedding + (int64_t)token * m->hidden, (size_t)m->hidden * sizeof(float));
    for (int32_t l = 0; l < m->n_layers; l++) run_layer(y, l, pos);
    norm(y->x, y->out_norm, m->hidden, y->h);
    times(y->head, y->h, m->vocab, m->hidden, y->logits);
    return y->logits;
}
