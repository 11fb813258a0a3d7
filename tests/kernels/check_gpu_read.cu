/* Reads memory once, with four 16-byte loads under way per thread. Bound by bandwidth. Grid: blocks
 * of 256 threads stride over the data together. No shared memory. */
#include "check_gpu_read.h"
#include "kernels/cuda/pkv_dev.cuh"

/* "13.0.88" of three macros. */
#define TEXT_OF(x) #x
#define VERSION_OF(major, minor, build) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(build)

namespace
{
constexpr int32_t n_threads = 256, n_blocks = 132 * 8, n_under_way = 4;

PKV_GLOBAL(n_threads) read_kernel(const uint4 *data, int64_t n, uint32_t *sink)
{
    const int64_t step = (int64_t)pkv_n_blocks() * n_threads;
    uint32_t seen = 0;
    for (int64_t at = (int64_t)pkv_block() * n_threads + pkv_thread(); at < n;
         at += n_under_way * step) {
        PKV_UNROLL
        for (int32_t i = 0; i < n_under_way; i++) {
            const int64_t from = at + i * step < n ? at + i * step : at;
            const uint4 words = pkv_ldv_const<uint4>(data + from);
            seen |= words.x ^ words.y ^ words.z ^ words.w;
        }
    }
    if (seen == 0x12345678u) *sink = seen;
}
} // namespace

extern "C" int check_gpu_read_launch(const void *data, int64_t bytes, uint32_t *sink, void *stream)
{
    return PKV_LAUNCH((read_kernel), n_blocks, n_threads, 0, stream,
                      static_cast<const uint4 *>(data), bytes / 16, sink);
}

extern "C" const char *check_gpu_nvcc(void)
{
#ifdef __CUDACC__
    return VERSION_OF(__CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__, __CUDACC_VER_BUILD__);
#else
    return "";
#endif
}
