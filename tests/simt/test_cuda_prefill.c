/* Attention over long rows, launched by itself: edges of its tiles, how it shares out its work, and
 * that this leaves no trace. Whatever the grid, results stay near the CPU's. */
#include "cuda_problem.h"
#include "kernels/cuda/attn_prefill.h"

#include <math.h>

#define MAX_CTAS 300

struct unit {
    const char *name;
    pkv_dtype dtype, q_dtype;
    int32_t dim; /* that its class holds */
    int (*prepare)(struct pkv__kernel_cost *cost);
    int (*launch)(const void *params, int64_t n_ctas, void *stream);
};
#define UNIT(DTYPE, QTYPE, type, dim)                                                              \
    {                                                                                              \
        "attn_prefill_" #type "_" #dim, PKV_##DTYPE, PKV_##QTYPE, dim,                             \
            pkv__prefill_##type##_##dim##_prepare, pkv__prefill_##type##_##dim##_launch            \
    }
static const struct unit units[] = {
    UNIT(F16, F16, f16, 64),    UNIT(F16, BF16, f16, 128),   UNIT(F16, F16, f16, 256),
    UNIT(BF16, BF16, bf16, 64), UNIT(BF16, BF16, bf16, 128), UNIT(BF16, BF16, bf16, 256),
    UNIT(E4M3, F16, e4m3, 64),  UNIT(E4M3, BF16, e4m3, 128), UNIT(E5M2, BF16, e5m2, 64),
    UNIT(E5M2, F16, e5m2, 128), UNIT(I8, F16, int8, 64),     UNIT(I8, BF16, int8, 128),
    UNIT(U4, BF16, int4, 64),   UNIT(U4, F16, int4, 128),
};
enum { N_UNITS = sizeof units / sizeof units[0] };

/* PKV_UNIT: only this unit, in all tests (mutants are of one unit). */
static bool is_wanted(const struct unit *unit)
{
    const char *only = getenv("PKV_UNIT");
    return !only || strcmp(only, unit->name) == 0;
}
static const struct unit *wanted_or(int32_t i)
{
    for (int32_t u = 0; u < N_UNITS && getenv("PKV_UNIT"); u++)
        if (is_wanted(&units[u])) return &units[u];
    return &units[i];
}

/* Units, windows and grids are many; the slower builds take every seventh of them. */
static int32_t step(void)
{
    return strcmp(device_build(), "plain") == 0 ? 1 : 7;
}
static int32_t unit_step(void)
{
    return getenv("PKV_UNIT") ? 1 : step();
}

/* ------------------------------------------------------------------ launches */

struct setup {
    const struct unit *unit;
    struct cuda_problem p;
    struct pkv__cuda_head *head;
    float *partials;
    bool invariant;
};

static void begin_in_blocks(struct setup *s, const struct unit *unit, int32_t block_tokens,
                            int32_t dim, int32_t q_heads, int32_t kv_heads,
                            const struct cuda_seq *seqs, int32_t n)
{
    const struct cuda_shape shape = { unit->dtype, unit->q_dtype, q_heads,
                                      kv_heads,    dim,           block_tokens };
    struct pkv__kernel_cost cost;
    assert_int_equal(unit->prepare(&cost), 0);
    *s = (struct setup){ .unit = unit };
    cuda_build(&s->p, &shape, seqs, n, 37);
    s->head = cuda_take(&s->p, sizeof *s->head);
    memset(s->head, 0, sizeof *s->head);
    s->head->magic = PKV__CUDA_WORKSPACE_MAGIC;
    s->partials = cuda_take(&s->p, sizeof(float) * PKV__PREFILL_SLOTS *
                                       (size_t)PKV__PREFILL_STATE(unit->dim));
}

static void begin(struct setup *s, const struct unit *unit, int32_t dim, int32_t q_heads,
                  int32_t kv_heads, const struct cuda_seq *seqs, int32_t n)
{
    begin_in_blocks(s, unit, 16, dim, q_heads, kv_heads, seqs, n);
}

