#include "plain_run.h"

#include "model/beam.h"
#include "model/model_handle.h"
#include "model/sampler.h"

enum { BLOCK = 16, MAX_ROW = PLAIN_MAX_TOKENS / BLOCK };

/* ---------------------------------------------------------------- one sequence */

void plain_open(plain *p, pkv_model *model, pkv_tokenizer *tok, pkv_dtype kv_dtype, pkv_isa isa,
                int32_t max_context)
{
    const pkv__weights *w = pkv__model_weights(model);
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    pkv_tokenizer_info tok_info = PKV_TOKENIZER_INFO_INIT;
    pkv_cpu_config cpu = PKV_CPU_CONFIG_INIT;
    pkv_store_config sc = PKV_STORE_CONFIG_INIT;
    *p = (plain){ .model = model, .tok = tok, .max_context = max_context };
    assert_true(max_context <= PLAIN_MAX_TOKENS);
    assert_int_equal(pkv_model_get_info(model, &info), PKV_OK);
    p->vocab = info.vocab;
    p->n_eos = info.n_eos;
    memcpy(p->eos, info.eos, sizeof(info.eos));
    if (tok) {
        assert_int_equal(pkv_tokenizer_get_info(tok, &tok_info), PKV_OK);
        if (tok_info.eos >= 0) p->eos[p->n_eos++] = tok_info.eos;
    }
    cpu.max_isa = isa;
    cpu.n_threads = 1;
    assert_int_equal(pkv_backend_create_cpu(&cpu, &p->backend), PKV_OK);
    sc.shape = (pkv_kv_shape){ info.n_layers, info.n_kv_heads, info.head_dim, BLOCK, kv_dtype };
    p->shape = sc.shape;
    sc.n_blocks = 1 + MAX_ROW;
    assert_int_equal(pkv_store_create(&sc, &p->store), PKV_OK);
    for (int32_t i = 0; i < info.n_layers; i++)
        assert_int_equal(pkv_store_views(p->store, i, &p->k[i], &p->v[i]), PKV_OK);
    const pkv__forward_config fc = { .weights = w,
                                     .backend = p->backend,
                                     .isa = isa,
                                     .max_batch_tokens = PLAIN_MAX_TOKENS,
                                     .max_logit_rows = 1,
                                     .max_positions = max_context };
    assert_int_equal(pkv__forward_create(&fc, &p->forward), PKV_OK);
    assert_int_equal(pkv__sampler_create(info.vocab, NULL, &p->sampler), PKV_OK);
    p->logits = malloc((size_t)PKV__MAX_BEAMS * (size_t)info.vocab * sizeof(float));
    assert_non_null(p->logits);
}

void plain_close(plain *p)
{
    free(p->logits);
    pkv__sampler_destroy(p->sampler);
    pkv__forward_destroy(p->forward);
    pkv_store_destroy(p->store);
    pkv_backend_destroy(p->backend);
}

/* Compute tokens [first, n) of the one sequence there is; logits of the last. */
static void compute(plain *p, const int32_t *ids, int32_t first, int32_t n, float *logits)
{
    int32_t positions[PLAIN_MAX_TOKENS], row[MAX_ROW];
    int64_t slots[PLAIN_MAX_TOKENS];
    const int32_t more = n - first, last = more - 1, indptr[2] = { 0, more };
    assert_true(more > 0 && n <= PLAIN_MAX_TOKENS);
    for (int32_t i = 0; i < more; i++) {
        positions[i] = first + i;
        slots[i] = BLOCK + first + i;
    }
    for (int32_t i = 0; i < MAX_ROW; i++) row[i] = 1 + i;
    const pkv__batch batch = { .n_tokens = more,
                               .n_seqs = 1,
                               .n_logit_rows = 1,
                               .tokens = ids + first,
                               .positions = positions,
                               .slots = slots,
                               .q_indptr = indptr,
                               .kv_len = &n,
                               .block_tables = row,
                               .table_stride = MAX_ROW,
                               .logit_rows = &last };
    assert_int_equal(pkv__forward_run(p->forward, &batch, p->k, p->v, logits), PKV_OK);
}

/* ---------------------------------------------------------------- text */

