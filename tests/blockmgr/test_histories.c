/* Histories that broke earlier wordings of the rules, found by executing a model of them. The
 * device is played by an array of one token per slot: work lists are carried out when the call
 * returns, writes of a launch land when the test says so. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define PARTIAL (PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS)

enum { MAX_LAUNCH = 16, MAX_SLOTS = 512 };

typedef struct device {
    int32_t block_tokens;
    int32_t kv[MAX_SLOTS]; /* the token whose K and V lie in the slot; 0: never written */
} device;
typedef struct launch {
    int32_t n;
    int64_t slot[MAX_LAUNCH];
    int32_t token[MAX_LAUNCH];
} launch;

/* What the last call wanted done. No block is source and destination, or twice a destination. */
static void do_work(fx *f, device *d)
{
    for (int32_t i = 0; i < f->work.n_copy; i++) {
        const pkv_block_copy *c = &f->copy[i];
        for (int32_t k = 0; k < i; k++) {
            assert_int_not_equal(c->dst, f->copy[k].dst);
            assert_int_not_equal(c->src, f->copy[k].dst);
            assert_int_not_equal(c->dst, f->copy[k].src);
        }
        memmove(&d->kv[c->dst * d->block_tokens], &d->kv[c->src * d->block_tokens],
                (size_t)c->n_tokens * sizeof d->kv[0]);
    }
}

/* The writes of these tokens from position `first` on are on their way. */
static launch launched(fx *f, pkv_seq s, int32_t first, const char *text)
{
    launch l = { (int32_t)strlen(text), { 0 }, { 0 } };
    assert_ok(pkv_seq_slots(f->m, s, 0, first, l.n, l.slot));
    for (int32_t i = 0; i < l.n; i++) l.token[i] = text[i];
    return l;
}

static void land(device *d, const launch *l)
{
    for (int32_t i = 0; i < l->n; i++) d->kv[l->slot[i]] = l->token[i];
}

/* Reading through the row finds exactly this text. */
static void reads(fx *f, const device *d, pkv_seq s, const char *text)
{
    int64_t slot[MAX_LAUNCH];
    int32_t n = (int32_t)strlen(text);
    assert_ok(pkv_seq_slots(f->m, s, 0, 0, n, slot));
    for (int32_t i = 0; i < n; i++) assert_int_equal(d->kv[slot[i]], text[i]);
}

/* A match of this text claims `n` tokens, and their bytes are there. */
static void finds(fx *f, device *d, const char *text, int32_t n)
{
    char head[MAX_LAUNCH] = { 0 };
    pkv_seq s;
    assert_int_equal(fx_match(f, text, 0, &s), n);
    do_work(f, d);
    memcpy(head, text, (size_t)n);
    reads(f, d, s, head);
    fx_close(f, s);
}

/* reserve and work; the writes have landed when it returns, the commit is in `step`. */
static void run(fx *f, device *d, pkv_seq s, const char *text, pkv_step step)
{
    fx_reserve(f, s, (int32_t)strlen(text));
    do_work(f, d);
    launch l = launched(f, s, fx_info(f, s).committed, text);
    land(d, &l);
    assert_ok(fx_put(f, s, text, step));
}

/* open; reserve 2; commit 1; fork: no reserved slot lies in a block that two rows share. */
static void fork_returns_the_surplus(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_open(f);
    fx_reserve(f, a, 2);
    assert_ok(fx_put(f, a, "a", PKV_STEP_NONE));
    pkv_seq b = fx_fork(f, a);
    assert_int_equal(fx_info(f, a).reserved, 1);
    assert_int_equal(fx_info(f, b).reserved, 1);
    fx_refused(f, PKV_E_STATE, fx_put(f, a, "b", PKV_STEP_NONE));
    fx_reserve(f, a, 1);
    assert_int_equal(f->work.n_copy, 1);
    fx_reserve(f, b, 1);
    assert_int_equal(f->work.n_copy, 0);
    fx_end(f);
}

