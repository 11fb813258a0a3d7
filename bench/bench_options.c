/* Parsing with argp: one list of options, each with the commands it means something to. */
#include "bench_options.h"

#include "options_serve.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_PROFILE = 256,
    KEY_FILTER,
    KEY_LIST,
    KEY_SEED,
    KEY_MAX_MEMORY,
    KEY_MAX_TIME,
    KEY_JSON,
    KEY_CSV,
    KEY_MARKDOWN,
    KEY_THREADS,
    KEY_ISA,
    KEY_FAIL_NOISY,
    KEY_NO_HUGE,
    KEY_SELF_TEST,
    KEY_BATCH,
    KEY_HEADS,
    KEY_HEAD_DIM,
    KEY_KV_DTYPE,
    KEY_BLOCK_TOKENS,
    KEY_TRACE,
    KEY_TRACE_BLOCK,
    KEY_POOL
};

/* Which commands an option means something to. */
enum {
    IN_RUN = 1 << CMD_RUN,
    IN_KERNEL = 1 << CMD_KERNEL,
    IN_BLOCKMGR = 1 << CMD_BLOCKMGR,
    IN_CAPACITY = 1 << CMD_CAPACITY,
    IN_SHARE = 1 << CMD_SHARE,
    IN_SERVE = 1 << CMD_SERVE,
    IN_MODEL = 1 << CMD_MODEL,
    IN_MACHINE = 1 << CMD_MACHINE,
    IN_TIMED = IN_RUN | IN_KERNEL | IN_BLOCKMGR | IN_MODEL,
    IN_CASES = IN_TIMED | IN_CAPACITY | IN_SHARE | IN_SERVE,
    IN_MEASURED = IN_TIMED | IN_MACHINE,
    IN_ALL = IN_CASES | IN_MACHINE
};

#define ISA_NAMES "scalar, avx2, avx512, avx512bf16, amx, neon or best"
#define DTYPE_NAMES "f32, f16, bf16, e4m3, e5m2, int8 or int4"

static const struct known_option {
    unsigned commands;
    struct argp_option argp;
} known_options[] = {
    { IN_ALL, { "profile", KEY_PROFILE, "NAME", 0, "quick (default), full or ci", 1 } },
    { IN_CASES, { "filter", KEY_FILTER, "TEXT", 0, "only cases whose id contains TEXT", 1 } },
    { IN_CASES, { "list", KEY_LIST, NULL, 0, "print the ids of the cases and run nothing", 1 } },
    { IN_TIMED | IN_SERVE,
      { "repeats", 'r', "N", 0,
        "samples per side (default: quick 20, full 20, ci 5; rounds of serve: 3, 5, 1)", 2 } },
    { IN_CASES,
      { "seed", KEY_SEED, "N", 0, "seed of data, tables, order and bootstrap (default 1)", 2 } },
    { IN_MEASURED,
      { "max-memory", KEY_MAX_MEMORY, "SIZE", 0,
        "most memory for one case, such as 512M or 2G (default: a quarter of what is available; "
        "quick at most 1400M)",
        2 } },
    { IN_TIMED,
      { "max-time", KEY_MAX_TIME, "S", 0, "seconds of timing per case (default: quick 3, full 20)",
        2 } },
    { IN_MEASURED | IN_SERVE,
      { "isa", KEY_ISA, "LEVEL", 0,
        "highest CPU level: " ISA_NAMES " (default: PKV_ISA, else best)", 2 } },
    { IN_RUN | IN_KERNEL | IN_SERVE | IN_MODEL | IN_MACHINE,
      { "threads", KEY_THREADS, "N", 0,
        "threads of attention and of the loops beside it (default: every CPU; ci 2)", 2 } },
    { IN_MEASURED,
      { "no-huge-pages", KEY_NO_HUGE, NULL, 0, "advise against huge pages on all sides", 2 } },
    { IN_ALL, { "output", 'o', "FORMAT", 0, "table (default) or md", 3 } },
    { IN_ALL,
      { "json", KEY_JSON, "FILE", 0, "write every sample and the machine; - is standard output",
        3 } },
    { IN_CASES,
      { "csv", KEY_CSV, "FILE", 0, "write one row per case and side; - is standard output", 3 } },
    { IN_ALL,
      { "markdown", KEY_MARKDOWN, "FILE", 0, "write the tables as -o md does; - is standard output",
        3 } },
    { IN_TIMED,
      { "fail-noisy", KEY_FAIL_NOISY, NULL, 0, "exit with 3 if the A/A check says noisy", 3 } },
    { IN_RUN | IN_KERNEL | IN_SERVE,
      { "self-test", KEY_SELF_TEST, "KIND", OPTION_HIDDEN, NULL, 0 } },
    { IN_KERNEL,
      { "batch", KEY_BATCH, "SPEC", 0,
        "run this batch instead of the profile's cases: 32q1s2k is 32 decodes at 2,048 keys, "
        "4q512s4k four extends, 32q1s@sharegpt drawn lengths",
        4 } },
    { IN_KERNEL,
      { "heads", KEY_HEADS, "Q/KV", 0, "query and KV heads of --batch (default 32/8)", 4 } },
    { IN_KERNEL, { "head-dim", KEY_HEAD_DIM, "N", 0, "of --batch (default 128)", 4 } },
    { IN_KERNEL,
      { "kv-dtype", KEY_KV_DTYPE, "TYPE", 0, "of --batch: " DTYPE_NAMES " (default f16)", 4 } },
    { IN_KERNEL, { "block-tokens", KEY_BLOCK_TOKENS, "N,..", 0, "of --batch (default 16,64)", 4 } },
    { IN_SHARE,
      { "trace", KEY_TRACE, "FILE", 0,
        "requests as chains of content ids, one JSON object a line, as Mooncake publishes them "
        "(default: traces/mooncake/synthetic_trace.jsonl in PKV_SHARED, which is ../shared)",
        4 } },
    { IN_SHARE,
      { "trace-block", KEY_TRACE_BLOCK, "N", 0, "tokens that one id stands for (default 512)",
        4 } },
    { IN_SHARE,
      { "pool", KEY_POOL, "N,..", 0,
        "sizes of the pool in blocks of the trace; inf: nothing is ever evicted (default: from the "
        "longest request to inf)",
        4 } },
};

