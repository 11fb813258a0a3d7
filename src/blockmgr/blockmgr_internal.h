/* Inside the block manager: records, the arena, and what the files offer each other.
 *
 *   arena   [manager | block records | free ids | nodes, each with its tokens | index | extras |
 * sequences | tails | rows | scratch | namespaces], every part 64-byte aligned, found by offsets
 * from the manager: an arena may be copied elsewhere and used there.
 *
 *   arena.c        configuration, sizes, init, create, destroy
 *   block_pool.c   free ids, taking, references, the eviction lists
 *   node.c         content nodes, duplicates (spares), their place in the tree
 *   prefix_index.c hash table over nodes
 *   extra_keys.c   extra keys of units, as exact lists
 *   namespace.c    identities, roots
 *   sequence.c     open, close, fork, truncate, rows, slots, info
 *   commit.c       tokens that become content
 *   reserve.c      room: verdicts, copies, `need`
 *   match.c        claiming a cached prefix, `probe`
 *   invariants.c   pkv_blockmgr_check;  state_digest.c;  pool_plan.c
 *
 * Units and blocks coincide in this version: one unit is block_tokens tokens. */
#ifndef PKV_BLOCKMGR_INTERNAL_H
#define PKV_BLOCKMGR_INTERNAL_H

#include "common/common.h"
#include "common/siphash.h"
#include "pagedkv/blockmgr.h"

#include <string.h>

enum { NONE = -1 };

/* A block is in exactly one state. FREE: on the free ids, ref 0, no node. ACTIVE: ref >= 1.
 * CACHED: ref 0, main block of a node, on an eviction list. */
enum block_state { BLOCK_FREE = 0, BLOCK_ACTIVE = 1, BLOCK_CACHED = 2 };

enum evict_class { CLASS_PROBATION = 0, CLASS_PROTECTED = 1, N_CLASSES = 2 };

/* One per block, two to a cache line so that none straddles one. */
struct block_rec {
    _Alignas(32) int32_t prev; /* CACHED: towards the victim; spare: the older spare */
    int32_t next;              /* CACHED: away from the victim; spare: the newer spare */
    int32_t ref;               /* entries of this block in rows */
    int32_t node;              /* content it holds, as main block or spare; NONE */
    int32_t planned;           /* scratch within one call; 0 between calls */
    uint8_t state;             /* enum block_state */
    uint8_t evict_class;       /* list it is on, if CACHED */
    bool spare;                /* the node's main block is another one */
    bool used;                 /* was handed out before */
};

/* What one unit holds: parent and tokens and extra keys, exactly. Findable while it exists.
 * `block` always names a block; spares exist only while `block` is referenced, and are referenced
 * themselves. n_tokens < block_tokens: a partial node, which has no children. */
struct node {
    uint64_t hash;
    int32_t parent;       /* node id, or root_of(namespace index) */
    int32_t first_child;  /* the newest; NONE */
    int32_t older, newer; /* siblings; `older` links the free nodes too */
    int32_t block;        /* main block */
    int32_t oldest_spare, newest_spare;
    int32_t extras; /* first entry of its list; NONE */
    int32_t n_tokens;
    bool hit; /* claimed by a match whose sequence committed */
};

/* One extra key that touches a unit. Ascending by offset within a list. */
struct extra_entry {
    int64_t offset; /* where the extra begins, relative to the unit's first token; may be < 0 */
    int32_t n;      /* tokens of the whole extra */
    int32_t next;   /* entry id; NONE */
    uint8_t digest[32];
};

/* What reserve does to the block that the next token falls into. */
enum tail_action { TAIL_KEEP, TAIL_COPY, TAIL_TAKE_OVER };

struct seq_rec {
    _Alignas(64) uint32_t generation;
    int32_t ns;                           /* index of its namespace */
    int32_t settled, committed, reserved; /* tokens, ascending */
    int32_t n_units;                      /* leading units that have a node */
    int32_t last_node;                    /* node of unit n_units - 1, or the root */
    int32_t claim;                        /* units to mark as hit at the next commit */
    int32_t tail_extras;                  /* extras of the unindexed tail; NONE */
    uint32_t mark;                        /* number of the last batch call that named it */
    int32_t next_free;
    uint8_t action; /* scratch: enum tail_action that the running reserve has planned */
    bool open;
    bool ended; /* a unit could not be indexed: its tail tokens are not kept either */
};

struct ns_rec {
    uint8_t identity[32];
    uint64_t root_hash;
    int32_t first_child; /* newest node of a first unit */
    int32_t n_seqs;      /* open sequences */
    int32_t n_opens;     /* 0: not open */
    uint32_t generation;
};

