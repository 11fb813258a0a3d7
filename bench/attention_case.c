/* Definition of attention cases: from a specification to sides with ids. */
#include "attention_case.h"

#include "attention_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attn_problem_spec attention_centre(void)
{
    struct attn_problem_spec p;
    memset(&p, 0, sizeof(p));
    p.h_q = 32;
    p.h_kv = 8;
    p.dim = 128;
    p.dtype = PKV_F16;
    return p;
}

void attention_spec_batch(struct attn_problem_spec *p, const char *batch)
{
    struct batch_spec_error e;
    if (batch_spec_parse(batch, &p->batch, &e)) return;
    fprintf(stderr, "pkv-bench: built-in batch %s: %s\n", batch, e.text);
    abort();
}

int32_t attention_spec_problem(struct attn_case_spec *s, const struct attn_problem_spec *p)
{
    if (s->n_problems == ATTN_MAX_PROBLEMS) abort(); /* a case of ours asks for too much */
    s->problems[s->n_problems] = *p;
    return s->n_problems++;
}

int32_t attention_spec_memory(struct attn_case_spec *s, int32_t problem, enum bench_layout layout,
                              int32_t block_tokens)
{
    if (s->n_memories == ATTN_MAX_MEMORIES) abort();
    s->memories[s->n_memories] = (struct attn_memory_spec){ problem, layout, block_tokens };
    return s->n_memories++;
}

struct attn_side_spec *attention_spec_side(struct attn_case_spec *s, enum attn_side_kind kind,
                                           int32_t memory)
{
    if (s->n_sides == ATTN_MAX_SIDES) abort();
    struct attn_side_spec *side = &s->sides[s->n_sides++];
    side->kind = kind;
    side->memory = memory;
    return side;
}

void attention_spec_family(struct attn_case_spec *s, pkv_isa isa, int32_t threads)
{
    if (s->n_families == ATTN_MAX_FAMILIES) abort();
    s->families[s->n_families++] = (struct attn_family){ isa, threads };
}

void attention_spec_levels(const struct bench_options *o, struct attn_case_spec *s, pkv_dtype dtype,
                           bool many_rows, bool also_one)
{
    static const pkv_isa levels[] = { PKV_ISA_NEON, PKV_ISA_AMX, PKV_ISA_AVX512BF16, PKV_ISA_AVX512,
                                      PKV_ISA_AVX2 };
    const int32_t threads = bench_threads(o, machine_cpus());
    bool is_first = true; /* of those that have one: it is what the run's level uses */
    attention_spec_family(s, PKV_ISA_BEST, threads);
    if (also_one && threads > 1) attention_spec_family(s, PKV_ISA_BEST, 1);
    for (int i = 0; i < BENCH_LEN(levels); i++) {
        const pkv_isa ceiling = o->isa != PKV_ISA_BEST ? o->isa : pkv_isa_detect();
        if (levels[i] > ceiling || !bench_level_has_attention(levels[i], dtype, many_rows))
            continue;
        if (!is_first) attention_spec_family(s, levels[i], threads);
        if (!is_first && also_one && threads > 1) attention_spec_family(s, levels[i], 1);
        is_first = false;
    }
}

/* ---------------------------------------------------------------- ids and labels */

/* In front of the ids of a family: nothing for the run's level on one thread, else "t2/",
 * "avx2-t1/". */
static void family_tag(const struct attn_family *f, char *text, size_t size)
{
    if (f->isa != PKV_ISA_BEST) snprintf(text, size, "%s-t%d/", pkv_isa_name(f->isa), f->threads);
    else if (f->threads > 1) snprintf(text, size, "t%d/", f->threads);
    else text[0] = '\0';
}

static void layout_id(const struct attn_memory_spec *m, char *text, size_t size)
{
    if (layout_is_paged(m->layout))
        snprintf(text, size, "%s/b%d", layout_name(m->layout), m->block_tokens);
    else snprintf(text, size, "%s", layout_name(m->layout));
}

