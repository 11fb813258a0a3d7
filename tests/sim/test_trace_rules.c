/* What holds for rows of every syntax: times and their units, limits, filters, names given by the
 * caller, refusals of arguments, warnings. */
#include "trace_reading.h"

#define VIDUR "arrived_at,num_prefill_tokens,num_decode_tokens\n"

static pkv_sim_trace_config plain(void)
{
    return (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT;
}

/* The trace has these prompts, in this order. */
static void expect_prompts(const pkv_sim_trace *t, const int32_t *prompts, int64_t n)
{
    assert_int_equal(t->n_reqs, n);
    for (int64_t k = 0; k < n; k++) assert_int_equal(t->reqs[k].prompt_tokens, prompts[k]);
}

/* ---------------------------------------------------------------- times */

static void test_times_backwards(void **state)
{
    (void)state;
    static const char text[] = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
                               "5,1,1\n7,2,1\n5,3,1\n5,4,1\n4,5,1\n";
    static const int32_t order[] = { 5, 1, 3, 4, 2 }; /* equal times keep the order of the file */
    pkv_sim_trace t;
    assert_int_equal(read_text(text, &t), PKV_OK);
    assert_int_equal(n_heard(PKV_LOG_WARN), 1);
    assert_int_equal(t.n_backwards, 2);
    assert_int_equal(t.first_backwards_line, 4);
    for (int k = 0; k < 5; k++) assert_int_equal(t.reqs[k].prompt_tokens, order[k]);
    assert_int_equal(t.reqs[0].arrival_ns, 0);
    assert_int_equal(t.reqs[1].arrival_ns, 1000000000);
    pkv_sim_trace_free(&t);
    pkv_sim_trace_config strict = PKV_SIM_TRACE_CONFIG_INIT;
    strict.strict = true;
    assert_int_equal(read_bytes(text, sizeof(text) - 1, strict, &t), PKV_E_FORMAT);
    assert_non_null(strstr(heard_text(), "line 4: arrives before"));
}

/* A lone time in a unit that is nobody's, cut to whole ns; and an epoch whose ns a double loses. */
static void test_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t unit_ns, second_ns, used_ns; /* unit: given; used: said to be used */
    } cases[] = {
        { VIDUR "1700158546.680590001,1,1\n1700158546.680590002,1,1\n", 0, 1, 1000000000 },
        { VIDUR "1700158546680590.5,1,1\n1700158546680591.25,1,1\n", 1000, 750, 1000 },
        { VIDUR "0,1,1\n0.1,1,1\n", 3, 0, 3 },
        { VIDUR "1,1,1\n3,1,1\n", 3600000000000, 7200000000000, 3600000000000 },
        { "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": []}\n"
          "{\"timestamp\": 3.5, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": []}\n",
          0, 2500000, 1000000 },
        { "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": []}\n"
          "{\"timestamp\": 3, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": []}\n",
          1000000000, 2000000000, 1000000000 },
        /* numbers where the format has dates */
        { "TIMESTAMP,ContextTokens,GeneratedTokens\n5,1,1\n7,1,1\n", 1000, 2000, 1000 },
        { "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n"
          "2023-11-16 18:15:46.0000001,1,1\n",
          0, 100, 0 },
        { "num_prefill_tokens,num_decode_tokens\n1,1\n1,1\n", 0, 0, 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        pkv_sim_trace_config cfg = plain();
        pkv_sim_trace t;
        cfg.time_unit_ns = cases[k].unit_ns;
        if (read_with(cases[k].text, cfg, &t) != PKV_OK) fail_msg("%zu: %s", k, heard_text());
        assert_int_equal(t.reqs[1].arrival_ns, cases[k].second_ns);
        assert_int_equal(t.time_unit_ns, cases[k].used_ns);
        pkv_sim_trace_free(&t);
    }
    pkv_sim_trace_config cfg = plain();
    cfg.time_unit_ns = 1000;
    expect_refusal_with("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n", cfg,
                        PKV_E_FORMAT, "TIMESTAMP is '2023-11-16 18:15:46', a number from 0 on");
}

