/* The levels of this architecture, lowest first; whether build and machine have one is the
 * backend's answer. */
#ifndef PKV_TEST_LEVELS_H
#define PKV_TEST_LEVELS_H

#include "pagedkv/backend.h"

static const pkv_isa test_levels[] = {
    PKV_ISA_SCALAR,
#ifdef __aarch64__
    PKV_ISA_NEON,
#else
    PKV_ISA_AVX2,   PKV_ISA_AVX512, PKV_ISA_AVX512BF16, PKV_ISA_AMX,
#endif
};
enum { TEST_N_LEVELS = sizeof(test_levels) / sizeof(test_levels[0]) };

#endif
