/* What the operation files of the x86 levels offer to their level's init function, each in a call:
 *
 *   void pkv__<level>_register_<operation>(struct pkv__cpu_kernels *k);
 *
 * It overwrites the slots that the operation is better at on this level. */
#ifndef PKV_X86_LEVELS_H
#define PKV_X86_LEVELS_H

#include "kernels/kernels_internal.h"

#endif
