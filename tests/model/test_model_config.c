/* Configuration from config.json and from GGUF keys: defaults, both styles of keys, unions, and
 * what is refused by name. */
#include "model_test.h"

#define BASE                                                                                       \
    "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,"        \
    "\"intermediate_size\":172,\"num_hidden_layers\":5,\"num_attention_heads\":8,"                 \
    "\"vocab_size\":512,\"max_position_embeddings\":2048"
#define LLAMA3                                                                                     \
    "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"                             \
    "\"original_max_position_embeddings\":1024"

static pkv_status parse(const char *config, const char *generation, last_log *log,
                        pkv__model_config *c)
{
    const pkv_logger logger = log_to(log);
    return pkv__config_parse_json(config, strlen(config), generation,
                                  generation ? strlen(generation) : 0, &logger, c);
}

static pkv__model_config good(const char *config, const char *generation)
{
    last_log log;
    pkv__model_config c;
    const pkv_status status = parse(config, generation, &log, &c);
    if (status != PKV_OK) fail_msg("%s: %s %s", config, pkv_status_name(status), log.text);
    return c;
}

static void expect_bad(const char *config, const char *generation, pkv_status want,
                       const char *says)
{
    last_log log;
    pkv__model_config c;
    memset(&c, 0x5a, sizeof(c));
    const pkv__model_config before = c;
    const pkv_status status = parse(config, generation, &log, &c);
    if (status != want || !strstr(log.text, says) || log.n_lines != 1)
        fail_msg("%s: %s \"%s\", expected %s \"%s\"", config, pkv_status_name(status), log.text,
                 pkv_status_name(want), says);
    assert_memory_equal(&c, &before, sizeof(c));
}

/* ---------------------------------------------------------------- good ones */

static void defaults(void **state)
{
    (void)state;
    const pkv__model_config c = good("{" BASE "}", NULL);
    assert_string_equal(c.architecture, "llama");
    assert_int_equal(c.n_kv_heads, 8);
    assert_int_equal(c.head_dim, 8);
    assert_true(c.norm_eps == 1e-6);
    assert_false(c.tied_head);
    assert_false(c.interleaved_pairs);
    assert_int_equal(c.rope.kind, PKV__ROPE_DEFAULT);
    assert_true(c.rope.theta == 10000);
    assert_int_equal(c.rope.rotary_dim, 8);
    assert_int_equal(c.bos, -1);
    assert_int_equal(c.n_eos, 0);
}

static void null_is_missing(void **state)
{
    (void)state;
    const pkv__model_config c =
        good("{" BASE ",\"head_dim\":null,\"num_key_value_heads\":null,\"rope_scaling\":null,"
             "\"rope_parameters\":null,\"sliding_window\":null,\"bos_token_id\":null,"
             "\"eos_token_id\":null,\"quantization_config\":null,\"attention_bias\":false}",
             "{\"eos_token_id\":null}");
    assert_int_equal(c.head_dim, 8);
    assert_int_equal(c.n_kv_heads, 8);
}

static void head_dim_is_its_own(void **state)
{
    (void)state;
    const pkv__model_config c =
        good("{" BASE ",\"head_dim\":32,\"num_key_value_heads\":2,\"rope_theta\":5e5,"
             "\"partial_rotary_factor\":0.5,\"tie_word_embeddings\":true}",
             NULL);
    assert_int_equal(c.head_dim, 32);
    assert_int_equal(c.n_kv_heads, 2);
    assert_true(c.rope.theta == 500000);
    assert_int_equal(c.rope.rotary_dim, 16);
    assert_true(c.tied_head);
}

static void check_llama3(const pkv__model_config *c)
{
    assert_int_equal(c->rope.kind, PKV__ROPE_LLAMA3);
    assert_true(c->rope.theta == 500000 && c->rope.factor == 8);
    assert_true(c->rope.low_freq_factor == 1 && c->rope.high_freq_factor == 4);
    assert_int_equal(c->rope.original_context, 1024);
}

