/* What policies share: the answers of those to whom a question does not matter. */
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
