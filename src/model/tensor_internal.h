/* Inside the weight files: what the three readers fill.
 *
 *   file_map --bytes--> safetensors.c | gguf.c | llama2c.c --add--> tensor_table.c --> tensor_file
 *
 * A reader walks one part (one file), bounds every number by the bytes that are there and adds
 * entries; tables grow with what has been read, never by a number that a file states. Entries
 * remember part and byte offset, so that a refusal can name them. One thread. */
#ifndef PKV_MODEL_TENSOR_INTERNAL_H
#define PKV_MODEL_TENSOR_INTERNAL_H

#include "model/tensor_file.h"

#include <string.h>

/* ---------------------------------------------------------------- bytes of a file */

typedef enum pkv__map_kind {
    PKV__MAP_NONE,
    PKV__MAP_MAPPED,
    PKV__MAP_READ,
    PKV__MAP_LENT
} pkv__map_kind;
typedef struct pkv__file_map {
    pkv__map_kind kind;
    char *path; /* ours, path_bytes with its zero; for messages and for the look at the end */
    size_t path_bytes;
    const uint8_t *data;
    size_t bytes;
    uint64_t device, inode; /* what the file was when it was opened */
    int64_t mtime_s, mtime_ns;
} pkv__file_map;

/* Map a regular file, or read it with no_mmap. PKV_E_IO: missing, unreadable, no regular file;
 * PKV_E_FORMAT: empty; PKV_E_LIMIT: longer than max_bytes (0: any length). */
PKV_NODISCARD pkv_status pkv__file_map_open(const char *path, bool no_mmap, size_t max_bytes,
                                            const pkv_logger *log, const pkv_allocator *alloc,
                                            pkv__file_map *out);
/* PKV_E_IO if the file at the path is not the one that was opened, or changed since. A file that
 * shrinks while it is mapped kills the reader; one that is still being written is caught here. */
PKV_NODISCARD pkv_status pkv__file_map_check(const pkv__file_map *map, const pkv_logger *log);
void pkv__file_map_close(pkv__file_map *map, const pkv_allocator *alloc);
/* "folder/name" in memory of the hook, *bytes with the zero; the folder is that of `path` up to its
 * last separator, or `path` itself with whole_path. NULL: no memory. */
char *pkv__path_join(const pkv_allocator *alloc, const char *path, bool whole_path,
                     const char *name, size_t *bytes);
const char *pkv__base_name(const char *path);

/* ---------------------------------------------------------------- the tables */

typedef struct pkv__tensor_entry {
    pkv__tensor tensor;
    int32_t part;
    uint64_t at; /* byte offset of its description */
} pkv__tensor_entry;

typedef struct pkv__meta_entry {
    pkv__meta meta; /* of an array: the key only */
    bool is_array;
    pkv__meta_array array;
    int32_t part;
    uint64_t at;
} pkv__meta_entry;

typedef struct pkv__text_chunk pkv__text_chunk;

struct pkv__tensor_file {
    const char *format;
    pkv_logger log;
    pkv_allocator alloc;
    bool no_mmap;
    pkv__file_map *parts;
    size_t n_parts, part_cap;
    pkv__tensor_entry *tensors;
    size_t n_tensors, tensor_cap;
    pkv__meta_entry *metas;
    size_t n_metas, meta_cap;
    pkv__text_chunk *chunks; /* names and texts */
};

/* Refuse with file and byte offset: "model.gguf: byte 24: why". */
pkv_status pkv__refuse_at(const pkv__tensor_file *file, int32_t part, uint64_t at,
                          pkv_status status, const char *fmt, ...) PKV_PRINTF(5, 6);
/* A name out of a file, made fit for one line of the log. Returns `out`. */
#define PKV__SHOWN 64
const char *pkv__shown(const char *name, size_t bytes, char out[PKV__SHOWN]);

/* Room for one more in a table. */
PKV_NODISCARD pkv_status pkv__table_grow(const pkv_allocator *alloc, void *items, size_t *cap,
                                         size_t n, size_t item_bytes);
/* A zero-terminated copy that lives as long as the file. NULL: no memory. */
const char *pkv__text_keep(pkv__tensor_file *file, const void *text, size_t bytes);
/* Open one more part; its index is n_parts - 1 afterwards. */
PKV_NODISCARD pkv_status pkv__part_open(pkv__tensor_file *file, const char *path);
/* Names and keys are copied; PKV_E_FORMAT for an empty one or one with a zero byte. */
PKV_NODISCARD pkv_status pkv__add_tensor(pkv__tensor_file *file, const pkv__tensor_entry *entry,
                                         const void *name, size_t name_bytes);
PKV_NODISCARD pkv_status pkv__add_meta(pkv__tensor_file *file, const pkv__meta_entry *entry,
                                       const void *key, size_t key_bytes);
/* Sort the tensors from `first` on by their place in the data. */
void pkv__sort_by_place(pkv__tensor_file *file, size_t first);
/* Sort the metadata from `first` on by key; PKV_E_FORMAT for a key that comes twice. */
PKV_NODISCARD pkv_status pkv__sort_metas(pkv__tensor_file *file, size_t first);
/* Sort the tensors by name; PKV_E_FORMAT for a name that comes twice. */
PKV_NODISCARD pkv_status pkv__sort_tensors(pkv__tensor_file *file);

/* ---------------------------------------------------------------- readers */

/* Read part `part`, already open, and what it names (the other files of a split model). */
PKV_NODISCARD pkv_status pkv__read_safetensors(pkv__tensor_file *file, int32_t part);
PKV_NODISCARD pkv_status pkv__read_gguf(pkv__tensor_file *file, int32_t part);
PKV_NODISCARD pkv_status pkv__read_llama2c(pkv__tensor_file *file, int32_t part);
/* Open the shards that an index.json names, and read them. */
PKV_NODISCARD pkv_status pkv__read_safetensors_index(pkv__tensor_file *file, const char *path);

/* Open bytes in memory as if they were a file called `name`. They stay the caller's and must
 * outlive the file. For tests; split models need files. */
PKV_NODISCARD pkv_status pkv__tensor_file_open_memory(const void *data, size_t bytes,
                                                      const char *name, const pkv_logger *log,
                                                      const pkv_allocator *alloc,
                                                      pkv__tensor_file **out);

#endif
