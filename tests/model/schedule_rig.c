#include "schedule_rig.h"

#define AS_NAME(name) #name
const char *const reached_names[REACHED_COUNT] = { REACHED(AS_NAME) };

/* Where a request is, seen from outside the step. */
typedef enum place {
    UNSEEN, /* handed in, not taken in */
    AHEAD,
    WAITING,
    PREEMPTED, /* waits to compute again */
    PREFILL,
    DECODE,
    SWAPPED,
    ENDED
} place;

typedef struct watched {
    known *k;
    got *g; /* NULL: not handed in yet */
    pkv_request request;
    int32_t submit_at, cancel_at; /* steps; -1: never */
    bool is_cancelled;
    int64_t cancelled_in; /* the last step that may leave it alive */
    /* before the step under way */
    place place;
    int64_t order;
    int32_t n_preempted, n_live, n_outputs, n_behind;
    bool is_forked;
} watched;

typedef struct schedule {
    engine_rig r; /* the first: cancel_from_inside */
    request_set *set;
    pkv__rng rng;
    int64_t *reached;
    watched w[SCHEDULE_MAX];
    int32_t n, n_left;   /* requests; those not handed in */
    int32_t abandon_at;  /* steps; 0: never */
    int32_t fail_one_in; /* passes; 0: none */
    bool strikes;        /* cancels and deadlines in rare states */
    bool has_ends;       /* cancels, deadlines or failures may end some */
} schedule;

static int32_t below(schedule *s, int32_t n)
{
    return (int32_t)pkv__rng_below(&s->rng, (uint32_t)n);
}

static int32_t one_of(schedule *s, const int32_t *values, int32_t n)
{
    return values[below(s, n)];
}
#define ONE_OF(s, ...)                                                                             \
    one_of(s, (const int32_t[]){ __VA_ARGS__ },                                                    \
           (int32_t)PKV_ARRAY_LEN(((const int32_t[]){ __VA_ARGS__ })))

/* ---------------------------------------------------------------- a pass that fails */

/* The pass has no context of ours. */
static struct {
    bool now, has_failed;
} failure;

static pkv_status pass(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k, pkv_kv_view *v,
                       float *logits)
{
    if (!failure.now) return pkv__forward_run(fwd, batch, k, v, logits);
    failure.has_failed = true;
    return PKV_E_DEVICE;
}

/* ---------------------------------------------------------------- drawing */

static int32_t n_branches(const pkv_request *r)
{
    return r->beams > 1 ? r->beams : r->n;
}

/* Blocks of a request at its longest: its whole blocks of prompt are shared, the rest is its own
 * for each sequence. */
static int32_t blocks_of(const pkv_request *r, int32_t tokens)
{
    const int32_t longest = pkv__min_i32(r->n_ids + r->max_new, SET_CONTEXT) - 1;
    const int32_t shared = r->n_ids / tokens;
    return shared + n_branches(r) * ((longest + tokens - 1) / tokens - shared);
}

static void draw_requests(schedule *s)
{
    const int32_t kind = below(s, 4);
    const bool has_ends = kind == 1;
    s->n = 2 + below(s, SCHEDULE_MAX - 1);
    for (int32_t i = 0; i < s->n; i++) {
        watched *w = &s->w[i];
        w->k = &s->set->known[below(s, SET_REQUESTS)];
        if (i > 0 && below(s, 5) == 0) w->k = s->w[below(s, i)].k;
        w->request = w->k->request;
        w->cancel_at = -1;
        w->submit_at = below(s, 3) ? 0 : below(s, 25);
        if (below(s, 4) == 0) w->request.arrival_ns = (uint64_t)(990 + below(s, 40)) * 1000000;
        if (has_ends && below(s, 5) == 0) w->cancel_at = w->submit_at + below(s, 30);
        if (has_ends && below(s, 2) == 0)
            w->request.deadline_ns =
                (uint64_t)(995 + w->submit_at + below(s, 200)) * 1000000 + (uint64_t)below(s, 2);
    }
    s->fail_one_in = kind == 2 ? 10 + below(s, 40) : 0;
    s->has_ends = has_ends || s->fail_one_in > 0;
    s->strikes = has_ends;
    s->n_left = s->n;
    s->abandon_at = below(s, 8) ? 0 : 1 + below(s, 40);
}

