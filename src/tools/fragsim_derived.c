/* Products and quotients of results: no function of libm, no sum of a product, so that every
 * compiler gives the same bits. */
#include "fragsim_derived.h"

#define NS_PER_S 1e9
#define ENTRY_BYTES 4.0

static double over(double value, double by)
{
    return by > 0 ? value / by : -1;
}

/* Mean entries: the blocks in use, and as many more as sharing saves. */
static void derive_tables(const fragsim_job *job, fragsim_derived *d)
{
    const pkv_sim_config *c = &job->cfg;
    const pkv_sim_result *r = &job->result;
    const double block = c->policy.block_tokens;
    const int64_t row =
        (c->max_model_len + (int64_t)c->policy.block_tokens - 1) / c->policy.block_tokens;
    if (r->window_ns > 0 && r->sharing_saving < 1) {
        const double used = (r->split.token + r->split.internal) * c->pool_tokens / block;
        d->table_entries = used / (1 - r->sharing_saving);
        d->table_bytes = d->table_entries * ENTRY_BYTES;
    }
    d->padded_bytes = (double)c->max_num_seqs * c->policy.n_seqs * (double)row * ENTRY_BYTES;
    d->table_share = ENTRY_BYTES / (block * (double)c->kv_bytes_per_token);
}

static void derive_rates(const fragsim_job *job, fragsim_derived *d)
{
    const pkv_sim_result *r = &job->result;
    const int64_t first_ns = job->cfg.concurrency > 0 ? 0 : job->reqs[0].arrival_ns;
    const double duration_s = (double)(r->end_ns - first_ns) / NS_PER_S;
    if (r->n_finished > 0 && r->end_ns > first_ns) {
        d->duration_s = duration_s;
        d->requests_per_s = (double)r->n_finished / duration_s;
        d->good_per_s = (double)r->n_good / duration_s;
        d->tokens_per_s = (double)r->generated_tokens / duration_s;
    }
    d->preemptions_per_admission = over((double)r->n_preemptions, (double)r->n_admissions);
    d->preempted_share = over((double)r->n_preempted_requests, (double)r->n_requests);
    d->recomputed_share = over((double)r->recomputed_tokens, (double)r->generated_tokens);
    d->hit_rate = over((double)r->hits.cached_tokens, (double)r->hits.prompt_tokens);
    d->block_hit_rate = over((double)r->hits.cached_blocks, (double)r->hits.prompt_blocks);
}

static void derive_waste(const fragsim_job *job, fragsim_derived *d)
{
    const pkv_sim_result *r = &job->result;
    if (r->window_ns == 0) return;
    const double pool_bytes = (double)job->cfg.pool_tokens * (double)job->cfg.kv_bytes_per_token;
    const double pool_byte_s = pool_bytes * ((double)r->window_ns / NS_PER_S);
    d->waste_byte_s = (1 - r->split.token) * pool_byte_s;
    d->waste_byte_s_per_request = over(d->waste_byte_s, (double)r->n_finished_window);
    d->waste_waited_byte_s = r->waste_waited * pool_byte_s;
}

void fragsim_derive(const fragsim_job *job, fragsim_derived *out)
{
    const pkv_sim_result *r = &job->result;
    const double token_bytes = (double)job->cfg.kv_bytes_per_token;
    const double block_bytes = token_bytes * job->cfg.policy.block_tokens;
    *out = (fragsim_derived){ -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                              -1, -1, -1, -1, -1, -1, -1, -1, -1 };
    derive_rates(job, out);
    derive_waste(job, out);
    if (job->cfg.policy.addr == PKV_SIM_ADDR_COMPACT)
        out->compacted_bytes = (double)r->compacted_tokens * token_bytes;
    if (job->cfg.policy.kind != PKV_SIM_PAGED) return;
    derive_tables(job, out);
    out->swapped_bytes = (double)r->swapped_blocks * block_bytes;
    out->copied_bytes = (double)r->copied_blocks * block_bytes;
}
