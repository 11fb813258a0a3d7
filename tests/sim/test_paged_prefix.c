/* Prompts that are found in the cache: small cases by hand, laws, and a public trace of prompts. */
#include "both_engines.h"
#include "pagedkv/blockmgr_steps.h"
#include "sim/paged.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "# %s\n", text);
}

#define expect_close(got, want) close_to(got, want, #got, __LINE__)
static void close_to(double got, double want, const char *what, int line)
{
    if (!(fabs(got - want) <= 1e-12))
        fail_msg("line %d: %s is %.17g, expected %.17g", line, what, got, want);
}

/* Blocks of 4, steps of 10 ns, nothing kept free, averages over everything. */
static pkv_sim_config small_config(int32_t pool, const pkv_sim_content *content)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.policy.block_tokens = 4;
    cfg.policy.prefix = true;
    cfg.pool_tokens = pool;
    cfg.max_model_len = 64;
    cfg.watermark_ppm = 0;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.window = PKV_SIM_WINDOW_ALL;
    cfg.check = true;
    cfg.content = content;
    cfg.log.fn = print_log;
    return cfg;
}

/* ---------------------------------------------------------------- by hand */

/* 6 blocks. Prompts of 4-token ids: A 0 1, B 0 1 2, C 0 1; outputs of 2, 1 and 1; C comes later.
 *   step at 0    A takes 2 blocks, B finds both (8 of its 12 tokens) and takes 1; one more each for
 *                the token to come. Rows 3 + 4 = 7 blocks, 5 different ones; 20 tokens, 12
 * different step at 10   B is done: its block of id 2 stays as cache, the empty one does not. A has
 * 3 blocks, 9 tokens 20 .. 100    nobody; 3 blocks with content: ids 2, 1, 0 step at 100  C finds
 * id 0, no more, because it has to compute its last token itself. What it computes is the content
 * of id 1 again: the cached block goes. 3 blocks, 8 tokens */
static void test_by_hand(void **state)
{
    (void)state;
    const int64_t first[] = { 0, 2, 5 };
    const int32_t n_ids[] = { 2, 3, 2 }, ids[] = { 0, 1, 0, 1, 2, 0, 1 };
    const pkv_sim_content content = { 4, 3, first, n_ids, ids };
    const pkv_sim_request reqs[] = { { 0, 8, 2 }, { 0, 12, 1 }, { 100, 8, 1 } };
    const pkv_sim_config cfg = small_config(24, &content);
    const pkv_sim_result res = run_both(&cfg, reqs, 3);
    assert_int_equal(res.end_ns, 110);
    const pkv_sim_hits *h = &res.hits;
    assert_int_equal(h->prompt_tokens, 8 + 12 + 8);
    assert_int_equal(h->cached_tokens, 0 + 8 + 4);
    assert_int_equal(h->prompt_blocks, 2 + 3 + 2);
    assert_int_equal(h->cached_blocks, 0 + 2 + 1);
    assert_int_equal(h->again_tokens, 0);
    expect_close(h->mean_rate, (0 + 8.0 / 12 + 4.0 / 8) / 3);
    const double all = 24 * 110;
    expect_close(res.split.token, (12 * 10 + 9 * 10 + 8 * 10) / all);
    expect_close(res.split.logical, (20 * 10 + 9 * 10 + 8 * 10) / all);
    expect_close(res.split.internal, (8 * 10 + 3 * 10 + 4 * 10) / all);
    expect_close(res.split.cached, (0 + 4 * 10 + 12 * 80 + 4 * 10) / all);
    /* Without sharing 7, 3 and 3 blocks, with it 5, 3 and 3. */
    expect_close(res.sharing_saving, 2.0 / 13);
}

/* 3 blocks. X (ids 0 1) leaves both cached and one free. Y (id 2) takes the free one and, for its
 * token, evicts: the end of X's prompt, because it was released first. Z (0 1) finds id 0. */
