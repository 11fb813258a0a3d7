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

/* While a block is being filled, the first extra of a call is the last one given for it, or begins
 * in the new tokens: what began in tokens that are there had no part in their K/V. */
static void extras_that_do_not_continue(void **state)
{
    (void)state;
    fx *f = fx_new(20, 8, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f);
    int32_t ids[8] = { 0 };
    pkv_extra ex = { 1, 4, { 5 } };
    pkv_tokens t = { ids, 3, &ex, 1 };
    static const pkv_extra bad[] = {
        { -2, 5, { 5 } },  /* another length */
        { -2, 4, { 6 } },  /* another digest */
        { -3, 4, { 5 } },  /* another place: before, */
        { -1, 4, { 5 } },  /* behind, but in tokens that are there */
        { -9, 10, { 5 } }, /* began before the block, in nothing */
        { INT32_MIN, INT32_MAX, { 5 } },
    };
    fx_reserve(f, s, 16);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ex = bad[i];
        fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    }
    ex = (pkv_extra){ -2, 4, { 5 } };
    t.n = 1;
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE)); /* the same */
    ex = (pkv_extra){ 0, 9, { 6 } };
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE)); /* the first new token */
    t.n = 3;
    ex = (pkv_extra){ -4, 5, { 5 } };
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE)); /* not the last one any more */
    ex = (pkv_extra){ -1, 9, { 6 } };
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE)); /* fills the block */
    assert_int_equal(fx_info(f, s).n_indexed, 1);
    t.n = 1;
    ex = (pkv_extra){ -7, 8, { 9 } }; /* a new block: what began before is the caller's word */
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_end(f);
}

/* The same where no extra was given at all for the block, and where nothing is indexed. */
static void extras_that_come_too_late(void **state)
{
    (void)state;
    int32_t ids[8] = { 0 };
    pkv_extra ex = { -1, 2, { 5 } };
    pkv_tokens plain = { ids, 3, NULL, 0 }, late = { ids, 2, &ex, 1 };
    fx *f = fx_new(20, 8, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 8);
    assert_ok(pkv_seq_commit(f->m, s, &late, PKV_STEP_NONE)); /* no tokens yet */
    assert_ok(pkv_seq_truncate(f->m, s, 0));
    fx_reserve(f, s, 8);
    assert_ok(pkv_seq_commit(f->m, s, &plain, PKV_STEP_NONE));
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &late, PKV_STEP_NONE));
    late.n = 6; /* judged before the room is */
    fx_refused(f, ARG, pkv_seq_commit(f->m, s, &late, PKV_STEP_NONE));
    late.n = 2, ex.first = 0;
    assert_ok(pkv_seq_commit(f->m, s, &late, PKV_STEP_NONE));
    fx_end(f);
    f = fx_new(20, 8, 0);
    s = fx_open(f);
    fx_reserve(f, s, 8);
    ex.first = -1;
    assert_ok(pkv_seq_commit(f->m, s, &plain, PKV_STEP_NONE));
    assert_ok(pkv_seq_commit(f->m, s, &late, PKV_STEP_NONE));
    fx_end(f);
}

/* All structs that begin with struct_size, what else the calls write, and their arguments. */
struct abi {
    pkv_ns_params params;
    pkv_blockmgr_config cfg;
    pkv_plan_result plan;
    pkv_block_work work;
    pkv_match match;
    pkv_need need;
    pkv_seq_info_t info;
    pkv_blockmgr *made;
    pkv_ns ns;
    int32_t zero[4];
    pkv_block_copy copy[4];
    void *arena;
    size_t arena_bytes;
};

enum abi_call { NS_OPEN, INIT, CREATE, PLAN, MATCH, PROBE, RESERVE, NEED, INFO };

static pkv_status abi_call(fx *f, enum abi_call call, pkv_seq s, struct abi *x)
{
    static const int32_t ids[4] = { 'a', 'b', 'c', 'd' };
    const pkv_tokens t = { ids, 4, NULL, 0 };
    const pkv_reserve_req q = { s, 4 };
    const pkv_kv_shape shape = { 1, 1, 8, 4, PKV_F32 };
    switch (call) {
    case NS_OPEN:
        return pkv_ns_open(f->m, &x->params, &x->ns);
    case INIT:
        return pkv_blockmgr_init(x->arena, x->arena_bytes, &x->cfg, &x->made);
    case CREATE:
        return pkv_blockmgr_create(&x->cfg, NULL, &x->made);
    case PLAN:
        return pkv_plan(&shape, 1 << 20, &x->cfg, &x->plan);
    case MATCH:
        return pkv_seq_match(f->m, s, &t, 4, 12, &x->work, &x->match);
    case PROBE:
        return pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &x->match);
    case RESERVE:
        return pkv_seq_reserve(f->m, &q, 1, &x->work);
    case NEED:
        return pkv_blockmgr_need(f->m, &q, 1, &x->need);
    case INFO:
        break;
    }
    return pkv_seq_info(f->m, s, &x->info);
}

