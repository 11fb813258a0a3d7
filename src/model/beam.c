/* Beam search by the definition in beam.h.
 *
 *   live beams  --logits--> the `width` best pairs, and the `width` best that do not end
 *       ^                      | that end                     |
 *       |                      v                              |
 *       |                   candidates [width]                |
 *       +-------- outputs copied from one bank to the other --+
 *
 * Transformers takes (1 + number of ending ids) * width pairs, so that at least `width` do not end,
 * and looks at each in turn. The two lists find the same: an ending pair counts with rank < width
 * only, and of the others the first `width`. */
#include "model/beam.h"

#include "common/detmath.h"
#include "model/sampler.h"

#include <math.h>
#include <string.h>

typedef struct pair {
    double sum; /* cumulative logprob */
    float logit;
    int32_t beam, token;
} pair;

/* Best first. */
typedef struct pair_list {
    pair at[PKV__MAX_BEAMS];
    int32_t n;
} pair_list;

typedef struct candidate {
    double score;
    int32_t n_ids, slot; /* its ids are at slot * max_new of candidate_ids */
    bool ended;
} candidate;

struct pkv__beams {
    pkv__beam_config cfg; /* end_ids and bias are ours */
    int32_t n_live, length;
    bool done;
    double sum[PKV__MAX_BEAMS]; /* of live beams */
    int32_t *live[2];           /* banks of [width][max_new]; live[0] is in use */
    /* In order of arrival until the search is done, then best first. No slot is used twice. */
    candidate candidates[PKV__MAX_BEAMS];
    int32_t n_candidates;
    int32_t *candidate_ids; /* [width][max_new] */
    int32_t *end_ids;
    pkv_logit_bias *bias;
    float *row; /* [vocab] logits with bias; NULL without one */
    pkv_allocator alloc;
};

/* ---------------------------------------------------------------- memory */

static size_t ids_bytes(const pkv__beam_config *cfg)
{
    return (size_t)cfg->width * (size_t)cfg->max_new * sizeof(int32_t);
}

static bool take_memory(pkv__beams *b)
{
    const pkv__beam_config *cfg = &b->cfg;
    const size_t n_end = (size_t)cfg->n_end_ids, n_bias = (size_t)cfg->n_bias;
    b->live[0] = pkv__alloc(&b->alloc, ids_bytes(cfg), PKV_CACHE_LINE);
    b->live[1] = pkv__alloc(&b->alloc, ids_bytes(cfg), PKV_CACHE_LINE);
    b->candidate_ids = pkv__alloc(&b->alloc, ids_bytes(cfg), PKV_CACHE_LINE);
    if (!b->live[0] || !b->live[1] || !b->candidate_ids) return false;
    if (n_end > 0) {
        b->end_ids = pkv__alloc(&b->alloc, n_end * sizeof(int32_t), _Alignof(int32_t));
        if (!b->end_ids) return false;
        memcpy(b->end_ids, cfg->end_ids, n_end * sizeof(int32_t));
    }
    if (n_bias > 0) {
        b->bias = pkv__alloc(&b->alloc, n_bias * sizeof(*b->bias), _Alignof(pkv_logit_bias));
        b->row = pkv__alloc(&b->alloc, (size_t)cfg->vocab * sizeof(float), PKV_CACHE_LINE);
        if (!b->bias || !b->row) return false;
        memcpy(b->bias, cfg->bias, n_bias * sizeof(*b->bias));
    }
    return true;
}

pkv_status pkv__beam_create(const pkv__beam_config *cfg, const pkv_allocator *alloc,
                            pkv__beams **out)
{
    PKV_ASSERT(cfg->width >= 1 && cfg->width <= PKV__MAX_BEAMS);
    PKV_ASSERT(cfg->n_return >= 1 && cfg->n_return <= cfg->width);
    PKV_ASSERT(cfg->max_new >= 1 && cfg->vocab >= 1);
    const pkv_allocator memory = alloc ? *alloc : (pkv_allocator){ 0 };
    pkv__beams *b = pkv__alloc(&memory, sizeof(*b), _Alignof(pkv__beams));
    if (!b) return PKV_E_NO_MEMORY;
    memset(b, 0, sizeof(*b));
    b->cfg = *cfg;
    b->alloc = memory;
    b->n_live = 1;
    const bool taken = take_memory(b);
    b->cfg.end_ids = b->end_ids;
    b->cfg.bias = b->bias;
    if (!taken) {
        pkv__beam_destroy(b);
        return PKV_E_NO_MEMORY;
    }
    *out = b;
    return PKV_OK;
}

