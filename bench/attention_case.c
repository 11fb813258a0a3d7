/* Attention through block tables against contiguous K and V, layer after layer. */
#include "attention_case.h"

#include "attention_check.h"
#include "attention_memory.h"
#include "bandwidth.h"
#include "half_floats.h"

#include "pagedkv/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 512

struct attn_side {
    struct attn_case *owner;
    enum bench_layout layout;
    int32_t block_tokens;
    bool load_only, slow, wrong;
    struct attn_memory memory;
    const struct attn_memory *source; /* memory, or for the load twin that of another side */
    pkv_attn_batch batch;
    int32_t next_layer;
    pkv_status status; /* first failure of a timed call */
    void *checked[2];  /* outputs of the layers that were checked */
};

struct attn_case {
    struct attn_case_spec spec;
    struct bench_run *run; /* during setup .. teardown */
    struct attn_shape shape;
    struct attn_check check;
    pkv_tensor3 q, out;
    size_t out_bytes;
    pkv_attn_opts opts;
    void *workspace;
    size_t workspace_bytes;
    bandwidth_sum_fn sum;
    int32_t n_params; /* of the case before setup added its own */
    int32_t n_sides;
    struct attn_side sides[CASE_MAX_SIDES];
};

/* ---------------------------------------------------------------- what is timed */

static pkv_status run_layer(struct attn_side *s, int32_t layer)
{
    struct attn_case *a = s->owner;
    return pkv_attn_run(a->run->backend, &a->q, &s->source->k[layer], &s->source->v[layer],
                        &s->batch, &a->opts, a->workspace, a->workspace_bytes, &a->out, NULL);
}

/* The next layer, as an engine walks through them. */
static int32_t turn_layer(struct attn_side *s)
{
    const int32_t layer = s->next_layer;
    s->next_layer = layer + 1 == s->owner->shape.n_layers ? 0 : layer + 1;
    return layer;
}

static void call_attention(void *ctx)
{
    struct attn_side *s = ctx;
    const pkv_status status = run_layer(s, turn_layer(s));
    if (s->status == PKV_OK) s->status = status;
}

/* For tests of the suite: 20 % slower than it should be. */
static void call_slowly(void *ctx)
{
    struct attn_side *s = ctx;
    const struct bench_clock clock = s->owner->run->clock;
    const uint64_t start = clock.now_ns(clock.ctx);
    call_attention(ctx);
    const uint64_t end = clock.now_ns(clock.ctx);
    while (clock.now_ns(clock.ctx) < end + (end - start) / 5) {}
}

/* Read what attention reads, in the same order and pieces, through the same table. */
static void call_load_only(void *ctx)
{
    struct attn_side *s = ctx;
    const struct attn_case *a = s->owner;
    const int32_t layer = turn_layer(s), block_tokens = s->source->block_tokens;
    const pkv_kv_view *k = &s->source->k[layer], *v = &s->source->v[layer];
    const struct layout_table *table = &s->source->table;
    const size_t elem = (size_t)pkv_dtype_bits(k->dtype) / 8;
    uint64_t total = 0;
    for (int32_t b = 0; b < a->shape.n_seqs; b++)
        for (int32_t h = 0; h < a->shape.h_kv; h++)
            for (int32_t at = 0; at < a->shape.kv_len[b]; at += block_tokens) {
                const int64_t id = table->ids[b * table->stride + at / block_tokens];
                const int32_t left = a->shape.kv_len[b] - at;
                const int32_t n = left < block_tokens ? left : block_tokens;
                const size_t bytes = (size_t)n * (size_t)k->dim * elem;
                const int64_t k_at = id * k->block_stride + h * k->head_stride;
                const int64_t v_at = id * v->block_stride + h * v->head_stride;
                total += a->sum((const char *)k->data + (size_t)k_at * elem, bytes);
                total += a->sum((const char *)v->data + (size_t)v_at * elem, bytes);
            }
    a->run->sink += total;
}

/* ---------------------------------------------------------------- setup */

static bool draw_lengths(struct attn_case *a, const struct batch_spec *batch, uint64_t seed,
                         struct bench_error *err)
{
    struct attn_shape *s = &a->shape;
    const size_t n = (size_t)batch->n_seqs;
    s->n_seqs = batch->n_seqs;
    s->q_len = bench_calloc(n, sizeof(int32_t), err);
    s->kv_len = bench_calloc(n, sizeof(int32_t), err);
    s->q_indptr = bench_calloc(n + 1, sizeof(int32_t), err);
    if (!s->q_len || !s->kv_len || !s->q_indptr) return false;
    batch_spec_draw(batch, seed, s->q_len, s->kv_len);
    s->sum_kv_len = s->max_kv_len = s->n_rows = 0;
    for (int32_t b = 0; b < s->n_seqs; b++) {
        s->sum_kv_len += s->kv_len[b];
        if (s->kv_len[b] > s->max_kv_len) s->max_kv_len = s->kv_len[b];
        s->n_rows += s->q_len[b];
        s->q_indptr[b + 1] = s->n_rows;
    }
    return true;
}

