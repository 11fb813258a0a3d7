/* Builds and fills K and V in every layout. */
#include "attention_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half_floats.h"

static size_t elem_bytes(pkv_dtype dtype)
{
    return (size_t)pkv_dtype_bits(dtype) / 8;
}

bool attn_numbers_init(struct attn_shape *shape, struct bench_error *err)
{
    struct bench_rng rng = { shape->seed ^ 0x6e756d62657273u };
    shape->numbers = bench_calloc(ATTN_NUMBERS, elem_bytes(shape->dtype), err);
    if (!shape->numbers) return false;
    for (int i = 0; i < ATTN_NUMBERS; i++) {
        /* The sum of 12 uniforms has variance 1 and needs no libm, whose last bits differ. */
        double sum = -6;
        for (int k = 0; k < 12; k++) sum += bench_rng_unit(&rng);
        number_put(shape->numbers, shape->dtype, i, (float)sum);
    }
    return true;
}

const void *attn_logical_row(const struct attn_shape *shape, int32_t layer, int32_t seq,
                             int32_t head, int32_t token, bool is_v)
{
    uint64_t h = bench_mix(shape->seed + (uint64_t)layer * 0x9e3779b97f4a7c15u);
    h = bench_mix(h ^ ((uint64_t)seq << 32 | (uint32_t)head << 1 | is_v));
    h = bench_mix(h ^ (uint64_t)token);
    const uint64_t n_starts = (uint64_t)(ATTN_NUMBERS - shape->dim) / 8;
    return (const char *)shape->numbers + h % n_starts * 8 * elem_bytes(shape->dtype);
}

static size_t token_bytes(const struct attn_shape *shape)
{
    return (size_t)shape->h_kv * (size_t)shape->dim * elem_bytes(shape->dtype);
}

int64_t attn_layer_bytes(const struct attn_shape *shape)
{
    return shape->sum_kv_len * 2 * (int64_t)token_bytes(shape);
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
    return (n + spare_blocks(n) + 1) * block_tokens * token;
}

static void contiguous_views(struct attn_memory *m, const struct attn_shape *shape,
                             enum bench_layout layout)
{
    const int64_t cap = shape->max_kv_len, dim = shape->dim;
    const int64_t region = cap * shape->h_kv * dim;
    const int64_t tensor = region * (shape->n_seqs + 1);
    const bool identity = layout == LAYOUT_IDENTITY_TABLE;
    pkv_kv_view view = { NULL,
                         shape->dtype,
                         shape->n_seqs + identity,
                         (int32_t)cap,
                         shape->h_kv,
                         (int32_t)dim,
                         region,
                         dim,
                         cap * dim,
                         { NULL, 0, 0, 0 },
                         { NULL, 0, 0, 0 } };
    if (layout == LAYOUT_CONTIG_NHD) {
        view.token_stride = shape->h_kv * dim;
        view.head_stride = dim;
    }
    for (int32_t l = 0; l < shape->n_layers; l++) {
        char *base = (char *)m->region.base +
                     (size_t)(2 * l * tensor + (identity ? 0 : region)) * elem_bytes(shape->dtype);
        m->k[l] = m->v[l] = view;
        m->k[l].data = base;
        m->v[l].data = base + (size_t)tensor * elem_bytes(shape->dtype);
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
static void poison(const struct attn_memory *m, const struct attn_shape *shape)
{
    if (m->store) {
        memset(m->region.base, 0xff, m->region.bytes);
        return;
    }
    const size_t bytes =
        (size_t)m->k[0].block_stride * elem_bytes(shape->dtype) * (size_t)shape->n_seqs;
    for (int32_t l = 0; l < shape->n_layers; l++) {
        memset(m->k[l].data, 0xff, bytes);
        memset(m->v[l].data, 0xff, bytes);
    }
}

static void fill_block(const struct attn_memory *m, const struct attn_shape *shape, int32_t layer,
                       int32_t seq, int32_t entry)
{
    const int32_t first = entry * m->block_tokens;
    const int32_t left = shape->kv_len[seq] - first;
    const int32_t n = left < m->block_tokens ? left : m->block_tokens;
    const int64_t block = m->table.ids ? m->table.ids[seq * m->table.stride + entry] : seq;
    const size_t row_bytes = (size_t)shape->dim * elem_bytes(shape->dtype);
    for (int is_v = 0; is_v < 2; is_v++) {
        const pkv_kv_view *view = is_v ? &m->v[layer] : &m->k[layer];
        for (int32_t h = 0; h < shape->h_kv; h++)
            for (int32_t t = 0; t < n; t++) {
                const int64_t at =
                    block * view->block_stride + h * view->head_stride + t * view->token_stride;
                memcpy((char *)view->data + (size_t)at * elem_bytes(shape->dtype),
                       attn_logical_row(shape, layer, seq, h, first + t, is_v), row_bytes);
            }
    }
}

void attn_memory_fill(const struct attn_memory *m, const struct attn_shape *shape)
{
    if (m->borrowed) return; /* its owner was filled */
    poison(m, shape);
    for (int32_t l = 0; l < shape->n_layers; l++)
        for (int32_t b = 0; b < shape->n_seqs; b++)
            for (int32_t e = 0; (int64_t)e * m->block_tokens < shape->kv_len[b]; e++)
                fill_block(m, shape, l, b, e);
}
