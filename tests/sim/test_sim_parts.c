/* The parts of the simulator one by one: addresses, heap, percentiles, the split of a chunk,
 * integrals over a leap. */
#include "common/philox.h"
#include "sim/sim_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const pkv_allocator no_hook = { NULL, NULL, NULL };

/* ---------------------------------------------------------------- Fig. 3 of the paper */

/* Pool 2560, no rounding. A: maximum 2048, prompt 7, one token generated, two to come. B: maximum
 * 512, prompt 3, one generated, one to come. By hand: 12 / 3 / 2545 / 0. */
static void test_figure_3(void **state)
{
    (void)state;
    pkv__sim_sample s = { { 0 } };
    pkv__sim_chunk_usage(2048, 2048, 7 + 1 + 2, 7 + 1, &s);
    assert_int_equal(s.part[PKV__PART_LOGICAL], 8);
    assert_int_equal(s.part[PKV__PART_RESERVATION], 2);
    assert_int_equal(s.part[PKV__PART_INTERNAL], 2038);
    pkv__sim_chunk_usage(512, 512, 3 + 1 + 1, 3 + 1, &s);
    assert_int_equal(s.part[PKV__PART_LOGICAL], 12);
    assert_int_equal(s.part[PKV__PART_RESERVATION], 3);
    assert_int_equal(s.part[PKV__PART_INTERNAL], 2545);
    assert_int_equal(s.part[PKV__PART_ROUNDING], 0);
    s.part[PKV__PART_TOKEN] = s.part[PKV__PART_LOGICAL]; /* nothing is shared */
    assert_true(pkv__sim_sample_valid(&s, 2560));
    assert_false(pkv__sim_sample_valid(&s, 2561));
    s.part[PKV__PART_TOKEN] = -1;
    s.part[PKV__PART_IDLE] = 13;
    assert_false(pkv__sim_sample_valid(&s, 2560));

    /* Paged, 4 tokens per block: A has 3 blocks after its next append, B has 2. */
    pkv__sim_shadow shadow;
    assert_int_equal(pkv__sim_shadow_init(&shadow, 640, 4, 2, &no_hook), PKV_OK);
    pkv__sim_shadow_set(&shadow, 0, 8 + 1);
    pkv__sim_shadow_set(&shadow, 1, 4 + 1);
    assert_int_equal(shadow.blocks[0], 3);
    assert_int_equal(shadow.blocks[1], 2);
    assert_int_equal(shadow.n_free, 635);
    pkv__sim_shadow_deinit(&shadow);
}

/* Rounding of a chunk is external: 100 asked, 128 granted, 90 final, 40 resident. */
static void test_rounding_is_external(void **state)
{
    (void)state;
    pkv__sim_sample s = { { 0 } };
    pkv__sim_chunk_usage(100, 128, 90, 40, &s);
    assert_int_equal(s.part[PKV__PART_RESERVATION], 50);
    assert_int_equal(s.part[PKV__PART_INTERNAL], 10);
    assert_int_equal(s.part[PKV__PART_ROUNDING], 28);
}

/* ---------------------------------------------------------------- places against a plain map */

enum { MAP_SLOTS = 3000 };

