/* The calculator: published models by hand, random ones against the plan of the block manager, what
 * a request takes, and what is refused. */
#include "common/philox.h"
#include "model_test.h"
#include "pagedkv/blockmgr.h"
#include "pagedkv/kv_size.h"

#define GIB ((size_t)1 << 30)

/* 16 GiB for KV, and sequences of 1,000 tokens out of 4,000. */
static pkv_kv_budget some_budget(void)
{
    pkv_kv_budget b = PKV_KV_BUDGET_INIT;
    b.memory_bytes = 16 * GIB;
    b.tokens = 1000;
    b.max_tokens = 4000;
    return b;
}

static pkv_kv_geometry heads(int32_t n_layers, int32_t n_kv_heads, int32_t head_dim,
                             pkv_dtype dtype)
{
    pkv_kv_geometry g = PKV_KV_GEOMETRY_INIT;
    g.n_layers = n_layers, g.n_kv_heads = n_kv_heads, g.head_dim = head_dim, g.dtype = dtype;
    return g;
}

static pkv_kv_size size_of(const pkv_kv_geometry *g, const pkv_kv_budget *b)
{
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv_kv_size size = PKV_KV_SIZE_INIT;
    const pkv_status status = pkv_kv_size_of(g, b, &logger, &size);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), log.text);
    return size;
}

/* ---------------------------------------------------------------- published models */

static void bytes_per_token(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        int32_t n_layers, n_kv_heads, head_dim;
        pkv_dtype dtype;
        double want;
    } rows[] = {
        { "Llama-2-13B", 40, 40, 128, PKV_F16, 800 * 1024 },
        { "Llama-2-7B", 32, 32, 128, PKV_F16, 512 * 1024 },
        { "Llama-3-8B", 32, 8, 128, PKV_BF16, 128 * 1024 },
        { "the same, MHA", 32, 32, 128, PKV_BF16, 512 * 1024 },
        { "the same, MQA", 32, 1, 128, PKV_BF16, 16 * 1024 },
        { "the same, int8", 32, 8, 128, PKV_I8, 66 * 1024 },
        { "the same, e4m3", 32, 8, 128, PKV_E4M3, 66 * 1024 },
        { "the same, e5m2: its scale is given, not kept", 32, 8, 128, PKV_E5M2, 64 * 1024 },
        { "the same, int4: scale and zero point", 32, 8, 128, PKV_U4, 36 * 1024 },
        { "Llama-3-70B", 80, 8, 128, PKV_F16, 320 * 1024 },
        { "stories260K", 5, 4, 8, PKV_F32, 1280 },
        { "stories260K, int8: rows without their padding", 5, 4, 8, PKV_I8, 320 + 160 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(rows); k++) {
        const pkv_kv_geometry g =
            heads(rows[k].n_layers, rows[k].n_kv_heads, rows[k].head_dim, rows[k].dtype);
        const pkv_kv_budget b = some_budget();
        const pkv_kv_size s = size_of(&g, &b);
        if (s.bytes_per_token != rows[k].want)
            fail_msg("%s: %g bytes, expected %g", rows[k].model, s.bytes_per_token, rows[k].want);
    }
}

/* Llama-3-8B: 2 MiB per block of 16; 100,000 tokens in 6,250 blocks, 12.2 GiB; of 16 GiB 8,192
 * blocks, one of them the null block. 2-13B: 100,000 tokens are 76.3 GiB. */
static void what_fits(void **state)
{
    (void)state;
    pkv_kv_geometry g = heads(32, 8, 128, PKV_F16);
    pkv_kv_budget b = some_budget();
    b.tokens = b.max_tokens = 100000;
    pkv_kv_size s = size_of(&g, &b);
    assert_int_equal(s.block_bytes, 2 << 20);
    assert_int_equal(s.blocks_per_seq, 6250);
    assert_int_equal(s.seq_bytes, (size_t)6250 << 21);
    assert_int_equal(s.n_blocks, 8192);
    assert_int_equal(s.usable_tokens, 8191 * 16);
    assert_int_equal(s.max_seqs, 1);
    assert_int_equal(s.kv_bytes, 16 * GIB);
    assert_int_equal(s.reserved_bytes, (size_t)100000 << 17);
    assert_int_equal(s.max_seqs_reserved, 1);
    b.tokens = 1000; /* 63 blocks */
    b.max_tokens = 8192;
    s = size_of(&g, &b);
    assert_int_equal(s.max_seqs, 130);
    assert_int_equal(s.max_seqs_reserved, 16); /* a GiB each */
    g = heads(40, 40, 128, PKV_F16);
    b.tokens = b.max_tokens = 100000;
    b.memory_bytes = 100 * GIB;
    s = size_of(&g, &b);
    assert_true(fabs((double)s.seq_bytes / (double)GIB - 76.29) < 0.01);
}