struct evict_list {
    int32_t head, tail; /* head: next victim */
    int32_t n;
};

struct pkv_blockmgr {
    pkv_logger log;
    uint64_t hash_k0, hash_k1;
    uint32_t flags;
    pkv_zero_policy zero_policy;
    int32_t n_blocks, block_tokens, max_seqs, max_seq_tokens, row_width;
    int32_t max_nodes, max_extras, max_namespaces;
    int32_t block_shift; /* log2 of block_tokens, or -1 */

    int32_t n_free, n_active;
    struct evict_list lists[N_CLASSES];
    int32_t n_nodes, node_high, free_node;    /* in use; ids ever used; head of the free ones */
    int32_t n_extras, extra_high, free_extra; /* the same for extra entries */
    int32_t n_seqs, free_seq;
    int32_t n_namespaces;
    uint32_t index_mask; /* slots - 1 */
    uint32_t batch_no;   /* of the running batch call */

    uint64_t query_tokens, hit_tokens, taken_blocks, evicted_blocks, copies, withdrawn,
        unindexed_units;

    size_t node_bytes; /* from one node to the next */
    /* Byte offsets from the manager. */
    size_t off_blocks, off_free_ids, off_nodes, off_index, off_extras, off_seqs, off_tails,
        off_rows, off_scratch, off_namespaces;

    pkv_allocator alloc; /* of the arena, if create made it */
    size_t arena_bytes;
    bool owns_arena;
};

/* ---- the arena. Scratch fields are written through const managers too, hence the integers. */
#define PKV_ARENA_PART(name, type, field)                                                          \
    static inline type *name(const pkv_blockmgr *m)                                                \
    {                                                                                              \
        return (type *)((uintptr_t)m + m->field); /* NOLINT */                                     \
    }
PKV_ARENA_PART(blocks_of, struct block_rec, off_blocks)      /* [n_blocks] */
PKV_ARENA_PART(free_ids_of, int32_t, off_free_ids)           /* [n_free], top last */
PKV_ARENA_PART(index_of, int32_t, off_index)                 /* [index_mask + 1] node ids */
PKV_ARENA_PART(extras_of, struct extra_entry, off_extras)    /* [extra_high] */
PKV_ARENA_PART(seqs_of, struct seq_rec, off_seqs)            /* [max_seqs] */
PKV_ARENA_PART(all_tails, int32_t, off_tails)                /* [max_seqs][block_tokens] */
PKV_ARENA_PART(all_rows, int32_t, off_rows)                  /* [max_seqs][row_width] */
PKV_ARENA_PART(scratch_of, int32_t, off_scratch)             /* [row_width] node ids of a match */
PKV_ARENA_PART(namespaces_of, struct ns_rec, off_namespaces) /* [max_namespaces] */

/* A node and, right behind it, its tokens: one look at content is one piece of memory. */
static inline struct node *node_at(const pkv_blockmgr *m, int32_t id)
{
    return (struct node *)((uintptr_t)m + m->off_nodes + (size_t)id * m->node_bytes); /* NOLINT */
}
static inline int32_t *node_tokens(const pkv_blockmgr *m, int32_t id)
{
    return (int32_t *)(void *)(node_at(m, id) + 1); /* [block_tokens] */
}
static inline int32_t seq_index(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return (int32_t)(s - seqs_of(m));
}
static inline int32_t *tail_tokens(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return all_tails(m) + (size_t)seq_index(m, s) * (size_t)m->block_tokens;
}
static inline int32_t *row_of(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return all_rows(m) + (size_t)seq_index(m, s) * (size_t)m->row_width;
}
/* Position -> row index and offset in the block; tokens -> blocks. A decode step asks a dozen times
 * per sequence: with a power of two (the usual case) by shifts, which took 256 sequences from 7.3
 * to 5 us. */
