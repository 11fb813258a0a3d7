/* kv_write and kv_gather on the device against the CPU's scalar level: every byte of stores, scales
 * and rows, padding included. The two promise the same bits, but for NaNs of norm and rotation,
 * which have finite rows here. */
#include "twin_memory.h"

#include <math.h>

/* ---------------------------------------------------------------- problems */

enum granularity { GIVEN_TENSOR, GIVEN_HEAD, PER_TOKEN, PER_TOKEN_HEAD, ABSENT, N_GRANULARITIES };

struct shape {
    pkv_dtype rows, store, v_store;
    int32_t heads, dim, v_dim, q_heads, block_tokens, n_blocks, n_tokens;
    enum granularity scales;
    bool norm, rope, interleaved, in_place, cruel;
    float shift; /* of all numbers: far from 0 on one side */
};

struct problem {
    struct twins mem;
    struct shape shape;
    pkv_tensor3 k, v, q, q_out;
    pkv_kv_view k_view, v_view;
    pkv_kv_write_args args;
    int64_t *slots;
    int32_t *pos, *n_valid;
    uint32_t *bad;
};

static int64_t bytes_of(pkv_dtype dtype, int64_t n)
{
    return dtype == PKV_U4 ? n / 2 : n * (dtype == PKV_F32 ? 4 : dtype <= PKV_BF16 ? 2 : 1);
}

/* Element `at` becomes x, or a number of the type near it: which one does not matter. */
static void put(void *row, pkv_dtype dtype, int64_t at, float x)
{
    uint32_t u;
    uint16_t half;
    memcpy(&u, &x, sizeof u);
    half = (uint16_t)(u >> 16);
    if (dtype == PKV_F16) {
        const uint32_t exponent = u >> 23 & 255;
        half = (uint16_t)((u >> 16 & 0x8000u) | (u >> 13 & 0x3ffu));
        if (exponent == 255) half |= 0x7c00u;
        else if (exponent > 112 && exponent < 143) half |= (uint16_t)((exponent - 112) << 10);
    }
    if (dtype == PKV_F32) ((float *)row)[at] = x;
    else ((uint16_t *)row)[at] = half;
}

static float draw(struct cuda_rng *r, bool cruel)
{
    static const float odd[] = { 0.f, -0.f, INFINITY, -INFINITY, NAN, -NAN, 1e30f, -3e38f, 1e-42f };
    if (cruel && cuda_random(r, 12) == 0) return odd[cuda_random(r, 9)];
    if (cruel && cuda_random(r, 60) == 0) {
        const uint32_t nan = 0x7f800001u + cuda_random(r, 0x7ffffe);
        float x;
        memcpy(&x, &nan, sizeof x);
        return x;
    }
    return ((float)cuda_random(r, 1u << 24) - 8388608.f) * 0x1p-22f;
}

/* Rows with 8 elements of nothing behind each, and 16 more between tokens. */
static pkv_tensor3 add_rows(struct problem *p, struct cuda_rng *r, pkv_dtype dtype, int32_t heads,
                            int32_t dim)
{
    const int64_t step = dim + 8, row = heads * step + 16, n = p->shape.n_tokens;
    pkv_tensor3 t = { NULL, dtype, heads, dim, n, row, step };
    t.data = twins_add(&p->mem, (size_t)bytes_of(dtype, (n - 1) * row + (heads - 1) * step + dim));
    for (int64_t i = 0; i < n; i++)
        for (int32_t h = 0; h < heads; h++)
            for (int32_t d = 0; d < dim; d++)
                put(t.data, dtype, i * row + h * step + d,
                    draw(r, p->shape.cruel) + p->shape.shift);
    return t;
}

