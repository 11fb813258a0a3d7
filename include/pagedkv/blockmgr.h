/* The block manager: which KV block belongs to whom.
 *
 *  sequences (handles)      block tables (rows of int32)          blocks (records, no bytes)
 *  seq A  committed 38  ->  [ 7 | 12 | 3 ]  ------------------->  7   ref 2  content n41
 *  seq B  fork of A     ->  [ 7 | 12 | 9 ]  -- 7, 12 shared --->  12  ref 2  content n42
 *                                                                 3   ref 1  (tail of A, private)
 *  content nodes: namespace -> n41 (tokens 0..15) -> n42 ...      9   ref 1  (tail of B, private)
 *                                                                 5   ref 0  CACHED: findable
 *
 * It hands out ids, counts references, keeps one block table per sequence, finds blocks that
 * already hold a prompt's content, and says which bytes to zero and to copy. It owns no KV bytes,
 * no device, no thread and no clock. A simple engine needs ten calls:
 *
 *     pkv_seq_open; pkv_seq_match(prompt, n - 1, n); do the work; write K/V by pkv_seq_slots;
 *     attend by pkv_seq_row; pkv_seq_commit(ids); then per token: pkv_seq_reserve(1); do the work;
 *     ...; pkv_seq_commit(1); at the end pkv_seq_close.
 *
 * Rules that hold everywhere:
 *  - Every mutating call is all or nothing: on any status but PKV_OK the digest is unchanged and
 *    no output is written.
 *  - A struct that begins with struct_size and carries another size is PKV_E_ABI in every function
 *    that returns a status.
 *  - No allocation, no lock, no system call after init. One writer thread per manager: every
 *    function here, const ones included, is called from one thread at a time (const ones use
 *    scratch space inside the manager).
 *  - Content identity is exact: parent, tokens and extra keys are compared; a hash only narrows.
 *  - Published content is immutable. A sequence writes a block at offset o only if no content on
 *    that block covers a token at or after o and no other row refers to it; otherwise reserve
 *    plans a copy and the row names the new block.
 *  - Work is ordered: what an OK call returns in `work` is done in the order of the calls, zeroing
 *    before copies, before the KV writes that follow. Lists of two calls never run as one parallel
 *    launch. Within one list no block is both source and destination, or twice a destination.
 *  - Block 0 is the null block: padding in rows; never handed out.
 *
 * Here is what every engine needs. blockmgr_steps.h: engines that run ahead, and policy;
 * blockmgr_tables.h: tables for devices; blockmgr_holds.h: transfers, pins, preemption by swap;
 * blockmgr_raw.h: blocks without sequences. Design: the paper "Efficient Memory Management for
 * Large Language Model Serving with PagedAttention" (arXiv 2309.06180) for blocks, tables and
 * copy-on-write; docs/blockmgr.md for the rules. */
#ifndef PAGEDKV_BLOCKMGR_H
#define PAGEDKV_BLOCKMGR_H

#include "pagedkv/base.h"
#include "pagedkv/blockmgr_config.h"
#include "pagedkv/blockmgr_stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Handles carry a generation: one that was closed answers PKV_E_STALE for ever. */
typedef struct pkv_seq {
    uint64_t v; /* index:32 | generation:32; {0} = none */
} pkv_seq;
typedef struct pkv_step {
    uint64_t v; /* PKV_STEP_NONE: the tokens are already written */
} pkv_step;
static const pkv_step PKV_STEP_NONE = { 0 };

/* ---------------------------------------------------------------- sequences */

/* An extra key: what else than token ids decides the K/V of some tokens (an image, user data).
 * `first` is relative to the ids of the call and may be negative for an extra that began in an
 * earlier call; first + n > 0. Lists are sorted by `first` and do not overlap. The same extras have
 * to be given for the same content, however the tokens are split over calls. */
typedef struct pkv_extra {
    int32_t first, n;
    uint8_t digest[32]; /* the caller's digest of the extra content */
} pkv_extra;

/* Token ids, any int32 values. Nothing is kept of the pointers. */
typedef struct pkv_tokens {
    const int32_t *ids; /* [n]; may be NULL in a manager without PREFIX_CACHE */
    int32_t n;
    const pkv_extra *extras; /* [n_extras], or NULL with 0 */
    int32_t n_extras;
} pkv_tokens;

/* What a call wants done to bytes, in this order: zero, then copy. The caller provides the arrays;
 * an OK call sets both counts (it does not append), a refused one touches nothing. */
typedef struct pkv_block_work {
    uint32_t struct_size;
    int32_t *zero; /* blocks to zero, ascending in the order they were taken */
    int32_t zero_cap, n_zero;
    pkv_block_copy *copy;
    int32_t copy_cap, n_copy;
} pkv_block_work;
#define PKV_BLOCK_WORK_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_block_work), NULL, 0, 0, NULL, 0, 0                                             \
    }

