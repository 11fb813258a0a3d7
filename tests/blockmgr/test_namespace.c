/* Namespaces: identity of content, handles, what the last close forgets. */
#include "mgr_fixture.h"

static pkv_ns open_ns(fx *f, const pkv_ns_params *p)
{
    pkv_ns ns;
    assert_ok(pkv_ns_open(f->m, p, &ns));
    return ns;
}

static pkv_ns_params salt(const char *text)
{
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    p.salt = text;
    p.salt_bytes = strlen(text);
    return p;
}

static pkv_seq with_ns(fx *f, pkv_ns ns, const char *text)
{
    pkv_seq s;
    assert_ok(pkv_seq_open(f->m, ns, &s));
    fx_commit(f, s, text);
    return s;
}

static int32_t probe_ns(fx *f, pkv_ns ns, const char *text)
{
    int32_t ids[64];
    pkv_tokens t = fx_text(text, ids);
    pkv_match m = PKV_MATCH_INIT;
    assert_ok(pkv_blockmgr_probe(f->m, ns, &t, &m));
    return m.claimed;
}

/* Every kind of field, each with the same bytes, and fields whose concatenations are equal. */
static int all_kinds(pkv_ns_params *p)
{
    static const char *const text = "abcabc";
    int n = 0;
    for (int k = 1; k < 8; k++) { /* which of the three strings are there, each "abc" */
        p[n] = (pkv_ns_params)PKV_NS_PARAMS_INIT;
        if (k & 1) p[n].kv_format = text, p[n].kv_format_bytes = 3;
        if (k & 2) p[n].adapter = text, p[n].adapter_bytes = 3;
        if (k & 4) p[n].salt = text, p[n].salt_bytes = 3;
        n++;
    }
    for (int k = 1; k < 6; k++) { /* "a|bcabc", "ab|cabc", ...: the same bytes in a row */
        p[n] = (pkv_ns_params)PKV_NS_PARAMS_INIT;
        p[n].adapter = text, p[n].adapter_bytes = (size_t)k;
        p[n].salt = text + k, p[n].salt_bytes = 6 - (size_t)k;
        n++;
    }
    p[n - 3].kv_format = ""; /* a pointer to nothing is nothing: no new identity */
    p[n] = (pkv_ns_params)PKV_NS_PARAMS_INIT;
    memcpy(p[n++].model_digest, "abc", 3);
    p[n] = (pkv_ns_params)PKV_NS_PARAMS_INIT;
    p[n++].model_digest[31] = 1;
    return n;
}

static void fields_are_typed(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 60;
    cfg.block_tokens = 4;
    cfg.max_seqs = 2;
    cfg.max_seq_tokens = 64;
    fx *f = fx_from(&cfg);
    pkv_ns_params p[20];
    pkv_ns ns[20];
    int n = all_kinds(p);
    for (int i = 0; i < n; i++) {
        ns[i] = open_ns(f, &p[i]);
        assert_true(ns[i].v != 0);
        for (int k = 0; k < i; k++) {
            bool same = p[i].adapter_bytes == p[k].adapter_bytes && p[i].adapter_bytes == 3 &&
                        p[i].salt_bytes == 3 && p[k].salt_bytes == 3 && !p[i].kv_format_bytes &&
                        !p[k].kv_format_bytes;
            assert_true((ns[i].v == ns[k].v) == same);
        }
    }
    for (int i = 0; i < n; i++) {
        fx_close(f, with_ns(f, ns[i], "wxyz"));
        for (int k = 0; k < n; k++) {
            bool there = false;
            for (int j = 0; j <= i; j++) there = there || ns[j].v == ns[k].v;
            assert_int_equal(probe_ns(f, ns[k], "wxyz"), there ? 4 : 0);
        }
        assert_int_equal(fx_probe(f, "wxyz"), 0);
    }
    fx_end(f);
}

