/* From options to report and files. */
#include "bench_session.h"

#include "attention_case.h"
#include "bandwidth.h"
#include "outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* quick promises to stay below 1.5 GiB and 60 s. */
#define QUICK_MEMORY ((size_t)1400 << 20)
#define QUICK_S 60
#define CI_MEMORY ((size_t)512 << 20)
#define CI_S 60
/* Of a time limit, what cases may plan with, and of a case's share, what may be timing. A kernel
 * case of quick takes several times the average, so the bound is far above what a quiet machine
 * needs. */
#define USABLE 0.9
#define TIMED_SHARE 2.0
#define KERNELS_SHARE 0.75
#define SETUP_S 4.0 /* of a full case: filling memory three times and the reference */
#define LEAST_MEMORY ((size_t)8 << 20)
/* Of the read buffer in ci, where shares of bandwidth are not the point. */
#define CI_BUFFER ((size_t)64 << 20)

static bool resolve_memory(struct bench_run *run, struct bench_error *err)
{
    const struct bench_options *o = run->options;
    const size_t quarter = (size_t)run->report.machine.available_bytes / 4;
    run->max_memory = o->max_memory ? o->max_memory : quarter;
    if (o->profile == PROFILE_QUICK && !o->has_batch && run->max_memory > QUICK_MEMORY)
        run->max_memory = QUICK_MEMORY;
    if (o->profile == PROFILE_CI && run->max_memory > CI_MEMORY) run->max_memory = CI_MEMORY;
    return run->max_memory >= LEAST_MEMORY || bench_command_untimed(o->command) ||
           bench_fail(err, BENCH_USAGE, "--max-memory must be at least 8M");
}

/* The level of the run has to be there; so have the threads. */
static bool make_engines(struct bench_run *run, struct bench_error *err)
{
    const struct bench_options *o = run->options;
    struct bench_error reason = { BENCH_OK, "" };
    if (!bench_engines_team(&run->engines, run->threads, err)) return false;
    if (bench_engines_backend(&run->engines, o->isa, run->threads, &reason)) return true;
    if (reason.code == BENCH_SKIP && o->isa_from)
        return bench_fail(err, BENCH_USAGE, "%s asks for %s, but the highest level here is %s: %s",
                          o->isa_from, pkv_isa_name(o->isa), pkv_isa_name(pkv_isa_detect()),
                          reason.text);
    return bench_fail(err, BENCH_USAGE, "no backend: %s", reason.text);
}

static bool measure_bandwidth(struct bench_run *run, struct bench_error *err)
{
    struct machine_info *m = &run->report.machine;
    struct bandwidth_opts opts;
    const size_t beyond_cache = 4 * (size_t)m->llc_bytes;
    memset(&opts, 0, sizeof(opts));
    opts.ceiling = run->options->isa;
    opts.team = bench_engines_team(&run->engines, run->threads, err);
    if (!opts.team) return false;
    opts.buffer_bytes = beyond_cache > ((size_t)256 << 20) ? beyond_cache : (size_t)256 << 20;
    opts.max_bytes = run->max_memory;
    if (run->options->profile == PROFILE_CI && opts.max_bytes > CI_BUFFER)
        opts.max_bytes = CI_BUFFER;
    opts.huge_pages = run->options->huge_pages;
    opts.curve = run->options->profile != PROFILE_CI;
    return bandwidth_probe(&run->clock, &opts, m, err);
}

