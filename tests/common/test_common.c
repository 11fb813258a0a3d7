/* The common part: fixed names and values, sizes of blocks, the way to memory and to the log. */
#include "common/common.h"
#include "common/cpu_detect.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Written down by hand: programs compiled years ago hold these numbers. A line is only ever added.
 */
static const struct {
    int value;
    const char *name, *text_start;
} golden[] = {
    { 0, "PKV_OK", "done" },
    { 1, "PKV_E_INVALID_ARG", "an argument breaks its contract" },
    { 2, "PKV_E_NO_BLOCKS", "not enough free and evictable blocks now" },
    { 3, "PKV_E_AGAIN", "enough blocks come free when an open step retires" },
    { 4, "PKV_E_NEVER", "can never fit this pool or domain" },
    { 5, "PKV_E_STALE", "the handle names something that was closed" },
    { 6, "PKV_E_STATE", "the object's state forbids the call" },
    { 7, "PKV_E_RANGE", "a position that can no longer be served" },
    { 8, "PKV_E_BUSY", "a hold or transfer forbids it for now" },
    { 9, "PKV_E_LIMIT", "a capacity set by the caller is used up" },
    { 10, "PKV_E_IDENTITY", "content of another identity" },
    { 11, "PKV_E_UNSUPPORTED", "not offered by this build" },
    { 12, "PKV_E_NO_MEMORY", "the allocator gave nothing" },
    { 13, "PKV_E_DEVICE", "a device call failed" },
    { 14, "PKV_E_IO", "a file, socket or transport call failed" },
    { 15, "PKV_E_FORMAT", "malformed file, frame or header" },
    { 16, "PKV_E_CORRUPT", "a checksum or an invariant does not hold" },
    { 17, "PKV_E_ABI", "a struct_size or ABI version this library does not know" },
};

static void test_statuses_are_fixed(void **state)
{
    (void)state;
    int n_listed = 0;
#define COUNT(name, value, text) n_listed++;
    PKV_STATUS_LIST(COUNT)
#undef COUNT
    assert_int_equal(n_listed, PKV_ARRAY_LEN(golden));
    for (int i = 0; i < n_listed; i++) {
        const pkv_status status = (pkv_status)golden[i].value;
        const char *text = pkv_status_text(status);
        assert_int_equal(golden[i].value, i);
        assert_string_equal(pkv_status_name(status), golden[i].name);
        if (strncmp(text, golden[i].text_start, strlen(golden[i].text_start)) != 0)
            fail_msg("%s: text is \"%s\"", golden[i].name, text);
        assert_null(strchr(text, '\n'));
    }
    assert_string_equal(pkv_status_name((pkv_status)n_listed), "PKV_E_?");
    assert_string_equal(pkv_status_name((pkv_status)-1), "PKV_E_?");
    assert_string_equal(pkv_status_text((pkv_status)12345), "not a status of this library");
}

static void test_versions(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", PKV_VERSION_MAJOR, PKV_VERSION_MINOR,
             PKV_VERSION_PATCH);
    assert_string_equal(pkv_version(), text);
    assert_int_equal(pkv_abi_version(), PKV_ABI_VERSION);
}

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        int value, bits;
        const char *name;
    } types[] = { { 0, 32, "f32" }, { 1, 16, "f16" }, { 2, 16, "bf16" }, { 3, 8, "e4m3" },
                  { 4, 8, "e5m2" }, { 5, 8, "int8" }, { 6, 4, "int4" } };
    assert_int_equal(PKV_ARRAY_LEN(types), PKV_DTYPE_COUNT);
    for (size_t i = 0; i < PKV_ARRAY_LEN(types); i++) {
        pkv_dtype back = (pkv_dtype)99;
        assert_string_equal(pkv_dtype_name((pkv_dtype)types[i].value), types[i].name);
        assert_int_equal(pkv_dtype_bits((pkv_dtype)types[i].value), types[i].bits);
        assert_int_equal(pkv_dtype_from_name(types[i].name, &back), PKV_OK);
        assert_int_equal(back, types[i].value);
    }
    static const char *const wrong[] = { "", "f", "F16", "f16 ", "fp16", "?", "f162" };
    for (size_t i = 0; i < PKV_ARRAY_LEN(wrong); i++) {
        pkv_dtype out = PKV_BF16;
        assert_int_equal(pkv_dtype_from_name(wrong[i], &out), PKV_E_INVALID_ARG);
        assert_int_equal(out, PKV_BF16);
    }
    pkv_dtype out = PKV_F16;
    assert_int_equal(pkv_dtype_from_name(NULL, &out), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_dtype_from_name("f16", NULL), PKV_E_INVALID_ARG);
    assert_string_equal(pkv_dtype_name((pkv_dtype)7), "?");
    assert_string_equal(pkv_dtype_name((pkv_dtype)-1), "?");
    assert_int_equal(pkv_dtype_bits((pkv_dtype)7), 0);
    assert_int_equal(pkv_dtype_bits((pkv_dtype)-1), 0);
}

