/* Texts and ids made by other programs: 47 texts for each of three vocabularies. Every text is
 * also decoded piece by piece. */
#include "tok_test.h"

#define SUITE "tokenizers/llamacpp-suite/ggml-vocab-"
#define BETWEEN "\n__ggml_vocab_test__\n"
#define N_TEXTS 47

static const uint8_t *find(const uint8_t *at, size_t n, const char *what)
{
    const size_t m = strlen(what);
    for (size_t k = 0; k + m <= n; k++)
        if (memcmp(at + k, what, m) == 0) return at + k;
    return NULL;
}

static void read_shared(const char *name, const char *end, bytes *out)
{
    char path[1024], whole[256];
    snprintf(whole, sizeof(whole), SUITE "%s.gguf%s", name, end);
    shared_path(whole, path, sizeof(path));
    read_bytes(path, out);
    put(out, "", 1);
    out->n--;
}

/* What a decoder of the whole text gives: an independent walk over the bytes by the table of
 * well-formed sequences, one U+FFFD for each maximal part. */
static void with_replacements(const bytes *raw, bytes *out)
{
    static const uint8_t table[][5] = {
        /* first, last lead; bounds of the second byte; bytes */
        { 0x00, 0x7F, 0, 0, 1 },       { 0xC2, 0xDF, 0x80, 0xBF, 2 }, { 0xE0, 0xE0, 0xA0, 0xBF, 3 },
        { 0xE1, 0xEC, 0x80, 0xBF, 3 }, { 0xED, 0xED, 0x80, 0x9F, 3 }, { 0xEE, 0xEF, 0x80, 0xBF, 3 },
        { 0xF0, 0xF0, 0x90, 0xBF, 4 }, { 0xF1, 0xF3, 0x80, 0xBF, 4 }, { 0xF4, 0xF4, 0x80, 0x8F, 4 },
    };
    for (size_t at = 0; at < raw->n;) {
        size_t good = 1, want = 0;
        for (size_t k = 0; k < PKV_ARRAY_LEN(table); k++) {
            if (raw->data[at] < table[k][0] || raw->data[at] > table[k][1]) continue;
            want = table[k][4];
            while (good < want && at + good < raw->n) {
                const uint8_t b = raw->data[at + good];
                if (b < (good == 1 ? table[k][2] : 0x80) || b > (good == 1 ? table[k][3] : 0xBF))
                    break;
                good++;
            }
        }
        if (good == want) put(out, raw->data + at, good);
        else put(out, "\xEF\xBF\xBD", 3);
        at += good;
    }
}

/* Streamed pieces joined are the joined bytes of the pieces, decoded at once. */
static void expect_streams(const pkv_tokenizer *t, const int32_t *ids, int32_t n, bool prefix)
{
    bytes raw = { 0 }, whole = { 0 }, streamed = { 0 };
    for (int32_t k = 0; k < n; k++) {
        const char *piece;
        int32_t n_piece;
        bool special;
        assert_int_equal(pkv_tokenizer_piece(t, ids[k], &piece, &n_piece, &special), PKV_OK);
        const int32_t from = prefix && k == 0 && n_piece > 0 && piece[0] == ' ';
        put(&raw, piece + from, (size_t)(n_piece - from));
    }
    with_replacements(&raw, &whole);
    text_of(t, ids, n, false, &streamed);
    assert_int_equal(streamed.n, whole.n);
    if (whole.n > 0) assert_memory_equal(streamed.data, whole.data, whole.n);
    bytes_free(&raw);
    bytes_free(&whole);
    bytes_free(&streamed);
}

