/* Fuzz target: safetensors. The bytes are taken as they are, and once more with the length of the
 * header set to where its last brace is: a mutation of the text then still reaches the rules on
 * tensors. */
#include "fuzz.h"
#include "tensor_file_laws.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tensor_file_laws(data, size, "a.safetensors");
    if (size <= 8) return 0;
    const uint8_t *brace = memrchr(data + 8, '}', size - 8);
    if (!brace) return 0;
    uint8_t *copy = malloc(size);
    if (!copy) abort();
    const uint64_t length = (uint64_t)(brace + 1 - (data + 8));
    memcpy(copy, data, size);
    memcpy(copy, &length, sizeof(length));
    tensor_file_laws(copy, size, "a.safetensors");
    free(copy);
    return 0;
}

#define HEAD "\0\0\0\0\0\0\0\0" /* the second pass sets it */
#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define B "\"b\":{\"dtype\":\"BF16\",\"shape\":[1,1],\"data_offsets\":[8,10]}"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("\2\0\0\0\0\0\0\0{}"),
    FUZZ_SEED(HEAD "{}"),
    FUZZ_SEED(HEAD "{" A "}12345678"),
    FUZZ_SEED(HEAD "{" A "," B "}1234567890"),
    FUZZ_SEED(HEAD "{\"__metadata__\":{\"format\":\"pt\"}," A "}12345678"),
    FUZZ_SEED(HEAD "{\"z\":{\"dtype\":\"F16\",\"shape\":[0,3],\"data_offsets\":[0,0]}}"),
    FUZZ_SEED(HEAD "{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}1234"),
    FUZZ_SEED(HEAD
              "{\"i\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1],\"data_offsets\":[0,8]}}12345678"),
    FUZZ_SEED(HEAD "{\"\\u00e9\\n\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}1"),
    FUZZ_SEED("\377\377\377\377\377\377\377\377{}"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);

const char *const fuzz_words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "0",
    "-1",
    "4294967296",
    "9223372036854775807",
    "1e99",
    "null",
    "true",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"F32\"",
    "\"F4\"",
    "\"I32\"",
    "\"__metadata__\"",
    A,
    B,
    "[8,16]",
    "[0,0]",
    "\\u0000",
    "\\ud800",
    " ",
    "\377",
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
