/* Rows to float and back, to codes and back, and copies: every level gives the bits of the scalar
 * one, whatever it is given. Whether those are right: test_row_formats. */
#include "common/number_format.h"
#include "kernels/kernels_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { N = 40, N_LEVELS = 6, ROUNDS = 20000 }; /* 40: a vector of 16 lanes ends halfway */

static const pkv_isa levels[N_LEVELS] = { PKV_ISA_AVX2, PKV_ISA_AVX512, PKV_ISA_AVX512BF16,
                                          PKV_ISA_AMX,  PKV_ISA_NEON,   PKV_ISA_SCALAR };

static uint32_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 32);
}

/* Any bits; or of the size of codes; or half way between two of them. */
static float draw_float(uint64_t *seed)
{
    const uint32_t u = draw(seed), kind = draw(seed) % 4;
    if (kind == 0) return pkv__f32_from_bits(u);
    if (kind == 1) return (float)(int32_t)(u % 1025) / 2.f - 256.f;
    const uint32_t magnitude = (u & 0x07ffffffu) + (100u << 23); /* 2^-27 .. 2^4 */
    return pkv__f32_from_bits((u & 0x80000000u) |
                              (kind == 2 ? magnitude : magnitude & 0xfff80000u));
}

static void same(const void *got, const void *want, size_t bytes, pkv_isa isa, const char *what,
                 int dtype)
{
    if (memcmp(got, want, bytes) != 0)
        fail_msg("%s of %s differs at %s", what, pkv_dtype_name((pkv_dtype)dtype),
                 pkv_isa_name(isa));
}

struct row {
    float x[N];
    uint8_t bytes[4 * N];
};

static void check_floats(const struct pkv__cpu_kernels *k, const struct pkv__cpu_kernels *s,
                         pkv_isa isa, const struct row *in)
{
    for (int t = PKV_F32; t <= PKV_BF16; t++) {
        struct row got, want;
        memset(&got, 0, sizeof got), memset(&want, 0, sizeof want);
        k->load_row[t](got.x, in->bytes, N), s->load_row[t](want.x, in->bytes, N);
        k->store_row[t](got.bytes, in->x, N), s->store_row[t](want.bytes, in->x, N);
        same(got.x, want.x, sizeof got.x, isa, "load", t);
        same(got.bytes, want.bytes, sizeof got.bytes, isa, "store", t);
    }
}

/* Norm and rotation; the numbers are finite, since of two NaN either may come through. */
static void check_math(const struct pkv__cpu_kernels *k, const struct pkv__cpu_kernels *s,
                       pkv_isa isa, const struct row *in)
{
    for (int32_t n = 8; n <= N; n += 8) {
        struct row got, want, w;
        for (int32_t d = 0; d < N; d++) {
            got.x[d] = want.x[d] = isfinite(in->x[d]) ? in->x[d] : 1.f;
            w.x[d] = 1.f / (float)(d + 1);
        }
        k->norm_row(got.x, w.x, n, 1e-5f), s->norm_row(want.x, w.x, n, 1e-5f);
        same(got.x, want.x, sizeof got.x, isa, "norm", PKV_F32);
        k->rotate_halves(got.x, w.x, n / 2), s->rotate_halves(want.x, w.x, n / 2);
        same(got.x, want.x, sizeof got.x, isa, "rotation of halves", PKV_F32);
        k->rotate_neighbours(got.x, w.x, n / 2), s->rotate_neighbours(want.x, w.x, n / 2);
        same(got.x, want.x, sizeof got.x, isa, "rotation of neighbours", PKV_F32);
    }
}

static void check_codes(const struct pkv__cpu_kernels *k, const struct pkv__cpu_kernels *s,
                        pkv_isa isa, const struct row *in, float scale, float zero)
{
    for (int t = PKV_E4M3; t <= PKV_U4; t++) {
        const int at = t - PKV_E4M3;
        struct row got, want;
        memset(&got, 0, sizeof got), memset(&want, 0, sizeof want);
        const bool got_nan = k->quantize_row[at](got.bytes, in->x, N, scale, zero);
        const bool want_nan = s->quantize_row[at](want.bytes, in->x, N, scale, zero);
        k->dequantize_row[at](got.x, in->bytes, N, scale, zero);
        s->dequantize_row[at](want.x, in->bytes, N, scale, zero);
        assert_int_equal(got_nan, want_nan);
        same(got.bytes, want.bytes, sizeof got.bytes, isa, "quantize", t);
        same(got.x, want.x, sizeof got.x, isa, "dequantize", t);
    }
    float got[2] = { INFINITY, -INFINITY }, want[2] = { INFINITY, -INFINITY };
    k->extremes_row(in->x, N, &got[0], &got[1]);
    s->extremes_row(in->x, N, &want[0], &want[1]);
    same(got, want, sizeof got, isa, "extremes", PKV_F32);
    k->extremes_row(in->x, 8, &got[0], &got[1]); /* folded in */
    s->extremes_row(in->x, 8, &want[0], &want[1]);
    same(got, want, sizeof got, isa, "extremes", PKV_F32);
}

static void levels_agree(void **state)
{
    struct pkv__cpu_kernels scalar, level;
    (void)state;
    pkv__cpu_kernels_init(&scalar, PKV_ISA_SCALAR);
    for (int l = 0; l < N_LEVELS; l++) {
        uint64_t seed = 12345;
        if (pkv_isa_check(levels[l], NULL) != PKV_OK) continue;
        pkv__cpu_kernels_init(&level, levels[l]);
        for (int round = 0; round < ROUNDS; round++) {
            struct row in;
            for (int i = 0; i < N; i++) {
                const uint32_t u = draw(&seed);
                in.x[i] = draw_float(&seed);
                memcpy(in.bytes + 4 * i, &u, sizeof u);
            }
            const float scale = round % 2 ? 1.f : fabsf(draw_float(&seed));
            const float zero = round % 3 ? 0.f : draw_float(&seed);
            check_floats(&level, &scalar, levels[l], &in);
            check_math(&level, &scalar, levels[l], &in);
            if (!isnan(scale) && !isnan(zero)) /* of two NaN either may come through */
                check_codes(&level, &scalar, levels[l], &in, scale, zero);
        }
    }
}

/* Bytes of any length and alignment, past the sizes at which a level changes its way of copying. */
static void copies_are_exact(void **state)
{
    enum { BYTES = 200 << 10 };
    static uint8_t from[BYTES + 64], to[BYTES + 128];
    uint64_t seed = 1;
    (void)state;
    for (int i = 0; i < BYTES + 64; i++) from[i] = (uint8_t)draw(&seed);
    for (int l = 0; l < N_LEVELS; l++) {
        struct pkv__cpu_kernels level;
        if (pkv_isa_check(levels[l], NULL) != PKV_OK) continue;
        pkv__cpu_kernels_init(&level, levels[l]);
        for (int round = 0; round < 60; round++) {
            const size_t n = draw(&seed) % (round % 2 ? BYTES : 1000);
            const size_t src = draw(&seed) % 64, dst = 1 + draw(&seed) % 63;
            memset(to, 0x5a, sizeof to);
            if (round % 3) level.copy(to + dst, from + src, n);
            else level.stream(to + dst, from + src, n), level.stream_end();
            same(to + dst, from + src, n, levels[l], "copy", PKV_I8);
            assert_int_equal(to[dst - 1], 0x5a);
            assert_int_equal(to[dst + n], 0x5a);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_agree),
        cmocka_unit_test(copies_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
