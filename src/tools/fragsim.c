/* pkv-fragsim: how much of a KV-cache memory is filled with tokens that somebody will read, under
 * which allocator, for which traffic? */
#include "fragsim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

bool fragsim_complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("pkv-fragsim: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

void fragsim_note(fragsim_report *report, const char *fmt, ...)
{
    if (report->n_notes >= FRAGSIM_MAX_NOTES) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(report->notes[report->n_notes++], FRAGSIM_NOTE_BYTES, fmt, args);
    va_end(args);
}

/* ---------------------------------------------------------------- progress */

typedef struct progress {
    const char *policy;
    int number, of;
    double shown_at; /* seconds; for the eye only, nothing else looks at a clock */
} progress;

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show_progress(void *ctx, int64_t n_done, int64_t n_total)
{
    progress *p = ctx;
    const double now = clock_s();
    if (now - p->shown_at < 0.2) return;
    p->shown_at = now;
    fprintf(stderr, "\r\x1b[K%d/%d %s: %lld of %lld requests", p->number, p->of, p->policy,
            (long long)n_done, (long long)n_total);
}

/* ---------------------------------------------------------------- run */

static void log_complaint(void *ctx, pkv_log_level level, const char *text)
{
    if (level == PKV_LOG_ERROR) fragsim_complain("%s: %s", (const char *)ctx, text);
}

static pkv_status simulate(fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    progress p = { .of = opts->n_policies, .shown_at = clock_s() };
    const bool show = isatty(STDERR_FILENO) && !opts->quiet;
    pkv_status status = PKV_OK;
    for (int k = 0; k < opts->n_policies && status == PKV_OK; k++) {
        pkv_sim_config cfg = opts->sim;
        cfg.policy = opts->policies[k];
        pkv_sim_policy_name(&cfg.policy, rep->names[k]);
        cfg.log = (pkv_logger){ log_complaint, rep->names[k] };
        p.policy = rep->names[k];
        p.number = k + 1;
        if (show) {
            cfg.progress = show_progress;
            cfg.progress_ctx = &p;
        }
        rep->results[k] = (pkv_sim_result)PKV_SIM_RESULT_INIT;
        status = pkv_sim_run(&cfg, rep->input->reqs, rep->input->n, &rep->results[k]);
        if (status != PKV_OK) fragsim_complain("%s: %s", rep->names[k], pkv_status_text(status));
    }
    if (show) fputs("\r\x1b[K", stderr);
    return status;
}

/* A buddy chunk for max_model_len that wastes more than a fifth. */
static void note_rounding(fragsim_report *rep)
{
    int64_t chunk = 1;
    const int64_t limit = rep->opts->sim.max_model_len;
    while (chunk < limit) chunk *= 2;
    if (5 * chunk <= 6 * limit) return;
    for (int k = 0; k < rep->opts->n_policies; k++) {
        const pkv_sim_policy *p = &rep->opts->policies[k];
        if (p->kind != PKV_SIM_MAX || p->addr != PKV_SIM_ADDR_BUDDY) continue;
        fragsim_note(rep,
                     "max: a buddy chunk for --max-model-len %lld has %lld slots, %.2f times "
                     "as many; max:alloc=ideal does not round",
                     (long long)limit, (long long)chunk, (double)chunk / (double)limit);
        return;
    }
}

static void note_results(fragsim_report *rep)
{
    int64_t waited_ns = 0;
    note_rounding(rep);
    for (int k = 0; k < rep->opts->n_policies; k++) {
        const pkv_sim_result *r = &rep->results[k];
        waited_ns += r->waited_ns;
        if (r->n_too_long > 0)
            fragsim_note(rep,
                         "%s: %lld of %lld requests are too long and were rejected, the first is "
                         "number %lld",
                         rep->names[k], (long long)r->n_too_long, (long long)r->n_requests,
                         (long long)r->first_too_long + 1);
    }
    if (waited_ns == 0)
        fragsim_note(rep, "no pressure: nobody waits in the window, so policies tie in batch and "
                          "latency; a smaller pool or a higher rate shows differences");
}

static int terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 80;
    return size.ws_col >= 120 ? 120 : 80;
}

/* The JSON file first: if it cannot be written, nothing is printed. */
static bool write_report(const fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    if (opts->json_path) {
        char *json = fragsim_json(rep);
        if (!json) return fragsim_complain("out of memory for the JSON report");
        const size_t len = strlen(json);
        char *text = realloc(json, len + 2);
        if (text) memcpy(text + len, "\n", 2);
        const bool ok = text && fragsim_write_whole(opts->json_path, text);
        free(text ? text : json);
        if (!ok) return false;
        if (strcmp(opts->json_path, "-") == 0) return true;
    }
    if (opts->quiet) return true;
    const char *no_colour = getenv("NO_COLOR");
    const bool colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
    fragsim_print_report(stdout, rep, opts->width ? opts->width : terminal_width(), colour);
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    return fragsim_complain("stdout: writing failed: %s", strerror(errno));
}

