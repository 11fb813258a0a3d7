/* Latent attention: queries, keys and what is seen of them, to shared memory. */
#ifndef PKV_ATTN_MLA_LOAD_CUH
#define PKV_ATTN_MLA_LOAD_CUH

#include "kernels/cuda/attn_codes_scales.cuh"
#include "kernels/cuda/attn_mla.cuh"

/* ---------------------------------------------------------------- queries */
/* First element of q in the 16-byte chunk of columns; -1: there are zeros. */
PKV_DEV int32_t mla_q_element(const struct pkv__cuda_mla &c, int32_t chunk)
{
    const int32_t part = pkv__quotient(8 * chunk, c.by_part_pitch);
    const int32_t d = 8 * chunk - part * c.part_pitch;
    return part < c.attn.k.n_heads && d < c.attn.k.dim ? part * c.attn.k.dim + d : -1;
}

/* A row of up to N * 32 chunks from registers to shared memory; a warp does it. Returns what undoes
 * the factor of a row that goes from bf16 to f16. */
template <int N>
PKV_DEV float mla_put_row(unsigned char *to, int32_t lane, int32_t row, int32_t pitch,
                          const uint4 (&x)[N], int32_t n_chunks, bool to_f16)
{
    int32_t shift = 0;
    if (to_f16) {
        float largest = 0;
        PKV_UNROLL
        for (int32_t i = 0; i < N; i++) largest = fmaxf(largest, pkv__largest_of(x[i]));
        shift = pkv__half_shift(pkv_warp_max(largest));
    }
    PKV_UNROLL
    for (int32_t i = 0; i < N; i++) {
        const int32_t chunk = lane + 32 * i;
        const uint4 y = to_f16 ? pkv__halves_of(x[i], pkv__pow2(shift)) : x[i];
        if (chunk < n_chunks) pkv_stv(to + mla_at(row, pitch, chunk), y);
    }
    return pkv__pow2(-shift);
}

PKV_DEV const unsigned char *mla_q_row(const pkv_tensor3 &q, int64_t row, int32_t head)
{
    return static_cast<const unsigned char *>(q.data) +
           2 * (row * q.row_stride + head * q.head_stride);
}

/* All queries of the item, a warp 8 of them, and what turns their products into logits. Rows
 * without a query: zeros, as far as products look. */
template <class Store> PKV_DEV void mla_load_queries(const struct pkv__cuda_mla &c, mla_shared *s)
{
    const mla_item &item = s->item;
    const bool bf16 = c.attn.q.dtype == PKV_BF16, rope_bf16 = c.attn.v.dtype == PKV_BF16;
    const bool to_f16 = bf16 && !Store::IS_BF16;
    const int32_t lane = mla_fresh_lane(), n_rows = 16 * mla_m_tiles(item);
    const int32_t first[2] = { s->places.q[0][lane], s->places.q[1][lane] };
    for (int32_t i = pkv_warp(); i < n_rows; i += MLA_WARPS) {
        const bool exists = i < item.n_queries;
        const int32_t query = item.first_query + (exists ? i : 0);
        const int32_t row = pkv__quotient(query, c.by_heads), head = query - row * c.attn.q.n_heads;
        const unsigned char *latent = mla_q_row(c.attn.q, (int64_t)item.row0 + row, head);
        const unsigned char *rope = mla_q_row(c.q_rope, (int64_t)item.row0 + row, head);
        const uint4 none = make_uint4(0, 0, 0, 0);
        uint4 x[2] = { none, none }, r[1] = { none };
        PKV_UNROLL
        for (int32_t h = 0; h < 2; h++)
            if (exists && first[h] >= 0) x[h] = pkv_ldv_const<uint4>(latent + 2 * first[h]);
        if (exists && 8 * lane < c.q_rope.dim) r[0] = pkv_ldv_const<uint4>(rope + 16 * lane);
        const float a =
            mla_put_row<2>(s->q_latent, lane, i, MLA_LATENT_BYTES, x, c.n_columns / 8, to_f16);
        const float b = mla_put_row<1>(s->q_rope, lane, i, MLA_ROPE_BYTES, r, c.rope_columns / 8,
                                       bf16 && !rope_bf16);
        if (lane == 0) {
            s->latent_factor[i] = c.attn.scale * a;
            s->rope_factor[i] = c.attn.scale * b;
        }
    }
}

