/* Single instructions of PTX, in hand-written texts. What to expect comes from the definitions in
 * the manual of the PTX ISA, worked out by hand; bits in hexadecimal. */
#include "simt/simt_ptx.h"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

extern "C" {
#include "simt_test.h"
}

namespace
{

struct params_t {
    uint64_t *out;
    uint64_t a, b, c;
};

/* Registers: rN b32, dN b64, hN b16, of a, b, c (N = 0 .. 2) and for results (r, d, h, and two
 * more each); pN their lowest bits. The text leaves its result in d. */
std::string program(const std::string &body)
{
    return ".version 8.0\n.target sm_80\n.address_size 64\n"
           ".global .align 4 .b32 table[3] = {7, 0x10, -1};\n"
           ".func (.param .b32 twice_result) twice(.param .b32 twice_x)\n{\n.reg .b32 x;\n"
           "ld.param.b32 x, [twice_x];\nadd.u32 x, x, x;\nst.param.b32 [twice_result], "
           "x;\nret;\n}\n"
           ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c)\n{\n"
           ".reg .b64 d<3>; .reg .b64 d, e, f, to;\n.reg .b32 r<3>; .reg .b32 r, s, t;\n"
           ".reg .b16 h<3>; .reg .b16 h, i, j;\n.reg .pred p<3>; .reg .pred p, q;\n"
           ".local .align 8 .b8 mine[16];\n.shared .align 8 .b8 ours[64];\n"
           "ld.param.u64 to, [out];\nld.param.u64 d0, [a];\nld.param.u64 d1, [b];\n"
           "ld.param.u64 d2, [c];\n"
           "cvt.u32.u64 r0, d0;\ncvt.u32.u64 r1, d1;\ncvt.u32.u64 r2, d2;\n"
           "cvt.u16.u64 h0, d0;\ncvt.u16.u64 h1, d1;\ncvt.u16.u64 h2, d2;\n"
           "and.b32 r, r0, 1;\nsetp.ne.u32 p0, r, 0;\nand.b32 r, r1, 1;\nsetp.ne.u32 p1, r, 0;\n"
           "and.b32 r, r2, 1;\nsetp.ne.u32 p2, r, 0;\nmov.b32 r, 0;\n"
           "mov.b64 d, 0x5555555555555555;\nsetp.ne.u32 q, %tid.x, 31;\n" +
           body +
           "\nsetp.ne.u32 q, %tid.x, 31;\n@q bra done;\nst.global.u64 [to], d;\ndone: ret;\n}\n";
}

struct result {
    std::string error;
    uint64_t out;
};

result run(const std::string &body, uint64_t a, uint64_t b, uint64_t c)
{
    result r = { "", 0 };
    const auto module = simt::ptx_parse("test.ptx", program(body), r.error);
    if (!module) return r;
    params_t params = { static_cast<uint64_t *>(device_alloc(8)), a, b, c };
    if (simt::ptx_run(*module, "k", { 1, 32, 0 }, nullptr, &params, sizeof params))
        r.error = device_last_error();
    device_download(&r.out, params.out, 8);
    device_free(params.out);
    return r;
}

/* ---------------------------------------------------------------- one instruction */
struct one {
    const char *text; /* the result goes to r (32 bits), d (64), h (16) or p */
    uint64_t a, b, c, expected;
};

/* The result register, told by the first operand, into d. */
std::string with_result(const std::string &text)
{
    const size_t blank = text.find(' ');
    const std::string first = text.substr(blank + 1, text.find_first_of(",|", blank) - blank - 1);
    if (first == "r") return text + "\ncvt.u64.u32 d, r;";
    if (first == "h") return text + "\ncvt.u64.u16 d, h;";
    if (first == "p") return text + "\nselp.b64 d, 1, 0, p;";
    return text;
}

template <size_t N> void check(const one (&cases)[N])
{
    int n_wrong = 0;
    for (const one &o : cases) {
        const result r = run(with_result(o.text), o.a, o.b, o.c);
        if (r.error.empty() && r.out == o.expected) continue;
        n_wrong++;
        print_error("%s of %llx, %llx, %llx: %llx instead of %llx %s\n", o.text,
                    (unsigned long long)o.a, (unsigned long long)o.b, (unsigned long long)o.c,
                    (unsigned long long)r.out, (unsigned long long)o.expected, r.error.c_str());
    }
    assert_int_equal(n_wrong, 0);
}

constexpr uint64_t min32 = 0x80000000u, max32 = 0x7fffffffu, all32 = 0xffffffffu, all64 = ~0ull;
constexpr uint64_t one_f = 0x3f800000u, two_f = 0x40000000u, inf_f = 0x7f800000u,
                   ninf_f = 0xff800000u, nan_f = 0x7fc00000u, cnan_f = 0x7fffffffu,
                   sub_f = 0x00000001u, nsub_f = 0x807fffffu, nzero_f = 0x80000000u;

void integers(void **)
{
    static const one cases[] = {
        { "add.s32 r, r0, r1;", all32, 1, 0, 0 },
        { "add.sat.s32 r, r0, r1;", max32, 1, 0, max32 },
        { "add.sat.s32 r, r0, r1;", min32, all32, 0, min32 },
        { "add.s64 d, d0, d1;", all64, 2, 0, 1 },
        { "add.u16 h, h0, h1;", 0xffff, 2, 0, 1 },
        { "sub.s32 r, r0, r1;", 0, 1, 0, all32 },
        { "sub.sat.s32 r, r0, r1;", min32, 1, 0, min32 },
        { "mul.lo.s32 r, r0, r1;", 0x10001, 0x10001, 0, 0x20001 },
        { "mul.hi.u32 r, r0, r1;", all32, all32, 0, 0xfffffffe },
        { "mul.hi.s32 r, r0, r1;", all32, all32, 0, 0 },
        { "mul.hi.s32 r, r0, r1;", min32, 2, 0, all32 },
        { "mul.hi.u64 d, d0, d1;", all64, all64, 0, all64 - 1 },
        { "mul.hi.s64 d, d0, d1;", 1ull << 63, 1ull << 63, 0, 1ull << 62 },
        { "mul.wide.u32 d, r0, r1;", all32, all32, 0, 0xfffffffe00000001ull },
        { "mul.wide.s32 d, r0, r1;", all32, 5, 0, 0xfffffffffffffffbull },
        { "mul.wide.s16 r, h0, h1;", 0x8000, 0x8000, 0, 0x40000000 },
        { "mul.wide.u16 r, h0, h1;", 0xffff, 0xffff, 0, 0xfffe0001 },
        { "mad.lo.s32 r, r0, r1, r2;", 3, 5, all32, 14 },
        { "mad.hi.u32 r, r0, r1, r2;", all32, all32, 3, 1 },
        { "mad.hi.s32 r, r0, r1, r2;", min32, 2, 1, 0 },
        { "mad.hi.sat.s32 r, r0, r1, r2;", min32, min32, max32, max32 },
        { "mad.wide.s32 d, r0, r1, d2;", all32, 2, 1, all64 },
        { "mad.wide.u32 d, r0, r1, d2;", all32, 2, 2, 0x200000000ull },
        { "div.s32 r, r0, r1;", all32 - 6, 2, 0, all32 - 2 }, /* -7 / 2 = -3 */
        { "div.u32 r, r0, r1;", all32 - 6, 2, 0, 0x7ffffffc },
        { "div.s32 r, r0, r1;", min32, all32, 0, min32 },
        { "div.u32 r, r0, r1;", 5, 0, 0, all32 },
        { "div.s64 d, d0, d1;", 1ull << 63, all64, 0, 1ull << 63 },
        { "rem.s32 r, r0, r1;", all32 - 6, 2, 0, all32 }, /* -7 = -3 * 2 - 1 */
        { "rem.s32 r, r0, r1;", 7, all32 - 1, 0, 1 },
        { "rem.s32 r, r0, r1;", min32, all32, 0, 0 },
        { "rem.u64 d, d0, d1;", all64, 10, 0, 5 },
        { "rem.u32 r, r0, r1;", 5, 0, 0, 5 },
        { "neg.s32 r, r0;", min32, 0, 0, min32 },
        { "abs.s32 r, r0;", all32 - 4, 0, 0, 5 },
        { "abs.s32 r, r0;", min32, 0, 0, min32 },
        { "min.s32 r, r0, r1;", all32, 1, 0, all32 },
        { "min.u32 r, r0, r1;", all32, 1, 0, 1 },
        { "max.s64 d, d0, d1;", all64, 1, 0, 1 },
        { "max.u64 d, d0, d1;", all64, 1, 0, all64 },
        { "add.cc.u32 r, r0, r1; addc.u32 r, r2, 0;", all32, 1, 5, 6 },
        { "sub.cc.u32 r, r0, r1; subc.u32 r, r2, 0;", 0, 1, 5, 4 },
        { "add.cc.u64 d, d0, d1; addc.u64 d, 0, 0;", all64, 1, 0, 1 },
    };
    check(cases);
}

void bits(void **)
{
    static const one cases[] = {
        { "shl.b32 r, r0, r1;", 1, 31, 0, min32 },
        { "shl.b32 r, r0, r1;", 1, 32, 0, 0 },
        { "shl.b32 r, r0, r1;", 1, 0x80000001, 0, 0 },
        { "shl.b64 d, d0, r1;", 1, 63, 0, 1ull << 63 },
        { "shl.b64 d, d0, r1;", 1, 64, 0, 0 },
        { "shl.b16 h, h0, r1;", 0xffff, 15, 0, 0x8000 },
        { "shr.u32 r, r0, r1;", min32, 31, 0, 1 },
        { "shr.u32 r, r0, r1;", min32, 32, 0, 0 },
        { "shr.s32 r, r0, r1;", min32, 4, 0, 0xf8000000 },
        { "shr.s32 r, r0, r1;", min32, 99, 0, all32 },
        { "shr.s32 r, r0, r1;", max32, 99, 0, 0 },
        { "shr.s64 d, d0, r1;", 1ull << 63, 64, 0, all64 },
        { "shr.b64 d, d0, r1;", all64, 63, 0, 1 },
        { "shf.l.wrap.b32 r, r0, r1, r2;", 0x80000000, 0x00000001, 33, 3 },
        { "shf.l.clamp.b32 r, r0, r1, r2;", 0x12345678, 0x9abcdef0, 40, 0x12345678 },
        { "shf.r.wrap.b32 r, r0, r1, r2;", 0x12345678, 0x9abcdef0, 8, 0xf0123456 },
        { "shf.r.clamp.b32 r, r0, r1, r2;", 0x12345678, 0x9abcdef0, 32, 0x9abcdef0 },
        { "and.b32 r, r0, r1;", 0xff00ff00, 0x0ff00ff0, 0, 0x0f000f00 },
        { "or.b64 d, d0, d1;", 0xf0, 0x0f, 0, 0xff },
        { "xor.b32 r, r0, r1;", all32, 0x0f, 0, 0xfffffff0 },
        { "not.b32 r, r0;", 0x0f, 0, 0, 0xfffffff0 },
        { "not.b16 h, h0;", 0x0f, 0, 0, 0xfff0 },
        { "cnot.b32 r, r0;", 0, 0, 0, 1 },
        { "cnot.b32 r, r0;", 2, 0, 0, 0 },
        { "and.pred p, p0, !p1;", 1, 0, 0, 1 },
        { "xor.pred p, p0, p1;", 1, 1, 0, 0 },
        { "not.pred p, p0;", 1, 0, 0, 0 },
        { "popc.b32 r, r0;", 0xf000000f, 0, 0, 8 },
        { "popc.b64 r, d0;", all64, 0, 0, 64 },
        { "clz.b32 r, r0;", 0, 0, 0, 32 },
        { "clz.b32 r, r0;", 0x00010000, 0, 0, 15 },
        { "clz.b64 r, d0;", 1, 0, 0, 63 },
        { "brev.b32 r, r0;", 0x00000003, 0, 0, 0xc0000000 },
        { "bfind.u32 r, r0;", 0x00010000, 0, 0, 16 },
        { "bfind.u32 r, r0;", 0, 0, 0, all32 },
        { "bfind.s32 r, r0;", 0xfffffffe, 0, 0, 0 },
        { "bfind.shiftamt.u32 r, r0;", 0x00010000, 0, 0, 15 },
        { "bfe.u32 r, r0, r1, r2;", 0xabcd1234, 8, 8, 0x12 },
        { "bfe.s32 r, r0, r1, r2;", 0xabcd1234, 16, 8, 0xffffffcd },
        { "bfe.s32 r, r0, r1, r2;", 0x80000000, 28, 8, 0xfffffff8 },
        { "bfe.u32 r, r0, r1, r2;", all32, 4, 0, 0 },
        { "bfe.u32 r, r0, r1, r2;", all32, 40, 8, 0 },
        { "bfe.u64 d, d0, r1, r2;", all64, 60, 8, 0xf },
        { "bfi.b32 r, r0, r1, r2, 8;", 0xff, 0, 16, 0x00ff0000 },
        { "bfi.b32 r, r0, r1, 28, r2;", 0xff, 0, 8, 0xf0000000 },
        { "bfi.b32 r, r0, r1, 0, r2;", 0xff, 0x12345678, 0, 0x12345678 },
        { "bfi.b64 d, d0, d1, 32, 32;", 0x1, all64, 0, 0x1ffffffffull },
        { "bfi.b64 d, d0, d1, 60, 8;", 0xff, 0, 0, 0xf000000000000000ull },
        { "prmt.b32 r, r0, r1, r2;", 0x33221100, 0x77665544, 0x7310, 0x77331100 },
        { "prmt.b32 r, r0, r1, r2;", 0x33228000, 0x77665544, 0x9999, 0xffffffff },
        { "prmt.b32 r, r0, r1, r2;", 0x33227f00, 0x77665544, 0x0009, 0x00000000 },
        { "prmt.b32.f4e r, r0, r1, r2;", 0x33221100, 0x77665544, 1, 0x44332211 },
        { "prmt.b32.rc16 r, r0, r1, r2;", 0x33221100, 0x77665544, 1, 0x33223322 },
        { "lop3.b32 r, r0, r1, r2, 0x80;", 0xff, 0x3c, 0x18, 0x18 },
        { "lop3.b32 r, r0, r1, r2, 0x96;", 0xff, 0x0f, 0x33, 0xc3 },
        { "lop3.b32 r, r0, r1, r2, 0xca;", 0xf0, 0xaa, 0x55, 0xa5 },
    };
    check(cases);
}

void comparisons(void **)
{
    static const one cases[] = {
        { "setp.lt.s32 p, r0, r1;", all32, 1, 0, 1 },
        { "setp.lt.u32 p, r0, r1;", all32, 1, 0, 0 },
        { "setp.lo.u32 p, r0, r1;", 1, all32, 0, 1 },
        { "setp.hs.u32 p, r0, r1;", 1, 1, 0, 1 },
        { "setp.ls.u32 p, r0, r1;", 2, 1, 0, 0 },
        { "setp.hi.u32 p, r0, r1;", 2, 1, 0, 1 },
        { "setp.eq.b16 p, h0, h1;", 0x10001, 1, 0, 1 },
        { "setp.ge.s64 p, d0, d1;", 1ull << 63, 0, 0, 0 },
        { "setp.le.s64 p, d0, d1;", 1ull << 63, 0, 0, 1 },
        { "setp.lt.and.s32 p, r0, r1, p2;", 0, 1, 0, 0 },
        { "setp.lt.or.s32 p, r0, r1, p2;", 1, 1, 1, 1 },
        { "setp.lt.xor.s32 p, r0, r1, p2;", 0, 1, 1, 0 },
        { "setp.lt.and.s32 p, r0, r1, !p2;", 0, 1, 0, 1 },
        { "setp.lt.s32 q|p, r0, r1; selp.b64 d, 1, 0, p;", 0, 1, 0, 0 },
        { "setp.eq.f32 p, r0, r1;", 0, nzero_f, 0, 1 },
        { "setp.eq.f32 p, r0, r1;", nan_f, nan_f, 0, 0 },
        { "setp.ne.f32 p, r0, r1;", nan_f, one_f, 0, 0 },
        { "setp.neu.f32 p, r0, r1;", nan_f, one_f, 0, 1 },
        { "setp.equ.f32 p, r0, r1;", nan_f, one_f, 0, 1 },
        { "setp.ltu.f32 p, r0, r1;", two_f, one_f, 0, 0 },
        { "setp.geu.f32 p, r0, r1;", one_f, nan_f, 0, 1 },
        { "setp.gt.f32 p, r0, r1;", inf_f, nan_f, 0, 0 },
        { "setp.num.f32 p, r0, r1;", one_f, inf_f, 0, 1 },
        { "setp.nan.f32 p, r0, r1;", one_f, nan_f, 0, 1 },
        { "setp.gt.f32 p, r0, r1;", sub_f, 0, 0, 1 },
        { "setp.gt.ftz.f32 p, r0, r1;", sub_f, 0, 0, 0 },
        { "setp.lt.f64 p, d0, d1;", 0x8000000000000001ull, 0, 0, 1 },
        { "selp.b32 r, r0, r1, p2;", 7, 8, 1, 7 },
        { "selp.b64 d, d0, d1, !p2;", 7, 8, 1, 8 },
    };
    check(cases);
}

void floats(void **)
{
    static const one cases[] = {
        { "add.f32 r, r0, r1;", one_f, two_f, 0, 0x40400000 },
        { "add.f32 r, r0, r1;", inf_f, ninf_f, 0, cnan_f },
        { "add.f32 r, r0, r1;", 0x00400000, 0x00400000, 0, 0x00800000 },
        { "add.ftz.f32 r, r0, r1;", 0x00400000, 0x00400000, 0, 0 },
        { "add.ftz.f32 r, r0, r1;", nsub_f, nzero_f, 0, nzero_f },
        { "add.rn.f32 r, r0, r1;", one_f, 0x33800000, 0, one_f },      /* 1 + 2^-24: even */
        { "add.rp.f32 r, r0, r1;", one_f, 0x33800000, 0, 0x3f800001 }, /* up */
        { "add.rz.f32 r, r0, r1;", 0xbf800000, 0xb3800000, 0, 0xbf800000 },
        { "add.rm.f32 r, r0, r1;", 0xbf800000, 0xb3800000, 0, 0xbf800001 },
        { "add.sat.f32 r, r0, r1;", one_f, two_f, 0, one_f },
        { "add.sat.f32 r, r0, r1;", nan_f, two_f, 0, 0 },
        { "sub.f32 r, r0, r1;", one_f, one_f, 0, 0 },
        { "sub.ftz.f32 r, r0, r1;", 0x00800001, 0x00800000, 0, 0 },
        { "mul.f32 r, r0, r1;", 0x7f000000, two_f, 0, inf_f },
        { "mul.rz.f32 r, r0, r1;", 0x7f000000, 0x40800000, 0, 0x7f7fffff },
        { "mul.ftz.f32 r, r0, r1;", 0x00800000, 0xbf000000, 0, nzero_f },
        { "mul.f32 r, r0, r1;", 0, inf_f, 0, cnan_f },
        { "fma.rn.f32 r, r0, r1, r2;", 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000 },
        { "fma.rn.ftz.f32 r, r0, r1, r2;", sub_f, one_f, one_f, one_f },
        { "fma.rn.sat.f32 r, r0, r1, r2;", 0xbf800000, one_f, 0, 0 },
        { "div.rn.f32 r, r0, r1;", one_f, 0x40400000, 0, 0x3eaaaaab },
        { "div.rz.f32 r, r0, r1;", one_f, 0x40400000, 0, 0x3eaaaaaa },
        { "div.rn.f32 r, r0, r1;", one_f, nzero_f, 0, ninf_f },
        { "rcp.rn.f32 r, r0;", two_f, 0, 0, 0x3f000000 },
        { "rcp.approx.ftz.f32 r, r0;", nsub_f, 0, 0, ninf_f },
        { "rcp.approx.ftz.f32 r, r0;", 0x7f000000, 0, 0, 0 }, /* 2^-127 is subnormal */
        { "sqrt.rn.f32 r, r0;", 0x40800000, 0, 0, two_f },
        { "sqrt.approx.f32 r, r0;", 0xbf800000, 0, 0, cnan_f },
        { "rsqrt.approx.f32 r, r0;", 0x40800000, 0, 0, 0x3f000000 },
        { "ex2.approx.f32 r, r0;", 0x40400000, 0, 0, 0x41000000 },
        { "ex2.approx.ftz.f32 r, r0;", 0xc3000000, 0, 0, 0 }, /* 2^-128 */
        { "ex2.approx.f32 r, r0;", 0xc3000000, 0, 0, 0x00200000 },
        { "ex2.approx.ftz.f32 r, r0;", ninf_f, 0, 0, 0 },
        { "lg2.approx.f32 r, r0;", 0x41000000, 0, 0, 0x40400000 },
        { "lg2.approx.ftz.f32 r, r0;", sub_f, 0, 0, ninf_f },
        { "lg2.approx.f32 r, r0;", 0xbf800000, 0, 0, cnan_f },
        { "neg.f32 r, r0;", nan_f, 0, 0, 0xffc00000 },
        { "neg.ftz.f32 r, r0;", sub_f, 0, 0, nzero_f },
        { "abs.f32 r, r0;", nsub_f, 0, 0, 0x007fffff },
        { "min.f32 r, r0, r1;", nan_f, one_f, 0, one_f },
        { "min.NaN.f32 r, r0, r1;", nan_f, one_f, 0, cnan_f },
        { "min.f32 r, r0, r1;", 0, nzero_f, 0, nzero_f },
        { "max.f32 r, r0, r1;", nzero_f, 0, 0, 0 },
        { "max.f32 r, r0, r1;", nan_f, nan_f, 0, cnan_f },
        { "max.ftz.f32 r, r0, r1;", sub_f, nzero_f, 0, 0 },
        { "copysign.f32 r, r0, r1;", nzero_f, one_f, 0, 0xbf800000 },
        { "add.f64 d, d0, d1;", 0x3ff0000000000000ull, 0x3ca0000000000000ull, 0,
          0x3ff0000000000000ull },
        { "fma.rn.f64 d, d0, d1, d2;", 0x4000000000000000ull, 0x4008000000000000ull,
          0x3ff0000000000000ull, 0x401c000000000000ull },
        { "div.rn.f64 d, d0, d1;", 0x3ff0000000000000ull, 0x4008000000000000ull, 0,
          0x3fd5555555555555ull },
    };
    check(cases);
}

void conversions(void **)
{
    static const one cases[] = {
        { "cvt.s32.s8 r, r0;", 0x80, 0, 0, 0xffffff80 },
        { "cvt.u32.u8 r, r0;", 0x1ff, 0, 0, 0xff },
        { "cvt.s64.s32 d, r0;", min32, 0, 0, 0xffffffff80000000ull },
        { "cvt.u64.u32 d, r0;", min32, 0, 0, 0x80000000ull },
        { "cvt.u16.u32 h, r0;", 0x12345678, 0, 0, 0x5678 },
        { "cvt.sat.s8.s32 r, r0;", 200, 0, 0, 127 },
        { "cvt.sat.u8.s32 r, r0;", all32, 0, 0, 0 },
        { "cvt.sat.u16.u32 h, r0;", 0x12345, 0, 0, 0xffff },
        { "cvt.rn.f32.s32 r, r0;", 0x01000001, 0, 0, 0x4b800000 }, /* 2^24 + 1: even */
        { "cvt.rn.f32.s32 r, r0;", 0x01000003, 0, 0, 0x4b800002 },
        { "cvt.rp.f32.u32 r, r0;", all32, 0, 0, 0x4f800000 },
        { "cvt.rz.f32.u32 r, r0;", all32, 0, 0, 0x4f7fffff },
        { "cvt.rn.f32.s64 r, d0;", 1ull << 63, 0, 0, 0xdf000000 },
        { "cvt.rn.f64.u64 d, d0;", all64, 0, 0, 0x43f0000000000000ull },
        { "cvt.rzi.s32.f32 r, r0;", 0xbfc00000, 0, 0, all32 }, /* -1.5 */
        { "cvt.rni.s32.f32 r, r0;", 0x40200000, 0, 0, 2 },     /* 2.5: even */
        { "cvt.rni.s32.f32 r, r0;", 0x40600000, 0, 0, 4 },     /* 3.5 */
        { "cvt.rmi.s32.f32 r, r0;", 0xbf000000, 0, 0, all32 },
        { "cvt.rpi.s32.f32 r, r0;", 0x3f000000, 0, 0, 1 },
        { "cvt.rzi.s32.f32 r, r0;", 0x4f000000, 0, 0, max32 }, /* 2^31 */
        { "cvt.rzi.s32.f32 r, r0;", ninf_f, 0, 0, min32 },
        { "cvt.rzi.u32.f32 r, r0;", 0xbf800000, 0, 0, 0 },
        { "cvt.rzi.u32.f32 r, r0;", inf_f, 0, 0, all32 },
        { "cvt.rzi.s32.f32 r, r0;", nan_f, 0, 0, 0 },
        { "cvt.rzi.s64.f32 d, r0;", nan_f, 0, 0, 1ull << 63 },
        { "cvt.rpi.ftz.s32.f32 r, r0;", sub_f, 0, 0, 0 },
        { "cvt.rzi.u64.f64 d, d0;", 0x43f0000000000000ull, 0, 0, all64 },
        { "cvt.rni.f32.f32 r, r0;", 0x40200000, 0, 0, 0x40000000 },
        { "cvt.rzi.f32.f32 r, r0;", 0xbf000000, 0, 0, nzero_f },
        { "cvt.sat.f32.f32 r, r0;", 0x40200000, 0, 0, one_f },
        { "cvt.rn.f32.f64 r, d0;", 0x3ff0000010000000ull, 0, 0, one_f }, /* half a place: even */
        { "cvt.rn.f32.f64 r, d0;", 0x3ff0000010000001ull, 0, 0, 0x3f800001 },
        { "cvt.rn.f32.f64 r, d0;", 0x36a0000000000000ull, 0, 0, sub_f }, /* 2^-149 */
        { "cvt.rn.ftz.f32.f64 r, d0;", 0x36a0000000000000ull, 0, 0, 0 },
        { "cvt.rn.f32.f64 r, d0;", 0x47f0000000000000ull, 0, 0, inf_f },
        { "cvt.f64.f32 d, r0;", sub_f, 0, 0, 0x36a0000000000000ull },
        { "cvt.rn.f16.f32 h, r0;", 0x3f801000, 0, 0, 0x3c00 }, /* 1 + 2^-11: even */
        { "cvt.rn.f16.f32 h, r0;", 0x3f803000, 0, 0, 0x3c02 },
        { "cvt.rn.f16.f32 h, r0;", 0x477fefff, 0, 0, 0x7bff },
        { "cvt.rn.f16.f32 h, r0;", 0x477ff000, 0, 0, 0x7c00 }, /* 65520 */
        { "cvt.rz.f16.f32 h, r0;", inf_f, 0, 0, 0x7c00 },
        { "cvt.rz.f16.f32 h, r0;", 0x47800000, 0, 0, 0x7bff },
        { "cvt.rn.f16.f32 h, r0;", 0x33000000, 0, 0, 0 }, /* 2^-25: half the least */
        { "cvt.rn.f16.f32 h, r0;", 0x33000001, 0, 0, 1 },
        { "cvt.rn.f16.f32 h, r0;", 0xb3c00000, 0, 0, 0x8002 }, /* -1.5 * 2^-24 */
        { "cvt.rn.f16.f32 h, r0;", 0x387fc000, 0, 0, 0x03ff },
        { "cvt.rn.f16.f32 h, r0;", 0x387fe000, 0, 0, 0x0400 }, /* carries into normal */
        { "cvt.rn.f16.f32 h, r0;", nan_f, 0, 0, 0x7fff },
        { "cvt.rn.relu.f16.f32 h, r0;", 0xbf800000, 0, 0, 0 },
        { "cvt.f32.f16 r, h0;", 0x0001, 0, 0, 0x33800000 },
        { "cvt.f32.f16 r, h0;", 0xfc00, 0, 0, ninf_f },
        { "cvt.f32.bf16 r, h0;", 0xff80, 0, 0, ninf_f },
        { "cvt.rn.bf16.f32 h, r0;", 0x3f808000, 0, 0, 0x3f80 },
        { "cvt.rn.bf16.f32 h, r0;", 0x3f818000, 0, 0, 0x3f82 },
        { "cvt.rn.bf16.f32 h, r0;", 0x7f7fffff, 0, 0, 0x7f80 },
        { "cvt.rz.bf16.f32 h, r0;", 0x7f7fffff, 0, 0, 0x7f7f },
        { "cvt.rn.bf16.f32 h, r0;", sub_f, 0, 0, 0 },
        { "cvt.rn.f16x2.f32 r, r0, r1;", one_f, two_f, 0, 0x3c004000 },
        { "cvt.rn.bf16x2.f32 r, r0, r1;", one_f, two_f, 0, 0x3f804000 },
        { "cvt.rn.f16x2.e4m3x2 r, h0;", 0x7e38, 0, 0, 0x5f003c00 }, /* 448, 1 */
        { "cvt.rn.f16x2.e4m3x2 r, h0;", 0x7f01, 0, 0, 0x7fff1800 }, /* NaN, 2^-9 */
        /* 1152 + 1 - 1152, 2^-24 - 2^-23; 2048 - 0.5 and 2048 - 1.5 round to even; inf - inf */
        { "sub.rn.f16x2 r, r0, r1;", 0x64810001, 0x64800002, 0, 0x3c008001 },
        { "sub.rn.f16x2 r, r0, r1;", 0x68006800, 0x38003e00, 0, 0x680067fe },
        { "sub.rn.f16x2 r, r0, r1;", 0x7c008000, 0x7c000000, 0, 0x7fff8000 },
        { "cvt.rn.f16x2.e5m2x2 r, h0;", 0xfc3c, 0, 0, 0xfc003c00 },
        { "cvt.rn.satfinite.e4m3x2.f32 h, r0, r1;", one_f, 0x44000000, 0, 0x387e }, /* 1, 512 */
        { "cvt.rn.satfinite.e4m3x2.f32 h, r0, r1;", 0x3b000000, 0xc3e80000, 0, 0x01fe },
        { "cvt.rn.satfinite.e4m3x2.f32 h, r0, r1;", nan_f, 0x3a800000, 0, 0x7f00 },
        { "cvt.rn.satfinite.e5m2x2.f32 h, r0, r1;", inf_f, one_f, 0, 0x7b3c },
        { "cvt.rn.satfinite.e4m3x2.f16x2 h, r0;", 0x3c004000, 0, 0, 0x3840 },
    };
    check(cases);
}

/* ---------------------------------------------------------------- several instructions */
void control_and_memory(void **)
{
    static const one cases[] = {
        { "mov.b64 {r, s}, d0; mov.b64 d, {s, r};", 0x1122334455667788ull, 0, 0,
          0x5566778811223344ull },
        { "mov.b32 {h, i}, r0; mov.b32 r, {i, h}; cvt.u64.u32 d, r;", 0x11223344, 0, 0,
          0x33441122 },
        { "mov.b64 d, 5; @p0 mov.b64 d, 6;", 1, 0, 0, 6 },
        { "mov.b64 d, 5; @!p0 mov.b64 d, 6;", 1, 0, 0, 5 },
        { "mov.b32 r, 0; again: add.u32 r, r, 3; setp.lt.u32 p, r, r0; @p bra again;"
          "cvt.u64.u32 d, r;",
          10, 0, 0, 12 },
        { "bra.uni over; mov.b64 d, 1; over: add.u64 d, d, 1;", 0, 0, 0, 0x5555555555555556ull },
        { "where: .branchtargets left, right; brx.idx r0, where; left: mov.b64 d, 1; bra end;"
          "right: mov.b64 d, 2; end: mov.b64 d, d;",
          1, 0, 0, 2 },
        { "@q bra done; st.global.u64 [to], d0; ld.global.s8 r, [to+1]; cvt.u64.u32 d, r;", 0x8000,
          0, 0, 0xffffff80 },
        { "@q bra done; st.global.v2.u32 [to], {r0, r1}; ld.global.v4.u16 {h, i, j, _}, [to];"
          "cvt.u64.u16 d, j;",
          1, 0x20003, 0, 3 },
        { "@q bra done; st.global.u64 [to], d0;"
          "atom.global.min.s64 e, [to], d1; ld.global.u64 d, [to];",
          5, all64, 0, all64 },
        { "@q bra done; st.global.u64 [to], d0;"
          "atom.global.max.u32 r, [to], r1; ld.global.u32 d, [to];",
          5, all32, 0, all32 },
        { "@q bra done; st.global.u64 [to], d0;"
          "atom.global.cas.b32 r, [to], r1, r2; ld.global.u32 d, [to];",
          5, 5, 9, 9 },
        { "@q bra done; st.global.u64 [to], d0;"
          "atom.global.cas.b32 r, [to], r1, r2; ld.global.u32 d, [to];",
          5, 6, 9, 5 },
        { "@q bra done; st.global.u64 [to], d0;"
          "atom.global.inc.u32 r, [to], r1; ld.global.u32 d, [to];",
          5, 5, 0, 0 },
        { "@q bra done; st.global.u64 [to], d0;"
          "atom.global.exch.b64 d, [to], d1; ld.global.u64 e, [to]; add.u64 d, d, e;",
          5, 8, 0, 13 },
        { "@q bra done; st.global.u64 [to], d0;"
          "red.global.or.b32 [to], r1; ld.global.u32 d, [to];",
          5, 10, 0, 15 },
        { "@q bra done; st.global.u64 [to], d0;"
          "atom.acq_rel.gpu.add.u32 r, [to], r1; cvt.u64.u32 d, r;",
          5, 10, 0, 5 },
        { "mov.u64 e, table; ld.global.s32 d, [e+8];", 0, 0, 0, all64 },
        { "ld.global.u32 d, [table+4];", 0, 0, 0, 16 },
        { "st.local.u32 [mine+4], r0; mov.u64 e, mine; cvta.local.u64 e, e; ld.u32 d, [e+4];", 77,
          0, 0, 77 },
        { "setp.ne.u32 p, %tid.x, 5; @p bra shut; st.shared.u32 [ours+8], r0;"
          "shut: bar.warp.sync -1; mov.u64 e, ours; cvta.shared.u64 e, e; ld.u32 d, [e+8];"
          "cvta.to.shared.u64 f, e; ld.shared.u32 r, [f+8]; cvt.u64.u32 e, r; add.u64 d, d, e;",
          21, 0, 0, 42 },
        { "@q bra done; st.shared.v2.u32 [ours], {r0, r1}; st.shared.u32 [ours+12], r2;"
          ".pragma \"used_bytes_mask 61695\"; ld.shared.v4.u32 {r, s, t, r1}, [ours];"
          "add.u32 r, r, s; add.u32 r, r, r1; cvt.u64.u32 d, r;",
          5, 6, 7, 18 },
        { "{ .param .b32 x0; st.param.b32 [x0], r0; .param .b32 y0;"
          "call.uni (y0), twice, (x0); ld.param.b32 r, [y0]; } cvt.u64.u32 d, r;",
          21, 0, 0, 42 },
        { "mov.u32 r, %laneid; shfl.sync.bfly.b32 s|p, r, 3, 31, -1;"
          "shfl.sync.idx.b32 s, s, 5, 31, -1; cvt.u64.u32 d, s;",
          0, 0, 0, 6 },
        /* Lane 7 is the last of its eight: its own value, and p is false. */
        { "mov.u32 r, %laneid; shfl.sync.down.b32 s|p, r, 4, 0x181f, -1; selp.u32 t, 100, 0, p;"
          "add.u32 s, s, t; shfl.sync.idx.b32 s, s, 7, 31, -1; cvt.u64.u32 d, s;",
          0, 0, 0, 7 },
        { "mov.u32 r, %laneid; shfl.sync.up.b32 s|p, r, 1, 0x1800, -1; selp.u32 t, 100, 0, p;"
          "add.u32 s, s, t; shfl.sync.idx.b32 s, s, 9, 31, -1; cvt.u64.u32 d, s;",
          0, 0, 0, 108 },
        { "mov.u32 r, %laneid; shfl.sync.up.b32 s|p, r, 1, 0x1800, -1; selp.u32 t, 100, 0, p;"
          "add.u32 s, s, t; shfl.sync.idx.b32 s, s, 8, 31, -1; cvt.u64.u32 d, s;",
          0, 0, 0, 8 },
        { "setp.lt.u32 q, %laneid, 4; vote.sync.ballot.b32 r, q, -1; cvt.u64.u32 d, r;", 0, 0, 0,
          15 },
        { "setp.lt.u32 q, %laneid, 4; vote.sync.any.pred p, !q, -1; selp.b64 d, 1, 0, p;", 0, 0, 0,
          1 },
        { "mov.u32 r, %ntid.x; mad.lo.u32 r, r, 1000, %nctaid.x; cvt.u64.u32 d, r;", 0, 0, 0,
          32001 },
    };
    int n_wrong = 0;
    for (const one &o : cases) {
        const result r = run(o.text, o.a, o.b, o.c);
        if (r.error.empty() && r.out == o.expected) continue;
        n_wrong++;
        print_error("%s: %llx instead of %llx %s\n", o.text, (unsigned long long)r.out,
                    (unsigned long long)o.expected, r.error.c_str());
    }
    assert_int_equal(n_wrong, 0);
}

/* ---------------------------------------------------------------- what is not understood */
void texts_that_are_refused(void **)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "madc.lo.u32 r, r0, r1, r2;", "unknown opcode madc.lo.u32" },
        { "add.sta.s32 r, r0, r1;", "unknown modifier .sta of opcode add.sta.s32" },
        { "shl.sat.b32 r, r0, r1;", "unknown modifier .sat of opcode shl.sat.b32" },
        { "add.f16 h, h0, h1;", "no arithmetic on f16: add.f16" },
        { "add.rn.f16x2 r, r0, r1;", "no arithmetic on f16x2: add.rn.f16x2" },
        { "sub.f16x2 r, r0, r1;", "no arithmetic on f16x2: sub.f16x2" },
        { "sub.rn.ftz.f16x2 r, r0, r1;", "no arithmetic on f16x2: sub.rn.ftz.f16x2" },
        { "add.s32 r, r0;", "opcode add.s32 with 2 operands" },
        { "add r, r0, r1;", "opcode add with 0 types instead of 1" },
        { "add.s32 r, r0, nobody;", "unknown name nobody" },
        { "add.s32 r, r0, %r9;", "unknown register %r9" },
        { "mov.u32 r, %clock;", "unknown register %clock" },
        { "bra nowhere;", "no label nowhere" },
        { "atom.global.dec.u32 r, [to], r0;", "unknown modifier .dec of opcode" },
        { "call.uni nobody;", "a call of nobody, which is not in this file" },
        { "call.uni twice;", "a call of twice with other parameters" },
        { ".surface x;", "not understood: .surface x" },
        { "add.s32 r, r0, {r0, r1, r2, r0, r1};", "too many in {r0, r1, r2, r0, r1}" },
    };
    for (const auto &c : cases) {
        const result r = run(std::string("\n\n") + c.text, 0, 0, 0);
        assert_has(r.error.c_str(), c.error);
        assert_has(r.error.c_str(), "test.ptx:");
    }
    /* The line: that of the instruction, in a text of three lines. */
    std::string error;
    assert_null(simt::ptx_parse("t", ".entry k()\n{\nfrob.u32 a;\n}\n", error).get());
    assert_string_equal(error.c_str(), "t:3: unknown opcode frob.u32");
    assert_null(simt::ptx_parse("t", ".entry k()\n{\nret;\n", error).get());
    assert_has(error.c_str(), "ends in a function");
}

