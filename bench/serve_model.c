/* Models by name. */
#include "serve_model.h"

#include "model_case.h"

#include <stdio.h>
#include <string.h>

/* Shapes of llama2.c's stories260K and stories15M, and of GPT-2 small as a Llama. */
static const struct {
    const char *name;
    struct yard_shape shape; /* with a context of 0 */
} models[] = {
    { "tiny",
      { .hidden = 64, .ffn = 172, .n_layers = 5, .n_heads = 8, .n_kv_heads = 4, .vocab = 512 } },
    { "15m",
      { .hidden = 288, .ffn = 768, .n_layers = 6, .n_heads = 6, .n_kv_heads = 6, .vocab = 32000 } },
    { "110m",
      { .hidden = 768,
        .ffn = 2048,
        .n_layers = 12,
        .n_heads = 12,
        .n_kv_heads = 12,
        .vocab = 32000 } },
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
    for (int i = 0; i < BENCH_LEN(models); i++) {
        struct yard_shape shape = models[i].shape;
        shape.context = context;
        if (strcmp(name, models[i].name) == 0) return model_random(&shape, PKV_F32, out, err);
    }
    return open_files(name, out, err);
}

int64_t serve_model_token_bytes(const pkv_model_info *info)
{
    return 2 * (int64_t)sizeof(uint16_t) * info->n_layers * info->n_kv_heads * info->head_dim;
}
