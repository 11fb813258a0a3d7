/* Output files that appear whole or not at all: written beside the target under another name, then
 * renamed. */
#include "fragsim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkstemp makes files that only the owner can read; give it the usual mode. */
static void set_usual_mode(int fd)
{
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) != 0) errno = 0; /* a private file is no reason to fail */
}

static bool write_to(FILE *file, const char *text)
{
    const size_t len = strlen(text);
    return fwrite(text, 1, len, file) == len && fflush(file) == 0;
}

bool fragsim_write_whole(const char *path, const char *text)
{
    if (strcmp(path, "-") == 0)
        return write_to(stdout, text) ||
               fragsim_complain("stdout: writing failed: %s", strerror(errno));
    struct stat info;
    if (stat(path, &info) == 0 &&
        !S_ISREG(info.st_mode)) { /* a device or pipe: nothing to rename */
        FILE *file = S_ISDIR(info.st_mode) ? NULL : fopen(path, "wb");
        if (!file)
            return fragsim_complain("%s: cannot be written: %s", path,
                                    S_ISDIR(info.st_mode) ? "a folder" : strerror(errno));
        const bool written = write_to(file, text);
        const int why = errno;
        return (fclose(file) == 0 && written) ||
               fragsim_complain("%s: writing failed: %s", path, strerror(why ? why : errno));
    }
    const size_t cap = strlen(path) + 12;
    char *temporary = malloc(cap);
    if (!temporary) return fragsim_complain("out of memory");
    snprintf(temporary, cap, "%s.tmp.XXXXXX", path);
    bool ok = false;
    const int fd = mkstemp(temporary);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (file) {
        set_usual_mode(fd);
        const bool written = write_to(file, text);
        ok = fclose(file) == 0 && written && rename(temporary, path) == 0;
    }
    if (!ok) {
        const int why = errno;
        if (fd >= 0) unlink(temporary);
        fragsim_complain("%s: cannot be written: %s", path, strerror(why));
    }
    free(temporary);
    return ok;
}
