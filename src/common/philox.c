/* Philox4x32-10. The multipliers and the Weyl increments of the key are the published ones. */
#include "common/philox.h"

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u /* golden ratio */
#define PHILOX_W1 0xBB67AE85u /* sqrt(3) - 1 */
#define PHILOX_ROUNDS 10

void pkv__philox4x32(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)PHILOX_M0 * c0;
        const uint64_t p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void pkv__rng_init(pkv__rng *rng, uint64_t seed, uint32_t purpose, uint32_t lane)
{
    *rng = (pkv__rng){ .ctr = { 0, 0, purpose, lane },
                       .key = { (uint32_t)seed, (uint32_t)(seed >> 32) } };
}

uint32_t pkv__rng_u32(pkv__rng *rng)
{
    if (rng->n_left == 0) {
        pkv__philox4x32(rng->ctr, rng->key, rng->word);
        rng->n_left = 4;
        if (++rng->ctr[0] == 0) rng->ctr[1]++;
    }
    return rng->word[4 - rng->n_left--];
}

uint64_t pkv__rng_u64(pkv__rng *rng)
{
    const uint64_t low = pkv__rng_u32(rng);
    return low | (uint64_t)pkv__rng_u32(rng) << 32;
}

double pkv__rng_unit(pkv__rng *rng)
{
    const uint64_t k = pkv__rng_u64(rng) >> 12;
    return ((double)k + 0.5) * 0x1p-52;
}

uint32_t pkv__rng_below(pkv__rng *rng, uint32_t n)
{
    /* Words below 2^32 mod n would be one too many for the low remainders. */
    const uint32_t surplus = (uint32_t)(-n) % n;
    uint32_t word = pkv__rng_u32(rng);
    while (word < surplus) word = pkv__rng_u32(rng);
    return word % n;
}
