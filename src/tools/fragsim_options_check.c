/* What goes together on the command line, and what follows from it. An option that would have no
 * effect is refused with what to do instead. */
#include "fragsim_options.h"

#include <string.h>
#include <unistd.h>

#define GIB (INT64_C(1) << 30)
/* Shapes that pkv_sim_arrivals takes, in millionths. */
#define LEAST_BURSTINESS INT64_C(15625)
#define MOST_BURSTINESS INT64_C(1000000000000)
#define USUAL_SWAP_SPACE (4 * GIB) /* as vLLM's --swap-space */

/* ---------------------------------------------------------------- choose one */

static const struct {
    const char *one, *other, *why;
} rivals[] = {
    { "--trace", "--lengths", "requests are read or drawn, not both" },
    { "--trace", "--in-order", "a trace is read in order anyway; leave --in-order out" },
    { "--all-at-once", "--request-rate", "choose one" },
    { "--all-at-once", "--target-rate", "choose one" },
    { "--all-at-once", "--time-scale", "choose one" },
    { "--all-at-once", "--arrival", "choose one" },
    { "--all-at-once", "--concurrency", "choose one" },
    { "--concurrency", "--request-rate",
      "a closed loop sends when an answer is there: choose one" },
    { "--concurrency", "--target-rate", "a closed loop sends when an answer is there: choose one" },
    { "--concurrency", "--time-scale", "a closed loop sends when an answer is there: choose one" },
    { "--concurrency", "--arrival", "a closed loop sends when an answer is there: choose one" },
    { "--concurrency", "--burstiness", "a closed loop sends when an answer is there: choose one" },
    { "--request-rate", "--target-rate",
      "the one draws arrivals, the other stretches those of a trace: choose one" },
    { "--request-rate", "--time-scale",
      "the one draws arrivals, the other stretches those of a trace: choose one" },
    { "--target-rate", "--time-scale", "both stretch the times of the trace: choose one" },
    { "--format", "--columns", "named columns are a format of their own: choose one" },
    { "--kv-tokens", "--num-blocks", "choose one" },
    { "--kv-tokens", "--num-gpu-blocks-override", "choose one" },
    { "--kv-tokens", "--kv-memory", "choose one" },
    { "--num-blocks", "--num-gpu-blocks-override", "choose one" },
    { "--num-blocks", "--kv-memory", "choose one" },
    { "--num-gpu-blocks-override", "--kv-memory", "choose one" },
    { "--model", "--layers", "choose one" },
    { "--model", "--kv-heads", "choose one" },
    { "--model", "--head-dim", "choose one" },
    { "--quiet", "--width", "without a table there is no width: choose one" },
    { "--quiet", "--progress", "choose one" },
};

static bool check_rivals(const fragsim_options *o)
{
    for (size_t k = 0; k < sizeof(rivals) / sizeof(rivals[0]); k++)
        if (fragsim_given(o, rivals[k].one) && fragsim_given(o, rivals[k].other))
            return fragsim_complain("%s and %s: %s", rivals[k].one, rivals[k].other, rivals[k].why);
    return true;
}

/* ---------------------------------------------------------------- of no use alone */

static bool has_trace(const fragsim_options *o)
{
    return o->trace_path != NULL;
}
static bool reads_file(const fragsim_options *o)
{
    return o->trace_path || o->lengths_path;
}
static bool has_lengths_file(const fragsim_options *o)
{
    return o->lengths_path != NULL;
}
static bool names_number(const fragsim_options *o)
{
    return o->num_prompts >= 0;
}
static bool draws_arrivals(const fragsim_options *o)
{
    return !o->trace_path || o->arrivals.rate_micro >= 0;
}
static bool has_finite_rate(const fragsim_options *o)
{
    return o->arrivals.rate_micro != 0;
}
static bool draws_gamma(const fragsim_options *o)
{
    return !o->arrival_given || o->arrivals.kind == PKV_SIM_ARRIVAL_GAMMA;
}
static bool draws_bursts(const fragsim_options *o)
{
    return o->arrivals.kind == PKV_SIM_ARRIVAL_BURST;
}
static bool names_dimensions(const fragsim_options *o)
{
    return fragsim_given(o, "--layers") && fragsim_given(o, "--kv-heads") &&
           fragsim_given(o, "--head-dim");
}
static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}
/* The JSON does not take the table's place. */
static bool keeps_json_away(const fragsim_options *o)
{
    return !is_stdout(o->json_path);
}
/* And nothing else does. */
static bool leaves_stdout(const fragsim_options *o)
{
    return keeps_json_away(o) && !is_stdout(o->csv_path) && !is_stdout(o->series_path) &&
           !is_stdout(o->events_path) && !is_stdout(o->svg_path) && !is_stdout(o->html_path);
}
static bool shows_external(const fragsim_options *o)
{
    return (!o->quiet && leaves_stdout(o)) || o->svg_path || o->html_path;
}
static bool keeps_json_away_or_draws(const fragsim_options *o)
{
    return keeps_json_away(o) || o->svg_path || o->html_path;
}
static bool has_series(const fragsim_options *o)
{
    return o->series_path || o->svg_path || o->html_path;
}

