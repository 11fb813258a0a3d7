/* Kernels that show in which order the emulator runs things, and what a launch gives them. */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/simt_kernels.h"

namespace
{

PKV_GLOBAL(1024) order_kernel(uint32_t *order, uint32_t *ticket)
{
    order[pkv_block() * pkv_n_threads() + pkv_thread()] = pkv_atomic_add(ticket, 1);
}

PKV_GLOBAL(32) meeting_kernel(uint32_t *out, uint32_t *tickets)
{
    out[pkv_thread()] = pkv_atomic_add(&tickets[0], 1);
    pkv_ballot(true);
    out[32 + pkv_thread()] = pkv_atomic_add(&tickets[1], 1);
}

PKV_GLOBAL(1024) rounds_kernel(uint32_t *out, int32_t n_rounds)
{
    PKV_DEV_SHARED_DYN(uint32_t, shared);
    uint32_t x = (uint32_t)pkv_thread();
    for (int32_t round = 0; round < n_rounds; round++) {
        shared[pkv_thread()] = x * 5 + 1;
        pkv_syncthreads();
        x = shared[(pkv_thread() + 7) % pkv_n_threads()];
        pkv_syncthreads();
    }
    out[pkv_thread()] = x;
}

PKV_GLOBAL(32) poison_kernel(uint32_t *out)
{
    PKV_DEV_SHARED_DYN(uint32_t, dynamic);
    PKV_DEV_SHARED(uint32_t, fixed, 32);
    const int32_t i = pkv_thread();
    out[64 * pkv_block() + i] = dynamic[i];
    out[64 * pkv_block() + 32 + i] = fixed[i];
    pkv_syncwarp();
    dynamic[i] = fixed[i] = 1;
}

template <int N> PKV_DEV uint32_t *instance(uint32_t *bytes)
{
    PKV_DEV_SHARED(uint32_t, of_instance, N);
    *bytes = (uint32_t)sizeof of_instance;
    if (pkv_thread() == 0) of_instance[0] = N;
    return of_instance;
}

PKV_GLOBAL(32) static_arrays_kernel(uint32_t *out)
{
    uint32_t bytes[2];
    const uint32_t *a = instance<3>(&bytes[0]);
    const uint32_t *b = instance<5>(&bytes[1]);
    pkv_syncwarp();
    if (pkv_thread() != 31) return;
    out[0] = bytes[0];
    out[1] = bytes[1];
    out[2] = a != b;
    out[3] = a[0];
}

struct line {
    double base, step;
};

PKV_GLOBAL(32) params_kernel(double *out, line l, int64_t first)
{
    out[pkv_thread()] = l.base + l.step * (double)(first + pkv_thread());
}

PKV_GLOBAL(1024) limits_kernel(int32_t) {}

/* Word first + t of a pool that is larger than 2^32 of them. */
PKV_GLOBAL(32) far_kernel(uint32_t *pool, int64_t first)
{
    uint32_t *mine = pool + first + pkv_thread();
    pkv_stv(mine, pkv_ldv<uint32_t>(mine) + (uint32_t)pkv_thread());
}

#ifndef __CUDACC__ /* whose stacks have no page behind them that nobody may touch */
__attribute__((noinline)) uint32_t nest(int32_t depth)
{
    volatile uint32_t room[256];
    room[depth % 256] = (uint32_t)depth;
    return depth == 0 ? 0 : nest(depth - 1) + room[depth % 256];
}

PKV_GLOBAL(32) nest_kernel(uint32_t *out, int32_t depth)
{
    out[pkv_thread()] = nest(depth);
}
#endif

} // namespace

extern "C" {

int run_far(uint32_t *pool, int64_t first)
{
    return PKV_LAUNCH(far_kernel, 1, 32, 0, nullptr, pool, first);
}

#ifndef __CUDACC__
int run_nest(uint32_t *out, int depth)
{
    return PKV_LAUNCH(nest_kernel, 1, 32, 0, nullptr, out, depth);
}
#endif

int run_order(uint32_t *order, uint32_t *ticket, int64_t n_blocks, int64_t n_threads)
{
    return PKV_LAUNCH(order_kernel, n_blocks, n_threads, 0, nullptr, order, ticket);
}

int run_meeting(uint32_t *out, uint32_t *tickets)
{
    return PKV_LAUNCH(meeting_kernel, 1, 32, 0, nullptr, out, tickets);
}

int run_rounds(uint32_t *out, int n_rounds, int64_t n_threads)
{
    return PKV_LAUNCH(rounds_kernel, 1, n_threads, (size_t)n_threads * 4, nullptr, out, n_rounds);
}

int run_poison(uint32_t *out)
{
    return PKV_LAUNCH(poison_kernel, 2, 32, 128, nullptr, out);
}

int run_static_arrays(uint32_t *out)
{
    return PKV_LAUNCH(static_arrays_kernel, 1, 32, 0, nullptr, out);
}

int run_params(double *out, int *n_evaluations)
{
    const line l = { 0.5, 2 };
    *n_evaluations = 0;
    return PKV_LAUNCH(params_kernel, 1, 32, 0, nullptr, out, l, (*n_evaluations)++);
}

int run_limits(int64_t n_blocks, int64_t n_threads, size_t shared_bytes, size_t allow)
{
    const int refused = allow > 0 ? PKV_ALLOW_SHARED(limits_kernel, allow) : 0;
    if (refused) return refused;
    return PKV_LAUNCH(limits_kernel, n_blocks, n_threads, shared_bytes, nullptr, 0);
}
}
