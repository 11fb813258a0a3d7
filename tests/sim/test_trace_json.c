/* The reader of JSON lines: what is read, what is dropped and why, with which line; what is refused
 * and with which words; content ids. */
#include "trace_reading.h"

#define ROW0                                                                                       \
    "{\"timestamp\": 100, \"input_length\": 700, \"output_length\": 9, \"hash_ids\": [5, 6]}\n"
#define ROW1                                                                                       \
    "{\"timestamp\": 350, \"input_length\": 513, \"output_length\": 4, \"hash_ids\": [5, 9]}\n"

/* ---------------------------------------------------------------- good files */

static void expect_two(const pkv_sim_trace *t)
{
    static const int32_t ids[] = { 0, 1, 0, 2 };
    assert_string_equal(t->format, "mooncake");
    assert_int_equal(t->n_reqs, 2);
    assert_int_equal(t->reqs[0].prompt_tokens, 700);
    assert_int_equal(t->reqs[0].output_tokens, 9);
    assert_int_equal(t->reqs[1].arrival_ns, 250000000);
    assert_int_equal(t->reqs[1].prompt_tokens, 513);
    assert_int_equal(t->reqs[1].output_tokens, 4);
    assert_int_equal(t->time_unit_ns, 1000000);
    assert_int_equal(t->content.block_tokens, 512);
    assert_int_equal(t->content.n_distinct, 3);
    assert_int_equal(t->content.n_ids[0], 2);
    assert_int_equal(t->content.n_ids[1], 2);
    assert_memory_equal(t->content.ids, ids, sizeof(ids));
    assert_false(t->has_history);
}

/* Line ends, blanks, order of keys, escapes, unknown keys and ways to write a number. */
static void test_same_rows_in_many_clothes(void **state)
{
    (void)state;
    static const char *const files[] = {
        ROW0 ROW1,
        "\xef\xbb\xbf\r\n \r\n" ROW0 "\n\t\n" ROW1 "\r\n\n",
        ROW0 "{\"timestamp\": 350, \"input_length\": 513, \"output_length\": 4, \"hash_ids\": [5, "
             "9]}",
        "{\"hash_ids\":[5,6],\"output_length\":9,\"input_length\":700,\"timestamp\":100}\n" ROW1,
        " {\t\"timestamp\" :1e2 , \"input_length\": 700.0, \"output_length\": 0.9e1,\"hash_ids\" :"
        " [ 5\t,6 ] } \r\n" ROW1,
        "{\"time\\u0073tamp\": 100, \"input\\u005flength\": 700, \"output_length\": 9, "
        "\"h\\u0061sh_ids\": [5, 6]}\n" ROW1,
        ROW0 "{\"timestamp\": 350, \"id\": \"a\\\"}, \\ud83d\\ude00 \xc3\xa9\", \"more\": {\"a\": "
             "[{}, [], [[1.5e-3, -0, true]], null], \"hash_ids\": [7]}, \"input_length\": 513, "
             "\"output_length\": 4, \"hash_ids\": [5, 9], \"x\": false}\n",
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        pkv_sim_trace t;
        if (read_text(files[k], &t) != PKV_OK) fail_msg("%zu: %s", k, heard_text());
        expect_two(&t);
        assert_int_equal(t.rows_read, 2);
        assert_int_equal(t.had_bom, k == 1);
        assert_int_equal(t.had_crlf, strchr(files[k], '\r') != NULL);
        assert_int_equal(t.last_row_unterminated, files[k][strlen(files[k]) - 1] != '\n');
        pkv_sim_trace_free(&t);
    }
}

static void test_chunks(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf\n" ROW0 "\r\n" ROW1;
    for (size_t chunk = 1; chunk < sizeof(text); chunk++) {
        trace_source s = { text, sizeof(text) - 1, chunk, false };
        pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
        pkv_sim_trace t = PKV_SIM_TRACE_INIT;
        assert_int_equal(pkv_sim_trace_read(hand_out, &s, &cfg, &t), PKV_OK);
        expect_two(&t);
        pkv_sim_trace_free(&t);
    }
}

