/* Rotary tables (RoFormer, arXiv 2104.09864). Made once on the host in double: at position 10^6 a
 * float32 angle would be wrong by 0.03. */
#include "common/common.h"
#include "pagedkv/moves.h"

#include <math.h>

pkv_status pkv_rope_fill(float *table, int32_t first_pos, int32_t n_pos, const double *inv_freq,
                         int32_t rot_dim, double amplitude)
{
    const int32_t half = rot_dim / 2;
    if (first_pos < 0 || n_pos < 0 || rot_dim < 2 || rot_dim > 256 || rot_dim % 2 != 0 ||
        !inv_freq || (n_pos > 0 && !table))
        return PKV_E_INVALID_ARG;
    for (int32_t i = 0; i < n_pos; i++) {
        float *row = table + (size_t)i * (size_t)rot_dim;
        for (int32_t d = 0; d < half; d++) {
            const double angle = ((double)first_pos + i) * inv_freq[d];
            row[d] = (float)(amplitude * cos(angle));
            row[half + d] = (float)(amplitude * sin(angle));
        }
    }
    return PKV_OK;
}
