/* Merges of states on the device against the formula in double, and against the CPU where numbers
 * end: any number of states up to what a launch takes, none, some or all of them empty, in their
 * own place and on the first state. */
#include "cuda_test.h"
#include "oracle/oracle_attention.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

enum { MAX_STATES = 64 };

/* States of one shape on the device, with copies here. */
struct states {
    pkv_tensor3 o[MAX_STATES + 1], out; /* data: device */
    pkv_lse lse[MAX_STATES + 1], out_lse;
    void *o_host[MAX_STATES + 1];
    float *lse_host[MAX_STATES + 1];
    int32_t n, dim, n_heads;
    int64_t n_rows;
};

static size_t o_bytes(const pkv_tensor3 *t)
{
    return (size_t)((t->n_rows - 1) * t->row_stride + (t->n_heads - 1) * t->head_stride + t->dim) *
           (size_t)oracle_bytes(t->dtype);
}

static size_t lse_floats(const struct states *s, const pkv_lse *l)
{
    return (size_t)((s->n_rows - 1) * l->row_stride + (s->n_heads - 1) * l->head_stride + 1);
}

static int64_t o_at(const pkv_tensor3 *t, int64_t row, int32_t head)
{
    return row * t->row_stride + head * t->head_stride;
}

static int64_t lse_at(const pkv_lse *l, int64_t row, int32_t head)
{
    return row * l->row_stride + head * l->head_stride;
}

/* Strides of state i: [row][head] or [head][row], with more or less between them. */
static pkv_tensor3 shape_of(const struct states *s, pkv_dtype dtype, int32_t i)
{
    const int64_t step = s->dim + 16 * (i % 3);
    pkv_tensor3 t = { NULL, dtype, s->n_heads, s->dim, s->n_rows, s->n_heads * step, step };
    if (i % 2 == 1) {
        t.row_stride = step;
        t.head_stride = s->n_rows * step;
    }
    return t;
}

static struct states make_rows(struct cuda_rng *r, pkv_dtype dtype, pkv_dtype out_dtype, int32_t n,
                               int32_t dim, int64_t n_rows, bool base2)
{
    struct states s = { .n = n, .dim = dim, .n_heads = 3, .n_rows = n_rows };
    for (int32_t i = 0; i <= n; i++) { /* the last one is out */
        pkv_tensor3 t = shape_of(&s, i < n ? dtype : out_dtype, i);
        pkv_lse l = { NULL, 1, s.n_rows + i % 2, base2 };
        t.data = device_alloc(o_bytes(&t));
        l.data = device_alloc(lse_floats(&s, &l) * sizeof(float));
        if (i == n) {
            s.out = t;
            s.out_lse = l;
            break;
        }
        s.o_host[i] = malloc(o_bytes(&t));
        s.lse_host[i] = malloc(lse_floats(&s, &l) * sizeof(float));
        memset(s.o_host[i], 0xff, o_bytes(&t));
        for (int64_t row = 0; row < s.n_rows; row++)
            for (int32_t h = 0; h < s.n_heads; h++) {
                s.lse_host[i][lse_at(&l, row, h)] = (float)cuda_random(r, 2000) / 100.f - 10.f;
                for (int32_t d = 0; d < dim; d++)
                    oracle_store(dtype, s.o_host[i], o_at(&t, row, h) + d,
                                 (double)cuda_random(r, 2001) / 250 - 4);
            }
        s.o[i] = t;
        s.lse[i] = l;
    }
    return s;
}

static struct states make_states(struct cuda_rng *r, pkv_dtype dtype, pkv_dtype out_dtype,
                                 int32_t n, int32_t dim, bool base2)
{
    return make_rows(r, dtype, out_dtype, n, dim, 5, base2);
}

static void upload(const struct states *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        device_upload(s->o[i].data, s->o_host[i], o_bytes(&s->o[i]));
        device_upload(s->lse[i].data, s->lse_host[i], lse_floats(s, &s->lse[i]) * sizeof(float));
    }
}

static void free_states(struct states *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        device_free(s->o[i].data);
        device_free(s->lse[i].data);
        free(s->o_host[i]);
        free(s->lse_host[i]);
    }
    device_free(s->out.data);
    device_free(s->out_lse.data);
}

