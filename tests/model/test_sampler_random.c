/* The sampler against one that sorts everything in double precision, with the same uniform number
 * token by token, and with many of them by chi-square against exact probabilities. */
#include "common/detmath.h"
#include "model/sampler.h"
#include "model_test.h"

#include <float.h>

#define MAX_VOCAB 3000
#define MAX_IDS 40

static uint64_t first_seed(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* ---------------------------------------------------------------- the naive sampler */

typedef struct token {
    float logit;
    double p;
    int32_t id;
} token;

static int by_logit(const void *a, const void *b)
{
    const token *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    const token *x = a, *y = b;
    return x->id < y->id ? -1 : 1;
}

static float tamed(float x)
{
    return isnan(x) ? -INFINITY : x == INFINITY ? FLT_MAX : x == 0 ? 0 : x;
}

static float after_penalties(float x, int32_t id, const pkv_sampling *how,
                             const pkv__sample_context *at)
{
    int in_prompt = 0, in_output = 0;
    x = tamed(x);
    for (int32_t i = 0; i < how->n_bias; i++)
        if (how->bias[i].id == id) x = tamed(x + how->bias[i].bias);
    for (int32_t i = 0; i < at->n_prompt; i++) in_prompt += at->prompt[i] == id;
    for (int32_t i = 0; i < at->n_output; i++) in_output += at->output[i] == id;
    if (in_prompt + in_output > 0)
        x = tamed(x > 0 ? x / how->repeat_penalty : x * how->repeat_penalty);
    x = tamed(x - (float)in_output * how->frequency_penalty);
    return tamed(x - (float)(in_output > 0) * how->presence_penalty);
}

/* Survivors with probabilities that add up to 1, by id; returns their number. *margin: how near a
 * cut was to another one, relative. */
static int32_t naive_survivors(const float *logits, int32_t vocab, const pkv_sampling *how,
                               const pkv__sample_context *at, token *t, double *margin)
{
    int32_t n = vocab;
    double sum = 0, reached = 0;
    *margin = 1;
    for (int32_t i = 0; i < n; i++) t[i] = (token){ after_penalties(logits[i], i, how, at), 0, i };
    qsort(t, (size_t)n, sizeof(*t), by_logit);
    if (how->temperature == 0 || t[0].logit == -INFINITY) n = 1;
    const float largest = t[0].logit;
    const double temperature = how->temperature > 0 ? (double)how->temperature : 1;
    for (int32_t i = 0; i < n; i++)
        t[i].p = i == 0 ? 1 : exp(((double)t[i].logit - (double)largest) / temperature);
    if (how->top_k > 0 && how->top_k < n) n = how->top_k;
    for (int32_t i = 0; i < n; i++) sum += t[i].p;
    if (how->top_p < 1) {
        const double target = (double)how->top_p * sum;
        int32_t kept = 0;
        while (kept < n && reached < target) reached += t[kept++].p;
        *margin = fmin((reached - target) / sum, (target - reached + t[kept - 1].p) / sum);
        n = kept;
    }
    int32_t kept = 0;
    while (kept < n && t[kept].p >= (double)how->min_p) kept++;
    for (int32_t i = 0; i < n && how->min_p > 0; i++)
        if (t[i].p != t[0].p) *margin = fmin(*margin, fabs(t[i].p - (double)how->min_p));
    n = kept;
    sum = 0;
    for (int32_t i = 0; i < n; i++) sum += t[i].p;
    for (int32_t i = 0; i < n; i++) t[i].p /= sum;
    qsort(t, (size_t)n, sizeof(*t), by_id);
    return n;
}

static double uniform_of(const pkv_sampling *how, const pkv__sample_context *at)
{
    const uint32_t ctr[4] = { (uint32_t)(at->n_prompt + at->n_output), (uint32_t)at->sample, 1, 0 };
    const uint32_t key[2] = { (uint32_t)how->seed, (uint32_t)(how->seed >> 32) };
    uint32_t w[4];
    pkv__philox4x32(ctr, key, w);
    return ((double)((w[0] | (uint64_t)w[1] << 32) >> 12) + 0.5) / 4503599627370496.0;
}

static int32_t naive_draw(const token *t, int32_t n, double u, double *margin)
{
    double reached = 0;
    int32_t i = 0;
    while (i < n - 1 && reached + t[i].p <= u) reached += t[i++].p;
    if (n > 1) *margin = fmin(*margin, fmin(fabs(u - reached), fabs(reached + t[i].p - u)));
    return t[i].id;
}

/* ---------------------------------------------------------------- random rows */

typedef struct row {
    int32_t vocab;
    float logits[MAX_VOCAB];
    int32_t prompt[MAX_IDS], output[MAX_IDS];
    pkv_logit_bias bias[8];
    pkv_sampling how;
    pkv__sample_context at;
} row;

static float draw_logit(pkv__rng *rng, uint32_t kind, int32_t i)
{
    if (kind == 0) return (float)(pkv__draw_normal(rng) * 3);
    if (kind == 1) return (float)pkv__rng_below(rng, 4); /* many equal ones */
    if (kind == 2) return 1.5f;
    if (kind == 3) return (float)i * 0.01f;
    if (kind == 4) return (float)(pkv__draw_normal(rng) * 1e30);
    const uint32_t what = pkv__rng_below(rng, 12);
    if (what == 0) return NAN;
    if (what == 1) return -INFINITY;
    if (what == 2) return -FLT_MAX;
    if (what == 3) return -0.f;
    if (what == 4) return kind == 5 ? 0 : INFINITY;
    return (float)pkv__draw_normal(rng);
}

static float pick(pkv__rng *rng, const float *from, uint32_t n)
{
    return from[pkv__rng_below(rng, n)];
}

static void draw_sampling(pkv__rng *rng, row *r)
{
    static const float temperatures[] = { 0, 1e-6f, 0.3f, 1, 1, 2, 50 };
    static const float top_ps[] = { 1, 1, 0.95f, 0.5f, 0.25f, 1e-6f, 0.9999999f };
    static const float min_ps[] = { 0, 0, 0, 0.05f, 0.5f, 1 };
    static const float repeats[] = { 1, 1, 1.3f, 0.5f };
    static const float penalties[] = { 0, 0, 0.5f, -1.5f };
    pkv_sampling *how = &r->how;
    *how = (pkv_sampling)PKV_SAMPLING_INIT;
    how->temperature = pick(rng, temperatures, 7);
    how->top_k = pkv__rng_below(rng, 2) ? 0 : 1 + (int32_t)pkv__rng_below(rng, (uint32_t)r->vocab);
    if (pkv__rng_below(rng, 3) == 0) how->top_k = 1 + (int32_t)pkv__rng_below(rng, 50);
    how->top_p = pick(rng, top_ps, 7);
    how->min_p = pick(rng, min_ps, 6);
    how->repeat_penalty = pick(rng, repeats, 4);
    how->presence_penalty = pick(rng, penalties, 4);
    how->frequency_penalty = pick(rng, penalties, 4);
    how->seed = pkv__rng_u64(rng);
    how->bias = r->bias;
    how->n_bias = pkv__rng_below(rng, 3) ? 0 : (int32_t)pkv__rng_below(rng, 8);
    for (int32_t i = 0; i < how->n_bias; i++)
        r->bias[i] =
            (pkv_logit_bias){ (int32_t)pkv__rng_below(rng, (uint32_t)r->vocab),
                              pkv__rng_below(rng, 4) ? (float)pkv__draw_normal(rng) : -INFINITY };
}

static void draw_row(pkv__rng *rng, row *r)
{
    static const int32_t sizes[] = { 1, 2, 20, 255, 256, 257, 512, MAX_VOCAB };
    r->vocab = sizes[pkv__rng_below(rng, 8)];
    if (r->vocab > 300 && pkv__rng_below(rng, 4)) r->vocab = 5 + (int32_t)pkv__rng_below(rng, 300);
    const uint32_t kind = pkv__rng_below(rng, 7), n = (uint32_t)r->vocab;
    for (int32_t i = 0; i < r->vocab; i++) r->logits[i] = draw_logit(rng, kind, i);
    draw_sampling(rng, r);
    r->at = (pkv__sample_context){ r->prompt,
                                   (int32_t)pkv__rng_below(rng, MAX_IDS),
                                   r->output,
                                   (int32_t)pkv__rng_below(rng, MAX_IDS),
                                   (int32_t)pkv__rng_below(rng, 4),
                                   NULL };
    for (int i = 0; i < MAX_IDS; i++) {
        r->prompt[i] = (int32_t)pkv__rng_below(rng, n);
        r->output[i] = (int32_t)pkv__rng_below(rng, n);
    }
}

static void same_token_as_the_naive_one(void **state)
{
    (void)state;
    static row r;
    static token t[MAX_VOCAB];
    const uint64_t seed = first_seed();
    int n_near = 0;
    for (uint32_t round = 0; round < 6000; round++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, round);
        draw_row(&rng, &r);
        pkv__sampler *s = NULL;
        pkv__sampled out;
        double margin;
        assert_int_equal(pkv__sampler_create(r.vocab, NULL, &s), PKV_OK);
        const int32_t n = naive_survivors(r.logits, r.vocab, &r.how, &r.at, t, &margin);
        double u_margin = 1;
        const int32_t want = naive_draw(t, n, uniform_of(&r.how, &r.at), &u_margin);
        pkv__sample(s, r.logits, &r.how, &r.at, &out);
        if (t[0].logit == -INFINITY && n == 1) assert_int_equal(out.id, 0);
        else if (fmin(margin, u_margin) < 1e-12) n_near++; /* rounding may decide otherwise */
        else if (out.id != want)
            fail_msg("round %u: vocab %d, temperature %g, top_k %d, top_p %g, min_p %g: token %d, "
                     "not %d",
                     round, r.vocab, (double)r.how.temperature, r.how.top_k, (double)r.how.top_p,
                     (double)r.how.min_p, out.id, want);
        /* Logprobs change nothing, and a call leaves nothing behind. */
        const int32_t id = out.id;
        r.how.n_logprobs = (int32_t)(round % 21);
        r.how.logprobs_scaled = round % 2;
        pkv__sample(s, r.logits, &r.how, &r.at, &out);
        assert_int_equal(out.id, id);
        pkv__sampler_destroy(s);
    }
    fprintf(stderr, "# %d of 6000 rows too near to a cut to be judged\n", n_near);
    assert_true(n_near < 600);
}

