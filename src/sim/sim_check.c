/* What a run refuses: fields out of range, parts of a policy that do not go together, requests out
 * of order, content that does not suit them. Every message names the field and what would do. */
#include "sim/sim_internal.h"

#define MAX_STEP_NS INT64_C(1000000000000)
#define MAX_TOKEN_NS INT64_C(1000000000)
#define MAX_SEQS (1 << 20)
#define MAX_MODEL_LEN (1 << 30)
#define MAX_GROUP 64
#define MAX_BLOCK 1024
#define MAX_CELLS 4096
#define PPM 1000000

static bool in_range(const pkv_sim_config *cfg, const char *name, int64_t value, int64_t low,
                     int64_t high)
{
    if (value >= low && value <= high) return true;
    pkv__log(&cfg->log, PKV_LOG_ERROR, "%s is %lld, expected %lld .. %lld", name, (long long)value,
             (long long)low, (long long)high);
    return false;
}

static bool refuse(const pkv_sim_config *cfg, const char *why)
{
    pkv__log(&cfg->log, PKV_LOG_ERROR, "%s", why);
    return false;
}

/* ---------------------------------------------------------------- the policy */

static bool paged_fields_valid(const pkv_sim_config *cfg)
{
    const pkv_sim_policy *p = &cfg->policy;
    if (!in_range(cfg, "policy.block_tokens", p->block_tokens, 1, MAX_BLOCK) ||
        !in_range(cfg, "policy.group", (int64_t)p->group, PKV_SIM_GROUP_NONE, PKV_SIM_GROUP_BEAM))
        return false;
    const int32_t most = p->group == PKV_SIM_GROUP_NONE ? 1 : MAX_GROUP;
    if (!in_range(cfg, "policy.n_seqs", p->n_seqs, 1, most) ||
        !in_range(cfg, "policy.switch_ppm", p->switch_ppm, 0, PPM))
        return false;
    if (cfg->pool_tokens >= p->block_tokens) return true;
    pkv__log(&cfg->log, PKV_LOG_ERROR, "a pool of %d slots has no room for a block of %d",
             cfg->pool_tokens, p->block_tokens);
    return false;
}

static bool vattn_fields_valid(const pkv_sim_config *cfg)
{
    const int64_t page = cfg->policy.page_bytes;
    if (page != 65536 && page != 131072 && page != 262144 && page != 2097152) {
        pkv__log(&cfg->log, PKV_LOG_ERROR,
                 "policy.page_bytes is %lld, expected 65536, 131072, 262144 or 2097152",
                 (long long)page);
        return false;
    }
    const int64_t pool = (int64_t)cfg->pool_tokens * cfg->tensor_token_bytes;
    if (pool >= page) return true;
    pkv__log(&cfg->log, PKV_LOG_ERROR,
             "a pool of %lld bytes per tensor has no room for a page of %lld", (long long)pool,
             (long long)page);
    return false;
}

static bool policy_valid(const pkv_sim_config *cfg)
{
    const pkv_sim_policy *p = &cfg->policy;
    if (!in_range(cfg, "policy.kind", (int64_t)p->kind, PKV_SIM_MAX, PKV_SIM_VATTN)) return false;
    if (p->kind == PKV_SIM_PAGED) return paged_fields_valid(cfg);
    if (p->group != PKV_SIM_GROUP_NONE || p->n_seqs != 1)
        return refuse(cfg, "policy: several sequences per request are of paged only; without a "
                           "group n_seqs is 1");
    if (p->prefix || p->swap) return refuse(cfg, "policy: prefix and swap are of paged only");
    if (p->kind == PKV_SIM_VATTN) return vattn_fields_valid(cfg);
    if (p->kind == PKV_SIM_ORCA_REAL)
        return in_range(cfg, "policy.max_tokens", p->max_tokens, 0, MAX_MODEL_LEN);
    if (pkv__sim_addr_find(p->addr)) return true;
    pkv__log(&cfg->log, PKV_LOG_ERROR, "policy: unknown allocator %d", (int)p->addr);
    return false;
}

/* ---------------------------------------------------------------- the config */

static bool step_valid(const pkv_sim_config *cfg)
{
    return in_range(cfg, "step_base_ns", cfg->step_base_ns, 0, MAX_STEP_NS) &&
           in_range(cfg, "step_per_seq_ns", cfg->step_per_seq_ns, 0, MAX_STEP_NS) &&
           in_range(cfg, "step_per_token_ns", cfg->step_per_token_ns, 0, MAX_TOKEN_NS) &&
           in_range(cfg, "step_base_ns + step_per_seq_ns", cfg->step_base_ns + cfg->step_per_seq_ns,
                    1, 2 * MAX_STEP_NS);
}

static bool scheduling_valid(const pkv_sim_config *cfg)
{
    if (!in_range(cfg, "concurrency", cfg->concurrency, 0, MAX_SEQS) ||
        !in_range(cfg, "max_batched_tokens", cfg->max_batched_tokens, 0, INT32_MAX) ||
        !in_range(cfg, "prefill_chunk", cfg->prefill_chunk, 0, INT32_MAX) ||
        !in_range(cfg, "prefill_tokens_per_s", cfg->prefill_tokens_per_s, 0, INT64_MAX))
        return false;
    if (cfg->max_batched_tokens == 0 || cfg->prefill_chunk > 0 ||
        cfg->max_batched_tokens >= cfg->max_model_len)
        return true;
    pkv__log(&cfg->log, PKV_LOG_ERROR,
             "max_batched_tokens is %d, below max_model_len %d: raise it, or set prefill_chunk",
             cfg->max_batched_tokens, cfg->max_model_len);
    return false;
}

