/* Memory, data, queries and backends of an attention case. */
#include "attention_parts.h"

#include "half_floats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 512
#define ARITHMETIC_LAYERS 2 /* where the memory is not the point */

/* ---------------------------------------------------------------- sizes */

static bool draw_lengths(struct attn_problem *p, const struct batch_spec *batch, uint64_t seed,
                         struct bench_error *err)
{
    struct attn_shape *s = &p->shape;
    const size_t n = (size_t)batch->n_seqs;
    s->n_seqs = batch->n_seqs;
    s->q_len = bench_calloc(n, sizeof(int32_t), err);
    s->kv_len = bench_calloc(n, sizeof(int32_t), err);
    s->q_indptr = bench_calloc(n + 1, sizeof(int32_t), err);
    if (!s->q_len || !s->kv_len || !s->q_indptr) return false;
    batch_spec_draw(batch, seed, s->q_len, s->kv_len);
    s->sum_kv_len = s->max_kv_len = s->n_rows = 0;
    double pairs = 0; /* of a row and a key it sees */
    for (int32_t b = 0; b < s->n_seqs; b++) {
        const double q_len = s->q_len[b], kv_len = s->kv_len[b];
        s->sum_kv_len += s->kv_len[b];
        if (s->kv_len[b] > s->max_kv_len) s->max_kv_len = s->kv_len[b];
        s->n_rows += s->q_len[b];
        s->q_indptr[b + 1] = s->n_rows;
        pairs += q_len * (kv_len - q_len) + q_len * (q_len + 1) / 2;
    }
    p->needed = attn_layer_bytes(s);
    /* One multiply-add for each element of K and of V. */
    p->flops = pairs * s->h_q * s->dim * 4;
    return true;
}

static void drop_lengths(struct attn_shape *s)
{
    free(s->q_len);
    free(s->kv_len);
    free(s->q_indptr);
    s->q_len = s->kv_len = s->q_indptr = NULL;
}

/* Layers so that one turn reads `rotation` bytes. */
static int32_t layers_for(const struct attn_case *a, const struct attn_problem *p, int64_t rotation)
{
    const int64_t n = (rotation + p->needed - 1) / p->needed;
    if (a->spec.hot) return 1;
    if (a->spec.small) return 2;
    if (a->spec.arithmetic) return ARITHMETIC_LAYERS;
    return n < 1 ? 1 : n > MAX_LAYERS ? MAX_LAYERS : (int32_t)n;
}

/* Memory of all places, with as many layers as a rotation of that size takes. */
static int64_t footprint(struct attn_case *a, int64_t rotation)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < a->spec.n_problems; i++)
        a->problems[i].shape.n_layers = layers_for(a, &a->problems[i], rotation);
    for (int32_t i = 0; i < a->spec.n_memories; i++) {
        const struct attn_place *p = &a->places[i];
        if (!p->used) continue;
        const struct attn_shape *s = &p->problem->shape;
        bytes += s->n_layers * attn_layer_footprint(s, p->spec->layout, p->spec->block_tokens);
    }
    return bytes;
}

static bool halve(struct attn_case *a, struct batch_spec *batches)
{
    bool any = false;
    for (int32_t i = 0; i < a->spec.n_problems; i++) any = batch_spec_halve(&batches[i]) || any;
    a->shrunk = true;
    return any;
}

/* Lengths, then layers: fewer where --max-memory demands it; and if one layer is still too much,
 * half of the sequences, which every side then says. */
static bool size_problems(struct attn_case *a, struct bench_error *err)
{
    struct batch_spec batches[ATTN_MAX_PROBLEMS];
    const struct bench_run *run = a->run;
    const int64_t beyond_cache = 4 * run->report.machine.llc_bytes;
    a->shrunk = false;
    for (int32_t i = 0; i < a->spec.n_problems; i++) batches[i] = a->spec.problems[i].batch;
    for (;;) {
        for (int32_t i = 0; i < a->spec.n_problems; i++)
            if (!draw_lengths(&a->problems[i], &batches[i], run->options->seed, err)) return false;
        int64_t rotation =
            a->spec.rotation_bytes > beyond_cache ? a->spec.rotation_bytes : beyond_cache;
        while (footprint(a, rotation) > (int64_t)run->max_memory && rotation > 1) rotation /= 2;
        if (footprint(a, rotation) <= (int64_t)run->max_memory) return true;
        for (int32_t i = 0; i < a->spec.n_problems; i++) drop_lengths(&a->problems[i].shape);
        /* A line through sizes needs them as they are. */
        if (a->spec.line[0] || !halve(a, batches))
            return bench_fail(err, BENCH_SKIP, "needs more than --max-memory (%zu MiB)",
                              run->max_memory >> 20);
    }
}

