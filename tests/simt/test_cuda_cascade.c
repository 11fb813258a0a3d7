/* A step of serving on the device, call after call on one stream: a store in device memory, rows
 * written, a block copied for a sequence that parts from another, blocks swapped out and in, tables
 * checked, attention over a common prefix and over each sequence's own keys, and their merge. The
 * result is held against the formula in double over all keys at once.
 *
 *   blocks 1 2 3   the prefix, of all sequences
 *          4 ..    suffixes; sequence 3 began as a fork of sequence 2, 20 keys behind the prefix */
#include "cuda_test.h"
#include "oracle/oracle_attention.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

enum {
    TOKENS = 16,
    DIM = 64,
    KV_HEADS = 2,
    Q_HEADS = 4,
    PREFIX_BLOCKS = 3,
    PREFIX = PREFIX_BLOCKS * TOKENS,
    N_SEQS = 4,
    MOST_KEYS = PREFIX + 40,
    FORKED = 20, /* keys that sequence 3 has of sequence 2 */
    N_BLOCKS = 24,
    SUFFIX_IDS = 3, /* of a sequence */
    Q_ROWS = 7,
    KV_ROW = KV_HEADS * DIM,
    Q_ROW = Q_HEADS * DIM
};
static const int32_t suffix_len[N_SEQS] = { 1, 16, 37, 25 };
static const int32_t q_indptr[N_SEQS + 1] = { 0, 1, 2, 5, 7 };
/* Sequence 1 moves from block 5 to block 12 through the host. */
static const int32_t suffix_table[N_SEQS * SUFFIX_IDS] = {
    4, -1, -1, 12, -1, -1, 6, 7, 8, 6, 9, -1
};

/* What is in the store, as floats that f16 holds, by sequence and position; and the queries. */
struct content {
    float k[N_SEQS][MOST_KEYS * KV_ROW], v[N_SEQS][MOST_KEYS * KV_ROW];
    float q[Q_ROWS * Q_ROW];
};

static float draw(struct cuda_rng *r)
{
    return (float)((int32_t)cuda_random(r, 4001) - 2000) / 1024.f;
}

static void draw_rows(struct cuda_rng *r, float *rows, int32_t from, int32_t to)
{
    for (int32_t i = from * KV_ROW; i < to * KV_ROW; i++)
        rows[i] = (float)oracle_round(PKV_F16, (double)draw(r));
}

static void draw_content(struct cuda_rng *r, struct content *c)
{
    draw_rows(r, c->k[0], 0, PREFIX);
    draw_rows(r, c->v[0], 0, PREFIX);
    for (int b = 0; b < N_SEQS; b++) {
        const size_t prefix = PREFIX * KV_ROW * sizeof(float);
        if (b > 0) memcpy(c->k[b], c->k[0], prefix);
        if (b > 0) memcpy(c->v[b], c->v[0], prefix);
        draw_rows(r, c->k[b], PREFIX, PREFIX + suffix_len[b]);
        draw_rows(r, c->v[b], PREFIX, PREFIX + suffix_len[b]);
    }
    const size_t forked = FORKED * KV_ROW * sizeof(float);
    memcpy(c->k[3] + PREFIX * KV_ROW, c->k[2] + PREFIX * KV_ROW, forked);
    memcpy(c->v[3] + PREFIX * KV_ROW, c->v[2] + PREFIX * KV_ROW, forked);
    for (int i = 0; i < Q_ROWS * Q_ROW; i++)
        c->q[i] = (float)oracle_round(PKV_F16, (double)draw(r));
}

static void *uploaded(const void *from, size_t bytes)
{
    void *p = device_alloc(bytes);
    device_upload(p, from, bytes);
    return p;
}

static void *uploaded_halves(const float *from, size_t n)
{
    uint16_t *halves = malloc(n * 2);
    for (size_t i = 0; i < n; i++) halves[i] = oracle_code16(PKV_F16, (double)from[i]);
    void *p = uploaded(halves, n * 2);
    free(halves);
    return p;
}

