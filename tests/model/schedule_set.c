/* Requests of every kind, and what each has to get. */
#include "schedule_rig.h"

#include "tok_make.h"

static int32_t below(pkv__rng *rng, int32_t n)
{
    return (int32_t)pkv__rng_below(rng, (uint32_t)n);
}

/* ---------------------------------------------------------------- models */

static pkv_model *small_model(uint64_t seed, int32_t vocab)
{
    pkv_model *model = NULL;
    pkv_model_shape shape = PKV_MODEL_SHAPE_INIT;
    shape.vocab = vocab;
    shape.hidden = 32;
    shape.n_layers = 2;
    shape.n_heads = 4;
    shape.n_kv_heads = 2;
    shape.head_dim = 8;
    shape.ffn = 40;
    shape.context = 64;
    assert_int_equal(pkv_model_random(&shape, seed, PKV_F32, NULL, NULL, &model), PKV_OK);
    return model;
}

static bool have_stories(void)
{
    const char *folder = getenv("PKV_SHARED");
    char path[1024];
    if (!folder) folder = getenv("PKV_SHARED_DEFAULT");
    snprintf(path, sizeof(path), "%s/" STORIES "stories260K.bin", folder ? folder : "");
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}

static void open_model(request_set *set)
{
    bytes file = { 0 };
    if (set->number % 10 == 9 && have_stories()) {
        set->model = rig_stories("stories260K.bin");
        set->tok = rig_stories_tokenizer();
    } else if (set->number % 2 == 0) {
        set->model = small_model(set->number, 64);
    } else {
        make_spm(&file);
        set->model = small_model(set->number, 265);
        set->tok = open_bytes(&file, "tokenizer.model", NULL);
        bytes_free(&file);
    }
}

/* ---------------------------------------------------------------- requests */

/* The beginning of a stream, and sometimes an end of its own. Lengths like those of blocks. */
static void draw_prompt(const request_set *set, pkv__rng *rng, known *k)
{
    const int32_t block = 1 << below(rng, 5);
    int32_t n = 1 + below(rng, 44);
    if (below(rng, 2)) n = block * (1 + below(rng, 3)) + below(rng, 3) - 1;
    n = pkv__max_i32(1, pkv__min_i32(n, SET_CONTEXT - 10));
    memcpy(k->ids, set->streams[below(rng, 3)], sizeof(k->ids));
    if (below(rng, 3) == 0)
        rig_draw(pkv__rng_u64(rng), set->plain.vocab, k->ids, 1 + below(rng, n));
    if (below(rng, 3) == 0) {
        const int32_t same = below(rng, n);
        rig_draw(pkv__rng_u64(rng), set->plain.vocab, k->ids + same, n - same);
    }
    k->request = rig_request(k->ids, n, 1 + below(rng, 22));
    if (below(rng, 8) == 0) k->request.max_new = 1;
}

static void draw_sampling(const request_set *set, pkv__rng *rng, known *k)
{
    pkv_sampling *s = &k->request.sampling;
    if (below(rng, 4) == 0) {
        k->request.sampling.bias = k->bias;
        s->n_bias = 1 + below(rng, 3);
        for (int32_t i = 0; i < s->n_bias; i++)
            k->bias[i] = (pkv_logit_bias){ (i * 20 + below(rng, 20)) % set->plain.vocab,
                                           below(rng, 3) == 0 ? -INFINITY : 1.5f };
    }
    if (k->request.beams > 1) return;
    if (below(rng, 2)) s->n_logprobs = below(rng, PLAIN_MAX_TOPS + 1);
    s->logprobs_scaled = below(rng, 2) == 1;
    if (below(rng, 3) == 0) s->frequency_penalty = 0.4f;
    if (below(rng, 4) == 0) s->presence_penalty = -0.3f;
    if (below(rng, 4) == 0) s->repeat_penalty = 1.3f;
    if (below(rng, 3) == 0) return; /* greedy */
    s->temperature = 0.5f + 0.5f * (float)below(rng, 4);
    s->seed = pkv__rng_u64(rng);
    if (k->request.n <= 1 && below(rng, 6) == 0) {
        s->xorshift_llama2 = true;
        s->seed |= 1;
        return;
    }
    if (below(rng, 3) == 0) s->top_k = 1 + below(rng, 30);
    if (below(rng, 3) == 0) s->top_p = 0.7f;
    if (below(rng, 4) == 0) s->min_p = 0.05f;
}

