/* A request on its way in: encoded, checked, copied into one block of memory that lasts until its
 * last event. Any thread.
 *
 *   job | branches | prompt | output of branch 0 | outputs of the others | end ids | bias | texts
 */
#include "model/engine_internal.h"

#include <string.h>

/* ---------------------------------------------------------------- a job */

/* Where the arrays lie behind the struct, in bytes. */
typedef struct plan {
    size_t tokens, outputs, end_ids, bias, texts, bytes;
} plan;

static size_t take(size_t *at, size_t bytes, size_t align)
{
    const size_t first = pkv__align_up(*at, align);
    *at = first + bytes;
    return first;
}

static plan plan_job(const pkv_engine *e, const pkv_request *r, int32_t n_prompt, int32_t max_new)
{
    const size_t n = (size_t)pkv__request_branches(r), id = sizeof(int32_t);
    const size_t n_outputs = r->beams > 1 ? 0 : n; /* beams keep their own */
    size_t text_bytes = 0;
    for (int32_t i = 0; i < r->n_stop_texts; i++) text_bytes += strlen(r->stop_texts[i]);
    plan p;
    size_t at = sizeof(pkv__job) + n * sizeof(pkv__branch);
    p.tokens = take(&at, ((size_t)n_prompt + (n_outputs > 0 ? (size_t)max_new : 0)) * id, id);
    p.outputs = take(&at, (n_outputs > 1 ? n_outputs - 1 : 0) * (size_t)max_new * id, id);
    p.end_ids = take(&at, (size_t)(r->n_stop_ids + e->n_eos) * id, id);
    p.bias = take(&at, (size_t)r->sampling.n_bias * sizeof(pkv_logit_bias), sizeof(int32_t));
    p.texts = take(&at, text_bytes, 1);
    p.bytes = at;
    return p;
}

static void copy_ends(const pkv_engine *e, const pkv_request *r, pkv__job *job)
{
    for (int32_t i = 0; i < r->n_stop_ids; i++) job->end_ids[job->n_end_ids++] = r->stop_ids[i];
    for (int32_t i = 0; i < e->n_eos && !r->ignore_eos; i++)
        job->end_ids[job->n_end_ids++] = e->eos[i];
}

static void copy_stop_texts(const pkv_request *r, pkv__job *job, char *at)
{
    job->stops.n = r->n_stop_texts;
    for (int32_t i = 0; i < r->n_stop_texts; i++) {
        const size_t n = strlen(r->stop_texts[i]);
        memcpy(at, r->stop_texts[i], n);
        job->stops.text[i] = at;
        job->stops.n_bytes[i] = (int32_t)n;
        at += n;
    }
}

static void init_branches(const pkv_engine *e, pkv__job *job, int32_t *others)
{
    for (int32_t i = 0; i < job->n_branches; i++) {
        pkv__branch *b = &job->branch[i];
        *b = (pkv__branch){ .run = { .seq = -1 }, .drawn = -1 };
        if (!job->beams)
            b->output = i == 0 ? job->prompt + job->n_prompt
                               : others + (size_t)(i - 1) * (size_t)job->max_new;
        b->xorshift = job->sampling.seed;
        pkv__output_init(&b->text, e->tokenizer, job->stops.n > 0 ? &job->stops : NULL);
        pkv__output_follow(&b->text, job->prompt, job->n_prompt);
    }
}

static pkv_status make_beams(const pkv_engine *e, const pkv_request *r, pkv__job *job)
{
    if (r->beams <= 1) return PKV_OK;
    const pkv__beam_config cfg = { .width = r->beams,
                                   .n_return = job->n_return,
                                   .max_new = job->max_new,
                                   .vocab = e->weights->config.vocab,
                                   .length_penalty = r->length_penalty,
                                   .early_stopping = r->early_stopping,
                                   .end_ids = job->end_ids,
                                   .n_end_ids = job->n_end_ids,
                                   .bias = r->sampling.bias,
                                   .n_bias = r->sampling.n_bias };
    return pkv__beam_create(&cfg, &e->alloc, &job->beams);
}

