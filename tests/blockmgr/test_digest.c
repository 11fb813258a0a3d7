/* The digest tells states apart that answer the same calls differently. */
#include "mgr_fixture.h"

enum { B, A, X1, X2, X3, C, N };
static const char *const text[N] = { "bb", "aa", "11", "22", "33", "cc" };

/* Every record of a sequence is free, and they are in the same order whatever was before. */
static void all_rows_free(fx *f)
{
    pkv_seq s[8];
    for (int i = 0; i < 8; i++) s[i] = fx_open(f);
    for (int32_t row = 7; row >= 0; row--)
        for (int i = 0; i < 8; i++)
            if ((int32_t)(uint32_t)s[i].v == row) fx_close(f, s[i]);
}

/* Six blocks of content, all of them hit; in the end X1 to X3 are open and the others cached, in
 * the order B, A, C, with the same handles and rows. Protected blocks are at most a third of the
 * cached. Closed in the order B, A, X1, X2, X3, C, first B and A are demoted (none of two may be
 * protected), then X1 and X2, and two of six stay: X3 and C. In the order X1, X2, X3, B, A, C those
 * two are A and C. */
static fx *cached(bool a_demoted)
{
    static const int early[N] = { B, A, X1, X2, X3, C }, late[N] = { X1, X2, X3, B, A, C };
    const int *order = a_demoted ? early : late;
    fx *f = fx_new(10, 2, PKV_MGR_PREFIX_CACHE);
    pkv_seq h[N];
    for (int i = 0; i < N; i++) fx_close(f, fx_with(f, text[i]));
    for (int i = 0; i < N; i++) {
        assert_int_equal(fx_match(f, text[i], 0, &h[i]), 2);
        fx_commit(f, h[i], "9"); /* makes it a hit */
        fx_truncate(f, h[i], 2);
    }
    for (int i = 0; i < N; i++) fx_close(f, h[order[i]]);
    all_rows_free(f);
    for (int x = X1; x <= X3; x++) assert_int_equal(fx_match(f, text[x], 0, &h[x]), 2);
    return f;
}

/* One more cached block, and room for all but the newest two of what is cached. */
static int32_t a_after_pressure(fx *f)
{
    fx_close(f, fx_with(f, "dd"));
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 2 * (fx_stats(f).free_blocks + 2));
    return fx_probe(f, text[A]);
}

static void eviction_lists(void **state)
{
    (void)state;
    fx *f[2] = { cached(true), cached(false) };
    uint8_t digest[2][16];
    for (int i = 0; i < 2; i++) {
        pkv_blockmgr_digest(f[i]->m, digest[i]);
        assert_int_equal(fx_stats(f[i]).cached_blocks, 3);
        assert_int_equal(fx_stats(f[i]).protected_blocks, 1 + i);
    }
    assert_memory_not_equal(digest[0], digest[1], 16);
    assert_int_equal(a_after_pressure(f[0]), 0); /* what makes it a difference */
    assert_int_equal(a_after_pressure(f[1]), 2);
    fx_end(f[0]);
    fx_end(f[1]);
}

/* The same calls lead to the same digest. */
static void same_states(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fx *f[2] = { cached(i), cached(i) };
        uint8_t digest[2][16];
        for (int k = 0; k < 2; k++) pkv_blockmgr_digest(f[k]->m, digest[k]);
        assert_memory_equal(digest[0], digest[1], 16);
        fx_end(f[0]);
        fx_end(f[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(eviction_lists),
                                        cmocka_unit_test(same_states) };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
