/* The block manager before its first sequence: configuration, memory, life, plan, namespaces.
 * The rules of the whole are at the top of blockmgr.h, which includes this header. */
#ifndef PAGEDKV_BLOCKMGR_CONFIG_H
#define PAGEDKV_BLOCKMGR_CONFIG_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_blockmgr pkv_blockmgr;

/* A namespace: content identity, see pkv_ns_open. Like every handle it carries a generation: one
 * that was closed answers PKV_E_STALE for ever. */
typedef struct pkv_ns {
    uint64_t v; /* {0} = the default one, which is always open */
} pkv_ns;

/* Flags of pkv_blockmgr_config. */
#define PKV_MGR_PREFIX_CACHE 1u /* keep and find content; needs token ids at commit */
#define PKV_MGR_PARTIAL_HITS 2u /* also match less than a block, as a copy; needs PREFIX_CACHE */
#define PKV_MGR_PLAIN_LRU 4u    /* one eviction list instead of two classes */
#define PKV_MGR_IN_ORDER                                                                           \
    8u /* nothing reads KV outside the order of steps: blocks are reused at once, and close drops  \
          the commits that have not settled */

/* When a taken block must be zeroed before its new owner sees it. */
typedef enum pkv_zero_policy {
    PKV_ZERO_NEVER = 0,
    PKV_ZERO_ON_DOMAIN_CHANGE = 1, /* the first owner after init, or another domain than the last */
    PKV_ZERO_ALWAYS = 2
} pkv_zero_policy;

/* Layers that share one block table. All groups draw from one pool: tokens per block may differ,
 * bytes per block are equal. Content is identified in units of the smallest block_tokens, of which
 * every other is a multiple. A query at position p sees
 *   FULL     everything before it
 *   SLIDING  positions p - window_tokens + 1 .. p (a kernel's window_left is window_tokens - 1)
 *   CHUNKED  its own chunk: p - p % window_tokens .. p
 * and the first sink_tokens positions. Blocks wholly below what any query from settled -
 * rollback_tokens on sees are released, their entries become 0. A model whose kernel has no mask
 * for sinks sets sink_tokens 0.
 *   STATE    recurrent state: state_blocks blocks per sequence, rewritten in place. Never shared
 *            while written: a fork's state is copied by the next reserve. Found again only where
 *            pkv_seq_snapshot was called. */
typedef enum pkv_group_kind {
    PKV_GROUP_FULL = 0,
    PKV_GROUP_SLIDING = 1,
    PKV_GROUP_CHUNKED = 2,
    PKV_GROUP_STATE = 3
} pkv_group_kind;
#define PKV_MAX_GROUPS 8
typedef struct pkv_group {
    pkv_group_kind kind;
    int32_t block_tokens;  /* 1 .. 2048; STATE: 0 */
    int32_t window_tokens; /* SLIDING, CHUNKED: >= 1; else 0 */
    int32_t sink_tokens;   /* SLIDING, CHUNKED: >= 0; else 0 */
    int32_t state_blocks;  /* STATE: 1 .. 16; else 0 */
} pkv_group;

