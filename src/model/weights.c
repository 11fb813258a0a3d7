/* Tensors of a file -> slots of a layer. One walk over the slots of the model serves three ends: it
 * measures, then fills from a file, or fills at random.
 *
 *   walk  embedding, norms, head, and per layer attn_norm q k v o ffn_norm gate up down
 *   slot  found by name, shape checked -> stays in the file, or is converted into `memory`
 *
 * `memory` is one piece, every slot at a multiple of 64 bytes. A matrix stays in the file where its
 * type is the one wanted, its rows are in order and its first element is aligned. */
#include "common/number_format.h"
#include "common/philox.h"
#include "model/forward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SLOT_ALIGN ((size_t)64)
#define PIECE 1024 /* floats at a time; a multiple of every type's block */

typedef struct slot_name {
    const char *hf, *gguf; /* with the number of the layer as %d */
} slot_name;
static const slot_name embedding_name = { "model.embed_tokens.weight", "token_embd.weight" },
                       out_norm_name = { "model.norm.weight", "output_norm.weight" },
                       head_name = { "lm_head.weight", "output.weight" };
#define LAYER(hf, gguf)                                                                            \
    {                                                                                              \
        "model.layers.%d." hf ".weight", "blk.%d." gguf ".weight"                                  \
    }
static const slot_name attn_norm_name = LAYER("input_layernorm", "attn_norm"),
                       q_name = LAYER("self_attn.q_proj", "attn_q"),
                       k_name = LAYER("self_attn.k_proj", "attn_k"),
                       v_name = LAYER("self_attn.v_proj", "attn_v"),
                       o_name = LAYER("self_attn.o_proj", "attn_output"),
                       ffn_norm_name = LAYER("post_attention_layernorm", "ffn_norm"),
                       gate_name = LAYER("mlp.gate_proj", "ffn_gate"),
                       up_name = LAYER("mlp.up_proj", "ffn_up"),
                       down_name = LAYER("mlp.down_proj", "ffn_down");

typedef struct loader {
    const pkv__model_config *config;
    const pkv__tensor_file *file; /* NULL: at random */
    uint64_t seed;
    uint32_t n_drawn; /* slots, each with a stream of its own */
    pkv_dtype dtype;
    const pkv_logger *log;
    uint8_t *base; /* NULL: measure */
    size_t used;
} loader;

/* ---------------------------------------------------------------- room and numbers */

/* The next slot of `memory`; NULL while measuring. */
static void *take(loader *l, size_t size)
{
    void *at = l->base ? l->base + l->used : NULL;
    l->used += pkv__align_up(size, SLOT_ALIGN);
    return at;
}

static size_t element_bytes(pkv_dtype dtype)
{
    return dtype == PKV_BF16 ? 2 : 4;
}

/* A power of two in bytes. */
static bool aligned(const void *at, size_t align)
{
    return ((uintptr_t)at & (align - 1)) == 0;
}

static void put_floats(pkv_dtype dtype, void *row, int64_t first, const float *from, int64_t n)
{
    if (dtype == PKV_F32) {
        memcpy((float *)row + first, from, (size_t)n * sizeof(float));
        return;
    }
    uint16_t *to = (uint16_t *)row + first;
    for (int64_t i = 0; i < n; i++) to[i] = pkv__f32_to_bf16(from[i]);
}

/* Row r of the tensor into `row`, converted. */
static pkv_status read_row(const pkv__tensor *t, int64_t r, int64_t cols, pkv_dtype dtype,
                           void *row)
{
    float piece[PIECE];
    pkv_status status = PKV_OK;
    for (int64_t first = 0; first < cols && status == PKV_OK; first += PIECE) {
        const int64_t n = cols - first < PIECE ? cols - first : PIECE;
        status = pkv__tensor_floats(t, r * cols + first, n, piece);
        if (status == PKV_OK) put_floats(dtype, row, first, piece, n);
    }
    return status;
}

