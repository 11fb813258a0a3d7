/* The store: where every byte of every block lies, who owns the memory, and what is refused. The
 * expected addresses come from the layout formula of store.h, written out here once more. */
#include "pagedkv/pagedkv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* A log that keeps the last line, and an allocator that can be told to fail. */
struct witness {
    char text[256];
    int n_lines;
    int n_alive; /* allocations not given back */
    int fail_at; /* the allocation with this number fails; 0: none */
    int n_allocs;
};

static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    struct witness *w = ctx;
    assert_int_equal(level, PKV_LOG_ERROR);
    snprintf(w->text, sizeof w->text, "%s", text);
    w->n_lines++;
}

static void *counted_alloc(void *ctx, size_t bytes, size_t align)
{
    struct witness *w = ctx;
    assert_true(bytes > 0 && align > 0 && (align & (align - 1)) == 0);
    if (++w->n_allocs == w->fail_at) return NULL;
    w->n_alive++;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void counted_free(void *ctx, void *ptr, size_t bytes)
{
    struct witness *w = ctx;
    assert_non_null(ptr);
    assert_true(bytes > 0);
    w->n_alive--;
    free(ptr);
}

static pkv_store_config config(struct witness *w, pkv_kv_shape shape, int32_t n_blocks)
{
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    cfg.shape = shape;
    cfg.n_blocks = n_blocks;
    if (w) {
        cfg.log = (pkv_logger){ keep_line, w };
        cfg.alloc = (pkv_allocator){ counted_alloc, counted_free, w };
    }
    return cfg;
}

static pkv_store_info_t info_of(const pkv_store *store)
{
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    assert_int_equal(pkv_store_info(store, &info), PKV_OK);
    return info;
}

static const pkv_kv_shape small = { 3, 2, 16, 4, PKV_F16 };

/* 2 layers, 2 heads, 3 tokens, dim 8, f32: K of a head is 24 elements, a layer 96, a block 192
 * elements = 768 bytes, rounded to 1024. All numbers by hand. */
static void test_layout_by_hand(void **state)
{
    (void)state;
    pkv_store *store = NULL;
    pkv_store_config cfg = config(NULL, (pkv_kv_shape){ 2, 2, 8, 3, PKV_F32 }, 5);
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
    const pkv_store_info_t info = info_of(store);
    assert_int_equal(info.block_bytes, 1024);
    assert_int_equal(info.n_blocks, 5);
    assert_int_equal(info.shape.n_layers, 2);
    pkv_kv_view k, v;
    assert_int_equal(pkv_store_views(store, 1, &k, &v), PKV_OK);
    assert_ptr_equal(k.data, (uint8_t *)info.base + 96 * 4);
    assert_ptr_equal(v.data, (uint8_t *)info.base + (96 + 24) * 4);
    assert_int_equal(k.block_stride, 256);
    assert_int_equal(k.head_stride, 48);
    assert_int_equal(k.token_stride, 8);
    assert_int_equal(v.block_stride, 256);
    assert_int_equal(v.head_stride, 48);
    assert_int_equal(v.token_stride, 8);
    assert_int_equal(k.n_blocks, 5);
    assert_int_equal(k.n_heads, 2);
    assert_int_equal(k.dim, 8);
    assert_int_equal(k.block_tokens, 3);
    assert_int_equal(k.dtype, PKV_F32);
    /* K of layer 1, head 1, token 2, element 5 of block 3 */
    assert_ptr_equal((float *)k.data + 3 * k.block_stride + 1 * k.head_stride + 2 * k.token_stride +
                         5,
                     (uint8_t *)info.base + 3 * 1024 + (96 + 48 + 16 + 5) * 4);
    pkv_store_destroy(store);
}

/* 2 layers, 2 heads, 3 tokens, dim 24: 8 pieces. A row is 24 bytes (int8) padded to 32, or 12
 * (int4) padded to 16. All offsets by hand; the views are those of layer 1, whose first piece is
 * number 4.
 */
static void test_quantised_layout_by_hand(void **state)
{
    (void)state;
    static const struct {
        pkv_dtype dtype;
        int block_stride, head_stride, token_stride; /* elements */
        int k, v;                                    /* bytes from the base */
        int scales, zeros;                           /* likewise; 0: none */
    } want[] = {
        { PKV_I8, 1024, 192, 32, 384, 480, 768 + 48, 0 }, /* 768 + 96 bytes */
        { PKV_E4M3, 1024, 192, 32, 384, 480, 768 + 48, 0 },
        { PKV_E5M2, 1024, 192, 32, 384, 480, 0, 0 },
        { PKV_U4, 2048, 192, 32, 192, 240, 384 + 48, 480 + 48 }, /* 384 + 96 + 96 bytes */
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        pkv_store *store = NULL;
        pkv_store_config cfg = config(NULL, (pkv_kv_shape){ 2, 2, 24, 3, want[i].dtype }, 5);
        pkv_kv_view k, v;
        assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
        const pkv_store_info_t info = info_of(store);
        uint8_t *const base = info.base;
        assert_int_equal(info.block_bytes, 1024);
        assert_int_equal(pkv_store_views(store, 1, &k, &v), PKV_OK);
        assert_ptr_equal(k.data, base + want[i].k);
        assert_ptr_equal(v.data, base + want[i].v);
        assert_int_equal(k.block_stride, want[i].block_stride);
        assert_int_equal(k.head_stride, want[i].head_stride);
        assert_int_equal(v.token_stride, want[i].token_stride);
        assert_ptr_equal(k.scales.data, want[i].scales ? base + want[i].scales : NULL);
        assert_ptr_equal(v.scales.data, want[i].scales ? base + want[i].scales + 12 : NULL);
        assert_ptr_equal(k.zeros.data, want[i].zeros ? base + want[i].zeros : NULL);
        assert_ptr_equal(v.zeros.data, want[i].zeros ? base + want[i].zeros + 12 : NULL);
        if (k.scales.data) {
            assert_int_equal(k.scales.block_stride, 256);
            assert_int_equal(k.scales.head_stride, 6);
            assert_int_equal(v.scales.token_stride, 1);
        }
        pkv_store_destroy(store);
    }
}

/* Bytes of the slab that views have reached, each at most once. */
struct map {
    uint8_t *base, *seen;
    size_t bytes, marked;
};

static void mark(struct map *m, const void *first, size_t bytes)
{
    const size_t at = (size_t)((const uint8_t *)first - m->base);
    assert_true(at < m->bytes && bytes <= m->bytes - at);
    for (size_t j = 0; j < bytes; j++) {
        assert_int_equal(m->seen[at + j], 0);
        m->seen[at + j] = 1, m->marked++;
    }
}

static void mark_float(struct map *m, const pkv_scales *s, int64_t block, int64_t token,
                       int64_t head)
{
    if (!s->data) return;
    mark(m, s->data + block * s->block_stride + token * s->token_stride + head * s->head_stride,
         sizeof(float));
}

static void mark_view(struct map *m, const pkv_kv_view *view)
{
    const int64_t bits = pkv_dtype_bits(view->dtype);
    for (int64_t i = 0; i < (int64_t)view->n_blocks * view->n_heads * view->block_tokens; i++) {
        const int64_t token = i % view->block_tokens;
        const int64_t head = i / view->block_tokens % view->n_heads;
        const int64_t block = i / view->block_tokens / view->n_heads;
        const int64_t at =
            block * view->block_stride + head * view->head_stride + token * view->token_stride;
        const uint8_t *row = (const uint8_t *)view->data + at * bits / 8;
        assert_int_equal((uintptr_t)row % 16, 0);
        mark(m, row, (size_t)(view->dim * bits / 8));
        mark_float(m, &view->scales, block, token, head);
        mark_float(m, &view->zeros, block, token, head);
    }
}

/* Every byte that some view reaches is marked once; nobody marks it twice; together they are
 * exactly the 2 * layers * heads * tokens rows, with their scales and zeros, that a block is made
 * of. */
static void check_no_overlap(pkv_kv_shape shape, int32_t n_blocks)
{
    pkv_store *store = NULL;
    pkv_store_config cfg = config(NULL, shape, n_blocks);
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
    const pkv_store_info_t info = info_of(store);
    struct map m = { .base = info.base, .bytes = (size_t)n_blocks * info.block_bytes };
    m.seen = calloc(m.bytes, 1);
    assert_non_null(m.seen);
    for (int32_t layer = 0; layer < shape.n_layers; layer++) {
        pkv_kv_view k, v;
        assert_int_equal(pkv_store_views(store, layer, &k, &v), PKV_OK);
        mark_view(&m, &k);
        mark_view(&m, &v);
    }
    const bool scales = shape.dtype == PKV_E4M3 || shape.dtype == PKV_I8 || shape.dtype == PKV_U4;
    const size_t row = (size_t)(shape.head_dim * pkv_dtype_bits(shape.dtype) / 8) +
                       (scales ? 4 : 0) + (shape.dtype == PKV_U4 ? 4 : 0);
    assert_int_equal(m.marked, (size_t)n_blocks * 2 * (size_t)shape.n_layers *
                                   (size_t)shape.n_kv_heads * (size_t)shape.block_tokens * row);
    free(m.seen);
    pkv_store_destroy(store);
}

static void test_views_never_overlap(void **state)
{
    (void)state;
    check_no_overlap(small, 4);
    check_no_overlap((pkv_kv_shape){ 1, 1, 8, 1, PKV_BF16 }, 2);
    check_no_overlap((pkv_kv_shape){ 2, 3, 24, 7, PKV_F32 }, 3);
    check_no_overlap((pkv_kv_shape){ 2, 1, 256, 1024, PKV_F16 }, 2);
    for (int t = PKV_E4M3; t <= PKV_U4; t++) {
        check_no_overlap((pkv_kv_shape){ 2, 3, 8, 1, (pkv_dtype)t }, 3);
        check_no_overlap((pkv_kv_shape){ 2, 3, 24, 7, (pkv_dtype)t }, 3);
        check_no_overlap((pkv_kv_shape){ 3, 2, 128, 16, (pkv_dtype)t }, 2);
    }
}

static void test_block_bytes_are_the_kv_bytes(void **state)
{
    (void)state;
    /* Llama-3-8B: 32 layers, 8 kv heads, dim 128, 16 tokens, f16: 2 MiB a block, as published. */
    pkv_store *store = NULL;
    pkv_store_config cfg = config(NULL, (pkv_kv_shape){ 32, 8, 128, 16, PKV_F16 }, 3);
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
    assert_int_equal(info_of(store).block_bytes, (size_t)2 * 32 * 8 * 128 * 2 * 16);
    assert_int_equal(info_of(store).block_bytes, 2 << 20);
    pkv_store_destroy(store);
}

/* The same model with 8 bits: half the codes, and a float per row unless e5m2; with 4 bits two. */
static void test_quantised_block_bytes(void **state)
{
    (void)state;
    static const size_t rows = (size_t)2 * 32 * 8 * 16, mib = 1 << 20;
    const struct {
        pkv_dtype dtype;
        size_t bytes;
    } want[] = { { PKV_I8, mib + 4 * rows },
                 { PKV_E4M3, mib + 4 * rows },
                 { PKV_E5M2, mib },
                 { PKV_U4, mib / 2 + 8 * rows } };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const pkv_kv_shape shape = { 32, 8, 128, 16, want[i].dtype };
        size_t bytes = 0;
        assert_int_equal(pkv_kv_block_bytes(&shape, &bytes), PKV_OK);
        assert_int_equal(bytes, want[i].bytes);
    }
    /* Dim 8: rows of 8 and 4 bytes take 16; one token, one head: K and V are 32 bytes and floats.
     */
    const pkv_kv_shape smallest = { 1, 1, 8, 1, PKV_U4 };
    size_t bytes = 0;
    assert_int_equal(pkv_kv_block_bytes(&smallest, &bytes), PKV_OK);
    assert_int_equal(bytes, 512);
}