static void test_formats(void **state)
{
    (void)state;
    static const struct {
        const char *text, *format;
        int64_t second_ns, unit_ns;
        int32_t n_ids, block;
        bool has_history;
    } files[] = {
        { "{\"chat_id\": 159, \"parent_chat_id\": -1, \"timestamp\": 61.114, \"input_length\": 33, "
          "\"output_length\": 5, \"type\": \"text\", \"turn\": 1, \"hash_ids\": [1, 2]}\n"
          "{\"chat_id\": 160, \"parent_chat_id\": 159, \"timestamp\": 61.5, \"input_length\": 34, "
          "\"output_length\": 5, \"type\": \"text\", \"turn\": 2, \"hash_ids\": [1, 2, 3]}\n",
          "qwen", 386000000, 1000000000, 5, 16, true },
        { "{\"input_toks\": 33, \"output_toks\": 5, \"arrival_time_ns\": 1000000007, "
          "\"input_tok_ids\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, "
          "20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33], \"output_tok_ids\": [1]}\n"
          "{\"input_toks\": 34, \"output_toks\": 5, \"arrival_time_ns\": 1000000010}\n",
          "llmservingsim", 3, 1, 33, 1, false },
        { "{\"input_toks\": 33, \"output_toks\": 5, \"arrival_time_ns\": 7}\n"
          "{\"input_toks\": 34, \"output_toks\": 5, \"arrival_time_ns\": 8}\n",
          "llmservingsim", 1, 1, 0, 0, false },
        { "{\"TIMESTAMP\": \"2023-11-16T18:15:46Z\", \"ContextTokens\": 33, \"GeneratedTokens\": "
          "5}\n{\"TIMESTAMP\": \"2023-11-16\\u002018:15:46.5Z\", \"ContextTokens\": 34, "
          "\"GeneratedTokens\": 5}\n",
          "azure", 500000000, 0, 0, 0, false },
        { "{\"input\": 33, \"output\": 5}\n{\"output\": 5, \"input\": 34}\n", "lengths", 0, 0, 0, 0,
          false },
        { "{\"num_prefill_tokens\": 33, \"num_decode_tokens\": 5, \"arrived_at\": null}\n"
          "{\"num_prefill_tokens\": 34, \"num_decode_tokens\": 5}\n",
          "vidur", 0, 0, 0, 0, false },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        pkv_sim_trace t;
        if (read_text(files[k].text, &t) != PKV_OK) fail_msg("%zu: %s", k, heard_text());
        int64_t n_ids = 0;
        for (int r = 0; r < 2 && t.content.ids; r++) n_ids += t.content.n_ids[r];
        assert_string_equal(t.format, files[k].format);
        assert_int_equal(t.n_reqs, 2);
        assert_int_equal(t.reqs[0].prompt_tokens, 33);
        assert_int_equal(t.reqs[1].prompt_tokens, 34);
        assert_int_equal(t.reqs[1].output_tokens, 5);
        assert_int_equal(t.reqs[1].arrival_ns, files[k].second_ns);
        assert_int_equal(t.has_times, files[k].second_ns > 0);
        assert_int_equal(t.time_unit_ns, files[k].unit_ns);
        assert_int_equal(n_ids, files[k].n_ids);
        assert_int_equal(t.content.block_tokens, files[k].block);
        assert_int_equal(t.has_history, files[k].has_history);
        pkv_sim_trace_free(&t);
    }
}

/* ---------------------------------------------------------------- bad rows */