/* What the device holds of a tensor or an lse. */
static void *fetched(const void *device, size_t bytes)
{
    void *p = malloc(bytes);
    assert_non_null(p);
    device_download(p, device, bytes);
    return p;
}

static void judge_elem(const struct states *s, const struct oracle_merged *want, double got)
{
    const double bound = 4 * s->n * 0x1p-24 * want->o_abs +
                         oracle_unit_roundoff(s->out.dtype) * fabs(want->o) +
                         oracle_smallest(s->out.dtype);
    if (want->empty ? got != 0 || signbit(got) : !(fabs(got - want->o) <= bound))
        fail_msg("%d states of %s, dim %d: %.9g, want %.9g, bound %.3g", s->n,
                 pkv_dtype_name(s->o[0].dtype), s->dim, got, want->o, bound);
}

/* The contract's formula, element by element; what lies between rows stays 0xff. */
static void judge(const struct states *s)
{
    double o[MAX_STATES], lse[MAX_STATES];
    uint8_t *out = fetched(s->out.data, o_bytes(&s->out));
    float *out_lse = fetched(s->out_lse.data, lse_floats(s, &s->out_lse) * sizeof(float));
    const size_t elem = (size_t)oracle_bytes(s->out.dtype);
    struct oracle_merged want = { 0 };
    for (int64_t row = 0; row < s->n_rows; row++)
        for (int32_t h = 0; h < s->n_heads; h++) {
            const int64_t at = o_at(&s->out, row, h);
            for (int32_t i = 0; i < s->n; i++)
                lse[i] = (double)s->lse_host[i][lse_at(&s->lse[i], row, h)];
            for (int32_t d = 0; d < s->dim; d++) {
                for (int32_t i = 0; i < s->n; i++)
                    o[i] = oracle_load(s->o[i].dtype, s->o_host[i], o_at(&s->o[i], row, h) + d);
                want = oracle_merge(o, lse, s->n, s->lse[0].base2);
                judge_elem(s, &want, oracle_load(s->out.dtype, out, at + d));
            }
            const double got = (double)out_lse[lse_at(&s->out_lse, row, h)];
            const double bound = (4 + s->n) * 0x1p-23 * (1 + fabs(want.lse));
            if (want.empty ? got != want.lse : !(fabs(got - want.lse) <= bound))
                fail_msg("lse %.9g, want %.9g", got, want.lse);
            memset(out + (size_t)at * elem, 0xff, (size_t)s->dim * elem);
        }
    for (size_t i = 0; i < o_bytes(&s->out); i++) assert_int_equal(out[i], 0xff);
    free(out);
    free(out_lse);
}

static void set_empty(struct states *s, int32_t i, int64_t row, int32_t head)
{
    s->lse_host[i][lse_at(&s->lse[i], row, head)] = -INFINITY;
    for (int32_t d = 0; d < s->dim; d++)
        oracle_store(s->o[i].dtype, s->o_host[i], o_at(&s->o[i], row, head) + d, (double)NAN);
}

static const pkv_dtype floats[3] = { PKV_F32, PKV_F16, PKV_BF16 };

static void test_any_number_of_states(void **state)
{
    (void)state;
    static const int32_t numbers[] = { 1, 2, 3, 4, 5, 8, 9, 63, 64 };
    for (int i = 0; i < 9 * 3; i++) {
        struct cuda_rng r = { (uint64_t)i };
        pkv_backend *be = cuda_backend(NULL, 1 + i % 3);
        struct states s = make_states(&r, floats[i % 3], floats[(i / 3 + i) % 3], numbers[i / 3],
                                      i % 2 ? 64 : 40, i % 5 == 0);
        upload(&s);
        cuda_schedule(i);
        assert_device_ok(
            pkv_states_merge(be, s.o, s.lse, s.n, NULL, &s.out, i % 4 ? &s.out_lse : NULL));
        if (i % 4) judge(&s);
        free_states(&s);
        pkv_backend_destroy(be);
    }
}

