/* Malformed tokenizer files of every format: cut short at every byte, bytes changed one by one, and
 * lies about counts, lengths and ids. A refusal says where. */
#include "tok_make.h"

/* Opens as any file may: done, or refused with a reason and, if it is malformed, a place. */
static pkv_status open_any(const void *data, size_t n, const char *name, const char *splitter,
                           int32_t vocab_size, last_log *log)
{
    pkv_tokenizer *t = NULL;
    counted_memory m;
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    cfg.alloc = count_memory(&m, -1);
    cfg.splitter = splitter;
    cfg.vocab_size = vocab_size;
    cfg.log = log_to(log);
    const pkv_status status = pkv__tokenizer_open_memory(&cfg, name, data, n, NULL, 0, &t);
    if (status == PKV_OK) {
        int32_t ids[32], got;
        assert_int_equal(
            pkv_tokenizer_encode(t, "ab <s>\xFF hello", 13, PKV_TOK_PARSE_SPECIAL, ids, 32, &got),
            PKV_OK);
        pkv_tokenizer_close(t);
    } else {
        if (status != PKV_E_FORMAT && status != PKV_E_UNSUPPORTED)
            fail_msg("%s of %zu bytes: %s", name, n, pkv_status_name(status));
        assert_int_equal(log->n_lines, 1);
        if (status == PKV_E_FORMAT && !strstr(log->text, ": byte ") &&
            !strstr(log->text, ": line "))
            fail_msg("no place: %s", log->text);
    }
    assert_int_equal(m.n_live, 0);
    assert_true(m.peak_bytes < 64 * n + 65536);
    return status;
}

/* Every length up to the whole; returns how many opened. */
static size_t cut(const bytes *b, const char *name, const char *splitter, int32_t vocab_size)
{
    size_t n_good = 0;
    last_log log;
    for (size_t n = 0; n < b->n; n++) {
        uint8_t *part = malloc(n + 1); /* of its own, so that a read behind it is seen */
        assert_non_null(part);
        memcpy(part, b->data, n);
        n_good += open_any(part, n, name, splitter, vocab_size, &log) == PKV_OK;
        free(part);
    }
    return n_good;
}

static void change(const bytes *b, const char *name, const char *splitter, int32_t vocab_size)
{
    static const uint8_t values[] = { 0x00, 0x80, 0xFF };
    last_log log;
    for (size_t k = 0; k < b->n; k++) {
        const uint8_t was = b->data[k];
        b->data[k] = values[k % 3];
        open_any(b->data, b->n, name, splitter, vocab_size, &log);
        b->data[k] = (uint8_t)(was ^ 1U << (k & 7));
        open_any(b->data, b->n, name, splitter, vocab_size, &log);
        b->data[k] = was;
    }
}

static void test_spm(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_spm(&b);
    assert_int_equal(cut(&b, "a.model", NULL, 0), 0); /* its settings come last */
    change(&b, "a.model", NULL, 0);
    bytes_free(&b);
}

static void test_tiktoken(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_tiktoken(&b);
    const size_t whole = b.n;
    /* Behind the bytes, at the end of a line or before it, or within the digits of a rank that is
     * then still a new one. */
    const size_t n_good = cut(&b, "a.tiktoken", "none", 0);
    assert_true(n_good >= 9 && n_good <= 12);
    for (b.n = 0; b.data[b.n] != '\n'; b.n++) {}
    expect_tok_refused(&b, "a.tiktoken", "none", 0, PKV_E_FORMAT, "0x01");
    b.n = whole;
    change(&b, "a.tiktoken", "none", 0);
    bytes_free(&b);
}

static void test_llama2c(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_llama2c(&b);
    assert_int_equal(cut(&b, "a.bin", NULL, 263), 0);
    change(&b, "a.bin", NULL, 263);
    expect_tok_refused(&b, "a.bin", NULL, 0, PKV_E_INVALID_ARG, "vocab_size");
    expect_tok_refused(&b, "a.bin", NULL, 258, PKV_E_FORMAT, "258");
    expect_tok_refused(&b, "a.bin", NULL, 262, PKV_E_FORMAT, "left after 262");
    expect_tok_refused(&b, "a.bin", NULL, 264, PKV_E_FORMAT, "before piece 263");
    expect_tok_refused(&b, "a.bin", NULL, INT32_MAX, PKV_E_FORMAT, "before piece 263");
    memset(b.data + 8, 0xFF, 4); /* the length of piece 0 */
    expect_tok_refused(&b, "a.bin", NULL, 263, PKV_E_FORMAT, "byte 8: piece 0 of 4294967295");
    bytes_free(&b);
}

