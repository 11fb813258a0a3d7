/* The pool of threads: every task runs once, whatever happens around it. */
#include "common/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 97 };

static struct pkv__threads *pool(int32_t n_threads, int32_t spin_us)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    struct pkv__threads *t = NULL;
    cfg.n_threads = n_threads;
    cfg.spin_us = spin_us;
    assert_int_equal(pkv__threads_create(&cfg, &t), PKV_OK);
    return t;
}

static void nap(int64_t ns)
{
    nanosleep(&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

/* Which thread ran which task, and how often. */
struct census {
    int n_runs[MANY]; /* not atomic: a task that ran twice at once is a race that TSan sees */
    int in[MANY], out[MANY];
    pthread_t thread[MANY];
    sigset_t blocked[MANY];
    int64_t nap_ns;
};

static void count(void *ctx, int32_t i)
{
    struct census *c = ctx;
    if (c->nap_ns) nap(c->nap_ns);
    c->n_runs[i]++;
    c->out[i] = c->in[i] + 1;
    c->thread[i] = pthread_self();
    pthread_sigmask(SIG_SETMASK, NULL, &c->blocked[i]);
}

static void check_census(const struct census *c, int32_t n)
{
    for (int32_t i = 0; i < MANY; i++) {
        assert_int_equal(c->n_runs[i], i < n);
        assert_int_equal(c->out[i], i < n ? c->in[i] + 1 : 0);
    }
}

static int others(const struct census *c, int32_t n)
{
    int found = 0;
    for (int32_t i = 0; i < n; i++) found += !pthread_equal(c->thread[i], pthread_self());
    return found;
}

static void every_task_runs_once(void **state)
{
    static const int32_t spins[] = { -1, 0, 1 };
    (void)state;
    for (int32_t n_threads = 2; n_threads <= 5; n_threads++)
        for (size_t s = 0; s < PKV_ARRAY_LEN(spins); s++) {
            struct pkv__threads *t = pool(n_threads, spins[s]);
            for (int32_t n = 0; n <= MANY; n += n < 6 ? 1 : 13) {
                struct census c = { .nap_ns = 0 };
                for (int32_t i = 0; i < n; i++) c.in[i] = 1000 * n + i;
                pkv__parallel(t, n, count, &c);
                check_census(&c, n);
            }
            pkv__threads_destroy(t);
        }
}

static void no_pool_is_a_loop(void **state)
{
    struct census c = { .nap_ns = 0 };
    (void)state;
    pkv__parallel(NULL, 5, count, &c);
    check_census(&c, 5);
    assert_int_equal(others(&c, 5), 0);
    pkv__threads_destroy(NULL);
}

/* Threads that sleep are woken, and do a share. Their signals are the program's business. */
static void sleepers_are_woken(void **state)
{
    (void)state;
    struct pkv__threads *t = pool(4, -1);
    for (int round = 0; round < 3; round++) {
        struct census c = { .nap_ns = 2000000 };
        nap(3000000);
        pkv__parallel(t, 20, count, &c);
        check_census(&c, 20);
        assert_true(others(&c, 20) >= 3);
        for (int i = 0; i < 20; i++)
            if (!pthread_equal(c.thread[i], pthread_self()))
                assert_true(sigismember(&c.blocked[i], SIGTERM) &&
                            sigismember(&c.blocked[i], SIGUSR1));
    }
    pkv__threads_destroy(t);
}

static void thousands_of_short_jobs(void **state)
{
    (void)state;
    struct pkv__threads *t = pool(3, 5);
    for (int round = 0; round < 3000; round++) {
        struct census c = { .nap_ns = 0 };
        const int32_t n = 2 + round % 7;
        pkv__parallel(t, n, count, &c);
        check_census(&c, n);
        if (round % 500 == 0) nap(100000); /* now and then they fall asleep */
    }
    pkv__threads_destroy(t);
}

struct nest {
    struct pkv__threads *threads;
    struct census inner[8];
};

static void nested_task(void *ctx, int32_t i)
{
    struct nest *nest = ctx;
    pkv__parallel(nest->threads, 5, count, &nest->inner[i]);
}

static void calls_inside_tasks(void **state)
{
    (void)state;
    static struct nest nest;
    memset(&nest, 0, sizeof nest);
    nest.threads = pool(3, 0);
    pkv__parallel(nest.threads, 8, nested_task, &nest);
    for (int i = 0; i < 8; i++) check_census(&nest.inner[i], 5);
    pkv__threads_destroy(nest.threads);
}

/* Returns how often a task had not run once: nothing may be asserted on this thread. */
static void *call_many(void *threads)
{
    uintptr_t n_wrong = 0;
    for (int round = 0; round < 300; round++) {
        struct census c = { .nap_ns = 0 };
        pkv__parallel(threads, 9, count, &c);
        for (int i = 0; i < 9; i++) n_wrong += c.n_runs[i] != 1;
    }
    return (void *)n_wrong;
}

static void join_caller(pthread_t caller)
{
    void *n_wrong = NULL;
    assert_int_equal(pthread_join(caller, &n_wrong), 0);
    assert_null(n_wrong);
}

static void calls_from_several_threads(void **state)
{
    pthread_t callers[4];
    (void)state;
    struct pkv__threads *t = pool(3, 20);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, call_many, t), 0);
    for (int i = 0; i < 4; i++) join_caller(callers[i]);
    pkv__threads_destroy(t);
}

