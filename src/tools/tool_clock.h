/* Time that never goes back. */
#ifndef PKV_TOOLS_TOOL_CLOCK_H
#define PKV_TOOLS_TOOL_CLOCK_H

#include <stdint.h>

uint64_t tool_clock_ns(void);
double tool_clock_s(void);

#endif
