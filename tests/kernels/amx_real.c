/* The instructions themselves, for test_amx_model: one product of full tiles. */
#include "kernels/x86/amx_ops.h"

void amx_real_dot(float sum[16][16], const void *a, const void *b);
void amx_real_dot(float sum[16][16], const void *a, const void *b)
{
    struct amx_shape shape = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        shape.row_bytes[i] = 64;
        shape.rows[i] = 16;
    }
    amx_config(&shape);
    amx_load(0, sum, 64);
    amx_load(1, a, 64);
    amx_load(2, b, 64);
    amx_dot(0, 1, 2);
    amx_store(0, sum, 64);
    amx_release();
}
