/* One axis at a time: block sizes, dtypes, heads, dims, sequences. A sweep fits a line through its
 * times and shows how far each size lies from it (C7: no cliff). */
#include "attention_lists.h"

#include <stdio.h>
#include <string.h>

#define NO_CLIFF 0.8

static void add_goal(struct attn_side_spec *side, enum bench_goal_kind kind, double limit,
                     const char *name)
{
    side->goals[side->n_goals++] = (struct bench_goal_spec){ kind, limit, name };
}

static void add_family(const struct bench_options *o, struct attn_case_spec *s)
{
    attention_spec_family(s, PKV_ISA_BEST, bench_threads(o, machine_cpus()));
}

/* ---------------------------------------------------------------- block sizes */

bool attention_list_blocks(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err)
{
    static const int32_t sizes[] = { 1, 4, 8, 16, 32, 64, 128, 256 };
    struct attn_case_spec s = attention_spec(o);
    struct attn_problem_spec p = attention_centre();
    attention_spec_batch(&p, s.small ? "2q1s300" : "8q1s2k");
    attention_spec_problem(&s, &p);
    s.rotation_bytes = 0;
    snprintf(s.line, sizeof(s.line), "blocks in the tables");
    for (int i = 0; i < 2; i++) {
        const enum bench_layout layout = i ? LAYOUT_CONTIG_NHD : LAYOUT_CONTIG_HND;
        attention_spec_side(&s, ATTN_RUN, attention_spec_memory(&s, 0, layout, 0))->baseline = true;
    }
    for (int i = 0; i < BENCH_LEN(sizes); i++) {
        const int32_t memory = attention_spec_memory(&s, 0, LAYOUT_PAGED_RANDOM, sizes[i]);
        struct attn_side_spec *side = attention_spec_side(&s, ATTN_RUN, memory);
        if (sizes[i] < 8) continue; /* known losses, listed as such */
        side->line_x = 8 * 2048.0 / sizes[i];
        add_goal(side, GOAL_LINE, NO_CLIFF, "C7");
    }
    attention_spec_side(&s, ATTN_READ_LOOP, 0)->yardstick = true;
    add_family(o, &s);
    return attention_case_add(o, &s, list, err);
}

/* ---------------------------------------------------------------- dtypes */

/* Tokens a second over those of f16; the product of keys in integers is a case of its own. */
static const struct {
    pkv_dtype dtype;
    bool int8_qk;
    double speed;
} dtype_sides[] = {
    { PKV_F16, false, 0 },  { PKV_BF16, false, 0 },   { PKV_I8, false, 1.35 },
    { PKV_I8, true, 1.5 },  { PKV_E4M3, false, 1.3 }, { PKV_E5M2, false, 1.3 },
    { PKV_U4, false, 1.8 }, { PKV_F32, false, 0 },
};

bool attention_list_dtypes(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err)
{
    struct attn_case_spec s = attention_spec(o);
    int32_t memory = 0;
    /* f32 would double the memory of the quick profile and has a case of its own there. */
    const int n = BENCH_LEN(dtype_sides) - (o->profile == PROFILE_QUICK);
    snprintf(s.id, sizeof(s.id), "dtypes/%s/32x8/d128", s.small ? "3q1s200" : "32q1s2k");
    snprintf(s.versus, sizeof(s.versus), "f16");
    for (int i = 0; i < n; i++) {
        struct attn_problem_spec p = attention_centre();
        attention_spec_batch(&p, s.small ? "3q1s200" : "32q1s2k");
        p.dtype = dtype_sides[i].dtype;
        const char *name = pkv_dtype_name(p.dtype);
        if (!dtype_sides[i].int8_qk)
            memory =
                attention_spec_memory(&s, attention_spec_problem(&s, &p), LAYOUT_PAGED_RANDOM, 16);
        struct attn_side_spec *side = attention_spec_side(&s, ATTN_RUN, memory);
        side->baseline = p.dtype == PKV_F16;
        side->int8_qk = dtype_sides[i].int8_qk;
        snprintf(side->id, sizeof(side->id), "%s%s", name, side->int8_qk ? "-int8qk" : "");
        snprintf(side->label, sizeof(side->label), "%s%s", name,
                 side->int8_qk ? ", keys times query in integers" : "");
        if (dtype_sides[i].speed > 0) add_goal(side, GOAL_SPEED, dtype_sides[i].speed, "C5");
    }
    attention_spec_side(&s, ATTN_READ_LOOP, 0)->yardstick = true;
    add_family(o, &s);
    return attention_case_add(o, &s, list, err);
}

