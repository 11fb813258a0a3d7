/* pkv-info model: opens it, its tokenizer, and looks where they disagree. */
#include "pkv_info_model.h"

#include <stdlib.h>
#include <string.h>

#include "tool_tokenizer.h"

typedef struct asked {
    const char *path, *tokenizer, *splitter;
    pkv_dtype weights_dtype;
    bool selftest, json;
} asked;

/* ---------------------------------------------------------------- costs */

int32_t info_model_parts(const info_model_facts *m)
{
    return m->info.n_layers + 3;
}

info_part info_model_part(const info_model_facts *m, int32_t k)
{
    const pkv_model_info *i = &m->info;
    const int64_t h = i->hidden, q = (int64_t)i->n_heads * i->head_dim;
    const int64_t kv = (int64_t)i->n_kv_heads * i->head_dim,
                  element = i->weights_dtype == PKV_BF16 ? 2 : 4;
    info_part part = { .name = "embedding" };
    int64_t matrices = 0, norms = 0;
    if (k == 0) {
        part.parameters = i->vocab * h;
        part.bytes = part.parameters * element;
        return part;
    }
    if (k <= i->n_layers) {
        snprintf(part.name, sizeof(part.name), "layer %d", k - 1);
        matrices = 2 * (q + kv) * h + 3 * (int64_t)i->ffn * h;
        norms = 2 * h;
        part.flop_per_key = 4 * q;
        part.kv_bytes = m->kv_token_bytes;
    } else if (k == i->n_layers + 1) {
        snprintf(part.name, sizeof(part.name), "last norm");
        norms = h;
    } else {
        snprintf(part.name, sizeof(part.name), i->tied_head ? "head (embedding)" : "head");
        part.flop = 2 * i->vocab * h;
        if (i->tied_head) return part;
        matrices = i->vocab * h;
    }
    part.parameters = matrices + norms;
    part.bytes = matrices * element + norms * 4;
    part.flop = part.flop > 0 ? part.flop : 2 * matrices;
    return part;
}

info_part info_model_total(const info_model_facts *m)
{
    info_part total = { .name = "total" };
    for (int32_t k = 0; k < info_model_parts(m); k++) {
        const info_part p = info_model_part(m, k);
        total.parameters += p.parameters;
        total.bytes += p.bytes;
        total.flop += p.flop;
        total.flop_per_key += p.flop_per_key;
        total.kv_bytes += p.kv_bytes;
    }
    return total;
}

/* ---------------------------------------------------------------- the tokenizer */

static int open_tokenizer(const asked *a, info_model_facts *m)
{
    info_log log = { .n_notes = 0 };
    pkv_tokenizer_config cfg = PKV_TOKENIZER_CONFIG_INIT;
    char *own = a->tokenizer ? NULL : tool_tokenizer_place(m->path, m->info.format);
    cfg.path = a->tokenizer ? a->tokenizer : own;
    if (!cfg.path) return info_failed(&log, PKV_E_NO_MEMORY);
    cfg.splitter = a->splitter;
    cfg.vocab_size = m->info.vocab;
    cfg.log = info_logger(&log);
    const pkv_status status = pkv_tokenizer_open(&cfg, &m->tok);
    free(own);
    if (status == PKV_OK) {
        m->tok_info = (pkv_tokenizer_info)PKV_TOKENIZER_INFO_INIT;
        return pkv_tokenizer_get_info(m->tok, &m->tok_info) == PKV_OK ? INFO_OK : INFO_MODEL;
    }
    if (a->tokenizer) return info_failed(&log, status);
    snprintf(m->tok_missing, sizeof(m->tok_missing), "%s",
             log.error[0] ? log.error : pkv_status_text(status));
    return INFO_OK;
}

static bool ends_at(const pkv_model_info *i, int32_t id)
{
    for (int32_t k = 0; k < i->n_eos; k++)
        if (i->eos[k] == id) return true;
    return false;
}

/* Where model and tokenizer disagree, texts come out wrong or do not end. */
static void compare(info_model_facts *m)
{
    const pkv_model_info *i = &m->info;
    const pkv_tokenizer_info *t = &m->tok_info;
    if (i->n_eos == 0 && (!m->tok || t->eos < 0))
        info_note(&m->log, "no end-of-text id: texts end at their limit");
    if (!m->tok) return;
    if (t->n_ids > i->vocab)
        info_note(&m->log, "the tokenizer has %d ids, the model %d: those above it cannot be used",
                  t->n_ids, i->vocab);
    if (t->bos >= 0 && i->bos >= 0 && t->bos != i->bos)
        info_note(&m->log, "bos is %d for the tokenizer, %d for the model", t->bos, i->bos);
    if (t->eos >= 0 && i->n_eos > 0 && !ends_at(i, t->eos))
        info_note(&m->log, "the tokenizer's eos %d is none of the model's; both end a text",
                  t->eos);
}

/* ---------------------------------------------------------------- the verb */

