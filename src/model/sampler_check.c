/* Is a request's sampling in its ranges? Every field that is not gets its line. */
#include "model/sampler.h"

#include <math.h>

#define MAX_TOP ((int)PKV_ARRAY_LEN(((pkv__sampled *)0)->top))
#define MAX_BIAS 1024

/* A NaN is in no range. */
static bool in_range(const pkv_logger *log, const char *name, float x, float low, float high,
                     const char *range)
{
    if (x >= low && x <= high) return true;
    pkv__log(log, PKV_LOG_ERROR, "sampling.%s is %g; it must be %s", name, (double)x, range);
    return false;
}

static bool floats_valid(const pkv_sampling *s, const pkv_logger *log)
{
    const float largest = 3.40282346638528859812e38f, least = 1.40129846432481707e-45f;
    bool ok = in_range(log, "temperature", s->temperature, 0, largest, "finite, 0 or more");
    ok &= in_range(log, "top_p", s->top_p, least, 1, "above 0 and at most 1 (1: no cut)");
    ok &= in_range(log, "min_p", s->min_p, 0, 1, "between 0 (no cut) and 1");
    ok &= in_range(log, "repeat_penalty", s->repeat_penalty, least, largest,
                   "finite and above 0 (1: none)");
    ok &= in_range(log, "presence_penalty", s->presence_penalty, -largest, largest, "finite");
    ok &= in_range(log, "frequency_penalty", s->frequency_penalty, -largest, largest, "finite");
    return ok;
}

static bool bias_valid(const pkv_sampling *s, int32_t vocab, const pkv_logger *log)
{
    if (s->n_bias < 0 || s->n_bias > MAX_BIAS) {
        pkv__log(log, PKV_LOG_ERROR, "sampling.n_bias is %d; it must be 0 to %d", s->n_bias,
                 MAX_BIAS);
        return false;
    }
    if (s->n_bias > 0 && !s->bias) {
        pkv__log(log, PKV_LOG_ERROR, "sampling.bias is NULL with n_bias %d", s->n_bias);
        return false;
    }
    for (int32_t i = 0; i < s->n_bias; i++) {
        const int32_t id = s->bias[i].id;
        const float bias = s->bias[i].bias;
        if (id < 0 || id >= vocab) {
            pkv__log(log, PKV_LOG_ERROR, "sampling.bias[%d].id is %d; ids are 0 to %d", i, id,
                     vocab - 1);
            return false;
        }
        if (isnan(bias) || bias == INFINITY) {
            pkv__log(log, PKV_LOG_ERROR,
                     "sampling.bias[%d].bias is %g; it must be finite, or -inf to forbid token %d",
                     i, (double)bias, id);
            return false;
        }
    }
    return true;
}

/* llama2.c knows none of the other cuts, and a state of 0 stays 0. */
static bool llama2_valid(const pkv_sampling *s, const pkv_logger *log)
{
    if (!s->xorshift_llama2) return true;
    bool ok = true;
    if (s->seed == 0) {
        pkv__log(log, PKV_LOG_ERROR, "sampling.seed is 0; xorshift_llama2 needs 1 or more");
        ok = false;
    }
    if (s->top_k != 0 || s->min_p != 0.f) {
        pkv__log(log, PKV_LOG_ERROR,
                 "sampling.xorshift_llama2 goes with temperature and top_p; top_k and min_p must "
                 "be 0");
        ok = false;
    }
    return ok;
}

pkv_status pkv__sampling_check(const pkv_sampling *sampling, int32_t vocab, const pkv_logger *log)
{
    bool ok = floats_valid(sampling, log);
    if (sampling->top_k < 0) {
        pkv__log(log, PKV_LOG_ERROR, "sampling.top_k is %d; it must be 0 (all) or more",
                 sampling->top_k);
        ok = false;
    }
    if (sampling->n_logprobs < -1 || sampling->n_logprobs > MAX_TOP) {
        pkv__log(log, PKV_LOG_ERROR, "sampling.n_logprobs is %d; it must be -1 (none) to %d",
                 sampling->n_logprobs, MAX_TOP);
        ok = false;
    }
    ok &= llama2_valid(sampling, log);
    ok &= bias_valid(sampling, vocab, log);
    return ok ? PKV_OK : PKV_E_INVALID_ARG;
}
