/* How much memory KV takes, and what fits: the arithmetic behind `pkv-info kv-size` and behind the
 * admission of the engine, so that both agree. Experimental. Part of libpagedkv-model. No state.
 *
 *   bytes per token = 2 * layers * kv_heads * head_dim * bits / 8         MHA: kv_heads = heads;
 *                   + 2 * layers * kv_heads * scale bytes (8- and 4-bit)  GQA fewer, MQA one
 *   MLA             = layers * (latent_dim + rope_dim) * bits / 8
 *                   + 2 * layers * scale bytes (8- and 4-bit; of the latent and of the rotary part)
 *   window layers   : min(blocks(tokens), floor((window - 2) / block_tokens) + 2) blocks, the most
 *                     that the keys of one query touch
 *   per sequence    = sum over groups of blocks(tokens) * block_bytes     rounded up to 512
 *   max sequences   = usable blocks / blocks per sequence                 block 0 is not usable */
#ifndef PAGEDKV_KV_SIZE_H
#define PAGEDKV_KV_SIZE_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What of a model decides its KV. */
typedef struct pkv_kv_geometry {
    uint32_t struct_size;
    int32_t n_layers;
    int32_t n_kv_heads, head_dim; /* of all ranks; both 0 with MLA */
    int32_t latent_dim, rope_dim; /* MLA (DeepSeek-V2, arXiv 2405.04434): 512 and 64; else 0 */
    int32_t n_window_layers;      /* of n_layers; 0: all layers keep every token */
    int32_t window_tokens;        /* 0 without window layers */
    pkv_dtype dtype;
} pkv_kv_geometry;
#define PKV_KV_GEOMETRY_INIT                                                                       \
    {                                                                                              \
        sizeof(pkv_kv_geometry), 0, 0, 0, 0, 0, 0, 0, PKV_F16                                      \
    }

typedef struct pkv_kv_budget {
    uint32_t struct_size;
    size_t memory_bytes;     /* of one device (rank) */
    size_t weight_bytes;     /* of all ranks together; divided by tp */
    size_t activation_bytes; /* of one rank */
    size_t reserve_bytes;    /* left free on each */
    int32_t tp;              /* tensor-parallel ranks, >= 1; with more ranks than kv heads each head
                                is replicated; a latent cache is replicated always */
    int32_t block_tokens;    /* 1 .. 2048 */
    int32_t tokens;          /* of a typical sequence when it ends: what paged placement stores */
    int32_t max_tokens;      /* what contiguous placement reserves per sequence; >= tokens */
} pkv_kv_budget;
#define PKV_KV_BUDGET_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_kv_budget), 0, 0, 0, 0, 1, 16, 0, 0                                             \
    }

typedef struct pkv_kv_size {
    uint32_t struct_size;
    double bytes_per_token;    /* of one rank, scales included, padding of rows and blocks not */
    size_t block_bytes;        /* of one block of all layers of a group, rounded up to 512; with
                                  window layers a group has gcd(full, window) layers, since groups
                                  draw blocks of equal bytes from one pool */
    int64_t blocks_per_seq;    /* that a sequence of `tokens` takes, all groups */
    int64_t n_blocks;          /* that fit, null block included; 0: not even two */
    int64_t usable_tokens;     /* (n_blocks - 1) * block_tokens */
    int64_t max_seqs;          /* paged: (n_blocks - 1) / blocks_per_seq, nothing left free */
    size_t seq_bytes;          /* paged: blocks_per_seq * block_bytes */
    size_t reserved_bytes;     /* contiguous: bytes of max_tokens in every layer */
    int64_t max_seqs_reserved; /* contiguous: kv_bytes / reserved_bytes */
    size_t kv_bytes;           /* what is left for KV on one rank; 0: the weights do not fit */
} pkv_kv_size;
#define PKV_KV_SIZE_INIT                                                                           \
    {                                                                                              \
        sizeof(pkv_kv_size), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                          \
    }

/* PKV_E_INVALID_ARG: null, a field out of range, kv heads no multiple or divisor of tp, a product
 * that does not fit; the log names the field. PKV_E_ABI. PKV_E_NEVER: the weights, or not even one
 * sequence of `tokens`, fit; *out is filled all the same. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_kv_size_of(const pkv_kv_geometry *geometry,
                                                const pkv_kv_budget *budget, const pkv_logger *log,
                                                pkv_kv_size *out);

/* Most blocks that one request holds at a time: n samples (or beams) that share the prompt's full
 * blocks and own the rest, each up to n_prompt + max_new - 1 tokens (the last one is never
 * written); with max_new 1 the prompt's alone. What the engine compares with its pool when a
 * request is submitted. 0: an argument below 1. */
PKV_API int64_t pkv_kv_request_blocks(int32_t n_prompt, int32_t max_new, int32_t n_samples,
                                      int32_t block_tokens);

/* ---------------------------------------------------------------- from files */

/* What the files of a model say that decides its KV; also of architectures whose pass is not here.
 * 0 and "": not said. */
typedef struct pkv_kv_source {
    uint32_t struct_size;
    char format[16];       /* "config.json", "gguf", "llama2.c" */
    char architecture[64]; /* "LlamaForCausalLM", "llama" */
    char license[128];
    pkv_kv_geometry geometry; /* dtype: that of the weights if K and V can have it, else f16. Layers
                                 without K and V (recurrent ones) are not counted */
    int32_t n_heads;
    int32_t mla_head_dim; /* MLA: half of what one head's K and V would take without it */
    int32_t vocab, hidden, context;
    int32_t n_experts;
    char weight_type[16]; /* "bf16", "Q8_0": of most bytes, or as the configuration says */
    int64_t n_parameters; /* of the tensors, else counted from the dimensions of a Llama-type
                             model */
    bool counted;         /* n_parameters are such a count */
    size_t weight_bytes;  /* of the tensors; 0: no weight files */
} pkv_kv_source;
#define PKV_KV_SOURCE_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_kv_source), "", "", "", PKV_KV_GEOMETRY_INIT, 0, 0, 0, 0, 0, 0, "", 0, false, 0 \
    }
/* Read a config.json, a folder that holds one, a .safetensors beside one, a .gguf or a .bin. Of
 * weight files only the tables of tensors are read. `log` also gets warnings about what could not
 * be taken into account. *out on success only.
 *   PKV_E_INVALID_ARG null; PKV_E_ABI; PKV_E_IO; PKV_E_NO_MEMORY
 *   PKV_E_FORMAT      malformed, out of range, or keys are missing: the log names them
 *   PKV_E_UNSUPPORTED layers of different shapes */
PKV_API PKV_NODISCARD pkv_status pkv_kv_source_read(const char *path, const pkv_logger *log,
                                                    const pkv_allocator *alloc, pkv_kv_source *out);

#ifdef __cplusplus
}
#endif
#endif
