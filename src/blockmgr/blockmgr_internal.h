/* Inside the block manager: what its files offer each other.
 *
 *   arena.c        configuration, sizes, init, create, destroy
 *   block_pool.c   free ids, taking, references, states, the eviction lists and LIMBO
 *   node.c         content nodes, duplicates (spares), their place in the tree
 *   prepared.c     content that is not findable yet
 *   prefix_index.c hash table over nodes
 *   extra_keys.c   extra keys of units, as exact lists
 *   namespace.c    identities, roots
 *   sequence.c     open, close, fork, truncate;  row.c: rows, windows, slots, info
 *   commit.c       tokens that become content, pending commits
 *   step.c         begin, retire, abort;  policy.c: retain, decay, evict, epochs, snapshots
 *   reserve.c      room: verdicts, copies, `need`;  match.c: claiming a cached prefix, `probe`
 *   table.c        deltas, common prefixes, kernel views
 *   hold.c         holds, poll;  swap.c: suspend, resume;  raw_blocks.c
 *   invariants.c, invariants_content.c, state_digest.c, pool_plan.c
 *
 * Content is identified per unit; a node has one slot per group (per block of a STATE group), which
 * names the block that ends where the unit ends. */
#ifndef PKV_BLOCKMGR_INTERNAL_H
#define PKV_BLOCKMGR_INTERNAL_H

#include "blockmgr/blockmgr_arena.h"

/* A handle's record, or NULL when it is stale. */
static inline struct seq_rec *seq_find(const pkv_blockmgr *m, pkv_seq seq)
{
    const uint32_t idx = (uint32_t)seq.v;
    if (idx >= (uint32_t)m->max_seqs) return NULL;
    struct seq_rec *s = seqs_of(m) + idx;
    return s->life == SEQ_OPEN && s->generation == (uint32_t)(seq.v >> 32) ? s : NULL;
}

static inline pkv_seq seq_handle(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return (pkv_seq){ (uint64_t)s->generation << 32 | (uint32_t)seq_index(m, s) };
}

static inline bool is_group(const pkv_blockmgr *m, int32_t group)
{
    return group >= 0 && group < m->n_groups;
}

/* Do released blocks wait for steps? */
static inline bool steps_hold_back(const pkv_blockmgr *m)
{
    return m->n_open_steps > 0 && !has_flag(m, PKV_MGR_IN_ORDER);
}