static void test_tail_goes_first(void **state)
{
    (void)state;
    const int64_t first[] = { 0, 2, 3 };
    const int32_t n_ids[] = { 2, 1, 2 }, ids[] = { 0, 1, 2, 0, 1 };
    const pkv_sim_content content = { 4, 3, first, n_ids, ids };
    const pkv_sim_request reqs[] = { { 0, 8, 1 }, { 100, 4, 1 }, { 200, 8, 1 } };
    const pkv_sim_config cfg = small_config(12, &content);
    const pkv_sim_result res = run_both(&cfg, reqs, 3);
    assert_int_equal(res.hits.cached_tokens, 4);
}

/* As many blocks, but Y's prompt takes two: it evicts both of X's, Z finds nothing. */
static void test_all_goes(void **state)
{
    (void)state;
    const int64_t first[] = { 0, 2, 4 };
    const int32_t n_ids[] = { 2, 2, 2 }, ids[] = { 0, 1, 2, 3, 0, 1 };
    const pkv_sim_content content = { 4, 4, first, n_ids, ids };
    const pkv_sim_request reqs[] = { { 0, 8, 1 }, { 100, 8, 1 }, { 200, 8, 1 } };
    const pkv_sim_config cfg = small_config(12, &content);
    const pkv_sim_result res = run_both(&cfg, reqs, 3);
    assert_int_equal(res.hits.cached_tokens, 0);
}

/* Ids of 6 tokens and blocks of 4: a block is found if all of it is known. P (ids 0 1, 11 tokens)
 * and Q (0 2, 11 tokens) share 6 tokens, so one block; R (0 1) shares 8 of P's, two blocks. What no
 * id covers is unlike everything: S has only its first 6 tokens named. */
static void test_ids_across_blocks(void **state)
{
    (void)state;
    const int64_t first[] = { 0, 2, 4, 6 };
    const int32_t n_ids[] = { 2, 2, 2, 1 }, ids[] = { 0, 1, 0, 2, 0, 1, 0 };
    const pkv_sim_content content = { 6, 3, first, n_ids, ids };
    const pkv_sim_request reqs[] = { { 0, 11, 1 }, { 0, 11, 1 }, { 0, 11, 1 }, { 0, 11, 1 } };
    const pkv_sim_config cfg = small_config(400, &content);
    const pkv_sim_result res = run_both(&cfg, reqs, 4);
    assert_int_equal(res.hits.cached_tokens, 0 + 4 + 8 + 4);
}

/* A of 4 tokens and 9 to come, B of 4 and 8, other content, 5 blocks of which 1 is kept free at
 * admission. Both grow to 2 blocks at once; at u = 8 A takes the fifth and B, at the same place, is
 * preempted. Its blocks are cached, but 2 and the one to keep are not there before A is done. At 12
 * tokens A takes the end of what B left; B then finds its first block. */
static void test_preempted_finds_itself(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 4, 9 }, { 0, 4, 8 } };
    pkv_sim_config cfg = small_config(20, NULL);
    cfg.watermark_ppm = 200000;
    const pkv_sim_result res = run_both(&cfg, reqs, 2);
    assert_int_equal(res.n_preemptions, 1);
    assert_int_equal(res.hits.cached_tokens, 0);
    assert_int_equal(res.hits.again_tokens, 8);
    assert_int_equal(res.hits.again_cached, 4);
    assert_int_equal(res.recomputed_tokens, 8 - 4);
}

/* Token ids of two requests with two sequences each, 3 content ids of 4 tokens: what is not known
 * to be alike has a number of its own, 3 + r in prompts, 3 + 2 + 2 r + k in outputs. */
