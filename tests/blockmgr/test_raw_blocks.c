/* Blocks without sequences: references that are counted, content that others find. */
#include "mgr_fixture.h"
#include "pagedkv/blockmgr_raw.h"

static pkv_status publish(fx *f, int32_t parent, const char *text, int32_t block)
{
    int32_t ids[64];
    const pkv_tokens t = fx_text(text, ids);
    return pkv_block_publish(f->m, (pkv_ns){ 0 }, parent, &t, block);
}

static int32_t lookup(fx *f, const char *text, int32_t *blocks, int32_t cap)
{
    int32_t ids[64], n = -1;
    const pkv_tokens t = fx_text(text, ids);
    assert_ok(pkv_blocks_lookup(f->m, (pkv_ns){ 0 }, &t, blocks, cap, &n));
    return n;
}

static void take_publish_find(void **state)
{
    (void)state;
    int32_t b[3], found[4];
    fx *f = fx_new(8, 2, PKV_MGR_PREFIX_CACHE);
    assert_ok(pkv_blocks_take(f->m, 3, b, &f->work));
    assert_int_equal(fx_stats(f).raw_refs, 3);
    assert_ok(publish(f, 0, "ab", b[0]));
    assert_ok(publish(f, b[0], "cd", b[1]));
    assert_ok(publish(f, b[0], "cd", b[1])); /* is so already */
    fx_refused(f, PKV_E_STATE, publish(f, b[0], "ce", b[1]));
    fx_refused(f, PKV_E_INVALID_ARG, publish(f, b[2], "ef", b[2])); /* the parent holds nothing */
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    assert_int_equal(lookup(f, "abcdef", found, 4), 2);
    assert_int_equal(found[0], b[0]);
    assert_int_equal(found[1], b[1]);
    assert_int_equal(lookup(f, "abcdef", found, 1), 1);
    assert_int_equal(fx_stats(f).raw_refs, 6);
    const int32_t all[6] = { b[2], b[1], b[1], b[0], b[0], b[0] };
    assert_ok(pkv_blocks_unref(f->m, all, 6));
    assert_int_equal(fx_stats(f).raw_refs, 0);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    pkv_seq s;
    assert_int_equal(fx_match(f, "abcde", 5, &s), 4); /* a sequence goes on from them */
    assert_int_equal(fx_block(f, s, 1), b[1]);
    fx_end(f);
}

/* One list gives back more than was taken: nothing happens, and nothing is handed out twice. */
static void a_block_named_twice(void **state)
{
    (void)state;
    int32_t b[2];
    fx *f = fx_new(8, 2, PKV_MGR_PREFIX_CACHE);
    assert_ok(pkv_blocks_take(f->m, 2, b, &f->work));
    const int32_t twice[3] = { b[1], b[0], b[1] };
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blocks_unref(f->m, twice, 3));
    assert_ok(pkv_blocks_ref(f->m, b + 1, 1));
    assert_ok(pkv_blocks_unref(f->m, twice, 3));
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blocks_unref(f->m, b, 1));
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blocks_ref(f->m, b, 1)); /* holds nothing */
    const int32_t null_block = 0;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blocks_ref(f->m, &null_block, 1));
    assert_int_equal(fx_drain(f), 7);
    fx_end(f);
}

/* A raw reference counts like a row: the sequence writes a copy. */
static void a_writer_gets_a_copy(void **state)
{
    (void)state;
    fx *f = fx_new(8, 4, PKV_MGR_PREFIX_CACHE);
    const pkv_seq s = fx_with(f, "ab");
    const int32_t tail = fx_block(f, s, 0);
    assert_ok(pkv_blocks_ref(f->m, &tail, 1));
    fx_reserve(f, s, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->work.copy[0].src, tail);
    assert_int_not_equal(fx_block(f, s, 0), tail);
    assert_ok(pkv_blocks_unref(f->m, &tail, 1));
    fx_end(f);
}

static void refusals(void **state)
{
    (void)state;
    int32_t b[8], n;
    const int32_t ids[2] = { 1, 2 };
    const pkv_tokens unit = { ids, 2, NULL, 0 };
    fx *f = fx_new(8, 2, 0);
    fx_refused(f, PKV_E_NEVER, pkv_blocks_take(f->m, 8, b, &f->work));
    assert_ok(pkv_blocks_take(f->m, 1, b, &f->work));
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_blocks_take(f->m, 7, b + 1, &f->work));
    fx_refused(f, PKV_E_UNSUPPORTED, pkv_block_publish(f->m, (pkv_ns){ 0 }, 0, &unit, b[0]));
    fx_refused(f, PKV_E_STALE, pkv_blocks_lookup(f->m, (pkv_ns){ 9 }, &unit, b + 1, 1, &n));
    assert_ok(pkv_blocks_lookup(f->m, (pkv_ns){ 0 }, &unit, b + 1, 1, &n));
    assert_int_equal(n, 0);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take_publish_find),
        cmocka_unit_test(a_block_named_twice),
        cmocka_unit_test(a_writer_gets_a_copy),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
