/* The device as a test sees it: memory, schedules, errors, counts. In C, and shaped so that a real
 * GPU can stand behind it: tests never touch device memory but through these functions. */
#ifndef SIMT_DEVICE_H
#define SIMT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- memory */

/* 256-byte aligned and exactly as large as asked for. Filled with 0xff, which is NaN in every float
 * type. NULL if the host has no memory. */
void *device_alloc(size_t bytes);

/* Address space without memory behind it until it is written: reads as zeros. For offsets beyond
 * 2^32; NULL if the system refuses. */
void *device_alloc_sparse(size_t bytes);

/* Takes NULL. */
void device_free(void *p);

void device_upload(void *dst, const void *src, size_t bytes);
void device_download(void *dst, const void *src, size_t bytes);
void device_fill(void *dst, int byte, size_t bytes);

/* ---------------------------------------------------------------- launches */

enum device_block_order { DEVICE_FORWARD, DEVICE_REVERSED, DEVICE_SHUFFLED };

/* One of the orders in which a GPU might run things. Holds for all launches until the next call. */
typedef struct device_schedule_t {
    unsigned seed; /* order of a block's threads: 0 ascending, 1 descending, others shuffled */
    int eager;     /* cp.async lands at once; 0: at the wait that allows it */
    enum device_block_order blocks;
} device_schedule_t;

void device_schedule(const device_schedule_t *schedule);

/* The i-th of a list that holds every pairing of seeds 0 to 5, eager or not, and an order of
 * blocks. */
enum { DEVICE_N_SCHEDULES = 12 };
device_schedule_t device_schedule_of(int i);

/* What ended the last launch; "" if nothing did. Valid until the next launch. */
const char *device_last_error(void);

/* "plain", "asan", "race" or "ptx" */
const char *device_build(void);

/* Since the program began. When it ends, they become a line, which begins with the build, at the
 * end of the file that PKV_SIMT_TOTALS names. */
typedef struct device_totals {
    uint64_t launches, blocks, switches, barriers, collectives, products;
    uint64_t copies;       /* cp.async of a thread */
    uint64_t accesses;     /* that the race detector has watched */
    uint64_t instructions; /* of PTX, of a thread */
} device_totals;

device_totals device_get_totals(void);

/* ---------------------------------------------------------------- streams as tests need them */

/* From begin to end launches, copies and fills of the CUDA backend are written down and do not
 * happen, as in a stream that is captured; parameters by value are copied, what they point to is
 * not. */
typedef struct device_graph device_graph;
void device_capture_begin(void);
device_graph *device_capture_end(void);
int32_t device_graph_n_nodes(const device_graph *graph);
/* 0, or 1 and device_last_error(). */
int device_graph_run(const device_graph *graph);
void device_graph_free(device_graph *graph);

/* Shapes of the launches from here on, into `list`; those beyond `cap` are only counted. NULL: no
 * more. */
typedef struct device_launch {
    int64_t n_blocks, n_threads;
    size_t shared_bytes, params_bytes;
} device_launch;
void device_record(device_launch *list, int32_t cap);
int32_t device_n_recorded(void);

/* The launch after n others fails before it begins; later ones do not. */
void device_refuse_launch(int32_t n);
/* Preparing a kernel (PKV_PREPARE) fails with a code after n others. */
enum { DEVICE_NO_CODE = 209 }; /* cudaErrorNoKernelImageForDevice */
void device_refuse_prepare(int32_t n, int code);

#ifdef __cplusplus
}
#endif

#endif
