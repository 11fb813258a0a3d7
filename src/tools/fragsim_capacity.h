/* What the command capacity works out, for its table and its JSON. */
#ifndef PKV_TOOLS_FRAGSIM_CAPACITY_H
#define PKV_TOOLS_FRAGSIM_CAPACITY_H

#include "fragsim.h"

/* Requests of the list that fill an empty pool, each with all it will hold at its end; the pool is
 * filled again and again in the order of the list, until the list is through. */
typedef struct fragsim_packing {
    char name[PKV_SIM_POLICY_NAME_BYTES];
    int64_t n_pools; /* that were full; 0: the whole list fits, or nothing does */
    int64_t n_packed, least, most;
    int64_t n_too_long;
    double mean; /* requests per full pool; if none was full, all that fit */
    double used; /* share of the full pools that will be tokens */
} fragsim_packing;

#define FRAGSIM_BLOCK_SIZES 7

typedef struct fragsim_block_cost {
    int32_t block_tokens;
    int64_t usable;                    /* blocks; 0: the pool has not even one */
    double batch, internal;            /* as the closed forms give them */
    int64_t table_bytes, padded_bytes; /* of a full pool; of max_num_seqs rows of max_model_len */
    double table_share;                /* of the KV bytes */
    int64_t watermark_tokens;
    double watermark_batch; /* requests that do not run because of it */
} fragsim_block_cost;

typedef struct fragsim_capacity_report {
    const fragsim_options *opts;
    const fragsim_input *input;
    pkv_sim_forms forms; /* of block_tokens */
    int32_t block_tokens;
    fragsim_packing packings[FRAGSIM_MAX_POLICIES];
    fragsim_block_cost blocks[FRAGSIM_BLOCK_SIZES + 1]; /* the last: block_tokens */
} fragsim_capacity_report;

void fragsim_pack(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                  fragsim_packing *out);
void fragsim_capacity_print(FILE *out, const fragsim_capacity_report *report);
/* NULL: no memory. */
char *fragsim_capacity_json(const fragsim_capacity_report *report, const fragsim_report *notes);

#endif
