/* Block tables and memory of every layout: ids, contents, NaN where nobody may read; and the
 * loops that are yardsticks, with the threads that run them. */
#include "bench_test.h"

#include "attention_memory.h"
#include "bandwidth.h"
#include "half_floats.h"

#include <math.h>

static int32_t kv_len[] = { 33, 1, 16, 200 };
static const int32_t expected_blocks[] = { 3, 1, 1, 13 }; /* of 16 tokens */

static void check_table(const struct layout_table *t, int32_t n_spare)
{
    bool used[64] = { true }; /* block 0 is never handed out */
    assert_int_equal(t->n_used, 18);
    assert_int_equal(t->n_blocks, 18 + n_spare + 1);
    assert_int_equal(t->stride, 13);
    for (int b = 0; b < 4; b++)
        for (int i = 0; i < 13; i++) {
            const int32_t id = t->ids[b * 13 + i];
            if (i >= expected_blocks[b]) {
                assert_int_equal(id, -1);
                continue;
            }
            assert_in_range(id, 1, t->n_blocks - 1);
            assert_false(used[id]);
            used[id] = true;
        }
}

static void test_tables(void **state)
{
    struct bench_error err;
    struct layout_table t, other;
    (void)state;
    for (int layout = LAYOUT_PAGED_SEQ; layout < LAYOUT_COUNT; layout++) {
        struct bench_rng rng = { 5 };
        assert_true(layout_is_paged((enum bench_layout)layout));
        assert_true(layout_build((enum bench_layout)layout, kv_len, 4, 16, 7, &rng, &t, &err));
        check_table(&t, 7);
        if (layout == LAYOUT_PAGED_SEQ)
            for (int i = 0; i < 13; i++) assert_int_equal(t.ids[3 * 13 + i], 6 + i);
        if (layout == LAYOUT_PAGED_REVERSED) {
            assert_int_equal(t.ids[0], 25);
            assert_int_equal(t.ids[2], 23);
            assert_int_equal(t.ids[3 * 13], 20);
        }
        if (layout == LAYOUT_PAGED_RANDOM) { /* the spares are not always the last ones */
            bool high = false;
            for (int i = 0; i < 52; i++) high = high || t.ids[i] > 18;
            assert_true(high);
            assert_true(
                layout_build((enum bench_layout)layout, kv_len, 4, 16, 7, &rng, &other, &err));
            assert_memory_not_equal(t.ids, other.ids, 52 * sizeof(int32_t));
            layout_free(&other);
        }
        layout_free(&t);
    }
    assert_false(layout_is_paged(LAYOUT_IDENTITY_TABLE));
}

static struct attn_shape make_shape(pkv_dtype dtype)
{
    static int32_t q_len[] = { 1, 1, 1, 1 }, q_indptr[] = { 0, 1, 2, 3, 4 };
    struct bench_error err;
    struct attn_shape s = { 4, 4,  q_len, kv_len, q_indptr, 200, 250, 4,
                            2, 16, 2,     dtype,  PKV_F16,  11,  NULL };
    assert_true(attn_numbers_init(&s, &err));
    return s;
}

static void check_floats(const pkv_scales *s, bool expected, int64_t block, int32_t token,
                         int32_t head, float value)
{
    assert_int_equal(s->data != NULL, expected);
    if (!expected) return;
    assert_near(s->data[block * s->block_stride + token * s->token_stride + head * s->head_stride],
                value, 0);
}

/* Every logical row must be where views and table say. Walks the table with its own arithmetic. */
static void check_contents(const struct attn_memory *m, const struct attn_shape *s)
{
    const int64_t bits = pkv_dtype_bits(s->dtype);
    for (int32_t l = 0; l < s->n_layers; l++)
        for (int32_t b = 0; b < 4; b++)
            for (int32_t t = 0; t < kv_len[b]; t++)
                for (int32_t h = 0; h < 2; h++)
                    for (int is_v = 0; is_v < 2; is_v++) {
                        const pkv_kv_view *v = is_v ? &m->v[l] : &m->k[l];
                        const int64_t block =
                            m->table.ids ? m->table.ids[b * m->table.stride + t / m->block_tokens]
                                         : b;
                        const int64_t at = block * v->block_stride + h * v->head_stride +
                                           t % m->block_tokens * v->token_stride;
                        const struct attn_row_place place = { l, b, h, t, is_v != 0 };
                        assert_in_range(block, 0, v->n_blocks - 1);
                        assert_memory_equal((const char *)v->data + at * bits / 8,
                                            attn_logical_row(s, &place), (size_t)(16 * bits / 8));
                        check_floats(&v->scales, attn_has_scales(s->dtype), block,
                                     t % m->block_tokens, h, attn_logical_scale(s, &place));
                        check_floats(&v->zeros, attn_has_zeros(s->dtype), block,
                                     t % m->block_tokens, h, attn_logical_zero(s, &place));
                    }
}

