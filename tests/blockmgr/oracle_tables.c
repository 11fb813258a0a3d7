/* See oracle.h: what a batch shares, and rows as a kernel sees them (blockmgr_tables.h). */
#include "oracle_blocks.h"

static bool is_kv_group(const oracle *o, int32_t g)
{
    return g >= 0 && g < o->G && !or_is_state(o, g);
}

pkv_status or_seqs_common(oracle *o, const pkv_seq *h, int32_t n, int32_t g, int32_t *n_blocks)
{
    if (n < 0 || !is_kv_group(o, g)) return PKV_E_INVALID_ARG;
    for (int i = 0; i < n; i++)
        if (!or_seq_of(o, h[i])) return PKV_E_STALE;
    for (int i = 0; i < n; i++)
        if (or_seq_of(o, h[i])->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    *n_blocks = 0;
    for (bool same = n > 0; same; *n_blocks += same) {
        const int at = *n_blocks, b = or_seq_of(o, h[0])->row[g][at];
        for (int i = 0; i < n; i++) {
            const or_seq *s = or_seq_of(o, h[i]);
            same = same && b && s->row[g][at] == b &&
                   (at + 1) * o->grp[g].block_tokens <= s->committed;
        }
    }
    return PKV_OK;
}

/* Status of everything but lengths; *local: the manager's block on one rank. */
static pkv_status judge_view(oracle *o, pkv_seq h, int32_t g, const pkv_kernel_view *v, int *local)
{
    if (v->struct_size != sizeof *v) return PKV_E_ABI;
    if (!is_kv_group(o, g)) return PKV_E_INVALID_ARG;
    const int t = o->grp[g].block_tokens;
    if (v->cp_size < 1 || v->cp_interleave < 1 || v->kernel_tokens < 0) return PKV_E_INVALID_ARG;
    if (v->cp_rank < 0 || v->cp_rank >= v->cp_size) return PKV_E_INVALID_ARG;
    if (t % ((int64_t)v->cp_size * v->cp_interleave)) return PKV_E_INVALID_ARG;
    *local = t / v->cp_size;
    if (v->kernel_tokens && *local % v->kernel_tokens) return PKV_E_INVALID_ARG;
    const or_seq *s = or_seq_of(o, h);
    if (!s) return PKV_E_STALE;
    return s->state == PKV_SEQ_RUNNING ? PKV_OK : PKV_E_STATE;
}

/* Slot of token p inside its block on the view's rank; -1: another rank's. Found by counting. */
static int place_of(const pkv_kernel_view *v, int t, int p)
{
    int place = 0;
    for (int q = p - p % t; q < p; q++) place += q / v->cp_interleave % v->cp_size == v->cp_rank;
    return p / v->cp_interleave % v->cp_size == v->cp_rank ? place : -1;
}

pkv_status or_view_slots(oracle *o, pkv_seq h, int32_t g, const pkv_kernel_view *v, int32_t first,
                         int32_t n, int64_t *slots)
{
    int local;
    pkv_status st = judge_view(o, h, g, v, &local);
    if (st == PKV_E_ABI) return st;
    if (st == PKV_E_INVALID_ARG || first < 0 || n < 0) return PKV_E_INVALID_ARG;
    if (st != PKV_OK) return st;
    const or_seq *s = or_seq_of(o, h);
    const int t = o->grp[g].block_tokens;
    if (n > s->reserved - first) return PKV_E_INVALID_ARG;
    for (int i = 0; i < n; i++) {
        const int b = s->row[g][(first + i) / t], place = place_of(v, t, first + i);
        slots[i] = b && place >= 0 ? (int64_t)b * local + place : -1;
    }
    return PKV_OK;
}

pkv_status or_view_row(oracle *o, pkv_seq h, int32_t g, const pkv_kernel_view *v, int32_t *ids,
                       int32_t cap, int32_t *n, int32_t *n_local)
{
    int local;
    pkv_status st = judge_view(o, h, g, v, &local);
    if (st == PKV_E_ABI) return st;
    if (st == PKV_E_INVALID_ARG || cap < 0) return PKV_E_INVALID_ARG;
    if (st != PKV_OK) return st;
    const or_seq *s = or_seq_of(o, h);
    const int k = v->kernel_tokens ? local / v->kernel_tokens : 1;
    *n = k * s->n_row[g];
    if (cap < *n) return PKV_E_LIMIT;
    for (int i = 0; i < *n; i++) ids[i] = s->row[g][i / k] ? s->row[g][i / k] * k + i % k : 0;
    *n_local = 0;
    for (int p = 0; p < s->committed; p++) *n_local += place_of(v, o->grp[g].block_tokens, p) >= 0;
    return PKV_OK;
}
