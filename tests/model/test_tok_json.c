/* tokenizer.json: GPT-2's vocabulary written as one gives GPT-2's ids; small ones by hand; what is
 * not offered is refused by name. */
#include "tok_make.h"

#define SPACE "\xE2\x96\x81"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

/* {"!":0, ...} of the 256 bytes and what follows. */
static void put_byte_vocab(bytes *b, const char *more)
{
    put_text(b, "{");
    for (int k = 0; k < 256; k++) {
        char text[3], line[32];
        printable(k, text);
        snprintf(line, sizeof(line), "\"%s%s\":%d,", text[0] == '"' || text[0] == '\\' ? "\\" : "",
                 text, k);
        put_text(b, line);
    }
    put_text(b, more);
    put_text(b, "}");
}

/* A byte-level file; `rest` begins with a comma or is empty. */
static void make_json(bytes *b, const char *vocab, const char *merges, const char *model,
                      const char *rest)
{
    b->n = 0;
    put_text(b, "{\"model\":{\"type\":\"BPE\",\"vocab\":");
    put_byte_vocab(b, vocab);
    put_text(b, ",\"merges\":");
    put_text(b, merges);
    put_text(b, model);
    put_text(b, "}");
    put_text(b, rest);
    put_text(b, "}");
}
#define PRE ",\"pre_tokenizer\":" BYTE_LEVEL

