/* Block tables for every layout. */
#include "layout_build.h"

#include <stdlib.h>
#include <string.h>

const char *layout_name(enum bench_layout layout)
{
    static const char *const names[LAYOUT_COUNT] = {
        "contig-hnd", "contig-nhd", "identity-table", "paged-seq", "paged-random", "paged-reversed"
    };
    return names[layout];
}

bool layout_is_paged(enum bench_layout layout)
{
    return layout >= LAYOUT_PAGED_SEQ;
}

/* The usable ids of the pool in the order in which sequences take them. */
static int32_t *pool_order(enum bench_layout layout, int32_t n_usable, struct bench_rng *rng,
                           struct bench_error *err)
{
    int32_t *order = bench_calloc((size_t)n_usable, sizeof(*order), err);
    if (!order) return NULL;
    for (int32_t i = 0; i < n_usable; i++)
        order[i] = layout == LAYOUT_PAGED_REVERSED ? n_usable - i : i + 1;
    if (layout == LAYOUT_PAGED_RANDOM) bench_shuffle(rng, order, n_usable);
    return order;
}

bool layout_build(enum bench_layout layout, const int32_t *kv_len, int32_t n_seqs,
                  int32_t block_tokens, int32_t n_spare, struct bench_rng *rng,
                  struct layout_table *out, struct bench_error *err)
{
    struct layout_table t;
    memset(&t, 0, sizeof(t));
    t.n_seqs = n_seqs;
    for (int32_t b = 0; b < n_seqs; b++) {
        const int64_t n = ((int64_t)kv_len[b] + block_tokens - 1) / block_tokens;
        t.n_used += n;
        if (n > t.stride) t.stride = n;
    }
    if (t.n_used + n_spare + 1 > INT32_MAX)
        return bench_fail(err, BENCH_USAGE, "the batch needs more than 2^31 blocks");
    t.n_blocks = (int32_t)(t.n_used + n_spare + 1);
    int32_t *order = pool_order(layout, t.n_blocks - 1, rng, err);
    if (!order) return false;
    t.ids = bench_calloc((size_t)(n_seqs * t.stride), sizeof(*t.ids), err);
    if (!t.ids) {
        free(order);
        return false;
    }
    int64_t next = 0;
    for (int32_t b = 0; b < n_seqs; b++) {
        const int64_t n = ((int64_t)kv_len[b] + block_tokens - 1) / block_tokens;
        for (int64_t i = 0; i < t.stride; i++) t.ids[b * t.stride + i] = i < n ? order[next++] : -1;
    }
    free(order);
    *out = t;
    return true;
}

void layout_free(struct layout_table *table)
{
    free(table->ids);
    memset(table, 0, sizeof(*table));
}