/* Whatever the memory held: a row of the null block means 0 in every type. */
static void test_null_block_means_zero(void **state)
{
    (void)state;
    pkv_backend *be = NULL;
    const pkv_cpu_config cpu = PKV_CPU_CONFIG_INIT;
    assert_int_equal(pkv_backend_create_cpu(&cpu, &be), PKV_OK);
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) {
        enum { TOKENS = 4, DIM = 24 };
        pkv_store *store = NULL;
        pkv_store_config cfg = config(NULL, (pkv_kv_shape){ 1, 1, DIM, TOKENS, (pkv_dtype)t }, 2);
        size_t bytes = 0;
        assert_int_equal(pkv_kv_block_bytes(&cfg.shape, &bytes), PKV_OK);
        cfg.memory_bytes = 2 * bytes;
        cfg.memory = aligned_alloc(64, cfg.memory_bytes);
        assert_non_null(cfg.memory);
        memset(cfg.memory, 0xff, cfg.memory_bytes);
        assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
        pkv_kv_view kv[2];
        assert_int_equal(pkv_store_views(store, 0, &kv[0], &kv[1]), PKV_OK);
        for (int i = 0; i < 2; i++) {
            _Alignas(16) float rows[TOKENS][DIM];
            const int64_t slots[TOKENS] = { 0, 1, 2, 3 };
            pkv_tensor3 out = { rows, PKV_F32, 1, DIM, TOKENS, DIM, DIM };
            memset(rows, 0xff, sizeof rows);
            assert_int_equal(pkv_kv_gather(be, &kv[i], slots, &out, NULL, NULL), PKV_OK);
            for (int j = 0; j < TOKENS * DIM; j++) assert_true(rows[j / DIM][j % DIM] == 0.f);
        }
        pkv_store_destroy(store);
        free(cfg.memory);
    }
    pkv_backend_destroy(be);
}

