/* The simulated bytes: one word per slot, made of namespace, group, and all tokens up to it.
 *
 *   early   a step's writes are done at once       late   they are done when it retires
 *
 * Copies are done when they are planned, in both; a slot whose word is still to come passes that on
 * to the copy (work is ordered behind the writes of steps begun earlier). Of one slot, the write of
 * a later step or call comes after that of an earlier step. A step reads its sequences' rows as
 * late as it retires. A state is one word, that of the last token. */
#include "closure.h"

enum { GARBAGE = 1, POISON = 2 }; /* no word is as small */

static bool claimed[N_CELLS]; /* somebody may read the slot some day */

static int group_tokens(int g)
{
    return mgr()->groups[g].block_tokens;
}

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u + (h >> 15) + 1;
    return h > POISON ? h : h + 7;
}

static uint32_t root_word(int ns)
{
    return 7 + (uint32_t)ns;
}

/* Of the chain that ends with this word, the word in group g. */
static uint32_t in_group(uint32_t chain, int g)
{
    return mix(chain, 100 + (uint32_t)g);
}

uint32_t word_of_token(const struct world *w, int s, int g, int pos)
{
    uint32_t h = root_word(w->ns[s]);
    for (int i = 0; i <= pos; i++) h = mix(h, w->tokens[s][i] + 1u);
    return in_group(h, g);
}

/* First position that a query at `pos` sees: the contract's formula, not the manager's function. */
static int first_seen(int g, int pos)
{
    const struct group_rec *grp = &mgr()->groups[g];
    if (grp->kind == PKV_GROUP_SLIDING)
        return pos < grp->window_tokens ? 0 : pos - grp->window_tokens + 1;
    if (grp->kind == PKV_GROUP_CHUNKED) return pos - pos % grp->window_tokens;
    return 0;
}

static bool is_state(int g)
{
    return mgr()->groups[g].kind == PKV_GROUP_STATE;
}

static bool is_seen(int g, int query, int pos)
{
    if (is_state(g)) return pos == query - 1;
    return pos >= first_seen(g, query) || pos < mgr()->groups[g].sink_tokens;
}

/* ---- what is done to bytes */
void bytes_copied(struct world *w, const pkv_block_work *work)
{
    for (int i = 0; i < work->n_copy; i++) {
        const pkv_block_copy *c = &work->copy[i];
        for (int t = 0; t < group_tokens(c->group); t++) {
            const int to = cell_of(c->dst, t), from = cell_of(c->src, t);
            const bool matters = t < c->n_tokens || is_state(c->group);
            w->early[to] = matters ? w->early[from] : POISON;
            w->late[to] = matters ? w->late[from] : POISON;
            for (int k = 0; k < MAX_STEPS; k++) {
                if (w->reads[k][to]) die("a copy over what a running step reads");
                w->waiting[k][to] = matters ? w->waiting[k][from] : 0;
            }
        }
    }
}

/* The slot of a token: -1 where a window has released it. */
static int cell_of_token(int s, int g, int pos)
{
    const int T = group_tokens(g), block = row_at(mgr(), g, s)[is_state(g) ? 0 : pos / T];
    if (is_state(g)) return block > 0 ? cell_of(block, 0) : -1;
    return block > 0 ? cell_of(block, pos % T) : -1;
}

/* The owner writes a slot: a running step that was to read it has, in order, done so before. With
 * IN_ORDER nothing is late. */
static void overwrite(struct world *w, int cell, uint32_t word, bool late_too)
{
    for (int k = 0; k < MAX_STEPS; k++) w->reads[k][cell] = 0;
    w->early[cell] = word;
    if (late_too || opt.in_order) w->late[cell] = word;
}

void bytes_committed(struct world *w, int s, int from, int upto, int step)
{
    for (int g = 0; g < mgr()->n_groups; g++) {
        for (int pos = from; pos < upto; pos++) {
            const int cell = cell_of_token(s, g, pos);
            const uint32_t word = word_of_token(w, s, g, pos);
            if (cell < 0) die("room for a token in a block that a window released");
            /* A step behind which a later one has retired has done its writes. */
            overwrite(w, cell, word, step < 0 || w->waiting[step][cell] == 0);
            /* Later steps that were launched with the slot compute the same token once more;
             * earlier ones wrote before. */
            for (int k = 0; k < MAX_STEPS; k++)
                if (w->waiting[k][cell] && k >= step) w->waiting[k][cell] = step < 0 ? 0 : word;
        }
    }
}

