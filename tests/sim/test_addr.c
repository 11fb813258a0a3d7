/* Address allocators: each against a plain map of the slots, and what the map cannot show: roots,
 * wrapping, compaction, pools of 2^31 - 1 slots, and what an operation of the buddy costs. */
#include "common/philox.h"
#include "sim/sim_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const pkv_allocator no_hook = { NULL, NULL, NULL };

static const pkv__sim_addr_ops *const all_ops[] = {
    &pkv__sim_addr_buddy,    &pkv__sim_addr_ideal,    &pkv__sim_addr_first_fit,
    &pkv__sim_addr_best_fit, &pkv__sim_addr_next_fit, &pkv__sim_addr_compact
};

/* ---------------------------------------------------------------- the plain map */

enum { MAP_SLOTS = 3000, MAX_HELD = 64 };

typedef struct plain_map {
    int32_t n, next; /* next: end of the last chunk, of next fit */
    char taken[MAP_SLOTS];
} plain_map;

/* The root of an address, found by walking over the powers of two in n. */
static void root_of(int32_t n, int32_t addr, int32_t *start, int32_t *size)
{
    int32_t from = 0;
    for (int32_t p = 1 << 30; p > 0; p /= 2) {
        if (!(n & p)) continue;
        if (addr < from + p) {
            *start = from;
            *size = p;
            return;
        }
        from += p;
    }
}

/* Is [addr, addr + q) inside one root, aligned to q, and free? */
static bool free_chunk(const plain_map *m, int32_t addr, int32_t q)
{
    int32_t start = 0, size = 0;
    root_of(m->n, addr, &start, &size);
    if (q > size || (addr - start) % q != 0 || addr + q > start + size) return false;
    for (int32_t k = 0; k < q; k++)
        if (m->taken[addr + k]) return false;
    return true;
}

/* A chunk counts as free of exactly this size if the enclosing one of twice the size is not. */
static bool maximal_chunk(const plain_map *m, int32_t addr, int32_t q)
{
    if (!free_chunk(m, addr, q)) return false;
    int32_t start = 0, size = 0;
    root_of(m->n, addr, &start, &size);
    const int32_t twice = addr - (addr - start) % (2 * q);
    return 2 * q > size || !free_chunk(m, twice, 2 * q);
}

/* Smallest free chunk that suffices, lowest address among equals. -1: none. */
static int32_t buddy_place(const plain_map *m, int32_t q)
{
    for (int32_t size = q; size <= MAP_SLOTS; size *= 2)
        for (int32_t addr = 0; addr + size <= m->n; addr++)
            if (maximal_chunk(m, addr, size)) return addr;
    return -1;
}

/* Length of the free run that begins at addr; 0: none begins there. */
static int32_t run_at(const plain_map *m, int32_t addr)
{
    if (m->taken[addr] || (addr > 0 && !m->taken[addr - 1])) return 0;
    int32_t len = 0;
    while (addr + len < m->n && !m->taken[addr + len]) len++;
    return len;
}

/* The first run of at least h slots that begins in [from, n), or the shortest such (best). */
static int32_t run_place(const plain_map *m, int32_t from, int32_t h, bool best)
{
    int32_t found = -1, found_len = 0;
    for (int32_t addr = from; addr < m->n; addr++) {
        const int32_t len = run_at(m, addr);
        if (len < h || (found >= 0 && (!best || len >= found_len))) continue;
        found = addr;
        found_len = len;
    }
    return found;
}

static int32_t plain_place(const plain_map *m, const pkv__sim_addr_ops *ops, int32_t h, int32_t *q)
{
    *q = h;
    if (ops == &pkv__sim_addr_best_fit) return run_place(m, 0, h, true);
    if (ops == &pkv__sim_addr_next_fit) {
        const int32_t addr = run_place(m, m->next, h, false);
        if (addr >= 0) return addr;
    }
    if (ops != &pkv__sim_addr_buddy) return run_place(m, 0, h, false);
    for (*q = 1; *q < h;) *q *= 2;
    return buddy_place(m, *q);
}

