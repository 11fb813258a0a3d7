/* check_kernels --accuracy: what a store type and a granularity of scales cost, in the output of
 * attention against the same attention over float32 keys and values. The same runs are held against
 * what the formats' steps predict. */
#include "accuracy_data.h"
#include "check_kernels.h"
#include "oracle/oracle_formats.h"
#include "oracle/oracle_kv_write.h"
#include "oracle/oracle_numbers.h"
#include "pagedkv/moves.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, MAX_ROWS = 64 };

enum grain { NO_SCALE, PER_TENSOR, PER_HEAD, PER_TOKEN, PER_TOKEN_HEAD, N_GRAINS };
static const char *const grain_names[] = { "-", "tensor", "head", "token", "token-head" };

/* Sums of squares over everything measured with one dtype and grain. */
struct errors {
    double off[3], size[3]; /* of K, V and the output */
    double step2[2];        /* K and V: sum of the squared steps, for int8 and int4 */
    double worst;           /* largest abs(error of the output) */
    int64_t n_out;
};

struct accuracy {
    pkv_backend *be;
    long n_checks, n_failed;
};

static void expect(struct accuracy *a, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void expect(struct accuracy *a, bool ok, const char *fmt, ...)
{
    va_list args;
    a->n_checks++;
    if (ok) return;
    a->n_failed++;
    printf("FAILED  ");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
}

static void must(pkv_status status, const char *what)
{
    if (status == PKV_OK) return;
    fprintf(stderr, "accuracy: %s: %s\n", what, pkv_status_name(status));
    exit(2);
}

static void *room(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!p) {
        fprintf(stderr, "accuracy: no memory\n");
        exit(2);
    }
    memset(p, 0, bytes);
    return p;
}

/* ------------------------------------------------------------------ one store */

struct store {
    pkv_kv_view view[2];
    void *owned[6];
    int32_t *table;
};

static pkv_scales make_scales(struct store *s, int at, const pkv_kv_view *v, enum grain grain)
{
    const int64_t bt = v->block_tokens, nh = v->n_heads;
    pkv_scales r = { NULL, 0, 0, 0 };
    if (grain == NO_SCALE) return r;
    r.data = s->owned[at] = room((size_t)(v->n_blocks * bt * nh) * sizeof(float));
    if (grain == PER_HEAD) r.head_stride = 1;
    if (grain == PER_TOKEN) r.block_stride = bt, r.token_stride = 1;
    if (grain == PER_TOKEN_HEAD) r.block_stride = bt * nh, r.token_stride = 1, r.head_stride = bt;
    return r;
}

/* Scales that are inputs, from the extremes of all rows they stand for. */
static void give_scales(const struct accuracy_set *set, const pkv_kv_view *v, const float *rows,
                        enum grain grain)
{
    for (int32_t h = 0; h < v->n_heads && grain <= PER_HEAD; h++) {
        struct oracle_extremes e = { 0 };
        for (int32_t t = 0; t < set->n_tokens; t++)
            for (int32_t i = 0; i < v->n_heads; i++)
                if (grain == PER_TENSOR || i == h)
                    oracle_extremes_add(&e, rows + ((int64_t)t * v->n_heads + i) * v->dim, v->dim);
        struct oracle_scale s = oracle_scale_of(v->dtype, &e);
        if (v->dtype == PKV_E5M2) s.scale = fmaxf(fmaxf(e.hi, -e.lo) / 57344.f, 0x1p-126f);
        if (v->scales.data) v->scales.data[h * v->scales.head_stride] = s.scale;
        if (v->zeros.data) v->zeros.data[h * v->zeros.head_stride] = s.zero;
    }
}

