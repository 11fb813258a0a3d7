/* What must not change one bit: threads, who runs them, company, its order, which rows of a
 * sequence come in one call. */
#include "attn_instance.h"
#include "check_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Runs tasks backwards, or each on a thread of its own. */
struct runner {
    bool at_once;
};

struct one_task {
    void (*task)(void *ctx, int32_t i);
    void *ctx;
    int32_t i;
};

static void *run_task(void *arg)
{
    const struct one_task *t = arg;
    t->task(t->ctx, t->i);
    return NULL;
}

static void parallel_for(void *ctx, int32_t n_tasks, void (*task)(void *task_ctx, int32_t i),
                         void *task_ctx)
{
    const struct runner *r = ctx;
    enum { MAX = 64 };
    pthread_t threads[MAX];
    struct one_task tasks[MAX];
    int32_t started = 0;
    for (int32_t i = n_tasks - 1; i >= 0; i--) {
        if (!r->at_once || started == MAX) {
            task(task_ctx, i);
            continue;
        }
        tasks[started] = (struct one_task){ task, task_ctx, i };
        if (pthread_create(&threads[started], NULL, run_task, &tasks[started]) == 0) started++;
        else task(task_ctx, i);
    }
    for (int32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

static pkv_backend *backend(struct check *c, int32_t n_threads, struct runner *runner)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.max_isa = c->isa;
    cfg.n_threads = n_threads;
    cfg.spin_us = rng_chance(&c->rng, 50) ? -1 : 20;
    if (runner) {
        cfg.parallel_for = parallel_for;
        cfg.parallel_ctx = runner;
    }
    const pkv_status status = pkv_backend_create_cpu(&cfg, &be);
    CHECK(c, status == PKV_OK, "a backend of %d threads: %s", n_threads, pkv_status_name(status));
    CHECK(c, !be || pkv_backend_threads(be) == n_threads, "%d threads, not %d",
          pkv_backend_threads(be), n_threads);
    return be;
}

/* Work enough that sequences, heads, rows and chunks of one sequence go to different tasks. */
static struct attn_problem draw(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_draw_ragged(c);
    p.with_q_indptr = true;
    if (rng_chance(r, 50)) {
        p.n_seqs = rng_int(r, 1, 2);
        p.k_dim = p.v_dim = 8 * rng_int(r, 1, 8);
        p.n_kv_heads = rng_int(r, 1, 2);
        p.n_q_heads = p.n_kv_heads * rng_int(r, 1, 4);
        p.kv_len[0] = rng_int(r, 1000, 5000);
        p.q_len[0] = rng_chance(r, 70) ? rng_int(r, 1, 3) : rng_int(r, 33, 40);
    }
    attn_draw_options(c, &p, rng_int(r, 0, 2));
    return p;
}

/* Any number of threads, own ones or the caller's, is the calling thread alone. */
static void threads(struct check *c)
{
    static const int32_t counts[] = { 2, 3, 7, 2, 3, 7, 1 };
    if (check_on_device(c)) check_stop(c, "a device has no threads of its own");
    struct attn_problem p = draw(c);
    struct attn_result first = { 0 }, other = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    struct runner runner = { c->seed % 2 };
    pkv_backend *const alone = c->be;
    attn_fill(c, &p);
    attn_try(c, &p, &layout, &first);
    for (int i = 0; i < 7 && !c->failed; i++) {
        struct attn_instance inst;
        c->be = backend(c, counts[i], i >= 3 ? &runner : NULL);
        attn_build(c, &p, &layout, &inst);
        const pkv_status status = attn_call(c, &inst, &other);
        CHECK(c, status == PKV_OK, "%d threads: %s", counts[i], pkv_status_name(status));
        attn_same_bits(c, &p, &first, &other, NULL, i >= 3 ? "parallel_for" : "threads");
        attn_result_free(&other);
        attn_destroy(&inst);
        pkv_backend_destroy(c->be);
        c->be = alone;
    }
    attn_result_free(&first);
    attn_free(&p);
}

/* Sequences of `p` in another order, or some of them. Not to be freed but for q, q_pos and mask. */
static struct attn_problem reordered(const struct attn_problem *p, const int32_t *order, int32_t n)
{
    struct attn_problem o = *p;
    const size_t q_row = (size_t)(p->n_q_heads * attn_q_dim(p)) * sizeof(float);
    const size_t mask_row = (size_t)p->mask_words * sizeof(uint32_t);
    o.n_seqs = n;
    for (int32_t i = 0; i < n; i++) {
        const struct attn_problem one = attn_alone(p, order[i]);
        o.q_len[i] = one.q_len[0];
        o.kv_len[i] = one.kv_len[0];
        o.pos0[i] = one.pos0[0];
        o.k[i] = one.k[0];
        o.v[i] = one.v[0];
        o.k_scale.of[i] = one.k_scale.of[0];
        o.k_zero.of[i] = one.k_zero.of[0];
        o.v_scale.of[i] = one.v_scale.of[0];
        o.v_zero.of[i] = one.v_zero.of[0];
        o.shared_with[i] = -1;
    }
    attn_lay_rows(&o);
    o.q = malloc((size_t)o.n_rows * q_row + 1);
    if (p->q_pos) o.q_pos = malloc((size_t)o.n_rows * sizeof(int32_t) + 1);
    if (p->mask) o.mask = malloc((size_t)o.n_rows * mask_row + 1);
    for (int32_t i = 0; i < n; i++) {
        const struct attn_problem one = attn_alone(p, order[i]);
        const size_t at = (size_t)o.row0[i], rows = (size_t)one.n_rows;
        memcpy((char *)o.q + at * q_row, one.q, rows * q_row);
        if (o.q_pos) memcpy(o.q_pos + at, one.q_pos, rows * sizeof(int32_t));
        if (o.mask) memcpy((char *)o.mask + at * mask_row, one.mask, rows * mask_row);
    }
    return o;
}

/* KT19: 64 sequences; each alone, with some others, and in other orders. */
static void company(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_usual(c);
    struct attn_result all = { 0 }, some = { 0 };
    p.q_dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    p.n_kv_heads = rng_int(r, 1, 2);
    p.n_q_heads = p.n_kv_heads * rng_int(r, 1, 4);
    p.k_dim = p.v_dim = 8 * rng_int(r, 1, 4);
    p.block_tokens = rng_int(r, 1, 20);
    p.n_seqs = 64;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(r, 0, 40);
        p.q_len[b] = rng_chance(r, 70) ? 1 : rng_int(r, 0, rng_chance(r, 10) ? 40 : 4);
    }
    attn_draw_scales(c, &p);
    attn_make_invariant(c, &p);
    attn_draw_options(c, &p, rng_int(r, 0, 2));
    attn_fill(c, &p);
    struct attn_layout layout = attn_draw_layout(c);
    attn_try(c, &p, &layout, &all);
    for (int i = 0; i < 6 && !c->failed; i++) {
        int32_t order[64];
        const int32_t n = i == 0 ? 64 : i < 3 ? 1 : rng_int(r, 2, 63);
        rng_permutation(r, order, 64);
        struct attn_problem o = reordered(&p, order, n);
        layout = attn_draw_layout(c);
        attn_try(c, &o, &layout, &some);
        for (int32_t s = 0; s < n; s++) {
            const struct attn_result part = attn_part(&o, &some, o.row0[s]);
            attn_same_part(c, &p, &all, p.row0[order[s]], &part, o.q_len[s], "company");
        }
        attn_result_free(&some);
        free(o.q);
        free(o.q_pos);
        free(o.mask);
    }
    attn_result_free(&all);
    attn_free(&p);
}

