/* Configuration, sizes, and the life of a manager. Everything it will ever need is laid out here in
 * one range of memory; no other file allocates. Nodes with their tokens and extra entries are not
 * touched before they are used (high-water marks), so that a big pool is ready in a pass over the
 * block records, the free ids, the index and the rows. */
#include "blockmgr_internal.h"

#include <stddef.h>

enum {
    MAX_NODES = 1 << 30,
    PART_ALIGN = 64,
    DEFAULT_BLOCK_TOKENS = 16,
    DEFAULT_NAMESPACES = 64,
    DEFAULT_STEPS = 4,
    DEFAULT_HOLDS = 64
};

/* A configuration with defaults filled in and the groups that it describes. */
struct resolved {
    pkv_blockmgr_config cfg;
    pkv_group groups[PKV_MAX_GROUPS];
    int32_t n_groups, unit, n_slots;
    bool windows, states, equal_blocks; /* equal_blocks: all but STATE groups have the unit's */
};

#define REQUIRE(cond, what)                                                                        \
    if (!(cond)) return pkv__refuse(&r->cfg.log, PKV_E_INVALID_ARG, "block manager: %s", what)

/* One group by itself. */
static pkv_status check_group(const struct resolved *r, const pkv_group *g)
{
    const bool window = g->kind == PKV_GROUP_SLIDING || g->kind == PKV_GROUP_CHUNKED;
    REQUIRE((unsigned)g->kind <= PKV_GROUP_STATE, "groups: unknown kind");
    if (g->kind == PKV_GROUP_STATE) {
        REQUIRE(g->state_blocks >= 1 && g->state_blocks <= 16,
                "groups: state_blocks of a STATE group must be 1 .. 16");
        REQUIRE(g->block_tokens == 0 && g->window_tokens == 0 && g->sink_tokens == 0,
                "groups: a STATE group has no block, window or sink tokens");
        return PKV_OK;
    }
    REQUIRE(g->block_tokens >= 1 && g->block_tokens <= 2048,
            "groups: block_tokens must be 1 .. 2048");
    REQUIRE(g->state_blocks == 0, "groups: only STATE groups have state_blocks");
    REQUIRE(window ? g->window_tokens >= 1 && g->sink_tokens >= 0
                   : g->window_tokens == 0 && g->sink_tokens == 0,
            "groups: SLIDING and CHUNKED have window_tokens >= 1 and sink_tokens >= 0, FULL none");
    return PKV_OK;
}

static pkv_status resolve_groups(struct resolved *r)
{
    const pkv_blockmgr_config *cfg = &r->cfg;
    REQUIRE(cfg->n_groups >= 0 && cfg->n_groups <= PKV_MAX_GROUPS &&
                (cfg->groups != NULL) == (cfg->n_groups > 0),
            "groups: NULL with 0, or 1 .. 8 of them");
    REQUIRE(cfg->groups || (cfg->block_tokens >= 1 && cfg->block_tokens <= 2048),
            "block_tokens must be 1 .. 2048");
    r->n_groups = cfg->groups ? cfg->n_groups : 1;
    r->groups[0] = (pkv_group){ PKV_GROUP_FULL, cfg->block_tokens, 0, 0, 0 };
    for (int32_t g = 0; g < r->n_groups; g++) {
        if (cfg->groups) r->groups[g] = cfg->groups[g];
        const pkv_status status = check_group(r, &r->groups[g]);
        if (status != PKV_OK) return status;
        const int32_t tokens = r->groups[g].block_tokens;
        r->n_slots += tokens ? 1 : r->groups[g].state_blocks;
        r->windows = r->windows || r->groups[g].window_tokens > 0;
        r->states = r->states || !tokens;
        if (tokens && (r->unit == 0 || tokens < r->unit)) r->unit = tokens;
    }
    REQUIRE(r->unit > 0, "groups: at least one must not be a STATE group");
    REQUIRE(r->n_slots <= MAX_SLOTS, "groups: more than 32 slots (one per group, state_blocks)");
    r->equal_blocks = true;
    for (int32_t g = 0; g < r->n_groups; g++) {
        REQUIRE(r->groups[g].block_tokens % r->unit == 0,
                "groups: every block_tokens must be a multiple of the smallest");
        if (r->groups[g].block_tokens > r->unit) r->equal_blocks = false;
    }
    r->cfg.groups = NULL; /* the caller's; `groups` of this struct count from here on */
    return PKV_OK;
}

