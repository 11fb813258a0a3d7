/* SipHash-c-d over byte strings. */
#include "common/siphash.h"

static uint64_t load_le(const uint8_t *p, size_t n)
{
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static void compress(struct pkv__siphash *s, uint64_t m, int rounds)
{
    s->v3 ^= m;
    for (int i = 0; i < rounds; i++) pkv__sip_round(s);
    s->v0 ^= m;
}

uint64_t pkv__siphash_bytes(uint64_t k0, uint64_t k1, int c, int d, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    struct pkv__siphash s;
    pkv__siphash_init(&s, k0, k1);
    for (size_t i = 0; i < bytes / 8; i++, p += 8) compress(&s, load_le(p, 8), c);
    compress(&s, (uint64_t)bytes << 56 | load_le(p, bytes % 8), c);
    s.v2 ^= 0xff;
    for (int i = 0; i < d; i++) pkv__sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
