/* Latent attention on the device: one launch, whatever the batch. */
#include "kernels/cuda/attn_mla.h"
#include "kernels/cuda/cuda_internal.h"

/* Enough for the variant with the largest grid: the state of an item for each end of a span. */
pkv_status pkv__cuda_mla_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                                   int32_t rope_dim, size_t *bytes)
{
    const struct pkv__cuda *cuda = pkv__cuda_of(be);
    int64_t n_ctas = 0;
    (void)n_q_heads, (void)latent_dim, (void)rope_dim;
    for (int32_t i = 0; i < pkv__n_cuda_variants; i++)
        if (cuda->usable[i] && pkv__cuda_variants[i].op == PKV_OP_ATTENTION_MLA &&
            pkv__cuda_grid(cuda, i) > n_ctas)
            n_ctas = pkv__cuda_grid(cuda, i);
    *bytes =
        sizeof(struct pkv__cuda_head) + (size_t)n_ctas * 2 * PKV__MLA_STATE_FLOATS * sizeof(float);
    return PKV_OK;
}

static bool is_codes(pkv_dtype dtype)
{
    return dtype >= PKV_E4M3;
}

/* Parts of codes, which have scales, lie in columns of their own. */
static void lay_columns(struct pkv__cuda_mla *m)
{
    const pkv_kv_view *k = &m->attn.k;
    const bool own_scales = k->n_heads > 1 && k->scales.data && k->scales.head_stride != 0;
    const int32_t unit = !is_codes(k->dtype) ? 8 : k->dtype == PKV_U4 ? 32 : 16;
    m->part_pitch = (k->dim + unit - 1) / unit * unit;
    m->n_p_copies = is_codes(k->dtype) && own_scales ? k->n_heads : 1;
    m->n_columns = (int32_t)pkv__align_up((size_t)k->n_heads * (size_t)m->part_pitch, 16);
    m->rope_columns = (int32_t)pkv__align_up((size_t)m->attn.v.dim, 16);
    m->by_part_pitch = pkv__divider_of(m->part_pitch);
}

/* Which variant; -1: none, and the log says why. */
static int32_t choose(const pkv_backend *be, const struct pkv__cuda_mla *m)
{
    const pkv_kv_view *latent = &m->attn.k, *rope = &m->attn.v;
    const pkv_dtype q = m->attn.q.dtype;
    const int32_t variant =
        pkv__cuda_variant_of(pkv__cuda_of(be), PKV_OP_ATTENTION_MLA, latent->dtype);
    const char *why = NULL;
    if (variant < 0) why = "there is no kernel for this latent";
    else if (rope->dtype != PKV_F16 && rope->dtype != PKV_BF16) why = "rope is f16 or bf16";
    else if (q != PKV_F16 && q != PKV_BF16) why = "queries are f16 or bf16";
    else if (q == PKV_F16 && (latent->dtype == PKV_BF16 || rope->dtype == PKV_BF16))
        why = "queries over bf16 are bf16";
    else if (latent->zeros.data) why = "zero points are not supported";
    else if (m->n_columns > PKV__MLA_LATENT) why = "parts, filled up to 16 codes, exceed 512";
    else if (is_codes(latent->dtype) && latent->n_heads > PKV__MLA_SCALE_PARTS)
        why = "codes have up to 8 parts";
    else if (m->attn.q.n_rows * m->attn.q.n_heads > INT32_MAX)
        why = "rows times query heads exceed 2^31 - 1";
    if (!why) return variant;
    (void)pkv__refuse(&be->log, PKV_E_UNSUPPORTED,
                      "mla: latent of %d x %d %s, rope %s, queries %s: %s", latent->n_heads,
                      latent->dim, pkv_dtype_name(latent->dtype), pkv_dtype_name(rope->dtype),
                      pkv_dtype_name(q), why);
    return -1;
}

pkv_status pkv__cuda_mla(pkv_backend *be, const struct pkv__mla_call *c, void *workspace,
                         size_t bytes, void *stream)
{
    const struct pkv__cuda *cuda = pkv__cuda_of(be);
    struct pkv__cuda_mla m = {
        .attn = pkv__cuda_params_of(&c->attn, workspace),
        .q_rope = *c->q_rope,
        .by_block_tokens = pkv__divider_of(c->attn.k->block_tokens),
        .by_heads = pkv__divider_of(c->attn.q->n_heads),
    };
    m.attn.v = *c->rope;
    (void)bytes;
    lay_columns(&m);
    const int32_t variant = choose(be, &m);
    if (variant < 0) return PKV_E_UNSUPPORTED;
    const pkv_status status = pkv__cuda_check_seqs(be, m.attn.batch.n_seqs);
    if (status != PKV_OK || m.attn.batch.n_seqs == 0) return status;
    const int64_t n_ctas = pkv__cuda_grid(cuda, variant);
    return pkv__cuda_status(be, pkv__cuda_variants[variant].launch(&m, n_ctas, stream), "mla");
}
