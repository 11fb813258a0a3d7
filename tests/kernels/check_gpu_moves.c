/* check_gpu, stage moves: rows into a store and out of it, blocks, merges. Each is compared with
 * what it should have left, then timed. */
#include "check_gpu.h"
#include "pagedkv/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct move {
    struct gpu *g;
    pkv_kv_view k, v;
    pkv_tensor3 rows, back;
    int64_t *slots;
    size_t block_bytes;
    int32_t n_blocks, n;
    pkv_block_copy *copies;
    int32_t *ids;
    void *host;
    pkv_lse lse, out_lse;
};

static pkv_status write_rows(void *ctx)
{
    struct move *m = ctx;
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    args.k = args.v = &m->rows;
    args.slots = m->slots;
    args.k_view = &m->k;
    args.v_view = &m->v;
    return pkv_kv_write(m->g->be, &args, gpu_stream());
}

static pkv_status gather_rows(void *ctx)
{
    struct move *m = ctx;
    return pkv_kv_gather(m->g->be, &m->k, m->slots, &m->back, NULL, gpu_stream());
}

static pkv_status copy_blocks(void *ctx)
{
    struct move *m = ctx;
    return pkv_blocks_copy(m->g->be, m->g->pool, m->block_bytes, m->n_blocks, m->copies, m->n, NULL,
                           0, gpu_stream());
}

static pkv_status swap_out(void *ctx)
{
    struct move *m = ctx;
    return pkv_blocks_gather(m->g->be, m->g->pool, m->block_bytes, m->n_blocks, m->ids, m->n,
                             m->host, gpu_stream());
}

static pkv_status swap_in(void *ctx)
{
    struct move *m = ctx;
    return pkv_blocks_scatter(m->g->be, m->host, m->ids, m->n, m->g->pool, m->block_bytes,
                              m->n_blocks, gpu_stream());
}

static pkv_status merge(void *ctx)
{
    struct move *m = ctx;
    const pkv_tensor3 o[2] = { m->rows, m->rows };
    const pkv_lse lse[2] = { m->lse, m->lse };
    return pkv_states_merge(m->g->be, o, lse, 2, gpu_stream(), &m->back, &m->out_lse);
}

/* Bytes of the device against bytes of the device. */
static void same(struct gpu_result *r, const void *a, const void *b, size_t bytes)
{
    unsigned char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    if (!x || !y) exit(2);
    gpu_download(x, a, bytes);
    gpu_download(y, b, bytes);
    if (memcmp(x, y, bytes) != 0) {
        r->verdict = GPU_WRONG;
        gpu_note(r, "other bytes than there should be");
    }
    free(x);
    free(y);
}

static pkv_tensor3 make_tensor(const struct gpu *g, int64_t n, size_t bytes)
{
    pkv_tensor3 t = { gpu_alloc(bytes), PKV_BF16, 8, 128, n, 8 * 128, 128 };
    if (t.data) gpu_copy(t.data, g->pool, bytes);
    return t;
}

/* Into blocks of 16 in random order and back, and two equal states, whose merge is either. */
static void rows(struct gpu *g)
{
    const int32_t n = g->dry_run ? 40 : 8192;
    const size_t bytes = (size_t)n * 8 * 128 * 2;
    struct move m = { .g = g };
    struct rng rng = { g->seed };
    pkv_store *store = NULL;
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    cfg.shape = (pkv_kv_shape){ 1, 8, 128, 16, PKV_BF16 };
    cfg.n_blocks = n / 16 + 2;
    cfg.memory = g->pool;
    cfg.memory_bytes = g->pool_bytes;
    cfg.on_device = true;
    struct gpu_result *r = gpu_add(g, GPU_OK, "kv_write %d tokens, 8 heads of 128, bf16", n);
    int64_t *slots = malloc((size_t)n * sizeof(*slots));
    int32_t *order = malloc((size_t)n * sizeof(*order));
    if (!slots || !order) exit(2);
    rng_permutation(&rng, order, n);
    for (int32_t i = 0; i < n; i++) slots[i] = 16 + order[i]; /* behind the null block */
    m.rows = make_tensor(g, n, bytes);
    m.back = make_tensor(g, n, bytes);
    m.slots = gpu_alloc((size_t)n * sizeof(*slots));
    m.lse = (pkv_lse){ gpu_alloc((size_t)n * 8 * 4), 8, 1, 0 };
    m.out_lse = (pkv_lse){ gpu_alloc((size_t)n * 8 * 4), 8, 1, 0 };
    const bool room = m.rows.data && m.back.data && m.slots && m.lse.data && m.out_lse.data;
    if (!room) r->verdict = GPU_SKIPPED;
    if (room && gpu_took(g, r, pkv_store_create(&cfg, &store)) &&
        gpu_took(g, r, pkv_store_views(store, 0, &m.k, &m.v))) {
        gpu_upload(m.slots, slots, (size_t)n * sizeof(*slots));
        gpu_fill(m.back.data, 0xff, bytes);
        gpu_fill(m.lse.data, 0, (size_t)n * 8 * 4);
        if (gpu_measure(g, r, write_rows, &m, 1, 4.0 * (double)bytes, "GB/s"))
            gpu_judge(g, r, g->copy_gbs, "", 0);
        r = gpu_add(g, GPU_OK, "kv_gather %d tokens, 8 heads of 128, bf16", n);
        if (gpu_measure(g, r, gather_rows, &m, 1, 2.0 * (double)bytes, "GB/s")) {
            same(r, m.rows.data, m.back.data, bytes);
            gpu_judge(g, r, g->copy_gbs, "", 0);
        }
        r = gpu_add(g, GPU_OK, "merge of 2 states, %d rows of 8 heads, bf16", n);
        gpu_fill(m.back.data, 0xff, bytes);
        if (gpu_measure(g, r, merge, &m, 1, 3.0 * (double)bytes, "GB/s")) {
            same(r, m.rows.data, m.back.data, bytes);
            gpu_judge(g, r, g->copy_gbs, "", 0);
        }
    }
    void *const device[] = { m.rows.data, m.back.data, m.slots, m.lse.data, m.out_lse.data };
    for (size_t i = 0; i < sizeof(device) / sizeof(device[0]); i++) gpu_free(device[i]);
    pkv_store_destroy(store);
    free(slots);
    free(order);
}