static void expect_drop(const char *row, pkv_sim_drop reason, const char *words)
{
    char text[700], want[200];
    pkv_sim_trace t;
    snprintf(text, sizeof(text), ROW0 "\n%s\n" ROW1, row);
    if (read_text(text, &t) != PKV_OK) fail_msg("'%s': %s", row, heard_text());
    if (t.dropped[reason] != 1 || t.first_line[reason] != 3)
        fail_msg("'%s' is not dropped as %s", row, pkv_sim_drop_name(reason));
    assert_int_equal(t.rows_read, 3);
    expect_two(&t); /* also: the content ids of the dropped row are gone */
    pkv_sim_trace_free(&t);

    pkv_sim_trace_config strict = PKV_SIM_TRACE_CONFIG_INIT;
    strict.strict = true;
    snprintf(want, sizeof(want), "line 3: %s: ", pkv_sim_drop_name(reason));
    expect_refusal_with(text, strict, PKV_E_FORMAT, want);
    if (!strstr(heard_text(), words)) fail_msg("said '%s', expected '%s'", heard_text(), words);
}

#define WITH(key_value)                                                                            \
    "{\"timestamp\": 200, \"input_length\": 600, \"output_length\": 4, \"hash_ids\": [77, "        \
    "78], " key_value "}"
#define TIMED(value)                                                                               \
    "{\"timestamp\": " value                                                                       \
    ", \"input_length\": 600, \"output_length\": 4, \"hash_ids\": [77, 78]}"
#define LENGTHS(i, o)                                                                              \
    "{\"timestamp\": 200, \"input_length\": " i ", \"output_length\": " o                          \
    ", \"hash_ids\": [77, 78]}"
#define IDS(value)                                                                                 \
    "{\"timestamp\": 200, \"input_length\": 600, \"output_length\": 4, \"hash_ids\": " value "}"

static void test_dropped_values(void **state)
{
    (void)state;
    expect_drop(LENGTHS("0", "4"), PKV_SIM_DROP_ZERO_INPUT, "input_length is '0'");
    expect_drop(LENGTHS("600", "0.0"), PKV_SIM_DROP_ZERO_OUTPUT, "output_length is '0.0'");
    expect_drop(LENGTHS("600", "1.5"), PKV_SIM_DROP_BAD_NUMBER,
                "output_length is '1.5', a whole number from 1 on is expected");
    expect_drop(LENGTHS("-600", "4"), PKV_SIM_DROP_BAD_NUMBER, "input_length is '-600'");
    expect_drop(LENGTHS("\"600\"", "4"), PKV_SIM_DROP_BAD_NUMBER, "input_length is '\"600\"'");
    expect_drop(LENGTHS("[600]", "4"), PKV_SIM_DROP_BAD_NUMBER, "input_length is '[600]'");
    expect_drop(LENGTHS("true", "4"), PKV_SIM_DROP_BAD_NUMBER, "input_length is 'true'");
    expect_drop(LENGTHS("null", "4"), PKV_SIM_DROP_BAD_JSON, "the key 'input_length' is missing");
    expect_drop(LENGTHS("2147483648", "4"), PKV_SIM_DROP_OVERFLOW,
                "input_length is '2147483648', at most 2147483647 is expected");
    expect_drop(TIMED("-1"), PKV_SIM_DROP_BAD_TIMESTAMP,
                "timestamp is '-1', milliseconds from 0 on is expected");
    expect_drop(TIMED("\"2023-11-16 18:15:46\""), PKV_SIM_DROP_BAD_TIMESTAMP, "timestamp is '\"20");
    expect_drop(TIMED("{}"), PKV_SIM_DROP_BAD_TIMESTAMP, "timestamp is '{}'");
    expect_drop(TIMED("1e16"), PKV_SIM_DROP_BAD_TIMESTAMP, "timestamp is '1e16'"); /* 300,000 y */
    expect_drop("{\"timestamp\": 200, \"input_length\": 600, \"hash_ids\": [77, 78]}",
                PKV_SIM_DROP_BAD_JSON, "the key 'output_length' is missing");
    expect_drop("{\"timestamp\": 200, \"input_length\": 600, \"output_length\": 4}",
                PKV_SIM_DROP_BAD_JSON, "the key 'hash_ids' is missing");
    expect_drop(IDS("null"), PKV_SIM_DROP_BAD_JSON, "the key 'hash_ids' is missing");
    static const char *const not_ids[] = {
        "[77, 78.0]",
        "[77, \"78\"]",
        "[77, [78]]",
        "[77, null]",
        "77",
        "{}",
        "\"[77, 78]\"",
        "[77, 18446744073709551616]",
        "[77, -9223372036854775809]",
        "[77, 7e1]",
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(not_ids); k++) {
        char row[200];
        snprintf(row, sizeof(row), IDS("%s"), not_ids[k]);
        expect_drop(row, PKV_SIM_DROP_BAD_NUMBER, "hash_ids is not a list of whole numbers");
    }
}

