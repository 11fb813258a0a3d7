/* Moves of blocks on the device: lists that take several launches, runs on both sides of what the
 * runtime copies, blocks that no 16 bytes fit, pools beyond 4 GiB. Whole pools are compared with an
 * image; expected bytes come from memcpy and from the layout formula of store.h. */
#include "cuda_test.h"

/* A pool, or a buffer: device memory and what it should hold. */
struct image {
    uint8_t *device, *want; /* device: `skew` bytes behind where the buffer begins */
    size_t block_bytes, bytes, skew;
};

static struct image image_create(size_t block_bytes, int32_t n_blocks, size_t skew)
{
    struct image m = { .block_bytes = block_bytes,
                       .bytes = block_bytes * (size_t)n_blocks,
                       .skew = skew };
    uint32_t random = (uint32_t)(block_bytes + 77 * skew);
    m.device = (uint8_t *)device_alloc(m.bytes + skew) + skew;
    m.want = malloc(m.bytes + 1);
    assert_non_null(m.want);
    for (size_t i = 0; i < m.bytes; i++) {
        random = random * 1664525 + 1013904223;
        m.want[i] = (uint8_t)(random >> 24);
    }
    device_upload(m.device, m.want, m.bytes);
    return m;
}

static void image_compare(const struct image *m, const char *what)
{
    uint8_t *got = malloc(m->bytes + 1);
    assert_non_null(got);
    device_download(got, m->device, m->bytes);
    for (size_t i = 0; i < m->bytes; i++)
        if (got[i] != m->want[i])
            fail_msg("%s: byte %zu of block %zu is %02x, want %02x", what, i % m->block_bytes,
                     i / m->block_bytes, got[i], m->want[i]);
    free(got);
}

static void image_destroy(struct image *m)
{
    device_free(m->device - m->skew);
    free(m->want);
}

static uint8_t *want_at(const struct image *m, int32_t block)
{
    return m->want + (size_t)block * m->block_bytes;
}

static uint64_t n_launches(void)
{
    return device_get_totals().launches;
}

/* Both sides of what a launch takes, and many. */
static const int32_t list_sizes[] = { 0, 1, 2, 199, 200, 201, 400, 401, 5000 };
enum { N_SIZES = sizeof list_sizes / sizeof list_sizes[0], MAX_LIST = 5000 };

static void test_copies_of_any_number(void **state)
{
    (void)state;
    static pkv_block_copy list[MAX_LIST];
    for (int s = 0; s < N_SIZES; s++) {
        const int32_t n = list_sizes[s], n_blocks = 2 * n + 3;
        pkv_backend *be = cuda_backend(NULL, 1 + s % 3);
        struct image pool = image_create(48, n_blocks, 0);
        for (int32_t i = 0; i < n; i++) { /* odd ids from even ones, far apart */
            list[i] = (pkv_block_copy){ 2 + 2 * ((7 * i + 3) % n), 1 + 2 * i, 0, 0 };
            memcpy(want_at(&pool, list[i].dst), want_at(&pool, list[i].src), 48);
        }
        const uint64_t before = n_launches();
        cuda_schedule(s);
        assert_device_ok(pkv_blocks_copy(be, pool.device, 48, n_blocks, list, n, NULL, 0, NULL));
        assert_int_equal(n_launches() - before, (n + 199) / 200);
        image_compare(&pool, "copies");
        image_destroy(&pool);
        pkv_backend_destroy(be);
    }
}

/* Every block three times, near and far: each is zeroed, and no two CTAs meet at it. */
static void test_zeros_of_any_number(void **state)
{
    (void)state;
    static int32_t ids[MAX_LIST + 3];
    for (int s = 0; s < N_SIZES; s++) {
        const int32_t n = list_sizes[s], n_blocks = n + 3;
        pkv_backend *be = cuda_backend(NULL, 2);
        struct image pool = image_create(32, n_blocks, 0);
        for (int32_t i = 0; i < n; i++) {
            ids[i] = 1 + (i % 3 == 2 ? i - 1 : i % 7 == 0 ? i / 2 : i);
            memset(want_at(&pool, ids[i]), 0, 32);
        }
        cuda_schedule(s + 3);
        assert_device_ok(pkv_blocks_zero(be, pool.device, 32, n_blocks, ids, n, NULL));
        image_compare(&pool, "zeros");
        image_destroy(&pool);
        pkv_backend_destroy(be);
    }
}