static void copies(struct gpu *g, struct move *m)
{
    const double bytes = (double)m->block_bytes * m->n;
    struct gpu_result *r =
        gpu_add(g, GPU_OK, "copy of %d blocks of %zu bytes", m->n, m->block_bytes);
    for (int32_t i = 0; i < m->n; i++)
        m->copies[i] = (pkv_block_copy){ m->ids[i], m->n + 1 + i, 0, 0 };
    if (!gpu_measure(g, r, copy_blocks, m, 1, 2 * bytes, "GB/s")) return;
    same(r, g->pool + (size_t)m->ids[m->n / 2] * m->block_bytes,
         g->pool + (size_t)(m->n + 1 + m->n / 2) * m->block_bytes, m->block_bytes);
    gpu_judge(g, r, g->copy_gbs, "", 0);
}

static void swaps(struct gpu *g, struct move *m)
{
    const size_t bytes = m->block_bytes * (size_t)m->n, at = (size_t)(m->n - 1) * m->block_bytes;
    struct gpu_result *r =
        gpu_add(g, GPU_OK, "swap out %d blocks of %zu bytes", m->n, m->block_bytes);
    char *const last = g->pool + (size_t)m->ids[m->n - 1] * m->block_bytes;
    if (gpu_measure(g, r, swap_out, m, 1, (double)bytes, "GB/s"))
        same(r, last, (char *)m->host + at, m->block_bytes);
    r = gpu_add(g, GPU_OK, "swap in %d blocks of %zu bytes", m->n, m->block_bytes);
    memset((char *)m->host + at, 0x3c, m->block_bytes);
    if (gpu_measure(g, r, swap_in, m, 1, (double)bytes, "GB/s"))
        same(r, last, (char *)m->host + at, m->block_bytes);
}

void gpu_moves(struct gpu *g)
{
    static const size_t sizes[] = { 4096, 32768, 262144, 2097152 };
    struct rng rng = { g->seed };
    rows(g);
    for (int i = 0; i < (g->dry_run ? 2 : 4); i++) {
        const int32_t n = g->dry_run ? 5 : sizes[i] < 100000 ? 2048 : 256;
        struct move m = { .g = g, .block_bytes = sizes[i], .n = n, .n_blocks = 2 * n + 2 };
        char name[48];
        snprintf(name, sizeof(name), "blocks of %zu bytes", sizes[i]);
        if (gpu_out_of_time(g, name)) continue;
        if ((size_t)m.n_blocks * m.block_bytes > g->pool_bytes) {
            gpu_note(gpu_add(g, GPU_SKIPPED, "%s", name), "the pool is too small");
            continue;
        }
        m.copies = malloc((size_t)n * sizeof(*m.copies));
        m.ids = malloc((size_t)n * sizeof(*m.ids));
        m.host = gpu_alloc_host((size_t)n * m.block_bytes);
        if (!m.copies || !m.ids || !m.host) exit(2);
        rng_permutation(&rng, m.ids, n);
        for (int32_t j = 0; j < n; j++) m.ids[j]++;
        copies(g, &m);
        swaps(g, &m);
        gpu_free_host(m.host);
        free(m.copies);
        free(m.ids);
    }
}
