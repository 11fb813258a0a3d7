/* Carry out a call of attention: share its items among tasks, fold states, finish rows.
 *
 *   items    s0 s0 s0 s0 | s1 s1 s1 s2 s2 | s2 s2 s3 s4 ...      pieces of equal cost
 *
 * Tasks take pieces in order, each the next one that nobody has. A span that lies in one piece is
 * folded as it goes, in two states of the task. One that borders cut, as s2 here, is put together
 * at the end: the piece where it begins leaves what it has folded, the pieces behind leave every
 * state for itself, in slots that follow each other, and a second pass folds them in order. The
 * order of folding is thus the same however the list is cut, and so is every bit.
 *
 *   workspace   pieces | reports of tasks | per task: two states, scratch | slots
 *
 * The slots are few, so that the workspace does not grow with the batch: where they do not suffice,
 * a border moves on to where they do. Equal shares of a flat list: arXiv 2405.10480. */
#include "common/threads.h"
#include "kernels/attn_fold.h"
#include "kernels/attn_pieces.h"
#include "kernels/mla_units.h"

#include <stdatomic.h>
#include <string.h>

/* Slots for this many states of one row of all heads: a cut through 256 Ki keys of one sequence. */
enum { SLOT_STATES = 256 };

struct layout {
    size_t reports, tasks, slots, total; /* offsets; the pieces are at 0 */
    size_t task_bytes, state_bytes, slots_floats;
};

static struct layout lay_out(int32_t n_tasks, size_t state_floats, size_t scratch_bytes,
                             size_t slots_floats)
{
    struct layout l = { 0 };
    const size_t n = (size_t)n_tasks;
    l.state_bytes = state_floats * sizeof(float);
    l.task_bytes = 2 * l.state_bytes + scratch_bytes;
    l.slots_floats = slots_floats;
    l.reports =
        pkv__align_up(n * PKV__PIECES_PER_TASK * sizeof(struct pkv__attn_piece), PKV_CACHE_LINE);
    l.tasks = l.reports + n * PKV_CACHE_LINE;
    l.slots = l.tasks + n * l.task_bytes;
    l.total = l.slots + l.slots_floats * sizeof(float);
    return l;
}

static struct layout attn_layout(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                                 int32_t k_dim, int32_t v_dim)
{
    const size_t slots = be->n_tasks > 1 ? SLOT_STATES * pkv__state_floats(n_q_heads, v_dim) : 0;
    return lay_out(be->n_tasks,
                   pkv__state_floats(pkv__attn_unit_states(n_q_heads, n_kv_heads), v_dim),
                   pkv__attn_scratch_bytes(n_q_heads, n_kv_heads, k_dim, v_dim), slots);
}

size_t pkv__attn_work_bytes(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                            int32_t k_dim, int32_t v_dim)
{
    return attn_layout(be, n_q_heads, n_kv_heads, k_dim, v_dim).total;
}

/* Latent attention has whole kernels alone: no states. */
static struct layout mla_layout(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                                int32_t rope_dim)
{
    return lay_out(be->n_tasks, 0, pkv__mla_scratch_bytes(n_q_heads, latent_dim, rope_dim), 0);
}

size_t pkv__mla_work_bytes(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                           int32_t rope_dim)
{
    return mla_layout(be, n_q_heads, latent_dim, rope_dim).total;
}

/* One call, shared by its tasks. */
struct work {
    const pkv_backend *be;
    const struct pkv__attn_call *call; /* whose list of items this is */
    const struct pkv__attn_kernel *only;
    const struct pkv__mla_call *mla; /* NULL: attention; else `call` is the list of its units */
    char *workspace;
    struct layout at;
    struct pkv__attn_grain grain;
    int32_t n_tasks, n_pieces;
    const struct pkv__attn_piece *pieces;
    float *slots;
    atomic_int next; /* piece that nobody has */
};

/* One task. Its walk goes over a call of its own, because of the report. */
struct task {
    const struct work *work;
    struct pkv__attn_call call;
    struct pkv__attn_walk walk;
    float *folded, *chunk; /* two states */
    void *scratch;
};

static void begin_task(struct task *t, const struct work *work, int32_t i)
{
    char *own = work->workspace + work->at.tasks + (size_t)i * work->at.task_bytes;
    t->work = work;
    t->call = *work->call;
    t->call.bad = (uint32_t *)(work->workspace + work->at.reports + (size_t)i * PKV_CACHE_LINE);
    t->walk = (struct pkv__attn_walk){
        .call = &t->call, .kernels = &work->be->kernels, .only = work->only, .grain = work->grain
    };
    t->folded = (float *)own;
    t->chunk = (float *)(own + work->at.state_bytes);
    t->scratch = own + 2 * work->at.state_bytes;
}

static struct pkv__attn_state state_at(const struct task *t, float *floats)
{
    return pkv__state_at(floats, pkv__attn_walk_states(&t->walk), t->call.v->dim);
}
static size_t state_floats(const struct task *t)
{
    return pkv__state_floats(pkv__attn_walk_states(&t->walk), t->call.v->dim);
}

static void call_kernel(struct task *t)
{
    const enum pkv__attn_place place = t->call.batch->table ? PKV__PAGED : PKV__CONTIGUOUS;
    if (t->work->mla)
        pkv__mla_unit(t->work->be->kernels.mla[place], t->work->mla, &t->call, &t->walk.unit,
                      t->scratch);
    else t->walk.kernel->fn[place](&t->call, &t->walk.unit, t->scratch);
}

