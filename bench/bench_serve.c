/* Serving, for real: the engine with its KV memory in blocks against the same engine with one
 * contiguous region per sequence, as FasterTransformer and Orca have them. Same bytes of memory,
 * scheduler, layers, sampler and requests; only placement differs. */
#include "serve_case.h"
#include "serve_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAW "sharegpt-like"
#define ALL "all requests at once"
#define SATURATED "an open loop, a quarter faster than max serves"
#define HALF "half of the memory that the requests use where they fit"
#define SWAP_BYTES ((size_t)64 << 20)

static const struct serve_side placements[] = {
    { "paged", "paged, blocks of 16", PKV_PLACE_PAGED, PKV_PREEMPT_AUTO, 0, false, false },
    { "max", "max: longest context each", PKV_PLACE_MAX, PKV_PREEMPT_AUTO, 0, true, false },
    { "pow2", "pow2: powers of two", PKV_PLACE_POW2, PKV_PREEMPT_AUTO, 0, false, false },
    { "request", "request: exact, knows the output", PKV_PLACE_REQUEST, PKV_PREEMPT_AUTO, 0, false,
      false },
};
static const struct serve_side sharing[] = {
    { "paged", "paged, blocks of 16", PKV_PLACE_PAGED, PKV_PREEMPT_AUTO, 0, false, false },
    { "paged-alone", "paged, no prefix cache", PKV_PLACE_PAGED, PKV_PREEMPT_AUTO, 0, false, true },
    { "max", "max: longest context each", PKV_PLACE_MAX, PKV_PREEMPT_AUTO, 0, true, false },
    { "request", "request: exact, knows the output", PKV_PLACE_REQUEST, PKV_PREEMPT_AUTO, 0, false,
      false },
};
/* Pools of half of what is in use at most where all fit, and one where they do. */
static const struct serve_side pressure[] = {
    { "half", "half, swap or recompute", PKV_PLACE_PAGED, PKV_PREEMPT_AUTO, 50, false, true },
    { "half-swap", "half, swap", PKV_PLACE_PAGED, PKV_PREEMPT_SWAP, 50, false, true },
    { "half-recompute", "half, recompute", PKV_PLACE_PAGED, PKV_PREEMPT_RECOMPUTE, 50, false,
      true },
    { "fits", "a pool that fits", PKV_PLACE_PAGED, PKV_PREEMPT_AUTO, 0, true, true },
};
/* Both of one play. */
static const struct serve_side repeat[] = {
    { "second", "the same prompt again", PKV_PLACE_PAGED, PKV_PREEMPT_AUTO, 0, false, false },
    { "first", "the first time", PKV_PLACE_PAGED, PKV_PREEMPT_AUTO, 0, true, false },
};
#define LOAD(law, k, n, prefix, samples)                                                           \
    {                                                                                              \
        .lengths = (law), .scale = (k), .n_requests = (n), .n_prefix = (prefix),                   \
        .n_samples = (samples)                                                                     \
    }
#define TWICE(law)                                                                                 \
    {                                                                                              \
        .lengths = (law), .scale = 1, .n_requests = 2, .n_samples = 1, .concurrency = 1,           \
        .same_prompt = true                                                                        \
    }
#define SIDES(list) .n_sides = BENCH_LEN(list), .sides = (list)

enum { IN_QUICK = 1 << PROFILE_QUICK, IN_FULL = 1 << PROFILE_FULL, IN_CI = 1 << PROFILE_CI };

/* Lengths are those of the law divided by `scale`, so the context is 2,048 divided by it, and pools
 * hold a few regions of that: fewer than there are requests under any placement. */
