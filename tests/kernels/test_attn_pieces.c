/* How attention's work is cut: everything once, and in equal shares. */
#include "attn_batches.h"
#include "kernels/attn_fold.h"
#include "kernels/attn_pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ the list and its pieces */

static struct pkv__attn_walk walk_of(struct problem *p, struct pkv__attn_call *c,
                                     const pkv_backend *be)
{
    *c = (struct pkv__attn_call){ .q = &p->q,
                                  .k = &p->k,
                                  .v = &p->v,
                                  .batch = &p->batch,
                                  .opts = &p->opts,
                                  .out = &p->out,
                                  .group = p->group,
                                  .bad = p->bad };
    return (struct pkv__attn_walk){ .call = c, .kernels = &be->kernels };
}

/* How often each (row, kv head, chunk) is met; whole kernels meet all chunks of their rows. */
enum { MARK_CHUNKS = 64 };
static uint8_t marks[MAX_ROWS][8][MARK_CHUNKS];

static void mark_item(const struct pkv__attn_walk *w)
{
    const struct pkv__attn_unit *u = &w->unit;
    const int32_t lo = u->key_lo / PKV__CHUNK_TOKENS;
    const int32_t hi = pkv__ceil_div_i32(u->key_hi, PKV__CHUNK_TOKENS);
    assert_true(u->row_lo < u->row_hi && u->row_hi <= u->q_len && hi <= MARK_CHUNKS);
    assert_true(pkv__attn_walk_states(w) <=
                    pkv__attn_unit_states(w->call->q->n_heads, w->call->k->n_heads) ||
                !pkv__attn_walk_folds(w));
    for (int32_t i = u->row_lo; i < u->row_hi; i++)
        for (int32_t h = 0; h < u->n_kv_heads; h++)
            for (int32_t c = lo; c < hi; c++) marks[u->row0 + i][u->kv_head + h][c]++;
}

static bool chunk_visible(const struct pkv__attn_walk *w, int32_t row_lo, int32_t c)
{
    const int32_t first = c * PKV__CHUNK_TOKENS;
    for (int32_t i = row_lo; i < w->unit.q_len; i++)
        for (int32_t j = first; j < first + PKV__CHUNK_TOKENS && j < w->unit.kv_len; j++)
            if (pkv__visible_bits(w->call, &w->unit, i, j, 1)) return true;
    return false;
}

/* Once each, where a row of the sequence sees a key of the chunk; not at all, or once, elsewhere.
 */
static void check_marks(struct pkv__attn_walk *w)
{
    int32_t seq = -1;
    for (pkv__attn_walk_to(w, (struct pkv__attn_mark){ 0 }); !pkv__attn_walk_done(w);
         pkv__attn_walk_next(w)) {
        const struct pkv__attn_unit *u = &w->unit;
        if (u->seq == seq) continue;
        seq = u->seq;
        for (int32_t c = 0; c * PKV__CHUNK_TOKENS < u->kv_len; c++) {
            const bool seen = chunk_visible(w, 0, c);
            for (int32_t i = 0; i < u->q_len; i++)
                for (int32_t h = 0; h < w->call->k->n_heads; h++)
                    assert_true(marks[u->row0 + i][h][c] == 1 ||
                                (marks[u->row0 + i][h][c] == 0 && !seen));
        }
    }
}

/* Slots of states do not overlap and lie inside the area. */
static void take_slot(uint8_t *taken, size_t slots, size_t first, size_t floats)
{
    assert_true(first % 16 == 0 && floats % 16 == 0 && first + floats <= slots);
    for (size_t i = first / 16; i < (first + floats) / 16; i++) {
        assert_int_equal(taken[i], 0);
        taken[i] = 1;
    }
}

static void walk_piece(struct pkv__attn_walk *w, const struct pkv__attn_piece *piece,
                       uint8_t *taken, size_t slots)
{
    bool in_cut_span = piece->cut;
    size_t slot = piece->slot;
    pkv__attn_walk_to(w, piece->first);
    for (int64_t i = 0; i < piece->n_items; i++) {
        const size_t floats = pkv__state_floats(pkv__attn_walk_states(w), V_DIM);
        assert_false(pkv__attn_walk_done(w));
        if (i == 0 && piece->opens) take_slot(taken, slots, slot - floats, floats);
        if (i > 0 && w->at.part == 0) in_cut_span = false;
        if (in_cut_span) take_slot(taken, slots, slot, floats), slot += floats;
        mark_item(w);
        pkv__attn_walk_next(w);
    }
}

