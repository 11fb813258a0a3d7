/* Match: claim the longest cached prefix of a prompt, and room beyond it, in one call.
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

/* What was found. Nodes of the full units are in the scratch array. */
struct hit {
    int32_t n_units;
    int32_t last_node;      /* of the full units, or the root */
    int32_t limit;          /* tokens that were asked for */
    int32_t partial_tokens; /* of partial_node that agree; 0: none */
    int32_t partial_node;
    int32_t cached; /* full units whose block is CACHED */
};

/* The child of `parent` that holds unit u of the prompt; NONE. */
static int32_t find_unit(const pkv_blockmgr *m, const pkv_tokens *t, int32_t u, int32_t parent,
                         int32_t *cursor)
{
    const int32_t T = m->block_tokens, newest = *pkv__children_of(m, parent);
    struct unit_key key = { 0, parent, t->ids + (size_t)u * (size_t)T, T, extra_entries(NONE) };
    if (t->n_extras > 0) key.extras = pkv__extras_at(t, u * T, cursor);
    if (newest != NONE) {
        key.hash = node_at(m, newest)->hash;
        if (pkv__node_holds(m, newest, &key)) return newest;
    }
    key.hash = pkv__unit_hash(m, &key);
    return pkv__index_find(m, &key);
}

/* The longest chain of full units. */
static void find_units(const pkv_blockmgr *m, const pkv_tokens *t, struct hit *hit)
{
    int32_t cursor = 0;
    while (hit->n_units < hit->limit / m->block_tokens) {
        const int32_t id = find_unit(m, t, hit->n_units, hit->last_node, &cursor);
        if (id == NONE) return;
        const struct node *n = node_at(m, id);
        if (n->first_child != NONE) {
            PKV_PREFETCH(node_at(m, n->first_child));
            PKV_PREFETCH(node_tokens(m, n->first_child) + 4); /* the second line */
        }
        PKV_PREFETCH(&blocks_of(m)[n->block]);
        scratch_of(m)[hit->n_units++] = id;
        hit->last_node = id;
    }
}

