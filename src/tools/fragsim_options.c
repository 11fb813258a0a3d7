/* The command line: one table says what exists, what it is called, whose it is, and what it does.
 */
#include "fragsim_options.h"

#include <stdlib.h>
#include <string.h>

#define R FRAGSIM_RUN
#define P FRAGSIM_PAPER
#define S FRAGSIM_SWEEP
#define C FRAGSIM_CAPACITY
#define I FRAGSIM_INSPECT
#define AT(field) offsetof(fragsim_options, field)
#define MANY true /* several values make an axis of sweep */

/* clang-format off */
static const fragsim_option options[] = {
    { .commands = R | S | C | I, .help = "requests" },
    { "--trace", "--dataset-path", "FILE", R | S | C, false, fragsim_set_trace, 0, 0, 0,
      "CSV or JSON lines, - for stdin; default: draw requests" },
    { "--trace", "--dataset-path", "FILE", I, false, fragsim_set_trace, 0, 0, 0,
      "another way to name TRACE" },
    { "--format", NULL, "NAME", R | S | C | I, false, fragsim_set_format, 0, 0, 0,
      "azure, burstgpt, vidur, splitwise, lengths, mooncake, qwen, llmservingsim (auto: by the names found)" },
    { "--columns", NULL, "in=A,out=B,time=C", R | S | C | I, false, fragsim_set_columns, 0, 0, 0,
      "columns or keys of any other file; time may be missing" },
    { "--time-unit", NULL, "UNIT", R | S | C | I, false, fragsim_set_time_unit, 0, 0, 0,
      "of numeric times: ns, us, ms, s, min, h (as the format says)" },
    { "--hash-block-size", NULL, "N", R | S | C | I, false, fragsim_set_whole32,
      AT(trace.hash_block_tokens), 1, 1 << 30, "tokens per content id (512; qwen 16)" },
    { "--filter", NULL, "NAME", R | S | C | I, false, fragsim_set_filter, 0, 0, 0,
      "rows that a published evaluation used: vllm, artifact, sglang, burstgpt-gpt4 (none)" },
    { "--zero-output", NULL, "drop|keep", R | S | C | I, false, fragsim_set_zero_output, 0, 0, 0,
      "rows without output: drop, or keep as prefill only (drop)" },
    { "--start", NULL, "TIME", R | S | C | I, false, fragsim_set_time, AT(trace.start_ns), 0, 0,
      "use rows from TIME after the first arrival on (0)" },
    { "--duration", NULL, "TIME", R | S | C | I, false, fragsim_set_time, AT(trace.duration_ns), 1, 0,
      "use rows within TIME of --start (all); 600, 10min" },
    { "--max-requests", NULL, "N", R | S | C | I, false, fragsim_set_whole64, AT(trace.max_requests), 1,
      INT32_MAX, "use at most the N earliest rows (all)" },
    { "--num-prompts", NULL, "N", R | S | C, MANY, fragsim_set_whole64, AT(num_prompts), 1, 100000000,
      "requests to draw (3000), or rows to use: fewer are an error" },
    { "--num-prompts", NULL, "N", I, false, fragsim_set_whole64, AT(num_prompts), 1, 100000000,
      "describe the N earliest rows; fewer are an error" },
    { "--repeat", NULL, NULL, R | S | C, false, fragsim_set_flag, AT(repeat), 0, 0,
      "use rows again, in order, until there are --num-prompts" },
    { "--strict", NULL, NULL, R | S | C | I, false, fragsim_set_flag, AT(trace.strict), 0, 0,
      "a row that would be dropped or sorted is an error" },
    { "--lengths", NULL, "KIND|FILE", R | S | C, false, fragsim_set_lengths, 0, 0, 0,
      "draw lengths: sharegpt-like (default without --trace), alpaca-like, fixed:I,O, uniform:I-I,O-O, "
      "lognormal:MEAN,CV,MEAN,CV, gamma:MEAN,SHAPE,MEAN,SHAPE, zipf:A,MAX,A,MAX; or rows of FILE" },
    { "--in-order", NULL, NULL, R | S | C, false, fragsim_set_flag, AT(lengths_in_order), 0, 0,
      "rows of --lengths FILE one after the other (drawn with replacement)" },
    { "--shared-prefix", NULL, "N", R | S, MANY, fragsim_set_whole32, AT(shared_prefix), 1, 1 << 24,
      "tokens that all prompts begin with, for +prefix (none)" },
    { "--seed", NULL, "N", R | S | C, MANY, fragsim_set_seed, 0, 0, 0, "of everything drawn (0)" },
    { "--seed", NULL, "N", P, false, fragsim_set_seed, 0, 0, 0,
      "first of the three seeds that figures are means of (1)" },

    { .commands = R | S, .help = "arrivals" },
    { "--request-rate", NULL, "R", R | S, MANY, fragsim_set_request_rate, AT(arrivals.rate_micro), 0, 0,
      "drawn, R per second (8), inf: all at once; for drawn requests and traces without times" },
    { "--arrival", NULL, "LAW", R | S, false, fragsim_set_arrival, 0, 0, 0,
      "of drawn arrivals: poisson, gamma, constant, burst, artifact (poisson)" },
    { "--burstiness", NULL, "X", R | S, MANY, fragsim_set_factor, AT(arrivals.burstiness_micro), 0, 0,
      "shape of gamma arrivals: 1 is poisson, less is burstier (1)" },
    { "--burst-size", NULL, "N", R | S, MANY, fragsim_set_whole32, AT(arrivals.burst_size), 1, 1 << 20,
      "requests per burst" },
    { "--concurrency", NULL, "N", R | S, MANY, fragsim_set_whole32, AT(sim.concurrency), 1, 1 << 20,
      "closed loop: N clients, each sends its next request when its last one is done" },
    { "--all-at-once", NULL, NULL, R | S, false, fragsim_set_flag, AT(all_at_once), 0, 0,
      "all requests at time 0, whatever the trace says" },
    { "--target-rate", NULL, "R", R | S, MANY, fragsim_set_rate, AT(target_rate_micro), 0, 0,
      "stretch the times of a trace to R requests per second (as they are)" },
    { "--time-scale", NULL, "X", R | S, MANY, fragsim_set_factor, AT(time_scale_micro), 0, 0,
      "multiply the times of a trace by X (1)" },

    { .commands = R | S | C, .help = "pool" },
    { "--policy", NULL, "P", R | S | C, false, fragsim_set_policy, 0, 0, 0,
      "repeatable: max, pow2, oracle with :alloc=buddy|ideal|first-fit|best-fit|next-fit|compact; "
      "static-batch; orca-real:max_tokens=N; paged[+prefix][+swap][+fork:n=N][+beam:width=N]:block=N; "
      "vattn:page=2M|256K|128K|64K (max, pow2, oracle, oracle:best-fit, oracle:ideal, paged)" },
    { "--kv-tokens", NULL, "N", R | S | C, MANY, fragsim_set_whole64, AT(kv_tokens), 1, INT32_MAX,
      "pool in token slots (15728: OPT-13B on 40 GB)" },
    { "--num-blocks", NULL, "N", R | S | C, MANY, fragsim_set_whole64, AT(num_blocks), 1, INT32_MAX,
      "pool in usable blocks of --block-tokens" },
    { "--num-gpu-blocks-override", NULL, "N", R | S | C, MANY, fragsim_set_gpu_blocks, AT(num_blocks), 2,
      INT32_MAX, "as vLLM counts them: N - 1 usable blocks" },
    { "--kv-memory", NULL, "SIZE", R | S | C, MANY, fragsim_set_bytes, AT(kv_memory_bytes), 1, 0,
      "pool in bytes of all workers: 12GiB, 40GB" },
    { "--model", NULL, "NAME", R | S | C, MANY, fragsim_set_model, 0, 0, 0,
      "bytes per token: opt-13b (default), opt-66b, opt-175b, llama-2-7b|13b|70b, llama-3-8b|70b, "
      "llama-3.1-8b|70b|405b, mistral-7b, mixtral-8x7b, qwen2.5-7b|72b, yi-34b" },
    { "--layers", NULL, "N", R | S | C, false, fragsim_set_whole32, AT(model.layers), 1, 65536,
      "of any other model; with --kv-heads and --head-dim" },
    { "--kv-heads", NULL, "N", R | S | C, false, fragsim_set_whole32, AT(model.kv_heads), 1, 65536,
      "KV heads per layer, all workers together" },
    { "--head-dim", NULL, "N", R | S | C, false, fragsim_set_whole32, AT(model.head_dim), 1, 65536,
      "elements per head" },
    { "--kv-dtype", "--kv-cache-dtype", "TYPE", R | S | C, MANY, fragsim_set_kv_dtype, 0, 0, 0,
      "of K and V: float16, bfloat16, fp8, int8, int4, float32 (auto: 16 bits)" },
    { "--tensor-parallel", "--tensor-parallel-size", "N", R | S | C, MANY, fragsim_set_whole32,
      AT(model.tensor_parallel), 1, 1024, "workers that share the heads (1)" },
    { "--block-tokens", "--block-size", "N", R | S | C, MANY, fragsim_set_whole64, AT(block_tokens), 1,
      1024, "tokens per block of paged without block=, and of --num-blocks (16)" },
    { "--block-tokens", "--block-size", "N", I, false, fragsim_set_whole64, AT(block_tokens), 1, 1024,
      "of the cache whose hits are estimated (16)" },
    { "--max-model-len", NULL, "N", R | S | C, MANY, fragsim_set_whole32, AT(sim.max_model_len), 1,
      1 << 30, "longest prompt + output (2048)" },
    { "--watermark", NULL, "W", R | S | C, MANY, fragsim_set_watermark, 0, 0, 0,
      "share of the blocks that paged and vattn keep free at admission (0.01)" },
    { "--swap-space", NULL, "SIZE", R | S, MANY, fragsim_set_swap_space, 0, 0, 0,
      "for paged+swap: GiB, or with a unit (4)" },
    { "--swap-bandwidth", NULL, "SIZE", R | S, MANY, fragsim_set_speed, AT(sim.swap_bytes_per_s), 0, 0,
      "bytes per second that swap moves, or inf (32GB)" },
    { "--copy-latency", NULL, "TIME", R | S, MANY, fragsim_set_time, AT(sim.copy_latency_ns), 0, 0,
      "of each block that swap moves (10us)" },
    { "--bandwidth", NULL, "SIZE", R | S, MANY, fragsim_set_speed, AT(sim.compact_bytes_per_s), 0, 0,
      "bytes per second that alloc=compact moves, or inf (1TB)" },

    { .commands = R | S | C, .help = "scheduling" },
    { "--max-num-seqs", NULL, "N", R | S | C, MANY, fragsim_set_whole32, AT(sim.max_num_seqs), 1, 1 << 20,
      "most requests running at a time (256)" },
    { "--max-num-batched-tokens", NULL, "N", R | S, MANY, fragsim_set_whole32,
      AT(sim.max_batched_tokens), 1, INT32_MAX, "most tokens computed in one step (no limit)" },
    { "--admit", NULL, "fcfs|skip", R | S, MANY, fragsim_set_admit, 0, 0, 0,
      "skip: later requests pass a head of the queue that does not fit (fcfs)" },
    { "--prefill-rate", NULL, "N", R | S, MANY, fragsim_set_whole64, AT(sim.prefill_tokens_per_s), 1,
      INT32_MAX, "prompt tokens per second (prefill takes no time)" },
    { "--prefill-chunk", NULL, "N", R | S, MANY, fragsim_set_whole32, AT(sim.prefill_chunk), 1, 1 << 30,
      "prompt tokens per request and step (whole prompts)" },
    { "--step-time", NULL, "T", R | S, false, fragsim_set_step_time, 0, 0, 0,
      "duration of a step (22ms+300us*batch+400ns*tokens)" },

    { .commands = R | S | P, .help = "measuring" },
    { "--window", NULL, "W", R | S, false, fragsim_set_window, 0, 0, 0,
      "what averages cover: all, arrivals, queued (auto: arrivals if they differ, else queued)" },
    { "--slo", NULL, "ttft=T,tpot=T,norm=T", R | S, false, fragsim_set_slo, 0, 0, 0,
      "limits that a good request meets, any of the three (none)" },
    { "--knee", NULL, "K", S, false, fragsim_set_factor, AT(knee_micro), 0, 0,
      "of a swept rate: the highest at which the mean latency per token is at most K times that of a "
      "request alone (2)" },
    { "--percentile-method", NULL, "NAME", R | S, false, fragsim_set_percentile, 0, 0, 0,
      "linear or nearest (linear)" },
    { "--engine", NULL, "E", R | S, false, fragsim_set_engine, 0, 0, 0,
      "leap or naive, with equal results (leap)" },
    { "--check", NULL, NULL, R | S, false, fragsim_set_flag, AT(sim.check), 0, 0,
      "compare the block manager with a counter model after every event; slow" },
    { "--threads", NULL, "N", R | S | P, false, fragsim_set_whole32, AT(threads), 1, FRAGSIM_MAX_THREADS,
      "simulations at a time (as many as there are processors)" },

    { .commands = R | S | C | P | I, .help = "output" },
    { "--json", NULL, "FILE", R | S | C | P | I, false, fragsim_set_text, AT(json_path), 0, 0,
      "write the report as JSON; - is stdout, without the table" },
    { "--csv", NULL, "FILE", R | S, false, fragsim_set_text, AT(csv_path), 0, 0,
      "write a row per policy (and point of a sweep) as CSV" },
    { "--csv", NULL, "FILE", P, false, fragsim_set_text, AT(csv_path), 0, 0,
      "write a row per cell as CSV" },
    { "--timeseries", NULL, "FILE", R, false, fragsim_set_text, AT(series_path), 0, 0,
      "write the parts of the pool, batch and queue over time as CSV" },
    { "--sample-interval", NULL, "TIME", R, false, fragsim_set_time, AT(sample_interval_ns), 1, 0,
      "between two rows of --timeseries (a 240th of the arrivals' span)" },
    { "--events", NULL, "FILE", R, false, fragsim_set_text, AT(events_path), 0, 0,
      "write every arrival, admission, growth, preemption, swap, move and finish as JSON lines" },
    { "--svg", NULL, "FILE", R | S, false, fragsim_set_text, AT(svg_path), 0, 0,
      "draw where the memory went, batch and queue over time, memory maps, or batch, latency and "
      "waste over what is swept; needs gnuplot" },
    { "--html", NULL, "FILE", R | S, false, fragsim_set_text, AT(html_path), 0, 0,
      "write one page with charts (if gnuplot is there), their data, and everything else" },
    { "--paper-accounting", NULL, NULL, R, false, fragsim_set_flag, AT(paper_accounting), 0, 0,
      "one figure for all external waste, as the paper counts it" },
    { "--width", NULL, "N", R, false, fragsim_set_width, 0, 0, 0,
      "80 or 120 columns (80; on a wide terminal 120)" },
    { "--quiet", NULL, NULL, R | S | C | P, false, fragsim_set_flag, AT(quiet), 0, 0, "no table, no progress" },
    { "--progress", NULL, NULL, R | S | P, false, fragsim_set_flag, AT(force_progress), 0, 0,
      "show progress on stderr also where it is no terminal" },
    { "--repro-command", NULL, NULL, R | S, false, fragsim_set_flag, AT(print_repro), 0, 0,
      "print the line that repeats the run" },
};
/* clang-format on */
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))
_Static_assert(N_OPTIONS <= 128, "fragsim_options.given has a bit per row");

