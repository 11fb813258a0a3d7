/* pkv_dev.cuh on the emulator. The contracts stand there; this side adds to each function the place
 * of its call, as a last argument that nobody passes. */
#ifndef PKV_DEV_HOST_H
#define PKV_DEV_HOST_H

/* First what the toolkit's macros (__noinline__) would break. */
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "simt/simt.h"

#include <vector_functions.h>
#include <vector_types.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#undef __noinline__
#undef __forceinline__
#undef __launch_bounds__

#include "simt/pkv_dev_numbers.h"

#define PKV_DEV inline
#define PKV_GLOBAL(...) void
#define PKV_UNROLL

#define PKV_LAUNCH(kernel, n_blocks, n_threads, shared_bytes, stream, ...)                         \
    ((void)(stream), ::simt::launch((kernel), (n_blocks), (n_threads), (shared_bytes), __VA_ARGS__))
#define PKV_ALLOW_SHARED(kernel, bytes) ::simt::allow_shared_for((kernel), (bytes))

#define PKV_PREPARE(kernel, n_threads, shared_bytes, cost)                                         \
    ::simt::prepare_for((kernel), (n_threads), (shared_bytes), (cost))

#define PKV_DEV_SHARED(T, name, N)                                                                 \
    static const char name##_key = 0;                                                              \
    T(&name)                                                                                       \
    [N] = *static_cast<T(*)[N]>(::simt::shared_static(&name##_key, sizeof(T[N]), alignof(T)))
#define PKV_DEV_SHARED_DYN(T, name) T *const name = static_cast<T *>(::simt::shared_dynamic())

#define SIMT_AT ::simt::site at_ = { __builtin_FILE(), __builtin_LINE() }

inline int32_t pkv_thread()
{
    return simt::thread_idx();
}
inline int32_t pkv_lane()
{
    return simt::thread_idx() % simt::warp_size;
}
inline int32_t pkv_warp()
{
    return simt::thread_idx() / simt::warp_size;
}
inline int32_t pkv_block()
{
    return simt::block_idx();
}
inline int32_t pkv_n_threads()
{
    return simt::n_threads();
}
inline int32_t pkv_n_blocks()
{
    return simt::n_blocks();
}

inline void pkv_syncthreads(SIMT_AT)
{
    simt::barrier(at_);
}
inline void pkv_syncwarp(uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    simt::collective(simt::op::sync_warp, mask, nullptr, nullptr, 0, at_);
}

/* ---------------------------------------------------------------- shuffles and votes */
namespace simt
{

template <class T> uint64_t to_bits(T value)
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "a register or two");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T> T from_bits(uint64_t bits)
{
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

template <class T>
T shuffle_value(shuffle_mode mode, uint32_t mask, T value, uint32_t by, int width, site at)
{
    return from_bits<T>(shuffle(mode, mask, to_bits(value), by, width, at));
}

} // namespace simt

template <class T>
T pkv_shfl(T value, int32_t lane, int32_t width = 32, uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    return simt::shuffle_value(simt::shuffle_mode::idx, mask, value, (uint32_t)lane, width, at_);
}
template <class T>
T pkv_shfl_xor(T value, int32_t bits, int32_t width = 32, uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    return simt::shuffle_value(simt::shuffle_mode::xor_, mask, value, (uint32_t)bits, width, at_);
}
template <class T>
T pkv_shfl_up(T value, int32_t by, int32_t width = 32, uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    return simt::shuffle_value(simt::shuffle_mode::up, mask, value, (uint32_t)by, width, at_);
}
template <class T>
T pkv_shfl_down(T value, int32_t by, int32_t width = 32, uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    return simt::shuffle_value(simt::shuffle_mode::down, mask, value, (uint32_t)by, width, at_);
}

inline uint32_t pkv_ballot(bool predicate, uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    return simt::vote(mask, predicate, at_);
}
inline bool pkv_any(bool predicate, uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    return simt::vote(mask, predicate, at_) != 0;
}
inline bool pkv_all(bool predicate, uint32_t mask = PKV_FULL_MASK, SIMT_AT)
{
    return simt::vote(mask, predicate, at_) == mask;
}

inline float pkv_warp_sum(float value, SIMT_AT)
{
    return simt::warp_sum(value, at_);
}
inline float pkv_warp_max(float value, SIMT_AT)
{
    return simt::warp_max(value, at_);
}

/* ---------------------------------------------------------------- memory */
template <class V> V pkv_ldv(const void *p, SIMT_AT)
{
    static_assert(sizeof(V) <= 16 && (sizeof(V) & (sizeof(V) - 1)) == 0, "1 to 16 bytes");
    V value;
    simt::load(&value, p, sizeof value, at_);
    return value;
}
template <class V> V pkv_ldv_const(const void *p, SIMT_AT)
{
    return pkv_ldv<V>(p, at_);
}
template <class V> void pkv_stv(void *p, V value, SIMT_AT)
{
    static_assert(sizeof(V) <= 16 && (sizeof(V) & (sizeof(V) - 1)) == 0, "1 to 16 bytes");
    simt::store(p, &value, sizeof value, at_);
}

inline unsigned char *pkv_shared_xor(unsigned char *p, uint32_t bits)
{
    return p + (int32_t)(((uint32_t)(uintptr_t)p ^ bits) - (uint32_t)(uintptr_t)p);
}
inline const unsigned char *pkv_step(const unsigned char *p, int32_t n, int32_t bytes)
{
    return p + (int64_t)n * bytes;
}

namespace simt
{

template <class T> T atomic_value(T *p, atomic_op op, T value, T compare, order how, site at)
{
    return from_bits<T>(atomic(p, sizeof(T), op, to_bits(value), to_bits(compare), how, at));
}

} // namespace simt

inline uint32_t pkv_atomic_add(uint32_t *p, uint32_t value, SIMT_AT)
{
    return simt::atomic_value(p, simt::atomic_op::add, value, 0u, simt::order::relaxed, at_);
}
inline uint32_t pkv_atomic_or(uint32_t *p, uint32_t value, SIMT_AT)
{
    return simt::atomic_value(p, simt::atomic_op::or_, value, 0u, simt::order::relaxed, at_);
}
inline int32_t pkv_atomic_max(int32_t *p, int32_t value, SIMT_AT)
{
    return simt::atomic_value(p, simt::atomic_op::max_s, value, 0, simt::order::relaxed, at_);
}
inline uint32_t pkv_atomic_inc_acq_rel(uint32_t *p, uint32_t last, SIMT_AT)
{
    return simt::atomic_value(p, simt::atomic_op::inc, last, 0u, simt::order::acq_rel, at_);
}
inline uint32_t pkv_atomic_add_acq_rel(uint32_t *p, uint32_t value, SIMT_AT)
{
    return simt::atomic_value(p, simt::atomic_op::add, value, 0u, simt::order::acq_rel, at_);
}
inline void pkv_fence_device() {}
inline void pkv_fence_block() {}

/* ---------------------------------------------------------------- cp.async */
inline void pkv_cp_async16(void *dst, const void *src, int32_t src_bytes = 16, SIMT_AT)
{
    simt::copy_async(dst, src, 16, (size_t)src_bytes, at_);
}
inline void pkv_cp_commit()
{
    simt::copy_commit();
}
template <int N> void pkv_cp_wait()
{
    simt::copy_wait(N);
}

/* ---------------------------------------------------------------- tensor cores */
inline void pkv_ldm_x1(uint32_t (&r)[1], const void *row, SIMT_AT)
{
    simt::ldmatrix(r, 1, false, row, at_);
}
inline void pkv_ldm_x2(uint32_t (&r)[2], const void *row, SIMT_AT)
{
    simt::ldmatrix(r, 2, false, row, at_);
}
inline void pkv_ldm_x4(uint32_t (&r)[4], const void *row, SIMT_AT)
{
    simt::ldmatrix(r, 4, false, row, at_);
}
inline void pkv_ldm_x1_trans(uint32_t (&r)[1], const void *row, SIMT_AT)
{
    simt::ldmatrix(r, 1, true, row, at_);
}
inline void pkv_ldm_x2_trans(uint32_t (&r)[2], const void *row, SIMT_AT)
{
    simt::ldmatrix(r, 2, true, row, at_);
}
inline void pkv_ldm_x4_trans(uint32_t (&r)[4], const void *row, SIMT_AT)
{
    simt::ldmatrix(r, 4, true, row, at_);
}
inline uint32_t pkv_movmatrix_trans(uint32_t value, SIMT_AT)
{
    return simt::movmatrix_trans(value, at_);
}

namespace simt
{

template <class T> constexpr half_type half_type_of();
template <> constexpr half_type half_type_of<__half>()
{
    return half_type::f16;
}
template <> constexpr half_type half_type_of<__nv_bfloat16>()
{
    return half_type::bf16;
}

} // namespace simt

template <class T>
void pkv_mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SIMT_AT)
{
    const uint32_t b[2] = { b0, b1 };
    simt::mma16816(d, a, b, d, simt::half_type_of<T>(), at_);
}

#endif
