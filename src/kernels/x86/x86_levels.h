/* What the operation files of the x86 levels offer to their level's init function, each in a call:
 *
 *   void pkv__<level>_register_<operation>(struct pkv__cpu_kernels *k);
 *
 * It overwrites the slots that the operation is better at on this level. */
#ifndef PKV_X86_LEVELS_H
#define PKV_X86_LEVELS_H

#include "kernels/kernels_internal.h"

void pkv__avx2_register_decode(struct pkv__cpu_kernels *k);
void pkv__avx512_register_decode(struct pkv__cpu_kernels *k);
void pkv__avx2_register_int8_qk(struct pkv__cpu_kernels *k);
void pkv__avx512_register_int8_qk(struct pkv__cpu_kernels *k);
void pkv__avx512bf16_register_int8_qk(struct pkv__cpu_kernels *k);
void pkv__avx2_register_mla(struct pkv__cpu_kernels *k);
void pkv__avx512_register_mla(struct pkv__cpu_kernels *k);
void pkv__avx2_register_moves(struct pkv__cpu_kernels *k);
void pkv__avx512_register_moves(struct pkv__cpu_kernels *k);
void pkv__avx2_register_rows(struct pkv__cpu_kernels *k);
void pkv__avx512_register_rows(struct pkv__cpu_kernels *k);
void pkv__avx512bf16_register_rows(struct pkv__cpu_kernels *k);
void pkv__amx_register_rows(struct pkv__cpu_kernels *k);

/* The float32 rows kernel of avx512: for calls that a higher level's own does not take. */
void pkv__avx512_rows_attention(const struct pkv__attn_call *call,
                                const struct pkv__attn_unit *unit, void *scratch);

#endif
