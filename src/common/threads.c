/* The pool.
 *
 *   claim   | job number, 32 bits | tasks that nobody has taken, 32 bits |
 *
 * A task is taken by exchanging `claim` for one task less. The exchange fails on another job's
 * number, so that a thread which comes late finds nothing to take and never looks at the fields of
 * a job that is over: who holds a task keeps the job alive, because the caller waits until
 * `pending`, the tasks that have not returned, is 0. The caller takes tasks like everyone else;
 * thus it never waits for a thread that the scheduler has not woken yet, only for one that has
 * begun.
 *
 * Who finds nothing spins for a while and then sleeps on a condition variable. The order is the
 * same on both sides: say that you sleep, look again, sleep; make work, look whether somebody
 * sleeps, wake. All four are sequentially consistent, so that one of the two sees the other.
 *
 * After fork() the child has a copy of all this and none of the threads, and the mutex may be a
 * locked one. It is recognised by a page that the kernel wipes in children, or by its process id,
 * and touches nothing. */
#include "common/threads.h"

#include "common/clock.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A call of a millisecond comes every few: 200 us bridge the gap between layers of a model, which
 * is what the wake-up of a sleeper (50 us and more) would be paid for. */
enum { DEFAULT_SPIN_US = 200, SPINS_PER_LOOK = 64 };

struct pkv__threads {
    pkv_allocator alloc;
    pkv_parallel_for parallel_for; /* NULL: the pool */
    void *parallel_ctx;
    size_t bytes; /* of this allocation */
    int64_t spin_ns;
    /* The job; written while nobody holds a task. */
    void (*fn)(void *ctx, int32_t i);
    void *ctx;
    int32_t n_tasks;
    /* On lines of their own: all threads look at them. */
    _Alignas(PKV_CACHE_LINE) atomic_flag busy;
    _Alignas(PKV_CACHE_LINE) _Atomic uint64_t claim;
    _Alignas(PKV_CACHE_LINE) atomic_int pending;
    _Alignas(PKV_CACHE_LINE) atomic_int n_asleep; /* pool threads */
    atomic_bool caller_asleep, stop;
    pthread_mutex_t mutex; /* of the two conditions alone; all state is atomic */
    pthread_cond_t work, done;
    /* Whose process this is. */
    pid_t pid;
    const volatile char *not_forked; /* 1 here, 0 in a child; NULL: ask for the process id */
    int32_t n_started;
    pthread_t thread[]; /* [n_started] */
};

#if defined(__x86_64__)
static void pause_cpu(void)
{
    __builtin_ia32_pause();
}
#elif defined(__aarch64__)
static void pause_cpu(void)
{
    __asm__ volatile(
        "isb"); /* `yield` is a no-op on most cores; this takes about as long as x86's pause */
}
#else
static void pause_cpu(void) {}
#endif

static int64_t now_ns(void)
{
    return (int64_t)pkv__clock_ns();
}

static bool forked(const struct pkv__threads *t)
{
    return t->not_forked ? !*t->not_forked : getpid() != t->pid;
}

static bool has_work(struct pkv__threads *t)
{
    return (uint32_t)atomic_load(&t->claim) != 0;
}

/* Take tasks of the job at hand and run them, until none is left to take. */
static void run_tasks(struct pkv__threads *t)
{
    uint64_t claim = atomic_load(&t->claim);
    while ((uint32_t)claim != 0) {
        if (!atomic_compare_exchange_weak(&t->claim, &claim, claim - 1)) continue;
        t->fn(t->ctx, t->n_tasks - (int32_t)(uint32_t)claim);
        if (atomic_fetch_sub(&t->pending, 1) == 1 && atomic_load(&t->caller_asleep)) {
            pthread_mutex_lock(&t->mutex);
            pthread_cond_signal(&t->done);
            pthread_mutex_unlock(&t->mutex);
        }
        claim = atomic_load(&t->claim);
    }
}

/* Spin until ready(t) or the time is over; true if ready. */
static bool spin(struct pkv__threads *t, bool (*ready)(struct pkv__threads *t))
{
    if (ready(t)) return true;
    if (t->spin_ns == 0) return false;
    const int64_t end = now_ns() + t->spin_ns;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            pause_cpu();
            if (ready(t)) return true;
        }
    } while (now_ns() < end);
    return false;
}

static bool worker_ready(struct pkv__threads *t)
{
    return has_work(t) || atomic_load(&t->stop);
}

static bool caller_ready(struct pkv__threads *t)
{
    return atomic_load(&t->pending) == 0;
}

