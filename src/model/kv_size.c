/* What KV takes and what fits: integers throughout, and the bytes of a block from the one function
 * that the block manager's plan and the store use.
 *
 *   layers that keep everything   F  --+-- groups of gcd(F, W) layers, since all groups of a
 *   layers with a window          W  --'   manager draw blocks of equal bytes from one pool
 *
 * A window layer holds the blocks that the keys of one query can touch: w tokens lie in at most
 * floor((w - 2) / t) + 2 blocks of t. That is pkv_plan_groups's peak with chunks of one token. */
#include "pagedkv/kv_size.h"

#include "common/common.h"

#define BLOCK_ALIGN ((size_t)512) /* as pkv_kv_block_bytes; only for latents, which it has not */
#define ROW_ALIGN ((size_t)16)

typedef struct plan {
    const pkv_kv_geometry *geometry;
    const pkv_kv_budget *budget;
    const pkv_logger *log;
    int32_t heads; /* of one rank; 0 with MLA */
    int32_t group_layers;
    int64_t full_groups, window_groups;
    size_t rows_bytes;  /* of one token in one layer, rows padded, scales included */
    size_t token_bytes; /* in all layers */
} plan;

/* ---------------------------------------------------------------- arguments */

static pkv_status refuse(const plan *p, const char *name, long long value, const char *range)
{
    return pkv__refuse(p->log, PKV_E_INVALID_ARG, "%s is %lld: %s", name, value, range);
}

static pkv_status too_big(const plan *p)
{
    return pkv__refuse(
        p->log, PKV_E_INVALID_ARG,
        "n_layers, n_kv_heads, head_dim, block_tokens, max_tokens: bytes beyond 2^63");
}

static pkv_status check_geometry(const plan *p)
{
    const pkv_kv_geometry *g = p->geometry;
    const bool latent = g->latent_dim != 0 || g->rope_dim != 0;
    if ((unsigned)g->dtype >= PKV_DTYPE_COUNT) return refuse(p, "dtype", g->dtype, "no type");
    if (g->n_layers < 1) return refuse(p, "n_layers", g->n_layers, "from 1 on");
    if (latent && (g->n_kv_heads != 0 || g->head_dim != 0))
        return refuse(p, "latent_dim", g->latent_dim, "n_kv_heads and head_dim are 0 with it");
    if (latent && (g->latent_dim < 8 || g->latent_dim > 4096 || g->latent_dim % 8 != 0))
        return refuse(p, "latent_dim", g->latent_dim, "a multiple of 8, from 8 to 4096");
    if (latent && (g->rope_dim < 0 || g->rope_dim > 4096 || g->rope_dim % 8 != 0))
        return refuse(p, "rope_dim", g->rope_dim, "a multiple of 8, from 0 to 4096");
    if (!latent && g->n_kv_heads < 1) return refuse(p, "n_kv_heads", g->n_kv_heads, "from 1 on");
    if (!latent && (g->head_dim < 8 || g->head_dim > 256 || g->head_dim % 8 != 0))
        return refuse(p, "head_dim", g->head_dim, "a multiple of 8, from 8 to 256");
    if (g->n_window_layers < 0 || g->n_window_layers > g->n_layers)
        return refuse(p, "n_window_layers", g->n_window_layers, "from 0 to n_layers");
    if (g->n_window_layers == 0 && g->window_tokens != 0)
        return refuse(p, "window_tokens", g->window_tokens, "0 without window layers");
    if (g->n_window_layers > 0 && g->window_tokens < 1)
        return refuse(p, "window_tokens", g->window_tokens, "from 1 on with window layers");
    return PKV_OK;
}

