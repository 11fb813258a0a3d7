/* The worked examples of docs/blockmgr.md, one test each: the calls in the order in which an engine
 * makes them, and what it may rely on after each. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

enum { T = 4 };

static pkv_status commit_one(fx *f, pkv_seq s, int32_t id, pkv_step step)
{
    const pkv_tokens t = { &id, 1, NULL, 0 };
    return pkv_seq_commit(f->m, s, &t, step);
}

/* The next iteration is scheduled while the last one still runs. */
static void asynchronous_steps(void **state)
{
    (void)state;
    fx *f = fx_new(16, T, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f);
    pkv_step previous = PKV_STEP_NONE, step;
    for (int32_t i = 0; i < 2 * T; i++) {
        fx_reserve(f, s, 1);
        assert_ok(pkv_step_begin(f->m, &step));
        assert_ok(commit_one(f, s, 'a' + i, step));
        if (previous.v != 0) assert_ok(pkv_step_retire(f->m, previous));
        previous = step;
        assert_int_equal(fx_info(f, s).committed, i + 1);
        assert_int_equal(fx_info(f, s).settled, i); /* one step runs */
    }
    assert_int_equal(fx_probe(f, "abcdefgh"), T); /* the eighth token is still being written */
    fx_close(f, s);                               /* cancelled while the step runs */
    assert_int_equal(fx_stats(f).limbo_blocks, 2);
    assert_ok(pkv_step_retire(f->m, previous));
    assert_int_equal(fx_stats(f).limbo_blocks, 0);
    assert_int_equal(fx_probe(f, "abcdefgh"), 2 * T);
    fx_end(f);
}

/* Everything that could be had is held back by a running step. */
static void again_is_not_no_blocks(void **state)
{
    (void)state;
    fx *f = fx_new(3, T, PKV_MGR_PREFIX_CACHE); /* two blocks */
    pkv_seq a = fx_open(f), b = fx_open(f);
    pkv_step step;
    pkv_need need = PKV_NEED_INIT;
    fx_reserve(f, a, 2 * T);
    assert_ok(pkv_step_begin(f->m, &step));
    fx_close(f, a);
    fx_refused(f, PKV_E_AGAIN, fx_try_reserve(f, b, T));
    assert_ok(pkv_blockmgr_need(f->m, &(pkv_reserve_req){ b, T }, 1, &need));
    assert_int_equal(need.verdict, PKV_E_AGAIN);
    assert_int_equal(need.step.v, step.v);
    assert_ok(pkv_step_retire(f->m, need.step));
    fx_reserve(f, b, T);
    fx_end(f);
}

/* Of four sequences on one tail the first three copy, the last keeps the original. */
static void parallel_sampling(void **state)
{
    (void)state;
    fx *f = fx_new(16, T, PKV_MGR_PREFIX_CACHE);
    pkv_seq all[4] = { fx_with(f, "abcde") };
    assert_ok(pkv_seq_fork(f->m, all[0], all + 1, 3));
    const int32_t tail = fx_block(f, all[0], 1);
    pkv_reserve_req reqs[4];
    for (int i = 0; i < 4; i++) reqs[i] = (pkv_reserve_req){ all[i], 1 };
    assert_ok(pkv_seq_reserve(f->m, reqs, 4, &f->work));
    assert_int_equal(f->work.n_copy, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->work.copy[i].src, tail);
        assert_int_equal(f->work.copy[i].dst, fx_block(f, all[i], 1));
        assert_int_equal(f->work.copy[i].n_tokens, 1);
    }
    assert_int_equal(fx_block(f, all[3], 1), tail);
    fx_end(f);
}

