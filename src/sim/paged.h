/* The paged policies inside: state and the parts it is cut into.
 *
 *   request --place--> pkv__paged_run: its sequences, one per output   policy_paged.c
 *                        |-- token ids of prompt and outputs      paged_content.c
 *                        |-- fork, beams                          paged_group.c
 *                        '-- swap space                           paged_swap.c
 *
 * A request has a place from its admission until it is released, in the swap space too. All its
 * sequences have the same length, so what is said of one holds for each. A group (several
 * sequences) is one sequence until its first token: the prompt is computed once.
 *
 * Token ids that the manager sees with `prefix`, all different where nothing is known to be equal:
 *   0 .. n_distinct-1                 prompt tokens, the id of their content
 *   n_distinct + r                    prompt tokens of request r that no id covers
 *   n_distinct + n + r * n_seqs + k   output tokens of its k-th sequence */
#ifndef PKV_SIM_PAGED_H
#define PKV_SIM_PAGED_H

#include "pagedkv/blockmgr.h"
#include "pagedkv/blockmgr_holds.h"
#include "sim/shadow_model.h"
#include "sim/sim_internal.h"

enum { PKV__PAGED_MAX_SEQS = 64 }; /* of one request */

typedef struct pkv__paged_seq {
    pkv_seq seq;
    int32_t shadow; /* its number in the model; moves with the handle */
} pkv__paged_seq;

typedef struct pkv__paged_run {
    int64_t r; /* -1: the place is free */
    bool suspended;
    int32_t n_open;              /* sequences: all, or one of a group before its first token, or 0
                                    where a swapped one was given up */
    int32_t committed, reserved; /* tokens of each */
    int32_t n_blocks;            /* that its rows name, shared ones once */
    int32_t n_host;              /* in the swap space */
    int32_t drawn;               /* beams: resident tokens at which they were drawn, 0: never */
    int64_t unshared;            /* slots that its rows would take without sharing */
} pkv__paged_run;

/* What a request would need was looked up last. */
typedef struct pkv__paged_memo {
    int64_t r;
    int32_t u;
    int64_t version; /* of everything */
    int64_t claims;  /* of what can only make more content known */
    int32_t n_need;  /* blocks: to be taken, and unreferenced ones to be claimed */
    int32_t cached;  /* tokens found */
} pkv__paged_memo;

typedef struct pkv__paged {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    int64_t n;
    bool prefix, swap;
    int32_t n_seqs;                          /* per request */
    int32_t block_tokens, usable, watermark; /* the latter two in blocks */
    int32_t longest;                         /* tokens of the longest request that fits */

    pkv_blockmgr *mgr;
    bool mute;                          /* the manager's refusals are part of the game */
    int32_t n_free, n_cached, n_active; /* as the manager says */
    int32_t n_host_blocks;              /* 0: no swap space */

    int32_t *place_of;    /* [n] -1: none */
    pkv__paged_run *runs; /* [n_places] */
    pkv__paged_seq *seqs; /* [n_places][n_seqs] */
    int32_t *free_places;
    int32_t n_places, n_free_places, n_running, n_suspended;
    int64_t unshared; /* of all that run */

    int64_t version, claims;    /* see pkv__paged_memo */
    pkv__paged_memo *memo;      /* scratch */
    int32_t *ids;               /* [longest] scratch, with prefix */
    int32_t *found;             /* [n] prompt tokens found at the first admission, -1: not yet */
    pkv_swap_copy *swap_copies; /* [swap_cap] scratch */
    int32_t swap_cap;
    uint8_t *seen; /* [usable + 1] of map(); NULL: no map */

    int64_t again_tokens, again_cached, n_copied, n_swapped;
    int64_t n_moved; /* blocks since the costs were asked for */
    pkv__sim_shadow shadow;
} pkv__paged;

/* ---------------------------------------------------------------- paged_content.c */

/* PKV_E_LIMIT if the numbers for token ids run out. The content itself is checked with the config.
 */
