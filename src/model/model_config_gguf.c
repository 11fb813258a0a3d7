/* Configuration from the keys of a GGUF file, architecture "llama" (Llama, Mistral without a
 * window). Llama 3's scaling of frequencies comes as a tensor, one divisor for each pair: that is
 * what longrope's lists are, so it is kept as those, with a magnitude of 1. */
#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#define ARCH "llama"

typedef struct source {
    const pkv__tensor_file *file;
    const pkv_logger *log;
} source;

/* *found says whether the key is there; *out is written if so. */
static pkv_status get_int(const source *s, const char *key, int64_t *out, bool *found)
{
    pkv__meta_array list;
    const pkv__meta *m = pkv__tensor_file_meta(s->file, key);
    *found = m != NULL;
    if (pkv__tensor_file_array(s->file, key, &list))
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "%s: a number for each layer", key);
    if (!m) return PKV_OK;
    if (m->type != PKV__META_INT)
        return pkv__refuse(s->log, PKV_E_FORMAT, "%s is no whole number", key);
    *out = m->i;
    return PKV_OK;
}

static pkv_status get_real(const source *s, const char *key, double *out, bool *found)
{
    const pkv__meta *m = pkv__tensor_file_meta(s->file, key);
    *found = m != NULL;
    if (!m) return PKV_OK;
    if (m->type != PKV__META_REAL && m->type != PKV__META_INT)
        return pkv__refuse(s->log, PKV_E_FORMAT, "%s is no number", key);
    *out = m->type == PKV__META_REAL ? m->d : (double)m->i;
    return PKV_OK;
}

static pkv_status read_count(const source *s, const char *key, int32_t max, bool may_miss,
                             int32_t *out)
{
    int64_t v = 0;
    bool found;
    const pkv_status status = get_int(s, key, &v, &found);
    if (status != PKV_OK) return status;
    if (!found && !may_miss) return pkv__refuse(s->log, PKV_E_FORMAT, "the key %s is missing", key);
    return found ? pkv__config_int(s->log, key, v, max, out) : PKV_OK;
}

static pkv_status read_architecture(const source *s, pkv__model_config *c)
{
    char shown[PKV__SHOWN];
    const pkv__meta *m = pkv__tensor_file_meta(s->file, "general.architecture");
    if (!m || m->type != PKV__META_TEXT)
        return pkv__refuse(s->log, PKV_E_FORMAT, "general.architecture is missing or no text");
    if (strcmp(m->text, ARCH) != 0)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "architecture %s is not implemented",
                           pkv__shown(m->text, strlen(m->text), shown));
    memcpy(c->architecture, ARCH, sizeof(ARCH));
    return PKV_OK;
}

/* ---------------------------------------------------------------- what is not implemented */

/* Keys with the number that changes nothing. */
static const struct {
    const char *key;
    double neutral;
} unsupported[] = {
    { ARCH ".expert_count", 0 },
    { ARCH ".attention.sliding_window", 0 },
    { ARCH ".attention.clamp_kqv", 0 },
    { ARCH ".attention.max_alibi_bias", 0 },
    { ARCH ".attention.scale", 0 },
    { ARCH ".logit_scale", 1 },
    { ARCH ".embedding_scale", 1 },
    { ARCH ".residual_scale", 1 },
    { ARCH ".attn_logit_softcapping", 0 },
    { ARCH ".final_logit_softcapping", 0 },
    { ARCH ".rope.scaling.attn_factor", 1 },
    { ARCH ".rope.scaling.yarn_log_multiplier", 0 },
    { ARCH ".rope.scaling.yarn_ext_factor", 1 },
    { ARCH ".rope.scaling.yarn_attn_factor", 1 },
};
static const char *const bias_tensors[] = {
    "blk.0.attn_q.bias",   "blk.0.attn_k.bias",      "blk.0.attn_v.bias",
    "blk.0.ffn_gate.bias", "blk.0.attn_output.bias",
};

static pkv_status refuse_unsupported(const source *s)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(unsupported); k++) {
        double v = 0;
        bool found;
        const pkv_status status = get_real(s, unsupported[k].key, &v, &found);
        if (status != PKV_OK) return status;
        if (found && v != unsupported[k].neutral)
            return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "%s of %g is not implemented",
                               unsupported[k].key, v);
    }
    const pkv__meta *causal = pkv__tensor_file_meta(s->file, ARCH ".attention.causal");
    if (causal && causal->i == 0)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "%s: false is not implemented", causal->key);
    for (size_t k = 0; k < PKV_ARRAY_LEN(bias_tensors); k++)
        if (pkv__tensor_file_find(s->file, bias_tensors[k]))
            return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "the bias %s is not implemented",
                               bias_tensors[k]);
    return PKV_OK;
}

