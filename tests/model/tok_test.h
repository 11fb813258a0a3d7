/* What the tests of tokenizers share. */
#ifndef PKV_TESTS_TOK_TEST_H
#define PKV_TESTS_TOK_TEST_H

#include "model_test.h"

#include "model/tok_internal.h"
#include "pagedkv/tokenizer.h"

/* Open below the shared data and expect success. */
pkv_tokenizer *open_shared(const char *name, const char *splitter, int32_t vocab_size);
/* Ids of a text; free(). */
int32_t *ids_of(const pkv_tokenizer *t, const void *text, size_t n, uint32_t flags, int32_t *n_ids);
/* The text of ids, piece by piece; the caller's bytes. */
void text_of(const pkv_tokenizer *t, const int32_t *ids, int32_t n, bool skip_special, bytes *out);
/* Expect these ids. */
void expect_ids(const pkv_tokenizer *t, const char *text, uint32_t flags, const int32_t *want,
                int32_t n_want);
#define EXPECT_IDS(t, text, flags, ...)                                                            \
    do {                                                                                           \
        const int32_t want_[] = { __VA_ARGS__ };                                                   \
        expect_ids(t, text, flags, want_, (int32_t)PKV_ARRAY_LEN(want_));                          \
    } while (0)
/* Open bytes in memory as a file of that name and expect success. */
pkv_tokenizer *open_bytes(const bytes *b, const char *name, const char *splitter);
/* Expect a refusal that says `says`, and, if it is PKV_E_FORMAT, a byte or a line. */
void expect_tok_refused(const bytes *b, const char *name, const char *splitter, int32_t vocab_size,
                        pkv_status want, const char *says);

#endif
