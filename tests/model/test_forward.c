/* A token's logits have the same bits however the work is scheduled; and what a pass refuses. */
#include "forward_rig.h"

#include "common/philox.h"
#include "pagedkv/pagedkv.h"

#include <time.h>

#define N_SEQS 3
#define MAX_LEN 80

typedef struct work {
    int32_t n[N_SEQS], tokens[N_SEQS][MAX_LEN];
    float *want[N_SEQS]; /* [n][vocab], of a lone prefill */
} work;

static const rig_options plain = { PKV_ISA_SCALAR, 1, 16, PKV_F32, 1, false };

static work make_work(const pkv__weights *w, const rig_options *o, uint64_t seed)
{
    work k = { .n = { 70, 33, MAX_LEN } };
    rig r;
    rig_make(&r, w, o, N_SEQS * MAX_LEN);
    for (int32_t s = 0; s < N_SEQS; s++) {
        draw_tokens(seed + (uint64_t)s, w->config.vocab, k.tokens[s], k.n[s]);
        k.want[s] = malloc((size_t)(k.n[s] * w->config.vocab) * sizeof(float));
        assert_non_null(k.want[s]);
        rig_run(&r, k.tokens[s], k.n[s], k.n[s], k.want[s]);
    }
    rig_drop(&r);
    return k;
}

static void drop_work(work *k)
{
    for (int32_t s = 0; s < N_SEQS; s++) free(k->want[s]);
}

static void same_rows(const char *what, const float *got, const float *want, int32_t rows,
                      int32_t vocab)
{
    for (int64_t i = 0; i < (int64_t)rows * vocab; i++)
        if (memcmp(got + i, want + i, sizeof(float)) != 0)
            fail_msg("%s: row %lld, logit %lld is %a, not %a", what, (long long)(i / vocab),
                     (long long)(i % vocab), (double)got[i], (double)want[i]);
}

/* All sequences at once, pieces of random lengths in a random order, until all are through. */
static void run_mixed(const pkv__weights *w, const work *k, const rig_options *o, int32_t most,
                      pkv__rng *rng)
{
    static float logits[N_SEQS * MAX_LEN * 128];
    const int32_t vocab = w->config.vocab;
    rig_seq seqs[N_SEQS] = { { 0 } };
    rig r;
    rig_make(&r, w, o, N_SEQS * MAX_LEN);
    for (;;) {
        rig_piece pieces[N_SEQS];
        int32_t which[N_SEQS], n_pieces = 0, row = 0;
        const int32_t shift = (int32_t)pkv__rng_below(rng, N_SEQS);
        for (int32_t i = 0; i < N_SEQS; i++) {
            const int32_t s = (i + shift) % N_SEQS, left = k->n[s] - seqs[s].n;
            if (left == 0) continue;
            const int32_t n = 1 + (int32_t)pkv__rng_below(rng, (uint32_t)pkv__min_i32(left, most));
            which[n_pieces] = s;
            pieces[n_pieces++] = (rig_piece){ &seqs[s], k->tokens[s] + seqs[s].n, n };
        }
        if (n_pieces == 0) break;
        rig_pass(&r, pieces, n_pieces, logits);
        for (int32_t p = 0; p < n_pieces; p++) {
            const int32_t first = seqs[which[p]].n - pieces[p].n;
            same_rows("mixed batch", logits + row * vocab, k->want[which[p]] + first * vocab,
                      pieces[p].n, vocab);
            row += pieces[p].n;
        }
    }
    rig_drop(&r);
}

