/* CPU detection by cpuid and xgetbv. A feature counts only if the OS saves its registers: xgetbv is
 * asked, not cpuid alone, because hypervisors and old kernels mask one without the other. */
#include "common/cpu_detect.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What cpuid says of the instructions that some level needs. */
struct cpuid_words {
    uint32_t leaf1_c, leaf7_b, leaf7_c, leaf7_d, leaf7_1_a;
    bool intel;
};

static struct cpuid_words read_cpuid(void)
{
    struct cpuid_words w = { 0 };
    uint32_t a, b, c, d;
    if (__get_cpuid(0, &a, &b, &c, &d)) w.intel = b == 0x756e6547; /* "Genu" */
    if (__get_cpuid(1, &a, &b, &c, &d)) w.leaf1_c = c;
    if (!__get_cpuid_count(7, 0, &a, &w.leaf7_b, &w.leaf7_c, &w.leaf7_d)) return w;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) w.leaf7_1_a = a;
    return w;
}

static uint64_t read_xcr0(const struct cpuid_words *w)
{
    uint32_t eax, edx;
    if (!(w->leaf1_c & bit_OSXSAVE)) return 0;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return (uint64_t)edx << 32 | eax;
}

/* Linux gives the 8 KiB of tile registers only to processes that ask. */
static bool ask_for_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static enum pkv__level_state lower(enum pkv__level_state a, enum pkv__level_state b)
{
    return a < b ? a : b;
}

static enum pkv__level_state state_of(bool cpu, bool os)
{
    return !cpu ? PKV__LEVEL_NO_CPU : !os ? PKV__LEVEL_NO_OS : PKV__LEVEL_PRESENT;
}

static bool has(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

struct pkv__cpu_levels pkv__cpu_detect(void)
{
    enum {
        XCR0_YMM = 0x6,      /* SSE and AVX state */
        XCR0_ZMM = 0xe6,     /* + opmask, zmm0-15 high, zmm16-31 */
        XCR0_TILES = 0x60000 /* tile configuration and data */
    };
    const uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    const uint32_t vnni = 1u << 11, bf16 = 1u << 5; /* leaf 7 ecx; leaf 7, 1 eax */
    const uint32_t amx = 1u << 22 | 1u << 24 | 1u << 25;
    const struct cpuid_words w = read_cpuid();
    const uint64_t xcr0 = read_xcr0(&w);
    struct pkv__cpu_levels l;
    memset(&l, 0, sizeof l);
    l.avx2 = state_of(has(w.leaf1_c, bit_FMA | bit_F16C) && has(w.leaf7_b, bit_AVX2),
                      (xcr0 & XCR0_YMM) == XCR0_YMM);
    l.avx512 = lower(l.avx2, state_of(has(w.leaf7_b, avx512), (xcr0 & XCR0_ZMM) == XCR0_ZMM));
    const enum pkv__level_state dots =
        lower(l.avx512, state_of(has(w.leaf7_c, vnni) && has(w.leaf7_1_a, bf16), true));
    /* vdpbf16ps has half the rate of float32 FMA on Intel, measured on a Xeon of model 207. */
    l.avx512bf16 = w.intel ? lower(dots, PKV__LEVEL_SLOW) : dots;
    l.amx = lower(dots, state_of(has(w.leaf7_d, amx), (xcr0 & XCR0_TILES) == XCR0_TILES));
    if (l.amx == PKV__LEVEL_PRESENT && !ask_for_tiles()) l.amx = PKV__LEVEL_REFUSED;
    return l;
}
#else
struct pkv__cpu_levels pkv__cpu_detect(void)
{
#if defined(__aarch64__)
    const enum pkv__level_state neon = PKV__LEVEL_PRESENT;
#else
    const enum pkv__level_state neon = PKV__LEVEL_NO_CPU;
#endif
    return (struct pkv__cpu_levels){ .neon = neon };
}
#endif
