/* Latent attention: one tile of keys, from products to the running state.
 *
 *   mla_logits      S, masked, by a warp for 16 queries and 16 keys; maxima to the other half
 *   (meet)
 *   mla_weights     the new maximum, p, P to shared memory
 *   (meet)
 *   mla_values      O += P V, by a warp for all queries and its columns */
#ifndef PKV_ATTN_MLA_TILE_CUH
#define PKV_ATTN_MLA_TILE_CUH

#include "kernels/cuda/attn_mla_load.cuh"

/* Of two queries of a lane: the running maximum, as both warps of a query have it, and the sum of p
 * over the lane's keys. */
struct mla_running {
    float max[2], sum[2];
};

/* Logits of a lane: keys 8 n + 2t, + 1 of the warp's half; [0], [1] of query g, [2], [3] of g + 8.
 * `finite`: of which keys one was a number, before it was masked. */
struct mla_logit {
    float z[2][4];
    uint32_t finite;
};

PKV_DEV int32_t mla_half_of_keys()
{
    return pkv_warp() / MLA_M_TILES;
}
PKV_DEV int32_t mla_m_tile()
{
    return pkv_warp() % MLA_M_TILES;
}
/* Key of the tile. */
PKV_DEV int32_t mla_key(int32_t lane, int32_t n, int32_t i)
{
    return 16 * mla_half_of_keys() + 8 * n + 2 * (lane % 4) + i % 2;
}

/* ---------------------------------------------------------------- S */
/* acc += Q K^T over steps [lo, hi) of 16 columns. Two sums take turns, so that a product does not
 * wait for the one before. */
template <class T, int PITCH>
PKV_DEV void mla_products(float (&acc)[2][4], const unsigned char *q, const unsigned char *k,
                          int32_t lo, int32_t hi)
{
    const int32_t lane = mla_fresh_lane();
    const int32_t q_at = mla_lane_at(16 * mla_m_tile() + lane % 16, PITCH, lane / 16);
    const int32_t k_at =
        mla_lane_at(16 * mla_half_of_keys() + lane / 16 * 8 + lane % 8, PITCH, lane / 8 % 2);
    float odd[2][4] = {};
    for (int32_t step = lo; step < hi; step += 2) {
        uint32_t a[4], b[4];
        pkv_ldm_x4(a, q + mla_step_at(q_at, step));
        pkv_ldm_x4(b, k + mla_step_at(k_at, step));
        pkv_mma16816<T>(acc[0], a, b[0], b[1]);
        pkv_mma16816<T>(acc[1], a, b[2], b[3]);
        if (step + 1 == hi) break;
        pkv_ldm_x4(a, q + mla_step_at(q_at, step + 1));
        pkv_ldm_x4(b, k + mla_step_at(k_at, step + 1));
        pkv_mma16816<T>(odd[0], a, b[0], b[1]);
        pkv_mma16816<T>(odd[1], a, b[2], b[3]);
    }
    PKV_UNROLL
    for (int32_t n = 0; n < 2; n++)
        for (int32_t i = 0; i < 4; i++) acc[n][i] += odd[n][i];
}

/* <q_latent, c_j> with the scales of c_j: a part's multiplies its own sum. */
template <class Store>
PKV_DEV void mla_latent_products(const struct pkv__cuda_mla &c, const mla_shared *s,
                                 const unsigned char *k, float (&sum)[2][4])
{
    using T = typename Store::product;
    if constexpr (!Store::IS_CODES) {
        mla_products<T, MLA_LATENT_BYTES>(sum, s->q_latent, k, 0, c.n_columns / 16);
    } else {
        const int32_t steps = c.part_pitch / 16;
        for (int32_t part = 0; part < c.attn.k.n_heads; part++) {
            const int32_t lane = mla_fresh_lane();
            float acc[2][4] = {};
            mla_products<T, MLA_LATENT_BYTES>(acc, s->q_latent, k, part * steps,
                                              (part + 1) * steps);
            PKV_UNROLL
            for (int32_t n = 0; n < 2; n++)
                for (int32_t i = 0; i < 4; i++)
                    sum[n][i] = fmaf(acc[n][i], s->scale[part][mla_key(lane, n, i)], sum[n][i]);
        }
    }
}

/* What comes between a product and its weight. */
PKV_DEV float mla_adjust(const struct pkv__cuda_mla &c, const mla_shared *s, float z, int32_t query,
                         int32_t key)
{
    const mla_item &item = s->item;
    const pkv_attn_opts &o = c.attn.opts;
    if (o.softcap > 0) z = pkv__capped(z, o.softcap, c.attn.cap_unit);
    if (o.alibi && query < item.n_queries && key < item.kv_len) {
        const int32_t at = item.first_query + query, row = pkv__quotient(at, c.by_heads);
        const float slope = pkv_ldv_const<float>(o.alibi + (at - row * c.attn.q.n_heads));
        z += slope * (float)pkv__sight_ahead(s->sight, row, key);
    }
    return z;
}