typedef struct plain_map {
    int32_t n;
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

/* Lowest free run of at least h slots, or the shortest such (best). */
static int32_t run_place(const plain_map *m, int32_t h, bool best)
{
    int32_t found = -1, found_len = 0;
    for (int32_t addr = 0, len; addr < m->n; addr += len + 1) {
        for (len = 0; addr + len < m->n && !m->taken[addr + len];) len++;
        if (len < h || (found >= 0 && (!best || len >= found_len))) continue;
        found = addr;
        found_len = len;
    }
    return found;
}

static int32_t plain_place(const plain_map *m, const pkv__sim_addr_ops *ops, int32_t h, int32_t *q)
{
    *q = h;
    if (ops == &pkv__sim_addr_first_fit) return run_place(m, h, false);
    if (ops == &pkv__sim_addr_best_fit) return run_place(m, h, true);
    for (*q = 1; *q < h;) *q *= 2;
    return buddy_place(m, *q);
}

static void churn(const pkv__sim_addr_ops *ops, uint64_t seed, int32_t n_slots)
{
    enum { MAX_HELD = 64 };
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 0, 0);
    plain_map map = { .n = n_slots };
    struct {
        int32_t addr, q;
    } held[MAX_HELD];
    int32_t n_held = 0, n_free = n_slots;
    void *a;
    assert_int_equal(ops->create(n_slots, MAX_HELD, &no_hook, &a), PKV_OK);
    for (int round = 0; round < 600; round++) {
        if (n_held < MAX_HELD && pkv__rng_below(&rng, 100) < 60) {
            const int32_t h = 1 + (int32_t)pkv__rng_below(&rng, 1u << pkv__rng_below(&rng, 10));
            int32_t want_q, addr = -7, q = -7;
            const int32_t want = plain_place(&map, ops, h, &want_q);
            const bool ok = ops->take(a, h, &addr, &q);
            if (ok != (want >= 0) || (ok && (addr != want || q != want_q)))
                fail_msg("%s, PKV_SEED=%llu, pool %d, round %d: %d slots at %d, expected %d",
                         ops->name, (unsigned long long)seed, n_slots, round, h, addr, want);
            if (!ok) continue;
            memset(map.taken + addr, 1, (size_t)q);
            held[n_held].addr = addr;
            held[n_held++].q = q;
            n_free -= q;
        } else if (n_held > 0) {
            const uint32_t k = pkv__rng_below(&rng, (uint32_t)n_held);
            ops->give(a, held[k].addr, held[k].q);
            memset(map.taken + held[k].addr, 0, (size_t)held[k].q);
            n_free += held[k].q;
            held[k] = held[--n_held];
        }
        assert_int_equal(ops->n_free(a), n_free);
    }
    ops->destroy(a);
}

static void test_places_against_map(void **state)
{
    (void)state;
    const char *given = getenv("PKV_SEED");
    const uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    static const int32_t pools[] = { 1, 2, 3, 64, 100, 255, 1000, 1023, 1024, 1025, 2999, 3000 };
    for (uint64_t seed = first; seed < first + (given ? 1 : 3); seed++)
        for (size_t k = 0; k < PKV_ARRAY_LEN(pools); k++) {
            churn(&pkv__sim_addr_buddy, seed, pools[k]);
            churn(&pkv__sim_addr_first_fit, seed, pools[k]);
            churn(&pkv__sim_addr_best_fit, seed, pools[k]);
        }
}

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
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        assert_true(ops->take(b, 2000, &addr, &q));
        assert_int_equal(addr, want[k]);
        assert_int_equal(q, 2048);
    }
    assert_false(ops->take(b, 2000, &addr, &q));
    assert_true(ops->take(b, 1024, &addr, &q));
    assert_int_equal(addr, 14336);
    assert_int_equal(ops->n_free(b), 256 + 64 + 32 + 16);
    ops->give(b, 0, 2048);
    ops->give(b, 4096, 2048);
    ops->give(b, 6144, 2048);
    ops->give(b, 2048, 2048);
    assert_true(ops->take(b, 8000, &addr, &q));
    assert_int_equal(addr, 0);
    ops->destroy(b);
    ops->destroy(NULL);
}

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
    assert_true(ops->take(a, 30, &addr, &q));
    ops->give(a, addr, 30);
    assert_int_equal(ops->n_free(a), 30);
    ops->destroy(a);
}

/* ---------------------------------------------------------------- heap, stretches */

static void test_heap(void **state)
{
    (void)state;
    enum { N = 40 };
    int64_t step[N];
    pkv__rng rng;
    pkv__rng_init(&rng, 5, 0, 0);
    pkv__sim_heap heap;
    assert_int_equal(pkv__sim_heap_init(&heap, N, N, &no_hook), PKV_OK);
    for (int r = 0; r < N; r++) step[r] = -1;
    for (int round = 0; round < 20000; round++) {
        const int64_t r = pkv__rng_below(&rng, N);
        step[r] = pkv__rng_below(&rng, 4) == 0 ? -1 : (int64_t)pkv__rng_below(&rng, 30);
        if (step[r] < 0) pkv__sim_heap_remove(&heap, r);
        else pkv__sim_heap_set(&heap, r, step[r]);
        int64_t first = -1;
        int32_t len = 0;
        for (int64_t k = 0; k < N; k++) {
            if (step[k] < 0) continue;
            len++;
            if (first < 0 || step[k] < step[first]) first = k;
        }
        assert_int_equal(heap.len, len);
        if (len == 0) continue;
        assert_int_equal(heap.events[0].req, first);
        assert_int_equal(heap.events[0].step, step[first]);
    }
    pkv__sim_heap_deinit(&heap);
}

