/* The handle: weights and configuration from one path, or drawn from a seed; what can be asked
 * about them; and the digest that names them.
 *
 *   path --tensor_file--> tensors --model_config--> dimensions --weights--> slots
 *
 * Nothing changes after opening but the digest, which reads every byte of the file and is therefore
 * computed when somebody first asks, by one thread, behind a mutex. */
#include "model/model_handle.h"

#include "common/sha256.h"
#include "model/model_config_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct model_digest {
    pthread_mutex_t mutex;
    bool known;
    uint8_t bytes[32];
} model_digest;

struct pkv_model {
    pkv__weights weights; /* weights.file: NULL with random weights */
    uint64_t seed;        /* of random weights */
    pkv_dtype dtype;
    model_digest *digest; /* of its own, since a model that is asked is const */
    pkv_allocator alloc;
};

const pkv__weights *pkv__model_weights(const pkv_model *model)
{
    return &model->weights;
}

/* ---------------------------------------------------------------- opening */

static pkv_status create(const pkv_allocator *alloc, pkv_dtype dtype, pkv_model **out)
{
    pkv_model *model = pkv__alloc(alloc, sizeof(*model), sizeof(void *));
    if (!model) return PKV_E_NO_MEMORY;
    memset(model, 0, sizeof(*model));
    if (alloc) model->alloc = *alloc;
    model->dtype = dtype;
    model->digest = pkv__alloc(alloc, sizeof(*model->digest), sizeof(void *));
    if (!model->digest) goto fail;
    memset(model->digest, 0, sizeof(*model->digest));
    if (pthread_mutex_init(&model->digest->mutex, NULL) != 0) goto fail_digest;
    *out = model;
    return PKV_OK;

fail_digest:
    pkv__free(alloc, model->digest, sizeof(*model->digest));
fail:
    pkv__free(alloc, model, sizeof(*model));
    return PKV_E_NO_MEMORY;
}

void pkv_model_close(pkv_model *model)
{
    if (!model) return;
    const pkv_allocator alloc = model->alloc;
    pkv__weights_free(&model->weights);
    pthread_mutex_destroy(&model->digest->mutex);
    pkv__free(&alloc, model->digest, sizeof(*model->digest));
    pkv__free(&alloc, model, sizeof(*model));
}

static pkv_status load(const pkv_model_config *cfg, pkv__weights *out)
{
    const pkv__tensor_file_config file_cfg = { .path = cfg->path,
                                               .log = cfg->log,
                                               .alloc = cfg->alloc };
    pkv__tensor_file *file = NULL;
    pkv__model_config config;
    pkv_status status = pkv__tensor_file_open(&file_cfg, &file);
    if (status != PKV_OK) return status;
    status = pkv__model_config_read(cfg->path, file, &cfg->log, &cfg->alloc, &config);
    if (status == PKV_OK)
        status = pkv__weights_load(&config, file, cfg->weights_dtype, &cfg->log, &cfg->alloc, out);
    if (status != PKV_OK) pkv__tensor_file_close(file);
    return status;
}

static bool dtype_kept(pkv_dtype dtype)
{
    return dtype == PKV_F32 || dtype == PKV_BF16;
}

pkv_status pkv_model_open(const pkv_model_config *cfg, pkv_model **out)
{
    pkv_model *model;
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    if (!cfg->path || !pkv__allocator_valid(&cfg->alloc)) return PKV_E_INVALID_ARG;
    if (!dtype_kept(cfg->weights_dtype))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "weights are kept as f32 or bf16, not %s",
                           pkv_dtype_name(cfg->weights_dtype));
    pkv_status status = create(&cfg->alloc, cfg->weights_dtype, &model);
    if (status != PKV_OK) return status;
    status = load(cfg, &model->weights);
    if (status == PKV_OK) *out = model;
    else pkv_model_close(model);
    return status;
}

/* ---------------------------------------------------------------- random weights */

