/* Match: claim the longest cached prefix of a prompt, and room beyond it, in one call.
 *
 *   known units        n1 n2 n3 n4 n5 n6 .         nodes along the prompt
 *   FULL               [7][3][9][4] -  -           lead 4
 *   SLIDING            -  -  [5][8][6] -           run 3: enough for its window at n4 and n5
 *   claim                          ^ n4: the longest length that every group serves
 *
 * Each unit is first compared with the newest child of the unit before, and hashed and looked up
 * only if that is another one: a continued conversation or a shared prompt finds itself along the
 * newest children, comparing costs less than hashing, and a node remembers its hash. Nodes and
 * their tokens are one piece of memory, and the next newest child is fetched while this one is
 * claimed.
 *
 * Measured, 38k tokens in blocks of 16 (AMD Zen 5 virtual machine, medians; the last one moves with
 * the neighbours): hot 38 us, just written 51 us, nodes scattered and out of cache 230 .. 390 us.
 * Hashing every unit twelve ahead of its look-up, with prefetches, took 103, 142 and 213 us and
 * twice the code. With tokens in a slab of their own the scattered case took 440 us. */
#include "blockmgr_internal.h"

enum { MAX_SIBLINGS = 16 };

/* What was found. Nodes of the known units are in the scratch array. */
struct hit {
    int32_t limit;          /* tokens that were asked for */
    int32_t n_known;        /* leading units that have a node */
    int32_t n_units;        /* of the claim */
    int32_t last_node;      /* of the claim's units, or the root */
    int32_t partial_tokens; /* of partial_node that agree; 0: none */
    int32_t partial_node;
    int32_t cached, limbo; /* blocks of the claim in these states */
    int32_t longest[PKV_MAX_GROUPS];
    bool cut; /* something was given up for want of room */
};

/* How far the blocks of one group reach while the units are walked along. */
struct reach {
    int32_t lead; /* blocks from the beginning without a gap */
    int32_t run;  /* blocks without a gap up to the last one */
};

int32_t pkv__unit_find(const pkv_blockmgr *m, const pkv_tokens *t, int32_t u, int32_t parent,
                       int32_t *cursor)
{
    const int32_t unit = m->unit, newest = *pkv__children_of(m, parent);
    struct unit_key key = { 0, parent, t->ids + (size_t)u * (size_t)unit, unit,
                            extra_entries(NONE) };
    if (t->n_extras > 0) key.extras = pkv__extras_at(t, u * unit, cursor);
    if (newest != NONE) {
        key.hash = node_at(m, newest)->hash;
        if (pkv__node_holds(m, newest, &key)) return newest;
    }
    key.hash = pkv__unit_hash(m, &key);
    return pkv__index_find(m, &key);
}

/* Does a query at `pos` see nothing below it? */
static bool sees_nothing(const struct group_rec *g, int32_t pos)
{
    return g->window_tokens > 0 && g->sink_tokens == 0 && pkv__first_seen(g, pos) == pos;
}

/* May a claim of this length end in the group? */
static bool may_end(const struct group_rec *g, int32_t pos)
{
    return g->kind == PKV_GROUP_STATE || block_offset(g, pos) == 0 || sees_nothing(g, pos);
}

/* Has the group what a query behind `pos` tokens, which end with node n, needs? */
static bool serves(const struct group_rec *g, const struct reach *r, const struct node *n,
                   int32_t pos)
{
    if (g->kind == PKV_GROUP_STATE) {
        for (int32_t k = 0; k < g->n_slots; k++)
            if (n->at[g->slot + k].block == NONE) return false;
        return true;
    }
    if (sees_nothing(g, pos)) return true;
    const int32_t n_blocks = block_index(g, pos);
    if (block_offset(g, pos) != 0) return false;
    if (g->window_tokens == 0) return r->lead == n_blocks;
    return r->run >= n_blocks - block_index(g, pkv__first_seen(g, pos)) &&
           r->lead >= pkv__min_i32(g->sink_blocks, n_blocks);
}