/* What no JSON is, and where it ceases to be. */
static void test_dropped_json(void **state)
{
    (void)state;
    static const struct {
        const char *row, *words;
    } rows[] = {
        { "17", "at byte 1, an object is expected" },
        { "[]", "at byte 1, an object is expected" },
        { "junk", "at byte 1, an object" },
        { "{", "at byte 2, a string" },
        { "{\"timestamp\": 200, \"input_length\": 600, \"output_len",
          "at byte 52, a closing quote" },
        { "{\"timestamp\": 200, \"input_length\": 600", "at byte 39, a comma or }" },
        { "{\"timestamp\": 200,}", "at byte 19, a string" },
        { "{\"timestamp\" 200}", "at byte 14, a colon" },
        { "{\"timestamp\": }", "at byte 15, a value" },
        { "{\"timestamp\": 0200}", "at byte 16, a comma or }" },
        { "{\"timestamp\": 1.}", "at byte 17, a digit" },
        { "{\"timestamp\": .5}", "at byte 15, a value" },
        { "{\"timestamp\": +5}", "at byte 15, a value" },
        { "{\"timestamp\": 1e}", "at byte 17, a digit" },
        { "{\"timestamp\": -}", "at byte 16, a digit" },
        { "{\"timestamp\": NaN}", "at byte 15, a value" },
        { "{\"timestamp\": nul}", "at byte 15, true, false or null" },
        { "{'timestamp': 200}", "at byte 2, a string" },
        { "{\"hash_ids\": [1, 2}", "at byte 19, a comma or ]" },
        { "{\"hash_ids\": [1,, 2]}", "at byte 17, a value" },
        { "{\"hash_ids\": [1, 2,]}", "at byte 20, a value" },
        { "{\"hash_ids\": [1, 02]}", "at byte 19, a comma or ]" },
        { "{\"a\": \"\\x\"}", "at byte 9, an escape" },
        { "{\"a\": \"\\u12g4\"}", "at byte 12, four hexadecimal digits" },
        { "{\"a\": \"\\ud800\"}", "at byte 14, the second half of a surrogate pair" },
        { "{\"a\": \"\\ud800\\u0041\"}", "at byte 20, the second half" },
        { "{\"a\": \"\\udc00\"}", "at byte 14, the first half" },
        { "{\"a\": \"x\ty\"}", "at byte 9, an escape for the control character" },
        { "{\"a\": \"\xff\"}", "at byte 8, UTF-8" },
        { "{\"a\": \"\xc0\xaf\"}", "at byte 8, UTF-8" },
        { "{\"a\": \"\xed\xa0\x80\"}", "at byte 8, UTF-8" },
        { "{\"a\": \"\xf4\x90\x80\x80\"}", "at byte 8, UTF-8" },
        { "{\"a\": \"\xc3\"}", "at byte 8, UTF-8" },
        { WITH("\"timestamp\": 200"), "a key that the object does not have yet" },
        { WITH("\"\\u0074imestamp\": 200"), "a key that the object does not have yet" },
        { WITH("\"a\": 1, \"a\": 1"), "a key that the object does not have yet" },
        { WITH("\"\\u0024\": 1, \"$\": 1"), "a key that the object" },
        { WITH("\"\\u00E9\": 1, \"\xc3\xa9\": 1"), "a key that the object" },
        { WITH("\"\\u20ac\": 1, \"\xe2\x82\xac\": 1"), "a key that the object" },
        { WITH("\"\\ud83d\\ude00\": 1, \"\xf0\x9f\x98\x80\": 1"), "a key that the object" },
        { WITH("\"\\b\\f\\n\\r\\t\": 1, \"\\u0008\\u000c\\u000a\\u000d\\u0009\": 1"),
          "a key that the obj" },
        { WITH("\"\\\\\\\"\\/\": 1, \"\\u005c\\u0022/\": 1"), "a key that the object" },
        { WITH("\"a\": {\"b\": 1, \"c\": {\"b\": 2}, \"b\": 1}"), "a key that the object" },
        { WITH("\"a\": 1") " {}", "nothing behind the object" },
        { WITH("\"a\": 1") ",", "nothing behind the object" },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(rows); k++)
        expect_drop(rows[k].row, PKV_SIM_DROP_BAD_JSON, rows[k].words);
}

