/* Devices behind check_kernels. */
#include "check_device.h"
#include "simt/simt_cuda.h"
#include "simt/simt_device.h"

/* Where the program is linked with an emulated device. */
#pragma weak device_abandon
#pragma weak device_schedule
#pragma weak device_schedule_of
#pragma weak device_e4m3_nan

pkv_status check_supported(struct check *c, pkv_status status)
{
    if (status == PKV_E_UNSUPPORTED && check_on_device(c))
        check_stop(c, c->log[0] ? c->log
                                : "no line in the log; on a GPU: it does not reach this memory");
    return status;
}

bool check_e4m3_nan(const struct check *c)
{
    return !check_on_device(c) || !device_e4m3_nan || device_e4m3_nan();
}

void check_schedule_of(int i)
{
    if (!device_schedule || !device_schedule_of) return;
    const device_schedule_t schedule = device_schedule_of(i);
    device_schedule(&schedule);
}

void check_schedule(struct check *c)
{
    if (!check_on_device(c)) return;
    check_schedule_of(rng_int(&c->device_rng, 0, DEVICE_N_SCHEDULES - 1));
}

void check_device_reset(void)
{
    if (device_abandon) device_abandon();
}
