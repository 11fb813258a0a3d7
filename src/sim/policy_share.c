/* What policies share: the answers of those to whom a question does not matter, and what chunks and
 * refused allocations amount to. */
#include "sim/sim_internal.h"

int32_t pkv__sim_n_seqs(const pkv_sim_policy *policy)
{
    return policy->group == PKV_SIM_GROUP_NONE ? 1 : policy->n_seqs;
}

int32_t pkv__sim_no_probe(const void *self, int64_t r, int32_t u)
{
    (void)self;
    (void)r;
    (void)u;
    return 0;
}

bool pkv__sim_never_closed(const void *self)
{
    (void)self;
    return false;
}

void pkv__sim_no_costs(void *self, pkv__sim_costs *costs)
{
    (void)self;
    *costs = (pkv__sim_costs){ 0 };
}

void pkv__sim_no_result(const void *self, pkv_sim_result *out)
{
    (void)self;
    (void)out;
}

bool pkv__sim_no_map(const void *self, const pkv__sim_held *running, int32_t n,
                     pkv__sim_cell *cells, int32_t n_cells)
{
    (void)self;
    (void)running;
    (void)n;
    (void)cells;
    (void)n_cells;
    return false;
}

int64_t pkv__sim_unit_is_slot(const void *self)
{
    (void)self;
    return 1;
}

void pkv__sim_map_add(pkv__sim_cell *cells, int32_t n_cells, int64_t pool, int64_t from, int64_t to,
                      pkv_sim_map_state state)
{
    for (int64_t k = from * n_cells / pool; k < n_cells; k++) {
        const int64_t begin = k * pool / n_cells, end = (k + 1) * pool / n_cells;
        if (begin >= to) break;
        const int64_t low = begin > from ? begin : from, high = end < to ? end : to;
        if (high > low) cells[k].slots[state] += high - low;
    }
}

void pkv__sim_chunk_usage(int32_t h, int32_t q, int32_t f, int32_t u, pkv__sim_sample *sample)
{
    sample->part[PKV__PART_LOGICAL] += u;
    sample->part[PKV__PART_RESERVATION] += pkv__max_i32(0, pkv__min_i32(h, f) - u);
    sample->part[PKV__PART_INTERNAL] += pkv__max_i32(0, h - f);
    sample->part[PKV__PART_ROUNDING] += q - h;
}

void pkv__sim_chunk_map(pkv__sim_chunk chunk, int32_t h, int32_t f, int32_t u, int64_t pool,
                        pkv__sim_cell *cells, int32_t n_cells)
{
    const int64_t from = chunk.addr;
    const int64_t filled = pkv__max_i32(u, pkv__min_i32(h, f));
    const int64_t asked = filled > h ? filled : h;
    pkv__sim_map_add(cells, n_cells, pool, from, from + u, PKV_SIM_MAP_TOKEN);
    pkv__sim_map_add(cells, n_cells, pool, from + u, from + filled, PKV_SIM_MAP_RESERVED);
    pkv__sim_map_add(cells, n_cells, pool, from + filled, from + asked, PKV_SIM_MAP_INTERNAL);
    pkv__sim_map_add(cells, n_cells, pool, from + asked, from + chunk.q, PKV_SIM_MAP_ROUNDING);
}

#define PPB INT64_C(1000000000)

/* 1 - (1 + free / 2^order) / free chunks in 10^-9, rounded towards 1; order is that of h. A chunk
 * of 2^order slots is not free, or h would not have been refused. */
static int64_t frag_index_ppb(int64_t n_free, int64_t n_chunks, int32_t h)
{
    int64_t wanted = 1;
    while (wanted < h) wanted *= 2;
    return PPB - (wanted + n_free) * PPB / (wanted * n_chunks);
}

void pkv__sim_refusals_add(pkv__sim_refusals *refusals, const pkv__sim_addr_ops *ops,
                           const void *addr, int32_t h)
{
    const int32_t n_free = ops->n_free(addr);
    if (n_free < h) return;
    refusals->n++;
    refusals->index_ppb += frag_index_ppb(n_free, ops->n_free_chunks(addr), h);
}

void pkv__sim_refusals_result(const pkv__sim_refusals *refusals, pkv_sim_result *out)
{
    out->n_failed_takes = refusals->n;
    out->frag_index = 0;
    if (refusals->n > 0)
        out->frag_index = (double)refusals->index_ppb / (double)PPB / (double)refusals->n;
}
