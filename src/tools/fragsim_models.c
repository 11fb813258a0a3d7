/* What one token costs in well-known models: layers, KV heads and head size as published in each
 * model's config.json on huggingface.co (num_hidden_layers; num_key_value_heads, or
 * num_attention_heads where there is no grouping; head_dim, or hidden_size / num_attention_heads):
 *   opt-*        facebook/opt-13b, opt-66b; opt-175b from arXiv:2205.01068, table 1
 *   llama-2-*    meta-llama/Llama-2-7b-hf, -13b-hf, -70b-hf
 *   llama-3-*    meta-llama/Meta-Llama-3-8B, -70B; llama-3.1-*: meta-llama/Llama-3.1-8B, -70B,
 * -405B mistral-7b   mistralai/Mistral-7B-v0.1; mixtral-8x7b: mistralai/Mixtral-8x7B-v0.1 qwen2.5-*
 * Qwen/Qwen2.5-7B, -72B; yi-34b: 01-ai/Yi-34B */
#include "fragsim_options.h"

#include <string.h>

static const fragsim_model models[] = {
    { "opt-13b", 40, 40, 128, 16, 1 },        { "opt-66b", 64, 72, 128, 16, 1 },
    { "opt-175b", 96, 96, 128, 16, 1 },       { "llama-2-7b", 32, 32, 128, 16, 1 },
    { "llama-2-13b", 40, 40, 128, 16, 1 },    { "llama-2-70b", 80, 8, 128, 16, 1 },
    { "llama-3-8b", 32, 8, 128, 16, 1 },      { "llama-3-70b", 80, 8, 128, 16, 1 },
    { "llama-3.1-8b", 32, 8, 128, 16, 1 },    { "llama-3.1-70b", 80, 8, 128, 16, 1 },
    { "llama-3.1-405b", 126, 8, 128, 16, 1 }, { "mistral-7b", 32, 8, 128, 16, 1 },
    { "mixtral-8x7b", 32, 8, 128, 16, 1 },    { "qwen2.5-7b", 28, 4, 128, 16, 1 },
    { "qwen2.5-72b", 80, 8, 128, 16, 1 },     { "yi-34b", 60, 8, 128, 16, 1 },
};
#define N_MODELS (sizeof(models) / sizeof(models[0]))

const fragsim_model *fragsim_model_find(const char *name)
{
    for (size_t k = 0; k < N_MODELS; k++)
        if (strcmp(models[k].name, name) == 0) return &models[k];
    return NULL;
}

void fragsim_model_names(char *out, size_t cap)
{
    size_t len = 0;
    for (size_t k = 0; k < N_MODELS && len < cap; k++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s", k > 0 ? ", " : "", models[k].name);
}

bool fragsim_model_bytes(const fragsim_model *m, int64_t *token_bytes, int64_t *tensor_bytes)
{
    const int32_t workers = m->tensor_parallel, heads = m->kv_heads;
    /* Workers split the heads evenly; with more workers than heads each head is kept several
     * times. */
    if (heads % workers != 0 && workers % heads != 0)
        return fragsim_complain("--tensor-parallel: %d workers cannot share %d KV heads evenly",
                                workers, heads);
    const int64_t heads_each = heads >= workers ? heads / workers : 1;
    const int64_t tensor_bits = heads_each * m->head_dim * m->dtype_bits;
    if (tensor_bits % 8 != 0)
        return fragsim_complain("--head-dim: a token of %lld bits in one tensor is no whole number "
                                "of bytes",
                                (long long)tensor_bits);
    if (tensor_bits / 8 > INT32_MAX)
        return fragsim_complain("--kv-heads and --head-dim: a token of %lld bytes in one tensor is "
                                "too large; at most 2^31-1",
                                (long long)(tensor_bits / 8));
    *tensor_bytes = tensor_bits / 8;
    *token_bytes = 2 * m->layers * *tensor_bytes * workers; /* < 2^1 * 2^16 * 2^31 * 2^10 */
    if (*token_bytes > INT32_MAX)
        return fragsim_complain("--layers, --kv-heads and --head-dim: a token of %lld bytes is too "
                                "large; at most 2^31-1",
                                (long long)*token_bytes);
    return true;
}
