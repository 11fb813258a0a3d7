/* config.json and generation_config.json of Hugging Face, for the families that are implemented.
 * Keys that change the arithmetic and are not implemented end the reading with their name; those
 * of training and of other programs are not looked at. */
#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>

/* NULL for what is missing and for null, which mean the same in these files. */
const json_t *pkv__config_get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

pkv_status pkv__config_object(const char *name, const char *text, size_t bytes,
                              const pkv_logger *log, json_t **out)
{
    json_error_t error;
    char shown[PKV__SHOWN];
    json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object && json_error_code(&error) == json_error_out_of_memory) return PKV_E_NO_MEMORY;
    if (!object)
        return pkv__refuse(log, PKV_E_FORMAT, "%s: byte %d: not JSON: %s", name, error.position,
                           pkv__shown(error.text, strlen(error.text), shown));
    if (!json_is_object(object)) {
        json_decref(object);
        return pkv__refuse(log, PKV_E_FORMAT, "%s: byte 0: no JSON object", name);
    }
    *out = object;
    return PKV_OK;
}

/* ---------------------------------------------------------------- architecture */

static const struct {
    const char *name, *model_type, *ours;
} architectures[] = {
    { "LlamaForCausalLM", "llama", "llama" },
    { "MistralForCausalLM", "mistral", "llama" }, /* without a window the same arithmetic */
};

static pkv_status read_architecture(const json_t *config, const pkv_logger *log,
                                    pkv__model_config *c)
{
    const json_t *list = pkv__config_get(config, "architectures"),
                 *type = pkv__config_get(config, "model_type");
    const char *name = json_string_value(json_array_get(list, 0));
    const char *model_type = json_string_value(type);
    char shown[PKV__SHOWN], shown_type[PKV__SHOWN];
    if ((list && json_array_size(list) != 1) || (list && !name) || (type && !model_type) ||
        (!name && !model_type))
        return pkv__refuse(log, PKV_E_FORMAT,
                           "config.json: architectures is no list of one name, or no model_type");
    for (size_t k = 0; k < PKV_ARRAY_LEN(architectures); k++) {
        if (name && strcmp(name, architectures[k].name) != 0) continue;
        if (model_type && strcmp(model_type, architectures[k].model_type) != 0) continue;
        memcpy(c->architecture, architectures[k].ours, strlen(architectures[k].ours) + 1);
        return PKV_OK;
    }
    const char *unknown = name ? name : model_type;
    return pkv__refuse(
        log, PKV_E_UNSUPPORTED,
        "config.json: architecture %s with model_type %s is not implemented",
        pkv__shown(unknown, strlen(unknown), shown),
        pkv__shown(model_type ? model_type : "-", model_type ? strlen(model_type) : 1, shown_type));
}

/* ---------------------------------------------------------------- what is not implemented */

#define NO_NUMBER HUGE_VAL /* every number changes something */

/* Keys with the number that changes nothing; null, false and an empty list never do. */
static const struct {
    const char *key;
    double neutral;
} unsupported[] = {
    { "attention_bias", NO_NUMBER },
    { "mlp_bias", NO_NUMBER },
    { "use_bias", NO_NUMBER },
    { "attention_chunk_size", 0 },
    { "num_local_experts", 0 },
    { "num_experts", 0 },
    { "n_routed_experts", 0 },
    { "quantization_config", NO_NUMBER },
    { "compression_config", NO_NUMBER },
    { "final_logit_softcapping", 0 },
    { "attn_logit_softcapping", 0 },
    { "query_pre_attn_scalar", NO_NUMBER },
    { "clip_qkv", 0 },
    { "use_qk_norm", NO_NUMBER },
    { "qk_layernorm", NO_NUMBER },
    { "embedding_multiplier", 1 },
    { "residual_multiplier", 1 },
    { "attention_multiplier", NO_NUMBER },
    { "logits_scaling", 1 },
    { "logit_scale", 1 },
    { "no_rope_layers", NO_NUMBER },
    { "cross_attention_layers", NO_NUMBER },
    { "is_encoder_decoder", NO_NUMBER },
    { "add_cross_attention", NO_NUMBER },
    { "alibi", NO_NUMBER },
};

