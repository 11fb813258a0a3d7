/* Groups of attention cases that profiles are made of. */
#ifndef PKV_ATTENTION_LISTS_H
#define PKV_ATTENTION_LISTS_H

#include "attention_case.h"

/* A case of this profile without anything in it. */
struct attn_case_spec attention_spec(const struct bench_options *o);

/* Block sizes 1 to 256 against contiguous: where paging loses, and the line of C7. */
bool attention_list_blocks(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err);
/* C5: the same keys in every dtype, as speed over f16. */
bool attention_list_dtypes(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err);
/* C7: query heads per KV head, dims, sequences. */
bool attention_list_sweeps(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err);

/* A prefix that all sequences share, attended once. */
bool attention_list_cascade(const struct bench_options *o, struct case_list *list,
                            struct bench_error *err);
/* Latent attention. */
bool attention_list_latent(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err);

#endif
