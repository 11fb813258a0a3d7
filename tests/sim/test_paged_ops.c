/* The paged policies through their table of functions, with a scheduler of a few lines: after every
 * call the block manager equals the model, and in every step the parts are what the model's blocks
 * say, slot by slot. Tiny pools, so that requests are preempted, swapped and evicted all the time.
 */
#include "common/philox.h"
#include "sim/paged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 24, MAX_IDS = 64 };

typedef struct counts {
    int64_t preempted, swapped, given_up, found, found_again, copied, evicted, finished, swaps_full;
} counts;

/* A run in the making. */
typedef struct play {
    pkv_sim_config cfg;
    pkv_sim_request reqs[N];
    pkv_sim_content content;
    int64_t first[N];
    int32_t n_ids[N], ids[N * MAX_IDS];
    uint64_t seed;
    int32_t n_seqs;
    pkv__paged *p;
    int32_t g[N];
    int64_t running[N], swapped[N], waiting[N]; /* swapped and waiting: last one is the head */
    int32_t n_running, n_swapped, n_waiting;
    counts *sum;
} play;

static const pkv__sim_policy_ops *const ops = &pkv__sim_policy_paged;

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "# %s\n", text);
}

static uint64_t first_seed(uint64_t usual)
{
    const char *given = getenv("PKV_SEED");
    return given ? strtoull(given, NULL, 10) : usual;
}

static void need(const play *y, bool ok, const char *what)
{
    if (!ok) fail_msg("PKV_SEED=%llu: %s", (unsigned long long)y->seed, what);
}

static int32_t resident(const play *y, int64_t r)
{
    return y->reqs[r].prompt_tokens + y->g[r];
}

static void check(const play *y)
{
    need(y, ops->check(y->p) == PKV_OK, "check");
}

/* Slots of used blocks of the model with a token, distinct. */
static int64_t tokens_of_model(const play *y)
{
    const pkv__sim_shadow *m = &y->p->shadow;
    int64_t sum = 0;
    for (int32_t b = 0; b < m->n_blocks; b++) {
        int32_t most = 0;
        for (int32_t s = 0; s < m->n_seqs && m->blocks[b].refs > 0; s++) {
            for (int32_t at = 0; at < m->seqs[s].len; at++) {
                if (m->rows[s * m->width + at] != b) continue;
                const pkv__paged_run *run = &y->p->runs[s / y->n_seqs];
                const int32_t u = run->suspended ? m->seqs[s].committed : resident(y, run->r);
                const int32_t filled = u - at * m->block_tokens;
                most = pkv__max_i32(most, pkv__min_i32(filled, m->block_tokens));
            }
        }
        sum += most;
    }
    return sum;
}

static void check_usage(const play *y)
{
    pkv__sim_sample sum = { { 0 } }, all;
    int64_t tokens = 0, n_free;
    for (int32_t k = 0; k < y->n_running; k++) {
        const int64_t r = y->running[k];
        tokens += (int64_t)y->n_seqs * resident(y, r);
        ops->usage_of(y->p, r, resident(y, r), &sum);
        need(y, ops->held(y->p, r) > 0, "held");
        need(y, ops->leap_limit(y->p, r, resident(y, r)) >= 1, "leap limit");
    }
    ops->usage(y->p, tokens, &all, &n_free);
    need(y, all.part[PKV__PART_LOGICAL] == tokens, "logical");
    need(y, sum.part[PKV__PART_LOGICAL] == tokens, "logical by request");
    need(y, sum.part[PKV__PART_INTERNAL] == all.part[PKV__PART_INTERNAL], "internal by request");
    need(y, all.part[PKV__PART_TOKEN] == tokens_of_model(y), "distinct tokens");
    need(y, n_free == ops->largest_free(y->p), "largest free");
    all.part[PKV__PART_IDLE] = n_free;
    need(y, pkv__sim_sample_valid(&all, y->cfg.pool_tokens), "parts sum to the pool");
    need(y, all.part[PKV__PART_CACHED] <= n_free, "cached is free");
}

