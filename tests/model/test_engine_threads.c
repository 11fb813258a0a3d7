/* One thread steps; others submit, cancel and ask for figures meanwhile. Built with
 * -fsanitize=thread it finds races; without, that every request gets its events and its last one
 * once. */
#include "engine_rig.h"

#include <pthread.h>
#include <stdatomic.h>

enum { N_THREADS = 3, N_EACH = 60 };

typedef struct shared {
    pkv_engine *engine;
    atomic_int n_ended, n_threads, n_wrong;
    atomic_bool go_on;
} shared;

typedef struct ticket {
    shared *s;
    int32_t n_tokens;
    bool ended;
} ticket;

typedef struct submitter {
    shared *s;
    int32_t number;
    ticket tickets[N_EACH];
} submitter;

static void note(void *ctx, const pkv_token_event *event)
{
    ticket *t = ctx;
    assert_false(t->ended);
    t->n_tokens += event->token >= 0;
    if (!event->result) return;
    t->ended = true;
    assert_int_equal(event->result->n_output, t->n_tokens);
    atomic_fetch_add(&t->s->n_ended, 1);
}

static void *submit_many(void *ctx)
{
    submitter *me = ctx;
    int32_t ids[30];
    rig_draw((uint64_t)me->number, 97, ids, 30);
    for (int32_t i = 0; i < N_EACH; i++) {
        ticket *t = &me->tickets[i];
        pkv_request q = rig_request(ids + i % 5, 1 + i % 25, 1 + i % 17);
        pkv_request_id id = 0;
        q.n = 1 + i % 3;
        q.sampling.temperature = (float)(i % 2);
        q.on_token = note;
        q.ctx = t;
        t->s = me->s;
        while (pkv_engine_submit(me->s->engine, &q, &id) != PKV_OK) {} /* the queue is full */
        if (i % 4 == 0 && pkv_engine_cancel(me->s->engine, id - (uint64_t)(i % 3)) != PKV_OK)
            atomic_fetch_add(&me->s->n_wrong, 1);
    }
    atomic_fetch_sub(&me->s->n_threads, 1);
    return NULL;
}

static void *ask_for_figures(void *ctx)
{
    shared *s = ctx;
    int64_t n_before = 0;
    while (atomic_load(&s->go_on)) {
        pkv_engine_stats stats = PKV_ENGINE_STATS_INIT;
        if (pkv_engine_get_stats(s->engine, &stats) != PKV_OK) atomic_fetch_add(&s->n_wrong, 1);
        int64_t n = 0;
        for (int32_t i = 0; i < 7; i++) n += stats.n_finished[i];
        if (n < n_before || n > N_THREADS * N_EACH || stats.itl.n > stats.n_output_tokens)
            atomic_fetch_add(&s->n_wrong, 1);
        n_before = n;
    }
    return NULL;
}

static void any_thread(void **state)
{
    (void)state;
    static submitter submitters[N_THREADS];
    shared s = { 0 };
    pthread_t threads[N_THREADS + 1];
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    memset(submitters, 0, sizeof(submitters));
    pkv_model *model = rig_tiny_model(4);
    cfg.model = model;
    cfg.block_tokens = 4;
    cfg.n_blocks = 1 + 60;
    cfg.max_queue = 20;
    cfg.max_seqs = 8;
    cfg.n_threads = 2;
    assert_int_equal(pkv_engine_create(&cfg, &s.engine), PKV_OK);
    atomic_store(&s.go_on, true);
    atomic_store(&s.n_threads, N_THREADS);
    for (int32_t i = 0; i < N_THREADS; i++) {
        submitters[i].s = &s;
        submitters[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, &submitters[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[N_THREADS], NULL, ask_for_figures, &s), 0);
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    while (atomic_load(&s.n_threads) > 0 || report.n_unfinished > 0) {
        assert_int_equal(pkv_engine_step(s.engine, &report), PKV_OK);
        assert_int_equal(pkv_engine_check(s.engine), PKV_OK);
    }
    /* One may have come between the last step and the count of threads. */
    do {
        assert_int_equal(pkv_engine_step(s.engine, &report), PKV_OK);
    } while (report.n_unfinished > 0);
    atomic_store(&s.go_on, false);
    for (int32_t i = 0; i <= N_THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&s.n_wrong), 0);
    assert_int_equal(atomic_load(&s.n_ended), N_THREADS * N_EACH);
    pkv_engine_stats stats = PKV_ENGINE_STATS_INIT;
    assert_int_equal(pkv_engine_get_stats(s.engine, &stats), PKV_OK);
    assert_int_equal(stats.n_submitted, N_THREADS * N_EACH);
    assert_int_equal(stats.n_blocks_used, 0);
    pkv_engine_destroy(s.engine);
    pkv_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(any_thread) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
