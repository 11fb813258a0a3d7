/* Who computes: backends by level and number of threads, teams by number of threads. Made when
 * first asked for, kept until the run ends. */
#ifndef PKV_BENCH_ENGINES_H
#define PKV_BENCH_ENGINES_H

#include "bench_team.h"

#include "pagedkv/backend.h"

#define ENGINES_MAX 16

struct bench_engines {
    int32_t n_backends, n_teams;
    struct {
        pkv_isa isa;
        int32_t threads;
        pkv_backend *backend;
    } backends[ENGINES_MAX];
    struct {
        int32_t threads;
        struct bench_team *team;
    } teams[ENGINES_MAX];
};

/* NULL: `err` says why. A level that is not there is BENCH_SKIP. */
pkv_backend *bench_engines_backend(struct bench_engines *e, pkv_isa isa, int32_t threads,
                                   struct bench_error *err);
struct bench_team *bench_engines_team(struct bench_engines *e, int32_t threads,
                                      struct bench_error *err);
void bench_engines_close(struct bench_engines *e);

/* Has the level `isa`, on this machine, attention of its own for K and V of `dtype`, for rows that
 * are few (decode) or many (prefill)? False too where the level is not there. */
bool bench_level_has_attention(pkv_isa isa, pkv_dtype dtype, bool many_rows);

#endif
