/* Which files a report is written to. */
#include "fragsim_outputs.h"

#include <stdlib.h>
#include <string.h>

static bool put_output(const fragsim_output *o, const void *report, fragsim_files *files)
{
    char *text = o->make(report);
    if (!text) return o->complains ? false : fragsim_complain("out of memory for %s", o->what);
    const bool ok = fragsim_files_put(files, o->path, text);
    free(text);
    return ok;
}

bool fragsim_outputs_put(const fragsim_output *outputs, size_t n, const void *report,
                         fragsim_files *files, bool *on_stdout)
{
    const fragsim_output *standard = NULL;
    for (size_t k = 0; k < n; k++) {
        if (!outputs[k].path) continue;
        if (strcmp(outputs[k].path, "-") != 0) {
            if (put_output(&outputs[k], report, files)) continue;
        } else if (!standard) {
            standard = &outputs[k];
            continue;
        } else {
            fragsim_complain("two outputs for stdout; give one of them a file");
        }
        fragsim_files_drop(files);
        return false;
    }
    *on_stdout = standard != NULL;
    /* last, for it cannot be taken back */
    if (!standard || put_output(standard, report, files)) return true;
    fragsim_files_drop(files);
    return false;
}

static char *make_json(const void *report)
{
    return fragsim_json(report);
}
static char *make_csv(const void *report)
{
    return fragsim_csv(report);
}
static char *make_series(const void *report)
{
    return fragsim_series_csv(report);
}
static char *make_events(const void *report)
{
    return fragsim_events_text(report);
}
static char *make_svg(const void *report)
{
    return fragsim_svg(report);
}
static char *make_html(const void *report)
{
    return fragsim_html(report);
}

bool fragsim_outputs_make(const fragsim_report *rep, fragsim_files *files, bool *on_stdout)
{
    const fragsim_options *o = rep->opts;
    const fragsim_output outputs[] = {
        { o->json_path, "the JSON report", make_json, false },
        { o->csv_path, "the CSV report", make_csv, false },
        { o->series_path, "the time series", make_series, false },
        { o->events_path, "the events", make_events, false },
        { o->svg_path, "the SVG", make_svg, true },
        { o->html_path, "the HTML report", make_html, true },
    };
    return fragsim_outputs_put(outputs, sizeof(outputs) / sizeof(outputs[0]), rep, files,
                               on_stdout);
}
