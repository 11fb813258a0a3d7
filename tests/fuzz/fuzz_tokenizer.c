/* Fuzz target: the readers of tokenizers, and encoding. The first byte chooses the format; what
 * opens encodes the input itself. Beyond not crashing: ids exist, the rule for `cap` holds,
 * byte-level pieces joined are the text, and decoding piece by piece stays within its bound. */
#include "fuzz.h"

#include "model/tok_internal.h"
#include "pagedkv/tokenizer.h"

#include <string.h>

static const char *const names[] = { "a.model", "a.tiktoken", "a.gguf", "tokenizer.json",
                                     "a.bin",   "vocab.bpe",  "a" };
#define N_NAMES (sizeof(names) / sizeof(names[0]))

/* Whether the pieces, one after the other, are the text. */
static void check_ids(const pkv_tokenizer *t, const int32_t *ids, int32_t n, const uint8_t *text,
                      size_t size, bool byte_level)
{
    size_t at = 0;
    pkv_detok d;
    pkv_detok_init(&d, t, false);
    for (int32_t k = 0; k < n; k++) {
        const char *piece;
        int32_t bytes, got;
        bool special;
        FUZZ_REQUIRE(pkv_tokenizer_piece(t, ids[k], &piece, &bytes, &special) == PKV_OK);
        if (byte_level) {
            FUZZ_REQUIRE(at + (size_t)bytes <= size);
            FUZZ_REQUIRE(memcmp(text + at, piece, (size_t)bytes) == 0);
        }
        at += (size_t)bytes;
        const size_t cap = 3 * (size_t)bytes + 12;
        char *out = malloc(cap);
        FUZZ_REQUIRE(out);
        FUZZ_REQUIRE(pkv_detok_put(&d, ids[k], out, (int32_t)cap, &got) == PKV_OK);
        free(out);
    }
    FUZZ_REQUIRE(!byte_level || at == size);
}

static void encode(const pkv_tokenizer *t, const uint8_t *text, size_t size, uint32_t flags)
{
    pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
    int32_t n, m;
    FUZZ_REQUIRE(pkv_tokenizer_get_info(t, &info) == PKV_OK);
    const size_t cap = (t->normaliser == PKV__NORM_NONE ? size : 20 * size) + 3;
    int32_t *ids = malloc(cap * sizeof(*ids));
    FUZZ_REQUIRE(ids);
    FUZZ_REQUIRE(pkv_tokenizer_encode(t, (const char *)text, size, flags, ids, (int32_t)cap, &n) ==
                 PKV_OK);
    FUZZ_REQUIRE(n >= 0 && (size_t)n <= cap);
    if (n > 0) {
        FUZZ_REQUIRE(pkv_tokenizer_encode(t, (const char *)text, size, flags, ids, n - 1, &m) ==
                     PKV_E_LIMIT);
        FUZZ_REQUIRE(m == n);
    }
    const bool exact = strcmp(info.kind, "bpe") == 0 && info.unk < 0 && info.n_added == 0 &&
                       flags == 0 && t->normaliser == PKV__NORM_NONE;
    check_ids(t, ids, n, text, size, exact);
    free(ids);
}