static void test_all_dims(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int32_t dim = 8; dim <= 256; dim += 8)
        for (int t = 0; t < 3; t++) {
            struct cuda_rng r = { (uint64_t)dim };
            struct states s = make_states(&r, floats[t], floats[(t + dim / 8) % 3], 2, dim, false);
            upload(&s);
            cuda_schedule(dim / 8 + t);
            assert_device_ok(pkv_states_merge(be, s.o, s.lse, 2, NULL, &s.out, &s.out_lse));
            judge(&s);
            free_states(&s);
        }
    pkv_backend_destroy(be);
}

/* Fewer (row, head) than a CTA has warps, and more than those of the grid take at once, in place.
 */
static void test_few_and_many_rows(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 1);
    for (int i = 0; i < 6; i++) {
        struct cuda_rng r = { (uint64_t)i };
        const pkv_dtype dtype = floats[i % 3];
        struct states s = make_rows(&r, dtype, dtype, 2, 40, i < 3 ? 1 : 180, false);
        device_free(s.out.data);
        device_free(s.out_lse.data);
        upload(&s);
        cuda_schedule(i);
        s.out = s.o[0];
        s.out_lse = s.lse[0];
        assert_device_ok(pkv_states_merge(be, s.o, s.lse, 2, NULL, &s.out, &s.out_lse));
        judge(&s);
        s.out.data = NULL; /* it is state 0's */
        s.out_lse.data = NULL;
        free_states(&s);
    }
    pkv_backend_destroy(be);
}

/* Every subset of four states is empty, in all rows; a state without keys has no bytes to read: its
 * memory ends after 16 of them. */
static void test_empty_in_every_order(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int set = 0; set < 16; set++)
        for (int t = 0; t < 3; t++) {
            struct cuda_rng r = { (uint64_t)set };
            struct states s = make_states(&r, floats[t], floats[t], 4, 72, t == 1);
            upload(&s);
            for (int32_t i = 0; i < 4; i++) {
                if (!(set >> i & 1)) continue;
                for (int64_t row = 0; row < s.n_rows; row++)
                    for (int32_t h = 0; h < s.n_heads; h++) set_empty(&s, i, row, h);
                device_free(s.o[i].data);
                s.o[i].data = device_alloc(16);
                device_upload(s.lse[i].data, s.lse_host[i],
                              lse_floats(&s, &s.lse[i]) * sizeof(float));
            }
            cuda_schedule(set);
            assert_device_ok(pkv_states_merge(be, s.o, s.lse, 4, NULL, &s.out, &s.out_lse));
            judge(&s);
            free_states(&s);
        }
    pkv_backend_destroy(be);
}

/* Empty here and there, one row of nothing but empty states; the same bits in every schedule, and
 * in the place of the first state. */
static void test_in_place(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int t = 0; t < 3; t++)
        for (int32_t dim = 24; dim <= 256; dim += 232) {
            struct cuda_rng r = { (uint64_t)t };
            struct states s = make_states(&r, floats[t], floats[t], 5, dim, false);
            for (int32_t i = 0; i < 5; i++) {
                set_empty(&s, i, 2, 1);
                set_empty(&s, i, i, i % 3);
            }
            s.out.row_stride = s.o[0].row_stride; /* so that images can be compared */
            s.out.head_stride = s.o[0].head_stride;
            device_free(s.out.data);
            s.out.data = device_alloc(o_bytes(&s.out));
            upload(&s);
            cuda_schedule(0);
            assert_device_ok(pkv_states_merge(be, s.o, s.lse, 5, NULL, &s.out, &s.out_lse));
            judge(&s);
            uint8_t *want = fetched(s.out.data, o_bytes(&s.out));
            float *want_lse = fetched(s.out_lse.data, lse_floats(&s, &s.out_lse) * sizeof(float));
            for (int i = 0; i < DEVICE_N_SCHEDULES; i++) {
                pkv_tensor3 out = s.o[0];
                upload(&s);
                cuda_schedule(i);
                assert_device_ok(pkv_states_merge(be, s.o, s.lse, 5, NULL, &out, &s.lse[0]));
                uint8_t *got = fetched(s.o[0].data, o_bytes(&s.out));
                float *got_lse = fetched(s.lse[0].data, lse_floats(&s, &s.lse[0]) * sizeof(float));
                for (int64_t row = 0; row < s.n_rows; row++)
                    for (int32_t h = 0; h < s.n_heads; h++) {
                        const size_t elem = (size_t)oracle_bytes(s.out.dtype);
                        const size_t at = (size_t)o_at(&s.out, row, h) * elem;
                        assert_memory_equal(got + at, want + at, (size_t)dim * elem);
                        assert_memory_equal(got_lse + lse_at(&s.lse[0], row, h),
                                            want_lse + lse_at(&s.out_lse, row, h), sizeof(float));
                    }
                free(got);
                free(got_lse);
            }
            free(want);
            free(want_lse);
            free_states(&s);
        }
    pkv_backend_destroy(be);
}

