/* The command line: one table says what exists, what it is called, and what it does. */
#include "fragsim.h"

#include <stdlib.h>
#include <string.h>

typedef struct option {
    const char *name, *alias; /* alias NULL: none */
    const char *value;        /* NULL: a flag */
    const char *help;
    bool (*set)(fragsim_options *o, const char *value);
    const char *inspect_help; /* NULL: not an option of inspect */
} option;

static bool set_whole(const char *name, const char *text, int64_t low, int64_t high, int64_t *out)
{
    if (fragsim_parse_whole(text, low, high, out)) return true;
    return fragsim_complain("%s: '%s' is not a whole number from %lld to %lld", name, text,
                            (long long)low, (long long)high);
}

static bool set_i32(const char *name, const char *text, int64_t low, int64_t high, int32_t *out)
{
    int64_t value;
    if (!set_whole(name, text, low, high, &value)) return false;
    *out = (int32_t)value;
    return true;
}

static bool set_rate(const char *name, const char *text, int64_t *out)
{
    bool exact;
    if (fragsim_parse_decimal(text, strlen(text), 6, out, &exact) && *out > 0) return true;
    return fragsim_complain("%s: '%s' is not a number of requests per second above 0", name, text);
}

static bool set_trace(fragsim_options *o, const char *v)
{
    if (o->trace_path) return fragsim_complain("--trace: one file at a time");
    o->trace_path = v;
    return true;
}

static bool set_lengths(fragsim_options *o, const char *v)
{
    o->lengths_text = v;
    return true;
}

static bool set_request_rate(fragsim_options *o, const char *v)
{
    if (strcmp(v, "inf") == 0) {
        o->arrivals.rate_micro = 0;
        return true;
    }
    return set_rate("--request-rate", v, &o->arrivals.rate_micro);
}
static bool set_target_rate(fragsim_options *o, const char *v)
{
    return set_rate("--target-rate", v, &o->target_rate_micro);
}
static bool set_all_at_once(fragsim_options *o, const char *v)
{
    (void)v;
    o->all_at_once = true;
    return true;
}
static bool set_num_prompts(fragsim_options *o, const char *v)
{
    return set_whole("--num-prompts", v, 1, 100000000, &o->num_prompts);
}
static bool set_max_requests(fragsim_options *o, const char *v)
{
    return set_whole("--max-requests", v, 1, INT32_MAX, &o->trace.max_requests);
}
static bool set_duration(fragsim_options *o, const char *v)
{
    bool exact;
    if (fragsim_parse_time(v, strlen(v), &o->trace.duration_ns, &exact) && o->trace.duration_ns > 0)
        return true;
    return fragsim_complain("--duration: '%s' is not a time above 0, as in 600 or 10min", v);
}
static bool set_seed(fragsim_options *o, const char *v)
{
    int64_t seed;
    if (!set_whole("--seed", v, 0, INT64_MAX, &seed)) return false;
    o->arrivals.seed = (uint64_t)seed;
    o->seed_given = true;
    return true;
}
static bool set_strict(fragsim_options *o, const char *v)
{
    (void)v;
    o->trace.strict = true;
    return true;
}

static bool set_policy(fragsim_options *o, const char *v)
{
    if (o->n_policies >= FRAGSIM_MAX_POLICIES)
        return fragsim_complain("--policy: at most %d of them", FRAGSIM_MAX_POLICIES);
    o->policy_texts[o->n_policies++] = v;
    return true;
}
static bool set_kv_tokens(fragsim_options *o, const char *v)
{
    return set_whole("--kv-tokens", v, 1, INT32_MAX, &o->kv_tokens);
}
static bool set_num_blocks(fragsim_options *o, const char *v)
{
    return set_whole("--num-blocks", v, 1, INT32_MAX, &o->num_blocks);
}
static bool set_block_tokens(fragsim_options *o, const char *v)
{
    return set_whole("--block-tokens", v, 1, 1024, &o->block_tokens);
}
static bool set_max_model_len(fragsim_options *o, const char *v)
{
    return set_i32("--max-model-len", v, 1, 1 << 30, &o->sim.max_model_len);
}
static bool set_max_num_seqs(fragsim_options *o, const char *v)
{
    return set_i32("--max-num-seqs", v, 1, 1 << 20, &o->sim.max_num_seqs);
}
static bool set_watermark(fragsim_options *o, const char *v)
{
    bool exact;
    int64_t ppm;
    if (!fragsim_parse_decimal(v, strlen(v), 6, &ppm, &exact) || !exact || ppm > 1000000)
        return fragsim_complain("--watermark: '%s' is not a share from 0 to 1 with at most six "
                                "decimals",
                                v);
    o->sim.watermark_ppm = (int32_t)ppm;
    return true;
}
static bool set_step_time(fragsim_options *o, const char *v)
{
    return fragsim_parse_step_time(v, &o->sim);
}

