/* Bugs planted in the assembler of kernels: what nvcc made of the clean ones (PKV_PTX), changed in
 * one word, has to be seen by the build that runs PTX. No other build of the emulator can. */
#include "simt/simt_ptx.h"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

extern "C" {
#include "simt_test.h"
}

namespace
{

/* The file of PKV_PTX that is made of NAME_kernels.cu. */
std::string ptx_of(const char *name)
{
    std::istringstream paths(getenv("PKV_PTX") ? getenv("PKV_PTX") : "");
    for (std::string path; std::getline(paths, path, ':');)
        if (path.find(std::string(name) + "_kernels") != std::string::npos) {
            std::ostringstream text;
            text << std::ifstream(path).rdbuf();
            return text.str();
        }
    fail_msg("PKV_PTX names no PTX of %s_kernels.cu", name);
    return "";
}

/* The same text with `from` replaced wherever it stands; it has to stand somewhere. */
std::string changed(std::string text, const std::string &from, const std::string &to)
{
    size_t at = text.find(from);
    if (at == std::string::npos) fail_msg("\"%s\" is not in the PTX", from.c_str());
    for (; at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    return text;
}

/* The last operands of all `opcode`s: what stands behind their n-th comma up to the ; */
std::string without_last_operand(std::string text, const std::string &opcode)
{
    for (size_t at = text.find(opcode); at != std::string::npos; at = text.find(opcode, at + 1)) {
        const size_t end = text.find(';', at), comma = text.rfind(',', end);
        text.erase(comma, end - comma);
    }
    return text;
}

/* The two registers of b in all mma, exchanged. */
std::string with_b_swapped(std::string text)
{
    for (size_t at = text.find("mma.sync"); at != std::string::npos;
         at = text.find("mma.sync", at + 1)) {
        size_t open = text.find('{', at);
        for (int group = 0; group < 2; group++) open = text.find('{', open + 1);
        const size_t comma = text.find(',', open), close = text.find('}', open);
        const std::string first = text.substr(open + 1, comma - open - 1);
        const std::string second = text.substr(comma + 1, close - comma - 1);
        text.replace(open, close - open + 1, "{" + second + ", " + first + "}");
    }
    return text;
}

struct outcome {
    std::string error;
    uint8_t out[1024];
};

/* Runs the entry whose name has `kernel` in it: out, then the words behind it. */
outcome run(const std::string &text, const char *kernel, const simt::launch_shape &shape,
            const uint64_t *words, size_t n_bytes)
{
    outcome o = { "", {} };
    const auto module = simt::ptx_parse("planted", text, o.error);
    if (!module) return o;
    std::string entry; /* text.find(kernel) alone may find a variable of it */
    for (size_t at = 0; entry.find(kernel) == std::string::npos; at++) {
        at = text.find(".entry ", at);
        assert_true(at != std::string::npos);
        entry = text.substr(at + 7, text.find('(', at) - at - 7);
    }
    uint64_t params[8] = {};
    void *out = device_alloc(sizeof o.out);
    device_fill(out, 0, sizeof o.out);
    params[0] = (uint64_t)(uintptr_t)out;
    if (n_bytes > 0) memcpy(params + 1, words, n_bytes);
    if (simt::ptx_run(*module, entry, shape, nullptr, params, 8 + n_bytes))
        o.error = device_last_error();
    device_download(o.out, out, sizeof o.out);
    device_free(out);
    return o;
}

/* A buffer of halves 1.0, 1.001, ...: all different. */
void *halves(size_t bytes)
{
    std::string data(bytes, 0);
    for (size_t i = 0; i < bytes / 2; i++) {
        const uint16_t half = (uint16_t)(0x3c00 + i % 1024);
        memcpy(&data[2 * i], &half, 2);
    }
    return device_copy_of(data.data(), bytes);
}

void assert_clean(const outcome &o)
{
    if (!o.error.empty()) fail_msg("the clean kernel: %s", o.error.c_str());
}

void mma_operands_swapped(void **)
{
    const std::string text = ptx_of("tensor");
    void *a = halves(32 * 16), *b = halves(32 * 8), *c = device_alloc(32 * 16);
    device_fill(c, 0, 32 * 16);
    const uint64_t words[] = { (uint64_t)(uintptr_t)a, (uint64_t)(uintptr_t)b,
                               (uint64_t)(uintptr_t)c };
    const char *kernel = "mma_kernelI6__half";
    const outcome clean = run(text, kernel, { 1, 32, 0 }, words, sizeof words);
    assert_clean(clean);
    const outcome bad = run(with_b_swapped(text), kernel, { 1, 32, 0 }, words, sizeof words);
    assert_clean(bad);
    assert_memory_not_equal(bad.out, clean.out, 512);
    device_free(a);
    device_free(b);
    device_free(c);
}

void trans_dropped(void **)
{
    const std::string text = ptx_of("tensor");
    void *in = halves(4 * 128);
    const uint64_t words[] = { (uint64_t)(uintptr_t)in };
    const char *kernel = "ldmatrix_kernelILi4ELb1E";
    const simt::launch_shape shape = { 1, 32, 48 * 32 };
    const outcome clean = run(text, kernel, shape, words, sizeof words);
    assert_clean(clean);
    const outcome bad = run(changed(text, ".x4.trans", ".x4"), kernel, shape, words, sizeof words);
    assert_clean(bad);
    assert_memory_not_equal(bad.out, clean.out, 512);
    device_free(in);
}

void wait_count_too_high(void **)
{
    const std::string text = ptx_of("copy");
    void *in = device_alloc(6 * 512);
    device_fill(in, 0, 6 * 512);
    const uint64_t words[] = { (uint64_t)(uintptr_t)in, 6 };
    const size_t bytes = 12; /* a pointer and an int */
    for (int eager = 0; eager < 2; eager++) {
        const device_schedule_t schedule = { 0, eager, DEVICE_FORWARD };
        device_schedule(&schedule);
        assert_clean(run(text, "ring_kernel", { 1, 32, 0 }, words, bytes));
        const std::string lax = changed(text, "cp.async.wait_group 1;", "cp.async.wait_group 2;");
        const outcome bad = run(lax, "ring_kernel", { 1, 32, 0 }, words, bytes);
        assert_has(bad.error.c_str(), "before its wait_group");
        assert_has(bad.error.c_str(), "copy_kernels.cu:");
    }
    device_free(in);
}

/* The source is NaN throughout: what is not filled with zeros shows. */
void source_size_dropped(void **)
{
    const std::string text = ptx_of("copy");
    void *in = device_alloc(1024);
    const uint64_t words[] = { (uint64_t)(uintptr_t)in };
    const outcome clean = run(text, "zero_fill_kernel", { 1, 64, 1024 }, words, sizeof words);
    assert_clean(clean);
    for (int i = 0; i < 16; i++) assert_int_equal(clean.out[16 * 3 + i], i < 3 ? 0xff : 0);
    const outcome bad = run(without_last_operand(text, "cp.async.cg"), "zero_fill_kernel",
                            { 1, 64, 1024 }, words, sizeof words);
    assert_clean(bad);
    for (int i = 0; i < 16; i++) assert_int_equal(bad.out[16 * 3 + i], 0xff);
    device_free(in);
}

/* ptxas refuses it too; here the text need not get that far. */
void modifier_misspelt(void **)
{
    const std::string text = changed(ptx_of("tensor"), ".trans", ".tarns");
    assert_has(run(text, "ldmatrix_kernel", { 1, 32, 0 }, nullptr, 0).error.c_str(),
               "unknown modifier .tarns of opcode ");
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mma_operands_swapped), cmocka_unit_test(trans_dropped),
        cmocka_unit_test(wait_count_too_high),  cmocka_unit_test(source_size_dropped),
        cmocka_unit_test(modifier_misspelt),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
