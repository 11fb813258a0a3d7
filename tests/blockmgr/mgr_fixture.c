/* See mgr_fixture.h. */
#include "mgr_fixture.h"

static void remember(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    snprintf(ctx, sizeof((fx *)0)->said, "%s", text);
}

fx *fx_from(const pkv_blockmgr_config *cfg)
{
    fx *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->cfg = *cfg;
    f->work = (pkv_block_work){ sizeof f->work, f->zero, FX_CAP, 0, f->copy, FX_CAP, 0 };
    f->match = (pkv_match)PKV_MATCH_INIT;
    if (!f->cfg.log.fn) f->cfg.log = (pkv_logger){ remember, f->said };
    assert_ok(pkv_blockmgr_create(&f->cfg, NULL, &f->m));
    return f;
}

pkv_blockmgr_config fx_config(int32_t n_blocks, int32_t block_tokens, uint32_t flags)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = n_blocks;
    cfg.block_tokens = block_tokens;
    cfg.max_seqs = 8;
    cfg.max_seq_tokens = 64 * block_tokens;
    cfg.flags = flags;
    return cfg;
}

fx *fx_new(int32_t n_blocks, int32_t block_tokens, uint32_t flags)
{
    pkv_blockmgr_config cfg = fx_config(n_blocks, block_tokens, flags);
    return fx_from(&cfg);
}

void fx_check(fx *f)
{
    if (pkv_blockmgr_check(f->m, 3) != PKV_OK) fail_msg("%s", f->said);
}

void fx_end(fx *f)
{
    uint8_t digest[16];
    fx_check(f);
    pkv_blockmgr_digest(f->m, digest);
    pkv_blockmgr_destroy(f->m);
    free(f);
}

pkv_seq fx_open(fx *f)
{
    pkv_seq s;
    assert_ok(pkv_seq_open(f->m, (pkv_ns){ 0 }, &s));
    return s;
}

pkv_seq fx_with(fx *f, const char *text)
{
    pkv_seq s = fx_open(f);
    fx_commit(f, s, text);
    return s;
}

pkv_status fx_try_reserve(fx *f, pkv_seq s, int32_t n)
{
    pkv_reserve_req q = { s, n };
    return pkv_seq_reserve(f->m, &q, 1, &f->work);
}

void fx_reserve(fx *f, pkv_seq s, int32_t n)
{
    assert_ok(fx_try_reserve(f, s, n));
}

pkv_tokens fx_text(const char *text, int32_t *ids)
{
    pkv_tokens t = { ids, (int32_t)strlen(text), NULL, 0 };
    for (int32_t i = 0; i < t.n; i++) ids[i] = text[i];
    return t;
}

pkv_status fx_put(fx *f, pkv_seq s, const char *text, pkv_step step)
{
    int32_t ids[512];
    pkv_tokens t = fx_text(text, ids);
    return pkv_seq_commit(f->m, s, &t, step);
}

void fx_commit_in(fx *f, pkv_seq s, const char *text, pkv_step step)
{
    fx_reserve(f, s, (int32_t)strlen(text));
    assert_ok(fx_put(f, s, text, step));
}

void fx_commit(fx *f, pkv_seq s, const char *text)
{
    fx_commit_in(f, s, text, PKV_STEP_NONE);
}

pkv_step fx_begin(fx *f)
{
    pkv_step step;
    assert_ok(pkv_step_begin(f->m, &step));
    return step;
}

void fx_retire(fx *f, pkv_step step)
{
    assert_ok(pkv_step_retire(f->m, step));
    fx_check(f);
}

void fx_abort(fx *f, pkv_step step)
{
    assert_ok(pkv_step_abort(f->m, step));
    fx_check(f);
}

pkv_need fx_need(fx *f, pkv_seq s, int32_t n)
{
    pkv_reserve_req q = { s, n };
    pkv_need need = PKV_NEED_INIT;
    assert_ok(pkv_blockmgr_need(f->m, &q, 1, &need));
    return need;
}

pkv_seq fx_fork(fx *f, pkv_seq s)
{
    pkv_seq child;
    assert_ok(pkv_seq_fork(f->m, s, &child, 1));
    return child;
}

void fx_truncate(fx *f, pkv_seq s, int32_t n)
{
    assert_ok(pkv_seq_truncate(f->m, s, n));
}

void fx_close(fx *f, pkv_seq s)
{
    assert_ok(pkv_seq_close(f->m, s));
}

int32_t fx_match(fx *f, const char *text, int32_t upto, pkv_seq *out)
{
    int32_t ids[512];
    pkv_tokens t = fx_text(text, ids);
    pkv_seq s = fx_open(f);
    f->match = (pkv_match)PKV_MATCH_INIT;
    assert_ok(pkv_seq_match(f->m, s, &t, t.n, upto, &f->work, &f->match));
    if (out) *out = s;
    else fx_close(f, s);
    return f->match.claimed;
}

int32_t fx_probe(fx *f, const char *text)
{
    int32_t ids[512];
    pkv_tokens t = fx_text(text, ids);
    f->match = (pkv_match)PKV_MATCH_INIT;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &f->match));
    return f->match.claimed;
}

int32_t fx_row_len(fx *f, pkv_seq s)
{
    const int32_t *ids;
    int32_t n;
    assert_ok(pkv_seq_row(f->m, s, 0, &ids, &n));
    return n;
}

int32_t fx_group_block(fx *f, pkv_seq s, int32_t group, int32_t at)
{
    const int32_t *ids;
    int32_t n;
    assert_ok(pkv_seq_row(f->m, s, group, &ids, &n));
    assert_true(at < n);
    return ids[at];
}

int32_t fx_block(fx *f, pkv_seq s, int32_t at)
{
    return fx_group_block(f, s, 0, at);
}

pkv_seq_info_t fx_info(fx *f, pkv_seq s)
{
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    assert_ok(pkv_seq_info(f->m, s, &info));
    return info;
}

pkv_blockmgr_stats_t fx_stats(fx *f)
{
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(f->m, &s);
    assert_int_equal(s.free_blocks + s.active_blocks + s.cached_blocks + s.limbo_blocks +
                         s.quarantine_blocks,
                     s.n_blocks - 1);
    return s;
}

int32_t fx_drain(fx *f)
{
    pkv_blockmgr_stats_t before = fx_stats(f);
    bool *seen = calloc((size_t)before.n_blocks, sizeof *seen);
    pkv_seq s = fx_open(f);
    int32_t n = 0;
    assert_non_null(seen);
    while (fx_try_reserve(f, s, (n + 1) * before.block_tokens) == PKV_OK) {
        int32_t b = fx_block(f, s, n++);
        assert_true(b > 0 && b < before.n_blocks && !seen[b]);
        seen[b] = true;
    }
    fx_close(f, s);
    free(seen);
    assert_int_equal(n, before.free_blocks + before.cached_blocks);
    return n;
}
