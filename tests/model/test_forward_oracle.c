/* Small random models against a forward in double precision of its own: contiguous, one token at a
 * time, plain loops, libm. */
#include "common/number_format.h"
#include "forward_rig.h"

#define N_TOKENS 40
#define MAX_WIDTH 1024

static double element(const pkv__matrix *m, int32_t r, int32_t c)
{
    const size_t at = (size_t)r * (size_t)m->k + (size_t)c;
    return m->dtype == PKV_BF16 ? pkv__bf16_to_f32(((const uint16_t *)m->data)[at])
                                : ((const float *)m->data)[at];
}

static void times(const pkv__matrix *m, const double *x, double *y)
{
    for (int32_t r = 0; r < m->n; r++) {
        y[r] = 0;
        for (int32_t c = 0; c < m->k; c++) y[r] += element(m, r, c) * x[c];
    }
}

static void rms(const double *x, const float *w, int32_t n, double eps, double *out)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += x[i] * x[i];
    for (int32_t i = 0; i < n; i++) out[i] = x[i] / sqrt(sum / n + eps) * w[i];
}

/* Pairs (d, d + rot / 2) of the first rot dims. */
static void turn(double *x, int32_t heads, int32_t dim, int32_t rot, double theta, int32_t pos)
{
    for (int32_t h = 0; h < heads; h++)
        for (int32_t d = 0; d < rot / 2; d++) {
            double *a = x + h * dim + d, *b = a + rot / 2;
            const double angle = pos * pow(theta, -2.0 * d / rot), a0 = *a, b0 = *b;
            *a = a0 * cos(angle) - b0 * sin(angle);
            *b = a0 * sin(angle) + b0 * cos(angle);
        }
}

typedef struct oracle {
    const pkv__weights *w;
    double k[MAX_LAYERS][N_TOKENS][MAX_WIDTH], v[MAX_LAYERS][N_TOKENS][MAX_WIDTH];
} oracle;

static void attend(const oracle *o, int32_t layer, int32_t pos, const double *q, double *out)
{
    const pkv__model_config *c = &o->w->config;
    const int32_t dim = c->head_dim;
    for (int32_t h = 0; h < c->n_heads; h++) {
        const int32_t at = h / (c->n_heads / c->n_kv_heads) * dim;
        double z[N_TOKENS], sum = 0;
        for (int32_t j = 0; j <= pos; j++) {
            z[j] = 0;
            for (int32_t d = 0; d < dim; d++) z[j] += q[h * dim + d] * o->k[layer][j][at + d];
            z[j] = exp(z[j] / sqrt(dim));
            sum += z[j];
        }
        for (int32_t d = 0; d < dim; d++) {
            double blend = 0;
            for (int32_t j = 0; j <= pos; j++) blend += z[j] / sum * o->v[layer][j][at + d];
            out[h * dim + d] = blend;
        }
    }
}

static void oracle_token(oracle *o, int32_t token, int32_t pos, double *logits)
{
    const pkv__model_config *c = &o->w->config;
    double x[MAX_WIDTH], h[MAX_WIDTH], q[MAX_WIDTH], a[MAX_WIDTH], b[MAX_WIDTH];
    for (int32_t i = 0; i < c->hidden; i++) x[i] = element(&o->w->embedding, token, i);
    for (int32_t l = 0; l < c->n_layers; l++) {
        const pkv__layer_weights *w = &o->w->layers[l];
        rms(x, w->attn_norm, c->hidden, c->norm_eps, h);
        times(&w->q, h, q);
        times(&w->k, h, o->k[l][pos]);
        times(&w->v, h, o->v[l][pos]);
        turn(q, c->n_heads, c->head_dim, c->rope.rotary_dim, c->rope.theta, pos);
        turn(o->k[l][pos], c->n_kv_heads, c->head_dim, c->rope.rotary_dim, c->rope.theta, pos);
        attend(o, l, pos, q, a);
        times(&w->o, a, h);
        for (int32_t i = 0; i < c->hidden; i++) x[i] += h[i];
        rms(x, w->ffn_norm, c->hidden, c->norm_eps, h);
        times(&w->gate, h, a);
        times(&w->up, h, b);
        for (int32_t i = 0; i < c->ffn; i++) a[i] = a[i] / (1 + exp(-a[i])) * b[i];
        times(&w->down, a, h);
        for (int32_t i = 0; i < c->hidden; i++) x[i] += h[i];
    }
    rms(x, o->w->out_norm, c->hidden, c->norm_eps, h);
    times(&o->w->head, h, logits);
}

