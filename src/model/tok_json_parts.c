/* The steps of a tokenizer.json around its model. Each is known by its type and its settings, or
 * refused by name; none is passed over. */
#include "model/pretok_pattern.h"
#include "model/tok_json.h"

#define SPACE "\xE2\x96\x81"
#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define HEAD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
static const struct {
    const char *expression;
    pkv__splitter splitter;
} known[] = {
    { HEAD "\\p{N}{1,3}" TAIL, PKV__SPLIT_LLAMA3 },
    { HEAD "\\p{N}" TAIL, PKV__SPLIT_QWEN2 },
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      PKV__SPLIT_GPT2 },
};

/* What the steps ask for, gathered before it is put together. */
typedef struct steps {
    bool byte_level, own_words, escapes, prefix;
    const json_t *expression;
} steps;

typedef pkv_status (*step_fn)(pkv_tokenizer *t, const json_t *step, const char *type, steps *s);

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* One step, or those of a Sequence. */
static pkv_status walk(pkv_tokenizer *t, const json_t *step, const char *key, const char *list,
                       step_fn fn, steps *s)
{
    if (!step || json_is_null(step)) return PKV_OK;
    const char *type = json_string_value(json_object_get(step, "type"));
    if (!type) return pkv__json_refuse(t, PKV_E_FORMAT, key, "a step without type");
    if (strcmp(type, "Sequence") != 0) return fn(t, step, type, s);
    const json_t *steps_of = json_object_get(step, list);
    pkv_status status = PKV_OK;
    for (size_t k = 0; status == PKV_OK && k < json_array_size(steps_of); k++) {
        const json_t *one = json_array_get(steps_of, k);
        type = json_string_value(json_object_get(one, "type"));
        status = type ? fn(t, one, type, s)
                      : pkv__json_refuse(t, PKV_E_FORMAT, key, "a step without type");
    }
    return status;
}

/* ---------------------------------------------------------------- normalisers */

static pkv_status normaliser_step(pkv_tokenizer *t, const json_t *step, const char *type, steps *s)
{
    const json_t *from = json_object_get(json_object_get(step, "pattern"), "String");
    if (strcmp(type, "NFC") == 0 && t->normaliser == PKV__NORM_NONE) {
        t->normaliser = PKV__NORM_NFC;
    } else if (strcmp(type, "NFKC") == 0 && t->normaliser == PKV__NORM_NONE) {
        t->normaliser = PKV__NORM_NFKC;
    } else if (strcmp(type, "Prepend") == 0 && is_text(json_object_get(step, "prepend"), SPACE)) {
        s->prefix = true;
    } else if (strcmp(type, "Replace") == 0 && is_text(from, " ") &&
               is_text(json_object_get(step, "content"), SPACE)) {
        s->escapes = true;
    } else {
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "normalizer", type);
    }
    return PKV_OK;
}

/* ---------------------------------------------------------------- pre-tokenizers */

static pkv_status metaspace(pkv_tokenizer *t, const json_t *step, steps *s)
{
    const json_t *scheme = json_object_get(step, "prepend_scheme");
    const json_t *replacement = json_object_get(step, "replacement");
    if (!is_text(replacement, SPACE) || !json_is_false(json_object_get(step, "split")))
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "pre_tokenizer",
                                "Metaspace that splits, or of another character");
    s->escapes = true;
    s->prefix = scheme ? !is_text(scheme, "never")
                       : !json_is_false(json_object_get(step, "add_prefix_space"));
    return PKV_OK;
}

static pkv_status splitter_step(pkv_tokenizer *t, const json_t *step, const char *type, steps *s)
{
    if (strcmp(type, "Metaspace") == 0) return metaspace(t, step, s);
    if (strcmp(type, "ByteLevel") == 0) {
        if (json_is_true(json_object_get(step, "add_prefix_space")))
            return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "pre_tokenizer",
                                    "ByteLevel with add_prefix_space");
        s->byte_level = true;
        s->own_words = !json_is_false(json_object_get(step, "use_regex"));
        return PKV_OK;
    }
    if (strcmp(type, "Split") != 0)
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "pre_tokenizer", type);
    const json_t *expression = json_object_get(json_object_get(step, "pattern"), "Regex");
    if (!json_is_string(expression) || !is_text(json_object_get(step, "behavior"), "Isolated") ||
        json_is_true(json_object_get(step, "invert")))
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "pre_tokenizer",
                                "Split other than Isolated by Regex");
    if (s->expression || s->byte_level)
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "pre_tokenizer", "more than one splitter");
    s->expression = expression;
    return PKV_OK;
}

