/* What the CPU and the operating system offer. */
#ifndef PKV_CPU_DETECT_H
#define PKV_CPU_DETECT_H

#include <stdbool.h>

/* In ascending order of hope: the state of a bundle is the lowest of its parts. */
enum pkv__level_state {
    PKV__LEVEL_NO_CPU = 0, /* the CPU lacks an instruction */
    PKV__LEVEL_NO_OS,      /* the operating system does not save the registers */
    PKV__LEVEL_REFUSED,    /* the process did not get the permission */
    PKV__LEVEL_SLOW,       /* runs, but slower than the level below */
    PKV__LEVEL_PRESENT
};

/* One per level of pkv_isa; of one architecture each contains what stands above it here. */
struct pkv__cpu_levels {
    enum pkv__level_state avx2;       /* AVX2 + FMA + F16C */
    enum pkv__level_state avx512;     /* + F + BW + DQ + VL */
    enum pkv__level_state avx512bf16; /* + AVX512_BF16 + AVX512_VNNI */
    enum pkv__level_state amx;        /* + AMX-TILE + AMX-BF16 + AMX-INT8 */
    enum pkv__level_state neon;       /* the base of aarch64 */
};

/* Asks the CPU each time; no state of ours. Where the CPU has AMX it asks the operating system for
 * the permission, which the process then keeps. */
struct pkv__cpu_levels pkv__cpu_detect(void);

#endif
