/* The reader of dumps: a good file, every way of being cut short, and every field out of range. */
#include "kv_dump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, TOKENS = 3, Q_HEADS = 4, KV_HEADS = 2, DIM = 8 };
enum { N_FLOATS = LAYERS * TOKENS * (2 * KV_HEADS + Q_HEADS) * DIM, BYTES = 28 + 4 * N_FLOATS };

static void put_word(unsigned char *p, uint32_t x)
{
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(x >> 8 * i);
}

/* Float number i of the file is i. */
static void make(unsigned char *file)
{
    const uint32_t fields[5] = { LAYERS, TOKENS, Q_HEADS, KV_HEADS, DIM };
    memcpy(file, "PKVDUMP1", 8);
    for (int i = 0; i < 5; i++) put_word(file + 8 + 4 * i, fields[i]);
    for (int i = 0; i < N_FLOATS; i++) {
        const float x = (float)i;
        uint32_t bits;
        memcpy(&bits, &x, sizeof(bits));
        put_word(file + 28 + 4 * i, bits);
    }
}

static void refused(const unsigned char *file, size_t n, const char *words)
{
    struct kv_dump d;
    char why[128] = "";
    unsigned char *exact = malloc(n + 1); /* so that a sanitizer sees a byte too far */
    memcpy(exact, file, n);
    assert_false(kv_dump_parse(exact, n, &d, why, sizeof(why)));
    if (!strstr(why, words)) fail_msg("said '%s', expected '%s'", why, words);
    assert_null(d.data);
    free(exact);
}

static void good(void **state)
{
    unsigned char file[BYTES];
    struct kv_dump d;
    char why[128];
    (void)state;
    make(file);
    assert_true(kv_dump_parse(file, BYTES, &d, why, sizeof(why)));
    assert_true(d.n_layers == LAYERS && d.n_tokens == TOKENS && d.n_q_heads == Q_HEADS);
    assert_true(d.n_kv_heads == KV_HEADS && d.dim == DIM);
    assert_true(kv_dump_k(&d, 0)[0] == 0.f);
    assert_true(kv_dump_v(&d, 0)[0] == TOKENS * KV_HEADS * DIM);
    assert_true(kv_dump_q(&d, 0)[0] == 2 * TOKENS * KV_HEADS * DIM);
    assert_true(kv_dump_k(&d, 1)[0] == N_FLOATS / 2);
    assert_true(kv_dump_q(&d, 1)[TOKENS * Q_HEADS * DIM - 1] == N_FLOATS - 1);
    kv_dump_free(&d);
    kv_dump_free(&d);
}

static void cut_short(void **state)
{
    unsigned char file[BYTES + 1];
    (void)state;
    make(file);
    file[BYTES] = 0;
    for (size_t n = 0; n < BYTES; n++) refused(file, n, n < 28 ? "header" : "asks for");
    refused(file, BYTES + 1, "asks for");
}

static void bad_fields(void **state)
{
    unsigned char file[BYTES];
    (void)state;
    make(file);
    file[3] = 'X';
    refused(file, BYTES, "offset 0");
    for (size_t i = 0; i < 5; i++) {
        static const uint32_t wrong[] = { 0, 0xffffffffu, 0x80000000u, 1u << 17 };
        char offset[16] = "offset 00";
        offset[7] = (char)('0' + (8 + 4 * i) / 10);
        offset[8] = (char)('0' + (8 + 4 * i) % 10);
        for (size_t k = 0; k < 4; k++) {
            make(file);
            put_word(file + 8 + 4 * i, wrong[k]);
            refused(file, BYTES, i == 0 ? "offset 8" : offset);
        }
    }
    make(file);
    put_word(file + 24, 12);
    refused(file, BYTES, "multiple of 8");
    make(file);
    put_word(file + 20, 3);
    refused(file, BYTES, "4 query heads over 3");
    make(file);
    put_word(file + 8, 1024);
    put_word(file + 12, 1 << 16);
    refused(file, BYTES, "asks for");
    make(file);
    put_word(file + 28 + 4 * 7, 0x7fc00000u);
    refused(file, BYTES, "offset 56: not a finite");
}

static void missing_file(void **state)
{
    struct kv_dump d;
    char why[128] = "";
    (void)state;
    assert_false(kv_dump_read("/nonexistent/dump", &d, why, sizeof(why)));
    assert_string_equal(why, "cannot be opened");
    assert_false(kv_dump_read("/dev/null", &d, why, sizeof(why)));
    assert_string_equal(why, "offset 0: the file ends within the header");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(bad_fields),
        cmocka_unit_test(missing_file),
    };
    return cmocka_run_group_tests_name("kv_dump", tests, NULL, NULL);
}
