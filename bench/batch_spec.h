/* The grammar of batches.
 *
 *   spec  = group { "_" group }               2q2k_32q1s1k
 *   group = [count] "q" len [ "s" kv ]        count is 1 if absent; without s: a whole prefill
 *   kv    = len | len "-" len | "@" name      1k-4k: uniform; @sharegpt, @alpaca: drawn lengths
 *   len   = integer [ "k" ]                   k = 1024; q <= s
 *
 * 8q1s1k: eight decodes at 1,024 keys; 4q512s4k: four extends of 512 new tokens. */
#ifndef PKV_BATCH_SPEC_H
#define PKV_BATCH_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH_MAX_GROUPS 16
#define BATCH_MAX_SEQS 65536
#define BATCH_MAX_LEN (1 << 24)

enum batch_kv {
    BATCH_KV_SELF,  /* kv_len = q_len */
    BATCH_KV_FIXED, /* lo = hi */
    BATCH_KV_RANGE, /* uniform in [lo, hi] */
    BATCH_KV_SHAREGPT,
    BATCH_KV_ALPACA
};

struct batch_group {
    int32_t count, q_len;
    enum batch_kv kind;
    int32_t kv_lo, kv_hi; /* FIXED and RANGE only */
};

struct batch_spec {
    int32_t n_groups, n_seqs;
    struct batch_group groups[BATCH_MAX_GROUPS];
};

/* Where a text breaks the grammar: 0-based offset of the character, and what was expected. */
struct batch_spec_error {
    int32_t at;
    char text[120];
};

/* False: `err` says where and why, *out is untouched. */
bool batch_spec_parse(const char *text, struct batch_spec *out, struct batch_spec_error *err);

/* The canonical text: counts always written, lengths in k where they divide. Parsing it gives the
 * same spec. False if `size` is too small. */
bool batch_spec_format(const struct batch_spec *spec, char *text, size_t size);

/* Lengths of all sequences, [n_seqs] each; drawn ones depend on the seed only. A drawn kv_len is
 * raised to q_len where it is shorter. */
void batch_spec_draw(const struct batch_spec *spec, uint64_t seed, int32_t *q_len, int32_t *kv_len);

/* Half as many sequences in every group of more than one. False if nothing could be halved. */
bool batch_spec_halve(struct batch_spec *spec);

#endif
