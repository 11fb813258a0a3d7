/* Scales and zero points of codes in the decode kernel; with 16-bit types, what remains of it. */
#ifndef PKV_ATTN_DECODE_FACTORS_CUH
#define PKV_ATTN_DECODE_FACTORS_CUH

#include "kernels/cuda/attn_decode_queries.cuh"

template <class Store, int32_t STAGES> struct pkv__factors {
};

/* From sums of products to logits. */
template <class Shape>
PKV_DEV void pkv__scale_logits(float (&s)[Shape::NT][4], const float (&factor)[Shape::NT][2],
                               const float (&)[Shape::NT][2],
                               const pkv__factors<typename Shape::Store, Shape::STAGES> &)
{
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) s[n][i] *= factor[n][i % 2];
    }
}

/* What the weights are multiplied by before they are rounded; returns what o gets back. */
template <class Shape>
PKV_DEV float pkv__scale_weights(float (&)[Shape::NT][4],
                                 const pkv__factors<typename Shape::Store, Shape::STAGES> &,
                                 pkv__decode_state<Shape> &)
{
    return 1.f;
}

template <class Store>
PKV_DEV void pkv__add_values(float (&o)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float)
{
    pkv_mma16816<typename Store::product>(o, a, b0, b1);
}

#endif