/* Unit u, with node n, is known: what can be served up to its end? */
static void extend_hit(const pkv_blockmgr *m, struct hit *hit, struct reach *reach, int32_t u,
                       int32_t id)
{
    const struct node *n = node_at(m, id);
    const int32_t pos = (u + 1) * m->unit;
    bool all = true;
    if (m->simple) { /* the general case below, without its questions */
        if (n->at[0].block == NONE || hit->n_units < u) return;
        hit->longest[0] = pos;
        hit->n_units = u + 1, hit->last_node = id;
        return;
    }
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        struct reach *r = &reach[g];
        if (grp->kind != PKV_GROUP_STATE && (grp->ratio == 1 || (u + 1) % grp->ratio == 0)) {
            const bool there = n->at[grp->slot].block != NONE;
            r->run = there ? r->run + 1 : 0;
            r->lead += there && r->lead == block_index(grp, pos) - 1;
        }
        const bool served = serves(grp, r, n, pos);
        if (served) hit->longest[g] = pos;
        all = all && served;
    }
    if (all) hit->n_units = u + 1, hit->last_node = id;
}

/* Walk along the units that are known. */
static void find_units(const pkv_blockmgr *m, const pkv_tokens *t, struct hit *hit)
{
    struct reach reach[PKV_MAX_GROUPS] = { { 0, 0 } };
    int32_t cursor = 0, parent = hit->last_node;
    while ((hit->n_known + 1) * m->unit <= hit->limit) {
        const int32_t id = pkv__unit_find(m, t, hit->n_known, parent, &cursor);
        if (id == NONE) return;
        const struct node *n = node_at(m, id);
        if (n->first_child != NONE) {
            PKV_PREFETCH(node_at(m, n->first_child));
            PKV_PREFETCH((char *)node_at(m, n->first_child) + 64); /* the second line */
        }
        if (n->at[0].block != NONE) PKV_PREFETCH(&blocks_of(m)[n->at[0].block]);
        scratch_of(m)[hit->n_known] = parent = id;
        extend_hit(m, hit, reach, hit->n_known++, id);
    }
}

static int32_t common_tokens(const int32_t *a, const int32_t *b, int32_t n)
{
    int32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static bool in_every_group(const pkv_blockmgr *m, const struct node *n)
{
    for (int32_t k = 0; k < m->n_slots; k++)
        if (n->at[k].block == NONE) return false;
    return true;
}

/* The best continuation of less than a unit: most tokens, then newest. */
static void find_partial(const pkv_blockmgr *m, const pkv_tokens *t, struct hit *hit)
{
    const int32_t start = hit->n_units * m->unit, rest = hit->limit - start;
    int32_t cursor = 0, id = *pkv__children_of(m, hit->last_node);
    const struct extra_list extras = pkv__extras_at(t, start, &cursor);
    for (int i = 0; i < MAX_SIBLINGS && id != NONE; i++, id = node_at(m, id)->older) {
        const struct node *n = node_at(m, id);
        if (n->epoch != m->epoch) return; /* and so are all behind it */
        if (!in_every_group(m, n)) continue;
        int32_t common =
            common_tokens(node_tokens(m, id), t->ids + start, pkv__min_i32(n->n_tokens, rest));
        common = pkv__extras_common(m, extra_entries(n->extras), extras, common);
        if (common > hit->partial_tokens) hit->partial_tokens = common, hit->partial_node = id;
    }
}

/* Blocks of a group that a claim of n_units takes: [0, sinks) and [from, to). */
struct claim_range {
    int32_t sinks, from, to;
};
static struct claim_range claim_range(const pkv_blockmgr *m, int32_t g, int32_t n_units)
{
    const struct group_rec *grp = &m->groups[g];
    const int32_t pos = n_units * m->unit;
    struct claim_range r = { 0, 0, 0 };
    if (grp->kind == PKV_GROUP_STATE) return r;
    r.to = block_index(grp, pos);
    if (grp->window_tokens == 0) return r;
    r.sinks = pkv__min_i32(grp->sink_blocks, r.to);
    r.from = pkv__max_i32(r.sinks, block_index(grp, pkv__first_seen(grp, pos)));
    return r;
}

/* The first claimed entry from i on; r->to or more: none is left. */
static inline int32_t claimed_from(const struct claim_range *r, int32_t i)
{
    return i < r->sinks ? i : pkv__max_i32(i, r->from);
}

/* The main block that ends a known prefix: block i of the group. */
static int32_t known_block(const pkv_blockmgr *m, const struct group_rec *g, int32_t i)
{
    return node_at(m, scratch_of(m)[(i + 1) * g->ratio - 1])->at[g->slot].block;
}

static void count_states(const pkv_blockmgr *m, struct hit *hit)
{
    hit->cached = hit->limbo = 0;
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct claim_range r = claim_range(m, g, hit->n_units);
        for (int32_t i = claimed_from(&r, 0); i < r.to; i = claimed_from(&r, i + 1)) {
            const uint8_t state = blocks_of(m)[known_block(m, &m->groups[g], i)].state;
            hit->cached += state == BLOCK_CACHED;
            hit->limbo += state == BLOCK_LIMBO;
        }
    }
}

