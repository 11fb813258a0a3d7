/* Tensor cores: ldmatrix, movmatrix, mma.m16n8k16, from the fragment tables of the PTX manual.
 *
 *   g = lane / 4, t = lane % 4; two elements to a register, lower index in the low half
 *   8 x 8:      r    = [g][2t, 2t+1]
 *   a, 16 x 16: a[i] = [g + 8 * (i & 1)][2t + 8 * (i >> 1), and the next]
 *   b, 16 x 8:  b[i] = [2t + 8 * i, and the next][g]
 *   c, 16 x 8:  c[i] = [g + 8 * (i >> 1)][2t + (i & 1)] */
#include "simt_formats.h"
#include "simt_state.h"

#include <vector>

namespace simt
{
namespace
{

uint16_t half_of(uint32_t reg, int which)
{
    return (uint16_t)(reg >> (16 * which));
}

/* A lane's register of an 8 x 8 matrix, or of its transpose. */
uint32_t element_pair(const uint16_t matrix[8][8], int lane, bool trans)
{
    const int g = lane / 4, t = lane % 4;
    const uint32_t lo = trans ? matrix[2 * t][g] : matrix[g][2 * t];
    const uint32_t hi = trans ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
    return lo | hi << 16;
}

struct ldmatrix_operand {
    const void *row;
    uint32_t *r;
};

/* variant: 2 * number of matrices + transposed? */
void ldmatrix_all(void *const operand[warp_size], uint32_t, int variant, site)
{
    for (int j = 0; j < variant / 2; j++) {
        uint16_t matrix[8][8];
        for (int i = 0; i < 8; i++)
            memcpy(matrix[i], static_cast<ldmatrix_operand *>(operand[8 * j + i])->row, 16);
        for (int lane = 0; lane < warp_size; lane++)
            static_cast<ldmatrix_operand *>(operand[lane])->r[j] =
                element_pair(matrix, lane, variant % 2);
    }
}

void movmatrix_all(void *const operand[warp_size], uint32_t, int, site)
{
    uint16_t matrix[8][8];
    for (int lane = 0; lane < warp_size; lane++)
        for (int h = 0; h < 2; h++)
            matrix[lane / 4][2 * (lane % 4) + h] =
                half_of(*static_cast<uint32_t *>(operand[lane]), h);
    for (int lane = 0; lane < warp_size; lane++)
        *static_cast<uint32_t *>(operand[lane]) = element_pair(matrix, lane, true);
}

float value_of(uint16_t code, half_type type)
{
    static const std::vector<float> f16 = [] {
        std::vector<float> table(1 << 16);
        for (size_t i = 0; i < table.size(); i++) table[i] = float_of_f16((uint16_t)i);
        return table;
    }();
    return type == half_type::bf16 ? float_of_bf16(code) : f16[code];
}

struct mma_operand {
    float *d;
    const uint32_t *a, *b;
    const float *c;
};

struct mma_matrices {
    float a[16][16], b[16][8], c[16][8];
};

void gather(mma_matrices &x, const mma_operand &from, int lane, half_type type)
{
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        for (int h = 0; h < 2; h++)
            x.a[g + 8 * (i & 1)][2 * t + 8 * (i >> 1) + h] = value_of(half_of(from.a[i], h), type);
        x.c[g + 8 * (i >> 1)][2 * t + (i & 1)] = from.c[i];
    }
    for (int i = 0; i < 2; i++)
        for (int h = 0; h < 2; h++)
            x.b[2 * t + 8 * i + h][g] = value_of(half_of(from.b[i], h), type);
}

void mma_all(void *const operand[warp_size], uint32_t, int type, site)
{
    mma_matrices x;
    for (int lane = 0; lane < warp_size; lane++)
        gather(x, *static_cast<mma_operand *>(operand[lane]), lane, (half_type)type);
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int col = 0; col < 8; col++) x.c[row][col] += x.a[row][k] * x.b[k][col];
    for (int lane = 0; lane < warp_size; lane++)
        for (int i = 0; i < 4; i++)
            static_cast<mma_operand *>(operand[lane])->d[i] =
                x.c[lane / 4 + 8 * (i >> 1)][2 * (lane % 4) + (i & 1)];
    m.totals.products++;
}

} // namespace

void ldmatrix(uint32_t *r, int n, bool trans, const void *row, site at)
{
    ldmatrix_operand mine = { row, r };
    if (m.running->lane() < 8 * n) {
        if (!in_shared(row, 16)) fail(at, "ldmatrix: this lane's row is outside of shared memory");
        check_access(row, 16, access::load, at);
    }
    collective(op::ldmatrix, full_mask, &mine, ldmatrix_all, 2 * n + trans, at);
}

uint32_t movmatrix_trans(uint32_t value, site at)
{
    collective(op::movmatrix, full_mask, &value, movmatrix_all, 0, at);
    return value;
}

void mma16816(float d[4], const uint32_t a[4], const uint32_t b[2], const float c[4],
              half_type type, site at)
{
    mma_operand mine = { d, a, b, c };
    collective(op::mma, full_mask, &mine, mma_all, (int)type, at);
}

} // namespace simt