/* K and V of the set in blocks, in reverse order of the ids. */
static void make_store(const struct accuracy *a, const struct accuracy_set *set, pkv_dtype dtype,
                       enum grain grain, struct store *s)
{
    const int32_t n_blocks = 1 + (set->n_tokens + BLOCK - 1) / BLOCK;
    const int64_t step = (set->dim + 31) / 32 * 32;
    const int64_t elems = (int64_t)n_blocks * set->n_kv_heads * BLOCK * step;
    int64_t *slots = room((size_t)set->n_tokens * sizeof(*slots));
    pkv_tensor3 rows[2];
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    *s = (struct store){ .table = room((size_t)n_blocks * sizeof(int32_t)) };
    for (int32_t i = 0; i < n_blocks - 1; i++) s->table[i] = n_blocks - 1 - i;
    for (int32_t t = 0; t < set->n_tokens; t++)
        slots[t] = (int64_t)s->table[t / BLOCK] * BLOCK + t % BLOCK;
    for (int i = 0; i < 2; i++) {
        pkv_kv_view *v = &s->view[i];
        float *from = i ? set->v : set->k;
        s->owned[i] = room((size_t)oracle_span(dtype, elems));
        *v = (pkv_kv_view){ s->owned[i],
                            dtype,
                            n_blocks,
                            BLOCK,
                            set->n_kv_heads,
                            set->dim,
                            set->n_kv_heads * BLOCK * step,
                            step,
                            BLOCK * step,
                            { NULL, 0, 0, 0 },
                            { NULL, 0, 0, 0 } };
        if (oracle_is_code(dtype)) v->scales = make_scales(s, 2 + i, v, grain);
        if (dtype == PKV_U4) v->zeros = make_scales(s, 4 + i, v, grain);
        if (grain != NO_SCALE) give_scales(set, v, from, grain);
        rows[i] = (pkv_tensor3){ from,   PKV_F32,       v->n_heads,
                                 v->dim, set->n_tokens, (int64_t)v->n_heads * v->dim,
                                 v->dim };
    }
    args.k = &rows[0];
    args.v = &rows[1];
    args.k_view = &s->view[0];
    args.v_view = &s->view[1];
    args.slots = slots;
    must(pkv_kv_write(a->be, &args, NULL), "kv_write");
    free(slots);
}

static void free_store(struct store *s)
{
    for (int i = 0; i < 6; i++) free(s->owned[i]);
    free(s->table);
}

/* What the store holds, as float32 [n_tokens][heads][dim]. */
static float *read_back(const struct accuracy *a, const struct accuracy_set *set,
                        const struct store *s, int which)
{
    const pkv_kv_view *v = &s->view[which];
    int64_t *slots = room((size_t)set->n_tokens * sizeof(*slots));
    pkv_tensor3 out = { room((size_t)(set->n_tokens * v->n_heads * v->dim) * sizeof(float)),
                        PKV_F32,
                        v->n_heads,
                        v->dim,
                        set->n_tokens,
                        (int64_t)v->n_heads * v->dim,
                        v->dim };
    for (int32_t t = 0; t < set->n_tokens; t++)
        slots[t] = (int64_t)s->table[t / BLOCK] * BLOCK + t % BLOCK;
    must(pkv_kv_gather(a->be, v, slots, &out, NULL, NULL), "kv_gather");
    free(slots);
    return out.data;
}

static int32_t n_rows_of(const struct accuracy_set *set)
{
    return set->n_tokens < MAX_ROWS ? set->n_tokens : MAX_ROWS;
}

/* The last rows of the set, as one causal sequence. [n_rows][n_q_heads][dim]. */
static float *attend(const struct accuracy *a, const struct accuracy_set *set,
                     const struct store *s)
{
    const int32_t n_rows = n_rows_of(set), q_indptr[2] = { 0, n_rows };
    const int64_t row = (int64_t)set->n_q_heads * set->dim;
    pkv_tensor3 q = { set->q + (set->n_tokens - n_rows) * row,
                      PKV_F32,
                      set->n_q_heads,
                      set->dim,
                      n_rows,
                      row,
                      set->dim };
    pkv_tensor3 out = q;
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    const pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    size_t bytes = 0;
    /* Rows of tensors are 16-byte aligned; those of the set are where malloc put them. */
    q.data = room((size_t)(n_rows * row) * sizeof(float));
    memcpy(q.data, set->q + (set->n_tokens - n_rows) * row, (size_t)(n_rows * row) * sizeof(float));
    out.data = room((size_t)(n_rows * row) * sizeof(float));
    batch.n_seqs = 1;
    batch.table = s->table;
    batch.table_stride = s->view[0].n_blocks - 1;
    batch.kv_len = &set->n_tokens;
    batch.q_indptr = q_indptr;
    must(pkv_attn_workspace(a->be, set->n_q_heads, set->n_kv_heads, set->dim, set->dim, &bytes),
         "workspace");
    void *workspace = room(bytes);
    must(pkv_attn_run(a->be, &q, &s->view[0], &s->view[1], &batch, &opts, workspace, bytes, NULL,
                      &out, NULL),
         "attention");
    free(workspace);
    free(q.data);
    return out.data;
}

