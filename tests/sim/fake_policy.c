#include "fake_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

fake_setup fake;

typedef struct fake_state {
    const pkv_sim_config *cfg;
    const pkv_sim_request *reqs;
    int64_t n, n_seqs;
    int64_t *held, *away; /* [n] slots in the pool and in the swap space */
    int64_t used, swapped;
    int64_t n_admissions;
    bool sealed;
    pkv__sim_costs costs;
} fake_state;

/* Slots for u tokens of each sequence. */
static int64_t slots_for(const fake_state *f, int32_t u)
{
    const int32_t block = f->cfg->policy.block_tokens;
    return f->n_seqs * pkv__ceil_div_i32(u, block) * block;
}

static void fake_destroy(void *self)
{
    fake_state *f = self;
    const size_t bytes = (size_t)f->n * sizeof(int64_t);
    pkv__free(&f->cfg->alloc, f->held, bytes);
    pkv__free(&f->cfg->alloc, f->away, bytes);
    pkv__free(&f->cfg->alloc, f, sizeof(*f));
}

static pkv_status fake_create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                              void **out)
{
    fake_state *f = pkv__alloc(&cfg->alloc, sizeof(*f), _Alignof(fake_state));
    if (!f) return PKV_E_NO_MEMORY;
    *f = (fake_state){ .cfg = cfg, .reqs = reqs, .n = n };
    f->n_seqs = pkv__sim_n_seqs(&cfg->policy);
    const size_t bytes = (size_t)n * sizeof(int64_t);
    f->held = pkv__alloc(&cfg->alloc, bytes, _Alignof(int64_t));
    f->away = pkv__alloc(&cfg->alloc, bytes, _Alignof(int64_t));
    if (!f->held || !f->away) {
        fake_destroy(f);
        return PKV_E_NO_MEMORY;
    }
    for (int64_t r = 0; r < n; r++) f->held[r] = f->away[r] = 0;
    fake.n_refused = 0;
    *out = f;
    return PKV_OK;
}

static bool fake_fits_empty(const void *self, int64_t r)
{
    const fake_state *f = self;
    return slots_for(f, f->reqs[r].prompt_tokens + f->reqs[r].output_tokens) <= f->cfg->pool_tokens;
}

static int64_t kept_free(const fake_state *f, bool pool_is_empty)
{
    const int64_t keep = (int64_t)f->cfg->pool_tokens * f->cfg->watermark_ppm / 1000000;
    return pool_is_empty ? 0 : keep;
}

static int32_t fake_probe(const void *self, int64_t r, int32_t u)
{
    (void)self;
    (void)r;
    return pkv__min_i32(fake.cached, u - 1);
}

static bool take(fake_state *f, int64_t r, int32_t u, bool pool_is_empty)
{
    const int64_t slots = slots_for(f, u), extra = fake.extra;
    if (f->used + slots + extra > f->cfg->pool_tokens - kept_free(f, pool_is_empty)) return false;
    f->used += slots + extra;
    f->held[r] = slots + extra;
    return true;
}

static pkv_status fake_admit(void *self, int64_t r, int32_t u, bool pool_is_empty, int32_t *cached)
{
    fake_state *f = self;
    if (!take(f, r, u, pool_is_empty)) {
        fake.n_refused++;
        return PKV_E_NO_BLOCKS;
    }
    *cached = fake_probe(self, r, u);
    if (fake.move_every > 0 && ++f->n_admissions % fake.move_every == 0) {
        f->costs.moved_tokens++;
        f->costs.ns += fake.move_ns;
    }
    return PKV_OK;
}

static pkv_status fake_grow(void *self, int64_t r, int32_t u)
{
    fake_state *f = self;
    const int64_t more = slots_for(f, u + 1) - f->held[r];
    if (f->used + more > f->cfg->pool_tokens) return PKV_E_NO_BLOCKS;
    f->used += more;
    f->held[r] += more;
    f->sealed = fake.seals;
    return PKV_OK;
}

static pkv_status fake_release(void *self, int64_t r)
{
    fake_state *f = self;
    f->used -= f->held[r];
    f->held[r] = 0;
    if (f->used == 0) f->sealed = false;
    return PKV_OK;
}

static pkv_status fake_suspend(void *self, int64_t r, int32_t u)
{
    (void)u;
    fake_state *f = self;
    if (f->swapped + f->held[r] > f->cfg->swap_tokens) return PKV_E_NO_BLOCKS;
    f->away[r] = f->held[r];
    f->swapped += f->away[r];
    f->costs.ns += fake.suspend_ns;
    return fake_release(self, r);
}

static pkv_status fake_resume(void *self, int64_t r, int32_t u, bool pool_is_empty, bool *lost,
                              int32_t *cached)
{
    *lost = false;
    *cached = 0;
    fake_state *f = self;
    if (!take(f, r, u, pool_is_empty)) return PKV_E_NO_BLOCKS;
    f->swapped -= f->away[r];
    f->away[r] = 0;
    f->costs.ns += fake.resume_ns;
    return PKV_OK;
}

