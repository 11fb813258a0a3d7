/* check_gpu, stage bits: what must not change one bit of a result. */
#include "check_gpu_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* out and lse as bytes. */
struct copy {
    unsigned char *bytes;
    size_t n;
};

static struct copy fetch(const struct gpu_batch *b)
{
    struct copy c = { malloc(b->out_bytes + b->lse_bytes), b->out_bytes + b->lse_bytes };
    if (!c.bytes) exit(2);
    gpu_download(c.bytes, b->out.data, b->out_bytes);
    gpu_download(c.bytes + b->out_bytes, b->lse.data, b->lse_bytes);
    return c;
}

static void paint(struct gpu_batch *b)
{
    gpu_fill(b->out.data, 0xff, b->out_bytes);
    gpu_fill(b->lse.data, 0xff, b->lse_bytes);
}

/* Results of a fresh call. */
static bool call(struct gpu_batch *b, struct gpu_result *r, struct copy *c)
{
    paint(b);
    if (!gpu_took(b->g, r, gpu_batch_run(b)) || !gpu_finished(r)) return false;
    *c = fetch(b);
    return true;
}

/* Releases `other`. */
static void same(struct gpu_result *r, const struct copy *a, struct copy *other, const char *what)
{
    size_t at = 0;
    while (at < a->n && a->bytes[at] == other->bytes[at]) at++;
    if (at < a->n && r->verdict != GPU_WRONG) {
        r->verdict = GPU_WRONG;
        gpu_note(r, "%s: byte %zu of %zu differs", what, at, a->n);
    }
    free(other->bytes);
}

/* A graph that was recorded with short lengths follows the lengths that lie on the device. */
static void replay(struct gpu_batch *b, struct gpu_result *r, struct rng *rng)
{
    const size_t bytes = (size_t)b->shape.n_seqs * sizeof(int32_t);
    int32_t *lens = malloc(bytes);
    pkv_status status = PKV_OK;
    if (!lens) exit(2);
    for (int32_t i = 0; i < b->shape.n_seqs; i++) lens[i] = b->shape.q_len;
    gpu_upload(b->dev_kv_len, lens, bytes);
    struct gpu_graph *graph = gpu_record(gpu_batch_run, b, &status);
    if (!graph && gpu_took(b->g, r, status)) {
        r->verdict = GPU_WRONG;
        gpu_note(r, "the graph was refused");
    }
    for (int step = 0; graph && step < 4; step++) {
        struct copy direct, replayed;
        for (int32_t i = 0; i < b->shape.n_seqs; i++)
            lens[i] = step == 3 ? b->kv_len[i] : rng_int(rng, lens[i], b->kv_len[i]);
        gpu_upload(b->dev_kv_len, lens, bytes);
        if (!call(b, r, &direct)) break;
        paint(b);
        gpu_replay(graph);
        if (!gpu_finished(r)) break;
        replayed = fetch(b);
        same(r, &direct, &replayed, "replay after lengths grew");
        free(direct.bytes);
    }
    gpu_graph_free(graph);
    gpu_upload(b->dev_kv_len, b->kv_len, bytes);
    free(lens);
}

static void repeat(struct gpu_batch *b, struct gpu_result *r, const struct copy *first)
{
    struct copy again;
    const int n = b->g->dry_run ? 2 : 100;
    for (int i = 0; i < n && call(b, r, &again); i++) same(r, first, &again, "the same call again");
}

/* The blocks of the batch copied to the end of the pool. */
static void rename_blocks(struct gpu_batch *b, struct gpu_result *r, const struct copy *first)
{
    const int64_t n_ids = (int64_t)b->shape.n_seqs * b->row_ids;
    pkv_block_copy *copies = malloc((size_t)n_ids * sizeof(*copies));
    int32_t *ids = malloc((size_t)n_ids * sizeof(*ids)), n = 0;
    if (!copies || !ids) exit(2);
    for (int64_t i = 0; i < n_ids; i++) {
        ids[i] = b->ids[i];
        if (ids[i] == 0) continue; /* beyond the sequence */
        ids[i] = b->n_blocks - 1 - n;
        copies[n++] = (pkv_block_copy){ b->ids[i], ids[i], b->shape.block_tokens, 0 };
    }
    const double far = (double)(b->n_blocks - 1) * (double)b->k.block_stride;
    struct copy renamed;
    if (gpu_took(b->g, r,
                 pkv_blocks_copy(b->g->be, b->g->pool, b->block_bytes, b->n_blocks, copies, n, NULL,
                                 0, gpu_stream()))) {
        gpu_upload(b->dev_table, ids, (size_t)n_ids * sizeof(*ids));
        if (call(b, r, &renamed)) same(r, first, &renamed, "other blocks");
        if (r->verdict == GPU_OK)
            gpu_note(r, "offsets to 2^%.1f elements", far > 0 ? __builtin_log2(far) : 0);
        gpu_upload(b->dev_table, b->ids, (size_t)n_ids * sizeof(*ids));
    }
    free(copies);
    free(ids);
}

