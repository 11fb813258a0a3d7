/* Tokenizers inside GGUF: arrays tokenizer.ggml.*, read through the tables of the weight files. */
#include "model/tok_internal.h"

#include <math.h>

#define GGUF_I32 5
#define GGUF_F32 6
#define GGUF_STRING 8
#define KEY(name) "tokenizer.ggml." name

static pkv_status refuse(const pkv_tokenizer *t, pkv_status status, const char *key,
                         const char *why)
{
    return pkv__refuse(&t->log, status, "%.64s: byte 0: " KEY("%s") ": %s", t->name, key, why);
}

/* The next string of an array; bounds were checked when the file was opened. */
static const uint8_t *next_text(pkv__meta_array *a, size_t *n)
{
    uint64_t bytes;
    memcpy(&bytes, a->data, sizeof(bytes));
    const uint8_t *text = a->data + sizeof(bytes);
    *n = (size_t)bytes;
    a->data = text + bytes;
    return text;
}

typedef struct vocabulary {
    pkv__meta_array tokens, scores, types;
    bool has_scores, has_types;
} vocabulary;

static pkv_status find_arrays(pkv_tokenizer *t, const pkv__tensor_file *file, vocabulary *v)
{
    if (!pkv__tensor_file_array(file, KEY("tokens"), &v->tokens) ||
        v->tokens.gguf_type != GGUF_STRING)
        return refuse(t, PKV_E_FORMAT, "tokens", "no array of strings");
    if (v->tokens.n == 0 || v->tokens.n > INT32_MAX)
        return refuse(t, PKV_E_FORMAT, "tokens", "none, or too many");
    v->has_scores = pkv__tensor_file_array(file, KEY("scores"), &v->scores);
    if (v->has_scores && (v->scores.gguf_type != GGUF_F32 || v->scores.n != v->tokens.n))
        return refuse(t, PKV_E_FORMAT, "scores", "not one f32 for each token");
    if (t->is_spm && !v->has_scores) return refuse(t, PKV_E_FORMAT, "scores", "missing");
    v->has_types = pkv__tensor_file_array(file, KEY("token_type"), &v->types);
    if (v->has_types && (v->types.gguf_type != GGUF_I32 || v->types.n != v->tokens.n))
        return refuse(t, PKV_E_FORMAT, "token_type", "not one i32 for each token");
    return PKV_OK;
}

static pkv_status set_piece(pkv_tokenizer *t, vocabulary *v, int32_t id)
{
    size_t n;
    float score = 0;
    int32_t type = PKV__PIECE_NORMAL;
    const uint8_t *text = next_text(&v->tokens, &n);
    if (v->has_scores) memcpy(&score, v->scores.data + 4 * (size_t)id, sizeof(score));
    if (v->has_types) memcpy(&type, v->types.data + 4 * (size_t)id, sizeof(type));
    if (isnan(score)) return refuse(t, PKV_E_FORMAT, "scores", "one is no number");
    if (type < PKV__PIECE_NORMAL || type > PKV__PIECE_BYTE)
        return refuse(t, PKV_E_FORMAT, "token_type", "one is not 1 to 6");
    const pkv_status status = t->is_spm
                                  ? pkv__tok_set_spm(t, id, text, n, score, (pkv__piece_type)type)
                                  : pkv__tok_set_printable(t, id, text, n, (pkv__piece_type)type);
    if (status == PKV_E_FORMAT)
        return pkv__refuse(&t->log, status,
                           "%.64s: byte 0: " KEY("tokens") ": %d is too long or a second or "
                                                           "misspelled byte",
                           t->name, id);
    return status;
}

static pkv_status read_id(const pkv_tokenizer *t, const pkv__tensor_file *file, const char *key,
                          const char *shown, int32_t *out)
{
    const pkv__meta *m = pkv__tensor_file_meta(file, key);
    if (!m) return PKV_OK;
    if (m->type != PKV__META_INT) return refuse(t, PKV_E_FORMAT, shown, "no integer");
    if (m->i == -1 || m->i == UINT32_MAX) return PKV_OK;
    if (m->i < 0 || (uint64_t)m->i >= t->n_pieces)
        return refuse(t, PKV_E_FORMAT, shown, "no such token");
    *out = (int32_t)m->i;
    return PKV_OK;
}

static bool flag(const pkv__tensor_file *file, const char *key, bool otherwise)
{
    const pkv__meta *m = pkv__tensor_file_meta(file, key);
    return m && m->type == PKV__META_BOOL ? m->i != 0 : otherwise;
}

