/* The models of golden_file.h as files. */
#include "golden_file.h"

#include "common/number_format.h"

const char *const golden_layout_names[GOLDEN_N_LAYOUTS] = {
    "f32",      "bf16",      "3 shards",         "odd header",       "GGUF F32",
    "GGUF F16", "GGUF Q8_0", "GGUF F32 of Q8_0", "GGUF, wrong rows",
};

enum { GGUF_U32 = 4, GGUF_F32 = 6, GGUF_TEXT = 8 };                /* of values */
enum { GGML_F32 = 0, GGML_F16 = 1, GGML_Q8_0 = 8, Q8_BLOCK = 32 }; /* of tensors */

static int64_t count(const golden_tensor *t)
{
    return (int64_t)t->rows * (t->cols ? t->cols : 1);
}

static const json_t *rope_of(const golden *g)
{
    return json_object_get(json_object_get(g->root, "config"), "rope_parameters");
}

static const char *rope_kind(const golden *g)
{
    return json_string_value(json_object_get(rope_of(g), "rope_type"));
}

bool golden_can_write(const golden *g, golden_layout layout)
{
    const char *kind = rope_kind(g);
    if (layout < GOLDEN_GGUF_F32) return true;
    if ((layout == GOLDEN_GGUF_Q8_0 || layout == GOLDEN_GGUF_ROUNDED) && g->hidden % Q8_BLOCK != 0)
        return false;
    return strcmp(kind, "default") == 0 || strcmp(kind, "linear") == 0 ||
           strcmp(kind, "llama3") == 0 || strcmp(g->name, "yarn") == 0;
}

/* ---------------------------------------------------------------- safetensors */

static void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

static void put_values(bytes *b, const golden_tensor *t, bool bf16)
{
    for (int64_t i = 0; i < count(t); i++) {
        const uint16_t word = pkv__f32_to_bf16(t->values[i]);
        if (bf16) put(b, &word, sizeof(word));
        else put(b, &t->values[i], sizeof(float));
    }
}

/* Tensors first, first + step, ... */
static void write_safetensors(const golden *g, const char *folder, const char *name, int32_t first,
                              int32_t step, bool bf16, bool odd)
{
    bytes header = { 0 }, data = { 0 }, file = { 0 };
    for (int32_t k = first; k < g->n_tensors; k += step) {
        const golden_tensor *t = &g->tensors[k];
        char text[256], shape[32];
        const size_t begin = data.n;
        put_values(&data, t, bf16);
        if (t->cols) snprintf(shape, sizeof(shape), "%d,%d", t->rows, t->cols);
        else snprintf(shape, sizeof(shape), "%d", t->rows);
        snprintf(text, sizeof(text),
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                 header.n ? "," : "{", t->name, bf16 ? "BF16" : "F32", shape, begin, data.n);
        put_text(&header, text);
    }
    put_text(&header, "}");
    while (header.n % 8 != (odd ? 1 : 0)) put_text(&header, " ");
    put_u64(&file, header.n);
    put(&file, header.data, header.n);
    put(&file, data.data, data.n);
    write_bytes(folder, name, file.data, file.n);
    bytes_free(&header);
    bytes_free(&data);
    bytes_free(&file);
}

static void write_shards(const golden *g, const char *folder)
{
    enum { N = 3 };
    bytes index = { 0 };
    char text[256];
    for (int32_t k = 0; k < N; k++) {
        snprintf(text, sizeof(text), "model-%05d-of-%05d.safetensors", k + 1, N);
        write_safetensors(g, folder, text, k, N, false, false);
    }
    put_text(&index, "{\"metadata\":{},\"weight_map\":{");
    for (int32_t k = 0; k < g->n_tensors; k++) {
        snprintf(text, sizeof(text), "%s\"%s\":\"model-%05d-of-%05d.safetensors\"", k ? "," : "",
                 g->tensors[k].name, k % N + 1, N);
        put_text(&index, text);
    }
    put_text(&index, "}}");
    write_bytes(folder, "model.safetensors.index.json", index.data, index.n);
    bytes_free(&index);
}

static void write_json(const golden *g, const char *folder, const char *key, const char *name)
{
    const json_t *value = json_object_get(g->root, key);
    if (!value || json_is_null(value)) return;
    char *text = json_dumps(value, 0);
    assert_non_null(text);
    write_bytes(folder, name, text, strlen(text));
    free(text);
}

/* ---------------------------------------------------------------- GGUF */

typedef struct gguf {
    bytes keys, infos, data;
    uint64_t n_keys, n_tensors;
} gguf;

static void put_string(bytes *b, const char *text)
{
    put_u64(b, strlen(text));
    put_text(b, text);
}