/* T=2: A commits (0,0) in step 1; B, its fork, goes back to 1 and writes another token there; A is
 * closed, and its prepared node names the block that A's write went to. */
static void a_prepared_node_keeps_its_block(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    device d = { 2, { 0 } };
    pkv_seq a = fx_open(f);
    fx_reserve(f, a, 2);
    pkv_step one = fx_begin(f);
    launch first = launched(f, a, 0, "00");
    assert_ok(fx_put(f, a, "00", one));
    pkv_seq b = fx_fork(f, a);
    fx_truncate(f, b, 1);
    fx_close(f, a);
    fx_reserve(f, b, 1);
    assert_int_equal(f->work.n_copy, 1);
    land(&d, &first); /* the work of a call comes after the writes of steps begun earlier */
    do_work(f, &d);
    pkv_step two = fx_begin(f);
    launch second = launched(f, b, 1, "1");
    assert_ok(fx_put(f, b, "1", two));
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "01"), 0);
    finds(f, &d, "00", 2);
    land(&d, &second);
    fx_retire(f, two);
    finds(f, &d, "00", 2);
    finds(f, &d, "01", 2);
    fx_close(f, b);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* match (X -> Y), close, match (X -> Y again): two lists, each right alone and in order. */
static void the_same_destination_in_two_lists(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, PARTIAL);
    device d = { 4, { 0 } };
    pkv_seq a = fx_open(f), s;
    run(f, &d, a, "ab", PKV_STEP_NONE);
    int32_t x = fx_block(f, a, 0), y = 0;
    fx_close(f, a);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fx_match(f, "abc", 0, &s), 2);
        assert_int_equal(f->work.n_copy, 1);
        assert_int_equal(f->copy[0].src, x);
        if (i == 0) y = f->copy[0].dst;
        else assert_int_equal(f->copy[0].dst, y); /* most recently freed first */
        do_work(f, &d);
        reads(f, &d, s, "ab");
        fx_close(f, s);
    }
    fx_end(f);
}

/* A computes n1; B computes n1 (a spare) and n2; both close; the child goes first. */
static void a_spare_keeps_the_parent(void **state)
{
    (void)state;
    for (int order = 0; order <= 1; order++) {
        fx *f = fx_new(10, 2, CACHE);
        pkv_seq a = fx_with(f, "ab"), b = fx_with(f, "abcd");
        fx_close(f, order ? b : a);
        fx_close(f, order ? a : b);
        assert_int_equal(fx_stats(f).cached_blocks, 2);
        fx_evict(f, 1);
        assert_int_equal(fx_probe(f, "abcd"), 2);
        fx_check(f);
        fx_evict(f, 1);
        assert_int_equal(fx_probe(f, "abcd"), 0);
        assert_int_equal(fx_stats(f).nodes, 0);
        fx_end(f);
    }
}

/* T=2: settled 4, truncate 3, reserve 1, close: the block that was copied from goes first. */
static void the_copied_from_child_goes_first(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "abcd");
    fx_truncate(f, a, 3);
    fx_reserve(f, a, 1);
    assert_int_equal(f->work.n_copy, 1);
    fx_close(f, a);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    fx_evict(f, 1);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    fx_evict(f, 1);
    assert_int_equal(fx_probe(f, "abcd"), 0);
    fx_end(f);
}

/* A sequence with commits in flight closes; the child settles later than its parent, in any order
 * of retires, and still goes before it. */
static void a_late_child_goes_before_its_parent(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        fx *f = fx_new(10, 2, CACHE);
        pkv_seq a = fx_open(f);
        pkv_step one = fx_begin(f), two = fx_begin(f);
        if (how & 1) fx_commit(f, a, "ab");
        else fx_commit_in(f, a, "ab", one);
        fx_commit_in(f, a, "cd", two);
        pkv_seq b = fx_fork(f, a);
        fx_truncate(f, b, 2);
        fx_close(f, a);
        fx_retire(f, how & 2 ? two : one);
        fx_close(f, b);
        fx_retire(f, how & 2 ? one : two);
        assert_int_equal(fx_stats(f).cached_blocks, 2);
        assert_int_equal(fx_probe(f, "abcd"), 4);
        fx_evict(f, 1);
        assert_int_equal(fx_probe(f, "abcd"), 2);
        fx_end(f);
    }
}

