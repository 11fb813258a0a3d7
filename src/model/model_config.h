/* What a model is: one struct for every family, one row per layer where layers differ. Filled from
 * config.json (with generation_config.json), GGUF keys or the header of a llama2.c file. */
#ifndef PKV_MODEL_CONFIG_H
#define PKV_MODEL_CONFIG_H

#include "model/tensor_file.h"

#define PKV__MAX_LAYERS 512
#define PKV__MAX_EOS 16

typedef enum pkv__rope_kind {
    PKV__ROPE_DEFAULT, /* theta^(-2i/d) */
    PKV__ROPE_LINEAR,  /* divided by factor */
    PKV__ROPE_DYNAMIC, /* theta rescaled for the length limit, once */
    PKV__ROPE_LLAMA3,
    PKV__ROPE_YARN,
    PKV__ROPE_LONGROPE
} pkv__rope_kind;

typedef struct pkv__rope_config {
    pkv__rope_kind kind;
    double theta, factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double attention_factor;                  /* yarn, longrope: on cos and sin; 0: from factor */
    double mscale, mscale_all_dim;            /* yarn; 0: not given */
    int32_t original_context;                 /* llama3, yarn, longrope, dynamic */
    int32_t n_short, n_long;                  /* longrope: entries of the two lists */
    double short_factor[256], long_factor[256];
    int32_t rotary_dim; /* <= head_dim, even */
} pkv__rope_config;

typedef struct pkv__model_config {
    char architecture[64]; /* "llama" */
    int32_t vocab, hidden, n_layers, n_heads, n_kv_heads, head_dim, ffn;
    int32_t context; /* longest prompt + output */
    double norm_eps;
    bool tied_head;         /* the output matrix is the embedding */
    bool interleaved_pairs; /* q/k rows of the file are for pairs (2i, 2i + 1): permute at load */
    pkv__rope_config rope;
    int32_t bos;                      /* -1: none */
    int32_t n_eos, eos[PKV__MAX_EOS]; /* union of all files, ascending */
} pkv__model_config;

/* Read the configuration that belongs to `path` (a folder, a .safetensors beside its config.json, a
 * .gguf, a .bin) and check every number in it: counts between 1 and a named maximum, heads a
 * multiple of kv heads, products that fit. Keys that change the arithmetic and are not implemented
 * are PKV_E_UNSUPPORTED with their name. `file` is the opened weight file (needed for .gguf, .bin;
 * NULL: only config.json is looked at). */
PKV_NODISCARD pkv_status pkv__model_config_read(const char *path, const pkv__tensor_file *file,
                                                const pkv_logger *log, const pkv_allocator *alloc,
                                                pkv__model_config *out);

#endif