pkv_status pkv__paged_check_token_ids(const pkv__paged *p);
/* ids[0 .. upto - from) of tokens [from, upto) of request r's k-th sequence. */
void pkv__paged_fill_ids(const pkv__paged *p, int64_t r, int32_t k, int32_t from, int32_t upto,
                         int32_t *ids);
/* Count an admission of u tokens of which `cached` were found. */
void pkv__paged_note_found(pkv__paged *p, int64_t r, int32_t u, int32_t cached);
void pkv__paged_hits(const pkv__paged *p, pkv_sim_hits *out);

/* ---------------------------------------------------------------- policy_paged.c */

static inline pkv__paged_run *pkv__paged_run_of(const pkv__paged *p, int64_t r)
{
    return p->place_of[r] < 0 ? NULL : &p->runs[p->place_of[r]];
}
static inline pkv__paged_seq *pkv__paged_seqs_of(const pkv__paged *p, const pkv__paged_run *run)
{
    return p->seqs + (size_t)(run - p->runs) * (size_t)p->n_seqs;
}
static inline int32_t pkv__paged_room(const pkv__paged *p)
{
    return p->n_free + p->n_cached;
}
/* Read the counts after a change; returns by how much the blocks in use have become more. */
int32_t pkv__paged_refresh(pkv__paged *p);
/* Commit up to u tokens in every open sequence. */
pkv_status pkv__paged_commit(pkv__paged *p, pkv__paged_run *run, int32_t u);
pkv_status pkv__paged_commit_one(pkv__paged *p, const pkv__paged_run *run, int32_t k, int32_t from,
                                 int32_t u);
/* Room up to the end of the block that token u + 1 falls into, in all sequences or none. */
pkv_status pkv__paged_reserve(pkv__paged *p, pkv__paged_run *run, int32_t u);
/* Set what the rows would take unshared. */
void pkv__paged_recount(pkv__paged *p, pkv__paged_run *run);
pkv_status pkv__paged_close(pkv__paged *p, pkv__paged_run *run);
/* Sequences into `run`, with room for u tokens; *cached of them were found. */
pkv_status pkv__paged_start(pkv__paged *p, pkv__paged_run *run, int32_t u, int32_t keep,
                            int32_t *cached);
/* Blocks that u tokens of each sequence of r take, prompt shared. */
int32_t pkv__paged_blocks(const pkv__paged *p, int64_t r, int32_t u);
/* The same without what is known already. Uses p->memo and p->ids. */
int32_t pkv__paged_need_blocks(const pkv__paged *p, int64_t r, int32_t u);
/* Tokens of its prompt, or of everything, that a request may find. */
int32_t pkv__paged_max_found(const pkv__paged *p, int64_t r, int32_t u);

/* ---------------------------------------------------------------- paged_group.c */

/* The prompt's full blocks are open and committed in the first sequence: make it n_seqs ones. */
pkv_status pkv__paged_fork_all(pkv__paged *p, pkv__paged_run *run);
/* Beams continue themselves or others. */
pkv_status pkv__paged_switch_beams(pkv__paged *p, pkv__paged_run *run, int32_t u);

/* ---------------------------------------------------------------- paged_swap.c */

pkv_status pkv__paged_suspend(void *self, int64_t r, int32_t u);
pkv_status pkv__paged_resume(void *self, int64_t r, int32_t u, bool pool_is_empty, bool *lost,
                             int32_t *cached);
/* A swapped request keeps blocks in the pool that others shared when it was moved. Where not even a
 * lone request fits beside them, the latest arrival but `spared` gives its share and its swap space
 * up: it will be computed again. PKV_E_NO_BLOCKS: there is none such. */
pkv_status pkv__paged_give_up(pkv__paged *p, int64_t spared);
void pkv__paged_take_costs(void *self, pkv__sim_costs *costs);

/* ---------------------------------------------------------------- paged_look.c */

void pkv__paged_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample);
void pkv__paged_usage(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free);
bool pkv__paged_map(const void *self, const pkv__sim_held *running, int32_t n, pkv__sim_cell *cells,
                    int32_t n_cells);
pkv_status pkv__paged_check(void *self);

#endif
