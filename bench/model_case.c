/* Making, checking and calling the sides of model cases. */
#include "model_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of what is read by MODEL_READ, over and over where weights are more. Far beyond caches. */
#define READ_BYTES ((size_t)512 << 20)
#define ARITHMETIC_ROUNDS 4000000

struct model_size model_size_small(const struct bench_options *o, int32_t context)
{
    if (o->profile == PROFILE_CI)
        return (struct model_size){ "tiny", { 64, 160, 2, 4, 2, 500, context } };
    return (struct model_size){ "110m", { 768, 2048, 12, 12, 12, 32000, context } };
}

struct model_size model_size_large(int32_t context)
{
    return (struct model_size){ "1.1b", { 2048, 5632, 22, 32, 4, 32000, context } };
}

bool model_random(const struct yard_shape *shape, pkv_dtype dtype, pkv_model **out,
                  struct bench_error *err)
{
    pkv_model_shape s = PKV_MODEL_SHAPE_INIT;
    s.vocab = shape->vocab;
    s.hidden = shape->hidden;
    s.n_layers = shape->n_layers;
    s.n_heads = shape->n_heads;
    s.n_kv_heads = shape->n_kv_heads;
    s.head_dim = shape->hidden / shape->n_heads;
    s.ffn = shape->ffn;
    s.context = shape->context;
    const pkv_status status = pkv_model_random(&s, 1, dtype, NULL, NULL, out);
    return status == PKV_OK || bench_fail(err, BENCH_SKIP, "no model: %s", pkv_status_name(status));
}

static bool open_model(const struct model_case *m, pkv_dtype dtype, pkv_model **out,
                       struct bench_error *err)
{
    if (*out) return true;
    if (!*m->path) return model_random(&m->shape, dtype, out, err);
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    cfg.path = m->path;
    cfg.weights_dtype = dtype;
    const pkv_status status = pkv_model_open(&cfg, out);
    return status == PKV_OK ||
           bench_fail(err, BENCH_SKIP, "%s: %s", m->path, pkv_status_name(status));
}

/* ---------------------------------------------------------------- calls */

static void read_part(void *ctx, int32_t i, int32_t n)
{
    const struct model_side *s = ctx;
    const struct model_case *m = s->owner;
    const int way = m->run->report.machine.read_way;
    int64_t left = yard_weight_bytes(&m->shape);
    uint64_t sum = 0;
    while (left > 0) {
        const int64_t now = left < (int64_t)m->region.bytes ? left : (int64_t)m->region.bytes;
        int64_t from, to;
        bench_team_part(now / 16 * 16, 4096, i, n, &from, &to);
        sum +=
            m->loops.sum[way]((const char *)m->region.base + from, (size_t)(to - from) / 16 * 16);
        left -= now;
    }
    __atomic_fetch_add(&m->run->sink, sum, __ATOMIC_RELAXED);
}

static void call_read(void *ctx)
{
    struct model_side *s = ctx;
    bench_team_run(s->team, read_part, s);
}

static void fma_part(void *ctx, int32_t i, int32_t n)
{
    const struct model_side *s = ctx;
    (void)i;
    (void)n;
    s->loop.run(ARITHMETIC_ROUNDS);
}

static void call_fma(void *ctx)
{
    struct model_side *s = ctx;
    bench_team_run(s->team, fma_part, s);
}

/* The yardstick goes through as long a text as the engines beside it, again and again. */
static void call_yard(void *ctx)
{
    struct model_side *s = ctx;
    struct yard_model *y = &s->owner->yard;
    const float *logits = yard_forward(s->kind == MODEL_YARD_FAST)(y, 1, s->pos);
    s->pos = (s->pos + 1) % (s->load.n_prompt + s->load.n_new);
    s->owner->run->sink += (uint64_t)(logits[0] > 0);
}

static void before_engine(void *ctx)
{
    struct model_side *s = ctx;
    if (s->kind == MODEL_DECODE) model_engine_keep(&s->engine);
}

