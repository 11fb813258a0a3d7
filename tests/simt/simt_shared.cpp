/* Memory as threads see it: shared arrays of a block, loads and stores, atomics.
 *
 * Every shared array is a heap block of its own, as long as asked for, filled with 0xff: what was
 * never written is NaN, and AddressSanitizer sees an overrun. With a watcher, 4 KiB of slop follow,
 * or an overrun would harm the heap before it is reported. */
#include "simt_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace simt
{
namespace
{

constexpr size_t max_static_shared = 48 << 10, max_shared = 227 << 10;

void *add_shared(const void *key, size_t bytes, size_t align)
{
    const size_t slop = watcher.shared_add ? 4096 : 0;
    void *p = nullptr;
    if (posix_memalign(&p, std::max<size_t>(align, 16), bytes + slop)) abort();
    memset(p, 0xff, bytes + slop);
    if (watcher.shared_add) watcher.shared_add(p, bytes);
    m.shared.push_back({ key, static_cast<char *>(p), bytes });
    return p;
}

void check_alignment(const void *p, size_t bytes, site at)
{
    if (reinterpret_cast<uintptr_t>(p) % bytes)
        fail(at, "misaligned access: %zu bytes at an address that ends in %02x", bytes,
             (unsigned)(reinterpret_cast<uintptr_t>(p) % 256));
}

int64_t sign_extend(uint64_t x, size_t bytes)
{
    return bytes == 4 ? (int64_t)(int32_t)(uint32_t)x : (int64_t)x;
}

uint64_t updated(atomic_op op, uint64_t old, uint64_t value, uint64_t compare, size_t bytes)
{
    const int64_t s_old = sign_extend(old, bytes), s_value = sign_extend(value, bytes);
    switch (op) {
    case atomic_op::add:
        return old + value;
    case atomic_op::inc:
        return old >= value ? 0 : old + 1;
    case atomic_op::min_s:
        return s_value < s_old ? value : old;
    case atomic_op::max_s:
        return s_value > s_old ? value : old;
    case atomic_op::min_u:
        return std::min(old, value);
    case atomic_op::max_u:
        return std::max(old, value);
    case atomic_op::and_:
        return old & value;
    case atomic_op::or_:
        return old | value;
    case atomic_op::xor_:
        return old ^ value;
    case atomic_op::exch:
        return value;
    case atomic_op::cas:
        return old == compare ? value : old;
    }
    return old;
}

} // namespace

void shared_begin(size_t dynamic_bytes)
{
    if (dynamic_bytes > 0) add_shared(nullptr, dynamic_bytes, 128);
}

void shared_end()
{
    for (const shared_array &a : m.shared) free(a.memory);
    m.shared.clear();
}

void *shared_dynamic()
{
    return m.shared.empty() || m.shared[0].key ? nullptr : m.shared[0].memory;
}

void *shared_static(const void *key, size_t bytes, size_t align)
{
    size_t n_static = bytes, n_all = bytes;
    for (const shared_array &a : m.shared) {
        if (a.key == key) return a.memory;
        n_static += a.key ? a.bytes : 0;
        n_all += a.bytes;
    }
    if (n_static > max_static_shared || n_all > max_shared)
        fail(m.running->at,
             "static shared arrays of %zu bytes, %zu with dynamic memory; at most "
             "%zu and %zu",
             n_static, n_all, max_static_shared, max_shared);
    return add_shared(key, bytes, align);
}

bool in_shared(const void *p, size_t bytes)
{
    for (const shared_array &a : m.shared) {
        const size_t offset = (size_t)(static_cast<const char *>(p) - a.memory);
        if (offset < a.bytes) return bytes <= a.bytes - offset;
    }
    return false;
}

void check_access(const void *p, size_t bytes, access kind, site at)
{
    check_alignment(p, bytes, at);
    if (watcher.access) watcher.access(p, bytes, kind, at);
}

void load(void *dst, const void *src, size_t bytes, site at)
{
    check_access(src, bytes, access::load, at);
    memcpy(dst, src, bytes);
}

void load_used(void *dst, const void *src, size_t bytes, uint32_t used, site at)
{
    const uint32_t all = bytes < 32 ? (1u << bytes) - 1 : ~0u;
    if ((used & all) == all) return load(dst, src, bytes, at);
    const char *from = static_cast<const char *>(src);
    check_alignment(src, bytes, at);
    memset(dst, 0xff, bytes);
    for (size_t i = 0, end; i < bytes; i = end) {
        end = i + 1;
        if (!(used >> i & 1u)) continue;
        while (end < bytes && used >> end & 1u) end++;
        if (watcher.access) watcher.access(from + i, end - i, access::load, at);
        memcpy(static_cast<char *>(dst) + i, from + i, end - i);
    }
}

void store(void *dst, const void *src, size_t bytes, site at)
{
    check_access(dst, bytes, access::store, at);
    memcpy(dst, src, bytes);
}

uint64_t atomic(void *p, size_t bytes, atomic_op op, uint64_t value, uint64_t compare, order how,
                site at)
{
    check_alignment(p, bytes, at);
    if (watcher.atomic) watcher.atomic(p, bytes, how, at);
    uint64_t old = 0;
    memcpy(&old, p, bytes);
    const uint64_t now = updated(op, old, value, compare, bytes);
    memcpy(p, &now, bytes);
    return old;
}

} // namespace simt
