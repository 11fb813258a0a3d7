/* Inside the block manager: its records and the arena they lie in.
 *
 *   arena   [manager | block records | free ids | nodes, each with its tokens | index | extras |
 *            sequences | their groups | tails | pending commits | rows, group by group | scratch |
 *            steps | row changes | raw references | holds | swaps | host blocks | namespaces]
 *
 * blockmgr_arena.h finds the parts; what is done with them stands in blockmgr_internal.h. */
#ifndef PKV_BLOCKMGR_RECORDS_H
#define PKV_BLOCKMGR_RECORDS_H

#include "common/common.h"
#include "common/siphash.h"
#include "pagedkv/blockmgr.h"
#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

#include <stdatomic.h>
#include <string.h>

enum { NONE = -1, MAX_SLOTS = 32 };

/* A block is in exactly one state.
 * FREE: on the free ids, ref 0, no content. ACTIVE: ref >= 1. CACHED: ref 0, main block of a node,
 * on an eviction list. LIMBO: ref 0, on the limbo list, reused when the steps up to its stamp have
 * retired. QUARANTINE: ref >= 1, all of them references of expired holds. */
enum block_state { BLOCK_FREE, BLOCK_ACTIVE, BLOCK_CACHED, BLOCK_LIMBO, BLOCK_QUARANTINE };
enum { N_STATES = BLOCK_QUARANTINE + 1 };

/* Eviction lists, the first to go first. Priority 3 is the default and has two. */
enum evict_class {
    CLASS_STALE = 0,     /* content of older epochs */
    CLASS_LOW = 1,       /* + priority 0 .. 2 */
    CLASS_PROBATION = 4, /* never hit since it was cached */
    CLASS_PROTECTED = 5, /* hit at least once */
    CLASS_HIGH = 6,      /* + priority - 4 */
    N_CLASSES = 10
};

/* One per block, two to a cache line so that none straddles one. */
struct block_rec {
    _Alignas(32) int32_t prev; /* CACHED, LIMBO: towards the head; spare: the older spare */
    int32_t next;              /* CACHED, LIMBO: towards the tail; spare: the newer spare */
    int32_t ref;               /* entries in rows + holds + raw references */
    int32_t node;              /* findable content it holds, as main block or spare; NONE */
    int32_t prepared;          /* content that will be findable: the longest prepared node; NONE */
    int32_t planned;           /* scratch within one call; 0 between calls */
    uint32_t stamp;            /* LIMBO: newest step begun at the release; CACHED: decays until it
                                  was listed; otherwise: references of expired holds */
    uint8_t state;             /* enum block_state */
    uint8_t evict_class;       /* CACHED: enum evict_class when it was listed */
    uint8_t slot;              /* place in its node: which group it was taken for */
    bool spare : 1;            /* the node's main block is another one */
    bool used : 1;             /* was handed out before */
};

/* The blocks of a node in one group. Spares (same content, held by other sequences) exist only
 * while `block` is referenced, and are referenced themselves. */
struct node_slot {
    int32_t block; /* main block; NONE */
    int32_t oldest_spare, newest_spare;
};

/* What one unit holds: parent and tokens and extra keys, exactly.
 * Indexed: findable. It lives while it has a block, a child or a holder; without blocks it only
 * connects. Prepared: will be findable when its tokens settle; lives while a sequence holds it.
 * n_tokens < unit: a partial node, which has no children. Its tokens lie right behind it. */
struct node {
    uint64_t hash;
    int32_t parent;       /* indexed: node id, or root_of(namespace index) */
    int32_t first_child;  /* the newest; prepared: the indexed node it has become part of; NONE */
    int32_t older, newer; /* siblings; `older` links free nodes, and prepared ones of a block from
                             longest to shortest */
    int32_t extras;       /* first entry of its list; NONE */
    int32_t n_tokens;
    int32_t ns;        /* index of its namespace */
    int32_t holders;   /* prepared: sequences that will settle it; indexed: sequences whose last
                          indexed unit it is */
    uint32_t epoch;    /* in which it was made */
    uint32_t decay_no; /* decays that priority and floor have seen */
    uint8_t priority;  /* 0 .. 7 */
    uint8_t floor;     /* no class below is good enough: highest of its children's listed blocks */
    bool hit;          /* claimed by a match whose sequence committed */
    bool indexed;
    struct node_slot at[]; /* [n_slots], then int32_t tokens[unit] */
};

