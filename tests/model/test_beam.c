/* Beam search against greedy decoding, against all sequences there are, and at its edges. */
#include "beam_rig.h"
#include "common/philox.h"
#include "model/sampler.h"

static uint64_t first_seed(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static beam_model draw_model(pkv__rng *rng, int32_t vocab, int32_t n_ends)
{
    beam_model m = { .seed = pkv__rng_u64(rng), .vocab = vocab, .n_ends = n_ends };
    m.boost = (float)pkv__rng_below(rng, 5) - 1;
    for (int32_t i = 0; i < n_ends; i++) m.ends[i] = (int32_t)pkv__rng_below(rng, (uint32_t)vocab);
    for (int i = 0; i < 2; i++) m.prompt[i] = (int32_t)pkv__rng_below(rng, (uint32_t)vocab);
    return m;
}

/* ---------------------------------------------------------------- one beam */

static void one_beam_is_greedy(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 0, 0);
    for (int round = 0; round < 2000; round++) {
        const int32_t vocab = 1 + (int32_t)pkv__rng_below(&rng, 60);
        beam_model m = draw_model(&rng, vocab, (int32_t)pkv__rng_below(&rng, 3));
        m.n_levels = pkv__rng_below(&rng, 2) ? 0 : 3; /* many equal logits */
        pkv__beam_config cfg = beam_config(&m, 1, 1 + (int32_t)pkv__rng_below(&rng, 12));
        cfg.early_stopping = round % 2;
        cfg.length_penalty = (float)(round % 5) / 2 - 1;
        int32_t want[BEAM_MAX_NEW], n = 0;
        double sum = 0;
        bool ended = false;
        while (n < cfg.max_new && !ended) {
            float logits[BEAM_MAX_VOCAB], logprobs[BEAM_MAX_VOCAB];
            beam_logits(&m, want, n, logits);
            pkv__log_softmax(logits, vocab, logprobs);
            want[n] = pkv__argmax(logits, vocab);
            sum += (double)logprobs[want[n]];
            for (int32_t i = 0; i < m.n_ends; i++) ended |= m.ends[i] == want[n];
            n++;
        }
        beam_found found;
        assert_int_equal(beam_search(&m, &cfg, &found), 1);
        assert_int_equal(found.n_ids, n);
        assert_memory_equal(found.ids, want, (size_t)n * sizeof(*want));
        assert_int_equal(found.finish, ended ? PKV_FINISH_STOP : PKV_FINISH_LENGTH);
        const double score = sum / pow(n, (double)cfg.length_penalty);
        assert_true(fabs(score - (double)found.score) <= 1e-5 * (1 + fabs(score)));
    }
}

/* ---------------------------------------------------------------- all sequences */

enum { LISTED_MAX = 4 };

typedef struct listed {
    int32_t ids[LISTED_MAX], n;
    double score;
} listed;

typedef struct listing {
    const beam_model *model;
    int32_t max_new, n;
    double penalty;
    listed at[64];
} listing;

static void list_all(listing *l, const int32_t *prefix, int32_t n, double sum)
{
    float logits[BEAM_MAX_VOCAB];
    double total = 0;
    if (n >= LISTED_MAX) return; /* never: max_new is at most that, but gcc does not see it */
    beam_logits(l->model, prefix, n, logits);
    for (int32_t id = 0; id < l->model->vocab; id++) total += exp((double)logits[id]);
    for (int32_t id = 0; id < l->model->vocab; id++) {
        listed next = { .n = n + 1 };
        const double here = sum + (double)logits[id] - log(total);
        memcpy(next.ids, prefix, (size_t)n * sizeof(*prefix));
        next.ids[n] = id;
        if (n + 1 < l->max_new && id != l->model->ends[0]) {
            list_all(l, next.ids, n + 1, here);
            continue;
        }
        next.score = here / pow(n + 1, l->penalty);
        l->at[l->n++] = next;
    }
}

static int by_score(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    return x->score < y->score ? 1 : -1;
}

