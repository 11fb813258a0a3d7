/* Launchers of the kernels that show what attn_codes.cuh and attn_kv_types.cuh make of codes. */
#ifndef CODE_KERNELS_H
#define CODE_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum code_type {
    CODE_F16,
    CODE_BF16,
    CODE_E4M3,
    CODE_E5M2,
    CODE_I8,
    CODE_U4,
    CODE_E4M3_CVT, /* conversions alone: one of the two ways, whatever the device has */
    CODE_E4M3_MOVED,
    CODE_N
};

/* out[i]: what of in[i] comes out, 8 registers: `along`, then `across`, of two each, 4 bits four.
 * n: a multiple of 64. unit[0]: the unit. */
int run_codes(int type, uint32_t *out, float *unit, const uint32_t *in, int n);

/* A step, 16 tokens of 32 bytes, through K's and V's fragments: k[token][dim], v[token][dim] with
 * the unit; dims of a step: 512 / bits / 2. */
int run_step(int type, float *k, float *v, const uint8_t *rows);

/* out[i] = sub(a[i], b[i]), out[n + i] = prmt(a[i], b[i], picks[i]); n: a multiple of 32. */
int run_registers(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *picks,
                  int n);

#ifdef __cplusplus
}
#endif
#endif
