/* pkv_table_check on the device: every bit with its offender by hand, large batches, ids that
 * nobody may judge or read, and random damage against the CPU's verdict. */
#include "cuda_test.h"

#include <limits.h>

enum { BLOCKS = 40, TOKENS = 4, ROWS = 64, FAR_SEQS = 600 };

/* A batch here, and its arrays on the device. NULL arrays stay NULL. */
struct tables {
    pkv_attn_batch batch; /* arrays on the host, of these lengths */
    size_t n_ids, n_q_pos, n_mask;
    pkv_attn_opts opts;
    bool with_opts;
    int64_t n_rows;
    int32_t n_blocks, block_tokens;
    uint32_t before[4]; /* of the report */
};

static struct tables usual(void)
{
    struct tables t = { .n_rows = ROWS, .n_blocks = BLOCKS, .block_tokens = TOKENS };
    t.batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    t.opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    t.opts.causal = 0;
    return t;
}

static const void *on_device(const void *from, size_t n)
{
    if (!from) return NULL;
    void *p = device_alloc(n * 4);
    device_upload(p, from, n * 4);
    return p;
}

static void off_device(const void *p)
{
    device_free((void *)(uintptr_t)p);
}

static void check_device(pkv_backend *be, const struct tables *t, uint32_t bad[4])
{
    struct tables d = *t;
    const size_t n = (size_t)t->batch.n_seqs;
    d.batch.table = on_device(t->batch.table, t->n_ids);
    d.batch.table_indptr = on_device(t->batch.table_indptr, n + 1);
    d.batch.kv_len = on_device(t->batch.kv_len, n);
    d.batch.q_indptr = on_device(t->batch.q_indptr, n + 1);
    d.batch.kv_pos0 = on_device(t->batch.kv_pos0, n);
    d.batch.q_pos = on_device(t->batch.q_pos, t->n_q_pos);
    d.opts.mask = on_device(t->opts.mask, t->n_mask);
    uint32_t *report = device_alloc(16);
    device_upload(report, t->before, 16);
    assert_device_ok(pkv_table_check(be, &d.batch, t->with_opts ? &d.opts : NULL, t->n_rows,
                                     t->n_blocks, t->block_tokens, report, NULL));
    device_download(bad, report, 16);
    off_device(d.batch.table);
    off_device(d.batch.table_indptr);
    off_device(d.batch.kv_len);
    off_device(d.batch.q_indptr);
    off_device(d.batch.kv_pos0);
    off_device(d.batch.q_pos);
    off_device(d.opts.mask);
    device_free(report);
}

/* One thing is wrong: the report is known word by word. */
static void expect(const struct tables *t, uint32_t bit, uint32_t seq, int32_t idx, int32_t value,
                   const char *what)
{
    const uint32_t want[4] = { bit, seq, (uint32_t)idx, (uint32_t)value };
    for (int i = 0; i < 3; i++) {
        uint32_t bad[4];
        pkv_backend *be = cuda_backend(NULL, 1 + i);
        cuda_schedule(5 * i + (int)seq);
        check_device(be, t, bad);
        pkv_backend_destroy(be);
        if (memcmp(bad, want, 16) != 0)
            fail_msg("%s: %#x %u %d %d, want %#x %u %d %d", what, bad[0], bad[1], (int)bad[2],
                     (int)bad[3], bit, seq, idx, value);
    }
}

static void expect_nothing(struct tables *t, const char *what)
{
    const uint32_t before[4] = { 0, 7, 8, 9 };
    memcpy(t->before, before, 16);
    expect(t, 0, 7, 8, 9, what);
    memset(t->before, 0, 16);
}

/* Three sequences of 9, 0 and 5 keys: 3, 0 and 2 ids, dense rows of 4 or CSR; what nobody uses is
 * INT_MIN. */
static const int32_t dense_ids[12] = { 1,       2,       3, INT_MIN, INT_MIN, INT_MIN,
                                       INT_MIN, INT_MIN, 4, 5,       INT_MIN, INT_MIN };