static const char *const window_names[] = { "auto", "all", "arrivals", "queued" };
static const char *const engine_names[] = { "leap", "naive" };
const char *fragsim_window_name(pkv_sim_window window)
{
    return window_names[window];
}
const char *fragsim_engine_name(pkv_sim_engine engine)
{
    return engine_names[engine];
}

static bool set_window(fragsim_options *o, const char *v)
{
    for (int k = 0; k < 4; k++) {
        if (strcmp(v, window_names[k]) != 0) continue;
        o->sim.window = (pkv_sim_window)k;
        return true;
    }
    return fragsim_complain("--window: '%s' is not auto, all, arrivals or queued", v);
}
static bool set_engine(fragsim_options *o, const char *v)
{
    for (int k = 0; k < 2; k++) {
        if (strcmp(v, engine_names[k]) != 0) continue;
        o->sim.engine = (pkv_sim_engine)k;
        return true;
    }
    return fragsim_complain("--engine: '%s' is not leap or naive", v);
}
static bool set_check(fragsim_options *o, const char *v)
{
    (void)v;
    o->sim.check = true;
    return true;
}
static bool set_json(fragsim_options *o, const char *v)
{
    if (*v == '\0') return fragsim_complain("--json: an empty file name");
    o->json_path = v;
    return true;
}
static bool set_width(fragsim_options *o, const char *v)
{
    if (strcmp(v, "80") != 0 && strcmp(v, "120") != 0)
        return fragsim_complain("--width: '%s' is not 80 or 120", v);
    o->width = v[0] == '8' ? 80 : 120;
    return true;
}
static bool set_quiet(fragsim_options *o, const char *v)
{
    (void)v;
    o->quiet = true;
    return true;
}
static bool set_repro(fragsim_options *o, const char *v)
{
    (void)v;
    o->print_repro = true;
    return true;
}

