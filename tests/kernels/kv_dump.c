/* Reading a dump of K, V and Q. */
#include "kv_dump.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 8 + 5 * 4, MAX_FILE_BYTES = 1 << 28 };

static bool refuse(char *why, size_t why_bytes, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(char *why, size_t why_bytes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, why_bytes, fmt, args);
    va_end(args);
    return false;
}

static uint32_t word_at(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int64_t floats_per_token(const struct kv_dump *d)
{
    return (int64_t)(2 * d->n_kv_heads + d->n_q_heads) * d->dim;
}

/* Field by field, each within what kernels take, so that no product below can overflow. */
static bool parse_header(const unsigned char *bytes, size_t n, struct kv_dump *d, char *why,
                         size_t why_bytes)
{
    static const struct {
        const char *name;
        uint32_t most;
    } fields[] = {
        { "layers", 1024 },  { "tokens", 1 << 16 }, { "query heads", 256 },
        { "kv heads", 256 }, { "dim", 256 },
    };
    int32_t values[5];
    if (n < HEADER_BYTES)
        return refuse(why, why_bytes, "offset %zu: the file ends within the header", n);
    if (memcmp(bytes, "PKVDUMP1", 8) != 0)
        return refuse(why, why_bytes, "offset 0: no dump, it does not start with PKVDUMP1");
    for (size_t i = 0; i < 5; i++) {
        const uint32_t x = word_at(bytes + 8 + 4 * i);
        if (x < 1 || x > fields[i].most)
            return refuse(why, why_bytes, "offset %zu: %u %s, not 1 .. %u", 8 + 4 * i, (unsigned)x,
                          fields[i].name, (unsigned)fields[i].most);
        values[i] = (int32_t)x;
    }
    *d = (struct kv_dump){ values[0], values[1], values[2], values[3], values[4], NULL };
    if (d->dim % 8 != 0)
        return refuse(why, why_bytes, "offset 24: dim %d is no multiple of 8", d->dim);
    if (d->n_q_heads % d->n_kv_heads != 0)
        return refuse(why, why_bytes, "offset 16: %d query heads over %d kv heads", d->n_q_heads,
                      d->n_kv_heads);
    return true;
}

bool kv_dump_parse(const unsigned char *bytes, size_t n, struct kv_dump *dump, char *why,
                   size_t why_bytes)
{
    struct kv_dump d;
    *dump = (struct kv_dump){ 0 };
    if (!parse_header(bytes, n, &d, why, why_bytes)) return false;
    const uint64_t n_floats =
        (uint64_t)d.n_layers * (uint64_t)d.n_tokens * (uint64_t)floats_per_token(&d);
    if ((uint64_t)n - HEADER_BYTES != n_floats * 4)
        return refuse(why, why_bytes, "offset %zu: the file ends, its header asks for %llu bytes",
                      n, (unsigned long long)(HEADER_BYTES + n_floats * 4));
    d.data = malloc((size_t)n_floats * sizeof(float));
    if (!d.data) return refuse(why, why_bytes, "no memory for %zu bytes", n);
    for (size_t i = 0; i < (size_t)n_floats; i++) {
        const uint32_t bits = word_at(bytes + HEADER_BYTES + 4 * i);
        memcpy(&d.data[i], &bits, sizeof(bits));
        if (isfinite(d.data[i])) continue;
        free(d.data);
        return refuse(why, why_bytes, "offset %zu: not a finite number", HEADER_BYTES + 4 * i);
    }
    *dump = d;
    return true;
}

bool kv_dump_read(const char *path, struct kv_dump *dump, char *why, size_t why_bytes)
{
    *dump = (struct kv_dump){ 0 };
    FILE *f = fopen(path, "rb");
    if (!f) return refuse(why, why_bytes, "cannot be opened");
    size_t n = 0, room = 1 << 20;
    unsigned char *bytes = malloc(room);
    for (size_t got = 1; bytes && got > 0;) {
        got = fread(bytes + n, 1, room - n, f);
        n += got;
        if (n < room) continue;
        unsigned char *more = room < MAX_FILE_BYTES ? realloc(bytes, room *= 2) : NULL;
        if (!more) free(bytes);
        bytes = more;
    }
    const bool failed = ferror(f) != 0;
    fclose(f);
    if (!bytes) return refuse(why, why_bytes, "too large: more than %d bytes", MAX_FILE_BYTES);
    const bool ok = failed ? refuse(why, why_bytes, "offset %zu: cannot be read", n)
                           : kv_dump_parse(bytes, n, dump, why, why_bytes);
    free(bytes);
    return ok;
}

void kv_dump_free(struct kv_dump *dump)
{
    free(dump->data);
    *dump = (struct kv_dump){ 0 };
}

static const float *layer_of(const struct kv_dump *d, int32_t layer)
{
    return d->data + (int64_t)layer * d->n_tokens * floats_per_token(d);
}

const float *kv_dump_k(const struct kv_dump *d, int32_t layer)
{
    return layer_of(d, layer);
}

const float *kv_dump_v(const struct kv_dump *d, int32_t layer)
{
    return layer_of(d, layer) + (int64_t)d->n_tokens * d->n_kv_heads * d->dim;
}

const float *kv_dump_q(const struct kv_dump *d, int32_t layer)
{
    return layer_of(d, layer) + (int64_t)2 * d->n_tokens * d->n_kv_heads * d->dim;
}
