/* ldmatrix, movmatrix and mma of the emulator. Fragments are laid out by the formulas of CuTe's
 * layouts (column-major index = sum of coordinate * stride), not by the emulator's own:
 *   a  (4, 8), (2, 2, 2) : (32, 1), (16, 8, 128)   of 16 x 16
 *   b  (4, 8), (2, 2)    : (16, 1), (8, 64)        of 8 (n) x 16 (k)
 *   c  (4, 8), (2, 2)    : (32, 1), (16, 8)        of 16 x 8
 * the first pair of coordinates is the lane's, the others those of its elements. */
#include "simt_test.h"

static int a_index(int lane, int e)
{
    return lane % 4 * 32 + lane / 4 + e % 2 * 16 + e / 2 % 2 * 8 + e / 4 * 128;
}

static int b_index(int lane, int e)
{
    return lane % 4 * 16 + lane / 4 + e % 2 * 8 + e / 2 * 64;
}

static int c_index(int lane, int e)
{
    return lane % 4 * 32 + lane / 4 + e % 2 * 16 + e / 2 * 8;
}

/* An integer of at most 8 significant bits, in f16 or bf16. */
static uint32_t code_of(int x, int bf16)
{
    union {
        float f;
        uint32_t u;
    } v = { (float)x };
    if (bf16) return v.u >> 16;
    if (x == 0) return 0;
    return (v.u >> 16 & 0x8000) | (((v.u >> 23 & 0xff) - 127 + 15) << 10) | (v.u >> 13 & 0x3ff);
}

/* Every entry of a and of b is different, and all sums are exact. */
static void product_of_distinct_entries(int bf16)
{
    int a[16][16], b[16][8], c[16][8], n_wrong = 0;
    uint32_t fa[32][4], fb[32][2];
    float fc[32][4], fd[32][4];
    for (int i = 0; i < 256; i++) a[i / 16][i % 16] = i - 128;
    for (int i = 0; i < 128; i++) {
        b[i / 8][i % 8] = (i * 37) % 128 - 61;
        c[i / 8][i % 8] = 1000 * i;
    }
    for (int lane = 0; lane < 32; lane++) {
        for (int e = 0; e < 8; e += 2) {
            const int lo = a_index(lane, e), hi = a_index(lane, e + 1);
            fa[lane][e / 2] =
                code_of(a[lo % 16][lo / 16], bf16) | code_of(a[hi % 16][hi / 16], bf16) << 16;
        }
        for (int e = 0; e < 4; e++)
            fc[lane][e] = (float)c[c_index(lane, e) % 16][c_index(lane, e) / 16];
        for (int e = 0; e < 4; e += 2) {
            const int lo = b_index(lane, e), hi = b_index(lane, e + 1);
            fb[lane][e / 2] = code_of(b[lo / 8][lo % 8], bf16) | code_of(b[hi / 8][hi % 8], bf16)
                                                                     << 16;
        }
    }
    uint32_t *d_a = device_copy_of(fa, sizeof fa), *d_b = device_copy_of(fb, sizeof fb);
    float *d_c = device_copy_of(fc, sizeof fc), *d_d = device_copy_of(NULL, sizeof fd);
    use_schedule(6);
    assert_launched(run_mma(d_d, d_a, d_b, d_c, bf16));
    device_download(fd, d_d, sizeof fd);
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < 4; e++) {
            const int row = c_index(lane, e) % 16, col = c_index(lane, e) / 16;
            int expected = c[row][col];
            for (int k = 0; k < 16; k++) expected += a[row][k] * b[k][col];
            n_wrong += fd[lane][e] != (float)expected;
        }
    assert_int_equal(n_wrong, 0);
    device_free(d_a);
    device_free(d_b);
    device_free(d_c);
    device_free(d_d);
}

static void mma_f16(void **state)
{
    (void)state;
    product_of_distinct_entries(0);
}

static void mma_bf16(void **state)
{
    (void)state;
    product_of_distinct_entries(1);
}

/* CuTe's source and target of ldmatrix: lane l of matrix j has elements 2l and 2l + 1 of the matrix
 * row by row; with .trans, column by column. */
static void ldmatrix_in_every_form(void **state)
{
    (void)state;
    uint16_t elements[4 * 64];
    uint32_t got[4 * 32];
    for (int i = 0; i < 256; i++) elements[i] = (uint16_t)(i * 259 + 1);
    uint16_t *in = device_copy_of(elements, sizeof elements);
    for (int n = 1; n <= 4; n *= 2)
        for (int trans = 0; trans < 2; trans++) {
            uint32_t *out = device_copy_of(NULL, sizeof got);
            use_schedule(2 * n + trans);
            assert_launched(run_ldmatrix(out, in, n, trans));
            device_download(got, out, (size_t)n * 128);
            for (int j = 0; j < n; j++)
                for (int e = 0; e < 64; e++) {
                    const int row = trans ? e % 8 : e / 8, col = trans ? e / 8 : e % 8;
                    assert_int_equal(got[32 * j + e / 2] >> (e % 2 * 16) & 0xffff,
                                     elements[64 * j + 8 * row + col]);
                }
            device_free(out);
        }
    device_free(in);
}

static void movmatrix_twice_is_identity(void **state)
{
    (void)state;
    uint32_t regs[32], got[64];
    for (uint32_t i = 0; i < 32; i++) regs[i] = (2 * i) | (2 * i + 1) << 16;
    uint32_t *in = device_copy_of(regs, sizeof regs), *out = device_copy_of(NULL, sizeof got);
    use_schedule(8);
    assert_launched(run_movmatrix(out, in));
    device_download(got, out, sizeof got);
    for (uint32_t e = 0; e < 64; e++)
        assert_int_equal(got[e / 2] >> (e % 2 * 16) & 0xffff, e % 8 * 8 + e / 8);
    assert_memory_equal(got + 32, regs, sizeof regs);
    device_free(in);
    device_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mma_f16),
        cmocka_unit_test(mma_bf16),
        cmocka_unit_test(ldmatrix_in_every_form),
        cmocka_unit_test(movmatrix_twice_is_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
