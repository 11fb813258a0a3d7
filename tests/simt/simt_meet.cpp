/* Where threads wait for one another: the barrier of the block, and the collectives of a warp. A
 * lane passes a pointer to its operands, which stay on its stack; the last lane to arrive computes
 * for all. */
#include "simt_state.h"

#include <cmath>

namespace simt
{
namespace
{

bool has(uint32_t mask, int lane)
{
    return mask >> lane & 1;
}

thread &lane_of(int warp, int lane)
{
    return m.threads[(size_t)(warp * warp_size + lane)];
}

void check_nobody_left(const thread &me, op what, uint32_t mask, site at)
{
    for (int i = 0; i < warp_size; i++)
        if (has(mask, i) && lane_of(me.warp(), i).exited())
            fail(at, "%s: mask %08x names lane %d, which has exited", op_name(what), mask, i);
}

/* The meeting of exactly these lanes: one that others opened, or a new one. A lane that exits while
 * others wait for it is found as a deadlock. */
meeting &join(const thread &me, op what, int variant, uint32_t mask, site at)
{
    auto &open = m.meetings[(size_t)me.warp()];
    for (meeting &o : open) {
        if (!(o.mask & mask)) continue;
        const int other = __builtin_ctz(o.arrived);
        if (o.mask != mask)
            fail(at, "%s, mask %08x, overlaps %s, mask %08x, where lane %d waits at %s:%d",
                 op_name(what), mask, op_name(o.what), o.mask, other, base_name(o.at.file),
                 o.at.line);
        if (o.what != what || o.variant != variant || !same_site(o.at, at))
            fail(at, "divergent collective: this lane is at %s, lane %d at %s in %s:%d",
                 op_name(what), other, op_name(o.what), base_name(o.at.file), o.at.line);
        return o;
    }
    check_nobody_left(me, what, mask, at);
    open.push_back({ what, variant, mask, 0, at, {} });
    return open.back();
}

} // namespace

void barrier(site at)
{
    thread &me = *m.running;
    me.at = at;
    if (m.n_at_barrier > 0 && !same_site(m.barrier_at, at))
        fail(at, "divergent barrier: %d threads wait at the one in %s:%d", m.n_at_barrier,
             base_name(m.barrier_at.file), m.barrier_at.line);
    if (m.n_live < n_threads())
        fail(at, "divergent barrier: %d threads have exited", n_threads() - m.n_live);
    m.barrier_at = at;
    me.waits_at = op::barrier;
    me.mask = full_mask;
    if (++m.n_at_barrier == n_threads()) {
        m.n_at_barrier = 0;
        m.totals.barriers++;
        if (watcher.barrier) watcher.barrier();
        for (thread &t : m.threads) wake(t); /* me too: the next round begins in its own order */
    }
    park();
}

void collective(op what, uint32_t mask, void *operand, combine fn, int variant, site at)
{
    thread &me = *m.running;
    me.at = at;
    me.mask = mask;
    if (!has(mask, me.lane()))
        fail(at, "%s: this lane is not in its mask %08x", op_name(what), mask);
    meeting &now = join(me, what, variant, mask, at);
    now.operand[me.lane()] = operand;
    now.arrived |= 1u << me.lane();
    if (now.arrived != mask) {
        me.waits_at = what;
        park();
        return;
    }
    m.totals.collectives++;
    if (what == op::sync_warp && watcher.sync_warp) watcher.sync_warp(me.warp(), mask);
    if (fn) fn(now.operand, mask, variant, at);
    for (int i = 0; i < warp_size; i++)
        if (has(mask, i) && i != me.lane()) wake(lane_of(me.warp(), i));
    auto &open = m.meetings[(size_t)me.warp()];
    std::swap(now, open.back());
    open.pop_back();
    if (m.schedule.seed > 1 && random_below(2)) { /* the last to come may be the last to go */
        wake(me);
        park();
    }
}

/* ---------------------------------------------------------------- shuffles */
namespace
{

struct shuffle_operand {
    uint64_t value, result;
    uint32_t by;
    int width;
};

/* Which lane it reads, after the PTX manual's pseudocode of shfl. */
int source_lane(shuffle_mode mode, int lane, uint32_t by, int width)
{
    const int first = lane & ~(width - 1), last = first + width - 1, b = (int)(by % warp_size);
    int source = lane;
    switch (mode) {
    case shuffle_mode::idx:
        return first | (b & (width - 1));
    case shuffle_mode::up:
        source = lane - b;
        return source >= first ? source : lane;
    case shuffle_mode::down:
        source = lane + b;
        break;
    case shuffle_mode::xor_:
        source = lane ^ b;
        break;
    }
    return source <= last ? source : lane;
}

void shuffle_all(void *const operand[warp_size], uint32_t mask, int mode, site at)
{
    for (int i = 0; i < warp_size; i++) {
        if (!has(mask, i)) continue;
        auto *mine = static_cast<shuffle_operand *>(operand[i]);
        const int source = source_lane((shuffle_mode)mode, i, mine->by, mine->width);
        if (!has(mask, source))
            fail(at, "shuffle: lane %d reads lane %d, which is not in mask %08x", i, source, mask);
        mine->result = static_cast<shuffle_operand *>(operand[source])->value;
    }
}

struct vote_operand {
    bool predicate;
    uint32_t result;
};

void vote_all(void *const operand[warp_size], uint32_t mask, int, site)
{
    uint32_t result = 0;
    for (int i = 0; i < warp_size; i++)
        if (has(mask, i) && static_cast<vote_operand *>(operand[i])->predicate) result |= 1u << i;
    for (int i = 0; i < warp_size; i++)
        if (has(mask, i)) static_cast<vote_operand *>(operand[i])->result = result;
}

/* The tree of a butterfly. Both operations commute, to the bit, so all lanes get the same. */
template <class F> void reduce(void *const operand[warp_size], F both)
{
    float x[warp_size];
    for (int i = 0; i < warp_size; i++) x[i] = *static_cast<float *>(operand[i]);
    for (int half = warp_size / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x[i] = both(x[i], x[i + half]);
    for (int i = 0; i < warp_size; i++) *static_cast<float *>(operand[i]) = x[0];
}

void sum_all(void *const operand[warp_size], uint32_t, int, site)
{
    reduce(operand, [](float a, float b) { return a + b; });
}

void max_all(void *const operand[warp_size], uint32_t, int, site)
{
    reduce(operand, [](float a, float b) { return fmaxf(a, b); });
}

} // namespace

uint64_t shuffle(shuffle_mode mode, uint32_t mask, uint64_t value, uint32_t by, int width, site at)
{
    if (width < 1 || width > warp_size || (width & (width - 1)))
        fail(at, "shuffle: width %d is not 1, 2, 4, 8, 16 or 32", width);
    shuffle_operand mine = { value, 0, by, width };
    collective(op::shuffle, mask, &mine, shuffle_all, (int)mode, at);
    return mine.result;
}

uint32_t vote(uint32_t mask, bool predicate, site at)
{
    vote_operand mine = { predicate, 0 };
    collective(op::vote, mask, &mine, vote_all, 0, at);
    return mine.result;
}

float warp_sum(float value, site at)
{
    collective(op::warp_sum, full_mask, &value, sum_all, 0, at);
    return value;
}

float warp_max(float value, site at)
{
    collective(op::warp_max, full_mask, &value, max_all, 0, at);
    return value;
}

} // namespace simt
