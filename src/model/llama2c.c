/* The checkpoint of llama2.c, version 0 (https://github.com/karpathy/llama2.c, export.py and
 * run.c): seven int32, then float32 matrices, each kind for all layers in a row.
 *
 *   dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len
 *   embedding, attention norms, wq, wk, wv, wo, ffn norms, w1, w2, w3, last norm,
 *   two rotary tables [seq_len][head_size / 2] that nobody reads, head if vocab_size is negative
 *
 * Tensors get the names of Hugging Face's Llama, one per layer: model.embed_tokens.weight,
 * model.layers.<k>.{input_layernorm, self_attn.{q,k,v,o}_proj, post_attention_layernorm,
 * mlp.gate_proj (w1), mlp.down_proj (w2), mlp.up_proj (w3)}.weight, model.norm.weight and, where
 * the head is untied, lm_head.weight. Rows of q and k are for interleaved pairs, unlike there. */
#include "model/tensor_internal.h"

#include <stdio.h>

#define HEADER_INTS 7
#define HEADER_BYTES (HEADER_INTS * 4)
#define NEWER_MAGIC 0x616b3432 /* "ak42": versions 1 and 2 of the exporter */

enum { DIM, HIDDEN_DIM, N_LAYERS, N_HEADS, N_KV_HEADS, VOCAB_SIZE, SEQ_LEN };
static const char *const keys[HEADER_INTS] = {
    "llama2c.dim",        "llama2c.hidden_dim", "llama2c.n_layers", "llama2c.n_heads",
    "llama2c.n_kv_heads", "llama2c.vocab_size", "llama2c.seq_len",
};

typedef struct header {
    int64_t h[HEADER_INTS];
    bool tied;
    int64_t q_rows, kv_rows, table; /* table: floats of both rotary tables */
} header;

static pkv_status read_header(const pkv__tensor_file *file, int32_t part, header *hd)
{
    const pkv__file_map *map = &file->parts[part];
    int32_t raw[HEADER_INTS];
    if (map->bytes < HEADER_BYTES)
        return pkv__refuse_at(file, part, map->bytes, PKV_E_FORMAT,
                              "neither safetensors nor GGUF, and too short for a llama2.c header");
    memcpy(raw, map->data, sizeof(raw));
    if (raw[DIM] == NEWER_MAGIC)
        return pkv__refuse_at(file, part, 0, PKV_E_UNSUPPORTED,
                              "llama2.c version %d: export with --version 0", raw[1]);
    for (int k = 0; k < HEADER_INTS; k++) {
        hd->h[k] = raw[k];
        if (k == VOCAB_SIZE && raw[k] < 0) hd->h[k] = -(int64_t)raw[k];
        if (hd->h[k] < 1)
            return pkv__refuse_at(file, part, 4 * (uint64_t)k, PKV_E_FORMAT,
                                  "%s is %d; or no weight file at all", keys[k], raw[k]);
    }
    hd->tied = raw[VOCAB_SIZE] > 0;
    return PKV_OK;
}

static pkv_status check_heads(const pkv__tensor_file *file, int32_t part, header *hd)
{
    const int64_t *h = hd->h;
    if (h[DIM] % h[N_HEADS] != 0 || h[DIM] / h[N_HEADS] % 2 != 0)
        return pkv__refuse_at(
            file, part, 4 * N_HEADS, PKV_E_FORMAT,
            "%lld heads do not cut dim %lld into even pieces; or no weight file at all",
            (long long)h[N_HEADS], (long long)h[DIM]);
    if (h[N_HEADS] % h[N_KV_HEADS] != 0)
        return pkv__refuse_at(file, part, 4 * N_KV_HEADS, PKV_E_FORMAT,
                              "%lld heads are no multiple of %lld kv heads", (long long)h[N_HEADS],
                              (long long)h[N_KV_HEADS]);
    const int64_t head_size = h[DIM] / h[N_HEADS];
    hd->q_rows = h[DIM];
    hd->kv_rows = h[N_KV_HEADS] * head_size;
    hd->table = h[SEQ_LEN] * head_size; /* below 2^62 */
    return PKV_OK;
}

/* One kind of matrix, `count` of them in a row. */
typedef struct kind {
    const char *name; /* NULL: nobody reads it */
    int64_t count, rows, cols;
    int n_dims;
} kind;
#define N_KINDS 13