/* All outputs are NaN before; no counter has moved after. */
static struct cuda_rows run(struct setup *s, int64_t n_ctas)
{
    struct cuda_problem *const p = &s->p;
    const struct pkv__cuda_head before = *s->head;
    struct pkv__cuda_attn a = { .q = p->q, .out = p->out, .k = p->k, .v = p->v };
    a.batch = p->batch;
    a.opts = p->opts;
    a.lse = p->lse;
    a.scale = p->opts.scale != 0.f ? p->opts.scale : 1.f / sqrtf((float)p->shape.dim);
    a.cap_unit = pkv__cap_unit(p->opts.softcap);
    a.group = p->shape.n_q_heads / p->shape.n_kv_heads;
    a.rows = PKV__CUDA_ALL;
    a.head = s->head;
    a.partials = s->partials;
    a.chunk = s->invariant ? 1024 : 0;
    const int64_t last = (p->n_rows - 1) * p->out.row_stride +
                         (p->shape.n_q_heads - 1) * p->out.head_stride + p->shape.dim;
    memset(p->out.data, 0xff, (size_t)last * 2);
    memset(p->lse.data, 0xff, sizeof(float) * (size_t)(p->n_rows * p->shape.n_q_heads));
    if (s->unit->launch(&a, n_ctas, NULL) != 0) fail_msg("%s", device_last_error());
    assert_memory_equal(s->head, &before, sizeof before);
    assert_int_equal(p->bad[0], 0);
    return cuda_collect(p);
}

static void assert_near_cpu(struct setup *s, int64_t n_ctas)
{
    struct cuda_rows r = run(s, n_ctas);
    cuda_assert_right(&s->p, &r);
    cuda_rows_free(&r);
}

/* ------------------------------------------------------------------ tiles */

/* Diagonals inside of tiles and at their edges, tails of keys and of rows, rows without keys. */
static void edges(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 64, 64 }, { 2, 65, 65 }, { 3, 17, 129 },
                                            { 4, 3, 0 },   { 5, 9, 5 },   { 6, 1, 63 },
                                            { 7, 0, 7 },   { 8, 22, 200 } };
    for (int32_t i = 0; i < N_UNITS; i += unit_step()) {
        struct setup s;
        if (!is_wanted(&units[i])) continue;
        begin(&s, &units[i], i % 3 == 1 ? units[i].dim : units[i].dim - 8 * (i % 5), 3, 1, seqs, 8);
        cuda_schedule(i);
        assert_near_cpu(&s, 2);
        cuda_free(&s.p);
    }
}

/* 64 queries that are not whole groups: rows 12 to 25 of five heads, of which the last one sees the
 * first key of a tile. */
static void groups(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 30, 69 } };
    struct setup s;
    begin(&s, wanted_or(0), 64, 5, 1, seqs, 1);
    assert_near_cpu(&s, 2);
    cuda_free(&s.p);
}

/* Windows that begin and end beside edges of tiles, with and without causal. */
static void windows(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 100, 260 }, { 2, 70, 70 } };
    static const int32_t sizes[] = { -1, 0, 1, 62, 63, 64, 65, 128 };
    struct setup s;
    const struct unit *const unit = wanted_or(1);
    begin(&s, unit, unit->dim > 80 ? 80 : 48, 2, 2, seqs, 2);
    for (int32_t i = 0; i < 16; i += step()) {
        s.p.opts.window_left = sizes[i % 8];
        s.p.opts.window_right = sizes[i * 5 % 8];
        s.p.opts.causal = (uint8_t)(i / 8);
        cuda_schedule(i);
        assert_near_cpu(&s, 1 + i % 4);
    }
    cuda_free(&s.p);
}

/* Everything that is added to logits, and a tree: siblings stand at one position. */
static void options(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 40, 150 }, { 2, 70, 66 } };
    for (int32_t i = 0; i < N_UNITS; i += unit_step()) {
        struct setup s;
        if (!is_wanted(&units[i])) continue;
        begin(&s, &units[i], 48, 2, 1, seqs, 2);
        float *const slopes = cuda_take(&s.p, 8), *const sinks = cuda_take(&s.p, 8);
        int32_t *const q_pos = cuda_take(&s.p, sizeof(int32_t) * 110);
        uint32_t *const mask = cuda_take(&s.p, sizeof(uint32_t) * 110 * 3);
        for (int32_t h = 0; h < 2; h++) slopes[h] = 0.03f * (float)(h + 1), sinks[h] = (float)h;
        for (int32_t r = 0; r < 110; r++) {
            const int32_t own = r < 40 ? r : r - 40;
            q_pos[r] = (r < 40 ? 110 : -4) + (own + 1) / 2;
            for (int32_t w = 0; w < 3; w++) mask[r * 3 + w] = 0x9e3779b9u * (uint32_t)(r + 7 * w);
        }
        s.p.opts.alibi = slopes;
        s.p.opts.softcap = i % 2 ? 3.f : 0.f;
        s.p.opts.sink = i % 3 ? sinks : NULL;
        s.p.lse.base2 = i % 4 == 3;
        assert_near_cpu(&s, 2);
        s.p.opts.sink = sinks;
        s.p.opts.mask = mask;
        s.p.opts.mask_stride = 3;
        s.p.opts.causal = 0;
        assert_near_cpu(&s, 3);
        s.p.batch.q_pos = q_pos;
        assert_near_cpu(&s, 40);
        s.p.opts.mask = NULL;
        s.p.opts.causal = 1;
        assert_near_cpu(&s, 1);
        s.p.batch.q_detached = 1;
        assert_near_cpu(&s, 1);
        cuda_free(&s.p);
    }
}