template <class Store>
PKV_DEV void mla_logits(const struct pkv__cuda_mla &c, mla_shared *s, int32_t tile, int32_t stage,
                        int32_t buffer, mla_logit *out)
{
    const int32_t lane = mla_fresh_lane();
    const bool adjusted = c.attn.opts.softcap > 0 || c.attn.opts.alibi;
    float latent[2][4] = {}, rope[2][4] = {};
    mla_latent_products<Store>(c, s, mla_latent_tile<Store>(s, stage), latent);
    if (c.attn.v.dtype == PKV_BF16)
        mla_products<__nv_bfloat16, MLA_ROPE_BYTES>(rope, s->q_rope, s->rope[stage], 0,
                                                    c.rope_columns / 16);
    else
        mla_products<__half, MLA_ROPE_BYTES>(rope, s->q_rope, s->rope[stage], 0,
                                             c.rope_columns / 16);
    bool all_finite = true;
    out->finite = 0;
    PKV_UNROLL
    for (int32_t side = 0; side < 2; side++) {
        const int32_t query = mla_query(lane, mla_m_tile(), side);
        const float f = s->latent_factor[query], r = s->rope_factor[query];
        const uint32_t seen = s->seen[buffer][query];
        float largest = PKV_NEG_INF;
        PKV_UNROLL
        for (int32_t n = 0; n < 2; n++)
            for (int32_t i = 2 * side; i < 2 * side + 2; i++) {
                const int32_t key = mla_key(lane, n, i);
                float z = latent[n][i] * f + rope[n][i] * r;
                const bool is_finite = fabsf(z) < -PKV_NEG_INF;
                all_finite = all_finite && is_finite;
                out->finite |= (uint32_t)is_finite << key;
                if (adjusted) z = mla_adjust(c, s, z, query, tile * MLA_KEYS + key);
                out->z[n][i] = seen >> key & 1u ? z : PKV_NEG_INF;
                largest = fmaxf(largest, out->z[n][i]);
            }
        largest = fmaxf(largest, pkv_shfl_xor(largest, 1));
        largest = fmaxf(largest, pkv_shfl_xor(largest, 2));
        if (lane % 4 == 0) s->max[mla_half_of_keys()][query] = largest;
    }
    if (!all_finite) pkv_atomic_or(&s->odd[buffer], 1u);
}

/* ---------------------------------------------------------------- P */
/* P of a query and the lane's four keys; of a part, where a scale belongs to it. Beside the largest
 * p * scale of its query and 16 keys a weight may vanish, beside a large scale alone it may not. */
PKV_DEV void mla_put_scaled(mla_shared *s, int32_t lane, int32_t part, int32_t query,
                            const float (&p)[2][2])
{
    float x[2][2], largest = 0;
    PKV_UNROLL
    for (int32_t n = 0; n < 2; n++)
        for (int32_t i = 0; i < 2; i++) {
            /* Of a key without weight the scale may be NaN. */
            x[n][i] = p[n][i] == 0 ? 0.f : p[n][i] * s->scale[part][mla_key(lane, n, i)];
            largest = fmaxf(largest, fabsf(x[n][i]));
        }
    largest = fmaxf(largest, pkv_shfl_xor(largest, 1));
    largest = fmaxf(largest, pkv_shfl_xor(largest, 2));
    const float up = pkv__scale_unit(largest), down = pkv__unit_inverse(up);
    PKV_UNROLL
    for (int32_t n = 0; n < 2; n++)
        pkv_stv(s->p + part * MLA_P_COPY + query * MLA_P_BYTES + 2 * mla_key(lane, n, 0),
                pkv_pack2<__half>(x[n][0] * down * mla_codes::P_UNIT,
                                  x[n][1] * down * mla_codes::P_UNIT));
    if (lane % 4 == 0) s->p_unit[part][mla_half_of_keys()][query] = up * (1.f / mla_codes::P_UNIT);
}
template <class Store>
PKV_DEV void mla_put_p(const struct pkv__cuda_mla &c, mla_shared *s, int32_t lane, int32_t query,
                       const float (&p)[2][2])
{
    if constexpr (Store::IS_CODES) {
        for (int32_t part = 0; part < c.n_p_copies; part++) mla_put_scaled(s, lane, part, query, p);
    } else {
        PKV_UNROLL
        for (int32_t n = 0; n < 2; n++)
            pkv_stv(s->p + query * MLA_P_BYTES + 2 * mla_key(lane, n, 0),
                    pkv_pack2<typename Store::product>(p[n][0] * Store::P_UNIT,
                                                       p[n][1] * Store::P_UNIT));
    }
}