static int32_t common_tokens(const int32_t *a, const int32_t *b, int32_t n)
{
    int32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* The best continuation of less than a unit: most tokens, then newest. */
static void find_partial(const pkv_blockmgr *m, const pkv_tokens *t, struct hit *hit)
{
    const int32_t start = hit->n_units * m->block_tokens, rest = hit->limit - start;
    int32_t cursor = 0, id = *pkv__children_of(m, hit->last_node);
    const struct extra_list extras = pkv__extras_at(t, start, &cursor);
    for (int i = 0; i < MAX_SIBLINGS && id != NONE; i++, id = node_at(m, id)->older) {
        const struct node *n = node_at(m, id);
        int32_t common =
            common_tokens(node_tokens(m, id), t->ids + start, pkv__min_i32(n->n_tokens, rest));
        common = pkv__extras_common(m, extra_entries(n->extras), extras, common);
        if (common > hit->partial_tokens) hit->partial_tokens = common, hit->partial_node = id;
    }
}

static void find_hit(const pkv_blockmgr *m, int32_t root, const pkv_tokens *t, int32_t limit,
                     struct hit *hit)
{
    *hit = (struct hit){ .last_node = root, .limit = limit, .partial_node = NONE };
    if (!has_flag(m, PKV_MGR_PREFIX_CACHE)) return;
    find_units(m, t, hit);
    if (has_flag(m, PKV_MGR_PARTIAL_HITS) && hit->n_units * m->block_tokens < limit)
        find_partial(m, t, hit);
    for (int32_t u = 0; u < hit->n_units; u++)
        hit->cached += blocks_of(m)[node_at(m, scratch_of(m)[u])->block].state == BLOCK_CACHED;
}

static pkv_match describe(const pkv_blockmgr *m, const struct hit *hit, bool cut)
{
    const int32_t full = hit->n_units * m->block_tokens;
    pkv_match out = PKV_MATCH_INIT;
    out.claimed = full + hit->partial_tokens;
    out.claimed_cached = hit->cached;
    out.copied = hit->partial_tokens;
    out.longest[0] = full;
    const bool end = out.claimed == hit->limit ||
                     (!has_flag(m, PKV_MGR_PARTIAL_HITS) && hit->limit - full < m->block_tokens);
    out.stop_reason[0] = !has_flag(m, PKV_MGR_PREFIX_CACHE) ? PKV_STOP_OFF
                         : cut                              ? PKV_STOP_ROOM
                         : end                              ? PKV_STOP_END
                                                            : PKV_STOP_MISS;
    return out;
}

/* Room that a match needs beyond the full units of its claim. */
static int32_t new_blocks(const pkv_blockmgr *m, const struct hit *hit, int32_t reserve_upto)
{
    const int32_t claimed = hit->n_units * m->block_tokens + hit->partial_tokens;
    return blocks_for(m, pkv__max_i32(reserve_upto, claimed)) - hit->n_units;
}

/* A partial hit is taken only if that evicts neither its source nor the claim; true if it was cut.
 */
static bool cut_partial(const pkv_blockmgr *m, struct hit *hit, int32_t reserve_upto, int32_t room)
{
    if (hit->partial_tokens == 0) return false;
    const int32_t source = node_at(m, hit->partial_node)->block;
    if (blocks_of(m)[source].state == BLOCK_CACHED) room--;
    if (new_blocks(m, hit, reserve_upto) <= room) return false;
    hit->partial_tokens = 0, hit->partial_node = NONE;
    return true;
}

static void claim_units(pkv_blockmgr *m, struct seq_rec *s, const struct hit *hit)
{
    int32_t *row = row_of(m, s);
    for (int32_t u = 0; u < hit->n_units; u++) {
        row[u] = node_at(m, scratch_of(m)[u])->block;
        pkv__block_ref(m, row[u]);
    }
    s->n_units = s->claim = hit->n_units;
    s->last_node = hit->last_node;
}

/* The tokens that the copy brings are the sequence's tail. */
static void adopt_partial(pkv_blockmgr *m, struct seq_rec *s, const pkv_tokens *t,
                          const struct hit *hit)
{
    const int32_t start = hit->n_units * m->block_tokens;
    int32_t cursor = 0;
    memcpy(tail_tokens(m, s), t->ids + start, (size_t)hit->partial_tokens * sizeof(int32_t));
    const struct extra_list extras = pkv__extras_at(t, start, &cursor);
    if (pkv__extras_append(m, &s->tail_extras, extras, hit->partial_tokens)) return;
    s->ended = true;
    pkv__extras_drop(m, &s->tail_extras);
}

/* The decision is made: claim, take, plan the copy. */
static void run_match(pkv_blockmgr *m, struct seq_rec *s, const pkv_tokens *t,
                      const struct hit *hit, int32_t reserve_upto, pkv_block_work *work)
{
    const int32_t n_new = new_blocks(m, hit, reserve_upto);
    const int32_t source = hit->partial_tokens > 0 ? node_at(m, hit->partial_node)->block : NONE;
    const bool source_cached = source != NONE && blocks_of(m)[source].state == BLOCK_CACHED;
    int32_t *row = row_of(m, s);
    work->n_copy = work->n_zero = 0;
    pkv__row_cut(m, s, 0);
    claim_units(m, s, hit);
    if (source_cached) pkv__evict_remove(m, source);
    for (int32_t i = 0; i < n_new; i++) row[hit->n_units + i] = pkv__take_for_work(m, work);
    if (source_cached) pkv__evict_insert(m, source);
    s->settled = hit->n_units * m->block_tokens;
    s->committed = s->settled + hit->partial_tokens;
    s->reserved = pkv__max_i32(reserve_upto, s->committed);
    if (source == NONE) return;
    adopt_partial(m, s, t, hit);
    work->copy[work->n_copy++] =
        (pkv_block_copy){ source, row[hit->n_units], hit->partial_tokens, 0 };
    m->copies++;
}

static pkv_status check_match(const pkv_blockmgr *m, pkv_seq seq, const pkv_tokens *prompt,
                              int32_t max_tokens, int32_t reserve_upto, struct seq_rec **s)
{
    const pkv_status status = pkv__tokens_valid(m, prompt);
    if (status != PKV_OK) return status;
    if (max_tokens < 0 || reserve_upto < 0) return PKV_E_INVALID_ARG;
    *s = seq_find(m, seq);
    if (!*s) return PKV_E_STALE;
    if ((*s)->committed > 0)
        return pkv__refuse(&m->log, PKV_E_STATE, "match: the sequence has %d tokens; truncate to 0",
                           (*s)->committed);
    if (reserve_upto > m->max_seq_tokens) return PKV_E_LIMIT;
    if (blocks_for(m, reserve_upto) > m->n_blocks - 1) return PKV_E_NEVER;
    return PKV_OK;
}

pkv_status pkv_seq_match(pkv_blockmgr *mgr, pkv_seq seq, const pkv_tokens *prompt,
                         int32_t max_tokens, int32_t reserve_upto, pkv_block_work *work,
                         pkv_match *out)
{
    struct seq_rec *s = NULL;
    struct hit hit;
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    pkv_status status = pkv__check_work(mgr, work);
    if (status == PKV_OK) status = check_match(mgr, seq, prompt, max_tokens, reserve_upto, &s);
    if (status != PKV_OK) return status;
    const int32_t limit = pkv__min_i32(pkv__min_i32(max_tokens, prompt->n), mgr->max_seq_tokens);
    find_hit(mgr, root_of(s->ns), prompt, limit, &hit);
    const int32_t surplus = blocks_for(mgr, s->reserved);
    const int32_t room = mgr->n_free + surplus + cached_blocks(mgr) - hit.cached;
    const bool cut = cut_partial(mgr, &hit, reserve_upto, room);
    const int32_t n_new = new_blocks(mgr, &hit, reserve_upto);
    if (n_new > room)
        return pkv__refuse(&mgr->log, PKV_E_NO_BLOCKS, "match: %d blocks needed, %d to be had",
                           n_new, room);
    if ((hit.partial_tokens > 0 && work->copy_cap < 1) ||
        pkv__count_zeros(mgr, n_new, pkv__min_i32(n_new, surplus)) > work->zero_cap)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT, "match: work is too small");
    run_match(mgr, s, prompt, &hit, reserve_upto, work);
    mgr->query_tokens += (uint64_t)limit;
    mgr->hit_tokens += (uint64_t)s->committed;
    *out = describe(mgr, &hit, cut);
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
    *out = describe(mgr, &hit, false);
    return PKV_OK;
}
