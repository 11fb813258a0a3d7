/* Equal digests mean equal answers, so no two of these managers may have the same: each differs
 * from another one in a single thing. Made twice, each has its digest again. */
#include "mgr_fixture.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

static pkv_blockmgr_config usual(void)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 12;
    cfg.block_tokens = 2;
    cfg.max_seqs = 4;
    cfg.max_seq_tokens = 16;
    cfg.max_nodes = 20;
    cfg.max_extras = 30;
    cfg.max_namespaces = 3;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    return cfg;
}

/* ---------------------------------------------------------------- sequences and their content */

static pkv_seq with_extra(fx *f, const char *text, pkv_extra x)
{
    int32_t ids[16];
    pkv_tokens t = fx_text(text, ids);
    t.extras = &x, t.n_extras = 1;
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, t.n);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    return s;
}

static void claim_and_go_on(fx *f, const char *text)
{
    pkv_seq s;
    fx_match(f, text, 0, &s);
    fx_commit(f, s, "z"); /* makes it a hit */
    fx_truncate(f, s, 0);
    fx_close(f, s);
}

static void take_and_return(fx *f, int32_t n)
{
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, n);
    fx_close(f, s);
}

static void close_in_order(fx *f, const char *first, const char *second)
{
    pkv_seq a = fx_with(f, first), b = fx_with(f, second);
    fx_close(f, b);
    fx_close(f, a);
}

static void fork_cut_to(fx *f, const char *text, int32_t n)
{
    pkv_seq s = fx_with(f, text);
    fx_truncate(f, fx_fork(f, s), n);
}

static void two_holders(fx *f, const char *later)
{
    (void)fx_with(f, "ab");
    pkv_seq s = fx_with(f, "ab");
    fx_commit(f, s, later);
}

/* Blocks and tokens as in the one after; the first knows the content, so a close frees nothing. */
static void last_close(fx *f, bool first)
{
    pkv_seq a = fx_with(f, "ab"), b = fx_with(f, "cd");
    fx_close(f, first ? a : b);
}

static void open_two(fx *f, int32_t close)
{
    pkv_seq s[3] = { fx_open(f), fx_open(f), fx_open(f) };
    if (close & 1) fx_close(f, s[0]);
    if (close & 2) fx_close(f, s[1]);
    if (close & 4) fx_close(f, s[0]);
}

/* Two open sequences that took a block each, one after the other; both gave theirs back, or none.
 */
static void two_takers(fx *f, int first, int first_back)
{
    pkv_seq s[2] = { fx_open(f), fx_open(f) };
    fx_reserve(f, s[first], 1);
    fx_reserve(f, s[!first], 1);
    if (first_back < 0) return;
    fx_truncate(f, s[first_back], 0);
    fx_truncate(f, s[!first_back], 0);
}

/* Two blocks of content, cached one after the other; in the end of an older epoch, or not. */
static void two_cached(fx *f, int first, bool old)
{
    pkv_seq s[2] = { fx_with(f, "ab"), fx_with(f, "cd") };
    fx_truncate(f, s[first], 0);
    fx_truncate(f, s[!first], 0);
    if (old) assert_ok(pkv_blockmgr_new_epoch(f->m));
}

/* The same free ids as before, but blocks that had an owner. */
static void cut_back(fx *f, int32_t n)
{
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, n);
    fx_truncate(f, s, 0);
    pkv_table_range range[4];
    int32_t ids[8];
    pkv_delta d = PKV_DELTA_INIT; /* so that no row has changed */
    assert_ok(pkv_table_delta(f->m, 0, range, 4, ids, 8, &d));
}

static pkv_ns space(fx *f, uint8_t digest, int times)
{
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns = { 0 };
    p.model_digest[31] = digest;
    for (int i = 0; i < times; i++) assert_ok(pkv_ns_open(f->m, &p, &ns));
    return ns;
}

static void content_in(fx *f, pkv_ns ns)
{
    pkv_seq s;
    assert_ok(pkv_seq_open(f->m, ns, &s));
    fx_commit(f, s, "ab");
    fx_close(f, s);
}

static void in_space(fx *f, uint8_t where)
{
    pkv_ns a = space(f, 1, 1), b = space(f, 2, 1);
    content_in(f, where == 1 ? a : where == 2 ? b : (pkv_ns){ 0 });
}

static const pkv_extra none_at_all = { 0, 1, { 0 } };
static pkv_extra extra(int32_t first, int32_t n, int at, uint8_t value)
{
    pkv_extra x = none_at_all;
    x.first = first, x.n = n, x.digest[at] = value;
    return x;
}

