/* Damage to what steps, holds and swaps keep: pending commits, prepared content, LIMBO, references
 * of holds, host blocks. */
#include "damage.h"

#include "pagedkv/blockmgr_holds.h"

/* Rows of the sequences, by index. Two steps are open; units have four tokens.
 *   ahead    "0123" settled, "4567" prepared in the first step, "89" in both steps
 *   twin     its fork
 *   shut     closing: "abcd" "efgh" prepared, "ij" as its tail
 *   brief    closing: "xy" as its tail, nothing else
 *   held     "kl" with room for two more; a hold covers the two
 *   leaving  on its way to the host; away is there; coming is on its way back
 * Closed: "ABCD" "EFGH" are cached, "PQRS" "TUVW" in LIMBO. "mnop" belongs to an expired hold, and
 * "MNOP" with its host block to an expired suspend. */
enum { AHEAD, TWIN, SHUT, BRIEF, HELD, LEAVING, AWAY, COMING, N_SEQS };
enum { FIRST_STEP, SECOND_STEP };

struct scene {
    int32_t prepared, shut_unit[2], shut_tail;                /* nodes */
    int32_t cached, limbo[2], expired, held, leaving, coming; /* blocks; limbo: child, parent */
    int32_t hold, expired_hold, suspend, overdue, resume;     /* holds */
};

static int32_t hold_of(pkv_blockmgr *m, int life, int kind)
{
    int32_t i = 0;
    while (holds_of(m)[i].life != life || holds_of(m)[i].kind != kind) i++;
    return i;
}

static int32_t block_with(pkv_blockmgr *m, int32_t token)
{
    for (int32_t b = 1; b < m->n_blocks; b++)
        if (rec(m, b)->node != NONE && node_tokens(m, rec(m, b)->node)[0] == token) return b;
    fail();
    return 0;
}

static struct scene look(pkv_blockmgr *m)
{
    struct scene s = { .hold = hold_of(m, HOLD_RUNNING, HOLD_PREFIX),
                       .expired_hold = hold_of(m, HOLD_OVERDUE, HOLD_PREFIX),
                       .suspend = hold_of(m, HOLD_RUNNING, HOLD_SUSPEND),
                       .overdue = hold_of(m, HOLD_OVERDUE, HOLD_SUSPEND),
                       .resume = hold_of(m, HOLD_RUNNING, HOLD_RESUME),
                       .cached = block_with(m, 'A'),
                       .limbo = { block_with(m, 'T'), block_with(m, 'P') },
                       .expired = block_with(m, 'm'),
                       .held = row_at(m, 0, HELD)[0],
                       .leaving = row_at(m, 0, LEAVING)[0] };
    s.coming = holds_of(m)[s.resume].last_block;
    s.prepared = rec(m, row_at(m, 0, AHEAD)[1])->prepared;
    for (int i = 0; i < 2; i++) s.shut_unit[i] = rec(m, row_at(m, 0, SHUT)[i])->prepared;
    s.shut_tail = rec(m, row_at(m, 0, SHUT)[2])->prepared;
    assert_true(s.prepared != NONE && s.shut_unit[0] != NONE && s.shut_unit[1] != NONE);
    assert_int_equal(node_at(m, s.prepared)->holders, 2);
    assert_int_equal(node_at(m, s.shut_tail)->n_tokens, 2);
    assert_int_equal(rec(m, s.limbo[0])->state, BLOCK_LIMBO);
    assert_int_equal(rec(m, s.expired)->state, BLOCK_QUARANTINE);
    assert_true(row_at(m, 0, AWAY)[0] < 0 && seq_at(m, BRIEF)->life == SEQ_CLOSING);
    return s;
}

/* ---------------------------------------------------------------- the scene */

static void commit_in(fx *f, pkv_seq s, const char *text, pkv_step step)
{
    int32_t ids[16];
    pkv_tokens t = fx_text(text, ids);
    fx_reserve(f, s, t.n);
    assert_ok(pkv_seq_commit(f->m, s, &t, step));
}

static pkv_step begin(fx *f)
{
    pkv_step step;
    assert_ok(pkv_step_begin(f->m, &step));
    return step;
}