/* Positions [from, to) of a sequence into the blocks of `ids`, of which the first holds `first`. */
static void write_rows(pkv_backend *be, pkv_store *store, const float *k, const float *v,
                       int32_t from, int32_t to, const int32_t *ids, int32_t first)
{
    int64_t slots[MOST_KEYS];
    const int32_t n = to - from;
    pkv_kv_view k_view, v_view;
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    for (int32_t i = from; i < to; i++)
        slots[i - from] = (int64_t)ids[(i - first) / TOKENS] * TOKENS + (i - first) % TOKENS;
    pkv_tensor3 k_rows = { NULL, PKV_F16, KV_HEADS, DIM, n, KV_ROW, DIM }, v_rows = k_rows;
    k_rows.data = uploaded_halves(k + from * KV_ROW, (size_t)(n * KV_ROW));
    v_rows.data = uploaded_halves(v + from * KV_ROW, (size_t)(n * KV_ROW));
    int64_t *const device_slots = uploaded(slots, (size_t)n * sizeof(int64_t));
    assert_int_equal(pkv_store_views(store, 0, &k_view, &v_view), PKV_OK);
    args.k = &k_rows;
    args.v = &v_rows;
    args.slots = device_slots;
    args.k_view = &k_view;
    args.v_view = &v_view;
    assert_device_ok(pkv_kv_write(be, &args, NULL));
    device_free(k_rows.data);
    device_free(v_rows.data);
    device_free(device_slots);
}

/* The blocks as the tables above name them. */
static void fill_store(pkv_backend *be, pkv_store *store, const struct content *c)
{
    static const int32_t prefix[3] = { 1, 2, 3 }, first[1] = { 4 }, before[1] = { 5 },
                         after[1] = { 12 }, third[3] = { 6, 7, 8 }, fork[2] = { 6, 9 };
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    assert_int_equal(pkv_store_info(store, &info), PKV_OK);
    const size_t bytes = info.block_bytes;
    /* Sequence 3 parts in the middle of block 7: of its tokens 4 are copied to block 9. */
    const pkv_block_copy copy = { 7, 9, FORKED - TOKENS, 0 };
    void *const swap = device_alloc(bytes);
    assert_device_ok(pkv_blocks_fill(be, info.base, bytes, N_BLOCKS, 0, N_BLOCKS, 0xff, NULL));
    assert_device_ok(pkv_blocks_fill(be, info.base, bytes, N_BLOCKS, 0, 1, 0, NULL));
    write_rows(be, store, c->k[0], c->v[0], 0, PREFIX, prefix, 0);
    write_rows(be, store, c->k[0], c->v[0], PREFIX, PREFIX + 1, first, PREFIX);
    write_rows(be, store, c->k[1], c->v[1], PREFIX, PREFIX + 16, before, PREFIX);
    write_rows(be, store, c->k[2], c->v[2], PREFIX, PREFIX + 37, third, PREFIX);
    assert_device_ok(
        pkv_blocks_copy(be, info.base, bytes, N_BLOCKS, &copy, 1, &info.shape, 1, NULL));
    write_rows(be, store, c->k[3], c->v[3], PREFIX + FORKED, PREFIX + 25, fork, PREFIX);
    assert_device_ok(pkv_blocks_gather(be, info.base, bytes, N_BLOCKS, before, 1, swap, NULL));
    assert_device_ok(pkv_blocks_zero(be, info.base, bytes, N_BLOCKS, before, 1, NULL));
    assert_device_ok(pkv_blocks_scatter(be, swap, after, 1, info.base, bytes, N_BLOCKS, NULL));
    device_free(swap);
}

/* One of the two passes; its arrays lie on the device until the caller is done with the results. */
struct pass {
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    void *arrays[6];
    int n_arrays;
    pkv_tensor3 o;
    pkv_lse lse;
};

static void *array(struct pass *p, const void *from, size_t bytes)
{
    return p->arrays[p->n_arrays++] = uploaded(from, bytes);
}

static struct pass new_pass(int32_t window_left)
{
    struct pass p = { .batch = PKV_ATTN_BATCH_INIT, .opts = PKV_ATTN_OPTS_INIT };
    p.opts.window_left = window_left;
    p.o = (pkv_tensor3){
        device_alloc(Q_ROWS * Q_ROW * 2), PKV_F16, Q_HEADS, DIM, Q_ROWS, Q_ROW, DIM
    };
    p.lse = (pkv_lse){ device_alloc(Q_ROWS * Q_HEADS * 4), Q_HEADS, 1, 0 };
    return p;
}

static int32_t row_pos(int b, int32_t i)
{
    const int32_t q_len = q_indptr[b + 1] - q_indptr[b];
    return PREFIX + suffix_len[b] - q_len + i;
}

