/* Preemption by swap: blocks of sequences between the device pool and the host pool.
 *
 *   row, RUNNING      [  7 12  3 ]         12 is shared with a running sequence
 *   row, SUSPENDING   [  7 12  3 ]         pairs 7 -> h1, 3 -> h2; the hold refers to 7 and 3
 *   row, SUSPENDED    [ -1 12 -2 ]         negative: host block; 7 and 3 are cached while they last
 *   row, RESUMING     [ -1 12 -2 ]         pairs 20 <- h1, 21 <- h2; the hold refers to 20 and 21
 *   row, RUNNING      [ 20 12 21 ]
 *
 * Pairs belong to device blocks (swap_rec) and are chained from the last of the list of copies to
 * the first. One pair per block is enough: a block that is moved out has no reference but the rows
 * of the call, one that is moved in is fresh, and both keep the reference of their hold until it is
 * given back. A host block, however, may be on its way to several blocks at a time (two suspended
 * samples that are resumed one after the other).
 *
 * A sequence keeps the chain of its nodes alive, suspended or not (holders), so what is brought
 * back joins its content again. */
#include "blockmgr_internal.h"

/* One call of suspend or resume. */
struct swap_call {
    pkv_blockmgr *m;
    const pkv_seq *seqs;
    int32_t n;
    pkv_swap_copy *copies;
    int32_t n_copies;
    struct hold_rec *hold;
};

/* `planned` of a block in this file: entries in the rows of the call; or one of these. */
enum { MOVES = -1, PAIRED = 1 };

/* Entries of a row that hold committed tokens. */
static int32_t kept_len(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g)
{
    const struct group_rec *grp = &m->groups[g];
    if (s->committed == 0) return 0;
    return row_entries(grp, s->committed);
}

/* Every entry of the rows of the call: in the order given, group by group, from the front. */
static void each_entry(struct swap_call *c,
                       void (*act)(struct swap_call *, int32_t g, int32_t at, int32_t entry))
{
    for (int32_t i = 0; i < c->n; i++) {
        const struct seq_rec *s = seq_find(c->m, c->seqs[i]);
        for (int32_t g = 0; g < c->m->n_groups; g++) {
            const int32_t len = kept_len(c->m, s, g), *row = row_of(c->m, s, g);
            for (int32_t at = 0; at < len; at++) act(c, g, at, row[at]);
        }
    }
}

static pkv_status check_seqs(const pkv_blockmgr *m, const pkv_seq *seqs, int32_t n,
                             pkv_seq_state state)
{
    bool twice = false, stale = false, other = false, pending = false;
    const uint32_t no = pkv__batch_begin(m);
    for (int32_t i = 0; i < n; i++) {
        struct seq_rec *s = seq_find(m, seqs[i]);
        if (s) {
            twice = twice || s->mark == no;
            other = other || s->swap != state;
            pending = pending || s->n_pending > 0;
            s->mark = no;
        } else {
            stale = true;
        }
    }
    return twice     ? PKV_E_INVALID_ARG
           : stale   ? PKV_E_STALE
           : other   ? PKV_E_STATE
           : pending ? PKV_E_AGAIN
                     : PKV_OK;
}

static bool arguments_valid(const pkv_blockmgr *m, const pkv_seq *seqs, int32_t n,
                            const pkv_swap_copy *copies, int32_t cap, const int32_t *n_copies,
                            const pkv_hold *hold)
{
    return m && seqs && n >= 1 && cap >= 0 && (cap == 0 || copies) && n_copies && hold;
}

/* Others see that the rows of the sequence are there, or are not. */
static void rows_changed(pkv_blockmgr *m, const struct seq_rec *s)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const int32_t len = kept_len(m, s, g);
        if (len == 0) continue;
        pkv__row_changed(m, g, seq_index(m, s), 0);
        pkv__row_changed(m, g, seq_index(m, s), len - 1);
    }
}

/* Chain the sequences of the call by row index. From the last to the first: callers that keep them
 * in that order pay O(n). Returns the first. */
static int32_t chain_seqs(pkv_blockmgr *m, const pkv_seq *seqs, int32_t n, pkv_seq_state state)
{
    int32_t first = NONE;
    for (int32_t i = n - 1; i >= 0; i--) {
        struct seq_rec *s = seq_find(m, seqs[i]);
        const int32_t idx = seq_index(m, s);
        int32_t *at = &first;
        while (*at != NONE && *at < idx) at = &seqs_of(m)[*at].link;
        s->link = *at;
        s->swap = (uint8_t)state;
        *at = idx;
    }
    return first;
}

/* ---------------------------------------------------------------- host blocks and pairs */