static void many_pools(void **state)
{
    struct pkv__threads *pools[12];
    (void)state;
    for (int i = 0; i < 12; i++) pools[i] = pool(2 + i % 3, i % 2 ? -1 : 10);
    for (int i = 0; i < 12; i++) {
        struct census c = { .nap_ns = 0 };
        pkv__parallel(pools[i], 11, count, &c);
        check_census(&c, 11);
    }
    for (int i = 0; i < 12; i++) pkv__threads_destroy(pools[i]);
}

/* Ended by a signal instead of hanging for ever. */
static int child_status(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void child_runs_alone(void **state)
{
    (void)state;
    for (int asleep = 0; asleep < 2; asleep++) {
        struct pkv__threads *t = pool(3, asleep ? -1 : 100000);
        struct census before = { .nap_ns = 0 }, after = { .nap_ns = 0 };
        pkv__parallel(t, 5, count, &before);
        if (asleep) nap(2000000);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct census c = { .nap_ns = 0 };
            alarm(20);
            pkv__parallel(t, 7, count, &c);
            for (int i = 0; i < 7; i++)
                if (c.n_runs[i] != 1) _exit(1);
            if (others(&c, 7) != 0) _exit(2);
            const pid_t grandchild = fork(); /* the same once more */
            if (grandchild == 0) {
                pkv__parallel(t, 7, count, &c);
                _exit(c.n_runs[6] == 2 ? 0 : 3);
            }
            if (child_status(grandchild) != 0) _exit(4);
            pkv__threads_destroy(t);
            _exit(0);
        }
        assert_int_equal(child_status(child), 0);
        pkv__parallel(t, 5, count, &after); /* the parent's pool is as it was */
        check_census(&after, 5);
        pkv__threads_destroy(t);
    }
}

/* The other threads of the process are in the middle of things when it forks. */
static void child_of_a_busy_pool(void **state)
{
    pthread_t caller;
    (void)state;
    struct pkv__threads *t = pool(3, -1); /* so that the mutex is locked most of the time */
    assert_int_equal(pthread_create(&caller, NULL, call_many, t), 0);
    for (int i = 0; i < 40; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct census c = { .nap_ns = 0 };
            alarm(20);
            pkv__parallel(t, 7, count, &c);
            pkv__threads_destroy(t);
            _exit(c.n_runs[6] == 1 ? 0 : 1);
        }
        assert_int_equal(child_status(child), 0);
    }
    join_caller(caller);
    pkv__threads_destroy(t);
}

static void count_threads(int *n)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    *n = -1;
    while (f && fgets(line, sizeof line, f)) sscanf(line, "Threads: %d", n);
    if (f) fclose(f);
}

static void destroy_joins(void **state)
{
    int before, during, after;
    (void)state;
    count_threads(&before);
    struct pkv__threads *t = pool(5, 0);
    count_threads(&during);
    pkv__threads_destroy(t);
    count_threads(&after);
    if (before < 0) skip();
    assert_int_equal(during, before + 4);
    assert_int_equal(after, before);
}

/* The caller's parallel_for gets everything, and no thread is started. */
static void backwards(void *ctx, int32_t n_tasks, void (*task)(void *task_ctx, int32_t i),
                      void *task_ctx)
{
    ++*(int *)ctx;
    for (int32_t i = n_tasks - 1; i >= 0; i--) task(task_ctx, i);
}

static void the_callers_threads(void **state)
{
    int n_calls = 0, before, during;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    struct pkv__threads *t = NULL;
    struct census c = { .nap_ns = 0 };
    (void)state;
    cfg.n_threads = 1024;
    cfg.parallel_for = backwards;
    cfg.parallel_ctx = &n_calls;
    count_threads(&before);
    assert_int_equal(pkv__threads_create(&cfg, &t), PKV_OK);
    count_threads(&during);
    assert_int_equal(during, before);
    pkv__parallel(t, 9, count, &c);
    check_census(&c, 9);
    assert_int_equal(n_calls, 1);
    pkv__threads_destroy(t);
}

static void *no_memory(void *ctx, size_t bytes, size_t align)
{
    (void)ctx, (void)bytes, (void)align;
    return NULL;
}
static void free_nothing(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx, (void)ptr, (void)bytes;
}

static void no_memory_no_pool(void **state)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    struct pkv__threads *t = NULL;
    (void)state;
    cfg.n_threads = 2;
    cfg.alloc = (pkv_allocator){ no_memory, free_nothing, NULL };
    assert_int_equal(pkv__threads_create(&cfg, &t), PKV_E_NO_MEMORY);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once), cmocka_unit_test(no_pool_is_a_loop),
        cmocka_unit_test(sleepers_are_woken),   cmocka_unit_test(thousands_of_short_jobs),
        cmocka_unit_test(calls_inside_tasks),   cmocka_unit_test(calls_from_several_threads),
        cmocka_unit_test(many_pools),           cmocka_unit_test(child_runs_alone),
        cmocka_unit_test(child_of_a_busy_pool), cmocka_unit_test(destroy_joins),
        cmocka_unit_test(the_callers_threads),  cmocka_unit_test(no_memory_no_pool),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
