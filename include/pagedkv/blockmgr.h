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
 * This version has one full-attention group, one domain and no steps: group is 0 everywhere, what
 * is committed counts as already written. Design: the paper "Efficient Memory Management for Large
 * Language Model Serving with PagedAttention" (arXiv 2309.06180) for blocks, tables and
 * copy-on-write; docs/blockmgr.md for the rules. */
#ifndef PAGEDKV_BLOCKMGR_H
#define PAGEDKV_BLOCKMGR_H

#include "pagedkv/base.h"
#include "pagedkv/blockmgr_config.h"

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

#define PKV_MAX_GROUPS 8 /* size of per-group arrays in results; this version fills entry 0 */

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
    PKV_STOP_ROOM = 2, /* a partial hit was given up: it would need an eviction of itself */
    PKV_STOP_OFF = 3   /* the manager has no prefix cache */
} pkv_stop_reason;

typedef struct pkv_match {
    uint32_t struct_size;
    int32_t claimed;        /* tokens: committed length of the sequence after an OK match */
    int32_t claimed_cached; /* blocks of the claim that were evictable before the call */
    int32_t copied;         /* of `claimed`, the tokens that arrive by a copy (partial hit) */
    int32_t longest[PKV_MAX_GROUPS]; /* tokens that group could serve, full blocks */
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
} pkv_need;
#define PKV_NEED_INIT                                                                              \
    {                                                                                              \
        sizeof(pkv_need), 0, 0, 0, 0, PKV_OK                                                       \
    }

/* Open an empty sequence in a namespace. PKV_E_LIMIT: max_seqs are open; PKV_E_STALE: namespace
 * closed. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_open(pkv_blockmgr *mgr, pkv_ns ns, pkv_seq *out);

/* Claim the longest cached prefix of prompt[0 .. max_tokens) and reserve room up to `reserve_upto`
 * tokens in all (0: nothing beyond the claim): both or neither, so that a waiting request never
 * sits on claims it cannot use. The sequence is empty (committed 0); what it had reserved is given
 * back first, tail first, and counts as room for this call. Engines pass max_tokens = n - 1,
 * because one token has to be computed to get logits. max_tokens is clipped to prompt->n.
 *
 * The claim is a multiple of block_tokens. With PARTIAL_HITS the rest is compared with the newest
 * 16 continuations; the best (most tokens, then newest) comes as a copy into a fresh block, if that
 * fits without evicting its source or the claim, else the hit is cut to full blocks. A cached
 * source moves to the most recent end of its eviction class. Afterwards committed = claimed;
 * settled = the full blocks; the copied part settles with the next commit.
 *
 *   PKV_E_INVALID_ARG  null, negative, malformed extras, missing ids; PKV_E_STALE
 *   PKV_E_STATE        committed > 0
 *   PKV_E_LIMIT        reserve_upto > max_seq_tokens, or `work` too small (checked last)
 *   PKV_E_NEVER        the row would exceed the pool
 *   PKV_E_NO_BLOCKS    new blocks > free + evictable, the claim not counted as evictable
 * n_copy <= 1, n_zero <= blocks taken. max_tokens is also bounded by max_seq_tokens silently.
 * O(max_tokens / block_tokens + blocks taken), exact token compare included. */
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
 * If the call does not fit, every copy whose old block has, at its turn, no other reference and
 * whose content has no continuation is left out: the content moves to its oldest duplicate or is
 * withdrawn and the block is written in place; then the call is judged again.
 * Blocks come from the free list, most recently freed first, then from the head of the eviction
 * order. Copy sources are released after the whole call has taken its blocks.
 *
 * First that applies:
 *   PKV_E_INVALID_ARG  null, a negative count, one sequence twice
 *   PKV_E_STALE        a closed sequence
 *   PKV_E_LIMIT        committed + n_tokens > max_seq_tokens
 *   PKV_E_NEVER        a row would exceed the pool
 *   PKV_E_NO_BLOCKS    not enough free and evictable blocks: preempt or wait, then retry
 *   PKV_E_LIMIT        `work` too small: copy_cap >= n_reqs and zero_cap >= blocks taken suffice
 *                      (zero_cap 0 does under PKV_ZERO_NEVER)
 * O(n_reqs + blocks taken). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_reserve(pkv_blockmgr *mgr, const pkv_reserve_req *reqs,
                                                 int32_t n_reqs, pkv_block_work *work);

