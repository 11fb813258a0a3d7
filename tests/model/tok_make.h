/* Small tokenizer files, written by tests. */
#ifndef PKV_TESTS_TOK_MAKE_H
#define PKV_TESTS_TOK_MAKE_H

#include "tok_test.h"

/* Protobuf: a number, and a field of bytes. */
void put_varint(bytes *b, uint64_t v);
void put_field(bytes *b, uint32_t number, const void *data, size_t n);
void put_number(bytes *b, uint32_t number, uint64_t v);
/* One piece of a SentencePiece file. */
void put_piece(bytes *b, const char *text, float score, int type);
/* Trainer and normaliser of a BPE model with a space in front. */
void put_settings(bytes *b, int model_type);
/* 0 <unk>, 1 <s>, 2 </s>, 3 to 258 bytes, 259 U+2581, 260 a, 261 b, 262 U+2581 a, 263 ab, 264 aa.
 */
void make_spm(bytes *b);

void put_text(bytes *b, const char *text);
/* "base64 rank" and a line end. */
void put_rank(bytes *b, const void *piece, size_t n, int rank);
/* 0 to 255 bytes, 256 he, 257 ll, 258 hell, 259 aa, 260 aaaa. */
void make_tiktoken(bytes *b);
/* llama2.c: 259 pieces as always and "a", "b", "ab", " "; 263 in all. */
void make_llama2c(bytes *b);
/* GGUF with the pieces of make_spm, or with the bytes, "ab" and its merge. */
void make_gguf_spm(bytes *b);
void make_gguf_bpe(bytes *b, const char *pre);
/* A byte in GPT-2's alphabet, at most 2 bytes and a zero. */
void printable(int byte, char out[3]);

#endif
