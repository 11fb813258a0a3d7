/* Callers that are within their rights: a clock that begins at zero, figures asked for while a
 * request is handed in, callbacks that hand in more than there is room for. */
#include "engine_rig.h"

#include "tok_make.h"

/* ---------------------------------------------------------------- a clock at zero */

static void clock_at_zero(void **state)
{
    (void)state;
    engine_rig r;
    int32_t ids[6];
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    r.now_ns = r.tick_ns = 0;
    rig_draw(1, 97, ids, 6);
    pkv_request request = rig_request(ids, 6, 3);
    const got *g = rig_submit(&r, &request);
    request.sampling.temperature = 1;
    rig_submit(&r, &request);
    rig_run(&r);
    assert_true(g->result.ttft_ms == 0 && g->result.tpot_ms == 0);
    const pkv_engine_stats s = rig_stats(&r);
    assert_int_equal(s.ttft.n, 2);
    assert_int_equal(s.itl.n, 4);
    assert_int_equal(s.latency.n, 2);
    assert_true(s.elapsed_s == 0);
    /* Beams, too: one first token per request, whatever is told then. */
    request = rig_request(ids, 6, 3);
    request.beams = request.n = 2;
    g = rig_submit(&r, &request);
    rig_run(&r);
    assert_true(g->result.ttft_ms == 0);
    assert_int_equal(rig_stats(&r).ttft.n, 3);
    r.tick_ns = 1000000;
    r.now_ns = 0;
    request = rig_request(ids, 6, 4);
    rig_submit(&r, &request);
    rig_run(&r);
    assert_true(fabs(rig_stats(&r).elapsed_s - 3e-3) < 1e-12); /* since the very first step */
    rig_close(&r);
}

/* ---------------------------------------------------------------- figures in a submit */

/* Steps the engine when the ids of a text are given back: the request is in, and submit has not
 * answered. */
typedef struct stepping_memory {
    counted_memory counted;
    pkv_allocator inner;
    pkv_engine *engine; /* NULL: not now */
    int32_t n_steps;
} stepping_memory;

static void *alloc_plain(void *ctx, size_t n, size_t align)
{
    stepping_memory *m = ctx;
    return m->inner.alloc(m->inner.ctx, n, align);
}

static void free_and_step(void *ctx, void *ptr, size_t n)
{
    stepping_memory *m = ctx;
    pkv_engine *engine = m->engine;
    m->inner.free(m->inner.ctx, ptr, n);
    if (!engine) return;
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    pkv_engine_stats s = PKV_ENGINE_STATS_INIT;
    m->engine = NULL;
    do {
        assert_int_equal(pkv_engine_step(engine, &report), PKV_OK);
        m->n_steps++;
        assert_int_equal(pkv_engine_get_stats(engine, &s), PKV_OK);
        assert_true(s.n_finished[PKV_FINISH_LENGTH] <= s.n_submitted);
    } while (report.n_unfinished > 0);
    assert_int_equal(s.n_finished[PKV_FINISH_LENGTH], 1);
}

static void figures_in_a_submit(void **state)
{
    (void)state;
    static stepping_memory m;
    bytes file = { 0 };
    pkv_model *model = NULL;
    pkv_engine *engine = NULL;
    pkv_request_id id;
    pkv_model_shape shape = PKV_MODEL_SHAPE_INIT;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    pkv_engine_stats s = PKV_ENGINE_STATS_INIT;
    make_spm(&file);
    pkv_tokenizer *tok = open_bytes(&file, "tokenizer.model", NULL);
    bytes_free(&file);
    shape.vocab = 265;
    shape.hidden = shape.ffn = 16;
    shape.n_layers = shape.n_heads = shape.n_kv_heads = 1;
    shape.head_dim = 16;
    shape.context = 32;
    assert_int_equal(pkv_model_random(&shape, 1, PKV_F32, NULL, NULL, &model), PKV_OK);
    m.inner = count_memory(&m.counted, 1000000);
    cfg.model = model;
    cfg.tokenizer = tok;
    cfg.kv_bytes = 1 << 20;
    cfg.max_queue = 4;
    cfg.alloc = (pkv_allocator){ alloc_plain, free_and_step, &m };
    assert_int_equal(pkv_engine_create(&cfg, &engine), PKV_OK);
    pkv_request request = PKV_REQUEST_INIT;
    request.text = "ab aa";
    request.n_text = 5;
    request.max_new = 3;
    request.ignore_eos = true;
    m.engine = engine;
    assert_int_equal(pkv_engine_submit(engine, &request, &id), PKV_OK);
    assert_true(m.n_steps >= 3);
    assert_int_equal(pkv_engine_get_stats(engine, &s), PKV_OK);
    assert_int_equal(s.n_submitted, 1);
    pkv_engine_destroy(engine);
    assert_int_equal(m.counted.n_live, 0);
    pkv_tokenizer_close(tok);
    pkv_model_close(model);
}

