#include "placement_rig.h"

#include "pagedkv/pagedkv.h"

#define N_LAYERS 2
#define N_HEADS 2
#define DIM 16

int32_t world_below(world *w, int32_t n)
{
    return (int32_t)pkv__rng_below(&w->rng, (uint32_t)n);
}

pkv__place_usage world_usage(const world *w)
{
    pkv__place_usage u;
    memset(&u, 0xee, sizeof(u));
    w->p->ops->usage(w->p, &u);
    return u;
}

/* ---------------------------------------------------------------- making */

pkv__placement_config world_config(world *w, const world_options *o)
{
    size_t block_bytes = 0;
    memset(w, 0, sizeof(*w));
    w->o = *o;
    w->shape = (pkv_kv_shape){ N_LAYERS, N_HEADS, DIM, o->block_tokens, o->dtype };
    pkv__rng_init(&w->rng, o->seed, 11, 0);
    assert_int_equal(pkv_kv_block_bytes(&w->shape, &block_bytes), PKV_OK);
    const pkv__placement_config cfg = { .kind = o->kind,
                                        .backend = w->be,
                                        .shape = w->shape,
                                        .n_blocks = o->n_blocks,
                                        .swap_bytes = (size_t)o->n_host_blocks * block_bytes,
                                        .max_seqs = o->max_seqs ? o->max_seqs : 12,
                                        .max_context = WORLD_TOKENS,
                                        .prefix_cache = !o->no_prefix_cache,
                                        .model_digest = { 1, 2, 3 },
                                        .log = log_to(&w->log),
                                        .alloc = count_memory(&w->memory, -1) };
    return cfg;
}

/* Whatever is read before it is written shows. */
static void spoil(world *w)
{
    for (int32_t k = 0; k < N_LAYERS; k++) {
        for (int side = 0; side < 2; side++) {
            const pkv_kv_view *v = side ? &w->p->v_views[k] : &w->p->k_views[k];
            const int64_t bits = pkv_dtype_bits(v->dtype);
            for (int64_t id = 1; id < v->n_blocks; id++)
                for (int64_t h = 0; h < N_HEADS; h++)
                    for (int64_t t = 0; t < v->block_tokens; t++)
                        memset((uint8_t *)v->data + (id * v->block_stride + t * v->token_stride +
                                                     h * v->head_stride) *
                                                        bits / 8,
                               0xff, (size_t)(DIM * bits / 8));
        }
    }
}

void world_make(world *w, const world_options *o)
{
    pkv_cpu_config be = PKV_CPU_CONFIG_INIT;
    pkv__placement_config cfg = world_config(w, o);
    be.alloc = count_memory(&w->backend_memory, -1);
    assert_int_equal(pkv_backend_create_cpu(&be, &w->be), PKV_OK);
    cfg.backend = w->be;
    const pkv_status status = pkv__placement_create(&cfg, &w->p);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), w->log.text);
    assert_int_equal(w->log.n_lines, 0);
    w->memory.fail_at = w->backend_memory.fail_at = 0; /* from now on there is none */
    spoil(w);
}

void world_drop(world *w)
{
    for (int32_t i = 0; i < WORLD_SEQS; i++)
        if (w->seqs[i].open) world_close(w, i);
    world_check(w);
    assert_int_equal(world_usage(w).n_used, 0);
    w->p->ops->destroy(w->p);
    assert_int_equal(w->memory.n_live, 0);
    pkv_backend_destroy(w->be);
}

/* ---------------------------------------------------------------- bytes */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* K or V of a token in one layer and head, as bytes; then its scale and zero point. */
static void fill_row(uint64_t history, int32_t layer, int32_t head, int side, uint8_t out[72])
{
    uint64_t h = mix(history, (uint64_t)(layer * 64 + head * 2 + side + 1));
    for (int32_t i = 0; i < 72; i += 8, h = mix(h, 5)) memcpy(out + i, &h, 8);
}

