/* What the memory system would have to do for each source line of a kernel: counts, not times. Only
 * the race build counts (and an interpreter of PTX, whose widths are those of the real loads: a
 * compiler of the host may merge or split what is not pkv_ldv).
 *
 * A request is what the lanes of a warp ask for with their n-th execution of one line. Its units:
 *   global  32-byte sectors; ideal: as many as its bytes fill
 *   shared  wavefronts: words of 4 bytes in 32 banks, one word per bank and wavefront; accesses of
 * 8 bytes come by half warps, those of 16 by quarters. ideal: one per such part */
#ifndef SIMT_COUNTS_H
#define SIMT_COUNTS_H

#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simt_count {
    const char *file; /* without folders; lives as long as the program */
    int line;
    int is_shared, is_store;
    uint32_t bytes; /* of one lane */
    uint64_t requests, lanes, units, ideal;
} simt_count;

/* Forget all counts. */
void simt_counts_reset(void);

/* The counts since then, by file and line: writes up to `cap` of them, returns how many there are.
 */
int simt_counts_get(simt_count *out, int cap);

/* All counts of a line and kind as one: 1, or 0 if there are none. */
int simt_counts_of_line(const char *file, int line, int is_shared, int is_store, simt_count *out);

/* All counts of a file's accesses of so many bytes as one; zeros if there are none. */
simt_count simt_counts_of_file(const char *file, int is_shared, int is_store, uint32_t bytes);

/* A table of them. */
void simt_counts_print(FILE *to);

#ifdef __cplusplus
}
#endif

#endif
