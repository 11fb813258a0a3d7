/* Latent attention on the device: what its stages share.
 *
 * A CTA takes 64 queries (row of the sequence, query head; in this order) of a sequence against 32
 * keys at a time:
 *
 *   Q    64 x (latent | rope), 16 bit, in shared memory for the whole item
 *   KV   32 x (latent | rope), 16 bit; codes arrive as bytes and become f16 once
 *   S    warp w: queries 16 * (w % 4) .., keys 16 * (w / 4) ..
 *   P    64 x 32 through shared memory, a copy for each part with scales of its own
 *   O    warp w: all 64 queries, an eighth of the latent columns, in registers
 *
 * Columns: element d of part i of the latent lies at i * part_pitch + d, so that where parts have
 * scales of their own a step of 16 columns never holds two of them; between parts are zeros.
 *
 * Tiles begin at multiples of 32 keys: where an item is cut changes no tile. */
#ifndef PKV_ATTN_MLA_CUH
#define PKV_ATTN_MLA_CUH

#include "kernels/cuda/attn_mla.h"
#include "kernels/cuda/attn_numbers.cuh"
#include "kernels/cuda/attn_rows.cuh"
#include "kernels/cuda/attn_spans.cuh"
#include "kernels/cuda/attn_visible.cuh"
#include "kernels/cuda/pkv_dev.cuh"

constexpr int32_t MLA_THREADS = PKV__MLA_THREADS;
constexpr int32_t MLA_WARPS = MLA_THREADS / 32;
constexpr int32_t MLA_QUERIES = PKV__MLA_QUERIES;
constexpr int32_t MLA_KEYS = PKV__MLA_KEYS;
constexpr int32_t MLA_M_TILES = MLA_QUERIES / 16;
constexpr int32_t MLA_PARTS = PKV__MLA_SCALE_PARTS;
constexpr int32_t MLA_LATENT_BYTES = PKV__MLA_LATENT * 2; /* of a row in shared memory */
constexpr int32_t MLA_ROPE_BYTES = PKV__MLA_ROPE * 2;
constexpr int32_t MLA_CODE_BYTES = PKV__MLA_LATENT; /* of a row of codes */
/* 64 bytes of P and 16 more, so that eight rows lie in eight different groups of banks. */
constexpr int32_t MLA_P_BYTES = MLA_KEYS * 2 + 16;
constexpr int32_t MLA_P_COPY = MLA_QUERIES * MLA_P_BYTES;
constexpr int32_t MLA_GROUPS = PKV__MLA_LATENT / 16 / MLA_WARPS; /* of 16 columns, per warp */
constexpr int32_t MLA_ROWS_PER_WARP = MLA_KEYS / MLA_WARPS;      /* of a tile, to be copied */

static_assert(MLA_KEYS == 32, "bits of a tile's keys are a word, its lanes are keys");
static_assert(MLA_WARPS == 2 * MLA_M_TILES, "two warps to 16 queries: 16 keys each");
static_assert(MLA_PARTS <= MLA_WARPS, "a warp fetches the scales of a part");

/* What a store type is to the products. Codes are told apart at run time: they are turned into f16
 * in one place, outside of the loops around mma.
 * P_UNIT: what P, and O with it, are too large by. */
struct mla_f16 {
    using product = __half;
    static constexpr bool IS_BF16 = false, IS_CODES = false;
    static constexpr float P_UNIT = PKV_P_UNIT<product>;
};
struct mla_bf16 {
    using product = __nv_bfloat16;
    static constexpr bool IS_BF16 = true, IS_CODES = false;
    static constexpr float P_UNIT = PKV_P_UNIT<product>;
};
struct mla_codes {
    using product = __half;
    static constexpr bool IS_BF16 = false, IS_CODES = true;
    static constexpr float P_UNIT = PKV_P_UNIT<product>;
};

/* What the line of work needs of a sequence. */
struct mla_sequence {
    int64_t begin; /* of its items in the line */
    int32_t row0, q_len, kv_len;
    int32_t n_items, tile_lo, n_tiles; /* tiles: of each item */
};

/* A piece of work: some keys of up to 64 queries. */
struct mla_item {
    int32_t seq, row0, q_len, kv_len; /* cut to what exists */
    int32_t first_query, n_queries;   /* of the sequence's rows times heads */
    int32_t tile_lo, tile_hi;
    const int32_t *ids; /* NULL: contiguous */
};

/* A lane's chunks of each row: `lane` and `lane + 32`, of codes the first alone. Likewise of
 * sequences: an array per field, so that lanes, or threads, beside each other fill all banks. */
struct mla_places {
    int64_t at[2][32];    /* bytes from the token's row on */
    int32_t bytes[2][32]; /* that exist of 16, the others are zeros; -1: nobody looks at it */
    int32_t q[2][32];     /* first element of q, and of out, of these chunks; -1: there are zeros */
};
struct mla_sequences {
    int64_t begin[MLA_THREADS];
    int32_t row0[MLA_THREADS], q_len[MLA_THREADS], kv_len[MLA_THREADS];
    int32_t n_items[MLA_THREADS], tile_lo[MLA_THREADS], n_tiles[MLA_THREADS];
};