/* ------------------------------------------------------------------ errors */

static void add_errors(struct errors *e, int which, const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double off = (double)got[i] - (double)want[i];
        e->off[which] += off * off;
        e->size[which] += (double)want[i] * (double)want[i];
        if (which == 2) e->worst = fmax(e->worst, fabs(off));
    }
    if (which == 2) e->n_out += n;
}

static double relative(const struct errors *e, int which)
{
    return sqrt(e->off[which] / e->size[which]);
}

static double scale_at(const pkv_kv_view *v, const struct store *s, int32_t t, int32_t h)
{
    const pkv_scales *x = &v->scales;
    if (!x->data) return 1;
    return (double)x->data[s->table[t / BLOCK] * x->block_stride + t % BLOCK * x->token_stride +
                           h * x->head_stride];
}

/* Exact weights of one row and head, and how far those of the stored keys may be from them:
 * |o' - o| <= (e^(2 D) - 1) sum p |v'| + sum p |v' - v|, D the largest error of a logit; and the
 * kernel's own error over either store (docs/numerics.md, p rounded to bf16 at worst). */
struct row_terms {
    double p[1024], shift, z_abs;
    int32_t n_keys;
};

static void weigh(const struct accuracy_set *set, const float *k, int32_t row, int32_t h,
                  struct row_terms *r)
{
    const int32_t g = h / (set->n_q_heads / set->n_kv_heads);
    const float *q = set->q + ((int64_t)row * set->n_q_heads + h) * set->dim;
    double m = -INFINITY, l = 0;
    *r = (struct row_terms){ .n_keys = row + 1 };
    for (int32_t j = 0; j <= row; j++) {
        const int64_t at = ((int64_t)j * set->n_kv_heads + g) * set->dim;
        double z = 0, off = 0, size = 0;
        for (int32_t d = 0; d < set->dim; d++) {
            z += (double)q[d] * (double)set->k[at + d];
            off += fabs((double)q[d] * ((double)k[at + d] - (double)set->k[at + d]));
            size += fabs((double)q[d] * (double)k[at + d]);
        }
        r->p[j] = z / sqrt(set->dim);
        r->shift = fmax(r->shift, off / sqrt(set->dim));
        r->z_abs = fmax(r->z_abs, (size + off) / sqrt(set->dim));
        m = fmax(m, r->p[j]);
    }
    for (int32_t j = 0; j <= row; j++) l += r->p[j] = exp(r->p[j] - m);
    for (int32_t j = 0; j <= row; j++) r->p[j] /= l;
}

static void bound_row(struct accuracy *a, const struct accuracy_set *set, const char *what,
                      const float *k, const float *v, const float *got, const float *want,
                      int32_t row, int32_t h)
{
    static struct row_terms r;
    const int32_t g = h / (set->n_q_heads / set->n_kv_heads);
    const int64_t n_first = set->n_tokens - n_rows_of(set);
    weigh(set, k, row, h, &r);
    const double dz = (2 * set->dim + 60) * 0x1p-24 * r.z_abs;
    const double own = expm1(2 * dz) + 2 * 0x1p-21 + 0x1p-8 + (16 + r.n_keys) * 0x1p-23;
    for (int32_t d = 0; d < set->dim; d++) {
        double size = 0, moved = 0, exact = 0;
        for (int32_t j = 0; j < r.n_keys; j++) {
            const int64_t at = ((int64_t)j * set->n_kv_heads + g) * set->dim + d;
            size += r.p[j] * fmax(fabs((double)v[at]), fabs((double)set->v[at]));
            moved += r.p[j] * fabs((double)v[at] - (double)set->v[at]);
            exact += r.p[j] * (double)set->v[at];
        }
        const int64_t at = ((row - n_first) * set->n_q_heads + h) * set->dim + d;
        const double spread = exp(2 * r.shift); /* the kernel's error is over the stored keys */
        const double bound = (spread - 1) * size + moved + 2 * spread * own * size + 1e-30;
        const double off = fabs((double)got[at] - (double)want[at]);
        expect(a, off <= bound || isinf(bound),
               "%s: row %d head %d dim %d is off by %.3g, bound %.3g", what, row, h, d, off, bound);
        expect(a, fabs((double)want[at] - exact) <= 2 * own * size + 1e-30,
               "%s: float32 row %d head %d dim %d is %.9g, want %.9g", what, row, h, d,
               (double)want[at], exact);
    }
}

