/* Damage to several groups and to epochs; to raw references; to a manager without a cache. */
#include "damage.h"

#include "pagedkv/blockmgr_raw.h"

/* Groups: FULL of 2 tokens (the unit), FULL of 4, SLIDING of 2 with a window of 4 behind a sink of
 * 2, STATE of two blocks. By index of the rows:
 *   slid   12 tokens, of which the window has released some
 *   ahead  4 tokens prepared in an open step
 * Cached: "AB" "CD" with a snapshot, of this epoch; "QR" of the one before. */
enum { WHOLE, DOUBLE, WINDOW, STATE, N_GROUPS };
enum { SLID, AHEAD, NOBODY };
static const pkv_group groups[N_GROUPS] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                            { PKV_GROUP_FULL, 4, 0, 0, 0 },
                                            { PKV_GROUP_SLIDING, 2, 4, 2, 0 },
                                            { PKV_GROUP_STATE, 0, 0, 0, 2 } };

struct scene {
    int32_t first, second; /* nodes of the first units of `slid` */
    int32_t prepared[2];   /* of `ahead` */
    int32_t old, young;    /* root children without children, of both epochs */
};

static int32_t node_with(pkv_blockmgr *m, int32_t token)
{
    for (int32_t b = 1; b < m->n_blocks; b++)
        if (rec(m, b)->node != NONE && node_tokens(m, rec(m, b)->node)[0] == token)
            return rec(m, b)->node;
    fail();
    return 0;
}

static struct scene look(pkv_blockmgr *m)
{
    struct scene s = { .first = node_with(m, '0'),
                       .second = node_with(m, '2'),
                       .old = node_with(m, 'Q'),
                       .young = node_with(m, 'X') };
    for (int i = 0; i < 2; i++) s.prepared[i] = rec(m, row_at(m, WHOLE, AHEAD)[i])->prepared;
    assert_true(s.prepared[0] != NONE && s.prepared[1] != NONE);
    assert_int_equal(row_at(m, WINDOW, SLID)[1], 0);
    assert_int_equal(node_at(m, s.old)->epoch + 1, m->epoch);
    assert_int_equal(node_at(m, s.young)->newer, NONE);
    return s;
}

static void build(fx *f)
{
    pkv_step step;
    pkv_seq slid, ahead, s;
    fx_close(f, fx_with(f, "QR"));
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    slid = fx_with(f, "0123456789:;");
    ahead = fx_open(f);
    s = fx_with(f, "ABCD");
    assert_ok(pkv_seq_snapshot(f->m, s, &f->work));
    fx_close(f, s);
    fx_close(f, fx_with(f, "XY"));
    fx_reserve(f, ahead, 4);
    assert_ok(pkv_step_begin(f->m, &step));
    int32_t ids[4];
    pkv_tokens t = fx_text("abcd", ids);
    assert_ok(pkv_seq_commit(f->m, ahead, &t, step));
    (void)slid;
}

/* The block of four that ends with the second unit goes to the first one. */
static void end_too_early(pkv_blockmgr *m, const struct scene *s)
{
    const int32_t slot = m->groups[DOUBLE].slot, b = node_at(m, s->second)->at[slot].block;
    node_at(m, s->second)->at[slot].block = NONE;
    node_at(m, s->first)->at[slot].block = b;
    rec(m, b)->node = s->first;
}

static struct seq_group *window_of(pkv_blockmgr *m, int32_t seq)
{
    return seq_group(m, seq_at(m, seq), WINDOW);
}

static struct row_change *change(pkv_blockmgr *m, int32_t g, int32_t seq)
{
    return &all_changes(m)[g * m->max_seqs + seq];
}

#define GROUP_LIST(X)                                                                              \
    X(I5, 2, gap_too_short, window_of(m, SLID)->gap_end--)                                         \
    X(I5, 2, gap_behind_what_is_committed, window_of(m, SLID)->gap_end = 7)                        \
    X(I5, 2, gap_of_nothing, window_of(m, AHEAD)->gap_end = 2)                                     \
    X(I5, 2, entry_in_the_gap, row_at(m, WINDOW, SLID)[1] = row_at(m, WINDOW, SLID)[0])            \
    X(I5, 2, sink_released, row_at(m, WINDOW, SLID)[0] = 0)                                        \
    X(I5, 2, own_from_to_come, window_of(m, SLID)->own_from = 13)                                  \
    X(I5, 2, own_from_below_zero, window_of(m, SLID)->own_from = -1)                               \
    X(I5, 2, own_from_between_blocks, window_of(m, SLID)->own_from = 4)                            \
    X(I5, 2, state_without_blocks, row_at(m, STATE, SLID)[0] = row_at(m, STATE, SLID)[1] = 0)      \
    X(I5, 2, half_a_state, row_at(m, STATE, SLID)[1] = 0)                                          \
    X(I5, 2, state_of_nobody, row_at(m, STATE, NOBODY)[1] = 1)                                     \
    X(I5, 2, block_of_another_group, rec(m, row_at(m, WHOLE, SLID)[0])->slot++)                    \
    X(I4, 3, unit_inside_a_block, end_too_early(m, &s))                                            \
    X(I4, 3, block_of_another_slot,                                                                \
      node_at(m, s.first)->at[1].block = node_at(m, s.first)->at[0].block)                         \
    X(I7, 3, old_content_of_this_epoch, node_at(m, s.old)->epoch++)                                \
    X(I4, 3, content_of_an_epoch_to_come, node_at(m, s.young)->epoch++)                            \
    X(I4, 3, young_content_of_an_old_epoch, node_at(m, s.young)->epoch--)                          \
    X(I4, 3, prepared_on_one_block_of_two, rec(m, row_at(m, WINDOW, AHEAD)[0])->prepared = NONE)   \
    X(I4, 3, prepared_elsewhere,                                                                   \
      node_at(m, s.prepared[0])->at[2].block = row_at(m, WINDOW, SLID)[0])                         \
    X(I9, 3, prepared_in_too_few_groups, rec(m, row_at(m, WINDOW, AHEAD)[0])->prepared = NONE,     \
      node_at(m, s.prepared[0])->at[2].block = NONE)                                               \
    X(I5, 3, more_sent_than_there_is,                                                              \
      *change(m, STATE, m->max_seqs - 1) = (struct row_change){ 1, INT32_MAX, 0 })                 \
    X(I5, 3, change_without_its_bit,                                                               \
      *change(m, STATE, m->max_seqs - 1) = (struct row_change){ 0, 0, 1 })                         \
    X(I5, 3, change_in_one_group_only, change(m, STATE, SLID)->sent++,                             \
      all_changed(m)[(size_t)STATE * m->seq_words] = 0)

