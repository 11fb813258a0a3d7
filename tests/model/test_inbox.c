/* Requests and cancels from threads against one taker. Built with -Db_sanitize=thread it shows that
 * nothing but the inbox carries them over. */
#include "model_test.h"

#include "model/inbox.h"

#include <pthread.h>
#include <sched.h>

static pkv__inbox *make(int32_t max_requests, int32_t max_cancels)
{
    pkv__inbox *inbox = NULL;
    assert_int_equal(pkv__inbox_create(max_requests, max_cancels, NULL, &inbox), PKV_OK);
    return inbox;
}

static void put_good(pkv__inbox *inbox, void *request, pkv_request_id want)
{
    pkv_request_id id = 0;
    assert_int_equal(pkv__inbox_put(inbox, request, &id), PKV_OK);
    assert_int_equal(id, want);
}

static void test_order_and_places(void **state)
{
    (void)state;
    int thing[8];
    pkv_request_id id = 77;
    pkv__inbox *inbox = make(3, 2);
    assert_null(pkv__inbox_take(inbox));
    for (int k = 0; k < 3; k++) put_good(inbox, &thing[k], (pkv_request_id)k + 1);
    assert_int_equal(pkv__inbox_put(inbox, &thing[3], &id), PKV_E_LIMIT);
    assert_int_equal(id, 77);
    assert_ptr_equal(pkv__inbox_take(inbox), &thing[0]); /* taken, but still waiting */
    assert_int_equal(pkv__inbox_put(inbox, &thing[3], &id), PKV_E_LIMIT);
    pkv__inbox_left(inbox);
    put_good(inbox, &thing[3], 4); /* a refused one took no number */
    assert_int_equal(pkv__inbox_put(inbox, &thing[4], &id), PKV_E_LIMIT);
    for (int k = 1; k < 4; k++) assert_ptr_equal(pkv__inbox_take(inbox), &thing[k]);
    assert_null(pkv__inbox_take(inbox));
    for (int k = 1; k < 4; k++) pkv__inbox_left(inbox);
    for (int round = 0; round < 20; round++) { /* around the ring */
        put_good(inbox, &thing[round % 8], (pkv_request_id)round + 5);
        assert_ptr_equal(pkv__inbox_take(inbox), &thing[round % 8]);
        pkv__inbox_left(inbox);
    }
    pkv__inbox_destroy(inbox);
    pkv__inbox_destroy(NULL);
}

static void test_cancels(void **state)
{
    (void)state;
    int thing;
    pkv__inbox *inbox = make(8, 2);
    for (int k = 0; k < 5; k++) { /* never given: no place taken */
        assert_int_equal(pkv__inbox_cancel(inbox, 0), PKV_OK);
        assert_int_equal(pkv__inbox_cancel(inbox, 1), PKV_OK);
        assert_int_equal(pkv__inbox_cancel(inbox, UINT64_MAX), PKV_OK);
    }
    assert_int_equal(pkv__inbox_take_cancel(inbox), 0);
    for (int k = 0; k < 4; k++) put_good(inbox, &thing, (pkv_request_id)k + 1);
    assert_int_equal(pkv__inbox_cancel(inbox, 2), PKV_OK);
    assert_int_equal(pkv__inbox_cancel(inbox, 1), PKV_OK);
    assert_int_equal(pkv__inbox_cancel(inbox, 3), PKV_E_LIMIT);
    assert_int_equal(pkv__inbox_take_cancel(inbox), 0); /* its request is not out yet */
    assert_non_null(pkv__inbox_take(inbox));
    assert_int_equal(pkv__inbox_take_cancel(inbox), 0);
    assert_non_null(pkv__inbox_take(inbox));
    assert_int_equal(pkv__inbox_take_cancel(inbox), 2);
    assert_int_equal(pkv__inbox_cancel(inbox, 1), PKV_OK); /* twice is no error */
    assert_int_equal(pkv__inbox_take_cancel(inbox), 1);
    assert_int_equal(pkv__inbox_take_cancel(inbox), 1);
    assert_int_equal(pkv__inbox_take_cancel(inbox), 0);
    pkv__inbox_destroy(inbox);
}

