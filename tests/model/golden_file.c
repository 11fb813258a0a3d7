#include "golden_file.h"

#include "common/number_format.h"
#include "common/philox.h"
#include "common/sha256.h"

const char *const golden_names[] = {
    "llama2",    "llama2_tied", "llama3",      "linear",     "dynamic",
    "yarn",      "yarn_factor", "yarn_mscale", "longrope",   "longrope_factor",
    "heads_8_4", "heads_28_4",  "heads_9_3",   "heads_48_2", "heads_8_1",
    NULL,
};

static const json_t *need(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!value) fail_msg("the golden has no %s", key);
    return value;
}

static int32_t number(const json_t *object, const char *key)
{
    return (int32_t)json_integer_value(need(object, key));
}

int32_t golden_ints(const json_t *list, int32_t *out, int32_t cap)
{
    const size_t n = json_array_size(list);
    assert_true(n <= (size_t)cap);
    for (size_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int32_t)n;
}

/* Numbers in lists of lists, one after the other. */
static double *flatten(const json_t *list, double *to)
{
    if (!json_is_array(list)) {
        assert_true(json_is_number(list));
        *to = json_number_value(list);
        return to + 1;
    }
    for (size_t i = 0; i < json_array_size(list); i++) to = flatten(json_array_get(list, i), to);
    return to;
}

static double *read_doubles(const json_t *list, int64_t n)
{
    double *all = malloc((size_t)n * sizeof(*all));
    assert_non_null(all);
    assert_int_equal(flatten(list, all) - all, n);
    return all;
}

/* ---------------------------------------------------------------- weights */

/* Uniform with deviation 0.2, around 1 for vectors and around 0 for matrices. */
static void draw(golden_tensor *t)
{
    struct pkv__sha256 sha;
    uint8_t digest[32];
    uint64_t seed = 0;
    pkv__rng rng;
    const int64_t n = (int64_t)t->rows * (t->cols ? t->cols : 1);
    pkv__sha256_init(&sha);
    pkv__sha256_update(&sha, t->name, strlen(t->name));
    pkv__sha256_end(&sha, digest);
    for (int k = 7; k >= 0; k--) seed = seed << 8 | digest[k];
    pkv__rng_init(&rng, seed, 0, 0);
    t->values = malloc((size_t)n * sizeof(*t->values));
    assert_non_null(t->values);
    for (int64_t i = 0; i < n; i++) {
        const double word = (int32_t)pkv__rng_u32(&rng);
        const double x = (t->cols ? 0 : 1) + word * (0.2 * 1.7320508075688772 * 0x1p-31);
        t->values[i] = pkv__bf16_to_f32(pkv__f32_to_bf16((float)x));
    }
}

static void add(golden *g, int32_t layer, const char *name, int32_t rows, int32_t cols)
{
    assert_true(g->n_tensors < GOLDEN_MAX_TENSORS);
    golden_tensor *t = &g->tensors[g->n_tensors++];
    if (layer < 0) snprintf(t->name, sizeof(t->name), "%s.weight", name);
    else snprintf(t->name, sizeof(t->name), "model.layers.%d.%s.weight", layer, name);
    t->rows = rows;
    t->cols = cols;
    draw(t);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const golden_tensor *)a)->name, ((const golden_tensor *)b)->name);
}

static void draw_all(golden *g)
{
    const int32_t q = g->heads * g->head_dim, kv = g->kv_heads * g->head_dim;
    add(g, -1, "model.embed_tokens", g->vocab, g->hidden);
    add(g, -1, "model.norm", g->hidden, 0);
    if (!g->tied) add(g, -1, "lm_head", g->vocab, g->hidden);
    for (int32_t l = 0; l < g->layers; l++) {
        add(g, l, "input_layernorm", g->hidden, 0);
        add(g, l, "post_attention_layernorm", g->hidden, 0);
        add(g, l, "self_attn.q_proj", q, g->hidden);
        add(g, l, "self_attn.k_proj", kv, g->hidden);
        add(g, l, "self_attn.v_proj", kv, g->hidden);
        add(g, l, "self_attn.o_proj", g->hidden, q);
        add(g, l, "mlp.gate_proj", g->ffn, g->hidden);
        add(g, l, "mlp.up_proj", g->ffn, g->hidden);
        add(g, l, "mlp.down_proj", g->hidden, g->ffn);
    }
    qsort(g->tensors, (size_t)g->n_tensors, sizeof(g->tensors[0]), by_name);
}

void golden_sha256(const golden *g, char hex[65])
{
    struct pkv__sha256 sha;
    uint8_t digest[32];
    pkv__sha256_init(&sha);
    for (int32_t k = 0; k < g->n_tensors; k++) {
        const golden_tensor *t = &g->tensors[k];
        pkv__sha256_update(&sha, t->name, strlen(t->name));
        for (int64_t i = 0; i < (int64_t)t->rows * (t->cols ? t->cols : 1); i++) {
            const uint16_t word = pkv__f32_to_bf16(t->values[i]);
            pkv__sha256_update(&sha, (uint8_t[]){ (uint8_t)word, (uint8_t)(word >> 8) }, 2);
        }
    }
    pkv__sha256_end(&sha, digest);
    for (int k = 0; k < 32; k++) snprintf(hex + 2 * k, 3, "%02x", digest[k]);
}

/* ---------------------------------------------------------------- the file */

static void read_dimensions(golden *g)
{
    const json_t *c = need(g->root, "config"), *head_dim = json_object_get(c, "head_dim");
    g->vocab = number(c, "vocab_size");
    g->hidden = number(c, "hidden_size");
    g->heads = number(c, "num_attention_heads");
    g->kv_heads = number(c, "num_key_value_heads");
    g->head_dim = head_dim ? (int32_t)json_integer_value(head_dim) : g->hidden / g->heads;
    g->ffn = number(c, "intermediate_size");
    g->layers = number(c, "num_hidden_layers");
    g->tied = json_is_true(need(c, "tie_word_embeddings"));
}

golden golden_open(const char *name)
{
    char path[1024];
    json_error_t error;
    golden g = { 0 };
    snprintf(g.name, sizeof(g.name), "%s", name);
    snprintf(path, sizeof(path), PKV_GOLDENS "/%s.json", name);
    g.root = json_load_file(path, 0, &error);
    if (!g.root) fail_msg("%s: %s", path, error.text);
    read_dimensions(&g);
    draw_all(&g);
    const json_t *probe = need(g.root, "probe");
    g.n_ids = golden_ints(need(probe, "ids"), g.ids, GOLDEN_MAX_IDS);
    assert_int_equal(golden_ints(need(probe, "positions"), g.positions, GOLDEN_MAX_IDS), g.n_ids);
    g.n_rows = golden_ints(need(probe, "rows"), g.rows, GOLDEN_MAX_IDS);
    g.logits = read_doubles(need(probe, "logits"), (int64_t)g.n_rows * g.vocab);
    g.states = read_doubles(need(probe, "hidden"), (int64_t)(g.layers + 1) * g.n_rows * g.hidden);
    return g;
}

void golden_close(golden *g)
{
    for (int32_t k = 0; k < g->n_tensors; k++) free(g->tensors[k].values);
    free(g->logits);
    free(g->states);
    json_decref(g->root);
    memset(g, 0, sizeof(*g));
}
