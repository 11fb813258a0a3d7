/* What every part of the library uses: asserts, the log, memory, small inline helpers. */
#ifndef PKV_COMMON_H
#define PKV_COMMON_H

#include "pagedkv/base.h"

#include <stdarg.h>

#ifndef PKV_DEBUG_LEVEL
#define PKV_DEBUG_LEVEL 0
#endif

/* An assert states what cannot be false unless we have a bug. It is compiled out at level 0. */
#if PKV_DEBUG_LEVEL >= 1
#undef NDEBUG
#include <assert.h>
#define PKV_ASSERT(cond) assert(cond)
#else
#define PKV_ASSERT(cond) ((void)sizeof(cond))
#endif

#define PKV_PRINTF(fmt_idx, arg_idx) __attribute__((format(printf, fmt_idx, arg_idx)))
#define PKV_LIKELY(x) __builtin_expect(!!(x), 1)
#define PKV_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PKV_PREFETCH(ptr) __builtin_prefetch(ptr)
#define PKV_LOWEST_BIT(word64) __builtin_ctzll(word64) /* its number; of a word that is not 0 */
#define PKV_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PKV_CACHE_LINE 64

/* Write one line to the logger, if there is one. The text is cut at 255 bytes. */
void pkv__log(const pkv_logger *log, pkv_log_level level, const char *fmt, ...) PKV_PRINTF(3, 4);

/* `return pkv__refuse(log, PKV_E_..., "why")`: log an error and give the status back. */
pkv_status pkv__refuse(const pkv_logger *log, pkv_status status, const char *fmt, ...)
    PKV_PRINTF(3, 4);

/* Memory from a hook; a NULL or empty hook means the malloc family. NULL when there is none. */
void *pkv__alloc(const pkv_allocator *alloc, size_t bytes, size_t align);
void pkv__free(const pkv_allocator *alloc, void *ptr, size_t bytes);
/* A hook has both functions or neither. */
bool pkv__allocator_valid(const pkv_allocator *alloc);

static inline int32_t pkv__min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}
static inline int32_t pkv__max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}
static inline int32_t pkv__ceil_div_i32(int32_t a, int32_t b)
{
    return a / b + (a % b != 0);
}

/* Product of sizes that may come from outside. False on overflow, *out then untouched. */
static inline bool pkv__mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
/* Round up to a power of two; the caller knows that it does not overflow. */
static inline size_t pkv__align_up(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

#endif
