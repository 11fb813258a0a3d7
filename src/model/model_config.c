/* Where a configuration comes from, and the rules that hold for all of them. */
#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_JSON_BYTES ((size_t)16 << 20)

void pkv__config_init(pkv__model_config *c)
{
    memset(c, 0, sizeof(*c));
    c->norm_eps = 1e-6; /* of Hugging Face's LlamaConfig */
    c->bos = -1;
    c->rope.theta = 10000;
    c->rope.factor = 1;
    c->rope.low_freq_factor = 1;
    c->rope.high_freq_factor = 4;
    c->rope.beta_fast = 32;
    c->rope.beta_slow = 1;
}

pkv_status pkv__config_int(const pkv_logger *log, const char *name, int64_t value, int64_t max,
                           int32_t *out)
{
    if (value < 1 || value > max)
        return pkv__refuse(log, PKV_E_FORMAT, "%s is %lld, not from 1 to %lld", name,
                           (long long)value, (long long)max);
    *out = (int32_t)value;
    return PKV_OK;
}

pkv_status pkv__config_add_eos(pkv__model_config *c, int64_t id, const pkv_logger *log)
{
    int32_t k = 0;
    if (id < 0 || id >= c->vocab)
        return pkv__refuse(log, PKV_E_FORMAT, "end-of-text id %lld is outside the vocabulary of %d",
                           (long long)id, c->vocab);
    while (k < c->n_eos && c->eos[k] < id) k++;
    if (k < c->n_eos && c->eos[k] == id) return PKV_OK;
    if (c->n_eos == PKV__MAX_EOS)
        return pkv__refuse(log, PKV_E_LIMIT, "more than %d end-of-text ids", PKV__MAX_EOS);
    memmove(c->eos + k + 1, c->eos + k, (size_t)(c->n_eos - k) * sizeof(c->eos[0]));
    c->eos[k] = (int32_t)id;
    c->n_eos++;
    return PKV_OK;
}

/* ---------------------------------------------------------------- rules */

static bool within(double v, double low, double high)
{
    return v >= low && v <= high; /* false for NaN */
}

static bool factors_good(const double *list, int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        if (!within(list[k], 1e-6, 1e6)) return false;
    return true;
}

static pkv_status check_rope(const pkv__model_config *c, const pkv_logger *log)
{
    const pkv__rope_config *r = &c->rope;
    const char *bad = NULL;
    const bool lists = r->kind == PKV__ROPE_LONGROPE;
    if (r->rotary_dim < 2 || r->rotary_dim > c->head_dim || r->rotary_dim % 2 != 0)
        bad = "rotary dimension: even, from 2 to head_dim";
    else if (!within(r->theta, 1, 1e12)) bad = "rope_theta: from 1 to 1e12";
    else if (!within(r->factor, 1, 1e6)) bad = "rope factor: from 1 to 1e6";
    else if (r->kind == PKV__ROPE_LLAMA3 &&
             !(within(r->low_freq_factor, 1e-6, 1e6) && within(r->high_freq_factor, 1e-6, 1e6) &&
               r->low_freq_factor < r->high_freq_factor))
        bad = "low_freq_factor, high_freq_factor: above 0 and ascending";
    else if (r->kind == PKV__ROPE_YARN &&
             !(within(r->beta_fast, 1e-6, 1e6) && within(r->beta_slow, 1e-6, 1e6) &&
               r->beta_slow < r->beta_fast))
        bad = "beta_slow, beta_fast: above 0 and ascending";
    else if (!within(r->attention_factor, 0, 1e3) || !within(r->mscale, 0, 1e3) ||
             !within(r->mscale_all_dim, 0, 1e3))
        bad = "attention_factor, mscale, mscale_all_dim: from 0 to 1000";
    else if (r->original_context < 1 || r->original_context > PKV__MAX_CONTEXT)
        bad = "original_max_position_embeddings: from 1 on";
    else if (lists && (r->n_short != r->rotary_dim / 2 || r->n_long != r->rotary_dim / 2))
        bad = "short_factor, long_factor: one number for each pair";
    else if (lists && !(factors_good(r->short_factor, r->n_short) &&
                        factors_good(r->long_factor, r->n_long)))
        bad = "short_factor, long_factor: numbers above 0";
    return bad ? pkv__refuse(log, PKV_E_FORMAT, "%s", bad) : PKV_OK;
}

pkv_status pkv__config_check(const pkv__model_config *c, const pkv_logger *log)
{
    if (c->n_heads % c->n_kv_heads != 0)
        return pkv__refuse(log, PKV_E_FORMAT, "%d heads are no multiple of %d kv heads", c->n_heads,
                           c->n_kv_heads);
    if ((int64_t)c->n_heads * c->head_dim > PKV__MAX_PROJECTED)
        return pkv__refuse(log, PKV_E_FORMAT, "%d heads of %d are more than %d", c->n_heads,
                           c->head_dim, PKV__MAX_PROJECTED);
    if (!within(c->norm_eps, 1e-30, 1))
        return pkv__refuse(log, PKV_E_FORMAT, "epsilon of the norms is %g, not from 1e-30 to 1",
                           c->norm_eps);
    if (c->bos < -1 || c->bos >= c->vocab)
        return pkv__refuse(log, PKV_E_FORMAT, "bos id %d is outside the vocabulary of %d", c->bos,
                           c->vocab);
    return check_rope(c, log);
}