static void drop_running(play *y, int64_t r)
{
    int32_t k = 0;
    while (y->running[k] != r) k++;
    for (y->n_running--; k < y->n_running; k++) y->running[k] = y->running[k + 1];
}

static void preempt_latest(play *y)
{
    int64_t r = y->running[0];
    for (int32_t k = 1; k < y->n_running; k++)
        if (y->running[k] > r) r = y->running[k];
    drop_running(y, r);
    y->sum->preempted++;
    const pkv_status status = ops->suspend(y->p, r, resident(y, r));
    if (status == PKV_OK) {
        y->swapped[y->n_swapped++] = r;
        y->sum->swapped++;
    } else {
        need(y, status == PKV_E_NO_BLOCKS, "suspend");
        y->sum->swaps_full += y->cfg.policy.swap;
        need(y, ops->release(y->p, r) == PKV_OK, "release");
        y->waiting[y->n_waiting++] = r;
    }
    check(y);
}

/* What need() says is what admission and resume go by. */
static void check_need(const play *y, int64_t r, bool empty, pkv_status status)
{
    const int64_t b = y->p->block_tokens, slots = (int64_t)pkv__paged_room(y->p) * b;
    const bool fits =
        ops->need(y->p, r, resident(y, r)) <= slots + (empty ? y->p->watermark * b : 0);
    need(y, status != PKV_E_NO_BLOCKS || !fits, "need says that there is room");
}

static void let_in(play *y)
{
    const int32_t max = y->cfg.max_num_seqs;
    while (y->n_swapped > 0 && y->n_running < max) {
        const int64_t r = y->swapped[y->n_swapped - 1];
        const bool empty = y->n_running == 0;
        const bool given_up = pkv__paged_run_of(y->p, r)->n_open == 0;
        bool lost;
        int32_t cached;
        const pkv_status status = ops->resume(y->p, r, resident(y, r), empty, &lost, &cached);
        check(y);
        check_need(y, r, empty, status);
        if (status == PKV_E_NO_BLOCKS) break;
        need(y, status == PKV_OK && lost == given_up, "resume");
        y->sum->given_up += given_up;
        y->n_swapped--;
        y->running[y->n_running++] = r;
    }
    need(y, y->n_swapped == 0 || y->n_running > 0, "swapped requests starve");
    while (y->n_swapped == 0 && y->n_waiting > 0 && y->n_running < max) {
        const int64_t r = y->waiting[y->n_waiting - 1];
        const int32_t u = resident(y, r), known = ops->probe(y->p, r, u);
        const bool empty = y->n_running == 0;
        int32_t cached = -1;
        const pkv_status status = ops->admit(y->p, r, u, empty, &cached);
        check(y);
        check_need(y, r, empty, status);
        if (status == PKV_E_NO_BLOCKS) break;
        need(y, status == PKV_OK && cached == known && cached < u, "admit");
        y->n_waiting--;
        y->running[y->n_running++] = r;
    }
    need(y, y->n_waiting == 0 || y->n_running > 0, "whatever fits an empty pool is admitted");
}

static bool is_running(const play *y, int64_t r)
{
    for (int32_t k = 0; k < y->n_running; k++)
        if (y->running[k] == r) return true;
    return false;
}

/* In order of admission; a victim may be the one that asks. */
static void grow_all(play *y)
{
    int64_t order[N];
    const int32_t n = y->n_running;
    memcpy(order, y->running, sizeof(order));
    for (int32_t k = 0; k < n; k++) {
        while (is_running(y, order[k])) {
            const int64_t before = ops->held(y->p, order[k]);
            const pkv_status status = ops->grow(y->p, order[k], resident(y, order[k]));
            check(y);
            if (status == PKV_OK) break;
            need(y, status == PKV_E_NO_BLOCKS && ops->held(y->p, order[k]) <= before, "grow");
            preempt_latest(y);
        }
    }
}

