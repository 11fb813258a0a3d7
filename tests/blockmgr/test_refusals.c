/* Misuse of the second layer: every parameter of every function null, negative, extreme, stale or
 * invented. The answer is a status, nothing changes, no output is written. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_tables.h"

#define ARG PKV_E_INVALID_ARG
#define STALE PKV_E_STALE

static const int32_t NEGATIVE[3] = { -1, INT32_MIN, -1000 };

static fx *with_host(void)
{
    pkv_blockmgr_config cfg = fx_config(20, 4, PKV_MGR_PREFIX_CACHE);
    cfg.n_host_blocks = 8;
    return fx_from(&cfg);
}

/* Handles that were never given out, and one that was. */
static int bad_seqs(fx *f, pkv_seq *s)
{
    pkv_seq closed = fx_open(f), good = fx_open(f);
    fx_close(f, closed);
    int n = 0;
    s[n++] = closed;
    s[n++].v = 0;
    s[n++].v = UINT64_MAX;
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
    fx *f = with_host();
    pkv_seq bad[7], live = fx_with(f, "abcd");
    pkv_hold h = { 7 };
    pkv_swap_copy copy[4];
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    int32_t n = 7, m = 7, ids[4] = { 7 };
    int64_t slots[4] = { 7 };
    int n_bad = bad_seqs(f, bad);
    for (int i = 0; i < n_bad; i++) {
        pkv_seq two[2] = { live, bad[i] };
        fx_refused(f, STALE, pkv_seq_retain(f->m, bad[i], 0, 0, 3));
        fx_refused(f, STALE, pkv_seq_snapshot(f->m, bad[i], &f->work));
        fx_refused(f, STALE, pkv_seqs_common(f->m, two, 2, 0, &n));
        fx_refused(f, STALE, pkv_seq_view_slots(f->m, bad[i], 0, &v, 0, 1, slots));
        fx_refused(f, STALE, pkv_seq_view_row(f->m, bad[i], 0, &v, ids, 4, &n, &m));
        fx_refused(f, STALE, pkv_hold_open(f->m, bad[i], 1, 5, &h));
        fx_refused(f, STALE, pkv_seqs_suspend(f->m, two, 2, 5, copy, 4, &n, &h));
        fx_refused(f, STALE, pkv_seqs_resume(f->m, two, 2, 5, copy, 4, &n, &h));
    }
    assert_true(n == 7 && m == 7 && h.v == 7 && ids[0] == 7 && slots[0] == 7);
    fx_close(f, live);
    fx_end(f);
}

static void stale_steps_and_holds(void **state)
{
    (void)state;
    fx *f = with_host();
    pkv_seq s = fx_with(f, "abcd");
    pkv_step retired = fx_begin(f), open;
    int32_t n = 7, ids[4] = { 7 };
    fx_retire(f, retired);
    open = fx_begin(f);
    const uint64_t steps[] = { 0, retired.v, open.v + 1, UINT64_MAX, open.v + ((uint64_t)1 << 32) };
    for (int i = 0; i < 5; i++) {
        fx_refused(f, STALE, pkv_step_retire(f->m, (pkv_step){ steps[i] }));
        fx_refused(f, STALE, pkv_step_abort(f->m, (pkv_step){ steps[i] }));
    }
    fx_retire(f, open);
    pkv_hold h;
    assert_ok(pkv_hold_open(f->m, s, 4, 5, &h));
    const uint64_t holds[] = { 0, UINT64_MAX, h.v + ((uint64_t)1 << 32), h.v & 0xffffffffu,
                               h.v + 1 };
    for (int i = 0; i < 5; i++) {
        fx_refused(f, STALE, pkv_hold_blocks(f->m, (pkv_hold){ holds[i] }, 0, ids, 4, &n));
        fx_refused(f, STALE, pkv_hold_reclaim(f->m, (pkv_hold){ holds[i] }));
        fx_refused(f, PKV_OK, (pkv_hold_post(f->m, (pkv_hold){ holds[i] }, PKV_OK), PKV_OK));
    }
    assert_true(n == 7 && ids[0] == 7);
    pkv_hold_result r[1];
    pkv_hold_post(f->m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 0, r, 1, &n));
    assert_int_equal(n, 1);
    fx_close(f, s);
    fx_end(f);
}

