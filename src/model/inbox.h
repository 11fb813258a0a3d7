/* Requests and cancels on their way from any thread to the stepping one: two bounded queues and the
 * numbers of requests behind one mutex, held for a few instructions. */
#ifndef PKV_MODEL_INBOX_H
#define PKV_MODEL_INBOX_H

#include "common/common.h"
#include "pagedkv/engine.h"

typedef struct pkv__inbox pkv__inbox;
PKV_NODISCARD pkv_status pkv__inbox_create(int32_t max_requests, int32_t max_cancels,
                                           const pkv_allocator *alloc, pkv__inbox **out);
/* What still lies in it is the caller's: take it out first. */
void pkv__inbox_destroy(pkv__inbox *inbox);

/* `request` is any pointer; its number is the next one, written to *id before anybody can take it
 * out. The queue counts requests until pkv__inbox_left says that they left the waiting state:
 * PKV_E_LIMIT when max_requests wait. Any thread. */
PKV_NODISCARD pkv_status pkv__inbox_put(pkv__inbox *inbox, void *request, pkv_request_id *id);
/* PKV_E_LIMIT when max_cancels wait; PKV_OK and nothing for a number that was never given. */
PKV_NODISCARD pkv_status pkv__inbox_cancel(pkv__inbox *inbox, pkv_request_id id);

/* Stepping thread. The next one in order, or NULL; the next cancel, or 0. A cancel comes only after
 * its request was taken, so that none is lost between the two: take requests, then cancels. */
void *pkv__inbox_take(pkv__inbox *inbox);
pkv_request_id pkv__inbox_take_cancel(pkv__inbox *inbox);
/* A waiting request was admitted, or ended: one more place. */
void pkv__inbox_left(pkv__inbox *inbox);

#endif
