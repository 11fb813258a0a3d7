/* The parts of paged placement: what its two files share.
 *
 *   number 0 .. max_seqs - 1     handle of the manager      row
 *   0  running   committed 38 -> pkv_seq                 -> [ 7 | 12 |  3 ]   in the manager
 *   1  parked    committed 20 -> pkv_seq (suspended)        [ 7 | -2 ]        our copy: 7 stayed on
 *   2  none                                                                   the device, host
 * block 2 has the rest
 *
 * The manager does not show the rows of suspended sequences, nor how often a block is referred to;
 * the copies answer what resuming takes, what suspending would move, and how full the blocks are.
 * Transfers are done before the call returns, so one hold is enough and it is never open outside.
 */
#ifndef PKV_MODEL_PLACEMENT_PAGED_H
#define PKV_MODEL_PLACEMENT_PAGED_H

#include "model/placement_internal.h"
#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/store.h"

#include <string.h>

/* Lists up to here are checked without asking the backend's allocator for memory. */
enum { PKV__MOVES_AT_ONCE = 32 };

typedef enum pkv__life {
    PKV__LIFE_NONE = 0,
    PKV__LIFE_RUNNING = 1,
    PKV__LIFE_PARKED = 2
} pkv__life;

/* Refusals of the manager are everyday answers here and go nowhere; what create and check find is
 * told. */
typedef struct pkv__listener {
    pkv_logger log;
    bool on;
} pkv__listener;

typedef struct pkv__paged {
    pkv__placement base;
    pkv_backend *backend;
    pkv_kv_shape shape;
    pkv_blockmgr *mgr;
    pkv_ns ns;
    pkv_step step; /* PKV_STEP_NONE: none is open */
    pkv_store *store, *host;
    uint8_t *pool, *host_pool;
    int32_t n_blocks, n_host_blocks; /* null blocks included; 0: no host pool */
    int32_t max_seqs, max_context;
    bool prefix_cache;
    int64_t n_swapped_bytes;
    pkv__place_numbers numbers;

    /* by number */
    uint8_t *lives; /* [max_seqs] pkv__life */
    pkv_seq *seqs;  /* [max_seqs] {0}: none */
    int32_t *committed;
    int32_t *before;   /* committed before the open step; -1: nothing was committed in it */
    int32_t *parked;   /* [max_seqs][table_width]; see above. NULL: no host pool */
    int32_t *is_given; /* [max_seqs] sequences of a question, 0 between calls */

    /* for the time of a call */
    pkv_seq *handles;       /* [max_seqs] */
    pkv_reserve_req *reqs;  /* [max_seqs] */
    pkv_block_copy *copies; /* [max_seqs] */
    pkv_swap_copy *moves;   /* [n_moves]; a block on the device moves once, and so many fit */
    int32_t *move_ids;      /* [n_moves] */
    int32_t *host_of;       /* [n_blocks] where a block moves to, 0 between calls */
    uint32_t *marks;        /* [n_blocks] equal to marks[0]: seen in this call */
    uint32_t *host_marks;   /* [n_host_blocks] */
    pkv__listener *listens;
    pkv_logger log;
    pkv_allocator alloc;
    size_t bytes; /* of this handle and its arrays */
} pkv__paged;

static inline pkv__paged *pkv__paged_of(pkv__placement *p)
{
    return (pkv__paged *)p;
}
static inline const pkv__paged *pkv__paged_in(const pkv__placement *p)
{
    return (const pkv__paged *)p;
}

static inline bool pkv__is_number(const pkv__paged *p, int32_t seq)
{
    return seq >= 0 && seq < p->max_seqs;
}

/* {0}, which is stale, for what is no number. */
static inline pkv_seq pkv__handle_of(const pkv__paged *p, int32_t seq)
{
    return pkv__is_number(p, seq) ? p->seqs[seq] : (pkv_seq){ 0 };
}

/* Blocks with tokens of a sequence. */
static inline int32_t pkv__n_held(const pkv__paged *p, int32_t seq)
{
    return pkv__ceil_div_i32(p->committed[seq], p->base.block_tokens);
}

static inline int32_t *pkv__parked_row(const pkv__paged *p, int32_t seq)
{
    return p->parked + (size_t)seq * (size_t)p->base.table_width;
}

/* A value that no mark has. */
static inline uint32_t pkv__fresh_mark(uint32_t *marks, int32_t n)
{
    if (++marks[0] == 0) {
        memset(marks, 0, (size_t)n * sizeof(*marks));
        marks[0] = 1;
    }
    return marks[0];
}

static inline pkv_blockmgr_stats_t pkv__paged_stats(const pkv__paged *p)
{
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(p->mgr, &s);
    return s;
}

/* ---- placement_paged.c */
const int32_t *pkv__paged_row(const pkv__placement *base, int32_t seq, int32_t *n_ids);

/* ---- placement_swap.c: host blocks that parked sequences have; functions of the table */
int32_t pkv__paged_host_blocks(const pkv__paged *p);
pkv_status pkv__placement_swap_out(pkv__placement *base, const int32_t *seqs, int32_t n);
pkv_status pkv__placement_swap_in(pkv__placement *base, const int32_t *seqs, int32_t n,
                                  int32_t watermark);
size_t pkv__paged_swap_bytes(const pkv__placement *base, const int32_t *seqs, int32_t n);

#endif
