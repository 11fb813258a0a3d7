/* Where the requests of a run come from: a trace or the generator; and the rules of what may be
 * combined that only the trace can decide. */
#include "fragsim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What the library says while it reads: the error is shown at once, warnings become notes. */
typedef struct listener {
    const char *path;
    fragsim_report *report;
    FILE *file;
    int read_errno; /* of the read that failed; 0: none did */
} listener;

static void listen_to(void *ctx, pkv_log_level level, const char *text)
{
    const listener *l = ctx;
    if (level == PKV_LOG_ERROR && l->read_errno != 0)
        fragsim_complain("%s: %s: %s; give a readable CSV file, or - for stdin", l->path, text,
                         strerror(l->read_errno));
    else if (level == PKV_LOG_ERROR) fragsim_complain("%s: %s", l->path, text);
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

static bool read_trace(const fragsim_options *o, fragsim_report *report, fragsim_input *out)
{
    const bool standard = strcmp(o->trace_path, "-") == 0;
    FILE *file = standard ? stdin : fopen(o->trace_path, "rb");
    if (!file) return fragsim_complain("%s: cannot be opened: %s", o->trace_path, strerror(errno));
    listener l = { standard ? "stdin" : o->trace_path, report, file, 0 };
    pkv_sim_trace_config cfg = o->trace;
    if (o->num_prompts >= 0) cfg.max_requests = o->num_prompts;
    cfg.log = (pkv_logger){ listen_to, &l };
    out->trace = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    const pkv_status status = pkv_sim_trace_read(read_stream, &l, &cfg, &out->trace);
    if (!standard) fclose(file);
    if (status == PKV_E_NO_MEMORY) fragsim_complain("%s: out of memory", l.path);
    if (status != PKV_OK) return false;
    out->reqs = out->trace.reqs;
    out->n = out->trace.n_reqs;
    return true;
}

static bool stretch(pkv_sim_trace *t, int64_t target_rate_micro)
{
    if (t->n_reqs < 2 || t->span_ns == 0)
        return fragsim_complain("--target-rate: all requests of the trace arrive at one time");
    /* n - 1 gaps at the target rate */
    const double span = (double)(t->n_reqs - 1) * 1e15 / (double)target_rate_micro;
    if (span >= 0x1p61)
        return fragsim_complain("--target-rate: so low that the run takes 70 years");
    __extension__ typedef __int128 wide;
    const int64_t wanted = (int64_t)(span + 0.5);
    for (int64_t r = 0; r < t->n_reqs; r++)
        t->reqs[r].arrival_ns = (int64_t)((wide)t->reqs[r].arrival_ns * wanted / t->span_ns);
    return true;
}

/* Arrivals of a trace: as they are, stretched, drawn or all at once. */
static bool arrange_arrivals(const fragsim_options *o, fragsim_input *in)
{
    pkv_sim_trace *t = &in->trace;
    const char *path = o->trace_path;
    const bool drawn = o->arrivals.rate_micro > 0;
    if (o->seed_given && !drawn)
        return fragsim_complain("--seed: nothing is drawn when a trace is replayed; leave it out");
    if (t->has_times && o->arrivals.rate_micro >= 0)
        return fragsim_complain("%s: the trace has times, --request-rate would overwrite them; use "
                                "--target-rate to stretch them, or --all-at-once",
                                path);
    if (o->target_rate_micro >= 0) {
        if (!t->has_times)
            return fragsim_complain("%s: --target-rate needs times, this trace has none; use "
                                    "--request-rate",
                                    path);
        return stretch(t, o->target_rate_micro);
    }
    if (!t->has_times && o->arrivals.rate_micro < 0 && !o->all_at_once)
        return fragsim_complain(
            "%s: the trace has no times; give --request-rate R or --all-at-once", path);
    if (o->all_at_once)
        for (int64_t r = 0; r < in->n; r++) in->reqs[r].arrival_ns = 0;
    if (!drawn) return true;
    return pkv_sim_arrivals(&o->arrivals, in->reqs, in->n) == PKV_OK ||
           fragsim_complain("--request-rate: so low that the arrivals take 70 years and more");
}

static bool load_trace(const fragsim_options *o, fragsim_report *report, fragsim_input *out)
{
    out->from_trace = true;
    if (!read_trace(o, report, out)) return false;
    if (o->num_prompts >= 0 && out->n < o->num_prompts)
        return fragsim_complain("%s: %lld requests wanted, %lld usable rows there; lower "
                                "--num-prompts",
                                o->trace_path, (long long)o->num_prompts, (long long)out->n);
    if (o->trace.duration_ns > 0 && !out->trace.has_times)
        return fragsim_complain("%s: --duration needs times, this trace has none", o->trace_path);
    return o->command == FRAGSIM_INSPECT || arrange_arrivals(o, out);
}

static void gen_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fragsim_complain("--lengths: %s", text);
}

static bool draw(const fragsim_options *o, fragsim_input *out)
{
    out->from_generator = true;
    out->n = o->num_prompts >= 0 ? o->num_prompts : FRAGSIM_USUAL_PROMPTS;
    out->reqs = malloc((size_t)out->n * sizeof(*out->reqs));
    if (!out->reqs) return fragsim_complain("out of memory for %lld requests", (long long)out->n);
    const int64_t rate_micro = o->all_at_once                ? 0
                               : o->arrivals.rate_micro >= 0 ? o->arrivals.rate_micro
                                                             : FRAGSIM_USUAL_RATE_MICRO;
    const pkv_logger log = { gen_log, NULL };
    return pkv_sim_draw(o->lengths_text ? o->lengths_text : "sharegpt-like", o->arrivals.seed,
                        rate_micro, &log, out->reqs, out->n) == PKV_OK;
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
    const bool ok = opts->trace_path ? load_trace(opts, report, out) : draw(opts, out);
    return ok && describe(out);
}

void fragsim_input_free(fragsim_input *input)
{
    if (input->from_generator) free(input->reqs);
    pkv_sim_trace_free(&input->trace);
}
