/* Codes of KV on their way into the tensor cores, one thing per kernel. */
#include "kernels/cuda/attn_kv_types.cuh"
#include "simt/code_kernels.h"

namespace
{

/* One of the two ways of e4m3. */
template <bool CVT> struct e4m3_by {
    static constexpr int32_t N = 2;
    static PKV_DEV void along(uint32_t (&to)[2], uint32_t from)
    {
        pkv_codes_e4m3::along<CVT>(to, from);
    }
    static PKV_DEV void across(uint32_t (&to)[2], uint32_t from)
    {
        pkv_codes_e4m3::across<CVT>(to, from);
    }
    static PKV_DEV float unit() { return pkv_codes_e4m3::unit<CVT>(); }
};

template <class Codes> PKV_GLOBAL(64) codes_kernel(uint32_t *out, float *unit, const uint32_t *in)
{
    const int32_t i = pkv_block() * 64 + pkv_thread();
    uint32_t along[Codes::N], across[Codes::N];
    Codes::along(along, in[i]);
    Codes::across(across, in[i]);
    for (int32_t j = 0; j < Codes::N; j++) {
        out[8 * i + j] = along[j];
        out[8 * i + Codes::N + j] = across[j];
    }
    if (i == 0) unit[0] = Codes::unit();
}

/* The B operand's register of 16 slots x 8 columns, from its elements. */
template <class T, class F> PKV_DEV uint32_t b_register(F element, int32_t first_slot)
{
    const int32_t slot = first_slot + pkv_lane() % 4 * 2, column = pkv_lane() / 4;
    return pkv_pack2<T>(element(slot, column), element(slot + 1, column));
}

/* K: q is 1 in dim first + column, and a logit is an element of K. */
template <class Kv> PKV_DEV void step_of_k(float *k, const uint8_t *rows, int32_t first)
{
    using T = typename Kv::product;
    const int32_t lane = pkv_lane(), g = lane / 4, t = lane % 4;
    uint32_t r[4], a[Kv::N_FRAGS][4];
    float d[4] = { 0.f, 0.f, 0.f, 0.f };
    pkv_ldm_x4(r, rows + 48 * Kv::k_row(lane) + 16 * Kv::k_chunk(lane));
    Kv::k_frags(a, r);
    for (int32_t frag = 0; frag < Kv::N_FRAGS; frag++) {
        const auto q = [&](int32_t slot, int32_t column) {
            return Kv::k_dim(frag, slot) == first + column ? 1.f : 0.f;
        };
        pkv_mma16816<T>(d, a[frag], b_register<T>(q, 0), b_register<T>(q, 8));
    }
    for (int32_t e = 0; e < 4; e++)
        k[(g + e / 2 * 8) * Kv::STEP_DIMS + first + 2 * t + e % 2] = d[e] * Kv::unit();
}

/* V: p is 1 for token first + column, and an output is an element of V. */
template <class Kv> PKV_DEV void step_of_v(float *v, const uint8_t *rows, int32_t first)
{
    using T = typename Kv::product;
    const int32_t lane = pkv_lane(), g = lane / 4, t = lane % 4;
    uint32_t r[4], a[Kv::N_FRAGS][4];
    pkv_ldm_x4_trans(r, rows + 48 * Kv::v_row(lane) + 16 * Kv::v_chunk(lane));
    Kv::v_frags(a, r);
    const auto p = [&](int32_t slot, int32_t column) { return slot == first + column ? 1.f : 0.f; };
    for (int32_t frag = 0; frag < Kv::N_FRAGS; frag++) {
        float d[4] = { 0.f, 0.f, 0.f, 0.f };
        pkv_mma16816<T>(d, a[frag], b_register<T>(p, 0), b_register<T>(p, 8));
        for (int32_t e = 0; e < 4; e++)
            v[(first + 2 * t + e % 2) * Kv::STEP_DIMS + Kv::v_dim(frag, g + e / 2 * 8)] =
                d[e] * Kv::unit();
    }
}

template <class Kv> PKV_GLOBAL(32) step_kernel(float *k, float *v, const uint8_t *in)
{
    PKV_DEV_SHARED_DYN(uint8_t, rows);
    const int32_t row = pkv_lane() / 2, chunk = pkv_lane() % 2;
    pkv_stv(rows + 48 * row + 16 * chunk, pkv_ldv<uint4>(in + 32 * row + 16 * chunk));
    pkv_syncwarp();
    for (int32_t first = 0; first < Kv::STEP_DIMS; first += 8) step_of_k<Kv>(k, rows, first);
    for (int32_t first = 0; first < 16; first += 8) step_of_v<Kv>(v, rows, first);
}

PKV_GLOBAL(32)
registers_kernel(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *picks)
{
    const int32_t i = pkv_block() * 32 + pkv_thread(), n = pkv_n_blocks() * 32;
    out[i] = pkv_sub_f16x2(a[i], b[i]);
    out[n + i] = pkv_prmt(a[i], b[i], picks[i]);
}

template <class Codes> int run_codes_of(uint32_t *out, float *unit, const uint32_t *in, int n)
{
    return PKV_LAUNCH((codes_kernel<Codes>), n / 64, 64, 0, nullptr, out, unit, in);
}

template <class Kv> int run_step_of(float *k, float *v, const uint8_t *rows)
{
    return PKV_LAUNCH((step_kernel<Kv>), 1, 32, 48 * 16, nullptr, k, v, rows);
}

} // namespace

extern "C" {

int run_codes(int type, uint32_t *out, float *unit, const uint32_t *in, int n)
{
    switch (type) {
    case CODE_E4M3:
        return run_codes_of<pkv_codes_e4m3>(out, unit, in, n);
    case CODE_E4M3_CVT:
        return run_codes_of<e4m3_by<true>>(out, unit, in, n);
    case CODE_E4M3_MOVED:
        return run_codes_of<e4m3_by<false>>(out, unit, in, n);
    case CODE_E5M2:
        return run_codes_of<pkv_codes_e5m2>(out, unit, in, n);
    case CODE_I8:
        return run_codes_of<pkv_codes_i8>(out, unit, in, n);
    default:
        return run_codes_of<pkv_codes_u4>(out, unit, in, n);
    }
}

int run_step(int type, float *k, float *v, const uint8_t *rows)
{
    switch (type) {
    case CODE_F16:
        return run_step_of<pkv_kv_f16>(k, v, rows);
    case CODE_BF16:
        return run_step_of<pkv_kv_bf16>(k, v, rows);
    case CODE_E4M3:
        return run_step_of<pkv_kv_e4m3>(k, v, rows);
    case CODE_E5M2:
        return run_step_of<pkv_kv_e5m2>(k, v, rows);
    case CODE_I8:
        return run_step_of<pkv_kv_int8>(k, v, rows);
    default:
        return run_step_of<pkv_kv_int4>(k, v, rows);
    }
}

int run_registers(uint32_t *out, const uint32_t *a, const uint32_t *b, const uint32_t *picks, int n)
{
    return PKV_LAUNCH(registers_kernel, n / 32, 32, 0, nullptr, out, a, b, picks);
}
}
