/* The invariants, and the function that verifies them; level 3 goes on in invariants_content.c.
 * Every function of this part keeps:
 *
 *  I1  free + active + cached + limbo + quarantine = n_blocks - 1; a block is in one state
 *  I2  ref(b) = entries of b in rows of open sequences + holds + raw references; QUARANTINE
 *      exactly if all of them are expired holds', ACTIVE exactly if there is another one
 *  I3  the free ids are distinct, FREE, without content; nothing else is FREE
 *  I4  node <-> block links are mutual, per slot; a node of the present epoch is found by look-up
 *      from its root, an older one never; parents are full units of the same epoch; a node without
 *      blocks has a child or a pin; spares are referenced, beside a referenced main block;
 *      prepared nodes are on the list of each of their blocks, the longest first
 *  I5  settled <= committed <= reserved; a row has ceil(reserved / block_tokens) entries, of which
 *      exactly those in the gap of its window are 0, then zeros; a STATE row is whole or empty;
 *      a row with no change noted is as long as its copy
 *  I6  the reserved slots of a sequence lie where it may write: no other row, no raw reference,
 *      no content and no hold covers them
 *  I7  CACHED blocks are on exactly one list, that of their class; in FULL groups a block with
 *      content has its parent's block, children of a cached block are cached, and no child comes
 *      after its parent (not once there were references that do not cover a whole prefix: raw ones,
 *      whose order is the caller's, and those of some swaps)
 *  I8  counts of nodes, extras, sequences, namespaces and steps agree with what is there
 *  I9  the blocks of an open sequence hold the content of each unit it has indexed or prepared;
 *      pending commits follow one another up to `committed`; holders and pins are counted
 *  I10 LIMBO is in order of its stamps, none older than the oldest open step
 *  I11 holds, swaps and host blocks: every host block is free or referenced as often as it says
 *
 * `planned` of the block records and `next` of used host blocks are the scratch: zero before and
 * after. */
#include "blockmgr_internal.h"

static bool block_id(const pkv_blockmgr *m, int32_t b)
{
    return b >= 1 && b < m->n_blocks;
}

static bool host_id(const pkv_blockmgr *m, int32_t h)
{
    return h >= 1 && h < m->n_host_blocks;
}

/* ---------------------------------------------------------------- level 1 */

static pkv_status check_block_counts(const pkv_blockmgr *m)
{
    const int64_t sum =
        (int64_t)m->n_free + m->n_active + m->n_cached + m->limbo.n + m->n_quarantine;
    int64_t listed = 0;
    for (int c = 0; c < N_CLASSES; c++) listed += m->lists[c].n;
    HOLDS(m,
          sum == m->n_blocks - 1 && m->n_free >= 0 && m->n_active >= 0 && m->n_cached >= 0 &&
              m->limbo.n >= 0 && m->n_quarantine >= 0,
          "I1: %d free + %d active + %d cached + %d in limbo + %d in quarantine of %d blocks",
          m->n_free, m->n_active, m->n_cached, m->limbo.n, m->n_quarantine, m->n_blocks);
    HOLDS(m, listed == m->n_cached, "I7: %lld blocks on the lists, %d cached", (long long)listed,
          m->n_cached);
    return PKV_OK;
}

