/* The handle: what it says about the trained model in its three formats and about random weights,
 * what changes its digest, and what it refuses. */
#include "model/model_handle.h"
#include "model_test.h"

#include <pthread.h>

/* Of stories260K, by hand: 5 layers of 2 * 64 * 64 (q, o), 2 * 32 * 64 (k, v), 3 * 172 * 64; 11
 * norms of 64; 512 rows of 64 that are embedding and head. */
#define LAYERS (5 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 172 * 64))
#define NORMS (11 * 64)
#define EMBEDDING (512 * 64)

static pkv_model *open_at(const char *path, pkv_dtype dtype)
{
    last_log log;
    pkv_model *model = NULL;
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    cfg.path = path;
    cfg.weights_dtype = dtype;
    cfg.log = log_to(&log);
    const pkv_status status = pkv_model_open(&cfg, &model);
    if (status != PKV_OK) fail_msg("%s: %s: %s", path, pkv_status_name(status), log.text);
    return model;
}

static pkv_model *open_stories(const char *name, pkv_dtype dtype)
{
    char path[1024];
    shared_path(name, path, sizeof(path));
    return open_at(path, dtype);
}

static pkv_model_info info_of(const pkv_model *model)
{
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    assert_int_equal(pkv_model_get_info(model, &info), PKV_OK);
    return info;
}

/* ---------------------------------------------------------------- what it says */

static const struct {
    const char *path, *format;
    int32_t n_eos, eos[2];
} stories[] = {
    { STORIES "model.safetensors", "safetensors", 1, { 2 } },
    { STORIES "stories260K.gguf", "gguf", 1, { 2 } },
    { STORIES "stories260K.bin", "llama2.c", 2, { 1, 2 } },
};

static void info_of_three_formats(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(stories); k++) {
        pkv_model *model = open_stories(stories[k].path, PKV_F32);
        const pkv_model_info i = info_of(model);
        assert_string_equal(i.architecture, "llama");
        assert_string_equal(i.format, stories[k].format);
        assert_string_equal(i.rope, "default");
        assert_true(i.vocab == 512 && i.hidden == 64 && i.n_layers == 5 && i.n_heads == 8);
        assert_true(i.n_kv_heads == 4 && i.head_dim == 8 && i.ffn == 172 && i.context == 512);
        assert_true(i.tied_head && i.rotary_dim == 8 && i.rope_theta == 10000);
        assert_true(i.rope_factor == 1 && (float)i.norm_eps == 1e-5f && i.bos == 1);
        assert_int_equal(i.n_eos, stories[k].n_eos);
        assert_memory_equal(i.eos, stories[k].eos, (size_t)i.n_eos * sizeof(i.eos[0]));
        assert_int_equal(i.weights_dtype, PKV_F32);
        assert_int_equal(i.n_parameters, LAYERS + NORMS + EMBEDDING);
        assert_int_equal(i.weight_bytes, 4 * (LAYERS + NORMS + EMBEDDING));
        assert_int_equal(i.n_tensors, 5 * 9 + 2);
        pkv_model_close(model);
    }
}

static void bf16_halves_the_matrices(void **state)
{
    (void)state;
    pkv_model *model = open_stories(STORIES "stories260K.bin", PKV_BF16);
    const pkv_model_info i = info_of(model);
    assert_int_equal(i.weights_dtype, PKV_BF16);
    assert_int_equal(i.n_parameters, LAYERS + NORMS + EMBEDDING);
    assert_int_equal(i.weight_bytes, 2 * (LAYERS + EMBEDDING) + 4 * NORMS);
    assert_true(i.memory_bytes > i.weight_bytes && i.memory_bytes < i.weight_bytes + 20000);
    assert_int_equal(pkv__model_weights(model)->layers[4].down.dtype, PKV_BF16);
    pkv_model_close(model);
}

/* Matrices of a safetensors file stay where they are; of a .bin, q and k are turned. */
static void mapped_bytes_are_not_ours(void **state)
{
    (void)state;
    pkv_model *a = open_stories(STORIES "model.safetensors", PKV_F32);
    pkv_model *b = open_stories(STORIES "stories260K.bin", PKV_F32);
    const size_t turned = 5 * (64 * 64 + 32 * 64) * sizeof(float);
    assert_in_range(info_of(a).memory_bytes, 4 * NORMS, 4 * NORMS + sizeof(pkv__weights) + 2048);
    assert_in_range(info_of(b).memory_bytes - info_of(a).memory_bytes, turned, turned + 64);
    pkv_model_close(a);
    pkv_model_close(b);
}

