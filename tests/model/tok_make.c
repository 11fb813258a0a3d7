#include "tok_make.h"

void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

/* ---------------------------------------------------------------- SentencePiece */

void put_varint(bytes *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) put(b, &(uint8_t){ (uint8_t)(v | 0x80) }, 1);
    put(b, &(uint8_t){ (uint8_t)v }, 1);
}

void put_field(bytes *b, uint32_t number, const void *data, size_t n)
{
    put_varint(b, number << 3 | 2);
    put_varint(b, n);
    put(b, data, n);
}

void put_number(bytes *b, uint32_t number, uint64_t v)
{
    put_varint(b, number << 3);
    put_varint(b, v);
}

void put_piece(bytes *b, const char *text, float score, int type)
{
    bytes p = { 0 };
    put_field(&p, 1, text, strlen(text));
    put_varint(&p, 2 << 3 | 5);
    put(&p, &score, 4);
    put_number(&p, 3, (uint64_t)type);
    put_field(b, 1, p.data, p.n);
    bytes_free(&p);
}

void put_settings(bytes *b, int model_type)
{
    bytes trainer = { 0 }, normaliser = { 0 };
    put_number(&trainer, 3, (uint64_t)model_type);
    put_number(&normaliser, 4, 0);
    put_field(b, 2, trainer.data, trainer.n);
    put_field(b, 3, normaliser.data, normaliser.n);
    bytes_free(&trainer);
    bytes_free(&normaliser);
}

#define SPACE "\xE2\x96\x81"
static const struct {
    const char *text;
    float score;
} normal[] = { { SPACE, -1 },        { "a", -2 },     { "b", -3 },
               { SPACE "a", -0.4F }, { "ab", -0.5F }, { "aa", -0.1F } };

/* Text, score and type of piece `id`; false behind the last. */
static bool piece_of(int id, char text[16], float *score, int *type)
{
    static const char *const first[] = { "<unk>", "<s>", "</s>" };
    *score = 0;
    *type = id == 0 ? 2 : 3;
    if (id < 3) {
        snprintf(text, 16, "%s", first[id]);
    } else if (id < 259) {
        snprintf(text, 16, "<0x%02X>", (unsigned)(id - 3));
        *type = 6;
    } else {
        if (id - 259 >= (int)PKV_ARRAY_LEN(normal)) return false;
        snprintf(text, 16, "%s", normal[id - 259].text);
        *score = normal[id - 259].score;
        *type = 1;
    }
    return true;
}

void make_spm(bytes *b)
{
    char text[16];
    float score;
    int type;
    for (int id = 0; piece_of(id, text, &score, &type); id++) put_piece(b, text, score, type);
    put_settings(b, 2);
}

/* ---------------------------------------------------------------- tiktoken */

void put_rank(bytes *b, const void *piece, size_t n, int rank)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *p = piece;
    char text[32];
    for (size_t k = 0; k < n; k += 3) {
        uint32_t bits = 0;
        char four[5] = "====";
        for (size_t j = 0; j < 3; j++) bits = bits << 8 | (k + j < n ? p[k + j] : 0);
        for (size_t j = 0; j < 4 && k + j <= n; j++) four[j] = digits[bits >> (18 - 6 * j) & 63];
        put_text(b, four);
    }
    snprintf(text, sizeof(text), " %d\n", rank);
    put_text(b, text);
}

void make_tiktoken(bytes *b)
{
    static const char *const longer[] = { "he", "ll", "hell", "aa", "aaaa" };
    for (int k = 0; k < 256; k++) put_rank(b, &(uint8_t){ (uint8_t)k }, 1, k);
    for (int k = 0; k < 5; k++) put_rank(b, longer[k], strlen(longer[k]), 256 + k);
}

/* ---------------------------------------------------------------- llama2.c */

void make_llama2c(bytes *b)
{
    static const char *const more[] = { "a", "b", "ab", " " };
    char text[16];
    float score;
    int type;
    put_u32(b, 6);
    for (int id = 0; id < 263; id++) {
        piece_of(id < 259 ? id : 0, text, &score, &type);
        if (id >= 259) snprintf(text, sizeof(text), "%s", more[id - 259]);
        score = id < 259 ? 0 : (float)-id;
        put(b, &score, 4);
        put_u32(b, (uint32_t)strlen(text));
        put_text(b, text);
    }
}

/* ---------------------------------------------------------------- GGUF */

static void put_string(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put_text(b, text);
}

static void put_key(bytes *b, const char *key, uint32_t type)
{
    put_string(b, key);
    put_u32(b, type);
}

static void put_array(bytes *b, const char *key, uint32_t type, uint64_t n)
{
    put_key(b, key, 9);
    put_u32(b, type);
    put_u64(b, n);
}

static void put_head(bytes *b, uint64_t n_keys, const char *model)
{
    put_text(b, "GGUF");
    put_u32(b, 3);
    put_u64(b, 0);
    put_u64(b, n_keys);
    put_key(b, "tokenizer.ggml.model", 8);
    put_string(b, model);
}

void make_gguf_spm(bytes *b)
{
    char text[16];
    float score;
    int type;
    const uint64_t n = 259 + PKV_ARRAY_LEN(normal);
    put_head(b, 4, "llama");
    put_array(b, "tokenizer.ggml.tokens", 8, n);
    for (int id = 0; piece_of(id, text, &score, &type); id++) put_string(b, text);
    put_array(b, "tokenizer.ggml.scores", 6, n);
    for (int id = 0; piece_of(id, text, &score, &type); id++) put(b, &score, 4);
    put_array(b, "tokenizer.ggml.token_type", 5, n);
    for (int id = 0; piece_of(id, text, &score, &type); id++) put_u32(b, (uint32_t)type);
}

void printable(int byte, char out[3])
{
    int next = 0x100, cp = byte;
    for (int k = 0; k <= byte; k++) {
        const bool itself = (k >= 33 && k <= 126) || (k >= 161 && k <= 172) || k >= 174;
        cp = itself ? k : next++;
    }
    if (cp < 0x80) {
        snprintf(out, 3, "%c", cp);
    } else {
        out[0] = (char)(0xC0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3F));
        out[2] = '\0';
    }
}

void make_gguf_bpe(bytes *b, const char *pre)
{
    put_head(b, pre ? 4 : 3, "gpt2");
    if (pre) {
        put_key(b, "tokenizer.ggml.pre", 8);
        put_string(b, pre);
    }
    put_array(b, "tokenizer.ggml.tokens", 8, 257);
    for (int k = 0; k < 256; k++) {
        char text[3];
        printable(k, text);
        put_string(b, text);
    }
    put_string(b, "ab");
    put_array(b, "tokenizer.ggml.merges", 8, 1);
    put_string(b, "a b");
}
