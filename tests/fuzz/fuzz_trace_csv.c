/* Fuzz target: the CSV reader of traces. */
#include "fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_trace(data, size);
    return 0;
}

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define ROW "2023-11-16 18:15:46.6805900,374,44\n"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("\n"),
    FUZZ_SEED("\""),
    FUZZ_SEED("\xef\xbb\xbf"),
    FUZZ_SEED("\xef\xbb\xbf\r\n\r\n" AZURE ROW ROW),
    FUZZ_SEED("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44"),
    FUZZ_SEED(AZURE "2023-11-16T18:15:46Z,7.0,1e3\n2023-11-16T18:15:45+01:30,1,1\n" AZURE ",,\n"),
    FUZZ_SEED(AZURE
              "\"2023-11-16 18:15:46\",\"37\"\"4\",44\n\"\"\"\"\"\",\"\",\n\"unclosed,1,1\n" ROW),
    FUZZ_SEED(AZURE "2023-11-16 18:15:46,99999999999999999999,1e-5\n1,2,3,4,5\n\0\n,\n" ROW),
    FUZZ_SEED("arrived_at,num_prefill_tokens,num_decode_tokens\n5,1,1\n7,2,1\n1e9,3,1\n-4,5,1\n"),
    FUZZ_SEED("num_prefill_tokens,num_decode_tokens\n7564.0,12.5\n1,1\n"),
    FUZZ_SEED("Timestamp,Request tokens,Response tokens\n19440110.0,472,18\n1e27,1,1\nnan,1,1\n"),
    FUZZ_SEED("arrival_timestamp,prompt_size,token_size\n0.1,1,1\n0.1,1,1\n,1,1\n"),
    FUZZ_SEED(
        "Timestamp,Model,Request tokens,Response tokens\n5,GPT-4,4,4\n6,ChatGPT,4,0\n7,GPT-4,1024,"
        "1024\n"),
    FUZZ_SEED("input,output\n1,2\n3,4\n"),
    FUZZ_SEED("arrived_at,input,output\n2023-11-16 18:15:46,1,2\n7,3,4\n"),
    FUZZ_SEED("TIMESTAMP;ContextTokens;GeneratedTokens\n"),
    FUZZ_SEED(",,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);

const char *const fuzz_words[] = {
    ",",   "\"",  "\r\n", "\n", "0",   "1e9", ".5",   "-",     "Z",          "+01:00",
    "e-3", "nan", " ",    ROW,  AZURE, "\t",  "\"\"", "2199-", "2147483648", "arrived_at",
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