/* Nodes that are never too few: every block the last of as many units as it has, one unfinished
 * commit per sequence beside a shorter partial node. */
static int32_t enough_nodes(const struct resolved *r)
{
    int64_t ratio = 1;
    for (int32_t g = 0; g < r->n_groups; g++)
        if (r->groups[g].block_tokens / r->unit > ratio)
            ratio = r->groups[g].block_tokens / r->unit;
    const int64_t partial = r->cfg.flags & PKV_MGR_PARTIAL_HITS ? r->cfg.max_seqs : 0;
    const int64_t n = ((int64_t)r->cfg.n_blocks + r->cfg.n_host_blocks) * ratio + partial;
    return n < MAX_NODES ? (int32_t)n : MAX_NODES;
}

static void fill_defaults(pkv_blockmgr_config *cfg)
{
    if (cfg->block_tokens == 0) cfg->block_tokens = DEFAULT_BLOCK_TOKENS;
    if (cfg->max_extras == 0) cfg->max_extras = cfg->n_blocks / 4 + 64;
    if (cfg->max_namespaces == 0) cfg->max_namespaces = DEFAULT_NAMESPACES;
    if (cfg->max_steps == 0) cfg->max_steps = DEFAULT_STEPS;
    if (cfg->max_holds == 0) cfg->max_holds = DEFAULT_HOLDS;
}

static pkv_status resolve_config(const pkv_blockmgr_config *cfg, struct resolved *r)
{
    const uint32_t known =
        PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS | PKV_MGR_PLAIN_LRU | PKV_MGR_IN_ORDER;
    if (!cfg) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof *cfg) return PKV_E_ABI;
    *r = (struct resolved){ .cfg = *cfg };
    pkv_blockmgr_config *out = &r->cfg;
    fill_defaults(out);
    REQUIRE(out->n_blocks >= 2, "n_blocks must be at least 2 (block 0 is the null block)");
    REQUIRE(out->max_seqs >= 1 && out->max_seqs <= 1 << 24, "max_seqs must be 1 .. 2^24");
    REQUIRE(out->max_seq_tokens >= 1 && out->max_seq_tokens <= INT32_MAX - 2048,
            "max_seq_tokens must be 1 .. 2^31-2049");
    REQUIRE(out->n_host_blocks == 0 || out->n_host_blocks >= 2,
            "n_host_blocks must be 0 or at least 2 (block 0 is the null block)");
    const pkv_status status = resolve_groups(r);
    if (status != PKV_OK) return status;
    if (out->max_nodes == 0) out->max_nodes = enough_nodes(r);
    REQUIRE(out->max_nodes >= 1 && out->max_nodes <= MAX_NODES, "max_nodes must be 0 .. 2^30");
    REQUIRE(out->max_extras >= 1, "max_extras must not be negative");
    REQUIRE(out->max_namespaces >= 1 && out->max_namespaces <= 1 << 24,
            "max_namespaces must be 1 .. 2^24");
    REQUIRE(out->rollback_tokens >= 0, "rollback_tokens must not be negative");
    REQUIRE(out->max_steps >= 1 && out->max_steps <= 64, "max_steps must be 0 .. 64");
    REQUIRE(out->max_holds >= 1 && out->max_holds <= 1 << 16, "max_holds must be 0 .. 2^16");
    REQUIRE((out->flags & ~known) == 0, "unknown flags");
    REQUIRE(!(out->flags & PKV_MGR_PARTIAL_HITS) || (out->flags & PKV_MGR_PREFIX_CACHE),
            "PARTIAL_HITS needs PREFIX_CACHE");
    REQUIRE((unsigned)out->zero_policy <= PKV_ZERO_ALWAYS, "unknown zero_policy");
    return PKV_OK;
}
#undef REQUIRE

/* At least two slots per node, so that probe sequences stay short. */
static uint32_t index_slots(int32_t max_nodes)
{
    uint32_t n = 4;
    while (n < 2u * (uint32_t)max_nodes && n < 1u << 31) n *= 2;
    return n;
}

