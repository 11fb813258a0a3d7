/* State of a run, shared by the two ways to advance it. */
#ifndef PKV_SIM_ENGINE_H
#define PKV_SIM_ENGINE_H

#include "sim/sim_internal.h"

#define PKV__NOBODY (-1)                  /* end of a list */
#define PKV__LATEST_NS (INT64_C(1) << 62) /* no run lasts longer */

typedef enum pkv__req_state {
    PKV__REQ_AHEAD, /* not arrived yet */
    PKV__REQ_WAITING,
    PKV__REQ_SWAPPED,
    PKV__REQ_RUNNING,
    PKV__REQ_FINISHED,
    PKV__REQ_TOO_LONG
} pkv__req_state;

typedef struct pkv__sim_req {
    int64_t arrival_ns;
    int64_t first_token_ns; /* -1: not yet */
    int64_t finish_ns;
    int64_t residence_ns;  /* ran so long before start_ns */
    int64_t start_ns;      /* while running: since when */
    int64_t step_zero;     /* while running: generated = n_steps - step_zero */
    int64_t order;         /* while running: place in order of admission */
    int64_t to_compute;    /* tokens that prefill still has to compute; > 0: it is in `prefill` */
    int64_t refused_epoch; /* its admission failed and nobody left the pool since; see `epoch` */
    int64_t held;          /* while running: units, as the policy said last */
    int32_t prev, next;    /* in the one list that its state names */
    int32_t generated;     /* per sequence, while not running */
    uint8_t state;         /* pkv__req_state */
    bool stalled;          /* while running: generates nothing in this step */
    bool was_admitted, was_preempted;
} pkv__sim_req;

/* Doubly linked through req[].prev and next. */
typedef struct pkv__sim_list {
    int64_t head, tail; /* PKV__NOBODY: empty */
    int64_t len;
} pkv__sim_list;

/* Several requests, in room for max_num_seqs. */
typedef struct pkv__sim_batch {
    int64_t *r;
    int32_t n;
} pkv__sim_batch;

/* Who looks on, and its memory. */
typedef struct pkv__sim_watch {
    const pkv_sim_observer *observer; /* NULL: nobody */
    int64_t next_sample_ns;           /* INT64_MAX: none */
    pkv__sim_cell *cells;             /* [map_cells] */
    uint8_t *map;                     /* [map_cells] */
    pkv__sim_held *held;              /* [max_num_seqs] */
} pkv__sim_watch;

typedef struct pkv__sim_engine {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    int64_t n;
    const pkv__sim_policy_ops *ops;
    void *policy;
    int64_t n_seqs;    /* sequences of each request */
    bool has_places;   /* of the policy */
    pkv__sim_req *req; /* [n] */

    int64_t now_ns, n_steps;
    int64_t next_arrival; /* reqs before it have arrived */
    int64_t last_to_run;  /* the last request that is not too long; PKV__NOBODY */
    pkv__sim_list waiting, swapped, running; /* the latter in order of admission */
    bool running_sorted;                     /* ... which is order of arrival too */
    int64_t n_starts;                        /* gives `order` */
    int64_t tokens;                          /* resident, of all sequences */

    int64_t epoch;    /* times that somebody gave room back */
    int64_t try_next; /* valid if tried_epoch is epoch: the first in the waiting list that has not
                         been refused in this epoch, or PKV__NOBODY */
    int64_t tried_epoch;
    int64_t tokens_given; /* with max_batched_tokens: computed in this step so far */
    int64_t over_budget;  /* the first that max_batched_tokens alone kept out, or PKV__NOBODY */

    /* of the step under way */
    bool queued;            /* somebody waits after admission */
    bool put_out;           /* somebody was preempted or suspended */
    pkv__sim_batch fresh;   /* admitted or resumed */
    pkv__sim_batch prefill; /* running and to_compute > 0 */
    pkv__sim_batch due;     /* leap: unstalled ones that need room now, in order, not fresh */
    int64_t n_stalled;      /* running and stalled */
    pkv__sim_part kind_of_free;
    int64_t n_free, largest_free, scatter_ppm;
    int64_t n_events_seen; /* n_events when the latter two were asked for; -1: never */

    pkv__sim_ring events; /* leap only */
    pkv__sim_watch watch;

    pkv__sim_account account;
    int64_t end_ns; /* last finish */
    int64_t n_finished, n_finished_window, n_too_long, first_too_long;
    int64_t n_events, n_admissions, n_preemptions, n_preempted_requests, n_swaps;
    int64_t generated_tokens, recomputed_tokens, max_queue, max_batch;
    int64_t move_ns, prefill_ns;
} pkv__sim_engine;

/* ---------------------------------------------------------------- engine.c */

pkv_status pkv__engine_run(pkv__sim_engine *e);
/* One step of all running requests (naive), or as many as nothing happens in (leap). At least one
 * request runs; arrivals are taken in and admission is done. */
pkv_status pkv__engine_step(pkv__sim_engine *e);
pkv_status pkv__engine_leap(pkv__sim_engine *e);

/* Room for one more token of r, which runs; puts out the latest arrivals, in the end r itself. */
pkv_status pkv__engine_make_room(pkv__sim_engine *e, int64_t r);
pkv_status pkv__engine_finish(pkv__sim_engine *e, int64_t r);

