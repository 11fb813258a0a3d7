/* Backends: what is refused, which levels there are, and the list of kernels. */
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* An allocator that has nothing. */
static void *no_memory(void *ctx, size_t bytes, size_t align)
{
    (void)bytes, (void)align;
    return *(int *)ctx > 0 ? --*(int *)ctx, aligned_alloc(64, 4096) : NULL;
}
static void give_back(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx, (void)bytes;
    free(ptr);
}

static void memory_runs_out(void **state)
{
    int left = 0;
    char pool[100] = { 0 };
    pkv_block_copy copies[40];
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    (void)state;
    cfg.alloc = (pkv_allocator){ no_memory, give_back, &left };
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_E_NO_MEMORY);
    assert_null(be);
    left = 1;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    for (int i = 0; i < 40; i++) copies[i] = (pkv_block_copy){ 1, 2 + i, 1, 0 };
    pool[1] = 5;
    assert_int_equal(pkv_blocks_copy(be, pool, 1, 100, copies, 40, NULL, 0, NULL), PKV_E_NO_MEMORY);
    assert_int_equal(pool[2], 0);
    assert_int_equal(pkv_blocks_copy(be, pool, 1, 100, copies, 32, NULL, 0, NULL),
                     PKV_OK); /* needs none */
    assert_int_equal(pool[33], 5);
    pkv_backend_destroy(be);
    be = NULL;
    cfg.n_threads = 2; /* the handle, then the threads */
    left = 1;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_E_NO_MEMORY);
    assert_null(be);
    left = 2;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    pkv_backend_destroy(be);
}

static void expect_refusal(const pkv_cpu_config *cfg, pkv_status want)
{
    pkv_backend *be = NULL;
    assert_int_equal(pkv_backend_create_cpu(cfg, &be), want);
    assert_null(be);
}

static void configurations(void **state)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    (void)state;
    assert_int_equal(pkv_backend_create_cpu(NULL, &be), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_backend_create_cpu(&cfg, NULL), PKV_E_INVALID_ARG);
#define REFUSED(field, value, want)                                                                \
    do {                                                                                           \
        cfg = (pkv_cpu_config)PKV_CPU_CONFIG_INIT;                                                 \
        cfg.field = value;                                                                         \
        expect_refusal(&cfg, want);                                                                \
    } while (0)
    REFUSED(struct_size, 4, PKV_E_ABI);
    REFUSED(max_isa, (pkv_isa)6, PKV_E_INVALID_ARG);
    REFUSED(max_isa, (pkv_isa)-1, PKV_E_INVALID_ARG);
    REFUSED(alloc.alloc, no_memory, PKV_E_INVALID_ARG);
    REFUSED(n_threads, -1, PKV_E_INVALID_ARG);
    REFUSED(n_threads, 1025, PKV_E_INVALID_ARG);
    REFUSED(spin_us, -2, PKV_E_INVALID_ARG);
#undef REFUSED
    pkv_backend_destroy(NULL);
}

static void n_threads(void **state)
{
    static const int32_t asked[] = { 0, 1, 2, 5 };
    (void)state;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
        pkv_backend *be = NULL;
        cfg.n_threads = asked[i];
        assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
        assert_int_equal(pkv_backend_threads(be), asked[i] > 1 ? asked[i] : 1);
        pkv_backend_destroy(be);
    }
    assert_int_equal(pkv_backend_threads(NULL), 0);
}

static const pkv_isa all_levels[] = { PKV_ISA_BEST,   PKV_ISA_SCALAR,     PKV_ISA_AVX2,
                                      PKV_ISA_AVX512, PKV_ISA_AVX512BF16, PKV_ISA_AMX,
                                      PKV_ISA_NEON };
enum { N_LEVELS = sizeof(all_levels) / sizeof(all_levels[0]) };

