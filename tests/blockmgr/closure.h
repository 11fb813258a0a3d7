/* What the files of the exhaustive closure share.
 *
 *   closure.c        options, the queue of states, what a transition has to prove
 *   closure_calls.c  the repertoire: which calls a state gets, and how each is made
 *   closure_bytes.c  the simulated bytes and what they must show after every call
 *   closure_state.c  the name of a state
 *
 * The world is everything outside the manager that a checker needs: tokens, bytes, launches. */
#ifndef PKV_TESTS_CLOSURE_H
#define PKV_TESTS_CLOSURE_H

#include "blockmgr/blockmgr_internal.h"

enum { MAX_BLOCKS = 12, MAX_SEQS = 5, MAX_TOKENS = 12, MAX_T = 4, MAX_HOST = 6 };
enum { MAX_GROUPS = 2, MAX_STEPS = 2, MAX_HOLDS = 4, N_CELLS = (MAX_BLOCKS + 1) * MAX_T };

struct options {
    int blocks, seqs, max_blocks, block_tokens, vocab, namespaces, steps, host, holds;
    int block_tokens_2, window, sinks, rollback;
    const char *groups; /* kinds with + between them */
    bool partial, lru, in_order, policy, verify, digests;
    long max_states;
};
extern struct options opt;

/* A slot of a block as an index into the byte arrays; one simulated word per slot. */
static inline int cell_of(int32_t block, int off)
{
    return block * MAX_T + off;
}

/* The copies of a running swap. */
struct swap_note {
    uint8_t kind, n; /* enum hold_kind; 0 pairs: none */
    uint8_t device[MAX_BLOCKS], host[MAX_BLOCKS];
};

/* Bytes are kept twice. `early`: a step's writes are done as soon as they can be, garbage at the
 * launch and the token's word at its commit. `late`: they are done just before the step retires;
 * until then they wait in `waiting`. What is findable, held or settled must be right in both. */
struct world {
    pkv_seq seq[MAX_SEQS];
    int8_t ns[MAX_SEQS]; /* -1: not open */
    uint8_t n_tokens[MAX_SEQS];
    uint8_t tokens[MAX_SEQS][MAX_TOKENS];
    uint32_t early[N_CELLS], late[N_CELLS];
    uint32_t host_early[MAX_HOST * MAX_T], host_late[MAX_HOST * MAX_T];
    uint64_t step[MAX_STEPS];              /* open steps, oldest first; 0: none */
    uint8_t launched[MAX_STEPS][MAX_SEQS]; /* its slots below this may be committed in the step */
    uint32_t waiting[MAX_STEPS][N_CELLS];  /* what the step will have written; 0: nothing */
    uint32_t reads[MAX_STEPS][N_CELLS];    /* what the step has to find; 0: anything */
    uint64_t released[MAX_BLOCKS + 1];     /* newest step begun when it lost its last reference */
    uint64_t newest_step;
    uint64_t now;
    uint8_t table[MAX_GROUPS][MAX_SEQS][MAX_TOKENS]; /* a device's copy of the rows */
    pkv_hold hold[MAX_HOLDS];
    uint32_t held[MAX_HOLDS][N_CELLS]; /* what a hold keeps as it is; 0: anything */
    struct swap_note swap[MAX_HOLDS];
};

enum call_kind {
    CALL_OPEN,
    CALL_RESERVE,
    CALL_RESERVE_SOME,
    CALL_COMMIT,
    CALL_TRUNCATE,
    CALL_FORK,
    CALL_CLOSE,
    CALL_MATCH,
    CALL_BEGIN,
    CALL_RETIRE,
    CALL_ABORT,
    CALL_HOLD,
    CALL_POST,
    CALL_POLL,
    CALL_RECLAIM,
    CALL_SUSPEND,
    CALL_RESUME,
    CALL_SNAPSHOT,
    CALL_RETAIN,
    CALL_DECAY,
    CALL_EVICT,
    CALL_EPOCH
};
struct call {
    int8_t kind, a, b, c, d;
};
enum { MAX_CALLS = 512 };

/* Where calls are made: the state under work. */
extern unsigned char *scratch_arena;
extern struct world scratch;
extern pkv_ns namespaces[2];
static inline pkv_blockmgr *mgr(void)
{
    return (pkv_blockmgr *)(void *)scratch_arena;
}

/* Prints what, and the calls that lead there; exits with 1. */
void die(const char *what) __attribute__((noreturn));

/* ---- closure_calls.c */
/* All calls that the state in scratch gets; how many. */
int list_calls(struct call *calls);
/* Make one, and what it does to the world. */
pkv_status make_call(const struct call *c);
void print_call(const struct call *c);
/* The call was answered with PKV_E_AGAIN: it succeeds when the steps it waits for have retired. */
void check_again(const struct call *c);

/* ---- closure_bytes.c */
uint32_t word_of_token(const struct world *w, int s, int g, int pos);
/* The work of a call. */
void bytes_copied(struct world *w, const pkv_block_work *work);
/* Tokens [from, upto) of a sequence are committed: in a step, oldest first, or -1. */
void bytes_committed(struct world *w, int s, int from, int upto, int step);
void bytes_launched(struct world *w, int step);
void bytes_retired(struct world *w, int step);
void bytes_aborted(struct world *w, int step);
void bytes_held(struct world *w, int hold, int s, int n_tokens);
void bytes_swap_planned(struct world *w, int hold, int kind, const pkv_swap_copy *copies, int n);
void bytes_swap_ended(struct world *w, int hold, bool good);
/* Everything that must hold after an OK call; and slots that nobody may read are poisoned, so that
 * the bytes follow from the name of the state. */
void check_bytes(struct world *w);
/* What has changed in the rows since the last call makes the device's copy equal to them. */
void check_delta(struct world *w);
/* Blocks in use before the call that are free for others after it. */
void check_reuse(struct world *w, const pkv_blockmgr *before);

/* ---- closure_state.c */
/* Of manager and world, or of the manager alone, without posts that no poll has met. */
void name_state(const pkv_blockmgr *m, const struct world *w, bool world, uint64_t key[2]);

#endif
