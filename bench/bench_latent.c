/* Latent attention (MLA, absorbed form): decode over rows of 512 latent and 64 rotary bf16
 * elements, 16 query heads. Bound by arithmetic: every element read serves all heads.
 *
 *   row     [ latent 4 x 128 ][ rotary 64 ]    1,152 bytes, one per token
 *   paged   [block][64 tokens] in random order; contiguous: one region per sequence */
#include "attention_lists.h"

#include "attention_reference.h"
#include "bandwidth.h"
#include "half_floats.h"

#include "pagedkv/attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define H_Q 16
#define PARTS 4
#define PART 128
#define LATENT (PARTS * PART)
#define ROPE 64
#define ROW (LATENT + ROPE)
#define BLOCK_TOKENS 64
#define SCALE 0.07216878f /* 1 / sqrt(128 + 64): of the model before absorption */
#define ROUNDS 4000000    /* of the arithmetic loop */

struct latent {
    struct bench_run *run;
    bool small;
    int32_t n_seqs, n_keys;
    pkv_backend *backend;
    struct bench_team *team;
    struct peak_loop loop;
    double weights; /* relative rounding of weights by the kernel that runs */
    struct bench_region paged, contiguous;
    struct layout_table table;
    int32_t *kv_len;
    uint16_t *q, *q_rope, *out; /* [n_seqs][H_Q][LATENT], [ROPE] */
    void *workspace;
    size_t workspace_bytes;
    pkv_status status;
};

static pkv_tensor3 tensor(const struct latent *m, uint16_t *data, int32_t dim)
{
    return (pkv_tensor3){ data, PKV_BF16, H_Q, dim, m->n_seqs, (int64_t)H_Q * dim, dim };
}

static pkv_kv_view view_of(const struct latent *m, bool paged, bool rope)
{
    const int32_t block_tokens = paged ? BLOCK_TOKENS : m->n_keys;
    pkv_kv_view view;
    memset(&view, 0, sizeof(view));
    view.data = (uint16_t *)(paged ? m->paged.base : m->contiguous.base) + (rope ? LATENT : 0);
    view.dtype = PKV_BF16;
    view.n_blocks = paged ? m->table.n_blocks : m->n_seqs;
    view.block_tokens = block_tokens;
    view.n_heads = rope ? 1 : PARTS;
    view.dim = rope ? ROPE : PART;
    view.block_stride = (int64_t)block_tokens * ROW;
    view.token_stride = ROW;
    view.head_stride = rope ? ROPE : PART;
    return view;
}

static void attend(struct latent *m, bool paged)
{
    const pkv_tensor3 q = tensor(m, m->q, LATENT), q_rope = tensor(m, m->q_rope, ROPE);
    const pkv_kv_view latent = view_of(m, paged, false), rope = view_of(m, paged, true);
    pkv_tensor3 out = tensor(m, m->out, LATENT);
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    opts.scale = SCALE;
    batch.n_seqs = m->n_seqs;
    batch.kv_len = m->kv_len;
    batch.table = paged ? m->table.ids : NULL;
    batch.table_stride = m->table.stride;
    const pkv_status status =
        pkv_attn_mla_run(m->backend, &q, &q_rope, &latent, &rope, &batch, &opts, m->workspace,
                         m->workspace_bytes, NULL, &out, NULL);
    if (m->status == PKV_OK) m->status = status;
}

static void call_paged(void *ctx)
{
    attend(ctx, true);
}

static void call_contiguous(void *ctx)
{
    attend(ctx, false);
}

static void arithmetic_part(void *ctx, int32_t i, int32_t n)
{
    const struct latent *m = ctx;
    (void)i;
    (void)n;
    m->loop.run(ROUNDS);
}

static void call_arithmetic(void *ctx)
{
    struct latent *m = ctx;
    bench_team_run(m->team, arithmetic_part, m);
}

/* ---------------------------------------------------------------- correctness */

static const uint16_t *row_of(const struct latent *m, int32_t seq, int32_t token)
{
    return (const uint16_t *)m->contiguous.base + ((int64_t)seq * m->n_keys + token) * ROW;
}

static void compare(const struct latent *m, int32_t seq, int32_t head,
                    const struct attention_row *row, struct bench_correct *out)
{
    const struct attention_rounding rounding = { false, m->weights };
    for (int32_t d = 0; d < LATENT; d++) {
        const double got = number_get(m->out, PKV_BF16, (int64_t)(seq * H_Q + head) * LATENT + d);
        const double bound = attention_bound(row, d, m->n_keys, ROW, PKV_BF16, &rounding);
        const double error = fabs(got - row->out[d]);
        out->max_abs = fmax(out->max_abs, error);
        out->bound_used = fmax(out->bound_used, error / bound);
        if (error <= bound || !out->ok) continue;
        out->ok = false;
        snprintf(out->text, sizeof(out->text),
                 "sequence %d head %d dim %d is %.9g, should be %.9g +- %.2g", seq, head, d, got,
                 row->out[d], bound);
    }
}

