/* Hugging Face's tokenizer.json with a model of type BPE: the vocabulary, merges and added tokens.
 * What the other parts of the file ask for is in tok_json_parts.c. Two kinds of file:
 *   ByteLevel among the pre-tokenizers: byte-level BPE, pieces in the printable alphabet
 *   spaces turned into U+2581: BPE over characters with bytes for what is missing ("spm"), merged
 *   in the order of the list instead of by scores */
#include "model/tok_json.h"

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool true_at(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

pkv_status pkv__json_refuse(const pkv_tokenizer *t, pkv_status status, const char *key,
                            const char *why)
{
    char shown[PKV__SHOWN];
    return pkv__refuse(&t->log, status, "%.64s: byte 0: %s: %s", t->name, key,
                       pkv__shown(why, strlen(why), shown));
}

/* ---------------------------------------------------------------- pieces */

static pkv_status read_added(pkv_tokenizer *t, json_t *list, size_t max_ids)
{
    size_t k;
    json_t *token;
    if (list && !json_is_array(list))
        return pkv__json_refuse(t, PKV_E_FORMAT, "added_tokens", "no array");
    json_array_foreach(list, k, token)
    {
        const json_t *text = json_object_get(token, "content");
        const json_t *id = json_object_get(token, "id");
        const json_int_t number = json_integer_value(id);
        if (!json_is_integer(id) || !json_is_string(text) || number < 0 ||
            (uint64_t)number >= max_ids || json_string_length(text) == 0)
            return pkv__json_refuse(t, PKV_E_FORMAT, "added_tokens", "one without id or content");
        const pkv_status status =
            pkv__tok_set(t, (int32_t)number, json_string_value(text), json_string_length(text), 0,
                         true_at(token, "special") ? PKV__PIECE_CONTROL : PKV__PIECE_USER);
        if (status == PKV_E_FORMAT)
            return pkv__json_refuse(t, status, "added_tokens", "two of one id");
        if (status != PKV_OK) return status;
        t->pieces[number].flags = (uint8_t)((true_at(token, "lstrip") ? PKV__ADDED_LSTRIP : 0U) |
                                            (true_at(token, "rstrip") ? PKV__ADDED_RSTRIP : 0U) |
                                            (true_at(token, "single_word") ? PKV__ADDED_WORD : 0U));
    }
    return PKV_OK;
}

static bool is_byte_name(const char *text, size_t n)
{
    return n == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>';
}

static pkv_status set_piece(pkv_tokenizer *t, int32_t id, const char *text, size_t n,
                            bool byte_fallback)
{
    if ((size_t)id < t->n_pieces && t->pieces[id].type != PKV__PIECE_NONE) {
        const pkv__piece *p = &t->pieces[id]; /* an added token stands in the vocabulary too */
        const bool added = p->type == PKV__PIECE_CONTROL || p->type == PKV__PIECE_USER;
        const bool same = (size_t)p->bytes == n && memcmp(t->text + p->at, text, n) == 0;
        return added && same ? PKV_OK : PKV_E_FORMAT;
    }
    if (!t->is_spm) return pkv__tok_set_printable(t, id, text, n, PKV__PIECE_NORMAL);
    const bool byte = byte_fallback && is_byte_name(text, n);
    return pkv__tok_set_spm(t, id, text, n, 0, byte ? PKV__PIECE_BYTE : PKV__PIECE_NORMAL);
}

static pkv_status read_vocab(pkv_tokenizer *t, json_t *model, size_t max_ids)
{
    const char *text;
    json_t *value, *vocab = json_object_get(model, "vocab");
    size_t n;
    const bool byte_fallback = true_at(model, "byte_fallback");
    json_object_keylen_foreach(vocab, text, n, value)
    {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id >= max_ids)
            return pkv__json_refuse(t, PKV_E_FORMAT, "model.vocab",
                                    "an entry without id, or one far beyond their number");
        const pkv_status status = set_piece(t, (int32_t)id, text, n, byte_fallback);
        if (status == PKV_E_FORMAT)
            return pkv__json_refuse(t, status, "model.vocab", "an id comes twice");
        if (status != PKV_OK) return status;
    }
    const json_t *unk = json_object_get(model, "unk_token");
    if (!json_is_string(unk)) return PKV_OK;
    for (size_t k = 0; k < t->n_pieces && t->unk < 0; k++) {
        pkv__piece *p = &t->pieces[k];
        if ((size_t)p->bytes != json_string_length(unk) || p->type == PKV__PIECE_NONE ||
            memcmp(t->text + p->at, json_string_value(unk), (size_t)p->bytes) != 0)
            continue;
        t->unk = (int32_t)k;
        if (p->type == PKV__PIECE_NORMAL) p->type = PKV__PIECE_UNKNOWN;
    }
    return t->unk >= 0
               ? PKV_OK
               : pkv__json_refuse(t, PKV_E_FORMAT, "model.unk_token", "not in the vocabulary");
}

