/* The one door from device code to the machine: threads, shared memory, warps, tensor cores,
 * copies. Kernels include this header, and nothing of CUDA. Behind it stand pkv_dev_ptx.cuh under
 * nvcc, and the emulator (docs/simt.md) under a C++17 compiler of the host.
 *
 * Kernels
 *   PKV_DEV                       in front of a device function
 *   PKV_GLOBAL(n_threads[, n])    in front of a kernel's name: launch bounds; returns nothing
 *   PKV_UNROLL                    in front of a loop whose trip count is a constant
 *   PKV_LAUNCH((kernel<...>), n_blocks, n_threads, shared_bytes, stream, args...)
 *                                 0, or what the device said. One dimension; whole warps, at most
 *                                 1024 threads. stream is a void *
 *   PKV_ALLOW_SHARED((kernel<...>), bytes)
 *                                 once before launches with more than 48 KiB of dynamic shared
 *                                 memory, up to 227 KiB: 0, or what the device said
 *   PKV_PREPARE((kernel<...>), n_threads, shared_bytes, cost)
 *                                 PKV_ALLOW_SHARED, and what the kernel takes of the current device
 *                                 into a struct with int32_t registers, blocks_per_sm: 0, or what
 *                                 the device said. Where it has no code for it, too
 *   PKV_DEV_SHARED(T, name, N)    T name[N] in shared memory, of the block
 *   PKV_DEV_SHARED_DYN(T, name)   T *name: the dynamic part, 128-byte aligned. Once per kernel
 *
 * Who am I: int32_t
 *   pkv_thread()  pkv_lane()  pkv_warp()  pkv_block()  pkv_n_threads()  pkv_n_blocks()
 *
 * Order of memory
 *   pkv_syncthreads()             all threads of the block; none may have exited
 *   pkv_syncwarp(mask)            the lanes of mask. The only thing that orders memory in a warp:
 *                                 shuffles, votes, ldmatrix and mma do not
 *   pkv_fence_device(), pkv_fence_block()
 *                                 for hardware; the race detector does not believe in them. Between
 *                                 blocks use the atomics with acq_rel
 *
 * Warps: `mask` names the lanes that take part (all unless a comment says why); all of them come to
 * the same call. T has 4 or 8 bytes. width: power of two, segments that do not see each other
 *   pkv_shfl(v, lane, width, mask)      the value of lane `lane` of the segment
 *   pkv_shfl_xor(v, bits, width, mask)  of lane ^ bits
 *   pkv_shfl_up(v, by, width, mask)     of lane - by; the own value where there is none
 *   pkv_shfl_down(v, by, width, mask)   of lane + by; likewise
 *   pkv_ballot(p, mask) pkv_any(p, mask) pkv_all(p, mask)
 *   pkv_warp_sum(x) pkv_warp_max(x)     float, all 32 lanes; the same bits in every lane
 *
 * Memory
 *   pkv_shared_xor(p, bits)       p in dynamic shared memory: its address with some of its last
 *                                 seven bits exchanged. One instruction
 *   pkv_step(p, n, bytes)         p + n * bytes, in one instruction: the product has 64 bits
 *   pkv_ldv<V>(p), pkv_stv(p, v)  one access of sizeof(V) = 1 .. 16 bytes, aligned to it
 *   pkv_ldv_const<V>(p)           the same, from global memory that nobody writes during the launch
 *   pkv_atomic_add, _or (uint32_t), _max (int32_t)   relaxed; return the old value
 *   pkv_atomic_add_acq_rel(p, v)                     also orders memory, on the whole device
 *   pkv_atomic_inc_acq_rel(p, last)                  counts 0 .. last and then from 0 again: n
 *                                 arrivals with last = n - 1 leave 0. Who gets `last` came last,
 *                                 and sees what the others wrote before they arrived
 *
 * Copies from global to shared memory that run by themselves; each thread has groups of its own
 *   pkv_cp_async16(dst, src, n)   16 bytes, both aligned to 16: n (0 .. 16) from src, then zeros.
 *                                 With n = 0 src is not read
 *   pkv_cp_commit()               what was issued since the last one is a group, an empty one too
 *   pkv_cp_wait<N>()              at most N groups of this thread are still under way. Others see
 *                                 the bytes after a pkv_syncwarp or pkv_syncthreads
 *
 * Tensor cores: full warps. g = lane / 4, t = lane % 4; two 16-bit elements to a register, the one
 * of lower index in the low half
 *   pkv_ldm_x1, _x2, _x4(r, row)  n matrices of 8 x 8: lane 8j + i gives the address of row i of
 *                                 matrix j (16-byte aligned, shared); r[j] = elements [g][2t, 2t+1]
 *   pkv_ldm_x1_trans, ...         r[j] = elements [2t, 2t+1][g]
 *   pkv_movmatrix_trans(x)        x = elements [g][2t, 2t+1] of a matrix; result: [2t, 2t+1][g]
 *   pkv_mma16816<T>(d, a, b0, b1) d += a * b, in float; T is __half or __nv_bfloat16
 *       a 16 x 16: a[0] [g][2t, 2t+1], a[1] [g+8][2t, 2t+1],
 *                  a[2] [g][2t+8, 2t+9], a[3] [g+8][2t+8, 2t+9]
 *       b 16 x 8:  b0 [2t, 2t+1][g], b1 [2t+8, 2t+9][g]
 *       d 16 x 8:  d[0], d[1] [g][2t, 2t+1], d[2], d[3] [g+8][2t, 2t+1]
 *
 * Numbers
 *   pkv_add_rn(x, y) pkv_mul_rn(x, y) pkv_div_rn(x, y) pkv_sqrt_rn(x)
 *                                 rounded to nearest even, never fused with another, subnormals
 *                                 kept: the bits of the host, but for those of a NaN
 *   pkv_float_bits(x) pkv_float_of_bits(u)
 *   pkv_exp2(x) pkv_log2(x) pkv_rcp(x)
 *                                 approximations, subnormals are zeros: never compare the bits of a
 *                                 GPU with those of the emulator
 *   pkv_to_float(h) pkv_from_float<T>(x) pkv_pack2<T>(lo, hi) pkv_unpack2<T>(bits)
 *   pkv_e4m3x2_to_f16x2(c), pkv_e5m2x2_to_f16x2(c)
 *                                 two codes to two halves, exactly
 *   PKV_E4M3_CVT                  true: the first of them is one instruction
 *   pkv_prmt(a, b, picks)         byte i is byte `picks >> 4 * i & 7` of the eight bytes of a and
 *                                 b, a's first; with bit 3 of the pick that byte's sign, 8 times
 *   pkv_and_or(x, mask, bits)     (x & mask) | bits, one instruction
 *   pkv_sub_f16x2(a, b)           two differences of halves, each rounded to nearest even */
