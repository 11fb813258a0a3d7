/* How many requests fill an empty pool. Nothing is freed while it fills, so places do not matter
 * except for buddy chunks, where the number of free chunks of each size says it all. */
#include "fragsim_capacity.h"

#define ORDERS 32

/* Room left, in slots; for vattn in bytes of one tensor, for buddy in free[] instead. */
typedef struct pool {
    const pkv_sim_config *cfg;
    int64_t left;
    int64_t free[ORDERS]; /* of buddy: chunks of 2^k slots */
} pool;

static bool is_buddy(const pkv_sim_policy *p)
{
    return p->addr == PKV_SIM_ADDR_BUDDY &&
           (p->kind == PKV_SIM_MAX || p->kind == PKV_SIM_POW2 || p->kind == PKV_SIM_ORACLE ||
            p->kind == PKV_SIM_STATIC_BATCH);
}

static void empty(pool *p)
{
    const pkv_sim_config *c = p->cfg;
    p->left = c->pool_tokens;
    if (c->policy.kind == PKV_SIM_PAGED) p->left -= p->left % c->policy.block_tokens;
    if (c->policy.kind == PKV_SIM_VATTN) p->left *= c->tensor_token_bytes;
    for (int k = 0; k < ORDERS; k++) p->free[k] = c->pool_tokens >> k & 1;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* What a request holds at its end, in the unit of `left`. */
static int64_t asked(const pkv_sim_config *c, const pkv_sim_request *req)
{
    const pkv_sim_policy *p = &c->policy;
    const int64_t i = req->prompt_tokens, o = req->output_tokens, f = i + o;
    int64_t power = 1;
    switch (p->kind) {
    case PKV_SIM_MAX:
    case PKV_SIM_STATIC_BATCH:
        return c->max_model_len;
    case PKV_SIM_ORCA_REAL:
        return p->max_tokens > 0 ? p->max_tokens : c->max_model_len;
    case PKV_SIM_POW2:
        if (o == 0) power = 0; /* nothing to round */
        while (power < o) power *= 2;
        return i + power < c->max_model_len ? i + power : c->max_model_len;
    case PKV_SIM_ORACLE:
        return f;
    case PKV_SIM_PAGED: {
        const int64_t b = p->block_tokens, shared = i / b;
        return b * (shared + p->n_seqs * (ceil_div(f, b) - shared));
    }
    case PKV_SIM_VATTN:
        return p->page_bytes * ceil_div(f * c->tensor_token_bytes, p->page_bytes);
    }
    return f;
}

static bool take(pool *p, int64_t h)
{
    if (!is_buddy(&p->cfg->policy)) {
        if (h > p->left) return false;
        p->left -= h;
        return true;
    }
    int order = 0, k;
    while (INT64_C(1) << order < h) order++;
    for (k = order; k < ORDERS && p->free[k] == 0; k++) continue;
    if (k >= ORDERS) return false;
    p->free[k]--;
    while (k > order) p->free[--k]++; /* the upper half stays free, level by level */
    return true;
}

/* Can a request of f tokens that asks for h ever run? */
static bool fits_empty(const pkv_sim_config *cfg, int64_t f, int64_t h)
{
    pool p = { .cfg = cfg };
    if (f > cfg->max_model_len || (cfg->policy.kind == PKV_SIM_ORCA_REAL && f > h)) return false;
    empty(&p);
    return take(&p, h);
}

void fragsim_pack(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                  fragsim_packing *out)
{
    *out = (fragsim_packing){ 0 };
    pkv_sim_policy_name(&cfg->policy, out->name);
    pool p = { .cfg = cfg };
    int64_t in_pool = 0, tokens = 0, full_tokens = 0, n_full = 0;
    empty(&p);
    for (int64_t r = 0; r < n; r++) {
        const int64_t f = (int64_t)reqs[r].prompt_tokens + reqs[r].output_tokens;
        const int64_t h = asked(cfg, &reqs[r]);
        if (!fits_empty(cfg, f, h)) {
            out->n_too_long++;
            continue;
        }
        if (!take(&p, h)) { /* this pool is full */
            out->least = out->n_pools == 0 || in_pool < out->least ? in_pool : out->least;
            out->most = in_pool > out->most ? in_pool : out->most;
            out->n_pools++;
            n_full += in_pool;
            full_tokens += tokens;
            in_pool = tokens = 0;
            empty(&p);
            take(&p, h);
        }
        in_pool++;
        out->n_packed++;
        tokens +=
            f * cfg->policy.n_seqs - (int64_t)(cfg->policy.n_seqs - 1) * reqs[r].prompt_tokens;
    }
    if (out->n_pools == 0) {
        out->mean = (double)in_pool;
        out->least = out->most = in_pool;
        out->used = (double)tokens / cfg->pool_tokens;
        return;
    }
    out->mean = (double)n_full / (double)out->n_pools;
    out->used = (double)full_tokens / (double)out->n_pools / cfg->pool_tokens;
}
