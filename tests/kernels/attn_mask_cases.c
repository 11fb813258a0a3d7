/* Masks over the rows' own keys: trees of drafts, any bits, rows of too few words. */
#include "attn_instance.h"
#include "check_device.h"

#include <string.h>

static struct attn_problem draw(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_usual(c);
    p.q_dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    p.n_kv_heads = rng_int(r, 1, 2);
    p.n_q_heads = p.n_kv_heads * rng_int(r, 1, 5);
    p.k_dim = p.v_dim = 8 * rng_int(r, 1, 9);
    p.block_tokens = rng_int(r, 1, 20);
    p.n_seqs = rng_int(r, 1, 5);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.q_len[b] = rng_chance(r, 20) ? rng_int(r, 31, 70) : rng_int(r, 0, 12);
        p.kv_len[b] = p.q_len[b] + rng_int(r, 0, rng_chance(r, 20) ? 1100 : 50);
        if (rng_chance(r, 15)) p.kv_len[b] = rng_int(r, 0, p.q_len[b]); /* fewer keys than rows */
        p.pos0[b] = rng_int(r, 0, 1000);
    }
    p.with_pos0 = rng_chance(r, 40);
    attn_draw_scales(c, &p);
    return p;
}

static void run(struct check *c, struct attn_problem *p)
{
    struct attn_result r = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    attn_fill(c, p);
    attn_try(c, p, &layout, &r);
    attn_result_free(&r);
    attn_free(p);
}

/* Verify of a tree of drafts: siblings stand at one position. */
static void trees(struct check *c)
{
    struct attn_problem p = draw(c);
    attn_draw_mask(c, &p, true);
    if (rng_chance(&c->rng, 40))
        attn_draw_option(c, &p,
                         (enum attn_option[]){ OPTION_ALIBI, OPTION_WINDOW, OPTION_SINK,
                                               OPTION_SOFTCAP }[rng_int(&c->rng, 0, 3)]);
    run(c, &p);
}

/* Bits that are no tree, with positions or without, causal or not. */
static void bits(struct check *c)
{
    struct attn_problem p = draw(c);
    if (rng_chance(&c->rng, 40)) attn_draw_q_pos(c, &p);
    attn_draw_mask(c, &p, false);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 2));
    run(c, &p);
}

/* KT25: rows of fewer words than a sequence needs: reported, missing bits are 0, nothing is read
 * behind. */
static void short_rows(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_instance inst;
    struct attn_route routes[ATTN_MAX_SEQS];
    struct attn_result r = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    const int32_t b = rng_int(&c->rng, 0, p.n_seqs - 1);
    const int32_t words = rng_int(&c->rng, 1, 2);
    for (int32_t s = 0; s < p.n_seqs; s++)
        if (p.q_len[s] > 32 * words) p.q_len[s] = 3;
    p.q_len[b] = 32 * words + rng_int(&c->rng, 1, 40);
    p.kv_len[b] += 1;
    attn_draw_mask(c, &p, false);
    for (int32_t i = 0; i < p.n_rows; i++) /* what is missing, counted as 0 */
        for (int32_t w = words; w < p.mask_words; w++) p.mask[i * p.mask_words + w] = 0;
    attn_fill(c, &p);
    attn_build(c, &p, &layout, &inst);
    attn_routes(c, &inst, routes);
    const int64_t before = p.with_q_indptr ? inst.q_indptr[0] : 0;
    struct hostile mask = hostile_create((size_t)((before + p.n_rows) * words) * 4, 0xff);
    for (int32_t i = 0; i < p.n_rows; i++)
        memcpy((uint32_t *)(void *)mask.data + (before + i) * words, p.mask + i * p.mask_words,
               (size_t)words * 4);
    hostile_lock(&mask);
    inst.opts.mask = (uint32_t *)(void *)mask.data;
    inst.opts.mask_stride = words;
    const pkv_status status = attn_call(c, &inst, &r);
    CHECK(c,
          status == check_want(c, true) && inst.bad[0] == PKV_BAD_MASK &&
              inst.bad[1] == (uint32_t)b,
          "%d words for %d rows of sequence %d: status %s, bad %#x, sequence %u", words, p.q_len[b],
          b, pkv_status_name(status), (unsigned)inst.bad[0], (unsigned)inst.bad[1]);
    attn_judge(c, &p, &r, routes);
    hostile_destroy(&mask);
    attn_result_free(&r);
    attn_destroy(&inst);
    attn_free(&p);
}

const struct check_case attn_mask_cases[] = {
    { "attention", "trees", trees, 24, 6, TYPED_STORES },
    { "attention", "mask_bits", bits, 24, 6, TYPED_STORES },
    { "attention", "mask_short", short_rows, 8, 2, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