/* ---------------------------------------------------------------- what is seen */
/* Which keys of a tile the queries see; threads 0 .. 63, one query each, in whole warps. */
PKV_DEV void mla_look(const struct pkv__cuda_mla &c, mla_shared *s, int32_t tile, int32_t buffer)
{
    const mla_item &item = s->item;
    const int32_t i = pkv_thread();
    if (i >= MLA_QUERIES) return;
    if (i == 0) s->odd[buffer] = s->finite[buffer] = 0;
    const bool exists = i < item.n_queries && tile < item.tile_hi;
    const int32_t row = pkv__quotient(item.first_query + (exists ? i : 0), c.by_heads);
    const uint32_t seen = exists ? pkv__sight_word(s->sight, row, tile * MLA_KEYS) : 0;
    uint32_t any = seen;
    PKV_UNROLL
    for (int32_t by = 16; by > 0; by /= 2) any |= pkv_shfl_xor(any, by);
    s->seen[buffer][i] = seen;
    if (pkv_lane() == 0) s->any[buffer][pkv_warp()] = any;
}

/* ---------------------------------------------------------------- keys */
template <class Store> constexpr int32_t MLA_CHUNKS = Store::IS_CODES ? 1 : 2;
/* Worked out by a warp. */
template <class Store>
PKV_DEV void mla_set_places(const struct pkv__cuda_mla &c, mla_places *places)
{
    const pkv_kv_view &k = c.attn.k;
    const int32_t lane = pkv_lane();
    const int32_t bits = !Store::IS_CODES ? 16 : k.dtype == PKV_U4 ? 4 : 8;
    const int32_t elements = 128 / bits; /* of a chunk */
    PKV_UNROLL
    for (int32_t i = 0; i < 2; i++) {
        const int32_t column = elements * (lane + 32 * i);
        const int32_t part = pkv__quotient(column, c.by_part_pitch);
        const int32_t d = column - part * c.part_pitch, left = k.dim - d;
        const int32_t there = part >= k.n_heads || left < 0 ? 0 : left < elements ? left : elements;
        places->at[i][lane] = (part * k.head_stride + d) * bits / 8;
        places->q[i][lane] = mla_q_element(c, lane + 32 * i);
        places->bytes[i][lane] =
            column < c.n_columns && i < MLA_CHUNKS<Store> ? there * bits / 8 : -1;
    }
}

/* What a lane, which stands for a key of the tile, has fetched ahead of its use. */
struct mla_ahead {
    int32_t id;  /* entry of the table, of the tile that is copied next */
    float scale; /* of the tile that is used next, of the part that the warp has */
};

PKV_DEV int32_t mla_fetch_id(const struct pkv__cuda_mla &c, const mla_item &item, int32_t tile)
{
    if (!item.ids || tile >= item.tile_hi) return 0; /* its keys may lie beyond 2^31 */
    const int32_t key = tile * MLA_KEYS + pkv_lane();
    if (key >= item.kv_len) return 0;
    return pkv_ldv_const<int32_t>(item.ids + pkv__quotient(key, c.by_block_tokens));
}

/* The block of a key that somebody sees. */
PKV_DEV int32_t mla_block_of(const struct pkv__cuda_mla &c, const mla_item &item, int32_t entry,
                             int32_t id)
{
    if (!item.ids) return item.seq;
    return pkv__checked_id(id, c.attn.k.n_blocks, c.attn.opts.bad, item.seq, entry);
}

/* Start the copies of a tile, of the keys that somebody sees; the others become zeros. A warp has
 * four rows. */
