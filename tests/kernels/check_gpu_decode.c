/* check_gpu, stages decode and batches: one row per sequence. */
#include "check_gpu_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls in a graph: as many as it takes to read three times what the L2 holds, for the next round
 * to find nothing of the last. */
static int32_t tables_for(const struct gpu *g, const struct gpu_shape *s)
{
    double bytes = 0;
    for (int32_t i = 0; i < s->n_seqs; i++)
        bytes += (double)s->kv_len[i] * s->n_kv_heads * s->dim * pkv_dtype_bits(s->kv_dtype) / 4;
    const double n = ceil(3 * (double)g->about.l2_bytes / (bytes > 0 ? bytes : 1));
    return n < 1 ? 1 : n > 64 ? 64 : (int32_t)n;
}

static struct gpu_result *time_shape(struct gpu *g, struct gpu_shape *s, const char *name)
{
    struct gpu_batch b;
    if (gpu_out_of_time(g, name)) return NULL;
    struct gpu_result *r = gpu_add(g, GPU_OK, "%s", name);
    s->n_tables = s->block_tokens ? tables_for(g, s) : 1;
    if (gpu_batch_make(g, r, s, &b) &&
        gpu_measure(g, r, gpu_batch_run, &b, b.shape.n_tables, b.kv_bytes, "GB/s")) {
        gpu_batch_finite(&b, r);
        if (b.max_kv_len <= 4096) {
            gpu_batch_verify(&b, r, 0, s->q_len - 1, 0);
            gpu_batch_verify(&b, r, s->n_seqs - 1, s->q_len - 1, s->n_q_heads - 1);
        }
        if (!s->block_tokens) gpu_note(r, "warm L2 where it fits");
    }
    gpu_batch_free(&b);
    return r;
}

struct heads {
    int32_t n_q, n_kv;
};

/* The line of the same batch with another type or block; NULL: there is none, or nothing was timed.
 */
static const struct gpu_result *like(const struct gpu *g, const struct gpu_result *r,
                                     const char *from, const char *to)
{
    const char *at = strstr(r->name, from);
    char name[sizeof(r->name)];
    if (!at || g->dry_run) return NULL;
    snprintf(name, sizeof(name), "%.*s%s%s", (int)(at - r->name), r->name, to, at + strlen(from));
    for (int i = 0; i < g->n_results; i++)
        if (strcmp(g->results[i].name, name) == 0 && g->results[i].median_us > 0)
            return &g->results[i];
    return NULL;
}

static void goal(struct gpu_result *r, bool met, const char *fmt, double wanted)
{
    if (r->verdict != GPU_MEASURED) return;
    snprintf(r->goal, sizeof(r->goal), fmt, wanted);
    r->verdict = met ? GPU_MET : GPU_MISSED;
}

/* G1: from 512 MB on, also against one piece; G2: times of one sequence; G3: against bf16. */
static void judge(struct gpu *g, struct gpu_result *r, const struct gpu_shape *s, double bytes)
{
    const bool bf16 = s->kv_dtype == PKV_BF16, large = bytes >= 512e6;
    const struct gpu_result *paged = like(g, r, "in one piece", "block 16");
    const struct gpu_result *wide = like(g, r, pkv_dtype_name(s->kv_dtype), "bf16");
    const double of_block = s->block_tokens >= 16 ? 0.95 : 0.85;
    const int32_t keys = s->kv_len[0];
    const double most = keys == 1024 ? 6 : keys == 4096 ? 8 : 36;
    gpu_judge(g, r, g->copy_gbs, "G1", large && bf16 && s->block_tokens > 0 ? of_block : 0);
    if (r->median_us <= 0) return;
    if (paged && large)
        goal(r, paged->median_us <= 1.02 * r->median_us, "G1 paged <= %.2f x its time", 1.02);
    if (wide && !bf16 && bytes * 16 / pkv_dtype_bits(s->kv_dtype) >= 512e6) {
        const double wanted = s->kv_dtype == PKV_U4 ? 3 : 1.8;
        goal(r, wide->median_us >= wanted * r->median_us, "G3 >= %.1f x bf16", wanted);
    }
    if (s->n_seqs == 1 && s->n_q_heads == 32 && s->n_kv_heads == 8 && bf16 &&
        s->block_tokens == 16 && keys != 16384)
        goal(r, r->median_us <= most, "G2 <= %.0f us", most);
}

