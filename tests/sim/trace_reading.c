/* What the tests of the trace readers share. */
#include "trace_reading.h"

int64_t hand_out(void *ctx, void *buf, size_t cap)
{
    trace_source *s = ctx;
    size_t n = s->chunk < cap ? s->chunk : cap;
    if (s->len == 0 && s->fails) return -1;
    if (n > s->len) n = s->len;
    if (n > 0) memcpy(buf, s->at, n);
    s->at += n;
    s->len -= n;
    return (int64_t)n;
}

/* ---------------------------------------------------------------- messages */

static struct heard {
    char text[300];
    int n[8]; /* by level */
} heard;

static void hear(void *ctx, pkv_log_level level, const char *text)
{
    struct heard *h = ctx;
    snprintf(h->text, sizeof(h->text), "%s", text);
    h->n[level]++;
}

pkv_logger listening(void)
{
    heard = (struct heard){ { 0 }, { 0 } };
    return (pkv_logger){ hear, &heard };
}

const char *heard_text(void)
{
    return heard.text;
}

int n_heard(pkv_log_level level)
{
    return heard.n[level];
}

/* ---------------------------------------------------------------- reading */

static void check_content(const pkv_sim_trace *t)
{
    const pkv_sim_content *c = &t->content;
    if (!c->ids) return;
    int32_t highest = -1; /* ids are new in order */
    assert_true(c->block_tokens > 0);
    for (int64_t r = 0; r < t->n_reqs; r++) {
        assert_int_equal(c->first[r], r ? c->first[r - 1] + c->n_ids[r - 1] : 0);
        assert_true((int64_t)(c->n_ids[r] - 1) * c->block_tokens < t->reqs[r].prompt_tokens);
        for (int32_t k = 0; k < c->n_ids[r]; k++) {
            const int32_t id = c->ids[c->first[r] + k];
            assert_in_range(id, 0, highest + 1);
            if (id > highest) highest = id;
        }
    }
    assert_int_equal(c->n_distinct, highest + 1);
}

static void check_trace(const pkv_sim_trace *t)
{
    int64_t n = t->n_reqs, n_equal = 0;
    for (int k = 0; k < PKV_SIM_DROP_COUNT; k++) {
        n += t->dropped[k];
        assert_true((t->dropped[k] > 0) == (t->first_line[k] > 0));
    }
    assert_int_equal(n, t->rows_read);
    assert_true(t->n_reqs > 0 && t->reqs[0].arrival_ns == 0);
    for (int64_t r = 1; r < t->n_reqs; r++) {
        assert_true(t->reqs[r].arrival_ns >= t->reqs[r - 1].arrival_ns);
        n_equal += t->reqs[r].arrival_ns == t->reqs[r - 1].arrival_ns;
    }
    assert_int_equal(t->n_equal_times, t->has_times ? n_equal : 0);
    assert_int_equal(t->span_ns, t->reqs[t->n_reqs - 1].arrival_ns);
    check_content(t);
}

pkv_status read_bytes(const char *bytes, size_t len, pkv_sim_trace_config cfg, pkv_sim_trace *out)
{
    trace_source m = { bytes, len, 1 << 16, false };
    cfg.log = listening();
    *out = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    const pkv_status status = pkv_sim_trace_read(hand_out, &m, &cfg, out);
    if (status != PKV_OK) {
        assert_null(out->memory);
        assert_null(out->reqs);
        return status;
    }
    assert_int_equal(out->bytes_read, len);
    check_trace(out);
    return status;
}

pkv_status read_with(const char *text, pkv_sim_trace_config cfg, pkv_sim_trace *out)
{
    return read_bytes(text, strlen(text), cfg, out);
}

pkv_status read_text(const char *text, pkv_sim_trace *out)
{
    return read_with(text, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, out);
}

void expect_refusal_with(const char *text, pkv_sim_trace_config cfg, pkv_status status,
                         const char *words)
{
    pkv_sim_trace t;
    const pkv_status got = read_with(text, cfg, &t);
    if (got != status || !strstr(heard_text(), words))
        fail_msg("%s, said '%s', expected %s, '%s'", pkv_status_name(got), heard_text(),
                 pkv_status_name(status), words);
    assert_int_equal(n_heard(PKV_LOG_ERROR), 1);
    assert_int_equal(n_heard(PKV_LOG_WARN), 0);
}

void expect_refusal(const char *text, const char *words)
{
    expect_refusal_with(text, (pkv_sim_trace_config)PKV_SIM_TRACE_CONFIG_INIT, PKV_E_FORMAT, words);
}

/* ---------------------------------------------------------------- memory that runs out */

typedef struct miser {
    int left; /* allocations before it refuses */
    int64_t bytes;
} miser;

static void *miser_alloc(void *ctx, size_t bytes, size_t align)
{
    miser *m = ctx;
    if (m->left-- <= 0) return NULL;
    m->bytes += (int64_t)bytes;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void miser_free(void *ctx, void *ptr, size_t bytes)
{
    ((miser *)ctx)->bytes -= (int64_t)bytes;
    free(ptr);
}

void expect_no_memory(const char *text, int at_least)
{
    for (int k = 0;; k++) {
        miser m = { k, 0 };
        pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
        cfg.alloc = (pkv_allocator){ miser_alloc, miser_free, &m };
        pkv_sim_trace t;
        const pkv_status status = read_with(text, cfg, &t);
        if (status == PKV_OK) {
            assert_in_range(k, at_least, at_least + 40);
            pkv_sim_trace_free(&t);
            assert_int_equal(m.bytes, 0);
            return;
        }
        assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_int_equal(m.bytes, 0);
    }
}

/* ---------------------------------------------------------------- files, seeds */

static int64_t read_file(void *ctx, void *buf, size_t cap)
{
    return (int64_t)fread(buf, 1, cap, ctx);
}

void read_shared(const char *name, pkv_sim_trace_config cfg, pkv_status expected,
                 pkv_sim_trace *out)
{
    const char *shared = getenv("PKV_SHARED");
    char path[1024];
    snprintf(path, sizeof(path), "%s/traces/%s", shared ? shared : "../shared", name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "SKIPPED: %s is missing\n", path);
        skip();
    }
    cfg.log = listening();
    *out = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    const pkv_status status = pkv_sim_trace_read(read_file, file, &cfg, out);
    fclose(file);
    if (status != expected) fail_msg("%s: %s", name, heard_text());
    if (status == PKV_OK) check_trace(out);
}

uint64_t first_seed(void)
{
    const char *given = getenv("PKV_SEED");
    return given ? strtoull(given, NULL, 10) : 1;
}

uint64_t n_seeds(uint64_t usual)
{
    return getenv("PKV_SEED") ? 1 : usual;
}
