/* Beam search against transformers (golden/, scripts/make_goldens.py): four beams, length penalties
 * below, at and above zero, both stopping rules. The search alone, over logits that are computed
 * anew for every beam and step. */
#include "forward_rig.h"
#include "golden_file.h"
#include "model/beam.h"

#define N_BEAMS 4
#define MAX_NEW 32
#define MAX_VOCAB 384
#define SCORE 1e-4 /* transformers takes the logarithms in float32 */

/* What follows an output, kept for the other searches: which beams live on does not depend on
 * penalties and stopping rules. */
typedef struct look {
    int32_t ids[MAX_NEW];
    bool known;
    float row[MAX_VOCAB];
} look;

typedef struct search {
    const golden *g;
    rig r;                        /* every look is a sequence of its own */
    look looks[MAX_NEW][N_BEAMS]; /* by tokens of output, and beam */
    int32_t prompt[GOLDEN_MAX_IDS], n_prompt;
    int32_t ends[GOLDEN_MAX_IDS], n_ends, max_new;
} search;

static pkv__weights load(const golden *g)
{
    char folder[512];
    pkv__model_config c;
    pkv__weights w;
    golden_write(g, GOLDEN_F32, folder, sizeof(folder));
    pkv__tensor_file *file = open_good(folder);
    assert_int_equal(pkv__model_config_read(folder, file, NULL, NULL, &c), PKV_OK);
    assert_int_equal(pkv__weights_load(&c, file, PKV_F32, NULL, NULL, &w), PKV_OK);
    scratch_remove(folder);
    w.config.context = 128; /* angles of the whole context, a table of this much */
    return w;
}

/* Logits behind the prompt and this output. */
static void compute(search *s, const int32_t *output, int32_t n, float *row)
{
    static float logits[(GOLDEN_MAX_IDS + MAX_NEW) * MAX_VOCAB];
    rig_seq seq = { 0 };
    int32_t ids[GOLDEN_MAX_IDS + MAX_NEW];
    const int32_t all = s->n_prompt + n, vocab = s->g->vocab;
    memcpy(ids, s->prompt, (size_t)s->n_prompt * sizeof(*ids));
    memcpy(ids + s->n_prompt, output, (size_t)n * sizeof(*ids));
    rig_pass(&s->r, &(rig_piece){ &seq, ids, all }, 1, logits);
    memcpy(row, logits + (int64_t)(all - 1) * vocab, (size_t)vocab * sizeof(*row));
}

static const float *look_at(search *s, const int32_t *output, int32_t n, int32_t beam)
{
    look *l = &s->looks[n][beam];
    if (!l->known || memcmp(l->ids, output, (size_t)n * sizeof(*output)) != 0) {
        compute(s, output, n, l->row);
        memcpy(l->ids, output, (size_t)n * sizeof(*output));
        l->known = true;
    }
    return l->row;
}

static void run_search(search *s, pkv__beams *beams)
{
    static const int32_t nothing[1];
    pkv__beam_next next = { .n_beams = 1 };
    for (int32_t step = 0; next.n_beams > 0; step++) {
        const float *rows[N_BEAMS];
        assert_true(step < s->max_new);
        for (int32_t b = 0; b < next.n_beams; b++) {
            const int32_t *output = nothing;
            if (step > 0) assert_int_equal(pkv__beam_output(beams, b, &output), step);
            rows[b] = look_at(s, output, step, b);
        }
        pkv__beam_advance(beams, rows, &next);
    }
}

static bool ends_with(const search *s, int32_t id)
{
    for (int32_t i = 0; i < s->n_ends; i++)
        if (s->ends[i] == id) return true;
    return false;
}

static void check_result(const search *s, const json_t *want, pkv__beams *beams, const char *what)
{
    const json_t *all = json_object_get(want, "ids"), *scores = json_object_get(want, "scores");
    assert_int_equal(json_array_size(all), N_BEAMS);
    assert_int_equal(pkv__beam_n_results(beams), N_BEAMS);
    for (int32_t rank = 0; rank < N_BEAMS; rank++) {
        int32_t ids[MAX_NEW];
        const int32_t *got;
        int32_t n_got;
        float score;
        pkv_finish finish;
        const int32_t n = golden_ints(json_array_get(all, (size_t)rank), ids, MAX_NEW);
        const double want_score = json_number_value(json_array_get(scores, (size_t)rank));
        pkv__beam_result(beams, rank, &got, &n_got, &score, &finish);
        if (n_got != n || memcmp(got, ids, (size_t)n * sizeof(*ids)) != 0)
            fail_msg("%s, %s: rank %d has other ids (%d of them, not %d)", s->g->name, what, rank,
                     n_got, n);
        if (!(fabs(score - want_score) <= SCORE * fabs(want_score)))
            fail_msg("%s, %s: rank %d: score %f, not %f", s->g->name, what, rank, (double)score,
                     want_score);
        assert_int_equal(finish, ends_with(s, ids[n - 1]) ? PKV_FINISH_STOP : PKV_FINISH_LENGTH);
    }
}

static void check_model(const char *name)
{
    golden g = golden_open(name);
    pkv__weights w = load(&g);
    const json_t *all = json_object_get(g.root, "beams");
    const json_t *searches = json_object_get(all, "searches");
    static search s;
    memset(&s, 0, sizeof(s));
    s.g = &g;
    s.n_prompt = golden_ints(json_object_get(all, "prompt"), s.prompt, GOLDEN_MAX_IDS);
    s.n_ends = golden_ints(json_object_get(all, "end_ids"), s.ends, GOLDEN_MAX_IDS);
    s.max_new = (int32_t)json_integer_value(json_object_get(all, "max_new"));
    assert_true(json_array_size(searches) == 8 && s.max_new <= MAX_NEW && g.vocab <= MAX_VOCAB);
    rig_make(&s.r, &w, &(rig_options){ PKV_ISA_BEST, 1, 8, PKV_F32, 4, false },
             2 * N_BEAMS * s.max_new * (s.n_prompt + s.max_new));
    for (size_t k = 0; k < json_array_size(searches); k++) {
        const json_t *one = json_array_get(searches, k);
        char what[64];
        pkv__beams *beams;
        const pkv__beam_config cfg = {
            .width = N_BEAMS,
            .n_return = N_BEAMS,
            .max_new = s.max_new,
            .vocab = g.vocab,
            .length_penalty = (float)json_number_value(json_object_get(one, "length_penalty")),
            .early_stopping = json_is_true(json_object_get(one, "early_stopping")),
            .end_ids = s.ends,
            .n_end_ids = s.n_ends,
        };
        snprintf(what, sizeof(what), "penalty %g%s", (double)cfg.length_penalty,
                 cfg.early_stopping ? ", early" : "");
        assert_int_equal(pkv__beam_create(&cfg, NULL, &beams), PKV_OK);
        run_search(&s, beams);
        check_result(&s, one, beams, what);
        pkv__beam_destroy(beams);
    }
    rig_drop(&s.r);
    pkv__weights_free(&w);
    golden_close(&g);
}

static void default_angles(void **state)
{
    (void)state;
    check_model("llama2");
}

static void llama3_angles(void **state)
{
    (void)state;
    check_model("llama3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_angles),
        cmocka_unit_test(llama3_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
