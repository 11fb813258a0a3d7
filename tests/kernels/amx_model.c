/* Level amx on machines without it: amx_tile.c compiled against the model of its instructions, and
 * put into backends of level avx512bf16. Linked with --wrap=pkv_backend_create_cpu, so that the
 * cases of check_kernels get such a backend where they ask for level amx. */
#define PKV_AMX_OPS "kernels/amx_model.h"
#define pkv__amx_register_rows amx_model_register_rows
#include "kernels/x86/amx_tile.c"

pkv_status __real_pkv_backend_create_cpu(const pkv_cpu_config *cfg, pkv_backend **out);
pkv_status __wrap_pkv_backend_create_cpu(const pkv_cpu_config *cfg, pkv_backend **out);

pkv_status __wrap_pkv_backend_create_cpu(const pkv_cpu_config *cfg, pkv_backend **out)
{
    pkv_cpu_config below = *cfg;
    if (cfg->max_isa != PKV_ISA_AMX) return __real_pkv_backend_create_cpu(cfg, out);
    below.max_isa = PKV_ISA_AVX512BF16;
    const pkv_status status = __real_pkv_backend_create_cpu(&below, out);
    if (status != PKV_OK) return status;
    amx_model_register_rows(&(*out)->kernels);
    (*out)->isa = PKV_ISA_AMX;
    return PKV_OK;
}
