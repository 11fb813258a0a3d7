/* pkv_hold_post from other threads: what a poster wrote before is there after the poll that names
 * its hold. Built with -Db_sanitize=thread it shows that nothing else carries it over: the threads
 * meet in atomic words only. Who wins when many post is in test_posts.c. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_before_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