/* From "the largest alone, to the last block" to "all". */
static void draw_pool(schedule *s, pkv_engine_config *cfg)
{
    const int32_t tokens = cfg->block_tokens;
    pkv_kv_shape shape = s->set->plain.shape;
    int32_t largest = 1, sum = 0, widest = 1;
    size_t block_bytes = 0;
    for (int32_t i = 0; i < s->n; i++) {
        const pkv_request *r = &s->w[i].request;
        const int32_t n = cfg->placement == PKV_PLACE_PAGED
                              ? blocks_of(r, tokens)
                              : n_branches(r) * ((SET_CONTEXT + tokens - 1) / tokens);
        largest = pkv__max_i32(largest, n);
        widest = pkv__max_i32(widest, n_branches(r));
        sum += n;
    }
    const int32_t more = sum - largest;
    cfg->n_blocks = 1 + largest + ONE_OF(s, 0, 0, 0, 1, 2, more / 8, more / 4, more);
    cfg->watermark_blocks = pkv__min_i32(ONE_OF(s, -1, 0, 0, 1, 3), cfg->n_blocks - 2);
    cfg->max_seqs = widest + ONE_OF(s, 0, 4, 16, 32, 32);
    cfg->max_batch_tokens = cfg->max_seqs + ONE_OF(s, 0, 0, 0, 1, 2, 5, 20, 200);
    cfg->chunk_tokens = ONE_OF(s, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 64);
    shape.block_tokens = tokens;
    assert_int_equal(pkv_kv_block_bytes(&shape, &block_bytes), PKV_OK);
    cfg->swap_bytes =
        (size_t)ONE_OF(s, 0, 2, 3, 3, 6, cfg->n_blocks, 4 * cfg->n_blocks) * block_bytes;
    if (cfg->swap_bytes < 2 * block_bytes) cfg->swap_bytes = 0;
}

static void open_engine(schedule *s)
{
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    cfg.kv_dtype = s->set->kv_dtype;
    cfg.isa = s->set->isa;
    cfg.block_tokens = ONE_OF(s, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 64);
    cfg.max_context = SET_CONTEXT;
    cfg.max_queue = SCHEDULE_MAX;
    cfg.preempt = (pkv_preempt)ONE_OF(s, PKV_PREEMPT_AUTO, PKV_PREEMPT_SWAP, PKV_PREEMPT_SWAP,
                                      PKV_PREEMPT_RECOMPUTE);
    cfg.placement = (pkv_placement)(below(s, 6) ? PKV_PLACE_PAGED : 1 + below(s, 3));
    cfg.no_prefix_cache = below(s, 3) == 0;
    cfg.n_threads = below(s, 16) ? 1 : 2 + below(s, 2);
    draw_pool(s, &cfg);
    if (cfg.placement != PKV_PLACE_PAGED) cfg.swap_bytes = 0;
    rig_open(&s->r, s->set->model, s->set->tok, &cfg);
    s->r.check_every = below(s, 3) == 0 ? 1 : 0;
    s->r.engine->pass = pass;
}

/* ---------------------------------------------------------------- before a step */

static const pkv__job *job_of(const schedule *s, const watched *w)
{
    return w->g ? pkv__table_find(s->r.engine, w->g->id) : NULL;
}

static place place_of(const watched *w, const pkv__job *job)
{
    if (!job) return w->g && w->g->has_result ? ENDED : UNSEEN;
    if (job->state == PKV__JOB_AHEAD) return AHEAD;
    if (job->state == PKV__JOB_WAITING) return job->was_admitted ? PREEMPTED : WAITING;
    if (job->state == PKV__JOB_SWAPPED) return SWAPPED;
    return job->trunk.seq >= 0 ? PREFILL : DECODE;
}

static void look(const schedule *s, watched *w)
{
    const pkv__job *job = job_of(s, w);
    w->place = place_of(w, job);
    if (!job) return;
    w->order = job->order;
    w->n_preempted = job->result.n_preempted;
    w->n_live = job->n_live;
    w->is_forked = job->n_branches > 1 && job->trunk.seq < 0;
    w->n_outputs = w->n_behind = 0;
    for (int32_t i = 0; i < job->n_branches; i++) {
        const pkv__branch *b = &job->branch[i];
        w->n_outputs += b->n_output;
        w->n_behind += b->run.seq >= 0 && job->n_prompt + b->n_output - b->run.n_computed > 1;
    }
}

