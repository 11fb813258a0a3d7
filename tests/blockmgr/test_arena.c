/* Where the manager lives: the caller's memory, an allocator that fails, an arena that is moved. */
#include "mgr_fixture.h"

static void *cache_lines(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(p);
    return p;
}

static pkv_blockmgr_config small(void)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 40;
    cfg.block_tokens = 4;
    cfg.max_seqs = 6;
    cfg.max_seq_tokens = 64;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    return cfg;
}

static void init_wants_its_memory_right(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    size_t bytes = pkv_blockmgr_bytes(&cfg);
    char *arena = cache_lines(bytes + 128);
    pkv_blockmgr *m = NULL;
    memset(arena, 0x5a, bytes + 128);
    assert_int_equal(pkv_blockmgr_init(NULL, bytes, &cfg, &m), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blockmgr_init(arena, bytes, NULL, &m), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blockmgr_init(arena, bytes, &cfg, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blockmgr_init(arena, bytes - 1, &cfg, &m), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blockmgr_init(arena, 0, &cfg, &m), PKV_E_INVALID_ARG);
    for (int shift = 1; shift < 64; shift *= 2)
        assert_int_equal(pkv_blockmgr_init(arena + shift, bytes, &cfg, &m), PKV_E_INVALID_ARG);
    assert_null(m);
    assert_ok(pkv_blockmgr_init(arena, bytes, &cfg, &m)); /* memory need not be zero before */
    assert_ok(pkv_blockmgr_check(m, 3));
    for (size_t i = bytes; i < bytes + 128; i++) assert_int_equal(arena[i], 0x5a);
    pkv_blockmgr_destroy(m); /* only forgets */
    pkv_blockmgr_destroy(NULL);
    free(arena);
}

/* A log of one line, and an allocator that counts and can fail. */
struct witness {
    int fail_at, n_allocs, n_alive, n_lines;
    size_t bytes;
};

static void *counted_alloc(void *ctx, size_t bytes, size_t align)
{
    struct witness *w = ctx;
    assert_true(bytes > 0 && align >= 64 && (align & (align - 1)) == 0);
    if (++w->n_allocs == w->fail_at) return NULL;
    w->n_alive++;
    w->bytes += bytes;
    return cache_lines(bytes);
}

static void counted_free(void *ctx, void *ptr, size_t bytes)
{
    struct witness *w = ctx;
    w->n_alive--;
    w->bytes -= bytes;
    free(ptr);
}

static void count_line(void *ctx, pkv_log_level level, const char *text)
{
    struct witness *w = ctx;
    assert_true(level >= PKV_LOG_ERROR && level <= PKV_LOG_INFO);
    assert_true(text && *text && !strchr(text, '\n'));
    w->n_lines++;
}

static void create_gives_all_back(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    struct witness w = { 0 };
    pkv_allocator alloc = { counted_alloc, counted_free, &w };
    pkv_blockmgr *m = NULL;
    assert_ok(pkv_blockmgr_create(&cfg, &alloc, &m));
    assert_true(w.n_allocs > 0 && w.bytes >= pkv_blockmgr_bytes(&cfg));
    int n = w.n_allocs;
    pkv_blockmgr_destroy(m);
    assert_true(w.n_alive == 0 && w.bytes == 0);
    for (int i = 1; i <= n; i++) {
        w = (struct witness){ .fail_at = i };
        m = NULL;
        assert_int_equal(pkv_blockmgr_create(&cfg, &alloc, &m), PKV_E_NO_MEMORY);
        assert_null(m);
        assert_true(w.n_alive == 0 && w.bytes == 0);
    }
    alloc.free = NULL; /* both or none */
    assert_int_equal(pkv_blockmgr_create(&cfg, &alloc, &m), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blockmgr_create(&cfg, NULL, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blockmgr_create(NULL, NULL, &m), PKV_E_INVALID_ARG);
}

static void refusals_say_why(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    struct witness w = { 0 };
    cfg.log = (pkv_logger){ count_line, &w };
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_open(f);
    int before = w.n_lines;
    fx_refused(f, PKV_E_INVALID_ARG, fx_try_reserve(f, s, -1));
    assert_int_equal(w.n_lines, before + 1);
    fx_close(f, s);
    fx_end(f);
    cfg.n_blocks = 1;
    pkv_blockmgr *m = NULL;
    before = w.n_lines;
    assert_int_equal(pkv_blockmgr_create(&cfg, NULL, &m), PKV_E_INVALID_ARG);
    assert_true(w.n_lines > before);
}

/* A few hundred operations by a fixed recipe; all answers folded into a number. */
static uint64_t work_on(pkv_blockmgr *m, uint64_t rng, int n_ops)
{
    uint64_t sum = 0;
    pkv_seq open[6];
    int n_open = 0;
    for (int i = 0; i < n_ops; i++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        uint32_t r = (uint32_t)(rng >> 33);
        int32_t ids[64], zero[64];
        pkv_block_copy copy[8];
        pkv_block_work w = { sizeof w, zero, 64, 0, copy, 8, 0 };
        pkv_match match = PKV_MATCH_INIT;
        for (int k = 0; k < 64; k++) ids[k] = (int32_t)(r / 7 % 3) + (k > (int)(r / 21 % 40));
        pkv_tokens t = { ids, 1 + (int32_t)(r / 840 % 40), NULL, 0 };
        pkv_status st = PKV_OK;
        if (n_open < 6 && r % 7 < 3) {
            st = pkv_seq_open(m, (pkv_ns){ 0 }, &open[n_open]);
            if (st == PKV_OK) st = pkv_seq_match(m, open[n_open++], &t, t.n - 1, t.n, &w, &match);
            sum = sum * 31 + (uint64_t)match.claimed;
        } else if (n_open) {
            pkv_seq s = open[r / 7 % (uint32_t)n_open];
            pkv_reserve_req q = { s, 1 + (int32_t)(r / 840 % 9) };
            pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
            st = pkv_seq_reserve(m, &q, 1, &w);
            if (pkv_seq_info(m, s, &info) == PKV_OK) t.n = info.reserved - info.committed;
            sum = sum * 31 + (uint64_t)pkv_seq_commit(m, s, &t, PKV_STEP_NONE);
            if (r % 7 == 5) sum += (uint64_t)pkv_seq_truncate(m, s, info.committed / 2);
            if (r % 7 == 6) sum += (uint64_t)pkv_seq_close(m, s);
            if (r % 7 == 6) open[r / 7 % (uint32_t)n_open] = open[n_open - 1], n_open--;
        }
        sum = sum * 31 + (uint64_t)st * 7 + (uint64_t)w.n_copy * 3;
        if (w.n_copy) sum = sum * 31 + (uint64_t)copy[0].src * 64 + (uint64_t)copy[0].dst;
    }
    while (n_open) sum += (uint64_t)pkv_seq_close(m, open[--n_open]);
    return sum;
}

/* memcpy to another place and go on there: equal answers, equal digests; the old bytes are gone. */
static void an_arena_can_be_moved(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    size_t bytes = pkv_blockmgr_bytes(&cfg);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        void *a = cache_lines(bytes), *b = cache_lines(bytes);
        pkv_blockmgr *m, *moved;
        uint8_t digest[2][16];
        assert_ok(pkv_blockmgr_init(a, bytes, &cfg, &m));
        (void)work_on(m, seed, 400);
        memcpy(b, a, bytes);
        moved = (pkv_blockmgr *)((char *)b + ((char *)m - (char *)a));
        uint64_t stay = work_on(m, seed + 100, 400);
        pkv_blockmgr_digest(m, digest[0]);
        assert_ok(pkv_blockmgr_check(m, 3));
        memset(a, 0xff, bytes);
        free(a);
        assert_true(work_on(moved, seed + 100, 400) == stay);
        pkv_blockmgr_digest(moved, digest[1]);
        assert_memory_equal(digest[0], digest[1], 16);
        assert_ok(pkv_blockmgr_check(moved, 3));
        free(b);
    }
}

/* The checker is not blind: a row that names a block twice, none, or one too many. */
static void damage_is_noticed(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.flags = PKV_MGR_PREFIX_CACHE;
    size_t bytes = pkv_blockmgr_bytes(&cfg);
    unsigned char *a = cache_lines(bytes);
    pkv_blockmgr *m;
    assert_ok(pkv_blockmgr_init(a, bytes, &cfg, &m));
    (void)work_on(m, 3, 300);
    const int32_t *rows;
    int32_t width;
    pkv_seq s;
    pkv_reserve_req q = { { 0 }, 9 };
    pkv_block_work w = PKV_BLOCK_WORK_INIT;
    assert_ok(pkv_seq_open(m, (pkv_ns){ 0 }, &s));
    q.seq = s;
    assert_ok(pkv_seq_reserve(m, &q, 1, &w));
    assert_ok(pkv_blockmgr_rows(m, 0, &rows, &width));
    int32_t *row = (int32_t *)(a + ((const unsigned char *)rows - a));
    pkv_seq_info_t info = PKV_SEQ_INFO_INIT;
    assert_ok(pkv_seq_info(m, s, &info));
    row += (ptrdiff_t)info.row_idx * width;
    int32_t keep = row[1];
    assert_ok(pkv_blockmgr_check(m, 3));
    row[1] = row[0]; /* a block twice in one row */
    assert_int_equal(pkv_blockmgr_check(m, 3), PKV_E_CORRUPT);
    row[1] = 0;
    assert_int_equal(pkv_blockmgr_check(m, 3), PKV_E_CORRUPT);
    row[1] = keep;
    row[3] = keep; /* something behind the end */
    assert_int_equal(pkv_blockmgr_check(m, 3), PKV_E_CORRUPT);
    row[3] = 0;
    assert_ok(pkv_blockmgr_check(m, 3));
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_wants_its_memory_right),
        cmocka_unit_test(create_gives_all_back),
        cmocka_unit_test(refusals_say_why),
        cmocka_unit_test(an_arena_can_be_moved),
        cmocka_unit_test(damage_is_noticed),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
