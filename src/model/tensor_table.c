/* The tables of a weight file: parts, tensors, metadata, and the texts that they point to. */
#include "model/tensor_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK_BYTES ((size_t)16 << 10)

struct pkv__text_chunk {
    pkv__text_chunk *next;
    size_t used, cap; /* of the bytes that follow */
};

pkv_status pkv__refuse_at(const pkv__tensor_file *file, int32_t part, uint64_t at,
                          pkv_status status, const char *fmt, ...)
{
    char why[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    return pkv__refuse(&file->log, status, "%.64s: byte %llu: %s",
                       pkv__base_name(file->parts[part].path), (unsigned long long)at, why);
}

const char *pkv__shown(const char *name, size_t bytes, char out[PKV__SHOWN])
{
    const size_t n = bytes < PKV__SHOWN - 1 ? bytes : PKV__SHOWN - 1;
    for (size_t k = 0; k < n; k++) out[k] = name[k] >= ' ' && name[k] < 127 ? name[k] : '?';
    out[n] = '\0';
    return out;
}

pkv_status pkv__table_grow(const pkv_allocator *alloc, void *items, size_t *cap, size_t n,
                           size_t item_bytes)
{
    void *old, *more;
    size_t bytes;
    if (n < *cap) return PKV_OK;
    const size_t want = *cap ? 2 * *cap : 16;
    memcpy(&old, items, sizeof(old));
    if (!pkv__mul_size(want, item_bytes, &bytes)) return PKV_E_NO_MEMORY;
    more = pkv__alloc(alloc, bytes, sizeof(void *));
    if (!more) return PKV_E_NO_MEMORY;
    if (n > 0) memcpy(more, old, n * item_bytes);
    pkv__free(alloc, old, *cap * item_bytes);
    memcpy(items, &more, sizeof(more));
    *cap = want;
    return PKV_OK;
}

const char *pkv__text_keep(pkv__tensor_file *file, const void *text, size_t bytes)
{
    pkv__text_chunk *chunk = file->chunks;
    if (bytes > SIZE_MAX / 2) return NULL;
    if (!chunk || chunk->cap - chunk->used <= bytes) {
        const size_t cap = bytes < CHUNK_BYTES ? CHUNK_BYTES : bytes + 1;
        chunk = pkv__alloc(&file->alloc, sizeof(*chunk) + cap, sizeof(void *));
        if (!chunk) return NULL;
        *chunk = (pkv__text_chunk){ file->chunks, 0, cap };
        file->chunks = chunk;
    }
    char *copy = (char *)(chunk + 1) + chunk->used;
    if (bytes > 0) memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    chunk->used += bytes + 1;
    return copy;
}

pkv_status pkv__part_open(pkv__tensor_file *file, const char *path)
{
    pkv_status status = pkv__table_grow(&file->alloc, &file->parts, &file->part_cap, file->n_parts,
                                        sizeof(*file->parts));
    if (status != PKV_OK) return status;
    status = pkv__file_map_open(path, file->no_mmap, 0, &file->log, &file->alloc,
                                &file->parts[file->n_parts]);
    if (status == PKV_OK) file->n_parts++;
    return status;
}

/* A name that C strings can carry. */
static pkv_status keep_name(pkv__tensor_file *file, int32_t part, uint64_t at, const char *what,
                            const void *name, size_t bytes, const char **kept)
{
    if (bytes == 0) return pkv__refuse_at(file, part, at, PKV_E_FORMAT, "an empty %s", what);
    if (memchr(name, 0, bytes))
        return pkv__refuse_at(file, part, at, PKV_E_FORMAT, "a zero byte in a %s", what);
    *kept = pkv__text_keep(file, name, bytes);
    return *kept ? PKV_OK : PKV_E_NO_MEMORY;
}

pkv_status pkv__add_tensor(pkv__tensor_file *file, const pkv__tensor_entry *entry, const void *name,
                           size_t name_bytes)
{
    pkv__tensor_entry e = *entry;
    pkv_status status =
        keep_name(file, e.part, e.at, "tensor name", name, name_bytes, &e.tensor.name);
    if (status != PKV_OK) return status;
    status = pkv__table_grow(&file->alloc, &file->tensors, &file->tensor_cap, file->n_tensors,
                             sizeof(e));
    if (status == PKV_OK) file->tensors[file->n_tensors++] = e;
    return status;
}

pkv_status pkv__add_meta(pkv__tensor_file *file, const pkv__meta_entry *entry, const void *key,
                         size_t key_bytes)
{
    pkv__meta_entry e = *entry;
    pkv_status status = keep_name(file, e.part, e.at, "key", key, key_bytes, &e.meta.key);
    if (status != PKV_OK) return status;
    status = pkv__table_grow(&file->alloc, &file->metas, &file->meta_cap, file->n_metas, sizeof(e));
    if (status == PKV_OK) file->metas[file->n_metas++] = e;
    return status;
}

/* ---------------------------------------------------------------- order */

static int by_place(const void *a, const void *b)
{
    const pkv__tensor *x = &((const pkv__tensor_entry *)a)->tensor;
    const pkv__tensor *y = &((const pkv__tensor_entry *)b)->tensor;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pkv__tensor_entry *)a)->tensor.name,
                  ((const pkv__tensor_entry *)b)->tensor.name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const pkv__meta_entry *)a)->meta.key, ((const pkv__meta_entry *)b)->meta.key);
}

