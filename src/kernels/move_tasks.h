/* Shares of a move. Memory moves faster with more threads, but waking them costs some microseconds:
 * below 256 KiB, about 20 us of copying on one thread, a move stays where it is. */
#ifndef PKV_MOVE_TASKS_H
#define PKV_MOVE_TASKS_H

#include "common/threads.h"
#include "kernels/kernels_internal.h"

enum {
    PKV__MOVE_SERIAL_BYTES = 256 << 10, /* up to here: one task */
    PKV__MOVE_TASKS_MAX = 64            /* bounds what is kept per task on the stack */
};

static inline int32_t pkv__move_tasks(const pkv_backend *be, size_t bytes)
{
    if (bytes <= PKV__MOVE_SERIAL_BYTES) return 1;
    return pkv__max_i32(1, pkv__min_i32(pkv_backend_threads(be), PKV__MOVE_TASKS_MAX));
}

/* Is a move of so many bytes better stored past the caches? They would take the place of what is
 * used soon, and stay for less than a step: half of a common L2. */
static inline bool pkv__past_caches(size_t bytes)
{
    return bytes >= (size_t)512 << 10;
}

/* Items of a share: [lo, hi) of n, in ascending order. */
struct pkv__share {
    int64_t lo, hi;
};
static inline struct pkv__share pkv__move_share(int64_t n, int32_t n_tasks, int32_t task)
{
    const int64_t each = n / n_tasks, more = n % n_tasks; /* the first `more` get one more */
    const int64_t lo = each * task + (task < more ? task : more);
    return (struct pkv__share){ lo, lo + each + (task < more) };
}

/* A word of a report: what does not fit must not look like a number that does. */
static inline uint32_t pkv__report_word(int64_t x)
{
    return x < 0 || x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}
/* A task's tokens come in ascending order: the first offender is the lowest. */
static inline void pkv__note_slot(uint32_t bad[4], uint32_t bit, int64_t token, int64_t slot)
{
    if (!bad[0]) {
        bad[2] = pkv__report_word(token);
        bad[3] = pkv__report_word(slot);
    }
    bad[0] |= bit;
}

#endif
