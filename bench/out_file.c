/* Files that appear whole or not at all. */
#include "outputs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool out_file_open(struct out_file *f, const char *path, struct bench_error *err)
{
    memset(f, 0, sizeof(*f));
    if (strcmp(path, "-") == 0) {
        f->stream = stdout;
        return true;
    }
    if (strlen(path) >= sizeof(f->path))
        return bench_fail(err, BENCH_USAGE, "the name of the output file is too long");
    memcpy(f->path, path, strlen(path) + 1);
    /* A device or pipe is written as it is: a rename would put a file in its place. */
    struct stat there;
    f->direct = stat(path, &there) == 0 && !S_ISREG(there.st_mode);
    snprintf(f->temp, sizeof(f->temp), "%s.%ld.tmp", path, (long)getpid());
    f->stream = fopen(f->direct ? f->path : f->temp, f->direct ? "w" : "wx");
    return f->stream || bench_fail(err, BENCH_USAGE, "cannot write %s: %s", path, strerror(errno));
}

bool out_file_commit(struct out_file *f, struct bench_error *err)
{
    FILE *stream = f->stream;
    f->stream = NULL;
    if (stream == stdout)
        return (fflush(stdout) == 0 && !ferror(stdout)) ||
               bench_fail(err, BENCH_USAGE, "cannot write to standard output");
    bool written = fflush(stream) == 0 && !ferror(stream);
    written = written && (f->direct || fsync(fileno(stream)) == 0);
    const int written_errno = errno;
    if (fclose(stream) == 0 && written && (f->direct || rename(f->temp, f->path) == 0)) return true;
    const int reason = written ? errno : written_errno;
    if (!f->direct) (void)unlink(f->temp);
    return bench_fail(err, BENCH_USAGE, "cannot write %s: %s", f->path, strerror(reason));
}

void out_file_drop(struct out_file *f)
{
    if (!f->stream || f->stream == stdout) return;
    fclose(f->stream);
    if (!f->direct) (void)unlink(f->temp);
    f->stream = NULL;
}

bool out_file_probe(const char *path, struct bench_error *err)
{
    struct out_file f;
    if (!out_file_open(&f, path, err)) return false;
    out_file_drop(&f);
    return true;
}
