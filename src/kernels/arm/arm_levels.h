/* What the operation files of NEON offer to their level's init function, each in a call:
 *
 *   void pkv__<level>_register_<operation>(struct pkv__cpu_kernels *k);
 *
 * It overwrites the slots that the operation is better at on this level. */
#ifndef PKV_ARM_LEVELS_H
#define PKV_ARM_LEVELS_H

#include "kernels/kernels_internal.h"

void pkv__neon_register_decode(struct pkv__cpu_kernels *k);
void pkv__neon_register_mla(struct pkv__cpu_kernels *k);
void pkv__neon_register_moves(struct pkv__cpu_kernels *k);
void pkv__neon_register_rows(struct pkv__cpu_kernels *k);

#endif