/* ---------------------------------------------------------------- help */

static void put_option(FILE *out, const fragsim_option *o, bool marked)
{
    const int left = 34, width = 100;
    const int len =
        fprintf(out, "  %s%s%s%s%s%s", o->name, o->alias ? ", " : "", o->alias ? o->alias : "",
                o->value ? " " : "", o->value ? o->value : "", marked ? " *" : "");
    if (len < left) fprintf(out, "%*s", left - len, "");
    else fprintf(out, "\n%*s", left, "");
    tool_put_wrapped(out, o->help, left, left, width);
}

static const char *purpose(fragsim_command command)
{
    switch (command) {
    case FRAGSIM_RUN:
        return "[options]: replay requests against allocation policies and show where the KV-cache "
               "memory goes.";
    case FRAGSIM_PAPER:
        return "[options]: rebuild the figures of the PagedAttention paper from drawn requests and "
               "say which hold.";
    case FRAGSIM_SWEEP:
        return "[options]: a simulation per policy and combination of values. Options marked * "
               "take "
               "lists 1,8,16 and ranges FIRST-LAST*FACTOR or FIRST-LAST+STEP.";
    case FRAGSIM_CAPACITY:
        return "[options]: how many requests a memory holds at given lengths, without a "
               "simulation.";
    case FRAGSIM_INSPECT:
        return "TRACE [options]: what a trace contains, and what is dropped. TRACE is CSV or JSON "
               "lines, - for stdin.";
    }
    return "";
}

