/* What a CUDA thread can do, emulated: the functions behind pkv_dev_host.h, for whoever else runs
 * device code on this machine (an interpreter of PTX).
 *
 *   run_grid --> blocks, one after another --> threads of a block, each on a stack of its own
 *                                              |  collective / barrier: wait for the others
 *                                              |  check_access, atomic: told to the hooks
 *                                              '- fail: the launch ends, run_grid returns 1
 *
 * All of it runs on one operating-system thread. Functions are called from inside a launch unless
 * the comment says otherwise. A wrong use of the machine (not of a function here) goes to fail(),
 * which abandons all threads where they stand: device code, and whatever stands between it and
 * here, must own no memory and have no destructors. */
#ifndef SIMT_INT_H
#define SIMT_INT_H

#include <cstddef>
#include <cstdint>

namespace simt
{

constexpr int warp_size = 32;
constexpr uint32_t full_mask = 0xffffffffu;

/* A place in device code, for reports. `file` must outlive the launch and the counters. A null
 * `file` means that `pc` is an address of this program, which the debug information explains. */
struct site {
    const char *file;
    int line;
    const void *pc = nullptr;
};

/* ---------------------------------------------------------------- who am I? */
int32_t thread_idx(); /* in the block */
int32_t block_idx();
int32_t n_threads(); /* of a block: a multiple of 32 */
int32_t n_blocks();

/* Whether a thread of a launch is running. Anywhere. */
bool on_device();

/* End the launch. The text gets the place and who failed in front:
 * "kernel.cu:12: block 0 thread 35 (warp 1 lane 3): ..." */
[[noreturn]] void fail(site at, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---------------------------------------------------------------- launches */

/* All of this outside of a launch. */
struct launch_shape {
    int64_t n_blocks;    /* 1 .. 2^31 - 1 */
    int64_t n_threads;   /* 32 .. 1024, whole warps */
    size_t shared_bytes; /* dynamic; at most 48 KiB unless allow_shared raised it for this kernel */
};

struct kernel_call {
    const void *id; /* of the kernel, as allow_shared knows it */
    void (*body)(const void *params);
    const void *params; /* device code may read [params, params + params_bytes) */
    size_t params_bytes;
};

/* Run all blocks to their end: 0; or 1, and last_error() says why. */
int run_grid(const launch_shape &shape, const kernel_call &call);

/* Something else that happens in stream order, unless a capture writes it down: true. `run` gets a
 * copy of the bytes at `data` then. */
bool captured(int (*run)(const void *data), const void *data, size_t bytes);

/* Opt in to more than 48 KiB of dynamic shared memory: 0, or 1 above 227 KiB. */
int allow_shared(const void *kernel_id, size_t bytes);

/* ---------------------------------------------------------------- memory */

/* The block's dynamic shared memory, or null if the launch asked for none. 128-byte aligned. */
void *shared_dynamic();

/* The block's array that belongs to `key`: the same for all threads, made and poisoned (0xff bytes)
 * by the first that asks. */
void *shared_static(const void *key, size_t bytes, size_t align);

/* Whether [p, p + bytes) lies in one array of this block's shared memory. */
bool in_shared(const void *p, size_t bytes);

enum class access { load, store };

/* Before device code loads or stores [p, p + bytes): alignment to `bytes` (a power of two up to 16)
 * is checked here, the rest by the hooks. */
void check_access(const void *p, size_t bytes, access kind, site at);

/* check_access, then the bytes. */
void load(void *dst, const void *src, size_t bytes, site at);
/* The same, but only the bytes of `used` (bit i: byte i) count as read; the others are poison. */
void load_used(void *dst, const void *src, size_t bytes, uint32_t used, site at);
void store(void *dst, const void *src, size_t bytes, site at);

enum class atomic_op { add, inc, min_s, max_s, min_u, max_u, and_, or_, xor_, exch, cas };
enum class order { relaxed, acq_rel };

/* One atomic operation on 4 or 8 bytes; returns the old value, zero-extended. `inc` counts up to
 * `value` and then goes on at 0; `cas` stores `value` if `compare` was there. */
uint64_t atomic(void *p, size_t bytes, atomic_op op, uint64_t value, uint64_t compare, order how,
                site at);

/* ---------------------------------------------------------------- threads meet */
enum class op : uint8_t {
    none,
    barrier,
    sync_warp,
    shuffle,
    vote,
    warp_sum,
    warp_max,
    ldmatrix,
    movmatrix,
    mma,
    exited
};

/* Wait for all threads of the block. All must be here: same file and line, none has exited. Orders
 * memory within the block. */
void barrier(site at);

/* Computes for all lanes of `mask` at once. operand[i] is what lane i passed; null outside of mask.
 */
using combine = void (*)(void *const operand[warp_size], uint32_t mask, int variant, site at);

/* Wait until all lanes of `mask` are here with the same operation, variant, file and line; the last
 * one to arrive runs fn (if any) for all. Meetings of disjoint masks may be under way together. The
 * caller must be in its mask, and no lane of the mask may have exited. Does not order memory,
 * unless `what` is sync_warp. */
void collective(op what, uint32_t mask, void *operand, combine fn, int variant, site at);

enum class shuffle_mode { idx, up, down, xor_ };

/* shfl.sync: the value of another lane of the segment of `width` (a power of two) lanes; the own
 * one where `by` leads out of the segment. A source lane outside of `mask` is an error. */
uint64_t shuffle(shuffle_mode mode, uint32_t mask, uint64_t value, uint32_t by, int width, site at);

/* The lanes of `mask` whose predicate holds. */
uint32_t vote(uint32_t mask, bool predicate, site at);

/* What five shuffles with xor 16, 8, 4, 2, 1 would give, to the bit, in one meeting. Full warps. */
float warp_sum(float value, site at);
float warp_max(float value, site at);

/* ---------------------------------------------------------------- tensor cores: full warps */

/* n (1, 2, 4) matrices of 8 x 8 16-bit elements from shared memory: lane 8j + i passes the address
 * of row i of matrix j, 16-byte aligned; other lanes' addresses are ignored. r[j] gets elements
 * [lane / 4][2 * (lane % 4)] and the next, of the matrix or, with `trans`, of its transpose. */
void ldmatrix(uint32_t *r, int n, bool trans, const void *row, site at);

/* The transpose of one such matrix, spread over the warp. */
uint32_t movmatrix_trans(uint32_t value, site at);

enum class half_type { f16, bf16 };

/* d (16 x 8) = a (16 x 16) * b (16 x 8) + c, fragments as mma.m16n8k16 has them; d may be c. Sums
 * ascend in k from c, in float. */
void mma16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
              half_type type, site at);

/* ---------------------------------------------------------------- cp.async */

/* `bytes` (4, 8, 16) into shared memory, the first src_bytes of them from src and zeros after them;
 * src is not looked at if src_bytes is 0. Lands at the wait that allows it (lazy: until then the
 * destination is poison) or at once (eager): the schedule says which. */
void copy_async(void *dst, const void *src, size_t bytes, size_t src_bytes, site at);

/* All copies that this thread issued since the last commit are one more group, an empty one too. */
void copy_commit();

/* Wait until at most n of this thread's groups are under way. */
void copy_wait(int n);

/* The thread is about to exit, which run_grid says by itself: copies under way are an error. */
void copy_check_exit();

/* ---------------------------------------------------------------- whoever watches */

/* Called at what matters for memory. Build A and B link simt_unwatched.cpp, whose table is empty;
 * build C links the race detector. Null entries are not called. */
struct hooks {
    void (*launch_begin)(const void *params, size_t bytes);
    void (*block_begin)();
    void (*block_end)();
    void (*shared_add)(void *p, size_t bytes);
    void (*global_add)(void *p, size_t bytes); /* anywhere */
    void (*global_remove)(void *p);            /* anywhere */
    void (*barrier)();                         /* all threads of the block are here */
    void (*sync_warp)(int warp, uint32_t mask);
    void (*access)(const void *p, size_t bytes, access kind, site at);
    void (*atomic)(const void *p, size_t bytes, order how, site at);
    void (*copy_issue)(void *dst, size_t bytes, site at);
    void (*copy_land)(void *dst, size_t bytes);
};
extern const hooks watcher;

} // namespace simt

#endif
