/* The CSV reader, rule by rule: what is read, what is dropped and why, with which line; what is
 * refused and with which words. */
#include "trace_reading.h"

#include "common/philox.h"

#define HEAD "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define T0 "2023-11-16 18:15:46.6805900"
#define T1 "2023-11-16 18:15:50.9951690"

static void expect_drop(const char *row, pkv_sim_drop reason)
{
    char text[512];
    pkv_sim_trace t;
    snprintf(text, sizeof(text), HEAD T0 ",374,44\n\n%s\n" T1 ",396,109\n", row);
    assert_int_equal(read_text(text, &t), PKV_OK);
    if (t.dropped[reason] != 1 || t.first_line[reason] != 4)
        fail_msg("'%s' is not dropped as %s", row, pkv_sim_drop_name(reason));
    assert_int_equal(t.rows_read, 3);
    assert_int_equal(t.n_reqs, 2);
    pkv_sim_trace_free(&t);

    pkv_sim_trace_config strict = PKV_SIM_TRACE_CONFIG_INIT;
    strict.strict = true;
    char words[64];
    snprintf(words, sizeof(words), "line 4: %s", pkv_sim_drop_name(reason));
    assert_int_equal(read_bytes(text, strlen(text), strict, &t), PKV_E_FORMAT);
    assert_non_null(strstr(heard_text(), words));
}

/* ---------------------------------------------------------------- good files */

static void expect_two(const pkv_sim_trace *t)
{
    assert_string_equal(t->format, "azure");
    assert_int_equal(t->n_reqs, 2);
    assert_int_equal(t->reqs[0].arrival_ns, 0);
    assert_int_equal(t->reqs[0].prompt_tokens, 374);
    assert_int_equal(t->reqs[0].output_tokens, 44);
    assert_int_equal(t->reqs[1].arrival_ns, 4314579000); /* 50.9951690 - 46.6805900 s */
    assert_int_equal(t->reqs[1].prompt_tokens, 396);
    assert_int_equal(t->reqs[1].output_tokens, 109);
    assert_int_equal(t->span_ns, 4314579000);
    assert_true(t->has_times);
}

/* Line ends, a byte order mark, quotes, order of columns and unknown columns change nothing. */
static void test_same_rows_in_many_clothes(void **state)
{
    (void)state;
    static const char *const files[] = {
        HEAD T0 ",374,44\n" T1 ",396,109\n",
        HEAD T0 ",374,44\n" T1 ",396,109",
        "\n \n" HEAD "\n" T0 ",374,44\n\n" T1 ",396,109\n\n\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" T0 ",374,44\r\n" T1 ",396,109",
        "\xef\xbb\xbf" HEAD T0 ",374,44\n" T1 ",396,109\n",
        "\xef\xbb\xbf\"TIMESTAMP\",\"ContextTokens\",\"GeneratedTokens\"\r\n\"" T0
        "\",\"374\",44\r\n" T1 ",396,\"109\"\r\n",
        "GeneratedTokens,note,ContextTokens,TIMESTAMP\n44,,374," T0 "\n109,\"a, \"\"b\"\"\",396," T1
        "\n",
        HEAD T0 ", 374 ,44.0\n" T1 ",396,1.09e2\n",
        HEAD "2023-11-16T18:15:46.68059Z,374,44\n2023-11-16 19:15:50.995169+01:00,396,109\n",
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        pkv_sim_trace t;
        assert_int_equal(read_text(files[k], &t), PKV_OK);
        expect_two(&t);
        assert_int_equal(t.rows_read, 2);
        assert_int_equal(t.had_bom, (unsigned char)files[k][0] == 0xef);
        assert_int_equal(t.had_crlf, strchr(files[k], '\r') != NULL);
        assert_int_equal(t.last_row_unterminated, files[k][strlen(files[k]) - 1] != '\n');
        pkv_sim_trace_free(&t);
    }
}