/* Ids that all meet at one place of the set in which cuda_blocks.c looks for repeats. */
static void test_ids_of_one_hash(void **state)
{
    (void)state;
    enum { N_BLOCKS = 60000, MOST = 90 };
    int32_t ids[2 * MOST], n = 0;
    pkv_backend *be = cuda_backend(NULL, 2);
    struct image pool = image_create(16, N_BLOCKS, 0);
    for (int32_t id = 1; id < N_BLOCKS && n < MOST; id++)
        if ((uint32_t)id * 0x9e3779b1u >> 23 == 511) ids[n++] = id;
    assert_int_equal(n, MOST);
    for (int32_t i = 0; i < n; i++) {
        ids[n + i] = ids[i];
        memset(want_at(&pool, ids[i]), 0, 16);
    }
    cuda_schedule(1);
    assert_device_ok(pkv_blocks_zero(be, pool.device, 16, N_BLOCKS, ids, 2 * n, NULL));
    image_compare(&pool, "zeros");
    image_destroy(&pool);
    pkv_backend_destroy(be);
}

static void test_fills(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    struct image pool = image_create(80, 9, 0);
    memset(want_at(&pool, 0), 0, 80);
    memset(want_at(&pool, 7), 0xff, 2 * 80);
    assert_device_ok(pkv_blocks_fill(be, pool.device, 80, 9, 0, 1, 0, NULL));
    assert_device_ok(pkv_blocks_fill(be, pool.device, 80, 9, 7, 2, 0xff, NULL));
    assert_device_ok(pkv_blocks_fill(be, pool.device, 80, 9, 9, 0, 1, NULL));
    image_compare(&pool, "fills");
    image_destroy(&pool);
    pkv_backend_destroy(be);
}

/* Ids in runs of random lengths, no id twice; returns how many. */
static int32_t draw_runs(struct cuda_rng *r, int32_t *ids, int32_t most, int32_t n_blocks,
                         uint32_t longest)
{
    int32_t n = 0, next = 1;
    while (n < most) {
        const int32_t run = 1 + (int32_t)cuda_random(r, longest);
        next += 1 + (int32_t)cuda_random(r, 3) / 2; /* sometimes runs touch, one after another */
        if (next + run > n_blocks || n + run > most) break;
        for (int32_t i = 0; i < run; i++) ids[n++] = next++;
        next--;
    }
    /* Runs of the second half before those of the first. */
    for (int32_t i = 0; i < n / 2; i++) {
        const int32_t t = ids[i];
        ids[i] = ids[n - n / 2 + i];
        ids[n - n / 2 + i] = t;
    }
    return n;
}

static void swap_there_and_back(pkv_backend *be, size_t block_bytes, int32_t n_blocks,
                                const int32_t *ids, int32_t n, size_t skew)
{
    struct image pool = image_create(block_bytes, n_blocks, skew);
    struct image flat = image_create(block_bytes, n, 0);
    struct image other = image_create(block_bytes, n_blocks, skew);
    memset(other.want, 0x5a, other.bytes);
    device_fill(other.device, 0x5a, other.bytes);
    for (int32_t i = 0; i < n; i++) {
        memcpy(want_at(&flat, i), want_at(&pool, ids[i]), block_bytes);
        memcpy(want_at(&other, ids[i]), want_at(&pool, ids[i]), block_bytes);
    }
    assert_device_ok(
        pkv_blocks_gather(be, pool.device, block_bytes, n_blocks, ids, n, flat.device, NULL));
    assert_device_ok(
        pkv_blocks_scatter(be, flat.device, ids, n, other.device, block_bytes, n_blocks, NULL));
    image_compare(&pool, "the pool gathered from");
    image_compare(&flat, "gathered");
    image_compare(&other, "scattered");
    image_destroy(&pool);
    image_destroy(&flat);
    image_destroy(&other);
}

