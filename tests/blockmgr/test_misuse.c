/* Every parameter of every function misused: null, negative, extreme, stale, invented. The answer
 * is a status, nothing changes, no output is written. */
#include "mgr_fixture.h"

#define ARG PKV_E_INVALID_ARG

/* Handles that were never given out, and one of each that was closed. */
static int bad_seqs(fx *f, pkv_seq *s)
{
    pkv_seq closed = fx_open(f), good = fx_open(f);
    fx_close(f, closed);
    int n = 0;
    s[n++] = closed;
    s[n++].v = 0;
    s[n++].v = UINT64_MAX;
    s[n++].v = good.v + 1;
    s[n++].v = good.v + ((uint64_t)1 << 32);
    s[n++].v = good.v & 0xffffffffu;
    s[n++].v = good.v | 0x80000000u;
    s[n++].v = ((uint64_t)1 << 32) | 8; /* max_seqs */
    fx_close(f, good);
    return n;
}

static void stale_sequences(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
    pkv_seq bad[8], kids[2], live = fx_with(f, "abcd");
    int32_t ids[4] = { 1, 2, 3, 4 }, n = 7;
    int64_t slots[4] = { 7, 7, 7, 7 };
    const int32_t *row = ids;
    pkv_tokens t = { ids, 4, NULL, 0 };
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    int n_bad = bad_seqs(f, bad);
    for (int i = 0; i < n_bad; i++) {
        pkv_reserve_req q[2] = { { live, 1 }, { bad[i], 1 } };
        pkv_need need = PKV_NEED_INIT;
        fx_refused(f, PKV_E_STALE, pkv_seq_match(f->m, bad[i], &t, 4, 4, &f->work, &f->match));
        fx_refused(f, PKV_E_STALE, pkv_seq_reserve(f->m, q, 2, &f->work));
        q[1].n_tokens = 0;
        fx_refused(f, PKV_E_STALE, pkv_seq_reserve(f->m, q, 2, &f->work));
        fx_refused(f, PKV_E_STALE, pkv_seq_commit(f->m, bad[i], &t, PKV_STEP_NONE));
        fx_refused(f, PKV_E_STALE, pkv_seq_fork(f->m, bad[i], kids, 1));
        fx_refused(f, PKV_E_STALE, pkv_seq_truncate(f->m, bad[i], 0));
        fx_refused(f, PKV_E_STALE, pkv_seq_close(f->m, bad[i]));
        fx_refused(f, PKV_E_STALE, pkv_seq_row(f->m, bad[i], 0, &row, &n));
        fx_refused(f, PKV_E_STALE, pkv_seq_slots(f->m, bad[i], 0, 0, 1, slots));
        fx_refused(f, PKV_E_STALE, pkv_seq_info(f->m, bad[i], &info));
        assert_ok(pkv_blockmgr_need(f->m, q, 2, &need));
        assert_int_equal(need.verdict, PKV_E_STALE);
        assert_int_equal(need.new_blocks, 0);
    }
    assert_true(n == 7 && row == ids && slots[0] == 7);
    pkv_step step = { 1 };
    fx_refused(f, PKV_E_STALE, pkv_seq_commit(f->m, live, &t, step));
    step.v = UINT64_MAX;
    fx_refused(f, PKV_E_STALE, pkv_seq_commit(f->m, live, &t, step));
    fx_end(f);
}

static void stale_namespaces(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns, bad[6];
    pkv_seq s = { 3 };
    int32_t ids[1] = { 0 };
    pkv_tokens t = { ids, 1, NULL, 0 };
    p.model_digest[5] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    bad[0].v = ns.v + 1;
    bad[1].v = ns.v + ((uint64_t)1 << 32);
    bad[2].v = UINT64_MAX;
    bad[3].v = 1;
    bad[4] = ns;
    bad[5].v = (uint64_t)1 << 32 | 64; /* max_namespaces */
    assert_ok(pkv_ns_close(f->m, ns));
    for (int i = 0; i < 6; i++) {
        fx_refused(f, PKV_E_STALE, pkv_seq_open(f->m, bad[i], &s));
        fx_refused(f, PKV_E_STALE, pkv_ns_close(f->m, bad[i]));
        fx_refused(f, PKV_E_STALE, pkv_blockmgr_probe(f->m, bad[i], &t, &f->match));
    }
    assert_int_equal(s.v, 3);
    fx_end(f);
}

