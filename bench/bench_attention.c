/* Which attention cases each profile runs: paged against contiguous, in many shapes. */
#include "attention_lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* K and V that one turn of the full profile reads at least: smaller sets still get help from large
 * last-level caches. */
#define FULL_ROTATION ((int64_t)768 << 20)

#define CENTRE_BATCH "32q1s2k"

struct attn_case_spec attention_spec(const struct bench_options *o)
{
    struct attn_case_spec s;
    memset(&s, 0, sizeof(s));
    snprintf(s.versus, sizeof(s.versus), "contiguous");
    s.small = o->profile == PROFILE_CI;
    if (o->profile == PROFILE_FULL) s.rotation_bytes = FULL_ROTATION;
    return s;
}

/* Both contiguous layouts, the baselines. */
static void add_contiguous(struct attn_case_spec *s)
{
    const enum bench_layout layouts[] = { LAYOUT_CONTIG_HND, LAYOUT_CONTIG_NHD };
    for (int i = 0; i < 2; i++) {
        const int32_t memory = attention_spec_memory(s, 0, layouts[i], 0);
        attention_spec_side(s, ATTN_RUN, memory)->baseline = true;
    }
}

static int32_t add_paged(struct attn_case_spec *s, enum bench_layout layout, int32_t block_tokens)
{
    const int32_t memory = attention_spec_memory(s, 0, layout, block_tokens);
    attention_spec_side(s, ATTN_RUN, memory);
    return memory;
}

/* The yardstick: it reads the memory of the first contiguous layout. */
static void add_yardstick(struct attn_case_spec *s)
{
    attention_spec_side(s, s->arithmetic ? ATTN_FMA_LOOP : ATTN_READ_LOOP, 0)->yardstick = true;
    if (s->arithmetic) attention_spec_side(s, ATTN_DOT_LOOP, 0);
}

static void add_self_test(const struct bench_options *o, struct attn_case_spec *s)
{
    if (o->self_test == SELF_TEST_NONE) return;
    struct attn_side_spec *side = attention_spec_side(s, ATTN_RUN, 0);
    side->self_test = o->self_test;
    snprintf(side->id, sizeof(side->id), "self-test-%s",
             o->self_test == SELF_TEST_SLOW ? "slow" : "wrong");
    snprintf(side->label, sizeof(side->label), "%s", side->id);
}

static bool is_long(const struct batch_spec *batch)
{
    for (int32_t i = 0; i < batch->n_groups; i++)
        if (batch->groups[i].q_len > 16) return true;
    return false;
}

/* ---------------------------------------------------------------- a case given by hand */

static bool add_given(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    const struct attn_problem_spec p = { o->batch, o->h_q, o->h_kv, o->dim, o->dtype };
    attention_spec_problem(&s, &p);
    s.arithmetic = is_long(&o->batch);
    add_contiguous(&s);
    attention_spec_side(&s, ATTN_RUN, attention_spec_memory(&s, 0, LAYOUT_IDENTITY_TABLE, 0));
    for (int32_t i = 0; i < o->n_blocks; i++) {
        const int32_t memory = add_paged(&s, LAYOUT_PAGED_RANDOM, o->block_tokens[i]);
        if (i > 0) continue;
        add_paged(&s, LAYOUT_PAGED_SEQ, o->block_tokens[i]);
        if (!s.arithmetic) attention_spec_side(&s, ATTN_TWIN, memory);
    }
    add_yardstick(&s);
    add_self_test(o, &s);
    attention_spec_family(&s, PKV_ISA_BEST, bench_threads(o, machine_cpus()));
    return attention_case_add(o, &s, list, err);
}

/* ---------------------------------------------------------------- the cases of the profiles */

struct variant {
    const char *batch;
    int32_t h_q, h_kv, dim;
    pkv_dtype dtype;
};

static struct attn_problem_spec problem_of(const struct variant *v)
{
    struct attn_problem_spec p = {
        .h_q = v->h_q, .h_kv = v->h_kv, .dim = v->dim, .dtype = v->dtype
    };
    attention_spec_batch(&p, v->batch);
    return p;
}

/* One shape: contiguous against random order, at some block sizes, with the run's threads. */
static bool add_variant(const struct bench_options *o, const struct variant *v,
                        const int32_t *blocks, int n_blocks, struct case_list *list,
                        struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    const struct attn_problem_spec p = problem_of(v);
    s.arithmetic = is_long(&p.batch) && !s.small;
    s.rotation_bytes = 0;
    attention_spec_problem(&s, &p);
    add_contiguous(&s);
    for (int i = 0; i < n_blocks; i++) add_paged(&s, LAYOUT_PAGED_RANDOM, blocks[i]);
    add_yardstick(&s);
    attention_spec_family(&s, PKV_ISA_BEST, bench_threads(o, machine_cpus()));
    return attention_case_add(o, &s, list, err);
}

