/* Where the requests of a run come from: a trace, rows of a file of lengths, or the generator; and
 * the rules of what may be combined that only the file can decide. */
#include "fragsim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide;

/* What the library says while it reads: the error is shown at once, warnings become notes. */
typedef struct listener {
    const char *path;
    fragsim_report *report;
    FILE *file;
    int read_errno; /* of the read that failed; 0: none did */
} listener;

/* The library names what its caller sets; here those are options. */
static void complain_of_file(const char *path, const char *text)
{
    static const struct {
        const char *field, *option;
    } names[] = {
        { "(hash_block_tokens)", "(--hash-block-size)" },
        { "without strict", "without --strict" },
        { "name the input and output column", "name the input and output column: --columns" },
        { "name the input and output key", "name the input and output key: --columns" },
    };
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        const char *at = strstr(text, names[k].field);
        if (!at) continue;
        fragsim_complain("%s: %.*s%s%s", path, (int)(at - text), text, names[k].option,
                         at + strlen(names[k].field));
        return;
    }
    fragsim_complain("%s: %s", path, text);
}

static void listen_to(void *ctx, pkv_log_level level, const char *text)
{
    const listener *l = ctx;
    if (level == PKV_LOG_ERROR && l->read_errno != 0)
        fragsim_complain("%s: %s: %s; give a readable file, or - for stdin", l->path, text,
                         strerror(l->read_errno));
    else if (level == PKV_LOG_ERROR) complain_of_file(l->path, text);
    else fragsim_note(l->report, "%s: %s", l->path, text);
}

static int64_t read_stream(void *ctx, void *buf, size_t cap)
{
    listener *l = ctx;
    const size_t n = fread(buf, 1, cap, l->file);
    if (n > 0 || !ferror(l->file)) return (int64_t)n;
    l->read_errno = errno;
    return -1;
}

static bool read_file(const fragsim_options *o, const char *path, int64_t max_requests,
                      fragsim_report *report, pkv_sim_trace *out)
{
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) return fragsim_complain("%s: cannot be opened: %s", path, strerror(errno));
    listener l = { standard ? "stdin" : path, report, file, 0 };
    pkv_sim_trace_config cfg = o->trace;
    if (max_requests > 0) cfg.max_requests = max_requests;
    cfg.log = (pkv_logger){ listen_to, &l };
    *out = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    const pkv_status status = pkv_sim_trace_read(read_stream, &l, &cfg, out);
    if (!standard) fclose(file);
    if (status == PKV_E_NO_MEMORY) fragsim_complain("%s: out of memory", l.path);
    if (status != PKV_OK) return false;
    if ((cfg.duration_ns > 0 || cfg.start_ns > 0) && !out->has_times)
        return fragsim_complain("%s: %s needs times, this trace has none", path,
                                cfg.duration_ns > 0 ? "--duration" : "--start");
    if (cfg.time_unit_ns > 0 && out->time_unit_ns == 0)
        return fragsim_complain("%s: --time-unit has no use: %s", path,
                                out->has_times ? "the times are dates" : "there are no times");
    if (cfg.hash_block_tokens > 0 && !out->content.ids)
        return fragsim_complain("%s: --hash-block-size has no use: there are no content ids", path);
    return true;
}

/* ---------------------------------------------------------------- arrivals */

/* Times of the trace times numerator / denominator. */
static bool stretch(pkv_sim_trace *t, int64_t numerator, int64_t denominator, const char *option)
{
    const wide last = (wide)t->span_ns * numerator / denominator;
    if (last >= INT64_C(1) << 61)
        return fragsim_complain("%s: the run would take 70 years", option);
    for (int64_t r = 0; r < t->n_reqs; r++)
        t->reqs[r].arrival_ns = (int64_t)((wide)t->reqs[r].arrival_ns * numerator / denominator);
    return true;
}

/* To n - 1 gaps at the target rate. */
static bool stretch_to_rate(pkv_sim_trace *t, int64_t target_rate_micro)
{
    if (t->n_reqs < 2 || t->span_ns == 0)
        return fragsim_complain("--target-rate: all requests of the trace arrive at one time");
    const double span = (double)(t->n_reqs - 1) * 1e15 / (double)target_rate_micro;
    if (span >= 0x1p61)
        return fragsim_complain("--target-rate: so low that the run takes 70 years");
    return stretch(t, (int64_t)(span + 0.5), t->span_ns, "--target-rate");
}

static bool draw_arrivals(const fragsim_options *o, fragsim_input *in)
{
    if (pkv_sim_arrivals(&o->arrivals, in->reqs, in->n) == PKV_OK) return true;
    return fragsim_complain("--request-rate: so low that the arrivals take 70 years and more");
}

/* Arrivals of the rows of a trace: as they are, stretched, to be drawn, all at once or a client's.
 */
