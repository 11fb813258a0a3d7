/* The team: workers spin for a moment after each piece of work, because the next one follows at
 * once while sides are timed, and sleep after that. */
#include "bench_team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Looks at the counter before a worker sleeps: some 100 us, more than the pause between samples. */
#define SPINS 20000

struct bench_team {
    int32_t n_threads, n_started;
    pthread_t *threads; /* [n_threads - 1] */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint turn;     /* one more for each piece of work */
    atomic_int n_working; /* workers that have not finished it */
    atomic_bool stop;
    bench_team_fn work;
    void *ctx;
};

struct worker {
    struct bench_team *team;
    int32_t idx;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* The turn after `seen`. */
static unsigned next_turn(struct bench_team *t, unsigned seen)
{
    unsigned turn;
    for (int i = 0; i < SPINS; i++) {
        turn = atomic_load_explicit(&t->turn, memory_order_acquire);
        if (turn != seen) return turn;
        relax();
    }
    pthread_mutex_lock(&t->lock);
    while ((turn = atomic_load_explicit(&t->turn, memory_order_acquire)) == seen)
        pthread_cond_wait(&t->wake, &t->lock);
    pthread_mutex_unlock(&t->lock);
    return turn;
}

static void *work_in_turns(void *arg)
{
    const struct worker w = *(struct worker *)arg;
    unsigned seen = 0;
    free(arg);
    for (;;) {
        seen = next_turn(w.team, seen);
        if (atomic_load(&w.team->stop)) return NULL;
        w.team->work(w.team->ctx, w.idx, w.team->n_threads);
        atomic_fetch_sub_explicit(&w.team->n_working, 1, memory_order_release);
    }
}

static void begin_turn(struct bench_team *t)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add_explicit(&t->turn, 1, memory_order_release);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static bool start_worker(struct bench_team *t)
{
    struct worker *w = malloc(sizeof(*w));
    if (!w) return false;
    *w = (struct worker){ t, t->n_started + 1 };
    if (pthread_create(&t->threads[t->n_started], NULL, work_in_turns, w) != 0) {
        free(w);
        return false;
    }
    t->n_started++;
    return true;
}

bool bench_team_create(int32_t n_threads, struct bench_team **out, struct bench_error *err)
{
    struct bench_team *t = bench_calloc(1, sizeof(*t), err);
    if (!t) return false;
    t->n_threads = n_threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->threads = calloc((size_t)n_threads, sizeof(*t->threads));
    while (t->threads && t->n_started < n_threads - 1)
        if (!start_worker(t)) break;
    if (t->n_started < n_threads - 1 || !t->threads) {
        bench_team_destroy(t);
        return bench_fail(err, BENCH_USAGE, "%d threads cannot be started", n_threads);
    }
    *out = t;
    return true;
}

void bench_team_destroy(struct bench_team *t)
{
    if (!t) return;
    atomic_store(&t->stop, true);
    begin_turn(t);
    for (int32_t i = 0; i < t->n_started; i++) pthread_join(t->threads[i], NULL);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t->threads);
    free(t);
}

void bench_team_run(struct bench_team *t, bench_team_fn work, void *ctx)
{
    t->work = work;
    t->ctx = ctx;
    atomic_store(&t->n_working, t->n_threads - 1);
    if (t->n_threads > 1) begin_turn(t);
    work(ctx, 0, t->n_threads);
    for (int64_t i = 0; atomic_load_explicit(&t->n_working, memory_order_acquire) > 0; i++) relax();
}

void bench_team_part(int64_t total, int64_t step, int32_t i, int32_t n, int64_t *from, int64_t *to)
{
    const int64_t n_steps = total / step;
    *from = n_steps * i / n * step;
    *to = i + 1 == n ? total : n_steps * (i + 1) / n * step;
}
