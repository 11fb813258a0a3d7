/* Inside the tokenizers.
 *
 *   file --tok_open.c, tok_read_*.c--> pieces by id --pkv__tok_index--> maps --> read-only
 *   text --tok_added.c: cut out--> fragments --pretok.c--> words --tok_merge.c--> ids
 *
 * Pieces are kept as they stand in decoded text: byte-level ones as raw bytes, SentencePiece's with
 * U+2581 turned into a space. Text is brought to the same form, so that one map of bytes serves
 * merging, looking up and decoding. */
#ifndef PKV_MODEL_TOK_INTERNAL_H
#define PKV_MODEL_TOK_INTERNAL_H

#include "model/tensor_internal.h"
#include "pagedkv/tokenizer.h"

#define PKV__TOK_TEXT_MAX ((size_t)1 << 30)
#define PKV__TOK_FILE_MAX ((size_t)256 << 20) /* tokenizer files; .gguf may be longer */

/* Numbered as in GGUF and in SentencePiece's own files. */
typedef enum pkv__piece_type {
    PKV__PIECE_NONE = 0, /* an id without a piece */
    PKV__PIECE_NORMAL = 1,
    PKV__PIECE_UNKNOWN = 2,
    PKV__PIECE_CONTROL = 3,
    PKV__PIECE_USER = 4,   /* cut out of any text */
    PKV__PIECE_UNUSED = 5, /* decoded, never encoded */
    PKV__PIECE_BYTE = 6
} pkv__piece_type;

#define PKV__ADDED_LSTRIP 1u /* swallows white space before it */
#define PKV__ADDED_RSTRIP 2u
#define PKV__ADDED_WORD 4u /* only where no letter or digit touches it */

typedef struct pkv__piece {
    uint32_t at; /* in the text of all pieces */
    int32_t bytes;
    float score;
    uint8_t type, flags;
} pkv__piece;

typedef struct pkv__pair {
    int32_t left, right; /* left -1: an empty slot */
    int32_t rank, id;
} pkv__pair;

typedef enum pkv__tok_rule {
    PKV__RULE_RANKS,  /* the id of the longer piece is its rank (tiktoken) */
    PKV__RULE_SCORES, /* highest score of the longer piece */
    PKV__RULE_PAIRS   /* a list of pairs in order */
} pkv__tok_rule;

typedef enum pkv__splitter {
    PKV__SPLIT_UNSET,
    PKV__SPLIT_NONE,
    PKV__SPLIT_GPT2,
    PKV__SPLIT_LLAMA3,
    PKV__SPLIT_QWEN2,
    PKV__SPLIT_PATTERN
} pkv__splitter;

typedef enum pkv__normaliser { PKV__NORM_NONE, PKV__NORM_NFC, PKV__NORM_NFKC } pkv__normaliser;

/* Map from bytes to the id of a piece: open addressing, -1 is an empty slot. */
typedef struct pkv__piece_map {
    int32_t *slots;
    size_t n_slots; /* a power of two, at least twice what is in it; 0 before it is built */
} pkv__piece_map;

typedef struct pkv__pattern pkv__pattern;

struct pkv_tokenizer {
    pkv_logger log;
    pkv_allocator alloc;
    const char *name; /* of the file, while it is read */
    const char *source;
    bool is_spm;
    pkv__tok_rule rule;
    pkv__splitter splitter;
    pkv__pattern *pattern;
    pkv__normaliser normaliser;
    bool space_prefix;  /* a space before the text, taken away when decoding (SPM) */
    bool ignore_merges; /* a word that is a piece is not merged */
    bool adds_bos, adds_eos;
    bool fuse_unk;
    int32_t bos, eos, unk, pad;