static void check_text(const pkv_tokenizer *t, const uint8_t *text, size_t n, const char *line,
                       int number, bool is_spm)
{
    int32_t n_ids, k = 0;
    int32_t *ids = ids_of(t, text, n, 0, &n_ids);
    bytes back = { 0 };
    for (const char *at = line; *at && *at != '\n'; k++) {
        char *end;
        const long want = strtol(at, &end, 10);
        if (end == at) break;
        if (k >= n_ids || ids[k] != want)
            fail_msg("text %d, id %d: %d, expected %ld (%d ids)", number, k,
                     k < n_ids ? ids[k] : -1, want, n_ids);
        at = end;
    }
    if (k != n_ids) fail_msg("text %d: %d ids, expected %d", number, n_ids, k);
    text_of(t, ids, n_ids, false, &back);
    assert_int_equal(back.n, n);
    if (n > 0) assert_memory_equal(back.data, text, n);
    expect_streams(t, ids, n_ids, is_spm);
    for (int32_t from = 0; from < n_ids; from++) /* from the middle of characters too */
        expect_streams(t, ids + from, n_ids - from, is_spm);
    bytes_free(&back);
    free(ids);
}

static void check_suite(const char *suite, const char *vocabulary, const char *splitter)
{
    bytes texts = { 0 }, lines = { 0 };
    read_shared(suite, ".inp", &texts);
    read_shared(suite, ".out", &lines);
    pkv_tokenizer *t = open_shared(vocabulary, splitter, 0);
    pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
    assert_int_equal(pkv_tokenizer_get_info(t, &info), PKV_OK);
    const char *line = (const char *)lines.data;
    const uint8_t *at = texts.data, *end = texts.data + texts.n;
    int number = 0;
    for (; at; number++) { /* the last one is empty */
        const uint8_t *next = find(at, (size_t)(end - at), BETWEEN);
        check_text(t, at, (size_t)((next ? next : end) - at), line, number,
                   strcmp(info.kind, "spm") == 0);
        line = strchr(line, '\n');
        line = line ? line + 1 : "";
        at = next ? next + strlen(BETWEEN) : NULL;
    }
    assert_int_equal(number, N_TEXTS);
    pkv_tokenizer_close(t);
    bytes_free(&texts);
    bytes_free(&lines);
}

static void test_phi3(void **state)
{
    (void)state;
    check_suite("phi-3", SUITE "phi-3.gguf", NULL);
}

static void test_gpt2_from_gguf(void **state)
{
    (void)state;
    check_suite("gpt-2", SUITE "gpt-2.gguf", NULL);
}

static void test_gpt2_from_merges(void **state)
{
    (void)state;
    check_suite("gpt-2", "tokenizers/gpt2/vocab.bpe", NULL);
    check_suite("gpt-2", "tokenizers/gpt2/encoder.json", NULL);
    check_suite("gpt-2", "tokenizers/gpt2", NULL);
}

static void test_qwen2_from_tiktoken(void **state)
{
    (void)state;
    check_suite("qwen2", "tokenizers/qwen/qwen.tiktoken", "qwen2");
}

/* Equal pieces, specials and ids, whatever the file. */
static void expect_equal(const pkv_tokenizer *a, const pkv_tokenizer *b)
{
    pkv_tokenizer_info x = PKV_TOKENIZER_INFO_INIT, y = PKV_TOKENIZER_INFO_INIT;
    assert_int_equal(pkv_tokenizer_get_info(a, &x), PKV_OK);
    assert_int_equal(pkv_tokenizer_get_info(b, &y), PKV_OK);
    assert_int_equal(x.n_ids, y.n_ids);
    assert_int_equal(x.bos, y.bos);
    assert_int_equal(x.eos, y.eos);
    assert_int_equal(x.adds_bos, y.adds_bos);
    assert_int_equal(x.n_added, y.n_added);
    for (int32_t id = 0; id < x.n_ids; id++) {
        const char *p, *q;
        int32_t n, m;
        bool s, r;
        assert_int_equal(pkv_tokenizer_piece(a, id, &p, &n, &s), PKV_OK);
        assert_int_equal(pkv_tokenizer_piece(b, id, &q, &m, &r), PKV_OK);
        if (n != m || memcmp(p, q, (size_t)n) != 0 || s != r) fail_msg("piece %d differs", id);
    }
}

/* Equal ids over a book. */
static void expect_equal_ids(const pkv_tokenizer *a, const pkv_tokenizer *b)
{
    char path[1024];
    bytes book = { 0 };
    int32_t n, m;
    shared_path("tokenizers/sentencepiece/botchan.txt", path, sizeof(path));
    read_bytes(path, &book);
    int32_t *x = ids_of(a, book.data, book.n, PKV_TOK_ADD_SPECIAL, &n);
    int32_t *y = ids_of(b, book.data, book.n, PKV_TOK_ADD_SPECIAL, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, (size_t)n * sizeof(*x));
    free(x);
    free(y);
    bytes_free(&book);
}

