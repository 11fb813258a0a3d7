/* Requests from submit to their last event: the published texts of the trained test model from all
 * its files, every way to end, the order of events, streaming, arrivals and figures. */
#include "engine_rig.h"

#include "common/sha256.h"

#include <jansson.h>

enum { BOS = 1, EOS = 2 };

static const char *const files[] = { "stories260K.bin", "", "stories260K.gguf" };

static int32_t read_golden_ids(int32_t *ids, int32_t cap)
{
    char path[1024];
    shared_path(STORIES "golden.json", path, sizeof(path));
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    const json_t *list = json_object_get(root, "greedy_ids");
    const int32_t n = (int32_t)json_array_size(list);
    assert_in_range(n, 1, cap);
    for (int32_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    json_decref(root);
    return n;
}

static void text_is(const got *g, int32_t n_bytes, const char *sha256)
{
    uint8_t digest[32];
    char hex[65];
    struct pkv__sha256 ctx;
    assert_int_equal(g->sample[0].n_text, n_bytes);
    pkv__sha256_init(&ctx);
    pkv__sha256_update(&ctx, g->sample[0].text, (size_t)g->sample[0].n_text);
    pkv__sha256_end(&ctx, digest);
    for (int32_t i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, sha256);
}

/* ---------------------------------------------------------------- published texts */

static void published_ids(void **state)
{
    (void)state;
    static int32_t golden[512];
    const int32_t n = read_golden_ids(golden, 512);
    assert_int_equal(n, 256);
    assert_int_equal(golden[0], BOS);
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        engine_rig r;
        const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        rig_open(&r, rig_stories(files[k]), rig_stories_tokenizer(), &cfg);
        const pkv_request request = rig_request(golden, 1, n - 1);
        const got *g = rig_submit(&r, &request);
        rig_run(&r);
        got_ids(g, 0, golden + 1, n - 1);
        assert_int_equal(g->sample[0].finish, PKV_FINISH_LENGTH);
        rig_close(&r);
    }
}

static void published_text(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        engine_rig r;
        const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        const int32_t bos = BOS;
        rig_open(&r, rig_stories(files[k]), rig_stories_tokenizer(), &cfg);
        const pkv_request request = rig_request(&bos, 1, 200);
        const got *g = rig_submit(&r, &request);
        rig_run(&r);
        text_is(g, 464, "beeb5cb46785efee81a8545300b31e396b595e5ce6f3b77db201545501981d14");
        rig_close(&r);
    }
}

/* As fast as it goes: no two logits of this text are so close that the order of sums matters. */
static void published_ids_fast(void **state)
{
    (void)state;
    static int32_t golden[512];
    const int32_t n = read_golden_ids(golden, 512);
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.fast = true;
    cfg.n_threads = 2;
    rig_open(&r, rig_stories(files[0]), NULL, &cfg);
    const pkv_request request = rig_request(golden, 1, n - 1);
    const got *g = rig_submit(&r, &request);
    rig_run(&r);
    got_ids(g, 0, golden + 1, n - 1);
    assert_string_equal(rig_stats(&r).mode, "fast");
    rig_close(&r);
}

/* The text that llama2.c's own generator draws. */
static void published_draws(void **state)
{
    (void)state;
    static const int32_t first[] = { 403, 407, 261, 378, 432, 383, 286, 261, 376, 268, 414, 422 };
    engine_rig r;
    const pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    const int32_t bos = BOS;
    rig_open(&r, rig_stories(files[0]), rig_stories_tokenizer(), &cfg);
    pkv_request request = rig_request(&bos, 1, 256);
    request.sampling.temperature = 1;
    request.sampling.top_p = 0.9f;
    request.sampling.seed = 133742;
    request.sampling.xorshift_llama2 = true;
    const got *g = rig_submit(&r, &request);
    rig_run(&r);
    for (size_t i = 0; i < PKV_ARRAY_LEN(first); i++)
        assert_int_equal(g->sample[0].ids[i], first[i]);
    text_is(g, 564, "fe4ccd65990a90f159e00fc2ca568fa038eebd39f8e67bb1c92103122390a8ea");
    rig_close(&r);
}

/* ---------------------------------------------------------------- chunks, batches */

/* A prompt in chunks of any size, beside others, gives what it gives alone and at once. */
static void chunks_do_not_show(void **state)
{
    (void)state;
    static const int32_t chunks[] = { 1, 2, 3, 7, 16, 17, 31, 64, 500 };
    static int32_t ids[4][200];
    const uint64_t seed = rig_seed();
    for (size_t k = 0; k < PKV_ARRAY_LEN(chunks); k++) {
        engine_rig r;
        pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
        cfg.chunk_tokens = chunks[k];
        cfg.max_seqs = 4;
        cfg.max_batch_tokens = 4 + 9 * (int32_t)k;
        cfg.block_tokens = 1 + 3 * (int32_t)k;
        rig_open(&r, rig_tiny_model(seed), NULL, &cfg);
        const got *g[4];
        pkv_request request[4];
        for (int32_t i = 0; i < 4; i++) {
            rig_draw(seed + (uint64_t)i, 97, ids[i], 200);
            request[i] = rig_request(ids[i], 1 + 60 * i, 20);
            request[i].sampling.n_logprobs = 3;
            g[i] = rig_submit(&r, &request[i]);
        }
        rig_run(&r);
        for (int32_t i = 0; i < 4; i++) got_same("chunks", g[i], rig_lone(&r, &request[i]));
        rig_close(&r);
    }
}

/* A step never has more tokens than the budget, and decodes go on beside a long prompt. */
static void budget(void **state)
{
    (void)state;
    static int32_t ids[300];
    engine_rig r;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.max_seqs = 4;
    cfg.max_batch_tokens = 16;
    cfg.chunk_tokens = 12;
    rig_open(&r, rig_tiny_model(3), NULL, &cfg);
    rig_draw(1, 97, ids, 300);
    pkv_request request = rig_request(ids, 2, 60);
    const got *talks = rig_submit(&r, &request);
    rig_step(&r);
    assert_int_equal(r.report.n_tokens, 2);
    assert_int_equal(talks->sample[0].n, 1);
    request = rig_request(ids, 300, 2);
    const got *reads = rig_submit(&r, &request);
    for (int32_t n = 2; reads->sample[0].n == 0; n++) {
        rig_step(&r);
        assert_true(r.report.n_tokens <= 13); /* a decode and a chunk */
        assert_int_equal(r.report.n_prefill, r.report.n_tokens - 1);
        assert_int_equal(talks->sample[0].n, n);
    }
    assert_int_equal(r.n_steps, 1 + 25);
    rig_run(&r);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_ids),      cmocka_unit_test(published_text),
        cmocka_unit_test(published_draws),    cmocka_unit_test(published_ids_fast),
        cmocka_unit_test(chunks_do_not_show), cmocka_unit_test(budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
