/* Damage to one FULL group without steps: references, content, lists, chains. */
#include "damage.h"

/* Where the things that get damaged are. Blocks and nodes of the units of two documents:
 *   "abcdefghij"  open in `whole` and, as duplicates, in `dup`; `kid` shares the tail with `whole`
 *   "ABCDEFGHIJ"  closed: two full units and a partial one, all cached; "ABCDwxyz" is a sibling */
struct scene {
    struct seq_rec *whole, *dup, *kid, *room; /* `room` has 2 tokens and 2 reserved slots */
    int32_t block[2], node[2], spare;         /* of "abcdefgh" */
    int32_t cached, cached_node;              /* of "ABCD" */
    int32_t child, partial;                   /* cached blocks of "EFGH" and "IJ" */
};

static struct scene look(pkv_blockmgr *m)
{
    struct seq_rec *seqs = seqs_of(m);
    struct scene s = { .whole = &seqs[0], .dup = &seqs[1], .kid = &seqs[2], .room = &seqs[3] };
    for (int i = 0; i < 2; i++) {
        s.block[i] = row_of(m, s.whole, 0)[i];
        s.node[i] = blocks_of(m)[s.block[i]].node;
    }
    s.spare = row_of(m, s.dup, 0)[0];
    s.partial = s.child = s.cached = NONE;
    for (int32_t b = 1; b < m->n_blocks; b++) {
        if (blocks_of(m)[b].state != BLOCK_CACHED) continue;
        const int32_t id = blocks_of(m)[b].node;
        if (node_tokens(m, id)[0] == 'A') s.cached = b, s.cached_node = id;
        if (node_tokens(m, id)[0] == 'E') s.child = b;
        if (node_tokens(m, id)[0] == 'I') s.partial = b;
    }
    assert_true(s.cached > 0 && s.child > 0 && s.partial > 0);
    assert_true(blocks_of(m)[s.spare].spare && node_at(m, s.node[0])->extras != NONE);
    assert_true(extras_of(m)[node_at(m, s.node[0])->extras].next != NONE);
    assert_true(s.whole->tail_extras != NONE && s.room->reserved > s.room->committed);
    assert_true(namespaces_of(m)[1].n_opens > 0);
    return s;
}

/* Two extras in the first unit, one in the second, two in the tail. */
static void commit_whole(fx *f, pkv_seq s)
{
    int32_t ids[16];
    pkv_tokens t = fx_text("abcdefghij", ids);
    static const pkv_extra ex[] = {
        { 0, 1, { 1 } }, { 2, 1, { 2 } }, { 5, 1, { 3 } }, { 8, 1, { 4 } }, { 9, 1, { 5 } }
    };
    t.extras = ex, t.n_extras = 5;
    fx_reserve(f, s, t.n);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
}

static void build(fx *f)
{
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    int32_t evicted;
    pkv_ns ns;
    pkv_seq whole = fx_open(f), dup = fx_open(f), kid, room, gone;
    commit_whole(f, whole);
    commit_whole(f, dup);
    kid = fx_fork(f, whole);
    room = fx_with(f, "12");
    fx_reserve(f, room, 2);
    gone = fx_with(f, "ABCDEFGHIJ");
    fx_close(f, gone);
    assert_int_equal(fx_match(f, "ABCD", 0, &gone), 4);
    fx_commit(f, gone, "wxyz");
    fx_close(f, gone);
    gone = fx_with(f, "zzzz"); /* whose node is free in the end */
    assert_ok(pkv_seq_retain(f->m, gone, 0, 4, 0));
    fx_close(f, gone);
    assert_ok(pkv_blockmgr_evict(f->m, 1, &evicted));
    p.model_digest[0] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    (void)kid;
}

/* ---------------------------------------------------------------- the damages */

/* The block goes behind `last`, the end of a list, and everything is linked as it should be. */
static void move_behind(pkv_blockmgr *m, int32_t b, int32_t last)
{
    struct block_rec *r = rec(m, b);
    struct block_list *from = &m->lists[r->evict_class], *to = &m->lists[rec(m, last)->evict_class];
    assert_true(b != last && to->tail == last);
    if (r->prev != NONE) rec(m, r->prev)->next = r->next;
    else from->head = r->next;
    if (r->next != NONE) rec(m, r->next)->prev = r->prev;
    else from->tail = r->prev;
    from->n--;
    rec(m, last)->next = b;
    r->prev = last, r->next = NONE;
    r->evict_class = rec(m, last)->evict_class;
    to->tail = b;
    to->n++;
}

/* All rows go over to the duplicate of the first unit, and yet the main block stays. */
static void cache_beside_a_spare(pkv_blockmgr *m, const struct scene *s)
{
    row_of(m, s->whole, 0)[0] = row_of(m, s->kid, 0)[0] = s->spare;
    rec(m, s->spare)->ref += 2;
    rec(m, s->block[0])->ref = 0;
    m->n_active--;
    pkv__evict_insert(m, s->block[0]);
}