/* DeepSeek-V3. The rotary part's row is 64 wide, the latent's 512; 8-bit ones have a scale each. */
static void latents(void **state)
{
    (void)state;
    pkv_kv_geometry g = PKV_KV_GEOMETRY_INIT;
    pkv_kv_budget b = some_budget();
    g.n_layers = 61, g.latent_dim = 512, g.rope_dim = 64, g.dtype = PKV_BF16;
    pkv_kv_size s = size_of(&g, &b);
    assert_true(s.bytes_per_token == 70272);
    assert_int_equal(s.block_bytes, 70272 * 16); /* a multiple of 512 */
    b.tp = 8;
    assert_int_equal(size_of(&g, &b).block_bytes, s.block_bytes); /* on every rank */
    g.dtype = PKV_E4M3;
    s = size_of(&g, &b);
    assert_true(s.bytes_per_token == 61 * (576 + 8));
    b.block_tokens = 1;
    assert_int_equal(size_of(&g, &b).block_bytes, 35840); /* 35,624 rounded up */
    g.rope_dim = 0;
    assert_true(size_of(&g, &b).bytes_per_token == 61 * (512 + 4));
}

static void ranks(void **state)
{
    (void)state;
    pkv_kv_geometry g = heads(80, 8, 128, PKV_F16);
    pkv_kv_budget b = some_budget();
    b.memory_bytes = 80 * GIB;
    b.weight_bytes = 141 * GIB + 1; /* an eighth of it, rounded up */
    b.activation_bytes = GIB;
    b.reserve_bytes = 2 * GIB;
    b.tp = 8;
    pkv_kv_size s = size_of(&g, &b);
    assert_true(s.bytes_per_token == 40 * 1024);
    assert_int_equal(s.kv_bytes, 77 * GIB - (141 * GIB / 8 + 1));
    b.tp = 2;
    b.weight_bytes = 100 * GIB;
    s = size_of(&g, &b);
    assert_true(s.bytes_per_token == 160 * 1024);
    assert_int_equal(s.kv_bytes, 27 * GIB);
    b.tp = 16; /* every head twice */
    s = size_of(&g, &b);
    assert_true(s.bytes_per_token == 40 * 1024);
}

/* ---------------------------------------------------------------- against the plan */

/* The seed of PKV_SEED, else this one. */
static void start(pkv__rng *rng, uint64_t seed)
{
    const char *text = getenv("PKV_SEED");
    if (text) seed = strtoull(text, NULL, 0);
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    pkv__rng_init(rng, seed, 0, 0);
}

static int32_t between(pkv__rng *rng, int32_t low, int32_t high)
{
    return low + (int32_t)(pkv__rng_u32(rng) % (uint32_t)(high - low + 1));
}