/* Row i of `r` has the bits that it has in `clean`, but for dim `odd`; -1: in all dims. */
static void assert_same_but(const struct cuda_rows *clean, const struct cuda_rows *r, int32_t i,
                            int32_t odd)
{
    const int32_t dim = (int32_t)(r->o_row / 2);
    for (int32_t d = 0; d < dim; d++) {
        const size_t at = (size_t)i * r->o_row + (size_t)d * 2;
        if (d != odd) assert_memory_equal(r->o + at, clean->o + at, 2);
    }
}
static uint16_t bits_at(const struct cuda_rows *r, int32_t i, int32_t d)
{
    uint16_t bits;
    memcpy(&bits, r->o + (size_t)i * r->o_row + (size_t)d * 2, 2);
    return bits;
}

/* NaN and infinity in V of keys that only some rows of a tile see, in each warp's share of the
 * tile, in even dims and odd ones. */
static void wild_values(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 64, 64 } };
    static const int32_t keys[] = { 0, 19, 32, 47, 62 };
    struct setup s;
    begin(&s, &units[0], 64, 1, 1, seqs, 1);
    struct cuda_rows clean = run(&s, 1);
    for (int32_t n = 0; n < 10; n++) {
        const int32_t key = keys[n / 2], d = n % 4 < 2 ? 5 + n % 2 * 4 : 58 - n % 2 * 2;
        const bool is_nan = n % 2 == 0;
        uint16_t *const v = (uint16_t *)s.p.v.data + s.p.table[key / 16] * s.p.v.block_stride +
                            key % 16 * s.p.v.token_stride + d;
        const uint16_t was = *v;
        *v = is_nan ? 0x7e00 : 0x7c00;
        struct cuda_rows r = run(&s, 1);
        assert_memory_equal(clean.lse, r.lse, 64 * r.lse_row);
        for (int32_t i = 0; i < 64; i++) {
            assert_same_but(&clean, &r, i, i >= key ? d : -1);
            if (i < key) continue;
            if (is_nan) assert_true((bits_at(&r, i, d) & 0x7fff) > 0x7c00);
            else assert_int_equal(bits_at(&r, i, d), 0x7c00);
        }
        cuda_rows_free(&r);
        *v = was;
    }
    cuda_rows_free(&clean);
    cuda_free(&s.p);
}

/* Infinity in V of a key that has no weight in any row: NaN to those that see it. Key and dim
 * belong to different threads of a row. */
static void wild_without_weight(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 64, 64 } };
    static const int32_t keys[] = { 16, 43 }, dims[] = { 10, 5 };
    for (int32_t n = 0; n < 2; n++) {
        struct setup s;
        begin(&s, &units[0], 64, 1, 1, seqs, 1);
        const int32_t key = keys[n], d = dims[n];
        const int64_t block = s.p.table[key / 16];
        for (int32_t i = 0; i < 64; i++)
            ((uint16_t *)s.p.q.data)[i * s.p.q.row_stride] = 0x3c00; /* 1 */
        ((uint16_t *)s.p.k.data)[block * s.p.k.block_stride + key % 16 * s.p.k.token_stride] =
            0xf800; /* -2^15 */
        struct cuda_rows clean = run(&s, 1);
        ((uint16_t *)s.p.v.data)[block * s.p.v.block_stride + key % 16 * s.p.v.token_stride + d] =
            0x7c00;
        struct cuda_rows r = run(&s, 1);
        for (int32_t i = 0; i < 64; i++) {
            assert_same_but(&clean, &r, i, i >= key ? d : -1);
            if (i >= key) assert_true((bits_at(&r, i, d) & 0x7fff) > 0x7c00);
        }
        cuda_rows_free(&r);
        cuda_rows_free(&clean);
        cuda_free(&s.p);
    }
}

