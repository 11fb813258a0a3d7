/* Launches: blocks one after another; the threads of a block in rounds. In a round every thread
 * that can run does, in the order that the schedule's seed says, until it waits for others; whom a
 * meeting wakes runs in the next round. No thread able to run, and some alive: a deadlock. */
#include "simt_state.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

namespace simt
{

machine m;

namespace
{

constexpr size_t max_shared = 227 << 10, max_plain_shared = 48 << 10, max_params = 4096;

/* Kernels that were prepared, and how much dynamic shared memory they may have. */
std::map<const void *, size_t> &shared_allowances()
{
    static std::map<const void *, size_t> allowances;
    return allowances;
}

void report(const char *where, const char *format, va_list args)
{
    const int n = snprintf(m.error, sizeof m.error, "%s", where);
    vsnprintf(m.error + n, sizeof m.error - (size_t)n, format, args);
    m.failed = true;
}

__attribute__((format(printf, 1, 2))) int refuse(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report("launch: ", format, args);
    va_end(args);
    return 1;
}

/* Go on with another thread, or with the host (null). */
void resume(thread *to)
{
    thread *from = m.running;
    m.running = to;
    fiber_switch(from ? from->ctx : m.host, to ? to->ctx : m.host,
                 from && (from->exited() || m.failed));
}

thread *next_ready()
{
    if (m.ready_pos == m.ready.size()) return nullptr;
    return &m.threads[(size_t)m.ready[m.ready_pos++]];
}

/* A thread's whole life. */
void live()
{
    fiber_begin();
    m.call.body(m.call.params);
    thread &me = *m.running;
    copy_check_exit();
    if (m.n_at_barrier > 0)
        fail(m.barrier_at, "exits while %d threads wait at this barrier", m.n_at_barrier);
    me.waits_at = op::exited;
    m.n_live--;
    park();
    __builtin_unreachable();
}

void shuffle_order(std::vector<int32_t> &order)
{
    for (size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[random_below((uint32_t)i)]);
}

void begin_round()
{
    m.ready.swap(m.next);
    m.next.clear();
    m.ready_pos = 0;
    if (m.schedule.seed == 1) std::reverse(m.ready.begin(), m.ready.end());
    if (m.schedule.seed > 1) shuffle_order(m.ready);
}

/* One line per group of threads that wait at the same thing, in the order of their first threads.
 */
void report_deadlock()
{
    struct group {
        int first, n;
        std::string text;
    };
    std::vector<group> groups;
    for (const thread &t : m.threads) {
        char text[256] = "exited";
        if (!t.exited())
            snprintf(text, sizeof text, "%s, mask %08x, at %s:%d", op_name(t.waits_at), t.mask,
                     base_name(t.at.file), t.at.line);
        auto same = [&](const group &g) { return g.text == text; };
        auto found = std::find_if(groups.begin(), groups.end(), same);
        if (found == groups.end()) found = groups.insert(groups.end(), { t.idx, 0, text });
        found->n++;
    }
    size_t n =
        (size_t)snprintf(m.error, sizeof m.error, "block %lld: deadlock:", (long long)m.block);
    for (const group &g : groups)
        if (n < sizeof m.error)
            n +=
                (size_t)snprintf(m.error + n, sizeof m.error - n, "\n    %d thread%s, first %d: %s",
                                 g.n, g.n > 1 ? "s" : "", g.first, g.text.c_str());
    m.failed = true;
}

void run_block(int64_t block)
{
    m.block = block;
    m.totals.blocks++;
    m.n_live = (int)m.threads.size();
    m.n_at_barrier = 0;
    m.next.clear();
    for (size_t i = 0; i < m.threads.size(); i++) {
        m.threads[i] = thread();
        m.threads[i].idx = (int32_t)i;
        m.next.push_back((int32_t)i);
    }
    fibers_prepare(m.threads, live);
    copies_begin(m.n_live);
    if (watcher.block_begin) watcher.block_begin();
    shared_begin(m.shape.shared_bytes);
    while (m.n_live > 0 && !m.failed) {
        if (m.next.empty()) {
            report_deadlock();
            break;
        }
        begin_round();
        resume(next_ready()); /* who parks goes on with the next one, the last one with us */
    }
    fibers_forget(m.threads);
    if (watcher.block_end) watcher.block_end();
    shared_end();
}

/* The i-th block to run. A shuffled order is i * odd + offset in a power of two, skipping what is
 * no block: every block once, without a list. */
struct block_order {
    int64_t n;
    uint64_t size = 1, step, offset, at = 0;

