/* What a run refuses, and what it says about it. */
#include "sim/sim_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char said[512];

static void remember(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    snprintf(said, sizeof(said), "%s", text);
}

static const pkv_sim_request good = { 0, 3, 2 };

static pkv_sim_config config(const char *policy)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.log.fn = remember;
    assert_int_equal(pkv_sim_policy_parse(policy, &cfg.log, &cfg.policy), PKV_OK);
    said[0] = 0;
    return cfg;
}

static void expect(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                   pkv_status status, const char *why, int line)
{
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    res.n_steps = -77;
    said[0] = 0;
    const pkv_status got = pkv_sim_run(cfg, reqs, n, &res);
    if (got != status || (why && !strstr(said, why)))
        fail_msg("line %d: %s, \"%s\"; expected %s, \"%s\"", line, pkv_status_name(got), said,
                 pkv_status_name(status), why ? why : "");
    if (status != PKV_OK) assert_int_equal(res.n_steps, -77); /* written on success only */
}

/* This one field of this policy's config; the message has the words. */
#define REFUSES(policy_text, field, value, why)                                                    \
    do {                                                                                           \
        pkv_sim_config changed = config(policy_text);                                              \
        changed.field = value;                                                                     \
        expect(&changed, &good, 1, PKV_E_INVALID_ARG, why, __LINE__);                              \
    } while (0)
#define TAKES(policy_text, field, value)                                                           \
    do {                                                                                           \
        pkv_sim_config changed = config(policy_text);                                              \
        changed.field = value;                                                                     \
        expect(&changed, &good, 1, PKV_OK, NULL, __LINE__);                                        \
    } while (0)

static void *no_memory(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    (void)bytes;
    (void)align;
    return NULL;
}

static void test_null_and_abi(void **state)
{
    (void)state;
    const pkv_sim_config ok = config("paged");
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv_sim_run(NULL, &good, 1, &res), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_run(&ok, &good, 1, NULL), PKV_E_INVALID_ARG);
    expect(&ok, NULL, 1, PKV_E_INVALID_ARG, "no requests", __LINE__);
    expect(&ok, &good, -1, PKV_E_INVALID_ARG, "no requests", __LINE__);
    expect(&ok, &good, 0, PKV_E_INVALID_ARG, "needs a request", __LINE__);
    expect(&ok, &good, 1, PKV_OK, NULL, __LINE__);
    pkv_sim_config old = ok;
    old.struct_size = 4;
    expect(&old, &good, 1, PKV_E_ABI, NULL, __LINE__);
    res.struct_size = 4;
    assert_int_equal(pkv_sim_run(&ok, &good, 1, &res), PKV_E_ABI);
    pkv_sim_config half = ok;
    half.alloc.alloc = no_memory; /* and no free */
    expect(&half, &good, 1, PKV_E_INVALID_ARG, "half an allocator", __LINE__);
}

static void test_requests(void **state)
{
    (void)state;
    pkv_sim_config cfg = config("paged");
    const pkv_sim_request backwards[2] = { { 5, 3, 2 }, { 4, 3, 2 } };
    const pkv_sim_request no_prompt = { 0, 0, 2 }, negative = { 0, 3, -1 }, early = { -1, 3, 2 };
    const pkv_sim_request no_output = { 0, 3, 0 };
    expect(&cfg, backwards, 2, PKV_E_INVALID_ARG, "request 1 arrives before", __LINE__);
    expect(&cfg, &no_prompt, 1, PKV_E_INVALID_ARG, "request 0: 0 prompt", __LINE__);
    expect(&cfg, &negative, 1, PKV_E_INVALID_ARG, "-1 output", __LINE__);
    expect(&cfg, &early, 1, PKV_E_INVALID_ARG, "negative time", __LINE__);
    expect(&cfg, &no_output, 1, PKV_OK, NULL, __LINE__);
    cfg.concurrency = 1; /* nobody looks at arrivals */
    expect(&cfg, backwards, 2, PKV_OK, NULL, __LINE__);
    expect(&cfg, &early, 1, PKV_OK, NULL, __LINE__);
    expect(&cfg, &negative, 1, PKV_E_INVALID_ARG, "-1 output", __LINE__);
}