static pkv_status check_counts(const pkv_blockmgr *m)
{
    const pkv_status status = check_block_counts(m);
    if (status != PKV_OK) return status;
    const int32_t in_use = m->n_seqs + m->n_closing;
    HOLDS(m,
          m->n_seqs >= 0 && m->n_closing >= 0 && in_use <= m->max_seqs &&
              (m->free_seq == NONE) == (in_use == m->max_seqs) &&
              (m->closing_head == NONE) == (m->n_closing == 0),
          "I8: %d sequences open and %d closing of %d", m->n_seqs, m->n_closing, m->max_seqs);
    HOLDS(m, m->n_nodes >= 0 && m->n_nodes <= m->node_high && m->node_high <= m->max_nodes,
          "I8: %d nodes, %d ever used, of %d", m->n_nodes, m->node_high, m->max_nodes);
    HOLDS(m, m->n_extras >= 0 && m->n_extras <= m->extra_high && m->extra_high <= m->max_extras,
          "I8: %d extra entries, %d ever used, of %d", m->n_extras, m->extra_high, m->max_extras);
    HOLDS(m,
          m->n_open_steps >= 0 && m->n_open_steps <= m->max_steps &&
              (uint64_t)m->n_open_steps <= m->n_steps,
          "I8: %d steps open of %d", m->n_open_steps, m->max_steps);
    HOLDS(m, m->limbo.n == 0 || (m->n_open_steps > 0 && !has_flag(m, PKV_MGR_IN_ORDER)),
          "I10: %d blocks in limbo and %d steps open", m->limbo.n, m->n_open_steps);
    HOLDS(m,
          m->n_holds >= 0 && m->n_holds <= m->max_holds &&
              (m->free_hold == NONE) == (m->n_holds == m->max_holds),
          "I11: %d holds of %d", m->n_holds, m->max_holds);
    HOLDS(m,
          m->n_free_host >= 0 && m->n_free_host <= pkv__max_i32(m->n_host_blocks - 1, 0) &&
              (m->free_host == NONE) == (m->n_free_host == 0),
          "I11: %d host blocks free of %d", m->n_free_host, m->n_host_blocks);
    return PKV_OK;
}

/* ---------------------------------------------------------------- rows */

static pkv_status check_lengths(const pkv_blockmgr *m, int32_t idx)
{
    const struct seq_rec *s = &seqs_of(m)[idx];
    HOLDS(m, s->life <= SEQ_CLOSING && s->swap <= PKV_SEQ_RESUMING,
          "I8: sequence %d is in life %d, state %d", idx, s->life, s->swap);
    if (s->life == SEQ_FREE) return PKV_OK;
    HOLDS(m,
          s->settled >= 0 && s->settled <= s->committed && s->committed <= s->reserved &&
              s->reserved <= m->max_seq_tokens,
          "I5: sequence %d: lengths %d, %d, %d", idx, s->settled, s->committed, s->reserved);
    HOLDS(m, s->swap == PKV_SEQ_RUNNING || s->reserved == s->committed,
          "I5: sequence %d is suspended and has room", idx);
    return PKV_OK;
}

/* A row of an open sequence; counts its references into `planned`. */
static pkv_status check_open_row(const pkv_blockmgr *m, int32_t idx, int32_t g)
{
    const struct group_rec *grp = &m->groups[g];
    const struct seq_rec *s = &seqs_of(m)[idx];
    const struct seq_group *sg = seq_group(m, s, g);
    const bool state = grp->kind == PKV_GROUP_STATE, window = grp->window_tokens > 0;
    const bool away = s->swap == PKV_SEQ_SUSPENDED || s->swap == PKV_SEQ_RESUMING;
    const int32_t *row = row_at(m, g, idx);
    const int32_t n = state ? pkv__group_blocks(grp, 0, s->reserved) : blocks_for(grp, s->reserved);
    const int32_t released = pkv__gap_end(grp, s->settled, m->rollback_tokens);
    HOLDS(m, !window || pkv__max_i32(sg->gap_end, grp->sink_blocks) >= released,
          "I5: sequence %d: the window of group %d has released up to block %d, not %d", idx, g,
          sg->gap_end, released);
    HOLDS(m,
          !window || sg->gap_end <= pkv__max_i32(grp->sink_blocks, blocks_for(grp, s->committed)),
          "I5: sequence %d: a gap up to block %d in group %d, %d tokens", idx, sg->gap_end, g,
          s->committed);
    HOLDS(m,
          !window || (sg->own_from >= 0 && sg->own_from <= s->committed &&
                      (sg->own_from == 0 || block_offset(grp, sg->own_from) != 0)),
          "I5: sequence %d wrote group %d from token %d on, %d tokens", idx, g, sg->own_from,
          s->committed);
    for (int32_t i = 0; i < grp->row_width; i++) {
        const int32_t b = row[i], slot = state ? grp->slot + i : grp->slot;
        if (i >= n || (window && i >= grp->sink_blocks && i < sg->gap_end)) {
            HOLDS(m, b == 0, "I5: sequence %d: entry %d of group %d is %d, not 0", idx, i, g, b);
            continue;
        }
        if (away && b < 0) {
            HOLDS(m, host_id(m, -b), "I5: sequence %d: entry %d is host block %d", idx, i, -b);
            continue;
        }
        HOLDS(m, block_id(m, b), "I5: sequence %d: entry %d of group %d is %d", idx, i, g, b);
        HOLDS(m, blocks_of(m)[b].slot == slot, "I5: sequence %d: block %d is of slot %d, not %d",
              idx, b, blocks_of(m)[b].slot, slot);
        blocks_of(m)[b].planned++;
    }
    return PKV_OK;
}

