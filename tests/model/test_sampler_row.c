/* The sampler by hand: ties, NaN, bias and penalties, logprobs, streams, llama2.c's generator, and
 * what is refused. */
#include "common/detmath.h"
#include "model/sampler_internal.h"
#include "model_test.h"

#include <float.h>

static pkv__sampler *make(int32_t vocab)
{
    pkv__sampler *s = NULL;
    assert_int_equal(pkv__sampler_create(vocab, NULL, &s), PKV_OK);
    return s;
}

static pkv__sampled sample(int32_t vocab, const float *logits, const pkv_sampling *how,
                           const pkv__sample_context *where)
{
    static const pkv__sample_context nowhere = { 0 };
    pkv__sampled out;
    pkv__sampler *s = make(vocab);
    pkv__sample(s, logits, how, where ? where : &nowhere, &out);
    pkv__sampler_destroy(s);
    return out;
}

/* ---------------------------------------------------------------- the largest */

static void argmax_takes_the_lowest_of_the_largest(void **state)
{
    (void)state;
    static float x[1000];
    for (int32_t n = 1; n <= 1000; n += n < 20 ? 1 : 97) {
        for (int32_t first = 0; first < n; first += 1 + n / 7) {
            for (int32_t i = 0; i < n; i++) x[i] = i % 3 ? -1.f : NAN;
            x[first] = 2;
            x[n - 1] = 2;
            assert_int_equal(pkv__argmax(x, n), first);
        }
    }
    const float zeros[] = { -1, -0.f, 0.f }, none[] = { NAN, -INFINITY, NAN };
    const float inf[] = { 1, INFINITY, INFINITY };
    assert_int_equal(pkv__argmax(zeros, 3), 1);
    assert_int_equal(pkv__argmax(none, 3), 0);
    assert_int_equal(pkv__argmax(inf, 3), 1);
}

static void rows_without_a_finite_logit(void **state)
{
    (void)state;
    const float none[] = { NAN, -INFINITY, NAN, -INFINITY };
    const float inf[] = { 1, INFINITY, NAN, -INFINITY };
    for (int32_t i = 0; i < 12; i++) {
        pkv_sampling how = PKV_SAMPLING_INIT;
        how.temperature = (float)(i % 3);
        how.top_p = i % 2 ? 0.5f : 1;
        how.min_p = i % 4 == 3 ? 0.1f : 0;
        how.n_logprobs = 2;
        how.logprobs_scaled = i >= 6;
        const pkv__sampled got = sample(4, none, &how, NULL);
        assert_int_equal(got.id, 0);
        assert_int_equal(got.n_top, 0);
        assert_true(got.logprob == -INFINITY);
        const pkv__sampled one = sample(4, inf, &how, NULL);
        assert_int_equal(one.id, 1);
        assert_true(one.logprob == 0 && one.top[0].id == 1);
    }
}

/* The C library's is right to the last bit or two. */
static void exponentials_are_near(void **state)
{
    (void)state;
    double x[SAMPLER_RUN], y[SAMPLER_RUN];
    pkv__rng rng;
    pkv__rng_init(&rng, 3, 0, 0);
    for (int round = 0; round < 400; round++) {
        const double range = round % 4 == 0 ? 1 : round % 4 == 1 ? 1e-9 : round % 4 == 2 ? 50 : 708;
        for (int i = 0; i < SAMPLER_RUN; i++) x[i] = pkv__rng_unit(&rng) * range;
        pkv__exp_run(x, y);
        for (int i = 0; i < SAMPLER_RUN; i++)
            assert_true(fabs(y[i] - exp(-x[i])) <= 0x1p-46 * exp(-x[i]));
    }
    const double edges[] = { 0, 708, 709, 710, 1e30, INFINITY, DBL_MAX };
    for (int i = 0; i < SAMPLER_RUN; i++) x[i] = edges[i % 7];
    pkv__exp_run(x, y);
    for (int i = 0; i < SAMPLER_RUN; i++) {
        if (i % 7 == 0) assert_true(y[i] == 1);
        else if (i % 7 == 1) assert_true(y[i] > 0 && y[i] < 1e-300);
        else assert_true(y[i] == 0);
    }
}