void fragsim_help(FILE *out, fragsim_command command)
{
    const bool runs = (command & (FRAGSIM_RUN | FRAGSIM_SWEEP | FRAGSIM_PAPER)) != 0;
    const int column = fprintf(out, "pkv-fragsim %s ", fragsim_command_name(command));
    tool_put_wrapped(out, purpose(command), column, 0, 100);
    fprintf(out, "Defaults in parentheses.\n");
    for (size_t k = 0; k < N_OPTIONS; k++) {
        const fragsim_option *o = &options[k];
        if (!(o->commands & command)) continue;
        if (o->name) put_option(out, o, o->axis && command == FRAGSIM_SWEEP);
        else fprintf(out, "\n%s\n", o->help);
    }
    fprintf(out, "\n  %-32s%s\n", "--help", "this text");
    fprintf(out, "\nExit status: 0 done; %s2 usage, input or output error.\n",
            runs ? "1 nothing finished, or a check failed; " : "");
}

/* ---------------------------------------------------------------- parsing */

static bool is_name(const fragsim_option *o, const char *arg, size_t len)
{
    return o->name && ((strlen(o->name) == len && memcmp(o->name, arg, len) == 0) ||
                       (o->alias && strlen(o->alias) == len && memcmp(o->alias, arg, len) == 0));
}