/* ---------------------------------------------------------------- the others */

static int32_t raw_block(pkv_blockmgr *m)
{
    int32_t b = 1;
    while (raw_refs_of(m)[b] == 0) b++;
    return b;
}

static void build_raw(fx *f)
{
    int32_t ids[3];
    pkv_seq s = fx_with(f, "abcd");
    assert_ok(pkv_blocks_take(f->m, 3, ids, &f->work));
    ids[0] = fx_block(f, s, 0);
    fx_reserve(f, s, 2);
    assert_ok(pkv_blocks_ref(f->m, ids, 1));
}

#define RAW_LIST(X)                                                                                \
    X(I2, 2, raw_reference_lost, raw_refs_of(m)[raw_block(m)]--)                                   \
    X(I2, 2, raw_references_below_zero, raw_refs_of(m)[raw_block(m)] = -1)                         \
    X(I2, 2, count_of_raw_references, m->n_raw_refs--)                                             \
    X(I2, 2, raw_references_that_move, raw_refs_of(m)[raw_block(m)]--,                             \
      raw_refs_of(m)[raw_block(m) + 1]++)                                                          \
    X(I6, 2, room_in_a_raw_block, raw_refs_of(m)[row_at(m, 0, 0)[2]]++, m->n_raw_refs++)

static void build_bare(fx *f)
{
    fx_commit(f, fx_open(f), "abcd");
}

#define BARE_LIST(X)                                                                               \
    X(I9, 3, units_without_a_cache, seq_at(m, 0)->n_full = 1)                                      \
    X(I9, 3, indexed_without_a_cache, seq_at(m, 0)->n_units = seq_at(m, 0)->n_full = 1)            \
    X(I5, 2, another_block, row_at(m, 0, 0)[1] = 0)

GROUP_LIST(DAMAGE_FUNCTION)
#undef DAMAGE_FUNCTION
#define DAMAGE_FUNCTION(invariant, level, name, ...)                                               \
    static void name(pkv_blockmgr *m)                                                              \
    {                                                                                              \
        (void)(__VA_ARGS__);                                                                       \
    }
RAW_LIST(DAMAGE_FUNCTION)
BARE_LIST(DAMAGE_FUNCTION)

static pkv_blockmgr_config config(uint32_t flags)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 60, cfg.block_tokens = 2, cfg.max_seqs = 4, cfg.max_seq_tokens = 32;
    cfg.flags = flags;
    return cfg;
}

static void several_groups(void **state)
{
    (void)state;
    static const struct damage damages[] = { GROUP_LIST(DAMAGE_ENTRY) };
    pkv_blockmgr_config cfg = config(PKV_MGR_PREFIX_CACHE);
    cfg.groups = groups, cfg.n_groups = N_GROUPS;
    damage_all(&cfg, build, damages, sizeof damages / sizeof damages[0]);
}

static void raw_references(void **state)
{
    (void)state;
    static const struct damage damages[] = { RAW_LIST(DAMAGE_ENTRY) };
    pkv_blockmgr_config cfg = config(PKV_MGR_PREFIX_CACHE);
    damage_all(&cfg, build_raw, damages, sizeof damages / sizeof damages[0]);
}

static void no_cache(void **state)
{
    (void)state;
    static const struct damage damages[] = { BARE_LIST(DAMAGE_ENTRY) };
    pkv_blockmgr_config cfg = config(0);
    damage_all(&cfg, build_bare, damages, sizeof damages / sizeof damages[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(several_groups),
                                        cmocka_unit_test(raw_references),
                                        cmocka_unit_test(no_cache) };
    return cmocka_run_group_tests_name("damage_groups", tests, NULL, NULL);
}
