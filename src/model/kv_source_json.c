/* config.json of any architecture, as far as K and V are concerned. Keys by their usual names;
 * models with a picture or sound part keep those of the text in an object of their own. */
#include "model/kv_source.h"
#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <jansson.h>
#include <stdio.h>

typedef struct source {
    const json_t *root, *text; /* text: root, or the object with the dimensions */
    const pkv_logger *log;
} source;

/* The first of the names that is there; 0 where none is. */
#define NAMES 4
static pkv_status read_int(const source *s, const char *const names[NAMES], int32_t max,
                           int32_t *out)
{
    for (int k = 0; k < NAMES && names[k]; k++) {
        const json_t *value = pkv__config_get(s->text, names[k]);
        if (!value) continue;
        if (json_is_array(value))
            return pkv__refuse(s->log, PKV_E_UNSUPPORTED,
                               "config.json: %s: a number for each layer", names[k]);
        if (!json_is_integer(value))
            return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s is no whole number",
                               names[k]);
        return pkv__config_int(s->log, names[k], json_integer_value(value), max, out);
    }
    return PKV_OK;
}

/* ---------------------------------------------------------------- dimensions */

typedef struct others {
    int32_t ffn, nope_dim, value_dim;
} others;

static pkv_status read_counts(const source *s, pkv_kv_source *out, others *o)
{
    pkv_kv_geometry *g = &out->geometry;
    const struct {
        const char *names[NAMES];
        int32_t max, *to;
    } fields[] = {
        { { "num_hidden_layers", "n_layer", "n_layers", "num_layers" },
          PKV__MAX_LAYERS,
          &g->n_layers },
        { { "hidden_size", "n_embd", "d_model" }, PKV__MAX_HIDDEN, &out->hidden },
        { { "num_attention_heads", "n_head", "n_heads" }, PKV__MAX_HEADS, &out->n_heads },
        { { "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num" },
          PKV__MAX_HEADS,
          &g->n_kv_heads },
        { { "head_dim", "kv_channels" }, PKV__MAX_HIDDEN, &g->head_dim },
        { { "kv_lora_rank" }, PKV__MAX_HIDDEN, &g->latent_dim },
        { { "qk_rope_head_dim" }, PKV__MAX_HIDDEN, &g->rope_dim },
        { { "qk_nope_head_dim" }, PKV__MAX_HIDDEN, &o->nope_dim },
        { { "v_head_dim" }, PKV__MAX_HIDDEN, &o->value_dim },
        { { "vocab_size" }, PKV__MAX_VOCAB, &out->vocab },
        { { "intermediate_size" }, PKV__MAX_FFN, &o->ffn },
        { { "max_position_embeddings", "n_positions", "n_ctx", "seq_length" },
          PKV__MAX_CONTEXT,
          &out->context },
        { { "num_local_experts", "num_experts", "n_routed_experts" },
          PKV__MAX_HEADS,
          &out->n_experts },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(fields); k++) {
        const pkv_status status = read_int(s, fields[k].names, fields[k].max, fields[k].to);
        if (status != PKV_OK) return status;
    }
    if (g->n_kv_heads == 0 && json_is_true(pkv__config_get(s->text, "multi_query")))
        g->n_kv_heads = 1;
    if (g->latent_dim == 0) g->rope_dim = 0;
    else if (o->nope_dim > 0 && o->value_dim > 0)
        out->mla_head_dim = (o->nope_dim + g->rope_dim + o->value_dim) / 2;
    return PKV_OK;
}

/* ---------------------------------------------------------------- kinds of layers */

static const char *const without_kv[] = { "linear_attention", "mamba", "mamba2", "conv",
                                          "recurrent" };

static const char *const known[] = { "full_attention", "sliding_attention", "chunked_attention" };

static bool is_one_of(const char *type, const char *const *list, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (strcmp(type, list[k]) == 0) return true;
    return false;
}

