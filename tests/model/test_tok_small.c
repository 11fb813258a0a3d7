/* Small vocabularies with ids worked out by hand, limits, streaming, memory that runs out. */
#include "tok_make.h"

#define BYTE(b) (3 + (b))

static pkv_tokenizer *small_spm(void)
{
    bytes b = { 0 };
    make_spm(&b);
    pkv_tokenizer *t = open_bytes(&b, "a.model", NULL);
    bytes_free(&b);
    return t;
}

static pkv_tokenizer *small_bpe(void)
{
    bytes b = { 0 };
    make_tiktoken(&b);
    pkv_tokenizer *t = open_bytes(&b, "a.tiktoken", "none");
    bytes_free(&b);
    return t;
}

/* U+2581 a (-0.4) merges before ab (-0.5); aa (-0.1) before both, the left one of two. */
static void check_spm(const pkv_tokenizer *t)
{
    EXPECT_IDS(t, "ab", 0, 262, 261);
    EXPECT_IDS(t, "aba", 0, 262, 261, 260);
    EXPECT_IDS(t, "b ab", 0, 259, 261, 262, 261);
    EXPECT_IDS(t, "bab", 0, 259, 261, 263);
    EXPECT_IDS(t, "aaa", 0, 259, 264, 260);
    EXPECT_IDS(t, " ", 0, 259, 259);
    EXPECT_IDS(t, "\xC3\xA9", 0, 259, BYTE(0xC3), BYTE(0xA9));
    EXPECT_IDS(t,
               "\xFF"
               "a\xE2\x96",
               0, 259, BYTE(0xFF), 260, BYTE(0xE2), BYTE(0x96));
    EXPECT_IDS(t, "a", PKV_TOK_ADD_SPECIAL, 1, 262);
    expect_ids(t, "", 0, NULL, 0);
    /* A name of a special token is text unless the caller says otherwise. */
    EXPECT_IDS(t, "<s>", 0, 259, BYTE('<'), BYTE('s'), BYTE('>'));
    EXPECT_IDS(t, "<s>", PKV_TOK_PARSE_SPECIAL, 1);
    EXPECT_IDS(t, "<s>ab", PKV_TOK_PARSE_SPECIAL, 1, 262, 261);
    EXPECT_IDS(t, "<s>ab</s>", PKV_TOK_PARSE_SPECIAL, 1, 262, 261, 2);
    EXPECT_IDS(t, "a<s", PKV_TOK_PARSE_SPECIAL, 262, BYTE('<'), BYTE('s'));
}

