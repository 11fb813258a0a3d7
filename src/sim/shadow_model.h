/* The slow obvious model that checks the paged policies block for block.
 *
 * It is a block pool of its own: an array of blocks with a reference count each, a row of block
 * numbers per sequence, a set of (parent, tokens) keys with the block that holds each, and one list
 * of unreferenced blocks with a key, least recently released first. It shares no code and no data
 * with the block manager and trusts it in one thing only: that a call which the manager granted was
 * to be granted. Block numbers mean nothing outside; what is compared are counts.
 *
 * What it says about content is what docs/blockmgr.md says of PKV_MGR_PLAIN_LRU:
 *   - a block that lost its last reference is listed if it holds a key, else free; rows are
 *     released tail first; a block whose parent is listed already goes directly before it
 *   - taken are free blocks first, then the first of the list
 *   - content that is computed twice while it is in use is held twice; the key stays with the first
 *     block as long as that is referenced, then goes to the oldest other one. A listed block makes
 *     way for one that is computed again */
#ifndef PKV_SIM_SHADOW_MODEL_H
#define PKV_SIM_SHADOW_MODEL_H

#include "common/common.h"

typedef struct pkv__shadow_block {
    int32_t refs;
    int32_t key;        /* content, or -1 */
    int32_t prev, next; /* while listed: neighbours, -1 at the ends */
    int64_t joined;     /* when it became one of several with this key */
    int32_t planned;    /* references that go at the end of the call */
} pkv__shadow_block;

typedef struct pkv__shadow_key {
    int32_t parent;   /* -1: the beginning of a prompt */
    int32_t block;    /* that holds it, or -1 */
    int32_t n_spares; /* other blocks with it */
    int32_t next;     /* in its bucket */
} pkv__shadow_key;

typedef struct pkv__shadow_seq {
    bool open, suspended;
    int32_t len;       /* entries of its row */
    int32_t committed; /* tokens */
    int32_t key;       /* of its last full block */
} pkv__shadow_seq;

typedef struct pkv__sim_shadow {
    int32_t block_tokens, n_blocks, n_seqs, width;
    bool prefix;
    int32_t n_free, n_used, n_cached;
    pkv__shadow_block *blocks; /* [n_blocks] */
    int32_t *free_blocks;      /* [n_blocks] numbers of the free ones, n_free of them */
    int32_t first, last;       /* of the list, -1: empty */
    pkv__shadow_seq *seqs;     /* [n_seqs] */
    int32_t *rows;             /* [n_seqs][width] block, or -1 - n for the n-th that moved out */
    int32_t *tails;            /* [n_seqs][block_tokens] tokens behind the last full block */
    pkv__shadow_key *keys;     /* [keys_cap] */
    int32_t *key_tokens;       /* [keys_cap][block_tokens] */
    int32_t *buckets;          /* [n_buckets] first key of each, -1 */
    int32_t n_keys, keys_cap, n_buckets;
    int32_t n_moved; /* blocks that ever moved out */
    int64_t n_joined;
    pkv_allocator alloc;
} pkv__sim_shadow;

/* A pool of n_blocks for n_seqs sequences of at most `width` blocks. PKV_E_NO_MEMORY. */
pkv_status pkv__shadow_init(pkv__sim_shadow *m, int32_t n_blocks, int32_t block_tokens,
                            int32_t n_seqs, int32_t width, bool prefix, const pkv_allocator *alloc);
void pkv__shadow_deinit(pkv__sim_shadow *m);

/* Sequence `seq` begins with what is known of ids[0 .. max_tokens), in full blocks, and has room
 * for `upto` tokens. Returns the tokens found. */
int32_t pkv__shadow_open(pkv__sim_shadow *m, int32_t seq, const int32_t *ids, int32_t max_tokens,
                         int32_t upto);
/* Room for `upto` tokens in each, so that the next one can be written. Returns blocks copied. */
int32_t pkv__shadow_reserve(pkv__sim_shadow *m, const int32_t *seqs, int32_t n, int32_t upto);
/* n more tokens; ids matter with prefix only. PKV_E_NO_MEMORY. */
pkv_status pkv__shadow_commit(pkv__sim_shadow *m, int32_t seq, const int32_t *ids, int32_t n);
/* The child begins with the parent's blocks. */
void pkv__shadow_fork(pkv__sim_shadow *m, int32_t parent, int32_t child);
void pkv__shadow_close(pkv__sim_shadow *m, int32_t seq);
/* Blocks that only these sequences refer to move out, and back. Returns how many. */
int32_t pkv__shadow_suspend(pkv__sim_shadow *m, const int32_t *seqs, int32_t n);
int32_t pkv__shadow_resume(pkv__sim_shadow *m, const int32_t *seqs, int32_t n);

#endif