/* Whatever the size of the pieces in which the source hands out the bytes. */
static void test_chunks(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n" T0
                               ",374,44\r\n\r\n\"" T1 "\",396,109";
    for (size_t chunk = 1; chunk < sizeof(text); chunk++) {
        trace_source m = { text, sizeof(text) - 1, chunk, false };
        pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
        pkv_sim_trace t = PKV_SIM_TRACE_INIT;
        assert_int_equal(pkv_sim_trace_read(hand_out, &m, &cfg, &t), PKV_OK);
        expect_two(&t);
        pkv_sim_trace_free(&t);
    }
    trace_source broken = { text, 60, 7, true };
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    pkv_sim_trace t = PKV_SIM_TRACE_INIT;
    assert_int_equal(pkv_sim_trace_read(hand_out, &broken, &cfg, &t), PKV_E_IO);
}

static void test_other_formats(void **state)
{
    (void)state;
    static const struct {
        const char *text, *format;
        bool has_times;
        int64_t second_ns;
    } files[] = {
        { "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
          "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n",
          "burstgpt", true, 40000000000 },
        { "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log "
          "Type\n19440110.0,,1.5,GPT-4,472,18,490,API log\n19440110.25,,1,GPT-4,1087,230,1317,x\n",
          "burstgpt", true, 250000000 },
        { "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n472.0,18,490,26.2\n"
          "1087.0,230,1317,4.7\n",
          "vidur", false, 0 },
        { "arrived_at,num_prefill_tokens,num_decode_tokens\n0.1,472,18\n0.3,1087,230\n", "vidur",
          true, 200000000 },
        { "arrived_at,num_prefill_tokens,num_decode_tokens\n,472,18\n,1087,230\n", "vidur", false,
          0 },
        { "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,"
          "token_size\n0,2,0,0.5,1,472,18\n1,2,0,1.75,1,1087,230\n",
          "splitwise", true, 1250000000 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(files); k++) {
        pkv_sim_trace t;
        assert_int_equal(read_text(files[k].text, &t), PKV_OK);
        assert_string_equal(t.format, files[k].format);
        assert_int_equal(t.has_times, files[k].has_times);
        assert_int_equal(t.n_reqs, 2);
        assert_int_equal(t.reqs[1].arrival_ns, files[k].second_ns);
        assert_int_equal(t.reqs[0].prompt_tokens, 472);
        assert_int_equal(t.reqs[1].output_tokens, 230);
        pkv_sim_trace_free(&t);
    }
}

/* ---------------------------------------------------------------- bad rows */

static void test_dropped_rows(void **state)
{
    (void)state;
    expect_drop(T0 ",0,44", PKV_SIM_DROP_ZERO_INPUT);
    expect_drop(T0 ",374,0", PKV_SIM_DROP_ZERO_OUTPUT);
    expect_drop(T0 ",12.5,44", PKV_SIM_DROP_BAD_NUMBER);
    expect_drop(T0 ",374,-1", PKV_SIM_DROP_BAD_NUMBER);
    expect_drop(T0 ",,44", PKV_SIM_DROP_BAD_NUMBER);
    expect_drop(T0 ",2147483648,44", PKV_SIM_DROP_OVERFLOW);
    expect_drop("yesterday,374,44", PKV_SIM_DROP_BAD_TIMESTAMP);
    expect_drop("nan,374,44", PKV_SIM_DROP_BAD_TIMESTAMP);
    expect_drop("1901-01-01 00:00:00,374,44", PKV_SIM_DROP_BAD_TIMESTAMP); /* 122 years away */
    expect_drop(T0 ",374", PKV_SIM_DROP_RAGGED_ROW);
    expect_drop(T0 ",374,44,", PKV_SIM_DROP_RAGGED_ROW);
    expect_drop("junk", PKV_SIM_DROP_RAGGED_ROW);
    expect_drop("\"" T0 ",374,44", PKV_SIM_DROP_JUNK);
    expect_drop("\"" T0 "\"x,374,44", PKV_SIM_DROP_JUNK);
    expect_drop("TIMESTAMP,ContextTokens,GeneratedTokens", PKV_SIM_DROP_REPEATED_HEADER);
    expect_drop("TIMESTAMP,ContextTokens,GeneratedTokens\r", PKV_SIM_DROP_REPEATED_HEADER);
    assert_string_equal(pkv_sim_drop_name(PKV_SIM_DROP_COUNT), "?");
}

static void test_nul_bytes(void **state)
{
    (void)state;
    static const char text[] = HEAD T0 ",374,44\n" T0 ",3\0007,44\n" T1 ",396,109\n";
    pkv_sim_trace t;
    assert_int_equal(
        read_bytes(text, sizeof(text) - 1, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, &t),
        PKV_OK);
    expect_two(&t);
    assert_int_equal(t.first_line[PKV_SIM_DROP_BAD_BYTES], 3);
    pkv_sim_trace_free(&t);
}

/* A line above 1 MiB is one junk row, wherever it stands; what follows is read. */
static void test_long_lines(void **state)
{
    (void)state;
    enum { LONG = 3 << 20 };
    char *text = malloc(LONG + 500);
    assert_non_null(text);
    int n = sprintf(text, HEAD T0 ",374,44\n");
    memset(text + n, 'x', LONG);
    n += LONG;
    n += sprintf(text + n, "\n" T1 ",396,109\n");
    pkv_sim_trace t;
    assert_int_equal(
        read_bytes(text, (size_t)n, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, &t), PKV_OK);
    expect_two(&t);
    assert_int_equal(t.first_line[PKV_SIM_DROP_JUNK], 3);
    pkv_sim_trace_free(&t);
    memset(text, ' ', LONG);
    assert_int_equal(read_bytes(text, LONG, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, &t),
                     PKV_E_FORMAT);
    free(text);
}

/* A source without line ends: `head`, then one byte for ever. */
typedef struct endless {
    const char *head;
    char byte;
    int64_t given;
} endless;

static int64_t read_endless(void *ctx, void *buf, size_t cap)
{
    endless *e = ctx;
    size_t n = strlen(e->head);
    if (n > cap) n = cap;
    if (n > 0) {
        memcpy(buf, e->head, n);
        e->head += n;
    } else {
        n = cap;
        memset(buf, e->byte, n);
    }
    e->given += (int64_t)n;
    return e->given > INT64_C(256) << 20 ? -1 : (int64_t)n; /* the test ends, whatever happens */
}

static void expect_end(const char *head, char byte, int64_t most_mib, const char *words)
{
    endless e = { head, byte, 0 };
    pkv_sim_trace t = PKV_SIM_TRACE_INIT;
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    cfg.log = listening();
    assert_int_equal(pkv_sim_trace_read(read_endless, &e, &cfg, &t), PKV_E_FORMAT);
    if (!strstr(heard_text(), words)) fail_msg("said '%s', expected '%s'", heard_text(), words);
    assert_in_range(e.given, 1 << 20, most_mib << 20);
}

/* The header is given up at 1 MiB, a row at 64 MiB. */
static void test_endless_lines(void **state)
{
    (void)state;
    expect_end("", '\0', 2, "line 1: not a CSV header (longer than 1 MiB)");
    expect_end("", ' ', 2, "line 1: not a CSV header (longer than 1 MiB)");
    expect_end("\n\nTIME", 'x', 2, "line 3: not a CSV header (longer than 1 MiB)");
    expect_end(HEAD T0 ",374,44\n", 'x', 66, "line 3: no line end within 64 MiB");
    expect_end(HEAD T0 ",374,44\n", ' ', 66, "line 3: no line end within 64 MiB");
}

/* Of 1 MiB and not a byte more, however the bytes come in. */
static void test_longest_line(void **state)
{
    (void)state;
    enum { LONGEST = 1 << 20 };
    char *text = malloc(LONGEST + 500);
    assert_non_null(text);
    for (int more = 0; more < 2; more++) {
        const int n = sprintf(text, HEAD T0 ",374,44\n" T1 ",396,109");
        const int row = (int)strlen(T1 ",396,109"), end = n - row + LONGEST + more;
        memset(text + n, ' ', (size_t)(end - n));
        text[end] = '\n';
        for (int newline = 0; newline < 2; newline++) {
            pkv_sim_trace t;
            const size_t len = (size_t)(end + newline);
            assert_int_equal(
                read_bytes(text, len, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, &t), PKV_OK);
            assert_int_equal(t.n_reqs, 2 - more);
            assert_int_equal(t.dropped[PKV_SIM_DROP_JUNK], more);
            pkv_sim_trace_free(&t);
        }
    }
    free(text);
}

/* ---------------------------------------------------------------- random files, known contents */

/* A row of each kind, in the columns time, input, output, note; what a reader has to make of it is
 * known by construction. */
static const struct {
    const char *time, *input, *output, *note;
    int drop; /* -1: good, 100 + number of the row seconds, 7 in, 9 out */
} kinds[] = {
    { NULL, "7", "9", "", -1 },
    { NULL, "7.0", "0.9e1", "x", -1 },
    { NULL, "7", "9", "a, \"\"b\"\"", -1 }, /* gets quotes */
    { NULL, "0", "9", "", PKV_SIM_DROP_ZERO_INPUT },
    { NULL, "7", "0.0", "", PKV_SIM_DROP_ZERO_OUTPUT },
    { NULL, "seven", "9", "", PKV_SIM_DROP_BAD_NUMBER },
    { NULL, "7", "9e9", "", PKV_SIM_DROP_OVERFLOW },
    { "-1", "7", "9", "", PKV_SIM_DROP_BAD_TIMESTAMP },
    { "inf", "7", "9", "", PKV_SIM_DROP_BAD_TIMESTAMP },
    { NULL, "7", "9", "one, two", PKV_SIM_DROP_RAGGED_ROW }, /* a comma without quotes */
    { NULL, "7", "9", "\"open", PKV_SIM_DROP_JUNK },
};

static size_t put_row(char *text, const char *fields[4], const int order[4], bool quote,
                      const char *end)
{
    size_t n = 0;
    for (int c = 0; c < 4; c++) {
        const bool quoted = quote && strchr(fields[order[c]], ',');
        n += (size_t)sprintf(text + n, "%s%s%s%s", c ? "," : "", quoted ? "\"" : "",
                             fields[order[c]], quoted ? "\"" : "");
    }
    return n + (size_t)sprintf(text + n, "%s", end);
}

static void random_file(uint64_t seed)
{
    enum { ROWS = 60 };
    static const char *const head[4] = { "arrived_at", "num_prefill_tokens", "num_decode_tokens",
                                         "note" };
    static char text[ROWS * 100];
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 0, 0);
    int order[4] = { 0, 1, 2, 3 };
    for (int c = 3; c > 0; c--) { /* shuffle */
        const int d = (int)pkv__rng_below(&rng, (uint32_t)c + 1), keep = order[c];
        order[c] = order[d];
        order[d] = keep;
    }
    const char *names[4] = { head[0], head[1], head[2], head[3] };
    size_t len = put_row(text, names, order, false, "\r\n");
    int64_t want_dropped[PKV_SIM_DROP_COUNT] = { 0 }, n_good = 0, first_s = -1, last_s = -1;
    for (int r = 0; r < ROWS; r++) {
        const uint32_t k = pkv__rng_below(&rng, PKV_ARRAY_LEN(kinds));
        char time[16];
        snprintf(time, sizeof(time), "%d", 100 + r);
        const char *fields[4] = { kinds[k].time ? kinds[k].time : time, kinds[k].input,
                                  kinds[k].output, kinds[k].note };
        static const char *const ends[] = { "\n", "\r\n", "\n\n", "\n \t\r\n" };
        len +=
            put_row(text + len, fields, order, kinds[k].drop == -1, ends[pkv__rng_below(&rng, 4)]);
        if (kinds[k].drop >= 0) {
            want_dropped[kinds[k].drop]++;
            continue;
        }
        if (n_good++ == 0) first_s = r;
        last_s = r;
    }
    pkv_sim_trace t;
    const pkv_status status =
        read_bytes(text, len, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, &t);
    if (status != PKV_OK || t.n_reqs != n_good ||
        memcmp(t.dropped, want_dropped, sizeof(want_dropped)) != 0 ||
        t.span_ns != (last_s - first_s) * 1000000000)
        fail_msg("PKV_SEED=%llu: %s, %lld requests, expected %lld", (unsigned long long)seed,
                 pkv_status_name(status), (long long)t.n_reqs, (long long)n_good);
    for (int64_t r = 0; r < t.n_reqs; r++)
        assert_true(t.reqs[r].prompt_tokens == 7 && t.reqs[r].output_tokens == 9);
    pkv_sim_trace_free(&t);
}