static const struct {
    const char *option;
    bool (*met)(const fragsim_options *o);
    const char *words;
} needs[] = {
    { "--max-requests", reads_file,
      "needs a --trace or --lengths FILE; drawn requests are set by --num-prompts" },
    { "--start", reads_file, "needs a --trace or --lengths FILE" },
    { "--duration", reads_file,
      "needs a --trace or --lengths FILE; drawn requests are set by --num-prompts and "
      "--request-rate" },
    { "--strict", reads_file, "needs a --trace or --lengths FILE" },
    { "--format", reads_file, "needs a --trace or --lengths FILE" },
    { "--columns", reads_file, "needs a --trace or --lengths FILE" },
    { "--time-unit", reads_file, "needs a --trace or --lengths FILE" },
    { "--hash-block-size", reads_file, "needs a --trace or --lengths FILE" },
    { "--filter", reads_file, "needs a --trace or --lengths FILE" },
    { "--zero-output", reads_file, "needs a --trace or --lengths FILE" },
    { "--target-rate", has_trace, "needs a --trace; drawn arrivals are set by --request-rate" },
    { "--time-scale", has_trace, "needs a --trace; drawn arrivals are set by --request-rate" },
    { "--in-order", has_lengths_file, "needs rows to take: --lengths FILE" },
    { "--repeat", reads_file, "needs rows to repeat: --trace, or --lengths FILE --in-order" },
    { "--repeat", names_number,
      "needs --num-prompts, which says how many requests there are to be" },
    { "--arrival", draws_arrivals, "needs --request-rate; a trace is replayed as it is" },
    { "--burstiness", draws_arrivals, "needs --request-rate; a trace is replayed as it is" },
    { "--arrival", has_finite_rate, "has no use with --request-rate inf: all arrive at once" },
    { "--burstiness", has_finite_rate, "has no use with --request-rate inf: all arrive at once" },
    { "--burstiness", draws_gamma, "is of --arrival gamma; leave one of the two out" },
    { "--burst-size", draws_bursts, "needs --arrival burst" },
    { "--layers", names_dimensions, "needs --kv-heads and --head-dim beside it" },
    { "--kv-heads", names_dimensions, "needs --layers and --head-dim beside it" },
    { "--head-dim", names_dimensions, "needs --layers and --kv-heads beside it" },
    { "--paper-accounting", keeps_json_away_or_draws,
      "has no use with --json -, which has every part anyway" },
    { "--paper-accounting", shows_external, "has no use without a table, --svg or --html" },
    { "--width", leaves_stdout, "has no use where a file goes to stdout, which prints no table" },
    { "--repro-command", keeps_json_away,
      "has no use with --json -, which has it as repro_command" },
    { "--repro-command", leaves_stdout,
      "would be mixed with the file that goes to stdout; JSON and HTML have the line anyway" },
    { "--sample-interval", has_series, "needs --timeseries, --svg or --html" },
};

static bool check_needs(const fragsim_options *o)
{
    for (size_t k = 0; k < sizeof(needs) / sizeof(needs[0]); k++)
        if (fragsim_given(o, needs[k].option) && !needs[k].met(o))
            return fragsim_complain("%s %s", needs[k].option, needs[k].words);
    if (o->trace_path && o->num_prompts >= 0 && o->trace.max_requests > 0 && !o->repeat)
        return fragsim_complain("--num-prompts and --max-requests: choose one, or repeat the rows "
                                "with --repeat");
    if (o->arrivals.kind == PKV_SIM_ARRIVAL_BURST && !fragsim_given(o, "--burst-size"))
        return fragsim_complain("--arrival burst needs --burst-size N");
    if (o->repeat && o->lengths_path && !o->lengths_in_order)
        return fragsim_complain("--repeat has no use here: rows are drawn with replacement; "
                                "--in-order takes them one after the other");
    return true;
}

