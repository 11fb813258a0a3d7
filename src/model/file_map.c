/* Bytes of a file: mapped read-only, or read whole. The descriptor is closed at once; what it was
 * is remembered and compared when opening ends. */
#include "model/tensor_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_STEP ((size_t)1 << 30) /* read() takes at most about 2 GiB */

const char *pkv__base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *pkv__path_join(const pkv_allocator *alloc, const char *path, bool whole_path,
                     const char *name, size_t *bytes)
{
    const size_t folder = whole_path ? strlen(path) : (size_t)(pkv__base_name(path) - path);
    const bool slash = folder > 0 && path[folder - 1] != '/';
    const size_t n = folder + slash + strlen(name) + 1;
    char *joined = pkv__alloc(alloc, n, 1);
    if (!joined) return NULL;
    memcpy(joined, path, folder);
    if (slash) joined[folder] = '/';
    memcpy(joined + folder + slash, name, strlen(name) + 1);
    *bytes = n;
    return joined;
}

static pkv_status read_whole(int fd, const char *path, const pkv_logger *log,
                             const pkv_allocator *alloc, pkv__file_map *map)
{
    uint8_t *data = pkv__alloc(alloc, map->bytes, PKV_CACHE_LINE);
    if (!data) return PKV_E_NO_MEMORY;
    for (size_t at = 0; at < map->bytes;) {
        const size_t want = map->bytes - at < READ_STEP ? map->bytes - at : READ_STEP;
        const ssize_t got = read(fd, data + at, want);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            pkv__free(alloc, data, map->bytes);
            return pkv__refuse(log, PKV_E_IO, "%.80s: %s at byte %zu", pkv__base_name(path),
                               got < 0 ? strerror(errno) : "the file ends", at);
        }
        at += (size_t)got;
    }
    map->data = data;
    map->kind = PKV__MAP_READ;
    return PKV_OK;
}

static pkv_status map_whole(int fd, const char *path, const pkv_logger *log, pkv__file_map *map)
{
    void *data = mmap(NULL, map->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return pkv__refuse(log, PKV_E_IO, "%.80s: %s; reading instead of mapping may help",
                           pkv__base_name(path), strerror(errno));
    map->data = data;
    map->kind = PKV__MAP_MAPPED;
    return PKV_OK;
}

static pkv_status look_at(int fd, const char *path, size_t max_bytes, const pkv_logger *log,
                          pkv__file_map *map)
{
    struct stat info;
    const char *base = pkv__base_name(path);
    if (fstat(fd, &info) != 0)
        return pkv__refuse(log, PKV_E_IO, "%.80s: %s", base, strerror(errno));
    if (!S_ISREG(info.st_mode)) return pkv__refuse(log, PKV_E_IO, "%.80s is no regular file", base);
    if (info.st_size == 0)
        return pkv__refuse(log, PKV_E_FORMAT, "%.80s: byte 0: the file is empty", base);
    if (max_bytes > 0 && (uint64_t)info.st_size > max_bytes)
        return pkv__refuse(log, PKV_E_LIMIT, "%.80s has %lld bytes, at most %zu are taken", base,
                           (long long)info.st_size, max_bytes);
    map->bytes = (size_t)info.st_size;
    map->device = (uint64_t)info.st_dev;
    map->inode = (uint64_t)info.st_ino;
    map->mtime_s = (int64_t)info.st_mtim.tv_sec;
    map->mtime_ns = (int64_t)info.st_mtim.tv_nsec;
    return PKV_OK;
}

pkv_status pkv__file_map_open(const char *path, bool no_mmap, size_t max_bytes,
                              const pkv_logger *log, const pkv_allocator *alloc, pkv__file_map *out)
{
    /* O_NONBLOCK: the open of a pipe without a writer would wait. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return pkv__refuse(log, PKV_E_IO, "%.160s: %s", path, strerror(errno));
    pkv__file_map map = { 0 };
    pkv_status status = look_at(fd, path, max_bytes, log, &map);
    if (status != PKV_OK) goto done;
    map.path_bytes = strlen(path) + 1;
    map.path = pkv__alloc(alloc, map.path_bytes, 1);
    status = PKV_E_NO_MEMORY;
    if (!map.path) goto done;
    memcpy(map.path, path, map.path_bytes);
    status = no_mmap ? read_whole(fd, path, log, alloc, &map) : map_whole(fd, path, log, &map);
    if (status == PKV_OK) *out = map;
    else pkv__free(alloc, map.path, map.path_bytes);
done:
    close(fd);
    return status;
}

pkv_status pkv__file_map_check(const pkv__file_map *map, const pkv_logger *log)
{
    struct stat info;
    if (map->kind == PKV__MAP_LENT) return PKV_OK;
    if (stat(map->path, &info) != 0 || (uint64_t)info.st_dev != map->device ||
        (uint64_t)info.st_ino != map->inode || (uint64_t)info.st_size != map->bytes ||
        (int64_t)info.st_mtim.tv_sec != map->mtime_s ||
        (int64_t)info.st_mtim.tv_nsec != map->mtime_ns)
        return pkv__refuse(log, PKV_E_IO, "%.80s changed while it was being opened",
                           pkv__base_name(map->path));
    return PKV_OK;
}

void pkv__file_map_close(pkv__file_map *map, const pkv_allocator *alloc)
{
    union {
        const uint8_t *in;
        void *out;
    } data = { map->data }; /* mapped for reading; given back without const */
    if (map->kind == PKV__MAP_MAPPED) munmap(data.out, map->bytes);
    if (map->kind == PKV__MAP_READ) pkv__free(alloc, data.out, map->bytes);
    pkv__free(alloc, map->path, map->path_bytes);
    memset(map, 0, sizeof(*map));
}
