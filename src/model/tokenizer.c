/* The public side of tokenizers: open, look up, encode. */
#include "pagedkv/tokenizer.h"

#include "model/pretok_pattern.h"
#include "model/tok_internal.h"

#include <stdlib.h>

/* ---------------------------------------------------------------- opening */

static pkv_status create(const pkv_tokenizer_config *cfg, pkv_tokenizer **out)
{
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    if (!pkv__allocator_valid(&cfg->alloc) || cfg->vocab_size < 0) return PKV_E_INVALID_ARG;
    pkv__splitter splitter = PKV__SPLIT_UNSET;
    if (cfg->splitter) {
        splitter = pkv__splitter_from_name(cfg->splitter);
        if (splitter == PKV__SPLIT_UNSET)
            return pkv__refuse(&cfg->log, PKV_E_UNSUPPORTED,
                               "splitter %.64s: known are gpt2, llama3, qwen2 and none",
                               cfg->splitter);
    }
    pkv_tokenizer *t = pkv__alloc(&cfg->alloc, sizeof(*t), sizeof(void *));
    if (!t) return PKV_E_NO_MEMORY;
    memset(t, 0, sizeof(*t));
    memset(t->byte_id, 0xFF, sizeof(t->byte_id));
    t->log = cfg->log;
    t->alloc = cfg->alloc;
    t->splitter = splitter;
    t->bos = t->eos = t->unk = t->pad = -1;
    *out = t;
    return PKV_OK;
}

void pkv_tokenizer_close(pkv_tokenizer *t)
{
    if (!t) return;
    const pkv_allocator alloc = t->alloc;
    pkv__pattern_destroy(t->pattern);
    pkv__free(&alloc, t->pieces, t->piece_cap * sizeof(*t->pieces));
    pkv__free(&alloc, t->text, t->text_cap);
    pkv__free(&alloc, t->normal.slots, t->normal.n_slots * sizeof(int32_t));
    pkv__free(&alloc, t->added.slots, t->added.n_slots * sizeof(int32_t));
    pkv__free(&alloc, t->pairs, t->pair_slots * sizeof(*t->pairs));
    pkv__free(&alloc, t->added_bytes, t->added_bytes_cap * sizeof(int32_t));
    pkv__free(&alloc, t, sizeof(*t));
}

static pkv_status give(pkv_tokenizer *t, pkv_status status, pkv_tokenizer **out)
{
    if (status == PKV_OK) {
        t->name = NULL; /* the caller's */
        *out = t;
    } else {
        pkv_tokenizer_close(t);
    }
    return status;
}

pkv_status pkv_tokenizer_open(const pkv_tokenizer_config *cfg, pkv_tokenizer **out)
{
    pkv_tokenizer *t = NULL;
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    pkv_status status = create(cfg, &t);
    if (status != PKV_OK) return status;
    status = cfg->path ? pkv__tok_open_path(t, cfg) : PKV_E_INVALID_ARG;
    return give(t, status, out);
}

pkv_status pkv__tokenizer_open_memory(const pkv_tokenizer_config *cfg, const char *name,
                                      const void *data, size_t n, const void *beside,
                                      size_t n_beside, pkv_tokenizer **out)
{
    pkv_tokenizer *t = NULL;
    const pkv_status status = create(cfg, &t);
    if (status != PKV_OK) return status;
    t->name = name;
    return give(t, pkv__tok_open_bytes(t, cfg, data, n, beside, n_beside), out);
}

/* ---------------------------------------------------------------- looking up */

