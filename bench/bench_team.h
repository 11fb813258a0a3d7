/* A few threads that do one thing together. The yardsticks (read, copy and arithmetic loops) run on
 * as many threads as the backend beside them, but not on its threads. */
#ifndef PKV_BENCH_TEAM_H
#define PKV_BENCH_TEAM_H

#include "bench_base.h"

struct bench_team;

/* n_threads >= 1, the calling thread included. */
bool bench_team_create(int32_t n_threads, struct bench_team **out, struct bench_error *err);
void bench_team_destroy(struct bench_team *team); /* NULL is fine */

/* Call work(ctx, i, n) for each i in [0, n), n threads, at the same time; i = 0 on the caller. */
typedef void (*bench_team_fn)(void *ctx, int32_t i, int32_t n);
void bench_team_run(struct bench_team *team, bench_team_fn work, void *ctx);

/* Part i of n of [0, total): [*from, *to), in multiples of `step` but for the end. */
void bench_team_part(int64_t total, int64_t step, int32_t i, int32_t n, int64_t *from, int64_t *to);

#endif
