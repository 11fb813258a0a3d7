/* Which row sees which key: visible.c against the formula of attention.h, key by key. */
#include "case_random.h"
#include "kernels/kernels_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ROWS = 80, MAX_KEYS = 150, ROW0 = 3, WORDS = 4 };

struct setup {
    struct pkv__attn_call call;
    struct pkv__attn_unit unit;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    int32_t q_pos[ROW0 + MAX_ROWS];
    uint32_t mask[ROW0 + MAX_ROWS][WORDS];
};

/* ------------------------------------------------------------------ the formula */

static int64_t naive_row_pos(const struct setup *s, int32_t i)
{
    if (s->batch.q_pos) return s->q_pos[ROW0 + i];
    return (int64_t)s->unit.pos0 + s->unit.kv_len - s->unit.q_len + i;
}

static int64_t naive_key_pos(const struct setup *s, int32_t j)
{
    const int64_t row = (int64_t)j - (s->unit.kv_len - s->unit.q_len);
    if (s->batch.q_pos && !s->batch.q_detached && row >= 0) return s->q_pos[ROW0 + row];
    return (int64_t)s->unit.pos0 + j;
}

static bool naive_sees(const struct setup *s, int32_t i, int32_t j)
{
    const int64_t p = naive_row_pos(s, i), n = naive_key_pos(s, j);
    if (s->opts.causal && n > p) return false;
    if (s->opts.window_left >= 0 && p - n > s->opts.window_left) return false;
    if (s->opts.window_right >= 0 && n - p > s->opts.window_right) return false;
    const int64_t bit = (int64_t)j - (s->unit.kv_len - s->unit.q_len);
    if (!s->opts.mask || bit < 0) return true;
    if (bit >= s->opts.mask_stride * 32) return false;
    const uint32_t *row = s->opts.mask + (ROW0 + i) * s->opts.mask_stride;
    return row[bit / 32] >> (bit % 32) & 1;
}

/* ------------------------------------------------------------------ the comparison */

static void check_row(const struct setup *s, struct rng *r, int32_t i)
{
    const struct pkv__key_range hull = pkv__visible_hull(&s->call, &s->unit, i);
    assert_true(hull.lo >= 0 && hull.lo <= hull.hi && hull.hi <= s->unit.kv_len);
    for (int32_t j = 0; j < s->unit.kv_len;) {
        const int32_t most = s->unit.kv_len - j < 64 ? s->unit.kv_len - j : 64;
        const int32_t n = rng_chance(r, 50) ? most : rng_int(r, 1, most);
        const uint64_t bits = pkv__visible_bits(&s->call, &s->unit, i, j, n);
        uint64_t want = 0;
        for (int32_t b = 0; b < n; b++)
            if (naive_sees(s, i, j + b)) want |= UINT64_C(1) << b;
        if (bits != want) {
            fprintf(stderr, "row %d, keys %d .. %d: %llx instead of %llx\n", i, j, j + n - 1,
                    (unsigned long long)bits, (unsigned long long)want);
            fail();
        }
        for (int32_t b = 0; b < n; b++) {
            if (want >> b & 1) assert_true(j + b >= hull.lo && j + b < hull.hi);
            assert_true(pkv__key_ahead(&s->call, &s->unit, i, j + b) ==
                        naive_key_pos(s, j + b) - naive_row_pos(s, i));
        }
        j += n;
    }
}

static void check_all_rows(const struct setup *s, struct rng *r)
{
    for (int32_t i = 0; i < s->unit.q_len; i++) {
        check_row(s, r, i);
        if (!pkv__rows_are_ranges(&s->call)) continue;
        const struct pkv__key_range range = pkv__visible_keys(&s->call, &s->unit, i);
        for (int32_t j = 0; j < s->unit.kv_len; j++)
            assert_int_equal(j >= range.lo && j < range.hi, naive_sees(s, i, j));
    }
}

static void begin(struct setup *s)
{
    memset(s, 0, sizeof *s);
    s->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    s->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    s->call.batch = &s->batch;
    s->call.opts = &s->opts;
    s->unit.row0 = ROW0;
}

static int32_t draw_window(struct rng *r)
{
    static const int32_t special[] = { -1, -1, 0, 1, INT32_MAX };
    return rng_chance(r, 50) ? special[rng_int(r, 0, 4)] : rng_int(r, 0, MAX_KEYS);
}

static int32_t draw_pos0(struct rng *r)
{
    static const int32_t special[] = { 0, 5, -7, INT32_MAX, INT32_MIN, INT32_MAX - 40 };
    return special[rng_int(r, 0, 5)];
}

