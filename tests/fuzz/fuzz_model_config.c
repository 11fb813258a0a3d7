/* Fuzz target: config.json, and after a byte 1 generation_config.json. What is accepted satisfies
 * every rule, and reading it again gives the same. The reader of what decides KV sees the same
 * text. */
#include "fuzz.h"

#include "model/kv_source.h"
#include "model/model_config_internal.h"

#include <string.h>

static void check_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    ++*(int *)ctx;
    for (; *text; text++) FUZZ_REQUIRE((unsigned char)*text >= ' ');
}

static void check_config(const pkv__model_config *c)
{
    FUZZ_REQUIRE(pkv__config_check(c, NULL) == PKV_OK);
    FUZZ_REQUIRE(strcmp(c->architecture, "llama") == 0);
    FUZZ_REQUIRE(c->vocab >= 1 && c->vocab <= PKV__MAX_VOCAB);
    FUZZ_REQUIRE(c->hidden >= 1 && c->hidden <= PKV__MAX_HIDDEN);
    FUZZ_REQUIRE(c->n_layers >= 1 && c->n_layers <= PKV__MAX_LAYERS);
    FUZZ_REQUIRE(c->n_kv_heads >= 1 && c->n_heads % c->n_kv_heads == 0);
    FUZZ_REQUIRE(c->head_dim >= 1 && c->head_dim <= PKV__MAX_HEAD_DIM);
    FUZZ_REQUIRE(c->ffn >= 1 && c->context >= 1);
    FUZZ_REQUIRE(c->norm_eps > 0 && c->rope.theta > 0 && c->rope.factor >= 1);
    FUZZ_REQUIRE(c->rope.rotary_dim >= 2 && c->rope.rotary_dim <= c->head_dim);
    for (int32_t k = 0; k < c->n_eos; k++) {
        FUZZ_REQUIRE(c->eos[k] >= 0 && c->eos[k] < c->vocab);
        FUZZ_REQUIRE(k == 0 || c->eos[k - 1] < c->eos[k]);
    }
}

static void check_source(const char *text, size_t n)
{
    pkv_kv_source s = PKV_KV_SOURCE_INIT;
    int n_lines = 0;
    const pkv_logger log = { check_log, &n_lines };
    const pkv_kv_geometry *g = &s.geometry;
    s.geometry = (pkv_kv_geometry)PKV_KV_GEOMETRY_INIT;
    const pkv_status status = pkv__kv_source_json(text, n, &log, &s);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT || status == PKV_E_UNSUPPORTED);
    FUZZ_REQUIRE(status == PKV_OK || n_lines >= 1);
    if (status != PKV_OK) return;
    FUZZ_REQUIRE(g->n_layers >= 1 && g->n_layers <= PKV__MAX_LAYERS);
    FUZZ_REQUIRE(g->n_window_layers >= 0 && g->n_window_layers <= g->n_layers);
    FUZZ_REQUIRE((g->n_window_layers > 0) == (g->window_tokens > 0));
    FUZZ_REQUIRE((g->latent_dim > 0) == (g->n_kv_heads == 0 && g->head_dim == 0));
    FUZZ_REQUIRE(s.n_parameters >= 0 && s.counted == (s.n_parameters > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *cut = size > 0 ? memchr(data, 1, size) : NULL;
    const size_t n = cut ? (size_t)(cut - text) : size;
    pkv__model_config c, again;
    int n_lines = 0;
    const pkv_logger log = { check_log, &n_lines };
    if (size == 0) return 0; /* an empty file ends before any reader */
    check_source(text, n);
    const pkv_status status =
        pkv__config_parse_json(text, n, cut ? cut + 1 : NULL, cut ? size - n - 1 : 0, &log, &c);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT || status == PKV_E_UNSUPPORTED ||
                 status == PKV_E_LIMIT);
    FUZZ_REQUIRE(n_lines == (status != PKV_OK));
    if (status != PKV_OK) return 0;
    check_config(&c);
    FUZZ_REQUIRE(pkv__config_parse_json(text, n, cut ? cut + 1 : NULL, cut ? size - n - 1 : 0, NULL,
                                        &again) == PKV_OK);
    FUZZ_REQUIRE(c.hidden == again.hidden && c.n_eos == again.n_eos && c.bos == again.bos);
    return 0;
}

#define BASE                                                                                       \
    "\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":64,"        \
    "\"intermediate_size\":172,\"num_hidden_layers\":5,\"num_attention_heads\":8,"                 \
    "\"vocab_size\":512,\"max_position_embeddings\":2048"

const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("{}"),
    FUZZ_SEED("{" BASE "}"),
    FUZZ_SEED("{" BASE ",\"num_key_value_heads\":4,\"head_dim\":16,\"rms_norm_eps\":1e-5,"
              "\"rope_theta\":5e5,\"tie_word_embeddings\":true,\"bos_token_id\":1,"
              "\"eos_token_id\":[2,3]}\1{\"eos_token_id\":4,\"bos_token_id\":1}"),
    FUZZ_SEED("{" BASE ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
              "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
              "\"original_max_position_embeddings\":1024}}"),
    FUZZ_SEED("{" BASE ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e4,"
              "\"factor\":4,\"beta_fast\":32,\"mscale\":1,\"attention_factor\":1.5}}"),
    FUZZ_SEED("{" BASE ",\"original_max_position_embeddings\":1024,\"rope_scaling\":{\"type\":"
              "\"longrope\",\"short_factor\":[1,1,1,1],\"long_factor\":[1,2,3,4]}}"),
    FUZZ_SEED("{" BASE ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2},"
              "\"partial_rotary_factor\":0.5,\"layer_types\":[\"full_attention\"]}"),
    FUZZ_SEED("{\"model_type\":\"mistral\",\"sliding_window\":4096}\1"),
    FUZZ_SEED("{" BASE ",\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,"
              "\"v_head_dim\":128}"),
    FUZZ_SEED("{\"text_config\":{" BASE ",\"sliding_window\":64,\"sliding_window_pattern\":2,"
              "\"hidden_act\":\"silu\"}}"),
    FUZZ_SEED("{" BASE ",\"sliding_window\":8,\"layer_types\":[\"full_attention\","
              "\"sliding_attention\",\"mamba\",\"other\",\"sliding_attention\"]}"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);

const char *const fuzz_words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "0",
    "-1",
    "1e308",
    "4294967296",
    "9223372036854775807",
    "0.5",
    "null",
    "true",
    "false",
    "\1",
    "\"hidden_size\"",
    "\"head_dim\"",
    "\"eos_token_id\"",
    "\"rope_scaling\"",
    "\"rope_parameters\"",
    "\"type\"",
    "\"rope_type\"",
    "\"factor\"",
    "\"linear\"",
    "\"yarn\"",
    "\"longrope\"",
    "\"sliding_window\"",
    "\"sliding_attention\"",
    "\"layer_types\"",
    "\"kv_lora_rank\"",
    "\"text_config\"",
    "\"partial_rotary_factor\"",
    "\\u0000",
    "\\n",
    " ",
    "\377",
    BASE,
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