static int32_t host_take(pkv_blockmgr *m)
{
    struct host_rec *host = host_of(m);
    const int32_t h = m->free_host;
    PKV_ASSERT(h != NONE);
    m->free_host = host[h].next;
    m->n_free_host--;
    host[h] = (struct host_rec){ 1, 0 };
    return h;
}

static void host_unref(pkv_blockmgr *m, int32_t h)
{
    struct host_rec *rec = &host_of(m)[h];
    PKV_ASSERT(rec->ref > 0);
    if (--rec->ref > 0) return;
    rec->next = m->free_host;
    m->free_host = h;
    m->n_free_host++;
}

/* One more copy of the list. */
static void add_pair(struct swap_call *c, int32_t g, int32_t device, int32_t host)
{
    swaps_of(c->m)[device] = (struct swap_rec){ host, c->hold->last_block };
    c->hold->last_block = device;
    c->hold->n_blocks[g]++;
    c->copies[c->n_copies++] = (pkv_swap_copy){ device, host, g };
}

/* `planned` of the blocks of a hold. Entries in rows may be blocks of other, expired holds. */
static void mark_pairs(pkv_blockmgr *m, const struct hold_rec *h, int32_t planned)
{
    for (int32_t b = h->last_block; b != 0; b = swaps_of(m)[b].next)
        blocks_of(m)[b].planned = planned;
}

/* Where a host block goes to within one call. */
static void map_pairs(pkv_blockmgr *m, const struct hold_rec *h, bool on)
{
    for (int32_t b = h->last_block; b != 0; b = swaps_of(m)[b].next)
        host_of(m)[swaps_of(m)[b].host].next = on ? b : 0;
}

void pkv__swap_unpair(pkv_blockmgr *m, struct hold_rec *h)
{
    for (int32_t b = h->last_block, next; b != 0; b = next) {
        struct swap_rec *pair = &swaps_of(m)[b];
        next = pair->next;
        if (h->kind == HOLD_SUSPEND) host_unref(m, pair->host);
        *pair = (struct swap_rec){ 0, 0 };
    }
    h->last_block = 0;
}

/* ---------------------------------------------------------------- suspend */

/* As by close; but the sequence goes on, so node and tail each need the extras. */
static void publish_tail(pkv_blockmgr *m, struct seq_rec *s)
{
    int32_t kept = NONE;
    if (pkv__extras_append(m, &kept, extra_entries(s->tail_extras), m->unit)) {
        pkv__publish_partial(m, s);
        pkv__extras_drop(m, &s->tail_extras);
        s->tail_extras = kept;
    } else {
        pkv__extras_drop(m, &kept);
    }
}

/* The bytes are on the host: blocks of the hold leave the rows, group by group, tail first. */
static void suspend_seq(pkv_blockmgr *m, struct seq_rec *s)
{
    publish_tail(m, s);
    for (int32_t g = 0; g < m->n_groups; g++) {
        int32_t *row = row_of(m, s, g);
        bool stayed = false;
        for (int32_t at = kept_len(m, s, g) - 1; at >= 0; at--) {
            const int32_t block = row[at];
            if (blocks_of(m)[block].planned != PAIRED) {
                stayed = stayed || block != 0;
                continue;
            }
            if (stayed) m->raw_used = true; /* the row names a block, but none before it */
            row[at] = -swaps_of(m)[block].host;
            host_of(m)[-row[at]].ref++;
            pkv__block_unref(m, block);
        }
    }
    s->swap = PKV_SEQ_SUSPENDED;
}

static void suspend_ends(pkv_blockmgr *m, const struct hold_rec *h, pkv_hold_end end)
{
    mark_pairs(m, h, PAIRED);
    for (int32_t i = h->first_seq, next; i != NONE; i = next) {
        struct seq_rec *s = &seqs_of(m)[i];
        next = s->link;
        s->link = NONE;
        if (end == PKV_HOLD_DONE) {
            suspend_seq(m, s);
        } else {
            s->swap = PKV_SEQ_RUNNING;
            rows_changed(m, s);
        }
    }
    mark_pairs(m, h, 0);
    if (end == PKV_HOLD_EXPIRED) m->raw_used = true; /* its blocks may outlast those before them */
}

static void count_entry(struct swap_call *c, int32_t g, int32_t at, int32_t entry)
{
    (void)g, (void)at;
    if (entry > 0) blocks_of(c->m)[entry].planned++;
}

/* Nobody but the rows of the call refers to it: it moves, once. */
static void count_move(struct swap_call *c, int32_t g, int32_t at, int32_t entry)
{
    (void)g, (void)at;
    if (entry <= 0 || blocks_of(c->m)[entry].planned != blocks_of(c->m)[entry].ref) return;
    blocks_of(c->m)[entry].planned = MOVES;
    c->n_copies++;
}

