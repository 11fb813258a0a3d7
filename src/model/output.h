/* What of a sample's output is final: text pieces, held back where a stop text may begin.
 *
 *   id --pkv_detok--> bytes --stop texts--> piece that can be shown | stop found
 *
 * No memory of its own beyond the struct: a stop text has at most 256 bytes, so 256 held bytes and
 * one piece are the most there is. */
#ifndef PKV_MODEL_OUTPUT_H
#define PKV_MODEL_OUTPUT_H

#include "common/common.h"
#include "pagedkv/tokenizer.h"

enum { PKV__MAX_STOP_BYTES = 256, PKV__MAX_STOP_TEXTS = 16 };

/* The stop texts of one request, shared by its samples. */
typedef struct pkv__stop_texts {
    int32_t n;
    int32_t n_bytes[PKV__MAX_STOP_TEXTS];
    const char *text[PKV__MAX_STOP_TEXTS]; /* the request's */
} pkv__stop_texts;

typedef struct pkv__output {
    pkv_detok detok;
    const pkv__stop_texts *stops; /* NULL: none */
    int32_t n_held;
    char held[PKV__MAX_STOP_BYTES]; /* decoded, not shown: the longest tail that may begin a stop */
} pkv__output;

/* `tok` NULL: ids only, every piece is empty. */
void pkv__output_init(pkv__output *out, const pkv_tokenizer *tok, const pkv__stop_texts *stops);
/* Before the first put: the output goes on behind a prompt. Where that holds text, a space that the
 * output begins with is one between words; behind special tokens alone it is none (SentencePiece
 * puts one before every text). O(1) but for prompts that end in special tokens. */
void pkv__output_follow(pkv__output *out, const int32_t *prompt, int32_t n_prompt);
/* Bytes that one put or flush needs at most, for this tokenizer (NULL: none). O(ids): ask once. */
int32_t pkv__output_room(const pkv_tokenizer *tok);

/* The next id. *n bytes of `piece` are final now; *stopped: a stop text is complete, the piece ends
 * in front of its first byte and the output is over. The earliest stop in the text wins: one that
 * is complete waits while an earlier one may still become so. An id without a piece has no text, as
 * special tokens have none. `piece` has room for pkv__output_room bytes. O((bytes held and new) *
 * stop texts), each mostly one comparison. */
void pkv__output_put(pkv__output *out, int32_t id, char *piece, int32_t *n, bool *stopped);
/* The end without a stop text: what was held back. A stop text may still complete here: one that
 * waited, or by the U+FFFD of a character that stayed unfinished. */
void pkv__output_flush(pkv__output *out, char *piece, int32_t *n, bool *stopped);

#endif