static void check_schedules(const pkv__weights *w, pkv_isa isa, uint64_t seed)
{
    static const int32_t block_sizes[] = { 1, 2, 3, 16, 17, 64 };
    static float logits[MAX_LEN * 128];
    rig_options o = plain;
    o.isa = isa;
    work k = make_work(w, &o, seed);
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 9, 0);
    for (int32_t chunk = 1; chunk <= 9; chunk += 2) {
        rig r;
        rig_make(&r, w, &o, MAX_LEN);
        rig_run(&r, k.tokens[0], k.n[0], chunk, logits);
        same_rows("chunks", logits, k.want[0], k.n[0], w->config.vocab);
        rig_drop(&r);
    }
    for (size_t b = 0; b < PKV_ARRAY_LEN(block_sizes); b++) {
        o.block_tokens = block_sizes[b];
        o.seed = seed + 10 + b;
        o.n_threads = 1 + (int32_t)b % 3;
        run_mixed(w, &k, &o, 1 + (int32_t)b * 12, &rng);
    }
    drop_work(&k);
}

static void schedules(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = { { 8, 4, 8 }, { 9, 3, 16 }, { 48, 2, 8 }, { 40, 1, 8 } };
    const uint64_t seed = first_seed();
    pkv_isa levels[8];
    const int32_t n = rig_levels(levels);
    for (size_t k = 0; k < PKV_ARRAY_LEN(shapes); k++) {
        const pkv__model_config c = small_config(shapes[k][0], shapes[k][1], shapes[k][2]);
        pkv__weights w = small_weights(&c, seed, k % 2 ? PKV_BF16 : PKV_F32);
        for (int32_t l = 0; l < n; l++) check_schedules(&w, levels[l], seed + k);
        pkv__weights_free(&w);
    }
}

/* Pools of another order: [block][token][head][dim], K and V apart. */
static void foreign_pools(void **state)
{
    (void)state;
    enum { TOKENS = 16, BLOCKS = 40 };
    const pkv__model_config c = small_config(8, 4, 16);
    pkv__weights w = small_weights(&c, first_seed(), PKV_F32);
    work k = make_work(&w, &plain, 3);
    static float logits[MAX_LEN * 128];
    rig r;
    rig_make(&r, &w, &plain, MAX_LEN);
    const size_t row = (size_t)c.n_kv_heads * (size_t)c.head_dim, pool = BLOCKS * TOKENS * row;
    float *memory = aligned_alloc(64, 2 * (size_t)c.n_layers * pool * sizeof(float));
    assert_non_null(memory);
    assert_true(r.n_blocks <= BLOCKS);
    for (int32_t l = 0; l < 2 * c.n_layers; l++) {
        pkv_kv_view *view = l % 2 ? &r.v[l / 2] : &r.k[l / 2];
        view->data = memory + (size_t)l * pool;
        view->block_stride = (int64_t)(TOKENS * row);
        view->token_stride = (int64_t)row;
        view->head_stride = c.head_dim;
    }
    memset(memory, 0xff, 2 * (size_t)c.n_layers * pool * sizeof(float));
    rig_run(&r, k.tokens[0], k.n[0], 13, logits);
    same_rows("foreign pools", logits, k.want[0], k.n[0], c.vocab);
    rig_drop(&r);
    free(memory);
    drop_work(&k);
    pkv__weights_free(&w);
}

/* ---------------------------------------------------------------- by hand */

#define HAND_N 20

/* One sequence of HAND_N tokens in blocks 2, 1; fields may be changed before a run. */
typedef struct hand {
    rig r;
    pkv__weights w;
    int32_t tokens[HAND_N], positions[HAND_N], q_indptr[2], kv_len[1], table[2], rows[HAND_N];
    int64_t slots[HAND_N];
    pkv__batch batch;
    float logits[HAND_N * 128];
} hand;

