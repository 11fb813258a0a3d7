/* The AMX level: what its operations offer. */
#include "kernels/x86/x86_levels.h"

void pkv__init_amx(struct pkv__cpu_kernels *k)
{
    pkv__amx_register_rows(k);
}
