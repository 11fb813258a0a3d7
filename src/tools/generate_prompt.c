/* Prompts become token ids: the tokenizer of a model, found beside it or named, and what only the
 * model can judge. */
#include "generate.h"
#include "tool_tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- tokenizer */

int generate_tokenizer_open(const generate_options *o, const pkv_model_info *info, bool needed,
                            pkv_tokenizer **out)
{
    *out = NULL;
    const bool none = o->tokenizer && strcmp(o->tokenizer, "none") == 0;
    if (none && !needed) return GENERATE_OK;
    if (none) {
        generate_complain("--tokenizer none: texts need one; give --ids and no --stop");
        return GENERATE_USAGE;
    }
    generate_log log = { "" };
    char *place =
        o->tokenizer ? strdup(o->tokenizer) : tool_tokenizer_place(o->model, info->format);
    if (!place) {
        generate_complain("out of memory");
        return GENERATE_IO;
    }
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    cfg.path = place;
    cfg.splitter = o->splitter;
    cfg.vocab_size = info->vocab;
    cfg.log = generate_logger(&log);
    const pkv_status status = pkv_tokenizer_open(&cfg, out);
    free(place);
    if (status == PKV_OK) return GENERATE_OK;
    if (!needed && !o->tokenizer && status != PKV_E_NO_MEMORY) {
        if (status != PKV_E_IO)
            generate_complain("warning: %s: ids only", generate_why(&log, status));
        return GENERATE_OK;
    }
    generate_complain("%s%s", generate_why(&log, status),
                      o->tokenizer ? "" : " (the tokenizer; another one: -t PATH)");
    return status == PKV_E_NO_MEMORY ? GENERATE_IO : GENERATE_MODEL;
}

/* ---------------------------------------------------------------- ids */

/* "FILE:LINE:COLUMN: ", or the option that gave it. */
static void complain_of(const generate_options *o, const generate_request *r, int32_t column,
                        const char *option, const char *what)
{
    if (r->line == 0 || column == 0) {
        generate_complain("%s: %s", option, what);
        return;
    }
    generate_complain("%s:%lld:%d: %s", strcmp(o->requests, "-") == 0 ? "stdin" : o->requests,
                      (long long)r->line, column, what);
}

static int encode(const generate_options *o, const pkv_tokenizer *tok, generate_request *r)
{
    const char *option = o->prompt_file ? "--file" : "--prompt";
    const unsigned flags = PKV_TOK_ADD_SPECIAL | (r->req.parse_special ? PKV_TOK_PARSE_SPECIAL : 0);
    int32_t cap = 0;
    pkv_status status = r->n_text > INT32_MAX / 2 ? PKV_E_LIMIT : PKV_OK;
    if (status == PKV_OK)
        status = pkv_tokenizer_encode(tok, r->text, r->n_text, flags, NULL, 0, &cap);
    if (status == PKV_E_LIMIT && cap > 0) { /* now it is known how many there are */
        r->ids = malloc((size_t)cap * sizeof(*r->ids));
        status = r->ids
                     ? pkv_tokenizer_encode(tok, r->text, r->n_text, flags, r->ids, cap, &r->n_ids)
                     : PKV_E_NO_MEMORY;
    }
    if (status != PKV_OK) {
        generate_complain("%s: the prompt cannot be encoded: %s", option, pkv_status_text(status));
        return GENERATE_IO;
    }
    if (r->n_ids > 0) return GENERATE_OK;
    complain_of(o, r, 1, option,
                "the prompt is empty, and this tokenizer puts nothing in front of it; give a text");
    return GENERATE_USAGE;
}

static bool in_vocab(const int32_t *ids, int32_t n, int32_t vocab, char *what, size_t cap)
{
    for (int32_t k = 0; k < n; k++) {
        if (ids[k] < vocab) continue;
        snprintf(what, cap, "token id %d: the model has 0 to %d", ids[k], vocab - 1);
        return false;
    }
    return true;
}

static int check_ids(const generate_options *o, const pkv_model_info *info,
                     const generate_request *r)
{
    char what[160];
    if (!in_vocab(r->ids, r->n_ids, info->vocab, what, sizeof(what))) {
        if (r->text) {
            generate_complain("the tokenizer gives %s; it is not this model's, name it with -t",
                              what);
            return GENERATE_MODEL;
        }
        complain_of(o, r, r->ids_column, "--ids", what);
        return GENERATE_USAGE;
    }
    if (!in_vocab(r->stop_ids, r->n_stop_ids, info->vocab, what, sizeof(what))) {
        complain_of(o, r, r->stop_ids_column, "--stop-id", what);
        return GENERATE_USAGE;
    }
    for (int32_t k = 0; k < r->n_bias; k++) {
        if (in_vocab(&r->bias[k].id, 1, info->vocab, what, sizeof(what))) continue;
        complain_of(o, r, r->bias_column, "logit_bias", what);
        return GENERATE_USAGE;
    }
    return GENERATE_OK;
}

int generate_prompts_encode(const generate_options *o, const pkv_model_info *info,
                            const pkv_tokenizer *tok, generate_requests *rs)
{
    int code = GENERATE_OK;
    for (int32_t k = 0; k < rs->n && code == GENERATE_OK; k++) {
        generate_request *r = &rs->list[k];
        if (r->text) code = encode(o, tok, r);
        if (code == GENERATE_OK) code = check_ids(o, info, r);
    }
    return code;
}
