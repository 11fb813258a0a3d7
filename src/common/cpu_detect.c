/* CPU detection by cpuid and xgetbv. A feature counts only if the OS saves its registers: xgetbv is
 * asked, not cpuid alone, because hypervisors and old kernels mask one without the other. */
#include "common/cpu_detect.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

static uint64_t read_xcr0(void)
{
    uint32_t eax, edx;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return (uint64_t)edx << 32 | eax;
}

struct pkv__cpu_features pkv__cpu_detect(void)
{
    enum {
        XCR0_YMM = 0x6,
        XCR0_ZMM = 0xe6
    }; /* SSE + AVX state; + opmask, zmm0-15 high, zmm16-31 */
    struct pkv__cpu_features f = { false, false };
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
    const bool osxsave = c & bit_OSXSAVE, fma = c & bit_FMA, f16c = c & bit_F16C;
    if (!osxsave || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    const uint64_t xcr0 = read_xcr0();
    const uint32_t avx512_bits = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    f.avx2 = (b & bit_AVX2) && fma && f16c && (xcr0 & XCR0_YMM) == XCR0_YMM;
    f.avx512 = f.avx2 && (b & avx512_bits) == avx512_bits && (xcr0 & XCR0_ZMM) == XCR0_ZMM;
    return f;
}
#else
struct pkv__cpu_features pkv__cpu_detect(void)
{
    return (struct pkv__cpu_features){ false, false };
}
#endif
