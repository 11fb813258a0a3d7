/* Models of the reference transformer: weights and configuration behind one handle. Experimental:
 * may change in any release. Part of libpagedkv-model.
 *
 *   folder | .safetensors | .gguf | .bin  --pkv_model_open--> pkv_model --> pkv_engine (engine.h)
 *
 * A model is read-only after it is opened: any number of engines and threads may use it at once.
 * Weights may lie in the mapped file, which must not be cut while the model is open. */
#ifndef PAGEDKV_MODEL_H
#define PAGEDKV_MODEL_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_model pkv_model;

typedef struct pkv_model_config {
    uint32_t struct_size;
    const char *path;        /* a folder with config.json and *.safetensors, one of these files, a
                                .gguf (the first of its parts), or a llama2.c .bin */
    pkv_dtype weights_dtype; /* PKV_F32 or PKV_BF16: how matrices are kept */
    pkv_logger log;          /* errors: one line with file, byte offset, what and remedy */
    pkv_allocator alloc;
} pkv_model_config;
#define PKV_MODEL_CONFIG_INIT                                                                      \
    {                                                                                              \
        sizeof(pkv_model_config), NULL, PKV_F32, { NULL, NULL },                                   \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Read a model. *out on success only; the caller gives it back with close. close(NULL) is fine.
 *   PKV_E_INVALID_ARG null, another dtype; PKV_E_ABI; PKV_E_IO; PKV_E_NO_MEMORY
 *   PKV_E_FORMAT      malformed, or a tensor is missing or has another shape: the log names it
 *   PKV_E_UNSUPPORTED an architecture, a key that changes the arithmetic, or a type: by name
 * O(bytes of the weights). */
PKV_API PKV_NODISCARD pkv_status pkv_model_open(const pkv_model_config *cfg, pkv_model **out);
PKV_API void pkv_model_close(pkv_model *model);

/* The dimensions of a Llama-type model with random weights, for measurements. */
typedef struct pkv_model_shape {
    uint32_t struct_size;
    int32_t vocab, hidden, n_layers, n_heads, n_kv_heads, head_dim, ffn, context;
    bool tied_head;
} pkv_model_shape;
#define PKV_MODEL_SHAPE_INIT                                                                       \
    {                                                                                              \
        sizeof(pkv_model_shape), 0, 0, 0, 0, 0, 0, 0, 0, true                                      \
    }
/* Weights drawn from a seed; default RoPE with theta 10000; no BOS, no EOS. log and alloc may be
 * NULL and are copied. Errors as open; PKV_E_INVALID_ARG also: a dimension out of range, heads no
 * multiple of kv heads. */
PKV_API PKV_NODISCARD pkv_status pkv_model_random(const pkv_model_shape *shape, uint64_t seed,
                                                  pkv_dtype weights_dtype, const pkv_logger *log,
                                                  const pkv_allocator *alloc, pkv_model **out);

#define PKV_MODEL_MAX_EOS 16
typedef struct pkv_model_info {
    uint32_t struct_size;
    char architecture[64]; /* "llama" */
    char format[16];       /* "safetensors", "gguf", "llama2.c", "random" */
    int32_t vocab, hidden, n_layers, n_heads, n_kv_heads, head_dim, ffn;
    int32_t context; /* longest prompt + output */
    double norm_eps;
    bool tied_head;
    char rope[16]; /* "default", "linear", "dynamic", "llama3", "yarn", "longrope" */
    double rope_theta, rope_factor;
    int32_t rotary_dim;
    int32_t bos;                           /* -1: none */
    int32_t n_eos, eos[PKV_MODEL_MAX_EOS]; /* union of all configuration files, ascending */
    pkv_dtype weights_dtype;
    int64_t n_parameters; /* a tied head counted once */
    size_t weight_bytes;  /* read by a pass over one token: all matrices once, norms included; the
                             embedding counts as the head where it is tied, else one row */
    size_t memory_bytes;  /* of our own; what lies in a mapped file is not in it */
    int32_t n_tensors;    /* of the file; 0 for random weights */
} pkv_model_info;
#define PKV_MODEL_INFO_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_model_info), "", "", 0, 0, 0, 0, 0, 0, 0, 0, 0, false, "", 0, 0, 0, -1, 0,      \
            { 0 }, PKV_F32, 0, 0, 0, 0                                                             \
    }
/* PKV_E_INVALID_ARG null; PKV_E_ABI. O(1). Any thread. */
PKV_API PKV_NODISCARD pkv_status pkv_model_get_info(const pkv_model *model, pkv_model_info *out);

/* SHA-256 over configuration, weights_dtype and all weights as files give them: what decides K and
 * V besides tokens, for pkv_ns_params.model_digest where several models share a pool.
 * PKV_E_INVALID_ARG null. The first call reads every byte of the weights, at some hundred MB a
 * second, while others wait; later ones are O(1). Any thread. */
PKV_API PKV_NODISCARD pkv_status pkv_model_get_digest(const pkv_model *model, uint8_t digest[32]);

typedef struct pkv_model_tensor {
    uint32_t struct_size;
    const char *name; /* lives as long as the model */
    const char *type; /* of the file: "F32", "BF16", "Q8_0", ... */
    int32_t n_dims;
    int64_t dims[4]; /* outermost first */
    size_t bytes;
} pkv_model_tensor;
#define PKV_MODEL_TENSOR_INIT                                                                      \
    {                                                                                              \
        sizeof(pkv_model_tensor), NULL, NULL, 0, { 0 }, 0                                          \
    }
/* Tensor idx of the file, in order of name. PKV_E_RANGE: no such tensor; PKV_E_INVALID_ARG null;
 * PKV_E_ABI. Any thread. */
PKV_API PKV_NODISCARD pkv_status pkv_model_get_tensor(const pkv_model *model, int32_t idx,
                                                      pkv_model_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
