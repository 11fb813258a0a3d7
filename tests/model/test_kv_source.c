/* What the files of a model say about its KV: real configurations shortened to the keys that count,
 * GGUF keys, the trained model in all formats, and what is refused. */
#include "model/kv_source.h"
#include "model_test.h"

static pkv_kv_source empty(void)
{
    pkv_kv_source s = PKV_KV_SOURCE_INIT;
    s.geometry = (pkv_kv_geometry)PKV_KV_GEOMETRY_INIT;
    return s;
}

static pkv_status parse(const char *text, last_log *log, pkv_kv_source *out)
{
    const pkv_logger logger = log_to(log);
    *out = empty();
    return pkv__kv_source_json(text, strlen(text), &logger, out);
}

/* ---------------------------------------------------------------- config.json */

typedef struct json_case {
    const char *text;
    int32_t n_layers, n_kv_heads, head_dim, latent, rope, n_window, window;
    int32_t mla_head_dim, n_experts;
    int64_t n_parameters;
    pkv_dtype dtype;
    int n_lines; /* of the log */
} json_case;

static const json_case cases[] = {
    /* Llama-3-8B: 8.03 G parameters */
    { "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":4096,\"intermediate_size\":14336,"
      "\"num_attention_heads\":32,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"
      "\"tie_word_embeddings\":false,\"hidden_act\":\"silu\",\"torch_dtype\":\"bfloat16\","
      "\"vocab_size\":128256,\"max_position_embeddings\":8192}",
      .n_layers = 32, .n_kv_heads = 8, .head_dim = 128, .n_parameters = 8030261248,
      .dtype = PKV_BF16 },
    /* GPT-2: other names, no grouping */
    { "{\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":768,\"n_head\":12,\"n_layer\":12,"
      "\"n_positions\":1024,\"vocab_size\":50257}",
      .n_layers = 12, .n_kv_heads = 12, .head_dim = 64, .dtype = PKV_F16 },
    /* Falcon-7B: one head of K and V */
    { "{\"num_hidden_layers\":32,\"num_attention_heads\":71,\"hidden_size\":4544,"
      "\"multi_query\":true}",
      .n_layers = 32, .n_kv_heads = 1, .head_dim = 64, .dtype = PKV_F16 },
    /* DeepSeek-V3 */
    { "{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":61,\"num_attention_heads\":128,"
      "\"num_key_value_heads\":128,\"hidden_size\":7168,\"kv_lora_rank\":512,"
      "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
      "\"n_routed_experts\":256,\"hidden_act\":\"silu\",\"intermediate_size\":18432,"
      "\"vocab_size\":129280}",
      .n_layers = 61, .latent = 512, .rope = 64, .mla_head_dim = 160, .n_experts = 256,
      .dtype = PKV_F16 },
    /* Mistral 7B, first version: every layer */
    { "{\"model_type\":\"mistral\",\"num_hidden_layers\":32,\"num_attention_heads\":32,"
      "\"num_key_value_heads\":8,\"hidden_size\":4096,\"sliding_window\":4096}",
      .n_layers = 32, .n_kv_heads = 8, .head_dim = 128, .n_window = 32, .window = 4096,
      .dtype = PKV_F16 },
    /* Qwen2: a number that is not used, and one that is from a layer on */
    { "{\"num_hidden_layers\":28,\"num_attention_heads\":28,\"num_key_value_heads\":4,"
      "\"hidden_size\":3584,\"sliding_window\":131072,\"use_sliding_window\":false,"
      "\"max_window_layers\":21}",
      .n_layers = 28, .n_kv_heads = 4, .head_dim = 128, .dtype = PKV_F16 },
    { "{\"num_hidden_layers\":28,\"num_attention_heads\":28,\"num_key_value_heads\":4,"
      "\"hidden_size\":3584,\"sliding_window\":4096,\"use_sliding_window\":true,"
      "\"max_window_layers\":21}",
      .n_layers = 28, .n_kv_heads = 4, .head_dim = 128, .n_window = 7, .window = 4096,
      .dtype = PKV_F16 },
    /* Gemma 2 9B: every other layer; Gemma 3 4B: five of six, inside text_config */
    { "{\"model_type\":\"gemma2\",\"num_hidden_layers\":42,\"num_attention_heads\":16,"
      "\"num_key_value_heads\":8,\"head_dim\":256,\"hidden_size\":3584,\"sliding_window\":4096}",
      .n_layers = 42, .n_kv_heads = 8, .head_dim = 256, .n_window = 21, .window = 4096,
      .dtype = PKV_F16 },
    { "{\"architectures\":[\"Gemma3ForConditionalGeneration\"],\"torch_dtype\":\"bfloat16\","
      "\"text_config\":{\"model_type\":\"gemma3_text\",\"num_hidden_layers\":34,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,"
      "\"hidden_size\":2560,\"sliding_window\":1024,\"sliding_window_pattern\":6}}",
      .n_layers = 34, .n_kv_heads = 4, .head_dim = 256, .n_window = 29, .window = 1024,
      .dtype = PKV_BF16 },
    /* kinds of layers: two of them without K and V, and one that nobody knows */
    { "{\"num_hidden_layers\":6,\"num_attention_heads\":4,\"hidden_size\":256,\"layer_types\":["
      "\"linear_attention\",\"full_attention\",\"sliding_attention\",\"sliding_attention\","
      "\"linear_attention\",\"sliding_attention\"],\"sliding_window\":100}",
      .n_layers = 4, .n_kv_heads = 4, .head_dim = 64, .n_window = 3, .window = 100,
      .dtype = PKV_F16 },
    { "{\"num_hidden_layers\":2,\"num_attention_heads\":4,\"hidden_size\":256,\"layer_types\":["
      "\"full_attention\",\"other\"],\"sliding_window\":100}",
      .n_layers = 2, .n_kv_heads = 4, .head_dim = 64, .dtype = PKV_F16, .n_lines = 1 },
    { "{\"num_hidden_layers\":2,\"num_attention_heads\":4,\"hidden_size\":256,\"layer_types\":["
      "\"full_attention\",\"chunked_attention\"],\"attention_chunk_size\":8192}",
      .n_layers = 2, .n_kv_heads = 4, .head_dim = 64, .n_window = 1, .window = 8192,
      .dtype = PKV_F16 },
    /* Mixtral 8x7B, MiniCPM3 4B: what a Llama-type count would get wrong is not counted */
    { "{\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,"
      "\"hidden_size\":4096,\"intermediate_size\":14336,\"vocab_size\":32000,\"hidden_act\":"
      "\"silu\",\"num_local_experts\":8,\"qk_rope_head_dim\":64}",
      .n_layers = 32, .n_kv_heads = 8, .head_dim = 128, .n_experts = 8, .dtype = PKV_F16 },
    { "{\"num_hidden_layers\":62,\"num_attention_heads\":40,\"hidden_size\":2560,"
      "\"intermediate_size\":6400,\"vocab_size\":73448,\"hidden_act\":\"silu\","
      "\"kv_lora_rank\":256,\"qk_rope_head_dim\":32}",
      .n_layers = 62, .latent = 256, .rope = 32, .dtype = PKV_F16 },
    /* what cannot be taken into account is said */
    { "{\"num_hidden_layers\":2,\"num_attention_heads\":4,\"hidden_size\":256,"
      "\"attn_layer_period\":8,\"is_encoder_decoder\":false,\"num_kv_shared_layers\":0}",
      .n_layers = 2, .n_kv_heads = 4, .head_dim = 64, .dtype = PKV_F16, .n_lines = 1 },
};

