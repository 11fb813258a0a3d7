/* An attention case: problems (what is computed), memories (where their K and V lie) and sides (who
 * computes on which memory). Every side exists once for each family, a CPU level and a number of
 * threads; all of them share the memories and alternate in one loop.
 *
 *   one problem, many layouts     paged against contiguous, by level and threads
 *   many problems, one layout     one dtype or one size against another */
#ifndef PKV_ATTENTION_CASE_H
#define PKV_ATTENTION_CASE_H

#include "bench_case.h"
#include "layout_build.h"

#define ATTN_MAX_PROBLEMS 12
#define ATTN_MAX_MEMORIES 14
#define ATTN_MAX_FAMILIES 8
#define ATTN_MAX_SIDES 16 /* of one family */

struct attn_problem_spec {
    struct batch_spec batch;
    int32_t h_q, h_kv, dim;
    pkv_dtype dtype; /* of K and V; queries are of the same, or f16 */
};

struct attn_memory_spec {
    int32_t problem;
    enum bench_layout layout;
    int32_t block_tokens; /* paged layouts */
};

struct attn_family {
    pkv_isa isa; /* PKV_ISA_BEST: that of the run */
    int32_t threads;
};

enum attn_side_kind {
    ATTN_RUN,       /* pkv_attn_run */
    ATTN_TWIN,      /* reads what it reads through the same table, without arithmetic */
    ATTN_READ_LOOP, /* reads as many bytes of the same memory, in order: the yardstick of decode */
    ATTN_FMA_LOOP,  /* float32 multiply-adds on registers: the yardstick of prefill */
    ATTN_DOT_LOOP,  /* bf16 dot products on registers, where the level has them */
    ATTN_PEER_GEMM  /* a bf16 matrix product of oneDNN, where the build has it */
};

struct attn_side_spec {
    enum attn_side_kind kind;
    int32_t memory;
    bool baseline, int8_qk, yardstick;
    char id[48], label[72]; /* empty: as the memory's layout */
    double line_x;
    enum bench_self_test self_test;
    int32_t n_goals;
    struct bench_goal_spec goals[SIDE_MAX_GOALS];
};

struct attn_case_spec {
    char id[80];            /* "kernel/" + this; empty: from batch and geometry */
    char versus[24];        /* what baselines are */
    char line[64];          /* what line_x is */
    bool hot;               /* one layer, small on purpose: everything in cache */
    bool small;             /* correctness at small size: two layers, no working-set rule */
    bool arithmetic;        /* count operations, not bytes: long rows */
    int64_t rotation_bytes; /* K and V of all layers together, at least; 0: 4 x last-level cache */
    int32_t n_problems, n_memories, n_families, n_sides;
    struct attn_problem_spec problems[ATTN_MAX_PROBLEMS];
    struct attn_memory_spec memories[ATTN_MAX_MEMORIES];
    struct attn_family families[ATTN_MAX_FAMILIES];
    struct attn_side_spec sides[ATTN_MAX_SIDES];
};

/* The geometry around which one axis at a time is varied: 32/8 heads, dim 128, f16; no batch yet.
 */
struct attn_problem_spec attention_centre(void);
/* Builders. The texts of batches are ours; one that does not parse is a bug and stops at once. */
void attention_spec_batch(struct attn_problem_spec *p, const char *batch);
int32_t attention_spec_problem(struct attn_case_spec *s, const struct attn_problem_spec *p);
int32_t attention_spec_memory(struct attn_case_spec *s, int32_t problem, enum bench_layout layout,
                              int32_t block_tokens);
struct attn_side_spec *attention_spec_side(struct attn_case_spec *s, enum attn_side_kind kind,
                                           int32_t memory);
void attention_spec_family(struct attn_case_spec *s, pkv_isa isa, int32_t threads);

/* Families by level: the run's own, then every lower level of this machine whose attention (of K
 * and V of `dtype`, for few or many rows) is another one; each with the run's threads and, with
 * `also_one`, with one. */
void attention_spec_levels(const struct bench_options *o, struct attn_case_spec *s, pkv_dtype dtype,
                           bool many_rows, bool also_one);

/* attention_goals.c: the goals of a side, from nothing but what its id says. */
void attention_goals(const struct attn_case_spec *spec, const struct attn_side_spec *side,
                     const struct attn_family *family, pkv_isa level, struct bench_side *b);

/* Rounds and times of a case of this profile. */
void attention_sampler(const struct bench_options *o, struct bench_case *c);

/* Define the case (nothing is allocated but its context) at the end of the list. */
bool attention_case_add(const struct bench_options *o, const struct attn_case_spec *spec,
                        struct case_list *list, struct bench_error *err);

#endif