/* Scales and zero points that are not finite, of keys that only some rows see: the others keep
 * their bits. */
static void wild_scales(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 64, 64 } };
    for (int32_t n = 0; n < 6; n++) {
        struct setup s;
        begin(&s, &units[12], 64, 1, 1, seqs, 1);
        struct cuda_rows clean = run(&s, 1);
        const pkv_scales *of = n / 2 == 0   ? &s.p.v.scales
                               : n / 2 == 1 ? &s.p.v.zeros
                                            : &s.p.k.scales;
        const int32_t key = 11 + 17 * n / 2;
        of->data[s.p.table[key / 16] * of->block_stride + key % 16 * of->token_stride] =
            n % 2 ? INFINITY : NAN;
        struct cuda_rows r = run(&s, 1);
        for (int32_t i = 0; i < 64; i++) {
            if (i < key || n / 2 < 2) assert_memory_equal(clean.lse + i * 4, r.lse + i * 4, 4);
            if (i < key) assert_same_but(&clean, &r, i, -1);
            else if (n % 2 == 0) assert_true((bits_at(&r, i, 7) & 0x7fff) > 0x7f80); /* bf16 */
        }
        cuda_rows_free(&r);
        cuda_rows_free(&clean);
        cuda_free(&s.p);
    }
}

/* Weights times the scale of V just below a power of two: they are halves in the end. */
static void full_scales(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 70 } };
    for (int32_t i = 0; i < 2; i++) {
        struct setup s;
        begin(&s, wanted_or(i ? 10 : 4), 64, 1, 1, seqs, 1);
        const pkv_kv_view *v = &s.p.v;
        for (int64_t n = 0; v->scales.data && n < v->n_blocks * v->scales.block_stride; n++)
            v->scales.data[n] = 0x1.fffp-7f;
        assert_near_cpu(&s, 1);
        cuda_free(&s.p);
    }
}

/* One key, all its scales subnormal: out is the code times the scale, which bf16 holds. */
static void tiny_scales(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 1 } };
    struct setup s;
    begin(&s, &units[11], 128, 1, 1, seqs, 1);
    s.p.opts.causal = 0;
    const int64_t key = s.p.table[0] * s.p.v.block_stride;
    s.p.v.scales.data[s.p.table[0] * s.p.v.scales.block_stride] = 0x1p-130f;
    struct cuda_rows r = run(&s, 1);
    for (int32_t d = 0; d < 128; d++) {
        const float want = (float)((const int8_t *)s.p.v.data)[key + d] * 0x1p-130f;
        uint32_t bits;
        memcpy(&bits, &want, sizeof bits);
        for (int32_t i = 0; i < 20; i++) assert_int_equal(bits_at(&r, i, d), bits >> 16);
    }
    cuda_rows_free(&r);
    cuda_free(&s.p);
}

/* Every logit is -inf: as if no key were visible, though values are infinite. */
static void no_weight(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 70 } };
    struct setup s;
    begin(&s, &units[0], 64, 1, 1, seqs, 1);
    s.p.opts.causal = 0; /* the first 64 keys need no mask */
    for (int32_t i = 0; i < 20 * 64; i++)
        ((uint16_t *)s.p.q.data)[i / 64 * s.p.q.row_stride + i % 64] = 0x3c00; /* 1 */
    for (int32_t j = 0; j < 70; j++) {
        const int64_t at = s.p.table[j / 16] * s.p.k.block_stride + j % 16 * s.p.k.token_stride;
        ((uint16_t *)s.p.k.data)[at + j % 64] = 0xfc00; /* -inf */
        ((uint16_t *)s.p.v.data)[at + j % 64] = 0x7c00;
    }
    struct cuda_rows r = run(&s, 1);
    for (int32_t i = 0; i < 20; i++) {
        float lse;
        memcpy(&lse, r.lse + i * 4, sizeof lse);
        assert_true(lse == -INFINITY);
        for (int32_t d = 0; d < 64; d++) assert_int_equal(bits_at(&r, i, d), 0);
    }
    cuda_rows_free(&r);
    cuda_free(&s.p);
}

