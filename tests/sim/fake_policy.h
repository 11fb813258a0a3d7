/* A policy of counters, for tests of the engine: blocks without ids, a swap space, costs and
 * refusals as the test sets them. */
#ifndef PKV_FAKE_POLICY_H
#define PKV_FAKE_POLICY_H

#include "sim/sim_internal.h"

/* What the next fake policy does. Block size, sequences per request, watermark and swap space come
 * from the config. */
typedef struct fake_setup {
    int32_t cached;                /* tokens that admit finds, at most u - 1 */
    int64_t suspend_ns, resume_ns; /* cost of each */
    int64_t move_every, move_ns;   /* every so many admissions a compaction of one token */
    bool seals;                    /* closed from the first grow until all are gone */
    int64_t extra; /* slots taken on top at admission, given back at the next grow */
    bool places;   /* the longest free run is half of what is free */
    /* counted by the policy */
    int64_t n_refused; /* admissions */
} fake_setup;

extern fake_setup fake;
extern const pkv__sim_policy_ops fake_policy;

/* `pool` slots, blocks of one, steps of 10 ns, no watermark, averages over everything; `fake` is
 * reset. */
pkv_sim_config fake_config(int32_t pool);
/* Run both engines; they must succeed and agree to the last bit. */
pkv_sim_result fake_run(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n);

#endif