/* commit in open step 1; hold; abort 1: no hold on bytes never written. */
static void no_hold_on_pending_tokens(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "ab");
    pkv_hold h = { 77 };
    pkv_step one = fx_begin(f);
    fx_commit_in(f, a, "c", one);
    fx_refused(f, PKV_E_RANGE, pkv_hold_open(f->m, a, 3, 5, &h));
    assert_int_equal(h.v, 77);
    assert_ok(pkv_hold_open(f->m, a, 2, 5, &h));
    fx_abort(f, one);
    int32_t ids[4], n, done;
    pkv_hold_result r[2];
    assert_ok(pkv_hold_blocks(f->m, h, 0, ids, 4, &n));
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], fx_block(f, a, 0));
    pkv_hold_post(f->m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 1, r, 2, &done));
    assert_int_equal(done, 1);
    fx_close(f, a);
    fx_end(f);
}

/* hold, close, evict, release: what the hold released is in order again, and no child is left
 * alone. A hold is on a prefix, so only what lies behind it could go meanwhile. */
static void a_hold_leaves_no_orphan(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "abcdef");
    pkv_hold h;
    pkv_hold_result r[2];
    int32_t n;
    assert_ok(pkv_hold_open(f->m, a, 4, PKV_DEADLINE_NEVER, &h));
    fx_close(f, a);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_ok(pkv_blockmgr_evict(f->m, 9, &n));
    assert_int_equal(n, 1);
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 0, r, 2, &n));
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    fx_evict(f, 1);
    assert_int_equal(fx_probe(f, "abcdef"), 2);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* step 1 reads X; hold X; close; the hold expires; reclaim: X is not rewritten while step 1 reads.
 */
static void a_reclaimed_block_waits_for_the_step(void **state)
{
    (void)state;
    fx *f = fx_new(2, 2, CACHE);
    pkv_seq a = fx_with(f, "ab"), b = fx_open(f);
    pkv_hold h;
    pkv_hold_result r[2];
    int32_t n;
    pkv_step one = fx_begin(f);
    assert_ok(pkv_hold_open(f->m, a, 2, 5, &h));
    fx_close(f, a);
    assert_int_equal(fx_stats(f).active_blocks, 1);
    assert_ok(pkv_blockmgr_poll(f->m, 6, r, 2, &n));
    assert_int_equal(fx_stats(f).quarantine_blocks, 1);
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, b, 1));
    assert_ok(pkv_hold_reclaim(f->m, h));
    assert_int_equal(fx_stats(f).limbo_blocks, 1);
    fx_refused(f, PKV_E_AGAIN, fx_try_reserve(f, b, 1));
    assert_int_equal(fx_need(f, b, 1).step.v, one.v);
    fx_retire(f, one);
    fx_reserve(f, b, 1);
    fx_close(f, b);
    fx_end(f);
}

/* T=4: A settled 1, second token in step 1; fork B; truncate(B,1); close A; B writes slot 1 in step
 * 2. Steps take effect in the order of their begin, so B's token is the last, in whatever order
 * they are retired. */
