/* The store of a device: memory that the store must not touch, and whose views are the host's. */
#include "pagedkv/pagedkv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    assert_int_equal(level, PKV_LOG_ERROR);
    snprintf(ctx, 256, "%s", text);
}

/* Four blocks; `text`, of 256 bytes, gets the last line of the log. */
static pkv_store_config config(pkv_kv_shape shape, char *text)
{
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    cfg.shape = shape;
    cfg.n_blocks = 4;
    if (text) cfg.log = (pkv_logger){ keep_line, text };
    return cfg;
}

static pkv_store_info_t info_of(const pkv_store *store)
{
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    assert_int_equal(pkv_store_info(store, &info), PKV_OK);
    return info;
}

/* Memory that this process must not touch: where the store of a device would lie. */
static uint8_t *device_memory(size_t bytes)
{
    uint8_t *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void assert_same_numbers(const pkv_scales *a, const pkv_scales *b)
{
    assert_ptr_equal(a->data, b->data);
    assert_int_equal(a->block_stride, b->block_stride);
    assert_int_equal(a->token_stride, b->token_stride);
    assert_int_equal(a->head_stride, b->head_stride);
}

static void assert_same_view(const pkv_kv_view *a, const pkv_kv_view *b)
{
    assert_ptr_equal(a->data, b->data);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->n_blocks, b->n_blocks);
    assert_int_equal(a->block_tokens, b->block_tokens);
    assert_int_equal(a->n_heads, b->n_heads);
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->block_stride, b->block_stride);
    assert_int_equal(a->token_stride, b->token_stride);
    assert_int_equal(a->head_stride, b->head_stride);
    assert_same_numbers(&a->scales, &b->scales);
    assert_same_numbers(&a->zeros, &b->zeros);
}

/* The store of a device touches nothing, block 0 included, and its views are those of the host's.
 */
static void test_device_memory(void **state)
{
    (void)state;
    static const pkv_kv_shape shape = { 3, 2, 24, 5, PKV_U4 };
    pkv_store_config cfg = config(shape, NULL), host_cfg = config(shape, NULL);
    pkv_store *store = NULL, *host = NULL;
    size_t block_bytes = 0;
    assert_int_equal(pkv_kv_block_bytes(&shape, &block_bytes), PKV_OK);
    uint8_t *memory = device_memory(4 * block_bytes);
    cfg.memory = memory;
    cfg.memory_bytes = 4 * block_bytes;
    cfg.on_device = true;
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
    assert_int_equal(pkv_store_create(&host_cfg, &host), PKV_OK);
    const pkv_store_info_t info = info_of(store), host_info = info_of(host);
    assert_ptr_equal(info.base, memory);
    assert_true(info.on_device);
    assert_false(info.owns_memory);
    assert_false(info.huge_pages);
    assert_int_equal(info.block_bytes, block_bytes);
    assert_int_equal(info.n_blocks, 4);
    assert_false(host_info.on_device);
    for (int32_t layer = 0; layer < 3; layer++) {
        pkv_kv_view views[2], host_views[2];
        assert_int_equal(pkv_store_views(store, layer, &views[0], &views[1]), PKV_OK);
        assert_int_equal(pkv_store_views(host, layer, &host_views[0], &host_views[1]), PKV_OK);
        for (int i = 0; i < 2; i++) {
            pkv_kv_view *v = &views[i];
            uint8_t *const base = host_info.base;
            v->data = base + ((uint8_t *)v->data - memory);
            v->scales.data = (float *)(void *)(base + ((uint8_t *)v->scales.data - memory));
            v->zeros.data = (float *)(void *)(base + ((uint8_t *)v->zeros.data - memory));
            assert_same_view(v, &host_views[i]);
        }
    }
    pkv_store_destroy(host);
    pkv_store_destroy(store);
    assert_int_equal(munmap(memory, 4 * block_bytes), 0); /* still ours */
}

static void test_device_memory_is_refused(void **state)
{
    (void)state;
    static const pkv_kv_shape shape = { 3, 2, 16, 4, PKV_F16 };
    char text[256] = "";
    pkv_store_config cfg = config(shape, text);
    pkv_store *const mark = (pkv_store *)(uintptr_t)64, *store = mark;
    size_t block_bytes = 0;
    assert_int_equal(pkv_kv_block_bytes(&shape, &block_bytes), PKV_OK);
    uint8_t *memory = device_memory(4 * block_bytes + 256);
    cfg.on_device = true;
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_E_INVALID_ARG);
    assert_non_null(strstr(text, "on_device needs memory"));
    cfg.memory_bytes = 4 * block_bytes;
    for (size_t skew = 64; skew < 256; skew += 64) { /* fine for the host */
        cfg.memory = memory + skew;
        assert_int_equal(pkv_store_create(&cfg, &store), PKV_E_INVALID_ARG);
        assert_non_null(strstr(text, "not 256-byte aligned"));
    }
    cfg.memory = memory;
    cfg.memory_bytes--;
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_E_INVALID_ARG);
    assert_non_null(strstr(text, "memory has"));
    assert_ptr_equal(store, mark);
    assert_int_equal(munmap(memory, 4 * block_bytes + 256), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_memory),
        cmocka_unit_test(test_device_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
