/* What is different where kernels run on a device, emulated or not, for check_kernels.
 *
 *   verdicts  a call answers PKV_OK once it is enqueued, and `bad` names any one offender
 *   missing   an operation may answer PKV_E_UNSUPPORTED for a shape: that run is a skip
 *   schedules an emulated device runs each launch in an order of its own
 *
 * Draws of a device come from a stream beside that of the run, so that one seed makes one problem
 * at every level. */
#ifndef PKV_CHECK_DEVICE_H
#define PKV_CHECK_DEVICE_H

#include "check_kernels.h"

static inline bool check_on_device(const struct check *c)
{
    return c->isa == PKV_ISA_CUDA;
}
/* The status of a call on memory of the device of which something is wrong, or nothing. */
static inline pkv_status check_want(const struct check *c, bool wrong)
{
    return wrong && !check_on_device(c) ? PKV_E_INVALID_ARG : PKV_OK;
}
/* Ends the run as skipped if a device has no kernel for it; else gives the status back. */
pkv_status check_supported(struct check *c, pkv_status status);

/* Are the codes 0x7f and 0xff of e4m3 NaN in attention? Not on devices below compute capability
 * 8.9, where they are 480 and -480 (docs/numerics.md). */
bool check_e4m3_nan(const struct check *c);

/* Another order of things for the launches from here on; nothing on the CPU and on a GPU. */
void check_schedule(struct check *c);
/* A launch that was left by a jump is over. */
void check_device_reset(void);
/* Its order is the given one. For comparisons; 0 .. 11. */
void check_schedule_of(int i);

#endif