    explicit block_order(int64_t n_blocks) : n(n_blocks)
    {
        while (size < (uint64_t)n) size *= 2;
        step = random_below(1u << 30) * 2 + 1;
        offset = random_below(1u << 30);
    }
    int64_t next(int64_t i)
    {
        if (m.schedule.blocks == DEVICE_FORWARD) return i;
        if (m.schedule.blocks == DEVICE_REVERSED) return n - 1 - i;
        uint64_t block;
        do block = (at++ * step + offset) % size;
        while (block >= (uint64_t)n);
        return (int64_t)block;
    }
};

int check_launch(const launch_shape &s, const kernel_call &call)
{
    if (s.n_blocks < 1 || s.n_blocks > INT32_MAX)
        return refuse("%lld blocks; a grid has 1 to 2^31 - 1", (long long)s.n_blocks);
    if (s.n_threads < warp_size || s.n_threads > 1024 || s.n_threads % warp_size)
        return refuse("%lld threads in a block; 32 to 1024, in whole warps",
                      (long long)s.n_threads);
    const auto found = shared_allowances().find(call.id);
    const bool prepared = found != shared_allowances().end();
    if (m.only_prepared && !prepared)
        return refuse("the kernel was not prepared: CUDA would load it now, which may wait");
    if (s.shared_bytes > max_plain_shared) {
        const size_t allowed = prepared ? found->second : max_plain_shared;
        if (s.shared_bytes > allowed)
            return refuse("%zu bytes of shared memory, %zu are allowed; PKV_ALLOW_SHARED raises it "
                          "to at most %zu",
                          s.shared_bytes, allowed, max_shared);
    }
    if (call.params_bytes > max_params)
        return refuse("%zu bytes of parameters; at most %zu", call.params_bytes, max_params);
    return 0;
}

} // namespace

int32_t thread_idx()
{
    return m.running->idx;
}
int32_t block_idx()
{
    return (int32_t)m.block;
}
int32_t n_threads()
{
    return (int32_t)m.shape.n_threads;
}
int32_t n_blocks()
{
    return (int32_t)m.shape.n_blocks;
}
bool on_device()
{
    return m.running != nullptr;
}

int run_grid(const launch_shape &shape, const kernel_call &call)
{
    m.failed = false;
    m.error[0] = 0;
    m.totals.launches++;
    if (check_launch(shape, call) || stream_refuses()) return 1;
    if (stream_takes(shape, call)) return 0;
    m.shape = shape;
    m.call = call;
    m.random = 0x9e3779b97f4a7c15u * (m.schedule.seed + 1);
    m.threads.assign((size_t)shape.n_threads, thread());
    m.meetings.assign((size_t)(shape.n_threads / warp_size), {});
    if (watcher.launch_begin) watcher.launch_begin(call.params, call.params_bytes);
    block_order order(shape.n_blocks);
    for (int64_t i = 0; i < shape.n_blocks && !m.failed; i++) run_block(order.next(i));
    return m.failed;
}

int allow_shared(const void *kernel_id, size_t bytes)
{
    if (bytes > max_shared)
        return refuse("%zu bytes of shared memory; at most %zu", bytes, max_shared);
    if (const int code = stream_prepares()) return code;
    shared_allowances()[kernel_id] = bytes;
    return 0;
}

void fail(site at, const char *format, ...)
{
    char where[512];
    const thread &t = *m.running;
    if (at.file)
        snprintf(where, sizeof where,
                 "%s:%d: block %lld thread %d (warp %d lane %d): ", base_name(at.file), at.line,
                 (long long)m.block, t.idx, t.warp(), t.lane());
    else
        snprintf(where, sizeof where,
                 "block %lld thread %d (warp %d lane %d): ", (long long)m.block, t.idx, t.warp(),
                 t.lane());
    va_list args;
    va_start(args, format);
    report(where, format, args);
    va_end(args);
    resume(nullptr);
    __builtin_unreachable();
}

void park()
{
    resume(next_ready());
}

void wake(thread &t)
{
    t.waits_at = op::none;
    m.next.push_back(t.idx);
}

/* xorshift64 */
uint32_t random_below(uint32_t n)
{
    m.random ^= m.random << 13;
    m.random ^= m.random >> 7;
    m.random ^= m.random << 17;
    return (uint32_t)(m.random >> 32) % n;
}

const char *op_name(op what)
{
    static const char *const names[] = { "running",   "syncthreads", "syncwarp", "shuffle",
                                         "vote",      "warp_sum",    "warp_max", "ldmatrix",
                                         "movmatrix", "mma",         "exited" };
    return names[(int)what];
}

const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool same_site(const site &a, const site &b)
{
    return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

} // namespace simt