/* Rows of one sequence in one call or in several, as long as all are short, or all long. */
static void rows_apart(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_usual(c);
    struct attn_result all = { 0 }, some = { 0 };
    const bool is_long = c->seed % 2;
    p.q_dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    p.n_kv_heads = rng_int(r, 1, 2);
    p.n_q_heads = p.n_kv_heads * rng_int(r, 1, is_long ? 4 : 6);
    p.k_dim = 8 * rng_int(r, 1, 12);
    p.v_dim = rng_chance(r, 60) ? p.k_dim : 8 * rng_int(r, 1, 12);
    const int32_t most = (check_on_device(c) ? 16 : 32) / (p.n_q_heads / p.n_kv_heads);
    p.q_len[0] = is_long ? rng_int(r, 70, 140) : rng_int(r, 1, most);
    p.kv_len[0] = p.q_len[0] + rng_int(r, 0, rng_chance(r, 40) ? 2100 : 100);
    p.block_tokens = (const int32_t[]){ 1, 7, 16, 48, 64, 100, 256 }[rng_int(r, 0, 6)];
    attn_draw_scales(c, &p);
    static const enum attn_option options[] = { OPTION_WINDOW, OPTION_SOFTCAP, OPTION_ALIBI,
                                                OPTION_SINK,   OPTION_SCALE,   OPTION_INT8_QK };
    if (rng_chance(r, 60)) attn_draw_option(c, &p, options[rng_int(r, 0, 5)]);
    if (c->seed % 3) attn_make_invariant(c, &p);
    attn_fill(c, &p);
    const struct attn_layout layout = attn_draw_layout(c);
    attn_try(c, &p, &layout, &all);
    for (int32_t from = 0; from < p.q_len[0] && !c->failed;) {
        int32_t n = is_long ? rng_int(r, 33, 50) : rng_int(r, 1, most);
        if (from + n > p.q_len[0] || (is_long && p.q_len[0] - from - n < 33)) n = p.q_len[0] - from;
        struct attn_problem part = attn_some_rows(&p, 0, from, from + n);
        attn_try(c, &part, &layout, &some);
        if (!check_on_device(c) || p.opts.invariant)
            attn_same_part(c, &p, &all, from, &some, n, "other rows in the call");
        attn_result_free(&some);
        from += n;
    }
    attn_result_free(&all);
    attn_free(&p);
}

const struct check_case attn_thread_cases[] = {
    { "attention", "threads", threads, 14, 3, TYPED_STORES },
    { "attention", "company", company, 6, 1, TYPED_STORES },
    { "attention", "rows_apart", rows_apart, 14, 3, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