static void cancel(const schedule *s, watched *w, int64_t last)
{
    w->is_cancelled = true;
    w->cancelled_in = last;
    assert_int_equal(pkv_engine_cancel(s->r.engine, w->g->id), PKV_OK);
}

/* From inside a step, while somebody is told something: himself, or anybody. */
static void cancel_from_inside(got *g, const pkv_token_event *event)
{
    schedule *s = (schedule *)(void *)g->rig; /* the rig is its first member */
    watched *w = &s->w[below(s, s->n)];
    (void)event;
    if (w->g && !w->is_cancelled && !w->g->has_result && below(s, 12) == 0)
        cancel(s, w, s->r.n_steps);
}

/* States that last for a few steps are not left to chance: a cancel comes, or the clock jumps to
 * the deadline, more often then. */
static void strike(schedule *s, watched *w)
{
    const bool is_out = w->place == PREEMPTED || w->place == SWAPPED;
    const bool is_rare = is_out || w->is_forked;
    bool now = w->cancel_at >= 0 && w->cancel_at <= s->r.n_steps;
    if (!w->g || w->is_cancelled || w->place == ENDED) return;
    if (s->strikes && is_rare && below(s, is_out ? 3 : 20) == 0) now = true;
    if (s->strikes && is_rare && w->request.deadline_ns > s->r.now_ns &&
        below(s, is_out ? 2 : 8) == 0)
        s->r.now_ns = w->request.deadline_ns;
    if (!now) return;
    cancel(s, w, s->r.n_steps - 1);
}

static void hand_in(schedule *s)
{
    for (int32_t i = 0; i < s->n; i++) {
        watched *w = &s->w[i];
        if (!w->g && w->submit_at <= s->r.n_steps) {
            w->g = rig_submit(&s->r, &w->request);
            if (s->strikes && s->n % 4 == 0) w->g->also = cancel_from_inside;
            s->n_left--;
        }
        look(s, w);
        strike(s, w);
    }
}

/* ---------------------------------------------------------------- after a step */

static bool has_ended_by(const watched *w, pkv_finish finish)
{
    for (int32_t i = 0; i < w->g->n_samples; i++)
        if (w->g->sample[i].finish == finish) return true;
    return false;
}

static void note_end(schedule *s, const watched *w)
{
    static const int cancels[] = { REACHED_CANCEL_UNSEEN,  REACHED_CANCEL_AHEAD,
                                   REACHED_CANCEL_WAITING, REACHED_CANCEL_PREEMPTED,
                                   REACHED_CANCEL_PREFILL, REACHED_CANCEL_DECODE,
                                   REACHED_CANCEL_SWAPPED };
    static const int deadlines[] = { REACHED_DEADLINE_AHEAD,   REACHED_DEADLINE_AHEAD,
                                     REACHED_DEADLINE_WAITING, REACHED_DEADLINE_PREEMPTED,
                                     REACHED_DEADLINE_PREFILL, REACHED_DEADLINE_DECODE,
                                     REACHED_DEADLINE_SWAPPED };
    if (has_ended_by(w, PKV_FINISH_CANCEL)) {
        s->reached[cancels[w->place]]++;
        s->reached[REACHED_CANCEL_BEAMS] += w->request.beams > 1 && w->place >= DECODE;
    }
    if (has_ended_by(w, PKV_FINISH_DEADLINE)) s->reached[deadlines[w->place]]++;
}

static void note_preemption(schedule *s, const watched *w, const pkv__job *job)
{
    const bool is_swapped = job->state == PKV__JOB_SWAPPED;
    s->reached[is_swapped ? REACHED_PREEMPT_SWAP : REACHED_PREEMPT_RECOMPUTE]++;
    s->reached[REACHED_PREEMPT_PREFILL] += w->place == PREFILL;
    s->reached[REACHED_PREEMPT_TWICE] += job->result.n_preempted > 1;
    s->reached[REACHED_PREEMPT_BEAMS] += w->request.beams > 1 && w->is_forked;
    s->reached[REACHED_PREEMPT_FORKED] += w->request.beams <= 1 && w->is_forked && w->n_live > 1;
    s->reached[REACHED_PREEMPT_ONE_OF_MANY_LEFT] +=
        w->request.beams <= 1 && w->is_forked && w->n_live == 1;
}