/* Uniform with this deviation around this mean. */
static void draw_row(pkv__rng *rng, double mean, double deviation, int64_t cols, pkv_dtype dtype,
                     void *row)
{
    const double scale = deviation * 1.7320508075688772 * 0x1p-31; /* sqrt 3: half the width */
    for (int64_t c = 0; c < cols; c++) {
        const float x = (float)(mean + scale * (int32_t)pkv__rng_u32(rng));
        put_floats(dtype, row, c, &x, 1);
    }
}

/* ---------------------------------------------------------------- tensors */

static void write_name(const loader *l, const slot_name *name, int32_t layer, char out[64])
{
    const bool gguf = strcmp(pkv__tensor_file_format(l->file), "gguf") == 0;
    const char *from = gguf ? name->gguf : name->hf;
    const char *number = strstr(from, "%d");
    if (number) snprintf(out, 64, "%.*s%d%s", (int)(number - from), from, (int)layer, number + 2);
    else snprintf(out, 64, "%s", from);
}

/* cols 0: a vector. */
static pkv_status find_tensor(const loader *l, const slot_name *name, int32_t layer, int64_t rows,
                              int64_t cols, const pkv__tensor **out)
{
    char text[64];
    write_name(l, name, layer, text);
    const pkv__tensor *t = pkv__tensor_file_find(l->file, text);
    if (!t) return pkv__refuse(l->log, PKV_E_FORMAT, "tensor %s is missing", text);
    const int32_t n_dims = cols > 0 ? 2 : 1;
    if (t->n_dims != n_dims || t->dims[0] != rows || (cols > 0 && t->dims[1] != cols))
        return pkv__refuse(l->log, PKV_E_FORMAT,
                           "tensor %s has %d dims, %lld x %lld; the configuration says %lld x %lld",
                           text, t->n_dims, (long long)t->dims[0],
                           (long long)(t->n_dims > 1 ? t->dims[1] : 1), (long long)rows,
                           (long long)(cols > 0 ? cols : 1));
    if (t->type == PKV__T_OTHER || t->type == PKV__T_I32)
        return pkv__refuse(l->log, PKV_E_UNSUPPORTED, "tensor %s is of type %s", text,
                           t->type_name);
    *out = t;
    return PKV_OK;
}

static bool stays(const loader *l, const pkv__tensor *t)
{
    const pkv__tensor_type same = l->dtype == PKV_BF16 ? PKV__T_BF16 : PKV__T_F32;
    return t->type == same && aligned(t->data, element_bytes(l->dtype));
}

/* Where row r of a file's matrix goes. Within the first rotary_dim rows of each head, row 2i + j of
 * interleaved pairs becomes row i + j * rotary_dim / 2. */
static int64_t place_of_row(const pkv__model_config *c, int64_t r)
{
    const int64_t head = r / c->head_dim, d = r % c->head_dim, half = c->rope.rotary_dim / 2;
    return d < 2 * half ? head * c->head_dim + d / 2 + d % 2 * half : r;
}

static pkv_status fill_matrix(loader *l, const pkv__tensor *t, bool turned, pkv__matrix *m,
                              uint8_t *to)
{
    const size_t row_bytes = (size_t)m->k * element_bytes(l->dtype);
    pkv_status status = PKV_OK;
    pkv__rng rng;
    pkv__rng_init(&rng, l->seed, l->n_drawn, 0);
    for (int64_t r = 0; r < m->n && status == PKV_OK; r++) {
        const int64_t place = turned ? place_of_row(l->config, r) : r;
        uint8_t *row = to + (size_t)place * row_bytes;
        if (t) status = read_row(t, r, m->k, l->dtype, row);
        else draw_row(&rng, 0, 1 / sqrt(m->k), m->k, l->dtype, row);
    }
    return status;
}