static bool runs(const struct world *w, int s)
{
    return w->ns[s] >= 0 && seqs_of(mgr())[s].swap == PKV_SEQ_RUNNING;
}

void bytes_launched(struct world *w, int step)
{
    memset(w->waiting[step], 0, sizeof w->waiting[step]);
    memset(w->reads[step], 0, sizeof w->reads[step]);
    for (int s = 0; s < opt.seqs; s++) {
        const struct seq_rec *rec = &seqs_of(mgr())[s];
        w->launched[step][s] = runs(w, s) ? (uint8_t)rec->reserved : 0;
        for (int g = 0; g < mgr()->n_groups && runs(w, s); g++) {
            for (int pos = 0; pos < rec->reserved; pos++) {
                const int cell = cell_of_token(s, g, pos);
                if (cell < 0) continue;
                if (pos >= rec->committed) {
                    overwrite(w, cell, GARBAGE, false);
                    if (!opt.in_order) w->waiting[step][cell] = GARBAGE;
                } else if (is_seen(g, rec->committed, pos) && !opt.in_order) {
                    w->reads[step][cell] = word_of_token(w, s, g, pos);
                }
            }
        }
    }
}

static bool arrives(const struct world *w, int cell, uint32_t word)
{
    for (int k = 0; k < MAX_STEPS; k++)
        if (w->waiting[k][cell] == word) return true;
    return false;
}

void bytes_retired(struct world *w, int step)
{
    for (int cell = 0; cell < N_CELLS; cell++) {
        const uint32_t expected = w->reads[step][cell], word = w->waiting[step][cell];
        if (expected && w->early[cell] != expected) die("a running step read something else");
        if (expected && w->late[cell] != expected && !arrives(w, cell, expected))
            die("a running step read something else (late writes)");
        if (!word) continue;
        w->late[cell] = word;
        for (int k = 0; k < step; k++) w->waiting[k][cell] = 0; /* came before */
    }
}

/* What it was to write never comes: later steps that were to read it have read for nothing. */
void bytes_aborted(struct world *w, int step)
{
    for (int cell = 0; cell < N_CELLS; cell++)
        for (int k = step + 1; k < MAX_STEPS; k++)
            if (w->waiting[step][cell]) w->reads[k][cell] = 0;
    memset(w->waiting[step], 0, sizeof w->waiting[step]);
    memset(w->reads[step], 0, sizeof w->reads[step]);
}

void bytes_held(struct world *w, int hold, int s, int n_tokens)
{
    memset(w->held[hold], 0, sizeof w->held[hold]);
    for (int g = 0; g < mgr()->n_groups; g++) {
        for (int pos = 0; pos < n_tokens; pos++) {
            const int cell = cell_of_token(s, g, pos);
            if (cell >= 0 && !is_state(g) && is_seen(g, n_tokens, pos))
                w->held[hold][cell] = word_of_token(w, s, g, pos);
        }
    }
}

/* ---- swaps. The early transfer is done at once, the late one when it is posted. One that failed
 * or was overdue may have written anything until then. */
void bytes_swap_planned(struct world *w, int hold, int kind, const pkv_swap_copy *copies, int n)
{
    struct swap_note *note = &w->swap[hold];
    *note = (struct swap_note){ .kind = (uint8_t)kind, .n = (uint8_t)n };
    for (int i = 0; i < n; i++) {
        note->device[i] = (uint8_t)copies[i].device, note->host[i] = (uint8_t)copies[i].host;
        for (int t = 0; t < MAX_T; t++) {
            const int d = cell_of(copies[i].device, t), h = cell_of(copies[i].host, t);
            if (kind == HOLD_SUSPEND) w->host_early[h] = w->early[d];
            else w->early[d] = w->host_early[h], w->late[d] = GARBAGE;
        }
    }
}

void bytes_swap_ended(struct world *w, int hold, bool good)
{
    const struct swap_note *note = &w->swap[hold];
    for (int i = 0; i < note->n; i++) {
        for (int t = 0; t < MAX_T; t++) {
            const int d = cell_of(note->device[i], t), h = cell_of(note->host[i], t);
            if (note->kind == HOLD_SUSPEND) {
                w->host_late[h] = good ? w->late[d] : GARBAGE;
                if (!good) w->host_early[h] = GARBAGE;
            } else {
                w->late[d] = good ? w->host_late[h] : GARBAGE;
                if (!good) w->early[d] = GARBAGE;
            }
        }
    }
}