static pkv_status read_layer_types(const source *s, const json_t *types, pkv_kv_source *out)
{
    pkv_kv_geometry *g = &out->geometry;
    int32_t n_full = 0, n_window = 0, n_chunked = 0;
    const char *unknown = NULL;
    char shown[PKV__SHOWN];
    if (!json_is_array(types) || json_array_size(types) != (size_t)g->n_layers)
        return pkv__refuse(s->log, PKV_E_FORMAT,
                           "config.json: layer_types is no list of one kind for each layer");
    for (size_t k = 0; k < json_array_size(types); k++) {
        const char *type = json_string_value(json_array_get(types, k));
        if (!type)
            return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: layer_types holds no text");
        if (strcmp(type, "sliding_attention") == 0) n_window++;
        else if (strcmp(type, "chunked_attention") == 0) n_chunked++;
        else if (is_one_of(type, without_kv, PKV_ARRAY_LEN(without_kv))) continue;
        else n_full++;
        if (!unknown && !is_one_of(type, known, PKV_ARRAY_LEN(known))) unknown = type;
    }
    if (unknown)
        pkv__log(s->log, PKV_LOG_WARN, "layer_types: %s is taken for full attention",
                 pkv__shown(unknown, strlen(unknown), shown));
    if (n_window > 0 && n_chunked > 0)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED,
                           "config.json: layer_types with windows and with chunks");
    g->n_layers = n_full + n_window + n_chunked;
    g->n_window_layers = n_window + n_chunked;
    return n_chunked > 0 ? read_int(s, (const char *const[NAMES]){ "attention_chunk_size" },
                                    PKV__MAX_CONTEXT, &g->window_tokens)
                         : PKV_OK;
}

static bool model_type_is(const source *s, const char *name)
{
    const char *type = json_string_value(pkv__config_get(s->text, "model_type"));
    return type && strncmp(type, name, strlen(name)) == 0;
}

/* Configurations that do not list the layers. */
static pkv_status window_layers(const source *s, pkv_kv_source *out)
{
    pkv_kv_geometry *g = &out->geometry;
    int32_t period = 0, first = 0;
    pkv_status status = read_int(s, (const char *const[NAMES]){ "sliding_window_pattern" },
                                 PKV__MAX_LAYERS, &period);
    if (status == PKV_OK && pkv__config_get(s->text, "use_sliding_window"))
        status =
            read_int(s, (const char *const[NAMES]){ "max_window_layers" }, PKV__MAX_LAYERS, &first);
    if (status != PKV_OK) return status;
    g->n_window_layers = g->n_layers;
    if (period > 0) g->n_window_layers -= g->n_layers / period; /* every period-th is full */
    else if (model_type_is(s, "gemma2")) g->n_window_layers -= g->n_layers / 2;
    else if (first > 0) g->n_window_layers = first < g->n_layers ? g->n_layers - first : 0;
    return PKV_OK;
}

static pkv_status read_windows(const source *s, pkv_kv_source *out)
{
    static const char *const names[NAMES] = { "sliding_window" };
    pkv_kv_geometry *g = &out->geometry;
    const json_t *types = pkv__config_get(s->text, "layer_types");
    const json_t *use = pkv__config_get(s->text, "use_sliding_window");
    pkv_status status = PKV_OK;
    if (!json_is_false(use)) status = read_int(s, names, PKV__MAX_CONTEXT, &g->window_tokens);
    if (status != PKV_OK) return status;
    if (types) status = read_layer_types(s, types, out);
    else if (g->window_tokens > 0) status = window_layers(s, out);
    if (status != PKV_OK) return status;
    if (g->n_window_layers > 0 && g->window_tokens == 0)
        return pkv__refuse(s->log, PKV_E_FORMAT,
                           "config.json: missing: sliding_window or attention_chunk_size");
    if (g->n_window_layers == 0) g->window_tokens = 0;
    return PKV_OK;
}

static void warn_of_others(const source *s)
{
    static const char *const keys[] = { "attn_layer_period",       "layers_block_type",
                                        "hybrid_override_pattern", "num_kv_shared_layers",
                                        "cross_attention_layers",  "is_encoder_decoder" };
    for (size_t k = 0; k < PKV_ARRAY_LEN(keys); k++) {
        const json_t *value = pkv__config_get(s->text, keys[k]);
        if (!value || json_is_false(value)) continue;
        if (json_is_integer(value) && json_integer_value(value) == 0) continue;
        pkv__log(s->log, PKV_LOG_WARN, "%s is not taken into account: all layers count", keys[k]);
    }
}

