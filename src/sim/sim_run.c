/* One run: check the arguments, set up policy and engine, collect the result. */
#include "sim/engine.h"

#define MAX_STEP_NS INT64_C(1000000000000)
#define MAX_TOKEN_NS INT64_C(1000000000)
#define NS_PER_S 1e9

static pkv_status check_policy_fields(const pkv_sim_config *cfg)
{
    const pkv_sim_policy *p = &cfg->policy;
    switch (p->kind) {
    case PKV_SIM_MAX:
    case PKV_SIM_POW2:
    case PKV_SIM_ORACLE:
        if (pkv__sim_addr_find(p->addr)) return PKV_OK;
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "policy: unknown allocator %d",
                           (int)p->addr);
    case PKV_SIM_PAGED:
        if (p->block_tokens < 1 || p->block_tokens > 1024)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "policy: %d tokens per block, expected 1 .. 1024", p->block_tokens);
        if (cfg->pool_tokens >= p->block_tokens) return PKV_OK;
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "a pool of %d slots has no room for a block of %d", cfg->pool_tokens,
                           p->block_tokens);
    case PKV_SIM_STATIC_BATCH:
    case PKV_SIM_ORCA_REAL:
    case PKV_SIM_VATTN:
        break;
    }
    return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "policy: unknown kind %d", (int)p->kind);
}

static bool in_range(const pkv_sim_config *cfg, const char *name, int64_t value, int64_t low,
                     int64_t high)
{
    if (value >= low && value <= high) return true;
    pkv__log(&cfg->log, PKV_LOG_ERROR, "%s is %lld, expected %lld .. %lld", name, (long long)value,
             (long long)low, (long long)high);
    return false;
}

static pkv_status check_config(const pkv_sim_config *cfg)
{
    const bool ok =
        in_range(cfg, "pool_tokens", cfg->pool_tokens, 1, INT32_MAX) &&
        in_range(cfg, "max_model_len", cfg->max_model_len, 1, 1 << 30) &&
        in_range(cfg, "max_num_seqs", cfg->max_num_seqs, 1, 1 << 20) &&
        in_range(cfg, "watermark_ppm", cfg->watermark_ppm, 0, 1000000) &&
        in_range(cfg, "step_base_ns", cfg->step_base_ns, 0, MAX_STEP_NS) &&
        in_range(cfg, "step_per_seq_ns", cfg->step_per_seq_ns, 0, MAX_STEP_NS) &&
        in_range(cfg, "step_per_token_ns", cfg->step_per_token_ns, 0, MAX_TOKEN_NS) &&
        in_range(cfg, "step_base_ns + step_per_seq_ns", cfg->step_base_ns + cfg->step_per_seq_ns, 1,
                 2 * MAX_STEP_NS) &&
        in_range(cfg, "engine", cfg->engine, PKV_SIM_LEAP, PKV_SIM_NAIVE) &&
        in_range(cfg, "window", cfg->window, PKV_SIM_WINDOW_AUTO, PKV_SIM_WINDOW_QUEUED);
    return ok ? check_policy_fields(cfg) : PKV_E_INVALID_ARG;
}

pkv_status pkv__sim_check_args(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    if (!cfg) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    if (n < 0 || n > INT32_MAX || (n > 0 && !reqs) || !pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "no requests, too many, or half an allocator");
    const pkv_status status = check_config(cfg);
    if (status != PKV_OK) return status;
    for (int64_t r = 0; r < n; r++) {
        if (reqs[r].prompt_tokens < 1 || reqs[r].output_tokens < 1 || reqs[r].arrival_ns < 0)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "request %lld: a length below 1 or a negative arrival",
                               (long long)r);
        if (r > 0 && reqs[r].arrival_ns < reqs[r - 1].arrival_ns)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "request %lld arrives before the one in front of it", (long long)r);
    }
    return PKV_OK;
}

static pkv_sim_window choose_window(const pkv_sim_config *cfg, const pkv_sim_request *reqs,
                                    int64_t n)
{
    if (cfg->window != PKV_SIM_WINDOW_AUTO) return cfg->window;
    const bool spread = n > 0 && reqs[n - 1].arrival_ns > reqs[0].arrival_ns;
    return spread ? PKV_SIM_WINDOW_ARRIVALS : PKV_SIM_WINDOW_QUEUED;
}

/* ---------------------------------------------------------------- set up and take down */

static size_t list_bytes(const pkv__sim_engine *e)
{
    return (size_t)e->cfg->max_num_seqs * sizeof(int64_t);
}

static void engine_deinit(pkv__sim_engine *e)
{
    const pkv_allocator *alloc = &e->cfg->alloc;
    if (e->policy) e->ops->destroy(e->policy);
    pkv__sim_heap_deinit(&e->events);
    pkv__free(alloc, e->due, list_bytes(e));
    pkv__free(alloc, e->fresh, list_bytes(e));
    pkv__free(alloc, e->preempted, list_bytes(e));
    pkv__free(alloc, e->req, (size_t)e->n * sizeof(pkv__sim_req));
}