static void draw(struct setup *s, struct rng *r)
{
    begin(s);
    s->unit.q_len = rng_chance(r, 20) ? 1 : rng_int(r, 1, MAX_ROWS);
    s->unit.kv_len = rng_chance(r, 20) ? rng_int(r, 0, s->unit.q_len) : rng_int(r, 1, MAX_KEYS);
    s->unit.pos0 = draw_pos0(r);
    s->opts.causal = rng_chance(r, 50);
    s->opts.window_left = draw_window(r);
    s->opts.window_right = draw_window(r);
    if (rng_chance(r, 40)) {
        s->batch.q_pos = s->q_pos;
        s->batch.q_detached = rng_chance(r, 30);
        for (int32_t i = 0; i < s->unit.q_len; i++) {
            const int64_t near = (int64_t)s->unit.pos0 + rng_int(r, -5, MAX_KEYS);
            const bool fits = near >= INT32_MIN && near <= INT32_MAX;
            s->q_pos[ROW0 + i] = fits && rng_chance(r, 95) ? (int32_t)near : draw_pos0(r);
        }
    }
    if (rng_chance(r, 40) && !s->batch.q_detached) { /* one word too few, now and then */
        s->opts.mask = &s->mask[0][0];
        s->opts.mask_stride = rng_chance(r, 20) ? (s->unit.q_len - 1) / 32 : WORDS;
        for (int i = 0; i < (ROW0 + MAX_ROWS) * WORDS; i++)
            s->mask[i / WORDS][i % WORDS] = (uint32_t)rng_next(r);
    }
}

static void random_options(void **state)
{
    static struct setup s;
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct rng r = { seed };
        draw(&s, &r);
        check_all_rows(&s, &r);
    }
}

/* By hand: five keys, the last three of them those of three rows. */
static void worked_example(void **state)
{
    static struct setup s;
    (void)state;
    begin(&s);
    s.unit.q_len = 3;
    s.unit.kv_len = 5;
    s.unit.pos0 = 100;
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 0, 0, 5), 0x7); /* causal */
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 2, 1, 4), 0xf);
    s.opts.window_left = 1;
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 1, 0, 5), 0xc);
    s.opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    s.opts.causal = 0;
    s.opts.mask = &s.mask[0][0]; /* a tree: rows 1 and 2 are children of row 0 */
    s.opts.mask_stride = WORDS;
    s.mask[ROW0][0] = 1, s.mask[ROW0 + 1][0] = 3, s.mask[ROW0 + 2][0] = 5;
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 0, 0, 5), 0x07);
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 1, 0, 5), 0x0f);
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 2, 0, 5), 0x17);
    s.opts.mask = NULL;
    s.opts.causal = 1; /* positions of a tree: 102, 103, 103; siblings see each other then */
    s.batch.q_pos = s.q_pos;
    s.q_pos[ROW0] = 102, s.q_pos[ROW0 + 1] = s.q_pos[ROW0 + 2] = 103;
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 1, 0, 5), 0x1f);
    assert_int_equal(pkv__key_ahead(&s.call, &s.unit, 0, 4), 1);
    s.batch.q_detached = 1; /* the prefix pass of a cascade: keys stand at 100 .. 104 */
    s.q_pos[ROW0] = 101;
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 0, 0, 5), 0x3);
    assert_int_equal(pkv__key_ahead(&s.call, &s.unit, 0, 4), 3);
}

/* Fewer keys than rows: the first rows stand before every key. */
static void more_rows_than_keys(void **state)
{
    static struct setup s;
    (void)state;
    begin(&s);
    s.unit.q_len = 4;
    s.unit.kv_len = 2;
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 0, 0, 2), 0);
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 2, 0, 2), 1);
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 3, 0, 2), 3);
    s.opts.causal = 0;
    s.opts.mask = &s.mask[0][0]; /* bits 0 and 1 name no key; bit 2 is key 0 */
    s.opts.mask_stride = WORDS;
    s.mask[ROW0][0] = 0x7;
    assert_int_equal(pkv__visible_bits(&s.call, &s.unit, 0, 0, 2), 1);
}

/* 2^31 - 1 keys and positions at both ends: nothing wraps. */
static void extremes(void **state)
{
    static struct setup s;
    (void)state;
    begin(&s);
    s.unit.q_len = 1;
    s.unit.kv_len = INT32_MAX;
    s.unit.pos0 = INT32_MAX;
    s.opts.window_left = INT32_MAX;
    const struct pkv__key_range all = pkv__visible_hull(&s.call, &s.unit, 0);
    assert_true(all.lo == 0 && all.hi == INT32_MAX);
    assert_true(pkv__visible_bits(&s.call, &s.unit, 0, INT32_MAX - 64, 64) == UINT64_MAX);
    s.batch.q_pos = s.q_pos;
    s.batch.q_detached = 1;
    s.q_pos[ROW0] = INT32_MIN; /* all keys are far ahead */
    assert_true(pkv__visible_bits(&s.call, &s.unit, 0, 0, 64) == 0);
    assert_true(pkv__key_ahead(&s.call, &s.unit, 0, INT32_MAX - 1) ==
                (int64_t)INT32_MAX + INT32_MAX - 1 - INT32_MIN);
    s.unit.pos0 = INT32_MIN;
    s.q_pos[ROW0] = INT32_MAX;
    s.opts.window_left = 10; /* key INT32_MAX - 1 stands at -2 */
    assert_true(pkv__visible_bits(&s.call, &s.unit, 0, INT32_MAX - 64, 64) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_example),
        cmocka_unit_test(more_rows_than_keys),
        cmocka_unit_test(extremes),
        cmocka_unit_test(random_options),
    };
    return cmocka_run_group_tests_name("visible", tests, NULL, NULL);
}