static void test_pool_and_step(void **state)
{
    (void)state;
    REFUSES("paged", pool_tokens, 0, "pool_tokens is 0, expected 1 .. 2147483647");
    REFUSES("paged", pool_tokens, 15, "no room for a block of 16");
    REFUSES("paged", max_model_len, 0, "max_model_len is 0");
    REFUSES("paged", max_model_len, (1 << 30) + 1, "max_model_len");
    REFUSES("paged", max_num_seqs, 0, "max_num_seqs is 0");
    REFUSES("paged", max_num_seqs, (1 << 20) + 1, "max_num_seqs");
    REFUSES("paged", watermark_ppm, -1, "watermark_ppm is -1, expected 0 .. 1000000");
    REFUSES("paged", watermark_ppm, 1000001, "watermark_ppm");
    REFUSES("paged", step_base_ns, -1, "step_base_ns");
    REFUSES("paged", step_base_ns, INT64_MAX, "step_base_ns");
    REFUSES("paged", step_per_seq_ns, -1, "step_per_seq_ns");
    REFUSES("paged", step_per_token_ns, 1000000001, "step_per_token_ns");
    TAKES("paged", step_base_ns, 0);
    pkv_sim_config cfg = config("paged");
    cfg.step_base_ns = cfg.step_per_seq_ns = 0;
    expect(&cfg, &good, 1, PKV_E_INVALID_ARG, "step_base_ns + step_per_seq_ns is 0", __LINE__);
    REFUSES("paged", engine, (pkv_sim_engine)2, "engine is 2");
    REFUSES("paged", window, (pkv_sim_window)4, "window is 4");
    REFUSES("paged", slo_ttft_ns, -1, "slo_ttft_ns");
    REFUSES("paged", slo_tpot_ns, -1, "slo_tpot_ns");
    REFUSES("paged", slo_norm_ns, -1, "slo_norm_ns");
}

static void test_scheduling(void **state)
{
    (void)state;
    REFUSES("paged", concurrency, -1, "concurrency is -1");
    REFUSES("paged", concurrency, (1 << 20) + 1, "concurrency");
    REFUSES("paged", max_batched_tokens, -1, "max_batched_tokens");
    REFUSES("paged", max_batched_tokens, 2047, "below max_model_len 2048: raise it, or");
    TAKES("paged", max_batched_tokens, 2048);
    REFUSES("paged", prefill_chunk, -1, "prefill_chunk");
    REFUSES("paged", prefill_tokens_per_s, -1, "prefill_tokens_per_s");
    pkv_sim_config cfg = config("paged");
    cfg.max_batched_tokens = cfg.prefill_chunk = 1;
    expect(&cfg, &good, 1, PKV_OK, NULL, __LINE__);
    REFUSES("paged", kv_bytes_per_token, 0, "kv_bytes_per_token is 0");
    REFUSES("paged", tensor_token_bytes, 0, "tensor_token_bytes is 0");
    REFUSES("paged+swap", swap_tokens, -1, "swap_tokens");
    REFUSES("paged+swap", swap_bytes_per_s, -1, "swap_bytes_per_s");
    REFUSES("paged+swap", copy_latency_ns, -1, "copy_latency_ns");
    REFUSES("max:alloc=compact", compact_bytes_per_s, -1, "compact_bytes_per_s");
}

static void test_policy_fields(void **state)
{
    (void)state;
    REFUSES("max", policy.kind, (pkv_sim_kind)7, "policy.kind is 7");
    REFUSES("max", policy.kind, (pkv_sim_kind)-1, "policy.kind");
    REFUSES("max", policy.addr, (pkv_sim_addr)6, "unknown allocator 6");
    REFUSES("static-batch", policy.addr, (pkv_sim_addr)6, "unknown allocator 6");
    REFUSES("max", policy.prefix, true, "of paged only");
    REFUSES("max", policy.swap, true, "of paged only");
    REFUSES("vattn", policy.n_seqs, 2, "of paged only");
    REFUSES("vattn", policy.group, PKV_SIM_GROUP_FORK, "of paged only");
    REFUSES("vattn", policy.page_bytes, 4096, "policy.page_bytes is 4096, expected 65536,");
    REFUSES("vattn", pool_tokens, 204, "no room for a page of 2097152"); /* 10,240 B each */
    TAKES("vattn", pool_tokens, 205);
    REFUSES("orca-real", policy.max_tokens, -1, "policy.max_tokens");
    REFUSES("paged", policy.block_tokens, 0, "policy.block_tokens is 0, expected 1 .. 1024");
    REFUSES("paged", policy.block_tokens, 1025, "policy.block_tokens");
    REFUSES("paged", policy.n_seqs, 2, "policy.n_seqs is 2, expected 1 .. 1");
    REFUSES("paged", policy.group, (pkv_sim_group)3, "policy.group is 3");
    REFUSES("paged+fork:n=2", policy.n_seqs, 0, "policy.n_seqs is 0, expected 1 .. 64");
    REFUSES("paged+fork:n=2", policy.n_seqs, 65, "policy.n_seqs");
    REFUSES("paged+beam:width=2", policy.switch_ppm, 1000001, "policy.switch_ppm");
}

