/* Configuration from GGUF keys of the architecture "llama". */
#include "model_test.h"

#define NAME "a.gguf"

enum { U32 = 4, F32 = 6, TEXT = 8, ARRAY = 9 };

/* One key; a value of text if `text`, of float32 if `is_real`, else of u32. */
typedef struct key {
    const char *name, *text;
    double number;
    bool is_real;
} key;

static const key base[] = {
    { "general.architecture", "llama", 0, false },
    { "llama.embedding_length", NULL, 64, false },
    { "llama.feed_forward_length", NULL, 172, false },
    { "llama.block_count", NULL, 5, false },
    { "llama.attention.head_count", NULL, 8, false },
    { "llama.attention.layer_norm_rms_epsilon", NULL, 1e-5, true },
    { "llama.context_length", NULL, 2048, false },
    { "llama.vocab_size", NULL, 512, false },
};

static void put_text(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

static void put_key(bytes *b, const key *k)
{
    put_text(b, k->name);
    put_u32(b, k->text ? TEXT : k->is_real ? F32 : U32);
    if (k->text) put_text(b, k->text);
    else if (k->is_real) put(b, &(float){ (float)k->number }, 4);
    else put_u32(b, (uint32_t)k->number);
}

/* The base with changed and added keys (an empty name: the key given as text is left out), and one
 * tensor of floats if it has a name. */
static pkv__tensor_file *build(bytes *b, const key *changes, size_t n, const char *tensor,
                               const float *floats, size_t n_floats)
{
    bytes keys = { 0 };
    uint64_t n_keys = 0;
    for (size_t k = 0; k < PKV_ARRAY_LEN(base); k++) {
        bool changed = false;
        for (size_t m = 0; m < n; m++)
            changed |=
                strcmp(changes[m].name[0] ? changes[m].name : changes[m].text, base[k].name) == 0;
        if (changed) continue;
        put_key(&keys, &base[k]);
        n_keys++;
    }
    for (size_t m = 0; m < n; m++) {
        if (!changes[m].name[0]) continue;
        put_key(&keys, &changes[m]);
        n_keys++;
    }
    put(b, "GGUF", 4);
    put_u32(b, 3);
    put_u64(b, tensor != NULL);
    put_u64(b, n_keys);
    put(b, keys.data, keys.n);
    bytes_free(&keys);
    if (tensor) {
        put_text(b, tensor);
        put_u32(b, 1), put_u64(b, n_floats), put_u32(b, 0), put_u64(b, 0);
        put_zeros(b, (32 - b->n % 32) % 32);
        put(b, floats, n_floats * sizeof(float));
    }
    return open_memory(b, NAME);
}

static pkv__model_config good(const key *changes, size_t n, const char *tensor, const float *floats,
                              size_t n_floats)
{
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv__model_config c;
    bytes b = { 0 };
    pkv__tensor_file *file = build(&b, changes, n, tensor, floats, n_floats);
    const pkv_status status = pkv__model_config_read(NAME, file, &logger, NULL, &c);
    if (status != PKV_OK) fail_msg("%s %s", pkv_status_name(status), log.text);
    pkv__tensor_file_close(file);
    bytes_free(&b);
    return c;
}

static void expect_bad(const key *changes, size_t n, const char *tensor, const float *floats,
                       size_t n_floats, pkv_status want, const char *says)
{
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv__model_config c;
    bytes b = { 0 };
    pkv__tensor_file *file = build(&b, changes, n, tensor, floats, n_floats);
    const pkv_status status = pkv__model_config_read(NAME, file, &logger, NULL, &c);
    if (status != want || !strstr(log.text, says))
        fail_msg("%s: %s \"%s\", expected %s \"%s\"", n ? changes[0].name : tensor,
                 pkv_status_name(status), log.text, pkv_status_name(want), says);
    pkv__tensor_file_close(file);
    bytes_free(&b);
}

static void defaults(void **state)
{
    (void)state;
    const pkv__model_config c = good(NULL, 0, NULL, NULL, 0);
    assert_string_equal(c.architecture, "llama");
    assert_int_equal(c.n_kv_heads, 8);
    assert_int_equal(c.head_dim, 8);
    assert_true(c.norm_eps == (double)1e-5f);
    assert_true(c.interleaved_pairs && c.tied_head);
    assert_true(c.rope.kind == PKV__ROPE_DEFAULT && c.rope.theta == 10000);
    assert_true(c.rope.rotary_dim == 8 && c.rope.original_context == 2048);
    assert_true(c.bos == -1 && c.n_eos == 0);
}

static void more_keys(void **state)
{
    (void)state;
    static const key more[] = {
        { "llama.attention.head_count_kv", NULL, 2, false },
        { "llama.attention.key_length", NULL, 16, false },
        { "llama.attention.value_length", NULL, 16, false },
        { "llama.rope.dimension_count", NULL, 8, false },
        { "llama.rope.freq_base", NULL, 500000, true },
        { "tokenizer.ggml.bos_token_id", NULL, 5, false },
        { "tokenizer.ggml.eos_token_id", NULL, 9, false },
        { "tokenizer.ggml.eot_token_id", NULL, 7, false },
        { "llama.expert_count", NULL, 0, false },
    };
    static const float head[] = { 1, 2 };
    const pkv__model_config c = good(more, PKV_ARRAY_LEN(more), "output.weight", head, 2);
    assert_true(c.n_kv_heads == 2 && c.head_dim == 16 && c.rope.rotary_dim == 8);
    assert_true(c.rope.theta == 500000 && c.bos == 5);
    assert_true(c.n_eos == 2 && c.eos[0] == 7 && c.eos[1] == 9);
    assert_false(c.tied_head);
}

static void scalings(void **state)
{
    (void)state;
    static const key linear[] = { { "llama.rope.scaling.type", "linear", 0, false },
                                  { "llama.rope.scaling.factor", NULL, 4, true } };
    pkv__model_config c = good(linear, 2, NULL, NULL, 0);
    assert_true(c.rope.kind == PKV__ROPE_LINEAR && c.rope.factor == 4);
    static const key older[] = { { "llama.rope.scale_linear", NULL, 2, true } };
    c = good(older, 1, NULL, NULL, 0);
    assert_true(c.rope.kind == PKV__ROPE_LINEAR && c.rope.factor == 2);
    static const key yarn[] = { { "llama.rope.scaling.type", "yarn", 0, false },
                                { "llama.rope.scaling.factor", NULL, 4, true },
                                { "llama.rope.scaling.original_context_length", NULL, 512,
                                  false } };
    c = good(yarn, 3, NULL, NULL, 0);
    assert_true(c.rope.kind == PKV__ROPE_YARN && c.rope.factor == 4);
    assert_int_equal(c.rope.original_context, 512);
    static const key none[] = { { "llama.rope.scaling.type", "none", 0, false } };
    c = good(none, 1, NULL, NULL, 0);
    assert_int_equal(c.rope.kind, PKV__ROPE_DEFAULT);
}

/* Llama 3: one divisor for each pair. */
static void divisors(void **state)
{
    (void)state;
    static const float list[] = { 1, 1, 2.5f, 8 };
    const pkv__model_config c = good(NULL, 0, "rope_freqs.weight", list, 4);
    assert_int_equal(c.rope.kind, PKV__ROPE_LONGROPE);
    assert_true(c.rope.n_short == 4 && c.rope.n_long == 4);
    assert_true(c.rope.attention_factor == 1 && c.rope.factor == 1);
    for (int k = 0; k < 4; k++)
        assert_true(c.rope.short_factor[k] == list[k] && c.rope.long_factor[k] == list[k]);
    static const float bad[] = { 1, 1, 0, NAN };
    expect_bad(NULL, 0, "rope_freqs.weight", list, 3, PKV_E_FORMAT, "rope_freqs");
    expect_bad(NULL, 0, "rope_freqs.weight", bad, 4, PKV_E_FORMAT, "above 0");
}

static const struct {
    key change;
    pkv_status status;
    const char *says;
} changes[] = {
    { { "general.architecture", "qwen2", 0, false }, PKV_E_UNSUPPORTED, "qwen2" },
    { { "general.architecture", NULL, 1, false }, PKV_E_FORMAT, "general.architecture" },
    { { "", "general.architecture", 0, false }, PKV_E_FORMAT, "general.architecture" },
    { { "", "llama.block_count", 0, false }, PKV_E_FORMAT, "llama.block_count" },
    { { "", "llama.vocab_size", 0, false }, PKV_E_FORMAT, "vocabulary" },
    { { "", "llama.attention.layer_norm_rms_epsilon", 0, false }, PKV_E_FORMAT, "epsilon" },
    { { "llama.block_count", NULL, 0, false }, PKV_E_FORMAT, "llama.block_count is 0" },
    { { "llama.block_count", NULL, 4294967295.0, false }, PKV_E_FORMAT, "4294967295" },
    { { "llama.block_count", NULL, 5, true }, PKV_E_FORMAT, "llama.block_count" },
    { { "llama.block_count", "5", 0, false }, PKV_E_FORMAT, "llama.block_count" },
    { { "llama.embedding_length", NULL, 63, false }, PKV_E_FORMAT, "multiple" },
    { { "llama.attention.head_count_kv", NULL, 3, false }, PKV_E_FORMAT, "multiple" },
    { { "llama.attention.value_length", NULL, 4, false }, PKV_E_UNSUPPORTED, "value_length" },
    { { "llama.rope.dimension_count", NULL, 16, false }, PKV_E_FORMAT, "dimension_count" },
    { { "llama.rope.dimension_count", NULL, 3, false }, PKV_E_FORMAT, "dimension_count" },
    { { "llama.rope.freq_base", NULL, NAN, true }, PKV_E_FORMAT, "rope_theta" },
    { { "llama.attention.layer_norm_rms_epsilon", NULL, NAN, true }, PKV_E_FORMAT, "epsilon" },
    { { "llama.rope.scaling.type", "longrope", 0, false }, PKV_E_UNSUPPORTED, "longrope" },
    { { "llama.rope.scaling.factor", NULL, -2, true }, PKV_E_FORMAT, "factor" },
    { { "llama.rope.scaling.attn_factor", NULL, 1.5, true }, PKV_E_UNSUPPORTED, "attn_factor" },
    { { "llama.expert_count", NULL, 8, false }, PKV_E_UNSUPPORTED, "expert_count" },
    { { "llama.attention.sliding_window", NULL, 4096, false },
      PKV_E_UNSUPPORTED,
      "sliding_window" },
    { { "llama.logit_scale", NULL, 0.5, true }, PKV_E_UNSUPPORTED, "logit_scale" },
    { { "llama.expert_count", NULL, NAN, true }, PKV_E_UNSUPPORTED, "expert_count" },
    { { "tokenizer.ggml.bos_token_id", NULL, 512, false }, PKV_E_FORMAT, "bos" },
    { { "tokenizer.ggml.eos_token_id", NULL, 512, false }, PKV_E_FORMAT, "512" },
};

static void changes_refused(void **state)
{
    (void)state;
    static const float bias[] = { 1 };
    for (size_t k = 0; k < PKV_ARRAY_LEN(changes); k++)
        expect_bad(&changes[k].change, 1, NULL, NULL, 0, changes[k].status, changes[k].says);
    expect_bad(NULL, 0, "blk.0.attn_q.bias", bias, 1, PKV_E_UNSUPPORTED, "blk.0.attn_q.bias");
}

/* Without the key, the tokens or the embedding say how many there are. */
static void size_of_the_vocabulary(void **state)
{
    (void)state;
    static const key without[] = { { "", "llama.vocab_size", 0, false } };
    static const float embedding[] = { 1, 2, 3 };
    const pkv__model_config c = good(without, 1, "token_embd.weight", embedding, 3);
    assert_int_equal(c.vocab, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),        cmocka_unit_test(more_keys),
        cmocka_unit_test(scalings),        cmocka_unit_test(divisors),
        cmocka_unit_test(changes_refused), cmocka_unit_test(size_of_the_vocabulary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
