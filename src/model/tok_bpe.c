/* Byte-level BPE: words of the splitter, each merged from its bytes. */
#include "model/tok_internal.h"

#include "model/pretok_pattern.h"

static pkv_status encode_word(pkv__tok_work *w, const uint8_t *word, size_t n)
{
    const pkv_tokenizer *t = w->tok;
    pkv_status status = PKV_OK;
    if (t->ignore_merges) {
        const int32_t whole = pkv__tok_lookup(t, &t->normal, word, n);
        if (whole >= 0) return pkv__work_id(w, whole);
    }
    w->n_nodes = 0;
    for (size_t k = 0; status == PKV_OK && k < n; k++)
        status = pkv__work_node(w, 1, t->byte_id[word[k]]);
    if (status == PKV_OK) status = pkv__merge(w, word);
    for (int32_t k = 0; status == PKV_OK && k >= 0; k = w->nodes[k].next)
        status = pkv__work_id(w, w->nodes[k].id >= 0 ? w->nodes[k].id : t->unk);
    return status;
}

pkv_status pkv__encode_bpe(pkv__tok_work *w, const uint8_t *text, size_t n)
{
    const pkv_tokenizer *t = w->tok;
    pkv_status status = PKV_OK;
    if (t->splitter == PKV__SPLIT_PATTERN)
        return pkv__pattern_words(t->pattern, w, text, n, encode_word);
    for (size_t at = 0, end; status == PKV_OK && at < n; at = end) {
        end = pkv__split_next(t->splitter, text, n, at);
        status = encode_word(w, text + at, end - at);
    }
    return status;
}
