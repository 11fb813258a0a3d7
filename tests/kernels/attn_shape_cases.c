/* Attention within its bounds: shapes, options, values, each on hostile memory. */
#include "attn_instance.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <string.h>

static void try_and_free(struct check *c, struct attn_problem *p)
{
    struct attn_result result = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    attn_fill(c, p);
    attn_try(c, p, &layout, &result);
    attn_result_free(&result);
    attn_free(p);
}

static pkv_dtype any_dtype(struct check *c)
{
    return (pkv_dtype)rng_int(&c->rng, PKV_F32, PKV_BF16);
}

/* KT6, KT21: every kv_len mod block_tokens, for small blocks; the edges for large ones. Queries of
 * the store's type in even seeds, of any type in odd ones. */
static void lengths(struct check *c)
{
    static const int32_t sizes[] = { 1, 2, 3, 5, 16, 24, 48, 64, 100, 256, 1000 };
    const int32_t n_sizes = (int32_t)(sizeof(sizes) / sizeof(sizes[0]));
    struct attn_problem p = attn_usual(c);
    const int32_t bt = sizes[c->seed % n_sizes];
    p.block_tokens = bt;
    p.k_dim = p.v_dim = rng_chance(&c->rng, 50) ? 32 : 16 * rng_int(&c->rng, 1, 4);
    p.n_q_heads = rng_int(&c->rng, 1, 3);
    if (c->seed % 2) p.q_dtype = any_dtype(c);
    p.n_seqs = 0;
    if (bt <= 64) {
        const int32_t base = rng_int(&c->rng, 0, 2) * bt;
        for (int32_t rest = 1; rest <= bt; rest++) p.kv_len[p.n_seqs++] = base + rest;
    } else {
        const int32_t edges[] = { 1, bt - 1, bt, bt + 1, 2 * bt - 1, 2 * bt, 2 * bt + 1 };
        for (int i = 0; i < 7; i++) p.kv_len[p.n_seqs++] = edges[i];
    }
    p.with_q_indptr = rng_chance(&c->rng, 50);
    try_and_free(c, &p);
}

/* KT9, KT18: head ratios. */
static void groups(struct check *c)
{
    static const int32_t ratios[] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                      11, 12, 13, 14, 15, 16, 24, 32, 64, 128 };
    const int32_t n_ratios = (int32_t)(sizeof(ratios) / sizeof(ratios[0]));
    struct attn_problem p = attn_usual(c);
    p.n_kv_heads = rng_int(&c->rng, 1, 2);
    p.n_q_heads = p.n_kv_heads * ratios[c->seed % n_ratios];
    p.k_dim = p.v_dim = rng_chance(&c->rng, 50) ? 64 : 16;
    p.n_seqs = 2;
    p.kv_len[0] = rng_int(&c->rng, 1, 60);
    p.kv_len[1] = rng_int(&c->rng, 1, 20);
    p.q_len[1] = rng_int(&c->rng, 1, 2);
    if (rng_chance(&c->rng, 50)) p.q_dtype = any_dtype(c);
    if (rng_chance(&c->rng, 50)) attn_draw_option(c, &p, 4 + rng_int(&c->rng, 0, 1));
    try_and_free(c, &p);
}

/* Every dim; K and V of different dims. */
static void dims(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.k_dim = p.v_dim = 8 * (1 + (int32_t)(c->seed % 32));
    if (rng_chance(&c->rng, 25)) p.v_dim = 8 * rng_int(&c->rng, 1, 32);
    p.n_q_heads = rng_int(&c->rng, 1, 5);
    p.n_seqs = 2;
    p.kv_len[0] = rng_int(&c->rng, 1, 70);
    p.kv_len[1] = rng_int(&c->rng, 3, 30);
    p.q_len[1] = rng_int(&c->rng, 1, 3);
    p.q_dtype = any_dtype(c);
    p.values = rng_chance(&c->rng, 20) ? VALUES_SPREAD : VALUES_NORMAL;
    try_and_free(c, &p);
}

/* Everything drawn, options alone or in pairs. */
static void ragged(struct check *c)
{
    struct attn_problem p = attn_draw_ragged(c);
    const int32_t n_options = rng_int(&c->rng, 0, 2);
    for (int32_t i = 0; i < n_options; i++)
        attn_draw_option(c, &p, rng_int(&c->rng, 0, ATTN_N_OPTIONS - 1));
    if (rng_chance(&c->rng, 30)) attn_draw_sharing(c, &p);
    if (rng_chance(&c->rng, 20)) attn_draw_q_pos(c, &p);
    try_and_free(c, &p);
}

/* Each option on its own and every pair: seeds walk through all of them. KT16 is softcap with
 * masked keys, KT15 ALiBi with one to four rows. */