static float *scale_at(const pkv_scales *s, int64_t id, int64_t offset, int64_t head)
{
    return s->data + id * s->block_stride + offset * s->token_stride + head * s->head_stride;
}

/* Write the bytes of a token at (id, offset), or compare them: how many differ. */
static int visit_token(world *w, uint64_t history, int64_t id, int64_t offset, bool write)
{
    int n_wrong = 0;
    const size_t n = (size_t)(DIM * pkv_dtype_bits(w->shape.dtype) / 8);
    for (int32_t k = 0; k < N_LAYERS * N_HEADS * 2; k++) {
        const int32_t layer = k / (2 * N_HEADS), head = k / 2 % N_HEADS;
        uint8_t want[72];
        const pkv_kv_view *v = k % 2 ? &w->p->v_views[layer] : &w->p->k_views[layer];
        fill_row(history, layer, head, k % 2, want);
        uint8_t *at = (uint8_t *)v->data +
                      (id * v->block_stride + offset * v->token_stride + head * v->head_stride) *
                          pkv_dtype_bits(v->dtype) / 8;
        void *scale = v->scales.data ? scale_at(&v->scales, id, offset, head) : NULL;
        void *zero = v->zeros.data ? scale_at(&v->zeros, id, offset, head) : NULL;
        if (write) {
            memcpy(at, want, n);
            if (scale) memcpy(scale, want + 64, 4);
            if (zero) memcpy(zero, want + 68, 4);
        }
        n_wrong += memcmp(at, want, n) != 0;
        n_wrong += scale && memcmp(scale, want + 64, 4) != 0;
        n_wrong += zero && memcmp(zero, want + 68, 4) != 0;
    }
    return n_wrong;
}

static void check_bytes(world *w, int32_t seq)
{
    const world_seq *s = &w->seqs[seq];
    int32_t n_ids = 0;
    uint64_t history = 1;
    const int32_t *ids = w->p->ops->row(w->p, seq, &n_ids);
    assert_true(n_ids <= w->p->table_width);
    for (int32_t i = 0; i < s->n; i++) {
        history = mix(history, (uint64_t)s->tokens[i] + 1);
        assert_in_range(i / w->p->block_tokens, 0, n_ids - 1);
        const int32_t id = ids[i / w->p->block_tokens];
        assert_in_range(id, 1, w->p->k_views[0].n_blocks - 1);
        if (visit_token(w, history, id, i % w->p->block_tokens, false) > 0)
            fail_msg("sequence %d of %d tokens: token %d, block %d has other bytes", seq, s->n, i,
                     id);
    }
}

/* ---------------------------------------------------------------- counting anew */

/* filled[id]: tokens in the block, as far as any sequence reads it; -1: nobody has it. */
static void count_blocks(const world *w, int32_t *filled)
{
    for (int32_t b = 0; b < WORLD_BLOCKS; b++) filled[b] = -1;
    for (int32_t i = 0; i < WORLD_SEQS; i++) {
        const world_seq *s = &w->seqs[i];
        if (!s->open) continue;
        int32_t n_ids = pkv__ceil_div_i32(s->n, w->p->block_tokens);
        const int32_t *ids = s->parked ? s->row : w->p->ops->row(w->p, i, &n_ids);
        for (int32_t at = 0; at < n_ids; at++) {
            if (ids[at] == 0) continue;
            assert_in_range(ids[at], 1, WORLD_BLOCKS - 1);
            const int32_t here = s->n - at * w->p->block_tokens;
            const int32_t n = pkv__max_i32(0, pkv__min_i32(here, w->p->block_tokens));
            filled[ids[at]] = pkv__max_i32(filled[ids[at]], n);
        }
    }
}

