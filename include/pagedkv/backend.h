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

/* CPU levels; of one architecture the higher value contains the lower. A level is a bundle: AVX2
 * means AVX2 + FMA + F16C; AVX512 means AVX-512 F + BW + DQ + VL (and AVX2); AVX512BF16 adds
 * AVX512_BF16 and AVX512_VNNI; AMX adds AMX-TILE, AMX-BF16 and AMX-INT8; NEON is the base of
 * aarch64. It counts as present only if the OS saves its registers. AMX needs a permission of the
 * process (Linux: arch_prctl ARCH_REQ_XCOMP_PERM), which is asked for when a level is looked up;
 * once given, signal frames of new threads are larger. */
typedef enum pkv_isa {
    PKV_ISA_BEST = 0, /* whatever the machine has and is fast on it */
    PKV_ISA_SCALAR = 1,
    PKV_ISA_AVX2 = 2,
    PKV_ISA_AVX512 = 3,
    PKV_ISA_AVX512BF16 = 4,
    PKV_ISA_AMX = 5,
    PKV_ISA_NEON = 16,
    PKV_ISA_CUDA = 64 /* no level: kernels of a CUDA backend */
} pkv_isa;

/* "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon", "cuda", "best"; "?" for an unknown
 * value. from_name is the reverse and answers PKV_E_INVALID_ARG for anything else. Programs pass
 * the value of PKV_ISA through it. */
PKV_API const char *pkv_isa_name(pkv_isa isa);
PKV_API pkv_status pkv_isa_from_name(const char *name, pkv_isa *out);

/* The highest level that this build contains and this machine can run, and runs fast: AVX512BF16 is
 * passed over where its dot products are slower than float32 FMA (Intel). */
PKV_API pkv_isa pkv_isa_detect(void);
/* Can this build on this machine run the level? PKV_OK or PKV_E_UNSUPPORTED; `reason` (NULL: not
 * wanted) gets a static text: "present", "present, slower than avx512", "not in this build",
 * "not on this CPU", "not enabled by the operating system", "permission refused". */
PKV_API pkv_status pkv_isa_check(pkv_isa isa, const char **reason);

/* Run task(task_ctx, i) for every i in [0, n_tasks), on any threads, in any order or all at once,
 * and return when all have returned. Tasks do not wait for each other. */
typedef void (*pkv_parallel_for)(void *ctx, int32_t n_tasks,
                                 void (*task)(void *task_ctx, int32_t i), void *task_ctx);

/* Threads. n_threads 0 or 1: everything on the calling thread. More: operations are cut into that
 * many tasks; the backend's own n_threads - 1 threads take part (they spin for `spin_us` after
 * their last task, then sleep; pkv_backend_destroy joins them), or, with `parallel_for`, the
 * caller's. No number of threads changes one bit of any result. Calls from several threads at once
 * are right; one of them gets the pool, the others run on their own thread. After fork() the child
 * has no pool threads: its calls run on the calling thread. At most 1024. */

typedef struct pkv_cpu_config {
    uint32_t struct_size;
    pkv_isa max_isa;     /* PKV_ISA_BEST, or a ceiling */
    pkv_allocator alloc; /* {NULL, NULL, NULL}: malloc family */
    pkv_logger log;
    int32_t n_threads;             /* 0 .. 1024 */
    int32_t spin_us;               /* 0: a default, 200; -1: never spin */
    pkv_parallel_for parallel_for; /* NULL: own threads */
    void *parallel_ctx;
} pkv_cpu_config;
#define PKV_CPU_CONFIG_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_cpu_config), PKV_ISA_BEST, { NULL, NULL, NULL }, { NULL, NULL }, 0, 0, NULL,    \
            NULL                                                                                   \
    }

/* PKV_E_UNSUPPORTED: max_isa names a level that this machine or this build lacks (the log says
 * which); asking for a level and silently getting a lower one would make tests worthless.
 * PKV_E_INVALID_ARG, PKV_E_ABI, PKV_E_NO_MEMORY (a thread that cannot be started, too). On failure
 * *out is untouched. */
PKV_API PKV_NODISCARD pkv_status pkv_backend_create_cpu(const pkv_cpu_config *cfg,
                                                        pkv_backend **out);

typedef struct pkv_cuda_config {
    uint32_t struct_size;
    int32_t device;      /* ordinal; -1: the calling thread's current one */
    int32_t max_sms;     /* a kernel starts no more blocks of threads than so many streaming
                            multiprocessors hold at once; 0: all. Where they run is the device's
                            choice; in the default mode, other numbers, other bits of attention */
    pkv_allocator alloc; /* for the handle; {NULL, NULL, NULL}: malloc family */
    pkv_logger log;
} pkv_cuda_config;
#define PKV_CUDA_CONFIG_INIT                                                                       \
    {                                                                                              \
        sizeof(pkv_cuda_config), -1, 0, { NULL, NULL, NULL },                                      \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* A backend whose kernels, loaded here, run on a CUDA device of compute capability 8.0 or above. It
 * is asked for its properties here and never again; calls are made with it current. The caller's
 * current device and context stay as they are, other devices get no context.
 *   PKV_E_UNSUPPORTED  no CUDA in this build, no driver, no such device, no code for it, too old
 *   PKV_E_DEVICE       anything else the device says; PKV_E_INVALID_ARG, _ABI, _NO_MEMORY
 * On failure *out is untouched, and the log has the reason. */
PKV_API PKV_NODISCARD pkv_status pkv_backend_create_cuda(const pkv_cuda_config *cfg,
                                                         pkv_backend **out);
/* NULL is fine. No call may be using the backend. */
PKV_API void pkv_backend_destroy(pkv_backend *be);
/* Tasks that operations are cut into: n_threads of the configuration, at least 1; 1 of CUDA. 0 for
 * NULL. */
PKV_API int32_t pkv_backend_threads(const pkv_backend *be);

typedef enum pkv_op {
    PKV_OP_ATTENTION = 0,
    PKV_OP_KV_WRITE = 1,
    PKV_OP_BLOCKS_COPY = 2,
    PKV_OP_STATES_MERGE = 3,
    PKV_OP_ATTENTION_MLA = 4,
    PKV_OP_KV_GATHER = 5
} pkv_op;

/* One compiled kernel that this backend may choose. */
typedef struct pkv_kernel_desc {
    uint32_t struct_size;
    pkv_op op;
    pkv_isa isa;     /* level it is written for */
    pkv_dtype dtype; /* of K and V (attention, kv_write) or of the states; moves: PKV_I8 (bytes) */
    char name[48];   /* "attention_short_f16_avx512" */
    char covers[96]; /* in words: what shapes and options it takes */
    /* CUDA only, else 0: */
    int32_t min_sm;       /* 80: compute capability 8.0 */
    int32_t registers;    /* per thread, as compiled for this device */
    int32_t shared_bytes; /* per block of threads */
    int32_t blocks_per_sm;
} pkv_kernel_desc;

/* Kernel number `idx` of this backend, best first within an operation; the dispatcher takes the
 * first that covers a call. PKV_E_LIMIT past the end; PKV_E_INVALID_ARG; PKV_E_ABI.
 * out->struct_size is set by the caller. */
PKV_API pkv_status pkv_kernel_info(const pkv_backend *be, int32_t idx, pkv_kernel_desc *out);

#ifdef __cplusplus
}
#endif
#endif
