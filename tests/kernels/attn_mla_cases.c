/* Latent attention: rows shared by keys and values, parts with scales of their own. */
#include "attn_instance.h"
#include "check_device.h"

/* A device reads rotary parts of 16 bits, of the latent's type where that has 16 bits as well, and
 * no zero points. */
static void fit_to_device(struct check *c, struct attn_problem *p)
{
    if (!check_on_device(c)) return;
    p->rope_dtype = attn_is_codes(p->kv_dtype)
                        ? (pkv_dtype)rng_int(&c->device_rng, PKV_F16, PKV_BF16)
                        : p->kv_dtype;
    p->v_scale.per = p->k_zero.per = p->v_zero.per = PER_NONE;
}

static struct attn_problem usual(struct check *c)
{
    struct rng *r = &c->rng;
    static const int32_t parts[][2] = { { 1, 512 }, { 1, 64 }, { 2, 256 }, { 4, 128 },
                                        { 1, 8 },   { 1, 8 },  { 4, 16 },  { 8, 32 } };
    struct attn_problem p = attn_usual(c);
    const int32_t kind = rng_int(r, 0, 7);
    p.is_mla = true;
    p.rope_dtype = rng_chance(r, 50) ? p.kv_dtype : (pkv_dtype)rng_int(r, PKV_F32, PKV_U4);
    p.q_dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    p.n_kv_heads = parts[kind][0];
    p.k_dim = parts[kind][1];
    p.v_dim = 8 * rng_int(r, 1, p.k_dim == 8 ? 1 : 16);
    if (p.k_dim == 8)
        p.q_dtype = PKV_F32; /* few dims, nothing rounded: shows how tight bounds are */
    p.n_q_heads = rng_chance(r, 20) ? 128 : rng_int(r, 1, 18);
    p.block_tokens = rng_int(r, 1, 70);
    p.n_seqs = rng_int(r, 1, 4);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(r, 0, rng_chance(r, 20) ? 300 : rng_chance(r, 30) ? 3 : 60);
        if (p.k_dim == 8) p.kv_len[b] = rng_int(r, 1, 3);
        p.q_len[b] = rng_chance(r, 60) ? 1 : rng_int(r, 0, 5);
        p.pos0[b] = rng_int(r, 0, 1000);
    }
    p.with_pos0 = rng_chance(r, 30);
    attn_draw_scales(c, &p);
    fit_to_device(c, &p);
    return p;
}

static void run(struct check *c, struct attn_problem *p, const struct attn_layout *layout)
{
    struct attn_result r = { 0 };
    attn_fill(c, p);
    attn_try(c, p, layout, &r);
    attn_result_free(&r);
    attn_free(p);
}

static void latent(struct check *c)
{
    struct attn_problem p = usual(c);
    const struct attn_layout layout = attn_draw_layout(c);
    p.values = rng_chance(&c->rng, 20) ? (enum attn_values)rng_int(&c->rng, 0, VALUES_N - 1)
                                       : VALUES_NORMAL;
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 2));
    p.opts.int8_qk = 0;
    run(c, &p, &layout);
}

/* The 656-byte record: 512 e4m3 codes with a scale per 128, 64 bf16, one after the other. */
static void record(struct check *c)
{
    struct attn_problem p = usual(c);
    struct attn_layout layout = attn_draw_layout(c);
    p.kv_dtype = PKV_E4M3;
    p.rope_dtype = PKV_BF16;
    p.n_kv_heads = 4;
    p.k_dim = 128;
    p.v_dim = 64;
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_NONE, SCALE_USUAL);
    layout.order = ORDER_CANONICAL;
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 1));
    p.opts.int8_qk = 0;
    run(c, &p, &layout);
    c->ratio = 0; /* a logit's bound is wide for 576 dims; other runs say how tight the rest is */
}

/* Other blocks, orders and strides; alone and in a batch: the same bits. */
static void latent_bits(struct check *c)
{
    struct attn_problem p = usual(c);
    struct attn_result first = { 0 }, other = { 0 };
    struct attn_layout layout = attn_draw_layout(c);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 1));
    p.opts.int8_qk = 0;
    attn_make_invariant(c, &p);
    attn_fill(c, &p);
    attn_try(c, &p, &layout, &first);
    for (int i = 0; i < TABLE_N; i++) {
        layout = attn_draw_layout(c);
        layout.table = (enum attn_table)i;
        layout.fill = i == 1 ? 0x7f : 0xff;
        attn_try(c, &p, &layout, &other);
        attn_same_bits(c, &p, &first, &other, NULL, "renaming blocks and strides");
        attn_result_free(&other);
    }
    for (int32_t b = 0; b < p.n_seqs; b++) {
        struct attn_problem one = attn_alone(&p, b);
        if (p.q_len[b] != 1) one.with_q_indptr = true;
        attn_try(c, &one, &layout, &other);
        attn_same_part(c, &p, &first, p.row0[b], &other, one.n_rows, "company");
        attn_result_free(&other);
    }
    attn_result_free(&first);
    attn_free(&p);
}

const struct check_case attn_mla_cases[] = {
    { "attention_mla", "latent", latent, 40, 8, TYPED_STORES },
    { "attention_mla", "record", record, 20, 4, UNTYPED },
    { "attention_mla", "bits", latent_bits, 8, 2, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
