/* Traces of content ids, their replay against the block manager by hand, and the real trace. */
#include "bench_test.h"

#include "share_replay.h"

#include "pagedkv/blockmgr.h"

#define LRU (PKV_MGR_PREFIX_CACHE | PKV_MGR_PLAIN_LRU)
#define DEFAULT PKV_MGR_PREFIX_CACHE

static bool parse(const char *text, int32_t block_tokens, struct hash_trace *out,
                  struct bench_error *err)
{
    FILE *in = fmemopen((char *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(in);
    const bool ok = hash_trace_parse(in, "t.jsonl", block_tokens, out, err);
    fclose(in);
    return ok;
}

#define LINE_AT(time, input, ids)                                                                  \
    "{\"timestamp\": " time ", \"input_length\": " input                                           \
    ", \"output_length\": 1, \"hash_ids\": [" ids "]}\n"
#define LINE(input, ids) LINE_AT("0", input, ids)

static struct hash_trace good(const char *text)
{
    struct hash_trace t;
    struct bench_error err;
    if (!parse(text, 4, &t, &err)) fail_msg("%s", err.text);
    return t;
}

static struct share_hits bound_of(const struct hash_trace *t)
{
    struct share_hits out;
    bool *seen = calloc((size_t)t->n_ids, sizeof(*seen));
    assert_non_null(seen);
    share_bound(t, seen, &out);
    free(seen);
    return out;
}

static struct share_hits replay(const struct hash_trace *t, int32_t pool, uint32_t flags)
{
    struct share_hits out;
    struct bench_error err;
    if (!share_replay(t, pool, flags, &out, &err)) fail_msg("%s", err.text);
    if (!out.ok) fail_msg("pool %d: %s", pool, out.text);
    return out;
}

/* ---------------------------------------------------------------- by hand */

/* Blocks of 4 tokens, the third of request 2 and the only one of 3 and 5 shorter. */
#define FIVE_REQUESTS                                                                              \
    LINE("12", "100, 200, 300")                                                                    \
    LINE("10", "100, 200, 400") LINE("3", "-7") LINE("12", "100, 200, 300") LINE("3", "-7")

static void test_bound_by_hand(void **state)
{
    (void)state;
    struct hash_trace t = good(FIVE_REQUESTS);
    assert_int_equal(t.n_requests, 5);
    assert_int_equal(t.n_refs, 11);
    assert_int_equal(t.n_ids, 5);
    assert_int_equal(t.longest, 3);
    assert_int_equal(t.n_tokens, 40);
    assert_int_equal(hash_trace_block(&t, 1, 1), 4);
    assert_int_equal(hash_trace_block(&t, 1, 2), 2);
    /* Found: 100 and 200 (8 of 10), all of request 4 (12 of 12), all of request 5 (3 of 3). */
    const struct share_hits b = bound_of(&t);
    assert_int_equal(b.blocks, 6);
    assert_int_equal(b.tokens, 23);
    assert_near(b.request_mean, (0.8 + 1 + 1) / 5, 1e-12);
    const uint32_t policies[] = { LRU, DEFAULT };
    for (int i = 0; i < 2; i++) {
        const struct share_hits h = replay(&t, share_endless_pool(&t), policies[i]);
        assert_int_equal(h.blocks, 6);
        assert_int_equal(h.tokens, 23);
        assert_near(h.request_mean, b.request_mean, 1e-12);
        assert_int_equal(h.evicted, 0);
    }
    hash_trace_free(&t);
}

/* Four blocks: three cached and the output's, which is free between requests. In order of use:
 *   request 1 leaves 300 200 100 (released tail first), 2 claims 100 200 and evicts 300,
 *   leaves 400 200 100; 3 evicts 400, leaves 200 100 -7; 4 claims 100 200 and evicts -7,
 *   leaves 300 200 100; 5 finds nothing and evicts 300. */
static void test_smallest_pool_by_hand(void **state)
{
    (void)state;
    struct hash_trace t = good(FIVE_REQUESTS);
    assert_int_equal(share_least_pool(&t), 4);
    const struct share_hits h = replay(&t, 4, LRU);
    assert_int_equal(h.blocks, 4);
    assert_int_equal(h.tokens, 16);
    assert_int_equal(h.evicted, 4);
    assert_near(h.request_mean, (0.8 + 8.0 / 12) / 5, 1e-12);
    hash_trace_free(&t);
}

/* 1 is used twice, then three prompts that never come back, then 1 again. Three blocks are cached:
 * LRU has 2 3 1 after the hit, and the three strangers push all of them out, 1 last; the last
 * request evicts 4. The default keeps 1, which was hit, and evicts 2, 3 and 4. */
static void test_strangers_by_hand(void **state)
{
    (void)state;
    struct hash_trace t = good(LINE("4", "2") LINE("4", "3") LINE("4", "1") LINE("4", "1")
                                   LINE("4", "4") LINE("4", "5") LINE("4", "6") LINE("4", "1"));
    const struct share_hits lru = replay(&t, 4, LRU), kept = replay(&t, 4, DEFAULT);
    assert_int_equal(bound_of(&t).blocks, 2);
    assert_int_equal(lru.blocks, 1);
    assert_int_equal(lru.evicted, 4);
    assert_int_equal(kept.blocks, 2);
    assert_int_equal(kept.evicted, 3);
    hash_trace_free(&t);
}

/* ---------------------------------------------------------------- refusals */

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "\n", "t.jsonl: line 1: not JSON at byte" },
        { LINE("4", "1") "{\"timestamp\"\n", "t.jsonl: line 2: not JSON at byte 12" },
        { LINE("4", "1") "\n", "line 2: not JSON" },
        { "\033[31m\n", "line 1: not JSON" },
        { "[1, 2]\n", "line 1: not a JSON object" },
        { "{\"timestamp\": 1, \"timestamp\": 2}\n", "line 1: not JSON" },
        { "{}\n", "line 1: the key 'timestamp' is missing" },
        { "{\"timestamp\": 1, \"output_length\": 1}\n", "the key 'input_length' is missing" },
        { "{\"timestamp\": 1, \"input_length\": 1}\n", "the key 'output_length' is missing" },
        { "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}\n", "'hash_ids' wants" },
        { LINE_AT("\"now\"", "4", "1"), "'timestamp' wants a number" },
        { LINE_AT("2", "4", "1") LINE_AT("1", "4", "1"), "line 2: the timestamp is before" },
        { LINE("0", ""), "'input_length' wants an integer from 1 to 1073741824" },
        { LINE("4.0", "1"), "'input_length' wants an integer" },
        { LINE("99999999999999999999", "1"), "line 1: not JSON" },
        { LINE("1073741825", "1"), "'input_length' wants an integer" },
        { LINE("5", "1"), "line 1: 1 hash_ids, but input_length 5 in blocks of 4 tokens makes 2" },
        { LINE("4", "1, 2"), "line 1: 2 hash_ids, but input_length 4" },
        { LINE("4", "null"), "line 1: 'hash_ids' wants integers only" },
        { LINE("4", "1.5"), "line 1: 'hash_ids' wants integers only" },
        { LINE("8", "1, 2") LINE("8", "3, 2"),
          "line 2: hash id 2 follows another id than in line 1" },
        { LINE("8", "1, 1"), "line 1: hash id 1 follows another id than in line 1" },
        { LINE("4", "1") LINE("3", "1"), "line 2: hash id 1 covers 3 tokens, but 4 in line 1" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hash_trace t;
        struct bench_error err = { BENCH_OK, "" };
        if (parse(cases[i].text, 4, &t, &err)) fail_msg("accepted: %s", cases[i].text);
        if (!strstr(err.text, cases[i].says))
            fail_msg("'%s' is not in: %s", cases[i].says, err.text);
        assert_int_equal(err.code, BENCH_USAGE);
        for (const char *c = err.text; *c; c++) assert_true(*c >= ' ' && *c <= '~');
        assert_null(t.ids);
    }
}

