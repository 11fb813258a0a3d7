/* Beyond not crashing: rows are each counted once, requests are sorted and have lengths, content
 * ids are dense and suit the lengths, the size of the pieces the bytes come in changes nothing, and
 * a refusal says where. */
#include "fuzz_trace.h"

#include "pagedkv/sim.h"

#include <string.h>

typedef struct source {
    const uint8_t *at;
    size_t len, chunk;
} source;

static int64_t hand_out(void *ctx, void *buf, size_t cap)
{
    source *s = ctx;
    size_t n = s->chunk < cap ? s->chunk : cap;
    if (n > s->len) n = s->len;
    if (n > 0) memcpy(buf, s->at, n);
    s->at += n;
    s->len -= n;
    return (int64_t)n;
}

static void check_content(const pkv_sim_trace *t)
{
    const pkv_sim_content *c = &t->content;
    if (!c->ids) return;
    int32_t n_seen = 0;
    int64_t n_ids = 0;
    FUZZ_REQUIRE(c->block_tokens > 0 && c->n_distinct > 0);
    for (int64_t r = 0; r < t->n_reqs; r++) {
        const int64_t i = t->reqs[r].prompt_tokens, n = c->n_ids[r], block = c->block_tokens;
        FUZZ_REQUIRE(c->first[r] == n_ids);
        FUZZ_REQUIRE(n == 0 || n == i / block || n == (i + block - 1) / block);
        for (int64_t k = 0; k < n; k++, n_ids++) {
            FUZZ_REQUIRE(c->ids[n_ids] >= 0 && c->ids[n_ids] <= n_seen);
            if (c->ids[n_ids] == n_seen) n_seen++;
        }
    }
    FUZZ_REQUIRE(n_seen == c->n_distinct && n_ids > 0);
}

static void check(const pkv_sim_trace *t, const pkv_sim_trace_config *cfg)
{
    int64_t rows = t->n_reqs;
    for (int k = 0; k < PKV_SIM_DROP_COUNT; k++) {
        rows += t->dropped[k];
        FUZZ_REQUIRE((t->dropped[k] > 0) == (t->first_line[k] > 0));
    }
    FUZZ_REQUIRE(rows == t->rows_read);
    FUZZ_REQUIRE(t->n_reqs > 0 && t->reqs[0].arrival_ns == 0);
    FUZZ_REQUIRE(cfg->max_requests == 0 || t->n_reqs <= cfg->max_requests);
    for (int64_t r = 0; r < t->n_reqs; r++) {
        FUZZ_REQUIRE(t->reqs[r].prompt_tokens > 0);
        FUZZ_REQUIRE(t->reqs[r].output_tokens >= (cfg->keep_zero_output ? 0 : 1));
        FUZZ_REQUIRE(r == 0 || t->reqs[r].arrival_ns >= t->reqs[r - 1].arrival_ns);
    }
    FUZZ_REQUIRE(t->span_ns == t->reqs[t->n_reqs - 1].arrival_ns);
    FUZZ_REQUIRE(cfg->duration_ns == 0 || !t->has_times || t->span_ns < cfg->duration_ns);
    check_content(t);
}

/* The error that was said last, and how many were. */
typedef struct heard {
    char text[300];
    int n_errors;
} heard;

static void hear(void *ctx, pkv_log_level level, const char *text)
{
    heard *h = ctx;
    if (level != PKV_LOG_ERROR) return;
    h->n_errors++;
    snprintf(h->text, sizeof(h->text), "%s", text);
}

static pkv_status read_in_pieces(const uint8_t *data, size_t size, size_t chunk,
                                 pkv_sim_trace_config cfg, pkv_sim_trace *out)
{
    source s = { data, size, chunk };
    heard h = { { 0 }, 0 };
    cfg.log = (pkv_logger){ hear, &h };
    *out = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    const pkv_status status = pkv_sim_trace_read(hand_out, &s, &cfg, out);
    FUZZ_REQUIRE(status == PKV_OK || status == PKV_E_FORMAT);
    FUZZ_REQUIRE(h.n_errors == (status != PKV_OK));
    if (status == PKV_OK) {
        check(out, &cfg);
        FUZZ_REQUIRE(out->bytes_read == (int64_t)size);
        return status;
    }
    FUZZ_REQUIRE(out->memory == NULL);
    FUZZ_REQUIRE(strstr(h.text, "line ") || strstr(h.text, "file") || strstr(h.text, " row"));
    for (const char *c = h.text; *c; c++) FUZZ_REQUIRE(*c >= 0x20 && *c < 0x7f);
    return status;
}

/* One of the ways to read, by the size of the input. */
static pkv_sim_trace_config config_for(size_t size)
{
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    switch (size % 7) {
    case 0:
        cfg.filter = (pkv_sim_filter)(size / 7 % 5);
        cfg.keep_zero_output = true;
        break;
    case 1:
        cfg.max_requests = 2;
        cfg.start_ns = 500000000;
        cfg.duration_ns = 3000000000;
        break;
    case 2:
        cfg.hash_block_tokens = (int32_t)(1 + size / 7 % 20);
        cfg.time_unit_ns = (int64_t)(1 + size % 1000);
        break;
    case 3:
        cfg.time_column = "arrived_at";
        break;
    default:
        break;
    }
    return cfg;
}

static bool same(const pkv_sim_trace *a, const pkv_sim_trace *b)
{
    if (a->n_reqs != b->n_reqs || a->rows_read != b->rows_read ||
        memcmp(a->reqs, b->reqs, (size_t)a->n_reqs * sizeof(*a->reqs)) != 0)
        return false;
    if (!a->content.ids || !b->content.ids) return a->content.ids == b->content.ids;
    for (int64_t r = 0; r < a->n_reqs; r++)
        if (a->content.n_ids[r] != b->content.n_ids[r]) return false;
    return a->content.n_distinct == b->content.n_distinct;
}

void fuzz_trace(const uint8_t *data, size_t size)
{
    pkv_sim_trace whole, pieces, strict;
    pkv_sim_trace_config cfg = config_for(size);
    const pkv_status a = read_in_pieces(data, size, 1 << 16, cfg, &whole);
    const pkv_status b = read_in_pieces(data, size, 1 + size % 7, cfg, &pieces);
    cfg.strict = true;
    const pkv_status c = read_in_pieces(data, size, 4096, cfg, &strict);
    FUZZ_REQUIRE(a == b && (c != PKV_OK || a == PKV_OK));
    FUZZ_REQUIRE(a != PKV_OK || same(&whole, &pieces));
    if (c == PKV_OK) {
        FUZZ_REQUIRE(strict.n_backwards == 0 && same(&whole, &strict));
        FUZZ_REQUIRE(strict.n_reqs + strict.dropped[PKV_SIM_DROP_FILTERED] == strict.rows_read);
    }
    pkv_sim_trace_free(&whole);
    pkv_sim_trace_free(&pieces);
    pkv_sim_trace_free(&strict);
}
