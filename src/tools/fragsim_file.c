/* Output files that appear whole or not at all: written beside the target under another name, then
 * renamed. */
#include "fragsim_outputs.h"
#include "tool_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_to(FILE *file, const char *text)
{
    const size_t len = strlen(text);
    return fwrite(text, 1, len, file) == len && fflush(file) == 0;
}

/* A device or pipe: there is nothing to rename. */
static bool write_device(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (!file) return fragsim_complain("%s: cannot be written: %s", path, strerror(errno));
    const bool written = write_to(file, text);
    const int why = errno;
    return (fclose(file) == 0 && written) ||
           fragsim_complain("%s: writing failed: %s", path, strerror(why ? why : errno));
}

/* text in a new file beside `target`; NULL: errno says why it is not there. From here on a reader
 * of stdout who goes away must not end the program before the file is gone again. */
static char *write_temporary(const char *target, const char *text)
{
    signal(SIGPIPE, SIG_IGN);
    char *temporary;
    FILE *file = tool_file_begin(target, &temporary);
    if (!file) return NULL;
    const bool written = write_to(file, text);
    int why = errno;
    if (fclose(file) == 0 && written) return temporary;
    if (written) why = errno;
    unlink(temporary);
    free(temporary);
    errno = why;
    return NULL;
}

static bool put_regular(fragsim_files *files, const char *path, const char *text)
{
    char *temporary = NULL, *target = tool_file_target(path);
    if (!target) return fragsim_complain("%s: cannot be written: %s", path, strerror(errno));
    for (int k = 0; k < files->n; k++) {
        if (strcmp(files->file[k].target, target) != 0) continue;
        free(target);
        return fragsim_complain("%s: two outputs for one file", path);
    }
    if (files->n < FRAGSIM_MAX_FILES) temporary = write_temporary(target, text);
    else errno = EMFILE;
    if (!temporary) {
        const int why = errno;
        free(target);
        return fragsim_complain("%s: cannot be written: %s", path, strerror(why));
    }
    files->file[files->n].target = target;
    files->file[files->n++].temporary = temporary;
    return true;
}

bool fragsim_files_put(fragsim_files *files, const char *path, const char *text)
{
    if (strcmp(path, "-") == 0)
        return write_to(stdout, text) ||
               fragsim_complain("stdout: writing failed: %s", strerror(errno));
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) return put_regular(files, path, text);
    if (S_ISDIR(info.st_mode)) return fragsim_complain("%s: cannot be written: a folder", path);
    return write_device(path, text);
}

static void empty(fragsim_files *files)
{
    for (int k = 0; k < files->n; k++) {
        free(files->file[k].target);
        free(files->file[k].temporary);
    }
    *files = (fragsim_files){ 0 };
}

bool fragsim_files_keep(fragsim_files *files)
{
    for (int k = 0; k < files->n; k++) {
        if (rename(files->file[k].temporary, files->file[k].target) == 0) continue;
        fragsim_complain("%s: cannot be written: %s", files->file[k].target, strerror(errno));
        for (int done = 0; done < k; done++) unlink(files->file[done].target);
        for (int left = k; left < files->n; left++) unlink(files->file[left].temporary);
        empty(files);
        return false;
    }
    empty(files);
    return true;
}

void fragsim_files_drop(fragsim_files *files)
{
    for (int k = 0; k < files->n; k++) unlink(files->file[k].temporary);
    empty(files);
}

bool fragsim_write_whole(const char *path, const char *text)
{
    fragsim_files files = { 0 };
    return fragsim_files_put(&files, path, text) && fragsim_files_keep(&files);
}
