/* Kernels for what the threads of a warp, and the blocks of a grid, tell each other. */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/simt_kernels.h"

namespace
{

PKV_GLOBAL(32)
shuffle_kernel(uint64_t *out, const uint64_t *values, int32_t mode, int32_t by, int32_t width)
{
    const uint64_t mine = values[pkv_lane()];
    uint64_t got = 0;
    switch (mode) {
    case SHUFFLE_IDX:
        got = pkv_shfl(mine, by, width);
        break;
    case SHUFFLE_XOR:
        got = pkv_shfl_xor(mine, by, width);
        break;
    case SHUFFLE_UP:
        got = pkv_shfl_up(mine, by, width);
        break;
    default:
        got = pkv_shfl_down(mine, by, width);
        break;
    }
    out[pkv_lane()] = got;
}

/* Halves of the warp, each with its own mask. */
PKV_GLOBAL(32) two_masks_kernel(uint32_t *out)
{
    uint32_t sum = (uint32_t)pkv_lane();
    if (pkv_lane() % 2 == 0) {
        for (int32_t bits = 2; bits < 32; bits *= 2)
            sum += pkv_shfl_xor(sum, bits, 32, 0x55555555u);
    } else {
        for (int32_t bits = 2; bits < 32; bits *= 2)
            sum += pkv_shfl_xor(sum, bits, 32, 0xaaaaaaaau);
    }
    out[pkv_lane()] = sum;
}

PKV_GLOBAL(32) votes_kernel(uint32_t *out, uint32_t bits)
{
    const bool mine = bits >> pkv_lane() & 1;
    const uint32_t ballot = pkv_ballot(mine), any = pkv_any(mine), all = pkv_all(mine);
    uint32_t odd = 0;
    if (pkv_lane() % 2 == 1) odd = pkv_ballot(mine, 0xaaaaaaaau); /* the others skip it */
    if (pkv_lane() != 31) return;
    out[0] = ballot;
    out[1] = any;
    out[2] = all;
    out[3] = odd;
}

PKV_GLOBAL(32) reductions_kernel(float *out, const float *values)
{
    const float mine = values[pkv_lane()];
    float sum = mine, max = mine;
    for (int32_t bits = 16; bits > 0; bits /= 2) {
        sum += pkv_shfl_xor(sum, bits);
        max = fmaxf(max, pkv_shfl_xor(max, bits));
    }
    float *mine_out = out + 4 * pkv_lane();
    mine_out[0] = sum;
    mine_out[1] = max;
    mine_out[2] = pkv_warp_sum(mine);
    mine_out[3] = pkv_warp_max(mine);
}

/* The shape of the merge of partial results: everybody writes a part, the last to arrive sums. */
PKV_GLOBAL(64) last_arriver_kernel(uint32_t *out, uint32_t *parts, uint32_t *counters)
{
    PKV_DEV_SHARED(uint32_t, is_last, 1);
    const uint32_t n = (uint32_t)pkv_n_blocks(), me = (uint32_t)pkv_block();
    if (pkv_lane() == 0)
        parts[2 * me + (uint32_t)pkv_warp()] = (me + 1) * (uint32_t)(pkv_warp() + 1);
    pkv_syncthreads();
    if (pkv_thread() == 0) is_last[0] = pkv_atomic_inc_acq_rel(&counters[0], n - 1) == n - 1;
    pkv_atomic_or(&counters[1], 1u << pkv_lane());
    pkv_atomic_max(reinterpret_cast<int32_t *>(&counters[2]), pkv_thread() - 40);
    pkv_syncthreads();
    if (pkv_thread() != 63) return;
    out[me] = is_last[0];
    if (!is_last[0]) return;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 2 * n; i++) sum += parts[i];
    out[n] = sum;
}

PKV_GLOBAL(32) chain_kernel(uint32_t *out, uint32_t *words)
{
    if (pkv_lane() != 0) return;
    if (pkv_block() == 0) {
        words[0] = 5;
        pkv_atomic_add_acq_rel(&words[1], 1);
    } else if (pkv_block() == 1) {
        if (pkv_atomic_add_acq_rel(&words[1], 1) == 1) pkv_atomic_add_acq_rel(&words[2], 1);
    } else if (pkv_atomic_add_acq_rel(&words[2], 1) == 1) {
        out[0] = words[0];
    }
}

PKV_GLOBAL(128) shared_atomics_kernel(uint32_t *out)
{
    PKV_DEV_SHARED(uint32_t, count, 1);
    if (pkv_thread() == 0) count[0] = 0;
    pkv_syncthreads();
    pkv_atomic_add(&count[0], 3);
    pkv_syncthreads();
    if (pkv_thread() == 77) out[0] = count[0];
}

} // namespace

extern "C" {

int run_shuffle(uint64_t *out, const uint64_t *values, int mode, int by, int width)
{
    return PKV_LAUNCH(shuffle_kernel, 1, 32, 0, nullptr, out, values, mode, by, width);
}

int run_two_masks(uint32_t *out)
{
    return PKV_LAUNCH(two_masks_kernel, 1, 32, 0, nullptr, out);
}

int run_votes(uint32_t *out, uint32_t bits)
{
    return PKV_LAUNCH(votes_kernel, 1, 32, 0, nullptr, out, bits);
}

int run_reductions(float *out, const float *values)
{
    return PKV_LAUNCH(reductions_kernel, 1, 32, 0, nullptr, out, values);
}

int run_last_arriver(uint32_t *out, uint32_t *parts, uint32_t *counters, int n_blocks)
{
    return PKV_LAUNCH(last_arriver_kernel, n_blocks, 64, 0, nullptr, out, parts, counters);
}

int run_chain(uint32_t *out, uint32_t *words)
{
    return PKV_LAUNCH(chain_kernel, 3, 32, 0, nullptr, out, words);
}

int run_shared_atomics(uint32_t *out)
{
    return PKV_LAUNCH(shared_atomics_kernel, 1, 128, 0, nullptr, out);
}
}
