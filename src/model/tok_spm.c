/* BPE over SentencePiece scores: the whole fragment is merged from its characters; what is left
 * without a piece becomes bytes. */
#include "model/tok_internal.h"

/* The fragment as pieces spell it: a space in front if wanted, and U+2581 is one too. */
static pkv_status spell(pkv__tok_work *w, const uint8_t *text, size_t n, bool with_prefix,
                        size_t *n_out)
{
    const pkv_allocator *alloc = &w->tok->alloc;
    size_t m = 0;
    if (w->text_cap < n + 1) {
        uint8_t *more = pkv__alloc(alloc, n + 1, 1);
        if (!more) return PKV_E_NO_MEMORY;
        pkv__free(alloc, w->text, w->text_cap);
        w->text = more;
        w->text_cap = n + 1;
    }
    if (with_prefix) w->text[m++] = ' ';
    for (size_t k = 0; k < n;) {
        const bool is_space = n - k >= 3 && memcmp(text + k, "\xE2\x96\x81", 3) == 0;
        w->text[m++] = is_space ? ' ' : text[k];
        k += is_space ? 3 : 1;
    }
    *n_out = m;
    return PKV_OK;
}

/* A symbol without a piece. */
static pkv_status emit_missing(pkv__tok_work *w, const pkv__tok_node *node)
{
    const pkv_tokenizer *t = w->tok;
    pkv_status status = PKV_OK;
    bool all = true;
    for (int32_t k = 0; k < node->bytes; k++) all = all && t->byte_id[w->text[node->at + k]] >= 0;
    if (!all) {
        const bool again = t->fuse_unk && w->n_ids > 0 && w->ids[w->n_ids - 1] == t->unk;
        return again ? PKV_OK : pkv__work_id(w, t->unk);
    }
    for (int32_t k = 0; status == PKV_OK && k < node->bytes; k++)
        status = pkv__work_id(w, t->byte_id[w->text[node->at + k]]);
    return status;
}

pkv_status pkv__encode_spm(pkv__tok_work *w, const uint8_t *text, size_t n, bool with_prefix)
{
    const pkv_tokenizer *t = w->tok;
    size_t m;
    pkv_status status = spell(w, text, n, with_prefix, &m);
    if (status != PKV_OK) return status;
    w->n_nodes = 0;
    for (size_t at = 0, step; status == PKV_OK && at < m; at += step) {
        int32_t cp;
        step = pkv__utf8_next(w->text + at, m - at, &cp);
        const int32_t id = pkv__tok_lookup(t, &t->normal, w->text + at, step);
        status = pkv__work_node(w, (int32_t)step, id);
    }
    if (status == PKV_OK) status = pkv__merge(w, w->text);
    for (int32_t k = 0; status == PKV_OK && k >= 0 && m > 0; k = w->nodes[k].next) {
        const pkv__tok_node *node = &w->nodes[k];
        status = node->id >= 0 ? pkv__work_id(w, node->id) : emit_missing(w, node);
    }
    return status;
}
