/* Traces of prompts as chains of content ids: one request a line,
 *   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
 * An id stands for `block_tokens` tokens and all that came before them: equal ids, equal prefixes.
 * The last block of a prompt may be shorter. */
#ifndef PKV_HASH_TRACE_H
#define PKV_HASH_TRACE_H

#include "bench_base.h"

#include <stdio.h>

struct hash_trace {
    int32_t block_tokens;
    int32_t n_requests, n_refs; /* lines; ids of all lines together */
    int32_t n_ids;              /* distinct */
    int32_t longest;            /* most ids of one request */
    int64_t n_tokens;           /* of all prompts */
    int32_t *first;             /* [n_requests + 1] of `ids` */
    int32_t *ids;               /* [n_refs] renumbered 0 .. n_ids-1 */
    int32_t *tokens;            /* [n_requests] of the prompt */
};

/* Most bytes of a line, ids of a file, and tokens of a prompt; more is refused, so that no input
 * takes more memory than some dozens of bytes per id. */
#define HASH_TRACE_MAX_LINE (4 << 20)
#define HASH_TRACE_MAX_REFS (1 << 26)
#define HASH_TRACE_MAX_TOKENS (1 << 30)

/* Read the whole file. Every line is an object with the four keys, timestamps do not descend, there
 * are ceil(input_length / block_tokens) ids, and an id always follows the same id and covers the
 * same number of tokens. Other keys are not looked at. False: `err` names file, line, what is wrong
 * and what is expected; *out is empty. `name` is what messages call the file. */
bool hash_trace_parse(FILE *in, const char *name, int32_t block_tokens, struct hash_trace *out,
                      struct bench_error *err);
bool hash_trace_read(const char *path, int32_t block_tokens, struct hash_trace *out,
                     struct bench_error *err);
void hash_trace_free(struct hash_trace *t); /* a zeroed one is fine */

/* Tokens of block `k` of request `i`. */
int32_t hash_trace_block(const struct hash_trace *t, int32_t i, int32_t k);

#endif