/* ---------------------------------------------------------------- bias and penalties */

/* Logits after bias and penalties show in the scaled logprobs, up to one constant. */
static void expect_logits(const float *logits, const float *want, pkv_sampling how,
                          const pkv__sample_context *where)
{
    how.n_logprobs = 4;
    how.logprobs_scaled = true;
    const pkv__sampled got = sample(4, logits, &how, where);
    assert_int_equal(got.n_top, 4);
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += exp((double)want[i]);
    for (int i = 0; i < 4; i++) {
        const pkv_logprob *t = &got.top[i];
        assert_true(fabs((double)t->logprob - ((double)want[t->id] - log(sum))) < 1e-6);
        if (i > 0) assert_true(t->logprob <= got.top[i - 1].logprob);
    }
    assert_int_equal(got.id, got.top[0].id);
    assert_true(got.logprob == got.top[0].logprob);
}

static void penalties_by_hand(void **state)
{
    (void)state;
    const float logits[] = { 2, -1, 3, 0.5f };
    const int32_t prompt[] = { 0, 1, 1 }, output[] = { 2, 2, 1 };
    const pkv__sample_context where = { prompt, 3, output, 3, 0, NULL };
    pkv_sampling how = PKV_SAMPLING_INIT;

    how.repeat_penalty = 2; /* prompt and output: positive halved, negative doubled, each once */
    expect_logits(logits, (const float[]){ 1, -2, 1.5f, 0.5f }, how, &where);
    how.repeat_penalty = 1;
    how.presence_penalty = 0.25f; /* output alone, once */
    expect_logits(logits, (const float[]){ 2, -1.25f, 2.75f, 0.5f }, how, &where);
    how.presence_penalty = 0;
    how.frequency_penalty = 0.5f; /* output alone, each time */
    expect_logits(logits, (const float[]){ 2, -1.5f, 2, 0.5f }, how, &where);
    how.repeat_penalty = 2; /* all of them, and a bias in front: 0: (2 - 4) * 2 */
    how.presence_penalty = 0.25f;
    const pkv_logit_bias bias[] = { { 0, -4 }, { 3, 1 }, { 3, 1 } };
    how.bias = bias;
    how.n_bias = 3;
    expect_logits(logits, (const float[]){ -4, -2.75f, 0.25f, 2.5f }, how, &where);
}

static void a_forbidden_token_is_never_drawn(void **state)
{
    (void)state;
    float logits[300] = { 0 };
    logits[7] = 1e30f;
    logits[8] = INFINITY;
    const pkv_logit_bias bias[] = { { 7, -INFINITY }, { 8, -INFINITY } };
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.bias = bias;
    how.n_bias = 2;
    assert_int_equal(sample(300, logits, &how, NULL).id, 0);
    how.temperature = 1;
    how.frequency_penalty = -1e38f; /* and what was drawn often is wanted, up to overflow */
    int32_t output[200];
    for (int32_t i = 0; i < 200; i++) output[i] = i < 100 ? 7 : 9;
    for (int32_t n = 0; n < 200; n++) {
        const pkv__sample_context where = { NULL, 0, output, n, 0, NULL };
        const int32_t id = sample(300, logits, &how, &where).id;
        assert_int_not_equal(id, 7);
        assert_int_not_equal(id, 8);
        if (n > 100) assert_int_equal(id, 9);
    }
}