void pkv__beam_destroy(pkv__beams *beams)
{
    if (!beams) return;
    const pkv__beam_config *cfg = &beams->cfg;
    const pkv_allocator memory = beams->alloc;
    pkv__free(&memory, beams->live[0], ids_bytes(cfg));
    pkv__free(&memory, beams->live[1], ids_bytes(cfg));
    pkv__free(&memory, beams->candidate_ids, ids_bytes(cfg));
    pkv__free(&memory, beams->end_ids, (size_t)cfg->n_end_ids * sizeof(int32_t));
    pkv__free(&memory, beams->bias, (size_t)cfg->n_bias * sizeof(pkv_logit_bias));
    pkv__free(&memory, beams->row, (size_t)cfg->vocab * sizeof(float));
    pkv__free(&memory, beams, sizeof(*beams));
}

/* ---------------------------------------------------------------- candidates */

/* length^penalty from IEEE 754 operations alone: whole penalties as products, others through the
 * logarithm, which ends where float64 does. */
static double power_of(int32_t length, double penalty)
{
    const double size = penalty < 0 ? -penalty : penalty;
    double product = 1;
    if (size <= 8 && size == floor(size)) {
        for (int32_t i = 0; i < (int32_t)size; i++) product *= length;
        return penalty < 0 ? 1 / product : product;
    }
    const double exponent = penalty * pkv__det_log(length);
    return pkv__det_exp(fmax(-600, fmin(600, exponent)));
}

static double score_of(const pkv__beams *b, double sum, int32_t length)
{
    return sum / power_of(length, (double)b->cfg.length_penalty);
}

/* The one with the lowest score, the earliest of equal ones. */
static int32_t worst_candidate(const pkv__beams *b)
{
    int32_t worst = 0;
    for (int32_t i = 1; i < b->n_candidates; i++)
        if (b->candidates[i].score < b->candidates[worst].score) worst = i;
    return worst;
}

/* `last` is the ending token, or -1. */
static void add_candidate(pkv__beams *b, const int32_t *ids, int32_t n_ids, int32_t last,
                          double sum)
{
    candidate c = { .n_ids = n_ids + (last >= 0), .slot = b->n_candidates, .ended = last >= 0 };
    c.score = score_of(b, sum, c.n_ids);
    if (b->n_candidates == b->cfg.width) {
        const int32_t worst = worst_candidate(b);
        if (!(c.score > b->candidates[worst].score)) return;
        c.slot = b->candidates[worst].slot;
        b->n_candidates--;
        memmove(&b->candidates[worst], &b->candidates[worst + 1],
                (size_t)(b->n_candidates - worst) * sizeof(c));
    }
    int32_t *to = b->candidate_ids + (size_t)c.slot * (size_t)b->cfg.max_new;
    memcpy(to, ids, (size_t)n_ids * sizeof(*ids));
    if (last >= 0) to[n_ids] = last;
    b->candidates[b->n_candidates++] = c;
}

static const int32_t *live_ids(const pkv__beams *b, int32_t beam)
{
    return b->live[0] + (size_t)beam * (size_t)b->cfg.max_new;
}

/* No more steps: best first, the later of equal ones first. */
static void close_search(pkv__beams *b)
{
    for (int32_t i = 1; i < b->n_candidates; i++) {
        const candidate c = b->candidates[i];
        int32_t at = i;
        for (; at > 0 && b->candidates[at - 1].score <= c.score; at--)
            b->candidates[at] = b->candidates[at - 1];
        b->candidates[at] = c;
    }
    b->n_live = 0;
    b->done = true;
}

/* ---------------------------------------------------------------- a step */

static bool ends(const pkv__beams *b, int32_t token)
{
    for (int32_t i = 0; i < b->cfg.n_end_ids; i++)
        if (b->end_ids[i] == token) return true;
    return false;
}

/* Pairs come beam by beam and by ascending id: one that equals another in everything stays behind
 * it. In one beam a larger logit is better where its sum rounds to the same. */
static bool is_better(const pair *a, const pair *b)
{
    return a->sum > b->sum || (a->sum == b->sum && a->beam == b->beam && a->logit > b->logit);
}

static void offer(pair_list *list, int32_t width, const pair *p)
{
    if (list->n == width && !is_better(p, &list->at[width - 1])) return;
    int32_t at = list->n < width ? list->n++ : width - 1;
    for (; at > 0 && is_better(p, &list->at[at - 1]); at--) list->at[at] = list->at[at - 1];
    list->at[at] = *p;
}

static const float *with_bias(pkv__beams *b, const float *logits)
{
    if (b->cfg.n_bias == 0) return logits;
    memcpy(b->row, logits, (size_t)b->cfg.vocab * sizeof(float));
    for (int32_t i = 0; i < b->cfg.n_bias; i++) b->row[b->bias[i].id] += b->bias[i].bias;
    return b->row;
}

