/* Rotary frequencies (RoFormer, arXiv 2104.09864) and their scaled variants. A variant changes the
 * frequency of each pair and the length of (cos, sin), nothing else, so that one kernel turns all.
 *
 * In double, of + - * / and sqrt, pkv__det_log and pkv__det_exp: the same on every machine. */
#include "common/detmath.h"
#include "model/forward.h"

#include <math.h>

#define TWO_PI 6.28318530717958647692

/* theta^(-2i / d) */
static double base_frequency(double theta, int32_t pair, int32_t dim)
{
    return pair == 0 ? 1 : pkv__det_exp(-2.0 * pair / dim * pkv__det_log(theta));
}

/* The theta for which the longest position in use turns no further than it did in training; fixed
 * by the limit, because keys that are stored keep their angles. */
static double dynamic_theta(const pkv__rope_config *r, int32_t limit)
{
    const double dim = r->rotary_dim, ratio = (double)limit / r->original_context;
    if (ratio <= 1 || r->rotary_dim == 2) return r->theta;
    const double stretch = r->factor * ratio - (r->factor - 1);
    return r->theta * pkv__det_exp(dim / (dim - 2) * pkv__det_log(stretch));
}

/* Wave lengths below original / high stay, those above original / low grow by factor, and between
 * them the frequency goes from one to the other in a straight line over original / length. */
static double llama3_frequency(const pkv__rope_config *r, double f)
{
    const double turns = r->original_context * f / TWO_PI;
    if (turns > r->high_freq_factor) return f;
    if (turns < r->low_freq_factor) return f / r->factor;
    const double keep = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - keep) * f / r->factor + keep * f;
}

/* ---------------------------------------------------------------- YaRN, arXiv 2309.00071 */

/* The pair, as a real number, that makes so many turns over the original context. */
static double pair_of_turns(const pkv__rope_config *r, double turns)
{
    const double wave = r->original_context / (turns * TWO_PI);
    return r->rotary_dim * pkv__det_log(wave) / (2 * pkv__det_log(r->theta));
}

static double yarn_frequency(const pkv__rope_config *r, int32_t pair, double f)
{
    double low = floor(pair_of_turns(r, r->beta_fast));
    double high = ceil(pair_of_turns(r, r->beta_slow));
    const double last = r->rotary_dim - 1;
    low = low > 0 ? (low < last ? low : last) : 0;
    high = high < last ? high : last;
    if (low == high) high += 0.001; /* as in the published code: a step */
    double ramp = (pair - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return ramp * f / r->factor + (1 - ramp) * f;
}

static double magnitude(double factor, double mscale)
{
    return factor > 1 ? 0.1 * mscale * pkv__det_log(factor) + 1 : 1;
}

static double yarn_amplitude(const pkv__rope_config *r)
{
    if (r->attention_factor > 0) return r->attention_factor;
    if (r->mscale > 0 && r->mscale_all_dim > 0)
        return magnitude(r->factor, r->mscale) / magnitude(r->factor, r->mscale_all_dim);
    return magnitude(r->factor, 1);
}

/* ---------------------------------------------------------------- LongRoPE, arXiv 2402.13753 */

static double longrope_amplitude(const pkv__rope_config *r)
{
    if (r->attention_factor > 0) return r->attention_factor;
    if (r->factor <= 1 || r->original_context <= 1) return 1;
    return sqrt(1 + pkv__det_log(r->factor) / pkv__det_log(r->original_context));
}

static double longrope_divisor(const pkv__rope_config *r, int32_t pair, int32_t limit)
{
    return limit > r->original_context ? r->long_factor[pair] : r->short_factor[pair];
}

void pkv__rope_frequencies(const pkv__rope_config *rope, int32_t head_dim, int32_t limit,
                           double *inv_freq, double *amplitude)
{
    PKV_ASSERT(rope->rotary_dim >= 2 && rope->rotary_dim <= head_dim);
    (void)head_dim;
    const double theta = rope->kind == PKV__ROPE_DYNAMIC ? dynamic_theta(rope, limit) : rope->theta;
    *amplitude = rope->kind == PKV__ROPE_YARN       ? yarn_amplitude(rope)
                 : rope->kind == PKV__ROPE_LONGROPE ? longrope_amplitude(rope)
                                                    : 1;
    for (int32_t i = 0; i < rope->rotary_dim / 2; i++) {
        const double f = base_frequency(theta, i, rope->rotary_dim);
        switch (rope->kind) {
        case PKV__ROPE_LINEAR:
            inv_freq[i] = f / rope->factor;
            break;
        case PKV__ROPE_LLAMA3:
            inv_freq[i] = llama3_frequency(rope, f);
            break;
        case PKV__ROPE_YARN:
            inv_freq[i] = yarn_frequency(rope, i, f);
            break;
        case PKV__ROPE_LONGROPE:
            inv_freq[i] = f / longrope_divisor(rope, i, limit);
            break;
        case PKV__ROPE_DEFAULT:
        case PKV__ROPE_DYNAMIC:
            inv_freq[i] = f;
            break;
        }
    }
}