static pkv_status check_budget(const plan *p)
{
    const pkv_kv_budget *b = p->budget;
    if (b->tp < 1) return refuse(p, "tp", b->tp, "from 1 on");
    if (b->block_tokens < 1 || b->block_tokens > 2048)
        return refuse(p, "block_tokens", b->block_tokens, "from 1 to 2048");
    if (b->tokens < 1) return refuse(p, "tokens", b->tokens, "from 1 on");
    if (b->max_tokens < b->tokens) return refuse(p, "max_tokens", b->max_tokens, "tokens or more");
    const int32_t heads = p->geometry->n_kv_heads;
    if (heads > 0 && heads % b->tp != 0 && b->tp % heads != 0)
        return refuse(p, "tp", b->tp, "no multiple and no divisor of n_kv_heads");
    return PKV_OK;
}

/* ---------------------------------------------------------------- bytes */

/* Per row: a scale that kv_write computes, and for 4-bit codes a zero point. */
static size_t scale_bytes(pkv_dtype dtype)
{
    if (dtype == PKV_U4) return 2 * sizeof(float);
    return dtype == PKV_E4M3 || dtype == PKV_I8 ? sizeof(float) : 0;
}

static size_t row_bytes(const pkv_kv_geometry *g, int32_t dim)
{
    const size_t bits = (size_t)dim * (size_t)pkv_dtype_bits(g->dtype);
    return dim > 0 ? pkv__align_up(bits / 8, ROW_ALIGN) + scale_bytes(g->dtype) : 0;
}