/* Free chunks (buddy) or runs, and the longest. */
static void count_free(const plain_map *m, bool buddy, int32_t *n_chunks, int32_t *largest)
{
    *n_chunks = *largest = 0;
    for (int32_t addr = 0; addr < m->n; addr++) {
        if (!buddy) {
            const int32_t len = run_at(m, addr);
            *n_chunks += len > 0;
            *largest = pkv__max_i32(*largest, len);
            continue;
        }
        for (int32_t q = 1; q <= m->n; q *= 2) {
            if (!maximal_chunk(m, addr, q)) continue;
            (*n_chunks)++;
            *largest = pkv__max_i32(*largest, q);
        }
    }
}

/* ---------------------------------------------------------------- random operations */

typedef struct churn {
    const pkv__sim_addr_ops *ops;
    void *a;
    uint64_t seed;
    plain_map map;
    pkv__sim_chunk held[MAX_HELD];
    int32_t n_held, n_free, round;
} churn;

static void churn_take(churn *c, int32_t h)
{
    int32_t want_q, addr = -7, q = -7;
    const int32_t want = plain_place(&c->map, c->ops, h, &want_q);
    const bool ok = c->ops->take(c->a, h, &addr, &q);
    if (ok != (want >= 0) || (ok && (addr != want || q != want_q)))
        fail_msg("%s, PKV_SEED=%llu, pool %d, round %d: %d slots at %d, expected %d", c->ops->name,
                 (unsigned long long)c->seed, c->map.n, c->round, h, addr, want);
    if (!ok) return;
    memset(c->map.taken + addr, 1, (size_t)q);
    c->map.next = addr + q;
    c->held[c->n_held++] = (pkv__sim_chunk){ addr, q };
    c->n_free -= q;
}

static void churn_give(churn *c, uint32_t k)
{
    const pkv__sim_chunk chunk = c->held[k];
    c->ops->give(c->a, chunk.addr, chunk.q);
    memset(c->map.taken + chunk.addr, 0, (size_t)chunk.q);
    c->n_free += chunk.q;
    c->held[k] = c->held[--c->n_held];
}

/* Afterwards the chunks follow each other from 0 on in the order that they had, and the model,
 * which marks each slot with the chunk that owns it, was moved slot by slot. */
static void churn_compact(churn *c)
{
    pkv__sim_chunk *list[MAX_HELD];
    int owner[MAP_SLOTS], n_owned = 0;
    memset(owner, -1, sizeof(owner));
    for (int32_t k = 0; k < c->n_held; k++) {
        list[k] = &c->held[c->n_held - 1 - k];
        for (int32_t s = 0; s < c->held[k].q; s++) owner[c->held[k].addr + s] = k;
    }
    int64_t want_moved = 0;
    for (int32_t s = 0; s < c->map.n; s++) {
        if (owner[s] < 0) continue;
        want_moved += s != n_owned;
        owner[n_owned++] = owner[s];
    }
    assert_int_equal(c->ops->compact(c->a, list, c->n_held), want_moved);
    for (int32_t k = 0; k < c->n_held; k++)
        for (int32_t s = 0; s < c->held[k].q; s++) assert_int_equal(owner[c->held[k].addr + s], k);
    memset(c->map.taken, 0, sizeof(c->map.taken));
    memset(c->map.taken, 1, (size_t)n_owned);
}

static void churn_check(const churn *c)
{
    int32_t n_chunks, largest;
    count_free(&c->map, c->ops == &pkv__sim_addr_buddy, &n_chunks, &largest);
    if (c->ops->n_free(c->a) != c->n_free || c->ops->largest_free(c->a) != largest ||
        c->ops->n_free_chunks(c->a) != n_chunks)
        fail_msg("%s, PKV_SEED=%llu, pool %d, round %d: %d free in %d, longest %d; expected %d, "
                 "%d, %d",
                 c->ops->name, (unsigned long long)c->seed, c->map.n, c->round,
                 c->ops->n_free(c->a), c->ops->n_free_chunks(c->a), c->ops->largest_free(c->a),
                 c->n_free, n_chunks, largest);
}

