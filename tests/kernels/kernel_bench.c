/* check_kernels --bench: decode attention per level, through a table and without one, against a
 * loop that only reads the same bytes. Runs take turns, so that a slow minute hits all alike. */
#include "check_kernels.h"
#include "hostile_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_SEQS = 4, KV_LEN = 4096, HEADS_Q = 32, HEADS_KV = 8, DIM = 128, BLOCK = 16, N_RUNS = 7 };
enum { BLOCKS_PER_SEQ = KV_LEN / BLOCK, N_BLOCKS = 1 + N_SEQS * BLOCKS_PER_SEQ };

struct bench {
    pkv_backend *be[PKV_ISA_AVX512 + 1];
    pkv_dtype dtype;
    size_t kv_bytes; /* of all keys and values, read once per call */
    unsigned char *pool, *contiguous;
    int32_t table[N_SEQS * BLOCKS_PER_SEQ], kv_len[N_SEQS];
    void *q, *out, *workspace;
    size_t workspace_bytes;
    uint64_t sink; /* the read loop's sums end here, and on the screen: nothing can be left out */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t read_all(const unsigned char *data, size_t bytes)
{
    uint64_t sum[8] = { 0 };
    const uint64_t *p = (const uint64_t *)(const void *)data;
    for (size_t i = 0; i + 8 <= bytes / 8; i += 8)
        for (size_t k = 0; k < 8; k++) sum[k] += p[i + k];
    for (size_t k = 1; k < 8; k++) sum[0] += sum[k];
    return sum[0];
}

static pkv_kv_view view_of(const struct bench *b, unsigned char *data, bool paged)
{
    const int64_t tokens = paged ? BLOCK : KV_LEN;
    return (pkv_kv_view){ data,
                          b->dtype,
                          paged ? N_BLOCKS : N_SEQS,
                          (int32_t)tokens,
                          HEADS_KV,
                          DIM,
                          2 * tokens * HEADS_KV * DIM,
                          DIM,
                          2 * tokens * DIM,
                          { NULL, 0, 0, 0 },
                          { NULL, 0, 0, 0 } };
}

static double run_once(struct bench *b, pkv_isa isa, bool paged, const char **name)
{
    const pkv_tensor3 q = { b->q, b->dtype, HEADS_Q, DIM, N_SEQS, HEADS_Q * DIM, DIM };
    pkv_tensor3 out = q;
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    const pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    unsigned char *data = paged ? b->pool : b->contiguous;
    const pkv_kv_view k = view_of(b, data, paged);
    pkv_kv_view v = k;
    const int64_t v_first = (int64_t)k.block_tokens * DIM * pkv_dtype_bits(b->dtype) / 8;
    v.data = data + v_first;
    out.data = b->out;
    batch.n_seqs = N_SEQS;
    batch.kv_len = b->kv_len;
    if (paged) {
        batch.table = b->table;
        batch.table_stride = BLOCKS_PER_SEQ;
    }
    *name = pkv_attn_kernel_name(b->be[isa], &q, &k, &v, &batch, &opts, 1);
    const double t0 = now();
    const pkv_status status = pkv_attn_run(b->be[isa], &q, &k, &v, &batch, &opts, b->workspace,
                                           b->workspace_bytes, &out, NULL);
    const double t = now() - t0;
    if (status == PKV_OK) return t;
    printf("bench: %s\n", pkv_status_name(status));
    exit(1);
}

/* Normal numbers of this type: the sign and the low bits random, the value between 0.5 and 2. */
static void fill(struct rng *r, unsigned char *data, size_t bytes, pkv_dtype dtype)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        uint64_t x = rng_next(r);
        if (dtype == PKV_F32) x = (x & UINT64_C(0x807fffff807fffff)) | UINT64_C(0x3f0000003f000000);
        if (dtype == PKV_F16) x = (x & UINT64_C(0x87ff87ff87ff87ff)) | UINT64_C(0x3800380038003800);
        memcpy(data + i, &x, sizeof(x));
    }
}

static void *aligned(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!p) {
        fprintf(stderr, "bench: no memory for %zu bytes\n", bytes);
        exit(2);
    }
    return p;
}