/* Rows that see one key each, all of them two keys together: entries in front of, between and
 * behind those hold no id, and are not looked at. */
static void ids_not_seen(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 100 } };
    static const int32_t block_tokens[] = { 16, 4 };
    for (int32_t n = 0; n < 2; n++) {
        const int32_t bt = block_tokens[n];
        struct setup s;
        begin_in_blocks(&s, wanted_or(0), bt, 64, 1, 1, seqs, 1);
        int32_t *const q_pos = cuda_take(&s.p, sizeof *q_pos * 20);
        for (int32_t i = 0; i < 20; i++) q_pos[i] = i % 2 ? 90 : 20;
        s.p.batch.q_pos = q_pos;
        s.p.batch.q_detached = 1;
        s.p.opts.window_left = 0;
        for (int32_t e = 0; e < (100 + bt - 1) / bt; e++)
            if (e != 20 / bt && e != 90 / bt) s.p.table[e] = INT32_MIN;
        assert_near_cpu(&s, 1);
        cuda_free(&s.p);
    }
}

/* Rows more than 2^24 positions from their keys. The second key has all the weight, so that lse is
 * its distance times the slope; distances are even, hence floats, but that to key 0 is not. */
static void far_distances(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 2 } };
    struct setup s;
    begin(&s, wanted_or(0), 64, 1, 1, seqs, 1);
    float *const slope = cuda_take(&s.p, sizeof *slope);
    int32_t *const q_pos = cuda_take(&s.p, sizeof *q_pos * 20);
    *slope = 64;
    for (int32_t i = 0; i < 20; i++) q_pos[i] = (1 << 24) + 3 + 2 * i;
    s.p.opts.alibi = slope;
    s.p.batch.q_pos = q_pos;
    s.p.batch.q_detached = 1;
    memset(s.p.q.data, 0, (size_t)(19 * s.p.q.row_stride + 64) * 2);
    struct cuda_rows r = run(&s, 1);
    for (int32_t i = 0; i < 20; i++) {
        float lse;
        memcpy(&lse, r.lse + i * 4, sizeof lse);
        assert_true(lse == 64.f * (float)(1 - q_pos[i]));
    }
    cuda_rows_free(&r);
    cuda_free(&s.p);
}

/* A scale below 0, one that makes all logits equal, and ones that float products of S hardly take.
 */
static void scales(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 90 } };
    static const float of[] = { -0.2f, 0x1p-149f, 0x1p-14f, 0x1p10f };
    struct setup s;
    begin(&s, wanted_or(0), 48, 1, 1, seqs, 1);
    for (int32_t i = 0; i < 4; i++) {
        s.p.opts.scale = of[i];
        assert_near_cpu(&s, 2);
    }
    cuda_free(&s.p);
}

/* ------------------------------------------------------------------ sharing out the work */

/* One item cut into as many parts as there are CTAs, or more than it has tiles; call after call. */
static void splits(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 700 }, { 2, 18, 5 } };
    static const int32_t grids[] = { 1, 2, 3, 4, 7, 12, 240, MAX_CTAS };
    static const int32_t of[] = { 0, 4, 2, 11, 13 };
    for (int32_t i = 0; i < (getenv("PKV_UNIT") ? 1 : 5); i += step()) {
        struct setup s;
        const struct unit *const unit = wanted_or(of[i]);
        begin(&s, unit, 64, 3, 1, seqs, 2);
        for (int32_t g = 0; g < 8; g += step()) {
            cuda_schedule(g + i);
            assert_near_cpu(&s, grids[g]);
        }
        /* All grids without parts: the same bits. */
        struct cuda_rows one = run(&s, 1), more;
        s.invariant = true;
        for (int32_t g = 0; g < 8; g += step()) {
            more = run(&s, grids[g]);
            cuda_assert_same(&one, 0, &more, 0, 38, "invariant mode");
            cuda_rows_free(&more);
        }
        s.invariant = false;
        s.head->magic ^= 1; /* a workspace that nobody initialised: counters stay as they are */
        s.head->ticket[0] = 77;
        more = run(&s, 3);
        cuda_assert_same(&one, 0, &more, 0, 38, "without tickets");
        cuda_rows_free(&more);
        cuda_rows_free(&one);
        cuda_free(&s.p);
    }
}

/* Of 24 parts of eleven tiles the first one has no keys. A counter that begins at the last but one
 * makes it the one that puts all of them together, the others as an earlier call left them. */