static void stale_namespaces(void **state)
{
    (void)state;
    fx *f = with_host();
    int32_t id, n = 7, tokens[4] = { 0 };
    pkv_tokens t = { tokens, 4, NULL, 0 };
    const uint64_t ns[] = { 1, UINT64_MAX, (uint64_t)1 << 32, (uint64_t)1 << 32 | 64 };
    assert_ok(pkv_blocks_take(f->m, 1, &id, &f->work));
    for (int i = 0; i < 4; i++) {
        int32_t got = 7;
        fx_refused(f, STALE, pkv_block_publish(f->m, (pkv_ns){ ns[i] }, 0, &t, id));
        fx_refused(f, STALE, pkv_blocks_lookup(f->m, (pkv_ns){ ns[i] }, &t, &got, 1, &n));
        assert_int_equal(got, 7);
    }
    assert_int_equal(n, 7);
    assert_ok(pkv_blocks_unref(f->m, &id, 1));
    fx_end(f);
}

static void null_steps_policy_tables(void **state)
{
    (void)state;
    fx *f = with_host();
    pkv_blockmgr *m = f->m;
    pkv_seq s = fx_with(f, "abcd");
    pkv_step step = fx_begin(f), no = { 7 };
    pkv_delta d = PKV_DELTA_INIT;
    pkv_table_range r[4];
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    int32_t ids[4], n = 7, k = 7;
    int64_t slots[4];
    fx_refused(f, ARG, pkv_step_begin(NULL, &no));
    fx_refused(f, ARG, pkv_step_begin(m, NULL));
    fx_refused(f, ARG, pkv_step_retire(NULL, step));
    fx_refused(f, ARG, pkv_step_abort(NULL, step));
    fx_refused(f, ARG, pkv_seq_retain(NULL, s, 0, 1, 3));
    fx_refused(f, ARG, pkv_blockmgr_decay(NULL));
    fx_refused(f, ARG, pkv_blockmgr_evict(NULL, 1, &n));
    fx_refused(f, ARG, pkv_blockmgr_evict(m, 1, NULL));
    fx_refused(f, ARG, pkv_blockmgr_new_epoch(NULL));
    fx_refused(f, ARG, pkv_seq_snapshot(NULL, s, &f->work));
    fx_refused(f, ARG, pkv_seq_snapshot(m, s, NULL));
    fx_refused(f, ARG, pkv_table_delta(NULL, 0, r, 4, ids, 4, &d));
    fx_refused(f, ARG, pkv_table_delta(m, 0, NULL, 4, ids, 4, &d));
    fx_refused(f, ARG, pkv_table_delta(m, 0, NULL, 1, ids, 4, &d));
    fx_refused(f, ARG, pkv_table_delta(m, 0, r, 4, NULL, 4, &d));
    fx_refused(f, ARG, pkv_table_delta(m, 0, r, 4, NULL, 1, &d));
    fx_refused(f, ARG, pkv_table_delta(m, 0, r, 4, ids, 4, NULL));
    fx_refused(f, ARG, pkv_table_resync(NULL, 0));
    fx_refused(f, ARG, pkv_seqs_common(NULL, &s, 1, 0, &n));
    fx_refused(f, ARG, pkv_seqs_common(m, NULL, 1, 0, &n));
    fx_refused(f, ARG, pkv_seqs_common(m, &s, 1, 0, NULL));
    fx_refused(f, ARG, pkv_seq_view_slots(NULL, s, 0, &v, 0, 1, slots));
    fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, NULL, 0, 1, slots));
    fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, &v, 0, 1, NULL));
    fx_refused(f, ARG, pkv_seq_view_row(NULL, s, 0, &v, ids, 4, &n, &k));
    fx_refused(f, ARG, pkv_seq_view_row(m, s, 0, NULL, ids, 4, &n, &k));
    fx_refused(f, ARG, pkv_seq_view_row(m, s, 0, &v, NULL, 4, &n, &k));
    fx_refused(f, ARG, pkv_seq_view_row(m, s, 0, &v, ids, 4, NULL, &k));
    fx_refused(f, ARG, pkv_seq_view_row(m, s, 0, &v, ids, 4, &n, NULL));
    assert_true(no.v == 7 && n == 7 && k == 7 && d.n_ranges == 0);
    fx_retire(f, step);
    fx_close(f, s);
    fx_end(f);
}

