/* Paged placement: blocks to the host pool and back. The manager plans, the bytes are moved at
 * once, and the hold is posted and collected before the call returns. */
#include "model/placement_paged.h"
#include "pagedkv/moves.h"

/* The transfer of the open hold has ended so: the manager draws its conclusions now. */
static pkv_status end_hold(pkv__paged *p, pkv_hold hold, pkv_status result)
{
    pkv_hold_result done;
    int32_t n = 0;
    pkv_hold_post(p->mgr, hold, result);
    const pkv_status status = pkv_blockmgr_poll(p->mgr, 0, &done, 1, &n);
    PKV_ASSERT(status == PKV_OK && n == 1);
    return status == PKV_OK ? result : status;
}

/* Neighbours on the host go in one call. */
static pkv_status move_bytes(pkv__paged *p, bool out, int32_t n)
{
    pkv_status status = PKV_OK;
    for (int32_t i = 0; i < n; i++) p->move_ids[i] = p->moves[i].device;
    for (int32_t i = 0, end; i < n && status == PKV_OK; i = end) {
        for (end = i + 1; end < n && end - i < PKV__MOVES_AT_ONCE; end++)
            if (p->moves[end].host != p->moves[end - 1].host + 1) break;
        uint8_t *host = p->host_pool + (size_t)p->moves[i].host * p->base.block_bytes;
        status = out ? pkv_blocks_gather(p->backend, p->pool, p->base.block_bytes, p->n_blocks,
                                         p->move_ids + i, end - i, host, NULL)
                     : pkv_blocks_scatter(p->backend, host, p->move_ids + i, end - i, p->pool,
                                          p->base.block_bytes, p->n_blocks, NULL);
    }
    if (status == PKV_OK) p->n_swapped_bytes += (int64_t)n * (int64_t)p->base.block_bytes;
    return status;
}

/* Handles of the call. PKV_E_STALE, PKV_E_STATE: not all of them live so. */
static pkv_status take_handles(pkv__paged *p, const int32_t *seqs, int32_t n, pkv__life want)
{
    if (!seqs || n < 1 || n > p->max_seqs) return PKV_E_INVALID_ARG;
    for (int32_t i = 0; i < n; i++) {
        if (!pkv__is_number(p, seqs[i]) || p->lives[seqs[i]] == PKV__LIFE_NONE) return PKV_E_STALE;
        if (p->lives[seqs[i]] != want) return PKV_E_STATE;
        p->handles[i] = p->seqs[seqs[i]];
    }
    return PKV_OK;
}

/* Copy the row of a running sequence, as it is now. */
static void keep_row(pkv__paged *p, int32_t seq)
{
    int32_t n_ids = 0;
    const int32_t *ids = pkv__paged_row(&p->base, seq, &n_ids);
    PKV_ASSERT(n_ids >= pkv__n_held(p, seq));
    memcpy(pkv__parked_row(p, seq), ids, (size_t)pkv__n_held(p, seq) * sizeof(*ids));
}

/* What of the rows has moved to the host. */
static void park(pkv__paged *p, const int32_t *seqs, int32_t n, int32_t n_moves)
{
    for (int32_t i = 0; i < n_moves; i++) p->host_of[p->moves[i].device] = p->moves[i].host;
    for (int32_t i = 0; i < n; i++) {
        int32_t *row = pkv__parked_row(p, seqs[i]);
        for (int32_t at = 0; at < pkv__n_held(p, seqs[i]); at++)
            if (p->host_of[row[at]] != 0) row[at] = -p->host_of[row[at]];
        p->lives[seqs[i]] = PKV__LIFE_PARKED;
    }
    for (int32_t i = 0; i < n_moves; i++) p->host_of[p->moves[i].device] = 0;
}

pkv_status pkv__placement_swap_out(pkv__placement *base, const int32_t *seqs, int32_t n)
{
    pkv__paged *p = pkv__paged_of(base);
    pkv_hold hold = { 0 };
    int32_t n_moves = 0;
    if (p->n_host_blocks == 0) return PKV_E_UNSUPPORTED;
    pkv_status status = take_handles(p, seqs, n, PKV__LIFE_RUNNING);
    if (status != PKV_OK) return status;
    for (int32_t i = 0; i < n; i++) keep_row(p, seqs[i]);
    status = pkv_seqs_suspend(p->mgr, p->handles, n, PKV_DEADLINE_NEVER, p->moves,
                              pkv__min_i32(p->n_blocks, p->n_host_blocks), &n_moves, &hold);
    if (status != PKV_OK) return status;
    if (hold.v != 0) status = end_hold(p, hold, move_bytes(p, true, n_moves));
    if (status == PKV_OK) park(p, seqs, n, n_moves);
    return status;
}

