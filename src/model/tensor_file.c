/* Opening weight files: which file of a folder, which format, and looking things up. */
#include "model/tensor_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static pkv_status create(const pkv_logger *log, const pkv_allocator *alloc, bool no_mmap,
                         pkv__tensor_file **out)
{
    if (!pkv__allocator_valid(alloc)) return PKV_E_INVALID_ARG;
    pkv__tensor_file *file = pkv__alloc(alloc, sizeof(*file), sizeof(void *));
    if (!file) return PKV_E_NO_MEMORY;
    memset(file, 0, sizeof(*file));
    if (log) file->log = *log;
    if (alloc) file->alloc = *alloc;
    file->no_mmap = no_mmap;
    *out = file;
    return PKV_OK;
}

/* ---------------------------------------------------------------- which format */

/* By content. A safetensors header begins at byte 8 with { and something that is no zero byte,
 * which the number of layers of a .bin there would need a million layers for. What is none of them
 * is read as what its name claims, for the sake of the message. */
static pkv_status read_first_part(pkv__tensor_file *file)
{
    const pkv__file_map *map = &file->parts[0];
    if (map->bytes >= 4 && memcmp(map->data, "GGUF", 4) == 0) return pkv__read_gguf(file, 0);
    if (map->bytes >= 10 && map->data[8] == '{' && map->data[9] != 0)
        return pkv__read_safetensors(file, 0);
    if (ends_with(map->path, ".safetensors")) return pkv__read_safetensors(file, 0);
    if (ends_with(map->path, ".gguf")) return pkv__read_gguf(file, 0);
    return pkv__read_llama2c(file, 0);
}

static pkv_status finish(pkv__tensor_file *file)
{
    pkv_status status = pkv__sort_metas(file, 0);
    if (status == PKV_OK) status = pkv__sort_tensors(file);
    for (size_t k = 0; status == PKV_OK && k < file->n_parts; k++)
        status = pkv__file_map_check(&file->parts[k], &file->log);
    return status;
}

static pkv_status open_path(pkv__tensor_file *file, const char *path)
{
    if (ends_with(path, ".index.json")) return pkv__read_safetensors_index(file, path);
    const pkv_status status = pkv__part_open(file, path);
    return status == PKV_OK ? read_first_part(file) : status;
}

/* ---------------------------------------------------------------- which file of a folder */

/* Beside weights of llama2.c lie their vocabularies, tok*.bin. Of a split GGUF model the first
 * part stands for all. */
static int rank_of(const char *name)
{
    if (strcmp(name, SINGLE) == 0) return 4;
    if (strcmp(name, INDEX) == 0) return 3;
    if (ends_with(name, ".gguf"))
        return !strstr(name, "-of-") || strstr(name, "-00001-of-") ? 2 : 0;
    if (ends_with(name, ".bin")) return strncmp(name, "tok", 3) == 0 ? 0 : 1;
    return 0;
}

static pkv_status choose(pkv__tensor_file *file, const char *folder, const char **chosen)
{
    int best = 0, n_best = 0;
    DIR *dir = opendir(folder);
    if (!dir) return pkv__refuse(&file->log, PKV_E_IO, "%.160s: %s", folder, strerror(errno));
    pkv_status status = PKV_OK;
    for (const struct dirent *entry; status == PKV_OK && (entry = readdir(dir));) {
        const int rank = rank_of(entry->d_name);
        if (rank == 0 || rank < best) continue;
        n_best = rank > best ? 1 : n_best + 1;
        best = rank;
        *chosen = pkv__text_keep(file, entry->d_name, strlen(entry->d_name));
        if (!*chosen) status = PKV_E_NO_MEMORY;
    }
    closedir(dir);
    if (status != PKV_OK) return status;
    if (best == 0)
        return pkv__refuse(&file->log, PKV_E_IO,
                           "%.100s holds no " SINGLE ", no " INDEX ", no .gguf and no .bin",
                           folder);
    if (n_best > 1)
        return pkv__refuse(&file->log, PKV_E_INVALID_ARG, "%.160s holds %d weight files: name one",
                           folder, n_best);
    return PKV_OK;
}

static pkv_status open_folder(pkv__tensor_file *file, const char *folder)
{
    const char *name = NULL;
    size_t bytes;
    pkv_status status = choose(file, folder, &name);
    if (status != PKV_OK) return status;
    char *path = pkv__path_join(&file->alloc, folder, true, name, &bytes);
    if (!path) return PKV_E_NO_MEMORY;
    status = open_path(file, path);
    pkv__free(&file->alloc, path, bytes);
    return status;
}

