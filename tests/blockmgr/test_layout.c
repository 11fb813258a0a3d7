/* The arena: parts that lie one behind the other, none too small, none with room to spare, and what
 * the configuration's defaults and limits are. */
#include "blockmgr/blockmgr_internal.h"
#include "mgr_fixture.h"

struct part {
    const char *name;
    size_t at, bytes;
};

static int by_place(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Every part with the size that its comment in blockmgr_arena.h gives it. */
static size_t list_parts(const pkv_blockmgr *m, struct part *out)
{
    const size_t blocks = (size_t)m->n_blocks, seqs = (size_t)m->max_seqs;
    const size_t groups = (size_t)m->n_groups, steps = (size_t)m->max_steps, set = (seqs + 63) / 64;
    const size_t holds = (size_t)m->max_holds, host = (size_t)m->n_host_blocks;
    const struct part fixed[] = {
        { "manager", 0, sizeof *m },
        { "blocks", m->off_blocks, blocks * sizeof(struct block_rec) },
        { "free ids", m->off_free_ids, blocks * sizeof(int32_t) },
        { "nodes", m->off_nodes, (size_t)m->max_nodes * m->node_bytes },
        { "index", m->off_index, ((size_t)m->index_mask + 1) * sizeof(int32_t) },
        { "extras", m->off_extras, (size_t)m->max_extras * sizeof(struct extra_entry) },
        { "seqs", m->off_seqs, seqs * sizeof(struct seq_rec) },
        { "seq groups", m->off_seq_groups, seqs * groups * sizeof(struct seq_group) },
        { "tails", m->off_tails, seqs * (size_t)m->unit * sizeof(int32_t) },
        { "pending", m->off_pending, seqs * steps * sizeof(struct pending) },
        { "scratch", m->off_scratch, (size_t)m->row_units * sizeof(int32_t) },
        { "steps", m->off_steps, steps * sizeof(struct step_rec) },
        { "step seqs", m->off_step_seqs, steps * set * sizeof(uint64_t) },
        { "changes", m->off_changes, groups * seqs * sizeof(struct row_change) },
        { "changed", m->off_changed, groups * set * sizeof(uint64_t) },
        { "raw refs", m->off_raw_refs, blocks * sizeof(int32_t) },
        { "holds", m->off_holds, holds * sizeof(struct hold_rec) },
        { "hold ids", m->off_hold_ids, holds * (size_t)m->hold_ids * sizeof(int32_t) },
        { "swaps", m->off_swaps, blocks * sizeof(struct swap_rec) },
        { "host", m->off_host, host * sizeof(struct host_rec) },
        { "namespaces", m->off_namespaces, (size_t)m->max_namespaces * sizeof(struct ns_rec) },
    };
    size_t n = sizeof fixed / sizeof fixed[0];
    memcpy(out, fixed, sizeof fixed);
    for (int32_t g = 0; g < m->n_groups; g++)
        out[n++] = (struct part){ "rows", m->groups[g].off_rows,
                                  seqs * (size_t)m->groups[g].row_width * sizeof(int32_t) };
    qsort(out, n, sizeof *out, by_place);
    return n;
}

static const pkv_group mixed[] = {
    { PKV_GROUP_FULL, 16, 0, 0, 0 },
    { PKV_GROUP_SLIDING, 32, 100, 0, 0 },
    { PKV_GROUP_STATE, 0, 0, 0, 3 },
    { PKV_GROUP_CHUNKED, 16, 64, 4, 0 },
};

static void parts_touch(void **state)
{
    (void)state;
    for (int n_groups = 0; n_groups <= 4; n_groups++) {
        pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
        cfg.n_blocks = 71, cfg.max_seqs = 67, cfg.max_seq_tokens = 330, cfg.max_nodes = 53;
        cfg.max_extras = 7, cfg.max_namespaces = 3, cfg.max_steps = 5, cfg.max_holds = 9;
        cfg.n_host_blocks = 11, cfg.groups = n_groups ? mixed : NULL, cfg.n_groups = n_groups;
        fx *f = fx_from(&cfg);
        struct part parts[32];
        const size_t n = list_parts(f->m, parts);
        for (size_t i = 0; i < n; i++) {
            const size_t end = (parts[i].at + parts[i].bytes + 63) / 64 * 64;
            const size_t next = i + 1 < n ? parts[i + 1].at : f->m->arena_bytes;
            if (end != next) fail_msg("%s ends at %zu, next at %zu", parts[i].name, end, next);
        }
        assert_int_equal(f->m->arena_bytes, pkv_blockmgr_bytes(&cfg));
        fx_end(f);
    }
}

/* At least two index slots per node, and not four; a node holds its slots and one unit. */
static void index_and_nodes(void **state)
{
    (void)state;
    for (int32_t nodes = 1; nodes < 300; nodes++) {
        pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
        cfg.n_blocks = 4, cfg.max_seqs = 1, cfg.max_seq_tokens = 16, cfg.max_nodes = nodes;
        fx *f = fx_from(&cfg);
        const int64_t slots = (int64_t)f->m->index_mask + 1;
        assert_true((slots & (slots - 1)) == 0 && slots >= 2 * nodes);
        assert_true(slots == 4 || slots < 4 * nodes);
        const size_t least = offsetof(struct node, at) + sizeof(struct node_slot) + 16 * 4;
        assert_true(f->m->node_bytes >= least && f->m->node_bytes < least + 64);
        fx_end(f);
    }
}

static bool accepts(const pkv_blockmgr_config *cfg)
{
    return pkv_blockmgr_bytes(cfg) > 0;
}

/* Limits too high to make a manager of; and the defaults that 0 stands for. */
static void limits_and_defaults(void **state)
{
    (void)state;
    pkv_blockmgr_config small = PKV_BLOCKMGR_CONFIG_INIT;
    small.n_blocks = 100, small.max_seqs = 2, small.max_seq_tokens = 64;
    static const struct {
        size_t at;
        int32_t most;
    } field[] = {
#define FIELD(name) offsetof(pkv_blockmgr_config, name)
        { FIELD(max_seqs), 1 << 24 },  { FIELD(max_seq_tokens), INT32_MAX - 2048 },
        { FIELD(max_nodes), 1 << 30 }, { FIELD(max_namespaces), 1 << 24 },
        { FIELD(max_steps), 64 },      { FIELD(max_holds), 1 << 16 },
        { FIELD(block_tokens), 2048 },
#undef FIELD
    };
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
        for (int32_t over = 0; over < 2; over++) {
            pkv_blockmgr_config cfg = small;
            const int32_t value = field[i].most + over;
            memcpy((char *)&cfg + field[i].at, &value, sizeof value);
            assert_int_equal(accepts(&cfg), !over);
        }
    }
    fx *f = fx_from(&small);
    assert_int_equal(f->m->unit, 16);
    assert_int_equal(f->m->max_extras, 100 / 4 + 64);
    assert_int_equal(f->m->max_namespaces, 64);
    assert_int_equal(f->m->max_steps, 4);
    assert_int_equal(f->m->max_holds, 64);
    assert_int_equal(f->m->n_host_blocks, 0);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_touch),
        cmocka_unit_test(index_and_nodes),
        cmocka_unit_test(limits_and_defaults),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