template <class Store>
PKV_DEV void mla_weights(const struct pkv__cuda_mla &c, mla_shared *s, const mla_logit &logit,
                         mla_running *run)
{
    const int32_t lane = mla_fresh_lane();
    PKV_UNROLL
    for (int32_t side = 0; side < 2; side++) {
        const int32_t query = mla_query(lane, mla_m_tile(), side);
        const float before = run->max[side];
        const float now = fmaxf(before, fmaxf(s->max[0][query], s->max[1][query]));
        const float from = now == PKV_NEG_INF ? 0.f : now; /* nothing seen: all p are 0 */
        const float factor = now == before ? 1.f : pkv__weight(before - from, 0);
        float p[2][2], sum = 0;
        PKV_UNROLL
        for (int32_t n = 0; n < 2; n++)
            for (int32_t i = 0; i < 2; i++) {
                p[n][i] = pkv__weight(logit.z[n][2 * side + i] - from, 0);
                sum += p[n][i];
            }
        mla_put_p<Store>(c, s, lane, query, p);
        run->max[side] = now;
        run->sum[side] = run->sum[side] * factor + sum;
        if (mla_half_of_keys() == 0 && lane % 4 == 0) s->factor[query] = factor;
    }
}

/* ---------------------------------------------------------------- O */
/* A warp's share of O: 16-query tile, 8-column tile, fragment of mma. */
typedef float mla_out[MLA_M_TILES][2 * MLA_GROUPS][4];

/* How many groups of 16 columns the warp has; the first one is MLA_GROUPS times the warp. */
PKV_DEV int32_t mla_groups(const struct pkv__cuda_mla &c)
{
    const int32_t left = c.n_columns / 16 - MLA_GROUPS * pkv_warp();
    return left < 0 ? 0 : left < MLA_GROUPS ? left : MLA_GROUPS;
}

PKV_DEV void mla_rescale(const mla_shared *s, mla_out &o)
{
    const int32_t lane = mla_fresh_lane();
    float f[MLA_M_TILES][2];
    bool moved = false;
    PKV_UNROLL
    for (int32_t m = 0; m < MLA_M_TILES; m++)
        for (int32_t i = 0; i < 2; i++) {
            f[m][i] = s->factor[mla_query(lane, m, i)];
            moved = moved || f[m][i] != 1;
        }
    if (!pkv_any(moved)) return;
    PKV_UNROLL
    for (int32_t m = 0; m < MLA_M_TILES; m++)
        for (int32_t n = 0; n < 2 * MLA_GROUPS; n++)
            for (int32_t i = 0; i < 4; i++) o[m][n][i] *= f[m][i / 2];
}

/* P of 16 queries and 16 keys. */
PKV_DEV void mla_p_fragment(uint32_t (&a)[4], const unsigned char *p, int32_t lane, int32_t m,
                            int32_t side)
{
    pkv_ldm_x4(a, p + (16 * m + lane % 16) * MLA_P_BYTES + 32 * side + lane / 16 * 16);
}
/* V of 16 keys and the warp's j-th 16 columns: of the first 8 in v[0], v[1]. */
PKV_DEV void mla_v_fragment(uint32_t (&v)[4], const unsigned char *tile, int32_t lane, int32_t j,
                            int32_t side)
{
    const int32_t at = mla_lane_at(lane % 16, MLA_LATENT_BYTES, lane / 16);
    pkv_ldm_x4_trans(v, tile + 16 * MLA_LATENT_BYTES * side +
                            mla_step_at(at, MLA_GROUPS * pkv_warp() + j));
}

/* Of codes the unit of P changes from tile to tile, by any power of two: each time a fresh sum. */
PKV_DEV void mla_add_scaled(const mla_shared *s, int32_t lane, int32_t m, int32_t side,
                            const uint32_t (&v)[MLA_GROUPS][4], float (&o)[2 * MLA_GROUPS][4])
{
    PKV_UNROLL
    for (int32_t j = 0; j < MLA_GROUPS; j++) {
        const int32_t part = s->p_copy[MLA_GROUPS * pkv_warp() + j];
        const float *units = s->p_unit[part][side];
        const float unit[2] = { units[mla_query(lane, m, 0)], units[mla_query(lane, m, 1)] };
        float acc[2][4] = {};
        uint32_t p[4];
        mla_p_fragment(p, s->p + part * MLA_P_COPY, lane, m, side);
        pkv_mma16816<__half>(acc[0], p, v[j][0], v[j][1]);
        pkv_mma16816<__half>(acc[1], p, v[j][2], v[j][3]);
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            o[2 * j][i] = fmaf(acc[0][i], unit[i / 2], o[2 * j][i]);
            o[2 * j + 1][i] = fmaf(acc[1][i], unit[i / 2], o[2 * j + 1][i]);
        }
    }
}