static void test_two_readers(void **state)
{
    (void)state;
    pkv_tokenizer *a = open_shared(SUITE "gpt-2.gguf", NULL, 0);
    pkv_tokenizer *b = open_shared("tokenizers/gpt2/vocab.bpe", NULL, 0);
    expect_equal(a, b);
    expect_equal_ids(a, b);
    pkv_tokenizer_close(a);
    pkv_tokenizer_close(b);
}

static void test_stories(void **state)
{
    (void)state;
    pkv_tokenizer *a = open_shared(STORIES "stories260K.gguf", NULL, 0);
    pkv_tokenizer *b = open_shared(STORIES "tok512.bin", NULL, 512);
    expect_equal(a, b);
    expect_equal_ids(a, b);
    /* "Once upon a time": golden.json's first ids, BOS before them. */
    EXPECT_IDS(b, "Once upon a time", PKV_TOK_ADD_SPECIAL, 1, 403, 407, 261, 378);
    pkv_tokenizer_close(a);
    pkv_tokenizer_close(b);
}

/* The published beginning of Mistral's vocabulary is Llama's: control tokens 0 to 2, then bytes. */
static void check_mistral(const char *name, int32_t n_ids, int32_t inst)
{
    pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
    pkv_tokenizer *t = open_shared(name, NULL, 0);
    assert_int_equal(pkv_tokenizer_get_info(t, &info), PKV_OK);
    assert_string_equal(info.kind, "spm");
    assert_string_equal(info.source, "sentencepiece");
    assert_string_equal(info.splitter, "none");
    assert_int_equal(info.n_ids, n_ids);
    assert_int_equal(info.bos, 1);
    assert_int_equal(info.eos, 2);
    assert_int_equal(info.unk, 0);
    assert_true(info.adds_bos);
    if (inst >= 0) {
        int32_t id;
        assert_int_equal(pkv_tokenizer_find(t, "[INST]", 6, &id), PKV_OK);
        assert_int_equal(id, inst);
        int32_t n;
        int32_t *ids = ids_of(t, "[INST]a", 7, PKV_TOK_PARSE_SPECIAL, &n);
        assert_int_equal(n, 2);
        assert_int_equal(ids[0], inst);
        free(ids);
        ids = ids_of(t, "[INST]a", 7, 0, &n);
        assert_int_not_equal(ids[0], inst);
        free(ids);
    }
    pkv_tokenizer_close(t);
}

/* Ids by sentencepiece 0.2.3 (the Python package). */
static void expect_hello(const char *name, int32_t hello, int32_t world)
{
    pkv_tokenizer *t = open_shared(name, NULL, 0);
    EXPECT_IDS(t, "Hello world", PKV_TOK_ADD_SPECIAL, 1, hello, world);
    pkv_tokenizer_close(t);
}

static void test_mistral(void **state)
{
    (void)state;
    expect_hello("tokenizers/mistral/tokenizer.model.v1", 22557, 1526);
    expect_hello("tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3", 23325, 2294);
    check_mistral("tokenizers/mistral/tokenizer.model.v1", 32000, -1);
    check_mistral("tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3", 32768, 3);
}

static void test_unigram(void **state)
{
    char path[1024];
    bytes b = { 0 };
    (void)state;
    shared_path("tokenizers/sentencepiece/test_model.model", path, sizeof(path));
    read_bytes(path, &b);
    expect_tok_refused(&b, "test_model.model", NULL, 0, PKV_E_UNSUPPORTED, "unigram");
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phi3),
        cmocka_unit_test(test_gpt2_from_gguf),
        cmocka_unit_test(test_gpt2_from_merges),
        cmocka_unit_test(test_qwen2_from_tiktoken),
        cmocka_unit_test(test_two_readers),
        cmocka_unit_test(test_stories),
        cmocka_unit_test(test_mistral),
        cmocka_unit_test(test_unigram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