static void null_holds_swap_raw(void **state)
{
    (void)state;
    fx *f = with_host();
    pkv_blockmgr *m = f->m;
    pkv_seq s = fx_with(f, "abcd");
    pkv_hold h, no = { 7 };
    pkv_hold_result r[1];
    pkv_swap_copy copy[4];
    const pkv_ns ns = { 0 };
    int32_t ids[4], n = 7, tokens[4] = { 0 };
    pkv_tokens t = { tokens, 4, NULL, 0 }, without = { NULL, 4, NULL, 0 };
    pkv_tokens bad_extras = { tokens, 4, NULL, 1 };
    assert_ok(pkv_hold_open(m, s, 4, PKV_DEADLINE_NEVER, &h));
    assert_ok(pkv_blocks_take(m, 1, ids, &f->work));
    fx_refused(f, ARG, pkv_hold_open(NULL, s, 1, 5, &no));
    fx_refused(f, ARG, pkv_hold_open(m, s, 1, 5, NULL));
    fx_refused(f, ARG, pkv_hold_blocks(NULL, h, 0, ids + 1, 3, &n));
    fx_refused(f, ARG, pkv_hold_blocks(m, h, 0, NULL, 3, &n));
    fx_refused(f, ARG, pkv_hold_blocks(m, h, 0, ids + 1, 3, NULL));
    fx_refused(f, ARG, pkv_blockmgr_poll(NULL, 1, r, 1, &n));
    fx_refused(f, ARG, pkv_blockmgr_poll(m, 1, NULL, 1, &n));
    fx_refused(f, ARG, pkv_blockmgr_poll(m, 1, r, 1, NULL));
    fx_refused(f, ARG, pkv_hold_reclaim(NULL, h));
    fx_refused(f, ARG, pkv_seqs_suspend(NULL, &s, 1, 5, copy, 4, &n, &no));
    fx_refused(f, ARG, pkv_seqs_suspend(m, NULL, 1, 5, copy, 4, &n, &no));
    fx_refused(f, ARG, pkv_seqs_suspend(m, &s, 1, 5, NULL, 4, &n, &no));
    fx_refused(f, ARG, pkv_seqs_suspend(m, &s, 1, 5, copy, 4, NULL, &no));
    fx_refused(f, ARG, pkv_seqs_suspend(m, &s, 1, 5, copy, 4, &n, NULL));
    fx_refused(f, ARG, pkv_seqs_resume(NULL, &s, 1, 5, copy, 4, &n, &no));
    fx_refused(f, ARG, pkv_seqs_resume(m, NULL, 1, 5, copy, 4, &n, &no));
    fx_refused(f, ARG, pkv_seqs_resume(m, &s, 1, 5, NULL, 4, &n, &no));
    fx_refused(f, ARG, pkv_seqs_resume(m, &s, 1, 5, copy, 4, NULL, &no));
    fx_refused(f, ARG, pkv_seqs_resume(m, &s, 1, 5, copy, 4, &n, NULL));
    fx_refused(f, ARG, pkv_blocks_take(NULL, 1, ids + 1, &f->work));
    fx_refused(f, ARG, pkv_blocks_take(m, 1, NULL, &f->work));
    fx_refused(f, ARG, pkv_blocks_take(m, 1, ids + 1, NULL));
    fx_refused(f, ARG, pkv_blocks_ref(NULL, ids, 1));
    fx_refused(f, ARG, pkv_blocks_ref(m, NULL, 1));
    fx_refused(f, ARG, pkv_blocks_unref(NULL, ids, 1));
    fx_refused(f, ARG, pkv_blocks_unref(m, NULL, 1));
    fx_refused(f, ARG, pkv_block_publish(NULL, ns, 0, &t, ids[0]));
    fx_refused(f, ARG, pkv_block_publish(m, ns, 0, NULL, ids[0]));
    fx_refused(f, ARG, pkv_block_publish(m, ns, 0, &without, ids[0]));
    fx_refused(f, ARG, pkv_block_publish(m, ns, 0, &bad_extras, ids[0]));
    fx_refused(f, ARG, pkv_blocks_lookup(NULL, ns, &t, ids + 1, 3, &n));
    fx_refused(f, ARG, pkv_blocks_lookup(m, ns, NULL, ids + 1, 3, &n));
    fx_refused(f, ARG, pkv_blocks_lookup(m, ns, &without, ids + 1, 3, &n));
    fx_refused(f, ARG, pkv_blocks_lookup(m, ns, &bad_extras, ids + 1, 3, &n));
    fx_refused(f, ARG, pkv_blocks_lookup(m, ns, &t, NULL, 3, &n));
    fx_refused(f, ARG, pkv_blocks_lookup(m, ns, &t, ids + 1, 3, NULL));
    assert_true(n == 7 && no.v == 7);
    pkv_hold_post(m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(m, 0, r, 1, &n));
    assert_ok(pkv_blocks_unref(m, ids, 1));
    fx_close(f, s);
    fx_end(f);
}