static void counts_leave_nothing_behind(void **state)
{
    (void)state;
    const float logits[] = { 2, 1.5f, 1, 0 };
    const int32_t ids[] = { 0, 0, 1, 3 };
    const pkv__sample_context where = { ids, 4, ids, 4, 0, NULL }, empty = { 0 };
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.frequency_penalty = 1;
    how.repeat_penalty = 1.5f;
    pkv__sampler *s = make(4);
    pkv__sampled out;
    for (int i = 0; i < 3; i++) {
        pkv__sample(s, logits, &how, &where, &out);
        assert_int_equal(out.id, 2);
        pkv__sample(s, logits, &how, &empty, &out);
        assert_int_equal(out.id, 0);
    }
    pkv__sampler_destroy(s);
}

/* ---------------------------------------------------------------- logprobs */

static void log_softmax_adds_up(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, 5, 0, 0);
    static float x[3000], y[3000];
    for (int32_t n = 1; n < 3000; n = n * 2 + 1) {
        for (int32_t i = 0; i < n; i++) x[i] = (float)(pkv__rng_unit(&rng) * 40 - 20);
        if (n > 4) x[3] = NAN;
        double want = 0, sum = 0;
        for (int32_t i = 0; i < n; i++) want += isnan(x[i]) ? 0 : exp((double)x[i]);
        pkv__log_softmax(x, n, y);
        for (int32_t i = 0; i < n; i++) {
            if (isnan(x[i])) {
                assert_true(y[i] == -INFINITY);
                continue;
            }
            sum += exp((double)y[i]);
            assert_true(fabs((double)y[i] - ((double)x[i] - log(want))) < 4e-6);
        }
        assert_true(fabs(sum - 1) < 1e-6);
        pkv__log_softmax(x, n, x);
        assert_memory_equal(x, y, (size_t)n * sizeof(*x));
    }
}

static void logprobs_of_the_model_or_scaled(void **state)
{
    (void)state;
    /* Probabilities 1/2, 1/4, 1/8, 1/8. */
    const float ln2 = logf(2);
    const float logits[] = { 5 - 3 * ln2, 5 - ln2, 5 - 2 * ln2, 5 - 3 * ln2 };
    const pkv_logit_bias bias = { 1, -INFINITY };
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.bias = &bias;
    how.n_bias = 1;
    how.n_logprobs = 3;
    pkv__sampled got = sample(4, logits, &how, NULL); /* the model's: the bias does not show */
    assert_int_equal(got.id, 2);
    assert_true(fabsf(got.logprob + 2 * ln2) < 1e-6f);
    assert_int_equal(got.n_top, 3);
    const int32_t order[] = { 1, 2, 0 };
    for (int i = 0; i < 3; i++) assert_int_equal(got.top[i].id, order[i]);
    assert_true(fabsf(got.top[0].logprob + ln2) < 1e-6f);
    assert_true(fabsf(got.top[2].logprob + 3 * ln2) < 1e-6f);

    /* With temperature 1/2 odds are squared: 4 : 1 : 1 of the three. top_k does not show. */
    how.logprobs_scaled = true;
    how.temperature = 0.5f;
    how.top_k = 1;
    how.n_logprobs = 20;
    got = sample(4, logits, &how, NULL);
    assert_int_equal(got.id, 2);
    assert_true(fabsf(got.logprob - logf(4.f / 6)) < 1e-6f);
    assert_int_equal(got.n_top, 3); /* a token without probability is no alternative */
    assert_int_equal(got.top[1].id, 0);
    assert_int_equal(got.top[2].id, 3);
    assert_true(fabsf(got.top[2].logprob - logf(1.f / 6)) < 1e-6f);

    how.n_logprobs = 0;
    got = sample(4, logits, &how, NULL);
    assert_true(got.n_top == 0 && fabsf(got.logprob - logf(4.f / 6)) < 1e-6f);
    how.n_logprobs = -1;
    assert_true(isnan(sample(4, logits, &how, NULL).logprob));
}

/* ---------------------------------------------------------------- streams */

