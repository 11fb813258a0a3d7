/* cp.async: copies from global to shared memory, in groups of a thread. The hardware may land one
 * at any time from its issue to the wait that allows it; the two ends of that are tried:
 *   eager  at its issue
 *   lazy   at the wait; until then the destination holds 0xff, and what was there is gone */
#include "simt_state.h"

#include <cstring>
#include <deque>

#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace simt
{
namespace
{

struct copy {
    char *dst;
    const void *src;
    size_t bytes, src_bytes;
    site at;
};
using group = std::vector<copy>;

struct copy_queue {
    std::deque<group> committed; /* oldest first */
    group open;
};

std::vector<copy_queue> &queues()
{
    static std::vector<copy_queue> of_threads;
    return of_threads;
}

void land(const copy &c)
{
    if (c.src_bytes > 0) memcpy(c.dst, c.src, c.src_bytes);
    memset(c.dst + c.src_bytes, 0, c.bytes - c.src_bytes);
}

void check_copy(const copy &c, site at)
{
    if (c.src_bytes > c.bytes)
        fail(at, "cp.async: %zu bytes of source for %zu", c.src_bytes, c.bytes);
    if (reinterpret_cast<uintptr_t>(c.dst) % c.bytes)
        fail(at, "cp.async: the destination is not aligned to %zu bytes", c.bytes);
    if (!in_shared(c.dst, c.bytes))
        fail(at, "cp.async: the destination is outside of shared memory");
    if (c.src_bytes == 0) return;
    if (reinterpret_cast<uintptr_t>(c.src) % c.bytes)
        fail(at, "cp.async: the source is not aligned to %zu bytes", c.bytes);
#ifdef SIMT_ASAN
    if (__asan_region_is_poisoned(const_cast<void *>(c.src), c.src_bytes))
        fail(at, "cp.async: the source is out of bounds");
#endif
    if (watcher.access) watcher.access(c.src, c.src_bytes, access::load, at);
}

} // namespace

void copies_begin(int n_threads)
{
    queues().assign((size_t)n_threads, {});
}

void copy_async(void *dst, const void *src, size_t bytes, size_t src_bytes, site at)
{
    const copy c = { static_cast<char *>(dst), src, bytes, src_bytes, at };
    check_copy(c, at);
    m.totals.copies++;
    if (watcher.copy_issue) watcher.copy_issue(dst, bytes, at);
    if (m.schedule.eager) land(c);
    else memset(dst, 0xff, bytes);
    queues()[(size_t)m.running->idx].open.push_back(c);
}

void copy_commit()
{
    copy_queue &q = queues()[(size_t)m.running->idx];
    q.committed.push_back(std::move(q.open));
    q.open.clear();
}

void copy_wait(int n)
{
    copy_queue &q = queues()[(size_t)m.running->idx];
    while (q.committed.size() > (size_t)n) {
        for (const copy &c : q.committed.front()) {
            if (!m.schedule.eager) land(c);
            if (watcher.copy_land) watcher.copy_land(c.dst, c.bytes);
        }
        q.committed.pop_front();
    }
}

void copy_check_exit()
{
    copy_queue &q = queues()[(size_t)m.running->idx];
    size_t n = q.open.size();
    const copy *last = n > 0 ? &q.open.back() : nullptr;
    for (const group &g : q.committed) {
        n += g.size();
        if (!last && !g.empty()) last = &g.back();
    }
    if (n > 0) fail(last->at, "exits with %zu cp.async under way, one of them this", n);
}

} // namespace simt
