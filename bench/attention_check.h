/* Expected outputs of a sample of an attention call, and the comparison with them. */
#ifndef PKV_ATTENTION_CHECK_H
#define PKV_ATTENTION_CHECK_H

#include "attention_memory.h"
#include "bench_report.h"

#include "pagedkv/attention.h"

/* One sequence and KV head of one layer. */
struct attn_unit {
    int32_t layer, seq, head;
    double *expected, *bound; /* [q_len][group][dim] */
};

struct attn_check {
    int32_t n_units, n_layers; /* layers looked at: the first and, if there is one, the last */
    int32_t layers[2];
    struct attn_unit *units;
};

/* Compute expectations with the double-precision reference from q [n_rows][h_q][dim]. All units if
 * they are few; else a seeded sample with a bounded number of keys, at least one per layer. */
bool attn_check_init(struct attn_check *check, const struct attn_shape *shape, const void *q,
                     struct bench_error *err);
void attn_check_deinit(struct attn_check *check);

/* Compare outputs out[i] of layers[i], each [n_rows][h_q][dim]. Sets has_errors and, where an
 * element is outside its bound or not a number, ok = false and the text. */
void attn_check_compare(const struct attn_check *check, const struct attn_shape *shape,
                        const void *const out[2], struct bench_correct *correct);

#endif
