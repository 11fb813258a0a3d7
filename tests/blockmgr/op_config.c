/* See op_world.h: random configurations. Small pools, short rows, few tokens: so that everything
 * happens often. */
#include "op_world.h"

#include <string.h>

/* Windows that end with a block, inside one, and such that little of a claim is seen behind it. */
static void make_window(pkv_group *g, uint64_t *rng, int unit)
{
    const int t = g->block_tokens;
    const bool chunked = g->kind == PKV_GROUP_CHUNKED;
    switch (op_below(rng, t > unit ? 6 : 4)) {
    case 0:
    case 4:
    case 5:
        g->window_tokens = chunked ? unit * (1 + op_below(rng, 3)) : 1 + op_below(rng, 2);
        break;
    case 1:
        g->window_tokens = t * (1 + op_below(rng, 3));
        break;
    default:
        g->window_tokens = 1 + op_below(rng, 3 * t + 1);
    }
    g->sink_tokens = op_below(rng, 3) ? 0 : 1 + op_below(rng, 2 * t);
}

/* Groups whose block_tokens are multiples of `unit`, at least one of them equal to it. */
static void make_groups(world *w, uint64_t *rng, int unit)
{
    static const uint8_t first_kind[] = { PKV_GROUP_FULL, PKV_GROUP_FULL, PKV_GROUP_FULL,
                                          PKV_GROUP_SLIDING, PKV_GROUP_CHUNKED };
    static const uint8_t next_kind[] = { PKV_GROUP_SLIDING, PKV_GROUP_SLIDING, PKV_GROUP_CHUNKED,
                                         PKV_GROUP_FULL, PKV_GROUP_STATE };
    static const int32_t times[] = { 1, 1, 2, 3, 4 };
    const bool equal = op_below(rng, 3) == 0; /* partial hits work then */
    int smallest = OR_T, at;
    w->n_groups = op_below(rng, 4) ? 2 + op_below(rng, 2) : 1 + 3 * op_below(rng, 2);
    for (int i = 0; i < w->n_groups; i++) {
        pkv_group *g = &w->group[i];
        *g = (pkv_group){ .kind = (pkv_group_kind)(i ? next_kind : first_kind)[op_below(rng, 5)] };
        if (g->kind == PKV_GROUP_STATE) {
            g->state_blocks = 1 + op_below(rng, op_below(rng, 3) ? 2 : OR_STATE);
            continue;
        }
        g->block_tokens = equal ? unit : unit * times[op_below(rng, 5)];
        while (g->block_tokens > OR_T) g->block_tokens -= unit;
        if (g->block_tokens < smallest) smallest = g->block_tokens;
    }
    for (at = 0; w->group[at].kind == PKV_GROUP_STATE;) at++;
    if (smallest > unit) w->group[at].block_tokens = unit;
    for (int i = 0; i < w->n_groups; i++)
        if (w->group[i].kind == PKV_GROUP_SLIDING || w->group[i].kind == PKV_GROUP_CHUNKED)
            make_window(&w->group[i], rng, unit);
    at = op_below(rng, w->n_groups); /* any order of kinds */
    pkv_group keep = w->group[at];
    w->group[at] = w->group[0];
    w->group[0] = keep;
}

/* One full group by the shorthand, or several. */
static void choose_groups(world *w, uint64_t *rng)
{
    static const int32_t tokens[] = { 1, 2, 2, 3, 4, 4, 5, 8, 16 };
    pkv_blockmgr_config *cfg = &w->cfg;
    cfg->block_tokens = tokens[op_below(rng, 9)];
    w->n_groups = 1;
    w->group[0] = (pkv_group){ .kind = PKV_GROUP_FULL, .block_tokens = cfg->block_tokens };
    w->copies_per_seq = 1;
    w->unit = cfg->block_tokens;
    if (!(w->features & OP_GROUPS) || op_below(rng, 5) < 2) return;
    w->unit = 1 + op_below(rng, 4);
    make_groups(w, rng, w->unit);
    for (int i = 0; i < w->n_groups; i++)
        w->has_windows = w->has_windows || w->group[i].kind != PKV_GROUP_FULL;
    cfg->groups = w->group;
    cfg->n_groups = w->n_groups;
    w->copies_per_seq = 0;
    for (int i = 0; i < w->n_groups; i++) {
        const pkv_group *g = &w->group[i];
        w->copies_per_seq += g->kind == PKV_GROUP_STATE ? g->state_blocks : 1;
        if (g->block_tokens > cfg->block_tokens) cfg->block_tokens = g->block_tokens;
    }
    if (op_below(rng, 2)) cfg->rollback_tokens = op_below(rng, 2 * cfg->block_tokens);
}

