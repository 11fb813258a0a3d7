/* The trace readers against slow and obvious ones on random text: CSV against one that splits the
 * whole text character by character, JSON lines against Jansson. Both know the rules of
 * docs/simulator.md and nothing of how the readers do it.
 *
 * The text is made of rows that are right and of damage done to them, so that most of it is nearly
 * right. Numbers have at most 15 digits: an oracle may think in doubles. */
#include "trace_reading.h"

#include "common/philox.h"

#include <jansson.h>
#include <math.h>

#define MAX_ROWS 64
#define FAR_AWAY INT64_MAX /* more than 30 years */

/* ---------------------------------------------------------------- what is expected */

typedef struct fate {
    int drop; /* -1: used */
    int64_t line, time_ns;
    int32_t prompt, output;
    int64_t ids[40];
    int n_ids;
} fate;

typedef struct expectation {
    fate rows[MAX_ROWS];
    int n;
} expectation;

/* By time, equal times as they are: insertion. */
static void sort_used(const expectation *e, const fate **used, int *n)
{
    *n = 0;
    for (int k = 0; k < e->n; k++) {
        if (e->rows[k].drop >= 0) continue;
        int at = (*n)++;
        for (; at > 0 && used[at - 1]->time_ns > e->rows[k].time_ns; at--) used[at] = used[at - 1];
        used[at] = &e->rows[k];
    }
}

static int first_with(const pkv_sim_trace *t, const fate *const *used, int n, int64_t id)
{
    int64_t at = 0;
    for (int r = 0; r < n; r++)
        for (int k = 0; k < used[r]->n_ids; k++, at++)
            if (used[r]->ids[k] == id) return t->content.ids[at];
    return -1;
}

static const char *compare_used(const pkv_sim_trace *t, const fate *const *used, int n)
{
    if (t->n_reqs != n) return "number of requests";
    int64_t n_ids = 0;
    for (int r = 0; r < n; r++) {
        if (t->reqs[r].arrival_ns != used[r]->time_ns - used[0]->time_ns) return "a time";
        if (t->reqs[r].prompt_tokens != used[r]->prompt) return "a prompt";
        if (t->reqs[r].output_tokens != used[r]->output) return "an output";
        for (int k = 0; k < used[r]->n_ids; k++, n_ids++)
            if (t->content.ids[n_ids] != first_with(t, used, n, used[r]->ids[k])) return "an id";
    }
    return NULL;
}

/* NULL: the trace is what is expected. */
static const char *compare(const pkv_sim_trace *t, const expectation *e)
{
    const fate *used[MAX_ROWS];
    int n;
    if (t->rows_read != e->n) return "rows read";
    int64_t dropped[PKV_SIM_DROP_COUNT] = { 0 }, first[PKV_SIM_DROP_COUNT] = { 0 };
    for (int k = 0; k < e->n; k++) {
        const int drop = e->rows[k].drop;
        if (drop >= 0 && dropped[drop]++ == 0) first[drop] = e->rows[k].line;
    }
    if (memcmp(dropped, t->dropped, sizeof(dropped)) != 0) return "numbers dropped";
    if (memcmp(first, t->first_line, sizeof(first)) != 0) return "first lines";
    sort_used(e, used, &n);
    return compare_used(t, used, n);
}

static int n_used(const expectation *e)
{
    int n = 0;
    for (int k = 0; k < e->n; k++) n += e->rows[k].drop < 0;
    return n;
}

/* ---------------------------------------------------------------- numbers, slowly */

/* Is it digits[.digits][e[+-]digits], with a digit at all, perhaps a minus before? */
static bool is_number(const char *s)
{
    if (*s == '-') s++;
    size_t whole = strspn(s, "0123456789"), part = 0;
    s += whole;
    if (*s == '.') {
        part = strspn(s + 1, "0123456789");
        s += part + 1;
    }
    if (whole + part == 0) return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-') s++;
        const size_t n = strspn(s, "0123456789");
        if (n == 0) return false;
        s += n;
    }
    return *s == '\0';
}

/* -1: good */
static int tokens_of(double v, int32_t *out)
{
    if (v < 0 || v != floor(v)) return PKV_SIM_DROP_BAD_NUMBER;
    if (v > 2147483647) return PKV_SIM_DROP_OVERFLOW;
    *out = (int32_t)v;
    return -1;
}

