/* Planted bugs, one kernel each (bug_kernels.h says which), with FIXED for the same kernel without.
 */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/bug_kernels.h"

namespace
{

/* ---------------------------------------------------------------- order of memory in a block */

template <bool FIXED> PKV_GLOBAL(64) no_sync_before_merge(float *out, const float *in)
{
    PKV_DEV_SHARED(float, parts, 2);
    const float sum = pkv_warp_sum(in[pkv_thread()]);
    if (pkv_lane() == 0) parts[pkv_warp()] = sum;
    if (FIXED) pkv_syncthreads();
    if (pkv_thread() == 0) out[0] = parts[0] + parts[1]; /* here: no_sync_before_merge */
}

/* All threads read all of a tile while the next one is copied. */
template <bool FIXED> PKV_GLOBAL(64) no_sync_at_loop_end(float *out, const float *in)
{
    PKV_DEV_SHARED(float, tiles, 2 * 256);
    const int32_t t = pkv_thread();
    float sum = 0;
    pkv_cp_async16(&tiles[4 * t], in + 4 * t);
    pkv_cp_commit();
    for (int32_t i = 0; i < 6; i++) {
        if (i + 1 < 6)
            pkv_cp_async16(&tiles[(i + 1) % 2 * 256 + 4 * t], /* here: no_sync_at_loop_end */
                           in + (i + 1) * 256 + 4 * t);
        pkv_cp_commit();
        pkv_cp_wait<1>();
        pkv_syncthreads();
        for (int32_t j = 0; j < 256; j++) sum += tiles[i % 2 * 256 + j];
        if (FIXED) pkv_syncthreads();
    }
    pkv_cp_wait<0>();
    out[t] = sum;
}

template <bool FIXED> PKV_GLOBAL(64) no_sync_before_reuse(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 1);
    if (pkv_thread() == 0) s[0] = in[1];
    pkv_syncthreads();
    float x = s[0];
    if (FIXED) pkv_syncthreads();
    if (pkv_thread() == 63) s[0] = 2 * x; /* here: no_sync_before_reuse */
    pkv_syncthreads();
    out[pkv_thread()] = x + s[0];
}

template <bool FIXED> PKV_GLOBAL(32) lax_wait(float *out, const float *in)
{
    PKV_DEV_SHARED(float, tile, 256);
    const int32_t t = pkv_thread();
    pkv_cp_async16(&tile[4 * t], in + 4 * t);
    pkv_cp_commit();
    pkv_cp_async16(&tile[128 + 4 * t], in + 128 + 4 * t);
    pkv_cp_commit();
    pkv_cp_wait<FIXED ? 1 : 2>();
    pkv_syncwarp();
    out[t] = tile[t] + tile[32 + t]; /* here: lax_wait */
    pkv_cp_wait<0>();
}

template <bool FIXED> PKV_GLOBAL(32) sync_before_wait(float *out, const float *in)
{
    PKV_DEV_SHARED(float, tile, 128);
    pkv_cp_async16(&tile[4 * pkv_lane()], in + 4 * pkv_lane());
    pkv_cp_commit();
    if (!FIXED) pkv_syncwarp();
    pkv_cp_wait<0>();
    if (!FIXED) pkv_shfl(0, 0); /* lets all lanes wait first */
    if (FIXED) pkv_syncwarp();
    out[pkv_lane()] = tile[4 * (31 - pkv_lane())]; /* here: sync_before_wait */
}

template <bool FIXED> PKV_GLOBAL(32) no_syncwarp(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 32);
    s[pkv_lane()] = in[pkv_lane()];
    if (FIXED) pkv_syncwarp();
    out[pkv_lane()] = s[31 - pkv_lane()]; /* here: no_syncwarp */
}

template <bool FIXED> PKV_GLOBAL(32) shuffle_as_sync(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 32);
    s[pkv_lane()] = in[pkv_lane()];
    const float zero = pkv_shfl(0.f, 0);
    if (FIXED) pkv_syncwarp();
    out[pkv_lane()] = s[31 - pkv_lane()] + zero; /* here: shuffle_as_sync */
}