static void configurations(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        last_log log;
        pkv_kv_source s;
        const json_case *c = &cases[k];
        const pkv_kv_geometry *g = &s.geometry;
        const pkv_status status = parse(c->text, &log, &s);
        if (status != PKV_OK) fail_msg("%s: %s", c->text, log.text);
        const int32_t got[] = { g->n_layers, g->n_kv_heads,      g->head_dim,      g->latent_dim,
                                g->rope_dim, g->n_window_layers, g->window_tokens, s.mla_head_dim,
                                s.n_experts, (int32_t)g->dtype,  log.n_lines };
        const int32_t want[] = { c->n_layers,  c->n_kv_heads,     c->head_dim, c->latent,
                                 c->rope,      c->n_window,       c->window,   c->mla_head_dim,
                                 c->n_experts, (int32_t)c->dtype, c->n_lines };
        for (size_t m = 0; m < PKV_ARRAY_LEN(got); m++)
            if (got[m] != want[m])
                fail_msg("%s: number %zu is %d, expected %d", c->text, m, got[m], want[m]);
        assert_int_equal(s.n_parameters, c->n_parameters);
        assert_int_equal(s.counted, c->n_parameters > 0);
        assert_string_equal(s.format, "config.json");
    }
}

static void texts(void **state)
{
    (void)state;
    last_log log;
    pkv_kv_source s;
    assert_int_equal(parse("{\"architectures\":[\"X\"],\"model_type\":\"x\",\"license\":\"mit\","
                           "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"head_dim\":8,"
                           "\"torch_dtype\":\"float32\",\"n_ctx\":77,\"vocab_size\":5}",
                           &log, &s),
                     PKV_OK);
    assert_string_equal(s.architecture, "X");
    assert_string_equal(s.license, "mit");
    assert_string_equal(s.weight_type, "f32");
    assert_true(s.context == 77 && s.vocab == 5 && s.n_heads == 4);
    assert_int_equal(s.geometry.dtype, PKV_F32);
    assert_int_equal(parse("{\"model_type\":\"y\\u0001\",\"num_hidden_layers\":2,\"head_dim\":8,"
                           "\"num_key_value_heads\":4,\"dtype\":\"float8_e4m3fn\"}",
                           &log, &s),
                     PKV_OK);
    assert_string_equal(s.architecture, "y?"); /* fit for one line */
    assert_string_equal(s.weight_type, "float8_e4m3fn");
    assert_int_equal(s.geometry.dtype, PKV_F16);
}