/* One group: pkv_plan, for what it would give an empty manager. */
static void equals_the_plan(void **state)
{
    (void)state;
    pkv__rng rng;
    start(&rng, 20261130);
    for (int k = 0; k < 1000; k++) {
        const pkv_kv_geometry g =
            heads(between(&rng, 1, 80), between(&rng, 1, 16), 8 * between(&rng, 1, 32),
                  (pkv_dtype)between(&rng, 0, PKV_DTYPE_COUNT - 1));
        pkv_kv_budget b = some_budget();
        b.memory_bytes = (size_t)between(&rng, 1, 1 << 30);
        b.block_tokens = between(&rng, 1, 300);
        b.tokens = between(&rng, 1, 5000);
        b.max_tokens = b.tokens + between(&rng, 0, 100);
        pkv_kv_size s = PKV_KV_SIZE_INIT;
        const pkv_status status = pkv_kv_size_of(&g, &b, NULL, &s);
        const pkv_kv_shape shape = { g.n_layers, g.n_kv_heads, g.head_dim, b.block_tokens,
                                     g.dtype };
        pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
        cfg.max_seqs = 1;
        cfg.max_seq_tokens = b.tokens;
        cfg.flags = 0;
        pkv_plan_result plan = PKV_PLAN_RESULT_INIT;
        const pkv_status planned = pkv_plan(&shape, b.memory_bytes, &cfg, &plan);
        assert_true(status == PKV_OK || status == PKV_E_NEVER);
        if (planned == PKV_E_INVALID_ARG) { /* fewer than two blocks */
            assert_true(status == PKV_E_NEVER && s.n_blocks == 0 && s.max_seqs == 0);
            continue;
        }
        assert_int_equal(status, planned);
        assert_int_equal(s.block_bytes, plan.block_bytes);
        assert_int_equal(s.n_blocks, plan.n_blocks);
        assert_int_equal(s.usable_tokens, plan.usable_tokens);
        assert_int_equal(s.blocks_per_seq, plan.peak_blocks);
        assert_int_equal(s.max_seqs, plan.max_full_seqs);
    }
}

/* Groups of layers with and without a window: the planner's peak in steps of one token. */
static void equals_the_plan_of_windows(void **state)
{
    (void)state;
    pkv__rng rng;
    start(&rng, 4711);
    for (int k = 0; k < 1000; k++) {
        const int32_t each = between(&rng, 1, 6), n_full = between(&rng, 0, 3);
        int32_t n_window = between(&rng, 1, 4);
        if (n_full == 0) n_window = 1; /* all layers in one group */
        if (n_full == 2 && n_window % 2 == 0) n_window++;
        if (n_full == 3 && n_window == 3) n_window++;
        pkv_kv_geometry g = heads((n_full + n_window) * each, between(&rng, 1, 4),
                                  8 * between(&rng, 1, 16), PKV_I8);
        g.n_window_layers = n_window * each;
        g.window_tokens = between(&rng, 1, 100);
        pkv_kv_budget b = some_budget();
        b.memory_bytes = (size_t)between(&rng, 1 << 20, 1 << 25);
        b.block_tokens = between(&rng, 1, 40);
        b.tokens = between(&rng, 1, 300);
        pkv_group groups[PKV_MAX_GROUPS];
        pkv_kv_shape shapes[PKV_MAX_GROUPS];
        for (int32_t i = 0; i < n_full + n_window; i++) {
            const bool full = i < n_full;
            groups[i] = (pkv_group){ full ? PKV_GROUP_FULL : PKV_GROUP_SLIDING, b.block_tokens,
                                     full ? 0 : g.window_tokens, 0, 0 };
            shapes[i] = (pkv_kv_shape){ each, g.n_kv_heads, g.head_dim, b.block_tokens, PKV_I8 };
        }
        pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
        cfg.max_seqs = 1;
        cfg.max_seq_tokens = b.tokens;
        cfg.flags = 0;
        cfg.groups = groups;
        cfg.n_groups = n_full + n_window;
        pkv_plan_result plan = PKV_PLAN_RESULT_INIT;
        pkv_kv_size s = PKV_KV_SIZE_INIT;
        const pkv_status status = pkv_kv_size_of(&g, &b, NULL, &s);
        const pkv_status planned = pkv_plan_groups(shapes, b.memory_bytes, 1, &cfg, &plan);
        if (planned == PKV_E_INVALID_ARG) {
            assert_true(status == PKV_E_NEVER && s.n_blocks == 0);
            continue;
        }
        assert_int_equal(status, planned);
        assert_int_equal(s.block_bytes, plan.block_bytes);
        assert_int_equal(s.blocks_per_seq, plan.peak_blocks);
        assert_int_equal(s.max_seqs, plan.max_full_seqs);
    }
}

/* ---------------------------------------------------------------- refusals */

