/* What latent attention asks of the memory system, in the builds that count: every key once, though
 * it is K and V, by all heads of a row; queries and rows of the output once; shared memory without
 * conflicts of banks anywhere, as often as its bytes fill wavefronts.
 *
 * Items are 64 queries, tiles 32 keys, a CTA is 8 warps: attn_mla.cuh. */
#include "cuda_test.h"
#include "oracle/oracle_numbers.h"
#include "simt/simt_counts.h"

#include <math.h>

enum {
    KEYS = 112,
    MANY_KEYS = 400,
    TOKENS = 16,
    BLOCKS = 8,
    IDS = 25,
    WARPS = 8,
    TILE = 32,
    SECTOR = 32,
    WAVEFRONT = 128
};
enum { TILES = (KEYS + TILE - 1) / TILE, SLOTS = BLOCKS * TOKENS, LATENT = 512, QUERIES = 64 };

static const struct kind {
    pkv_dtype latent, q, rope;
    int32_t bits, parts, part_dim, rope_dim, heads;
} kinds[] = {
    { PKV_F16, PKV_F16, PKV_F16, 16, 1, 512, 64, 64 },
    { PKV_F16, PKV_BF16, PKV_F16, 16, 1, 256, 32, 20 },
    { PKV_BF16, PKV_BF16, PKV_BF16, 16, 4, 128, 64, 64 },
    { PKV_BF16, PKV_BF16, PKV_BF16, 16, 1, 128, 128, 40 },
    { PKV_E4M3, PKV_BF16, PKV_BF16, 8, 4, 128, 64, 64 },
    { PKV_E4M3, PKV_F16, PKV_F16, 8, 1, 256, 128, 16 },
    { PKV_E5M2, PKV_F16, PKV_F16, 8, 1, 512, 64, 64 },
    { PKV_E5M2, PKV_BF16, PKV_F16, 8, 2, 64, 32, 33 },
    { PKV_I8, PKV_F16, PKV_F16, 8, 8, 64, 64, 64 },
    { PKV_I8, PKV_BF16, PKV_BF16, 8, 3, 32, 64, 20 },
    { PKV_U4, PKV_F16, PKV_F16, 4, 4, 128, 64, 64 },
    { PKV_U4, PKV_BF16, PKV_F16, 4, 2, 64, 128, 48 },
};

/* ------------------------------------------------------------------ a call */
struct call {
    pkv_backend *be;
    void *pool, *rope, *q, *q_rope, *out, *work;
    float *per_head, *scales; /* NULL: of 16 bits */
    int32_t *ids;             /* and the length */
};

static void *filled(size_t bytes)
{
    void *p = device_alloc(bytes);
    assert_non_null(p);
    device_fill(p, 0, bytes);
    return p;
}

static pkv_kv_view view_of(void *data, pkv_dtype dtype, int32_t parts, int32_t dim)
{
    const int64_t row = (int64_t)parts * dim;
    return (pkv_kv_view){ .data = data,
                          .dtype = dtype,
                          .n_blocks = BLOCKS,
                          .block_tokens = TOKENS,
                          .n_heads = parts,
                          .dim = dim,
                          .block_stride = TOKENS * row,
                          .token_stride = row,
                          .head_stride = dim };
}

static pkv_tensor3 queries_of(void *data, const struct kind *kind, int32_t dim)
{
    return (pkv_tensor3){ data, kind->q, kind->heads, dim, 1, (int64_t)kind->heads * dim, dim };
}

static void allocate(struct call *c, const struct kind *kind, size_t work_bytes)
{
    const size_t heads = (size_t)kind->heads, slots = SLOTS;
    const size_t latent = (size_t)(kind->parts * kind->part_dim), rope = (size_t)kind->rope_dim;
    c->work = device_alloc(work_bytes);
    c->pool = filled(slots * latent * (size_t)kind->bits / 8);
    c->rope = filled(slots * rope * 2);
    c->q = filled(heads * latent * 2);
    c->q_rope = filled(heads * rope * 2);
    c->out = device_alloc(heads * latent * 2);
    c->per_head = filled(heads * sizeof(float));
    if (kind->bits < 16) c->scales = filled(slots * (size_t)kind->parts * sizeof(float));
    c->ids = device_alloc((IDS + 1) * sizeof(int32_t));
    for (int32_t i = 0; i < IDS; i++) c->ids[i] = (3 * i + 1) % BLOCKS;
}