/* NULL: no such option of this command; *elsewhere is then a command that has it, or 0. */
static const fragsim_option *find(const char *arg, size_t len, fragsim_command command,
                                  unsigned *elsewhere)
{
    *elsewhere = 0;
    for (size_t k = 0; k < N_OPTIONS; k++) {
        if (!is_name(&options[k], arg, len)) continue;
        if (options[k].commands & command) return &options[k];
        *elsewhere |= options[k].commands;
    }
    return NULL;
}

bool fragsim_given(const fragsim_options *o, const char *name)
{
    for (size_t k = 0; k < N_OPTIONS; k++)
        if (is_name(&options[k], name, strlen(name)) && (o->given[k / 64] >> (k % 64) & 1))
            return true;
    return false;
}

static bool unknown(const char *arg, size_t len, fragsim_command command, unsigned elsewhere)
{
    const char *name = fragsim_command_name(command);
    for (unsigned bit = 1; elsewhere != 0 && bit <= FRAGSIM_INSPECT; bit *= 2)
        if (elsewhere & bit && strcmp(fragsim_command_name((fragsim_command)bit), "?") != 0)
            return fragsim_complain("%.*s: unknown option of %s, it is one of %s; see pkv-fragsim "
                                    "%s --help",
                                    (int)len, arg, name, fragsim_command_name((fragsim_command)bit),
                                    name);
    return fragsim_complain("%.*s: unknown option; see pkv-fragsim %s --help", (int)len, arg, name);
}

