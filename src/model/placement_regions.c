/* Contiguous placement: one region of consecutive slots per sequence, for comparison.
 *
 *   slab     [layer][kv_head][K,V][slot][dim], then scales and zero points [..][slot] float32
 *   slots    | granule 0 (null) | granule 1 | 2 | 3 | ... | n_granules - 1 |
 *   regions                     [ sequence 4 ..... )[ 0 .. )     [ 2 ........ )
 *
 * A granule is block_tokens slots; its id is what a block id is elsewhere, so the kernels read a
 * region through the ids start, start + 1, ...: the tokens of a head lie behind each other without
 * a gap. The slab is a store's memory with other strides, of the same size.
 *
 *   MAX      max_context tokens, whatever the request says (FasterTransformer)
 *   REQUEST  the longest that the request can become, known beforehand
 *   POW2     that, rounded up to a power of two, at most max_context (Orca (Pow2))
 *
 * all rounded up to granules; first fit. These are the ways of reserving that the paper on
 * PagedAttention (arXiv 2309.06180, section 6.1) compares with. A request takes its regions, one
 * per sequence that it will ever have, when it is admitted; the spare ones wait in a chain behind
 * its first sequence until fork takes them. */
#include "common/kv_layout.h"
#include "model/placement_internal.h"
#include "pagedkv/store.h"

#include <string.h>

enum { FREE = -1 }; /* region.start of a number that nobody has */
enum { NO_REGION = -1 };

typedef struct region {
    int32_t start, n;            /* granules */
    int32_t committed, reserved; /* tokens */
    int32_t before;              /* committed before the open step; -1: nothing committed in it */
    int32_t next_spare;          /* number of a region set aside for a fork, or NO_REGION */
    bool spare;                  /* set aside: not a sequence yet */
} region;

typedef struct regions {
    pkv__placement base;
    pkv_placement kind;
    struct pkv__kv_layout layout; /* of a granule as a block; rows and pieces are what we use */
    pkv_store *store;
    uint8_t *slab;
    size_t scales_at, zeros_at; /* bytes from slab; 0: none */
    int32_t n_granules, max_seqs, max_context;
    int32_t n_taken;  /* granules in regions */
    int64_t n_filled; /* committed tokens */
    int64_t n_copied; /* granules, by forks */
    region *list;     /* [max_seqs] by number */
    int32_t *order;   /* [n_regions] numbers by start */
    int32_t *ids;     /* [n_granules] id i at i: the row of a region begins at its start */
    int32_t n_regions;
    bool in_step;
    pkv__place_numbers numbers;
    pkv_logger log;
    pkv_allocator alloc;
    size_t bytes;
} regions;

static regions *regions_of(pkv__placement *p)
{
    return (regions *)p;
}
static const regions *regions_in(const pkv__placement *p)
{
    return (const regions *)p;
}

/* An open sequence, or NULL. */
static region *find(const regions *p, int32_t seq)
{
    if (seq < 0 || seq >= p->max_seqs) return NULL;
    region *r = &p->list[seq];
    return r->start != FREE && !r->spare ? r : NULL;
}

static int32_t granules(const regions *p, int32_t n_tokens)
{
    return pkv__ceil_div_i32(n_tokens, p->base.block_tokens);
}

/* Granules of the region for a sequence that may become n_longest tokens long. */
static int32_t region_granules(const regions *p, int32_t n_longest)
{
    int64_t n = n_longest;
    if (p->kind == PKV_PLACE_MAX) n = p->max_context;
    if (p->kind == PKV_PLACE_POW2)
        for (n = 1; n < n_longest;) n *= 2;
    return granules(p, n < p->max_context ? (int32_t)n : p->max_context);
}

/* ---------------------------------------------------------------- making */

static size_t n_slots(const regions *p)
{
    return (size_t)p->n_granules * (size_t)p->base.block_tokens;
}

