/* One run: check the arguments, set up policy and engine, collect the result. */
#include "sim/sim_engine.h"

#define NS_PER_S 1e9

static pkv_sim_window choose_window(const pkv_sim_config *cfg, const pkv_sim_request *reqs,
                                    int64_t n)
{
    if (cfg->window != PKV_SIM_WINDOW_AUTO) return cfg->window;
    if (cfg->concurrency > 0)
        return n > cfg->concurrency ? PKV_SIM_WINDOW_ARRIVALS : PKV_SIM_WINDOW_ALL;
    const bool spread = reqs[n - 1].arrival_ns > reqs[0].arrival_ns;
    return spread ? PKV_SIM_WINDOW_ARRIVALS : PKV_SIM_WINDOW_QUEUED;
}

static const pkv__sim_policy_ops *ops_of(pkv_sim_kind kind)
{
    switch (kind) {
    case PKV_SIM_MAX:
    case PKV_SIM_POW2:
    case PKV_SIM_ORACLE:
    case PKV_SIM_ORCA_REAL:
        return &pkv__sim_policy_contig;
    case PKV_SIM_PAGED:
        return &pkv__sim_policy_paged;
    case PKV_SIM_STATIC_BATCH:
        return &pkv__sim_policy_static;
    case PKV_SIM_VATTN:
        return &pkv__sim_policy_vattn;
    }
    return NULL;
}

/* ---------------------------------------------------------------- set up and take down */

/* Most requests that run at a time. */
static int32_t most_running(const pkv_sim_config *cfg, int64_t n)
{
    return n < cfg->max_num_seqs ? (int32_t)n : cfg->max_num_seqs;
}

static size_t batch_bytes(const pkv__sim_engine *e)
{
    return (size_t)most_running(e->cfg, e->n) * sizeof(int64_t);
}

static size_t req_bytes(const pkv__sim_engine *e)
{
    return (size_t)e->n * sizeof(pkv__sim_req);
}

static void engine_deinit(pkv__sim_engine *e)
{
    const pkv_allocator *alloc = &e->cfg->alloc;
    if (e->policy) e->ops->destroy(e->policy);
    pkv__watch_deinit(&e->watch, e->cfg);
    pkv__sim_ring_deinit(&e->events);
    pkv__free(alloc, e->due.r, batch_bytes(e));
    pkv__free(alloc, e->prefill.r, batch_bytes(e));
    pkv__free(alloc, e->fresh.r, batch_bytes(e));
    pkv__free(alloc, e->req, req_bytes(e));
}

/* Sets up everything but the policy. */
static pkv_status make_lists(pkv__sim_engine *e)
{
    const pkv_allocator *alloc = &e->cfg->alloc;
    const pkv__sim_list empty = { PKV__NOBODY, PKV__NOBODY, 0 };
    e->waiting = e->swapped = e->running = empty;
    e->req = pkv__alloc(alloc, req_bytes(e), _Alignof(pkv__sim_req));
    e->fresh.r = pkv__alloc(alloc, batch_bytes(e), _Alignof(int64_t));
    e->prefill.r = pkv__alloc(alloc, batch_bytes(e), _Alignof(int64_t));
    e->due.r = pkv__alloc(alloc, batch_bytes(e), _Alignof(int64_t));
    if (!e->req || !e->fresh.r || !e->prefill.r || !e->due.r) return PKV_E_NO_MEMORY;
    for (int64_t r = 0; r < e->n; r++)
        e->req[r] = (pkv__sim_req){ .first_token_ns = -1, .refused_epoch = -1 };
    const pkv_status status = pkv__sim_ring_init(&e->events, e->n, alloc);
    return status == PKV_OK ? pkv__watch_init(&e->watch, e->cfg) : status;
}

static int32_t resident_of(const void *engine, int64_t r)
{
    return pkv__engine_resident(engine, r);
}

static pkv_status engine_init(pkv__sim_engine *e, const pkv_sim_config *cfg,
                              const pkv_sim_request *reqs, int64_t n,
                              const pkv__sim_policy_ops *ops)
{
    *e = (pkv__sim_engine){
        .cfg = cfg,
        .reqs = reqs,
        .n = n,
        .ops = ops,
        .n_seqs = pkv__sim_n_seqs(&cfg->policy),
        .last_to_run = PKV__NOBODY,
        .tried_epoch = -1,
        .n_events_seen = -1,
        .first_too_long = -1,
    };
    e->account.window = choose_window(cfg, reqs, n);
    e->account.window_end_ns = cfg->concurrency > 0 ? INT64_MAX : reqs[n - 1].arrival_ns;
    pkv_status status = make_lists(e);
    if (status == PKV_OK) status = e->ops->create(cfg, reqs, n, &e->policy);
    if (status != PKV_OK) {
        engine_deinit(e);
        return status;
    }
    if (e->ops->connect) e->ops->connect(e->policy, e, resident_of);
    e->has_places = e->ops->has_places(e->policy);
    e->account.pool_units = cfg->pool_tokens * e->ops->units_per_slot(e->policy);
    return PKV_OK;
}

/* ---------------------------------------------------------------- result */

typedef enum latency_kind {
    LATENCY_E2E,
    LATENCY_NORM,
    LATENCY_TTFT,
    LATENCY_TPOT,
    LATENCY_RESIDENCE
} latency_kind;