/* Closing sequences keep the ids of blocks whose content may settle yet; others have no row. */
static pkv_status check_closed_row(const pkv_blockmgr *m, int32_t idx, int32_t g)
{
    const bool closing = seqs_of(m)[idx].life == SEQ_CLOSING;
    const int32_t *row = row_at(m, g, idx);
    for (int32_t i = 0; i < m->groups[g].row_width; i++)
        HOLDS(m, row[i] == 0 || (closing && block_id(m, row[i])),
              "I5: sequence %d is not open, and entry %d of group %d is %d", idx, i, g, row[i]);
    return PKV_OK;
}

/* May the sequence write the block at place `at` of its row from `offset` on? `planned` counts rows
 * and raw references. */
static pkv_status check_writable(const pkv_blockmgr *m, int32_t idx, int32_t b, int32_t at,
                                 int32_t offset)
{
    int32_t held = 0;
    HOLDS(m, blocks_of(m)[b].planned == 1,
          "I6: sequence %d has room in block %d, which others refer to", idx, b);
    HOLDS(m, pkv__block_covered(m, b) <= offset,
          "I6: sequence %d has room in block %d, whose content must stay", idx, b);
    (void)pkv__holds_on(m, b, at, &held);
    HOLDS(m, held <= offset, "I6: sequence %d has room in block %d, which is held", idx, b);
    return PKV_OK;
}