/* A file that never ends a line costs no more memory than the longest line allowed. */
static void test_endless_line(void **state)
{
    struct hash_trace t;
    struct bench_error err;
    (void)state;
    assert_false(hash_trace_read("/dev/zero", 512, &t, &err));
    assert_non_null(strstr(err.text, "/dev/zero: line 1: longer than 4194304 bytes"));
    assert_false(hash_trace_read("/", 512, &t, &err));
    assert_non_null(strstr(err.text, "cannot read"));
    assert_false(hash_trace_read("/dev/null", 512, &t, &err));
    assert_non_null(strstr(err.text, "/dev/null: no request"));
    assert_false(hash_trace_read("/nonexistent.jsonl", 512, &t, &err));
    assert_non_null(strstr(err.text, "cannot read the trace /nonexistent.jsonl: No such file"));
}

/* ---------------------------------------------------------------- the real trace */

static struct hash_trace mooncake(void)
{
    const char *shared = getenv("PKV_SHARED");
    char path[1024];
    struct hash_trace t;
    struct bench_error err;
    snprintf(path, sizeof(path), "%s/traces/mooncake/synthetic_trace.jsonl",
             shared ? shared : "../shared");
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "SKIPPED: %s is missing\n", path);
        skip();
    }
    fclose(file);
    if (!hash_trace_read(path, 512, &t, &err)) fail_msg("%s", err.text);
    return t;
}

