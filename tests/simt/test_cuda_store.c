/* What a serving engine does, on the device and on the CPU side by side: one block manager, two
 * stores. Chunked prefill with a prefix that is found again, decode in batches, a fork whose tail
 * is copied on write, a swap to host memory and back. After every step all bytes of both stores
 * agree, and what attention gives on the device is within the bounds of docs/numerics.md. */
#include "twin_memory.h"

#include "oracle/oracle_attention.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

enum {
    LAYERS = 2,
    KV_HEADS = 2,
    Q_HEADS = 6,
    DIM = 64,
    BLOCK_TOKENS = 16,
    N_BLOCKS = 16,
    HOST_BLOCKS = 6,
    MAX_SEQS = 3,
    MAX_TOKENS = 64,
    MAX_ROWS = 24, /* of a step; as in a captured graph, tensors always have so many */
    N_PROMPT = 37,
    N_COMMON = 32
};

struct engine {
    pkv_backend *cpu, *cuda;
    pkv_store *host_store, *device_store;
    pkv_store_info_t host, device;
    pkv_blockmgr *mgr;
    struct twins mem; /* all arrays of a step, here and on the device */
    pkv_tensor3 q, k, v, out;
    int64_t *slots;
    int32_t *pos, *n_valid, *table, *kv_len, *q_indptr;
    uint32_t *bad;
    float *rope;
    unsigned char *swap, *device_swap; /* [HOST_BLOCKS] x block_bytes, the second page-locked */
    void *workspace, *device_workspace;
    size_t workspace_bytes, device_workspace_bytes;
};

/* One step of a batch: `n[i]` more tokens of sequence i, which has `first[i]`. */
struct step {
    int32_t n_seqs, first[MAX_SEQS], n[MAX_SEQS];
    pkv_seq seq[MAX_SEQS];
    int32_t ids[MAX_ROWS];
};

#define assert_ok(call) assert_int_equal((call), PKV_OK)

/* ---------------------------------------------------------------- setting up */

static pkv_store *make_store(pkv_dtype dtype, bool on_device, pkv_store_info_t *info)
{
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    size_t block_bytes = 0;
    pkv_store *store = NULL;
    cfg.shape = (pkv_kv_shape){ LAYERS, KV_HEADS, DIM, BLOCK_TOKENS, dtype };
    cfg.n_blocks = N_BLOCKS;
    assert_ok(pkv_kv_block_bytes(&cfg.shape, &block_bytes));
    if (on_device) {
        cfg.on_device = true;
        cfg.memory_bytes = N_BLOCKS * block_bytes;
        cfg.memory = device_alloc(cfg.memory_bytes);
    }
    assert_ok(pkv_store_create(&cfg, &store));
    *info = (pkv_store_info_t)PKV_STORE_INFO_INIT;
    assert_ok(pkv_store_info(store, info));
    return store;
}

/* Blocks hold NaN until they are written; the null block is zero. */
static void fill_blocks(const struct engine *e, int32_t first, int32_t n, uint8_t byte)
{
    const size_t bytes = e->host.block_bytes;
    assert_device_ok(
        pkv_blocks_fill(e->cuda, e->device.base, bytes, N_BLOCKS, first, n, byte, NULL));
    assert_ok(pkv_blocks_fill(e->cpu, e->host.base, bytes, N_BLOCKS, first, n, byte, NULL));
}

static pkv_tensor3 rows(struct engine *e, int32_t heads)
{
    void *data = twins_add(&e->mem, (size_t)MAX_ROWS * (size_t)heads * DIM * sizeof(uint16_t));
    return (pkv_tensor3){ data, PKV_F16, heads, DIM, MAX_ROWS, heads * DIM, DIM };
}

static void make_arrays(struct engine *e)
{
    double inv_freq[DIM / 2];
    e->q = rows(e, Q_HEADS);
    e->out = rows(e, Q_HEADS);
    e->k = rows(e, KV_HEADS);
    e->v = rows(e, KV_HEADS);
    e->slots = twins_add(&e->mem, MAX_ROWS * sizeof(int64_t));
    e->pos = twins_add(&e->mem, MAX_ROWS * sizeof(int32_t));
    e->n_valid = twins_add(&e->mem, sizeof(int32_t));
    e->table = twins_add(&e->mem, MAX_SEQS * (MAX_TOKENS / BLOCK_TOKENS) * sizeof(int32_t));
    e->kv_len = twins_add(&e->mem, MAX_SEQS * sizeof(int32_t));
    e->q_indptr = twins_add(&e->mem, (MAX_SEQS + 1) * sizeof(int32_t));
    e->bad = twins_add(&e->mem, 4 * sizeof(uint32_t));
    e->rope = twins_add(&e->mem, MAX_TOKENS * DIM * sizeof(float));
    memset(e->bad, 0, 4 * sizeof(uint32_t));
    for (int i = 0; i < DIM / 2; i++) inv_freq[i] = pow(10000., -2. * i / DIM);
    assert_ok(pkv_rope_fill(e->rope, 0, MAX_TOKENS, inv_freq, DIM, 1.));
}

