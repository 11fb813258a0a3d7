/* The model of the AMX instructions: results derived by hand from their description, and, where the
 * machine has them, the same bits as theirs. */
#include "amx_model.h"
#include "pagedkv/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

void amx_real_dot(float sum[16][16], const void *a, const void *b);

struct factors {
    float sum[16][16];
    uint16_t a[16][32], b[16][32]; /* a [row][element], b [pair of elements][column][2] */
};

static uint16_t bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    assert_int_equal(u & 0xffff, 0);
    return (uint16_t)(u >> 16);
}

static void configure(void)
{
    struct amx_shape shape = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        shape.row_bytes[i] = 64;
        shape.rows[i] = 16;
    }
    amx_config(&shape);
}

static void model_dot(struct factors *f)
{
    configure();
    amx_load(0, f->sum, 64);
    amx_load(1, f->a, 64);
    amx_load(2, f->b, 64);
    amx_dot(0, 1, 2);
    amx_store(0, f->sum, 64);
    amx_release();
}

/* sum + the products x[0] y[0] + ... of 4 elements, all else being 0. */
static float dot_of(float sum, const float x[4], const float y[4])
{
    struct factors f;
    memset(&f, 0, sizeof(f));
    f.sum[3][5] = sum;
    for (int i = 0; i < 4; i++) {
        f.a[3][i] = bf16(x[i]);
        f.b[i / 2][2 * 5 + i % 2] = bf16(y[i]);
    }
    model_dot(&f);
    return f.sum[3][5];
}
#define DOT(sum, x0, x1, x2, x3, y0, y1, y2, y3)                                                   \
    (double)dot_of(sum, (const float[4]){ x0, x1, x2, x3 }, (const float[4]){ y0, y1, y2, y3 })

static void test_order(void **state)
{
    (void)state;
    /* Even numbers 1 and 2^-30, odd ones -1: in one chain 2^-30 would be left. */
    assert_true(DOT(0, 1, -1, 0x1p-30f, 0, 1, 1, 1, 0) == 0);
    /* 1 - 1 is done before the old sum comes in. */
    assert_true(DOT(0x1p-30f, 1, -1, 0, 0, 1, 1, 0, 0) == 0x1p-30);
    /* Products are whole: (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14, less 1 + 2^-6. */
    assert_true(DOT(0, 1.015625f, 0, 1.0078125f, 0, -1, 0, 1.0078125f, 0) == 0x1p-14);
}

static void test_rounding(void **state)
{
    (void)state;
    assert_true(DOT(1, 0x1p-24f, 0, 0, 0, 1, 0, 0, 0) == 1);                      /* tie, even */
    assert_true(DOT(1 + 0x1p-23f, 0x1p-24f, 0, 0, 0, 1, 0, 0, 0) == 1 + 0x1p-22); /* tie, odd */
    assert_true(DOT(1, 0x1.02p-24f, 0, 0, 0, 1, 0, 0, 0) == 1 + 0x1p-23);
    assert_true(DOT(0, 0x1p127f, 0, 0, 0, 2, 0, 0, 0) == (double)INFINITY);
    assert_true(isnan(DOT(0, INFINITY, -INFINITY, 0, 0, 1, 1, 0, 0)));
}

static void test_subnormals(void **state)
{
    (void)state;
    assert_true(DOT(0, 0x1p-133f, 0, 0, 0, 0x1p100f, 0, 0, 0) == 0);     /* a factor */
    assert_true(DOT(0, 0x1p-100f, 0, 0, 0, 0x1p-30f, 0, 0, 0) == 0);     /* a product */
    assert_true(DOT(0x1p-127f, 0, 0, 0, 0, 0, 0, 0, 0) == 0);            /* the old sum */
    assert_true(DOT(0, 0x1.8p-126f, -0x1p-126f, 0, 0, 1, 1, 0, 0) == 0); /* a difference */
    assert_true(DOT(0, 0x1p-126f, 0, 0, 0, 1, 0, 0, 0) == 0x1p-126);     /* the smallest kept */
    /* 2^-126 (1 - 2^-24): below 2^-126 in 24 bits, though not after rounding at 2^-149. */
    assert_true((double)amx_fma(0x1.fffffep-64f, 0x1.000002p-63f, 0) == 0x1p-126);
    assert_true((double)amx_fma(0x1.fffffep-64f, 0x1p-63f, 0) == 0);
}

static void test_shapes(void **state)
{
    struct amx_shape shape = { .palette = 1 };
    uint32_t from[4][4], to[16][16];
    (void)state;
    for (int i = 0; i < 8; i++) {
        shape.row_bytes[i] = 8;
        shape.rows[i] = 2;
    }
    for (int i = 0; i < 16; i++) from[i / 4][i % 4] = (uint32_t)i + 1;
    amx_config(&shape);
    amx_load(7, from, sizeof(from[0]));
    memset(to, 0xff, sizeof(to));
    amx_store(7, to, sizeof(to[0]));
    for (uint32_t r = 0; r < 16; r++)
        for (uint32_t c = 0; c < 16; c++)
            assert_int_equal(to[r][c], r < 2 && c < 2 ? 4 * r + c + 1 : UINT32_MAX);
    assert_true(amx_tiles[7].row[2][0] == 0 && amx_tiles[7].row[0][2] == 0);
    amx_release();
}

/* Any bits: NaN, infinities and subnormals among them in odd rounds. NaN may differ in its bits. */
static void test_against_the_machine(void **state)
{
    uint64_t x = 1;
    struct factors f, g;
    (void)state;
    const char *why = "";
    if (pkv_isa_check(PKV_ISA_AMX, &why) != PKV_OK) {
        fprintf(stderr, "SKIPPED: level amx: %s\n", why);
        skip();
    }
    for (int round = 0; round < 400; round++) {
        for (size_t i = 0; i < sizeof(f) / 2; i++) {
            x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            uint16_t word = (uint16_t)(x >> 40);
            if (round % 2 == 0) word = (uint16_t)((word & 0x80ff) | 0x3f00);
            if (round % 4 == 1) word &= 0xafff; /* products at the lower end */
            memcpy((char *)&f + 2 * i, &word, sizeof(word));
        }
        g = f;
        model_dot(&f);
        amx_real_dot(g.sum, g.a, g.b);
        for (int i = 0; i < 256; i++) {
            const float want = g.sum[i / 16][i % 16], got = f.sum[i / 16][i % 16];
            if (isnan(want) && isnan(got)) continue;
            assert_memory_equal(&want, &got, sizeof(want));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_subnormals),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_against_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