static void measure(struct accuracy *a, const struct accuracy_set *set, pkv_dtype dtype,
                    enum grain grain, const float *want, struct errors *e)
{
    struct store s;
    char what[64];
    const int64_t n = (int64_t)set->n_tokens * set->n_kv_heads * set->dim;
    const int32_t n_rows = n_rows_of(set);
    make_store(a, set, dtype, grain, &s);
    float *k = read_back(a, set, &s, 0), *v = read_back(a, set, &s, 1), *got = attend(a, set, &s);
    add_errors(e, 0, k, set->k, n);
    add_errors(e, 1, v, set->v, n);
    add_errors(e, 2, got, want, (int64_t)n_rows * set->n_q_heads * set->dim);
    for (int32_t t = 0; t < set->n_tokens; t++)
        for (int32_t h = 0; h < set->n_kv_heads; h++)
            for (int i = 0; i < 2; i++)
                e->step2[i] += set->dim * pow(scale_at(&s.view[i], &s, t, h), 2);
    snprintf(what, sizeof(what), "%s %s %s", set->name, pkv_dtype_name(dtype), grain_names[grain]);
    for (int32_t h = 0; h < set->n_q_heads; h++) {
        bound_row(a, set, what, k, v, got, want, set->n_tokens - 1, h);
        bound_row(a, set, what, k, v, got, want, set->n_tokens - n_rows, h);
    }
    free(k);
    free(v);
    free(got);
    free_store(&s);
}

/* ------------------------------------------------------------------ the table */

static bool offered(pkv_dtype dtype, enum grain grain)
{
    if (!oracle_is_code(dtype)) return grain == NO_SCALE;
    if (dtype == PKV_E5M2) return grain <= PER_HEAD; /* kv_write computes no scale for it */
    return grain != NO_SCALE;
}

struct table {
    struct errors e[PKV_DTYPE_COUNT][N_GRAINS];
};

static void add_set(struct accuracy *a, const struct accuracy_set *set, struct table *t)
{
    struct store plain;
    make_store(a, set, PKV_F32, NO_SCALE, &plain);
    float *want = attend(a, set, &plain);
    for (int d = PKV_F16; d < PKV_DTYPE_COUNT; d++)
        for (int g = 0; g < N_GRAINS; g++)
            if (offered((pkv_dtype)d, (enum grain)g))
                measure(a, set, (pkv_dtype)d, (enum grain)g, want, &t->e[d][g]);
    free(want);
    free_store(&plain);
}

static void print_table(const char *name, const struct table *t)
{
    for (int d = PKV_F16; d < PKV_DTYPE_COUNT; d++)
        for (int g = 0; g < N_GRAINS; g++) {
            const struct errors *e = &t->e[d][g];
            if (!offered((pkv_dtype)d, (enum grain)g)) continue;
            printf("%-18s %-6s %-10s %11.3e %11.3e %11.3e %11.3e\n", name,
                   pkv_dtype_name((pkv_dtype)d), grain_names[g], relative(e, 0), relative(e, 1),
                   relative(e, 2), e->worst / sqrt(e->size[2] / (double)e->n_out));
        }
}

/* Mantissas spread evenly over a binade are off by a step over the root of 12, and a step is 2^-m
 * to 2^-m-1 of the number: so is the root mean square of the relative error, about. */