static pkv_status matrix(loader *l, const slot_name *name, int32_t layer, int32_t rows,
                         int32_t cols, bool rotary, pkv__matrix *out)
{
    const pkv__tensor *t = NULL;
    const bool turned = rotary && l->file && l->config->interleaved_pairs;
    pkv_status status = l->file ? find_tensor(l, name, layer, rows, cols, &t) : PKV_OK;
    if (status != PKV_OK) return status;
    l->n_drawn++;
    *out = (pkv__matrix){ NULL, l->dtype, rows, cols };
    if (t && !turned && stays(l, t)) {
        out->data = t->data;
        return PKV_OK;
    }
    uint8_t *to = take(l, (size_t)rows * (size_t)cols * element_bytes(l->dtype));
    out->data = to;
    return to ? fill_matrix(l, t, turned, out, to) : PKV_OK;
}

static pkv_status vector(loader *l, const slot_name *name, int32_t layer, int32_t n,
                         const float **out)
{
    const pkv__tensor *t = NULL;
    pkv_status status = l->file ? find_tensor(l, name, layer, n, 0, &t) : PKV_OK;
    if (status != PKV_OK) return status;
    l->n_drawn++;
    float *to = take(l, (size_t)n * sizeof(float));
    *out = to;
    if (!to) return PKV_OK;
    if (t) return read_row(t, 0, n, PKV_F32, to);
    pkv__rng rng;
    pkv__rng_init(&rng, l->seed, l->n_drawn, 0);
    draw_row(&rng, 1, 0.1, n, PKV_F32, to);
    return PKV_OK;
}

/* ---------------------------------------------------------------- the walk */

static pkv_status walk_layer(loader *l, int32_t layer, pkv__layer_weights *w)
{
    const pkv__model_config *c = l->config;
    const int32_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    pkv_status s = vector(l, &attn_norm_name, layer, c->hidden, &w->attn_norm);
    if (s == PKV_OK) s = matrix(l, &q_name, layer, q, c->hidden, true, &w->q);
    if (s == PKV_OK) s = matrix(l, &k_name, layer, kv, c->hidden, true, &w->k);
    if (s == PKV_OK) s = matrix(l, &v_name, layer, kv, c->hidden, false, &w->v);
    if (s == PKV_OK) s = matrix(l, &o_name, layer, c->hidden, q, false, &w->o);
    if (s == PKV_OK) s = vector(l, &ffn_norm_name, layer, c->hidden, &w->ffn_norm);
    if (s == PKV_OK) s = matrix(l, &gate_name, layer, c->ffn, c->hidden, false, &w->gate);
    if (s == PKV_OK) s = matrix(l, &up_name, layer, c->ffn, c->hidden, false, &w->up);
    if (s == PKV_OK) s = matrix(l, &down_name, layer, c->hidden, c->ffn, false, &w->down);
    return s;
}

/* A head in the file wins; without one it is the embedding, whatever the configuration says. */
static pkv_status walk_head(loader *l, pkv__weights *w)
{
    char text[64] = "";
    bool own = !l->config->tied_head;
    if (l->file) {
        write_name(l, &head_name, 0, text);
        const bool said_tied = !own;
        own = pkv__tensor_file_find(l->file, text) != NULL;
        if (own == said_tied && l->base)
            pkv__log(l->log, PKV_LOG_WARN,
                     own ? "%s is used, though the configuration ties it"
                         : "no %s: the embedding is used in its place",
                     text);
    }
    w->head = w->embedding;
    w->config.tied_head = !own;
    return own ? matrix(l, &head_name, 0, l->config->vocab, l->config->hidden, false, &w->head)
               : PKV_OK;
}

static pkv_status walk(loader *l, pkv__weights *w)
{
    const pkv__model_config *c = l->config;
    pkv__layer_weights measured;
    l->used = 0;
    l->n_drawn = 0;
    w->layers = take(l, (size_t)c->n_layers * sizeof(*w->layers));
    w->inv_freq = take(l, (size_t)(c->rope.rotary_dim / 2) * sizeof(*w->inv_freq));
    pkv_status s = matrix(l, &embedding_name, 0, c->vocab, c->hidden, false, &w->embedding);
    if (s == PKV_OK) s = vector(l, &out_norm_name, 0, c->hidden, &w->out_norm);
    if (s == PKV_OK) s = walk_head(l, w);
    for (int32_t k = 0; k < c->n_layers && s == PKV_OK; k++)
        s = walk_layer(l, k, l->base ? &w->layers[k] : &measured);
    return s;
}