/* 64 levels and 256 keys, and not one more. */
static void test_json_limits(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        char text[9000], *at = text;
        at += sprintf(at, ROW0 "{\"timestamp\": 350, \"input_length\": 513, \"output_length\": 4, "
                               "\"hash_ids\": [5, 9], \"a\": ");
        for (int k = 0; k < 64 + more; k++) *at++ = '[';
        for (int k = 0; k < 64 + more; k++) *at++ = ']';
        sprintf(at, "}\n");
        pkv_sim_trace t;
        assert_int_equal(read_text(text, &t), PKV_OK);
        assert_int_equal(t.dropped[PKV_SIM_DROP_BAD_JSON], more);
        pkv_sim_trace_free(&t);

        at = text;
        at += sprintf(at, ROW0 "{\"timestamp\": 350, \"input_length\": 513, \"output_length\": 4, "
                               "\"hash_ids\": [5, 9]");
        for (int k = 4; k < 256 + more; k++) /* levels and keys side by side do not add up */
            at += sprintf(at, k < 200 ? ",\"k%d\":[{\"k\":0}]" : ",\"k%d\":[[0]]", k);
        sprintf(at, "}\n");
        assert_int_equal(read_text(text, &t), PKV_OK);
        assert_int_equal(t.dropped[PKV_SIM_DROP_BAD_JSON], more);
        pkv_sim_trace_free(&t);
    }
}

static void test_nul_bytes(void **state)
{
    (void)state;
    static const char text[] = ROW0 "{\"a\0\": 1}\n" ROW1;
    pkv_sim_trace t;
    assert_int_equal(
        read_bytes(text, sizeof(text) - 1, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, &t),
        PKV_OK);
    expect_two(&t);
    assert_int_equal(t.first_line[PKV_SIM_DROP_BAD_BYTES], 2);
    pkv_sim_trace_free(&t);
}

/* A line of 16 MiB is read, one byte more is junk, and what follows is read. */
static void test_longest_line(void **state)
{
    (void)state;
    enum { LONGEST = 16 << 20 };
    char *text = malloc(LONGEST + 500);
    assert_non_null(text);
    for (int more = 0; more < 2; more++) {
        const int head = sprintf(text, ROW0);
        const int row = sprintf(text + head, "%s", ROW1) - 1;
        memset(text + head + row, ' ', (size_t)(LONGEST + more - row));
        char *end = text + head + LONGEST + more;
        sprintf(end, "\n" ROW1);
        pkv_sim_trace t;
        assert_int_equal(read_text(text, &t), PKV_OK);
        assert_int_equal(t.n_reqs, 3 - more);
        assert_int_equal(t.dropped[PKV_SIM_DROP_JUNK], more);
        assert_int_equal(t.first_line[PKV_SIM_DROP_JUNK], more ? 2 : 0);
        pkv_sim_trace_free(&t);
    }
    free(text);
}