/* A file needs all 256 bytes; they are put before the lines of the input. */
#define BYTE_LINE 9
static uint8_t *with_bytes(const uint8_t *lines, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *file = malloc((size_t)256 * BYTE_LINE + n);
    FUZZ_REQUIRE(file);
    for (int b = 0; b < 256; b++) {
        char line[BYTE_LINE + 1];
        snprintf(line, sizeof(line), "%c%c== %03d\n", digits[b >> 2], digits[b << 4 & 63], b);
        memcpy(file + (size_t)b * BYTE_LINE, line, BYTE_LINE);
    }
    if (n > 0) memcpy(file + (size_t)256 * BYTE_LINE, lines, n);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const char *name = names[data[0] % N_NAMES];
    const uint8_t *file = data + 1, *beside = NULL;
    uint8_t *made = NULL;
    size_t n = size - 1, n_beside = 0;
    pkv_tokenizer *t = NULL;
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    if (strcmp(name, "a.bin") == 0) cfg.vocab_size = 259 + data[0] / 7;
    if (strcmp(name, "a.tiktoken") == 0 || strcmp(name, "a") == 0)
        cfg.splitter = data[0] & 128 ? "llama3" : "gpt2";
    if (strcmp(name, "a.tiktoken") == 0) {
        file = made = with_bytes(file, n);
        n += (size_t)256 * BYTE_LINE;
    }
    if (strcmp(name, "vocab.bpe") == 0) { /* merges, a zero byte, encoder.json */
        beside = n > 0 ? memchr(file, 0, n) : NULL;
        if (!beside) return 0;
        n_beside = n - (size_t)(beside + 1 - file);
        n = (size_t)(beside - file);
        beside++;
    }
    const pkv_status status = pkv__tokenizer_open_memory(&cfg, name, file, n, beside, n_beside, &t);
    free(made);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT || status == PKV_E_UNSUPPORTED);
    if (status != PKV_OK) return 0;
    const size_t some = size < 4096 ? size : 4096;
    encode(t, data, some, 0);
    encode(t, data, some, PKV_TOK_ADD_SPECIAL | PKV_TOK_PARSE_SPECIAL);
    pkv_tokenizer_close(t);
    return 0;
}

#define UNK "\x0A\x07\x0A\x03<u>\x18\x02"
#define PIECE_A                                                                                    \
    "\x0A\x0A\x0A\x01"                                                                             \
    "a\x15\0\0\x80\xBF\x18\x01"
#define PIECE_B                                                                                    \
    "\x0A\x0A\x0A\x01"                                                                             \
    "b\x15\0\0\0\xC0\x18\x01"
#define PIECE_AB                                                                                   \
    "\x0A\x0B\x0A\x02"                                                                             \
    "ab\x15\0\0\0\xBF\x18\x01"
#define SETTINGS "\x12\x02\x18\x02\x1A\x02\x20\x00"
#define JSON(more)                                                                                 \
    "\x03{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"b\":2,"     \
    "\"ab\":3,\"<s>\":4},\"merges\":[\"a b\"]},\"pre_tokenizer\":{\"type\":\"ByteLevel\"}" more    \
    "}"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("\0" UNK PIECE_A PIECE_B PIECE_AB SETTINGS),
    FUZZ_SEED("\0" UNK "\x0A\x0C\x0A\x06<0x61>\x18\x06" PIECE_B SETTINGS),
    FUZZ_SEED("\0" SETTINGS UNK "\x0A\x07\x0A\x03<s>\x18\x03\x0A\x07\x0A\x03</s\x18\x04"),
    FUZZ_SEED("\1YWI= 256\nYWFh 257\n\nYWE= 300\nICA= 301\nYWJh 302\naGU= 303\n"),
    FUZZ_SEED("\6IQ== 0\r\n\r\nIg== 7"),
    FUZZ_SEED("\2GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    FUZZ_SEED(JSON("")),
    FUZZ_SEED(JSON(",\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":[{\"id\":4,\"content\":"
                   "\"<s>\",\"special\":true,\"rstrip\":true,\"single_word\":true}]")),
    FUZZ_SEED(
        "\3{\"model\":{\"vocab\":{\"u\":0,\"ab\":1},\"unk_token\":\"u\",\"type\":\"BPE\","
        "\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
        "\"Split\",\"pattern\":{\"Regex\":\"(a|b)+|\\\\p{L}\"},\"behavior\":\"Isolated\"},"
        "{\"type\":\"ByteLevel\",\"use_regex\":false}]}}"),
    FUZZ_SEED("\5#version: 0.2\na b\n\0{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3}"),
    FUZZ_SEED("\4\3\0\0\0\0\0\0\0\1\0\0\0a"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);

const char *const fuzz_words[] = {
    "\x0A",        "\x15",
    "\x18\x06",    "\x18\x04",
    "IQ== ",       "\n",
    " ",           "\"",
    "\"type\":",   "[",
    "]",           "{",
    "}",           "null",
    "true",        "\xE2\x96\x81",
    "<0x62>",      "a b",
    ",",           "\"Prepend\"",
    "\"Replace\"", "\"Metaspace\"",
    "(?i:",        "\\\\p{N}{1,3}",
    "\xFF",        "<s>",
    "ab",          "\"ids\":",
    "1000000000",  "-1",
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
