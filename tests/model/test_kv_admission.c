/* The calculator says how many sequences fit; the engine admits exactly so many. A thousand random
 * models, types of K and V, blocks and memories: prompts of `tokens` tokens that want one more, and
 * how many of them run in the first step. */
#include "common/philox.h"
#include "model_test.h"
#include "pagedkv/engine.h"
#include "pagedkv/kv_size.h"

#define N_CASES 1000
#define MORE 3 /* requests beyond those that fit */

static int32_t between(pkv__rng *rng, int32_t low, int32_t high)
{
    return low + (int32_t)pkv__rng_below(rng, (uint32_t)(high - low + 1));
}

/* What is asked in one case. */
typedef struct question {
    pkv_model_shape shape;
    pkv_kv_geometry geometry;
    pkv_kv_budget budget;
} question;

static question draw(pkv__rng *rng)
{
    question q = { PKV_MODEL_SHAPE_INIT, PKV_KV_GEOMETRY_INIT, PKV_KV_BUDGET_INIT };
    pkv_kv_size size = PKV_KV_SIZE_INIT;
    pkv_model_shape *s = &q.shape;
    s->vocab = 16, s->hidden = 8, s->ffn = 8, s->context = 400;
    s->n_layers = between(rng, 1, 3);
    s->n_kv_heads = between(rng, 1, 3);
    s->n_heads = s->n_kv_heads * between(rng, 1, 2);
    s->head_dim = 8 * between(rng, 1, 3);
    q.geometry.n_layers = s->n_layers;
    q.geometry.n_kv_heads = s->n_kv_heads;
    q.geometry.head_dim = s->head_dim;
    q.geometry.dtype = (pkv_dtype)between(rng, 0, PKV_DTYPE_COUNT - 1);
    q.budget.block_tokens = between(rng, 1, 40);
    q.budget.tokens = q.budget.max_tokens = between(rng, 1, 200);
    /* The null block, some sequences, a part of another, a part of a block. */
    const pkv_status status = pkv_kv_size_of(&q.geometry, &q.budget, NULL, &size);
    assert_int_equal(status, PKV_E_NEVER); /* there is no memory yet */
    const size_t n = (size_t)between(rng, 0, 12);
    q.budget.memory_bytes =
        size.block_bytes + n * size.seq_bytes + pkv__rng_below(rng, (uint32_t)size.seq_bytes);
    return q;
}

static pkv_engine *open_engine(const question *q, const pkv_model *model, const pkv_kv_size *size,
                               pkv_status *status)
{
    pkv_engine *engine = NULL;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.model = model;
    cfg.kv_dtype = q->geometry.dtype;
    cfg.block_tokens = q->budget.block_tokens;
    cfg.kv_bytes = q->budget.memory_bytes;
    cfg.max_seqs = (int32_t)size->max_seqs + MORE;
    cfg.max_batch_tokens = cfg.max_seqs;
    cfg.chunk_tokens = 1; /* all of them have a turn in the first step */
    cfg.max_context = q->budget.tokens + 1;
    cfg.watermark_blocks = 0;
    cfg.no_prefix_cache = true;
    *status = pkv_engine_create(&cfg, &engine);
    return engine;
}

static pkv_status submit(pkv_engine *engine, const question *q)
{
    int32_t ids[200];
    pkv_request_id id;
    pkv_request request = PKV_REQUEST_INIT;
    for (int32_t k = 0; k < q->budget.tokens; k++) ids[k] = k % q->shape.vocab;
    request.ids = ids;
    request.n_ids = q->budget.tokens;
    request.max_new = 1;
    return pkv_engine_submit(engine, &request, &id);
}

/* How many the engine runs at a time. */
static int64_t admitted(const question *q, const pkv_kv_size *size)
{
    pkv_model *model = NULL;
    pkv_status status;
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    pkv_engine_stats stats = PKV_ENGINE_STATS_INIT;
    assert_int_equal(pkv_model_random(&q->shape, 1, PKV_F32, NULL, NULL, &model), PKV_OK);
    pkv_engine *engine = open_engine(q, model, size, &status);
    if (status == PKV_OK) status = submit(engine, q);
    for (int64_t k = 1; status == PKV_OK && k < size->max_seqs + MORE; k++)
        status = submit(engine, q);
    if (status == PKV_OK) {
        assert_int_equal(pkv_engine_step(engine, &report), PKV_OK);
        assert_int_equal(pkv_engine_get_stats(engine, &stats), PKV_OK);
        assert_int_equal(pkv_engine_check(engine), PKV_OK);
    } else {
        assert_int_equal(status, PKV_E_NEVER); /* not two blocks, or not one sequence */
    }
    pkv_engine_destroy(engine);
    pkv_model_close(model);
    return stats.peak_seqs;
}

static void engine_admits_what_the_calculator_says(void **state)
{
    (void)state;
    pkv__rng rng;
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 20260601;
    int n_never = 0, n_many = 0;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    pkv__rng_init(&rng, seed, 0, 0);
    for (int k = 0; k < N_CASES; k++) {
        const question q = draw(&rng);
        pkv_kv_size size = PKV_KV_SIZE_INIT;
        const pkv_status status = pkv_kv_size_of(&q.geometry, &q.budget, NULL, &size);
        assert_true(status == (size.max_seqs > 0 ? PKV_OK : PKV_E_NEVER));
        const int64_t got = admitted(&q, &size);
        if (got != size.max_seqs)
            fail_msg("case %d of seed %llu: %d layers, %d kv heads of %d, %s, %d tokens in blocks "
                     "of %d, %zu bytes: the engine runs %lld, the calculator says %lld",
                     k, (unsigned long long)seed, q.shape.n_layers, q.shape.n_kv_heads,
                     q.shape.head_dim, pkv_dtype_name(q.geometry.dtype), q.budget.tokens,
                     q.budget.block_tokens, q.budget.memory_bytes, (long long)got,
                     (long long)size.max_seqs);
        n_never += got == 0;
        n_many += got > 5;
    }
    assert_true(n_never > N_CASES / 50 && n_many > N_CASES / 4); /* both ends were seen */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_admits_what_the_calculator_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
