/* Two rings behind one mutex.
 *
 *   number      1 .. n_taken     n_taken + 1 .. n_given      above
 *   request     taken out        in the ring                 not handed in yet
 *   cancel      given out        kept until it is taken      ignored
 *
 * n_waiting >= n_given - n_taken: taken requests count until they leave the waiting state. */
#include "model/inbox.h"

#include <pthread.h>

struct pkv__inbox {
    pthread_mutex_t mutex; /* of all that follows but the sizes */
    pkv_allocator alloc;
    size_t bytes;
    int32_t max_requests, max_cancels;
    int32_t n_waiting, n_cancels, cancel_head;
    pkv_request_id n_given, n_taken; /* the last numbers */
    pkv_request_id *cancels;         /* [max_cancels] ring */
    void *requests[];                /* [max_requests] ring; number i lies at i mod max_requests */
};

pkv_status pkv__inbox_create(int32_t max_requests, int32_t max_cancels, const pkv_allocator *alloc,
                             pkv__inbox **out)
{
    PKV_ASSERT(max_requests > 0 && max_cancels > 0);
    size_t requests, cancels;
    if (!pkv__mul_size((size_t)max_requests, sizeof(void *), &requests) ||
        !pkv__mul_size((size_t)max_cancels, sizeof(pkv_request_id), &cancels))
        return PKV_E_NO_MEMORY;
    const size_t cancels_at =
        pkv__align_up(sizeof(struct pkv__inbox) + requests, sizeof(pkv_request_id));
    const size_t bytes = cancels_at + cancels;
    pkv__inbox *inbox = pkv__alloc(alloc, bytes, PKV_CACHE_LINE);
    if (!inbox) return PKV_E_NO_MEMORY;
    *inbox = (pkv__inbox){ .bytes = bytes,
                           .max_requests = max_requests,
                           .max_cancels = max_cancels,
                           .cancels = (pkv_request_id *)(void *)((char *)inbox + cancels_at) };
    if (alloc) inbox->alloc = *alloc;
    if (pthread_mutex_init(&inbox->mutex, NULL) != 0) {
        pkv__free(alloc, inbox, bytes);
        return PKV_E_NO_MEMORY;
    }
    *out = inbox;
    return PKV_OK;
}

void pkv__inbox_destroy(pkv__inbox *inbox)
{
    if (!inbox) return;
    const pkv_allocator alloc = inbox->alloc;
    pthread_mutex_destroy(&inbox->mutex);
    pkv__free(&alloc, inbox, inbox->bytes);
}

pkv_status pkv__inbox_put(pkv__inbox *inbox, void *request, pkv_request_id *id)
{
    pkv_status status = PKV_E_LIMIT;
    pthread_mutex_lock(&inbox->mutex);
    if (inbox->n_waiting < inbox->max_requests) {
        inbox->n_waiting++;
        *id = ++inbox->n_given;
        inbox->requests[inbox->n_given % (uint64_t)inbox->max_requests] = request;
        status = PKV_OK;
    }
    pthread_mutex_unlock(&inbox->mutex);
    return status;
}

pkv_status pkv__inbox_cancel(pkv__inbox *inbox, pkv_request_id id)
{
    pkv_status status = PKV_OK;
    pthread_mutex_lock(&inbox->mutex);
    if (id >= 1 && id <= inbox->n_given) {
        if (inbox->n_cancels < inbox->max_cancels) {
            const int64_t at = (int64_t)inbox->cancel_head + inbox->n_cancels++;
            inbox->cancels[at % inbox->max_cancels] = id;
        } else {
            status = PKV_E_LIMIT;
        }
    }
    pthread_mutex_unlock(&inbox->mutex);
    return status;
}

void *pkv__inbox_take(pkv__inbox *inbox)
{
    void *request = NULL;
    pthread_mutex_lock(&inbox->mutex);
    if (inbox->n_taken < inbox->n_given)
        request = inbox->requests[++inbox->n_taken % (uint64_t)inbox->max_requests];
    pthread_mutex_unlock(&inbox->mutex);
    return request;
}

pkv_request_id pkv__inbox_take_cancel(pkv__inbox *inbox)
{
    pkv_request_id id = 0;
    pthread_mutex_lock(&inbox->mutex);
    if (inbox->n_cancels > 0 && inbox->cancels[inbox->cancel_head] <= inbox->n_taken) {
        id = inbox->cancels[inbox->cancel_head];
        inbox->n_cancels--;
        inbox->cancel_head =
            inbox->cancel_head + 1 < inbox->max_cancels ? inbox->cancel_head + 1 : 0;
    }
    pthread_mutex_unlock(&inbox->mutex);
    return id;
}

void pkv__inbox_left(pkv__inbox *inbox)
{
    pthread_mutex_lock(&inbox->mutex);
    PKV_ASSERT((uint64_t)inbox->n_waiting > inbox->n_given - inbox->n_taken);
    inbox->n_waiting--;
    pthread_mutex_unlock(&inbox->mutex);
}