template <bool FIXED> PKV_GLOBAL(32) partial_syncwarp(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 1);
    if (pkv_lane() == 0) s[0] = in[0];
    pkv_shfl(0, 0); /* the emulator's schedules leave the write in front */
    if (FIXED || pkv_lane() != 0) pkv_syncwarp(FIXED ? PKV_FULL_MASK : 0xfffffffeu);
    out[pkv_lane()] = s[0]; /* here: partial_syncwarp */
}

template <bool FIXED> PKV_GLOBAL(32) uninitialised(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 32);
    if (FIXED || pkv_lane() < 30) s[pkv_lane()] = in[pkv_lane()];
    pkv_syncwarp();
    out[pkv_lane()] = s[pkv_lane()]; /* here: uninitialised */
}

/* ---------------------------------------------------------------- bounds and alignment */

template <bool FIXED> PKV_GLOBAL(32) static_bounds(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 32);
    s[FIXED ? pkv_lane() : pkv_lane() + 1] = in[pkv_lane()]; /* here: static_bounds */
    pkv_syncwarp();
    out[pkv_lane()] = s[pkv_lane()]; /* a store that nobody loads, nvcc drops */
}

template <bool FIXED> PKV_GLOBAL(32) dynamic_bounds(float *out, const float *in)
{
    PKV_DEV_SHARED_DYN(float, s);
    s[FIXED ? pkv_lane() : pkv_lane() + 1] = in[pkv_lane()]; /* here: dynamic_bounds */
    out[pkv_lane()] = in[pkv_lane()];
}

template <bool FIXED> PKV_GLOBAL(64) global_bounds(float *out, const float *in)
{
    const int32_t i = FIXED ? pkv_thread() : pkv_thread() + 1;
    out[i] = in[i % 64]; /* here: global_bounds */
}

template <bool FIXED> PKV_GLOBAL(32) copy_bounds(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 128);
    const int32_t first = FIXED ? 2048 - 128 : 2048 - 124;
    pkv_cp_async16(&s[4 * pkv_lane()], in + first + 4 * pkv_lane()); /* here: copy_bounds */
    pkv_cp_commit();
    pkv_cp_wait<0>();
    out[pkv_lane()] = in[pkv_lane()];
}

template <bool FIXED> PKV_GLOBAL(32) foreign_stack(float *out, const float *in)
{
    PKV_DEV_SHARED(const float *, address, 1);
    volatile float mine = in[pkv_lane()];
    if (pkv_lane() == 0) address[0] = FIXED ? in : const_cast<const float *>(&mine);
    pkv_syncwarp();
    const float *p = address[0];
    out[pkv_lane()] = p[0]; /* here: foreign_stack */
    pkv_syncwarp();
}

template <bool FIXED> PKV_GLOBAL(32) misaligned_ldv(float *out, const float *in)
{
    const float4 v = pkv_ldv<float4>(in + (FIXED ? 4 : 1)); /* here: misaligned_ldv */
    out[pkv_lane()] = v.x + v.y + v.z + v.w;
}

template <bool FIXED> PKV_GLOBAL(32) misaligned_pun(float *out, const float *in)
{
    const float4 *p = reinterpret_cast<const float4 *>(in + (FIXED ? 4 : 1)); /* lint: on purpose */
    out[pkv_lane()] = p->x + p->w; /* here: misaligned_pun */
}

/* ---------------------------------------------------------------- threads that do not meet */

template <bool FIXED> PKV_GLOBAL(32) divergent_shuffle(float *out, const float *in)
{
    float x = in[pkv_lane()];
    if (FIXED || pkv_lane() < 20) x = pkv_shfl_xor(x, 1); /* here: divergent_shuffle */
    out[pkv_lane()] = x;
}