static void test_byte_level(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_json(&b, "\"ab\":256,\"abc\":257,\"abcd\":258", "[\"a b\",[\"ab\",\"c\"]]", "", PRE);
    pkv_tokenizer *t = open_bytes(&b, "tokenizer.json", NULL);
    EXPECT_IDS(t, "abcd ab", 0, 257, 'd', ' ', 256);
    pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
    assert_int_equal(pkv_tokenizer_get_info(t, &info), PKV_OK);
    assert_string_equal(info.source, "tokenizer.json");
    assert_string_equal(info.splitter, "gpt2");
    assert_int_equal(info.bos, -1);
    assert_false(info.adds_bos);
    pkv_tokenizer_close(t);
    make_json(&b, "\"ab\":256,\"abcd\":257", "[\"a b\"]", ",\"ignore_merges\":true", PRE);
    t = open_bytes(&b, "tokenizer.json", NULL);
    EXPECT_IDS(t, "abcd", 0, 257);
    EXPECT_IDS(t, "abc", 0, 256, 'c');
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

#define TOKEN(id, text, special, more)                                                             \
    "{\"id\":" id ",\"content\":\"" text "\",\"special\":" special more "}"

static void test_added(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_json(&b, "\"ab\":256,\"<s>\":257", "[\"a b\"]", "",
              PRE ",\"added_tokens\":[" TOKEN("257", "<s>", "true", "") "," TOKEN(
                  "258", "<ab>", "false",
                  ",\"lstrip\":true,\"rstrip\":true") "," TOKEN("259", "<ab>>", "false",
                                                                "") "," TOKEN("260", "wo", "false",
                                                                              ",\"single_word\":"
                                                                              "true") "]"
                                                                                      ",\"post_"
                                                                                      "processor\":"
                                                                                      "{\"type\":"
                                                                                      "\"TemplatePr"
                                                                                      "ocessing\","
                                                                                      "\"single\":["
                                                                                      "{\"SpecialTo"
                                                                                      "ken\":{"
                                                                                      "\"id\":\"<s>"
                                                                                      "\"}},{"
                                                                                      "\"Sequence\""
                                                                                      ":{\"id\":"
                                                                                      "\"A\"}}],"
                                                                                      "\"special_"
                                                                                      "tokens\":{"
                                                                                      "\"<s>\":{"
                                                                                      "\"ids\":["
                                                                                      "257]}}}");
    pkv_tokenizer *t = open_bytes(&b, "tokenizer.json", NULL);
    EXPECT_IDS(t, "x", PKV_TOK_ADD_SPECIAL, 257, 'x');
    EXPECT_IDS(t, "<s>", 0, '<', 's', '>');
    EXPECT_IDS(t, "<s>x", PKV_TOK_PARSE_SPECIAL, 257, 'x');
    EXPECT_IDS(t, "a \n<ab> \t b", 0, 'a', 258, 'b');
    EXPECT_IDS(t, "<ab>>", 0, 259); /* the longest */
    EXPECT_IDS(t, "wo", 0, 260);
    EXPECT_IDS(t, "two wo.", 0, 't', 'w', 'o', ' ', 260, '.');
    EXPECT_IDS(t, "wo_", 0, 'w', 'o', '_');
    EXPECT_IDS(t, "wo\xCC\x81", 0, 'w', 'o', 0xCC, 0x81); /* a mark belongs to the word */
    EXPECT_IDS(t, "wo\xC2\xBD", 0, 260, 0xC2, 0xBD);      /* a half does not */
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

/* The expression is none of the known ones: two letters at a time. */
static void test_pattern(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_json(&b, "\"ab\":256,\"bb\":257", "[\"b b\",\"a b\"]", "",
              ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
              "\"pattern\":{\"Regex\":\"[ab]{2}\"},\"behavior\":\"Isolated\",\"invert\":false},"
              "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}");
    pkv_tokenizer *t = open_bytes(&b, "tokenizer.json", NULL);
    EXPECT_IDS(t, "abbb", 0, 256, 257);
    EXPECT_IDS(t, "xabbx", 0, 'x', 256, 'b', 'x');
    EXPECT_IDS(t,
               "ab\xFF"
               "bb",
               0, 256, 0xFF, 257);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

static void test_normal_form(void **state)
{
    bytes b = { 0 };
    (void)state;
    make_json(&b, "\"ab\":256", "[]", "", PRE ",\"normalizer\":{\"type\":\"NFC\"}");
    pkv_tokenizer *t = open_bytes(&b, "tokenizer.json", NULL);
    EXPECT_IDS(t, "e\xCC\x81\xFF", 0, 0xC3, 0xA9, 0xFF);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

/* Characters merged in the order of the list; bytes for what is missing. */
static void test_spm(void **state)
{
    bytes b = { 0 };
    (void)state;
    put_text(&b,
             "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
             "\"prepend\":\"" SPACE "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
             "\"content\":\"" SPACE "\"}]},\"added_tokens\":[" TOKEN(
                 "0", "<unk>", "true",
                 "") "],"
                     "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"<unk>\","
                     "\"vocab\":{\"<unk>\":0,");
    for (int k = 0; k < 256; k++) {
        char line[32];
        snprintf(line, sizeof(line), "\"<0x%02X>\":%d,", (unsigned)k, k + 1);
        put_text(&b, line);
    }
    put_text(&b, "\"" SPACE "\":257,\"a\":258,\"b\":259,\"" SPACE "a\":260,\"ab\":261},"
                 "\"merges\":[\"a b\",\"" SPACE " a\"]}}");
    pkv_tokenizer *t = open_bytes(&b, "tokenizer.json", NULL);
    EXPECT_IDS(t, "ab", 0, 257, 261);
    EXPECT_IDS(t, "a b", 0, 260, 257, 259);
    EXPECT_IDS(t, "c", 0, 257, 1 + 'c');
    pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
    assert_int_equal(pkv_tokenizer_get_info(t, &info), PKV_OK);
    assert_string_equal(info.kind, "spm");
    assert_int_equal(info.unk, 0);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

static void refuse(bytes *b, pkv_status want, const char *says)
{
    expect_tok_refused(b, "tokenizer.json", NULL, 0, want, says);
}

static void test_refused(void **state)
{
    bytes b = { 0 };
    (void)state;
    const struct {
        const char *vocab, *merges, *model, *rest, *says;
        pkv_status status;
    } cases[] = {
        { "\"ab\":256", "[\"a b\"]", "", "", "ByteLevel", PKV_E_UNSUPPORTED },
        { "\"ab\":256", "[\"a c\"]", "", PRE, "merges: 0", PKV_E_FORMAT },
        { "\"ab\":256", "[\"a b\",\"a b\"]", "", PRE, "merges: 1", PKV_E_FORMAT },
        { "\"ab\":256", "[\"ab\"]", "", PRE, "merges: 0", PKV_E_FORMAT },
        { "\"ab\":256", "[7]", "", PRE, "merges: 0", PKV_E_FORMAT },
        { "\"ab\":255", "[]", "", PRE, "twice", PKV_E_FORMAT },
        { "\"ab\":-1", "[]", "", PRE, "vocab", PKV_E_FORMAT },
        { "\"ab\":2000000000", "[]", "", PRE, "vocab", PKV_E_FORMAT },
        { "\"ab\":1e2", "[]", "", PRE, "vocab", PKV_E_FORMAT },
        { "\"ab\":256", "{}", "", PRE, "merges", PKV_E_FORMAT },
        { "\"ab\":256", "[]", ",\"unk_token\":\"z9\"", PRE, "unk_token", PKV_E_FORMAT },
        { "\"ab\":256", "[]", ",\"end_of_word_suffix\":\"w\"", PRE, "end_of_word",
          PKV_E_UNSUPPORTED },
        { "\"ab\":256", "[]", ",\"dropout\":0.1", PRE, "dropout", PKV_E_UNSUPPORTED },
        { "\"ab\":256", "[]", "", PRE ",\"normalizer\":{\"type\":\"Lowercase\"}", "Lowercase",
          PKV_E_UNSUPPORTED },
        { "\"ab\":256", "[]", "", PRE ",\"normalizer\":{}", "without type", PKV_E_FORMAT },
        { "\"ab\":256", "[]", "", ",\"pre_tokenizer\":{\"type\":\"Whitespace\"}", "Whitespace",
          PKV_E_UNSUPPORTED },
        { "\"ab\":256", "[]", "", PRE ",\"post_processor\":{\"type\":\"BertProcessing\"}",
          "BertProcessing", PKV_E_UNSUPPORTED },
        { "\"ab\":256", "[]", "", PRE ",\"added_tokens\":[{\"id\":1}]", "content", PKV_E_FORMAT },
        { "\"ab\":256", "[]", "", PRE ",\"added_tokens\":[" TOKEN("257", "ab", "false", "") "]",
          "another id", PKV_E_FORMAT },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        make_json(&b, cases[k].vocab, cases[k].merges, cases[k].model, cases[k].rest);
        refuse(&b, cases[k].status, cases[k].says);
    }
    static const char *const models[] = { "Unigram", "WordPiece", "WordLevel" };
    for (size_t k = 0; k < PKV_ARRAY_LEN(models); k++) {
        b.n = 0;
        put_text(&b, "{\"model\":{\"type\":\"");
        put_text(&b, models[k]);
        put_text(&b, "\",\"vocab\":[]}}");
        refuse(&b, PKV_E_UNSUPPORTED, models[k]);
    }
    b.n = 0;
    put_text(&b, "{\"a\":1}");
    refuse(&b, PKV_E_FORMAT, "model");
    bytes_free(&b);
}

/* ---------------------------------------------------------------- GPT-2 */

/* vocab.bpe and encoder.json as one tokenizer.json; the splitter is given. */
static void make_gpt2(bytes *out, const char *pre)
{
    char path[1024];
    bytes merges = { 0 }, encoder = { 0 };
    shared_path("tokenizers/gpt2/vocab.bpe", path, sizeof(path));
    read_bytes(path, &merges);
    shared_path("tokenizers/gpt2/encoder.json", path, sizeof(path));
    read_bytes(path, &encoder);
    put_text(out, "{\"added_tokens\":[" TOKEN("50256", "<|endoftext|>", "true", "") "],");
    put_text(out, "\"pre_tokenizer\":");
    put_text(out, pre);
    put_text(out, ",\"model\":{\"type\":\"BPE\",\"vocab\":");
    put(out, encoder.data, encoder.n);
    put_text(out, ",\"merges\":[");
    size_t k = 0;
    for (; merges.data[k] != '\n'; k++) {}
    bool first = true;
    for (k++; k < merges.n; k++) {
        put_text(out, first ? "\"" : ",\"");
        for (; k < merges.n && merges.data[k] != '\n'; k++) {
            const char c = (char)merges.data[k];
            if (c == '"' || c == '\\') put_text(out, "\\");
            put(out, &c, 1);
        }
        put_text(out, "\"");
        first = false;
    }
    put_text(out, "]}}");
    bytes_free(&merges);
    bytes_free(&encoder);
}

static void expect_same_ids(const pkv_tokenizer *a, const pkv_tokenizer *b, const char *name)
{
    char path[1024];
    bytes text = { 0 };
    int32_t n, m;
    shared_path(name, path, sizeof(path));
    read_bytes(path, &text);
    int32_t *x = ids_of(a, text.data, text.n, 0, &n), *y = ids_of(b, text.data, text.n, 0, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, (size_t)n * sizeof(*x));
    free(x);
    free(y);
    bytes_free(&text);
}

static void test_gpt2(void **state)
{
    static const char *const pres[] = {
        BYTE_LEVEL,
        "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"(?:'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|"
        "\\\\s+(?!\\\\S)|\\\\s+)\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
    };
    static const char *const kinds[] = { "gpt2", "pattern" };
    (void)state;
    pkv_tokenizer *a = open_shared("tokenizers/gpt2", NULL, 0);
    for (int k = 0; k < 2; k++) {
        bytes b = { 0 };
        pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
        make_gpt2(&b, pres[k]);
        pkv_tokenizer *t = open_bytes(&b, "tokenizer.json", NULL);
        assert_int_equal(pkv_tokenizer_get_info(t, &info), PKV_OK);
        assert_string_equal(info.splitter, kinds[k]);
        assert_int_equal(info.n_ids, 50257);
        expect_same_ids(a, t, "tokenizers/sentencepiece/botchan.txt");
        expect_same_ids(a, t, "tokenizers/llamacpp-suite/ggml-vocab-gpt-2.gguf.inp");
        pkv_tokenizer_close(t);
        bytes_free(&b);
    }
    pkv_tokenizer_close(a);
}

/* ---------------------------------------------------------------- tokenizer_config.json */

#define NAMED                                                                                      \
    PRE ",\"added_tokens\":[" TOKEN("257", "<s>", "true", "") "," TOKEN("258", "</s>", "true",     \
                                                                        "") "]"
#define TEMPLATE                                                                                   \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"         \
    "\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":["       \
    "257]}}}"

typedef struct config_case {
    const char *rest, *config; /* of tokenizer.json; NULL: no second file */
    int32_t bos, eos;
    bool adds_bos, adds_eos;
    int n_lines; /* warnings */
} config_case;

static void test_config_beside(void **state)
{
    static const config_case cases[] = {
        { NAMED, NULL, -1, -1, false, false, 0 },
        { NAMED, "{}", -1, -1, false, false, 0 },
        { NAMED, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}", 257, 258, false, false, 0 },
        { NAMED, "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":null}", 257, -1, false, false,
          0 },
        { NAMED, "{\"bos_token\":\"<s>\",\"add_bos_token\":true}", 257, -1, true, false, 0 },
        { NAMED, "{\"eos_token\":\"</s>\",\"add_eos_token\":true,\"add_bos_token\":false}", -1, 258,
          false, true, 0 },
        { NAMED, "{\"bos_token\":\"<none>\",\"eos_token\":\"ab\"}", -1, 256, false, false, 1 },
        /* what a template puts in front stays, unless it is said not to be put there */
        { NAMED TEMPLATE, "{\"eos_token\":\"</s>\"}", 257, 258, true, false, 0 },
        { NAMED TEMPLATE, "{\"bos_token\":\"</s>\"}", 257, -1, true, false, 0 },
        { NAMED TEMPLATE, "{\"add_bos_token\":null}", 257, -1, true, false, 0 },
        { NAMED TEMPLATE, "{\"add_bos_token\":false}", 257, -1, false, false, 0 },
        { NAMED TEMPLATE, "{\"bos_token\":\"</s>\",\"add_bos_token\":true}", 258, -1, true, false,
          0 },
    };
    char folder[512];
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        const config_case *c = &cases[k];
        bytes b = { 0 };
        last_log log;
        pkv_tokenizer *t = NULL;
        pkv_tokenizer_info info = PKV_TOKENIZER_INFO_INIT;
        pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
        scratch_folder(folder, sizeof(folder));
        make_json(&b, "\"ab\":256", "[\"a b\"]", "", c->rest);
        write_bytes(folder, "tokenizer.json", b.data, b.n);
        if (c->config) write_bytes(folder, "tokenizer_config.json", c->config, strlen(c->config));
        cfg.path = folder;
        cfg.log = log_to(&log);
        if (pkv_tokenizer_open(&cfg, &t) != PKV_OK) fail_msg("case %zu: %s", k, log.text);
        assert_int_equal(pkv_tokenizer_get_info(t, &info), PKV_OK);
        if (info.bos != c->bos || info.eos != c->eos || info.adds_bos != c->adds_bos ||
            info.adds_eos != c->adds_eos || log.n_lines != c->n_lines)
            fail_msg("case %zu: bos %d, eos %d, %d lines: %s", k, info.bos, info.eos, log.n_lines,
                     log.text);
        if (c->adds_bos) EXPECT_IDS(t, "x", PKV_TOK_ADD_SPECIAL, c->bos, 'x');
        if (c->adds_eos) EXPECT_IDS(t, "x", PKV_TOK_ADD_SPECIAL, 'x', c->eos);
        pkv_tokenizer_close(t);
        bytes_free(&b);
        scratch_remove(folder);
    }
}

static void test_config_refused(void **state)
{
    static const struct {
        const char *config, *says;
    } bad[] = {
        { "{", "byte " },
        { "[]", "no JSON object" },
        { "{\"bos_token\":1}", "bos_token: neither a text" },
        { "{\"eos_token\":{\"content\":1}}", "eos_token: neither a text" },
        { "{\"add_bos_token\":\"yes\"}", "add_bos_token: no truth value" },
        { "{\"add_eos_token\":true}", "add_eos_token: true, and there is no such token" },
    };
    char folder[512], path[1024];
    bytes b = { 0 };
    (void)state;
    scratch_folder(folder, sizeof(folder));
    make_json(&b, "\"ab\":256", "[\"a b\"]", "", NAMED);
    write_bytes(folder, "tokenizer.json", b.data, b.n);
    snprintf(path, sizeof(path), "%s/tokenizer.json", folder);
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        last_log log;
        pkv_tokenizer *t = NULL;
        pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
        write_bytes(folder, "tokenizer_config.json", bad[k].config, strlen(bad[k].config));
        cfg.path = path;
        cfg.log = log_to(&log);
        assert_int_equal(pkv_tokenizer_open(&cfg, &t), PKV_E_FORMAT);
        assert_null(t);
        if (strncmp(log.text, "tokenizer_config.json: byte ", 28) != 0 ||
            !strstr(log.text, bad[k].says))
            fail_msg("%s: %s", bad[k].config, log.text);
    }
    write_bytes(folder, "tokenizer_config.json", "{\"bos_token\":\"<s>\"}", 19);
    for (long fail_at = 0;; fail_at++) {
        counted_memory memory;
        pkv_tokenizer *t = NULL;
        pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
        cfg.path = path;
        cfg.alloc = count_memory(&memory, fail_at);
        const pkv_status status = pkv_tokenizer_open(&cfg, &t);
        pkv_tokenizer_close(t);
        assert_int_equal(memory.n_live, 0);
        if (status == PKV_OK) break;
        assert_int_equal(status, PKV_E_NO_MEMORY);
    }
    bytes_free(&b);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_byte_level),
        cmocka_unit_test(test_added),
        cmocka_unit_test(test_pattern),
        cmocka_unit_test(test_normal_form),
        cmocka_unit_test(test_spm),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_config_beside),
        cmocka_unit_test(test_config_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