static void find_hit(const pkv_blockmgr *m, int32_t root, const pkv_tokens *t, int32_t limit,
                     struct hit *hit)
{
    *hit = (struct hit){ .last_node = root, .limit = limit, .partial_node = NONE };
    if (!has_flag(m, PKV_MGR_PREFIX_CACHE)) return;
    find_units(m, t, hit);
    if (m->partial && hit->n_units * m->unit < limit) find_partial(m, t, hit);
    count_states(m, hit);
}

static int32_t claimed_tokens(const pkv_blockmgr *m, const struct hit *hit)
{
    return hit->n_units * m->unit + hit->partial_tokens;
}

/* Could the group have ended a claim at a multiple of the unit in (from, upto]? */
static bool could_end(const pkv_blockmgr *m, const struct group_rec *g, int32_t from, int32_t upto)
{
    for (int32_t pos = upto - unit_offset(m, upto); pos > from; pos -= m->unit)
        if (may_end(g, pos)) return true;
    return false;
}

static pkv_stop_reason stop_reason(const pkv_blockmgr *m, const struct hit *hit, int32_t g)
{
    const struct group_rec *grp = &m->groups[g];
    if (!has_flag(m, PKV_MGR_PREFIX_CACHE)) return PKV_STOP_OFF;
    if (hit->cut) return PKV_STOP_ROOM;
    if (claimed_tokens(m, hit) == hit->limit ||
        (!m->partial && !could_end(m, grp, hit->longest[g], hit->limit)))
        return PKV_STOP_END;
    if (grp->kind == PKV_GROUP_FULL || !could_end(m, grp, hit->longest[g], hit->n_known * m->unit))
        return PKV_STOP_MISS;
    return grp->kind == PKV_GROUP_STATE ? PKV_STOP_STATE : PKV_STOP_WINDOW;
}

static pkv_match describe(const pkv_blockmgr *m, const struct hit *hit)
{
    pkv_match out = PKV_MATCH_INIT;
    out.claimed = claimed_tokens(m, hit);
    out.claimed_cached = hit->cached;
    out.copied = hit->partial_tokens;
    for (int32_t g = 0; g < m->n_groups; g++) {
        out.longest[g] = hit->longest[g];
        out.stop_reason[g] = stop_reason(m, hit, g);
    }
    return out;
}

/* ---------------------------------------------------------------- room */

/* Blocks that a match takes in a group beyond what it claims. */
static int32_t new_blocks(const pkv_blockmgr *m, const struct hit *hit, int32_t g,
                          int32_t reserve_upto)
{
    const struct group_rec *grp = &m->groups[g];
    const int32_t want = pkv__max_i32(reserve_upto, claimed_tokens(m, hit));
    if (grp->kind == PKV_GROUP_STATE) return want > 0 ? grp->n_slots : 0;
    return blocks_for(grp, want) - block_index(grp, hit->n_units * m->unit);
}

static int64_t all_new_blocks(const pkv_blockmgr *m, const struct hit *hit, int32_t reserve_upto)
{
    int64_t n = 0;
    for (int32_t g = 0; g < m->n_groups; g++) n += new_blocks(m, hit, g, reserve_upto);
    return n;
}

/* The block that comes as a copy into `slot`, or NONE: of the partial node, or of the snapshot at
 * the end of the claim. */
static int32_t source_of(const pkv_blockmgr *m, const struct hit *hit, int32_t g, int32_t k)
{
    const struct group_rec *grp = &m->groups[g];
    if (grp->kind == PKV_GROUP_STATE)
        return hit->n_units > 0 ? node_at(m, hit->last_node)->at[grp->slot + k].block : NONE;
    return hit->partial_tokens > 0 && k == 0 ? node_at(m, hit->partial_node)->at[grp->slot].block
                                             : NONE;
}

/* Copies that the match makes; of their sources, those that are CACHED. */
static int32_t count_sources(const pkv_blockmgr *m, const struct hit *hit, int32_t *cached)
{
    int32_t n = 0;
    *cached = 0;
    for (int32_t g = 0; g < m->n_groups; g++) {
        for (int32_t k = 0; k < m->groups[g].n_slots; k++) {
            const int32_t block = source_of(m, hit, g, k);
            n += block != NONE;
            *cached += block != NONE && blocks_of(m)[block].state == BLOCK_CACHED;
        }
    }
    return n;
}