static void drop_lengths(struct attn_shape *s)
{
    free(s->q_len);
    free(s->kv_len);
    free(s->q_indptr);
    s->q_len = s->kv_len = s->q_indptr = NULL;
}

/* Memory of one layer over the sides that are there. */
static int64_t footprint(const struct bench_case *c, const struct attn_shape *shape)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < c->n_sides; i++) {
        const struct attn_side *s = c->sides[i].ctx;
        if (!s->load_only) bytes += attn_layer_footprint(shape, s->layout, s->block_tokens);
    }
    return bytes;
}

/* Layers so that one turn reads four times the last-level cache, within the memory allowed. */
static int32_t choose_layers(const struct attn_case *a, int64_t footprint_bytes, size_t max_memory,
                             int64_t llc_bytes)
{
    const int64_t one = attn_layer_bytes(&a->shape);
    int64_t n = (4 * llc_bytes + one - 1) / one;
    if (a->spec.hot) return 1;
    if (a->spec.small) n = 2;
    if (n > MAX_LAYERS) n = MAX_LAYERS;
    if (n * footprint_bytes > (int64_t)max_memory) n = (int64_t)max_memory / footprint_bytes;
    return (int32_t)n;
}

/* Lengths, then layers; a batch that does not fit with one layer loses half of its sequences until
 * it does, and every side says so. */
static bool size_case(struct bench_case *c, struct attn_case *a, struct bench_error *err)
{
    struct batch_spec batch = a->spec.batch;
    const struct bench_run *run = a->run;
    const uint64_t seed = run->options->seed;
    bool shrunk = false;
    for (;;) {
        if (!draw_lengths(a, &batch, seed, err)) return false;
        a->shape.n_layers = choose_layers(a, footprint(c, &a->shape), run->max_memory,
                                          run->report.machine.llc_bytes);
        if (a->shape.n_layers >= 1) break;
        drop_lengths(&a->shape);
        shrunk = true;
        if (!batch_spec_halve(&batch))
            return bench_fail(err, BENCH_SKIP, "needs more than --max-memory (%zu MiB)",
                              run->max_memory >> 20);
    }
    const int64_t needed = attn_layer_bytes(&a->shape);
    const bool in_cache = needed * a->shape.n_layers < 4 * run->report.machine.llc_bytes;
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct bench_side *s = &c->sides[i];
        s->bytes_needed = s->bytes_distinct = needed;
        s->in_cache = in_cache;
        if (shrunk)
            snprintf(s->note, sizeof(s->note), "shrunk to %d sequences by --max-memory",
                     a->shape.n_seqs);
    }
    return true;
}

static bool make_queries(struct attn_case *a, struct bench_error *err)
{
    const struct attn_shape *s = &a->shape;
    const int64_t n = (int64_t)s->n_rows * s->h_q * s->dim;
    const size_t elem = (size_t)pkv_dtype_bits(s->dtype) / 8;
    struct bench_rng rng = { s->seed ^ 0x7175657279u };
    const pkv_tensor3 t = { NULL,  s->dtype, s->h_q, s->dim, s->n_rows, (int64_t)s->h_q * s->dim,
                            s->dim };
    a->q = a->out = t;
    a->out_bytes = ((size_t)n * elem + 63) / 64 * 64;
    a->q.data = aligned_alloc(64, a->out_bytes);
    a->out.data = aligned_alloc(64, a->out_bytes);
    if (!a->q.data || !a->out.data) return bench_fail(err, BENCH_USAGE, "no memory for queries");
    memset(a->out.data, 0, a->out_bytes);
    for (int64_t i = 0; i < n; i++) {
        const float x =
            number_get(s->numbers, s->dtype, (int64_t)bench_rng_below(&rng, ATTN_NUMBERS));
        number_put(a->q.data, s->dtype, i, x);
    }
    return true;
}

static void set_batch(struct attn_side *s)
{
    const struct attn_shape *shape = &s->owner->shape;
    s->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    s->batch.n_seqs = shape->n_seqs;
    s->batch.table = s->source->table.ids;
    s->batch.table_stride = s->source->table.stride;
    s->batch.kv_len = shape->kv_len;
    s->batch.q_indptr = shape->n_rows == shape->n_seqs ? NULL : shape->q_indptr;
}

