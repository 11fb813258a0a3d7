/* PTX as the interpreter holds it, decoded once.
 *
 * A thread has an array of 64-bit cells: one per register, and one per constant, special register
 * and address of a symbol, so that every operand is read in the same way. A cell holds its value
 * zero-extended from the width of the register. Negative numbers are sign-extended in constants'
 * cells; whoever reads takes the bits of its type. */
#ifndef SIMT_PTX_CODE_H
#define SIMT_PTX_CODE_H

#include "simt_ptx.h"

#include <bitset>
#include <map>
#include <vector>

namespace simt
{

/* ---------------------------------------------------------------- types and modifiers */
enum class ptx_kind : uint8_t { none, u, s, b, f, bf, e4m3, e5m2, pred };

struct ptx_type {
    ptx_kind kind = ptx_kind::none;
    uint8_t bits = 0;  /* of one element */
    uint8_t lanes = 1; /* 2: f16x2 and its like */

    int bytes() const { return bits * lanes / 8; }
    bool is_signed() const { return kind == ptx_kind::s; }
    bool is_float() const { return kind == ptx_kind::f || kind == ptx_kind::bf; }
};

/* M(identifier, spelling). Which of them an instruction may carry stands in the table of opcodes
 * (simt_ptx_decode.cpp). clang-format moves such a list to and fro. */
/* clang-format off */
#define PTX_MODIFIERS(M) \
    M(rn, "rn") M(rz, "rz") M(rm, "rm") M(rp, "rp") M(rni, "rni") M(rzi, "rzi") \
    M(rmi, "rmi") M(rpi, "rpi") M(ftz, "ftz") M(sat, "sat") M(satfinite, "satfinite") \
    M(relu, "relu") M(approx, "approx") M(full, "full") M(nan_, "NaN") M(lo, "lo") \
    M(hi, "hi") M(wide, "wide") M(cc, "cc") M(uni, "uni") M(sync, "sync") \
    M(aligned, "aligned") M(warp, "warp") M(cta, "cta") M(eq, "eq") M(ne, "ne") M(lt, "lt") \
    M(le, "le") M(gt, "gt") M(ge, "ge") M(ls, "ls") M(hs, "hs") M(equ, "equ") M(neu, "neu") \
    M(ltu, "ltu") M(leu, "leu") M(gtu, "gtu") M(geu, "geu") M(num, "num") M(nan, "nan") \
    M(and_, "and") M(or_, "or") M(xor_, "xor") M(param, "param") M(shared, "shared") \
    M(shared_cta, "shared::cta") M(global, "global") M(local, "local") M(const_, "const") \
    M(to, "to") M(volatile_, "volatile") M(weak, "weak") M(relaxed, "relaxed") \
    M(acquire, "acquire") M(release, "release") M(acq_rel, "acq_rel") M(sc, "sc") \
    M(gpu, "gpu") M(sys, "sys") M(gl, "gl") M(ca, "ca") M(cg, "cg") M(cs, "cs") M(lu, "lu") \
    M(cv, "cv") M(wb, "wb") M(wt, "wt") M(nc, "nc") M(no_allocate, "L1::no_allocate") \
    M(evict_first, "L1::evict_first") M(evict_last, "L1::evict_last") M(l2_64, "L2::64B") \
    M(l2_128, "L2::128B") M(l2_256, "L2::256B") M(v2, "v2") M(v4, "v4") M(add, "add") \
    M(inc, "inc") M(min, "min") M(max, "max") M(exch, "exch") M(cas, "cas") M(idx, "idx") \
    M(up, "up") M(down, "down") M(bfly, "bfly") M(any, "any") M(all, "all") \
    M(ballot, "ballot") M(m8n8, "m8n8") M(m16n8k16, "m16n8k16") M(x1, "x1") M(x2, "x2") \
    M(x4, "x4") M(trans, "trans") M(row, "row") M(col, "col") M(async, "async") \
    M(commit_group, "commit_group") M(wait_group, "wait_group") M(wait_all, "wait_all") \
    M(f4e, "f4e") M(b4e, "b4e") M(rc8, "rc8") M(ecl, "ecl") M(ecr, "ecr") M(rc16, "rc16") \
    M(l, "l") M(r, "r") M(wrap, "wrap") M(clamp, "clamp") M(shiftamt, "shiftamt")
/* clang-format on */

enum class ptx_mod : uint8_t {
#define PTX_MODIFIER_ID(id, text) id,
    PTX_MODIFIERS(PTX_MODIFIER_ID)
#undef PTX_MODIFIER_ID
        n
};
using ptx_mods = std::bitset<(size_t)ptx_mod::n>;

/* ---------------------------------------------------------------- instructions */
struct ptx_operand {
    enum { max_cells = 4 };
    int8_t n = 0;          /* cells: more than one for {a, b} and a|b */
    bool inverted = false; /* !p */
    bool address = false;  /* [cell + offset] */
    int32_t cell[max_cells] = {};
    int64_t offset = 0;
};

struct ptx_frame;
struct ptx_function;
struct ptx_instruction;
using ptx_handler = void (*)(ptx_frame &f, const ptx_instruction &i);

struct ptx_instruction {
    ptx_handler run = nullptr;
    int32_t guard = -1; /* cell of the predicate, or -1 */
    bool guard_inverted = false;
    ptx_mods mods;
    ptx_type type[4]; /* in the order of the text; absent: none */
    int8_t n_types = 0;
    int8_t n_operands = 0;
    ptx_operand operand[5];
    uint32_t used = ~0u; /* ld: its bytes that anybody looks at; the rest is read for nothing */
    int32_t target = -1; /* bra: index of an instruction */
    std::vector<int32_t> targets; /* brx.idx */
    const ptx_function *callee = nullptr;
    std::vector<int32_t>
        moved[2]; /* call: offsets of results, of arguments, in the caller's area */
    site at = {};

