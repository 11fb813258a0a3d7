/* A run under both engines, whose results have to be the same to the last bit. */
#ifndef PKV_TESTS_BOTH_ENGINES_H
#define PKV_TESTS_BOTH_ENGINES_H

#include "pagedkv/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static inline pkv_sim_result run_both(const pkv_sim_config *cfg, const pkv_sim_request *reqs,
                                      int64_t n)
{
    pkv_sim_result res, naive;
    memset(&res, 0, sizeof(res)); /* padding too, for the comparison */
    memset(&naive, 0, sizeof(naive));
    res.struct_size = naive.struct_size = sizeof(res);
    pkv_sim_config c = *cfg;
    c.engine = PKV_SIM_LEAP;
    assert_int_equal(pkv_sim_run(&c, reqs, n, &res), PKV_OK);
    c.engine = PKV_SIM_NAIVE;
    assert_int_equal(pkv_sim_run(&c, reqs, n, &naive), PKV_OK);
    assert_memory_equal(&res, &naive, sizeof(res));
    return res;
}

#endif
