/* What llama2.c's run.c (github.com/karpathy/llama2.c) does with logits, so that its published
 * texts come out again: xorshift64* as the generator, probabilities as float32, and a top-p that
 * drops everything below (1 - p) / (n - 1) before it sorts. Its order of equal probabilities is
 * that of the C library's qsort; here lower ids come first. */
#include "model/sampler_internal.h"

static float next_coin(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    const uint32_t word = (uint32_t)((*state * 0x2545F4914F6CDD1DULL) >> 32);
    return (float)(word >> 8) / 16777216.f;
}

/* weight = probabilities, each a float32. */
static void softmax(pkv__sampler *sampler, float largest, float temperature)
{
    double distance[SAMPLER_RUN];
    const float *logits = sampler->work;
    const float top = pkv__tame_logit(largest / temperature);
    float sum = 0;
    for (int32_t at = 0; at < sampler->padded; at += SAMPLER_RUN) {
        for (int32_t i = 0; i < SAMPLER_RUN; i++)
            distance[i] = (double)(top - pkv__tame_logit(logits[at + i] / temperature));
        pkv__exp_run(distance, sampler->weight + at);
    }
    for (int32_t i = 0; i < sampler->vocab; i++) sum += (float)sampler->weight[i];
    for (int32_t i = 0; i < sampler->vocab; i++)
        sampler->weight[i] = (float)sampler->weight[i] / sum;
}

static void sift_down(pkv__sampler_entry *e, int32_t at, int32_t n)
{
    const pkv__sampler_entry moving = e[at];
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && pkv__entry_is_before(&e[child], &e[child + 1])) child++;
        if (!pkv__entry_is_before(&moving, &e[child])) break;
        e[at] = e[child];
    }
    e[at] = moving;
}

/* Heapsort: the C library's qsort may take memory. The heap's root comes last in order. */
static void sort_entries(pkv__sampler_entry *e, int32_t n)
{
    for (int32_t at = n / 2 - 1; at >= 0; at--) sift_down(e, at, n);
    for (int32_t end = n - 1; end > 0; end--) {
        const pkv__sampler_entry last = e[0];
        e[0] = e[end];
        e[end] = last;
        sift_down(e, 0, end);
    }
}

static int32_t draw_from_all(const double *p, int32_t n, float coin)
{
    float sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += (float)p[i];
        if (coin < sum) return i;
    }
    return n - 1;
}

static int32_t draw_top_p(pkv__sampler *sampler, float top_p, float coin)
{
    pkv__sampler_entry *e = sampler->entries;
    const float cutoff = (1.f - top_p) / (float)(sampler->vocab - 1);
    int32_t n = 0;
    for (int32_t i = 0; i < sampler->vocab; i++)
        if ((float)sampler->weight[i] >= cutoff)
            e[n++] = (pkv__sampler_entry){ .logit = (float)sampler->weight[i], .id = i };
    if (n == 0) return 0; /* a vocabulary of one: the cutoff is infinite */
    sort_entries(e, n);
    float sum = 0;
    int32_t last = n - 1;
    for (int32_t i = 0; i < n; i++) {
        sum += e[i].logit;
        if (sum > top_p) {
            last = i;
            break;
        }
    }
    const float target = coin * sum;
    float reached = 0;
    for (int32_t i = 0; i <= last; i++) {
        reached += e[i].logit;
        if (target < reached) return e[i].id;
    }
    return e[last].id;
}

int32_t pkv__sampler_llama2(pkv__sampler *sampler, float largest, const pkv_sampling *sampling,
                            uint64_t *state)
{
    PKV_ASSERT(state && *state != 0);
    softmax(sampler, largest, sampling->temperature);
    const float coin = next_coin(state);
    if (sampling->top_p >= 1.f) return draw_from_all(sampler->weight, sampler->vocab, coin);
    return draw_top_p(sampler, sampling->top_p, coin);
}