static void run_churn(const pkv__sim_addr_ops *ops, uint64_t seed, int32_t n_slots)
{
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 0, 0);
    churn c = { .ops = ops, .seed = seed, .map = { .n = n_slots }, .n_free = n_slots };
    assert_int_equal(ops->create(n_slots, MAX_HELD, &no_hook, &c.a), PKV_OK);
    churn_check(&c);
    for (c.round = 0; c.round < 600; c.round++) {
        if (c.n_held < MAX_HELD && pkv__rng_below(&rng, 100) < 60)
            churn_take(&c, 1 + (int32_t)pkv__rng_below(&rng, 1u << pkv__rng_below(&rng, 10)));
        else if (c.n_held > 0) churn_give(&c, pkv__rng_below(&rng, (uint32_t)c.n_held));
        if (ops->compact && pkv__rng_below(&rng, 20) == 0) churn_compact(&c);
        if (c.round % 7 == 0 || n_slots < 300) churn_check(&c);
    }
    while (c.n_held > 0) churn_give(&c, 0);
    churn_check(&c);
    ops->destroy(c.a);
}

static void test_places_against_map(void **state)
{
    (void)state;
    const char *given = getenv("PKV_SEED");
    const uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    static const int32_t pools[] = {
        1, 2, 3, 64, 65, 100, 255, 1000, 1023, 1024, 1025, 2999, 3000
    };
    print_message("# PKV_SEED=%llu\n", (unsigned long long)first);
    for (uint64_t seed = first; seed < first + (given ? 1 : 3); seed++)
        for (size_t k = 0; k < PKV_ARRAY_LEN(pools); k++)
            for (size_t o = 0; o < PKV_ARRAY_LEN(all_ops); o++)
                if (all_ops[o] != &pkv__sim_addr_ideal) run_churn(all_ops[o], seed, pools[k]);
}

static void test_table(void **state)
{
    (void)state;
    static const char *const names[] = { "buddy",    "ideal",    "first-fit",
                                         "best-fit", "next-fit", "compact" };
    for (int k = 0; k < 6; k++) {
        assert_ptr_equal(pkv__sim_addr_find((pkv_sim_addr)k), all_ops[k]);
        assert_string_equal(all_ops[k]->name, names[k]);
        assert_true((all_ops[k]->compact != NULL) == (k == PKV_SIM_ADDR_COMPACT));
        assert_true(all_ops[k]->has_places == (k != PKV_SIM_ADDR_IDEAL));
        all_ops[k]->destroy(NULL);
    }
    assert_null(pkv__sim_addr_find((pkv_sim_addr)6));
    assert_null(pkv__sim_addr_find((pkv_sim_addr)-1));
}

/* ---------------------------------------------------------------- buddy */

/* 15,728 = 8192 + 4096 + 2048 + 1024 + 256 + 64 + 32 + 16; 2048-slot chunks: 4 + 2 + 1. */
static void test_buddy_roots(void **state)
{
    (void)state;
    static const int32_t want[] = { 12288, 8192, 10240, 0, 2048, 4096, 6144 };
    const pkv__sim_addr_ops *ops = &pkv__sim_addr_buddy;
    void *b;
    int32_t addr, q;
    assert_int_equal(ops->create(15728, 100, &no_hook, &b), PKV_OK);
    assert_true(ops->fits_empty(b, 8192));
    assert_false(ops->fits_empty(b, 8193));
    assert_int_equal(ops->n_free_chunks(b), 8);
    assert_int_equal(ops->largest_free(b), 8192);
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        assert_true(ops->take(b, 2000, &addr, &q));
        assert_int_equal(addr, want[k]);
        assert_int_equal(q, 2048);
    }
    assert_false(ops->take(b, 2000, &addr, &q));
    assert_int_equal(ops->largest_free(b), 1024);
    assert_true(ops->take(b, 1024, &addr, &q));
    assert_int_equal(addr, 14336);
    assert_int_equal(ops->n_free(b), 256 + 64 + 32 + 16);
    assert_int_equal(ops->n_free_chunks(b), 4);
    ops->give(b, 0, 2048);
    ops->give(b, 4096, 2048);
    ops->give(b, 6144, 2048);
    assert_int_equal(ops->n_free_chunks(b), 4 + 2); /* 2048 at 0, 4096 at 4096 */
    ops->give(b, 2048, 2048);
    assert_int_equal(ops->n_free_chunks(b), 4 + 1);
    assert_true(ops->take(b, 8000, &addr, &q));
    assert_int_equal(addr, 0);
    ops->destroy(b);
}

