/* See op_driver.h: random numbers, texts, configurations, the state compared after each call. */
#include "op_world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint64_t op_next(uint64_t *rng)
{
    uint64_t z = (*rng += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int op_below(uint64_t *rng, int n)
{
    return (int)(op_next(rng) % (uint64_t)n);
}

/* Weights: mostly growth and admission, enough closing that the pool breathes. */
op op_random(uint64_t *rng, int style)
{
    static const uint8_t weight[OP_N_STYLES][OP_N_FN] = {
        { 1, 1, 12, 14, 24, 28, 4, 6, 9, 1, 2, 1, 3, 4 },
        { 1, 1, 12, 10, 28, 28, 3, 24, 6, 1, 2, 1, 3, 4 },
        { 1, 1, 12, 10, 28, 28, 12, 12, 12, 1, 2, 1, 3, 4 },
        { 1, 1, 24, 12, 24, 28, 1, 3, 20, 1, 2, 1, 3, 4 },
    };
    op x = { 0 };
    int sum = 0;
    for (int i = 0; i < OP_N_FN; i++) sum += weight[style][i];
    int r = op_below(rng, sum);
    while (r >= weight[style][x.kind]) r -= weight[style][x.kind++];
    for (int i = 0; i < 5; i++) x.a[i] = (uint32_t)op_next(rng);
    return x;
}

void op_fail(world *w, const char *fmt, ...)
{
    va_list ap;
    if (!w->ok) return;
    w->ok = false;
    va_start(ap, fmt);
    vsnprintf(w->run->why, sizeof w->run->why, fmt, ap);
    va_end(ap);
}

void op_tell(const world *w, const char *fmt, ...)
{
    va_list ap;
    if (!w->run->trace) return;
    va_start(ap, fmt);
    vfprintf(w->run->trace, fmt, ap);
    va_end(ap);
}

/* ---------------------------------------------------------------- tokens */

static pkv_extra image_at(int first, wide t)
{
    pkv_extra e = { first, 1 + (int32_t)((t >> 8 & 0xff) % 5), { 0 } };
    for (int i = 0; i < 32; i++) e.digest[i] = (uint8_t)((t >> 8 & 0xff) * 7u);
    return e;
}

void op_cut_text(call_tokens *c, const wide *text, int from, int n)
{
    c->t = (pkv_tokens){ c->ids, n, c->ex, 0 };
    for (int i = 0; i < from + n;) {
        pkv_extra e = image_at(i - from, text[i]);
        bool image = text[i] & IMAGE;
        if (image && e.first + e.n > 0) c->ex[c->t.n_extras++] = e;
        i += image ? e.n : 1;
    }
    for (int i = 0; i < n; i++) c->ids[i] = (int32_t)(text[from + i] & 0xff) - 1;
}

wide op_random_wide(uint64_t *rng)
{
    wide id = (wide)op_below(rng, 3);
    return op_below(rng, 12) ? id : id | IMAGE | (wide)op_below(rng, 3) << 8;
}

/* Documents share beginnings with each other. */
static void make_docs(world *w, uint64_t *rng)
{
    for (int d = 0; d < N_DOCS; d++) {
        int shared = d ? op_below(rng, w->o->cfg.max_seq_tokens + 1) : 0;
        if (d) memcpy(w->doc[d], w->doc[op_below(rng, d)], sizeof w->doc[0]);
        bool ids_too = op_below(rng, 3); /* or the images only */
        for (int i = shared; i < OR_TOKENS; i++) {
            wide t = op_random_wide(rng);
            w->doc[d][i] = ids_too || !d ? t : (t & ~0xffu) | (w->doc[d][i] & 0xff);
        }
    }
}

void op_tell_tokens(const world *w, const pkv_tokens *t)
{
    op_tell(w, "[");
    for (int i = 0; i < t->n && i < 40; i++) op_tell(w, i ? " %d" : "%d", t->ids ? t->ids[i] : -9);
    op_tell(w, "]");
    for (int i = 0; i < t->n_extras; i++)
        op_tell(w, " extra(%d+%d #%d)", t->extras[i].first, t->extras[i].n, t->extras[i].digest[0]);
}

void op_spoil_tokens(const world *w, call_tokens *c, uint32_t how)
{
    int last = c->t.n_extras - 1;
    switch (how % OP_SPOILS) {
    case 0:
        c->t.n = -1;
        break;
    case 1:
        c->t.n_extras = -1;
        break;
    case 2:
        if (w->o->cfg.flags & PKV_MGR_PREFIX_CACHE && c->t.n) c->t.ids = NULL;
        break;
    case 3:
        if (last >= 0) c->ex[last].n = 0;
        break;
    case 4:
        if (last >= 0) c->ex[last].first = c->t.n;
        break;
    case 5:
        if (last >= 0) c->ex[0].first = -c->ex[0].n;
        break;
    case 6:
        if (last >= 1) c->ex[0].first = c->ex[1].first;
        break;
    case 7:
        if (last >= 0) c->ex[0].n = INT32_MAX, c->ex[c->t.n_extras++] = c->ex[0];
        break;
    case 8:
        if (last >= 0 && c->ex[0].first < 0) c->ex[0].digest[31] ^= 1;
        break;
    case 10:
        if (last < 0) c->t.n_extras = c->t.n > 0, c->ex[0] = image_at(-1, 0), c->ex[0].n = 2;
        else if (c->ex[0].first >= 0) c->ex[0].n += c->ex[0].first + 1, c->ex[0].first = -1;
        break;
    default:
        if (last >= 0) c->ex[0].first = INT32_MIN;
    }
}

/* ---------------------------------------------------------------- runs */

/* Small pools, short rows, few tokens: so that everything happens often. */
static void make_config(pkv_blockmgr_config *cfg, uint64_t *rng, int style, uint8_t secret)
{
    static const int32_t tokens[] = { 1, 2, 2, 3, 4, 4, 5, 8, 16 }, pool[] = { 3, 8, 24, 70 };
    *cfg = (pkv_blockmgr_config)PKV_BLOCKMGR_CONFIG_INIT;
    cfg->block_tokens = tokens[op_below(rng, 9)];
    cfg->n_blocks = 2 + op_below(rng, pool[op_below(rng, 4)]);
    cfg->max_seqs = 1 + op_below(rng, op_below(rng, 4) ? 6 : OR_SEQS);
    int32_t n = cfg->block_tokens * (1 + op_below(rng, 9)) + op_below(rng, cfg->block_tokens);
    cfg->max_seq_tokens = n < OR_TOKENS - 2 ? n : OR_TOKENS - 2;
    cfg->max_nodes = 0;
    if (style == 2 && !op_below(rng, 3)) cfg->max_nodes = 1 + op_below(rng, 2);
    else if (!op_below(rng, 6)) cfg->max_nodes = 1 + op_below(rng, cfg->n_blocks);
    cfg->max_extras = op_below(rng, 4) ? 0 : 1 + op_below(rng, 6);
    cfg->max_namespaces = 1 + op_below(rng, OR_NS);
    cfg->flags = op_below(rng, 10) ? PKV_MGR_PREFIX_CACHE : 0;
    if (cfg->flags && op_below(rng, 4)) cfg->flags |= PKV_MGR_PARTIAL_HITS;
    if (!op_below(rng, 5)) cfg->flags |= PKV_MGR_PLAIN_LRU;
    if (!op_below(rng, 4)) cfg->flags |= PKV_MGR_IN_ORDER;
    cfg->zero_policy = (pkv_zero_policy)op_below(rng, 3);
    memset(cfg->hash_secret, secret, sizeof cfg->hash_secret);
}

static void compare_row(world *w, int idx, const int32_t *rows, int32_t width)
{
    const or_seq *s = &w->o->seq[idx];
    pkv_seq h = { (uint64_t)s->gen << 32 | (uint32_t)idx };
    pkv_seq_info_t io = PKV_SEQ_INFO_INIT, im = PKV_SEQ_INFO_INIT;
    const int32_t *ids;
    int32_t n;
    if (or_info(w->o, h, &io) != PKV_OK || pkv_seq_info(w->mgr, h, &im) != PKV_OK ||
        pkv_seq_row(w->mgr, h, 0, &ids, &n) != PKV_OK) {
        op_fail(w, "sequence %d is unknown", idx);
        return;
    }
    if (memcmp(&io, &im, sizeof io))
        op_fail(w,
                "sequence %d: settled %d committed %d reserved %d row %d blocks %d if_closed %d "
                "indexed %d ns %llx, expected %d %d %d %d %d %d %d %llx",
                idx, im.settled, im.committed, im.reserved, im.row_idx, im.n_blocks,
                im.blocks_if_closed, im.n_indexed, (unsigned long long)im.ns.v, io.settled,
                io.committed, io.reserved, io.row_idx, io.n_blocks, io.blocks_if_closed,
                io.n_indexed, (unsigned long long)io.ns.v);
    if (n != s->n_row || ids != rows + (ptrdiff_t)im.row_idx * width)
        op_fail(w, "row of sequence %d: %d ids, expected %d", idx, n, s->n_row);
    for (int i = 0; i < width && w->ok; i++)
        if (ids[i] != (i < s->n_row ? s->row[i] : 0))
            op_fail(w, "row of sequence %d: [%d] is %d, expected %d", idx, i, ids[i],
                    i < s->n_row ? s->row[i] : 0);
}

static void compare_stats(world *w)
{
    pkv_blockmgr_stats_t so = PKV_BLOCKMGR_STATS_INIT, sm = PKV_BLOCKMGR_STATS_INIT;
    or_stats(w->o, &so);
    pkv_blockmgr_stats(w->mgr, &sm);
    if (!memcmp(&so, &sm, sizeof so)) return;
    const int32_t *a = &so.block_tokens, *b = &sm.block_tokens;
    for (int i = 0; &a[i] <= &so.extras; i++)
        if (a[i] != b[i]) op_fail(w, "statistics, count %d: %d, expected %d", i, b[i], a[i]);
    const uint64_t *c = &so.query_tokens, *d = &sm.query_tokens;
    for (int i = 0; &c[i] <= &so.unindexed_units; i++)
        if (c[i] != d[i])
            op_fail(w, "statistics, sum %d: %llu, expected %llu", i, (unsigned long long)d[i],
                    (unsigned long long)c[i]);
}

static void compare_state(world *w)
{
    const char *broken = or_check(w->o);
    if (broken) op_fail(w, "oracle: %s", broken);
    if (w->run->alone || !w->ok) return;
    const int32_t *rows = NULL;
    int32_t width = 0;
    if (pkv_blockmgr_check(w->mgr, 3) != PKV_OK) op_fail(w, "the manager's check at level 3");
    if (pkv_blockmgr_rows(w->mgr, 0, &rows, &width) != PKV_OK ||
        width * w->o->T < w->o->cfg.max_seq_tokens)
        op_fail(w, "rows");
    for (int i = 0; i < w->o->cfg.max_seqs && w->ok; i++)
        if (w->o->seq[i].open) compare_row(w, i, rows, width);
    if (w->ok) compare_stats(w);
    uint8_t digest[16];
    pkv_blockmgr_digest(w->mgr, digest);
    if (w->same_digest && memcmp(digest, w->digest, 16))
        op_fail(w, "a refusal or a question changed the digest");
    memcpy(w->digest, digest, 16);
    for (int i = 0; i < 16; i++) w->run->digests = (w->run->digests ^ digest[i]) * 0x100000001b3u;
}

static void begin(world *w, op_run *run, pkv_blockmgr_config *cfg, void **arena)
{
    uint64_t rng = run->seed;
    const int style = (int)(run->seed % OP_N_STYLES);
    make_config(cfg, &rng, style, run->secret);
    or_init(w->o, cfg);
    w->o->probe_nodes = run->most_nodes;
    make_docs(w, &rng);
    w->wild = style == 3 ? 2 : 1u << (1 + op_below(&rng, 5));
    w->run = run;
    w->ok = true;
    w->stale_ns.v = (uint64_t)9 << 32 | 1;
    for (int i = 0; i < N_STALE; i++) w->stale[i].v = i ? (uint64_t)i << 40 : 0;
    op_tell(
        w,
        "seed %llu: blocks %d x %d, seqs %d x %d, nodes %d, extras %d, ns %d, flags %x, zero %d\n",
        (unsigned long long)run->seed, cfg->n_blocks, cfg->block_tokens, cfg->max_seqs,
        cfg->max_seq_tokens, cfg->max_nodes, cfg->max_extras, cfg->max_namespaces, cfg->flags,
        (int)cfg->zero_policy);
    if (run->alone) return;
    size_t bytes = pkv_blockmgr_bytes(cfg);
    *arena = bytes ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    if (!*arena || pkv_blockmgr_init(*arena, bytes, cfg, &w->mgr) != PKV_OK) op_fail(w, "init");
    else pkv_blockmgr_digest(w->mgr, w->digest);
}

bool op_run_list(op_run *run, const op *ops, int n_ops)
{
    world *w = calloc(1, sizeof *w);
    oracle *o = malloc(sizeof *o);
    void *arena = NULL;
    pkv_blockmgr_config cfg;
    if (!w || !o) abort();
    w->o = o;
    run->failed_at = -1;
    run->digests = 0xcbf29ce484222325u;
    begin(w, run, &cfg, &arena);
    for (int i = 0; i < n_ops && w->ok; i++) {
        op_tell(w, "%4d ", i);
        op_call(w, &ops[i]);
        if (w->ok) compare_state(w);
        if (!w->ok) run->failed_at = i;
    }
    bool ok = w->ok;
    if (run->cover) {
        for (int i = 0; i < OR_N_COVER; i++) run->cover->inside[i] += o->cover[i];
        run->cover->ops += (uint64_t)n_ops;
    }
    free(arena);
    free(o);
    free(w);
    return ok;
}