static void numbers(void **state)
{
    (void)state;
    fx *f = with_host();
    pkv_blockmgr *m = f->m;
    pkv_seq s = fx_with(f, "abcdef");
    pkv_hold h, no = { 7 };
    pkv_hold_result r[1];
    pkv_swap_copy copy[4];
    pkv_delta d = PKV_DELTA_INIT;
    pkv_table_range ranges[4];
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    int32_t ids[8], n = 7, k = 7, tokens[4] = { 0 };
    int64_t slots[8];
    assert_ok(pkv_hold_open(m, s, 4, PKV_DEADLINE_NEVER, &h));
    for (int i = 0; i < 3; i++) {
        const int32_t minus = NEGATIVE[i];
        const pkv_tokens t = { tokens, minus, NULL, 0 }, ex = { tokens, 4, NULL, minus };
        fx_refused(f, ARG, pkv_seq_retain(m, s, minus, 1, 3));
        fx_refused(f, ARG, pkv_seq_retain(m, s, 0, minus, 3));
        fx_refused(f, ARG, pkv_seq_retain(m, s, 0, 1, minus));
        fx_refused(f, ARG, pkv_blockmgr_evict(m, minus, &n));
        fx_refused(f, ARG, pkv_table_delta(m, minus, ranges, 4, ids, 8, &d));
        fx_refused(f, ARG, pkv_table_delta(m, 0, ranges, minus, ids, 8, &d));
        fx_refused(f, ARG, pkv_table_delta(m, 0, ranges, 4, ids, minus, &d));
        fx_refused(f, ARG, pkv_table_resync(m, minus));
        fx_refused(f, ARG, pkv_seqs_common(m, &s, minus, 0, &n));
        fx_refused(f, ARG, pkv_seqs_common(m, &s, 1, minus, &n));
        fx_refused(f, ARG, pkv_seq_view_slots(m, s, minus, &v, 0, 1, slots));
        fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, &v, minus, 1, slots));
        fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, &v, 0, minus, slots));
        fx_refused(f, ARG, pkv_seq_view_row(m, s, minus, &v, ids, 8, &n, &k));
        fx_refused(f, ARG, pkv_seq_view_row(m, s, 0, &v, ids, minus, &n, &k));
        fx_refused(f, ARG, pkv_hold_open(m, s, minus, 5, &no));
        fx_refused(f, ARG, pkv_hold_blocks(m, h, minus, ids, 8, &n));
        fx_refused(f, ARG, pkv_hold_blocks(m, h, 0, ids, minus, &n));
        fx_refused(f, ARG, pkv_blockmgr_poll(m, 1, r, minus, &n));
        fx_refused(f, ARG, pkv_seqs_suspend(m, &s, minus, 5, copy, 4, &n, &no));
        fx_refused(f, ARG, pkv_seqs_suspend(m, &s, 1, 5, copy, minus, &n, &no));
        fx_refused(f, ARG, pkv_seqs_resume(m, &s, minus, 5, copy, 4, &n, &no));
        fx_refused(f, ARG, pkv_seqs_resume(m, &s, 1, 5, copy, minus, &n, &no));
        fx_refused(f, ARG, pkv_blocks_take(m, minus, ids, &f->work));
        fx_refused(f, ARG, pkv_blocks_ref(m, ids, minus));
        fx_refused(f, ARG, pkv_blocks_unref(m, ids, minus));
        fx_refused(f, ARG, pkv_block_publish(m, (pkv_ns){ 0 }, 0, &t, 1));
        fx_refused(f, ARG, pkv_block_publish(m, (pkv_ns){ 0 }, 0, &ex, 1));
        fx_refused(f, ARG, pkv_blocks_lookup(m, (pkv_ns){ 0 }, &t, ids, 8, &n));
        fx_refused(f, ARG, pkv_blocks_lookup(m, (pkv_ns){ 0 }, &ex, ids, 8, &n));
        fx_refused(f, ARG,
                   pkv_blocks_lookup(m, (pkv_ns){ 0 }, &(pkv_tokens){ tokens, 4, NULL, 0 }, ids,
                                     minus, &n));
    }
    fx_refused(f, ARG, pkv_seq_retain(m, s, 0, 7, 3)); /* 6 are committed */
    fx_refused(f, ARG, pkv_seq_retain(m, s, 7, 0, 3));
    fx_refused(f, ARG, pkv_seq_retain(m, s, INT32_MAX, INT32_MAX, 3));
    fx_refused(f, ARG, pkv_seq_retain(m, s, 1, INT32_MAX, 3));
    fx_refused(f, ARG, pkv_seq_retain(m, s, 0, 4, PKV_PRIORITY_MAX + 1));
    fx_refused(f, ARG, pkv_seq_retain(m, s, 0, 4, INT32_MAX));
    fx_refused(f, ARG, pkv_table_delta(m, 1, ranges, 4, ids, 8, &d));
    fx_refused(f, ARG, pkv_table_resync(m, PKV_MAX_GROUPS));
    fx_refused(f, ARG, pkv_seqs_common(m, &s, 1, 1, &n));
    fx_refused(f, ARG, pkv_seq_view_slots(m, s, 1, &v, 0, 1, slots));
    fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, &v, 6, 1, slots)); /* beyond reserved */
    fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, &v, 0, 7, slots));
    fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, &v, INT32_MAX, INT32_MAX, slots));
    fx_refused(f, ARG, pkv_seq_view_slots(m, s, 0, &v, 1, INT32_MAX, slots));
    fx_refused(f, ARG, pkv_seq_view_row(m, s, 1, &v, ids, 8, &n, &k));
    fx_refused(f, ARG, pkv_hold_open(m, s, 0, 5, &no));
    fx_refused(f, ARG, pkv_hold_blocks(m, h, 1, ids, 8, &n));
    fx_refused(f, ARG, pkv_seqs_suspend(m, &s, 0, 5, copy, 4, &n, &no));
    fx_refused(f, ARG, pkv_seqs_resume(m, &s, 0, 5, copy, 4, &n, &no));
    static const int32_t no_id[] = { 0, -1, 20, INT32_MAX, INT32_MIN };
    for (int i = 0; i < 5; i++) {
        fx_refused(f, ARG, pkv_blocks_ref(m, &no_id[i], 1));
        fx_refused(f, ARG, pkv_blocks_unref(m, &no_id[i], 1));
    }
    assert_true(n == 7 && k == 7 && no.v == 7);
    pkv_hold_post(m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(m, 0, r, 1, &n));
    fx_close(f, s);
    fx_end(f);
}

