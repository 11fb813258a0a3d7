/* SHA-256 (FIPS 180-4). For identities that leave the process or stand for variable-length fields;
 * not on any hot path. */
#ifndef PKV_SHA256_H
#define PKV_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct pkv__sha256 {
    uint32_t h[8];
    uint64_t n_bytes;
    uint8_t block[64];
};

void pkv__sha256_init(struct pkv__sha256 *s);
void pkv__sha256_update(struct pkv__sha256 *s, const void *data, size_t bytes);
void pkv__sha256_end(struct pkv__sha256 *s, uint8_t digest[32]);

#endif