static void call_engine(void *ctx)
{
    struct model_side *s = ctx;
    if (s->kind == MODEL_DECODE) model_engine_decode(&s->engine);
    else model_engine_prefill(&s->engine);
}

struct bench_side *model_case_side(struct bench_case *c, const struct model_side *spec,
                                   const char *id, const char *label)
{
    static void (*const calls[])(void *) = { call_read, call_fma,    call_yard,
                                             call_yard, call_engine, call_engine };
    struct model_case *m = c->ctx;
    struct model_side *own = &m->sides[m->n_sides++];
    struct bench_side *s = bench_case_call_side(c, spec->threads, id, label, calls[spec->kind]);
    *own = *spec;
    own->owner = m;
    s->ctx = own;
    s->family = spec->threads;
    s->yardstick = spec->kind == MODEL_READ || spec->kind == MODEL_FMA;
    s->no_ratio = s->yardstick;
    if (spec->kind >= MODEL_DECODE) s->before = before_engine;
    if (spec->kind == MODEL_DECODE) s->ops = spec->load.n_seqs;
    return s;
}

/* ---------------------------------------------------------------- setup */

static double prefill_flops(const struct yard_shape *m, double n)
{
    const double kv = (double)m->hidden / m->n_heads * m->n_kv_heads;
    const double layer = (2. * m->hidden + 2 * kv + 3. * m->ffn) * m->hidden;
    return 2 * n * m->n_layers * layer + 2. * m->vocab * m->hidden +
           4. * m->hidden * (n * (n + 1) / 2) * m->n_layers;
}

/* Weights once for all sequences, their keys and values each, at half of their way. */
static int64_t decode_bytes(const struct model_side *s)
{
    const struct yard_shape *m = &s->owner->shape;
    const int64_t kv = (int64_t)m->hidden / m->n_heads * m->n_kv_heads;
    const int64_t keys = s->load.n_prompt + s->load.n_new / 2;
    const int64_t weights = yard_weight_bytes(m) / (s->dtype == PKV_BF16 ? 2 : 1);
    return weights / s->load.n_seqs + 2 * kv * m->n_layers * keys * (int64_t)sizeof(float);
}

static bool make_engine(struct model_case *m, struct model_side *s, struct bench_error *err)
{
    pkv_model **model = s->dtype == PKV_BF16 ? &m->bf16 : &m->f32;
    if (!open_model(m, s->dtype, model, err)) return false;
    pkv_engine_config cfg = model_engine_config(*model, &s->load, s->threads, m->run->options->isa);
    cfg.fast = s->fast;
    cfg.placement = s->placement;
    return model_engine_create(&cfg, &s->load, &s->engine, err);
}

static bool make_region(struct model_case *m, struct bench_error *err)
{
    const size_t weights = (size_t)yard_weight_bytes(&m->shape);
    if (m->region.base) return true;
    bandwidth_kernels(m->run->options->isa, &m->loops);
    if (!bench_region_map(&m->region, weights < READ_BYTES ? weights : READ_BYTES,
                          m->run->options->huge_pages, err))
        return false;
    memset(m->region.base, 1, m->region.bytes);
    return true;
}

static bool make_side(struct model_case *m, struct bench_side *b, struct model_side *s,
                      struct bench_error *err)
{
    struct bench_run *run = m->run;
    s->team = bench_engines_team(&run->engines, s->threads, err);
    if (!s->team) return false;
    switch (s->kind) {
    case MODEL_READ:
        b->bytes_needed = yard_weight_bytes(&m->shape);
        return make_region(m, err);
    case MODEL_FMA:
        bandwidth_peak(run->options->isa, &s->loop);
        b->flops = (double)ARITHMETIC_ROUNDS * s->loop.flops * s->threads;
        return true;
    case MODEL_PREFILL:
        b->flops = prefill_flops(&m->shape, s->load.n_prompt);
        return make_engine(m, s, err);
    case MODEL_DECODE:
        if (!make_engine(m, s, err)) return false;
        break;
    case MODEL_YARD:
    case MODEL_YARD_FAST:
        if (!m->yard.layers && !yard_random(&m->shape, 1, &m->yard, err)) return false;
        break;
    }
    b->bytes_needed = decode_bytes(s);
    b->in_cache = yard_weight_bytes(&m->shape) < 4 * run->report.machine.llc_bytes;
    return true;
}

