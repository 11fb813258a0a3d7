/* What a request may be. Every refusal is one line that names the field, says what is wrong with it
 * and what would help. */
#include "model/engine_internal.h"
#include "model/tok_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define INVALID(e, ...) pkv__refuse(&(e)->log, PKV_E_INVALID_ARG, "submit: " __VA_ARGS__)

int32_t pkv__request_branches(const pkv_request *r)
{
    return r->beams > 1 ? r->beams : pkv__max_i32(r->n, 1);
}

int32_t pkv__request_max_new(const pkv_engine *e, int32_t n_prompt, int32_t max_new)
{
    return pkv__min_i32(max_new, e->max_context - n_prompt);
}

/* ---------------------------------------------------------------- fields */

static pkv_status check_prompt_source(const pkv_engine *e, const pkv_request *r)
{
    if (r->text && (r->ids || r->n_ids != 0)) return INVALID(e, "both text and ids; give one");
    if (r->text) {
        if (!e->tokenizer)
            return INVALID(e, "text, but the engine has no tokenizer; give ids, or create the "
                              "engine with one");
        return PKV_OK;
    }
    if (!r->ids || r->n_ids < 1)
        return INVALID(e, "no prompt: n_ids is %d; give at least one id, or text", r->n_ids);
    return PKV_OK;
}

static pkv_status check_beams(const pkv_engine *e, const pkv_request *r)
{
    static const pkv_sampling plain = PKV_SAMPLING_INIT;
    const pkv_sampling *s = &r->sampling;
    if (!isfinite(r->length_penalty)) return INVALID(e, "length_penalty is not finite");
    if (r->beams < 0 || r->beams > PKV__MAX_BEAMS)
        return INVALID(e, "beams is %d; 0 or 1 (none) to %d", r->beams, PKV__MAX_BEAMS);
    if (r->beams <= 1) return PKV_OK;
    if (r->n > r->beams)
        return INVALID(e, "n is %d with %d beams; no more than there are beams can be returned",
                       r->n, r->beams);
    if (s->temperature != plain.temperature || s->top_k != plain.top_k || s->top_p != plain.top_p ||
        s->min_p != plain.min_p || s->repeat_penalty != plain.repeat_penalty ||
        s->presence_penalty != plain.presence_penalty ||
        s->frequency_penalty != plain.frequency_penalty || s->xorshift_llama2)
        return INVALID(e, "beams take no temperature, cuts, penalties or generator; leave them as "
                          "in PKV_SAMPLING_INIT");
    if (s->n_logprobs >= 0) return INVALID(e, "beams report a score and no logprobs");
    if (r->n_stop_texts > 0)
        return INVALID(e, "beams end at stop ids; stop texts they do not know");
    return PKV_OK;
}

/* The place of the first byte that begins no character; n: there is none. */
static size_t first_not_utf8(const char *text, size_t n)
{
    size_t at = 0;
    while (at < n) {
        int32_t cp;
        const size_t step = pkv__utf8_next((const uint8_t *)text + at, n - at, &cp);
        if (cp < 0) break;
        at += step;
    }
    return at;
}

static pkv_status check_stops(const pkv_engine *e, const pkv_request *r)
{
    const int32_t vocab = e->weights->config.vocab;
    if (r->n_stop_ids < 0 || r->n_stop_ids > 64 || (r->n_stop_ids > 0 && !r->stop_ids))
        return INVALID(e, "n_stop_ids is %d; 0 to 64, with an array", r->n_stop_ids);
    for (int32_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] < 0 || r->stop_ids[i] >= vocab)
            return INVALID(e, "stop id %d is outside the vocabulary of %d", r->stop_ids[i], vocab);
    if (r->n_stop_texts < 0 || r->n_stop_texts > PKV__MAX_STOP_TEXTS ||
        (r->n_stop_texts > 0 && !r->stop_texts))
        return INVALID(e, "n_stop_texts is %d; 0 to %d, with an array", r->n_stop_texts,
                       PKV__MAX_STOP_TEXTS);
    if (r->n_stop_texts > 0 && !e->tokenizer)
        return INVALID(e, "stop texts need a tokenizer; give stop ids, or create the engine with "
                          "one");
    for (int32_t i = 0; i < r->n_stop_texts; i++) {
        const size_t n = r->stop_texts[i] ? strnlen(r->stop_texts[i], PKV__MAX_STOP_BYTES + 1) : 0;
        if (n < 1 || n > PKV__MAX_STOP_BYTES)
            return INVALID(e, "stop text %d is %s; 1 to %d bytes", i, n < 1 ? "empty" : "too long",
                           PKV__MAX_STOP_BYTES);
        const size_t bad = first_not_utf8(r->stop_texts[i], n);
        if (bad < n)
            return INVALID(e,
                           "stop text %d is not UTF-8 from byte %zu on; pieces of text end only "
                           "between characters",
                           i, bad);
    }
    return PKV_OK;
}

