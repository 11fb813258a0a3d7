#include "tok_test.h"

static pkv_tokenizer_config config_of(const char *splitter, int32_t vocab_size, last_log *log)
{
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    cfg.splitter = splitter;
    cfg.vocab_size = vocab_size;
    cfg.log = log_to(log);
    return cfg;
}

pkv_tokenizer *open_shared(const char *name, const char *splitter, int32_t vocab_size)
{
    char path[1024];
    last_log log;
    pkv_tokenizer *t = NULL;
    pkv_tokenizer_config cfg = config_of(splitter, vocab_size, &log);
    shared_path(name, path, sizeof(path));
    cfg.path = path;
    const pkv_status status = pkv_tokenizer_open(&cfg, &t);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), log.text);
    assert_int_equal(log.n_lines, 0);
    return t;
}

pkv_tokenizer *open_bytes(const bytes *b, const char *name, const char *splitter)
{
    last_log log;
    pkv_tokenizer *t = NULL;
    const pkv_tokenizer_config cfg = config_of(splitter, 0, &log);
    const pkv_status status = pkv__tokenizer_open_memory(&cfg, name, b->data, b->n, NULL, 0, &t);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), log.text);
    return t;
}

void expect_tok_refused(const bytes *b, const char *name, const char *splitter, int32_t vocab_size,
                        pkv_status want, const char *says)
{
    last_log log;
    pkv_tokenizer *t = NULL;
    const pkv_tokenizer_config cfg = config_of(splitter, vocab_size, &log);
    const pkv_status status = pkv__tokenizer_open_memory(&cfg, name, b->data, b->n, NULL, 0, &t);
    if (status != want || !strstr(log.text, says) || log.n_lines != 1)
        fail_msg("%s, expected %s; the log says \"%s\", expected \"...%s\"",
                 pkv_status_name(status), pkv_status_name(want), log.text, says);
    assert_null(t);
    if (want == PKV_E_FORMAT && !strstr(log.text, ": byte ") && !strstr(log.text, ": line "))
        fail_msg("no place: %s", log.text);
}

int32_t *ids_of(const pkv_tokenizer *t, const void *text, size_t n, uint32_t flags, int32_t *n_ids)
{
    const int32_t cap = (int32_t)n + 3;
    int32_t *ids = malloc((size_t)cap * sizeof(*ids));
    assert_int_equal(pkv_tokenizer_encode(t, text, n, flags, ids, cap, n_ids), PKV_OK);
    return ids;
}

void text_of(const pkv_tokenizer *t, const int32_t *ids, int32_t n, bool skip_special, bytes *out)
{
    pkv_detok d;
    static char buf[1 << 16];
    int32_t got;
    pkv_detok_init(&d, t, skip_special);
    for (int32_t k = 0; k < n; k++) {
        assert_int_equal(pkv_detok_put(&d, ids[k], buf, sizeof(buf), &got), PKV_OK);
        put(out, buf, (size_t)got);
    }
    assert_int_equal(pkv_detok_flush(&d, buf, 12, &got), PKV_OK);
    put(out, buf, (size_t)got);
}

void expect_ids(const pkv_tokenizer *t, const char *text, uint32_t flags, const int32_t *want,
                int32_t n_want)
{
    int32_t n;
    int32_t *ids = ids_of(t, text, strlen(text), flags, &n);
    bool same = n == n_want;
    for (int32_t k = 0; same && k < n; k++) same = ids[k] == want[k];
    for (int32_t k = 0; !same && k < n; k++)
        fprintf(stderr, "id %d: %d, expected %d\n", k, ids[k], k < n_want ? want[k] : -1);
    if (!same) fail_msg("\"%s\": %d ids, expected %d", text, n, n_want);
    free(ids);
}