static bool make_workspace(struct attn_case *a, struct bench_error *err)
{
    const struct attn_shape *s = &a->shape;
    const pkv_status status =
        pkv_attn_workspace(a->run->backend, s->h_q, s->h_kv, s->dim, s->dim, &a->workspace_bytes);
    if (status != PKV_OK)
        return bench_fail(err, BENCH_SKIP, "no kernel for this shape: %s", pkv_status_name(status));
    a->workspace = aligned_alloc(64, (a->workspace_bytes + 63) / 64 * 64);
    return a->workspace || bench_fail(err, BENCH_USAGE, "no memory for the workspace");
}

static bool make_sides(struct bench_case *c, struct attn_case *a, struct bench_error *err)
{
    const struct attn_memory *hnd = NULL;
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct attn_side *s = c->sides[i].ctx;
        s->next_layer = 0;
        s->status = PKV_OK;
        /* The twin of a side that the filter dropped needs memory of its own. */
        if (!s->load_only || !s->source->k) s->source = &s->memory;
        if (s->source == &s->memory) {
            if (!attn_memory_init(&s->memory, &a->shape, s->layout, s->block_tokens,
                                  a->run->options->huge_pages, hnd, err))
                return false;
            attn_memory_fill(&s->memory, &a->shape);
        }
        if (s->layout == LAYOUT_CONTIG_HND) hnd = &s->memory;
        set_batch(s);
    }
    return true;
}

static void name_kernel(struct bench_case *c, const struct attn_case *a)
{
    const struct attn_side *first = c->sides[0].ctx;
    const char *name =
        pkv_attn_kernel_name(a->run->backend, &a->q, &first->source->k[0], &first->source->v[0],
                             &first->batch, &a->opts, a->shape.q_len[0]);
    struct bench_param *p = &c->params[c->n_params++];
    snprintf(p->name, sizeof(p->name), "kernel");
    snprintf(p->value, sizeof(p->value), "%s", name ? name : "?");
    p = &c->params[c->n_params++];
    snprintf(p->name, sizeof(p->name), "layers");
    snprintf(p->value, sizeof(p->value), "%d", a->shape.n_layers);
}

static void attention_teardown(struct bench_case *c)
{
    struct attn_case *a = c->ctx;
    /* Borrowers first: an identity table looks into another side's memory. */
    for (int32_t i = a->n_sides - 1; i >= 0; i--) {
        attn_memory_deinit(&a->sides[i].memory);
        free(a->sides[i].checked[0]);
        free(a->sides[i].checked[1]);
        a->sides[i].checked[0] = a->sides[i].checked[1] = NULL;
    }
    attn_check_deinit(&a->check);
    free(a->q.data);
    free(a->out.data);
    free(a->workspace);
    free(a->shape.numbers);
    drop_lengths(&a->shape);
    a->q.data = a->out.data = a->workspace = a->shape.numbers = NULL;
    c->n_params = a->n_params;
}

static bool attention_setup(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    struct attn_case *a = c->ctx;
    bandwidth_sum_fn ways[BANDWIDTH_N_WAYS];
    a->n_params = c->n_params;
    a->run = run;
    a->shape.seed = run->options->seed;
    a->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    bandwidth_kernels(run->options->isa, ways);
    a->sum = ways[BANDWIDTH_PLAIN];
    const bool ok = size_case(c, a, err) && attn_numbers_init(&a->shape, err) &&
                    make_queries(a, err) && make_workspace(a, err) && make_sides(c, a, err) &&
                    attn_check_init(&a->check, &a->shape, a->q.data, err);
    if (ok) name_kernel(c, a);
    else attention_teardown(c);
    return ok;
}

/* ---------------------------------------------------------------- correctness */

/* Run the checked layers and keep their outputs in out[0], out[1]. */
static pkv_status run_checked(struct attn_side *s, void *out[2])
{
    const struct attn_case *a = s->owner;
    for (int32_t i = 0; i < a->check.n_layers; i++) {
        memset(a->out.data, 0xff, a->out_bytes); /* a row that is not written stays NaN */
        const pkv_status status = run_layer(s, a->check.layers[i]);
        if (status != PKV_OK) return status;
        if (s->wrong) number_put(a->out.data, a->shape.dtype, a->shape.dim / 2, 77.f);
        memcpy(out[i], a->out.data, a->out_bytes);
    }
    return PKV_OK;
}

