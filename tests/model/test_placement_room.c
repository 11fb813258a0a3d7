/* How much fits into every placement, what is shared, and what swapping moves. */
#include "placement_rig.h"

#include "pagedkv/pagedkv.h"

static const pkv_placement kinds[] = { PKV_PLACE_PAGED, PKV_PLACE_MAX, PKV_PLACE_REQUEST,
                                       PKV_PLACE_POW2 };

/* One request alone: admitted, computed, forked, decoded in lockstep to its longest. */
static pkv_status run_alone(world *w, int32_t n_prompt, int32_t max_new, int32_t n, int32_t *n_used)
{
    int32_t ids[WORLD_TOKENS], seqs[WORLD_SEQS], ones[WORLD_SEQS];
    const int32_t longest = n_prompt + max_new - 1;
    world_prompt(w, ids, n_prompt);
    pkv_status status = world_admit(w, ids, n_prompt, longest, n, 0, &seqs[0]);
    if (status != PKV_OK) return status;
    assert_int_equal(world_step(w, seqs[0], n_prompt - w->seqs[seqs[0]].n), PKV_OK);
    if (n > 1) status = world_fork(w, seqs[0], seqs + 1, n - 1);
    for (int32_t i = 0; i < n; i++) ones[i] = 1;
    for (int32_t at = n_prompt; at < longest && status == PKV_OK; at++) {
        status = world_reserve(w, seqs, ones, n);
        if (status != PKV_OK) break;
        world_begin(w);
        for (int32_t i = 0; i < n; i++) world_commit(w, seqs[i], 1);
        world_retire(w);
    }
    *n_used = world_usage(w).n_used;
    for (int32_t i = 0; i < WORLD_SEQS; i++)
        if (w->seqs[i].open) world_close(w, i);
    return status;
}

/* What fits says is what happens, in a pool that is empty but for what the cache keeps. */
static void fits_and_runs(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        int32_t n_fit = 0, n_not = 0;
        world_options o = world_plain(kinds[k]);
        o.n_blocks = kinds[k] == PKV_PLACE_MAX ? 60 : 20;
        world_make(&w, &o);
        for (int32_t n_prompt = 1; n_prompt <= 40; n_prompt += 1 + n_prompt / 9)
            for (int32_t max_new = 2; max_new <= 60; max_new += 1 + max_new / 8)
                for (int32_t n = 1; n <= 5; n++) {
                    int64_t n_blocks = -1;
                    int32_t n_used = 0;
                    const pkv_status fits = w.p->ops->fits(w.p, n_prompt, max_new, n, &n_blocks);
                    if (n_prompt + max_new - 1 > WORLD_TOKENS) {
                        assert_int_equal(fits, PKV_E_NEVER);
                        continue;
                    }
                    const pkv_status runs = run_alone(&w, n_prompt, max_new, n, &n_used);
                    if ((fits == PKV_OK) != (runs == PKV_OK))
                        fail_msg("kind %d: prompt %d, max_new %d, n %d: fits %s, runs %s",
                                 (int)kinds[k], n_prompt, max_new, n, pkv_status_name(fits),
                                 pkv_status_name(runs));
                    if (runs == PKV_OK) assert_int_equal(n_blocks, n_used);
                    else assert_true(n_blocks > o.n_blocks - 1);
                    n_fit += fits == PKV_OK;
                    n_not += fits != PKV_OK;
                }
        assert_true(n_fit > 20 && n_not > 20);
        world_check(&w);
        world_drop(&w);
    }
}