static bool moves_valid(const pkv_sim_config *cfg)
{
    return in_range(cfg, "kv_bytes_per_token", cfg->kv_bytes_per_token, 1, INT32_MAX) &&
           in_range(cfg, "tensor_token_bytes", cfg->tensor_token_bytes, 1, INT32_MAX) &&
           in_range(cfg, "swap_tokens", cfg->swap_tokens, 0, INT32_MAX) &&
           in_range(cfg, "swap_bytes_per_s", cfg->swap_bytes_per_s, 0, INT64_MAX) &&
           in_range(cfg, "copy_latency_ns", cfg->copy_latency_ns, 0, MAX_STEP_NS) &&
           in_range(cfg, "compact_bytes_per_s", cfg->compact_bytes_per_s, 0, INT64_MAX);
}

static bool measures_valid(const pkv_sim_config *cfg)
{
    return in_range(cfg, "engine", (int64_t)cfg->engine, PKV_SIM_LEAP, PKV_SIM_NAIVE) &&
           in_range(cfg, "window", (int64_t)cfg->window, PKV_SIM_WINDOW_AUTO,
                    PKV_SIM_WINDOW_QUEUED) &&
           in_range(cfg, "slo_ttft_ns", cfg->slo_ttft_ns, 0, INT64_MAX) &&
           in_range(cfg, "slo_tpot_ns", cfg->slo_tpot_ns, 0, INT64_MAX) &&
           in_range(cfg, "slo_norm_ns", cfg->slo_norm_ns, 0, INT64_MAX);
}

static bool config_valid(const pkv_sim_config *cfg)
{
    return in_range(cfg, "pool_tokens", cfg->pool_tokens, 1, INT32_MAX) &&
           in_range(cfg, "max_model_len", cfg->max_model_len, 1, MAX_MODEL_LEN) &&
           in_range(cfg, "max_num_seqs", cfg->max_num_seqs, 1, MAX_SEQS) &&
           in_range(cfg, "watermark_ppm", cfg->watermark_ppm, 0, PPM) && step_valid(cfg) &&
           scheduling_valid(cfg) && moves_valid(cfg) && measures_valid(cfg) && policy_valid(cfg);
}

/* ---------------------------------------------------------------- requests and what they say */

static pkv_status check_requests(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    for (int64_t r = 0; r < n; r++) {
        if (reqs[r].prompt_tokens < 1 || reqs[r].output_tokens < 0)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "request %lld: %d prompt and %d output tokens, expected at "
                               "least 1 and 0",
                               (long long)r, reqs[r].prompt_tokens, reqs[r].output_tokens);
        if (cfg->concurrency > 0) continue; /* nobody looks at the arrivals */
        if (reqs[r].arrival_ns < 0)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "request %lld arrives at a negative time", (long long)r);
        if (r > 0 && reqs[r].arrival_ns < reqs[r - 1].arrival_ns)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "request %lld arrives before the one in front of it; sort "
                               "them by arrival",
                               (long long)r);
    }
    return PKV_OK;
}

pkv_status pkv__sim_check_args(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    if (!cfg) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    if (n < 0 || n > INT32_MAX || (n > 0 && !reqs) || !pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "no requests, too many, or half an allocator");
    return config_valid(cfg) ? check_requests(cfg, reqs, n) : PKV_E_INVALID_ARG;
}

static pkv_status check_observer(const pkv_sim_config *cfg)
{
    const pkv_sim_observer *o = cfg->observer;
    if (!o) return PKV_OK;
    if (o->struct_size != sizeof(*o)) return PKV_E_ABI;
    if (!o->on_sample) return PKV_OK;
    const bool valid =
        in_range(cfg, "observer.sample_interval_ns", o->sample_interval_ns, 1, INT64_MAX) &&
        in_range(cfg, "observer.map_cells", o->map_cells, 0, MAX_CELLS);
    return valid ? PKV_OK : PKV_E_INVALID_ARG;
}

pkv_status pkv__sim_check_ids(const pkv_sim_content *c, int64_t r, int32_t prompt_tokens,
                              const pkv_logger *log)
{
    const int32_t most = pkv__ceil_div_i32(prompt_tokens, c->block_tokens);
    if (c->n_ids[r] < 0 || c->n_ids[r] > most)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "content: request %lld has %d ids, its %d prompt tokens have "
                           "room for %d of %d tokens",
                           (long long)r, c->n_ids[r], prompt_tokens, most, c->block_tokens);
    if (c->n_ids[r] > 0 && (!c->ids || c->first[r] < 0))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "content: the ids of request %lld are nowhere",
                           (long long)r);
    for (int64_t k = 0; k < c->n_ids[r]; k++) {
        const int32_t id = c->ids[c->first[r] + k];
        if (id < 0 || id >= c->n_distinct)
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "content: id %d of request %lld, expected 0 .. %d", id, (long long)r,
                               c->n_distinct - 1);
    }
    return PKV_OK;
}

static pkv_status check_content(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    const pkv_sim_content *c = cfg->content;
    if (!c) return PKV_OK;
    if (c->block_tokens < 1 || c->n_distinct < 0 || !c->first || !c->n_ids)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "content: no lists, or %d tokens per id and %d ids, expected at least "
                           "1 and 0",
                           c->block_tokens, c->n_distinct);
    for (int64_t r = 0; r < n; r++) {
        const pkv_status status = pkv__sim_check_ids(c, r, reqs[r].prompt_tokens, &cfg->log);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

pkv_status pkv__sim_check_extras(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    const pkv_status status = check_observer(cfg);
    return status == PKV_OK ? check_content(cfg, reqs, n) : status;
}