/* ---- what must hold */
static void check_cell(const struct world *w, int cell, uint32_t word, bool may_wait,
                       const char *what)
{
    claimed[cell] = true;
    if (w->early[cell] != word) die(what);
    if (w->late[cell] != word && !(may_wait && arrives(w, cell, word))) die(what);
}

/* What windows may have released, and what they must have. */
static void check_released(int g, const struct seq_rec *rec, int pos, bool released)
{
    const struct group_rec *grp = &mgr()->groups[g];
    const int T = grp->block_tokens, start = pos / T * T;
    const int back = rec->settled > opt.rollback ? rec->settled - opt.rollback : 0;
    const bool sink = start < grp->sink_tokens;
    if (released && (sink || start + T > first_seen(g, rec->settled)))
        die("a row without a block that a query sees");
    if (!released && !sink && start + T <= first_seen(g, back))
        die("a block that no query sees and that is not released");
}

/* An entry of a row holds the word of a token. */
static void check_entry(const struct world *w, int32_t id, int off, uint32_t word)
{
    if (id > 0) {
        check_cell(w, cell_of(id, off), word, true,
                   "a row that does not hold its sequence's tokens");
    } else if (w->host_early[cell_of(-id, off)] != word ||
               w->host_late[cell_of(-id, off)] != word) {
        die("a host block that does not hold its sequence's tokens");
    }
}

static void check_row(const struct world *w, int s, int g)
{
    const struct seq_rec *rec = &seqs_of(mgr())[s];
    const int32_t *row = row_at(mgr(), g, s);
    const int T = group_tokens(g);
    if (is_state(g)) {
        if (rec->committed == 0) return;
        if (row[0] == 0) die("a sequence without a state");
        check_entry(w, row[0], 0, word_of_token(w, s, g, rec->committed - 1));
        return;
    }
    for (int pos = 0; pos < rec->reserved; pos++) {
        const int32_t id = row[pos / T];
        check_released(g, rec, pos, id == 0);
        if (id == 0 || pos >= rec->committed) continue;
        if (id > 0) claimed[cell_of(id, pos % T)] = true;
        if (!is_seen(g, rec->settled, pos)) continue; /* a truncate may come back to it */
        check_entry(w, id, pos % T, word_of_token(w, s, g, pos));
    }
}

static void check_block_of_node(const struct world *w, int g, int32_t block, int depth, int n,
                                const uint32_t *chain)
{
    const int T = group_tokens(g), start = n < mgr()->unit ? depth - n : depth - T;
    for (int pos = start; pos < depth; pos++)
        check_cell(w, cell_of(block, pos - start), in_group(chain[pos + 1], g), false,
                   "findable content that is not there");
}

/* The children of a node or root, `depth` tokens down; chain[i] is the word behind i tokens. */
static void check_tree(const struct world *w, int32_t first, int depth, uint32_t *chain)
{
    const pkv_blockmgr *m = mgr();
    for (int32_t id = first; id != NONE; id = node_at(m, id)->older) {
        const struct node *n = node_at(m, id);
        for (int i = 0; i < n->n_tokens; i++)
            chain[depth + i + 1] = mix(chain[depth + i], (uint32_t)node_tokens(m, id)[i] + 1u);
        for (int g = 0; g < m->n_groups; g++) {
            const struct node_slot *at = &n->at[m->groups[g].slot];
            if (at->block == NONE) continue;
            check_block_of_node(w, g, at->block, depth + n->n_tokens, n->n_tokens, chain);
            for (int32_t b = at->oldest_spare; b != NONE; b = blocks_of(m)[b].next)
                check_block_of_node(w, g, b, depth + n->n_tokens, n->n_tokens, chain);
        }
        check_tree(w, n->first_child, depth + n->n_tokens, chain);
    }
}

/* Slots that the manager may yet make findable, or that transfers and steps use. */
static void claim_others(const struct world *w)
{
    const pkv_blockmgr *m = mgr();
    for (int32_t b = 1; b < m->n_blocks; b++) {
        const struct block_rec *rec = &blocks_of(m)[b];
        int n = rec->prepared != NONE ? node_at(m, rec->prepared)->n_tokens : 0;
        if (n == m->unit || rec->state == BLOCK_LIMBO) n = MAX_T;
        for (int t = 0; t < n; t++) claimed[cell_of(b, t)] = true;
    }
    for (int i = 0; i < MAX_HOLDS; i++)
        for (int k = 0; k < w->swap[i].n; k++)
            for (int t = 0; t < MAX_T; t++) claimed[cell_of(w->swap[i].device[k], t)] = true;
}