/* ---------------------------------------------------------------- merges */

/* The two parts, in the form that pieces are kept in, one behind the other in `to`. */
static bool plain_parts(const pkv_tokenizer *t, const uint8_t *left, size_t n_left,
                        const uint8_t *right, size_t n_right, uint8_t *to, size_t *a, size_t *b)
{
    const uint8_t *from[2] = { left, right };
    const size_t n[2] = { n_left, n_right };
    size_t *const got[2] = { a, b };
    for (int part = 0; part < 2; part++) {
        uint8_t *out = to + (part ? *a : 0);
        if (!t->is_spm) {
            if (!pkv__printable_to_bytes(from[part], n[part], out, got[part])) return false;
            continue;
        }
        size_t m = 0;
        for (size_t k = 0; k < n[part];) {
            const bool space = n[part] - k >= 3 && memcmp(from[part] + k, "\xE2\x96\x81", 3) == 0;
            out[m++] = space ? ' ' : from[part][k];
            k += space ? 3 : 1;
        }
        *got[part] = m;
    }
    return true;
}

/* A merge of, or into, an added token can never be done: those are cut out before. */
static bool touches_added(const pkv_tokenizer *t, const uint8_t *text, size_t a, size_t b)
{
    return pkv__tok_lookup(t, &t->added, text, a) >= 0 ||
           pkv__tok_lookup(t, &t->added, text + a, b) >= 0 ||
           pkv__tok_lookup(t, &t->added, text, a + b) >= 0;
}

static pkv_status add_merge(pkv_tokenizer *t, const char *left, size_t n_left, const char *right,
                            size_t n_right)
{
    uint8_t few[512], *text = few;
    const size_t n = n_left + n_right;
    size_t a = 0, b = 0;
    if (n > sizeof(few)) text = pkv__alloc(&t->alloc, n, 1);
    if (!text) return PKV_E_NO_MEMORY;
    pkv_status status = PKV_E_FORMAT;
    if (plain_parts(t, (const uint8_t *)left, n_left, (const uint8_t *)right, n_right, text, &a,
                    &b))
        status = pkv__tok_add_merge(t, text, a, text + a, b);
    if (status == PKV_E_FORMAT && touches_added(t, text, a, b)) status = PKV_OK;
    if (text != few) pkv__free(&t->alloc, text, n);
    return status;
}

static pkv_status read_merge(pkv_tokenizer *t, const json_t *merge)
{
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    if (json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right))
        return add_merge(t, json_string_value(left), json_string_length(left),
                         json_string_value(right), json_string_length(right));
    if (!json_is_string(merge)) return PKV_E_FORMAT;
    const char *text = json_string_value(merge);
    const size_t n = json_string_length(merge);
    const char *space = memchr(text, ' ', n);
    if (!space) return PKV_E_FORMAT;
    const size_t at = (size_t)(space - text);
    return add_merge(t, text, at, space + 1, n - at - 1);
}