/* Runs below, at and above 32 KiB: blocks of 4 KiB, runs of up to 12. */
static void test_runs_of_all_lengths(void **state)
{
    (void)state;
    int32_t ids[300];
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct cuda_rng r = { seed };
        pkv_backend *be = cuda_backend(NULL, 2);
        const int32_t n = draw_runs(&r, ids, 300, 600, 12);
        print_message("# seed %u, %d blocks\n", (unsigned)seed, n);
        cuda_schedule((int)seed);
        swap_there_and_back(be, 4096, 600, ids, n, seed % 2 ? 1 : 0);
        pkv_backend_destroy(be);
    }
}

static void test_swaps_of_any_number(void **state)
{
    (void)state;
    static int32_t ids[MAX_LIST];
    for (int s = 0; s < N_SIZES; s++) {
        const int32_t n = list_sizes[s];
        pkv_backend *be = cuda_backend(NULL, 2);
        for (int32_t i = 0; i < n; i++) ids[i] = 1 + 2 * ((7 * i + 3) % n); /* no run at all */
        cuda_schedule(s);
        swap_there_and_back(be, 16, 2 * n + 2, ids, n, 0);
        pkv_backend_destroy(be);
    }
}

/* One launch for small runs, none for long ones; a gather may repeat ids. */
static void test_who_copies(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    struct image pool = image_create(4096, 40, 0), flat = image_create(4096, 20, 0);
    const int32_t ids[20] = { 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 20, 21, 22, 23, 24, 25, 26, 27, 28 };
    const struct {
        int32_t first, n, launches;
    } cases[] = { { 0, 8, 0 }, { 0, 7, 1 }, { 8, 3, 1 }, { 11, 9, 0 }, { 0, 20, 1 } };
    for (int i = 0; i < 5; i++) {
        const uint64_t before = n_launches();
        for (int32_t j = 0; j < cases[i].n; j++)
            memcpy(want_at(&flat, j), want_at(&pool, ids[cases[i].first + j]), 4096);
        assert_device_ok(pkv_blocks_gather(be, pool.device, 4096, 40, ids + cases[i].first,
                                           cases[i].n, flat.device, NULL));
        assert_int_equal(n_launches() - before, cases[i].launches);
        image_compare(&flat, "gathered");
    }
    image_destroy(&pool);
    image_destroy(&flat);
    pkv_backend_destroy(be);
}

/* More runs for the runtime than are handed to it at once. */
static void test_many_long_runs(void **state)
{
    (void)state;
    int32_t ids[130];
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int32_t i = 0; i < 130; i++) ids[i] = 131 - i;
    const uint64_t before = n_launches();
    swap_there_and_back(be, 32768, 132, ids, 130, 0);
    assert_int_equal(n_launches(), before);
    pkv_backend_destroy(be);
}

/* Blocks that no 16 bytes fit, and pools that begin anywhere; blocks of several slices. */
static void test_odd_places(void **state)
{
    (void)state;
    static const struct {
        size_t block_bytes, skew;
    } cases[] = { { 1, 0 },         { 37, 0 },    { 24, 0 },    { 32, 1 },
                  { 32, 8 },        { 37, 5 },    { 16384, 0 }, { 16400, 16 },
                  { 40000 + 7, 3 }, { 49152, 0 }, { 21184, 0 } };
    for (int i = 0; i < 11; i++) {
        const size_t bytes = cases[i].block_bytes;
        pkv_backend *be = cuda_backend(NULL, 2);
        struct image pool = image_create(bytes, 7, cases[i].skew);
        const pkv_block_copy list[2] = { { 6, 1, 0, 0 }, { 2, 5, 0, 0 } };
        const int32_t zero = 3;
        cuda_schedule(i);
        memcpy(want_at(&pool, 1), want_at(&pool, 6), bytes);
        memcpy(want_at(&pool, 5), want_at(&pool, 2), bytes);
        memset(want_at(&pool, 3), 0, bytes);
        assert_device_ok(pkv_blocks_copy(be, pool.device, bytes, 7, list, 2, NULL, 0, NULL));
        assert_device_ok(pkv_blocks_zero(be, pool.device, bytes, 7, &zero, 1, NULL));
        image_compare(&pool, "odd places");
        image_destroy(&pool);
        pkv_backend_destroy(be);
    }
}

/* Bytes [at, at + n) of a copy. */
static void want_bytes(const struct image *pool, const pkv_block_copy *copy, size_t at, size_t n)
{
    memcpy(want_at(pool, copy->dst) + at, want_at(pool, copy->src) + at, n);
}