static void tensors_in_order_of_name(void **state)
{
    (void)state;
    pkv_model *model = open_stories(STORIES "stories260K.gguf", PKV_F32);
    const int32_t n = info_of(model).n_tensors;
    const char *last = "";
    size_t sum = 0;
    for (int32_t k = 0; k < n; k++) {
        pkv_model_tensor t = PKV_MODEL_TENSOR_INIT;
        assert_int_equal(pkv_model_get_tensor(model, k, &t), PKV_OK);
        assert_true(strcmp(last, t.name) < 0);
        assert_string_equal(t.type, "F32");
        sum += t.bytes;
        last = t.name;
        if (strcmp(t.name, "blk.3.ffn_down.weight") != 0) continue;
        assert_true(t.n_dims == 2 && t.dims[0] == 64 && t.dims[1] == 172);
        assert_int_equal(t.bytes, 4 * 64 * 172);
    }
    assert_int_equal(sum, 4 * (LAYERS + NORMS + EMBEDDING));
    pkv_model_tensor t = PKV_MODEL_TENSOR_INIT;
    assert_int_equal(pkv_model_get_tensor(model, n, &t), PKV_E_RANGE);
    assert_int_equal(pkv_model_get_tensor(model, -1, &t), PKV_E_RANGE);
    assert_int_equal(pkv_model_get_tensor(NULL, 0, &t), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_model_get_tensor(model, 0, NULL), PKV_E_INVALID_ARG);
    t.struct_size--;
    assert_int_equal(pkv_model_get_tensor(model, 0, &t), PKV_E_ABI);
    assert_null(t.name);
    pkv_model_close(model);
}

/* ---------------------------------------------------------------- random weights */

/* Two kv heads, and sizes of which no two are equal. */
static pkv_model_shape small_shape(void)
{
    pkv_model_shape s = PKV_MODEL_SHAPE_INIT;
    s.vocab = 40, s.hidden = 24, s.n_layers = 3, s.n_heads = 4, s.n_kv_heads = 2, s.head_dim = 8;
    s.ffn = 56, s.context = 100;
    return s;
}

static pkv_model *random_model(const pkv_model_shape *shape, uint64_t seed, pkv_dtype dtype)
{
    last_log log;
    pkv_model *model = NULL;
    const pkv_logger logger = log_to(&log);
    const pkv_status status = pkv_model_random(shape, seed, dtype, &logger, NULL, &model);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), log.text);
    return model;
}

static void random_weights(void **state)
{
    (void)state;
    const int64_t layers = 3 * (2 * 32 * 24 + 2 * 16 * 24 + 3 * 56 * 24);
    const int64_t norms = 7 * 24, embedding = 40 * 24;
    pkv_model_shape shape = small_shape();
    pkv_model *model = random_model(&shape, 7, PKV_BF16);
    pkv_model_info i = info_of(model);
    assert_string_equal(i.format, "random");
    assert_true(i.bos == -1 && i.n_eos == 0 && i.n_tensors == 0 && i.rope_theta == 10000);
    assert_true(i.context == 100 && i.vocab == 40 && i.ffn == 56 && i.tied_head);
    assert_int_equal(i.n_parameters, layers + norms + embedding);
    assert_int_equal(i.weight_bytes, 2 * (layers + embedding) + 4 * norms);
    pkv_model_tensor t = PKV_MODEL_TENSOR_INIT;
    assert_int_equal(pkv_model_get_tensor(model, 0, &t), PKV_E_RANGE);
    pkv_model_close(model);

    shape.tied_head = false;
    model = random_model(&shape, 7, PKV_BF16);
    i = info_of(model);
    assert_false(i.tied_head);
    assert_int_equal(i.n_parameters, layers + norms + 2 * embedding);
    assert_int_equal(i.weight_bytes, 2 * (layers + embedding + 24) + 4 * norms);
    const pkv__weights *w = pkv__model_weights(model);
    assert_ptr_not_equal(w->head.data, w->embedding.data);
    pkv_model_close(model);
}

