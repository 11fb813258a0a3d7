/* After preemption by recompute: several sequences of one request compute again what each had, with
 * room for all of it in a step and with room for a part, and go on together. */
#include "engine_rig.h"

#include "model/engine_internal.h"

typedef struct pair {
    engine_rig r;
    int32_t ids[2][16];
    pkv_request request[2]; /* a long one, and the one that gives way */
    const got *g[2];
    int32_t n_uneven;  /* steps after which some sequences were further than others */
    int32_t n_at_once; /* steps that computed all that was known and drew */
} pair;

static void open_pair(pair *p, uint64_t seed, int32_t n_blocks, int32_t max_batch_tokens,
                      bool beams)
{
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    memset(p, 0, sizeof(*p));
    cfg.block_tokens = 2;
    cfg.n_blocks = 1 + n_blocks;
    cfg.max_seqs = 4;
    cfg.max_batch_tokens = max_batch_tokens;
    cfg.chunk_tokens = 64;
    cfg.watermark_blocks = 0;
    cfg.preempt = PKV_PREEMPT_RECOMPUTE;
    cfg.no_prefix_cache = true;
    rig_open(&p->r, rig_tiny_model(seed), NULL, &cfg);
    for (int32_t i = 0; i < 2; i++) {
        rig_draw(seed + (uint64_t)i, 97, p->ids[i], 16);
        p->request[i] = rig_request(p->ids[i], i == 0 ? 16 : 3, i == 0 ? 22 : 12);
    }
    p->request[1].n = 3;
    p->request[1].beams = beams ? 3 : 0;
    if (!beams) {
        p->request[1].sampling.temperature = 1;
        p->request[1].sampling.n_logprobs = 1;
    }
    for (int32_t i = 0; i < 2; i++) p->g[i] = rig_submit(&p->r, &p->request[i]);
}

/* Sequences of the second, and the tokens that they have not computed and have drawn before. */
static int32_t behind(const pair *p, int32_t *least, int32_t *most)
{
    const pkv__job *job = pkv__table_find(p->r.engine, p->g[1]->id);
    int32_t n = 0;
    *least = INT32_MAX;
    *most = 0;
    for (int32_t i = 0; job && i < job->n_branches; i++) {
        const pkv__branch *b = &job->branch[i];
        if (b->run.seq < 0) continue;
        const int32_t left = job->n_prompt + b->n_output - b->run.n_computed - 1;
        *least = pkv__min_i32(*least, left);
        *most = pkv__max_i32(*most, left);
        n++;
    }
    return n;
}

/* Tokens that the second has drawn. */
static int32_t outputs(const pair *p)
{
    const pkv__job *job = pkv__table_find(p->r.engine, p->g[1]->id);
    int32_t n = 0;
    for (int32_t i = 0; job && i < job->n_branches; i++) n += job->branch[i].n_output;
    return n;
}

static void run_pair(pair *p)
{
    int32_t least, most, n;
    do {
        n = behind(p, &least, &most);
        const int32_t n_was = n, was = most;
        const int32_t n_out = outputs(p);
        rig_step(&p->r);
        assert_int_equal(p->r.status, PKV_OK);
        n = behind(p, &least, &most);
        if (p->request[1].beams > 0 && n_was > 1 && was > 0 && n > 0)
            assert_int_equal(outputs(p), n_out); /* none before all are there */
        p->n_uneven += n > 1 && least != most;
        p->n_at_once += n_was > 1 && was > 0 && n == n_was && most == 0 && outputs(p) > n_out;
    } while (p->r.report.n_unfinished > 0);
    for (int32_t i = 0; i < 2; i++) got_same("caught up", p->g[i], rig_lone(&p->r, &p->request[i]));
}

/* The budget cuts: some are there before the others, and wait where they are beams. */
static void cut(bool beams)
{
    int32_t n_uneven = 0, n_preempted = 0;
    for (uint64_t seed = 1; seed < 3; seed++)
        for (int32_t n_blocks = 19; n_blocks < 25; n_blocks++)
            for (int32_t budget = 4; budget < 9; budget++) {
                pair p;
                open_pair(&p, seed, n_blocks, budget, beams);
                p.r.check_every = 0;
                run_pair(&p);
                n_uneven += p.n_uneven;
                n_preempted += p.g[1]->result.n_preempted;
                rig_close(&p.r);
            }
    if (n_preempted < 5 || n_uneven < 5) fail_msg("%d preempted, %d uneven", n_preempted, n_uneven);
}

static void beams_wait(void **state)
{
    (void)state;
    cut(true);
}

static void samples_wait(void **state)
{
    (void)state;
    cut(false);
}

/* Where the budget does for all, samples draw in the very step that computes what they had. */
static void samples_draw_at_once(void **state)
{
    (void)state;
    pair p;
    open_pair(&p, 1, 20, 64, false);
    run_pair(&p);
    assert_true(p.g[1]->result.n_preempted > 0);
    assert_int_equal(p.n_uneven, 0);
    assert_true(p.n_at_once > 0);
    rig_close(&p.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beams_wait),
        cmocka_unit_test(samples_wait),
        cmocka_unit_test(samples_draw_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