/* ---------------------------------------------------------------- opening */

pkv_status pkv__tensor_file_open(const pkv__tensor_file_config *cfg, pkv__tensor_file **out)
{
    struct stat info;
    pkv__tensor_file *file;
    if (!cfg || !cfg->path || !out) return PKV_E_INVALID_ARG;
    pkv_status status = create(&cfg->log, &cfg->alloc, cfg->no_mmap, &file);
    if (status != PKV_OK) return status;
    if (stat(cfg->path, &info) != 0)
        status = pkv__refuse(&cfg->log, PKV_E_IO, "%.160s: %s", cfg->path, strerror(errno));
    else status = S_ISDIR(info.st_mode) ? open_folder(file, cfg->path) : open_path(file, cfg->path);
    if (status == PKV_OK) status = finish(file);
    if (status == PKV_OK) *out = file;
    else pkv__tensor_file_close(file);
    return status;
}

static pkv_status lend(pkv__tensor_file *file, const void *data, size_t bytes, const char *name)
{
    const pkv_status status =
        pkv__table_grow(&file->alloc, &file->parts, &file->part_cap, 0, sizeof(*file->parts));
    if (status != PKV_OK) return status;
    pkv__file_map *map = &file->parts[0];
    memset(map, 0, sizeof(*map));
    map->path_bytes = strlen(name) + 1;
    map->path = pkv__alloc(&file->alloc, map->path_bytes, 1);
    if (!map->path) return PKV_E_NO_MEMORY;
    memcpy(map->path, name, map->path_bytes);
    map->kind = PKV__MAP_LENT;
    map->data = data;
    map->bytes = bytes;
    file->n_parts = 1;
    return PKV_OK;
}

pkv_status pkv__tensor_file_open_memory(const void *data, size_t bytes, const char *name,
                                        const pkv_logger *log, const pkv_allocator *alloc,
                                        pkv__tensor_file **out)
{
    pkv__tensor_file *file;
    pkv_status status = create(log, alloc, true, &file);
    if (status != PKV_OK) return status;
    status = lend(file, data, bytes, name);
    if (status == PKV_OK) status = read_first_part(file);
    if (status == PKV_OK) status = finish(file);
    if (status == PKV_OK) *out = file;
    else pkv__tensor_file_close(file);
    return status;
}

/* ---------------------------------------------------------------- looking up */

const char *pkv__tensor_file_format(const pkv__tensor_file *file)
{
    return file->format;
}

int64_t pkv__tensor_file_count(const pkv__tensor_file *file)
{
    return (int64_t)file->n_tensors;
}

const pkv__tensor *pkv__tensor_file_at(const pkv__tensor_file *file, int64_t k)
{
    return k >= 0 && (uint64_t)k < file->n_tensors ? &file->tensors[k].tensor : NULL;
}

static int name_against(const void *name, const void *entry)
{
    return strcmp(name, ((const pkv__tensor_entry *)entry)->tensor.name);
}

static int key_against(const void *key, const void *entry)
{
    return strcmp(key, ((const pkv__meta_entry *)entry)->meta.key);
}

const pkv__tensor *pkv__tensor_file_find(const pkv__tensor_file *file, const char *name)
{
    if (file->n_tensors == 0) return NULL;
    const pkv__tensor_entry *e =
        bsearch(name, file->tensors, file->n_tensors, sizeof(*file->tensors), name_against);
    return e ? &e->tensor : NULL;
}

static const pkv__meta_entry *find_key(const pkv__tensor_file *file, const char *key)
{
    if (file->n_metas == 0) return NULL;
    return bsearch(key, file->metas, file->n_metas, sizeof(*file->metas), key_against);
}

const pkv__meta *pkv__tensor_file_meta(const pkv__tensor_file *file, const char *key)
{
    const pkv__meta_entry *e = find_key(file, key);
    return e && !e->is_array ? &e->meta : NULL;
}

bool pkv__tensor_file_array(const pkv__tensor_file *file, const char *key, pkv__meta_array *out)
{
    const pkv__meta_entry *e = find_key(file, key);
    if (!e || !e->is_array) return false;
    *out = e->array;
    return true;
}