/* Two outputs on one path would overwrite or mix. */
static bool check_outputs(const fragsim_options *o)
{
    const struct {
        const char *name, *path;
    } outputs[] = {
        { "--json", o->json_path },         { "--csv", o->csv_path },
        { "--timeseries", o->series_path }, { "--events", o->events_path },
        { "--svg", o->svg_path },           { "--html", o->html_path },
    };
    const size_t n = sizeof(outputs) / sizeof(outputs[0]);
    for (size_t a = 0; a < n; a++)
        for (size_t b = a + 1; b < n; b++)
            if (outputs[a].path && outputs[b].path && strcmp(outputs[a].path, outputs[b].path) == 0)
                return fragsim_complain("%s and %s: both are written to '%s'; name two files",
                                        outputs[a].name, outputs[b].name, outputs[a].path);
    return true;
}

bool fragsim_options_check(const fragsim_options *o)
{
    return check_rivals(o) && check_needs(o) && check_outputs(o);
}

bool fragsim_names_bytes(const fragsim_options *o)
{
    return fragsim_given(o, "--model") || fragsim_given(o, "--layers") ||
           fragsim_given(o, "--kv-memory") || fragsim_given(o, "--kv-dtype") ||
           fragsim_given(o, "--tensor-parallel");
}

/* ---------------------------------------------------------------- policies */

static void log_complaint(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fragsim_complain("--policy: %s", text);
}

/* Is there a policy for which `has` holds? */
static bool any_policy(const fragsim_options *o, bool (*has)(const pkv_sim_policy *p))
{
    for (int k = 0; k < o->n_policies; k++)
        if (has(&o->policies[k])) return true;
    return false;
}
static bool swaps(const pkv_sim_policy *p)
{
    return p->swap;
}
static bool compacts(const pkv_sim_policy *p)
{
    return p->addr == PKV_SIM_ADDR_COMPACT;
}
static bool has_prefix(const pkv_sim_policy *p)
{
    return p->prefix;
}
static bool has_beams(const pkv_sim_policy *p)
{
    return p->group == PKV_SIM_GROUP_BEAM;
}
static bool has_watermark(const pkv_sim_policy *p)
{
    return p->kind == PKV_SIM_PAGED || p->kind == PKV_SIM_VATTN;
}

static const struct {
    const char *option;
    bool (*has)(const pkv_sim_policy *p);
    const char *words;
} policy_needs[] = {
    { "--swap-space", swaps, "no policy swaps; give --policy paged+swap" },
    { "--swap-bandwidth", swaps, "no policy swaps; give --policy paged+swap" },
    { "--copy-latency", swaps, "no policy swaps; give --policy paged+swap" },
    { "--bandwidth", compacts, "no policy compacts; give --policy oracle:alloc=compact" },
    { "--shared-prefix", has_prefix, "no policy shares; give --policy paged+prefix" },
    { "--watermark", has_watermark, "no policy has one; give --policy paged or vattn" },
};

/* Is anything drawn: lengths, arrivals or beams? */
static bool draws(const fragsim_options *o)
{
    const pkv_sim_arrival law = o->arrivals.kind;
    if (!o->trace_path && !o->lengths_in_order) return true;
    if (o->command == FRAGSIM_CAPACITY) return false;
    if (any_policy(o, has_beams)) return true;
    if (law == PKV_SIM_ARRIVAL_CONSTANT || law == PKV_SIM_ARRIVAL_BURST) return false;
    if (o->arrivals.rate_micro >= 0) return o->arrivals.rate_micro > 0;
    return !o->trace_path && !o->all_at_once && o->sim.concurrency == 0;
}

static bool check_policies(const fragsim_options *o)
{
    if (o->seed_given && !draws(o))
        return fragsim_complain("--seed: nothing is drawn when a trace is replayed; leave it out");
    if (o->command == FRAGSIM_CAPACITY || o->command == FRAGSIM_INSPECT) return true;
    for (size_t k = 0; k < sizeof(policy_needs) / sizeof(policy_needs[0]); k++)
        if (fragsim_given(o, policy_needs[k].option) && !any_policy(o, policy_needs[k].has))
            return fragsim_complain("%s has no use here: %s", policy_needs[k].option,
                                    policy_needs[k].words);
    return true;
}