/* Every root is granted as a chunk of its own size, in order of address, until nothing is left. */
static void test_buddy_takes_its_roots(void **state)
{
    (void)state;
    static const int32_t roots[] = { 8192, 4096, 2048, 1024, 256, 64, 32, 16 };
    const pkv__sim_addr_ops *ops = &pkv__sim_addr_buddy;
    void *b;
    int32_t addr, q, from = 0;
    assert_int_equal(ops->create(15728, 100, &no_hook, &b), PKV_OK);
    for (size_t k = 0; k < PKV_ARRAY_LEN(roots); k++) {
        assert_true(ops->take(b, roots[k], &addr, &q));
        assert_int_equal(addr, from);
        assert_int_equal(q, roots[k]);
        from += roots[k];
    }
    assert_int_equal(ops->n_free(b), 0);
    assert_int_equal(ops->largest_free(b), 0);
    assert_int_equal(ops->n_free_chunks(b), 0);
    assert_false(ops->take(b, 1, &addr, &q));
    ops->give(b, 8192, 4096); /* no buddy that passes the pool: roots stay apart */
    ops->give(b, 12288, 2048);
    ops->give(b, 0, 8192);
    assert_int_equal(ops->n_free_chunks(b), 3);
    assert_int_equal(ops->largest_free(b), 8192);
    ops->destroy(b);
}

/* Words of bitmaps visited by one operation in a pool of 2^order slots of which every second one is
 * taken, where a list of free chunks would have 2^(order - 1) entries: at most 3 sets per order,
 * each with a word per level. */
static void test_buddy_cost(void **state)
{
    (void)state;
    const pkv__sim_addr_ops *ops = &pkv__sim_addr_buddy;
    for (int order = 2; order <= 20; order++) {
        const int32_t n = 1 << order;
        const int64_t n_levels = (order + 5) / 6;
        const int64_t limit = 3 * n_levels * (order + 1);
        void *b;
        int32_t addr, q;
        assert_int_equal(ops->create(n, n, &no_hook, &b), PKV_OK);
        for (int32_t k = 0; k < n; k++) assert_true(ops->take(b, 1, &addr, &q));
        for (int32_t k = 0; k < n; k += 2) ops->give(b, k, 1);
        assert_int_equal(ops->n_free_chunks(b), n / 2);
        for (int32_t k = 1; k < n; k += 2) { /* merges, up to the whole pool at last */
            const int64_t before = pkv__sim_buddy_visits(b);
            ops->give(b, k, 1);
            assert_true(pkv__sim_buddy_visits(b) - before <= limit);
        }
        assert_int_equal(ops->largest_free(b), n);
        const int64_t before = pkv__sim_buddy_visits(b);
        assert_true(ops->take(b, 1, &addr, &q)); /* splits all the way down */
        assert_true(pkv__sim_buddy_visits(b) - before <= limit);
        assert_true(pkv__sim_buddy_visits(b) - before >= order);
        ops->destroy(b);
    }
}

/* ---------------------------------------------------------------- the others */