static const int32_t csr_ids[5] = { 1, 2, 3, 4, 5 }, csr_indptr[4] = { 0, 3, 3, 5 };
static const int32_t three_lens[3] = { 9, 0, 5 };

static struct tables three(bool csr)
{
    struct tables t = usual();
    t.batch.n_seqs = 3;
    t.batch.kv_len = three_lens;
    t.batch.table = csr ? csr_ids : dense_ids;
    t.n_ids = csr ? 5 : 10; /* dense: the last row ends where nobody reads on */
    t.batch.table_stride = csr ? 5 : 4;
    t.batch.table_indptr = csr ? csr_indptr : NULL;
    return t;
}

static void test_nothing_is_wrong(void **state)
{
    (void)state;
    for (int csr = 0; csr < 2; csr++) {
        struct tables t = three(csr);
        for (int with = 0; with < 2; with++) {
            t.with_opts = with;
            expect_nothing(&t, csr ? "csr" : "dense");
        }
        t.batch.n_seqs = 0;
        const uint64_t before = device_get_totals().launches;
        expect_nothing(&t, "no sequences");
        assert_int_equal(device_get_totals().launches, before);
    }
}

static void test_ids(void **state)
{
    (void)state;
    static const int32_t bad[] = { -1, BLOCKS, INT_MAX, INT_MIN, 0 };
    for (int csr = 0; csr < 2; csr++)
        for (int i = 0; i < 5; i++)
            for (int e = 0; e < 5; e++) {
                struct tables t = three(csr);
                int32_t ids[12];
                memcpy(ids, t.batch.table, sizeof(int32_t) * (csr ? 5 : 12));
                ids[csr || e < 3 ? e : e + 5] = bad[i];
                t.batch.table = ids;
                t.with_opts = e % 2;
                expect(&t, bad[i] == 0 ? PKV_BAD_NULL_BLOCK : PKV_BAD_RANGE, e < 3 ? 0 : 2,
                       e < 3 ? e : e - 3, bad[i], "an id");
            }
}

static void test_lengths(void **state)
{
    (void)state;
    struct tables t = three(false);
    const int32_t negative[3] = { 9, -7, 5 }, least[3] = { 9, 0, INT_MIN };
    t.batch.kv_len = negative;
    expect(&t, PKV_BAD_LENGTH, 1, 1, -7, "negative");
    t.batch.kv_len = least;
    expect(&t, PKV_BAD_LENGTH, 2, 2, INT_MIN, "INT_MIN");
    const int32_t full[3] = { 4, 0, 5 };
    t.batch.table = NULL; /* contiguous: a block of 4 tokens each */
    t.batch.kv_len = full;
    expect(&t, PKV_BAD_LENGTH, 2, 2, 5, "beyond the block");
    const int32_t most[3] = { 4, 4, 4 };
    t.batch.kv_len = most;
    expect_nothing(&t, "full blocks");
}

/* Too few ids; those that are there are judged, those of the neighbour are not read for them. */
static void test_short_rows(void **state)
{
    (void)state;
    const int32_t more[3] = { 9, 1, 5 }, longest[3] = { 9, 0, INT_MAX }, exact[3] = { 12, 0, 8 };
    struct tables t = three(true);
    t.batch.kv_len = more;
    expect(&t, PKV_BAD_SHORT_ROW, 1, 0, 1, "no ids");
    t.batch.kv_len = longest;
    expect(&t, PKV_BAD_SHORT_ROW, 2, 2, INT_MAX, "two ids");
    t.batch.kv_len = exact;
    expect_nothing(&t, "exactly");
    const int32_t beyond[4] = { 0, 3, 3, 6 }, falling[4] = { 0, 3, -1, 5 };
    const int32_t nine[3] = { 9, 0, 9 };
    t.batch.kv_len = nine;
    t.batch.table_indptr = beyond; /* there are 5 ids in all */
    expect(&t, PKV_BAD_SHORT_ROW, 2, 2, 9, "an end beyond the ids");
    t.batch.kv_len = three_lens;
    t.batch.table_indptr = falling; /* row 2 begins at -1 */
    expect(&t, PKV_BAD_SHORT_ROW, 2, 0, 5, "a start below 0");
    t = three(false);
    const int32_t seventeen[3] = { 9, 17, 5 };
    const int32_t ids[12] = { 1, 2, 3, INT_MIN, 6, 7, 8, 9, 4, 5, INT_MIN, INT_MIN };
    t.batch.table = ids;
    t.batch.kv_len = seventeen;
    expect(&t, PKV_BAD_SHORT_ROW, 1, 4, 17, "a dense row");
}