typedef struct digest {
    uint8_t bytes[32];
} digest;

static digest digest_of(const pkv_model *model)
{
    digest d;
    assert_int_equal(pkv_model_get_digest(model, d.bytes), PKV_OK);
    return d;
}

static void random_is_repeatable(void **state)
{
    (void)state;
    const pkv_model_shape shape = small_shape();
    pkv_model *a = random_model(&shape, 7, PKV_F32), *b = random_model(&shape, 7, PKV_F32);
    pkv_model *other = random_model(&shape, 8, PKV_F32);
    const pkv__weights *x = pkv__model_weights(a), *y = pkv__model_weights(b);
    const size_t n = 24 * 56 * sizeof(float);
    assert_memory_equal(x->layers[2].down.data, y->layers[2].down.data, n);
    assert_memory_not_equal(x->layers[2].down.data, pkv__model_weights(other)->layers[2].down.data,
                            n);
    const digest i = digest_of(a), j = digest_of(b), k = digest_of(other);
    assert_memory_equal(i.bytes, j.bytes, 32);
    assert_memory_not_equal(i.bytes, k.bytes, 32);
    pkv_model_close(a);
    pkv_model_close(b);
    pkv_model_close(other);
}

static void random_refusals(void **state)
{
    (void)state;
    static const struct {
        size_t field;
        int32_t value;
        const char *says;
    } bad[] = {
#define BAD(field, value, says) { offsetof(pkv_model_shape, field), value, says }
        BAD(vocab, 0, "vocab"),         BAD(vocab, (1 << 24) + 1, "vocab"),
        BAD(hidden, -1, "hidden"),      BAD(n_layers, 513, "n_layers"),
        BAD(n_heads, 0, "n_heads"),     BAD(n_kv_heads, 3, "no multiple"),
        BAD(n_kv_heads, 0, "kv"),       BAD(head_dim, 7, "rotary"),
        BAD(head_dim, 514, "head_dim"), BAD(ffn, 0, "ffn"),
        BAD(context, 0, "context"),
#undef BAD
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        last_log log;
        const pkv_logger logger = log_to(&log);
        pkv_model_shape shape = small_shape();
        pkv_model *model = NULL;
        memcpy((char *)&shape + bad[k].field, &bad[k].value, sizeof(int32_t));
        assert_int_equal(pkv_model_random(&shape, 1, PKV_F32, &logger, NULL, &model),
                         PKV_E_INVALID_ARG);
        assert_null(model);
        assert_int_equal(log.n_lines, 1);
        if (!strstr(log.text, bad[k].says)) fail_msg("%s: %s", bad[k].says, log.text);
    }
    pkv_model_shape shape = small_shape();
    pkv_model *model = NULL;
    assert_int_equal(pkv_model_random(&shape, 1, PKV_F16, NULL, NULL, &model), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_model_random(NULL, 1, PKV_F32, NULL, NULL, &model), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_model_random(&shape, 1, PKV_F32, NULL, NULL, NULL), PKV_E_INVALID_ARG);
    shape.struct_size++;
    assert_int_equal(pkv_model_random(&shape, 1, PKV_F32, NULL, NULL, &model), PKV_E_ABI);
    assert_null(model);
}

/* ---------------------------------------------------------------- the digest */

/* The trained model with one bit of one weight turned, and one field of the header changed. */
static void digest_sees_every_byte(void **state)
{
    (void)state;
    char folder[512], path[1024];
    bytes b = { 0 };
    shared_path(STORIES "stories260K.bin", path, sizeof(path));
    read_bytes(path, &b);
    pkv_model *model = open_at(path, PKV_F32);
    const digest original = digest_of(model), again = digest_of(model);
    assert_memory_equal(original.bytes, again.bytes, 32);
    assert_int_equal(pkv_model_get_digest(model, NULL), PKV_E_INVALID_ARG);
    pkv_model_close(model);
    scratch_folder(folder, sizeof(folder));
    write_bytes(folder, "same.bin", b.data, b.n);
    b.data[b.n / 2] ^= 1;
    write_bytes(folder, "bit.bin", b.data, b.n);
    static const struct {
        const char *name;
        pkv_dtype dtype;
        bool same;
    } files[] = { { "same.bin", PKV_F32, true },
                  { "same.bin", PKV_BF16, false },
                  { "bit.bin", PKV_F32, false } };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[k].name);
        model = open_at(path, files[k].dtype);
        const digest d = digest_of(model);
        assert_int_equal(memcmp(d.bytes, original.bytes, 32) == 0, files[k].same);
        pkv_model_close(model);
    }
    bytes_free(&b);
    scratch_remove(folder);
}

