/* Logarithm, exponential, and normal, gamma and exponential draws made of + - * / and sqrt only.
 * IEEE 754 rounds these the same everywhere, libm's functions differ in the last bit from one
 * version to the next; so one seed gives the same bytes on every platform and compiler. The build
 * turns contraction into fused multiply-adds off. */
#ifndef PKV_DETMATH_H
#define PKV_DETMATH_H

#include "common/philox.h"

/* Natural logarithm of a positive, normal, finite number; within 2 units in the last place. */
double pkv__det_log(double x);
/* e^x for |x| <= 700; within 2 units in the last place. */
double pkv__det_exp(double x);

double pkv__draw_normal(pkv__rng *rng);
/* Mean = shape. shape >= 1/64. */
double pkv__draw_gamma(pkv__rng *rng, double shape);
/* Mean 1. */
double pkv__draw_exponential(pkv__rng *rng);

#endif