static pkv_status take_shape(const pkv_model_shape *shape, const pkv_logger *log,
                             pkv__model_config *c)
{
    const struct {
        const char *name;
        int32_t value, max, *out;
    } fields[] = {
        { "vocab", shape->vocab, PKV__MAX_VOCAB, &c->vocab },
        { "hidden", shape->hidden, PKV__MAX_HIDDEN, &c->hidden },
        { "n_layers", shape->n_layers, PKV__MAX_LAYERS, &c->n_layers },
        { "n_heads", shape->n_heads, PKV__MAX_HEADS, &c->n_heads },
        { "n_kv_heads", shape->n_kv_heads, PKV__MAX_HEADS, &c->n_kv_heads },
        { "head_dim", shape->head_dim, PKV__MAX_HEAD_DIM, &c->head_dim },
        { "ffn", shape->ffn, PKV__MAX_FFN, &c->ffn },
        { "context", shape->context, PKV__MAX_CONTEXT, &c->context },
    };
    pkv__config_init(c);
    for (size_t k = 0; k < PKV_ARRAY_LEN(fields); k++)
        if (pkv__config_int(log, fields[k].name, fields[k].value, fields[k].max, fields[k].out) !=
            PKV_OK)
            return PKV_E_INVALID_ARG;
    snprintf(c->architecture, sizeof(c->architecture), "llama");
    c->norm_eps = 1e-5;
    c->tied_head = shape->tied_head;
    c->rope.rotary_dim = c->head_dim;
    c->rope.original_context = c->context;
    return pkv__config_check(c, log) == PKV_OK ? PKV_OK : PKV_E_INVALID_ARG;
}

pkv_status pkv_model_random(const pkv_model_shape *shape, uint64_t seed, pkv_dtype weights_dtype,
                            const pkv_logger *log, const pkv_allocator *alloc, pkv_model **out)
{
    pkv_model *model;
    pkv__model_config config;
    if (!shape || !out || !pkv__allocator_valid(alloc)) return PKV_E_INVALID_ARG;
    if (shape->struct_size != sizeof(*shape)) return PKV_E_ABI;
    if (!dtype_kept(weights_dtype))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "weights are kept as f32 or bf16, not %s",
                           pkv_dtype_name(weights_dtype));
    pkv_status status = take_shape(shape, log, &config);
    if (status == PKV_OK) status = create(alloc, weights_dtype, &model);
    if (status != PKV_OK) return status;
    model->seed = seed;
    status = pkv__weights_random(&config, seed, weights_dtype, alloc, &model->weights);
    if (status == PKV_OK) *out = model;
    else pkv_model_close(model);
    return status;
}

/* ---------------------------------------------------------------- the digest */

static void add_int(struct pkv__sha256 *sha, int64_t v)
{
    pkv__sha256_update(sha, &v, sizeof(v));
}

static void add_real(struct pkv__sha256 *sha, double v)
{
    pkv__sha256_update(sha, &v, sizeof(v));
}

static void add_text(struct pkv__sha256 *sha, const char *text)
{
    add_int(sha, (int64_t)strlen(text)); /* so that two texts cannot run into one another */
    pkv__sha256_update(sha, text, strlen(text));
}

/* Field by field: padding has no value. */
static void add_rope(struct pkv__sha256 *sha, const pkv__rope_config *r)
{
    add_int(sha, r->kind);
    add_int(sha, r->rotary_dim);
    add_int(sha, r->original_context);
    const double reals[] = {
        r->theta,     r->factor,           r->low_freq_factor, r->high_freq_factor, r->beta_fast,
        r->beta_slow, r->attention_factor, r->mscale,          r->mscale_all_dim
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(reals); k++) add_real(sha, reals[k]);
    add_int(sha, r->n_short);
    for (int32_t k = 0; k < r->n_short; k++) add_real(sha, r->short_factor[k]);
    add_int(sha, r->n_long);
    for (int32_t k = 0; k < r->n_long; k++) add_real(sha, r->long_factor[k]);
}

static void add_config(struct pkv__sha256 *sha, const pkv__model_config *c)
{
    const int32_t counts[] = { c->vocab,      c->hidden,   c->n_layers, c->n_heads,
                               c->n_kv_heads, c->head_dim, c->ffn,      c->context };
    add_text(sha, c->architecture);
    for (size_t k = 0; k < PKV_ARRAY_LEN(counts); k++) add_int(sha, counts[k]);
    add_real(sha, c->norm_eps);
    add_int(sha, c->tied_head);
    add_int(sha, c->interleaved_pairs);
    add_rope(sha, &c->rope);
}

static void add_tensor(struct pkv__sha256 *sha, const pkv__tensor *t)
{
    add_text(sha, t->name);
    add_text(sha, t->type_name);
    add_int(sha, t->n_dims);
    for (int32_t k = 0; k < t->n_dims; k++) add_int(sha, t->dims[k]);
    add_int(sha, (int64_t)t->bytes);
    pkv__sha256_update(sha, t->data, t->bytes);
}

static void compute_digest(const pkv_model *model, uint8_t out[32])
{
    const pkv__tensor_file *file = model->weights.file;
    struct pkv__sha256 sha;
    pkv__sha256_init(&sha);
    add_text(&sha, "pagedkv model 1");
    add_config(&sha, &model->weights.config);
    add_int(&sha, model->dtype); /* bf16 weights give other K and V than f32 ones */
    add_text(&sha, file ? pkv__tensor_file_format(file) : "random");
    if (!file) add_int(&sha, (int64_t)model->seed);
    for (int64_t k = 0; file && k < pkv__tensor_file_count(file); k++)
        add_tensor(&sha, pkv__tensor_file_at(file, k));
    pkv__sha256_end(&sha, out);
}