/* A set of sequences. */
static inline void set_add(uint64_t *set, int32_t i)
{
    set[i / 64] |= UINT64_C(1) << (i % 64);
}
static inline void set_drop(uint64_t *set, int32_t i)
{
    set[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* ---- block_pool.c */
/* A block for a new owner in `slot`, ref 1, from the free ids or from the head of the eviction
 * order. The caller has checked that there is one. */
int32_t pkv__block_take(pkv_blockmgr *m, int32_t slot);
/* One reference less; the last one makes the block LIMBO, CACHED or FREE, or QUARANTINE when only
 * those of expired holds are left. */
void pkv__block_unref(pkv_blockmgr *m, int32_t block);
/* One reference more; a CACHED or LIMBO block leaves its list. */
void pkv__block_ref(pkv_blockmgr *m, int32_t block);
/* A hold that refers to the block has expired; and: its reference goes. */
void pkv__block_ref_expires(pkv_blockmgr *m, int32_t block);
void pkv__block_unref_expired(pkv_blockmgr *m, int32_t block);
void pkv__block_free(pkv_blockmgr *m, int32_t block);   /* ref 0, no node -> FREE */
void pkv__evict_insert(pkv_blockmgr *m, int32_t block); /* ref 0, main block -> CACHED */
/* Off its list; the state is the caller's to set. */
void pkv__evict_remove(pkv_blockmgr *m, int32_t block);
void pkv__evict_one(pkv_blockmgr *m); /* the first of the eviction order becomes FREE */
/* Every block in LIMBO whose steps have retired becomes CACHED or FREE. */
void pkv__limbo_drain(pkv_blockmgr *m);
/* Number the blocks in LIMBO in order of release, in `planned`; and back to 0. */
void pkv__limbo_number(pkv_blockmgr *m, bool numbered);
/* The list that a CACHED block is on; enum evict_class. */
int pkv__evict_list_of(const pkv_blockmgr *m, int32_t block);
/* All lists behind the stale one; every list above the default one class down. O(classes). */
void pkv__evict_all_stale(pkv_blockmgr *m);
void pkv__evict_decay(pkv_blockmgr *m);
/* How many of the next `n_taken` blocks must be zeroed; the first `n_returned` of them come from
 * blocks that the call itself gives back before it takes. */
int32_t pkv__count_zeros(const pkv_blockmgr *m, int32_t n_taken, int32_t n_returned);
/* Take a block and note it in work->zero if the policy asks for it. */
int32_t pkv__take_for_work(pkv_blockmgr *m, int32_t slot, pkv_block_work *work);
pkv_status pkv__check_work(const pkv_blockmgr *m, const pkv_block_work *work);
/* PKV_OK when `need` <= room, PKV_E_AGAIN when LIMBO (without `limbo_used` blocks, with
 * `limbo_more` behind them) makes up for it, else PKV_E_NO_BLOCKS. `step`, if not NULL, names the
 * step to wait for. */
pkv_status pkv__judge_room(const pkv_blockmgr *m, int64_t need, int64_t room, int32_t limbo_used,
                           int32_t limbo_more, pkv_step *step);

/* ---- extra_keys.c: lists of extra keys, from a call's array or from entries */
struct extra_list {
    const pkv_extra *array; /* with n_array and shift; or */
    int32_t n_array;
    int64_t shift; /* added to `first` to make it relative to the unit */
    int32_t entry; /* entries, if array is NULL */
};
static inline struct extra_list extra_entries(int32_t first_entry)
{
    return (struct extra_list){ NULL, 0, 0, first_entry };
}
/* Extras of `t` for the unit that begins at ids[unit_start], beginning from the first one that may
 * touch it; *cursor keeps the place between ascending units. */
struct extra_list pkv__extras_at(const pkv_tokens *t, int32_t unit_start, int32_t *cursor);
bool pkv__extras_valid(const pkv_tokens *t);
/* Do both lists have the same entries with offset < n_tokens? */
bool pkv__extras_equal(const pkv_blockmgr *m, struct extra_list a, struct extra_list b,
                       int32_t n_tokens);
/* The longest prefix of at most n_tokens over which both lists agree. */
int32_t pkv__extras_common(const pkv_blockmgr *m, struct extra_list a, struct extra_list b,
                           int32_t n_tokens);
void pkv__extras_hash(const pkv_blockmgr *m, struct extra_list a, int32_t n_tokens,
                      struct pkv__siphash *h);
/* Append copies of the entries of `src` with offset < n_tokens to the list at *head; an entry equal
 * to the last one is skipped. False when entries ran out; what was appended stays in the list. */
bool pkv__extras_append(pkv_blockmgr *m, int32_t *head, struct extra_list src, int32_t n_tokens);
/* May the first entry of `src` follow a unit of which n_tail tokens, with the extras at `head`, are
 * there already? It begins behind them, or is the last one of them going on. */
bool pkv__extras_follow(const pkv_blockmgr *m, int32_t head, struct extra_list src, int32_t n_tail);
void pkv__extras_clip(pkv_blockmgr *m, int32_t *head, int32_t n_tokens); /* drop offset >= n */
void pkv__extras_drop(pkv_blockmgr *m, int32_t *head);

/* ---- prefix_index.c */
struct unit_key {
    uint64_t hash;
    int32_t parent;     /* node or root */
    const int32_t *ids; /* [n_tokens] */
    int32_t n_tokens;
    struct extra_list extras;
};
/* Hash of everything in the key but `hash`; the caller stores it there. */
uint64_t pkv__unit_hash(const pkv_blockmgr *m, const struct unit_key *key);
/* The same behind a unit of this hash, whatever key->parent is. */
uint64_t pkv__unit_hash_after(const pkv_blockmgr *m, uint64_t before, const struct unit_key *key);
/* Exact: hash, parent, tokens and extras, and of the present epoch. */
bool pkv__node_holds(const pkv_blockmgr *m, int32_t node, const struct unit_key *key);
int32_t pkv__index_find(const pkv_blockmgr *m, const struct unit_key *key); /* node or NONE */
bool pkv__index_has_room(const pkv_blockmgr *m, uint64_t hash);
void pkv__index_insert(pkv_blockmgr *m, int32_t node);
void pkv__index_remove(pkv_blockmgr *m, int32_t node);

/* ---- node.c. `blocks` is [n_slots]: the block that ends here in each slot, 0 where none does. */
int32_t pkv__node_take(pkv_blockmgr *m); /* an unused node, or NONE; give it back when unlinked */
void pkv__node_give(pkv_blockmgr *m, int32_t node);
/* An unlinked node with this content; takes over the entries of *extras (NONE afterwards). */
void pkv__node_fill(pkv_blockmgr *m, int32_t node, const struct unit_key *key, int32_t *extras);
/* Make `blocks` hold the content `key`: as main blocks of a new node, in place of cached ones, or
 * as spares. Shorter partial nodes on them are dropped first. Takes over the entries of *extras.
 * The node, or NONE when none could be made: then nothing has changed, *extras included. */
int32_t pkv__node_publish(pkv_blockmgr *m, const struct unit_key *key, const int32_t *blocks,
                          int32_t *extras);
/* The same for a prepared node that is on no block's list any more. It becomes the node, or gives
 * its blocks to the node that is there (then the caller gives it back); NONE as above. */
int32_t pkv__node_index(pkv_blockmgr *m, int32_t prepared, int32_t parent);
/* The main blocks of a node, 0 where there is none. */
void pkv__node_blocks(const pkv_blockmgr *m, const struct node *n, int32_t *blocks);
/* One block joins a node that exists. Two blocks in LIMBO are compared by pkv__limbo_number. */
void pkv__node_join(pkv_blockmgr *m, int32_t node, int32_t block);
/* The block stops holding its content: a spare is unlinked; a main block hands its place to the
 * oldest spare, else the place is empty, and the node goes if it was the last. The block keeps its
 * state. */
void pkv__node_detach(pkv_blockmgr *m, int32_t block);
/* Remove the node, and then its parents, as long as they have no block, child or pin. */
void pkv__node_prune(pkv_blockmgr *m, int32_t node);
/* `act` on every node below a node or root, children before parents, newest first. Nodes that it
 * leaves without blocks are removed. */
void pkv__tree_each(pkv_blockmgr *m, int32_t top, void (*act)(pkv_blockmgr *, int32_t, void *),
                    void *ctx);
/* How many CACHED blocks of its FULL group would lose their parent if the block lost its content.
 */
int32_t pkv__cached_below(const pkv_blockmgr *m, int32_t block);
/* The block's content is withdrawn, so that it can be written in place; those blocks become FREE.
 */
void pkv__node_withdraw(pkv_blockmgr *m, int32_t block);
/* Head of the list of children of a node or root. */
int32_t *pkv__children_of(const pkv_blockmgr *m, int32_t parent);
/* Tokens that the content findable on the block, or prepared on it, covers. */
int32_t pkv__block_covered(const pkv_blockmgr *m, int32_t block);
/* Priority and floor as decays have left them. */
int pkv__node_class(const pkv_blockmgr *m, const struct node *n);
void pkv__node_age(const pkv_blockmgr *m, struct node *n);
void pkv__node_raise_floor(const pkv_blockmgr *m, struct node *n, int c);

/* ---- prepared.c */
/* The prepared node of n_tokens on a block; NONE. */
int32_t pkv__prepared_on(const pkv_blockmgr *m, int32_t block, int32_t n_tokens);
/* The sequence's next complete unit, which is its tail, will be findable when it settles; or
 * indexing ends (false). */
bool pkv__unit_prepare(pkv_blockmgr *m, struct seq_rec *s);
/* Units that end at or below `settled` become findable. */
void pkv__units_settle(pkv_blockmgr *m, struct seq_rec *s);
/* The sequence is no holder any more of its prepared units from n_units on: n_full ends there. */
void pkv__units_drop(pkv_blockmgr *m, struct seq_rec *s, int32_t n_units);
/* The blocks that the tail's tokens lie in, by slot; all groups have equal blocks. */
void pkv__tail_blocks(const pkv_blockmgr *m, const struct seq_rec *s, int32_t *blocks);
/* One holder less of a prepared node. */
void pkv__prepared_drop(pkv_blockmgr *m, int32_t node);
/* A closing sequence's partial tail: will be findable; is findable now, or given up. */
void pkv__tail_prepare(pkv_blockmgr *m, struct seq_rec *s);
void pkv__tail_settle(pkv_blockmgr *m, struct seq_rec *s);
void pkv__tail_drop(pkv_blockmgr *m, struct seq_rec *s);

/* ---- namespace.c */
/* Index of an open namespace, or NONE when the handle is stale. */
int32_t pkv__ns_find(const pkv_blockmgr *m, pkv_ns ns);
void pkv__ns_init_default(pkv_blockmgr *m);
pkv_ns pkv__ns_handle(const pkv_blockmgr *m, int32_t ns_idx);

/* ---- row.c */
/* First position below `pos` that a query at `pos` sees. */
int32_t pkv__first_seen(const struct group_rec *g, int32_t pos);
/* Entries of a row, from the sinks on, that end here are released when `settled` tokens have
 * settled; and the blocks of a row with `reserved` tokens of room that is released up to gap_end.
 * The planner counts with these too. */
int32_t pkv__gap_end(const struct group_rec *g, int32_t settled, int32_t rollback);
int32_t pkv__group_blocks(const struct group_rec *g, int32_t gap_end, int32_t reserved);
/* Device blocks of one sequence in a group, if it had `reserved` tokens of room. */
int32_t pkv__blocks_held(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g,
                         int32_t reserved);
/* Entry `at` of a row has changed. */
void pkv__row_changed(pkv_blockmgr *m, int32_t g, int32_t seq_idx, int32_t at);
/* Cut every row to what n_tokens need (STATE ones only at 0), group by group, tail first. Lengths
 * are the caller's to set. */
void pkv__rows_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens);
/* Length of a row as others see it: 0 unless the sequence is open and not suspended. */
int32_t pkv__row_len(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g);
/* Release what no query from settled - rollback_tokens on sees. */
void pkv__windows_slide(pkv_blockmgr *m, struct seq_rec *s);
/* The blocks that end where unit u ends, by slot; 0: none, or none that may get a node. */
void pkv__unit_blocks(const pkv_blockmgr *m, const struct seq_rec *s, int32_t u, int32_t *blocks);
/* Are these tokens reserved? PKV_E_INVALID_ARG if not. */
pkv_status pkv__check_span(const pkv_blockmgr *m, const struct seq_rec *s, int32_t first_token,
                           int32_t n_tokens);
/* PKV_OK and the record of an open sequence that runs; PKV_E_STALE; PKV_E_STATE suspended. */
pkv_status pkv__seq_running(const pkv_blockmgr *m, pkv_seq seq, struct seq_rec **out);

/* ---- arena.c */
/* Everything in a group that follows from its description alone. */
void pkv__group_init(struct group_rec *g, const pkv_group *in);

/* ---- sequence.c */
/* The node of the last indexed unit; a sequence keeps it alive. */
void pkv__last_node_set(pkv_blockmgr *m, struct seq_rec *s, int32_t node);
pkv_status pkv__tokens_valid(const pkv_blockmgr *m, const pkv_tokens *t);
/* Give back room that holds no token. */
void pkv__drop_surplus(pkv_blockmgr *m, struct seq_rec *s);
/* Cut lengths, rows, units and pending commits to n_tokens. */
void pkv__seq_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens);
/* The last part of a close, when no commits are pending: the slot is free again. */
void pkv__seq_release(pkv_blockmgr *m, struct seq_rec *s);
/* What is settled of the last, incomplete unit becomes findable as a partial node. */
void pkv__publish_partial(pkv_blockmgr *m, struct seq_rec *s);

