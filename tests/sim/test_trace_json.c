/* The reader of JSON lines: what is read, what is dropped and why, what is refused and with which
 * words; content ids; the traces published in this form. */
#include "trace_reading.h"

/* ---------------------------------------------------------------- published traces */

/* Rows, spans, means and ids counted with Python's json module. */
static void test_published(void **state)
{
    (void)state;
    static const struct {
        const char *name, *format;
        int32_t block; /* given; 0: as the format says */
        int64_t rows, span_us, in, out, n_ids, n_distinct;
    } files[] = {
        { "mooncake/synthetic_trace.jsonl", "mooncake", 0, 3993, 1022025000, 61194628, 595432,
          121877, 43924 },
        { "llmservingsim/sharegpt_llama31_8b_300_blk16.jsonl", "mooncake", 16, 300, 29137000,
          257239, 195753, 15942, 14722 },
        { "llmservingsim/example_trace.jsonl", "llmservingsim", 0, 10, 980043, 120, 591, 120, 70 },
        { "llmservingsim/workload_me2_01_mixed.jsonl", "llmservingsim", 0, 608, 60898463, 5604402,
          1837003, 0, 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
        pkv_sim_trace t;
        cfg.hash_block_tokens = files[k].block;
        read_shared(files[k].name, cfg, PKV_OK, &t);
        int64_t in = 0, out = 0, n_ids = 0;
        for (int64_t r = 0; r < t.n_reqs; r++) {
            in += t.reqs[r].prompt_tokens;
            out += t.reqs[r].output_tokens;
            if (t.content.ids) n_ids += t.content.n_ids[r];
        }
        assert_string_equal(t.format, files[k].format);
        assert_int_equal(t.rows_read, files[k].rows);
        assert_int_equal(t.n_reqs, files[k].rows);
        assert_int_equal(t.span_ns / 1000, files[k].span_us);
        assert_int_equal(in, files[k].in);
        assert_int_equal(out, files[k].out);
        assert_int_equal(n_ids, files[k].n_ids);
        assert_int_equal(t.content.n_distinct, files[k].n_distinct);
        assert_int_equal(n_heard(PKV_LOG_WARN), 0);
        pkv_sim_trace_free(&t);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_wrong_block),
    };
    return cmocka_run_group_tests_name("trace_json", tests, NULL, NULL);
}
