/* pkv_dev.cuh under nvcc: all inline assembler of the project. The contracts stand there.
 *
 * Loads and copies are volatile and clobber memory, so that the compiler moves neither over the
 * other; arithmetic (mma, movmatrix) is volatile too, for a warp must not be split around it. */
#ifndef PKV_DEV_PTX_CUH
#define PKV_DEV_PTX_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>

#define PKV_DEV __device__ __forceinline__
#define PKV_GLOBAL(...) __global__ void __launch_bounds__(__VA_ARGS__)
#define PKV_UNROLL _Pragma("unroll")

#define PKV_LAUNCH(kernel, n_blocks, n_threads, shared_bytes, stream, ...)                         \
    pkv__launch((kernel), (n_blocks), (n_threads), (shared_bytes), (stream), __VA_ARGS__)
#define PKV_ALLOW_SHARED(kernel, bytes)                                                            \
    pkv__code_of(                                                                                  \
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes)))

#define PKV_DEV_SHARED(T, name, N) __shared__ T name[N]
#define PKV_DEV_SHARED_DYN(T, name)                                                                \
    extern __shared__ __align__(128) unsigned char pkv__dynamic_shared[];                          \
    T *const name = reinterpret_cast<T *>(pkv__dynamic_shared)

#define PKV_PREPARE(kernel, n_threads, shared_bytes, cost)                                         \
    pkv__prepare((kernel), (n_threads), (shared_bytes), (cost))

/* An error is reported, and not found again by whoever asks the runtime next; errors that others
 * have not asked for yet are left to them. */
inline int pkv__code_of(cudaError_t error)
{
    if (error != cudaSuccess) (void)cudaGetLastError();
    return (int)error;
}

template <class... P, class Cost>
int pkv__prepare(void (*kernel)(P...), int32_t n_threads, int32_t shared_bytes, Cost *cost)
{
    cudaFuncAttributes of = {};
    int n = 0;
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error == cudaSuccess) error = cudaFuncGetAttributes(&of, kernel);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, n_threads,
                                                              (size_t)shared_bytes);
    cost->registers = of.numRegs;
    cost->blocks_per_sm = n;
    return pkv__code_of(error);
}

/* Not the launch in triple brackets: clang-format takes those apart. */
template <class... P, class... A>
int pkv__launch(void (*kernel)(P...), int64_t n_blocks, int64_t n_threads, size_t shared_bytes,
                void *stream, A &&...args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)n_blocks);
    config.blockDim = dim3((unsigned)n_threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = static_cast<cudaStream_t>(stream);
    return pkv__code_of(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...));
}

PKV_DEV int32_t pkv_thread()
{
    return (int32_t)threadIdx.x;
}
PKV_DEV int32_t pkv_lane()
{
    return (int32_t)(threadIdx.x % 32);
}
PKV_DEV int32_t pkv_warp()
{
    return (int32_t)(threadIdx.x / 32);
}
PKV_DEV int32_t pkv_block()
{
    return (int32_t)blockIdx.x;
}
PKV_DEV int32_t pkv_n_threads()
{
    return (int32_t)blockDim.x;
}
PKV_DEV int32_t pkv_n_blocks()
{
    return (int32_t)gridDim.x;
}

PKV_DEV void pkv_syncthreads()
{
    __syncthreads();
}
PKV_DEV void pkv_syncwarp(uint32_t mask = PKV_FULL_MASK)
{
    __syncwarp(mask);
}
PKV_DEV void pkv_fence_device()
{
    __threadfence();
}
PKV_DEV void pkv_fence_block()
{
    __threadfence_block();
}

/* ---------------------------------------------------------------- shuffles and votes */
template <class T>
PKV_DEV T pkv_shfl(T value, int32_t lane, int32_t width = 32, uint32_t mask = PKV_FULL_MASK)
{
    return __shfl_sync(mask, value, lane, width);
}
template <class T>
PKV_DEV T pkv_shfl_xor(T value, int32_t bits, int32_t width = 32, uint32_t mask = PKV_FULL_MASK)
{
    return __shfl_xor_sync(mask, value, bits, width);
}
template <class T>
PKV_DEV T pkv_shfl_up(T value, int32_t by, int32_t width = 32, uint32_t mask = PKV_FULL_MASK)
{
    return __shfl_up_sync(mask, value, (unsigned)by, width);
}
template <class T>
PKV_DEV T pkv_shfl_down(T value, int32_t by, int32_t width = 32, uint32_t mask = PKV_FULL_MASK)
{
    return __shfl_down_sync(mask, value, (unsigned)by, width);
}