static void test_own_memory_is_zero(void **state)
{
    (void)state;
    for (int huge = 0; huge < 2; huge++) {
        pkv_store *store = NULL;
        pkv_store_config cfg = config(NULL, small, 1000);
        cfg.huge_pages = huge;
        assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
        const pkv_store_info_t info = info_of(store);
        assert_true(info.owns_memory);
        if (!huge) assert_false(info.huge_pages);
        const uint8_t *bytes = info.base;
        for (size_t i = 0; i < 1000 * info.block_bytes; i++)
            if (bytes[i] != 0) fail_msg("byte %zu is %u", i, bytes[i]);
        memset(info.base, 0xa5, 1000 * info.block_bytes);
        pkv_store_destroy(store);
    }
}

/* Small mappings between the stores push the next one off a multiple of 2 MiB by itself. */
static void test_own_memory_is_aligned(void **state)
{
    (void)state;
    enum { N_STORES = 8, PAGE = 4096 };
    pkv_store *stores[N_STORES];
    void *pages[N_STORES];
    for (int i = 0; i < N_STORES; i++) {
        pkv_store_config cfg = config(NULL, small, 10 + 1000 * i);
        pages[i] = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(pages[i] != MAP_FAILED);
        assert_int_equal(pkv_store_create(&cfg, &stores[i]), PKV_OK);
        assert_int_equal((uintptr_t)info_of(stores[i]).base % ((uintptr_t)2 << 20), 0);
    }
    for (int i = 0; i < N_STORES; i++) {
        pkv_store_destroy(stores[i]);
        munmap(pages[i], PAGE);
    }
}