/* What does not fit without evicting its own sources or the claim is given up: the partial hit, and
 * a claim with a snapshot altogether. */
static void cut_to_room(const pkv_blockmgr *m, struct hit *hit, int32_t reserve_upto, int32_t room,
                        int32_t root)
{
    int32_t cached;
    if (count_sources(m, hit, &cached) == 0) return;
    if (all_new_blocks(m, hit, reserve_upto) <= room - hit->cached - cached) return;
    hit->cut = true;
    hit->partial_tokens = 0, hit->partial_node = NONE;
    if (!m->states) return;
    hit->n_units = 0, hit->last_node = root;
    count_states(m, hit);
}

/* ---------------------------------------------------------------- claiming */

static void claim_group(pkv_blockmgr *m, struct seq_rec *s, const struct hit *hit, int32_t g)
{
    const struct group_rec *grp = &m->groups[g];
    const struct claim_range r = claim_range(m, g, hit->n_units);
    const int32_t pos = hit->n_units * m->unit;
    int32_t *row = row_of(m, s, g);
    for (int32_t i = claimed_from(&r, 0); i < r.to; i = claimed_from(&r, i + 1)) {
        row[i] = known_block(m, grp, i);
        pkv__block_ref(m, row[i]);
    }
    if (grp->window_tokens == 0) return;
    *seq_group(m, s, g) = (struct seq_group){ block_index(grp, pkv__first_seen(grp, pos)),
                                              block_offset(grp, pos) != 0 ? pos : 0 };
}

static void take_group(pkv_blockmgr *m, struct seq_rec *s, const struct hit *hit, int32_t g,
                       int32_t reserve_upto, pkv_block_work *work)
{
    const struct group_rec *grp = &m->groups[g];
    const bool state = grp->kind == PKV_GROUP_STATE;
    const int32_t n_new = new_blocks(m, hit, g, reserve_upto), idx = seq_index(m, s);
    const int32_t first = state ? 0 : block_index(grp, hit->n_units * m->unit);
    int32_t *row = row_at(m, g, idx);
    for (int32_t i = 0; i < n_new; i++) {
        row[first + i] = pkv__take_for_work(m, grp->slot + (state ? i : 0), work);
        const int32_t source = state || i == 0 ? source_of(m, hit, g, i) : NONE;
        if (source != NONE)
            work->copy[work->n_copy++] =
                (pkv_block_copy){ source, row[first + i], state ? 0 : hit->partial_tokens, g };
    }
    if (first + n_new == 0) return;
    pkv__row_changed(m, g, idx, 0);
    pkv__row_changed(m, g, idx, first + n_new - 1);
}

/* The tokens that the copy brings are the sequence's tail. */
static void adopt_partial(pkv_blockmgr *m, struct seq_rec *s, const pkv_tokens *t,
                          const struct hit *hit)
{
    const int32_t start = hit->n_units * m->unit;
    int32_t cursor = 0;
    memcpy(tail_tokens(m, s), t->ids + start, (size_t)hit->partial_tokens * sizeof(int32_t));
    const struct extra_list extras = pkv__extras_at(t, start, &cursor);
    if (pkv__extras_append(m, &s->tail_extras, extras, hit->partial_tokens)) return;
    s->ended = true;
    pkv__extras_drop(m, &s->tail_extras);
}

/* Take the sources of copies off their lists, so that none is evicted; and put them back. */
static void claim_sources(pkv_blockmgr *m, const struct hit *hit, bool claim)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        for (int32_t k = 0; k < m->groups[g].n_slots; k++) {
            const int32_t block = source_of(m, hit, g, k);
            if (block == NONE) continue;
            if (claim) pkv__block_ref(m, block);
            else pkv__block_unref(m, block);
        }
    }
}

/* The decision is made: claim, take, plan the copies. */
static void run_match(pkv_blockmgr *m, struct seq_rec *s, const pkv_tokens *t,
                      const struct hit *hit, int32_t reserve_upto, pkv_block_work *work)
{
    work->n_copy = work->n_zero = 0;
    pkv__rows_cut(m, s, 0);
    pkv__last_node_set(m, s, hit->last_node);
    for (int32_t g = 0; g < m->n_groups; g++) claim_group(m, s, hit, g);
    claim_sources(m, hit, true);
    for (int32_t g = 0; g < m->n_groups; g++) take_group(m, s, hit, g, reserve_upto, work);
    claim_sources(m, hit, false);
    s->n_units = s->n_full = s->claim = hit->n_units;
    s->epoch = m->epoch;
    s->settled = hit->n_units * m->unit;
    s->committed = s->settled + hit->partial_tokens;
    s->reserved = pkv__max_i32(reserve_upto, s->committed);
    if (hit->partial_tokens > 0) adopt_partial(m, s, t, hit);
    m->copies += (uint64_t)work->n_copy;
}

