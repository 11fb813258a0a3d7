/* The checker is not blind. One manager with everything in it is copied and damaged in one place;
 * the check has to name the invariant that broke, and not before the level that looks at it. */
#include "blockmgr/blockmgr_internal.h"
#include "mgr_fixture.h"

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
        s.block[i] = row_of(m, s.whole)[i];
        s.node[i] = blocks_of(m)[s.block[i]].node;
    }
    s.spare = row_of(m, s.dup)[0];
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
    p.model_digest[0] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    (void)kid;
}

/* ---------------------------------------------------------------- the damages */

static struct block_rec *rec(pkv_blockmgr *m, int32_t b)
{
    return blocks_of(m) + b;
}

/* The block goes behind `last`, the end of a list, and everything is linked as it should be. */
static void move_behind(pkv_blockmgr *m, int32_t b, int32_t last)
{
    struct block_rec *r = rec(m, b);
    struct evict_list *from = &m->lists[r->evict_class], *to = &m->lists[rec(m, last)->evict_class];
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
    row_of(m, s->whole)[0] = row_of(m, s->kid)[0] = s->spare;
    rec(m, s->spare)->ref += 2;
    rec(m, s->block[0])->ref = 0;
    m->n_active--;
    pkv__evict_insert(m, s->block[0]);
}

static void swap_extras(pkv_blockmgr *m, int32_t entry)
{
    struct extra_entry *a = &extras_of(m)[entry], *b = &extras_of(m)[a->next];
    int64_t offset = a->offset;
    a->offset = b->offset, b->offset = offset;
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
    X(I1, 2, no_such_state, rec(m, s.cached)->state = 3)                                           \
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
      node_at(m, s.node[0])->oldest_spare = node_at(m, s.node[0])->newest_spare = NONE)            \
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
    X(I4, 3, main_block, node_at(m, s.node[0])->block = s.block[1])                                \
    X(I4, 3, block_of_another_node, rec(m, s.block[0])->node = s.node[1])                          \
    X(I4, 3, spare_flag, rec(m, s.spare)->spare = false)                                           \
    X(I4, 3, spare_link, rec(m, s.spare)->prev = s.block[0])                                       \
    X(I4, 3, newest_spare, node_at(m, s.node[0])->newest_spare = NONE)                             \
    X(I4, 3, spare_of_a_cached_block, cache_beside_a_spare(m, &s))                                 \
    X(I4, 3, block_that_is_not_of_its_node, rec(m, row_of(m, s.whole)[2])->node = s.node[0])       \
    X(I4, 3, extras_order, swap_extras(m, node_at(m, s.node[0])->extras))                          \
    X(I5, 2, settled_beyond_committed, s.whole->settled = s.whole->committed + 1)                  \
    X(I5, 2, committed_beyond_reserved, s.whole->reserved = s.whole->committed - 1)                \
    X(I5, 2, longer_than_the_longest, s.whole->reserved = m->max_seq_tokens + 1)                   \
    X(I5, 2, hole_in_a_row, row_of(m, s.whole)[1] = 0)                                             \
    X(I5, 2, entry_behind_a_row, row_of(m, s.whole)[3] = s.block[0])                               \
    X(I6, 2, room_in_a_shared_tail, s.whole->reserved++)                                           \
    X(I6, 2, room_in_published_content, rec(m, row_of(m, s.room)[0])->node = s.node[0])            \
    X(I7, 2, cached_without_content, rec(m, s.partial)->node = NONE)                               \
    X(I7, 2, cached_spare, rec(m, s.partial)->spare = true)                                        \
    X(I7, 3, list_link, rec(m, s.child)->prev = s.child)                                           \
    X(I7, 3, list_class, rec(m, s.child)->evict_class ^= 1)                                        \
    X(I7, 3, list_end, m->lists[rec(m, s.child)->evict_class].tail = s.child)                      \
    X(I7, 3, list_count, (m->lists[0].n++, m->lists[1].n--))                                       \
    X(I7, 3, child_after_its_parent, move_behind(m, s.child, s.cached))                            \
    X(I8, 3, count_of_nodes, (m->n_nodes++, m->node_high++))                                       \
    X(I8, 1, more_nodes_than_ever, m->n_nodes = m->node_high + 1)                                  \
    X(I8, 1, no_sequence_left, m->free_seq = NONE)                                                 \
    X(I8, 2, count_of_sequences, m->n_seqs--)                                                      \
    X(I8, 3, count_of_namespaces, m->n_namespaces++)                                               \
    X(I8, 3, count_of_extras, m->n_extras++)                                                       \
    X(I8, 3, node_out_of_its_tree, node_at(m, rec(m, s.child)->node)->first_child = NONE)          \
    X(I8, 3, index_entry_too_many, index_of(m)[empty_slot(m)] = s.node[0])                         \
    X(I8, 3, closed_namespace_with_content, namespaces_of(m)[1].n_opens = 0, m->n_namespaces--,    \
      namespaces_of(m)[1].first_child = s.node[0])                                                 \
    X(I9, 3, chain_of_units, s.whole->last_node = s.node[0])                                       \
    X(I9, 3, units_in_another_order, row_of(m, s.whole)[0] = s.block[1],                           \
      row_of(m, s.whole)[1] = s.block[0])                                                          \
    X(I9, 3, one_unit_less, s.whole->n_units--, s.whole->last_node = s.node[0])                    \
    X(I9, 3, claim_beyond_the_units, s.whole->claim = s.whole->n_units + 1)                        \
    X(I9, 3, another_root, s.whole->ns = 1)                                                        \
    X(I9, 3, tail_extras_order, swap_extras(m, s.whole->tail_extras))                              \
    X(I9, 3, tail_extras_after_the_end, s.whole->ended = true)