static void views_that_do_not_divide(void **state)
{
    (void)state;
    fx *f = fx_new(20, 12, 0);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 24);
    static const int32_t bad[][4] = {
        /* kernel_tokens, cp_size, cp_rank, cp_interleave */
        { 0, 0, 0, 1 },  { 0, -1, 0, 1 }, { 0, INT32_MIN, 0, 1 }, { 0, 5, 0, 1 },
        { 0, 24, 0, 1 }, { 0, 2, 2, 1 },  { 0, 2, -1, 1 },        { 0, 2, INT32_MAX, 1 },
        { 0, 2, 0, 0 },  { 0, 2, 0, -1 }, { 0, 2, 0, 4 },         { 0, 2, 0, INT32_MAX },
        { 5, 2, 0, 1 },  { 4, 2, 0, 1 },  { 7, 1, 0, 1 },         { 24, 1, 0, 1 },
        { -1, 1, 0, 1 }, { 12, 2, 0, 1 }, { INT32_MIN, 1, 0, 1 }, { 0, INT32_MAX, 0, 1 },
        { 0, 1, 1, 1 },  { 0, 1, 0, 5 },  { 0, 65536, 0, 65536 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
        int64_t slots[4] = { 7 };
        int32_t ids[32] = { 7 }, n = 7, k = 7;
        v.kernel_tokens = bad[i][0], v.cp_size = bad[i][1];
        v.cp_rank = bad[i][2], v.cp_interleave = bad[i][3];
        fx_refused(f, ARG, pkv_seq_view_slots(f->m, s, 0, &v, 0, 4, slots));
        fx_refused(f, ARG, pkv_seq_view_row(f->m, s, 0, &v, ids, 32, &n, &k));
        assert_true(slots[0] == 7 && ids[0] == 7 && n == 7 && k == 7);
    }
    fx_close(f, s);
    fx_end(f);
}