/* A mean gap above 1000 s or below 1 us is more likely a wrong unit than traffic. */
static void test_warnings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n_warnings;
    } cases[] = {
        { VIDUR "0,1,1\n2000,1,1\n2000,1,1\n", 0 },   /* exactly 1000 s */
        { VIDUR "0,1,1\n2000.1,1,1\n2000,1,1\n", 1 }, /* 1000.05 s, but sorted: backwards */
        { VIDUR "0,1,1\n2001,1,1\n2002.1,1,1\n", 1 },
        { VIDUR "0,1,1\n0.000001,1,1\n", 0 }, /* exactly 1 us */
        { VIDUR "0,1,1\n0.0000009,1,1\n", 1 },
        { VIDUR "5,1,1\n5,1,1\n", 1 },
        { VIDUR "5,1,1\n", 0 },
        { "num_prefill_tokens,num_decode_tokens\n1,1\n1,1\n", 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        pkv_sim_trace t;
        assert_int_equal(read_text(cases[k].text, &t), PKV_OK);
        const int backwards = t.n_backwards > 0;
        if (n_heard(PKV_LOG_WARN) != cases[k].n_warnings + backwards)
            fail_msg("%zu: %d warnings", k, n_heard(PKV_LOG_WARN));
        if (cases[k].n_warnings) assert_non_null(strstr(heard_text(), "is the unit of time right"));
        pkv_sim_trace_free(&t);
    }
}

/* ---------------------------------------------------------------- limits */