/* ---------------------------------------------------------------- what is not finite */
/* What an element adds to rows that see it: nothing, or itself. */
template <class Store> PKV_DEV float mla_special_of(uint32_t bits, float sign)
{
    using Kv = pkv_kv_of<typename Store::product>;
    return pkv__is_special<Kv>(bits) ? Kv::value(bits) * sign : 0;
}

/* NaN and infinities of the tile join O of those queries that see their key, whatever their weight
 * is, and become zeros: the weight of all others is 0, and 0 times that would be NaN. Such an
 * element makes that key's product of every query odd, so that only keys without one that is finite
 * are looked at. A warp's own columns. Rare. */
template <class Store>
PKV_DEV void mla_add_specials(const struct pkv__cuda_mla &c, mla_shared *s, int32_t stage,
                              int32_t buffer, mla_out &o)
{
    const int32_t lane = mla_fresh_lane();
    unsigned char *tile = mla_latent_tile<Store>(s, stage);
    uint32_t keys = (s->any[buffer][0] | s->any[buffer][1]) & ~s->finite[buffer];
    for (int32_t key = 0; keys != 0; key++, keys >>= 1) {
        if (!(keys & 1u)) continue;
        PKV_UNROLL
        for (int32_t n = 0; n < 2 * MLA_GROUPS; n++) {
            const int32_t chunk = 2 * MLA_GROUPS * pkv_warp() + n;
            if (8 * chunk >= c.n_columns) continue;
            unsigned char *at = tile + mla_at(key, MLA_LATENT_BYTES, chunk) + 4 * (lane % 4);
            const uint32_t bits = pkv_ldv<uint32_t>(at);
            float sign = 1;
            if constexpr (Store::IS_CODES) {
                /* 0 and NaN make a NaN of it. */
                const float scale = s->scale[pkv__quotient(8 * chunk, c.by_part_pitch)][key];
                sign = scale > 0 ? 1.f : scale < 0 ? -1.f : 0.f;
            }
            const float lo = mla_special_of<Store>(bits, sign);
            const float hi = mla_special_of<Store>(bits >> 16, sign);
            if (!pkv_any(!(lo == 0 && hi == 0))) continue;
            PKV_UNROLL
            for (int32_t m = 0; m < MLA_M_TILES; m++)
                for (int32_t i = 0; i < 4; i++)
                    if (s->seen[buffer][mla_query(lane, m, i / 2)] >> key & 1u)
                        o[m][n][i] += i % 2 ? hi : lo;
            pkv_syncwarp();
            if (lane < 4)
                pkv_stv(at, (lo == 0 ? bits & 0xffffu : 0u) | (hi == 0 ? bits & ~0xffffu : 0u));
        }
    }
    pkv_syncwarp();
}

/* O += P V. Tiles of queries and groups of columns that are not there are passed over in a few
 * places only: O in registers does not bear more branches. */
template <class Store>
PKV_DEV void mla_values(const mla_shared *s, int32_t m_tiles, int32_t stage, int32_t n_groups,
                        mla_out &o)
{
    using T = typename Store::product;
    const unsigned char *tile = mla_latent_tile<Store>(s, stage);
    const int32_t lane = mla_fresh_lane();
    PKV_UNROLL
    for (int32_t side = 0; side < 2; side++) {
        uint32_t v[MLA_GROUPS][4] = {};
        PKV_UNROLL
        for (int32_t j = 0; j < MLA_GROUPS; j++)
            if (j < n_groups) mla_v_fragment(v[j], tile, lane, j, side);
        PKV_UNROLL
        for (int32_t m = 0; m < MLA_M_TILES; m++)
            if (m < m_tiles) {
                if constexpr (Store::IS_CODES) {
                    mla_add_scaled(s, lane, m, side, v, o[m]);
                } else {
                    uint32_t p[4];
                    mla_p_fragment(p, s->p, lane, m, side);
                    PKV_UNROLL
                    for (int32_t j = 0; j < MLA_GROUPS; j++) {
                        pkv_mma16816<T>(o[m][2 * j], p, v[j][0], v[j][1]);
                        pkv_mma16816<T>(o[m][2 * j + 1], p, v[j][2], v[j][3]);
                    }
                }
            }
    }
}

#endif