static void the_later_step_writes_last(void **state)
{
    (void)state;
    for (int order = 0; order <= 1; order++) {
        fx *f = fx_new(10, 4, CACHE);
        device d = { 4, { 0 } };
        pkv_seq a = fx_open(f);
        run(f, &d, a, "a", PKV_STEP_NONE);
        fx_reserve(f, a, 1);
        pkv_step one = fx_begin(f);
        launch first = launched(f, a, 1, "b");
        assert_ok(fx_put(f, a, "b", one));
        pkv_seq b = fx_fork(f, a);
        fx_truncate(f, b, 1);
        fx_close(f, a);
        fx_reserve(f, b, 3);
        assert_int_equal(f->work.n_copy, 0); /* alone, and nothing is named beyond slot 0 */
        pkv_step two = fx_begin(f);
        launch second = launched(f, b, 1, "cde");
        assert_ok(fx_put(f, b, "cde", two));
        land(&d, &first);
        land(&d, &second);
        fx_retire(f, order ? two : one);
        fx_retire(f, order ? one : two);
        reads(f, &d, b, "acde");
        finds(f, &d, "acde", 4);
        assert_int_equal(fx_probe(f, "abde"), 0);
        fx_close(f, b);
        fx_end(f);
    }
}

/* Two usable blocks, T=2: commit 4, truncate 3, reserve 1: written in place, not NO_BLOCKS. Three:
 * the same with more to reserve. */
static void a_lone_sequence_does_not_starve(void **state)
{
    (void)state;
    for (int32_t more = 0; more <= 1; more++) {
        fx *f = fx_new(3 + more, 2, CACHE);
        device d = { 2, { 0 } };
        pkv_seq a = fx_open(f);
        run(f, &d, a, "abcd", PKV_STEP_NONE);
        fx_truncate(f, a, 3);
        fx_reserve(f, a, 1 + 2 * more);
        assert_int_equal(f->work.n_copy, 0);
        assert_int_equal(fx_stats(f).withdrawn, 1);
        assert_int_equal(fx_probe(f, "abcd"), 2);
        run(f, &d, a, "x", PKV_STEP_NONE);
        finds(f, &d, "abcx", 4);
        fx_close(f, a);
        assert_int_equal(fx_drain(f), 2 + more);
        fx_end(f);
    }
}

/* launch, truncate(0), match, commit of that launch: void, and the block cannot be had again while
 * the step may write it. */
static void a_truncated_launch_is_void(void **state)
{
    (void)state;
    fx *f = fx_new(3, 2, CACHE);
    pkv_seq a = fx_open(f);
    int32_t ids[4];
    pkv_tokens t = fx_text("ab", ids);
    fx_reserve(f, a, 2);
    int32_t block = fx_block(f, a, 0);
    pkv_step one = fx_begin(f);
    fx_truncate(f, a, 0);
    fx_refused(f, PKV_E_STATE, fx_put(f, a, "ab", one));
    assert_ok(pkv_seq_match(f->m, a, &t, 2, 0, &f->work, &f->match));
    fx_refused(f, PKV_E_STATE, fx_put(f, a, "ab", one));
    assert_ok(pkv_seq_match(f->m, a, &t, 2, 2, &f->work, &f->match));
    assert_int_not_equal(fx_block(f, a, 0), block);
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "ab"), 0);
    fx_close(f, a);
    fx_end(f);
}

/* IN_ORDER, two usable blocks: A commits 2 in step 1 and closes; B takes the block and writes it in
 * step 2; retire 1 publishes nothing. */
static void in_order_reuse_leaves_no_key(void **state)
{
    (void)state;
    fx *f = fx_new(3, 2, CACHE | PKV_MGR_IN_ORDER);
    device d = { 2, { 0 } };
    pkv_seq a = fx_open(f), b = fx_open(f);
    fx_reserve(f, a, 2);
    int32_t block = fx_block(f, a, 0);
    pkv_step one = fx_begin(f);
    launch first = launched(f, a, 0, "ab");
    assert_ok(fx_put(f, a, "ab", one));
    fx_close(f, a);
    fx_reserve(f, b, 2);
    assert_int_equal(fx_block(f, b, 0), block);
    pkv_step two = fx_begin(f);
    launch second = launched(f, b, 0, "xy");
    assert_ok(fx_put(f, b, "xy", two));
    land(&d, &first);
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "ab"), 0);
    land(&d, &second);
    fx_retire(f, two);
    finds(f, &d, "xy", 2);
    fx_close(f, b);
    fx_end(f);
}