/* Questions change nothing, whatever is going on. */
static void questions(void **state)
{
    (void)state;
    fx *f = with_host();
    pkv_seq s = fx_with(f, "abcdefgh"), closing = fx_open(f);
    pkv_hold h;
    pkv_step one = fx_begin(f);
    fx_commit_in(f, closing, "xyzxyz", one);
    fx_close(f, closing);
    assert_ok(pkv_hold_open(f->m, s, 5, 9, &h));
    int32_t tokens[8], ids[8], n, k;
    int64_t slots[8];
    const int32_t *row;
    pkv_tokens t = fx_text("abcdefgh", tokens);
    pkv_reserve_req q = { s, 70 };
    pkv_need need = PKV_NEED_INIT;
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    fx_refused(f, PKV_OK, pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &f->match));
    fx_refused(f, PKV_OK, pkv_blockmgr_need(f->m, &q, 1, &need));
    fx_refused(f, PKV_OK, pkv_seq_info(f->m, s, &info));
    fx_refused(f, PKV_OK, pkv_seq_row(f->m, s, 0, &row, &n));
    fx_refused(f, PKV_OK, pkv_seq_slots(f->m, s, 0, 0, 8, slots));
    fx_refused(f, PKV_OK, pkv_blockmgr_rows(f->m, 0, &row, &n));
    fx_refused(f, PKV_OK, pkv_seqs_common(f->m, &s, 1, 0, &n));
    fx_refused(f, PKV_OK, pkv_seq_view_slots(f->m, s, 0, &v, 0, 8, slots));
    fx_refused(f, PKV_OK, pkv_seq_view_row(f->m, s, 0, &v, ids, 8, &n, &k));
    fx_refused(f, PKV_OK, pkv_hold_blocks(f->m, h, 0, ids, 8, &n));
    fx_refused(f, PKV_OK, pkv_blockmgr_check(f->m, 3));
    fx_retire(f, one);
    fx_close(f, s);
    fx_end(f);
}

