/* What can be said of a request: one table for the command line and for lines of a file. */
#include "generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(generate_request, field), sizeof(((generate_request *)0)->field)
#define MOST_TOKENS (1 << 30)
#define MOST_MS 1e12 /* 30 years, and still exact in ns */

/* clang-format off */
static const generate_field fields[] = {
    { "max_tokens", { "max_completion_tokens", "max_new_tokens" }, GENERATE_WHOLE, AT(req.max_new),
      1, MOST_TOKENS, false },
    { "n", { NULL }, GENERATE_WHOLE, AT(req.n), 1, 4096, false },
    { "beams", { "num_beams" }, GENERATE_WHOLE, AT(req.beams), 0, 16, false },
    { "length_penalty", { NULL }, GENERATE_REAL, AT(req.length_penalty), -100, 100, false },
    { "early_stopping", { NULL }, GENERATE_FLAG, AT(req.early_stopping), 0, 1, false },
    { "temperature", { NULL }, GENERATE_REAL, AT(req.sampling.temperature), 0, 1000, false },
    { "top_k", { NULL }, GENERATE_WHOLE, AT(req.sampling.top_k), 0, MOST_TOKENS, false },
    { "top_p", { NULL }, GENERATE_REAL, AT(req.sampling.top_p), 0, 1, true },
    { "min_p", { NULL }, GENERATE_REAL, AT(req.sampling.min_p), 0, 1, false },
    { "repeat_penalty", { "repetition_penalty" }, GENERATE_REAL, AT(req.sampling.repeat_penalty),
      0, 1000, true },
    { "presence_penalty", { NULL }, GENERATE_REAL, AT(req.sampling.presence_penalty), -1000, 1000, false },
    { "frequency_penalty", { NULL }, GENERATE_REAL, AT(req.sampling.frequency_penalty), -1000, 1000, false },
    { "seed", { NULL }, GENERATE_WHOLE, AT(req.sampling.seed), 0, 0x1p63, false },
    { "logprobs", { NULL }, GENERATE_WHOLE, AT(req.sampling.n_logprobs), 0, GENERATE_MAX_LOGPROBS, false },
    { "ignore_eos", { NULL }, GENERATE_FLAG, AT(req.ignore_eos), 0, 1, false },
    { "special", { "parse_special" }, GENERATE_FLAG, AT(req.parse_special), 0, 1, false },
    { "arrival_ms", { NULL }, GENERATE_REAL, AT(arrival_ms), 0, MOST_MS, false },
    { "deadline_ms", { NULL }, GENERATE_REAL, AT(deadline_ms), 0, MOST_MS, true },
};
/* clang-format on */
#define N_FIELDS ((int)(sizeof(fields) / sizeof(fields[0])))

static const char *name_of(const generate_field *f, int k)
{
    return k == 0 ? f->key : k <= 3 ? f->aliases[k - 1] : NULL;
}

const generate_field *generate_field_find(const char *key)
{
    for (int k = 0; k < N_FIELDS; k++)
        for (int a = 0; name_of(&fields[k], a); a++)
            if (strcmp(name_of(&fields[k], a), key) == 0) return &fields[k];
    return NULL;
}

const char *generate_field_name(int k)
{
    for (int f = 0; f < N_FIELDS; f++)
        for (int a = 0; name_of(&fields[f], a); a++)
            if (k-- == 0) return name_of(&fields[f], a);
    return NULL;
}

static bool in_range(const generate_field *f, double value)
{
    return isfinite(value) && value <= f->high && (f->above_low ? value > f->low : value >= f->low);
}

bool generate_field_set_whole(const generate_field *f, generate_request *r, int64_t value)
{
    if (!in_range(f, (double)value)) return false;
    void *to = (char *)r + f->at;
    if (f->bytes == sizeof(int64_t)) *(uint64_t *)to = (uint64_t)value;
    else *(int32_t *)to = (int32_t)value;
    return true;
}

bool generate_field_set_real(const generate_field *f, generate_request *r, double value)
{
    if (!in_range(f, value)) return false;
    void *to = (char *)r + f->at;
    if (f->bytes == sizeof(double)) {
        *(double *)to = value;
        return true;
    }
    /* what rounds to the bound that is left out is left out */
    if (f->above_low && (float)value <= (float)f->low) return false;
    *(float *)to = (float)value;
    return true;
}

void generate_field_set_flag(const generate_field *f, generate_request *r, bool value)
{
    *(bool *)((char *)r + f->at) = value;
}

void generate_field_range(const generate_field *f, char *out, size_t cap)
{
    if (f->kind == GENERATE_FLAG) snprintf(out, cap, "true or false");
    else if (f->high >= 0x1p63)
        snprintf(out, cap, "a whole number from 0 to %lld", (long long)INT64_MAX);
    else if (f->kind == GENERATE_WHOLE)
        snprintf(out, cap, "a whole number from %.0f to %.0f", f->low, f->high);
    else if (f->above_low) snprintf(out, cap, "a number above %g, at most %g", f->low, f->high);
    else snprintf(out, cap, "a number from %g to %g", f->low, f->high);
}

