/* What a request has to get, by the definition: one sequence at a time, its whole prompt in one
 * pass, then token by token, in a store of its own. No engine, no scheduler, no block manager, no
 * batch: only the pass, the sampler, the rule of the beams and the tokenizer are the library's. */
#ifndef PKV_TESTS_PLAIN_RUN_H
#define PKV_TESTS_PLAIN_RUN_H

#include "engine_rig.h"

#include "pagedkv/store.h"

enum { PLAIN_MAX_NEW = 24, PLAIN_MAX_TOPS = 4, PLAIN_MAX_TEXT = 1024, PLAIN_MAX_TOKENS = 128 };

/* Where a request is computed. */
typedef struct plain {
    pkv_model *model; /* the caller's, like the tokenizer, which may be NULL */
    pkv_tokenizer *tok;
    int32_t max_context;
    int32_t n_eos, eos[PKV_MODEL_MAX_EOS + 1];
    int32_t vocab;
    pkv_kv_shape shape; /* of the store */
    /* of a sequence */
    pkv_backend *backend;
    pkv_store *store;
    struct pkv__forward *forward;
    struct pkv__sampler *sampler;
    pkv_kv_view k[8], v[8];
    float *logits; /* [16][vocab] */
} plain;

void plain_open(plain *p, pkv_model *model, pkv_tokenizer *tok, pkv_dtype kv_dtype, pkv_isa isa,
                int32_t max_context);
void plain_close(plain *p);

typedef struct want_sample {
    int32_t n, ids[PLAIN_MAX_NEW], n_tops[PLAIN_MAX_NEW];
    float logprobs[PLAIN_MAX_NEW];
    pkv_logprob tops[PLAIN_MAX_NEW][PLAIN_MAX_TOPS];
    char text[PLAIN_MAX_TEXT];
    int32_t n_text;
    pkv_finish finish;
    float score;
} want_sample;

typedef struct want {
    int32_t n; /* samples, or hypotheses that are returned */
    want_sample sample[4];
} want;

void plain_run(plain *p, const pkv_request *request, want *out);
/* The text of the first n output ids, up to the stop text that begins first; is_final: no more will
 * come. Whether a stop text ended it. */
bool plain_text(const plain *p, const pkv_request *r, const int32_t *ids, int32_t n, bool is_final,
                char *out, int32_t *n_out);
/* Does this id end a sample? */
bool plain_ends(const plain *p, const pkv_request *r, int32_t id);

#endif
