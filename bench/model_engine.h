/* Engines as the cases of `pkv-bench model` use them: kept at a steady load of decodes, or given
 * one prompt at a time. */
#ifndef PKV_MODEL_ENGINE_H
#define PKV_MODEL_ENGINE_H

#include "bench_base.h"

#include "pagedkv/engine.h"

#define MODEL_TOLD 12 /* tokens that `told` is about */

/* What the requests of a case are. */
struct model_load {
    int32_t n_seqs, n_prompt, n_new;
};

struct model_engine {
    pkv_engine *engine;
    struct model_load load;
    int32_t vocab, n_left; /* steps until a sequence ends */
    int32_t *ids;          /* [n_prompt] */
    uint64_t seed;         /* of the next prompt */
    uint64_t told;         /* hash of the first tokens of the first request */
    int32_t n_told;
    bool failed; /* something the case did not expect */
};

/* `cfg` as model_engine_config made it. False: `err` says why. */
bool model_engine_create(const pkv_engine_config *cfg, const struct model_load *load,
                         struct model_engine *out, struct bench_error *err);
void model_engine_destroy(struct model_engine *m); /* a zeroed one is fine */
/* Room for the load, all prompts in one step, no prefix cache. */
pkv_engine_config model_engine_config(const pkv_model *model, const struct model_load *load,
                                      int32_t n_threads, pkv_isa isa);

/* Hand in n_seqs prompts, drawn from `seed`; those of one token are BOS (1). */
void model_engine_load(struct model_engine *m);
/* The same, and compute them: all sequences decode then. */
void model_engine_fill(struct model_engine *m);
/* All sequences decode, and do so for a step more: fill when they are at their end. */
void model_engine_keep(void *ctx);
/* One step of n_seqs decodes. */
void model_engine_decode(void *ctx);
/* One prompt from arrival to its first token. */
void model_engine_prefill(void *ctx);
/* Until nothing is unfinished. */
void model_engine_drain(struct model_engine *m);

#endif
