/* Equal digests mean equal answers: steps, policy, holds, swaps, raw references, deltas and groups.
 * Each of these managers differs from every other one; made twice, with another secret, each has
 * its digest again. And what no later call can see is not in the digest. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

/* ---------------------------------------------------------------- steps */

static pkv_step begin(fx *f)
{
    pkv_step step;
    assert_ok(pkv_step_begin(f->m, &step));
    return step;
}

static void begin_two(fx *f, pkv_step step[2])
{
    step[0] = begin(f);
    step[1] = begin(f);
}

static void commit_in(fx *f, pkv_seq s, const char *text, pkv_step step)
{
    int32_t ids[16];
    pkv_tokens t = fx_text(text, ids);
    fx_reserve(f, s, t.n);
    assert_ok(pkv_seq_commit(f->m, s, &t, step));
}

static void steps_only(fx *f, int begun, int retired)
{
    pkv_step step[3];
    for (int i = 0; i < begun; i++) step[i] = begin(f);
    for (int i = 0; i < 3; i++)
        if (retired >> i & 1) assert_ok(pkv_step_retire(f->m, step[i]));
}

/* Texts committed in the first and the second of two steps. */
static pkv_seq pending(fx *f, const char *in_first, const char *in_second)
{
    pkv_step step[2];
    pkv_seq s = fx_open(f);
    begin_two(f, step);
    if (*in_first) commit_in(f, s, in_first, step[0]);
    if (*in_second) commit_in(f, s, in_second, step[1]);
    return s;
}

static void pending_twice(fx *f, bool one_closed)
{
    pkv_seq s = pending(f, "ab", ""), kid = fx_fork(f, s);
    if (one_closed) fx_close(f, kid);
}

/* Two sequences closed before or after the second step began. */
static void in_limbo(fx *f, bool swapped, int before_second)
{
    pkv_seq s[2] = { fx_with(f, "ab"), fx_with(f, "cd") };
    (void)begin(f);
    for (int i = 0; i < 2; i++) {
        if (i == before_second) (void)begin(f);
        fx_close(f, s[swapped ? 1 - i : i]);
    }
    if (before_second == 2) (void)begin(f);
}

/* ---------------------------------------------------------------- policy */

static void retained(fx *f, int priority, int decays)
{
    pkv_seq s = fx_with(f, "abcd");
    assert_ok(pkv_seq_retain(f->m, s, 2, 2, priority));
    fx_close(f, s);
    for (int i = 0; i < decays; i++) assert_ok(pkv_blockmgr_decay(f->m));
}

/* The same while a sequence still holds the content, whose class shows later. */
static void retained_in_use(fx *f, int priority, int decays)
{
    pkv_seq s = fx_with(f, "ab");
    assert_ok(pkv_seq_retain(f->m, s, 0, 2, priority));
    for (int i = 0; i < decays; i++) assert_ok(pkv_blockmgr_decay(f->m));
}

/* A cached child has raised the floor of what the sequence holds, or was of the usual class. */
static void floor_raised(fx *f, int priority)
{
    pkv_seq parent = fx_with(f, "ab"), child;
    int32_t evicted;
    assert_int_equal(fx_match(f, "ab", 0, &child), 2);
    fx_commit(f, child, "cd");
    assert_ok(pkv_seq_retain(f->m, child, 2, 2, priority));
    fx_close(f, child);
    assert_ok(pkv_blockmgr_evict(f->m, 1, &evicted));
    (void)parent;
}

static void epochs(fx *f, bool open_first)
{
    pkv_seq s = { 0 };
    fx_close(f, fx_with(f, "ab"));
    if (open_first) s = fx_open(f);
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    if (!open_first) s = fx_open(f);
    (void)s;
}

/* ---------------------------------------------------------------- holds, swaps, raw references */

static pkv_hold held(fx *f, int32_t n_tokens, uint64_t deadline)
{
    pkv_seq s = fx_with(f, "abc");
    pkv_hold hold;
    assert_ok(pkv_hold_open(f->m, s, n_tokens, deadline, &hold));
    return hold;
}

static int32_t poll_at(fx *f, uint64_t now)
{
    pkv_hold_result done[8];
    int32_t n;
    assert_ok(pkv_blockmgr_poll(f->m, now, done, 8, &n));
    return n;
}

static pkv_hold suspend(fx *f, const pkv_seq *s, int32_t n)
{
    pkv_swap_copy copies[8];
    pkv_hold hold;
    int32_t n_copies;
    assert_ok(pkv_seqs_suspend(f->m, s, n, 5, copies, 8, &n_copies, &hold));
    return hold;
}

enum { ON_ITS_WAY, THERE, GIVEN_UP, OVERDUE, COMING_BACK, BACK };