typedef struct pkv_reserve_req {
    pkv_seq seq;
    int32_t n_tokens; /* >= 0, counted from `committed` */
} pkv_reserve_req;

/* Why a match ended where it did. */
typedef enum pkv_stop_reason {
    PKV_STOP_END = 0,  /* the prompt or max_tokens is reached, to the token or to the last block */
    PKV_STOP_MISS = 1, /* what comes next is not cached */
    PKV_STOP_ROOM = 2, /* a partial hit, or a claim with a snapshot, was given up: it would need an
                            eviction of itself */
    PKV_STOP_OFF = 3,  /* the manager has no prefix cache */
    PKV_STOP_WINDOW = 4, /* the content is known, but a block that this group's window needs is not
                            cached */
    PKV_STOP_STATE = 5   /* the content is known, but there is no snapshot of the state */
} pkv_stop_reason;

typedef struct pkv_match {
    uint32_t struct_size;
    int32_t claimed;        /* tokens: committed length of the sequence after an OK match */
    int32_t claimed_cached; /* blocks of the claim that were evictable before the call */
    int32_t copied;         /* of `claimed`, the tokens that arrive by a copy (partial hit) */
    int32_t longest[PKV_MAX_GROUPS]; /* tokens that this group alone could serve, full units */
    pkv_stop_reason stop_reason[PKV_MAX_GROUPS];
} pkv_match;
#define PKV_MATCH_INIT                                                                             \
    {                                                                                              \
        sizeof(pkv_match), 0, 0, 0, { 0 },                                                         \
        {                                                                                          \
            PKV_STOP_END                                                                           \
        }                                                                                          \
    }