static void test_observer(void **state)
{
    (void)state;
    pkv_sim_observer observer = PKV_SIM_OBSERVER_INIT;
    pkv_sim_config cfg = config("paged");
    cfg.observer = &observer;
    expect(&cfg, &good, 1, PKV_OK, NULL, __LINE__);
    observer.struct_size = 4;
    expect(&cfg, &good, 1, PKV_E_ABI, NULL, __LINE__);
}

static void no_sample(void *ctx, const pkv_sim_sample *sample)
{
    (void)ctx;
    (void)sample;
}

static void test_sampling(void **state)
{
    (void)state;
    pkv_sim_observer observer = PKV_SIM_OBSERVER_INIT;
    pkv_sim_config cfg = config("paged");
    cfg.observer = &observer;
    observer.on_sample = no_sample;
    expect(&cfg, &good, 1, PKV_E_INVALID_ARG, "observer.sample_interval_ns is 0", __LINE__);
    observer.sample_interval_ns = 1000000;
    observer.map_cells = 4096;
    expect(&cfg, &good, 1, PKV_OK, NULL, __LINE__);
    observer.map_cells = 4097;
    expect(&cfg, &good, 1, PKV_E_INVALID_ARG, "observer.map_cells is 4097", __LINE__);
    observer.map_cells = -1;
    expect(&cfg, &good, 1, PKV_E_INVALID_ARG, "observer.map_cells is -1", __LINE__);
}

/* Two requests of 3 and 2 prompt tokens, ids of 2 tokens each. */
static void test_content(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 3, 2 }, { 0, 2, 2 } };
    int64_t first[2] = { 0, 2 };
    int32_t n_ids[2] = { 2, 1 }, ids[3] = { 0, 1, 0 };
    pkv_sim_content content = { 2, 2, first, n_ids, ids };
    pkv_sim_config cfg = config("paged+prefix:block=2");
    cfg.content = &content;
    expect(&cfg, reqs, 2, PKV_OK, NULL, __LINE__);
    content.block_tokens = 0;
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "0 tokens per id", __LINE__);
    content = (pkv_sim_content){ 2, 2, NULL, n_ids, ids };
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "content: no lists", __LINE__);
    content = (pkv_sim_content){ 2, 2, first, n_ids, NULL };
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "ids of request 0 are nowhere", __LINE__);
    content = (pkv_sim_content){ 2, 1, first, n_ids, ids };
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "id 1 of request 0, expected 0 .. 0", __LINE__);
    content.n_distinct = 2;
    ids[2] = -1;
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "id -1 of request 1", __LINE__);
    ids[2] = 0;
    n_ids[1] = 2;
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "request 1 has 2 ids, its 2 prompt tokens", __LINE__);
    n_ids[1] = -1;
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "request 1 has -1 ids", __LINE__);
    n_ids[1] = 0;
    first[1] = -9; /* nobody looks */
    expect(&cfg, reqs, 2, PKV_OK, NULL, __LINE__);
    first[0] = -1;
    expect(&cfg, reqs, 2, PKV_E_INVALID_ARG, "ids of request 0 are nowhere", __LINE__);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_and_abi),  cmocka_unit_test(test_requests),
        cmocka_unit_test(test_pool_and_step), cmocka_unit_test(test_scheduling),
        cmocka_unit_test(test_policy_fields), cmocka_unit_test(test_observer),
        cmocka_unit_test(test_sampling),      cmocka_unit_test(test_content),
    };
    return cmocka_run_group_tests_name("sim_check", tests, NULL, NULL);
}
