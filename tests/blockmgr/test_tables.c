/* Tables for devices: a copy that only the deltas write equals the rows after every one of them;
 * what sequences share; how kernels see the blocks. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_tables.h"

#define CACHE PKV_MGR_PREFIX_CACHE

enum { ROWS = 8, WIDTH = 64 };

/* One group's table as a device keeps it. */
typedef struct mirror {
    int32_t group, width;
    int32_t id[ROWS][WIDTH];
    pkv_table_range ranges[ROWS];
    int32_t ids[ROWS * WIDTH];
    pkv_delta delta; /* the last one */
} mirror;

static mirror *mirror_of(fx *f, int32_t group)
{
    mirror *d = calloc(1, sizeof *d);
    const int32_t *rows;
    assert_non_null(d);
    d->group = group;
    assert_ok(pkv_blockmgr_rows(f->m, group, &rows, &d->width));
    assert_true(d->width <= WIDTH);
    return d;
}

/* Apply what has changed; at most one range per row, in order of rows, as many ids as they say. */
static void update(fx *f, mirror *d)
{
    int32_t at = 0;
    d->delta = (pkv_delta)PKV_DELTA_INIT;
    assert_ok(pkv_table_delta(f->m, d->group, d->ranges, ROWS, d->ids, ROWS * WIDTH, &d->delta));
    for (int32_t i = 0; i < d->delta.n_ranges; i++) {
        const pkv_table_range *r = &d->ranges[i];
        assert_true(r->row_idx >= 0 && r->row_idx < ROWS && r->first >= 0 && r->n > 0);
        assert_true(r->first + r->n <= d->width);
        if (i > 0) assert_true(d->ranges[i - 1].row_idx < r->row_idx);
        memcpy(&d->id[r->row_idx][r->first], d->ids + at, (size_t)r->n * sizeof d->ids[0]);
        at += r->n;
    }
    assert_int_equal(at, d->delta.n_ids);
}

/* The copy equals the rows of these sequences, and has zeros everywhere else. */
static void equals_rows(fx *f, const mirror *d, const pkv_seq *s, int32_t n)
{
    int32_t want[ROWS][WIDTH] = { { 0 } };
    for (int32_t i = 0; i < n; i++) {
        const int32_t *ids;
        int32_t len;
        if (fx_info(f, s[i]).state != PKV_SEQ_RUNNING) continue;
        assert_ok(pkv_seq_row(f->m, s[i], d->group, &ids, &len));
        memcpy(want[fx_info(f, s[i]).row_idx], ids, (size_t)len * sizeof ids[0]);
    }
    assert_memory_equal(want, d->id, sizeof want);
}

static void one_range(const mirror *d, int32_t row, int32_t first, int32_t n)
{
    assert_int_equal(d->delta.n_ranges, 1);
    assert_int_equal(d->delta.n_ids, n);
    assert_int_equal(d->ranges[0].row_idx, row);
    assert_int_equal(d->ranges[0].first, first);
    assert_int_equal(d->ranges[0].n, n);
}

/* ---------------------------------------------------------------- delta */

static void what_changed_and_no_more(void **state)
{
    (void)state;
    fx *f = fx_new(40, 2, CACHE);
    mirror *d = mirror_of(f, 0);
    update(f, d);
    assert_int_equal(d->delta.n_ranges, 0);
    pkv_seq s = fx_open(f);
    int32_t row = fx_info(f, s).row_idx;
    fx_commit(f, s, "abcdef");
    update(f, d);
    one_range(d, row, 0, 3);
    equals_rows(f, d, &s, 1);
    update(f, d);
    assert_int_equal(d->delta.n_ranges, 0);
    fx_commit(f, s, "g"); /* one block more */
    update(f, d);
    one_range(d, row, 3, 1);
    fx_commit(f, s, "h"); /* none */
    update(f, d);
    assert_int_equal(d->delta.n_ids, 0);
    pkv_seq kid = fx_fork(f, s);
    update(f, d);
    one_range(d, fx_info(f, kid).row_idx, 0, 4);
    fx_truncate(f, s, 7);
    fx_reserve(f, s, 1); /* the tail is copied: one entry is another */
    assert_int_equal(f->work.n_copy, 1);
    update(f, d);
    one_range(d, row, 3, 1);
    fx_truncate(f, kid, 3);
    update(f, d);
    one_range(d, fx_info(f, kid).row_idx, 2, 2); /* zeros */
    equals_rows(f, d, (pkv_seq[]){ s, kid }, 2);
    fx_close(f, s);
    fx_close(f, kid);
    update(f, d);
    assert_int_equal(d->delta.n_ranges, 2);
    assert_int_equal(d->delta.n_ids, 4 + 2);
    equals_rows(f, d, NULL, 0);
    free(d);
    fx_end(f);
}