void launches_that_fail(void **)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { "ld.shared.u32 r, [ours+64];", "outside of every buffer" },
        { "ld.shared.u32 r, [0];", "outside of every buffer" },
        { "st.local.u32 [mine+16], r0;", "outside of every variable of the thread" },
        { "ld.shared.u32 r, [ours];", "uninitialised shared memory" },
        { "@q bra done; st.shared.u32 [ours], r0; .pragma \"used_bytes_mask 31\";"
          "ld.shared.v2.u32 {r, s}, [ours];",
          "uninitialised shared memory" },
        { "@q bra done; st.shared.u32 [ours], r0; .pragma \"used_bytes_mask 15\";"
          "ld.shared.v2.u32 {r, s}, [ours]; ld.shared.v2.u32 {r, s}, [ours];",
          "uninitialised shared memory" }, /* of one load alone */
        { "ld.global.u64 d, [to+4];", "misaligned access: 8 bytes" },
        { "ld.global.u64 d, [to+8];", "outside of every buffer" },
        { "bar.sync 1;", "a barrier other than 0" },
        { "trap;", "trap" },
        { "shfl.sync.idx.b32 r, r0, 0, 0x1d1f, -1;", "shuffle: width 3 is not 1, 2, 4" },
        { "cp.async.cg.shared.global [ours], [to], 8;", "cp.async of 8 bytes" },
    };
    for (const auto &c : cases) {
        const result r = run(c.text, 0, 0, 0);
        assert_has(r.error.c_str(), c.error);
        assert_has(r.error.c_str(), "test.ptx:");
    }
    std::string error;
    const auto module = simt::ptx_parse("t", program(""), error);
    assert_non_null(module.get());
    assert_int_equal(simt::ptx_run(*module, "nobody", { 1, 32, 0 }, nullptr, nullptr, 0), 1);
    assert_has(device_last_error(), "PTX has no entry nobody");
    assert_int_equal(simt::ptx_run(*module, "k", { 1, 32, 0 }, nullptr, nullptr, 0), 1);
    assert_has(device_last_error(), "other parameters than the PTX of k");
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),
        cmocka_unit_test(bits),
        cmocka_unit_test(comparisons),
        cmocka_unit_test(floats),
        cmocka_unit_test(conversions),
        cmocka_unit_test(control_and_memory),
        cmocka_unit_test(texts_that_are_refused),
        cmocka_unit_test(launches_that_fail),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
