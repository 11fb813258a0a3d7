/* pkv_hold_post from other threads while the writer goes on: exactly one post counts, post and
 * deadline never both win, and what a poster wrote before is there after the poll. Built with
 * -Db_sanitize=thread, the same program shows that the threads meet in atomic words only. */
#include "mgr_fixture.h"
#include "pagedkv/blockmgr_holds.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { N_POSTERS = 3, ROUNDS = 200 };

/* What the writer hands to the posters; `round` publishes it. */
typedef struct stage {
    pkv_blockmgr *m;
    _Atomic int round; /* posters wait for the next one; -1: go home */
    _Atomic int n_done;
    pkv_hold hold[N_POSTERS];
    pkv_status result[N_POSTERS];
    int note[N_POSTERS]; /* plain memory, written before the post */
} stage;

typedef struct poster {
    stage *st;
    int k;
    pthread_t thread;
} poster;

static void *post_all(void *arg)
{
    const poster *p = arg;
    stage *st = p->st;
    for (int seen = 0;;) {
        int round = atomic_load(&st->round);
        if (round < 0) return NULL;
        if (round == seen) {
            sched_yield();
            continue;
        }
        seen = round;
        st->note[p->k] = round;
        pkv_hold_post(st->m, st->hold[p->k], st->result[p->k]);
        atomic_fetch_add(&st->n_done, 1);
    }
}

static void start(stage *st, poster *posters, pkv_blockmgr *m)
{
    memset(st, 0, sizeof *st);
    st->m = m;
    for (int k = 0; k < N_POSTERS; k++) {
        posters[k] = (poster){ .st = st, .k = k };
        assert_int_equal(pthread_create(&posters[k].thread, NULL, post_all, &posters[k]), 0);
    }
}

static void stop(stage *st, poster *posters)
{
    atomic_store(&st->round, -1);
    for (int k = 0; k < N_POSTERS; k++) pthread_join(posters[k].thread, NULL);
}

static void wait_for_all(stage *st)
{
    while (atomic_load(&st->n_done) < N_POSTERS) sched_yield();
    atomic_store(&st->n_done, 0);
}

static fx *with_holds(int32_t max_holds)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 32, cfg.block_tokens = 4, cfg.max_seqs = 4, cfg.max_seq_tokens = 64;
    cfg.max_holds = max_holds;
    return fx_from(&cfg);
}

/* All posters name one hold: the first counts, the others are late. */
static void the_first_post_counts(void **state)
{
    (void)state;
    stage st;
    poster posters[N_POSTERS];
    fx *f = with_holds(2);
    const pkv_seq s = fx_with(f, "abcdefgh");
    start(&st, posters, f->m);
    for (int round = 1; round <= ROUNDS; round++) {
        pkv_hold h;
        pkv_hold_result done[2];
        int32_t n = 0;
        assert_ok(pkv_hold_open(f->m, s, 8, PKV_DEADLINE_NEVER, &h));
        for (int k = 0; k < N_POSTERS; k++) st.hold[k] = h, st.result[k] = PKV_OK;
        atomic_store(&st.round, round);
        while (n == 0) {
            sched_yield();
            assert_ok(pkv_blockmgr_poll(f->m, (uint64_t)round, done, 2, &n));
        }
        assert_int_equal(n, 1);
        assert_true(done[0].hold.v == h.v);
        assert_int_equal(done[0].end, PKV_HOLD_DONE);
        wait_for_all(&st);
        assert_int_equal(fx_stats(f).late_posts, (uint64_t)round * (N_POSTERS - 1));
        assert_int_equal(fx_stats(f).open_holds, 0);
    }
    stop(&st, posters);
    fx_end(f);
}

/* One poster per hold. The writer reads what it wrote as soon as poll names the hold. */
static void what_was_written_before_is_there(void **state)
{
    (void)state;
    stage st;
    poster posters[N_POSTERS];
    fx *f = with_holds(N_POSTERS);
    const pkv_seq s = fx_with(f, "abcdefgh");
    start(&st, posters, f->m);
    for (int round = 1; round <= ROUNDS; round++) {
        pkv_hold_result done[N_POSTERS];
        for (int k = 0; k < N_POSTERS; k++) {
            assert_ok(pkv_hold_open(f->m, s, 8, PKV_DEADLINE_NEVER, &st.hold[k]));
            st.result[k] = k == 1 ? PKV_E_IO : PKV_OK;
        }
        atomic_store(&st.round, round);
        for (int32_t n_ended = 0, n = 0; n_ended < N_POSTERS; n_ended += n) {
            assert_ok(pkv_blockmgr_poll(f->m, 0, done, N_POSTERS, &n));
            for (int i = 0; i < n; i++) {
                int k = 0;
                while (st.hold[k].v != done[i].hold.v) k++;
                assert_int_equal(st.note[k], round);
                assert_int_equal(done[i].end, k == 1 ? PKV_HOLD_FAILED : PKV_HOLD_DONE);
            }
            fx_close(f, fx_with(f, "xyz")); /* the writer has other things to do */
            sched_yield();
        }
        wait_for_all(&st);
    }
    assert_int_equal(fx_stats(f).late_posts, 0);
    stop(&st, posters);
    fx_end(f);
}

/* Each hold ends once: posted or expired, and then its post is a late one. */
static void post_and_deadline_never_both_win(void **state)
{
    (void)state;
    stage st;
    poster posters[N_POSTERS];
    fx *f = with_holds(N_POSTERS);
    const pkv_seq s = fx_with(f, "abcdefgh");
    uint64_t now = 0, expired = 0;
    start(&st, posters, f->m);
    for (int round = 1; round <= ROUNDS; round++) {
        pkv_hold_result done[N_POSTERS];
        int32_t n = 0, more = 0;
        for (int k = 0; k < N_POSTERS; k++) {
            assert_ok(pkv_hold_open(f->m, s, 8, now, &st.hold[k]));
            st.result[k] = PKV_OK;
        }
        atomic_store(&st.round, round);
        for (int spin = 0; spin < round % 64 * 16; spin++) (void)atomic_load(&st.n_done);
        assert_ok(pkv_blockmgr_poll(f->m, ++now, done, N_POSTERS, &n));
        assert_int_equal(n, N_POSTERS); /* one way or the other */
        wait_for_all(&st);
        assert_ok(pkv_blockmgr_poll(f->m, ++now, done + n, N_POSTERS - n, &more));
        assert_int_equal(more, 0);
        for (int i = 0; i < n; i++) {
            if (done[i].end != PKV_HOLD_EXPIRED) continue;
            expired++;
            assert_ok(pkv_hold_reclaim(f->m, done[i].hold));
        }
        assert_int_equal(fx_stats(f).late_posts, expired);
        assert_int_equal(fx_stats(f).open_holds, 0);
    }
    stop(&st, posters);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_post_counts),
        cmocka_unit_test(what_was_written_before_is_there),
        cmocka_unit_test(post_and_deadline_never_both_win),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