/* Every logit within `share` of the range of all of them. */
static void compare(const char *what, const float *got, const double *want, int64_t n, double share)
{
    double low = want[0], high = want[0], worst = 0;
    for (int64_t i = 0; i < n; i++) {
        low = fmin(low, want[i]);
        high = fmax(high, want[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        const double off = fabs(got[i] - want[i]) / (high - low);
        if (!(off <= share))
            fail_msg("%s: logit %lld is %g of the range off", what, (long long)i, off);
        worst = fmax(worst, off);
    }
    assert_true(high - low > 1); /* flat logits would prove nothing */
    fprintf(stderr, "# %s: %.2g of the range\n", what, worst);
}

static void check(const pkv__weights *w, const pkv__weights *exact, pkv_isa isa, const char *what,
                  double share)
{
    static oracle o;
    static double want[N_TOKENS * 128];
    static float got[N_TOKENS * 128];
    int32_t tokens[N_TOKENS];
    rig r;
    o.w = exact;
    draw_tokens(2, w->config.vocab, tokens, N_TOKENS);
    for (int32_t i = 0; i < N_TOKENS; i++)
        oracle_token(&o, tokens[i], i, want + i * w->config.vocab);
    rig_make(&r, w, &(rig_options){ isa, 1, 7, PKV_F32, 2, false }, N_TOKENS);
    rig_run(&r, tokens, N_TOKENS, 23, got);
    compare(what, got, want, (int64_t)N_TOKENS * w->config.vocab, share);
    rig_drop(&r);
}

static void head_ratios(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = { { 8, 4, 8 },  { 28, 4, 8 }, { 9, 3, 16 },
                                         { 48, 2, 8 }, { 8, 1, 32 }, { 4, 4, 8 } };
    const uint64_t seed = first_seed();
    pkv_isa levels[8];
    const int32_t n = rig_levels(levels);
    for (size_t k = 0; k < PKV_ARRAY_LEN(shapes); k++)
        for (int32_t l = 0; l < n; l++) {
            char what[64];
            const pkv__model_config c = small_config(shapes[k][0], shapes[k][1], shapes[k][2]);
            pkv__weights w = small_weights(&c, seed, PKV_F32);
            snprintf(what, sizeof(what), "heads %d/%d, %s", shapes[k][0], shapes[k][1],
                     pkv_isa_name(levels[l]));
            check(&w, &w, levels[l], what, 1e-4);
            pkv__weights_free(&w);
        }
}

static void part_of_the_dims_turns(void **state)
{
    (void)state;
    pkv__model_config c = small_config(4, 2, 16);
    c.rope.rotary_dim = 8;
    c.tied_head = true;
    pkv__weights w = small_weights(&c, 3, PKV_F32);
    assert_ptr_equal(w.head.data, w.embedding.data);
    check(&w, &w, PKV_ISA_SCALAR, "half of the dims", 1e-4);
    pkv__weights_free(&w);
}

/* Exact for the rounded weights, and not far from the weights that were rounded. */
static void bf16_weights(void **state)
{
    (void)state;
    const pkv__model_config c = small_config(8, 4, 16);
    pkv__weights rounded = small_weights(&c, 3, PKV_BF16), full = small_weights(&c, 3, PKV_F32);
    assert_int_equal(rounded.embedding.dtype, PKV_BF16);
    check(&rounded, &rounded, PKV_ISA_BEST, "bf16 weights", 1e-4);
    check(&rounded, &full, PKV_ISA_BEST, "bf16 against f32 weights", 2e-2);
    pkv__weights_free(&rounded);
    pkv__weights_free(&full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_ratios),
        cmocka_unit_test(part_of_the_dims_turns),
        cmocka_unit_test(bf16_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