/* Ranks are compared by score: sequences of the same steps in another order have equal ones. */
static void take_listed(listing *l, const beam_found *found)
{
    for (int32_t i = 0; i < l->n; i++) {
        listed *at = &l->at[i];
        if (at->n != found->n_ids) continue;
        if (memcmp(at->ids, found->ids, (size_t)at->n * sizeof(*at->ids)) != 0) continue;
        assert_true(fabs((double)found->score - at->score) < 1e-5 * (1 - at->score));
        at->n = 0; /* each once */
        return;
    }
    fail_msg("no such sequence, or found twice");
}

/* Three tokens, one of which ends: at most 16 beams live, 15 ended before the last step; so the
 * widest search loses nothing and is never done early, and finds the best 16 of all 31. */
static void the_widest_search_finds_the_best_of_all(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 1, 0);
    for (int round = 0; round < 500; round++) {
        beam_model m = draw_model(&rng, 3, 1);
        const int32_t max_new = 1 + round % 4;
        pkv__beam_config cfg = beam_config(&m, PKV__MAX_BEAMS, max_new);
        cfg.early_stopping = round % 2;
        cfg.length_penalty = (float)pkv__rng_below(&rng, 9) / 2 - 2;
        static listing l;
        static beam_found found[PKV__MAX_BEAMS];
        l = (listing){ .model = &m, .max_new = max_new, .penalty = (double)cfg.length_penalty };
        list_all(&l, (const int32_t[]){ 0 }, 0, 0); /* nothing of it is read */
        qsort(l.at, (size_t)l.n, sizeof(*l.at), by_score);
        const int32_t n = beam_search(&m, &cfg, found);
        assert_int_equal(n, l.n < PKV__MAX_BEAMS ? l.n : PKV__MAX_BEAMS);
        for (int32_t i = 0; i < n; i++) {
            assert_true(fabs((double)found[i].score - l.at[i].score) < 1e-5 * (1 - l.at[i].score));
            take_listed(&l, &found[i]);
        }
    }
}

/* ---------------------------------------------------------------- by hand */

/* Probabilities of three tokens; 2 ends. */
static const float *log_row(double a, double b, double end, float *out)
{
    out[0] = (float)log(a);
    out[1] = (float)log(b);
    out[2] = (float)log(end);
    return out;
}

static void expect_live(const pkv__beam_next *next, int32_t n, const int32_t *parents,
                        const int32_t *tokens)
{
    assert_int_equal(next->n_beams, n);
    assert_memory_equal(next->parent, parents, (size_t)n * sizeof(*parents));
    assert_memory_equal(next->token, tokens, (size_t)n * sizeof(*tokens));
}

static pkv__beams *make(bool early, float penalty, int32_t max_new)
{
    static const int32_t end = 2;
    const pkv__beam_config cfg = { .width = 2,
                                   .n_return = 2,
                                   .max_new = max_new,
                                   .vocab = 3,
                                   .length_penalty = penalty,
                                   .early_stopping = early,
                                   .end_ids = &end,
                                   .n_end_ids = 1 };
    pkv__beams *b = NULL;
    assert_int_equal(pkv__beam_create(&cfg, NULL, &b), PKV_OK);
    return b;
}

static void expect_found(const pkv__beams *b, int32_t rank, int32_t n, const int32_t *want,
                         double score, pkv_finish want_finish)
{
    const int32_t *ids;
    int32_t n_ids;
    float s;
    pkv_finish finish;
    pkv__beam_result(b, rank, &ids, &n_ids, &s, &finish);
    assert_int_equal(n_ids, n);
    assert_memory_equal(ids, want, (size_t)n * sizeof(*want));
    assert_true(fabs((double)s - score) < 1e-6);
    assert_int_equal(finish, want_finish);
}

/* Step 1: 0.5, 0.2, end 0.3 (rank 1, a candidate). Step 2, beam 0 (0.5): 0.4, 0.2, 0.4; beam 1
 * (0.2): 0.7, 0.2, 0.1. Pairs: 0.20 (beam 0, token 0), 0.20 (beam 0, end, the second of equal
 * ones), 0.14 (beam 1, token 0). Two candidates: early stopping is done; the other rule asks
 * whether log 0.20, the worst of both without a penalty, is at least that of the best pair, which
 * is the same: done. */
