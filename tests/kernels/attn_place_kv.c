/* K and V as bytes: strides, pools, rows of codes, scales and zero points. */
#include "attn_instance.h"
#include "oracle/oracle_numbers.h"

#include <string.h>

/* Elements from row to row: 16-byte aligned. */
static int64_t row_elems(pkv_dtype dtype, int64_t dim)
{
    const int64_t unit = dtype == PKV_U4 ? 32 : attn_is_codes(dtype) ? 16 : 8;
    return (dim + unit - 1) / unit * unit;
}

/* Strides of K or V in elements. */
static void set_strides(pkv_kv_view *v, const struct attn_layout *l)
{
    const int64_t bt = v->block_tokens, heads = v->n_heads;
    const int64_t row = row_elems(v->dtype, v->dim) + (l->padded ? 32 : 0);
    if (l->order == ORDER_NHD) { /* [block][token][head][dim] */
        v->head_stride = row;
        v->token_stride = heads * row;
        v->block_stride = bt * v->token_stride;
        return;
    }
    /* [block][head][token][dim], with other layers in between if layered */
    v->token_stride = row;
    v->head_stride = bt * row;
    v->block_stride = heads * v->head_stride * (l->order == ORDER_LAYERED ? 3 : 1);
}

static int64_t extent(const pkv_kv_view *v)
{
    return (v->n_blocks - 1) * v->block_stride + (v->block_tokens - 1) * v->token_stride +
           (v->n_heads - 1) * v->head_stride + v->dim;
}

static bool is_separate(const struct attn_numbers *n)
{
    return n->per != PER_NONE;
}

/* As a store has it: [block][head][K,V][token][dim] and, for codes, floats [head][K,V][token] for
 * scales and then for zero points, blocks rounded up to 512 bytes. */
static void place_canonical(struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    pkv_kv_view *k = &inst->k, *v = &inst->v;
    const int64_t bt = k->block_tokens, heads = k->n_heads, row = row_elems(k->dtype, k->dim);
    const int64_t data_bytes = oracle_span(k->dtype, 2 * heads * bt * row);
    const int64_t n_floats = 2 * heads * bt;
    const int64_t number_bytes = attn_is_codes(k->dtype) ? 2 * n_floats * 4 : 0;
    const int64_t block_bytes = (data_bytes + number_bytes + 511) / 512 * 512;
    k->token_stride = row;
    k->head_stride = 2 * bt * row;
    k->block_stride = block_bytes / oracle_span(k->dtype, 32) * 32;
    while (oracle_span(k->dtype, k->block_stride) < block_bytes) k->block_stride += 32;
    v->token_stride = k->token_stride;
    v->head_stride = k->head_stride;
    v->block_stride = k->block_stride;
    const int64_t last =
        number_bytes > 0 ? block_bytes
                         : data_bytes - oracle_span(k->dtype, row) + oracle_span(k->dtype, k->dim);
    unsigned char *pool =
        attn_take(inst, (k->n_blocks - 1) * block_bytes + last, inst->layout.fill);
    k->data = pool;
    v->data = pool + oracle_span(k->dtype, bt * row);
    for (int64_t b = 0; b < k->n_blocks && !inst->layout.open; b++)
        hostile_forbid(pool + b * block_bytes, (size_t)(last < data_bytes ? last : data_bytes));
    if (number_bytes == 0) return;
    float *floats = (float *)(void *)(pool + data_bytes);
    const pkv_scales at = { NULL, block_bytes / 4, 1, 2 * bt };
    k->scales = v->scales = k->zeros = v->zeros = at;
    if (is_separate(&p->k_scale)) k->scales.data = floats;
    if (is_separate(&p->v_scale)) v->scales.data = floats + bt;
    if (is_separate(&p->k_zero)) k->zeros.data = floats + n_floats;
    if (is_separate(&p->v_zero)) v->zeros.data = floats + n_floats + bt;
}

/* Strides as small as what the numbers depend on allows, or a number for each row of a head. */
static void place_numbers(struct attn_instance *inst, const struct attn_numbers *n,
                          const pkv_kv_view *v, pkv_scales *s)
{
    const int64_t bt = v->block_tokens, heads = v->n_heads, step = inst->layout.padded ? 3 : 1;
    const bool no_blocks = inst->layout.table == TABLE_NONE && n->per == PER_BLOCK;
    const bool full = inst->layout.full_scales || no_blocks || n->per == PER_TOKEN_HEAD;
    *s = (pkv_scales){ NULL, 5, 7, 11 }; /* strides of nothing */
    if (n->per == PER_NONE) return;
    *s = (pkv_scales){ NULL, 0, 0, 0 };
    if (full && inst->layout.order == ORDER_NHD)
        *s = (pkv_scales){ NULL, bt * heads * step, heads * step, step };
    else if (full) *s = (pkv_scales){ NULL, bt * heads * step, step, bt * step };
    else if (n->per == PER_HEAD) s->head_stride = step;
    else if (n->per == PER_BLOCK) s->block_stride = step;
    else if (n->per == PER_TOKEN) *s = (pkv_scales){ NULL, bt * step, step, 0 };
    const int64_t last = (v->n_blocks - 1) * s->block_stride + (bt - 1) * s->token_stride +
                         (heads - 1) * s->head_stride;
    s->data = (float *)(void *)attn_take_floats(inst, last + 1);
}

/* The 656-byte record of latent attention: 512 e4m3 codes in 4 parts, 4 scales, 64 bf16. */
enum { RECORD = 656 };

