/* What decides the KV of a model, read from its files: what the three readers share. */
#ifndef PKV_MODEL_KV_SOURCE_H
#define PKV_MODEL_KV_SOURCE_H

#include "model/tensor_file.h"
#include "pagedkv/kv_size.h"

/* config.json, whatever the architecture. */
PKV_NODISCARD pkv_status pkv__kv_source_json(const char *text, size_t bytes, const pkv_logger *log,
                                             pkv_kv_source *out);
/* GGUF keys of any architecture, and the header of a llama2.c file. */
PKV_NODISCARD pkv_status pkv__kv_source_gguf(const pkv__tensor_file *file, const pkv_logger *log,
                                             pkv_kv_source *out);
PKV_NODISCARD pkv_status pkv__kv_source_llama2c(const pkv__tensor_file *file, const pkv_logger *log,
                                                pkv_kv_source *out);

/* Every layer has all of this many heads; head_dim 0: hidden / n_heads. PKV_E_FORMAT names
 * everything that is missing, as the file calls it. */
typedef struct pkv__kv_names {
    const char *file, *layers, *kv_heads, *head_dim, *rope_dim;
} pkv__kv_names;
PKV_NODISCARD pkv_status pkv__kv_source_settle(pkv_kv_source *s, const pkv__kv_names *names,
                                               const pkv_logger *log);
/* The type of weights by the name in a file, also for K and V. */
void pkv__kv_source_type(pkv_kv_source *s, const char *name);

#endif