/* Shared memory; registers are for O. Rings have two tiles. Codes: latent[0] is the tile as f16,
 * latent[1] holds the two tiles of bytes; p has MLA_PARTS copies. */
struct mla_shared {
    alignas(128) unsigned char q_latent[MLA_QUERIES * MLA_LATENT_BYTES];
    alignas(128) unsigned char q_rope[MLA_QUERIES * MLA_ROPE_BYTES];
    alignas(128) unsigned char latent[2][MLA_KEYS * MLA_LATENT_BYTES];
    alignas(128) unsigned char rope[2][MLA_KEYS * MLA_ROPE_BYTES];
    float latent_factor[MLA_QUERIES], rope_factor[MLA_QUERIES]; /* from a product to a logit */
    float max[2][MLA_QUERIES];        /* of the keys of either half of a tile */
    float sum[2][MLA_QUERIES];        /* likewise, of all tiles */
    float factor[MLA_QUERIES];        /* that O is multiplied by */
    uint32_t seen[3][MLA_QUERIES];    /* keys of a tile that a query sees */
    uint32_t any[3][2];               /* that any of either half of the queries sees */
    uint32_t odd[3], finite[3];       /* a product was not finite; keys of which one was */
    uint32_t last;                    /* arrived last */
    float scale[MLA_PARTS][MLA_KEYS]; /* of a tile */
    /* Of codes P is p * scale over a power of two, of its own for each part, query and half of the
     * keys: what that power of two, and P_UNIT, are to be made good with. */
    float p_unit[MLA_PARTS][2][MLA_QUERIES];
    mla_item item;
    pkv__part part; /* of the item, that this CTA has */
    /* The line of work: this CTA's span, cost of all items over CTAs, and what remains. No gaps:
     * compilers load neighbours together. */
    int64_t span_lo, span_hi, span_step;
    int32_t n_ctas, span_rest;
    pkv__divider by_ctas;
    int64_t begin; /* of the next chunk of sequences, and its first one */
    int32_t first_seq;
    int32_t next_row, split; /* of attn_batch.cuh; whether items are shared */
    pkv__sight sight;
    /* Worked out once. In registers they would be spilled. */
    mla_places places;                    /* the same in every warp */
    int32_t p_copy[PKV__MLA_LATENT / 16]; /* that a group of columns takes */
    mla_sequences sequences;
    pkv__scan_space<MLA_THREADS> scan;
    alignas(128) unsigned char p[MLA_P_COPY];
};
template <class Store> constexpr int32_t mla_shared_bytes()
{
    return Store::IS_CODES ? PKV__MLA_CODES_SHARED : PKV__MLA_SHARED;
}
static_assert(sizeof(mla_shared) == PKV__MLA_SHARED, "attn_mla.h says how much");
static_assert(PKV__MLA_CODES_SHARED == PKV__MLA_SHARED + (MLA_PARTS - 1) * MLA_P_COPY, "likewise");

/* The lane, in a way that keeps what is made of it from being worked out in front of all loops, and
 * spilled. All lanes of the warp come. */
PKV_DEV int32_t mla_fresh_lane()
{
    return pkv_shfl(pkv_lane(), pkv_lane());
}

/* Where the 16-byte chunk of a row lies: those of one number of eight rows fill all banks. */
PKV_DEV int32_t mla_at(int32_t row, int32_t pitch, int32_t chunk)
{
    return row * pitch + pkv__swizzled(row, chunk) * 16;
}

/* The same for what ldmatrix reads step by step, 16 columns or 32 bytes each: a lane's row and half
 * of the step once, then an exclusive or. */
PKV_DEV int32_t mla_lane_at(int32_t row, int32_t pitch, int32_t half_of_step)
{
    return row * pitch + ((half_of_step ^ (row & 7)) << 4);
}
PKV_DEV int32_t mla_step_at(int32_t lane_at, int32_t step)
{
    return (lane_at ^ (step & 3) << 5) + (step >> 2) * 128;
}

/* The tile that products read. */
template <class Store, class Shared> PKV_DEV auto mla_latent_tile(Shared *s, int32_t stage)
{
    return s->latent[Store::IS_CODES ? 0 : stage] + 0;
}

/* Of 16 queries of a warp's tiles a lane has two: g and g + 8. */
PKV_DEV int32_t mla_query(int32_t lane, int32_t m_tile, int32_t side)
{
    return 16 * m_tile + 8 * side + lane / 4;
}
/* 16-query tiles of an item. */
PKV_DEV int32_t mla_m_tiles(const mla_item &item)
{
    return (item.n_queries + 15) / 16;
}

#endif
