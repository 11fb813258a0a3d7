/* Which file says what decides the KV of a model, and what its weights take. */
#include "model/kv_source.h"

#include "model/model_config_internal.h"
#include "model/tensor_internal.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- shared by the readers */

pkv_status pkv__kv_source_settle(pkv_kv_source *s, const pkv__kv_names *names,
                                 const pkv_logger *log)
{
    pkv_kv_geometry *g = &s->geometry;
    if (g->n_kv_heads == 0) g->n_kv_heads = s->n_heads;
    if (g->head_dim == 0 && s->n_heads > 0 && s->hidden % s->n_heads == 0)
        g->head_dim = s->hidden / s->n_heads;
    const bool mla = g->latent_dim > 0;
    const char *const missing[] = { g->n_layers == 0 ? names->layers : NULL,
                                    g->n_kv_heads == 0 && !mla ? names->kv_heads : NULL,
                                    g->head_dim == 0 && !mla ? names->head_dim : NULL,
                                    g->rope_dim == 0 && mla ? names->rope_dim : NULL };
    char list[200] = "";
    for (size_t k = 0; k < PKV_ARRAY_LEN(missing); k++) {
        const size_t n = strlen(list);
        if (missing[k]) snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", missing[k]);
    }
    if (list[0]) return pkv__refuse(log, PKV_E_FORMAT, "%s: missing: %s", names->file, list);
    if (mla) g->n_kv_heads = g->head_dim = 0;
    return PKV_OK;
}

void pkv__kv_source_type(pkv_kv_source *s, const char *name)
{
    static const struct {
        const char *name;
        pkv_dtype dtype;
    } types[] = {
        { "float32", PKV_F32 }, { "F32", PKV_F32 },       { "float16", PKV_F16 },
        { "F16", PKV_F16 },     { "bfloat16", PKV_BF16 }, { "BF16", PKV_BF16 },
    };
    s->geometry.dtype = PKV_F16;
    snprintf(s->weight_type, sizeof(s->weight_type), "%.15s", name);
    for (size_t k = 0; k < PKV_ARRAY_LEN(types); k++) {
        if (strcmp(types[k].name, name) != 0) continue;
        s->geometry.dtype = types[k].dtype;
        snprintf(s->weight_type, sizeof(s->weight_type), "%s", pkv_dtype_name(types[k].dtype));
    }
}

/* ---------------------------------------------------------------- weights */

/* The type that most bytes have, among the first types met. */
typedef struct type_bytes {
    const char *name;
    size_t bytes;
} type_bytes;

static void count_type(type_bytes *types, int n, const pkv__tensor *t)
{
    for (int k = 0; k < n; k++) {
        if (types[k].name && strcmp(types[k].name, t->type_name) != 0) continue;
        types[k].name = t->type_name;
        types[k].bytes += t->bytes;
        return;
    }
}

static void count_weights(const pkv__tensor_file *file, pkv_kv_source *s)
{
    type_bytes types[16] = { { NULL, 0 } };
    const char *most = NULL;
    size_t most_bytes = 0;
    s->n_parameters = 0;
    for (int64_t k = 0; k < pkv__tensor_file_count(file); k++) {
        const pkv__tensor *t = pkv__tensor_file_at(file, k);
        int64_t n = 1;
        for (int32_t d = 0; d < t->n_dims; d++) n *= t->dims[d];
        s->n_parameters += n;
        s->weight_bytes += t->bytes;
        count_type(types, (int)PKV_ARRAY_LEN(types), t);
    }
    for (size_t k = 0; k < PKV_ARRAY_LEN(types); k++)
        if (types[k].bytes > most_bytes) most = types[k].name, most_bytes = types[k].bytes;
    s->counted = false;
    if (most) pkv__kv_source_type(s, most);
}

/* The last line of an error that may be none. */
static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    snprintf(ctx, 256, "%s", text);
}