static void fits_at_the_edges(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        world_options o = world_plain(kinds[k]);
        o.n_blocks = 400;
        o.max_seqs = 3;
        pkv__placement_config cfg = world_config(&w, &o);
        pkv_cpu_config be = PKV_CPU_CONFIG_INIT;
        assert_int_equal(pkv_backend_create_cpu(&be, &w.be), PKV_OK);
        cfg.backend = w.be;
        assert_int_equal(pkv__placement_create(&cfg, &w.p), PKV_OK);
        const pkv__place_ops *ops = w.p->ops;
        assert_int_equal(ops->fits(w.p, 50, 47, 3, NULL), PKV_OK);
        assert_int_equal(ops->fits(w.p, 50, 48, 1, NULL), PKV_E_NEVER);
        assert_int_equal(ops->fits(w.p, 5, 4, 4, NULL), PKV_E_NEVER);
        assert_int_equal(ops->fits(w.p, INT32_MAX, INT32_MAX, 1, NULL), PKV_E_NEVER);
        assert_int_equal(ops->fits(w.p, 0, 1, 1, NULL), PKV_E_INVALID_ARG);
        assert_int_equal(ops->fits(w.p, 1, 0, 1, NULL), PKV_E_INVALID_ARG);
        assert_int_equal(ops->fits(w.p, 1, 1, 0, NULL), PKV_E_INVALID_ARG);
        ops->destroy(w.p);
        pkv_backend_destroy(w.be);
    }
}

/* Blocks that nobody uses count as free until the prompt itself claims them. */
static void watermark(void **state)
{
    (void)state;
    for (int cached = 0; cached < 2; cached++) {
        world w;
        int32_t ids[44], seq, second;
        world_options o = world_plain(PKV_PLACE_PAGED);
        o.n_blocks = 11;
        o.no_prefix_cache = !cached;
        world_make(&w, &o);
        world_prompt(&w, ids, 44);
        world_close(&w, world_prefilled(&w, ids, 16, 16, 1));
        assert_int_equal(world_usage(&w).n_cached, cached ? 4 : 0);
        assert_int_equal(world_usage(&w).n_free, 10);
        assert_int_equal(world_admit(&w, ids, 16, 16, 1, 7, &seq), PKV_E_NO_BLOCKS);
        assert_int_equal(world_admit(&w, ids, 44, 44, 1, 1, &seq), PKV_E_NEVER);
        assert_int_equal(world_admit(&w, ids, 44, 44, 1, 0, &seq), PKV_E_NEVER);
        assert_int_equal(world_admit(&w, ids, 16, 16, 1, 6, &seq), PKV_OK);
        assert_int_equal(w.seqs[seq].n, cached ? 15 : 0);
        assert_int_equal(world_usage(&w).n_free, 6);
        /* three blocks are shared now, if they are found */
        const int32_t left = cached ? 5 : 2;
        assert_int_equal(world_admit(&w, ids, 16, 16, 1, left + 1, &second), PKV_E_NO_BLOCKS);
        assert_int_equal(world_admit(&w, ids, 16, 16, 1, left, &second), PKV_OK);
        assert_int_equal(world_usage(&w).n_free, left);
        world_check(&w);
        world_drop(&w);
    }
}

/* Four blocks are moved; they may stay in the cache, but what comes back comes to fresh ones. */
static void watermark_of_resume(void **state)
{
    (void)state;
    world w;
    int32_t ids[16];
    world_options o = world_plain(PKV_PLACE_PAGED);
    o.n_blocks = 11;
    world_make(&w, &o);
    world_prompt(&w, ids, 16);
    const int32_t seq = world_prefilled(&w, ids, 16, 16, 1);
    assert_int_equal(world_suspend(&w, &seq, 1), PKV_OK);
    assert_int_equal(world_usage(&w).n_used, 0);
    assert_int_equal(world_resume(&w, &seq, 1, 7), PKV_E_NO_BLOCKS);
    world_check(&w);
    assert_int_equal(world_resume(&w, &seq, 1, 6), PKV_OK);
    assert_int_equal(world_usage(&w).n_free, 6);
    world_check(&w);
    world_drop(&w);
}