/* ---------------------------------------------------------------- chi-square */

/* Wilson and Hilferty (1931): the cube root of chi-square / n is nearly normal. Below 3.09 is
 * p > 1e-3. */
static double normal_of_chi_square(double chi_square, double n)
{
    return (cbrt(chi_square / n) - (1 - 2 / (9 * n))) / sqrt(2 / (9 * n));
}

static void draw_many(const float *logits, int32_t vocab, pkv_sampling how)
{
    enum { DRAWS = 40000 };
    static token t[MAX_VOCAB];
    static int32_t n_drawn[MAX_VOCAB], ids[DRAWS];
    double margin, chi_square = 0, rest = 0, rest_drawn = 0;
    pkv__sample_context at = { .output = ids };
    pkv__sampler *s = NULL;
    assert_int_equal(pkv__sampler_create(vocab, NULL, &s), PKV_OK);
    memset(n_drawn, 0, sizeof(n_drawn));
    for (int32_t i = 0; i < DRAWS; i++) {
        pkv__sampled out;
        at.n_output = i / 4; /* four samples at each position */
        at.sample = i % 4;
        pkv__sample(s, logits, &how, &at, &out);
        n_drawn[out.id]++;
    }
    pkv__sampler_destroy(s);
    at.n_output = 0;
    const int32_t n = naive_survivors(logits, vocab, &how, &at, t, &margin);
    int32_t n_cells = 0, n_kept = 0;
    for (int32_t i = 0; i < n; i++) {
        const double want = t[i].p * DRAWS, drawn = n_drawn[t[i].id];
        n_kept += n_drawn[t[i].id];
        if (want < 8) { /* too rare for a cell of its own */
            rest += want;
            rest_drawn += drawn;
            continue;
        }
        chi_square += (drawn - want) * (drawn - want) / want;
        n_cells++;
    }
    if (rest >= 8) {
        chi_square += (rest_drawn - rest) * (rest_drawn - rest) / rest;
        n_cells++;
    }
    assert_int_equal(n_kept, DRAWS); /* nothing that was cut away */
    assert_true(n_cells >= 2);
    const double z = normal_of_chi_square(chi_square, n_cells - 1);
    if (z > 3.09)
        fail_msg("temperature %g, top_k %d, top_p %g, min_p %g: chi-square %g of %d cells",
                 (double)how.temperature, how.top_k, (double)how.top_p, (double)how.min_p,
                 chi_square, n_cells);
}

