/* What the fuzz targets of the trace readers share: read an input in several ways and check what
 * holds for every trace and every refusal. */
#ifndef PKV_FUZZ_TRACE_H
#define PKV_FUZZ_TRACE_H

#include "fuzz.h"

void fuzz_trace(const uint8_t *data, size_t size);

#endif