static void two_steps_by_hand(void **state)
{
    (void)state;
    float r0[3], r1[3];
    for (int early = 0; early < 2; early++) {
        pkv__beams *b = make(early, 0, 5);
        pkv__beam_next next;
        const float *rows[2] = { log_row(0.5, 0.2, 0.3, r0), NULL };
        pkv__beam_advance(b, rows, &next);
        expect_live(&next, 2, (const int32_t[]){ 0, 0 }, (const int32_t[]){ 0, 1 });
        rows[0] = log_row(0.4, 0.2, 0.4, r0);
        rows[1] = log_row(0.7, 0.2, 0.1, r1);
        pkv__beam_advance(b, rows, &next);
        assert_int_equal(next.n_beams, 0);
        assert_int_equal(pkv__beam_n_results(b), 2);
        expect_found(b, 0, 1, (const int32_t[]){ 2 }, log(0.3), PKV_FINISH_STOP);
        expect_found(b, 1, 2, (const int32_t[]){ 0, 2 }, log(0.2), PKV_FINISH_STOP);
        pkv__beam_destroy(b);
    }
}

/* The same with 0.5 instead of 0.4 for the token: 0.25 is above the candidates' worst. */
static void a_better_beam_keeps_the_search_going(void **state)
{
    (void)state;
    float r0[3], r1[3];
    pkv__beams *b = make(false, 0, 3);
    pkv__beam_next next;
    const float *rows[2] = { log_row(0.5, 0.2, 0.3, r0), NULL };
    pkv__beam_advance(b, rows, &next);
    rows[0] = log_row(0.5, 0.1, 0.4, r0);
    rows[1] = log_row(0.7, 0.2, 0.1, r1);
    pkv__beam_advance(b, rows, &next);
    expect_live(&next, 2, (const int32_t[]){ 0, 1 }, (const int32_t[]){ 0, 0 });
    /* 0.25 * 0.9 = 0.225 at max_new: better than 0.20, which falls out; 0.14 * 0.9 is not. */
    rows[0] = log_row(0.9, 0.05, 0.05, r0);
    rows[1] = log_row(0.9, 0.05, 0.05, r1);
    pkv__beam_advance(b, rows, &next);
    assert_int_equal(next.n_beams, 0);
    expect_found(b, 0, 1, (const int32_t[]){ 2 }, log(0.3), PKV_FINISH_STOP);
    expect_found(b, 1, 3, (const int32_t[]){ 0, 0, 0 }, log(0.225), PKV_FINISH_LENGTH);
    pkv__beam_destroy(b);
}

/* Of four tokens all equal, 0 ends; then rows that allow one token or none. Scores are whole
 * multiples of one logarithm, so the first two candidates are exactly equal: the earlier one goes.
 */
static void of_equal_candidates_the_earliest_goes(void **state)
{
    (void)state;
    static const int32_t end = 0;
    const pkv__beam_config cfg = { .width = 2,
                                   .n_return = 2,
                                   .max_new = 9,
                                   .vocab = 4,
                                   .length_penalty = 1,
                                   .end_ids = &end,
                                   .n_end_ids = 1 };
    const float all[4] = { 0 }, none[4] = { NAN, NAN, NAN, NAN };
    const float only_3[4] = { NAN, NAN, NAN, 0 }, only_0[4] = { 0, NAN, NAN, NAN };
    pkv__beams *b = NULL;
    pkv__beam_next next;
    assert_int_equal(pkv__beam_create(&cfg, NULL, &b), PKV_OK);
    const float *rows[2] = { all, NULL };
    pkv__beam_advance(b, rows, &next); /* candidate 0: -log 4 */
    expect_live(&next, 2, (const int32_t[]){ 0, 0 }, (const int32_t[]){ 1, 2 });
    rows[1] = only_3;
    pkv__beam_advance(b, rows, &next); /* candidate 1 0: -2 log 4 / 2 */
    expect_live(&next, 2, (const int32_t[]){ 1, 0 }, (const int32_t[]){ 3, 1 });
    rows[0] = only_0;
    rows[1] = none;
    pkv__beam_advance(b, rows, &next); /* candidate 2 3 0: -log 4 / 3 */
    assert_int_equal(next.n_beams, 0);
    assert_int_equal(pkv__beam_n_results(b), 2);
    expect_found(b, 0, 3, (const int32_t[]){ 2, 3, 0 }, -log(4) / 3, PKV_FINISH_STOP);
    expect_found(b, 1, 2, (const int32_t[]){ 1, 0 }, -log(4), PKV_FINISH_STOP);
    pkv__beam_destroy(b);
}

