/* Fuzz target: GGUF, and llama2.c, which is what a file without any mark is taken for. */
#include "fuzz.h"
#include "tensor_file_laws.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tensor_file_laws(data, size, "a.gguf");
    tensor_file_laws(data, size, "a.bin");
    return 0;
}

#define U32_OF(a) a "\0\0\0"
#define U64_OF(a) a "\0\0\0\0\0\0\0"
#define HEAD(n_tensors, n_keys) "GGUF\3\0\0\0" U64_OF(n_tensors) U64_OF(n_keys)
#define INT(length, name, value) U64_OF(length) name U32_OF("\4") U32_OF(value)
#define F32_1(name_length, name, offset)                                                           \
    U64_OF(name_length) name U32_OF("\1") U64_OF("\2") U32_OF("\0") U64_OF(offset)
#define PAD8 "\0\0\0\0\0\0\0\0"
#define PAD32 PAD8 PAD8 PAD8 PAD8
#define MODEL                                                                                      \
    HEAD("\0", "\7")                                                                               \
    U64_OF("\24")                                                                                  \
    "general.architecture" U32_OF("\10")                                                           \
        U64_OF("\5") "llama" INT("\26", "llama.embedding_length", "\10")                           \
            INT("\31", "llama.feed_forward_length", "\10") INT("\21", "llama.block_count", "\1")   \
                INT("\32", "llama.attention.head_count", "\2")                                     \
                    U64_OF("\46") "llama.attention.layer_norm_rms_epsilon" U32_OF(                 \
                        "\6") "\xac\xc5\x27\x37" INT("\24", "llama.context_length", "\10")

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("GGUF"),
    FUZZ_SEED(HEAD("\0", "\0")),
    FUZZ_SEED(HEAD("\0", "\1") INT("\21", "general.alignment", "\10")),
    FUZZ_SEED(HEAD("\1", "\0") F32_1("\1", "a", "\0") PAD32 PAD32),
    FUZZ_SEED(HEAD("\2", "\0") F32_1("\1", "a", "\0") F32_1("\1", "b", "\40") PAD32 PAD32 PAD32),
    FUZZ_SEED(HEAD("\1", "\1") INT("\21", "general.alignment", "\10") F32_1("\1", "q", "\10")
                  PAD32),
    FUZZ_SEED(HEAD("\0", "\1") U64_OF("\1") "k" U32_OF("\11") U32_OF("\10") U64_OF("\2")
                  U64_OF("\1") "x" U64_OF("\0")),
    FUZZ_SEED(HEAD("\0", "\1") U64_OF("\1") "k" U32_OF("\11") U32_OF("\2") U64_OF("\3") "123456"),
    FUZZ_SEED(HEAD("\0", "\1") U64_OF("\13") "split.count" U32_OF("\2") "\3\0"),
    FUZZ_SEED(MODEL),
    FUZZ_SEED(MODEL INT("\20", "llama.vocab_size", "\10")),
    FUZZ_SEED(HEAD("\377", "\377") PAD32),
    /* dim 2, hidden 1, 1 layer, 1 head, 1 kv head, 1 token, 1 position: 34 floats */
    FUZZ_SEED(U32_OF("\2") U32_OF("\1") U32_OF("\1") U32_OF("\1") U32_OF("\1") U32_OF("\1")
                  U32_OF("\1") PAD32 PAD32 PAD32 PAD32 PAD8),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);

const char *const fuzz_words[] = {
    "GGUF",
    "\1",
    "\2",
    "\3",
    "\4",
    "\5",
    "\6",
    "\7",
    "\10",
    "\11",
    "\12",
    "\13",
    "\14",
    "\16",
    "\36",
    "\40",
    "\377\377\377\377",
    "\377\377\377\377\377\377\377\377",
    "general.alignment",
    "general.architecture",
    "llama",
    "llama.vocab_size",
    "llama.attention.head_count_kv",
    "llama.rope.scaling.type",
    "split.count",
    "split.no",
    "tokenizer.ggml.tokens",
    "rope_freqs.weight",
    "token_embd.weight",
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
