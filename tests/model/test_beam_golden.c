/* Beam searches against those of Hugging Face Transformers (scripts/make_beam_goldens.py). */
#include "beam_rig.h"

#include <jansson.h>

static json_t *need(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!value) fail_msg("the golden has no %s", key);
    return value;
}

static int32_t whole(const json_t *object, const char *key)
{
    return (int32_t)json_integer_value(need(object, key));
}

static int32_t read_ints(const json_t *list, int32_t *out)
{
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value) out[i] = (int32_t)json_integer_value(value);
    return (int32_t)json_array_size(list);
}

static void read_case(const json_t *c, beam_model *model, pkv__beam_config *cfg)
{
    *model = (beam_model){ .seed = (uint64_t)json_integer_value(need(c, "seed")),
                           .vocab = whole(c, "vocab"),
                           .boost = (float)json_number_value(need(c, "boost")) };
    model->n_ends = read_ints(need(c, "ends"), model->ends);
    assert_int_equal(read_ints(need(c, "prompt"), model->prompt), 2);
    *cfg = beam_config(model, whole(c, "width"), whole(c, "max_new"));
    cfg->length_penalty = (float)json_number_value(need(c, "penalty"));
    cfg->early_stopping = json_is_true(need(c, "early"));
}

static bool is_end(const beam_model *model, int32_t id)
{
    for (int32_t i = 0; i < model->n_ends; i++)
        if (model->ends[i] == id) return true;
    return false;
}

/* The other program writes its first ending token wherever one ended. */
static void expect_result(size_t at, const beam_model *model, const beam_found *got,
                          const json_t *want)
{
    int32_t ids[BEAM_MAX_NEW];
    const int32_t n = read_ints(need(want, "ids"), ids);
    const bool ended = is_end(model, ids[n - 1]);
    assert_int_equal(got->finish, ended ? PKV_FINISH_STOP : PKV_FINISH_LENGTH);
    if (got->n_ids != n || memcmp(got->ids, ids, (size_t)(n - ended) * sizeof(*ids)) != 0)
        fail_msg("case %zu: other tokens", at);
    assert_int_equal(is_end(model, got->ids[n - 1]), ended);
    const json_t *score = need(want, "score");
    if (json_is_null(score)) return; /* a greedy run */
    const double s = json_number_value(score);
    /* Theirs are sums of float32. */
    if (fabs(s - (double)got->score) > 2e-6 * fmax(1, fabs(s)))
        fail_msg("case %zu: score %.9g, not %.9g", at, (double)got->score, s);
}

static void same_as_transformers(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(PKV_GOLDENS "/beam_hf.json", 0, &error), *c;
    if (!root) fail_msg("%s", error.text);
    size_t at;
    int n_ended = 0, n_live = 0;
    json_array_foreach(need(root, "cases"), at, c)
    {
        beam_model model;
        pkv__beam_config cfg;
        beam_found found[PKV__MAX_BEAMS];
        read_case(c, &model, &cfg);
        const json_t *results = need(c, "results");
        const int32_t n = beam_search(&model, &cfg, found);
        assert_int_equal(n, json_array_size(results));
        for (int32_t i = 0; i < n; i++) {
            expect_result(at, &model, &found[i], json_array_get(results, (size_t)i));
            if (found[i].finish == PKV_FINISH_STOP) n_ended++;
            else n_live++;
        }
    }
    assert_true(at >= 100 && n_ended >= 100 && n_live >= 100);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