/* Into `best` all pairs, into `others` those that do not end. */
static void rank_beam(pkv__beams *b, int32_t beam, const float *given, pair_list *best,
                      pair_list *others)
{
    const int32_t width = b->cfg.width;
    const float *logits = with_bias(b, given);
    const pkv__row_sum row = pkv__sum_row(logits, b->cfg.vocab);
    for (int32_t id = 0; id < b->cfg.vocab; id++) {
        pair p = { .logit = logits[id], .beam = beam, .token = id };
        if (!(p.logit > -INFINITY)) continue;
        p.logit = fminf(p.logit, row.largest); /* +infinity */
        p.sum = b->sum[beam] + (((double)p.logit - (double)row.largest) - row.log_sum);
        /* `others` is never better than `best`. */
        if (others->n == width && p.sum < others->at[width - 1].sum) continue;
        offer(best, width, &p);
        if (!ends(b, id)) offer(others, width, &p);
    }
}

static void add_ended(pkv__beams *b, const pair_list *best)
{
    for (int32_t i = 0; i < best->n; i++) {
        const pair *p = &best->at[i];
        if (ends(b, p->token)) add_candidate(b, live_ids(b, p->beam), b->length, p->token, p->sum);
    }
}

static void grow_live(pkv__beams *b, const pair_list *others, pkv__beam_next *next)
{
    const size_t stride = (size_t)b->cfg.max_new;
    for (int32_t i = 0; i < others->n; i++) {
        const pair *p = &others->at[i];
        int32_t *to = b->live[1] + (size_t)i * stride;
        memcpy(to, live_ids(b, p->beam), (size_t)b->length * sizeof(*to));
        to[b->length] = p->token;
        next->parent[i] = p->beam;
        next->token[i] = p->token;
        b->sum[i] = p->sum;
    }
    int32_t *old = b->live[0];
    b->live[0] = b->live[1];
    b->live[1] = old;
    b->n_live = others->n;
    b->length++;
}

/* After a step whose best pair had this sum. */
static bool is_done(const pkv__beams *b, double best_sum)
{
    if (b->n_candidates < b->cfg.width) return false;
    if (b->cfg.early_stopping) return true;
    return b->candidates[worst_candidate(b)].score >= score_of(b, best_sum, b->length);
}

void pkv__beam_advance(pkv__beams *beams, const float *const *logits, pkv__beam_next *next)
{
    pair_list best = { .n = 0 }, others = { .n = 0 };
    PKV_ASSERT(!beams->done);
    for (int32_t i = 0; i < beams->n_live; i++) rank_beam(beams, i, logits[i], &best, &others);
    if (best.n == 0) { /* nothing can follow: what there is is all */
        pkv__beam_finish(beams);
        next->n_beams = 0;
        return;
    }
    add_ended(beams, &best);
    grow_live(beams, &others, next);
    if (is_done(beams, best.at[0].sum)) close_search(beams);
    else if (beams->length == beams->cfg.max_new || beams->n_live == 0) pkv__beam_finish(beams);
    next->n_beams = beams->n_live;
}

/* ---------------------------------------------------------------- what comes out */

int32_t pkv__beam_output(const pkv__beams *beams, int32_t beam, const int32_t **ids)
{
    PKV_ASSERT(beam >= 0 && beam < beams->n_live);
    *ids = live_ids(beams, beam);
    return beams->length;
}

void pkv__beam_finish(pkv__beams *beams)
{
    if (beams->done) return;
    for (int32_t i = 0; i < beams->n_live && beams->length > 0; i++)
        add_candidate(beams, live_ids(beams, i), beams->length, -1, beams->sum[i]);
    close_search(beams);
}

int32_t pkv__beam_n_results(const pkv__beams *beams)
{
    return beams->done ? pkv__min_i32(beams->n_candidates, beams->cfg.n_return) : 0;
}

void pkv__beam_result(const pkv__beams *beams, int32_t rank, const int32_t **ids, int32_t *n_ids,
                      float *score, pkv_finish *finish)
{
    PKV_ASSERT(rank >= 0 && rank < pkv__beam_n_results(beams));
    const candidate *c = &beams->candidates[rank];
    *ids = beams->candidate_ids + (size_t)c->slot * (size_t)beams->cfg.max_new;
    *n_ids = c->n_ids;
    *score = (float)c->score;
    *finish = c->ended                              ? PKV_FINISH_STOP
              : beams->length == beams->cfg.max_new ? PKV_FINISH_LENGTH
                                                    : PKV_FINISH_NONE;
}