static void never(void **state)
{
    (void)state;
    last_log log;
    const pkv_logger logger = log_to(&log);
    const pkv_kv_geometry g = heads(32, 8, 128, PKV_F16); /* 2 MiB per block */
    pkv_kv_budget b = some_budget();
    pkv_kv_size s = PKV_KV_SIZE_INIT;
    b.weight_bytes = 17 * GIB;
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_NEVER);
    assert_non_null(strstr(log.text, "leave nothing"));
    assert_true(s.kv_bytes == 0 && s.n_blocks == 0 && s.max_seqs == 0 && s.usable_tokens == 0);
    assert_int_equal(s.blocks_per_seq, 63);
    b.weight_bytes = 0;
    b.memory_bytes = (size_t)63 << 21; /* a block for every 16 tokens, none for the null block */
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_NEVER);
    assert_non_null(strstr(log.text, "63 blocks"));
    assert_true(s.n_blocks == 63 && s.max_seqs == 0);
    b.memory_bytes = (size_t)64 << 21;
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_OK);
    assert_int_equal(s.max_seqs, 1);
    b.memory_bytes = (size_t)1 << 21; /* the null block alone */
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_NEVER);
    assert_int_equal(s.n_blocks, 0);
}

typedef struct bad_field {
    bool of_budget;
    size_t at;
    int32_t value;
    const char *says;
} bad_field;
#define GEOMETRY(field, value)                                                                     \
    {                                                                                              \
        false, offsetof(pkv_kv_geometry, field), value, #field                                     \
    }
#define BUDGET(field, value)                                                                       \
    {                                                                                              \
        true, offsetof(pkv_kv_budget, field), value, #field                                        \
    }

static void refusals(void **state)
{
    (void)state;
    static const bad_field bad[] = {
        GEOMETRY(n_layers, 0),
        GEOMETRY(n_kv_heads, 0),
        GEOMETRY(n_kv_heads, -1),
        GEOMETRY(head_dim, 0),
        GEOMETRY(head_dim, 12),
        GEOMETRY(head_dim, 264),
        GEOMETRY(latent_dim, 512), /* with heads */
        GEOMETRY(n_window_layers, -1),
        GEOMETRY(n_window_layers, 33),
        GEOMETRY(window_tokens, 1),
        GEOMETRY(dtype, PKV_DTYPE_COUNT),
        BUDGET(tp, 0),
        BUDGET(tp, 3),
        BUDGET(block_tokens, 0),
        BUDGET(block_tokens, 2049),
        BUDGET(tokens, 0),
        BUDGET(tokens, 4001),
        BUDGET(max_tokens, 999),
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        last_log log;
        const pkv_logger logger = log_to(&log);
        pkv_kv_geometry g = heads(32, 8, 128, PKV_F16);
        pkv_kv_budget b = some_budget();
        pkv_kv_size s = PKV_KV_SIZE_INIT;
        memcpy((bad[k].of_budget ? (char *)&b : (char *)&g) + bad[k].at, &bad[k].value,
               sizeof(int32_t));
        assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_INVALID_ARG);
        assert_int_equal(log.n_lines, 1);
        const char *says = bad[k].of_budget && bad[k].value == 4001 ? "max_tokens" : bad[k].says;
        if (strncmp(log.text, says, strlen(says)) != 0) fail_msg("%s: %s", says, log.text);
        assert_true(s.block_bytes == 0 && s.kv_bytes == 0);
    }
}

static void refusals_of_latents_and_calls(void **state)
{
    (void)state;
    pkv_kv_geometry g = PKV_KV_GEOMETRY_INIT;
    pkv_kv_budget b = some_budget();
    pkv_kv_size s = PKV_KV_SIZE_INIT;
    g.n_layers = 2;
    const int32_t dims[][2] = { { 4, 64 },   { 513, 64 }, { 4104, 0 },
                                { 512, -8 }, { 512, 4 },  { 0, 64 } };
    for (size_t k = 0; k < PKV_ARRAY_LEN(dims); k++) {
        g.latent_dim = dims[k][0], g.rope_dim = dims[k][1];
        assert_int_equal(pkv_kv_size_of(&g, &b, NULL, &s), PKV_E_INVALID_ARG);
    }
    g.latent_dim = 512, g.rope_dim = 64;
    g.n_window_layers = 1; /* a window of nothing */
    assert_int_equal(pkv_kv_size_of(&g, &b, NULL, &s), PKV_E_INVALID_ARG);
    g.n_window_layers = 0;
    assert_int_equal(pkv_kv_size_of(NULL, &b, NULL, &s), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_size_of(&g, NULL, NULL, &s), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_size_of(&g, &b, NULL, NULL), PKV_E_INVALID_ARG);
    g.struct_size++;
    assert_int_equal(pkv_kv_size_of(&g, &b, NULL, &s), PKV_E_ABI);
    g.struct_size--, b.struct_size--;
    assert_int_equal(pkv_kv_size_of(&g, &b, NULL, &s), PKV_E_ABI);
    b.struct_size++, s.struct_size = 0;
    assert_int_equal(pkv_kv_size_of(&g, &b, NULL, &s), PKV_E_ABI);
    assert_int_equal(s.block_bytes, 0);
}

