/* Elements of any tensor type as floats. Files give no alignment, so all bytes are copied before
 * they are looked at. Block types after the descriptions in the GGUF specification
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) and the K-quant pull request
 * (ggml-org/llama.cpp#1684):
 *
 *   Q8_0  32 weights: f16 d, int8 q[32]                            w = d * q
 *   Q4_0  32: f16 d, 16 bytes; weight k in the low, k + 16 in the high half of byte k
 *                                                                  w = d * (q - 8)
 *   Q4_1  32: f16 d, f16 m, bytes as Q4_0                          w = d * q + m
 *   Q6_K  256: low 4 bits[128], high 2 bits[64], int8 scale[16], f16 d
 *                                                                  w = d * scale * (q - 32) */
#include "common/number_format.h"
#include "model/tensor_file.h"

#define SMALL_BLOCK 32
#define LARGE_BLOCK 256

static float load_f16(const uint8_t *at)
{
    uint16_t h;
    memcpy(&h, at, sizeof(h));
    return pkv__f16_to_f32(h);
}

static void floats_of_f32(const uint8_t *at, float *out)
{
    memcpy(out, at, sizeof(*out));
}

static void floats_of_f16(const uint8_t *at, float *out)
{
    *out = load_f16(at);
}

static void floats_of_bf16(const uint8_t *at, float *out)
{
    uint16_t h;
    memcpy(&h, at, sizeof(h));
    *out = pkv__bf16_to_f32(h);
}

static void floats_of_q8_0(const uint8_t *at, float *out)
{
    const float d = load_f16(at);
    for (int k = 0; k < SMALL_BLOCK; k++) out[k] = d * (float)(int8_t)at[2 + k];
}

static void floats_of_q4_0(const uint8_t *at, float *out)
{
    const float d = load_f16(at);
    for (int k = 0; k < SMALL_BLOCK / 2; k++) {
        out[k] = d * (float)((at[2 + k] & 15) - 8);
        out[k + SMALL_BLOCK / 2] = d * (float)((at[2 + k] >> 4) - 8);
    }
}

static void floats_of_q4_1(const uint8_t *at, float *out)
{
    const float d = load_f16(at), m = load_f16(at + 2);
    for (int k = 0; k < SMALL_BLOCK / 2; k++) {
        out[k] = d * (float)(at[4 + k] & 15) + m;
        out[k + SMALL_BLOCK / 2] = d * (float)(at[4 + k] >> 4) + m;
    }
}

/* Two halves of 128 weights; in each, weight l + 32 * j takes its low bits from byte l (j even) or
 * l + 32 (j odd), from the low half for j < 2 and the high one else, and bits 2j, 2j + 1 of high
 * byte l; 16 weights share a scale. */
static void floats_of_q6_k(const uint8_t *at, float *out)
{
    const float d = load_f16(at + 208);
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = at + 64 * half, *high = at + 128 + 32 * half;
        const uint8_t *scales = at + 192 + 8 * half;
        for (int j = 0; j < 4; j++) {
            for (int l = 0; l < 32; l++) {
                const int bits = low[l + 32 * (j % 2)] >> (j < 2 ? 0 : 4) & 15;
                const int q = (bits | (high[l] >> (2 * j) & 3) << 4) - 32;
                const float scale = d * (float)(int8_t)scales[2 * j + l / 16];
                out[128 * half + 32 * j + l] = scale * (float)q;
            }
        }
    }
}

static const struct {
    int32_t elements, bytes; /* of a block */
    void (*to_floats)(const uint8_t *at, float *out);
} types[] = {
    [PKV__T_F32] = { 1, 4, floats_of_f32 },
    [PKV__T_F16] = { 1, 2, floats_of_f16 },
    [PKV__T_BF16] = { 1, 2, floats_of_bf16 },
    [PKV__T_Q8_0] = { SMALL_BLOCK, 34, floats_of_q8_0 },
    [PKV__T_Q4_0] = { SMALL_BLOCK, 18, floats_of_q4_0 },
    [PKV__T_Q4_1] = { SMALL_BLOCK, 20, floats_of_q4_1 },
    [PKV__T_Q6_K] = { LARGE_BLOCK, 210, floats_of_q6_k },
    [PKV__T_I32] = { 1, 4, NULL },
    [PKV__T_OTHER] = { 1, 1, NULL },
};

int32_t pkv__tensor_block(pkv__tensor_type type, int32_t *bytes)
{
    *bytes = types[type].bytes;
    return types[type].elements;
}

pkv_status pkv__tensor_floats(const pkv__tensor *t, int64_t first, int64_t n, float *out)
{
    if (!types[t->type].to_floats) return PKV_E_UNSUPPORTED;
    const int64_t block = types[t->type].elements, bytes = types[t->type].bytes;
    const int64_t n_blocks = (int64_t)t->bytes / bytes;
    if (first < 0 || n < 0 || first % block != 0 || n % block != 0) return PKV_E_RANGE;
    if (first / block > n_blocks || n / block > n_blocks - first / block) return PKV_E_RANGE;
    const uint8_t *at = t->data + first / block * bytes;
    for (int64_t k = 0; k < n; k += block, at += bytes) types[t->type].to_floats(at, out + k);
    return PKV_OK;
}