template <bool FIXED> PKV_GLOBAL(32) two_shuffles(float *out, const float *in)
{
    float x = in[pkv_lane()];
    if (FIXED || pkv_lane() % 2 == 0) x = pkv_shfl_xor(x, 1); /* here: two_shuffles */
    else x = pkv_shfl_xor(x, 1);
    out[pkv_lane()] = x;
}

template <bool FIXED> PKV_GLOBAL(32) exited_lane(float *out, const float *in)
{
    float x = in[pkv_lane()];
    pkv_syncwarp();
    if (!FIXED && pkv_lane() == 5) return;
    pkv_syncwarp(FIXED ? PKV_FULL_MASK : 0xffffffdfu);
    x = pkv_shfl_xor(x, 1); /* here: exited_lane */
    out[pkv_lane()] = x;
}

template <bool FIXED> PKV_GLOBAL(32) not_in_mask(float *out, const float *in)
{
    out[pkv_lane()] = in[0];
    pkv_syncwarp(FIXED ? PKV_FULL_MASK : 0xffff0000u); /* here: not_in_mask */
}

template <bool FIXED> PKV_GLOBAL(32) overlapping_masks(float *out, const float *in)
{
    float x = in[pkv_lane()];
    if (pkv_lane() < 16) x = pkv_shfl_xor(x, 1, 32, FIXED ? 0x0000ffffu : 0x8000ffffu);
    else x = pkv_shfl_xor(x, 1, 32, 0xffff0000u); /* here: overlapping_masks */
    out[pkv_lane()] = x;
}

template <bool FIXED> PKV_GLOBAL(32) source_not_in_mask(float *out, const float *in)
{
    float x = in[pkv_lane()];
    if (pkv_lane() < 16)
        x = pkv_shfl(x, FIXED ? 3 : 20, 32, 0xffffu); /* here: source_not_in_mask */
    out[pkv_lane()] = x;
}

template <bool FIXED> PKV_GLOBAL(64) two_barriers(float *out, const float *in)
{
    if (FIXED || pkv_thread() < 32) pkv_syncthreads(); /* here: two_barriers */
    else pkv_syncthreads();
    out[pkv_thread()] = in[pkv_thread()];
}

template <bool FIXED> PKV_GLOBAL(64) exit_past_barrier(float *out, const float *in)
{
    out[pkv_thread()] = in[pkv_thread()];
    if (!FIXED && pkv_warp() == 1) return;
    pkv_syncthreads(); /* here: exit_past_barrier */
}

/* Half of the threads wait at the barrier, the other half for them. */
template <bool FIXED> PKV_GLOBAL(32) skipped_barrier(float *out, const float *in)
{
    out[pkv_thread()] = in[pkv_thread()];
    if (FIXED || pkv_lane() < 16) pkv_syncthreads();
    pkv_syncwarp(); /* here: skipped_barrier */
}

/* ---------------------------------------------------------------- copies and matrices */

template <bool FIXED> PKV_GLOBAL(32) exit_with_copies(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 128);
    out[pkv_lane()] = in[pkv_lane()];
    pkv_cp_async16(&s[4 * pkv_lane()], in + 4 * pkv_lane()); /* here: exit_with_copies */
    pkv_cp_commit();
    if (FIXED) pkv_cp_wait<0>();
}

template <bool FIXED> PKV_GLOBAL(32) copy_misaligned(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 128);
    const float *from = in + 4 * pkv_lane() + (FIXED ? 0 : 1);
    pkv_cp_async16(&s[4 * pkv_lane()], from); /* here: copy_misaligned */
    pkv_cp_commit();
    pkv_cp_wait<0>();
    out[pkv_lane()] = in[pkv_lane()];
}

template <bool FIXED> PKV_GLOBAL(32) copy_to_global(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 128);
    float *to = FIXED ? &s[4 * pkv_lane()] : out + 32 + pkv_lane() / 8 * 4;
    pkv_cp_async16(to, in); /* here: copy_to_global */
    pkv_cp_commit();
    pkv_cp_wait<0>();
    out[pkv_lane()] = in[pkv_lane()];
}