typedef struct pkv_need {
    uint32_t struct_size;
    int32_t new_blocks; /* blocks taken, destinations of copies included */
    int32_t copies;     /* of them */
    int32_t evictions;  /* cached blocks that would lose their content; 0 unless PKV_OK */
    int32_t zeros;      /* entries of work->zero; 0 unless PKV_OK */
    pkv_status verdict; /* what pkv_seq_reserve would answer with large enough work arrays */
    pkv_step step;      /* PKV_E_AGAIN: retiring all open steps up to this one suffices */
} pkv_need;
#define PKV_NEED_INIT                                                                              \
    {                                                                                              \
        sizeof(pkv_need), 0, 0, 0, 0, PKV_OK,                                                      \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Open an empty sequence in a namespace. PKV_E_AGAIN: no room but that of closed sequences with
 * commits pending; PKV_E_LIMIT: max_seqs are open; PKV_E_STALE: namespace closed. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_open(pkv_blockmgr *mgr, pkv_ns ns, pkv_seq *out);

/* Claim the longest cached prefix of prompt[0 .. max_tokens) and reserve room up to `reserve_upto`
 * tokens in all (0: nothing beyond the claim): both or neither, so that a waiting request never
 * sits on claims it cannot use. The sequence is empty (committed 0); what it had reserved is given
 * back first, tail first, and counts as room for this call. Engines pass max_tokens = n - 1,
 * because one token has to be computed to get logits. max_tokens is clipped to prompt->n.
 *
 * The claim is the longest length that every group can serve: a multiple of the unit; FULL groups
 * have every block; SLIDING and CHUNKED ones the blocks that a query behind the claim sees (entries
 * below are 0), and it ends one of their blocks unless nothing below is seen; STATE groups have a
 * snapshot there, which comes as copies. With PARTIAL_HITS (all groups of equal block_tokens, no
 * STATE, else no effect) the rest is compared with the newest 16 continuations, of which those
 * without a block in every group are passed over; the best (most tokens, then newest) comes as a
 * copy into a fresh block per group, if that fits without evicting its sources or the claim, else
 * the hit is cut to full blocks. Cached sources move to the most recent end of their eviction class
 * (LIMBO while a step is open). Afterwards committed = claimed; settled = the full units; the
 * copied part settles with the next commit. While a step is open the old surplus is not room for
 * this call: truncate to 0 first.
 *
 *   PKV_E_INVALID_ARG  null, negative, malformed extras, missing ids; PKV_E_STALE
 *   PKV_E_STATE        committed > 0
 *   PKV_E_LIMIT        reserve_upto > max_seq_tokens, or `work` too small (checked last)
 *   PKV_E_NEVER        the rows would exceed the pool
 *   PKV_E_AGAIN        new blocks > free + evictable, the claim not counted as evictable, but there
 *                      will be enough when blocks leave LIMBO
 *   PKV_E_NO_BLOCKS    not even then
 * n_copy <= n_groups, or the sum of state_blocks; n_zero <= blocks taken. max_tokens is also
 * bounded by max_seq_tokens silently. O(max_tokens / block_tokens + blocks taken), exact token
 * compare included. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_match(pkv_blockmgr *mgr, pkv_seq seq,
                                               const pkv_tokens *prompt, int32_t max_tokens,
                                               int32_t reserve_upto, pkv_block_work *work,
                                               pkv_match *out);

/* Make room for `n_tokens` more tokens, counted from `committed`, in each of `n_reqs` sequences:
 * reserved = max(reserved, committed + n_tokens); it never shrinks. n_tokens 0 changes nothing.
 *
 * Requests are served in order. Where the next token would land in a block that others refer to or
 * whose published content it would overwrite, a copy is planned and the row names the new block: of
 * four siblings on one unpublished tail the first three copy, and the last, then alone, keeps it.
 * A STATE group's blocks are written by every reserve of n_tokens > 0, so they are copied while
 * they are shared or a snapshot.
 * If the call does not fit and no step is open, every copy whose old block has, at its turn, no
 * other reference is left out: the content moves to its oldest duplicate or is withdrawn, with the
 * cached blocks that continue it, and the block is written in place; the call is judged again.
 * Blocks come from the free list, most recently freed first, then from the head of the eviction
 * order. Copy sources are released after the whole call has taken its blocks.
 *
 * First that applies:
 *   PKV_E_INVALID_ARG  null, a negative count, one sequence twice
 *   PKV_E_STALE        a closed sequence
 *   PKV_E_STATE        a suspended sequence
 *   PKV_E_LIMIT        committed + n_tokens > max_seq_tokens
 *   PKV_E_NEVER        the blocks of one sequence would exceed the pool (a smaller chunk may fit
 *                      where windows slide)
 *   PKV_E_AGAIN        enough blocks come free when open steps retire: see pkv_blockmgr_need
 *   PKV_E_NO_BLOCKS    not enough free and evictable blocks: preempt or wait, then retry. Not final
 *                      while steps are open: retry after the next retire before preempting
 *   PKV_E_LIMIT        `work` too small: copy_cap >= n_reqs * n_groups (a STATE group counted with
 *                      its state_blocks) and zero_cap >= blocks taken suffice (zero_cap 0 does
 *                      under PKV_ZERO_NEVER)
 * O(n_reqs + blocks taken). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_reserve(pkv_blockmgr *mgr, const pkv_reserve_req *reqs,
                                                 int32_t n_reqs, pkv_block_work *work);

/* Say which tokens lie in the next tokens->n reserved slots, which have stayed reserved, and
 * in the same blocks, since their launch. With PREFIX_CACHE every unit that is complete becomes
 * findable when it settles: at once, or when the open `step` that writes it retires, and every
 * earlier one that the sequence has commits in. PKV_STEP_NONE: the K/V are written or ordered
 * before any later read. n 0 changes nothing. Where the content already exists, the block becomes
 * its duplicate (a spare): it stays with the sequence, and takes the content over when the first
 * copy goes; an existing copy that nobody refers to is freed in favour of this one.
 *   PKV_E_INVALID_ARG  null, negative, ids missing, malformed extras, or (with PREFIX_CACHE, while
 *                      the sequence is indexed) a first extra that began in committed tokens of the
 *                      unfinished block and is not the last one given for them
 *   PKV_E_STALE        a closed sequence, a step that is not open
 *   PKV_E_STATE        more than reserved, or suspended
 * If nodes, extras or the probe bound run out, the block is not findable and neither is what
 * follows it in this sequence, until it is truncated to before that block (statistics count it).
 * The same happens where fork, truncate or match would have to copy extras and there is no room.
 * O(n), and O(claimed / block_tokens) once after a match. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_commit(pkv_blockmgr *mgr, pkv_seq seq,
                                                const pkv_tokens *tokens, pkv_step step);

/* Open `n` children that share every block with committed tokens. Parent and children end with
 * reserved = committed: the parent's surplus is returned, because the tail is shared now.
 * Children inherit pending commits. Fork after committing what was launched: tokens launched and
 * not committed yet are lost to all. children[0..n) is written on success only.
 *   PKV_E_INVALID_ARG n < 1; PKV_E_STALE; PKV_E_STATE suspended; PKV_E_AGAIN, PKV_E_LIMIT as open
 * O(n * row). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_fork(pkv_blockmgr *mgr, pkv_seq parent, pkv_seq *children,
                                              int32_t n);

/* Each length becomes min(itself, n_tokens); blocks beyond are released, group by group, tail
 * first. Published content stays findable by others. Speculative rollback, beam and stop-string
 * trimming.
 *   PKV_E_INVALID_ARG  negative, or n_tokens > reserved; PKV_E_STALE; PKV_E_STATE suspended
 *   PKV_E_RANGE        below settled: a windowed group no longer has a block that a query at
 *                      n_tokens sees, or the block that n_tokens lies inside (rollback_tokens keeps
 *                      some). Below committed: there is a STATE group (only 0 is possible then)
 * O(blocks released), amortised: a release may move older cached blocks to the other class. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_truncate(pkv_blockmgr *mgr, pkv_seq seq, int32_t n_tokens);

/* Close it. Blocks with settled content become cached when nobody else refers to them, group by
 * group, tail first; with PARTIAL_HITS the partial tail is published before, or when it settles,
 * unless its block carries longer content then. PKV_E_STALE; PKV_E_BUSY a swap of it is running.
 * O(row), amortised as truncate. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_close(pkv_blockmgr *mgr, pkv_seq seq);

/* The block table of a sequence: *ids points at ceil(reserved / block_tokens) ids inside the
 * manager (entries behind them, up to the row's width, are 0, and so are those that a window has
 * released); for a STATE group at its state_blocks ids, none before the first reserve. The pointer
 * stays valid until the sequence is closed; what it points at changes with match, reserve,
 * truncate, fork and close of this sequence, and where windows slide with commit, retire and abort.
 * PKV_E_STALE; PKV_E_STATE suspended; PKV_E_INVALID_ARG no such group. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_row(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group,
                                             const int32_t **ids, int32_t *n_ids);

/* All rows of a group at once: *rows is [max_seqs][*row_width] ids, row i belongs to the open
 * sequence whose pkv_seq_info_t.row_idx is i; what is in other rows means nothing. Kernels on the
 * CPU read it in place. The pointer is stable for the life of the manager. PKV_E_INVALID_ARG null
 * or no such group. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_rows(const pkv_blockmgr *mgr, int32_t group,
                                                   const int32_t **rows, int32_t *row_width);

/* Where tokens [first_token, first_token + n_tokens) are written: slots[i] = block id *
 * block_tokens + offset, -1 where a window has released the block. PKV_E_INVALID_ARG beyond
 * reserved, or a STATE group; PKV_E_STALE; PKV_E_STATE suspended. O(n_tokens). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_slots(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group,
                                               int32_t first_token, int32_t n_tokens,
                                               int64_t *slots);

typedef enum pkv_seq_state {
    PKV_SEQ_RUNNING = 0,
    PKV_SEQ_SUSPENDING = 1, /* blockmgr_holds.h */
    PKV_SEQ_SUSPENDED = 2,
    PKV_SEQ_RESUMING = 3
} pkv_seq_state;