static void test_limits(void **state)
{
    (void)state;
    static const char text[] = VIDUR "10,1,1\n11,2,1\n12,3,1\n12.5,4,1\n13,5,1\n";
    static const struct {
        int64_t max, start_ms, duration_ms;
        int32_t n, prompts[5];
        int64_t first_line, span_ms;
    } cases[] = {
        { 0, 0, 0, 5, { 1, 2, 3, 4, 5 }, 0, 3000 },
        { 9, 0, 0, 5, { 1, 2, 3, 4, 5 }, 0, 3000 },
        { 4, 0, 0, 4, { 1, 2, 3, 4 }, 6, 2500 },
        { 4, 0, 2000, 2, { 1, 2 }, 4, 1000 }, /* before 12 s, where the third row stands */
        { 0, 0, 2001, 3, { 1, 2, 3 }, 5, 2000 },
        { 0, 1000, 0, 4, { 2, 3, 4, 5 }, 2, 2000 },
        { 0, 1001, 0, 3, { 3, 4, 5 }, 2, 1000 },
        { 0, 1001, 1500, 2, { 3, 4 }, 2, 500 },
        { 1, 1001, 1500, 1, { 3 }, 2, 0 },
        { 0, 2500, 1, 1, { 4 }, 2, 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        pkv_sim_trace_config cfg = plain();
        pkv_sim_trace t;
        cfg.max_requests = cases[k].max;
        cfg.start_ns = cases[k].start_ms * 1000000;
        cfg.duration_ns = cases[k].duration_ms * 1000000;
        assert_int_equal(read_with(text, cfg, &t), PKV_OK);
        expect_prompts(&t, cases[k].prompts, cases[k].n);
        assert_int_equal(t.dropped[PKV_SIM_DROP_FILTERED], 5 - cases[k].n);
        assert_int_equal(t.first_line[PKV_SIM_DROP_FILTERED], cases[k].first_line);
        assert_int_equal(t.span_ns, cases[k].span_ms * 1000000);
        pkv_sim_trace_free(&t);
    }
    pkv_sim_trace_config cfg = plain();
    cfg.start_ns = 3000000001;
    expect_refusal_with(text, cfg, PKV_E_FORMAT,
                        "none of the 5 good rows is within filter, start and duration");
    cfg.start_ns = INT64_MAX;
    cfg.duration_ns = INT64_MAX;
    expect_refusal_with(text, cfg, PKV_E_FORMAT, "none of the 5 good rows");
}

/* The window counts from the earliest row, also one that the filter leaves out. */
static void test_limits_after_sorting(void **state)
{
    (void)state;
    static const int32_t prompts[] = { 20, 10 };
    pkv_sim_trace_config cfg = plain();
    pkv_sim_trace t;
    cfg.filter = PKV_SIM_FILTER_SGLANG;
    cfg.duration_ns = 3000000000;
    assert_int_equal(read_with(VIDUR "12.5,10,5\n11,20,5\n10,1,5\n13,30,5\n", cfg, &t), PKV_OK);
    expect_prompts(&t, prompts, 2);
    assert_int_equal(t.dropped[PKV_SIM_DROP_FILTERED], 2);
    assert_int_equal(t.first_line[PKV_SIM_DROP_FILTERED], 4);
    assert_int_equal(t.n_backwards, 1);
    pkv_sim_trace_free(&t);
    cfg.duration_ns = 0; /* the row before the start stands in front of the filtered one */
    cfg.start_ns = 1000000000;
    assert_int_equal(read_with(VIDUR "10,10,5\n10,1,5\n11,20,5\n", cfg, &t), PKV_OK);
    assert_int_equal(t.n_reqs, 1);
    assert_int_equal(t.first_line[PKV_SIM_DROP_FILTERED], 2);
    pkv_sim_trace_free(&t);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    static const char text[] = VIDUR "10,1,1\n";
    pkv_sim_trace_config cfg[8];
    for (int k = 0; k < 8; k++) cfg[k] = plain();
    cfg[0].max_requests = -1;
    cfg[1].start_ns = -1;
    cfg[2].duration_ns = -1;
    cfg[3].time_unit_ns = -1;
    cfg[4].hash_block_tokens = -1;
    cfg[5].filter = (pkv_sim_filter)5;
    cfg[6].format = "csv";
    cfg[7].alloc.ctx = cfg;
    cfg[7].alloc.alloc = NULL;
    cfg[7].alloc.free = (void (*)(void *, void *, size_t))abort;
    for (int k = 0; k < 8; k++)
        expect_refusal_with(text, cfg[k], PKV_E_INVALID_ARG,
                            k == 6 ? "format 'csv' is not known; give one of azure, burstgpt" : "");
    pkv_sim_trace t = PKV_SIM_TRACE_INIT;
    trace_source s = { text, sizeof(text) - 1, 7, false };
    cfg[0] = plain();
    cfg[0].struct_size = 3;
    assert_int_equal(pkv_sim_trace_read(hand_out, &s, &cfg[0], &t), PKV_E_ABI);
    cfg[0] = plain();
    t.struct_size = 3;
    assert_int_equal(pkv_sim_trace_read(hand_out, &s, &cfg[0], &t), PKV_E_ABI);
    assert_int_equal(pkv_sim_trace_read(NULL, &s, &cfg[0], &t), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_trace_read(hand_out, &s, NULL, &t), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_trace_read(hand_out, &s, &cfg[0], NULL), PKV_E_INVALID_ARG);
    pkv_sim_trace_free(NULL);
}

/* ---------------------------------------------------------------- filters */

/* Both sides of every edge. */
static void test_filters(void **state)
{
    (void)state;
    static const char text[] = "Timestamp,Model,Request tokens,Response tokens\n"
                               "0,GPT-4,4,4\n0,GPT-4,3,4\n0,ChatGPT,4,3\n0,GPT-4,1024,1024\n"
                               "0,GPT-4,1025,5\n0,gpt-4,1024,1025\n0,GPT-4,1,2046\n"
                               "0,ChatGPT,2,2046\n0, GPT-4 ,2,2\n0,GPT-4,2,1\n0,GPT-4,5,0\n";
    static const struct {
        pkv_sim_filter filter;
        bool keep_zero;
        int n;
        int32_t prompts[11];
        int64_t first_line;
    } cases[] = {
        { PKV_SIM_FILTER_NONE, false, 10, { 4, 3, 4, 1024, 1025, 1024, 1, 2, 2, 2 }, 0 },
        { PKV_SIM_FILTER_NONE, true, 11, { 4, 3, 4, 1024, 1025, 1024, 1, 2, 2, 2, 5 }, 0 },
        { PKV_SIM_FILTER_VLLM, true, 2, { 4, 1024 }, 3 },
        { PKV_SIM_FILTER_ARTIFACT, true, 8, { 4, 3, 4, 1025, 1, 2, 2, 5 }, 5 },
        { PKV_SIM_FILTER_SGLANG, true, 8, { 4, 3, 4, 1024, 1025, 1024, 2, 2 }, 8 },
        { PKV_SIM_FILTER_BURSTGPT_GPT4, true, 7, { 4, 3, 1024, 1025, 1, 2, 2 }, 4 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        pkv_sim_trace_config cfg = plain();
        pkv_sim_trace t;
        cfg.filter = cases[k].filter;
        cfg.keep_zero_output = cases[k].keep_zero;
        assert_int_equal(read_with(text, cfg, &t), PKV_OK);
        expect_prompts(&t, cases[k].prompts, cases[k].n);
        assert_int_equal(t.dropped[PKV_SIM_DROP_FILTERED], 11 - cases[k].n - !cases[k].keep_zero);
        assert_int_equal(t.first_line[PKV_SIM_DROP_FILTERED], cases[k].first_line);
        pkv_sim_trace_free(&t);
    }
    pkv_sim_trace_config cfg = plain();
    cfg.filter = PKV_SIM_FILTER_BURSTGPT_GPT4;
    expect_refusal_with(VIDUR "1,1,1\n", cfg, PKV_E_FORMAT,
                        "line 1: the filter burstgpt-gpt4 needs a column 'Model'; columns found: "
                        "arrived_at");
    expect_refusal_with("Timestamp,Model,Request tokens,Response tokens\n1,ChatGPT,1,1\n", cfg,
                        PKV_E_FORMAT, "none of the 1 good rows is within filter");
    pkv_sim_trace t;
    assert_int_equal(read_with("{\"Timestamp\": 1, \"Model\": \"GPT\\u002d4\", \"Request tokens\": "
                               "8, \"Response tokens\": 1}\n{\"Timestamp\": 1, \"Request tokens\": "
                               "8, \"Response tokens\": 1}\n",
                               cfg, &t),
                     PKV_OK);
    assert_int_equal(t.n_reqs, 1);
    assert_int_equal(t.first_line[PKV_SIM_DROP_FILTERED], 2);
    pkv_sim_trace_free(&t);
}

/* In strict a filtered row is no fault. */
static void test_strict_filters(void **state)
{
    (void)state;
    pkv_sim_trace_config cfg = plain();
    pkv_sim_trace t;
    cfg.strict = true;
    cfg.filter = PKV_SIM_FILTER_SGLANG;
    cfg.max_requests = 1;
    assert_int_equal(read_with(VIDUR "10,1,1\n11,2,2\n12,3,3\n", cfg, &t), PKV_OK);
    assert_int_equal(t.n_reqs, 1);
    assert_int_equal(t.dropped[PKV_SIM_DROP_FILTERED], 2);
    pkv_sim_trace_free(&t);
}

/* ---------------------------------------------------------------- names */

static void test_own_columns(void **state)
{
    (void)state;
    static const char text[] = "when,p,n,input,output\n3,7,8,1,2\n5.5,9,10,1,2\n";
    pkv_sim_trace_config cfg = plain();
    pkv_sim_trace t;
    cfg.in_column = "p";
    cfg.out_column = "n";
    assert_int_equal(read_with(text, cfg, &t), PKV_OK);
    assert_string_equal(t.format, "columns");
    assert_false(t.has_times);
    assert_int_equal(t.reqs[1].prompt_tokens, 9);
    assert_int_equal(t.reqs[1].output_tokens, 10);
    pkv_sim_trace_free(&t);

    cfg.time_column = "when";
    assert_int_equal(read_with(text, cfg, &t), PKV_OK);
    assert_int_equal(t.reqs[1].arrival_ns, 2500000000);
    assert_int_equal(t.time_unit_ns, 1000000000);
    pkv_sim_trace_free(&t);

    cfg.time_unit_ns = 1000000;
    assert_int_equal(read_with("{\"n\": 8, \"when\": 3, \"p\": 7}\n{\"p\": 9, \"n\": 10, \"when\": "
                               "5.5}\n",
                               cfg, &t),
                     PKV_OK);
    assert_int_equal(t.reqs[1].arrival_ns, 2500000);
    assert_int_equal(t.reqs[1].prompt_tokens, 9);
    pkv_sim_trace_free(&t);

    expect_refusal_with("p,n,m\n1,1,1\n", cfg, PKV_E_FORMAT,
                        "line 1: column 'when' of format columns is missing; columns found: p, n, "
                        "m");
}

/* Times of columns of one's own are numbers or dates, as the first is. */
static void test_own_times(void **state)
{
    (void)state;
    pkv_sim_trace_config cfg = plain();
    pkv_sim_trace t;
    cfg.in_column = "p";
    cfg.out_column = "n";
    cfg.time_column = "when";
    assert_int_equal(
        read_with("p,n,when\n1,1,2023-11-16 18:15:46\n2,1,7\n3,1,2023-11-16T18:15:47\n", cfg, &t),
        PKV_OK);
    assert_int_equal(t.n_reqs, 2);
    assert_int_equal(t.span_ns, 1000000000);
    assert_int_equal(t.time_unit_ns, 0);
    assert_int_equal(t.first_line[PKV_SIM_DROP_BAD_TIMESTAMP], 3);
    pkv_sim_trace_free(&t);
    assert_int_equal(read_with("p,n,when\n1,1,5\n2,1,2023-11-16 18:15:46\n3,1,7\n", cfg, &t),
                     PKV_OK);
    assert_int_equal(t.n_reqs, 2);
    assert_int_equal(t.span_ns, 2000000000);
    pkv_sim_trace_free(&t);
    expect_refusal_with("p,n,when\n1,1,noon\n", cfg, PKV_E_FORMAT,
                        "bad_timestamp: when is 'noon', seconds or a time as in 2023-11-16");
}

/* One name replaced, the others as the format has them; and content ids under columns' name. */
static void test_replaced_names(void **state)
{
    (void)state;
    pkv_sim_trace_config cfg = plain();
    pkv_sim_trace t;
    cfg.time_column = "seconds";
    assert_int_equal(read_with("seconds,input,output\n1,7,8\n2,7,8\n", cfg, &t), PKV_OK);
    assert_string_equal(t.format, "lengths");
    assert_int_equal(t.span_ns, 1000000000);
    pkv_sim_trace_free(&t);
    expect_refusal_with("arrived_at,num_prefill_tokens,num_decode_tokens\n1,1,1\n", cfg,
                        PKV_E_FORMAT, "column 'seconds' of format vidur is missing");
    cfg = plain();
    cfg.in_column = "num_prefill";
    assert_int_equal(read_with("num_prefill,num_decode_tokens\n7,8\n", cfg, &t), PKV_OK);
    assert_string_equal(t.format, "vidur");
    pkv_sim_trace_free(&t);
    cfg.out_column = "o";
    cfg.hash_block_tokens = 2;
    assert_int_equal(read_with("{\"num_prefill\": 5, \"o\": 1, \"hash_ids\": [8, 9]}\n", cfg, &t),
                     PKV_OK);
    assert_int_equal(t.content.n_distinct, 2);
    assert_int_equal(t.content.block_tokens, 2);
    pkv_sim_trace_free(&t);
}

static void test_format_by_name(void **state)
{
    (void)state;
    static const char *const names[] = { "azure",   "burstgpt", "vidur", "splitwise",
                                         "lengths", "mooncake", "qwen",  "llmservingsim" };
    for (int k = 0; k < 8; k++) assert_string_equal(pkv_sim_trace_format(k), names[k]);
    assert_null(pkv_sim_trace_format(8));
    assert_null(pkv_sim_trace_format(-1));
    /* both formats' names are there: the one asked for, and otherwise the one with more of them */
    static const char text[] = "arrived_at,num_prefill_tokens,num_decode_tokens,input,output\n"
                               "1,2,3,4,5\n";
    pkv_sim_trace_config cfg = plain();
    pkv_sim_trace t;
    assert_int_equal(read_with(text, cfg, &t), PKV_OK);
    assert_string_equal(t.format, "vidur");
    assert_int_equal(t.reqs[0].prompt_tokens, 2);
    pkv_sim_trace_free(&t);
    assert_int_equal(read_text("prompt_size,token_size,arrival_timestamp,arrived_at,"
                               "num_prefill_tokens,num_decode_tokens\n1,2,3,4,5,6\n",
                               &t),
                     PKV_OK);
    assert_string_equal(t.format, "vidur"); /* as many: the first in the list */
    pkv_sim_trace_free(&t);
    cfg.format = "lengths";
    assert_int_equal(read_with(text, cfg, &t), PKV_OK);
    assert_string_equal(t.format, "lengths");
    assert_int_equal(t.reqs[0].prompt_tokens, 4);
    pkv_sim_trace_free(&t);
    cfg.format = "splitwise";
    expect_refusal_with(text, cfg, PKV_E_FORMAT,
                        "column 'prompt_size' of format splitwise is missing");
    /* a trace of qwen as one of mooncake: ms, 512 tokens */
    cfg.format = "mooncake";
    assert_int_equal(read_with("{\"chat_id\": 1, \"timestamp\": 1, \"input_length\": 512, "
                               "\"output_length\": 1, \"hash_ids\": [1]}\n",
                               cfg, &t),
                     PKV_OK);
    assert_string_equal(t.format, "mooncake");
    assert_int_equal(t.time_unit_ns, 1000000);
    pkv_sim_trace_free(&t);
    cfg.format = "mooncake";
    expect_refusal_with("timestamp,input_length,output_length,hash_ids\n1,1,1,[]\n", cfg,
                        PKV_E_FORMAT, "read from JSON lines, and this is CSV");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_backwards),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_limits_after_sorting),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_strict_filters),
        cmocka_unit_test(test_own_columns),
        cmocka_unit_test(test_own_times),
        cmocka_unit_test(test_replaced_names),
        cmocka_unit_test(test_format_by_name),
    };
    return cmocka_run_group_tests_name("trace_rules", tests, NULL, NULL);
}
