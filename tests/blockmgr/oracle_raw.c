/* See oracle.h: raw references (blockmgr_raw.h). One FULL group, so a block is a unit. */
#include "oracle_blocks.h"

#include <string.h>

static bool supported(const oracle *o)
{
    return o->G == 1 && o->grp[0].kind == PKV_GROUP_FULL;
}

static int ns_of(const oracle *o, pkv_ns ns)
{
    for (int i = 0; i < o->cfg.max_namespaces; i++)
        if (o->ns[i].opens && or_handle(o->ns[i].gen, i) == ns.v) return i;
    return -1;
}

static bool is_id(const oracle *o, int32_t b)
{
    return b > 0 && b < o->cfg.n_blocks;
}

/* The node that the block is main or spare of, or NULL. */
static or_node *node_on(oracle *o, int32_t b)
{
    int g, k;
    return is_id(o, b) ? or_node_of(o, b, &g, &k) : NULL;
}

bool or_has_content(oracle *o, int32_t block)
{
    return is_id(o, block) && or_covered(o, block) > 0;
}

int or_depth(oracle *o, int32_t block)
{
    const or_node *nd = node_on(o, block);
    int n = 0;
    if (!nd || nd->key.n < o->T) return 0;
    for (n = 1; nd->parent >= 0; n++) nd = &o->node[nd->parent];
    return n;
}

pkv_status or_blocks_take(oracle *o, int32_t n, int32_t *ids, pkv_block_work *w)
{
    if (n < 0) return PKV_E_INVALID_ARG;
    if (!supported(o)) return PKV_E_UNSUPPORTED;
    if (n > o->cfg.n_blocks - 1) return PKV_E_NEVER;
    pkv_status st = or_verdict(o, n);
    if (st != PKV_OK) return st;
    if (or_zeros_of(o, n, 0) > w->zero_cap) return PKV_E_LIMIT;
    w->n_zero = w->n_copy = 0;
    for (int i = 0; i < n; i++) {
        ids[i] = or_take(o, w);
        o->late.raw[ids[i]] = 1;
    }
    or_run_work(o, w);
    return PKV_OK;
}

static void add_ref(oracle *o, int32_t b)
{
    if (!or_refs(o, b)) {
        int c, at;
        o->cover[or_listed(o, b, &c, &at) ? OR_RAW_FROM_CACHED : OR_RAW_FROM_LIMBO]++;
        or_claim(o, b);
    }
    o->late.raw[b]++;
}

/* A sequence has reserved slots in it that it has not committed. */
static bool being_written(const oracle *o, int32_t b)
{
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++)
        for (int p = s->committed; s->open && p < s->reserved; p++)
            if (s->row[0][p / o->T] == b) return true;
    return false;
}

pkv_status or_blocks_ref(oracle *o, const int32_t *ids, int32_t n)
{
    if (n < 0) return PKV_E_INVALID_ARG;
    if (!supported(o)) return PKV_E_UNSUPPORTED;
    for (int i = 0; i < n; i++)
        if (!is_id(o, ids[i]) || (!or_refs(o, ids[i]) && !node_on(o, ids[i])) ||
            being_written(o, ids[i]))
            return PKV_E_INVALID_ARG;
    for (int i = 0; i < n; i++) add_ref(o, ids[i]);
    return PKV_OK;
}

pkv_status or_blocks_unref(oracle *o, const int32_t *ids, int32_t n)
{
    if (n < 0) return PKV_E_INVALID_ARG;
    if (!supported(o)) return PKV_E_UNSUPPORTED;
    for (int i = 0; i < n; i++) {
        int wanted = 0;
        for (int k = 0; k <= i; k++) wanted += ids[k] == ids[i];
        if (!is_id(o, ids[i]) || wanted > o->late.raw[ids[i]]) return PKV_E_INVALID_ARG;
    }
    o->raw_used = true; /* parents first is legal */
    for (int i = 0; i < n; i++) {
        o->late.raw[ids[i]]--;
        o->cover[OR_RAW_LAST_REF] += !or_refs(o, ids[i]);
        or_release(o, ids[i]);
    }
    return PKV_OK;
}

/* ---------------------------------------------------------------- content */

/* Sums of the unit, as of a sequence that goes on behind `parent`. */
static void sums_of(oracle *o, int ns, const or_node *parent, const pkv_tokens *t, uint64_t *sum)
{
    or_seq s = { .ns = ns, .epoch = o->epoch, .committed = parent ? o->T : 0 };
    if (parent) s.sum[o->T - 1] = parent->sum[o->T - 1];
    or_append(o, &s, t, t->n);
    memcpy(sum, s.sum + s.committed, (size_t)o->T * sizeof *sum);
}

pkv_status or_block_publish(oracle *o, pkv_ns ns, int32_t parent, const pkv_tokens *t,
                            int32_t block)
{
    uint64_t sum[OR_T];
    int blocks[OR_G] = { block }, nodes, extras;
    if (!or_tokens_ok(o, t) || t->n != o->T) return PKV_E_INVALID_ARG;
    if (!supported(o) || !(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return PKV_E_UNSUPPORTED;
    const int n = ns_of(o, ns);
    if (n < 0) return PKV_E_STALE;
    if (!is_id(o, block) || !o->late.raw[block]) return PKV_E_INVALID_ARG;
    const or_node *up = node_on(o, parent);
    if (parent && (!up || !o->late.raw[parent] || up->key.n < o->T || up->ns != n))
        return PKV_E_INVALID_ARG;
    if (up && up->epoch != o->epoch) return PKV_E_IDENTITY;
    const int at = up ? (int)(up - o->node) : -1;
    const or_unit u = or_unit_at(t->ids, t->extras, t->n_extras, 0, o->T);
    const or_node *known = or_find(o, n, at, &u);
    if (known && node_on(o, block) == known) return PKV_OK;
    if (or_has_content(o, block)) return PKV_E_STATE;
    or_count_content(o, &nodes, &extras);
    if (!known && extras + u.n_ex > o->cfg.max_extras) return PKV_E_LIMIT;
    sums_of(o, n, up, t, sum);
    if (or_publish(o, n, at, &u, sum, blocks, -1) < 0) return PKV_E_LIMIT;
    for (int i = 0; i < o->T; i++) o->bytes[block][i] = or_slot_sum(0, sum[i]);
    memset(o->writer[block], 0, sizeof o->writer[0]);
    o->cover[known ? OR_RAW_SPARE : OR_RAW_PUBLISHED]++;
    return PKV_OK;
}

pkv_status or_blocks_lookup(oracle *o, pkv_ns ns, const pkv_tokens *p, int32_t *ids, int32_t cap,
                            int32_t *n)
{
    if (cap < 0 || !or_tokens_ok(o, p)) return PKV_E_INVALID_ARG;
    if (!supported(o)) return PKV_E_UNSUPPORTED;
    const int space = ns_of(o, ns);
    if (space < 0) return PKV_E_STALE;
    *n = 0;
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return PKV_OK;
    for (int parent = -1; *n < cap && (*n + 1) * o->T <= p->n; ++*n) {
        const or_unit u = or_unit_at(p->ids, p->extras, p->n_extras, *n * o->T, o->T);
        or_node *nd = or_find(o, space, parent, &u);
        if (!nd || !nd->main[0]) break;
        add_ref(o, ids[*n] = nd->main[0]);
        nd->hit = true;
        parent = (int)(nd - o->node);
    }
    return PKV_OK;
}