static void regions_are_set_aside(void **state)
{
    (void)state;
    world w;
    int32_t ids[8], first, second, children[3];
    world_options o = world_plain(PKV_PLACE_REQUEST);
    o.n_blocks = 11; /* ten of use: two regions of five */
    world_make(&w, &o);
    world_prompt(&w, ids, 8);
    assert_int_equal(world_admit(&w, ids, 8, 20, 3, 0, &first), PKV_E_NEVER);
    assert_int_equal(world_admit(&w, ids, 8, 7, 1, 0, &first), PKV_E_INVALID_ARG);
    assert_int_equal(world_admit(&w, ids, 8, 20, 2, 0, &first), PKV_OK);
    assert_int_equal(world_usage(&w).n_free, 0);
    assert_int_equal(world_admit(&w, ids, 1, 1, 1, 0, &second), PKV_E_NO_BLOCKS);
    assert_int_equal(world_step(&w, first, 8), PKV_OK);
    assert_int_equal(world_fork(&w, first, children, 2), PKV_E_NO_BLOCKS);
    assert_int_equal(world_fork(&w, first, children, 1), PKV_OK);
    world_check(&w);
    world_close(&w, first);
    assert_int_equal(world_usage(&w).n_free, 5);
    assert_int_equal(world_fork(&w, children[0], children + 1, 1), PKV_OK); /* one not foreseen */
    world_check(&w);
    world_drop(&w);
    /* closing gives back what no fork has taken */
    world_make(&w, &o);
    assert_int_equal(world_admit(&w, ids, 8, 20, 2, 0, &first), PKV_OK);
    world_close(&w, first);
    assert_int_equal(world_usage(&w).n_free, 10);
    world_drop(&w);
}

static int32_t start_of(const world *w, int32_t seq)
{
    int32_t n_ids;
    return w->p->ops->row(w->p, seq, &n_ids)[0];
}

/* By hand: 60 granules of 4 tokens, context 96. */
static void how_long_regions_are(void **state)
{
    (void)state;
    static const struct {
        pkv_placement kind;
        int32_t longest, granules;
    } cases[] = { { PKV_PLACE_MAX, 9, 24 },    { PKV_PLACE_REQUEST, 9, 3 },
                  { PKV_PLACE_REQUEST, 8, 2 }, { PKV_PLACE_POW2, 9, 4 },
                  { PKV_PLACE_POW2, 16, 4 },   { PKV_PLACE_POW2, 17, 8 },
                  { PKV_PLACE_POW2, 65, 24 },  { PKV_PLACE_REQUEST, 96, 24 } };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        world w;
        int32_t ids[1] = { 5 }, seq;
        world_options o = world_plain(cases[k].kind);
        world_make(&w, &o);
        assert_int_equal(world_admit(&w, ids, 1, cases[k].longest, 1, 0, &seq), PKV_OK);
        assert_int_equal(world_usage(&w).n_used, cases[k].granules);
        assert_int_equal(start_of(&w, seq), 1);
        world_drop(&w);
    }
}

/* Starts 1, 4, 9, 12; the hole of 5 takes 4, then 1; 3 go behind everything. */
static void first_fit(void **state)
{
    (void)state;
    world w;
    static const int32_t granules[] = { 3, 5, 3, 2 }, starts[] = { 1, 4, 9, 12 };
    int32_t ids[1] = { 5 }, seqs[4], more[3];
    const world_options o = world_plain(PKV_PLACE_REQUEST);
    world_make(&w, &o);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(world_admit(&w, ids, 1, 4 * granules[i], 1, 0, &seqs[i]), PKV_OK);
        assert_int_equal(start_of(&w, seqs[i]), starts[i]);
    }
    world_close(&w, seqs[1]);
    assert_int_equal(world_admit(&w, ids, 1, 16, 1, 0, &more[0]), PKV_OK);
    assert_int_equal(world_admit(&w, ids, 1, 12, 1, 0, &more[1]), PKV_OK);
    assert_int_equal(world_admit(&w, ids, 1, 4, 1, 0, &more[2]), PKV_OK);
    assert_int_equal(start_of(&w, more[0]), 4);
    assert_int_equal(start_of(&w, more[1]), 14);
    assert_int_equal(start_of(&w, more[2]), 8);
    world_check(&w);
    world_drop(&w);
}

/* ---------------------------------------------------------------- sharing */

