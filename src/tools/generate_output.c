/* Where answers go. A file is written under another name and gets its own at the end. */
#include "generate.h"
#include "tool_file.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A device or pipe has no name to put off. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

bool generate_sink_open(generate_sink *s, const char *path)
{
    if (path && strcmp(path, "-") == 0) path = NULL;
    *s = (generate_sink){ .path = path };
    if (!path) {
        s->file = stdout;
        return true;
    }
    /* from here on a reader of stderr who goes away must not leave the file under its other name */
    signal(SIGPIPE, SIG_IGN);
    if (is_special(path)) {
        s->file = fopen(path, "wb");
    } else {
        s->target = tool_file_target(path);
        if (s->target) s->file = tool_file_begin(s->target, &s->temporary);
    }
    if (s->file) return true;
    const int why = errno;
    free(s->target);
    s->target = NULL;
    return generate_complain("%s: cannot be written: %s", path, strerror(why));
}

void generate_sink_put(generate_sink *s, const char *text, size_t n)
{
    if (!s->broken && fwrite(text, 1, n, s->file) != n) s->broken = errno ? errno : EIO;
}

void generate_sink_flush(generate_sink *s)
{
    if (!s->broken && fflush(s->file) != 0) s->broken = errno ? errno : EIO;
}

static bool give_name(generate_sink *s, bool keep)
{
    if (!s->temporary) return true;
    if (keep && rename(s->temporary, s->target) == 0) return true;
    const int why = errno;
    unlink(s->temporary);
    return !keep || generate_complain("%s: cannot be written: %s", s->path, strerror(why));
}

bool generate_sink_close(generate_sink *s, bool keep)
{
    generate_sink_flush(s);
    if (s->path && fclose(s->file) != 0 && !s->broken) s->broken = errno ? errno : EIO;
    if (s->broken && s->broken != EPIPE)
        generate_complain("%s: writing failed: %s", s->path ? s->path : "stdout",
                          strerror(s->broken));
    const bool named = give_name(s, keep && !s->broken);
    free(s->target);
    free(s->temporary);
    s->file = NULL;
    return named && !s->broken;
}