static void check_usage(const world *w)
{
    int32_t filled[WORLD_BLOCKS], n_used = 0;
    int64_t n_filled = 0;
    const pkv__place_usage u = world_usage(w);
    count_blocks(w, filled);
    for (int32_t b = 0; b < WORLD_BLOCKS; b++) {
        n_used += filled[b] >= 0;
        n_filled += filled[b] > 0 ? filled[b] : 0;
    }
    assert_int_equal(u.n_blocks, w->o.n_blocks - 1);
    assert_int_equal(u.n_free + u.n_used, u.n_blocks);
    assert_int_equal(u.n_slots_used, (int64_t)u.n_used * w->p->block_tokens);
    assert_int_equal(u.n_slots_filled, n_filled);
    assert_int_equal(u.n_swapped_bytes, w->n_swapped_bytes);
    assert_in_range(u.n_cached, 0, u.n_free);
    if (w->o.kind == PKV_PLACE_PAGED) assert_int_equal(u.n_used, n_used);
    else assert_true(u.n_used >= n_used); /* reserved, and not in the rows yet */
}

void world_check(world *w)
{
    for (int32_t i = 0; i < WORLD_SEQS; i++) {
        const world_seq *s = &w->seqs[i];
        assert_int_equal(w->p->ops->committed(w->p, i), s->open ? s->n : 0);
        if (s->open && !s->parked) check_bytes(w, i);
    }
    check_usage(w);
    if (w->p->ops->check(w->p) != PKV_OK) fail_msg("%s", w->log.text);
    assert_int_equal(w->log.n_lines, 0);
}

/* ---------------------------------------------------------------- refusals */

/* What nobody may change who refuses. */
typedef struct snapshot {
    pkv__place_usage usage;
    int32_t committed[WORLD_SEQS], n_ids[WORLD_SEQS], ids[WORLD_SEQS][WORLD_TOKENS];
} snapshot;

static snapshot take_snapshot(const world *w)
{
    snapshot s;
    memset(&s, 0, sizeof(s));
    s.usage = world_usage(w);
    for (int32_t i = 0; i < WORLD_SEQS; i++) {
        s.committed[i] = w->p->ops->committed(w->p, i);
        const int32_t *ids = w->p->ops->row(w->p, i, &s.n_ids[i]);
        if (s.n_ids[i] > 0) memcpy(s.ids[i], ids, (size_t)s.n_ids[i] * sizeof(*ids));
    }
    return s;
}

static pkv_status answer(world *w, pkv_status status, const snapshot *before)
{
    w->n_status[status]++;
    if (status == PKV_OK) return status;
    const snapshot after = take_snapshot(w);
    assert_memory_equal(&after, before, sizeof(after));
    return status;
}

/* ---------------------------------------------------------------- calls */

static world_seq *seq_at(world *w, int32_t seq, bool open)
{
    assert_in_range(seq, 0, WORLD_SEQS - 1);
    assert_int_equal(w->seqs[seq].open, open);
    return &w->seqs[seq];
}

pkv_status world_admit(world *w, const int32_t *ids, int32_t n, int32_t n_longest, int32_t n_seqs,
                       int32_t watermark, int32_t *seq)
{
    const snapshot before = take_snapshot(w);
    int32_t claimed = -77;
    *seq = -77;
    const pkv_status status =
        w->p->ops->admit(w->p, ids, n, n_longest, n_seqs, watermark, seq, &claimed);
    if (status != PKV_OK) {
        assert_int_equal(*seq, -77);
        assert_int_equal(claimed, -77);
        return answer(w, status, &before);
    }
    world_seq *s = seq_at(w, *seq, false);
    assert_in_range(claimed, 0, n - 1);
    *s = (world_seq){ .open = true, .n = claimed, .before = -1, .longest = n_longest };
    memcpy(s->tokens, ids, (size_t)n * sizeof(*ids));
    s->n_prompt = n;
    if (w->o.kind == PKV_PLACE_PAGED) assert_true(world_usage(w).n_free >= watermark);
    else assert_int_equal(claimed, 0);
    return answer(w, status, &before);
}