/* Say which tokens lie in the next tokens->n reserved slots. With PREFIX_CACHE every block that is
 * full becomes findable. `step` is PKV_STEP_NONE: the K/V are written or ordered before any later
 * read. n 0 changes nothing. Where the content already exists, the block becomes its duplicate (a
 * spare): it stays with the sequence, and takes the content over when the first copy goes; an
 * existing copy that nobody refers to is freed in favour of this one.
 *   PKV_E_INVALID_ARG  null, negative, ids missing, malformed extras, or (with PREFIX_CACHE, while
 *                      the sequence is indexed) a first extra that began in committed tokens of the
 *                      unfinished block and is not the last one given for them
 *   PKV_E_STALE        a closed sequence, or any other step
 *   PKV_E_STATE        more than reserved
 * If nodes, extras or the probe bound run out, the block is not findable and neither is what
 * follows it in this sequence, until it is truncated to before that block (statistics count it).
 * The same happens where fork, truncate or match would have to copy extras and there is no room.
 * O(n), and O(claimed / block_tokens) once after a match. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_commit(pkv_blockmgr *mgr, pkv_seq seq,
                                                const pkv_tokens *tokens, pkv_step step);

/* Open `n` children that share every block with committed tokens. Parent and children end with
 * reserved = committed: the parent's surplus is returned, because the tail is shared now.
 * children[0..n) is written on success only.
 *   PKV_E_INVALID_ARG n < 1; PKV_E_STALE; PKV_E_LIMIT not enough sequences
 * O(n * row). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_fork(pkv_blockmgr *mgr, pkv_seq parent, pkv_seq *children,
                                              int32_t n);

/* Each length becomes min(itself, n_tokens); blocks beyond are released, tail first. Published
 * content stays findable by others. Speculative rollback, beam and stop-string trimming.
 *   PKV_E_INVALID_ARG  negative, or n_tokens > reserved; PKV_E_STALE
 * O(blocks released), amortised: a release may move older cached blocks to the other class. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_truncate(pkv_blockmgr *mgr, pkv_seq seq, int32_t n_tokens);

/* Close it. Blocks with settled content become cached when nobody else refers to them, tail first;
 * with PARTIAL_HITS the settled partial tail is published before. PKV_E_STALE. O(row),
 * amortised as truncate. */
PKV_API PKV_NODISCARD pkv_status pkv_seq_close(pkv_blockmgr *mgr, pkv_seq seq);

/* The block table of a sequence: *ids points at ceil(reserved / block_tokens) ids inside the
 * manager (entries behind them, up to the row's width, are 0). The pointer stays valid until the
 * sequence is closed; what it points at changes with match, reserve, truncate, fork and close of
 * this sequence. PKV_E_STALE; PKV_E_INVALID_ARG group != 0. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_row(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group,
                                             const int32_t **ids, int32_t *n_ids);

/* All rows at once: *rows is [max_seqs][*row_width] ids, row i belongs to the sequence whose
 * pkv_seq_info_t.row_idx is i. Kernels on the CPU read it in place. The pointer is stable
 * for the life of the manager. PKV_E_INVALID_ARG null or group != 0. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_rows(const pkv_blockmgr *mgr, int32_t group,
                                                   const int32_t **rows, int32_t *row_width);

/* Where tokens [first_token, first_token + n_tokens) are written: slots[i] = block id *
 * block_tokens + offset. PKV_E_INVALID_ARG beyond reserved; PKV_E_STALE. O(n_tokens). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_slots(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group,
                                               int32_t first_token, int32_t n_tokens,
                                               int64_t *slots);

typedef struct pkv_seq_info_t {
    uint32_t struct_size;
    int32_t settled, committed, reserved; /* tokens; settled <= committed <= reserved */
    int32_t row_idx;                      /* fixed while the sequence is open */
    int32_t n_blocks;                     /* blocks in its row */
    int32_t blocks_if_closed;             /* blocks that become free or cached by closing it */
    int32_t n_indexed;                    /* leading blocks that are findable */
    pkv_ns ns;
} pkv_seq_info_t;
#define PKV_SEQ_INFO_INIT                                                                          \
    {                                                                                              \
        sizeof(pkv_seq_info_t), 0, 0, 0, 0, 0, 0, 0,                                               \
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

typedef struct pkv_blockmgr_stats_t {
    uint32_t struct_size;
    int32_t block_tokens;
    int32_t n_blocks;         /* null block included */
    int32_t free_blocks;      /* free + active + cached = n_blocks - 1 */
    int32_t active_blocks;    /* referenced by at least one row */
    int32_t cached_blocks;    /* unreferenced, findable, evictable */
    int32_t protected_blocks; /* of the cached: class of blocks hit at least once */
    int32_t open_seqs, open_namespaces;
    int32_t nodes, extras;             /* content nodes and extra entries in use */
    uint64_t query_tokens, hit_tokens; /* of OK matches: asked for (clipped), claimed */
    uint64_t taken_blocks;             /* blocks handed out */
    uint64_t evicted_blocks;           /* cached content dropped to make room */
    uint64_t copies;                   /* planned by reserve and match */
    uint64_t withdrawn;                /* content withdrawn or moved to write in place */
    uint64_t unindexed_units;          /* full blocks that could not be made findable */
} pkv_blockmgr_stats_t;
#define PKV_BLOCKMGR_STATS_INIT                                                                    \
    {                                                                                              \
        sizeof(pkv_blockmgr_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0            \
    }
/* O(1). out->struct_size is the caller's and is kept. */
PKV_API void pkv_blockmgr_stats(const pkv_blockmgr *mgr, pkv_blockmgr_stats_t *out);

/* Verify the invariants. Level 1: counts, O(1); 2: every block, O(blocks + rows); 3: content nodes,
 * index, tables and lists as well. PKV_E_CORRUPT: the log names the invariant (docs/blockmgr.md)
 * and the object. PKV_E_INVALID_ARG for another level. */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_check(const pkv_blockmgr *mgr, int level);

/* Digest of the logical state: handles, lengths, tables, content, orders. Equal digests mean equal
 * answers to every later call. Not of statistics. Same on every platform, compiler and
 * hash_secret; detects divergence of ranks; no protection against forgery. O(state). */
PKV_API void pkv_blockmgr_digest(const pkv_blockmgr *mgr, uint8_t out[16]);

#ifdef __cplusplus
}
#endif
#endif