/* Philox words -> 52 bits -> token of a uniform row, written from the definition. */
static int32_t want_uniform(uint64_t seed, uint32_t position, uint32_t sample_idx, int32_t vocab)
{
    const uint32_t ctr[4] = { position, sample_idx, 1, 0 };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t w[4];
    pkv__philox4x32(ctr, key, w);
    const uint64_t k = (w[0] | (uint64_t)w[1] << 32) >> 12;
    return (int32_t)floor(((double)k + 0.5) / 4503599627370496.0 * vocab);
}

static void streams_are_keyed_by_seed_sample_and_position(void **state)
{
    (void)state;
    enum { VOCAB = 1024 };
    static const float logits[VOCAB];
    static const int32_t ids[64];
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.temperature = 1;
    pkv__sampler *s = make(VOCAB);
    int equal = 0;
    for (int round = 0; round < 2; round++) { /* the second time in another order */
        for (int32_t i = 0; i < 4 * 64; i++) {
            const int32_t at = round ? 4 * 64 - 1 - i : i, n = at / 4;
            how.seed = 0x1234567800000000ULL + (uint64_t)(at % 4 / 2);
            /* The position is n whether it is prompt or output. */
            const pkv__sample_context where = { ids, n / 2, ids, n - n / 2, at % 2, NULL };
            pkv__sampled out;
            pkv__sample(s, logits, &how, &where, &out);
            assert_int_equal(out.id, want_uniform(how.seed, (uint32_t)n, (uint32_t)at % 2, VOCAB));
            const pkv__sample_context other = { ids, n / 2, ids, n - n / 2, at % 2 + 1, NULL };
            const int32_t id = out.id;
            pkv__sample(s, logits, &how, &other, &out);
            equal += id == out.id;
        }
    }
    assert_true(equal < 8); /* 512 pairs, each equal with probability 1/1024 */
    pkv__sampler_destroy(s);
}

/* ---------------------------------------------------------------- llama2.c */

static void llama2_generator(void **state)
{
    (void)state;
    /* xorshift64* >> 32 >> 8, computed in Python with whole numbers. */
    static const struct {
        uint64_t seed, last;
        int32_t k[6];
    } c[] = {
        { 1, 0xb00614a0466023ed, { 4711630, 11259814, 12177677, 5092376, 942489, 13133643 } },
        { 42, 0xc0d2f1a263e84ebf, { 5688906, 13124075, 13256299, 15838407, 12824397, 14021388 } },
        { 0x123456789abcdef,
          0x81b5b0c0cbeb8b66,
          { 8164482, 13987926, 8959774, 6184330, 12305775, 15545434 } },
    };
    static const float logits[1024];
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.temperature = 1;
    how.xorshift_llama2 = true;
    for (size_t i = 0; i < PKV_ARRAY_LEN(c); i++) {
        uint64_t xorshift = c[i].seed;
        const pkv__sample_context where = { .xorshift = &xorshift };
        for (int j = 0; j < 6; j++)
            assert_int_equal(sample(1024, logits, &how, &where).id, c[i].k[j] >> 14);
        assert_true(xorshift == c[i].last);
        how.temperature = 0; /* the largest costs no number */
        assert_int_equal(sample(1024, logits, &how, &where).id, 0);
        assert_true(xorshift == c[i].last);
        how.temperature = 1;
    }
}

typedef struct pair {
    float p;
    int32_t id;
} pair;

