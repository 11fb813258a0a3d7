/* Checkpoints of llama2.c: exactly what the header implies, or nothing. */
#include "model_test.h"

#define NAME "a.bin"

/* dim 8, hidden 6, 2 layers, 2 heads, 1 kv head, vocabulary 5, 3 positions */
static const int32_t small[7] = { 8, 6, 2, 2, 1, 5, 3 };
#define FLOATS_PER_LAYER (8 + 8 * 8 + 4 * 8 + 4 * 8 + 8 * 8 + 8 + 6 * 8 + 8 * 6 + 6 * 8)
#define FLOATS (5 * 8 + 2 * FLOATS_PER_LAYER + 8 + 3 * 4)

/* Float number k of the file is k. */
static void build(bytes *b, const int32_t *header, size_t n_floats)
{
    put(b, header, 28);
    for (size_t k = 0; k < n_floats; k++) put(b, &(float){ (float)k }, 4);
}

static float first_float(const pkv__tensor_file *file, const char *name)
{
    float v = -1;
    const pkv__tensor *t = pkv__tensor_file_find(file, name);
    if (!t) fail_msg("no %s", name);
    assert_int_equal(pkv__tensor_floats(t, 0, 1, &v), PKV_OK);
    return v;
}

static void order_of_matrices(void **state)
{
    (void)state;
    bytes b = { 0 };
    build(&b, small, FLOATS);
    pkv__tensor_file *file = open_memory(&b, NAME);
    assert_int_equal(pkv__tensor_file_count(file), 2 * 9 + 2);
    assert_true(first_float(file, "model.embed_tokens.weight") == 0);
    int at = 5 * 8;
    static const struct {
        const char *name;
        int n;
    } order[] = {
        { "input_layernorm", 8 },   { "self_attn.q_proj", 64 }, { "self_attn.k_proj", 32 },
        { "self_attn.v_proj", 32 }, { "self_attn.o_proj", 64 }, { "post_attention_layernorm", 8 },
        { "mlp.gate_proj", 48 },    { "mlp.down_proj", 48 },    { "mlp.up_proj", 48 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(order); k++)
        for (int layer = 0; layer < 2; layer++, at += order[k].n) {
            char name[128];
            snprintf(name, sizeof(name), "model.layers.%d.%s.weight", layer, order[k].name);
            assert_true(first_float(file, name) == (float)at);
        }
    assert_true(first_float(file, "model.norm.weight") == (float)at);
    const pkv__tensor *down = pkv__tensor_file_find(file, "model.layers.1.mlp.down_proj.weight");
    assert_true(down->n_dims == 2 && down->dims[0] == 8 && down->dims[1] == 6);
    assert_int_equal(pkv__tensor_file_meta(file, "llama2c.tied")->i, 1);
    pkv__tensor_file_close(file);
    bytes_free(&b);
}

static void untied_head(void **state)
{
    (void)state;
    bytes b = { 0 };
    int32_t header[7];
    pkv__model_config c;
    memcpy(header, small, sizeof(header));
    header[5] = -5;
    build(&b, header, FLOATS + 5 * 8);
    pkv__tensor_file *file = open_memory(&b, NAME);
    assert_true(first_float(file, "lm_head.weight") == FLOATS);
    assert_int_equal(pkv__tensor_file_meta(file, "llama2c.vocab_size")->i, 5);
    assert_int_equal(pkv__tensor_file_meta(file, "llama2c.tied")->i, 0);
    assert_int_equal(pkv__model_config_read(NAME, file, NULL, NULL, &c), PKV_OK);
    assert_false(c.tied_head);
    assert_int_equal(c.vocab, 5);
    pkv__tensor_file_close(file);
    bytes_free(&b);
}

static void sizes_refused(void **state)
{
    (void)state;
    int32_t header[7];
    for (size_t n = 0; n <= FLOATS + 41; n++) {
        bytes b = { 0 };
        if (n == FLOATS) continue;
        build(&b, small, n);
        expect_refused(&b, NAME, "another size", PKV_E_FORMAT, "implies");
        bytes_free(&b);
    }
    for (size_t n = 0; n < 4; n++) { /* between two floats */
        bytes b = { 0 };
        build(&b, small, FLOATS - 1);
        put_zeros(&b, n);
        expect_refused(&b, NAME, "odd bytes", PKV_E_FORMAT, "implies");
        bytes_free(&b);
    }
    memcpy(header, small, sizeof(header));
    header[5] = -5;
    bytes b = { 0 };
    build(&b, header, FLOATS);
    expect_refused(&b, NAME, "an untied head that is missing", PKV_E_FORMAT, "implies");
    bytes_free(&b);
}

static void headers_refused(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        int field;
        int32_t value;
        const char *says;
    } bad[] = {
        { "dim 0", 0, 0, "llama2c.dim" },
        { "dim -8", 0, -8, "llama2c.dim" },
        { "no heads", 3, 0, "llama2c.n_heads" },
        { "kv heads -1", 4, -1, "llama2c.n_kv_heads" },
        { "no layers", 2, 0, "llama2c.n_layers" },
        { "no vocabulary", 5, 0, "llama2c.vocab_size" },
        { "no positions", 6, 0, "llama2c.seq_len" },
        { "heads that do not cut dim", 3, 3, "pieces" },
        { "heads of one element", 3, 8, "pieces" },
        { "kv heads that do not cut heads", 4, 4, "multiple" },
        { "2^31 - 1 layers", 2, INT32_MAX, "implies" },
        { "a vocabulary of -2^31", 5, INT32_MIN, "implies" },
        { "2^31 - 1 positions", 6, INT32_MAX, "implies" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        bytes b = { 0 };
        int32_t header[7];
        memcpy(header, small, sizeof(header));
        header[bad[k].field] = bad[k].value;
        build(&b, header, FLOATS);
        expect_refused(&b, NAME, bad[k].what, PKV_E_FORMAT, bad[k].says);
        bytes_free(&b);
    }
    bytes b = { 0 };
    const int32_t huge[7] = { 1 << 30, INT32_MAX, INT32_MAX, 1 << 29, 1, INT32_MAX, INT32_MAX };
    build(&b, huge, 10);
    expect_refused(&b, NAME, "all huge", PKV_E_FORMAT, "overflow");
    bytes_free(&b);
    const int32_t newer[7] = { 0x616b3432, 1, 8, 6, 2, 2, 1 };
    build(&b, newer, 100);
    expect_refused(&b, NAME, "version 1", PKV_E_UNSUPPORTED, "version 1");
    bytes_free(&b);
    put(&b, small, 27);
    expect_refused(&b, NAME, "half a header", PKV_E_FORMAT, "too short");
    bytes_free(&b);
}

static void no_memory(void **state)
{
    (void)state;
    bytes b = { 0 };
    build(&b, small, FLOATS);
    for (long fail_at = 0;; fail_at++) {
        counted_memory memory;
        pkv__tensor_file *file = NULL;
        const pkv_allocator alloc = count_memory(&memory, fail_at);
        const pkv_status status =
            pkv__tensor_file_open_memory(b.data, b.n, NAME, NULL, &alloc, &file);
        if (status == PKV_OK) pkv__tensor_file_close(file);
        else assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_int_equal(memory.n_live, 0);
        if (status == PKV_OK) break;
    }
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_of_matrices), cmocka_unit_test(untied_head),
        cmocka_unit_test(sizes_refused),     cmocka_unit_test(headers_refused),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