static void draws_have_the_exact_distribution(void **state)
{
    (void)state;
    static float logits[400];
    pkv__rng rng;
    pkv__rng_init(&rng, 77, 0, 0);
    for (int32_t i = 0; i < 400; i++) logits[i] = (float)(pkv__draw_normal(&rng) * 2);
    static const struct {
        float temperature, top_p, min_p;
        int32_t top_k;
    } c[] = {
        { 1, 1, 0, 0 },
        { 0.7f, 1, 0, 0 },
        { 2, 1, 0, 0 },
        { 1, 1, 0, 40 },
        { 1, 1, 0, 3 },
        { 1, 0.9f, 0, 0 },
        { 0.8f, 0.5f, 0, 0 },
        { 1, 1, 0.1f, 0 },
        { 1.5f, 1, 0.02f, 0 },
        { 1, 0.9f, 0, 40 },
        { 0.8f, 0.95f, 0.05f, 0 },
        { 1.2f, 0.8f, 0.05f, 50 },
        { 5, 0.7f, 0.2f, 200 },
    };
    for (size_t i = 0; i < PKV_ARRAY_LEN(c); i++) {
        pkv_sampling how = PKV_SAMPLING_INIT;
        how.temperature = c[i].temperature;
        how.top_p = c[i].top_p;
        how.min_p = c[i].min_p;
        how.top_k = c[i].top_k;
        how.seed = 1000 + i;
        draw_many(logits, 400, how);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_token_as_the_naive_one),
        cmocka_unit_test(draws_have_the_exact_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