static void last_without_keys(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 20, 700 } };
    struct setup s;
    begin(&s, wanted_or(0), 64, 1, 1, seqs, 1);
    struct cuda_rows last = run(&s, 24);
    cuda_assert_right(&s.p, &last);
    s.head->arrived[0] = 23;
    struct cuda_rows first = run(&s, 24);
    cuda_assert_same(&last, 0, &first, 0, 20, "whichever part comes last");
    cuda_rows_free(&last);
    cuda_rows_free(&first);
    cuda_free(&s.p);
}

/* More tiles times parts than 15 bits hold. Each part has a slot of its own, though a CTA that
 * takes all tickets would not notice. */
static void many_parts(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 17, 17600 }, { 2, 18, 5 } };
    if (step() > 1) {
        fprintf(stderr, "SKIPPED: twice 240 CTAs are for the build that nobody watches\n");
        skip();
    }
    const int64_t slot = PKV__PREFILL_STATE(wanted_or(0)->dim);
    struct setup s;
    begin(&s, wanted_or(0), 8, 1, 1, seqs, 2);
    memset(s.partials, 0xff, sizeof(float) * (size_t)(PKV__PREFILL_SLOTS * slot));
    float *const slope = cuda_take(&s.p, sizeof *slope);
    *slope = 0.25f;
    s.p.opts.alibi = slope;
    assert_near_cpu(&s, PKV__PREFILL_SLOTS);
    for (int32_t i = 0; i < PKV__PREFILL_SLOTS; i++) assert_true(s.partials[i * slot] <= INFINITY);
    /* And each item a counter: one that is wrong harms its own item, which is put together too
     * early. */
    memset(s.partials, 0xff, sizeof(float) * (size_t)(PKV__PREFILL_SLOTS * slot));
    s.head->arrived[PKV__PREFILL_SLOTS / 2] = 1;
    struct cuda_rows r = run(&s, PKV__PREFILL_SLOTS);
    for (int32_t i = 0; i < s.p.n_rows; i++) {
        float lse;
        memcpy(&lse, r.lse + i * 4, sizeof lse);
        assert_int_equal(lse == lse, i < 17);
    }
    cuda_rows_free(&r);
    cuda_free(&s.p);
}

/* A sequence alone and among others, on any number of CTAs; 140 sequences are two chunks of the
 * walk through the batch. */
static void company(void **state)
{
    (void)state;
    enum { MANY = 140, AT = 131 };
    static struct cuda_seq seqs[MANY];
    for (int32_t b = 0; b < MANY; b++) seqs[b] = (struct cuda_seq){ b, b % 5 == 1, b % 7 };
    seqs[3] = (struct cuda_seq){ 3, 67, 130 };
    seqs[AT] = (struct cuda_seq){ AT, 33, 150 };
    struct setup alone, all;
    begin(&alone, wanted_or(3), 64, 2, 1, &seqs[AT], 1);
    begin(&all, wanted_or(3), 64, 2, 1, seqs, MANY);
    all.invariant = alone.invariant = true;
    struct cuda_rows want = run(&alone, 2);
    cuda_assert_right(&alone.p, &want);
    for (int32_t n_ctas = 1; n_ctas <= 4; n_ctas += step() > 1 ? 2 : 1) {
        struct cuda_rows r = run(&all, n_ctas);
        cuda_assert_same(&want, 0, &r, all.p.row0[AT], 33, "company");
        if (n_ctas == 1) cuda_assert_right(&all.p, &r);
        cuda_rows_free(&r);
    }
    cuda_rows_free(&want);
    cuda_free(&alone.p);
    cuda_free(&all.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges),
        cmocka_unit_test(groups),
        cmocka_unit_test(windows),
        cmocka_unit_test(options),
        cmocka_unit_test(wild_values),
        cmocka_unit_test(wild_without_weight),
        cmocka_unit_test(wild_scales),
        cmocka_unit_test(full_scales),
        cmocka_unit_test(tiny_scales),
        cmocka_unit_test(scales),
        cmocka_unit_test(no_weight),
        cmocka_unit_test(ids_not_seen),
        cmocka_unit_test(far_distances),
        cmocka_unit_test(splits),
        cmocka_unit_test(last_without_keys),
        cmocka_unit_test(many_parts),
        cmocka_unit_test(company),
    };
    return cmocka_run_group_tests_name("cuda_prefill", tests, NULL, NULL);
}