/* T=4, partial hits: the tail that A leaves behind is prepared at close, so B gets a copy. */
static void a_late_tail_keeps_its_block(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, PARTIAL);
    device d = { 4, { 0 } };
    pkv_seq a = fx_open(f);
    fx_reserve(f, a, 2);
    pkv_step one = fx_begin(f);
    launch first = launched(f, a, 0, "00");
    assert_ok(fx_put(f, a, "00", one));
    pkv_seq b = fx_fork(f, a);
    fx_truncate(f, b, 1);
    fx_close(f, a);
    fx_reserve(f, b, 1);
    assert_int_equal(f->work.n_copy, 1);
    land(&d, &first);
    do_work(f, &d);
    pkv_step two = fx_begin(f);
    launch second = launched(f, b, 1, "1");
    assert_ok(fx_put(f, b, "1", two));
    land(&d, &second);
    fx_retire(f, one);
    finds(f, &d, "00", 2);
    finds(f, &d, "01", 1);
    fx_retire(f, two);
    fx_close(f, b);
    finds(f, &d, "01", 2);
    finds(f, &d, "00", 2);
    fx_end(f);
}

/* T=4: settled 1, reserved 2, launch slot 1, fork, reserve 1 (copy): the launch is lost to all, the
 * copy takes what is committed and no more. */
static void fork_voids_the_launch(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, CACHE);
    device d = { 4, { 0 } };
    pkv_seq a = fx_open(f);
    run(f, &d, a, "a", PKV_STEP_NONE);
    fx_reserve(f, a, 1);
    pkv_step one = fx_begin(f);
    launch lost = launched(f, a, 1, "b");
    pkv_seq b = fx_fork(f, a);
    fx_refused(f, PKV_E_STATE, fx_put(f, a, "b", one));
    fx_reserve(f, a, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->copy[0].n_tokens, 1);
    land(&d, &lost);
    do_work(f, &d);
    fx_retire(f, one);
    run(f, &d, a, "x", PKV_STEP_NONE);
    run(f, &d, b, "y", PKV_STEP_NONE);
    reads(f, &d, a, "ax");
    reads(f, &d, b, "ay");
    fx_end(f);
}

/* Full T=2 and sliding T=4 with window 1: match 2, reserve to 4, commit 2. The sliding block's
 * first slots were never written, so it gets no node. The same with chunks that begin inside a
 * block, where the gap shows in the next match. */
static void a_block_begun_inside_gets_no_node(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(20, 2, CACHE);
    pkv_group g[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 }, { PKV_GROUP_SLIDING, 4, 1, 0, 0 } };
    cfg.groups = g;
    cfg.n_groups = 2;
    fx *f = fx_from(&cfg);
    pkv_seq s;
    fx_close(f, fx_with(f, "ab"));
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_match(f, "abxy", 4, &s), 2);
    assert_int_equal(fx_stats(f).active_blocks, 3);
    assert_ok(fx_put(f, s, "xy", PKV_STEP_NONE));
    assert_int_equal(fx_stats(f).active_blocks, 2); /* the window has left it */
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    fx_end(f);

    g[1] = (pkv_group){ PKV_GROUP_CHUNKED, 4, 6, 0, 0 };
    f = fx_from(&cfg);
    fx_close(f, fx_with(f, "abcdef"));
    assert_int_equal(fx_match(f, "abcdefgh", 8, &s), 6); /* a new chunk: nothing below is seen */
    assert_ok(fx_put(f, s, "g", PKV_STEP_NONE));
    fx_truncate(f, s, 6); /* does not make it whole */
    fx_commit(f, s, "gh");
    assert_int_equal(fx_probe(f, "abcdefghi"), 6);
    assert_int_equal(f->match.longest[0], 8);
    assert_int_equal(f->match.longest[1], 6);
    assert_int_equal(f->match.stop_reason[1], PKV_STOP_WINDOW);
    fx_close(f, s);
    fx_close(f, fx_with(f, "abcdefgh")); /* computed from the beginning: it has one */
    assert_int_equal(fx_probe(f, "abcdefghi"), 8);
    fx_end(f);
}