/* Products beyond 2^64: of a layer's heads, of a block, of a whole reservation. */
static void products_that_do_not_fit(void **state)
{
    (void)state;
    last_log log;
    const pkv_logger logger = log_to(&log);
    pkv_kv_geometry g = heads(INT32_MAX, INT32_MAX, 256, PKV_F32);
    pkv_kv_budget b = some_budget();
    pkv_kv_size s = PKV_KV_SIZE_INIT;
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_INVALID_ARG);
    assert_non_null(strstr(log.text, "n_layers"));
    g = heads(1 << 20, 1 << 20, 256, PKV_F32); /* 2^51 a token */
    b.block_tokens = 2048;
    b.max_tokens = 4000;
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_NEVER);
    b.max_tokens = INT32_MAX;
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_INVALID_ARG);
    g.latent_dim = 4096, g.n_kv_heads = 0, g.head_dim = 0, g.n_layers = INT32_MAX;
    assert_int_equal(pkv_kv_size_of(&g, &b, &logger, &s), PKV_E_INVALID_ARG);
}

/* ---------------------------------------------------------------- requests */

/* Blocks of a request, worked out by hand: shared full blocks of the prompt once, the rest n
 * times. The last token is never written. */
static void request_blocks(void **state)
{
    (void)state;
    static const struct {
        int32_t n_prompt, max_new, n, block_tokens;
        int64_t want;
    } cases[] = {
        { 1, 1, 1, 16, 1 },        /* one slot */
        { 16, 1, 1, 16, 1 },       /* the new token is not written */
        { 16, 2, 1, 16, 2 },       /* the first of two is */
        { 17, 15, 1, 16, 2 },      /* 31 tokens */
        { 17, 16, 1, 16, 2 },      /* 32 */
        { 17, 17, 1, 16, 3 },      /* 33 */
        { 20, 13, 4, 16, 5 },      /* one shared, one of each */
        { 32, 1, 4, 16, 2 },       /* all shared */
        { 20, 1, 4, 16, 2 },       /* one token each, of the same logits */
        { 32, 2, 4, 16, 6 },       /* two shared, one of each */
        { 5, 5, 3, 1, 5 + 3 * 4 }, /* a block per token */
        { INT32_MAX, INT32_MAX, INT32_MAX, 1, INT32_MAX + (int64_t)INT32_MAX * (INT32_MAX - 1ll) },
        { 0, 1, 1, 16, 0 }, /* nothing to ask about */
        { 1, 0, 1, 16, 0 },
        { 1, 1, 0, 16, 0 },
        { 1, 1, 1, 0, 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        const int64_t got = pkv_kv_request_blocks(cases[k].n_prompt, cases[k].max_new, cases[k].n,
                                                  cases[k].block_tokens);
        if (got != cases[k].want)
            fail_msg("case %zu: %lld blocks, expected %lld", k, (long long)got,
                     (long long)cases[k].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_per_token),
        cmocka_unit_test(what_fits),
        cmocka_unit_test(latents),
        cmocka_unit_test(ranks),
        cmocka_unit_test(equals_the_plan),
        cmocka_unit_test(equals_the_plan_of_windows),
        cmocka_unit_test(never),
        cmocka_unit_test(refusals),
        cmocka_unit_test(refusals_of_latents_and_calls),
        cmocka_unit_test(products_that_do_not_fit),
        cmocka_unit_test(request_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
