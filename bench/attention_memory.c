/* Builds and fills K and V in every layout. */
#include "attention_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half_floats.h"

/* Bytes of n elements; for U4 n is even. */
static size_t elems_bytes(pkv_dtype dtype, int64_t n)
{
    return (size_t)n * (size_t)pkv_dtype_bits(dtype) / 8;
}

bool attn_has_scales(pkv_dtype dtype)
{
    return dtype == PKV_E4M3 || dtype == PKV_I8 || dtype == PKV_U4;
}

bool attn_has_zeros(pkv_dtype dtype)
{
    return dtype == PKV_U4;
}

/* The code of a value of about variance 1, and the scale and zero point around which those of the
 * rows vary. */
#define I8_STEPS 32.f
#define U4_STEPS 3.f
#define U4_CENTRE 7.5f

static float code_of(pkv_dtype dtype, float x)
{
    if (dtype == PKV_I8) return x * I8_STEPS;
    if (dtype == PKV_U4) return x * U4_STEPS + U4_CENTRE;
    return x;
}

bool attn_numbers_init(struct attn_shape *shape, struct bench_error *err)
{
    struct bench_rng rng = { shape->seed ^ 0x6e756d62657273u };
    shape->numbers = bench_calloc(1, elems_bytes(shape->dtype, ATTN_NUMBERS), err);
    if (!shape->numbers) return false;
    for (int i = 0; i < ATTN_NUMBERS; i++) {
        /* The sum of 12 uniforms has variance 1 and needs no libm, whose last bits differ. */
        double sum = -6;
        for (int k = 0; k < 12; k++) sum += bench_rng_unit(&rng);
        number_put(shape->numbers, shape->dtype, i, code_of(shape->dtype, (float)sum));
    }
    return true;
}

static uint64_t row_hash(const struct attn_shape *shape, const struct attn_row_place *at)
{
    uint64_t h = bench_mix(shape->seed + (uint64_t)at->layer * 0x9e3779b97f4a7c15u);
    h = bench_mix(h ^ ((uint64_t)at->seq << 32 | (uint32_t)at->head << 1 | at->is_v));
    return bench_mix(h ^ (uint64_t)at->token);
}

const void *attn_logical_row(const struct attn_shape *shape, const struct attn_row_place *at)
{
    const uint64_t n_starts = (uint64_t)(ATTN_NUMBERS - shape->dim) / 8;
    const uint64_t start = row_hash(shape, at) % n_starts * 8;
    return (const char *)shape->numbers + elems_bytes(shape->dtype, (int64_t)start);
}

/* Scales and zero points differ from row to row, so that one taken from the wrong place shows. */
float attn_logical_scale(const struct attn_shape *shape, const struct attn_row_place *at)
{
    const float vary = 0.75f + 0.5f * (float)(row_hash(shape, at) >> 40) * 0x1p-24f;
    if (shape->dtype == PKV_I8) return vary / I8_STEPS;
    if (shape->dtype == PKV_U4) return vary / U4_STEPS;
    return attn_has_scales(shape->dtype) ? vary : 1.f;
}

float attn_logical_zero(const struct attn_shape *shape, const struct attn_row_place *at)
{
    if (!attn_has_zeros(shape->dtype)) return 0.f;
    return U4_CENTRE - 0.5f + (float)(row_hash(shape, at) & 0xffffff) * 0x1p-24f;
}

/* Elements from row to row: rows of 8- and 4-bit codes are padded to 16 bytes. */
static int64_t padded_dim(const struct attn_shape *shape)
{
    const int64_t per_16 = 128 / pkv_dtype_bits(shape->dtype);
    return (shape->dim + per_16 - 1) / per_16 * per_16;
}

static int32_t floats_per_row(pkv_dtype dtype)
{
    return attn_has_scales(dtype) + attn_has_zeros(dtype);
}

/* Bytes that K (or V) of one token and layer take in memory. */
static size_t token_bytes(const struct attn_shape *shape)
{
    return (size_t)shape->h_kv * (elems_bytes(shape->dtype, padded_dim(shape)) +
                                  sizeof(float) * (size_t)floats_per_row(shape->dtype));
}

int64_t attn_layer_bytes(const struct attn_shape *shape)
{
    const size_t row = elems_bytes(shape->dtype, shape->dim) +
                       sizeof(float) * (size_t)floats_per_row(shape->dtype);
    return shape->sum_kv_len * 2 * shape->h_kv * (int64_t)row;
}

static int32_t spare_blocks(int64_t n_used)
{
    return (int32_t)(n_used / 16) + 1;
}