    pkv__piece *pieces;
    size_t n_pieces, piece_cap;
    uint8_t *text; /* of all pieces */
    size_t text_bytes, text_cap;
    int32_t max_piece; /* bytes of the longest normal piece */
    pkv__piece_map normal, added;
    int32_t byte_id[256]; /* -1: none */
    pkv__pair *pairs;
    size_t n_pairs, pair_slots;
    int32_t *added_bytes; /* the different lengths of added tokens, longest first */
    size_t n_added_bytes, added_bytes_cap;
    int32_t n_added;
    bool added_first[256]; /* some added token begins with this byte */
};

/* ---------------------------------------------------------------- tok_vocab.c */

/* "tokenizer.model: byte 17: why" */
pkv_status pkv__tok_refuse(const pkv_tokenizer *t, uint64_t at, pkv_status status, const char *fmt,
                           ...) PKV_PRINTF(4, 5);
/* "qwen.tiktoken: line 17: why" */
pkv_status pkv__tok_refuse_line(const pkv_tokenizer *t, int64_t line, const char *fmt, ...)
    PKV_PRINTF(3, 4);

/* Set piece `id`; ids between get none. PKV_E_FORMAT (without a log line): it has one already. */
PKV_NODISCARD pkv_status pkv__tok_set(pkv_tokenizer *t, int32_t id, const void *bytes,
                                      size_t n_bytes, float score, pkv__piece_type type);
/* The same from SentencePiece's spelling: U+2581 is a space, a BYTE piece is "<0xNN>". */
PKV_NODISCARD pkv_status pkv__tok_set_spm(pkv_tokenizer *t, int32_t id, const void *bytes,
                                          size_t n_bytes, float score, pkv__piece_type type);
/* The same from GPT-2's printable alphabet. What is not in it can be decoded only. */
PKV_NODISCARD pkv_status pkv__tok_set_printable(pkv_tokenizer *t, int32_t id, const void *bytes,
                                                size_t n_bytes, pkv__piece_type type);
/* Raw bytes of a text in the printable alphabet, at most n_bytes of them. False: not in it. */
bool pkv__printable_to_bytes(const uint8_t *text, size_t n_bytes, uint8_t *out, size_t *n);

/* Build the maps: after all pieces are set, before merges are added. */
PKV_NODISCARD pkv_status pkv__tok_index(pkv_tokenizer *t);
/* Add the next merge. PKV_E_FORMAT (without a log line): a part or the whole is no piece, or the
 * pair was there before. */
PKV_NODISCARD pkv_status pkv__tok_add_merge(pkv_tokenizer *t, const void *left, size_t n_left,
                                            const void *right, size_t n_right);
/* The same from "left right" in the printable alphabet. */
PKV_NODISCARD pkv_status pkv__tok_add_printable_merge(pkv_tokenizer *t, const uint8_t *line,
                                                      size_t n);
/* -1: none. */
int32_t pkv__tok_lookup(const pkv_tokenizer *t, const pkv__piece_map *map, const void *bytes,
                        size_t n_bytes);
const pkv__pair *pkv__tok_pair(const pkv_tokenizer *t, int32_t left, int32_t right);

static inline bool pkv__piece_special(const pkv__piece *p)
{
    return p->type == PKV__PIECE_CONTROL || p->type == PKV__PIECE_UNKNOWN;
}

/* ---------------------------------------------------------------- encoding */

typedef struct pkv__tok_node {
    int32_t at, bytes, id, prev, next; /* a symbol of the text; id -1: no piece */
} pkv__tok_node;

/* A merge that may be done: `key` is priority << 32 | left node, lowest first. It is stale if the
 * two no longer have `bytes` together. */
typedef struct pkv__tok_merge {
    uint64_t key;
    int32_t right, bytes, id;
} pkv__tok_merge;

typedef struct pkv__tok_work {
    const pkv_tokenizer *tok;
    pkv__tok_node *nodes;
    size_t n_nodes, node_cap;
    pkv__tok_merge *heap;
    size_t n_heap, heap_cap;
    int32_t *ids;
    size_t n_ids, id_cap;
    uint8_t *text; /* SPM: the fragment with its spaces */
    size_t text_cap;
} pkv__tok_work;

