/* pkv-info machine: what the library finds on this machine and what it would use. */
#ifndef PKV_INFO_MACHINE_H
#define PKV_INFO_MACHINE_H

#include "pkv_info.h"

#include "pagedkv/backend.h"

#define INFO_MAX_CACHES 8
#define INFO_MAX_LEVELS 8
#define INFO_MAX_KERNELS 128

struct info_cache {
    int32_t level;
    char type[16];
    int64_t bytes;
};

struct info_level {
    pkv_isa isa;
    bool present;
    const char *reason; /* of pkv_isa_check */
};

/* Unknown: empty text, 0. */
struct info_machine {
    char cpu[96], architecture[32], os[96], huge_pages[32];
    int32_t n_cpus; /* logical ones that this process may use */
    int64_t ram_bytes, ram_free_bytes;
    int32_t n_caches;
    struct info_cache caches[INFO_MAX_CACHES]; /* that the first CPU sees */
    bool huge_pages_advised;                   /* the OS took a store's advice */
    int32_t n_levels;
    struct info_level levels[INFO_MAX_LEVELS];
    pkv_isa best, asked, used; /* asked: of PKV_ISA or --isa */
    int32_t n_kernels;
    pkv_kernel_desc kernels[INFO_MAX_KERNELS];
    char cuda[160]; /* "present", or why there is no CUDA backend */
    int32_t n_cuda_kernels;
    pkv_kernel_desc cuda_kernels[INFO_MAX_KERNELS];
};

/* Fill it from /proc, /sys and the library, for a backend that is limited to `ceiling`. False: no
 * such backend, with the reason on stderr. */
bool info_machine_read(pkv_isa ceiling, const char *asked_by, struct info_machine *out);

/* "granted", "refused", "not in this build", ..: may this process use AMX? */
const char *info_amx_permission(const struct info_machine *m);
const char *info_op_name(pkv_op op);

void info_machine_print(const struct info_machine *m, FILE *out);
json_t *info_machine_json(const struct info_machine *m);

#endif