static const option options[] = {
    { "--trace", "--dataset-path", "FILE",
      "CSV trace (azure, burstgpt, vidur, splitwise), - for stdin; default: draw requests",
      set_trace, "another way to name TRACE" },
    { "--lengths", NULL, "KIND",
      "draw lengths: sharegpt-like (default without --trace), alpaca-like, fixed:IN,OUT",
      set_lengths, NULL },
    { "--num-prompts", NULL, "N", "requests to draw (3000), or rows to use: fewer are an error",
      set_num_prompts, "describe the N earliest rows; fewer usable ones are an error" },
    { "--max-requests", NULL, "N", "use at most N rows of the trace (all)", set_max_requests,
      "describe at most the N earliest rows (all)" },
    { "--duration", NULL, "TIME", "use rows within TIME of the first arrival (all); 600, 10min",
      set_duration, "describe rows within TIME of the first arrival (all); 600, 10min" },
    { "--strict", NULL, NULL, "a row that would be dropped or sorted is an error", set_strict,
      "a row that would be dropped or sorted is an error" },
    { "--request-rate", NULL, "R",
      "Poisson arrivals, R per second (8), inf: all at once; for drawn "
      "requests and traces without times",
      set_request_rate, NULL },
    { "--target-rate", NULL, "R",
      "stretch the times of a trace to R requests per second (as they are)", set_target_rate,
      NULL },
    { "--all-at-once", NULL, NULL, "all requests at time 0, whatever the trace says",
      set_all_at_once, NULL },
    { "--seed", NULL, "N", "of everything drawn (0)", set_seed, NULL },
    { "--policy", NULL, "P",
      "repeatable: max, pow2, oracle with :alloc=buddy|ideal|first-fit|best-fit, paged:block=N "
      "(max, pow2, oracle, oracle:best-fit, oracle:ideal, paged:block=16)",
      set_policy, NULL },
    { "--kv-tokens", NULL, "N", "pool in token slots (15728: OPT-13B on 40 GB)", set_kv_tokens,
      NULL },
    { "--num-blocks", NULL, "N", "pool in usable blocks of --block-tokens, instead of --kv-tokens",
      set_num_blocks, NULL },
    { "--block-tokens", "--block-size", "N", "tokens per block of 'paged' and of --num-blocks (16)",
      set_block_tokens, NULL },
    { "--max-model-len", NULL, "N", "longest prompt + output (2048)", set_max_model_len, NULL },
    { "--max-num-seqs", NULL, "N", "most requests running at a time (256)", set_max_num_seqs,
      NULL },
    { "--watermark", NULL, "W", "share of the blocks that paged keeps free at admission (0.01)",
      set_watermark, NULL },
    { "--step-time", NULL, "T", "duration of a step (22ms+300us*batch+400ns*tokens)", set_step_time,
      NULL },
    { "--window", NULL, "W",
      "what averages cover: all, arrivals, queued (auto: arrivals if they "
      "differ, else queued)",
      set_window, NULL },
    { "--engine", NULL, "E", "leap or naive, with equal results (leap)", set_engine, NULL },
    { "--check", NULL, NULL,
      "compare the block manager with a counter model after every event; slow", set_check, NULL },
    { "--json", NULL, "FILE", "write the report as JSON; - is stdout, without the table", set_json,
      NULL },
    { "--width", NULL, "N", "80 or 120 columns (80; on a wide terminal 120)", set_width, NULL },
    { "--quiet", NULL, NULL, "no table, no progress", set_quiet, NULL },
    { "--repro-command", NULL, NULL, "print the line that repeats the run", set_repro, NULL },
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

void fragsim_help(FILE *out, fragsim_command command)
{
    const bool inspect = command == FRAGSIM_INSPECT;
    if (inspect)
        fprintf(out, "pkv-fragsim inspect TRACE [options]: what a trace contains, and what is "
                     "dropped. TRACE "
                     "is a CSV\nfile (azure, burstgpt, vidur, splitwise), - for stdin. Defaults in "
                     "parentheses.\n\n");
    else
        fprintf(out,
                "pkv-fragsim run [options]: replay requests against allocation policies and show "
                "where the\nKV-cache memory goes. Defaults in parentheses.\n\n");
    for (size_t k = 0; k < N_OPTIONS; k++) {
        const option *o = &options[k];
        const char *help = inspect ? o->inspect_help : o->help;
        if (!help) continue;
        char left[64];
        snprintf(left, sizeof(left), "%s%s%s%s%s", o->name, o->alias ? ", " : "",
                 o->alias ? o->alias : "", o->value ? " " : "", o->value ? o->value : "");
        fprintf(out, "  %-33s %s\n", left, help);
    }
    fprintf(out, "  %-33s %s\n", "--help", "this text");
    fprintf(out, "\nExit status: 0 done; %s2 usage, input or output error.\n",
            inspect ? "" : "1 nothing finished, or a check failed; ");
}

static const option *find(const char *arg, size_t len)
{
    for (size_t k = 0; k < N_OPTIONS; k++) {
        const option *o = &options[k];
        if (strlen(o->name) == len && memcmp(o->name, arg, len) == 0) return o;
        if (o->alias && strlen(o->alias) == len && memcmp(o->alias, arg, len) == 0) return o;
    }
    return NULL;
}

/* One option, with its value from "=" or from the next argument. */
static bool take_option(int argc, char **argv, int *k, fragsim_options *out)
{
    const bool inspect = out->command == FRAGSIM_INSPECT;
    const char *arg = argv[*k];
    const size_t len = strcspn(arg, "=");
    const option *o = find(arg, len);
    if (!o || (inspect && !o->inspect_help)) {
        if (inspect && (arg[0] != '-' || arg[1] == '\0')) return set_trace(out, arg);
        return fragsim_complain("%.*s: unknown option; see pkv-fragsim %s --help", (int)len, arg,
                                fragsim_command_name(out->command));
    }
    if (!o->value) {
        if (arg[len] == '=') return fragsim_complain("%s takes no value", o->name);
        return o->set(out, NULL);
    }
    if (arg[len] == '=') return o->set(out, arg + len + 1);
    if (*k + 1 >= argc) return fragsim_complain("%s: a value is missing (%s)", o->name, o->value);
    return o->set(out, argv[++*k]);
}

/* ---------------------------------------------------------------- what goes together */

static bool check_source(const fragsim_options *o)
{
    if (o->trace_path && o->lengths_text)
        return fragsim_complain("--trace and --lengths: requests are read or drawn, not both");
    if (o->all_at_once && (o->arrivals.rate_micro >= 0 || o->target_rate_micro >= 0))
        return fragsim_complain("--all-at-once and a rate: choose one");
    if (o->arrivals.rate_micro >= 0 && o->target_rate_micro >= 0)
        return fragsim_complain("--request-rate draws arrivals, --target-rate stretches those of a "
                                "trace: choose one");
    if (o->num_prompts >= 0 && o->trace.max_requests > 0)
        return fragsim_complain("--num-prompts and --max-requests: choose one");
    if (o->trace_path) return true;
    if (o->trace.max_requests > 0 || o->trace.duration_ns > 0 || o->trace.strict ||
        o->target_rate_micro >= 0)
        return fragsim_complain("%s needs a --trace; drawn requests are set by --num-prompts and "
                                "--request-rate",
                                o->trace.max_requests > 0  ? "--max-requests"
                                : o->trace.duration_ns > 0 ? "--duration"
                                : o->trace.strict          ? "--strict"
                                                           : "--target-rate");
    return true;
}

static void log_complaint(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fragsim_complain("--policy: %s", text);
}

static bool resolve_policies(fragsim_options *o)
{
    static const char *const usual[] = {
        "max", "pow2", "oracle", "oracle:alloc=best-fit", "oracle:alloc=ideal", "paged"
    };
    if (o->n_policies == 0)
        for (size_t k = 0; k < sizeof(usual) / sizeof(usual[0]); k++)
            o->policy_texts[o->n_policies++] = usual[k];
    bool used = o->num_blocks >= 0;
    const pkv_logger log = { log_complaint, NULL };
    for (int k = 0; k < o->n_policies; k++) {
        if (pkv_sim_policy_parse(o->policy_texts[k], &log, &o->policies[k]) != PKV_OK) return false;
        if (o->block_tokens >= 0 && strcmp(o->policy_texts[k], "paged") == 0) {
            o->policies[k].block_tokens = (int32_t)o->block_tokens;
            used = true;
        }
    }
    if (o->block_tokens >= 0 && !used)
        return fragsim_complain("--block-tokens has no use here: no --num-blocks, and no policy "
                                "'paged' without block=");
    return true;
}

static bool resolve_pool(fragsim_options *o)
{
    if (o->kv_tokens >= 0 && o->num_blocks >= 0)
        return fragsim_complain("--kv-tokens and --num-blocks: choose one");
    if (o->kv_tokens >= 0) o->sim.pool_tokens = (int32_t)o->kv_tokens;
    if (o->num_blocks >= 0) {
        const int64_t slots = o->num_blocks * (o->block_tokens >= 0 ? o->block_tokens : 16);
        if (slots > INT32_MAX)
            return fragsim_complain("--num-blocks: %lld slots, at most %d are possible",
                                    (long long)slots, INT32_MAX);
        o->sim.pool_tokens = (int32_t)slots;
    }
    for (int k = 0; k < o->n_policies; k++)
        if (o->policies[k].block_tokens > o->sim.pool_tokens)
            return fragsim_complain("--policy %s: a pool of %d slots has no room for one block",
                                    o->policy_texts[k], o->sim.pool_tokens);
    return true;
}

/* ---------------------------------------------------------------- the line that repeats it */

static void put_quoted(FILE *out, const char *arg)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
    if (*arg != '\0' && arg[strspn(arg, plain)] == '\0') {
        fputs(arg, out);
        return;
    }
    fputc('\'', out);
    for (const char *c = arg; *c; c++)
        if (*c == '\'') fputs("'\\''", out);
        else fputc(*c, out);
    fputc('\'', out);
}