pkv_status pkv__job_create(const pkv_engine *e, const pkv_request *r, const int32_t *ids,
                           int32_t n_prompt, pkv__job **out)
{
    const int32_t max_new = pkv__request_max_new(e, n_prompt, r->max_new);
    const plan p = plan_job(e, r, n_prompt, max_new);
    char *memory = pkv__alloc(&e->alloc, p.bytes, PKV_CACHE_LINE);
    if (!memory) return PKV_E_NO_MEMORY;
    pkv__job *job = (void *)memory;
    pkv_logit_bias *bias = (void *)(memory + p.bias);
    *job = (pkv__job){ .place = { -1, -1 },
                       .bytes = p.bytes,
                       .prompt = (void *)(memory + p.tokens),
                       .n_prompt = n_prompt,
                       .max_new = max_new,
                       .at_max = max_new < r->max_new ? PKV_FINISH_CONTEXT : PKV_FINISH_LENGTH,
                       .sampling = r->sampling,
                       .end_ids = (void *)(memory + p.end_ids),
                       .deadline_ns = r->deadline_ns,
                       .on_token = r->on_token,
                       .ctx = r->ctx,
                       .n_live = pkv__request_branches(r),
                       .trunk = { .seq = -1 },
                       .n_return = pkv__max_i32(r->n, 1),
                       .n_branches = pkv__request_branches(r) };
    memcpy(job->prompt, ids, (size_t)n_prompt * sizeof(*ids));
    if (r->sampling.n_bias > 0)
        memcpy(bias, r->sampling.bias, (size_t)r->sampling.n_bias * sizeof(*bias));
    job->sampling.bias = bias;
    copy_ends(e, r, job);
    copy_stop_texts(r, job, memory + p.texts);
    job->result.n_prompt = n_prompt;
    job->result.arrival_ns = r->arrival_ns != 0 ? r->arrival_ns : pkv__engine_now(e);
    const pkv_status status = make_beams(e, r, job);
    if (status != PKV_OK) {
        pkv__job_free(e, job);
        return status;
    }
    init_branches(e, job, (void *)(memory + p.outputs));
    *out = job;
    return PKV_OK;
}

void pkv__job_free(const pkv_engine *e, pkv__job *job)
{
    pkv__beam_destroy(job->beams);
    pkv__free(&e->alloc, job, job->bytes);
}

/* ---------------------------------------------------------------- submit */

/* The ids of a text, in memory of *bytes that the caller frees. */
static pkv_status encode(const pkv_engine *e, const pkv_request *r, int32_t **ids, size_t *bytes,
                         int32_t *n)
{
    const uint32_t flags = PKV_TOK_ADD_SPECIAL | (r->parse_special ? PKV_TOK_PARSE_SPECIAL : 0);
    size_t cap = r->n_text < (size_t)1 << 30 ? r->n_text + 3 : 1; /* longer ones are refused */
    for (;;) {
        *bytes = cap * sizeof(int32_t);
        *ids = pkv__alloc(&e->alloc, *bytes, sizeof(int32_t));
        if (!*ids) return PKV_E_NO_MEMORY;
        const pkv_status status =
            pkv_tokenizer_encode(e->tokenizer, r->text, r->n_text, flags, *ids, (int32_t)cap, n);
        if (status == PKV_OK) return PKV_OK;
        pkv__free(&e->alloc, *ids, *bytes);
        if (status != PKV_E_LIMIT) return status;
        cap = (size_t)*n; /* a normaliser made it longer */
    }
}

static pkv_status take_request(pkv_engine *e, const pkv_request *r, pkv_request_id *out)
{
    int32_t *encoded = NULL, n = r->n_ids;
    size_t bytes = 0;
    pkv__job *job = NULL;
    pkv_status status = pkv__request_check(e, r);
    if (status != PKV_OK) return status;
    if (r->text) {
        status = encode(e, r, &encoded, &bytes, &n);
        if (status != PKV_OK) return status;
    }
    const int32_t *ids = encoded ? encoded : r->ids;
    status = pkv__request_check_prompt(e, r, ids, n);
    if (status == PKV_OK) status = pkv__job_create(e, r, ids, n, &job);
    if (status == PKV_OK) {
        /* The job is the stepping thread's then. Counted with it: nobody sees it end before. */
        pthread_mutex_lock(&e->lock);
        status = pkv__inbox_put(e->inbox, job, out);
        if (status == PKV_OK) e->total.n_submitted++;
        pthread_mutex_unlock(&e->lock);
        if (status == PKV_E_LIMIT)
            pkv__log(&e->log, PKV_LOG_ERROR,
                     "submit: the queue is full; step until requests are admitted, or create the "
                     "engine with a larger max_queue");
        if (status != PKV_OK) pkv__job_free(e, job);
    }
    if (encoded) pkv__free(&e->alloc, encoded, bytes);
    return status;
}

pkv_status pkv_engine_submit(pkv_engine *engine, const pkv_request *request, pkv_request_id *out)
{
    if (!engine || !request || !out) return PKV_E_INVALID_ARG;
    const pkv_status status = take_request(engine, request, out);
    if (status == PKV_OK) {
        if (engine->wake) engine->wake(engine->wake_ctx);
        return PKV_OK;
    }
    pthread_mutex_lock(&engine->lock);
    engine->total.n_refused++;
    pthread_mutex_unlock(&engine->lock);
    return status;
}

pkv_status pkv_engine_cancel(pkv_engine *engine, pkv_request_id request)
{
    if (!engine) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__inbox_cancel(engine->inbox, request);
    if (status == PKV_OK && engine->wake) engine->wake(engine->wake_ctx);
    return status;
}
