/* Beside the target under another name, then renamed: whoever looks sees the old file or the new
 * one, never half of one. */
#include "tool_file.h"

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

FILE *tool_file_begin(const char *target, char **temporary)
{
    const size_t cap = strlen(target) + 12;
    char *name = malloc(cap);
    if (!name) return NULL;
    snprintf(name, cap, "%s.tmp.XXXXXX", target);
    const int fd = mkstemp(name);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (file) {
        set_usual_mode(fd);
        *temporary = name;
        return file;
    }
    const int why = errno;
    if (fd >= 0) {
        close(fd);
        unlink(name);
    }
    free(name);
    errno = why;
    return NULL;
}

char *tool_file_target(const char *path)
{
    char *target = realpath(path, NULL);
    if (target || errno != ENOENT) return target;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    char *whole = folder ? realpath(folder, NULL) : NULL;
    const size_t cap = whole ? strlen(whole) + strlen(name) + 2 : 0;
    if (whole) target = malloc(cap);
    if (target) snprintf(target, cap, "%s/%s", whole, name);
    const int why = errno;
    free(folder);
    free(whole);
    errno = why;
    return target;
}
