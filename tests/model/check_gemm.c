/* The products of every level against the scalar ones, bit by bit: a program that needs no library,
 * so that cross builds run it too. Speaks TAP. test_gemm holds the scalar ones against a reference.
 */
#include "common/common.h"
#include "common/number_format.h"
#include "common/philox.h"
#include "model/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_M 60
#define MAX_N 60
#define MAX_K 1200
#define LDY (MAX_N + 3)

static const pkv_isa levels[] = { PKV_ISA_AVX2, PKV_ISA_AVX512, PKV_ISA_AVX512BF16, PKV_ISA_AMX,
                                  PKV_ISA_NEON };

static float x[MAX_M * MAX_K], w32[MAX_N * MAX_K], want[MAX_M * LDY], got[MAX_M * LDY];
static uint16_t w16[MAX_N * MAX_K];

/* Over many orders of size, with zeros of both signs and numbers that are subnormal. */
static float draw(pkv__rng *rng)
{
    static const float scales[] = { 1, 1, 1, 1e-3f, 1e3f, 1e-20f, 1e-40f, 0.f, -0.f };
    const uint32_t kind = pkv__rng_below(rng, PKV_ARRAY_LEN(scales));
    return (float)(pkv__rng_unit(rng) * 2 - 1) * scales[kind];
}

static void fill(pkv__rng *rng)
{
    for (int32_t i = 0; i < MAX_M * MAX_K; i++) x[i] = draw(rng);
    for (int32_t i = 0; i < MAX_N * MAX_K; i++) {
        w32[i] = draw(rng);
        w16[i] = pkv__f32_to_bf16(w32[i]);
    }
}

static void multiply(const pkv__gemm_ops *ops, int32_t m, int32_t n, int32_t k, bool bf16, bool add,
                     float *y)
{
    for (int32_t i = 0; i < MAX_M * LDY; i++) y[i] = (float)i;
    if (bf16) ops->bf16(m, 0, n, k, x, k, w16, y, LDY, add);
    else ops->f32(m, 0, n, k, x, k, w32, y, LDY, add);
}

static bool same(pkv_isa isa, int32_t m, int32_t n, int32_t k)
{
    for (int variant = 0; variant < 4; variant++) {
        const bool bf16 = variant % 2, add = variant / 2;
        multiply(pkv__gemm_find(PKV_ISA_SCALAR), m, n, k, bf16, add, want);
        multiply(pkv__gemm_find(isa), m, n, k, bf16, add, got);
        for (int32_t i = 0; i < MAX_M * LDY; i++) {
            if (memcmp(got + i, want + i, sizeof(float)) == 0) continue;
            printf("# m %d n %d k %d %s%s: row %d column %d is %a, not %a\n", m, n, k,
                   bf16 ? "bf16" : "f32", add ? " added" : "", i / LDY, i % LDY, (double)got[i],
                   (double)want[i]);
            return false;
        }
    }
    return true;
}

static bool check(pkv_isa isa, pkv__rng *rng)
{
    bool good = true;
    for (int32_t k = 1; good && k <= 40; k++) good = same(isa, 1 + k % 7, 1 + k % 11, k);
    for (int i = 0; good && i < 40; i++) {
        const int32_t m = 1 + (int32_t)pkv__rng_below(rng, MAX_M);
        const int32_t n = 1 + (int32_t)pkv__rng_below(rng, MAX_N);
        good = same(isa, m, n, 1 + (int32_t)pkv__rng_below(rng, MAX_K));
    }
    return good;
}

int main(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    const int n = (int)PKV_ARRAY_LEN(levels);
    bool good = true;
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 1, 0);
    printf("1..%d\n# PKV_SEED=%llu\n", n, (unsigned long long)seed);
    fill(&rng);
    for (int l = 0; l < n; l++) {
        const char *name = pkv_isa_name(levels[l]);
        if (!pkv__gemm_find(levels[l])) {
            printf("ok %d - %s # SKIP not on this machine\n", l + 1, name);
            continue;
        }
        const bool right = check(levels[l], &rng);
        printf("%s %d - %s\n", right ? "ok" : "not ok", l + 1, name);
        good = good && right;
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