/* One extra key that touches a unit. Ascending by offset within a list. */
struct extra_entry {
    int64_t offset; /* where the extra begins, relative to the unit's first token; may be < 0 */
    int32_t n;      /* tokens of the whole extra */
    int32_t next;   /* entry id; NONE */
    uint8_t digest[32];
};

/* What reserve does to a block that the next token would be written to. */
enum tail_action { TAIL_KEEP, TAIL_COPY, TAIL_TAKE_OVER };

enum seq_life { SEQ_FREE, SEQ_OPEN, SEQ_CLOSING }; /* CLOSING: closed, commits pending */

struct seq_rec {
    _Alignas(64) uint32_t generation;
    int32_t ns;                           /* index of its namespace */
    int32_t settled, committed, reserved; /* tokens, ascending */
    int32_t n_units;                      /* leading units that have an indexed node */
    int32_t n_full;      /* leading units that have a node, indexed or (the last ones) prepared */
    int32_t last_node;   /* node of unit n_units - 1, or the root */
    int32_t claim;       /* units to mark as hit at the next commit */
    int32_t tail_extras; /* extras of the tokens behind the last unit; NONE */
    uint32_t mark;       /* number of the last batch call that named it */
    int32_t link;        /* next free or closing one, or of the same running swap; NONE */
    uint32_t epoch;
    uint8_t life;        /* enum seq_life */
    uint8_t swap;        /* pkv_seq_state */
    uint8_t n_pending;   /* entries of its list of pending commits */
    bool ended : 1;      /* a unit could not be indexed: the tokens behind it are not kept either */
    bool holds_tail : 1; /* CLOSING: holder of a prepared partial node */
    bool grows : 1;      /* scratch: the running reserve lengthens a row */
    uint64_t actions; /* scratch: two bits of enum tail_action per slot, of the running reserve */
};

/* Of one sequence in one group. */
struct seq_group {
    int32_t gap_end;  /* entries from the sinks up to here are released (0) */
    int32_t own_from; /* in the block that this position lies inside, slots below it were never
                         written: it gets no node; 0: there is none */
};

/* Commits that have not settled: of the tokens [from, upto), last committed in `step`. */
struct pending {
    int32_t step; /* index of an open step */
    int32_t from, upto;
};

/* A group, with what follows from its description. */
struct group_rec {
    pkv_group_kind kind;
    int32_t block_tokens;
    int32_t shift; /* log2 of block_tokens, or -1 */
    int32_t window_tokens, sink_tokens;
    int32_t sink_blocks;   /* that no window releases */
    int32_t ratio;         /* units per block */
    int32_t slot, n_slots; /* in nodes: one, or one per block of state */
    int32_t row_width;
    size_t off_rows; /* int32_t [max_seqs][row_width] */
};

/* What a device's copy of a row lacks: entries [lo, hi). */
struct row_change {
    int32_t sent; /* length of the row when it was last sent */
    int32_t lo, hi;
};

struct step_rec {
    uint64_t number; /* 0: not open */
};

enum hold_kind { HOLD_PREFIX, HOLD_SUSPEND, HOLD_RESUME };
enum hold_life { HOLD_FREE, HOLD_RUNNING, HOLD_OVERDUE }; /* OVERDUE: expired, not reclaimed */

/* The blocks of a prefix lie in the hold's own range of `hold_ids`; those of a swap are chained. */
struct hold_rec {
    _Atomic uint64_t word; /* generation << 8 | enum post_state in hold.c: the only thing that other
                              threads write, or read */
    uint64_t deadline;
    uint32_t generation;
    uint8_t life, kind;
    int32_t n_tokens;                 /* of a prefix: slots from there on may be written */
    int32_t first[PKV_MAX_GROUPS];    /* of a prefix: position in the row of the first id that is
                                         not one of the sinks */
    int32_t n_blocks[PKV_MAX_GROUPS]; /* ids of each group, one after the other */
    int32_t last_block;               /* of a swap: the last of the list of copies; 0: none */
    int32_t first_seq; /* of a swap: its sequences by row index, one leads to the next (link) */
    int32_t next_free;
};