#ifndef PKV_DEV_CUH
#define PKV_DEV_CUH

#include <stdint.h>

constexpr uint32_t PKV_FULL_MASK = 0xffffffffu;

#ifdef __CUDACC__
#include "pkv_dev_ptx.cuh"
#else
#include "simt/pkv_dev_host.h"
#endif

PKV_DEV float pkv_to_float(__half h)
{
    return __half2float(h);
}
PKV_DEV float pkv_to_float(__nv_bfloat16 h)
{
    return __bfloat162float(h);
}

/* Round to nearest, ties to even. */
template <class T> PKV_DEV T pkv_from_float(float x);
template <> PKV_DEV __half pkv_from_float<__half>(float x)
{
    return __float2half_rn(x);
}
template <> PKV_DEV __nv_bfloat16 pkv_from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <class T> PKV_DEV float2 pkv_unpack2(uint32_t bits);
template <> PKV_DEV float2 pkv_unpack2<__half>(uint32_t bits)
{
    return make_float2(pkv_to_float(__ushort_as_half((unsigned short)(bits & 0xffff))),
                       pkv_to_float(__ushort_as_half((unsigned short)(bits >> 16))));
}
template <> PKV_DEV float2 pkv_unpack2<__nv_bfloat16>(uint32_t bits)
{
    return make_float2(pkv_to_float(__ushort_as_bfloat16((unsigned short)(bits & 0xffff))),
                       pkv_to_float(__ushort_as_bfloat16((unsigned short)(bits >> 16))));
}

PKV_DEV uint32_t pkv_e5m2x2_to_f16x2(uint16_t codes)
{
    const __half2_raw h = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E5M2);
    return h.x | (uint32_t)h.y << 16;
}

#endif
