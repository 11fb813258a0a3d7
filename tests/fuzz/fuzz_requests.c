/* Fuzz target: lines of requests for pkv-generate. A refusal is one line with file, line and column
 * inside the input; what is taken is in range. The program's own main and options are not here. */
#include "fuzz.h"

#include "../../src/tools/generate.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char complaint[1024];
static int n_complaints;

bool generate_complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(complaint, sizeof(complaint), fmt, args);
    va_end(args);
    n_complaints++;
    return false;
}

/* "<path>:LINE:COLUMN: why", or what is said of the whole file. */
static void check_complaint(const char *path, const uint8_t *data, size_t size)
{
    const size_t n = strlen(path);
    long long line = 0, column = 0;
    long long n_lines = 1;
    for (size_t k = 0; k < size; k++) n_lines += data[k] == '\n';
    FUZZ_REQUIRE(n_complaints == 1 && strncmp(complaint, path, n) == 0);
    if (strcmp(complaint + n, ": no requests") == 0) return;
    FUZZ_REQUIRE(sscanf(complaint + n, ":%lld:%lld: ", &line, &column) == 2);
    FUZZ_REQUIRE(line >= 1 && line <= n_lines);
    FUZZ_REQUIRE(column >= 1 && column <= (long long)size + 1);
}

static void check_request(const generate_request *r)
{
    const pkv_sampling *s = &r->req.sampling;
    FUZZ_REQUIRE((r->text != NULL) != (r->ids != NULL));
    FUZZ_REQUIRE(!r->ids || r->n_ids >= 1);
    for (int32_t k = 0; k < r->n_ids; k++) FUZZ_REQUIRE(r->ids[k] >= 0);
    FUZZ_REQUIRE(r->req.max_new >= 1 && r->req.n >= 1 && r->req.beams >= 0 && r->req.beams <= 16);
    FUZZ_REQUIRE(isfinite(s->temperature) && s->temperature >= 0 && s->top_k >= 0);
    FUZZ_REQUIRE(s->top_p > 0 && s->top_p <= 1 && s->min_p >= 0 && s->min_p <= 1);
    FUZZ_REQUIRE(s->repeat_penalty > 0 && s->n_logprobs >= -1 && s->n_logprobs <= 20);
    FUZZ_REQUIRE(isfinite(s->presence_penalty) && isfinite(s->frequency_penalty));
    FUZZ_REQUIRE(r->n_stops >= 0 && r->n_stops <= GENERATE_MAX_STOPS);
    for (int32_t k = 0; k < r->n_stops; k++) {
        const size_t n = strlen(r->stops[k]);
        FUZZ_REQUIRE(n >= 1 && n <= GENERATE_MAX_STOP_BYTES && generate_is_utf8(r->stops[k], n));
    }
    FUZZ_REQUIRE(r->n_stop_ids >= 0 && r->n_stop_ids <= GENERATE_MAX_STOP_IDS);
    FUZZ_REQUIRE(r->n_bias >= 0 && r->n_bias <= GENERATE_MAX_BIAS);
    for (int32_t k = 0; k < r->n_bias; k++)
        FUZZ_REQUIRE(r->bias[k].id >= 0 && !isnan(r->bias[k].bias) && r->bias[k].bias < 1.1e6F);
    FUZZ_REQUIRE(r->arrival_ms >= 0 && r->arrival_ms <= 1e12);
    FUZZ_REQUIRE(generate_request_check(r) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1; /* one file in memory for the process */
    static char path[64];
    if (fd < 0) fd = memfd_create("requests", 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    FUZZ_REQUIRE(fd >= 0 && ftruncate(fd, 0) == 0);
    FUZZ_REQUIRE(pwrite(fd, data, size, 0) == (ssize_t)size);
    generate_options o = { .requests = path, .base = { .req = PKV_REQUEST_INIT } };
    generate_requests rs = { 0 };
    o.base.req.max_new = 128;
    n_complaints = 0;
    const int code = generate_lines_read(&o, &rs);
    FUZZ_REQUIRE(code == GENERATE_OK || code == GENERATE_USAGE);
    if (code == GENERATE_OK) FUZZ_REQUIRE(n_complaints == 0 && rs.n >= 1);
    else check_complaint(path, data, size);
    for (int32_t k = 0; k < rs.n && code == GENERATE_OK; k++) check_request(&rs.list[k]);
    generate_requests_free(&rs);
    return 0;
}

#define BASE "{\"ids\":[1,4,5],\"max_tokens\":3"
const fuzz_seed fuzz_seeds[] = {
    FUZZ_SEED(""),
    FUZZ_SEED("\n\n"),
    FUZZ_SEED(BASE "}"),
    FUZZ_SEED(BASE "}\n{\"prompt\":\"a\\u00e9\\ud83d\\ude00\",\"id\":[1]}\r\n\r\n" BASE
                   ",\"n\":2}"),
    FUZZ_SEED(
        BASE
        ",\"stop\":[\"a\",\"b\"],\"stop_ids\":[3],\"logit_bias\":{\"3\":-1.5,\"4\":\"-inf\"}}"),
    FUZZ_SEED(
        BASE
        ",\"temperature\":0.5,\"top_p\":0.9,\"top_k\":3,\"min_p\":0.1,\"seed\":1,\"logprobs\":2}"),
    FUZZ_SEED(BASE ",\"beams\":4,\"length_penalty\":-1,\"early_stopping\":true}"),
    FUZZ_SEED("\357\273\277{\"pr\\u006fmpt\":null,\"input_ids\":[7],\"deadline_ms\":1e3,\"arrival_"
              "ms\":0}"),
    FUZZ_SEED("{\"a\":{\"ids\":[\"}\\\"\"]},\"max_tokens\":0}"),
};
const size_t fuzz_n_seeds = sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]);
const char *const fuzz_words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\n",
    "\\\"",
    "\\u0000",
    "\\u00e9",
    "\\",
    "null",
    "true",
    "-1",
    "0",
    "1e308",
    "1e999",
    "2147483648",
    "9223372036854775807",
    "\"id\":",
    "\"n\":",
    "\"stop\":",
    "\"seed\":",
    "\"-inf\"",
    "\"logit_bias\":{",
    "\"max_token\":1",
    "\"max_new_tokens\":1",
    "\"beams\":2",
    "\"ids\":[1]",
    "\"prompt\":\"\"",
    "\303\251",
    "\377",
    " ",
    "\t",
    BASE,
};
const size_t fuzz_n_words = sizeof(fuzz_words) / sizeof(fuzz_words[0]);
