/* Decode attention of the neon level: the vectors of vector/decode.inc, which has the picture of
 * the data flow. Run under emulation only; its tile and row counts are those of 32 registers,
 * unmeasured.
 */
#include "kernels/arm/neon_formats.h"

#include "kernels/arm/arm_levels.h"
#include "kernels/vector/decode.h"

enum { PV_ACCUMULATORS = 16, ROWS_ONE_VECTOR = 4, ROWS_TILE = 2 };

#include "kernels/vector/decode.inc"

#include "kernels/vector/decode_dtypes.inc"

void pkv__neon_register_decode(struct pkv__cpu_kernels *k)
{
    decode_register(k, PKV_ISA_NEON);
}
