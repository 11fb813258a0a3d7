/* The inside of op_driver: what a run carries along, and how arguments are made. */
#ifndef PKV_TESTS_OP_WORLD_H
#define PKV_TESTS_OP_WORLD_H

#include "op_driver.h"

enum { N_DOCS = 6, N_STALE = 4, IMAGE = 1 << 30, SPARE_ROOM = 4 };

/* A wide token: the id in the low byte. With the flag IMAGE an image begins here, which the id does
 * not show; the bits between say which: it covers 1 .. 5 tokens. So the tokens from 0 on decide the
 * extras, however they are split over calls. */
typedef uint32_t wide;

typedef struct world {
    op_run *run;
    oracle *o;
    pkv_blockmgr *mgr;
    wide doc[N_DOCS][OR_TOKENS], text[OR_SEQS][OR_TOKENS];
    int doc_of[OR_SEQS];
    pkv_seq stale[N_STALE];
    pkv_ns ns[OR_NS], stale_ns;
    int n_ns;
    uint32_t wild; /* one token in so many is not the document's */
    uint8_t digest[16];
    bool ok, same_digest; /* same_digest: this operation must not change it */
} world;

/* Caller's side of a pkv_block_work, filled with a pattern. */
typedef struct lists {
    int32_t zero[OR_BLOCKS + SPARE_ROOM];
    pkv_block_copy copy[OR_SEQS + SPARE_ROOM];
    int32_t zero_cap, n_zero, copy_cap, n_copy;
} lists;

typedef struct call_tokens {
    int32_t ids[OR_TOKENS + 1];
    pkv_extra ex[OR_TOKENS + 1];
    pkv_tokens t;
} call_tokens;

__attribute__((format(printf, 2, 3))) void op_fail(world *w, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void op_tell(const world *w, const char *fmt, ...);

int op_below(uint64_t *rng, int n);
wide op_random_wide(uint64_t *rng);

/* Tokens [from, from + n) of a text, with the extras of the contract. */
void op_cut_text(call_tokens *c, const wide *text, int from, int n);
void op_tell_tokens(const world *w, const pkv_tokens *t);
/* Now and then an argument that breaks its contract. */
enum { OP_SPOILS = 11 };
void op_spoil_tokens(const world *w, call_tokens *c, uint32_t how);
/* At the beginning of a block it would go unnoticed and stand for other content than the text. */
static inline bool op_spoils_a_begun_block(uint32_t how)
{
    return how % OP_SPOILS == 8 || how % OP_SPOILS == 10;
}

/* Carry one operation out on both sides and compare what the calls answer. */
void op_call(world *w, const op *x);

#endif