static const struct known_case {
    unsigned profiles;
    struct serve_spec_case spec;
} known_cases[] = {
    { IN_CI,
      { .id = "offline",
        .title = ALL,
        .model = "tiny",
        .load = LOAD(LAW, 32, 24, 0, 1),
        .pool_tokens = -4,
        SIDES(placements),
        .least_seqs = 2 } },
    { IN_CI,
      { .id = "open",
        .title = SATURATED,
        .kind = SERVE_RATE,
        .model = "tiny",
        .load = LOAD(LAW, 32, 24, 0, 1),
        .rate_factor = 1.25,
        .pool_tokens = -4,
        SIDES(placements) } },
    { IN_CI,
      { .id = "pressure",
        .title = HALF,
        .model = "tiny",
        .load = LOAD(LAW, 16, 24, 0, 1),
        .pool_of_demand = true,
        SIDES(pressure),
        .versus = "a pool that fits",
        .least_rate = .85,
        .goal_name = "P13" } },
    { IN_CI,
      { .id = "samples",
        .title = "two samples of each prompt",
        .model = "tiny",
        .load = LOAD(LAW, 32, 8, 0, 2),
        .pool_tokens = -4,
        SIDES(placements) } },
    { IN_CI,
      { .id = "prefix",
        .title = "32 tokens in front of every prompt",
        .model = "tiny",
        .load = LOAD(LAW, 32, 12, 32, 1),
        .pool_tokens = -4,
        SIDES(sharing) } },
    { IN_CI,
      { .id = "same-prompt",
        .title = "a prompt of 128 tokens twice",
        .kind = SERVE_REPEAT,
        .model = "tiny",
        .load = TWICE("fixed:128,4"),
        .pool_tokens = -2,
        SIDES(repeat),
        .versus = "the first",
        .goal_name = "P10" } },
    { IN_QUICK,
      { .id = "offline",
        .title = ALL,
        .model = "15m",
        .load = LOAD(LAW, 8, 40, 0, 1),
        .pool_tokens = -4,
        SIDES(placements),
        .least_seqs = 2 } },
    { IN_QUICK,
      { .id = "open",
        .title = SATURATED,
        .kind = SERVE_RATE,
        .model = "15m",
        .load = LOAD(LAW, 16, 48, 0, 1),
        .rate_factor = 1.25,
        .pool_tokens = -4,
        .rounds = 1,
        SIDES(placements) } },
    { IN_QUICK,
      { .id = "pressure",
        .title = HALF,
        .model = "15m",
        .load = LOAD(LAW, 16, 24, 0, 1),
        .pool_of_demand = true,
        SIDES(pressure),
        .versus = "a pool that fits",
        .least_rate = .85,
        .goal_name = "P13" } },
    { IN_QUICK,
      { .id = "same-prompt",
        .title = "a prompt of 512 tokens twice",
        .kind = SERVE_REPEAT,
        .model = "15m",
        .load = TWICE("fixed:512,4"),
        .pool_tokens = -2,
        SIDES(repeat),
        .versus = "the first",
        .goal_name = "P10" } },
    { IN_FULL,
      { .id = "offline",
        .title = ALL,
        .model = "15m",
        .load = LOAD(LAW, 8, 128, 0, 1),
        .pool_tokens = -8,
        SIDES(placements),
        .least_seqs = 2 } },
    { IN_FULL,
      { .id = "offline-110m",
        .title = ALL,
        .model = "110m",
        .load = LOAD(LAW, 8, 24, 0, 1),
        .pool_tokens = -2,
        .rounds = 3,
        SIDES(placements),
        .least_seqs = 2 } },
    { IN_FULL,
      { .id = "trace",
        .title = "lengths of a real trace, all at once",
        .model = "15m",
        .load = LOAD(NULL, 16, 48, 0, 1),
        .pool_tokens = -8,
        SIDES(placements),
        .least_seqs = 2 } },
    { IN_FULL,
      { .id = "open",
        .title = SATURATED,
        .kind = SERVE_RATE,
        .model = "15m",
        .load = LOAD(LAW, 8, 128, 0, 1),
        .rate_factor = 1.25,
        .pool_tokens = -8,
        SIDES(placements) } },
    { IN_FULL,
      { .id = "light",
        .title = "an open loop at half of what max serves",
        .kind = SERVE_RATE,
        .model = "15m",
        .load = LOAD(LAW, 8, 32, 0, 1),
        .rate_factor = .5,
        .pool_tokens = -8,
        SIDES(placements) } },
    { IN_FULL,
      { .id = "longest",
        .title = "all of the longest: nothing to gain",
        .model = "15m",
        .load = LOAD("fixed:64,192", 1, 16, 0, 1),
        .pool_tokens = -8,
        SIDES(placements) } },
    { IN_FULL,
      { .id = "prefix",
        .title = "64 tokens in front of every prompt",
        .model = "15m",
        .load = LOAD(LAW, 8, 64, 64, 1),
        .pool_tokens = -8,
        SIDES(sharing) } },
    { IN_FULL,
      { .id = "samples",
        .title = "four samples of each prompt",
        .model = "15m",
        .load = LOAD(LAW, 8, 16, 0, 4),
        .pool_tokens = -8,
        SIDES(placements) } },
    { IN_FULL,
      { .id = "pressure",
        .title = HALF,
        .model = "15m",
        .load = LOAD(LAW, 8, 64, 0, 1),
        .pool_of_demand = true,
        SIDES(pressure),
        .versus = "a pool that fits",
        .least_rate = .85,
        .goal_name = "P13" } },
    { IN_FULL,
      { .id = "same-prompt",
        .title = "a prompt of 2,048 tokens twice",
        .kind = SERVE_REPEAT,
        .model = "15m",
        .load = TWICE("fixed:2048,8"),
        .pool_tokens = -2,
        SIDES(repeat),
        .versus = "the first",
        .goal_name = "P10" } },
};