/* Whole units and the part of one that a few digits behind the point are. */
static int64_t to_ns(double v, double unit_ns)
{
    return (int64_t)floor(v) * (int64_t)unit_ns + (int64_t)floor((v - floor(v)) * unit_ns + 0.5);
}

/* Lengths and time of a row are known; which rule does it break? -1: none. */
static int broken_rule(bool time_ok, int in, int out, const fate *row)
{
    if (!time_ok) return PKV_SIM_DROP_BAD_TIMESTAMP;
    if (in >= 0) return in;
    if (out >= 0) return out;
    if (row->prompt == 0) return PKV_SIM_DROP_ZERO_INPUT;
    return row->output == 0 ? PKV_SIM_DROP_ZERO_OUTPUT : -1;
}

/* ---------------------------------------------------------------- CSV, slowly */

#define MAX_FIELD 64

typedef struct slow_row {
    char fields[8][MAX_FIELD];
    int n;
    bool broken;
} slow_row;

static void add_char(slow_row *row, char c)
{
    char *field = row->fields[row->n];
    const size_t len = strlen(field);
    if (len + 1 < MAX_FIELD) field[len] = c;
}

static void slow_split(const char *line, slow_row *row)
{
    enum { START, PLAIN, QUOTED, BEHIND } at = START;
    memset(row, 0, sizeof(*row));
    for (; *line; line++) {
        const char c = *line;
        if (at == QUOTED) {
            if (c != '"') add_char(row, c);
            else if (line[1] == '"') add_char(row, *++line);
            else at = BEHIND;
        } else if (c == ',') {
            if (row->n < 7) row->n++;
            else row->broken = true; /* does not occur */
            at = START;
        } else if (at == BEHIND) {
            row->broken = true;
        } else if (at == START && c == '"') {
            at = QUOTED;
        } else {
            add_char(row, c);
            at = PLAIN;
        }
    }
    row->n++;
    if (at == QUOTED) row->broken = true;
}

static const char *strip(char *field)
{
    while (*field == ' ' || *field == '\t') field++;
    for (size_t n = strlen(field); n > 0 && (field[n - 1] == ' ' || field[n - 1] == '\t'); n--)
        field[n - 1] = '\0';
    return field;
}

static int slow_tokens(const char *s, int32_t *out)
{
    const double v = strtod(s, NULL);
    const bool too_small = v == 0 && strcspn(s, "123456789") < strcspn(s, "eE");
    if (!is_number(s) || too_small) return PKV_SIM_DROP_BAD_NUMBER;
    return tokens_of(v, out);
}

static void slow_csv_row(const char *line, const char *header, const int column[3], fate *out)
{
    slow_row row;
    *out = (fate){ 0 };
    slow_split(line, &row);
    out->drop = PKV_SIM_DROP_REPEATED_HEADER;
    if (strcmp(line, header) == 0) return;
    out->drop = PKV_SIM_DROP_JUNK;
    if (row.broken) return;
    out->drop = PKV_SIM_DROP_RAGGED_ROW;
    if (row.n != 4) return;
    const char *time = strip(row.fields[column[0]]);
    const double seconds = strtod(time, NULL);
    /* none: a good row then makes the reader refuse the file */
    const bool time_ok = !*time || (is_number(time) && seconds >= 0 && seconds < 1e19);
    out->time_ns = time_ok && seconds < 1e9 ? to_ns(seconds, 1e9) : FAR_AWAY;
    const int in = slow_tokens(strip(row.fields[column[1]]), &out->prompt);
    const int o = slow_tokens(strip(row.fields[column[2]]), &out->output);
    out->drop = broken_rule(time_ok, in, o, out);
}

/* Blank lines are no rows, the first line is the header. */
static void slow_csv(const char *text, const int column[3], expectation *e)
{
    char header[400] = "", line[400];
    e->n = 0;
    for (int64_t number = 1; *text; number++) {
        const size_t len = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)len, text);
        text += len + (text[len] == '\n');
        if (len > 0 && line[len - 1] == '\r') line[len - 1] = '\0';
        if (number == 1) snprintf(header, sizeof(header), "%s", line);
        else if (strspn(line, " \t\r") < strlen(line)) {
            slow_csv_row(line, header, column, &e->rows[e->n]);
            e->rows[e->n++].line = number;
        }
    }
}