/* ---------------------------------------------------------------- numbers */

/* The key, or the tokens, or the rows of the embedding. */
static pkv_status read_vocab(const source *s, pkv__model_config *c)
{
    pkv__meta_array tokens;
    const pkv_status status = read_count(s, ARCH ".vocab_size", PKV__MAX_VOCAB, true, &c->vocab);
    if (status != PKV_OK || c->vocab > 0) return status;
    const pkv__tensor *embedding = pkv__tensor_file_find(s->file, "token_embd.weight");
    int64_t n = embedding ? embedding->dims[0] : 0;
    if (pkv__tensor_file_array(s->file, "tokenizer.ggml.tokens", &tokens))
        n = tokens.n <= PKV__MAX_VOCAB ? (int64_t)tokens.n : INT64_MAX;
    return pkv__config_int(s->log, "size of the vocabulary", n, PKV__MAX_VOCAB, &c->vocab);
}

static pkv_status read_counts(const source *s, pkv__model_config *c)
{
    int32_t value_length = 0;
    const struct {
        const char *key;
        int32_t max;
        bool may_miss;
        int32_t *out;
    } fields[] = {
        { ARCH ".embedding_length", PKV__MAX_HIDDEN, false, &c->hidden },
        { ARCH ".feed_forward_length", PKV__MAX_FFN, false, &c->ffn },
        { ARCH ".block_count", PKV__MAX_LAYERS, false, &c->n_layers },
        { ARCH ".attention.head_count", PKV__MAX_HEADS, false, &c->n_heads },
        { ARCH ".attention.head_count_kv", PKV__MAX_HEADS, true, &c->n_kv_heads },
        { ARCH ".attention.key_length", PKV__MAX_HEAD_DIM, true, &c->head_dim },
        { ARCH ".attention.value_length", PKV__MAX_HEAD_DIM, true, &value_length },
        { ARCH ".context_length", PKV__MAX_CONTEXT, false, &c->context },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(fields); k++) {
        const pkv_status status =
            read_count(s, fields[k].key, fields[k].max, fields[k].may_miss, fields[k].out);
        if (status != PKV_OK) return status;
    }
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    if (c->head_dim == 0 && c->hidden % c->n_heads != 0)
        return pkv__refuse(s->log, PKV_E_FORMAT, "embedding_length %d is no multiple of %d heads",
                           c->hidden, c->n_heads);
    if (c->head_dim == 0) {
        const pkv_status status = pkv__config_int(s->log, "head_dim", c->hidden / c->n_heads,
                                                  PKV__MAX_HEAD_DIM, &c->head_dim);
        if (status != PKV_OK) return status;
    }
    if (value_length > 0 && value_length != c->head_dim)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED,
                           ARCH ".attention.value_length of %d, keys of %d", value_length,
                           c->head_dim);
    return read_vocab(s, c);
}

/* ---------------------------------------------------------------- rotary positions */

static pkv_status read_scaling(const source *s, pkv__model_config *c)
{
    static const char type_key[] = ARCH ".rope.scaling.type";
    char shown[PKV__SHOWN];
    bool found, older;
    double linear = 0;
    pkv__rope_config *r = &c->rope;
    const pkv__meta *type = pkv__tensor_file_meta(s->file, type_key);
    if (type && type->type != PKV__META_TEXT)
        return pkv__refuse(s->log, PKV_E_FORMAT, "%s is no text", type_key);
    pkv_status status = get_real(s, ARCH ".rope.scaling.factor", &r->factor, &found);
    if (status == PKV_OK) status = get_real(s, ARCH ".rope.scale_linear", &linear, &older);
    if (status == PKV_OK)
        status = read_count(s, ARCH ".rope.scaling.original_context_length", PKV__MAX_CONTEXT, true,
                            &r->original_context);
    if (status == PKV_OK)
        status = get_real(s, ARCH ".rope.scaling.yarn_beta_fast", &r->beta_fast, &(bool){ false });
    if (status == PKV_OK)
        status = get_real(s, ARCH ".rope.scaling.yarn_beta_slow", &r->beta_slow, &(bool){ false });
    if (status != PKV_OK) return status;
    if (!found && older) r->factor = linear;
    if (r->factor == 0) r->factor = 1; /* what converters write for none */
    if (type && strcmp(type->text, "yarn") == 0) r->kind = PKV__ROPE_YARN;
    else if (type && strcmp(type->text, "none") == 0) r->factor = 1;
    else if (type && strcmp(type->text, "linear") != 0)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "%s %s is not implemented", type_key,
                           pkv__shown(type->text, type->text_bytes, shown));
    else if (r->factor != 1) r->kind = PKV__ROPE_LINEAR;
    return PKV_OK;
}

