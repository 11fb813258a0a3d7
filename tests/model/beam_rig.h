/* Beam searches over a model whose logits follow from the last two tokens. */
#ifndef PKV_TESTS_BEAM_RIG_H
#define PKV_TESTS_BEAM_RIG_H

#include "model/beam.h"
#include "model_test.h"

#define BEAM_MAX_VOCAB 64
#define BEAM_MAX_NEW 32
#define BEAM_MAX_ENDS 8

typedef struct beam_model {
    uint64_t seed;
    int32_t vocab;
    int32_t ends[BEAM_MAX_ENDS], n_ends;
    float boost;       /* added to the ending tokens */
    int32_t prompt[2]; /* the last two tokens of it */
    int32_t n_levels;  /* 0: all logits differ; else they take so many values */
} beam_model;

typedef struct beam_found {
    int32_t ids[BEAM_MAX_NEW], n_ids;
    float score;
    pkv_finish finish;
} beam_found;

/* Logits after these tokens of output. */
void beam_logits(const beam_model *model, const int32_t *output, int32_t n, float *out);
/* A configuration that ends where the model does. */
pkv__beam_config beam_config(const beam_model *model, int32_t width, int32_t max_new);
/* Advance until the search is done or `max_steps` were made, with sequences that are forked and
 * closed as `next` says; they are compared with the outputs that the search keeps. Returns the
 * number of steps. */
int32_t beam_run(const beam_model *model, pkv__beams *beams, int32_t max_steps);
/* Create, run, read the results, destroy. Returns their number. */
int32_t beam_search(const beam_model *model, const pkv__beam_config *cfg, beam_found *out);

#endif