/* The layout formula of store.h: rows of all pieces, scales of all pieces, zero points. */
static void want_tokens(const struct image *pool, const pkv_block_copy *copy, pkv_kv_shape s)
{
    static const size_t bits[] = { 32, 16, 16, 8, 8, 8, 4 };
    const size_t n_pieces = (size_t)s.n_layers * (size_t)s.n_kv_heads * 2;
    const size_t tokens = (size_t)s.block_tokens, n = (size_t)copy->n_tokens;
    const size_t row = ((size_t)s.head_dim * bits[s.dtype] / 8 + 15) / 16 * 16;
    const size_t scales = n_pieces * tokens * row, zeros = scales + n_pieces * tokens * 4;
    const bool with_scales = s.dtype == PKV_E4M3 || s.dtype == PKV_I8 || s.dtype == PKV_U4;
    if (n == tokens) {
        want_bytes(pool, copy, 0, pool->block_bytes);
        return;
    }
    for (size_t p = 0; p < n_pieces; p++) {
        want_bytes(pool, copy, p * tokens * row, n * row);
        if (with_scales) want_bytes(pool, copy, scales + p * tokens * 4, n * 4);
        if (s.dtype == PKV_U4) want_bytes(pool, copy, zeros + p * tokens * 4, n * 4);
    }
}

/* Eleven shapes in one list, more than a launch has room for, of blocks of one and of several
 * slices; each number of tokens from none to all. */
static void test_first_tokens_of_many_shapes(void **state)
{
    (void)state;
    enum { N_SHAPES = 11, N_COPIES = 230 };
    static pkv_block_copy list[N_COPIES];
    pkv_kv_shape shapes[N_SHAPES];
    for (int place = 0; place < 3; place++) { /* aligned, not, blocks longer by 5 bytes */
        size_t block_bytes = 0, bytes = 0;
        struct cuda_rng r = { (uint64_t)place };
        pkv_backend *be = cuda_backend(NULL, 3);
        for (int32_t i = 0; i < N_SHAPES; i++) {
            shapes[i] = (pkv_kv_shape){ 1 + i % 3, 1 + i % 2, 8 + 24 * (i % 6), 3 + i % 7,
                                        (pkv_dtype)(i % PKV_DTYPE_COUNT) };
            assert_int_equal(pkv_kv_block_bytes(&shapes[i], &bytes), PKV_OK);
            if (bytes > block_bytes) block_bytes = bytes;
        }
        if (place == 2) block_bytes += 5;
        struct image pool = image_create(block_bytes, 2 * N_COPIES + 1, place == 1 ? 3 : 0);
        for (int32_t i = 0; i < N_COPIES; i++) {
            const int32_t group = (int32_t)cuda_random(&r, N_SHAPES);
            const uint32_t tokens = (uint32_t)shapes[group].block_tokens;
            list[i] = (pkv_block_copy){ 1 + i, 1 + N_COPIES + i,
                                        (int32_t)cuda_random(&r, tokens + 1), group };
            want_tokens(&pool, &list[i], shapes[group]);
        }
        cuda_schedule(place + 5);
        assert_device_ok(pkv_blocks_copy(be, pool.device, block_bytes, 2 * N_COPIES + 1, list,
                                         N_COPIES, shapes, N_SHAPES, NULL));
        image_compare(&pool, "first tokens");
        image_destroy(&pool);
        pkv_backend_destroy(be);
    }
}

/* A block of 98 slices, of which a copy takes 61 of 64 tokens. */
static void test_first_tokens_of_large_blocks(void **state)
{
    (void)state;
    const pkv_kv_shape shape = { 4, 3, 128, 64, PKV_I8 };
    const pkv_block_copy list[2] = { { 1, 3, 61, 0 }, { 2, 4, 1, 0 } };
    size_t block_bytes = 0;
    assert_int_equal(pkv_kv_block_bytes(&shape, &block_bytes), PKV_OK);
    pkv_backend *be = cuda_backend(NULL, 2);
    struct image pool = image_create(block_bytes, 5, 0);
    want_tokens(&pool, &list[0], shape);
    want_tokens(&pool, &list[1], shape);
    cuda_schedule(4);
    assert_device_ok(pkv_blocks_copy(be, pool.device, block_bytes, 5, list, 2, &shape, 1, NULL));
    image_compare(&pool, "first tokens");
    image_destroy(&pool);
    pkv_backend_destroy(be);
}

