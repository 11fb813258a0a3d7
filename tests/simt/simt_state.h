/* The insides that the emulator's own files share. There is one machine, since device code asks it
 * for everything without a handle; it is the only writable object at file scope here.
 *
 * A thread of the block is in exactly one place: running; in `ready` behind ready_pos; in `next`,
 * for the round after this one; waiting in a meeting or at the barrier; or exited. */
#ifndef SIMT_STATE_H
#define SIMT_STATE_H

#include "simt_device.h"
#include "simt_int.h"

#include <functional>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SIMT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#endif
#endif

namespace simt
{

/* A stack to run on. */
struct context {
    void *sp = nullptr; /* where it is suspended */
    char *stack = nullptr;
    size_t stack_bytes = 0;
    void *fake_stack = nullptr; /* AddressSanitizer's */
};

struct thread {
    context ctx;
    int32_t idx = 0;
    op waits_at = op::none;
    uint32_t mask = 0; /* of the collective it waits at */
    site at = {};      /* where it waits, or met others last */

    int lane() const { return idx % warp_size; }
    int warp() const { return idx / warp_size; }
    bool exited() const { return waits_at == op::exited; }
};

/* Lanes that wait for one another. Empty between collectives. */
struct meeting {
    op what;
    int variant;
    uint32_t mask;
    uint32_t arrived; /* part of mask */
    site at;
    void *operand[warp_size];
};

struct shared_array {
    const void *key; /* null: the dynamic one */
    char *memory;
    size_t bytes;
};

struct machine {
    device_schedule_t schedule = {};
    device_totals totals = {};
    bool failed = false;        /* the launch is to end */
    bool only_prepared = false; /* kernels that were not prepared are refused */
    char error[4096] = "";

    /* The launch. */
    launch_shape shape = {};
    kernel_call call = {};
    int64_t block = 0;
    uint64_t random = 0;

    /* The block. */
    context host;
    thread *running = nullptr; /* null: the host */
    std::vector<thread> threads;
    std::vector<int32_t> ready, next;
    size_t ready_pos = 0;
    int n_live = 0;
    int n_at_barrier = 0;
    site barrier_at = {};                       /* where they wait */
    std::vector<std::vector<meeting>> meetings; /* per warp */
    std::vector<shared_array> shared;
};
extern machine m;

/* simt_fibers.cpp: one stack per thread of the block, made anew from the same memory. */
void fibers_prepare(std::vector<thread> &threads, void (*entry)());
void fiber_switch(context &from, context &to, bool for_ever);
void fiber_begin();                               /* first thing on a new stack */
void fibers_forget(std::vector<thread> &threads); /* however far they got */
bool fiber_holds(const thread &t, const void *p); /* is p on its stack? */

/* simt_sched.cpp */
void park();          /* wait until someone wakes the running thread */
void wake(thread &t); /* it runs in the next round */
uint32_t random_below(uint32_t n);
const char *op_name(op what);
const char *base_name(const char *path);
bool same_site(const site &a, const site &b);

/* simt_stream.cpp: what tests do with launches in place of running them. */
bool stream_refuses(); /* this one fails; m.error says so */
int stream_prepares(); /* 0, or the code that preparing a kernel fails with, and m.error */
bool stream_captures();
void stream_records(const launch_shape &shape, size_t params_bytes);
void stream_adds(std::function<int()> node);
bool stream_takes(const launch_shape &shape,
                  const kernel_call &call); /* captured: not to run now */

/* simt_shared.cpp */
void shared_begin(size_t dynamic_bytes);
void shared_end();

/* simt_copies.cpp */
void copies_begin(int n_threads);

} // namespace simt

#endif