static void engine_create(struct engine *e, pkv_dtype dtype)
{
    pkv_cpu_config cpu = PKV_CPU_CONFIG_INIT;
    pkv_blockmgr_config mgr = PKV_BLOCKMGR_CONFIG_INIT;
    *e = (struct engine){ .cuda = cuda_backend(NULL, 2) };
    assert_ok(pkv_backend_create_cpu(&cpu, &e->cpu));
    e->host_store = make_store(dtype, false, &e->host);
    e->device_store = make_store(dtype, true, &e->device);
    fill_blocks(e, 0, N_BLOCKS, 0xff);
    fill_blocks(e, 0, 1, 0);
    mgr.n_blocks = N_BLOCKS;
    mgr.block_tokens = BLOCK_TOKENS;
    mgr.max_seqs = MAX_SEQS;
    mgr.max_seq_tokens = MAX_TOKENS;
    mgr.n_host_blocks = HOST_BLOCKS;
    assert_ok(pkv_blockmgr_create(&mgr, NULL, &e->mgr));
    make_arrays(e);
    e->swap = malloc(HOST_BLOCKS * e->host.block_bytes);
    e->device_swap = device_alloc(HOST_BLOCKS * e->host.block_bytes);
    assert_ok(pkv_attn_workspace(e->cpu, Q_HEADS, KV_HEADS, DIM, DIM, &e->workspace_bytes));
    assert_ok(pkv_attn_workspace(e->cuda, Q_HEADS, KV_HEADS, DIM, DIM, &e->device_workspace_bytes));
    e->workspace = aligned_alloc(64, (e->workspace_bytes + 63) / 64 * 64);
    e->device_workspace = device_alloc(e->device_workspace_bytes);
    assert_device_ok(
        pkv_workspace_init(e->cuda, e->device_workspace, e->device_workspace_bytes, NULL));
}

static void engine_destroy(struct engine *e)
{
    pkv_blockmgr_destroy(e->mgr);
    pkv_store_destroy(e->host_store);
    pkv_store_destroy(e->device_store);
    device_free(e->device.base);
    device_free(e->device_swap);
    device_free(e->device_workspace);
    free(e->swap);
    free(e->workspace);
    twins_free(&e->mem);
    pkv_backend_destroy(e->cpu);
    pkv_backend_destroy(e->cuda);
}

/* ---------------------------------------------------------------- a step */

static void assert_stores_equal(const struct engine *e)
{
    const size_t bytes = N_BLOCKS * e->host.block_bytes;
    unsigned char *got = malloc(bytes);
    device_download(got, e->device.base, bytes);
    for (size_t b = 0; b < bytes; b++)
        if (got[b] != ((unsigned char *)e->host.base)[b])
            fail_msg("block %zu, byte %zu: %02x, on the CPU %02x", b / e->host.block_bytes,
                     b % e->host.block_bytes, got[b], ((unsigned char *)e->host.base)[b]);
    free(got);
}

/* Stands for embedding and projections: numbers of a token, a layer and a tensor. */
static void project(const pkv_tensor3 *t, const struct step *s, int32_t n, int32_t salt)
{
    for (int32_t i = 0; i < n; i++) {
        struct cuda_rng r = { (uint64_t)s->ids[i] * 1000003 + (uint64_t)salt };
        for (int32_t d = 0; d < t->n_heads * DIM; d++) {
            const double x = (double)cuda_random(&r, 4096) / 1024. - 2.;
            oracle_store(PKV_F16, t->data, i * t->row_stride + d, x);
        }
    }
}

