/* Functions of numbers behind the decode kernel: the line of work and its spans, quotients, places
 * in tiles. */
#include "kernels/cuda/attn_kv_types.cuh"
#include "kernels/cuda/attn_rows.cuh"
#include "kernels/cuda/attn_spans.cuh"

#include <set>
#include <vector>

extern "C" {
#include "simt_test.h"
}

namespace
{

struct item {
    int64_t begin;
    int32_t n_tiles;
};

/* Items one behind the other; returns the line's length. */
int64_t lay_out(std::vector<item> &items, const std::vector<int32_t> &tiles)
{
    int64_t at = 0;
    items.clear();
    for (const int32_t n : tiles) {
        items.push_back({ at, n });
        at += pkv__item_cost(n);
    }
    return at;
}

/* Every tile has one CTA, parts of an item follow each other, and no place for a state is used
 * twice. */
void check_line(const std::vector<int32_t> &tiles, int32_t n_ctas)
{
    std::vector<item> items;
    const pkv__line line = pkv__line_of(lay_out(items, tiles), n_ctas);
    std::set<int32_t> slots, counters;
    assert_true(line.n_ctas >= 1 && line.n_ctas <= n_ctas);
    assert_true(pkv__span_begin(line, 0) == 0);
    assert_true(pkv__span_begin(line, line.n_ctas) == line.total);
    assert_true(pkv__span_begin(line, n_ctas) == line.total);
    for (int32_t i = 0; i < line.n_ctas; i++) {
        const int64_t length = pkv__span_begin(line, i + 1) - pkv__span_begin(line, i);
        assert_true(length >= 1 && length <= line.total / line.n_ctas + 1);
    }
    for (const item &it : items) {
        const int32_t n = it.n_tiles > 0 ? it.n_tiles : 1;
        int32_t next = 0, first = -1, last = -1;
        for (int32_t cta = 0; cta < n_ctas; cta++) {
            const pkv__part part = pkv__part_of(line, cta, it.begin, it.n_tiles);
            if (part.lo >= part.hi) continue;
            assert_int_equal(part.lo, next);
            next = part.hi;
            if (first < 0) first = cta;
            last = cta;
        }
        assert_int_equal(next, n);
        const pkv__part whole = pkv__part_of(line, first, it.begin, it.n_tiles);
        assert_int_equal(whole.first_cta, first);
        assert_int_equal(whole.last_cta, last);
        if (first == last) continue;
        assert_true(counters.insert(first).second);
        for (int32_t cta = first; cta <= last; cta++) {
            const int32_t slot = pkv__part_slot(whole, cta);
            assert_true(slot >= 0 && slot < 2 * n_ctas);
            assert_true(slots.insert(slot).second);
            if (cta > first) /* the kernel steps by two slots from the second one on */
                assert_int_equal(slot, pkv__part_slot(whole, first + 1) + 2 * (cta - first - 1));
        }
    }
}

/* All triples of small items on up to seven CTAs. */
void test_small_lines(void **)
{
    for (int32_t n_ctas = 1; n_ctas <= 7; n_ctas++)
        for (int32_t a = 0; a <= 20; a++)
            for (int32_t b = 0; b <= 20; b += 1 + b / 6)
                for (int32_t c = 0; c <= 40; c += 1 + c / 4) check_line({ a, b, c }, n_ctas);
}

void test_large_batches(void **)
{
    uint32_t random = 1;
    for (const int32_t n_seqs : { 1, 64, 5000 })
        for (const int32_t n_ctas : { 1, 7, 132, 396 }) {
            std::vector<int32_t> tiles;
            for (int32_t i = 0; i < n_seqs; i++) {
                random = random * 1664525u + 1013904223u;
                tiles.push_back((int32_t)(random >> 24) * (n_seqs == 1 ? 17 : 1));
            }
            check_line(tiles, n_ctas);
        }
}

/* The same line without sharing: each item to one CTA. */
void test_whole_items(void **)
{
    std::vector<item> items;
    for (int32_t n_ctas = 1; n_ctas <= 9; n_ctas++) {
        const pkv__line line = pkv__line_of(lay_out(items, { 3, 0, 17, 40, 1, 9, 200, 2 }), n_ctas);
        for (const item &it : items) {
            int owners = 0;
            for (int32_t cta = 0; cta < n_ctas; cta++) {
                const pkv__part part = pkv__whole_part(line, cta, it.begin, it.n_tiles);
                if (part.lo >= part.hi) continue;
                owners++;
                assert_int_equal(part.hi, it.n_tiles > 0 ? it.n_tiles : 1);
                assert_int_equal(part.first_cta, part.last_cta);
            }
            assert_int_equal(owners, 1);
        }
    }
}

/* An empty batch has no line that anybody asks about, but one CTA and no places. */
void test_empty_line(void **)
{
    const pkv__line line = pkv__line_of(0, 5);
    assert_int_equal(line.n_ctas, 1);
    assert_true(pkv__span_begin(line, 0) == 0 && pkv__span_begin(line, 1) == 0);
}

/* Owners by the definition, on a line of a length as attention has it at most. */
void test_owner(void **)
{
    const pkv__line line = pkv__line_of((int64_t)1 << 49, 4096);
    for (int32_t i = 0; i < 4096; i++) {
        assert_int_equal(pkv__span_owner(line, pkv__span_begin(line, i)), i);
        assert_int_equal(pkv__span_owner(line, pkv__span_begin(line, i + 1) - 1), i);
    }
}

void test_quotients(void **)
{
    const int32_t most = INT32_MAX;
    for (int32_t by = 1; by <= 1100; by++) {
        const pkv__divider d = pkv__divider_of(by);
        for (int32_t n = 0; n < 5000; n++) assert_int_equal(pkv__quotient(n, d), n / by);
        for (int32_t n = most - 3000; n < most; n++) assert_int_equal(pkv__quotient(n, d), n / by);
        for (int32_t q = 1; q < 2000; q += 7) /* around multiples, near the end */
            for (int32_t off = -1; off <= 1; off++) {
                const int32_t n = (most / by - q > 0 ? most / by - q : 1) * by + off;
                assert_int_equal(pkv__quotient(n, d), n / by);
            }
    }
    for (const int32_t by : { most, most - 1, 1 << 30, (1 << 30) + 1, (1 << 30) - 1, 65537 })
        for (const int32_t n : { 0, 1, by - 1, by, most - 1, most })
            assert_int_equal(pkv__quotient(n, pkv__divider_of(by)), n / by);
}

/* No two pieces at one place; ldmatrix's eight rows in eight groups of banks, and eight pieces that
 * are copied at once, too; the short ways along a row and down the rows end where the long one
 * does.
 */
template <int32_t ROW_BYTES> void check_tile()
{
    using Tile = pkv__tile_shape<ROW_BYTES>;
    alignas(128) static unsigned char tile[Tile::BYTES];
    std::set<int32_t> places;
    for (int32_t row = 0; row < 16; row++)
        for (int32_t chunk = 0; chunk < Tile::CHUNKS; chunk++) {
            const int32_t place = Tile::place(row, chunk);
            assert_true(place % 16 == 0 && place >= 0 && place + 16 <= Tile::BYTES);
            assert_true(places.insert(place).second);
            if (chunk < 2)
                for (int32_t n = 0; 2 * n + chunk < Tile::CHUNKS; n++)
                    assert_int_equal(Tile::along(tile + place, n) - tile,
                                     Tile::place(row, 2 * n + chunk));
            if (row < Tile::STEP_ROWS)
                for (int32_t n = 0; n < Tile::N_COPIES; n++)
                    assert_int_equal(Tile::down(tile + place, n) - tile,
                                     Tile::place(row + n * Tile::STEP_ROWS, chunk));
        }
    for (int32_t first = 0; first < 16; first += 8)
        for (int32_t chunk = 0; chunk < Tile::CHUNKS; chunk++) {
            std::set<int32_t> banks;
            for (int32_t row = first; row < first + 8; row++)
                banks.insert(Tile::place(row, chunk) / 16 % 8);
            assert_int_equal(banks.size(), 8);
        }
    for (int32_t first = 0; first < 16 * Tile::CHUNKS; first += 8) {
        std::set<int32_t> banks;
        for (int32_t at = first; at < first + 8; at++)
            banks.insert(Tile::place(at / Tile::CHUNKS, at % Tile::CHUNKS) / 16 % 8);
        assert_int_equal(banks.size(), 8);
    }
}
void test_tiles(void **)
{
    check_tile<32>();
    check_tile<64>();
    check_tile<128>();
    check_tile<256>();
    check_tile<512>();
}

/* Short by q_len and group alone. */
void test_short(void **)
{
    assert_true(pkv__cuda_is_short(0, 1) && pkv__cuda_is_short(1, 128));
    assert_true(pkv__cuda_is_short(16, 1) && !pkv__cuda_is_short(17, 1));
    assert_true(pkv__cuda_is_short(2, 8) && !pkv__cuda_is_short(3, 8));
    assert_true(!pkv__cuda_is_short(2, 9) && !pkv__cuda_is_short(2, 128));
    assert_true(!pkv__cuda_is_short(INT32_MAX, 65536));
}

} // namespace

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_lines), cmocka_unit_test(test_large_batches),
        cmocka_unit_test(test_whole_items), cmocka_unit_test(test_empty_line),
        cmocka_unit_test(test_owner),       cmocka_unit_test(test_quotients),
        cmocka_unit_test(test_tiles),       cmocka_unit_test(test_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
