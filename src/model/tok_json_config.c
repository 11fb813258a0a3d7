/* tokenizer_config.json of Hugging Face, beside a tokenizer.json: which tokens begin and end a
 * text, and whether they are put there. Its other keys are for programs or say again what
 * tokenizer.json says. What the template of tokenizer.json puts in front or behind stays;
 * add_bos_token and add_eos_token, where they are given, win over it. */
#include "model/tok_json.h"

/* The id of `key`, a text or an object with content. *id stays as it is where nothing is said, or
 * where the vocabulary has no such token, which is warned of. */
static pkv_status read_token(pkv_tokenizer *t, const json_t *root, const char *key, int32_t *id)
{
    char shown[PKV__SHOWN];
    const json_t *value = json_object_get(root, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (!value || json_is_null(value)) return PKV_OK;
    if (!json_is_string(value))
        return pkv__json_refuse(t, PKV_E_FORMAT, key, "neither a text nor an object with content");
    const char *text = json_string_value(value);
    const size_t n = json_string_length(value);
    int32_t found = pkv__tok_lookup(t, &t->added, text, n);
    if (found < 0) found = pkv__tok_lookup(t, &t->normal, text, n);
    if (found >= 0) *id = found;
    else
        pkv__log(&t->log, PKV_LOG_WARN, "%.64s: %s %s is not in the vocabulary", t->name, key,
                 pkv__shown(text, n, shown));
    return PKV_OK;
}

static pkv_status read_side(pkv_tokenizer *t, const json_t *root, const char *token_key,
                            const char *add_key, int32_t *id, bool *adds)
{
    int32_t said = *id;
    const json_t *add = json_object_get(root, add_key);
    const pkv_status status = read_token(t, root, token_key, &said);
    if (status != PKV_OK) return status;
    if (add && !json_is_null(add) && !json_is_boolean(add))
        return pkv__json_refuse(t, PKV_E_FORMAT, add_key, "no truth value");
    if (json_is_true(add) && said < 0)
        return pkv__json_refuse(t, PKV_E_FORMAT, add_key, "true, and there is no such token");
    if (json_is_boolean(add)) *adds = json_is_true(add);
    else if (*adds) return PKV_OK; /* the template's token is what is put there */
    *id = said;
    return PKV_OK;
}

pkv_status pkv__tok_read_json_config(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    json_error_t error;
    json_t *root = json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory) return PKV_E_NO_MEMORY;
    pkv_status status;
    if (!json_is_object(root))
        status =
            pkv__tok_refuse(t, root ? 0 : (uint64_t)error.position, PKV_E_FORMAT, "no JSON object");
    else {
        status = read_side(t, root, "bos_token", "add_bos_token", &t->bos, &t->adds_bos);
        if (status == PKV_OK)
            status = read_side(t, root, "eos_token", "add_eos_token", &t->eos, &t->adds_eos);
    }
    json_decref(root);
    return status;
}
