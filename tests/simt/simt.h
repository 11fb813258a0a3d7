/* How host code starts a kernel on the emulator; PKV_LAUNCH stands in front of it. */
#ifndef SIMT_H
#define SIMT_H

#include "simt_int.h"

#include <tuple>
#include <type_traits>
#include <utility>

namespace simt
{

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

template <class... P> int allow_shared_for(void (*kernel)(P...), size_t bytes)
{
    return allow_shared(reinterpret_cast<const void *>(kernel), bytes);
}

} // namespace simt

#endif
