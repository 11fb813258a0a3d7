/* What a fuzz target is made of. A target is one file with LLVMFuzzerTestOneInput, the seeds and
 * the words (tokens of the grammar) that mutations are made of; tests/fuzz/meson.build lists it. */
#ifndef PKV_FUZZ_H
#define PKV_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct fuzz_seed {
    const char *bytes;
    size_t len;
} fuzz_seed;
#define FUZZ_SEED(literal)                                                                         \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

extern const fuzz_seed fuzz_seeds[];
extern const size_t fuzz_n_seeds;
extern const char *const fuzz_words[];
extern const size_t fuzz_n_words;

/* An expectation about the code under test; also checked in release builds. */
#define FUZZ_REQUIRE(cond)                                                                         \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond);                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
