/* Kernels with a bug each, and the same kernels without it. `fixed` chooses. They work on
 * out[N_BUG_OUT] and read in[N_BUG_IN], both floats on the device, in[i] = i % 7 + 1; a right one
 * leaves in `out` what its twin leaves, in every schedule.
 *
 * Where a report should point, bug_kernels.cu has a comment "here: name". */
#ifndef BUG_KERNELS_H
#define BUG_KERNELS_H

enum { N_BUG_OUT = 64, N_BUG_IN = 2048 };

/* X(name, what is wrong) */
#define BUG_KERNELS(X)                                                                             \
    X(no_sync_before_merge, "no barrier between the warps' parts and their sum")                   \
    X(no_sync_at_loop_end, "no barrier before a copy into the buffer just read")                   \
    X(no_sync_before_reuse, "no barrier between the last read and the next write")                 \
    X(lax_wait, "the wait lets one group too many go on")                                          \
    X(sync_before_wait, "a syncwarp before the wait and none after it")                            \
    X(no_syncwarp, "another lane's write read without a syncwarp")                                 \
    X(shuffle_as_sync, "a shuffle where a syncwarp belongs")                                       \
    X(partial_syncwarp, "a syncwarp without the lane that wrote")                                  \
    X(uninitialised, "a shared element that nobody wrote")                                         \
    X(static_bounds, "one past a static shared array")                                             \
    X(dynamic_bounds, "one past the dynamic shared memory")                                        \
    X(global_bounds, "one past a global buffer")                                                   \
    X(copy_bounds, "cp.async from behind a global buffer")                                         \
    X(foreign_stack, "a pointer to another thread's variable")                                     \
    X(misaligned_ldv, "16 bytes from a 4-byte boundary")                                           \
    X(misaligned_pun, "the same by a cast")                                                        \
    X(divergent_shuffle, "a shuffle of all lanes in a branch of some")                             \
    X(two_shuffles, "two calls for one shuffle")                                                   \
    X(exited_lane, "a mask with a lane that has exited")                                           \
    X(not_in_mask, "a lane that is not in its mask")                                               \
    X(overlapping_masks, "masks that share lanes")                                                 \
    X(source_not_in_mask, "a shuffle from a lane outside of the mask")                             \
    X(two_barriers, "two calls for one barrier")                                                   \
    X(exit_past_barrier, "some threads leave before the barrier")                                  \
    X(skipped_barrier, "some threads never come to the barrier")                                   \
    X(exit_with_copies, "exit with a copy under way")                                              \
    X(copy_misaligned, "cp.async from a 4-byte boundary")                                          \
    X(copy_to_global, "cp.async into global memory")                                               \
    X(ldmatrix_outside, "a row of ldmatrix in global memory")                                      \
    X(ldmatrix_too_early, "ldmatrix of rows that others wrote, without a syncwarp")                \
    X(two_blocks_write, "two blocks write one word")                                               \
    X(block_reads_block, "a block reads what another one wrote")                                   \
    X(relaxed_arrival, "the last arriver's counter does not order memory")                         \
    X(arrival_before_sync, "arrives before its other threads have written")                        \
    X(write_after_arrival, "a part that is written after the arrival")                             \
    X(shuffle_after_arrival, "a lane arrives for all, and only a shuffle tells the others")        \
    X(global_race, "threads of a block exchange through global memory without a barrier")

#define BUG_DECLARE(name, what) int bug_##name(int fixed, float *out, const float *in);

#ifdef __cplusplus
extern "C" {
#endif
BUG_KERNELS(BUG_DECLARE)
#ifdef __cplusplus
}
#endif

#endif
