/* Weights by slot: what stays in the file, what is converted, and every way in which a file can
 * lack something. Files are made here, as safetensors in memory. */
#include "common/number_format.h"
#include "forward_rig.h"

#define HIDDEN 16
#define VOCAB 24

typedef struct entry {
    char name[64];
    int32_t rows, cols; /* cols 0: a vector */
} entry;

typedef struct model_file {
    entry entries[64];
    int32_t n;
    const char *type; /* "F32", "BF16", "I32" */
    int32_t shift;    /* bytes by which all data are moved from their alignment */
    bytes data;
} model_file;

static pkv__model_config config(void)
{
    pkv__model_config c = small_config(4, 2, 8);
    c.vocab = VOCAB;
    c.hidden = HIDDEN;
    c.ffn = 20;
    c.n_layers = 1;
    return c;
}

static model_file complete(void)
{
    static const entry all[] = {
        { "model.embed_tokens.weight", VOCAB, HIDDEN },
        { "model.norm.weight", HIDDEN, 0 },
        { "lm_head.weight", VOCAB, HIDDEN },
        { "model.layers.0.input_layernorm.weight", HIDDEN, 0 },
        { "model.layers.0.self_attn.q_proj.weight", 32, HIDDEN },
        { "model.layers.0.self_attn.k_proj.weight", 16, HIDDEN },
        { "model.layers.0.self_attn.v_proj.weight", 16, HIDDEN },
        { "model.layers.0.self_attn.o_proj.weight", HIDDEN, 32 },
        { "model.layers.0.post_attention_layernorm.weight", HIDDEN, 0 },
        { "model.layers.0.mlp.gate_proj.weight", 20, HIDDEN },
        { "model.layers.0.mlp.up_proj.weight", 20, HIDDEN },
        { "model.layers.0.mlp.down_proj.weight", HIDDEN, 20 },
    };
    model_file f = { .n = PKV_ARRAY_LEN(all), .type = "F32" };
    memcpy(f.entries, all, sizeof(all));
    return f;
}

static entry *find(model_file *f, const char *part)
{
    for (int32_t k = 0; k < f->n; k++)
        if (strstr(f->entries[k].name, part)) return &f->entries[k];
    fail_msg("no %s", part);
    return NULL;
}

/* Element i of tensor k; no bf16 number, so that rounding shows. */
static float value(int32_t k, int32_t i)
{
    return (float)(k + 1) + (float)i / 1024;
}

static pkv__tensor_file *open_file(model_file *f)
{
    char text[4096];
    int at = 1;
    size_t offset = 0;
    const size_t size = strcmp(f->type, "BF16") == 0 ? 2 : 4;
    text[0] = '{';
    for (int32_t k = 0; k < f->n; k++) {
        const entry *e = &f->entries[k];
        const size_t n = (size_t)e->rows * (size_t)(e->cols ? e->cols : 1);
        at += snprintf(text + at, sizeof(text) - (size_t)at,
                       "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d", k ? "," : "", e->name, f->type,
                       e->rows);
        if (e->cols) at += snprintf(text + at, sizeof(text) - (size_t)at, ",%d", e->cols);
        at += snprintf(text + at, sizeof(text) - (size_t)at, "],\"data_offsets\":[%zu,%zu]}",
                       offset, offset + n * size);
        offset += n * size;
    }
    text[at++] = '}';
    while ((8 + at) % 64 != f->shift) text[at++] = ' ';
    put_u64(&f->data, (uint64_t)at);
    put(&f->data, text, (size_t)at);
    for (int32_t k = 0; k < f->n; k++)
        for (int32_t i = 0; i < f->entries[k].rows * pkv__max_i32(1, f->entries[k].cols); i++) {
            const float x = value(k, i);
            const uint16_t h = pkv__f32_to_bf16(x);
            if (size == 2) put(&f->data, &h, 2);
            else put(&f->data, &x, 4);
        }
    uint8_t *moved = aligned_alloc(64, (f->data.n + 63) / 64 * 64); /* as a mapped file lies */
    assert_non_null(moved);
    memcpy(moved, f->data.data, f->data.n);
    free(f->data.data);
    f->data.data = moved;
    return open_memory(&f->data, "made.safetensors");
}

static bool inside(const model_file *f, const void *at)
{
    return (const uint8_t *)at >= f->data.data && (const uint8_t *)at < f->data.data + f->data.n;
}

