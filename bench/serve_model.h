/* The model that serves: random weights of a known size, or files. */
#ifndef PKV_SERVE_MODEL_H
#define PKV_SERVE_MODEL_H

#include "bench_base.h"

#include "pagedkv/model.h"

#define SERVE_MODEL_NAMES "tiny, 15m, 110m"

/* `name`: one of the above, random float32 weights with room for `context` tokens, or a path of
 * pkv_model_open. False: `err` says what is wrong with it. */
bool serve_model_open(const char *name, int32_t context, pkv_model **out, struct bench_error *err);

/* Bytes of K and V per token in f16. */
int64_t serve_model_token_bytes(const pkv_model_info *info);

#endif
