/* Block tables for devices: what changed since the last upload, where tokens go, what a batch
 * shares.
 *
 *   rows of group g                      device copy
 *   seq 0  [ 7 12  3  0 ]   delta:       row 0: [2..3) = 3      only what changed,
 *   seq 1  [ 7  9  0  0 ]   ------->     row 1: [1..3) = 9 0    zeros where a row got shorter
 */
#ifndef PAGEDKV_BLOCKMGR_TABLES_H
#define PAGEDKV_BLOCKMGR_TABLES_H

#include "pagedkv/blockmgr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Entries [first, first + n) of row `row_idx`: the next n of the ids. */
typedef struct pkv_table_range {
    int32_t row_idx, first, n;
} pkv_table_range;

typedef struct pkv_delta {
    uint32_t struct_size;
    int32_t n_ranges; /* at most one per row, ascending row_idx */
    int32_t n_ids;    /* sum of their n */
} pkv_delta;
#define PKV_DELTA_INIT                                                                             \
    {                                                                                              \
        sizeof(pkv_delta), 0, 0                                                                    \
    }

/* What a copy of the group's table (all zeros at first, see pkv_blockmgr_rows) lacks since the last
 * delta: applying the ranges makes it equal to the rows of the open sequences, with zeros behind
 * each and in the rows of closed ones. An unchanged table gives 0 ranges. One consumer: an OK call
 * consumes. The manager keeps no pointer: the caller may delay the upload, if it keeps its buffers
 * and the order. A suspended sequence's row is all zeros.
 *   PKV_E_INVALID_ARG  null, negative caps, no such group
 *   PKV_E_LIMIT        a cap is too small: nothing is consumed, out has the sizes that are needed
 * O(max_seqs / 64 + entries written). */
PKV_API PKV_NODISCARD pkv_status pkv_table_delta(pkv_blockmgr *mgr, int32_t group,
                                                 pkv_table_range *ranges, int32_t ranges_cap,
                                                 int32_t *ids, int32_t ids_cap, pkv_delta *out);

/* The copy is lost: the next delta assumes one of all zeros. PKV_E_INVALID_ARG. O(max_seqs). */
PKV_API PKV_NODISCARD pkv_status pkv_table_resync(pkv_blockmgr *mgr, int32_t group);

/* How many leading blocks all `n` sequences share in this group (for a cascade pass): the longest
 * common prefix of their rows, not counting beyond the first null entry or the shortest row's
 * committed full blocks. n = 0 gives 0, n = 1 the sequence's own full blocks.
 *   PKV_E_INVALID_ARG null, negative, a STATE group; PKV_E_STALE; PKV_E_STATE suspended
 * O(n * *n_blocks). */
PKV_API PKV_NODISCARD pkv_status pkv_seqs_common(const pkv_blockmgr *mgr, const pkv_seq *seqs,
                                                 int32_t n, int32_t group, int32_t *n_blocks);

/* How a kernel sees the blocks of a group, where it differs from the manager's view.
 *
 * Context parallelism: `cp_size` ranks hold one sequence together. The manager's block of
 * block_tokens tokens is block_tokens / cp_size slots on each rank; token p of a block belongs to
 * rank (p / cp_interleave) % cp_size. Sub-blocks: a kernel that wants smaller blocks sees block id
 * b as ids b * k .. b * k + k - 1, where k = (block_tokens / cp_size) / kernel_tokens. */
typedef struct pkv_kernel_view {
    uint32_t struct_size;
    int32_t kernel_tokens; /* slots of a kernel's block; 0: block_tokens / cp_size */
    int32_t cp_size;       /* >= 1; divides block_tokens, and cp_interleave * cp_size does too */
    int32_t cp_rank;       /* 0 .. cp_size - 1 */
    int32_t cp_interleave; /* consecutive tokens on one rank, >= 1 */
} pkv_kernel_view;
#define PKV_KERNEL_VIEW_INIT                                                                       \
    {                                                                                              \
        sizeof(pkv_kernel_view), 0, 1, 0, 1                                                        \
    }

/* pkv_seq_slots under a view: slots[i] is the slot on this rank, id * (block_tokens / cp_size) +
 * offset, or -1 where token first_token + i belongs to another rank (kernels skip negative slots)
 * or lies in a block that a window has released. A slot number is the same with and without
 * sub-blocks.
 *   PKV_E_INVALID_ARG as pkv_seq_slots, or a view whose numbers do not divide; PKV_E_ABI
 *   PKV_E_STALE; PKV_E_STATE suspended
 * O(n_tokens). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_view_slots(const pkv_blockmgr *mgr, pkv_seq seq,
                                                    int32_t group, const pkv_kernel_view *view,
                                                    int32_t first_token, int32_t n_tokens,
                                                    int64_t *slots);

/* The sequence's row in sub-block ids: *n = k * row length entries in ids[0..cap); null entries
 * give k zeros. *n_local is how many of the sequence's committed tokens lie on this rank.
 * PKV_E_LIMIT: cap < *n; *n is set. Otherwise as pkv_seq_view_slots. O(*n). */
PKV_API PKV_NODISCARD pkv_status pkv_seq_view_row(const pkv_blockmgr *mgr, pkv_seq seq,
                                                  int32_t group, const pkv_kernel_view *view,
                                                  int32_t *ids, int32_t cap, int32_t *n,
                                                  int32_t *n_local);

#ifdef __cplusplus
}
#endif
#endif
