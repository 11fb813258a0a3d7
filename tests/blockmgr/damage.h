/* The checker is not blind: a manager with everything in it is copied and damaged in one place; the
 * check has to name the invariant that broke, and not before the level that looks at it. */
#ifndef PKV_TESTS_DAMAGE_H
#define PKV_TESTS_DAMAGE_H

#include "mgr_fixture.h"

#include "blockmgr/blockmgr_internal.h"

struct damage {
    const char *invariant, *name;
    int level; /* the first that notices */
    void (*damage)(pkv_blockmgr *m);
};

/* A list of X(invariant, level, name, what is done to m) makes these functions and the table. */
#define DAMAGE_FUNCTION(invariant, level, name, ...)                                               \
    static void name(pkv_blockmgr *m)                                                              \
    {                                                                                              \
        const struct scene s = look(m);                                                            \
        (void)s;                                                                                   \
        (void)(__VA_ARGS__);                                                                       \
    }
#define DAMAGE_ENTRY(invariant, level, name, ...) { #invariant ":", #name, level, name },

/* Build a manager and try them all. */
void damage_all(const pkv_blockmgr_config *cfg, void (*build)(fx *f), const struct damage *damages,
                size_t n);

static inline struct block_rec *rec(pkv_blockmgr *m, int32_t b)
{
    return blocks_of(m) + b;
}
static inline struct seq_rec *seq_at(pkv_blockmgr *m, int32_t idx)
{
    return seqs_of(m) + idx;
}
/* Node of a block, and what it says of the block's slot. */
static inline struct node *node_on(pkv_blockmgr *m, int32_t b)
{
    return node_at(m, rec(m, b)->node);
}
static inline struct node_slot *slot_on(pkv_blockmgr *m, int32_t b)
{
    return &node_on(m, b)->at[rec(m, b)->slot];
}

#endif
