/* Launches, schedules, barriers, shared memory and limits of the emulator. */
#include "simt_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_BLOCKS = 5, N_THREADS = 64, N_ALL = N_BLOCKS * N_THREADS };

static void record_order(uint32_t order[N_ALL], unsigned seed, enum device_block_order blocks)
{
    uint32_t *d_order = device_copy_of(NULL, N_ALL * 4), zero = 0;
    uint32_t *ticket = device_copy_of(&zero, 4);
    use_seed(seed, blocks);
    assert_launched(run_order(d_order, ticket, N_BLOCKS, N_THREADS));
    device_download(order, d_order, N_ALL * 4);
    device_free(d_order);
    device_free(ticket);
}

static void seeds_order_threads(void **state)
{
    (void)state;
    uint32_t order[N_ALL];
    record_order(order, 0, DEVICE_FORWARD);
    for (uint32_t i = 0; i < N_ALL; i++) assert_int_equal(order[i], i);
    record_order(order, 1, DEVICE_FORWARD);
    for (uint32_t i = 0; i < N_ALL; i++)
        assert_int_equal(order[i], i / N_THREADS * N_THREADS + N_THREADS - 1 - i % N_THREADS);
}

/* Every thread comes once, each block's within the block's turn; the order is the seed's. */
static void other_seeds_shuffle(void **state)
{
    (void)state;
    uint32_t orders[4][N_ALL], again[N_ALL];
    for (unsigned seed = 2; seed < 6; seed++) {
        uint32_t seen[N_ALL] = { 0 }, *order = orders[seed - 2], n_moved = 0;
        record_order(order, seed, DEVICE_FORWARD);
        for (uint32_t i = 0; i < N_ALL; i++) {
            assert_int_equal(order[i] / N_THREADS, i / N_THREADS);
            seen[order[i]]++;
            n_moved += order[i] != i;
        }
        for (uint32_t i = 0; i < N_ALL; i++) assert_int_equal(seen[i], 1);
        assert_true(n_moved > N_ALL / 2);
        record_order(again, seed, DEVICE_FORWARD);
        assert_memory_equal(again, order, sizeof again);
        for (unsigned other = 2; other < seed; other++)
            assert_memory_not_equal(orders[other - 2], order, sizeof again);
    }
}

static void blocks_in_each_order(void **state)
{
    (void)state;
    uint32_t order[N_ALL], seen[N_BLOCKS] = { 0 };
    record_order(order, 0, DEVICE_REVERSED);
    for (uint32_t b = 0; b < N_BLOCKS; b++)
        assert_int_equal(order[b * N_THREADS] / N_THREADS, N_BLOCKS - 1 - b);
    record_order(order, 4, DEVICE_SHUFFLED);
    int n_moved = 0;
    for (uint32_t b = 0; b < N_BLOCKS; b++) {
        const uint32_t turn = order[b * N_THREADS] / N_THREADS;
        seen[turn]++;
        n_moved += turn != b;
    }
    for (uint32_t b = 0; b < N_BLOCKS; b++) assert_int_equal(seen[b], 1);
    assert_true(n_moved > 0);
}

/* Who comes last to a meeting goes on first, or with the others: shuffling seeds try both. */
static void last_to_meet_goes_first_or_not(void **state)
{
    (void)state;
    int n_first = 0, n_later = 0;
    for (unsigned seed = 0; seed < 12; seed++) {
        const uint32_t zeros[2] = { 0, 0 };
        uint32_t got[64], *tickets = device_copy_of(zeros, 8), *out = device_copy_of(NULL, 256);
        use_seed(seed, DEVICE_FORWARD);
        assert_launched(run_meeting(out, tickets));
        device_download(got, out, sizeof got);
        for (int t = 0; t < 32; t++) {
            if (got[t] != 31) continue;
            n_first += got[32 + t] == 0;
            n_later += got[32 + t] != 0;
            if (seed < 2) assert_int_equal(got[32 + t], 0);
        }
        device_free(tickets);
        device_free(out);
    }
    assert_true(n_first > 2 && n_later > 0 && n_first + n_later == 12);
}

