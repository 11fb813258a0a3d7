/* One row from logits to a token. The stages are in sampler_adjust.c, _weights.c and _cut.c. */
#include "common/detmath.h"
#include "common/philox.h"
#include "model/sampler_internal.h"

#include <math.h>
#include <string.h>

/* Third word of the draws' counter: a number of its own for each use of a request's stream. */
enum { PURPOSE_TOKEN = 1 };

pkv_status pkv__sampler_create(int32_t vocab, const pkv_allocator *alloc, pkv__sampler **out)
{
    PKV_ASSERT(vocab > 0);
    const size_t n = (size_t)vocab, padded = pkv__align_up(n, SAMPLER_RUN);
    const pkv_allocator memory = alloc ? *alloc : (pkv_allocator){ 0 };
    pkv__sampler *s = pkv__alloc(&memory, sizeof(*s), _Alignof(pkv__sampler));
    if (!s) return PKV_E_NO_MEMORY;
    memset(s, 0, sizeof(*s));
    s->vocab = vocab;
    s->padded = (int32_t)padded;
    s->alloc = memory;
    s->work = pkv__alloc(&memory, padded * sizeof(*s->work), PKV_CACHE_LINE);
    s->weight = pkv__alloc(&memory, padded * sizeof(*s->weight), PKV_CACHE_LINE);
    s->run_sum = pkv__alloc(&memory, padded / SAMPLER_RUN * sizeof(*s->run_sum), PKV_CACHE_LINE);
    s->count = pkv__alloc(&memory, n * sizeof(*s->count), PKV_CACHE_LINE);
    s->entries = pkv__alloc(&memory, n * sizeof(*s->entries), PKV_CACHE_LINE);
    if (!s->work || !s->weight || !s->run_sum || !s->count || !s->entries) {
        pkv__sampler_destroy(s);
        return PKV_E_NO_MEMORY;
    }
    memset(s->count, 0, n * sizeof(*s->count));
    *out = s;
    return PKV_OK;
}

void pkv__sampler_destroy(pkv__sampler *sampler)
{
    if (!sampler) return;
    const pkv_allocator memory = sampler->alloc;
    const size_t n = (size_t)sampler->vocab, padded = (size_t)sampler->padded;
    pkv__free(&memory, sampler->work, padded * sizeof(*sampler->work));
    pkv__free(&memory, sampler->weight, padded * sizeof(*sampler->weight));
    pkv__free(&memory, sampler->run_sum, padded / SAMPLER_RUN * sizeof(*sampler->run_sum));
    pkv__free(&memory, sampler->count, n * sizeof(*sampler->count));
    pkv__free(&memory, sampler->entries, n * sizeof(*sampler->entries));
    pkv__free(&memory, sampler, sizeof(*sampler));
}

/* ---------------------------------------------------------------- logprobs */

/* The distribution that logprobs are of. */
typedef struct reported {
    double largest, inv_temperature, log_sum;
} reported;

static float logprob_of(const reported *of, float logit)
{
    return (float)(((double)logit - of->largest) * of->inv_temperature - of->log_sum);
}

/* Tokens without probability are left out. The list stays sorted: one is let in only by being
 * larger than the last, and stands behind its equals, whose ids are lower. */
static void list_top(const float *logits, int32_t vocab, const reported *of, int32_t n,
                     pkv__sampled *out)
{
    float top[PKV_ARRAY_LEN(out->top)];
    int32_t n_top = 0;
    for (int32_t id = 0; id < vocab && n > 0; id++) {
        if (n_top == n ? !(logits[id] > top[n - 1]) : logits[id] == -INFINITY) continue;
        int32_t at = n_top < n ? n_top++ : n - 1;
        for (; at > 0 && top[at - 1] < logits[id]; at--) {
            top[at] = top[at - 1];
            out->top[at].id = out->top[at - 1].id;
        }
        top[at] = logits[id];
        out->top[at].id = id;
    }
    for (int32_t i = 0; i < n_top; i++) out->top[i].logprob = logprob_of(of, top[i]);
    out->n_top = n_top;
}

/* ---------------------------------------------------------------- the choice */