static pkv_status check_room(const pkv_blockmgr *m, int32_t idx)
{
    const struct seq_rec *s = &seqs_of(m)[idx];
    pkv_status status = PKV_OK;
    if (s->life != SEQ_OPEN || s->reserved == s->committed) return PKV_OK;
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        const bool state = grp->kind == PKV_GROUP_STATE;
        const int32_t first = state ? 0 : block_index(grp, s->committed);
        const int32_t n = state ? grp->n_slots : blocks_for(grp, s->reserved);
        for (int32_t i = first; i < n && status == PKV_OK; i++) {
            const int32_t offset = state || i > first ? 0 : block_offset(grp, s->committed);
            status = check_writable(m, idx, row_at(m, g, idx)[i], i, offset);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- holds and host blocks */

/* Visit the blocks of a hold; false where its list cannot be. */
static bool count_hold(const pkv_blockmgr *m, const struct hold_rec *h)
{
    if (h->kind == HOLD_PREFIX) {
        const int32_t *ids = pkv__hold_ids(m, h);
        int64_t n = 0;
        for (int32_t g = 0; g < m->n_groups; g++) n += h->n_blocks[g];
        if (n < 1 || n > m->hold_ids || h->n_tokens < 1) return false;
        for (int64_t i = 0; i < n; i++) {
            if (!block_id(m, ids[i])) return false;
            blocks_of(m)[ids[i]].planned++;
        }
        return true;
    }
    int32_t n = 0;
    for (int32_t b = h->last_block; b != 0; b = swaps_of(m)[b].next) {
        if (!block_id(m, b) || ++n >= m->n_blocks || !host_id(m, swaps_of(m)[b].host)) return false;
        blocks_of(m)[b].planned++;
    }
    return true;
}

static pkv_status count_holds(const pkv_blockmgr *m, bool expired_only)
{
    for (int32_t i = 0; i < m->max_holds; i++) {
        const struct hold_rec *h = &holds_of(m)[i];
        if (h->life == HOLD_FREE || (expired_only && h->life != HOLD_OVERDUE)) continue;
        HOLDS(m, count_hold(m, h), "I11: the blocks of hold %d are out of order", i);
    }
    return PKV_OK;
}

/* Sequences under way to or from the host are those that running swaps name. */
static pkv_status check_swap_seqs(const pkv_blockmgr *m)
{
    int32_t n_moving = 0, n_named = 0;
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        n_moving +=
            s->life == SEQ_OPEN && (s->swap == PKV_SEQ_SUSPENDING || s->swap == PKV_SEQ_RESUMING);
    }
    for (int32_t i = 0; i < m->max_holds; i++) {
        const struct hold_rec *h = &holds_of(m)[i];
        if (h->life != HOLD_RUNNING || h->kind == HOLD_PREFIX) continue;
        const int want = h->kind == HOLD_SUSPEND ? PKV_SEQ_SUSPENDING : PKV_SEQ_RESUMING;
        for (int32_t k = h->first_seq; k != NONE; k = seqs_of(m)[k].link)
            HOLDS(m,
                  k >= 0 && k < m->max_seqs && ++n_named <= n_moving &&
                      seqs_of(m)[k].life == SEQ_OPEN && seqs_of(m)[k].swap == want,
                  "I11: hold %d moves sequence %d, which is not under way", i, k);
    }
    HOLDS(m, n_named == n_moving, "I11: %d sequences are under way, holds move %d", n_moving,
          n_named);
    return PKV_OK;
}

static pkv_status check_holds(const pkv_blockmgr *m)
{
    int32_t n = 0, n_free = 0, n_pairs = 0, n_paired = 0;
    for (int32_t i = 0; i < m->max_holds; i++) {
        const struct hold_rec *h = &holds_of(m)[i];
        HOLDS(m, h->life <= HOLD_OVERDUE && h->kind <= HOLD_RESUME,
              "I11: hold %d: life %d, kind %d", i, h->life, h->kind);
        n += h->life != HOLD_FREE;
        if (h->life == HOLD_FREE || h->kind == HOLD_PREFIX) continue;
        for (int32_t b = h->last_block; b != 0; b = swaps_of(m)[b].next) n_pairs++;
    }
    HOLDS(m, n == m->n_holds, "I11: %d holds, %d counted", n, m->n_holds);
    for (int32_t i = m->free_hold; i != NONE; i = holds_of(m)[i].next_free)
        HOLDS(m,
              i >= 0 && i < m->max_holds && holds_of(m)[i].life == HOLD_FREE &&
                  ++n_free <= m->max_holds - n,
              "I11: hold %d cannot be free", i);
    HOLDS(m, n_free == m->max_holds - n, "I11: %d of %d unused holds are listed", n_free,
          m->max_holds - n);
    for (int32_t b = 1; b < m->n_blocks && m->n_host_blocks > 0; b++)
        n_paired += swaps_of(m)[b].host != 0;
    HOLDS(m, n_pairs == n_paired, "I11: swaps have %d blocks, %d blocks say they swap", n_pairs,
          n_paired);
    return check_swap_seqs(m);
}

/* One more reference of a host block, into its `next`; false if it is a free one. */
static bool count_host(const pkv_blockmgr *m, int32_t h)
{
    if (host_of(m)[h].ref == 0) return false;
    host_of(m)[h].next++;
    return true;
}

static pkv_status count_host_refs(const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->max_seqs; i++) {
        if (seqs_of(m)[i].life != SEQ_OPEN || seqs_of(m)[i].swap == PKV_SEQ_RUNNING) continue;
        for (int32_t g = 0; g < m->n_groups; g++) {
            const int32_t *row = row_at(m, g, i);
            for (int32_t k = 0; k < m->groups[g].row_width; k++)
                HOLDS(m, row[k] >= 0 || count_host(m, -row[k]),
                      "I11: sequence %d is on host block %d, which is free", i, -row[k]);
        }
    }
    for (int32_t i = 0; i < m->max_holds; i++) {
        const struct hold_rec *h = &holds_of(m)[i];
        if (h->life == HOLD_FREE || h->kind != HOLD_SUSPEND) continue;
        for (int32_t b = h->last_block; b != 0; b = swaps_of(m)[b].next)
            HOLDS(m, count_host(m, swaps_of(m)[b].host),
                  "I11: hold %d moves to host block %d, which is free", i, swaps_of(m)[b].host);
    }
    return PKV_OK;
}