/* special: an element that is not finite, and all options that a product goes through. */
static void run(const struct kind *kind, int32_t n_keys, int32_t n_sms, bool special)
{
    const int32_t latent = kind->parts * kind->part_dim;
    struct call c = { .be = cuda_backend(NULL, n_sms) };
    size_t bytes = 0;
    assert_int_equal(pkv_attn_mla_workspace(c.be, kind->heads, latent, kind->rope_dim, &bytes),
                     PKV_OK);
    allocate(&c, kind, bytes);
    c.ids[IDS] = n_keys;
    pkv_kv_view k = view_of(c.pool, kind->latent, kind->parts, kind->part_dim);
    const pkv_kv_view v = view_of(c.rope, kind->rope, 1, kind->rope_dim);
    if (c.scales)
        k.scales = (pkv_scales){ c.scales, (int64_t)TOKENS * kind->parts, kind->parts, 1 };
    const pkv_tensor3 q = queries_of(c.q, kind, latent);
    const pkv_tensor3 q_rope = queries_of(c.q_rope, kind, kind->rope_dim);
    pkv_tensor3 out = queries_of(c.out, kind, latent);
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    batch.n_seqs = 1;
    batch.table = c.ids;
    batch.table_stride = IDS;
    batch.kv_len = c.ids + IDS;
    if (special) {
        oracle_store(kind->latent, c.pool, c.ids[0] * k.block_stride + 5 * k.token_stride + 9,
                     (double)NAN);
        opts.softcap = 3;
        opts.alibi = opts.sink = c.per_head;
        opts.window_left = 90;
    }
    assert_device_ok(pkv_workspace_init(c.be, c.work, bytes, NULL));
    simt_counts_reset();
    assert_device_ok(pkv_attn_mla_run(c.be, &q, &q_rope, &k, &v, &batch, &opts, c.work, bytes, NULL,
                                      &out, NULL));
    void *const memory[] = { c.pool, c.rope, c.q,        c.q_rope, c.out,
                             c.work, c.ids,  c.per_head, c.scales };
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) device_free(memory[i]);
    pkv_backend_destroy(c.be);
}

/* ------------------------------------------------------------------ counts */
enum { MAX_COUNTS = 2000 };
static simt_count counts[MAX_COUNTS];
static int n_counts;

static void fetch_counts(void)
{
    n_counts = simt_counts_get(counts, MAX_COUNTS);
    assert_true(n_counts > 0 && n_counts <= MAX_COUNTS);
}

/* Every sector is full. */
static void assert_global(const char *file, bool is_store, uint32_t width, int64_t bytes)
{
    const simt_count sum = simt_counts_of_file(file, false, is_store, width);
    assert_int_equal(sum.lanes * width, bytes);
    assert_int_equal(sum.units, bytes / SECTOR);
}
static void assert_shared(const char *file, bool is_store, int64_t bytes, int64_t wavefronts)
{
    const simt_count sum = simt_counts_of_file(file, true, is_store, 16);
    assert_int_equal(sum.lanes * 16, bytes);
    assert_int_equal(sum.units, wavefronts);
}

/* No access of the kernel to shared memory takes more wavefronts than it has to. */
static void assert_no_conflicts(const struct kind *kind)
{
    fetch_counts();
    for (int i = 0; i < n_counts; i++) {
        const simt_count *c = &counts[i];
        if (c->is_shared && c->units != c->ideal)
            fail_msg("%s, %d x %d: %s:%d: %llu wavefronts of %u bytes, %llu are possible",
                     pkv_dtype_name(kind->latent), kind->parts, kind->part_dim, c->file, c->line,
                     (unsigned long long)c->units, c->bytes, (unsigned long long)c->ideal);
    }
}

static void look_at_global(const struct kind *kind)
{
    const int64_t latent = kind->parts * kind->part_dim, rope = kind->rope_dim;
    const int64_t key = latent * kind->bits / 8 + rope * 2, query = (latent + rope) * 2;
    assert_global("attn_mla_load.cuh", false, 16, KEYS * key + kind->heads * query);
    assert_global("attn_mla_finish.cuh", true, 16, kind->heads * latent * 2);
    /* Each warp looks up the blocks of its keys: two of them, whose ids are neighbours. */
    const simt_count ids = simt_counts_of_file("attn_mla_load.cuh", false, false, 4);
    assert_int_equal(ids.lanes, KEYS * WARPS);
    assert_int_equal(ids.units, TILES * WARPS);
    /* A warp takes the scales of one part, those of a key lie side by side: whoever asks for one
     * part's touches the sectors of all. */
    const simt_count scales = simt_counts_of_file("attn_codes_scales.cuh", false, false, 4);
    assert_int_equal(scales.lanes, kind->bits < 16 ? KEYS * kind->parts : 0);
    assert_int_equal(scales.units * SECTOR, scales.lanes * 4 * (uint64_t)kind->parts);
}