static void check_holds(struct world *w)
{
    for (int i = 0; i < mgr()->max_holds; i++) {
        if (holds_of(mgr())[i].life == HOLD_FREE) {
            memset(w->held[i], 0, sizeof w->held[i]);
            w->swap[i].n = 0;
        }
        for (int cell = 0; cell < N_CELLS; cell++)
            if (w->held[i][cell])
                check_cell(w, cell, w->held[i][cell], false, "a held block was written");
    }
}

static void poison(struct world *w)
{
    for (int cell = 0; cell < N_CELLS; cell++) {
        bool read = claimed[cell];
        for (int k = 0; k < MAX_STEPS; k++) read = read || w->reads[k][cell];
        if (!read) w->early[cell] = w->late[cell] = POISON;
    }
    for (int h = 1; h < mgr()->n_host_blocks; h++)
        for (int t = 0; t < MAX_T && host_of(mgr())[h].ref == 0; t++)
            w->host_early[cell_of(h, t)] = w->host_late[cell_of(h, t)] = POISON;
}

void check_bytes(struct world *w)
{
    uint32_t chain[MAX_TOKENS + MAX_T + 1];
    memset(claimed, 0, sizeof claimed);
    for (int s = 0; s < opt.seqs; s++) {
        const struct seq_rec *rec = &seqs_of(mgr())[s];
        if ((w->ns[s] >= 0) != (rec->life == SEQ_OPEN)) die("an open sequence too many or too few");
        if (w->ns[s] < 0) continue;
        if (w->n_tokens[s] != rec->committed) die("another length than was committed");
        for (int g = 0; g < mgr()->n_groups; g++) check_row(w, s, g);
    }
    for (int ns = 0; ns < opt.namespaces; ns++) {
        const int32_t idx = pkv__ns_find(mgr(), namespaces[ns]);
        chain[0] = root_word(ns);
        check_tree(w, namespaces_of(mgr())[idx].first_child, 0, chain);
    }
    check_holds(w);
    claim_others(w);
    poison(w);
}

void check_reuse(struct world *w, const pkv_blockmgr *before)
{
    for (int32_t b = 1; b < mgr()->n_blocks; b++) {
        const struct block_rec *was = &blocks_of(before)[b], *is = &blocks_of(mgr())[b];
        const bool free_now = is->state == BLOCK_FREE || is->state == BLOCK_CACHED;
        if (was->ref > 0 && is->ref == 0) w->released[b] = w->newest_step;
        if (w->step[0] == 0 || opt.in_order) continue;
        if (was->ref > 0 && free_now) die("a block that is free while a step may still use it");
        if (was->state != BLOCK_LIMBO) continue;
        if (free_now && w->step[0] <= w->released[b])
            die("a block that left LIMBO while a step may still use it");
        if (is->ref > 0 && (was->node == NONE || is->node != was->node))
            die("a block of LIMBO that was handed out");
    }
}

static void apply_delta(struct world *w, int g)
{
    pkv_table_range ranges[MAX_SEQS];
    int32_t ids[MAX_SEQS * MAX_TOKENS];
    const int32_t *next = ids;
    pkv_delta delta = PKV_DELTA_INIT;
    if (pkv_table_delta(mgr(), g, ranges, MAX_SEQS, ids, PKV_ARRAY_LEN(ids), &delta) != PKV_OK)
        die("no delta");
    for (int i = 0; i < delta.n_ranges; i++)
        for (int k = 0; k < ranges[i].n; k++)
            w->table[g][ranges[i].row_idx][ranges[i].first + k] = (uint8_t)*next++;
}

void check_delta(struct world *w)
{
    for (int g = 0; g < mgr()->n_groups; g++) {
        apply_delta(w, g);
        for (int s = 0; s < opt.seqs; s++) {
            const int32_t *row = NULL;
            int32_t n = 0;
            if (runs(w, s) && pkv_seq_row(mgr(), w->seq[s], g, &row, &n) != PKV_OK)
                die("a lost sequence");
            for (int i = 0; i < MAX_TOKENS; i++)
                if (w->table[g][s][i] != (i < n ? row[i] : 0))
                    die("a delta that does not lead to the rows");
        }
    }
}
