/* The reference transformer: decode beside a plain program and beside reading, batches, prompts,
 * paged against contiguous memory. The rows P1 to P6 and P8 of docs/model.md. */
#include "model_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bench_case *new_case(struct case_list *list, const struct bench_options *o,
                                   const struct model_size *size, const char *id,
                                   const char *versus, struct bench_error *err)
{
    struct bench_case *c = case_list_add(list, err);
    struct model_case *m = c ? bench_calloc(1, sizeof(*m), err) : NULL;
    if (!m) return NULL;
    c->ctx = m;
    if (size) m->shape = size->shape;
    c->group = GROUP_MODEL;
    c->setup = model_case_setup;
    c->check = model_case_check;
    c->teardown = model_case_teardown;
    snprintf(c->id, sizeof(c->id), "model/%s/%s", size ? size->name : "stories260K", id);
    snprintf(c->versus, sizeof(c->versus), "%s", versus);
    c->sampler = (struct sampler_opts)SAMPLER_OPTS_INIT;
    c->sampler.n_samples = o->repeats ? o->repeats : 40;
    c->sampler.min_samples = 3;
    if (o->profile == PROFILE_CI) c->sampler.n_samples = c->sampler.min_samples;
    c->sampler.warmup_calls = 1;
    c->sampler.warmup_ns = 1000000;
    c->sampler.max_time_ns = o->profile == PROFILE_FULL ? 20000000000u : 3000000000u;
    if (o->max_time_s > 0) c->sampler.max_time_ns = (uint64_t)(o->max_time_s * 1e9);
    return c;
}

/* Times of ci mean nothing. */
static void goal(const struct bench_options *o, struct bench_side *s, enum bench_goal_kind kind,
                 double limit, const char *name)
{
    if (o->profile != PROFILE_CI) bench_side_goal(s, kind, limit, name);
}

/* One thread, and as many as the run has. */
static int32_t thread_counts(const struct bench_options *o, int32_t out[2])
{
    out[0] = 1;
    out[1] = bench_threads(o, machine_cpus());
    return out[1] > 1 ? 2 : 1;
}

static struct model_side decode_of(int32_t threads, pkv_dtype dtype, struct model_load load)
{
    return (struct model_side){
        .kind = MODEL_DECODE, .threads = threads, .dtype = dtype, .load = load
    };
}

static void loop_side(struct bench_case *c, enum model_side_kind kind, int32_t threads)
{
    const struct model_side s = { .kind = kind, .threads = threads };
    if (kind == MODEL_READ) model_case_side(c, &s, "read-loop", "read loop");
    else model_case_side(c, &s, "fma-loop", "FMA loop");
}

static void yard_sides(struct bench_case *c, struct model_load load)
{
    struct model_side s = { .kind = MODEL_YARD, .threads = 1, .dtype = PKV_F32, .load = load };
    model_case_side(c, &s, "plain", "plain program, -O3")->baseline = true;
    s.kind = MODEL_YARD_FAST;
    if (yard_forward(true)) model_case_side(c, &s, "plain-ofast", "the same, -Ofast, AVX2");
}

/* P1: the trained model. It lies in the caches, so bytes say nothing. */
static bool stories_case(const struct bench_options *o, struct case_list *list,
                         struct bench_error *err)
{
    const struct model_load load = { 1, 1, 200 };
    struct bench_case *c = new_case(list, o, NULL, "decode", "plain program", err);
    if (!c) return false;
    struct model_case *m = c->ctx;
    snprintf(m->path, sizeof(m->path), "%s", o->stories);
    if (o->profile != PROFILE_CI) c->sampler.n_samples = o->repeats ? o->repeats : 400;
    yard_sides(c, load);
    const struct model_side s = decode_of(1, PKV_F32, load);
    goal(o, model_case_side(c, &s, "f32", "engine, f32"), GOAL_SPEED, 1.5, "P1");
    return true;
}

/* P1, P2: beside the plain program, and the weights read in vain. */
static bool decode_case(const struct bench_options *o, struct case_list *list,
                        const struct model_size *size, const char *id, bool yard,
                        struct bench_error *err)
{
    const struct model_load load = { 1, 16, 64 };
    struct bench_case *c = new_case(list, o, size, id, "plain program", err);
    int32_t threads[2];
    const int32_t n = thread_counts(o, threads);
    if (!c) return false;
    for (int32_t t = 0; t < n; t++) {
        const struct model_side s = decode_of(threads[t], PKV_F32, load);
        loop_side(c, MODEL_READ, threads[t]);
        if (yard && t == 0) yard_sides(c, load);
        struct bench_side *b = model_case_side(c, &s, "f32", "engine, f32");
        if (yard && t == 0) goal(o, b, GOAL_SPEED, 1.2, "P1");
        goal(o, b, GOAL_SHARE, 0.85, "P2");
    }
    return true;
}

