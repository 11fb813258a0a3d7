/* The fast pass against the exact one, which other tests hold against double precision. */
#include "forward_rig.h"

#define N_TOKENS 290

/* Logits of a prefill of `chunk` tokens at a time. */
static void run(const pkv__weights *w, pkv_isa isa, bool fast, int32_t chunk, float *logits)
{
    int32_t tokens[N_TOKENS];
    rig r;
    draw_tokens(2, w->config.vocab, tokens, N_TOKENS);
    rig_make(&r, w, &(rig_options){ isa, fast ? 2 : 1, 16, PKV_F32, 3, fast }, N_TOKENS);
    rig_run(&r, tokens, N_TOKENS, chunk, logits);
    rig_drop(&r);
}

static double distance(const float *got, const float *want, int64_t n)
{
    double low = want[0], high = want[0], worst = 0;
    for (int64_t i = 0; i < n; i++) {
        low = fmin(low, (double)want[i]);
        high = fmax(high, (double)want[i]);
        worst = fmax(worst, fabs((double)got[i] - want[i]));
        if (isnan(got[i])) fail_msg("logit %lld is NaN", (long long)i);
    }
    assert_true(high - low > 1); /* flat logits would prove nothing */
    return worst / (high - low);
}

/* 1e-4 of the range of logits for f32 and 2e-2 for bf16. */
static void within_bounds(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = { { 8, 4, 8 }, { 48, 2, 8 }, { 40, 1, 8 }, { 4, 4, 64 } };
    static const int32_t chunks[] = { N_TOKENS, 100, 17 };
    static float want[N_TOKENS * 128], got[N_TOKENS * 128];
    const uint64_t seed = first_seed();
    pkv_isa levels[8];
    const int32_t n = rig_levels(levels);
    for (size_t k = 0; k < 2 * PKV_ARRAY_LEN(shapes); k++) {
        const int32_t *s = shapes[k / 2];
        const pkv_dtype dtype = k % 2 ? PKV_BF16 : PKV_F32;
        const pkv__model_config c = small_config(s[0], s[1], s[2]);
        pkv__weights w = small_weights(&c, seed + k, dtype);
        run(&w, PKV_ISA_BEST, false, N_TOKENS, want);
        for (int32_t l = 0; l < n; l++)
            for (size_t i = 0; i < PKV_ARRAY_LEN(chunks); i++) {
                run(&w, levels[l], true, chunks[i], got);
                const double off = distance(got, want, (int64_t)N_TOKENS * c.vocab);
                fprintf(stderr, "# heads %d/%d, %s, %s, chunks of %d: %.2g of the range\n", s[0],
                        s[1], pkv_dtype_name(dtype), pkv_isa_name(levels[l]), chunks[i], off);
                assert_true(off <= (dtype == PKV_BF16 ? 2e-2 : 1e-4));
            }
        pkv__weights_free(&w);
    }
}

/* Decodes and prefills of several sequences in one pass. */
static void sequences_together(void **state)
{
    (void)state;
    enum { LEN = 90, N_SEQS = 3 };
    static float want[N_SEQS][LEN * 128], got[2 * LEN * 128];
    const pkv__model_config c = small_config(8, 4, 16);
    pkv__weights w = small_weights(&c, first_seed(), PKV_F32);
    int32_t tokens[N_SEQS][LEN];
    rig exact, fast;
    rig_seq seqs[N_SEQS] = { { 0 } };
    rig_make(&exact, &w, &(rig_options){ PKV_ISA_BEST, 1, 16, PKV_F32, 3, false }, 400);
    rig_make(&fast, &w, &(rig_options){ PKV_ISA_BEST, 2, 16, PKV_F32, 4, true }, 400);
    for (int32_t s = 0; s < N_SEQS; s++) {
        draw_tokens(7 + (uint64_t)s, c.vocab, tokens[s], LEN);
        rig_run(&exact, tokens[s], LEN, LEN, want[s]);
    }
    rig_pass(&fast, (const rig_piece[]){ { &seqs[0], tokens[0], 5 }, { &seqs[1], tokens[1], 80 } },
             2, got);
    rig_pass(&fast,
             (const rig_piece[]){ { &seqs[1], tokens[1] + 80, 1 },
                                  { &seqs[2], tokens[2], 70 },
                                  { &seqs[0], tokens[0] + 5, 60 } },
             3, got);
    assert_true(distance(got, want[1] + 80 * c.vocab, c.vocab) < 1e-4);
    assert_true(distance(got + c.vocab, want[2], 70 * c.vocab) < 1e-4);
    assert_true(distance(got + 71 * c.vocab, want[0] + 5 * c.vocab, 60 * c.vocab) < 1e-4);
    rig_drop(&exact);
    rig_drop(&fast);
    pkv__weights_free(&w);
}

/* It is another way: where rows are many, bits differ from the exact ones at some level. */
static void goes_another_way(void **state)
{
    (void)state;
    static float exact[N_TOKENS * 128], fast[N_TOKENS * 128];
    const pkv__model_config c = small_config(8, 4, 16);
    if (pkv_isa_check(PKV_ISA_AVX2, NULL) != PKV_OK) skip();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        pkv__weights w = small_weights(&c, 5, bf16 ? PKV_BF16 : PKV_F32);
        run(&w, PKV_ISA_BEST, false, N_TOKENS, exact);
        run(&w, PKV_ISA_BEST, true, N_TOKENS, fast);
        assert_memory_not_equal(exact, fast, (size_t)(N_TOKENS * c.vocab) * sizeof(float));
        pkv__weights_free(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_bounds),
        cmocka_unit_test(sequences_together),
        cmocka_unit_test(goes_another_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