static void test_contents(void **state)
{
    (void)state;
    for (int d = 0; d < PKV_DTYPE_COUNT; d++) {
        struct attn_shape s = make_shape((pkv_dtype)d);
        struct attn_memory m[LAYOUT_COUNT];
        struct bench_error err;
        for (int layout = 0; layout < LAYOUT_COUNT; layout++) {
            assert_true(attn_memory_init(&m[layout], &s, (enum bench_layout)layout, 16, true,
                                         &m[LAYOUT_CONTIG_HND], &err));
            attn_memory_fill(&m[layout], &s);
            check_contents(&m[layout], &s);
        }
        /* Renaming moves the blocks and keeps the content. */
        struct attn_memory *random = &m[LAYOUT_PAGED_RANDOM];
        const int32_t first = random->table.ids[3 * random->table.stride];
        assert_true(attn_memory_rename(random, &s, LAYOUT_PAGED_RANDOM, 99, &err));
        assert_true(random->table.ids[3 * random->table.stride] != first);
        attn_memory_fill(random, &s);
        check_contents(random, &s);
        for (int layout = LAYOUT_COUNT - 1; layout >= 0; layout--) attn_memory_deinit(&m[layout]);
        free(s.numbers);
    }
}

/* Of a paged pool: NaN in the null block, in blocks nobody uses and behind the last token. */
static void test_nan_guards(void **state)
{
    struct attn_shape s = make_shape(PKV_F16);
    struct attn_memory m;
    struct bench_error err;
    int n_guards = 0;
    (void)state;
    assert_true(attn_memory_init(&m, &s, LAYOUT_PAGED_RANDOM, 16, true, NULL, &err));
    attn_memory_fill(&m, &s);
    for (int32_t block = 0; block < m.table.n_blocks; block++)
        for (int32_t t = 0; t < 16; t++) {
            bool meant = false;
            for (int b = 0; b < 4; b++)
                for (int i = 0; i < expected_blocks[b]; i++)
                    if (m.table.ids[b * m.table.stride + i] == block)
                        meant = i * 16 + t < kv_len[b];
            const int64_t at = block * m.k[1].block_stride + t * m.k[1].token_stride;
            const float x = number_get(m.k[1].data, PKV_F16, at);
            assert_int_equal(isnan(x) != 0, !meant);
            n_guards += !meant;
        }
    assert_int_equal(n_guards, m.table.n_blocks * 16 - 250);
    attn_memory_deinit(&m);
    free(s.numbers);
}

/* Every read kernel of every level adds up to what a plain loop does. */
static void test_sums(void **state)
{
    static const pkv_isa ceilings[] = { PKV_ISA_BEST,   PKV_ISA_SCALAR,     PKV_ISA_AVX2,
                                        PKV_ISA_AVX512, PKV_ISA_AVX512BF16, PKV_ISA_NEON };
    struct bandwidth_loops loops;
    uint64_t *data = aligned_alloc(64, 65536 * 8);
    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < 65536; i++) data[i] = bench_mix(i + 1);
    for (size_t c = 0; c < sizeof(ceilings) / sizeof(ceilings[0]); c++) {
        const pkv_isa isa = bandwidth_kernels(ceilings[c], &loops);
        if (ceilings[c] != PKV_ISA_BEST && pkv_isa_check(ceilings[c], NULL) == PKV_OK)
            assert_true(isa <= ceilings[c]);
        for (size_t words = 0; words < 2000; words += 2) {
            const uint64_t *from = data + words % 32 * 2; /* 16-byte aligned */
            uint64_t expected = 0;
            for (size_t i = 0; i < words; i++) expected += from[i];
            for (int way = 0; way < BANDWIDTH_N_WAYS; way++)
                assert_true(loops.sum[way](from, words * 8) == expected);
            assert_true(loops.sum_ahead(from, words * 8, data) == expected);
        }
    }
    free(data);
}

/* What a bench team's threads leave behind, turn after turn: every part once. */
struct counted {
    int32_t seen[4], n;
};
static void count_part(void *ctx, int32_t i, int32_t n)
{
    struct counted *c = ctx;
    c->seen[i]++;
    if (i == 0) c->n = n;
}

static void test_team(void **state)
{
    struct bench_error err;
    (void)state;
    for (int32_t n = 1; n <= 4; n++) {
        struct bench_team *team;
        struct counted c = { { 0 }, 0 };
        assert_true(bench_team_create(n, &team, &err));
        for (int turn = 0; turn < 200; turn++) bench_team_run(team, count_part, &c);
        bench_team_destroy(team);
        assert_int_equal(c.n, n);
        for (int32_t i = 0; i < 4; i++) assert_int_equal(c.seen[i], i < n ? 200 : 0);
    }
    bench_team_destroy(NULL);
    /* Parts cover everything once, in whole steps but for the end. */
    int64_t from, to, at = 0;
    for (int32_t i = 0; i < 3; i++) {
        bench_team_part(1000, 64, i, 3, &from, &to);
        assert_true(from == at && from % 64 == 0);
        at = to;
    }
    assert_int_equal(at, 1000);
}

/* The arithmetic loops exist where their level does, and last as long as they should at most. */
static void test_peaks(void **state)
{
    struct peak_loop loop;
    (void)state;
    bandwidth_peak(PKV_ISA_BEST, &loop);
    assert_true(loop.run && loop.flops >= 12 * 4 * 2);
    const struct bench_clock clock = bench_clock_raw();
    const uint64_t start = clock.now_ns(clock.ctx);
    loop.run(1000000);
    const double gflops = 1e6 * loop.flops / (double)(clock.now_ns(clock.ctx) - start);
    /* A loop that was optimised away would do more than two units of 16 lanes at 10 GHz. */
    assert_true(gflops < 10 * 2 * 16 * 2);
    bandwidth_peak_bf16(PKV_ISA_SCALAR, &loop);
    assert_true(loop.run == NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),     cmocka_unit_test(test_contents),
        cmocka_unit_test(test_nan_guards), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_team),       cmocka_unit_test(test_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