/* Somebody older had his turn: he goes on, or he has just ended. */
static void check_victim(const schedule *s, const pkv__job *victim)
{
    for (int32_t i = 0; i < s->n; i++) {
        const watched *w = &s->w[i];
        const pkv__job *job = job_of(s, w);
        if (job ? job->state == PKV__JOB_RUNNING && job->order < victim->order
                : w->place >= PREFILL && w->place < ENDED && w->order < victim->order)
            return;
    }
    fail_msg("request %llu was preempted, and nobody older runs", (unsigned long long)victim->id);
}

/* Decodes are never kept waiting: a branch that was one token behind has its next. */
static void check_decode(const schedule *s, const watched *w, const pkv__job *job)
{
    int32_t n = 0;
    if (w->place != DECODE || job->state != PKV__JOB_RUNNING || s->r.status != PKV_OK) return;
    if (job->beams || job->result.n_preempted != w->n_preempted || w->n_behind > 0) return;
    for (int32_t i = 0; i < job->n_branches; i++) n += job->branch[i].n_output;
    if (n != w->n_outputs + w->n_live)
        fail_msg("request %llu got %d tokens for %d sequences", (unsigned long long)job->id,
                 n - w->n_outputs, w->n_live);
}

/* Nobody comes in before those who are out, or past those who came earlier, or into the last room
 * of those who run. */
static void check_admission(const schedule *s, const watched *w, const pkv__job *job)
{
    const pkv_engine *e = s->r.engine;
    pkv__place_usage usage;
    const bool was_in = w->place == PREFILL || w->place == DECODE || w->place == SWAPPED;
    if (was_in || job->state != PKV__JOB_RUNNING || s->r.cfg.placement != PKV_PLACE_PAGED) return;
    assert_true(e->swapped.n == 0 && e->n_preempted == 0);
    assert_true(!e->waiting.head || e->waiting.head->order > job->order);
    e->place->ops->usage(e->place, &usage);
    if (e->running.head->order < job->order) assert_true(usage.n_free >= e->watermark);
}

static void note_rows(schedule *s)
{
    const pkv_engine *e = s->r.engine;
    for (int32_t i = 0; i < s->n; i++) {
        const pkv__job *job = job_of(s, &s->w[i]);
        for (int32_t k = 0; job && k < e->n_rows; k++) {
            if (e->rows[k].job != job) continue;
            assert_true(e->rows[k].n >= 1 && e->rows[k].n <= e->chunk_tokens);
            s->reached[REACHED_HIT_AGAIN] += s->w[i].place == PREEMPTED && e->rows[k].first > 0;
        }
    }
    if (s->r.report.n_tokens == e->max_batch_tokens) s->reached[REACHED_BUDGET_USED_UP]++;
}

static void note_waiting(schedule *s)
{
    const pkv_engine *e = s->r.engine;
    const pkv__job *job = e->waiting.head;
    pkv__place_usage usage;
    if (!job || e->swapped.n > 0 || e->n_preempted > 0 || e->running.n == 0) return;
    if (e->n_seqs + job->n_live > e->max_seqs) {
        s->reached[REACHED_WAIT_FOR_SEQS]++;
        return;
    }
    e->place->ops->usage(e->place, &usage);
    const int32_t need = pkv__ceil_div_i32(pkv__trunk_tokens(job), e->place->block_tokens);
    if (usage.n_free >= need && usage.n_free < need + e->watermark)
        s->reached[REACHED_WAIT_FOR_WATERMARK]++;
}

static void check_report(const schedule *s, uint64_t at_ns)
{
    const pkv_step_report *p = &s->r.report;
    const pkv_engine *e = s->r.engine;
    const int32_t n_due = p->n_running + p->n_waiting + p->n_swapped;
    assert_true(p->n_tokens <= s->r.cfg.max_batch_tokens);
    assert_true(p->n_rows <= s->r.cfg.max_seqs && p->n_prefill <= p->n_tokens);
    assert_true(e->n_seqs <= e->max_seqs);
    assert_int_equal(p->n_unfinished - n_due, e->heap[PKV__BY_ARRIVAL].n);
    if (s->r.status == PKV_OK && p->n_tokens == 0 && n_due > 0)
        fail_msg("step %lld does nothing for %d requests", (long long)s->r.n_steps, n_due);
    if (p->next_arrival_ns != 0) assert_true(n_due == 0 && p->next_arrival_ns > at_ns);
}