static bool same_bits(const struct attn_case *a, void *const x[2], void *const y[2])
{
    const size_t bytes = (size_t)a->shape.n_rows * (size_t)(a->shape.h_q * a->shape.dim) *
                         (size_t)pkv_dtype_bits(a->shape.dtype) / 8;
    for (int32_t i = 0; i < a->check.n_layers; i++)
        if (memcmp(x[i], y[i], bytes) != 0) return false;
    return true;
}

static void refuse(struct bench_correct *out, const char *what, pkv_status status)
{
    out->ok = false;
    snprintf(out->text, sizeof(out->text), "%s: %s", what, pkv_status_name(status));
}

/* Outputs under the table of the case and under another permutation of the same blocks. */
static bool check_renamed(struct attn_side *s, void *const first[2], void *other[2],
                          struct bench_correct *out, struct bench_error *err)
{
    struct attn_case *a = s->owner;
    const enum bench_layout shuffled = LAYOUT_PAGED_RANDOM;
    if (!attn_memory_rename(&s->memory, &a->shape, shuffled, ~a->shape.seed, err)) return false;
    attn_memory_fill(&s->memory, &a->shape);
    set_batch(s);
    const pkv_status status = run_checked(s, other);
    out->renamed_equal = status == PKV_OK && same_bits(a, first, other);
    if (status != PKV_OK) refuse(out, "attention after renaming the blocks", status);
    else if (!out->renamed_equal && out->ok) {
        out->ok = false;
        snprintf(out->text, sizeof(out->text), "renaming the blocks changed the output");
    }
    /* Back to the layout that will be timed. */
    if (!attn_memory_rename(&s->memory, &a->shape, s->layout, a->shape.seed, err)) return false;
    attn_memory_fill(&s->memory, &a->shape);
    set_batch(s);
    return true;
}

static bool check_before(struct attn_side *s, void *other[2], struct bench_correct *out,
                         struct bench_error *err)
{
    struct attn_case *a = s->owner;
    for (int32_t i = 0; i < a->check.n_layers; i++) {
        s->checked[i] = bench_calloc(1, a->out_bytes, err);
        if (!s->checked[i]) return false;
    }
    const pkv_status status = run_checked(s, s->checked);
    if (status != PKV_OK) {
        refuse(out, "attention", status);
        return true;
    }
    attn_check_compare(&a->check, &a->shape, (const void *const *)s->checked, out);
    return !layout_is_paged(s->layout) || check_renamed(s, s->checked, other, out, err);
}

static void check_after(struct attn_side *s, void *other[2], struct bench_correct *out)
{
    if (s->status != PKV_OK) refuse(out, "a timed call", s->status);
    else if (run_checked(s, other) != PKV_OK || !same_bits(s->owner, s->checked, other)) {
        out->ok = false;
        snprintf(out->text, sizeof(out->text), "the output changed while timing");
    }
}

static bool attention_check(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                            struct bench_correct *out, struct bench_error *err)
{
    struct attn_side *s = c->sides[side].ctx;
    const struct attn_case *a = s->owner;
    (void)run;
    if (s->load_only) {
        out->ok = true;
        return true;
    }
    void *other[2] = { bench_calloc(1, a->out_bytes, err), bench_calloc(1, a->out_bytes, err) };
    bool ok = other[0] && other[1];
    out->checked = true;
    if (!timed) out->ok = true;
    if (ok && timed) check_after(s, other, out);
    else if (ok) ok = check_before(s, other, out, err);
    free(other[0]);
    free(other[1]);
    return ok;
}

/* ---------------------------------------------------------------- definition */

static struct bench_side *add_side(struct bench_case *c, struct attn_case *a,
                                   enum bench_layout layout, int32_t block_tokens)
{
    struct attn_side *s = &a->sides[a->n_sides++];
    struct bench_side *b = bench_case_side(c);
    s->owner = a;
    s->layout = layout;
    s->block_tokens = block_tokens;
    b->call = call_attention;
    b->ctx = s;
    b->baseline = layout == LAYOUT_CONTIG_HND || layout == LAYOUT_CONTIG_NHD;
    snprintf(b->layout, sizeof(b->layout), "%s", layout_name(layout));
    if (layout_is_paged(layout)) {
        snprintf(b->id, sizeof(b->id), "%s/b%d", layout_name(layout), block_tokens);
        snprintf(b->label, sizeof(b->label), "%s B=%d", layout_name(layout), block_tokens);
        snprintf(b->params[0].name, sizeof(b->params[0].name), "block_tokens");
        snprintf(b->params[0].value, sizeof(b->params[0].value), "%d", block_tokens);
        b->n_params = 1;
    } else {
        snprintf(b->id, sizeof(b->id), "%s", layout_name(layout));
        snprintf(b->label, sizeof(b->label), "%s", layout_name(layout));
    }
    return b;
}