bool model_case_setup(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    struct model_case *m = c->ctx;
    m->run = run;
    m->told = 0;
    bool ok = !*m->path || yard_open(m->path, &m->yard, err);
    if (ok && *m->path) m->shape = m->yard.shape;
    const int64_t weights = ok ? yard_weight_bytes(&m->shape) : 0;
    if (ok && (size_t)weights * 2 > run->max_memory)
        ok = bench_fail(err, BENCH_SKIP, "more than --max-memory: weights of %lld MiB",
                        (long long)(weights >> 20));
    for (int32_t i = 0; ok && i < c->n_sides; i++)
        ok = make_side(m, &c->sides[i], c->sides[i].ctx, err);
    if (!ok) model_case_teardown(c);
    return ok;
}

void model_case_teardown(struct bench_case *c)
{
    struct model_case *m = c->ctx;
    for (int32_t i = 0; i < m->n_sides; i++) {
        model_engine_destroy(&m->sides[i].engine);
        m->sides[i].pos = 0;
    }
    pkv_model_close(m->f32);
    pkv_model_close(m->bf16);
    m->f32 = m->bf16 = NULL;
    yard_close(&m->yard);
    bench_region_unmap(&m->region);
}

/* ---------------------------------------------------------------- checks */

static bool says_wrong(struct bench_correct *out, const char *what)
{
    snprintf(out->text, sizeof(out->text), "%s", what);
    return false;
}

static int32_t likeliest(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* The yardstick's own tokens from BOS on, as model_engine notes those of its first request. */
static uint64_t yard_tells(struct model_side *s, int32_t n)
{
    struct yard_model *y = &s->owner->yard;
    int32_t token = 1;
    uint64_t told = 0;
    for (int32_t pos = 0; pos < n; pos++) {
        token = likeliest(yard_forward(s->kind == MODEL_YARD_FAST)(y, token, pos), y->shape.vocab);
        told = bench_mix(told ^ (uint32_t)token);
    }
    return told;
}

/* Exact engines over the same weights tell the same tokens for the same prompt, whatever their
 * threads, placement and batch; and the yardstick tells those of the trained model, whose margins
 * are wide. */
static bool right_tokens(struct model_case *m, struct model_side *s, struct bench_correct *out)
{
    const bool yard = s->kind == MODEL_YARD || s->kind == MODEL_YARD_FAST;
    uint64_t told;
    if (yard && !*m->path) return true; /* other weights */
    if (yard) told = yard_tells(s, MODEL_TOLD);
    else {
        model_engine_fill(&s->engine);
        for (int32_t i = 0; i < MODEL_TOLD; i++) model_engine_decode(&s->engine);
        told = s->engine.told;
    }
    if (s->engine.failed) return says_wrong(out, "the engine failed");
    if (s->dtype == PKV_BF16 || s->fast) return true;
    if (m->told == 0) m->told = told;
    return told == m->told || says_wrong(out, "other tokens than the first side");
}

bool model_case_check(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                      struct bench_correct *out, struct bench_error *err)
{
    struct model_side *s = c->sides[side].ctx;
    (void)run;
    (void)err;
    out->ok = true;
    if (c->sides[side].yardstick) return true;
    out->checked = true;
    if (timed || s->kind == MODEL_PREFILL)
        out->ok = !s->engine.failed || says_wrong(out, "the engine failed");
    else out->ok = right_tokens(s->owner, s, out);
    return true;
}