static void key_int(gguf *f, const char *key, int64_t value)
{
    put_string(&f->keys, key);
    put_u32(&f->keys, GGUF_U32);
    put_u32(&f->keys, (uint32_t)value);
    f->n_keys++;
}

static void key_real(gguf *f, const char *key, double value)
{
    const float x = (float)value;
    put_string(&f->keys, key);
    put_u32(&f->keys, GGUF_F32);
    put(&f->keys, &x, sizeof(x));
    f->n_keys++;
}

static void key_text(gguf *f, const char *key, const char *value)
{
    put_string(&f->keys, key);
    put_u32(&f->keys, GGUF_TEXT);
    put_string(&f->keys, value);
    f->n_keys++;
}

static double rope_number(const golden *g, const char *key)
{
    return json_number_value(json_object_get(rope_of(g), key));
}

static int64_t config_int(const golden *g, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(g->root, "config"), key));
}

static void put_keys(gguf *f, const golden *g)
{
    const char *kind = rope_kind(g);
    key_text(f, "general.architecture", "llama");
    key_int(f, "llama.vocab_size", g->vocab);
    key_int(f, "llama.embedding_length", g->hidden);
    key_int(f, "llama.feed_forward_length", g->ffn);
    key_int(f, "llama.block_count", g->layers);
    key_int(f, "llama.attention.head_count", g->heads);
    key_int(f, "llama.attention.head_count_kv", g->kv_heads);
    key_int(f, "llama.attention.key_length", g->head_dim);
    key_int(f, "llama.attention.value_length", g->head_dim);
    key_int(f, "llama.rope.dimension_count", g->head_dim);
    key_int(f, "llama.context_length", config_int(g, "max_position_embeddings"));
    key_real(f, "llama.attention.layer_norm_rms_epsilon", 1e-5);
    key_real(f, "llama.rope.freq_base", rope_number(g, "rope_theta"));
    if (strcmp(kind, "linear") != 0 && strcmp(kind, "yarn") != 0) return;
    key_text(f, "llama.rope.scaling.type", kind);
    key_real(f, "llama.rope.scaling.factor", rope_number(g, "factor"));
    if (strcmp(kind, "yarn") != 0) return;
    key_int(f, "llama.rope.scaling.original_context_length",
            (int64_t)rope_number(g, "original_max_position_embeddings"));
}

static void write_name(const char *hf, char out[64])
{
    static const char *const names[][2] = {
        { "model.embed_tokens", "token_embd" },
        { "model.norm", "output_norm" },
        { "lm_head", "output" },
        { "input_layernorm", "attn_norm" },
        { "post_attention_layernorm", "ffn_norm" },
        { "self_attn.q_proj", "attn_q" },
        { "self_attn.k_proj", "attn_k" },
        { "self_attn.v_proj", "attn_v" },
        { "self_attn.o_proj", "attn_output" },
        { "mlp.gate_proj", "ffn_gate" },
        { "mlp.up_proj", "ffn_up" },
        { "mlp.down_proj", "ffn_down" },
    };
    static const char prefix[] = "model.layers.";
    const bool of_layer = strncmp(hf, prefix, sizeof(prefix) - 1) == 0;
    const char *number = of_layer ? hf + sizeof(prefix) - 1 : "";
    const char *part = of_layer ? strchr(number, '.') + 1 : hf;
    const size_t n_part = strlen(part) - strlen(".weight");
    const size_t n_number = of_layer ? (size_t)(part - 1 - number) : 0;
    for (size_t k = 0; k < PKV_ARRAY_LEN(names); k++) {
        if (strlen(names[k][0]) != n_part || strncmp(part, names[k][0], n_part) != 0) continue;
        snprintf(out, 64, "%s%.*s%s%s.weight", of_layer ? "blk." : "", (int)n_number, number,
                 of_layer ? "." : "", names[k][1]);
        return;
    }
    fail_msg("no GGUF name for %s", hf);
}

/* A block of 32: a scale in half precision, then the multiples of it; or the floats they stand
 * for. */
static void put_q8_block(bytes *b, const float *x, bool as_floats)
{
    float most = 0;
    for (int i = 0; i < Q8_BLOCK; i++) most = fmaxf(most, fabsf(x[i]));
    const uint16_t half = pkv__f32_to_f16(most / 127);
    const float scale = pkv__f16_to_f32(half);
    if (!as_floats) put(b, &half, sizeof(half));
    for (int i = 0; i < Q8_BLOCK; i++) {
        const float q = scale > 0 ? fmaxf(-127, fminf(127, roundf(x[i] / scale))) : 0;
        const float value = q * scale;
        if (as_floats) put(b, &value, sizeof(value));
        else put(b, &(int8_t){ (int8_t)q }, 1);
    }
}

