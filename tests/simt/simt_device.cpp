/* The device as tests see it (simt_device.h): here it is this process's memory. */
#include "simt_device.h"
#include "simt_state.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>

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

/* At the end of a program, not of one that it has forked: whose counts begin with its parent's. */
struct totals_writer {
    const pid_t program = getpid();

    ~totals_writer()
    {
        const char *path = getenv("PKV_SIMT_TOTALS");
        if (!path || getpid() != program || m.totals.launches == 0) return;
        FILE *file = fopen(path, "a");
        if (!file) return;
        const device_totals &t = m.totals;
        fprintf(file,
                "%s launches %" PRIu64 " blocks %" PRIu64 " switches %" PRIu64 " barriers %" PRIu64
                " collectives %" PRIu64 " products %" PRIu64 " copies %" PRIu64 " accesses %" PRIu64
                " instructions %" PRIu64 "\n",
                device_build(), t.launches, t.blocks, t.switches, t.barriers, t.collectives,
                t.products, t.copies, t.accesses, t.instructions);
        fclose(file);
    }
};

const totals_writer writer;

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
