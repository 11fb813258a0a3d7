/* Traces as they are published, and generated ones in the forms of those that are not at hand. */
#include "trace_reading.h"

#include "common/philox.h"

typedef struct sums {
    int64_t in, out, n_ids;
} sums;

static sums sums_of(const pkv_sim_trace *t)
{
    sums s = { 0 };
    for (int64_t r = 0; r < t->n_reqs; r++) {
        s.in += t->reqs[r].prompt_tokens;
        s.out += t->reqs[r].output_tokens;
        if (t->content.ids) s.n_ids += t->content.n_ids[r];
    }
    return s;
}

/* Rows, spans, sums and ids counted with Python's json and csv modules. Mooncake's README has 3,993
 * requests, means 15,325 and 149. */
static void test_published(void **state)
{
    (void)state;
    static const struct {
        const char *name, *format;
        int32_t block; /* given; 0: as the format says */
        int64_t rows, span_us, in, out, n_ids, n_distinct, n_equal;
    } files[] = {
        { "mooncake/synthetic_trace.jsonl", "mooncake", 0, 3993, 1022025000, 61194628, 595432,
          121877, 43924, 11 },
        { "llmservingsim/sharegpt_llama31_8b_300_blk16.jsonl", "mooncake", 16, 300, 29137000,
          257239, 195753, 15942, 14722, 3 },
        { "llmservingsim/example_trace.jsonl", "llmservingsim", 0, 10, 980043, 120, 591, 120, 70,
          0 },
        { "llmservingsim/workload_me2_01_mixed.jsonl", "llmservingsim", 0, 608, 60898463, 5604402,
          1837003, 0, 0, 0 },
        { "burstgpt_format/burstgpt1_head.csv", "burstgpt", 0, 3, 113000000, 1976, 524, 0, 0, 0 },
        { "burstgpt_format/burstgpt3_head.csv", "burstgpt", 0, 3, 82000000, 2721, 598, 0, 0, 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
        pkv_sim_trace t;
        cfg.hash_block_tokens = files[k].block;
        read_shared(files[k].name, cfg, PKV_OK, &t);
        const sums s = sums_of(&t);
        assert_string_equal(t.format, files[k].format);
        assert_int_equal(t.rows_read, files[k].rows);
        assert_int_equal(t.n_reqs, files[k].rows);
        assert_int_equal(t.span_ns / 1000, files[k].span_us);
        assert_int_equal(s.in, files[k].in);
        assert_int_equal(s.out, files[k].out);
        assert_int_equal(s.n_ids, files[k].n_ids);
        assert_int_equal(t.content.n_distinct, files[k].n_distinct);
        assert_int_equal(t.n_equal_times, files[k].n_equal);
        assert_int_equal(n_heard(PKV_LOG_WARN), 0);
        pkv_sim_trace_free(&t);
    }
}

/* Four requests in one second, all of them kept, and a word about the unit of time. */
static void test_same_second(void **state)
{
    (void)state;
    const pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    static const int32_t inputs[] = { 266, 166, 758, 482 };
    pkv_sim_trace t;
    read_shared("burstgpt_format/burstgpt1_same_second.csv", cfg, PKV_OK, &t);
    assert_int_equal(t.n_reqs, 4);
    assert_int_equal(t.n_equal_times, 3);
    assert_int_equal(t.span_ns, 0);
    assert_true(t.has_times);
    for (int r = 0; r < 4; r++) assert_int_equal(t.reqs[r].prompt_tokens, inputs[r]);
    assert_int_equal(n_heard(PKV_LOG_WARN), 1);
    pkv_sim_trace_free(&t);
}

static void test_gpt4(void **state)
{
    (void)state;
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    cfg.filter = PKV_SIM_FILTER_BURSTGPT_GPT4;
    pkv_sim_trace t;
    read_shared("burstgpt_format/burstgpt3_head.csv", cfg, PKV_OK, &t);
    assert_int_equal(t.n_reqs, 2);
    assert_int_equal(t.reqs[1].prompt_tokens, 1779);
    assert_int_equal(t.first_line[PKV_SIM_DROP_FILTERED], 3);
    pkv_sim_trace_free(&t);
}

/* Blocks of 16 tokens read as if they were of 512, as the format's own traces have. */
static void test_wrong_block(void **state)
{
    (void)state;
    const pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    pkv_sim_trace t;
    read_shared("llmservingsim/sharegpt_llama31_8b_300_blk16.jsonl", cfg, PKV_E_FORMAT, &t);
    assert_non_null(strstr(heard_text(), "line 1: 147 hash_ids for 2358 prompt tokens do not suit "
                                         "512 tokens per id; 16 tokens per id would"));
}

/* ---------------------------------------------------------------- generated files */

enum { ROWS = 3000 };

/* What a generated file says. */
typedef struct truth {
    int32_t in[ROWS], out[ROWS];
    int64_t time_us[ROWS];
} truth;

static void draw(truth *x, pkv__rng *rng)
{
    int64_t now_us = 1000000;
    for (int r = 0; r < ROWS; r++) {
        now_us += pkv__rng_below(rng, 2000000) + 1;
        x->time_us[r] = now_us;
        x->in[r] = 1 + (int32_t)pkv__rng_below(rng, 4000);
        x->out[r] = 1 + (int32_t)pkv__rng_below(rng, 1000);
    }
}

static void expect_truth(const char *text, const truth *x, const char *format, bool timed)
{
    pkv_sim_trace t;
    if (read_text(text, &t) != PKV_OK) fail_msg("%s: %s", format, heard_text());
    assert_string_equal(t.format, format);
    assert_int_equal(t.n_reqs, ROWS);
    for (int r = 0; r < ROWS; r++) {
        assert_int_equal(t.reqs[r].prompt_tokens, x->in[r]);
        assert_int_equal(t.reqs[r].output_tokens, x->out[r]);
        assert_int_equal(t.reqs[r].arrival_ns, timed ? (x->time_us[r] - x->time_us[0]) * 1000 : 0);
    }
    pkv_sim_trace_free(&t);
}

static void test_generated(void **state)
{
    (void)state;
    static truth x;
    pkv__rng rng;
    char *text = malloc(ROWS * 3000);
    assert_non_null(text);
    pkv__rng_init(&rng, first_seed(), 0, 0);
    draw(&x, &rng);

    char *at = text + sprintf(text, "input,output\n");
    for (int r = 0; r < ROWS; r++) at += sprintf(at, "%d,%d\n", x.in[r], x.out[r]);
    expect_truth(text, &x, "lengths", false);

    at = text + sprintf(text, "request_id,request_type,application_id,arrival_timestamp,batch_size,"
                              "prompt_size,token_size\n");
    for (int r = 0; r < ROWS; r++)
        at += sprintf(at, "%d,2,0,%lld.%06lld,1,%d,%d\n", r, (long long)x.time_us[r] / 1000000,
                      (long long)x.time_us[r] % 1000000, x.in[r], x.out[r]);
    expect_truth(text, &x, "splitwise", true);

    at = text;
    for (int r = 0; r < ROWS; r++) {
        at += sprintf(at,
                      "{\"chat_id\": %d, \"parent_chat_id\": -1, \"timestamp\": %lld.%06lld, "
                      "\"input_length\": %d, \"output_length\": %d, \"type\": \"text\", "
                      "\"turn\": 1, \"hash_ids\": [",
                      r, (long long)x.time_us[r] / 1000000, (long long)x.time_us[r] % 1000000,
                      x.in[r], x.out[r]);
        for (int k = 0; k < (x.in[r] + 15) / 16; k++)
            at += sprintf(at, "%s%u", k ? ", " : "", pkv__rng_below(&rng, 99999));
        at += sprintf(at, "]}\n");
    }
    expect_truth(text, &x, "qwen", true);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_same_second),
        cmocka_unit_test(test_gpt4),      cmocka_unit_test(test_wrong_block),
        cmocka_unit_test(test_generated),
    };
    return cmocka_run_group_tests_name("trace_files", tests, NULL, NULL);
}
