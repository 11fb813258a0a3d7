/* SipHash-1-3, 64 bit, over 32-bit words (Aumasson and Bernstein, "SipHash: a fast short-input
 * PRF", 2012). Keyed against crafted collisions; the width is a matter of speed only, because all
 * users compare content exactly. */
#ifndef PKV_SIPHASH_H
#define PKV_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct pkv__siphash {
    uint64_t v0, v1, v2, v3;
    uint64_t n_bytes;
};

static inline uint64_t pkv__rotl64(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline void pkv__sip_round(struct pkv__siphash *s)
{
    s->v0 += s->v1, s->v2 += s->v3;
    s->v1 = pkv__rotl64(s->v1, 13) ^ s->v0, s->v3 = pkv__rotl64(s->v3, 16) ^ s->v2;
    s->v0 = pkv__rotl64(s->v0, 32);
    s->v2 += s->v1, s->v0 += s->v3;
    s->v1 = pkv__rotl64(s->v1, 17) ^ s->v2, s->v3 = pkv__rotl64(s->v3, 21) ^ s->v0;
    s->v2 = pkv__rotl64(s->v2, 32);
}

static inline void pkv__siphash_init(struct pkv__siphash *s, uint64_t k0, uint64_t k1)
{
    s->v0 = k0 ^ UINT64_C(0x736f6d6570736575), s->v1 = k1 ^ UINT64_C(0x646f72616e646f6d);
    s->v2 = k0 ^ UINT64_C(0x6c7967656e657261), s->v3 = k1 ^ UINT64_C(0x7465646279746573);
    s->n_bytes = 0;
}

/* Eight bytes of message, as a number. */
static inline void pkv__siphash_u64(struct pkv__siphash *s, uint64_t m)
{
    s->v3 ^= m;
    pkv__sip_round(s);
    s->v0 ^= m;
    s->n_bytes += 8;
}

/* Finish with up to seven more bytes: `tail` holds them in its low bytes, `n_tail` counts them. */
static inline uint64_t pkv__siphash_end(struct pkv__siphash *s, uint64_t tail, unsigned n_tail)
{
    const uint64_t last = (s->n_bytes + n_tail) << 56 | tail;
    s->v3 ^= last;
    pkv__sip_round(s);
    s->v0 ^= last;
    s->v2 ^= 0xff;
    for (int i = 0; i < 3; i++) pkv__sip_round(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

/* The same over a byte string, for keys that are bytes and for checks against published vectors:
 * c compression rounds per word, d finalisation rounds (1 and 3 above). */
uint64_t pkv__siphash_bytes(uint64_t k0, uint64_t k1, int c, int d, const void *data, size_t bytes);

#endif