static void null_pointers(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f), kid;
    pkv_ns ns = { 0 };
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    int32_t ids[1] = { 0 }, n;
    const int32_t *row;
    int64_t slot;
    pkv_tokens t = { ids, 1, NULL, 0 };
    pkv_reserve_req q = { s, 1 };
    pkv_need need = PKV_NEED_INIT;
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    pkv_blockmgr *m = f->m;
    fx_reserve(f, s, 1);
    fx_refused(f, ARG, pkv_ns_open(NULL, &p, &ns));
    fx_refused(f, ARG, pkv_ns_open(m, NULL, &ns));
    fx_refused(f, ARG, pkv_ns_open(m, &p, NULL));
    fx_refused(f, ARG, pkv_ns_close(NULL, ns));
    fx_refused(f, ARG, pkv_seq_open(NULL, ns, &kid));
    fx_refused(f, ARG, pkv_seq_open(m, ns, NULL));
    fx_refused(f, ARG, pkv_seq_match(NULL, s, &t, 1, 1, &f->work, &f->match));
    fx_refused(f, ARG, pkv_seq_match(m, s, NULL, 1, 1, &f->work, &f->match));
    fx_refused(f, ARG, pkv_seq_match(m, s, &t, 1, 1, NULL, &f->match));
    fx_refused(f, ARG, pkv_seq_match(m, s, &t, 1, 1, &f->work, NULL));
    fx_refused(f, ARG, pkv_seq_reserve(NULL, &q, 1, &f->work));
    fx_refused(f, ARG, pkv_seq_reserve(m, NULL, 1, &f->work));
    fx_refused(f, ARG, pkv_seq_reserve(m, &q, 1, NULL));
    fx_refused(f, ARG, pkv_seq_commit(NULL, s, &t, PKV_STEP_NONE));
    fx_refused(f, ARG, pkv_seq_commit(m, s, NULL, PKV_STEP_NONE));
    fx_refused(f, ARG, pkv_seq_fork(NULL, s, &kid, 1));
    fx_refused(f, ARG, pkv_seq_fork(m, s, NULL, 1));
    fx_refused(f, ARG, pkv_seq_truncate(NULL, s, 0));
    fx_refused(f, ARG, pkv_seq_close(NULL, s));
    fx_refused(f, ARG, pkv_seq_row(NULL, s, 0, &row, &n));
    fx_refused(f, ARG, pkv_seq_row(m, s, 0, NULL, &n));
    fx_refused(f, ARG, pkv_seq_row(m, s, 0, &row, NULL));
    fx_refused(f, ARG, pkv_blockmgr_rows(NULL, 0, &row, &n));
    fx_refused(f, ARG, pkv_blockmgr_rows(m, 0, NULL, &n));
    fx_refused(f, ARG, pkv_blockmgr_rows(m, 0, &row, NULL));
    fx_refused(f, ARG, pkv_seq_slots(NULL, s, 0, 0, 1, &slot));
    fx_refused(f, ARG, pkv_seq_slots(m, s, 0, 0, 1, NULL));
    fx_refused(f, ARG, pkv_seq_info(NULL, s, &info));
    fx_refused(f, ARG, pkv_seq_info(m, s, NULL));
    fx_refused(f, ARG, pkv_blockmgr_probe(NULL, ns, &t, &f->match));
    fx_refused(f, ARG, pkv_blockmgr_probe(m, ns, NULL, &f->match));
    fx_refused(f, ARG, pkv_blockmgr_probe(m, ns, &t, NULL));
    fx_refused(f, ARG, pkv_blockmgr_need(NULL, &q, 1, &need));
    fx_refused(f, ARG, pkv_blockmgr_need(m, NULL, 1, &need));
    fx_refused(f, ARG, pkv_blockmgr_need(m, &q, 1, NULL));
    fx_refused(f, ARG, pkv_blockmgr_check(NULL, 1));
    fx_close(f, s);
    fx_end(f);
}