/* All ids decoded; is_final: with what an unfinished character leaves. */
static int32_t decode(const plain *p, const pkv_request *r, const int32_t *ids, int32_t n,
                      bool is_final, char *out)
{
    pkv_detok d;
    int32_t at = 0, more;
    pkv_detok_init(&d, p->tok, true);
    /* A text that goes on: no space of the tokenizer's is taken away. */
    for (int32_t i = 0; i < r->n_ids; i++) {
        const char *piece;
        bool is_special = false;
        if (pkv_tokenizer_piece(p->tok, r->ids[i], &piece, &more, &is_special) == PKV_OK)
            d.started |= !is_special;
    }
    for (int32_t i = 0; i < n; i++) {
        const pkv_status status = pkv_detok_put(&d, ids[i], out + at, PLAIN_MAX_TEXT - at, &more);
        if (status == PKV_E_RANGE) continue; /* no text for it */
        assert_int_equal(status, PKV_OK);
        at += more;
    }
    if (!is_final) return at;
    assert_int_equal(pkv_detok_flush(&d, out + at, PLAIN_MAX_TEXT - at, &more), PKV_OK);
    return at + more;
}

bool plain_text(const plain *p, const pkv_request *r, const int32_t *ids, int32_t n, bool is_final,
                char *out, int32_t *n_out)
{
    *n_out = 0;
    if (!p->tok) return false;
    const int32_t n_text = decode(p, r, ids, n, is_final, out);
    *n_out = n_text;
    for (int32_t at = 0; at < n_text; at++)
        for (int32_t i = 0; i < r->n_stop_texts; i++) {
            const int32_t n_stop = (int32_t)strlen(r->stop_texts[i]);
            const int32_t n_same = pkv__min_i32(n_stop, n_text - at);
            if (memcmp(out + at, r->stop_texts[i], (size_t)n_same) != 0) continue;
            if (n_same < n_stop) {
                if (is_final) continue;
                bool whole = false; /* another one that begins here may be complete */
                for (int32_t k = 0; k < r->n_stop_texts; k++) {
                    const int32_t n_other = (int32_t)strlen(r->stop_texts[k]);
                    whole |= n_other <= n_text - at &&
                             memcmp(out + at, r->stop_texts[k], (size_t)n_other) == 0;
                }
                if (!whole) return false;
            }
            *n_out = at;
            return true;
        }
    return false;
}

/* ---------------------------------------------------------------- samples */

bool plain_ends(const plain *p, const pkv_request *r, int32_t id)
{
    for (int32_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == id) return true;
    for (int32_t i = 0; i < p->n_eos && !r->ignore_eos; i++)
        if (p->eos[i] == id) return true;
    return false;
}

static int32_t most_new(const plain *p, const pkv_request *r)
{
    return pkv__min_i32(r->max_new, p->max_context - r->n_ids);
}

static pkv_finish at_most(const plain *p, const pkv_request *r)
{
    return most_new(p, r) < r->max_new ? PKV_FINISH_CONTEXT : PKV_FINISH_LENGTH;
}

/* How the sample ends with its last token; text is complete then. */
static pkv_finish end_of(const plain *p, const pkv_request *r, want_sample *s)
{
    const bool is_end = plain_ends(p, r, s->ids[s->n - 1]);
    const int32_t n_shown = is_end ? s->n - 1 : s->n;
    if (!is_end && plain_text(p, r, s->ids, n_shown, false, s->text, &s->n_text))
        return PKV_FINISH_STOP;
    if (!is_end && s->n < most_new(p, r)) return PKV_FINISH_NONE;
    const bool stopped = plain_text(p, r, s->ids, n_shown, true, s->text, &s->n_text);
    return is_end || stopped ? PKV_FINISH_STOP : at_most(p, r);
}