static void test_ideal(void **state)
{
    (void)state;
    const pkv__sim_addr_ops *ops = &pkv__sim_addr_ideal;
    void *a;
    int32_t addr, q;
    assert_int_equal(ops->create(100, 5, &no_hook, &a), PKV_OK);
    assert_true(ops->fits_empty(a, 100));
    assert_false(ops->fits_empty(a, 101));
    assert_true(ops->take(a, 70, &addr, &q));
    assert_int_equal(q, 70);
    assert_false(ops->take(a, 31, &addr, &q));
    assert_int_equal(ops->largest_free(a), 30);
    assert_int_equal(ops->n_free_chunks(a), 1);
    assert_true(ops->take(a, 30, &addr, &q));
    assert_int_equal(ops->n_free_chunks(a), 0);
    ops->give(a, addr, 30);
    assert_int_equal(ops->n_free(a), 30);
    ops->destroy(a);
}

static int32_t take_at(const pkv__sim_addr_ops *ops, void *a, int32_t h)
{
    int32_t addr, q;
    if (!ops->take(a, h, &addr, &q)) return -1;
    assert_int_equal(q, h);
    return addr;
}

/* 100 slots, by hand. It goes on behind the last chunk although there is room before it, wraps once
 * the end is too short, and a run that begins before the end of the last chunk comes last. */
static void test_next_fit_wraps(void **state)
{
    (void)state;
    const pkv__sim_addr_ops *ops = &pkv__sim_addr_next_fit;
    void *a;
    assert_int_equal(ops->create(100, 10, &no_hook, &a), PKV_OK);
    assert_int_equal(take_at(ops, a, 30), 0);
    assert_int_equal(take_at(ops, a, 30), 30);
    ops->give(a, 0, 30);
    assert_int_equal(take_at(ops, a, 30), 60); /* first fit would take 0 */
    assert_int_equal(take_at(ops, a, 11), 0);  /* 90 .. 100 is too short */
    assert_int_equal(take_at(ops, a, 10), 11);
    ops->give(a, 0, 11);
    assert_int_equal(take_at(ops, a, 10), 90); /* 21 .. 30 is too short, 90 .. 100 is not */
    assert_int_equal(take_at(ops, a, 5), 0);   /* from the end it wraps */
    assert_int_equal(take_at(ops, a, 12), -1); /* 5 .. 11 and 21 .. 30 */
    ops->give(a, 0, 5);
    /* The last chunk ended at 5, and the run 0 .. 11 has grown over that: 21 comes first. */
    assert_int_equal(take_at(ops, a, 9), 21);
    assert_int_equal(take_at(ops, a, 11), 0);
    ops->destroy(a);
}

/* As many chunks as there may be, each with a free run before it: the nodes suffice. A gap is made
 * by a chunk that goes again, one slot longer each time so that it does not fit the gaps before it.
 */
static void test_as_many_runs_as_chunks(void **state)
{
    (void)state;
    enum { MOST = 50 };
    for (size_t o = 0; o < PKV_ARRAY_LEN(all_ops); o++) {
        const pkv__sim_addr_ops *ops = all_ops[o];
        if (ops == &pkv__sim_addr_buddy || ops == &pkv__sim_addr_ideal) continue;
        void *a;
        int32_t end = 0;
        assert_int_equal(ops->create(10000, MOST, &no_hook, &a), PKV_OK);
        for (int32_t k = 1; k < MOST; k++) {
            assert_int_equal(take_at(ops, a, k), end);
            assert_int_equal(take_at(ops, a, MOST), end + k);
            ops->give(a, end, k);
            end += k + MOST;
            assert_int_equal(ops->n_free_chunks(a), k + 1);
        }
        ops->destroy(a);
    }
}

/* 100 slots: A 0 .. 20, B 20 .. 30, C 30 .. 60, D 60 .. 65. Without A and C, B and D slide down: 15
 * slots move, the run behind them is 15 .. 100. Compacting again moves nothing. */
