/* Memory of the host with a twin on the device: what the CPU and the device did to the same bytes
 * is then compared, all of it. */
#ifndef TWIN_MEMORY_H
#define TWIN_MEMORY_H

#include "cuda_test.h"

enum { MAX_REGIONS = 16 };

/* Host memory with a twin on the device. */
struct twins {
    struct region {
        unsigned char *host, *device;
        size_t bytes;
    } at[MAX_REGIONS];
    int n;
};

/* Filled with 0xff: NaN, and -1 as an id. */
static inline void *twins_add(struct twins *t, size_t bytes)
{
    assert_true(t->n < MAX_REGIONS);
    struct region *r = &t->at[t->n++];
    *r = (struct region){ aligned_alloc(64, (bytes + 64) / 64 * 64), device_alloc(bytes), bytes };
    assert_true(r->host && r->device);
    memset(r->host, 0xff, bytes);
    return r->host;
}

static inline void twins_upload(const struct twins *t)
{
    for (int i = 0; i < t->n; i++) device_upload(t->at[i].device, t->at[i].host, t->at[i].bytes);
}

static inline void twins_free(struct twins *t)
{
    for (int i = 0; i < t->n; i++) {
        free(t->at[i].host);
        device_free(t->at[i].device);
    }
    t->n = 0;
}

/* The device's address of a host address; NULL stays NULL. */
static inline void *there(const struct twins *t, const void *host)
{
    if (!host) return NULL;
    for (int i = 0; i < t->n; i++) {
        const ptrdiff_t by = (const unsigned char *)host - t->at[i].host;
        if (by >= 0 && (size_t)by < t->at[i].bytes) return t->at[i].device + by;
    }
    fail_msg("an address without a twin");
    return NULL;
}

static inline void assert_twins_equal(const struct twins *t, const char *what)
{
    for (int i = 0; i < t->n; i++) {
        const struct region *r = &t->at[i];
        unsigned char *got = malloc(r->bytes + 1);
        device_download(got, r->device, r->bytes);
        for (size_t b = 0; b < r->bytes; b++)
            if (got[b] != r->host[b])
                fail_msg("%s: region %d, byte %zu of %zu is %02x, not %02x", what, i, b, r->bytes,
                         got[b], r->host[b]);
        free(got);
    }
}

#endif