static void put_row(bytes *b, const float *row, int32_t n, golden_layout layout)
{
    const bool rounded = layout == GOLDEN_GGUF_ROUNDED;
    for (int32_t i = 0; (layout == GOLDEN_GGUF_Q8_0 || rounded) && i < n; i += Q8_BLOCK)
        put_q8_block(b, row + i, rounded);
    if (layout == GOLDEN_GGUF_F32 || layout == GOLDEN_GGUF_WRONG)
        put(b, row, (size_t)n * sizeof(*row));
    for (int32_t i = 0; layout == GOLDEN_GGUF_F16 && i < n; i++)
        put(b, &(uint16_t){ pkv__f32_to_f16(row[i]) }, 2);
}

/* Row r of a matrix for interleaved pairs, in one for pairs half a head apart. */
static int32_t row_of_pairs(const golden *g, int32_t r)
{
    const int32_t d = r % g->head_dim;
    return r - d + d / 2 + d % 2 * (g->head_dim / 2);
}

static void put_tensor(gguf *f, const golden *g, const char *name, const golden_tensor *t,
                       golden_layout layout, bool turned)
{
    put_zeros(&f->data, (32 - f->data.n % 32) % 32);
    put_string(&f->infos, name);
    put_u32(&f->infos, t->cols ? 2 : 1);
    if (t->cols) put_u64(&f->infos, (uint64_t)t->cols); /* innermost first */
    put_u64(&f->infos, (uint64_t)t->rows);
    put_u32(&f->infos, t->cols == 0                 ? GGML_F32
                       : layout == GOLDEN_GGUF_F16  ? GGML_F16
                       : layout == GOLDEN_GGUF_Q8_0 ? GGML_Q8_0
                                                    : GGML_F32);
    put_u64(&f->infos, f->data.n);
    f->n_tensors++;
    if (!t->cols) put_row(&f->data, t->values, t->rows, GOLDEN_GGUF_F32);
    for (int32_t r = 0; t->cols && r < t->rows; r++)
        put_row(&f->data, t->values + (int64_t)(turned ? row_of_pairs(g, r) : r) * t->cols, t->cols,
                layout);
}

/* How many times slower than plain each pair turns, as the other program says. */
static void put_divisors(gguf *f, const golden *g)
{
    const json_t *inv_freq = json_object_get(g->root, "inv_freq");
    float divisors[128];
    golden_tensor t = { "rope_freqs.weight", g->head_dim / 2, 0, divisors };
    assert_in_range(t.rows, 1, 128);
    for (int32_t i = 0; i < t.rows; i++)
        divisors[i] = (float)(pow(rope_number(g, "rope_theta"), -2.0 * i / g->head_dim) /
                              json_number_value(json_array_get(inv_freq, (size_t)i)));
    put_tensor(f, g, t.name, &t, GOLDEN_GGUF_F32, false);
}

static void write_gguf(const golden *g, const char *folder, golden_layout layout)
{
    gguf f = { 0 };
    bytes file = { 0 };
    put_keys(&f, g);
    for (int32_t k = 0; k < g->n_tensors; k++) {
        const golden_tensor *t = &g->tensors[k];
        const bool rotary = strstr(t->name, ".q_proj") || strstr(t->name, ".k_proj");
        char name[64];
        write_name(t->name, name);
        put_tensor(&f, g, name, t, layout, rotary && layout != GOLDEN_GGUF_WRONG);
    }
    if (strcmp(rope_kind(g), "llama3") == 0) put_divisors(&f, g);
    put_text(&file, "GGUF");
    put_u32(&file, 3);
    put_u64(&file, f.n_tensors);
    put_u64(&file, f.n_keys);
    put(&file, f.keys.data, f.keys.n);
    put(&file, f.infos.data, f.infos.n);
    put_zeros(&file, (32 - file.n % 32) % 32);
    put(&file, f.data.data, f.data.n);
    write_bytes(folder, "model.gguf", file.data, file.n);
    bytes_free(&f.keys);
    bytes_free(&f.infos);
    bytes_free(&f.data);
    bytes_free(&file);
}

void golden_write(const golden *g, golden_layout layout, char *folder, size_t cap)
{
    scratch_folder(folder, cap);
    if (layout >= GOLDEN_GGUF_F32) {
        write_gguf(g, folder, layout);
        return;
    }
    if (layout == GOLDEN_SHARDS) write_shards(g, folder);
    else
        write_safetensors(g, folder, "model.safetensors", 0, 1, layout == GOLDEN_BF16,
                          layout == GOLDEN_ODD);
    /* Both spellings of the configuration are read, by turns. */
    write_json(g, folder, layout == GOLDEN_F32 ? "config" : "config_old", "config.json");
    write_json(g, folder, "generation_config", "generation_config.json");
}