static void look_back(schedule *s, uint64_t at_ns)
{
    check_report(s, at_ns);
    for (int32_t i = 0; i < s->n; i++) {
        const watched *w = &s->w[i];
        const pkv__job *job = job_of(s, w);
        if (!w->g || w->place == ENDED) continue;
        if (!job) {
            assert_true(w->g->has_result);
            note_end(s, w);
            continue;
        }
        assert_false(w->g->has_result);
        /* At the latest in the step behind. */
        assert_false(w->is_cancelled && w->cancelled_in < s->r.n_steps - 1);
        assert_true(w->request.deadline_ns == 0 || w->request.deadline_ns > at_ns);
        s->reached[REACHED_RESUME] += w->place == SWAPPED && job->state == PKV__JOB_RUNNING;
        check_decode(s, w, job);
        check_admission(s, w, job);
        if (job->result.n_preempted == w->n_preempted) continue;
        note_preemption(s, w, job);
        check_victim(s, job);
    }
    note_rows(s);
    note_waiting(s);
}

/* ---------------------------------------------------------------- running */

/* No schedule takes more steps. While the oldest request that is due is not among the running ones,
 * nobody who is not admitted can be; those who are get on by a token of the oldest of them in every
 * step, and what the others lose they lose by leaving. Once it runs it gets on in every step. So
 * per request: all tokens of all, at most, twice with those of a fork; and a step for each arrival.
 */
static int64_t most_steps(const schedule *s)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < s->n; i++) {
        const pkv_request *r = &s->w[i].request;
        tokens += r->n_ids + (int64_t)n_branches(r) * r->max_new;
    }
    return (s->n + 1) * tokens + 100;
}

static void step(schedule *s)
{
    hand_in(s);
    const uint64_t at_ns = s->r.now_ns;
    failure.has_failed = false;
    /* Those who have no tokens in the pass that fails are rare, too. */
    const pkv_engine *e = s->r.engine;
    const bool by = s->r.n_steps > 0 && (e->running.n > e->n_shares || e->swapped.n > 0);
    failure.now = s->fail_one_in > 0 && below(s, by ? 3 : s->fail_one_in) == 0;
    rig_step(&s->r);
    if (failure.has_failed) {
        assert_int_equal(s->r.status, PKV_E_DEVICE);
        s->reached[REACHED_STEP_FAILED]++;
        s->reached[REACHED_FAILED_BYSTANDER] +=
            s->r.report.n_running > 0 || s->r.report.n_swapped > 0;
    } else if (s->r.status != PKV_OK) {
        fail_msg("%s: %s", pkv_status_name(s->r.status), s->r.log.text);
    }
    look_back(s, at_ns);
    if (s->abandon_at > 0 && e->swapped.n > 0) s->abandon_at = (int32_t)s->r.n_steps;
    if (s->r.report.next_arrival_ns > s->r.now_ns && below(s, 2))
        s->r.now_ns = s->r.report.next_arrival_ns;
}

/* ---------------------------------------------------------------- results */

static void differ(const watched *w, int32_t sample, const char *what)
{
    fail_msg("request %llu, sample %d: %s", (unsigned long long)w->g->id, sample, what);
}

/* The first a->n tokens of what it should get. */
static void same_tokens(const watched *w, int32_t sample)
{
    const got_sample *a = &w->g->sample[sample];
    const want_sample *b = &w->k->want.sample[sample];
    for (int32_t i = 0; i < a->n; i++) {
        if (i >= b->n || a->ids[i] != b->ids[i]) differ(w, sample, "other tokens");
        if (memcmp(&a->logprobs[i], &b->logprobs[i], sizeof(float)) != 0 &&
            !(isnan(a->logprobs[i]) && isnan(b->logprobs[i])))
            differ(w, sample, "another logprob");
        if (a->n_tops[i] != b->n_tops[i] ||
            memcmp(a->tops + 20 * i, b->tops[i], (size_t)b->n_tops[i] * sizeof(pkv_logprob)) != 0)
            differ(w, sample, "other alternatives");
    }
}