static void test_compact_by_hand(void **state)
{
    (void)state;
    const pkv__sim_addr_ops *ops = &pkv__sim_addr_compact;
    void *a;
    assert_int_equal(ops->create(100, 10, &no_hook, &a), PKV_OK);
    assert_int_equal(take_at(ops, a, 20), 0);
    pkv__sim_chunk b = { take_at(ops, a, 10), 10 };
    assert_int_equal(take_at(ops, a, 30), 30);
    pkv__sim_chunk d = { take_at(ops, a, 5), 5 };
    ops->give(a, 0, 20);
    ops->give(a, 30, 30);
    assert_int_equal(take_at(ops, a, 36), -1);
    pkv__sim_chunk *list[] = { &d, &b };
    assert_int_equal(ops->compact(a, list, 2), 15);
    assert_int_equal(b.addr, 0);
    assert_int_equal(d.addr, 10);
    assert_int_equal(ops->largest_free(a), 85);
    assert_int_equal(ops->n_free_chunks(a), 1);
    assert_int_equal(ops->compact(a, list, 2), 0);
    assert_int_equal(take_at(ops, a, 85), 15);
    pkv__sim_chunk e = { 15, 85 };
    pkv__sim_chunk *full[] = { &e, &d, &b };
    assert_int_equal(ops->compact(a, full, 3), 0);
    assert_int_equal(ops->n_free_chunks(a), 0);
    ops->give(a, e.addr, e.q);
    ops->give(a, d.addr, d.q);
    ops->give(a, b.addr, b.q);
    assert_int_equal(ops->compact(a, full, 0), 0);
    assert_int_equal(ops->largest_free(a), 100);
    ops->destroy(a);
}

/* The largest pool: nothing overflows, and what the buddy touches of its bitmaps stays small. */
static void test_largest_pool(void **state)
{
    (void)state;
    for (size_t o = 0; o < PKV_ARRAY_LEN(all_ops); o++) {
        const pkv__sim_addr_ops *ops = all_ops[o];
        const bool buddy = ops == &pkv__sim_addr_buddy;
        void *a;
        int32_t addr, q;
        assert_int_equal(ops->create(INT32_MAX, 64, &no_hook, &a), PKV_OK);
        assert_int_equal(ops->n_free(a), INT32_MAX);
        assert_int_equal(ops->largest_free(a), buddy ? 1 << 30 : INT32_MAX);
        assert_int_equal(ops->n_free_chunks(a), buddy ? 31 : 1);
        assert_true(ops->fits_empty(a, 1 << 30));
        assert_true(ops->fits_empty(a, INT32_MAX) == !buddy);
        assert_true(ops->take(a, INT32_MAX, &addr, &q) == !buddy);
        if (!buddy) ops->give(a, 0, INT32_MAX);
        assert_true(ops->take(a, 1 << 30, &addr, &q));
        assert_int_equal(addr, 0);
        int32_t last, one;
        assert_true(ops->take(a, 1 << 29, &last, &q));
        assert_true(ops->take(a, 1, &one, &q));
        assert_int_equal(ops->n_free(a), INT32_MAX - (1 << 30) - (1 << 29) - 1);
        ops->give(a, addr, 1 << 30);
        ops->give(a, one, 1);
        ops->give(a, last, 1 << 29);
        assert_int_equal(ops->n_free(a), INT32_MAX);
        assert_int_equal(ops->largest_free(a), buddy ? 1 << 30 : INT32_MAX);
        ops->destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_places_against_map),
        cmocka_unit_test(test_buddy_roots),
        cmocka_unit_test(test_buddy_takes_its_roots),
        cmocka_unit_test(test_buddy_cost),
        cmocka_unit_test(test_ideal),
        cmocka_unit_test(test_next_fit_wraps),
        cmocka_unit_test(test_compact_by_hand),
        cmocka_unit_test(test_as_many_runs_as_chunks),
        cmocka_unit_test(test_largest_pool),
    };
    return cmocka_run_group_tests_name("addr", tests, NULL, NULL);
}