static void found_again(void **state)
{
    (void)state;
    for (int cached = 0; cached < 2; cached++) {
        world w;
        int32_t ids[20], seq;
        world_options o = world_plain(PKV_PLACE_PAGED);
        o.no_prefix_cache = !cached;
        world_make(&w, &o);
        world_prompt(&w, ids, 20);
        world_close(&w, world_prefilled(&w, ids, 18, 18, 1));
        assert_int_equal(world_admit(&w, ids, 18, 18, 1, 0, &seq), PKV_OK);
        assert_int_equal(w.seqs[seq].n, cached ? 17 : 0);
        world_check(&w); /* the bytes are there before anything was computed */
        assert_int_equal(world_usage(&w).n_copies, cached); /* of a part of a block */
        world_close(&w, seq);
        ids[10] = 7;
        assert_int_equal(world_admit(&w, ids, 20, 20, 1, 0, &seq), PKV_OK);
        assert_int_equal(w.seqs[seq].n, cached ? 10 : 0);
        world_check(&w);
        world_drop(&w);
    }
}

/* 10 tokens: two full blocks and a tail of 2, which every one of the samples writes to. */
static void forks_swap_as_one(void **state)
{
    (void)state;
    world w;
    int32_t ids[10], seqs[3];
    const world_options o = world_plain(PKV_PLACE_PAGED);
    world_make(&w, &o);
    const int64_t block = (int64_t)w.p->block_bytes;
    world_prompt(&w, ids, 10);
    seqs[0] = world_prefilled(&w, ids, 10, 20, 3);
    assert_int_equal(world_fork(&w, seqs[0], seqs + 1, 2), PKV_OK);
    assert_int_equal(w.p->ops->swap_bytes(w.p, seqs, 3), 3 * block); /* nothing is written yet */
    for (int32_t i = 0; i < 3; i++) assert_int_equal(world_step(&w, seqs[i], 1), PKV_OK);
    assert_int_equal(world_usage(&w).n_copies, 2); /* the last one keeps the tail */
    assert_int_equal(w.p->ops->swap_bytes(w.p, seqs, 3), 5 * block);
    assert_int_equal(w.p->ops->swap_bytes(w.p, seqs, 1), 1 * block);
    assert_int_equal(world_suspend(&w, seqs, 3), PKV_OK);
    assert_int_equal(world_usage(&w).n_swapped_bytes, 5 * block);
    assert_int_equal(world_usage(&w).n_used, 0);
    world_check(&w);
    assert_int_equal(world_resume(&w, seqs, 3, 0), PKV_OK);
    assert_int_equal(world_usage(&w).n_swapped_bytes, 10 * block);
    assert_int_equal(world_usage(&w).n_used, 5);
    world_check(&w);
    assert_int_equal(world_suspend(&w, seqs + 1, 1), PKV_OK); /* two of its blocks stay */
    assert_int_equal(world_usage(&w).n_swapped_bytes, 11 * block);
    assert_int_equal(world_usage(&w).n_used, 4);
    world_close(&w, seqs[0]);
    world_close(&w, seqs[2]);
    assert_int_equal(world_usage(&w).n_used, 2); /* and are still referred to */
    world_check(&w);
    assert_int_equal(world_resume(&w, seqs + 1, 1, 0), PKV_OK);
    world_check(&w);
    world_drop(&w);
}

/* Its tail stays on the device, half full, when the sibling that shares it goes. */
static void a_parked_tail_counts(void **state)
{
    (void)state;
    world w;
    int32_t ids[10], child;
    const world_options o = world_plain(PKV_PLACE_PAGED);
    world_make(&w, &o);
    world_prompt(&w, ids, 10);
    const int32_t seq = world_prefilled(&w, ids, 10, 20, 2);
    assert_int_equal(world_fork(&w, seq, &child, 1), PKV_OK);
    assert_int_equal(world_suspend(&w, &child, 1), PKV_OK);
    assert_int_equal(world_usage(&w).n_swapped_bytes, 0);
    world_close(&w, seq);
    assert_int_equal(world_usage(&w).n_used, 3);
    assert_int_equal(world_usage(&w).n_slots_filled, 10);
    world_check(&w);
    assert_int_equal(world_resume(&w, &child, 1, 0), PKV_OK);
    world_check(&w);
    world_drop(&w);
}

