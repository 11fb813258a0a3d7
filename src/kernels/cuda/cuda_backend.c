/* The CUDA backend: made once for a device, read-only afterwards. */
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/table_check.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_SM = 80 }; /* cp.async, mma of bf16 */

pkv_status pkv__cuda_status(const pkv_backend *be, int code, const char *what)
{
    if (code == 0) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_DEVICE, "%s: %s", what, pkv__device_error_text(code));
}

static pkv_status kernel_info(const pkv_backend *be, int32_t idx, pkv_kernel_desc *out)
{
    const struct pkv__cuda *cuda = pkv__cuda_of(be);
    int32_t i = 0;
    for (; i < pkv__n_cuda_variants; i++)
        if (cuda->usable[i] && idx-- == 0) break;
    if (i == pkv__n_cuda_variants) return PKV_E_LIMIT;
    const struct pkv__cuda_variant *v = &pkv__cuda_variants[i];
    out->op = v->op;
    out->isa = PKV_ISA_CUDA;
    out->dtype = v->dtype;
    snprintf(out->name, sizeof(out->name), "%s", v->name);
    snprintf(out->covers, sizeof(out->covers), "%s", v->covers);
    out->min_sm = LEAST_SM;
    out->registers = cuda->cost[i].registers;
    out->shared_bytes = v->shared_bytes;
    out->blocks_per_sm = cuda->cost[i].blocks_per_sm;
    return PKV_OK;
}

static void destroy(pkv_backend *be)
{
    pkv__free(&be->alloc, be->device_state, sizeof(struct pkv__cuda));
}

static const struct pkv__device_ops operations = {
    .attn_workspace = pkv__cuda_attn_workspace,
    .mla_workspace = pkv__cuda_mla_workspace,
    .workspace_init = pkv__cuda_workspace_init,
    .attn = pkv__cuda_attn,
    .mla = pkv__cuda_mla,
    .states_merge = pkv__cuda_states_merge,
    .table_check = pkv__cuda_table_check,
    .kv_write = pkv__cuda_kv_write,
    .kv_gather = pkv__cuda_kv_gather,
    .blocks_copy = pkv__cuda_blocks_copy,
    .blocks_zero = pkv__cuda_blocks_zero,
    .blocks_fill = pkv__cuda_blocks_fill,
    .blocks_gather = pkv__cuda_blocks_gather,
    .blocks_scatter = pkv__cuda_blocks_scatter,
    .attn_name = pkv__cuda_attn_name,
    .kernel_info = kernel_info,
    .destroy = destroy,
};

static pkv_status failure_of(int code)
{
    return pkv__device_unsupported(code) ? PKV_E_UNSUPPORTED : PKV_E_DEVICE;
}

static pkv_status open_device(const pkv_cuda_config *cfg, struct pkv__cuda *cuda)
{
    const pkv_logger *log = &cfg->log;
    const int code = pkv__device_open(cfg->device, &cuda->caps);
    if (code != 0)
        return pkv__refuse(log, failure_of(code), "backend: CUDA device %d: %s", cfg->device,
                           pkv__device_error_text(code));
    if (cuda->caps.sm < LEAST_SM)
        return pkv__refuse(log, PKV_E_UNSUPPORTED,
                           "backend: %s has compute capability %d.%d, 8.0 is needed",
                           cuda->caps.name, cuda->caps.sm / 10, cuda->caps.sm % 10);
    cuda->n_sms = cuda->caps.n_sms;
    if (cfg->max_sms > 0 && cfg->max_sms < cuda->n_sms) cuda->n_sms = cfg->max_sms;
    return PKV_OK;
}

struct preparation {
    struct pkv__cuda *cuda;
    const char *what; /* is being prepared */
};

/* A variant that does not fit into the device's shared memory or registers is left out; one without
 * code for the device, or of which the runtime says anything else, ends it. */
static int prepare_variants(struct preparation *p)
{
    struct pkv__cuda *cuda = p->cuda;
    for (int32_t i = 0; i < pkv__n_cuda_variants; i++) {
        const struct pkv__cuda_variant *v = &pkv__cuda_variants[i];
        if (v->shared_bytes > cuda->caps.shared_per_block) continue;
        p->what = v->name;
        const int code = v->prepare(&cuda->cost[i]);
        if (code != 0) return code;
        cuda->usable[i] = cuda->cost[i].blocks_per_sm > 0;
    }
    return 0;
}

/* All that is ever launched: the runtime loads a kernel when it is first asked for, and that may
 * wait for the device. */
static int prepare_kernels(void *ctx)
{
    struct preparation *p = ctx;
    struct pkv__kernel_cost cost;
    p->what = "table_check";
    const int code = pkv__table_check_prepare(&cost);
    return code != 0 ? code : prepare_variants(p);
}

static pkv_status prepare_device(const pkv_cuda_config *cfg, struct pkv__cuda *cuda)
{
    struct preparation p = { cuda, "a context" };
    const int code = pkv__device_run(cuda->caps.ordinal, prepare_kernels, &p);
    if (code == 0) return PKV_OK;
    return pkv__refuse(&cfg->log, failure_of(code), "backend: %s on %s: %s", p.what,
                       cuda->caps.name, pkv__device_error_text(code));
}

static pkv_status check_config(const pkv_cuda_config *cfg)
{
    if (!pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "backend: an allocator needs alloc and free");
    if (cfg->device < -1 || cfg->max_sms < 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "backend: device %d, max_sms %d",
                           cfg->device, cfg->max_sms);
    return PKV_OK;
}

pkv_status pkv_backend_create_cuda(const pkv_cuda_config *cfg, pkv_backend **out)
{
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    pkv_status status = check_config(cfg);
    if (status != PKV_OK) return status;
    pkv_backend *be = pkv__alloc(&cfg->alloc, sizeof(*be), PKV_CACHE_LINE);
    struct pkv__cuda *cuda = pkv__alloc(&cfg->alloc, sizeof(*cuda), PKV_CACHE_LINE);
    status = PKV_E_NO_MEMORY;
    if (!be || !cuda) {
        (void)pkv__refuse(&cfg->log, status, "backend: no memory for the handle");
        goto fail;
    }
    memset(be, 0, sizeof(*be));
    memset(cuda, 0, sizeof(*cuda));
    status = open_device(cfg, cuda);
    if (status == PKV_OK) status = prepare_device(cfg, cuda);
    if (status != PKV_OK) goto fail;
    be->device = &operations;
    be->device_state = cuda;
    be->alloc = cfg->alloc;
    be->log = cfg->log;
    be->isa = PKV_ISA_CUDA;
    be->n_tasks = 1;
    *out = be;
    return PKV_OK;

fail:
    if (cuda) pkv__free(&cfg->alloc, cuda, sizeof(*cuda));
    if (be) pkv__free(&cfg->alloc, be, sizeof(*be));
    return status;
}
