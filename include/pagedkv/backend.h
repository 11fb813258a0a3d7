/* Backends: where kernels run, and which kernels exist.
 *
 * A backend is made once, is read-only afterwards, and may be used from any number of threads at
 * the same time; its logger and allocator are then called from all of them at once, and have to be
 * thread-safe. The CPU backend chooses, when it is made, the best version of every operation that
 * the machine (CPU and operating system) can run, not above the level asked for. */
#ifndef PAGEDKV_BACKEND_H
#define PAGEDKV_BACKEND_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_backend pkv_backend;

/* CPU levels, lowest first. A level is a bundle: AVX2 means AVX2 + FMA + F16C; AVX512 means
 * AVX-512 F + BW + DQ + VL (and AVX2). It counts as present only if the OS saves its registers. */
typedef enum pkv_isa {
    PKV_ISA_BEST = 0, /* whatever the machine has */
    PKV_ISA_SCALAR = 1,
    PKV_ISA_AVX2 = 2,
    PKV_ISA_AVX512 = 3
} pkv_isa;

/* "scalar", "avx2", "avx512", "best"; "?" for an unknown value. from_name is the reverse and
 * answers PKV_E_INVALID_ARG for anything else. Programs pass the value of PKV_ISA through it. */
PKV_API const char *pkv_isa_name(pkv_isa isa);
PKV_API pkv_status pkv_isa_from_name(const char *name, pkv_isa *out);

/* The highest level that this build contains and this machine can run. */
PKV_API pkv_isa pkv_isa_detect(void);

typedef struct pkv_cpu_config {
    uint32_t struct_size;
    pkv_isa max_isa;     /* PKV_ISA_BEST, or a ceiling */
    pkv_allocator alloc; /* {NULL, NULL, NULL}: malloc family */
    pkv_logger log;
} pkv_cpu_config;
#define PKV_CPU_CONFIG_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_cpu_config), PKV_ISA_BEST, { NULL, NULL, NULL },                                \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* PKV_E_UNSUPPORTED: max_isa names a level that this machine or this build lacks (the log says
 * which); asking for a level and silently getting a lower one would make tests worthless.
 * PKV_E_INVALID_ARG, PKV_E_ABI, PKV_E_NO_MEMORY. On failure *out is untouched. */
PKV_API PKV_NODISCARD pkv_status pkv_backend_create_cpu(const pkv_cpu_config *cfg,
                                                        pkv_backend **out);
/* NULL is fine. No call may be using the backend. */
PKV_API void pkv_backend_destroy(pkv_backend *be);

typedef enum pkv_op {
    PKV_OP_ATTENTION = 0,
    PKV_OP_KV_WRITE = 1,
    PKV_OP_BLOCKS_COPY = 2,
    PKV_OP_STATES_MERGE = 3
} pkv_op;

/* One compiled kernel that this backend may choose. */
typedef struct pkv_kernel_desc {
    uint32_t struct_size;
    pkv_op op;
    pkv_isa isa;     /* level it is written for */
    pkv_dtype dtype; /* of K and V (attention, kv_write) or of the states; moves: PKV_I8 (bytes) */
    char name[48];   /* "attention_decode_f16_avx512" */
    char covers[96]; /* in words: what shapes and options it takes */
} pkv_kernel_desc;

/* Kernel number `idx` of this backend, best first within an operation; the dispatcher takes the
 * first that covers a call. PKV_E_LIMIT past the end; PKV_E_INVALID_ARG; PKV_E_ABI.
 * out->struct_size is set by the caller. */
PKV_API pkv_status pkv_kernel_info(const pkv_backend *be, int32_t idx, pkv_kernel_desc *out);

#ifdef __cplusplus
}
#endif
#endif