/* The format is that of the first object, however many lines before it are none. */
static void test_late_start(void **state)
{
    (void)state;
    pkv_sim_trace t;
    assert_int_equal(read_text("{cut\n{\"a\": 1, \"a\": 2}\n" ROW0 ROW1, &t), PKV_OK);
    expect_two(&t);
    assert_int_equal(t.dropped[PKV_SIM_DROP_BAD_JSON], 2);
    assert_int_equal(t.first_line[PKV_SIM_DROP_BAD_JSON], 1);
    pkv_sim_trace_free(&t);
}

/* ---------------------------------------------------------------- content ids */

/* Ids that a double cannot tell apart, and those that only differ in how their 64 bits are read. */
static void test_exact_ids(void **state)
{
    (void)state;
    static const char text[] =
        "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": "
        "[9007199254740992, 9007199254740993, 9223372036854775807, 9223372036854775808, "
        "18446744073709551615]}\n"
        "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": "
        "[-1, -9223372036854775808, 1, 0, -0]}\n"
        "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 1, \"hash_ids\": "
        "[9007199254740993, -1, 18446744073709551615, -9223372036854775808, 0]}\n";
    static const int32_t want[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 1, 5, 4, 6, 8 };
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    pkv_sim_trace t;
    cfg.hash_block_tokens = 1;
    assert_int_equal(read_with(text, cfg, &t), PKV_OK);
    assert_int_equal(t.content.n_distinct, 9);
    assert_memory_equal(t.content.ids, want, sizeof(want));
    pkv_sim_trace_free(&t);
}

static void expect_mismatch(const char *input, const char *ids, const char *words)
{
    char text[400];
    snprintf(text, sizeof(text),
             ROW0 LENGTHS("%s", "0") "\n\n" //
                                     "{\"timestamp\": 1, \"input_length\": %s, \"output_length\": "
                                     "1, \"hash_ids\": %s}\n",
             "1", input, ids);
    expect_refusal(text, words);
}

/* floor and ceil of input / 512 both suit, each row by itself; nothing else does. */
static void test_number_of_ids(void **state)
{
    (void)state;
    pkv_sim_trace t;
    assert_int_equal(read_text("{\"timestamp\": 1, \"input_length\": 1023, \"output_length\": 1, "
                               "\"hash_ids\": [1]}\n"
                               "{\"timestamp\": 1, \"input_length\": 1023, \"output_length\": 1, "
                               "\"hash_ids\": [1, 2]}\n"
                               "{\"timestamp\": 1, \"input_length\": 511, \"output_length\": 1, "
                               "\"hash_ids\": []}\n"
                               "{\"timestamp\": 1, \"input_length\": 1024, \"output_length\": 1, "
                               "\"hash_ids\": [1, 2]}\n",
                               &t),
                     PKV_OK);
    assert_int_equal(t.content.n_ids[2], 0);
    pkv_sim_trace_free(&t);
    /* the dropped row in line 2 is not asked */
    expect_mismatch("1024", "[1]",
                    "line 4: 1 hash_ids for 1024 prompt tokens do not suit 512 tokens per id; 1024 "
                    "tokens per id would");
    expect_mismatch("1024", "[1, 2, 3]", "512 tokens per id; 257 tokens per id would");
    expect_mismatch("100", "[1, 2, 3, 4, 5, 6, 7]", "512 tokens per id; 16 tokens per id would");
    expect_mismatch("600", "[]", "only more than 600 tokens per id would");
    expect_mismatch("2", "[1, 2, 3]", "no other number would either");
    expect_refusal("{\"input_toks\": 3, \"output_toks\": 1, \"arrival_time_ns\": 0, "
                   "\"input_tok_ids\": [1, 2]}\n",
                   "line 1: 2 input_tok_ids for 3 prompt tokens do not suit 1 tokens per id; 2 "
                   "tokens per id would");
}