/* A steady batch: one id per sequence when it gets a block, nothing between. */
static void a_steady_batch(void **state)
{
    (void)state;
    fx *f = fx_new(200, 16, 0);
    mirror *d = mirror_of(f, 0);
    pkv_seq s[ROWS];
    for (int i = 0; i < ROWS; i++) {
        s[i] = fx_open(f);
        for (int k = 0; k < i; k++) fx_commit(f, s[i], "ab");
    }
    update(f, d);
    for (int token = 0; token < 64; token++) {
        int32_t n = 0;
        for (int i = 0; i < ROWS; i++) {
            n += fx_info(f, s[i]).committed % 16 == 0;
            fx_commit(f, s[i], "x");
        }
        update(f, d);
        assert_int_equal(d->delta.n_ids, n);
        assert_int_equal(d->delta.n_ranges, n);
        equals_rows(f, d, s, ROWS);
    }
    free(d);
    fx_end(f);
}

/* sparkinfer #146, TRT-LLM #15546: stale ids behind a shortened row; a buffer that changes under
 * its consumer. A row of 8, closed and used again with 2. */
static void no_stale_ids_behind_a_row(void **state)
{
    (void)state;
    fx *f = fx_new(20, 2, 0);
    mirror *d = mirror_of(f, 0);
    pkv_seq s = fx_open(f), filler, t;
    int32_t row = fx_info(f, s).row_idx, delayed[8];
    fx_reserve(f, s, 16);
    update(f, d);
    one_range(d, row, 0, 8);
    memcpy(delayed, d->ids, sizeof delayed);
    filler = fx_open(f);
    fx_close(f, s);
    fx_reserve(f, filler, 4); /* takes what the row had first */
    t = fx_open(f);
    assert_int_equal(fx_info(f, t).row_idx, row);
    fx_reserve(f, t, 4);
    assert_memory_equal(delayed, d->ids, sizeof delayed); /* nobody writes it behind the call */
    update(f, d);
    assert_int_equal(d->delta.n_ranges, 2);
    const pkv_table_range *r = &d->ranges[d->ranges[0].row_idx == row ? 0 : 1];
    assert_int_equal(r->row_idx, row);
    assert_int_equal(r->first, 0);
    assert_int_equal(r->n, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(d->id[row][i] != 0, i < 2);
    equals_rows(f, d, (pkv_seq[]){ filler, t }, 2);
    fx_close(f, filler);
    fx_close(f, t);
    free(d);
    fx_end(f);
}

/* Too little room: nothing is consumed, and the caller learns how much is needed. */
static void caps(void **state)
{
    (void)state;
    fx *f = fx_new(40, 2, 0);
    pkv_seq s[3];
    pkv_table_range r[3] = { { 9, 9, 9 } };
    int32_t ids[6] = { 99, 99 };
    for (int i = 0; i < 3; i++) fx_reserve(f, s[i] = fx_open(f), 4);
    static const int32_t cap[][2] = { { 2, 6 }, { 3, 5 }, { 0, 6 }, { 3, 0 }, { 0, 0 } };
    for (size_t i = 0; i < sizeof cap / sizeof cap[0]; i++) {
        pkv_delta d = PKV_DELTA_INIT;
        fx_refused(f, PKV_E_LIMIT, pkv_table_delta(f->m, 0, r, cap[i][0], ids, cap[i][1], &d));
        assert_int_equal(d.n_ranges, 3);
        assert_int_equal(d.n_ids, 6);
    }
    assert_true(r[0].row_idx == 9 && ids[0] == 99);
    pkv_delta none = PKV_DELTA_INIT;
    fx_refused(f, PKV_E_LIMIT, pkv_table_delta(f->m, 0, NULL, 0, NULL, 0, &none));
    assert_int_equal(none.n_ids, 6);
    pkv_delta d = PKV_DELTA_INIT;
    assert_ok(pkv_table_delta(f->m, 0, r, 3, ids, 6, &d));
    assert_int_equal(d.n_ids, 6);
    assert_ok(pkv_table_delta(f->m, 0, r, 0, ids, 0, &d)); /* nothing needs no room */
    assert_int_equal(d.n_ranges, 0);
    for (int i = 0; i < 3; i++) fx_close(f, s[i]);
    fx_end(f);
}

static void resync(void **state)
{
    (void)state;
    fx *f = fx_new(40, 2, CACHE);
    mirror *d = mirror_of(f, 0);
    pkv_seq s[2] = { fx_with(f, "abcdef"), fx_with(f, "xy") }, gone = fx_with(f, "pqrs");
    update(f, d);
    fx_close(f, gone);
    assert_ok(pkv_table_resync(f->m, 0));
    memset(d->id, 0, sizeof d->id);
    update(f, d); /* everything that is not zero */
    equals_rows(f, d, s, 2);
    assert_int_equal(d->delta.n_ids, 4);
    update(f, d);
    assert_int_equal(d->delta.n_ids, 0);
    fx_truncate(f, s[0], 2);
    assert_ok(pkv_table_resync(f->m, 0));
    assert_ok(pkv_table_resync(f->m, 0));
    memset(d->id, 0, sizeof d->id);
    update(f, d);
    assert_int_equal(d->delta.n_ids, 2);
    equals_rows(f, d, s, 2);
    free(d);
    fx_end(f);
}

/* Windows put zeros into the front of a row; each group has its own delta. */
static void groups_and_windows(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(60, 2, CACHE);
    static const pkv_group g[3] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                    { PKV_GROUP_SLIDING, 4, 4, 0, 0 },
                                    { PKV_GROUP_STATE, 0, 0, 0, 2 } };
    cfg.groups = g, cfg.n_groups = 3, cfg.max_seq_tokens = 64;
    fx *f = fx_from(&cfg);
    mirror *d[3] = { mirror_of(f, 0), mirror_of(f, 1), mirror_of(f, 2) };
    pkv_seq s = fx_with(f, "abcd");
    int32_t row = fx_info(f, s).row_idx;
    for (int k = 0; k < 3; k++) {
        update(f, d[k]);
        one_range(d[k], row, 0, k == 1 ? 1 : 2);
        equals_rows(f, d[k], &s, 1);
    }
    fx_commit(f, s, "efg"); /* 7: the window begins at 4, its first block is gone */
    update(f, d[1]);
    one_range(d[1], row, 0, 2);
    assert_int_equal(d[1]->id[row][0], 0);
    update(f, d[0]);
    one_range(d[0], row, 2, 2);
    update(f, d[2]);
    assert_int_equal(d[2]->delta.n_ranges, 0);
    pkv_seq kid = fx_fork(f, s);
    fx_reserve(f, kid, 1); /* copies the tails and the state */
    for (int k = 0; k < 3; k++) {
        update(f, d[k]);
        equals_rows(f, d[k], (pkv_seq[]){ s, kid }, 2);
    }
    fx_close(f, s);
    fx_close(f, kid);
    for (int k = 0; k < 3; k++) {
        update(f, d[k]);
        equals_rows(f, d[k], NULL, 0);
        free(d[k]);
    }
    fx_end(f);
}

