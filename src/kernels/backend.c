/* Backends: made once, read-only afterwards. */
#include "common/cpu_detect.h"
#include "kernels/kernels_internal.h"

#include <string.h>

static const char *const isa_names[] = { [PKV_ISA_BEST] = "best",
                                         [PKV_ISA_SCALAR] = "scalar",
                                         [PKV_ISA_AVX2] = "avx2",
                                         [PKV_ISA_AVX512] = "avx512" };

const char *pkv_isa_name(pkv_isa isa)
{
    return (unsigned)isa < PKV_ARRAY_LEN(isa_names) ? isa_names[isa] : "?";
}

pkv_status pkv_isa_from_name(const char *name, pkv_isa *out)
{
    if (!name || !out) return PKV_E_INVALID_ARG;
    for (size_t i = 0; i < PKV_ARRAY_LEN(isa_names); i++) {
        if (strcmp(name, isa_names[i]) != 0) continue;
        *out = (pkv_isa)i;
        return PKV_OK;
    }
    return PKV_E_INVALID_ARG;
}

pkv_isa pkv_isa_detect(void)
{
    const struct pkv__cpu_features f = pkv__cpu_detect();
    if (PKV_HAVE_AVX512 && f.avx512) return PKV_ISA_AVX512;
    if (PKV_HAVE_AVX2 && f.avx2) return PKV_ISA_AVX2;
    return PKV_ISA_SCALAR;
}

/* A build may hold avx512 without avx2: asking for avx2 must then not give scalar silently. */
static bool level_built(pkv_isa isa)
{
    return isa == PKV_ISA_SCALAR || (isa == PKV_ISA_AVX2 && PKV_HAVE_AVX2) ||
           (isa == PKV_ISA_AVX512 && PKV_HAVE_AVX512);
}

pkv_status pkv_backend_create_cpu(const pkv_cpu_config *cfg, pkv_backend **out)
{
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    const pkv_logger *log = &cfg->log;
    if (!pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "backend: an allocator needs alloc and free");
    if ((unsigned)cfg->max_isa > PKV_ISA_AVX512)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "backend: max_isa %d is no level",
                           (int)cfg->max_isa);
    const pkv_isa best = pkv_isa_detect();
    const pkv_isa isa = cfg->max_isa == PKV_ISA_BEST ? best : cfg->max_isa;
    if (!level_built(isa))
        return pkv__refuse(log, PKV_E_UNSUPPORTED, "backend: level %s is not in this build",
                           pkv_isa_name(isa));
    if (isa > best)
        return pkv__refuse(log, PKV_E_UNSUPPORTED,
                           "backend: level %s is in this build, but this machine has only %s",
                           pkv_isa_name(isa), pkv_isa_name(best));
    pkv_backend *be = pkv__alloc(&cfg->alloc, sizeof(*be), PKV_CACHE_LINE);
    if (!be) return pkv__refuse(log, PKV_E_NO_MEMORY, "backend: no memory for the handle");
    memset(be, 0, sizeof(*be));
    be->alloc = cfg->alloc;
    be->log = cfg->log;
    pkv__cpu_kernels_init(&be->kernels, isa);
    *out = be;
    return PKV_OK;
}

void pkv_backend_destroy(pkv_backend *be)
{
    if (!be) return;
    const pkv_allocator alloc = be->alloc;
    pkv__free(&alloc, be, sizeof(*be));
}
