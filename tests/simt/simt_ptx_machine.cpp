/* Instructions of PTX that have to do with memory, other threads, or the order of instructions.
 *
 * Addresses: generic and global ones are the host's; shared ones are 32-bit, in windows of one
 * array each (ptx_shared); local ones are the host's, on the thread's stack; those of parameters
 * are offsets into the frame's area. */
#include "simt_ptx_code.h"

#include <cstring>

namespace simt
{
namespace
{

using frame = ptx_frame;
using ins = ptx_instruction;
using m = ptx_mod;

constexpr size_t max_access = 16;

/* ---------------------------------------------------------------- addresses */

uint64_t address_of(const frame &f, const ptx_operand &o)
{
    return f.cells[o.cell[0]] + (uint64_t)o.offset;
}

bool is_shared(const ins &i)
{
    return i.has(m::shared) || i.has(m::shared_cta);
}

/* Host address of the k-th operand, [p, p + bytes) inside of what the space allows. */
char *pointer(const frame &f, const ins &i, int k, size_t bytes)
{
    const uint64_t a = address_of(f, i.operand[k]);
    if (is_shared(i)) {
        char *p = ptx_shared_pointer(f, a, i.at);
        if (!p)
            fail(i.at, "shared address %llx, outside of every buffer",
                 (unsigned long long)(uint32_t)a);
        return p;
    }
    char *p = reinterpret_cast<char *>((uintptr_t)a);
    if (i.has(m::local) && (p < f.local || p + bytes > f.local + f.function->local_bytes))
        fail(i.at, "local address, outside of every variable of the thread");
    return p;
}

unsigned char *param(const frame &f, const ins &i, int k, size_t bytes)
{
    const uint64_t offset = address_of(f, i.operand[k]);
    if (offset > f.function->param_bytes || bytes > f.function->param_bytes - offset)
        fail(i.at, "parameter at %llu, of %zu bytes", (unsigned long long)offset,
             f.function->param_bytes);
    return f.params + offset;
}

size_t access_bytes(const ins &i, int k)
{
    const size_t bytes = (size_t)i.type[0].bytes() * (size_t)i.operand[k].n;
    if (bytes > max_access) fail(i.at, "an access of %zu bytes", bytes);
    return bytes;
}

/* ---------------------------------------------------------------- loads and stores */

void run_ld(frame &f, const ins &i)
{
    const size_t bytes = access_bytes(i, 0), each = (size_t)i.type[0].bytes();
    unsigned char value[max_access];
    if (i.has(m::param)) memcpy(value, param(f, i, 1, bytes), bytes);
    else if (i.has(m::local)) memcpy(value, pointer(f, i, 1, bytes), bytes);
    else load_used(value, pointer(f, i, 1, bytes), bytes, i.used, i.at);
    for (int j = 0; j < i.operand[0].n; j++) {
        uint64_t x = 0;
        memcpy(&x, value + (size_t)j * each, each);
        if (i.type[0].is_signed()) x = (uint64_t)ptx_signed(x, i.type[0].bits);
        ptx_set(f, i, 0, x, j);
    }
}

void run_st(frame &f, const ins &i)
{
    const size_t bytes = access_bytes(i, 1), each = (size_t)i.type[0].bytes();
    unsigned char value[max_access];
    for (int j = 0; j < i.operand[1].n; j++)
        memcpy(value + (size_t)j * each, &f.cells[i.operand[1].cell[j]], each);
    if (i.has(m::param)) memcpy(param(f, i, 0, bytes), value, bytes);
    else if (i.has(m::local)) memcpy(pointer(f, i, 0, bytes), value, bytes);
    else store(pointer(f, i, 0, bytes), value, bytes, i.at);
}

/* mov d, a; mov {d0, d1}, a; mov d, {a0, a1}; mov d, [symbol] does not exist. */
void run_mov(frame &f, const ins &i)
{
    const ptx_operand &d = i.operand[0], &a = i.operand[1];
    const int bits = i.type[0].bits;
    if (d.n == 1 && a.n == 1) {
        ptx_set(f, i, 0, ptx_low(f.cells[a.cell[0]], bits));
        return;
    }
    uint64_t x = 0;
    if (a.n == 1) x = f.cells[a.cell[0]];
    for (int j = 0; j < a.n && a.n > 1; j++)
        x |= ptx_low(f.cells[a.cell[j]], bits / a.n) << (bits / a.n * j);
    for (int j = 0; j < d.n; j++)
        ptx_set(f, i, 0, ptx_low(x >> (bits / d.n % 64 * j), bits / d.n), j);
}

/* cvta.space: to generic; cvta.to.space: from it. */
void run_cvta(frame &f, const ins &i)
{
    const uint64_t a = address_of(f, i.operand[1]);
    if (is_shared(i) && i.has(m::to)) {
        ptx_set(f, i, 0, ptx_shared_address(f, reinterpret_cast<void *>((uintptr_t)a), i.at));
    } else if (is_shared(i)) {
        const char *p = ptx_shared_pointer(f, a, i.at);
        if (!p)
            fail(i.at, "shared address %llx, outside of every buffer",
                 (unsigned long long)(uint32_t)a);
        ptx_set(f, i, 0, reinterpret_cast<uintptr_t>(p));
    } else if (i.has(m::param)) {
        const uintptr_t base = reinterpret_cast<uintptr_t>(f.params);
        ptx_set(f, i, 0, i.has(m::to) ? a - base : a + base);
    } else {
        ptx_set(f, i, 0, a);
    }
}

/* ---------------------------------------------------------------- atomics */

bool atomic_op_of(const ins &i, atomic_op &op)
{
    const bool s = i.type[0].is_signed();
    if (i.type[0].is_float()) return false;
    if (i.has(m::add)) op = atomic_op::add;
    else if (i.has(m::inc)) op = atomic_op::inc;
    else if (i.has(m::min)) op = s ? atomic_op::min_s : atomic_op::min_u;
    else if (i.has(m::max)) op = s ? atomic_op::max_s : atomic_op::max_u;
    else if (i.has(m::and_)) op = atomic_op::and_;
    else if (i.has(m::or_)) op = atomic_op::or_;
    else if (i.has(m::xor_)) op = atomic_op::xor_;
    else if (i.has(m::exch)) op = atomic_op::exch;
    else if (i.has(m::cas)) op = atomic_op::cas;
    else return false;
    return true;
}

/* The address is operand k, the values come after it: for cas what to compare with, and what to
 * store. acquire and release alone count as both. */
uint64_t do_atomic(frame &f, const ins &i, int k)
{
    atomic_op op;
    const int bits = i.type[0].bits;
    if (!atomic_op_of(i, op)) fail(i.at, "an atomic operation that is not emulated");
    const size_t bytes = (size_t)bits / 8;
    const bool ordered = i.has(m::acq_rel) || i.has(m::acquire) || i.has(m::release);
    const bool cas = op == atomic_op::cas;
    return atomic(pointer(f, i, k, bytes), bytes, op, ptx_get(f, i, cas ? k + 2 : k + 1, bits),
                  cas ? ptx_get(f, i, k + 1, bits) : 0, ordered ? order::acq_rel : order::relaxed,
                  i.at);
}

void run_atom(frame &f, const ins &i)
{
    ptx_set(f, i, 0, do_atomic(f, i, 1));
}
void run_red(frame &f, const ins &i)
{
    do_atomic(f, i, 0);
}

/* Fences say nothing here: the emulator's memory is in order, and its race detector believes in
 * atomics only. */
void run_nothing(frame &, const ins &) {}

/* ---------------------------------------------------------------- threads meet */

void run_bar(frame &f, const ins &i)
{
    if (i.has(m::warp)) {
        collective(op::sync_warp, (uint32_t)ptx_get(f, i, 0, 32), nullptr, nullptr, 0, i.at);
        return;
    }
    if (ptx_get(f, i, 0, 32) != 0) fail(i.at, "a barrier other than 0 is not emulated");
    barrier(i.at);
}

/* The manual's pseudocode of shfl: c holds the segment's mask and the last lane to read. */
void run_shfl(frame &f, const ins &i)
{
    const int32_t lane = thread_idx() % warp_size;
    const int32_t b = (int32_t)ptx_get(f, i, 2, 5), clamp = (int32_t)ptx_get(f, i, 3, 5);
    const int32_t width = warp_size - (int32_t)(ptx_get_signed(f, i, 3, 32) >> 8);
    const int32_t segment = warp_size - width;
    if (width < 1 || width > warp_size || (width & (width - 1)))
        fail(i.at, "shuffle: width %d is not 1, 2, 4, 8, 16 or 32", width);
    const int32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment;
    int32_t source = first | (b & ~segment);
    if (i.has(m::up)) source = lane - b;
    if (i.has(m::down)) source = lane + b;
    if (i.has(m::bfly)) source = lane ^ b;
    const bool inside = i.has(m::up) ? source >= last : source <= last;
    const uint64_t x =
        shuffle(shuffle_mode::idx, (uint32_t)ptx_get(f, i, 4, 32), ptx_get(f, i, 1, 32),
                (uint32_t)(inside ? source : lane), warp_size, i.at);
    ptx_set(f, i, 0, x);
    if (i.operand[0].n > 1) ptx_set(f, i, 0, inside, 1);
}

void run_vote(frame &f, const ins &i)
{
    const uint32_t mask = (uint32_t)ptx_get(f, i, 2, 32);
    const uint32_t votes = vote(mask, ptx_get_pred(f, i.operand[1]), i.at);
    if (i.has(m::ballot)) ptx_set(f, i, 0, votes);
    else if (i.has(m::any)) ptx_set(f, i, 0, votes != 0);
    else if (i.has(m::all)) ptx_set(f, i, 0, votes == mask);
    else ptx_set(f, i, 0, votes == mask || votes == 0); /* uni */
}

void run_mma(frame &f, const ins &i)
{
    const ptx_kind kind = i.type[1].kind;
    const bool fits = i.has(m::m16n8k16) && i.type[0].bits == 32 && i.type[0].is_float() &&
                      i.type[3].bits == 32 && i.type[2].kind == kind && i.type[1].bits == 16 &&
                      i.operand[0].n == 4 && i.operand[1].n == 4 && i.operand[2].n == 2 &&
                      i.operand[3].n == 4;
    if (!fits) fail(i.at, "mma: only m16n8k16 of f16 or bf16 in f32 is emulated");
    uint32_t a[4], b[2];
    float c[4], d[4];
    for (int j = 0; j < 4; j++) {
        a[j] = (uint32_t)f.cells[i.operand[1].cell[j]];
        memcpy(&c[j], &f.cells[i.operand[3].cell[j]], 4);
    }
    for (int j = 0; j < 2; j++) b[j] = (uint32_t)f.cells[i.operand[2].cell[j]];
    mma16816(d, a, b, c, kind == ptx_kind::bf ? half_type::bf16 : half_type::f16, i.at);
    for (int j = 0; j < 4; j++) {
        uint32_t bits;
        memcpy(&bits, &d[j], 4);
        ptx_set(f, i, 0, bits, j);
    }
}

/* An address in no array goes on as null: whether it matters, ldmatrix knows. */
void run_ldmatrix(frame &f, const ins &i)
{
    uint32_t r[4];
    const int n = i.has(m::x4) ? 4 : i.has(m::x2) ? 2 : 1;
    if (!is_shared(i) || i.operand[0].n != n)
        fail(i.at, "ldmatrix: only .shared, with a register per matrix, is emulated");
    ldmatrix(r, n, i.has(m::trans), ptx_shared_pointer(f, address_of(f, i.operand[1]), i.at), i.at);
    for (int j = 0; j < n; j++) ptx_set(f, i, 0, r[j], j);
}

void run_movmatrix(frame &f, const ins &i)
{
    ptx_set(f, i, 0, movmatrix_trans((uint32_t)ptx_get(f, i, 1, 32), i.at));
}

/* cp.async.x.shared.global [d], [s], size{, source size}; or a group's end or wait. */
void run_cp(frame &f, const ins &i)
{
    if (i.has(m::commit_group)) {
        copy_commit();
    } else if (i.has(m::wait_group)) {
        copy_wait((int)ptx_get(f, i, 0, 32));
    } else if (i.has(m::wait_all)) {
        copy_commit();
        copy_wait(0);
    } else {
        const uint64_t size = ptx_get(f, i, 2, 32);
        if (size != 16 && (i.has(m::cg) || (size != 4 && size != 8)))
            fail(i.at, "cp.async of %llu bytes", (unsigned long long)size);
        copy_async(ptx_shared_pointer(f, address_of(f, i.operand[0]), i.at),
                   reinterpret_cast<void *>((uintptr_t)address_of(f, i.operand[1])), size,
                   i.n_operands > 3 ? ptx_get(f, i, 3, 32) : size, i.at);
    }
}

/* ---------------------------------------------------------------- order of instructions */

void run_bra(frame &f, const ins &i)
{
    f.next = i.target;
}

void run_brx(frame &f, const ins &i)
{
    const uint64_t at = ptx_get(f, i, 0, 32);
    if (at >= i.targets.size()) fail(i.at, "brx: no target %llu", (unsigned long long)at);
    f.next = i.targets[at];
}

void run_ret(frame &f, const ins &)
{
    f.next = (int32_t)f.function->code.size();
}

void run_exit(frame &f, const ins &i)
{
    run_ret(f, i);
    f.exited = true;
}

void run_trap(frame &, const ins &i)
{
    fail(i.at, "trap");
}

#define MEMORY                                                                                     \
    "shared shared::cta global local param const volatile weak relaxed acquire release "           \
    "gpu cta sys ca cg cs lu cv wb wt nc L1::no_allocate L1::evict_first "                         \
    "L1::evict_last L2::64B L2::128B L2::256B v2 v4"
#define ATOMIC                                                                                     \
    "shared shared::cta global relaxed acquire release acq_rel gpu cta sys add inc min "           \
    "max and or xor exch cas"

const ptx_opcode opcodes[] = {
    { "ld", run_ld, MEMORY, 2, 2, 1 },
    { "st", run_st, MEMORY, 2, 2, 1 },
    { "mov", run_mov, "", 2, 2, 1 },
    { "cvta", run_cvta, "to shared shared::cta global local param const", 2, 2, 1 },
    { "atom", run_atom, ATOMIC, 3, 4, 1 },
    { "red", run_red, ATOMIC, 2, 2, 1 },
    { "membar", run_nothing, "cta gl sys", 0, 0, 0 },
    { "fence", run_nothing, "acq_rel sc cta gpu sys", 0, 0, 0 },
    { "bar", run_bar, "sync warp cta", 1, 1, 0 },
    { "barrier", run_bar, "sync aligned cta", 1, 1, 0 },
    { "shfl", run_shfl, "sync idx up down bfly", 5, 5, 1 },
    { "vote", run_vote, "sync ballot any all uni", 3, 3, 1 },
    { "mma", run_mma, "sync aligned m16n8k16 row col", 4, 4, 4 },
    { "ldmatrix", run_ldmatrix, "sync aligned m8n8 x1 x2 x4 trans shared shared::cta", 2, 2, 1 },
    { "movmatrix", run_movmatrix, "sync aligned m8n8 trans", 2, 2, 1 },
    { "cp", run_cp,
      "async ca cg shared shared::cta global L2::64B L2::128B L2::256B commit_group wait_group "
      "wait_all",
      0, 4, 0 },
    { "bra", run_bra, "uni", 0, 0, 0 },
    { "brx", run_brx, "idx uni", 1, 1, 0 },
    { "call", ptx_call, "uni", 0, 0, 0 },
    { "ret", run_ret, "uni", 0, 0, 0 },
    { "exit", run_exit, "", 0, 0, 0 },
    { "trap", run_trap, "", 0, 0, 0 },
};

} // namespace

ptx_opcode_list ptx_machine_opcodes()
{
    return { opcodes, sizeof opcodes / sizeof opcodes[0] };
}

} // namespace simt