static pkv_status check_host_refs(const pkv_blockmgr *m)
{
    const pkv_status status = count_host_refs(m);
    if (status != PKV_OK) return status;
    for (int32_t h = 1; h < m->n_host_blocks; h++)
        HOLDS(m, host_of(m)[h].ref == 0 || host_of(m)[h].next == host_of(m)[h].ref,
              "I11: host block %d has ref %d, %d found", h, host_of(m)[h].ref, host_of(m)[h].next);
    return PKV_OK;
}

static pkv_status check_host(const pkv_blockmgr *m)
{
    struct host_rec *host = host_of(m);
    int32_t n_listed = 0, n_free = 0;
    for (int32_t h = 1; h < m->n_host_blocks; h++) {
        HOLDS(m, host[h].ref >= 0 && (host[h].ref == 0 || host[h].next == 0),
              "I11: host block %d: ref %d, next %d", h, host[h].ref, host[h].next);
        n_free += host[h].ref == 0;
    }
    for (int32_t h = m->free_host; h != NONE; h = host[h].next)
        HOLDS(m, host_id(m, h) && host[h].ref == 0 && ++n_listed <= n_free,
              "I11: host block %d cannot be free", h);
    HOLDS(m, n_listed == n_free && n_free == m->n_free_host,
          "I11: %d host blocks are free, %d listed, %d counted", n_free, n_listed, m->n_free_host);
    const pkv_status status = check_host_refs(m);
    for (int32_t h = 1; h < m->n_host_blocks; h++)
        if (host[h].ref > 0) host[h].next = 0;
    return status;
}

/* ---------------------------------------------------------------- level 2 */

static pkv_status check_one_block(const pkv_blockmgr *m, int32_t b, int32_t count[N_STATES])
{
    const struct block_rec *r = &blocks_of(m)[b];
    HOLDS(m, r->state < N_STATES, "I1: block %d is in state %d", b, r->state);
    count[r->state]++;
    HOLDS(m, r->ref == r->planned, "I2: block %d has ref %d, %d found", b, r->ref, r->planned);
    const bool used = r->state == BLOCK_ACTIVE || r->state == BLOCK_QUARANTINE;
    HOLDS(m, used == (r->ref > 0), "I2: block %d has ref %d in state %d", b, r->ref, r->state);
    HOLDS(m, used || r->state == BLOCK_LIMBO || r->prepared == NONE,
          "I3: block %d in state %d has node %d prepared", b, r->state, r->prepared);
    HOLDS(m, r->state != BLOCK_FREE || r->node == NONE, "I3: free block %d holds node %d", b,
          r->node);
    HOLDS(m, r->state != BLOCK_CACHED || (r->node != NONE && !r->spare),
          "I7: cached block %d is not the main block of a node", b);
    return PKV_OK;
}

/* `planned` counts references of expired holds. */
static pkv_status check_expired(const pkv_blockmgr *m)
{
    for (int32_t b = 1; b < m->n_blocks; b++) {
        const struct block_rec *r = &blocks_of(m)[b];
        if (r->ref == 0) continue;
        HOLDS(m, r->stamp == (uint32_t)r->planned,
              "I2: block %d has %u references of expired holds, %d found", b, r->stamp, r->planned);
        HOLDS(m, (r->state == BLOCK_QUARANTINE) == (r->planned == r->ref),
              "I2: block %d in state %d: %d of %d references expired", b, r->state, r->planned,
              r->ref);
    }
    return PKV_OK;
}