static void test_ids(void **state)
{
    (void)state;
    const int64_t first[] = { 0, 2 };
    const int32_t n_ids[] = { 2, 1 }, ids[] = { 2, 0, 1 };
    const pkv_sim_content content = { 4, 3, first, n_ids, ids };
    const pkv_sim_request reqs[] = { { 0, 6, 3 }, { 0, 6, 3 } };
    pkv_sim_config cfg = small_config(80, &content);
    cfg.policy.group = PKV_SIM_GROUP_FORK;
    cfg.policy.n_seqs = 2;
    static const int32_t want[2][2][9] = {
        { { 2, 2, 2, 2, 0, 0, 5, 5, 5 }, { 2, 2, 2, 2, 0, 0, 6, 6, 6 } },
        { { 1, 1, 1, 1, 4, 4, 7, 7, 7 }, { 1, 1, 1, 1, 4, 4, 8, 8, 8 } },
    };
    void *self;
    assert_int_equal(pkv__sim_policy_paged.create(&cfg, reqs, 2, &self), PKV_OK);
    for (int r = 0; r < 2; r++) {
        for (int k = 0; k < 2; k++) {
            for (int32_t from = 0; from < 9; from++) {
                for (int32_t upto = from; upto <= 9; upto++) {
                    int32_t got[9] = { 0 };
                    pkv__paged_fill_ids(self, r, k, from, upto, got);
                    assert_memory_equal(got, want[r][k] + from,
                                        (size_t)(upto - from) * sizeof(int32_t));
                }
            }
        }
    }
    pkv__sim_policy_paged.destroy(self);
}

/* ---------------------------------------------------------------- laws */

/* Nothing alike: nothing is found, and while nobody is preempted all is as without a cache. */
static void test_nothing_alike(void **state)
{
    (void)state;
    enum { N = 400 };
    pkv_sim_request reqs[N];
    assert_int_equal(pkv_sim_draw("sharegpt-like", 3, 2000000, NULL, reqs, N), PKV_OK);
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.check = true;
    cfg.pool_tokens = 60000;
    cfg.policy.prefix = true;
    pkv_sim_result with = run_both(&cfg, reqs, N);
    assert_int_equal(with.hits.cached_tokens, 0);
    assert_true(with.hits.prompt_tokens > 0 && with.split.cached > 0.1);
    assert_int_equal(with.n_preemptions, 0);
    cfg.policy.prefix = false;
    const pkv_sim_result without = run_both(&cfg, reqs, N);
    with.hits = without.hits;
    with.split.cached = 0;
    assert_memory_equal(&with, &without, sizeof(with));
}

/* All prompts alike, of 6 blocks and a bit: whoever comes second finds all full blocks, and they
 * are there once. */
static void test_all_alike(void **state)
{
    (void)state;
    enum { N = 10 };
    int64_t first[N];
    int32_t n_ids[N];
    const int32_t ids[] = { 0, 1, 2, 3 };
    pkv_sim_request reqs[N];
    for (int r = 0; r < N; r++) {
        first[r] = 0;
        n_ids[r] = 4;
        reqs[r] = (pkv_sim_request){ 0, 26, 1 };
    }
    const pkv_sim_content content = { 8, 4, first, n_ids, ids };
    pkv_sim_config cfg = small_config(400, &content);
    const pkv_sim_result res = run_both(&cfg, reqs, N);
    assert_int_equal(res.hits.cached_tokens, (N - 1) * 24);
    /* One step: 24 shared tokens, 2 of each. */
    expect_close(res.split.token, (24 + 2.0 * N) / 400);
    expect_close(res.split.logical, 26.0 * N / 400);
    expect_close(res.sharing_saving, 6.0 * (N - 1) / (7 * N));
}