static int by_p(const void *a, const void *b)
{
    const pair *x = a, *y = b;
    if (x->p != y->p) return x->p < y->p ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* Everything sorted, no cutoff, in double: the shortest beginning above p, then coin * its sum.
 * *margin: how near the coin was to another token. */
static int32_t want_llama2(const float *logits, int32_t n, float temperature, float top_p,
                           double coin, double *margin)
{
    static pair e[1024];
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp((double)logits[i] / (double)temperature);
    for (int32_t i = 0; i < n; i++)
        e[i] = (pair){ (float)(exp((double)logits[i] / (double)temperature) / sum), i };
    qsort(e, (size_t)n, sizeof(*e), by_p);
    double mass = 0, reached = 0;
    int32_t last = 0;
    while (last < n && mass <= (double)top_p) mass += (double)e[last++].p;
    int32_t i = -1;
    while (i < last - 1 && reached <= coin * mass) reached += (double)e[++i].p;
    *margin = fmin(reached - coin * mass, fabs(coin * mass - reached + (double)e[i].p));
    *margin =
        fmin(*margin, fmin(mass - (double)top_p, (double)e[last - 1].p - mass + (double)top_p));
    return e[i].id;
}

static void llama2_top_p_is_that_of_a_sort(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, 9, 0, 0);
    static float logits[1024];
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.xorshift_llama2 = true;
    int n_near = 0;
    for (int round = 0; round < 2000; round++) {
        const int32_t n = 2 + (int32_t)pkv__rng_below(&rng, 600);
        const uint32_t kind = pkv__rng_below(&rng, 3);
        for (int32_t i = 0; i < n; i++)
            logits[i] = kind == 0 ? (float)pkv__rng_below(&rng, 5) / 2
                                  : (float)(pkv__draw_normal(&rng) * (kind == 1 ? 1 : 4));
        how.temperature = (float)(0.2 + pkv__rng_unit(&rng) * 2);
        how.top_p = (float)(0.05 + pkv__rng_unit(&rng) * 0.94);
        uint64_t xorshift = pkv__rng_u64(&rng) | 1, copy = xorshift;
        copy ^= copy >> 12;
        copy ^= copy << 25;
        copy ^= copy >> 27;
        const double coin = (double)((copy * 0x2545F4914F6CDD1DULL) >> 40) / 16777216;
        const pkv__sample_context where = { .xorshift = &xorshift };
        const int32_t id = sample(n, logits, &how, &where).id;
        double margin;
        const int32_t want = want_llama2(logits, n, how.temperature, how.top_p, coin, &margin);
        if (margin < 1e-5) n_near++; /* sums in float32 may decide otherwise */
        else assert_int_equal(id, want);
        assert_true(copy == xorshift);
    }
    assert_true(n_near < 300);
}

/* ---------------------------------------------------------------- refusals, memory */

static void expect_field(const pkv_sampling *how, const char *says)
{
    last_log log;
    const pkv_logger logger = log_to(&log);
    assert_int_equal(pkv__sampling_check(how, 100, &logger), PKV_E_INVALID_ARG);
    assert_int_equal(log.n_lines, 1);
    if (!strstr(log.text, says)) fail_msg("the log says \"%s\", not \"%s\"", log.text, says);
}

