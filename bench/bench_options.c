/* Parsing with argp: one set of options for all commands, more for `kernel`. */
#include "bench_options.h"

#include <argp.h>
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
    KEY_ISA,
    KEY_FAIL_NOISY,
    KEY_NO_HUGE,
    KEY_SELF_TEST,
    KEY_BATCH,
    KEY_HEADS,
    KEY_HEAD_DIM,
    KEY_KV_DTYPE,
    KEY_BLOCK_TOKENS
};

static const struct argp_option common_options[] = {
    { "profile", KEY_PROFILE, "NAME", 0, "quick (default), full or ci", 1 },
    { "filter", KEY_FILTER, "TEXT", 0, "only cases whose id contains TEXT", 1 },
    { "list", KEY_LIST, NULL, 0, "print the ids of the cases and run nothing", 1 },
    { "repeats", 'r', "N", 0, "samples per side (default: quick 20, full 20, ci 5)", 2 },
    { "seed", KEY_SEED, "N", 0, "seed of data, tables, order and bootstrap (default 1)", 2 },
    { "max-memory", KEY_MAX_MEMORY, "SIZE", 0,
      "most memory for one case, such as 512M or 2G (default: a quarter of what is available; "
      "quick at most 1400M)",
      2 },
    { "max-time", KEY_MAX_TIME, "S", 0, "seconds of timing per case (default: quick 3, full 20)",
      2 },
    { "isa", KEY_ISA, "LEVEL", 0,
      "highest CPU level: scalar, avx2, avx512 (default: PKV_ISA, else the best)", 2 },
    { "no-huge-pages", KEY_NO_HUGE, NULL, 0, "advise against huge pages on all sides", 2 },
    { "output", 'o', "FORMAT", 0, "table (default) or md", 3 },
    { "json", KEY_JSON, "FILE", 0, "write every sample and the machine; - is standard output", 3 },
    { "csv", KEY_CSV, "FILE", 0, "write one row per case and side; - is standard output", 3 },
    { "fail-noisy", KEY_FAIL_NOISY, NULL, 0, "exit with 3 if the A/A check says noisy", 3 },
    { "self-test", KEY_SELF_TEST, "KIND", OPTION_HIDDEN, NULL, 0 },
    { 0 }
};

static const struct argp_option kernel_options[] = {
    { "batch", KEY_BATCH, "SPEC", 0,
      "run this batch instead of the profile's cases: 32q1s2k is 32 decodes at 2,048 keys, "
      "4q512s4k four extends, 32q1s@sharegpt drawn lengths",
      4 },
    { "heads", KEY_HEADS, "Q/KV", 0, "query and KV heads of --batch (default 32/8)", 4 },
    { "head-dim", KEY_HEAD_DIM, "N", 0, "of --batch (default 128)", 4 },
    { "kv-dtype", KEY_KV_DTYPE, "TYPE", 0, "of --batch: f32, f16 (default) or bf16", 4 },
    { "block-tokens", KEY_BLOCK_TOKENS, "N,..", 0, "of --batch (default 16,64)", 4 },
    { 0 }
};

const char *bench_profile_name(enum bench_profile profile)
{
    static const char *const names[] = { "quick", "full", "ci" };
    return names[profile];
}