static void layout_label(const struct attn_memory_spec *m, char *text, size_t size)
{
    if (layout_is_paged(m->layout))
        snprintf(text, size, "%s B=%d", layout_name(m->layout), m->block_tokens);
    else snprintf(text, size, "%s", layout_name(m->layout));
}

static void name_side(struct bench_side *b, const struct attn_side *s)
{
    static const char *const ids[] = { "",         "load-only/", "read-loop",
                                       "fma-loop", "dot-loop",   "onednn-gemm" };
    static const char *const labels[] = { "",         "reads alone, ", "read loop",
                                          "FMA loop", "bf16 dot loop", "oneDNN bf16 GEMM" };
    char tag[32], id[32], label[32];
    const enum attn_side_kind kind = s->spec->kind;
    family_tag(s->family, tag, sizeof(tag));
    layout_id(s->place->spec, id, sizeof(id));
    layout_label(s->place->spec, label, sizeof(label));
    if (kind == ATTN_RUN || kind == ATTN_TWIN)
        snprintf(b->layout, sizeof(b->layout), "%s", layout_name(s->place->spec->layout));
    if (s->spec->id[0]) {
        snprintf(b->id, sizeof(b->id), "%s%.*s", tag, 32, s->spec->id);
        snprintf(b->label, sizeof(b->label), "%s", s->spec->label);
        return;
    }
    const bool at_layout = kind == ATTN_RUN || kind == ATTN_TWIN;
    snprintf(b->id, sizeof(b->id), "%s%s%s", tag, ids[kind], at_layout ? id : "");
    snprintf(b->label, sizeof(b->label), "%s%s", labels[kind], at_layout ? label : "");
}

static void describe_side(struct bench_side *b, const struct attn_side *s)
{
    const struct attn_problem_spec *p =
        &s->owner->spec.problems[s->place->problem - s->owner->problems];
    char batch[44];
    if (!batch_spec_format(&p->batch, batch, sizeof(batch))) snprintf(batch, sizeof(batch), "?");
    bench_side_param(b, "batch", "%s", batch);
    bench_side_param(b, "heads", "%d/%d", p->h_q, p->h_kv);
    bench_side_param(b, "head_dim", "%d", p->dim);
    bench_side_param(b, "kv_dtype", "%s", pkv_dtype_name(p->dtype));
    bench_side_param(b, "threads", "%d", s->family->threads);
    if (layout_is_paged(s->place->spec->layout))
        bench_side_param(b, "block_tokens", "%d", s->place->spec->block_tokens);
}

/* ---------------------------------------------------------------- sides */

/* The arithmetic loop of a level. */
static struct peak_loop peak_of(enum attn_side_kind kind, pkv_isa isa)
{
    struct peak_loop loop;
    memset(&loop, 0, sizeof(loop));
    if (kind == ATTN_FMA_LOOP) bandwidth_peak(isa, &loop);
    if (kind == ATTN_DOT_LOOP) bandwidth_peak_bf16(isa, &loop);
    return loop;
}