/* More at a time than is checked without memory: 39 copies in one reserve, 48 blocks in one swap.
 */
static void long_lists(void **state)
{
    (void)state;
    world w;
    int32_t ids[WORLD_TOKENS], seqs[40], ones[40];
    world_options o = world_plain(PKV_PLACE_PAGED);
    o.max_seqs = 40;
    world_make(&w, &o);
    world_prompt(&w, ids, 6);
    seqs[0] = world_prefilled(&w, ids, 6, 20, 40);
    assert_int_equal(world_fork(&w, seqs[0], seqs + 1, 39), PKV_OK);
    for (int32_t i = 0; i < 40; i++) ones[i] = 1;
    assert_int_equal(world_reserve(&w, seqs, ones, 40), PKV_OK);
    assert_int_equal(world_usage(&w).n_copies, 39);
    world_begin(&w);
    for (int32_t i = 0; i < 40; i++) world_commit(&w, seqs[i], 1);
    world_retire(&w);
    world_check(&w);
    assert_int_equal(world_suspend(&w, seqs, 40), PKV_OK);
    assert_int_equal(world_resume(&w, seqs, 40, 0), PKV_OK);
    world_check(&w);
    for (int32_t i = 0; i < 40; i++) world_close(&w, seqs[i]);
    for (int32_t i = 0; i < 2; i++) {
        world_prompt(&w, ids, WORLD_TOKENS);
        seqs[i] = world_prefilled(&w, ids, WORLD_TOKENS, WORLD_TOKENS, 1);
    }
    assert_int_equal(world_suspend(&w, seqs, 2), PKV_OK);
    world_check(&w);
    assert_int_equal(world_resume(&w, seqs, 2, 0), PKV_OK);
    world_check(&w);
    world_drop(&w);
}

typedef struct stingy {
    size_t given, peak;
} stingy;

static void *stingy_alloc(void *ctx, size_t n, size_t align)
{
    if (n > ((size_t)1 << 30)) return NULL;
    stingy *m = ctx;
    m->given += n;
    if (m->given > m->peak) m->peak = m->given;
    if (align < sizeof(void *)) align = sizeof(void *);
    return aligned_alloc(align, (n + align - 1) / align * align);
}

static void stingy_free(void *ctx, void *ptr, size_t n)
{
    ((stingy *)ctx)->given -= n;
    free(ptr);
}

/* A pool that no machine has is refused before tables of its blocks are written: with 2^25 blocks
 * those would have 128 MiB, which the allocator here would give. */
static void a_pool_beyond_memory(void **state)
{
    (void)state;
    world w = { 0 };
    world_options o = world_plain(PKV_PLACE_PAGED);
    stingy memory = { 0 };
    pkv_cpu_config be = PKV_CPU_CONFIG_INIT;
    pkv__placement_config cfg = world_config(&w, &o);
    pkv__placement *p = NULL;
    assert_int_equal(pkv_backend_create_cpu(&be, &w.be), PKV_OK);
    cfg.backend = w.be;
    cfg.alloc = (pkv_allocator){ stingy_alloc, stingy_free, &memory };
    cfg.n_blocks = 1 << 25;
    assert_int_equal(pkv__placement_create(&cfg, &p), PKV_E_NO_MEMORY);
    assert_null(p);
    assert_int_equal(memory.given, 0);
    assert_true(memory.peak < 1 << 20);
    pkv_backend_destroy(w.be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_and_runs),
        cmocka_unit_test(fits_at_the_edges),
        cmocka_unit_test(watermark),
        cmocka_unit_test(watermark_of_resume),
        cmocka_unit_test(regions_are_set_aside),
        cmocka_unit_test(how_long_regions_are),
        cmocka_unit_test(first_fit),
        cmocka_unit_test(found_again),
        cmocka_unit_test(forks_swap_as_one),
        cmocka_unit_test(a_parked_tail_counts),
        cmocka_unit_test(long_lists),
        cmocka_unit_test(a_pool_beyond_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
