/* The inside of op_driver: what a run carries along, and how arguments are made.
 *
 *   op_world.c   texts, arguments, the run      op_calls.c         sequences, questions
 *   op_config.c  random configurations          op_calls_steps.c   steps, policy
 *   op_compare.c both sides compared            op_calls_holds.c   holds, swap
 *                                               op_calls_raw.c     raw blocks
 *                                               op_calls_tables.c  rows, slots, delta, views */
#ifndef PKV_TESTS_OP_WORLD_H
#define PKV_TESTS_OP_WORLD_H

#include "op_driver.h"

enum {
    N_DOCS = 6,
    N_STALE = 4,
    IMAGE = 1 << 30,
    SPARE_ROOM = 4,
    MOST_COPIES = OR_SEQS * PKV_MAX_GROUPS * 2,
    MOST_STEPS = 3
};

/* A wide token: the id in the low byte. With the flag IMAGE an image begins here, which the id does
 * not show; the bits between say which: it covers 1 .. 5 tokens. So the tokens from 0 on decide the
 * extras, however they are split over calls. */
typedef uint32_t wide;

typedef struct world {
    op_run *run;
    oracle *o;
    pkv_blockmgr *mgr;
    pkv_blockmgr_config cfg;
    pkv_group group[PKV_MAX_GROUPS];    /* cfg.groups, or the one full group */
    unsigned features;                  /* of this seed */
    bool has_windows;                   /* or a state: a group that is not FULL */
    int n_groups, unit, copies_per_seq; /* the last: most copies that a reserve plans for one */
    wide doc[N_DOCS][OR_TOKENS], text[OR_SEQS][OR_TOKENS];
    int doc_of[OR_SEQS];
    pkv_seq stale[N_STALE];
    pkv_ns ns[OR_NS], stale_ns;
    int n_ns;
    pkv_step step[MOST_STEPS], stale_step; /* open ones, oldest first */
    int n_steps;
    pkv_hold hold[OR_HOLDS], stale_hold; /* open ones, expired ones included */
    int n_holds;
    uint64_t now;
    bool fresh[OR_BLOCKS]; /* taken raw, and neither published nor given to anybody since */
    uint32_t wild;         /* one token in so many is not the document's */
    uint8_t digest[16];
    bool ok, same_digest; /* same_digest: this operation must not change it */
} world;

/* Caller's side of a pkv_block_work, filled with a pattern. */
typedef struct lists {
    int32_t zero[OR_BLOCKS + SPARE_ROOM];
    pkv_block_copy copy[MOST_COPIES + SPARE_ROOM];
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

/* Fill w->cfg and w->group for a seed. */
void op_make_config(world *w, uint64_t *rng, int style);

/* ---------------------------------------------------------------- arguments */

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

pkv_seq op_handle_of(const world *w, int idx);
/* Indices of the open sequences. */
int op_open_seqs(const world *w, int *idx, bool empty_only);
/* An open sequence; index -1 with a stale handle if there is none, or rarely. */
pkv_seq op_pick_seq(const world *w, uint32_t a, bool empty_first, int *idx);
/* 1 .. all open ones, in any order; rarely a stale one among them, or one twice. */
int op_pick_seqs(world *w, uint32_t a, bool suspended, pkv_seq *out);
pkv_ns op_pick_ns(const world *w, uint32_t a);
/* A group; rarely one that does not exist. */
int32_t op_pick_group(const world *w, uint32_t a);
bool op_is_group(const world *w, int32_t g);
bool op_is_state(const world *w, int32_t g);
/* An open step, or a stale one. */
pkv_step op_pick_step(const world *w, uint32_t a);

void op_init_lists(const world *w, lists *l, uint32_t a, int copies);
pkv_block_work op_work_of(lists *l);

/* ---------------------------------------------------------------- comparing */

/* The oracle's status and the manager's; false: nothing more to compare. */
bool op_agree(world *w, enum op_fn fn, pkv_status want, pkv_status got);
/* Work lists of both; a refused call has touched nothing, so then all must be as before. */
void op_compare_work(world *w, const lists *lo, const pkv_block_work *wo, const lists *lm,
                     const pkv_block_work *wm, bool ok);
void op_compare_match(world *w, const pkv_match *a, const pkv_match *b);
/* Ids of both; a refused call has touched none, so callers fill both with one pattern. */
void op_compare_ids(world *w, const char *what, const int32_t *a, const int32_t *b, int n);
/* Everything that can be asked. */
void op_compare_state(world *w);

/* ---------------------------------------------------------------- calls */

#define OP_FN_DECLARE(name, feature) void op_do_##name(world *w, const op *x);
OP_FN_LIST(OP_FN_DECLARE)
#undef OP_FN_DECLARE

/* This call gets a null pointer where the contract wants one; which, if there are several. */
static inline bool op_breaks(const op *x)
{
    return x->a[4] % 97 == 13;
}
static inline bool op_breaks_this(const op *x, uint32_t which, uint32_t of)
{
    return op_breaks(x) && x->a[4] / 97 % of == which;
}

/* Carry one operation out on both sides and compare what the calls answer. */
void op_call(world *w, const op *x);

/* The manager's answer, or the oracle's when it runs alone. */
#define OP_ASK(w, want, call) ((w)->run->alone ? (want) : (call))

#endif
