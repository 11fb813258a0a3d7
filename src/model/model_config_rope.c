/* Rotary positions in config.json. Older files say rope_theta and rope_scaling { type or rope_type,
 * factor, ... }, newer ones rope_parameters { rope_type, rope_theta, ... }. Both may be there and
 * then have to agree. A key of these objects that is not known is refused: each changes angles. */
#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <jansson.h>
#include <stddef.h>

static const struct {
    const char *name;
    pkv__rope_kind kind;
} kinds[] = {
    { "default", PKV__ROPE_DEFAULT }, { "linear", PKV__ROPE_LINEAR },
    { "dynamic", PKV__ROPE_DYNAMIC }, { "llama3", PKV__ROPE_LLAMA3 },
    { "yarn", PKV__ROPE_YARN },       { "longrope", PKV__ROPE_LONGROPE },
    { "su", PKV__ROPE_LONGROPE }, /* as the first Phi-3 files said */
};

static const struct {
    const char *key;
    size_t field;
} reals[] = {
#define REAL(name)                                                                                 \
    {                                                                                              \
#name, offsetof(pkv__rope_config, name)                                                    \
    }
    REAL(factor),    REAL(low_freq_factor),  REAL(high_freq_factor), REAL(beta_fast),
    REAL(beta_slow), REAL(attention_factor), REAL(mscale),           REAL(mscale_all_dim),
#undef REAL
};

/* Looked at one by one below, or of training alone. */
static const char *const other_keys[] = {
    "type",         "rope_type",   "rope_theta", "original_max_position_embeddings",
    "short_factor", "long_factor", "finetuned",  "partial_rotary_factor",
};

typedef struct source {
    const json_t *object; /* never NULL; may be empty */
    const char *name;     /* "rope_scaling" */
    const pkv_logger *log;
} source;

static bool is_known(const char *key)
{
    for (size_t k = 0; k < PKV_ARRAY_LEN(reals); k++)
        if (strcmp(key, reals[k].key) == 0) return true;
    for (size_t k = 0; k < PKV_ARRAY_LEN(other_keys); k++)
        if (strcmp(key, other_keys[k]) == 0) return true;
    return false;
}

static pkv_status refuse_unknown(const source *s)
{
    const char *key;
    json_t *value;
    char shown[PKV__SHOWN];
    json_object_foreach((json_t *)(uintptr_t)s->object, key, value)
    {
        if (is_known(key) || json_is_null(value)) continue;
        return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "config.json: %s.%s is not implemented",
                           s->name, pkv__shown(key, strlen(key), shown));
    }
    return PKV_OK;
}

static pkv_status read_kind(const source *s, pkv__rope_config *r)
{
    const json_t *newer = pkv__config_get(s->object, "rope_type"),
                 *older = pkv__config_get(s->object, "type");
    const json_t *value = newer ? newer : older;
    char shown[PKV__SHOWN];
    if (newer && older && !json_equal(newer, older))
        return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s: rope_type and type disagree",
                           s->name);
    if (!value && json_object_size(s->object) == 0) return PKV_OK;
    if (!value && pkv__config_get(s->object, "factor"))
        return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s has a factor and no rope_type",
                           s->name);
    if (!value) return PKV_OK;
    if (!json_is_string(value))
        return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s.rope_type is no text", s->name);
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        if (strcmp(json_string_value(value), kinds[k].name) != 0) continue;
        r->kind = kinds[k].kind;
        return PKV_OK;
    }
    return pkv__refuse(s->log, PKV_E_UNSUPPORTED, "config.json: %s.rope_type %s is not implemented",
                       s->name,
                       pkv__shown(json_string_value(value), json_string_length(value), shown));
}

static pkv_status read_real(const source *s, const json_t *object, const char *key, double *out)
{
    const json_t *value = pkv__config_get(object, key);
    if (!value) return PKV_OK;
    if (!json_is_number(value))
        return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s is no number", key);
    *out = json_number_value(value);
    return PKV_OK;
}

static pkv_status read_list(const source *s, const char *key, double *list, int32_t *n)
{
    const json_t *value = pkv__config_get(s->object, key);
    if (!value) return PKV_OK;
    if (!json_is_array(value) || json_array_size(value) > PKV__MAX_HEAD_DIM / 2)
        return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s is no list, or too long", key);
    *n = (int32_t)json_array_size(value);
    for (int32_t k = 0; k < *n; k++) {
        const json_t *item = json_array_get(value, (size_t)k);
        if (!json_is_number(item))
            return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s[%d] is no number", key, k);
        list[k] = json_number_value(item);
    }
    return PKV_OK;
}

/* In the object or, as in Phi-3, at the top. */
static pkv_status read_original(const source *s, const json_t *config, pkv__rope_config *r,
                                bool *given)
{
    const char *key = "original_max_position_embeddings";
    const json_t *inner = pkv__config_get(s->object, key), *outer = pkv__config_get(config, key);
    const json_t *value = inner ? inner : outer;
    *given = value != NULL;
    if (!value) return PKV_OK;
    if (!json_is_integer(value) || (inner && outer && !json_equal(inner, outer)))
        return pkv__refuse(s->log, PKV_E_FORMAT,
                           "config.json: %s is no count, or two of them disagree", key);
    return pkv__config_int(s->log, key, json_integer_value(value), PKV__MAX_CONTEXT,
                           &r->original_context);
}

/* partial_rotary_factor, in the object or at the top. */
static pkv_status read_rotary_dim(const source *s, const json_t *config, int32_t head_dim,
                                  pkv__rope_config *r)
{
    double part = 1;
    pkv_status status = read_real(s, config, "partial_rotary_factor", &part);
    if (status == PKV_OK) status = read_real(s, s->object, "partial_rotary_factor", &part);
    if (status != PKV_OK) return status;
    if (!(part > 0 && part <= 1))
        return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: partial_rotary_factor is %g", part);
    r->rotary_dim = (int32_t)(head_dim * part);
    return PKV_OK;
}

