/* Random numbers of a case: splitmix64 (Steele, Lea, Flood, 2014), seeded by case and seed alone.
 */
#ifndef PKV_CASE_RANDOM_H
#define PKV_CASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* lo .. hi, both included. */
static inline int32_t rng_int(struct rng *r, int32_t lo, int32_t hi)
{
    return lo + (int32_t)(rng_next(r) % ((uint64_t)((int64_t)hi - lo) + 1));
}

static inline bool rng_chance(struct rng *r, int32_t percent)
{
    return rng_int(r, 0, 99) < percent;
}

/* Uniform in [-1, 1). */
static inline float rng_signed(struct rng *r)
{
    return (float)((int64_t)(rng_next(r) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* Mean 0, variance 1, near enough to normal, tails to 3.5. */
static inline float rng_normal(struct rng *r)
{
    float sum = 0.f;
    for (int i = 0; i < 4; i++) sum += rng_signed(r);
    return sum * 0.8660254f;
}

/* 0 .. n - 1 in random order. */
static inline void rng_permutation(struct rng *r, int32_t *a, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t j = rng_int(r, 0, i);
        a[i] = a[j];
        a[j] = i;
    }
}

#endif