/* Configuration decides K too: another theta, another epsilon, other rotary scaling. */
static void digest_sees_the_configuration(void **state)
{
    (void)state;
    static const char base[] =
        "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":512,"
        "\"hidden_size\":64,\"num_hidden_layers\":5,\"num_attention_heads\":8,"
        "\"num_key_value_heads\":4,\"intermediate_size\":172,\"max_position_embeddings\":512,"
        "\"tie_word_embeddings\":true";
    static const char *const more[] = {
        "}",
        ",\"rope_theta\":10001}",
        ",\"rms_norm_eps\":1e-5}",
        ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}}",
    };
    enum { N = PKV_ARRAY_LEN(more) };
    char folder[512], path[1024], config[1024];
    digest digests[N];
    bytes b = { 0 };
    shared_path(STORIES "model.safetensors", path, sizeof(path));
    read_bytes(path, &b);
    scratch_folder(folder, sizeof(folder));
    write_bytes(folder, "model.safetensors", b.data, b.n);
    for (int k = 0; k < N; k++) {
        const int n = snprintf(config, sizeof(config), "%s%s", base, more[k]);
        write_bytes(folder, "config.json", config, (size_t)n);
        pkv_model *model = open_at(folder, PKV_F32);
        digests[k] = digest_of(model);
        for (int j = 0; j < k; j++) assert_memory_not_equal(digests[j].bytes, digests[k].bytes, 32);
        pkv_model_close(model);
    }
    bytes_free(&b);
    scratch_remove(folder);
}

typedef struct asker {
    const pkv_model *model;
    pthread_barrier_t *start;
    digest got;
} asker;

static void *ask(void *ctx)
{
    asker *a = ctx;
    pthread_barrier_wait(a->start);
    return pkv_model_get_digest(a->model, a->got.bytes) == PKV_OK ? a : NULL;
}

static void many_threads_ask_at_once(void **state)
{
    (void)state;
    enum { N = 8 };
    pkv_model *model = open_stories(STORIES "stories260K.bin", PKV_F32);
    pkv_model *twin = open_stories(STORIES "stories260K.bin", PKV_F32);
    const digest want = digest_of(twin);
    pthread_barrier_t start;
    pthread_t threads[N];
    asker askers[N];
    assert_int_equal(pthread_barrier_init(&start, NULL, N), 0);
    for (int k = 0; k < N; k++) {
        askers[k] = (asker){ .model = model, .start = &start };
        assert_int_equal(pthread_create(&threads[k], NULL, ask, &askers[k]), 0);
    }
    for (int k = 0; k < N; k++) {
        void *done = NULL;
        assert_int_equal(pthread_join(threads[k], &done), 0);
        assert_non_null(done);
        assert_memory_equal(askers[k].got.bytes, want.bytes, 32);
    }
    pthread_barrier_destroy(&start);
    pkv_model_close(model);
    pkv_model_close(twin);
}

/* ---------------------------------------------------------------- refusals, memory */

static void expect_open(const char *path, pkv_dtype dtype, pkv_status want, const char *says)
{
    last_log log;
    pkv_model *model = NULL;
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    cfg.path = path;
    cfg.weights_dtype = dtype;
    cfg.log = log_to(&log);
    const pkv_status status = pkv_model_open(&cfg, &model);
    if (status != want)
        fail_msg("%s, expected %s: %s", pkv_status_name(status), pkv_status_name(want), log.text);
    assert_null(model);
    assert_int_equal(log.n_lines, 1);
    if (!strstr(log.text, says)) fail_msg("the log says \"%s\", expected \"%s\"", log.text, says);
}