static int64_t fake_leap_limit(const void *self, int64_t r, int32_t u)
{
    (void)r;
    const int32_t block = ((const fake_state *)self)->cfg->policy.block_tokens;
    return block - u % block;
}

static int64_t fake_need(const void *self, int64_t r, int32_t u)
{
    (void)r;
    const fake_state *f = self;
    return slots_for(f, u) + kept_free(f, false);
}

static int64_t fake_held(const void *self, int64_t r)
{
    return ((const fake_state *)self)->held[r];
}

static bool fake_has_places(const void *self)
{
    (void)self;
    return fake.places;
}

static bool fake_closed(const void *self)
{
    return ((const fake_state *)self)->sealed;
}

static void fake_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample)
{
    const fake_state *f = self;
    sample->part[PKV__PART_LOGICAL] += f->n_seqs * u;
    sample->part[PKV__PART_INTERNAL] += f->held[r] - f->n_seqs * u;
}

static void fake_usage(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free)
{
    const fake_state *f = self;
    *sample = (pkv__sim_sample){ 0 };
    sample->part[PKV__PART_TOKEN] = sample->part[PKV__PART_LOGICAL] = tokens;
    sample->part[PKV__PART_INTERNAL] = f->used - tokens;
    sample->part[PKV__PART_SHARED_UNITS] = sample->part[PKV__PART_USED_UNITS] = f->used;
    *n_free = f->cfg->pool_tokens - f->used;
}

static int64_t fake_largest_free(const void *self)
{
    const fake_state *f = self;
    const int64_t n_free = f->cfg->pool_tokens - f->used;
    return fake.places ? n_free / 2 : n_free;
}

static void fake_take_costs(void *self, pkv__sim_costs *costs)
{
    fake_state *f = self;
    *costs = f->costs;
    f->costs = (pkv__sim_costs){ 0 };
}

static void fake_result(const void *self, pkv_sim_result *out)
{
    (void)self;
    out->n_failed_takes = fake.n_refused;
}

/* The running ones lie one behind the other, in order of admission. */
static bool fake_map(const void *self, const pkv__sim_held *running, int32_t n,
                     pkv__sim_cell *cells, int32_t n_cells)
{
    const fake_state *f = self;
    int64_t at = 0;
    for (int32_t k = 0; k < n; k++) {
        const int64_t tokens = f->n_seqs * running[k].u, end = at + f->held[running[k].r];
        pkv__sim_map_add(cells, n_cells, f->cfg->pool_tokens, at, at + tokens, PKV_SIM_MAP_TOKEN);
        pkv__sim_map_add(cells, n_cells, f->cfg->pool_tokens, at + tokens, end,
                         PKV_SIM_MAP_INTERNAL);
        at = end;
    }
    return true;
}

static pkv_status fake_check(void *self)
{
    const fake_state *f = self;
    int64_t used = 0, swapped = 0;
    for (int64_t r = 0; r < f->n; r++) {
        used += f->held[r];
        swapped += f->away[r];
        if (f->held[r] > 0 && f->away[r] > 0) return PKV_E_CORRUPT;
    }
    return used == f->used && swapped == f->swapped ? PKV_OK : PKV_E_CORRUPT;
}

const pkv__sim_policy_ops fake_policy = {
    .create = fake_create,
    .destroy = fake_destroy,
    .units_per_slot = pkv__sim_unit_is_slot,
    .fits_empty = fake_fits_empty,
    .probe = fake_probe,
    .admit = fake_admit,
    .grow = fake_grow,
    .release = fake_release,
    .suspend = fake_suspend,
    .resume = fake_resume,
    .leap_limit = fake_leap_limit,
    .need = fake_need,
    .held = fake_held,
    .has_places = fake_has_places,
    .closed = fake_closed,
    .usage_of = fake_usage_of,
    .usage = fake_usage,
    .largest_free = fake_largest_free,
    .take_costs = fake_take_costs,
    .result = fake_result,
    .map = fake_map,
    .check = fake_check,
};

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "# %s\n", text);
}

pkv_sim_config fake_config(int32_t pool)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    fake = (fake_setup){ 0 };
    cfg.policy.block_tokens = 1;
    cfg.pool_tokens = cfg.max_model_len = pool;
    cfg.watermark_ppm = 0;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.window = PKV_SIM_WINDOW_ALL;
    cfg.check = true;
    cfg.log.fn = print_log;
    return cfg;
}

pkv_sim_result fake_run(const pkv_sim_config *base, const pkv_sim_request *reqs, int64_t n)
{
    pkv_sim_result res[2];
    for (int k = 0; k < 2; k++) {
        pkv_sim_config cfg = *base;
        cfg.engine = k == 0 ? PKV_SIM_LEAP : PKV_SIM_NAIVE;
        memset(&res[k], 0, sizeof(res[k]));
        res[k].struct_size = sizeof(res[k]);
        assert_int_equal(pkv__sim_check_args(&cfg, reqs, n), PKV_OK);
        assert_int_equal(pkv__sim_run_policy(&cfg, reqs, n, &fake_policy, &res[k]), PKV_OK);
    }
    assert_memory_equal(&res[0], &res[1], sizeof(res[0]));
    return res[0];
}
