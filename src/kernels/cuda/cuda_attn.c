/* Attention on the device: which kernels take a call, and what lies where in the workspace.
 *
 *   head | states of parts of keys: of the decode kernel, then, in stream order, of the kernel for
 *        | long rows. In invariant mode a state for each chunk of keys
 *
 * The decode kernel takes sequences of few rows, and all where no other kernel is compiled. */
#include "kernels/cuda/attn_prefill.h"
#include "kernels/cuda/cuda_internal.h"

/* For two states per CTA. More CTAs than fit, on a device of very many multiprocessors, are not
 * started. */
enum { MAX_STATES_BYTES = 8 * 1024 * 1024 - (int)sizeof(struct pkv__cuda_head) };

static bool takes_dims(const struct pkv__cuda_variant *v, int32_t k_dim, int32_t v_dim)
{
    return k_dim <= v->dim_hi && v_dim <= v->dim_hi && pkv__max_i32(k_dim, v_dim) >= v->dim_lo;
}
static bool takes_steps(const struct pkv__cuda_variant *v, int32_t k_dim, int32_t v_dim)
{
    return k_dim % v->dim_step == 0 && v_dim % v->dim_step == 0;
}

/* Tiles of 8 columns at a time: of group alone, for bits of rows depend on it in the default mode.
 */
static int32_t head_tiles(int32_t group)
{
    return group > 8 ? 2 : 1;
}

/* The first usable kernel for these rows, of `tiles` head tiles if there is one; -1: none. tiles 0:
 * long rows. */
static int32_t find_kernel(const struct pkv__cuda *cuda, pkv_dtype dtype, int32_t k_dim,
                           int32_t v_dim, int32_t tiles)
{
    int32_t found = -1;
    for (int32_t i = 0; i < pkv__n_cuda_variants; i++) {
        const struct pkv__cuda_variant *v = &pkv__cuda_variants[i];
        if (!cuda->usable[i] || v->op != PKV_OP_ATTENTION || v->dtype != dtype) continue;
        if ((v->head_tiles == 0) != (tiles == 0)) continue;
        if (!takes_dims(v, k_dim, v_dim) || !takes_steps(v, k_dim, v_dim)) continue;
        if (v->head_tiles == tiles) return i;
        if (found < 0) found = i;
    }
    return found;
}

/* Queries are products' operands: halves of any kind for codes, bf16 alone for bf16. */
static bool takes_queries(pkv_dtype q, pkv_dtype kv)
{
    return q == PKV_BF16 || (q == PKV_F16 && kv != PKV_BF16);
}

/* The decode kernel of a call, or -1 and a line in the log. */
static int32_t decode_kernel(const pkv_backend *be, const struct pkv__attn_call *c)
{
    const int32_t k_dim = c->k->dim, v_dim = c->v->dim;
    int32_t found = -1;
    if (takes_queries(c->q->dtype, c->k->dtype))
        found = find_kernel(pkv__cuda_of(be), c->k->dtype, k_dim, v_dim, head_tiles(c->group));
    if (found < 0)
        (void)pkv__refuse(&be->log, PKV_E_UNSUPPORTED,
                          "attention: no kernel for queries of %s over %s of dims %d and %d; there "
                          "are bf16 over every type and f16 over all but bf16, of stores as "
                          "kernel_info lists them",
                          pkv_dtype_name(c->q->dtype), pkv_dtype_name(c->k->dtype), k_dim, v_dim);
    return found;
}
static int32_t long_kernel(const pkv_backend *be, const struct pkv__attn_call *c)
{
    return find_kernel(pkv__cuda_of(be), c->k->dtype, c->k->dim, c->v->dim, 0);
}

/* ---------------------------------------------------------------- workspace */
/* A state in the workspace: o, m and l of so many columns. */
static int64_t slot_bytes(const struct pkv__cuda_variant *v)
{
    return (int64_t)sizeof(float) * 8 * v->head_tiles * (v->dim_hi + 2);
}
static int64_t decode_grid(const struct pkv__cuda *cuda, int32_t variant)
{
    const int64_t fit = MAX_STATES_BYTES / (2 * slot_bytes(&pkv__cuda_variants[variant]));
    const int64_t n = pkv__cuda_grid(cuda, variant);
    return n < fit ? n : fit; /* fit is below PKV__CUDA_MAX_CTAS */
}

/* Chunks of sequences that have several. At most 2^58: a chunk has 64 keys and more. */
static int64_t most_chunks(int32_t max_seqs, int64_t max_keys, int32_t chunk)
{
    const int64_t whole = max_keys / chunk;
    return whole + (max_seqs < whole ? max_seqs : whole);
}
/* Tiles of columns of few rows: q_len * group is 16 at most, or the group of one row. */
static int64_t most_column_tiles(const struct pkv__cuda_variant *v, int32_t group)
{
    const int32_t columns = 8 * v->head_tiles;
    return (pkv__max_i32(16, group) + columns - 1) / columns;
}

static int64_t states_bytes(const struct pkv__cuda *cuda, int32_t variant)
{
    const struct pkv__cuda_variant *v = &pkv__cuda_variants[variant];
    if (v->head_tiles == 0)
        return (int64_t)sizeof(float) * PKV__PREFILL_SLOTS * PKV__PREFILL_STATE(v->dim_hi);
    return decode_grid(cuda, variant) * 2 * slot_bytes(v);
}