/* Mark the host blocks of a parked row; how many were not marked. */
static int32_t mark_host(const pkv__paged *p, int32_t seq, uint32_t mark)
{
    const int32_t *row = pkv__parked_row(p, seq);
    int32_t n_new = 0;
    for (int32_t at = 0; at < pkv__n_held(p, seq); at++) {
        if (row[at] >= 0 || p->host_marks[-row[at]] == mark) continue;
        p->host_marks[-row[at]] = mark;
        n_new++;
    }
    return n_new;
}

static int32_t n_to_bring(const pkv__paged *p, const int32_t *seqs, int32_t n)
{
    const uint32_t mark = pkv__fresh_mark(p->host_marks, p->n_host_blocks);
    int32_t n_blocks = 0;
    for (int32_t i = 0; i < n; i++) n_blocks += mark_host(p, seqs[i], mark);
    return n_blocks;
}

int32_t pkv__paged_host_blocks(const pkv__paged *p)
{
    if (p->n_host_blocks == 0) return 0;
    const uint32_t mark = pkv__fresh_mark(p->host_marks, p->n_host_blocks);
    int32_t n_blocks = 0;
    for (int32_t i = 0; i < p->max_seqs; i++)
        if (p->lives[i] == PKV__LIFE_PARKED) n_blocks += mark_host(p, i, mark);
    return n_blocks;
}

pkv_status pkv__placement_swap_in(pkv__placement *base, const int32_t *seqs, int32_t n,
                                  int32_t watermark)
{
    pkv__paged *p = pkv__paged_of(base);
    pkv_hold hold = { 0 };
    int32_t n_moves = 0;
    if (p->n_host_blocks == 0) return PKV_E_UNSUPPORTED;
    if (watermark < 0) return PKV_E_INVALID_ARG;
    pkv_status status = take_handles(p, seqs, n, PKV__LIFE_PARKED);
    if (status != PKV_OK) return status;
    const pkv_blockmgr_stats_t s = pkv__paged_stats(p);
    if ((int64_t)n_to_bring(p, seqs, n) + watermark > (int64_t)s.free_blocks + s.cached_blocks)
        return PKV_E_NO_BLOCKS;
    status = pkv_seqs_resume(p->mgr, p->handles, n, PKV_DEADLINE_NEVER, p->moves,
                             pkv__min_i32(p->n_blocks, p->n_host_blocks), &n_moves, &hold);
    if (status != PKV_OK) return status;
    if (hold.v != 0) status = end_hold(p, hold, move_bytes(p, false, n_moves));
    if (status != PKV_OK) return status;
    for (int32_t i = 0; i < n; i++) p->lives[seqs[i]] = PKV__LIFE_RUNNING;
    return PKV_OK;
}

/* Mark the blocks of a sequence that lie on the device; how many were not marked. */
static int32_t mark_blocks(const pkv__paged *p, int32_t seq, uint32_t mark)
{
    const bool running = p->lives[seq] == PKV__LIFE_RUNNING;
    int32_t n = pkv__n_held(p, seq), n_row = 0, n_new = 0;
    const int32_t *row = running ? pkv__paged_row(&p->base, seq, &n_row) : pkv__parked_row(p, seq);
    for (int32_t at = 0; at < n; at++) {
        if (row[at] <= 0 || p->marks[row[at]] == mark) continue;
        p->marks[row[at]] = mark;
        n_new++;
    }
    return n_new;
}

size_t pkv__paged_swap_bytes(const pkv__placement *base, const int32_t *seqs, int32_t n)
{
    const pkv__paged *p = pkv__paged_in(base);
    const uint32_t mark = pkv__fresh_mark(p->marks, p->n_blocks);
    int32_t n_blocks = 0;
    for (int32_t i = 0; i < n; i++) p->is_given[seqs[i]] = 1;
    for (int32_t i = 0; i < p->max_seqs; i++) /* what others hold stays */
        if (p->lives[i] != PKV__LIFE_NONE && !p->is_given[i]) mark_blocks(p, i, mark);
    for (int32_t i = 0; i < n; i++) {
        p->is_given[seqs[i]] = 0;
        if (p->lives[seqs[i]] == PKV__LIFE_RUNNING) n_blocks += mark_blocks(p, seqs[i], mark);
    }
    return (size_t)n_blocks * base->block_bytes;
}