/* Scales or zero points of piece number `piece`. */
static pkv_scales floats_view(const regions *p, size_t at, size_t piece)
{
    if (at == 0) return (pkv_scales){ NULL, 0, 0, 0 };
    return (pkv_scales){ .data = (float *)(void *)(p->slab + at) + piece * n_slots(p),
                         .block_stride = p->base.block_tokens,
                         .token_stride = 1,
                         .head_stride = 2 * (int64_t)n_slots(p) };
}

static pkv_kv_view view_of(const regions *p, const pkv_kv_shape *s, size_t piece)
{
    const int64_t row = (int64_t)p->layout.row_bytes * 8 / pkv_dtype_bits(s->dtype);
    return (pkv_kv_view){ .data = p->slab + piece * n_slots(p) * p->layout.row_bytes,
                          .dtype = s->dtype,
                          .n_blocks = p->n_granules,
                          .block_tokens = s->block_tokens,
                          .n_heads = s->n_kv_heads,
                          .dim = s->head_dim,
                          .block_stride = row * s->block_tokens,
                          .token_stride = row,
                          .head_stride = 2 * row * (int64_t)n_slots(p),
                          .scales = floats_view(p, p->scales_at, piece),
                          .zeros = floats_view(p, p->zeros_at, piece) };
}

static pkv_status make_slab(regions *p, const pkv__placement_config *cfg)
{
    pkv_store_config sc = PKV_STORE_CONFIG_INIT;
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    sc.shape = cfg->shape;
    sc.n_blocks = p->n_granules;
    sc.alloc = cfg->alloc;
    sc.log = cfg->log;
    pkv_status status = pkv_store_create(&sc, &p->store);
    if (status == PKV_OK) status = pkv_store_info(p->store, &info);
    if (status != PKV_OK) return status;
    const size_t codes = p->layout.n_pieces * n_slots(p) * p->layout.row_bytes;
    const size_t floats = p->layout.n_pieces * n_slots(p) * sizeof(float);
    p->slab = info.base;
    p->scales_at = p->layout.scales_at > 0 ? codes : 0;
    p->zeros_at = p->layout.zeros_at > 0 ? codes + floats : 0;
    for (int32_t k = 0; k < cfg->shape.n_layers; k++) {
        const size_t piece = (size_t)k * (size_t)cfg->shape.n_kv_heads * 2;
        p->base.k_views[k] = view_of(p, &cfg->shape, piece);
        p->base.v_views[k] = view_of(p, &cfg->shape, piece + 1);
    }
    return PKV_OK;
}

static void regions_destroy(pkv__placement *base)
{
    if (!base) return;
    regions *p = regions_of(base);
    const pkv_allocator alloc = p->alloc;
    pkv_store_destroy(p->store);
    pkv__free(&alloc, p, p->bytes);
}

static void lay_out(regions *p, size_t n_layers, pkv__place_memory *m)
{
    const size_t n = (size_t)p->max_seqs;
    p->base.k_views = pkv__place_take(m, n_layers, sizeof(*p->base.k_views));
    p->base.v_views = pkv__place_take(m, n_layers, sizeof(*p->base.v_views));
    p->list = pkv__place_take(m, n, sizeof(*p->list));
    p->order = pkv__place_take(m, n, sizeof(*p->order));
    p->ids = pkv__place_take(m, (size_t)p->n_granules, sizeof(*p->ids));
    p->numbers.free = pkv__place_take(m, n, sizeof(*p->numbers.free));
}

static const pkv__place_ops regions_ops;

static pkv_status allocate(const pkv__placement_config *cfg, const regions *sized, regions **out)
{
    regions plan = *sized;
    const size_t n_layers = (size_t)cfg->shape.n_layers;
    pkv__place_memory m = { NULL, 0 };
    pkv__place_take(&m, 1, sizeof(plan));
    lay_out(&plan, n_layers, &m);
    plan.bytes = m.used;
    m.base = pkv__alloc(&cfg->alloc, plan.bytes, PKV_CACHE_LINE);
    if (!m.base)
        return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "placement: no %zu bytes for %d sequences",
                           plan.bytes, cfg->max_seqs);
    m.used = 0;
    regions *p = pkv__place_take(&m, 1, sizeof(plan));
    *p = plan;
    lay_out(p, n_layers, &m);
    pkv__place_numbers_init(&p->numbers, p->max_seqs);
    for (int32_t i = 0; i < p->max_seqs; i++) p->list[i].start = FREE;
    for (int32_t i = 0; i < p->n_granules; i++) p->ids[i] = i;
    *out = p;
    return PKV_OK;
}

