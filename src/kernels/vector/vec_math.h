/* 2^x and tanh from the operations of one level. Included at the end of that level's *_vec.h, and
 * by nothing else. */
#ifndef PKV_VEC_MATH_H
#define PKV_VEC_MATH_H

/* 2^x = 2^n * p(x - n), for x <= 127. The polynomial is the minimax one of degree 5 with p(0) = 1,
 * so that 2^0 is exactly 1; 1.8e-7 relative with its rounding. Down through the subnormals, below
 * 2^-150 everything is 0; NaN stays NaN, since the maximum takes its second operand then. */
PKV_TEMPLATE vec v_exp2(vec x)
{
    x = v_max(v_set1(-160.f), x);
    const vec n = v_round(x);
    const vec f = v_sub(x, n);
    vec p = v_set1(0.00133137999f);
    p = v_fma(p, f, v_set1(0.0096728811f));
    p = v_fma(p, f, v_set1(0.0555057004f));
    p = v_fma(p, f, v_set1(0.240222156f));
    p = v_fma(p, f, v_set1(0.693147063f));
    p = v_fma(p, f, v_set1(1.f));
    return v_scale2(p, n);
}

/* By e^(-2|y|): absolute error below 2^-22, sign and saturation exact, NaN stays NaN. */
PKV_TEMPLATE vec v_tanh(vec y)
{
    const vec one = v_set1(1.f);
    const vec e = v_exp2(v_mul(v_copysign(y, v_set1(-1.f)), v_set1(2.88539008f))); /* 2 log2(e) */
    return v_copysign(v_div(v_sub(one, e), v_add(one, e)), y);
}

#endif
