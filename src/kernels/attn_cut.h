/* From the arrays of a batch to the rows and keys of one sequence: what attention and
 * pkv_table_check do alike, so that both give the same verdict on bad data. */
#ifndef PKV_ATTN_CUT_H
#define PKV_ATTN_CUT_H

#include "kernels/kernels_internal.h"

/* Fill the unit with all rows and keys of sequence `seq`, clamped to what the arrays hold, and
 * report what is wrong with them; kv heads stay as they are. Sequences are asked in ascending
 * order: *next_row, 0 at first, is the first row that no earlier sequence has. Of the call only
 * batch, opts, bad, n_rows of q, and block_tokens of k are looked at. False: it has no rows. */
bool pkv__cut_sequence(const struct pkv__attn_call *c, struct pkv__attn_unit *u, int32_t seq,
                       int32_t *next_row);

/* Checks of the two structs, by themselves and together; kernel_args.c. */
pkv_status pkv__check_batch_opts(const pkv_logger *log, const pkv_attn_batch *batch,
                                 const pkv_attn_opts *opts, int64_t n_rows, int32_t n_blocks);

#endif