static void one_identity_is_one_namespace(void **state)
{
    (void)state;
    fx *f = fx_new(30, 4, PKV_MGR_PREFIX_CACHE);
    pkv_ns_params empty = PKV_NS_PARAMS_INIT, x = salt("x"), y = salt("y");
    assert_true(open_ns(f, &empty).v == 0);
    pkv_ns a = open_ns(f, &x), b = open_ns(f, &y);
    assert_true(a.v != b.v && open_ns(f, &x).v == a.v);
    assert_int_equal(fx_stats(f).open_namespaces, 3);
    fx_close(f, with_ns(f, a, "abcdefgh"));
    assert_ok(pkv_ns_close(f->m, a)); /* opened twice: still there */
    assert_int_equal(probe_ns(f, a, "abcdefgh"), 8);
    pkv_seq s = with_ns(f, a, "abcdefgh");
    assert_true(fx_info(f, s).ns.v == a.v);
    fx_refused(f, PKV_E_STATE, pkv_ns_close(f->m, a));
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    assert_ok(pkv_ns_close(f->m, a));
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    assert_int_equal(fx_stats(f).nodes, 0);
    assert_int_equal(fx_stats(f).open_namespaces, 2);
    fx_refused(f, PKV_E_STALE, pkv_ns_close(f->m, a));
    fx_refused(f, PKV_E_STALE, pkv_seq_open(f->m, a, &s));
    pkv_ns again = open_ns(f, &x); /* the same fields later: empty, and another handle */
    assert_true(again.v != a.v);
    assert_int_equal(probe_ns(f, again, "abcdefgh"), 0);
    fx_refused(f, PKV_E_INVALID_ARG, pkv_ns_close(f->m, (pkv_ns){ 0 }));
    fx_end(f);
}

/* Children before parents, newest child first: the next takes show it, last freed first. */
static void closing_frees_in_order(void **state)
{
    (void)state;
    fx *f = fx_new(9, 1, PKV_MGR_PREFIX_CACHE);
    pkv_ns_params x = salt("x");
    pkv_ns ns = open_ns(f, &x);
    pkv_seq s[4] = { with_ns(f, ns, "ab"), with_ns(f, ns, "ac"), with_ns(f, ns, "d"),
                     with_ns(f, ns, "abe") };
    int32_t a = fx_block(f, s[3], 0), b = fx_block(f, s[3], 1), c = fx_block(f, s[1], 1),
            d = fx_block(f, s[2], 0),
            e = fx_block(f, s[3], 2); /* s[3] closes last: its blocks stay */
    for (int i = 0; i < 4; i++) fx_close(f, s[i]);
    assert_int_equal(fx_stats(f).cached_blocks, 5);
    assert_ok(pkv_ns_close(f->m, ns)); /* d, then c, e, b, a */
    int32_t want[5] = { a, b, e, c, d };
    pkv_seq t = fx_open(f);
    fx_reserve(f, t, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(fx_block(f, t, i), want[i]);
    fx_close(f, t);
    fx_end(f);
}

static void fields_have_limits(void **state)
{
    (void)state;
    fx *f = fx_new(9, 4, PKV_MGR_PREFIX_CACHE);
    char *big = calloc(1, 65536);
    assert_non_null(big);
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns = { 5 };
    p.salt = big;
    p.salt_bytes = 65536;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_ns_open(f->m, &p, &ns));
    p.salt_bytes = SIZE_MAX;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_ns_open(f->m, &p, &ns));
    p.salt = NULL;
    p.salt_bytes = 1;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_ns_open(f->m, &p, &ns));
    assert_true(ns.v == 5);
    p.salt = big;
    p.salt_bytes = 65535;
    pkv_ns long_one = open_ns(f, &p);
    big[65534] = 1;
    assert_true(open_ns(f, &p).v != long_one.v);
    free(big);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_typed),
        cmocka_unit_test(one_identity_is_one_namespace),
        cmocka_unit_test(closing_frees_in_order),
        cmocka_unit_test(fields_have_limits),
    };
    return cmocka_run_group_tests_name("namespace", tests, NULL, NULL);
}