static void test_gguf(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_gguf_spm(&b);
    assert_int_equal(cut(&b, "a.gguf", NULL, 0), 0);
    change(&b, "a.gguf", NULL, 0);
    b.n = 0;
    make_gguf_bpe(&b, "gpt-2");
    assert_int_equal(cut(&b, "a.gguf", NULL, 0), 0);
    change(&b, "a.gguf", NULL, 0);
    b.n = 0;
    make_gguf_bpe(&b, NULL);
    expect_tok_refused(&b, "a.gguf", NULL, 0, PKV_E_UNSUPPORTED, "gpt2, llama3, qwen2");
    bytes_free(&b);
}

static void test_json(void **state)
{
    static const char text[] =
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1,\"b\":2,"
        "\"ab\":3},"
        "\"merges\":[\"a b\"]},\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"normalizer\":null,"
        "\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true}]}";
    bytes b = { 0 };
    (void)state;
    put_text(&b, text);
    last_log log;
    assert_int_equal(open_any(b.data, b.n, "tokenizer.json", NULL, 0, &log), PKV_OK);
    assert_int_equal(cut(&b, "tokenizer.json", NULL, 0), 0);
    change(&b, "tokenizer.json", NULL, 0);
    b.n = 0;
    put_text(&b, "{\"model\":");
    for (int k = 0; k < 100000; k++) put_text(&b, "[");
    assert_int_equal(open_any(b.data, b.n, "tokenizer.json", NULL, 0, &log), PKV_E_FORMAT);
    bytes_free(&b);
}

/* ---------------------------------------------------------------- single lies */

static void expect_spm(const bytes *b, pkv_status want, const char *says)
{
    expect_tok_refused(b, "a.model", NULL, 0, want, says);
}

static void test_spm_lies(void **state)
{
    static const uint8_t endless[] = { 0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                       0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01 };
    static const uint8_t huge[] = {
        0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01
    };
    bytes b = { 0 }, part = { 0 };
    (void)state;
    put(&b, endless, sizeof(endless));
    expect_spm(&b, PKV_E_FORMAT, "byte 1: a number of more than 64 bits");
    b.n = 0;
    put(&b, huge, sizeof(huge)); /* a length of 2^64 - 1, negative to some */
    expect_spm(&b, PKV_E_FORMAT, "byte 1: a field of 18446744073709551615 bytes");
    b.n = 0;
    put(&b,
        "\x0A\x05\x0A\x01"
        "a",
        5); /* as long as the file, longer than what is left */
    expect_spm(&b, PKV_E_FORMAT, "byte 1: a field of 5 bytes ends behind");
    b.n = 0;
    put(&b,
        "\x0A\x04\x0A\x03"
        "ab",
        6); /* a text behind its piece */
    expect_spm(&b, PKV_E_FORMAT, "byte 3: a field of 3 bytes ends behind");
    b.n = 0;
    put(&b, "\x0B", 1); /* a group */
    expect_spm(&b, PKV_E_FORMAT, "wire type 3");
    b.n = 0;
    put(&b, "\x02\x00", 2);
    expect_spm(&b, PKV_E_FORMAT, "field number");
    b.n = 0;
    put_number(&b, 1, 5);
    expect_spm(&b, PKV_E_FORMAT, "field 1 has wire type 0");
    b.n = 0;
    put_piece(&b, "a", 0, 7);
    expect_spm(&b, PKV_E_FORMAT, "type 7");
    b.n = 0;
    put_piece(&b, "a", NAN, 1);
    expect_spm(&b, PKV_E_FORMAT, "no number");
    b.n = 0;
    put_piece(&b, "", 0, 1);
    expect_spm(&b, PKV_E_FORMAT, "without text");
    b.n = 0;
    put_piece(&b, "<0xG0>", 0, 6);
    expect_spm(&b, PKV_E_FORMAT, "<0xNN>");
    b.n = 0;
    put_piece(&b, "<0x41>", 0, 6);
    put_piece(&b, "<0x41>", 0, 6);
    expect_spm(&b, PKV_E_FORMAT, "piece 1");
    static const char *const kinds[] = { "0", "unigram", "BPE", "word", "character" };
    for (int kind = 0; kind <= 4; kind++) {
        if (kind == 2) continue;
        b.n = 0;
        put_piece(&b, "a", 0, 2);
        put_settings(&b, kind);
        expect_spm(&b, PKV_E_UNSUPPORTED, kinds[kind]);
    }
    b.n = 0;
    make_spm(&b);
    put_number(&part, 41, 265);
    put_number(&part, 3, 2);
    put_field(&b, 2, part.data, part.n);
    expect_spm(&b, PKV_E_FORMAT, "begin id 265, of 265");
    bytes_free(&part);
    bytes_free(&b);
}

