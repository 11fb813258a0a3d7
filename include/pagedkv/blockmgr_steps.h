/* The block manager for engines that run ahead: steps, and what the engine may say about content.
 *
 *   step_begin s ... launch ... commit(tokens, s) ...................... step_retire s
 *                               committed grows, nothing is findable     settled grows: findable,
 *                               blocks released now go to LIMBO -------> reusable
 *
 * A step is one engine iteration whose reads and writes may still be running. What was committed in
 * it is findable only when it has retired, and a block released while any step is open is reused
 * only when every step begun before the release has retired: no call needs to know which sequences
 * took part. Order of one iteration: match, reserve, close; run or queue the work; pkv_step_begin
 * last before the launch; launch; commit. Synchronous engines need none of this.
 *
 * A sequence keeps an ordered list of pending commits (step, tokens). settled = the end of the
 * longest prefix of that list whose steps have all retired. truncate clips the list, fork copies
 * it, close leaves it to the steps: what settles later is published even then (not with IN_ORDER,
 * where close drops it). A sequence closed with commits pending keeps its place until they are
 * gone: pkv_seq_open may answer PKV_E_AGAIN, and its namespace cannot be closed. */
#ifndef PAGEDKV_BLOCKMGR_STEPS_H
#define PAGEDKV_BLOCKMGR_STEPS_H

#include "pagedkv/blockmgr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- steps */

/* Begin a step. Steps are numbered in the order of their begin, from 1; a handle is never reused.
 * PKV_E_INVALID_ARG null; PKV_E_LIMIT: max_steps are open. O(max_steps). */
PKV_API PKV_NODISCARD pkv_status pkv_step_begin(pkv_blockmgr *mgr, pkv_step *out);

/* The reads and writes of the step are done. In any order. What it was the last to hold back
 * settles: open sequences in order of their row index, then closed ones in order of their close;
 * then windows release what no query needs any more; then blocks leave LIMBO in the order of their
 * release. PKV_E_STALE: not an open step. O(max_seqs / 64 + commits pending + blocks released). */
PKV_API PKV_NODISCARD pkv_status pkv_step_retire(pkv_blockmgr *mgr, pkv_step step);

/* The step failed or was given up: its K/V count as never written. As retire for LIMBO, but settles
 * nothing of it: every sequence with tokens committed in it (forks that inherited the commit too)
 * is cut back, committed and reserved, to before its first commit in that step; its later commits
 * are dropped. A recurrent state cannot be taken back: with a STATE group open ones are cut to 0.
 * Nobody may be writing those slots any more. PKV_E_STALE. Cost as retire. */
PKV_API PKV_NODISCARD pkv_status pkv_step_abort(pkv_blockmgr *mgr, pkv_step step);

/* ---------------------------------------------------------------- policy */

/* Which content goes first: priority 0 (first) .. 7 (last), PKV_PRIORITY_DEFAULT otherwise. */
#define PKV_PRIORITY_DEFAULT 3
#define PKV_PRIORITY_MAX 7

/* Give the content of tokens [first, first + n) a priority: every complete unit that the range
 * touches. It counts from the next time one of its blocks becomes evictable, for all who share it,
 * until the content is evicted. A child's class is passed to its parents, so no prefix goes before
 * its continuation. Units not complete yet, or not indexed, take none. No effect with PLAIN_LRU.
 *   PKV_E_INVALID_ARG  null, negative, beyond committed, no such priority; PKV_E_STALE
 *   PKV_E_STATE        the sequence is suspended
 * O(units from the range to the end). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_retain(pkv_blockmgr *mgr, pkv_seq seq, int32_t first,
                                                int32_t n, int32_t priority);

/* Every priority above the default drops by one, for content that is cached and content that is in
 * use. What drops to the default joins its protected class. PKV_E_INVALID_ARG null; PKV_E_LIMIT
 * after 2^32 - 1 times. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_decay(pkv_blockmgr *mgr);

/* Evict the first `n_blocks` blocks of the eviction order (fewer if fewer are cached); *evicted is
 * how many. They become free. PKV_E_INVALID_ARG null, negative. O(n_blocks). */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_evict(pkv_blockmgr *mgr, int32_t n_blocks,
                                                    int32_t *evicted);

/* Old content never matches again (weights changed): every namespace gets a new root. Running
 * sequences go on and are not disturbed, but what they settle is not indexed; a sequence carries
 * the epoch of its open (a fork its parent's) until it is truncated to 0 tokens or matched. Cached
 * blocks of older epochs are evicted before all others. PKV_E_INVALID_ARG null; PKV_E_LIMIT after
 * 2^32 - 1 epochs. O(1). */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_new_epoch(pkv_blockmgr *mgr);

/* Keep the recurrent state as it is after the last committed token: for every STATE group its
 * blocks are copied and the copies hang on the content that ends there, so that a later match can
 * end there too. committed is a multiple of the unit and of every FULL group's block_tokens and
 * greater than 0. PKV_OK without any work if there is a snapshot already, if there is no STATE
 * group, or if the content is not indexed (an older epoch's counts as such). Blocks of an earlier
 * snapshot that were evicted since are made again, the others kept. The new blocks become cached at
 * once (LIMBO while a step is open).
 *   PKV_E_INVALID_ARG; PKV_E_STALE
 *   PKV_E_STATE      committed is not such a multiple, or the sequence is suspended
 *   PKV_E_AGAIN      commits are pending: retire their steps, then retry; or as pkv_seq_reserve
 *   PKV_E_NO_BLOCKS  as pkv_seq_reserve
 *   PKV_E_LIMIT      `work` too small; n_copy <= sum of state_blocks
 * O(blocks). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_snapshot(pkv_blockmgr *mgr, pkv_seq seq,
                                                  pkv_block_work *work);

#ifdef __cplusplus
}
#endif
#endif