/* Append a part of n x m x bytes behind *end; its offset, or 0 on overflow. */
static size_t place_part(size_t *end, size_t n, size_t m, size_t bytes)
{
    size_t part = bytes;
    const size_t at = *end;
    if (!pkv__mul_size(part, n, &part) || !pkv__mul_size(part, m, &part) ||
        part > SIZE_MAX / 2 - at)
        return 0;
    *end = pkv__align_up(at + part, PART_ALIGN);
    return at;
}

static int32_t log2_of(int32_t n)
{
    return (n & (n - 1)) == 0 ? __builtin_ctz((unsigned)n) : -1;
}

void pkv__group_init(struct group_rec *g, const pkv_group *in)
{
    const bool state = in->kind == PKV_GROUP_STATE;
    *g = (struct group_rec){ .kind = in->kind,
                             .block_tokens = state ? 1 : in->block_tokens,
                             .window_tokens = in->window_tokens,
                             .sink_tokens = in->sink_tokens,
                             .ratio = 1,
                             .n_slots = state ? in->state_blocks : 1 };
    g->shift = log2_of(g->block_tokens);
    g->sink_blocks = in->sink_tokens / g->block_tokens + (in->sink_tokens % g->block_tokens != 0);
}

/* The groups, their rows placed behind *end; false on overflow. */
static bool lay_out_groups(const struct resolved *r, pkv_blockmgr *m, size_t *end)
{
    int32_t slot = 0;
    bool fits = true;
    for (int32_t g = 0; g < r->n_groups; g++) {
        const pkv_group *of = &r->groups[g];
        struct group_rec *grp = &m->groups[g];
        pkv__group_init(grp, of);
        grp->slot = slot;
        for (int32_t k = 0; k < grp->n_slots; k++) m->slot_group[slot++] = (uint8_t)g;
        grp->row_width = grp->n_slots;
        if (of->kind != PKV_GROUP_STATE) {
            grp->ratio = of->block_tokens / r->unit;
            grp->row_width = pkv__ceil_div_i32(r->cfg.max_seq_tokens, of->block_tokens);
            m->hold_ids += grp->row_width;
            if (grp->ratio == 1) m->unit_group = g;
        }
        grp->off_rows =
            place_part(end, (size_t)r->cfg.max_seqs, (size_t)grp->row_width, sizeof(int32_t));
        fits = fits && grp->off_rows != 0;
    }
    return fits;
}

/* Fill in geometry and offsets of `m` (which need not lie in the arena yet). */
static bool lay_out(const struct resolved *r, pkv_blockmgr *m)
{
    const pkv_blockmgr_config *cfg = &r->cfg;
    const bool cache = cfg->flags & PKV_MGR_PREFIX_CACHE;
    const size_t nodes = cache ? (size_t)cfg->max_nodes : 1;
    const size_t unit = cache ? (size_t)r->unit : 1, seqs = (size_t)cfg->max_seqs;
    const size_t blocks = (size_t)cfg->n_blocks, groups = (size_t)r->n_groups;
    const size_t steps = (size_t)cfg->max_steps, host = (size_t)cfg->n_host_blocks;
    size_t end = pkv__align_up(sizeof *m, PART_ALIGN);
    *m = (pkv_blockmgr){ .n_groups = r->n_groups, .n_slots = r->n_slots, .unit = r->unit };
    m->unit_shift = log2_of(r->unit);
    m->row_units = pkv__ceil_div_i32(cfg->max_seq_tokens, r->unit);
    m->index_mask = cache ? index_slots(cfg->max_nodes) - 1 : 0;
    m->seq_words = (seqs + 63) / 64;
    const size_t slots = (size_t)r->n_slots * sizeof(struct node_slot);
    m->node_bytes = pkv__align_up(offsetof(struct node, at) + slots + unit * sizeof(int32_t),
                                  cache ? PART_ALIGN : 8);
    bool fits = true;
#define PLACE(part, n, k, type) fits = (m->part = place_part(&end, n, k, sizeof(type))) != 0 && fits
    PLACE(off_blocks, blocks, 1, struct block_rec);
    PLACE(off_free_ids, blocks, 1, int32_t);
    m->off_nodes = place_part(&end, nodes, 1, m->node_bytes);
    PLACE(off_index, (size_t)m->index_mask + 1, 1, int32_t);
    PLACE(off_extras, cache ? (size_t)cfg->max_extras : 1, 1, struct extra_entry);
    PLACE(off_seqs, seqs, 1, struct seq_rec);
    PLACE(off_seq_groups, seqs, groups, struct seq_group);
    PLACE(off_tails, seqs, unit, int32_t);
    PLACE(off_pending, seqs, steps, struct pending);
    fits = lay_out_groups(r, m, &end) && fits;
    PLACE(off_scratch, (size_t)m->row_units, 1, int32_t);
    PLACE(off_steps, steps, 1, struct step_rec);
    PLACE(off_step_seqs, steps, m->seq_words, uint64_t);
    PLACE(off_changes, groups, seqs, struct row_change);
    PLACE(off_changed, groups, m->seq_words, uint64_t);
    PLACE(off_raw_refs, blocks, 1, int32_t);
    PLACE(off_holds, (size_t)cfg->max_holds, 1, struct hold_rec);
    PLACE(off_hold_ids, (size_t)cfg->max_holds, (size_t)m->hold_ids, int32_t);
    PLACE(off_swaps, host > 0 ? blocks : 1, 1, struct swap_rec);
    PLACE(off_host, host > 0 ? host : 1, 1, struct host_rec);
    PLACE(off_namespaces, (size_t)cfg->max_namespaces, 1, struct ns_rec);
#undef PLACE
    m->arena_bytes = end;
    return fits && m->off_nodes;
}

