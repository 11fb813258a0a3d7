/* One attention case: the same K, V and queries in several layouts. */
#ifndef PKV_ATTENTION_CASE_H
#define PKV_ATTENTION_CASE_H

#include "bench_case.h"
#include "layout_build.h"

struct attn_case_spec {
    struct batch_spec batch;
    int32_t h_q, h_kv, dim;
    pkv_dtype dtype;
    bool hot;       /* one layer, small on purpose: everything in cache */
    bool small;     /* correctness at small size: two layers, no working-set rule */
    bool load_twin; /* a side that only reads the same bytes through the same table */
    enum bench_self_test self_test;
    int32_t n_paged; /* paged sides, beside both contiguous ones */
    struct {
        enum bench_layout layout;
        int32_t block_tokens;
        double goal_ratio; /* 0: none */
    } paged[10];
};

/* The geometry around which one axis at a time is varied: 32/8 heads, dim 128, f16; no batch yet.
 */
struct attn_case_spec attention_case_centre(void);

/* Define the case (nothing is allocated but its context) at the end of the list. */
bool attention_case_add(const struct bench_options *o, const struct attn_case_spec *spec,
                        struct case_list *list, struct bench_error *err);

#endif
