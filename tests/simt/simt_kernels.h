/* Launchers of the kernels with which the emulator is tested: 0, or what the launch said. Pointers
 * are device memory. Behind them stands one of the emulated builds. */
#ifndef SIMT_KERNELS_H
#define SIMT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- sched_kernels.cu */

/* order[block * n_threads + thread] = how many threads came before; *ticket begins at 0. */
int run_order(uint32_t *order, uint32_t *ticket, int64_t n_blocks, int64_t n_threads);

/* out[t] as in run_order before the warp meets, out[32 + t] after it; tickets[2] begin at 0. */
int run_meeting(uint32_t *out, uint32_t *tickets);

/* n_rounds of: write into dynamic shared memory, meet, read the neighbour's. out[n_threads] */
int run_rounds(uint32_t *out, int n_rounds, int64_t n_threads);

/* out[0 .. 31] the first words of shared memory as a block finds them, in two blocks. */
int run_poison(uint32_t *out);

/* Static arrays of two instances of one function: out[0], out[1] their sizes, out[2] 1 if they are
 * two, out[3] what the first holds after both were filled. */
int run_static_arrays(uint32_t *out);

/* Parameters by value: out[t] = base + t * step, and *n_evaluations says how often the argument was
 * evaluated. */
int run_params(double *out, int *n_evaluations);

/* Does nothing, with `shared_bytes` of dynamic memory; allow: 0, or what to opt in to before. */
int run_limits(int64_t n_blocks, int64_t n_threads, size_t shared_bytes, size_t allow);

/* pool[first + t] += t */
int run_far(uint32_t *pool, int64_t first);

/* `depth` calls inside each other, of 1 KiB of stack and more. Not under nvcc. */
int run_nest(uint32_t *out, int depth);

/* ---------------------------------------------------------------- warp_kernels.cu */
enum { SHUFFLE_IDX, SHUFFLE_XOR, SHUFFLE_UP, SHUFFLE_DOWN };

/* out[lane] = values[the lane read]; 64-bit values. */
int run_shuffle(uint64_t *out, const uint64_t *values, int mode, int by, int width);

/* Even and odd lanes shuffle on their own, in branches; out[lane] = the sum over its half. */
int run_two_masks(uint32_t *out);

/* out[0 .. 2] ballot, any, all of bits; out[3] the ballot of odd lanes only. */
int run_votes(uint32_t *out, uint32_t bits);

/* out[4 * lane ..] sum and maximum by shuffles, and in one meeting. */
int run_reductions(float *out, const float *values);

/* Blocks arrive at counters[0], which goes round; out[block] = 1 for the last one, which sums
 * parts[2 * n_blocks] into out[n_blocks]. counters[1]: the bits of all lanes, counters[2]: the
 * maximum of thread - 40. */
int run_last_arriver(uint32_t *out, uint32_t *parts, uint32_t *counters, int n_blocks);

/* Block 0 writes and tells block 1, which tells block 2, which reads: out[0]. Blocks have to run in
 * this order. words[3], all 0: what is written, and two counters. */
int run_chain(uint32_t *out, uint32_t *words);

/* out[0]: 128 threads count in shared memory. */
int run_shared_atomics(uint32_t *out);

/* ---------------------------------------------------------------- copy_kernels.cu */

/* out, in: 64 x 16 bytes; the first t % 17 of 16-byte t arrive. */
int run_zero_fill(uint8_t *out, const uint8_t *in);

/* out[512] zeros, without a source. */
int run_no_source(uint8_t *out);

/* out[thread][4][3]: the first word of copies of in[0], in[128], in[256] (+ 4 * thread) in groups
 * 0, 2, 3, group 1 being empty, when at most 4, 2, 1, 0 groups are under way. */
int run_groups(uint32_t *out, const uint32_t *in);

/* out[32] the sum of in[n_tiles][128], through a ring of two tiles. */
int run_ring(float *out, const float *in, int n_tiles);

/* ---------------------------------------------------------------- count_kernels.cu */

/* One warp, n_rounds times: thread t loads and stores word t * stride of shared memory (at most
 * 2048), and loads word t * stride of `in`. Lines: "shared store", "shared load", "global load". */
int run_strides(float *out, const float *in, int stride, int n_rounds);

/* The same with 16 bytes at 16 * t * stride: "shared store16", "shared load16", "global load16". */
int run_vectors(float *out, const float *in, int stride);

/* ldmatrix.x4 of rows `pitch` bytes apart: "ldmatrix". Some threads only: "half" for lanes
 * below 16. */
int run_ldmatrix_pitch(uint32_t *out, int pitch);

/* n_rounds consecutive loads of 32 words each, a lane's all at once: "apart"; then shared loads of
 * "one word" by all lanes, and of the same word by "pairs" of them. */
int run_apart(float *out, const float *in, int n_rounds);

/* cp.async of 16 bytes per thread: "copy", as global load and as shared store. */
int run_counted_copy(float *out, const float *in);

/* ---------------------------------------------------------------- tensor_kernels.cu */

/* One mma.m16n8k16: fragments of each lane, [32][4], [32][2], [32][4]. */
int run_mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, int bf16);

/* out[n][32] the registers of n = 1, 2, 4 matrices in[n][8][8]. */
int run_ldmatrix(uint32_t *out, const uint16_t *in, int n, int trans);

/* out[0 .. 31] the transpose of in, out[32 .. 63] that of the transpose. */
int run_movmatrix(uint32_t *out, const uint32_t *in);

/* ---------------------------------------------------------------- number_kernels.cu */

/* out[8 * i ..] of x = in[i]: exp2, log2, rcp, rsqrt; x and -x as f16, as bf16. n: a multiple
 * of 32. */
int run_numbers(float *out, const float *in, int n);

/* out[4 * i ..] of x, y = in[2 * i ..]: x y + y rounded twice, x / y, root of x, -x. n: a multiple
 * of 32. */
int run_exact(float *out, const float *in, int n);

#ifdef __cplusplus
}
#endif

#endif