static void level_names(void **state)
{
    static const char *const names[N_LEVELS] = { "best",       "scalar", "avx2", "avx512",
                                                 "avx512bf16", "amx",    "neon" };
    pkv_isa isa = PKV_ISA_BEST;
    (void)state;
    for (int i = 0; i < N_LEVELS; i++) {
        assert_string_equal(pkv_isa_name(all_levels[i]), names[i]);
        assert_int_equal(pkv_isa_from_name(names[i], &isa), PKV_OK);
        assert_int_equal(isa, all_levels[i]);
    }
    assert_string_equal(pkv_isa_name((pkv_isa)99), "?");
    assert_int_equal(pkv_isa_from_name("AVX2", &isa), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_isa_from_name(NULL, &isa), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_isa_from_name("avx2", NULL), PKV_E_INVALID_ARG);
    assert_int_equal(isa, PKV_ISA_NEON);
}

/* A level gives a backend exactly if the check says so, and the reason is one of the header's. */
static void level_checks(void **state)
{
    static const char *const reasons[] = {
        "present",         "present, slower than avx512",         "not in this build",
        "not on this CPU", "not enabled by the operating system", "permission refused",
    };
    (void)state;
    for (int i = 0; i < N_LEVELS; i++) {
        const char *reason = NULL;
        const pkv_status status = pkv_isa_check(all_levels[i], &reason);
        pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
        pkv_backend *be = NULL;
        size_t known = 0;
        assert_non_null(reason);
        while (known < 6 && strcmp(reason, reasons[known]) != 0) known++;
        assert_true(known < 6);
        assert_int_equal(status, known < 2 ? PKV_OK : PKV_E_UNSUPPORTED);
        cfg.max_isa = all_levels[i];
        assert_int_equal(pkv_backend_create_cpu(&cfg, &be), status);
        pkv_backend_destroy(be);
        assert_int_equal(pkv_isa_check(all_levels[i], NULL), status);
    }
    const char *reason = NULL;
    assert_int_equal(pkv_isa_check((pkv_isa)77, &reason), PKV_E_UNSUPPORTED);
    assert_string_equal(reason, "not in this build");
    assert_int_equal(pkv_isa_check(PKV_ISA_SCALAR, NULL), PKV_OK);
    assert_int_equal(pkv_isa_check(pkv_isa_detect(), &reason), PKV_OK);
    assert_string_equal(reason, "present"); /* what is slow is not detected */
}

/* The list holds every kernel once, operation after operation. */
static void kernel_list(void **state)
{
    static const int n_expected[] = { 14, 7, 1, 3, 1, 7 }; /* per operation; one variant more */
    enum { N_OPS = sizeof(n_expected) / sizeof(n_expected[0]), MOST = 40 };
    pkv_kernel_desc d = { .struct_size = sizeof(d) };
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    char names[MOST][sizeof(d.name)];
    int n_ops[N_OPS] = { 0 };
    int32_t n = 0;
    (void)state;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    assert_int_equal(pkv_kernel_info(NULL, 0, &d), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kernel_info(be, -1, &d), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kernel_info(be, 0, NULL), PKV_E_INVALID_ARG);
    d.struct_size = 8;
    assert_int_equal(pkv_kernel_info(be, 0, &d), PKV_E_ABI);
    d.struct_size = sizeof(d);
    for (; n < MOST && pkv_kernel_info(be, n, &d) == PKV_OK; n++) {
        assert_true(d.name[0] && d.covers[0] && memchr(d.covers, 0, sizeof(d.covers)));
        assert_true((int)d.op >= 0 && (int)d.op < N_OPS);
        assert_non_null(strstr(d.name, pkv_isa_name(d.isa)));
        for (int32_t i = 0; i < n; i++) assert_string_not_equal(d.name, names[i]);
        memcpy(names[n], d.name, sizeof(d.name));
        n_ops[d.op]++;
    }
    assert_int_equal(pkv_kernel_info(be, n, &d), PKV_E_LIMIT);
    for (int op = 0; op < N_OPS; op++)
        assert_true(n_ops[op] == n_expected[op] ||
                    (op == PKV_OP_ATTENTION && n_ops[op] == n_expected[op] + 1));
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations),  cmocka_unit_test(n_threads),
        cmocka_unit_test(level_names),     cmocka_unit_test(level_checks),
        cmocka_unit_test(memory_runs_out), cmocka_unit_test(kernel_list),
    };
    return cmocka_run_group_tests_name("backend", tests, NULL, NULL);
}