/* Whether such a row is used depends on where the others are: that is another test. */
static bool too_far(const expectation *e)
{
    for (int k = 0; k < e->n; k++)
        if (e->rows[k].drop < 0 && e->rows[k].time_ns == FAR_AWAY) return true;
    return false;
}

/* ---------------------------------------------------------------- random text */

static const char *pick(pkv__rng *rng, const char *const *from, size_t n)
{
    return from[pkv__rng_below(rng, (uint32_t)n)];
}

/* Change, insert or take out a few characters from `from` on. */
static void damage(pkv__rng *rng, char *text, size_t from, const char *alphabet)
{
    for (uint32_t n = 1 + pkv__rng_below(rng, 3); n > 0; n--) {
        const size_t len = strlen(text + from);
        if (len == 0) return;
        char *at = text + from + pkv__rng_below(rng, (uint32_t)len);
        const char c = alphabet[pkv__rng_below(rng, (uint32_t)strlen(alphabet))];
        const size_t rest = strlen(at);
        switch (pkv__rng_below(rng, 3)) {
        case 0:
            *at = c;
            break;
        case 1:
            memmove(at + 1, at, rest + 1);
            *at = c;
            break;
        default:
            memmove(at, at + 1, rest);
        }
    }
}

static const char *const number_texts[] = { "7",   "12",     "0",     "7.0", "1.5e1", "25e-1", "-3",
                                            "1e9", "3e10",   "\"9\"", " 8 ", "x",     "",      "+4",
                                            "007", "100.00", "-0",    ".5",  "5.",    "1e-2" };
static const char *const time_texts[] = { "1.25", "3",  "2.5e1", "17.125", "-1",  "inf",
                                          "",     "4s", "0.001", "1e3",    "5e8", "12." };

static void random_csv(uint64_t seed)
{
    static const char *const names[] = { "arrival_timestamp", "prompt_size", "token_size", "note" };
    static const char *const notes[] = { "", "a", "\"a, \"\"b\"\"\"", "a\"b", "\"", "\"a\"b", "," };
    static const char *const ends[] = { "\n", "\n", "\r\n", "\n\n", "\n \t\r\n" };
    static char text[MAX_ROWS * 400];
    static expectation e;
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 1, 0);
    int order[4] = { 0, 1, 2, 3 }, column[3];
    for (int c = 3; c > 0; c--) {
        const int d = (int)pkv__rng_below(&rng, (uint32_t)c + 1), keep = order[c];
        order[c] = order[d];
        order[d] = keep;
    }
    for (int c = 0; c < 4; c++)
        if (order[c] < 3) column[order[c]] = c;
    char *at = text;
    for (int c = 0; c < 4; c++) at += sprintf(at, "%s%s", c ? "," : "", names[order[c]]);
    at += sprintf(at, "\n");
    for (int r = 0; r < 50; r++) {
        char *const start = at;
        const bool good = pkv__rng_below(&rng, 2) == 0;
        for (int c = 0; c < 4; c++) {
            const char *field =
                order[c] == 3   ? pick(&rng, notes, good ? 3 : PKV_ARRAY_LEN(notes))
                  : order[c] == 0 ? pick(&rng, time_texts, good ? 4 : PKV_ARRAY_LEN(time_texts))
                                  : pick(&rng, number_texts, good ? 2 : PKV_ARRAY_LEN(number_texts));
            at += sprintf(at, "%s%s", c ? "," : "", field);
        }
        if (pkv__rng_below(&rng, 4) == 0) damage(&rng, start, 0, "0123456789.,e-+\"\" x\t\r");
        at = start + strlen(start);
        at += sprintf(at, "%s", pick(&rng, ends, PKV_ARRAY_LEN(ends)));
    }
    slow_csv(text, column, &e);
    pkv_sim_trace t;
    if (too_far(&e)) return;
    const pkv_status status = read_text(text, &t);
    const bool untimed = status == PKV_E_FORMAT && strstr(heard_text(), "no time, while line");
    if (untimed) return; /* some rows without time: that is another test */
    const char *wrong = status == PKV_OK ? compare(&t, &e) : "refused";
    if (wrong && !(status == PKV_E_FORMAT && n_used(&e) == 0))
        fail_msg("PKV_SEED=%llu: %s differ: %s\n%s", (unsigned long long)seed, wrong, heard_text(),
                 text);
    pkv_sim_trace_free(&t);
}