static bool changes_something(const json_t *value, double neutral)
{
    if (!value || json_is_false(value)) return false;
    if (json_is_number(value)) return json_number_value(value) != neutral;
    if (json_is_array(value)) return json_array_size(value) > 0;
    return true;
}

static bool all_layers_full(const json_t *types)
{
    if (!json_is_array(types)) return false;
    for (size_t k = 0; k < json_array_size(types); k++) {
        const char *type = json_string_value(json_array_get(types, k));
        if (!type || strcmp(type, "full_attention") != 0) return false;
    }
    return true;
}

static pkv_status refuse_unsupported(const json_t *config, const pkv_logger *log)
{
    const char *bad = NULL;
    for (size_t k = 0; k < PKV_ARRAY_LEN(unsupported) && !bad; k++)
        if (changes_something(pkv__config_get(config, unsupported[k].key), unsupported[k].neutral))
            bad = unsupported[k].key;
    const json_t *types = pkv__config_get(config, "layer_types");
    if (types && !all_layers_full(types)) bad = "layer_types";
    if (pkv__config_get(config, "sliding_window") &&
        !json_is_false(pkv__config_get(config, "use_sliding_window")))
        bad = "sliding_window";
    const json_t *act = pkv__config_get(config, "hidden_act");
    const char *name = json_string_value(act);
    if (act && (!name || (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)))
        bad = "hidden_act";
    if (!bad) return PKV_OK;
    return pkv__refuse(log, PKV_E_UNSUPPORTED, "config.json: %s as set here is not implemented",
                       bad);
}

/* ---------------------------------------------------------------- numbers */

static const struct {
    const char *key;
    int32_t max;
    size_t field;
    bool may_miss;
} counts[] = {
#define COUNT(key, max, field, may_miss)                                                           \
    {                                                                                              \
        key, max, offsetof(pkv__model_config, field), may_miss                                     \
    }
    COUNT("vocab_size", PKV__MAX_VOCAB, vocab, false),
    COUNT("hidden_size", PKV__MAX_HIDDEN, hidden, false),
    COUNT("num_hidden_layers", PKV__MAX_LAYERS, n_layers, false),
    COUNT("num_attention_heads", PKV__MAX_HEADS, n_heads, false),
    COUNT("num_key_value_heads", PKV__MAX_HEADS, n_kv_heads, true),
    COUNT("head_dim", PKV__MAX_HEAD_DIM, head_dim, true),
    COUNT("intermediate_size", PKV__MAX_FFN, ffn, false),
    COUNT("max_position_embeddings", PKV__MAX_CONTEXT, context, false),
#undef COUNT
};

static pkv_status read_counts(const json_t *config, const pkv_logger *log, pkv__model_config *c)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(counts); k++) {
        const json_t *value = pkv__config_get(config, counts[k].key);
        int32_t n;
        if (!value && counts[k].may_miss) continue;
        if (!json_is_integer(value))
            return pkv__refuse(log, PKV_E_FORMAT, "config.json: %s is %s", counts[k].key,
                               value ? "no whole number" : "missing");
        const pkv_status status =
            pkv__config_int(log, counts[k].key, json_integer_value(value), counts[k].max, &n);
        if (status != PKV_OK) return status;
        memcpy((char *)c + counts[k].field, &n, sizeof(n));
    }
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    if (c->head_dim == 0 && c->hidden % c->n_heads != 0)
        return pkv__refuse(
            log, PKV_E_FORMAT,
            "config.json: no head_dim, and hidden_size %d is no multiple of %d heads", c->hidden,
            c->n_heads);
    if (c->head_dim > 0) return PKV_OK;
    return pkv__config_int(log, "head_dim", c->hidden / c->n_heads, PKV__MAX_HEAD_DIM,
                           &c->head_dim);
}

