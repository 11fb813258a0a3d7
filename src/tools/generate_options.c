/* The command line: one table says what exists, what it is called and what it does. */
#include "generate_options.h"
#include "tool_values.h"

#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(generate_options, field)

/* clang-format off */
static const generate_option options[] = {
    { NULL, "model", .help = "model" },
    { "--model", "-m", "PATH", generate_set_text, AT(model), .help =
      "a folder with config.json and *.safetensors, or a .safetensors, .gguf or llama2.c .bin file" },
    { "--tokenizer", "-t", "PATH", generate_set_text, AT(tokenizer), .help =
      "a tokenizer file or its folder, or none (the model's folder, the .gguf itself, tok*.bin beside a .bin)" },
    { "--splitter", NULL, "NAME", generate_set_text, AT(splitter), .help =
      "gpt2, llama3, qwen2 or none, for files that do not say (as the file says)" },
    { "--weights", NULL, "f32|bf16", generate_set_weights, .help = "how matrices are kept (f32)" },

    { NULL, "prompt", .help = "prompt: one of the first four" },
    { "--prompt", "-p", "TEXT", generate_set_any_text, AT(prompt), .help =
      "continue TEXT; '' is the beginning of a text, where the tokenizer has a token for it" },
    { "--file", "-f", "FILE", generate_set_text, AT(prompt_file), .help =
      "continue what is in FILE, every byte of it; - is stdin" },
    { "--ids", NULL, "1,2,3", generate_set_ids, AT(ids), .help =
      "continue these token ids, taken as they are; needs no tokenizer" },
    { "--requests", NULL, "FILE", generate_set_text, AT(requests), .help =
      "many requests, one JSON object a line (--help requests); - is stdin" },
    { "--special", NULL, NULL, generate_set_field, .field = "special", .help =
      "names of special tokens in the prompt, such as <s>, are these tokens (they are text)" },
    { "--echo", NULL, NULL, generate_set_flag, AT(echo), .help = "print the prompt before its text" },

    { NULL, "sampling", .help = "sampling; with --requests, what a line leaves out" },
    { "--max-tokens", "-n", "N", generate_set_field, .field = "max_tokens", .help = "new tokens at most (128)" },
    { "--temp", "--temperature", "T", generate_set_field, .field = "temperature", .help =
      "0: always the likeliest token; 1: as the model says; more: wilder (0)" },
    { "--top-k", NULL, "K", generate_set_field, .field = "top_k", .help = "of the K likeliest tokens (0: all)" },
    { "--top-p", NULL, "P", generate_set_field, .field = "top_p", .help =
      "of the fewest tokens that have P of the probability together (1)" },
    { "--min-p", NULL, "P", generate_set_field, .field = "min_p", .help =
      "of tokens with at least P times the largest probability (0)" },
    { "--repeat-penalty", "--repetition-penalty", "R", generate_set_field, .field = "repeat_penalty", .help =
      "of tokens in prompt and output: positive logits are divided by R, others multiplied (1)" },
    { "--presence-penalty", NULL, "X", generate_set_field, .field = "presence_penalty", .help =
      "taken once from logits of tokens in the output (0)" },
    { "--frequency-penalty", NULL, "X", generate_set_field, .field = "frequency_penalty", .help =
      "taken for each time that the output has the token (0)" },
    { "--seed", NULL, "N", generate_set_field, .field = "seed", .help =
      "draws depend on it, the sample and the position, and on nothing else (0)" },
    { "--n", NULL, "N", generate_set_field, .field = "n", .help =
      "samples that continue one prompt, which is computed once (1); with --beams: how many are returned" },
    { "--beams", NULL, "N", generate_set_field, .field = "beams", .help = "beam search of this width, 2 to 16 (none)" },
    { "--length-penalty", NULL, "X", generate_set_field, .field = "length_penalty", .help =
      "beams are ranked by the sum of log probabilities / length^X (1)" },
    { "--early-stopping", NULL, NULL, generate_set_field, .field = "early_stopping", .help =
      "end as soon as there are --beams complete texts" },
    { "--logprobs", NULL, "K", generate_set_field, .field = "logprobs", .help =
      "with JSON: log probabilities of each token and its K likeliest alternatives, 0 to 20 (none)" },
    { "--rng", NULL, "NAME", generate_set_rng, .help =
      "philox, or xorshift-llama2: llama2.c's generator and top-p, for its published texts only (philox)" },

    { NULL, "stopping", .help = "stopping" },
    { "--stop", NULL, "TEXT", generate_set_stop, .many = true, .help =
      "end in front of TEXT; up to 16 of them" },
    { "--stop-id", NULL, "ID", generate_set_stop_id, .many = true, .help = "end with this token; 1,2,3 and repeatable" },
    { "--ignore-eos", NULL, NULL, generate_set_field, .field = "ignore_eos", .help = "the end of text is a token like any other" },
    { "--deadline-ms", NULL, "MS", generate_set_field, .field = "deadline_ms", .help =
      "end what is not finished so long after its arrival (never)" },

    { NULL, "memory", .help = "KV memory" },
    { "--block-tokens", "--block-size", "N", generate_set_whole, AT(engine.block_tokens), NULL, 1, 2048, .help = "tokens per block (16)" },
    { "--kv-memory", NULL, "SIZE", generate_set_bytes, AT(kv_bytes), NULL, 1, 0, .help = "of the pool, as in 2GiB (256MiB)" },
    { "--kv-blocks", NULL, "N", generate_set_whole, AT(engine.n_blocks), NULL, 2, INT32_MAX, .help =
      "the same in blocks; one of them is the null block" },
    { "--swap-memory", NULL, "SIZE", generate_set_bytes, AT(swap_bytes), NULL, 0, 0, .help =
      "where preempted requests may wait with their KV (0)" },
    { "--kv-dtype", "--kv-cache-dtype", "TYPE", generate_set_kv_dtype, .help = "of K and V: f32, f16, bf16, e4m3, e5m2, int8 or int4 (f32)" },
    { "--no-prefix-cache", NULL, NULL, generate_set_flag, AT(engine.no_prefix_cache), .help =
      "compute every prompt, also where its beginning is in memory" },
    { "--placement", NULL, "NAME", generate_set_placement, .help =
      "paged, or one region per sequence: max, request, pow2; to compare with (paged)" },

    { NULL, "scheduling", .help = "scheduling" },
    { "--max-batch-tokens", "--max-num-batched-tokens", "N", generate_set_whole, AT(engine.max_batch_tokens), NULL, 1, 1 << 20, .help =
      "computed in one step (512)" },
    { "--max-seqs", "--max-num-seqs", "N", generate_set_whole, AT(engine.max_seqs), NULL, 1, 1 << 16, .help =
      "sequences at a time, samples and beams counted (64)" },
    { "--chunk", NULL, "N", generate_set_whole, AT(engine.chunk_tokens), NULL, 1, 1 << 20, .help = "of one prompt in one step (128)" },
    { "--max-context", "--max-model-len", "N", generate_set_whole, AT(engine.max_context), NULL, 2, INT32_MAX, .help =
      "longest prompt + output (the model's)" },
    { "--preempt", NULL, "HOW", generate_set_preempt, .help =
      "when blocks run out: auto, swap or recompute (auto: what costs less)" },
    { "--exact", NULL, NULL, generate_set_flag, AT(exact), .help =
      "results have the same bits whatever runs beside them (the default)" },
    { "--fast", NULL, NULL, generate_set_flag, AT(engine.fast), .help = "whatever is fastest, within bounds" },
    { "--threads", NULL, "N", generate_set_whole, AT(engine.n_threads), NULL, 1, 1024, .help = "of products and attention, the stepping one included (1)" },
    { "--isa", NULL, "LEVEL", generate_set_isa, .help = "not above " TOOL_LEVELS " (PKV_ISA, else best)" },

    { NULL, "output", .help = "output" },
    { "--stream", NULL, NULL, generate_set_flag, AT(stream), .help =
      "as it comes: text always is; with JSON a line per token" },
    { "--json", NULL, NULL, generate_set_flag, AT(json), .help =
      "one JSON document; with --requests, which implies it, one line per request in their order" },
    { "--output", "-o", "FILE", generate_set_text, AT(output), .help = "instead of stdout, which is -; appears whole or not at all" },
    { "--stats", NULL, NULL, generate_set_flag, AT(stats), .help = "delays, speeds, cache and memory as a table on stderr" },
    { "--stats-format", NULL, "FORMAT", generate_set_stats, .help = "of --stats, which it implies: table, json or prometheus (table)" },
    { "--peaks", NULL, "GBS,GFLOPS", generate_set_peaks, .help =
      "what this machine reaches, as pkv-bench model --filter prefill measures it (read, FMA loop): the table of --stats then says what bounds the run" },
    { "--progress", NULL, NULL, generate_set_flag, AT(progress), .help =
      "how far it is, on stderr, also where that is no terminal" },
};
/* clang-format on */
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))
_Static_assert(N_OPTIONS <= 128, "generate_options.given has a bit per row");