static void play_all(play *y)
{
    for (int64_t r = N - 1; r >= 0; r--)
        if (ops->fits_empty(y->p, r) &&
            y->reqs[r].prompt_tokens + y->reqs[r].output_tokens <= y->cfg.max_model_len)
            y->waiting[y->n_waiting++] = r;
    for (int64_t step = 0; y->n_waiting + y->n_swapped + y->n_running > 0; step++) {
        need(y, step < 100000, "no end");
        let_in(y);
        grow_all(y);
        check_usage(y);
        for (int32_t k = y->n_running - 1; k >= 0; k--) y->g[y->running[k]]++;
        for (int32_t k = y->n_running - 1; k >= 0; k--) {
            const int64_t r = y->running[k];
            if (y->g[r] < y->reqs[r].output_tokens) continue;
            drop_running(y, r);
            need(y, ops->release(y->p, r) == PKV_OK, "release");
            check(y);
            y->sum->finished++;
        }
    }
    need(y, y->p->n_active == 0 && y->p->n_free + y->p->n_cached == y->p->usable, "all returned");
}

/* ---------------------------------------------------------------- random cases */

static void draw_content(play *y, pkv__rng *rng)
{
    const int32_t per_id = 1 + (int32_t)pkv__rng_below(rng, 12);
    y->content = (pkv_sim_content){ per_id, 2 + (int32_t)pkv__rng_below(rng, 6), y->first, y->n_ids,
                                    y->ids };
    for (int r = 0; r < N; r++) {
        const int32_t most = pkv__ceil_div_i32(y->reqs[r].prompt_tokens, per_id);
        y->first[r] = (int64_t)r * MAX_IDS;
        y->n_ids[r] = most - (int32_t)pkv__rng_below(rng, 3);
        if (y->n_ids[r] < 0) y->n_ids[r] = 0;
        if (y->n_ids[r] > MAX_IDS) y->n_ids[r] = MAX_IDS;
        /* Mostly the same beginnings. */
        const int32_t like = (int32_t)pkv__rng_below(rng, (uint32_t)r + 1);
        int32_t same = (int32_t)pkv__rng_below(rng, MAX_IDS);
        if (like < r && y->n_ids[like] < same) same = y->n_ids[like];
        for (int32_t k = 0; k < y->n_ids[r]; k++)
            y->ids[y->first[r] + k] =
                like < r && k < same
                    ? y->ids[y->first[like] + k]
                    : (int32_t)pkv__rng_below(rng, (uint32_t)y->content.n_distinct);
    }
    if (pkv__rng_below(rng, 6) > 0) y->cfg.content = &y->content;
}

static void draw_case(play *y, pkv__rng *rng, bool prefix, bool swap, pkv_sim_group group)
{
    pkv_sim_config *cfg = &y->cfg;
    *cfg = (pkv_sim_config)PKV_SIM_CONFIG_INIT;
    cfg->log.fn = print_log;
    cfg->check = true;
    cfg->policy.prefix = prefix;
    cfg->policy.swap = swap;
    cfg->policy.group = group;
    cfg->policy.n_seqs = group ? 1 + (int32_t)pkv__rng_below(rng, 5) : 1;
    cfg->policy.switch_ppm = (int32_t)pkv__rng_below(rng, 5) * 250000;
    cfg->policy.block_tokens = pkv__rng_below(rng, 12) ? 1 + (int32_t)pkv__rng_below(rng, 9) : 29;
    cfg->pool_tokens = 30 + (int32_t)pkv__rng_below(rng, 300);
    cfg->max_model_len = 20 + (int32_t)pkv__rng_below(rng, 200);
    cfg->max_num_seqs = 1 + (int32_t)pkv__rng_below(rng, 12);
    cfg->watermark_ppm =
        pkv__rng_below(rng, 12) ? (int32_t)pkv__rng_below(rng, 4) * 50000 : 1000000;
    cfg->swap_tokens = (int32_t)pkv__rng_below(rng, 3) * (int32_t)pkv__rng_below(rng, 200);
    cfg->seed = y->seed;
    const uint32_t longest = 1 + pkv__rng_below(rng, 60);
    for (int r = 0; r < N; r++) {
        y->reqs[r].prompt_tokens = 1 + (int32_t)pkv__rng_below(rng, longest);
        y->reqs[r].output_tokens = 1 + (int32_t)pkv__rng_below(rng, 40);
    }
    draw_content(y, rng);
}

