/* Top-k and top-p without sorting the row.
 *
 *   all tokens --by distance to the largest--> 2048 buckets; the one in which the cut falls
 *              --quickselect in it--> the last token that stays --one pass--> zeros behind it
 *
 * Order: larger logit first, lower id first among equal ones. It is the order of logits, not of
 * weights, so that rounding in the exponential cannot change it; and a total one, so that no row is
 * bad for quickselect by having equal logits. */
#include "model/sampler_internal.h"

#include <math.h>
#include <string.h>

/* What may stay: so many tokens, or as many as it takes to weigh so much. */
typedef struct limit {
    int32_t count;
    double mass;
} limit;

/* Rounding is monotonic: a larger logit never lands in a later bucket. */
static uint32_t bucket_of(float largest, float logit)
{
    const float distance = largest - logit;
    uint32_t bits;
    memcpy(&bits, &distance, sizeof(bits));
    return bits >> SAMPLER_BUCKET_SHIFT;
}

static void count_buckets(pkv__sampler *sampler, float largest)
{
    memset(sampler->buckets, 0, sizeof(sampler->buckets));
    for (int32_t i = 0; i < sampler->vocab; i++)
        sampler->buckets[bucket_of(largest, sampler->work[i])].count++;
}

static void weigh_buckets(pkv__sampler *sampler, float largest)
{
    memset(sampler->buckets, 0, sizeof(sampler->buckets));
    for (int32_t at = 0; at < sampler->vocab; at += SAMPLER_RUN) {
        const int32_t end = pkv__min_i32(at + SAMPLER_RUN, sampler->vocab);
        if (sampler->run_sum[at / SAMPLER_RUN] == 0) continue; /* after top-k most are */
        for (int32_t i = at; i < end; i++) {
            pkv__sampler_bucket *bucket = &sampler->buckets[bucket_of(largest, sampler->work[i])];
            bucket->count++;
            bucket->mass += sampler->weight[i];
        }
    }
}

/* The bucket that reaches a limit, and what is left of the limit at its beginning. */
static uint32_t find_bucket(const pkv__sampler *sampler, limit *left)
{
    uint32_t last = 0; /* with anything in it: rounding may keep mass from the end */
    limit left_at_last = *left;
    for (uint32_t b = 0; b < SAMPLER_BUCKETS; b++) {
        const pkv__sampler_bucket *bucket = &sampler->buckets[b];
        if (bucket->count == 0) continue;
        last = b;
        left_at_last = *left;
        if (bucket->count >= left->count || bucket->mass >= left->mass) break;
        left->count -= bucket->count;
        left->mass -= bucket->mass;
    }
    *left = left_at_last;
    return last;
}

/* weight may be NULL: nobody asks for it. */
static int32_t gather_bucket(pkv__sampler *sampler, float largest, uint32_t bucket,
                             const double *weight)
{
    int32_t n = 0;
    for (int32_t i = 0; i < sampler->vocab; i++) {
        if (bucket_of(largest, sampler->work[i]) != bucket) continue;
        sampler->entries[n++] = (pkv__sampler_entry){ weight ? weight[i] : 0, sampler->work[i], i };
    }
    return n;
}

static void swap_entries(pkv__sampler_entry *a, pkv__sampler_entry *b)
{
    const pkv__sampler_entry t = *a;
    *a = *b;
    *b = t;
}

/* Put the middle one of three at the end: there it is the pivot. `state` makes their places hard to
 * aim at; it is the same for each call, so that a row has one result. */
static void choose_pivot(pkv__sampler_entry *e, int32_t n, uint32_t *state)
{
    int32_t at[3];
    for (int32_t i = 0; i < 3; i++) {
        *state = *state * 1664525u + 1013904223u;
        at[i] = (int32_t)((uint64_t)*state * (uint32_t)n >> 32);
    }
    const bool ab = pkv__entry_is_before(&e[at[0]], &e[at[1]]);
    const bool bc = pkv__entry_is_before(&e[at[1]], &e[at[2]]);
    const bool ac = pkv__entry_is_before(&e[at[0]], &e[at[2]]);
    const int32_t middle = ab == bc ? at[1] : ab == ac ? at[2] : at[0];
    swap_entries(&e[middle], &e[n - 1]);
}

/* Entries before the pivot to the front; returns their number, adds up their weight. */
static int32_t partition(pkv__sampler_entry *e, int32_t n, double *mass)
{
    int32_t n_before = 0;
    *mass = 0;
    for (int32_t i = 0; i < n - 1; i++) {
        if (!pkv__entry_is_before(&e[i], &e[n - 1])) continue;
        *mass += e[i].weight;
        swap_entries(&e[i], &e[n_before++]);
    }
    swap_entries(&e[n_before], &e[n - 1]);
    return n_before;
}

/* The entry with which the first ones, in order, reach a limit; the last one if none does. */
static pkv__sampler_entry select_last(pkv__sampler_entry *e, int32_t n, limit left)
{
    uint32_t state = 1;
    while (n > 1) {
        double mass;
        choose_pivot(e, n, &state);
        const int32_t n_before = partition(e, n, &mass);
        if (n_before > 0 && (n_before >= left.count || mass >= left.mass)) {
            n = n_before;
            continue;
        }
        const pkv__sampler_entry pivot = e[n_before];
        const bool reached =
            n_before + 1 >= left.count || mass + pivot.weight >= left.mass || n_before + 1 == n;
        if (reached) return pivot;
        left.count -= n_before + 1;
        left.mass -= mass + pivot.weight;
        e += n_before + 1;
        n -= n_before + 1;
    }
    return e[0];
}

static bool stays(float logit, int32_t id, const pkv__sampler_entry *last)
{
    return logit > last->logit || (logit == last->logit && id <= last->id);
}

void pkv__sampler_cut_top_k(pkv__sampler *sampler, float largest, int32_t top_k)
{
    limit left = { .count = top_k, .mass = INFINITY };
    float *work = sampler->work;
    count_buckets(sampler, largest);
    const uint32_t bucket = find_bucket(sampler, &left);
    const int32_t n = gather_bucket(sampler, largest, bucket, NULL);
    const pkv__sampler_entry last = select_last(sampler->entries, n, left);
    for (int32_t i = 0; i < sampler->vocab; i++)
        work[i] = stays(work[i], i, &last) ? work[i] : -INFINITY;
}

void pkv__sampler_cut_top_p(pkv__sampler *sampler, float largest, double mass)
{
    limit left = { .count = INT32_MAX, .mass = mass };
    double *weight = sampler->weight;
    weigh_buckets(sampler, largest);
    const uint32_t bucket = find_bucket(sampler, &left);
    const int32_t n = gather_bucket(sampler, largest, bucket, weight);
    const pkv__sampler_entry last = select_last(sampler->entries, n, left);
    for (int32_t i = 0; i < sampler->vocab; i++)
        weight[i] = stays(sampler->work[i], i, &last) ? weight[i] : 0;
}