/* Counts and rates as the README of the trace states them. */
static void test_mooncake_bound(void **state)
{
    (void)state;
    struct hash_trace t = mooncake();
    assert_int_equal(t.n_requests, 3993);
    assert_int_equal(t.n_refs, 121877);
    assert_int_equal(t.n_ids, 43924);
    assert_near((double)t.n_tokens / t.n_requests, 15325.48, 0.005);
    const struct share_hits b = bound_of(&t);
    assert_near(100.0 * (double)b.blocks / t.n_refs, 63.96, 0.005);
    assert_near(100.0 * (double)b.tokens / (double)t.n_tokens, 65.12, 0.005);
    const uint32_t policies[] = { LRU, DEFAULT };
    for (int i = 0; i < 2; i++) {
        const struct share_hits h = replay(&t, share_endless_pool(&t), policies[i]);
        assert_int_equal(h.blocks, b.blocks);
        assert_int_equal(h.tokens, b.tokens);
    }
    hash_trace_free(&t);
}

/* The default policy resists scans, and that may cost at most half a point against plain LRU at any
 * size of the pool; somewhere it has to pay as well. */
static void test_mooncake_default_against_lru(void **state)
{
    (void)state;
    struct hash_trace t = mooncake();
    double worst = 100, best = -100;
    for (double size = share_least_pool(&t); size < share_endless_pool(&t); size *= 1.15) {
        const int32_t pool = (int32_t)size;
        const struct share_hits lru = replay(&t, pool, LRU), kept = replay(&t, pool, DEFAULT);
        const double blocks = 100.0 * (double)(kept.blocks - lru.blocks) / t.n_refs;
        const double tokens = 100.0 * (double)(kept.tokens - lru.tokens) / (double)t.n_tokens;
        const double above = blocks < tokens ? blocks : tokens;
        if (above < -0.5) print_message("# pool %d: %+.2f points\n", pool, above);
        if (above < worst) worst = above;
        if (above > best) best = above;
    }
    print_message("# default against LRU: %+.2f to %+.2f points\n", worst, best);
    assert_true(worst >= -0.5);
    assert_true(best > 0.5);
    hash_trace_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound_by_hand),
        cmocka_unit_test(test_smallest_pool_by_hand),
        cmocka_unit_test(test_strangers_by_hand),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_mooncake_bound),
        cmocka_unit_test(test_mooncake_default_against_lru),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
