/* What create and submit refuse, with which words; and memory that runs out at any of their
 * allocations. */
#include "engine_rig.h"

#include <limits.h>

/* ---------------------------------------------------------------- create */

static void refused_engine(pkv_model *model, const pkv_engine_config *changed, pkv_status want,
                           const char *says)
{
    pkv_engine *engine = NULL;
    last_log log;
    pkv_engine_config cfg = *changed;
    cfg.model = model;
    cfg.log = log_to(&log);
    const pkv_status status = pkv_engine_create(&cfg, &engine);
    if (status != want || !strstr(log.text, says))
        fail_msg("%s, not %s: \"%s\" should say \"%s\"", pkv_status_name(status),
                 pkv_status_name(want), log.text, says);
    assert_null(engine);
    assert_int_equal(log.n_lines, 1);
}

static void create_refusals(void **state)
{
    (void)state;
    pkv_model *model = rig_tiny_model(1);
    pkv_engine_config c;
    pkv_engine *engine = NULL;
#define REFUSED(change, want, says)                                                                \
    c = (pkv_engine_config)PKV_ENGINE_CONFIG_INIT;                                                 \
    change;                                                                                        \
    refused_engine(model, &c, want, says)
    REFUSED(c.kv_dtype = (pkv_dtype)99, PKV_E_INVALID_ARG, "kv_dtype is 99; 0 to 6");
    REFUSED(c.block_tokens = 2049, PKV_E_INVALID_ARG, "block_tokens is 2049; 1 to 2048");
    REFUSED(c.block_tokens = -1, PKV_E_INVALID_ARG, "block_tokens is -1");
    REFUSED(c.n_blocks = -1, PKV_E_INVALID_ARG, "n_blocks is -1");
    REFUSED(c.max_seqs = -1, PKV_E_INVALID_ARG, "max_seqs is -1; 1 to 65536");
    REFUSED(c.max_batch_tokens = 63, PKV_E_INVALID_ARG, "max_batch_tokens is 63; 64 to");
    REFUSED(c.chunk_tokens = -2, PKV_E_INVALID_ARG, "chunk_tokens is -2");
    REFUSED(c.max_queue = -1, PKV_E_INVALID_ARG, "max_queue is -1");
    REFUSED(c.max_context = 513, PKV_E_INVALID_ARG, "max_context is 513; 2 to 512");
    REFUSED(c.watermark_blocks = -2, PKV_E_INVALID_ARG, "watermark_blocks is -2");
    REFUSED((c.watermark_blocks = 20, c.n_blocks = 1 + 20), PKV_E_INVALID_ARG,
            "watermark_blocks is 20 and the pool has 20: nobody would be admitted beside another; "
            "at most 19");
    REFUSED(c.watermark_blocks = INT32_MAX, PKV_E_INVALID_ARG, "watermark_blocks is 2147483647");
    REFUSED(c.preempt = (pkv_preempt)3, PKV_E_INVALID_ARG, "preempt is 3");
    REFUSED(c.placement = (pkv_placement)4, PKV_E_INVALID_ARG, "placement is 4");
    REFUSED(c.n_threads = 1025, PKV_E_INVALID_ARG, "n_threads is 1025");
    REFUSED(c.slo_ttft_ms = -1, PKV_E_INVALID_ARG, "slo_ttft_ms");
    REFUSED(c.slo_tpot_ms = (double)NAN, PKV_E_INVALID_ARG, "slo_tpot_ms");
    REFUSED(c.alloc.alloc = (void *(*)(void *, size_t, size_t))1, PKV_E_INVALID_ARG, "allocator");
    REFUSED(c.n_blocks = 1, PKV_E_NEVER, "");
    REFUSED((c.placement = PKV_PLACE_MAX, c.n_blocks = 3), PKV_E_NEVER, "region");
    refused_engine(NULL, &(pkv_engine_config)PKV_ENGINE_CONFIG_INIT, PKV_E_INVALID_ARG,
                   "model is NULL");
#undef REFUSED
    c = (pkv_engine_config)PKV_ENGINE_CONFIG_INIT;
    c.model = model;
    assert_int_equal(pkv_engine_create(&c, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_create(NULL, &engine), PKV_E_INVALID_ARG);
    c.struct_size--;
    assert_int_equal(pkv_engine_create(&c, &engine), PKV_E_ABI);
    assert_null(engine);
    pkv_engine_destroy(NULL);
    pkv_model_close(model);
}

/* A tokenizer of another model is told about, and refused where it matters. */
static void foreign_tokenizer(void **state)
{
    (void)state;
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    rig_open(&r, rig_tiny_model(1), rig_stories_tokenizer(), &cfg);
    assert_non_null(strstr(r.log.text, "the tokenizer has 512 ids, the model 97"));
    pkv_request q = PKV_REQUEST_INIT;
    q.text = "Once";
    q.n_text = 4;
    q.max_new = 1;
    rig_refused(&r, &q, PKV_E_INVALID_ARG, "id 1 of the prompt is 403");
    rig_close(&r);
}

/* ---------------------------------------------------------------- submit */

static void submit_refusals(void **state)
{
    (void)state;
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    const int32_t ids[] = { 1, 2, 3 }, bad_ids[] = { 1, 97 }, negative[] = { -1 };
    const char *empty[] = { "a", "" }, *none[] = { NULL };
    const pkv_logit_bias bias = { 97, 0 };
    pkv_request q;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
#define REFUSED(change, want, says)                                                                \
    q = rig_request(ids, 3, 4);                                                                    \
    change;                                                                                        \
    rig_refused(&r, &q, want, says)
    REFUSED(q.n_ids = 0, PKV_E_INVALID_ARG, "no prompt");
    REFUSED(q.ids = NULL, PKV_E_INVALID_ARG, "no prompt");
    REFUSED(q.text = "a", PKV_E_INVALID_ARG, "both text and ids");
    REFUSED((q.text = "a", q.ids = NULL, q.n_ids = 0), PKV_E_INVALID_ARG, "no tokenizer");
    REFUSED((q.ids = bad_ids, q.n_ids = 2), PKV_E_INVALID_ARG, "id 1 of the prompt is 97");
    REFUSED((q.ids = negative, q.n_ids = 1), PKV_E_INVALID_ARG, "id 0 of the prompt is -1");
    REFUSED(q.max_new = 0, PKV_E_INVALID_ARG, "max_new is 0");
    REFUSED(q.n = -1, PKV_E_INVALID_ARG, "n is -1");
    REFUSED(q.n = 65, PKV_E_NEVER, "max_seqs at least 65, or n at most 64");
    REFUSED(q.beams = 17, PKV_E_INVALID_ARG, "beams is 17");
    REFUSED(q.beams = -1, PKV_E_INVALID_ARG, "beams is -1");
    REFUSED((q.beams = 2, q.n = 3), PKV_E_INVALID_ARG, "n is 3 with 2 beams");
    REFUSED(q.length_penalty = (float)NAN, PKV_E_INVALID_ARG, "length_penalty");
    REFUSED((q.beams = 2, q.sampling.temperature = 1), PKV_E_INVALID_ARG, "temperature");
    REFUSED((q.beams = 2, q.sampling.top_k = 5), PKV_E_INVALID_ARG, "cuts");
    REFUSED((q.beams = 2, q.sampling.top_p = 0.5f), PKV_E_INVALID_ARG, "cuts");
    REFUSED((q.beams = 2, q.sampling.min_p = 0.5f), PKV_E_INVALID_ARG, "cuts");
    REFUSED((q.beams = 2, q.sampling.repeat_penalty = 2), PKV_E_INVALID_ARG, "penalties");
    REFUSED((q.beams = 2, q.sampling.presence_penalty = 2), PKV_E_INVALID_ARG, "penalties");
    REFUSED((q.beams = 2, q.sampling.frequency_penalty = 2), PKV_E_INVALID_ARG, "penalties");
    REFUSED((q.beams = 2, q.sampling.xorshift_llama2 = true), PKV_E_INVALID_ARG, "generator");
    REFUSED((q.n = 2, q.sampling.xorshift_llama2 = true, q.sampling.seed = UINT64_MAX),
            PKV_E_INVALID_ARG, "n is 2 with xorshift_llama2");
    REFUSED((q.beams = 2, q.sampling.n_logprobs = 0), PKV_E_INVALID_ARG, "no logprobs");
    REFUSED((q.stop_ids = bad_ids, q.n_stop_ids = 2), PKV_E_INVALID_ARG, "stop id 97");
    REFUSED((q.stop_ids = negative, q.n_stop_ids = 1), PKV_E_INVALID_ARG, "stop id -1");
    REFUSED((q.stop_ids = ids, q.n_stop_ids = 65), PKV_E_INVALID_ARG, "n_stop_ids is 65");
    REFUSED(q.n_stop_ids = 1, PKV_E_INVALID_ARG, "n_stop_ids is 1");
    REFUSED(q.n_stop_ids = -1, PKV_E_INVALID_ARG, "n_stop_ids is -1");
    REFUSED((q.stop_texts = empty, q.n_stop_texts = 1), PKV_E_INVALID_ARG, "need a tokenizer");
    REFUSED(q.n_stop_texts = 17, PKV_E_INVALID_ARG, "n_stop_texts is 17");
    REFUSED(q.sampling.temperature = -1, PKV_E_INVALID_ARG, "temperature");
    REFUSED(q.sampling.top_p = 0, PKV_E_INVALID_ARG, "top_p");
    REFUSED((q.sampling.bias = &bias, q.sampling.n_bias = 1), PKV_E_INVALID_ARG, "97");
    REFUSED(q.struct_size++, PKV_E_ABI, "struct_size");
    REFUSED(q.sampling.struct_size++, PKV_E_ABI, "struct_size");
    assert_int_equal(rig_stats(&r).n_refused, 35);
    rig_close(&r);
    rig_open(&r, rig_stories("stories260K.bin"), rig_stories_tokenizer(), &cfg);
    static char long_text[258];
    const char *too_long[] = { long_text };
    memset(long_text, 'a', 257);
    REFUSED((q.stop_texts = empty, q.n_stop_texts = 2), PKV_E_INVALID_ARG, "stop text 1 is empty");
    REFUSED((q.stop_texts = none, q.n_stop_texts = 1), PKV_E_INVALID_ARG, "stop text 0 is empty");
    REFUSED((q.stop_texts = too_long, q.n_stop_texts = 1), PKV_E_INVALID_ARG, "is too long");
    const char *half[] = { "\xc3\xa9", "ab\xe2\x82" }; /* a whole character; two of three bytes */
    REFUSED((q.stop_texts = half, q.n_stop_texts = 2), PKV_E_INVALID_ARG,
            "stop text 1 is not UTF-8 from byte 2 on");
    REFUSED((q.beams = 2, q.stop_texts = empty, q.n_stop_texts = 1), PKV_E_INVALID_ARG,
            "stop texts they do not know");
#undef REFUSED
    q = rig_request(ids, 3, 4);
    pkv_request_id id;
    assert_int_equal(pkv_engine_submit(NULL, &q, &id), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_submit(r.engine, NULL, &id), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_submit(r.engine, &q, NULL), PKV_E_INVALID_ARG);
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    assert_int_equal(pkv_engine_step(r.engine, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_step(NULL, &report), PKV_E_INVALID_ARG);
    report.struct_size++;
    assert_int_equal(pkv_engine_step(r.engine, &report), PKV_E_ABI);
    pkv_engine_stats stats = { 0 };
    assert_int_equal(pkv_engine_get_stats(r.engine, &stats), PKV_E_ABI);
    assert_int_equal(pkv_engine_get_stats(r.engine, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_engine_check(NULL), PKV_E_INVALID_ARG);
    rig_close(&r);
}

static void full_queue(void **state)
{
    (void)state;
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    const int32_t ids[] = { 1, 2, 3 };
    cfg.max_queue = 3;
    cfg.max_seqs = 2;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    const pkv_request q = rig_request(ids, 3, 4);
    for (int32_t i = 0; i < 3; i++) rig_submit(&r, &q);
    rig_refused(&r, &q, PKV_E_LIMIT, "the queue is full");
    rig_step(&r); /* two were admitted, one waits */
    for (int32_t i = 0; i < 2; i++) rig_submit(&r, &q);
    rig_refused(&r, &q, PKV_E_LIMIT, "max_queue");
    /* One that is cancelled while it waits leaves its place. */
    assert_int_equal(pkv_engine_cancel(r.engine, 5), PKV_OK);
    rig_step(&r);
    rig_submit(&r, &q);
    rig_refused(&r, &q, PKV_E_LIMIT, "max_queue");
    rig_run(&r);
    rig_close(&r);
}

/* ---------------------------------------------------------------- memory */

/* Each allocation of create in turn, then each of submit. */
static void memory_runs_out(void **state)
{
    (void)state;
    pkv_model *model = rig_stories("stories260K.bin");
    pkv_tokenizer *tok = rig_stories_tokenizer();
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    counted_memory memory;
    pkv_engine *engine = NULL;
    cfg.model = model;
    cfg.tokenizer = tok;
    cfg.n_threads = 2;
    cfg.n_blocks = 20;
    cfg.swap_bytes = 1 << 20;
    long n_create = 0;
    for (;; n_create++) {
        cfg.alloc = count_memory(&memory, n_create);
        const pkv_status status = pkv_engine_create(&cfg, &engine);
        if (status == PKV_OK) break;
        assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_null(engine);
        assert_int_equal(memory.n_live, 0);
    }
    assert_true(n_create > 10);
    const char *stops[] = { "stop" };
    pkv_request q = PKV_REQUEST_INIT;
    q.text = "Once upon a time";
    q.n_text = 16;
    q.max_new = 5;
    q.stop_texts = stops;
    q.n_stop_texts = 1;
    pkv_request_id id = 0;
    for (int32_t k = 0; k < 2; k++) {
        const long n_live = memory.n_live;
        long n_submit = 0;
        for (;; n_submit++) {
            memory.n_allocs = 0;
            memory.fail_at = n_submit;
            const pkv_status status = pkv_engine_submit(engine, &q, &id);
            if (status == PKV_OK) break;
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_int_equal(memory.n_live, n_live);
        }
        assert_true(n_submit >= 2);
        /* Then beams, which have memory of their own. */
        q.beams = 4;
        q.n_stop_texts = 0;
    }
    pkv_engine_destroy(engine);
    assert_int_equal(memory.n_live, 0);
    pkv_tokenizer_close(tok);
    pkv_model_close(model);
}

/* Requests in every state when the engine goes. */
static void destroy_with_requests(void **state)
{
    (void)state;
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    static int32_t ids[16];
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 20;
    cfg.swap_bytes = 1 << 20;
    cfg.watermark_blocks = 0;
    cfg.preempt = PKV_PREEMPT_SWAP;
    rig_open(&r, rig_tiny_model(1), NULL, &cfg);
    rig_draw(1, 97, ids, 16);
    pkv_request q = rig_request(ids, 16, 50);
    for (int32_t i = 0; i < 6; i++) rig_submit(&r, &q);
    q.arrival_ns = 10 * r.now_ns;
    rig_submit(&r, &q);
    while (r.report.n_swapped == 0) rig_step(&r);
    assert_true(r.report.n_running > 0 && r.report.n_waiting > 0);
    rig_submit(&r, &q); /* still in the inbox */
    rig_drop(&r);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create_refusals), cmocka_unit_test(foreign_tokenizer),
        cmocka_unit_test(submit_refusals), cmocka_unit_test(full_queue),
        cmocka_unit_test(memory_runs_out), cmocka_unit_test(destroy_with_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