static bool is_record(const struct attn_problem *p)
{
    return p->is_mla && p->kv_dtype == PKV_E4M3 && p->rope_dtype == PKV_BF16 &&
           p->n_kv_heads == 4 && p->k_dim == 128 && p->v_dim == 64 && p->k_scale.per != PER_NONE;
}

static void place_record(struct attn_instance *inst)
{
    pkv_kv_view *k = &inst->k, *v = &inst->v;
    const int64_t bt = k->block_tokens;
    char *pool = attn_take(inst, k->n_blocks * bt * RECORD, inst->layout.fill);
    k->data = pool;
    k->token_stride = RECORD;
    k->head_stride = 128;
    k->block_stride = bt * RECORD;
    k->scales = (pkv_scales){ (float *)(void *)(pool + 512), bt * RECORD / 4, RECORD / 4, 1 };
    v->data = pool + 512 + 16;
    v->token_stride = v->head_stride = RECORD / 2;
    v->block_stride = bt * RECORD / 2;
}

static void *place_rows_of(struct attn_instance *inst, const pkv_kv_view *v)
{
    const int64_t bytes = oracle_span(v->dtype, extent(v));
    void *data = attn_take(inst, bytes, inst->layout.fill);
    if (!inst->layout.open) hostile_forbid(data, (size_t)bytes);
    return data;
}

/* K and V side by side in one pool, or each in its own memory. */
void attn_place_kv(struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    struct attn_layout l = inst->layout, v_layout = inst->layout;
    pkv_kv_view *k = &inst->k, *v = &inst->v;
    if (l.order == ORDER_CANONICAL && is_record(p)) {
        place_record(inst);
        return;
    }
    if (l.order == ORDER_CANONICAL && k->dim == v->dim && !p->is_mla) {
        place_canonical(inst);
        return;
    }
    if (l.order == ORDER_CANONICAL) l.order = ORDER_HND;
    v_layout.order = l.v_order;
    v_layout.padded = l.padded != (l.v_order == ORDER_NHD); /* often other strides, too */
    set_strides(k, &l);
    set_strides(v, &v_layout);
    k->data = place_rows_of(inst, k);
    v->data = place_rows_of(inst, v);
    place_numbers(inst, &p->k_scale, k, &k->scales);
    place_numbers(inst, &p->v_scale, v, &v->scales);
    place_numbers(inst, &p->k_zero, k, &k->zeros);
    place_numbers(inst, &p->v_zero, v, &v->zeros);
}

/* Where a row lies: block, token, head; and which row of the problem it is. */
struct row_at {
    int32_t block, token, head;
    int64_t row;
};

static void put_number(const pkv_scales *s, const float *of, const struct row_at *at)
{
    if (!s->data) return;
    s->data[at->block * s->block_stride + at->token * s->token_stride + at->head * s->head_stride] =
        of[at->row];
}

void attn_put_row(const pkv_kv_view *v, int32_t block, int32_t token, int32_t head,
                  const float *src)
{
    const int64_t at = block * v->block_stride + token * v->token_stride + head * v->head_stride;
    hostile_allow((char *)v->data + oracle_span(v->dtype, at),
                  (size_t)oracle_span(v->dtype, v->dim));
    for (int32_t d = 0; d < v->dim; d++)
        oracle_store(v->dtype, v->data, at + d, src ? (double)src[d] : 0);
}

static bool seen_by_any(const struct oracle_seq *s, int32_t j)
{
    for (int32_t i = s->q_len - 1; i >= 0; i--)
        if (oracle_sees(s, i, j)) return true;
    return false;
}

void attn_write_keys(struct attn_instance *inst, int32_t b, bool *used)
{
    const struct attn_problem *p = inst->problem;
    const struct oracle_seq s = attn_oracle(p, b);
    const int32_t bt = p->block_tokens;
    memset(used, 0, (size_t)attn_blocks_of(p, b));
    for (int32_t j = 0; j < p->kv_len[b]; j++) {
        if (!seen_by_any(&s, j)) continue;
        const bool paged = inst->layout.table != TABLE_NONE;
        const int32_t block = paged ? inst->block_ids[b][j / bt] : b, token = paged ? j % bt : j;
        used[j / bt] = true;
        for (int32_t g = 0; g < inst->k.n_heads; g++) {
            const struct row_at at = { block, token, g, (int64_t)j * inst->k.n_heads + g };
            attn_put_row(&inst->k, block, token, g, p->k[b] + at.row * p->k_dim);
            put_number(&inst->k.scales, p->k_scale.of[b], &at);
            put_number(&inst->k.zeros, p->k_zero.of[b], &at);
        }
        for (int32_t g = 0; g < inst->v.n_heads; g++) {
            const struct row_at at = { block, token, g, (int64_t)j * inst->v.n_heads + g };
            attn_put_row(&inst->v, block, token, g, p->v[b] + at.row * p->v_dim);
            put_number(&inst->v.scales, p->v_scale.of[b], &at);
            put_number(&inst->v.zeros, p->v_zero.of[b], &at);
        }
    }
}

void attn_zero_null_block(struct attn_instance *inst)
{
    pkv_kv_view *views[] = { &inst->k, &inst->v };
    for (int i = 0; i < 2; i++)
        for (int32_t t = 0; t < views[i]->block_tokens; t++)
            for (int32_t h = 0; h < views[i]->n_heads; h++) {
                const float none = 0.f;
                const struct row_at at = { 0, t, h, 0 };
                attn_put_row(views[i], 0, t, h, NULL);
                /* Numbers that other blocks share stay as they are. */
                if (views[i]->scales.block_stride > 0) put_number(&views[i]->scales, &none, &at);
                if (views[i]->zeros.block_stride > 0) put_number(&views[i]->zeros, &none, &at);
            }
}