/* Ends that are reached: of tokens and texts that come without them. */
static void draw_stop_ids(const request_set *set, pkv__rng *rng, known *k)
{
    const int32_t n = k->want.n;
    const want_sample *s = &k->want.sample[below(rng, n)];
    k->request.stop_ids = k->stop_ids;
    if (n > 1 && below(rng, 4)) {
        /* All but one end early: the first goes on as often as all others together. */
        const int32_t goes_on = below(rng, 2) ? 0 : below(rng, n);
        for (int32_t i = 0; i < n; i++) {
            s = &k->want.sample[i];
            if (i == goes_on || s->n == 0) continue;
            k->stop_ids[k->request.n_stop_ids++] = s->ids[below(rng, pkv__min_i32(s->n, 3))];
        }
        return;
    }
    if (s->n == 0 || below(rng, 3)) return;
    k->request.n_stop_ids = 2;
    k->stop_ids[0] = below(rng, set->plain.vocab);
    k->stop_ids[1] = s->ids[below(rng, s->n)];
}

static void draw_stop_texts(pkv__rng *rng, known *k)
{
    const want_sample *s = &k->want.sample[below(rng, k->want.n)];
    if (k->request.beams > 1 || s->n_text < 3 || below(rng, 2)) return;
    int32_t at = below(rng, s->n_text), n = 1 + below(rng, 8), end = at + n;
    while (at > 0 && ((uint8_t)s->text[at] & 0xc0) == 0x80) at--;
    end = pkv__min_i32(end, s->n_text);
    while (end < s->n_text && ((uint8_t)s->text[end] & 0xc0) == 0x80) end++;
    memcpy(k->stop_text[0], s->text + at, (size_t)(end - at));
    k->stop_text[0][end - at] = 0;
    if (memchr(k->stop_text[0], 0, (size_t)(end - at))) return;
    snprintf(k->stop_text[1], sizeof(k->stop_text[1]), "ab");
    for (int32_t i = 0; i < 2; i++) k->stop_texts[i] = k->stop_text[i];
    k->request.stop_texts = k->stop_texts;
    k->request.n_stop_texts = 2;
}

static void draw_known(request_set *set, int32_t i)
{
    known *k = &set->known[i];
    pkv__rng rng;
    pkv__rng_init(&rng, set->number, 41, (uint32_t)i);
    draw_prompt(set, &rng, k);
    if (below(&rng, 3) == 0) k->request.n = 2 + below(&rng, 3);
    if (below(&rng, 7) == 0) {
        k->request.beams = 2 + below(&rng, 3);
        k->request.n = 1 + below(&rng, k->request.beams);
        k->request.length_penalty = 0.5f * (float)below(&rng, 4);
        k->request.early_stopping = below(&rng, 2) == 1;
    }
    draw_sampling(set, &rng, k);
    k->request.ignore_eos = below(&rng, 4) == 0;
    plain_run(&set->plain, &k->request, &k->want);
    draw_stop_ids(set, &rng, k);
    draw_stop_texts(&rng, k);
    plain_run(&set->plain, &k->request, &k->want);
}

void set_open(request_set *set, uint64_t number)
{
    static const pkv_dtype types[] = { PKV_F32, PKV_F16, PKV_BF16, PKV_I8, PKV_E4M3 };
    memset(set, 0, sizeof(*set));
    set->number = number;
    set->kv_dtype = types[number % PKV_ARRAY_LEN(types)];
    set->isa = number / 2 % 2 == 0 ? PKV_ISA_BEST : PKV_ISA_SCALAR;
    open_model(set);
    plain_open(&set->plain, set->model, set->tok, set->kv_dtype, set->isa, SET_CONTEXT);
    for (int32_t i = 0; i < 3; i++)
        rig_draw(number * 3 + (uint64_t)i, set->plain.vocab, set->streams[i], SET_CONTEXT);
    for (int32_t i = 0; i < SET_REQUESTS; i++) draw_known(set, i);
}

void set_close(request_set *set)
{
    plain_close(&set->plain);
    pkv_tokenizer_close(set->tok);
    pkv_model_close(set->model);
}