/* Arrays of the batch; returns its number of rows. */
static int32_t describe(struct engine *e, const struct step *s)
{
    enum { WIDTH = MAX_TOKENS / BLOCK_TOKENS };
    int32_t n = 0;
    for (int32_t i = 0; i < MAX_ROWS; i++) e->slots[i] = INT64_MAX, e->pos[i] = INT32_MIN;
    for (int32_t b = 0; b < s->n_seqs; b++) {
        const int32_t *ids;
        int32_t n_ids;
        e->q_indptr[b] = n;
        e->kv_len[b] = s->first[b] + s->n[b];
        assert_ok(pkv_seq_slots(e->mgr, s->seq[b], 0, s->first[b], s->n[b], e->slots + n));
        assert_ok(pkv_seq_row(e->mgr, s->seq[b], 0, &ids, &n_ids));
        for (int32_t i = 0; i < WIDTH; i++) e->table[b * WIDTH + i] = i < n_ids ? ids[i] : -1;
        for (int32_t i = 0; i < s->n[b]; i++) e->pos[n + i] = s->first[b] + i;
        n += s->n[b];
    }
    e->q_indptr[s->n_seqs] = *e->n_valid = n;
    return n;
}

/* The views of a layer with addresses of here or there. */
static pkv_tensor3 at(const struct engine *e, const pkv_tensor3 *t, bool device)
{
    pkv_tensor3 x = *t;
    if (device) x.data = there(&e->mem, x.data);
    return x;
}
#define AT(p) (device ? there(&e->mem, (p)) : (void *)(p))

static pkv_status layer(struct engine *e, const struct step *s, int32_t number, bool device)
{
    const pkv_tensor3 k = at(e, &e->k, device), v = at(e, &e->v, device);
    pkv_tensor3 q = at(e, &e->q, device), out = at(e, &e->out, device);
    pkv_backend *be = device ? e->cuda : e->cpu;
    pkv_kv_view k_view, v_view;
    assert_ok(pkv_store_views(device ? e->device_store : e->host_store, number, &k_view, &v_view));
    pkv_kv_write_args w = PKV_KV_WRITE_ARGS_INIT;
    w.k = &k, w.v = &v, w.k_view = &k_view, w.v_view = &v_view;
    w.q = w.q_out = &q;
    w.slots = AT(e->slots), w.pos = AT(e->pos), w.n_valid = AT(e->n_valid);
    w.rope = AT(e->rope), w.n_rope_pos = MAX_TOKENS, w.rot_dim = DIM;
    w.bad = AT(e->bad);
    assert_device_ok(pkv_kv_write(be, &w, NULL));
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    batch.n_seqs = s->n_seqs;
    batch.table = AT(e->table), batch.table_stride = MAX_TOKENS / BLOCK_TOKENS;
    batch.kv_len = AT(e->kv_len), batch.q_indptr = AT(e->q_indptr);
    opts.bad = AT(e->bad);
    return pkv_attn_run(be, &q, &k_view, &v_view, &batch, &opts,
                        device ? e->device_workspace : e->workspace,
                        device ? e->device_workspace_bytes : e->workspace_bytes, NULL, &out, NULL);
}

/* The rows of a sequence in a layer, as values. */
static void keys(const struct engine *e, pkv_seq seq, const pkv_kv_view *view, int32_t n, float *to)
{
    int64_t slots[MAX_TOKENS];
    pkv_tensor3 t = { to, PKV_F32, KV_HEADS, DIM, n, KV_HEADS * DIM, DIM };
    assert_ok(pkv_seq_slots(e->mgr, seq, 0, 0, n, slots));
    assert_ok(pkv_kv_gather(e->cpu, view, slots, &t, NULL, NULL));
}

static void judge(const struct engine *e, const struct step *s, int32_t number,
                  const uint16_t *device_out)
{
    static _Alignas(64) float k[MAX_TOKENS * KV_HEADS * DIM], v[MAX_TOKENS * KV_HEADS * DIM];
    static float q[MAX_ROWS * Q_HEADS * DIM];
    pkv_kv_view k_view, v_view;
    assert_ok(pkv_store_views(e->host_store, number, &k_view, &v_view));
    for (int32_t b = 0; b < s->n_seqs; b++) {
        const int32_t row0 = e->q_indptr[b], len = e->kv_len[b];
        keys(e, s->seq[b], &k_view, len, k);
        keys(e, s->seq[b], &v_view, len, v);
        for (int32_t i = 0; i < s->n[b] * Q_HEADS * DIM; i++)
            q[i] = (float)oracle_load(PKV_F16, e->q.data, row0 * Q_HEADS * DIM + i);
        const struct oracle_seq seq = { .q_len = s->n[b],
                                        .kv_len = len,
                                        .n_q_heads = Q_HEADS,
                                        .n_kv_heads = KV_HEADS,
                                        .q = q,
                                        .k = { .codes = k, .dim = DIM },
                                        .v = { .codes = v, .dim = DIM },
                                        .window_left = -1,
                                        .window_right = -1,
                                        .causal = true };
        for (int32_t i = 0; i < s->n[b] * Q_HEADS; i++) {
            double z[MAX_TOKENS];
            struct oracle_row want;
            oracle_attention(&seq, i / Q_HEADS, i % Q_HEADS, z, &want);
            const int32_t terms = want.n_visible < len / 16 + 6 ? want.n_visible : len / 16 + 6;
            const struct oracle_path path = {
                .terms = 3 * terms, .p_roundoff = 0x1p-11, .p_step = 0x1p-25, .out = PKV_F16
            };
            for (int32_t d = 0; d < DIM; d++) {
                const double got = oracle_load(PKV_F16, device_out, (row0 * Q_HEADS + i) * DIM + d);
                if (!(fabs(got - want.o[d]) <= oracle_bound_o(&seq, &want, &path, d)))
                    fail_msg("sequence %d, row %d, dim %d: %g instead of %g", b, i, d, got,
                             want.o[d]);
            }
        }
    }
}