static void make_hand(hand *h)
{
    memset(h, 0, sizeof(*h));
    const pkv__model_config c = small_config(8, 4, 8);
    h->w = small_weights(&c, 5, PKV_F32);
    rig_make(&h->r, &h->w, &plain, 64);
    draw_tokens(4, c.vocab, h->tokens, HAND_N);
    h->table[0] = 2;
    h->table[1] = 1;
    for (int32_t t = 0; t < HAND_N; t++) {
        h->positions[t] = t;
        h->slots[t] = h->table[t / 16] * 16 + t % 16;
        h->rows[t] = t;
    }
    h->q_indptr[1] = h->kv_len[0] = HAND_N;
    h->batch = (pkv__batch){ HAND_N,      1,         HAND_N,   h->tokens, h->positions, h->slots,
                             h->q_indptr, h->kv_len, h->table, 2,         h->rows };
    for (int32_t i = 0; i < HAND_N * 128; i++) h->logits[i] = -1;
}

static void drop_hand(hand *h)
{
    rig_drop(&h->r);
    pkv__weights_free(&h->w);
}

static pkv_status run_hand(hand *h)
{
    return pkv__forward_run(h->r.fwd, &h->batch, h->r.k, h->r.v, h->logits);
}

static void rows_that_are_wanted(void **state)
{
    (void)state;
    static hand all, some;
    make_hand(&all);
    make_hand(&some);
    static const int32_t rows[] = { 19, 0, 7, 7 };
    assert_int_equal(run_hand(&all), PKV_OK);
    memcpy(some.rows, rows, sizeof(rows));
    some.batch.n_logit_rows = 4;
    assert_int_equal(run_hand(&some), PKV_OK);
    for (int32_t i = 0; i < 4; i++)
        same_rows("wanted", some.logits + i * 97, all.logits + rows[i] * 97, 1, 97);
    assert_true(some.logits[4 * 97] == -1);
    some.batch.n_logit_rows = 0;
    assert_int_equal(run_hand(&some), PKV_OK);
    /* The last token again, its key and value already there: a prompt found whole in a cache. */
    some.batch.n_tokens = some.batch.n_logit_rows = 1;
    some.tokens[0] = all.tokens[19];
    some.positions[0] = 19;
    some.slots[0] = -1;
    some.rows[0] = 0;
    some.q_indptr[1] = 1;
    assert_int_equal(run_hand(&some), PKV_OK);
    same_rows("again", some.logits, all.logits + 19 * 97, 1, 97);
    some.batch.n_tokens = some.batch.n_seqs = some.batch.n_logit_rows = 0;
    assert_int_equal(run_hand(&some), PKV_OK);
    drop_hand(&all);
    drop_hand(&some);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Both parts take time in every pass, and together no more than the passes do. */
static void times(void **state)
{
    (void)state;
    static hand h;
    pkv__forward_times before, after = { -1, -1 };
    make_hand(&h);
    pkv__forward_get_times(h.r.fwd, &after);
    assert_true(after.attention_s == 0 && after.products_s == 0);
    const double start_s = now_s();
    for (int i = 0; i < 3; i++) {
        before = after;
        assert_int_equal(run_hand(&h), PKV_OK);
        pkv__forward_get_times(h.r.fwd, &after);
        assert_true(after.attention_s > before.attention_s);
        assert_true(after.products_s > before.products_s);
    }
    assert_true(after.attention_s + after.products_s < now_s() - start_s);
    drop_hand(&h);
}

static void expect_bad(hand *h, const char *says)
{
    h->r.log.text[0] = 0;
    assert_int_equal(run_hand(h), PKV_E_INVALID_ARG);
    if (!strstr(h->r.log.text, says)) fail_msg("\"%s\" lacks \"%s\"", h->r.log.text, says);
    assert_true(h->logits[0] == -1 && h->logits[97] == -1);
    drop_hand(h);
}

static void refusals(void **state)
{
    (void)state;
    static hand h;
#define BAD(change, says)                                                                          \
    make_hand(&h);                                                                                 \
    change;                                                                                        \
    expect_bad(&h, says)
    BAD(h.tokens[3] = 97, "token 3 of the batch is outside the vocabulary of 97");
    BAD(h.tokens[19] = -1, "vocabulary");
    BAD(h.positions[2] = 512, "token 2 of the batch is at position 512");
    BAD(h.positions[2] = -1, "position -1");
    BAD(h.batch.n_tokens = MAX_BATCH + 1, "sized for 300");
    BAD(h.batch.n_tokens = -1, "-1 tokens");
    BAD(h.batch.n_logit_rows = MAX_BATCH + 1, "301 rows of logits");
    BAD(h.rows[1] = HAND_N, "logits of token 20");
    BAD(h.rows[1] = -1, "logits of token -1");
    BAD(h.q_indptr[1] = HAND_N - 1, "q_indptr");
    BAD(h.q_indptr[0] = 1, "q_indptr");
    BAD(h.q_indptr[1] = -1, "q_indptr");
    BAD(h.batch.n_seqs = 0, "q_indptr");
    BAD(h.kv_len[0] = HAND_N - 1, "sequence 0 has 19 keys");
    BAD(h.slots[4] = 1 << 20, "kv_write refused");
    BAD(h.table[1] = 1 << 20, "attention refused");
    BAD(h.r.k[0].dim = 16, "kv_write refused");
#undef BAD
}

static void creation(void **state)
{
    (void)state;
    const pkv__model_config c = small_config(8, 4, 8);
    pkv__model_config odd = small_config(8, 4, 12); /* heads of 12: no kernel */
    pkv__weights w = small_weights(&c, 5, PKV_F32), no_kernel = small_weights(&odd, 5, PKV_F32);
    pkv__forward *fwd = NULL;
    pkv_backend *be = NULL;
    last_log log;
    counted_memory memory;
    assert_int_equal(pkv_backend_create_cpu(&(pkv_cpu_config)PKV_CPU_CONFIG_INIT, &be), PKV_OK);
    const pkv__forward_config good = { .weights = &w,
                                       .backend = be,
                                       .max_batch_tokens = 4,
                                       .max_logit_rows = 4,
                                       .max_positions = 16,
                                       .log = log_to(&log) };
    pkv__forward_config cfg = good;
    cfg.max_batch_tokens = 0;
    assert_int_equal(pkv__forward_create(&cfg, &fwd), PKV_E_INVALID_ARG);
    cfg = good, cfg.max_logit_rows = 0;
    assert_int_equal(pkv__forward_create(&cfg, &fwd), PKV_E_INVALID_ARG);
    cfg = good, cfg.max_positions = 0;
    assert_int_equal(pkv__forward_create(&cfg, &fwd), PKV_E_INVALID_ARG);
    cfg = good, cfg.weights = NULL;
    assert_int_equal(pkv__forward_create(&cfg, &fwd), PKV_E_INVALID_ARG);
    cfg = good, cfg.isa = (pkv_isa)99;
    assert_int_equal(pkv__forward_create(&cfg, &fwd), PKV_E_UNSUPPORTED);
    cfg = good, cfg.weights = &no_kernel;
    assert_true(pkv__forward_create(&cfg, &fwd) != PKV_OK);
    assert_non_null(strstr(log.text, "8/4 heads of 12"));
    cfg = good, cfg.alloc = count_memory(&memory, 0);
    assert_int_equal(pkv__forward_create(&cfg, &fwd), PKV_E_NO_MEMORY);
    assert_null(fwd);
    cfg.alloc = count_memory(&memory, -1);
    assert_int_equal(pkv__forward_create(&cfg, &fwd), PKV_OK);
    pkv__forward_destroy(fwd);
    assert_int_equal(memory.n_live, 0);
    pkv__forward_destroy(NULL);
    pkv_backend_destroy(be);
    pkv__weights_free(&w);
    pkv__weights_free(&no_kernel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules),
        cmocka_unit_test(foreign_pools),
        cmocka_unit_test(rows_that_are_wanted),
        cmocka_unit_test(times),
        cmocka_unit_test(refusals),
        cmocka_unit_test(creation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