static pkv_status check_free_ids(const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->n_free; i++) {
        const int32_t b = free_ids_of(m)[i];
        HOLDS(m, block_id(m, b) && blocks_of(m)[b].state == BLOCK_FREE,
              "I3: free id %d is not a free block", b);
        HOLDS(m, blocks_of(m)[b].planned == 0, "I3: block %d is free twice", b);
        blocks_of(m)[b].planned = 1;
    }
    return PKV_OK;
}

static pkv_status count_rows(const pkv_blockmgr *m)
{
    int32_t n_open = 0, n_closing = 0;
    pkv_status status = PKV_OK;
    for (int32_t i = 0; i < m->max_seqs && status == PKV_OK; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        n_open += s->life == SEQ_OPEN;
        n_closing += s->life == SEQ_CLOSING;
        status = check_lengths(m, i);
        for (int32_t g = 0; g < m->n_groups && status == PKV_OK; g++)
            status = s->life == SEQ_OPEN ? check_open_row(m, i, g) : check_closed_row(m, i, g);
    }
    if (status != PKV_OK) return status;
    HOLDS(m, n_open == m->n_seqs && n_closing == m->n_closing,
          "I8: %d sequences are open and %d closing, counted %d and %d", n_open, n_closing,
          m->n_seqs, m->n_closing);
    return PKV_OK;
}

static pkv_status count_raw(const pkv_blockmgr *m)
{
    uint64_t sum = 0;
    for (int32_t b = 1; b < m->n_blocks; b++) {
        HOLDS(m, raw_refs_of(m)[b] >= 0, "I2: block %d has %d raw references", b,
              raw_refs_of(m)[b]);
        sum += (uint64_t)raw_refs_of(m)[b];
        blocks_of(m)[b].planned += raw_refs_of(m)[b];
    }
    HOLDS(m, sum == m->n_raw_refs, "I2: %llu raw references, %llu counted", (unsigned long long)sum,
          (unsigned long long)m->n_raw_refs);
    return PKV_OK;
}

/* All references, block by block. */
static pkv_status check_refs(const pkv_blockmgr *m)
{
    int32_t count[N_STATES] = { 0 };
    pkv_status status = count_rows(m);
    if (status == PKV_OK) status = count_raw(m);
    for (int32_t i = 0; i < m->max_seqs && status == PKV_OK; i++) status = check_room(m, i);
    if (status == PKV_OK) status = count_holds(m, false);
    for (int32_t b = 1; b < m->n_blocks && status == PKV_OK; b++)
        status = check_one_block(m, b, count);
    if (status != PKV_OK) return status;
    HOLDS(m,
          count[BLOCK_FREE] == m->n_free && count[BLOCK_ACTIVE] == m->n_active &&
              count[BLOCK_CACHED] == m->n_cached && count[BLOCK_LIMBO] == m->limbo.n &&
              count[BLOCK_QUARANTINE] == m->n_quarantine,
          "I1: states %d/%d/%d/%d/%d, counters %d/%d/%d/%d/%d", count[0], count[1], count[2],
          count[3], count[4], m->n_free, m->n_active, m->n_cached, m->limbo.n, m->n_quarantine);
    return PKV_OK;
}

static void clear_scratch(const pkv_blockmgr *m)
{
    for (int32_t b = 0; b < m->n_blocks; b++) blocks_of(m)[b].planned = 0;
}

static pkv_status check_blocks(const pkv_blockmgr *m)
{
    pkv_status status = check_refs(m);
    clear_scratch(m);
    if (status == PKV_OK) status = count_holds(m, true);
    if (status == PKV_OK) status = check_expired(m);
    clear_scratch(m);
    if (status == PKV_OK) status = check_free_ids(m);
    clear_scratch(m);
    if (status == PKV_OK) status = check_holds(m);
    if (status == PKV_OK) status = check_host(m);
    return status;
}