static bool arrange_arrivals(const fragsim_options *o, fragsim_input *in)
{
    pkv_sim_trace *t = &in->trace;
    const char *path = o->trace_path;
    const bool ignored = o->all_at_once || o->sim.concurrency > 0;
    if (t->has_times && o->arrivals.rate_micro >= 0)
        return fragsim_complain("%s: the trace has times, --request-rate would overwrite them; use "
                                "--target-rate to stretch them, or --all-at-once",
                                path);
    if (!t->has_times && (o->target_rate_micro >= 0 || o->time_scale_micro >= 0))
        return fragsim_complain("%s: %s needs times, this trace has none; use --request-rate", path,
                                o->target_rate_micro >= 0 ? "--target-rate" : "--time-scale");
    if (!t->has_times && o->arrivals.rate_micro < 0 && !ignored)
        return fragsim_complain(
            "%s: the trace has no times; give --request-rate R, --concurrency N "
            "or --all-at-once",
            path);
    if (ignored)
        for (int64_t r = 0; r < in->n; r++) in->reqs[r].arrival_ns = 0;
    if (o->target_rate_micro >= 0) return stretch_to_rate(t, o->target_rate_micro);
    if (o->time_scale_micro >= 0) return stretch(t, o->time_scale_micro, 1000000, "--time-scale");
    return true;
}

/* ---------------------------------------------------------------- rows again */

/* The lists of content once more for each repetition; ids are the same. */
static bool repeat_content(fragsim_input *in, int64_t n_rows)
{
    const pkv_sim_content *from = &in->trace.content;
    if (!from->ids) return true;
    const size_t n = (size_t)in->n;
    int64_t *first = malloc(n * (sizeof(*first) + sizeof(int32_t)));
    if (!first) return fragsim_complain("out of memory for %lld requests", (long long)in->n);
    int32_t *n_ids = (int32_t *)(first + n);
    for (int64_t r = 0; r < in->n; r++) {
        first[r] = from->first[r % n_rows];
        n_ids[r] = from->n_ids[r % n_rows];
    }
    in->own_content = first;
    in->content.first = first;
    in->content.n_ids = n_ids;
    return true;
}

/* Rows in order until there are n; the next pass begins a mean gap after the last one. */
static bool repeat_rows(const fragsim_options *o, fragsim_input *in, int64_t n)
{
    const int64_t n_rows = in->n;
    const pkv_sim_request *rows = in->reqs;
    pkv_sim_request *reqs = malloc((size_t)n * sizeof(*reqs));
    if (!reqs) return fragsim_complain("out of memory for %lld requests", (long long)n);
    const int64_t span = rows[n_rows - 1].arrival_ns;
    const int64_t period = n_rows > 1 ? span + span / (n_rows - 1) : 0;
    in->reqs = reqs;
    in->from_generator = true;
    in->n = n;
    if ((wide)period * (n / n_rows + 1) >= INT64_C(1) << 61)
        return fragsim_complain("%s: repeated so often the run would take 70 years", o->trace_path);
    for (int64_t r = 0; r < n; r++) {
        reqs[r] = rows[r % n_rows];
        reqs[r].arrival_ns += r / n_rows * period;
    }
    return repeat_content(in, n_rows);
}

static bool load_trace(const fragsim_options *o, fragsim_report *report, fragsim_input *out)
{
    out->from_trace = true;
    const int64_t most = o->trace.max_requests > 0 ? o->trace.max_requests : o->num_prompts;
    if (!read_file(o, o->trace_path, most, report, &out->trace)) return false;
    out->reqs = out->trace.reqs;
    out->n = out->trace.n_reqs;
    out->content = out->trace.content;
    if (o->num_prompts > out->n && !o->repeat)
        return fragsim_complain("%s: %lld requests wanted, %lld usable rows there; lower "
                                "--num-prompts%s",
                                o->trace_path, (long long)o->num_prompts, (long long)out->n,
                                o->command == FRAGSIM_INSPECT ? "" : ", or --repeat");
    if (o->command == FRAGSIM_INSPECT || o->command == FRAGSIM_CAPACITY) return true;
    if (!arrange_arrivals(o, out)) return false;
    if (o->num_prompts > out->n && !repeat_rows(o, out, o->num_prompts)) return false;
    /* after the repetition: each pass has arrivals of its own */
    return o->arrivals.rate_micro < 0 || draw_arrivals(o, out);
}

/* ---------------------------------------------------------------- drawn */

static void gen_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fragsim_complain("--lengths: %s", text);
}

static bool draw_lengths(const fragsim_options *o, fragsim_input *out)
{
    pkv_sim_lengths law;
    const pkv_logger log = { gen_log, NULL };
    const char *text = o->lengths_text ? o->lengths_text : "sharegpt-like";
    return pkv_sim_lengths_parse(text, &log, &law) == PKV_OK &&
           pkv_sim_generate(&law, o->arrivals.seed, &log, out->reqs, out->n) == PKV_OK;
}

