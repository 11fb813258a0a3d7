/* What the CPU and the operating system offer. */
#ifndef PKV_CPU_DETECT_H
#define PKV_CPU_DETECT_H

#include <stdbool.h>

struct pkv__cpu_features {
    bool avx2;   /* AVX2 + FMA + F16C, and the OS saves the ymm registers */
    bool avx512; /* F + BW + DQ + VL, and the OS saves the zmm and mask registers */
};

/* Asks the CPU each time; no state. */
struct pkv__cpu_features pkv__cpu_detect(void);

#endif