static void list_of_schedules(void **state)
{
    (void)state;
    int seen[6][2] = { { 0 } }, orders[3] = { 0 };
    for (int i = 0; i < DEVICE_N_SCHEDULES; i++) {
        const device_schedule_t s = device_schedule_of(i);
        assert_true(s.seed < 6 && (s.eager == 0 || s.eager == 1));
        seen[s.seed][s.eager]++;
        orders[s.blocks]++;
    }
    for (int seed = 0; seed < 6; seed++) assert_true(seen[seed][0] == 1 && seen[seed][1] == 1);
    for (int o = 0; o < 3; o++) assert_int_equal(orders[o], 4);
}

/* After r rounds thread t holds what thread t + 7r had, through x -> 5x + 1. */
static void barriers_keep_rounds_apart(void **state)
{
    (void)state;
    for (int i = 0; i < DEVICE_N_SCHEDULES; i++) {
        for (int n = 32; n <= 1024; n += 992) {
            uint32_t got[1024], *out = device_copy_of(NULL, sizeof got);
            use_schedule(i);
            assert_launched(run_rounds(out, 4, n));
            device_download(got, out, (size_t)n * 4);
            for (uint32_t t = 0; t < (uint32_t)n; t++) {
                uint32_t expected = (t + 28) % (uint32_t)n;
                for (int round = 0; round < 4; round++) expected = expected * 5 + 1;
                assert_int_equal(got[t], expected);
            }
            device_free(out);
        }
    }
}

/* What a block finds in shared memory is NaN, also where the block before it wrote. */
static void shared_memory_is_poisoned(void **state)
{
    (void)state;
    uint32_t got[128], *out = device_copy_of(NULL, sizeof got);
    use_schedule(0);
    if (is_watched()) {
        assert_int_equal(run_poison(out), 1);
        assert_has(device_last_error(), "read of uninitialised shared memory");
        device_free(out);
        return;
    }
    assert_launched(run_poison(out));
    device_download(got, out, sizeof got);
    for (int i = 0; i < 128; i++) assert_int_equal(got[i], 0xffffffffu);
    device_free(out);
}

static void static_arrays_belong_to_instances(void **state)
{
    (void)state;
    uint32_t got[4], *out = device_copy_of(NULL, sizeof got);
    const uint32_t expected[4] = { 12, 20, 1, 3 };
    use_schedule(3);
    assert_launched(run_static_arrays(out));
    device_download(got, out, sizeof got);
    assert_memory_equal(got, expected, sizeof got);
    device_free(out);
}

static void params_are_copied_once(void **state)
{
    (void)state;
    double got[32], *out = device_copy_of(NULL, sizeof got);
    int n_evaluations;
    use_schedule(0);
    assert_launched(run_params(out, &n_evaluations));
    device_download(got, out, sizeof got);
    assert_int_equal(n_evaluations, 1);
    for (int i = 0; i < 32; i++) assert_true(got[i] == 0.5 + 2 * i);
    device_free(out);
}

static void assert_refused(int status, const char *why)
{
    assert_int_equal(status, 1);
    assert_has(device_last_error(), why);
}

static void limits_of_launches(void **state)
{
    (void)state;
    use_schedule(0);
    assert_launched(run_limits(1, 32, 0, 0));
    assert_string_equal(device_last_error(), "");
    assert_refused(run_limits(0, 32, 0, 0), "0 blocks; a grid has 1 to 2^31 - 1");
    assert_refused(run_limits(1ll << 31, 32, 0, 0), "2147483648 blocks");
    assert_refused(run_limits(1, 0, 0, 0), "0 threads in a block");
    assert_refused(run_limits(1, 33, 0, 0), "33 threads in a block");
    assert_refused(run_limits(1, 1056, 0, 0), "1056 threads in a block");
    assert_launched(run_limits(1, 1024, 48 << 10, 0));
    assert_refused(run_limits(1, 32, (48 << 10) + 1, 0), "49153 bytes of shared memory, 49152 are");
    assert_refused(run_limits(1, 32, 64 << 10, (227 << 10) + 1), "232449 bytes of shared memory");
    assert_launched(run_limits(1, 32, 227 << 10, 227 << 10));
    assert_launched(run_limits(2, 32, 64 << 10, 0)); /* the permission stays */
}