#define DAMAGE_FUNCTION(invariant, level, name, ...)                                               \
    static void name(pkv_blockmgr *m)                                                              \
    {                                                                                              \
        const struct scene s = look(m);                                                            \
        (void)s;                                                                                   \
        (void)(__VA_ARGS__);                                                                       \
    }
DAMAGE_LIST(DAMAGE_FUNCTION)
#undef DAMAGE_FUNCTION

static const struct {
    const char *invariant, *name;
    int level; /* the first that notices */
    void (*damage)(pkv_blockmgr *m);
} damages[] = {
#define DAMAGE_ENTRY(invariant, level, name, ...) { #invariant ":", #name, level, name },
    DAMAGE_LIST(DAMAGE_ENTRY)
#undef DAMAGE_ENTRY
};

static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    (void)snprintf(ctx, 256, "%s", text);
}

static void each_invariant_is_verified(void **state)
{
    (void)state;
    char line[256] = "";
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 40, cfg.block_tokens = 4, cfg.max_seqs = 8, cfg.max_seq_tokens = 64;
    cfg.max_namespaces = 4;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    cfg.log = (pkv_logger){ keep_line, line };
    fx *f = fx_from(&cfg);
    const size_t bytes = pkv_blockmgr_bytes(&cfg);
    build(f);
    pkv_blockmgr *copy = aligned_alloc(64, bytes);
    assert_non_null(copy);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        for (int level = 1; level <= 3; level++) {
            memcpy(copy, f->m, bytes);
            assert_ok(pkv_blockmgr_check(copy, 3));
            damages[i].damage(copy);
            *line = 0;
            pkv_status st = pkv_blockmgr_check(copy, level);
            bool named = strstr(line, damages[i].invariant) != NULL;
            if (level < damages[i].level ? st == PKV_OK : st == PKV_E_CORRUPT && named) continue;
            fail_msg("%s at level %d: %s, \"%s\"; expected %s from level %d on", damages[i].name,
                     level, pkv_status_name(st), line, damages[i].invariant, damages[i].level);
        }
    }
    free(copy);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_invariant_is_verified) };
    return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