static void test_no_memory(void **state)
{
    (void)state;
    counted_memory m;
    pkv_allocator alloc = count_memory(&m, 0);
    pkv__inbox *inbox = NULL;
    assert_int_equal(pkv__inbox_create(4, 4, &alloc, &inbox), PKV_E_NO_MEMORY);
    assert_null(inbox);
    assert_int_equal(m.n_live, 0);
    alloc = count_memory(&m, -1);
    assert_int_equal(pkv__inbox_create(4, 4, &alloc, &inbox), PKV_OK);
    pkv__inbox_destroy(inbox);
    assert_int_equal(m.n_live, 0);
    assert_int_equal(m.live_bytes, 0);
}

/* ---------------------------------------------------------------- threads */

enum { N_PUTTERS = 4, N_EACH = 4000, MAX_REQUESTS = 16, MAX_CANCELS = 8 };

typedef struct parcel {
    int putter, k;
    pkv_request_id id; /* plain memory, written by put */
    int n_cancels;     /* the taker's */
} parcel;

typedef struct putter {
    pkv__inbox *inbox;
    int number;
    parcel *parcels; /* [N_EACH] */
    pthread_t thread;
} putter;

/* Every third one is cancelled by who put it, half of these while they may still lie inside. */
static void *put_all(void *arg)
{
    putter *p = arg;
    for (int k = 0; k < N_EACH; k++) {
        parcel *c = &p->parcels[k];
        pkv_request_id id;
        *c = (parcel){ .putter = p->number, .k = k };
        while (pkv__inbox_put(p->inbox, c, &c->id) == PKV_E_LIMIT) sched_yield();
        if (k % 3 != 0) continue;
        id = c->id;
        if (k % 2 == 0) sched_yield();
        while (pkv__inbox_cancel(p->inbox, id) == PKV_E_LIMIT) sched_yield();
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    putter p[N_PUTTERS];
    const int n_all = N_PUTTERS * N_EACH;
    parcel **taken = calloc((size_t)n_all + 1, sizeof(parcel *)); /* by number */
    int next[N_PUTTERS] = { 0 }, n_waiting = 0, n_taken = 0, n_cancels = 0;
    pkv__inbox *inbox = make(MAX_REQUESTS, MAX_CANCELS);
    for (int j = 0; j < N_PUTTERS; j++) {
        p[j] = (putter){ .inbox = inbox, .number = j, .parcels = calloc(N_EACH, sizeof(parcel)) };
        assert_int_equal(pthread_create(&p[j].thread, NULL, put_all, &p[j]), 0);
    }
    const int want_cancels = N_PUTTERS * ((N_EACH + 2) / 3);
    while (n_taken < n_all || n_cancels < want_cancels) {
        pkv_request_id cancel;
        for (parcel *c; (c = pkv__inbox_take(inbox)) != NULL;) {
            n_taken++;
            n_waiting++;
            assert_true(n_waiting <= MAX_REQUESTS);
            assert_int_equal(c->id, n_taken);          /* in order of their numbers */
            assert_int_equal(c->k, next[c->putter]++); /* and so in each putter's */
            taken[c->id] = c;
        }
        while ((cancel = pkv__inbox_take_cancel(inbox)) != 0) {
            assert_non_null(taken[cancel]); /* known to the taker */
            assert_int_equal(taken[cancel]->n_cancels++, 0);
            n_cancels++;
        }
        for (; n_waiting > n_taken % 3; n_waiting--) pkv__inbox_left(inbox);
    }
    for (int j = 0; j < N_PUTTERS; j++) {
        pthread_join(p[j].thread, NULL);
        assert_int_equal(next[j], N_EACH);
        for (int k = 0; k < N_EACH; k++) assert_int_equal(p[j].parcels[k].n_cancels, k % 3 == 0);
        free(p[j].parcels);
    }
    assert_null(pkv__inbox_take(inbox));
    assert_int_equal(pkv__inbox_take_cancel(inbox), 0);
    pkv__inbox_destroy(inbox);
    free(taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_places),
        cmocka_unit_test(test_cancels),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