/* One head of the first and of the last sequence, by the definition: keys are whole rows, values
 * their latent part. */
static bool check_sequences(const struct latent *m, struct bench_correct *out,
                            struct bench_error *err)
{
    const size_t n = (size_t)m->n_keys;
    double *numbers = bench_calloc(n * (2 * (ROW + LATENT) + 1) + 3 * LATENT, sizeof(double), err);
    if (!numbers) return false;
    double *k = numbers, *k_size = k + n * ROW, *v = k_size + n * ROW, *v_size = v + n * LATENT;
    struct attention_row row = { .scores = v_size + n * LATENT };
    row.out = row.scores + n;
    row.vbar = row.out + LATENT;
    row.vmax = row.vbar + LATENT;
    for (int i = 0; i < 2; i++) {
        const int32_t seq = i ? m->n_seqs - 1 : 0, head = i ? H_Q - 1 : 3;
        const struct attention_keys keys = { k, k_size, v, v_size, (int64_t)n, ROW, LATENT };
        const int64_t q_at = seq * H_Q + head;
        float q[ROW];
        for (int32_t d = 0; d < ROW; d++)
            q[d] = d < LATENT ? number_get(m->q, PKV_BF16, q_at * LATENT + d)
                              : number_get(m->q_rope, PKV_BF16, q_at * ROPE + d - LATENT);
        for (int32_t t = 0; t < m->n_keys; t++)
            for (int32_t d = 0; d < ROW; d++) {
                const double x = number_get(row_of(m, seq, t), PKV_BF16, d);
                k[t * ROW + d] = x;
                k_size[t * ROW + d] = fabs(x);
                if (d >= LATENT) continue;
                v[t * LATENT + d] = x;
                v_size[t * LATENT + d] = fabs(x);
            }
        attention_reference(q, &keys, (double)SCALE, &row);
        compare(m, seq, head, &row, out);
    }
    free(numbers);
    return true;
}

static bool latent_check(struct bench_case *b, struct bench_run *run, int32_t side, bool timed,
                         struct bench_correct *out, struct bench_error *err)
{
    struct latent *m = b->ctx;
    (void)run;
    if (b->sides[side].yardstick) {
        out->ok = true;
        return true;
    }
    out->checked = out->ok = out->has_errors = true;
    if (!timed) m->status = PKV_OK;
    memset(m->out, 0xff, (size_t)m->n_seqs * H_Q * LATENT * 2);
    b->sides[side].call(m);
    if (m->status == PKV_OK) return check_sequences(m, out, err);
    out->ok = false;
    snprintf(out->text, sizeof(out->text), "%s", pkv_status_name(m->status));
    return true;
}

/* ---------------------------------------------------------------- setup */

static void fill(struct latent *m)
{
    struct bench_rng rng = { m->run->options->seed ^ 0x6d6c61u };
    uint16_t numbers[4093];
    for (int i = 0; i < BENCH_LEN(numbers); i++) {
        double sum = -6;
        for (int k = 0; k < 12; k++) sum += bench_rng_unit(&rng);
        numbers[i] = bfloat_from_float((float)sum);
    }
    uint16_t *to = m->contiguous.base;
    for (int64_t i = 0; i < (int64_t)m->n_seqs * m->n_keys * ROW; i++)
        to[i] = numbers[i % BENCH_LEN(numbers)];
    memset(m->paged.base, 0xff, m->paged.bytes);
    for (int32_t b = 0; b < m->n_seqs; b++)
        for (int32_t t = 0; t < m->n_keys; t++) {
            const int64_t id = m->table.ids[b * m->table.stride + t / BLOCK_TOKENS];
            memcpy((uint16_t *)m->paged.base + (id * BLOCK_TOKENS + t % BLOCK_TOKENS) * ROW,
                   row_of(m, b, t), ROW * 2);
        }
    for (int32_t i = 0; i < m->n_seqs * H_Q * LATENT; i++)
        m->q[i] = numbers[bench_rng_below(&rng, BENCH_LEN(numbers))];
    for (int32_t i = 0; i < m->n_seqs * H_Q * ROPE; i++)
        m->q_rope[i] = numbers[bench_rng_below(&rng, BENCH_LEN(numbers))];
    for (int32_t b = 0; b < m->n_seqs; b++) m->kv_len[b] = m->n_keys;
}

static void latent_teardown(struct bench_case *b)
{
    struct latent *m = b->ctx;
    const bool small = m->small;
    bench_region_unmap(&m->paged);
    bench_region_unmap(&m->contiguous);
    layout_free(&m->table);
    free(m->kv_len);
    free(m->q);
    free(m->q_rope);
    free(m->out);
    free(m->workspace);
    memset(m, 0, sizeof(*m));
    m->small = small;
}