/* Of a block that a swap refers to; there is at most one such swap. */
struct swap_rec {
    int32_t host; /* the other end; 0: no swap */
    int32_t next; /* block before it in the list of copies; 0: none */
};

struct host_rec {
    int32_t ref;  /* entries in rows of suspended sequences + running and expired suspends */
    int32_t next; /* free one behind this; in use: scratch within one call, 0 between calls */
};

struct ns_rec {
    uint8_t identity[32];
    uint64_t root_hash;
    int32_t first_child; /* newest node of a first unit; older epochs at the end */
    int32_t n_seqs;      /* open sequences */
    int32_t n_closing;   /* closed ones with commits pending */
    int32_t n_opens;     /* 0: not open */
    uint32_t generation;
};

struct block_list {
    int32_t head, tail; /* head: next to go */
    int32_t n;
};

struct pkv_blockmgr {
    pkv_logger log;
    uint64_t hash_k0, hash_k1;
    uint32_t flags;
    pkv_zero_policy zero_policy;
    int32_t n_blocks, max_seqs, max_seq_tokens, rollback_tokens;
    int32_t max_nodes, max_extras, max_namespaces, max_steps, max_holds, n_host_blocks;
    int32_t unit, unit_shift;             /* tokens of a unit; log2 or -1 */
    int32_t unit_group;                   /* a group whose blocks are units */
    int32_t n_groups, n_slots, row_units; /* row_units: units of the longest sequence */
    int32_t always_fits;                  /* a sequence of so many tokens never exceeds the pool */
    bool windows;                         /* some group releases blocks */
    bool states;                          /* some group is a STATE group */
    bool simple;                          /* one FULL group: blocks are units */
    bool partial;                         /* partial hits are asked for and possible */
    bool raw_used; /* references that do not cover what comes before a block were made: raw ones,
                      overdue suspends, suspended rows of which a part stayed */
    struct group_rec groups[PKV_MAX_GROUPS];
    uint8_t slot_group[MAX_SLOTS];

    int32_t n_free, n_active, n_quarantine, n_cached;
    struct block_list lists[N_CLASSES], limbo;
    uint32_t n_decays, epoch;
    int32_t n_nodes, node_high, free_node;    /* in use; ids ever used; head of the free ones */
    int32_t n_extras, extra_high, free_extra; /* the same for extra entries */
    int32_t n_seqs, n_closing, free_seq;
    int32_t closing_head, closing_tail; /* in order of close */
    int32_t n_namespaces;
    uint32_t index_mask;               /* slots - 1 */
    uint32_t batch_no;                 /* of the running batch call */
    int32_t n_open_steps, newest_step; /* newest_step: its place, open or not */
    uint64_t n_steps;                  /* ever begun */
    int32_t n_holds, free_hold;
    int32_t n_free_host, free_host;
    uint64_t n_raw_refs, now;
    _Atomic uint64_t late_posts;

    uint64_t query_tokens, hit_tokens, taken_blocks, evicted_blocks, copies, withdrawn,
        unindexed_units;

    size_t node_bytes; /* from one node to the next */
    size_t seq_words;  /* 64-bit words of a set of sequences */
    int32_t hold_ids;  /* int32_t per hold: width of all rows but those of STATE groups */
    /* Byte offsets from the manager. */
    size_t off_blocks, off_free_ids, off_nodes, off_index, off_extras, off_seqs, off_seq_groups,
        off_tails, off_pending, off_scratch, off_steps, off_step_seqs, off_changes, off_changed,
        off_raw_refs, off_holds, off_hold_ids, off_swaps, off_host, off_namespaces;

    pkv_allocator alloc; /* of the arena, if create made it */
    size_t arena_bytes;
    bool owns_arena;
};

#endif
