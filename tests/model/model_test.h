/* What tests of the model share: real data, the last line of the log, memory that runs out, and
 * files written piece by piece. */
#ifndef PKV_TESTS_MODEL_TEST_H
#define PKV_TESTS_MODEL_TEST_H

#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STORIES "models/stories260K/"

/* A path below the shared data; the test is skipped with its name if it is missing. */
void shared_path(const char *name, char *out, size_t cap);

/* Keeps the last line. */
typedef struct last_log {
    char text[256];
    int n_lines;
} last_log;
pkv_logger log_to(last_log *log);

/* Counts blocks; from the `fail_at`-th allocation on (0: the first) there is none. */
typedef struct counted_memory {
    long n_allocs, fail_at, n_live;
    size_t live_bytes, peak_bytes;
} counted_memory;
pkv_allocator count_memory(counted_memory *m, long fail_at);

/* Bytes that grow; the tests' own, freed with bytes_free. Writing appends. */
typedef struct bytes {
    uint8_t *data;
    size_t n, cap;
} bytes;
void put(bytes *b, const void *data, size_t n);
void put_u32(bytes *b, uint32_t v);
void put_u64(bytes *b, uint64_t v);
void put_zeros(bytes *b, size_t n);
void bytes_free(bytes *b);
/* All of a file. */
void read_bytes(const char *path, bytes *out);
/* Write a file below a folder made by scratch_folder. */
void write_bytes(const char *folder, const char *name, const void *data, size_t n);
/* A fresh folder; scratch_remove deletes it with the files in it. */
void scratch_folder(char *out, size_t cap);
void scratch_remove(const char *folder);

/* Open and expect success; the log says why not. */
pkv__tensor_file *open_good(const char *path);
pkv__tensor_file *open_memory(const bytes *b, const char *name);
/* Expect a refusal whose message has the file's name and a byte offset, and contains `says`. */
void expect_refused(const bytes *b, const char *name, const char *what, pkv_status want,
                    const char *says);

#endif
