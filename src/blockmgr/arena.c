/* Configuration, sizes, and the life of a manager. Everything it will ever need is laid out here in
 * one range of memory; no other file allocates. Nodes with their tokens and extra entries are not
 * touched before they are used (high-water marks), so that a big pool is ready in a pass over the
 * block records, the free ids, the index and the rows. */
#include "blockmgr_internal.h"

enum { MAX_NODES = 1 << 30, PART_ALIGN = 64, DEFAULT_BLOCK_TOKENS = 16, DEFAULT_NAMESPACES = 64 };

/* The configuration with defaults filled in. */
static pkv_status resolve_config(const pkv_blockmgr_config *cfg, pkv_blockmgr_config *out)
{
    const uint32_t known =
        PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS | PKV_MGR_PLAIN_LRU | PKV_MGR_IN_ORDER;
    if (!cfg) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof *cfg) return PKV_E_ABI;
    *out = *cfg;
    if (out->block_tokens == 0) out->block_tokens = DEFAULT_BLOCK_TOKENS;
    if (out->max_nodes == 0) out->max_nodes = pkv__min_i32(out->n_blocks, MAX_NODES);
    if (out->max_extras == 0) out->max_extras = out->n_blocks / 4 + 64;
    if (out->max_namespaces == 0) out->max_namespaces = DEFAULT_NAMESPACES;
#define REQUIRE(cond, what)                                                                        \
    if (!(cond)) return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "block manager: %s", what)
    REQUIRE(out->n_blocks >= 2, "n_blocks must be at least 2 (block 0 is the null block)");
    REQUIRE(out->block_tokens >= 1 && out->block_tokens <= 1024, "block_tokens must be 1 .. 1024");
    REQUIRE(out->max_seqs >= 1 && out->max_seqs <= 1 << 24, "max_seqs must be 1 .. 2^24");
    REQUIRE(out->max_seq_tokens >= 1 && out->max_seq_tokens <= INT32_MAX - 1024,
            "max_seq_tokens must be 1 .. 2^31-1025");
    REQUIRE(out->max_nodes >= 1 && out->max_nodes <= MAX_NODES, "max_nodes must be 0 .. 2^30");
    REQUIRE(out->max_extras >= 1, "max_extras must not be negative");
    REQUIRE(out->max_namespaces >= 1 && out->max_namespaces <= 1 << 24,
            "max_namespaces must be 1 .. 2^24");
    REQUIRE((out->flags & ~known) == 0, "unknown flags");
    REQUIRE(!(out->flags & PKV_MGR_PARTIAL_HITS) || (out->flags & PKV_MGR_PREFIX_CACHE),
            "PARTIAL_HITS needs PREFIX_CACHE");
    REQUIRE((unsigned)out->zero_policy <= PKV_ZERO_ALWAYS, "unknown zero_policy");
#undef REQUIRE
    return PKV_OK;
}

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

/* Fill in geometry and offsets of `m` (which need not lie in the arena yet). */
static bool lay_out(const pkv_blockmgr_config *cfg, pkv_blockmgr *m)
{
    const bool cache = cfg->flags & PKV_MGR_PREFIX_CACHE;
    const size_t nodes = cache ? (size_t)cfg->max_nodes : 1;
    const size_t unit = cache ? (size_t)cfg->block_tokens : 1, seqs = (size_t)cfg->max_seqs;
    size_t end = pkv__align_up(sizeof *m, PART_ALIGN);
    m->row_width = pkv__ceil_div_i32(cfg->max_seq_tokens, cfg->block_tokens);
    m->index_mask = cache ? index_slots(cfg->max_nodes) - 1 : 0;
    m->off_blocks = place_part(&end, (size_t)cfg->n_blocks, 1, sizeof(struct block_rec));
    m->off_free_ids = place_part(&end, (size_t)cfg->n_blocks, 1, sizeof(int32_t));
    m->node_bytes =
        pkv__align_up(sizeof(struct node) + unit * sizeof(int32_t), cache ? PART_ALIGN : 8);
    m->off_nodes = place_part(&end, nodes, 1, m->node_bytes);
    m->off_index = place_part(&end, (size_t)m->index_mask + 1, 1, sizeof(int32_t));
    m->off_extras =
        place_part(&end, cache ? (size_t)cfg->max_extras : 1, 1, sizeof(struct extra_entry));
    m->off_seqs = place_part(&end, seqs, 1, sizeof(struct seq_rec));
    m->off_tails = place_part(&end, seqs, unit, sizeof(int32_t));
    m->off_rows = place_part(&end, seqs, (size_t)m->row_width, sizeof(int32_t));
    m->off_scratch = place_part(&end, (size_t)m->row_width, 1, sizeof(int32_t));
    m->off_namespaces = place_part(&end, (size_t)cfg->max_namespaces, 1, sizeof(struct ns_rec));
    m->arena_bytes = end;
    return m->off_blocks && m->off_free_ids && m->off_nodes && m->off_index && m->off_extras &&
           m->off_seqs && m->off_tails && m->off_rows && m->off_scratch && m->off_namespaces;
}