static pkv_status check_room(const regions *p)
{
    const int32_t need = region_granules(p, 1);
    if (need <= p->n_granules - 1) return PKV_OK;
    const size_t bytes = ((size_t)need + 1) * p->base.block_bytes;
    return pkv__refuse(&p->log, PKV_E_NEVER,
                       "placement: a region of %d tokens takes %d blocks, the pool has %d; give "
                       "kv_bytes of at least %zu or a max_context of at most %d",
                       p->max_context, need, p->n_granules - 1, bytes,
                       (p->n_granules - 1) * p->base.block_tokens);
}

pkv_status pkv__placement_regions(const pkv__placement_config *cfg, pkv__placement **out)
{
    size_t block_bytes = 0;
    regions sized = { .kind = cfg->kind,
                      .max_seqs = cfg->max_seqs,
                      .max_context = cfg->max_context,
                      .log = cfg->log,
                      .alloc = cfg->alloc };
    pkv_status status = pkv__place_pool(cfg, &block_bytes, &sized.n_granules);
    if (status == PKV_OK) status = pkv__kv_layout(&cfg->shape, &sized.layout);
    if (status != PKV_OK) return status;
    sized.base.ops = &regions_ops;
    sized.base.block_tokens = cfg->shape.block_tokens;
    sized.base.table_width = granules(&sized, cfg->max_context);
    sized.base.block_bytes = block_bytes;
    sized.base.token_bytes = pkv__place_token_bytes(&cfg->shape);
    status = check_room(&sized);
    regions *p = NULL;
    if (status == PKV_OK) status = allocate(cfg, &sized, &p);
    if (status != PKV_OK) return status;
    status = make_slab(p, cfg);
    if (status != PKV_OK) {
        regions_destroy(&p->base);
        return status;
    }
    *out = &p->base;
    return PKV_OK;
}

/* ---------------------------------------------------------------- regions */

static pkv_status regions_fits(const pkv__placement *base, int32_t n_prompt, int32_t max_new,
                               int32_t n_samples, int64_t *n_blocks)
{
    const regions *p = regions_in(base);
    const int64_t longest = (int64_t)n_prompt + max_new - 1;
    if (n_prompt < 1 || max_new < 1 || n_samples < 1) return PKV_E_INVALID_ARG;
    const int32_t capped = longest < p->max_context ? (int32_t)longest : p->max_context;
    const int64_t need = (int64_t)n_samples * region_granules(p, capped);
    if (n_blocks) *n_blocks = need;
    const bool fits =
        longest <= p->max_context && need <= p->n_granules - 1 && n_samples <= p->max_seqs;
    return fits ? PKV_OK : PKV_E_NEVER;
}

/* A new region in the first hole of n granules; its number, or NO_REGION. The caller knows that
 * there is a number. */
static int32_t place(regions *p, int32_t n)
{
    int32_t start = 1, at = 0;
    for (; at < p->n_regions; at++) {
        const region *next = &p->list[p->order[at]];
        if (next->start - start >= n) break;
        start = next->start + next->n;
    }
    if (at == p->n_regions && p->n_granules - start < n) return NO_REGION;
    const int32_t number = pkv__place_number(&p->numbers);
    memmove(p->order + at + 1, p->order + at, (size_t)(p->n_regions - at) * sizeof(*p->order));
    p->order[at] = number;
    p->n_regions++;
    p->n_taken += n;
    p->list[number] = (region){ .start = start, .n = n, .before = -1, .next_spare = NO_REGION };
    return number;
}