static pkv_status check_match(const pkv_blockmgr *m, pkv_seq seq, const pkv_tokens *prompt,
                              int32_t max_tokens, int32_t reserve_upto, struct seq_rec **s)
{
    pkv_status status = pkv__tokens_valid(m, prompt);
    if (status != PKV_OK) return status;
    if (max_tokens < 0 || reserve_upto < 0) return PKV_E_INVALID_ARG;
    status = pkv__seq_running(m, seq, s);
    if (status != PKV_OK) return status;
    if ((*s)->committed > 0)
        return pkv__refuse(&m->log, PKV_E_STATE, "match: the sequence has %d tokens; truncate to 0",
                           (*s)->committed);
    return reserve_upto > m->max_seq_tokens ? PKV_E_LIMIT : PKV_OK;
}

/* Does the pool ever hold the rows? */
static bool can_ever_fit(const pkv_blockmgr *m, const struct hit *hit, int32_t reserve_upto)
{
    int64_t n = all_new_blocks(m, hit, reserve_upto);
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct claim_range r = claim_range(m, g, hit->n_units);
        n += r.sinks + r.to - r.from;
    }
    return n <= m->n_blocks - 1;
}

pkv_status pkv_seq_match(pkv_blockmgr *mgr, pkv_seq seq, const pkv_tokens *prompt,
                         int32_t max_tokens, int32_t reserve_upto, pkv_block_work *work,
                         pkv_match *out)
{
    struct seq_rec *s = NULL;
    struct hit hit;
    int32_t cached;
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    pkv_status status = pkv__check_work(mgr, work);
    if (status == PKV_OK) status = check_match(mgr, seq, prompt, max_tokens, reserve_upto, &s);
    if (status != PKV_OK) return status;
    const int32_t limit = pkv__min_i32(pkv__min_i32(max_tokens, prompt->n), mgr->max_seq_tokens);
    find_hit(mgr, root_of(s->ns), prompt, limit, &hit);
    int32_t surplus = 0;
    for (int32_t g = 0; g < mgr->n_groups; g++) surplus += pkv__blocks_held(mgr, s, g, s->reserved);
    const bool waits = steps_hold_back(mgr);
    const int32_t room = mgr->n_free + mgr->n_cached + (waits ? 0 : surplus);
    cut_to_room(mgr, &hit, reserve_upto, room, root_of(s->ns));
    if (!can_ever_fit(mgr, &hit, reserve_upto)) return PKV_E_NEVER;
    const int64_t n_new = all_new_blocks(mgr, &hit, reserve_upto);
    status = pkv__judge_room(mgr, n_new, room - hit.cached, hit.limbo, waits ? surplus : 0, NULL);
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status, "match: %lld blocks needed, %d to be had",
                           (long long)n_new, room - hit.cached);
    const int32_t returned = waits ? 0 : pkv__min_i32((int32_t)n_new, surplus);
    if (count_sources(mgr, &hit, &cached) > work->copy_cap ||
        pkv__count_zeros(mgr, (int32_t)n_new, returned) > work->zero_cap)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT, "match: work is too small");
    run_match(mgr, s, prompt, &hit, reserve_upto, work);
    mgr->query_tokens += (uint64_t)limit;
    mgr->hit_tokens += (uint64_t)s->committed;
    *out = describe(mgr, &hit);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_blockmgr_probe(const pkv_blockmgr *mgr, pkv_ns ns, const pkv_tokens *prompt,
                              pkv_match *out)
{
    struct hit hit;
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    const pkv_status status = pkv__tokens_valid(mgr, prompt);
    if (status != PKV_OK) return status;
    const int32_t idx = pkv__ns_find(mgr, ns);
    if (idx == NONE) return PKV_E_STALE;
    find_hit(mgr, root_of(idx), prompt, pkv__min_i32(prompt->n, mgr->max_seq_tokens), &hit);
    *out = describe(mgr, &hit);
    return PKV_OK;
}