/* Ids of rows that are not used leave no trace, and those of sorted rows stay with them. */
static void test_ids_follow_requests(void **state)
{
    (void)state;
    static const char text[] =
        "{\"timestamp\": 5, \"input_length\": 2, \"output_length\": 7, \"hash_ids\": [10, 11]}\n"
        "{\"timestamp\": 3, \"input_length\": 1, \"output_length\": 8, \"hash_ids\": [12]}\n"
        "{\"timestamp\": 9, \"input_length\": 1, \"output_length\": 9, \"hash_ids\": [13]}\n"
        "{\"timestamp\": 4, \"input_length\": 2, \"output_length\": 1, \"hash_ids\": [11, 12]}\n"
        "{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 1, \"hash_ids\": []}\n";
    static const int32_t ids[] = { 0, 1, 0, 2, 1 }; /* 12; 11 12; 10 11 */
    static const int32_t outputs[] = { 8, 1, 7 };
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    pkv_sim_trace t;
    cfg.hash_block_tokens = 1;
    cfg.max_requests = 3;
    assert_int_equal(read_with(text, cfg, &t), PKV_OK);
    assert_int_equal(t.n_reqs, 3);
    assert_int_equal(t.n_backwards, 2);
    for (int r = 0; r < 3; r++) assert_int_equal(t.reqs[r].output_tokens, outputs[r]);
    assert_int_equal(t.content.n_distinct, 3);
    assert_memory_equal(t.content.ids, ids, sizeof(ids));
    assert_int_equal(t.content.n_ids[0], 1);
    assert_int_equal(t.content.first[2], 3);
    pkv_sim_trace_free(&t);
    cfg.start_ns = 1000000; /* from ms 4 on: 11 12; 10 11 */
    static const int32_t later_ids[] = { 0, 1, 2, 0 };
    cfg.max_requests = 2;
    assert_int_equal(read_with(text, cfg, &t), PKV_OK);
    assert_int_equal(t.n_reqs, 2);
    assert_int_equal(t.content.n_distinct, 3);
    assert_memory_equal(t.content.ids, later_ids, sizeof(later_ids));
    pkv_sim_trace_free(&t);
}

enum { ROWS = 200, EACH = 97, DISTINCT = ROWS / 2 * EACH };

/* Row r + ROWS / 2 repeats row r; id k is first + k * step. */
static void expect_many_ids(char *text, bool is_signed, int64_t first, int64_t step)
{
    char *at = text;
    for (int r = 0; r < ROWS; r++) {
        at += sprintf(at,
                      "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": 1, "
                      "\"hash_ids\": [",
                      r, EACH * 512);
        for (int k = 0; k < EACH; k++) {
            if (k > 0) *at++ = ',';
            const int64_t id = first + (r % (ROWS / 2) * EACH + k) * step;
            at += is_signed ? sprintf(at, "%lld", (long long)id)
                            : sprintf(at, "%llu", (unsigned long long)id);
        }
        at += sprintf(at, "]}\n");
    }
    pkv_sim_trace t;
    assert_int_equal(read_text(text, &t), PKV_OK);
    assert_int_equal(t.content.n_distinct, DISTINCT);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < EACH; k++)
            assert_int_equal(t.content.ids[t.content.first[r] + k], r % (ROWS / 2) * EACH + k);
    pkv_sim_trace_free(&t);
}