/* After every step the survivors are forked and the losers closed. */
static void beam_search(void **state)
{
    (void)state;
    fx *f = fx_new(16, T, PKV_MGR_PREFIX_CACHE);
    pkv_seq winner = fx_with(f, "abcdef"), loser = fx_with(f, "abcdxy"), child;
    assert_ok(pkv_seq_fork(f->m, winner, &child, 1));
    assert_ok(pkv_seq_close(f->m, loser));
    assert_int_equal(fx_block(f, child, 0), fx_block(f, winner, 0));
    assert_int_equal(fx_block(f, child, 1), fx_block(f, winner, 1));
    assert_int_equal(fx_stats(f).active_blocks, 2); /* no byte was copied */
    fx_end(f);
}

/* k drafts are reserved, some accepted; the rest of the room is used by the next round. */
static void speculative_rollback(void **state)
{
    (void)state;
    fx *f = fx_new(16, T, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_with(f, "abcd");
    fx_reserve(f, s, 5); /* 4 drafts and one */
    const int32_t block = fx_block(f, s, 1);
    fx_commit(f, s, "ef"); /* one accepted and one */
    fx_reserve(f, s, 3);
    assert_int_equal(fx_block(f, s, 1), block);
    assert_int_equal(f->work.n_copy, 0);
    fx_commit(f, s, "ghi");
    assert_int_equal(fx_probe(f, "abcdefgh"), 8);
    fx_truncate(f, s, 6); /* back behind what is findable: the next write copies */
    fx_reserve(f, s, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(fx_probe(f, "abcdefgh"), 8);
    fx_end(f);
}

/* A victim goes to host memory and comes back. */
static void preemption_by_swap(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 5, cfg.block_tokens = T, cfg.max_seqs = 4, cfg.max_seq_tokens = 64;
    cfg.n_host_blocks = 8;
    fx *f = fx_from(&cfg);
    pkv_swap_copy copies[4];
    pkv_hold hold;
    pkv_hold_result done[2];
    int32_t n = 0;
    pkv_seq victim = fx_with(f, "abcdefgh"), other = fx_with(f, "stuvwxyz"); /* four blocks */
    assert_string_equal(pkv_status_name(fx_try_reserve(f, other, 1)), "PKV_E_NO_BLOCKS");
    assert_ok(pkv_seqs_suspend(f->m, &victim, 1, 10, copies, 4, &n, &hold));
    assert_int_equal(n, 2);
    pkv_hold_post(f->m, hold, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 1, done, 2, &n));
    assert_int_equal(n, 1);
    assert_int_equal(done[0].end, PKV_HOLD_DONE);
    assert_int_equal(fx_info(f, victim).state, PKV_SEQ_SUSPENDED);
    fx_reserve(f, other, 1);
    fx_commit(f, other, "!");
    fx_close(f, other);
    assert_ok(pkv_seqs_resume(f->m, &victim, 1, 10, copies, 4, &n, &hold));
    assert_int_equal(n, 2);
    pkv_hold_post(f->m, hold, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 2, done, 2, &n));
    assert_int_equal(fx_info(f, victim).state, PKV_SEQ_RUNNING);
    fx_commit(f, victim, "ijkl");
    assert_int_equal(fx_probe(f, "abcdefghijkl"), 12);
    fx_end(f);
}

/* The peer never answers: the deadline ends it, the blocks wait until they are reclaimed. */
static void transfer_without_end(void **state)
{
    (void)state;
    fx *f = fx_new(8, T, PKV_MGR_PREFIX_CACHE);
    pkv_hold hold;
    pkv_hold_result done[1];
    int32_t n = 0;
    pkv_seq s = fx_with(f, "abcd");
    assert_ok(pkv_hold_open(f->m, s, 4, 5, &hold));
    fx_close(f, s);
    assert_ok(pkv_blockmgr_poll(f->m, 6, done, 1, &n));
    assert_int_equal(done[0].end, PKV_HOLD_EXPIRED);
    assert_int_equal(fx_stats(f).quarantine_blocks, 1);
    assert_ok(pkv_hold_reclaim(f->m, hold));
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    fx_end(f);
}

