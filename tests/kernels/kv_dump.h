/* Keys, values and queries of a model, as tests/oracle/dump_kv.py writes them:
 *
 *     8 bytes   "PKVDUMP1"
 *     5 uint32  layers, tokens, query heads, kv heads, dim        little endian
 *     float32   per layer: K [token][kv head][dim], V likewise, Q [token][query head][dim]
 *
 * Nothing before, between or after. A file is not trusted: sizes are checked against its length
 * before anything is allocated, and every number has to be finite. */
#ifndef PKV_KV_DUMP_H
#define PKV_KV_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kv_dump {
    int32_t n_layers, n_tokens, n_q_heads, n_kv_heads, dim;
    float *data; /* as in the file; owned */
};

/* On failure false, *dump empty, and `why` (one line) says what is wrong and at which offset. */
bool kv_dump_read(const char *path, struct kv_dump *dump, char *why, size_t why_bytes);
/* The same from memory. */
bool kv_dump_parse(const unsigned char *bytes, size_t n, struct kv_dump *dump, char *why,
                   size_t why_bytes);
void kv_dump_free(struct kv_dump *dump);
/* Rows of one layer. */
const float *kv_dump_k(const struct kv_dump *dump, int32_t layer);
const float *kv_dump_v(const struct kv_dump *dump, int32_t layer);
const float *kv_dump_q(const struct kv_dump *dump, int32_t layer);

#endif