pkv_status pkv_model_get_digest(const pkv_model *model, uint8_t digest[32])
{
    if (!model || !digest) return PKV_E_INVALID_ARG;
    model_digest *d = model->digest;
    pthread_mutex_lock(&d->mutex);
    if (!d->known) compute_digest(model, d->bytes);
    d->known = true;
    memcpy(digest, d->bytes, sizeof(d->bytes));
    pthread_mutex_unlock(&d->mutex);
    return PKV_OK;
}

/* ---------------------------------------------------------------- what it is */

static const char *rope_name(pkv__rope_kind kind)
{
    switch (kind) {
    case PKV__ROPE_DEFAULT:
        return "default";
    case PKV__ROPE_LINEAR:
        return "linear";
    case PKV__ROPE_DYNAMIC:
        return "dynamic";
    case PKV__ROPE_LLAMA3:
        return "llama3";
    case PKV__ROPE_YARN:
        return "yarn";
    case PKV__ROPE_LONGROPE:
        return "longrope";
    }
    return "?";
}

/* Elements of the matrices of all layers, and of all norms. */
static int64_t layer_elements(const pkv__model_config *c)
{
    const int64_t q = (int64_t)c->n_heads * c->head_dim, kv = (int64_t)c->n_kv_heads * c->head_dim;
    const int64_t h = c->hidden;
    return c->n_layers * (2 * q * h + 2 * kv * h + 3 * (int64_t)c->ffn * h);
}

static void count(const pkv__model_config *c, pkv_dtype dtype, pkv_model_info *out)
{
    const int64_t embedding = (int64_t)c->vocab * c->hidden, layers = layer_elements(c);
    const int64_t norms = (2 * (int64_t)c->n_layers + 1) * c->hidden;
    const size_t element = dtype == PKV_BF16 ? 2 : 4;
    out->n_parameters = layers + norms + (c->tied_head ? 1 : 2) * embedding;
    out->weight_bytes = (size_t)(layers + embedding + (c->tied_head ? 0 : c->hidden)) * element +
                        (size_t)norms * sizeof(float);
}

static void describe(const pkv__model_config *c, pkv_model_info *out)
{
    snprintf(out->architecture, sizeof(out->architecture), "%s", c->architecture);
    out->vocab = c->vocab;
    out->hidden = c->hidden;
    out->n_layers = c->n_layers;
    out->n_heads = c->n_heads;
    out->n_kv_heads = c->n_kv_heads;
    out->head_dim = c->head_dim;
    out->ffn = c->ffn;
    out->context = c->context;
    out->norm_eps = c->norm_eps;
    out->tied_head = c->tied_head;
    snprintf(out->rope, sizeof(out->rope), "%s", rope_name(c->rope.kind));
    out->rope_theta = c->rope.theta;
    out->rope_factor = c->rope.factor;
    out->rotary_dim = c->rope.rotary_dim;
    out->bos = c->bos;
    out->n_eos = c->n_eos;
    memcpy(out->eos, c->eos, sizeof(out->eos));
}
_Static_assert(PKV_MODEL_MAX_EOS == PKV__MAX_EOS, "the public set is the configuration's");

pkv_status pkv_model_get_info(const pkv_model *model, pkv_model_info *out)
{
    if (!model || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    const pkv__weights *w = &model->weights;
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    describe(&w->config, &info);
    snprintf(info.format, sizeof(info.format), "%s",
             w->file ? pkv__tensor_file_format(w->file) : "random");
    info.weights_dtype = model->dtype;
    count(&w->config, model->dtype, &info);
    info.memory_bytes = sizeof(*model) + sizeof(*model->digest) + w->memory_bytes;
    info.n_tensors = w->file ? (int32_t)pkv__tensor_file_count(w->file) : 0;
    *out = info;
    return PKV_OK;
}

pkv_status pkv_model_get_tensor(const pkv_model *model, int32_t idx, pkv_model_tensor *out)
{
    if (!model || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    const pkv__tensor *t =
        model->weights.file ? pkv__tensor_file_at(model->weights.file, idx) : NULL;
    if (!t) return PKV_E_RANGE;
    pkv_model_tensor tensor = PKV_MODEL_TENSOR_INIT;
    tensor.name = t->name;
    tensor.type = t->type_name;
    tensor.n_dims = t->n_dims;
    memcpy(tensor.dims, t->dims, sizeof(tensor.dims));
    tensor.bytes = t->bytes;
    *out = tensor;
    return PKV_OK;
}
