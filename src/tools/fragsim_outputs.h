/* Files that a command writes, all of them or none; and the ones of a report.
 *
 *   fragsim_outputs_make --temporaries beside the targets--> (the table) --fragsim_files_keep-->
 */
#ifndef PKV_TOOLS_FRAGSIM_OUTPUTS_H
#define PKV_TOOLS_FRAGSIM_OUTPUTS_H

#include "fragsim.h"

#define FRAGSIM_MAX_FILES 8

/* Zero is the empty set. Between put and keep nothing can be seen under the final names, except
 * what has no name to put off: stdout, devices and pipes are written at once. */
typedef struct fragsim_files {
    struct {
        char *target, *temporary; /* owned */
    } file[FRAGSIM_MAX_FILES];
    int n;
} fragsim_files;

/* Write text beside `path`; "-" is stdout. False: it has complained, the set is as before. */
bool fragsim_files_put(fragsim_files *files, const char *path, const char *text);
/* Give all of them their names and empty the set. False: it has complained, and none is there. */
bool fragsim_files_keep(fragsim_files *files);
/* Remove whatever was put and empty the set. */
void fragsim_files_drop(fragsim_files *files);

/* One output of a command. */
typedef struct fragsim_output {
    const char *path;                  /* NULL: not wanted */
    const char *what;                  /* for the complaint about memory */
    char *(*make)(const void *report); /* the text, or NULL */
    bool complains;                    /* itself, when it returns NULL */
} fragsim_output;

/* Make and put all that are wanted. *on_stdout: stdout is taken by one of them, no table belongs
 * there. False: it has complained, the set is empty. */
bool fragsim_outputs_put(const fragsim_output *outputs, size_t n, const void *report,
                         fragsim_files *files, bool *on_stdout);
/* Those of a run that its options ask for. */
bool fragsim_outputs_make(const fragsim_report *report, fragsim_files *files, bool *on_stdout);

#endif