static float element(const pkv__matrix *m, int32_t i)
{
    return m->dtype == PKV_BF16 ? pkv__bf16_to_f32(((const uint16_t *)m->data)[i])
                                : ((const float *)m->data)[i];
}

/* The rows of q, v and of the head, and a norm, wherever they lie. */
static void check_values(const pkv__weights *w, bool rounded)
{
    const pkv__matrix *all[] = { &w->embedding, &w->head, &w->layers[0].q, &w->layers[0].down };
    static const int32_t at[] = { 0, 2, 4, 11 };
    for (int k = 0; k < 4; k++)
        for (int32_t i = 0; i < all[k]->n * all[k]->k; i++) {
            const float x = value(at[k], i);
            assert_true(element(all[k], i) ==
                        (rounded ? pkv__bf16_to_f32(pkv__f32_to_bf16(x)) : x));
        }
}

static void check_load(const char *type, int32_t shift, pkv_dtype dtype, bool in_place)
{
    counted_memory memory;
    const pkv_allocator alloc = count_memory(&memory, -1);
    const pkv__model_config c = config();
    model_file f = complete();
    pkv__weights w;
    f.type = type;
    f.shift = shift;
    assert_int_equal(pkv__weights_load(&c, open_file(&f), dtype, NULL, &alloc, &w), PKV_OK);
    assert_int_equal(inside(&f, w.layers[0].q.data), in_place);
    assert_int_equal(inside(&f, w.head.data), in_place);
    assert_int_equal(w.layers[0].gate.dtype, dtype);
    assert_int_equal(w.layers[0].gate.n, 20);
    assert_int_equal(w.layers[0].gate.k, HIDDEN);
    assert_true(w.inv_freq[0] == 1 && w.rope_amplitude == 1);
    assert_int_equal(memory.live_bytes, w.memory_bytes);
    check_values(&w, dtype == PKV_BF16 || strcmp(type, "BF16") == 0);
    pkv__weights_free(&w);
    assert_int_equal(memory.n_live, 0);
    bytes_free(&f.data);
}

static void in_place_or_converted(void **state)
{
    (void)state;
    check_load("F32", 0, PKV_F32, true);
    check_load("F32", 4, PKV_F32, true);
    check_load("F32", 1, PKV_F32, false); /* no element where a float may lie */
    check_load("F32", 0, PKV_BF16, false);
    check_load("BF16", 2, PKV_BF16, true);
    check_load("BF16", 1, PKV_BF16, false);
    check_load("BF16", 0, PKV_F32, false);
}

/* Row 2i + j of a head becomes row i + j * half, within the dims that turn. */
static void interleaved_rows(void **state)
{
    (void)state;
    static const int32_t whole[8] = { 0, 4, 1, 5, 2, 6, 3, 7 },
                         part[8] = { 0, 2, 1, 3, 4, 5, 6, 7 };
    for (int k = 0; k < 2; k++) {
        pkv__model_config c = config();
        model_file f = complete();
        pkv__weights w;
        c.interleaved_pairs = true;
        c.rope.rotary_dim = k == 0 ? 8 : 4;
        assert_int_equal(pkv__weights_load(&c, open_file(&f), PKV_F32, NULL, NULL, &w), PKV_OK);
        const int32_t *to = k == 0 ? whole : part;
        for (int32_t r = 0; r < 32; r++)
            for (int32_t i = 0; i < HIDDEN; i++)
                assert_true(element(&w.layers[0].q, (r / 8 * 8 + to[r % 8]) * HIDDEN + i) ==
                            value(4, r * HIDDEN + i));
        assert_true(element(&w.layers[0].v, HIDDEN) == value(6, HIDDEN)); /* not turned */
        pkv__weights_free(&w);
        bytes_free(&f.data);
    }
}

/* Tied or not in the configuration, a head in the file or none. */
static void heads(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        last_log log;
        const pkv_logger logger = log_to(&log);
        const bool tied = k % 2, own = k / 2;
        pkv__model_config c = config();
        model_file f = complete();
        pkv__weights w;
        c.tied_head = tied;
        if (!own) *find(&f, "lm_head") = f.entries[--f.n];
        assert_int_equal(pkv__weights_load(&c, open_file(&f), PKV_F32, &logger, NULL, &w), PKV_OK);
        assert_int_equal(w.head.data != w.embedding.data, own);
        assert_int_equal(w.config.tied_head, !own);
        assert_int_equal(log.n_lines, own == tied);
        pkv__weights_free(&w);
        bytes_free(&f.data);
    }
}

