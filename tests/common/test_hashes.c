/* SHA-256 and SipHash against published vectors.
 *   SHA-256:      FIPS 180-4 examples (NIST, "SHA256.pdf": one block, two blocks, empty, 10^6 'a')
 *   SipHash-2-4:  the vectors of the authors' reference package: key 00 01 .. 0f, message
 *                 00 01 .. n-1; n = 15 is the worked example in appendix A of the paper */
#include "common/sha256.h"
#include "common/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void expect_sha(const struct pkv__sha256 *s, const char *hex)
{
    struct pkv__sha256 copy = *s;
    uint8_t digest[32];
    char text[65];
    pkv__sha256_end(&copy, digest);
    for (int i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, hex);
}

static void test_sha256_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *message, *digest;
    } cases[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pkv__sha256 s;
        pkv__sha256_init(&s);
        pkv__sha256_update(&s, cases[i].message, strlen(cases[i].message));
        expect_sha(&s, cases[i].digest);
    }
}

static void test_sha256_million(void **state)
{
    (void)state;
    /* In pieces of every size 0 .. 199 in turn, so that no boundary of 64 is special. */
    struct pkv__sha256 s;
    char a[200];
    memset(a, 'a', sizeof a);
    pkv__sha256_init(&s);
    for (size_t left = 1000000, n = 0; left > 0; left -= n) {
        n = (n + 1) % sizeof a;
        if (n > left) n = left;
        pkv__sha256_update(&s, a, n);
    }
    expect_sha(&s, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static const uint64_t key0 = UINT64_C(0x0706050403020100), key1 = UINT64_C(0x0f0e0d0c0b0a0908);

static void test_siphash_2_4_vectors(void **state)
{
    (void)state;
    static const uint64_t expected[16] = {
        UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x74f839c593dc67fd), UINT64_C(0x0d6c8009d9a94f5a),
        UINT64_C(0x85676696d7fb7e2d), UINT64_C(0xcf2794e0277187b7), UINT64_C(0x18765564cd99a68d),
        UINT64_C(0xcbc9466e58fee3ce), UINT64_C(0xab0200f58b01d137), UINT64_C(0x93f5f5799a932462),
        UINT64_C(0x9e0082df0ba9e4b0), UINT64_C(0x7a5dbbc594ddb9f3), UINT64_C(0xf4b32f46226bada7),
        UINT64_C(0x751e8fbc860ee5fb), UINT64_C(0x14ea5627c0843d90), UINT64_C(0xf723ca908e7af2ee),
        UINT64_C(0xa129ca6149be45e5),
    };
    uint8_t message[16];
    for (uint8_t i = 0; i < 16; i++) message[i] = i;
    for (size_t n = 0; n < 16; n++)
        if (pkv__siphash_bytes(key0, key1, 2, 4, message, n) != expected[n])
            fail_msg("length %zu", n);
}

/* The streaming 1-3 variant is what the prefix index uses; the byte version above is tied to the
 * vectors. On whole words and on every length of tail they have to agree. */
static void test_streaming_equals_bytes(void **state)
{
    (void)state;
    uint8_t message[127];
    for (size_t i = 0; i < sizeof message; i++) message[i] = (uint8_t)(i * 37 + 11);
    for (size_t n = 0; n <= sizeof message; n++) {
        struct pkv__siphash s;
        uint64_t word, tail = 0;
        pkv__siphash_init(&s, key0, key1);
        for (size_t i = 0; i < n / 8; i++) {
            word = 0;
            for (size_t j = 0; j < 8; j++) word |= (uint64_t)message[8 * i + j] << (8 * j);
            pkv__siphash_u64(&s, word);
        }
        for (size_t j = 0; j < n % 8; j++) tail |= (uint64_t)message[n / 8 * 8 + j] << (8 * j);
        assert_true(pkv__siphash_end(&s, tail, (unsigned)(n % 8)) ==
                    pkv__siphash_bytes(key0, key1, 1, 3, message, n));
    }
}

static void test_siphash_depends_on_key_and_rounds(void **state)
{
    (void)state;
    const uint64_t h = pkv__siphash_bytes(key0, key1, 1, 3, "x", 1);
    assert_true(h != pkv__siphash_bytes(key0 ^ 1, key1, 1, 3, "x", 1));
    assert_true(h != pkv__siphash_bytes(key0, key1 ^ 1, 1, 3, "x", 1));
    assert_true(h != pkv__siphash_bytes(key0, key1, 2, 4, "x", 1));
    assert_true(h != pkv__siphash_bytes(key0, key1, 1, 3, "x", 2)); /* a trailing zero counts */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256_vectors),
        cmocka_unit_test(test_sha256_million),
        cmocka_unit_test(test_siphash_2_4_vectors),
        cmocka_unit_test(test_streaming_equals_bytes),
        cmocka_unit_test(test_siphash_depends_on_key_and_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