static void numbers(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f), kid[2], e = fx_open(f);
    static const int32_t negative[3] = { -1, INT32_MIN, -1000 };
    int32_t ids[4] = { 0 }, n;
    const int32_t *row;
    int64_t slots[8];
    pkv_tokens t = { ids, 4, NULL, 0 };
    pkv_blockmgr *m = f->m;
    fx_reserve(f, s, 8);
    for (int i = 0; i < 3; i++) {
        int32_t no = negative[i];
        pkv_reserve_req q = { s, no };
        pkv_tokens minus = { ids, no, NULL, 0 }, ex = { ids, 4, NULL, no };
        pkv_need need = PKV_NEED_INIT;
        fx_refused(f, ARG, pkv_seq_match(m, e, &t, no, 0, &f->work, &f->match));
        fx_refused(f, ARG, pkv_seq_match(m, e, &t, 4, no, &f->work, &f->match));
        fx_refused(f, ARG, pkv_seq_match(m, e, &minus, 4, 4, &f->work, &f->match));
        fx_refused(f, ARG, pkv_seq_match(m, e, &ex, 4, 4, &f->work, &f->match));
        fx_refused(f, ARG, pkv_blockmgr_probe(m, (pkv_ns){ 0 }, &minus, &f->match));
        fx_refused(f, ARG, pkv_blockmgr_probe(m, (pkv_ns){ 0 }, &ex, &f->match));
        fx_refused(f, ARG, pkv_seq_commit(m, s, &minus, PKV_STEP_NONE));
        fx_refused(f, ARG, pkv_seq_commit(m, s, &ex, PKV_STEP_NONE));
        fx_refused(f, ARG, pkv_seq_reserve(m, &q, 1, &f->work));
        fx_refused(f, ARG, pkv_seq_reserve(m, &q, no, &f->work));
        fx_refused(f, ARG, pkv_seq_fork(m, s, kid, no));
        fx_refused(f, ARG, pkv_seq_truncate(m, s, no));
        fx_refused(f, ARG, pkv_seq_row(m, s, no, &row, &n));
        fx_refused(f, ARG, pkv_blockmgr_rows(m, no, &row, &n));
        fx_refused(f, ARG, pkv_seq_slots(m, s, no, 0, 1, slots));
        fx_refused(f, ARG, pkv_seq_slots(m, s, 0, no, 1, slots));
        fx_refused(f, ARG, pkv_seq_slots(m, s, 0, 0, no, slots));
        fx_refused(f, ARG, pkv_blockmgr_check(m, no));
        q.n_tokens = no;
        assert_ok(pkv_blockmgr_need(m, &q, 1, &need));
        assert_int_equal(need.verdict, ARG);
    }
    fx_refused(f, ARG, pkv_seq_fork(m, s, kid, 0));
    fx_refused(f, ARG, pkv_seq_truncate(m, s, 9));
    fx_refused(f, ARG, pkv_seq_truncate(m, s, INT32_MAX));
    fx_refused(f, ARG, pkv_seq_row(m, s, 1, &row, &n));
    fx_refused(f, ARG, pkv_seq_slots(m, s, 1, 0, 1, slots));
    fx_refused(f, ARG, pkv_seq_slots(m, s, 0, INT32_MAX, INT32_MAX, slots));
    fx_refused(f, ARG, pkv_seq_slots(m, s, 0, 1, INT32_MAX, slots));
    fx_refused(f, ARG, pkv_seq_slots(m, s, 0, INT32_MAX, 1, slots));
    fx_refused(f, ARG, pkv_blockmgr_check(m, 0));
    fx_refused(f, ARG, pkv_blockmgr_check(m, 4));
    fx_refused(f, ARG, pkv_blockmgr_rows(m, PKV_MAX_GROUPS, &row, &n));
    pkv_reserve_req twice[3] = { { s, 1 }, { e, 1 }, { s, 1 } };
    fx_refused(f, ARG, pkv_seq_reserve(m, twice, 3, &f->work));
    fx_refused(f, ARG,
               pkv_seq_match(m, e, &(pkv_tokens){ NULL, 4, NULL, 0 }, 4, 4, &f->work, &f->match));
    fx_refused(f, ARG, pkv_seq_commit(m, s, &(pkv_tokens){ NULL, 4, NULL, 0 }, PKV_STEP_NONE));
    fx_end(f);
}

