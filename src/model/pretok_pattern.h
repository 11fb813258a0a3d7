/* Splitting by an expression out of a file (PCRE2), and Unicode normal forms (utf8proc). Both take
 * any bytes: what is no character stands alone and unchanged. */
#ifndef PKV_MODEL_PRETOK_PATTERN_H
#define PKV_MODEL_PRETOK_PATTERN_H

#include "model/tok_internal.h"

/* PKV_E_FORMAT with a log line: does not compile. PKV_E_NO_MEMORY. */
PKV_NODISCARD pkv_status pkv__pattern_create(const pkv_tokenizer *t, const char *expression,
                                             size_t bytes, pkv__pattern **out);
void pkv__pattern_destroy(pkv__pattern *p);

typedef pkv_status (*pkv__word_fn)(pkv__tok_work *w, const uint8_t *word, size_t n);
/* Matches and what lies between them, in order. Where matching takes too many steps the rest of the
 * text is one word. */
PKV_NODISCARD pkv_status pkv__pattern_words(const pkv__pattern *p, pkv__tok_work *w,
                                            const uint8_t *text, size_t n, pkv__word_fn fn);

/* The text in normal form; *out is freed with free(). */
PKV_NODISCARD pkv_status pkv__normalise(pkv__normaliser form, const uint8_t *text, size_t n,
                                        uint8_t **out, size_t *n_out);

#endif
