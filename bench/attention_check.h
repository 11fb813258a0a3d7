/* Expected outputs of a sample of an attention call, and the comparison with them. */
#ifndef PKV_ATTENTION_CHECK_H
#define PKV_ATTENTION_CHECK_H

#include "attention_memory.h"
#include "attention_reference.h"
#include "bench_report.h"

#include "pagedkv/attention.h"

/* What is expected of one element, for kernels that are float32 throughout, whose weights are
 * rounded to bf16, and which multiply keys in integers. */
enum attn_precision { ATTN_FLOAT, ATTN_WEIGHTS_BF16, ATTN_INT8_QK, ATTN_N_PRECISIONS };
struct attn_expected {
    double value, bound[ATTN_N_PRECISIONS];
};

/* Some rows of one sequence and KV head of one layer. */
struct attn_unit {
    int32_t layer, seq, head;
    int32_t n_rows, *rows;          /* of q_len, ascending */
    struct attn_expected *expected; /* [n_rows][group][dim] */
};

struct attn_check {
    int32_t n_units, n_layers; /* layers looked at: the first and, if there is one, the last */
    int32_t layers[2];
    struct attn_unit *units;
};

/* Compute expectations with the double-precision reference from q [n_rows][h_q][dim]. Everything if
 * it is little; else a seeded sample of units with a bounded number of keys, at least one per
 * layer, and of their rows the first, the last, and some between. */
bool attn_check_init(struct attn_check *check, const struct attn_shape *shape, const void *q,
                     struct bench_error *err);
void attn_check_deinit(struct attn_check *check);

/* Compare outputs out[i] of layers[i], each [n_rows][h_q][dim]. Sets has_errors and, where an
 * element is outside its bound or not a number, ok = false and the text. */
void attn_check_compare(const struct attn_check *check, const struct attn_shape *shape,
                        enum attn_precision precision, const void *const out[2],
                        struct bench_correct *correct);

#endif