static void uncount_entry(struct swap_call *c, int32_t g, int32_t at, int32_t entry)
{
    (void)g, (void)at;
    if (entry > 0) blocks_of(c->m)[entry].planned = 0;
}

static void move_out(struct swap_call *c, int32_t g, int32_t at, int32_t entry)
{
    (void)at;
    const bool moves = entry > 0 && blocks_of(c->m)[entry].planned == MOVES;
    if (entry > 0) blocks_of(c->m)[entry].planned = 0;
    if (!moves) return;
    pkv__block_ref(c->m, entry);
    add_pair(c, g, entry, host_take(c->m));
}

/* The plan was judged good. */
static pkv_hold run_suspend(struct swap_call *c, uint64_t deadline)
{
    pkv_hold out = { 0 };
    struct hold_rec none = { .first_seq = NONE }; /* nothing to be moved: done at once */
    const bool any = c->n_copies > 0;
    c->n_copies = 0;
    for (int32_t i = 0; i < c->n; i++) pkv__drop_surplus(c->m, seq_find(c->m, c->seqs[i]));
    c->hold = any ? pkv__hold_begin(c->m, HOLD_SUSPEND, deadline, &out) : &none;
    each_entry(c, move_out);
    c->hold->first_seq = chain_seqs(c->m, c->seqs, c->n, PKV_SEQ_SUSPENDING);
    for (int32_t i = 0; i < c->n; i++) rows_changed(c->m, seq_find(c->m, c->seqs[i]));
    if (!any) suspend_ends(c->m, c->hold, PKV_HOLD_DONE);
    return out;
}

pkv_status pkv_seqs_suspend(pkv_blockmgr *mgr, const pkv_seq *seqs, int32_t n, uint64_t deadline,
                            pkv_swap_copy *copies, int32_t cap, int32_t *n_copies, pkv_hold *hold)
{
    if (!arguments_valid(mgr, seqs, n, copies, cap, n_copies, hold)) return PKV_E_INVALID_ARG;
    pkv_status status = check_seqs(mgr, seqs, n, PKV_SEQ_RUNNING);
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status, "suspend of %d sequences: %s", n,
                           pkv_status_text(status));
    struct swap_call c = { mgr, seqs, n, copies, 0, NULL };
    each_entry(&c, count_entry);
    each_entry(&c, count_move);
    if (c.n_copies > mgr->n_free_host) status = PKV_E_NO_BLOCKS;
    else if (c.n_copies > cap || (c.n_copies > 0 && mgr->free_hold == NONE)) status = PKV_E_LIMIT;
    if (status != PKV_OK) {
        each_entry(&c, uncount_entry);
        return pkv__refuse(&mgr->log, status,
                           "suspend: %d blocks to move, %d host blocks free, room for %d copies, "
                           "%d holds open of %d",
                           c.n_copies, mgr->n_free_host, cap, mgr->n_holds, mgr->max_holds);
    }
    *hold = run_suspend(&c, deadline);
    *n_copies = c.n_copies;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* ---------------------------------------------------------------- resume */

/* The bytes are there: the row names the device blocks. */
static void enter_row(pkv_blockmgr *m, struct seq_rec *s)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        int32_t *row = row_of(m, s, g);
        const int32_t len = kept_len(m, s, g);
        for (int32_t at = 0; at < len; at++) {
            if (row[at] >= 0) continue;
            row[at] = host_of(m)[-row[at]].next;
            pkv__block_ref(m, row[at]);
        }
    }
    s->swap = PKV_SEQ_RUNNING;
    rows_changed(m, s);
}

/* What was brought back holds its content again: unit by unit, group by group. */
static void join_content(pkv_blockmgr *m, struct seq_rec *s)
{
    int32_t blocks[MAX_SLOTS], *nodes = scratch_of(m);
    int32_t id = s->last_node;
    for (int32_t u = s->n_units - 1; u >= 0; u--, id = node_at(m, id)->parent) nodes[u] = id;
    for (int32_t u = 0; u < s->n_units; u++) {
        pkv__unit_blocks(m, s, u, blocks);
        for (int32_t slot = 0; slot < m->n_slots; slot++) {
            const struct block_rec *rec = &blocks_of(m)[blocks[slot]];
            if (rec->planned == PAIRED && rec->node == NONE)
                pkv__node_join(m, nodes[u], blocks[slot]);
        }
    }
}

static void drop_host_blocks(pkv_blockmgr *m, const struct seq_rec *s)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const int32_t *row = row_of(m, s, g);
        for (int32_t at = kept_len(m, s, g) - 1; at >= 0; at--)
            if (blocks_of(m)[row[at]].planned == PAIRED) host_unref(m, swaps_of(m)[row[at]].host);
    }
}

