/* Threads that operations share: a pool of our own, or the caller's parallel_for.
 *
 * A pool belongs to one backend. It runs one operation at a time; an operation that finds it at
 * work runs on its own thread alone, and so does one inside a task, and every one in a child after
 * fork(). Nothing is allocated after creation. */
#ifndef PKV_THREADS_H
#define PKV_THREADS_H

#include "common/common.h"
#include "pagedkv/backend.h"

enum { PKV__MAX_THREADS = 1024 };

struct pkv__threads;

/* `n_threads` >= 2, the calling one included. `spin_us`: how long a thread without work spins
 * before it sleeps; 0: a default, -1: not at all. With `parallel_for` no thread is started.
 * PKV_E_NO_MEMORY: no memory, or a thread that does not start; nothing is left behind then. */
pkv_status pkv__threads_create(const pkv_cpu_config *cfg, struct pkv__threads **out);
/* Joins the threads. NULL is fine; in a child after fork() there is nobody to join. */
void pkv__threads_destroy(struct pkv__threads *threads);

/* Run fn(ctx, i) for every i in [0, n_tasks) and return when all have returned. NULL: one after the
 * other on the calling thread. What tasks write is visible to the caller, and what the caller wrote
 * before to the tasks. Any thread. */
void pkv__parallel(struct pkv__threads *threads, int32_t n_tasks, void (*fn)(void *ctx, int32_t i),
                   void *ctx);

#endif
