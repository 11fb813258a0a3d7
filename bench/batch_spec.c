/* Parser, printer and drawing of batch specifications. */
#include "batch_spec.h"

#include "bench_base.h"
#include "length_draw.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct cursor {
    const char *text, *at;
    struct batch_spec_error *err;
};

static bool refuse(struct cursor *c, const char *at, const char *fmt, ...) BENCH_PRINTF(3, 4);
static bool refuse(struct cursor *c, const char *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    c->err->at = (int32_t)(at - c->text);
    vsnprintf(c->err->text, sizeof(c->err->text), fmt, args);
    va_end(args);
    return false;
}

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static bool parse_number(struct cursor *c, const char *what, int32_t max, int32_t *out)
{
    const char *start = c->at;
    int64_t value = 0;
    if (!is_digit(*c->at)) return refuse(c, c->at, "expected a number (%s)", what);
    for (; is_digit(*c->at); c->at++) {
        value = value * 10 + (*c->at - '0');
        if (value > max) return refuse(c, start, "%s is above %d", what, max);
    }
    if (value == 0) return refuse(c, start, "%s must be at least 1", what);
    *out = (int32_t)value;
    return true;
}

static bool parse_len(struct cursor *c, const char *what, int32_t *out)
{
    const char *start = c->at;
    if (!parse_number(c, what, BATCH_MAX_LEN, out)) return false;
    if (*c->at != 'k') return true;
    c->at++;
    if (*out > BATCH_MAX_LEN / 1024) return refuse(c, start, "%s is above %d", what, BATCH_MAX_LEN);
    *out *= 1024;
    return true;
}

static const struct {
    const char *name;
    enum batch_kv kind;
} drawn_names[] = { { "sharegpt", BATCH_KV_SHAREGPT }, { "alpaca", BATCH_KV_ALPACA } };

static bool parse_name(struct cursor *c, struct batch_group *g)
{
    const size_t n = strcspn(c->at, "_");
    for (int i = 0; i < BENCH_LEN(drawn_names); i++) {
        if (strlen(drawn_names[i].name) != n || memcmp(c->at, drawn_names[i].name, n) != 0)
            continue;
        g->kind = drawn_names[i].kind;
        c->at += n;
        return true;
    }
    return refuse(c, c->at, "unknown distribution; known: sharegpt, alpaca");
}

static bool parse_kv(struct cursor *c, struct batch_group *g)
{
    const char *start = c->at;
    if (*c->at == '@') {
        c->at++;
        return parse_name(c, g);
    }
    if (!parse_len(c, "kv length", &g->kv_lo)) return false;
    g->kind = BATCH_KV_FIXED;
    g->kv_hi = g->kv_lo;
    if (g->q_len > g->kv_lo)
        return refuse(c, start, "kv length %d is below the query length %d", g->kv_lo, g->q_len);
    if (*c->at != '-') return true;
    const char *upper = ++c->at;
    if (!parse_len(c, "upper kv length", &g->kv_hi)) return false;
    g->kind = BATCH_KV_RANGE;
    if (g->kv_hi < g->kv_lo)
        return refuse(c, upper, "upper kv length %d is below the lower %d", g->kv_hi, g->kv_lo);
    return true;
}

static bool parse_group(struct cursor *c, struct batch_group *g)
{
    *g = (struct batch_group){ 1, 0, BATCH_KV_SELF, 0, 0 };
    if (*c->at != 'q' && !parse_number(c, "count", BATCH_MAX_SEQS, &g->count)) return false;
    if (*c->at != 'q') return refuse(c, c->at, "expected 'q' after the count");
    c->at++;
    if (!parse_len(c, "query length", &g->q_len)) return false;
    if (*c->at != 's') return true;
    c->at++;
    return parse_kv(c, g);
}

