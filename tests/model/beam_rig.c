#include "beam_rig.h"

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

void beam_logits(const beam_model *model, const int32_t *output, int32_t n, float *out)
{
    const int32_t last = n > 0 ? output[n - 1] : model->prompt[1];
    const int32_t before = n > 1 ? output[n - 2] : model->prompt[n];
    const uint64_t key = mix(mix(mix(model->seed) ^ (uint64_t)before) ^ (uint64_t)last);
    for (int32_t id = 0; id < model->vocab; id++) {
        const int32_t k = (int32_t)(mix(key ^ (uint64_t)id) >> 40);
        out[id] = (float)(k - (1 << 23)) * 0x1p-21f; /* in [-4, 4), exact */
        if (model->n_levels > 0) out[id] = (float)(k % model->n_levels);
        for (int32_t i = 0; i < model->n_ends; i++)
            if (model->ends[i] == id) out[id] += model->boost;
    }
}

pkv__beam_config beam_config(const beam_model *model, int32_t width, int32_t max_new)
{
    return (pkv__beam_config){ .width = width,
                               .n_return = width,
                               .max_new = max_new,
                               .vocab = model->vocab,
                               .length_penalty = 1,
                               .end_ids = model->ends,
                               .n_end_ids = model->n_ends };
}

int32_t beam_run(const beam_model *model, pkv__beams *beams, int32_t max_steps)
{
    static int32_t seqs[PKV__MAX_BEAMS][BEAM_MAX_NEW], forked[PKV__MAX_BEAMS][BEAM_MAX_NEW];
    static float logits[PKV__MAX_BEAMS][BEAM_MAX_VOCAB];
    const float *rows[PKV__MAX_BEAMS];
    pkv__beam_next next = { .n_beams = 1 };
    int32_t n = 0;
    while (next.n_beams > 0 && n < max_steps) {
        const int32_t n_before = next.n_beams;
        for (int32_t b = 0; b < n_before; b++) {
            beam_logits(model, seqs[b], n, logits[b]);
            rows[b] = logits[b];
        }
        pkv__beam_advance(beams, rows, &next);
        assert_true(next.n_beams <= PKV__MAX_BEAMS);
        for (int32_t b = 0; b < next.n_beams; b++) {
            assert_in_range(next.parent[b], 0, n_before - 1);
            memcpy(forked[b], seqs[next.parent[b]], sizeof(forked[b]));
            forked[b][n] = next.token[b];
            const int32_t *ids;
            assert_int_equal(pkv__beam_output(beams, b, &ids), n + 1);
            assert_memory_equal(ids, forked[b], (size_t)(n + 1) * sizeof(*ids));
        }
        memcpy(seqs, forked, sizeof(seqs));
        n++;
    }
    return n;
}

int32_t beam_search(const beam_model *model, const pkv__beam_config *cfg, beam_found *out)
{
    pkv__beams *beams = NULL;
    assert_int_equal(pkv__beam_create(cfg, NULL, &beams), PKV_OK);
    assert_int_equal(pkv__beam_n_results(beams), 0);
    beam_run(model, beams, INT32_MAX);
    const int32_t n = pkv__beam_n_results(beams);
    for (int32_t i = 0; i < n; i++) {
        const int32_t *ids;
        pkv__beam_result(beams, i, &ids, &out[i].n_ids, &out[i].score, &out[i].finish);
        assert_in_range(out[i].n_ids, 1, cfg->max_new);
        memcpy(out[i].ids, ids, (size_t)out[i].n_ids * sizeof(*ids));
        if (i > 0) assert_true(out[i].score <= out[i - 1].score);
    }
    pkv__beam_destroy(beams);
    return n;
}