/* A suspended sequence has no row on the device. */
static void suspended_rows_are_zero(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(20, 2, CACHE);
    cfg.n_host_blocks = 10;
    fx *f = fx_from(&cfg);
    mirror *d = mirror_of(f, 0);
    pkv_seq s = fx_with(f, "abcdef");
    pkv_swap_copy copy[8];
    pkv_hold h;
    pkv_hold_result r[1];
    int32_t n;
    update(f, d);
    assert_ok(pkv_seqs_suspend(f->m, &s, 1, PKV_DEADLINE_NEVER, copy, 8, &n, &h));
    pkv_hold_post(f->m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 0, r, 1, &n));
    update(f, d);
    equals_rows(f, d, NULL, 0);
    assert_ok(pkv_seqs_resume(f->m, &s, 1, PKV_DEADLINE_NEVER, copy, 8, &n, &h));
    pkv_hold_post(f->m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 0, r, 1, &n));
    update(f, d);
    equals_rows(f, d, &s, 1);
    fx_close(f, s);
    free(d);
    fx_end(f);
}

/* More rows than fit one word, in two groups: every third row gets a block in the first group, and
 * none in the other. */
static void hundreds_of_rows(void **state)
{
    (void)state;
    enum { N = 150 };
    pkv_blockmgr_config cfg = fx_config(600, 2, 0);
    static const pkv_group g[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                    { PKV_GROUP_FULL, 4, 0, 0, 0 } };
    cfg.max_seqs = N, cfg.groups = g, cfg.n_groups = 2;
    fx *f = fx_from(&cfg);
    pkv_seq s[N];
    static pkv_table_range r[N];
    static int32_t ids[2 * N];
    pkv_delta d = PKV_DELTA_INIT;
    for (int i = 0; i < N; i++) fx_reserve(f, s[i] = fx_open(f), 2);
    for (int32_t k = 1; k >= 0; k--) {
        assert_ok(pkv_table_delta(f->m, k, r, N, ids, 2 * N, &d));
        assert_int_equal(d.n_ranges, N);
        for (int i = 0; i < N; i++) assert_int_equal(r[i].row_idx, i);
    }
    for (int i = 0; i < N; i += 3) fx_reserve(f, s[i], 4);
    assert_ok(pkv_table_delta(f->m, 1, r, N, ids, 2 * N, &d));
    assert_int_equal(d.n_ranges, 0);
    assert_ok(pkv_table_delta(f->m, 0, r, N, ids, 2 * N, &d));
    assert_int_equal(d.n_ranges, N / 3);
    for (int i = 0; i < N / 3; i++) {
        int k = 0;
        while (fx_info(f, s[k]).row_idx != r[i].row_idx) k++;
        assert_int_equal(k % 3, 0);
        assert_true(i == 0 || r[i - 1].row_idx < r[i].row_idx);
        assert_true(r[i].first == 1 && r[i].n == 1 && ids[i] == fx_block(f, s[k], 1));
    }
    assert_ok(pkv_table_resync(f->m, 0));
    assert_ok(pkv_table_delta(f->m, 1, r, N, ids, 2 * N, &d));
    assert_int_equal(d.n_ranges, 0);
    assert_ok(pkv_table_delta(f->m, 0, r, N, ids, 2 * N, &d));
    assert_int_equal(d.n_ids, N + N / 3);
    fx_end(f);
}

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 16;
}

