/* Attention over long rows, launched by itself: edges of its tiles, how it shares out its work, and
 * that this leaves no trace. Whatever the grid, results stay near the CPU's. */
#include "cuda_problem.h"
#include "kernels/cuda/attn_prefill.h"

#include <math.h>

#define MAX_CTAS 300

struct unit {
    pkv_dtype dtype, q_dtype;
    int32_t dim; /* that its class holds */
    int (*prepare)(struct pkv__kernel_cost *cost);
    int (*launch)(const void *params, int64_t n_ctas, void *stream);
};
#define UNIT(DTYPE, QTYPE, type, dim)                                                              \
    {                                                                                              \
        PKV_##DTYPE, PKV_##QTYPE, dim, pkv__prefill_##type##_##dim##_prepare,                      \
            pkv__prefill_##type##_##dim##_launch                                                   \
    }
static const struct unit units[] = {
    UNIT(F16, F16, f16, 64),    UNIT(F16, BF16, f16, 128),   UNIT(F16, F16, f16, 256),
    UNIT(BF16, BF16, bf16, 64), UNIT(BF16, BF16, bf16, 128), UNIT(BF16, BF16, bf16, 256),
    UNIT(E4M3, F16, e4m3, 64),  UNIT(E4M3, BF16, e4m3, 128), UNIT(E5M2, BF16, e5m2, 64),
    UNIT(E5M2, F16, e5m2, 128), UNIT(I8, F16, int8, 64),     UNIT(I8, BF16, int8, 128),
    UNIT(U4, BF16, int4, 64),   UNIT(U4, F16, int4, 128),
};
enum { N_UNITS = sizeof units / sizeof units[0] };

/* Units, windows and grids are many; the slower builds take every seventh of them. */
static int32_t step(void)
{
    return strcmp(device_build(), "plain") == 0 ? 1 : 7;
}

/* ------------------------------------------------------------------ launches */

struct setup {
    const struct unit *unit;
    struct cuda_problem p;
    struct pkv__cuda_head *head;
    float *partials;
    bool invariant;
};

static void begin(struct setup *s, const struct unit *unit, int32_t dim, int32_t q_heads,
                  int32_t kv_heads, const struct cuda_seq *seqs, int32_t n)
{
    const struct cuda_shape shape = { unit->dtype, unit->q_dtype, q_heads, kv_heads, dim, 16 };
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

/* All outputs are NaN before; no counter has moved after. */
static struct cuda_rows run(struct setup *s, int64_t n_ctas)
{
    struct cuda_problem *const p = &s->p;
    const struct pkv__cuda_head before = *s->head;
    struct pkv__cuda_attn a = { .q = p->q, .out = p->out, .k = p->k, .v = p->v };
    a.batch = p->batch;
    a.opts = p->opts;
    a.lse = p->lse;
    a.scale = 1.f / sqrtf((float)p->shape.dim);
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
    for (int32_t i = 0; i < N_UNITS; i += step()) {
        struct setup s;
        begin(&s, &units[i], i % 3 == 1 ? units[i].dim : units[i].dim - 8 * (i % 5), 3, 1, seqs, 8);
        cuda_schedule(i);
        assert_near_cpu(&s, 2);
        cuda_free(&s.p);
    }
}

/* Windows that begin and end beside edges of tiles, with and without causal. */
static void windows(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 100, 260 }, { 2, 70, 70 } };
    static const int32_t sizes[] = { -1, 0, 1, 62, 63, 64, 65, 128 };
    struct setup s;
    begin(&s, &units[1], 80, 2, 2, seqs, 2);
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
    for (int32_t i = 0; i < N_UNITS; i += step()) {
        struct setup s;
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

/* NaN and infinity in V of keys that only some rows of a tile see. */
static void wild_values(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 64, 64 } };
    struct setup s;
    begin(&s, &units[0], 64, 1, 1, seqs, 1);
    uint16_t *const v = s.p.v.data;
    struct cuda_rows clean = run(&s, 1);
    v[s.p.table[1] * s.p.v.block_stride + 3 * s.p.v.token_stride + 5] = 0x7e00; /* NaN, key 19 */
    v[s.p.table[2] * s.p.v.block_stride + 9] = 0x7c00;                          /* inf, key 32 */
    struct cuda_rows r = run(&s, 1);
    assert_memory_equal(clean.lse, r.lse, 64 * r.lse_row);
    for (int32_t i = 0; i < 64; i++)
        for (int32_t d = 0; d < 64; d++) {
            uint16_t got, was;
            memcpy(&got, r.o + i * 128 + d * 2, 2);
            memcpy(&was, clean.o + i * 128 + d * 2, 2);
            if (d == 5 && i >= 19) assert_true((got & 0x7fff) > 0x7c00);
            else if (d == 9 && i >= 32) assert_int_equal(got, 0x7c00);
            else assert_int_equal(got, was);
        }
    cuda_rows_free(&clean);
    cuda_rows_free(&r);
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
    for (int32_t i = 0; i < 5; i += step()) {
        struct setup s;
        begin(&s, &units[of[i]], 64, 3, 1, seqs, 2);
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
    begin(&alone, &units[3], 64, 2, 1, &seqs[AT], 1);
    begin(&all, &units[3], 64, 2, 1, seqs, MANY);
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
        cmocka_unit_test(edges),       cmocka_unit_test(windows), cmocka_unit_test(options),
        cmocka_unit_test(wild_values), cmocka_unit_test(splits),  cmocka_unit_test(company),
    };
    return cmocka_run_group_tests_name("cuda_prefill", tests, NULL, NULL);
}
