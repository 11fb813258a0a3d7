/* What attention over long rows asks of the memory system, in the builds that count: of K and V
 * every key that some query of an item sees, once per item; queries and rows of the output once;
 * shared memory without conflicts of banks, as often as its bytes fill wavefronts.
 *
 * Items are 64 queries (rows x heads of the group) against one kv head, tiles 64 keys (32 at dim
 * 256), CTAs 4 warps. */
#include "cuda_problem.h"
#include "simt/simt_counts.h"

enum { GROUP = 2, KV_HEADS = 2, ITEM_ROWS = 64 / GROUP, WARPS = 4, SECTOR = 32, WAVEFRONT = 128 };

static const struct kind {
    pkv_dtype kv, q;
    int32_t dim, bits;
} kinds[] = {
    { PKV_F16, PKV_F16, 64, 16 },    { PKV_F16, PKV_F16, 128, 16 },
    { PKV_F16, PKV_F16, 256, 16 },   { PKV_BF16, PKV_BF16, 64, 16 },
    { PKV_BF16, PKV_BF16, 128, 16 }, { PKV_BF16, PKV_BF16, 256, 16 },
    { PKV_E4M3, PKV_F16, 64, 8 },    { PKV_E4M3, PKV_F16, 128, 8 },
    { PKV_I8, PKV_BF16, 64, 8 },     { PKV_I8, PKV_F16, 128, 8 },
    { PKV_U4, PKV_F16, 64, 4 },      { PKV_U4, PKV_BF16, 128, 4 },
};

/* Keys end at multiples of 16 for each item, so that scales fill sectors, too. */
static const struct cuda_seq seqs[] = { { 1, 64, 128 }, { 2, 48, 112 } };

/* What there is to do. */
struct work {
    uint64_t items, queries, keys, tiles, masked; /* keys: that some query of an item sees */
};

static void add_item(struct work *w, const struct cuda_seq *seq, int32_t row0, int32_t window,
                     int32_t tile_keys)
{
    const int32_t end = row0 + ITEM_ROWS < seq->q_len ? row0 + ITEM_ROWS : seq->q_len;
    const int32_t at = seq->kv_len - seq->q_len; /* of row 0 */
    const int32_t lo = window < 0 ? 0 : at + row0 - window, hi = at + end;
    const int32_t all_from = window < 0 ? 0 : at + end - 1 - window, all_to = at + row0 + 1;
    w->items++;
    w->queries += (uint64_t)(end - row0) * GROUP;
    w->keys += (uint64_t)(hi - lo);
    for (int32_t key = lo / tile_keys * tile_keys; key < hi; key += tile_keys) {
        w->tiles++;
        w->masked += all_from > key || all_to < key + tile_keys;
    }
}

static struct work work_of(int32_t window, int32_t tile_keys)
{
    struct work w = { 0, 0, 0, 0, 0 };
    for (int32_t b = 0; b < 2; b++)
        for (int32_t row0 = 0; row0 < seqs[b].q_len; row0 += ITEM_ROWS)
            for (int32_t head = 0; head < KV_HEADS; head++)
                add_item(&w, &seqs[b], row0, window, tile_keys);
    return w;
}

/* ------------------------------------------------------------------ counts */

enum { MAX_COUNTS = 4000 };
static simt_count counts[MAX_COUNTS];
static int n_counts;

/* 16 bytes at a time, and every sector full. */
static void assert_global(const char *file, bool is_store, uint64_t bytes)
{
    const simt_count sum = simt_counts_of_file(file, false, is_store, 16);
    assert_int_equal(sum.lanes * 16, bytes);
    assert_int_equal(sum.units, bytes / SECTOR);
}
static void assert_shared(const char *file, bool is_store, uint32_t width, uint64_t bytes)
{
    const simt_count sum = simt_counts_of_file(file, true, is_store, width);
    assert_int_equal(sum.lanes * width, bytes);
    assert_int_equal(sum.units, bytes / WAVEFRONT);
}