bool batch_spec_parse(const char *text, struct batch_spec *out, struct batch_spec_error *err)
{
    struct cursor c = { text, text, err };
    struct batch_spec spec;
    memset(&spec, 0, sizeof(spec));
    for (;;) {
        const char *start = c.at;
        if (spec.n_groups == BATCH_MAX_GROUPS)
            return refuse(&c, start, "more than %d groups", BATCH_MAX_GROUPS);
        struct batch_group *g = &spec.groups[spec.n_groups++];
        if (!parse_group(&c, g)) return false;
        if (g->count > BATCH_MAX_SEQS - spec.n_seqs)
            return refuse(&c, start, "more than %d sequences in all", BATCH_MAX_SEQS);
        spec.n_seqs += g->count;
        if (*c.at == '\0') break;
        if (*c.at != '_') return refuse(&c, c.at, "expected '_' and another group, or the end");
        c.at++;
    }
    *out = spec;
    return true;
}

struct writer {
    char *text;
    size_t size, used;
    bool ok;
};

static void put(struct writer *w, const char *fmt, ...) BENCH_PRINTF(2, 3);
static void put(struct writer *w, const char *fmt, ...)
{
    va_list args;
    if (!w->ok) return;
    va_start(args, fmt);
    const int n = vsnprintf(w->text + w->used, w->size - w->used, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= w->size - w->used) w->ok = false;
    else w->used += (size_t)n;
}

static void put_len(struct writer *w, int32_t len)
{
    if (len % 1024 == 0) put(w, "%dk", len / 1024);
    else put(w, "%d", len);
}

bool batch_spec_format(const struct batch_spec *spec, char *text, size_t size)
{
    struct writer w = { text, size, 0, size > 0 };
    for (int32_t i = 0; i < spec->n_groups; i++) {
        const struct batch_group *g = &spec->groups[i];
        put(&w, "%s%dq", i ? "_" : "", g->count);
        put_len(&w, g->q_len);
        if (g->kind == BATCH_KV_SELF) continue;
        put(&w, "s");
        if (g->kind == BATCH_KV_SHAREGPT || g->kind == BATCH_KV_ALPACA) {
            put(&w, "@%s", drawn_names[g->kind == BATCH_KV_ALPACA].name);
            continue;
        }
        put_len(&w, g->kv_lo);
        if (g->kind == BATCH_KV_RANGE) {
            put(&w, "-");
            put_len(&w, g->kv_hi);
        }
    }
    return w.ok;
}

static int32_t draw_kv(const struct batch_group *g, struct bench_rng *rng)
{
    switch (g->kind) {
    case BATCH_KV_FIXED:
        return g->kv_lo;
    case BATCH_KV_RANGE:
        return g->kv_lo + (int32_t)bench_rng_below(rng, (uint64_t)(g->kv_hi - g->kv_lo) + 1);
    case BATCH_KV_SHAREGPT:
        return length_draw_context(LENGTH_SHAREGPT, rng);
    case BATCH_KV_ALPACA:
        return length_draw_context(LENGTH_ALPACA, rng);
    case BATCH_KV_SELF:
        break;
    }
    return g->q_len;
}

void batch_spec_draw(const struct batch_spec *spec, uint64_t seed, int32_t *q_len, int32_t *kv_len)
{
    struct bench_rng rng = { seed };
    int32_t at = 0;
    for (int32_t i = 0; i < spec->n_groups; i++) {
        const struct batch_group *g = &spec->groups[i];
        for (int32_t j = 0; j < g->count; j++, at++) {
            const int32_t kv = draw_kv(g, &rng);
            q_len[at] = g->q_len;
            kv_len[at] = kv < g->q_len ? g->q_len : kv;
        }
    }
}

bool batch_spec_halve(struct batch_spec *spec)
{
    bool any = false;
    spec->n_seqs = 0;
    for (int32_t i = 0; i < spec->n_groups; i++) {
        struct batch_group *g = &spec->groups[i];
        if (g->count > 1) {
            g->count /= 2;
            any = true;
        }
        spec->n_seqs += g->count;
    }
    return any;
}
