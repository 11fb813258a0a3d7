/* The same model with all, some and one head of K and V, and with a latent, in every type. */
#include "pkv_info_kv.h"

#include <string.h>

/* ---------------------------------------------------------------- heads */

typedef struct variant {
    char name[24];
    bool own;
    pkv_kv_geometry geometry;
} variant;
#define MAX_VARIANTS 4

static void name_heads(const info_kv *kv, variant *v)
{
    const int32_t heads = kv->src.n_heads, kv_heads = v->geometry.n_kv_heads;
    if (v->geometry.latent_dim > 0)
        snprintf(v->name, sizeof(v->name), "MLA %d+%d", v->geometry.latent_dim,
                 v->geometry.rope_dim);
    else if (kv_heads == 1) snprintf(v->name, sizeof(v->name), "MQA");
    else if (heads == kv_heads) snprintf(v->name, sizeof(v->name), "MHA");
    else if (heads > 0 && heads % kv_heads == 0)
        snprintf(v->name, sizeof(v->name), "GQA %d:1", heads / kv_heads);
    else snprintf(v->name, sizeof(v->name), "%d heads", kv_heads);
}

static void add_variant(const info_kv *kv, variant *list, int *n, pkv_kv_geometry geometry)
{
    variant *v = &list[*n];
    for (int k = 0; k < *n; k++) {
        const pkv_kv_geometry *g = &list[k].geometry;
        if (g->n_kv_heads == geometry.n_kv_heads && g->latent_dim == geometry.latent_dim) return;
    }
    *v = (variant){ .own = *n == 0, .geometry = geometry };
    name_heads(kv, v);
    ++*n;
}

/* A latent as DeepSeek-V2 (arXiv 2405.04434) sizes it: 4 and 1/2 times the dimension of a head. */
static int list_variants(const info_kv *kv, variant list[MAX_VARIANTS])
{
    int n = 0;
    pkv_kv_geometry g = kv->src.geometry;
    const bool mla = g.latent_dim > 0;
    add_variant(kv, list, &n, g);
    g.latent_dim = g.rope_dim = 0;
    if (mla) g.head_dim = kv->src.mla_head_dim;
    if (g.head_dim < 8 || g.head_dim > 256 || g.head_dim % 8 != 0) return n;
    g.n_kv_heads = kv->src.n_heads;
    if (g.n_kv_heads > 0) add_variant(kv, list, &n, g);
    g.n_kv_heads = 1;
    add_variant(kv, list, &n, g);
    if (mla || g.head_dim % 16 != 0) return n;
    g.latent_dim = 4 * g.head_dim, g.rope_dim = g.head_dim / 2;
    g.n_kv_heads = g.head_dim = 0;
    add_variant(kv, list, &n, g);
    return n;
}

/* ---------------------------------------------------------------- times */

/* Bytes that a token of one sequence reads: all weights of a rank once, and K and V of what it
 * sees. */
static double kv_read(const info_kv *kv, const info_kv_row *r)
{
    const pkv_kv_geometry *g = &r->geometry;
    const double layer = r->size.bytes_per_token / g->n_layers;
    const int32_t tokens = kv->budget.tokens;
    const int32_t seen = tokens < g->window_tokens ? tokens : g->window_tokens;
    return layer * ((double)(g->n_layers - g->n_window_layers) * tokens +
                    (double)g->n_window_layers * seen);
}

static void add_times(const info_kv *kv, info_kv_row *r)
{
    if (kv->bandwidth == 0) return;
    const double weights = (double)kv->budget.weight_bytes / kv->budget.tp;
    const double each = kv_read(kv, r), per_ms = (double)kv->bandwidth / 1000;
    r->ms_alone = (weights + each) / per_ms;
    if (r->size.max_seqs == 0) return;
    r->ms_all = (weights + (double)r->size.max_seqs * each) / per_ms;
    r->per_s_all = 1000 * (double)r->size.max_seqs / r->ms_all;
}

/* ---------------------------------------------------------------- rows */

/* False: the arguments are refused; of the model's own heads that is an error. */
static bool add_row(info_kv *kv, const variant *v, pkv_dtype dtype, info_kv_row *row)
{
    const pkv_logger log = info_logger(&kv->log);
    *row = (info_kv_row){ .own = v->own, .geometry = v->geometry };
    memcpy(row->name, v->name, sizeof(row->name));
    row->geometry.dtype = dtype;
    row->size = (pkv_kv_size)PKV_KV_SIZE_INIT;
    const pkv_status status = pkv_kv_size_of(&row->geometry, &kv->budget, &log, &row->size);
    row->fits = status == PKV_OK;
    if (status != PKV_OK && status != PKV_E_NEVER) return false;
    add_times(kv, row);
    return true;
}

bool info_kv_rows(info_kv *kv, info_kv_row rows[INFO_KV_ROWS], int *n)
{
    char error[sizeof(kv->log.error)] = ""; /* about the model as it is */
    variant list[MAX_VARIANTS];
    const int n_variants = list_variants(kv, list);
    *n = 0;
    for (int k = 0; k < n_variants; k++)
        for (int d = 0; d < PKV_DTYPE_COUNT; d++) {
            if (kv->has_dtype && (pkv_dtype)d != kv->dtype) continue;
            const bool done = add_row(kv, &list[k], (pkv_dtype)d, &rows[*n]);
            if (!done && list[k].own) return false;
            if (list[k].own) memcpy(error, kv->log.error, sizeof(error));
            *n += done;
        }
    memcpy(kv->log.error, error, sizeof(error));
    return true;
}
