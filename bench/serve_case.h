/* A case of `serve`: sides that serve the same load with the same memory, in rounds A B C, C B A.
 *
 *   spec --> model, load --> rounds of plays --ids compared--> rows
 *
 * Every side must give every request the same ids, bit for bit: the engine is exact, so neither
 * placement nor neighbours nor preemption may show. */
#ifndef PKV_SERVE_CASE_H
#define PKV_SERVE_CASE_H

#include "bench_case.h"
#include "serve_load.h"

#include "pagedkv/engine.h"

#define SERVE_MAX_SIDES 5

struct serve_side {
    const char *id, *label;
    pkv_placement placement;
    pkv_preempt preempt;
    int32_t pool_percent; /* of the case's memory, or of the demand; 0: 100 */
    bool baseline;        /* ratios are to this one */
    bool no_prefix_cache;
};

/* What the requests of a case do. */
enum serve_kind {
    SERVE_LOAD,  /* all at once, an open or a closed loop, as the load says */
    SERVE_RATE,  /* Poisson arrivals at rate_factor times what the baseline serves all at once */
    SERVE_REPEAT /* two requests with one prompt, one after the other: the sides are the second and
                    the first, and their time is that to the first token */
};

struct serve_spec_case {
    const char *id, *title;
    enum serve_kind kind;
    const char *model;
    struct serve_spec load;
    double rate_factor;
    int32_t pool_tokens; /* K and V; negative: so many longest contexts; 0: of kv_bytes, or .. */
    bool pool_of_demand; /* .. the baseline has room for all at their longest, the others a share of
                            what it had in use at most */
    size_t kv_bytes, swap_bytes;
    int32_t max_seqs, chunk_tokens;
    int32_t rounds;
    double slo_ttft_ms, slo_tpot_ms; /* of goodput; 0: none, SERVE_RATE measures its own */
    int32_t n_sides;
    const struct serve_side *sides;
    const char *versus;            /* the baseline in a word; NULL: "max" */
    double least_seqs, least_rate; /* goals of side 0, times the baseline; 0: none */
    const char *goal_name;         /* of least_rate: "P13"; NULL: none */
};

/* One side over all rounds: raw delays together, counts as means. */
struct serve_totals {
    int32_t n, n_queued; /* rounds; those in which requests waited */
    double *ns; /* [rounds] wall time / tokens of output; SERVE_REPEAT: to the first token; owned */
    double wall_s, mean_seqs, mean_queued, slots_filled, goodput, slo_met;
    double steps, swaps, recomputes, recomputed, cached;
    double engine_us; /* a step, without pass and sampling */
    double engine_share, attention_share, sampling_share;
    int32_t peak_seqs, n_blocks;
    double slo_ttft_ms, slo_tpot_ms; /* 0: no such limit */
    double delays_ms[6];             /* p50 and p99 of TTFT, TPOT, ITL */
};

/* run_untimed of the cases; their ctx begins with a struct serve_spec_case. */
bool serve_case_run(struct bench_case *c, struct bench_run *run, struct bench_error *err);

/* Rows from totals, with ratios and goals. */
bool serve_case_rows(const struct bench_case *c, struct bench_run *run,
                     const struct serve_load *load, const struct serve_totals *totals,
                     const struct bench_correct *correct, struct bench_error *err);

#endif
