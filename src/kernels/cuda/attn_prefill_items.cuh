/* The work of attention over long rows, as a line of items that blocks of threads take tickets for.
 *
 *   item      64 queries (row, head of the group) of one sequence, against one kv head
 *   order     sequences as in the batch; in each the last queries first, for they see most keys;
 *             under them the kv heads
 *   parts     where there are fewer items than CTAs, each is cut into as many runs of whole tiles
 *             of keys: ticket = item * n_parts + part
 *
 * Nobody needs a list: each CTA counts the batch once, and then goes through it once more, as its
 * tickets do. Every CTA takes one ticket in vain, so that n_tickets + n_ctas of them are taken and
 * the counter is back at 0. In a workspace that was never initialised it cannot be trusted: CTA c
 * takes items c, c + n_ctas .. then, uncut. */
#ifndef PKV_ATTN_PREFILL_ITEMS_CUH
#define PKV_ATTN_PREFILL_ITEMS_CUH

#include "kernels/cuda/attn_batch.cuh"
#include "kernels/cuda/attn_prefill.h"
#include "kernels/cuda/attn_rows.cuh"

struct pkv__prefill_item {
    pkv__cut cut;
    int32_t seq, kv_head;
    int32_t slot, part, n_parts; /* slot: of part 0, where the item is cut */
    int64_t query, n_queries;    /* first one; all of the sequence */
};

/* n / by, for n below 2^46 and by up to 2^16: in two steps of 31 bits. */
PKV_DEV int64_t pkv__long_quotient(int64_t n, pkv__divider d)
{
    const int32_t high = (int32_t)(n >> 15), above = pkv__quotient(high, d);
    const int32_t rest = (high - above * d.by) << 15 | (int32_t)(n & 0x7fff);
    return (int64_t)above << 15 | pkv__quotient(rest, d);
}

/* What items are counted and found by; divided once. */
struct pkv__prefill_dividers {
    pkv__divider parts, heads, group, block; /* of an item, of K, of q per head of K; in tokens */
};

/* Where a CTA stands. */
struct pkv__prefill_line {
    int64_t n_tickets, ticket; /* from n_tickets on: there are no more */
    int64_t begin, end;        /* items of the chunk of sequences that lies in `cuts` */
    int32_t chunk, next_row;   /* next_row: behind that chunk */
    int32_t drawn;             /* 1: by tickets */
    int32_t n_parts;
};

/* In shared memory, for registers are full of sums. Thread 0 writes all but `cuts` and `begins`. */
struct pkv__prefill_space {
    pkv__scan_space<PKV__PREFILL_THREADS> scan;
    pkv__cut cuts[PKV__PREFILL_THREADS]; /* of a chunk of sequences */
    int64_t begins[PKV__PREFILL_THREADS];
    pkv__prefill_line line;
    pkv__prefill_dividers by;
    pkv__prefill_item item; /* by the thread whose sequence it is */
    uint32_t arrived;       /* at an item that is cut, before this CTA */
};

PKV_DEV int64_t pkv__prefill_items_of(const struct pkv__cuda_attn &a, int32_t q_len)
{
    if (!pkv__takes(a, q_len)) return 0;
    const int64_t queries = (int64_t)q_len * a.group;
    return (queries + PKV__PREFILL_ROWS - 1) / PKV__PREFILL_ROWS * a.k.n_heads;
}

/* Items of the whole batch; one CTA reports what is wrong with it. */
PKV_DEV int64_t pkv__prefill_count(const struct pkv__cuda_attn &a, pkv__prefill_space *space)
{
    uint32_t *const bad = pkv_block() == 0 ? a.opts.bad : nullptr;
    int64_t n = 0, of_chunk;
    int32_t next_row = 0;
    for (int32_t first = 0; first < a.batch.n_seqs; first += PKV__PREFILL_THREADS) {
        const pkv__cut cut =
            pkv__cut_chunk<PKV__PREFILL_THREADS>(a, first, &next_row, bad, &space->scan);
        pkv__scan<PKV__PREFILL_THREADS>(pkv__prefill_items_of(a, cut.q_len), &of_chunk,
                                        &space->scan);
        n += of_chunk;
    }
    return n;
}

