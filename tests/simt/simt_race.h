/* What the files of the race detector share. */
#ifndef SIMT_RACE_H
#define SIMT_RACE_H

#include "simt_int.h"

#include <string>
#include <vector>

namespace simt
{

/* A site in four bytes: an address of this program (linked without PIE, so below 2^31), or 2^31
 * plus the index of a file and line. */
using place = uint32_t;

place place_of(const site &at);

/* Files and lines, in one go: asks addr2line about addresses. Unknown ones are "??", 0. The names
 * live as long as the program. */
std::vector<site> explain(const std::vector<place> &places);

/* simt_counts.cpp: requests to memory, told by the race detector after it has let them pass. */
void counts_block_begin();
void counts_block_end();
void count_access(const void *p, size_t bytes, access kind, bool shared, place where);

} // namespace simt

#endif
