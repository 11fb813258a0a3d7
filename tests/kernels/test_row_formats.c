/* The conversions of rows at every level of this machine, against tests/oracle: every code, the
 * borders between all neighbouring codes, floats of every exponent; with the argument `all`, all
 * 2^32 floats. Codes of positive floats rise with the float, so a conversion is known by the first
 * float of every code. */
#include "kernels/kernels_internal.h"
#include "oracle/oracle_formats.h"
#include "oracle/oracle_numbers.h"
#include "test_levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INF_BITS = 0x7f800000, MAX_CODES = 0x7f80 + 2, N = 256 };

static pkv_backend *backends[TEST_N_LEVELS];

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* ------------------------------------------------------------------ float to code */

struct conversion {
    pkv_dtype dtype;
    unsigned n_codes;              /* of positive floats, infinity included */
    uint32_t first[MAX_CODES + 1]; /* bits of the first positive float of each */
};

static unsigned oracle_code(pkv_dtype dtype, uint32_t bits)
{
    const double x = (double)float_of(bits);
    return oracle_is_code(dtype) ? oracle_code_of(dtype, x) : oracle_code16(dtype, x);
}

static void learn(struct conversion *v, pkv_dtype dtype)
{
    v->dtype = dtype;
    v->n_codes = oracle_code(dtype, INF_BITS) + 1;
    for (unsigned code = 0; code < v->n_codes; code++) {
        uint32_t lo = 0, hi = INF_BITS;
        while (lo < hi) { /* the first float whose code is at least `code` */
            const uint32_t mid = lo + (hi - lo) / 2;
            if (oracle_code(dtype, mid) >= code) hi = mid;
            else lo = mid + 1;
        }
        v->first[code] = lo;
    }
    v->first[v->n_codes] = INF_BITS + 1;
}

static unsigned code_by_table(const struct conversion *v, uint32_t magnitude)
{
    unsigned lo = 0, hi = v->n_codes;
    while (hi - lo > 1) {
        const unsigned mid = (lo + hi) / 2;
        if (v->first[mid] <= magnitude) lo = mid;
        else hi = mid;
    }
    return lo;
}

static unsigned with_sign(pkv_dtype dtype, unsigned code, bool negative)
{
    if (!negative) return code;
    if (dtype == PKV_U4) return 0;
    if (dtype == PKV_I8) return (256 - code) & 255u;
    return code | (oracle_is_code(dtype) ? 0x80u : 0x8000u);
}

static unsigned converted(pkv_dtype dtype, const void *row, int32_t i)
{
    uint16_t code;
    if (oracle_is_code(dtype)) return oracle_code_at(dtype, row, i);
    memcpy(&code, (const char *)row + i * 2, sizeof(code));
    return code;
}

static bool convert(const pkv_backend *be, pkv_dtype dtype, void *dst, const float *src)
{
    if (oracle_is_code(dtype))
        return be->kernels.quantize_row[dtype - PKV_E4M3](dst, src, N, 1.f, 0.f);
    be->kernels.store_row[dtype](dst, src, N);
    return false;
}

struct batch {
    const pkv_backend *be;
    const struct conversion *v;
    float x[N];
    int n;
};

static void flush(struct batch *b)
{
    _Alignas(64) unsigned char row[N * 4];
    bool nan = false;
    for (int i = b->n; i < N; i++) b->x[i] = 0.f;
    b->n = 0;
    const bool said = convert(b->be, b->v->dtype, row, b->x);
    for (int i = 0; i < N; i++) {
        const uint32_t bits = bits_of(b->x[i]), magnitude = bits & 0x7fffffffu;
        const unsigned got = converted(b->v->dtype, row, i);
        nan |= magnitude > INF_BITS;
        if (magnitude > INF_BITS && !oracle_is_code(b->v->dtype)) {
            assert_true(isnan(oracle_load(b->v->dtype, row, i)));
            continue;
        }
        const unsigned want =
            magnitude > INF_BITS
                ? oracle_code_of(b->v->dtype, (double)b->x[i])
                : with_sign(b->v->dtype, code_by_table(b->v, magnitude), bits >> 31);
        if (got != want)
            fail_msg("%s %s: %a (%#x) became %#x, want %#x", pkv_isa_name(b->be->isa),
                     pkv_dtype_name(b->v->dtype), (double)b->x[i], (unsigned)bits, got, want);
    }
    if (b->v->dtype >= PKV_I8) assert_true(said == nan); /* fp8 codes say so themselves */
}

static void try_float(struct batch *b, uint32_t bits)
{
    b->x[b->n++] = float_of(bits);
    b->x[b->n++] = float_of(bits ^ 0x80000000u);
    if (b->n == N) flush(b);
}

