/* Blocks without sequences, for engines that keep their own block tables: the same pool, states,
 * content index and eviction, driven block by block. Raw references and sequences may be mixed in
 * one manager. Only managers with one group of kind FULL.
 *
 *   take -> write -> publish (findable) ... lookup by others ... unref -> cached -> evicted */
#ifndef PAGEDKV_BLOCKMGR_RAW_H
#define PAGEDKV_BLOCKMGR_RAW_H

#include "pagedkv/blockmgr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Take n blocks, each with one raw reference. `work` lists what has to be zeroed.
 *   PKV_E_INVALID_ARG; PKV_E_UNSUPPORTED more than one group, or not FULL
 *   PKV_E_NEVER, PKV_E_AGAIN, PKV_E_NO_BLOCKS, PKV_E_LIMIT (work)  as pkv_seq_reserve
 * O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_take(pkv_blockmgr *mgr, int32_t n, int32_t *ids,
                                                 pkv_block_work *work);

/* One more raw reference for each entry of the list (a block named twice gets two). The blocks are
 * referenced already (by whomever) or cached or in LIMBO with findable content, and no sequence has
 * uncommitted room in them.
 *   PKV_E_INVALID_ARG  null, not an id of the pool, a block that holds nothing (free, or unfindable
 *                      in LIMBO), or one in which a sequence has reserved more than it committed
 *   PKV_E_LIMIT        2^30 raw references
 * All or nothing. O(n), for blocks without a complete unit of content O(max_seqs + room). */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_ref(pkv_blockmgr *mgr, const int32_t *ids, int32_t n);

/* One raw reference less for each entry, in the order of the list; give children before parents
 * (tail first) so that a prefix is evicted last.
 *   PKV_E_INVALID_ARG  null, not an id, or an entry more than the block has raw references:
 *                      nothing has changed
 * O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_unref(pkv_blockmgr *mgr, const int32_t *ids, int32_t n);

/* The block (raw-referenced) holds this unit, written by now: tokens->n = block_tokens, with extras
 * relative to it, as the continuation of what `parent` holds (a block with findable content that
 * has a raw reference, or 0: the beginning of a prompt in `ns`). It becomes findable, or a spare if
 * the content is there already. A block that is published as the same unit already: PKV_OK.
 *   PKV_E_INVALID_ARG  null, ids, a unit of another length, no raw reference on one of them,
 *                      parent without complete content or of another namespace
 *   PKV_E_STATE        the block holds other content
 *   PKV_E_STALE        namespace; PKV_E_IDENTITY the parent is of an older epoch
 *   PKV_E_LIMIT        nodes, extras or the probe bound ran out: the block is not findable
 *   PKV_E_UNSUPPORTED  no prefix cache, several groups
 * O(block_tokens). */
PKV_API PKV_NODISCARD pkv_status pkv_block_publish(pkv_blockmgr *mgr, pkv_ns ns, int32_t parent,
                                                   const pkv_tokens *unit, int32_t block);

/* The longest findable prefix of the prompt in full blocks, at most `cap` of them, each with one
 * more raw reference: ids[0 .. *n). Counts as a hit for eviction. PKV_E_INVALID_ARG, PKV_E_STALE,
 * PKV_E_UNSUPPORTED several groups, PKV_E_LIMIT 2^30 raw references. O(prompt->n / block_tokens).
 */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_lookup(pkv_blockmgr *mgr, pkv_ns ns,
                                                   const pkv_tokens *prompt, int32_t *ids,
                                                   int32_t cap, int32_t *n);

#ifdef __cplusplus
}
#endif
#endif
