/* The NEON level: what its operations offer. */
#include "kernels/arm/arm_levels.h"

void pkv__init_neon(struct pkv__cpu_kernels *k)
{
    pkv__neon_register_decode(k);
    pkv__neon_register_rows(k);
    pkv__neon_register_moves(k);
    pkv__neon_register_mla(k);
}