/* One line, one manager. `f` is a fresh one with the usual configuration. */
#define SCENE_LIST(X)                                                                              \
    X((void)0)                                                                                     \
    X(fx_open(f))                                                                                  \
    X((fx_open(f), fx_open(f)))                                                                    \
    X(open_two(f, 0))                                                                              \
    X(open_two(f, 1))                                                                              \
    X(open_two(f, 2))                                                                              \
    X(open_two(f, 3))                                                                              \
    X(open_two(f, 2 | 4))                                                                          \
    X(fx_close(f, fx_open(f)))                                                                     \
    X((fx_close(f, fx_open(f)), fx_close(f, fx_open(f))))                                          \
    X(fx_reserve(f, fx_open(f), 1))                                                                \
    X(fx_reserve(f, fx_open(f), 2))                                                                \
    X(fx_reserve(f, fx_open(f), 3))                                                                \
    X(take_and_return(f, 1))                                                                       \
    X(take_and_return(f, 3))                                                                       \
    X(take_and_return(f, 16))                                                                      \
    X(fx_with(f, "a"))                                                                             \
    X(fx_with(f, "b"))                                                                             \
    X(fx_reserve(f, fx_with(f, "a"), 1))                                                           \
    X(fx_with(f, "ab"))                                                                            \
    X(fx_with(f, "ac"))                                                                            \
    X(fx_with(f, "abc"))                                                                           \
    X(fx_with(f, "abd"))                                                                           \
    X(fx_with(f, "abcd"))                                                                          \
    X(fx_with(f, "abdd"))                                                                          \
    X(fx_truncate(f, fx_with(f, "abcd"), 3))                                                       \
    X(fx_truncate(f, fx_with(f, "abcd"), 2))                                                       \
    X(fx_close(f, fx_with(f, "a")))                                                                \
    X(fx_close(f, fx_with(f, "ab")))                                                               \
    X(fx_close(f, fx_with(f, "ac")))                                                               \
    X(fx_close(f, fx_with(f, "abc")))                                                              \
    X(fx_close(f, fx_with(f, "abcd")))                                                             \
    X((fx_close(f, fx_with(f, "abcd")), claim_and_go_on(f, "ab")))                                 \
    X((fx_close(f, fx_with(f, "abcd")), claim_and_go_on(f, "abcd")))                               \
    X((fx_close(f, fx_with(f, "abcd")), fx_match(f, "abcd", 0, NULL)))                             \
    X((fx_close(f, fx_with(f, "ab")), fx_match(f, "ab", 0, &f_seq)))                               \
    X((fx_close(f, fx_with(f, "ab")), fx_match(f, "abc", 3, &f_seq)))                              \
    X(close_in_order(f, "ab", "cd"))                                                               \
    X(close_in_order(f, "cd", "ab"))                                                               \
    X(last_close(f, true))                                                                         \
    X(last_close(f, false))                                                                        \
    X(fork_cut_to(f, "abc", 3))                                                                    \
    X(fork_cut_to(f, "abc", 2))                                                                    \
    X(fork_cut_to(f, "abc", 0))                                                                    \
    X(two_holders(f, "c"))                                                                         \
    X(two_holders(f, "d"))                                                                         \
    X(with_extra(f, "a", none_at_all))                                                             \
    X(with_extra(f, "a", extra(0, 2, 0, 0)))                                                       \
    X(with_extra(f, "a", extra(0, 1, 0, 1)))                                                       \
    X(with_extra(f, "a", extra(0, 1, 31, 1)))                                                      \
    X(with_extra(f, "ab", none_at_all))                                                            \
    X(with_extra(f, "ab", extra(1, 1, 0, 0)))                                                      \
    X(with_extra(f, "ab", extra(0, 2, 0, 0)))                                                      \
    X(with_extra(f, "ab", extra(0, 3, 0, 0)))                                                      \
    X(with_extra(f, "ab", extra(0, 1, 0, 1)))                                                      \
    X(with_extra(f, "ab", extra(0, 1, 31, 1)))                                                     \
    X(with_extra(f, "ab", extra(0, 1, 31, 2)))                                                     \
    X(two_takers(f, 0, 1))                                                                         \
    X(two_takers(f, 0, 0))                                                                         \
    X(two_takers(f, 1, -1))                                                                        \
    X(two_takers(f, 0, -1))                                                                        \
    X(two_cached(f, 1, true))                                                                      \
    X(two_cached(f, 0, true))                                                                      \
    X(two_cached(f, 1, false))                                                                     \
    X(two_cached(f, 0, false))                                                                     \
    X(cut_back(f, 3))                                                                              \
    X(cut_back(f, 1))                                                                              \
    X(space(f, 1, 1))                                                                              \
    X(space(f, 1, 2))                                                                              \
    X(space(f, 2, 1))                                                                              \
    X((space(f, 1, 1), space(f, 2, 1)))                                                            \
    X((space(f, 2, 1), space(f, 1, 1)))                                                            \
    X(in_space(f, 0))                                                                              \
    X(in_space(f, 1))                                                                              \
    X(in_space(f, 2))                                                                              \
    X(pkv_ns_close(f->m, space(f, 1, 1)) == PKV_OK)

