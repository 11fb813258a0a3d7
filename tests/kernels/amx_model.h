/* The tile instructions of AMX in plain C, bit for bit, under the names of kernels/x86/amx_ops.h,
 * so that amx_tile.c can be compiled against it (-DPKV_AMX_OPS) and run where there is no AMX.
 *
 * From the descriptions of LDTILECFG, TILEZERO, TILELOADD, TILESTORED and TDPBF16PS in Intel's
 * Instruction Set Extensions Programming Reference (319433), chapter on AMX:
 *   - a load fills the rows and bytes that the tile's shape has and clears the rest of the tile
 *   - TDPBF16PS, per row m of the sum: two float32 sums per column n start at 0, one over the even
 *     and one over the odd numbers; element k = 0, 1, ... adds a[m][2k] b[k][2n] to the first and
 *     a[m][2k + 1] b[k][2n + 1] to the second, each by one fused multiply-add; at the end
 *     sum[m][n] += first + second, the bracket rounded by itself
 *   - everything rounds to nearest even; subnormals are taken as 0 and given as 0 (of equal sign)
 * Included by one .c file; its state is that of the thread. */
#ifndef PKV_AMX_MODEL_H
#define PKV_AMX_MODEL_H

#undef NDEBUG /* the asserts are what the model is for */
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct amx_shape {
    unsigned char palette, start_row, reserved[14];
    unsigned short row_bytes[16];
    unsigned char rows[16];
};

struct amx_tile {
    float row[16][16]; /* or pairs of bf16 */
};

static _Thread_local struct amx_shape amx_now; /* palette 0: no tiles */
static _Thread_local struct amx_tile amx_tiles[8];

static inline void amx_config(const struct amx_shape *shape)
{
    assert(shape->palette == 1 && shape->start_row == 0);
    for (int i = 0; i < 8; i++) assert(shape->rows[i] <= 16 && shape->row_bytes[i] <= 64);
    amx_now = *shape;
    memset(amx_tiles, 0, sizeof(amx_tiles));
}

static inline void amx_release(void)
{
    memset(&amx_now, 0, sizeof(amx_now));
    memset(amx_tiles, 0xff, sizeof(amx_tiles)); /* to be seen, should somebody use them still */
}

static inline void amx_zero(int tile)
{
    assert(amx_now.palette == 1 && amx_now.rows[tile] > 0);
    memset(&amx_tiles[tile], 0, sizeof(amx_tiles[tile]));
}

static inline void amx_load(int tile, const void *base, size_t stride)
{
    amx_zero(tile);
    for (size_t r = 0; r < amx_now.rows[tile]; r++)
        memcpy(amx_tiles[tile].row[r], (const char *)base + r * stride, amx_now.row_bytes[tile]);
}

static inline void amx_store(int tile, void *base, size_t stride)
{
    assert(amx_now.palette == 1 && amx_now.rows[tile] > 0);
    for (size_t r = 0; r < amx_now.rows[tile]; r++)
        memcpy((char *)base + r * stride, amx_tiles[tile].row[r], amx_now.row_bytes[tile]);
}

/* Subnormals to 0. */
static inline float amx_flush(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    if ((u & 0x7f800000u) == 0) u &= 0x80000000u;
    memcpy(&x, &u, sizeof(x));
    return x;
}

/* x * y + sum. Whether a result is subnormal is decided on the value rounded to 24 bits without
 * regard to the range: just below 2^-126 it may be, although fmaf rounds it up to 2^-126. */
static inline float amx_fma(float x, float y, float sum)
{
    x = amx_flush(x);
    y = amx_flush(y);
    sum = amx_flush(sum);
    const float r = fmaf(x, y, sum);
    if (fabsf(r) == 0x1p-126f &&
        fabs(fma((double)x, (double)y, (double)sum)) < 0x1p-126 * (1 - 0x1p-25))
        return copysignf(0.f, r);
    return amx_flush(r);
}

/* Half h (0: the even number) of a pair, as a float. */
static inline float amx_half(float pair, int h)
{
    uint32_t u;
    float x;
    memcpy(&u, &pair, sizeof(u));
    u = h == 0 ? u << 16 : u & 0xffff0000u;
    memcpy(&x, &u, sizeof(x));
    return x;
}

static inline void amx_dot(int sum, int a, int b)
{
    const int n_k = amx_now.row_bytes[a] / 4, n_n = amx_now.row_bytes[sum] / 4;
    assert(amx_now.palette == 1 && sum != a && sum != b && a != b);
    assert(amx_now.rows[a] == amx_now.rows[sum] && amx_now.rows[b] == n_k);
    assert(amx_now.row_bytes[b] == amx_now.row_bytes[sum]);
    for (int m = 0; m < amx_now.rows[sum]; m++) {
        float part[2][16] = { { 0 } };
        float *to = amx_tiles[sum].row[m];
        for (int k = 0; k < n_k; k++)
            for (int h = 0; h < 2; h++) {
                const float x = amx_half(amx_tiles[a].row[m][k], h);
                for (int n = 0; n < n_n; n++)
                    part[h][n] = amx_fma(x, amx_half(amx_tiles[b].row[k][n], h), part[h][n]);
            }
        for (int n = 0; n < n_n; n++)
            to[n] = amx_fma(1.f, to[n], amx_fma(1.f, part[0][n], part[1][n]));
    }
}

#endif