static void add_side(struct bench_case *c, struct attn_case *a, int32_t family,
                     const struct attn_side_spec *spec, pkv_isa run_isa)
{
    static void (*const calls[])(void *) = { attn_call_run,        attn_call_twin,
                                             attn_call_read_loop,  attn_call_arithmetic,
                                             attn_call_arithmetic, attn_call_gemm };
    const struct attn_family *f = &a->spec.families[family];
    const struct peak_loop loop = peak_of(spec->kind, f->isa != PKV_ISA_BEST ? f->isa : run_isa);
    const bool arithmetic = spec->kind == ATTN_FMA_LOOP || spec->kind == ATTN_DOT_LOOP;
    if (arithmetic && !loop.run) return; /* the level has no such instruction */
    struct attn_side *s = &a->sides[a->n_sides++];
    struct bench_side *b = bench_case_side(c);
    s->owner = a;
    s->spec = spec;
    s->family = f;
    s->place = &a->places[spec->memory];
    s->loop = loop;
    b->call = spec->self_test == SELF_TEST_SLOW ? attn_call_slowly : calls[spec->kind];
    b->ctx = s;
    b->family = family;
    b->baseline = spec->baseline;
    b->yardstick = spec->yardstick;
    b->no_ratio = spec->kind != ATTN_RUN;
    b->line_x = spec->line_x;
    const pkv_isa asked = f->isa != PKV_ISA_BEST ? f->isa : run_isa;
    attention_goals(&a->spec, spec, f, asked != PKV_ISA_BEST ? asked : pkv_isa_detect(), b);
    name_side(b, s);
    describe_side(b, s);
    s->n_params = b->n_params;
}

void attention_sampler(const struct bench_options *o, struct bench_case *c)
{
    const double quick_s = 2.5, full_s = 20;
    const double seconds = o->max_time_s > 0             ? o->max_time_s
                           : o->profile == PROFILE_QUICK ? quick_s
                                                         : full_s;
    c->sampler = (struct sampler_opts)SAMPLER_OPTS_INIT;
    c->sampler.n_samples = o->repeats ? o->repeats : o->profile == PROFILE_CI ? 5 : 20;
    c->sampler.max_time_ns = (uint64_t)(seconds * 1e9);
    c->sampler.warmup_ns = o->profile == PROFILE_CI ? 1000000 : 20000000;
}

static void name_case(struct bench_case *c, const struct attn_case_spec *spec)
{
    const struct attn_problem_spec *p = &spec->problems[0];
    char batch[256];
    if (spec->id[0]) {
        snprintf(c->id, sizeof(c->id), "kernel/%s", spec->id);
        return;
    }
    if (!batch_spec_format(&p->batch, batch, sizeof(batch))) batch[0] = '\0';
    snprintf(c->id, sizeof(c->id), "kernel/%s%.60s/%dx%d/d%d/%s", spec->hot ? "hot-" : "", batch,
             p->h_q, p->h_kv, p->dim, pkv_dtype_name(p->dtype));
}

static void define_problems(struct attn_case *a)
{
    for (int32_t i = 0; i < a->spec.n_problems; i++) {
        const struct attn_problem_spec *p = &a->spec.problems[i];
        struct attn_shape *s = &a->problems[i].shape;
        s->h_q = p->h_q;
        s->h_kv = p->h_kv;
        s->dim = p->dim;
        s->dtype = p->dtype;
        s->q_dtype = p->dtype <= PKV_BF16 ? p->dtype : PKV_F16;
    }
    for (int32_t i = 0; i < a->spec.n_memories; i++) {
        a->places[i].spec = &a->spec.memories[i];
        a->places[i].problem = &a->problems[a->spec.memories[i].problem];
    }
}

bool attention_case_add(const struct bench_options *o, const struct attn_case_spec *spec,
                        struct case_list *list, struct bench_error *err)
{
    struct bench_case *c = case_list_add(list, err);
    struct attn_case *a = bench_calloc(1, sizeof(*a), err);
    if (!c || !a) {
        free(a);
        return false;
    }
    c->ctx = a;
    a->spec = *spec;
    c->group = GROUP_KERNEL;
    c->setup = attn_setup;
    c->check = attn_verify;
    c->teardown = attn_teardown;
    snprintf(c->versus, sizeof(c->versus), "%s", spec->versus);
    snprintf(c->line, sizeof(c->line), "%s", spec->line);
    name_case(c, spec);
    attention_sampler(o, c);
    define_problems(a);
    for (int32_t f = 0; f < spec->n_families; f++)
        for (int32_t i = 0; i < spec->n_sides; i++) add_side(c, a, f, &a->spec.sides[i], o->isa);
    return true;
}