/* Sequences whose rows would overwrite another's, in words of moves.h's twin attn_cut.c: the end of
 * a sequence that is wrong does not count for those behind it. */
static void test_rows(void **state)
{
    (void)state;
    static const struct {
        int32_t indptr[6], n_rows, seq, end;
    } cases[] = {
        { { 0, 4, 3, 9, 9, 12 }, 64, 1, 3 },    /* decreasing; (3, 9) begins below 4, too */
        { { 0, 4, 4, 9, 9, 65 }, 64, 4, 65 },   /* beyond the rows of q */
        { { -1, 4, 4, 9, 9, 12 }, 64, 0, 4 },   /* begins below 0 */
        { { 0, 10, 10, 10, 9, 12 }, 64, 3, 9 }, /* (9, 12) begins below 10, too */
        { { 0, 0, 0, 0, 0, INT_MAX }, 64, 4, INT_MAX },
    };
    static const int32_t lens[5] = { 1, 1, 1, 1, 1 }, ids[5] = { 1, 2, 3, 4, 5 };
    for (int i = 0; i < 5; i++) {
        struct tables t = usual();
        uint32_t bad[4];
        t.batch.n_seqs = 5;
        t.batch.kv_len = lens;
        t.batch.table = ids;
        t.n_ids = 5;
        t.batch.table_stride = 1;
        t.batch.q_indptr = cases[i].indptr;
        t.n_rows = cases[i].n_rows;
        pkv_backend *be = cuda_backend(NULL, 2);
        cuda_schedule(i);
        check_device(be, &t, bad);
        pkv_backend_destroy(be);
        assert_int_equal(bad[0], PKV_BAD_Q_INDPTR);
        if (i == 1 || i == 2 || i == 4) { /* one sequence alone is wrong */
            assert_int_equal(bad[1], cases[i].seq);
            assert_int_equal(bad[2], cases[i].seq + 1);
            assert_int_equal((int32_t)bad[3], cases[i].end);
        }
    }
}

/* Which of them have rows shows in whose ids are judged, with options: each sequence in turn has a
 * wrong id. */
static void test_whose_rows_count(void **state)
{
    (void)state;
    enum { N = 7 };
    static const int32_t indptr[N + 1] = { 0, 10, 5, 12, 11, 12, 70, 12 };
    /* 0: right. 1: falls. 2: begins in rows of 0. 3: falls. 4: (11, 12) is right, for the end of 2
     * does not count. 5: beyond q. 6: falls. */
    static const bool counts[N] = { 1, 0, 0, 0, 1, 0, 0 };
    static const int32_t lens[N] = { 1, 1, 1, 1, 1, 1, 1 };
    for (int i = 0; i < N; i++)
        for (int with = 0; with < 2; with++) {
            int32_t ids[N] = { 1, 2, 3, 4, 5, 6, 7 };
            uint32_t bad[4];
            struct tables t = usual();
            ids[i] = -5;
            t.batch.n_seqs = N;
            t.batch.kv_len = lens;
            t.batch.table = ids;
            t.n_ids = N;
            t.batch.table_stride = 1;
            t.batch.q_indptr = indptr;
            t.with_opts = with;
            pkv_backend *be = cuda_backend(NULL, 2);
            cuda_schedule(i);
            check_device(be, &t, bad);
            pkv_backend_destroy(be);
            assert_int_equal(bad[0], PKV_BAD_Q_INDPTR | (counts[i] || !with ? PKV_BAD_RANGE : 0u));
        }
}