/* Structs of another size: PKV_E_ABI whatever else is right. */
static void other_struct_sizes(void **state)
{
    (void)state;
    fx *f = with_host();
    pkv_seq s = fx_with(f, "abcd");
    pkv_table_range ranges[4];
    int32_t ids[8], n = 7, k = 7;
    int64_t slots[4];
    for (int how = 0; how < 5; how++) {
        static const int32_t off[5] = { -4, -1, 1, 4, INT32_MAX };
        pkv_delta d = PKV_DELTA_INIT;
        pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
        pkv_block_work w = f->work;
        d.struct_size += (uint32_t)off[how];
        v.struct_size += (uint32_t)off[how];
        w.struct_size += (uint32_t)off[how];
        fx_refused(f, PKV_E_ABI, pkv_table_delta(f->m, 0, ranges, 4, ids, 8, &d));
        fx_refused(f, PKV_E_ABI, pkv_seq_view_slots(f->m, s, 0, &v, 0, 4, slots));
        fx_refused(f, PKV_E_ABI, pkv_seq_view_row(f->m, s, 0, &v, ids, 8, &n, &k));
        fx_refused(f, PKV_E_ABI, pkv_seq_snapshot(f->m, s, &w));
        fx_refused(f, PKV_E_ABI, pkv_blocks_take(f->m, 1, ids, &w));
        assert_true(d.n_ranges == 0 && n == 7 && k == 7);
    }
    fx_close(f, s);
    fx_end(f);
}

/* One field of the configuration out of range at a time; the log names a reason. */
static void configurations(void **state)
{
    (void)state;
    static const pkv_group bad[] = {
        { (pkv_group_kind)4, 2, 0, 0, 0 },  { (pkv_group_kind)-1, 2, 0, 0, 0 },
        { PKV_GROUP_FULL, 0, 0, 0, 0 },     { PKV_GROUP_FULL, -2, 0, 0, 0 },
        { PKV_GROUP_FULL, 2050, 0, 0, 0 },  { PKV_GROUP_FULL, 3, 0, 0, 0 },
        { PKV_GROUP_FULL, 2, 1, 0, 0 },     { PKV_GROUP_FULL, 2, 0, 1, 0 },
        { PKV_GROUP_FULL, 2, 0, 0, 1 },     { PKV_GROUP_SLIDING, 2, 0, 0, 0 },
        { PKV_GROUP_SLIDING, 2, -1, 0, 0 }, { PKV_GROUP_SLIDING, 2, 4, -1, 0 },
        { PKV_GROUP_SLIDING, 2, 4, 0, 1 },  { PKV_GROUP_SLIDING, 0, 4, 0, 0 },
        { PKV_GROUP_CHUNKED, 2, 0, 0, 0 },  { PKV_GROUP_CHUNKED, 2, 4, -1, 0 },
        { PKV_GROUP_CHUNKED, 2, 4, 0, 1 },  { PKV_GROUP_STATE, 0, 0, 0, 0 },
        { PKV_GROUP_STATE, 2, 0, 0, 1 },    { PKV_GROUP_STATE, 0, 1, 0, 1 },
        { PKV_GROUP_STATE, 0, 0, 1, 1 },    { PKV_GROUP_STATE, 0, 0, 0, 17 },
        { PKV_GROUP_STATE, 0, 0, 0, -1 },   { PKV_GROUP_SLIDING, 2, INT32_MIN, 0, 0 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pkv_group g[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 }, bad[i] };
        pkv_blockmgr_config cfg = fx_config(20, 2, PKV_MGR_PREFIX_CACHE);
        pkv_blockmgr *m = NULL;
        cfg.groups = g, cfg.n_groups = 2;
        if (pkv_blockmgr_bytes(&cfg) != 0) fail_msg("group %d is accepted", (int)i);
        assert_int_equal(pkv_blockmgr_create(&cfg, NULL, &m), ARG);
        assert_null(m);
    }
#define FIELD(name) offsetof(pkv_blockmgr_config, name)
    static const struct {
        size_t at;
        int32_t value;
    } field[] = {
        { FIELD(n_groups), 1 },   { FIELD(n_groups), -1 },      { FIELD(rollback_tokens), -1 },
        { FIELD(max_steps), 65 }, { FIELD(max_steps), -1 },     { FIELD(max_holds), 65537 },
        { FIELD(max_holds), -1 }, { FIELD(n_host_blocks), -1 }, { FIELD(n_host_blocks), INT32_MIN },
    };
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
        pkv_blockmgr_config cfg = fx_config(20, 2, PKV_MGR_PREFIX_CACHE);
        memcpy((char *)&cfg + field[i].at, &field[i].value, sizeof field[i].value);
        if (pkv_blockmgr_bytes(&cfg) != 0) fail_msg("field %d is accepted", (int)i);
    }
    pkv_group many[PKV_MAX_GROUPS + 1];
    pkv_blockmgr_config cfg = fx_config(20, 2, PKV_MGR_PREFIX_CACHE);
    for (int i = 0; i <= PKV_MAX_GROUPS; i++) many[i] = (pkv_group){ PKV_GROUP_FULL, 2, 0, 0, 0 };
    cfg.groups = many;
    cfg.n_groups = PKV_MAX_GROUPS;
    assert_int_not_equal(pkv_blockmgr_bytes(&cfg), 0);
    cfg.n_groups++;
    assert_int_equal(pkv_blockmgr_bytes(&cfg), 0);
    cfg.n_groups = 0; /* a list of none */
    assert_int_equal(pkv_blockmgr_bytes(&cfg), 0);
    many[0] = (pkv_group){ PKV_GROUP_STATE, 0, 0, 0, 1 };
    cfg.n_groups = 1; /* nothing but state */
    assert_int_equal(pkv_blockmgr_bytes(&cfg), 0);
    cfg.n_groups = 2;
    assert_int_not_equal(pkv_blockmgr_bytes(&cfg), 0);
}

