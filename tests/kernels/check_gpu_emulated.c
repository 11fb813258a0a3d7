/* The device of check_gpu --dry-run: the emulator (tests/simt). Calls have run when they return. */
#include "check_gpu_device.h"
#include "simt/simt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu_graph {
    pkv_status (*fn)(void *ctx);
    void *ctx;
};

bool gpu_open(struct gpu_about *about, char *why, size_t why_bytes)
{
    (void)why, (void)why_bytes;
    *about = (struct gpu_about){ .sm = 90,
                                 .n_sms = 2,
                                 .memory_bytes = 32 << 20,
                                 .free_bytes = 32 << 20,
                                 .l2_bytes = 1 << 10,
                                 .is_emulated = true,
                                 .reads_all_host_memory = true };
    snprintf(about->device, sizeof(about->device), "emulated device (%s)", device_build());
    return true;
}

void *gpu_alloc(size_t bytes)
{
    return device_alloc(bytes);
}
void gpu_free(void *p)
{
    device_free(p);
}
void *gpu_alloc_host(size_t bytes)
{
    return device_alloc(bytes);
}
void gpu_free_host(void *p)
{
    device_free(p);
}
void gpu_upload(void *dst, const void *src, size_t bytes)
{
    device_upload(dst, src, bytes);
}
void gpu_download(void *dst, const void *src, size_t bytes)
{
    device_download(dst, src, bytes);
}
void gpu_fill(void *dst, int byte, size_t bytes)
{
    device_fill(dst, byte, bytes);
}
void gpu_copy(void *dst, const void *src, size_t bytes)
{
    device_upload(dst, src, bytes);
}
void gpu_lend_memory(void) {}
bool gpu_register_pages(void *page, size_t bytes)
{
    (void)page, (void)bytes;
    return true;
}
void gpu_unregister_pages(void *page)
{
    (void)page;
}

void *gpu_stream(void)
{
    return NULL;
}
bool gpu_wait(char *why, size_t why_bytes)
{
    const char *error = device_last_error();
    snprintf(why, why_bytes, "%s", error);
    return error[0] == '\0';
}

struct gpu_graph *gpu_record(pkv_status (*fn)(void *ctx), void *ctx, pkv_status *status)
{
    struct gpu_graph *graph = malloc(sizeof(*graph));
    *status = PKV_OK;
    if (graph) *graph = (struct gpu_graph){ fn, ctx };
    return graph;
}
void gpu_replay(struct gpu_graph *graph)
{
    (void)graph->fn(graph->ctx);
}
void gpu_graph_free(struct gpu_graph *graph)
{
    free(graph);
}

void gpu_clock_start(void) {}
double gpu_clock_stop(void)
{
    return 0;
}
void gpu_read_stream(const void *data, size_t bytes, uint32_t *sink)
{
    (void)data, (void)bytes, (void)sink;
}
int gpu_gemm(int32_t n, double *us, int n_runs)
{
    (void)n, (void)us, (void)n_runs;
    return 0;
}
bool gpu_sensors(int *mhz, int *watts)
{
    (void)mhz, (void)watts;
    return false;
}