/* Many ids, so that tables and lists grow; each is found again, and none for its neighbour. */
static void test_many_ids(void **state)
{
    (void)state;
    char *text = malloc(ROWS * 3000);
    assert_non_null(text);
    expect_many_ids(text, true, 0, 1);
    expect_many_ids(text, true, 0, INT64_C(1) << 32);
    expect_many_ids(text, true, DISTINCT / 2, -1); /* through 0 */
    /* neighbours that are one double, the odd one first */
    expect_many_ids(text, true, (INT64_C(1) << 53) + 2 * DISTINCT + 1, -1);
    expect_many_ids(text, true, INT64_MAX, -1);
    expect_many_ids(text, false, INT64_MIN, 3); /* 2^63 and more */
    free(text);
}

/* ---------------------------------------------------------------- bad files */

static void test_refused(void **state)
{
    (void)state;
    expect_refusal("{\"timestamp\": 1, \"input_length\": 1, \"hash_ids\": []}\n",
                   "line 1: key 'output_length' of format mooncake is missing; keys found: "
                   "timestamp, input_length, hash_ids");
    expect_refusal("\n{\"Timestamp\": 1, \"prompt\": 1}\n",
                   "line 2: no known format (azure, burstgpt, vidur, splitwise, lengths, mooncake, "
                   "qwen, llmservingsim) has these keys: Timestamp, prompt");
    expect_refusal("{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}\n",
                   "key 'hash_ids' of format mooncake is missing");
    expect_refusal("{}\n", "no known format");
    expect_refusal("{\n \"timestamp\": 1\n}\n",
                   "none of the 3 rows is usable; line 1: bad_json: at byte 2, a string");
    expect_refusal("{\"session_id\": \"a\", \"arrival_time_ns\": 4, \"sub_requests\": "
                   "[{\"input_toks\": 1, \"output_toks\": 2, \"tool_duration_ns\": 3}]}\n",
                   "line 1: 'sub_requests': several requests");
    expect_refusal("{\"input_toks\": 1, \"output_toks\": 2, \"arrival_time_ns\": 4}\n"
                   "{\"session_id\": \"a\", \"arrival_time_ns\": 4, \"sub_requests\": []}\n",
                   "line 2: 'sub_requests'");
    expect_refusal(ROW0 "{\"input_length\": 513, \"output_length\": 4, \"hash_ids\": [5, 9]}\n",
                   "line 2: no time, while line 1 has one");
    expect_refusal(ROW0 TIMED("null") "\n", "line 2: no time, while line 1 has one");
    expect_refusal("[" ROW0 "]", "line 1: a JSON list; write one object per line");
    expect_refusal("timestamp,input_length,output_length,hash_ids\n1,1,1,[]\n",
                   "line 1: format mooncake is read from JSON lines, and this is CSV");
}

static void test_no_memory(void **state)
{
    (void)state;
    expect_no_memory(ROW0 ROW1, 8);
    expect_no_memory(ROW1 ROW0, 9); /* with sorting */
    expect_no_memory("{\"input\": 1, \"output\": 1}\n{\"input\": 1, \"output\": 1}\n", 4);
    /* a line and a list that make the buffer and the lists grow */
    enum { LONG = 300000 };
    char *text = malloc(LONG + 500), *at = text;
    assert_non_null(text);
    at += sprintf(at, "{\"timestamp\": 1, \"output_length\": 1, \"hash_ids\": [0");
    int n = 1;
    for (; at - text < LONG; n++) at += sprintf(at, ",%d", n);
    sprintf(at, "], \"input_length\": %d}\n" ROW0, n * 512);
    expect_no_memory(text, 20);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_rows_in_many_clothes),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_dropped_values),
        cmocka_unit_test(test_dropped_json),
        cmocka_unit_test(test_json_limits),
        cmocka_unit_test(test_nul_bytes),
        cmocka_unit_test(test_longest_line),
        cmocka_unit_test(test_late_start),
        cmocka_unit_test(test_exact_ids),
        cmocka_unit_test(test_number_of_ids),
        cmocka_unit_test(test_ids_follow_requests),
        cmocka_unit_test(test_many_ids),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("trace_json", tests, NULL, NULL);
}