static void run_sample(plain *p, const pkv_request *r, int32_t sample, want_sample *s)
{
    int32_t ids[PLAIN_MAX_TOKENS], first = 0;
    uint64_t xorshift = r->sampling.seed;
    memcpy(ids, r->ids, (size_t)r->n_ids * sizeof(*ids));
    while (s->finish == PKV_FINISH_NONE) {
        pkv__sampled drawn;
        const int32_t n = r->n_ids + s->n;
        assert_true(s->n < PLAIN_MAX_NEW);
        compute(p, ids, first, n, p->logits);
        first = n;
        const pkv__sample_context context = {
            .prompt = r->ids,
            .n_prompt = r->n_ids,
            .output = s->ids,
            .n_output = s->n,
            .sample = sample,
            .xorshift = r->sampling.xorshift_llama2 ? &xorshift : NULL,
        };
        pkv__sample(p->sampler, p->logits, &r->sampling, &context, &drawn);
        assert_true(drawn.n_top <= PLAIN_MAX_TOPS);
        ids[n] = s->ids[s->n] = drawn.id;
        s->logprobs[s->n] = drawn.logprob;
        s->n_tops[s->n] = drawn.n_top;
        memcpy(s->tops[s->n], drawn.top, (size_t)drawn.n_top * sizeof(*drawn.top));
        s->n++;
        s->finish = end_of(p, r, s);
    }
    s->score = NAN;
}

/* ---------------------------------------------------------------- beams */

static pkv__beams *make_beams(const plain *p, const pkv_request *r)
{
    int32_t ends[64 + PKV_MODEL_MAX_EOS + 1], n = 0;
    pkv__beams *beams = NULL;
    for (int32_t i = 0; i < r->n_stop_ids; i++) ends[n++] = r->stop_ids[i];
    for (int32_t i = 0; i < p->n_eos && !r->ignore_eos; i++) ends[n++] = p->eos[i];
    const pkv__beam_config cfg = { .width = r->beams,
                                   .n_return = pkv__max_i32(r->n, 1),
                                   .max_new = most_new(p, r),
                                   .vocab = p->vocab,
                                   .length_penalty = r->length_penalty,
                                   .early_stopping = r->early_stopping,
                                   .end_ids = ends,
                                   .n_end_ids = n,
                                   .bias = r->sampling.bias,
                                   .n_bias = r->sampling.n_bias };
    assert_int_equal(pkv__beam_create(&cfg, NULL, &beams), PKV_OK);
    return beams;
}

static void take_result(const plain *p, const pkv_request *r, const pkv__beams *beams, int32_t rank,
                        want_sample *s)
{
    const int32_t *ids;
    pkv__beam_result(beams, rank, &ids, &s->n, &s->score, &s->finish);
    assert_true(s->n <= PLAIN_MAX_NEW);
    memcpy(s->ids, ids, (size_t)s->n * sizeof(*ids));
    for (int32_t i = 0; i < s->n; i++) s->logprobs[i] = NAN;
    if (s->finish != PKV_FINISH_STOP) s->finish = at_most(p, r);
    const int32_t n_shown = s->finish == PKV_FINISH_STOP ? s->n - 1 : s->n;
    plain_text(p, r, s->ids, n_shown, true, s->text, &s->n_text);
}

/* Every beam anew for every token. */
static void run_beams(plain *p, const pkv_request *r, want *out)
{
    pkv__beams *beams = make_beams(p, r);
    pkv__beam_next next = { .n_beams = 1 };
    for (bool has_begun = false; next.n_beams > 0; has_begun = true) {
        const float *logits[PKV__MAX_BEAMS];
        for (int32_t i = 0; i < next.n_beams; i++) {
            int32_t ids[PLAIN_MAX_TOKENS], n = 0;
            const int32_t *output = NULL;
            memcpy(ids, r->ids, (size_t)r->n_ids * sizeof(*ids));
            if (has_begun) n = pkv__beam_output(beams, i, &output);
            if (n > 0) memcpy(ids + r->n_ids, output, (size_t)n * sizeof(*ids));
            float *row = p->logits + (size_t)i * (size_t)p->vocab;
            compute(p, ids, 0, r->n_ids + n, row);
            logits[i] = row;
        }
        pkv__beam_advance(beams, logits, &next);
    }
    for (int32_t i = 0; i < out->n; i++) {
        if (i < pkv__beam_n_results(beams)) take_result(p, r, beams, i, &out->sample[i]);
        else out->sample[i] = (want_sample){ .finish = at_most(p, r), .score = NAN };
    }
    pkv__beam_destroy(beams);
}

void plain_run(plain *p, const pkv_request *request, want *out)
{
    memset(out, 0, sizeof(*out));
    out->n = pkv__max_i32(request->n, 1);
    assert_true(out->n <= 4);
    if (request->beams > 1) {
        run_beams(p, request, out);
        return;
    }
    for (int32_t i = 0; i < out->n; i++) run_sample(p, request, i, &out->sample[i]);
}
