/* Bias and penalties, which touch single tokens of a row. */
#include "model/sampler_internal.h"

#include <math.h>

static bool penalizes(const pkv_sampling *sampling)
{
    return sampling->repeat_penalty != 1.f || sampling->presence_penalty != 0.f ||
           sampling->frequency_penalty != 0.f;
}

bool pkv__sampler_adjusts(const pkv_sampling *sampling)
{
    return sampling->n_bias > 0 || penalizes(sampling);
}

static void copy_tamed(pkv__sampler *sampler, const float *logits)
{
    for (int32_t i = 0; i < sampler->vocab; i++) sampler->work[i] = pkv__tame_logit(logits[i]);
    for (int32_t i = sampler->vocab; i < sampler->padded; i++) sampler->work[i] = -INFINITY;
}

static void add_bias(float *work, const pkv_sampling *sampling)
{
    for (int32_t i = 0; i < sampling->n_bias; i++) {
        float *logit = work + sampling->bias[i].id;
        *logit = pkv__tame_logit(*logit + sampling->bias[i].bias);
    }
}

/* `n` times in the output, and in prompt or output at all. */
static float penalized(float logit, const pkv_sampling *sampling, int32_t n)
{
    const float repeat = sampling->repeat_penalty;
    logit = pkv__tame_logit(logit > 0 ? logit / repeat : logit * repeat);
    if (n == 0) return logit;
    logit = pkv__tame_logit(logit - sampling->frequency_penalty * (float)n);
    return pkv__tame_logit(logit - sampling->presence_penalty);
}

/* Each token once: its count is taken back to 0 as it is done, -1 marks one of the prompt alone. */
static void add_penalties(pkv__sampler *sampler, const pkv_sampling *sampling,
                          const pkv__sample_context *context)
{
    int32_t *count = sampler->count;
    for (int32_t i = 0; i < context->n_output; i++) count[context->output[i]]++;
    for (int32_t i = 0; i < context->n_prompt; i++)
        if (count[context->prompt[i]] == 0) count[context->prompt[i]] = -1;
    for (int32_t i = 0; i < context->n_output + context->n_prompt; i++) {
        const int32_t id =
            i < context->n_output ? context->output[i] : context->prompt[i - context->n_output];
        if (count[id] == 0) continue;
        sampler->work[id] = penalized(sampler->work[id], sampling, pkv__max_i32(count[id], 0));
        count[id] = 0;
    }
}

float pkv__sampler_adjust(pkv__sampler *sampler, const float *logits, const pkv_sampling *sampling,
                          const pkv__sample_context *context)
{
    copy_tamed(sampler, logits);
    add_bias(sampler->work, sampling);
    if (penalizes(sampling)) add_penalties(sampler, sampling, context);
    return sampler->work[pkv__argmax(sampler->work, sampler->padded)];
}