/* Of a row, whose end may fill a part of its last wavefront. */
static int64_t wavefronts_of(int64_t row_bytes)
{
    return (row_bytes + WAVEFRONT - 1) / WAVEFRONT;
}

static void look_at_shared(const struct kind *kind)
{
    const bool codes = kind->bits < 16;
    const int64_t latent = kind->parts * kind->part_dim, rope = kind->rope_dim;
    const int64_t stored = latent * kind->bits / 8, halves = codes ? latent * 2 : 0;
    const int64_t m_tiles = (kind->heads + 15) / 16, rows = TILES * TILE, q_rows = 16 * m_tiles;
    /* Stores: keys as they are copied, what codes became, queries. */
    assert_shared("attn_mla_load.cuh", true,
                  rows * (stored + rope * 2 + halves) + q_rows * (latent + rope) * 2,
                  rows * (wavefronts_of(stored) + wavefronts_of(rope * 2) + wavefronts_of(halves)) +
                      q_rows * (wavefronts_of(latent * 2) + wavefronts_of(rope * 2)));
    /* S: each warp its own queries and keys. V: each warp its columns of all keys. P: all of it
     * for each warp, of codes for each 16 of its up to 64 columns. */
    const int64_t fragment = 16 * 16 * 2, steps = (latent + rope) / 16, p_reads = codes ? 4 : 1;
    const int64_t fragments =
        TILES * (2 * m_tiles * steps * 2 + 2 * (latent / 16) + 2 * WARPS * m_tiles * p_reads);
    assert_shared("attn_mla_tile.cuh", false, fragments * fragment,
                  fragments * fragment / WAVEFRONT);
    assert_shared("attn_mla_finish.cuh", false, kind->heads * latent * 2,
                  kind->heads * wavefronts_of(latent * 2));
}

/* A line reads all codes of all tiles once, eight at a time, in full wavefronts. */
static void look_at_codes(const struct kind *kind)
{
    const int64_t rows = TILES * TILE, stored = kind->parts * kind->part_dim * kind->bits / 8;
    const uint32_t width = (uint32_t)kind->bits;
    int n = 0;
    for (int i = 0; i < n_counts; i++) {
        const simt_count *c = &counts[i];
        if (strcmp(c->file, "attn_mla_load.cuh") != 0 || !c->is_shared || c->is_store) continue;
        n += c->bytes == width && (int64_t)c->lanes * width == rows * stored &&
             (int64_t)c->units == rows * wavefronts_of(stored);
    }
    assert_int_equal(n, 1);
}

static void test_kinds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        run(&kinds[i], KEYS, 1, false);
        assert_no_conflicts(&kinds[i]);
        look_at_global(&kinds[i]);
        look_at_shared(&kinds[i]);
        if (kinds[i].bits < 16) look_at_codes(&kinds[i]);
    }
}

/* Two CTAs share an item: each leaves its state, and who is second reads the other's. */
static void test_shared_items(void **state)
{
    const int64_t bytes = (QUERIES * LATENT + 2 * QUERIES) * (int64_t)sizeof(float);
    (void)state;
    for (size_t i = 1; i < sizeof kinds / sizeof kinds[0]; i += 4) {
        run(&kinds[i], MANY_KEYS, 2, false);
        assert_no_conflicts(&kinds[i]);
        const simt_count written = simt_counts_of_file("attn_mla_finish.cuh", false, true, 4);
        assert_int_equal(written.lanes * 4, 2 * (bytes + 4)); /* and a counter, twice */
        assert_int_equal(written.units, 2 * (bytes / SECTOR + 1));
        assert_global("attn_mla_finish.cuh", false, 4, bytes);
    }
}

/* What is rare: numbers that are not finite, and options. */
static void test_rare(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i += 2) {
        if (kinds[i].latent == PKV_I8 || kinds[i].latent == PKV_U4) continue; /* all are finite */
        run(&kinds[i], KEYS, 1, true);
        assert_no_conflicts(&kinds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_shared_items),
        cmocka_unit_test(test_rare),
    };
    return cmocka_run_group_tests_name("cuda_mla_counts", tests, NULL, NULL);
}
