/* The trained test model in three formats holds the same tensors and the same configuration. */
#include "model_test.h"

#define N_LAYERS 5
#define HEADS 8
#define KV_HEADS 4
#define HEAD_DIM 8
#define HIDDEN 64

typedef struct three {
    pkv__tensor_file *bin, *safetensors, *gguf;
} three;

static three open_three(void)
{
    char path[1024];
    three t;
    shared_path(STORIES "stories260K.bin", path, sizeof(path));
    t.bin = open_good(path);
    shared_path(STORIES "model.safetensors", path, sizeof(path));
    t.safetensors = open_good(path);
    shared_path(STORIES "stories260K.gguf", path, sizeof(path));
    t.gguf = open_good(path);
    return t;
}

static void close_three(three *t)
{
    pkv__tensor_file_close(t->bin);
    pkv__tensor_file_close(t->safetensors);
    pkv__tensor_file_close(t->gguf);
}

static const pkv__tensor *find(const pkv__tensor_file *file, const char *name)
{
    const pkv__tensor *t = pkv__tensor_file_find(file, name);
    if (!t) fail_msg("%s has no %s", pkv__tensor_file_format(file), name);
    assert_int_equal(t->type, PKV__T_F32);
    assert_string_equal(t->type_name, "F32");
    assert_string_equal(t->name, name);
    return t;
}

static void same_bits(const pkv__tensor *a, const pkv__tensor *b, int64_t rows, int64_t cols)
{
    const pkv__tensor *both[] = { a, b };
    for (int k = 0; k < 2; k++) {
        assert_int_equal(both[k]->n_dims, cols > 0 ? 2 : 1);
        assert_int_equal(both[k]->dims[0], rows);
        assert_int_equal(both[k]->dims[1], cols > 0 ? cols : 1);
        assert_int_equal(both[k]->bytes, 4 * rows * (cols > 0 ? cols : 1));
    }
    if (memcmp(a->data, b->data, a->bytes) != 0) fail_msg("%s and %s differ", a->name, b->name);
}

/* Row r of a head is pair (2i, 2i + 1) in one order, (i, i + dim / 2) in the other. */
static void same_permuted(const pkv__tensor *pairs, const pkv__tensor *halves, int heads)
{
    const size_t row = HIDDEN * sizeof(float);
    assert_int_equal(pairs->bytes, heads * HEAD_DIM * row);
    assert_int_equal(halves->bytes, pairs->bytes);
    assert_memory_not_equal(pairs->data, halves->data, pairs->bytes);
    for (int h = 0; h < heads; h++)
        for (int r = 0; r < HEAD_DIM; r++) {
            const int there = r % 2 * (HEAD_DIM / 2) + r / 2;
            assert_memory_equal(pairs->data + (size_t)(h * HEAD_DIM + r) * row,
                                halves->data + (size_t)(h * HEAD_DIM + there) * row, row);
        }
}

static const struct {
    const char *hf, *gguf;
    int64_t rows, cols;
    int permuted_heads;
} per_layer[] = {
    { "input_layernorm", "attn_norm", HIDDEN, 0, 0 },
    { "self_attn.q_proj", "attn_q", HEADS *HEAD_DIM, HIDDEN, HEADS },
    { "self_attn.k_proj", "attn_k", KV_HEADS *HEAD_DIM, HIDDEN, KV_HEADS },
    { "self_attn.v_proj", "attn_v", KV_HEADS *HEAD_DIM, HIDDEN, 0 },
    { "self_attn.o_proj", "attn_output", HIDDEN, HEADS *HEAD_DIM, 0 },
    { "post_attention_layernorm", "ffn_norm", HIDDEN, 0, 0 },
    { "mlp.gate_proj", "ffn_gate", 172, HIDDEN, 0 },
    { "mlp.down_proj", "ffn_down", HIDDEN, 172, 0 },
    { "mlp.up_proj", "ffn_up", 172, HIDDEN, 0 },
};