/* Old: rope_theta, rope_scaling with type or rope_type. New: rope_parameters. */
static void both_styles_of_keys(void **state)
{
    (void)state;
    static const char *const styles[] = {
        "{" BASE ",\"rope_theta\":500000.0,\"rope_scaling\":{\"type\":\"llama3\"," LLAMA3 "}}",
        "{" BASE ",\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\"," LLAMA3 "}}",
        "{" BASE ",\"rope_theta\":500000,\"rope_scaling\":{\"rope_type\":\"llama3\","
        "\"type\":\"llama3\"," LLAMA3 "},\"torch_dtype\":\"bfloat16\"}",
        "{" BASE ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500000.0," LLAMA3
        "},\"dtype\":\"bfloat16\"}",
        "{" BASE ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500000.0," LLAMA3
        "},\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\"," LLAMA3
        "},\"dtype\":\"bfloat16\",\"torch_dtype\":\"bfloat16\"}",
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(styles); k++) {
        const pkv__model_config c = good(styles[k], NULL);
        check_llama3(&c);
    }
}

static void other_scalings(void **state)
{
    (void)state;
    pkv__model_config c =
        good("{" BASE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", NULL);
    assert_true(c.rope.kind == PKV__ROPE_LINEAR && c.rope.factor == 2);
    c = good("{" BASE ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4.0}}", NULL);
    assert_true(c.rope.kind == PKV__ROPE_DYNAMIC && c.rope.original_context == 2048);
    c = good("{" BASE ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"beta_fast\":16,"
             "\"attention_factor\":1.25,\"original_max_position_embeddings\":512}}",
             NULL);
    assert_true(c.rope.kind == PKV__ROPE_YARN && c.rope.factor == 4 && c.rope.beta_fast == 16);
    assert_true(c.rope.beta_slow == 1 && c.rope.attention_factor == 1.25);
    assert_int_equal(c.rope.original_context, 512);
    c = good("{" BASE ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"mscale\":0.707,"
             "\"mscale_all_dim\":1,\"original_max_position_embeddings\":512}}",
             NULL);
    assert_true(c.rope.factor == 4); /* 2048 / 512 */
    assert_true(c.rope.mscale == 0.707 && c.rope.mscale_all_dim == 1);
    c = good("{" BASE ",\"original_max_position_embeddings\":1024,\"rope_scaling\":{\"type\":"
             "\"longrope\",\"short_factor\":[1,1,1,1.5],\"long_factor\":[1,2,3,4]}}",
             NULL);
    assert_true(c.rope.kind == PKV__ROPE_LONGROPE && c.rope.factor == 2);
    assert_true(c.rope.n_short == 4 && c.rope.n_long == 4);
    assert_true(c.rope.short_factor[3] == 1.5 && c.rope.long_factor[3] == 4);
    c = good("{" BASE ",\"original_max_position_embeddings\":1024,\"rope_scaling\":{\"type\":"
             "\"longrope\",\"factor\":8,\"short_factor\":[1,1,1,1],\"long_factor\":[1,2,3,4]}}",
             NULL);
    assert_true(c.rope.factor == 8); /* what is said wins over 2048 / 1024 */
    c = good("{" BASE ",\"rope_scaling\":{\"rope_type\":\"default\"}}", NULL);
    assert_int_equal(c.rope.kind, PKV__ROPE_DEFAULT);
}

static void eos_is_a_union(void **state)
{
    (void)state;
    pkv__model_config c = good("{" BASE ",\"bos_token_id\":500,\"eos_token_id\":[509,501]}",
                               "{\"bos_token_id\":7,\"eos_token_id\":[501,500,508]}");
    static const int32_t want[] = { 500, 501, 508, 509 };
    assert_int_equal(c.n_eos, 4);
    assert_memory_equal(c.eos, want, sizeof(want));
    assert_int_equal(c.bos, 500);
    c = good("{" BASE ",\"eos_token_id\":2}", "{\"bos_token_id\":1,\"temperature\":0.6}");
    assert_true(c.n_eos == 1 && c.eos[0] == 2 && c.bos == 1);
}

