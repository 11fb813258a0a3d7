/* Goals of attention (docs/kernels.md has them with their reasons): C1 share of the read loop, C2
 * paged against contiguous, C6 prefill. From nothing but what the id of a row says: the same id has
 * the same goals in every command and profile. `ci` has none, since its times mean nothing. */
#include "attention_case.h"

#include <stdio.h>
#include <string.h>

/* C2: decode, working set beyond the caches. */
#define CENTRE_RATIO 1.05     /* random order, blocks of 16 and more, the centre case */
#define RANDOM_RATIO 1.10     /* random order, blocks of 8 and more, any case */
#define SEQUENTIAL_RATIO 1.02 /* ascending order, blocks of 16 and more */
#define ROWS_RATIO 1.03       /* prefill and extend, any order, blocks of 16 and more */

#define CENTRE_BATCH "32q1s2k"
#define PREFILL_BATCH "1q2k"

static bool is_batch(const struct attn_problem_spec *p, const char *text)
{
    char batch[256];
    return batch_spec_format(&p->batch, batch, sizeof(batch)) && strcmp(batch, text) == 0;
}

static bool is_geometry(const struct attn_problem_spec *p)
{
    return p->h_q == 32 && p->h_kv == 8 && p->dim == 128;
}

static bool is_decode(const struct attn_problem_spec *p)
{
    for (int32_t i = 0; i < p->batch.n_groups; i++)
        if (p->batch.groups[i].q_len != 1) return false;
    return true;
}

static bool is_avx512(pkv_isa level)
{
    return level >= PKV_ISA_AVX512 && level < PKV_ISA_NEON;
}

/* The least share of the read loop that paged decode should reach; 0: no goal. */
static double share_of_reads(const struct attn_problem_spec *p, pkv_isa level)
{
    const int32_t group = p->h_q / p->h_kv;
    const bool wide = p->dtype == PKV_F32;
    if (p->dtype > PKV_BF16 || group > 8) return 0;
    if (is_avx512(level) && group > 4) return 0.65;
    if (is_avx512(level)) return wide ? 0.82 : 0.75;
    if (level == PKV_ISA_AVX2 && group <= 4) return wide ? 0.75 : 0.60;
    return 0;
}

static void decode_goals(const struct attn_problem_spec *p, const struct attn_memory_spec *m,
                         const struct attn_family *f, pkv_isa level, struct bench_side *b)
{
    const bool centre = is_batch(p, CENTRE_BATCH) && is_geometry(p) && p->dtype == PKV_F16;
    if (m->layout == LAYOUT_PAGED_SEQ && m->block_tokens >= 16)
        bench_side_goal(b, GOAL_RATIO, SEQUENTIAL_RATIO, "");
    if (m->layout != LAYOUT_PAGED_RANDOM || m->block_tokens < 8) return;
    if (m->block_tokens >= 16)
        bench_side_goal(b, GOAL_RATIO, centre ? CENTRE_RATIO : RANDOM_RATIO, "C2");
    else bench_side_goal(b, GOAL_RATIO, RANDOM_RATIO, "");
    if (m->block_tokens == 16 && f->threads > 1)
        bench_side_goal(b, GOAL_SHARE, share_of_reads(p, level), "C1");
}

static void prefill_goals(const struct attn_problem_spec *p, const struct attn_memory_spec *m,
                          const struct attn_family *f, pkv_isa level, struct bench_side *b)
{
    if (!layout_is_paged(m->layout) || m->block_tokens < 16) return;
    bench_side_goal(b, GOAL_RATIO, ROWS_RATIO, "");
    if (!is_batch(p, PREFILL_BATCH) || !is_geometry(p) || m->layout != LAYOUT_PAGED_RANDOM) return;
    if (level == PKV_ISA_AMX && p->dtype == PKV_BF16) bench_side_goal(b, GOAL_RATE, 700, "C6");
    else if (is_avx512(level) && p->dtype == PKV_BF16 && f->threads > 1)
        bench_side_goal(b, GOAL_RATE, 150, "C6");
    if (level != PKV_ISA_AMX && level != PKV_ISA_SCALAR) bench_side_goal(b, GOAL_SHARE, 0.55, "C6");
}

void attention_goals(const struct attn_case_spec *spec, const struct attn_side_spec *side,
                     const struct attn_family *family, pkv_isa level, struct bench_side *b)
{
    const struct attn_memory_spec *m = &spec->memories[side->memory];
    const struct attn_problem_spec *p = &spec->problems[m->problem];
    if (spec->hot || spec->small || side->kind != ATTN_RUN) return;
    for (int32_t i = 0; i < side->n_goals; i++)
        bench_side_goal(b, side->goals[i].kind, side->goals[i].limit, side->goals[i].name);
    if (strcmp(spec->versus, "contiguous") != 0) return;
    if (spec->arithmetic) prefill_goals(p, m, family, level, b);
    else if (is_decode(p)) decode_goals(p, m, family, level, b);
}