/* ---------------------------------------------------------------- help */

static const char requests_help[] =
    "\nrequests (--help requests)\n"
    "  Each line of --requests is an object. One of\n"
    "    prompt                a text, or a list of token ids\n"
    "    ids                   token ids as they are (prompt_token_ids, input_ids)\n"
    "  and, where it differs from the command line,\n"
    "    id                    anything; stands in the answer (custom_id)\n"
    "    max_tokens            (max_completion_tokens, max_new_tokens)\n"
    "    temperature top_k top_p min_p repeat_penalty presence_penalty frequency_penalty seed\n"
    "    n beams length_penalty early_stopping logprobs\n"
    "    stop                  a text or a list of texts\n"
    "    stop_ids              a list of token ids (stop_token_ids)\n"
    "    logit_bias            {\"403\": -5, \"407\": \"-inf\"}: added to logits; \"-inf\" "
    "forbids\n"
    "    ignore_eos special\n"
    "    arrival_ms            after the model is open (0)\n"
    "    deadline_ms           from its arrival on (never)\n"
    "  Other names of the same in parentheses. An unknown key is an error; null is no value.\n";

static const char examples[] =
    "\nexamples\n"
    "  pkv-generate -m stories260K -p 'Once upon a time' -n 100\n"
    "  pkv-generate -m model.gguf -f story.txt --temp 0.8 --top-p 0.95 --seed 1 --n 4\n"
    "  pkv-generate -m stories260K --ids 1,403 --beams 4 --n 2 --json\n"
    "  pkv-generate -m stories260K --requests requests.jsonl --max-seqs 16 --stats > "
    "answers.jsonl\n";

