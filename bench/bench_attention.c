/* Which attention cases each profile runs. */
#include "attention_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Goals: decode on the CPU with the working set beyond the caches. */
#define GOAL_CENTRE 1.05     /* random order, blocks of 16 and more, the centre case */
#define GOAL_RANDOM 1.10     /* random order, blocks of 8 and more, any case */
#define GOAL_SEQUENTIAL 1.02 /* ascending order, blocks of 16 and more */

#define CENTRE_BATCH "32q1s2k"

/* From nothing but what the id of the row says: the same id has the same goal in every command and
 * profile. `ci` alone has no goals at all, since its times mean nothing. */
static bool is_centre(const struct attn_case_spec *s)
{
    char batch[256];
    return batch_spec_format(&s->batch, batch, sizeof(batch)) && strcmp(batch, CENTRE_BATCH) == 0 &&
           s->h_q == 32 && s->h_kv == 8 && s->dim == 128 && s->dtype == PKV_F16;
}

static double goal_of(const struct attn_case_spec *s, enum bench_layout layout,
                      int32_t block_tokens)
{
    if (s->hot || s->small) return 0;
    if (layout == LAYOUT_PAGED_SEQ && block_tokens >= 16) return GOAL_SEQUENTIAL;
    if (layout != LAYOUT_PAGED_RANDOM || block_tokens < 8) return 0;
    return block_tokens >= 16 && is_centre(s) ? GOAL_CENTRE : GOAL_RANDOM;
}

/* Geometry and batch of `s` must be set. */
static void add_layout(struct attn_case_spec *s, enum bench_layout layout, int32_t block_tokens)
{
    s->paged[s->n_paged].layout = layout;
    s->paged[s->n_paged].block_tokens = block_tokens;
    s->paged[s->n_paged++].goal_ratio = goal_of(s, layout, block_tokens);
}

struct attn_case_spec attention_case_centre(void)
{
    struct attn_case_spec s;
    memset(&s, 0, sizeof(s));
    s.h_q = 32;
    s.h_kv = 8;
    s.dim = 128;
    s.dtype = PKV_F16;
    return s;
}

/* The texts below are ours; one that does not parse is a bug and stops at the first run. */
static void set_batch(struct attn_case_spec *s, const char *text)
{
    struct batch_spec_error e;
    if (batch_spec_parse(text, &s->batch, &e)) return;
    fprintf(stderr, "pkv-bench: built-in batch %s: %s\n", text, e.text);
    abort();
}

static bool add_given(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err)
{
    struct attn_case_spec s = attention_case_centre();
    s.batch = o->batch;
    s.h_q = o->h_q;
    s.h_kv = o->h_kv;
    s.dim = o->dim;
    s.dtype = o->dtype;
    s.self_test = o->self_test;
    s.small = o->profile == PROFILE_CI;
    add_layout(&s, LAYOUT_IDENTITY_TABLE, 0);
    for (int32_t i = 0; i < o->n_blocks; i++) {
        add_layout(&s, LAYOUT_PAGED_RANDOM, o->block_tokens[i]);
        if (i == 0) add_layout(&s, LAYOUT_PAGED_SEQ, o->block_tokens[i]);
    }
    return attention_case_add(o, &s, list, err);
}

struct variant {
    const char *batch;
    int32_t h_q, h_kv, dim;
    pkv_dtype dtype;
};

static bool add_variant(const struct bench_options *o, const struct variant *v, bool small,
                        const int32_t *blocks, int n_blocks, struct case_list *list,
                        struct bench_error *err)
{
    struct attn_case_spec s = attention_case_centre();
    set_batch(&s, v->batch);
    s.h_q = v->h_q;
    s.h_kv = v->h_kv;
    s.dim = v->dim;
    s.dtype = v->dtype;
    s.small = small;
    for (int i = 0; i < n_blocks; i++) add_layout(&s, LAYOUT_PAGED_RANDOM, blocks[i]);
    return attention_case_add(o, &s, list, err);
}

/* The centre with every layout that fits into the memory of the profile. */
static bool add_centre(const struct bench_options *o, bool small, struct case_list *list,
                       struct bench_error *err)
{
    struct attn_case_spec s = attention_case_centre();
    set_batch(&s, small ? "3q1s300_1q1s77" : CENTRE_BATCH);
    s.small = small;
    s.load_twin = true;
    s.self_test = o->self_test;
    add_layout(&s, LAYOUT_IDENTITY_TABLE, 0);
    add_layout(&s, LAYOUT_PAGED_SEQ, 16);
    add_layout(&s, LAYOUT_PAGED_RANDOM, 16);
    add_layout(&s, LAYOUT_PAGED_RANDOM, 64);
    if (o->profile != PROFILE_QUICK) add_layout(&s, LAYOUT_PAGED_REVERSED, 16);
    return attention_case_add(o, &s, list, err);
}