/* A reference that nobody told the caller of the manager about. */
static void use_raw(pkv_blockmgr *m, int32_t b)
{
    pkv__block_ref(m, b);
    raw_refs_of(m)[b]++;
    m->n_raw_refs++;
}

/* A cached block becomes free, and its node goes on without it. */
static void lose_block(pkv_blockmgr *m, int32_t b)
{
    pkv__evict_remove(m, b);
    pkv__node_detach(m, b);
    pkv__block_free(m, b);
}

static void swap_extras(pkv_blockmgr *m, int32_t entry)
{
    struct extra_entry *a = &extras_of(m)[entry], *b = &extras_of(m)[a->next];
    int64_t offset = a->offset;
    a->offset = b->offset, b->offset = offset;
}

/* A node that has changed where it is found: everything but its family agrees with it. */
static void find_again(pkv_blockmgr *m, int32_t id)
{
    struct node *n = node_at(m, id);
    const struct unit_key key = { 0, n->parent, node_tokens(m, id), n->n_tokens,
                                  extra_entries(n->extras) };
    pkv__index_remove(m, id);
    n->hash = pkv__unit_hash(m, &key);
    pkv__index_insert(m, id);
}

static int32_t index_slot(const pkv_blockmgr *m, int32_t node)
{
    int32_t at = 0;
    while (index_of(m)[at] != node) at++;
    return at;
}

static int32_t empty_slot(const pkv_blockmgr *m)
{
    return index_slot(m, NONE);
}