static void resume_ends(pkv_blockmgr *m, const struct hold_rec *h, pkv_hold_end end)
{
    struct seq_rec *seqs = seqs_of(m);
    map_pairs(m, h, true);
    for (int32_t i = h->first_seq; i != NONE; i = seqs[i].link) {
        if (end == PKV_HOLD_DONE) enter_row(m, &seqs[i]);
        else seqs[i].swap = PKV_SEQ_SUSPENDED;
    }
    map_pairs(m, h, false);
    mark_pairs(m, h, PAIRED);
    for (int32_t i = h->first_seq, next; i != NONE; i = next) {
        struct seq_rec *s = &seqs[i];
        next = s->link;
        s->link = NONE;
        if (end != PKV_HOLD_DONE) continue;
        join_content(m, s);
        drop_host_blocks(m, s);
    }
    mark_pairs(m, h, 0);
}

/* A host block comes back once. */
static void count_host(struct swap_call *c, int32_t g, int32_t at, int32_t entry)
{
    (void)g, (void)at;
    if (entry >= 0 || host_of(c->m)[-entry].next != 0) return;
    host_of(c->m)[-entry].next = 1;
    c->n_copies++;
}

static void uncount_host(struct swap_call *c, int32_t g, int32_t at, int32_t entry)
{
    (void)g, (void)at;
    if (entry < 0) host_of(c->m)[-entry].next = 0;
}

static void move_in(struct swap_call *c, int32_t g, int32_t at, int32_t entry)
{
    const struct group_rec *grp = &c->m->groups[g];
    if (entry >= 0 || host_of(c->m)[-entry].next != 0) return;
    const int32_t slot = grp->kind == PKV_GROUP_STATE ? grp->slot + at : grp->slot;
    const int32_t block = pkv__block_take(c->m, slot);
    host_of(c->m)[-entry].next = block;
    add_pair(c, g, block, -entry);
}

static pkv_hold run_resume(struct swap_call *c, uint64_t deadline)
{
    pkv_hold out = { 0 };
    struct hold_rec none = { .first_seq = NONE };
    const bool any = c->n_copies > 0;
    c->n_copies = 0;
    c->hold = any ? pkv__hold_begin(c->m, HOLD_RESUME, deadline, &out) : &none;
    each_entry(c, move_in);
    map_pairs(c->m, c->hold, false);
    c->hold->first_seq = chain_seqs(c->m, c->seqs, c->n, PKV_SEQ_RESUMING);
    if (!any) resume_ends(c->m, c->hold, PKV_HOLD_DONE);
    return out;
}

pkv_status pkv_seqs_resume(pkv_blockmgr *mgr, const pkv_seq *seqs, int32_t n, uint64_t deadline,
                           pkv_swap_copy *copies, int32_t cap, int32_t *n_copies, pkv_hold *hold)
{
    if (!arguments_valid(mgr, seqs, n, copies, cap, n_copies, hold)) return PKV_E_INVALID_ARG;
    pkv_status status = check_seqs(mgr, seqs, n, PKV_SEQ_SUSPENDED);
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status, "resume of %d sequences: %s", n,
                           pkv_status_text(status));
    struct swap_call c = { mgr, seqs, n, copies, 0, NULL };
    each_entry(&c, count_host);
    each_entry(&c, uncount_host);
    status = pkv__judge_room(mgr, c.n_copies, (int64_t)mgr->n_free + mgr->n_cached, 0, 0, NULL);
    if (status == PKV_OK && (c.n_copies > cap || (c.n_copies > 0 && mgr->free_hold == NONE)))
        status = PKV_E_LIMIT;
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status,
                           "resume: %d blocks needed, %d to be had, room for %d copies, %d holds "
                           "open of %d",
                           c.n_copies, mgr->n_free + mgr->n_cached, cap, mgr->n_holds,
                           mgr->max_holds);
    *hold = run_resume(&c, deadline);
    *n_copies = c.n_copies;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* ---------------------------------------------------------------- ends */

void pkv__swap_ends(pkv_blockmgr *m, struct hold_rec *h, pkv_hold_end end)
{
    if (h->kind == HOLD_SUSPEND) suspend_ends(m, h, end);
    else resume_ends(m, h, end);
    h->first_seq = NONE;
}

void pkv__swap_forget(pkv_blockmgr *m, struct seq_rec *s)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        int32_t *row = row_of(m, s, g);
        for (int32_t at = kept_len(m, s, g) - 1; at >= 0; at--) {
            if (row[at] >= 0) continue;
            host_unref(m, -row[at]);
            row[at] = 0;
        }
    }
}