/* ---- commit.c */
/* Drop pending commits from `from` tokens on; what is left ends there. */
void pkv__pending_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t from);
void pkv__pending_copy(pkv_blockmgr *m, const struct seq_rec *parent, struct seq_rec *child);

/* ---- step.c */
int32_t pkv__step_find(const pkv_blockmgr *m, pkv_step step); /* index of an open step, or NONE */
uint64_t pkv__oldest_open_step(const pkv_blockmgr *m);        /* UINT64_MAX: none is open */

/* ---- match.c */
/* The child of `parent` that holds unit u of the prompt; NONE. */
int32_t pkv__unit_find(const pkv_blockmgr *m, const pkv_tokens *t, int32_t u, int32_t parent,
                       int32_t *cursor);

/* ---- reserve.c */
/* Number of a new batch call: a sequence that carries it (mark) was named before in this call. */
uint32_t pkv__batch_begin(const pkv_blockmgr *m);

/* ---- hold.c */
void pkv__holds_init(pkv_blockmgr *m);
/* How many holds refer to the block at position `at` of a row, and how many of its slots they cover
 * at most (INT32_MAX: a swap, all). */
int32_t pkv__holds_on(const pkv_blockmgr *m, int32_t block, int32_t at, int32_t *covered);
int32_t *pkv__hold_ids(const pkv_blockmgr *m, const struct hold_rec *h); /* [hold_ids] */
/* Every block that the hold refers to, group by group, tail first. */
void pkv__hold_each(pkv_blockmgr *m, const struct hold_rec *h,
                    void (*act)(pkv_blockmgr *, int32_t block));
