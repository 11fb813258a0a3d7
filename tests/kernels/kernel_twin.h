/* Loops that kernels are measured with. They run on threads of their own, as many as the backends
 * have, and read with the widest registers of the machine; what they load ends in registers that
 * nobody reads, by instructions that a compiler cannot leave out.
 *
 *   read   one buffer, front to back: what memory gives
 *   load   the pieces a decode kernel reads, in its order and with its prefetch, and no arithmetic:
 *          what the block table leaves of it
 *   copy   one buffer into another
 *   peak   multiply-adds on registers: what arithmetic gives */
#ifndef PKV_KERNEL_TWIN_H
#define PKV_KERNEL_TWIN_H

#include <stddef.h>
#include <stdint.h>

struct twin_read {
    const unsigned char *data;
    size_t bytes;
    int32_t threads;
};
void twin_read(void *read);

struct twin_piece {
    const unsigned char *at;
    uint32_t bytes; /* multiple of 64 */
};
struct twin_load {
    const struct twin_piece *pieces;
    int64_t n_pieces;
    int32_t ahead; /* pieces from the one that is read to the one that is prefetched */
    int32_t threads;
};
void twin_load(void *load);

struct twin_copy {
    unsigned char *to;
    const unsigned char *from;
    size_t bytes;
    int32_t threads;
};
void twin_copy(void *copy);

struct twin_peak {
    int64_t n; /* steps of TWIN_STEP_FLOPS each, shared among the threads */
    int32_t lanes, threads;
};
/* Floats of a register: of the machine's widest, or of AVX2's. */
int32_t twin_lanes(void);
void twin_peak(void *peak);
double twin_peak_flops(const struct twin_peak *peak);

#endif