static void give_back(regions *p, int32_t number)
{
    int32_t at = 0;
    while (p->order[at] != number) at++;
    p->n_regions--;
    memmove(p->order + at, p->order + at + 1, (size_t)(p->n_regions - at) * sizeof(*p->order));
    p->n_taken -= p->list[number].n;
    p->list[number].start = FREE;
    pkv__place_number_back(&p->numbers, number);
}

/* The spare regions behind a sequence. */
static void drop_spares(regions *p, int32_t seq)
{
    for (int32_t i = p->list[seq].next_spare, next; i != NO_REGION; i = next) {
        next = p->list[i].next_spare;
        give_back(p, i);
    }
    p->list[seq].next_spare = NO_REGION;
}

/* n more spare regions as large as the sequence's own: all or nothing. */
static pkv_status add_spares(regions *p, int32_t seq, int32_t n)
{
    const int32_t old = p->list[seq].next_spare;
    p->list[seq].next_spare = NO_REGION;
    for (int32_t i = 0; i < n; i++) {
        const int32_t spare = place(p, p->list[seq].n);
        if (spare == NO_REGION) {
            drop_spares(p, seq);
            p->list[seq].next_spare = old;
            return PKV_E_NO_BLOCKS;
        }
        p->list[spare].spare = true;
        p->list[spare].next_spare = p->list[seq].next_spare;
        p->list[seq].next_spare = spare;
    }
    int32_t *last = &p->list[seq].next_spare;
    while (*last != NO_REGION) last = &p->list[*last].next_spare;
    *last = old;
    return PKV_OK;
}

static pkv_status regions_admit(pkv__placement *base, const int32_t *ids, int32_t n,
                                int32_t n_longest, int32_t n_seqs, int32_t watermark, int32_t *seq,
                                int32_t *claimed)
{
    regions *p = regions_of(base);
    if (!ids || n < 1 || n_longest < n || n_seqs < 1 || watermark < 0) return PKV_E_INVALID_ARG;
    if (n_longest > p->max_context || n_seqs > p->numbers.n_free) return PKV_E_LIMIT;
    const int32_t size = region_granules(p, n_longest);
    if ((int64_t)n_seqs * size > p->n_granules - 1) return PKV_E_NEVER;
    const int32_t number = place(p, size);
    if (number == NO_REGION) return PKV_E_NO_BLOCKS;
    const pkv_status status = add_spares(p, number, n_seqs - 1);
    if (status != PKV_OK) {
        give_back(p, number);
        return status;
    }
    p->list[number].reserved = n;
    *seq = number;
    *claimed = 0;
    return PKV_OK;
}

/* Longest that a sequence in this region can get; a granule may reach beyond the context. */
static int64_t capacity(const regions *p, const region *r)
{
    const int64_t n = (int64_t)r->n * p->base.block_tokens;
    return n < p->max_context ? n : p->max_context;
}

static pkv_status regions_reserve(pkv__placement *base, const int32_t *seqs,
                                  const int32_t *n_tokens, int32_t n)
{
    const regions *p = regions_in(base);
    if (n == 0) return PKV_OK;
    if (!seqs || !n_tokens || n < 0 || n > p->max_seqs) return PKV_E_INVALID_ARG;
    for (int32_t i = 0; i < n; i++) {
        const region *r = find(p, seqs[i]);
        if (!r) return PKV_E_STALE;
        if (n_tokens[i] < 0) return PKV_E_INVALID_ARG;
        if ((int64_t)r->committed + n_tokens[i] > capacity(p, r)) return PKV_E_LIMIT;
    }
    for (int32_t i = 0; i < n; i++) {
        region *r = &p->list[seqs[i]];
        r->reserved = pkv__max_i32(r->reserved, r->committed + n_tokens[i]);
    }
    return PKV_OK;
}

/* ---------------------------------------------------------------- sequences */

