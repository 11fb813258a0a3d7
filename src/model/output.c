/* Stop texts over decoded pieces. What is held is one tail of the text: from the first place at
 * which a stop text has begun and may still become whole. A stop text that is complete behind that
 * place has to wait, since an earlier one would win. A place is looked at by comparing bytes: stop
 * texts are few and short, and nearly all places fail at the first byte. */
#include "model/output.h"

#include <string.h>

void pkv__output_init(pkv__output *out, const pkv_tokenizer *tok, const pkv__stop_texts *stops)
{
    out->stops = stops;
    out->n_held = 0;
    pkv_detok_init(&out->detok, tok, true);
}

void pkv__output_follow(pkv__output *out, const int32_t *prompt, int32_t n_prompt)
{
    const char *bytes;
    int32_t n;
    bool special;
    for (int32_t i = n_prompt - 1; out->detok.tok && i >= 0 && !out->detok.started; i--)
        if (pkv_tokenizer_piece(out->detok.tok, prompt[i], &bytes, &n, &special) == PKV_OK)
            out->detok.started = !special && n > 0;
}

int32_t pkv__output_room(const pkv_tokenizer *tok)
{
    int32_t longest = 0;
    pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
    if (tok && pkv_tokenizer_get_info(tok, &info) == PKV_OK) {
        for (int32_t id = 0; id < info.n_ids; id++) {
            const char *bytes;
            int32_t n;
            bool special;
            if (pkv_tokenizer_piece(tok, id, &bytes, &n, &special) == PKV_OK)
                longest = pkv__max_i32(longest, n);
        }
    }
    const int64_t room = PKV__MAX_STOP_BYTES + 3 * (int64_t)longest + 12;
    return room < INT32_MAX ? (int32_t)room : INT32_MAX;
}

/* What stop texts say about one place of the text. */
typedef enum verdict { NOTHING, BEGUN, COMPLETE } verdict;

static verdict look_at(const pkv__stop_texts *stops, const char *text, int32_t n)
{
    verdict found = NOTHING;
    for (int32_t k = 0; k < stops->n; k++) {
        const int32_t n_stop = stops->n_bytes[k];
        if (stops->text[k][0] != text[0]) continue;
        if (memcmp(stops->text[k], text, (size_t)pkv__min_i32(n_stop, n)) != 0) continue;
        if (n_stop <= n) return COMPLETE;
        found = BEGUN;
    }
    return found;
}

/* The first place that is worth something, n where there is none. At the end of the output what
 * has only begun is worth nothing. */
static int32_t first_place(const pkv__stop_texts *stops, const char *text, int32_t n, bool at_end,
                           bool *complete)
{
    *complete = false;
    if (!stops || stops->n == 0) return n;
    for (int32_t at = 0; at < n; at++) {
        const verdict v = look_at(stops, text + at, n - at);
        *complete = v == COMPLETE;
        if (*complete || (v == BEGUN && !at_end)) return at;
    }
    return n;
}

/* `text` is what was held and what came to it, n bytes. */
static void settle(pkv__output *out, const char *text, int32_t n, bool at_end, int32_t *n_shown,
                   bool *stopped)
{
    *n_shown = first_place(out->stops, text, n, at_end, stopped);
    out->n_held = *stopped ? 0 : n - *n_shown;
    PKV_ASSERT(out->n_held < PKV__MAX_STOP_BYTES);
    if (out->n_held > 0) memcpy(out->held, text + *n_shown, (size_t)out->n_held);
}

void pkv__output_put(pkv__output *out, int32_t id, char *piece, int32_t *n, bool *stopped)
{
    int32_t n_new = 0;
    if (out->n_held > 0) memcpy(piece, out->held, (size_t)out->n_held);
    /* A model may have more ids than its tokenizer: those have no text. */
    if (!out->detok.tok ||
        pkv_detok_put(&out->detok, id, piece + out->n_held, INT32_MAX, &n_new) != PKV_OK)
        n_new = 0;
    settle(out, piece, out->n_held + n_new, false, n, stopped);
}

void pkv__output_flush(pkv__output *out, char *piece, int32_t *n, bool *stopped)
{
    int32_t n_new = 0;
    if (out->n_held > 0) memcpy(piece, out->held, (size_t)out->n_held);
    if (pkv_detok_flush(&out->detok, piece + out->n_held, 12, &n_new) != PKV_OK) n_new = 0;
    settle(out, piece, out->n_held + n_new, true, n, stopped);
}
