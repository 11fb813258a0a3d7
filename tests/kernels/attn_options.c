/* Options of attention problems: windows, positions, masks and the like. */
#include "attn_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *need(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (p) return p;
    fprintf(stderr, "no memory for %zu bytes\n", bytes);
    exit(2);
}

static void draw_heads(struct rng *r, struct attn_problem *p, enum attn_option which)
{
    for (int32_t h = 0; h < p->n_q_heads && which == OPTION_ALIBI; h++)
        p->alibi[h] = exp2f(-(float)rng_int(r, 0, 10));
    if (which == OPTION_ALIBI && rng_chance(r, 20)) p->alibi[0] = -0.125f;
    for (int32_t h = 0; h < p->n_q_heads && which == OPTION_SINK; h++)
        p->sink[h] = rng_chance(r, 85)   ? 3.f * rng_signed(r)
                     : rng_chance(r, 50) ? 60.f
                                         : -INFINITY; /* as if there were none */
    if (which == OPTION_ALIBI) p->opts.alibi = p->alibi;
    if (which == OPTION_SINK) p->opts.sink = p->sink;
}

static void draw_detached(struct check *c, struct attn_problem *p)
{
    if (p->mask) return;
    if (!p->q_pos) attn_draw_q_pos(c, p);
    p->q_detached = true;
}

void attn_draw_option(struct check *c, struct attn_problem *p, enum attn_option which)
{
    struct rng *r = &c->rng;
    switch (which) {
    case OPTION_NOT_CAUSAL:
        p->opts.causal = 0;
        break;
    case OPTION_WINDOW:
        p->opts.window_left = rng_int(r, 0, rng_chance(r, 50) ? 4 : 60);
        break;
    case OPTION_WINDOW_RIGHT:
        p->opts.window_right = rng_int(r, 0, 5);
        p->opts.causal = 0;
        break;
    case OPTION_SOFTCAP:
        p->opts.softcap = rng_chance(r, 50) ? 5.f : 0.5f + 30.f * fabsf(rng_signed(r));
        break;
    case OPTION_ALIBI:
    case OPTION_SINK:
        draw_heads(r, p, which);
        break;
    case OPTION_SCALE:
        p->opts.scale = 0.03f + fabsf(rng_signed(r));
        if (rng_chance(r, 10)) p->opts.scale = -p->opts.scale;
        break;
    case OPTION_TREE:
    case OPTION_MASK:
        if (!p->q_detached && !p->mask) attn_draw_mask(c, p, which == OPTION_TREE && !p->q_pos);
        break;
    case OPTION_Q_POS:
        if (!p->q_pos) attn_draw_q_pos(c, p);
        break;
    case OPTION_DETACHED:
        draw_detached(c, p);
        break;
    case OPTION_INT8_QK:
        p->opts.int8_qk = 1;
        break;
    default:
        p->base2 = !p->base2;
    }
}

void attn_draw_options(struct check *c, struct attn_problem *p, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        attn_draw_option(c, p, (enum attn_option)rng_int(&c->rng, 0, ATTN_N_OPTIONS - 1));
}

void attn_draw_q_pos(struct check *c, struct attn_problem *p)
{
    attn_lay_rows(p);
    p->q_pos = need((size_t)p->n_rows * sizeof(int32_t));
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t base = (p->with_pos0 ? p->pos0[b] : 0) + p->kv_len[b] - p->q_len[b];
        const int32_t kind = rng_int(&c->rng, 0, 9) * 3 / 9; /* 3: seldom */
        int32_t at = base;
        for (int32_t i = 0; i < p->q_len[b]; i++) {
            if (kind == 0) at = base + i;                      /* as if not given */
            if (kind == 1) at = base + rng_int(&c->rng, 0, i); /* a tree: siblings, any order */
            if (kind == 2) at += rng_int(&c->rng, i == 0 ? 0 : 1, 3); /* gaps */
            if (kind == 3) at = rng_chance(&c->rng, 50) ? INT32_MAX - i : INT32_MIN + i;
            p->q_pos[p->row0[b] + i] = at;
        }
    }
}

static void set_bit(uint32_t *row, int32_t i)
{
    row[i / 32] |= UINT32_C(1) << i % 32;
}

/* A tree of drafts: each row but the first hangs on an earlier one, or on what is before them, sees
 * its ancestors and itself, and stands at its depth. */
static void draw_tree(struct rng *r, struct attn_problem *p, int32_t b)
{
    uint32_t *mask = p->mask + (int64_t)p->row0[b] * p->mask_words;
    int32_t *pos = p->q_pos + p->row0[b];
    const int32_t base = (p->with_pos0 ? p->pos0[b] : 0) + p->kv_len[b] - p->q_len[b];
    for (int32_t i = 0; i < p->q_len[b]; i++) {
        const int32_t parent = rng_int(r, rng_chance(r, 10) ? -1 : i / 2 - 1, i - 1);
        uint32_t *row = mask + (int64_t)i * p->mask_words;
        for (int32_t w = 0; w < p->mask_words && parent >= 0; w++)
            row[w] |= mask[(int64_t)parent * p->mask_words + w];
        set_bit(row, i);
        pos[i] = parent < 0 ? base : pos[parent] + 1;
    }
}

void attn_draw_mask(struct check *c, struct attn_problem *p, bool tree)
{
    struct rng *r = &c->rng;
    attn_lay_rows(p);
    int32_t longest = 0;
    for (int32_t b = 0; b < p->n_seqs; b++)
        if (p->q_len[b] > longest) longest = p->q_len[b];
    p->mask_words = (longest + 31) / 32;
    p->mask = need((size_t)p->n_rows * (size_t)p->mask_words * sizeof(uint32_t));
    if (tree) {
        p->opts.causal = 0;
        p->q_pos = need((size_t)p->n_rows * sizeof(int32_t));
    }
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t percent = (const int32_t[]){ 50, 10, 90, 0 }[rng_int(r, 0, 9) * 3 / 9];
        if (tree) draw_tree(r, p, b);
        for (int32_t i = 0; i < p->q_len[b]; i++)
            for (int32_t j = 0; j < p->mask_words * 32; j++) {
                uint32_t *row = p->mask + (int64_t)(p->row0[b] + i) * p->mask_words;
                if ((!tree || j >= p->q_len[b]) && rng_chance(r, tree ? 50 : percent))
                    set_bit(row, j); /* bits of no key say nothing */
            }
    }
}
