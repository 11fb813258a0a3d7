/* Tokenizers of the reference transformer: text to token ids and back. Experimental: may change in
 * any release. Part of libpagedkv-model.
 *
 *   file --pkv_tokenizer_open--> pkv_tokenizer: pieces, ranks or scores, added tokens, splitter
 *   text --encode--> ids --piece, or pkv_detok piece by piece--> text
 *
 * Two algorithms: byte-level BPE (GPT-2, Llama 3, Qwen: lowest rank merges first) and BPE over
 * SentencePiece scores (Llama 2, Mistral, Phi-3: highest score first, bytes where a piece is
 * missing). After it is opened a tokenizer is read-only: any number of threads may use it.
 * Text is bytes, UTF-8 by convention; what is not UTF-8 is encoded byte by byte, never refused. */
#ifndef PAGEDKV_TOKENIZER_H
#define PAGEDKV_TOKENIZER_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_tokenizer pkv_tokenizer;

typedef struct pkv_tokenizer_config {
    uint32_t struct_size;
    const char *path;     /* a file, or a folder that holds one:
                               tokenizer.json      Hugging Face, model BPE; with bos, eos and what is
                                                   added of a tokenizer_config.json beside it
                               *.tiktoken          lines of "base64 rank"
                               tokenizer.model, *.model, *.model.v1 and so on: SentencePiece
                               *.gguf              arrays tokenizer.ggml.*
                               vocab.bpe beside encoder.json (either may be named)
                               tok512.bin          llama2.c; needs vocab_size
                             recognised by content first, then by name */
    const char *splitter; /* "gpt2", "llama3", "qwen2", "none"; NULL: as the file says, and where it
                             does not (tiktoken) an error that names these */
    int32_t vocab_size;   /* of llama2.c files, which do not say; else 0 */
    pkv_logger log;       /* errors: one line with file, byte offset or line, what and remedy */
    pkv_allocator alloc;
} pkv_tokenizer_config;
#define PKV_TOKENIZER_CONFIG_INIT                                                                  \
    {                                                                                              \
        sizeof(pkv_tokenizer_config), NULL, NULL, 0, { NULL, NULL },                               \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Read a tokenizer. *out on success only; the caller gives it back with close. close(NULL) is fine.
 *   PKV_E_INVALID_ARG null; PKV_E_ABI; PKV_E_IO cannot be read; PKV_E_NO_MEMORY
 *   PKV_E_FORMAT      malformed: the log has the place
 *   PKV_E_UNSUPPORTED a unigram or word-piece model, an unknown normaliser or splitter: by name
 * O(bytes); memory at most some ten times the file. */
PKV_API PKV_NODISCARD pkv_status pkv_tokenizer_open(const pkv_tokenizer_config *cfg,
                                                    pkv_tokenizer **out);
PKV_API void pkv_tokenizer_close(pkv_tokenizer *tok);

typedef struct pkv_tokenizer_info {
    uint32_t struct_size;
    const char *kind;     /* "bpe" or "spm" */
    const char *source;   /* "tokenizer.json", "tiktoken", "sentencepiece", "gguf", "vocab.bpe",
                             "llama2.c" */
    const char *splitter; /* "gpt2", ..., "pattern" (of the file), "none" */
    int32_t n_ids;        /* ids are 0 .. n_ids-1; some may be unused */
    int32_t bos, eos, unk, pad; /* -1: none */
    bool adds_bos, adds_eos;    /* what add_special puts in front and behind */
    int32_t n_added;            /* added and special tokens */
} pkv_tokenizer_info;
#define PKV_TOKENIZER_INFO_INIT                                                                    \
    {                                                                                              \
        sizeof(pkv_tokenizer_info), NULL, NULL, NULL, 0, 0, 0, 0, 0, false, false, 0               \
    }
PKV_API PKV_NODISCARD pkv_status pkv_tokenizer_get_info(const pkv_tokenizer *tok,
                                                        pkv_tokenizer_info *out);

/* Flags of encode. Text from users is encoded without PARSE_SPECIAL: a "<s>" in it is text. */
#define PKV_TOK_ADD_SPECIAL 1u   /* BOS and EOS as the model wants them */
#define PKV_TOK_PARSE_SPECIAL 2u /* names of special tokens in the text become these tokens */

/* Encode n_bytes of text. *n is set to the number of ids, also where it exceeds `cap`, which is
 * PKV_E_LIMIT with ids[0 .. cap) untouched; n_bytes + 3 ids always suffice, except where the file
 * asks for NFC or NFKC, which can make a text longer. text may be NULL with 0.
 * PKV_E_INVALID_ARG null, unknown flags, n_bytes > 2^30; PKV_E_NO_MEMORY. O(n log n) in bytes,
 * whatever the text. */
PKV_API PKV_NODISCARD pkv_status pkv_tokenizer_encode(const pkv_tokenizer *tok, const char *text,
                                                      size_t n_bytes, uint32_t flags, int32_t *ids,
                                                      int32_t cap, int32_t *n);

/* The bytes of one id as they stand in decoded text (SentencePiece's U+2581 is a space; a special
 * token is its name). They live as long as the tokenizer. PKV_E_RANGE no such id. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_tokenizer_piece(const pkv_tokenizer *tok, int32_t id,
                                                     const char **bytes, int32_t *n_bytes,
                                                     bool *is_special);

/* The id of a piece with exactly these bytes, added and special tokens included. PKV_E_RANGE: none.
 */
PKV_API PKV_NODISCARD pkv_status pkv_tokenizer_find(const pkv_tokenizer *tok, const char *bytes,
                                                    int32_t n_bytes, int32_t *id);

/* ---------------------------------------------------------------- streaming */

/* Decoding id by id: what is not yet a whole UTF-8 character is held back, and U+FFFD comes exactly
 * where decoding the whole text would have one. Pieces joined are that text. Plain data; no memory
 * of its own. */
typedef struct pkv_detok {
    const pkv_tokenizer *tok;
    bool skip_special; /* special tokens give no text */
    bool started;      /* past SentencePiece's leading space */
    uint8_t held[4];
    int32_t n_held;
} pkv_detok;

PKV_API void pkv_detok_init(pkv_detok *d, const pkv_tokenizer *tok, bool skip_special);
/* Text that is final now, for the next id: at most `cap` bytes into out, *n of them.
 * PKV_E_RANGE no such id; PKV_E_LIMIT out is too small (*n says what is needed), nothing changed;
 * three times the bytes of the longest piece and 12 suffice. */
PKV_API PKV_NODISCARD pkv_status pkv_detok_put(pkv_detok *d, int32_t id, char *out, int32_t cap,
                                               int32_t *n);
/* What is still held, at the end of the text; 12 bytes suffice. */
PKV_API PKV_NODISCARD pkv_status pkv_detok_flush(pkv_detok *d, char *out, int32_t cap, int32_t *n);

#ifdef __cplusplus
}
#endif
#endif