/* The first n_tokens of each of `n_pieces` runs of rows. */
static void copy_rows(const regions *p, size_t at, size_t row_bytes, const region *from,
                      const region *to, int32_t n_tokens)
{
    const size_t tokens = (size_t)p->base.block_tokens;
    for (size_t piece = 0; piece < p->layout.n_pieces; piece++) {
        uint8_t *rows = p->slab + at + piece * n_slots(p) * row_bytes;
        memcpy(rows + (size_t)to->start * tokens * row_bytes,
               rows + (size_t)from->start * tokens * row_bytes, (size_t)n_tokens * row_bytes);
    }
}

static void copy_region(regions *p, const region *from, region *to)
{
    copy_rows(p, 0, p->layout.row_bytes, from, to, from->committed);
    if (p->scales_at > 0) copy_rows(p, p->scales_at, sizeof(float), from, to, from->committed);
    if (p->zeros_at > 0) copy_rows(p, p->zeros_at, sizeof(float), from, to, from->committed);
    p->n_copied += granules(p, from->committed);
    p->n_filled += from->committed;
    to->committed = to->reserved = from->committed;
    to->before = from->before;
}

static pkv_status regions_fork(pkv__placement *base, int32_t parent, int32_t *children, int32_t n)
{
    regions *p = regions_of(base);
    region *from = find(p, parent);
    if (!children || n < 1) return PKV_E_INVALID_ARG;
    if (!from) return PKV_E_STALE;
    int32_t n_more = n;
    for (int32_t i = from->next_spare; i != NO_REGION && n_more > 0; i = p->list[i].next_spare)
        n_more--;
    if (n_more > p->numbers.n_free) return PKV_E_LIMIT;
    const pkv_status status = add_spares(p, parent, n_more);
    if (status != PKV_OK) return status;
    from->reserved = from->committed;
    for (int32_t i = 0; i < n; i++) {
        region *to = &p->list[from->next_spare];
        children[i] = from->next_spare;
        from->next_spare = to->next_spare;
        to->next_spare = NO_REGION;
        to->spare = false;
        copy_region(p, from, to);
    }
    return PKV_OK;
}

static void regions_close(pkv__placement *base, int32_t seq)
{
    regions *p = regions_of(base);
    const region *r = find(p, seq);
    if (!r) return;
    p->n_filled -= r->committed;
    drop_spares(p, seq);
    give_back(p, seq);
}

static void regions_slots(const pkv__placement *base, int32_t seq, int32_t first, int32_t n,
                          int64_t *slots)
{
    const regions *p = regions_in(base);
    const region *r = find(p, seq);
    PKV_ASSERT(r && first >= 0 && first + n <= r->reserved);
    for (int32_t i = 0; r && i < n; i++)
        slots[i] = (int64_t)r->start * base->block_tokens + first + i;
}

static const int32_t *regions_row(const pkv__placement *base, int32_t seq, int32_t *n_ids)
{
    const regions *p = regions_in(base);
    const region *r = find(p, seq);
    *n_ids = r ? granules(p, r->reserved) : 0;
    return r ? p->ids + r->start : NULL;
}

static int32_t regions_committed(const pkv__placement *base, int32_t seq)
{
    const region *r = find(regions_in(base), seq);
    return r ? r->committed : 0;
}

/* ---------------------------------------------------------------- steps */

static pkv_status regions_step_begin(pkv__placement *base)
{
    regions *p = regions_of(base);
    if (p->in_step) return PKV_E_LIMIT;
    for (int32_t i = 0; i < p->max_seqs; i++) p->list[i].before = -1;
    p->in_step = true;
    return PKV_OK;
}

static pkv_status regions_commit(pkv__placement *base, int32_t seq, const int32_t *ids, int32_t n)
{
    regions *p = regions_of(base);
    region *r = find(p, seq);
    (void)ids; /* nothing is found by content */
    if (!r) return PKV_E_STALE;
    if (n < 0) return PKV_E_INVALID_ARG;
    if (n > r->reserved - r->committed) return PKV_E_STATE;
    if (p->in_step && r->before < 0) r->before = r->committed;
    r->committed += n;
    p->n_filled += n;
    return PKV_OK;
}