/* One random change to one of the sequences, or to the steps. */
static void change(fx *f, pkv_seq *s, int32_t *n, pkv_step *step, uint32_t *x)
{
    uint32_t k = *n ? next_random(x) % (uint32_t)*n : 0;
    switch (*n ? next_random(x) % 8 : 0) {
    case 0:
        if (*n < ROWS && pkv_seq_open(f->m, (pkv_ns){ 0 }, &s[*n]) == PKV_OK) ++*n;
        break;
    case 1:
        if (*n < ROWS && pkv_seq_fork(f->m, s[k], &s[*n], 1) == PKV_OK) ++*n;
        break;
    case 2:
        fx_close(f, s[k]);
        s[k] = s[--*n];
        break;
    case 3:
        (void)!pkv_seq_truncate(f->m, s[k],
                                (int32_t)next_random(x) % (fx_info(f, s[k]).reserved + 1));
        break;
    case 4:
        if (step->v)
            assert_ok(next_random(x) % 4 ? pkv_step_retire(f->m, *step)
                                         : pkv_step_abort(f->m, *step));
        *step = fx_begin(f);
        break;
    default:
        if (fx_info(f, s[k]).committed > 100) break;
        if (fx_try_reserve(f, s[k], (int32_t)next_random(x) % 9) == PKV_OK)
            (void)!fx_put(f, s[k], next_random(x) % 2 ? "ab" : "abcabc",
                          step->v && next_random(x) % 2 ? *step : PKV_STEP_NONE);
    }
}

static void after_any_history(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 30; seed++) {
        pkv_blockmgr_config cfg = fx_config(100, 2, CACHE);
        static const pkv_group g[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                        { PKV_GROUP_SLIDING, 2, 5, 0, 0 } };
        cfg.groups = g, cfg.n_groups = 2, cfg.max_seq_tokens = 120;
        fx *f = fx_from(&cfg);
        mirror *d[2] = { mirror_of(f, 0), mirror_of(f, 1) };
        pkv_seq s[ROWS];
        pkv_step step = { 0 };
        uint32_t x = seed;
        int32_t n = 0;
        for (int i = 0; i < 400; i++) {
            change(f, s, &n, &step, &x);
            for (uint32_t k = 0; k < 2; k++) {
                if (next_random(&x) % 3) continue;
                if (next_random(&x) % 50 == 0) {
                    assert_ok(pkv_table_resync(f->m, (int32_t)k));
                    memset(d[k]->id, 0, sizeof d[k]->id);
                }
                update(f, d[k]);
                equals_rows(f, d[k], s, n);
            }
        }
        free(d[0]);
        free(d[1]);
        fx_end(f);
    }
}