static void swapped(fx *f, int how_far, bool other_first)
{
    pkv_seq s[2] = { fx_with(f, "ab"), fx_with(f, "cd") }, t[2] = { s[1], s[0] };
    pkv_swap_copy copies[8];
    int32_t n;
    pkv_hold hold = suspend(f, other_first ? t : s, 2);
    if (how_far == ON_ITS_WAY) return;
    if (how_far != OVERDUE) pkv_hold_post(f->m, hold, how_far == GIVEN_UP ? PKV_E_IO : PKV_OK);
    assert_int_equal(poll_at(f, how_far == OVERDUE ? 6 : 5), 1);
    if (how_far < COMING_BACK) return;
    assert_ok(pkv_seqs_resume(f->m, s, 2, PKV_DEADLINE_NEVER, copies, 8, &n, &hold));
    if (how_far == COMING_BACK) return;
    pkv_hold_post(f->m, hold, PKV_OK);
    assert_int_equal(poll_at(f, 5), 1);
}

static void raw(fx *f, int32_t n_taken, int32_t n_refs)
{
    int32_t ids[4];
    assert_ok(pkv_blocks_take(f->m, n_taken, ids, &f->work));
    for (int32_t i = 0; i < n_refs; i++) assert_ok(pkv_blocks_ref(f->m, ids, 1));
}

static void sent(fx *f, int32_t n_before, int32_t n_after, bool resync)
{
    pkv_table_range ranges[4];
    int32_t ids[8];
    pkv_delta d = PKV_DELTA_INIT;
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, n_before);
    assert_ok(pkv_table_delta(f->m, 0, ranges, 4, ids, 8, &d));
    assert_int_equal(d.n_ids, (n_before + 1) / 2);
    fx_reserve(f, s, n_after);
    if (resync) assert_ok(pkv_table_resync(f->m, 0));
}

/* ---------------------------------------------------------------- the scenes */

static void make_steps(fx *f, int which)
{
    static const struct {
        int begun, retired;
    } steps[] = { { 0, 0 }, { 1, 0 }, { 1, 1 }, { 2, 0 }, { 2, 1 }, { 2, 2 }, { 3, 2 }, { 3, 5 } };
    static const char *const texts[][2] = { { "ab", "" },   { "", "ab" },  { "abcd", "" },
                                            { "ab", "cd" }, { "ab", "c" }, { "a", "bc" },
                                            { "xy", "" },   { "abc", "" }, { "abd", "" } };
    if (which < 8) steps_only(f, steps[which].begun, steps[which].retired);
    else if (which < 17) (void)pending(f, texts[which - 8][0], texts[which - 8][1]);
    else if (which < 26) fx_close(f, pending(f, texts[which - 17][0], texts[which - 17][1]));
    else if (which < 28) pending_twice(f, which == 26);
    else in_limbo(f, which == 28, which - 29);
}

static void make_late(fx *f, int which)
{
    switch (which) {
    case 0:
    case 1:
    case 2:
        retained(f, which == 0 ? 0 : which + 4, 0);
        break;
    case 3:
    case 4:
        retained_in_use(f, which == 3 ? 2 : 6, 0);
        break;
    case 5:
    case 6:
        floor_raised(f, which == 5 ? 3 : 7);
        break;
    case 7:
    case 8:
        epochs(f, which == 7);
        break;
    case 9:
        (void)held(f, 2, 5);
        break;
    case 10:
        (void)held(f, 1, 5);
        break;
    case 11:
        (void)held(f, 2, 6);
        break;
    case 12:
        (void)held(f, 2, 5);
        assert_int_equal(poll_at(f, 4), 0);
        break;
    case 13:
        (void)held(f, 2, 5);
        assert_int_equal(poll_at(f, 6), 1);
        break;
    case 14:
        pkv_hold_post(f->m, held(f, 2, 5), PKV_OK);
        assert_int_equal(poll_at(f, 0), 1);
        break;
    case 15:
    case 16:
    case 17:
    case 18:
    case 19:
    case 20:
        swapped(f, which - 15, false);
        break;
    case 21:
        swapped(f, ON_ITS_WAY, true);
        break;
    case 22:
        swapped(f, THERE, true);
        break;
    case 23:
        raw(f, 1, 0);
        break;
    case 24:
        raw(f, 1, 1);
        break;
    case 25:
        raw(f, 2, 0);
        break;
    case 26:
    case 27:
        sent(f, 4, which == 26 ? 4 : 6, false);
        break;
    default:
        sent(f, 4, 4, true);
        break;
    }
}

static pkv_blockmgr_config usual(void)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 12, cfg.block_tokens = 2;
    cfg.max_seqs = 4, cfg.max_seq_tokens = 16;
    cfg.max_steps = 3, cfg.max_holds = 4, cfg.n_host_blocks = 6;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    return cfg;
}

enum { N_STEPS = 32, N_LATE = 29 };

static void digest_of(int which, uint8_t secret, uint8_t out[16])
{
    pkv_blockmgr_config cfg = usual();
    cfg.hash_secret[3] = secret;
    fx *f = fx_from(&cfg);
    if (which < N_STEPS) make_steps(f, which);
    else make_late(f, which - N_STEPS);
    pkv_blockmgr_digest(f->m, out);
    fx_end(f);
}