#define EXPECT(field, value)                                                                       \
    do {                                                                                           \
        pkv_sampling s_ = PKV_SAMPLING_INIT;                                                       \
        s_.field = value;                                                                          \
        expect_field(&s_, "sampling." #field);                                                     \
    } while (0)

static void bad_fields_are_named(void **state)
{
    (void)state;
    EXPECT(temperature, -0.1f);
    EXPECT(temperature, NAN);
    EXPECT(temperature, INFINITY);
    EXPECT(top_k, -1);
    EXPECT(top_p, 0);
    EXPECT(top_p, 1.001f);
    EXPECT(top_p, NAN);
    EXPECT(min_p, -0.001f);
    EXPECT(min_p, 1.001f);
    EXPECT(repeat_penalty, 0);
    EXPECT(repeat_penalty, INFINITY);
    EXPECT(presence_penalty, NAN);
    EXPECT(frequency_penalty, -INFINITY);
    EXPECT(n_logprobs, -2);
    EXPECT(n_logprobs, 21);
    EXPECT(n_bias, -1);
    EXPECT(n_bias, 1025);
    pkv_sampling how = PKV_SAMPLING_INIT;
    pkv_logit_bias bias[3] = { { 0, -INFINITY }, { 99, 1 }, { 100, 1 } };
    how.n_bias = 1;
    expect_field(&how, "sampling.bias is NULL");
    how.bias = bias;
    how.n_bias = 2;
    assert_int_equal(pkv__sampling_check(&how, 100, NULL), PKV_OK);
    how.n_bias = 3;
    expect_field(&how, "sampling.bias[2].id is 100; ids are 0 to 99");
    bias[2] = (pkv_logit_bias){ -1, 0 };
    expect_field(&how, "sampling.bias[2].id is -1");
    bias[2] = (pkv_logit_bias){ 5, INFINITY };
    expect_field(&how, "sampling.bias[2].bias is inf");
    bias[2].bias = NAN;
    expect_field(&how, "sampling.bias[2].bias is");
}

static void several_bad_fields_have_a_line_each(void **state)
{
    (void)state;
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.top_k = -3;
    how.top_p = 2;
    how.min_p = -1;
    assert_int_equal(pkv__sampling_check(&how, 100, &logger), PKV_E_INVALID_ARG);
    assert_int_equal(log.n_lines, 3);
}

static void what_llama2_does_not_know(void **state)
{
    (void)state;
    pkv_sampling how = PKV_SAMPLING_INIT;
    how.xorshift_llama2 = true;
    expect_field(&how, "sampling.seed is 0");
    how.seed = 1;
    assert_int_equal(pkv__sampling_check(&how, 100, NULL), PKV_OK);
    how.top_k = 1;
    expect_field(&how, "top_k and min_p must be 0");
    how.top_k = 0;
    how.min_p = 0.1f;
    expect_field(&how, "top_k and min_p must be 0");
}

static void edges_are_allowed(void **state)
{
    (void)state;
    pkv_sampling how = PKV_SAMPLING_INIT;
    assert_int_equal(pkv__sampling_check(&how, 1, NULL), PKV_OK);
    how.temperature = 3e38f;
    how.top_k = INT32_MAX;
    how.top_p = 1e-45f;
    how.min_p = 1;
    how.repeat_penalty = 1e-45f;
    how.presence_penalty = -3e38f;
    how.frequency_penalty = 3e38f;
    how.n_logprobs = 20;
    assert_int_equal(pkv__sampling_check(&how, 1, NULL), PKV_OK);
    const float logits[] = { 1, 3, 2 };
    const int32_t ids[] = { 0, 1, 2 };
    const pkv__sample_context where = { ids, 1, ids + 1, 1, 0, NULL };
    assert_in_range(sample(3, logits, &how, &where).id, 0, 2);
}

static void no_memory_leaves_nothing(void **state)
{
    (void)state;
    counted_memory m;
    pkv__sampler *s = NULL;
    long fail_at = 0;
    for (;; fail_at++) {
        const pkv_allocator alloc = count_memory(&m, fail_at);
        const pkv_status status = pkv__sampler_create(1000, &alloc, &s);
        if (status == PKV_OK) break;
        assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_null(s);
        assert_true(m.n_live == 0 && m.live_bytes == 0);
    }
    assert_int_equal(fail_at, 6);
    pkv__sampler_destroy(s);
    assert_true(m.n_live == 0 && m.live_bytes == 0);
    pkv__sampler_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argmax_takes_the_lowest_of_the_largest),
        cmocka_unit_test(rows_without_a_finite_logit),
        cmocka_unit_test(exponentials_are_near),
        cmocka_unit_test(penalties_by_hand),
        cmocka_unit_test(a_forbidden_token_is_never_drawn),
        cmocka_unit_test(counts_leave_nothing_behind),
        cmocka_unit_test(log_softmax_adds_up),
        cmocka_unit_test(logprobs_of_the_model_or_scaled),
        cmocka_unit_test(streams_are_keyed_by_seed_sample_and_position),
        cmocka_unit_test(llama2_generator),
        cmocka_unit_test(llama2_top_p_is_that_of_a_sort),
        cmocka_unit_test(bad_fields_are_named),
        cmocka_unit_test(several_bad_fields_have_a_line_each),
        cmocka_unit_test(what_llama2_does_not_know),
        cmocka_unit_test(edges_are_allowed),
        cmocka_unit_test(no_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
