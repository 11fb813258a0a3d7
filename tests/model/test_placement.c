/* Every placement, step by step: what it holds, what it refuses, and that refusing changes nothing.
 */
#include "placement_rig.h"

#include "model/placement_paged.h"
#include "pagedkv/pagedkv.h"

static const pkv_placement kinds[] = { PKV_PLACE_PAGED, PKV_PLACE_MAX, PKV_PLACE_REQUEST,
                                       PKV_PLACE_POW2 };

static void a_life(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        int32_t ids[10], seq, children[2];
        const world_options o = world_plain(kinds[k]);
        world_make(&w, &o);
        world_prompt(&w, ids, 10);
        assert_int_equal(world_admit(&w, ids, 10, 20, 3, 0, &seq), PKV_OK);
        assert_int_equal(world_step(&w, seq, 7), PKV_OK);
        assert_int_equal(world_step(&w, seq, 3), PKV_OK);
        world_check(&w);
        assert_int_equal(world_fork(&w, seq, children, 2), PKV_OK);
        world_check(&w);
        for (int32_t i = 0; i < 10; i++) {
            assert_int_equal(world_step(&w, seq, 1), PKV_OK);
            assert_int_equal(world_step(&w, children[i % 2], 2), PKV_OK);
            world_check(&w);
        }
        world_close(&w, seq);
        world_check(&w);
        world_drop(&w);
    }
}

/* ---------------------------------------------------------------- making */

static void refused_configurations(void **state)
{
    (void)state;
    pkv_cpu_config be = PKV_CPU_CONFIG_INIT;
    pkv_backend *backend = NULL;
    world w;
    pkv__placement *p = NULL;
    const world_options paged = world_plain(PKV_PLACE_PAGED), max = world_plain(PKV_PLACE_MAX);
    assert_int_equal(pkv_backend_create_cpu(&be, &backend), PKV_OK);
#define REFUSED(options, change, want, says)                                                       \
    do {                                                                                           \
        pkv__placement_config cfg = world_config(&w, &(options));                                  \
        cfg.backend = backend;                                                                     \
        change;                                                                                    \
        world_expect_line(&w, #change, pkv__placement_create(&cfg, &p), want, says);               \
        assert_null(p);                                                                            \
        assert_int_equal(w.memory.n_live, 0);                                                      \
    } while (0)
    REFUSED(paged, cfg.backend = NULL, PKV_E_INVALID_ARG, "no backend");
    REFUSED(paged, cfg.max_seqs = 0, PKV_E_INVALID_ARG, "max_seqs is 0");
    REFUSED(max, cfg.max_context = 0, PKV_E_INVALID_ARG, "max_context is 0");
    REFUSED(paged, cfg.n_blocks = -1, PKV_E_INVALID_ARG, "n_blocks is -1");
    REFUSED(max, cfg.kind = (pkv_placement)9, PKV_E_INVALID_ARG, "no kind 9");
    REFUSED(paged, cfg.shape.head_dim = 7, PKV_E_INVALID_ARG, "dim 7");
    REFUSED(max, cfg.shape.block_tokens = 0, PKV_E_INVALID_ARG, "x 0 tokens");
    /* a block: 2 layers x 2 heads x 2 x 4 tokens x 16 x 2 bytes = 1024 */
    REFUSED(paged, (cfg.n_blocks = 0, cfg.kv_bytes = 2047), PKV_E_NEVER, "at least 2048");
    REFUSED(max, (cfg.n_blocks = 0, cfg.kv_bytes = 0), PKV_E_NEVER, "at least 2048");
    REFUSED(paged, cfg.swap_bytes = 2047, PKV_E_NEVER, "at least 2048");
    /* 96 tokens: 24 blocks, and the null block */
    REFUSED(max, cfg.n_blocks = 24, PKV_E_NEVER, "at least 25600 or a max_context of at most 92");
#undef REFUSED
    pkv_backend_destroy(backend);
}

static void sizes(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        world_options o = world_plain(kinds[k]);
        world_make(&w, &o);
        assert_int_equal(w.p->block_bytes, 1024);
        assert_int_equal(w.p->token_bytes, 256);
        assert_int_equal(w.p->block_tokens, 4);
        assert_int_equal(w.p->table_width, 24);
        world_drop(&w);
        o.dtype = PKV_U4; /* 2 x 2 x 2 rows of 8 bytes, padded to 16, with a scale and a zero */
        world_make(&w, &o);
        assert_int_equal(w.p->token_bytes, 8 * (16 + 8));
        world_drop(&w);
        pkv__placement_config cfg = world_config(&w, &o);
        pkv_cpu_config be = PKV_CPU_CONFIG_INIT;
        assert_int_equal(pkv_backend_create_cpu(&be, &w.be), PKV_OK);
        cfg.backend = w.be;
        cfg.n_blocks = 0;
        cfg.kv_bytes = 31 * 1024 + 1023;
        assert_int_equal(pkv__placement_create(&cfg, &w.p), PKV_OK);
        assert_int_equal(world_usage(&w).n_blocks, 30);
        const pkv__place_ops *ops = w.p->ops;
        ops->destroy(w.p);
        ops->destroy(NULL);
        pkv_backend_destroy(w.be);
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    pkv_cpu_config be = PKV_CPU_CONFIG_INIT;
    pkv_backend *backend = NULL;
    assert_int_equal(pkv_backend_create_cpu(&be, &backend), PKV_OK);
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        long n = 0;
        for (pkv_status status = PKV_E_NO_MEMORY; status != PKV_OK; n++) {
            world w;
            pkv__placement *p = NULL;
            const world_options o = world_plain(kinds[k]);
            pkv__placement_config cfg = world_config(&w, &o);
            cfg.backend = backend;
            cfg.alloc = count_memory(&w.memory, n);
            status = pkv__placement_create(&cfg, &p);
            if (status == PKV_OK) {
                assert_int_equal(w.log.n_lines, 0);
                p->ops->destroy(p);
            } else {
                assert_int_equal(status, PKV_E_NO_MEMORY);
                assert_null(p);
            }
            assert_int_equal(w.memory.n_live, 0);
        }
        assert_int_equal(n - 1, kinds[k] == PKV_PLACE_PAGED ? 4 : 2);
    }
    pkv_backend_destroy(backend);
}