size_t pkv_blockmgr_bytes(const pkv_blockmgr_config *cfg)
{
    struct resolved r;
    pkv_blockmgr m;
    if (resolve_config(cfg, &r) != PKV_OK || !lay_out(&r, &m)) return 0;
    return m.arena_bytes;
}

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

/* The most tokens whose rows, without any gap, fit the pool; 0: not even one. */
static int32_t always_fits(const pkv_blockmgr *m)
{
    int32_t low = 0, high = m->max_seq_tokens;
    while (low < high) {
        const int32_t mid = low + (high - low + 1) / 2;
        int64_t n = 0;
        for (int32_t g = 0; g < m->n_groups; g++) n += pkv__group_blocks(&m->groups[g], 0, mid);
        if (n <= m->n_blocks - 1) low = mid;
        else high = mid - 1;
    }
    return low;
}

static void init_sequences(pkv_blockmgr *m)
{
    struct seq_rec *seqs = seqs_of(m);
    const size_t n = (size_t)m->max_seqs;
    memset(seqs, 0, n * sizeof *seqs);
    for (int32_t i = 0; i < m->max_seqs; i++) {
        seqs[i].generation = 1;
        seqs[i].link = i + 1 < m->max_seqs ? i + 1 : NONE;
    }
    m->free_seq = 0;
    m->closing_head = m->closing_tail = NONE;
    memset(all_seq_groups(m), 0, n * (size_t)m->n_groups * sizeof(struct seq_group));
    for (int32_t g = 0; g < m->n_groups; g++)
        memset(row_at(m, g, 0), 0, n * (size_t)m->groups[g].row_width * sizeof(int32_t));
    for (size_t i = 0; i < n * (size_t)m->n_groups; i++)
        all_changes(m)[i] = (struct row_change){ 0, INT32_MAX, 0 };
    memset(all_changed(m), 0, (size_t)m->n_groups * m->seq_words * sizeof(uint64_t));
    memset(steps_of(m), 0, (size_t)m->max_steps * sizeof(struct step_rec));
    memset(all_step_seqs(m), 0, (size_t)m->max_steps * m->seq_words * sizeof(uint64_t));
}

static void init_host(pkv_blockmgr *m)
{
    struct host_rec *host = host_of(m);
    m->free_host = m->n_host_blocks > 1 ? 1 : NONE;
    m->n_free_host = pkv__max_i32(m->n_host_blocks - 1, 0);
    for (int32_t i = 0; i < m->n_host_blocks; i++)
        host[i] = (struct host_rec){ 0, i + 1 < m->n_host_blocks ? i + 1 : NONE };
}