static void grid(struct gpu *g, struct heads h, pkv_dtype dtype, int32_t block)
{
    static const int32_t batch[] = { 1, 8, 64, 256 }, length[] = { 1024, 4096, 16384, 32768 };
    const int n = g->dry_run ? 1 : 4;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            const int32_t n_seqs = g->dry_run ? 2 : batch[i], keys = g->dry_run ? 45 : length[j];
            int32_t *lens = malloc((size_t)n_seqs * sizeof(*lens));
            char name[96];
            if (!lens) exit(2);
            for (int32_t b = 0; b < n_seqs; b++) lens[b] = keys;
            struct gpu_shape s = { n_seqs,   h.n_q, h.n_kv, 128, block, dtype,
                                   PKV_BF16, 1,     lens,   1,   false };
            char how[24] = "in one piece";
            if (block > 0) snprintf(how, sizeof(how), "block %d", block);
            snprintf(name, sizeof(name), "decode %d x %d, heads %d/%d, %s, %s", n_seqs, keys, h.n_q,
                     h.n_kv, pkv_dtype_name(dtype), how);
            struct gpu_result *r = time_shape(g, &s, name);
            const double bytes = (double)n_seqs * keys * h.n_kv * 128 * pkv_dtype_bits(dtype) / 4;
            if (r) judge(g, r, &s, bytes);
            free(lens);
        }
}

/* The lines that a goal asks about come first. */
void gpu_decode(struct gpu *g)
{
    static const struct heads heads[] = { { 32, 8 }, { 64, 8 }, { 32, 4 }, { 32, 32 } };
    static const pkv_dtype types[] = { PKV_BF16, PKV_E4M3, PKV_U4 };
    static const int32_t blocks[] = { 16, 64, 1, 0 };
    const int n_heads = g->dry_run ? 2 : 4;
    for (int h = 0; h < n_heads; h++)
        for (int t = 0; t < 3; t++)
            for (int b = 0; b < 4; b++)
                if (blocks[b] > 0 || types[t] == PKV_BF16) grid(g, heads[h], types[t], blocks[b]);
}

/* Lengths 128 .. 64k whose share falls with their rank. */
static void zipf(int32_t *lens, int32_t n, int32_t most)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t len = most / (i + 1);
        lens[i] = len < 128 ? 128 : len;
    }
}

void gpu_batches(struct gpu *g)
{
    int32_t lens[64];
    const int32_t n = g->dry_run ? 6 : 64;
    double rate = 0;
    zipf(lens, n, g->dry_run ? 200 : 65536);
    if (g->dry_run)
        for (int32_t i = 0; i < n; i++) lens[i] = lens[i] / 4 + 1;
    for (int invariant = 0; invariant < 2; invariant++) {
        struct gpu_shape s = { n, 32, 8, 128, 16, PKV_BF16, PKV_BF16, 1, lens, 1, invariant == 1 };
        char name[96];
        snprintf(name, sizeof(name), "decode %d sequences, lengths after Zipf%s", n,
                 invariant ? ", invariant" : "");
        struct gpu_result *r = time_shape(g, &s, name);
        if (!r) continue;
        if (!invariant) {
            rate = r->rate;
            gpu_judge(g, r, g->copy_gbs, "G4", 0.9);
        } else {
            gpu_judge(g, r, rate, "G4, of the default mode", 1 / 1.1);
        }
    }
}