static void identity_of_content(void **state)
{
    (void)state;
    world w;
    const char *format = "f16; layers 2, kv heads 2, dim 16, block 4";
    const world_options o = world_plain(PKV_PLACE_PAGED);
    world_make(&w, &o);
    const pkv__paged *p = pkv__paged_in(w.p);
    pkv_ns_params params = PKV_NS_PARAMS_INIT;
    pkv_ns ns;
    memcpy(params.model_digest, (uint8_t[]){ 1, 2, 3 }, 3);
    params.kv_format = format;
    params.kv_format_bytes = strlen(format);
    assert_int_equal(pkv_ns_open(p->mgr, &params, &ns), PKV_OK);
    assert_true(ns.v == p->ns.v);
    assert_true(ns.v != 0);
    world_drop(&w);
}

/* ---------------------------------------------------------------- refusals */

static void bad_calls(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        int32_t ids[WORLD_TOKENS + 1], children[WORLD_SEQS], other;
        const world_options o = world_plain(kinds[k]);
        const bool paged = kinds[k] == PKV_PLACE_PAGED;
        world_make(&w, &o);
        world_prompt(&w, ids, WORLD_TOKENS + 1);
        const int32_t seq = world_prefilled(&w, ids, 5, 30, 1), closed = seq + 1, none = -1,
                      one = 1;
        assert_int_equal(world_admit(&w, NULL, 4, 4, 1, 0, &other), PKV_E_INVALID_ARG);
        assert_int_equal(world_admit(&w, ids, 0, 4, 1, 0, &other), PKV_E_INVALID_ARG);
        assert_int_equal(world_admit(&w, ids, 4, 4, 1, -1, &other), PKV_E_INVALID_ARG);
        assert_int_equal(world_admit(&w, ids, 97, 97, 1, 0, &other), PKV_E_LIMIT);
        assert_int_equal(world_reserve(&w, &closed, &one, 1), PKV_E_STALE);
        assert_int_equal(world_reserve(&w, &none, &one, 1), PKV_E_STALE);
        assert_int_equal(world_reserve(&w, &seq, &none, 1), PKV_E_INVALID_ARG);
        assert_int_equal(world_reserve(&w, NULL, &one, 1), PKV_E_INVALID_ARG);
        assert_int_equal(world_reserve(&w, &seq, NULL, 1), PKV_E_INVALID_ARG);
        assert_int_equal(world_reserve(&w, &seq, &one, -1), PKV_E_INVALID_ARG);
        assert_int_equal(world_reserve(&w, &seq, &one, 13), PKV_E_INVALID_ARG);
        assert_int_equal(world_reserve(&w, NULL, NULL, 0), PKV_OK);
        const int32_t too_many = WORLD_TOKENS + 1 - 5;
        assert_int_equal(world_reserve(&w, &seq, &too_many, 1), PKV_E_LIMIT);
        assert_int_equal(world_reserve(&w, (int32_t[]){ seq, closed }, (int32_t[]){ 1, 1 }, 2),
                         PKV_E_STALE);
        assert_int_equal(world_fork(&w, closed, children, 1), PKV_E_STALE);
        assert_int_equal(world_fork(&w, seq, children, 0), PKV_E_INVALID_ARG);
        assert_int_equal(world_fork(&w, seq, NULL, 1), PKV_E_INVALID_ARG);
        assert_int_equal(world_fork(&w, seq, children, 12), PKV_E_LIMIT);
        assert_int_equal(w.p->ops->commit(w.p, closed, ids, 1), PKV_E_STALE);
        assert_int_equal(w.p->ops->commit(w.p, seq, ids, 1), PKV_E_STATE);
        assert_int_equal(w.p->ops->commit(w.p, seq, ids, -1), PKV_E_INVALID_ARG);
        assert_int_equal(w.p->ops->step_retire(w.p), PKV_E_STALE);
        w.p->ops->step_abort(w.p);
        w.p->ops->close(w.p, closed);
        w.p->ops->close(w.p, -1);
        world_begin(&w);
        assert_int_equal(w.p->ops->step_begin(w.p), PKV_E_LIMIT);
        world_retire(&w);
        const pkv_status swap = paged ? PKV_E_STALE : PKV_E_UNSUPPORTED;
        assert_int_equal(w.p->ops->suspend(w.p, &closed, 1), swap);
        assert_int_equal(w.p->ops->resume(w.p, &closed, 1, 0), swap);
        world_check(&w);
        world_drop(&w);
    }
}

