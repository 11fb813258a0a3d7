/* Stop texts over decoded pieces, against "decode everything, then look". Text is cut at random
 * into pieces of a tokenizer; after every id, what is shown and what is held must be exactly what
 * the text so far allows. */
#include "tok_make.h"

#include "common/philox.h"
#include "model/output.h"

#define SUITE "tokenizers/llamacpp-suite/ggml-vocab-"

static uint64_t first_seed(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* ---------------------------------------------------------------- the slow way */

/* Where the earliest complete stop text begins; n: nowhere. */
static size_t first_stop(const pkv__stop_texts *stops, const uint8_t *text, size_t n)
{
    size_t best = n;
    for (int32_t k = 0; k < stops->n; k++)
        for (size_t at = 0; at + (size_t)stops->n_bytes[k] <= n; at++)
            if (memcmp(text + at, stops->text[k], (size_t)stops->n_bytes[k]) == 0 && at < best)
                best = at;
    return best;
}

/* Bytes of the longest suffix that is a proper prefix of a stop text. */
static size_t begun(const pkv__stop_texts *stops, const uint8_t *text, size_t n)
{
    size_t longest = 0;
    for (int32_t k = 0; k < stops->n; k++)
        for (size_t m = 1; m < (size_t)stops->n_bytes[k] && m <= n; m++)
            if (memcmp(text + n - m, stops->text[k], m) == 0 && m > longest) longest = m;
    return longest;
}

typedef struct rig {
    const pkv_tokenizer *tok;
    pkv__stop_texts stops;
    pkv__output out;
    pkv_detok plain; /* decodes without stop texts */
    bytes whole;     /* what it gave */
    bytes shown;
    char *piece;
    uint64_t seed; /* named when something differs */
} rig;

static void rig_start(rig *r, const pkv_tokenizer *tok)
{
    r->tok = tok;
    r->whole.n = r->shown.n = 0;
    pkv__output_init(&r->out, tok, &r->stops);
    pkv_detok_init(&r->plain, tok, true);
    free(r->piece);
    r->piece = malloc((size_t)pkv__output_room(tok));
}

static void rig_end(rig *r)
{
    bytes_free(&r->whole);
    bytes_free(&r->shown);
    free(r->piece);
}

static void expect_shown(const rig *r, size_t n, bool stopped, bool want_stopped)
{
    const bool same = n == 0 || memcmp(r->shown.data, r->whole.data, n) == 0;
    if (stopped != want_stopped || r->shown.n != n || !same)
        fail_msg("seed %llu: %zu of %zu bytes shown (stopped: %d), expected %zu (%d)",
                 (unsigned long long)r->seed, r->shown.n, r->whole.n, stopped, n, want_stopped);
}

/* One id; true: the output is over. */
static bool step(rig *r, int32_t id)
{
    static char buf[1 << 16];
    int32_t n;
    bool stopped;
    pkv__output_put(&r->out, id, r->piece, &n, &stopped);
    put(&r->shown, r->piece, (size_t)n);
    if (pkv_detok_put(&r->plain, id, buf, sizeof(buf), &n) == PKV_OK)
        put(&r->whole, buf, (size_t)n);
    const size_t stop = first_stop(&r->stops, r->whole.data, r->whole.n);
    const size_t held = begun(&r->stops, r->whole.data, r->whole.n);
    const bool over = stop < r->whole.n && stop <= r->whole.n - held;
    expect_shown(r, over ? stop : r->whole.n - held, stopped, over);
    return over;
}

static bool finish(rig *r)
{
    char buf[12];
    int32_t n;
    bool stopped;
    pkv__output_flush(&r->out, r->piece, &n, &stopped);
    put(&r->shown, r->piece, (size_t)n);
    assert_int_equal(pkv_detok_flush(&r->plain, buf, sizeof(buf), &n), PKV_OK);
    put(&r->whole, buf, (size_t)n);
    const size_t stop = first_stop(&r->stops, r->whole.data, r->whole.n);
    expect_shown(r, stop, stopped, stop < r->whole.n);
    return stopped;
}

static void set_stops(rig *r, int32_t n, const char *const *texts)
{
    r->stops.n = n;
    for (int32_t k = 0; k < n; k++) {
        r->stops.text[k] = texts[k];
        r->stops.n_bytes[k] = (int32_t)strlen(texts[k]);
    }
}
#define STOPS(r, ...)                                                                              \
    do {                                                                                           \
        const char *const texts_[] = { __VA_ARGS__ };                                              \
        set_stops(r, (int32_t)PKV_ARRAY_LEN(texts_), texts_);                                      \
    } while (0)

static void expect_text(const bytes *b, const char *want)
{
    assert_int_equal(b->n, strlen(want));
    if (b->n > 0) assert_memory_equal(b->data, want, b->n);
}

/* ---------------------------------------------------------------- by hand */

/* Ids of the small tiktoken file: bytes, and he, ll, hell, aa, aaaa. */
enum { HE = 256, LL = 257, HELL = 258 };

static void play(rig *r, const pkv_tokenizer *t, const char *text, const char *shown, bool stops)
{
    bool over = false;
    rig_start(r, t);
    for (const char *c = text; *c && !over; c++) over = step(r, (uint8_t)*c);
    assert_int_equal(over, stops);
    expect_text(&r->shown, shown);
}

static void test_by_hand(void **state)
{
    (void)state;
    bytes b = { 0 };
    rig r = { 0 };
    make_tiktoken(&b);
    pkv_tokenizer *t = open_bytes(&b, "small.tiktoken", "none");
    STOPS(&r, "el"); /* inside a piece, and over a border of pieces */
    rig_start(&r, t);
    assert_true(step(&r, HELL));
    expect_text(&r.shown, "h");
    rig_start(&r, t);
    assert_false(step(&r, HE));
    expect_text(&r.shown, "h");
    assert_true(step(&r, LL));
    expect_text(&r.shown, "h");

    STOPS(&r, "aab");
    play(&r, t, "aaaaab", "aaa", true);
    play(&r, t, "aaaa", "aa", false);
    assert_false(finish(&r));
    expect_text(&r.shown, "aaaa");

    STOPS(&r, "bc", "abcd"); /* the earlier place wins, as soon as it is known */
    play(&r, t, "xabcd", "x", true);
    play(&r, t, "xabcx", "xa", true);
    play(&r, t, "xabc", "x", false);
    assert_true(finish(&r));
    expect_text(&r.shown, "xa");
    play(&r, t, "ybc", "y", true);

    STOPS(&r, "abc", "ab"); /* of equal places nothing is waited for */
    play(&r, t, "xab", "x", true);
    r.stops.n = 0;
    play(&r, t, "abc", "abc", false);
    rig_end(&r);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

static void test_characters(void **state)
{
    (void)state;
    bytes b = { 0 };
    rig r = { 0 };
    make_tiktoken(&b);
    pkv_tokenizer *t = open_bytes(&b, "small.tiktoken", "none");
    STOPS(&r, "\u00e9!");
    play(&r, t, "a\u00e9", "a", false); /* two bytes, two ids */
    play(&r, t, "a\u00e9!", "a", true);
    play(&r, t, "a\u00e8!", "a\u00e8!", false);
    play(&r, t, "\U0001F600\u00e9\u00e9!", "\U0001F600\u00e9", true);
    play(&r, t, "a\xC3", "a", false); /* half a character, never shown as such */
    assert_false(finish(&r));
    expect_text(&r.shown, "a\uFFFD");
    STOPS(&r, "\uFFFD");
    play(&r, t, "a\xC3", "a", false);
    assert_true(finish(&r));
    expect_text(&r.shown, "a");
    play(&r, t, "a\xC3 ", "a", true);
    rig_end(&r);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

static void test_without_text(void **state)
{
    (void)state;
    bytes b = { 0 };
    rig r = { 0 };
    make_spm(&b);
    pkv_tokenizer *t = open_bytes(&b, "tokenizer.model", NULL);
    STOPS(&r, "ab");
    rig_start(&r, t);
    assert_false(step(&r, 260)); /* a, held */
    expect_text(&r.shown, "");
    assert_false(step(&r, 1));       /* <s>: special */
    assert_false(step(&r, 1 << 20)); /* beyond the tokenizer */
    assert_false(step(&r, -1));
    assert_true(step(&r, 261)); /* b */
    expect_text(&r.shown, "");

    pkv__output out;
    char piece[1];
    int32_t n = -1;
    bool stopped = true;
    pkv__output_init(&out, NULL, NULL);
    pkv__output_put(&out, 260, piece, &n, &stopped);
    assert_int_equal(n, 0);
    assert_false(stopped);
    stopped = true;
    pkv__output_flush(&out, piece, &n, &stopped);
    assert_int_equal(n, 0);
    assert_false(stopped);
    rig_end(&r);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

/* The longest stop text, and a piece of the most bytes while all of it but one is held. */
static void test_longest(void **state)
{
    (void)state;
    static char stop[PKV__MAX_STOP_BYTES + 1];
    bytes b = { 0 };
    rig r = { 0 };
    make_tiktoken(&b);
    pkv_tokenizer *t = open_bytes(&b, "small.tiktoken", "none");
    memset(stop, 'a', PKV__MAX_STOP_BYTES);
    stop[PKV__MAX_STOP_BYTES - 1] = 'b';
    STOPS(&r, stop);
    rig_start(&r, t);
    for (int k = 0; k < 1000; k++) assert_false(step(&r, 'a'));
    assert_int_equal(r.shown.n, 1000 - (PKV__MAX_STOP_BYTES - 1));
    assert_false(step(&r, 260)); /* aaaa */
    assert_true(step(&r, 'b'));
    rig_start(&r, t);
    for (int k = 0; k < PKV__MAX_STOP_BYTES - 1; k++) assert_false(step(&r, 'a'));
    assert_int_equal(r.shown.n, 0);
    assert_false(step(&r, HELL));
    assert_int_equal(r.shown.n, PKV__MAX_STOP_BYTES + 3);
    rig_end(&r);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

/* ---------------------------------------------------------------- at random */

/* The id of a random piece that the text goes on with; -1: not even its first byte is one. */
static int32_t cut(const pkv_tokenizer *t, pkv__rng *rng, const uint8_t *text, size_t n,
                   size_t *n_cut)
{
    int32_t id;
    for (size_t len = 1 + pkv__rng_below(rng, 8); len > 0; len--) {
        if (len > n) continue;
        if (pkv_tokenizer_find(t, (const char *)text, (int32_t)len, &id) != PKV_OK) continue;
        *n_cut = len;
        return id;
    }
    return t->byte_id[text[0]];
}

static void run_text(rig *r, const pkv_tokenizer *t, pkv__rng *rng, const bytes *text)
{
    bool over = false;
    rig_start(r, t);
    for (size_t at = 0; at < text->n && !over;) {
        size_t n_cut = 1;
        int32_t id = cut(t, rng, text->data + at, text->n - at, &n_cut);
        if (pkv__rng_below(rng, 40) == 0) { /* anything: bytes that are no text, specials */
            id = (int32_t)pkv__rng_below(rng, (uint32_t)t->n_pieces);
            n_cut = 0;
        }
        at += n_cut;
        over = step(r, id);
    }
    if (!over) finish(r);
}

static void random_text(pkv__rng *rng, uint32_t n, bytes *out)
{
    static const char *const parts[] = { "a",      "a",          "b",  "ab",   "aa",     "he", "ll",
                                         "\u00e9", "\U0001F600", "\n", "\xC3", "\u4e2d", " " };
    const uint32_t kinds = pkv__rng_below(rng, 2) ? 5 : (uint32_t)PKV_ARRAY_LEN(parts);
    for (uint32_t k = 0; k < n; k++) {
        const char *part = parts[pkv__rng_below(rng, kinds)];
        put(out, part, strlen(part));
    }
}

/* Stop texts out of the text itself, some with another end; `pool` owns their bytes. */
static void random_stops(rig *r, pkv__rng *rng, const bytes *text, bytes *pool)
{
    size_t at[PKV__MAX_STOP_TEXTS];
    const size_t longest = pkv__rng_below(rng, 4) ? 6 : PKV__MAX_STOP_BYTES;
    pool->n = 0;
    r->stops.n = (int32_t)pkv__rng_below(rng, PKV__MAX_STOP_TEXTS + 1);
    for (int32_t k = 0; k < r->stops.n; k++) {
        const size_t from = pkv__rng_below(rng, (uint32_t)text->n);
        size_t n = 1 + pkv__rng_below(rng, (uint32_t)longest);
        if (n > text->n - from) n = text->n - from;
        at[k] = pool->n;
        put(pool, text->data + from, n);
        if (pkv__rng_below(rng, 3) > 0)
            pool->data[pool->n - 1] = pkv__rng_below(rng, 2) ? 'b' : '#';
        r->stops.n_bytes[k] = (int32_t)n;
    }
    for (int32_t k = 0; k < r->stops.n; k++) r->stops.text[k] = (const char *)pool->data + at[k];
}

static void random_rounds(const pkv_tokenizer *t, const bytes *from, int rounds)
{
    rig r = { 0 };
    bytes text = { 0 }, pool = { 0 };
    int n_stopped = 0;
    const uint64_t seed = first_seed();
    for (int k = 0; k < rounds; k++) {
        pkv__rng rng;
        r.seed = seed + (uint64_t)k;
        pkv__rng_init(&rng, r.seed, 0, 0);
        text.n = 0;
        if (from) {
            size_t n = 1 + pkv__rng_below(&rng, 400);
            const size_t at = pkv__rng_below(&rng, (uint32_t)from->n);
            if (n > from->n - at) n = from->n - at;
            put(&text, from->data + at, n);
        } else {
            random_text(&rng, 1 + pkv__rng_below(&rng, 200), &text);
        }
        random_stops(&r, &rng, &text, &pool);
        run_text(&r, t, &rng, &text);
        n_stopped += r.shown.n < r.whole.n;
    }
    assert_in_range(n_stopped, rounds / 10, rounds - rounds / 50); /* both ends are met */
    bytes_free(&text);
    bytes_free(&pool);
    rig_end(&r);
}

static void test_random_small(void **state)
{
    (void)state;
    bytes b = { 0 };
    make_tiktoken(&b);
    pkv_tokenizer *t = open_bytes(&b, "small.tiktoken", "none");
    random_rounds(t, NULL, 3000);
    pkv_tokenizer_close(t);
    b.n = 0;
    make_spm(&b);
    t = open_bytes(&b, "tokenizer.model", NULL);
    random_rounds(t, NULL, 3000);
    pkv_tokenizer_close(t);
    bytes_free(&b);
}

static void random_suite(const char *vocabulary, const char *splitter, const char *texts)
{
    char path[1024];
    bytes text = { 0 };
    shared_path(texts, path, sizeof(path));
    pkv_tokenizer *t = open_shared(vocabulary, splitter, 0);
    read_bytes(path, &text);
    random_rounds(t, &text, 300);
    pkv_tokenizer_close(t);
    bytes_free(&text);
}

static void test_random_phi3(void **state)
{
    (void)state;
    random_suite(SUITE "phi-3.gguf", NULL, SUITE "phi-3.gguf.inp");
}

static void test_random_gpt2(void **state)
{
    (void)state;
    random_suite(SUITE "gpt-2.gguf", NULL, SUITE "gpt-2.gguf.inp");
}

static void test_random_qwen(void **state)
{
    (void)state;
    random_suite("tokenizers/qwen/qwen.tiktoken", "qwen2", SUITE "qwen2.gguf.inp");
}

/* The text of one id behind a prompt. */
static void expect_behind(const pkv_tokenizer *t, const int32_t *prompt, int32_t n_prompt,
                          int32_t id, const char *want)
{
    pkv__output out;
    char piece[600];
    int32_t n = -1;
    bool stopped;
    pkv__output_init(&out, t, NULL);
    pkv__output_follow(&out, prompt, n_prompt);
    pkv__output_put(&out, id, piece, &n, &stopped);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(piece, want, strlen(want));
}

/* The space that SentencePiece has in front of every text is no part of it; one behind a prompt
 * is: prompt and output decoded together show it. */
static void test_behind_a_prompt(void **state)
{
    (void)state;
    bytes b = { 0 };
    make_spm(&b);
    pkv_tokenizer *t = open_bytes(&b, "tokenizer.model", NULL);
    int32_t space = -1;
    assert_int_equal(pkv_tokenizer_find(t, " a", 2, &space), PKV_OK);
    const int32_t prompt[] = { 1, 260, 1 }; /* <s> a <s> */
    expect_behind(t, prompt, 0, space, "a");
    expect_behind(t, prompt, 1, space, "a");
    expect_behind(t, prompt, 2, space, " a");
    expect_behind(t, prompt, 3, space, " a");
    expect_behind(t, (int32_t[]){ -1, 1 << 20 }, 2, space, "a"); /* ids without a piece */
    pkv_tokenizer_close(t);
    bytes_free(&b);
    pkv__output out;
    pkv__output_init(&out, NULL, NULL);
    pkv__output_follow(&out, prompt, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),         cmocka_unit_test(test_characters),
        cmocka_unit_test(test_without_text),    cmocka_unit_test(test_longest),
        cmocka_unit_test(test_behind_a_prompt), cmocka_unit_test(test_random_small),
        cmocka_unit_test(test_random_phi3),     cmocka_unit_test(test_random_gpt2),
        cmocka_unit_test(test_random_qwen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
