/* Measured memory bandwidth: the yardstick of every memory-bound case. */
#ifndef PKV_BANDWIDTH_H
#define PKV_BANDWIDTH_H

#include "bandwidth_kernels.h"
#include "bench_base.h"
#include "bench_team.h"
#include "machine_info.h"
#include "peak_kernels.h"

/* The loops of the best level that build and machine have, not above `ceiling`. */
pkv_isa bandwidth_kernels(pkv_isa ceiling, struct bandwidth_loops *loops);
/* Likewise the float32 arithmetic of a level, and its bf16 dot products, if it has them (else run
 * is NULL). */
void bandwidth_peak(pkv_isa ceiling, struct peak_loop *loop);
void bandwidth_peak_bf16(pkv_isa ceiling, struct peak_loop *loop);

/* Name of a way: "plain", "prefetch", "4 streams". */
const char *bandwidth_way_name(int way);

struct bandwidth_opts {
    pkv_isa ceiling;
    struct bench_team *team;
    size_t buffer_bytes; /* of the main measurement */
    size_t max_bytes;    /* no buffer is larger than this */
    bool huge_pages;
    bool curve; /* also read from 1/4 to 8 times the last-level cache */
};

/* Fill read_gbs, copy_gbs, read_bytes, read_in_cache, read_kernel, read_way and, if wanted, the
 * curve of `info` (llc_bytes is read). Read: best of 10 passes of each way, of the best way. Copy:
 * best of 10 memcpy; GB/s counts each byte copied once, although the memory moves it at least
 * twice. The threads of the team share the buffer. Checks that the sums are right. */
bool bandwidth_probe(const struct bench_clock *clock, const struct bandwidth_opts *opts,
                     struct machine_info *info, struct bench_error *err);

#endif
