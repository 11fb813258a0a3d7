/* check_gpu: one program that a machine with a GPU runs. It checks every kernel against the CPU
 * reference, and measures it against ceilings of the same minutes.
 *
 *   check_gpu.c             options, stages, what they share
 *   check_gpu_results.c     the table and the JSON
 *   check_gpu_correct.c     check_kernels on the GPU
 *   check_gpu_lend.c        .. whose memory is the host's
 *   check_gpu_bits.c        what must not change one bit: replay, company, repetition, block ids
 *   check_gpu_batch.c       batches for what follows: a pool, tables, rows
 *   check_gpu_ceilings.c, check_gpu_decode.c, check_gpu_prefill.c, check_gpu_moves.c
 *   check_gpu_device.h      memory, graphs, a clock: over the CUDA runtime or the emulator */
#ifndef PKV_CHECK_GPU_H
#define PKV_CHECK_GPU_H

#include "case_random.h"
#include "check_gpu_device.h"
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

enum gpu_verdict { GPU_OK, GPU_WRONG, GPU_MET, GPU_MISSED, GPU_MEASURED, GPU_SKIPPED };

enum { GPU_MAX_RUNS = 40 };

struct gpu_result {
    char stage[16], name[96], note[192];
    char goal[48]; /* "G1 >= 95 % of copy", or "" */
    enum gpu_verdict verdict;
    int n_runs;
    double min_us, median_us;
    double rate; /* GB/s or TFLOP/s, of the median; 0: none */
    const char *unit;
    double share; /* of the ceiling; 0: none */
};

struct gpu {
    const char *program, *json_path, *stages;
    uint64_t seed;
    bool dry_run;
    struct gpu_about about;
    pkv_backend *be;
    char log[256]; /* what the library said last */
    /* Memory of all batches, filled with numbers that are finite in every type. */
    char *pool;
    size_t pool_bytes;
    double copy_gbs, read_gbs, gemm_tflops; /* ceilings; 0: not measured */
    const char *stage;
    double deadline; /* of the stage, in seconds of gpu_now */
    struct gpu_result *results;
    int n_results, cap_results;
    int n_dropped; /* of the stage, for want of time */
    char dropped[128];
};

extern const char *const gpu_commit; /* check_gpu_commit.c.in */

double gpu_now(void);

/* A new line of the stage. */
struct gpu_result *gpu_add(struct gpu *g, enum gpu_verdict verdict, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void gpu_note(struct gpu_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The stage has no time left: `name` is counted as dropped. */
bool gpu_out_of_time(struct gpu *g, const char *name);
/* PKV_OK; else the line becomes a skip (unsupported) or wrong, with what the library said. */
bool gpu_took(struct gpu *g, struct gpu_result *r, pkv_status status);
/* Waits; what the device says makes the line wrong. */
bool gpu_finished(struct gpu_result *r);

/* Time what fn(ctx) puts on the stream, `calls` operations alike in one graph, at least 20 times;
 * work per operation: bytes, or floating point operations with unit "TFLOP/s". False: it could not
 * be done, and the line says why. */
bool gpu_measure(struct gpu *g, struct gpu_result *r, pkv_status (*fn)(void *ctx), void *ctx,
                 int calls, double work, const char *unit);
/* The share of a ceiling, and whether a goal of at least `least` is met (0: no goal). Nothing is
 * said where nothing was timed. */
void gpu_judge(struct gpu *g, struct gpu_result *r, double ceiling, const char *goal, double least);

void gpu_print_table(const struct gpu *g);
bool gpu_write_json(const struct gpu *g);

/* The stages. */
void gpu_ceilings(struct gpu *g);
void gpu_correctness(struct gpu *g);
void gpu_bits(struct gpu *g);
void gpu_decode(struct gpu *g);
void gpu_batches(struct gpu *g);
void gpu_prefill(struct gpu *g);
void gpu_moves(struct gpu *g);

#endif
