#include "tool_clock.h"

#include <time.h>

uint64_t tool_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

double tool_clock_s(void)
{
    return 1e-9 * (double)tool_clock_ns();
}