static void begin_report(struct bench_run *run)
{
    struct bench_report *r = &run->report;
    const struct bench_options *o = run->options;
    const time_t now = time(NULL);
    struct tm utc;
    machine_read(&r->machine);
    if (o->isa != PKV_ISA_BEST) r->machine.isa = o->isa;
    run->threads = bench_threads(o, machine_cpus());
    r->machine.threads = run->threads;
    snprintf(r->command, sizeof(r->command), "%s", o->text);
    snprintf(r->profile, sizeof(r->profile), "%s", bench_profile_name(o->profile));
    r->seed = o->seed;
    strftime(r->started_utc, sizeof(r->started_utc), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    r->published = o->command == CMD_RUN;
    if ((o->command == CMD_RUN || o->command == CMD_MODEL) && o->profile == PROFILE_QUICK)
        r->limit_s = QUICK_S;
    if (o->command == CMD_RUN && o->profile == PROFILE_CI) r->limit_s = CI_S;
}

static void progress(const struct bench_run *run, int32_t at, int32_t n, const char *what)
{
    if (run->progress) fprintf(stderr, "\r\033[K[%d/%d] %s", at, n, what);
}

/* The baseline that the A/A check times against itself: contiguous decode beyond the caches. */
static bool make_aa_case(const struct bench_run *run, struct case_list *list,
                         struct bench_error *err)
{
    struct attn_case_spec spec;
    struct attn_problem_spec problem = attention_centre();
    memset(&spec, 0, sizeof(spec));
    memset(list, 0, sizeof(*list));
    spec.small = run->options->profile == PROFILE_CI;
    attention_spec_batch(&problem, spec.small ? "4q1s512" : "8q1s2k");
    attention_spec_memory(&spec, attention_spec_problem(&spec, &problem), LAYOUT_CONTIG_HND, 0);
    attention_spec_side(&spec, ATTN_RUN, 0)->baseline = true;
    attention_spec_family(&spec, PKV_ISA_BEST, run->threads);
    return attention_case_add(run->options, &spec, list, err);
}

static bool check_aa(struct bench_run *run, struct case_list *aa, struct bench_ratio *out,
                     struct bench_error *err)
{
    if (!bench_command_probes(run->options->command)) return true;
    if (!bench_aa_run(&aa->cases[0], run, out, err))
        return err->code == BENCH_SKIP && bench_report_skip(&run->report, "A/A", err->text, err);
    run->report.has_aa = true;
    run->report.noisy = run->report.noisy || bench_ratio_noisy(out);
    return true;
}

/* On a busy machine every case takes longer. A profile with a time limit then takes fewer samples
 * in the cases that are left, rather than longer; setup and the least number of samples remain. */
static void share_time(const struct bench_run *run, uint64_t start, int32_t cases_left,
                       struct bench_case *c)
{
    const double elapsed = (double)(run->clock.now_ns(run->clock.ctx) - start) / 1e9;
    const double left = (run->report.limit_s * USABLE - elapsed) / cases_left;
    if (run->report.limit_s <= 0) return;
    const uint64_t ns = left > 0 ? (uint64_t)(left * 1e9 * TIMED_SHARE) : 0;
    if (c->sampler.max_time_ns > ns) c->sampler.max_time_ns = ns;
}

/* Slow kernels (a build without levels, a machine with company) take long even for the least number
 * of samples. What comes after them gets the rest of the time. */
static bool out_of_time(const struct bench_run *run, uint64_t start, const struct bench_case *c)
{
    const double elapsed = (double)(run->clock.now_ns(run->clock.ctx) - start) / 1e9;
    const bool slow = c->group == GROUP_KERNEL || c->group == GROUP_MOVES ||
                      c->group == GROUP_MODEL || c->group == GROUP_ENGINE;
    return slow && run->report.limit_s > 0 && elapsed > run->report.limit_s * KERNELS_SHARE;
}

/* full takes long enough to want to know before. */
static void say_estimate(const struct bench_run *run, const struct case_list *list)
{
    double seconds = 0;
    if (run->options->profile != PROFILE_FULL) return;
    for (int32_t i = 0; i < list->n; i++)
        seconds += (double)list->cases[i].sampler.max_time_ns / 1e9 + SETUP_S;
    fprintf(stderr, "pkv-bench: %d cases, at most about %.0f minutes\n", list->n, seconds / 60 + 1);
}

static bool run_cases(struct bench_run *run, struct case_list *list, uint64_t start,
                      struct bench_error *err)
{
    struct case_list aa;
    say_estimate(run, list);
    bool ok = make_aa_case(run, &aa, err) && check_aa(run, &aa, &run->report.aa_first, err);
    for (int32_t i = 0; ok && i < list->n; i++) {
        struct bench_case *c = &list->cases[i];
        progress(run, i + 1, list->n, c->id);
        share_time(run, start, list->n - i, c);
        if (out_of_time(run, start, c))
            ok = bench_report_skip(&run->report, c->id, "the time of the profile was used up", err);
        else ok = bench_case_run(c, run, err);
    }
    ok = ok && check_aa(run, &aa, &run->report.aa_last, err);
    if (run->progress) fputs("\r\033[K", stderr);
    case_list_free(&aa);
    return ok;
}

static void end_report(struct bench_run *run, uint64_t start)
{
    struct rusage usage;
    run->report.wall_s = (double)(run->clock.now_ns(run->clock.ctx) - start) / 1e9;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return;
    run->report.peak_rss_bytes = (int64_t)usage.ru_maxrss << 10;
    run->report.preempted = usage.ru_nivcsw;
}

/* The cases of these options, after the filter. */
static bool make_cases(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err)
{
    if (!case_list_build(o, list, err)) return false;
    if (o->filter) case_list_filter(list, o->filter);
    return list->n > 0 || o->command == CMD_MACHINE ||
           bench_fail(err, BENCH_USAGE, "no case id contains '%s'; --list shows the ids",
                      o->filter ? o->filter : "");
}

bool bench_session_run(struct bench_run *run, const struct bench_options *o,
                       struct bench_error *err)
{
    struct case_list list;
    memset(run, 0, sizeof(*run));
    run->options = o;
    run->clock = bench_clock_raw();
    run->progress = isatty(STDERR_FILENO) == 1;
    const uint64_t start = run->clock.now_ns(run->clock.ctx);
    bool ok = make_cases(o, &list, err);
    if (ok) begin_report(run);
    ok = ok && resolve_memory(run, err);
    if (!bench_command_untimed(o->command)) ok = ok && make_engines(run, err);
    if (bench_command_probes(o->command)) ok = ok && measure_bandwidth(run, err);
    if (ok && o->command != CMD_MACHINE) ok = run_cases(run, &list, start, err);
    end_report(run, start);
    case_list_free(&list);
    return ok;
}

void bench_session_close(struct bench_run *run)
{
    bench_report_free(&run->report);
    bench_engines_close(&run->engines);
}

static bool list_only(const struct bench_options *o, struct bench_error *err)
{
    struct case_list list;
    const bool ok = make_cases(o, &list, err);
    if (ok) case_list_print(&list);
    case_list_free(&list);
    return ok && (fflush(stdout) == 0 || bench_fail(err, BENCH_USAGE, "cannot write the list"));
}

/* The files that were asked for. */
enum { FILE_JSON, FILE_CSV, FILE_MARKDOWN, N_FILES };

static void file_paths(const struct bench_options *o, const char *paths[N_FILES])
{
    paths[FILE_JSON] = o->json;
    paths[FILE_CSV] = o->csv;
    paths[FILE_MARKDOWN] = o->markdown_file;
}

/* Could they be written? Asked before anything is measured. */
static bool probe_files(const struct bench_options *o, struct bench_error *err)
{
    const char *paths[N_FILES];
    file_paths(o, paths);
    for (int i = 0; i < N_FILES; i++)
        if (paths[i] && !out_file_probe(paths[i], err)) return false;
    return true;
}

static void put_tables(const struct bench_run *run, bool markdown, FILE *out)
{
    if (run->options->command == CMD_MACHINE) out_machine(&run->report.machine, markdown, out);
    else out_tables(&run->report, markdown, out);
}

/* Write to temporary files or standard output, then make them whole. */
static bool write_files(const struct bench_run *run, struct out_file files[N_FILES],
                        struct bench_error *err)
{
    const char *paths[N_FILES];
    file_paths(run->options, paths);
    for (int i = 0; i < N_FILES; i++)
        if (paths[i] && !out_file_open(&files[i], paths[i], err)) return false;
    if (paths[FILE_JSON] && !out_json(&run->report, files[FILE_JSON].stream))
        return bench_fail(err, BENCH_USAGE, "cannot write JSON to %s", paths[FILE_JSON]);
    if (paths[FILE_CSV]) out_csv(&run->report, files[FILE_CSV].stream);
    if (paths[FILE_MARKDOWN]) put_tables(run, true, files[FILE_MARKDOWN].stream);
    for (int i = 0; i < N_FILES; i++)
        if (paths[i] && !out_file_commit(&files[i], err)) return false;
    return true;
}

static bool write_outputs(const struct bench_run *run, struct bench_error *err)
{
    const struct bench_options *o = run->options;
    const char *paths[N_FILES];
    struct out_file files[N_FILES];
    memset(files, 0, sizeof(files));
    const bool ok = write_files(run, files, err);
    for (int i = 0; i < N_FILES; i++) out_file_drop(&files[i]);
    if (!ok) return false;
    file_paths(o, paths);
    for (int i = 0; i < N_FILES; i++)
        if (paths[i] && strcmp(paths[i], "-") == 0) return true;
    put_tables(run, o->markdown, stdout);
    return (fflush(stdout) == 0 && !ferror(stdout)) ||
           bench_fail(err, BENCH_USAGE, "cannot write to standard output");
}

/* The one case of --batch or a workload is what the user came for; without its rows nothing was
 * answered. */
static bool wish_skipped(const struct bench_run *run)
{
    const struct bench_report *r = &run->report;
    if (!run->options || r->n_rows > 0) return false;
    if (!run->options->has_batch && !run->options->serve.given) return false;
    for (int32_t i = 0; i < r->n_skips; i++)
        fprintf(stderr, "pkv-bench: %s was not run: %s\n", r->skips[i].id, r->skips[i].reason);
    return r->n_skips > 0;
}

int bench_session_main(const struct bench_options *o)
{
    struct bench_run run;
    struct bench_error err = { BENCH_OK, "" };
    memset(&run, 0, sizeof(run));
    bool ok;
    if (o->list) ok = list_only(o, &err);
    else ok = probe_files(o, &err) && bench_session_run(&run, o, &err) && write_outputs(&run, &err);
    int code = BENCH_OK;
    if (!ok) {
        fprintf(stderr, "pkv-bench: %s\n", err.text);
        code = err.code;
    } else if (run.report.wrong || wish_skipped(&run)) {
        code = BENCH_WRONG;
    } else if (run.report.noisy && o->fail_noisy) {
        code = BENCH_NOISY;
    }
    bench_session_close(&run);
    return code;
}