static void test_refusals(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 8, 1 } };
    const int64_t first[] = { 0 };
    int32_t n_ids[] = { 2 }, ids[] = { 0, 1 };
    pkv_sim_content content = { 4, 2, first, n_ids, ids };
    pkv_sim_config cfg = small_config(40, &content);
    cfg.log.fn = NULL;
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv_sim_run(&cfg, reqs, 1, &res), PKV_OK);
    n_ids[0] = 3; /* 12 tokens */
    assert_int_equal(pkv_sim_run(&cfg, reqs, 1, &res), PKV_E_INVALID_ARG);
    n_ids[0] = -1;
    assert_int_equal(pkv_sim_run(&cfg, reqs, 1, &res), PKV_E_INVALID_ARG);
    n_ids[0] = 2;
    ids[1] = 2;
    assert_int_equal(pkv_sim_run(&cfg, reqs, 1, &res), PKV_E_INVALID_ARG);
    ids[1] = 1;
    content.block_tokens = 0;
    assert_int_equal(pkv_sim_run(&cfg, reqs, 1, &res), PKV_E_INVALID_ARG);
    content.block_tokens = 4;
    content.n_distinct = INT32_MAX - 1; /* and one request, and its output: one too many */
    assert_int_equal(pkv_sim_run(&cfg, reqs, 1, &res), PKV_E_LIMIT);
    content.n_distinct = INT32_MAX - 2;
    assert_int_equal(pkv_sim_run(&cfg, reqs, 1, &res), PKV_OK);
}

/* ---------------------------------------------------------------- the check can fail */

/* Two requests in; then the cache, the model's counts or its rows are damaged. */
static void expect_corrupt(void (*damage)(pkv__paged *p))
{
    const int64_t first[] = { 0, 2 };
    const int32_t n_ids[] = { 2, 2 }, ids[] = { 0, 1, 0, 2 };
    const pkv_sim_content content = { 4, 3, first, n_ids, ids };
    const pkv_sim_request reqs[] = { { 0, 9, 4 }, { 0, 9, 4 } };
    pkv_sim_config cfg = small_config(40, &content);
    cfg.log.fn = NULL;
    const pkv__sim_policy_ops *ops = &pkv__sim_policy_paged;
    void *self;
    int32_t cached;
    assert_int_equal(ops->create(&cfg, reqs, 2, &self), PKV_OK);
    assert_int_equal(ops->admit(self, 0, 9, true, &cached), PKV_OK);
    assert_int_equal(ops->admit(self, 1, 9, false, &cached), PKV_OK);
    assert_int_equal(cached, 4);
    assert_int_equal(ops->check(self), PKV_OK);
    assert_int_equal(ops->release(self, 0), PKV_OK);
    assert_int_equal(ops->check(self), PKV_OK);
    damage(self);
    assert_int_equal(ops->check(self), PKV_E_CORRUPT);
    ops->destroy(self);
}

static void evict_behind_its_back(pkv__paged *p)
{
    int32_t n;
    assert_int_equal(pkv_blockmgr_evict(p->mgr, 1, &n), PKV_OK);
    assert_int_equal(n, 1);
}
static void close_behind_its_back(pkv__paged *p)
{
    assert_int_equal(pkv_seq_close(p->mgr, pkv__paged_seqs_of(p, pkv__paged_run_of(p, 1))->seq),
                     PKV_OK);
}
static void one_free_block_more(pkv__paged *p)
{
    p->shadow.n_free++;
}
static void row_one_longer(pkv__paged *p)
{
    p->shadow.seqs[pkv__paged_seqs_of(p, pkv__paged_run_of(p, 1))->shadow].len++;
}

static void test_damage_is_seen(void **state)
{
    (void)state;
    expect_corrupt(evict_behind_its_back);
    expect_corrupt(close_behind_its_back);
    expect_corrupt(one_free_block_more);
    expect_corrupt(row_one_longer);
}

/* ---------------------------------------------------------------- Mooncake */

static int64_t read_file(void *ctx, void *buf, size_t cap)
{
    return (int64_t)fread(buf, 1, cap, ctx);
}

static void load_mooncake(pkv_sim_trace *out)
{
    const char *shared = getenv("PKV_SHARED");
    char path[1024];
    snprintf(path, sizeof(path), "%s/traces/mooncake/synthetic_trace.jsonl",
             shared ? shared : "../shared");
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "SKIPPED: %s is missing\n", path);
        skip();
    }
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    cfg.log.fn = print_log;
    *out = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
    const pkv_status status = pkv_sim_trace_read(read_file, file, &cfg, out);
    fclose(file);
    assert_int_equal(status, PKV_OK);
}

