/* From logits to a token: bias, penalties, temperature, top-k, top-p, min-p, draw.
 *
 * Rows are independent, and draws come from Philox4x32-10 with key = request seed and counter =
 * (sample, position, purpose): neighbours, preemption and batching cannot change them. */
#ifndef PKV_MODEL_SAMPLER_H
#define PKV_MODEL_SAMPLER_H

#include "common/common.h"
#include "pagedkv/engine.h"

/* Scratch for one row; sized at creation, so that sampling allocates nothing. */
typedef struct pkv__sampler pkv__sampler;
PKV_NODISCARD pkv_status pkv__sampler_create(int32_t vocab, const pkv_allocator *alloc,
                                             pkv__sampler **out);
void pkv__sampler_destroy(pkv__sampler *sampler);

/* What a row's penalties look back at, and where its draw comes from. */
typedef struct pkv__sample_context {
    const int32_t *prompt; /* [n_prompt] */
    int32_t n_prompt;
    const int32_t *output; /* [n_output] of this sample, before the token that is drawn */
    int32_t n_output;
    int32_t sample;     /* index in the request */
    uint64_t *xorshift; /* state of xorshift_llama2, else NULL */
} pkv__sample_context;

typedef struct pkv__sampled {
    int32_t id;
    float logprob; /* NAN: not asked for */
    int32_t n_top;
    pkv_logprob top[20]; /* most likely first, lowest id first of equal ones */
} pkv__sampled;

/* Every field in its range and finite? PKV_E_INVALID_ARG: the log names the field. */
PKV_NODISCARD pkv_status pkv__sampling_check(const pkv_sampling *sampling, int32_t vocab,
                                             const pkv_logger *log);

/* Choose. logits [vocab] are read only; a NaN counts as -infinity, and a row without any finite
 * logit gives the lowest id. Position of the draw: n_prompt + n_output. O(vocab); top-k and top-p
 * by partial selection. */
void pkv__sample(pkv__sampler *sampler, const float *logits, const pkv_sampling *sampling,
                 const pkv__sample_context *context, pkv__sampled *out);

/* The lowest id of the largest logits. */
int32_t pkv__argmax(const float *logits, int32_t n);
/* out[i] = logits[i] - log(sum of exp), float64 inside; out may be logits. */
void pkv__log_softmax(const float *logits, int32_t n, float *out);

/* A row's probabilities without a copy of it: log of token i = (logits[i] - largest) - log_sum,
 * with NaN and +infinity as above. largest is -infinity in a row without any finite logit. */
typedef struct pkv__row_sum {
    float largest;
    double log_sum; /* of exp(logit - largest) */
} pkv__row_sum;
pkv__row_sum pkv__sum_row(const float *logits, int32_t n);

#endif