static void init_parts(pkv_blockmgr *m)
{
    struct block_rec *blocks = blocks_of(m);
    for (int32_t b = 0; b < m->n_blocks; b++)
        blocks[b] = (struct block_rec){
            .prev = NONE, .next = NONE, .node = NONE, .prepared = NONE, .state = BLOCK_FREE
        };
    for (int32_t i = 0; i < m->n_blocks - 1; i++) free_ids_of(m)[i] = m->n_blocks - 1 - i;
    m->n_free = m->n_blocks - 1;
    memset(raw_refs_of(m), 0, (size_t)m->n_blocks * sizeof(int32_t));
    m->free_node = m->free_extra = NONE;
    memset(index_of(m), 0xff, ((size_t)m->index_mask + 1) * sizeof(int32_t)); /* NONE */
    memset(namespaces_of(m), 0, (size_t)m->max_namespaces * sizeof(struct ns_rec));
    m->limbo = (struct block_list){ NONE, NONE, 0 };
    for (int c = 0; c < N_CLASSES; c++) m->lists[c] = (struct block_list){ NONE, NONE, 0 };
    init_sequences(m);
    init_host(m);
    pkv__holds_init(m);
    pkv__ns_init_default(m);
}

pkv_status pkv_blockmgr_init(void *arena, size_t bytes, const pkv_blockmgr_config *cfg,
                             pkv_blockmgr **out)
{
    struct resolved r;
    pkv_blockmgr geometry;
    const pkv_status status = resolve_config(cfg, &r);
    if (status != PKV_OK) return status;
    if (!arena || !out || (uintptr_t)arena % PART_ALIGN != 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "block manager: the arena is null or not 64-byte aligned");
    if (!lay_out(&r, &geometry) || bytes < geometry.arena_bytes)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "block manager: an arena of %zu bytes, %zu needed", bytes,
                           geometry.arena_bytes);
    pkv_blockmgr *m = arena;
    const pkv_blockmgr_config *full = &r.cfg;
    *m = geometry;
    m->log = full->log;
    m->hash_k0 = load_le64(full->hash_secret), m->hash_k1 = load_le64(full->hash_secret + 8);
    m->flags = full->flags, m->zero_policy = full->zero_policy;
    m->n_blocks = full->n_blocks, m->n_host_blocks = full->n_host_blocks;
    m->max_seqs = full->max_seqs, m->max_seq_tokens = full->max_seq_tokens;
    m->rollback_tokens = full->rollback_tokens;
    m->max_nodes = full->max_nodes, m->max_extras = full->max_extras;
    m->max_namespaces = full->max_namespaces;
    m->max_steps = full->max_steps, m->max_holds = full->max_holds;
    m->simple = r.n_groups == 1 && !r.windows;
    m->windows = r.windows, m->states = r.states;
    m->partial = (full->flags & PKV_MGR_PARTIAL_HITS) && r.equal_blocks && !r.states;
    m->always_fits = always_fits(m);
    init_parts(m);
    *out = m;
    return PKV_OK;
}

pkv_status pkv_blockmgr_create(const pkv_blockmgr_config *cfg, const pkv_allocator *alloc,
                               pkv_blockmgr **out)
{
    struct resolved r;
    pkv_blockmgr *m = NULL;
    pkv_status status = resolve_config(cfg, &r);
    if (status != PKV_OK) return status;
    if (!out || !pkv__allocator_valid(alloc))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "block manager: null output or half an allocator");
    const size_t bytes = pkv_blockmgr_bytes(cfg);
    void *arena = bytes ? pkv__alloc(alloc, bytes, PART_ALIGN) : NULL;
    if (!arena)
        return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "block manager: no memory for %zu bytes",
                           bytes);
    status = pkv_blockmgr_init(arena, bytes, cfg, &m);
    if (status != PKV_OK) {
        pkv__free(alloc, arena, bytes);
        return status;
    }
    if (alloc) m->alloc = *alloc;
    m->owns_arena = true;
    *out = m;
    return PKV_OK;
}

void pkv_blockmgr_destroy(pkv_blockmgr *mgr)
{
    if (!mgr || !mgr->owns_arena) return;
    const pkv_allocator alloc = mgr->alloc;
    pkv__free(&alloc, mgr, mgr->arena_bytes);
}