static void mistral(void **state)
{
    (void)state;
    static const char rest[] =
        "\"hidden_size\":64,\"intermediate_size\":172,\"num_hidden_layers\":5,"
        "\"num_attention_heads\":8,\"vocab_size\":512,\"max_position_embeddings\":2048";
    char config[1024];
    static const struct {
        const char *head;
        pkv_status status;
        const char *says;
    } cases[] = {
        { "\"architectures\":[\"MistralForCausalLM\"],\"model_type\":\"mistral\"", PKV_OK, "" },
        { "\"architectures\":[\"MistralForCausalLM\"],\"sliding_window\":null", PKV_OK, "" },
        { "\"model_type\":\"mistral\"", PKV_OK, "" },
        { "\"model_type\":\"mistral\",\"sliding_window\":4096,\"use_sliding_window\":false", PKV_OK,
          "" },
        { "\"model_type\":\"mistral\",\"sliding_window\":4096", PKV_E_UNSUPPORTED,
          "sliding_window" },
        { "\"architectures\":[\"Gemma3ForCausalLM\"],\"model_type\":\"gemma3\"", PKV_E_UNSUPPORTED,
          "Gemma3ForCausalLM" },
        { "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"mistral\"", PKV_E_UNSUPPORTED,
          "mistral" },
        { "\"model_type\":\"gpt2\"", PKV_E_UNSUPPORTED, "gpt2" },
        { "\"architectures\":[]", PKV_E_FORMAT, "architectures" },
        { "\"architectures\":[\"LlamaForCausalLM\",\"LlamaForCausalLM\"]", PKV_E_FORMAT,
          "architectures" },
        { "\"architectures\":\"LlamaForCausalLM\"", PKV_E_FORMAT, "architectures" },
        { "\"model_type\":7", PKV_E_FORMAT, "model_type" },
        { "\"x\":0", PKV_E_FORMAT, "model_type" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        snprintf(config, sizeof(config), "{%s,%s}", cases[k].head, rest);
        if (cases[k].status == PKV_OK) good(config, NULL);
        else expect_bad(config, NULL, cases[k].status, cases[k].says);
    }
}

/* ---------------------------------------------------------------- refused */

/* Keys added to, or put over, a good file: a key twice is not JSON for us, so the good one gives
 * way. */
static const struct {
    const char *without, *with;
    pkv_status status;
    const char *says;
} changes[] = {
    { "hidden_size", NULL, PKV_E_FORMAT, "hidden_size is missing" },
    { "vocab_size", "null", PKV_E_FORMAT, "vocab_size is missing" },
    { "num_hidden_layers", "0", PKV_E_FORMAT, "num_hidden_layers is 0" },
    { "num_hidden_layers", "513", PKV_E_FORMAT, "num_hidden_layers is 513" },
    { "num_hidden_layers", "-1", PKV_E_FORMAT, "num_hidden_layers is -1" },
    { "num_hidden_layers", "4294967301", PKV_E_FORMAT, "num_hidden_layers is 4294967301" },
    { "num_hidden_layers", "5.0", PKV_E_FORMAT, "num_hidden_layers is no whole number" },
    { "num_hidden_layers", "\"5\"", PKV_E_FORMAT, "num_hidden_layers is no whole number" },
    { "num_hidden_layers", "99999999999999999999", PKV_E_FORMAT, "not JSON: too big" },
    { "vocab_size", "16777217", PKV_E_FORMAT, "vocab_size is 16777217" },
    { "hidden_size", "63", PKV_E_FORMAT, "no multiple" },
    { "num_attention_heads", "7", PKV_E_FORMAT, "no multiple" },
    { "num_key_value_heads", "3", PKV_E_FORMAT, "no multiple" },
    { "num_key_value_heads", "16", PKV_E_FORMAT, "no multiple" },
    { "head_dim", "1024", PKV_E_FORMAT, "head_dim is 1024" },
    { "head_dim", "7", PKV_E_FORMAT, "rotary dimension" },
    { "rms_norm_eps", "0", PKV_E_FORMAT, "epsilon" },
    { "rms_norm_eps", "-1e-5", PKV_E_FORMAT, "epsilon" },
    { "rms_norm_eps", "\"1e-5\"", PKV_E_FORMAT, "rms_norm_eps" },
    { "rope_theta", "0", PKV_E_FORMAT, "rope_theta" },
    { "rope_theta", "\"x\"", PKV_E_FORMAT, "rope_theta" },
    { "tie_word_embeddings", "1", PKV_E_FORMAT, "tie_word_embeddings" },
    { "bos_token_id", "512", PKV_E_FORMAT, "bos_token_id" },
    { "bos_token_id", "-1", PKV_E_FORMAT, "bos_token_id" },
    { "eos_token_id", "512", PKV_E_FORMAT, "512" },
    { "eos_token_id", "[1,\"2\"]", PKV_E_FORMAT, "eos_token_id" },
    { "eos_token_id", "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", PKV_E_LIMIT, "16" },
    { "hidden_act", "\"gelu\"", PKV_E_UNSUPPORTED, "hidden_act" },
    { "attention_bias", "true", PKV_E_UNSUPPORTED, "attention_bias" },
    { "mlp_bias", "true", PKV_E_UNSUPPORTED, "mlp_bias" },
    { "quantization_config", "{\"bits\":4}", PKV_E_UNSUPPORTED, "quantization_config" },
    { "num_local_experts", "8", PKV_E_UNSUPPORTED, "num_local_experts" },
    { "sliding_window", "4096", PKV_E_UNSUPPORTED, "sliding_window" },
    { "logit_scale", "0.5", PKV_E_UNSUPPORTED, "logit_scale" },
    { "final_logit_softcapping", "30.0", PKV_E_UNSUPPORTED, "final_logit_softcapping" },
    { "layer_types", "[\"full_attention\",\"sliding_attention\"]", PKV_E_UNSUPPORTED,
      "layer_types" },
    { "partial_rotary_factor", "0.9", PKV_E_FORMAT, "rotary dimension" },
    { "partial_rotary_factor", "1.5", PKV_E_FORMAT, "partial_rotary_factor" },
    { "rope_scaling", "7", PKV_E_FORMAT, "rope_scaling" },
    { "rope_scaling", "{\"type\":\"cubic\",\"factor\":2}", PKV_E_UNSUPPORTED, "cubic" },
    { "rope_scaling", "{\"type\":7}", PKV_E_FORMAT, "rope_type" },
    { "rope_scaling", "{\"factor\":2}", PKV_E_FORMAT, "no rope_type" },
    { "rope_scaling", "{\"type\":\"linear\"}", PKV_E_FORMAT, "factor is missing" },
    { "rope_scaling", "{\"type\":\"linear\",\"factor\":\"2\"}", PKV_E_FORMAT,
      "factor is no number" },
    { "rope_scaling", "{\"type\":\"linear\",\"factor\":0.5}", PKV_E_FORMAT, "rope factor" },
    { "rope_scaling", "{\"type\":\"linear\",\"rope_type\":\"yarn\",\"factor\":2}", PKV_E_FORMAT,
      "disagree" },
    { "rope_scaling", "{\"type\":\"linear\",\"factor\":2,\"mrope_section\":[1,2]}",
      PKV_E_UNSUPPORTED, "rope_scaling.mrope_section" },
    { "rope_parameters", "{\"full_attention\":{\"rope_theta\":1}}", PKV_E_UNSUPPORTED,
      "rope_parameters.full_attention" },
    { "rope_scaling", "{\"type\":\"llama3\",\"factor\":8}", PKV_E_FORMAT,
      "low_freq_factor is missing" },
    { "rope_scaling",
      "{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,"
      "\"original_max_position_embeddings\":8192}",
      PKV_E_FORMAT, "ascending" },
    { "rope_scaling", "{\"type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1,1,1]}",
      PKV_E_FORMAT, "long_factor" },
    { "rope_scaling",
      "{\"type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1,1,1],\"long_factor\":[1,1,1,0]}",
      PKV_E_FORMAT, "above 0" },
    { "rope_scaling", "{\"type\":\"longrope\",\"factor\":2,\"short_factor\":[1,1,1,\"1\"]}",
      PKV_E_FORMAT, "short_factor[3]" },
};

static void changes_refused(void **state)
{
    (void)state;
    static const char *const base[][2] = {
        { "architectures", "[\"LlamaForCausalLM\"]" },
        { "hidden_size", "64" },
        { "intermediate_size", "172" },
        { "num_hidden_layers", "5" },
        { "num_attention_heads", "8" },
        { "vocab_size", "512" },
        { "max_position_embeddings", "2048" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(changes); k++) {
        char config[2048] = "{\"x\":0";
        for (size_t m = 0; m < PKV_ARRAY_LEN(base); m++) {
            if (strcmp(base[m][0], changes[k].without) == 0) continue;
            const size_t at = strlen(config);
            snprintf(config + at, sizeof(config) - at, ",\"%s\":%s", base[m][0], base[m][1]);
        }
        const size_t at = strlen(config);
        if (changes[k].with)
            snprintf(config + at, sizeof(config) - at, ",\"%s\":%s", changes[k].without,
                     changes[k].with);
        strcat(config, "}");
        expect_bad(config, NULL, changes[k].status, changes[k].says);
    }
}

static void files_that_disagree(void **state)
{
    (void)state;
    expect_bad("{" BASE ",\"dtype\":\"float32\",\"torch_dtype\":\"bfloat16\"}", NULL, PKV_E_FORMAT,
               "torch_dtype");
    expect_bad("{" BASE ",\"rope_theta\":1e4,\"rope_parameters\":{\"rope_type\":\"default\","
               "\"rope_theta\":5e5}}",
               NULL, PKV_E_FORMAT, "rope_theta");
    expect_bad("{" BASE ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{"
               "\"rope_type\":\"linear\",\"factor\":4}}",
               NULL, PKV_E_FORMAT, "disagree");
    expect_bad(
        "{" BASE
        ",\"original_max_position_embeddings\":5,\"rope_scaling\":{\"type\":\"llama3\"," LLAMA3
        "}}",
        NULL, PKV_E_FORMAT, "original_max_position_embeddings");
    expect_bad("{" BASE "}", "[]", PKV_E_FORMAT, "generation_config.json");
    expect_bad("{" BASE "}", "{\"eos_token_id\":\"2\"}", PKV_E_FORMAT, "generation_config.json");
    expect_bad("{" BASE ",\"vocab_size\":512}", NULL, PKV_E_FORMAT, "not JSON: duplicate");
    expect_bad("", NULL, PKV_E_FORMAT, "config.json");
    expect_bad("[]", NULL, PKV_E_FORMAT, "config.json");
}

/* ---------------------------------------------------------------- files */

static void files_beside(void **state)
{
    (void)state;
    char folder[512], path[1024];
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv__model_config c;
    scratch_folder(folder, sizeof(folder));
    assert_int_equal(pkv__model_config_read(folder, NULL, &logger, NULL, &c), PKV_E_IO);
    assert_non_null(strstr(log.text, "config.json"));
    write_bytes(folder, "config.json", "{" BASE ",\"eos_token_id\":3}",
                strlen("{" BASE ",\"eos_token_id\":3}"));
    assert_int_equal(pkv__model_config_read(folder, NULL, &logger, NULL, &c), PKV_OK);
    assert_int_equal(c.n_eos, 1);
    write_bytes(folder, "generation_config.json", "{\"eos_token_id\":1}", 18);
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    assert_int_equal(pkv__model_config_read(path, NULL, &logger, NULL, &c), PKV_OK);
    assert_true(c.n_eos == 2 && c.eos[0] == 1 && c.eos[1] == 3);
    for (long fail_at = 0;; fail_at++) {
        counted_memory memory;
        const pkv_allocator alloc = count_memory(&memory, fail_at);
        const pkv_status status = pkv__model_config_read(path, NULL, &logger, &alloc, &c);
        assert_int_equal(memory.n_live, 0);
        if (status == PKV_OK) break;
        assert_int_equal(status, PKV_E_NO_MEMORY);
    }
    write_bytes(folder, "generation_config.json", "", 0);
    assert_int_equal(pkv__model_config_read(folder, NULL, &logger, NULL, &c), PKV_E_FORMAT);
    assert_int_equal(pkv__model_config_read(NULL, NULL, &logger, NULL, &c), PKV_E_INVALID_ARG);
    assert_int_equal(pkv__model_config_read(folder, NULL, &logger, NULL, NULL), PKV_E_INVALID_ARG);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(null_is_missing),
        cmocka_unit_test(head_dim_is_its_own),
        cmocka_unit_test(both_styles_of_keys),
        cmocka_unit_test(other_scalings),
        cmocka_unit_test(eos_is_a_union),
        cmocka_unit_test(mistral),
        cmocka_unit_test(changes_refused),
        cmocka_unit_test(files_that_disagree),
        cmocka_unit_test(files_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