/* No access of this kernel to shared memory takes more wavefronts than it has to. */
static void assert_no_conflicts(const struct kind *kind)
{
    for (int i = 0; i < n_counts; i++) {
        const simt_count *c = &counts[i];
        if (!c->is_shared || c->units == c->ideal) continue;
        if (strncmp(c->file, "attn_prefill", 12) != 0 && strcmp(c->file, "attn_rows.cuh") != 0)
            continue;
        fail_msg("%s of dim %d: %s:%d: %llu wavefronts of %u bytes, %llu are possible",
                 pkv_dtype_name(kind->kv), kind->dim, c->file, c->line,
                 (unsigned long long)c->units, c->bytes, (unsigned long long)c->ideal);
    }
}

static void look_at_global(const struct kind *kind, const struct work *w)
{
    const uint64_t row = (uint64_t)(kind->dim * kind->bits / 8), q_row = (uint64_t)kind->dim * 2;
    assert_global("attn_rows.cuh", false, w->keys * 2 * row);
    assert_global("attn_prefill_queries.cuh", false, w->queries * q_row);
    assert_global("attn_prefill_states.cuh", true, w->queries * q_row);
    /* Each warp looks up the block of its 16 keys. */
    assert_int_equal(simt_counts_of_file("attn_rows.cuh", false, false, 4).units, w->tiles * WARPS);
    const uint64_t scales = kind->bits == 16 ? 0 : w->keys * 2 * (kind->bits == 4 ? 2 : 1);
    const simt_count sum = simt_counts_of_file("attn_codes_scales.cuh", false, false, 4);
    assert_int_equal(sum.lanes, scales);
    assert_int_equal(sum.units, scales * 4 / SECTOR);
}

static void look_at_shared(const struct kind *kind, const struct work *w)
{
    const uint64_t keys = kind->dim <= 128 ? 64 : 32, row = (uint64_t)(kind->dim * 2);
    const uint64_t stored = keys * (uint64_t)(kind->dim * kind->bits / 8), tile = keys * row;
    const uint64_t q_reads = kind->dim <= 128 ? w->items : w->tiles;
    const bool codes = kind->bits < 16;
    assert_shared("attn_rows.cuh", true, 16, w->tiles * 2 * stored); /* cp.async */
    assert_shared("attn_prefill_tiles.cuh", false, 16, codes ? w->tiles * 2 * stored : 0);
    assert_shared("attn_prefill_tiles.cuh", true, 16, codes ? w->tiles * 2 * tile : 0);
    assert_shared("attn_prefill_queries.cuh", true, 16, w->items * 64 * row);
    assert_shared("attn_prefill_tile.cuh", false, 16,
                  w->tiles * WARPS * tile + q_reads * 64 * row); /* ldmatrix of K and Q */
    assert_shared("attn_prefill_values.cuh", false, 16,
                  (w->tiles * WARPS + w->masked) * tile); /* of V, which is looked through */
    assert_shared("attn_prefill_states.cuh", true, 4, w->items * 64 * row);
    assert_shared("attn_prefill_states.cuh", false, 16, w->queries * row);
}

static void count_one(const struct kind *kind, int32_t window)
{
    const struct cuda_shape shape = {
        kind->kv, kind->q, GROUP * KV_HEADS, KV_HEADS, kind->dim, 16
    };
    const struct work w = work_of(window, kind->dim <= 128 ? 64 : 32);
    pkv_backend *be = cuda_backend(NULL, 1);
    struct cuda_problem p;
    cuda_build(&p, &shape, seqs, 2, 0);
    p.opts.window_left = window;
    cuda_make_workspace(be, &p);
    simt_counts_reset();
    cuda_run(be, &p);
    n_counts = simt_counts_get(counts, MAX_COUNTS);
    assert_true(n_counts <= MAX_COUNTS);
    assert_no_conflicts(kind);
    look_at_global(kind, &w);
    look_at_shared(kind, &w);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

static void causal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) count_one(&kinds[i], -1);
}

/* Keys in front of the window are not read, and their tiles cost nothing. */
static void windows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i += 3) count_one(&kinds[i], 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(causal), cmocka_unit_test(windows) };
    return cmocka_run_group_tests_name("cuda_prefill_counts", tests, NULL, NULL);
}
