/* What tests of whole passes share: a model on a store of its own, sequences whose blocks come in a
 * random order from memory full of NaN, and passes made of pieces of sequences. */
#ifndef PKV_TESTS_FORWARD_RIG_H
#define PKV_TESTS_FORWARD_RIG_H

#include "model/forward.h"
#include "model_test.h"

#define MAX_LAYERS 8
#define MAX_TABLE 512 /* blocks of a sequence */
#define MAX_PIECES 16
#define MAX_BATCH 300

typedef struct rig_options {
    pkv_isa isa;
    int32_t n_threads, block_tokens;
    pkv_dtype kv_dtype;
    uint64_t seed; /* of the order of blocks */
    bool fast;
} rig_options;

typedef struct rig {
    const pkv__weights *w;
    pkv_backend *be;
    struct pkv__threads *threads;
    pkv_store *store;
    pkv__forward *fwd;
    pkv_kv_view k[MAX_LAYERS], v[MAX_LAYERS];
    int32_t block_tokens, n_blocks, n_taken;
    int32_t *blocks;       /* all but the null block, in a random order */
    counted_memory memory; /* of the pass */
    last_log log;
} rig;

typedef struct rig_seq {
    int32_t n; /* tokens in the store */
    int32_t table[MAX_TABLE];
} rig_seq;

/* `n` more tokens of a sequence. */
typedef struct rig_piece {
    rig_seq *seq;
    const int32_t *tokens;
    int32_t n;
} rig_piece;

/* Room for `tokens` tokens in all sequences together, each rounded up by a block. */
void rig_make(rig *r, const pkv__weights *w, const rig_options *o, int32_t tokens);
void rig_drop(rig *r);
/* One pass; logits of every token, in the order of the pieces: [tokens][vocab]. */
void rig_pass(rig *r, const rig_piece *pieces, int32_t n_pieces, float *logits);
/* All tokens of one fresh sequence, `chunk` at a time. */
void rig_run(rig *r, const int32_t *tokens, int32_t n, int32_t chunk, float *logits);

/* Levels that this machine runs, scalar first. */
int32_t rig_levels(pkv_isa out[8]);
/* A small model; ids of `n` random tokens. */
pkv__model_config small_config(int32_t heads, int32_t kv_heads, int32_t head_dim);
pkv__weights small_weights(const pkv__model_config *c, uint64_t seed, pkv_dtype dtype);
void draw_tokens(uint64_t seed, int32_t vocab, int32_t *out, int32_t n);
uint64_t first_seed(void);

#endif
