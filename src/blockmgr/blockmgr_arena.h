/* Inside the block manager: the parts of its arena, and the arithmetic of positions.
 *
 * Every part is 64-byte aligned and found by its offset from the manager: an arena may be copied
 * elsewhere and used there. */
#ifndef PKV_BLOCKMGR_ARENA_H
#define PKV_BLOCKMGR_ARENA_H

#include "blockmgr/blockmgr_records.h"

/* ---- the arena. Scratch fields are written through const managers too, hence the integers. */
#define PKV_ARENA_PART(name, type, field)                                                          \
    static inline type *name(const pkv_blockmgr *m)                                                \
    {                                                                                              \
        return (type *)((uintptr_t)m + m->field); /* NOLINT */                                     \
    }
PKV_ARENA_PART(blocks_of, struct block_rec, off_blocks)          /* [n_blocks] */
PKV_ARENA_PART(free_ids_of, int32_t, off_free_ids)               /* [n_free], top last */
PKV_ARENA_PART(index_of, int32_t, off_index)                     /* [index_mask + 1] node ids */
PKV_ARENA_PART(extras_of, struct extra_entry, off_extras)        /* [extra_high] */
PKV_ARENA_PART(seqs_of, struct seq_rec, off_seqs)                /* [max_seqs] */
PKV_ARENA_PART(all_seq_groups, struct seq_group, off_seq_groups) /* [max_seqs][n_groups] */
PKV_ARENA_PART(all_tails, int32_t, off_tails)                    /* [max_seqs][unit] */
PKV_ARENA_PART(all_pending, struct pending, off_pending)         /* [max_seqs][max_steps] */
PKV_ARENA_PART(scratch_of, int32_t, off_scratch)       /* [row_units] node ids of a match */
PKV_ARENA_PART(steps_of, struct step_rec, off_steps)   /* [max_steps] */
PKV_ARENA_PART(all_step_seqs, uint64_t, off_step_seqs) /* [max_steps][seq_words]: open sequences
                                                          with commits pending in the step */
PKV_ARENA_PART(all_changes, struct row_change, off_changes) /* [n_groups][max_seqs] */
PKV_ARENA_PART(all_changed, uint64_t, off_changed)          /* [n_groups][seq_words] rows */
PKV_ARENA_PART(raw_refs_of, int32_t, off_raw_refs)          /* [n_blocks] */
PKV_ARENA_PART(holds_of, struct hold_rec, off_holds)        /* [max_holds] */
PKV_ARENA_PART(all_hold_ids, int32_t, off_hold_ids)         /* [max_holds][hold_ids] */
PKV_ARENA_PART(swaps_of, struct swap_rec, off_swaps) /* [n_blocks]; [1] without host blocks */
PKV_ARENA_PART(host_of, struct host_rec, off_host)   /* [n_host_blocks] */
PKV_ARENA_PART(namespaces_of, struct ns_rec, off_namespaces) /* [max_namespaces] */

/* A node and, right behind it, its tokens: one look at content is one piece of memory. */
static inline struct node *node_at(const pkv_blockmgr *m, int32_t id)
{
    return (struct node *)((uintptr_t)m + m->off_nodes + (size_t)id * m->node_bytes); /* NOLINT */
}
static inline int32_t *node_tokens(const pkv_blockmgr *m, int32_t id)
{
    return (int32_t *)(void *)(node_at(m, id)->at + m->n_slots); /* [unit] */
}
static inline int32_t seq_index(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return (int32_t)(s - seqs_of(m));
}
static inline int32_t *tail_tokens(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return all_tails(m) + (size_t)seq_index(m, s) * (size_t)m->unit;
}
static inline struct seq_group *seq_group(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g)
{
    return all_seq_groups(m) + (size_t)seq_index(m, s) * (size_t)m->n_groups + (size_t)g;
}
static inline struct pending *pending_of(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return all_pending(m) + (size_t)seq_index(m, s) * (size_t)m->max_steps;
}
static inline int32_t *row_at(const pkv_blockmgr *m, int32_t g, int32_t seq_idx)
{
    const struct group_rec *grp = &m->groups[g];
    return (int32_t *)((uintptr_t)m + grp->off_rows) + (size_t)seq_idx * (size_t)grp->row_width;
}
static inline int32_t *row_of(const pkv_blockmgr *m, const struct seq_rec *s, int32_t g)
{
    return row_at(m, g, seq_index(m, s));
}

/* Open sequences with commits pending in the step at this place. */
static inline uint64_t *step_set(const pkv_blockmgr *m, int32_t step)
{
    return all_step_seqs(m) + (size_t)step * m->seq_words;
}

/* Position -> row index and offset in the block; tokens -> blocks. A decode step asks a dozen times
 * per sequence: with a power of two (the usual case) by shifts, which took 256 sequences from 7.3
 * to 5 us. */
static inline int32_t block_index(const struct group_rec *g, int32_t pos)
{
    return PKV_LIKELY(g->shift >= 0) ? pos >> g->shift : pos / g->block_tokens;
}
static inline int32_t block_offset(const struct group_rec *g, int32_t pos)
{
    return PKV_LIKELY(g->shift >= 0) ? pos & (g->block_tokens - 1) : pos % g->block_tokens;
}
static inline int32_t blocks_for(const struct group_rec *g, int32_t n_tokens)
{
    return block_index(g, n_tokens) + (block_offset(g, n_tokens) != 0);
}
/* Entries of a row with room for n_tokens > 0. */
static inline int32_t row_entries(const struct group_rec *g, int32_t n_tokens)
{
    return g->kind == PKV_GROUP_STATE ? g->n_slots : blocks_for(g, n_tokens);
}
static inline int32_t unit_index(const pkv_blockmgr *m, int32_t pos)
{
    return PKV_LIKELY(m->unit_shift >= 0) ? pos >> m->unit_shift : pos / m->unit;
}
static inline int32_t unit_offset(const pkv_blockmgr *m, int32_t pos)
{
    return PKV_LIKELY(m->unit_shift >= 0) ? pos & (m->unit - 1) : pos % m->unit;
}
static inline bool has_flag(const pkv_blockmgr *m, uint32_t flag)
{
    return (m->flags & flag) != 0;
}

/* A root stands where a parent node would: negative, below NONE. */
static inline int32_t root_of(int32_t ns_idx)
{
    return -2 - ns_idx;
}
static inline int32_t ns_of_root(int32_t root)
{
    return -2 - root;
}
static inline bool is_root(int32_t parent)
{
    return parent < NONE;
}

#endif