/* ---------------------------------------------------------------- common */

static int32_t common(fx *f, const pkv_seq *s, int32_t n, int32_t group)
{
    int32_t blocks = -1;
    assert_ok(pkv_seqs_common(f->m, s, n, group, &blocks));
    return blocks;
}

static void what_a_batch_shares(void **state)
{
    (void)state;
    fx *f = fx_new(60, 2, CACHE);
    pkv_seq s[4], t;
    s[0] = fx_with(f, "abcdefg"); /* three full blocks and a tail */
    assert_int_equal(common(f, NULL, 0, 0), 0);
    assert_int_equal(common(f, s, 1, 0), 3);
    s[1] = fx_fork(f, s[0]);
    assert_int_equal(common(f, s, 2, 0), 3); /* the tail is shared, but not full */
    fx_commit(f, s[0], "hi");
    fx_commit(f, s[1], "xy");
    assert_int_equal(common(f, s, 1, 0), 4);
    assert_int_equal(common(f, s, 2, 0), 3);
    s[2] = fx_fork(f, s[1]);
    assert_int_equal(common(f, s + 1, 2, 0), 4);
    fx_truncate(f, s[2], 3); /* the shortest one counts */
    assert_int_equal(common(f, s, 3, 0), 1);
    assert_int_equal(common(f, (pkv_seq[]){ s[1], s[1] }, 2, 0), 4);
    assert_int_equal(fx_match(f, "abcdzz", 0, &t), 4); /* through the cache as well */
    assert_int_equal(common(f, (pkv_seq[]){ s[0], t }, 2, 0), 2);
    s[3] = fx_with(f, "abcd"); /* the same content in other blocks */
    assert_int_equal(common(f, (pkv_seq[]){ s[0], s[3] }, 2, 0), 0);
    fx_reserve(f, s[3], 20); /* reserved is not committed */
    assert_int_equal(common(f, s + 3, 1, 0), 2);
    fx_end(f);
}

static void null_entries_are_not_shared(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(60, 2, CACHE);
    static const pkv_group g[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                    { PKV_GROUP_SLIDING, 2, 3, 2, 0 } };
    cfg.groups = g, cfg.n_groups = 2, cfg.max_seq_tokens = 64;
    fx *f = fx_from(&cfg);
    pkv_seq s[2];
    s[0] = fx_with(f, "abcdefgh"); /* the sink, a gap, and the window's last block */
    s[1] = fx_fork(f, s[0]);
    assert_int_equal(common(f, s, 2, 0), 4);
    assert_int_equal(common(f, s, 2, 1), 1);
    fx_end(f);
}

/* ---------------------------------------------------------------- views */

/* T=8 over two ranks, two tokens in turn: rank 0 has 0 1 4 5, rank 1 has 2 3 6 7 of each block. */
static void context_parallel_slots(void **state)
{
    (void)state;
    fx *f = fx_new(20, 8, CACHE);
    pkv_seq s = fx_with(f, "abcdefghijklm"); /* 13 tokens */
    int64_t slots[16];
    int32_t b0 = fx_block(f, s, 0), b1 = fx_block(f, s, 1), ids[8], n, n_local;
    const int64_t zero[13] = { b0 * 4, b0 * 4 + 1, -1,         -1, b0 * 4 + 2, b0 * 4 + 3, -1,
                               -1,     b1 * 4,     b1 * 4 + 1, -1, -1,         b1 * 4 + 2 };
    const int64_t one[13] = { -1,         -1, b0 * 4, b0 * 4 + 1, -1,         -1, b0 * 4 + 2,
                              b0 * 4 + 3, -1, -1,     b1 * 4,     b1 * 4 + 1, -1 };
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    v.cp_size = 2, v.cp_interleave = 2;
    assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 0, 13, slots));
    assert_memory_equal(slots, zero, sizeof zero);
    assert_ok(pkv_seq_view_row(f->m, s, 0, &v, ids, 8, &n, &n_local));
    assert_int_equal(n, 2);
    assert_true(ids[0] == b0 && ids[1] == b1);
    assert_int_equal(n_local, 4 + 3);
    v.cp_rank = 1;
    assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 0, 13, slots));
    assert_memory_equal(slots, one, sizeof one);
    slots[5] = 77;
    assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 6, 5, slots)); /* from the middle */
    assert_memory_equal(slots, one + 6, 5 * sizeof one[0]);
    assert_int_equal(slots[5], 77);
    v.kernel_tokens = 2; /* sub-blocks: the slots are the same, the row is twice as long */
    assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 0, 13, slots));
    assert_memory_equal(slots, one, sizeof one);
    assert_ok(pkv_seq_view_row(f->m, s, 0, &v, ids, 8, &n, &n_local));
    assert_int_equal(n, 4);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(ids[i], (i < 2 ? b0 : b1) * 2 + i % 2);
    assert_int_equal(n_local, 4 + 2);
    n = 0;
    fx_refused(f, PKV_E_LIMIT, pkv_seq_view_row(f->m, s, 0, &v, ids, 3, &n, &n_local));
    assert_int_equal(n, 4);
    n = 0;
    fx_refused(f, PKV_E_LIMIT, pkv_seq_view_row(f->m, s, 0, &v, NULL, 0, &n, &n_local));
    assert_int_equal(n, 4);
    fx_close(f, s);
    fx_end(f);
}