static pkv_status regions_step_retire(pkv__placement *base)
{
    regions *p = regions_of(base);
    if (!p->in_step) return PKV_E_STALE;
    p->in_step = false;
    return PKV_OK;
}

static void regions_step_abort(pkv__placement *base)
{
    regions *p = regions_of(base);
    if (!p->in_step) return;
    p->in_step = false;
    for (int32_t i = 0; i < p->max_seqs; i++) {
        region *r = find(p, i);
        if (!r || r->before < 0) continue;
        p->n_filled -= r->committed - r->before;
        r->committed = r->reserved = r->before;
    }
}

static pkv_status regions_suspend(pkv__placement *base, const int32_t *seqs, int32_t n)
{
    (void)base, (void)seqs, (void)n;
    return PKV_E_UNSUPPORTED;
}

static pkv_status regions_resume(pkv__placement *base, const int32_t *seqs, int32_t n,
                                 int32_t watermark)
{
    (void)base, (void)seqs, (void)n, (void)watermark;
    return PKV_E_UNSUPPORTED;
}

static size_t regions_swap_bytes(const pkv__placement *base, const int32_t *seqs, int32_t n)
{
    (void)base, (void)seqs, (void)n;
    return 0;
}

/* ---------------------------------------------------------------- figures */

static void regions_usage(const pkv__placement *base, pkv__place_usage *out)
{
    const regions *p = regions_in(base);
    *out = (pkv__place_usage){ .n_blocks = p->n_granules - 1,
                               .n_free = p->n_granules - 1 - p->n_taken,
                               .n_used = p->n_taken,
                               .n_slots_used = (int64_t)p->n_taken * base->block_tokens,
                               .n_slots_filled = p->n_filled,
                               .n_copies = p->n_copied };
}

/* Regions lie behind each other, inside the slab, and are as long as their sequences need; counts
 * are what the list says. */
static pkv_status regions_check(const pkv__placement *base)
{
    const regions *p = regions_in(base);
    int32_t end = 1, n_taken = 0, n_spares = 0, n_chained = 0;
    int64_t n_filled = 0;
    for (int32_t at = 0; at < p->n_regions; at++) {
        const region *r = &p->list[p->order[at]];
        if (r->start < end || r->n < 1 || r->n > p->n_granules - r->start ||
            r->committed > r->reserved || r->reserved > capacity(p, r))
            return pkv__refuse(&p->log, PKV_E_CORRUPT,
                               "placement: region %d at %d of %d blocks holds %d tokens, %d "
                               "reserved; the one before ends at %d",
                               p->order[at], r->start, r->n, r->committed, r->reserved, end);
        end = r->start + r->n;
        n_taken += r->n;
        n_filled += r->committed;
        n_spares += r->spare;
        n_chained += r->next_spare != NO_REGION;
    }
    if (n_taken == p->n_taken && n_filled == p->n_filled && n_spares == n_chained &&
        p->n_regions == p->max_seqs - p->numbers.n_free)
        return PKV_OK;
    return pkv__refuse(&p->log, PKV_E_CORRUPT,
                       "placement: %d regions with %d blocks and %lld tokens, %d spare, %d in "
                       "chains; counted are %d blocks, %lld tokens, %d free numbers of %d",
                       p->n_regions, n_taken, (long long)n_filled, n_spares, n_chained, p->n_taken,
                       (long long)p->n_filled, p->numbers.n_free, p->max_seqs);
}

static const pkv__place_ops regions_ops = {
    .destroy = regions_destroy,
    .fits = regions_fits,
    .admit = regions_admit,
    .reserve = regions_reserve,
    .fork = regions_fork,
    .close = regions_close,
    .slots = regions_slots,
    .row = regions_row,
    .committed = regions_committed,
    .step_begin = regions_step_begin,
    .commit = regions_commit,
    .step_retire = regions_step_retire,
    .step_abort = regions_step_abort,
    .suspend = regions_suspend,
    .resume = regions_resume,
    .swap_bytes = regions_swap_bytes,
    .usage = regions_usage,
    .check = regions_check,
};
