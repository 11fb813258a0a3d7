/* Inside an attention case: what its files share. */
#ifndef PKV_ATTENTION_PARTS_H
#define PKV_ATTENTION_PARTS_H

#include "attention_case.h"
#include "attention_check.h"
#include "attention_memory.h"
#include "bandwidth.h"
#include "peak_kernels.h"
#include "peers/peer_gemm.h"

#include "pagedkv/attention.h"

struct attn_problem {
    struct attn_shape shape;
    struct attn_check check;
    pkv_tensor3 q, out;
    size_t out_bytes;
    int64_t needed; /* bytes of K and V of one layer */
    double flops;   /* of one layer */
};

struct attn_place {
    const struct attn_memory_spec *spec;
    struct attn_problem *problem;
    struct attn_memory memory;
    bool used;     /* a side that the filter left looks at it */
    bool verified; /* its sides have their verdicts */
};

struct attn_side {
    struct attn_case *owner;
    const struct attn_side_spec *spec;
    const struct attn_family *family;
    struct attn_place *place;
    pkv_backend *backend;
    struct bench_team *team;
    struct peak_loop loop;  /* arithmetic loops */
    struct peer_gemm *gemm; /* ATTN_PEER_GEMM */
    const char *kernel;     /* name; "" for loops */
    int32_t n_params;       /* of the side before setup adds its own */
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    int32_t next_layer;
    size_t read_at;    /* where the read loop goes on */
    pkv_status status; /* first failure of a timed call */
    void *checked[2];  /* outputs of the layers that were checked */
    struct bench_correct correct;
};

struct attn_case {
    struct attn_case_spec spec;
    struct bench_run *run; /* during setup .. teardown */
    struct bandwidth_loops loops;
    int32_t read_way;
    void *workspace;
    size_t workspace_bytes;
    bool shrunk;
    struct attn_problem problems[ATTN_MAX_PROBLEMS];
    struct attn_place places[ATTN_MAX_MEMORIES];
    int32_t n_sides;
    struct attn_side sides[CASE_MAX_SIDES];
};

/* attention_sides.c: what is timed. */
pkv_status attn_run_layer(struct attn_side *s, int32_t layer);
void attn_call_run(void *ctx);
void attn_call_slowly(void *ctx); /* for tests of the suite: 20 % slower than it should be */
void attn_call_twin(void *ctx);
void attn_call_read_loop(void *ctx);
void attn_call_arithmetic(void *ctx);
void attn_call_gemm(void *ctx);
double attn_arithmetic_flops(const struct attn_side *s); /* of one call */
void attn_set_batch(struct attn_side *s);

/* attention_setup.c */
bool attn_setup(struct bench_case *c, struct bench_run *run, struct bench_error *err);
void attn_teardown(struct bench_case *c);

/* attention_verify.c */
bool attn_verify(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                 struct bench_correct *out, struct bench_error *err);

#endif