static void borders_and_exponents(const pkv_backend *be, const struct conversion *v)
{
    struct batch b = { .be = be, .v = v };
    uint64_t x = 88172645463325252u; /* xorshift64 (Marsaglia, 2003) */
    for (unsigned code = 0; code <= v->n_codes; code++)
        for (uint32_t near = 0; near < 5; near++)
            if (v->first[code] + near >= 2) try_float(&b, v->first[code] + near - 2);
    for (uint32_t e = 0; e < 256; e++)
        for (int i = 0; i < 300; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            try_float(&b, e << 23 | (uint32_t)(x >> 41));
        }
    flush(&b);
}

static void put_code(pkv_dtype dtype, void *row, int32_t i, unsigned code)
{
    const uint16_t half = (uint16_t)code;
    if (oracle_is_code(dtype)) oracle_put_code(dtype, row, i, code);
    else memcpy((char *)row + i * 2, &half, sizeof(half));
}

/* Codes of the positive floats from `base` on; *code is that of the last float before. */
static void codes_of(const struct conversion *v, uint32_t base, bool negative, unsigned *code,
                     unsigned char *row)
{
    for (uint32_t at = 0; at < N;) {
        while (v->first[*code + 1] <= base + at) (*code)++;
        const uint32_t left = v->first[*code + 1] - base, end = left < N ? left : N;
        for (; at < end; at++)
            put_code(v->dtype, row, (int32_t)at, with_sign(v->dtype, *code, negative));
    }
}

/* Every float. Codes change at few places, known from the table, so that most rows of 256 are what
 * the row before was: made once, compared as a whole. */
static void all_floats(const pkv_backend *be, const struct conversion *v, bool negative)
{
    _Alignas(64) unsigned char row[N * 4], want[N * 4];
    const size_t bytes = (size_t)oracle_span(v->dtype, N);
    float x[N];
    unsigned code = 0;
    uint32_t same_until = 0;
    for (uint32_t base = 0; base < INF_BITS; base += N) {
        for (uint32_t i = 0; i < N; i++) x[i] = float_of((base + i) | (negative ? 1u << 31 : 0u));
        convert(be, v->dtype, row, x);
        if (base + N > same_until) {
            codes_of(v, base, negative, &code, want);
            same_until = v->first[code] <= base ? v->first[code + 1] : 0;
        }
        if (memcmp(row, want, bytes) == 0) continue;
        for (int32_t i = 0; i < N; i++)
            if (converted(v->dtype, row, i) != converted(v->dtype, want, i))
                fail_msg("%s %s: %a became %#x, want %#x", pkv_isa_name(be->isa),
                         pkv_dtype_name(v->dtype), (double)x[i], converted(v->dtype, row, i),
                         converted(v->dtype, want, i));
    }
}

/* A level that converts with the functions of the one below. */
static bool same_as_below(int level, pkv_dtype dtype)
{
    for (int below = level - 1; below >= 0; below--) {
        const struct pkv__cpu_kernels *a, *b;
        if (!backends[below]) continue;
        a = &backends[below]->kernels;
        b = &backends[level]->kernels;
        if (!oracle_is_code(dtype)) return a->store_row[dtype] == b->store_row[dtype];
        return a->quantize_row[dtype - PKV_E4M3] == b->quantize_row[dtype - PKV_E4M3];
    }
    return false;
}

static void floats_to_codes(void **state)
{
    static struct conversion v;
    const bool all = *state != NULL;
    for (int t = PKV_F16; t < PKV_DTYPE_COUNT; t++) {
        learn(&v, (pkv_dtype)t);
        for (int i = 0; i < TEST_N_LEVELS; i++) {
            if (!backends[i] || same_as_below(i, (pkv_dtype)t)) continue;
            borders_and_exponents(backends[i], &v);
            for (int negative = 0; negative < 2 && all; negative++)
                all_floats(backends[i], &v, negative);
        }
    }
}

/* ------------------------------------------------------------------ code to float */

/* NaN bits included: every level agrees with the scalar one, and that with the definition. */
static void halves_to_floats(void **state)
{
    (void)state;
    for (int t = PKV_F16; t <= PKV_BF16; t++)
        for (unsigned base = 0; base < 65536; base += N) {
            _Alignas(64) uint16_t row[N];
            float x[N], scalar[N];
            for (unsigned i = 0; i < N; i++) row[i] = (uint16_t)(base + i);
            for (int level = 0; level < TEST_N_LEVELS; level++) {
                if (!backends[level]) continue;
                backends[level]->kernels.load_row[t](x, row, N);
                if (level == 0) memcpy(scalar, x, sizeof(x));
                assert_memory_equal(x, scalar, sizeof(x));
                for (unsigned i = 0; i < N; i++) {
                    const double want = oracle_value16((pkv_dtype)t, row[i]);
                    if (isnan(want)) assert_true(isnan(x[i]));
                    else assert_true((double)x[i] == want && !signbit(x[i]) == !(row[i] >> 15));
                }
            }
        }
}