const char *bench_profile_name(enum bench_profile profile)
{
    static const char *const names[] = { "quick", "full", "ci" };
    return names[profile];
}

const char *bench_command_name(enum bench_command command)
{
    static const char *const names[] = { "run",   "kernel", "blockmgr", "capacity",
                                         "share", "serve",  "model",    "machine" };
    return names[command];
}

bool bench_command_untimed(enum bench_command command)
{
    return command == CMD_CAPACITY || command == CMD_SHARE;
}

bool bench_command_probes(enum bench_command command)
{
    return !bench_command_untimed(command) && command != CMD_SERVE;
}

int32_t bench_threads(const struct bench_options *o, int32_t n_cpus)
{
    if (o->n_threads) return o->n_threads;
    if (o->profile == PROFILE_CI) return 2;
    return n_cpus < 1 ? 1 : n_cpus > 1024 ? 1024 : n_cpus;
}

bool bench_parse_size(const char *text, size_t *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value > 0)) return false;
    if (*end == 'K' || *end == 'k') value *= 0x1p10, end++;
    else if (*end == 'M' || *end == 'm') value *= 0x1p20, end++;
    else if (*end == 'G' || *end == 'g') value *= 0x1p30, end++;
    if (*end != '\0' || value < 1 || value > 0x1p50) return false;
    *out = (size_t)value;
    return true;
}

struct parse_input {
    struct bench_options *options;
    bool seen[BENCH_LEN(known_options)];
};

static int64_t parse_int(struct argp_state *state, const char *option, const char *text,
                         int64_t min, int64_t max)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno || value < min || value > max)
        argp_failure(state, BENCH_USAGE, 0, "%s wants an integer from %lld to %lld, not '%s'",
                     option, (long long)min, (long long)max, text);
    return value;
}

static void parse_profile(struct argp_state *state, const char *text, struct bench_options *o)
{
    for (int i = PROFILE_QUICK; i <= PROFILE_CI; i++) {
        o->profile = (enum bench_profile)i;
        if (strcmp(text, bench_profile_name(o->profile)) == 0) return;
    }
    argp_failure(state, BENCH_USAGE, 0, "--profile wants quick, full or ci, not '%s'", text);
}