/* ---------------------------------------------------------------- problems */

static bool make_queries(struct attn_problem *p, struct bench_error *err)
{
    const struct attn_shape *s = &p->shape;
    const int64_t n = (int64_t)s->n_rows * s->h_q * s->dim;
    const size_t elem = (size_t)pkv_dtype_bits(s->q_dtype) / 8;
    struct bench_rng rng = { s->seed ^ 0x7175657279u };
    const pkv_tensor3 t = { NULL,  s->q_dtype, s->h_q, s->dim, s->n_rows, (int64_t)s->h_q * s->dim,
                            s->dim };
    p->q = p->out = t;
    p->out_bytes = ((size_t)n * elem + 63) / 64 * 64;
    p->q.data = aligned_alloc(64, p->out_bytes);
    p->out.data = aligned_alloc(64, p->out_bytes);
    if (!p->q.data || !p->out.data) return bench_fail(err, BENCH_USAGE, "no memory for queries");
    memset(p->out.data, 0, p->out_bytes);
    for (int64_t i = 0; i < n; i++) {
        double x = -6;
        for (int k = 0; k < 12; k++) x += bench_rng_unit(&rng);
        number_put(p->q.data, s->q_dtype, i, (float)x);
    }
    return true;
}

static bool make_problems(struct attn_case *a, struct bench_error *err)
{
    for (int32_t i = 0; i < a->spec.n_problems; i++) {
        struct attn_problem *p = &a->problems[i];
        if (!attn_numbers_init(&p->shape, err) || !make_queries(p, err) ||
            !attn_check_init(&p->check, &p->shape, p->q.data, err))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- places and sides */

static void mark_used(const struct bench_case *c, struct attn_case *a)
{
    for (int32_t i = 0; i < a->spec.n_memories; i++)
        a->places[i].used = a->places[i].verified = false;
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct attn_side *s = c->sides[i].ctx;
        s->place->used = true;
        /* An identity table looks into the memory of the contiguous layout. */
        for (int32_t k = 0; k < a->spec.n_memories; k++)
            if (s->place->spec->layout == LAYOUT_IDENTITY_TABLE &&
                a->spec.memories[k].layout == LAYOUT_CONTIG_HND)
                a->places[k].used = true;
    }
}

static bool make_places(struct attn_case *a, struct bench_error *err)
{
    const struct attn_memory *hnd = NULL;
    for (int32_t i = 0; i < a->spec.n_memories; i++) {
        struct attn_place *p = &a->places[i];
        if (!p->used) continue;
        if (!attn_memory_init(&p->memory, &p->problem->shape, p->spec->layout,
                              p->spec->block_tokens, a->run->options->huge_pages, hnd, err))
            return false;
        attn_memory_fill(&p->memory, &p->problem->shape);
        if (p->spec->layout == LAYOUT_CONTIG_HND) hnd = &p->memory;
    }
    return true;
}

/* The level that computes, as loops need to know it. */
static pkv_isa level_of(const struct attn_side *s)
{
    const pkv_isa ceiling =
        s->family->isa != PKV_ISA_BEST ? s->family->isa : s->owner->run->options->isa;
    return ceiling != PKV_ISA_BEST ? ceiling : pkv_isa_detect();
}

static bool make_engine(struct attn_side *s, struct bench_error *err)
{
    struct bench_run *run = s->owner->run;
    const struct attn_shape *shape = &s->place->problem->shape;
    const pkv_isa isa = s->family->isa != PKV_ISA_BEST ? s->family->isa : run->options->isa;
    size_t bytes;
    if (s->spec->kind == ATTN_PEER_GEMM) return peer_gemm_create(s->family->threads, &s->gemm, err);
    if (s->spec->kind != ATTN_RUN) {
        s->team = bench_engines_team(&run->engines, s->family->threads, err);
        return s->team != NULL;
    }
    s->backend = bench_engines_backend(&run->engines, isa, s->family->threads, err);
    if (!s->backend) return false;
    const pkv_status status =
        pkv_attn_workspace(s->backend, shape->h_q, shape->h_kv, shape->dim, shape->dim, &bytes);
    if (status != PKV_OK)
        return bench_fail(err, BENCH_SKIP, "no kernel for this shape: %s", pkv_status_name(status));
    if (bytes > s->owner->workspace_bytes) s->owner->workspace_bytes = bytes;
    return true;
}

static void name_kernel(struct attn_side *s)
{
    const struct attn_problem *p = s->place->problem;
    const struct attn_memory *m = &s->place->memory;
    int32_t longest = 0;
    s->kernel = "";
    if (s->spec->kind != ATTN_RUN) return;
    for (int32_t b = 0; b < p->shape.n_seqs; b++)
        if (p->shape.q_len[b] > longest) longest = p->shape.q_len[b];
    s->kernel =
        pkv_attn_kernel_name(s->backend, &p->q, &m->k[0], &m->v[0], &s->batch, &s->opts, longest);
    if (!s->kernel) s->kernel = "?";
}

/* What of a side is known only now that memory and backend are there. */
static void complete_side(struct bench_side *b, struct attn_side *s)
{
    const struct attn_problem *p = s->place->problem;
    const bool reads = s->spec->kind == ATTN_RUN || s->spec->kind == ATTN_TWIN;
    const bool loop = s->spec->kind == ATTN_FMA_LOOP || s->spec->kind == ATTN_DOT_LOOP;
    name_kernel(s);
    b->n_params = s->n_params;
    if (s->spec->kind == ATTN_PEER_GEMM) b->flops = PEER_GEMM_FLOPS;
    else if (loop) b->flops = attn_arithmetic_flops(s);
    else if (s->owner->spec.arithmetic && reads) b->flops = p->flops;
    if (!loop && !s->owner->spec.arithmetic) {
        b->bytes_needed = b->bytes_distinct = p->needed;
        b->in_cache = p->needed * p->shape.n_layers < 4 * s->owner->run->report.machine.llc_bytes;
    }
    bench_side_param(b, "level", "%s", pkv_isa_name(level_of(s)));
    bench_side_param(b, "layers", "%d", p->shape.n_layers);
    if (*s->kernel) bench_side_param(b, "kernel", "%s", s->kernel);
    if (s->owner->shrunk)
        snprintf(b->note, sizeof(b->note), "shrunk to %d sequences by --max-memory",
                 p->shape.n_seqs);
}

static bool make_sides(struct bench_case *c, struct attn_case *a, struct bench_error *err)
{
    a->workspace_bytes = 64;
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct attn_side *s = c->sides[i].ctx;
        s->next_layer = 0;
        s->read_at = 0;
        s->status = PKV_OK;
        s->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
        s->opts.int8_qk = s->spec->int8_qk;
        attn_set_batch(s);
        if (!make_engine(s, err)) return false;
        complete_side(&c->sides[i], s);
    }
    a->workspace = aligned_alloc(64, (a->workspace_bytes + 63) / 64 * 64);
    return a->workspace || bench_fail(err, BENCH_USAGE, "no memory for the workspace");
}