static pkv_status read_ids(pkv_tokenizer *t, const pkv__tensor_file *file)
{
    static const char *const shown[] = { "bos_token_id", "eos_token_id", "unknown_token_id",
                                         "padding_token_id" };
    static const char *const keys[] = { KEY("bos_token_id"), KEY("eos_token_id"),
                                        KEY("unknown_token_id"), KEY("padding_token_id") };
    int32_t *const ids[] = { &t->bos, &t->eos, &t->unk, &t->pad };
    if (t->is_spm) { /* SentencePiece's own numbers, where the file has none */
        t->unk = 0;
        t->bos = t->n_pieces > 1 ? 1 : -1;
        t->eos = t->n_pieces > 2 ? 2 : -1;
    }
    for (size_t k = 0; k < PKV_ARRAY_LEN(keys); k++) {
        const pkv_status status = read_id(t, file, keys[k], shown[k], ids[k]);
        if (status != PKV_OK) return status;
    }
    t->adds_bos = flag(file, KEY("add_bos_token"), t->is_spm || t->splitter == PKV__SPLIT_LLAMA3);
    t->adds_eos = flag(file, KEY("add_eos_token"), false);
    return PKV_OK;
}

/* ---------------------------------------------------------------- byte-level */

static pkv_status read_merges(pkv_tokenizer *t, const pkv__tensor_file *file)
{
    pkv__meta_array merges;
    if (!pkv__tensor_file_array(file, KEY("merges"), &merges) || merges.gguf_type != GGUF_STRING)
        return refuse(t, PKV_E_FORMAT, "merges", "no array of strings");
    for (uint64_t k = 0; k < merges.n; k++) {
        size_t n;
        const uint8_t *text = next_text(&merges, &n);
        const pkv_status status = pkv__tok_add_printable_merge(t, text, n);
        if (status == PKV_E_FORMAT)
            return pkv__refuse(&t->log, status,
                               "%.64s: byte 0: " KEY("merges") ": %llu is no new pair of tokens "
                                                               "that make one",
                               t->name, (unsigned long long)k);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

static const struct {
    const char *name;
    pkv__splitter splitter;
} pres[] = {
    { "gpt-2", PKV__SPLIT_GPT2 },    { "llama-bpe", PKV__SPLIT_LLAMA3 },
    { "llama3", PKV__SPLIT_LLAMA3 }, { "llama-v3", PKV__SPLIT_LLAMA3 },
    { "qwen2", PKV__SPLIT_QWEN2 },   { "deepseek-r1-qwen", PKV__SPLIT_QWEN2 },
};

static pkv_status choose_splitter(pkv_tokenizer *t, const pkv__tensor_file *file)
{
    char shown[PKV__SHOWN];
    const pkv__meta *pre = pkv__tensor_file_meta(file, KEY("pre"));
    if (t->splitter != PKV__SPLIT_UNSET) return PKV_OK;
    if (!pre || pre->type != PKV__META_TEXT)
        return refuse(t, PKV_E_UNSUPPORTED, "pre",
                      "the file names no splitter: say gpt2, llama3, qwen2 or none");
    for (size_t k = 0; k < PKV_ARRAY_LEN(pres); k++)
        if (strcmp(pre->text, pres[k].name) == 0) t->splitter = pres[k].splitter;
    if (t->splitter != PKV__SPLIT_UNSET) return PKV_OK;
    return pkv__refuse(&t->log, PKV_E_UNSUPPORTED,
                       "%.64s: splitter %s is not known: say gpt2, llama3, qwen2 or none", t->name,
                       pkv__shown(pre->text, pre->text_bytes, shown));
}

static pkv_status choose_kind(pkv_tokenizer *t, const pkv__tensor_file *file)
{
    char shown[PKV__SHOWN];
    const pkv__meta *model = pkv__tensor_file_meta(file, KEY("model"));
    if (!model || model->type != PKV__META_TEXT)
        return refuse(t, PKV_E_FORMAT, "model", "missing: the file holds no tokenizer");
    t->is_spm = strcmp(model->text, "llama") == 0;
    t->rule = t->is_spm ? PKV__RULE_SCORES : PKV__RULE_PAIRS;
    t->space_prefix = t->is_spm && flag(file, KEY("add_space_prefix"), true);
    t->fuse_unk = t->is_spm;
    if (t->is_spm && flag(file, KEY("remove_extra_whitespaces"), false))
        return refuse(t, PKV_E_UNSUPPORTED, "remove_extra_whitespaces", "is not offered");
    if (t->is_spm) return PKV_OK;
    if (strcmp(model->text, "gpt2") == 0) return choose_splitter(t, file);
    return pkv__refuse(&t->log, PKV_E_UNSUPPORTED,
                       "%.64s: a tokenizer of type %s; offered are llama (SentencePiece BPE) and "
                       "gpt2 (byte-level BPE)",
                       t->name, pkv__shown(model->text, model->text_bytes, shown));
}

pkv_status pkv__tok_read_gguf(pkv_tokenizer *t, const pkv__tensor_file *file)
{
    vocabulary v = { 0 };
    t->source = "gguf";
    pkv_status status = choose_kind(t, file);
    if (status == PKV_OK) status = find_arrays(t, file, &v);
    for (uint64_t k = 0; status == PKV_OK && k < v.tokens.n; k++)
        status = set_piece(t, &v, (int32_t)k);
    if (status == PKV_OK) status = read_ids(t, file);
    if (status == PKV_OK) status = pkv__tok_index(t);
    if (status == PKV_OK && !t->is_spm) status = read_merges(t, file);
    return status;
}