static void test_csv(void **state)
{
    (void)state;
    const uint64_t end = first_seed() + n_seeds(3000);
    for (uint64_t seed = first_seed(); seed < end; seed++) random_csv(seed);
}

/* ---------------------------------------------------------------- JSON by Jansson */

static bool number_of(const json_t *value, double *out)
{
    *out = json_number_value(value);
    return json_is_number(value);
}

static int jansson_tokens(const json_t *value, int32_t *out)
{
    double v;
    if (!value) return PKV_SIM_DROP_BAD_JSON; /* a key missing */
    if (json_is_null(value)) return PKV_SIM_DROP_BAD_JSON;
    return number_of(value, &v) ? tokens_of(v, out) : PKV_SIM_DROP_BAD_NUMBER;
}

/* -1: a list of integers; -2: not there */
static int jansson_ids(const json_t *value, fate *out)
{
    if (!value || json_is_null(value)) return -2;
    if (!json_is_array(value)) return PKV_SIM_DROP_BAD_NUMBER;
    for (size_t k = 0; k < json_array_size(value); k++) {
        const json_t *id = json_array_get(value, k);
        if (!json_is_integer(id)) return PKV_SIM_DROP_BAD_NUMBER;
        if (out->n_ids < 40) out->ids[out->n_ids++] = json_integer_value(id);
    }
    return -1;
}

