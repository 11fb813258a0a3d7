/* What prompts and outputs say, as token ids for the block manager, and what was found of them. */
#include "sim/paged.h"

pkv_status pkv__paged_check_token_ids(const pkv__paged *p)
{
    const int64_t n_distinct = p->cfg->content ? p->cfg->content->n_distinct : 0;
    if (n_distinct + p->n * (1 + (int64_t)p->n_seqs) <= INT32_MAX) return PKV_OK;
    return pkv__refuse(&p->cfg->log, PKV_E_LIMIT,
                       "%lld content ids and %lld requests of %d sequences are more than 2^31 "
                       "- 1 different tokens; use fewer requests",
                       (long long)n_distinct, (long long)p->n, p->n_seqs);
}

/* ids[from .. upto) = id; positions count from `origin`. */
static void fill(int32_t *ids, int32_t origin, int32_t from, int32_t upto, int32_t id)
{
    for (int32_t pos = from; pos < upto; pos++) ids[pos - origin] = id;
}

void pkv__paged_fill_ids(const pkv__paged *p, int64_t r, int32_t k, int32_t from, int32_t upto,
                         int32_t *ids)
{
    const pkv_sim_content *c = p->cfg->content;
    const int32_t n_distinct = c ? c->n_distinct : 0;
    const int32_t prompt = p->reqs[r].prompt_tokens;
    int32_t pos = from;
    if (c) {
        const int32_t *known = c->ids + c->first[r];
        for (int32_t at = pos / c->block_tokens; at < c->n_ids[r] && pos < upto; at++) {
            const int64_t block_end = (int64_t)(at + 1) * c->block_tokens;
            int32_t end = pkv__min_i32(prompt, upto);
            if (block_end < end) end = (int32_t)block_end;
            fill(ids, from, pos, end, known[at]);
            pos = pkv__max_i32(pos, end);
        }
    }
    const int32_t own_end = pkv__min_i32(prompt, upto);
    fill(ids, from, pos, own_end, (int32_t)(n_distinct + r));
    pos = pkv__max_i32(pos, own_end);
    fill(ids, from, pos, upto, (int32_t)(n_distinct + p->n + r * p->n_seqs + k));
}

void pkv__paged_note_found(pkv__paged *p, int64_t r, int32_t u, int32_t cached)
{
    if (!p->prefix) return;
    if (p->found[r] < 0) {
        p->found[r] = cached;
        return;
    }
    p->again_tokens += u;
    p->again_cached += cached;
}

void pkv__paged_hits(const pkv__paged *p, pkv_sim_hits *out)
{
    pkv_sim_hits hits = { .again_tokens = p->again_tokens, .again_cached = p->again_cached };
    double sum = 0;
    int64_t n = 0;
    for (int64_t r = 0; p->prefix && r < p->n; r++) {
        if (p->found[r] < 0) continue;
        const int32_t prompt = p->reqs[r].prompt_tokens;
        n++;
        sum += (double)p->found[r] / prompt;
        hits.prompt_tokens += prompt;
        hits.cached_tokens += p->found[r];
        hits.prompt_blocks += prompt / p->block_tokens;
        hits.cached_blocks += p->found[r] / p->block_tokens;
    }
    hits.mean_rate = n > 0 ? sum / (double)n : 0;
    *out = hits;
}
