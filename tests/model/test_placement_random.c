/* Long random lives of many sequences, over every placement and dtype: bytes, lengths and figures
 * are those of the plain model after every round, and a refusal changes nothing. PKV_SEED repeats.
 */
#include "placement_rig.h"

#include "pagedkv/pagedkv.h"

static uint64_t first_seed(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* Numbers of the sequences that are open, and parked or not. */
static int32_t living(const world *w, bool parked, int32_t *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < WORLD_SEQS; i++)
        if (w->seqs[i].open && w->seqs[i].parked == parked) out[n++] = i;
    return n;
}

/* A random choice of at least one, in a random order. */
static int32_t choose(world *w, int32_t *seqs, int32_t n, int32_t most)
{
    const int32_t want = 1 + world_below(w, pkv__min_i32(n, most));
    for (int32_t i = 0; i < want; i++) {
        const int32_t j = i + world_below(w, n - i), t = seqs[i];
        seqs[i] = seqs[j];
        seqs[j] = t;
    }
    return want;
}

/* Prompts begin with one of three texts, so that some are found and some are not. */
static void admit_some(world *w)
{
    int32_t ids[WORLD_TOKENS], seq;
    const int32_t n = 1 + world_below(w, 40), text = world_below(w, 3);
    const int32_t n_same = world_below(w, 40);
    for (int32_t i = 0; i < n; i++) ids[i] = i < n_same ? 10 * text + i % 7 : world_below(w, 3);
    const int32_t longest = pkv__min_i32(n + world_below(w, 60), WORLD_TOKENS + 1);
    const int32_t watermark = world_below(w, 3) ? 0 : world_below(w, 8);
    const pkv_status status =
        world_admit(w, ids, n, longest, 1 + world_below(w, 3), watermark, &seq);
    assert_true(status == PKV_OK || status == PKV_E_NO_BLOCKS || status == PKV_E_LIMIT ||
                status == PKV_E_NEVER);
}

/* Would one of them alone be longer than the pool? */
static bool exceeds_pool(const world *w, const int32_t *seqs, const int32_t *n_tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t n_blocks =
            pkv__ceil_div_i32(w->seqs[seqs[i]].n + n_tokens[i], w->o.block_tokens);
        if (n_blocks > w->o.n_blocks - 1) return true;
    }
    return false;
}

/* A step over some of the running ones; one in six is undone. */
static void step_some(world *w)
{
    int32_t seqs[WORLD_SEQS], n_tokens[WORLD_SEQS];
    const int32_t running = living(w, false, seqs);
    if (running == 0) return;
    const int32_t n = choose(w, seqs, running, running);
    for (int32_t i = 0; i < n; i++) {
        const int32_t left = w->seqs[seqs[i]].longest - w->seqs[seqs[i]].n;
        n_tokens[i] = pkv__min_i32(left, world_below(w, 3) ? 1 : world_below(w, 12));
    }
    if (world_below(w, 30) == 0) n_tokens[0] = WORLD_TOKENS + 1 - w->seqs[seqs[0]].n;
    const pkv_status status = world_reserve(w, seqs, n_tokens, n);
    if (status != PKV_OK) {
        assert_true(status == PKV_E_NO_BLOCKS || status == PKV_E_LIMIT || status == PKV_E_NEVER);
        if (status == PKV_E_NEVER) assert_true(exceeds_pool(w, seqs, n_tokens, n));
        if (status == PKV_E_NO_BLOCKS) assert_int_equal(w->o.kind, PKV_PLACE_PAGED);
        if (status == PKV_E_NO_BLOCKS && world_below(w, 2)) world_close(w, seqs[0]);
        return;
    }
    world_begin(w);
    for (int32_t i = 0; i < n; i++) {
        const int32_t first = n_tokens[i] > 1 ? world_below(w, n_tokens[i]) : 0;
        if (first > 0) world_commit(w, seqs[i], first);
        world_commit(w, seqs[i], n_tokens[i] - first);
    }
    if (world_below(w, 6) == 0) world_abort(w);
    else world_retire(w);
}

static void fork_one(world *w)
{
    int32_t seqs[WORLD_SEQS], children[WORLD_SEQS];
    const int32_t running = living(w, false, seqs);
    if (running == 0) return;
    const pkv_status status =
        world_fork(w, seqs[world_below(w, running)], children, 1 + world_below(w, 3));
    if (status == PKV_E_NO_BLOCKS) assert_int_not_equal(w->o.kind, PKV_PLACE_PAGED);
    else if (status != PKV_OK) assert_int_equal(status, PKV_E_LIMIT);
}