static void make_scene(fx *f, int which)
{
    int at = 0;
    pkv_seq f_seq;
#define SCENE(call)                                                                                \
    if (at++ == which) (void)(call);
    SCENE_LIST(SCENE)
#undef SCENE
    (void)f_seq;
}

#define ONE(call) +1
enum { N_SCENES = 0 SCENE_LIST(ONE) };
#undef ONE

/* ---------------------------------------------------------------- configurations */

enum { N_CONFIGS = 12 };

static pkv_blockmgr_config changed(int which)
{
    pkv_blockmgr_config cfg = usual();
    switch (which) {
    case 0:
        cfg.n_blocks++;
        break;
    case 1:
        cfg.n_blocks--;
        break;
    case 2:
        cfg.block_tokens = 4;
        break;
    case 3:
        cfg.max_seqs++;
        break;
    case 4:
        cfg.max_seq_tokens--;
        break;
    case 5:
        cfg.max_nodes++;
        break;
    case 6:
        cfg.max_extras++;
        break;
    case 7:
        cfg.max_namespaces++;
        break;
    case 8:
        cfg.flags |= PKV_MGR_PLAIN_LRU;
        break;
    case 9:
        cfg.flags = PKV_MGR_PREFIX_CACHE;
        break;
    case 10:
        cfg.zero_policy = PKV_ZERO_ON_DOMAIN_CHANGE;
        break;
    default:
        cfg.zero_policy = PKV_ZERO_ALWAYS;
        break;
    }
    return cfg;
}

/* ---------------------------------------------------------------- the comparison */

static void digest_of(int which, uint8_t secret, uint8_t out[16])
{
    pkv_blockmgr_config cfg = which < N_SCENES ? usual() : changed(which - N_SCENES);
    cfg.hash_secret[3] = secret;
    fx *f = fx_from(&cfg);
    if (which < N_SCENES) make_scene(f, which);
    memset(out, secret, 16); /* every byte is written */
    pkv_blockmgr_digest(f->m, out);
    fx_end(f);
}

/* Tokens that spell out an extra are not that extra. */
static void tokens_are_not_extras(void **state)
{
    (void)state;
    uint8_t digest[2][16];
    for (int spelled = 0; spelled < 2; spelled++) {
        fx *f = fx_new(8, 64, PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS);
        int32_t ids[35] = { 'a', 0, 1 }; /* offset, length, then 32 bytes 0 */
        const pkv_extra x = none_at_all;
        const pkv_tokens t = { ids, spelled ? 35 : 1, spelled ? NULL : &x, !spelled };
        pkv_seq s = fx_open(f);
        fx_reserve(f, s, t.n);
        assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
        fx_close(f, s);
        assert_int_equal(fx_stats(f).nodes, 1);
        pkv_blockmgr_digest(f->m, digest[spelled]);
        fx_end(f);
    }
    assert_memory_not_equal(digest[0], digest[1], 16);
}

static void all_different(void **state)
{
    (void)state;
    static uint8_t digest[N_SCENES + N_CONFIGS][16];
    for (int i = 0; i < N_SCENES + N_CONFIGS; i++) {
        uint8_t again[16];
        digest_of(i, 0, digest[i]);
        digest_of(i, 7, again);
        assert_memory_equal(digest[i], again, 16);
        for (int k = 0; k < i; k++)
            if (memcmp(digest[i], digest[k], 16) == 0) fail_msg("%d and %d look the same", k, i);
    }
}

/* Both halves carry all of it: no byte is the same everywhere. */
static void every_byte_counts(void **state)
{
    (void)state;
    uint8_t first[16], varies[16] = { 0 };
    digest_of(0, 0, first);
    for (int i = 1; i < N_SCENES; i++) {
        uint8_t digest[16];
        digest_of(i, 0, digest);
        for (int k = 0; k < 16; k++) varies[k] |= digest[k] ^ first[k];
        assert_memory_not_equal(digest, first, 8);
        assert_memory_not_equal(digest + 8, first + 8, 8);
        assert_memory_not_equal(digest, digest + 8, 8);
    }
    for (int k = 0; k < 16; k++) assert_int_equal(varies[k], 0xff);
}

static void null_is_ignored(void **state)
{
    (void)state;
    const pkv_blockmgr_config cfg = usual();
    fx *f = fx_from(&cfg);
    uint8_t out[16] = { 1 };
    pkv_blockmgr_digest(NULL, out);
    assert_int_equal(out[0], 1);
    pkv_blockmgr_digest(f->m, NULL);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_different),
                                        cmocka_unit_test(every_byte_counts),
                                        cmocka_unit_test(tokens_are_not_extras),
                                        cmocka_unit_test(null_is_ignored) };
    return cmocka_run_group_tests_name("digest_scenes", tests, NULL, NULL);
}