static void parse_isa(struct argp_state *state, const char *text, struct bench_options *o)
{
    o->isa_from = "--isa";
    if (pkv_isa_from_name(text, &o->isa) != PKV_OK)
        argp_failure(state, BENCH_USAGE, 0, "--isa wants " ISA_NAMES ", not '%s'", text);
}

static error_t parse_common(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
    switch (key) {
    case KEY_PROFILE:
        parse_profile(state, arg, o);
        break;
    case KEY_FILTER:
        o->filter = arg;
        break;
    case KEY_LIST:
        o->list = true;
        break;
    case 'r':
        o->repeats = (int32_t)parse_int(state, "-r", arg, 1, 100000);
        break;
    case KEY_SEED:
        o->seed = (uint64_t)parse_int(state, "--seed", arg, 0, INT64_MAX);
        break;
    case KEY_MAX_MEMORY:
        if (!bench_parse_size(arg, &o->max_memory))
            argp_failure(state, BENCH_USAGE, 0, "--max-memory wants a size such as 512M, not '%s'",
                         arg);
        break;
    case KEY_MAX_TIME: {
        char *end;
        o->max_time_s = strtod(arg, &end);
        if (end == arg || *end || !(o->max_time_s > 0) || o->max_time_s > 1e6)
            argp_failure(state, BENCH_USAGE, 0, "--max-time wants seconds, not '%s'", arg);
        break;
    }
    case KEY_ISA:
        parse_isa(state, arg, o);
        break;
    case KEY_NO_HUGE:
        o->huge_pages = false;
        break;
    case 'o':
        o->markdown = strcmp(arg, "md") == 0;
        if (!o->markdown && strcmp(arg, "table") != 0)
            argp_failure(state, BENCH_USAGE, 0, "-o wants table or md, not '%s'", arg);
        break;
    case KEY_JSON:
        o->json = arg;
        break;
    case KEY_CSV:
        o->csv = arg;
        break;
    case KEY_MARKDOWN:
        o->markdown_file = arg;
        break;
    case KEY_THREADS:
        o->n_threads = (int32_t)parse_int(state, "--threads", arg, 1, 1024);
        break;
    case KEY_FAIL_NOISY:
        o->fail_noisy = true;
        break;
    case KEY_SELF_TEST:
        if (strcmp(arg, "slow") == 0) o->self_test = SELF_TEST_SLOW;
        else if (strcmp(arg, "wrong") == 0) o->self_test = SELF_TEST_WRONG;
        else argp_failure(state, BENCH_USAGE, 0, "--self-test wants slow or wrong");
        break;
    case ARGP_KEY_ARG:
        argp_failure(state, BENCH_USAGE, 0, "unexpected argument '%s'", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void parse_blocks(struct argp_state *state, char *arg, struct bench_options *o)
{
    char *rest = NULL;
    o->n_blocks = 0;
    for (char *item = strtok_r(arg, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        if (o->n_blocks == OPTIONS_MAX_BLOCKS)
            argp_failure(state, BENCH_USAGE, 0, "--block-tokens takes at most %d sizes",
                         OPTIONS_MAX_BLOCKS);
        const int32_t size = (int32_t)parse_int(state, "--block-tokens", item, 1, 1024);
        for (int32_t i = 0; i < o->n_blocks; i++)
            if (o->block_tokens[i] == size)
                argp_failure(state, BENCH_USAGE, 0, "--block-tokens names %d twice", size);
        o->block_tokens[o->n_blocks++] = size;
    }
    if (o->n_blocks == 0)
        argp_failure(state, BENCH_USAGE, 0, "--block-tokens wants a list such as 16,64");
}

static void parse_pools(struct argp_state *state, char *arg, struct bench_options *o)
{
    char *rest = NULL;
    o->n_pools = 0;
    for (char *item = strtok_r(arg, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        if (o->n_pools == BENCH_LEN(o->pools))
            argp_failure(state, BENCH_USAGE, 0, "--pool takes at most %d sizes",
                         BENCH_LEN(o->pools));
        const bool endless = strcmp(item, "inf") == 0;
        const int32_t size =
            endless ? INT32_MAX : (int32_t)parse_int(state, "--pool", item, 1, INT32_MAX - 1);
        for (int32_t i = 0; i < o->n_pools; i++)
            if (o->pools[i] == size)
                argp_failure(state, BENCH_USAGE, 0, "--pool names %s twice", item);
        o->pools[o->n_pools++] = size;
    }
    if (o->n_pools == 0)
        argp_failure(state, BENCH_USAGE, 0, "--pool wants a list such as 1000,10000,inf");
}

static error_t parse_share(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
    o->has_trace = true;
    switch (key) {
    case KEY_TRACE:
        o->trace = arg;
        break;
    case KEY_TRACE_BLOCK:
        o->trace_block = (int32_t)parse_int(state, "--trace-block", arg, 1, 1 << 20);
        break;
    case KEY_POOL:
        parse_pools(state, arg, o);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void parse_heads(struct argp_state *state, const char *arg, struct bench_options *o)
{
    int n = 0;
    if (sscanf(arg, "%d/%d%n", &o->h_q, &o->h_kv, &n) != 2 || arg[n] != '\0' || o->h_kv < 1 ||
        o->h_q < o->h_kv || o->h_q > 1024 || o->h_q % o->h_kv != 0)
        argp_failure(state, BENCH_USAGE, 0,
                     "--heads wants query/KV heads, the first a multiple of the second, such as "
                     "32/8, not '%s'",
                     arg);
}

static void parse_batch(struct argp_state *state, const char *arg, struct bench_options *o)
{
    struct batch_spec_error e;
    if (batch_spec_parse(arg, &o->batch, &e)) o->has_batch = true;
    else argp_failure(state, BENCH_USAGE, 0, "--batch %s: character %d: %s", arg, e.at + 1, e.text);
}

static error_t parse_kernel(int key, char *arg, struct argp_state *state, struct bench_options *o)
{
    switch (key) {
    case KEY_BATCH:
        parse_batch(state, arg, o);
        break;
    case KEY_HEADS:
        parse_heads(state, arg, o);
        break;
    case KEY_HEAD_DIM:
        o->dim = (int32_t)parse_int(state, "--head-dim", arg, 8, 256);
        if (o->dim % 8) argp_failure(state, BENCH_USAGE, 0, "--head-dim wants a multiple of 8");
        break;
    case KEY_KV_DTYPE:
        if (pkv_dtype_from_name(arg, &o->dtype) != PKV_OK)
            argp_failure(state, BENCH_USAGE, 0, "--kv-dtype wants " DTYPE_NAMES ", not '%s'", arg);
        break;
    case KEY_BLOCK_TOKENS:
        parse_blocks(state, arg, o);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool seen_key(const struct parse_input *in, int key)
{
    for (int i = 0; i < BENCH_LEN(known_options); i++)
        if (known_options[i].argp.key == key) return in->seen[i];
    return false;
}

/* Which option of --batch is used without it; NULL: none. */
static const char *batch_option(const struct parse_input *in)
{
    for (int i = 0; i < BENCH_LEN(known_options); i++) {
        const int key = known_options[i].argp.key;
        if (key >= KEY_HEADS && key <= KEY_BLOCK_TOKENS && in->seen[i])
            return known_options[i].argp.name;
    }
    return NULL;
}

/* No two outputs in one file. */
static void check_files(struct argp_state *state, const struct bench_options *o)
{
    const struct {
        const char *name, *path;
    } files[] = { { "json", o->json }, { "csv", o->csv }, { "markdown", o->markdown_file } };
    for (int i = 0; i < BENCH_LEN(files); i++) {
        if (!files[i].path) continue;
        if (o->list)
            argp_failure(state, BENCH_USAGE, 0, "--list runs nothing that --%s could write",
                         files[i].name);
        for (int k = 0; k < i; k++) {
            if (!files[k].path || strcmp(files[i].path, files[k].path) != 0) continue;
            if (strcmp(files[i].path, "-") == 0)
                argp_failure(state, BENCH_USAGE, 0,
                             "--%s - and --%s - cannot share standard output", files[k].name,
                             files[i].name);
            argp_failure(state, BENCH_USAGE, 0, "--%s and --%s cannot both write %s", files[k].name,
                         files[i].name, files[i].path);
        }
    }
}

static void check_together(struct argp_state *state, const struct parse_input *in)
{
    const struct bench_options *o = in->options;
    const char *lonely = o->has_batch ? NULL : batch_option(in);
    if (lonely)
        argp_failure(state, BENCH_USAGE, 0, "--%s describes a --batch, and there is none", lonely);
    if (o->has_trace && seen_key(in, KEY_SEED))
        argp_failure(state, BENCH_USAGE, 0, "--seed has no effect on a trace");
    check_files(state, o);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct parse_input *in = state->input;
    const char *command = bench_command_name(in->options->command);
    if (key == ARGP_KEY_INIT) state->child_inputs[0] = in->options;
    for (int i = 0; i < BENCH_LEN(known_options); i++) {
        if (known_options[i].argp.key != key) continue;
        in->seen[i] = true;
        if (!(known_options[i].commands & 1u << in->options->command))
            argp_failure(state, BENCH_USAGE, 0, "%s--%s has no effect on '%s'",
                         key == 'r' ? "-r, " : "", known_options[i].argp.name, command);
    }
    if (key == ARGP_KEY_END) check_together(state, in);
    if (key >= KEY_TRACE && key <= KEY_POOL) return parse_share(key, arg, state, in->options);
    return key >= KEY_BATCH && key <= KEY_BLOCK_TOKENS ? parse_kernel(key, arg, state, in->options)
                                                       : parse_common(key, arg, state, in->options);
}

static const struct {
    const char *name, *doc;
} commands[] = {
    { "run",
      "Run the benchmarks of a profile: attention kernels, block manager, capacity.\v"
      "Exit status: 0 ok, 1 a result is wrong, 2 usage, input or output "
      "error, 3 noisy "
      "machine (only with --fail-noisy). docs/benchmarking.md tells how to read the numbers." },
    { "kernel",
      "Attention through a block table against contiguous K and V, and the moves around it.\v"
      "Exit status 1 also says that the case of --batch could not run." },
    { "blockmgr", "Operations of the block manager, beside malloc and a bare LIFO list." },
    { "capacity",
      "Concurrent sequences in a memory budget, paged against contiguous (simulated)." },
    { "share",
      "What sharing blocks saves: samples of one prompt, and what of a trace's prompts the prefix "
      "cache finds, by eviction policy and pool size.\v"
      "With --trace, --trace-block or --pool: the trace alone, which draws nothing from --seed." },
    { "serve",
      "The engine of the reference transformer under load: KV memory in blocks against contiguous "
      "regions in as many bytes; concurrent sequences, tokens a second, delays.\v"
      "An option that describes a workload runs that one instead of the profile's cases. Exit "
      "status 1: placements gave different tokens." },
    { "model",
      "The reference transformer: decode beside a plain program and beside reading its weights, "
      "batches, prompts, paged against contiguous memory, an engine under load." },
    { "machine", "Print what is known of this machine, and its measured memory bandwidth." },
};

static const char main_help[] =
    "Usage: pkv-bench COMMAND [OPTION...]\n"
    "Paged against contiguous KV memory, measured on this machine.\n\n"
    "  run        the benchmarks of a profile: --profile quick (default), full, ci\n"
    "  kernel     attention through a block table against contiguous K and V\n"
    "  blockmgr   operations of the block manager, beside malloc and a bare LIFO list\n"
    "  capacity   concurrent sequences in a memory budget (simulated)\n"
    "  share      what sharing blocks saves: samples of a prompt, prompts of a trace\n"
    "  serve      an engine under load, paged against contiguous placement\n"
    "  model      the reference transformer: decode, batches, prompts, serving\n"
    "  machine    this machine and its measured memory bandwidth\n\n"
    "Start with: pkv-bench run --profile quick\n"
    "Each command takes --help.\n";

static enum bench_command find_command(int argc, char **argv)
{
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
                      strcmp(argv[1], "help") == 0)) {
        fputs(main_help, stdout);
        exit(fflush(stdout) == 0 ? BENCH_OK : BENCH_USAGE);
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        printf("pkv-bench %s\n", pkv_version());
        exit(fflush(stdout) == 0 ? BENCH_OK : BENCH_USAGE);
    }
    for (int i = 0; argc >= 2 && i < BENCH_LEN(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0) return (enum bench_command)i;
    if (argc < 2)
        fprintf(stderr, "pkv-bench: a command is missing: run, kernel, blockmgr, "
                        "capacity, share, serve, model or machine; see pkv-bench --help\n");
    else
        fprintf(stderr,
                "pkv-bench: unknown command '%s': use run, kernel, blockmgr, capacity, "
                "share, serve, model or machine\n",
                argv[1]);
    exit(BENCH_USAGE);
}

static void keep_text(int argc, char **argv, struct bench_options *o)
{
    size_t used = (size_t)snprintf(o->text, sizeof(o->text), "pkv-bench");
    for (int i = 1; i < argc && used < sizeof(o->text) - 1; i++)
        used += (size_t)snprintf(o->text + used, sizeof(o->text) - used, " %s", argv[i]);
}

static void set_defaults(const char *shared_env, struct bench_options *o)
{
    memset(o, 0, sizeof(*o));
    snprintf(o->shared_trace, sizeof(o->shared_trace), "%s/traces/mooncake/synthetic_trace.jsonl",
             shared_env && *shared_env ? shared_env : "../shared");
    snprintf(o->serve.shared_lengths, sizeof(o->serve.shared_lengths),
             "%s/traces/sharegpt_lens/sharegpt_8k_filtered_stats_llama2_tokenizer.csv",
             shared_env && *shared_env ? shared_env : "../shared");
    snprintf(o->stories, sizeof(o->stories), "%s/models/stories260K/stories260K.bin",
             shared_env && *shared_env ? shared_env : "../shared");
    o->trace = o->shared_trace;
    o->trace_block = 512;
    o->seed = 1;
    o->huge_pages = true;
    o->isa = PKV_ISA_BEST;
    o->h_q = 32;
    o->h_kv = 8;
    o->dim = 128;
    o->dtype = PKV_F16;
    o->n_blocks = 2;
    o->block_tokens[0] = 16;
    o->block_tokens[1] = 64;
}

/* PKV_ISA, where the command uses a level and --isa did not say one. */
static void take_isa(const char *text, struct bench_options *o)
{
    if (o->isa_from || !text || !*text || bench_command_untimed(o->command)) return;
    o->isa_from = "PKV_ISA";
    if (pkv_isa_from_name(text, &o->isa) == PKV_OK) return;
    fprintf(stderr, "pkv-bench: PKV_ISA wants " ISA_NAMES ", not '%s'\n", text);
    exit(BENCH_USAGE);
}

void bench_options_parse(int argc, char **argv, const char *isa_env, const char *shared_env,
                         struct bench_options *out)
{
    /* Options of other commands are known but hidden, so that they are refused by name. */
    struct argp_option options[BENCH_LEN(known_options) + 1] = { { 0 } };
    struct argp_option serve_options[OPTIONS_SERVE_MAX];
    struct parse_input in = { out, { false } };
    char name[32];
    set_defaults(shared_env, out);
    out->command = find_command(argc, argv);
    keep_text(argc, argv, out);
    options_serve_list(out->command, serve_options);
    for (int i = 0; i < BENCH_LEN(known_options); i++) {
        options[i] = known_options[i].argp;
        if (!(known_options[i].commands & 1u << out->command)) options[i].flags |= OPTION_HIDDEN;
    }
    const struct argp serve = { serve_options, options_serve_parse, NULL, NULL, NULL, NULL, NULL };
    const struct argp_child children[] = { { &serve, 0, NULL, 0 }, { NULL, 0, NULL, 0 } };
    const struct argp argp = { options,  parse_option, NULL, commands[out->command].doc,
                               children, NULL,         NULL };
    snprintf(name, sizeof(name), "pkv-bench %s", commands[out->command].name);
    argv[1] = name;
    argp_err_exit_status = BENCH_USAGE;
    argp_parse(&argp, argc - 1, argv + 1, 0, NULL, &in);
    take_isa(isa_env, out);
}