/* The centre with every layout that fits into the memory of the profile. */
static bool add_centre(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    struct attn_problem_spec p = attention_centre();
    attention_spec_batch(&p, s.small ? "3q1s300_1q1s77" : CENTRE_BATCH);
    attention_spec_problem(&s, &p);
    add_contiguous(&s);
    attention_spec_side(&s, ATTN_RUN, attention_spec_memory(&s, 0, LAYOUT_IDENTITY_TABLE, 0));
    add_paged(&s, LAYOUT_PAGED_SEQ, 16);
    const int32_t random = add_paged(&s, LAYOUT_PAGED_RANDOM, 16);
    add_paged(&s, LAYOUT_PAGED_RANDOM, 64);
    if (o->profile != PROFILE_QUICK) add_paged(&s, LAYOUT_PAGED_REVERSED, 16);
    attention_spec_side(&s, ATTN_TWIN, random);
    add_yardstick(&s);
    add_self_test(o, &s);
    if (o->profile == PROFILE_FULL) {
        attention_spec_levels(o, &s, p.dtype, false, true);
    } else {
        attention_spec_family(&s, PKV_ISA_BEST, bench_threads(o, machine_cpus()));
        if (bench_threads(o, machine_cpus()) > 1) attention_spec_family(&s, PKV_ISA_BEST, 1);
    }
    return attention_case_add(o, &s, list, err);
}

/* C1 and C2: one dtype and number of heads at every level, with all threads and with one. */
static bool add_decode(const struct bench_options *o, pkv_dtype dtype, int32_t h_q,
                       struct case_list *list, struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    struct attn_problem_spec p = attention_centre();
    attention_spec_batch(&p, CENTRE_BATCH);
    p.dtype = dtype;
    p.h_q = h_q;
    attention_spec_problem(&s, &p);
    attention_spec_side(&s, ATTN_RUN, attention_spec_memory(&s, 0, LAYOUT_CONTIG_HND, 0))
        ->baseline = true;
    add_paged(&s, LAYOUT_PAGED_SEQ, 16);
    attention_spec_side(&s, ATTN_TWIN, add_paged(&s, LAYOUT_PAGED_RANDOM, 16));
    add_yardstick(&s);
    attention_spec_levels(o, &s, dtype, false, true);
    return attention_case_add(o, &s, list, err);
}

/* Long rows at every level, all threads. */
static bool add_prefill(const struct bench_options *o, const char *batch, pkv_dtype dtype,
                        struct case_list *list, struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    struct attn_problem_spec p = attention_centre();
    attention_spec_batch(&p, batch);
    p.dtype = dtype;
    s.arithmetic = true;
    s.rotation_bytes = 0;
    attention_spec_problem(&s, &p);
    attention_spec_side(&s, ATTN_RUN, attention_spec_memory(&s, 0, LAYOUT_CONTIG_HND, 0))
        ->baseline = true;
    add_paged(&s, LAYOUT_PAGED_RANDOM, 16);
    add_yardstick(&s);
    if (o->profile == PROFILE_FULL) attention_spec_levels(o, &s, dtype, true, false);
    else attention_spec_family(&s, PKV_ISA_BEST, bench_threads(o, machine_cpus()));
    return attention_case_add(o, &s, list, err);
}

/* C6: prefill beside oneDNN's matrix product. */
static bool add_gemm(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    struct attn_problem_spec p = attention_centre();
    attention_spec_batch(&p, "1q2k");
    p.dtype = PKV_BF16;
    s.arithmetic = true;
    s.versus[0] = '\0';
    snprintf(s.id, sizeof(s.id), "prefill-and-gemm/1q2k/32x8/d128/bf16");
    attention_spec_problem(&s, &p);
    struct attn_side_spec *side =
        attention_spec_side(&s, ATTN_RUN, attention_spec_memory(&s, 0, LAYOUT_PAGED_RANDOM, 16));
    side->goals[side->n_goals++] = (struct bench_goal_spec){ GOAL_SHARE, 0.35, "C6" };
    attention_spec_side(&s, ATTN_PEER_GEMM, 0)->yardstick = true;
    attention_spec_family(&s, PKV_ISA_BEST, bench_threads(o, machine_cpus()));
    return attention_case_add(o, &s, list, err);
}

/* Everything in the caches on purpose: what the table costs when memory does not hide it. */
static bool add_hot(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    struct attn_problem_spec p = attention_centre();
    attention_spec_batch(&p, "1q1s128");
    attention_spec_problem(&s, &p);
    s.hot = true;
    add_contiguous(&s);
    add_paged(&s, LAYOUT_PAGED_RANDOM, 16);
    add_paged(&s, LAYOUT_PAGED_RANDOM, 1);
    attention_spec_family(&s, PKV_ISA_BEST, 1);
    return attention_case_add(o, &s, list, err);
}