void pkv__sort_by_place(pkv__tensor_file *file, size_t first)
{
    if (file->n_tensors > first)
        qsort(file->tensors + first, file->n_tensors - first, sizeof(*file->tensors), by_place);
}

pkv_status pkv__sort_metas(pkv__tensor_file *file, size_t first)
{
    char shown[PKV__SHOWN];
    if (file->n_metas == first) return PKV_OK;
    qsort(file->metas + first, file->n_metas - first, sizeof(*file->metas), by_key);
    for (size_t k = first + 1; k < file->n_metas; k++) {
        const pkv__meta_entry *e = &file->metas[k];
        if (by_key(e - 1, e) == 0)
            return pkv__refuse_at(file, e->part, e->at, PKV_E_FORMAT, "the key %s comes twice",
                                  pkv__shown(e->meta.key, strlen(e->meta.key), shown));
    }
    return PKV_OK;
}

pkv_status pkv__sort_tensors(pkv__tensor_file *file)
{
    char shown[PKV__SHOWN];
    if (file->n_tensors == 0) return PKV_OK;
    qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), by_name);
    for (size_t k = 1; k < file->n_tensors; k++) {
        const pkv__tensor_entry *e = &file->tensors[k];
        if (by_name(e - 1, e) == 0)
            return pkv__refuse_at(file, e->part, e->at, PKV_E_FORMAT, "the tensor %s comes twice",
                                  pkv__shown(e->tensor.name, strlen(e->tensor.name), shown));
    }
    return PKV_OK;
}

void pkv__tensor_file_close(pkv__tensor_file *file)
{
    if (!file) return;
    const pkv_allocator alloc = file->alloc;
    for (size_t k = 0; k < file->n_parts; k++) pkv__file_map_close(&file->parts[k], &alloc);
    pkv__free(&alloc, file->parts, file->part_cap * sizeof(*file->parts));
    pkv__free(&alloc, file->tensors, file->tensor_cap * sizeof(*file->tensors));
    pkv__free(&alloc, file->metas, file->meta_cap * sizeof(*file->metas));
    for (pkv__text_chunk *chunk = file->chunks; chunk;) {
        pkv__text_chunk *next = chunk->next;
        pkv__free(&alloc, chunk, sizeof(*chunk) + chunk->cap);
        chunk = next;
    }
    pkv__free(&alloc, file, sizeof(*file));
}
