/* What the directed tests of the CUDA backend share: a backend on the emulated device, and its log.
 */
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include "pagedkv/pagedkv.h"
#include "simt/simt_cuda.h"
#include "simt/simt_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The last line that a backend logged. */
struct cuda_log {
    char text[256];
};

static inline void cuda_keep_line(void *ctx, pkv_log_level level, const char *text)
{
    struct cuda_log *log = ctx;
    (void)level;
    snprintf(log->text, sizeof log->text, "%s", text);
}

/* log: NULL, or where lines go. */
static inline pkv_backend *cuda_backend(struct cuda_log *log, int32_t n_sms)
{
    pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
    pkv_backend *be = NULL;
    if (log) cfg.log = (pkv_logger){ cuda_keep_line, log };
    device_set_sms(n_sms);
    assert_int_equal(pkv_backend_create_cuda(&cfg, &be), PKV_OK);
    return be;
}

static inline void cuda_schedule(int i)
{
    const device_schedule_t schedule = device_schedule_of(i % DEVICE_N_SCHEDULES);
    device_schedule(&schedule);
}

/* A status of PKV_OK, or what the device said. */
#define assert_device_ok(call)                                                                     \
    do {                                                                                           \
        const pkv_status status_ = (call);                                                         \
        if (status_ != PKV_OK)                                                                     \
            fail_msg("%s: %s: %s", #call, pkv_status_name(status_), device_last_error());          \
    } while (0)

/* Random numbers of a seed that a failing test prints. */
struct cuda_rng {
    uint64_t state;
};
static inline uint32_t cuda_random(struct cuda_rng *r, uint32_t n)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((r->state >> 32) * n) >> 32);
}

#endif
