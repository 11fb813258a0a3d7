/* Time that never goes back, for measuring; no date. */
#ifndef PKV_CLOCK_H
#define PKV_CLOCK_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC. Any thread. */
uint64_t pkv__clock_ns(void);

#endif