/* lse of NaN and infinities, states of NaN and infinities: NaN, infinite or finite as on the CPU,
 * row by row. */
static void test_where_numbers_end(void **state)
{
    (void)state;
    const float cruel[6] = { (float)NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0.f };
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *cpu = NULL, *be = cuda_backend(NULL, 2);
    cfg.max_isa = PKV_ISA_SCALAR;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &cpu), PKV_OK);
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct cuda_rng r = { seed };
        struct states s = make_states(&r, floats[seed % 3], PKV_F32, 3, 8, seed % 4 == 0);
        for (int32_t i = 0; i < 3; i++)
            for (int64_t row = 0; row < s.n_rows; row++) {
                const int32_t h = (int32_t)cuda_random(&r, 3);
                s.lse_host[i][lse_at(&s.lse[i], row, h)] = cruel[cuda_random(&r, 6)];
                oracle_store(s.o[i].dtype, s.o_host[i],
                             o_at(&s.o[i], row, (int32_t)cuda_random(&r, 3)) + cuda_random(&r, 8),
                             (double)cruel[cuda_random(&r, 3)]);
            }
        upload(&s);
        pkv_tensor3 o[3], out = s.out;
        pkv_lse lse[3], out_lse = s.out_lse;
        for (int32_t i = 0; i < 3; i++) {
            o[i] = s.o[i];
            lse[i] = s.lse[i];
            o[i].data = s.o_host[i];
            lse[i].data = s.lse_host[i];
        }
        out.data = malloc(o_bytes(&out));
        out_lse.data = malloc(lse_floats(&s, &out_lse) * sizeof(float));
        assert_int_equal(pkv_states_merge(cpu, o, lse, 3, NULL, &out, &out_lse), PKV_OK);
        cuda_schedule((int)seed);
        assert_device_ok(pkv_states_merge(be, s.o, s.lse, 3, NULL, &s.out, &s.out_lse));
        float *got = fetched(s.out.data, o_bytes(&out));
        float *got_lse = fetched(s.out_lse.data, lse_floats(&s, &out_lse) * sizeof(float));
        for (int64_t i = 0; i < s.n_rows * s.n_heads * 9; i++) {
            const int64_t row = i / 9 / s.n_heads, d = i % 9;
            const int32_t h = (int32_t)(i / 9 % s.n_heads);
            const int64_t at = o_at(&out, row, h) + d, l_at = lse_at(&out_lse, row, h);
            const float want = d < 8 ? ((float *)out.data)[at] : out_lse.data[l_at];
            const float is = d < 8 ? got[at] : got_lse[l_at];
            if (isnan(want) != isnan(is) || (isinf(want) && want != is) || isinf(want) != isinf(is))
                fail_msg("seed %u row %d head %d: %g, on the CPU %g", (unsigned)seed, (int)row, h,
                         (double)is, (double)want);
        }
        free(got);
        free(got_lse);
        free(out.data);
        free(out_lse.data);
        free_states(&s);
    }
    pkv_backend_destroy(cpu);
    pkv_backend_destroy(be);
}