/* Cut off: by something that happened, and what was told before is right. */
static void check_cut(const schedule *s, const watched *w, int32_t sample)
{
    const got_sample *a = &w->g->sample[sample];
    char text[PLAIN_MAX_TEXT];
    int32_t n_text;
    if (a->finish == PKV_FINISH_CANCEL) assert_true(w->is_cancelled);
    else if (a->finish == PKV_FINISH_DEADLINE)
        assert_true(w->request.deadline_ns != 0 &&
                    w->g->result.finish_ns >= w->request.deadline_ns);
    else assert_true(a->finish == PKV_FINISH_ERROR && s->fail_one_in > 0);
    if (w->request.beams > 1) return;
    same_tokens(w, sample);
    if (a->n >= w->k->want.sample[sample].n) differ(w, sample, "cut off behind its end");
    plain_text(&s->set->plain, &w->request, a->ids, a->n, true, text, &n_text);
    if (a->n_text != n_text || memcmp(a->text, text, (size_t)n_text) != 0)
        differ(w, sample, "another text up to the cut");
}

static void check_whole(schedule *s, const watched *w, int32_t sample)
{
    const got_sample *a = &w->g->sample[sample];
    const want_sample *b = &w->k->want.sample[sample];
    same_tokens(w, sample);
    if (a->n != b->n) differ(w, sample, "fewer tokens");
    if (a->finish != b->finish) differ(w, sample, "another end");
    if (a->n_text != b->n_text || memcmp(a->text, b->text, (size_t)b->n_text) != 0)
        differ(w, sample, "another text");
    if (isnan(a->score) ? !isnan(b->score) : a->score != b->score)
        differ(w, sample, "another score");
    s->reached[REACHED_END_STOP] += a->finish == PKV_FINISH_STOP;
    s->reached[REACHED_END_LENGTH] += a->finish == PKV_FINISH_LENGTH;
    s->reached[REACHED_END_CONTEXT] += a->finish == PKV_FINISH_CONTEXT;
    s->reached[REACHED_END_STOP_TEXT] += a->finish == PKV_FINISH_STOP && a->n > 0 &&
                                         !plain_ends(&s->set->plain, &w->request, a->ids[a->n - 1]);
    s->reached[REACHED_BEAMS_DONE] += w->request.beams > 1;
    s->reached[REACHED_SAMPLES_DONE] += w->request.beams <= 1 && w->request.n > 1;
}

/* Beams that were ended from outside give the best they had; some of it may have been complete. */
static bool may_be_cut(const schedule *s, const watched *w)
{
    const uint64_t deadline = w->request.deadline_ns;
    return w->is_cancelled || s->fail_one_in > 0 ||
           (deadline != 0 && w->g->result.finish_ns >= deadline);
}

static void check_request(schedule *s, const watched *w)
{
    const int32_t n_cached = w->g->result.n_cached, n_prompt = w->request.n_ids;
    assert_true(w->g->has_result);
    assert_int_equal(w->g->n_samples, w->k->want.n);
    for (int32_t i = 0; i < w->g->n_samples; i++) {
        if (w->g->sample[i].finish >= PKV_FINISH_CANCEL) check_cut(s, w, i);
        else if (w->request.beams <= 1 || !may_be_cut(s, w)) check_whole(s, w, i);
    }
    if (s->r.cfg.no_prefix_cache || s->r.cfg.placement != PKV_PLACE_PAGED)
        assert_int_equal(n_cached, 0);
    s->reached[REACHED_HIT_FULL] += n_cached > 0 && n_cached == n_prompt - 1;
    s->reached[REACHED_HIT_PARTIAL] += n_cached > 0 && n_cached < n_prompt - 1;
    s->reached[REACHED_HIT_WITHIN_BLOCK] += n_cached % s->r.cfg.block_tokens != 0;
}

/* ---------------------------------------------------------------- figures */

/* Every token of a prompt is computed or found once, every token of an output but the last is
 * computed once, and the rest is recomputed. */