static void tensors_are_the_same(void **state)
{
    (void)state;
    three t = open_three();
    assert_string_equal(pkv__tensor_file_format(t.bin), "llama2.c");
    assert_string_equal(pkv__tensor_file_format(t.safetensors), "safetensors");
    assert_string_equal(pkv__tensor_file_format(t.gguf), "gguf");
    const int64_t n = N_LAYERS * (int64_t)PKV_ARRAY_LEN(per_layer) + 2;
    assert_int_equal(pkv__tensor_file_count(t.bin), n);
    assert_int_equal(pkv__tensor_file_count(t.safetensors), n);
    assert_int_equal(pkv__tensor_file_count(t.gguf), n);
    const pkv__tensor *embedding = find(t.bin, "model.embed_tokens.weight");
    same_bits(embedding, find(t.safetensors, "model.embed_tokens.weight"), 512, HIDDEN);
    same_bits(embedding, find(t.gguf, "token_embd.weight"), 512, HIDDEN);
    const pkv__tensor *norm = find(t.bin, "model.norm.weight");
    same_bits(norm, find(t.safetensors, "model.norm.weight"), HIDDEN, 0);
    same_bits(norm, find(t.gguf, "output_norm.weight"), HIDDEN, 0);
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (size_t k = 0; k < PKV_ARRAY_LEN(per_layer); k++) {
            char hf[128], gguf[128];
            snprintf(hf, sizeof(hf), "model.layers.%d.%s.weight", layer, per_layer[k].hf);
            snprintf(gguf, sizeof(gguf), "blk.%d.%s.weight", layer, per_layer[k].gguf);
            const pkv__tensor *a = find(t.bin, hf), *b = find(t.safetensors, hf);
            same_bits(a, find(t.gguf, gguf), per_layer[k].rows, per_layer[k].cols);
            if (per_layer[k].permuted_heads) same_permuted(a, b, per_layer[k].permuted_heads);
            else same_bits(a, b, per_layer[k].rows, per_layer[k].cols);
        }
    close_three(&t);
}

static void tensors_are_sorted(void **state)
{
    (void)state;
    three t = open_three();
    const pkv__tensor_file *files[] = { t.bin, t.safetensors, t.gguf };
    for (int f = 0; f < 3; f++) {
        const int64_t n = pkv__tensor_file_count(files[f]);
        for (int64_t k = 1; k < n; k++)
            assert_true(strcmp(pkv__tensor_file_at(files[f], k - 1)->name,
                               pkv__tensor_file_at(files[f], k)->name) < 0);
        assert_null(pkv__tensor_file_at(files[f], n));
        assert_null(pkv__tensor_file_at(files[f], -1));
        assert_null(pkv__tensor_file_find(files[f], "lm_head.weight"));
        assert_null(pkv__tensor_file_find(files[f], ""));
    }
    close_three(&t);
}

static void metadata(void **state)
{
    (void)state;
    three t = open_three();
    pkv__meta_array list;
    const pkv__meta *m = pkv__tensor_file_meta(t.bin, "llama2c.seq_len");
    assert_true(m && m->type == PKV__META_INT && m->i == 512);
    m = pkv__tensor_file_meta(t.safetensors, "format");
    assert_true(m && m->type == PKV__META_TEXT && m->text_bytes == 2);
    assert_string_equal(m->text, "pt");
    m = pkv__tensor_file_meta(t.gguf, "general.architecture");
    assert_true(m && m->type == PKV__META_TEXT);
    assert_string_equal(m->text, "llama");
    m = pkv__tensor_file_meta(t.gguf, "llama.rope.freq_base");
    assert_true(m && m->type == PKV__META_REAL && m->d == 10000);
    assert_null(pkv__tensor_file_meta(t.gguf, "tokenizer.ggml.tokens"));
    assert_true(pkv__tensor_file_array(t.gguf, "tokenizer.ggml.tokens", &list));
    assert_int_equal(list.gguf_type, 8);
    assert_int_equal(list.n, 512);
    assert_true(pkv__tensor_file_array(t.gguf, "tokenizer.ggml.scores", &list));
    assert_int_equal(list.gguf_type, 6);
    assert_int_equal(list.bytes, 512 * 4);
    assert_false(pkv__tensor_file_array(t.gguf, "general.architecture", &list));
    assert_false(pkv__tensor_file_array(t.bin, "none", &list));
    close_three(&t);
}

/* ---------------------------------------------------------------- configuration */

static pkv__model_config config_of(const char *name, const pkv__tensor_file *file)
{
    last_log log;
    const pkv_logger logger = log_to(&log);
    char path[1024];
    pkv__model_config c;
    shared_path(name, path, sizeof(path));
    const pkv_status status = pkv__model_config_read(path, file, &logger, NULL, &c);
    if (status != PKV_OK) fail_msg("%s: %s %s", name, pkv_status_name(status), log.text);
    return c;
}

