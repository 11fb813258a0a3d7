#include "model_test.h"

#include <dirent.h>
#include <unistd.h>

void shared_path(const char *name, char *out, size_t cap)
{
    const char *shared = getenv("PKV_SHARED");
    if (!shared) shared = getenv("PKV_SHARED_DEFAULT");
    snprintf(out, cap, "%s/%s", shared ? shared : "../shared", name);
    if (access(out, R_OK) == 0) return;
    fprintf(stderr, "SKIPPED: %s is missing\n", out);
    skip();
}

static void keep_last(void *ctx, pkv_log_level level, const char *text)
{
    last_log *log = ctx;
    (void)level;
    snprintf(log->text, sizeof(log->text), "%s", text);
    log->n_lines++;
}

pkv_logger log_to(last_log *log)
{
    memset(log, 0, sizeof(*log));
    return (pkv_logger){ keep_last, log };
}

static void *counted_alloc(void *ctx, size_t n, size_t align)
{
    counted_memory *m = ctx;
    if (m->fail_at >= 0 && m->n_allocs++ >= m->fail_at) return NULL;
    if (align < sizeof(void *)) align = sizeof(void *);
    m->n_live++;
    m->live_bytes += n;
    if (m->live_bytes > m->peak_bytes) m->peak_bytes = m->live_bytes;
    return aligned_alloc(align, (n + align - 1) / align * align);
}

static void counted_free(void *ctx, void *ptr, size_t n)
{
    counted_memory *m = ctx;
    m->n_live--;
    m->live_bytes -= n;
    free(ptr);
}

pkv_allocator count_memory(counted_memory *m, long fail_at)
{
    memset(m, 0, sizeof(*m));
    m->fail_at = fail_at;
    return (pkv_allocator){ counted_alloc, counted_free, m };
}

/* ---------------------------------------------------------------- bytes */

void put(bytes *b, const void *data, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->data = realloc(b->data, b->cap);
        assert_non_null(b->data);
    }
    if (n > 0) memcpy(b->data + b->n, data, n);
    b->n += n;
}

void put_u32(bytes *b, uint32_t v)
{
    put(b, &v, sizeof(v));
}

void put_u64(bytes *b, uint64_t v)
{
    put(b, &v, sizeof(v));
}

void put_zeros(bytes *b, size_t n)
{
    static const uint8_t zeros[64];
    for (; n > sizeof(zeros); n -= sizeof(zeros)) put(b, zeros, sizeof(zeros));
    put(b, zeros, n);
}

void bytes_free(bytes *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}

void read_bytes(const char *path, bytes *out)
{
    uint8_t buf[4096];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (size_t got; (got = fread(buf, 1, sizeof(buf), file)) > 0;) put(out, buf, got);
    fclose(file);
}

/* ---------------------------------------------------------------- folders */

void scratch_folder(char *out, size_t cap)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(out, cap, "%s/pkv_model_XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(out));
}

void write_bytes(const char *folder, const char *name, const void *data, size_t n)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (n > 0) assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void scratch_remove(const char *folder)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char path[1024];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        assert_int_equal(unlink(path), 0);
    }
    closedir(dir);
    assert_int_equal(rmdir(folder), 0);
}

/* ---------------------------------------------------------------- opening */

pkv__tensor_file *open_good(const char *path)
{
    last_log log;
    pkv__tensor_file *file = NULL;
    const pkv__tensor_file_config cfg = { .path = path, .log = log_to(&log) };
    const pkv_status status = pkv__tensor_file_open(&cfg, &file);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), log.text);
    assert_int_equal(log.n_lines, 0);
    return file;
}

pkv__tensor_file *open_memory(const bytes *b, const char *name)
{
    last_log log;
    pkv__tensor_file *file = NULL;
    const pkv_logger logger = log_to(&log);
    const pkv_status status =
        pkv__tensor_file_open_memory(b->data, b->n, name, &logger, NULL, &file);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), log.text);
    return file;
}

void expect_refused(const bytes *b, const char *name, const char *what, pkv_status want,
                    const char *says)
{
    last_log log;
    pkv__tensor_file *file = NULL;
    const pkv_logger logger = log_to(&log);
    char head[128];
    const pkv_status status =
        pkv__tensor_file_open_memory(b->data, b->n, name, &logger, NULL, &file);
    snprintf(head, sizeof(head), "%s: byte ", name);
    if (status != want)
        fail_msg("%s: %s, expected %s (%s)", what, pkv_status_name(status), pkv_status_name(want),
                 log.text);
    assert_null(file);
    assert_int_equal(log.n_lines, 1);
    if (strncmp(log.text, head, strlen(head)) != 0 || log.text[strlen(head)] < '0' ||
        log.text[strlen(head)] > '9' || !strstr(log.text, says))
        fail_msg("%s: the log says \"%s\", expected \"%sN: ...%s\"", what, log.text, head, says);
}
