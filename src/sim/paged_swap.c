/* The swap space: a host tier of the block manager. A victim's sequences move together; the copy is
 * over at once as far as the manager is concerned, its time is charged to the step. Blocks that
 * requests outside share stay in the pool. */
#include "sim/paged.h"

#define NS_PER_S 1000000000
#define LATEST_NS (INT64_C(1) << 62)

typedef pkv_status (*swap_call)(pkv_blockmgr *mgr, const pkv_seq *seqs, int32_t n,
                                uint64_t deadline, pkv_swap_copy *copies, int32_t cap,
                                int32_t *n_copies, pkv_hold *hold);

/* The open sequences in order of their rows, as the manager wants them: it is the order in which
 * their blocks are released. shadows[] are their numbers in the model. */
static pkv_status in_row_order(const pkv__paged *p, const pkv__paged_run *run, pkv_seq *seqs,
                               int32_t *shadows)
{
    int32_t rows[PKV__PAGED_MAX_SEQS];
    for (int32_t k = 0; k < run->n_open; k++) {
        const pkv__paged_seq *s = &pkv__paged_seqs_of(p, run)[k];
        pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
        const pkv_status status = pkv_seq_info(p->mgr, s->seq, &info);
        if (status != PKV_OK) return status;
        int32_t at = k;
        for (; at > 0 && rows[at - 1] > info.row_idx; at--) {
            rows[at] = rows[at - 1];
            seqs[at] = seqs[at - 1];
            shadows[at] = shadows[at - 1];
        }
        rows[at] = info.row_idx;
        seqs[at] = s->seq;
        shadows[at] = s->shadow;
    }
    return PKV_OK;
}

/* Move the sequences and say that the copy is done; *n_moved blocks. */
static pkv_status move_now(pkv__paged *p, swap_call call, const pkv_seq *seqs, int32_t n,
                           int32_t *n_moved)
{
    pkv_hold hold;
    p->mute = true;
    pkv_status status =
        call(p->mgr, seqs, n, PKV_DEADLINE_NEVER, p->swap_copies, p->swap_cap, n_moved, &hold);
    p->mute = false;
    if (status != PKV_OK || hold.v == 0) return status;
    pkv_hold_post(p->mgr, hold, PKV_OK);
    pkv_hold_result done;
    int32_t n_done;
    return pkv_blockmgr_poll(p->mgr, 0, &done, 1, &n_done);
}

static pkv_status differs(const pkv__paged *p, const pkv__paged_run *run, const char *what,
                          int32_t got, int32_t want)
{
    if (got == want) return PKV_OK;
    return pkv__refuse(&p->cfg->log, PKV_E_CORRUPT,
                       "request %lld: %d blocks moved %s the swap space, expected %d",
                       (long long)run->r, got, what, want);
}

pkv_status pkv__paged_suspend(void *self, int64_t r, int32_t u)
{
    pkv__paged *p = self;
    pkv__paged_run *run = pkv__paged_run_of(p, r);
    if (p->n_host_blocks == 0) return PKV_E_NO_BLOCKS;
    pkv_seq seqs[PKV__PAGED_MAX_SEQS];
    int32_t shadows[PKV__PAGED_MAX_SEQS], n_moved;
    pkv_status status = pkv__paged_commit(p, run, u);
    if (status == PKV_OK) status = in_row_order(p, run, seqs, shadows);
    if (status == PKV_OK) status = move_now(p, pkv_seqs_suspend, seqs, run->n_open, &n_moved);
    if (status != PKV_OK) return status;
    run->suspended = true;
    run->n_host = n_moved;
    run->reserved = run->committed;
    run->n_blocks += pkv__paged_refresh(p);
    pkv__paged_recount(p, run);
    p->n_moved += n_moved;
    p->n_swapped += n_moved;
    p->n_running--;
    p->n_suspended++;
    if (!p->cfg->check) return PKV_OK;
    return differs(p, run, "to", n_moved, pkv__shadow_suspend(&p->shadow, shadows, run->n_open));
}

/* Bring back what is in the swap space. */
static pkv_status bring_back(pkv__paged *p, pkv__paged_run *run)
{
    pkv_seq seqs[PKV__PAGED_MAX_SEQS];
    int32_t shadows[PKV__PAGED_MAX_SEQS], n_moved;
    pkv_status status = in_row_order(p, run, seqs, shadows);
    if (status == PKV_OK) status = move_now(p, pkv_seqs_resume, seqs, run->n_open, &n_moved);
    if (status != PKV_OK) return status;
    status = differs(p, run, "from", n_moved, run->n_host);
    if (status != PKV_OK) return status;
    run->n_host = 0;
    run->n_blocks += pkv__paged_refresh(p);
    p->n_moved += n_moved;
    p->n_swapped += n_moved;
    p->claims++;
    if (!p->cfg->check) return PKV_OK;
    return differs(p, run, "from", n_moved, pkv__shadow_resume(&p->shadow, shadows, run->n_open));
}

pkv_status pkv__paged_resume(void *self, int64_t r, int32_t u, bool pool_is_empty, bool *lost,
                             int32_t *cached)
{
    pkv__paged *p = self;
    pkv__paged_run *run = pkv__paged_run_of(p, r);
    const int32_t keep = pool_is_empty ? 0 : p->watermark;
    pkv_status status = PKV_OK;
    *lost = run->n_open == 0;
    if (*lost) {
        status = pkv__paged_start(p, run, u, keep, cached);
        while (status == PKV_E_NO_BLOCKS && pool_is_empty && pkv__paged_give_up(p, r) == PKV_OK)
            status = pkv__paged_start(p, run, u, keep, cached);
    } else {
        while (run->n_host > pkv__paged_room(p) - keep) {
            if (!pool_is_empty) return PKV_E_NO_BLOCKS;
            status = pkv__paged_give_up(p, r);
            if (status != PKV_OK) return status;
        }
        status = bring_back(p, run);
    }
    if (status != PKV_OK) return status;
    run->suspended = false;
    p->n_suspended--;
    p->n_running++;
    pkv__paged_recount(p, run);
    return PKV_OK;
}

pkv_status pkv__paged_give_up(pkv__paged *p, int64_t spared)
{
    pkv__paged_run *latest = NULL;
    for (int32_t k = 0; k < p->n_places; k++) {
        pkv__paged_run *run = &p->runs[k];
        if (run->r < 0 || run->r == spared || !run->suspended || run->n_blocks == 0) continue;
        if (!latest || run->r > latest->r) latest = run;
    }
    return latest ? pkv__paged_close(p, latest) : PKV_E_NO_BLOCKS;
}

void pkv__paged_take_costs(void *self, pkv__sim_costs *costs)
{
    pkv__paged *p = self;
    const pkv_sim_config *cfg = p->cfg;
    *costs = (pkv__sim_costs){ 0 };
    if (p->n_moved == 0) return;
    pkv__i128 ns = (pkv__i128)p->n_moved * cfg->copy_latency_ns;
    const pkv__i128 bytes = (pkv__i128)p->n_moved * p->block_tokens * cfg->kv_bytes_per_token;
    const int64_t rate = cfg->swap_bytes_per_s;
    if (rate > 0) ns += (bytes * NS_PER_S + rate - 1) / rate;
    costs->ns = ns < LATEST_NS ? (int64_t)ns : LATEST_NS;
    p->n_moved = 0;
}