    bool has(ptx_mod m) const { return mods[(size_t)m]; }
    const ptx_type &last_type() const { return type[n_types - 1]; }
};

/* ---------------------------------------------------------------- functions and modules */
struct ptx_param {
    std::string name;
    size_t offset, bytes; /* in the function's area of parameters */
};

enum class ptx_special : uint8_t {
    tid,
    ntid,
    ctaid,
    nctaid,
    laneid,
    warpid,
    lanemask_eq,
    lanemask_lt,
    lanemask_le,
    lanemask_gt,
    lanemask_ge,
    local_base /* the address of this thread's .local memory */
};

/* An array in .shared memory. `base` is its 32-bit address; arrays lie so far apart that what
 * leaves one does not reach the next. */
struct ptx_shared {
    std::string name;
    size_t bytes, align; /* bytes 0: the dynamic one */
    uint32_t base;
};
constexpr uint32_t ptx_shared_window = 1u << 20; /* of one array */

struct ptx_function {
    std::string name;
    bool is_entry = false, is_defined = false;
    std::vector<ptx_param> params, results;
    size_t param_bytes = 0; /* formal ones, results, and what calls in it pass on */
    size_t local_bytes = 0;
    std::vector<const ptx_shared *> shared; /* that it names */
    std::vector<uint64_t> cells;            /* what they hold when a thread begins */
    std::vector<uint8_t> bits; /* of each cell's register; 64 for what is no register */
    std::vector<std::pair<int32_t, ptx_special>> specials;
    std::vector<ptx_instruction> code;
};

struct ptx_module {
    std::string name;
    std::map<std::string, std::unique_ptr<ptx_function>> functions;
    std::vector<std::unique_ptr<ptx_shared>> shared;
    struct global_t {
        std::string name;
        void *memory;
    };
    std::vector<global_t> globals;
    ptx_module() = default;
    ptx_module(const ptx_module &) = delete;
    ptx_module &operator=(const ptx_module &) = delete;
    ~ptx_module();
};

/* What all threads of a launch share. */
struct ptx_launch_state {
    const ptx_module *module;
    const ptx_function *entry;
    const void *params;
    size_t dynamic_bytes;
    std::vector<const ptx_shared *> shared; /* that the launch may touch */
};

/* A function being run by a thread. Lives on the thread's stack: owns nothing. */
struct ptx_frame {
    const ptx_launch_state *launch;
    const ptx_function *function;
    uint64_t *cells;
    unsigned char *params;
    char *local; /* [function->local_bytes] */
    int32_t next = 0;
    uint64_t carry = 0; /* of add.cc */
    bool exited = false;
};

/* ---------------------------------------------------------------- what handlers use */
inline uint64_t ptx_low(uint64_t x, int bits)
{
    return bits >= 64 ? x : x & ((1ull << bits) - 1);
}

inline int64_t ptx_signed(uint64_t x, int bits)
{
    return (int64_t)(x << (64 - bits)) >> (64 - bits);
}

/* The k-th operand's first cell, as many bits of it. */
inline uint64_t ptx_get(const ptx_frame &f, const ptx_instruction &i, int k, int bits)
{
    return ptx_low(f.cells[i.operand[k].cell[0]], bits);
}

inline int64_t ptx_get_signed(const ptx_frame &f, const ptx_instruction &i, int k, int bits)
{
    return ptx_signed(f.cells[i.operand[k].cell[0]], bits);
}

inline bool ptx_get_pred(const ptx_frame &f, const ptx_operand &o)
{
    return (f.cells[o.cell[0]] & 1) != (uint64_t)o.inverted;
}

/* The j-th cell of the k-th operand; what the register has no room for is dropped. */
inline void ptx_set(ptx_frame &f, const ptx_instruction &i, int k, uint64_t value, int j = 0)
{
    const int32_t cell = i.operand[k].cell[j];
    f.cells[cell] = ptx_low(value, f.function->bits[(size_t)cell]);
}

/* Host address of a 32-bit shared address; null if it is in no array of the block. simt_ptx_run.cpp
 */
char *ptx_shared_pointer(const ptx_frame &f, uint64_t address, site at);

/* The 32-bit address of a host address in shared memory; 0xffffff00 if it is none. */
uint32_t ptx_shared_address(const ptx_frame &f, const void *p, site at);

/* The handler of `call`. */
void ptx_call(ptx_frame &caller, const ptx_instruction &i);

/* ---------------------------------------------------------------- decoding */

/* Modifiers and types of "opcode.a.b": fills run, mods, type. "" or what is wrong. */
std::string ptx_decode(const std::string &opcode, ptx_instruction &i);

/* Whether an opcode that was decoded may have n operands. */
bool ptx_takes_operands(const std::string &opcode, int n);

/* "u32", "f16x2": false if it names no type. */
bool ptx_type_of(const std::string &text, ptx_type &type);

/* Handlers by opcode, in four files. mods: what an instruction may carry, separated by spaces;
 * operands: how many, at least and at most; types: how many. */
struct ptx_opcode {
    const char *name;
    ptx_handler run;
    const char *mods;
    int min_operands, max_operands, n_types;
};
struct ptx_opcode_list {
    const ptx_opcode *first;
    size_t n;
};
ptx_opcode_list ptx_integer_opcodes();
ptx_opcode_list ptx_float_opcodes();
ptx_opcode_list ptx_cvt_opcodes();
ptx_opcode_list ptx_machine_opcodes();

} // namespace simt

#endif