/* False: the line cannot be judged, since Jansson has smaller numbers, or its time is far away. */
static bool judge(const char *line, fate *out)
{
    json_error_t error;
    *out = (fate){ .drop = PKV_SIM_DROP_BAD_JSON };
    json_t *object =
        json_loads(line, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (!object)
        return json_error_code(&error) != json_error_numeric_overflow &&
               json_error_code(&error) != json_error_null_byte_in_key;
    if (json_is_object(object)) {
        const json_t *time = json_object_get(object, "timestamp");
        double ms = 0;
        const bool time_ok = time && number_of(time, &ms) && ms >= 0;
        const int ids = jansson_ids(json_object_get(object, "hash_ids"), out);
        const int in = jansson_tokens(json_object_get(object, "input_length"), &out->prompt);
        const int o = jansson_tokens(json_object_get(object, "output_length"), &out->output);
        out->time_ns = !time_ok ? 0 : ms < 1e12 ? to_ns(ms, 1e6) : FAR_AWAY;
        out->drop = ids >= 0 ? ids : broken_rule(time_ok, in, o, out);
        if (out->drop < 0 && ids == -2) out->drop = PKV_SIM_DROP_BAD_JSON;
        if (!time || json_is_null(time)) out->drop = -2; /* no time */
    }
    json_decref(object);
    return out->time_ns != FAR_AWAY;
}

static void put_blanks(pkv__rng *rng, char **at)
{
    static const char *const blanks[] = { "", "", "", " ", "\t", "  ", "\r" };
    *at += sprintf(*at, "%s", pick(rng, blanks, PKV_ARRAY_LEN(blanks)));
}

static void put_value(pkv__rng *rng, char **at, int key)
{
    static const char *const others[] = {
        "\"a\\u00e9\\n\\ud83d\\ude00\"",
        "{\"a\": {\"b\": [1, {\"a\": null}]}, \"b\": {}}",
        "[[], [-1.5e+3]]",
        "true",
        "false",
        "null",
        "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"",
        "-0.0E-2",
        "\"\\\"\\\\\\/\"",
        "{\"timestamp\": 5, \"hash_ids\": [7]}",
    };
    static const char *const times[] = { "5", "12", "3.25", "1e3", "7.5e2", "100000" };
    static const char *const lengths[] = { "3", "4", "4.0", "0.3e1", "3" };
    if (key == 4) *at += sprintf(*at, "%s", pick(rng, others, PKV_ARRAY_LEN(others)));
    if (key == 0) *at += sprintf(*at, "%s", pick(rng, times, PKV_ARRAY_LEN(times)));
    if (key == 1 || key == 2) *at += sprintf(*at, "%s", pick(rng, lengths, PKV_ARRAY_LEN(lengths)));
    if (key != 3) return;
    *at += sprintf(*at, "[");
    for (int k = 0; k < 2; k++) { /* 2 of 3 or 4 tokens: by ceil and floor */
        put_blanks(rng, at);
        *at += sprintf(*at, "%s%u", k ? "," : "", pkv__rng_below(rng, 30));
        put_blanks(rng, at);
    }
    *at += sprintf(*at, "]");
}

/* An object with its keys in any order, in one of two ways to write each. */
static void put_object(pkv__rng *rng, char *at)
{
    static const char *const keys[][2] = {
        { "timestamp", "t\\u0069mestamp" },
        { "input_length", "inpu\\u0074_length" },
        { "output_length", "output\\u005Flength" },
        { "hash_ids", "\\u0068ash_ids" },
        { "other", "oth\\\"er" },
    };
    int order[] = { 0, 1, 2, 3, 4 };
    for (int c = 4; c > 0; c--) {
        const int d = (int)pkv__rng_below(rng, (uint32_t)c + 1), keep = order[c];
        order[c] = order[d];
        order[d] = keep;
    }
    put_blanks(rng, &at);
    at += sprintf(at, "{");
    for (int k = 0; k < 5; k++) {
        if (order[k] == 4 && pkv__rng_below(rng, 2)) continue;
        if (at[-1] != '{') at += sprintf(at, ",");
        put_blanks(rng, &at);
        at += sprintf(at, "\"%s\"", keys[order[k]][pkv__rng_below(rng, 8) == 0]);
        put_blanks(rng, &at);
        at += sprintf(at, ":");
        put_blanks(rng, &at);
        put_value(rng, &at, order[k]);
        put_blanks(rng, &at);
        if (at[-1] == '{') at += sprintf(at, " ");
    }
    sprintf(at, "}");
}

static void random_json(uint64_t seed)
{
    static const char first[] = "{\"timestamp\": 1, \"input_length\": 4, \"output_length\": 1, "
                                "\"hash_ids\": [0, 1]}";
    static char text[MAX_ROWS * 700], line[1000];
    static expectation e;
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 2, 0);
    assert_true(judge(first, &e.rows[0]));
    e.rows[0].line = 1;
    e.n = 1;
    char *at = text + sprintf(text, "%s\n", first);
    for (int64_t number = 2; number < 40; number++) {
        put_object(&rng, line);
        if (pkv__rng_below(&rng, 2))
            damage(&rng, line, 0, "{}[]:,\"\"\\\\0123456789.eE+-untrf_ \t\x7f\x80\xc3\xff");
        if (line[0] && line[strlen(line) - 1] == '\r') line[strlen(line) - 1] = '\0';
        fate *f = &e.rows[e.n];
        const bool judged = judge(line, f), blank = strspn(line, " \t\r") == strlen(line);
        const bool suits =
            f->drop >= 0 || f->n_ids == f->prompt / 2 || f->n_ids == (f->prompt + 1) / 2;
        if (!judged || f->drop == -2 || !suits) sprintf(line, "%s", "{");
        if (!judged || f->drop == -2 || !suits) f->drop = PKV_SIM_DROP_BAD_JSON;
        f->line = number;
        if (!blank) e.n++;
        at += sprintf(at, "%s\n", line);
    }
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    pkv_sim_trace t;
    cfg.hash_block_tokens = 2;
    const pkv_status status = read_with(text, cfg, &t);
    const char *wrong = status == PKV_OK ? compare(&t, &e) : "refused";
    if (wrong)
        fail_msg("PKV_SEED=%llu: %s differ: %s\n%s", (unsigned long long)seed, wrong, heard_text(),
                 text);
    pkv_sim_trace_free(&t);
}

static void test_json(void **state)
{
    (void)state;
    const uint64_t end = first_seed() + n_seeds(3000);
    for (uint64_t seed = first_seed(); seed < end; seed++) random_json(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests_name("trace_oracle", tests, NULL, NULL);
}
