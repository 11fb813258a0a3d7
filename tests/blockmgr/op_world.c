/* See op_driver.h: random numbers, texts, runs. */
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

unsigned op_feature_of(int kind)
{
    static const uint8_t feature[OP_N_FN] = {
#define OP_FN_FEATURE(name, feature) OP_##feature,
        OP_FN_LIST(OP_FN_FEATURE)
#undef OP_FN_FEATURE
    };
    return feature[kind];
}

unsigned op_features_of_seed(uint64_t seed, unsigned allowed)
{
    uint64_t rng = seed ^ 0x5bd1e995;
    const int r = op_below(&rng, 4);
    return r == 0 ? 0 : r == 1 ? allowed & (unsigned)op_next(&rng) : allowed;
}

/* Weights: mostly growth and admission, enough closing that the pool breathes. */
op op_random(uint64_t *rng, int style, unsigned features)
{
    static const uint8_t weight[OP_N_STYLES][OP_N_FN] = {
        { 1, 1, 12, 14, 24, 28, 4, 6, 9, 1, 2, 1, 3, 4, 9, 5, 1, 2, 1, 1,
          1, 2, 3,  3,  4,  1,  1, 2, 3, 3, 1, 3, 3, 2, 2, 1, 1, 1, 1 },
        { 1, 1, 12, 10, 28, 28, 3, 24, 6, 1, 2, 1, 3, 4, 9, 5, 2, 1, 1, 1,
          1, 2, 3,  3,  4,  1,  1, 2,  3, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1 },
        { 1, 1, 12, 10, 28, 28, 12, 12, 12, 1, 2, 1, 3, 4, 10, 6, 2, 2, 1, 1,
          1, 2, 2,  2,  3,  1,  1,  2,  4,  2, 2, 2, 2, 1, 2,  1, 2, 1, 1 },
        { 1, 1, 24, 12, 24, 28, 1, 3, 20, 1, 2, 1, 3, 4, 10, 6, 2, 3, 1, 1,
          1, 2, 3,  3,  4,  1,  1, 1, 2,  4, 1, 4, 4, 3, 2,  1, 1, 1, 1 },
        { 1, 1, 8, 5, 30, 40, 4, 5, 5, 1, 1, 1, 2, 3, 22, 9, 5, 1, 1, 1,
          1, 1, 2, 2, 2,  1,  1, 2, 3, 2, 1, 2, 2, 1, 2,  1, 1, 1, 1 },
    };
    op x = { 0 };
    int sum = 0, now[OP_N_FN];
    for (int i = 0; i < OP_N_FN; i++)
        sum += now[i] = op_feature_of(i) & ~features ? 0 : weight[style][i];
    int r = op_below(rng, sum);
    while (r >= now[x.kind]) r -= now[x.kind++];
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
        int shared = d ? op_below(rng, w->cfg.max_seq_tokens + 1) : 0;
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
        if (w->cfg.flags & PKV_MGR_PREFIX_CACHE && c->t.n) c->t.ids = NULL;
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

static void tell_config(const world *w)
{
    static const char *const kind[] = { "full", "sliding", "chunked", "state" };
    const pkv_blockmgr_config *c = &w->cfg;
    op_tell(w,
            "seed %llu: blocks %d, seqs %d x %d, nodes %d, extras %d, ns %d, flags %x, zero %d, "
            "steps %d, holds %d, host %d, rollback %d\n",
            (unsigned long long)w->run->seed, c->n_blocks, c->max_seqs, c->max_seq_tokens,
            c->max_nodes, c->max_extras, c->max_namespaces, c->flags, (int)c->zero_policy,
            c->max_steps, c->max_holds, c->n_host_blocks, c->rollback_tokens);
    for (int i = 0; i < w->n_groups; i++)
        op_tell(w, "  group %d: %s, tokens %d, window %d, sink %d, state %d\n", i,
                kind[w->group[i].kind], w->group[i].block_tokens, w->group[i].window_tokens,
                w->group[i].sink_tokens, w->group[i].state_blocks);
}

static void begin(world *w, op_run *run, void **arena)
{
    uint64_t rng = run->seed;
    const int style = (int)(run->seed % OP_N_STYLES);
    const pkv_blockmgr_config *cfg = &w->cfg;
    w->run = run;
    w->features = op_features_of_seed(run->seed, run->features);
    op_make_config(w, &rng, style);
    or_init(w->o, cfg);
    w->o->probe_nodes = run->most_nodes;
    make_docs(w, &rng);
    w->wild = style == 3 ? 2 : 1u << (2 + op_below(&rng, 6));
    w->ok = true;
    w->stale_ns.v = (uint64_t)9 << 32 | 1;
    w->stale_step.v = 9999;
    for (int i = 0; i < N_STALE; i++) w->stale[i].v = i ? (uint64_t)i << 40 : 0;
    tell_config(w);
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
    if (!w || !o) abort();
    w->o = o;
    run->failed_at = -1;
    run->digests = 0xcbf29ce484222325u;
    begin(w, run, &arena);
    for (int i = 0; i < n_ops && w->ok; i++) {
        op_tell(w, "%4d ", i);
        op_call(w, &ops[i]);
        if (w->ok) op_compare_state(w);
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
