/* What the tests of pkv-bench share. */
#ifndef PKV_BENCH_TEST_H
#define PKV_BENCH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_near(a, b, tolerance)                                                               \
    do {                                                                                           \
        const double a_ = (a), b_ = (b);                                                           \
        if (!(a_ - b_ <= (tolerance) && b_ - a_ <= (tolerance)))                                   \
            fail_msg("%s is %.17g, not %.17g +- %g", #a, a_, b_, (double)(tolerance));             \
    } while (0)

#endif
