/* Which row sees which key: attn_visible.cuh against kernels/visible.c, over all small shapes and
 * options, and random large ones with positions anywhere. */
#include "kernels/cuda/attn_visible.cuh"
#include "visible_twin.h"

#include <algorithm>

extern "C" {
#include "kernels/case_random.h"
#include "simt_test.h"
}

namespace
{

constexpr int32_t max_rows = 80, row0 = 3, n_words = 4;

/* The same sequence for both sides. */
struct setup {
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    int32_t q_len = 1, kv_len = 0, pos0 = 0;
    int32_t q_pos[row0 + max_rows];
    uint32_t mask[(row0 + max_rows) * n_words];

    visible_twin twin() const { return { &batch, &opts, row0, q_len, kv_len, pos0 }; }
    pkv__sight sight()
    {
        batch.kv_pos0 = &pos0;
        return pkv__sight_of(batch, opts, 0, row0, q_len, kv_len);
    }
};

void check_word(const visible_twin &twin, const pkv__sight &s, int32_t i, int32_t j)
{
    const int32_t n = std::min(32, twin.kv_len - j);
    const uint64_t want = visible_twin_bits(&twin, i, j, n);
    const uint32_t got = pkv__sight_word(s, i, j);
    if (got != want)
        fail_msg("row %d of %d, keys %d .. of %d: %x instead of %llx", i, twin.q_len, j,
                 twin.kv_len, got, (unsigned long long)want);
    if (pkv__sight_plain(s, j, n) && pkv__bits_of(pkv__sight_keys(s, i), j) != want)
        fail_msg("row %d, plain keys %d ..: not %llx", i, j, (unsigned long long)want);
    const int32_t b = (i % n + j % n) % n;
    assert_true(pkv__sight_ahead(s, i, j + b) == visible_twin_ahead(&twin, i, j + b));
}

/* The hull is the library's; the core holds what all rows see, and of an interval without own keys
 * in question all that they see. */
void check_rows(const visible_twin &twin, const pkv__sight &s, int32_t lo, int32_t hi)
{
    int32_t want[2];
    visible_twin_hull(&twin, lo, hi, want);
    const pkv__keys hull = pkv__sight_hull(s, lo, hi), core = pkv__sight_core(s, lo, hi);
    const bool both_empty = want[0] >= want[1] && pkv__keys_empty(hull);
    if (!both_empty && (hull.lo != want[0] || hull.hi != want[1]))
        fail_msg("hull of rows %d .. %d: [%d, %d) instead of [%d, %d)", lo, hi, hull.lo, hull.hi,
                 want[0], want[1]);
    assert_true(hull.lo >= 0 && hull.hi <= twin.kv_len);
    const int32_t at = core.lo < 64 ? 0 : core.lo - 32; /* around an end of the core */
    for (int32_t j = at; j < twin.kv_len && j - at < 128; j++) {
        bool all = true;
        for (int32_t i = lo; i < hi; i++) all = all && visible_twin_bits(&twin, i, j, 1);
        if (pkv__keys_hold(core, j, 1) != (all && j < s.plain))
            fail_msg("core of rows %d .. %d: [%d, %d), key %d", lo, hi, core.lo, core.hi, j);
    }
}

void check_small(setup &s)
{
    const visible_twin twin = s.twin();
    const pkv__sight sight = s.sight();
    for (int32_t i = 0; i < s.q_len; i++)
        for (int32_t j = 0; j < s.kv_len; j++) check_word(twin, sight, i, j);
    for (int32_t lo = 0; lo < s.q_len; lo++)
        for (int32_t hi = lo + 1; hi <= s.q_len; hi++) check_rows(twin, sight, lo, hi);
}

void fill_positions(setup &s, int32_t how)
{
    for (int32_t i = 0; i < s.q_len; i++) s.q_pos[row0 + i] = how == 0 ? 2 : i * how % 5;
    for (int32_t i = 0; i < (row0 + s.q_len) * n_words; i++)
        s.mask[i] = 0x9e3779b9u * (uint32_t)(i + how + 1);
}

/* Rows, keys, windows, causal, and all of positions, detached ones and masks. */
void small_shapes(void **)
{
    static setup s;
    for (int32_t shape = 0; shape < 5 * 8; shape++)
        for (int32_t window = 0; window < 5 * 5 * 2; window++)
            for (int32_t extra = 0; extra < 3 * 3 * 3; extra++) {
                s.q_len = 1 + shape % 5;
                s.kv_len = shape / 5;
                s.opts.window_left = window % 5 - 1;
                s.opts.window_right = window / 5 % 5 - 1;
                s.opts.causal = (uint8_t)(window / 25);
                fill_positions(s, extra % 3);
                s.batch.q_pos = extra / 3 % 3 ? s.q_pos : nullptr;
                s.batch.q_detached = extra / 3 % 3 == 2;
                s.opts.mask = extra / 9 ? s.mask : nullptr;
                s.opts.mask_stride = extra / 9 == 2 ? 0 : n_words; /* bits beyond it are 0 */
                check_small(s);
            }
}

/* Masks of several words, own keys anywhere in a word, fewer keys than rows. Of the last row only
 * the words exist that hold bits of keys: the build with AddressSanitizer would see another. */
void mask_words(void **)
{
    static setup s;
    s.opts.causal = 0;
    for (s.q_len = 30; s.q_len <= 70; s.q_len++)
        for (s.kv_len = 1; s.kv_len <= 140; s.kv_len += 7)
            for (s.opts.mask_stride = 1; s.opts.mask_stride <= n_words; s.opts.mask_stride++) {
                fill_positions(s, s.q_len + s.kv_len);
                const int64_t used = std::min<int64_t>(s.opts.mask_stride, (s.q_len + 31) / 32);
                const std::vector<uint32_t> mask(
                    s.mask, s.mask + (row0 + s.q_len - 1) * s.opts.mask_stride + used);
                s.opts.mask = mask.data();
                const visible_twin twin = s.twin();
                const pkv__sight sight = s.sight();
                for (int32_t j = 0; j < s.kv_len; j++) {
                    check_word(twin, sight, j % s.q_len, j);
                    check_word(twin, sight, s.q_len - 1, j);
                }
            }
}

int32_t draw_window(rng *r)
{
    static const int32_t special[] = { -1, -1, 0, 1, INT32_MAX };
    return rng_chance(r, 50) ? special[rng_int(r, 0, 4)] : rng_int(r, 0, 300);
}

int32_t draw_pos0(rng *r)
{
    static const int32_t special[] = { 0, 5, -7, INT32_MAX, INT32_MIN, INT32_MAX - 40 };
    return special[rng_int(r, 0, 5)];
}

void draw(setup &s, rng *r)
{
    s.q_len = rng_chance(r, 20) ? 1 : rng_int(r, 1, max_rows);
    s.kv_len = rng_chance(r, 20) ? rng_int(r, 0, s.q_len) : rng_int(r, 1, 400);
    if (rng_chance(r, 10)) s.kv_len = INT32_MAX - rng_int(r, 0, 3);
    s.pos0 = draw_pos0(r);
    s.opts.causal = rng_chance(r, 50);
    s.opts.window_left = draw_window(r);
    s.opts.window_right = draw_window(r);
    s.batch.q_pos = rng_chance(r, 40) ? s.q_pos : nullptr;
    s.batch.q_detached = s.batch.q_pos && rng_chance(r, 30);
    for (int32_t i = 0; i < s.q_len; i++) {
        const int64_t near = (int64_t)s.pos0 + rng_int(r, -5, 400);
        const bool fits = near >= INT32_MIN && near <= INT32_MAX;
        s.q_pos[row0 + i] = fits && rng_chance(r, 95) ? (int32_t)near : draw_pos0(r);
    }
    s.opts.mask = rng_chance(r, 40) ? s.mask : nullptr;
    s.opts.mask_stride = rng_chance(r, 20) ? (s.q_len - 1) / 32 : n_words;
    for (uint32_t &word : s.mask) word = (uint32_t)rng_next(r);
}

void random_shapes(void **)
{
    static setup s;
    for (uint64_t seed = 1; seed <= 6000; seed++) {
        rng r = { seed };
        print_message(seed == 1 ? "# seeds 1 to 6000\n" : "");
        draw(s, &r);
        const visible_twin twin = s.twin();
        const pkv__sight sight = s.sight();
        for (int32_t n = 0; n < 60 && s.kv_len > 0; n++) {
            const int32_t i = rng_int(&r, 0, s.q_len - 1), near_end = std::min(500, s.kv_len);
            check_word(twin, sight, i, s.kv_len - rng_int(&r, 1, near_end));
            check_word(twin, sight, i, rng_int(&r, 0, near_end - 1));
        }
        const int32_t lo = rng_int(&r, 0, s.q_len - 1), hi = rng_int(&r, lo + 1, s.q_len);
        check_rows(twin, sight, lo, hi);
    }
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(small_shapes),
        cmocka_unit_test(mask_words),
        cmocka_unit_test(random_shapes),
    };
    return cmocka_run_group_tests_name("cuda_visible", tests, nullptr, nullptr);
}