/* Block sizes 1 to 256, with the small ones where paging is known to lose. */
static bool add_block_sizes(const struct bench_options *o, bool small, struct case_list *list,
                            struct bench_error *err)
{
    static const int32_t sizes[] = { 1, 4, 8, 16, 32, 64, 128, 256 };
    const struct variant v = { small ? "2q1s300" : "8q1s2k", 32, 8, 128, PKV_F16 };
    return add_variant(o, &v, small, sizes, BENCH_LEN(sizes), list, err);
}

/* Everything in the caches on purpose: what the table costs when memory does not hide it. */
static bool add_hot(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    struct attn_case_spec s = attention_case_centre();
    set_batch(&s, "1q1s128");
    s.hot = true;
    add_layout(&s, LAYOUT_PAGED_RANDOM, 16);
    add_layout(&s, LAYOUT_PAGED_RANDOM, 1);
    return attention_case_add(o, &s, list, err);
}

static bool add_quick(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err)
{
    static const struct variant variants[] = {
        { "1q1s16k", 32, 8, 128, PKV_F16 },
        { "32q1s@sharegpt", 32, 8, 128, PKV_F16 },
        { "8q1s1k", 32, 32, 128, PKV_F16 },
        { "8q1s2k", 32, 8, 128, PKV_F32 },
    };
    static const int32_t blocks[] = { 16, 64 };
    if (!add_centre(o, false, list, err) || !add_block_sizes(o, false, list, err)) return false;
    for (int i = 0; i < BENCH_LEN(variants); i++)
        /* Drawn lengths leave room for one paged side only: contiguous regions are long. */
        if (!add_variant(o, &variants[i], false, blocks, i == 1 ? 1 : 2, list, err)) return false;
    return add_hot(o, list, err);
}

static const struct variant full_variants[] = {
    { "1q1s1k", 32, 8, 128, PKV_F16 },      { "1q1s32k", 32, 8, 128, PKV_F16 },
    { "8q1s4k", 32, 8, 128, PKV_F16 },      { "32q1s128", 32, 8, 128, PKV_F16 },
    { "32q1s128-4k", 32, 8, 128, PKV_F16 }, { "64q1s@sharegpt", 32, 8, 128, PKV_F16 },
    { "128q1s1k", 32, 8, 128, PKV_F16 },    { "1q1s32k_63q1s512", 32, 8, 128, PKV_F16 },
    { "32q1s2k", 32, 32, 128, PKV_F16 },    { "32q1s2k", 64, 8, 128, PKV_F16 },
    { "32q1s2k", 32, 1, 128, PKV_F16 },     { "32q1s2k", 32, 8, 64, PKV_F16 },
    { "32q1s2k", 32, 8, 256, PKV_F16 },     { "32q1s2k", 32, 8, 128, PKV_F32 },
    { "32q1s2k", 32, 8, 128, PKV_BF16 },    { "32q1s2k", 32, 32, 64, PKV_F32 },
};

static bool add_full(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    static const int32_t blocks[] = { 8, 16, 32, 64, 128, 256 };
    if (!add_centre(o, false, list, err) || !add_block_sizes(o, false, list, err)) return false;
    for (int i = 0; i < BENCH_LEN(full_variants); i++)
        if (!add_variant(o, &full_variants[i], false, blocks, BENCH_LEN(blocks), list, err))
            return false;
    return add_hot(o, list, err);
}

/* Correctness at small sizes: decodes, an extend and prefills (scalar kernels), block edges. */
static bool add_ci(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    static const int32_t shapes[][3] = { { 32, 8, 128 }, { 8, 8, 128 }, { 16, 2, 64 },
                                         { 8, 1, 128 },  { 8, 2, 256 }, { 6, 2, 80 } };
    static const pkv_dtype dtypes[] = { PKV_F32, PKV_F16, PKV_BF16 };
    static const int32_t blocks[] = { 1, 16, 256 };
    if (!add_centre(o, true, list, err) || !add_block_sizes(o, true, list, err)) return false;
    for (int i = 0; i < BENCH_LEN(shapes); i++)
        for (int k = 0; k < BENCH_LEN(dtypes); k++) {
            const struct variant v = { "2q1s257_1q1s1_1q1s16_1q7s33_1q20", shapes[i][0],
                                       shapes[i][1], shapes[i][2], dtypes[k] };
            if (!add_variant(o, &v, true, blocks, BENCH_LEN(blocks), list, err)) return false;
        }
    return true;
}

bool case_list_attention(const struct bench_options *o, struct case_list *list,
                         struct bench_error *err)
{
    if (o->has_batch) return add_given(o, list, err);
    switch (o->profile) {
    case PROFILE_QUICK:
        return add_quick(o, list, err);
    case PROFILE_FULL:
        return add_full(o, list, err);
    case PROFILE_CI:
        break;
    }
    return add_ci(o, list, err);
}