/* Invariant, first level that notices, name, what is done. */
#define DAMAGE_LIST(X)                                                                             \
    X(I1, 1, count_of_free, m->n_free++)                                                           \
    X(I1, 2, counts_that_cancel_out, (m->n_free++, m->n_active--))                                 \
    X(I1, 2, no_such_state, rec(m, s.cached)->state = N_STATES)                                    \
    X(I2, 2, ref, rec(m, s.block[0])->ref++)                                                       \
    X(I2, 2, state_of_a_used_block, rec(m, s.block[0])->state = BLOCK_CACHED)                      \
    X(I2, 2, scratch_left_behind, rec(m, s.block[0])->planned = 1)                                 \
    X(I3, 2, free_id_twice, free_ids_of(m)[0] = free_ids_of(m)[1])                                 \
    X(I3, 2, free_id_of_a_used_block, free_ids_of(m)[0] = s.block[0])                              \
    X(I3, 2, free_block_with_a_node, rec(m, free_ids_of(m)[0])->node = s.node[0])                  \
    X(I4, 3, node_hash, node_at(m, s.node[1])->hash += m->index_mask / 2)                          \
    X(I4, 3, node_token, node_tokens(m, s.node[1])[0] ^= 1)                                        \
    X(I4, 3, high_hash_bit, node_at(m, s.node[1])->hash ^= UINT64_C(1) << 63)                      \
    X(I4, 3, unlisted_spare,                                                                       \
      slot_on(m, s.spare)->oldest_spare = slot_on(m, s.spare)->newest_spare = NONE)                \
    X(I8, 3, free_node_in_use, m->free_node = s.node[1])                                           \
    X(I8, 3, free_extra_lost, m->extra_high++)                                                     \
    X(I8, 3, free_seq_in_use, m->free_seq = seq_index(m, s.whole))                                 \
    X(I4, 3, index_entry, index_of(m)[index_slot(m, s.node[0])] = s.node[1])                       \
    X(I4, 3, child_link, node_at(m, s.node[0])->first_child = s.cached_node)                       \
    X(I4, 3, child_of_itself, node_at(m, s.node[1])->first_child = s.node[1])                      \
    X(I4, 3, no_such_child, node_at(m, s.node[1])->first_child = m->max_nodes)                     \
    X(I4, 3, parent_link, node_at(m, s.node[1])->parent = root_of(0))                              \
    X(I4, 3, sibling_link, node_at(m, s.node[1])->newer = s.node[0])                               \
    X(I4, 3, partial_parent, node_at(m, s.cached_node)->n_tokens--)                                \
    X(I4, 3, node_without_tokens, node_at(m, s.node[1])->n_tokens = 0)                             \
    X(I4, 3, main_block, node_at(m, s.node[0])->at[0].block = s.block[1])                          \
    X(I4, 3, block_of_another_node, rec(m, s.block[0])->node = s.node[1])                          \
    X(I4, 3, spare_flag, rec(m, s.spare)->spare = false)                                           \
    X(I4, 3, spare_link, rec(m, s.spare)->prev = s.block[0])                                       \
    X(I4, 3, newest_spare, node_at(m, s.node[0])->at[0].newest_spare = NONE)                       \
    X(I4, 3, spare_of_a_cached_block, cache_beside_a_spare(m, &s))                                 \
    X(I4, 3, block_that_is_not_of_its_node, rec(m, row_of(m, s.whole, 0)[2])->node = s.node[0])    \
    X(I4, 3, extras_order, swap_extras(m, node_at(m, s.node[0])->extras))                          \
    X(I5, 2, settled_beyond_committed, s.whole->settled = s.whole->committed + 1)                  \
    X(I5, 2, committed_beyond_reserved, s.whole->reserved = s.whole->committed - 1)                \
    X(I5, 2, longer_than_the_longest, s.whole->reserved = m->max_seq_tokens + 1)                   \
    X(I5, 2, hole_in_a_row, row_of(m, s.whole, 0)[1] = 0)                                          \
    X(I5, 2, entry_behind_a_row, row_of(m, s.whole, 0)[3] = s.block[0])                            \
    X(I6, 2, room_in_a_shared_tail, s.whole->reserved++)                                           \
    X(I6, 2, room_in_published_content, rec(m, row_of(m, s.room, 0)[0])->node = s.node[0])         \
    X(I7, 2, cached_without_content, rec(m, s.partial)->node = NONE)                               \
    X(I7, 2, cached_spare, rec(m, s.partial)->spare = true)                                        \
    X(I7, 3, list_link, rec(m, s.child)->prev = s.child)                                           \
    X(I7, 3, list_class, rec(m, s.child)->evict_class ^= 1)                                        \
    X(I7, 3, list_end, m->lists[rec(m, s.child)->evict_class].tail = s.child)                      \
    X(I7, 3, list_count, (m->lists[CLASS_PROBATION].n++, m->lists[CLASS_PROTECTED].n--))           \
    X(I7, 3, child_after_its_parent, move_behind(m, s.child, s.cached))                            \
    X(I8, 3, count_of_nodes, (m->n_nodes++, m->node_high++))                                       \
    X(I8, 1, more_nodes_than_ever, m->n_nodes = m->node_high + 1)                                  \
    X(I8, 1, no_sequence_left, m->free_seq = NONE)                                                 \
    X(I8, 2, count_of_sequences, m->n_seqs--)                                                      \
    X(I8, 3, count_of_namespaces, m->n_namespaces++)                                               \
    X(I8, 3, count_of_extras, (m->n_extras++, m->extra_high++))                                    \
    X(I8, 1, more_extras_than_ever, m->n_extras = m->extra_high + 1)                               \
    X(I7, 1, counts_of_lists, m->lists[CLASS_LOW].n++)                                             \
    X(I2, 2, expired_reference, rec(m, s.block[0])->stamp++)                                       \
    X(I2, 2, quarantine_without_a_hold,                                                            \
      (rec(m, s.block[0])->state = BLOCK_QUARANTINE, m->n_active--, m->n_quarantine++))            \
    X(I2, 2, raw_reference_that_nobody_counted, m->n_raw_refs++)                                   \
    X(I2, 2, negative_raw_references, raw_refs_of(m)[s.cached] = -1)                               \
    X(I3, 2, free_block_with_prepared_content, rec(m, free_ids_of(m)[0])->prepared = s.node[0])    \
    X(I3, 2, cached_block_with_prepared_content, rec(m, s.cached)->prepared = s.node[0])           \
    X(I8, 2, no_such_life, s.whole->life = SEQ_CLOSING + 1)                                        \
    X(I8, 2, no_such_state_of_a_sequence, s.whole->swap = PKV_SEQ_RESUMING + 1)                    \
    X(I5, 2, row_of_nobody, row_at(m, 0, m->max_seqs - 1)[0] = 1)                                  \
    X(I5, 2, block_of_no_slot_in_a_row, rec(m, s.block[0])->slot = 1)                              \
    X(I4, 3, free_block_of_no_slot, rec(m, free_ids_of(m)[0])->slot = 1)                           \
    X(I4, 3, partial_parent_that_is_found, node_at(m, s.cached_node)->n_tokens--,                  \
      find_again(m, s.cached_node))                                                                \
    X(I4, 3, extras_order_that_is_found, swap_extras(m, node_at(m, s.node[0])->extras),            \
      find_again(m, s.node[0]))                                                                    \
    X(I7, 3, no_such_block_on_a_list, m->lists[CLASS_PROBATION].head = m->n_blocks)                \
    X(I4, 3, no_such_spare, slot_on(m, s.spare)->oldest_spare = m->n_blocks)                       \
    X(I4, 3, no_such_main_block, slot_on(m, s.child)->block = m->n_blocks)                         \
    X(I4, 3, no_such_node_on_a_block, rec(m, row_of(m, s.whole, 0)[2])->node = m->max_nodes)       \
    X(I4, 3, no_such_priority, node_at(m, s.node[0])->priority = PKV_PRIORITY_MAX + 1)             \
    X(I4, 3, no_such_floor, node_at(m, s.node[0])->floor = N_CLASSES)                              \
    X(I4, 3, decays_to_come, node_at(m, s.node[0])->decay_no = m->n_decays + 1)                    \
    X(I4, 3, epoch_of_the_parent, node_at(m, s.node[1])->epoch++)                                  \
    X(I4, 3, namespace_of_a_node, node_at(m, s.node[1])->ns = 1)                                   \
    X(I4, 3, node_that_is_not_indexed, node_at(m, s.node[1])->indexed = false)                     \
    X(I4, 3, no_such_prepared_node, rec(m, s.block[0])->prepared = m->max_nodes)                   \
    X(I4, 3, prepared_and_indexed, rec(m, s.block[0])->prepared = s.node[0])                       \
    X(I7, 3, cached_parent_of_a_used_block, use_raw(m, s.child))                                   \
    X(I7, 3, parent_without_a_block, lose_block(m, s.cached))                                      \
    X(I8, 3, no_such_free_node, m->free_node = m->max_nodes)                                       \
    X(I8, 3, free_node_lost, m->free_node = NONE)                                                  \
    X(I8, 3, no_such_free_extra, m->free_extra = m->max_extras)                                    \
    X(I8, 3, free_seq_lost, seq_at(m, m->free_seq)->link = NONE)                                   \
    X(I8, 3, sequences_of_a_namespace, namespaces_of(m)[0].n_seqs++)                               \
    X(I9, 3, no_such_node_of_a_unit, s.whole->last_node = m->max_nodes)                            \
    X(I9, 3, holder_too_many, node_at(m, s.cached_node)->holders++)                                \
    X(I9, 3, unit_without_its_node, s.whole->n_units--)                                            \
    X(I9, 3, settled_less_than_indexed, s.whole->settled = 0)                                      \
    X(I9, 3, tail_of_nobody, s.whole->holds_tail = true)                                           \
    X(I5, 3, change_that_no_delta_sends, all_changed(m)[0] = 0)                                    \
    X(I5, 3, change_of_nothing, all_changes(m)[0].lo = all_changes(m)[0].hi)                       \
    X(I5, 3, more_sent_than_a_row_has, all_changes(m)[0].sent = m->groups[0].row_width + 1)        \
    X(I4, 3, node_out_of_its_tree, node_at(m, rec(m, s.child)->node)->first_child = NONE)          \
    X(I8, 3, index_entry_too_many, index_of(m)[empty_slot(m)] = s.node[0])                         \
    X(I8, 3, closed_namespace_with_content, namespaces_of(m)[1].n_opens = 0, m->n_namespaces--,    \
      namespaces_of(m)[1].first_child = s.node[0])                                                 \
    X(I9, 3, chain_of_units, s.whole->last_node = s.node[0])                                       \
    X(I9, 3, units_in_another_order, row_of(m, s.whole, 0)[0] = s.block[1],                        \
      row_of(m, s.whole, 0)[1] = s.block[0])                                                       \
    X(I9, 3, one_unit_less, s.whole->n_units--, s.whole->last_node = s.node[0])                    \
    X(I9, 3, claim_beyond_the_units, s.whole->claim = s.whole->n_units + 1)                        \
    X(I9, 3, another_root, s.whole->ns = 1)                                                        \
    X(I9, 3, tail_extras_order, swap_extras(m, s.whole->tail_extras))                              \
    X(I9, 3, tail_extra_behind_the_tail,                                                           \
      extras_of(m)[extras_of(m)[s.whole->tail_extras].next].offset = 2)                            \
    X(I9, 3, tail_extra_before_the_tail, extras_of(m)[s.whole->tail_extras].offset = -1)           \
    X(I9, 3, tail_extra_twice, extras_of(m)[extras_of(m)[s.whole->tail_extras].next].offset = 0)   \
    X(I4, 3, main_block_that_says_spare, rec(m, row_of(m, s.whole, 0)[1])->spare = true)           \
    X(I9, 3, tail_extras_after_the_end, s.whole->ended = true)

DAMAGE_LIST(DAMAGE_FUNCTION)
static const struct damage damages[] = { DAMAGE_LIST(DAMAGE_ENTRY) };

static void each_invariant_is_verified(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 40, cfg.block_tokens = 4, cfg.max_seqs = 8, cfg.max_seq_tokens = 64;
    cfg.max_namespaces = 4;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    damage_all(&cfg, build, damages, sizeof damages / sizeof damages[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_invariant_is_verified) };
    return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