/* T=4: settled 2, truncate 1, fork, reserve(child,1), hold(child,1), transfer at once: the held
 * block is the destination of the copy, so its bytes are there once the work before hold_open is
 * done. */
static void a_hold_on_a_copy(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, CACHE);
    device d = { 4, { 0 } };
    pkv_seq a = fx_open(f);
    pkv_hold h;
    pkv_hold_result r[2];
    int32_t ids[2], n;
    run(f, &d, a, "ab", PKV_STEP_NONE);
    fx_truncate(f, a, 1);
    pkv_seq kid = fx_fork(f, a);
    fx_reserve(f, kid, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_ok(pkv_hold_open(f->m, kid, 1, 9, &h));
    assert_ok(pkv_hold_blocks(f->m, h, 0, ids, 2, &n));
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], f->copy[0].dst);
    do_work(f, &d);
    assert_int_equal(d.kv[4 * ids[0]], 'a');
    run(f, &d, kid, "x", PKV_STEP_NONE); /* behind what is held: in place */
    assert_int_equal(fx_block(f, kid, 0), ids[0]);
    fx_truncate(f, kid, 0);
    fx_reserve(f, kid, 1);
    assert_int_not_equal(fx_block(f, kid, 0), ids[0]);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 1, r, 2, &n));
    fx_close(f, kid);
    fx_close(f, a);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* Two usable blocks, a step always open: reserve 4, match(upto 4) is AGAIN because of the surplus;
 * truncate(0) first, and the next retire brings it. */
static void truncate_before_a_match_under_steps(void **state)
{
    (void)state;
    fx *f = fx_new(3, 2, CACHE);
    pkv_seq a = fx_open(f);
    int32_t ids[8];
    pkv_tokens t = fx_text("abcd", ids);
    pkv_step one = fx_begin(f);
    fx_reserve(f, a, 4);
    fx_refused(f, PKV_E_AGAIN, pkv_seq_match(f->m, a, &t, 4, 4, &f->work, &f->match));
    pkv_step two = fx_begin(f);
    fx_retire(f, one);
    fx_refused(f, PKV_E_AGAIN, pkv_seq_match(f->m, a, &t, 4, 4, &f->work, &f->match));
    fx_truncate(f, a, 0);
    pkv_step three = fx_begin(f);
    fx_retire(f, two);
    assert_ok(pkv_seq_match(f->m, a, &t, 4, 4, &f->work, &f->match));
    fx_retire(f, three);
    fx_close(f, a);
    assert_int_equal(fx_drain(f), 2);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_returns_the_surplus),
        cmocka_unit_test(a_prepared_node_keeps_its_block),
        cmocka_unit_test(the_same_destination_in_two_lists),
        cmocka_unit_test(a_spare_keeps_the_parent),
        cmocka_unit_test(the_copied_from_child_goes_first),
        cmocka_unit_test(a_late_child_goes_before_its_parent),
        cmocka_unit_test(no_hold_on_pending_tokens),
        cmocka_unit_test(a_hold_leaves_no_orphan),
        cmocka_unit_test(a_reclaimed_block_waits_for_the_step),
        cmocka_unit_test(the_later_step_writes_last),
        cmocka_unit_test(a_lone_sequence_does_not_starve),
        cmocka_unit_test(a_truncated_launch_is_void),
        cmocka_unit_test(in_order_reuse_leaves_no_key),
        cmocka_unit_test(a_late_tail_keeps_its_block),
        cmocka_unit_test(fork_voids_the_launch),
        cmocka_unit_test(a_block_begun_inside_gets_no_node),
        cmocka_unit_test(a_hold_on_a_copy),
        cmocka_unit_test(truncate_before_a_match_under_steps),
    };
    return cmocka_run_group_tests_name("histories", tests, NULL, NULL);
}