/* ---------------------------------------------------------------- engine_step.c */

/* The first of the steps to come, when everybody has room: its length with what moved and what
 * prefill computes. PKV_E_LIMIT. */
pkv_status pkv__engine_stretch(pkv__sim_engine *e, pkv__sim_stretch *s);
/* The pool as it is now, and n steps later. PKV_E_CORRUPT unless the parts sum to C. */
pkv_status pkv__engine_sample(pkv__sim_engine *e, pkv__sim_sample *sample);
pkv_status pkv__engine_sample_later(const pkv__sim_engine *e, int64_t n, pkv__sim_sample *sample);
/* Account a stretch, show it to the observer, take in who arrives, move the clock, the tokens and
 * prefill to its end. */
pkv_status pkv__engine_pass(pkv__sim_engine *e, const pkv__sim_stretch *s,
                            const pkv__sim_sample *first, const pkv__sim_sample *last);

/* ---------------------------------------------------------------- engine_queue.c */

/* Those who want to run and do not, the swapped included. */
static inline int64_t pkv__engine_n_waiting(const pkv__sim_engine *e)
{
    return e->waiting.len + e->swapped.len;
}

static inline bool pkv__engine_is_running(const pkv__sim_engine *e, int64_t r)
{
    return e->req[r].state == PKV__REQ_RUNNING;
}

/* u of a running request. */
static inline int32_t pkv__engine_resident(const pkv__sim_engine *e, int64_t r)
{
    return e->reqs[r].prompt_tokens + (int32_t)(e->n_steps - e->req[r].step_zero);
}

/* Has a running request all its tokens? */
static inline bool pkv__engine_is_done(const pkv__sim_engine *e, int64_t r)
{
    const pkv__sim_req *q = &e->req[r];
    return q->to_compute == 0 && e->n_steps - q->step_zero >= e->reqs[r].output_tokens;
}

void pkv__list_push_back(pkv__sim_engine *e, pkv__sim_list *list, int64_t r);
void pkv__list_push_front(pkv__sim_engine *e, pkv__sim_list *list, int64_t r);
void pkv__list_remove(pkv__sim_engine *e, pkv__sim_list *list, int64_t r);
/* u of a request that does not run. */
int32_t pkv__engine_tokens_of(const pkv__sim_engine *e, int64_t r);
void pkv__engine_start(pkv__sim_engine *e, int64_t r);
void pkv__engine_stop(pkv__sim_engine *e, int64_t r);
/* The latest arrival among the running. */
int64_t pkv__engine_victim(const pkv__sim_engine *e);
/* First in the line of those who want to run: swapped before waiting. Somebody waits. */
int64_t pkv__engine_first_in_line(const pkv__sim_engine *e);

/* ---------------------------------------------------------------- engine_arrive.c */

/* Could it finish if it were alone? */
bool pkv__engine_can_run(const pkv__sim_engine *e, int64_t r);
/* Set the arrivals of the requests, and take in the first ones of a closed loop. */
void pkv__engine_open(pkv__sim_engine *e);
/* Take in who arrives up to until_ns, while the steps of `s` run from now_ns on; NULL: nothing
 * runs. */
void pkv__engine_take_in(pkv__sim_engine *e, int64_t until_ns, const pkv__sim_stretch *s);
/* Closed loop: a client is free, its next request arrives now. Otherwise nothing happens. */
void pkv__engine_next_of_client(pkv__sim_engine *e);
/* When request r, or the next one, arrives by itself; INT64_MAX: it does not. */
int64_t pkv__engine_arrival_ns(const pkv__sim_engine *e, int64_t r);
int64_t pkv__engine_next_arrival_ns(const pkv__sim_engine *e);

/* ---------------------------------------------------------------- engine_admit.c */

/* Resume and admit who fits. */
pkv_status pkv__engine_admit(pkv__sim_engine *e);
/* Tokens that r computes in this step, where prefill_chunk allows; to_compute > 0. */
int64_t pkv__engine_chunk(const pkv__sim_engine *e, int64_t to_compute);

/* ---------------------------------------------------------------- watch.c */

pkv_status pkv__watch_init(pkv__sim_watch *watch, const pkv_sim_config *cfg);
void pkv__watch_deinit(pkv__sim_watch *watch, const pkv_sim_config *cfg);
static inline bool pkv__watch_wants_events(const pkv__sim_watch *watch)
{
    return watch->observer && watch->observer->on_event;
}
/* `slots` are those that r holds now, 0 unless it runs. */
void pkv__watch_event(const pkv__sim_engine *e, pkv_sim_event_kind kind, int64_t r, int64_t tokens,
                      int64_t cached);
/* ARRIVE and REJECT: at another time than now, after `step` steps. */
void pkv__watch_arrival(const pkv__sim_engine *e, pkv_sim_event_kind kind, int64_t r, int64_t t_ns,
                        int64_t step);
/* Samples in the time that `s` takes from now_ns on. */
void pkv__watch_samples(pkv__sim_engine *e, const pkv__sim_stretch *s, const pkv__sim_sample *first,
                        const pkv__sim_sample *last);

#endif