static inline int32_t block_index(const pkv_blockmgr *m, int32_t pos)
{
    return PKV_LIKELY(m->block_shift >= 0) ? pos >> m->block_shift : pos / m->block_tokens;
}
static inline int32_t block_offset(const pkv_blockmgr *m, int32_t pos)
{
    return PKV_LIKELY(m->block_shift >= 0) ? pos & (m->block_tokens - 1) : pos % m->block_tokens;
}
static inline int32_t blocks_for(const pkv_blockmgr *m, int32_t n_tokens)
{
    return block_index(m, n_tokens) + (block_offset(m, n_tokens) != 0);
}
static inline bool has_flag(const pkv_blockmgr *m, uint32_t flag)
{
    return (m->flags & flag) != 0;
}
static inline int32_t cached_blocks(const pkv_blockmgr *m)
{
    return m->lists[CLASS_PROBATION].n + m->lists[CLASS_PROTECTED].n;
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

/* A handle's record, or NULL when it is stale. */
static inline struct seq_rec *seq_find(const pkv_blockmgr *m, pkv_seq seq)
{
    const uint32_t idx = (uint32_t)seq.v;
    if (idx >= (uint32_t)m->max_seqs) return NULL;
    struct seq_rec *s = seqs_of(m) + idx;
    return s->open && s->generation == (uint32_t)(seq.v >> 32) ? s : NULL;
}

/* ---- block_pool.c */
/* A block for a new owner, ref 1, from the free ids or from the head of the eviction order. The
 * caller has checked that there is one. */
int32_t pkv__block_take(pkv_blockmgr *m);
/* One row entry less; the last one makes the block CACHED or FREE. */
void pkv__block_unref(pkv_blockmgr *m, int32_t block);
/* One row entry more; a CACHED block leaves its list. */
void pkv__block_ref(pkv_blockmgr *m, int32_t block);
void pkv__block_free(pkv_blockmgr *m, int32_t block);   /* ref 0, no node -> FREE */
void pkv__evict_insert(pkv_blockmgr *m, int32_t block); /* ref 0, main block -> CACHED */
/* Off its list; the state is the caller's to set. */
void pkv__evict_remove(pkv_blockmgr *m, int32_t block);
/* How many of the next `n_taken` blocks must be zeroed; the first `n_returned` of them come from
 * blocks that the call itself gives back before it takes. */
int32_t pkv__count_zeros(const pkv_blockmgr *m, int32_t n_taken, int32_t n_returned);
/* Take a block and note it in work->zero if the policy asks for it. */
int32_t pkv__take_for_work(pkv_blockmgr *m, pkv_block_work *work);
pkv_status pkv__check_work(const pkv_blockmgr *m, const pkv_block_work *work);

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
/* Exact: hash, parent, tokens and extras. */
bool pkv__node_holds(const pkv_blockmgr *m, int32_t node, const struct unit_key *key);
int32_t pkv__index_find(const pkv_blockmgr *m, const struct unit_key *key); /* node or NONE */
bool pkv__index_has_room(const pkv_blockmgr *m, uint64_t hash);
void pkv__index_insert(pkv_blockmgr *m, int32_t node);
void pkv__index_remove(pkv_blockmgr *m, int32_t node);

/* ---- node.c */
/* Make `block` (referenced) hold the content `key`: as main block of a new node, as the new main
 * block of a cached one, or as a spare. A shorter partial node on the block is dropped first. Takes
 * over the entries of *extras (NONE afterwards). The node, or NONE when none could be made: then
 * nothing has changed, *extras included. */
int32_t pkv__node_publish(pkv_blockmgr *m, const struct unit_key *key, int32_t block,
                          int32_t *extras);
/* The block stops holding its content: a spare is unlinked; a main block hands the node to the
 * oldest spare, else the node, which has no children, is removed. The block keeps its state. */
void pkv__node_detach(pkv_blockmgr *m, int32_t block);
/* Remove a node without children or spares; its block keeps its state and holds nothing. */
void pkv__node_remove(pkv_blockmgr *m, int32_t node);
/* Head of the list of children of a node or root. */
int32_t *pkv__children_of(const pkv_blockmgr *m, int32_t parent);

/* ---- namespace.c */
/* Index of an open namespace, or NONE when the handle is stale. */
int32_t pkv__ns_find(const pkv_blockmgr *m, pkv_ns ns);
void pkv__ns_init_default(pkv_blockmgr *m);
pkv_ns pkv__ns_handle(const pkv_blockmgr *m, int32_t ns_idx);

/* ---- sequence.c */
/* Cut the row to n_blocks entries, tail first. */
void pkv__row_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t n_blocks);
pkv_status pkv__tokens_valid(const pkv_blockmgr *m, const pkv_tokens *t);

/* ---- invariants.c: in debug level 3 every mutating call ends with the full check. */
#if PKV_DEBUG_LEVEL >= 3
#define PKV_SELF_CHECK(m) PKV_ASSERT(pkv_blockmgr_check(m, 3) == PKV_OK)
#else
#define PKV_SELF_CHECK(m) ((void)0)
#endif

#endif