static bool take_lengths(const fragsim_options *o, fragsim_input *out)
{
    const pkv_sim_trace *t = &out->trace;
    if (!o->lengths_in_order)
        return pkv_sim_resample(t->reqs, t->n_reqs, o->arrivals.seed, out->reqs, out->n) == PKV_OK;
    for (int64_t r = 0; r < out->n; r++) {
        out->reqs[r].prompt_tokens = t->reqs[r % t->n_reqs].prompt_tokens;
        out->reqs[r].output_tokens = t->reqs[r % t->n_reqs].output_tokens;
    }
    return true;
}

/* How many requests there will be; 0: it has complained. */
static int64_t number_to_draw(const fragsim_options *o, const fragsim_input *in)
{
    if (!o->lengths_in_order) return o->num_prompts >= 0 ? o->num_prompts : FRAGSIM_USUAL_PROMPTS;
    if (o->num_prompts <= in->trace.n_reqs || o->repeat)
        return o->num_prompts >= 0 ? o->num_prompts : in->trace.n_reqs;
    fragsim_complain("%s: %lld requests wanted, %lld usable rows there; lower --num-prompts, or "
                     "--repeat",
                     o->lengths_path, (long long)o->num_prompts, (long long)in->trace.n_reqs);
    return 0;
}

static bool draw(const fragsim_options *o, fragsim_report *report, fragsim_input *out)
{
    if (o->lengths_path && !read_file(o, o->lengths_path, 0, report, &out->trace)) return false;
    out->n = number_to_draw(o, out);
    if (out->n == 0) return false;
    out->from_generator = true;
    out->from_trace = o->lengths_path != NULL;
    out->reqs = calloc((size_t)out->n, sizeof(*out->reqs));
    if (!out->reqs) return fragsim_complain("out of memory for %lld requests", (long long)out->n);
    if (!(o->lengths_path ? take_lengths(o, out) : draw_lengths(o, out))) return false;
    if (o->all_at_once || o->sim.concurrency > 0 || o->command == FRAGSIM_CAPACITY) return true;
    fragsim_options usual = *o;
    if (usual.arrivals.rate_micro < 0) usual.arrivals.rate_micro = FRAGSIM_USUAL_RATE_MICRO;
    return draw_arrivals(&usual, out);
}

/* ---------------------------------------------------------------- what all begin with */

/* Every prompt begins with the same tokens: token k has id k. */
static bool share_prefix(const fragsim_options *o, fragsim_input *in)
{
    if (o->shared_prefix < 0) return true;
    if (in->content.ids)
        return fragsim_complain("--shared-prefix: the trace has content ids of its own; leave it "
                                "out");
    const size_t n = (size_t)in->n, n_prefix = (size_t)o->shared_prefix;
    int64_t *first = calloc(n, sizeof(*first) + sizeof(int32_t));
    int32_t *ids = malloc(n_prefix * sizeof(*ids));
    in->own_content = first;
    in->own_ids = ids;
    if (!first || !ids) return fragsim_complain("out of memory for --shared-prefix");
    int32_t *n_ids = (int32_t *)(first + n);
    for (size_t k = 0; k < n_prefix; k++) ids[k] = (int32_t)k;
    for (int64_t r = 0; r < in->n; r++)
        n_ids[r] = in->reqs[r].prompt_tokens < o->shared_prefix ? in->reqs[r].prompt_tokens
                                                                : o->shared_prefix;
    in->content = (pkv_sim_content){ 1, o->shared_prefix, first, n_ids, ids };
    return true;
}

static bool describe(fragsim_input *in)
{
    double *values = malloc((size_t)in->n * sizeof(*values));
    if (!values) return fragsim_complain("out of memory");
    for (int64_t r = 0; r < in->n; r++) values[r] = in->reqs[r].prompt_tokens;
    pkv_sim_dist_of(values, in->n, false, &in->prompt);
    for (int64_t r = 0; r < in->n; r++) values[r] = in->reqs[r].output_tokens;
    pkv_sim_dist_of(values, in->n, false, &in->output);
    free(values);
    return true;
}

bool fragsim_input_load(const fragsim_options *opts, fragsim_report *report, fragsim_input *out)
{
    *out = (fragsim_input){ .trace = PKV_SIM_TRACE_INIT };
    const bool ok = opts->trace_path ? load_trace(opts, report, out) : draw(opts, report, out);
    if (!ok || !share_prefix(opts, out)) return false;
    if (opts->command == FRAGSIM_INSPECT && opts->block_tokens >= 0 && !out->content.ids)
        return fragsim_complain("%s: --block-tokens has no use: there are no content ids",
                                opts->trace_path);
    return describe(out);
}

void fragsim_input_free(fragsim_input *input)
{
    if (input->from_generator) free(input->reqs);
    free(input->own_content);
    free(input->own_ids);
    pkv_sim_trace_free(&input->trace);
}
