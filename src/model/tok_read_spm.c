/* SentencePiece's .model: a protobuf message, read by hand. Numbers of fields:
 *
 *   1 piece { 1 text, 2 score f32, 3 type }      repeated, ids count from 0
 *   2 trainer { 3 model type, 24 suffix, 40 unk, 41 bos, 42 eos, 43 pad }
 *   3 normaliser { 2 map, 3 space in front, 4 drop further spaces, 5 spaces as U+2581 }
 * Fields that are not listed are stepped over. */
#include "model/tok_internal.h"

#include <math.h>

typedef struct reader {
    const pkv_tokenizer *t;
    const uint8_t *data; /* of the file */
    size_t at, end;      /* of this message */
} reader;

typedef struct field {
    uint32_t number, wire;
    uint64_t value;   /* wire 0, 1, 5 */
    size_t at, bytes; /* wire 2 */
} field;

static pkv_status read_varint(reader *r, uint64_t *out)
{
    const size_t begin = r->at;
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->at >= r->end)
            return pkv__tok_refuse(r->t, begin, PKV_E_FORMAT, "the message ends within a number");
        const uint8_t b = r->data[r->at++];
        v |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) {
            *out = v;
            return PKV_OK;
        }
    }
    return pkv__tok_refuse(r->t, begin, PKV_E_FORMAT, "a number of more than 64 bits");
}

static pkv_status read_fixed(reader *r, size_t bytes, uint64_t *out)
{
    if (r->end - r->at < bytes)
        return pkv__tok_refuse(r->t, r->at, PKV_E_FORMAT, "the message ends within a number");
    *out = 0;
    for (size_t k = 0; k < bytes; k++) *out |= (uint64_t)r->data[r->at++] << (8 * k);
    return PKV_OK;
}

static pkv_status read_field(reader *r, field *f)
{
    uint64_t tag = 0;
    const size_t begin = r->at;
    pkv_status status = read_varint(r, &tag);
    if (status != PKV_OK) return status;
    f->wire = (uint32_t)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return pkv__tok_refuse(r->t, begin, PKV_E_FORMAT, "no such field number");
    f->number = (uint32_t)(tag >> 3);
    if (f->wire == 0) return read_varint(r, &f->value);
    if (f->wire == 1) return read_fixed(r, 8, &f->value);
    if (f->wire == 5) return read_fixed(r, 4, &f->value);
    if (f->wire != 2)
        return pkv__tok_refuse(r->t, begin, PKV_E_FORMAT, "wire type %u is not known", f->wire);
    uint64_t bytes = 0;
    const size_t at = r->at;
    status = read_varint(r, &bytes);
    if (status != PKV_OK) return status;
    if (bytes > r->end - r->at)
        return pkv__tok_refuse(r->t, at, PKV_E_FORMAT,
                               "a field of %llu bytes ends behind its message",
                               (unsigned long long)bytes);
    f->at = r->at;
    f->bytes = (size_t)bytes;
    r->at += f->bytes;
    return PKV_OK;
}

static pkv_status expect(const reader *r, const field *f, uint32_t wire)
{
    if (f->wire == wire) return PKV_OK;
    return pkv__tok_refuse(r->t, r->at, PKV_E_FORMAT, "field %u has wire type %u instead of %u",
                           f->number, f->wire, wire);
}

/* ---------------------------------------------------------------- pieces */

static pkv_status read_piece(pkv_tokenizer *t, const reader *outer, const field *message)
{
    reader r = { t, outer->data, message->at, message->at + message->bytes };
    field f, text = { 0 };
    float score = 0;
    uint64_t type = PKV__PIECE_NORMAL;
    while (r.at < r.end) {
        pkv_status status = read_field(&r, &f);
        if (status == PKV_OK && f.number >= 1 && f.number <= 3)
            status = expect(&r, &f, f.number == 1 ? 2 : f.number == 2 ? 5 : 0);
        if (status != PKV_OK) return status;
        if (f.number == 1) text = f;
        if (f.number == 2) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&score, &bits, sizeof(score));
        }
        if (f.number == 3) type = f.value;
    }
    if (text.bytes == 0)
        return pkv__tok_refuse(t, message->at, PKV_E_FORMAT, "a piece without text");
    if (type < PKV__PIECE_NORMAL || type > PKV__PIECE_BYTE)
        return pkv__tok_refuse(t, message->at, PKV_E_FORMAT, "a piece of type %llu",
                               (unsigned long long)type);
    if (isnan(score))
        return pkv__tok_refuse(t, message->at, PKV_E_FORMAT, "a score that is no number");
    const pkv_status status = pkv__tok_set_spm(t, (int32_t)t->n_pieces, r.data + text.at,
                                               text.bytes, score, (pkv__piece_type)type);
    if (status == PKV_E_FORMAT)
        return pkv__tok_refuse(t, text.at, status, "piece %zu is no new byte <0xNN>", t->n_pieces);
    return status;
}

/* ---------------------------------------------------------------- what it was trained with */