/* Structs with the size of this library and other bytes that a call would have to change. */
static void fill_abi(fx *f, struct abi *x)
{
    void *arena = x->arena;
    memset(x, 0x5a, sizeof *x);
    x->params = (pkv_ns_params)PKV_NS_PARAMS_INIT;
    x->params.model_digest[0] = 1;
    x->cfg = f->cfg;
    x->plan.struct_size = sizeof x->plan;
    x->work = (pkv_block_work){ sizeof x->work, x->zero, 4, 77, x->copy, 4, 77 };
    x->match.struct_size = sizeof x->match;
    x->need.struct_size = sizeof x->need;
    x->info.struct_size = sizeof x->info;
    x->made = NULL;
    x->arena = arena;
    x->arena_bytes = pkv_blockmgr_bytes(&f->cfg);
}

/* A struct of another size: whatever else is right, the answer is PKV_E_ABI, and the same call with
 * the right size is answered. */
static void other_struct_sizes(void **state)
{
    (void)state;
#define SIZED(call, member)                                                                        \
    {                                                                                              \
        call, offsetof(struct abi, member.struct_size), sizeof(((struct abi *)0)->member)          \
    }
    static const struct {
        enum abi_call call;
        size_t at, size;
    } sized[] = { SIZED(NS_OPEN, params), SIZED(INIT, cfg),    SIZED(CREATE, cfg),
                  SIZED(PLAN, cfg),       SIZED(PLAN, plan),   SIZED(MATCH, work),
                  SIZED(MATCH, match),    SIZED(PROBE, match), SIZED(RESERVE, work),
                  SIZED(NEED, need),      SIZED(INFO, info) };
#undef SIZED
    for (size_t i = 0; i < sizeof sized / sizeof sized[0]; i++) {
        fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
        struct abi x, before;
        fx_close(f, fx_with(f, "abcd"));
        pkv_seq s = fx_open(f);
        x.arena = aligned_alloc(64, pkv_blockmgr_bytes(&f->cfg));
        assert_non_null(x.arena);
        fill_abi(f, &x);
        const uint32_t right = (uint32_t)sized[i].size;
        const uint32_t wrong[] = { 0, 4, right - 4, right - 1, right + 1, right + 4, UINT32_MAX };
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            memcpy((char *)&x + sized[i].at, &wrong[k], sizeof wrong[k]);
            memcpy(&before, &x, sizeof x);
            fx_refused(f, PKV_E_ABI, abi_call(f, sized[i].call, s, &x));
            assert_memory_equal(&x, &before, sizeof x);
        }
        memcpy((char *)&x + sized[i].at, &right, sizeof right);
        memcpy(&before, &x, sizeof x);
        assert_ok(abi_call(f, sized[i].call, s, &x));
        assert_memory_not_equal(&x, &before, sizeof x);
        if (sized[i].call == CREATE) pkv_blockmgr_destroy(x.made);
        free(x.arena);
        fx_close(f, s);
        fx_end(f);
    }
}

/* Statistics have no status: another size leaves them alone. */
static void other_size_of_statistics(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
    pkv_blockmgr_stats_t s, before;
    const uint32_t right = sizeof s;
    const uint32_t wrong[] = { 0, 4, right - 4, right - 1, right + 1, right + 4, UINT32_MAX };
    memset(&s, 0x5a, sizeof s);
    for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
        s.struct_size = wrong[k];
        memcpy(&before, &s, sizeof s);
        pkv_blockmgr_stats(f->m, &s);
        assert_memory_equal(&s, &before, sizeof s);
    }
    s.struct_size = right;
    pkv_blockmgr_stats(f->m, &s);
    assert_int_equal(s.struct_size, right);
    assert_int_equal(s.n_blocks, 20);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stale_sequences),
        cmocka_unit_test(stale_namespaces),
        cmocka_unit_test(null_pointers),
        cmocka_unit_test(numbers),
        cmocka_unit_test(malformed_extras),
        cmocka_unit_test(extras_that_do_not_continue),
        cmocka_unit_test(extras_that_come_too_late),
        cmocka_unit_test(other_struct_sizes),
        cmocka_unit_test(other_size_of_statistics),
    };
    return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
