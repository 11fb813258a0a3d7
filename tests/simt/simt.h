/* How host code starts a kernel on the emulator; PKV_LAUNCH stands in front of it. */
#ifndef SIMT_H
#define SIMT_H

#include "simt_int.h"
#ifdef SIMT_PTX
#include "simt_ptx.h"

#include <cstring>
#endif

#include <tuple>
#include <type_traits>
#include <utility>

namespace simt
{

#ifdef SIMT_PTX
/* Build D: the kernel's PTX, with the arguments laid out as it expects them. */
template <class... P, class... A>
int launch(void (*kernel)(P...), int64_t n_blocks, int64_t n_threads, size_t shared_bytes,
           A &&...args)
{
    static_assert((std::is_trivially_copyable_v<P> && ...), "parameters are copied byte by byte");
    alignas(16) unsigned char params[(sizeof(P) + ... + 0) + 16 * sizeof...(P) + 1] = {};
    size_t n = 0;
    const auto add = [&](const auto &value) {
        n = (n + alignof(decltype(value)) - 1) / alignof(decltype(value)) *
            alignof(decltype(value));
        memcpy(params + n, &value, sizeof value);
        n += sizeof value;
    };
    (add(static_cast<P>(args)), ...);
    return ptx_launch(reinterpret_cast<const void *>(kernel), { n_blocks, n_threads, shared_bytes },
                      params, n);
}
#else
/* Arguments are converted to the kernel's parameters once, as a real launch does, and every thread
 * gets copies. 0, or 1 and device_last_error(). */
template <class... P, class... A>
int launch(void (*kernel)(P...), int64_t n_blocks, int64_t n_threads, size_t shared_bytes,
           A &&...args)
{
    static_assert((std::is_trivially_copyable_v<P> && ...), "parameters are copied byte by byte");
    struct call_t {
        void (*kernel)(P...);
        std::tuple<P...> params;
    };
    const call_t call = { kernel, std::tuple<P...>(static_cast<P>(args)...) };
    const auto body = [](const void *p) {
        const call_t *c = static_cast<const call_t *>(p);
        std::apply(c->kernel, c->params);
    };
    return run_grid({ n_blocks, n_threads, shared_bytes },
                    { reinterpret_cast<const void *>(kernel), body, &call, sizeof call });
}
#endif

/* As on an SM of 228 KiB of shared memory, of which each block takes 1 KiB itself, and 2048
 * threads. There are no registers to run out of. */
template <class... P, class Cost>
int prepare_for(void (*kernel)(P...), int32_t n_threads, int32_t shared_bytes, Cost *cost)
{
    const int32_t by_shared = 228 * 1024 / (shared_bytes + 1024), by_threads = 2048 / n_threads;
    cost->registers = 0;
    cost->blocks_per_sm = by_shared < by_threads ? by_shared : by_threads;
    return allow_shared(reinterpret_cast<const void *>(kernel), (size_t)shared_bytes);
}

template <class... P> int allow_shared_for(void (*kernel)(P...), size_t bytes)
{
    return allow_shared(reinterpret_cast<const void *>(kernel), bytes);
}

} // namespace simt

#endif