static void *work(void *threads)
{
    struct pkv__threads *t = threads;
    while (!atomic_load(&t->stop)) {
        run_tasks(t);
        if (spin(t, worker_ready)) continue;
        pthread_mutex_lock(&t->mutex);
        atomic_fetch_add(&t->n_asleep, 1);
        while (!worker_ready(t)) pthread_cond_wait(&t->work, &t->mutex);
        atomic_fetch_sub(&t->n_asleep, 1);
        pthread_mutex_unlock(&t->mutex);
    }
    return NULL;
}

static void wake_workers(struct pkv__threads *t)
{
    if (atomic_load(&t->n_asleep) == 0) return;
    pthread_mutex_lock(&t->mutex);
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->mutex);
}

static void wait_for_tasks(struct pkv__threads *t)
{
    if (spin(t, caller_ready)) return;
    pthread_mutex_lock(&t->mutex);
    atomic_store(&t->caller_asleep, true);
    while (!caller_ready(t)) pthread_cond_wait(&t->done, &t->mutex);
    atomic_store(&t->caller_asleep, false);
    pthread_mutex_unlock(&t->mutex);
}

void pkv__parallel(struct pkv__threads *t, int32_t n_tasks, void (*fn)(void *ctx, int32_t i),
                   void *ctx)
{
    if (t && t->parallel_for && n_tasks > 1) {
        t->parallel_for(t->parallel_ctx, n_tasks, fn, ctx);
        return;
    }
    if (!t || n_tasks <= 1 || forked(t) || atomic_flag_test_and_set(&t->busy)) {
        for (int32_t i = 0; i < n_tasks; i++) fn(ctx, i);
        return;
    }
    t->fn = fn;
    t->ctx = ctx;
    t->n_tasks = n_tasks;
    atomic_store(&t->pending, n_tasks);
    const uint64_t job = (atomic_load(&t->claim) >> 32) + 1;
    atomic_store(&t->claim, job << 32 | (uint32_t)n_tasks);
    wake_workers(t);
    run_tasks(t);
    wait_for_tasks(t);
    atomic_flag_clear(&t->busy);
}

/* A page that reads 1 here and 0 in a child; NULL where the kernel knows no such thing. */
static const volatile char *map_fork_page(void)
{
#ifdef MADV_WIPEONFORK
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return NULL;
    if (madvise(page, bytes, MADV_WIPEONFORK) == 0) {
        *page = 1;
        return page;
    }
    munmap(page, bytes);
#endif
    return NULL;
}

static void unmap_fork_page(const volatile char *page)
{
    if (page) munmap((void *)(uintptr_t)page, (size_t)sysconf(_SC_PAGESIZE));
}

/* Start the pool's threads; false if one does not start. Signals are for the program's threads. */
static bool start(struct pkv__threads *t, int32_t n)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    while (t->n_started < n && pthread_create(&t->thread[t->n_started], NULL, work, t) == 0)
        t->n_started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t->n_started == n;
}

pkv_status pkv__threads_create(const pkv_cpu_config *cfg, struct pkv__threads **out)
{
    const int32_t n = cfg->parallel_for ? 0 : cfg->n_threads - 1;
    const size_t bytes =
        pkv__align_up(sizeof(struct pkv__threads) + (size_t)n * sizeof(pthread_t), PKV_CACHE_LINE);
    struct pkv__threads *t = pkv__alloc(&cfg->alloc, bytes, PKV_CACHE_LINE);
    if (!t) return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "backend: no memory for threads");
    memset(t, 0, bytes);
    t->alloc = cfg->alloc;
    t->parallel_for = cfg->parallel_for;
    t->parallel_ctx = cfg->parallel_ctx;
    t->bytes = bytes;
    t->spin_ns =
        cfg->spin_us < 0 ? 0 : (cfg->spin_us ? cfg->spin_us : DEFAULT_SPIN_US) * INT64_C(1000);
    atomic_flag_clear(&t->busy);
    t->pid = getpid();
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    t->not_forked = map_fork_page();
    if (!start(t, n)) {
        pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "backend: thread %d of %d does not start",
                    t->n_started + 1, n);
        pkv__threads_destroy(t);
        return PKV_E_NO_MEMORY;
    }
    *out = t;
    return PKV_OK;
}

void pkv__threads_destroy(struct pkv__threads *t)
{
    if (!t) return;
    const pkv_allocator alloc = t->alloc;
    if (!forked(t)) {
        atomic_store(&t->stop, true);
        wake_workers(t);
        for (int32_t i = 0; i < t->n_started; i++) pthread_join(t->thread[i], NULL);
        pthread_cond_destroy(&t->work);
        pthread_cond_destroy(&t->done);
        pthread_mutex_destroy(&t->mutex);
    }
    unmap_fork_page(t->not_forked);
    pkv__free(&alloc, t, t->bytes);
}
