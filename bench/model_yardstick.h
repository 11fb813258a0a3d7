/* The yardstick of the model's decode: what a plain program does. One thread, float32, a contiguous
 * cache, a row at a time through loops as they would be written down, left to the compiler. */
#ifndef PKV_MODEL_YARDSTICK_H
#define PKV_MODEL_YARDSTICK_H

#include "bench_base.h"

struct yard_shape {
    int32_t hidden, ffn, n_layers, n_heads, n_kv_heads, vocab, context;
};

struct yard_layer {
    const float *attn_norm, *q, *k, *v, *o, *ffn_norm, *gate, *down, *up;
};

struct yard_model {
    struct yard_shape shape;
    struct bench_region weights;
    const float *embedding, *out_norm, *head;
    struct yard_layer *layers;      /* [n_layers] */
    float *keys, *values;           /* [n_layers][context][kv width] */
    float *x, *h, *q, *gate, *up;   /* one row each */
    float *scores, *logits, *state; /* [context], [vocab]; all of these are in `state` */
};

/* Random weights; or a llama2.c .bin (version 0). BENCH_SKIP where there is no such file. */
bool yard_random(const struct yard_shape *shape, uint64_t seed, struct yard_model *out,
                 struct bench_error *err);
bool yard_open(const char *path, struct yard_model *out, struct bench_error *err);
void yard_close(struct yard_model *y); /* a zeroed one is fine */
int64_t yard_weight_bytes(const struct yard_shape *shape);

/* One token at a position; returns logits [vocab]. Positions go up by one from 0. Compiled twice:
 * at -O3, and with -Ofast for AVX2, which not every build has. */
typedef const float *(*yard_forward_fn)(struct yard_model *y, int32_t token, int32_t pos);
const float *yard_forward_plain(struct yard_model *y, int32_t token, int32_t pos);
const float *yard_forward_fast(struct yard_model *y, int32_t token,
                               int32_t pos); /* NULL: not in this build. */
yard_forward_fn yard_forward(bool fast);

#endif
