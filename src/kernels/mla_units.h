/* Latent attention on the driver of attention (attn_work.c). Its units are rows times query heads:
 * the list is that of a call whose kv heads are groups of query heads, and a unit of it is carried
 * out as a call of its own, on these heads alone. */
#ifndef PKV_MLA_UNITS_H
#define PKV_MLA_UNITS_H

#include "kernels/kernels_internal.h"

enum { PKV__MAX_LATENT = 512, PKV__MAX_ROPE = 128 };

size_t pkv__mla_work_bytes(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                           int32_t rope_dim);
/* Carry out a validated call, cut into the units of `units`. */
void pkv__mla_work(const pkv_backend *be, const struct pkv__mla_call *c,
                   const struct pkv__attn_call *units, void *workspace);

/* One unit of the list: query heads [kv_head * group, ...) of `c`, the report goes to list->bad. */
void pkv__mla_unit(pkv__mla_fn fn, const struct pkv__mla_call *c, const struct pkv__attn_call *list,
                   const struct pkv__attn_unit *unit, void *scratch);

/* Scratch of one task, as pkv__attn_scratch_bytes. */
size_t pkv__mla_scratch_bytes(int32_t n_q_heads, int32_t latent_dim, int32_t rope_dim);

#endif