static void test_block_bytes(void **state)
{
    (void)state;
    static const struct {
        pkv_kv_shape shape;
        size_t bytes; /* by hand: 2 * layers * heads * dim * tokens * width, up to 512 */
    } good[] = {
        { { 32, 8, 128, 16, PKV_F16 }, 2097152 },
        { { 1, 1, 8, 1, PKV_F16 }, 512 },   /* 32 */
        { { 1, 1, 8, 16, PKV_F16 }, 512 },  /* 512 exactly */
        { { 1, 1, 8, 17, PKV_F16 }, 1024 }, /* 544 */
        { { 2, 2, 8, 3, PKV_F32 }, 1024 },  /* 768 */
        { { 80, 8, 128, 16, PKV_BF16 }, 5242880 },
        { { 1, 1, 256, 1024, PKV_F32 }, 2097152 },
        /* rows of 16 bytes: 512; with a float per row 640, with two 768 */
        { { 1, 1, 8, 16, PKV_E5M2 }, 512 },
        { { 1, 1, 8, 16, PKV_E4M3 }, 1024 },
        { { 1, 1, 8, 16, PKV_I8 }, 1024 },
        { { 1, 1, 8, 16, PKV_U4 }, 1024 },
        { { 1, 1, 8, 12, PKV_I8 }, 512 },  /* 480 */
        { { 1, 1, 8, 12, PKV_U4 }, 1024 }, /* 576 */
    };
    for (size_t i = 0; i < PKV_ARRAY_LEN(good); i++) {
        size_t bytes = 0;
        assert_int_equal(pkv_kv_block_bytes(&good[i].shape, &bytes), PKV_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    static const pkv_kv_shape bad[] = {
        { 0, 1, 8, 1, PKV_F16 },
        { 1, 0, 8, 1, PKV_F16 },
        { 1, 1, 0, 1, PKV_F16 },
        { 1, 1, 4, 1, PKV_F16 },
        { 1, 1, 20, 1, PKV_F16 },
        { 1, 1, 264, 1, PKV_F16 },
        { 1, 1, 8, 0, PKV_F16 },
        { 1, 1, 8, 2049, PKV_F16 },
        { -1, -1, 8, 1, PKV_F16 },
        { 1, 1, 8, -1, PKV_F16 },
        { 1, 1, 8, 1, (pkv_dtype)7 },
        { 1, 1, 8, 1, (pkv_dtype)-1 },
        { INT32_MAX, INT32_MAX, 8, 1, PKV_F16 }, /* 2^67: beyond size_t */
        { INT32_MAX, INT32_MAX, 256, 1024, PKV_F32 },
    };
    size_t bytes = 77;
    for (size_t i = 0; i < PKV_ARRAY_LEN(bad); i++)
        if (pkv_kv_block_bytes(&bad[i], &bytes) != PKV_E_INVALID_ARG) fail_msg("bad[%zu]", i);
    assert_int_equal(pkv_kv_block_bytes(NULL, &bytes), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_block_bytes(&good[0].shape, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(bytes, 77);
}

static void test_size_arithmetic(void **state)
{
    (void)state;
    size_t out = 5;
    assert_false(pkv__mul_size(SIZE_MAX / 2 + 1, 2, &out));
    assert_int_equal(out, 5);
    assert_true(pkv__mul_size(SIZE_MAX / 2, 2, &out));
    assert_true(out == SIZE_MAX - 1);
    assert_int_equal(pkv__align_up(0, 64), 0);
    assert_int_equal(pkv__align_up(1, 64), 64);
    assert_int_equal(pkv__align_up(64, 64), 64);
    assert_int_equal(pkv__ceil_div_i32(0, 16), 0);
    assert_int_equal(pkv__ceil_div_i32(16, 16), 1);
    assert_int_equal(pkv__ceil_div_i32(INT32_MAX, 16), 134217728);
}

struct hook {
    int n_alive;
    size_t bytes, align;
};

static void *hook_alloc(void *ctx, size_t bytes, size_t align)
{
    struct hook *h = ctx;
    h->n_alive++, h->bytes = bytes, h->align = align;
    return malloc(bytes);
}

static void hook_free(void *ctx, void *ptr, size_t bytes)
{
    struct hook *h = ctx;
    assert_int_equal(bytes, h->bytes);
    h->n_alive--;
    free(ptr);
}

static void test_memory_comes_from_the_hook(void **state)
{
    (void)state;
    struct hook h = { 0, 0, 0 };
    const pkv_allocator mine = { hook_alloc, hook_free, &h };
    void *p = pkv__alloc(&mine, 123, 16);
    assert_non_null(p);
    assert_int_equal(h.n_alive, 1);
    assert_int_equal(h.bytes, 123);
    assert_int_equal(h.align, 16);
    pkv__free(&mine, NULL, 0); /* not passed on */
    assert_int_equal(h.n_alive, 1);
    pkv__free(&mine, p, 123);
    assert_int_equal(h.n_alive, 0);
    assert_true(pkv__allocator_valid(&mine));
    assert_true(pkv__allocator_valid(NULL));
    assert_true(pkv__allocator_valid(&(pkv_allocator){ NULL, NULL, NULL }));
    assert_false(pkv__allocator_valid(&(pkv_allocator){ hook_alloc, NULL, NULL }));
    assert_false(pkv__allocator_valid(&(pkv_allocator){ NULL, hook_free, NULL }));
}

static void test_memory_without_a_hook(void **state)
{
    (void)state;
    const pkv_allocator empty = { NULL, NULL, NULL };
    for (size_t align = 1; align <= 4096; align *= 2) {
        uint8_t *p = pkv__alloc(align % 3 ? &empty : NULL, 100, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        memset(p, 1, 100);
        pkv__free(&empty, p, 100);
    }
    assert_null(pkv__alloc(NULL, SIZE_MAX - 8, 64)); /* rounding up must not wrap to nothing */
}

struct line {
    pkv_log_level level;
    char text[512];
    int n;
};

static void take_line(void *ctx, pkv_log_level level, const char *text)
{
    struct line *l = ctx;
    l->level = level;
    l->n++;
    snprintf(l->text, sizeof l->text, "%s", text);
}

static void test_log(void **state)
{
    (void)state;
    struct line l = { PKV_LOG_INFO, "", 0 };
    const pkv_logger log = { take_line, &l };
    assert_int_equal(pkv__refuse(&log, PKV_E_LIMIT, "%s has %d", "row", 7), PKV_E_LIMIT);
    assert_int_equal(l.level, PKV_LOG_ERROR);
    assert_string_equal(l.text, "row has 7");
    pkv__log(&log, PKV_LOG_WARN, "slow");
    assert_int_equal(l.level, PKV_LOG_WARN);
    char many[1000];
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = 0;
    pkv__log(&log, PKV_LOG_INFO, "%s", many);
    assert_int_equal(strlen(l.text), 255);
    assert_int_equal(l.n, 3);
    pkv__log(&log, PKV_LOG_INFO, "%s", "a\nb\x1b[31m\x7f\t\xC3\xA9");
    assert_string_equal(l.text, "a?b?[31m??\xC3\xA9");
    pkv__log(NULL, PKV_LOG_INFO, "nobody listens");
    assert_int_equal(pkv__refuse(&(pkv_logger){ NULL, &l }, PKV_E_BUSY, "nobody"), PKV_E_BUSY);
    assert_int_equal(l.n, 4);
}

/* debug_level decides, and nothing else: a release build with it asserts, a debug build without
 * does not. The child dies of the assert, or does not notice it. */
static void test_asserts_follow_the_debug_level(void **state)
{
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const volatile int zero = 0;
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        PKV_ASSERT(zero == 1);
        _exit(7);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
#if PKV_DEBUG_LEVEL >= 1
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
#else
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 7);
#endif
}

/* /proc/cpuinfo is the kernel's own answer to the same question: cpuid and what it saves. */
static void test_cpu_against_the_kernel(void **state)
{
    (void)state;
    static char line[16384]; /* of flags, ending in a blank */
    FILE *f = fopen("/proc/cpuinfo", "r");
    bool found = false;
    while (f && !found && fgets(line, sizeof line - 1, f)) found = strncmp(line, "flags", 5) == 0;
    if (f) fclose(f);
    if (!found) {
        fprintf(stderr, "SKIPPED: no flags in /proc/cpuinfo\n");
        skip();
    }
    line[strcspn(line, "\n")] = ' ';
    static const char *const level2[] = { " avx2 ", " fma ", " f16c " };
    static const char *const level3[] = { " avx512f ", " avx512bw ", " avx512dq ", " avx512vl " };
    bool avx2 = true, avx512 = true;
    for (size_t i = 0; i < PKV_ARRAY_LEN(level2); i++) avx2 &= strstr(line, level2[i]) != NULL;
    for (size_t i = 0; i < PKV_ARRAY_LEN(level3); i++) avx512 &= strstr(line, level3[i]) != NULL;
    const struct pkv__cpu_levels got = pkv__cpu_detect();
    assert_int_equal(got.avx2 == PKV__LEVEL_PRESENT, avx2);
    assert_int_equal(got.avx512 == PKV__LEVEL_PRESENT, avx2 && avx512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses_are_fixed),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_block_bytes),
        cmocka_unit_test(test_size_arithmetic),
        cmocka_unit_test(test_memory_comes_from_the_hook),
        cmocka_unit_test(test_memory_without_a_hook),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_asserts_follow_the_debug_level),
        cmocka_unit_test(test_cpu_against_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