static void refused_configurations(void **state)
{
    (void)state;
#define HEADS "\"num_attention_heads\":4,\"hidden_size\":256"
    static const struct {
        const char *text;
        pkv_status status;
        const char *says;
    } bad[] = {
        { "{", PKV_E_FORMAT, "config.json: byte" },
        { "[]", PKV_E_FORMAT, "no JSON object" },
        { "{}", PKV_E_FORMAT,
          "config.json: missing: num_hidden_layers, num_key_value_heads or num_attention_heads, "
          "head_dim or hidden_size" },
        { "{\"num_hidden_layers\":3,\"hidden_size\":64,\"num_attention_heads\":null}", PKV_E_FORMAT,
          "missing: num_key_value_heads or num_attention_heads, head_dim or hidden_size" },
        { "{\"num_hidden_layers\":3,\"kv_lora_rank\":512}", PKV_E_FORMAT,
          "missing: qk_rope_head_dim" },
        { "{\"num_hidden_layers\":3,\"hidden_size\":100,\"num_attention_heads\":3}", PKV_E_FORMAT,
          "missing: head_dim or hidden_size" },
        { "{\"num_hidden_layers\":0," HEADS "}", PKV_E_FORMAT, "num_hidden_layers is 0" },
        { "{\"num_hidden_layers\":513," HEADS "}", PKV_E_FORMAT, "num_hidden_layers is 513" },
        { "{\"num_hidden_layers\":\"3\"," HEADS "}", PKV_E_FORMAT,
          "num_hidden_layers is no whole number" },
        { "{\"num_hidden_layers\":3,\"num_key_value_heads\":[1,2,3]," HEADS "}", PKV_E_UNSUPPORTED,
          "num_key_value_heads: a number for each layer" },
        { "{\"num_hidden_layers\":3,\"layer_types\":[\"full_attention\"]," HEADS "}", PKV_E_FORMAT,
          "layer_types is no list" },
        { "{\"num_hidden_layers\":1,\"layer_types\":[7]," HEADS "}", PKV_E_FORMAT, "layer_types" },
        { "{\"num_hidden_layers\":1,\"layer_types\":[\"sliding_attention\"]," HEADS "}",
          PKV_E_FORMAT, "missing: sliding_window" },
        { "{\"num_hidden_layers\":2,\"layer_types\":[\"sliding_attention\",\"chunked_attention\"],"
          "\"sliding_window\":8," HEADS "}",
          PKV_E_UNSUPPORTED, "windows and with chunks" },
        { "{\"num_hidden_layers\":1,\"layer_types\":[\"mamba\"]," HEADS "}", PKV_E_UNSUPPORTED,
          "no layer has K and V" },
        { "{\"num_hidden_layers\":2,\"sliding_window\":-1," HEADS "}", PKV_E_FORMAT,
          "sliding_window is -1" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        last_log log;
        pkv_kv_source s;
        const pkv_status status = parse(bad[k].text, &log, &s);
        if (status != bad[k].status || !strstr(log.text, bad[k].says))
            fail_msg("%s: %s: %s", bad[k].text, pkv_status_name(status), log.text);
        assert_int_equal(log.n_lines, 1);
    }
}

/* ---------------------------------------------------------------- GGUF */

enum { U32 = 4, BOOL = 7, TEXT = 8, ARRAY = 9 };

static void put_text(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

/* A number; a text; or with `flags` a list of truth values. */
typedef struct key {
    const char *name, *text;
    uint32_t number;
    const char *flags;
} key;

static void put_key(bytes *b, const key *k)
{
    put_text(b, k->name);
    put_u32(b, k->text ? TEXT : k->flags ? ARRAY : U32);
    if (k->text) put_text(b, k->text);
    if (k->flags) {
        put_u32(b, BOOL);
        put_u64(b, strlen(k->flags));
        for (const char *f = k->flags; *f; f++) put(b, *f == '1' ? "\1" : "\0", 1);
    }
    if (!k->text && !k->flags) put_u32(b, k->number);
}

static pkv_status read_gguf(const key *keys, size_t n, last_log *log, pkv_kv_source *out)
{
    bytes b = { 0 };
    const pkv_logger logger = log_to(log);
    put(&b, "GGUF", 4);
    put_u32(&b, 3);
    put_u64(&b, 0);
    put_u64(&b, n);
    for (size_t k = 0; k < n; k++) put_key(&b, &keys[k]);
    put_zeros(&b, 64 - b.n % 32);
    pkv__tensor_file *file = open_memory(&b, "a.gguf");
    *out = empty();
    const pkv_status status = pkv__kv_source_gguf(file, &logger, out);
    pkv__tensor_file_close(file);
    bytes_free(&b);
    return status;
}
#define COMMON                                                                                     \
    { "general.architecture", "x", 0, NULL }, { "x.block_count", NULL, 6, NULL },                  \
        { "x.embedding_length", NULL, 256, NULL },                                                 \
    {                                                                                              \
        "x.attention.head_count", NULL, 4, NULL                                                    \
    }
#define READ(keys, log, out) read_gguf(keys, PKV_ARRAY_LEN(keys), log, out)

static void gguf_keys(void **state)
{
    (void)state;
    last_log log;
    pkv_kv_source s;
    static const key plain[] = { COMMON,
                                 { "general.license", "apache-2.0", 0, NULL },
                                 { "x.attention.head_count_kv", NULL, 2, NULL },
                                 { "x.context_length", NULL, 99, NULL },
                                 { "x.expert_count", NULL, 0, NULL } };
    assert_int_equal(READ(plain, &log, &s), PKV_OK);
    assert_true(s.geometry.n_layers == 6 && s.geometry.n_kv_heads == 2);
    assert_true(s.geometry.head_dim == 64 && s.context == 99 && s.n_experts == 0);
    assert_string_equal(s.license, "apache-2.0");
    assert_string_equal(s.architecture, "x");
    static const key latent[] = { COMMON,
                                  { "x.attention.kv_lora_rank", NULL, 512, NULL },
                                  { "x.rope.dimension_count", NULL, 64, NULL },
                                  { "x.attention.key_length", NULL, 576, NULL },
                                  { "x.attention.value_length", NULL, 512, NULL },
                                  { "x.attention.key_length_mla", NULL, 192, NULL },
                                  { "x.attention.value_length_mla", NULL, 128, NULL } };
    assert_int_equal(READ(latent, &log, &s), PKV_OK);
    assert_true(s.geometry.latent_dim == 512 && s.geometry.rope_dim == 64);
    assert_true(s.geometry.n_kv_heads == 0 && s.geometry.head_dim == 0 && s.mla_head_dim == 160);
    static const key period[] = { COMMON,
                                  { "x.attention.sliding_window", NULL, 128, NULL },
                                  { "x.attention.sliding_window_pattern", NULL, 4, NULL } };
    assert_int_equal(READ(period, &log, &s), PKV_OK);
    assert_true(s.geometry.n_window_layers == 5 && s.geometry.window_tokens == 128);
    static const key list[] = { COMMON,
                                { "x.attention.sliding_window", NULL, 128, NULL },
                                { "x.attention.sliding_window_pattern", NULL, 0, "101010" } };
    assert_int_equal(READ(list, &log, &s), PKV_OK);
    assert_int_equal(s.geometry.n_window_layers, 3);
    assert_int_equal(log.n_lines, 0);
    static const key unsaid[] = { COMMON, { "x.attention.sliding_window", NULL, 128, NULL } };
    assert_int_equal(READ(unsaid, &log, &s), PKV_OK);
    assert_true(s.geometry.n_window_layers == 0 && s.geometry.window_tokens == 0);
    assert_non_null(strstr(log.text, "no key says for which layers"));
}

static void refused_gguf(void **state)
{
    (void)state;
    last_log log;
    pkv_kv_source s;
    static const key bare[] = { { "general.architecture", "x", 0, NULL } };
    assert_int_equal(READ(bare, &log, &s), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "missing: block_count, attention.head_count_kv"));
    static const key nameless[] = { { "general.name", "x", 0, NULL } };
    assert_int_equal(READ(nameless, &log, &s), PKV_E_FORMAT);
    static const key text[] = { COMMON, { "x.context_length", "9", 0, NULL } };
    assert_int_equal(READ(text, &log, &s), PKV_E_FORMAT);
    assert_non_null(strstr(log.text, "x.context_length is no whole number"));
    static const key each[] = { COMMON, { "x.attention.head_count_kv", NULL, 0, "111000" } };
    assert_int_equal(READ(each, &log, &s), PKV_E_UNSUPPORTED);
    static const key dims[] = { COMMON,
                                { "x.attention.key_length", NULL, 96, NULL },
                                { "x.attention.value_length", NULL, 64, NULL } };
    assert_int_equal(READ(dims, &log, &s), PKV_E_UNSUPPORTED);
    static const key long_list[] = { COMMON,
                                     { "x.attention.sliding_window", NULL, 128, NULL },
                                     { "x.attention.sliding_window_pattern", NULL, 0,
                                       "11111111" } };
    assert_int_equal(READ(long_list, &log, &s), PKV_E_FORMAT);
}

/* ---------------------------------------------------------------- files */

static pkv_kv_source read_path(const char *path, last_log *log)
{
    pkv_kv_source s = PKV_KV_SOURCE_INIT;
    const pkv_logger logger = log_to(log);
    const pkv_status status = pkv_kv_source_read(path, &logger, NULL, &s);
    if (status != PKV_OK) fail_msg("%s: %s: %s", path, pkv_status_name(status), log->text);
    return s;
}

static void the_trained_model(void **state)
{
    (void)state;
    static const struct {
        const char *path, *format;
    } files[] = {
        { STORIES, "config.json" },
        { STORIES "config.json", "config.json" },
        { STORIES "model.safetensors", "config.json" },
        { STORIES "stories260K.gguf", "gguf" },
        { STORIES "stories260K.bin", "llama2.c" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        char path[1024];
        last_log log;
        shared_path(files[k].path, path, sizeof(path));
        const pkv_kv_source s = read_path(path, &log);
        const pkv_kv_geometry *g = &s.geometry;
        assert_int_equal(log.n_lines, 0);
        assert_string_equal(s.format, files[k].format);
        assert_true(g->n_layers == 5 && g->n_kv_heads == 4 && g->head_dim == 8);
        assert_true(g->latent_dim == 0 && g->n_window_layers == 0 && g->dtype == PKV_F32);
        assert_true(s.n_heads == 8 && s.hidden == 64 && s.vocab == 512 && s.context == 512);
        assert_int_equal(s.n_parameters, 260032);
        assert_int_equal(s.weight_bytes, 4 * 260032);
        assert_string_equal(s.weight_type, "f32");
        assert_false(s.counted);
    }
}

/* A configuration alone; weights that are broken; several; a folder with nothing. */
static void weights_beside(void **state)
{
    (void)state;
    char folder[512], path[1024];
    last_log log;
    pkv_kv_source s = PKV_KV_SOURCE_INIT;
    scratch_folder(folder, sizeof(folder));
    snprintf(path, sizeof(path), "%s/own.json", folder);
    write_bytes(folder, "own.json", cases[0].text, strlen(cases[0].text));
    s = read_path(path, &log);
    assert_true(s.counted && s.weight_bytes == 0 && s.n_parameters == 8030261248);
    assert_non_null(strstr(log.text, "no weights are read"));
    const pkv_logger logger = log_to(&log);
    assert_int_equal(pkv_kv_source_read(folder, &logger, NULL, &s), PKV_E_IO);
    write_bytes(folder, "config.json", cases[0].text, strlen(cases[0].text));
    assert_true(read_path(folder, &log).counted);
    write_bytes(folder, "a.gguf", "GGUF", 4);
    write_bytes(folder, "b.gguf", "GGUF", 4);
    assert_true(read_path(folder, &log).counted);
    assert_non_null(strstr(log.text, "2 weight files"));
    write_bytes(folder, "model.safetensors", "broken", 6);
    (void)log_to(&log);
    assert_int_equal(pkv_kv_source_read(folder, &logger, NULL, &s), PKV_E_FORMAT);
    assert_int_equal(log.n_lines, 1);
    assert_non_null(strstr(log.text, "model.safetensors: byte"));
    scratch_remove(folder);
}

static void calls(void **state)
{
    (void)state;
    char path[1024];
    pkv_kv_source s = PKV_KV_SOURCE_INIT;
    assert_int_equal(pkv_kv_source_read(NULL, NULL, NULL, &s), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_source_read("x", NULL, NULL, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_source_read("/nowhere/x.gguf", NULL, NULL, &s), PKV_E_IO);
    assert_int_equal(pkv_kv_source_read("/nowhere/x.json", NULL, NULL, &s), PKV_E_IO);
    s.struct_size++;
    assert_int_equal(pkv_kv_source_read("x", NULL, NULL, &s), PKV_E_ABI);
    s.struct_size--;
    static const char *const paths[] = { STORIES, STORIES "config.json", STORIES "stories260K.gguf",
                                         STORIES "stories260K.bin" };
    for (size_t k = 0; k < PKV_ARRAY_LEN(paths); k++) {
        shared_path(paths[k], path, sizeof(path));
        for (long fail_at = 0;; fail_at++) {
            counted_memory memory;
            const pkv_allocator alloc = count_memory(&memory, fail_at);
            const pkv_status status = pkv_kv_source_read(path, NULL, &alloc, &s);
            assert_int_equal(memory.n_live, 0);
            if (status == PKV_OK) {
                assert_true(fail_at > 5);
                break;
            }
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_int_equal(s.n_heads, 0);
        }
        s = (pkv_kv_source)PKV_KV_SOURCE_INIT;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations),         cmocka_unit_test(texts),
        cmocka_unit_test(refused_configurations), cmocka_unit_test(gguf_keys),
        cmocka_unit_test(refused_gguf),           cmocka_unit_test(the_trained_model),
        cmocka_unit_test(weights_beside),         cmocka_unit_test(calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