static void test_spm(void **state)
{
    bytes b = { 0 };
    (void)state;
    pkv_tokenizer *t = small_spm();
    check_spm(t);
    pkv_tokenizer_close(t);
    make_gguf_spm(&b);
    t = open_bytes(&b, "a.gguf", NULL);
    check_spm(t);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

static void test_bpe(void **state)
{
    (void)state;
    pkv_tokenizer *t = small_bpe();
    EXPECT_IDS(t, "hello", 0, 258, 'o');
    EXPECT_IDS(t, "hell", 0, 258);
    EXPECT_IDS(t, "aaa", 0, 259, 'a');
    EXPECT_IDS(t, "aaaaa", 0, 260, 'a');
    EXPECT_IDS(t, "hall\xFF", 0, 'h', 'a', 257, 0xFF);
    pkv_tokenizer_close(t);
}

static void test_gguf_bpe(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_gguf_bpe(&b, "gpt-2");
    pkv_tokenizer *t = open_bytes(&b, "a.gguf", NULL);
    EXPECT_IDS(t, "abab b", 0, 256, 256, ' ', 'b');
    EXPECT_IDS(t, "\xAD\x7F\xA0", 0, 0xAD, 0x7F, 0xA0);
    pkv_tokenizer_close(t);
    b.n = 0;
    make_gguf_bpe(&b, "martian");
    expect_tok_refused(&b, "a.gguf", NULL, 0, PKV_E_UNSUPPORTED, "martian");
    t = open_bytes(&b, "a.gguf", "qwen2");
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

/* A word of a million letters; merging that is quadratic would take hours. */
static void test_long_word(void **state)
{
    const size_t n = (size_t)1 << 20;
    char *text = malloc(n);
    int32_t n_ids;
    (void)state;
    assert_non_null(text);
    memset(text, 'a', n);
    pkv_tokenizer *bpe = small_bpe(), *spm = small_spm();
    int32_t *ids = ids_of(bpe, text, n, 0, &n_ids);
    assert_int_equal(n_ids, n / 4);
    for (int32_t k = 0; k < n_ids; k++) assert_int_equal(ids[k], 260);
    free(ids);
    ids = ids_of(spm, text, n, 0, &n_ids);
    assert_int_equal(n_ids, 1 + n / 2);
    assert_int_equal(ids[0], 259);
    for (int32_t k = 1; k < n_ids; k++) assert_int_equal(ids[k], 264);
    free(ids);
    pkv_tokenizer_close(bpe);
    pkv_tokenizer_close(spm);
    free(text);
}

/* ---------------------------------------------------------------- contracts */

static void test_limits(void **state)
{
    int32_t ids[4] = { -7, -7, -7, -7 }, n = -1, id;
    const char *piece;
    bool special;
    (void)state;
    pkv_tokenizer *t = small_bpe();
    assert_int_equal(pkv_tokenizer_encode(t, "hey", 3, 0, ids, 1, &n), PKV_E_LIMIT);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], -7);
    assert_int_equal(pkv_tokenizer_encode(t, "hey", 3, 0, NULL, 0, &n), PKV_E_LIMIT);
    assert_int_equal(pkv_tokenizer_encode(t, "hey", 3, 0, ids, 2, &n), PKV_OK);
    assert_int_equal(ids[2], -7);
    assert_int_equal(pkv_tokenizer_encode(t, NULL, 0, 0, NULL, 0, &n), PKV_OK);
    assert_int_equal(n, 0);
    assert_int_equal(pkv_tokenizer_encode(t, NULL, 1, 0, ids, 4, &n), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_tokenizer_encode(t, "a", 1, 4, ids, 4, &n), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_tokenizer_encode(t, "a", ((size_t)1 << 30) + 1, 0, ids, 4, &n),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_tokenizer_encode(t, "a", 1, 0, ids, -1, &n), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_tokenizer_piece(t, 261, &piece, &n, &special), PKV_E_RANGE);
    assert_int_equal(pkv_tokenizer_piece(t, -1, &piece, &n, &special), PKV_E_RANGE);
    assert_int_equal(pkv_tokenizer_find(t, "hell", 4, &id), PKV_OK);
    assert_int_equal(id, 258);
    assert_int_equal(pkv_tokenizer_find(t, "hel", 3, &id), PKV_E_RANGE);
    assert_int_equal(pkv_tokenizer_find(t, NULL, 0, &id), PKV_E_RANGE);
    pkv_tokenizer_close(t);
    pkv_tokenizer_close(NULL);
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    assert_int_equal(pkv_tokenizer_open(&cfg, &t), PKV_E_INVALID_ARG);
    cfg.path = "/nowhere/at/all";
    assert_int_equal(pkv_tokenizer_open(&cfg, &t), PKV_E_IO);
    cfg.splitter = "martian";
    assert_int_equal(pkv_tokenizer_open(&cfg, &t), PKV_E_UNSUPPORTED);
    cfg.struct_size--;
    assert_int_equal(pkv_tokenizer_open(&cfg, &t), PKV_E_ABI);
}

static void test_find_spm(void **state)
{
    int32_t id;
    const struct {
        const char *text;
        int32_t id;
    } cases[] = { { " a", 262 }, { "<s>", 1 }, { "<unk>", 0 }, { "c", BYTE('c') }, { "a", 260 } };
    (void)state;
    pkv_tokenizer *t = small_spm();
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        const int32_t n = (int32_t)strlen(cases[k].text);
        assert_int_equal(pkv_tokenizer_find(t, cases[k].text, n, &id), PKV_OK);
        assert_int_equal(id, cases[k].id);
    }
    pkv_tokenizer_close(t);
}

static void expect_text(const pkv_tokenizer *t, bool skip, const int32_t *ids, int32_t n,
                        const char *want)
{
    bytes out = { 0 };
    text_of(t, ids, n, skip, &out);
    put(&out, "", 1);
    assert_string_equal((const char *)out.data, want);
    bytes_free(&out);
}
#define EXPECT_TEXT(t, skip, want, ...)                                                            \
    do {                                                                                           \
        const int32_t ids_[] = { __VA_ARGS__ };                                                    \
        expect_text(t, skip, ids_, (int32_t)PKV_ARRAY_LEN(ids_), want);                            \
    } while (0)
#define BAD "\xEF\xBF\xBD"

static void test_streaming(void **state)
{
    (void)state;
    pkv_tokenizer *t = small_spm();
    EXPECT_TEXT(t, false, "ab", 262, 261);
    EXPECT_TEXT(t, true, "ab", 1, 262, 261, 2);
    EXPECT_TEXT(t, false, "<s>a</s>", 1, 262, 2);
    EXPECT_TEXT(t, false, "a a", 260, 262);
    EXPECT_TEXT(t, false, " a", BYTE(' '), 260);
    EXPECT_TEXT(t, false, "\xF0\x9F\xA6\x99", BYTE(0xF0), BYTE(0x9F), BYTE(0xA6), BYTE(0x99));
    EXPECT_TEXT(t, false, BAD "a", BYTE(0xF0), BYTE(0x9F), BYTE(0xA6), 260);
    EXPECT_TEXT(t, false, BAD, BYTE(0xF0), BYTE(0x9F), BYTE(0xA6));
    EXPECT_TEXT(t, false, BAD BAD, BYTE(0xC3), BYTE(0xC3));
    EXPECT_TEXT(t, false, BAD BAD BAD, BYTE(0xED), BYTE(0xA0), BYTE(0x80)); /* a surrogate */
    EXPECT_TEXT(t, false, BAD BAD, BYTE(0xC0), BYTE(0xAF));                 /* overlong */
    EXPECT_TEXT(t, true, "\xC3\xA9", BYTE(0xC3), 1, BYTE(0xA9));
    EXPECT_TEXT(t, false, BAD "<s>" BAD, BYTE(0xC3), 1, BYTE(0xA9));
    pkv_tokenizer_close(t);
}