/* A leap adds up to the same as its steps one by one. */
static void test_leap_integral(void **state)
{
    (void)state;
    const pkv__sim_stretch leap = { .n = 1000, .first_ns = 12345, .slope_ns = 67, .waited = true };
    pkv__sim_account a = { .window = PKV_SIM_WINDOW_ALL, .pool_units = 90000, .started = true };
    pkv__sim_account b = a;
    pkv__sim_sample first = { { 0 } }, last;
    first.part[PKV__PART_TOKEN] = 1000;
    first.part[PKV__PART_RESERVATION] = 80000;
    first.part[PKV__PART_IDLE] = 9000;
    last = first;
    last.part[PKV__PART_TOKEN] += 11 * 999;
    last.part[PKV__PART_RESERVATION] -= 11 * 999;
    pkv__sim_account_add(&a, &leap, 0, &first, &last);
    int64_t now = 0;
    for (int k = 0; k < 1000; k++) {
        const pkv__sim_stretch one = { .n = 1, .first_ns = 12345 + 67 * k, .waited = true };
        pkv__sim_account_add(&b, &one, now, &first, &first);
        first.part[PKV__PART_TOKEN] += 11;
        first.part[PKV__PART_RESERVATION] -= 11;
        now += one.first_ns;
    }
    assert_true(pkv__sim_stretch_ns(&leap) == now);
    assert_memory_equal(a.sum, b.sum, sizeof(a.sum));
    assert_true(a.window_ns == now && a.waited_ns == now);
    for (int64_t limit = 0; limit < now + 50000; limit += 9973) {
        int64_t n = 0;
        pkv__sim_stretch part = leap;
        for (part.n = 1; part.n <= leap.n && pkv__sim_stretch_ns(&part) <= limit; part.n++)
            n = part.n;
        assert_int_equal(pkv__sim_stretch_within(&leap, limit), n);
    }
}

/* ---------------------------------------------------------------- percentiles */

static void test_percentiles(void **state)
{
    (void)state;
    double v[100];
    pkv_sim_dist d;
    pkv_sim_dist_of(v, 0, false, &d);
    assert_int_equal(d.n, 0);
    v[0] = 7;
    pkv_sim_dist_of(v, 1, false, &d);
    assert_true(d.mean == 7 && d.p50 == 7 && d.p99 == 7 && d.max == 7);
    v[0] = 10;
    v[1] = 0;
    pkv_sim_dist_of(v, 2, false, &d);
    assert_true(d.p50 == 5 && d.p90 == 9 && d.max == 10);
    for (int k = 0; k < 100; k++) v[k] = 99 - k; /* 0 .. 99 */
    pkv_sim_dist_of(v, 100, false, &d);
    assert_true(d.mean == 49.5 && d.p50 == 49.5);
    assert_true(fabs(d.p90 - 89.1) < 1e-12);
    assert_true(fabs(d.p99 - 98.01) < 1e-12);
    for (int k = 0; k < 99; k++) v[k] = k;
    pkv_sim_dist_of(v, 99, false, &d);
    assert_true(d.p50 == 49 && d.max == 98);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_3),
        cmocka_unit_test(test_rounding_is_external),
        cmocka_unit_test(test_places_against_map),
        cmocka_unit_test(test_buddy_roots),
        cmocka_unit_test(test_ideal),
        cmocka_unit_test(test_heap),
        cmocka_unit_test(test_leap_integral),
        cmocka_unit_test(test_percentiles),
    };
    return cmocka_run_group_tests_name("sim_parts", tests, NULL, NULL);
}