/* Lists of extras: each rule broken alone. */
static void malformed_extras(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f), e = fx_open(f);
    int32_t ids[8] = { 0 };
    static const pkv_extra bad[][2] = {
        { { 0, 0, { 0 } }, { 2, 1, { 0 } } },  /* empty */
        { { 0, -1, { 0 } }, { 2, 1, { 0 } } }, /* negative */
        { { -2, 2, { 0 } }, { 2, 1, { 0 } } }, /* ended before */
        { { INT32_MIN, INT32_MAX, { 0 } }, { 2, 1, { 0 } } },
        { { 0, 1, { 0 } }, { 8, 1, { 0 } } }, /* begins behind the tokens */
        { { 0, 1, { 0 } }, { INT32_MAX, INT32_MAX, { 0 } } },
        { { 3, 1, { 0 } }, { 2, 1, { 0 } } }, /* not sorted */
        { { 0, 3, { 0 } }, { 2, 1, { 0 } } }, /* overlap */
        { { 2, 1, { 0 } }, { 2, 1, { 0 } } }, /* the same twice */
        { { 0, INT32_MAX, { 0 } }, { 2, 1, { 0 } } },
    };
    fx_reserve(f, s, 8);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pkv_tokens t = { ids, 8, bad[i], 2 };
        fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
        fx_refused(f, ARG, pkv_seq_match(f->m, e, &t, 8, 8, &f->work, &f->match));
        fx_refused(f, ARG, pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &f->match));
    }
    pkv_tokens t = { ids, 8, NULL, 1 };
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_refused(f, ARG, pkv_seq_match(f->m, e, &t, 8, 8, &f->work, &f->match));
    fx_refused(f, ARG, pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &f->match));
    static const pkv_extra extreme[2] = { { -INT32_MAX, INT32_MAX, { 0 } },
                                          { 7, INT32_MAX, { 1 } } };
    t = (pkv_tokens){ ids, 8, extreme, 2 };
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE)); /* ends at 0 exactly */
    static const pkv_extra good[2] = { { -(INT32_MAX - 1), INT32_MAX, { 0 } },
                                       { 7, INT32_MAX, { 1 } } };
    t.extras = good; /* as far as int32 goes: covers token 0; and from token 7 on */
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &f->match));
    assert_int_equal(f->match.claimed, 8);
    fx_end(f);
}

/* While a block is being filled, the first extra of a call goes on from the last one given. */
static void extras_that_do_not_continue(void **state)
{
    (void)state;
    fx *f = fx_new(20, 8, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f);
    int32_t ids[8] = { 0 };
    pkv_extra ex = { 1, 4, { 5 } };
    pkv_tokens t = { ids, 3, &ex, 1 };
    fx_reserve(f, s, 8);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    ex = (pkv_extra){ -2, 5, { 5 } }; /* another length */
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    ex = (pkv_extra){ -2, 4, { 6 } }; /* another digest */
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    ex = (pkv_extra){ -3, 4, { 5 } }; /* another place, before */
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    ex = (pkv_extra){ -2, 4, { 5 } };
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stale_sequences),  cmocka_unit_test(stale_namespaces),
        cmocka_unit_test(null_pointers),    cmocka_unit_test(numbers),
        cmocka_unit_test(malformed_extras), cmocka_unit_test(extras_that_do_not_continue),
    };
    return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