/* ---------------------------------------------------------------- llama2.c */

static int64_t header_int(const pkv__tensor_file *file, const char *key)
{
    const pkv__meta *m = pkv__tensor_file_meta(file, key);
    return m ? m->i : 0;
}

/* The header has no ids: the vocabulary that comes with these files is of SentencePiece, with 1 for
 * the beginning and 2 for the end; both end a text, since that of run.c ends where the model begins
 * another one. No epsilon and no theta either: those of run.c. */
pkv_status pkv__config_from_llama2c(const pkv__tensor_file *file, const pkv_logger *log,
                                    pkv__model_config *out)
{
    pkv__model_config c;
    pkv__config_init(&c);
    const struct {
        const char *key;
        int32_t max, *out;
    } fields[] = {
        { "llama2c.dim", PKV__MAX_HIDDEN, &c.hidden },
        { "llama2c.hidden_dim", PKV__MAX_FFN, &c.ffn },
        { "llama2c.n_layers", PKV__MAX_LAYERS, &c.n_layers },
        { "llama2c.n_heads", PKV__MAX_HEADS, &c.n_heads },
        { "llama2c.n_kv_heads", PKV__MAX_HEADS, &c.n_kv_heads },
        { "llama2c.vocab_size", PKV__MAX_VOCAB, &c.vocab },
        { "llama2c.seq_len", PKV__MAX_CONTEXT, &c.context },
    };
    pkv_status status = PKV_OK;
    for (size_t k = 0; k < PKV_ARRAY_LEN(fields) && status == PKV_OK; k++)
        status = pkv__config_int(log, fields[k].key, header_int(file, fields[k].key), fields[k].max,
                                 fields[k].out);
    if (status != PKV_OK) return status;
    status = pkv__config_int(log, "head_dim", c.hidden / c.n_heads, PKV__MAX_HEAD_DIM, &c.head_dim);
    if (status != PKV_OK) return status;
    memcpy(c.architecture, "llama", sizeof("llama"));
    c.norm_eps = 1e-5;
    c.tied_head = header_int(file, "llama2c.tied") != 0;
    c.interleaved_pairs = true;
    c.rope.rotary_dim = c.head_dim;
    c.rope.original_context = c.context;
    c.bos = c.vocab > 1 ? 1 : -1;
    for (int64_t id = 1; id <= 2 && id < c.vocab && status == PKV_OK; id++)
        status = pkv__config_add_eos(&c, id, log);
    if (status == PKV_OK) status = pkv__config_check(&c, log);
    if (status == PKV_OK) *out = c;
    return status;
}

/* ---------------------------------------------------------------- config.json */

pkv_status pkv__config_file(const char *path, const char *name, bool may_miss,
                            const pkv_logger *log, const pkv_allocator *alloc, pkv__file_map *out)
{
    struct stat info;
    size_t bytes;
    const bool is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    char *full = pkv__path_join(alloc, path, is_folder, name, &bytes);
    if (!full) return PKV_E_NO_MEMORY;
    pkv_status status = PKV_OK;
    if (!may_miss || access(full, F_OK) == 0)
        status = pkv__file_map_open(full, true, MAX_JSON_BYTES, log, alloc, out);
    pkv__free(alloc, full, bytes);
    return status;
}

static pkv_status read_json(const char *path, const pkv_logger *log, const pkv_allocator *alloc,
                            pkv__model_config *out)
{
    pkv__file_map config = { 0 }, generation = { 0 };
    pkv_status status = pkv__config_file(path, "config.json", false, log, alloc, &config);
    if (status == PKV_OK)
        status = pkv__config_file(path, "generation_config.json", true, log, alloc, &generation);
    if (status == PKV_OK)
        status = pkv__config_parse_json((const char *)config.data, config.bytes,
                                        (const char *)generation.data, generation.bytes, log, out);
    pkv__file_map_close(&config, alloc);
    pkv__file_map_close(&generation, alloc);
    return status;
}

pkv_status pkv__model_config_read(const char *path, const pkv__tensor_file *file,
                                  const pkv_logger *log, const pkv_allocator *alloc,
                                  pkv__model_config *out)
{
    if (!path || !out || !pkv__allocator_valid(alloc)) return PKV_E_INVALID_ARG;
    const char *format = file ? pkv__tensor_file_format(file) : "safetensors";
    if (strcmp(format, "gguf") == 0) return pkv__config_from_gguf(file, log, out);
    if (strcmp(format, "llama2.c") == 0) return pkv__config_from_llama2c(file, log, out);
    return read_json(path, log, alloc, out);
}
