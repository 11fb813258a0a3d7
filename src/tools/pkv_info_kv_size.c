/* pkv-info kv-size: the question, from a file and options. */
#include "pkv_info_kv.h"

#include <string.h>

#define USUAL_TOKENS 1024 /* where nothing is said */
#define USUAL_MAX_TOKENS 4096

/* What options say; 0: not given. */
typedef struct asked {
    int32_t layers, heads, kv_heads, head_dim, latent, rope, window, window_layers;
    int32_t tokens, max_tokens;
    int64_t memory, weights, parameters, reserve, activations;
    pkv_dtype weight_dtype;
    bool has_window, has_weights, has_parameters, has_weight_dtype, json;
} asked;

/* ---------------------------------------------------------------- the model */

static void take(int32_t from, int32_t *to)
{
    if (from > 0) *to = from;
}

static void change_model(const asked *a, pkv_kv_source *s)
{
    pkv_kv_geometry *g = &s->geometry;
    take(a->layers, &g->n_layers);
    take(a->heads, &s->n_heads);
    if (a->latent > 0) {
        if (g->head_dim > 0) s->mla_head_dim = g->head_dim;
        g->n_kv_heads = g->head_dim = 0;
        g->latent_dim = a->latent;
    } else if (a->kv_heads > 0 || a->head_dim > 0) {
        if (g->latent_dim > 0) g->head_dim = s->mla_head_dim;
        g->latent_dim = g->rope_dim = 0;
    }
    take(a->rope, &g->rope_dim);
    if (g->latent_dim > 0) take(a->head_dim, &s->mla_head_dim);
    if (g->latent_dim > 0) return;
    if (g->n_kv_heads == 0) g->n_kv_heads = s->n_heads;
    take(a->kv_heads, &g->n_kv_heads);
    take(a->head_dim, &g->head_dim);
}

static void change_windows(const asked *a, pkv_kv_geometry *g)
{
    if (a->has_window) {
        g->window_tokens = a->window;
        if (a->window == 0) g->n_window_layers = 0;
        else if (g->n_window_layers == 0) g->n_window_layers = g->n_layers;
    }
    take(a->window_layers, &g->n_window_layers);
}

/* Without a file: everything that decides KV has to be said. */
static bool check_model(const asked *a, const pkv_kv_source *s)
{
    const pkv_kv_geometry *g = &s->geometry;
    const bool heads = g->latent_dim == 0;
    char list[128] = "";
    const char *const missing[] = { g->n_layers == 0 ? "--layers" : NULL,
                                    heads && g->n_kv_heads == 0 ? "--kv-heads" : NULL,
                                    heads && g->head_dim == 0 ? "--head-dim" : NULL };
    for (size_t k = 0; k < sizeof(missing) / sizeof(missing[0]); k++) {
        const size_t n = strlen(list);
        if (missing[k]) snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", missing[k]);
    }
    if (list[0]) info_complain("missing: %s; or a config.json, .gguf or .bin", list);
    else if (a->rope > 0 && heads) info_complain("--rope-dim stands beside --latent N only");
    else if (g->n_window_layers > 0 && g->window_tokens == 0)
        info_complain("--window-layers wants --window N, the tokens that they see");
    else return true;
    return false;
}

/* ---------------------------------------------------------------- the budget */

static size_t parameter_bytes(const info_kv *kv)
{
    return (size_t)((double)kv->src.n_parameters * pkv_dtype_bits(kv->weight_dtype) / 8);
}

static void weigh(const asked *a, info_kv *kv)
{
    kv->weight_dtype = a->has_weight_dtype ? a->weight_dtype : kv->src.geometry.dtype;
    if (a->has_parameters) kv->src.n_parameters = a->parameters;
    kv->as_dtype = a->has_parameters || a->has_weight_dtype || kv->src.weight_bytes == 0;
    if (a->has_weights) {
        kv->weights_from = "--weights";
        kv->as_dtype = false;
        kv->src.weight_type[0] = '\0';
        kv->budget.weight_bytes = (size_t)a->weights;
    } else if (kv->as_dtype && kv->src.n_parameters > 0) {
        kv->weights_from = a->has_parameters ? "--params"
                           : kv->src.counted ? "dimensions"
                                             : "files";
        kv->budget.weight_bytes = parameter_bytes(kv);
    } else if (!kv->as_dtype) {
        kv->weights_from = "files";
        kv->budget.weight_bytes = kv->src.weight_bytes;
    }
}

static void measure(const asked *a, info_kv *kv)
{
    pkv_kv_budget *b = &kv->budget;
    const int32_t context = kv->src.context > 0 ? kv->src.context : USUAL_MAX_TOKENS;
    b->max_tokens = a->max_tokens > 0 ? a->max_tokens : context;
    b->tokens = a->tokens;
    if (b->tokens == 0) b->tokens = b->max_tokens < USUAL_TOKENS ? b->max_tokens : USUAL_TOKENS;
    if (a->max_tokens == 0 && b->max_tokens < b->tokens) b->max_tokens = b->tokens;
    if (kv->src.context > 0 && b->max_tokens > kv->src.context)
        info_note(&kv->log, "%d tokens are more than the model's context of %d", b->max_tokens,
                  kv->src.context);
    b->memory_bytes = (size_t)a->memory;
    b->reserve_bytes = (size_t)a->reserve;
    b->activation_bytes = (size_t)a->activations;
}

/* ---------------------------------------------------------------- the verb */