/* Pages of this process, from the kernel's own count. */
static long mapped_pages(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%ld", &pages) != 1) pages = 0;
    fclose(f);
    return pages;
}

static void test_destroy_gives_the_mapping_back(void **state)
{
    (void)state;
    const long before = mapped_pages();
    for (int i = 0; i < 50; i++) {
        pkv_store *store = NULL;
        pkv_store_config cfg = config(NULL, small, 100000);
        assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
        pkv_store_destroy(store);
    }
    assert_true(mapped_pages() - before < 100000L * 1024 / 4096); /* less than one store */
}

static void test_caller_memory(void **state)
{
    (void)state;
    struct witness w = { .n_lines = 0 };
    pkv_store_config cfg = config(&w, small, 4);
    size_t block_bytes = 0;
    assert_int_equal(pkv_kv_block_bytes(&small, &block_bytes), PKV_OK);
    uint8_t *memory = aligned_alloc(64, 4 * block_bytes + 64);
    assert_non_null(memory);
    memset(memory, 0xee, 4 * block_bytes + 64);
    cfg.memory = memory;
    cfg.memory_bytes = 4 * block_bytes;
    pkv_store *store = NULL;
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
    const pkv_store_info_t info = info_of(store);
    assert_ptr_equal(info.base, memory);
    assert_false(info.owns_memory);
    assert_false(info.huge_pages);
    for (size_t i = 0; i < block_bytes; i++) assert_int_equal(memory[i], 0);
    for (size_t i = block_bytes; i < 4 * block_bytes + 64; i++) assert_int_equal(memory[i], 0xee);
    pkv_store_destroy(store);
    assert_int_equal(w.n_alive, 0);
    assert_int_equal(memory[block_bytes], 0xee); /* still ours */

    pkv_store *none = NULL;
    cfg.memory_bytes = 4 * block_bytes - 1;
    assert_int_equal(pkv_store_create(&cfg, &none), PKV_E_INVALID_ARG);
    assert_non_null(strstr(w.text, "memory has"));
    cfg.memory_bytes = 4 * block_bytes;
    cfg.memory = memory + 32;
    assert_int_equal(pkv_store_create(&cfg, &none), PKV_E_INVALID_ARG);
    assert_non_null(strstr(w.text, "aligned"));
    assert_null(none);
    assert_int_equal(memory[block_bytes], 0xee);
    free(memory);
}

