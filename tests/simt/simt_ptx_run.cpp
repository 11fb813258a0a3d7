/* Threads that run PTX: frames, calls, shared addresses, launches. */
#include "simt_ptx_code.h"

#include "simt_state.h"

#include <algorithm>
#include <alloca.h>
#include <cstdlib>
#include <cstring>

namespace simt
{
namespace
{

/* A frame lies on the 1 MiB of a thread's stack, together with those of the functions it calls.
 * PTX has a register for each value: a kernel of 10,000 instructions some 15,000, the largest of
 * the library 30,000. */
constexpr size_t max_frame = 900 << 10;

uint64_t special_value(ptx_special what, const ptx_frame &f)
{
    const uint32_t lane = (uint32_t)(thread_idx() % warp_size), bit = 1u << lane;
    switch (what) {
    case ptx_special::tid:
        return (uint64_t)thread_idx();
    case ptx_special::ntid:
        return (uint64_t)n_threads();
    case ptx_special::ctaid:
        return (uint64_t)block_idx();
    case ptx_special::nctaid:
        return (uint64_t)n_blocks();
    case ptx_special::laneid:
        return lane;
    case ptx_special::warpid:
        return (uint64_t)(thread_idx() / warp_size);
    case ptx_special::lanemask_eq:
        return bit;
    case ptx_special::lanemask_lt:
        return bit - 1;
    case ptx_special::lanemask_le:
        return bit | (bit - 1);
    case ptx_special::lanemask_gt:
        return ~(bit | (bit - 1));
    case ptx_special::lanemask_ge:
        return ~(bit - 1);
    case ptx_special::local_base:
        return reinterpret_cast<uintptr_t>(f.local);
    }
    return 0;
}

/* A special cell holds what is added to its value: the offset of a variable, else 0. */
void begin(ptx_frame &f)
{
    const ptx_function &fn = *f.function;
    memcpy(f.cells, fn.cells.data(), fn.cells.size() * sizeof f.cells[0]);
    for (const auto &s : fn.specials) f.cells[s.first] += special_value(s.second, f);
    if (fn.local_bytes > 0) memset(f.local, 0xff, fn.local_bytes);
}

void run(ptx_frame &f)
{
    const ptx_instruction *code = f.function->code.data();
    const int32_t n = (int32_t)f.function->code.size();
    while (f.next < n) {
        const ptx_instruction &i = code[f.next++];
        m.totals.instructions++;
        if (i.guard >= 0 && (f.cells[i.guard] & 1) == (uint64_t)i.guard_inverted) continue;
        i.run(f, i);
    }
}

size_t frame_bytes(const ptx_function &fn)
{
    return fn.cells.size() * 8 + fn.param_bytes + fn.local_bytes + 64;
}

/* Lays the frame's memory out in one piece of the stack. */
void place(ptx_frame &f, void *memory)
{
    const ptx_function &fn = *f.function;
    f.cells = static_cast<uint64_t *>(memory);
    char *rest = static_cast<char *>(memory) + fn.cells.size() * 8;
    rest += (16 - reinterpret_cast<uintptr_t>(rest) % 16) % 16;
    f.local = rest;
    rest += fn.local_bytes;
    rest += (16 - reinterpret_cast<uintptr_t>(rest) % 16) % 16;
    f.params = reinterpret_cast<unsigned char *>(rest);
    memset(f.params, 0, fn.param_bytes);
    begin(f);
}

/* A thread of an .entry. */
void live(const void *state)
{
    const auto *launch = static_cast<const ptx_launch_state *>(state);
    const ptx_function &fn = *launch->entry;
    ptx_frame f = { launch, &fn, nullptr, nullptr, nullptr };
    place(f, alloca(frame_bytes(fn)));
    size_t bytes = 0;
    for (const ptx_param &p : fn.params) bytes = p.offset + p.bytes;
    memcpy(f.params, launch->params, bytes);
    run(f);
}

int refuse(const char *what, const std::string &name)
{
    snprintf(m.error, sizeof m.error, "launch: %s %s", what, name.c_str());
    m.failed = true;
    return 1;
}

} // namespace

void ptx_call(ptx_frame &caller, const ptx_instruction &i)
{
    const ptx_function &fn = *i.callee;
    if (frame_bytes(fn) > max_frame) fail(i.at, "a frame of %zu bytes", frame_bytes(fn));
    ptx_frame f = { caller.launch, &fn, nullptr, nullptr, nullptr };
    place(f, alloca(frame_bytes(fn)));
    for (size_t k = 0; k < fn.params.size(); k++)
        memcpy(f.params + fn.params[k].offset, caller.params + i.moved[1][k], fn.params[k].bytes);
    run(f);
    for (size_t k = 0; k < fn.results.size(); k++)
        memcpy(caller.params + i.moved[0][k], f.params + fn.results[k].offset, fn.results[k].bytes);
    if (f.exited) {
        caller.exited = true;
        caller.next = (int32_t)caller.function->code.size();
    }
}

/* Behind an array there is room for an overrun only if someone watches, who reports it. */
char *ptx_shared_pointer(const ptx_frame &f, uint64_t address, site at)
{
    (void)at;
    const uint64_t window = ((uint32_t)address / ptx_shared_window) - 1;
    const size_t offset = (uint32_t)address % ptx_shared_window;
    if (window >= f.launch->module->shared.size()) return nullptr;
    const ptx_shared &s = *f.launch->module->shared[window];
    const size_t bytes = s.bytes > 0 ? s.bytes : f.launch->dynamic_bytes;
    if (offset >= bytes + (watcher.shared_add ? 4096 - 16 : 0)) return nullptr;
    char *p =
        static_cast<char *>(s.bytes > 0 ? shared_static(&s, s.bytes, s.align) : shared_dynamic());
    return p ? p + offset : nullptr;
}

uint32_t ptx_shared_address(const ptx_frame &f, const void *p, site)
{
    for (const ptx_shared *s : f.launch->shared) {
        const char *base = static_cast<const char *>(
            s->bytes > 0 ? shared_static(s, s->bytes, s->align) : shared_dynamic());
        const size_t bytes = s->bytes > 0 ? s->bytes : f.launch->dynamic_bytes;
        const size_t offset = (size_t)(static_cast<const char *>(p) - base);
        if (base && offset <= bytes) return s->base + (uint32_t)offset;
    }
    return 0xffffff00u;
}

int ptx_run(const ptx_module &module, const std::string &entry, const launch_shape &shape,
            const void *kernel_id, const void *params, size_t bytes)
{
    const auto found = module.functions.find(entry);
    if (found == module.functions.end() || !found->second->is_entry)
        return refuse("PTX has no entry", entry);
    const ptx_function &fn = *found->second;
    size_t expected = 0;
    for (const ptx_param &p : fn.params) expected = p.offset + p.bytes;
    if (bytes != expected) return refuse("other parameters than the PTX of", entry);
    if (frame_bytes(fn) > max_frame) return refuse("too many registers or variables in", entry);
    ptx_launch_state state = { &module, &fn, params, shape.shared_bytes, fn.shared };
    for (const auto &other : module.functions)
        if (!other.second->is_entry)
            state.shared.insert(state.shared.end(), other.second->shared.begin(),
                                other.second->shared.end());
    return run_grid(shape, { kernel_id, live, &state, sizeof state });
}

uint64_t ptx_n_executed()
{
    return m.totals.instructions;
}

} // namespace simt