/* Invariant mode: each sequence has the bits that it has alone. */
static void company(struct gpu_batch *b, struct gpu_result *r, const struct copy *all)
{
    const size_t o = b->out_bytes / (size_t)b->shape.n_seqs;
    const size_t l = b->lse_bytes / (size_t)b->shape.n_seqs;
    for (int32_t i = 0; i < b->shape.n_seqs && r->verdict == GPU_OK; i++) {
        struct gpu_batch one = *b;
        struct copy alone;
        one.shape.n_seqs = 1;
        one.batch.n_seqs = 1;
        one.batch.table += (int64_t)i * b->row_ids;
        one.batch.kv_len += i;
        one.batch.q_indptr += i;
        if (!call(&one, r, &alone)) return;
        const size_t lse_at = b->out_bytes + (size_t)i * l;
        if (memcmp(alone.bytes + (size_t)i * o, all->bytes + (size_t)i * o, o) != 0 ||
            memcmp(alone.bytes + lse_at, all->bytes + lse_at, l) != 0) {
            r->verdict = GPU_WRONG;
            gpu_note(r, "sequence %d has other bits alone", i);
        }
        free(alone.bytes);
    }
}

static void check(struct gpu *g, const struct gpu_shape *shape, const char *what)
{
    struct rng rng = { g->seed + 2 };
    struct gpu_batch b;
    struct copy first;
    char name[64];
    snprintf(name, sizeof(name), "%s of %d rows over %s, dim %d%s", what, shape->q_len,
             pkv_dtype_name(shape->kv_dtype), shape->dim, shape->invariant ? ", invariant" : "");
    if (gpu_out_of_time(g, name)) return;
    struct gpu_result *r = gpu_add(g, GPU_OK, "%s", name);
    if (gpu_batch_make(g, r, shape, &b) && call(&b, r, &first)) {
        gpu_batch_finite(&b, r);
        gpu_batch_verify(&b, r, shape->n_seqs - 1, shape->q_len - 1, shape->n_q_heads - 1);
        repeat(&b, r, &first);
        rename_blocks(&b, r, &first);
        if (shape->invariant) company(&b, r, &first);
        replay(&b, r, &rng);
        free(first.bytes);
    }
    gpu_batch_free(&b);
}

/* G5: of the default mode, whatever the batch. */
static void workspace(struct gpu *g)
{
    size_t bytes = 0;
    struct gpu_result *r = gpu_add(g, GPU_OK, "workspace, heads 128/8, dim 128");
    if (!gpu_took(g, r, pkv_attn_workspace(g->be, 128, 8, 128, 128, &bytes))) return;
    r->verdict = bytes <= 8 << 20 ? GPU_MET : GPU_MISSED;
    snprintf(r->goal, sizeof(r->goal), "G5 <= 8 MiB");
    gpu_note(r, "%zu bytes", bytes);
}

void gpu_bits(struct gpu *g)
{
    static const pkv_dtype types[] = { PKV_F16, PKV_BF16, PKV_E4M3, PKV_E5M2, PKV_I8, PKV_U4 };
    const int32_t n = g->dry_run ? 3 : 12, most = g->dry_run ? 70 : 3000;
    const int n_types = g->dry_run ? 3 : 6;
    struct rng rng = { g->seed };
    int32_t lens[12];
    workspace(g);
    for (int t = 0; t < n_types; t++)
        for (int kind = 0; kind < 4; kind++) {
            const int32_t q_len = kind % 2 ? 9 : 1, dim = t % 2 ? 64 : 128;
            const struct gpu_shape shape = { n,
                                             8,
                                             2,
                                             dim,
                                             (const int32_t[]){ 16, 1, 24 }[t % 3],
                                             types[t],
                                             types[t] == PKV_F16 ? PKV_F16 : PKV_BF16,
                                             q_len,
                                             lens,
                                             1,
                                             kind >= 2 };
            for (int32_t i = 0; i < n; i++) lens[i] = rng_int(&rng, q_len, most);
            check(g, &shape, "attention");
        }
}