/* Rows that are wrong because of sequences in front, more than a chunk of 256 away. A sequence's id
 * is wrong: with options it is judged where the CPU says that the sequence has rows. */
static void rows_as_on_the_cpu(const int32_t *indptr, const int32_t *suspects, int n_suspects)
{
    static int32_t ids[FAR_SEQS], lens[FAR_SEQS];
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *cpu = NULL, *be = cuda_backend(NULL, 2);
    struct tables t = usual();
    assert_int_equal(pkv_backend_create_cpu(&cfg, &cpu), PKV_OK);
    for (int b = 0; b < FAR_SEQS; b++) ids[b] = lens[b] = 1;
    t.batch.n_seqs = FAR_SEQS;
    t.batch.kv_len = lens;
    t.batch.table = ids;
    t.n_ids = FAR_SEQS;
    t.batch.table_stride = 1;
    t.batch.q_indptr = indptr;
    t.n_rows = 1000;
    t.with_opts = true;
    for (int i = 0; i < n_suspects; i++) {
        uint32_t want[4] = { 0 }, got[4];
        ids[suspects[i]] = -5;
        cuda_schedule(i);
        check_device(be, &t, got);
        const pkv_status status = pkv_table_check(cpu, &t.batch, &t.opts, t.n_rows, t.n_blocks,
                                                  t.block_tokens, want, NULL);
        assert_int_equal(status, PKV_E_INVALID_ARG);
        if (got[0] != want[0])
            fail_msg("sequence %d: bits %#x, on the CPU %#x", suspects[i], got[0], want[0]);
        ids[suspects[i]] = 1;
    }
    pkv_backend_destroy(cpu);
    pkv_backend_destroy(be);
}

static void test_rows_across_chunks(void **state)
{
    (void)state;
    static const int32_t suspects[] = { 256, 257, 299, 521 };
    static int32_t indptr[FAR_SEQS + 1];
    /* 50 rows of sequence 0, into which all up to 299 begin; from 300 on right, from 520 on not. */
    for (int32_t b = 0; b <= FAR_SEQS; b++)
        indptr[b] = b == 0 ? 0 : b == 1 ? 50 : b < 300 ? 10 : b < 520 ? b - 240 : b - 500;
    rows_as_on_the_cpu(indptr, suspects, 4);
    /* A chunk that is right, then rows that begin in it. */
    for (int32_t b = 0; b <= FAR_SEQS; b++) indptr[b] = b <= 256 ? b : b - 250;
    rows_as_on_the_cpu(indptr, suspects, 4);
}

static void test_masks(void **state)
{
    (void)state;
    static const int32_t ids[2] = { 1, 2 }, lens[2] = { 2, 2 }, indptr[3] = { 0, 32, 65 };
    static const uint32_t mask[65] = { 3 };
    struct tables t = usual();
    t.batch.n_seqs = 2;
    t.batch.kv_len = lens;
    t.batch.table = ids;
    t.n_ids = 2;
    t.batch.table_stride = 1;
    t.batch.q_indptr = indptr;
    t.opts.mask = mask;
    t.n_mask = 65;
    t.opts.mask_stride = 1;
    t.with_opts = true;
    t.n_rows = 65;
    expect(&t, PKV_BAD_MASK, 1, 32, 33, "33 rows of 32 bits");
    t.opts.mask_stride = 0;
    const int32_t no_rows[3] = { 0, 0, 1 };
    t.batch.q_indptr = no_rows;
    expect(&t, PKV_BAD_MASK, 1, 0, 1, "no bits");
}

/* What no row sees is not judged: behind windows, ahead of causal rows, hidden by masks. Sequence
 * of 20 keys, 5 blocks, 2 rows at 18 and 19. */