static int64_t used_blocks(const struct attn_shape *shape, int32_t block_tokens)
{
    int64_t n = 0;
    for (int32_t b = 0; b < shape->n_seqs; b++)
        n += ((int64_t)shape->kv_len[b] + block_tokens - 1) / block_tokens;
    return n;
}

int64_t attn_layer_footprint(const struct attn_shape *shape, enum bench_layout layout,
                             int32_t block_tokens)
{
    const int64_t token = 2 * (int64_t)token_bytes(shape);
    if (layout == LAYOUT_IDENTITY_TABLE) return 0;
    if (!layout_is_paged(layout)) return (int64_t)shape->n_seqs * shape->max_kv_len * token;
    const int64_t n = used_blocks(shape, block_tokens);
    return (n + spare_blocks(n) + 1) * (block_tokens * token + 512); /* rounded up to 512 */
}

/* Where scales or zero points lie: [layer][K,V][1 + sequence][head][token]. */
static pkv_scales contiguous_floats(char *base, const struct attn_shape *shape, int32_t layer,
                                    bool is_v, bool identity)
{
    const int64_t cap = shape->max_kv_len, region = cap * shape->h_kv;
    const int64_t tensor = region * (shape->n_seqs + 1);
    float *data = (float *)(void *)base;
    return (pkv_scales){ data + (2 * layer + is_v) * tensor + (identity ? 0 : region), region, 1,
                         cap };
}

static void contiguous_views(struct attn_memory *m, const struct attn_shape *shape,
                             enum bench_layout layout)
{
    const int64_t cap = shape->max_kv_len, row = padded_dim(shape);
    const int64_t region = cap * shape->h_kv * row;
    const int64_t tensor = region * (shape->n_seqs + 1);
    const bool identity = layout == LAYOUT_IDENTITY_TABLE;
    char *scales = (char *)m->region.base + elems_bytes(shape->dtype, 2 * shape->n_layers * tensor);
    char *zeros = scales + sizeof(float) * (size_t)(2 * shape->n_layers * tensor / row);
    for (int32_t i = 0; i < 2 * shape->n_layers; i++) {
        pkv_kv_view view = { .dtype = shape->dtype,
                             .n_blocks = shape->n_seqs + identity,
                             .block_tokens = (int32_t)cap,
                             .n_heads = shape->h_kv,
                             .dim = shape->dim,
                             .block_stride = region,
                             .token_stride = row,
                             .head_stride = cap * row };
        view.data = (char *)m->region.base +
                    elems_bytes(shape->dtype, i * tensor + (identity ? 0 : region));
        if (layout == LAYOUT_CONTIG_NHD) {
            view.token_stride = shape->h_kv * row;
            view.head_stride = row;
        }
        const int32_t layer = i / 2;
        const bool is_v = i % 2 == 1;
        if (attn_has_scales(shape->dtype))
            view.scales = contiguous_floats(scales, shape, layer, is_v, identity);
        if (attn_has_zeros(shape->dtype))
            view.zeros = contiguous_floats(zeros, shape, layer, is_v, identity);
        *(is_v ? &m->v[layer] : &m->k[layer]) = view;
    }
}

static bool contiguous_init(struct attn_memory *m, const struct attn_shape *shape,
                            enum bench_layout layout, bool huge_pages,
                            const struct attn_memory *hnd, struct bench_error *err)
{
    m->block_tokens = shape->max_kv_len;
    if (layout == LAYOUT_IDENTITY_TABLE) {
        m->region = hnd->region;
        m->borrowed = true;
        m->table = (struct layout_table){ bench_calloc((size_t)shape->n_seqs, 4, err), 1,
                                          shape->n_seqs, shape->n_seqs + 1, shape->n_seqs };
        if (!m->table.ids) return false;
        for (int32_t b = 0; b < shape->n_seqs; b++) m->table.ids[b] = b + 1;
    } else {
        const size_t bytes = (size_t)(shape->n_seqs + 1) * (size_t)shape->max_kv_len * 2 *
                             token_bytes(shape) * (size_t)shape->n_layers;
        if (!bench_region_map(&m->region, bytes, huge_pages, err)) return false;
    }
    contiguous_views(m, shape, layout);
    return true;
}