static void test_detok_limits(void **state)
{
    char out[16];
    int32_t n;
    pkv_detok d, before;
    (void)state;
    pkv_tokenizer *t = small_bpe();
    pkv_detok_init(&d, t, false);
    assert_int_equal(pkv_detok_put(&d, 0xC3, out, 0, &n), PKV_OK);
    assert_int_equal(n, 0);
    before = d;
    assert_int_equal(pkv_detok_put(&d, 258, out, 6, &n), PKV_E_LIMIT);
    assert_int_equal(n, 7);
    assert_memory_equal(&d, &before, sizeof(d));
    assert_int_equal(pkv_detok_put(&d, 261, out, 16, &n), PKV_E_RANGE);
    assert_int_equal(pkv_detok_flush(&d, out, 2, &n), PKV_E_LIMIT);
    assert_int_equal(n, 3);
    assert_int_equal(pkv_detok_put(&d, 258, out, 7, &n), PKV_OK);
    assert_memory_equal(out, BAD "hell", 7);
    assert_int_equal(pkv_detok_flush(&d, NULL, 0, &n), PKV_OK);
    assert_int_equal(n, 0);
    pkv_tokenizer_close(t);
}

/* Any bytes survive byte-level encoding: the pieces joined are the text. */
static void test_any_bytes(void **state)
{
    static const char *const splitters[] = { "gpt2", "llama3", "qwen2", "none" };
    bytes b = { 0 };
    uint32_t seed = 20260731;
    (void)state;
    make_tiktoken(&b);
    for (size_t s = 0; s < PKV_ARRAY_LEN(splitters); s++) {
        pkv_tokenizer *t = open_bytes(&b, "a.tiktoken", splitters[s]);
        for (int round = 0; round < 200; round++) {
            uint8_t text[64], back[64];
            int32_t n_ids;
            size_t n = 0;
            for (size_t k = 0; k < sizeof(text); k++) {
                seed = seed * 1664525U + 1013904223U;
                text[k] =
                    seed >> 31 ? (uint8_t) "ahel '\n1"[seed >> 26 & 7] : (uint8_t)(seed >> 20);
            }
            int32_t *ids = ids_of(t, text, sizeof(text), 0, &n_ids);
            for (int32_t k = 0; k < n_ids; k++) {
                const char *piece;
                int32_t bytes_of;
                bool special;
                assert_int_equal(pkv_tokenizer_piece(t, ids[k], &piece, &bytes_of, &special),
                                 PKV_OK);
                assert_true(n + (size_t)bytes_of <= sizeof(back));
                memcpy(back + n, piece, (size_t)bytes_of);
                n += (size_t)bytes_of;
            }
            assert_int_equal(n, sizeof(text));
            assert_memory_equal(back, text, n);
            free(ids);
        }
        pkv_tokenizer_close(t);
    }
    bytes_free(&b);
}

/* ---------------------------------------------------------------- memory */

static void starve(const bytes *b, const char *name, const char *splitter, int32_t vocab_size)
{
    for (long fail_at = 0;; fail_at++) {
        counted_memory m;
        pkv_tokenizer *t = NULL;
        int32_t ids[64], n;
        pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
        cfg.alloc = count_memory(&m, fail_at);
        cfg.splitter = splitter;
        cfg.vocab_size = vocab_size;
        pkv_status status = pkv__tokenizer_open_memory(&cfg, name, b->data, b->n, NULL, 0, &t);
        if (status == PKV_OK) {
            const long live = m.n_live;
            status =
                pkv_tokenizer_encode(t, "ab hello <s> aa", 15, PKV_TOK_PARSE_SPECIAL, ids, 64, &n);
            assert_int_equal(m.n_live, live);
        } else {
            assert_null(t);
        }
        pkv_tokenizer_close(t);
        assert_int_equal(m.n_live, 0);
        if (status == PKV_OK) return;
        assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_true(fail_at < 10000);
    }
}

static void test_starved(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_spm(&b);
    starve(&b, "a.model", NULL, 0);
    b.n = 0;
    make_tiktoken(&b);
    starve(&b, "a.tiktoken", "gpt2", 0);
    b.n = 0;
    make_llama2c(&b);
    starve(&b, "a.bin", NULL, 263);
    b.n = 0;
    make_gguf_bpe(&b, "gpt-2");
    starve(&b, "a.gguf", NULL, 0);
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spm),       cmocka_unit_test(test_bpe),
        cmocka_unit_test(test_gguf_bpe),  cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_find_spm),
        cmocka_unit_test(test_streaming), cmocka_unit_test(test_detok_limits),
        cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