static int32_t gcd(int32_t a, int32_t b)
{
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static pkv_status lay_out(plan *p)
{
    const pkv_kv_geometry *g = p->geometry;
    const int32_t tp = p->budget->tp, window = g->n_window_layers;
    p->heads = g->n_kv_heads > tp ? g->n_kv_heads / tp : g->n_kv_heads > 0;
    p->group_layers = gcd(g->n_layers - window, window);
    p->full_groups = (g->n_layers - window) / p->group_layers;
    p->window_groups = window / p->group_layers;
    p->rows_bytes = p->heads > 0 ? 2 * (size_t)p->heads * row_bytes(g, g->head_dim)
                                 : row_bytes(g, g->latent_dim) + row_bytes(g, g->rope_dim);
    return pkv__mul_size((size_t)g->n_layers, p->rows_bytes, &p->token_bytes) ? PKV_OK : too_big(p);
}

/* Of the codes and scales alone: what the rows would be without padding. */
static double exact_token_bytes(const plan *p)
{
    const pkv_kv_geometry *g = p->geometry;
    const int64_t rows = p->heads > 0 ? 2 * (int64_t)p->heads : 1 + (g->rope_dim > 0);
    const int64_t dims = p->heads > 0 ? rows * g->head_dim : (int64_t)g->latent_dim + g->rope_dim;
    const int64_t bits =
        dims * pkv_dtype_bits(g->dtype) + 8 * rows * (int64_t)scale_bytes(g->dtype);
    return (double)g->n_layers * ((double)bits / 8);
}

static pkv_status get_block_bytes(const plan *p, size_t *out)
{
    const pkv_kv_shape shape = { p->group_layers, p->heads, p->geometry->head_dim,
                                 p->budget->block_tokens, p->geometry->dtype };
    size_t bytes;
    if (p->heads > 0) return pkv_kv_block_bytes(&shape, out) == PKV_OK ? PKV_OK : too_big(p);
    if (!pkv__mul_size((size_t)p->group_layers, p->rows_bytes, &bytes) ||
        !pkv__mul_size(bytes, (size_t)shape.block_tokens, &bytes) || bytes > SIZE_MAX - BLOCK_ALIGN)
        return too_big(p);
    *out = pkv__align_up(bytes, BLOCK_ALIGN);
    return PKV_OK;
}

/* ---------------------------------------------------------------- blocks */

static int64_t seq_blocks(const plan *p)
{
    const int64_t t = p->budget->block_tokens, tokens = p->budget->tokens;
    const int64_t all = (tokens + t - 1) / t;
    const int64_t most = ((int64_t)p->geometry->window_tokens - 2 + t) / t + 1;
    return p->full_groups * all + p->window_groups * (all < most ? all : most);
}

/* What one rank has left for KV. */
static size_t room(const pkv_kv_budget *b)
{
    const size_t tp = (size_t)b->tp;
    const size_t parts[] = { b->weight_bytes / tp + (b->weight_bytes % tp != 0),
                             b->activation_bytes, b->reserve_bytes };
    size_t left = b->memory_bytes;
    for (size_t k = 0; k < PKV_ARRAY_LEN(parts); k++) left = left > parts[k] ? left - parts[k] : 0;
    return left;
}

static pkv_status fill(plan *p, pkv_kv_size *out)
{
    const pkv_kv_budget *b = p->budget;
    pkv_status status = lay_out(p);
    if (status == PKV_OK) status = get_block_bytes(p, &out->block_bytes);
    if (status != PKV_OK) return status;
    out->bytes_per_token = exact_token_bytes(p);
    out->blocks_per_seq = seq_blocks(p);
    if (!pkv__mul_size((size_t)out->blocks_per_seq, out->block_bytes, &out->seq_bytes) ||
        !pkv__mul_size((size_t)b->max_tokens, p->token_bytes, &out->reserved_bytes))
        return too_big(p);
    out->kv_bytes = room(b);
    const size_t n = out->kv_bytes / out->block_bytes;
    out->n_blocks = n < 2 ? 0 : n < INT32_MAX ? (int64_t)n : INT32_MAX; /* as pkv_plan */
    const int64_t usable = out->n_blocks > 0 ? out->n_blocks - 1 : 0;
    out->usable_tokens = usable * b->block_tokens;
    out->max_seqs = usable / out->blocks_per_seq;
    out->max_seqs_reserved = (int64_t)(out->kv_bytes / out->reserved_bytes);
    return PKV_OK;
}

static pkv_status verdict(const plan *p, const pkv_kv_size *s)
{
    if (s->max_seqs > 0) return PKV_OK;
    if (s->kv_bytes == 0)
        return pkv__refuse(p->log, PKV_E_NEVER,
                           "weights, activations and reserve leave nothing of memory_bytes %zu",
                           p->budget->memory_bytes);
    return pkv__refuse(p->log, PKV_E_NEVER,
                       "a sequence of %d tokens takes %lld blocks of %zu bytes and the null block; "
                       "%zu bytes are left for KV",
                       p->budget->tokens, (long long)s->blocks_per_seq, s->block_bytes,
                       s->kv_bytes);
}

pkv_status pkv_kv_size_of(const pkv_kv_geometry *geometry, const pkv_kv_budget *budget,
                          const pkv_logger *log, pkv_kv_size *out)
{
    plan p = { .geometry = geometry, .budget = budget, .log = log };
    pkv_kv_size size = PKV_KV_SIZE_INIT;
    if (!geometry || !budget || !out) return PKV_E_INVALID_ARG;
    if (geometry->struct_size != sizeof(*geometry) || budget->struct_size != sizeof(*budget) ||
        out->struct_size != sizeof(*out))
        return PKV_E_ABI;
    pkv_status status = check_geometry(&p);
    if (status == PKV_OK) status = check_budget(&p);
    if (status == PKV_OK) status = fill(&p, &size);
    if (status != PKV_OK) return status;
    *out = size;
    return verdict(&p, &size);
}

int64_t pkv_kv_request_blocks(int32_t n_prompt, int32_t max_new, int32_t n_samples,
                              int32_t block_tokens)
{
    if (n_prompt < 1 || max_new < 1 || n_samples < 1 || block_tokens < 1) return 0;
    const int64_t longest = (int64_t)n_prompt + max_new - 1;
    const int64_t shared = n_prompt / block_tokens;
    const int64_t each = (longest + block_tokens - 1) / block_tokens;
    /* One token each comes from the prompt's logits: nothing is forked. */
    if (max_new == 1) return each;
    return shared + n_samples * (each - shared);
}