static pkv_status read_others(const json_t *config, const pkv_logger *log, pkv__model_config *c)
{
    const json_t *eps = pkv__config_get(config, "rms_norm_eps"),
                 *tied = pkv__config_get(config, "tie_word_embeddings");
    const json_t *dtype = pkv__config_get(config, "dtype"),
                 *older = pkv__config_get(config, "torch_dtype");
    if (eps && !json_is_number(eps))
        return pkv__refuse(log, PKV_E_FORMAT, "config.json: rms_norm_eps is no number");
    if (eps) c->norm_eps = json_number_value(eps);
    if (tied && !json_is_boolean(tied))
        return pkv__refuse(log, PKV_E_FORMAT, "config.json: tie_word_embeddings is no truth value");
    c->tied_head = json_is_true(tied);
    if (dtype && older && !json_equal(dtype, older))
        return pkv__refuse(log, PKV_E_FORMAT, "config.json: dtype and torch_dtype disagree");
    return PKV_OK;
}

/* ---------------------------------------------------------------- ids */

/* One id or a list of them. */
static pkv_status read_eos(const json_t *object, const char *file, const pkv_logger *log,
                           pkv__model_config *c)
{
    const json_t *value = pkv__config_get(object, "eos_token_id");
    const size_t n = json_is_array(value) ? json_array_size(value) : value != NULL;
    for (size_t k = 0; k < n; k++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, k) : value;
        if (!json_is_integer(id))
            return pkv__refuse(log, PKV_E_FORMAT, "%s: eos_token_id is no id and no list of ids",
                               file);
        const pkv_status status = pkv__config_add_eos(c, json_integer_value(id), log);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

/* The first file that has one wins. */
static pkv_status read_bos(const json_t *object, const char *file, const pkv_logger *log,
                           pkv__model_config *c)
{
    const json_t *value = pkv__config_get(object, "bos_token_id");
    if (!value || c->bos >= 0) return PKV_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= c->vocab)
        return pkv__refuse(log, PKV_E_FORMAT, "%s: bos_token_id is no id of the vocabulary", file);
    c->bos = (int32_t)json_integer_value(value);
    return PKV_OK;
}

static pkv_status read_ids(const json_t *object, const char *file, const pkv_logger *log,
                           pkv__model_config *c)
{
    const pkv_status status = read_eos(object, file, log, c);
    return status == PKV_OK ? read_bos(object, file, log, c) : status;
}

/* ---------------------------------------------------------------- both files */

static pkv_status read_config(const json_t *config, const pkv_logger *log, pkv__model_config *c)
{
    pkv_status status = read_architecture(config, log, c);
    if (status == PKV_OK) status = refuse_unsupported(config, log);
    if (status == PKV_OK) status = read_counts(config, log, c);
    if (status == PKV_OK) status = read_others(config, log, c);
    if (status == PKV_OK) status = pkv__config_parse_rope(config, log, c);
    if (status == PKV_OK) status = read_ids(config, "config.json", log, c);
    return status;
}

pkv_status pkv__config_parse_json(const char *config, size_t config_bytes, const char *generation,
                                  size_t generation_bytes, const pkv_logger *log,
                                  pkv__model_config *out)
{
    pkv__model_config c;
    json_t *object = NULL;
    pkv__config_init(&c);
    pkv_status status = pkv__config_object("config.json", config, config_bytes, log, &object);
    if (status != PKV_OK) return status;
    status = read_config(object, log, &c);
    json_decref(object);
    if (status == PKV_OK && generation) {
        status = pkv__config_object("generation_config.json", generation, generation_bytes, log,
                                    &object);
        if (status != PKV_OK) return status;
        status = read_ids(object, "generation_config.json", log, &c);
        json_decref(object);
    }
    if (status == PKV_OK) status = pkv__config_check(&c, log);
    if (status == PKV_OK) *out = c;
    return status;
}