static void test_random_files(void **state)
{
    (void)state;
    const uint64_t end = first_seed() + n_seeds(500);
    for (uint64_t seed = first_seed(); seed < end; seed++) random_file(seed);
}

/* ---------------------------------------------------------------- bad files */

static void test_refused_files(void **state)
{
    (void)state;
    expect_refusal("", "the file is empty");
    expect_refusal("\xef\xbb\xbf", "the file is empty");
    expect_refusal("\n \n\r\n", "the file is empty");
    expect_refusal(HEAD, "a header, but no rows");
    expect_refusal(HEAD "\n\n", "a header, but no rows");
    expect_refusal("TIMESTAMP,ContextTokens\n" T0 ",1\n",
                   "line 1: column 'GeneratedTokens' of format azure is missing; columns found: "
                   "TIMESTAMP, ContextTokens");
    expect_refusal("ContextTokens,GeneratedTokens\n1,1\n", "column 'TIMESTAMP' of format azure");
    expect_refusal("timestamp,contexttokens\n",
                   "line 1: no known format (azure, burstgpt, vidur, splitwise, lengths, mooncake, "
                   "qwen, llmservingsim) has these columns: timestamp, contexttokens; name the "
                   "input and output column");
    expect_refusal("aaaaaaaaaaaaaaaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbbbbbbbbbbbb,c,d,e,f,g,h,i,j,k\n",
                   ", ...; name the input and output column");
    expect_refusal("TIMESTAMP;ContextTokens;GeneratedTokens\n" T0 ";1;1\n", "use a comma");
    expect_refusal("TIMESTAMP\tContextTokens\n", "use a comma");
    expect_refusal("TIMESTAMP,ContextTokens,ContextTokens,GeneratedTokens\n", "is there twice");
    expect_refusal("\n [{\"timestamp\": 1}]\n", "line 2: a JSON list; write one object per line");
    expect_refusal("\"TIMESTAMP,ContextTokens,GeneratedTokens\n", "broken quotes");
    expect_refusal(
        HEAD T0 ",0,44\n" T0 ",1,x\n",
        "none of the 2 rows is usable; line 2: zero_input: ContextTokens is '0', a whole "
        "number from 1 on is expected");
    expect_refusal(
        HEAD T0 ",1,x\ty\n" T0 ",0,44\n",
        "none of the 2 rows is usable; line 2: bad_number: GeneratedTokens is 'x\\x09y'");
    expect_refusal(HEAD T0 ",1\n", "the only row is not usable; line 2: ragged_row: 2 fields, the "
                                   "header has 3");
    expect_refusal("Timestamp,Request tokens,Response tokens\n-1,2,3\n",
                   "bad_timestamp: Timestamp is '-1', seconds from 0 on, as in 12.5 is expected");
    expect_refusal("num_prefill_tokens,num_decode_tokens\n",
                   "a row with num_prefill_tokens and num_decode_tokens per request");
    expect_refusal(HEAD T0 ",9999999999,12345678901234567890123456789012345678901234567890\n",
                   "overflow: ContextTokens is '9999999999', at most 2147483647 is expected");
    expect_refusal(HEAD T0 ",1,12345678901234567890123456789012345678901234567890\n",
                   "GeneratedTokens is '123456789012345678901234567890123456...', at most");
    expect_refusal(HEAD T0 ",1,1\n" T1 "Z,1,1\n", "line 3: a time with a zone, while line 2");
    expect_refusal("arrived_at,num_prefill_tokens,num_decode_tokens\n1,1,1\n,1,1\n2,1,1\n",
                   "line 3: no time, while line 2");
    pkv_sim_trace t;
    static const char binary[] = "TIMESTAMP\0,ContextTokens\n";
    assert_int_equal(
        read_bytes(binary, sizeof(binary) - 1, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, &t),
        PKV_E_FORMAT);
    assert_non_null(strstr(heard_text(), "a NUL byte"));
}

/* ---------------------------------------------------------------- memory that runs out */

static void test_no_memory(void **state)
{
    (void)state;
    expect_no_memory(HEAD T0 ",374,44\n" T1 ",396,109\n", 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_rows_in_many_clothes),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_dropped_rows),
        cmocka_unit_test(test_nul_bytes),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_endless_lines),
        cmocka_unit_test(test_longest_line),
        cmocka_unit_test(test_random_files),
        cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("trace_csv", tests, NULL, NULL);
}