/* One FULL and one SLIDING group; the window's row is 0 where nothing is seen any more. */
static void sliding_window(void **state)
{
    (void)state;
    const pkv_group groups[] = { { PKV_GROUP_FULL, T, 0, 0, 0 },
                                 { PKV_GROUP_SLIDING, T, 5, 0, 0 } };
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 32, cfg.max_seqs = 4, cfg.max_seq_tokens = 64;
    cfg.groups = groups, cfg.n_groups = 2;
    fx *f = fx_from(&cfg);
    const int32_t *full, *window;
    int32_t n_full = 0, n_window = 0;
    pkv_seq s = fx_with(f, "abcdefghijkl"); /* a query at 12 sees 8 .. 12 */
    assert_ok(pkv_seq_row(f->m, s, 0, &full, &n_full));
    assert_ok(pkv_seq_row(f->m, s, 1, &window, &n_window));
    assert_int_equal(n_full, 3);
    assert_int_equal(n_window, 3);
    for (int i = 0; i < 3; i++) assert_true(full[i] > 0);
    assert_int_equal(window[0], 0);
    assert_int_equal(window[1], 0);
    assert_true(window[2] > 0);
    fx_end(f);
}

/* Only what changed is sent, with zeros where a row got shorter. */
static void tables_on_a_device(void **state)
{
    (void)state;
    fx *f = fx_new(16, T, PKV_MGR_PREFIX_CACHE);
    pkv_table_range ranges[8];
    pkv_delta delta = PKV_DELTA_INIT;
    int32_t ids[64];
    pkv_seq s = fx_with(f, "abcdefghi");
    assert_ok(pkv_table_delta(f->m, 0, ranges, 8, ids, 64, &delta));
    assert_int_equal(delta.n_ids, 3);
    fx_truncate(f, s, 4);
    assert_ok(pkv_table_delta(f->m, 0, ranges, 8, ids, 64, &delta));
    assert_int_equal(delta.n_ranges, 1);
    assert_int_equal(ranges[0].first, 1);
    assert_int_equal(ranges[0].n, 2);
    assert_int_equal(ids[0] | ids[1], 0);
    assert_ok(pkv_table_delta(f->m, 0, ranges, 8, ids, 64, &delta));
    assert_int_equal(delta.n_ranges, 0);
    fx_end(f);
}

/* An engine with block tables of its own. */
static void own_block_tables(void **state)
{
    (void)state;
    fx *f = fx_new(8, T, PKV_MGR_PREFIX_CACHE);
    int32_t ids[2], found[2], n = 0, text[8];
    const pkv_tokens prompt = fx_text("abcdefgh", text);
    pkv_tokens unit = { text, T, NULL, 0 };
    assert_ok(pkv_blocks_take(f->m, 2, ids, &f->work));
    assert_ok(pkv_block_publish(f->m, (pkv_ns){ 0 }, 0, &unit, ids[0]));
    unit.ids += T;
    assert_ok(pkv_block_publish(f->m, (pkv_ns){ 0 }, ids[0], &unit, ids[1]));
    assert_ok(pkv_blocks_unref(f->m, (int32_t[]){ ids[1], ids[0] }, 2)); /* tail first */
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    assert_ok(pkv_blocks_lookup(f->m, (pkv_ns){ 0 }, &prompt, found, 2, &n));
    assert_int_equal(n, 2);
    assert_memory_equal(found, ids, sizeof ids);
    assert_ok(pkv_blocks_unref(f->m, (int32_t[]){ ids[1], ids[0] }, 2));
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asynchronous_steps),   cmocka_unit_test(again_is_not_no_blocks),
        cmocka_unit_test(parallel_sampling),    cmocka_unit_test(beam_search),
        cmocka_unit_test(speculative_rollback), cmocka_unit_test(preemption_by_swap),
        cmocka_unit_test(transfer_without_end), cmocka_unit_test(sliding_window),
        cmocka_unit_test(tables_on_a_device),   cmocka_unit_test(own_block_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