/* A bias that nobody adds would make everything almost right. */
static pkv_status refuse_biases(const loader *l)
{
    for (int64_t k = 0; k < pkv__tensor_file_count(l->file); k++) {
        const char *name = pkv__tensor_file_at(l->file, k)->name;
        const size_t n = strlen(name);
        if (n >= 5 && strcmp(name + n - 5, ".bias") == 0)
            return pkv__refuse(l->log, PKV_E_UNSUPPORTED, "tensor %.100s: biases are not computed",
                               name);
    }
    return PKV_OK;
}

/* Memory of our own on huge pages, before it is touched: on pages of 4 KiB, each a miss of the
 * TLB, decode reads weights at two thirds of the speed. Less than this is no mapping of its own in
 * malloc, and fits the caches. */
#define HUGE_FROM ((size_t)64 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

static void advise_huge(void *memory, size_t bytes, const pkv_allocator *alloc)
{
#ifdef MADV_HUGEPAGE
    if (bytes < HUGE_FROM || (alloc && alloc->alloc)) return;
    const uintptr_t first = (uintptr_t)pkv__align_up((size_t)(uintptr_t)memory, HUGE_PAGE);
    const size_t skipped = (size_t)(first - (uintptr_t)memory);
    (void)madvise((char *)memory + skipped, (bytes - skipped) / HUGE_PAGE * HUGE_PAGE,
                  MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes, (void)alloc;
#endif
}

static pkv_status load(loader *l, const pkv_allocator *alloc, pkv__weights *out)
{
    pkv__weights w = { .config = *l->config };
    if (l->dtype != PKV_F32 && l->dtype != PKV_BF16)
        return pkv__refuse(l->log, PKV_E_INVALID_ARG, "weights are kept as f32 or bf16, not %s",
                           pkv_dtype_name(l->dtype));
    pkv_status status = l->file ? refuse_biases(l) : PKV_OK;
    if (status == PKV_OK) status = walk(l, &w);
    if (status != PKV_OK) return status;
    w.memory_bytes = l->used;
    w.memory = pkv__alloc(alloc, w.memory_bytes, SLOT_ALIGN);
    if (!w.memory)
        return pkv__refuse(l->log, PKV_E_NO_MEMORY, "no %zu bytes for weights", w.memory_bytes);
    if (alloc) w.alloc = *alloc;
    advise_huge(w.memory, w.memory_bytes, alloc);
    l->base = w.memory;
    status = walk(l, &w);
    if (status != PKV_OK) {
        pkv__free(alloc, w.memory, w.memory_bytes);
        return status;
    }
    pkv__rope_frequencies(&w.config.rope, w.config.head_dim, w.config.context, w.inv_freq,
                          &w.rope_amplitude);
    *out = w;
    return PKV_OK;
}

pkv_status pkv__weights_load(const pkv__model_config *config, pkv__tensor_file *file,
                             pkv_dtype dtype, const pkv_logger *log, const pkv_allocator *alloc,
                             pkv__weights *out)
{
    loader l = { .config = config, .file = file, .dtype = dtype, .log = log };
    const pkv_status status = load(&l, alloc, out);
    if (status == PKV_OK) out->file = file;
    return status;
}

pkv_status pkv__weights_random(const pkv__model_config *config, uint64_t seed, pkv_dtype dtype,
                               const pkv_allocator *alloc, pkv__weights *out)
{
    loader l = { .config = config, .seed = seed, .dtype = dtype };
    return load(&l, alloc, out);
}

void pkv__weights_free(pkv__weights *weights)
{
    if (!weights) return;
    const pkv_allocator alloc = weights->alloc;
    pkv__free(&alloc, weights->memory, weights->memory_bytes);
    pkv__tensor_file_close(weights->file);
    memset(weights, 0, sizeof(*weights));
}