static pkv_status need(const source *s, pkv__rope_kind kind, bool has_original)
{
    const char *missing = NULL;
    const bool factor = pkv__config_get(s->object, "factor") != NULL;
    switch (kind) {
    case PKV__ROPE_DEFAULT:
        break;
    case PKV__ROPE_LINEAR:
    case PKV__ROPE_DYNAMIC:
        missing = factor ? NULL : "factor";
        break;
    case PKV__ROPE_LLAMA3:
        if (!factor) missing = "factor";
        else if (!pkv__config_get(s->object, "low_freq_factor")) missing = "low_freq_factor";
        else if (!pkv__config_get(s->object, "high_freq_factor")) missing = "high_freq_factor";
        else if (!has_original) missing = "original_max_position_embeddings";
        break;
    case PKV__ROPE_YARN:
        missing = factor || has_original ? NULL : "factor";
        break;
    case PKV__ROPE_LONGROPE:
        missing = factor || has_original ? NULL : "original_max_position_embeddings";
    }
    if (!missing) return PKV_OK;
    return pkv__refuse(s->log, PKV_E_FORMAT, "config.json: %s.%s is missing", s->name, missing);
}

/* Where the file gives no factor, the trained length and the context do. */
static void derive_factor(const source *s, const pkv__model_config *c, bool has_original,
                          pkv__rope_config *r)
{
    const double ratio = (double)c->context / r->original_context;
    const bool by_ratio = r->kind == PKV__ROPE_LONGROPE || r->kind == PKV__ROPE_YARN;
    if (has_original && by_ratio && !pkv__config_get(s->object, "factor"))
        r->factor = ratio > 1 ? ratio : 1;
}

static pkv_status read_one(const source *s, const json_t *config, const pkv__model_config *c,
                           pkv__rope_config *r)
{
    bool has_original = false;
    *r = c->rope;
    r->original_context = c->context;
    pkv_status status = refuse_unknown(s);
    if (status == PKV_OK) status = read_kind(s, r);
    for (size_t k = 0; k < PKV_ARRAY_LEN(reals) && status == PKV_OK; k++) {
        double v = 0;
        memcpy(&v, (const char *)r + reals[k].field, sizeof(v));
        status = read_real(s, s->object, reals[k].key, &v);
        memcpy((char *)r + reals[k].field, &v, sizeof(v));
    }
    if (status == PKV_OK) status = read_real(s, s->object, "rope_theta", &r->theta);
    if (status == PKV_OK) status = read_list(s, "short_factor", r->short_factor, &r->n_short);
    if (status == PKV_OK) status = read_list(s, "long_factor", r->long_factor, &r->n_long);
    if (status == PKV_OK) status = read_original(s, config, r, &has_original);
    if (status == PKV_OK) status = read_rotary_dim(s, config, c->head_dim, r);
    if (status == PKV_OK) status = need(s, r->kind, has_original);
    if (status == PKV_OK) derive_factor(s, c, has_original, r);
    return status;
}

static bool same(const pkv__rope_config *a, const pkv__rope_config *b)
{
    const size_t n = sizeof(a->short_factor);
    return a->kind == b->kind && a->theta == b->theta && a->factor == b->factor &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
           a->attention_factor == b->attention_factor && a->mscale == b->mscale &&
           a->mscale_all_dim == b->mscale_all_dim && a->original_context == b->original_context &&
           a->n_short == b->n_short && a->n_long == b->n_long && a->rotary_dim == b->rotary_dim &&
           memcmp(a->short_factor, b->short_factor, n) == 0 &&
           memcmp(a->long_factor, b->long_factor, n) == 0;
}

/* rope_theta at the top, which an object may repeat but not contradict. */
static pkv_status read_theta(const json_t *config, const source *objects, size_t n,
                             pkv__rope_config *r)
{
    const json_t *top = pkv__config_get(config, "rope_theta");
    const pkv_status status = read_real(&objects[0], config, "rope_theta", &r->theta);
    for (size_t k = 0; k < n && top && status == PKV_OK; k++) {
        const json_t *inner = pkv__config_get(objects[k].object, "rope_theta");
        if (inner && json_number_value(inner) != r->theta)
            return pkv__refuse(objects[k].log, PKV_E_FORMAT,
                               "config.json: rope_theta and %s.rope_theta disagree",
                               objects[k].name);
    }
    return status;
}

pkv_status pkv__config_parse_rope(const struct json_t *config, const pkv_logger *log,
                                  pkv__model_config *c)
{
    const source objects[] = { { pkv__config_get(config, "rope_parameters"), "rope_parameters",
                                 log },
                               { pkv__config_get(config, "rope_scaling"), "rope_scaling", log } };
    pkv__rope_config found[2];
    int n = 0;
    pkv_status status = read_theta(config, objects, 2, &c->rope);
    for (size_t k = 0; k < 2 && status == PKV_OK; k++) {
        /* Without either object rope_scaling, missing, stands for the plain angles. */
        if (!objects[k].object && (k == 0 || n > 0)) continue;
        if (objects[k].object && !json_is_object(objects[k].object))
            return pkv__refuse(log, PKV_E_FORMAT, "config.json: %s is no object", objects[k].name);
        status = read_one(&objects[k], config, c, &found[n]);
        n++;
    }
    if (status != PKV_OK) return status;
    if (n == 2 && !same(&found[0], &found[1]))
        return pkv__refuse(log, PKV_E_FORMAT,
                           "config.json: rope_parameters and rope_scaling disagree");
    c->rope = found[0];
    return PKV_OK;
}