/* ---------------------------------------------------------------- callbacks */

static struct {
    pkv_request request;
    int32_t n_in, n_full;
} more;

/* Two more for each that ends, until there were enough; and a cancel of the latest. */
static void hand_in_more(got *g, const pkv_token_event *event)
{
    pkv_request_id id = 0;
    if (!event->result) return;
    for (int32_t i = 0; i < 2 && more.n_in < 40; i++) {
        if (g->rig->engine == NULL) return;
        const pkv_status status = pkv_engine_submit(g->rig->engine, &more.request, &id);
        if (status == PKV_E_LIMIT) {
            more.n_full++;
            continue;
        }
        assert_int_equal(status, PKV_OK);
        more.n_in++;
        if (more.n_in % 3 == 0) assert_int_equal(pkv_engine_cancel(g->rig->engine, id), PKV_OK);
    }
}

static void relay(void *ctx, const pkv_token_event *event)
{
    hand_in_more(ctx, event);
}

static void submits_from_inside(void **state)
{
    (void)state;
    engine_rig r;
    int32_t ids[6];
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_queue = 3;
    cfg.max_seqs = 2;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    r.submits_in_step = true;
    rig_draw(1, 97, ids, 6);
    const pkv_request request = rig_request(ids, 6, 2);
    got *g = rig_submit(&r, &request);
    g->also = hand_in_more;
    more.request = request;
    more.request.on_token = relay;
    more.request.ctx = g;
    rig_run(&r);
    const pkv_engine_stats s = rig_stats(&r);
    assert_true(more.n_in > 4 && more.n_full > 0);
    assert_int_equal(s.n_submitted, 1 + more.n_in);
    assert_int_equal(s.n_refused, more.n_full);
    assert_int_equal(s.n_finished[PKV_FINISH_LENGTH] + s.n_finished[PKV_FINISH_CANCEL],
                     1 + more.n_in);
    assert_int_equal(s.n_finished[PKV_FINISH_CANCEL], more.n_in / 3);
    rig_close(&r);
}

/* ---------------------------------------------------------------- memory */

/* Every part of engines with a host pool, threads, regions: taken, or nothing is. */
static void memory_for_every_part(void **state)
{
    (void)state;
    pkv_model *model = rig_tiny_model(3);
    for (int32_t k = 0; k < 4; k++) {
        counted_memory memory;
        pkv_engine *engine = NULL;
        pkv_status status = PKV_E_NO_MEMORY;
        long n = 0;
        for (; status != PKV_OK; n++) {
            pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
            cfg.model = model;
            cfg.placement = (pkv_placement)k;
            cfg.kv_bytes = 4 << 20;
            cfg.swap_bytes = k == 0 ? 1 << 20 : 0;
            cfg.n_threads = 1 + k % 2;
            cfg.fast = k == 2;
            cfg.max_queue = 4;
            cfg.alloc = count_memory(&memory, n);
            assert_null(engine);
            status = pkv_engine_create(&cfg, &engine);
            if (status == PKV_OK) continue;
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_int_equal(memory.n_live, 0);
        }
        assert_true(n > 8);
        pkv_engine_destroy(engine);
        assert_int_equal(memory.n_live, 0);
    }
    pkv_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_at_zero),
        cmocka_unit_test(figures_in_a_submit),
        cmocka_unit_test(submits_from_inside),
        cmocka_unit_test(memory_for_every_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
