/* What check_gpu takes from libraries that may or may not be on the machine, by dlopen: a product
 * of cuBLAS as the ceiling of arithmetic, clock and power by NVML. */
#include "check_gpu_device.h"

#include <dlfcn.h>
#include <string.h>

/* cublas_api.h: CUBLAS_OP_N, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT. */
enum { OP_N = 0, R_16BF = 14, COMPUTE_32F = 68, ALGO_DEFAULT = -1 };
typedef int (*create_fn)(void **handle);
typedef int (*destroy_fn)(void *handle);
typedef int (*set_stream_fn)(void *handle, void *stream);
typedef int (*gemm_fn)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                       const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                       const void *beta, void *c, int type_c, int ldc, int compute, int algo);

struct blas {
    void *library, *handle;
    create_fn create;
    destroy_fn destroy;
    set_stream_fn set_stream;
    gemm_fn gemm;
};

/* A function's address in an object's pointer, as dlsym gives it. */
static void find(void *library, const char *name, void *fn)
{
    void *at = dlsym(library, name);
    memcpy(fn, &at, sizeof(at));
}

static bool blas_open(struct blas *b)
{
    static const char *const names[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so" };
    *b = (struct blas){ 0 };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !b->library; i++)
        b->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!b->library) return false;
    find(b->library, "cublasCreate_v2", &b->create);
    find(b->library, "cublasDestroy_v2", &b->destroy);
    find(b->library, "cublasSetStream_v2", &b->set_stream);
    find(b->library, "cublasGemmEx", &b->gemm);
    return b->create && b->destroy && b->set_stream && b->gemm && b->create(&b->handle) == 0 &&
           b->set_stream(b->handle, gpu_stream()) == 0;
}

int gpu_gemm(int32_t n, double *us, int n_runs)
{
    const float one = 1.f, none = 0.f;
    const size_t bytes = (size_t)n * (size_t)n * 2;
    struct blas b;
    if (!blas_open(&b)) return 0;
    char *m = gpu_alloc(3 * bytes);
    int done = 0;
    if (m) gpu_fill(m, 0x3c, 3 * bytes); /* 0x3c3c: 0.011 */
    for (int i = -3; m && i < n_runs; i++) {
        gpu_clock_start();
        if (b.gemm(b.handle, OP_N, OP_N, n, n, n, &one, m, R_16BF, n, m + bytes, R_16BF, n, &none,
                   m + 2 * bytes, R_16BF, n, COMPUTE_32F, ALGO_DEFAULT) != 0)
            break;
        const double took = gpu_clock_stop();
        if (i >= 0) us[done++] = took;
    }
    gpu_free(m);
    b.destroy(b.handle);
    return done;
}

bool gpu_sensors(int *mhz, int *watts)
{
    enum { CLOCK_SM = 1 };
    int (*init)(void), (*by_index)(unsigned, void **), (*clock)(void *, int, unsigned *);
    int (*power)(void *, unsigned *), (*shutdown)(void);
    unsigned clock_mhz = 0, milliwatts = 0;
    void *device = NULL, *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    find(library, "nvmlInit_v2", &init);
    find(library, "nvmlShutdown", &shutdown);
    find(library, "nvmlDeviceGetHandleByIndex_v2", &by_index);
    find(library, "nvmlDeviceGetClockInfo", &clock);
    find(library, "nvmlDeviceGetPowerUsage", &power);
    const bool here = init && by_index && clock && power && shutdown && init() == 0;
    const bool ok = here && by_index(0, &device) == 0 && clock(device, CLOCK_SM, &clock_mhz) == 0 &&
                    power(device, &milliwatts) == 0;
    if (here) shutdown();
    dlclose(library);
    *mhz = (int)clock_mhz;
    *watts = (int)(milliwatts / 1000);
    return ok;
}