pkv_status pkv__cuda_attn_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                                    int32_t k_dim, int32_t v_dim, int32_t max_seqs,
                                    int64_t max_keys, int32_t chunk, size_t *bytes)
{
    const struct pkv__cuda *cuda = pkv__cuda_of(be);
    const int32_t group = n_q_heads / n_kv_heads;
    int64_t most = 0;
    for (int32_t i = 0; i < pkv__n_cuda_variants; i++) { /* of any type */
        const struct pkv__cuda_variant *v = &pkv__cuda_variants[i];
        if (!cuda->usable[i] || v->op != PKV_OP_ATTENTION || !takes_dims(v, k_dim, v_dim)) continue;
        int64_t need = states_bytes(cuda, i);
        if (need > most) most = need;
        if (chunk == 0 || v->head_tiles == 0) continue;
        const int64_t per_chunk = n_kv_heads * slot_bytes(v) * most_column_tiles(v, group);
        if (__builtin_mul_overflow(most_chunks(max_seqs, max_keys, chunk), per_chunk, &need) ||
            need > INT64_MAX / 2)
            return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                               "workspace: states of %lld keys in chunks of %d have no address",
                               (long long)max_keys, chunk);
        if (need > most) most = need;
    }
    *bytes = pkv__align_up(sizeof(struct pkv__cuda_head) + (size_t)most, PKV_CACHE_LINE);
    return PKV_OK;
}

/* Fills, for a copy would have to come from page-locked memory. The magic is last: what is half
 * made is no workspace. */
pkv_status pkv__cuda_workspace_init(pkv_backend *be, void *workspace, size_t bytes, void *stream)
{
    struct pkv__cuda_head *head = workspace;
    if (bytes < sizeof(*head))
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                           "workspace_init: %zu bytes, a workspace has at least %zu", bytes,
                           sizeof(*head));
    int code = pkv__device_fill(head, 0, sizeof(*head), stream);
    if (code == 0)
        code = pkv__device_fill(&head->magic, PKV__CUDA_MAGIC_BYTE, sizeof(head->magic), stream);
    return pkv__cuda_status(be, code, "workspace_init");
}

/* ---------------------------------------------------------------- calls */
struct pkv__cuda_attn pkv__cuda_params_of(const struct pkv__attn_call *c, void *workspace)
{
    struct pkv__cuda_head *head = workspace;
    struct pkv__cuda_attn a = { .q = *c->q,
                                .out = *c->out,
                                .k = *c->k,
                                .v = *c->v,
                                .batch = *c->batch,
                                .opts = *c->opts,
                                .scale = c->scale,
                                .cap_unit = pkv__cap_unit(c->opts->softcap),
                                .group = c->group,
                                .rows = PKV__CUDA_ALL,
                                .head = head,
                                .partials = (float *)(head + 1) };
    if (c->lse) a.lse = *c->lse;
    if (c->opts->invariant) a.chunk = pkv__invariant_chunk(c->opts->invariant_chunk);
    return a;
}

pkv_status pkv__cuda_check_seqs(const pkv_backend *be, int32_t n_seqs)
{
    if (n_seqs <= PKV__CUDA_MAX_SEQS) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "attention: %d sequences, at most %d", n_seqs,
                       PKV__CUDA_MAX_SEQS);
}

/* Can there be sequences that are not short? */
static bool may_be_long(const struct pkv__attn_call *c)
{
    const int32_t most = c->batch->max_q_len;
    return c->batch->q_indptr && (most == 0 || !pkv__cuda_is_short(most, c->group));
}

pkv_status pkv__cuda_attn(pkv_backend *be, const struct pkv__attn_call *c, void *workspace,
                          size_t bytes, void *stream)
{
    const struct pkv__cuda *cuda = pkv__cuda_of(be);
    const int32_t decode = decode_kernel(be, c), longer = long_kernel(be, c);
    if (decode < 0) return PKV_E_UNSUPPORTED;
    pkv_status status = pkv__cuda_check_seqs(be, c->batch->n_seqs);
    if (status != PKV_OK || c->batch->n_seqs == 0) return status;
    const struct pkv__cuda_variant *v = &pkv__cuda_variants[decode];
    struct pkv__cuda_attn a = pkv__cuda_params_of(c, workspace);
    a.n_slots = (int64_t)(bytes - sizeof(struct pkv__cuda_head)) / slot_bytes(v);
    if (longer >= 0) a.rows = PKV__CUDA_SHORT;
    status = pkv__cuda_status(be, v->launch(&a, decode_grid(cuda, decode), stream), v->name);
    if (status != PKV_OK || longer < 0 || !may_be_long(c)) return status;
    v = &pkv__cuda_variants[longer];
    a.rows = PKV__CUDA_LONG;
    return pkv__cuda_status(be, v->launch(&a, pkv__cuda_grid(cuda, longer), stream), v->name);
}

const char *pkv__cuda_attn_name(const pkv_backend *be, const struct pkv__attn_call *c,
                                int32_t q_len)
{
    const int32_t decode = decode_kernel(be, c), longer = long_kernel(be, c);
    if (decode < 0) return NULL;
    if (longer < 0 || pkv__cuda_is_short(q_len, c->group)) return pkv__cuda_variants[decode].name;
    return pkv__cuda_variants[longer].name;
}