/* All rows as one sequence, which stand where q_pos says, over keys that are none of theirs. */
static struct pass prefix_pass(int32_t window_left)
{
    static const int32_t ids[3] = { 1, 2, 3 }, len[1] = { PREFIX }, rows[2] = { 0, Q_ROWS };
    int32_t q_pos[Q_ROWS];
    struct pass p = new_pass(window_left);
    for (int b = 0; b < N_SEQS; b++)
        for (int32_t i = q_indptr[b]; i < q_indptr[b + 1]; i++)
            q_pos[i] = row_pos(b, i - q_indptr[b]);
    p.batch.n_seqs = 1;
    p.batch.table = array(&p, ids, sizeof ids);
    p.batch.table_stride = 3;
    p.batch.kv_len = array(&p, len, sizeof len);
    p.batch.q_indptr = array(&p, rows, sizeof rows);
    p.batch.q_pos = array(&p, q_pos, sizeof q_pos);
    p.batch.q_detached = 1;
    p.opts.causal = 0;
    return p;
}

static struct pass suffix_pass(int32_t window_left, const float *sink)
{
    static const int32_t pos0[N_SEQS] = { PREFIX, PREFIX, PREFIX, PREFIX };
    struct pass p = new_pass(window_left);
    p.batch.n_seqs = N_SEQS;
    p.batch.table = array(&p, suffix_table, sizeof suffix_table);
    p.batch.table_stride = SUFFIX_IDS;
    p.batch.kv_len = array(&p, suffix_len, sizeof suffix_len);
    p.batch.q_indptr = array(&p, q_indptr, sizeof q_indptr);
    p.batch.kv_pos0 = array(&p, pos0, sizeof pos0);
    if (sink) p.opts.sink = array(&p, sink, Q_HEADS * sizeof(float));
    return p;
}

static void free_pass(struct pass *p)
{
    for (int i = 0; i < p->n_arrays; i++) device_free(p->arrays[i]);
    device_free(p->o.data);
    device_free(p->lse.data);
}

/* Checks the pass's tables and runs it. */
static pkv_status run_pass(pkv_backend *be, pkv_store *store, struct pass *p, void *q)
{
    static const uint32_t nothing[4] = { 0 };
    uint32_t bad[4];
    pkv_kv_view k, v;
    size_t bytes = 0;
    const pkv_tensor3 q_rows = { q, PKV_F16, Q_HEADS, DIM, Q_ROWS, Q_ROW, DIM };
    uint32_t *const report = uploaded(nothing, sizeof nothing);
    assert_int_equal(pkv_store_views(store, 0, &k, &v), PKV_OK);
    assert_device_ok(
        pkv_table_check(be, &p->batch, &p->opts, Q_ROWS, N_BLOCKS, TOKENS, report, NULL));
    device_download(bad, report, sizeof bad);
    assert_int_equal(bad[0], 0);
    assert_device_ok(pkv_attn_workspace(be, Q_HEADS, KV_HEADS, DIM, DIM, &bytes));
    void *const workspace = device_alloc(bytes);
    assert_device_ok(pkv_workspace_init(be, workspace, bytes, NULL));
    const pkv_status status = pkv_attn_run(be, &q_rows, &k, &v, &p->batch, &p->opts, workspace,
                                           bytes, NULL, &p->o, &p->lse);
    device_free(workspace);
    device_free(report);
    return status;
}

static struct oracle_seq oracle_of(const struct content *c, int b, int32_t window_left,
                                   const float *sink)
{
    return (struct oracle_seq){ .q_len = q_indptr[b + 1] - q_indptr[b],
                                .kv_len = PREFIX + suffix_len[b],
                                .n_q_heads = Q_HEADS,
                                .n_kv_heads = KV_HEADS,
                                .q = c->q + q_indptr[b] * Q_ROW,
                                .k = { .codes = c->k[b], .dim = DIM },
                                .v = { .codes = c->v[b], .dim = DIM },
                                .window_left = window_left,
                                .window_right = -1,
                                .causal = true,
                                .sink = sink };
}

/* The bound of a single pass (numerics.md), with p in units of 2^-14 rounded to f16; beyond it, an
 * error e of a part's lse turns its weight by e^e, parts are rounded to f16, and the merge adds its
 * own. */