static void bad_swaps(void **state)
{
    (void)state;
    world w;
    int32_t ids[12];
    world_options o = world_plain(PKV_PLACE_PAGED);
    o.n_host_blocks = 3; /* two of use */
    world_make(&w, &o);
    world_prompt(&w, ids, 12);
    const pkv__place_ops *ops = w.p->ops;
    const int32_t seq = world_prefilled(&w, ids, 8, 30, 1);
    const int32_t large = world_prefilled(&w, ids, 12, 30, 1), twice[2] = { seq, seq }, one = 1;
    world_close(&w, large);
    world_prompt(&w, ids, 12);
    const int32_t other = world_prefilled(&w, ids, 12, 30, 1);
    assert_int_equal(world_suspend(&w, &other, 1), PKV_E_NO_BLOCKS);
    assert_int_equal(ops->suspend(w.p, NULL, 1), PKV_E_INVALID_ARG);
    assert_int_equal(ops->suspend(w.p, &seq, 0), PKV_E_INVALID_ARG);
    assert_int_equal(ops->suspend(w.p, twice, 2), PKV_E_INVALID_ARG);
    assert_int_equal(ops->resume(w.p, &seq, 1, 0), PKV_E_STATE);
    assert_int_equal(world_suspend(&w, &seq, 1), PKV_OK);
    assert_int_equal(ops->suspend(w.p, &seq, 1), PKV_E_STATE);
    assert_int_equal(ops->resume(w.p, &seq, 1, -1), PKV_E_INVALID_ARG);
    assert_int_equal(ops->resume(w.p, twice, 2, 0), PKV_E_INVALID_ARG);
    assert_int_equal(world_reserve(&w, &seq, &one, 1), PKV_E_STATE);
    assert_int_equal(ops->commit(w.p, seq, ids, 1), PKV_E_STATE);
    int32_t n_ids = -1, child;
    assert_null(ops->row(w.p, seq, &n_ids));
    assert_int_equal(n_ids, 0);
    assert_int_equal(world_fork(&w, seq, &child, 1), PKV_E_STATE);
    world_check(&w);
    world_close(&w, seq); /* and the host blocks are free again */
    world_check(&w);
    const int32_t next = world_prefilled(&w, ids, 8, 30, 1);
    assert_int_equal(world_suspend(&w, &next, 1), PKV_OK); /* one block of it is the other's too */
    world_check(&w);
    world_drop(&w);
    o.n_host_blocks = 0;
    world_make(&w, &o);
    const int32_t lone = world_prefilled(&w, ids, 8, 30, 1);
    assert_int_equal(world_suspend(&w, &lone, 1), PKV_E_UNSUPPORTED);
    assert_int_equal(w.p->ops->resume(w.p, &lone, 1, 0), PKV_E_UNSUPPORTED);
    world_drop(&w);
}