static void device_memory(void **state)
{
    (void)state;
    uint8_t bytes[100];
    uint8_t *p = device_alloc(100);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 256, 0);
    device_download(bytes, p, 100);
    for (int i = 0; i < 100; i++) assert_int_equal(bytes[i], 0xff);
    device_fill(p, 7, 50);
    device_download(bytes, p, 100);
    assert_int_equal(bytes[49], 7);
    assert_int_equal(bytes[50], 0xff);
    device_free(p);
    device_free(NULL);
}

/* 48 GiB of addresses: the last element is beyond 2^32 of anything. */
static void sparse_memory(void **state)
{
    (void)state;
    const size_t bytes = (size_t)48 << 30;
    uint32_t *p = device_alloc_sparse(bytes), value = 5;
    if (!p) {
        fprintf(stderr, "SKIPPED: the system grants no 48 GiB of addresses\n");
        skip();
    }
    device_upload(p + bytes / 4 - 1, &value, 4);
    value = 1;
    device_download(&value, p + bytes / 4 - 1, 4);
    assert_int_equal(value, 5);
    device_download(&value, p + bytes / 8, 4);
    assert_int_equal(value, 0);
    device_free(p);
}

static void kernels_reach_beyond_4_gi_words(void **state)
{
    (void)state;
    const int64_t n = ((int64_t)1 << 32) + 64;
    uint32_t got[32], *pool = device_alloc_sparse((size_t)n * 4);
    if (!pool) {
        fprintf(stderr, "SKIPPED: the system grants no 16 GiB of addresses\n");
        skip();
    }
    use_schedule(0);
    assert_launched(run_far(pool, n - 32));
    device_download(got, pool + n - 32, sizeof got);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(got[i], i);
    device_free(pool);
}

/* A thread whose stack is too small ends the program and does not write into its neighbour's. */
static void stacks_end_at_a_guard(void **state)
{
    (void)state;
    if (strcmp(device_build(), "ptx") == 0) {
        fprintf(stderr, "SKIPPED: nvcc gives each thread's stack what the kernel needs\n");
        skip();
    }
    uint32_t got[32], *out = device_copy_of(NULL, sizeof got);
    int status;
    use_schedule(0);
    assert_launched(run_nest(out, 20));
    device_download(got, out, sizeof got);
    for (int i = 0; i < 32; i++) assert_int_equal(got[i], 210);
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        assert_non_null(freopen("/dev/null", "w", stderr));
        signal(SIGSEGV, SIG_DFL);
        use_seed(1, DEVICE_FORWARD); /* begins with the highest stack */
        run_nest(out, strcmp(device_build(), "asan") == 0 ? 2000 : 90);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    device_free(out);
}

static void totals_count(void **state)
{
    (void)state;
    uint32_t *out = device_copy_of(NULL, 4 * 64);
    use_schedule(2);
    const device_totals before = device_get_totals();
    assert_launched(run_rounds(out, 3, 64));
    assert_launched(run_order(out, out + 63, 1, 32));
    const device_totals after = device_get_totals();
    assert_int_equal(after.launches - before.launches, 2);
    assert_int_equal(after.blocks - before.blocks, 2);
    assert_int_equal(after.barriers - before.barriers, 6);
    assert_int_equal(after.collectives, before.collectives);
    assert_true(after.switches - before.switches >= 64 * 6);
    device_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_order_threads),
        cmocka_unit_test(other_seeds_shuffle),
        cmocka_unit_test(blocks_in_each_order),
        cmocka_unit_test(last_to_meet_goes_first_or_not),
        cmocka_unit_test(list_of_schedules),
        cmocka_unit_test(barriers_keep_rounds_apart),
        cmocka_unit_test(shared_memory_is_poisoned),
        cmocka_unit_test(static_arrays_belong_to_instances),
        cmocka_unit_test(params_are_copied_once),
        cmocka_unit_test(limits_of_launches),
        cmocka_unit_test(device_memory),
        cmocka_unit_test(sparse_memory),
        cmocka_unit_test(kernels_reach_beyond_4_gi_words),
        cmocka_unit_test(stacks_end_at_a_guard),
        cmocka_unit_test(totals_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