static void judge_row(const struct oracle_seq *s, int b, int32_t i, int32_t h, const uint16_t *o,
                      const float *lse)
{
    static double z[MOST_KEYS];
    struct oracle_row want;
    const struct oracle_path path = {
        .terms = 3 * (MOST_KEYS / 16 + 8), .p_roundoff = 0x1p-11, .p_step = 0x1p-39, .out = PKV_F16
    };
    oracle_attention(s, i, h, z, &want);
    const double lse_bound = 2 * oracle_bound_lse(s, &want, &path, false) + 2 * 0x1p-22;
    const int64_t at = (int64_t)(q_indptr[b] + i) * Q_HEADS + h;
    if (!(fabs((double)lse[at] - want.lse) <= lse_bound))
        fail_msg("sequence %d row %d head %d: lse %.9g, want %.9g, bound %.3g", b, i, h,
                 (double)lse[at], want.lse, lse_bound);
    for (int32_t d = 0; d < DIM; d++) {
        const double got = oracle_value16(PKV_F16, o[at * DIM + d]);
        const double more = expm1(2 * lse_bound) + 8 * 0x1p-24 + oracle_unit_roundoff(PKV_F16);
        const double bound = oracle_bound_o(s, &want, &path, d) + 2. * more;
        if (!(fabs(got - want.o[d]) <= bound))
            fail_msg("sequence %d row %d head %d dim %d: %.9g, want %.9g, bound %.3g", b, i, h, d,
                     got, want.o[d], bound);
    }
}

static void serve(pkv_backend *be, pkv_store *store, const struct content *c, void *q,
                  int32_t window_left, const float *sink)
{
    struct pass parts[2] = { prefix_pass(window_left), suffix_pass(window_left, sink) };
    uint16_t o[Q_ROWS * Q_ROW];
    float lse[Q_ROWS * Q_HEADS];
    for (int i = 0; i < 2; i++) assert_device_ok(run_pass(be, store, &parts[i], q));
    const pkv_tensor3 states[2] = { parts[0].o, parts[1].o };
    const pkv_lse lses[2] = { parts[0].lse, parts[1].lse };
    assert_device_ok(pkv_states_merge(be, states, lses, 2, NULL, &parts[0].o, &parts[0].lse));
    device_download(o, parts[0].o.data, sizeof o);
    device_download(lse, parts[0].lse.data, sizeof lse);
    for (int b = 0; b < N_SEQS; b++) {
        const struct oracle_seq s = oracle_of(c, b, window_left, sink);
        for (int32_t i = 0; i < s.q_len; i++)
            for (int32_t h = 0; h < Q_HEADS; h++) judge_row(&s, b, i, h, o, lse);
    }
    free_pass(&parts[0]);
    free_pass(&parts[1]);
}

/* Windows that end in the suffix (the prefix pass sees nothing: a state without keys), in the
 * prefix, nowhere; with a sink and without. */
static void test_step_of_serving(void **state)
{
    (void)state;
    static struct content content;
    static const int32_t windows[] = { -1, 0, 20, 60 };
    const float sink[Q_HEADS] = { 0.5f, -INFINITY, 3.f, -2.f };
    struct cuda_rng r = { 5 };
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    pkv_store *store = NULL;
    size_t bytes = 0;
    pkv_backend *be = cuda_backend(NULL, 2);
    cfg.shape = (pkv_kv_shape){ 1, KV_HEADS, DIM, TOKENS, PKV_F16 };
    cfg.n_blocks = N_BLOCKS;
    assert_int_equal(pkv_kv_block_bytes(&cfg.shape, &bytes), PKV_OK);
    cfg.memory_bytes = bytes * N_BLOCKS;
    cfg.memory = device_alloc(cfg.memory_bytes);
    cfg.on_device = true;
    assert_int_equal(pkv_store_create(&cfg, &store), PKV_OK);
    draw_content(&r, &content);
    void *const q = uploaded_halves(content.q, Q_ROWS * Q_ROW);
    for (int i = 0; i < 8; i++) {
        cuda_schedule(i);
        if (i % 4 == 0) fill_store(be, store, &content);
        serve(be, store, &content, q, windows[i % 4], i < 4 ? NULL : sink);
    }
    device_free(q);
    device_free(cfg.memory);
    pkv_store_destroy(store);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_step_of_serving) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
