/* Decoding id by id. `held` is the beginning of a character that may still become one; a byte that
 * does not continue it gives one U+FFFD for all that is held, as the usual decoders do (one for
 * each maximal part). */
#include "model/tok_internal.h"

void pkv_detok_init(pkv_detok *d, const pkv_tokenizer *tok, bool skip_special)
{
    *d = (pkv_detok){ .tok = tok, .skip_special = skip_special };
}

/* Where the text goes; counted only while `to` is NULL. */
typedef struct sink {
    char *to;
    int64_t n;
} sink;

static void emit(sink *s, const void *bytes, size_t n)
{
    if (s->to) memcpy(s->to + s->n, bytes, n);
    s->n += (int64_t)n;
}

static int32_t char_bytes(uint8_t lead)
{
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) return 3;
    return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

/* Whether b may follow what is held: the second byte has narrower bounds after some leads. */
static bool continues(const pkv_detok *d, uint8_t b)
{
    uint8_t low = 0x80, high = 0xBF;
    if (d->n_held == 1) {
        if (d->held[0] == 0xE0) low = 0xA0;
        if (d->held[0] == 0xED) high = 0x9F;
        if (d->held[0] == 0xF0) low = 0x90;
        if (d->held[0] == 0xF4) high = 0x8F;
    }
    return b >= low && b <= high;
}

static void give_up_held(pkv_detok *d, sink *s)
{
    if (d->n_held > 0) emit(s, "\xEF\xBF\xBD", 3);
    d->n_held = 0;
}

static void put_byte(pkv_detok *d, uint8_t b, sink *s)
{
    if (d->n_held > 0 && !continues(d, b)) give_up_held(d, s);
    if (d->n_held == 0 && char_bytes(b) == 0) {
        emit(s, "\xEF\xBF\xBD", 3);
        return;
    }
    d->held[d->n_held++] = b;
    if (d->n_held == char_bytes(d->held[0])) {
        emit(s, d->held, (size_t)d->n_held);
        d->n_held = 0;
    }
}

static void put_piece(pkv_detok *d, const pkv__piece *p, sink *s)
{
    const uint8_t *bytes = d->tok->text + p->at;
    int32_t from = 0;
    if (pkv__piece_special(p)) {
        if (d->skip_special) return;
    } else if (!d->started && p->bytes > 0) {
        from = d->tok->space_prefix && p->type == PKV__PIECE_NORMAL && bytes[0] == ' ';
        d->started = true;
    }
    for (int32_t k = from; k < p->bytes; k++) put_byte(d, bytes[k], s);
}

pkv_status pkv_detok_put(pkv_detok *d, int32_t id, char *out, int32_t cap, int32_t *n)
{
    if (!d || !d->tok || (!out && cap > 0) || cap < 0 || !n || d->n_held < 0 || d->n_held > 3)
        return PKV_E_INVALID_ARG;
    if (id < 0 || (size_t)id >= d->tok->n_pieces || d->tok->pieces[id].type == PKV__PIECE_NONE)
        return PKV_E_RANGE;
    const pkv__piece *p = &d->tok->pieces[id];
    pkv_detok after = *d;
    sink s = { NULL, 0 };
    put_piece(&after, p, &s);
    if (s.n > INT32_MAX) return PKV_E_LIMIT;
    *n = (int32_t)s.n;
    if (s.n > cap) return PKV_E_LIMIT;
    if (s.n == 0) {
        *d = after;
        return PKV_OK;
    }
    s = (sink){ out, 0 };
    put_piece(d, p, &s);
    return PKV_OK;
}

pkv_status pkv_detok_flush(pkv_detok *d, char *out, int32_t cap, int32_t *n)
{
    if (!d || (!out && cap > 0) || cap < 0 || !n) return PKV_E_INVALID_ARG;
    const int32_t need = d->n_held > 0 ? 3 : 0;
    *n = need;
    if (need > cap) return PKV_E_LIMIT;
    sink s = { out, 0 };
    give_up_held(d, &s);
    return PKV_OK;
}
