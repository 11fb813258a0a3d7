/* Attention within its bounds: shapes, options, values, each on hostile memory. */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <string.h>

static void try_and_free(struct check *c, struct attn_problem *p)
{
    struct attn_result result = { 0 };
    struct attn_layout layout = attn_draw_layout(c);
    layout.raw_workspace = rng_chance(&c->device_rng, 10);
    if (rng_chance(&c->device_rng, 15)) attn_make_invariant(c, p);
    attn_fill(c, p);
    attn_try(c, p, &layout, &result);
    attn_result_free(&result);
    attn_free(p);
}

static pkv_dtype any_dtype(struct check *c)
{
    return (pkv_dtype)rng_int(&c->rng, PKV_F32, PKV_BF16);
}

/* Sizes that panels, tiles and chunks are multiples of, and sizes that they are not. */
static int32_t any_block(struct check *c)
{
    static const int32_t sizes[] = { 1, 7, 16, 24, 32, 48, 64, 100, 256, 1000 };
    return sizes[rng_int(&c->rng, 0, 9)];
}

/* KT6, KT21: every kv_len mod block_tokens, for small blocks; the edges for large ones. Queries of
 * the store's type in even seeds, of any type in odd ones. */
static void lengths(struct check *c)
{
    static const int32_t sizes[] = { 1, 2, 3, 5, 8, 16, 24, 48, 64, 100, 256, 1000 };
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
    p.q_len[1] = rng_int(&c->rng, 1, rng_chance(&c->rng, 30) ? 6 : 2);
    if (rng_chance(&c->rng, 50)) p.q_dtype = any_dtype(c);
    if (rng_chance(&c->rng, 50))
        attn_draw_option(c, &p, rng_chance(&c->rng, 50) ? OPTION_ALIBI : OPTION_SINK);
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
    p.q_len[1] = rng_chance(&c->rng, 40) ? 33 : rng_int(&c->rng, 1, 3); /* either family */
    p.q_dtype = any_dtype(c);
    attn_draw_scales(c, &p);
    p.values = rng_chance(&c->rng, 20) ? VALUES_SPREAD : VALUES_NORMAL;
    try_and_free(c, &p);
}

/* Everything drawn, options alone or in pairs. */
static void ragged(struct check *c)
{
    struct attn_problem p = attn_draw_ragged(c);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 2));
    if (rng_chance(&c->rng, 30)) attn_draw_sharing(c, &p);
    try_and_free(c, &p);
}

/* Each option on its own and every pair: seeds walk through all of them. KT16 is softcap with
 * masked keys, KT15 ALiBi with one to four rows. */
static void options(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    const enum attn_option a = (enum attn_option)(c->seed % ATTN_N_OPTIONS);
    const enum attn_option b = (enum attn_option)(c->seed / ATTN_N_OPTIONS % ATTN_N_OPTIONS);
    p.q_dtype = any_dtype(c);
    p.n_kv_heads = 2;
    p.n_q_heads = 2 * rng_int(&c->rng, 1, 4);
    p.k_dim = p.v_dim = rng_chance(&c->rng, 70) ? 48 : 24;
    p.block_tokens = rng_int(&c->rng, 1, 20);
    p.n_seqs = 5;
    attn_draw_scales(c, &p);
    for (int32_t s = 0; s < p.n_seqs; s++) {
        p.q_len[s] = s < 2 ? 1 : s < 4 ? rng_int(&c->rng, 1, 4) : rng_int(&c->rng, 33, 40);
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
    if (rng_chance(&c->rng, 50)) p.q_len[0] = rng_int(&c->rng, 10, 40);
    attn_draw_option(c, &p,
                     (enum attn_option[]){ OPTION_NOT_CAUSAL, OPTION_WINDOW, OPTION_WINDOW_RIGHT,
                                           OPTION_ALIBI, OPTION_SCALE }[c->seed % 5]);
    attn_draw_option(c, &p, c->seed % 3 ? OPTION_Q_POS : OPTION_DETACHED);
    try_and_free(c, &p);
}

/* Cruel values, each kind in turn; sums over many equal or vanishing keys. */
static void values(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.values = (enum attn_values)(c->seed % VALUES_N);
    if (rng_chance(&c->rng, 40)) p.q_dtype = any_dtype(c);
    p.k_dim = p.v_dim = 16 * rng_int(&c->rng, 1, 8);
    p.n_q_heads = rng_int(&c->rng, 1, 8);
    p.n_seqs = 3;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(&c->rng, 1, b == 2 ? 400 : 50);
        p.q_len[b] = b != 1 ? 1 : rng_chance(&c->rng, 50) ? 3 : 33;
    }
    if (rng_chance(&c->rng, 30))
        attn_draw_option(c, &p, (enum attn_option)rng_int(&c->rng, OPTION_SOFTCAP, OPTION_SINK));
    try_and_free(c, &p);
}

