/* Models by name. */
#include "serve_model.h"

#include <stdio.h>
#include <string.h>

/* Shapes of llama2.c's stories260K and stories15M, and of GPT-2 small as a Llama. */
static const struct {
    const char *name;
    int32_t vocab, hidden, n_layers, n_heads, n_kv_heads, head_dim, ffn;
} shapes[] = {
    { "tiny", 512, 64, 5, 8, 4, 8, 172 },
    { "15m", 32000, 288, 6, 6, 6, 48, 768 },
    { "110m", 32000, 768, 12, 12, 12, 64, 2048 },
};

static void keep_text(void *ctx, pkv_log_level level, const char *text)
{
    struct bench_error *err = ctx;
    if (level == PKV_LOG_ERROR) snprintf(err->text, sizeof(err->text), "%s", text);
}

static bool open_files(const char *path, pkv_model **out, struct bench_error *err)
{
    pkv_model_config cfg = PKV_MODEL_CONFIG_INIT;
    cfg.path = path;
    cfg.log = (pkv_logger){ keep_text, err };
    snprintf(err->text, sizeof(err->text),
             "%.200s: cannot be opened as a model; random ones are " SERVE_MODEL_NAMES, path);
    err->code = BENCH_USAGE;
    return pkv_model_open(&cfg, out) == PKV_OK;
}

bool serve_model_open(const char *name, int32_t context, pkv_model **out, struct bench_error *err)
{
    for (int i = 0; i < BENCH_LEN(shapes); i++) {
        if (strcmp(name, shapes[i].name) != 0) continue;
        const pkv_model_shape shape = { .struct_size = sizeof(shape),
                                        .vocab = shapes[i].vocab,
                                        .hidden = shapes[i].hidden,
                                        .n_layers = shapes[i].n_layers,
                                        .n_heads = shapes[i].n_heads,
                                        .n_kv_heads = shapes[i].n_kv_heads,
                                        .head_dim = shapes[i].head_dim,
                                        .ffn = shapes[i].ffn,
                                        .context = context,
                                        .tied_head = true };
        const pkv_status status = pkv_model_random(&shape, 1, PKV_F32, NULL, NULL, out);
        return status == PKV_OK || bench_fail(err, BENCH_USAGE, "no model %s of context %d: %s",
                                              name, context, pkv_status_name(status));
    }
    return open_files(name, out, err);
}

int64_t serve_model_token_bytes(const pkv_model_info *info)
{
    return 2 * (int64_t)sizeof(uint16_t) * info->n_layers * info->n_kv_heads * info->head_dim;
}