static void test_each_allocation_fails_in_turn(void **state)
{
    (void)state;
    pkv_store *const mark = (pkv_store *)(uintptr_t)64;
    pkv_status status = PKV_E_NO_MEMORY;
    int n = 0;
    while (status != PKV_OK) {
        struct witness w = { .fail_at = ++n };
        pkv_store_config cfg = config(&w, small, 4);
        pkv_store *store = mark;
        status = pkv_store_create(&cfg, &store);
        if (status != PKV_OK) {
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_ptr_equal(store, mark);
            assert_int_equal(w.n_lines, 1);
        } else {
            pkv_store_destroy(store);
        }
        assert_int_equal(w.n_alive, 0);
    }
    assert_true(n > 1); /* at least one allocation did fail */
}

/* 2^30 blocks of 128 KiB are 2^47 bytes: more than a process may map on any x86-64 or arm64 Linux
 * with four levels of page tables, and refused by the overcommit rule elsewhere. */
static void test_the_os_refuses(void **state)
{
    (void)state;
    struct witness w = { .n_lines = 0 };
    pkv_store *const mark = (pkv_store *)(uintptr_t)64;
    pkv_store *store = mark;
    pkv_store_config cfg = config(&w, (pkv_kv_shape){ 2, 8, 128, 16, PKV_F16 }, 1 << 30);
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_E_NO_MEMORY);
    assert_ptr_equal(store, mark);
    assert_int_equal(w.n_alive, 0);
    assert_non_null(strstr(w.text, "refused to map"));
}