static void all_different(void **state)
{
    (void)state;
    static uint8_t digest[N_STEPS + N_LATE][16];
    for (int i = 0; i < N_STEPS + N_LATE; i++) {
        uint8_t again[16];
        digest_of(i, 0, digest[i]);
        digest_of(i, 7, again);
        assert_memory_equal(digest[i], again, 16);
        for (int k = 0; k < i; k++)
            if (memcmp(digest[i], digest[k], 16) == 0) fail_msg("%d and %d look the same", k, i);
    }
}

/* ---------------------------------------------------------------- what nobody can see */

static void digest_after(void (*make)(fx *f, bool other), bool other, uint8_t out[16])
{
    pkv_blockmgr_config cfg = usual();
    fx *f = fx_from(&cfg);
    make(f, other);
    pkv_blockmgr_digest(f->m, out);
    fx_end(f);
}

static void decayed_priority(fx *f, bool other)
{
    retained(f, other ? 7 : 6, other ? 1 : 0);
}
static void decayed_to_the_default(fx *f, bool other)
{
    retained(f, 4, other ? 9 : 1);
}
static void decayed_in_use(fx *f, bool other)
{
    retained_in_use(f, other ? 7 : 5, other ? 2 : 0);
}
static void posted_and_not_polled(fx *f, bool other)
{
    pkv_hold hold = held(f, 2, 5);
    if (other) pkv_hold_post(f->m, hold, PKV_OK);
}
static void late_post(fx *f, bool other)
{
    pkv_hold hold = held(f, 2, 5);
    assert_int_equal(poll_at(f, 6), 1);
    if (other) pkv_hold_post(f->m, hold, PKV_OK);
}
/* Steps are kept in whatever place is free: the first and the third open, or the third in the place
 * of the second. */
static void place_of_a_step(fx *f, bool other)
{
    pkv_step step[3];
    begin_two(f, step);
    if (other) assert_ok(pkv_step_retire(f->m, step[1]));
    step[2] = begin(f);
    if (!other) assert_ok(pkv_step_retire(f->m, step[1]));
    commit_in(f, fx_open(f), "abc", step[2]);
}

static void some_are_equal(void **state)
{
    (void)state;
    void (*const make[])(fx *, bool) = { decayed_priority, decayed_to_the_default,
                                         decayed_in_use,   posted_and_not_polled,
                                         late_post,        place_of_a_step };
    for (size_t i = 0; i < sizeof make / sizeof make[0]; i++) {
        uint8_t digest[2][16];
        for (int k = 0; k < 2; k++) digest_after(make[i], k, digest[k]);
        if (memcmp(digest[0], digest[1], 16) != 0) fail_msg("pair %zu differs", i);
    }
}

/* ---------------------------------------------------------------- groups and configurations */

static pkv_blockmgr_config changed(int which, pkv_group *groups)
{
    pkv_blockmgr_config cfg = usual();
    groups[0] = (pkv_group){ PKV_GROUP_FULL, 2, 0, 0, 0 };
    groups[1] = (pkv_group){ PKV_GROUP_SLIDING, 2, 4, 0, 0 };
    groups[2] = (pkv_group){ PKV_GROUP_STATE, 0, 0, 0, 1 };
    cfg.groups = groups, cfg.n_groups = 3;
    if (which == 1) groups[1].window_tokens = 6;
    if (which == 2) groups[1].sink_tokens = 1;
    if (which == 3) groups[1].kind = PKV_GROUP_CHUNKED;
    if (which == 4) groups[1].block_tokens = 4;
    if (which == 5) groups[2].state_blocks = 2;
    if (which == 6) cfg.n_groups = 2;
    if (which == 7) cfg.rollback_tokens = 1;
    if (which == 8) cfg.max_steps = 4;
    if (which == 9) cfg.max_holds = 5;
    if (which == 10) cfg.n_host_blocks = 7;
    if (which == 11) cfg.flags |= PKV_MGR_IN_ORDER;
    return cfg;
}

/* A window that has slid, and lengths that are the same again; with and without a snapshot. */
static void make_groups(fx *f, int which)
{
    pkv_seq s = fx_with(f, "abcd");
    if (which == 12) assert_ok(pkv_seq_snapshot(f->m, s, &f->work));
    if (which == 13) fx_commit(f, s, "e");
    if (which == 14) fx_reserve(f, s, 1);
    if (which == 15) fx_close(f, s);
}

static void groups_differ(void **state)
{
    (void)state;
    static uint8_t digest[16][16];
    for (int i = 0; i < 16; i++) {
        pkv_group groups[3];
        pkv_blockmgr_config cfg = changed(i, groups);
        fx *f = fx_from(&cfg);
        if (i >= 12) make_groups(f, i);
        pkv_blockmgr_digest(f->m, digest[i]);
        fx_end(f);
        for (int k = 0; k < i; k++)
            if (memcmp(digest[i], digest[k], 16) == 0) fail_msg("%d and %d look the same", k, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_different),
                                        cmocka_unit_test(some_are_equal),
                                        cmocka_unit_test(groups_differ) };
    return cmocka_run_group_tests_name("digest_late", tests, NULL, NULL);
}