static pkv_status choose_splitter(pkv_tokenizer *t, const steps *s)
{
    if (t->splitter != PKV__SPLIT_UNSET) return PKV_OK;
    if (s->expression && s->own_words)
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "pre_tokenizer", "more than one splitter");
    if (!s->expression) {
        t->splitter = s->own_words ? PKV__SPLIT_GPT2 : PKV__SPLIT_NONE;
        return PKV_OK;
    }
    for (size_t k = 0; k < PKV_ARRAY_LEN(known); k++)
        if (is_text(s->expression, known[k].expression)) t->splitter = known[k].splitter;
    if (t->splitter != PKV__SPLIT_UNSET) return PKV_OK;
    t->splitter = PKV__SPLIT_PATTERN;
    return pkv__pattern_create(t, json_string_value(s->expression),
                               json_string_length(s->expression), &t->pattern);
}

pkv_status pkv__json_read_steps(pkv_tokenizer *t, const json_t *root)
{
    steps s = { 0 };
    pkv_status status = walk(t, json_object_get(root, "normalizer"), "normalizer", "normalizers",
                             normaliser_step, &s);
    if (status == PKV_OK)
        status = walk(t, json_object_get(root, "pre_tokenizer"), "pre_tokenizer", "pretokenizers",
                      splitter_step, &s);
    if (status != PKV_OK) return status;
    if (s.byte_level == s.escapes || (s.byte_level && s.prefix) || (s.escapes && s.expression))
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "pre_tokenizer",
                                "neither ByteLevel nor spaces as U+2581 alone");
    t->is_spm = s.escapes;
    t->space_prefix = s.prefix;
    return t->is_spm ? PKV_OK : choose_splitter(t, &s);
}

/* ---------------------------------------------------------------- post-processors */

static pkv_status special_id(const pkv_tokenizer *t, const json_t *step, const json_t *special,
                             int32_t *out)
{
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *entry =
        name ? json_object_get(json_object_get(step, "special_tokens"), name) : NULL;
    const json_t *ids = json_object_get(entry, "ids");
    const json_int_t id = json_integer_value(json_array_get(ids, 0));
    if (json_array_size(ids) != 1 || !json_is_integer(json_array_get(ids, 0)) || id < 0 ||
        (uint64_t)id >= t->n_pieces)
        return pkv__json_refuse(t, PKV_E_FORMAT, "post_processor", "a special token without id");
    *out = (int32_t)id;
    return PKV_OK;
}

static pkv_status template_step(pkv_tokenizer *t, const json_t *step, const char *type, steps *s)
{
    (void)s;
    if (strcmp(type, "ByteLevel") == 0) return PKV_OK;
    if (strcmp(type, "TemplateProcessing") != 0)
        return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "post_processor", type);
    const json_t *single = json_object_get(step, "single");
    bool behind = false;
    for (size_t k = 0; k < json_array_size(single); k++) {
        const json_t *item = json_array_get(single, k);
        const json_t *special = json_object_get(item, "SpecialToken");
        int32_t *id = behind ? &t->eos : &t->bos;
        bool *adds = behind ? &t->adds_eos : &t->adds_bos;
        if (!special) {
            behind = true;
            continue;
        }
        if (*adds)
            return pkv__json_refuse(t, PKV_E_UNSUPPORTED, "post_processor",
                                    "two special tokens on one side");
        const pkv_status status = special_id(t, step, special, id);
        if (status != PKV_OK) return status;
        *adds = true;
    }
    return PKV_OK;
}

pkv_status pkv__json_read_template(pkv_tokenizer *t, const json_t *root)
{
    return walk(t, json_object_get(root, "post_processor"), "post_processor", "processors",
                template_step, NULL);
}
