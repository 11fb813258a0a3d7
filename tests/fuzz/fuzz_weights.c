/* Fuzz target: a whole model of llama2.c or GGUF, from its bytes to weights in memory. What opens
 * keeps to the sizes that it states; memory is bounded by the file's, and all of it is given back.
 */
#include "fuzz_hooks.h"

#include "model/forward.h"
#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <string.h>

/* A byte of 4-bit weights becomes two floats, beside tables and the file's texts. */
#define BYTES_PER_BYTE 96
#define BYTES_AT_LEAST ((size_t)64 << 10)

static void check_matrix(const pkv__matrix *m, int32_t n, int32_t k)
{
    const uint8_t *data = m->data;
    FUZZ_REQUIRE(data && m->n == n && m->k == k);
    const size_t bytes = (size_t)n * (size_t)k * (m->dtype == PKV_BF16 ? 2 : 4);
    volatile uint8_t seen = data[0]; /* both ends may be read */
    seen = data[bytes - 1];
    (void)seen;
}

static void check_weights(const pkv__weights *w)
{
    const pkv__model_config *c = &w->config;
    FUZZ_REQUIRE(pkv__config_check(c, NULL) == PKV_OK);
    check_matrix(&w->embedding, c->vocab, c->hidden);
    check_matrix(&w->head, c->vocab, c->hidden);
    for (int32_t k = 0; k < c->n_layers; k++) {
        const pkv__layer_weights *l = &w->layers[k];
        check_matrix(&l->q, c->n_heads * c->head_dim, c->hidden);
        check_matrix(&l->v, c->n_kv_heads * c->head_dim, c->hidden);
        check_matrix(&l->down, c->hidden, c->ffn);
    }
}

static void open_model(const uint8_t *data, size_t size, const char *name, pkv_dtype dtype)
{
    fuzz_memory memory = { 0, 0 };
    fuzz_log lines = { 0, 0 };
    const pkv_allocator alloc = fuzz_allocator(&memory);
    const pkv_logger log = fuzz_logger(&lines);
    pkv__tensor_file *file = NULL;
    pkv__model_config config;
    pkv__weights weights;
    pkv_status status = pkv__tensor_file_open_memory(data, size, name, &log, &alloc, &file);
    const bool mine = status == PKV_OK && strcmp(pkv__tensor_file_format(file), "safetensors") != 0;
    if (mine) status = pkv__model_config_read(name, file, &log, &alloc, &config);
    if (mine && status == PKV_OK) {
        status = pkv__weights_load(&config, file, dtype, &log, &alloc, &weights);
        if (status == PKV_OK) {
            check_weights(&weights);
            pkv__weights_free(&weights);
            file = NULL; /* the weights owned it */
        }
    }
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT || status == PKV_E_UNSUPPORTED ||
                 status == PKV_E_LIMIT);
    FUZZ_REQUIRE(lines.n_errors == (status != PKV_OK));
    pkv__tensor_file_close(file);
    FUZZ_REQUIRE(memory.live == 0);
    FUZZ_REQUIRE(memory.peak <= BYTES_AT_LEAST + BYTES_PER_BYTE * size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0; /* an empty file ends before any reader */
    open_model(data, size, "a.bin", PKV_F32);
    open_model(data, size, "a.bin", PKV_BF16);
    return 0;
}

#define U32_OF(a) a "\0\0\0"
#define PAD8 "\0\0\0\0\0\0\0\0"
#define PAD32 PAD8 PAD8 PAD8 PAD8
/* The whole models are among the files of tests/attacks. This one: dim 2, hidden 1, 1 layer, 1
 * head, 1 kv head, 1 token, 1 position: 34 floats. */
const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(U32_OF("\2") U32_OF("\1") U32_OF("\1") U32_OF("\1") U32_OF("\1") U32_OF("\1")
                  U32_OF("\1") PAD32 PAD32 PAD32 PAD32 PAD8),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);
const char *const fuzz_words[] = { "\1",
                                   "\2",
                                   "\4",
                                   "\10",
                                   "\40",
                                   "\377\377\377\377",
                                   "llama.block_count",
                                   "llama.embedding_length",
                                   "llama.attention.head_count_kv",
                                   "llama.attention.key_length",
                                   "llama.rope.dimension_count",
                                   "rope_freqs.weight",
                                   "output.weight",
                                   "token_embd.weight" };
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