template <bool FIXED> PKV_GLOBAL(32) ldmatrix_outside(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 128);
    uint32_t r[4];
    for (int32_t i = 0; i < 4; i++) s[4 * pkv_lane() + i] = in[i];
    pkv_syncwarp();
    pkv_ldm_x4(r, FIXED || pkv_lane() != 9 ? &s[4 * pkv_lane()] : in); /* here: ldmatrix_outside */
    out[pkv_lane()] = r[0] == r[1] ? 1.f : 0.f;
}

template <bool FIXED> PKV_GLOBAL(32) ldmatrix_too_early(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 128);
    uint32_t r[4];
    const int32_t other = 31 - pkv_lane();
    for (int32_t i = 0; i < 4; i++) s[4 * other + i] = in[4 * other + i];
    pkv_shfl(0, 0); /* the emulator's schedules leave the writes in front */
    if (FIXED) pkv_syncwarp();
    pkv_ldm_x4(r, &s[4 * pkv_lane()]); /* here: ldmatrix_too_early */
    out[pkv_lane()] = (float)(r[0] >> 16);
}

/* ---------------------------------------------------------------- blocks */

template <bool FIXED> PKV_GLOBAL(32) two_blocks_write(float *out, const float *in)
{
    if (FIXED && pkv_block() == 1) return;
    if (pkv_lane() == 0) out[0] = in[0]; /* here: two_blocks_write */
}

template <bool FIXED> PKV_GLOBAL(32) block_reads_block(float *out, const float *in)
{
    if (pkv_block() == 0) out[pkv_lane()] = in[pkv_lane()];
    if (pkv_block() == 1)
        out[32 + pkv_lane()] = FIXED ? in[0] : out[0]; /* here: block_reads_block */
}

/* Two blocks write a part each; the last to arrive sums. The counter is the word of `out` behind
 * the parts; a part per thread, so that it matters who arrives. */
template <bool RELAXED, bool EARLY> PKV_DEV void arrive_and_sum(float *out, const float *in)
{
    PKV_DEV_SHARED(uint32_t, is_last, 1);
    uint32_t *counter = reinterpret_cast<uint32_t *>(out + 16);
    if (pkv_thread() % 32 < 4)
        out[8 * pkv_block() + pkv_thread() % 32 + pkv_thread() / 32 * 4] = in[pkv_thread()];
    if (!EARLY) pkv_syncthreads();
    if (pkv_thread() == 0)
        is_last[0] =
            (RELAXED ? pkv_atomic_add(counter, 1) : pkv_atomic_add_acq_rel(counter, 1)) == 1;
    pkv_syncthreads();
    if (pkv_thread() != 0 || !is_last[0]) return;
    float sum = 0;
    for (int32_t i = 0; i < 16; i++) sum += out[i]; /* here: arrive_and_sum */
    out[20] = sum;
}

template <bool FIXED> PKV_GLOBAL(64) relaxed_arrival(float *out, const float *in)
{
    arrive_and_sum<!FIXED, false>(out, in);
}

template <bool FIXED> PKV_GLOBAL(64) arrival_before_sync(float *out, const float *in)
{
    arrive_and_sum<false, !FIXED>(out, in);
}

template <bool FIXED> PKV_GLOBAL(32) write_after_arrival(float *out, const float *in)
{
    uint32_t *counter = reinterpret_cast<uint32_t *>(out + 63);
    if (pkv_lane() != 0) return;
    if (FIXED) out[pkv_block()] = in[1];
    const uint32_t n_before = pkv_atomic_add_acq_rel(counter, 1);
    if (!FIXED) out[pkv_block()] = in[1];
    if (n_before == 1) out[2] = out[0] + out[1]; /* here: write_after_arrival */
}

