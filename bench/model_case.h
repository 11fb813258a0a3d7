/* Cases of `pkv-bench model`. A side is a model that decodes or takes a prompt in some way, or a
 * loop that shows what the machine could do. */
#ifndef PKV_MODEL_CASE_H
#define PKV_MODEL_CASE_H

#include "bandwidth.h"
#include "bench_case.h"
#include "model_engine.h"
#include "model_yardstick.h"

enum model_side_kind {
    MODEL_READ,      /* reads as many bytes as the f32 weights have */
    MODEL_FMA,       /* multiply-adds on registers */
    MODEL_YARD,      /* the yardstick */
    MODEL_YARD_FAST, /* the same source, -Ofast with AVX2 */
    MODEL_DECODE,
    MODEL_PREFILL
};

struct model_side {
    struct model_case *owner;
    enum model_side_kind kind;
    int32_t threads;
    pkv_dtype dtype; /* of weights */
    bool fast;
    pkv_placement placement;
    struct model_load load;
    /* Made by setup. */
    struct model_engine engine;
    struct bench_team *team;
    struct peak_loop loop;
    int32_t pos;
};

struct model_case {
    struct yard_shape shape; /* context 0: the llama2.c file at `path` */
    char path[512];
    int32_t n_sides;
    struct model_side sides[CASE_MAX_SIDES];
    /* Made by setup. */
    struct bench_run *run;
    pkv_model *f32, *bf16;
    struct yard_model yard;
    struct bench_region region; /* for MODEL_READ */
    struct bandwidth_loops loops;
    uint64_t told; /* by the first engine that was checked */
};

/* Setup, check and teardown of bench_case; ctx is a model_case. */
bool model_case_setup(struct bench_case *c, struct bench_run *run, struct bench_error *err);
bool model_case_check(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                      struct bench_correct *out, struct bench_error *err);
void model_case_teardown(struct bench_case *c);

/* The new side's call and hooks; what it reads and computes is filled in by setup. */
struct bench_side *model_case_side(struct bench_case *c, const struct model_side *spec,
                                   const char *id, const char *label);

/* Rows about serving; untimed cases. */
bool model_serving_cases(const struct bench_options *o, struct case_list *list,
                         struct bench_error *err);
/* Random models: about 110 M parameters, or in ci, which only looks whether everything works, a
 * fraction of one; and 1.1 B, the shape of TinyLlama. */
struct model_size {
    const char *name; /* in ids */
    struct yard_shape shape;
};
struct model_size model_size_small(const struct bench_options *o, int32_t context);
struct model_size model_size_large(int32_t context);
bool model_random(const struct yard_shape *shape, pkv_dtype dtype, pkv_model **out,
                  struct bench_error *err);

#endif