/* ---------------------------------------------------------------- lists */

const char *generate_add_stop(generate_request *r, const char *text, size_t n)
{
    if (n == 0) return "a stop text is empty";
    if (n > GENERATE_MAX_STOP_BYTES) return "a stop text is longer than 256 bytes";
    if (memchr(text, 0, n)) return "a stop text with a zero byte";
    if (!generate_is_utf8(text, n)) return "a stop text is not UTF-8";
    if (r->n_stops == GENERATE_MAX_STOPS) return "more than 16 stop texts";
    r->stops[r->n_stops] = strndup(text, n);
    if (!r->stops[r->n_stops]) return "out of memory";
    r->n_stops++;
    return NULL;
}

const char *generate_add_stop_id(generate_request *r, int64_t id)
{
    if (id < 0 || id > INT32_MAX) return "not a token id";
    if (r->n_stop_ids == GENERATE_MAX_STOP_IDS) return "more than 64 stop ids";
    r->stop_ids[r->n_stop_ids++] = (int32_t)id;
    return NULL;
}

static const char *check_llama2(const generate_request *r)
{
    const pkv_sampling *s = &r->req.sampling;
    if (s->top_k > 0 || s->min_p > 0)
        return "xorshift-llama2 goes with temperature and top_p: leave top_k and min_p out";
    if (r->req.n > 1) return "xorshift-llama2 is one stream of draws: n is 1 with it";
    return s->seed == 0 ? "xorshift-llama2 needs a seed of 1 or more" : NULL;
}

const char *generate_request_check(const generate_request *r)
{
    const pkv_sampling *s = &r->req.sampling;
    if (r->req.beams < 2) return s->xorshift_llama2 ? check_llama2(r) : NULL;
    if (r->req.n > r->req.beams)
        return "n is above the number of beams, and only so many can be returned";
    if (s->temperature > 0 || s->top_k > 0 || s->top_p < 1 || s->min_p > 0 || s->xorshift_llama2)
        return "beams draw nothing: leave temperature, top_k, top_p, min_p and the generator out";
    if (s->repeat_penalty != 1 || s->presence_penalty != 0 || s->frequency_penalty != 0)
        return "beams take no penalties for repetition; logit_bias they do";
    if (s->n_logprobs >= 0) return "beams have a score and no logprobs";
    if (r->n_stops > 0) return "beams end at stop ids; stop texts they do not know";
    return NULL;
}

/* ---------------------------------------------------------------- memory */

static void answer_free(generate_answer *a)
{
    for (int32_t k = 0; k < a->n_samples; k++) {
        generate_sample *s = &a->samples[k];
        for (int32_t t = 0; t < s->n_tokens; t++) free(s->tokens[t].top);
        free(s->tokens);
        free(s->text);
    }
    free(a->samples);
    free(a->reason);
}

void generate_request_free(generate_request *r)
{
    json_decref(r->id);
    free(r->text);
    free(r->ids);
    free(r->bias);
    for (int32_t k = 0; k < r->n_stops; k++) free(r->stops[k]);
    answer_free(&r->answer);
    *r = (generate_request){ 0 };
}

void generate_requests_free(generate_requests *rs)
{
    for (int32_t k = 0; k < rs->n; k++) generate_request_free(&rs->list[k]);
    free(rs->list);
    *rs = (generate_requests){ 0 };
}

bool generate_request_copy(const generate_request *from, generate_request *out)
{
    *out = *from;
    out->id = NULL;
    out->text = NULL;
    out->ids = NULL;
    out->n_ids = 0;
    out->n_text = 0;
    out->bias = NULL; /* the command line has none */
    out->n_bias = 0;
    out->n_stops = 0;
    out->answer = (generate_answer){ 0 };
    for (; out->n_stops < from->n_stops; out->n_stops++) {
        out->stops[out->n_stops] = strdup(from->stops[out->n_stops]);
        if (out->stops[out->n_stops]) continue;
        generate_request_free(out);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- names */

/* Letters to insert, drop or replace; `cap` and above count as cap. */
static int distance(const char *a, const char *b, int cap)
{
    int row[33];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > 32 || m > 32) return cap;
    for (int j = 0; j <= m; j++) row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            const int replace = diagonal + (a[i - 1] != b[j - 1]);
            const int edit = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = replace < edit ? replace : edit;
        }
    }
    return row[m] < cap ? row[m] : cap;
}

const char *generate_nearest(const char *name, const char *(*next)(int k))
{
    const int cap = 1 + (int)strlen(name) / 2; /* more is another word */
    int best = cap < 4 ? cap : 4;
    const char *nearest = NULL, *candidate;
    for (int k = 0; (candidate = next(k)); k++) {
        const int d = distance(name, candidate, best);
        if (d >= best) continue;
        best = d;
        nearest = candidate;
    }
    return nearest;
}

bool generate_is_utf8(const char *text, size_t n)
{
    json_t *string = json_stringn(text, n);
    json_decref(string);
    return string != NULL;
}
