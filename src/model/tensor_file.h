/* Weight files: tensors by name, whatever the format.
 *
 *   model.safetensors (+ index.json, shards)  --+
 *   *.gguf (v2, v3; split files)              --+--> pkv__tensor_file: sorted table of tensors,
 *   *.bin (llama2.c, v0)                      --'    metadata as typed keys; bytes stay mapped
 *
 * Files are mapped read-only (or read, with no_mmap) and every number in them is bounded by the
 * bytes that are there before anything is allocated. Nothing here knows a model. */
#ifndef PKV_MODEL_TENSOR_FILE_H
#define PKV_MODEL_TENSOR_FILE_H

#include "common/common.h"
#include "pagedkv/base.h"

typedef enum pkv__tensor_type {
    PKV__T_F32,
    PKV__T_F16,
    PKV__T_BF16,
    PKV__T_Q8_0, /* blocks of 32: f16 scale, 32 int8 */
    PKV__T_Q4_0, /* blocks of 32: f16 scale, 16 bytes of nibbles */
    PKV__T_Q4_1, /* blocks of 32: f16 scale, f16 minimum, nibbles */
    PKV__T_Q6_K, /* blocks of 256 */
    PKV__T_I32,
    PKV__T_OTHER /* known to the format, not to us: may be listed, not read */
} pkv__tensor_type;

typedef struct pkv__tensor {
    const char *name; /* owned by the file */
    pkv__tensor_type type;
    const char *type_name; /* as the format calls it */
    int32_t n_dims;        /* 1 .. 4 */
    int64_t dims[4];       /* outermost first, row-major, whatever the file's convention; then 1 */
    const uint8_t *data;   /* any alignment; owned by the file */
    size_t bytes;
} pkv__tensor;

typedef enum pkv__meta_type {
    PKV__META_INT,
    PKV__META_REAL,
    PKV__META_BOOL,
    PKV__META_TEXT
} pkv__meta_type;
typedef struct pkv__meta {
    const char *key;
    pkv__meta_type type;
    int64_t i;        /* INT, BOOL */
    double d;         /* REAL */
    const char *text; /* TEXT, zero-terminated too */
    size_t text_bytes;
} pkv__meta;

typedef struct pkv__tensor_file pkv__tensor_file;

typedef struct pkv__tensor_file_config {
    const char *path; /* a file, or a folder with model.safetensors(.index.json) or one *.gguf or
                       *.bin */
    bool no_mmap;
    pkv_logger log;
    pkv_allocator alloc;
} pkv__tensor_file_config;

/* Open whichever format it is, by content. *out on success only.
 *   PKV_E_INVALID_ARG a folder with several weight files: name one;
 *   PKV_E_IO cannot be read, or changed while it was being opened; PKV_E_FORMAT malformed, with
 * file and byte offset in the log; PKV_E_UNSUPPORTED a version or encoding; PKV_E_NO_MEMORY
 * O(header). */
PKV_NODISCARD pkv_status pkv__tensor_file_open(const pkv__tensor_file_config *cfg,
                                               pkv__tensor_file **out);
void pkv__tensor_file_close(pkv__tensor_file *file);

/* "safetensors", "gguf", "llama2.c". */
const char *pkv__tensor_file_format(const pkv__tensor_file *file);
int64_t pkv__tensor_file_count(const pkv__tensor_file *file);
const pkv__tensor *pkv__tensor_file_at(const pkv__tensor_file *file, int64_t k); /* by name */
/* NULL: no such tensor. O(log n). */
const pkv__tensor *pkv__tensor_file_find(const pkv__tensor_file *file, const char *name);
/* GGUF keys with scalar values, safetensors' __metadata__, the header of a .bin as "llama2c.dim"
 * and so on. NULL: none. */
const pkv__meta *pkv__tensor_file_meta(const pkv__tensor_file *file, const char *key);
/* A GGUF array: type of its elements, their number, and where they begin (strings: a 64-bit length
 * before each, all bounds checked). False: none. */
typedef struct pkv__meta_array {
    uint32_t gguf_type;
    uint64_t n;
    const uint8_t *data;
    size_t bytes;
} pkv__meta_array;
bool pkv__tensor_file_array(const pkv__tensor_file *file, const char *key, pkv__meta_array *out);

/* Elements and bytes of the smallest piece of a type that stands alone: 1, or the block. */
int32_t pkv__tensor_block(pkv__tensor_type type, int32_t *bytes);

/* Elements [first, first + n) of a tensor as floats, counted row-major over all dimensions; for
 * block types first and n are multiples of the block. Exact for every type. PKV_E_UNSUPPORTED for
 * OTHER and I32; PKV_E_RANGE. */
PKV_NODISCARD pkv_status pkv__tensor_floats(const pkv__tensor *t, int64_t first, int64_t n,
                                            float *out);

#endif
