/* A case: sides that do the same thing in different ways, checked first and timed together. */
#ifndef PKV_BENCH_CASE_H
#define PKV_BENCH_CASE_H

#include "bench_engines.h"
#include "bench_options.h"
#include "bench_report.h"
#include "time_sampler.h"

/* What all cases of one run share. */
struct bench_run {
    const struct bench_options *options;
    struct bench_clock clock;
    struct bench_engines engines;
    struct bench_report report;
    int32_t threads;   /* of the run */
    size_t max_memory; /* resolved */
    bool progress;     /* stderr is a terminal */
    /* Written by timed code so that nothing can be optimised away. */
    volatile uint64_t sink;
};

#define CASE_MAX_SIDES 48

/* A goal of a side, judged when its row is complete. */
enum bench_goal_kind {
    GOAL_RATIO, /* time / time of the baseline, at most */
    GOAL_SPEED, /* the reverse, at least */
    GOAL_NS,    /* time of one operation, at most */
    GOAL_SHARE, /* of the yardstick's rate, at least */
    GOAL_RATE,  /* 10^9 floating-point operations a second, at least */
    GOAL_LINE   /* time of the case's line / time, at least */
};
struct bench_goal_spec {
    enum bench_goal_kind kind;
    double limit;
    const char *name; /* "C1" of docs/kernels.md, "" */
};
#define SIDE_MAX_GOALS ROW_MAX_GOALS

struct bench_side {
    char id[64];    /* "paged-random/b16"; case id + "/" + this is the id of the row */
    char label[72]; /* for tables */
    char layout[24];
    void (*call)(void *ctx);
    void (*before)(void *ctx); /* untimed, before each call; NULL if not needed */
    void *ctx;
    int32_t family; /* ratios and shares are between sides of one family, each has a table */
    bool baseline;  /* ratios are to the fastest of these */
    bool yardstick; /* shares are of this one's rate */
    bool no_ratio;  /* something else than the baselines do: no ratio makes sense */
    double ops;     /* operations per call: times are per operation */
    int64_t bytes_needed, bytes_distinct; /* per operation; 0: not a memory case */
    double flops;                         /* per operation; 0: arithmetic is not the point */
    bool in_cache;
    double line_x; /* > 0: a point of the case's line, with this work */
    int32_t n_goals;
    struct bench_goal_spec goals[SIDE_MAX_GOALS];
    char published[96];
    char note[120];
    int32_t n_params; /* beside those of the case */
    struct bench_param params[SIDE_MAX_PARAMS];
    int32_t n_values;
    struct bench_value values[4];
};
void bench_side_goal(struct bench_side *s, enum bench_goal_kind kind, double limit,
                     const char *name);
void bench_side_param(struct bench_side *s, const char *name, const char *fmt, ...)
    BENCH_PRINTF(3, 4);

struct bench_case {
    char id[96];
    enum bench_group group;
    char versus[24]; /* what the baselines are, for heads of tables: "contiguous" */
    char line[64];   /* what the work of line_x is: "bytes of K and V"; "": no line */
    void *ctx;       /* owned: free()d with the case */
    int32_t n_params;
    struct bench_param params[4];
    struct sampler_opts sampler;
    int32_t n_sides;
    struct bench_side sides[CASE_MAX_SIDES];
    /* Memory and data. On false nothing stays behind. */
    bool (*setup)(struct bench_case *c, struct bench_run *run, struct bench_error *err);
    /* Is the result of a side right? Called before timing, and with `timed` after it. NULL: no
     * check. False only when the check cannot be made. */
    bool (*check)(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                  struct bench_correct *out, struct bench_error *err);
    void (*teardown)(struct bench_case *c);
    /* Instead of all this: a case that is not timed and adds its rows itself. */
    bool (*run_untimed)(struct bench_case *c, struct bench_run *run, struct bench_error *err);
};

struct case_list {
    int32_t n, cap;
    struct bench_case *cases;
};
/* A new zeroed case at the end. The pointer is valid until the next one is added. */
struct bench_case *case_list_add(struct case_list *list, struct bench_error *err);
void case_list_free(struct case_list *list);

/* The registry: every case of a command and profile. */
bool case_list_build(const struct bench_options *o, struct case_list *list,
                     struct bench_error *err);
bool case_list_attention(const struct bench_options *o, struct case_list *list,
                         struct bench_error *err);
bool case_list_moves(const struct bench_options *o, struct case_list *list,
                     struct bench_error *err);
bool case_list_blocks(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err);
bool case_list_capacity(const struct bench_options *o, struct case_list *list,
                        struct bench_error *err);
/* Fails in a build without the model. */
bool case_list_model(const struct bench_options *o, struct case_list *list,
                     struct bench_error *err);
bool case_list_sampling(struct case_list *list, struct bench_error *err);
/* Fails in a build without the model. */
bool case_list_serve(const struct bench_options *o, struct case_list *list,
                     struct bench_error *err);
bool case_list_share(const struct bench_options *o, struct case_list *list,
                     struct bench_error *err);

/* Drop what the filter does not name. A named side keeps the baselines and the yardstick of its
 * family. The whole id of a row names that row only. */
void case_list_filter(struct case_list *list, const char *text);
/* One id per line. */
void case_list_print(const struct case_list *list);

struct bench_side *bench_case_side(struct bench_case *c); /* a new zeroed one with ops 1 */
/* The same, of `call` over c->ctx on so many threads: with more than one the id begins "tN/". */
struct bench_side *bench_case_call_side(struct bench_case *c, int32_t threads, const char *id,
                                        const char *label, void (*call)(void *));

/* Setup, check, time, statistics, rows, teardown. A wrong side gets a row and is not timed. */
bool bench_case_run(struct bench_case *c, struct bench_run *run, struct bench_error *err);

/* The A/A check: a baseline against itself, through all of the above but the check. */
bool bench_aa_run(struct bench_case *c, struct bench_run *run, struct bench_ratio *out,
                  struct bench_error *err);

#endif