PKV_DEV uint32_t pkv_ballot(bool predicate, uint32_t mask = PKV_FULL_MASK)
{
    return __ballot_sync(mask, predicate);
}
PKV_DEV bool pkv_any(bool predicate, uint32_t mask = PKV_FULL_MASK)
{
    return __any_sync(mask, predicate) != 0;
}
PKV_DEV bool pkv_all(bool predicate, uint32_t mask = PKV_FULL_MASK)
{
    return __all_sync(mask, predicate) != 0;
}

PKV_DEV float pkv_warp_sum(float value)
{
    PKV_UNROLL
    for (int32_t bits = 16; bits > 0; bits /= 2) value += pkv_shfl_xor(value, bits);
    return value;
}
PKV_DEV float pkv_warp_max(float value)
{
    PKV_UNROLL
    for (int32_t bits = 16; bits > 0; bits /= 2) value = fmaxf(value, pkv_shfl_xor(value, bits));
    return value;
}

/* ---------------------------------------------------------------- memory */
template <class V> PKV_DEV V pkv_ldv(const void *p)
{
    static_assert(sizeof(V) <= 16 && (sizeof(V) & (sizeof(V) - 1)) == 0, "1 to 16 bytes");
    return *static_cast<const V *>(p);
}
template <class V> PKV_DEV V pkv_ldv_const(const void *p)
{
    static_assert(sizeof(V) <= 16 && (sizeof(V) & (sizeof(V) - 1)) == 0, "1 to 16 bytes");
    return __ldg(static_cast<const V *>(p));
}
template <class V> PKV_DEV void pkv_stv(void *p, V value)
{
    static_assert(sizeof(V) <= 16 && (sizeof(V) & (sizeof(V) - 1)) == 0, "1 to 16 bytes");
    *static_cast<V *>(p) = value;
}

PKV_DEV uint32_t pkv__shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
PKV_DEV unsigned char *pkv_shared_xor(unsigned char *p, uint32_t bits)
{
    return static_cast<unsigned char *>(__cvta_shared_to_generic(pkv__shared_address(p) ^ bits));
}
/* Assembler, lest a sum of 64 bits is made of it. */
PKV_DEV const unsigned char *pkv_step(const unsigned char *p, int32_t n, int32_t bytes)
{
    const unsigned char *to;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(n), "r"(bytes), "l"(p));
    return to;
}

PKV_DEV uint32_t pkv_atomic_add(uint32_t *p, uint32_t value)
{
    return atomicAdd(p, value);
}
PKV_DEV uint32_t pkv_atomic_or(uint32_t *p, uint32_t value)
{
    return atomicOr(p, value);
}
PKV_DEV int32_t pkv_atomic_max(int32_t *p, int32_t value)
{
    return atomicMax(p, value);
}
PKV_DEV uint32_t pkv_atomic_add_acq_rel(uint32_t *p, uint32_t value)
{
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(p), "r"(value)
                 : "memory");
    return old;
}
PKV_DEV uint32_t pkv_atomic_inc_acq_rel(uint32_t *p, uint32_t last)
{
    uint32_t old;
    asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(p), "r"(last)
                 : "memory");
    return old;
}

/* ---------------------------------------------------------------- cp.async */
/* cg: past L1, which a row of KV would only fill. */
PKV_DEV void pkv_cp_async16(void *dst, const void *src, int32_t src_bytes = 16)
{
    asm volatile(
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(pkv__shared_address(dst)),
        "l"(src), "r"(src_bytes)
        : "memory");
}
PKV_DEV void pkv_cp_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> PKV_DEV void pkv_cp_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* ---------------------------------------------------------------- tensor cores */
#define PKV__LDM1(trans, r, row)                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"                   \
                 : "=r"(r[0])                                                                      \
                 : "r"(pkv__shared_address(row))                                                   \
                 : "memory")