static bool add_quick(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err)
{
    static const struct variant variants[] = {
        { "1q1s16k", 32, 8, 128, PKV_F16 }, { "32q1s@sharegpt", 32, 8, 128, PKV_F16 },
        { "8q1s1k", 32, 32, 128, PKV_F16 }, { "8q1s2k", 32, 8, 128, PKV_F32 },
        { "16q4s2k", 32, 8, 128, PKV_F16 },
    };
    static const int32_t blocks[] = { 16, 64 };
    if (!add_centre(o, list, err) || !attention_list_dtypes(o, list, err) ||
        !attention_list_blocks(o, list, err))
        return false;
    for (int i = 0; i < BENCH_LEN(variants); i++)
        /* Drawn lengths leave room for one paged side only: contiguous regions are long. */
        if (!add_variant(o, &variants[i], blocks, i == 0 ? 2 : 1, list, err)) return false;
    return add_hot(o, list, err) && add_prefill(o, "1q512", PKV_BF16, list, err) &&
           attention_list_cascade(o, list, err) && attention_list_latent(o, list, err);
}

static const struct variant full_variants[] = {
    { "1q1s1k", 32, 8, 128, PKV_F16 },    { "1q1s32k", 32, 8, 128, PKV_F16 },
    { "1q1s16k", 32, 8, 128, PKV_F16 },   { "32q1s@sharegpt", 32, 8, 128, PKV_F16 },
    { "32q1s128", 32, 8, 128, PKV_F16 },  { "32q1s128-4k", 32, 8, 128, PKV_F16 },
    { "128q1s1k", 32, 8, 128, PKV_F16 },  { "1q1s32k_63q1s512", 32, 8, 128, PKV_F16 },
    { "8q1s1k", 32, 32, 128, PKV_F16 },   { "32q1s2k", 32, 32, 128, PKV_F16 },
    { "32q1s2k", 32, 1, 128, PKV_F16 },   { "8q1s2k", 32, 8, 128, PKV_F32 },
    { "16q4s2k", 32, 8, 128, PKV_F16 },   { "16q8s2k", 32, 8, 128, PKV_F16 },
    { "1q512s4k", 32, 8, 128, PKV_BF16 }, { "1q512s4k_32q1s1k", 32, 8, 128, PKV_BF16 },
};

static bool add_full(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    static const int32_t blocks[] = { 8, 16, 64 };
    static const pkv_dtype floats[] = { PKV_BF16, PKV_F32, PKV_F16 };
    if (!add_centre(o, list, err)) return false;
    for (int d = 0; d < PKV_DTYPE_COUNT; d++) /* f16 is the centre */
        if (d != PKV_F16 && !add_decode(o, (pkv_dtype)d, 32, list, err)) return false;
    for (int i = 0; i < BENCH_LEN(floats); i++)
        if (!add_decode(o, floats[i], 64, list, err)) return false;
    if (!attention_list_dtypes(o, list, err) || !attention_list_blocks(o, list, err) ||
        !attention_list_sweeps(o, list, err))
        return false;
    for (int i = 0; i < BENCH_LEN(full_variants); i++)
        if (!add_variant(o, &full_variants[i], blocks, BENCH_LEN(blocks), list, err)) return false;
    for (int i = 0; i < BENCH_LEN(floats); i++)
        if (!add_prefill(o, "1q2k", floats[i], list, err)) return false;
    return add_gemm(o, list, err) && add_hot(o, list, err) &&
           attention_list_cascade(o, list, err) && attention_list_latent(o, list, err);
}

/* Correctness at small sizes: decodes, an extend and prefills, block edges. */
static bool add_ci(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    static const int32_t shapes[][3] = { { 32, 8, 128 }, { 8, 8, 128 }, { 16, 2, 64 },
                                         { 8, 1, 128 },  { 8, 2, 256 }, { 6, 2, 80 } };
    static const int32_t blocks[] = { 1, 16, 256 };
    if (!add_centre(o, list, err) || !attention_list_dtypes(o, list, err) ||
        !attention_list_blocks(o, list, err))
        return false;
    for (int i = 0; i < BENCH_LEN(shapes); i++)
        for (int d = 0; d < PKV_DTYPE_COUNT; d++) {
            const struct variant v = { "2q1s257_1q1s1_1q1s16_1q7s33_1q20", shapes[i][0],
                                       shapes[i][1], shapes[i][2], (pkv_dtype)d };
            if (!add_variant(o, &v, blocks, BENCH_LEN(blocks), list, err)) return false;
        }
    return attention_list_cascade(o, list, err) && attention_list_latent(o, list, err);
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