/* P3 */
static bool weights_case(const struct bench_options *o, struct case_list *list,
                         const struct model_size *size, const char *id, struct bench_error *err)
{
    const struct model_load load = { 1, 16, 64 };
    struct bench_case *c = new_case(list, o, size, id, "f32", err);
    int32_t threads[2];
    const int32_t n = thread_counts(o, threads);
    if (!c) return false;
    for (int32_t t = 0; t < n; t++) {
        struct model_side s = decode_of(threads[t], PKV_F32, load);
        loop_side(c, MODEL_READ, threads[t]);
        model_case_side(c, &s, "f32", "engine, f32")->baseline = true;
        s.dtype = PKV_BF16;
        struct bench_side *b = model_case_side(c, &s, "bf16", "engine, bf16");
        goal(o, b, GOAL_SPEED, 1.8, "P3");
    }
    return true;
}

/* P4: time per token. */
static bool batch_case(const struct bench_options *o, struct case_list *list,
                       const struct model_size *size, const char *id, pkv_dtype dtype, bool fast,
                       struct bench_error *err)
{
    struct bench_case *c = new_case(list, o, size, id, "batch 1", err);
    const int32_t threads = bench_threads(o, machine_cpus());
    static const int32_t sizes[] = { 1, 4, 16 };
    if (!c) return false;
    for (int i = 0; i < BENCH_LEN(sizes); i++) {
        struct model_side s = decode_of(threads, dtype, (struct model_load){ sizes[i], 16, 64 });
        char name[32], label[64];
        s.fast = fast;
        snprintf(name, sizeof(name), "batch-%d", sizes[i]);
        snprintf(label, sizeof(label), "batch %d, per token", sizes[i]);
        struct bench_side *b = model_case_side(c, &s, name, label);
        b->baseline = i == 0;
        if (sizes[i] == 16) goal(o, b, GOAL_SPEED, 8, "P4");
    }
    return true;
}

/* P5 */
static bool prefill_case(const struct bench_options *o, struct case_list *list,
                         const struct model_size *size, const char *id, struct bench_error *err)
{
    struct bench_case *c = new_case(list, o, size, id, "exact f32", err);
    int32_t threads[2];
    const int32_t n = thread_counts(o, threads);
    if (!c) return false;
    if (!o->repeats && o->profile != PROFILE_CI) c->sampler.n_samples = 10;
    c->sampler.min_samples = 3;
    for (int32_t t = o->profile == PROFILE_FULL ? 0 : n - 1; t < n; t++) {
        struct model_side s = decode_of(threads[t], PKV_F32, (struct model_load){ 1, 512, 1 });
        s.kind = MODEL_PREFILL;
        loop_side(c, MODEL_FMA, threads[t]);
        struct bench_side *b = model_case_side(c, &s, "f32", "exact, f32");
        b->baseline = true;
        s.fast = true;
        b = model_case_side(c, &s, "fast-f32", "fast, f32");
        goal(o, b, GOAL_SHARE, 0.5, "P5");
        s.dtype = PKV_BF16;
        model_case_side(c, &s, "fast-bf16", "fast, bf16");
    }
    return true;
}

/* P6 */
static bool paged_case(const struct bench_options *o, struct case_list *list,
                       const struct model_size *size, const char *id, struct bench_error *err)
{
    struct bench_case *c = new_case(list, o, size, id, "contiguous", err);
    struct model_side s =
        decode_of(bench_threads(o, machine_cpus()), PKV_F32, (struct model_load){ 16, 256, 64 });
    if (!c) return false;
    s.placement = PKV_PLACE_MAX;
    model_case_side(c, &s, "contiguous", "contiguous regions")->baseline = true;
    s.placement = PKV_PLACE_PAGED;
    goal(o, model_case_side(c, &s, "paged", "paged, 16 tokens"), GOAL_RATIO, 1.03, "P6");
    return true;
}

/* P8: keys and values beside the weights. */
static bool long_case(const struct bench_options *o, struct case_list *list,
                      struct bench_error *err)
{
    struct model_size size = model_size_small(o, 8300);
    size.name = "110m-gqa";
    size.shape.n_kv_heads = 4;
    struct bench_case *c = new_case(list, o, &size, "decode-8k", "plain program", err);
    struct model_side s =
        decode_of(bench_threads(o, machine_cpus()), PKV_F32, (struct model_load){ 1, 8192, 100 });
    if (!c) return false;
    s.fast = true; /* for the sake of the prompt */
    loop_side(c, MODEL_READ, s.threads);
    goal(o, model_case_side(c, &s, "f32", "engine, f32, 8k keys"), GOAL_SHARE, 1 / 1.15, "P8");
    return true;
}

bool case_list_model(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    const struct model_size small = model_size_small(o, 1024), large = model_size_large(1024);
    return stories_case(o, list, err) && decode_case(o, list, &small, "decode", true, err) &&
           weights_case(o, list, &small, "weights", err) &&
           batch_case(o, list, &small, "batch-f32", PKV_F32, false, err) &&
           batch_case(o, list, &small, "batch-bf16", PKV_BF16, true, err) &&
           prefill_case(o, list, &small, "prefill-512", err) &&
           paged_case(o, list, &small, "paged", err) &&
           (o->profile != PROFILE_FULL ||
            (decode_case(o, list, &large, "decode", false, err) &&
             weights_case(o, list, &large, "weights", err) &&
             prefill_case(o, list, &large, "prefill-512", err) && long_case(o, list, err))) &&
           model_serving_cases(o, list, err);
}