void attn_teardown(struct bench_case *c)
{
    struct attn_case *a = c->ctx;
    for (int32_t i = 0; i < a->n_sides; i++) {
        struct attn_side *s = &a->sides[i];
        free(s->checked[0]);
        free(s->checked[1]);
        peer_gemm_destroy(s->gemm);
        s->checked[0] = s->checked[1] = NULL;
        s->gemm = NULL;
    }
    /* Borrowers first: an identity table looks into another memory. */
    for (int32_t i = a->spec.n_memories - 1; i >= 0; i--) attn_memory_deinit(&a->places[i].memory);
    for (int32_t i = 0; i < a->spec.n_problems; i++) {
        struct attn_problem *p = &a->problems[i];
        attn_check_deinit(&p->check);
        free(p->q.data);
        free(p->out.data);
        free(p->shape.numbers);
        drop_lengths(&p->shape);
        p->q.data = p->out.data = p->shape.numbers = NULL;
    }
    free(a->workspace);
    a->workspace = NULL;
}

bool attn_setup(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    struct attn_case *a = c->ctx;
    a->run = run;
    for (int32_t i = 0; i < a->spec.n_problems; i++) a->problems[i].shape.seed = run->options->seed;
    bandwidth_kernels(run->options->isa, &a->loops);
    a->read_way = run->report.machine.read_way;
    mark_used(c, a);
    const bool ok = size_problems(a, err) && make_problems(a, err) && make_places(a, err) &&
                    make_sides(c, a, err);
    if (!ok) attn_teardown(c);
    return ok;
}
