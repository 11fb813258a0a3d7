/* The hand-written splitters: cuts worked out by hand, and compared with the expressions they stand
 * for, run by PCRE2 over random texts of difficult characters. */
#include "tok_test.h"

#include "model/pretok_pattern.h"

#define NEWER(numbers)                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                          \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const struct {
    pkv__splitter splitter;
    const char *expression;
} all[] = {
    { PKV__SPLIT_GPT2,
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
    { PKV__SPLIT_LLAMA3, NEWER("\\p{N}{1,3}") },
    { PKV__SPLIT_QWEN2, NEWER("\\p{N}") },
};

/* Words between bars. */
static void expect_words(pkv__splitter s, const char *barred)
{
    uint8_t text[256], got[512];
    size_t n = 0, m = 0;
    for (const char *p = barred; *p; p++)
        if (*p != '|') text[n++] = (uint8_t)*p;
    for (size_t at = 0, end; at < n; at = end) {
        end = pkv__split_next(s, text, n, at);
        assert_true(end > at && end <= n);
        if (m > 0) got[m++] = '|';
        memcpy(got + m, text + at, end - at);
        m += end - at;
    }
    got[m] = '\0';
    assert_string_equal((const char *)got, barred);
}

static void test_by_hand(void **state)
{
    (void)state;
    expect_words(PKV__SPLIT_GPT2, "I|'ve| | 2|x|\n\n| y");
    expect_words(PKV__SPLIT_GPT2, "I|'|VE| 12345|.");
    expect_words(PKV__SPLIT_GPT2, "a|\t|b|  ");
    expect_words(PKV__SPLIT_GPT2, " '|s|'s");
    expect_words(PKV__SPLIT_GPT2, "a|\xFF\xFE| b");
    expect_words(PKV__SPLIT_GPT2, "na\xC3\xAFve| \xC2\xBD|\xE2\x82\xAC");
    expect_words(PKV__SPLIT_LLAMA3, "I|'VE| |123|45| ab|\r\n\r\n| | x|!!\n");
    expect_words(PKV__SPLIT_LLAMA3, "(a|)| (|b|\n| c");
    expect_words(PKV__SPLIT_LLAMA3, "'\xC5\xBF|a");
    expect_words(PKV__SPLIT_QWEN2, "a|1|2|3|!\r\n\n|\t|1");
    expect_words(PKV__SPLIT_NONE, "a b 1 \n");
}

/* ---------------------------------------------------------------- against PCRE2 */

static pkv_status note_end(pkv__tok_work *w, const uint8_t *word, size_t n)
{
    (void)word;
    return pkv__work_id(w, (int32_t)n);
}

static void compare(const pkv__pattern *p, pkv__splitter s, const uint8_t *text, size_t n,
                    uint32_t seed)
{
    const pkv_tokenizer t = { 0 };
    pkv__tok_work w = { .tok = &t };
    size_t k = 0;
    assert_int_equal(pkv__pattern_words(p, &w, text, n, note_end), PKV_OK);
    for (size_t at = 0, end; at < n; at = end, k++) {
        end = pkv__split_next(s, text, n, at);
        if (k >= w.n_ids || (size_t)w.ids[k] != end - at)
            fail_msg("splitter %s, seed %u: word %zu at byte %zu has %zu bytes, expected %d",
                     pkv__splitter_name(s), seed, k, at, end - at, k < w.n_ids ? w.ids[k] : -1);
    }
    assert_int_equal(k, w.n_ids);
    pkv__work_free(&w);
}

/* Letters of all five kinds, marks, numbers of three kinds, spaces of many, signs. All are older
 * than PCRE2's tables. Not U+180E: PCRE2 counts it as a space, Unicode has not since 6.3. */
static const char *const chars[] = {
    "a",
    "S",
    "t",
    "E",
    "v",
    "m",
    "l",
    "d",
    "'",
    "'",
    "'",
    " ",
    " ",
    " ",
    "\n",
    "\r",
    "\t",
    "1",
    "2",
    "!",
    "_",
    "\xC5\xBF",
    "\xC3\xA9",
    "\xC7\x85",
    "\xCA\xB0",
    "\xE4\xB8\xAD",
    "\xCC\x81",
    "\xC2\xBD",
    "\xE2\x85\xA3",
    "\xD9\xA3",
    "\xC2\xA0",
    "\xC2\x85",
    "\xE3\x80\x80",
    "\xE2\x80\xA8",
    "\xE2\x80\x8B",
    "\xF0\x9F\xA6\x99",
    "\xE2\x84\xAA",
    "\x0B",
    "\x1C",
};

static void test_against_expressions(void **state)
{
    (void)state;
    for (size_t s = 0; s < PKV_ARRAY_LEN(all); s++) {
        pkv__pattern *p;
        const pkv_tokenizer t = { .name = "test" };
        assert_int_equal(pkv__pattern_create(&t, all[s].expression, strlen(all[s].expression), &p),
                         PKV_OK);
        for (uint32_t first = 1; first <= 3000; first++) {
            uint8_t text[160];
            size_t n = 0;
            uint32_t seed = first * 2654435761U;
            for (int k = 0; k < 24; k++) {
                seed = seed * 1664525U + 1013904223U;
                const char *c = chars[(seed >> 12) % PKV_ARRAY_LEN(chars)];
                memcpy(text + n, c, strlen(c));
                n += strlen(c);
            }
            compare(p, all[s].splitter, text, n, first);
        }
        pkv__pattern_destroy(p);
    }
}

/* An expression that takes for ever: the rest is one word, soon. */
static void test_hostile_expression(void **state)
{
    static const char expression[] = "(a+)+$|x";
    uint8_t text[4000];
    const pkv_tokenizer t = { .name = "test" };
    pkv__tok_work w = { .tok = &t };
    pkv__pattern *p;
    (void)state;
    memset(text, 'a', sizeof(text));
    text[0] = 'x';
    text[sizeof(text) - 1] = 'b';
    assert_int_equal(pkv__pattern_create(&t, expression, strlen(expression), &p), PKV_OK);
    assert_int_equal(pkv__pattern_words(p, &w, text, sizeof(text), note_end), PKV_OK);
    int32_t sum = 0;
    for (size_t k = 0; k < w.n_ids; k++) sum += w.ids[k];
    assert_int_equal(sum, sizeof(text));
    pkv__work_free(&w);
    pkv__pattern_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_against_expressions),
        cmocka_unit_test(test_hostile_expression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
