/* The race detector, a watcher of the machine: which accesses to one byte are ordered?
 *
 * Every byte of shared memory, and of global memory that was touched, has a cell: the last write
 * and up to three reads since, as events. An event is (block, thread, epoch, clock):
 *   epoch  barriers that the block had passed
 *   clock  what the thread counts up at each syncwarp and each release
 * An event of this block is before what thread t does now if it is t's own; or of an earlier epoch;
 * or of t's warp, and t's vector of clocks (joined at syncwarp) has reached it. Shuffles, votes,
 * ldmatrix and mma order nothing. An event of another block is before it only through an atomic
 * with acq_rel: the release left a snapshot of its epoch and clocks at the address, someone of this
 * block acquired it, and that is before t. Launches follow one another.
 *
 * Three reads may be too few to see every race; what is reported is one. What is lost is a read of
 * the same warp first. */
#include "simt_race.h"
#include "simt_state.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <unordered_map>

extern "C" const char __executable_start[], _end[];

namespace simt
{
namespace
{

struct event {
    uint32_t block = 0; /* counted over all launches, from 1; 0: nothing happened */
    uint32_t epoch = 0;
    uint32_t clock = 0;
    place where = 0;
    int16_t thread = 0;
    bool atomic = false;
};

enum { n_reads = 3 };
struct cell {
    event write;
    event reads[n_reads];
    bool initialised = false;
    int16_t copier = -1; /* whose cp.async is under way to here */
};

using clocks = std::array<uint32_t, warp_size>;

/* What a release leaves: everything in its block up to here. */
struct snapshot {
    uint32_t block, epoch;
    int16_t thread;
    clocks seen; /* of its warp */
};

struct acquisition {
    event by;
    std::vector<snapshot> of;
};

struct shared_shadow {
    const char *memory;
    std::vector<cell> cells;
};

constexpr size_t shadow_bytes = 256; /* that get their cells together */
using shadow_chunk = std::array<cell, shadow_bytes>;

struct detector {
    bool on = false; /* in a block, and nothing was reported */
    uint32_t first_block = 1, block = 0, epoch = 0;
    std::vector<uint32_t> clock; /* per thread */
    std::vector<clocks> seen;    /* per thread, of its warp; the own entry is clock */
    std::vector<shared_shadow> shared;
    std::map<const char *, size_t> buffers;
    std::unordered_map<uintptr_t, std::unique_ptr<shadow_chunk>> global;
    std::map<const void *, std::vector<snapshot>> released;
    std::vector<acquisition> acquired; /* by this block */
    const char *params = nullptr;
    size_t params_bytes = 0;
};

detector &d()
{
    static detector the;
    return the;
}

/* ---------------------------------------------------------------- order */

bool before_in_block(const event &e, int t)
{
    return e.epoch < d().epoch ||
           (e.thread / warp_size == t / warp_size &&
            e.clock <= d().seen[t][e.thread % warp_size]) ||
           e.thread == t;
}

bool covers(const snapshot &s, const event &e)
{
    if (s.block != e.block) return false;
    return e.epoch < s.epoch ||
           (e.epoch == s.epoch && e.thread / warp_size == s.thread / warp_size &&
            e.clock <= s.seen[e.thread % warp_size]);
}

/* Is e before what thread t does now? */
bool is_before(const event &e, int t)
{
    if (e.block < d().first_block) return true;
    if (e.block == d().block && before_in_block(e, t)) return true;
    for (const acquisition &a : d().acquired)
        if (before_in_block(a.by, t))
            for (const snapshot &s : a.of)
                if (covers(s, e)) return true;
    return false;
}

void advance(int t)
{
    d().seen[t][t % warp_size] = ++d().clock[t];
}

void keep(std::vector<snapshot> &set, const snapshot &s)
{
    for (snapshot &old : set)
        if (old.block == s.block && old.thread == s.thread) {
            old = s;
            return;
        }
    set.push_back(s);
}

/* An atomic with acq_rel at p: takes what was released there, and leaves all that t has seen. */
void acquire_and_release(const void *p, int t, const event &now)
{
    std::vector<snapshot> &set = d().released[p];
    d().acquired.push_back({ now, set });
    for (const acquisition &a : d().acquired)
        if (before_in_block(a.by, t))
            for (const snapshot &s : a.of) keep(set, s);
    keep(set, { d().block, d().epoch, (int16_t)t, d().seen[t] });
    advance(t);
}

/* ---------------------------------------------------------------- reports */

[[noreturn]] void stop(place here, const char *text)
{
    d().on = false;
    const site at = explain({ here })[0]; /* fail abandons this stack, which may own nothing */
    fail(at, "%s", text);
}

[[noreturn]] void report_race(const char *kind, const char *space, const event &other, place here)
{
    char text[512];
    const site there = explain({ other.where })[0];
    if (other.block == d().block)
        snprintf(text, sizeof text, "%s, %s memory: race with thread %d at %s:%d", kind, space,
                 other.thread, base_name(there.file), there.line);
    else
        snprintf(text, sizeof text, "%s, %s memory: conflict with block %lld, thread %d at %s:%d",
                 kind, space, (long long)(other.block - d().first_block), other.thread,
                 base_name(there.file), there.line);
    stop(here, text);
}

[[noreturn]] void report_early(const cell &c, place here)
{
    char text[512];
    const site there = explain({ c.write.where })[0];
    snprintf(text, sizeof text,
             "shared memory: target of thread %d's cp.async at %s:%d, before its wait_group",
             c.copier, base_name(there.file), there.line);
    stop(here, text);
}

/* ---------------------------------------------------------------- accesses */

struct touch {
    event now;
    bool store;
    const char *space;
};

void check_order(const cell &c, const touch &by)
{
    const int t = by.now.thread;
    const bool both_atomic = by.now.atomic && c.write.atomic;
    if (!both_atomic && !is_before(c.write, t))
        report_race(by.store ? "write after write" : "read after write", by.space, c.write,
                    by.now.where);
    if (!by.store) return;
    for (const event &read : c.reads)
        if (!is_before(read, t)) report_race("write after read", by.space, read, by.now.where);
}

/* In the place of a read that is before this one; or in a free one; or in that of one of this warp.
 */
void add_read(cell &c, const event &now)
{
    int best = n_reads - 1;
    for (int i = n_reads - 1; i >= 0; i--) {
        const event &r = c.reads[i];
        if (r.block == now.block && r.thread / warp_size == now.thread / warp_size) best = i;
    }
    for (int i = n_reads - 1; i >= 0; i--)
        if (is_before(c.reads[i], now.thread)) best = i;
    c.reads[best] = now;
}

void touch_cell(cell &c, const touch &by)
{
    if (c.copier >= 0) report_early(c, by.now.where);
    check_order(c, by);
    if (!by.store) {
        add_read(c, by.now);
        return;
    }
    c.write = by.now;
    for (event &read : c.reads) read = event();
    c.initialised = true;
}

event event_now(place where, bool atomic)
{
    const int t = m.running->idx;
    event e;
    e.block = d().block;
    e.epoch = d().epoch;
    e.clock = d().clock[t];
    e.where = where;
    e.thread = (int16_t)t;
    e.atomic = atomic;
    return e;
}

/* The cells of [p, p + bytes) if it lies in a shared array, else null. */
cell *shared_cells(const char *p, size_t bytes)
{
    for (shared_shadow &s : d().shared) {
        const size_t offset = (size_t)(p - s.memory);
        if (offset < s.cells.size() && bytes <= s.cells.size() - offset) return &s.cells[offset];
    }
    return nullptr;
}

bool in_global(const char *p, size_t bytes)
{
    auto after = d().buffers.upper_bound(p);
    if (after == d().buffers.begin()) return false;
    --after;
    const size_t offset = (size_t)(p - after->first);
    return offset < after->second && bytes <= after->second - offset;
}

cell &global_cell(const char *p)
{
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    std::unique_ptr<shadow_chunk> &chunk = d().global[address / shadow_bytes];
    if (!chunk) chunk = std::make_unique<shadow_chunk>();
    return (*chunk)[address % shadow_bytes];
}

/* Variables of this thread, parameters, and constants of the program. */
bool is_private(const char *p, size_t bytes, bool store)
{
    if (fiber_holds(*m.running, p)) return true;
    if (store) return false;
    if ((size_t)(p - d().params) < d().params_bytes) return true;
    return p >= __executable_start && p + bytes <= _end;
}

void touch_memory(const void *address, size_t bytes, bool store, bool atomic, const site &at)
{
    const char *p = static_cast<const char *>(address);
    cell *shared = shared_cells(p, bytes);
    if (!shared && !in_global(p, bytes)) {
        if (is_private(p, bytes, store)) return;
        char text[128];
        snprintf(text, sizeof text, "%s of %zu bytes, outside of every buffer",
                 store ? "store" : "load", bytes);
        stop(place_of(at), text);
    }
    m.totals.accesses++;
    const place where = place_of(at);
    const touch by = { event_now(where, atomic), store, shared ? "shared" : "global" };
    for (size_t i = 0; i < bytes; i++) {
        if (shared && !shared[i].initialised && shared[i].copier < 0 && (!store || atomic))
            stop(where, "read of uninitialised shared memory");
        touch_cell(shared ? shared[i] : global_cell(p + i), by);
    }
    count_access(p, bytes, store ? access::store : access::load, shared != nullptr, where);
}

/* ---------------------------------------------------------------- what the machine tells */

void on_launch(const void *params, size_t bytes)
{
    d().first_block = d().block + 1;
    d().released.clear();
    d().params = static_cast<const char *>(params);
    d().params_bytes = bytes;
}

void on_block_begin()
{
    const size_t n = m.threads.size();
    d().block++;
    d().epoch = 1;
    d().clock.assign(n, 1);
    d().seen.assign(n, clocks{});
    for (size_t t = 0; t < n; t++) d().seen[t][t % warp_size] = 1;
    d().shared.clear();
    d().acquired.clear();
    d().on = true;
    counts_block_begin();
}

void on_block_end()
{
    d().on = false;
    counts_block_end();
}

void on_shared_add(void *p, size_t bytes)
{
    d().shared.push_back({ static_cast<char *>(p), std::vector<cell>(bytes) });
}

void on_global_add(void *p, size_t bytes)
{
    d().buffers[static_cast<char *>(p)] = bytes;
}

void on_global_remove(void *p)
{
    const auto found = d().buffers.find(static_cast<char *>(p));
    if (found == d().buffers.end()) return;
    const uintptr_t address = reinterpret_cast<uintptr_t>(p);
    const uintptr_t begin = address / shadow_bytes;
    const uintptr_t end = (address + found->second + shadow_bytes - 1) / shadow_bytes;
    d().buffers.erase(found);
    if (end - begin < d().global.size()) {
        for (uintptr_t i = begin; i < end; i++) d().global.erase(i);
        return;
    }
    for (auto i = d().global.begin(); i != d().global.end();)
        i = i->first >= begin && i->first < end ? d().global.erase(i) : std::next(i);
}

void on_barrier()
{
    d().epoch++;
}

void on_sync_warp(int warp, uint32_t mask)
{
    clocks joined{};
    const auto has = [mask](int lane) { return mask >> lane & 1; };
    for (int i = 0; i < warp_size; i++)
        for (int k = 0; k < warp_size && has(i); k++)
            joined[k] = std::max(joined[k], d().seen[warp * warp_size + i][k]);
    for (int i = 0; i < warp_size; i++) {
        if (!has(i)) continue;
        d().seen[warp * warp_size + i] = joined;
        advance(warp * warp_size + i);
    }
}

void on_access(const void *p, size_t bytes, access kind, site at)
{
    if (d().on && on_device()) touch_memory(p, bytes, kind == access::store, false, at);
}

void on_atomic(const void *p, size_t bytes, order how, site at)
{
    if (!d().on) return;
    touch_memory(p, bytes, true, true, at);
    if (how == order::acq_rel)
        acquire_and_release(p, m.running->idx, event_now(place_of(at), true));
}

void on_copy_issue(void *dst, size_t bytes, site at)
{
    if (!d().on) return;
    touch_memory(dst, bytes, true, false, at);
    cell *cells = shared_cells(static_cast<char *>(dst), bytes);
    for (size_t i = 0; i < bytes; i++) cells[i].copier = (int16_t)m.running->idx;
}

/* From here on the bytes are like written by the thread that waited. */
void on_copy_land(void *dst, size_t bytes)
{
    if (!d().on) return;
    cell *cells = shared_cells(static_cast<char *>(dst), bytes);
    for (size_t i = 0; i < bytes; i++) {
        cells[i].copier = -1;
        cells[i].write = event_now(cells[i].write.where, false);
    }
}

} // namespace

const hooks watcher = { on_launch,     on_block_begin,   on_block_end,  on_shared_add,
                        on_global_add, on_global_remove, on_barrier,    on_sync_warp,
                        on_access,     on_atomic,        on_copy_issue, on_copy_land };

} // namespace simt