const char *bench_command_name(enum bench_command command)
{
    static const char *const names[] = { "run", "kernel", "blockmgr", "capacity", "machine" };
    return names[command];
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

static void parse_isa(struct argp_state *state, const char *option, const char *text,
                      struct bench_options *o)
{
    if (pkv_isa_from_name(text, &o->isa) != PKV_OK)
        argp_failure(state, BENCH_USAGE, 0, "%s wants scalar, avx2, avx512 or best, not '%s'",
                     option, text);
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    struct bench_options *o = state->input;
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
        parse_isa(state, "--isa", arg, o);
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
        else
            o->block_tokens[o->n_blocks++] =
                (int32_t)parse_int(state, "--block-tokens", item, 1, 1024);
    }
    if (o->n_blocks == 0)
        argp_failure(state, BENCH_USAGE, 0, "--block-tokens wants a list such as 16,64");
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

static error_t parse_kernel(int key, char *arg, struct argp_state *state)
{
    struct bench_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->input;
        break;
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
        if (pkv_dtype_from_name(arg, &o->dtype) != PKV_OK || o->dtype > PKV_BF16)
            argp_failure(state, BENCH_USAGE, 0, "--kv-dtype wants f32, f16 or bf16, not '%s'", arg);
        break;
    case KEY_BLOCK_TOKENS:
        parse_blocks(state, arg, o);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct {
    const char *name, *doc;
} commands[] = {
    { "run",
      "Run the benchmarks of a profile: attention kernels, block manager, capacity.\v"
      "Exit status: 0 ok, 1 a result is wrong, 2 usage, input or output error, 3 noisy "
      "machine (only with --fail-noisy). docs/benchmarking.md tells how to read the numbers." },
    { "kernel", "Attention through a block table against contiguous K and V, one thread." },
    { "blockmgr", "Operations of the block manager, beside malloc and a bare LIFO list." },
    { "capacity",
      "Concurrent sequences in a memory budget, paged against contiguous (simulated)." },
    { "machine", "Print what is known of this machine, and its measured memory bandwidth." },
};

static const char main_help[] =
    "Usage: pkv-bench COMMAND [OPTION...]\n"
    "Paged against contiguous KV memory, measured on this machine.\n\n"
    "  run        the benchmarks of a profile: --profile quick (default), full, ci\n"
    "  kernel     attention through a block table against contiguous K and V\n"
    "  blockmgr   operations of the block manager, beside malloc and a bare LIFO list\n"
    "  capacity   concurrent sequences in a memory budget (simulated)\n"
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
                        "capacity or machine; see pkv-bench --help\n");
    else
        fprintf(stderr,
                "pkv-bench: unknown command '%s': use run, kernel, blockmgr, capacity or "
                "machine\n",
                argv[1]);
    exit(BENCH_USAGE);
}

static void keep_text(int argc, char **argv, struct bench_options *o)
{
    size_t used = (size_t)snprintf(o->text, sizeof(o->text), "pkv-bench");
    for (int i = 1; i < argc && used < sizeof(o->text) - 1; i++)
        used += (size_t)snprintf(o->text + used, sizeof(o->text) - used, " %s", argv[i]);
}

void bench_options_parse(int argc, char **argv, const char *isa_env, struct bench_options *out)
{
    static const struct argp common = {
        common_options, parse_common, NULL, NULL, NULL, NULL, NULL
    };
    static const struct argp_child child[] = { { &common, 0, NULL, 0 }, { 0 } };
    memset(out, 0, sizeof(*out));
    out->command = find_command(argc, argv);
    out->seed = 1;
    out->huge_pages = true;
    out->h_q = 32;
    out->h_kv = 8;
    out->dim = 128;
    out->dtype = PKV_F16;
    out->n_blocks = 2;
    out->block_tokens[0] = 16;
    out->block_tokens[1] = 64;
    keep_text(argc, argv, out);

    struct argp top = { NULL, NULL, NULL, commands[out->command].doc, child, NULL, NULL };
    const bool kernel = out->command == CMD_KERNEL;
    top.options = kernel ? kernel_options : NULL;
    top.parser = parse_kernel;
    char name[32];
    snprintf(name, sizeof(name), "pkv-bench %s", commands[out->command].name);
    argv[1] = name;
    argp_err_exit_status = BENCH_USAGE;
    const pkv_isa untouched = PKV_ISA_BEST;
    out->isa = untouched;
    argp_parse(&top, argc - 1, argv + 1, 0, NULL, out);
    if (out->isa == untouched && isa_env && *isa_env &&
        pkv_isa_from_name(isa_env, &out->isa) != PKV_OK) {
        fprintf(stderr, "pkv-bench: PKV_ISA wants scalar, avx2, avx512 or best, not '%s'\n",
                isa_env);
        exit(BENCH_USAGE);
    }
    if (out->json && out->csv && strcmp(out->json, "-") == 0 && strcmp(out->csv, "-") == 0) {
        fprintf(stderr, "pkv-bench: --json - and --csv - cannot share standard output\n");
        exit(BENCH_USAGE);
    }
}