size_t pkv_blockmgr_bytes(const pkv_blockmgr_config *cfg)
{
    pkv_blockmgr_config full;
    pkv_blockmgr m;
    if (resolve_config(cfg, &full) != PKV_OK || !lay_out(&full, &m)) return 0;
    return m.arena_bytes;
}

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static bool is_power_of_two(int32_t n)
{
    return (n & (n - 1)) == 0;
}

static void init_parts(pkv_blockmgr *m)
{
    struct block_rec *blocks = blocks_of(m);
    struct seq_rec *seqs = seqs_of(m);
    for (int32_t b = 0; b < m->n_blocks; b++)
        blocks[b] = (struct block_rec){ NONE, NONE, 0, NONE, 0, BLOCK_FREE, 0, false, false };
    for (int32_t i = 0; i < m->n_blocks - 1; i++) free_ids_of(m)[i] = m->n_blocks - 1 - i;
    m->n_free = m->n_blocks - 1;
    memset(seqs, 0, (size_t)m->max_seqs * sizeof *seqs);
    for (int32_t i = 0; i < m->max_seqs; i++) {
        seqs[i].generation = 1;
        seqs[i].next_free = i + 1 < m->max_seqs ? i + 1 : NONE;
    }
    m->free_seq = 0;
    m->free_node = m->free_extra = NONE;
    memset(all_rows(m), 0, (size_t)m->max_seqs * (size_t)m->row_width * sizeof(int32_t));
    memset(index_of(m), 0xff, ((size_t)m->index_mask + 1) * sizeof(int32_t)); /* NONE */
    memset(namespaces_of(m), 0, (size_t)m->max_namespaces * sizeof(struct ns_rec));
    for (int c = 0; c < N_CLASSES; c++) m->lists[c] = (struct evict_list){ NONE, NONE, 0 };
    pkv__ns_init_default(m);
}

pkv_status pkv_blockmgr_init(void *arena, size_t bytes, const pkv_blockmgr_config *cfg,
                             pkv_blockmgr **out)
{
    pkv_blockmgr_config full;
    pkv_blockmgr geometry = { 0 };
    const pkv_status status = resolve_config(cfg, &full);
    if (status != PKV_OK) return status;
    if (!arena || !out || (uintptr_t)arena % PART_ALIGN != 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "block manager: the arena is null or not 64-byte aligned");
    if (!lay_out(&full, &geometry) || bytes < geometry.arena_bytes)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "block manager: an arena of %zu bytes, %zu needed", bytes,
                           geometry.arena_bytes);
    pkv_blockmgr *m = arena;
    *m = geometry;
    m->log = full.log;
    m->hash_k0 = load_le64(full.hash_secret), m->hash_k1 = load_le64(full.hash_secret + 8);
    m->flags = full.flags, m->zero_policy = full.zero_policy;
    m->n_blocks = full.n_blocks, m->block_tokens = full.block_tokens;
    m->block_shift =
        is_power_of_two(full.block_tokens) ? __builtin_ctz((unsigned)full.block_tokens) : -1;
    m->max_seqs = full.max_seqs, m->max_seq_tokens = full.max_seq_tokens;
    m->max_nodes = full.max_nodes, m->max_extras = full.max_extras;
    m->max_namespaces = full.max_namespaces;
    init_parts(m);
    *out = m;
    return PKV_OK;
}

pkv_status pkv_blockmgr_create(const pkv_blockmgr_config *cfg, const pkv_allocator *alloc,
                               pkv_blockmgr **out)
{
    pkv_blockmgr_config full;
    pkv_blockmgr *m = NULL;
    pkv_status status = resolve_config(cfg, &full);
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
