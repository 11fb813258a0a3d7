/* Claims outside any sequence: transfers and pins with deadlines, and preemption by swap.
 *
 *   hold_open ---- posted (any thread) ----> poll: DONE or FAILED, references dropped
 *        `-------- deadline passes --------> poll: EXPIRED; blocks that only expired holds refer to
 *                                            are in QUARANTINE until pkv_hold_reclaim
 *
 * A hold keeps the bytes of blocks as they are: no sequence writes a slot that it covers (the
 * writer gets a copy), and no block is reused while it lasts. Whoever reads KV outside the order of
 * steps (a transfer, another stream) needs one. The manager has no clock: `now` is any number that
 * never falls, deadlines are in its unit. Only pkv_hold_post may be called from any thread, at any
 * time between init and the end of the manager; everything else belongs to the writer. */
#ifndef PAGEDKV_BLOCKMGR_HOLDS_H
#define PAGEDKV_BLOCKMGR_HOLDS_H

#include "pagedkv/blockmgr.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_hold {
    uint64_t v; /* index:32 | generation:32; {0} = none */
} pkv_hold;
#define PKV_DEADLINE_NEVER UINT64_MAX

/* Hold the blocks of the prefix [0, n_tokens) of a sequence, in every group but STATE ones, as far
 * as windows have not released them. n_tokens is settled. The tail block is held too; its slots
 * from n_tokens on may still be written.
 *   PKV_E_INVALID_ARG  null, n_tokens < 1; PKV_E_STALE; PKV_E_STATE suspended
 *   PKV_E_RANGE        n_tokens > settled, or a window released all of it
 *   PKV_E_LIMIT        max_holds
 * O(blocks). */
PKV_API PKV_NODISCARD pkv_status pkv_hold_open(pkv_blockmgr *mgr, pkv_seq seq, int32_t n_tokens,
                                               uint64_t deadline, pkv_hold *out);

/* The blocks of a hold in one group, in order of position: ids[0 .. *n), at most `cap`.
 * PKV_E_INVALID_ARG; PKV_E_STALE; PKV_E_LIMIT cap < *n (*n is set). O(*n). */
PKV_API PKV_NODISCARD pkv_status pkv_hold_blocks(const pkv_blockmgr *mgr, pkv_hold hold,
                                                 int32_t group, int32_t *ids, int32_t cap,
                                                 int32_t *n);

/* The transfer has ended, with PKV_OK or with a reason why not (stored as PKV_OK or not); or the
 * pin is no longer wanted. Any thread; one atomic word per hold, no lock, no wait. The first post
 * counts; repeated, late (expired) and foreign ones change nothing and are counted in the
 * statistics. A null manager is ignored. */
PKV_API void pkv_hold_post(pkv_blockmgr *mgr, pkv_hold hold, pkv_status result);

typedef enum pkv_hold_end {
    PKV_HOLD_DONE = 0,   /* posted with PKV_OK */
    PKV_HOLD_FAILED = 1, /* posted with another status */
    PKV_HOLD_EXPIRED = 2 /* its deadline passed first: reclaim when the transfer is surely over */
} pkv_hold_end;
typedef struct pkv_hold_result {
    pkv_hold hold;
    pkv_hold_end end;
} pkv_hold_result;

/* Collect posts and pass deadlines (deadline < now, post first where both are true), in order of
 * hold index, at most `cap`; the rest comes next time. DONE and FAILED drop the hold's references
 * and its handle is stale afterwards; EXPIRED keeps them until reclaim.
 *   PKV_E_INVALID_ARG null, negative cap, `now` smaller than before
 * O(max_holds + blocks released). */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_poll(pkv_blockmgr *mgr, uint64_t now,
                                                   pkv_hold_result *done, int32_t cap, int32_t *n);

/* Drop the references of an expired hold. PKV_E_STALE; PKV_E_STATE not expired. O(blocks). */
PKV_API PKV_NODISCARD pkv_status pkv_hold_reclaim(pkv_blockmgr *mgr, pkv_hold hold);

/* ---------------------------------------------------------------- preemption by swap */

/* One block between the device pool (ids of the manager) and the host pool (ids 1 ..
 * n_host_blocks - 1): the whole block. */
typedef struct pkv_swap_copy {
    int32_t device, host, group;
} pkv_swap_copy;

/* Move the KV of these sequences to the host pool. A block moves exactly if all its references are
 * rows of the given sequences (a group of samples moves together, a shared block once); the others
 * stay where they are and stay referenced. The surplus (reserved > committed) is given back first.
 * `copies` (device -> host) is carried out by the caller, after the work of the calls before; then
 * the hold is posted. Until then the sequences are SUSPENDING: they keep both ends.
 *   posted OK      poll releases the moved device blocks (cached while they last, so that other
 *                  prompts may still find them); the sequences are SUSPENDED
 *   posted failed  poll frees the host blocks; the sequences run on as before
 *   deadline       as failed, but both ends stay claimed until pkv_hold_reclaim
 * A suspended sequence can be closed, resumed and asked for its info; everything else is
 * PKV_E_STATE. While a transfer runs (SUSPENDING, RESUMING) close is PKV_E_BUSY. No copies to be
 * made: the sequences are SUSPENDED at once and *hold is {0}.
 *   PKV_E_INVALID_ARG  null, n < 1, one sequence twice; PKV_E_STALE
 *   PKV_E_STATE        one is not running
 *   PKV_E_AGAIN        one has commits pending: retire their steps, then retry
 *   PKV_E_NO_BLOCKS    not enough free host blocks
 *   PKV_E_LIMIT        max_holds, or cap too small (the number of moved blocks suffices)
 * All or nothing. O(rows); where `seqs` is not in order of row_idx, n^2 steps more. */
PKV_API PKV_NODISCARD pkv_status pkv_seqs_suspend(pkv_blockmgr *mgr, const pkv_seq *seqs, int32_t n,
                                                  uint64_t deadline, pkv_swap_copy *copies,
                                                  int32_t cap, int32_t *n_copies, pkv_hold *hold);

/* Bring them back: device blocks are taken as reserve takes them (evicting), a host block shared
 * by several of the given sequences once. `copies` is host -> device. Until the hold is posted the
 * sequences are RESUMING.
 *   posted OK      the host blocks are dropped, the sequences run, their content is findable
 *   posted failed  the device blocks are given back; the sequences stay SUSPENDED
 *   deadline       as failed, but the device blocks are in QUARANTINE until pkv_hold_reclaim
 *   PKV_E_INVALID_ARG, PKV_E_STALE; PKV_E_STATE one is not suspended
 *   PKV_E_AGAIN, PKV_E_NO_BLOCKS  as reserve; never PKV_E_NEVER: what was there once fits
 *   PKV_E_LIMIT        max_holds, or cap too small
 * All or nothing. Cost as suspend. */
PKV_API PKV_NODISCARD pkv_status pkv_seqs_resume(pkv_blockmgr *mgr, const pkv_seq *seqs, int32_t n,
                                                 uint64_t deadline, pkv_swap_copy *copies,
                                                 int32_t cap, int32_t *n_copies, pkv_hold *hold);

#ifdef __cplusplus
}
#endif
#endif