template <class Store>
PKV_DEV void mla_issue(const struct pkv__cuda_mla &c, mla_shared *s, int32_t tile, int32_t stage,
                       int32_t buffer, mla_ahead *ahead)
{
    const mla_item &item = s->item;
    const mla_places &places = s->places;
    const pkv_kv_view &k = c.attn.k, &v = c.attn.v;
    const int32_t lane = mla_fresh_lane(), key = tile * MLA_KEYS + lane;
    const uint32_t live = s->any[buffer][0] | s->any[buffer][1];
    const bool lives = live >> lane & 1u;
    const int32_t entry = pkv__quotient(key, c.by_block_tokens);
    const int64_t token = lives ? key - entry * k.block_tokens : 0;
    const int64_t block = lives ? mla_block_of(c, item, entry, ahead->id) : 0;
    const int32_t bits = !Store::IS_CODES ? 16 : k.dtype == PKV_U4 ? 4 : 8;
    const int64_t latent_at = (block * k.block_stride + token * k.token_stride) * bits / 8;
    const int64_t rope_at = 2 * (block * v.block_stride + token * v.token_stride);
    const unsigned char *latent = static_cast<const unsigned char *>(k.data);
    const unsigned char *rope = static_cast<const unsigned char *>(v.data);
    int64_t at[MLA_CHUNKS<Store>];
    int32_t bytes[MLA_CHUNKS<Store>];
    PKV_UNROLL
    for (int32_t h = 0; h < MLA_CHUNKS<Store>; h++) {
        at[h] = places.at[h][pkv_lane()];
        bytes[h] = places.bytes[h][pkv_lane()];
    }
    PKV_UNROLL
    for (int32_t i = 0; i < MLA_ROWS_PER_WARP; i++) {
        const int32_t row = MLA_ROWS_PER_WARP * pkv_warp() + i;
        const unsigned char *from = latent + pkv_shfl(latent_at, row);
        const bool there = live >> row & 1u;
        if constexpr (Store::IS_CODES) {
            unsigned char *to = s->latent[1] + stage * (MLA_KEYS * MLA_CODE_BYTES);
            if (bytes[0] >= 0)
                pkv_cp_async16(to + row * MLA_CODE_BYTES + 16 * lane, from + at[0],
                               there ? bytes[0] : 0);
        } else {
            PKV_UNROLL
            for (int32_t h = 0; h < 2; h++)
                if (bytes[h] >= 0)
                    pkv_cp_async16(s->latent[stage] + mla_at(row, MLA_LATENT_BYTES, lane + 32 * h),
                                   from + at[h], there ? bytes[h] : 0);
        }
    }
    PKV_UNROLL
    for (int32_t i = 0; i < MLA_ROWS_PER_WARP; i += 2) {
        const int32_t row = MLA_ROWS_PER_WARP * pkv_warp() + i + lane / 16, chunk = lane % 16;
        const unsigned char *from = rope + pkv_shfl(rope_at, row) + 16 * chunk;
        if (8 * chunk < c.rope_columns)
            pkv_cp_async16(s->rope[stage] + mla_at(row, MLA_ROPE_BYTES, chunk), from,
                           (live >> row & 1u) && 8 * chunk < v.dim ? 16 : 0);
    }
    pkv_cp_commit();
    if constexpr (Store::IS_CODES) {
        ahead->scale = lives ? 1.f : 0.f;
        if (lives && pkv_warp() < k.n_heads)
            ahead->scale =
                pkv__load_number(k.scales, pkv_warp(), (int32_t)block, (int32_t)token, 1);
    }
    ahead->id = mla_fetch_id(c, item, tile + 1);
}

/* ---------------------------------------------------------------- codes */
/* Eight codes from `from` on, as halves. */
template <class Codes> PKV_DEV uint4 mla_halves(const unsigned char *from)
{
    const uint2 codes = pkv_ldv<uint2>(from);
    uint32_t lo[2], hi[2];
    Codes::along(lo, codes.x);
    Codes::along(hi, codes.y);
    return make_uint4(lo[0], lo[1], hi[0], hi[1]);
}
template <> PKV_DEV uint4 mla_halves<pkv_codes_u4>(const unsigned char *from)
{
    uint32_t x[4]; /* i and i + 4 */
    pkv_codes_u4::along(x, pkv_ldv<uint32_t>(from));
    return make_uint4(pkv_prmt(x[0], x[1], 0x5410), pkv_prmt(x[2], x[3], 0x5410),
                      pkv_prmt(x[0], x[1], 0x7632), pkv_prmt(x[2], x[3], 0x7632));
}

/* The warp's rows of a tile. */
template <class Codes, int CODE_BITS>
PKV_DEV void mla_convert_rows(mla_shared *s, int32_t stage, int32_t n_columns)
{
    const int32_t lane = mla_fresh_lane();
    PKV_UNROLL
    for (int32_t i = 0; i < 2 * MLA_ROWS_PER_WARP; i++) {
        const int32_t row = MLA_ROWS_PER_WARP * pkv_warp() + i / 2;
        const int32_t chunk = lane + 32 * (i % 2);
        const unsigned char *from =
            s->latent[1] + (stage * MLA_KEYS + row) * MLA_CODE_BYTES + chunk * CODE_BITS;
        if (8 * chunk < n_columns)
            pkv_stv(s->latent[0] + mla_at(row, MLA_LATENT_BYTES, chunk), mla_halves<Codes>(from));
    }
}

PKV_DEV float mla_code_unit(pkv_dtype dtype)
{
    return dtype == PKV_E4M3 ? pkv_codes_e4m3::unit() : 1.f;
}

/* A tile of codes becomes halves, and its scales go to where they are used. */
PKV_DEV void mla_convert(const struct pkv__cuda_mla &c, mla_shared *s, int32_t stage, float scale)
{
    const pkv_dtype dtype = c.attn.k.dtype;
    if (dtype == PKV_E4M3) mla_convert_rows<pkv_codes_e4m3, 8>(s, stage, c.n_columns);
    if (dtype == PKV_E5M2) mla_convert_rows<pkv_codes_e5m2, 8>(s, stage, c.n_columns);
    if (dtype == PKV_I8) mla_convert_rows<pkv_codes_i8, 8>(s, stage, c.n_columns);
    if (dtype == PKV_U4) mla_convert_rows<pkv_codes_u4, 4>(s, stage, c.n_columns);
    if (pkv_warp() < c.attn.k.n_heads)
        s->scale[pkv_warp()][pkv_lane()] = scale * mla_code_unit(dtype);
}

#endif