static int open_model(const asked *a, info_model_facts *m)
{
    info_log quiet = { .n_notes = 0 }; /* what this reader warns of, opening has said */
    const pkv_logger log = info_logger(&m->log), none = info_logger(&quiet);
    pkv_kv_source source = PKV_KV_SOURCE_INIT;
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    cfg.path = m->path;
    cfg.weights_dtype = a->weights_dtype;
    cfg.log = log;
    pkv_status status = pkv_model_open(&cfg, &m->model);
    if (status != PKV_OK) return info_failed(&m->log, status);
    m->info = (pkv_model_info)PKV_MODEL_INFO_INIT;
    status = pkv_model_get_info(m->model, &m->info);
    if (status == PKV_OK) status = pkv_model_get_digest(m->model, m->digest);
    if (status != PKV_OK) return info_failed(&m->log, status);
    if (pkv_kv_source_read(m->path, &none, NULL, &source) == PKV_OK)
        memcpy(m->license, source.license, sizeof(m->license));
    return INFO_OK;
}

/* Of one layer; 0 where no block can have this shape. */
static double layer_kv_bytes(const info_model_facts *m)
{
    pkv_kv_geometry g = PKV_KV_GEOMETRY_INIT;
    pkv_kv_budget b = PKV_KV_BUDGET_INIT;
    pkv_kv_size size = PKV_KV_SIZE_INIT;
    g.n_layers = 1;
    g.n_kv_heads = m->info.n_kv_heads;
    g.head_dim = m->info.head_dim;
    g.dtype = m->kv_dtype;
    b.tokens = b.max_tokens = 1;
    const pkv_status status = pkv_kv_size_of(&g, &b, NULL, &size);
    return status == PKV_OK || status == PKV_E_NEVER ? size.bytes_per_token
                                                     : 0; /* no memory given */
}

static int run(const asked *a, info_model_facts *m)
{
    int status = open_model(a, m);
    if (status == INFO_OK) status = open_tokenizer(a, m);
    if (status == INFO_OK) {
        m->kv_token_bytes = layer_kv_bytes(m);
        compare(m);
        if (a->selftest) status = info_model_selftest(m);
    }
    if (status == INFO_OK) status = a->json ? info_model_json(m) : info_model_print(m);
    if (status == INFO_OK && m->test_equal < m->test_ids) {
        info_complain("self-test: id %d is %d, golden.json has %d", m->test_equal + 1, m->test_got,
                      m->test_want);
        status = INFO_MODEL;
    }
    pkv_tokenizer_close(m->tok);
    pkv_model_close(m->model);
    return status;
}

int info_model(int argc, char **argv)
{
    asked a = { .weights_dtype = PKV_F32 };
    info_model_facts m = { .kv_dtype = PKV_F16 };
    int n_places = 0;
    const info_option options[] = {
        { "--tokenizer", "-t", "PATH", INFO_TEXT, &a.tokenizer, 0, 0, NULL,
          "its tokenizer (default: of the .gguf, tok*.bin beside a .bin, else in the folder)" },
        { "--splitter", NULL, "NAME", INFO_TEXT, &a.splitter, 0, 0, NULL,
          "gpt2, llama3, qwen2 or none, where the tokenizer does not say" },
        { "--weights-dtype", NULL, "TYPE", INFO_DTYPE, &a.weights_dtype, 0, 0, NULL,
          "how matrices are kept: f32 (default) or bf16" },
        { "--kv-dtype", NULL, "TYPE", INFO_DTYPE, &m.kv_dtype, 0, 0, NULL,
          "type of K and V (default f16)" },
        { "--tensors", NULL, NULL, INFO_FLAG, &m.tensors, 0, 0, NULL,
          "also every tensor of the file" },
        { "--selftest", NULL, NULL, INFO_FLAG, &a.selftest, 0, 0, NULL,
          "compute the ids of the golden.json beside the model (\"greedy_ids\": the first is the "
          "prompt) once more; status 3 if they differ" },
        { "--json", NULL, NULL, INFO_FLAG, &a.json, 0, 0, NULL, "one JSON object" },
    };
    const info_verb verb = { "model PATH [OPTION...]",
                             "What a model is: dimensions, ids, licence, tokenizer, and for each "
                             "layer its parameters, bytes, FLOP and bytes of K and V per token. "
                             "PATH is a folder with config.json and weights, a .safetensors, .gguf "
                             "or llama2.c .bin.",
                             options,
                             sizeof(options) / sizeof(options[0]),
                             1,
                             "FLOP are those of the products; attention costs FLOP per key on top, "
                             "for every key that a token sees." };
    const info_parsed parsed = info_parse(&verb, argc, argv, &a.path, &n_places);
    if (parsed == INFO_HELPED) return info_finish_output();
    if (parsed == INFO_REFUSED) return INFO_USAGE;
    if (n_places == 0) {
        info_complain("which model? pkv-info model PATH");
        return INFO_USAGE;
    }
    m.path = a.path;
    return run(&a, &m);
}
