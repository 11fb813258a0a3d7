/* What the lengths alone say, without simulating: see pkv_sim_forms. */
#include "sim/sim_internal.h"

typedef struct length_sums {
    int64_t n;
    pkv__i128 prompt, output;
    pkv__i128 output2; /* sum of o^2 */
    pkv__i128 live;    /* sum over the o steps of the resident tokens: o*i + o*(o-1)/2 */
    pkv__i128 final;   /* sum of o * (i + o) */
    pkv__i128 blocks;  /* sum over the o steps of ceil((i + t) / B), t = 1 .. o */
    pkv__i128 shared;  /* and of floor(i / B): blocks that all sequences of a request share */
} length_sums;

/* Sum of ceil(x / B) over x = 1 .. n. */
static pkv__i128 sum_of_ceilings(int64_t n, int64_t block)
{
    const int64_t whole = n / block, rest = n % block;
    return (pkv__i128)block * whole * (whole + 1) / 2 + rest * (whole + 1);
}

static length_sums sum_lengths(const pkv_sim_request *reqs, int64_t n, int32_t max_model_len,
                               int64_t block)
{
    length_sums s = { 0 };
    for (int64_t r = 0; r < n; r++) {
        const int64_t i = reqs[r].prompt_tokens, o = reqs[r].output_tokens;
        if (o < 1 || i + o > max_model_len) continue;
        s.n++;
        s.prompt += i;
        s.output += o;
        s.output2 += o * o;
        s.live += o * i + o * (o - 1) / 2;
        s.final += o * (i + o);
        s.blocks += sum_of_ceilings(i + o, block) - sum_of_ceilings(i, block);
        s.shared += o * (i / block);
    }
    return s;
}

/* Chunks of 2^ceil(log2 M) in the roots of a buddy pool. */
static int64_t buddy_batch(int64_t pool, int64_t max_model_len)
{
    int64_t chunk = 1, n = 0;
    while (chunk < max_model_len) chunk *= 2;
    for (int64_t root = INT64_C(1) << 31; root >= chunk; root /= 2)
        if (pool & root) n += root / chunk;
    return n;
}

pkv_status pkv_sim_closed_forms(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                                pkv_sim_forms *out)
{
    const pkv_status status = pkv__sim_check_args(cfg, reqs, n);
    if (status != PKV_OK) return status;
    if (!out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;

    const int64_t block = cfg->policy.kind == PKV_SIM_PAGED ? cfg->policy.block_tokens : 16;
    const length_sums s = sum_lengths(reqs, n, cfg->max_model_len, block);
    *out = (pkv_sim_forms){ .struct_size = sizeof(*out), .n = s.n };
    if (s.n == 0) return PKV_OK;
    const double pool = cfg->pool_tokens, limit = cfg->max_model_len, output = (double)s.output;
    out->mean_prompt = (double)s.prompt / (double)s.n;
    out->mean_output = output / (double)s.n;
    out->output_bias = (double)s.output2 / output;
    out->live_tokens = (double)s.live / output;
    out->live_final = (double)s.final / output;

    out->max_batch_buddy = buddy_batch(cfg->pool_tokens, cfg->max_model_len);
    out->max_batch_ideal = cfg->pool_tokens / cfg->max_model_len;
    const double batch = (double)out->max_batch_buddy;
    pkv_sim_split *m = &out->max_split;
    m->token = batch * out->live_tokens / pool;
    m->reservation = batch * (out->live_final - out->live_tokens) / pool;
    m->internal = batch * (limit - out->live_final) / pool;
    m->external = 1 - batch * limit / pool;

    out->oracle_ideal_batch = pool / out->live_final;
    out->block_tokens = (int32_t)block;
    out->n_seqs = pkv__sim_n_seqs(&cfg->policy);
    const int64_t usable = cfg->pool_tokens / block;
    const int64_t kept = usable * cfg->watermark_ppm / 1000000 * block;
    /* (B + 1) / 2 and not (B - 1) / 2: the slot of the step in progress is already taken. */
    const double spare = (double)(block + 1) / 2;
    out->paged_batch = (pool - (double)kept) / (out->live_tokens + spare);
    out->paged_internal = out->paged_batch * spare / pool;

    const double n_seqs = out->n_seqs;
    out->fork_saving = (n_seqs - 1) * (double)s.shared / (n_seqs * (double)s.blocks);
    return PKV_OK;
}