/* In ascending order of ids: the first whose cumulative weight exceeds u * sum. */
static int32_t draw_id(const pkv__sampler *sampler, double sum, double u)
{
    const double target = u * sum;
    const int32_t n_runs = sampler->padded / SAMPLER_RUN;
    double reached = 0;
    int32_t run = 0, last = 0;
    while (run < n_runs - 1 && reached + sampler->run_sum[run] <= target)
        reached += sampler->run_sum[run++];
    /* There is weight in this run: target is below the sum of all runs, added up in this order.
     * Inside it a sum in another order may fall short of target by a rounding error: the last token
     * with weight then. */
    for (int32_t i = run * SAMPLER_RUN; i < sampler->padded; i++) {
        if (sampler->weight[i] == 0) continue;
        last = i;
        reached += sampler->weight[i];
        if (reached > target) break;
    }
    PKV_ASSERT(sampler->weight[last] > 0);
    return last;
}

/* Uniform in (0, 1), 52 bits, from the request's key and the place of the draw alone. */
static double draw_uniform(const pkv_sampling *sampling, const pkv__sample_context *context)
{
    pkv__rng rng = { .ctr = { (uint32_t)(context->n_prompt + context->n_output),
                              (uint32_t)context->sample, PURPOSE_TOKEN, 0 },
                     .key = { (uint32_t)sampling->seed, (uint32_t)(sampling->seed >> 32) } };
    return pkv__rng_unit(&rng);
}

/* Top-k comes before the exponentials: it needs none, and spares most of them. */
static int32_t cut_and_draw(pkv__sampler *sampler, float largest, const pkv_sampling *sampling,
                            const pkv__sample_context *context)
{
    double *weight = sampler->weight;
    if (sampling->top_k > 0 && sampling->top_k < sampler->vocab)
        pkv__sampler_cut_top_k(sampler, largest, sampling->top_k);
    double sum = pkv__sampler_weigh(sampler, largest, 1 / (double)sampling->temperature);
    if (sampling->top_p < 1.f) {
        pkv__sampler_cut_top_p(sampler, largest, (double)sampling->top_p * sum);
        sum = pkv__sampler_sum(sampler);
    }
    if (sampling->min_p > 0.f) { /* the largest weight is 1 */
        for (int32_t i = 0; i < sampler->padded; i++)
            weight[i] = weight[i] >= (double)sampling->min_p ? weight[i] : 0;
        sum = pkv__sampler_sum(sampler);
    }
    return draw_id(sampler, sum, draw_uniform(sampling, context));
}

/* Of what is in work; weight is used. */
static reported report(pkv__sampler *sampler, float largest, double inv_temperature, int32_t n_top,
                       pkv__sampled *out)
{
    reported of = { 0, 1, INFINITY }; /* nothing is finite: no token has a probability */
    if (largest > -INFINITY) {
        const double sum = pkv__sampler_weigh(sampler, largest, inv_temperature);
        of = (reported){ largest, inv_temperature, pkv__det_log(sum) };
    }
    list_top(sampler->work, sampler->vocab, &of, n_top, out);
    return of;
}

static int32_t choose(pkv__sampler *sampler, float largest, const pkv_sampling *sampling,
                      const pkv__sample_context *context)
{
    if (largest == -INFINITY) return 0;
    if (sampling->temperature == 0.f) return pkv__argmax(sampler->work, sampler->vocab);
    if (sampling->xorshift_llama2)
        return pkv__sampler_llama2(sampler, largest, sampling, context->xorshift);
    return cut_and_draw(sampler, largest, sampling, context);
}

void pkv__sample(pkv__sampler *sampler, const float *logits, const pkv_sampling *sampling,
                 const pkv__sample_context *context, pkv__sampled *out)
{
    static const pkv_sampling plain = PKV_SAMPLING_INIT;
    const bool reports = sampling->n_logprobs >= 0, scaled = sampling->logprobs_scaled;
    const bool greedy = sampling->temperature == 0.f;
    *out = (pkv__sampled){ .logprob = NAN };
    if (greedy && !reports && !pkv__sampler_adjusts(sampling)) {
        out->id = pkv__argmax(logits, sampler->vocab);
        return;
    }
    reported of = { 0 };
    if (reports && !scaled)
        of = report(sampler, pkv__sampler_adjust(sampler, logits, &plain, context), 1,
                    sampling->n_logprobs, out);
    const float largest = pkv__sampler_adjust(sampler, logits, sampling, context);
    if (reports && scaled)
        of = report(sampler, largest, greedy ? 1 : 1 / (double)sampling->temperature,
                    sampling->n_logprobs, out);
    out->id = choose(sampler, largest, sampling, context);
    if (reports)
        out->logprob =
            logprob_of(&of, scaled ? sampler->work[out->id] : pkv__tame_logit(logits[out->id]));
}
