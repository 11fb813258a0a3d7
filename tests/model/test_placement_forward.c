/* A pass over regions has the bits of a pass over blocks: for every level and KV type, chunked,
 * with two sequences in a pass, and behind a fork. */
#include "forward_rig.h"
#include "model/placement.h"

enum { N_PROMPT = 37, N_MORE = 9, N_TOKENS = N_PROMPT + N_MORE, BLOCK_TOKENS = 16, WIDTH = 8 };

static const pkv_placement kinds[] = { PKV_PLACE_PAGED, PKV_PLACE_MAX, PKV_PLACE_REQUEST,
                                       PKV_PLACE_POW2 };

/* Sequences in a pass: `n` tokens of each. */
typedef struct piece {
    int32_t seq;
    const int32_t *tokens; /* of the sequence, from 0 */
    int32_t n;
} piece;

static void pass(rig *r, pkv__placement *p, const piece *pieces, int32_t n_pieces, float **logits)
{
    int32_t tokens[MAX_BATCH], positions[MAX_BATCH], rows[MAX_BATCH], q_indptr[3] = { 0 };
    int32_t kv_len[2], tables[2][WIDTH] = { { 0 } }, n = 0;
    int64_t slots[MAX_BATCH];
    static float out[MAX_BATCH * 128];
    const int32_t vocab = r->w->config.vocab;
    for (int32_t k = 0; k < n_pieces; k++) {
        const int32_t first = p->ops->committed(p, pieces[k].seq);
        int32_t n_ids;
        assert_int_equal(p->ops->reserve(p, &pieces[k].seq, &pieces[k].n, 1), PKV_OK);
        p->ops->slots(p, pieces[k].seq, first, pieces[k].n, slots + n);
        const int32_t *ids = p->ops->row(p, pieces[k].seq, &n_ids);
        memcpy(tables[k], ids, (size_t)n_ids * sizeof(*ids));
        for (int32_t i = 0; i < pieces[k].n; i++, n++) {
            tokens[n] = pieces[k].tokens[first + i];
            positions[n] = first + i;
            rows[n] = n;
        }
        kv_len[k] = first + pieces[k].n;
        q_indptr[k + 1] = n;
    }
    const pkv__batch batch = { n,      n_pieces,      n,     tokens, positions, slots, q_indptr,
                               kv_len, &tables[0][0], WIDTH, rows };
    assert_int_equal(p->ops->step_begin(p), PKV_OK);
    const pkv_status status = pkv__forward_run(r->fwd, &batch, p->k_views, p->v_views, out);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), r->log.text);
    for (int32_t k = 0; k < n_pieces; k++) {
        const int32_t first = p->ops->committed(p, pieces[k].seq);
        memcpy(logits[k] + (size_t)first * vocab, out + (size_t)q_indptr[k] * vocab,
               (size_t)pieces[k].n * vocab * sizeof(float));
        assert_int_equal(p->ops->commit(p, pieces[k].seq, pieces[k].tokens + first, pieces[k].n),
                         PKV_OK);
    }
    assert_int_equal(p->ops->step_retire(p), PKV_OK);
}

static void expect_bits(const rig *r, const char *what, const float *got, const float *want,
                        int32_t first)
{
    const size_t vocab = (size_t)r->w->config.vocab;
    for (size_t i = (size_t)first * vocab; i < N_TOKENS * vocab; i++)
        if (memcmp(&got[i], &want[i], sizeof(float)) != 0)
            fail_msg("%s: logit %zu of token %zu is %a, over blocks %a", what, i % vocab, i / vocab,
                     (double)got[i], (double)want[i]);
}

static void run_over(rig *r, pkv_placement kind, pkv_dtype dtype, int32_t tokens[2][N_TOKENS],
                     float *const want[2])
{
    const pkv__model_config *c = &r->w->config;
    const size_t bytes_of = (size_t)N_TOKENS * (size_t)c->vocab * sizeof(float);
    float *got[3] = { malloc(bytes_of), malloc(bytes_of), malloc(bytes_of) };
    int32_t seqs[2], child, claimed;
    char what[64];
    last_log log;
    pkv__placement *p = NULL;
    const pkv__placement_config cfg = { .kind = kind,
                                        .backend = r->be,
                                        .shape = { c->n_layers, c->n_kv_heads, c->head_dim,
                                                   BLOCK_TOKENS, dtype },
                                        .n_blocks = 3 * WIDTH + 1,
                                        .max_seqs = 3,
                                        .max_context = WIDTH * BLOCK_TOKENS,
                                        .prefix_cache = true,
                                        .log = log_to(&log) };
    assert_int_equal(pkv__placement_create(&cfg, &p), PKV_OK);
    for (int32_t k = 0; k < 2; k++)
        assert_int_equal(
            p->ops->admit(p, tokens[k], N_PROMPT, N_TOKENS, 2 - k, 0, &seqs[k], &claimed), PKV_OK);
    for (int32_t at = 0; at < N_PROMPT; at += 19) {
        const int32_t n = pkv__min_i32(19, N_PROMPT - at);
        pass(r, p, (piece[]){ { seqs[0], tokens[0], n }, { seqs[1], tokens[1], n } }, 2, got);
    }
    assert_int_equal(p->ops->fork(p, seqs[0], &child, 1), PKV_OK);
    for (int32_t i = 0; i < N_MORE; i++) {
        pass(r, p, (piece[]){ { seqs[0], tokens[0], 1 }, { seqs[1], tokens[1], 1 } }, 2, got);
        pass(r, p, (piece[]){ { child, tokens[0], 1 } }, 1, got + 2);
    }
    snprintf(what, sizeof(what), "kind %d, %s", (int)kind, pkv_dtype_name(dtype));
    for (int32_t k = 0; k < 2; k++) expect_bits(r, what, got[k], want[k], 0);
    expect_bits(r, what, got[2], want[0], N_PROMPT);
    assert_int_equal(p->ops->check(p), PKV_OK);
    p->ops->destroy(p);
    for (int32_t k = 0; k < 3; k++) free(got[k]);
}

static void same_bits_everywhere(void **state)
{
    (void)state;
    const uint64_t seed = first_seed();
    const pkv__model_config c = small_config(4, 2, 16);
    pkv__weights w = small_weights(&c, seed, PKV_F32);
    pkv_isa levels[8];
    int32_t tokens[2][N_TOKENS];
    const int32_t n_levels = rig_levels(levels);
    draw_tokens(seed, c.vocab, tokens[0], N_TOKENS);
    draw_tokens(seed + 1, c.vocab, tokens[1], N_TOKENS);
    for (int32_t l = 0; l < n_levels; l++) {
        for (int32_t d = 0; d < PKV_DTYPE_COUNT; d++) {
            rig r;
            float *want[2];
            const rig_options o = { levels[l], 1, BLOCK_TOKENS, (pkv_dtype)d, seed, false };
            rig_make(&r, &w, &o, 2 * N_TOKENS);
            for (int32_t k = 0; k < 2; k++) {
                want[k] = malloc((size_t)N_TOKENS * (size_t)c.vocab * sizeof(float));
                rig_run(&r, tokens[k], N_TOKENS, N_TOKENS, want[k]);
            }
            for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++)
                run_over(&r, kinds[k], (pkv_dtype)d, tokens, want);
            for (int32_t k = 0; k < 2; k++) free(want[k]);
            rig_drop(&r);
        }
    }
    pkv__weights_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