pkv_status world_reserve(world *w, const int32_t *seqs, const int32_t *n_tokens, int32_t n)
{
    const snapshot before = take_snapshot(w);
    return answer(w, w->p->ops->reserve(w->p, seqs, n_tokens, n), &before);
}

pkv_status world_fork(world *w, int32_t parent, int32_t *children, int32_t n)
{
    const snapshot before = take_snapshot(w);
    const pkv_status status = w->p->ops->fork(w->p, parent, children, n);
    for (int32_t i = 0; i < n && status == PKV_OK; i++) {
        world_seq *child = seq_at(w, children[i], false);
        *child = w->seqs[parent];
        child->n_prompt = child->n;
    }
    if (status == PKV_OK) w->seqs[parent].n_prompt = w->seqs[parent].n;
    return answer(w, status, &before);
}

void world_close(world *w, int32_t seq)
{
    seq_at(w, seq, true)->open = false;
    w->p->ops->close(w->p, seq);
}

void world_begin(world *w)
{
    assert_int_equal(w->p->ops->step_begin(w->p), PKV_OK);
    for (int32_t i = 0; i < WORLD_SEQS; i++) w->seqs[i].before = -1;
}

void world_commit(world *w, int32_t seq, int32_t n)
{
    world_seq *s = seq_at(w, seq, true);
    int64_t slots[WORLD_TOKENS];
    uint64_t history = 1;
    assert_true(s->n + n <= WORLD_TOKENS);
    w->p->ops->slots(w->p, seq, s->n, n, slots);
    for (int32_t i = 0; i < s->n; i++) history = mix(history, (uint64_t)s->tokens[i] + 1);
    for (int32_t i = 0; i < n; i++) {
        if (s->n + i >= s->n_prompt) s->tokens[s->n + i] = world_below(w, 3);
        history = mix(history, (uint64_t)s->tokens[s->n + i] + 1);
        visit_token(w, history, slots[i] / w->p->block_tokens, slots[i] % w->p->block_tokens, true);
    }
    assert_int_equal(w->p->ops->commit(w->p, seq, s->tokens + s->n, n), PKV_OK);
    if (s->before < 0) s->before = s->n;
    s->n += n;
    s->n_prompt = pkv__max_i32(s->n_prompt, s->n);
}

void world_retire(world *w)
{
    assert_int_equal(w->p->ops->step_retire(w->p), PKV_OK);
}

void world_abort(world *w)
{
    w->p->ops->step_abort(w->p);
    for (int32_t i = 0; i < WORLD_SEQS; i++)
        if (w->seqs[i].open && w->seqs[i].before >= 0) w->seqs[i].n = w->seqs[i].before;
}

pkv_status world_step(world *w, int32_t seq, int32_t n)
{
    const pkv_status status = world_reserve(w, &seq, &n, 1);
    if (status != PKV_OK) return status;
    world_begin(w);
    world_commit(w, seq, n);
    world_retire(w);
    return PKV_OK;
}

/* ---------------------------------------------------------------- swapping */

static bool among(int32_t seq, const int32_t *seqs, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (seqs[i] == seq) return true;
    return false;
}

/* The blocks of the given ones; those that others have too become 0 in `moves`. */
static int32_t count_moves(const world *w, const int32_t *seqs, int32_t n, bool *moves)
{
    int32_t n_moves = 0;
    for (int32_t b = 0; b < WORLD_BLOCKS; b++) moves[b] = false;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < WORLD_SEQS; i++) {
            const world_seq *s = &w->seqs[i];
            if (!s->open || among(i, seqs, n) != (pass == 0)) continue;
            int32_t n_ids = 0;
            const int32_t *ids = s->parked ? s->row : w->p->ops->row(w->p, i, &n_ids);
            n_ids = pkv__ceil_div_i32(s->n, w->p->block_tokens);
            for (int32_t at = 0; at < n_ids; at++) moves[ids[at]] = pass == 0;
        }
    }
    moves[0] = false;
    for (int32_t b = 0; b < WORLD_BLOCKS; b++) n_moves += moves[b];
    return n_moves;
}