static int answer(const asked *a, info_kv *kv)
{
    info_kv_row rows[INFO_KV_ROWS];
    int n = 0;
    if (!info_kv_rows(kv, rows, &n)) {
        info_complain("%s", kv->log.error);
        return INFO_USAGE;
    }
    bool fits = false;
    for (int k = 0; k < n; k++) fits = fits || (rows[k].own && rows[k].fits);
    const int status = a->json ? info_kv_json(kv, rows, n) : info_kv_print(kv, rows, n);
    if (status != INFO_OK || !kv->has_memory || fits) return status;
    info_complain("%s", kv->log.error);
    return INFO_NEVER;
}

static int ask(const asked *a, info_kv *kv)
{
    kv->src = (pkv_kv_source)PKV_KV_SOURCE_INIT;
    kv->src.geometry = (pkv_kv_geometry)PKV_KV_GEOMETRY_INIT;
    if (kv->path) {
        const pkv_logger log = info_logger(&kv->log);
        const pkv_status status = pkv_kv_source_read(kv->path, &log, NULL, &kv->src);
        if (status != PKV_OK) return info_failed(&kv->log, status);
    }
    change_model(a, &kv->src);
    change_windows(a, &kv->src.geometry);
    if (!check_model(a, &kv->src)) return INFO_USAGE;
    weigh(a, kv);
    measure(a, kv);
    return answer(a, kv);
}

#define WHOLE(name, to, high, help)                                                                \
    {                                                                                              \
        name, NULL, "N", INFO_WHOLE, to, 1, high, NULL, help                                       \
    }
#define BYTES(name, to, given, help)                                                               \
    {                                                                                              \
        name, NULL, "SIZE", INFO_BYTES, to, 0, 0, given, help                                      \
    }

int info_kv_size(int argc, char **argv)
{
    asked a = { .weight_dtype = PKV_F16 };
    info_kv kv = { .budget = PKV_KV_BUDGET_INIT };
    int n_places = 0;
    const info_option options[] = {
        WHOLE("--layers", &a.layers, 1 << 20, "layers of the model, instead of the file's"),
        WHOLE("--heads", &a.heads, 1 << 20,
              "query heads: for the row of a model with as many of K "
              "and V (MHA)"),
        WHOLE("--kv-heads", &a.kv_heads, 1 << 20, "heads of K and V"),
        WHOLE("--head-dim", &a.head_dim, 256, "dimensions of a head, a multiple of 8"),
        WHOLE("--latent", &a.latent, 4096, "MLA: dimensions of the latent"),
        WHOLE("--rope-dim", &a.rope, 4096, "MLA: rotary dimensions beside it"),
        { "--window", NULL, "N", INFO_WHOLE, &a.window, 0, INT32_MAX, &a.has_window,
          "tokens that window layers see; 0: there are none" },
        WHOLE("--window-layers", &a.window_layers, 1 << 20, "layers with a window (default: all)"),
        BYTES("--weights", &a.weights, &a.has_weights, "bytes of all weights, like 16GiB or 16e9"),
        { "--params", NULL, "N", INFO_COUNT, &a.parameters, 0, 0, &a.has_parameters,
          "number of weights, like 8B or 8.03e9" },
        { "--weight-dtype", NULL, "TYPE", INFO_DTYPE, &a.weight_dtype, 0, 0, &a.has_weight_dtype,
          "their type (default: the file's, else f16)" },
        BYTES("--mem", &a.memory, &kv.has_memory, "memory of one device: what fits is then shown"),
        BYTES("--reserve", &a.reserve, NULL, "left free on it"),
        BYTES("--activations", &a.activations, NULL, "taken by activations"),
        WHOLE("--tp", &kv.budget.tp, 1 << 16, "tensor-parallel ranks (default 1)"),
        WHOLE("--tokens", &a.tokens, INT32_MAX, "tokens of a sequence when it ends (default 1024)"),
        WHOLE("--max-tokens", &a.max_tokens, INT32_MAX,
              "tokens that contiguous placement reserves "
              "(default: the model's context, else "
              "4096)"),
        WHOLE("--block-tokens", &kv.budget.block_tokens, 2048, "tokens of a block (default 16)"),
        { "--kv-dtype", NULL, "TYPE", INFO_DTYPE, &kv.dtype, 0, 0, &kv.has_dtype,
          "only this type of K and V: f32, f16, bf16, e4m3, e5m2, int8 or int4" },
        { "--bandwidth", NULL, "RATE", INFO_RATE, &kv.bandwidth, 0, 0, NULL,
          "of the memory of one device, like 3.35TB/s: times of a decoded token are then shown" },
        { "--json", NULL, NULL, INFO_FLAG, &a.json, 0, 0, NULL, "one JSON object" },
    };
    const info_verb verb = {
        "kv-size [PATH] [OPTION...]",
        "How much memory K and V take, and how many sequences fit, in blocks and contiguous. PATH "
        "is a config.json, a folder that holds one, a .gguf or a llama2.c .bin, of any "
        "architecture; options change what it says, or say all.",
        options,
        sizeof(options) / sizeof(options[0]),
        1,
        "Times are bytes over bandwidth: all weights of a rank once per step, and what each "
        "sequence has. Status 4: not even one sequence fits."
    };
    const info_parsed parsed = info_parse(&verb, argc, argv, &kv.path, &n_places);
    if (parsed == INFO_HELPED) return info_finish_output();
    return parsed == INFO_REFUSED ? INFO_USAGE : ask(&a, &kv);
}