static bool resolve_policies(fragsim_options *o)
{
    static const char *const usual[] = {
        "max", "pow2", "oracle", "oracle:alloc=best-fit", "oracle:alloc=ideal", "paged"
    };
    if (o->n_policies == 0)
        for (size_t k = 0; k < sizeof(usual) / sizeof(usual[0]); k++)
            o->policy_texts[o->n_policies++] = usual[k];
    bool used = o->num_blocks >= 0 || (o->command & (FRAGSIM_CAPACITY | FRAGSIM_INSPECT)) != 0;
    const pkv_logger log = { log_complaint, NULL };
    for (int k = 0; k < o->n_policies; k++) {
        pkv_sim_policy *p = &o->policies[k];
        if (pkv_sim_policy_parse(o->policy_texts[k], &log, p) != PKV_OK) return false;
        if (o->block_tokens < 0 || p->kind != PKV_SIM_PAGED || strstr(o->policy_texts[k], "block="))
            continue;
        p->block_tokens = (int32_t)o->block_tokens;
        used = true;
    }
    if (o->block_tokens >= 0 && !used)
        return fragsim_complain("--block-tokens has no use here: no --num-blocks, and no policy "
                                "'paged' without block=");
    return true;
}

/* ---------------------------------------------------------------- pool */

static bool resolve_model(fragsim_options *o)
{
    int64_t token_bytes, tensor_bytes;
    if (names_dimensions(o)) o->model.name = NULL;
    if (!fragsim_model_bytes(&o->model, &token_bytes, &tensor_bytes)) return false;
    o->sim.kv_bytes_per_token = token_bytes;
    o->sim.tensor_token_bytes = (int32_t)tensor_bytes;
    if (!any_policy(o, swaps)) return true;
    const int64_t swap = o->swap_bytes >= 0 ? o->swap_bytes : USUAL_SWAP_SPACE;
    const int64_t slots = swap / token_bytes;
    o->sim.swap_tokens = slots > INT32_MAX ? INT32_MAX : (int32_t)slots;
    return true;
}

/* 0: it has complained. */
static int64_t pool_slots(const fragsim_options *o)
{
    if (o->kv_tokens >= 0) return o->kv_tokens;
    const int64_t block = o->block_tokens >= 0 ? o->block_tokens : 16;
    if (o->num_blocks >= 0 && o->num_blocks <= INT32_MAX / block) return o->num_blocks * block;
    if (o->num_blocks >= 0) {
        fragsim_complain("--num-blocks: %lld blocks of %lld tokens are more than %d slots",
                         (long long)o->num_blocks, (long long)block, INT32_MAX);
        return 0;
    }
    if (o->kv_memory_bytes < 0) return o->sim.pool_tokens;
    const int64_t slots = o->kv_memory_bytes / o->sim.kv_bytes_per_token;
    if (slots >= 1 && slots <= INT32_MAX) return slots;
    fragsim_complain("--kv-memory: %lld bytes are %lld slots of %lld bytes; 1 to %d are possible",
                     (long long)o->kv_memory_bytes, (long long)slots,
                     (long long)o->sim.kv_bytes_per_token, INT32_MAX);
    return 0;
}

static bool resolve_pool(fragsim_options *o)
{
    const int64_t slots = pool_slots(o);
    if (slots == 0) return false;
    o->sim.pool_tokens = (int32_t)slots;
    for (int k = 0; k < o->n_policies; k++)
        if (o->policies[k].block_tokens > o->sim.pool_tokens)
            return fragsim_complain("--policy %s: a pool of %d slots has no room for one block",
                                    o->policy_texts[k], o->sim.pool_tokens);
    return true;
}

static bool check_batched_tokens(const fragsim_options *o)
{
    const pkv_sim_config *c = &o->sim;
    if (c->max_batched_tokens == 0 || c->prefill_chunk > 0 ||
        c->max_batched_tokens >= c->max_model_len)
        return true;
    return fragsim_complain("--max-num-batched-tokens: %d are too few for a prompt of "
                            "--max-model-len %d in one step; give --prefill-chunk",
                            c->max_batched_tokens, c->max_model_len);
}

static bool resolve_burstiness(fragsim_options *o)
{
    const int64_t shape = o->arrivals.burstiness_micro;
    if (!fragsim_given(o, "--burstiness")) return true;
    o->arrivals.kind = PKV_SIM_ARRIVAL_GAMMA;
    if (shape >= LEAST_BURSTINESS && shape <= MOST_BURSTINESS) return true;
    return fragsim_complain("--burstiness: from 0.015625 to 1000000; 1 is poisson, less is "
                            "burstier");
}

bool fragsim_options_resolve(fragsim_options *o)
{
    if (o->threads == 0) {
        const long n = sysconf(_SC_NPROCESSORS_ONLN);
        o->threads = n < 1 ? 1 : n > FRAGSIM_MAX_THREADS ? FRAGSIM_MAX_THREADS : (int)n;
    }
    return resolve_burstiness(o) && resolve_policies(o) && check_policies(o) && resolve_model(o) &&
           resolve_pool(o) && check_batched_tokens(o);
}