#define PKV__LDM2(trans, r, row)                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"               \
                 : "=r"(r[0]), "=r"(r[1])                                                          \
                 : "r"(pkv__shared_address(row))                                                   \
                 : "memory")
#define PKV__LDM4(trans, r, row)                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"       \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                  \
                 : "r"(pkv__shared_address(row))                                                   \
                 : "memory")
PKV_DEV void pkv_ldm_x1(uint32_t (&r)[1], const void *row)
{
    PKV__LDM1("", r, row);
}
PKV_DEV void pkv_ldm_x2(uint32_t (&r)[2], const void *row)
{
    PKV__LDM2("", r, row);
}
PKV_DEV void pkv_ldm_x4(uint32_t (&r)[4], const void *row)
{
    PKV__LDM4("", r, row);
}
PKV_DEV void pkv_ldm_x1_trans(uint32_t (&r)[1], const void *row)
{
    PKV__LDM1(".trans", r, row);
}
PKV_DEV void pkv_ldm_x2_trans(uint32_t (&r)[2], const void *row)
{
    PKV__LDM2(".trans", r, row);
}
PKV_DEV void pkv_ldm_x4_trans(uint32_t (&r)[4], const void *row)
{
    PKV__LDM4(".trans", r, row);
}
#undef PKV__LDM1
#undef PKV__LDM2
#undef PKV__LDM4

PKV_DEV uint32_t pkv_movmatrix_trans(uint32_t value)
{
    uint32_t result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(value));
    return result;
}

template <class T>
PKV_DEV void pkv_mma16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
PKV_DEV void pkv_mma16816<__half>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
PKV_DEV void pkv_mma16816<__nv_bfloat16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---------------------------------------------------------------- numbers in registers */
/* Not by the toolkit's functions: what they hand out are two numbers, which from sm_100 on ptxas
 * takes apart and puts together again. */
template <class T> PKV_DEV uint32_t pkv_pack2(float lo, float hi);
template <> PKV_DEV uint32_t pkv_pack2<__half>(float lo, float hi)
{
    uint32_t two;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(hi), "f"(lo));
    return two;
}
template <> PKV_DEV uint32_t pkv_pack2<__nv_bfloat16>(float lo, float hi)
{
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(hi), "f"(lo));
    return two;
}
PKV_DEV uint32_t pkv_e4m3x2_to_f16x2(uint16_t codes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
    return halves;
#else
    const __half2_raw h = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3);
    return h.x | (uint32_t)h.y << 16;
#endif
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
constexpr bool PKV_E4M3_CVT = false;
#else
constexpr bool PKV_E4M3_CVT = true;
#endif

/* Not __byte_perm: it knows no signs. */
PKV_DEV uint32_t pkv_prmt(uint32_t a, uint32_t b, uint32_t picks)
{
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(picks));
    return bytes;
}
/* Two constants make two instructions of two operators in C. */
PKV_DEV uint32_t pkv_and_or(uint32_t x, uint32_t mask, uint32_t bits)
{
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(x), "r"(mask), "r"(bits));
    return result;
}
PKV_DEV uint32_t pkv_sub_f16x2(uint32_t a, uint32_t b)
{
    uint32_t difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}

/* ---------------------------------------------------------------- exact arithmetic */
PKV_DEV float pkv_add_rn(float x, float y)
{
    return __fadd_rn(x, y);
}
PKV_DEV float pkv_mul_rn(float x, float y)
{
    return __fmul_rn(x, y);
}
PKV_DEV float pkv_div_rn(float x, float y)
{
    return __fdiv_rn(x, y);
}
PKV_DEV float pkv_sqrt_rn(float x)
{
    return __fsqrt_rn(x);
}
PKV_DEV uint32_t pkv_float_bits(float x)
{
    return __float_as_uint(x);
}
PKV_DEV float pkv_float_of_bits(uint32_t bits)
{
    return __uint_as_float(bits);
}

/* ---------------------------------------------------------------- approximations */
PKV_DEV float pkv_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
PKV_DEV float pkv_log2(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
PKV_DEV float pkv_rcp(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
PKV_DEV float pkv_rsqrt(float x)
{
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
