#include "forward_rig.h"

#include "common/philox.h"
#include "common/threads.h"
#include "pagedkv/pagedkv.h"

uint64_t first_seed(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

int32_t rig_levels(pkv_isa out[8])
{
    static const pkv_isa all[] = { PKV_ISA_SCALAR,     PKV_ISA_AVX2, PKV_ISA_AVX512,
                                   PKV_ISA_AVX512BF16, PKV_ISA_AMX,  PKV_ISA_NEON };
    int32_t n = 0;
    for (size_t k = 0; k < PKV_ARRAY_LEN(all); k++)
        if (pkv_isa_check(all[k], NULL) == PKV_OK) out[n++] = all[k];
    return n;
}

pkv__model_config small_config(int32_t heads, int32_t kv_heads, int32_t head_dim)
{
    pkv__model_config c = { .architecture = "llama",
                            .vocab = 97,
                            .hidden = 48,
                            .n_layers = 2,
                            .n_heads = heads,
                            .n_kv_heads = kv_heads,
                            .head_dim = head_dim,
                            .ffn = 70,
                            .context = 512,
                            .norm_eps = 1e-5,
                            .bos = -1 };
    c.rope.theta = 10000;
    c.rope.factor = 1;
    c.rope.original_context = 512;
    c.rope.rotary_dim = head_dim;
    return c;
}

pkv__weights small_weights(const pkv__model_config *c, uint64_t seed, pkv_dtype dtype)
{
    pkv__weights w;
    assert_int_equal(pkv__weights_random(c, seed, dtype, NULL, &w), PKV_OK);
    return w;
}

void draw_tokens(uint64_t seed, int32_t vocab, int32_t *out, int32_t n)
{
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 7, 0);
    for (int32_t i = 0; i < n; i++) out[i] = (int32_t)pkv__rng_below(&rng, (uint32_t)vocab);
}

/* ---------------------------------------------------------------- making */

static void make_store(rig *r, const rig_options *o)
{
    const pkv__model_config *c = &r->w->config;
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    cfg.shape =
        (pkv_kv_shape){ c->n_layers, c->n_kv_heads, c->head_dim, o->block_tokens, o->kv_dtype };
    cfg.n_blocks = r->n_blocks;
    assert_int_equal(pkv_store_create(&cfg, &r->store), PKV_OK);
    assert_int_equal(pkv_store_info(r->store, &info), PKV_OK);
    memset((char *)info.base + info.block_bytes, 0xff, /* NaN in every type */
           (size_t)(r->n_blocks - 1) * info.block_bytes);
    assert_in_range(c->n_layers, 1, MAX_LAYERS);
    for (int32_t k = 0; k < c->n_layers; k++)
        assert_int_equal(pkv_store_views(r->store, k, &r->k[k], &r->v[k]), PKV_OK);
}

static void shuffle_blocks(rig *r, uint64_t seed)
{
    pkv__rng rng;
    const int32_t n = r->n_blocks - 1;
    pkv__rng_init(&rng, seed, 8, 0);
    r->blocks = malloc((size_t)n * sizeof(*r->blocks));
    assert_non_null(r->blocks);
    for (int32_t i = 0; i < n; i++) r->blocks[i] = i + 1;
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = (int32_t)pkv__rng_below(&rng, (uint32_t)i + 1), b = r->blocks[i];
        r->blocks[i] = r->blocks[j];
        r->blocks[j] = b;
    }
}

void rig_make(rig *r, const pkv__weights *w, const rig_options *o, int32_t tokens)
{
    memset(r, 0, sizeof(*r));
    r->w = w;
    r->block_tokens = o->block_tokens;
    r->n_blocks = tokens / o->block_tokens + MAX_PIECES + 2;
    pkv_cpu_config be = PKV_CPU_CONFIG_INIT;
    be.max_isa = o->isa;
    be.n_threads = o->n_threads;
    assert_int_equal(pkv_backend_create_cpu(&be, &r->be), PKV_OK);
    if (o->n_threads > 1) assert_int_equal(pkv__threads_create(&be, &r->threads), PKV_OK);
    make_store(r, o);
    shuffle_blocks(r, o->seed);
    const pkv__forward_config cfg = { .weights = w,
                                      .backend = r->be,
                                      .isa = o->isa,
                                      .threads = r->threads,
                                      .max_batch_tokens = MAX_BATCH,
                                      .max_logit_rows = MAX_BATCH,
                                      .max_positions = w->config.context,
                                      .fast = o->fast,
                                      .log = log_to(&r->log),
                                      .alloc = count_memory(&r->memory, -1) };
    assert_int_equal(pkv__forward_create(&cfg, &r->fwd), PKV_OK);
    r->memory.fail_at = r->memory.n_allocs; /* from now on there is none */
}

void rig_drop(rig *r)
{
    pkv__forward_destroy(r->fwd);
    assert_int_equal(r->memory.n_live, 0);
    pkv_store_destroy(r->store);
    pkv_backend_destroy(r->be);
    pkv__threads_destroy(r->threads);
    free(r->blocks);
}

/* ---------------------------------------------------------------- passes */

static void grow(rig *r, rig_seq *s, int32_t n)
{
    for (int32_t i = s->n; i < s->n + n; i++) {
        if (i % r->block_tokens != 0) continue;
        assert_true(r->n_taken < r->n_blocks - 1 && i / r->block_tokens < MAX_TABLE);
        s->table[i / r->block_tokens] = r->blocks[r->n_taken++];
    }
}

void rig_pass(rig *r, const rig_piece *pieces, int32_t n_pieces, float *logits)
{
    int32_t tokens[MAX_BATCH], positions[MAX_BATCH], rows[MAX_BATCH];
    int64_t slots[MAX_BATCH];
    int32_t q_indptr[MAX_PIECES + 1] = { 0 }, kv_len[MAX_PIECES], n = 0;
    static int32_t tables[MAX_PIECES][MAX_TABLE];
    assert_in_range(n_pieces, 1, MAX_PIECES);
    for (int32_t p = 0; p < n_pieces; p++) {
        rig_seq *s = pieces[p].seq;
        assert_true(n + pieces[p].n <= MAX_BATCH);
        grow(r, s, pieces[p].n);
        for (int32_t i = 0; i < pieces[p].n; i++, n++, s->n++) {
            tokens[n] = pieces[p].tokens[i];
            positions[n] = s->n;
            slots[n] = (int64_t)s->table[s->n / r->block_tokens] * r->block_tokens +
                       s->n % r->block_tokens;
            rows[n] = n;
        }
        q_indptr[p + 1] = n;
        kv_len[p] = s->n;
        memset(tables[p], 0xee, sizeof(tables[p])); /* ids that nobody may use */
        const int32_t used = pkv__ceil_div_i32(s->n, r->block_tokens);
        memcpy(tables[p], s->table, (size_t)used * sizeof(s->table[0]));
    }
    const pkv__batch batch = { n,      n_pieces,      n,         tokens, positions, slots, q_indptr,
                               kv_len, &tables[0][0], MAX_TABLE, rows };
    const pkv_status status = pkv__forward_run(r->fwd, &batch, r->k, r->v, logits);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), r->log.text);
}

void rig_run(rig *r, const int32_t *tokens, int32_t n, int32_t chunk, float *logits)
{
    rig_seq s = { 0 };
    for (int32_t first = 0; first < n; first += chunk) {
        const int32_t now = pkv__min_i32(chunk, n - first);
        rig_pass(r, &(rig_piece){ &s, tokens + first, now }, 1,
                 logits + (int64_t)first * r->w->config.vocab);
    }
}
