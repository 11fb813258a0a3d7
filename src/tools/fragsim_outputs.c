/* Which files a report is written to. */
#include "fragsim_outputs.h"

#include <stdlib.h>
#include <string.h>

typedef struct output {
    const char *path; /* NULL: not wanted */
    const char *what;
    char *(*make)(const fragsim_report *report);
    bool complains; /* itself, when it returns NULL */
} output;

static bool put_output(const fragsim_report *rep, const output *o, fragsim_files *files)
{
    char *text = o->make(rep);
    if (!text) return o->complains ? false : fragsim_complain("out of memory for %s", o->what);
    const bool ok = fragsim_files_put(files, o->path, text);
    free(text);
    return ok;
}

bool fragsim_outputs_make(const fragsim_report *rep, fragsim_files *files, bool *on_stdout)
{
    const fragsim_options *o = rep->opts;
    const output outputs[] = {
        { o->json_path, "the JSON report", fragsim_json, false },
        { o->csv_path, "the CSV report", fragsim_csv, false },
        { o->series_path, "the time series", fragsim_series_csv, false },
        { o->events_path, "the events", fragsim_events_text, false },
    };
    const output *standard = NULL;
    for (size_t k = 0; k < sizeof(outputs) / sizeof(outputs[0]); k++) {
        if (!outputs[k].path) continue;
        if (strcmp(outputs[k].path, "-") != 0) {
            if (put_output(rep, &outputs[k], files)) continue;
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
    if (!standard || put_output(rep, standard, files)) return true;
    fragsim_files_drop(files);
    return false;
}