static void play_cases(bool prefix, bool swap, pkv_sim_group group, counts *sum)
{
    const uint64_t first = first_seed(1), n_cases = getenv("PKV_SEED") ? 1 : 200;
    *sum = (counts){ 0 };
    for (uint64_t seed = first; seed < first + n_cases; seed++) {
        play y = { .seed = seed, .sum = sum };
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        draw_case(&y, &rng, prefix, swap, group);
        y.n_seqs = pkv__sim_n_seqs(&y.cfg.policy);
        void *self;
        assert_int_equal(ops->create(&y.cfg, y.reqs, N, &self), PKV_OK);
        y.p = self;
        play_all(&y);
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        ops->result(y.p, &res);
        sum->found += res.hits.cached_tokens;
        sum->found_again += res.hits.again_cached;
        sum->copied += res.copied_blocks;
        need(&y, prefix || res.hits.cached_tokens + res.hits.again_cached == 0, "found nothing");
        need(&y, res.hits.cached_tokens <= res.hits.prompt_tokens, "found no more than there was");
        need(&y, y.cfg.content || res.hits.cached_tokens == 0, "nothing alike, nothing found");
        ops->destroy(y.p);
    }
    fprintf(stderr,
            "# prefix %d swap %d group %d: %lld finished, %lld preempted, %lld swapped, %lld times "
            "no swap space, %lld given up, %lld tokens found, %lld again, %lld blocks copied\n",
            prefix, swap, (int)group, (long long)sum->finished, (long long)sum->preempted,
            (long long)sum->swapped, (long long)sum->swaps_full, (long long)sum->given_up,
            (long long)sum->found, (long long)sum->found_again, (long long)sum->copied);
    if (n_cases == 1) return;
    assert_true(sum->preempted > 100);
    assert_true((sum->swapped > 100) == swap && (sum->swaps_full > 100) == swap);
    assert_true((sum->found > 100) == prefix && (sum->found_again > 100) == prefix);
    assert_true((sum->copied > 100) == (group != PKV_SIM_GROUP_NONE));
}

static void test_plain(void **state)
{
    (void)state;
    counts sum;
    play_cases(false, false, PKV_SIM_GROUP_NONE, &sum);
}

static void test_prefix(void **state)
{
    (void)state;
    counts sum;
    play_cases(true, false, PKV_SIM_GROUP_NONE, &sum);
}

static void test_swap(void **state)
{
    (void)state;
    counts sum;
    play_cases(false, true, PKV_SIM_GROUP_NONE, &sum);
    assert_int_equal(sum.given_up, 0);
}

/* What is shared stays in the pool when a victim goes; where it is in the way, it goes. */
static void test_prefix_swap(void **state)
{
    (void)state;
    counts sum;
    play_cases(true, true, PKV_SIM_GROUP_NONE, &sum);
}

static void test_groups(void **state)
{
    (void)state;
    counts sum;
    for (int k = 0; k < 4; k++) {
        play_cases(k & 1, k & 2, PKV_SIM_GROUP_FORK, &sum);
        play_cases(k & 1, k & 2, PKV_SIM_GROUP_BEAM, &sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_swap),   cmocka_unit_test(test_prefix_swap),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
