/* What follows from a result and its configuration by a product or a quotient. */
#ifndef PKV_TOOLS_FRAGSIM_DERIVED_H
#define PKV_TOOLS_FRAGSIM_DERIVED_H

#include "fragsim.h"

/* A value of -1: there is none, because what it is divided by is 0 or was not measured. */
typedef struct fragsim_derived {
    double duration_s;     /* first arrival to last finish */
    double requests_per_s; /* finished, over duration_s */
    double good_per_s;     /* of them, those that meet every limit */
    double tokens_per_s;   /* generated */
    double preemptions_per_admission;
    double preempted_share;  /* requests preempted at least once, of all */
    double recomputed_share; /* of the generated tokens */
    double hit_rate;         /* tokens; blocks */
    double block_hit_rate;
    /* memory without tokens times time, in the window */
    double waste_byte_s;
    double waste_byte_s_per_request; /* over those finished in the window */
    double waste_waited_byte_s;      /* the part while somebody waited */
    /* paged: block tables with 4 bytes per entry */
    double table_entries; /* of all running sequences, mean over the window */
    double table_bytes;   /* the same in bytes: rows as long as needed */
    double padded_bytes;  /* max_num_seqs rows for max_model_len */
    double table_share;   /* of the KV bytes that the entries stand for */
    double swapped_bytes, copied_bytes, compacted_bytes;
} fragsim_derived;

void fragsim_derive(const fragsim_job *job, fragsim_derived *out);

#endif