static void add_load_twin(struct bench_case *c, struct attn_case *a)
{
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct attn_side *source = c->sides[i].ctx;
        if (source->layout != LAYOUT_PAGED_RANDOM) continue;
        struct bench_side *b = add_side(c, a, source->layout, source->block_tokens);
        struct attn_side *s = b->ctx;
        s->load_only = true;
        s->source = &source->memory;
        b->call = call_load_only;
        b->no_ratio = true;
        snprintf(b->id, sizeof(b->id), "load-only/%s/b%d", b->layout, source->block_tokens);
        snprintf(b->label, sizeof(b->label), "reads alone, %s B=%d", b->layout,
                 source->block_tokens);
        return;
    }
}

static void add_self_test(struct bench_case *c, struct attn_case *a)
{
    struct bench_side *b = add_side(c, a, LAYOUT_CONTIG_HND, 0);
    struct attn_side *s = b->ctx;
    b->baseline = false;
    s->slow = a->spec.self_test == SELF_TEST_SLOW;
    s->wrong = a->spec.self_test == SELF_TEST_WRONG;
    if (s->slow) b->call = call_slowly;
    snprintf(b->id, sizeof(b->id), "self-test-%s", s->slow ? "slow" : "wrong");
    snprintf(b->label, sizeof(b->label), "%s", b->id);
}

static void add_param(struct bench_case *c, const char *name, const char *value)
{
    struct bench_param *p = &c->params[c->n_params++];
    snprintf(p->name, sizeof(p->name), "%s", name);
    snprintf(p->value, sizeof(p->value), "%s", value);
}

static void name_case(struct bench_case *c, const struct attn_case_spec *spec, const char *batch)
{
    char heads[32], dim[16];
    snprintf(heads, sizeof(heads), "%d/%d", spec->h_q, spec->h_kv);
    snprintf(dim, sizeof(dim), "%d", spec->dim);
    snprintf(c->id, sizeof(c->id), "kernel/%s%.60s/%dx%d/d%d/%s", spec->hot ? "hot-" : "", batch,
             spec->h_q, spec->h_kv, spec->dim, pkv_dtype_name(spec->dtype));
    add_param(c, "batch", batch);
    add_param(c, "heads", heads);
    add_param(c, "head_dim", dim);
    add_param(c, "kv_dtype", pkv_dtype_name(spec->dtype));
    add_param(c, "threads", "1");
}

bool attention_case_add(const struct bench_options *o, const struct attn_case_spec *spec,
                        struct case_list *list, struct bench_error *err)
{
    char batch[256];
    struct bench_case *c = case_list_add(list, err);
    struct attn_case *a = bench_calloc(1, sizeof(*a), err);
    if (!c || !a) {
        free(a);
        return false;
    }
    c->ctx = a;
    a->spec = *spec;
    a->shape.h_q = spec->h_q;
    a->shape.h_kv = spec->h_kv;
    a->shape.dim = spec->dim;
    a->shape.dtype = spec->dtype;
    if (!batch_spec_format(&spec->batch, batch, sizeof(batch))) batch[0] = '\0';
    name_case(c, spec, batch);
    c->group = GROUP_KERNEL;
    c->setup = attention_setup;
    c->check = attention_check;
    c->teardown = attention_teardown;
    c->sampler = (struct sampler_opts)SAMPLER_OPTS_INIT;
    c->sampler.n_samples = o->repeats ? o->repeats : o->profile == PROFILE_CI ? 5 : 20;
    c->sampler.max_time_ns = (uint64_t)((o->max_time_s > 0             ? o->max_time_s
                                         : o->profile == PROFILE_QUICK ? 3
                                                                       : 20) *
                                        1e9);
    if (o->profile == PROFILE_CI) c->sampler.warmup_ns = 1000000;

    add_side(c, a, LAYOUT_CONTIG_HND, 0);
    add_side(c, a, LAYOUT_CONTIG_NHD, 0);
    for (int32_t i = 0; i < spec->n_paged; i++) {
        struct bench_side *b = add_side(c, a, spec->paged[i].layout, spec->paged[i].block_tokens);
        b->goal_ratio = spec->paged[i].goal_ratio;
    }
    if (spec->load_twin) add_load_twin(c, a);
    if (spec->self_test != SELF_TEST_NONE) add_self_test(c, a);
    return true;
}