typedef struct pkv_blockmgr_config {
    uint32_t struct_size;
    int32_t n_blocks;       /* pool size, null block included; 2 .. 2^31-1 */
    int32_t block_tokens;   /* of the one full group, 1 .. 2048; 0: 16. Ignored with `groups` */
    int32_t max_seqs;       /* open sequences at a time; 1 .. 2^24 */
    int32_t max_seq_tokens; /* longest sequence, 1 .. 2^31-2049; sets the width of the rows */
    int32_t max_nodes;      /* content nodes, at most 2^30; 0: one for every unit that the blocks
                               hold, and one unfinished commit per sequence; content whose
                               blocks are gone while what continues it is in use takes more */
    int32_t max_extras;     /* entries (block x extra key) kept with content and with the unfinished
                               blocks of open sequences; 0: n_blocks / 4 + 64 */
    int32_t max_namespaces; /* the default one included, at most 2^24; 0: 64 */
    const pkv_group *groups; /* [n_groups], read during the call only; NULL with 0: one FULL */
    int32_t n_groups;        /* 0 .. PKV_MAX_GROUPS; at least one that is not STATE */
    int32_t rollback_tokens; /* kept behind every window so that truncate can go back */
    int32_t max_steps;       /* open steps at a time, at most 64; 0: 4 */
    int32_t max_holds;       /* holds at a time, at most 2^16; 0: 64 */
    int32_t n_host_blocks;   /* blocks of the host tier for suspend, null block included; 0: none,
                                else at least 2 */
    uint32_t flags;          /* PKV_MGR_* */
    pkv_zero_policy zero_policy; /* of the one domain */
    uint8_t hash_secret[16];     /* same on all ranks; fill it from a random source where prompts
                                    are untrusted, so that collisions cannot be crafted */
    pkv_logger log;              /* reasons of refusals; {NULL, NULL}: silent */
} pkv_blockmgr_config;
#define PKV_BLOCKMGR_CONFIG_INIT                                                                   \
    {                                                                                              \
        sizeof(pkv_blockmgr_config), 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0,                     \
            PKV_MGR_PREFIX_CACHE, PKV_ZERO_NEVER, { 0 },                                           \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* ---------------------------------------------------------------- plan, memory, life */

/* Bytes of the arena for this configuration; 0 if it is invalid (pkv_blockmgr_init then says why).
 * No state. With one group of 16-token blocks 188 bytes per block, tokens and index included (40
 * without prefix cache), plus 4 * max_seqs * max_seq_tokens / block_tokens for the rows and as much
 * per hold as one sequence's rows. */
PKV_API size_t pkv_blockmgr_bytes(const pkv_blockmgr_config *cfg);

/* Make a manager inside the caller's memory. There is nothing to undo: drop the arena.
 * `arena` is 64-byte aligned and `bytes` >= pkv_blockmgr_bytes(cfg). On failure *out is untouched.
 *   PKV_E_INVALID_ARG  null, misaligned or short arena, a field out of range (the log names it)
 *   PKV_E_ABI          a struct_size this library does not know
 * O(bytes). */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_init(void *arena, size_t bytes,
                                                   const pkv_blockmgr_config *cfg,
                                                   pkv_blockmgr **out);

/* As init, in memory from `alloc` (NULL: malloc family), given back by destroy; `alloc` is copied.
 * Also PKV_E_NO_MEMORY. destroy(NULL) is fine; destroy of a manager made by init only forgets it.
 */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_create(const pkv_blockmgr_config *cfg,
                                                     const pkv_allocator *alloc,
                                                     pkv_blockmgr **out);
PKV_API void pkv_blockmgr_destroy(pkv_blockmgr *mgr);

/* How a memory budget turns into a pool. */
typedef struct pkv_plan_result {
    uint32_t struct_size;
    size_t block_bytes;    /* of one block in the canonical layout */
    int32_t n_blocks;      /* for pkv_blockmgr_config; null block included */
    int32_t usable_blocks; /* n_blocks - 1 */
    int64_t usable_tokens; /* usable_blocks * block_tokens */
    int32_t peak_blocks;   /* most blocks of one sequence of max_seq_tokens on its way there */
    int32_t max_full_seqs; /* sequences at their peak that fit at the same time */
    size_t mgr_bytes;      /* arena of the manager for that pool; not taken from `bytes` */
} pkv_plan_result;
#define PKV_PLAN_RESULT_INIT                                                                       \
    {                                                                                              \
        sizeof(pkv_plan_result), 0, 0, 0, 0, 0, 0, 0                                               \
    }

/* Plan one full-attention group: the largest pool whose KV bytes, null block included, fit `bytes`.
 * Uses cfg->max_seqs, max_seq_tokens, flags and so on; cfg->n_blocks and cfg->block_tokens are
 * ignored (shape->block_tokens counts).
 *   PKV_E_NEVER        not even one sequence of cfg->max_seq_tokens fits; *out is filled all the
 *                      same, so that the caller can say by how much
 *   PKV_E_INVALID_ARG  shape or cfg out of range, or fewer than 2 blocks fit
 *   PKV_E_UNSUPPORTED  see pkv_kv_block_bytes
 * No state, O(1). Says yes exactly when an empty manager of n_blocks admits one longest sequence.
 */
PKV_API PKV_NODISCARD pkv_status pkv_plan(const pkv_kv_shape *shape, size_t bytes,
                                          const pkv_blockmgr_config *cfg, pkv_plan_result *out);

/* The same for cfg->groups: shapes[g] is the shape of group g (its block_tokens those of the
 * group), all with equal bytes per block; of a STATE group nothing is looked at, its state is cut
 * into blocks by the caller. `chunk_tokens` is the most tokens that are reserved for one sequence
 * in one step (prefill chunk): windows slide only when a step has settled, so longer chunks need
 * more blocks at a time. Says yes exactly when an empty manager of n_blocks carries one sequence
 * to cfg->max_seq_tokens in such chunks, each committed before the next is reserved.
 *   also PKV_E_INVALID_ARG  chunk_tokens < 1, groups invalid, bytes per block differ
 * O(n_groups * max_seq_tokens / chunk_tokens) at most. */
PKV_API PKV_NODISCARD pkv_status pkv_plan_groups(const pkv_kv_shape *shapes, size_t bytes,
                                                 int32_t chunk_tokens,
                                                 const pkv_blockmgr_config *cfg,
                                                 pkv_plan_result *out);

/* ---------------------------------------------------------------- namespaces */

/* Identity of content. Two namespaces with the same fields are one namespace. Fields are typed and
 * length-prefixed before they are digested (SHA-256): an adapter named X and a salt X differ. */
typedef struct pkv_ns_params {
    uint32_t struct_size;
    uint8_t model_digest[32]; /* weights, architecture, RoPE parameters: the caller's digest */
    const char *kv_format;    /* dtype, scale mode, layout; NULL with 0 bytes: none */
    size_t kv_format_bytes;
    const char *adapter; /* adapter (LoRA) name */
    size_t adapter_bytes;
    const char *salt; /* tenant salt; never stored, only its digest is */
    size_t salt_bytes;
} pkv_ns_params;
#define PKV_NS_PARAMS_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_ns_params), { 0 }, NULL, 0, NULL, 0, NULL, 0                                    \
    }

/* Open the namespace with these fields. Opening equal fields again gives the same handle and has to
 * be closed as often; all fields empty gives the default namespace {0}, which is never closed.
 *   PKV_E_INVALID_ARG  null pointer with bytes > 0, a field longer than 65535 bytes
 *   PKV_E_LIMIT        max_namespaces are open, or one of them 2^31-1 times
 * O(max_namespaces + bytes of the fields). */
PKV_API PKV_NODISCARD pkv_status pkv_ns_open(pkv_blockmgr *mgr, const pkv_ns_params *params,
                                             pkv_ns *out);

/* Close it once. The last close forgets its cached content: the blocks become free, children before
 * parents, newest child first. {0} is PKV_E_INVALID_ARG.
 *   PKV_E_STALE; PKV_E_STATE  last close while sequences are open in it
 *   PKV_E_AGAIN  last close while commits of closed sequences are pending in it: retire their steps
 * O(blocks freed). */
PKV_API PKV_NODISCARD pkv_status pkv_ns_close(pkv_blockmgr *mgr, pkv_ns ns);

#ifdef __cplusplus
}
#endif
#endif