typedef struct pkv_seq_info_t {
    uint32_t struct_size;
    int32_t settled, committed, reserved; /* tokens; settled <= committed <= reserved */
    int32_t row_idx;                      /* fixed while the sequence is open */
    int32_t n_blocks;                     /* device blocks in its rows, all groups */
    int32_t blocks_if_closed;             /* of them, those that nobody else refers to */
    int32_t n_indexed;                    /* leading units that are findable */
    int32_t n_pending;                    /* steps that it has commits pending in */
    pkv_seq_state state;
    uint32_t epoch;
    pkv_ns ns;
} pkv_seq_info_t;
#define PKV_SEQ_INFO_INIT                                                                          \
    {                                                                                              \
        sizeof(pkv_seq_info_t), 0, 0, 0, 0, 0, 0, 0, 0, PKV_SEQ_RUNNING, 0,                        \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
/* PKV_E_INVALID_ARG null; PKV_E_STALE. O(row), because of blocks_if_closed. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_info(const pkv_blockmgr *mgr, pkv_seq seq,
                                              pkv_seq_info_t *out);

/* ---------------------------------------------------------------- questions */

/* What pkv_seq_match would claim with max_tokens = prompt->n, room for a partial copy assumed.
 * Takes no reference and changes no order. PKV_E_INVALID_ARG, PKV_E_STALE as match. */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_probe(const pkv_blockmgr *mgr, pkv_ns ns,
                                                    const pkv_tokens *prompt, pkv_match *out);

/* What pkv_seq_reserve would do with these requests. Returns PKV_OK and puts the answer into
 * out->verdict, except for PKV_E_INVALID_ARG (null pointers). Counts describe the plan that would
 * run (the second, without avoidable copies, if the first does not fit); 0 when refused before. */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_need(const pkv_blockmgr *mgr,
                                                   const pkv_reserve_req *reqs, int32_t n_reqs,
                                                   pkv_need *out);

#ifdef __cplusplus
}
#endif
#endif