static bool make_memory(struct latent *m, struct bench_error *err)
{
    struct bench_rng rng = { m->run->options->seed };
    const size_t rows = (size_t)m->n_seqs * H_Q;
    const bool huge = m->run->options->huge_pages;
    m->kv_len = bench_calloc((size_t)m->n_seqs, sizeof(*m->kv_len), err);
    m->q = aligned_alloc(64, rows * LATENT * 2);
    m->q_rope = aligned_alloc(64, rows * ROPE * 2);
    m->out = aligned_alloc(64, rows * LATENT * 2);
    m->workspace = aligned_alloc(64, (m->workspace_bytes + 63) / 64 * 64);
    if (!m->kv_len || !m->q || !m->q_rope || !m->out || !m->workspace)
        return bench_fail(err, BENCH_USAGE, "no memory for latent attention");
    for (int32_t b = 0; b < m->n_seqs; b++) m->kv_len[b] = m->n_keys;
    return layout_build(LAYOUT_PAGED_RANDOM, m->kv_len, m->n_seqs, BLOCK_TOKENS, 3, &rng, &m->table,
                        err) &&
           bench_region_map(&m->paged, (size_t)m->table.n_blocks * BLOCK_TOKENS * ROW * 2, huge,
                            err) &&
           bench_region_map(&m->contiguous, (size_t)m->n_seqs * (size_t)m->n_keys * ROW * 2, huge,
                            err);
}

/* The function that runs, and whether it rounds weights to bf16. */
static void name_kernel(struct latent *m, struct bench_case *b)
{
    pkv_kernel_desc k = { .struct_size = sizeof(k) };
    for (int32_t i = 0; pkv_kernel_info(m->backend, i, &k) == PKV_OK; i++) {
        if (k.op != PKV_OP_ATTENTION_MLA) continue;
        m->weights = k.isa == PKV_ISA_AVX512BF16 || k.isa == PKV_ISA_AMX ? 0x1p-8 : 0;
        for (int32_t s = 0; s < b->n_sides; s++)
            if (!b->sides[s].yardstick) snprintf(b->sides[s].note, 120, "%s", k.name);
        return;
    }
}

static bool latent_setup(struct bench_case *b, struct bench_run *run, struct bench_error *err)
{
    struct latent *m = b->ctx;
    m->run = run;
    m->n_seqs = m->small ? 2 : 16;
    m->n_keys = m->small ? 150 : 2048;
    m->backend = bench_engines_backend(&run->engines, run->options->isa, run->threads, err);
    m->team = bench_engines_team(&run->engines, run->threads, err);
    if (!m->backend || !m->team) return false;
    bandwidth_peak(run->options->isa, &m->loop);
    const pkv_status status =
        pkv_attn_mla_workspace(m->backend, H_Q, LATENT, ROPE, &m->workspace_bytes);
    if (status != PKV_OK)
        return bench_fail(err, BENCH_SKIP, "no latent attention: %s", pkv_status_name(status));
    if (!make_memory(m, err)) {
        latent_teardown(b);
        return false;
    }
    fill(m);
    name_kernel(m, b);
    for (int32_t i = 0; i < b->n_sides; i++) {
        struct bench_side *s = &b->sides[i];
        s->flops = s->yardstick ? (double)ROUNDS * m->loop.flops * run->threads
                                : 2.0 * m->n_seqs * m->n_keys * H_Q * (ROW + LATENT);
    }
    return true;
}

/* ---------------------------------------------------------------- definition */

static struct bench_side *add_side(struct bench_case *b, int32_t threads, const char *id,
                                   const char *label, void (*call)(void *))
{
    struct bench_side *s = bench_case_call_side(b, threads, id, label, call);
    bench_side_param(s, "heads", "%d/1", H_Q);
    bench_side_param(s, "head_dim", "%d+%d", LATENT, ROPE);
    bench_side_param(s, "kv_dtype", "bf16");
    return s;
}

bool attention_list_latent(const struct bench_options *o, struct case_list *list,
                           struct bench_error *err)
{
    const int32_t threads = bench_threads(o, machine_cpus());
    struct bench_case *b = case_list_add(list, err);
    struct latent *m = bench_calloc(1, sizeof(*m), err);
    if (!b || !m) {
        free(m);
        return false;
    }
    b->ctx = m;
    m->small = o->profile == PROFILE_CI;
    b->group = GROUP_KERNEL;
    b->setup = latent_setup;
    b->check = latent_check;
    b->teardown = latent_teardown;
    attention_sampler(o, b);
    snprintf(b->id, sizeof(b->id), "kernel/mla-%s/16x1/d512+64/bf16",
             m->small ? "2q1s150" : "16q1s2k");
    snprintf(b->versus, sizeof(b->versus), "contiguous");
    add_side(b, threads, "contiguous", "contiguous", call_contiguous)->baseline = true;
    struct bench_side *paged =
        add_side(b, threads, "paged-random/b64", "paged-random B=64", call_paged);
    snprintf(paged->layout, sizeof(paged->layout), "paged-random");
    struct bench_side *yard = add_side(b, threads, "fma-loop", "FMA loop", call_arithmetic);
    yard->yardstick = yard->no_ratio = true;
    return true;
}
