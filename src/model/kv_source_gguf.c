/* GGUF keys of any architecture: its name stands in front of each. */
#include "model/kv_source.h"
#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <stdio.h>

typedef struct source {
    const pkv__tensor_file *file;
    const pkv_logger *log;
    const char *arch;
} source;

static void write_key(const source *s, const char *key, char out[128])
{
    snprintf(out, 128, "%.63s.%.60s", s->arch, key);
}

/* 0 where the key is missing. */
static pkv_status read_int(const source *s, const char *key, int32_t max, int32_t *out)
{
    char full[128], shown[PKV__SHOWN];
    pkv__meta_array list;
    write_key(s, key, full);
    const pkv__meta *m = pkv__tensor_file_meta(s->file, full);
    if (pkv__tensor_file_array(s->file, full, &list))
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "%s: a number for each layer",
                           pkv__shown(full, strlen(full), shown));
    if (!m) return PKV_OK;
    if (m->type != PKV__META_INT)
        return pkv__refuse(s->log, PKV_E_FORMAT, "%s is no whole number",
                           pkv__shown(full, strlen(full), shown));
    if (m->i == 0) return PKV_OK; /* what converters write for "none" */
    return pkv__config_int(s->log, pkv__shown(full, strlen(full), shown), m->i, max, out);
}

static pkv_status read_counts(const source *s, pkv_kv_source *out)
{
    int32_t key_dim = 0, value_dim = 0, key_dim_mla = 0, value_dim_mla = 0;
    pkv_kv_geometry *g = &out->geometry;
    const struct {
        const char *key;
        int32_t max, *to;
    } fields[] = {
        { "block_count", PKV__MAX_LAYERS, &g->n_layers },
        { "embedding_length", PKV__MAX_HIDDEN, &out->hidden },
        { "context_length", PKV__MAX_CONTEXT, &out->context },
        { "vocab_size", PKV__MAX_VOCAB, &out->vocab },
        { "expert_count", PKV__MAX_HEADS, &out->n_experts },
        { "attention.head_count", PKV__MAX_HEADS, &out->n_heads },
        { "attention.head_count_kv", PKV__MAX_HEADS, &g->n_kv_heads },
        { "attention.key_length", PKV__MAX_HIDDEN, &key_dim },
        { "attention.value_length", PKV__MAX_HIDDEN, &value_dim },
        { "attention.key_length_mla", PKV__MAX_HIDDEN, &key_dim_mla },
        { "attention.value_length_mla", PKV__MAX_HIDDEN, &value_dim_mla },
        { "attention.kv_lora_rank", PKV__MAX_HIDDEN, &g->latent_dim },
        { "attention.sliding_window", PKV__MAX_CONTEXT, &g->window_tokens },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(fields); k++) {
        const pkv_status status = read_int(s, fields[k].key, fields[k].max, fields[k].to);
        if (status != PKV_OK) return status;
    }
    if (g->latent_dim > 0) {
        if (key_dim_mla > 0) key_dim = key_dim_mla, value_dim = value_dim_mla;
        if (key_dim > 0 && value_dim > 0) out->mla_head_dim = (key_dim + value_dim) / 2;
        return read_int(s, "rope.dimension_count", PKV__MAX_HIDDEN, &g->rope_dim);
    }
    if (key_dim > 0 && value_dim > 0 && key_dim != value_dim)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "keys of %d and values of %d", key_dim,
                           value_dim);
    g->head_dim = key_dim;
    return PKV_OK;
}

/* How many layers the window is for: a period, or a truth value for each layer. */
static pkv_status read_window(const source *s, pkv_kv_source *out)
{
    char key[128];
    int32_t period = 0;
    pkv__meta_array list;
    pkv_kv_geometry *g = &out->geometry;
    if (g->window_tokens == 0) return PKV_OK;
    write_key(s, "attention.sliding_window_pattern", key);
    if (pkv__tensor_file_array(s->file, key, &list)) {
        for (uint64_t k = 0; k < list.n && list.bytes == list.n; k++)
            g->n_window_layers += list.data[k] != 0;
        if (list.bytes != list.n || g->n_window_layers > g->n_layers)
            return pkv__refuse(s->log, PKV_E_FORMAT,
                               "sliding_window_pattern is no truth value for each layer");
    } else {
        const pkv_status status =
            read_int(s, "attention.sliding_window_pattern", PKV__MAX_LAYERS, &period);
        if (status != PKV_OK) return status;
        if (period > 0) g->n_window_layers = g->n_layers - g->n_layers / period;
    }
    if (g->n_window_layers > 0) return PKV_OK;
    pkv__log(s->log, PKV_LOG_WARN,
             "a sliding_window of %d tokens, and no key says for which layers: none is taken to "
             "have it",
             g->window_tokens);
    g->window_tokens = 0;
    return PKV_OK;
}

static void read_text(const source *s, const char *key, char *out, size_t cap)
{
    char shown[PKV__SHOWN];
    const pkv__meta *m = pkv__tensor_file_meta(s->file, key);
    if (m && m->type == PKV__META_TEXT)
        snprintf(out, cap, "%s", pkv__shown(m->text, m->text_bytes, shown));
}

pkv_status pkv__kv_source_gguf(const pkv__tensor_file *file, const pkv_logger *log,
                               pkv_kv_source *out)
{
    static const pkv__kv_names names = { "GGUF keys", "block_count", "attention.head_count_kv",
                                         "attention.key_length or embedding_length",
                                         "rope.dimension_count" };
    pkv__meta_array tokens;
    const pkv__meta *arch = pkv__tensor_file_meta(file, "general.architecture");
    if (!arch || arch->type != PKV__META_TEXT)
        return pkv__refuse(log, PKV_E_FORMAT, "general.architecture is missing or no text");
    const source s = { file, log, arch->text };
    snprintf(out->format, sizeof(out->format), "gguf");
    read_text(&s, "general.architecture", out->architecture, sizeof(out->architecture));
    read_text(&s, "general.license", out->license, sizeof(out->license));
    pkv_status status = read_counts(&s, out);
    if (status == PKV_OK) status = read_window(&s, out);
    if (status != PKV_OK) return status;
    if (out->vocab == 0 && pkv__tensor_file_array(file, "tokenizer.ggml.tokens", &tokens) &&
        tokens.n <= PKV__MAX_VOCAB)
        out->vocab = (int32_t)tokens.n;
    return pkv__kv_source_settle(out, &names, log);
}

pkv_status pkv__kv_source_llama2c(const pkv__tensor_file *file, const pkv_logger *log,
                                  pkv_kv_source *out)
{
    pkv__model_config c;
    const pkv_status status = pkv__config_from_llama2c(file, log, &c);
    if (status != PKV_OK) return status;
    snprintf(out->format, sizeof(out->format), "llama2.c");
    snprintf(out->architecture, sizeof(out->architecture), "llama");
    out->n_heads = c.n_heads;
    out->vocab = c.vocab;
    out->hidden = c.hidden;
    out->context = c.context;
    out->geometry.n_layers = c.n_layers;
    out->geometry.n_kv_heads = c.n_kv_heads;
    out->geometry.head_dim = c.head_dim;
    return PKV_OK;
}