static pkv_status read_divisors(const source *s, pkv__model_config *c)
{
    float divisors[PKV__MAX_HEAD_DIM / 2];
    pkv__rope_config *r = &c->rope;
    const pkv__tensor *t = pkv__tensor_file_find(s->file, "rope_freqs.weight");
    if (!t) return PKV_OK;
    if (t->type != PKV__T_F32 || t->n_dims != 1 || t->dims[0] != r->rotary_dim / 2)
        return pkv__refuse(s->log, PKV_E_FORMAT, "rope_freqs.weight is no list of %d F32",
                           r->rotary_dim / 2);
    if (r->kind != PKV__ROPE_DEFAULT)
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED,
                           "rope_freqs.weight together with scaling by keys");
    const pkv_status status = pkv__tensor_floats(t, 0, r->rotary_dim / 2, divisors);
    if (status != PKV_OK) return status;
    r->n_short = r->n_long = r->rotary_dim / 2;
    for (int32_t k = 0; k < r->n_short; k++) r->short_factor[k] = r->long_factor[k] = divisors[k];
    r->kind = PKV__ROPE_LONGROPE;
    r->attention_factor = 1;
    return PKV_OK;
}

static pkv_status read_rope(const source *s, pkv__model_config *c)
{
    bool found;
    c->rope.rotary_dim = c->head_dim;
    c->rope.original_context = c->context;
    pkv_status status =
        read_count(s, ARCH ".rope.dimension_count", PKV__MAX_HEAD_DIM, true, &c->rope.rotary_dim);
    if (status == PKV_OK) status = get_real(s, ARCH ".rope.freq_base", &c->rope.theta, &found);
    if (status == PKV_OK) status = read_scaling(s, c);
    if (status != PKV_OK) return status;
    if (c->rope.rotary_dim > c->head_dim || c->rope.rotary_dim % 2 != 0)
        return pkv__refuse(s->log, PKV_E_FORMAT, ARCH ".rope.dimension_count of %d, heads of %d",
                           c->rope.rotary_dim, c->head_dim);
    return read_divisors(s, c);
}

/* ---------------------------------------------------------------- all */

static pkv_status read_ids(const source *s, pkv__model_config *c)
{
    static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    int64_t id = 0;
    bool found;
    pkv_status status = get_int(s, "tokenizer.ggml.bos_token_id", &id, &found);
    if (status != PKV_OK) return status;
    if (found && (id < 0 || id >= c->vocab))
        return pkv__refuse(s->log, PKV_E_FORMAT, "bos id %lld is outside the vocabulary of %d",
                           (long long)id, c->vocab);
    if (found) c->bos = (int32_t)id;
    for (size_t k = 0; k < PKV_ARRAY_LEN(ends); k++) {
        status = get_int(s, ends[k], &id, &found);
        if (status == PKV_OK && found) status = pkv__config_add_eos(c, id, s->log);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

static pkv_status read_eps(const source *s, pkv__model_config *c)
{
    bool found;
    static const char key[] = ARCH ".attention.layer_norm_rms_epsilon";
    const pkv_status status = get_real(s, key, &c->norm_eps, &found);
    if (status == PKV_OK && !found)
        return pkv__refuse(s->log, PKV_E_FORMAT, "the key %s is missing", key);
    return status;
}

pkv_status pkv__config_from_gguf(const pkv__tensor_file *file, const pkv_logger *log,
                                 pkv__model_config *out)
{
    const source s = { file, log };
    pkv__model_config c;
    pkv__config_init(&c);
    pkv_status status = read_architecture(&s, &c);
    if (status == PKV_OK) status = refuse_unsupported(&s);
    if (status == PKV_OK) status = read_counts(&s, &c);
    if (status == PKV_OK) status = read_eps(&s, &c);
    if (status == PKV_OK) status = read_rope(&s, &c);
    if (status == PKV_OK) status = read_ids(&s, &c);
    if (status == PKV_OK) status = pkv__config_check(&c, log);
    if (status != PKV_OK) return status;
    c.interleaved_pairs = true;
    c.tied_head = pkv__tensor_file_find(file, "output.weight") == NULL;
    *out = c;
    return PKV_OK;
}