/* Long sequences: bounds grow slowly, and so must errors. */
static void longer(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.kv_len[0] = rng_int(&c->rng, 2000, 6000);
    p.block_tokens = any_block(c);
    p.k_dim = p.v_dim = 64;
    p.n_q_heads = rng_int(&c->rng, 1, 4);
    p.values = rng_chance(&c->rng, 50) ? VALUES_NORMAL : VALUES_SPREAD;
    if (attn_is_codes(c->dtype)) p.q_dtype = any_dtype(c);
    try_and_free(c, &p);
}

/* Around the borders of chunks of 1024 keys: where a chunk is full, has one key, or has none that a
 * window lets through. */
static void chunks(struct check *c)
{
    static const int32_t edges[] = { 1023, 1024, 1025, 2047, 2048, 2049, 1040, 3073 };
    struct attn_problem p = attn_usual(c);
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 6);
    p.n_q_heads = rng_int(&c->rng, 1, 3);
    p.block_tokens = any_block(c);
    p.n_seqs = 3;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = edges[(c->seed + 3 * b) % 8];
        p.q_len[b] = b == 1 ? rng_int(&c->rng, 2, 9) : b == 2 ? rng_int(&c->rng, 33, 36) : 1;
    }
    attn_draw_scales(c, &p);
    if (c->seed % 2) {
        p.opts.window_left = (const int32_t[]){ 0, 1, 1023, 1024, 1025, 30 }[c->seed / 2 % 6];
        if (rng_chance(&c->rng, 50)) p.opts.window_right = p.opts.causal = 0;
    }
    if (rng_chance(&c->rng, 40)) attn_draw_options(c, &p, 1);
    p.values = rng_chance(&c->rng, 30) ? VALUES_SPREAD : VALUES_NORMAL;
    try_and_free(c, &p);
}

/* Numbers of rows around tiles, of keys around tiles and blocks, beside decode rows. */
static void rows(struct check *c)
{
    static const int32_t q_lens[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 33, 63, 64, 65, 130 };
    static const int32_t tiles[] = { 16, 32, 64, 128, 256 };
    struct attn_problem p = attn_usual(c);
    p.n_kv_heads = rng_int(&c->rng, 1, 2);
    p.n_q_heads = p.n_kv_heads * (const int32_t[]){ 1, 1, 2, 3, 4, 8 }[rng_int(&c->rng, 0, 5)];
    p.k_dim = 8 * rng_int(&c->rng, 1, 10);
    p.v_dim = rng_chance(&c->rng, 70) ? p.k_dim : 8 * rng_int(&c->rng, 1, 10);
    p.q_dtype = any_dtype(c);
    p.block_tokens = any_block(c);
    p.n_seqs = 3;
    p.q_len[0] = q_lens[c->seed % 17];
    p.q_len[2] = rng_int(&c->rng, 0, 40);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        const int32_t tile = tiles[rng_int(&c->rng, 0, 4)];
        p.kv_len[b] = tile * rng_int(&c->rng, 0, 2) + rng_int(&c->rng, -1, 1);
        if (rng_chance(&c->rng, 60)) p.kv_len[b] += p.q_len[b];
        if (p.kv_len[b] < 0) p.kv_len[b] = p.q_len[b];
    }
    attn_draw_scales(c, &p);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 2));
    try_and_free(c, &p);
}

/* Prefill: as many rows as keys. */
static void prefill(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.n_seqs = 2;
    p.k_dim = p.v_dim = 32;
    p.block_tokens = any_block(c);
    p.q_dtype = any_dtype(c);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        const int32_t n = b ? rng_int(&c->rng, 1, 60)
                            : (const int32_t[]){ 16, 17, 63, 64, 65, 130, 200, 255 }[c->seed % 8];
        p.q_len[b] = p.kv_len[b] = n;
    }
    if (rng_chance(&c->rng, 50)) attn_draw_options(c, &p, 1);
    try_and_free(c, &p);
}

const struct check_case attn_shape_cases[] = {
    { "attention", "lengths", lengths, 24, 12, TYPED_STORES },
    { "attention", "groups", groups, 40, 10, TYPED_STORES },
    { "attention", "dims", dims, 64, 16, TYPED_STORES },
    { "attention", "ragged", ragged, 100, 20, TYPED_STORES },
    { "attention", "options", options, 169, 13, TYPED_STORES },
    { "attention", "windows", windows, 50, 12, TYPED_STORES },
    { "attention", "positions", positions, 50, 12, TYPED_STORES },
    { "attention", "values", values, 48, 12, TYPED_STORES },
    { "attention", "longer", longer, 4, 1, TYPED_STORES },
    { "attention", "chunks", chunks, 16, 2, TYPED_STORES },
    { "attention", "rows", rows, 34, 8, TYPED_STORES },
    { "attention", "prefill", prefill, 8, 2, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