PKV_NODISCARD pkv_status pkv__work_id(pkv__tok_work *w, int32_t id);
PKV_NODISCARD pkv_status pkv__work_node(pkv__tok_work *w, int32_t bytes, int32_t id);
void pkv__work_free(pkv__tok_work *w);
/* Merge the nodes, which lie one after the other in `text`, as the rule says. */
PKV_NODISCARD pkv_status pkv__merge(pkv__tok_work *w, const uint8_t *text);

/* A fragment without added tokens. */
PKV_NODISCARD pkv_status pkv__encode_bpe(pkv__tok_work *w, const uint8_t *text, size_t n);
PKV_NODISCARD pkv_status pkv__encode_spm(pkv__tok_work *w, const uint8_t *text, size_t n,
                                         bool with_prefix);

/* The next added token at or after `from`: [*begin, *end) with the white space it swallows, and its
 * id. False: none. */
bool pkv__added_next(const pkv_tokenizer *t, const uint8_t *text, size_t n, size_t from,
                     bool parse_special, size_t *begin, size_t *end, int32_t *id);
/* Called by pkv__tok_index. */
PKV_NODISCARD pkv_status pkv__added_index(pkv_tokenizer *t);

/* ---------------------------------------------------------------- splitting */

/* One character, or one byte that is none (*cp is then -1). n > 0. Returns its bytes. */
size_t pkv__utf8_next(const uint8_t *text, size_t n, int32_t *cp);
bool pkv__is_space(int32_t cp);
bool pkv__is_letter(int32_t cp);
bool pkv__is_number(int32_t cp);

/* UNSET for a name that is none of ours. */
pkv__splitter pkv__splitter_from_name(const char *name);
const char *pkv__splitter_name(pkv__splitter s);
/* End of the word that begins at `at`; at < n. Hand-written splitters only. */
size_t pkv__split_next(pkv__splitter s, const uint8_t *text, size_t n, size_t at);

/* ---------------------------------------------------------------- readers */

PKV_NODISCARD pkv_status pkv__tok_read_gguf(pkv_tokenizer *t, const pkv__tensor_file *file);
PKV_NODISCARD pkv_status pkv__tok_read_spm(pkv_tokenizer *t, const uint8_t *data, size_t n);
PKV_NODISCARD pkv_status pkv__tok_read_llama2c(pkv_tokenizer *t, const uint8_t *data, size_t n,
                                               int32_t vocab_size);
PKV_NODISCARD pkv_status pkv__tok_read_tiktoken(pkv_tokenizer *t, const uint8_t *data, size_t n);
PKV_NODISCARD pkv_status pkv__tok_read_gpt2(pkv_tokenizer *t, const uint8_t *merges, size_t n,
                                            const uint8_t *json, size_t n_json);
PKV_NODISCARD pkv_status pkv__tok_read_json(pkv_tokenizer *t, const uint8_t *data, size_t n);
/* tokenizer_config.json, once its tokenizer.json is read. */
PKV_NODISCARD pkv_status pkv__tok_read_json_config(pkv_tokenizer *t, const uint8_t *data, size_t n);

/* Bytes in memory as if they were a file called `name`; `beside` is the encoder.json of a
 * vocab.bpe, else NULL. cfg->path is not looked at. */
PKV_NODISCARD pkv_status pkv__tokenizer_open_memory(const pkv_tokenizer_config *cfg,
                                                    const char *name, const void *data, size_t n,
                                                    const void *beside, size_t n_beside,
                                                    pkv_tokenizer **out);
/* Reads what lies at cfg->path into t. */
PKV_NODISCARD pkv_status pkv__tok_open_path(pkv_tokenizer *t, const pkv_tokenizer_config *cfg);
PKV_NODISCARD pkv_status pkv__tok_open_bytes(pkv_tokenizer *t, const pkv_tokenizer_config *cfg,
                                             const uint8_t *data, size_t n, const uint8_t *beside,
                                             size_t n_beside);

#endif
