/* pkv_rope_fill against cosine and sine in long double. */
#include "check_kernels.h"
#include "hostile_memory.h"
#include "pagedkv/moves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rope_problem {
    int32_t first, n_pos, rot;
    double inv_freq[128], amplitude;
};

static void draw(struct check *c, struct rope_problem *p)
{
    struct rng *r = &c->rng;
    const double theta = rng_chance(r, 50) ? 1e4 : 5e5;
    p->rot = 2 * rng_int(r, 1, 128);
    p->n_pos = rng_int(r, 0, 40);
    p->first = rng_chance(r, 20) ? INT32_MAX - 40 : rng_chance(r, 50) ? rng_int(r, 0, 1 << 20) : 0;
    p->amplitude = rng_chance(r, 50) ? 1 : rng_chance(r, 50) ? 1.2079441541679836 : -0.3;
    for (int32_t d = 0; d < p->rot / 2; d++)
        p->inv_freq[d] =
            rng_chance(r, 90) ? pow(theta, -2.0 * d / p->rot) : (double)rng_signed(r) * 3;
    snprintf(c->shape, sizeof(c->shape), "%d positions from %d, %d dims, amplitude %g", p->n_pos,
             p->first, p->rot, p->amplitude);
}

/* The angle is one product in double, the result one rounding of its cosine times the amplitude. */
static void judge(struct check *c, const struct rope_problem *p, int32_t i, int32_t at, float got)
{
    const int32_t half = p->rot / 2;
    const long double angle = (long double)(p->first + i) * (long double)p->inv_freq[at % half];
    const long double turn = at < half ? cosl(angle) : sinl(angle);
    const double want = (double)((long double)p->amplitude * turn);
    const double bound = 0x1p-24 * fabs(want) + 0x1p-149 +
                         fabs(p->amplitude) * ((double)fabsl(angle) * 0x1p-53 + 0x1p-51);
    CHECK(c, fabs((double)got - want) <= bound, "position %d, [%d] is %.9g, want %.9g, bound %.3g",
          p->first + i, at, (double)got, want, bound);
}

static void fills(struct check *c)
{
    struct rope_problem p;
    draw(c, &p);
    const size_t bytes = (size_t)(p.n_pos * p.rot) * sizeof(float);
    struct hostile whole = hostile_create(bytes, 0xff), parts = hostile_create(bytes, 0xff);
    float *table = (float *)(void *)whole.data, *halves = (float *)(void *)parts.data;
    CHECK(c, pkv_rope_fill(table, p.first, p.n_pos, p.inv_freq, p.rot, p.amplitude) == PKV_OK,
          "refused");
    for (int32_t i = 0; i < p.n_pos; i++)
        for (int32_t at = 0; at < p.rot; at++) judge(c, &p, i, at, table[i * p.rot + at]);
    /* A table made in two pieces is the same table. */
    const int32_t cut = rng_int(&c->rng, 0, p.n_pos);
    CHECK(c,
          pkv_rope_fill(halves, p.first, cut, p.inv_freq, p.rot, p.amplitude) == PKV_OK &&
              pkv_rope_fill(halves + cut * p.rot, p.first + cut, p.n_pos - cut, p.inv_freq, p.rot,
                            p.amplitude) == PKV_OK,
          "refused in pieces");
    CHECK(c, memcmp(table, halves, bytes) == 0, "other bits in two pieces");
    CHECK(c, hostile_intact(&whole) && hostile_intact(&parts), "something was written in front");
    hostile_destroy(&whole);
    hostile_destroy(&parts);
}

/* Position 0 turns nothing. */
static void origin(struct check *c)
{
    const double inv_freq[2] = { 1, 0.01 };
    float table[5] = { 9, 9, 9, 9, 9 };
    CHECK(c, pkv_rope_fill(table, 0, 1, inv_freq, 4, 1) == PKV_OK, "refused");
    CHECK(c,
          table[0] == 1.f && table[1] == 1.f && table[2] == 0.f && table[3] == 0.f &&
              table[4] == 9.f,
          "%g %g %g %g %g", (double)table[0], (double)table[1], (double)table[2], (double)table[3],
          (double)table[4]);
    const struct {
        float *table;
        int32_t first, n;
        const double *f;
        int32_t rot;
    } wrong[] = {
        { NULL, 0, 1, inv_freq, 4 },    { table, 0, 1, NULL, 4 },
        { table, -1, 1, inv_freq, 4 },  { table, 0, -1, inv_freq, 4 },
        { table, 0, 1, inv_freq, 0 },   { table, 0, 1, inv_freq, 3 },
        { table, 0, 1, inv_freq, 258 }, { table, 0, 1, inv_freq, -2 },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(c,
              pkv_rope_fill(wrong[i].table, wrong[i].first, wrong[i].n, wrong[i].f, wrong[i].rot,
                            1) == PKV_E_INVALID_ARG,
              "wrong arguments %zu were taken", i);
    CHECK(c, table[0] == 1.f && table[3] == 0.f, "a refused call wrote");
}

const struct check_case rope_fill_cases[] = {
    { "rope_fill", "fills", fills, 60, 20, UNTYPED },
    { "rope_fill", "origin", origin, 1, 1, UNTYPED },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
