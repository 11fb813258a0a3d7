#include "tensor_file_laws.h"

#include "fuzz_hooks.h"

#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <string.h>

/* Most that a byte of a file may cost: the smallest tensor has 33 bytes in GGUF, and tables double;
 * a key of 14 bytes brings an entry of about 120. The rest is the first chunk of texts and the
 * first tables. */
#define BYTES_PER_BYTE 64
#define BYTES_AT_LEAST ((size_t)64 << 10)

static void check_tensor(const pkv__tensor_file *file, int64_t k, const uint8_t *data, size_t size)
{
    const pkv__tensor *t = pkv__tensor_file_at(file, k);
    FUZZ_REQUIRE(t && t->name[0]);
    FUZZ_REQUIRE(k == 0 || strcmp(pkv__tensor_file_at(file, k - 1)->name, t->name) < 0);
    FUZZ_REQUIRE(pkv__tensor_file_find(file, t->name) == t);
    FUZZ_REQUIRE(t->n_dims >= 1 && t->n_dims <= 4);
    FUZZ_REQUIRE(t->data >= data && t->bytes <= size && t->data <= data + size - t->bytes);
    int64_t n = 1;
    for (int d = 0; d < 4; d++) {
        FUZZ_REQUIRE(t->dims[d] >= (d < t->n_dims ? 0 : 1));
        FUZZ_REQUIRE(d < t->n_dims || t->dims[d] == 1);
        FUZZ_REQUIRE(!__builtin_mul_overflow(n, t->dims[d], &n));
    }
    int32_t bytes;
    float out[256];
    const int32_t block = pkv__tensor_block(t->type, &bytes);
    if (t->type == PKV__T_OTHER) return;
    FUZZ_REQUIRE(n % block == 0);
    FUZZ_REQUIRE((uint64_t)(n / block) * (uint64_t)bytes == t->bytes);
    if (t->type == PKV__T_I32 || t->bytes == 0) return;
    const int64_t last = n - block;
    FUZZ_REQUIRE(pkv__tensor_floats(t, last, block, out) == PKV_OK);
    FUZZ_REQUIRE(pkv__tensor_floats(t, n, block, out) == PKV_E_RANGE);
}

static void check_config(const pkv__tensor_file *file, const char *name)
{
    pkv__model_config c;
    fuzz_log lines = { 0, 0 };
    const pkv_logger log = fuzz_logger(&lines);
    const char *format = pkv__tensor_file_format(file);
    if (strcmp(format, "safetensors") == 0) return;
    const pkv_status status = pkv__model_config_read(name, file, &log, NULL, &c);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT || status == PKV_E_UNSUPPORTED ||
                 status == PKV_E_LIMIT);
    if (status == PKV_OK) FUZZ_REQUIRE(pkv__config_check(&c, NULL) == PKV_OK);
}

void tensor_file_laws(const uint8_t *data, size_t size, const char *name)
{
    fuzz_memory memory = { 0, 0 };
    fuzz_log lines = { 0, 0 };
    const pkv_allocator alloc = fuzz_allocator(&memory);
    const pkv_logger log = fuzz_logger(&lines);
    pkv__tensor_file *file = NULL;
    if (size == 0) return; /* an empty file ends before any reader */
    const pkv_status status = pkv__tensor_file_open_memory(data, size, name, &log, &alloc, &file);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT || status == PKV_E_UNSUPPORTED);
    FUZZ_REQUIRE((status == PKV_OK) == (file != NULL));
    FUZZ_REQUIRE(memory.peak <= BYTES_AT_LEAST + BYTES_PER_BYTE * size);
    if (file) {
        const int64_t n = pkv__tensor_file_count(file);
        for (int64_t k = 0; k < n; k++) check_tensor(file, k, data, size);
        check_config(file, name);
    }
    pkv__tensor_file_close(file);
    FUZZ_REQUIRE(memory.live == 0);
}
