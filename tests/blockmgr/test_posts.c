/* Eight threads post at random what they see on a board, while the writer opens holds and polls,
 * reclaims and goes on with its sequences. Nobody waits for anybody. Every post is accounted for:
 * it ends exactly one hold, or is counted as late.
 *
 *   writer  hold_open -> board[i] ... poll -> DONE, FAILED or EXPIRED, never twice
 *   posters board[i] -> pkv_hold_post (valid, repeated, long ended, never given out)
 *
 * Built with -Db_sanitize=thread it also shows that posts meet the writer in atomic words only. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { N_POSTERS = 8, BOARD = 16, N_SEQS = 4, ROUNDS = 5000, ENOUGH = 100 };

typedef struct arena {
    pkv_blockmgr *m;
    _Atomic uint64_t board[BOARD]; /* handles: most run, some have ended */
    _Atomic bool stop;
} arena;

typedef struct poster {
    arena *a;
    uint32_t random;
    uint64_t n_posts;
    pthread_t thread;
} poster;

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 16;
}

static void *post_at_random(void *arg)
{
    poster *p = arg;
    while (!atomic_load_explicit(&p->a->stop, memory_order_relaxed)) {
        uint32_t r = next_random(&p->random);
        pkv_hold h = { atomic_load_explicit(&p->a->board[r % BOARD], memory_order_relaxed) };
        if (r % 64 == 0) h.v ^= (uint64_t)next_random(&p->random) << 32; /* a stale generation */
        if (r % 67 == 0) h.v = UINT64_MAX;
        pkv_hold_post(p->a->m, h, r % 5 ? PKV_OK : PKV_E_IO);
        p->n_posts++;
    }
    return NULL;
}

/* What the writer keeps of a hold. */
typedef struct record {
    pkv_hold hold;
    uint64_t deadline;
    bool running, expired;
} record;

typedef struct writer {
    fx *f;
    arena *a;
    record rec[BOARD];
    uint64_t now, n_posted; /* n_posted: holds that ended by a post */
    uint32_t random;
} writer;

static void poll(writer *w, int32_t cap)
{
    pkv_hold_result done[BOARD];
    int32_t n;
    assert_ok(pkv_blockmgr_poll(w->f->m, w->now, done, cap, &n));
    for (int32_t i = 0; i < n; i++) {
        int32_t k = 0;
        while (k < BOARD && !(w->rec[k].running && w->rec[k].hold.v == done[i].hold.v)) k++;
        assert_true(k < BOARD); /* running until now: no end is reported twice */
        record *r = &w->rec[k];
        r->running = false;
        r->expired = done[i].end == PKV_HOLD_EXPIRED;
        if (r->expired) assert_true(r->deadline < w->now);
        else w->n_posted++;
    }
}

/* Open a hold in a free place of the board, or reclaim the expired one that is there. */
static void open_or_reclaim(writer *w, const pkv_seq *s)
{
    uint32_t k = next_random(&w->random) % BOARD;
    record *r = &w->rec[k];
    if (r->running) return;
    if (r->expired) {
        assert_ok(pkv_hold_reclaim(w->f->m, r->hold));
        r->expired = false;
        return;
    }
    r->deadline = next_random(&w->random) % 2 ? PKV_DEADLINE_NEVER : w->now + k % 4 - 1;
    assert_ok(pkv_hold_open(w->f->m, s[k % N_SEQS], 1 + (int32_t)k % 6, r->deadline, &r->hold));
    r->running = true;
    atomic_store_explicit(&w->a->board[k], r->hold.v, memory_order_relaxed);
}

static void every_post_is_accounted_for(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(200, 2, PKV_MGR_PREFIX_CACHE);
    cfg.max_holds = BOARD;
    arena a = { NULL, { 0 }, false };
    poster posters[N_POSTERS];
    writer w = { .f = fx_from(&cfg), .a = &a, .now = 1, .random = 7 };
    fx *f = w.f;
    pkv_seq s[N_SEQS];
    a.m = f->m;
    for (int i = 0; i < N_SEQS; i++) s[i] = fx_with(f, "abcdef");
    for (uint32_t i = 0; i < N_POSTERS; i++) {
        posters[i] = (poster){ .a = &a, .random = i };
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_at_random, &posters[i]), 0);
    }
    for (int32_t round = 0; round < ROUNDS || w.n_posted < ENOUGH; round++) {
        uint32_t k = next_random(&w.random) % N_SEQS;
        open_or_reclaim(&w, s);
        if (round % 3 == 0) poll(&w, round % 2 ? BOARD : 1);
        if (round % 16 == 0) w.now++;
        if (round % 7 == 0) { /* the holds outlive their sequences */
            fx_close(f, s[k]);
            s[k] = fx_with(f, round % 2 ? "abcdef" : "abcxyz");
        }
        if (round % 512 == 0) fx_check(f);
        if (round % 64 == 0) sched_yield(); /* with one core the posters would see nothing */
    }
    atomic_store(&a.stop, true);
    uint64_t n_posts = 0;
    for (int i = 0; i < N_POSTERS; i++) {
        assert_int_equal(pthread_join(posters[i].thread, NULL), 0);
        n_posts += posters[i].n_posts;
    }
    poll(&w, BOARD);
    assert_int_equal(n_posts, w.n_posted + fx_stats(f).late_posts);
    for (int32_t k = 0; k < BOARD; k++) {
        if (w.rec[k].running) pkv_hold_post(f->m, w.rec[k].hold, PKV_OK);
        if (w.rec[k].expired) assert_ok(pkv_hold_reclaim(f->m, w.rec[k].hold));
    }
    poll(&w, BOARD);
    assert_int_equal(fx_stats(f).open_holds, 0);
    for (int i = 0; i < N_SEQS; i++) fx_close(f, s[i]);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    assert_int_equal(fx_stats(f).quarantine_blocks, 0);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_post_is_accounted_for),
    };
    return cmocka_run_group_tests_name("posts", tests, NULL, NULL);
}