/* What a cache without end finds of the prompts in their order, in full blocks of B and without the
 * last token: ids are chained, so who knows an id knows what is before it. */
static int64_t found_without_end(const pkv_sim_trace *t, int32_t b, double *mean_rate)
{
    const pkv_sim_content *c = &t->content;
    int32_t *known = calloc((size_t)c->n_distinct, sizeof(*known)); /* tokens seen of each id */
    assert_non_null(known);
    int64_t sum = 0;
    *mean_rate = 0;
    for (int64_t r = 0; r < t->n_reqs; r++) {
        const int32_t i = t->reqs[r].prompt_tokens;
        int32_t found = 0;
        bool goes_on = true;
        for (int32_t k = 0; k < c->n_ids[r]; k++) {
            int32_t *seen = &known[c->ids[c->first[r] + k]];
            const int32_t left = i - k * c->block_tokens;
            const int32_t here = left < c->block_tokens ? left : c->block_tokens;
            if (goes_on) found += *seen < here ? *seen : here;
            goes_on = goes_on && *seen == c->block_tokens;
            if (here > *seen) *seen = here;
        }
        if (found > i - 1) found = i - 1;
        sum += found - found % b;
        *mean_rate += (double)(found - found % b) / i;
    }
    *mean_rate /= (double)t->n_reqs;
    free(known);
    return sum;
}

/* A pool that holds everything: exactly what there is to be found, and a share of it with less. */
static void test_mooncake(void **state)
{
    (void)state;
    pkv_sim_trace t;
    load_mooncake(&t);
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.content = &t.content;
    cfg.policy.prefix = true;
    cfg.policy.block_tokens = 64;
    cfg.pool_tokens = 25000000;
    cfg.max_model_len = 200000;
    cfg.log.fn = print_log;
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv_sim_run(&cfg, t.reqs, t.n_reqs, &res), PKV_OK);
    double mean_rate;
    const int64_t found = found_without_end(&t, 64, &mean_rate);
    assert_int_equal(res.n_finished, t.n_reqs);
    assert_int_equal(res.hits.cached_tokens, found);
    assert_int_equal(res.hits.cached_blocks, found / 64);
    assert_true(fabs(res.hits.mean_rate - mean_rate) < 1e-12);
    const double rate = (double)found / (double)res.hits.prompt_tokens;
    fprintf(stderr, "# found of the prompts: %.2f %%, mean per request %.2f %%\n", 100 * rate,
            100 * res.hits.mean_rate);
    assert_true(rate > 0.64 && rate < 0.6512); /* published for ids of 512 tokens: 65.12 % */
    pkv_sim_cache_forms forms = { .struct_size = sizeof(forms) };
    assert_int_equal(pkv_sim_cache_bound(&t.content, t.reqs, t.n_reqs, 64, NULL, &forms), PKV_OK);
    assert_true(found <= forms.found_block_tokens);

    int64_t last = -1; /* plain LRU: more blocks never find less of the same order of prompts */
    for (int32_t pool = 1 << 20; pool <= 1 << 24; pool *= 4) {
        cfg.pool_tokens = pool;
        assert_int_equal(pkv_sim_run(&cfg, t.reqs, t.n_reqs, &res), PKV_OK);
        assert_true(res.hits.cached_tokens > last && res.hits.cached_tokens <= found);
        last = res.hits.cached_tokens;
    }
    pkv_sim_trace_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_tail_goes_first),
        cmocka_unit_test(test_all_goes),
        cmocka_unit_test(test_ids_across_blocks),
        cmocka_unit_test(test_preempted_finds_itself),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_nothing_alike),
        cmocka_unit_test(test_all_alike),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_damage_is_seen),
        cmocka_unit_test(test_mooncake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
