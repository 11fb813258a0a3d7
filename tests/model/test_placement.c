/* Every placement, step by step: what it holds, what it refuses, and that refusing changes nothing.
 */
#include "placement_rig.h"

#include "pagedkv/kv_size.h"
#include "pagedkv/pagedkv.h"

static const pkv_placement kinds[] = { PKV_PLACE_PAGED, PKV_PLACE_MAX, PKV_PLACE_REQUEST,
                                       PKV_PLACE_POW2 };

static world_options plain(pkv_placement kind)
{
    return (world_options){ .kind = kind,
                            .dtype = PKV_F16,
                            .block_tokens = 4,
                            .n_blocks = 80,
                            .n_host_blocks = kind == PKV_PLACE_PAGED ? 40 : 0,
                            .seed = 1 };
}

static void draw_prompt(world *w, int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) ids[i] = 100 + world_below(w, 1000);
}

static void a_life(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
        world w;
        int32_t ids[10], seq, children[2];
        const world_options o = plain(kinds[k]);
        world_make(&w, &o);
        draw_prompt(&w, ids, 10);
        assert_int_equal(world_admit(&w, ids, 10, 20, 3, 0, &seq), PKV_OK);
        assert_int_equal(world_step(&w, seq, 7), PKV_OK);
        assert_int_equal(world_step(&w, seq, 3), PKV_OK);
        world_check(&w);
        assert_int_equal(world_fork(&w, seq, children, 2), PKV_OK);
        world_check(&w);
        for (int32_t i = 0; i < 10; i++) {
            assert_int_equal(world_step(&w, seq, 1), PKV_OK);
            assert_int_equal(world_step(&w, children[i % 2], 2), PKV_OK);
            world_check(&w);
        }
        world_close(&w, seq);
        world_check(&w);
        world_drop(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