static void check_floats(struct accuracy *a, const struct table *t)
{
    static const struct {
        pkv_dtype dtype;
        enum grain grain;
        int mantissa;
    } kinds[] = {
        { PKV_F16, NO_SCALE, 10 },   { PKV_BF16, NO_SCALE, 7 }, { PKV_E4M3, PER_TOKEN_HEAD, 3 },
        { PKV_E4M3, PER_TENSOR, 3 }, { PKV_E5M2, NO_SCALE, 2 }, { PKV_E5M2, PER_TENSOR, 2 },
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        for (int which = 0; which < 2; which++) {
            const double got = relative(&t->e[kinds[i].dtype][kinds[i].grain], which);
            const double step = ldexp(1, -kinds[i].mantissa) / sqrt(12);
            expect(a, got > step / 2 && got < step, "%s: relative error %.3g, not %.3g .. %.3g",
                   pkv_dtype_name(kinds[i].dtype), got, step / 2, step);
        }
}

/* Integers are off by a step over the root of 12, less the extremes, which are exact: one of 64
 * numbers of a row in int8, two in int4. */
static void check_integers(struct accuracy *a, const struct table *t)
{
    for (int d = PKV_I8; d <= PKV_U4; d++)
        for (int g = PER_TENSOR; g < N_GRAINS; g++)
            for (int which = 0; which < 2; which++) {
                const struct errors *e = &t->e[d][g];
                const double got = sqrt(e->off[which]), want = sqrt(e->step2[which] / 12);
                expect(a, got > 0.96 * want && got < 1.02 * want,
                       "%s per %s: error %.4g, steps make %.4g", pkv_dtype_name((pkv_dtype)d),
                       grain_names[g], got, want);
            }
}

/* Finer scales are better where rows differ in size, in codes of even steps at least: a large row
 * sets the step of all. How much K and V gain follows from their distribution alone; for the output
 * it is not said, as the large rows may be all that counts there. */
static void check_order(struct accuracy *a, const char *name, const struct table *t, double factor,
                        bool of_output)
{
    for (int d = PKV_I8; d <= PKV_U4; d++)
        for (int which = 0; which < (of_output ? 3 : 2); which++)
            expect(a,
                   factor * relative(&t->e[d][PER_TOKEN_HEAD], which) <
                       relative(&t->e[d][PER_TENSOR], which),
                   "%s %s: token-head %.3g is not below tensor %.3g over %g", name,
                   pkv_dtype_name((pkv_dtype)d), relative(&t->e[d][PER_TOKEN_HEAD], which),
                   relative(&t->e[d][PER_TENSOR], which), factor);
}

static void run_kind(struct accuracy *a, enum accuracy_kind kind)
{
    static struct table t;
    struct accuracy_set set = accuracy_make(kind);
    memset(&t, 0, sizeof(t));
    add_set(a, &set, &t);
    print_table(set.name, &t);
    if (kind == DATA_NORMAL) {
        check_floats(a, &t);
        check_integers(a, &t);
    }
    if (kind == DATA_OUTLIER_TOKENS || kind == DATA_WIDE_TOKENS || kind == DATA_CONSTANT_ROWS)
        check_order(a, set.name, &t, 2, false);
    accuracy_free(&set);
}

static void run_dump(struct accuracy *a, const struct kv_dump *dump)
{
    static struct table t;
    for (int32_t layer = 0; layer < dump->n_layers; layer++) {
        struct accuracy_set set = accuracy_layer(dump, layer);
        add_set(a, &set, &t);
        accuracy_free(&set);
    }
    print_table("dump", &t);
    check_order(a, "dump", &t, 1, true);
}

int kernel_accuracy(pkv_isa isa, const char *dump_path)
{
    struct accuracy a = { 0 };
    struct kv_dump dump = { 0 };
    char why[160];
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    cfg.max_isa = isa;
    if (dump_path && !kv_dump_read(dump_path, &dump, why, sizeof(why))) {
        fprintf(stderr, "check_kernels: %s: %s\n", dump_path, why);
        return 2;
    }
    if (pkv_backend_create_cpu(&cfg, &a.be) != PKV_OK) {
        printf("SKIPPED level %s: not here\n", pkv_isa_name(isa));
        kv_dump_free(&dump);
        return 77;
    }
    printf("%-18s %-6s %-10s %11s %11s %11s %11s\n", "data", "store", "scale per", "K", "V", "out",
           "out, worst");
    for (int kind = 0; kind < DATA_N_KINDS; kind++) run_kind(&a, (enum accuracy_kind)kind);
    if (dump_path) run_dump(&a, &dump);
    else printf("SKIPPED dump: none given; tests/oracle/dump_kv.py makes one\n");
    printf(
        "Errors are root mean squares over those of the numbers themselves; worst: largest error "
        "over the\nroot mean square. %ld checks, %ld failed\n",
        a.n_checks, a.n_failed);
    pkv_backend_destroy(a.be);
    kv_dump_free(&dump);
    return a.n_failed ? 1 : 0;
}
