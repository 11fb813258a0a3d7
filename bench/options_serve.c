/* Parsing of what describes a workload. */
#include "options_serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_LENGTHS = 512,
    KEY_SCALE,
    KEY_REQUESTS,
    KEY_RATE,
    KEY_CONCURRENCY,
    KEY_PREFIX,
    KEY_SAMPLES,
    KEY_KV_MEMORY,
    KEY_MAX_SEQS,
    KEY_MAX_CONTEXT,
    KEY_CHUNK,
    KEY_SLO_TTFT,
    KEY_SLO_TPOT
};

static const struct argp_option known[] = {
    { "model", 'm', "NAME|PATH", 0,
      "random weights (tiny, 15m, 110m; default 15m), or a model's files", 5 },
    { "lengths", KEY_LENGTHS, "KIND|FILE", 0,
      "how lengths are drawn: a law as pkv-fragsim takes it, or a file whose rows are drawn with "
      "replacement (default sharegpt-like: prompts lognormal of mean 178 and variation 1.3, "
      "outputs "
      "gamma of mean 341 and shape 1.3, at most 2048 together)",
      5 },
    { "scale", KEY_SCALE, "K", 0,
      "divide lengths and context by K, so that a CPU gets through (default 8)", 5 },
    { "requests", KEY_REQUESTS, "N", 0, "how many (default 128)", 5 },
    { "rate", KEY_RATE, "R", 0, "Poisson arrivals, R requests a second (default: all at once)", 5 },
    { "concurrency", KEY_CONCURRENCY, "N", 0, "a closed loop: N requests at a time", 5 },
    { "prefix", KEY_PREFIX, "N", 0, "N tokens, not scaled, that all prompts begin with (default 0)",
      5 },
    { "samples", KEY_SAMPLES, "N", 0, "of each prompt, at temperature 1 (default 1)", 5 },
    { "kv-memory", KEY_KV_MEMORY, "SIZE", 0,
      "for K and V, such as 16M (default: eight times the longest context)", 5 },
    { "max-seqs", KEY_MAX_SEQS, "N", 0, "sequences at a time (default 64)", 5 },
    { "max-context", KEY_MAX_CONTEXT, "N", 0,
      "longest prompt and output, scaled (default: what the lengths allow)", 5 },
    { "chunk", KEY_CHUNK, "N", 0, "tokens of a prompt per step (default 128)", 5 },
    { "slo-ttft", KEY_SLO_TTFT, "MS", 0,
      "goodput: the first token at most MS after arrival (default: any time)", 5 },
    { "slo-tpot", KEY_SLO_TPOT, "MS", 0,
      "goodput: at most MS for each further token (default: any time)", 5 },
};

void options_serve_list(enum bench_command command, struct argp_option out[OPTIONS_SERVE_MAX])
{
    for (int i = 0; i < BENCH_LEN(known); i++) {
        out[i] = known[i];
        if (command != CMD_SERVE) out[i].flags |= OPTION_HIDDEN;
    }
    memset(&out[BENCH_LEN(known)], 0, sizeof(*out));
}

static int32_t parse_int(struct argp_state *state, const char *option, const char *text,
                         int32_t min, int32_t max)
{
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno || value < min || value > max)
        argp_failure(state, BENCH_USAGE, 0, "--%s wants an integer from %d to %d, not '%s'", option,
                     min, max, text);
    return (int32_t)value;
}

static double parse_positive(struct argp_state *state, const char *option, const char *text)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value > 0) || value > 1e9)
        argp_failure(state, BENCH_USAGE, 0, "--%s wants a number above 0, not '%s'", option, text);
    return value;
}

static const char *name_of(int key)
{
    for (int i = 0; i < BENCH_LEN(known); i++)
        if (known[i].key == key) return known[i].name;
    return NULL;
}

static void parse_memory(struct argp_state *state, const char *text, struct serve_options *s)
{
    if (!bench_parse_size(text, &s->kv_memory))
        argp_failure(state, BENCH_USAGE, 0, "--kv-memory wants a size such as 16M, not '%s'", text);
}

static void parse_value(int key, const char *name, char *arg, struct argp_state *state,
                        struct serve_options *s)
{
    switch (key) {
    case 'm':
        s->model = arg;
        break;
    case KEY_LENGTHS:
        s->lengths = arg;
        break;
    case KEY_SCALE:
        s->scale = parse_int(state, name, arg, 1, 1 << 20);
        break;
    case KEY_REQUESTS:
        s->requests = parse_int(state, name, arg, 1, 1 << 20);
        break;
    case KEY_RATE:
        s->rate = parse_positive(state, name, arg);
        break;
    case KEY_CONCURRENCY:
        s->concurrency = parse_int(state, name, arg, 1, 1 << 20);
        break;
    case KEY_PREFIX:
        s->prefix = parse_int(state, name, arg, 0, 1 << 20);
        break;
    case KEY_SAMPLES:
        s->samples = parse_int(state, name, arg, 1, 64);
        break;
    case KEY_KV_MEMORY:
        parse_memory(state, arg, s);
        break;
    case KEY_MAX_SEQS:
        s->max_seqs = parse_int(state, name, arg, 1, 65536);
        break;
    case KEY_MAX_CONTEXT:
        s->max_context = parse_int(state, name, arg, 2, 1 << 20);
        break;
    case KEY_CHUNK:
        s->chunk = parse_int(state, name, arg, 1, 1 << 20);
        break;
    case KEY_SLO_TTFT:
        s->slo_ttft_ms = parse_positive(state, name, arg);
        break;
    default:
        s->slo_tpot_ms = parse_positive(state, name, arg);
    }
}

error_t options_serve_parse(int key, char *arg, struct argp_state *state)
{
    struct bench_options *o = state->input;
    const char *name = name_of(key);
    if (key == ARGP_KEY_END && o->serve.rate > 0 && o->serve.concurrency)
        argp_failure(state, BENCH_USAGE, 0,
                     "--rate is an open loop and --concurrency a closed one: choose");
    if (!name) return ARGP_ERR_UNKNOWN;
    if (o->command != CMD_SERVE)
        argp_failure(state, BENCH_USAGE, 0, "--%s has no effect on '%s'", name,
                     bench_command_name(o->command));
    o->serve.given = true;
    parse_value(key, name, arg, state, &o->serve);
    return 0;
}