/* A free hold made running, without blocks; the caller has checked that there is one. */
struct hold_rec *pkv__hold_begin(pkv_blockmgr *m, enum hold_kind kind, uint64_t deadline,
                                 pkv_hold *out);

/* ---- swap.c */
/* The hold of a swap has ended: what that means for its sequences. A suspend has dropped its
 * references to blocks before, a resume drops them behind. */
void pkv__swap_ends(pkv_blockmgr *m, struct hold_rec *h, pkv_hold_end end);
/* The hold of a swap is given back: its blocks are no pairs any more. */
void pkv__swap_unpair(pkv_blockmgr *m, struct hold_rec *h);
/* A suspended sequence is closed, its rows are cut next: its host blocks go. */
void pkv__swap_forget(pkv_blockmgr *m, struct seq_rec *s);

/* ---- invariants.c: in debug level 3 every mutating call ends with the full check. */
#define HOLDS(m, cond, ...)                                                                        \
    do {                                                                                           \
        if (PKV_UNLIKELY(!(cond)))                                                                 \
            return pkv__refuse(&(m)->log, PKV_E_CORRUPT, "block manager: " __VA_ARGS__);           \
    } while (0)
pkv_status pkv__check_content(const pkv_blockmgr *m); /* invariants_content.c */
#if PKV_DEBUG_LEVEL >= 3
#define PKV_SELF_CHECK(m) PKV_ASSERT(pkv_blockmgr_check(m, 3) == PKV_OK)
#else
#define PKV_SELF_CHECK(m) ((void)0)
#endif

#endif