static void list_kinds(const header *hd, kind *kinds)
{
    const int64_t d = hd->h[DIM], f = hd->h[HIDDEN_DIM], n = hd->h[N_LAYERS], v = hd->h[VOCAB_SIZE];
    const kind list[N_KINDS] = {
        { "model.embed_tokens.weight", 1, v, d, 2 },
        { "input_layernorm.weight", n, d, 1, 1 },
        { "self_attn.q_proj.weight", n, hd->q_rows, d, 2 },
        { "self_attn.k_proj.weight", n, hd->kv_rows, d, 2 },
        { "self_attn.v_proj.weight", n, hd->kv_rows, d, 2 },
        { "self_attn.o_proj.weight", n, d, hd->q_rows, 2 },
        { "post_attention_layernorm.weight", n, d, 1, 1 },
        { "mlp.gate_proj.weight", n, f, d, 2 },
        { "mlp.down_proj.weight", n, d, f, 2 },
        { "mlp.up_proj.weight", n, f, d, 2 },
        { "model.norm.weight", 1, d, 1, 1 },
        { NULL, 1, hd->table, 1, 1 },
        { "lm_head.weight", hd->tied ? 0 : 1, v, d, 2 },
    };
    memcpy(kinds, list, sizeof(list));
}

/* Exactly the bytes that the header implies: the one check that this format allows. */
static pkv_status check_size(const pkv__tensor_file *file, int32_t part, const kind *kinds)
{
    const size_t have = file->parts[part].bytes;
    uint64_t want = HEADER_BYTES;
    bool fits = true;
    for (int k = 0; k < N_KINDS && fits; k++) {
        uint64_t n;
        fits = !__builtin_mul_overflow((uint64_t)kinds[k].rows, (uint64_t)kinds[k].cols, &n) &&
               !__builtin_mul_overflow(n, (uint64_t)kinds[k].count, &n) &&
               !__builtin_mul_overflow(n, (uint64_t)4, &n) &&
               !__builtin_add_overflow(want, n, &want);
    }
    if (!fits)
        return pkv__refuse_at(file, part, 0, PKV_E_FORMAT,
                              "a llama2.c header whose sizes overflow; or no weight file at all");
    if (want != have)
        return pkv__refuse_at(file, part, want < have ? want : have, PKV_E_FORMAT,
                              "%zu bytes, where a llama2.c header implies %llu", have,
                              (unsigned long long)want);
    return PKV_OK;
}

static pkv_status add_kind(pkv__tensor_file *file, int32_t part, const kind *kd, size_t *at)
{
    const size_t bytes = (size_t)(kd->rows * kd->cols) * 4;
    for (int64_t k = 0; k < kd->count; k++, *at += bytes) {
        char name[96];
        if (!kd->name) continue;
        if (strncmp(kd->name, "model.", 6) == 0 || strncmp(kd->name, "lm_", 3) == 0)
            snprintf(name, sizeof(name), "%s", kd->name);
        else snprintf(name, sizeof(name), "model.layers.%lld.%s", (long long)k, kd->name);
        const pkv__tensor_entry entry = {
            .tensor = { .type = PKV__T_F32,
                        .type_name = "F32",
                        .n_dims = kd->n_dims,
                        .dims = { kd->rows, kd->cols, 1, 1 },
                        .data = file->parts[part].data + *at,
                        .bytes = bytes },
            .part = part,
            .at = *at,
        };
        const pkv_status status = pkv__add_tensor(file, &entry, name, strlen(name));
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

static pkv_status add_header(pkv__tensor_file *file, int32_t part, const header *hd)
{
    pkv__meta_entry entry = { .part = part };
    pkv_status status = PKV_OK;
    for (int k = 0; k < HEADER_INTS && status == PKV_OK; k++) {
        entry.meta.type = PKV__META_INT;
        entry.meta.i = hd->h[k];
        entry.at = 4 * (uint64_t)k;
        status = pkv__add_meta(file, &entry, keys[k], strlen(keys[k]));
    }
    if (status != PKV_OK) return status;
    static const char tied[] = "llama2c.tied";
    entry.meta.type = PKV__META_BOOL;
    entry.meta.i = hd->tied;
    entry.at = 4 * VOCAB_SIZE;
    return pkv__add_meta(file, &entry, tied, sizeof(tied) - 1);
}

pkv_status pkv__read_llama2c(pkv__tensor_file *file, int32_t part)
{
    header hd = { { 0 }, false, 0, 0, 0 };
    kind kinds[N_KINDS];
    size_t at = HEADER_BYTES;
    file->format = "llama2.c";
    pkv_status status = read_header(file, part, &hd);
    if (status == PKV_OK) status = check_heads(file, part, &hd);
    if (status != PKV_OK) return status;
    list_kinds(&hd, kinds);
    status = check_size(file, part, kinds);
    for (int k = 0; k < N_KINDS && status == PKV_OK; k++)
        status = add_kind(file, part, &kinds[k], &at);
    return status == PKV_OK ? add_header(file, part, &hd) : status;
}