static void prepare(struct bench *b, pkv_dtype dtype)
{
    struct rng r = { 1 };
    int32_t order[N_SEQS * BLOCKS_PER_SEQ];
    const size_t elem = (size_t)pkv_dtype_bits(dtype) / 8, per_token = 2 * HEADS_KV * DIM * elem;
    const size_t q_bytes = N_SEQS * HEADS_Q * DIM * elem;
    b->dtype = dtype;
    b->kv_bytes = N_SEQS * KV_LEN * per_token;
    b->pool = aligned(N_BLOCKS * BLOCK * per_token);
    b->contiguous = aligned(b->kv_bytes);
    b->q = aligned(q_bytes);
    b->out = aligned(q_bytes);
    fill(&r, b->pool, N_BLOCKS * BLOCK * per_token, dtype);
    fill(&r, b->contiguous, b->kv_bytes, dtype);
    fill(&r, b->q, q_bytes, dtype);
    rng_permutation(&r, order, N_SEQS * BLOCKS_PER_SEQ);
    for (int32_t i = 0; i < N_SEQS * BLOCKS_PER_SEQ; i++) b->table[i] = 1 + order[i];
    for (int32_t s = 0; s < N_SEQS; s++) b->kv_len[s] = KV_LEN;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof(*t), compare_doubles);
    return t[n / 2];
}

static void report(const char *what, const char *how, double ns, double min_ns, size_t bytes,
                   double read_ns)
{
    printf("%-32s %-10s %12.0f %12.0f %8.2f %8.2f\n", what, how, ns, min_ns, (double)bytes / ns,
           read_ns / ns);
}

static void bench_dtype(struct bench *b, pkv_dtype dtype)
{
    enum { N_ROWS = PKV_ISA_AVX512 + 1 };
    double t[N_ROWS][2][N_RUNS], read[N_RUNS];
    const char *name[N_ROWS][2] = { { NULL } };
    prepare(b, dtype);
    for (int run = -1; run < N_RUNS; run++) { /* run -1 warms up */
        const int at = run < 0 ? 0 : run;
        const double t0 = now();
        b->sink += read_all(b->contiguous, b->kv_bytes);
        read[at] = now() - t0;
        for (int isa = PKV_ISA_SCALAR; isa < N_ROWS; isa++)
            for (int paged = 0; paged < 2 && b->be[isa]; paged++)
                t[isa][paged][at] = run_once(b, (pkv_isa)isa, paged, &name[isa][paged]);
    }
    const double read_ns = median(read, N_RUNS);
    char label[32];
    snprintf(label, sizeof(label), "read loop (%s)", pkv_dtype_name(dtype));
    report(label, "-", read_ns, read[0], b->kv_bytes, read_ns);
    for (int isa = PKV_ISA_SCALAR; isa < N_ROWS; isa++)
        for (int paged = 0; paged < 2 && b->be[isa]; paged++) {
            const double ns = median(t[isa][paged], N_RUNS);
            report(name[isa][paged], paged ? "paged" : "contiguous", ns, t[isa][paged][0],
                   b->kv_bytes, read_ns);
        }
    free(b->pool);
    free(b->contiguous);
    free(b->q);
    free(b->out);
}

int kernel_bench(pkv_isa asked)
{
    static struct bench b;
    int n = 0;
    for (int isa = PKV_ISA_SCALAR; isa <= PKV_ISA_AVX512; isa++) {
        pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
        cfg.max_isa = (pkv_isa)isa;
        if (asked != PKV_ISA_BEST && asked != (pkv_isa)isa) continue;
        if (pkv_backend_create_cpu(&cfg, &b.be[isa]) == PKV_OK) n++;
        else printf("SKIPPED level %s: not here\n", pkv_isa_name((pkv_isa)isa));
    }
    if (n == 0) return 77;
    const pkv_isa any = asked != PKV_ISA_BEST ? asked : PKV_ISA_SCALAR;
    if (pkv_attn_workspace(b.be[any], HEADS_Q, HEADS_KV, DIM, DIM, &b.workspace_bytes) != PKV_OK)
        return 1;
    b.workspace = aligned(b.workspace_bytes);
    printf("decode: %d sequences of %d keys, heads %d/%d, dim %d, block %d in random order, one "
           "thread; median and minimum of %d\n",
           N_SEQS, KV_LEN, HEADS_Q, HEADS_KV, DIM, BLOCK, N_RUNS);
    printf("%-32s %-10s %12s %12s %8s %8s\n", "kernel", "place", "ns/call", "min", "GB/s",
           "of read");
    bench_dtype(&b, PKV_F16);
    bench_dtype(&b, PKV_F32);
    printf("sum of all reads: %llu\n", (unsigned long long)b.sink);
    free(b.workspace);
    for (int isa = PKV_ISA_SCALAR; isa <= PKV_ISA_AVX512; isa++) pkv_backend_destroy(b.be[isa]);
    return 0;
}