static bool paged_init(struct attn_memory *m, const struct attn_shape *shape,
                       enum bench_layout layout, int32_t block_tokens, bool huge_pages,
                       struct bench_error *err)
{
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    size_t block_bytes;
    m->block_tokens = block_tokens;
    if (!attn_memory_rename(m, shape, layout, shape->seed, err)) return false;
    cfg.shape =
        (pkv_kv_shape){ shape->n_layers, shape->h_kv, shape->dim, block_tokens, shape->dtype };
    cfg.n_blocks = m->table.n_blocks;
    pkv_status status = pkv_kv_block_bytes(&cfg.shape, &block_bytes);
    if (status == PKV_OK) {
        if (!bench_region_map(&m->region, block_bytes * (size_t)cfg.n_blocks, huge_pages, err))
            return false;
        cfg.memory = m->region.base;
        cfg.memory_bytes = m->region.bytes;
        cfg.huge_pages = huge_pages;
        status = pkv_store_create(&cfg, &m->store);
    }
    for (int32_t l = 0; status == PKV_OK && l < shape->n_layers; l++)
        status = pkv_store_views(m->store, l, &m->k[l], &m->v[l]);
    return status == PKV_OK ||
           bench_fail(err, BENCH_SKIP, "the store refuses this shape: %s", pkv_status_name(status));
}

bool attn_memory_init(struct attn_memory *m, const struct attn_shape *shape,
                      enum bench_layout layout, int32_t block_tokens, bool huge_pages,
                      const struct attn_memory *hnd, struct bench_error *err)
{
    memset(m, 0, sizeof(*m));
    m->k = bench_calloc((size_t)shape->n_layers, sizeof(*m->k), err);
    m->v = bench_calloc((size_t)shape->n_layers, sizeof(*m->v), err);
    const bool ok =
        m->k && m->v &&
        (layout_is_paged(layout) ? paged_init(m, shape, layout, block_tokens, huge_pages, err)
                                 : contiguous_init(m, shape, layout, huge_pages, hnd, err));
    if (!ok) attn_memory_deinit(m);
    return ok;
}

void attn_memory_deinit(struct attn_memory *m)
{
    pkv_store_destroy(m->store);
    if (!m->borrowed) bench_region_unmap(&m->region);
    layout_free(&m->table);
    free(m->k);
    free(m->v);
    memset(m, 0, sizeof(*m));
}

bool attn_memory_rename(struct attn_memory *m, const struct attn_shape *shape,
                        enum bench_layout layout, uint64_t seed, struct bench_error *err)
{
    struct bench_rng rng = { seed ^ (uint64_t)m->block_tokens };
    struct layout_table table;
    const int32_t n_spare = spare_blocks(used_blocks(shape, m->block_tokens));
    if (!layout_build(layout, shape->kv_len, shape->n_seqs, m->block_tokens, n_spare, &rng, &table,
                      err))
        return false;
    layout_free(&m->table);
    m->table = table;
    return true;
}

/* All bits set is a NaN in f32, f16 and bf16. The unused region in front of each contiguous tensor
 * stays untouched, so that it costs no memory. */
static void poison(const struct attn_memory *m)
{
    memset(m->region.base, 0xff, m->region.bytes);
}

static void put_float(const pkv_scales *s, int64_t block, int32_t token, int32_t head, float value)
{
    s->data[block * s->block_stride + token * s->token_stride + head * s->head_stride] = value;
}

static void fill_row(const struct attn_shape *shape, const pkv_kv_view *view, int64_t block,
                     int32_t token, const struct attn_row_place *at)
{
    const int64_t offset =
        block * view->block_stride + at->head * view->head_stride + token * view->token_stride;
    memcpy((char *)view->data + elems_bytes(shape->dtype, offset), attn_logical_row(shape, at),
           elems_bytes(shape->dtype, shape->dim));
    if (view->scales.data)
        put_float(&view->scales, block, token, at->head, attn_logical_scale(shape, at));
    if (view->zeros.data)
        put_float(&view->zeros, block, token, at->head, attn_logical_zero(shape, at));
}

static void fill_block(const struct attn_memory *m, const struct attn_shape *shape, int32_t layer,
                       int32_t seq, int32_t entry)
{
    const int32_t first = entry * m->block_tokens;
    const int32_t left = shape->kv_len[seq] - first;
    const int32_t n = left < m->block_tokens ? left : m->block_tokens;
    const int64_t block = m->table.ids ? m->table.ids[seq * m->table.stride + entry] : seq;
    for (int is_v = 0; is_v < 2; is_v++)
        for (int32_t h = 0; h < shape->h_kv; h++)
            for (int32_t t = 0; t < n; t++) {
                const struct attn_row_place at = { layer, seq, h, first + t, is_v };
                fill_row(shape, is_v ? &m->v[layer] : &m->k[layer], block, t, &at);
            }
}

void attn_memory_fill(const struct attn_memory *m, const struct attn_shape *shape)
{
    if (m->borrowed) return; /* its owner was filled */
    poison(m);
    for (int32_t l = 0; l < shape->n_layers; l++)
        for (int32_t b = 0; b < shape->n_seqs; b++)
            for (int32_t e = 0; (int64_t)e * m->block_tokens < shape->kv_len[b]; e++)
                fill_block(m, shape, l, b, e);
}
