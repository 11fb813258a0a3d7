/* Fuzz target: the reader of traces in JSON lines. */
#include "fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace(data, size);
    return 0;
}

#define MOONCAKE                                                                                   \
    "{\"timestamp\": 100, \"input_length\": 700, \"output_length\": 9, \"hash_ids\": [5, 6]}\n"
#define QWEN                                                                                       \
    "{\"chat_id\": 1, \"parent_chat_id\": -1, \"timestamp\": 61.114, \"input_length\": 17, "       \
    "\"output_length\": 5, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [1, 2]}\n"
#define SERVING                                                                                    \
    "{\"input_toks\":4,\"output_toks\":70,\"arrival_time_ns\":46926808,\"input_tok_ids\":[1,2,3,"  \
    "4],\"output_tok_ids\":[11,12]}\n"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED("{"),
    FUZZ_SEED("{}"),
    FUZZ_SEED("\xef\xbb\xbf\r\n " MOONCAKE MOONCAKE),
    FUZZ_SEED(MOONCAKE "{\"hash_ids\":[6,7],\"output_length\":9,\"input_length\":700,\"timestamp\":"
                       "50}"),
    FUZZ_SEED(MOONCAKE MOONCAKE "{\"timestamp\": 90, \"input_length\": 512, \"output_length\": 0, "
                                "\"hash_ids\": [18446744073709551615]}\n"),
    FUZZ_SEED(MOONCAKE
              "{\"timestamp\": 200, \"input_length\": 5e2, \"output_length\": 1.0, "
              "\"hash_ids\": [-9223372036854775808], \"x\": {\"a\": [1, {\"b\": null}]}}\n"),
    FUZZ_SEED(QWEN QWEN),
    FUZZ_SEED(QWEN
              "{\"chat_id\": 1, \"timestamp\": 1e2, \"input_length\": 1, \"output_length\": 1, "
              "\"hash_ids\": []}\n"),
    FUZZ_SEED(SERVING SERVING),
    FUZZ_SEED("{\"input_toks\": 1, \"output_toks\": 2, \"arrival_time_ns\": 3}\n" SERVING),
    FUZZ_SEED("{\"session_id\": \"a\", \"arrival_time_ns\": 4, \"sub_requests\": []}\n"),
    FUZZ_SEED("{\"time\\u0073tamp\": 1, \"input_length\": 512, \"output_length\": 1, \"hash_ids\": "
              "[1], \"a\": \"\\ud83d\\ude00\\n\xc3\xa9\"}\n"),
    FUZZ_SEED("{\"input\": 1, \"output\": 2}\n{\"input\": 1, \"input\": 2}\n{\"input\": 3}\n"),
    FUZZ_SEED("{\"TIMESTAMP\": \"2023-11-16 18:15:46\", \"ContextTokens\": 1, \"GeneratedTokens\": "
              "2}\n"),
    FUZZ_SEED(
        "{\"Timestamp\": 1, \"Model\": \"GPT-4\", \"Request tokens\": 8, \"Response tokens\": "
        "8}\n"),
    FUZZ_SEED("{\"arrived_at\": 1, \"input\": 2, \"output\": 3}\n"),
    FUZZ_SEED("[" MOONCAKE "]"),
    FUZZ_SEED(MOONCAKE
              "{\"a\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);

const char *const fuzz_words[] = {
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\n",
    "\\u00",
    "\\ud800",
    "null",
    "true",
    "1e9",
    "-1",
    "0",
    " ",
    "\r\n",
    ".5",
    "\xc3\xa9",
    "\xff",
    "\\",
    "[1,2]",
    "9223372036854775808",
    "\"timestamp\":",
    "\"hash_ids\":",
    "\"input_length\":",
    MOONCAKE,
    QWEN,
    SERVING,
    "\"chat_id\":1,",
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
