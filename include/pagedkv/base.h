/* PagedKV base: what every part shares. Export macro, version, statuses, data types, plain data
 * that parts hand to each other, the log callback and the allocator hook.
 *
 * The library never prints, exits, aborts (in a release build), reads the environment or keeps
 * writable globals. Every function that can fail returns a pkv_status; where more is to be said
 * than the status says, the reason in words goes to the log callback of the object concerned, if
 * one is set. */
#ifndef PAGEDKV_BASE_H
#define PAGEDKV_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PKV_API __attribute__((visibility("default")))
#define PKV_NODISCARD __attribute__((warn_unused_result))
#else
#define PKV_API
#define PKV_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PKV_VERSION_MAJOR 0
#define PKV_VERSION_MINOR 1
#define PKV_VERSION_PATCH 0

/* "0.1.0": the version of the library that is linked, which may differ from the macros above. */
PKV_API const char *pkv_version(void);

/* Number that rises whenever a declaration in these headers changes incompatibly. */
#define PKV_ABI_VERSION 1
PKV_API uint32_t pkv_abi_version(void);

/* Statuses. Values are fixed: new ones are added at the end, none is reused. Any value but PKV_OK
 * means that nothing has changed, unless the contract of the function says otherwise. */
#define PKV_STATUS_LIST(X) /* name, value, meaning */                                              \
    X(OK, 0, "done")                                                                               \
    X(E_INVALID_ARG, 1,                                                                            \
      "an argument breaks its contract: null, negative, misaligned, named twice, shapes that "     \
      "disagree")                                                                                  \
    X(E_NO_BLOCKS, 2, "not enough free and evictable blocks now: wait or preempt, then retry")     \
    X(E_AGAIN, 3,                                                                                  \
      "enough blocks come free when an open step retires: retire it and retry, preempt nobody")    \
    X(E_NEVER, 4, "can never fit this pool or domain: refuse the request")                         \
    X(E_STALE, 5, "the handle names something that was closed")                                    \
    X(E_STATE, 6,                                                                                  \
      "the object's state forbids the call: match on a sequence that is not empty, commit of "     \
      "slots not reserved")                                                                        \
    X(E_RANGE, 7,                                                                                  \
      "a position that can no longer be served: truncate to where a window or a state is gone")    \
    X(E_BUSY, 8, "a hold or transfer forbids it for now: finish that, then retry")                 \
    X(E_LIMIT, 9,                                                                                  \
      "a capacity set by the caller is used up: sequences, steps, holds, longest sequence, "       \
      "queue, output array; or past the end of a list")                                            \
    X(E_IDENTITY, 10, "content of another identity: model, KV format, layout, namespace or epoch") \
    X(E_UNSUPPORTED, 11, "not offered by this build, backend, dtype, option or format version")    \
    X(E_NO_MEMORY, 12, "the allocator gave nothing")                                               \
    X(E_DEVICE, 13, "a device call failed; outputs are undefined")                                 \
    X(E_IO, 14, "a file, socket or transport call failed or missed its deadline")                  \
    X(E_FORMAT, 15, "malformed file, frame or header; the log names the byte offset or line")      \
    X(E_CORRUPT, 16, "a checksum or an invariant does not hold")                                   \
    X(E_ABI, 17, "a struct_size or ABI version this library does not know")

typedef enum pkv_status {
#define PKV_STATUS_ENUM(name, value, text) PKV_##name = value,
    PKV_STATUS_LIST(PKV_STATUS_ENUM)
#undef PKV_STATUS_ENUM
} pkv_status;

/* "PKV_E_NO_BLOCKS" and the one-line meaning. Static strings; never NULL, also for unknown values.
 */
PKV_API const char *pkv_status_name(pkv_status status);
PKV_API const char *pkv_status_text(pkv_status status);

/* Element types of K, V, queries and outputs. Names on command lines: f32 f16 bf16 e4m3 e5m2 int8
 * int4. `U4` packs two codes per byte, even dim in the low nibble. */
typedef enum pkv_dtype {
    PKV_F32 = 0,
    PKV_F16 = 1,
    PKV_BF16 = 2,
    PKV_E4M3 = 3,
    PKV_E5M2 = 4,
    PKV_I8 = 5,
    PKV_U4 = 6
} pkv_dtype;
#define PKV_DTYPE_COUNT 7

/* Bits per element; 0 for an unknown value. */
PKV_API int32_t pkv_dtype_bits(pkv_dtype dtype);
/* "f16"; "?" for an unknown value. */
PKV_API const char *pkv_dtype_name(pkv_dtype dtype);
/* The reverse of pkv_dtype_name. PKV_E_INVALID_ARG for anything else; *out is then untouched. */
PKV_API pkv_status pkv_dtype_from_name(const char *name, pkv_dtype *out);

/* One copy of KV bytes between two blocks: all layers of `group`. The first `n_tokens` slots
 * matter; copying the whole block is always right. The block manager plans these, the kernels
 * (pkv_blocks_copy) or the caller carry them out. */
typedef struct pkv_block_copy {
    int32_t src, dst, n_tokens, group;
} pkv_block_copy;

/* The shape of one block's KV bytes: canonical layout `[layer][kv_head][K,V][token][dim]`. */
typedef struct pkv_kv_shape {
    int32_t n_layers;     /* >= 1 */
    int32_t n_kv_heads;   /* >= 1 */
    int32_t head_dim;     /* elements of one K row, and of one V row; multiple of 8, 8 .. 256 */
    int32_t block_tokens; /* tokens per block; 1 .. 2048 */
    pkv_dtype dtype;      /* of the stored K and V; quantised ones bring scales, see store.h */
} pkv_kv_shape;

/* Bytes of one block of this shape, rounded up to 512; the plan of the block manager and the store
 * use this one function, so they cannot disagree.
 * PKV_E_INVALID_ARG: null, a field out of range, or a product that does not fit size_t. */
PKV_API PKV_NODISCARD pkv_status pkv_kv_block_bytes(const pkv_kv_shape *shape, size_t *block_bytes);

/* Where reasons go. `fn` is called on the thread that made the failing call, with a text of one
 * line without newline that lives only during the call and never contains tokens, keys or salts.
 * A NULL `fn` means silence. `fn` must not call back into the object that reports. */
typedef enum pkv_log_level { PKV_LOG_ERROR = 0, PKV_LOG_WARN = 1, PKV_LOG_INFO = 2 } pkv_log_level;
typedef struct pkv_logger {
    void (*fn)(void *ctx, pkv_log_level level, const char *text);
    void *ctx;
} pkv_logger;

/* Where memory comes from. Both functions set, or both NULL (malloc family). `alloc` returns
 * `bytes` bytes aligned to `align` (a power of two), or NULL; the library never asks for 0 bytes.
 */
typedef struct pkv_allocator {
    void *(*alloc)(void *ctx, size_t bytes, size_t align);
    void (*free)(void *ctx, void *ptr, size_t bytes);
    void *ctx;
} pkv_allocator;

#ifdef __cplusplus
}
#endif
#endif