/* ---------------------------------------------------------------- weights */

/* Matrices and norms of a Llama-type model: gated, without biases. */
static void count_parameters(const source *s, const others *o, pkv_kv_source *out)
{
    const pkv_kv_geometry *g = &out->geometry;
    const json_t *tied = pkv__config_get(s->text, "tie_word_embeddings");
    const char *act = json_string_value(pkv__config_get(s->text, "hidden_act"));
    if (!tied) tied = pkv__config_get(s->root, "tie_word_embeddings");
    if (!act) act = json_string_value(pkv__config_get(s->text, "hidden_activation"));
    const bool gated = act && (strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0 ||
                               strcmp(act, "gelu_pytorch_tanh") == 0);
    if (!gated || g->latent_dim > 0 || out->n_experts > 0 || out->hidden == 0 || o->ffn == 0 ||
        out->vocab == 0 || out->n_heads == 0)
        return;
    const int64_t h = out->hidden, q = (int64_t)out->n_heads * g->head_dim;
    const int64_t kv = (int64_t)g->n_kv_heads * g->head_dim;
    const bool one = tied ? json_is_true(tied) : model_type_is(s, "gemma");
    out->n_parameters = g->n_layers * (2 * (q + kv + 1) * h + 3 * (int64_t)o->ffn * h) + h +
                        (one ? 1 : 2) * (int64_t)out->vocab * h;
    out->counted = true;
}

static void read_texts(const source *s, pkv_kv_source *out)
{
    char shown[PKV__SHOWN];
    const char *name =
        json_string_value(json_array_get(pkv__config_get(s->root, "architectures"), 0));
    const char *license = json_string_value(pkv__config_get(s->root, "license")), *dtype = NULL;
    if (!name) name = json_string_value(pkv__config_get(s->root, "model_type"));
    if (name)
        snprintf(out->architecture, sizeof(out->architecture), "%s",
                 pkv__shown(name, strlen(name), shown));
    if (license)
        snprintf(out->license, sizeof(out->license), "%s",
                 pkv__shown(license, strlen(license), shown));
    const json_t *const objects[] = { s->text, s->root };
    for (size_t k = 0; k < PKV_ARRAY_LEN(objects) && !dtype; k++) {
        dtype = json_string_value(pkv__config_get(objects[k], "dtype"));
        if (!dtype) dtype = json_string_value(pkv__config_get(objects[k], "torch_dtype"));
    }
    if (dtype) pkv__kv_source_type(out, pkv__shown(dtype, strlen(dtype), shown));
}

/* ---------------------------------------------------------------- the file */

static const json_t *text_part(const json_t *root)
{
    static const char *const parts[] = { "text_config", "llm_config", "language_config" };
    for (size_t k = 0; k < PKV_ARRAY_LEN(parts) && !pkv__config_get(root, "num_hidden_layers"); k++)
        if (json_is_object(pkv__config_get(root, parts[k]))) return pkv__config_get(root, parts[k]);
    return root;
}

static pkv_status read_root(const source *s, pkv_kv_source *out)
{
    static const pkv__kv_names names = { "config.json", "num_hidden_layers",
                                         "num_key_value_heads or num_attention_heads",
                                         "head_dim or hidden_size", "qk_rope_head_dim" };
    others o = { 0 };
    pkv_status status = read_counts(s, out, &o);
    if (status == PKV_OK) status = pkv__kv_source_settle(out, &names, s->log);
    if (status == PKV_OK) {
        count_parameters(s, &o, out);
        status = read_windows(s, out);
    }
    if (status != PKV_OK) return status;
    if (out->geometry.n_layers == 0)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "config.json: no layer has K and V");
    read_texts(s, out);
    warn_of_others(s);
    return PKV_OK;
}

pkv_status pkv__kv_source_json(const char *text, size_t bytes, const pkv_logger *log,
                               pkv_kv_source *out)
{
    json_t *root = NULL;
    pkv_status status = pkv__config_object("config.json", text, bytes, log, &root);
    if (status != PKV_OK) return status;
    snprintf(out->format, sizeof(out->format), "config.json");
    const source s = { root, text_part(root), log };
    status = read_root(&s, out);
    json_decref(root);
    return status;
}