/* Every division of a block: each token on exactly one rank, and nowhere twice. */
static void every_view_is_a_permutation(void **state)
{
    (void)state;
    fx *f = fx_new(20, 12, 0);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 36);
    for (int32_t cp = 1; cp <= 12; cp++) {
        for (int32_t interleave = 1; interleave <= 12; interleave++) {
            pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
            int64_t slots[36];
            bool used[20 * 12] = { false };
            v.cp_size = cp, v.cp_interleave = interleave;
            if (12 % cp || 12 % (interleave * cp)) {
                fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_view_slots(f->m, s, 0, &v, 0, 1, slots));
                continue;
            }
            for (v.cp_rank = 0; v.cp_rank < cp; v.cp_rank++) {
                assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 0, 36, slots));
                for (int32_t p = 0; p < 36; p++) {
                    bool here = p % 12 / interleave % cp == v.cp_rank;
                    assert_int_equal(slots[p] >= 0, here);
                    if (!here) continue;
                    assert_int_equal(slots[p] / (12 / cp), fx_block(f, s, p / 12));
                    int64_t at = v.cp_rank * (240 / cp) + slots[p];
                    assert_true(at < 240 && !used[at]);
                    used[at] = true;
                }
            }
        }
    }
    fx_close(f, s);
    fx_end(f);
}

/* What a window released is -1 in the slots and zeros in the row. */
static void views_of_a_window(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(60, 4, CACHE);
    static const pkv_group g[2] = { { PKV_GROUP_SLIDING, 4, 2, 0, 0 },
                                    { PKV_GROUP_STATE, 0, 0, 0, 1 } };
    cfg.groups = g, cfg.n_groups = 2, cfg.max_seq_tokens = 64;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_with(f, "abcdefg"); /* 7 sees 6 on: the first block is gone */
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    int64_t slots[7];
    int32_t ids[8], n, n_local, b = fx_block(f, s, 1);
    v.kernel_tokens = 1;
    assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 0, 7, slots));
    for (int32_t p = 0; p < 7; p++) assert_int_equal(slots[p], p < 4 ? -1 : b * 4 + p % 4);
    assert_ok(pkv_seq_view_row(f->m, s, 0, &v, ids, 8, &n, &n_local));
    assert_int_equal(n, 8);
    for (int32_t i = 0; i < 8; i++) assert_int_equal(ids[i], i < 4 ? 0 : b * 4 + i % 4);
    assert_int_equal(n_local, 7);
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_view_slots(f->m, s, 1, &v, 0, 1, slots));
    fx_close(f, s);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_changed_and_no_more),
        cmocka_unit_test(a_steady_batch),
        cmocka_unit_test(no_stale_ids_behind_a_row),
        cmocka_unit_test(caps),
        cmocka_unit_test(resync),
        cmocka_unit_test(groups_and_windows),
        cmocka_unit_test(suspended_rows_are_zero),
        cmocka_unit_test(hundreds_of_rows),
        cmocka_unit_test(after_any_history),
        cmocka_unit_test(what_a_batch_shares),
        cmocka_unit_test(null_entries_are_not_shared),
        cmocka_unit_test(context_parallel_slots),
        cmocka_unit_test(every_view_is_a_permutation),
        cmocka_unit_test(views_of_a_window),
    };
    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