static void swap_some(world *w)
{
    int32_t running[WORLD_SEQS], parked[WORLD_SEQS];
    const int32_t n_running = living(w, false, running), n_parked = living(w, true, parked);
    if (w->o.n_host_blocks == 0) {
        if (n_running > 0) assert_int_equal(world_suspend(w, running, 1), PKV_E_UNSUPPORTED);
        return;
    }
    if (n_parked > 0 && world_below(w, 2)) {
        const int32_t n = choose(w, parked, n_parked, 3);
        (void)world_resume(w, parked, n, world_below(w, 3));
        return;
    }
    if (n_running == 0) return;
    const pkv_status status = world_suspend(w, running, choose(w, running, n_running, 4));
    assert_true(status == PKV_OK || status == PKV_E_NO_BLOCKS);
}

static void close_one(world *w)
{
    const int32_t seq = world_below(w, 12);
    if (w->seqs[seq].open) world_close(w, seq);
}

static void live(const world_options *o, int32_t n_rounds, int64_t *n_status)
{
    world w;
    world_make(&w, o);
    for (int32_t i = 0; i < n_rounds; i++) {
        switch (world_below(&w, 12)) {
        case 0:
        case 1:
            admit_some(&w);
            break;
        case 2:
            fork_one(&w);
            break;
        case 3:
            close_one(&w);
            break;
        case 4:
            swap_some(&w);
            break;
        default:
            step_some(&w);
        }
        world_check(&w);
    }
    for (int s = 0; s < 18; s++) n_status[s] += w.n_status[s];
    world_drop(&w);
}

enum { N_ROUNDS = 2500 };

static void paged_lives(void **state)
{
    (void)state;
    static const pkv_dtype dtypes[] = { PKV_F16, PKV_U4, PKV_E4M3, PKV_F32 };
    static const int32_t block_tokens[] = { 4, 1, 3, 16 }, n_blocks[] = { 40, 90, 50, 12 };
    const uint64_t seed = first_seed();
    int64_t n_status[18] = { 0 };
    for (int32_t k = 0; k < 8; k++) {
        const world_options o = { .kind = PKV_PLACE_PAGED,
                                  .dtype = dtypes[k % 4],
                                  .block_tokens = block_tokens[k % 4],
                                  .n_blocks = n_blocks[k % 4],
                                  .n_host_blocks = k == 3 ? 0 : n_blocks[k % 4] / 2,
                                  .no_prefix_cache = k == 5,
                                  .seed = seed + (uint64_t)k };
        live(&o, N_ROUNDS, n_status);
    }
    assert_true(n_status[PKV_OK] > 1000 && n_status[PKV_E_NO_BLOCKS] > 50);
    assert_true(n_status[PKV_E_LIMIT] > 10 && n_status[PKV_E_UNSUPPORTED] > 10);
}

static void region_lives(void **state)
{
    (void)state;
    static const pkv_placement kinds[] = { PKV_PLACE_MAX, PKV_PLACE_REQUEST, PKV_PLACE_POW2 };
    static const pkv_dtype dtypes[] = { PKV_F16, PKV_U4, PKV_E5M2, PKV_I8, PKV_BF16, PKV_E4M3 };
    static const int32_t block_tokens[] = { 4, 5, 16 }, n_blocks[] = { 90, 80, 27 };
    const uint64_t seed = first_seed();
    int64_t n_status[18] = { 0 };
    for (int32_t k = 0; k < 9; k++) {
        const world_options o = { .kind = kinds[k % 3],
                                  .dtype = dtypes[k % 6],
                                  .block_tokens = block_tokens[k / 3],
                                  .n_blocks = n_blocks[k / 3],
                                  .seed = seed + (uint64_t)k };
        live(&o, N_ROUNDS, n_status);
    }
    assert_true(n_status[PKV_OK] > 1000 && n_status[PKV_E_NO_BLOCKS] > 50);
    assert_true(n_status[PKV_E_LIMIT] > 10 && n_status[PKV_E_UNSUPPORTED] > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paged_lives),
        cmocka_unit_test(region_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