template <bool FIXED> PKV_GLOBAL(32) shuffle_after_arrival(float *out, const float *in)
{
    uint32_t *counter = reinterpret_cast<uint32_t *>(out + 63);
    uint32_t n_before = 0;
    if (pkv_lane() < 16) out[16 * pkv_block() + pkv_lane()] = in[pkv_lane()];
    pkv_syncwarp();
    if (pkv_lane() == 0) n_before = pkv_atomic_add_acq_rel(counter, 1);
    if (FIXED) pkv_syncwarp();
    if (pkv_shfl(n_before, 0) != 1 || pkv_lane() >= 16) return;
    out[32 + pkv_lane()] = out[pkv_lane()] + out[16 + pkv_lane()]; /* here: shuffle_after_arrival */
}

template <bool FIXED> PKV_GLOBAL(64) global_race(float *out, const float *in)
{
    out[pkv_thread()] = in[pkv_thread()];
    if (FIXED) pkv_syncthreads();
    const float theirs = out[63 - pkv_thread()]; /* here: global_race */
    pkv_syncthreads();
    out[pkv_thread()] = theirs;
}

} // namespace

#define BUG_LAUNCH(name, n_blocks, n_threads, shared_bytes)                                        \
    extern "C" int bug_##name(int fixed, float *out, const float *in)                              \
    {                                                                                              \
        if (fixed)                                                                                 \
            return PKV_LAUNCH((name<true>), n_blocks, n_threads, shared_bytes, nullptr, out, in);  \
        return PKV_LAUNCH((name<false>), n_blocks, n_threads, shared_bytes, nullptr, out, in);     \
    }
BUG_LAUNCH(no_sync_before_merge, 1, 64, 0)
BUG_LAUNCH(no_sync_at_loop_end, 1, 64, 0)
BUG_LAUNCH(no_sync_before_reuse, 1, 64, 0)
BUG_LAUNCH(lax_wait, 1, 32, 0)
BUG_LAUNCH(sync_before_wait, 1, 32, 0)
BUG_LAUNCH(no_syncwarp, 1, 32, 0)
BUG_LAUNCH(shuffle_as_sync, 1, 32, 0)
BUG_LAUNCH(partial_syncwarp, 1, 32, 0)
BUG_LAUNCH(uninitialised, 1, 32, 0)
BUG_LAUNCH(static_bounds, 1, 32, 0)
BUG_LAUNCH(dynamic_bounds, 1, 32, 128)
BUG_LAUNCH(global_bounds, 1, 64, 0)
BUG_LAUNCH(copy_bounds, 1, 32, 0)
BUG_LAUNCH(foreign_stack, 1, 32, 0)
BUG_LAUNCH(misaligned_ldv, 1, 32, 0)
BUG_LAUNCH(misaligned_pun, 1, 32, 0)
BUG_LAUNCH(divergent_shuffle, 1, 32, 0)
BUG_LAUNCH(two_shuffles, 1, 32, 0)
BUG_LAUNCH(exited_lane, 1, 32, 0)
BUG_LAUNCH(not_in_mask, 1, 32, 0)
BUG_LAUNCH(overlapping_masks, 1, 32, 0)
BUG_LAUNCH(source_not_in_mask, 1, 32, 0)
BUG_LAUNCH(two_barriers, 1, 64, 0)
BUG_LAUNCH(exit_past_barrier, 1, 64, 0)
BUG_LAUNCH(skipped_barrier, 1, 32, 0)
BUG_LAUNCH(exit_with_copies, 1, 32, 0)
BUG_LAUNCH(copy_misaligned, 1, 32, 0)
BUG_LAUNCH(copy_to_global, 1, 32, 0)
BUG_LAUNCH(ldmatrix_outside, 1, 32, 0)
BUG_LAUNCH(ldmatrix_too_early, 1, 32, 0)
BUG_LAUNCH(two_blocks_write, 2, 32, 0)
BUG_LAUNCH(block_reads_block, 2, 32, 0)
BUG_LAUNCH(relaxed_arrival, 2, 64, 0)
BUG_LAUNCH(arrival_before_sync, 2, 64, 0)
BUG_LAUNCH(write_after_arrival, 2, 32, 0)
BUG_LAUNCH(shuffle_after_arrival, 2, 32, 0)
BUG_LAUNCH(global_race, 1, 64, 0)
