/* The functions that a compiler calls with -fsanitize=thread, so that every load and store of a
 * kernel file, as it stands in the source, comes to the watcher. ThreadSanitizer itself is not
 * linked.
 *
 * Host code in a kernel file (its launchers) calls them too; the watcher ignores it. */
#include "simt_int.h"

#include <cstring>

namespace simt
{
namespace
{

void tell(const void *p, size_t bytes, access kind, const void *pc)
{
    if (on_device()) watcher.access(p, bytes, kind, { nullptr, 0, pc });
}

} // namespace
} // namespace simt

using simt::access;

#define PC __builtin_return_address(0)
#define OF_SIZE(n)                                                                                 \
    void __tsan_read##n(void *p)                                                                   \
    {                                                                                              \
        simt::tell(p, n, access::load, PC);                                                        \
    }                                                                                              \
    void __tsan_write##n(void *p)                                                                  \
    {                                                                                              \
        simt::tell(p, n, access::store, PC);                                                       \
    }                                                                                              \
    void __tsan_unaligned_read##n(void *p)                                                         \
    {                                                                                              \
        simt::tell(p, n, access::load, PC);                                                        \
    }                                                                                              \
    void __tsan_unaligned_write##n(void *p)                                                        \
    {                                                                                              \
        simt::tell(p, n, access::store, PC);                                                       \
    }                                                                                              \
    void __tsan_read##n##_pc(void *p, void *pc)                                                    \
    {                                                                                              \
        simt::tell(p, n, access::load, pc);                                                        \
    }                                                                                              \
    void __tsan_write##n##_pc(void *p, void *pc)                                                   \
    {                                                                                              \
        simt::tell(p, n, access::store, pc);                                                       \
    }                                                                                              \
    void __tsan_volatile_read##n(void *p)                                                          \
    {                                                                                              \
        simt::tell(p, n, access::load, PC);                                                        \
    }                                                                                              \
    void __tsan_volatile_write##n(void *p)                                                         \
    {                                                                                              \
        simt::tell(p, n, access::store, PC);                                                       \
    }                                                                                              \
    void __tsan_unaligned_volatile_read##n(void *p)                                                \
    {                                                                                              \
        simt::tell(p, n, access::load, PC);                                                        \
    }                                                                                              \
    void __tsan_unaligned_volatile_write##n(void *p)                                               \
    {                                                                                              \
        simt::tell(p, n, access::store, PC);                                                       \
    }

extern "C" {
OF_SIZE(1)
OF_SIZE(2)
OF_SIZE(4)
OF_SIZE(8)
OF_SIZE(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_read(void **) {}
void __tsan_vptr_update(void **, void *) {}

void __tsan_read_range(void *p, unsigned long n)
{
    simt::tell(p, n, access::load, PC);
}
void __tsan_write_range(void *p, unsigned long n)
{
    simt::tell(p, n, access::store, PC);
}

void *__tsan_memcpy(void *dst, const void *src, unsigned long n)
{
    simt::tell(src, n, access::load, PC);
    simt::tell(dst, n, access::store, PC);
    return memcpy(dst, src, n);
}

void *__tsan_memmove(void *dst, const void *src, unsigned long n)
{
    simt::tell(src, n, access::load, PC);
    simt::tell(dst, n, access::store, PC);
    return memmove(dst, src, n);
}

void *__tsan_memset(void *dst, int byte, unsigned long n)
{
    simt::tell(dst, n, access::store, PC);
    return memset(dst, byte, n);
}
}