static void every_item_once(void **state)
{
    static struct problem p;
    static struct pkv__attn_piece pieces[64 * PKV__PIECES_PER_TASK];
    static uint8_t taken[1 << 16];
    pkv_backend *be = naive_backend(1, NULL, NULL);
    (void)state;
    int n_cut = 0, n_moved = 0;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        struct rng r = { seed };
        struct pkv__attn_call call;
        draw_problem(&p, &r);
        const size_t slots =
            rng_chance(&r, 30) ? 16 * (size_t)rng_int(&r, 0, 300) : 16 * sizeof taken;
        const int32_t n_tasks = rng_int(&r, 2, 64);
        struct pkv__attn_walk w = walk_of(&p, &call, be);
        memset(marks, 0, sizeof marks);
        memset(taken, 0, sizeof taken);
        const int32_t n = pkv__attn_cut_pieces(&w, n_tasks, slots, pieces);
        assert_true(n >= 1 && n <= n_tasks * PKV__PIECES_PER_TASK);
        for (int32_t i = 0; i < n; i++) {
            if (i == 0 && pieces[0].n_items == INT64_MAX) continue; /* nothing to do */
            walk_piece(&w, &pieces[i], taken, slots);
            n_cut += pieces[i].opens;
            n_moved += pieces[i].cut && !pieces[i].opens;
        }
        check_marks(&w);
        free(p.memory);
    }
    assert_true(n_cut > 20 && n_moved > 20); /* the test met what it is for */
    pkv_backend_destroy(be);
}

/* Cost of the tasks if each takes the next piece when it has done one: the longest. */
static double makespan(struct pkv__attn_walk *w, const struct pkv__attn_piece *pieces, int32_t n,
                       int32_t n_tasks, double *total)
{
    double busy[64] = { 0 };
    *total = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t first = 0;
        double cost = 0;
        pkv__attn_walk_to(w, pieces[i].first);
        for (int64_t k = 0; k < pieces[i].n_items; k++, pkv__attn_walk_next(w))
            cost += (double)pkv__attn_walk_cost(w);
        for (int32_t t = 1; t < n_tasks; t++)
            if (busy[t] < busy[first]) first = t;
        busy[first] += cost;
        *total += cost;
    }
    double longest = 0;
    for (int32_t t = 0; t < n_tasks; t++) longest = busy[t] > longest ? busy[t] : longest;
    return longest;
}

static void check_makespan(struct problem *p, const pkv_backend *be, int32_t n_tasks,
                           const char *what)
{
    static struct pkv__attn_piece pieces[64 * PKV__PIECES_PER_TASK];
    struct pkv__attn_call call;
    struct pkv__attn_walk w = walk_of(p, &call, be);
    double total;
    const size_t slots = 256 * pkv__state_floats(p->q.n_heads, V_DIM);
    const int32_t n = pkv__attn_cut_pieces(&w, n_tasks, slots, pieces);
    const double longest = makespan(&w, pieces, n, n_tasks, &total);
    if (longest <= 1.1 * total / n_tasks) return;
    fprintf(stderr, "%s: %d sequences, %d tasks: %.3f of the ideal\n", what, p->n_seqs, n_tasks,
            longest * n_tasks / total);
    fail();
}

/* KT23: no batch size leaves threads idle. */
static void equal_shares(void **state)
{
    static const int32_t n_tasks[] = { 2, 3, 8, 16 };
    static struct problem p;
    pkv_backend *be = naive_backend(1, NULL, NULL);
    struct rng r = { 3 };
    (void)state;
    be->kernels.attn_rows[PKV_F32].unit_queries = 192;
    for (int32_t n_seqs = 1; n_seqs <= 300; n_seqs++)
        for (size_t t = 0; t < PKV_ARRAY_LEN(n_tasks); t++) {
            const int32_t tasks = n_tasks[t];
            /* Work for everyone, as far as the unit of 1024 keys and a head allows. */
            const int32_t least = PKV__CHUNK_TOKENS * 3 * tasks / pkv__min_i32(n_seqs, 2 * tasks);
            set_shape(&p, 8, 4);
            for (int32_t b = 0; b < n_seqs; b++)
                if (!add_sequence(&p, &r, 1, pkv__min_i32(least, MAX_IDS / n_seqs * BT))) break;
            finish_batch(&p);
            check_makespan(&p, be, tasks, "decode");
            set_shape(&p, 8, 4);
            while (p.n_seqs < n_seqs)
                if (!add_sequence(&p, &r, rng_chance(&r, 3) ? rng_int(&r, 9, 60) : 1,
                                  rng_int(&r, 1, MAX_IDS / n_seqs * BT)))
                    break;
            finish_batch(&p);
            if (n_seqs >= tasks) check_makespan(&p, be, tasks, "mixed");
        }
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(equal_shares),
    };
    return cmocka_run_group_tests_name("attn_pieces", tests, NULL, NULL);
}