static void options(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    const int32_t a = (int32_t)(c->seed % ATTN_N_OPTIONS);
    const int32_t b = (int32_t)(c->seed / ATTN_N_OPTIONS % ATTN_N_OPTIONS);
    p.q_dtype = any_dtype(c);
    p.n_kv_heads = 2;
    p.n_q_heads = 2 * rng_int(&c->rng, 1, 4);
    p.k_dim = p.v_dim = rng_chance(&c->rng, 70) ? 48 : 24;
    p.block_tokens = rng_int(&c->rng, 1, 20);
    p.n_seqs = 4;
    for (int32_t s = 0; s < p.n_seqs; s++) {
        p.q_len[s] = s < 2 ? 1 : rng_int(&c->rng, 1, 4);
        p.kv_len[s] = rng_int(&c->rng, 1, s == 1 ? 300 : 40);
        p.pos0[s] = rng_int(&c->rng, 0, 100000);
    }
    p.with_pos0 = rng_chance(&c->rng, 50);
    attn_draw_option(c, &p, a);
    if (b != a) attn_draw_option(c, &p, b);
    try_and_free(c, &p);
}

/* KT14: windows around every block edge; which keys are seen is brute force in the oracle. */
static void windows(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    const int32_t bt = rng_int(&c->rng, 1, 9);
    p.block_tokens = bt;
    p.k_dim = p.v_dim = 16;
    p.opts.window_left = (int32_t)(c->seed % (3 * bt + 2)) - (c->seed % 7 == 0 ? 1 : 0);
    if (p.opts.window_left < -1) p.opts.window_left = -1;
    if (rng_chance(&c->rng, 40)) {
        p.opts.causal = 0;
        p.opts.window_right = rng_int(&c->rng, -1, bt + 1);
    }
    p.n_seqs = 24;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = b + 1;
        p.q_len[b] = rng_chance(&c->rng, 50) ? 1 : rng_int(&c->rng, 1, b + 2);
    }
    try_and_free(c, &p);
}

/* Row positions given: gaps, trees with siblings at one position, orders that do not rise. The keys
 * a row sees are then no interval. */
static void positions(struct check *c)
{
    struct attn_problem p = attn_draw_ragged(c);
    p.k_dim = p.v_dim = 32;
    for (int32_t b = 0; b < p.n_seqs; b++) p.q_len[b] = rng_int(&c->rng, 1, 9);
    p.with_q_indptr = true;
    attn_draw_option(c, &p, (int32_t[]){ 0, 1, 2, 4, 6 }[c->seed % 5]);
    attn_draw_q_pos(c, &p);
    try_and_free(c, &p);
}

/* Cruel values, each kind in turn; sums over many equal or vanishing keys. */
static void values(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.values = (enum attn_values)(c->seed % VALUES_N);
    p.q_dtype = rng_chance(&c->rng, 60) ? p.kv_dtype : any_dtype(c);
    p.k_dim = p.v_dim = 16 * rng_int(&c->rng, 1, 8);
    p.n_q_heads = rng_int(&c->rng, 1, 8);
    p.n_seqs = 3;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(&c->rng, 1, b == 2 ? 400 : 50);
        p.q_len[b] = b == 1 ? 3 : 1;
    }
    if (rng_chance(&c->rng, 30)) attn_draw_option(c, &p, rng_int(&c->rng, 3, 5));
    try_and_free(c, &p);
}

/* Long rows: bounds grow slowly, and so must errors. */
static void longer(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.kv_len[0] = rng_int(&c->rng, 2000, 6000);
    p.k_dim = p.v_dim = 64;
    p.n_q_heads = rng_int(&c->rng, 1, 4);
    p.values = rng_chance(&c->rng, 50) ? VALUES_NORMAL : VALUES_SPREAD;
    try_and_free(c, &p);
}

/* Prefill: as many rows as keys. */
static void prefill(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.n_seqs = 2;
    p.k_dim = p.v_dim = 32;
    for (int32_t b = 0; b < p.n_seqs; b++) p.q_len[b] = p.kv_len[b] = rng_int(&c->rng, 1, 60);
    try_and_free(c, &p);
}

const struct check_case attn_shape_cases[] = {
    { "attention", "lengths", lengths, 22, 11, true },
    { "attention", "groups", groups, 40, 20, true },
    { "attention", "dims", dims, 64, 32, true },
    { "attention", "ragged", ragged, 250, 40, true },
    { "attention", "options", options, 128, 64, true },
    { "attention", "windows", windows, 60, 20, true },
    { "attention", "positions", positions, 60, 20, true },
    { "attention", "values", values, 60, 18, true },
    { "attention", "longer", longer, 4, 1, true },
    { "attention", "prefill", prefill, 8, 2, true },
    { NULL, NULL, NULL, 0, 0, false },
};