static void test_tiktoken_lies(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "IQ== 0\nIg== 0\n", "line 2: rank 0 comes twice" },
        { "IQ== 0\nIQ== 1\n", "pieces 0 and 1 are the same" },
        { "IQ== 0\n\nIg== \n", "line 3: no rank" },
        { "IQ== 0\nIg== -1\n", "line 2: no rank" },
        { "IQ== 0\nIg== 99999999999999999999\n", "line 2: no rank" },
        { "IQ== 0\nIg== 999999999\n", "line 2: rank 999999999" },
        { "IQ== 0\nIg= 1\n", "line 2: no base64" },
        { "IQ== 0\nI=g= 1\n", "line 2: no base64" },
        { "IQ== 0\nIg==1\n", "line 2: expected" },
    };
    bytes b = { 0 };
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        b.n = 0;
        put_text(&b, cases[k].text);
        expect_tok_refused(&b, "a.tiktoken", "none", 0, PKV_E_FORMAT, cases[k].says);
        expect_tok_refused(&b, "a.tiktoken", NULL, 0, PKV_E_UNSUPPORTED, "gpt2, llama3, qwen2");
    }
    bytes_free(&b);
}

static void test_gpt2_lies(void **state)
{
    static const struct {
        const char *merges, *encoder, *says;
    } cases[] = {
        { "", "[]", "encoder.json: byte 0" },
        { "", "{\"a\":", "encoder.json: byte " },
        { "", "{\"a\":\"b\"}", "entry 0" },
        { "", "{\"a\":0,\"b\":0}", "has the id of another" },
        { "", "{\"a\":1000000}", "entry 0" },
        { "", "{\"a\":0}", "no piece for byte" },
        { "#version: 0.2\na c\n", "{\"a\":0,\"b\":1,\"<|endoftext|>\":2}", "line 2" },
        { "a b\n", "{\"a\":0,\"b\":1,\"<|endoftext|>\":2}", "line 1" },
        { "ab\n", "{\"a\":0,\"b\":1,\"ab\":3,\"<|endoftext|>\":2}", "line 1" },
        { "a b\n\na b\n", "{\"a\":0,\"b\":1,\"ab\":3,\"<|endoftext|>\":2}", "line 3" },
        { "a \n", "{\"a\":0,\"<|endoftext|>\":2}", "line 1" },
    };
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        last_log log;
        pkv_tokenizer *t = NULL;
        pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
        cfg.log = log_to(&log);
        const pkv_status status =
            pkv__tokenizer_open_memory(&cfg, "vocab.bpe", cases[k].merges, strlen(cases[k].merges),
                                       cases[k].encoder, strlen(cases[k].encoder), &t);
        if (status != PKV_E_FORMAT || !strstr(log.text, cases[k].says))
            fail_msg("case %zu: %s, \"%s\", expected \"%s\"", k, pkv_status_name(status), log.text,
                     cases[k].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spm),           cmocka_unit_test(test_tiktoken),
        cmocka_unit_test(test_llama2c),       cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_json),          cmocka_unit_test(test_spm_lies),
        cmocka_unit_test(test_tiktoken_lies), cmocka_unit_test(test_gpt2_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