/* More continuations of one content than a match looks at. */
static void choose_wide_tree(world *w, uint64_t *rng)
{
    pkv_blockmgr_config *cfg = &w->cfg;
    if (w->n_groups > 1 || cfg->block_tokens < 3) return;
    cfg->n_blocks = 40 + op_below(rng, OR_BLOCKS - 40);
    cfg->max_seq_tokens = 2 * cfg->block_tokens;
    cfg->max_nodes = cfg->max_extras = 0;
    cfg->flags = PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS;
}

static void choose_late(world *w, uint64_t *rng)
{
    pkv_blockmgr_config *cfg = &w->cfg;
    cfg->max_steps = 1 + op_below(rng, MOST_STEPS);
    cfg->max_holds = 1 + op_below(rng, OR_HOLDS);
    cfg->n_host_blocks = op_below(rng, 4) ? 2 + op_below(rng, OR_HOST - 1) : 0;
    if (!(w->features & OP_HOLDS)) cfg->n_host_blocks = 0;
}

void op_make_config(world *w, uint64_t *rng, int style)
{
    static const int32_t pool[] = { 3, 8, 24, 70 };
    pkv_blockmgr_config *cfg = &w->cfg;
    *cfg = (pkv_blockmgr_config)PKV_BLOCKMGR_CONFIG_INIT;
    choose_groups(w, rng);
    int n = 2 + op_below(rng, pool[op_below(rng, 4)]) + (w->copies_per_seq - 1) * op_below(rng, 4);
    cfg->n_blocks = n * (op_below(rng, 3) ? 1 : w->n_groups);
    if (cfg->n_blocks > OR_BLOCKS) cfg->n_blocks = OR_BLOCKS;
    cfg->max_seqs = 1 + op_below(rng, op_below(rng, 4) ? 6 : OR_SEQS);
    n = cfg->block_tokens * (1 + op_below(rng, 9)) + op_below(rng, cfg->block_tokens);
    cfg->max_seq_tokens = n < OR_TOKENS - 2 ? n : OR_TOKENS - 2;
    cfg->max_nodes = 0;
    if (style == 2 && !op_below(rng, 3)) cfg->max_nodes = 1 + op_below(rng, 2);
    else if (!op_below(rng, 6)) cfg->max_nodes = 1 + op_below(rng, cfg->n_blocks);
    /* The default is enough where every node has a block, or is about to get one. */
    if (!cfg->max_nodes && (w->has_windows || w->features & (OP_RAW | OP_HOLDS)))
        cfg->max_nodes = 400;
    cfg->max_extras = op_below(rng, 4) ? 0 : 1 + op_below(rng, 6);
    cfg->max_namespaces = 1 + op_below(rng, OR_NS);
    cfg->flags = op_below(rng, 10) ? PKV_MGR_PREFIX_CACHE : 0;
    if (cfg->flags && op_below(rng, 4)) cfg->flags |= PKV_MGR_PARTIAL_HITS;
    if (!op_below(rng, 5)) cfg->flags |= PKV_MGR_PLAIN_LRU;
    if (!op_below(rng, 4)) cfg->flags |= PKV_MGR_IN_ORDER;
    cfg->zero_policy = (pkv_zero_policy)op_below(rng, 3);
    memset(cfg->hash_secret, w->run->secret, sizeof cfg->hash_secret);
    choose_late(w, rng);
    if (style == 4) cfg->max_seqs = 1 + op_below(rng, 3), cfg->max_steps = MOST_STEPS;
    if (style == 3 && !op_below(rng, 5)) choose_wide_tree(w, rng);
    if (cfg->n_groups) cfg->block_tokens = 0; /* ignored */
}
