/* The stages of the sampler, shared by its files and their tests.
 *
 *   logits --adjust, top-k--> work [vocab] --weigh--> weight [vocab] --top-p, min-p--> draw
 *
 * Rows are padded to whole runs of SAMPLER_RUN with -infinity, whose weight is 0: loops of one
 * known length become vector code, and sums have one order whatever the vocabulary.
 * All of it is + - * / and comparisons, which IEEE 754 rounds the same everywhere; the last bits of
 * libm's exp and log are no part of any choice. */
#ifndef PKV_MODEL_SAMPLER_INTERNAL_H
#define PKV_MODEL_SAMPLER_INTERNAL_H

#include "model/sampler.h"

enum {
    SAMPLER_RUN = 256,
    /* Of the distance to the largest logit as a float's bits: 8 buckets per power of two. */
    SAMPLER_BUCKET_SHIFT = 20,
    SAMPLER_BUCKETS = 2048 /* the bits of +infinity fall into bucket 2040 */
};

typedef struct pkv__sampler_bucket {
    double mass;
    int32_t count;
} pkv__sampler_bucket;

typedef struct pkv__sampler_entry {
    double weight;
    float logit;
    int32_t id;
} pkv__sampler_entry;

/* The order of both ways of cutting: larger logit first, of equal ones the lower id. */
static inline bool pkv__entry_is_before(const pkv__sampler_entry *a, const pkv__sampler_entry *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

struct pkv__sampler {
    int32_t vocab;
    int32_t padded;  /* a multiple of SAMPLER_RUN */
    float *work;     /* [padded] logits after bias and penalties; no NaN, no +infinity */
    double *weight;  /* [padded] exp((logit - largest) / temperature), 0: cut away */
    double *run_sum; /* [padded / SAMPLER_RUN] sums of weight */
    int32_t *count;  /* [vocab] how often the output holds a token; 0 between calls */
    pkv__sampler_entry *entries; /* [vocab] members of one bucket */
    pkv__sampler_bucket buckets[SAMPLER_BUCKETS];
    pkv_allocator alloc;
};

/* A NaN counts as -infinity; +infinity as the largest finite number, so that differences have a
 * value; -0 as 0. */
static inline float pkv__tame_logit(float x)
{
    const float largest = 3.40282346638528859812e38f;
    if (!(x >= -largest)) return -__builtin_inff();
    return x > largest ? largest : x + 0.f;
}

/* e^-d for each distance d >= 0 of a run, 1 for 0, 0 from d = 709 on; within 2^-46 of it. */
void pkv__exp_run(const double distance[SAMPLER_RUN], double out[SAMPLER_RUN]);
/* Eight interleaved sums, then their sum: one order at every level of optimisation. */
double pkv__sum_run(const double x[SAMPLER_RUN]);

/* Is there a bias, or a penalty? */
bool pkv__sampler_adjusts(const pkv_sampling *sampling);
/* work = tamed logits, plus bias, with penalties. Returns the largest. */
float pkv__sampler_adjust(pkv__sampler *sampler, const float *logits, const pkv_sampling *sampling,
                          const pkv__sample_context *context);
/* weight and run_sum from work; returns the sum. `largest` is finite and occurs in work. */
double pkv__sampler_weigh(pkv__sampler *sampler, float largest, double inv_temperature);
/* run_sum from weight; returns the sum. */
double pkv__sampler_sum(pkv__sampler *sampler);

/* Before weighing: work = -infinity for all but the `top_k` first in the order "larger logit, then
 * lower id". */
void pkv__sampler_cut_top_k(pkv__sampler *sampler, float largest, int32_t top_k);
/* After weighing: weight 0 for what follows the shortest beginning of that order that weighs at
 * least `mass`. */
void pkv__sampler_cut_top_p(pkv__sampler *sampler, float largest, double mass);

/* The choice of llama2.c's run.c: probabilities and sums in float32, its generator, its top-p. */
int32_t pkv__sampler_llama2(pkv__sampler *sampler, float largest, const pkv_sampling *sampling,
                            uint64_t *state);

#endif
