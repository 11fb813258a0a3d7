/* What the machine says about itself. */
#ifndef PKV_MACHINE_INFO_H
#define PKV_MACHINE_INFO_H

#include "bench_base.h"

#include "pagedkv/backend.h"

#define MACHINE_MAX_CACHES 8
#define MACHINE_MAX_CURVE 8

struct machine_cache {
    int32_t level;
    char type[16];
    int64_t bytes; /* of one */
    int32_t n;     /* distinct ones that our CPUs can use */
};

/* Unknown: empty text, -1 or 0 as noted. */
struct machine_info {
    char cpu[96], governor[32], hypervisor[32], kernel[96], huge_pages[32];
    int32_t sockets, cores, smt; /* cores: logical CPUs this process may use; -1 unknown */
    int64_t freq_khz;            /* 0 unknown */
    int32_t n_caches;
    struct machine_cache caches[MACHINE_MAX_CACHES];
    int64_t llc_bytes; /* last-level cache, summed over those our CPUs can use; 32 MiB if unknown */
    int32_t numa_nodes;
    int64_t ram_bytes, available_bytes;
    pkv_isa isa;
    double timer_cost_ns, timer_step_ns; /* of one clock reading; smallest step seen */
    /* Filled by the bandwidth probe; 0 until then. */
    double read_gbs, copy_gbs;
    int64_t read_bytes; /* of the buffer read */
    bool read_in_cache; /* below 4 times the last-level cache: no yardstick for memory */
    char read_kernel[48];
    int32_t read_way; /* of bandwidth_kernels.h */
    int32_t threads;  /* that measured it, and that attention uses unless a row says otherwise */
    int32_t n_curve;
    struct {
        int64_t bytes;
        double read_gbs;
    } curve[MACHINE_MAX_CURVE];
};

/* Logical CPUs this process may use; -1 unknown. */
int32_t machine_cpus(void);

/* Read /proc and /sys; nothing here fails, unknown values stay unknown. */
void machine_read(struct machine_info *info);

/* Parsers, apart so that tests can feed them. */
int64_t machine_parse_size(const char *text); /* "32768K" -> bytes; 0 if not a size */
int32_t machine_count_cpus(const char *list); /* "0-3,8" -> 5; -1 if not a list */

#endif