static void plans_of_groups(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(20, 16, PKV_MGR_PREFIX_CACHE);
    const pkv_group g[2] = { { PKV_GROUP_FULL, 16, 0, 0, 0 }, { PKV_GROUP_SLIDING, 32, 64, 0, 0 } };
    pkv_kv_shape shape[2] = { { 2, 2, 64, 16, PKV_F16 }, { 1, 2, 64, 32, PKV_F16 } };
    pkv_plan_result r = PKV_PLAN_RESULT_INIT;
    cfg.groups = g, cfg.n_groups = 2;
    const size_t bytes = (size_t)1 << 24;
    assert_ok(pkv_plan_groups(shape, bytes, 64, &cfg, &r));
    r = (pkv_plan_result)PKV_PLAN_RESULT_INIT;
    const pkv_plan_result before = r;
    assert_int_equal(pkv_plan_groups(NULL, bytes, 64, &cfg, &r), ARG);
    assert_int_equal(pkv_plan_groups(shape, bytes, 64, NULL, &r), ARG);
    assert_int_equal(pkv_plan_groups(shape, bytes, 64, &cfg, NULL), ARG);
    assert_int_equal(pkv_plan_groups(shape, bytes, 0, &cfg, &r), ARG);
    assert_int_equal(pkv_plan_groups(shape, bytes, -1, &cfg, &r), ARG);
    assert_int_equal(pkv_plan_groups(shape, bytes, INT32_MIN, &cfg, &r), ARG);
    assert_int_equal(pkv_plan_groups(shape, 0, 64, &cfg, &r), ARG);
    shape[1].n_layers = 2; /* twice the bytes of the other group's blocks */
    assert_int_equal(pkv_plan_groups(shape, bytes, 64, &cfg, &r), ARG);
    shape[1].n_layers = 0;
    assert_int_equal(pkv_plan_groups(shape, bytes, 64, &cfg, &r), ARG);
    shape[1].n_layers = 1;
    cfg.n_groups = 9;
    assert_int_equal(pkv_plan_groups(shape, bytes, 64, &cfg, &r), ARG);
    cfg.n_groups = 2;
    cfg.struct_size++;
    assert_int_equal(pkv_plan_groups(shape, bytes, 64, &cfg, &r), PKV_E_ABI);
    cfg.struct_size--;
    assert_memory_equal(&r, &before, sizeof r);
    r.struct_size--;
    assert_int_equal(pkv_plan_groups(shape, bytes, 64, &cfg, &r), PKV_E_ABI);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stale_sequences),
        cmocka_unit_test(stale_steps_and_holds),
        cmocka_unit_test(stale_namespaces),
        cmocka_unit_test(null_steps_policy_tables),
        cmocka_unit_test(null_holds_swap_raw),
        cmocka_unit_test(numbers),
        cmocka_unit_test(views_that_do_not_divide),
        cmocka_unit_test(other_struct_sizes),
        cmocka_unit_test(questions),
        cmocka_unit_test(configurations),
        cmocka_unit_test(plans_of_groups),
    };
    return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