static void test_sight(void **state)
{
    (void)state;
    static const int32_t lens[1] = { 20 }, indptr[2] = { 0, 2 };
    static const uint32_t none[2] = { 0, 0 }, own[2] = { 1, 0 };
    static const int32_t early[2] = { 3, 2 }, apart[2] = { 13, 0 };
    static const struct {
        int32_t left, right, causal;
        const uint32_t *mask;
        const int32_t *q_pos;
        int detached;
        unsigned seen; /* bit e: entry e is judged */
    } cases[] = {
        { -1, -1, 0, NULL, NULL, 0, 0x1f },  { 0, -1, 1, NULL, NULL, 0, 0x10 },
        { 3, -1, 1, NULL, NULL, 0, 0x18 },   { 2, 0, 0, NULL, NULL, 0, 0x10 },
        { -1, -1, 0, none, NULL, 0, 0x1f },  { 1, -1, 1, none, NULL, 0, 0x10 },
        { 0, -1, 1, none, NULL, 0, 0 },      { 0, -1, 1, own, NULL, 0, 0x10 },
        { -1, -1, 1, NULL, early, 1, 0x1 },  { 2, -1, 1, NULL, early, 1, 0x1 },
        { -1, -1, 1, NULL, early, 0, 0x11 }, { 0, -1, 1, NULL, apart, 1, 0x9 },
        { 1, 4, 0, NULL, apart, 1, 0x1b },   { 0, -1, 1, NULL, apart, 0, 0x19 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int32_t e = 0; e < 5; e++) {
            struct tables t = usual();
            int32_t ids[5] = { 1, 2, 3, 4, 5 };
            ids[e] = INT_MIN;
            t.batch.n_seqs = 1;
            t.batch.kv_len = lens;
            t.batch.table = ids;
            t.n_ids = 5;
            t.batch.table_stride = 5;
            t.batch.q_indptr = indptr;
            t.batch.q_pos = cases[i].q_pos;
            t.n_q_pos = 2;
            t.batch.q_detached = (uint8_t)cases[i].detached;
            t.n_rows = 2;
            t.with_opts = true;
            t.opts.window_left = cases[i].left;
            t.opts.window_right = cases[i].right;
            t.opts.causal = (uint8_t)cases[i].causal;
            t.opts.mask = cases[i].mask;
            t.opts.mask_stride = 1;
            t.n_mask = 2;
            char what[32];
            snprintf(what, sizeof what, "case %d entry %d", (int)i, e);
            if (cases[i].seen >> e & 1) expect(&t, PKV_BAD_RANGE, 0, e, INT_MIN, what);
            else expect_nothing(&t, what);
        }
}

/* Blocks of more tokens than a word of sight: the only key that is seen is the 38th of 40. */
static void test_sight_in_large_blocks(void **state)
{
    (void)state;
    static const int32_t lens[1] = { 120 }, indptr[2] = { 0, 1 }, ids[3] = { 1, INT_MIN, 3 };
    for (int32_t at = 76; at < 84; at++) {
        struct tables t = usual();
        t.block_tokens = 40;
        t.batch.n_seqs = 1;
        t.batch.kv_len = lens;
        t.batch.table = ids;
        t.n_ids = 3;
        t.batch.table_stride = 3;
        t.batch.q_indptr = indptr;
        t.batch.q_pos = &at;
        t.n_q_pos = 1;
        t.batch.q_detached = 1;
        t.with_opts = true;
        t.opts.window_left = 0;
        t.opts.causal = 1;
        if (at < 80) expect(&t, PKV_BAD_RANGE, 0, 1, INT_MIN, "one key");
        else expect_nothing(&t, "one key");
    }
}

/* Bits that are there stay, with their offender. */
static void test_sticky(void **state)
{
    (void)state;
    struct tables t = three(true);
    const int32_t lens[3] = { 9, 1, 5 };
    const uint32_t before[4] = { PKV_BAD_SLOT, 70, 80, 90 };
    t.batch.kv_len = lens;
    memcpy(t.before, before, 16);
    expect(&t, PKV_BAD_SLOT | PKV_BAD_SHORT_ROW, 70, 80, 90, "what was there");
}

/* 3000 sequences of 0 to 11 ids: more than a chunk, more than the grid's warps. One is wrong. */
static void test_large_batches(void **state)
{
    (void)state;
    enum { N = 3000, MOST = 11 };
    static int32_t ids[N * MOST], indptr[N + 1], lens[N], rows[N + 1];
    static const int32_t offenders[] = { 0, 255, 256, 1000, 2999 };
    for (int csr = 0; csr < 2; csr++)
        for (int i = 0; i < 5; i++) {
            struct tables t = usual();
            int32_t n_ids = 0;
            for (int32_t b = 0; b < N; b++) {
                const int32_t n = b == offenders[i] ? MOST : (b * 7 + i) % (MOST + 1);
                lens[b] = n * TOKENS - (n > 0 ? b % TOKENS : 0);
                indptr[b] = n_ids;
                rows[b] = b;
                for (int32_t e = 0; e < MOST; e++)
                    if (!csr || e < n)
                        ids[csr ? n_ids++ : b * MOST + e] = e < n ? 1 + (b + e) % 39 : INT_MIN;
            }
            indptr[N] = n_ids;
            rows[N] = N;
            t.batch.n_seqs = N;
            t.batch.kv_len = lens;
            t.batch.table = ids;
            t.n_ids = csr ? (size_t)n_ids : N * MOST;
            t.batch.table_stride = csr ? n_ids : MOST;
            t.batch.table_indptr = csr ? indptr : NULL;
            t.batch.q_indptr = i % 2 ? rows : NULL;
            t.n_rows = N;
            t.with_opts = i % 3 != 0;
            pkv_backend *be = cuda_backend(NULL, 1 + i % 3);
            uint32_t bad[4];
            cuda_schedule(i);
            check_device(be, &t, bad);
            assert_int_equal(bad[0], 0);
            const int32_t e = i % MOST, at = csr ? indptr[offenders[i]] : offenders[i] * MOST;
            ids[at + e] = BLOCKS;
            check_device(be, &t, bad);
            assert_int_equal(bad[0], PKV_BAD_RANGE);
            assert_int_equal(bad[1], offenders[i]);
            assert_int_equal(bad[2], e);
            assert_int_equal(bad[3], BLOCKS);
            pkv_backend_destroy(be);
        }
}

/* One sequence that all warps share. */
static void test_long_sequences(void **state)
{
    (void)state;
    enum { N = 5000 };
    static int32_t ids[N];
    static const int32_t places[] = { 0, 31, 32, 511, 512, 2500, N - 2 };
    for (int i = 0; i < 7; i++) {
        struct tables t = usual();
        const int32_t lens[1] = { (N - 1) * TOKENS - 3 };
        for (int32_t e = 0; e < N; e++) ids[e] = 1 + e % 39;
        ids[N - 1] = INT_MIN;
        ids[places[i]] = 0;
        t.batch.n_seqs = 1;
        t.batch.kv_len = lens;
        t.batch.table = ids;
        t.n_ids = N;
        t.batch.table_stride = N;
        expect(&t, PKV_BAD_NULL_BLOCK, 0, places[i], 0, "a long sequence");
    }
}

/* Arrays of a random batch, damaged here and there. */
struct random_tables {
    int32_t ids[400], table_indptr[41], lens[40], rows[41], pos0[40], q_pos[ROWS];
    uint32_t mask[ROWS];
};

static int32_t odd_word(struct cuda_rng *r, int32_t usual_word, uint32_t percent)
{
    static const int32_t odd[6] = { -1, 0, INT_MIN, INT_MAX, 1 << 30, 70 };
    return cuda_random(r, 100) < percent ? odd[cuda_random(r, 6)] : usual_word;
}

static struct tables draw(struct cuda_rng *r, struct random_tables *a)
{
    struct tables t = usual();
    const uint32_t n = 1 + cuda_random(r, 40), percent = cuda_random(r, 3) * 3;
    const bool csr = cuda_random(r, 2), moved = cuda_random(r, 4) == 0;
    int32_t n_rows = 0;
    t.batch.n_seqs = (int32_t)n;
    for (uint32_t i = 0; i < 400; i++)
        a->ids[i] = odd_word(r, 1 + (int32_t)cuda_random(r, 39), percent / 3);
    for (uint32_t b = 0; b <= n; b++) {
        const uint32_t q_len = cuda_random(r, 4);
        if (b < n) a->lens[b] = odd_word(r, (int32_t)cuda_random(r, 39), percent);
        if (b < n) a->pos0[b] = (int32_t)cuda_random(r, 100);
        a->table_indptr[b] = odd_word(r, (int32_t)b * 10, percent);
        a->rows[b] = odd_word(r, n_rows, percent);
        if (n_rows + (int32_t)q_len <= ROWS) n_rows += (int32_t)q_len;
    }
    for (int i = 0; i < ROWS; i++) {
        a->q_pos[i] = (int32_t)cuda_random(r, 140);
        a->mask[i] = cuda_random(r, 16);
    }
    t.batch.kv_len = a->lens;
    t.batch.table = a->ids;
    t.n_ids = 400;
    t.batch.table_stride = csr ? (int64_t)n * 10 : 10;
    t.batch.table_indptr = csr ? a->table_indptr : NULL;
    if (cuda_random(r, 4)) t.batch.q_indptr = a->rows;
    if (cuda_random(r, 2)) t.batch.kv_pos0 = a->pos0;
    if (moved) t.batch.q_pos = a->q_pos;
    t.n_q_pos = ROWS;
    t.batch.q_detached = moved && cuda_random(r, 2);
    t.with_opts = cuda_random(r, 4) != 0;
    if (cuda_random(r, 2)) t.opts.window_left = (int32_t)cuda_random(r, 20);
    if (cuda_random(r, 3) == 0) t.opts.window_right = (int32_t)cuda_random(r, 20);
    t.opts.causal = cuda_random(r, 2) != 0;
    if (!t.batch.q_detached && cuda_random(r, 4) == 0) t.opts.mask = a->mask;
    t.opts.mask_stride = cuda_random(r, 3) != 0;
    t.n_mask = ROWS;
    return t;
}

static void test_random_damage_as_on_the_cpu(void **state)
{
    (void)state;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *cpu = NULL, *be = cuda_backend(NULL, 2);
    uint32_t met = 0;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &cpu), PKV_OK);
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct random_tables a;
        struct cuda_rng r = { seed * 977 };
        struct tables t = draw(&r, &a);
        uint32_t want[4] = { 0 }, got[4];
        const pkv_status status = pkv_table_check(cpu, &t.batch, t.with_opts ? &t.opts : NULL,
                                                  t.n_rows, t.n_blocks, t.block_tokens, want, NULL);
        assert_int_equal(status, want[0] ? PKV_E_INVALID_ARG : PKV_OK);
        cuda_schedule((int)seed);
        check_device(be, &t, got);
        if (got[0] != want[0])
            fail_msg("seed %u: bits %#x, on the CPU %#x", (unsigned)seed, got[0], want[0]);
        met |= got[0];
    }
    assert_int_equal(met, PKV_BAD_RANGE | PKV_BAD_SHORT_ROW | PKV_BAD_LENGTH | PKV_BAD_NULL_BLOCK |
                              PKV_BAD_Q_INDPTR | PKV_BAD_MASK);
    pkv_backend_destroy(cpu);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_wrong),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_short_rows),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_whose_rows_count),
        cmocka_unit_test(test_rows_across_chunks),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_sight),
        cmocka_unit_test(test_sight_in_large_blocks),
        cmocka_unit_test(test_sticky),
        cmocka_unit_test(test_large_batches),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_random_damage_as_on_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