/* The state of the current chunk. */
static void run_chunk(struct task *t, float *floats)
{
    struct pkv__attn_unit *u = &t->walk.unit;
    u->state = state_at(t, floats);
    if (u->key_lo < u->key_hi) {
        call_kernel(t);
        return;
    }
    const int32_t n = pkv__attn_walk_states(&t->walk); /* no row sees a key */
    memset(floats, 0, state_floats(t) * sizeof *floats);
    for (int32_t s = 0; s < n; s++) u->state.m[s] = -INFINITY;
}

/* The current chunk of a span that is folded as it goes. */
static void fold_chunk(struct task *t)
{
    const struct pkv__attn_walk *w = &t->walk;
    const struct pkv__attn_state folded = state_at(t, t->folded);
    const int32_t n = pkv__attn_walk_states(w);
    run_chunk(t, w->at.part == 0 ? t->folded : t->chunk);
    if (w->at.part > 0) pkv__state_fold(&folded, &w->unit.state, 0, n, t->call.v->dim);
    if (w->at.part == w->n_parts - 1)
        pkv__state_finish(w->kernels, &t->call, &w->unit, &folded, 0, n);
}

static void run_piece(struct task *t, int32_t p)
{
    const struct work *work = t->work;
    const struct pkv__attn_piece *piece = &work->pieces[p];
    struct pkv__attn_walk *w = &t->walk;
    float *slot = piece->cut ? work->slots + piece->slot : NULL; /* NULL: folded as it goes */
    pkv__attn_walk_to(w, piece->first);
    for (int64_t i = 0; i < piece->n_items && !pkv__attn_walk_done(w); i++) {
        if (!pkv__attn_walk_folds(w)) {
            call_kernel(t);
        } else if (!slot) {
            fold_chunk(t);
        } else {
            run_chunk(t, slot);
            slot = w->at.part < w->n_parts - 1 ? slot + state_floats(t) : NULL;
        }
        pkv__attn_walk_next(w);
    }
    if (p + 1 == work->n_pieces || !work->pieces[p + 1].opens) return;
    float *left = work->slots + work->pieces[p + 1].slot - state_floats(t);
    memcpy(left, t->folded, state_floats(t) * sizeof *left);
}

static void run_pieces(void *ctx, int32_t i)
{
    struct work *work = ctx;
    struct task t;
    begin_task(&t, work, i);
    for (;;) {
        const int32_t p = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
        if (p >= work->n_pieces) return;
        run_piece(&t, p);
    }
}

/* Put the spans together that borders have cut: task i does its share of the states of each. */
static void join_spans(void *ctx, int32_t i)
{
    const struct work *work = ctx;
    struct task t;
    begin_task(&t, work, i);
    for (int32_t p = 1; p < work->n_pieces; p++) {
        if (!work->pieces[p].opens) continue;
        struct pkv__attn_walk *w = &t.walk;
        pkv__attn_walk_to(w, work->pieces[p].first);
        const int64_t n = pkv__attn_walk_states(w);
        const int32_t lo = (int32_t)(n * i / work->n_tasks);
        const int32_t hi = (int32_t)(n * (i + 1) / work->n_tasks);
        float *slot = work->slots + work->pieces[p].slot;
        const struct pkv__attn_state folded = state_at(&t, slot - state_floats(&t));
        for (int32_t part = w->at.part; part < w->n_parts; part++, slot += state_floats(&t)) {
            const struct pkv__attn_state chunk = state_at(&t, slot);
            pkv__state_fold(&folded, &chunk, lo, hi, t.call.v->dim);
        }
        pkv__state_finish(w->kernels, &t.call, &w->unit, &folded, lo, hi);
    }
}

static bool any_cut(const struct work *work)
{
    for (int32_t p = 1; p < work->n_pieces; p++)
        if (work->pieces[p].cut) return true;
    return false;
}

static void carry_out(struct work *work, uint32_t bad[4])
{
    const pkv_backend *be = work->be;
    struct pkv__attn_walk walk = { .call = work->call,
                                   .kernels = &be->kernels,
                                   .only = work->only };
    char *reports = work->workspace + work->at.reports;
    work->n_tasks = be->n_tasks;
    work->slots = (float *)(work->workspace + work->at.slots);
    memset(reports, 0, (size_t)be->n_tasks * PKV_CACHE_LINE);
    struct pkv__attn_piece *pieces = (void *)work->workspace;
    work->n_pieces = pkv__attn_cut_pieces(&walk, be->n_tasks, work->at.slots_floats, pieces);
    work->pieces = pieces;
    work->grain = walk.grain;
    atomic_init(&work->next, 0);
    pkv__parallel(be->threads, work->n_tasks, run_pieces, work);
    if (any_cut(work)) pkv__parallel(be->threads, work->n_tasks, join_spans, work);
    for (int32_t i = 0; i < be->n_tasks; i++)
        pkv__merge_bad(bad, (uint32_t *)(reports + (size_t)i * PKV_CACHE_LINE));
}

void pkv__attn_work(const pkv_backend *be, const struct pkv__attn_call *c, void *workspace)
{
    struct work work = { .be = be, .call = c, .workspace = workspace };
    work.at = attn_layout(be, c->q->n_heads, c->k->n_heads, c->k->dim, c->v->dim);
    carry_out(&work, c->bad);
}

void pkv__mla_work(const pkv_backend *be, const struct pkv__mla_call *c,
                   const struct pkv__attn_call *units, void *workspace)
{
    static const struct pkv__attn_kernel whole = { .kind = PKV__WHOLE, .unit_queries = 384 };
    struct work work = {
        .be = be, .call = units, .only = &whole, .mla = c, .workspace = workspace
    };
    work.at = mla_layout(be, c->attn.q->n_heads, c->attn.q->dim, c->rope->dim);
    carry_out(&work, c->attn.bad);
}
