/* Memory and log of targets that open files: what is taken is counted, lines are checked. */
#ifndef PKV_FUZZ_HOOKS_H
#define PKV_FUZZ_HOOKS_H

#include "fuzz.h"

#include "pagedkv/base.h"

typedef struct fuzz_memory {
    size_t live, peak; /* bytes */
} fuzz_memory;

static inline void *fuzz_take(void *ctx, size_t n, size_t align)
{
    fuzz_memory *m = ctx;
    m->live += n;
    if (m->live > m->peak) m->peak = m->live;
    if (align < sizeof(void *)) align = sizeof(void *);
    return aligned_alloc(align, (n + align - 1) / align * align);
}

static inline void fuzz_give_back(void *ctx, void *ptr, size_t n)
{
    ((fuzz_memory *)ctx)->live -= n;
    free(ptr);
}

static inline pkv_allocator fuzz_allocator(fuzz_memory *m)
{
    return (pkv_allocator){ fuzz_take, fuzz_give_back, m };
}

typedef struct fuzz_log {
    int n_errors, n_lines;
} fuzz_log;

/* One line, whatever the file holds. */
static inline void fuzz_check_line(void *ctx, pkv_log_level level, const char *text)
{
    fuzz_log *log = ctx;
    log->n_errors += level == PKV_LOG_ERROR;
    log->n_lines++;
    for (; *text; text++) FUZZ_REQUIRE((unsigned char)*text >= ' ');
}

static inline pkv_logger fuzz_logger(fuzz_log *log)
{
    return (pkv_logger){ fuzz_check_line, log };
}

#endif
