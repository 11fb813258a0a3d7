/* Codes of every stored type to floats, at every level that this build and this CPU have: each code
 * at each place, against the definition in tests/oracle, from memory that ends behind the last. */
#include "common/cpu_detect.h"
#include "kernels/formats_under_test.h"
#include "kernels/hostile_memory.h"
#include "oracle/oracle_numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { MAX_LANES = 16 };

/* A code of e4m3 as a number: where the type has NaN, 480 by the fields. */
static double number_of(pkv_dtype dtype, const void *data, int idx)
{
    const uint8_t code = ((const uint8_t *)data)[dtype == PKV_E4M3 ? idx : 0];
    if (dtype == PKV_E4M3 && (code & 0x7fu) == 0x7fu) return code & 0x80u ? -480. : 480.;
    return oracle_load(dtype, data, idx);
}

static void assert_equal(float got, double want, const char *level, pkv_dtype dtype, int idx)
{
    const bool same =
        isnan(want) ? isnan(got) : (double)got == want && signbit(got) == signbit((float)want);
    if (!same)
        fail_msg("%s %s, place %d: %a instead of %a", level, pkv_dtype_name(dtype), idx,
                 (double)got, want);
}

/* n codes at the end of a page: of 8 bits and less every code comes to every place; of the others
 * every code of 16 bits to some, and every f32 pattern of 16 upper bits. */
static void fill(pkv_dtype dtype, uint8_t *data, int64_t bytes, unsigned round)
{
    for (int64_t i = 0; i < bytes; i++) data[i] = (uint8_t)(round + (unsigned)i * 29u);
    if (dtype > PKV_BF16) return;
    const size_t size = (size_t)oracle_bytes(dtype);
    for (int64_t i = 0; i < bytes / (int64_t)size; i++) {
        const uint16_t code = (uint16_t)(round * 7u + (unsigned)i * 4099u);
        memcpy(data + (size_t)i * size + size - 2, &code, 2);
    }
}

static unsigned rounds(pkv_dtype dtype)
{
    return dtype <= PKV_BF16 ? 65536u : 256u;
}

static void check_pair(const struct formats *f, pkv_dtype dtype)
{
    const int n = 2 * f->lanes;
    const int64_t bytes = oracle_span(dtype, n);
    struct hostile m = hostile_create((size_t)bytes, 0);
    float got[2 * MAX_LANES];
    for (unsigned round = 0; round < rounds(dtype); round++) {
        fill(dtype, m.data, bytes, round);
        f->pair(got, dtype, m.data);
        for (int i = 0; i < n; i++)
            assert_equal(got[i], number_of(dtype, m.data, i), f->level, dtype, i);
    }
    hostile_destroy(&m);
}

static void check_parts(const struct formats *f, pkv_dtype dtype, int n)
{
    const int64_t bytes = oracle_span(dtype, n);
    struct hostile m = hostile_create((size_t)bytes, 0);
    float number[MAX_LANES], value[MAX_LANES];
    for (unsigned round = 0; round < rounds(dtype); round++) {
        fill(dtype, m.data, bytes, round);
        f->codes(number, dtype, m.data, n);
        f->values(value, dtype, m.data, n);
        for (int i = 0; i < n; i++) {
            assert_equal(number[i], number_of(dtype, m.data, i), f->level, dtype, i);
            assert_equal(value[i], oracle_load(dtype, m.data, i), f->level, dtype, i);
        }
        for (int i = n; i < f->lanes; i++) assert_true(number[i] == 0.f && value[i] == 0.f);
    }
    hostile_destroy(&m);
}

/* Found at every place of rows of every length, with either sign, and nothing else is taken for
 * it. */
static void check_nan_codes(const struct formats *f)
{
    for (int n = 8; n <= 1040; n += n < 256 ? 8 : 56) {
        struct hostile m = hostile_create((size_t)n, 0);
        for (int i = 0; i < n; i++)
            m.data[i] = (uint8_t)((unsigned)i % 127u | (i & 1 ? 0x80u : 0u));
        assert_false(f->has_nan_code(m.data, n));
        for (int i = 0; i < n; i++) {
            const uint8_t before = m.data[i];
            m.data[i] = i % 3 ? 0x7f : 0xff;
            assert_true(f->has_nan_code(m.data, n));
            m.data[i] = before;
        }
        hostile_destroy(&m);
    }
}

static void check_level(const struct formats *f)
{
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) {
        check_pair(f, (pkv_dtype)t);
        check_parts(f, (pkv_dtype)t, 8);
        if (f->lanes > 8) check_parts(f, (pkv_dtype)t, f->lanes);
    }
    check_nan_codes(f);
}

static void avx2(void **state)
{
    (void)state;
#if PKV_HAVE_AVX2
    if (pkv__cpu_detect().avx2 < PKV__LEVEL_SLOW) skip();
    check_level(&formats_avx2);
#else
    skip();
#endif
}

static void avx512(void **state)
{
    (void)state;
#if PKV_HAVE_AVX512
    if (pkv__cpu_detect().avx512 < PKV__LEVEL_SLOW) skip();
    check_level(&formats_avx512);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(avx2),
        cmocka_unit_test(avx512),
    };
    return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