static void test_bad_configs_are_refused(void **state)
{
    (void)state;
    static const struct {
        pkv_kv_shape shape;
        int32_t n_blocks;
        pkv_status status;
    } cases[] = {
        { { 0, 2, 16, 4, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { -1, 2, 16, 4, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { 3, 0, 16, 4, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 0, 4, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 12, 4, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 264, 4, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 16, 0, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 16, 2049, PKV_F16 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 16, 4, (pkv_dtype)99 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 16, 4, (pkv_dtype)-1 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 12, 4, PKV_U4 }, 4, PKV_E_INVALID_ARG },
        { { 3, 2, 16, 4, PKV_F16 }, 1, PKV_E_INVALID_ARG },
        { { 3, 2, 16, 4, PKV_F16 }, 0, PKV_E_INVALID_ARG },
        { { 3, 2, 16, 4, PKV_F16 }, -5, PKV_E_INVALID_ARG },
        { { INT32_MAX, INT32_MAX, 256, 1024, PKV_F32 }, 4, PKV_E_INVALID_ARG },
        { { 1 << 20, 1 << 20, 256, 16, PKV_F32 }, INT32_MAX, PKV_E_INVALID_ARG },
        /* 2^63 rows */
        { { INT32_MAX, INT32_MAX, 8, 1, PKV_U4 }, 4, PKV_E_INVALID_ARG },
    };
    pkv_store *const mark = (pkv_store *)(uintptr_t)64;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct witness w = { .n_lines = 0 };
        pkv_store *store = mark;
        pkv_store_config cfg = config(&w, cases[i].shape, cases[i].n_blocks);
        const pkv_status status = pkv_store_create(&cfg, &store);
        if (status != cases[i].status)
            fail_msg("case %zu: %s, want %s", i, pkv_status_name(status),
                     pkv_status_name(cases[i].status));
        assert_ptr_equal(store, mark);
        assert_int_equal(w.n_lines, 1);
        assert_int_equal(w.n_allocs, 0);
        assert_null(strchr(w.text, '\n'));
    }
}

static void test_bad_pointers_and_versions(void **state)
{
    (void)state;
    struct witness w = { .n_lines = 0 };
    pkv_store *const mark = (pkv_store *)(uintptr_t)64;
    pkv_store *store = mark;
    pkv_store_config cfg = config(&w, small, 4);
    assert_int_equal(pkv_store_create(NULL, &store), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_store_create(&cfg, NULL), PKV_E_INVALID_ARG);
    cfg.struct_size--;
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_E_ABI);
    cfg.struct_size++;
    cfg.alloc.free = NULL;
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_E_INVALID_ARG);
    assert_ptr_equal(store, mark);
    assert_int_equal(w.n_allocs, 0);
    pkv_store_destroy(NULL);
}

static void test_bad_questions(void **state)
{
    (void)state;
    struct witness w = { .n_lines = 0 };
    pkv_store *store = NULL;
    pkv_store_config cfg = config(&w, small, 4);
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
    pkv_kv_view k, v, was;
    memset(&was, 0x5a, sizeof was);
    k = v = was;
    assert_int_equal(pkv_store_views(store, -1, &k, &v), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_store_views(store, 3, &k, &v), PKV_E_INVALID_ARG);
    assert_int_equal(w.n_lines, 2);
    assert_int_equal(pkv_store_views(NULL, 0, &k, &v), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_store_views(store, 0, NULL, &v), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_store_views(store, 0, &k, NULL), PKV_E_INVALID_ARG);
    assert_memory_equal(&k, &was, sizeof k);
    assert_memory_equal(&v, &was, sizeof v);
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    assert_int_equal(pkv_store_info(NULL, &info), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_store_info(store, NULL), PKV_E_INVALID_ARG);
    info.struct_size += 8;
    assert_int_equal(pkv_store_info(store, &info), PKV_E_ABI);
    assert_null(info.base);
    pkv_store_destroy(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout_by_hand),
        cmocka_unit_test(test_quantised_layout_by_hand),
        cmocka_unit_test(test_quantised_block_bytes),
        cmocka_unit_test(test_null_block_means_zero),
        cmocka_unit_test(test_views_never_overlap),
        cmocka_unit_test(test_block_bytes_are_the_kv_bytes),
        cmocka_unit_test(test_own_memory_is_zero),
        cmocka_unit_test(test_own_memory_is_aligned),
        cmocka_unit_test(test_destroy_gives_the_mapping_back),
        cmocka_unit_test(test_caller_memory),
        cmocka_unit_test(test_each_allocation_fails_in_turn),
        cmocka_unit_test(test_the_os_refuses),
        cmocka_unit_test(test_bad_configs_are_refused),
        cmocka_unit_test(test_bad_pointers_and_versions),
        cmocka_unit_test(test_bad_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