pkv_status pkv_tokenizer_get_info(const pkv_tokenizer *t, pkv_tokenizer_info *out)
{
    if (!t || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    *out = (pkv_tokenizer_info){
        .struct_size = sizeof(*out),
        .kind = t->is_spm ? "spm" : "bpe",
        .source = t->source,
        .splitter = pkv__splitter_name(t->splitter),
        .n_ids = (int32_t)t->n_pieces,
        .bos = t->bos,
        .eos = t->eos,
        .unk = t->unk,
        .pad = t->pad,
        .adds_bos = t->adds_bos,
        .adds_eos = t->adds_eos,
        .n_added = t->n_added,
    };
    return PKV_OK;
}

pkv_status pkv_tokenizer_piece(const pkv_tokenizer *t, int32_t id, const char **bytes,
                               int32_t *n_bytes, bool *is_special)
{
    if (!t || !bytes || !n_bytes || !is_special) return PKV_E_INVALID_ARG;
    if (id < 0 || (size_t)id >= t->n_pieces || t->pieces[id].type == PKV__PIECE_NONE)
        return PKV_E_RANGE;
    const pkv__piece *p = &t->pieces[id];
    *bytes = p->bytes > 0 ? (const char *)t->text + p->at : "";
    *n_bytes = p->bytes;
    *is_special = pkv__piece_special(p);
    return PKV_OK;
}

pkv_status pkv_tokenizer_find(const pkv_tokenizer *t, const char *bytes, int32_t n_bytes,
                              int32_t *id)
{
    if (!t || (!bytes && n_bytes != 0) || n_bytes < 0 || !id) return PKV_E_INVALID_ARG;
    int32_t found = pkv__tok_lookup(t, &t->normal, bytes, (size_t)n_bytes);
    if (found < 0) found = pkv__tok_lookup(t, &t->added, bytes, (size_t)n_bytes);
    if (found < 0 && n_bytes == 1) found = t->byte_id[(uint8_t)bytes[0]];
    if (found < 0) return PKV_E_RANGE;
    *id = found;
    return PKV_OK;
}

/* ---------------------------------------------------------------- encoding */

static pkv_status encode_fragment(pkv__tok_work *w, const uint8_t *text, size_t n, bool with_prefix)
{
    const pkv_tokenizer *t = w->tok;
    uint8_t *normal = NULL;
    pkv_status status = PKV_OK;
    if (n == 0) return PKV_OK;
    if (t->normaliser != PKV__NORM_NONE) {
        status = pkv__normalise(t->normaliser, text, n, &normal, &n);
        text = normal;
    }
    if (status == PKV_OK && n > PKV__TOK_TEXT_MAX) status = PKV_E_NO_MEMORY;
    if (status == PKV_OK && n > 0)
        status = t->is_spm ? pkv__encode_spm(w, text, n, with_prefix) : pkv__encode_bpe(w, text, n);
    free(normal);
    return status;
}

static pkv_status encode_text(pkv__tok_work *w, const uint8_t *text, size_t n, bool parse_special)
{
    const pkv_tokenizer *t = w->tok;
    bool with_prefix = t->space_prefix;
    pkv_status status = PKV_OK;
    for (size_t at = 0; status == PKV_OK && at < n;) {
        size_t begin = n, end = n;
        int32_t id = -1;
        const bool cut = pkv__added_next(t, text, n, at, parse_special, &begin, &end, &id);
        status = encode_fragment(w, text + at, begin - at, with_prefix);
        if (begin > at) with_prefix = false;
        if (status == PKV_OK && cut) {
            status = pkv__work_id(w, id);
            with_prefix = t->space_prefix && (with_prefix || pkv__piece_special(&t->pieces[id]));
        }
        at = end;
    }
    return status;
}

pkv_status pkv_tokenizer_encode(const pkv_tokenizer *t, const char *text, size_t n_bytes,
                                uint32_t flags, int32_t *ids, int32_t cap, int32_t *n)
{
    if (!t || (!text && n_bytes > 0) || (!ids && cap > 0) || cap < 0 || !n)
        return PKV_E_INVALID_ARG;
    if ((flags & ~(PKV_TOK_ADD_SPECIAL | PKV_TOK_PARSE_SPECIAL)) || n_bytes > PKV__TOK_TEXT_MAX)
        return PKV_E_INVALID_ARG;
    pkv__tok_work w = { .tok = t };
    pkv_status status = PKV_OK;
    const bool add = flags & PKV_TOK_ADD_SPECIAL;
    if (add && t->adds_bos && t->bos >= 0) status = pkv__work_id(&w, t->bos);
    if (status == PKV_OK)
        status = encode_text(&w, (const uint8_t *)text, n_bytes, flags & PKV_TOK_PARSE_SPECIAL);
    if (status == PKV_OK && add && t->adds_eos && t->eos >= 0) status = pkv__work_id(&w, t->eos);
    if (status == PKV_OK) {
        *n = (int32_t)w.n_ids;
        if (w.n_ids > (size_t)cap) status = PKV_E_LIMIT;
        else if (w.n_ids > 0) memcpy(ids, w.ids, w.n_ids * sizeof(*ids));
    }
    pkv__work_free(&w);
    return status;
}