/* In seconds; false: a request with o output tokens has no such latency. */
static bool latency_of(const pkv__sim_req *q, int32_t o, latency_kind kind, double *value)
{
    const double e2e = (double)(q->finish_ns - q->arrival_ns) / NS_PER_S;
    switch (kind) {
    case LATENCY_E2E:
        *value = e2e;
        return true;
    case LATENCY_NORM:
        if (o < 1) return false;
        *value = e2e / o;
        return true;
    case LATENCY_TTFT:
        *value = (double)(q->first_token_ns - q->arrival_ns) / NS_PER_S;
        return true;
    case LATENCY_TPOT:
        if (o < 2) return false;
        *value = (double)(q->finish_ns - q->first_token_ns) / NS_PER_S / (o - 1);
        return true;
    case LATENCY_RESIDENCE:
        *value = (double)q->residence_ns / NS_PER_S;
        return true;
    }
    return false;
}

/* One latency of all finished requests that have it; `values` has room for all. */
static void latency_dist(const pkv__sim_engine *e, latency_kind kind, double *values,
                         pkv_sim_dist *out)
{
    int64_t n = 0;
    for (int64_t r = 0; r < e->n; r++) {
        const pkv__sim_req *q = &e->req[r];
        if (q->state == PKV__REQ_FINISHED &&
            latency_of(q, e->reqs[r].output_tokens, kind, &values[n]))
            n++;
    }
    pkv_sim_dist_of(values, n, e->cfg->percentile_nearest, out);
}

/* Does it meet every limit? A latency it does not have breaks none. */
static bool is_good(const pkv_sim_config *cfg, const pkv__sim_req *q, int32_t o)
{
    const int64_t e2e = q->finish_ns - q->arrival_ns, ttft = q->first_token_ns - q->arrival_ns;
    if (cfg->slo_ttft_ns > 0 && ttft > cfg->slo_ttft_ns) return false;
    if (cfg->slo_tpot_ns > 0 && e2e - ttft > (pkv__i128)cfg->slo_tpot_ns * (o - 1) && o >= 2)
        return false;
    return cfg->slo_norm_ns == 0 || o == 0 || e2e <= (pkv__i128)cfg->slo_norm_ns * o;
}

static int64_t count_good(const pkv__sim_engine *e)
{
    int64_t n = 0;
    for (int64_t r = 0; r < e->n; r++)
        n += e->req[r].state == PKV__REQ_FINISHED &&
             is_good(e->cfg, &e->req[r], e->reqs[r].output_tokens);
    return n;
}

static pkv_status collect(const pkv__sim_engine *e, pkv_sim_result *out)
{
    const size_t bytes = (size_t)e->n * sizeof(double);
    double *values = pkv__alloc(&e->cfg->alloc, bytes, _Alignof(double));
    if (!values) return PKV_E_NO_MEMORY;
    *out = (pkv_sim_result){
        .struct_size = sizeof(*out),
        .end_ns = e->end_ns,
        .n_requests = e->n,
        .n_finished = e->n_finished,
        .n_finished_window = e->n_finished_window,
        .n_too_long = e->n_too_long,
        .first_too_long = e->first_too_long,
        .n_steps = e->n_steps,
        .n_events = e->n_events,
        .n_admissions = e->n_admissions,
        .n_preemptions = e->n_preemptions,
        .n_preempted_requests = e->n_preempted_requests,
        .generated_tokens = e->generated_tokens,
        .recomputed_tokens = e->recomputed_tokens,
        .max_queue = e->max_queue,
        .max_batch = e->max_batch,
        .n_swaps = e->n_swaps,
        .move_ns = e->move_ns,
        .prefill_ns = e->prefill_ns,
        .n_good = count_good(e),
    };
    pkv__sim_account_result(&e->account, out);
    e->ops->result(e->policy, out);
    latency_dist(e, LATENCY_E2E, values, &out->e2e_s);
    latency_dist(e, LATENCY_NORM, values, &out->norm_s);
    latency_dist(e, LATENCY_TTFT, values, &out->ttft_s);
    latency_dist(e, LATENCY_TPOT, values, &out->tpot_s);
    latency_dist(e, LATENCY_RESIDENCE, values, &out->residence_s);
    pkv__free(&e->cfg->alloc, values, bytes);
    return PKV_OK;
}

pkv_status pkv__sim_run_policy(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                               const pkv__sim_policy_ops *ops, pkv_sim_result *out)
{
    pkv__sim_engine e;
    pkv_status status = engine_init(&e, cfg, reqs, n, ops);
    if (status != PKV_OK) return status;
    status = pkv__engine_run(&e);
    if (status == PKV_OK && e.n_finished + e.n_too_long != n)
        status = pkv__refuse(&cfg->log, PKV_E_CORRUPT, "%lld of %lld requests are unaccounted for",
                             (long long)(n - e.n_finished - e.n_too_long), (long long)n);
    if (status == PKV_OK) status = collect(&e, out);
    engine_deinit(&e);
    return status;
}

pkv_status pkv_sim_run(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                       pkv_sim_result *out)
{
    pkv_status status = pkv__sim_check_args(cfg, reqs, n);
    if (status != PKV_OK) return status;
    if (!out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    if (n == 0) return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "a run needs a request");
    status = pkv__sim_check_extras(cfg, reqs, n);
    if (status != PKV_OK) return status;
    const pkv__sim_policy_ops *ops = ops_of(cfg->policy.kind);
    if (ops) return pkv__sim_run_policy(cfg, reqs, n, ops, out);
    return pkv__refuse(&cfg->log, PKV_E_UNSUPPORTED, "policy: kind %d is not there",
                       (int)cfg->policy.kind);
}
