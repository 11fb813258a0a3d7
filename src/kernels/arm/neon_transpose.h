/* Four vectors as rows to four as columns, neon level. */
#ifndef PKV_NEON_TRANSPOSE_H
#define PKV_NEON_TRANSPOSE_H

#include "kernels/arm/neon_vec.h"

PKV_TEMPLATE void v_transpose(vec *x)
{
    const float32x4x2_t a = vtrnq_f32(x[0], x[1]), b = vtrnq_f32(x[2], x[3]);
    x[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    x[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    x[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    x[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

#endif
