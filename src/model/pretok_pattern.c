/* A foreign expression is bounded three ways: its length, the steps and the depth of one match. The
 * subject is validated once, by finding the runs of whole characters; matching then need not do it
 * again, which would make splitting quadratic. */
#include "model/pretok_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <utf8proc.h>

#define PATTERN_BYTES_MAX 16384 /* published ones have less than 1,000 */
#define MATCH_STEPS_MAX 1000000
#define MATCH_DEPTH_MAX 10000
#define MATCH_HEAP_KIB 16384

struct pkv__pattern {
    pcre2_code *code;
    pcre2_match_context *limits;
};

static pkv_status compile(const pkv_tokenizer *t, const char *expression, size_t bytes,
                          pkv__pattern *p)
{
    int error;
    size_t at;
    /* \C would end words within characters, where no match may begin. */
    p->code = pcre2_compile((PCRE2_SPTR)expression, bytes,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, NULL);
    if (!p->code && error == PCRE2_ERROR_NOMEMORY) return PKV_E_NO_MEMORY;
    if (!p->code) {
        char why[80];
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof(why));
        return pkv__refuse(&t->log, PKV_E_FORMAT,
                           "%.64s: byte 0: the splitter's expression at %zu: %s", t->name, at, why);
    }
    p->limits = pcre2_match_context_create(NULL);
    if (!p->limits) return PKV_E_NO_MEMORY;
    pcre2_set_match_limit(p->limits, MATCH_STEPS_MAX);
    pcre2_set_depth_limit(p->limits, MATCH_DEPTH_MAX);
    pcre2_set_heap_limit(p->limits, MATCH_HEAP_KIB);
    return PKV_OK;
}

pkv_status pkv__pattern_create(const pkv_tokenizer *t, const char *expression, size_t bytes,
                               pkv__pattern **out)
{
    if (bytes > PATTERN_BYTES_MAX)
        return pkv__refuse(
            &t->log, PKV_E_FORMAT,
            "%.64s: byte 0: the splitter's expression has %zu bytes, at most %d are taken", t->name,
            bytes, PATTERN_BYTES_MAX);
    pkv__pattern *p = calloc(1, sizeof(*p));
    if (!p) return PKV_E_NO_MEMORY;
    const pkv_status status = compile(t, expression, bytes, p);
    if (status == PKV_OK) *out = p;
    else pkv__pattern_destroy(p);
    return status;
}

void pkv__pattern_destroy(pkv__pattern *p)
{
    if (!p) return;
    pcre2_code_free(p->code);
    pcre2_match_context_free(p->limits);
    free(p);
}

/* End of the run of whole characters, or of bytes that are none, that begins at `at`. */
static size_t run_end(const uint8_t *text, size_t n, size_t at, bool *valid)
{
    int32_t cp;
    at += pkv__utf8_next(text + at, n - at, &cp);
    *valid = cp >= 0;
    while (at < n) {
        const size_t step = pkv__utf8_next(text + at, n - at, &cp);
        if ((cp >= 0) != *valid) break;
        at += step;
    }
    return at;
}

static pkv_status words_of_run(const pkv__pattern *p, pcre2_match_data *match, pkv__tok_work *w,
                               const uint8_t *text, size_t n, pkv__word_fn fn)
{
    size_t done = 0;
    pkv_status status = PKV_OK;
    while (status == PKV_OK && done < n) {
        const int rc = pcre2_match(p->code, text, n, done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY,
                                   match, p->limits);
        if (rc == PCRE2_ERROR_NOMEMORY) return PKV_E_NO_MEMORY;
        if (rc < 0) break; /* no match, or too many steps */
        const size_t *span = pcre2_get_ovector_pointer(match);
        const size_t begin = span[0], end = span[1];
        if (begin < done || end <= begin) break; /* \K in a look-around */
        if (begin > done) status = fn(w, text + done, begin - done);
        if (status == PKV_OK) status = fn(w, text + begin, end - begin);
        done = end;
    }
    return status == PKV_OK && done < n ? fn(w, text + done, n - done) : status;
}

pkv_status pkv__pattern_words(const pkv__pattern *p, pkv__tok_work *w, const uint8_t *text,
                              size_t n, pkv__word_fn fn)
{
    pkv_status status = PKV_OK;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    if (!match) return PKV_E_NO_MEMORY;
    for (size_t at = 0, end; status == PKV_OK && at < n; at = end) {
        bool valid;
        end = run_end(text, n, at, &valid);
        status =
            valid ? words_of_run(p, match, w, text + at, end - at, fn) : fn(w, text + at, end - at);
    }
    pcre2_match_data_free(match);
    return status;
}

/* ---------------------------------------------------------------- normal forms */

static bool append(uint8_t **out, size_t *n, size_t *cap, const uint8_t *bytes, size_t more)
{
    if (*n + more > *cap) {
        const size_t want = 2 * (*n + more);
        uint8_t *grown = realloc(*out, want);
        if (!grown) return false;
        *out = grown;
        *cap = want;
    }
    if (more > 0) memcpy(*out + *n, bytes, more);
    *n += more;
    return true;
}

pkv_status pkv__normalise(pkv__normaliser form, const uint8_t *text, size_t n, uint8_t **out,
                          size_t *n_out)
{
    const utf8proc_option_t options = form == PKV__NORM_NFC
                                          ? UTF8PROC_STABLE | UTF8PROC_COMPOSE
                                          : UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    uint8_t *result = NULL;
    size_t cap = 0, m = 0;
    bool ok = true;
    for (size_t at = 0, end; ok && at < n; at = end) {
        bool valid;
        uint8_t *mapped = NULL;
        utf8proc_ssize_t got;
        end = run_end(text, n, at, &valid);
        if (valid) {
            got = utf8proc_map(text + at, (utf8proc_ssize_t)(end - at), &mapped, options);
            ok = got >= 0 && append(&result, &m, &cap, mapped, (size_t)got);
        } else {
            ok = append(&result, &m, &cap, text + at, end - at);
        }
        free(mapped);
    }
    if (!ok) {
        free(result);
        return PKV_E_NO_MEMORY;
    }
    *out = result;
    *n_out = m;
    return PKV_OK;
}