/* All layers of a step, then the commits. */
static void forward(struct engine *e, const struct step *s)
{
    const int32_t n = describe(e, s);
    uint16_t device_out[MAX_ROWS * Q_HEADS * DIM];
    for (int32_t number = 0; number < LAYERS; number++) {
        project(&e->q, s, n, number);
        project(&e->k, s, n, number + 10);
        project(&e->v, s, n, number + 20);
        twins_upload(&e->mem);
        assert_device_ok(layer(e, s, number, true));
        assert_ok(layer(e, s, number, false));
        device_download(device_out, there(&e->mem, e->out.data), sizeof device_out);
        judge(e, s, number, device_out);
        uint32_t bad[4];
        device_download(bad, there(&e->mem, e->bad), sizeof bad);
        assert_int_equal(bad[0] | e->bad[0], 0);
    }
    assert_stores_equal(e);
    for (int32_t b = 0, row = 0; b < s->n_seqs; row += s->n[b++])
        assert_ok(pkv_seq_commit(e->mgr, s->seq[b], &(pkv_tokens){ s->ids + row, s->n[b], NULL, 0 },
                                 PKV_STEP_NONE));
}

static void run_work(const struct engine *e, const pkv_block_work *w)
{
    const size_t bytes = e->host.block_bytes;
    assert_device_ok(pkv_blocks_copy(e->cuda, e->device.base, bytes, N_BLOCKS, w->copy, w->n_copy,
                                     NULL, 0, NULL));
    assert_ok(
        pkv_blocks_copy(e->cpu, e->host.base, bytes, N_BLOCKS, w->copy, w->n_copy, NULL, 0, NULL));
}

/* One token more for each of these, which are then `len` long. */
static int32_t decode(struct engine *e, const pkv_seq *seqs, int32_t n, const int32_t *len)
{
    static int32_t token = 5000;
    pkv_reserve_req reqs[MAX_SEQS];
    pkv_block_copy copies[MAX_SEQS];
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    struct step s = { .n_seqs = n };
    work.copy = copies, work.copy_cap = MAX_SEQS;
    for (int32_t i = 0; i < n; i++) {
        reqs[i] = (pkv_reserve_req){ seqs[i], 1 };
        s.seq[i] = seqs[i];
        s.first[i] = len[i];
        s.n[i] = 1;
        s.ids[i] = token++;
    }
    assert_ok(pkv_seq_reserve(e->mgr, reqs, n, &work));
    run_work(e, &work);
    forward(e, &s);
    return work.n_copy;
}

/* ---------------------------------------------------------------- what happens */

/* A prompt in chunks; returns how much of it was found. */
static int32_t prefill(struct engine *e, pkv_seq seq, int32_t other)
{
    int32_t prompt[N_PROMPT];
    pkv_block_copy copies[2];
    pkv_block_work work = PKV_BLOCK_WORK_INIT;
    pkv_match hit = PKV_MATCH_INIT;
    work.copy = copies, work.copy_cap = 2;
    for (int32_t i = 0; i < N_PROMPT; i++) prompt[i] = i < N_COMMON ? i : other + i;
    assert_ok(pkv_seq_match(e->mgr, seq, &(pkv_tokens){ prompt, N_PROMPT, NULL, 0 }, N_PROMPT - 1,
                            N_PROMPT, &work, &hit));
    run_work(e, &work);
    for (int32_t first = hit.claimed, n; first < N_PROMPT; first += n) {
        n = N_PROMPT - first < 20 ? N_PROMPT - first : 20;
        struct step s = { .n_seqs = 1, .seq = { seq }, .first = { first }, .n = { n } };
        memcpy(s.ids, prompt + first, (size_t)n * sizeof(int32_t));
        forward(e, &s);
    }
    return hit.claimed;
}