static pkv_scales add_scales(struct problem *p, struct cuda_rng *r, bool codes)
{
    const struct shape *s = &p->shape;
    const int64_t bt = s->block_tokens, heads = s->heads;
    pkv_scales v = { NULL, 0, 0, 0 };
    if (!codes || s->scales == ABSENT) return v;
    const int64_t n = s->scales == GIVEN_TENSOR ? 1 : s->n_blocks * (bt * heads + 3);
    v.data = twins_add(&p->mem, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) v.data[i] = 0.05f + (float)cuda_random(r, 1000) * 1e-3f;
    if (s->scales != GIVEN_TENSOR) v.block_stride = bt * heads + 3;
    if (s->scales == GIVEN_HEAD) v.head_stride = bt;
    if (s->scales >= PER_TOKEN) v.token_stride = 1;
    if (s->scales == PER_TOKEN_HEAD) v.head_stride = bt;
    return v;
}

/* [block][head][token][dim], 32 elements of nothing behind each row, 64 behind each block. */
static pkv_kv_view add_store(struct problem *p, struct cuda_rng *r, pkv_dtype dtype, int32_t dim)
{
    const struct shape *s = &p->shape;
    const int64_t step = (dim + 31) / 32 * 32 + 32, head = s->block_tokens * step;
    pkv_kv_view v = {
        NULL, dtype, s->n_blocks,       s->block_tokens,  s->heads, dim, s->heads * head + 64,
        step, head,  { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    const int64_t last = (v.n_blocks - 1) * v.block_stride + (v.n_heads - 1) * head +
                         (v.block_tokens - 1) * step + dim;
    v.data = twins_add(&p->mem, (size_t)bytes_of(dtype, last));
    v.scales = add_scales(p, r, dtype >= PKV_E4M3);
    v.zeros = add_scales(p, r, dtype == PKV_U4);
    return v;
}

static void add_options(struct problem *p, struct cuda_rng *r)
{
    const struct shape *s = &p->shape;
    enum { POSITIONS = 50 };
    pkv_kv_write_args *a = &p->args;
    if (s->norm) {
        float *weights = twins_add(&p->mem, (size_t)(2 * s->dim + 1) * sizeof(float));
        for (int32_t d = 0; d <= 2 * s->dim; d++) weights[d] = draw(r, false);
        a->k_norm = weights + 1; /* at no multiple of 16 bytes */
        a->q_norm = s->q_heads > 0 ? weights + 1 + s->dim : NULL;
        a->norm_eps = 1e-5f;
    }
    if (!s->rope) return;
    a->rot_dim = s->dim - (s->dim > 8 ? 2 + (int32_t)cuda_random(r, 3) * 2 : 0);
    float *table = twins_add(&p->mem, (size_t)(POSITIONS * a->rot_dim + 1) * sizeof(float));
    for (int32_t i = 0; i <= POSITIONS * a->rot_dim; i++) table[i] = draw(r, false);
    a->rope = table + 1;
    a->n_rope_pos = POSITIONS;
    a->rope_interleaved = s->interleaved;
    a->pos = p->pos = twins_add(&p->mem, (size_t)s->n_tokens * sizeof(int32_t));
    for (int32_t t = 0; t < s->n_tokens; t++) p->pos[t] = (int32_t)cuda_random(r, POSITIONS);
}

/* No slot twice: a permutation of those that exist, some skipped. */
static void add_slots(struct problem *p, struct cuda_rng *r)
{
    const struct shape *s = &p->shape;
    const int32_t n = (s->n_blocks - 1) * s->block_tokens;
    int32_t order[4096];
    assert_true(n <= 4096 && s->n_tokens <= n);
    p->slots = twins_add(&p->mem, (size_t)s->n_tokens * sizeof(int64_t));
    for (int32_t i = 0; i < n; i++) {
        const int32_t j = (int32_t)cuda_random(r, (uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int32_t t = 0; t < s->n_tokens; t++)
        p->slots[t] = cuda_random(r, 10) == 0 ? -1 - (int64_t)t : s->block_tokens + order[t];
}

static void make_problem(struct problem *p, const struct shape *s, uint64_t seed)
{
    struct cuda_rng r = { seed };
    *p = (struct problem){ .shape = *s, .args = PKV_KV_WRITE_ARGS_INIT };
    p->k = add_rows(p, &r, s->rows, s->heads, s->dim);
    p->v = add_rows(p, &r, s->rows, s->heads, s->v_dim);
    p->k_view = add_store(p, &r, s->store, s->dim);
    p->v_view = add_store(p, &r, s->v_store, s->v_dim);
    if (s->q_heads > 0) {
        p->q = add_rows(p, &r, s->rows, s->q_heads, s->dim);
        p->q_out = s->in_place ? p->q : add_rows(p, &r, (s->rows + 1) % 3, s->q_heads, s->dim);
        p->args.q = &p->q;
        p->args.q_out = &p->q_out;
    }
    add_slots(p, &r);
    add_options(p, &r);
    p->bad = twins_add(&p->mem, 4 * sizeof(uint32_t));
    memset(p->bad, 0, 4 * sizeof(uint32_t));
    p->n_valid = twins_add(&p->mem, sizeof(int32_t));
    *p->n_valid = s->n_tokens;
    p->args.k = &p->k;
    p->args.v = &p->v;
    p->args.k_view = &p->k_view;
    p->args.v_view = &p->v_view;
    p->args.slots = p->slots;
    p->args.bad = p->bad;
    p->args.n_valid = p->n_valid;
}

static pkv_kv_view view_there(const struct twins *t, pkv_kv_view v)
{
    v.data = there(t, v.data);
    v.scales.data = there(t, v.scales.data);
    v.zeros.data = there(t, v.zeros.data);
    return v;
}

static pkv_status write_there(pkv_backend *be, const struct problem *p)
{
    const struct twins *t = &p->mem;
    pkv_tensor3 rows[4] = { p->k, p->v, p->q, p->q_out };
    pkv_kv_view views[2] = { view_there(t, p->k_view), view_there(t, p->v_view) };
    pkv_kv_write_args a = p->args;
    for (int i = 0; i < 4; i++) rows[i].data = there(t, rows[i].data);
    a.k = &rows[0];
    a.v = a.v ? &rows[1] : NULL;
    a.q = a.q ? &rows[2] : NULL;
    a.q_out = a.q_out ? &rows[3] : NULL;
    a.k_view = &views[0];
    a.v_view = &views[1];
    a.slots = there(t, a.slots);
    a.n_valid = there(t, a.n_valid);
    a.pos = there(t, a.pos);
    a.bad = there(t, a.bad);
    a.rope = there(t, a.rope);
    a.k_norm = there(t, a.k_norm);
    a.q_norm = there(t, a.q_norm);
    return pkv_kv_write(be, &a, NULL);
}

struct backends {
    pkv_backend *cpu, *cuda;
};

static int make_backends(void **state)
{
    static struct backends b;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    cfg.max_isa = PKV_ISA_SCALAR;
    b = (struct backends){ NULL, cuda_backend(NULL, 2) };
    *state = &b;
    return pkv_backend_create_cpu(&cfg, &b.cpu) != PKV_OK;
}

static int free_backends(void **state)
{
    const struct backends *b = *state;
    pkv_backend_destroy(b->cpu);
    pkv_backend_destroy(b->cuda);
    return 0;
}

static const char *name_of(const struct shape *s, uint64_t seed)
{
    static char text[200];
    snprintf(text, sizeof text,
             "seed %llu: %s to %s/%s, %d heads of %d/%d, %d queries, scales %d, "
             "%d tokens%s%s%s%s%s",
             (unsigned long long)seed, pkv_dtype_name(s->rows), pkv_dtype_name(s->store),
             pkv_dtype_name(s->v_store), s->heads, s->dim, s->v_dim, s->q_heads, s->scales,
             s->n_tokens, s->norm ? ", norm" : "", s->rope ? ", rope" : "",
             s->interleaved ? " 2d" : "", s->in_place ? ", in place" : "",
             s->cruel ? ", cruel" : "");
    return text;
}

/* A report names one offender, which need not be the CPU's; one that stood there before stays. */
static void take_offender(const struct problem *p, bool was_empty)
{
    uint32_t bad[4];
    device_download(bad, there(&p->mem, p->bad), sizeof bad);
    if (was_empty && bad[0] == p->bad[0]) memcpy(p->bad, bad, sizeof bad);
}

static void write_both(const struct backends *b, const struct shape *s, uint64_t seed)
{
    struct problem p;
    make_problem(&p, s, seed);
    twins_upload(&p.mem);
    cuda_schedule((int)(seed % DEVICE_N_SCHEDULES));
    assert_device_ok(write_there(b->cuda, &p));
    assert_int_equal(pkv_kv_write(b->cpu, &p.args, NULL), PKV_OK);
    take_offender(&p, true);
    assert_twins_equal(&p.mem, name_of(s, seed));
    twins_free(&p.mem);
}

/* ---------------------------------------------------------------- kv_write */

/* Every type of rows into every type of store, with every granularity of scales; numbers that are
 * not finite, with all bits of a NaN. */
static void every_type(void **state)
{
    uint64_t seed = 0;
    for (int rows = PKV_F32; rows <= PKV_BF16; rows++)
        for (int store = 0; store < PKV_DTYPE_COUNT; store++)
            for (int scales = 0; scales < N_GRANULARITIES; scales++, seed++) {
                if (store < PKV_E4M3 && scales != ABSENT) continue;
                const struct shape s = { .rows = (pkv_dtype)rows,
                                         .store = (pkv_dtype)store,
                                         .v_store = (pkv_dtype)store,
                                         .heads = 3,
                                         .dim = 64,
                                         .v_dim = 24,
                                         .q_heads = 2,
                                         .block_tokens = 5,
                                         .n_blocks = 5,
                                         .n_tokens = 13,
                                         .scales = (enum granularity)scales,
                                         .in_place = seed % 2,
                                         .cruel = true };
                write_both(*state, &s, seed);
            }
}

/* Every dim, all ways of norm and rotation, K and V of different dims and types. */
static void every_dim(void **state)
{
    for (int32_t dim = 8; dim <= 256; dim += 8) {
        const int32_t way = dim / 8;
        const struct shape s = { .rows = (pkv_dtype)(way % 3),
                                 .store = (pkv_dtype)(way % 7),
                                 .v_store = (pkv_dtype)((way + 3) % 7),
                                 .heads = 1 + way % 5,
                                 .dim = dim,
                                 .v_dim = 264 - dim,
                                 .q_heads = 1 + way % 7,
                                 .block_tokens = 16,
                                 .n_blocks = 3,
                                 .n_tokens = 6,
                                 .scales = way % 2 ? PER_TOKEN_HEAD : PER_TOKEN,
                                 .norm = way % 4 != 1,
                                 .rope = way % 4 != 2,
                                 .interleaved = way / 4 % 2,
                                 .in_place = way % 3 == 0 };
        write_both(*state, &s, 1000 + (uint64_t)dim);
        struct shape other = s;
        other.norm = !s.norm;
        other.interleaved = !s.interleaved;
        other.shift = way % 2 ? 5.f : -5.f;
        write_both(*state, &other, 2000 + (uint64_t)dim);
    }
}

/* Forty heads under all schedules; more tokens than there are warps. */
static void many_heads(void **state)
{
    for (uint64_t seed = 0; seed < DEVICE_N_SCHEDULES; seed++) {
        const struct shape s = { .rows = PKV_F16,
                                 .store = seed % 2 ? PKV_I8 : PKV_E4M3,
                                 .v_store = PKV_F16,
                                 .heads = 40,
                                 .dim = 128,
                                 .v_dim = 128,
                                 .q_heads = 40,
                                 .block_tokens = 16,
                                 .n_blocks = 3,
                                 .n_tokens = 7,
                                 .scales = seed % 3 ? PER_TOKEN : PER_TOKEN_HEAD,
                                 .norm = true,
                                 .rope = true,
                                 .in_place = true };
        write_both(*state, &s, seed);
    }
    const struct shape many = { .rows = PKV_BF16,
                                .store = PKV_BF16,
                                .v_store = PKV_BF16,
                                .heads = 1,
                                .dim = 8,
                                .v_dim = 8,
                                .block_tokens = 16,
                                .n_blocks = 40,
                                .n_tokens = 600,
                                .scales = ABSENT,
                                .cruel = true };
    write_both(*state, &many, 99);
}

/* A graph is captured once for the largest batch, and replayed with fewer valid tokens: the same
 * arguments, and behind the valid ones whatever the last step left. */
static void padded_batch(void **state)
{
    const struct backends *b = *state;
    const struct shape s = { .rows = PKV_BF16,
                             .store = PKV_E4M3,
                             .v_store = PKV_E4M3,
                             .heads = 2,
                             .dim = 64,
                             .v_dim = 64,
                             .q_heads = 4,
                             .block_tokens = 4,
                             .n_blocks = 9,
                             .n_tokens = 24,
                             .scales = PER_TOKEN_HEAD,
                             .norm = true,
                             .rope = true };
    static const int32_t steps[] = { 24, 0, 7, 1, -5, 23, 1000, INT32_MIN };
    struct problem p;
    make_problem(&p, &s, 7);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        *p.n_valid = steps[i];
        for (int32_t t = steps[i] > 0 ? steps[i] : 0; t < s.n_tokens; t++) {
            p.slots[t] = INT64_MAX - t; /* neither written nor reported */
            p.pos[t] = INT32_MAX;
        }
        for (size_t at = 0; at < 100; at++) ((uint16_t *)p.k.data)[at] ^= (uint16_t)(i << 3);
        if (i == 0) twins_upload(&p.mem);
        device_upload(there(&p.mem, p.n_valid), p.n_valid, sizeof *p.n_valid);
        device_upload(there(&p.mem, p.slots), p.slots, (size_t)s.n_tokens * sizeof(int64_t));
        device_upload(there(&p.mem, p.pos), p.pos, (size_t)s.n_tokens * sizeof(int32_t));
        device_upload(there(&p.mem, p.k.data), p.k.data, 200);
        assert_device_ok(write_there(b->cuda, &p));
        assert_int_equal(pkv_kv_write(b->cpu, &p.args, NULL), PKV_OK);
        assert_twins_equal(&p.mem, "padded batch");
        for (int32_t t = 0; t < s.n_tokens; t++) { /* as they were */
            p.slots[t] = 4 + (t * 5 + (int32_t)i) % 32;
            p.pos[t] = t;
        }
    }
    assert_int_equal(p.bad[0], 0);
    twins_free(&p.mem);
}

/* Slots of the null block and beyond the store, positions outside the table: skipped, reported with
 * one of those that were met, and nothing else is touched. */
static void bad_tokens(void **state)
{
    const struct backends *b = *state;
    static const uint32_t earlier[4] = { PKV_BAD_MASK, 71, 72, 73 };
    const int64_t wrong[] = { 0, 4, 45, INT64_MAX, (INT64_C(1) << 32) + 5, INT64_MIN };
    for (int with_q = 0; with_q < 2; with_q++)
        for (uint32_t seed = 0; seed < 24; seed++) {
            const struct shape s = { .rows = PKV_F32,
                                     .store = PKV_I8,
                                     .v_store = PKV_I8,
                                     .heads = 3,
                                     .dim = 40,
                                     .v_dim = 16,
                                     .q_heads = with_q * 3,
                                     .block_tokens = 5,
                                     .n_blocks = 9,
                                     .n_tokens = 12,
                                     .scales = PER_TOKEN_HEAD,
                                     .rope = seed % 2 };
            struct problem p;
            make_problem(&p, &s, seed);
            p.slots[seed % 12] = wrong[seed % 6];
            if (seed % 2) p.pos[(seed + 5) % 12] = seed % 4 == 1 ? -1 : 50;
            if (seed % 3 == 0) ((float *)p.v.data)[8 * p.v.row_stride] = NAN;
            if (seed == 5) p.args.bad = NULL;
            if (seed == 6) memcpy(p.bad, earlier, sizeof earlier); /* sticky, of an earlier call */
            twins_upload(&p.mem);
            cuda_schedule((int)(seed % DEVICE_N_SCHEDULES));
            assert_device_ok(write_there(b->cuda, &p)); /* a bad table is no error of the call */
            const pkv_status status = pkv_kv_write(b->cpu, &p.args, NULL);
            assert_true(status == PKV_OK || status == PKV_E_INVALID_ARG);
            uint32_t bad[4];
            device_download(bad, there(&p.mem, p.bad), sizeof bad);
            assert_int_equal(bad[0], p.bad[0]);
            if (bad[0] && bad[0] != (bad[0] | PKV_BAD_MASK)) {
                assert_true(bad[1] == 0 && bad[2] < 12);
                const int64_t slot = p.slots[bad[2]];
                assert_int_equal(bad[3], slot < 0 || slot > UINT32_MAX ? UINT32_MAX : slot);
                const bool was = bad[2] == seed % 12 || bad[2] == (seed + 5) % 12 || bad[2] == 8;
                assert_true(was);
            }
            take_offender(&p, seed != 6);
            assert_twins_equal(&p.mem, name_of(&s, seed));
            twins_free(&p.mem);
        }
}

/* The grid is the device's, whatever the batch, and no larger than what there is to do. */
static void grids(void **state)
{
    const struct backends *b = *state;
    const struct shape one = { .rows = PKV_F16,
                               .store = PKV_F16,
                               .v_store = PKV_F16,
                               .heads = 2,
                               .dim = 128,
                               .v_dim = 128,
                               .block_tokens = 16,
                               .n_blocks = 2,
                               .n_tokens = 1,
                               .scales = ABSENT };
    const uint64_t before = device_get_totals().blocks;
    write_both(b, &one, 1);
    assert_int_equal(device_get_totals().blocks, before + 1);
    struct shape many = one;
    many.heads = 65;
    many.n_blocks = 17;
    many.n_tokens = 256;
    write_both(b, &many, 2);
    assert_true(device_get_totals().blocks <= before + 1 + 2 * 2048 / 128); /* of 2 SMs */
}

/* Rows, slots, scales and queries whose offsets are beyond 2^32 elements. */
static void far_away(void **state)
{
    const struct backends *b = *state;
    const int64_t block = (INT64_C(1) << 32) + 64, row = (INT64_C(1) << 31) + 8;
    unsigned char *pool = device_alloc_sparse((size_t)(block * 2 + 64));
    float *scales = device_alloc_sparse((size_t)(row * 2 + 1) * sizeof(float));
    uint16_t *k = device_alloc_sparse((size_t)(row + 16) * 2), x[16], out[16];
    int64_t slots[2] = { 3, -1 }, *slots_there = device_alloc(sizeof slots);
    if (!pool || !scales || !k) skip();
    for (int d = 0; d < 16; d++) x[d] = (uint16_t)(0x3c00 + 16 * d);
    device_upload(k + row, x, sizeof x);
    slots[0] = -1, slots[1] = 2 * 1 + 0;
    device_upload(slots_there, slots, sizeof slots);
    pkv_tensor3 rows = { k, PKV_F16, 1, 16, 2, row, 16 }, q_out = rows;
    pkv_kv_view view = {
        pool, PKV_E5M2, 3, 1, 1, 16, block, 16, 16, { scales, row, 1, 1 }, { NULL, 0, 0, 0 }
    };
    pkv_kv_write_args a = PKV_KV_WRITE_ARGS_INIT;
    const float one = 1;
    device_upload(scales + 2 * row, &one, sizeof one);
    a.k = a.q = &rows;
    q_out.data = device_alloc_sparse((size_t)(row + 16) * 2);
    a.q_out = &q_out;
    a.k_view = &view;
    a.slots = slots_there;
    assert_device_ok(pkv_kv_write(b->cuda, &a, NULL));
    uint8_t codes[8]; /* of 1 to 1.11, between which and 1.25 lies 1.125 */
    device_download(codes, pool + 2 * block, sizeof codes);
    for (int d = 0; d < 8; d++) assert_int_equal(codes[d], 0x3c);
    device_download(out, (uint16_t *)q_out.data + row, sizeof out);
    assert_memory_equal(out, x, sizeof x);

    slots[0] = slots[1] = 2;
    device_upload(slots_there, slots, sizeof slots);
    assert_device_ok(pkv_kv_gather(b->cuda, &view, slots_there, &q_out, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        device_download(out, (uint16_t *)q_out.data + i * row, sizeof out);
        assert_int_equal(out[0], 0x3c00);
    }
    device_free(pool);
    device_free(scales);
    device_free(k);
    device_free(q_out.data);
    device_free(slots_there);
}

/* ---------------------------------------------------------------- kv_gather */

static void gather_both(const struct backends *b, const struct shape *s, pkv_dtype to,
                        uint64_t seed)
{
    struct cuda_rng r = { seed };
    struct problem p = { .shape = *s };
    static const int64_t odd[] = { -1, INT64_MIN, INT64_MAX, INT64_C(1) << 33 };
    p.k_view = add_store(&p, &r, s->store, s->dim);
    for (int i = 0; i < p.mem.n; i++) /* codes; scales are drawn */
        for (size_t at = 0; i == 0 && at < p.mem.at[i].bytes; at++)
            p.mem.at[i].host[at] = (unsigned char)cuda_random(&r, 256);
    p.k = add_rows(&p, &r, to, s->heads, s->dim);
    p.slots = twins_add(&p.mem, (size_t)s->n_tokens * sizeof(int64_t));
    p.bad = twins_add(&p.mem, 4 * sizeof(uint32_t));
    memset(p.bad, 0, 4 * sizeof(uint32_t));
    const int32_t n = s->n_blocks * s->block_tokens;
    for (int32_t i = 0; i < s->n_tokens; i++)
        p.slots[i] = cuda_random(&r, 6) == 0 ? odd[cuda_random(&r, seed % 2 ? 4 : 2)]
                                             : (int64_t)cuda_random(&r, (uint32_t)n + seed % 2);
    twins_upload(&p.mem);
    cuda_schedule((int)(seed % DEVICE_N_SCHEDULES));
    const pkv_kv_view view = view_there(&p.mem, p.k_view);
    pkv_tensor3 out = p.k;
    out.data = there(&p.mem, out.data);
    assert_device_ok(
        pkv_kv_gather(b->cuda, &view, there(&p.mem, p.slots), &out, there(&p.mem, p.bad), NULL));
    const pkv_status status = pkv_kv_gather(b->cpu, &p.k_view, p.slots, &p.k, p.bad, NULL);
    assert_true(status == (p.bad[0] ? PKV_E_INVALID_ARG : PKV_OK));
    take_offender(&p, true);
    assert_twins_equal(&p.mem, name_of(s, seed));
    twins_free(&p.mem);
}

/* Every type of store to every type of rows, every granularity, the null block's rows too. */
static void gathers(void **state)
{
    uint64_t seed = 0;
    for (int to = PKV_F32; to <= PKV_BF16; to++)
        for (int store = 0; store < PKV_DTYPE_COUNT; store++)
            for (int scales = 0; scales < N_GRANULARITIES; scales++, seed++) {
                const struct shape s = { .rows = (pkv_dtype)to,
                                         .store = (pkv_dtype)store,
                                         .heads = 1 + (int32_t)(seed % 6),
                                         .dim = 8 + 8 * (int32_t)(seed * 7 % 32),
                                         .block_tokens = 5,
                                         .n_blocks = 4,
                                         .n_tokens = 15,
                                         .scales = (enum granularity)scales };
                gather_both(*state, &s, (pkv_dtype)to, seed);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),   cmocka_unit_test(every_dim),  cmocka_unit_test(many_heads),
        cmocka_unit_test(padded_batch), cmocka_unit_test(bad_tokens), cmocka_unit_test(grids),
        cmocka_unit_test(far_away),     cmocka_unit_test(gathers),
    };
    return cmocka_run_group_tests(tests, make_backends, free_backends);
}