static void put_option(FILE *out, const generate_option *o)
{
    const int left = 36, width = 100;
    const bool letter = o->alias && o->alias[1] != '-'; /* -m goes first, a longer name last */
    const char *first = letter ? o->alias : o->name, *second = letter ? o->name : o->alias;
    const int len = fprintf(out, "  %s%s%s%s%s", first, second ? ", " : "", second ? second : "",
                            o->value ? " " : "", o->value ? o->value : "");
    if (len < left) fprintf(out, "%*s", left - len, "");
    else fprintf(out, "\n%*s", left, "");
    tool_put_wrapped(out, o->help, left, left, width);
}

bool generate_help(FILE *out, const char *group)
{
    if (*group == '\0') group = NULL;
    bool in_group = false, found = false;
    if (!group)
        fprintf(out, "Usage: pkv-generate -m MODEL (-p TEXT | -f FILE | --ids 1,2,3 | --requests "
                     "FILE) [options]\n"
                     "Continue texts with a model of the reference transformer. Defaults in "
                     "parentheses.\n");
    for (size_t k = 0; k < N_OPTIONS; k++) {
        const generate_option *o = &options[k];
        if (!o->name) {
            in_group = !group || strcmp(group, o->alias) == 0;
            found |= in_group;
            if (in_group) fprintf(out, "%s%s\n", group ? "" : "\n", o->help);
        } else if (in_group) {
            put_option(out, o);
        }
    }
    if (group && strcmp(group, "requests") == 0) {
        fputs(requests_help + 1, out);
        return true;
    }
    if (group) return found;
    fprintf(out, "%s%s\n  %-34s%s\n  %-34s%s\n", requests_help, examples, "--help [GROUP]",
            "this text, or one part of it", "--version", "of the library");
    fputs("\nExit status: 0 done; 2 usage; 3 bad model or tokenizer file; 4 a request that can "
          "never fit;\n5 input, output, memory or device; 130 interrupted.\n",
          out);
    return true;
}