static void end_transfer(struct engine *e, pkv_hold hold)
{
    static uint64_t now = 1;
    pkv_hold_result done[4];
    int32_t n = 0;
    pkv_hold_post(e->mgr, hold, PKV_OK);
    assert_ok(pkv_blockmgr_poll(e->mgr, now++, done, 4, &n));
    assert_int_equal(n, 1);
}

/* To host memory, and what lay on the device is gone. */
static void swap_out(struct engine *e, pkv_seq seq)
{
    pkv_swap_copy copies[HOST_BLOCKS];
    pkv_hold hold;
    int32_t n = 0;
    const size_t bytes = e->host.block_bytes;
    assert_ok(pkv_seqs_suspend(e->mgr, &seq, 1, UINT64_MAX, copies, HOST_BLOCKS, &n, &hold));
    assert_true(n > 0);
    for (int32_t i = 0; i < n; i++) {
        const size_t to = (size_t)copies[i].host * bytes;
        assert_device_ok(pkv_blocks_gather(e->cuda, e->device.base, bytes, N_BLOCKS,
                                           &copies[i].device, 1, e->device_swap + to, NULL));
        assert_ok(pkv_blocks_gather(e->cpu, e->host.base, bytes, N_BLOCKS, &copies[i].device, 1,
                                    e->swap + to, NULL));
    }
    end_transfer(e, hold);
    for (int32_t i = 0; i < n; i++) fill_blocks(e, copies[i].device, 1, 0xee);
}

static void swap_in(struct engine *e, pkv_seq seq)
{
    pkv_swap_copy copies[HOST_BLOCKS];
    pkv_hold hold;
    int32_t n = 0;
    const size_t bytes = e->host.block_bytes;
    assert_ok(pkv_seqs_resume(e->mgr, &seq, 1, UINT64_MAX, copies, HOST_BLOCKS, &n, &hold));
    for (int32_t i = 0; i < n; i++) {
        const size_t from = (size_t)copies[i].host * bytes;
        assert_device_ok(pkv_blocks_scatter(e->cuda, e->device_swap + from, &copies[i].device, 1,
                                            e->device.base, bytes, N_BLOCKS, NULL));
        assert_ok(pkv_blocks_scatter(e->cpu, e->swap + from, &copies[i].device, 1, e->host.base,
                                     bytes, N_BLOCKS, NULL));
    }
    end_transfer(e, hold);
    assert_stores_equal(e);
}

static void serve(struct engine *e)
{
    pkv_seq s[MAX_SEQS];
    int32_t len[MAX_SEQS] = { N_PROMPT, N_PROMPT, 0 };
    for (int i = 0; i < 2; i++) assert_ok(pkv_seq_open(e->mgr, (pkv_ns){ 0 }, &s[i]));
    assert_int_equal(prefill(e, s[0], 1000), 0);
    assert_int_equal(prefill(e, s[1], 2000), N_COMMON);
    decode(e, s, 2, len);
    len[0]++, len[1]++;
    assert_ok(pkv_seq_fork(e->mgr, s[0], &s[2], 1));
    len[2] = len[0];
    assert_int_equal(decode(e, s, 3, len), 1); /* one of the two writes into a copy */
    for (int i = 0; i < 3; i++) len[i]++;
    swap_out(e, s[2]);
    decode(e, s, 2, len);
    len[0]++, len[1]++;
    swap_in(e, s[2]);
    for (int i = 0; i < 10; i++) { /* past the end of a block */
        decode(e, s, 3, len);
        for (int j = 0; j < 3; j++) len[j]++;
    }
    for (int i = 0; i < 3; i++) assert_ok(pkv_seq_close(e->mgr, s[i]));
    assert_ok(pkv_blockmgr_check(e->mgr, 2));
}

static void serves(pkv_dtype dtype, int schedule)
{
    struct engine e;
    cuda_schedule(schedule);
    engine_create(&e, dtype);
    serve(&e);
    engine_destroy(&e);
}
static void serves_f16(void **state)
{
    (void)state;
    serves(PKV_F16, 1);
}
static void serves_e4m3(void **state)
{
    (void)state;
    serves(PKV_E4M3, 2);
}
static void serves_int8(void **state)
{
    (void)state;
    serves(PKV_I8, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_f16),
        cmocka_unit_test(serves_e4m3),
        cmocka_unit_test(serves_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