static void refused(model_file *f, pkv_dtype dtype, pkv_status want, const char *says)
{
    last_log log;
    const pkv_logger logger = log_to(&log);
    const pkv__model_config c = config();
    pkv__weights w = { .memory_bytes = 77 };
    pkv__tensor_file *file = open_file(f);
    assert_int_equal(pkv__weights_load(&c, file, dtype, &logger, NULL, &w), want);
    if (!strstr(log.text, says)) fail_msg("\"%s\" lacks \"%s\"", log.text, says);
    assert_int_equal(w.memory_bytes, 77);
    pkv__tensor_file_close(file); /* still ours */
    bytes_free(&f->data);
}

static void refusals(void **state)
{
    (void)state;
    model_file f = complete();
    for (int32_t k = 0; k < complete().n; k++) {
        char says[128];
        f = complete();
        if (strstr(f.entries[k].name, "lm_head")) continue;
        snprintf(says, sizeof(says), "tensor %s is missing", f.entries[k].name);
        f.entries[k].name[0] = 'x';
        refused(&f, PKV_F32, PKV_E_FORMAT, says);
        f = complete();
        f.entries[k].rows++;
        refused(&f, PKV_F32, PKV_E_FORMAT, f.entries[k].name);
    }
    f = complete();
    find(&f, "q_proj")->cols = 0;
    refused(&f, PKV_F32, PKV_E_FORMAT, "q_proj.weight has 1 dims, 32 x 1;");
    f = complete();
    find(&f, "model.norm")->cols = 1;
    refused(&f, PKV_F32, PKV_E_FORMAT, "model.norm.weight has 2 dims");
    f = complete();
    f.entries[f.n++] = (entry){ "model.layers.0.self_attn.q_proj.bias", 32, 0 };
    refused(&f, PKV_F32, PKV_E_UNSUPPORTED, "q_proj.bias: biases are not computed");
    f = complete();
    f.type = "I32";
    refused(&f, PKV_F32, PKV_E_UNSUPPORTED, "is of type I32");
    f = complete();
    refused(&f, PKV_F16, PKV_E_INVALID_ARG, "not f16");
}

static void no_memory(void **state)
{
    (void)state;
    counted_memory memory;
    pkv_allocator alloc = count_memory(&memory, 0);
    const pkv__model_config c = config();
    pkv__weights w = { .memory_bytes = 77 };
    model_file f = complete();
    pkv__tensor_file *file = open_file(&f);
    assert_int_equal(pkv__weights_load(&c, file, PKV_F32, NULL, &alloc, &w), PKV_E_NO_MEMORY);
    assert_int_equal(pkv__weights_random(&c, 1, PKV_F32, &alloc, &w), PKV_E_NO_MEMORY);
    assert_int_equal(w.memory_bytes, 77);
    pkv__tensor_file_close(file);
    bytes_free(&f.data);
    pkv__weights_free(NULL);
}

static void random_weights(void **state)
{
    (void)state;
    pkv__model_config c = config();
    c.hidden = 256;
    c.vocab = 500;
    pkv__weights a = small_weights(&c, 1, PKV_F32), b = small_weights(&c, 1, PKV_F32);
    pkv__weights other = small_weights(&c, 2, PKV_F32);
    const int32_t n = 500 * 256;
    assert_memory_equal(a.embedding.data, b.embedding.data, (size_t)n * 4);
    assert_memory_not_equal(a.embedding.data, other.embedding.data, (size_t)n * 4);
    assert_memory_not_equal(a.embedding.data, a.head.data, (size_t)n * 4);
    double sum = 0, squares = 0;
    for (int32_t i = 0; i < n; i++) {
        const double x = element(&a.embedding, i);
        sum += x;
        squares += x * x;
    }
    assert_true(fabs(sum / n) < 6 / 16.0 / sqrt(n)); /* six deviations of the mean */
    assert_true(fabs(squares / n * 256 - 1) < 0.02);
    for (int i = 0; i < 256; i++) assert_true(a.out_norm[i] > 0.8 && a.out_norm[i] < 1.2);
    pkv__weights_free(&a), pkv__weights_free(&b), pkv__weights_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place_or_converted),
        cmocka_unit_test(interleaved_rows),
        cmocka_unit_test(heads),
        cmocka_unit_test(refusals),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(random_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
