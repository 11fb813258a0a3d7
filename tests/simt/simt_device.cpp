/* The device as tests see it (simt_device.h): here it is this process's memory. */
#include "simt_device.h"
#include "simt_state.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>

namespace simt
{
namespace
{

/* What a buffer needs to be freed: the bytes of its mapping, or 0 if it is of the heap. */
std::map<void *, size_t> &buffers()
{
    static std::map<void *, size_t> all;
    return all;
}

void *add_buffer(void *p, size_t bytes, size_t mapped_bytes)
{
    buffers()[p] = mapped_bytes;
    if (watcher.global_add) watcher.global_add(p, bytes);
    return p;
}

} // namespace
} // namespace simt

using namespace simt;

extern "C" {

void *device_alloc(size_t bytes)
{
    void *p = nullptr;
    if (posix_memalign(&p, 256, bytes)) return nullptr;
    memset(p, 0xff, bytes);
    return add_buffer(p, bytes, 0);
}

/* A page that nobody may touch lies behind it. */
void *device_alloc_sparse(size_t bytes)
{
    const size_t page = 4096, mapped = (bytes + page - 1) / page * page + page;
    void *p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    mprotect(static_cast<char *>(p) + mapped - page, page, PROT_NONE);
    return add_buffer(p, bytes, mapped);
}

void device_free(void *p)
{
    if (!p) return;
    const auto found = buffers().find(p);
    if (found == buffers().end()) abort(); /* not a device buffer, or freed before */
    if (watcher.global_remove) watcher.global_remove(p);
    if (found->second > 0) munmap(p, found->second);
    else free(p);
    buffers().erase(found);
}

void device_upload(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}
void device_download(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}
void device_fill(void *dst, int byte, size_t bytes)
{
    memset(dst, byte, bytes);
}

void device_schedule(const device_schedule_t *schedule)
{
    m.schedule = *schedule;
}

device_schedule_t device_schedule_of(int i)
{
    return { (unsigned)(i / 2), i % 2, (device_block_order)(i / 2 % 3) };
}

const char *device_last_error(void)
{
    return m.error;
}

const char *device_build(void)
{
#ifdef SIMT_ASAN
    return "asan";
#elif defined SIMT_PTX
    return "ptx";
#else
    return watcher.access ? "race" : "plain";
#endif
}

device_totals device_get_totals(void)
{
    return m.totals;
}

} /* extern "C" */
