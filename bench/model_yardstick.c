/* Memory of the yardstick: weights in the order of llama2.c's files, version 0. */
#include "model_yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t kv_width(const struct yard_shape *m)
{
    return (int64_t)m->hidden / m->n_heads * m->n_kv_heads;
}

/* Floats of all weights, a tied head. */
static int64_t n_weights(const struct yard_shape *m)
{
    const int64_t hidden = m->hidden, ffn = m->ffn;
    const int64_t layer =
        2 * hidden + 2 * hidden * hidden + 2 * kv_width(m) * hidden + 3 * ffn * hidden;
    return m->vocab * hidden + m->n_layers * layer + hidden;
}

int64_t yard_weight_bytes(const struct yard_shape *shape)
{
    return n_weights(shape) * (int64_t)sizeof(float);
}

yard_forward_fn yard_forward(bool fast)
{
#if BENCH_HAVE_YARD_FAST
    if (fast) return yard_forward_fast;
#endif
    return fast ? NULL : yard_forward_plain;
}

/* One tensor of all layers. */
static const float *take(const float **at, int64_t floats)
{
    const float *here = *at;
    *at += floats;
    return here;
}

static void place(struct yard_model *y)
{
    const struct yard_shape *m = &y->shape;
    const int64_t hidden = m->hidden, kv = kv_width(m), ffn = m->ffn, n = m->n_layers;
    const float *at = y->weights.base;
    y->embedding = y->head = take(&at, m->vocab * hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].attn_norm = take(&at, hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].q = take(&at, hidden * hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].k = take(&at, kv * hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].v = take(&at, kv * hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].o = take(&at, hidden * hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].ffn_norm = take(&at, hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].gate = take(&at, ffn * hidden);
    for (int64_t l = 0; l < n; l++) y->layers[l].down = take(&at, hidden * ffn);
    for (int64_t l = 0; l < n; l++) y->layers[l].up = take(&at, ffn * hidden);
    y->out_norm = take(&at, hidden);
}

static bool make(const struct yard_shape *m, struct yard_model *y, struct bench_error *err)
{
    memset(y, 0, sizeof(*y));
    y->shape = *m;
    const size_t cache = (size_t)(m->n_layers * m->context * kv_width(m));
    const size_t rows = (size_t)(3 * m->hidden + 2 * m->ffn + m->context + m->vocab);
    y->layers = bench_calloc((size_t)m->n_layers, sizeof(*y->layers), err);
    y->state = bench_calloc(2 * cache + rows, sizeof(float), err);
    if (!y->layers || !y->state ||
        !bench_region_map(&y->weights, (size_t)yard_weight_bytes(m), true, err)) {
        yard_close(y);
        return false;
    }
    y->keys = y->state;
    y->values = y->keys + cache;
    y->x = y->values + cache;
    y->h = y->x + m->hidden;
    y->q = y->h + m->hidden;
    y->gate = y->q + m->hidden;
    y->up = y->gate + m->ffn;
    y->scores = y->up + m->ffn;
    y->logits = y->scores + m->context;
    place(y);
    return true;
}

void yard_close(struct yard_model *y)
{
    bench_region_unmap(&y->weights);
    free(y->layers);
    free(y->state);
    memset(y, 0, sizeof(*y));
}

bool yard_random(const struct yard_shape *shape, uint64_t seed, struct yard_model *out,
                 struct bench_error *err)
{
    if (!make(shape, out, err)) return false;
    struct bench_rng rng = { seed };
    float *w = out->weights.base;
    for (int64_t i = 0; i < n_weights(shape); i++)
        w[i] = (float)(bench_rng_unit(&rng) - 0.5) * 0.1f;
    return true;
}

static bool read_file(FILE *f, struct yard_model *y, struct bench_error *err)
{
    int32_t h[7];
    if (fread(h, sizeof(h), 1, f) != 1) return bench_fail(err, BENCH_USAGE, "no llama2.c header");
    const struct yard_shape m = { h[0], h[1], h[2], h[3], h[4], h[5], h[6] };
    for (int i = 0; i < 7; i++)
        if (h[i] < 1 || h[i] > 1 << 20)
            return bench_fail(err, BENCH_USAGE, "no llama2.c file of version 0 with a tied head");
    if (m.hidden % m.n_heads != 0 || m.n_heads % m.n_kv_heads != 0)
        return bench_fail(err, BENCH_USAGE, "heads that do not divide");
    if (!make(&m, y, err)) return false;
    if (fread(y->weights.base, (size_t)yard_weight_bytes(&m), 1, f) == 1) return true;
    yard_close(y);
    return bench_fail(err, BENCH_USAGE, "a llama2.c file that is too short");
}

bool yard_open(const char *path, struct yard_model *out, struct bench_error *err)
{
    FILE *f = fopen(path, "rb");
    if (!f) return bench_fail(err, BENCH_SKIP, "not measured: no %s", path);
    const bool ok = read_file(f, out, err);
    fclose(f);
    return ok;
}