pkv_status world_suspend(world *w, const int32_t *seqs, int32_t n)
{
    bool moves[WORLD_BLOCKS];
    const snapshot before = take_snapshot(w);
    const int32_t n_moves = count_moves(w, seqs, n, moves);
    const bool paged = w->o.kind == PKV_PLACE_PAGED;
    const size_t moved_bytes = paged ? (size_t)n_moves * w->p->block_bytes : 0;
    assert_int_equal(w->p->ops->swap_bytes(w->p, seqs, n), moved_bytes);
    const pkv_status status = w->p->ops->suspend(w->p, seqs, n);
    if (status != PKV_OK) return answer(w, status, &before);
    w->n_suspends++;
    w->n_swapped_bytes += (int64_t)moved_bytes;
    for (int32_t i = 0; i < n; i++) {
        world_seq *s = seq_at(w, seqs[i], true);
        const int32_t n_ids = pkv__ceil_div_i32(s->n, w->p->block_tokens);
        for (int32_t at = 0; at < n_ids; at++) {
            const int32_t id = before.ids[seqs[i]][at];
            s->row[at] = moves[id] ? 0 : id;
            s->moved[at] = moves[id] ? w->n_suspends * WORLD_BLOCKS + (uint32_t)id : 0;
        }
        s->parked = true;
    }
    return answer(w, status, &before);
}

pkv_status world_resume(world *w, const int32_t *seqs, int32_t n, int32_t watermark)
{
    const snapshot before = take_snapshot(w);
    uint32_t seen[WORLD_BLOCKS * 4];
    int32_t n_seen = 0;
    for (int32_t i = 0; i < n; i++) {
        const world_seq *s = &w->seqs[seqs[i]];
        for (int32_t at = 0; at < pkv__ceil_div_i32(s->n, w->p->block_tokens); at++) {
            int32_t k = 0;
            while (k < n_seen && seen[k] != s->moved[at]) k++;
            if (k == n_seen && s->moved[at] != 0) seen[n_seen++] = s->moved[at];
        }
    }
    const pkv_status status = w->p->ops->resume(w->p, seqs, n, watermark);
    assert_int_equal(status, before.usage.n_free - n_seen >= watermark ? PKV_OK : PKV_E_NO_BLOCKS);
    if (status != PKV_OK) return answer(w, status, &before);
    for (int32_t i = 0; i < n; i++) w->seqs[seqs[i]].parked = false;
    w->n_swapped_bytes += (int64_t)n_seen * (int64_t)w->p->block_bytes;
    return answer(w, status, &before);
}

/* ---------------------------------------------------------------- short for */

world_options world_plain(pkv_placement kind)
{
    return (world_options){ .kind = kind,
                            .dtype = PKV_F16,
                            .block_tokens = 4,
                            .n_blocks = 80,
                            .n_host_blocks = kind == PKV_PLACE_PAGED ? 60 : 0,
                            .seed = 1 };
}

void world_prompt(world *w, int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++) ids[i] = 100 + world_below(w, 1000);
}

/* Admitted and computed. */
int32_t world_prefilled(world *w, const int32_t *ids, int32_t n, int32_t n_longest, int32_t n_seqs)
{
    int32_t seq;
    assert_int_equal(world_admit(w, ids, n, n_longest, n_seqs, 0, &seq), PKV_OK);
    assert_int_equal(world_step(w, seq, n - w->seqs[seq].n), PKV_OK);
    return seq;
}

void world_expect_line(const world *w, const char *what, pkv_status status, pkv_status want,
                       const char *says)
{
    if (status != want || w->log.n_lines != 1 || !strstr(w->log.text, says))
        fail_msg("%s: %s, \"%s\" (%d lines); expected %s, \"%s\"", what, pkv_status_name(status),
                 w->log.text, w->log.n_lines, pkv_status_name(want), says);
}