/* The bytes cannot be moved, since the pool is said to end before them: all is as it was. */
static void a_transfer_fails(void **state)
{
    (void)state;
    world w;
    int32_t ids[8];
    const world_options o = world_plain(PKV_PLACE_PAGED);
    world_make(&w, &o);
    world_prompt(&w, ids, 8);
    const int32_t seq = world_prefilled(&w, ids, 8, 30, 1);
    pkv__paged *p = pkv__paged_of(w.p);
    p->n_blocks = 2;
    assert_int_equal(w.p->ops->suspend(w.p, &seq, 1), PKV_E_INVALID_ARG);
    p->n_blocks = o.n_blocks;
    world_check(&w);
    assert_int_equal(world_suspend(&w, &seq, 1), PKV_OK);
    p->n_blocks = 2;
    assert_int_equal(w.p->ops->resume(w.p, &seq, 1, 0), PKV_E_INVALID_ARG);
    p->n_blocks = o.n_blocks;
    world_check(&w);
    assert_int_equal(world_resume(&w, &seq, 1, 0), PKV_OK);
    world_check(&w);
    world_drop(&w);
}

/* ---------------------------------------------------------------- steps */

static void undone(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        int32_t ids[9], seq, child;
        const world_options o = world_plain(kinds[k]);
        world_make(&w, &o);
        world_prompt(&w, ids, 9);
        assert_int_equal(world_admit(&w, ids, 9, 20, 2, 0, &seq), PKV_OK);
        world_begin(&w);
        world_commit(&w, seq, 5);
        world_retire(&w);
        world_begin(&w);
        world_commit(&w, seq, 1);
        world_commit(&w, seq, 2);
        assert_int_equal(w.p->ops->committed(w.p, seq), 8);
        assert_int_equal(world_fork(&w, seq, &child, 1), PKV_OK);
        world_abort(&w);
        assert_int_equal(w.p->ops->committed(w.p, seq), 5);
        assert_int_equal(w.p->ops->committed(w.p, child), 5);
        world_check(&w);
        assert_int_equal(w.p->ops->commit(w.p, seq, ids, 0), PKV_OK); /* the step is over */
        assert_int_equal(world_step(&w, seq, 4), PKV_OK);
        assert_int_equal(world_step(&w, child, 4), PKV_OK);
        world_check(&w);
        world_drop(&w);
    }
}

/* Room for 20 tokens, 9 of them used: the rest is nobody's after a fork. */
static void a_fork_returns_room(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        int32_t ids[9], child, n_ids;
        const int32_t more = 11;
        const world_options o = world_plain(kinds[k]);
        world_make(&w, &o);
        world_prompt(&w, ids, 9);
        const int32_t seq = world_prefilled(&w, ids, 9, 20, 2);
        assert_int_equal(world_reserve(&w, &seq, &more, 1), PKV_OK);
        w.p->ops->row(w.p, seq, &n_ids);
        assert_int_equal(n_ids, 5);
        assert_int_equal(world_fork(&w, seq, &child, 1), PKV_OK);
        const int32_t both[2] = { seq, child };
        for (int32_t i = 0; i < 2; i++) {
            w.p->ops->row(w.p, both[i], &n_ids);
            assert_int_equal(n_ids, 3);
            assert_int_equal(w.p->ops->commit(w.p, both[i], ids, 1), PKV_E_STATE);
        }
        world_check(&w);
        world_drop(&w);
    }
}

/* The check is not blind. */
static void check_sees(void **state)
{
    (void)state;
    world w;
    int32_t ids[9];
    const world_options o = world_plain(PKV_PLACE_PAGED);
    world_make(&w, &o);
    world_prompt(&w, ids, 9);
    const int32_t seq = world_prefilled(&w, ids, 9, 20, 1);
    pkv__paged *p = pkv__paged_of(w.p);
    p->committed[seq]++;
    world_expect_line(&w, "committed", w.p->ops->check(w.p), PKV_E_CORRUPT, "9 tokens, state 0");
    p->committed[seq]--;
    p->numbers.n_free--;
    w.log.n_lines = 0;
    world_expect_line(&w, "numbers", w.p->ops->check(w.p), PKV_E_CORRUPT, "1 sequences live");
    p->numbers.n_free++;
    w.log.n_lines = 0;
    assert_int_equal(world_suspend(&w, &seq, 1), PKV_OK);
    int32_t *row = pkv__parked_row(p, seq);
    row[0] = -row[0]; /* as if it had stayed */
    world_expect_line(&w, "host", w.p->ops->check(w.p), PKV_E_CORRUPT, "parked rows have 2");
    row[0] = -row[0];
    w.log.n_lines = 0;
    world_drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life),
        cmocka_unit_test(refused_configurations),
        cmocka_unit_test(sizes),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(identity_of_content),
        cmocka_unit_test(bad_calls),
        cmocka_unit_test(bad_swaps),
        cmocka_unit_test(a_transfer_fails),
        cmocka_unit_test(undone),
        cmocka_unit_test(a_fork_returns_room),
        cmocka_unit_test(check_sees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
