/* Backends: made once, read-only afterwards. */
#include "common/cpu_detect.h"
#include "common/threads.h"
#include "kernels/kernels_internal.h"

#include <string.h>

static const struct {
    const char *name;
    pkv_isa isa;
    bool built; /* of BEST: nothing to build */
} levels[] = {
    { "best", PKV_ISA_BEST, true },
    { "scalar", PKV_ISA_SCALAR, true },
    { "avx2", PKV_ISA_AVX2, PKV_HAVE_AVX2 },
    { "avx512", PKV_ISA_AVX512, PKV_HAVE_AVX512 },
    { "avx512bf16", PKV_ISA_AVX512BF16, PKV_HAVE_AVX512BF16 },
    { "amx", PKV_ISA_AMX, PKV_HAVE_AMX },
    { "neon", PKV_ISA_NEON, PKV_HAVE_NEON },
    { "cuda", PKV_ISA_CUDA, false }, /* no level of a CPU: pkv_backend_create_cuda */
};

static int find_level(pkv_isa isa)
{
    for (size_t i = 0; i < PKV_ARRAY_LEN(levels); i++)
        if (levels[i].isa == isa) return (int)i;
    return -1;
}

const char *pkv_isa_name(pkv_isa isa)
{
    const int i = find_level(isa);
    return i < 0 ? "?" : levels[i].name;
}

pkv_status pkv_isa_from_name(const char *name, pkv_isa *out)
{
    if (!name || !out) return PKV_E_INVALID_ARG;
    for (size_t i = 0; i < PKV_ARRAY_LEN(levels); i++) {
        if (strcmp(name, levels[i].name) != 0) continue;
        *out = levels[i].isa;
        return PKV_OK;
    }
    return PKV_E_INVALID_ARG;
}

static enum pkv__level_state level_state(const struct pkv__cpu_levels *cpu, pkv_isa isa)
{
    switch (isa) {
    case PKV_ISA_AVX2:
        return cpu->avx2;
    case PKV_ISA_AVX512:
        return cpu->avx512;
    case PKV_ISA_AVX512BF16:
        return cpu->avx512bf16;
    case PKV_ISA_AMX:
        return cpu->amx;
    case PKV_ISA_NEON:
        return cpu->neon;
    case PKV_ISA_BEST:
    case PKV_ISA_SCALAR:
    case PKV_ISA_CUDA:
        break;
    }
    return PKV__LEVEL_PRESENT;
}

pkv_isa pkv_isa_detect(void)
{
    const struct pkv__cpu_levels cpu = pkv__cpu_detect();
    for (size_t i = PKV_ARRAY_LEN(levels) - 1; i > 0; i--)
        if (levels[i].built && level_state(&cpu, levels[i].isa) == PKV__LEVEL_PRESENT)
            return levels[i].isa;
    return PKV_ISA_SCALAR;
}

pkv_status pkv_isa_check(pkv_isa isa, const char **reason)
{
    static const char *const texts[] = {
        [PKV__LEVEL_NO_CPU] = "not on this CPU",
        [PKV__LEVEL_NO_OS] = "not enabled by the operating system",
        [PKV__LEVEL_REFUSED] = "permission refused",
        [PKV__LEVEL_SLOW] = "present, slower than avx512",
        [PKV__LEVEL_PRESENT] = "present",
    };
    const int i = find_level(isa);
    const bool built = i >= 0 && levels[i].built;
    enum pkv__level_state state = PKV__LEVEL_NO_CPU;
    if (built) {
        const struct pkv__cpu_levels cpu = pkv__cpu_detect();
        state = level_state(&cpu, isa);
    }
    if (reason) *reason = built ? texts[state] : "not in this build";
    return built && state >= PKV__LEVEL_SLOW ? PKV_OK : PKV_E_UNSUPPORTED;
}

static pkv_status check_config(const pkv_cpu_config *cfg, pkv_isa *isa)
{
    const pkv_logger *log = &cfg->log;
    const char *reason;
    if (!pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "backend: an allocator needs alloc and free");
    if (cfg->n_threads < 0 || cfg->n_threads > PKV__MAX_THREADS)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "backend: n_threads is %d, not 0 .. %d",
                           cfg->n_threads, PKV__MAX_THREADS);
    if (cfg->spin_us < -1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "backend: spin_us is %d", cfg->spin_us);
    if (find_level(cfg->max_isa) < 0)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "backend: max_isa %d is no level",
                           (int)cfg->max_isa);
    *isa = cfg->max_isa == PKV_ISA_BEST ? pkv_isa_detect() : cfg->max_isa;
    if (pkv_isa_check(*isa, &reason) != PKV_OK)
        return pkv__refuse(log, PKV_E_UNSUPPORTED, "backend: level %s: %s", pkv_isa_name(*isa),
                           reason);
    return PKV_OK;
}

pkv_status pkv_backend_create_cpu(const pkv_cpu_config *cfg, pkv_backend **out)
{
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    pkv_isa isa = PKV_ISA_SCALAR;
    pkv_status status = check_config(cfg, &isa);
    if (status != PKV_OK) return status;
    pkv_backend *be = pkv__alloc(&cfg->alloc, sizeof(*be), PKV_CACHE_LINE);
    if (!be) return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "backend: no memory for the handle");
    memset(be, 0, sizeof(*be));
    be->alloc = cfg->alloc;
    be->log = cfg->log;
    be->isa = isa;
    be->n_tasks = pkv__max_i32(1, cfg->n_threads);
    pkv__cpu_kernels_init(&be->kernels, isa);
    if (be->n_tasks > 1) status = pkv__threads_create(cfg, &be->threads);
    if (status != PKV_OK) {
        pkv__free(&cfg->alloc, be, sizeof(*be));
        return status;
    }
    *out = be;
    return PKV_OK;
}

void pkv_backend_destroy(pkv_backend *be)
{
    if (!be) return;
    const pkv_allocator alloc = be->alloc;
    if (be->device) be->device->destroy(be);
    pkv__threads_destroy(be->threads);
    pkv__free(&alloc, be, sizeof(*be));
}

int32_t pkv_backend_threads(const pkv_backend *be)
{
    return be ? be->n_tasks : 0;
}
