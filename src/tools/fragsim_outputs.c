/* Which files a report is written to. */
#include "fragsim_outputs.h"

#include <stdlib.h>
#include <string.h>

/* The texts of all that are wanted. False: it has complained. */
static bool make_texts(const fragsim_output *outputs, size_t n, const void *report, char **texts)
{
    for (size_t k = 0; k < n; k++) {
        if (!outputs[k].path) continue;
        texts[k] = outputs[k].make(report);
        if (texts[k]) continue;
        return outputs[k].complains ? false
                                    : fragsim_complain("out of memory for %s", outputs[k].what);
    }
    return true;
}

static bool put_texts(const fragsim_output *outputs, size_t n, char *const *texts,
                      fragsim_files *files, bool *on_stdout)
{
    size_t standard = n;
    for (size_t k = 0; k < n; k++) {
        if (!texts[k]) continue;
        if (strcmp(outputs[k].path, "-") != 0) {
            if (!fragsim_files_put(files, outputs[k].path, texts[k])) return false;
        } else if (standard == n) {
            standard = k;
        } else {
            return fragsim_complain("two outputs for stdout; give one of them a file");
        }
    }
    *on_stdout = standard < n;
    /* last, for it cannot be taken back */
    return standard == n || fragsim_files_put(files, outputs[standard].path, texts[standard]);
}

bool fragsim_outputs_put(const fragsim_output *outputs, size_t n, const void *report,
                         fragsim_files *files, bool *on_stdout)
{
    /* Charts take a while: whoever interrupts them finds no file of another name left behind. */
    char *texts[FRAGSIM_MAX_FILES] = { NULL };
    const bool ok =
        make_texts(outputs, n, report, texts) && put_texts(outputs, n, texts, files, on_stdout);
    for (size_t k = 0; k < n; k++) free(texts[k]);
    if (!ok) fragsim_files_drop(files);
    return ok;
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