typedef struct settings {
    uint64_t model_type, suffix, prefix, drop_spaces, escape;
    size_t map_bytes;
    int64_t unk, bos, eos, pad;
} settings;

static pkv_status read_trainer(const reader *outer, const field *message, settings *s)
{
    reader r = { outer->t, outer->data, message->at, message->at + message->bytes };
    field f;
    while (r.at < r.end) {
        pkv_status status = read_field(&r, &f);
        const bool wanted = f.number == 3 || f.number == 24 || (f.number >= 40 && f.number <= 43);
        if (status == PKV_OK && wanted) status = expect(&r, &f, 0);
        if (status != PKV_OK) return status;
        if (f.number == 3) s->model_type = f.value;
        if (f.number == 24) s->suffix = f.value;
        if (f.number == 40) s->unk = (int64_t)f.value;
        if (f.number == 41) s->bos = (int64_t)f.value;
        if (f.number == 42) s->eos = (int64_t)f.value;
        if (f.number == 43) s->pad = (int64_t)f.value;
    }
    return PKV_OK;
}

static pkv_status read_normaliser(const reader *outer, const field *message, settings *s)
{
    reader r = { outer->t, outer->data, message->at, message->at + message->bytes };
    field f;
    while (r.at < r.end) {
        pkv_status status = read_field(&r, &f);
        if (status == PKV_OK && f.number >= 2 && f.number <= 5)
            status = expect(&r, &f, f.number == 2 ? 2 : 0);
        if (status != PKV_OK) return status;
        if (f.number == 2) s->map_bytes = f.bytes;
        if (f.number == 3) s->prefix = f.value;
        if (f.number == 4) s->drop_spaces = f.value;
        if (f.number == 5) s->escape = f.value;
    }
    return PKV_OK;
}

static pkv_status check_settings(const pkv_tokenizer *t, const settings *s)
{
    static const char *const names[] = { "0", "unigram", "BPE", "word", "character" };
    const char *what = NULL;
    if (s->model_type != 2) {
        const char *name = s->model_type <= 4 ? names[s->model_type] : "unknown";
        return pkv__refuse(&t->log, PKV_E_UNSUPPORTED, "%.64s: a %s model; offered are BPE models",
                           t->name, name);
    }
    if (s->suffix) what = "spaces as suffixes";
    if (s->map_bytes > 0) what = "a normaliser with a character map";
    if (s->drop_spaces) what = "a normaliser that removes extra spaces";
    if (!s->escape) what = "spaces that are not escaped";
    if (!what) return PKV_OK;
    return pkv__refuse(&t->log, PKV_E_UNSUPPORTED, "%.64s: %s: not offered", t->name, what);
}

static pkv_status take_id(const pkv_tokenizer *t, int64_t id, const char *what, int32_t *out)
{
    *out = -1;
    if (id < 0) return PKV_OK;
    if ((uint64_t)id >= t->n_pieces)
        return pkv__tok_refuse(t, 0, PKV_E_FORMAT, "%s id %lld, of %zu pieces", what, (long long)id,
                               t->n_pieces);
    *out = (int32_t)id;
    return PKV_OK;
}

static pkv_status take_settings(pkv_tokenizer *t, const settings *s)
{
    pkv_status status = check_settings(t, s);
    if (status == PKV_OK) status = take_id(t, s->unk, "unknown", &t->unk);
    if (status == PKV_OK) status = take_id(t, s->bos, "begin", &t->bos);
    if (status == PKV_OK) status = take_id(t, s->eos, "end", &t->eos);
    if (status == PKV_OK) status = take_id(t, s->pad, "padding", &t->pad);
    t->space_prefix = s->prefix != 0;
    t->adds_bos = t->bos >= 0;
    return status;
}

pkv_status pkv__tok_read_spm(pkv_tokenizer *t, const uint8_t *data, size_t n)
{
    reader r = { t, data, 0, n };
    settings s = {
        .model_type = 1, .prefix = 1, .drop_spaces = 1, .escape = 1, .bos = 1, .eos = 2, .pad = -1
    };
    field f;
    t->source = "sentencepiece";
    t->is_spm = true;
    t->rule = PKV__RULE_SCORES;
    t->fuse_unk = true;
    while (r.at < r.end) {
        pkv_status status = read_field(&r, &f);
        if (status == PKV_OK && f.number >= 1 && f.number <= 3) status = expect(&r, &f, 2);
        if (status == PKV_OK && f.number == 1) status = read_piece(t, &r, &f);
        if (status == PKV_OK && f.number == 2) status = read_trainer(&r, &f, &s);
        if (status == PKV_OK && f.number == 3) status = read_normaliser(&r, &f, &s);
        if (status != PKV_OK) return status;
    }
    if (t->n_pieces == 0) return pkv__tok_refuse(t, 0, PKV_E_FORMAT, "no piece");
    const pkv_status status = take_settings(t, &s);
    return status == PKV_OK ? pkv__tok_index(t) : status;
}