/* Sums that round to the same do not hide which logit is larger. */
static void a_larger_logit_wins_where_sums_are_equal(void **state)
{
    (void)state;
    const pkv__beam_config cfg = { .width = 1, .n_return = 1, .max_new = 2, .vocab = 3 };
    const float logits[3] = { 0, 1e-30f, 1e-31f }, *row = logits;
    pkv__beams *b = NULL;
    pkv__beam_next next;
    assert_int_equal(pkv__beam_create(&cfg, NULL, &b), PKV_OK);
    pkv__beam_advance(b, &row, &next);
    expect_live(&next, 1, (const int32_t[]){ 0 }, (const int32_t[]){ 1 });
    pkv__beam_destroy(b);
}

/* An ending token behind the first `width` pairs is no candidate. */
static void a_late_rank_does_not_end(void **state)
{
    (void)state;
    float r0[3];
    pkv__beams *b = make(true, 1, 1);
    pkv__beam_next next;
    const float *rows[2] = { log_row(0.5, 0.3, 0.2, r0), NULL };
    pkv__beam_advance(b, rows, &next);
    assert_int_equal(pkv__beam_n_results(b), 2);
    expect_found(b, 0, 1, (const int32_t[]){ 0 }, log(0.5), PKV_FINISH_LENGTH);
    expect_found(b, 1, 1, (const int32_t[]){ 1 }, log(0.3), PKV_FINISH_LENGTH);
    pkv__beam_destroy(b);
}

/* ---------------------------------------------------------------- edges */

static void finishing_takes_the_live_beams(void **state)
{
    (void)state;
    float r0[3];
    pkv__beam_next next;
    pkv__beams *b = make(false, 1, 9);
    pkv__beam_finish(b); /* nothing yet */
    assert_int_equal(pkv__beam_n_results(b), 0);
    pkv__beam_destroy(b);

    b = make(false, 1, 9);
    const float *rows[2] = { log_row(0.6, 0.3, 0.1, r0), NULL };
    pkv__beam_advance(b, rows, &next);
    assert_int_equal(pkv__beam_n_results(b), 0);
    pkv__beam_finish(b);
    pkv__beam_finish(b); /* once is enough */
    assert_int_equal(pkv__beam_n_results(b), 2);
    expect_found(b, 0, 1, (const int32_t[]){ 0 }, log(0.6), PKV_FINISH_NONE);
    expect_found(b, 1, 1, (const int32_t[]){ 1 }, log(0.3), PKV_FINISH_NONE);
    pkv__beam_destroy(b);
}

static void rows_without_probability(void **state)
{
    (void)state;
    const float none[3] = { NAN, -INFINITY, NAN }, only_end[3] = { NAN, -INFINITY, 7 };
    const float inf[3] = { INFINITY, INFINITY, 0 };
    const float *rows[2] = { inf, inf };
    pkv__beam_next next;
    pkv__beams *b = make(false, 1, 9);
    pkv__beam_advance(b, rows, &next);
    expect_live(&next, 2, (const int32_t[]){ 0, 0 }, (const int32_t[]){ 0, 1 });
    rows[0] = rows[1] = none; /* nothing can follow: what there is comes out */
    pkv__beam_advance(b, rows, &next);
    assert_int_equal(next.n_beams, 0);
    assert_int_equal(pkv__beam_n_results(b), 2);
    expect_found(b, 0, 1, (const int32_t[]){ 1 }, log(0.5), PKV_FINISH_NONE);
    pkv__beam_destroy(b);

    b = make(false, 1, 9);
    rows[0] = only_end;
    pkv__beam_advance(b, rows, &next);
    assert_int_equal(next.n_beams, 0);
    assert_int_equal(pkv__beam_n_results(b), 1);
    expect_found(b, 0, 1, (const int32_t[]){ 2 }, 0, PKV_FINISH_STOP);
    pkv__beam_destroy(b);
}