static void open_refusals(void **state)
{
    (void)state;
    char folder[512], path[1024];
    bytes b = { 0 };
    pkv_model *model = NULL;
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    assert_int_equal(pkv_model_open(NULL, &model), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_model_open(&cfg, &model), PKV_E_INVALID_ARG); /* no path */
    cfg.path = "x";
    assert_int_equal(pkv_model_open(&cfg, NULL), PKV_E_INVALID_ARG);
    cfg.struct_size = 1;
    assert_int_equal(pkv_model_open(&cfg, &model), PKV_E_ABI);
    pkv_model_close(NULL);

    shared_path(STORIES "stories260K.bin", path, sizeof(path));
    read_bytes(path, &b);
    expect_open(path, PKV_F16, PKV_E_INVALID_ARG, "f16");
    scratch_folder(folder, sizeof(folder));
    expect_open(folder, PKV_F32, PKV_E_IO, "holds no");
    snprintf(path, sizeof(path), "%s/none.gguf", folder);
    expect_open(path, PKV_F32, PKV_E_IO, "none.gguf");
    write_bytes(folder, "short.bin", b.data, b.n - 4);
    snprintf(path, sizeof(path), "%s/short.bin", folder);
    expect_open(path, PKV_F32, PKV_E_FORMAT, "short.bin: byte ");
    bytes_free(&b);
    scratch_remove(folder);
}

static void config_is_missing_or_foreign(void **state)
{
    (void)state;
    static const char foreign[] = "{\"architectures\":[\"MambaForCausalLM\"]}";
    char folder[512], path[1024];
    bytes b = { 0 };
    shared_path(STORIES "model.safetensors", path, sizeof(path));
    read_bytes(path, &b);
    scratch_folder(folder, sizeof(folder));
    write_bytes(folder, "model.safetensors", b.data, b.n);
    expect_open(folder, PKV_F32, PKV_E_IO, "config.json");
    write_bytes(folder, "config.json", foreign, sizeof(foreign) - 1);
    expect_open(folder, PKV_F32, PKV_E_UNSUPPORTED, "MambaForCausalLM");
    bytes_free(&b);
    scratch_remove(folder);
}

static void info_refusals(void **state)
{
    (void)state;
    const pkv_model_shape shape = small_shape();
    pkv_model *model = random_model(&shape, 1, PKV_F32);
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    assert_int_equal(pkv_model_get_info(NULL, &info), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_model_get_info(model, NULL), PKV_E_INVALID_ARG);
    info.struct_size--;
    assert_int_equal(pkv_model_get_info(model, &info), PKV_E_ABI);
    assert_int_equal(info.vocab, 0);
    pkv_model_close(model);
}

static void memory_runs_out(void **state)
{
    (void)state;
    char path[1024];
    const pkv_model_shape shape = small_shape();
    shared_path(STORIES, path, sizeof(path));
    for (int kind = 0; kind < 2; kind++)
        for (long fail_at = 0;; fail_at++) {
            counted_memory memory;
            pkv_model *model = NULL;
            pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
            cfg.path = path;
            cfg.alloc = count_memory(&memory, fail_at);
            const pkv_status status =
                kind == 0 ? pkv_model_open(&cfg, &model)
                          : pkv_model_random(&shape, 1, PKV_F32, NULL, &cfg.alloc, &model);
            if (status == PKV_OK) {
                assert_true(fail_at >= 3);
                assert_true(kind == 1 || fail_at > 10);
                pkv_model_close(model);
                assert_int_equal(memory.n_live, 0);
                break;
            }
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_null(model);
            assert_int_equal(memory.n_live, 0);
            assert_int_equal(memory.live_bytes, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_of_three_formats),
        cmocka_unit_test(bf16_halves_the_matrices),
        cmocka_unit_test(mapped_bytes_are_not_ours),
        cmocka_unit_test(tensors_in_order_of_name),
        cmocka_unit_test(random_weights),
        cmocka_unit_test(random_is_repeatable),
        cmocka_unit_test(random_refusals),
        cmocka_unit_test(digest_sees_every_byte),
        cmocka_unit_test(digest_sees_the_configuration),
        cmocka_unit_test(many_threads_ask_at_once),
        cmocka_unit_test(open_refusals),
        cmocka_unit_test(config_is_missing_or_foreign),
        cmocka_unit_test(info_refusals),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