static int run_loaded(fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    pkv_sim_config cfg = opts->sim;
    for (int k = 0; k < opts->n_policies; k++)
        if (opts->policies[k].kind == PKV_SIM_PAGED) cfg.policy = opts->policies[k];
    rep->forms = (pkv_sim_forms)PKV_SIM_FORMS_INIT;
    const pkv_status forms =
        pkv_sim_closed_forms(&cfg, rep->input->reqs, rep->input->n, &rep->forms);
    const pkv_status status = forms == PKV_OK ? simulate(rep) : forms;
    if (status == PKV_E_CORRUPT) return FRAGSIM_NOTHING_DONE;
    if (status != PKV_OK) return FRAGSIM_ERROR;
    note_results(rep);
    if (!write_report(rep)) return FRAGSIM_ERROR;
    int64_t n_finished = 0;
    for (int k = 0; k < opts->n_policies; k++) n_finished += rep->results[k].n_finished;
    if (n_finished > 0) return FRAGSIM_OK;
    fragsim_complain("no request finished under any policy; see --max-model-len and --kv-tokens");
    return FRAGSIM_NOTHING_DONE;
}

static int inspect_loaded(const fragsim_report *rep)
{
    fragsim_print_input(stdout, rep->input, rep->opts);
    const pkv_sim_config longest = { .struct_size = sizeof(longest),
                                     .policy = PKV_SIM_POLICY_INIT,
                                     .pool_tokens = INT32_MAX,
                                     .max_model_len = 1 << 30,
                                     .max_num_seqs = 1,
                                     .step_base_ns = 1,
                                     .kv_bytes_per_token = 1,
                                     .tensor_token_bytes = 1 };
    pkv_sim_forms forms = PKV_SIM_FORMS_INIT;
    if (pkv_sim_closed_forms(&longest, rep->input->reqs, rep->input->n, &forms) == PKV_OK)
        fprintf(stdout, "           E[out^2]/E[out] %.1f\n", forms.output_bias);
    for (int k = 0; k < rep->n_notes; k++) fprintf(stdout, "note: %s\n", rep->notes[k]);
    if (fflush(stdout) == 0 && !ferror(stdout)) return FRAGSIM_OK;
    fragsim_complain("stdout: writing failed: %s", strerror(errno));
    return FRAGSIM_ERROR;
}

static int run_command(int argc, char **argv)
{
    fragsim_options opts;
    if (!fragsim_options_parse(argc, argv, &opts)) return FRAGSIM_ERROR;
    fragsim_input input;
    fragsim_report *rep = calloc(1, sizeof(*rep));
    int code = FRAGSIM_ERROR;
    if (!rep) {
        fragsim_complain("out of memory");
        fragsim_options_free(&opts);
        return code;
    }
    rep->opts = &opts;
    rep->input = &input;
    if (fragsim_input_load(&opts, rep, &input))
        code = strcmp(opts.command, "inspect") == 0 ? inspect_loaded(rep) : run_loaded(rep);
    fragsim_input_free(&input);
    fragsim_options_free(&opts);
    free(rep);
    return code;
}

static void usage(void)
{
    fputs("pkv-fragsim run [options]        replay requests against allocation policies\n"
          "pkv-fragsim inspect TRACE        what a trace contains\n"
          "pkv-fragsim run|inspect --help   every option with its default\n"
          "pkv-fragsim --version\n",
          stdout);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        usage();
        return FRAGSIM_OK;
    }
    if (strcmp(command, "--version") == 0) {
        printf("pkv-fragsim %s\n", pkv_version());
        return FRAGSIM_OK;
    }
    if (strcmp(command, "run") != 0 && strcmp(command, "inspect") != 0) {
        if (argc > 1)
            fragsim_complain("'%s' is not a command; run or inspect, see pkv-fragsim --help",
                             command);
        else fragsim_complain("a command is missing; run or inspect, see pkv-fragsim --help");
        return FRAGSIM_ERROR;
    }
    for (int k = 2; k < argc; k++) {
        if (strcmp(argv[k], "--help") != 0 && strcmp(argv[k], "-h") != 0) continue;
        fragsim_help(stdout, command);
        return FRAGSIM_OK;
    }
    return run_command(argc, argv);
}