static void codes_to_floats(void **state)
{
    static const float scales[] = { 1.f, 0.3f, -7.f, 0x1p-126f, 1e-40f, 1e38f, 0.f, INFINITY };
    static const float zeros[] = { 0.f, 7.5f, -1e10f, 3.3f };
    (void)state;
    for (int t = PKV_E4M3; t < PKV_DTYPE_COUNT; t++)
        for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++)
            for (size_t z = 0; z < (t == PKV_U4 ? sizeof(zeros) / sizeof(zeros[0]) : 1); z++)
                for (int level = 0; level < TEST_N_LEVELS; level++) {
                    _Alignas(64) unsigned char row[N];
                    float x[N];
                    if (!backends[level]) continue;
                    for (int i = 0; i < N; i++)
                        oracle_put_code((pkv_dtype)t, row, i,
                                        (unsigned)i % (t == PKV_U4 ? 16 : 256));
                    backends[level]->kernels.dequantize_row[t - PKV_E4M3](x, row, N, scales[s],
                                                                          zeros[z]);
                    for (int i = 0; i < N; i++) {
                        const float code = (float)oracle_load((pkv_dtype)t, row, i);
                        const float want = scales[s] * (code - zeros[z]);
                        if (isnan(want) ? !isnan(x[i]) : bits_of(want) != bits_of(x[i]))
                            fail_msg("%s %s code %d by %g, zero %g: %a, want %a",
                                     pkv_isa_name(test_levels[level]), pkv_dtype_name((pkv_dtype)t),
                                     i, (double)scales[s], (double)zeros[z], (double)x[i],
                                     (double)want);
                    }
                }
}

/* Short rows: the conversion of n elements touches n elements. */
static void short_rows(void **state)
{
    (void)state;
    for (int level = 0; level < TEST_N_LEVELS; level++)
        for (int t = PKV_F32; t < PKV_DTYPE_COUNT && backends[level]; t++)
            for (int32_t n = 8; n <= 40; n += 8) {
                _Alignas(64) unsigned char row[64 * 4];
                float x[64], back[64];
                const size_t bytes = (size_t)oracle_span((pkv_dtype)t, n);
                for (int i = 0; i < 64; i++) x[i] = (float)(i % 7), back[i] = 99.f;
                memset(row, 0xa5, sizeof(row));
                if (t < PKV_E4M3) {
                    backends[level]->kernels.store_row[t](row, x, n);
                    backends[level]->kernels.load_row[t](back, row, n);
                } else {
                    backends[level]->kernels.quantize_row[t - PKV_E4M3](row, x, n, 1.f, 0.f);
                    backends[level]->kernels.dequantize_row[t - PKV_E4M3](back, row, n, 1.f, 0.f);
                }
                for (size_t i = bytes; i < sizeof(row); i++) assert_int_equal(row[i], 0xa5);
                for (int i = 0; i < 64; i++) assert_true(back[i] == (i < n ? x[i] : 99.f));
            }
}

/* Extremes of the finite values are folded into what was there. */
static void extremes(void **state)
{
    (void)state;
    for (int level = 0; level < TEST_N_LEVELS; level++) {
        float x[24], lo = 1.f, hi = 2.f;
        if (!backends[level]) continue;
        for (int i = 0; i < 24; i++) x[i] = i % 3 ? (i % 2 ? INFINITY : -INFINITY) : NAN;
        backends[level]->kernels.extremes_row(x, 24, &lo, &hi);
        assert_true(lo == 1.f && hi == 2.f);
        for (int at = 0; at < 24; at++) {
            float low = 1.f, high = 2.f;
            x[at] = -3.f;
            x[(at + 5) % 24] = 1e-42f;
            x[(at + 9) % 24] = 3e38f;
            backends[level]->kernels.extremes_row(x, 24, &low, &high);
            assert_true(low == -3.f && high == 3e38f);
            x[at] = x[(at + 5) % 24] = x[(at + 9) % 24] = NAN;
        }
    }
}

int main(int argc, char **argv)
{
    static char all_of_them;
    void *all = argc > 1 && strcmp(argv[1], "all") == 0 ? &all_of_them : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(floats_to_codes, all),
        cmocka_unit_test(halves_to_floats),
        cmocka_unit_test(codes_to_floats),
        cmocka_unit_test(short_rows),
        cmocka_unit_test(extremes),
    };
    for (int i = 0; i < TEST_N_LEVELS; i++) {
        pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
        cfg.max_isa = test_levels[i];
        if (pkv_backend_create_cpu(&cfg, &backends[i]) != PKV_OK) backends[i] = NULL;
    }
    const int rc = cmocka_run_group_tests_name("row_formats", tests, NULL, NULL);
    for (int i = 0; i < TEST_N_LEVELS; i++) pkv_backend_destroy(backends[i]);
    return rc;
}