/* ---------------------------------------------------------------- level 3: records in use */

/* The lists of unused nodes, extra entries and sequences: as long as the counts say, and nothing on
 * them is in use. */
static pkv_status check_free_records(const pkv_blockmgr *m)
{
    const int32_t unused = m->max_seqs - m->n_seqs - m->n_closing;
    int32_t n = 0;
    for (int32_t id = m->free_node; id != NONE; id = node_at(m, id)->older) {
        HOLDS(m, id >= 0 && id < m->node_high && ++n <= m->node_high - m->n_nodes,
              "I8: node %d cannot be free", id);
        HOLDS(m, !node_at(m, id)->indexed && node_at(m, id)->holders == 0,
              "I8: node %d is free and in use", id);
    }
    HOLDS(m, n == m->node_high - m->n_nodes, "I8: %d of %d unused nodes are listed", n,
          m->node_high - m->n_nodes);
    n = 0;
    for (int32_t e = m->free_extra; e != NONE; e = extras_of(m)[e].next)
        HOLDS(m, e >= 0 && e < m->extra_high && ++n <= m->extra_high - m->n_extras,
              "I8: extra entry %d cannot be free", e);
    HOLDS(m, n == m->extra_high - m->n_extras, "I8: %d of %d unused extra entries are listed", n,
          m->extra_high - m->n_extras);
    n = 0;
    for (int32_t i = m->free_seq; i != NONE; i = seqs_of(m)[i].link)
        HOLDS(m, i >= 0 && i < m->max_seqs && seqs_of(m)[i].life == SEQ_FREE && ++n <= unused,
              "I8: sequence %d cannot be free", i);
    HOLDS(m, n == unused, "I8: %d of %d unused sequences are listed", n, unused);
    return PKV_OK;
}

/* Closing sequences are listed, and namespaces count their sequences. */
static pkv_status check_namespace_counts(const pkv_blockmgr *m)
{
    int32_t n = 0, last = NONE;
    for (int32_t i = m->closing_head; i != NONE; last = i, i = seqs_of(m)[i].link)
        HOLDS(m,
              i >= 0 && i < m->max_seqs && seqs_of(m)[i].life == SEQ_CLOSING && ++n <= m->n_closing,
              "I8: sequence %d cannot be closing", i);
    HOLDS(m, n == m->n_closing && last == m->closing_tail,
          "I8: %d sequences are closing, the last %d; listed are %d up to %d", m->n_closing,
          m->closing_tail, n, last);
    for (int32_t k = 0; k < m->max_namespaces; k++) {
        const struct ns_rec *ns = &namespaces_of(m)[k];
        int32_t n_open = 0, n_closing = 0;
        if (ns->n_opens == 0) continue;
        for (int32_t i = 0; i < m->max_seqs; i++) {
            const struct seq_rec *s = &seqs_of(m)[i];
            n_open += s->life == SEQ_OPEN && s->ns == k;
            n_closing += s->life == SEQ_CLOSING && s->ns == k;
        }
        HOLDS(m, n_open == ns->n_seqs && n_closing == ns->n_closing,
              "I8: namespace %d counts %d sequences and %d closing, it has %d and %d", k,
              ns->n_seqs, ns->n_closing, n_open, n_closing);
    }
    return PKV_OK;
}

pkv_status pkv_blockmgr_check(const pkv_blockmgr *mgr, int level)
{
    if (!mgr || level < 1 || level > 3) return PKV_E_INVALID_ARG;
    pkv_status status = check_counts(mgr);
    if (status == PKV_OK && level >= 2) status = check_blocks(mgr);
    if (status == PKV_OK && level >= 3) status = pkv__check_content(mgr);
    if (status == PKV_OK && level >= 3) status = check_free_records(mgr);
    if (status == PKV_OK && level >= 3) status = check_namespace_counts(mgr);
    return status;
}
