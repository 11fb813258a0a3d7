/* One stack per thread of a block. The stacks are kept from launch to launch and only ever grow in
 * number; under each lies a page that nobody may touch.
 *
 * Stacks of 64 KiB, all aligned alike, have their tops in the same few sets of the cache: with 256
 * of them a switch took 52 ns. Tops moved apart by `i % 37 * 448` bytes: 26 ns (rounds of barriers,
 * best of 5 on a busy machine; other strides did as well, and with 1024 none helps). */
#include "simt_state.h"
#include "simt_switch.h"

#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sys/mman.h>

#ifdef SIMT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt
{
namespace
{

constexpr size_t guard_bytes = 4096;
#ifdef SIMT_ASAN
constexpr size_t stack_bytes = 256 << 10; /* redzones around every variable */
#elif defined SIMT_PTX
constexpr size_t stack_bytes = 1 << 20; /* a cell for each register of the PTX, which are many */
#else
constexpr size_t stack_bytes = 64 << 10;
#endif

struct stack_memory {
    char *base = nullptr;
    size_t n = 0;
};

void grow(stack_memory &pool, size_t n)
{
    if (n <= pool.n) return;
    if (pool.base) munmap(pool.base, pool.n * stack_bytes);
    void *p = mmap(nullptr, n * stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("simt: no memory for stacks");
        abort();
    }
    pool = { static_cast<char *>(p), n };
    for (size_t i = 0; i < n; i++) mprotect(pool.base + i * stack_bytes, guard_bytes, PROT_NONE);
}

#ifdef SIMT_ASAN
/* The bounds of the stack that the program began on. */
void find_host_stack()
{
    pthread_attr_t attr;
    void *base;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &base, &m.host.stack_bytes);
    pthread_attr_destroy(&attr);
    m.host.stack = static_cast<char *>(base);
}
#endif

} // namespace

void fibers_prepare(std::vector<thread> &threads, void (*entry)())
{
    static stack_memory pool;
    grow(pool, threads.size());
#ifdef SIMT_ASAN
    if (!m.host.stack) find_host_stack();
#endif
    for (size_t i = 0; i < threads.size(); i++) {
        context &c = threads[i].ctx;
        c.stack = pool.base + i * stack_bytes + guard_bytes;
        c.stack_bytes = stack_bytes - guard_bytes;
        const size_t colour = i % 37 * 448;
        c.sp = simt_switch_prepare(c.stack, c.stack_bytes - colour, entry);
    }
}

void fiber_switch(context &from, context &to, bool for_ever)
{
    m.totals.switches++;
#ifdef SIMT_ASAN
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &from.fake_stack, to.stack, to.stack_bytes);
#else
    (void)for_ever;
#endif
    simt_switch(&from.sp, to.sp);
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void fiber_begin()
{
#ifdef SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void fibers_forget(std::vector<thread> &threads)
{
#ifdef SIMT_ASAN
    for (thread &t : threads) __asan_unpoison_memory_region(t.ctx.stack, t.ctx.stack_bytes);
#else
    (void)threads;
#endif
}

bool fiber_holds(const thread &t, const void *p)
{
    return static_cast<size_t>(static_cast<const char *>(p) - t.ctx.stack) < t.ctx.stack_bytes;
}

} // namespace simt