/* A bias is the same as logits that have it; -infinity forbids. */
static void bias_is_added_to_logits(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 2, 0);
    for (int round = 0; round < 200; round++) {
        beam_model m = draw_model(&rng, 20, 1), with = m;
        with.boost += 2;
        const pkv_logit_bias bias[] = { { m.ends[0], 1.5f }, { m.ends[0], 0.5f } };
        pkv__beam_config cfg = beam_config(&m, 3, 6), cfg_bias = cfg;
        cfg_bias.bias = bias;
        cfg_bias.n_bias = 2;
        beam_found a[PKV__MAX_BEAMS], b[PKV__MAX_BEAMS];
        const int32_t n = beam_search(&with, &cfg, a);
        assert_int_equal(beam_search(&m, &cfg_bias, b), n);
        for (int32_t i = 0; i < n; i++) {
            assert_int_equal(a[i].n_ids, b[i].n_ids);
            assert_memory_equal(a[i].ids, b[i].ids, (size_t)a[i].n_ids * sizeof(*a[i].ids));
            assert_true(a[i].score == b[i].score);
        }
        const pkv_logit_bias forbid = { m.ends[0], -INFINITY };
        cfg_bias.bias = &forbid;
        cfg_bias.n_bias = 1;
        assert_int_equal(beam_search(&m, &cfg_bias, b), 3);
        for (int32_t i = 0; i < 3; i++) assert_int_equal(b[i].finish, PKV_FINISH_LENGTH);
    }
}

static void fewer_results_are_the_first_ones(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 3, 0);
    for (int round = 0; round < 100; round++) {
        const beam_model m = draw_model(&rng, 30, 2);
        pkv__beam_config cfg = beam_config(&m, 4, 8);
        beam_found all[PKV__MAX_BEAMS], two[PKV__MAX_BEAMS];
        assert_int_equal(beam_search(&m, &cfg, all), 4);
        cfg.n_return = 2;
        assert_int_equal(beam_search(&m, &cfg, two), 2);
        for (int32_t i = 0; i < 2; i++) {
            assert_int_equal(all[i].n_ids, two[i].n_ids);
            assert_memory_equal(all[i].ids, two[i].ids, (size_t)all[i].n_ids * sizeof(int32_t));
        }
    }
}

static void no_memory_leaves_nothing(void **state)
{
    (void)state;
    const beam_model m = { .seed = 1, .vocab = 20, .n_ends = 1 };
    const pkv_logit_bias bias = { 3, 1 };
    pkv__beam_config cfg = beam_config(&m, 4, 8);
    cfg.bias = &bias;
    cfg.n_bias = 1;
    counted_memory memory;
    pkv__beams *b = NULL;
    long fail_at = 0;
    for (;; fail_at++) {
        const pkv_allocator alloc = count_memory(&memory, fail_at);
        const pkv_status status = pkv__beam_create(&cfg, &alloc, &b);
        if (status == PKV_OK) break;
        assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_null(b);
        assert_true(memory.n_live == 0 && memory.live_bytes == 0);
    }
    assert_int_equal(fail_at, 7);
    beam_run(&m, b, INT32_MAX);
    assert_int_equal(memory.n_allocs, 7); /* none in a step */
    pkv__beam_destroy(b);
    assert_true(memory.n_live == 0 && memory.live_bytes == 0);
    pkv__beam_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_beam_is_greedy),
        cmocka_unit_test(the_widest_search_finds_the_best_of_all),
        cmocka_unit_test(two_steps_by_hand),
        cmocka_unit_test(a_better_beam_keeps_the_search_going),
        cmocka_unit_test(of_equal_candidates_the_earliest_goes),
        cmocka_unit_test(a_larger_logit_wins_where_sums_are_equal),
        cmocka_unit_test(a_late_rank_does_not_end),
        cmocka_unit_test(finishing_takes_the_live_beams),
        cmocka_unit_test(rows_without_probability),
        cmocka_unit_test(bias_is_added_to_logits),
        cmocka_unit_test(fewer_results_are_the_first_ones),
        cmocka_unit_test(no_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