/* Weights beside a configuration, if they are there. */
static pkv_status add_weights(const char *path, const pkv_logger *log, const pkv_allocator *alloc,
                              pkv_kv_source *s)
{
    char line[256] = "";
    const pkv__tensor_file_config cfg = { .path = path,
                                          .log = { keep_line, line },
                                          .alloc = alloc ? *alloc : (pkv_allocator){ 0 } };
    pkv__tensor_file *file = NULL;
    const pkv_status status = pkv__tensor_file_open(&cfg, &file);
    if (status == PKV_OK) {
        count_weights(file, s);
        pkv__tensor_file_close(file);
        return PKV_OK;
    }
    if (status != PKV_E_IO && status != PKV_E_INVALID_ARG) {
        if (line[0]) pkv__log(log, PKV_LOG_ERROR, "%s", line);
        return status;
    }
    pkv__log(log, PKV_LOG_INFO, "no weights are read: %s", line);
    return PKV_OK;
}

/* ---------------------------------------------------------------- which file */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The folder of a file: what is in front of its base name. */
static pkv_status add_weights_beside(const char *path, const pkv_logger *log,
                                     const pkv_allocator *alloc, pkv_kv_source *s)
{
    size_t bytes;
    char *folder = pkv__path_join(alloc, path, false, strchr(path, '/') ? "" : ".", &bytes);
    if (!folder) return PKV_E_NO_MEMORY;
    const pkv_status status = add_weights(folder, log, alloc, s);
    pkv__free(alloc, folder, bytes);
    return status;
}

/* `name`: of the configuration beside `path`, or in it. */
static pkv_status read_json(const char *path, const char *name, const pkv_logger *log,
                            const pkv_allocator *alloc, pkv_kv_source *s)
{
    pkv__file_map map = { 0 };
    pkv_status status = pkv__config_file(path, name, false, log, alloc, &map);
    if (status != PKV_OK) return status;
    status = pkv__kv_source_json((const char *)map.data, map.bytes, log, s);
    pkv__file_map_close(&map, alloc);
    if (status != PKV_OK) return status;
    const bool is_json = ends_with(path, ".json") && !ends_with(path, ".index.json");
    return is_json ? add_weights_beside(path, log, alloc, s) : add_weights(path, log, alloc, s);
}

static pkv_status read_tensors(const char *path, const pkv_logger *log, const pkv_allocator *alloc,
                               pkv_kv_source *s)
{
    const pkv__tensor_file_config cfg = { .path = path,
                                          .log = log ? *log : (pkv_logger){ 0 },
                                          .alloc = alloc ? *alloc : (pkv_allocator){ 0 } };
    pkv__tensor_file *file = NULL;
    pkv_status status = pkv__tensor_file_open(&cfg, &file);
    if (status != PKV_OK) return status;
    const char *format = pkv__tensor_file_format(file);
    if (strcmp(format, "gguf") == 0) status = pkv__kv_source_gguf(file, log, s);
    else if (strcmp(format, "llama2.c") == 0) status = pkv__kv_source_llama2c(file, log, s);
    else status = read_json(path, "config.json", log, alloc, s);
    if (status == PKV_OK && strcmp(format, "safetensors") != 0) count_weights(file, s);
    pkv__tensor_file_close(file);
    return status;
}

/* Does a folder hold a config.json? */
static pkv_status has_config(const char *folder, const pkv_allocator *alloc, bool *out)
{
    size_t bytes;
    char *path = pkv__path_join(alloc, folder, true, "config.json", &bytes);
    if (!path) return PKV_E_NO_MEMORY;
    *out = access(path, F_OK) == 0;
    pkv__free(alloc, path, bytes);
    return PKV_OK;
}

pkv_status pkv_kv_source_read(const char *path, const pkv_logger *log, const pkv_allocator *alloc,
                              pkv_kv_source *out)
{
    struct stat info;
    bool json = false;
    pkv_kv_source s = PKV_KV_SOURCE_INIT;
    s.geometry = (pkv_kv_geometry)PKV_KV_GEOMETRY_INIT;
    if (!path || !out || !pkv__allocator_valid(alloc)) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    pkv_status status = PKV_OK;
    const char *name = "config.json";
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) status = has_config(path, alloc, &json);
    else if (ends_with(path, ".json") && !ends_with(path, ".index.json"))
        json = true, name = pkv__base_name(path);
    if (status == PKV_OK)
        status = json ? read_json(path, name, log, alloc, &s) : read_tensors(path, log, alloc, &s);
    if (status == PKV_OK) *out = s;
    return status;
}