pkv_status pkv__request_check(const pkv_engine *e, const pkv_request *r)
{
    if (r->struct_size != sizeof(*r) || r->sampling.struct_size != sizeof(r->sampling))
        return pkv__refuse(&e->log, PKV_E_ABI,
                           "submit: struct_size %u and %u are not those of "
                           "this library; begin with PKV_REQUEST_INIT",
                           r->struct_size, r->sampling.struct_size);
    pkv_status status = check_prompt_source(e, r);
    if (status != PKV_OK) return status;
    if (r->max_new < 1) return INVALID(e, "max_new is %d; at least 1", r->max_new);
    if (r->n < 0) return INVALID(e, "n is %d; at least 1 sample", r->n);
    if (r->n > 1 && r->beams <= 1 && r->sampling.xorshift_llama2)
        return INVALID(e, "n is %d with xorshift_llama2, whose draws are one stream; 1 sample",
                       r->n);
    status = check_beams(e, r);
    if (status == PKV_OK) status = check_stops(e, r);
    if (status != PKV_OK) return status;
    return pkv__sampling_check(&r->sampling, e->weights->config.vocab, &e->log);
}

/* ---------------------------------------------------------------- size */

static bool fits(const pkv_engine *e, int32_t n_prompt, int32_t max_new, int32_t n,
                 int64_t *n_blocks)
{
    return e->place->ops->fits(e->place, n_prompt, max_new, n, n_blocks) == PKV_OK;
}

/* The largest x in [0, bad) that fits; `bad` does not. */
static int32_t largest_that_fits(const pkv_engine *e, int32_t n_prompt, int32_t max_new, int32_t n,
                                 bool vary_n)
{
    int32_t good = 0, bad = vary_n ? n : max_new;
    while (bad - good > 1) {
        const int32_t x = good + (bad - good) / 2;
        if (fits(e, n_prompt, vary_n ? max_new : x, vary_n ? x : n, NULL)) good = x;
        else bad = x;
    }
    return good;
}

/* "kv_bytes at least 12345, or max_new at most 10, or n at most 2" */
static void say_never(const pkv_engine *e, const pkv_request *r, int32_t n_prompt, int32_t max_new,
                      int64_t n_blocks)
{
    const int32_t n = pkv__request_branches(r);
    const int32_t less_new = largest_that_fits(e, n_prompt, max_new, n, false);
    const int32_t less_n = largest_that_fits(e, n_prompt, max_new, n, true);
    const unsigned long long bytes =
        (unsigned long long)(n_blocks + 1) * (unsigned long long)e->place->block_bytes;
    char shorter[48] = "", fewer[48] = "";
    if (less_new > 0) snprintf(shorter, sizeof(shorter), ", or max_new at most %d", less_new);
    if (less_n > 0)
        snprintf(fewer, sizeof(fewer), ", or %s at most %d", r->beams > 1 ? "beams" : "n", less_n);
    pkv__log(&e->log, PKV_LOG_ERROR,
             "submit: %d tokens and up to %d more in %d sequence%s need %lld blocks, the pool has "
             "%d; kv_bytes at least %llu%s%s would help",
             n_prompt, max_new, n, n == 1 ? "" : "s", (long long)n_blocks, e->n_blocks, bytes,
             shorter, fewer);
}

pkv_status pkv__request_check_prompt(const pkv_engine *e, const pkv_request *r, const int32_t *ids,
                                     int32_t n_prompt)
{
    const int32_t vocab = e->weights->config.vocab, n = pkv__request_branches(r);
    int64_t n_blocks = 0;
    if (n_prompt < 1) return INVALID(e, "the text gives no token");
    for (int32_t i = 0; i < n_prompt; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return INVALID(e, "id %d of the prompt is %d, outside the vocabulary of %d", i, ids[i],
                           vocab);
    if (n_prompt >= e->max_context)
        return pkv__refuse(&e->log, PKV_E_NEVER,
                           "submit: the prompt has %d tokens, max_context is %d and one has to be "
                           "left for output; shorten it",
                           n_prompt, e->max_context);
    if (n > e->max_seqs)
        return pkv__refuse(&e->log, PKV_E_NEVER,
                           "submit: %d sequences at a time, max_seqs is %d; max_seqs at least %d, "
                           "or %s at most %d would help",
                           n, e->max_seqs, n, r->beams > 1 ? "beams" : "n", e->max_seqs);
    const int32_t max_new = pkv__request_max_new(e, n_prompt, r->max_new);
    if (fits(e, n_prompt, max_new, n, &n_blocks)) return PKV_OK;
    say_never(e, r, n_prompt, max_new, n_blocks);
    return PKV_E_NEVER;
}