static pkv_status engine_init(pkv__sim_engine *e, const pkv_sim_config *cfg,
                              const pkv_sim_request *reqs, int64_t n)
{
    const pkv_allocator *alloc = &cfg->alloc;
    *e = (pkv__sim_engine){
        .cfg = cfg, .reqs = reqs, .n = n, .head = -1, .tail = -1, .first_too_long = -1
    };
    e->ops = cfg->policy.kind == PKV_SIM_PAGED ? &pkv__sim_policy_paged : &pkv__sim_policy_contig;
    e->account.window = choose_window(cfg, reqs, n);
    e->account.window_end_ns = reqs[n - 1].arrival_ns;
    pkv_status status = PKV_E_NO_MEMORY;
    e->req = pkv__alloc(alloc, (size_t)n * sizeof(pkv__sim_req), _Alignof(pkv__sim_req));
    e->preempted = pkv__alloc(alloc, list_bytes(e), _Alignof(int64_t));
    e->fresh = pkv__alloc(alloc, list_bytes(e), _Alignof(int64_t));
    e->due = pkv__alloc(alloc, list_bytes(e), _Alignof(int64_t));
    if (!e->req || !e->preempted || !e->fresh || !e->due) goto fail;
    for (int64_t r = 0; r < n; r++) e->req[r] = (pkv__sim_req){ .first_token_ns = -1 };
    status = pkv__sim_heap_init(&e->events, cfg->max_num_seqs, n, alloc);
    if (status != PKV_OK) goto fail;
    status = e->ops->create(cfg, reqs, n, &e->policy);
    if (status != PKV_OK) goto fail;
    e->account.pool_units = cfg->pool_tokens * e->ops->units_per_slot(e->policy);
    return PKV_OK;

fail:
    engine_deinit(e);
    return status;
}

/* ---------------------------------------------------------------- result */

typedef enum latency_kind { LATENCY_E2E, LATENCY_NORM, LATENCY_TTFT, LATENCY_TPOT } latency_kind;

/* One latency of all finished requests that have it; `values` has room for all. */
static void latency_dist(const pkv__sim_engine *e, latency_kind kind, double *values,
                         pkv_sim_dist *out)
{
    int64_t n = 0;
    for (int64_t r = 0; r < e->n; r++) {
        const pkv__sim_req *q = &e->req[r];
        if (q->state != PKV__REQ_FINISHED) continue;
        const int32_t o = e->reqs[r].output_tokens;
        const double e2e = (double)(q->finish_ns - e->reqs[r].arrival_ns) / NS_PER_S;
        const double ttft = (double)(q->first_token_ns - e->reqs[r].arrival_ns) / NS_PER_S;
        switch (kind) {
        case LATENCY_E2E:
            values[n++] = e2e;
            break;
        case LATENCY_NORM:
            values[n++] = e2e / o;
            break;
        case LATENCY_TTFT:
            values[n++] = ttft;
            break;
        case LATENCY_TPOT:
            if (o >= 2)
                values[n++] = (double)(q->finish_ns - q->first_token_ns) / NS_PER_S / (o - 1);
            break;
        }
    }
    pkv_sim_dist_of(values, n, e->cfg->percentile_nearest, out);
}

static pkv_status collect(const pkv__sim_engine *e, pkv_sim_result *out)
{
    const size_t bytes = (size_t)e->n * sizeof(double);
    double *values = pkv__alloc(&e->cfg->alloc, bytes, _Alignof(double));
    if (!values) return PKV_E_NO_MEMORY;
    *out = (pkv_sim_result){
        .struct_size = sizeof(*out),
        .end_ns = e->now_ns,
        .n_requests = e->n,
        .n_finished = e->n_finished,
        .n_too_long = e->n_too_long,
        .first_too_long = e->first_too_long,
        .n_steps = e->n_steps,
        .n_admissions = e->n_admissions,
        .n_preemptions = e->n_preemptions,
        .n_preempted_requests = e->n_preempted_requests,
        .generated_tokens = e->generated_tokens,
        .recomputed_tokens = e->recomputed_tokens,
        .max_queue = e->max_queue,
        .max_batch = e->max_batch,
    };
    pkv__sim_account_result(&e->account, out);
    latency_dist(e, LATENCY_E2E, values, &out->e2e_s);
    latency_dist(e, LATENCY_NORM, values, &out->norm_s);
    latency_dist(e, LATENCY_TTFT, values, &out->ttft_s);
    latency_dist(e, LATENCY_TPOT, values, &out->tpot_s);
    pkv__free(&e->cfg->alloc, values, bytes);
    return PKV_OK;
}

pkv_status pkv_sim_run(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                       pkv_sim_result *out)
{
    pkv_status status = pkv__sim_check_args(cfg, reqs, n);
    if (status != PKV_OK) return status;
    if (!out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    if (n == 0) return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "a run needs a request");
    pkv__sim_engine e;
    status = engine_init(&e, cfg, reqs, n);
    if (status != PKV_OK) return status;
    status = pkv__engine_run(&e);
    if (status == PKV_OK && e.n_finished + e.n_too_long != n)
        status = pkv__refuse(&cfg->log, PKV_E_CORRUPT, "%lld of %lld requests are unaccounted for",
                             (long long)(n - e.n_finished - e.n_too_long), (long long)n);
    if (status == PKV_OK) status = collect(&e, out);
    engine_deinit(&e);
    return status;
}