/* A state alone comes out bit by bit, wherever it stands, and so does one that outweighs all. */
static void test_one_state_counts(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int i = 0; i < 2 * 3 * 3; i++) {
        struct cuda_rng r = { (uint64_t)i };
        const int32_t full = i % 3, t = i / 3 % 3;
        struct states s = make_states(&r, floats[t], floats[t], 3, 64, false);
        for (int32_t j = 0; j < 3; j++)
            for (int64_t row = 0; row < s.n_rows && j != full; row++)
                for (int32_t h = 0; h < s.n_heads; h++) {
                    if (i < 9) set_empty(&s, j, row, h);
                    else s.lse_host[j][lse_at(&s.lse[j], row, h)] -= 200.f;
                }
        upload(&s);
        cuda_schedule(i);
        assert_device_ok(pkv_states_merge(be, s.o, s.lse, 3, NULL, &s.out, &s.out_lse));
        uint8_t *got = fetched(s.out.data, o_bytes(&s.out));
        float *got_lse = fetched(s.out_lse.data, lse_floats(&s, &s.out_lse) * sizeof(float));
        for (int64_t row = 0; row < s.n_rows; row++)
            for (int32_t h = 0; h < s.n_heads; h++) {
                for (int32_t d = 0; d < s.dim; d++)
                    assert_true(
                        oracle_load(s.out.dtype, got, o_at(&s.out, row, h) + d) ==
                        oracle_load(s.out.dtype, s.o_host[full], o_at(&s.o[full], row, h) + d));
                assert_true(got_lse[lse_at(&s.out_lse, row, h)] ==
                            s.lse_host[full][lse_at(&s.lse[full], row, h)]);
            }
        free(got);
        free(got_lse);
        free_states(&s);
    }
    pkv_backend_destroy(be);
}

/* Rows and heads more than 2^32 elements apart. */
static void test_far_rows(void **state)
{
    (void)state;
    const int64_t stride = (INT64_C(1) << 32) + 16;
    pkv_backend *be = cuda_backend(NULL, 2);
    const float lse[4] = { 1.f, 2.f, 0.f, -1.f };
    pkv_tensor3 o[2], out;
    pkv_lse lses[2];
    for (int i = 0; i < 3; i++) {
        pkv_tensor3 t = { NULL, PKV_F16, 2, 8, 2, stride, 64 };
        t.data = device_alloc_sparse((size_t)(stride + 64 + 8) * 2);
        if (!t.data) skip();
        if (i == 2) {
            out = t;
            break;
        }
        const uint16_t four = 0x4400;
        device_upload((uint16_t *)t.data + stride + 64 + 7, &four, 2);
        o[i] = t;
        lses[i] = (pkv_lse){ device_alloc(sizeof lse), 2, 1, 0 };
        device_upload(lses[i].data, lse, sizeof lse);
    }
    cuda_schedule(2);
    assert_device_ok(pkv_states_merge(be, o, lses, 2, NULL, &out, NULL));
    uint16_t got = 0;
    device_download(&got, (uint16_t *)out.data + stride + 64 + 7, 2);
    assert_int_equal(got, 0x4400);
    for (int i = 0; i < 2; i++) {
        device_free(o[i].data);
        device_free(lses[i].data);
    }
    device_free(out.data);
    pkv_backend_destroy(be);
}

static void test_too_many_states(void **state)
{
    (void)state;
    struct cuda_log log = { "" };
    struct cuda_rng r = { 1 };
    pkv_backend *be = cuda_backend(&log, 2);
    struct states s = make_states(&r, PKV_F16, PKV_F16, 64, 8, false);
    s.o[64] = s.o[63];
    s.lse[64] = s.lse[63];
    upload(&s);
    const uint64_t before = device_get_totals().launches;
    assert_int_equal(pkv_states_merge(be, s.o, s.lse, 65, NULL, &s.out, &s.out_lse),
                     PKV_E_UNSUPPORTED);
    assert_string_equal(log.text, "merge: 65 states, the kernels take up to 64");
    assert_int_equal(device_get_totals().launches, before);
    free_states(&s);
    pkv_backend_destroy(be);
}

static void test_no_rows(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    pkv_tensor3 t = { NULL, PKV_BF16, 2, 64, 0, 128, 64 };
    const pkv_lse lse = { NULL, 2, 1, 0 };
    const uint64_t before = device_get_totals().launches;
    assert_device_ok(pkv_states_merge(be, &t, &lse, 1, NULL, &t, NULL));
    assert_int_equal(device_get_totals().launches, before);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_states),
        cmocka_unit_test(test_all_dims),
        cmocka_unit_test(test_few_and_many_rows),
        cmocka_unit_test(test_empty_in_every_order),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_where_numbers_end),
        cmocka_unit_test(test_one_state_counts),
        cmocka_unit_test(test_far_rows),
        cmocka_unit_test(test_too_many_states),
        cmocka_unit_test(test_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