/* ---------------------------------------------------------------- a workload by hand */

static void spec_by_hand(const struct bench_options *o, struct serve_spec_case *spec)
{
    const struct serve_options *s = &o->serve;
    memset(spec, 0, sizeof(*spec));
    spec->id = "workload";
    spec->title = "the workload that was asked for";
    spec->model = s->model ? s->model : "15m";
    spec->load = (struct serve_spec){ .lengths = s->lengths ? s->lengths : LAW,
                                      .scale = s->scale ? s->scale : 8,
                                      .n_requests = s->requests ? s->requests : 128,
                                      .n_prefix = s->prefix,
                                      .n_samples = s->samples ? s->samples : 1,
                                      .rate = s->rate,
                                      .concurrency = s->concurrency,
                                      .context = s->max_context };
    spec->kv_bytes = s->kv_memory;
    if (!s->kv_memory) spec->pool_tokens = -8; /* regions of the longest */
    spec->max_seqs = s->max_seqs;
    spec->chunk_tokens = s->chunk;
    spec->slo_ttft_ms = s->slo_ttft_ms;
    spec->slo_tpot_ms = s->slo_tpot_ms;
    spec->n_sides = BENCH_LEN(placements);
    spec->sides = placements;
}

/* ---------------------------------------------------------------- registry */

static void complete(const struct bench_options *o, struct serve_spec_case *spec)
{
    static const int32_t rounds[] = { 3, 5, 1 }; /* by profile */
    if (o->repeats) spec->rounds = o->repeats;
    if (spec->rounds == 0) spec->rounds = rounds[o->profile];
    if (spec->max_seqs == 0) spec->max_seqs = 64;
    if (spec->chunk_tokens == 0) spec->chunk_tokens = 128;
    if (!spec->load.lengths) spec->load.lengths = o->serve.shared_lengths;
    if (!spec->versus) spec->versus = "max";
    spec->swap_bytes = spec->sides == pressure ? SWAP_BYTES : 0;
    spec->load.seed = o->seed;
}

static bool run_case(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    const struct serve_spec_case *spec = c->ctx;
    if (spec->load.lengths == run->options->serve.shared_lengths &&
        access(spec->load.lengths, R_OK) != 0) {
        char text[144];
        snprintf(text, sizeof(text), "no %.80s; PKV_SHARED names its folder", spec->load.lengths);
        return bench_report_skip(&run->report, c->id, text, err);
    }
    return serve_case_run(c, run, err);
}

static bool add_case(const struct bench_options *o, const struct serve_spec_case *spec,
                     struct case_list *list, struct bench_error *err)
{
    struct bench_case *c = case_list_add(list, err);
    struct serve_spec_case *own = c ? bench_calloc(1, sizeof(*own), err) : NULL;
    if (!own) return false;
    *own = *spec;
    complete(o, own);
    c->ctx = own;
    c->group = GROUP_SERVE;
    c->run_untimed = run_case;
    c->sampler.max_time_ns = 60000000000u; /* for the estimate of full */
    snprintf(c->id, sizeof(c->id), "serve/%s", own->id);
    snprintf(c->versus, sizeof(c->versus), "%s", own->versus);
    return true;
}

bool case_list_serve(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    if (o->serve.given) {
        struct serve_spec_case spec;
        spec_by_hand(o, &spec);
        return add_case(o, &spec, list, err);
    }
    for (int i = 0; i < BENCH_LEN(known_cases); i++)
        if (known_cases[i].profiles & 1u << o->profile)
            if (!add_case(o, &known_cases[i].spec, list, err)) return false;
    return true;
}