/* Figures of the README of the model. */
static void check_config(const pkv__model_config *c, bool interleaved, int32_t n_eos)
{
    assert_string_equal(c->architecture, "llama");
    assert_int_equal(c->vocab, 512);
    assert_int_equal(c->hidden, HIDDEN);
    assert_int_equal(c->n_layers, N_LAYERS);
    assert_int_equal(c->n_heads, HEADS);
    assert_int_equal(c->n_kv_heads, KV_HEADS);
    assert_int_equal(c->head_dim, HEAD_DIM);
    assert_int_equal(c->ffn, 172);
    assert_int_equal(c->context, 512);
    assert_true((float)c->norm_eps == 1e-5f);
    assert_true(c->tied_head);
    assert_int_equal(c->interleaved_pairs, interleaved);
    assert_int_equal(c->rope.kind, PKV__ROPE_DEFAULT);
    assert_true(c->rope.theta == 10000 && c->rope.factor == 1);
    assert_int_equal(c->rope.rotary_dim, HEAD_DIM);
    assert_int_equal(c->bos, 1);
    assert_int_equal(c->n_eos, n_eos); /* a text of run.c ends at BOS as well */
    assert_int_equal(c->eos[0], n_eos == 2 ? 1 : 2);
    assert_int_equal(c->eos[n_eos - 1], 2);
}

static void config_is_the_same(void **state)
{
    (void)state;
    three t = open_three();
    pkv__model_config c = config_of(STORIES "stories260K.bin", t.bin);
    check_config(&c, true, 2);
    c = config_of(STORIES "stories260K.gguf", t.gguf);
    check_config(&c, true, 1);
    c = config_of(STORIES "model.safetensors", t.safetensors);
    check_config(&c, false, 1);
    c = config_of(STORIES, NULL); /* the folder */
    check_config(&c, false, 1);
    close_three(&t);
}

static void folder_means_safetensors(void **state)
{
    (void)state;
    char path[1024];
    shared_path(STORIES, path, sizeof(path));
    pkv__tensor_file *file = open_good(path);
    assert_string_equal(pkv__tensor_file_format(file), "safetensors");
    pkv__tensor_file_close(file);
}

static void reading_is_mapping(void **state)
{
    (void)state;
    char path[1024];
    last_log log;
    counted_memory memory;
    pkv__tensor_file *read = NULL;
    shared_path(STORIES "stories260K.gguf", path, sizeof(path));
    pkv__tensor_file *mapped = open_good(path);
    const pkv__tensor_file_config cfg = {
        .path = path, .no_mmap = true, .log = log_to(&log), .alloc = count_memory(&memory, -1)
    };
    assert_int_equal(pkv__tensor_file_open(&cfg, &read), PKV_OK);
    assert_true(memory.live_bytes > 1054400); /* the file is in it */
    for (int64_t k = 0; k < pkv__tensor_file_count(mapped); k++) {
        const pkv__tensor *a = pkv__tensor_file_at(mapped, k), *b = pkv__tensor_file_at(read, k);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    pkv__tensor_file_close(read);
    pkv__tensor_file_close(mapped);
    assert_int_equal(memory.n_live, 0);
    assert_int_equal(memory.live_bytes, 0);
}

/* Vocabularies that other programs wrote: no tensors, long lists, architectures that are not ours.
 */
static void vocabularies(void **state)
{
    (void)state;
    static const struct {
        const char *name, *architecture;
        uint64_t n_tokens;
    } files[] = { { "tokenizers/llamacpp-suite/ggml-vocab-gpt-2.gguf", "gpt2", 50257 },
                  { "tokenizers/llamacpp-suite/ggml-vocab-phi-3.gguf", "phi3", 32064 } };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        char path[1024];
        last_log log;
        const pkv_logger logger = log_to(&log);
        pkv__meta_array list;
        pkv__model_config c;
        shared_path(files[k].name, path, sizeof(path));
        pkv__tensor_file *file = open_good(path);
        assert_int_equal(pkv__tensor_file_count(file), 0);
        assert_true(pkv__tensor_file_array(file, "tokenizer.ggml.tokens", &list));
        assert_int_equal(list.n, files[k].n_tokens);
        assert_int_equal(pkv__model_config_read(path, file, &logger, NULL, &c), PKV_E_UNSUPPORTED);
        assert_non_null(strstr(log.text, files[k].architecture));
        pkv__tensor_file_close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_the_same),
        cmocka_unit_test(tensors_are_sorted),
        cmocka_unit_test(metadata),
        cmocka_unit_test(config_is_the_same),
        cmocka_unit_test(folder_means_safetensors),
        cmocka_unit_test(reading_is_mapping),
        cmocka_unit_test(vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