/* ---------------------------------------------------------------- heads, dims, sequences */

/* One problem per size, all in random order at blocks of 16. */
static struct attn_side_spec *add_size(struct attn_case_spec *s, const struct attn_problem_spec *p,
                                       const char *axis, int32_t size, double x)
{
    const int32_t problem = attention_spec_problem(s, p);
    const int32_t memory = attention_spec_memory(s, problem, LAYOUT_PAGED_RANDOM, 16);
    struct attn_side_spec *side = attention_spec_side(s, ATTN_RUN, memory);
    snprintf(side->id, sizeof(side->id), "%s-%d", axis, size);
    snprintf(side->label, sizeof(side->label), "%s %d", axis, size);
    side->line_x = x;
    add_goal(side, GOAL_LINE, NO_CLIFF, "C7");
    return side;
}

static bool finish_sweep(const struct bench_options *o, struct attn_case_spec *s,
                         struct case_list *list, struct bench_error *err)
{
    s->versus[0] = '\0';
    s->rotation_bytes = 0;
    attention_spec_side(s, ATTN_READ_LOOP, s->n_memories - 1)->yardstick = true;
    add_family(o, s);
    return attention_case_add(o, s, list, err);
}

static bool add_groups(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err)
{
    static const int32_t groups[] = { 1, 2, 3, 4, 5, 6, 7, 8, 12, 16 };
    struct attn_case_spec s = attention_spec(o);
    snprintf(s.id, sizeof(s.id), "sweep-group/16q1s2k/8kv/d128/f16");
    snprintf(s.line, sizeof(s.line), "query heads per KV head");
    for (int i = 0; i < BENCH_LEN(groups); i++) {
        struct attn_problem_spec p = attention_centre();
        attention_spec_batch(&p, "16q1s2k");
        p.h_q = 8 * groups[i];
        add_size(&s, &p, "group", groups[i], groups[i]);
    }
    return finish_sweep(o, &s, list, err);
}

static bool add_dims(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    static const int32_t dims[] = { 64, 80, 96, 128, 192, 256 };
    struct attn_case_spec s = attention_spec(o);
    snprintf(s.id, sizeof(s.id), "sweep-dim/16q1s2k/32x8/f16");
    snprintf(s.line, sizeof(s.line), "MiB of K and V");
    for (int i = 0; i < BENCH_LEN(dims); i++) {
        struct attn_problem_spec p = attention_centre();
        attention_spec_batch(&p, "16q1s2k");
        p.dim = dims[i];
        add_size(&s, &p, "dim", dims[i], 16 * 2048.0 * 8 * 2 * 2 * dims[i] / 0x1p20);
    }
    return finish_sweep(o, &s, list, err);
}

static bool add_batches(const struct bench_options *o, struct case_list *list,
                        struct bench_error *err)
{
    static const int32_t batches[] = { 1, 2, 3, 4, 8, 16, 32, 64, 128, 256 };
    struct attn_case_spec s = attention_spec(o);
    snprintf(s.id, sizeof(s.id), "sweep-batch/s1k/32x8/d128/f16");
    snprintf(s.line, sizeof(s.line), "MiB of K and V");
    for (int i = 0; i < BENCH_LEN(batches); i++) {
        char text[32];
        struct attn_problem_spec p = attention_centre();
        snprintf(text, sizeof(text), "%dq1s1k", batches[i]);
        attention_spec_batch(&p, text);
        add_size(&s, &p, "batch", batches[i], batches[i] * 1024.0 * 8 * 2 * 2 * 128 / 0x1p20);
    }
    return finish_sweep(o, &s, list, err);
}

bool attention_list_sweeps(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err)
{
    return add_groups(o, list, err) && add_dims(o, list, err) && add_batches(o, list, err);
}