void generate_help_groups(FILE *out)
{
    for (size_t k = 0; k < N_OPTIONS; k++)
        if (!options[k].name) fprintf(out, "%s, ", options[k].alias);
    fputs("requests", out);
}

/* ---------------------------------------------------------------- parsing */

static bool is_name(const generate_option *o, const char *arg, size_t len)
{
    return o->name && ((strlen(o->name) == len && memcmp(o->name, arg, len) == 0) ||
                       (o->alias && strlen(o->alias) == len && memcmp(o->alias, arg, len) == 0));
}

bool generate_given(const generate_options *o, const char *name)
{
    for (size_t k = 0; k < N_OPTIONS; k++)
        if (is_name(&options[k], name, strlen(name)))
            return (o->given[k / 64] >> (k % 64) & 1) != 0;
    return false;
}

static const char *option_name(int k)
{
    for (size_t r = 0; r < N_OPTIONS; r++) {
        if (options[r].name && k-- == 0) return options[r].name;
        if (options[r].name && options[r].alias && k-- == 0) return options[r].alias;
    }
    return NULL;
}

static bool unknown(const char *arg, size_t len)
{
    char name[40];
    snprintf(name, sizeof(name), "%.*s", (int)(len < 39 ? len : 39), arg);
    if (arg[0] != '-')
        return generate_complain("'%.64s': not an option; a prompt is given with -p", arg);
    const char *near = len > 2 ? generate_nearest(name, option_name) : NULL;
    if (near)
        return generate_complain("%s: unknown option; did you mean %s? see pkv-generate --help",
                                 name, near);
    return generate_complain("%s: unknown option; see pkv-generate --help", name);
}

/* One option, with its value from "=" or from the next argument. */
static bool take_option(int argc, char **argv, int *k, generate_options *out)
{
    const char *arg = argv[*k];
    const size_t len = strcspn(arg, "=");
    const generate_option *row = NULL;
    for (size_t r = 0; r < N_OPTIONS && !row; r++)
        if (is_name(&options[r], arg, len)) row = &options[r];
    if (!row) return unknown(arg, len);
    const size_t bit = (size_t)(row - options);
    if ((out->given[bit / 64] >> (bit % 64) & 1) && !row->many)
        return generate_complain("%s: given twice", row->name);
    out->given[bit / 64] |= UINT64_C(1) << (bit % 64);
    if (!row->value && arg[len] == '=') return generate_complain("%s takes no value", row->name);
    if (!row->value) return row->set(out, row, NULL);
    if (arg[len] == '\0' && *k + 1 >= argc)
        return generate_complain("%s: a value is missing (%s)", row->name, row->value);
    return row->set(out, row, arg[len] == '=' ? arg + len + 1 : argv[++*k]);
}

/* Each sequence needs a token in a step: of two limits the one that was not given follows. */
static void settle_batch(pkv_engine_config *e)
{
    if (e->max_seqs == 0 && e->max_batch_tokens > 0 && e->max_batch_tokens < 64)
        e->max_seqs = e->max_batch_tokens;
    if (e->max_batch_tokens == 0 && e->max_seqs > 512) e->max_batch_tokens = e->max_seqs;
}

bool generate_options_parse(int argc, char **argv, generate_options *out)
{
    *out = (generate_options){
        .base = { .req = PKV_REQUEST_INIT },
        .engine = PKV_ENGINE_CONFIG_INIT,
        .weights = PKV_F32,
    };
    out->base.req.max_new = 128;
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0) {
            out->help = k + 1 < argc && argv[k + 1][0] != '-' ? argv[k + 1] : "";
            return true;
        }
        if (!take_option(argc, argv, &k, out)) return false;
    }
    const generate_option env = { .name = "PKV_ISA" };
    const char *level = getenv("PKV_ISA");
    if (!out->isa_by && level && *level && !generate_set_isa(out, &env, level)) return false;
    settle_batch(&out->engine);
    return generate_options_check(out);
}

void generate_options_free(generate_options *o)
{
    generate_request_free(&o->base);
}