static int32_t poll_at(fx *f, uint64_t now)
{
    pkv_hold_result done[8];
    int32_t n;
    assert_ok(pkv_blockmgr_poll(f->m, now, done, 8, &n));
    return n;
}

static pkv_hold suspend(fx *f, pkv_seq s, uint64_t deadline)
{
    pkv_swap_copy copies[8];
    pkv_hold hold;
    int32_t n;
    assert_ok(pkv_seqs_suspend(f->m, &s, 1, deadline, copies, 8, &n, &hold));
    assert_int_equal(n, 1);
    return hold;
}

/* Out to the host, to stay there. */
static void send_away(fx *f, pkv_seq s)
{
    pkv_hold_post(f->m, suspend(f, s, PKV_DEADLINE_NEVER), PKV_OK);
    assert_int_equal(poll_at(f, 1), 1);
}

static void open_holds(fx *f, const pkv_seq *seq)
{
    pkv_swap_copy copies[8];
    pkv_hold hold;
    int32_t n;
    pkv_seq gone = fx_with(f, "mnop"), late = fx_with(f, "MNOP");
    assert_ok(pkv_hold_open(f->m, gone, 4, 5, &hold));
    fx_close(f, gone);
    (void)suspend(f, late, 5);
    assert_ok(pkv_hold_open(f->m, seq[HELD], 2, PKV_DEADLINE_NEVER, &hold));
    send_away(f, seq[AWAY]);
    send_away(f, seq[COMING]);
    assert_int_equal(poll_at(f, 6), 2); /* two deadlines have passed */
    fx_close(f, late);
    (void)suspend(f, seq[LEAVING], PKV_DEADLINE_NEVER);
    assert_ok(pkv_seqs_resume(f->m, &seq[COMING], 1, PKV_DEADLINE_NEVER, copies, 8, &n, &hold));
    assert_int_equal(n, 1);
}

/* The sequences before the last two come in the order of their rows. */
static void build(fx *f)
{
    pkv_seq seq[N_SEQS], limbo;
    for (int i = 0; i < N_SEQS; i++) seq[i] = fx_open(f);
    fx_close(f, seq[TWIN]);
    fx_close(f, fx_with(f, "ABCDEFGH"));
    limbo = fx_with(f, "PQRSTUVW");
    fx_commit(f, seq[AHEAD], "0123");
    fx_commit(f, seq[HELD], "kl");
    fx_reserve(f, seq[HELD], 2);
    fx_commit(f, seq[LEAVING], "qrst");
    fx_commit(f, seq[AWAY], "uvwx");
    fx_commit(f, seq[COMING], "UVWX");
    pkv_step first = begin(f);
    fx_close(f, limbo);
    pkv_step second = begin(f);
    commit_in(f, seq[AHEAD], "45678", first);
    commit_in(f, seq[AHEAD], "9", second);
    seq[TWIN] = fx_fork(f, seq[AHEAD]);
    commit_in(f, seq[SHUT], "abcdefghij", first);
    fx_close(f, seq[SHUT]);
    commit_in(f, seq[BRIEF], "xy", second);
    fx_close(f, seq[BRIEF]);
    open_holds(f, seq);
    assert_int_equal(fx_info(f, seq[TWIN]).row_idx, TWIN);
}

/* ---------------------------------------------------------------- the damages */

static struct pending *pend(pkv_blockmgr *m, int32_t idx, int32_t at)
{
    return &pending_of(m, seq_at(m, idx))[at];
}

static int32_t host_on(pkv_blockmgr *m, int32_t hold)
{
    return swaps_of(m)[holds_of(m)[hold].last_block].host;
}

/* A host block that is used goes to the free ones. */
static void free_host_block(pkv_blockmgr *m, int32_t h)
{
    host_of(m)[h] = (struct host_rec){ 0, m->free_host };
    m->free_host = h;
    m->n_free_host++;
}

/* The child in LIMBO loses its content, and its node has nothing left to live for. */
static void forget_content(pkv_blockmgr *m, int32_t b)
{
    slot_on(m, b)->block = NONE;
    rec(m, b)->node = NONE;
}