static void check_figures(schedule *s)
{
    const pkv_engine_stats stats = rig_stats(&s->r);
    int64_t n_prompt = 0, n_output = 0, n_cached = 0, n_first = 0, n_preempted = 0, n_ended = 0;
    bool has_beams = false;
    for (int32_t i = 0; i < s->n; i++) {
        const pkv_request_result *result = &s->w[i].g->result;
        n_prompt += result->n_prompt;
        n_output += result->n_output;
        n_cached += result->n_cached;
        n_preempted += result->n_preempted;
        n_first += s->w[i].g->n_samples;
        has_beams |= s->w[i].request.beams > 1;
    }
    for (size_t i = 0; i < PKV_ARRAY_LEN(stats.n_finished); i++) n_ended += stats.n_finished[i];
    assert_int_equal(n_ended, s->n);
    assert_int_equal(stats.n_submitted, s->n);
    assert_int_equal(stats.n_output_tokens, n_output);
    assert_true(stats.n_cached_tokens >= n_cached); /* more where it was admitted twice */
    if (n_preempted == 0) assert_int_equal(stats.n_cached_tokens, n_cached);
    assert_int_equal(stats.n_preempt_swap + stats.n_preempt_recompute, n_preempted);
    assert_true(stats.peak_blocks_used <= stats.n_blocks && stats.peak_seqs <= s->r.cfg.max_seqs);
    s->reached[REACHED_COPY_ON_WRITE] += stats.n_copies;
    s->reached[REACHED_EVICTION] += stats.n_evictions;
    s->reached[REACHED_SWAP_FALLS_BACK] += s->r.cfg.preempt == PKV_PREEMPT_SWAP &&
                                           s->r.cfg.swap_bytes > 0 && stats.n_preempt_recompute > 0;
    if (s->has_ends) return;
    assert_int_equal(stats.n_prompt_tokens, n_prompt);
    if (has_beams) return;
    const int64_t n_new = n_prompt - stats.n_cached_tokens + n_output - n_first;
    assert_int_equal(stats.n_computed_tokens - stats.n_recomputed_tokens, n_new);
}

/* ---------------------------------------------------------------- a schedule */

/* Whatever goes on: no event any more, and no byte is left. */
static void abandon(schedule *s)
{
    int32_t n_events = 0;
    for (int32_t i = 0; i < s->n; i++)
        if (s->w[i].g) n_events += s->w[i].g->n_events;
    s->reached[REACHED_DESTROYED_RUNNING] += s->r.engine->running.n > 0;
    s->reached[REACHED_DESTROYED_WAITING] += s->r.engine->waiting.n > 0;
    s->reached[REACHED_DESTROYED_SWAPPED] += s->r.engine->swapped.n > 0;
    rig_drop(&s->r);
    for (int32_t i = 0; i < s->n; i++)
        if (s->w[i].g) n_events -= s->w[i].g->n_events;
    assert_int_equal(n_events, 0);
}

void schedule_run(request_set *set, uint64_t seed, int64_t reached[REACHED_COUNT])
{
    schedule s = { .set = set, .reached = reached };
    pkv__rng_init(&s.rng, seed, 42, 0);
    draw_requests(&s);
    open_engine(&s);
    const int64_t most = most_steps(&s);
    do {
        step(&s);
        assert_true(s.r.n_steps < most);
    } while ((s.n_left > 0 || s.r.report.n_unfinished > 0) && s.r.n_steps != s.abandon_at);
    if (s.n_left > 0 || s.r.report.n_unfinished > 0) {
        abandon(&s);
    } else {
        for (int32_t i = 0; i < s.n; i++) check_request(&s, &s.w[i]);
        check_figures(&s);
    }
    s.reached[REACHED_PLACE_MAX] += s.r.cfg.placement == PKV_PLACE_MAX;
    s.reached[REACHED_PLACE_REQUEST] += s.r.cfg.placement == PKV_PLACE_REQUEST;
    s.reached[REACHED_PLACE_POW2] += s.r.cfg.placement == PKV_PLACE_POW2;
    s.reached[REACHED_THREADS] += s.r.cfg.n_threads > 1;
    s.r.model = NULL; /* the set's */
    s.r.tok = NULL;
    rig_close(&s.r);
}