static pkv_status read_merges(pkv_tokenizer *t, json_t *merges)
{
    size_t k;
    json_t *merge;
    json_array_foreach(merges, k, merge)
    {
        const pkv_status status = read_merge(t, merge);
        if (status == PKV_E_FORMAT)
            return pkv__refuse(
                &t->log, status,
                "%.64s: byte 0: model.merges: %zu is no new pair of pieces that make "
                "one",
                t->name, k);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

/* ---------------------------------------------------------------- the file */

static bool is_empty(const json_t *value)
{
    return !value || json_is_null(value) || (json_is_string(value) && !json_string_length(value));
}

static pkv_status check_model(pkv_tokenizer *t, const json_t *model)
{
    const char *type = text_of(model, "type");
    const json_t *dropout = json_object_get(model, "dropout");
    if (!json_is_object(model)) return pkv__json_refuse(t, PKV_E_FORMAT, "model", "no object");
    if (type && strcmp(type, "BPE") != 0)
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "model.type is not BPE", type);
    if (!json_is_object(json_object_get(model, "vocab")))
        return pkv__json_refuse(t, type ? PKV_E_FORMAT : PKV_E_UNSUPPORTED, "model.vocab",
                                "no object");
    if (!json_is_array(json_object_get(model, "merges")))
        return pkv__json_refuse(t, PKV_E_FORMAT, "model.merges", "no array");
    if (!is_empty(json_object_get(model, "continuing_subword_prefix")))
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "model", "continuing_subword_prefix");
    if (!is_empty(json_object_get(model, "end_of_word_suffix")))
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "model", "end_of_word_suffix");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "model", "dropout");
    t->ignore_merges = true_at(model, "ignore_merges");
    t->fuse_unk = true_at(model, "fuse_unk");
    return PKV_OK;
}

/* Whose id would count is not said by the file. */
static pkv_status check_added(const pkv_tokenizer *t)
{
    for (size_t k = 0; k < t->n_pieces; k++) {
        const pkv__piece *p = &t->pieces[k];
        if (p->type != PKV__PIECE_CONTROL && p->type != PKV__PIECE_USER) continue;
        if (pkv__tok_lookup(t, &t->normal, t->text + p->at, (size_t)p->bytes) >= 0)
            return pkv__json_refuse(t, PKV_E_FORMAT, "added_tokens",
                                    "one has another id in the vocabulary");
    }
    return PKV_OK;
}

static pkv_status read_root(pkv_tokenizer *t, json_t *root)
{
    json_t *model = json_object_get(root, "model");
    json_t *added = json_object_get(root, "added_tokens");
    if (json_is_null(added)) added = NULL;
    if (!model)
        return pkv__json_refuse(t, PKV_E_FORMAT, "model",
                                "missing: neither tokenizer.json nor GPT-2's encoder.json");
    pkv_status status = check_model(t, model);
    if (status == PKV_OK) status = pkv__json_read_steps(t, root);
    if (status != PKV_OK) return status;
    const size_t entries =
        json_object_size(json_object_get(model, "vocab")) + json_array_size(added);
    const size_t max_ids = 2 * entries + 4096 < INT32_MAX ? 2 * entries + 4096 : INT32_MAX;
    status = read_added(t, added, max_ids);
    if (status == PKV_OK) status = read_vocab(t, model, max_ids);
    if (status == PKV_OK) status = pkv__tok_index(t);
    if (status == PKV_OK) status = check_added(t);
    if (status == PKV_OK) status = read_merges(t, json_object_get(model, "merges"));
    return status == PKV_OK ? pkv__json_read_template(t, root) : status;
}

pkv_status pkv__tok_read_json(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    json_error_t error;
    t->source = "tokenizer.json";
    t->rule = PKV__RULE_PAIRS;
    json_t *root =
        json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory) return PKV_E_NO_MEMORY;
    pkv_status status;
    if (!json_is_object(root))
        status =
            pkv__tok_refuse(t, root ? 0 : (uint64_t)error.position, PKV_E_FORMAT, "no JSON object");
    else status = read_root(t, root);
    json_decref(root);
    return status;
}