static void swap_i32(int32_t *a, int32_t *b)
{
    int32_t t = *a;
    *a = *b, *b = t;
}

/* Nothing of the sequence is pending, and yet it stays. */
static void settle_and_stay(pkv_blockmgr *m, int32_t idx)
{
    seq_at(m, idx)->n_pending = 0;
    seq_at(m, idx)->settled = seq_at(m, idx)->committed;
}

#define DAMAGE_LIST(X)                                                                             \
    X(I10, 1, limbo_without_steps, m->n_open_steps = 0)                                            \
    X(I8, 1, more_steps_than_there_may_be, m->n_open_steps = m->max_steps + 1)                     \
    X(I8, 1, more_steps_than_ever_begun, m->n_steps = 1)                                           \
    X(I8, 1, closing_ones_that_are_not_listed, m->closing_head = NONE)                             \
    X(I11, 1, no_hold_left, m->free_hold = NONE)                                                   \
    X(I11, 1, no_host_block_left, m->free_host = NONE)                                             \
    X(I11, 1, more_host_blocks_than_there_are, m->n_free_host = m->n_host_blocks)                  \
    X(I8, 2, open_or_closing, (m->n_seqs++, m->n_closing--))                                       \
    X(I1, 2, limbo_or_quarantine, (m->n_active--, m->n_quarantine++))                              \
    X(I5, 2, room_while_suspended, seq_at(m, AWAY)->reserved++)                                    \
    X(I5, 2, no_such_host_block, row_at(m, 0, AWAY)[0] = -m->n_host_blocks)                        \
    X(I5, 2, host_block_in_a_running_row, row_at(m, 0, HELD)[0] = -1)                              \
    X(I5, 2, closing_row, row_at(m, 0, SHUT)[0] = m->n_blocks)                                     \
    X(I6, 2, room_in_a_held_slot, holds_of(m)[s.hold].n_tokens++)                                  \
    X(I11, 2, hold_of_nothing, holds_of(m)[s.hold].n_blocks[0] = 0)                                \
    X(I11, 2, hold_of_no_token, holds_of(m)[s.hold].n_tokens = 0)                                  \
    X(I11, 2, hold_of_no_such_block, all_hold_ids(m)[s.hold * m->hold_ids] = m->n_blocks)          \
    X(I2, 2, hold_of_another_block, all_hold_ids(m)[s.hold * m->hold_ids] = s.cached)              \
    X(I11, 2, hold_with_more_blocks_than_a_row, holds_of(m)[s.hold].n_blocks[0] = m->hold_ids + 1) \
    X(I11, 2, no_such_block_swaps, holds_of(m)[s.suspend].last_block = -1)                         \
    X(I11, 2, swap_in_circles, swaps_of(m)[s.leaving].next = s.leaving)                            \
    X(I11, 2, swap_with_no_host_block, swaps_of(m)[s.leaving].host = 0)                            \
    X(I2, 2, expired_hold_that_is_not, holds_of(m)[s.expired_hold].life = HOLD_RUNNING)            \
    X(I2, 2, expired_references, rec(m, s.expired)->stamp--)                                       \
    X(I2, 2, quarantine_of_an_active_block,                                                        \
      (rec(m, s.held)->state = BLOCK_QUARANTINE, m->n_active--, m->n_quarantine++))                \
    X(I2, 2, active_in_quarantine,                                                                 \
      (rec(m, s.expired)->state = BLOCK_ACTIVE, m->n_active++, m->n_quarantine--))                 \
    X(I2, 2, limbo_with_a_reference, rec(m, s.limbo[0])->ref++)                                    \
    X(I11, 2, no_such_life_of_a_hold, holds_of(m)[s.suspend].life = HOLD_OVERDUE + 1)              \
    X(I11, 2, no_such_kind_of_hold, holds_of(m)[s.resume].kind = HOLD_RESUME + 1)                  \
    X(I11, 2, count_of_holds, m->n_holds--)                                                        \
    X(I11, 2, free_hold_in_use, m->free_hold = s.hold)                                             \
    X(I11, 2, free_hold_lost, m->free_hold = holds_of(m)[m->free_hold].next_free)                  \
    X(I11, 2, swap_of_a_block_without_one, swaps_of(m)[s.cached].host = 1)                         \
    X(I11, 2, hold_that_moves_another, holds_of(m)[s.suspend].first_seq = COMING)                  \
    X(I11, 2, hold_that_moves_nobody, holds_of(m)[s.suspend].first_seq = NONE)                     \
    X(I11, 2, hold_that_moves_no_such_sequence, holds_of(m)[s.suspend].first_seq = m->max_seqs)    \
    X(I11, 2, under_way_without_a_hold, seq_at(m, AWAY)->swap = PKV_SEQ_RESUMING)                  \
    X(I11, 2, host_ref, host_of(m)[host_on(m, s.suspend)].ref++)                                   \
    X(I11, 2, host_ref_below_zero, host_of(m)[host_on(m, s.suspend)].ref = -1)                     \
    X(I11, 2, host_scratch_left_behind, host_of(m)[host_on(m, s.suspend)].next = 1)                \
    X(I11, 2, free_host_block_in_use, m->free_host = host_on(m, s.suspend))                        \
    X(I11, 2, count_of_host_blocks, m->n_free_host--)                                              \
    X(I11, 2, host_block_of_a_row_is_free, free_host_block(m, -row_at(m, 0, AWAY)[0]))             \
    X(I11, 2, host_block_of_a_hold_is_free, free_host_block(m, host_on(m, s.suspend)))             \
    X(I11, 2, host_block_of_an_expired_hold_is_free, free_host_block(m, host_on(m, s.overdue)))    \
    X(I4, 3, node_with_nothing_left, forget_content(m, s.limbo[0]))                                \
    X(I7, 3, content_whose_parent_has_no_block, m->raw_used = false,                               \
      forget_content(m, s.limbo[1]))                                                               \
    X(I4, 3, prepared_without_holders, node_at(m, s.prepared)->holders = 0)                        \
    X(I4, 3, prepared_is_indexed, node_at(m, s.prepared)->indexed = true)                          \
    X(I4, 3, prepared_and_joined, node_at(m, s.prepared)->first_child = 0)                         \
    X(I4, 3, prepared_on_another_block, node_at(m, s.prepared)->at[0].block = s.cached)            \
    X(I4, 3, prepared_with_spares, node_at(m, s.prepared)->at[0].oldest_spare = s.cached)          \
    X(I4, 3, prepared_extras, node_at(m, s.prepared)->extras = m->max_extras)                      \
    X(I4, 3, no_such_prepared_node, rec(m, s.limbo[0])->prepared = m->max_nodes)                   \
    X(I4, 3, prepared_behind_a_shorter_one, node_at(m, s.shut_tail)->older = s.shut_unit[0])       \
    X(I4, 3, prepared_without_tokens, node_at(m, s.shut_tail)->n_tokens = 0)                       \
    X(I8, 3, prepared_on_no_block, rec(m, row_at(m, 0, SHUT)[0])->prepared = NONE)                 \
    X(I10, 3, limbo_link, rec(m, m->limbo.tail)->prev = s.limbo[0])                                \
    X(I10, 3, no_such_block_in_limbo, m->limbo.head = m->n_blocks)                                 \
    X(I10, 3, limbo_end, m->limbo.tail = s.limbo[0])                                               \
    X(I10, 3, limbo_out_of_order, rec(m, s.limbo[0])->stamp = (uint32_t)m->n_steps)                \
    X(I10, 3, limbo_older_than_the_steps, rec(m, s.limbo[0])->stamp = 0)                           \
    X(I10, 3, limbo_of_a_step_to_come, rec(m, m->limbo.tail)->stamp++)                             \
    X(I9, 3, unit_that_is_not_prepared, swap_i32(&row_at(m, 0, SHUT)[0], &row_at(m, 0, SHUT)[2]))  \
    X(I9, 3, units_prepared_in_another_order,                                                      \
      swap_i32(&row_at(m, 0, SHUT)[0], &row_at(m, 0, SHUT)[1]))                                    \
    X(I9, 3, prepared_hash, node_at(m, s.prepared)->hash ^= 1)                                     \
    X(I9, 3, prepared_token, node_tokens(m, s.prepared)[3] ^= 1)                                   \
    X(I9, 3, holder_too_many, node_at(m, s.prepared)->holders++)                                   \
    X(I9, 3, holder_too_few, node_at(m, s.prepared)->holders--)                                    \
    X(I9, 3, holder_of_a_tail, node_at(m, s.shut_tail)->holders++)                                 \
    X(I9, 3, pin_too_few, node_at(m, seq_at(m, AHEAD)->last_node)->holders--)                      \
    X(I9, 3, tail_that_is_not_prepared, row_at(m, 0, BRIEF)[0] = s.limbo[0])                       \
    X(I9, 3, tail_of_an_open_sequence, seq_at(m, AHEAD)->holds_tail = true)                        \
    X(I9, 3, unit_too_many, seq_at(m, AHEAD)->n_full++)                                            \
    X(I9, 3, unit_too_few, seq_at(m, AHEAD)->n_full--)                                             \
    X(I9, 3, indexed_before_it_settled, (seq_at(m, AHEAD)->n_units++))                             \
    X(I9, 3, too_many_commits, seq_at(m, AHEAD)->n_pending = (uint8_t)(m->max_steps + 1))          \
    X(I9, 3, commit_lost, seq_at(m, AHEAD)->n_pending--)                                           \
    X(I9, 3, settled_and_pending, pend(m, AHEAD, 0)->from--)                                       \
    X(I9, 3, commits_with_a_hole, pend(m, AHEAD, 0)->upto--)                                       \
    X(I9, 3, commit_of_nothing, (pend(m, AHEAD, 1)->from++, pend(m, AHEAD, 0)->upto++))            \
    X(I9, 3, closing_for_nothing, settle_and_stay(m, BRIEF))                                       \
    X(I9, 3, commit_in_a_step_that_is_not_open, pend(m, AHEAD, 1)->step = m->max_steps - 1)        \
    X(I9, 3, commit_in_no_such_step, pend(m, AHEAD, 1)->step = NONE)                               \
    X(I9, 3, two_commits_in_one_step, pend(m, AHEAD, 1)->step = FIRST_STEP)                        \
    X(I9, 3, step_that_forgot_a_sequence, step_set(m, FIRST_STEP)[0] &= ~(1u << AHEAD))            \
    X(I9, 3, step_of_a_sequence_without_commits, step_set(m, FIRST_STEP)[0] |= 1u << HELD)         \
    X(I9, 3, step_of_a_closing_sequence, step_set(m, FIRST_STEP)[0] |= 1u << SHUT)                 \
    X(I9, 3, step_of_no_such_sequence, step_set(m, FIRST_STEP)[0] |= UINT64_C(1) << 63)            \
    X(I9, 3, step_that_is_not_open, step_set(m, m->max_steps - 1)[0] |= 1u << AHEAD)               \
    X(I8, 3, step_to_come, steps_of(m)[SECOND_STEP].number = m->n_steps + 1)                       \
    X(I8, 3, step_open_twice, steps_of(m)[SECOND_STEP].number = steps_of(m)[FIRST_STEP].number)    \
    X(I8, 3, count_of_steps, m->n_open_steps--)                                                    \
    X(I8, 3, closing_list_names_an_open_one, m->closing_head = AHEAD)                              \
    X(I8, 3, closing_list_end, m->closing_tail = SHUT)                                             \
    X(I8, 3, closing_of_a_namespace, namespaces_of(m)[0].n_closing--)

DAMAGE_LIST(DAMAGE_FUNCTION)
static const struct damage damages[] = { DAMAGE_LIST(DAMAGE_ENTRY) };

static void each_invariant_is_verified(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 40, cfg.block_tokens = 4, cfg.max_seqs = 12, cfg.max_seq_tokens = 64;
    cfg.max_holds = 8, cfg.n_host_blocks = 8;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    damage_all(&cfg, build, damages, sizeof damages / sizeof damages[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_invariant_is_verified) };
    return cmocka_run_group_tests_name("damage_late", tests, NULL, NULL);
}
