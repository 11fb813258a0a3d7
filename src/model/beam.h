/* Beam search of one request: scores alone, no KV. The engine forks and closes as `next` says.
 *
 *   logits of the live beams --pkv__beam_advance--> for each new beam: parent, token
 *
 * Definition: Hugging Face Transformers (generation/beam_search.py, BeamSearchScorer, v4.40 to
 * v4.49), without sampling. All (beam, token) pairs are ranked by cumulative logprob (ties: lower
 * beam, larger logit, lower id). Those with rank < width that end (EOS, stop id) become candidates
 * with score sum / length^penalty, length counting the ending token, and of more than `width`
 * candidates the worst is dropped; the first `width` others live on. With `width` candidates the
 * search is done: with early_stopping at once, else when the worst candidate's score is at least
 * that of the best pair of this step, ended or not, as if it ended here. At max_new the live beams
 * become candidates too, unless the search is done in that very step.
 *
 * Unlike there, a pair of probability 0 is no pair: a small vocabulary, or one that a bias forbids
 * most of, gives fewer than `width` live beams. Sums are float64. */
#ifndef PKV_MODEL_BEAM_H
#define PKV_MODEL_BEAM_H

#include "common/common.h"
#include "pagedkv/engine.h"

enum { PKV__MAX_BEAMS = 16 };

typedef struct pkv__beams pkv__beams;

typedef struct pkv__beam_config {
    int32_t width, n_return; /* 2 .. 16 (1 is allowed here, for tests); 1 .. width */
    int32_t max_new;         /* longest output */
    int32_t vocab;
    float length_penalty;
    bool early_stopping;
    const int32_t *end_ids; /* [n_end_ids] copied; EOS unless ignored, and stop ids */
    int32_t n_end_ids;
    const pkv_logit_bias *bias; /* [n_bias] copied */
    int32_t n_bias;
} pkv__beam_config;

/* All memory here: the engine makes it when a request is submitted. */
PKV_NODISCARD pkv_status pkv__beam_create(const pkv__beam_config *cfg, const pkv_allocator *alloc,
                                          pkv__beams **out);
void pkv__beam_destroy(pkv__beams *beams);

typedef struct pkv__beam_next {
    int32_t n_beams;                /* live beams after this step; 0: done */
    int32_t parent[PKV__MAX_BEAMS]; /* index among the beams before; several may have one parent */
    int32_t token[PKV__MAX_BEAMS];  /* to be computed next */
} pkv__beam_next;

/* One step. logits[b] is [vocab] of live beam b; there is one beam before the first call, and
 * `n_beams` of the last `next` afterwards. Returns in *next how to go on; n_beams 0 when the search
 * is done (stopping rule reached, or max_new). O(width * vocab). */
void pkv__beam_advance(pkv__beams *beams, const float *const *logits, pkv__beam_next *next);

/* Output so far of live beam b: its length. For recomputing after preemption. */
int32_t pkv__beam_output(const pkv__beams *beams, int32_t beam, const int32_t **ids);

/* End now (cancel, deadline, context): live beams become candidates, unless they have no token yet.
 * Nothing happens where the search is done. */
void pkv__beam_finish(pkv__beams *beams);
/* The best `n_return` candidates, best first (of equal scores the later one); ids end with the
 * ending token where there is one. Fewer where there are no more, 0 before the search is done.
 * finish: STOP with an ending token, LENGTH at max_new, else NONE, and the caller knows why. */
int32_t pkv__beam_n_results(const pkv__beams *beams);
void pkv__beam_result(const pkv__beams *beams, int32_t rank, const int32_t **ids, int32_t *n_ids,
                      float *score, pkv_finish *finish);

#endif