/* Parts that make use of all CTAs, or of all slots for their states. */
PKV_DEV int32_t pkv__prefill_parts(int64_t n_items, int32_t n_ctas)
{
    const int32_t slots = n_ctas < PKV__PREFILL_SLOTS ? n_ctas : PKV__PREFILL_SLOTS;
    return n_items == 0 || n_items * 2 > slots ? 1 : (int32_t)(slots / n_items);
}

PKV_DEV void pkv__prefill_begin(const struct pkv__cuda_attn &a, pkv__prefill_space *space)
{
    const int64_t n_items = pkv__prefill_count(a, space);
    if (pkv_thread() != 0) return;
    pkv__prefill_line line = {};
    line.drawn = pkv_ldv<uint32_t>(&a.head->magic) == PKV__CUDA_WORKSPACE_MAGIC &&
                 n_items < INT32_MAX - PKV__CUDA_MAX_CTAS;
    const bool cut = line.drawn && a.chunk == 0;
    line.n_parts = cut ? pkv__prefill_parts(n_items, pkv_n_blocks()) : 1;
    line.n_tickets = n_items * line.n_parts;
    line.ticket = (int64_t)pkv_block() - pkv_n_blocks();
    line.chunk = -PKV__PREFILL_THREADS;
    space->line = line;
    space->by = { pkv__divider_of(line.n_parts), pkv__divider_of(a.k.n_heads),
                  pkv__divider_of(a.group), pkv__divider_of(a.k.block_tokens) };
}

/* Take the next ticket of this CTA; false: there is none. */
PKV_DEV bool pkv__prefill_draw(const struct pkv__cuda_attn &a, pkv__prefill_space *space)
{
    pkv__prefill_line *const line = &space->line;
    if (pkv_thread() == 0) {
        if (line->drawn)
            line->ticket = pkv_atomic_inc_acq_rel(&a.head->ticket[0],
                                                  (uint32_t)line->n_tickets + pkv_n_blocks() - 1);
        else line->ticket += pkv_n_blocks();
    }
    pkv_syncthreads();
    return line->ticket < line->n_tickets;
}

/* The next chunk of sequences into `cuts` and `begins`. */
PKV_DEV void pkv__prefill_advance(const struct pkv__cuda_attn &a, pkv__prefill_line &line,
                                  pkv__prefill_space *space)
{
    int64_t of_chunk;
    line.chunk += PKV__PREFILL_THREADS;
    const pkv__cut cut =
        pkv__cut_chunk<PKV__PREFILL_THREADS>(a, line.chunk, &line.next_row, nullptr, &space->scan);
    const int64_t before = pkv__scan<PKV__PREFILL_THREADS>(pkv__prefill_items_of(a, cut.q_len),
                                                           &of_chunk, &space->scan);
    line.begin = line.end;
    space->cuts[pkv_thread()] = cut;
    space->begins[pkv_thread()] = line.begin + before;
    line.end += of_chunk;
}

/* What the ticket is for, into `item`. Tickets of a CTA ascend. */
PKV_DEV void pkv__prefill_find(const struct pkv__cuda_attn &a, pkv__prefill_space *space)
{
    pkv__prefill_line line = space->line;
    const int64_t item = pkv__long_quotient(line.ticket, space->by.parts);
    pkv_syncthreads(); /* all have read it */
    while (item >= line.end) pkv__prefill_advance(a, line, space);
    if (pkv_thread() == 0) space->line = line;
    const pkv__cut cut = space->cuts[pkv_thread()];
    const int64_t at = item - space->begins[pkv_thread()];
    const int64_t n = pkv__prefill_items_of(a, cut.q_len);
    if (at >= 0 && at < n) {
        pkv__prefill_item *const it = &space->item;
        it->cut = cut;
        it->seq = line.chunk + pkv_thread();
        const int64_t tile = pkv__long_quotient(at, space->by.heads);
        it->kv_head = (int32_t)(at - tile * a.k.n_heads);
        it->n_parts = line.n_parts;
        it->part = (int32_t)(line.ticket - item * it->n_parts);
        it->slot = (int32_t)(item * it->n_parts);
        it->n_queries = (int64_t)cut.q_len * a.group;
        it->query = (pkv__long_quotient(n, space->by.heads) - 1 - tile) * PKV__PREFILL_ROWS;
    }
    pkv_syncthreads();
}

#endif