static char *repro_line(int argc, char **argv)
{
    char *line = NULL;
    size_t len;
    FILE *out = open_memstream(&line, &len);
    if (!out) return NULL;
    fputs("pkv-fragsim", out);
    for (int k = 1; k < argc; k++) {
        fputc(' ', out);
        put_quoted(out, argv[k]);
    }
    if (fclose(out) == 0) return line;
    free(line);
    return NULL;
}

bool fragsim_options_parse(int argc, char **argv, fragsim_command command, fragsim_options *out)
{
    *out = (fragsim_options){
        .command = command,
        .trace = PKV_SIM_TRACE_CONFIG_INIT,
        .arrivals = PKV_SIM_ARRIVAL_CONFIG_INIT,
        .target_rate_micro = -1,
        .num_prompts = -1,
        .time_scale_micro = -1,
        .shared_prefix = -1,
        .kv_memory_bytes = -1,
        .sample_interval_ns = -1,
        .kv_tokens = -1,
        .num_blocks = -1,
        .block_tokens = -1,
        .sim = PKV_SIM_CONFIG_INIT,
    };
    out->arrivals.rate_micro = -1;
    for (int k = 2; k < argc; k++)
        if (!take_option(argc, argv, &k, out)) return false;
    if (out->command == FRAGSIM_INSPECT && !out->trace_path)
        return fragsim_complain("inspect: which trace? pkv-fragsim inspect TRACE");
    if (!check_source(out) || !resolve_policies(out) || !resolve_pool(out)) return false;
    out->repro = repro_line(argc, argv);
    return out->repro || fragsim_complain("out of memory");
}

void fragsim_options_free(fragsim_options *opts)
{
    free(opts->repro);
    opts->repro = NULL;
}