/* Several values of an option of sweep: each has to be one that the option takes. */
static bool take_axis(fragsim_options *o, const fragsim_option *row, const char *value)
{
    if (o->n_axes >= FRAGSIM_MAX_AXES)
        return fragsim_complain("%s: at most %d options with several values", row->name,
                                FRAGSIM_MAX_AXES);
    fragsim_axis *axis = &o->axes[o->n_axes];
    if (!fragsim_parse_values(row->name, value, axis)) return false;
    for (int v = 0; v <= axis->n; v++) /* the first one stays set */
        if (!row->set(o, row, axis->values[v % axis->n])) return false;
    o->n_axes += axis->n > 1;
    return true;
}

/* One option, with its value from "=" or from the next argument. */
static bool take_option(int argc, char **argv, int *k, fragsim_options *out)
{
    const char *arg = argv[*k];
    const size_t len = strcspn(arg, "=");
    unsigned elsewhere;
    const fragsim_option *row = find(arg, len, out->command, &elsewhere);
    if (!row && out->command == FRAGSIM_INSPECT && (arg[0] != '-' || arg[1] == '\0'))
        return fragsim_set_trace(out, find("--trace", 7, out->command, &elsewhere), arg);
    if (!row) return unknown(arg, len, out->command, elsewhere);
    const size_t bit = (size_t)(row - options);
    if ((out->given[bit / 64] >> (bit % 64) & 1) && row->set != fragsim_set_policy)
        return fragsim_complain("%s: given twice", row->name);
    out->given[bit / 64] |= UINT64_C(1) << (bit % 64);
    if (!row->value && arg[len] == '=') return fragsim_complain("%s takes no value", row->name);
    if (!row->value) return row->set(out, row, NULL);
    if (arg[len] == '\0' && *k + 1 >= argc)
        return fragsim_complain("%s: a value is missing (%s)", row->name, row->value);
    const char *value = arg[len] == '=' ? arg + len + 1 : argv[++*k];
    return out->command == FRAGSIM_SWEEP && row->axis ? take_axis(out, row, value)
                                                      : row->set(out, row, value);
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
        .time_scale_micro = -1,
        .shared_prefix = -1,
        .num_prompts = -1,
        .kv_tokens = -1,
        .num_blocks = -1,
        .block_tokens = -1,
        .kv_memory_bytes = -1,
        .swap_bytes = -1,
        .model = *fragsim_model_find("opt-13b"),
        .sim = PKV_SIM_CONFIG_INIT,
        .knee_micro = 2000000,
        .sample_interval_ns = -1,
    };
    out->arrivals.rate_micro = -1;
    for (int k = 2; k < argc; k++)
        if (!take_option(argc, argv, &k, out)) return false;
    if (command == FRAGSIM_INSPECT && !out->trace_path)
        return fragsim_complain("inspect: which trace? pkv-fragsim inspect TRACE");
    if (!fragsim_options_check(out) || !fragsim_options_resolve(out)) return false;
    out->repro = repro_line(argc, argv);
    return out->repro || fragsim_complain("out of memory");
}

bool fragsim_options_at(const fragsim_options *from, const int *k, fragsim_options *out)
{
    *out = *from;
    out->columns = NULL;
    out->n_axes = 0;
    out->repro = strdup(from->repro);
    if (!out->repro) return fragsim_complain("out of memory");
    bool ok = true;
    for (int a = 0; a < from->n_axes && ok; a++) {
        unsigned elsewhere;
        const char *name = from->axes[a].option;
        const fragsim_option *row = find(name, strlen(name), from->command, &elsewhere);
        ok = row->set(out, row, from->axes[a].values[k[a]]);
    }
    if (ok && fragsim_options_resolve(out)) return true;
    fragsim_options_free(out);
    return false;
}

void fragsim_options_free(fragsim_options *opts)
{
    free(opts->columns);
    free(opts->repro);
    opts->columns = opts->repro = NULL;
}