/* What a later call reads is what an earlier one on the stream wrote, and not more. */
static void test_order_of_calls(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    struct image pool = image_create(4096, 30, 0), flat = image_create(4096, 12, 0);
    int32_t out[12], in[12];
    for (int32_t i = 0; i < 12; i++) { /* a run for the runtime, and single blocks */
        out[i] = i < 8 ? 1 + i : 1 + 2 * i;
        in[i] = i < 4 ? 12 - 3 * i : 10 + i;
    }
    for (int32_t i = 0; i < 12; i++) memcpy(want_at(&flat, i), want_at(&pool, out[i]), 4096);
    for (int32_t i = 0; i < 12; i++) memset(want_at(&pool, out[i]), 0, 4096);
    for (int32_t i = 0; i < 12; i++) memcpy(want_at(&pool, in[i]), want_at(&flat, i), 4096);
    cuda_schedule(7);
    assert_device_ok(pkv_blocks_gather(be, pool.device, 4096, 30, out, 12, flat.device, NULL));
    assert_device_ok(pkv_blocks_zero(be, pool.device, 4096, 30, out, 12, NULL));
    assert_device_ok(pkv_blocks_scatter(be, flat.device, in, 12, pool.device, 4096, 30, NULL));
    image_compare(&flat, "gathered");
    image_compare(&pool, "the pool");
    image_destroy(&pool);
    image_destroy(&flat);
    pkv_backend_destroy(be);
}

/* Blocks whose byte offsets do not fit 32 bits: 2 MiB each, ids around 2100 and 4200. */
static void test_far_blocks(void **state)
{
    (void)state;
    enum { N_BLOCKS = 4300 };
    const size_t block = (size_t)2 << 20;
    pkv_backend *be = cuda_backend(NULL, 4);
    uint8_t *pool = device_alloc_sparse(block * N_BLOCKS);
    if (!pool) skip();
    const pkv_block_copy list[2] = { { 4298, 4200, 0, 0 }, { 1, 2100, 0, 0 } };
    const int32_t zero = 4299, from = 4200, to = 2047;
    uint8_t got[4], *flat = device_alloc(block);
    device_fill(pool + 4299 * block, 7, 100);
    device_fill(pool + 4298 * block + block - 1, 11, 1);
    device_fill(pool + block + 5, 22, 1);
    cuda_schedule(0);
    assert_device_ok(pkv_blocks_copy(be, pool, block, N_BLOCKS, list, 2, NULL, 0, NULL));
    assert_device_ok(pkv_blocks_zero(be, pool, block, N_BLOCKS, &zero, 1, NULL));
    assert_device_ok(pkv_blocks_gather(be, pool, block, N_BLOCKS, &from, 1, flat, NULL));
    assert_device_ok(pkv_blocks_scatter(be, flat, &to, 1, pool, block, N_BLOCKS, NULL));
    device_download(got, pool + 4200 * block + block - 1, 1);
    device_download(got + 1, pool + 2100 * block + 5, 1);
    device_download(got + 2, pool + 4299 * block + 99, 1);
    device_download(got + 3, pool + 2047 * block + block - 1, 1);
    assert_int_equal(got[0], 11);
    assert_int_equal(got[1], 22);
    assert_int_equal(got[2], 0);
    assert_int_equal(got[3], 11);
    device_free(flat);
    device_free(pool);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_of_any_number),
        cmocka_unit_test(test_zeros_of_any_number),
        cmocka_unit_test(test_ids_of_one_hash),
        cmocka_unit_test(test_fills),
        cmocka_unit_test(test_runs_of_all_lengths),
        cmocka_unit_test(test_swaps_of_any_number),
        cmocka_unit_test(test_who_copies),
        cmocka_unit_test(test_many_long_runs),
        cmocka_unit_test(test_odd_places),
        cmocka_unit_test(test_first_tokens_of_many_shapes),
        cmocka_unit_test(test_first_tokens_of_large_blocks),
        cmocka_unit_test(test_order_of_calls),
        cmocka_unit_test(test_far_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
